// The script of the list. It draws the rows that are on the screen, as text.
'use strict';
(() => {
const $ = (id) => document.getElementById(id);
const main = $('main'), rows = $('rows'), above = $('above'), below = $('below');
const HEIGHT = 56, EVERY = 5000;
let all = [], shown = [], elements = new Map();

function make(tag, kind, text) {
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  if (text !== undefined) element.textContent = text;
  return element;
}

const size = (bytes) => (bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} KB` : `${(bytes / 1e6).toFixed(1)} MB`);

function when(text) {
  const moment = new Date(text), seconds = (Date.now() - moment) / 1000;
  if (!(seconds >= 0)) return text;
  for (const [unit, name] of [[86400, 'd'], [3600, 'h'], [60, 'min']]) {
    if (seconds >= unit && seconds < 30 * 86400) return `${Math.floor(seconds / unit)} ${name} ago`;
  }
  return seconds < 60 ? 'now' : moment.toLocaleDateString();
}

function fillRow(row, one) {
  row.href = '/s/' + one.id;
  row.role = 'listitem';
  const time = make('time', '', when(one.modified));
  time.title = one.modified;
  const facts = [one.model, one.turns === null ? '' : `${one.turns.toLocaleString()} ${one.turns === 1 ? 'turn' : 'turns'}`,
    one.cost ? `$${one.cost.toFixed(2)}` : '', size(one.bytes), one.note, one.cwd, one.session.slice(0, 8)];
  const small = make('small');
  small.append(make('i', '', one.agent), ' · ' + facts.filter(Boolean).join(' · '));
  row.replaceChildren(time, make('b', '', one.title), small);
}

function draw() {
  const top = Math.max(0, main.scrollTop - above.offsetTop);
  const first = Math.max(0, Math.floor(top / HEIGHT) - 4);
  const last = Math.min(shown.length, first + Math.ceil(main.clientHeight / HEIGHT) + 8);
  const drawn = new Map();
  shown.slice(first, last).forEach((one, at) => {
    const facts = JSON.stringify(one), element = elements.get(one.id) || make('a', 'session');
    if (element.facts !== facts) fillRow(element, one);
    element.facts = facts;
    drawn.set(one.id, element);
    if (rows.children[at] !== element) rows.insertBefore(element, rows.children[at] || null);
  });
  while (rows.children.length > drawn.size) rows.lastChild.remove();
  elements = drawn;
  above.style.height = first * HEIGHT + 'px';
  below.style.height = (shown.length - last) * HEIGHT + 'px';
}

const key = {
  modified: (one) => -Date.parse(one.modified), cost: (one) => -(one.cost || 0), turns: (one) => -(one.turns || 0),
  bytes: (one) => -one.bytes, title: (one) => one.title.toLowerCase(),
};

function choose() {
  const words = $('words').value.toLowerCase().split(/\s+/).filter(Boolean);
  const agent = $('agent').value, project = $('project').value, by = key[$('order').value];
  shown = all.filter((one) => (!agent || one.agent === agent) && (!project || one.cwd === project)
    && words.every((word) => one.known.includes(word)));
  shown.sort((a, b) => (by(a) < by(b) ? -1 : by(a) > by(b) ? 1 : 0));
  $('count').textContent = shown.length === all.length ? all.length.toLocaleString() : `${shown.length.toLocaleString()} of ${all.length.toLocaleString()}`;
  draw();
}

function fill(select, values) {
  const chosen = select.value, counts = new Map();
  for (const value of values) if (value) counts.set(value, (counts.get(value) || 0) + 1);
  const first = select.options[0];
  select.replaceChildren(first, ...[...counts].sort((a, b) => b[1] - a[1]).slice(0, 200).map(([value, count]) => {
    const option = make('option', '', `${value} (${count})`);
    option.value = value;
    return option;
  }));
  select.value = counts.has(chosen) ? chosen : '';
}

async function read(counted) {
  const answer = await fetch('/sessions' + (counted ? '?counted=1' : ''));
  if (!answer.ok) throw new Error(await answer.text());
  const found = await answer.json();
  const before = new Map(all.map((one) => [one.id, one]));
  all = found.sessions;
  for (const one of all) {
    const old = before.get(one.id);
    if (one.turns === null && old) Object.assign(one, {turns: old.turns, cost: old.cost, model: old.model});
    one.known = [one.title, one.agent, one.model, one.cwd, one.session, one.note].join('\n').toLowerCase();
  }
  fill($('agent'), all.map((one) => one.agent));
  fill($('project'), all.map((one) => one.cwd));
  $('note').hidden = all.length > 0 && !found.problems.length;
  $('note').textContent = found.problems.length ? `Left out: ${found.problems.join(' · ')}` : 'There is no session here.';
  choose();
}

let isReading = false;
async function again() {
  if (isReading || document.hidden) return;
  isReading = true;
  try { await read(true); } catch (error) {
    $('note').hidden = false;
    $('note').textContent = 'The server does not answer. Start it again: sessiontree view';
  }
  isReading = false;
}

for (const name of ['words', 'agent', 'project', 'order']) $(name).addEventListener('input', () => { main.scrollTop = 0; choose(); });
$('choose').addEventListener('submit', (event) => { event.preventDefault(); if (shown.length) location.href = '/s/' + shown[0].id; });
main.addEventListener('scroll', draw, {passive: true});
addEventListener('resize', draw);
document.addEventListener('visibilitychange', again);
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, select')) return;
  if (event.key === '/' || event.key === 'f') { event.preventDefault(); $('words').focus(); }
});
read(false).then(() => { document.body.dataset.ready = 'yes'; return again(); }).then(() => setInterval(again, EVERY));
})();
