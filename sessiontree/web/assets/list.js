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

// A hit of the search of the texts: where it is, and the words around it.
function fillHit(row, hit) {
  row.href = `s/${hit.id}#${encodeURIComponent(hit.uuid)}`;
  const time = make('time', '', when(hit.modified)), words = make('b'), small = make('small');
  const letters = [...hit.snippet], part = (from, to) => letters.slice(from, to).join('');
  let at = 0;
  for (const [start, end] of hit.matches) {
    words.append(part(at, start), make('mark', '', part(start, end)));
    at = end;
  }
  words.append(part(at));
  const facts = [hit.title, hit.turn === null ? '' : `turn ${hit.turn}`, hit.speaker];
  small.append(make('i', '', hit.agent), ' · ' + facts.filter(Boolean).join(' · '));
  row.replaceChildren(time, words, small);
}

function fillRow(row, one) {
  if (one.uuid !== undefined) { fillHit(row, one); return; }
  row.href = 's/' + one.id;
  const time = make('time', '', when(one.modified));
  time.title = one.modified;
  const facts = [one.model, one.turns === null ? '' : `${one.turns.toLocaleString()} ${one.turns === 1 ? 'turn' : 'turns'}`,
    one.paid, size(one.bytes), one.note, one.cwd, one.session.slice(0, 8)];
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
    const key = one.uuid === undefined ? one.id : first + at;
    const facts = JSON.stringify(one), element = elements.get(key) || make('a', 'session');
    if (element.facts !== facts) fillRow(element, one);
    element.facts = facts;
    drawn.set(key, element);
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

// ---- the search of the texts

let searching = null;

async function search(words) {
  leave();
  const controller = searching = new AbortController(), hits = [];
  const given = new URLSearchParams({q: words, agent: $('agent').value, project: $('project').value});
  history.replaceState(null, '', '#' + encodeURIComponent(words));
  const tell = (state) => {
    $('foundtext').textContent = `${hits.length.toLocaleString()} ${hits.length === 1 ? 'hit' : 'hits'} for ${words}${state}`;
    shown = hits;
    draw();
  };
  $('found').hidden = false;
  main.scrollTop = 0;
  tell(' · searching …');
  let state = '', rest = '', drawn = 0;
  try {
    const answer = await fetch('search?' + given, {signal: controller.signal});
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let read; !(read = await reader.read()).done;) {
      const lines = (rest + read.value).split('\n');
      rest = lines.pop();
      for (const line of lines) {
        const found = JSON.parse(line);
        if (found.uuid !== undefined) hits.push(found);
        else state = (found.all === false ? ' · there are more' : '') + (found.problems.length ? ` · left out: ${found.problems.join(' · ')}` : '');
      }
      if (performance.now() - drawn > 100) { tell(' · searching …'); drawn = performance.now(); }
    }
    tell(state);
  } catch (error) {
    if (controller === searching) tell(' · the server does not answer');
  }
}

function leave() {
  if (searching) searching.abort();
  searching = null;
  $('found').hidden = true;
}

function choose() {
  if (searching) return;
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
  const answer = await fetch('sessions' + (counted ? '?counted=1' : ''));
  if (!answer.ok) throw new Error(await answer.text());
  const found = await answer.json();
  const before = new Map(all.map((one) => [one.id, one]));
  all = found.sessions;
  for (const one of all) {
    const old = before.get(one.id);
    if (one.turns === null && old) Object.assign(one, {turns: old.turns, cost: old.cost, paid: old.paid, model: old.model});
    one.known = [one.title, one.agent, one.model, one.cwd, one.session, one.note].join('\n').toLowerCase();
  }
  fill($('agent'), all.map((one) => one.agent));
  fill($('project'), all.map((one) => one.cwd));
  $('note').hidden = all.length > 0 && !found.problems.length;
  $('note').textContent = found.problems.length ? `Left out: ${found.problems.join(' · ')}` : `There is no session in ${found.places.join(', ')}.`;
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
function back() {
  leave();
  history.replaceState(null, '', location.pathname);
  choose();
}

$('words').addEventListener('input', () => { if (searching) back(); }, {capture: true});
$('back').addEventListener('click', back);
$('choose').addEventListener('submit', (event) => {
  event.preventDefault();
  const words = $('words').value.trim();
  if (words) search(words);
});
main.addEventListener('scroll', draw, {passive: true});
addEventListener('resize', draw);
document.addEventListener('visibilitychange', again);
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && searching) { back(); return; }
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, select')) return;
  if (event.key === '/' || event.key === 'f') { event.preventDefault(); $('words').focus(); }
});
const asked = decodeURIComponent(location.hash.slice(1));
read(false).then(() => { if (asked) { $('words').value = asked; search(asked); } }).then(() => { document.body.dataset.ready = 'yes'; return again(); }).then(() => setInterval(again, EVERY));
})();
