// The script of a session on the server: it hears of what is new, and tells what is wrong.
'use strict';
addEventListener('sessionpage', (event) => {
const page = event.detail, source = document.body.dataset.source;
const $ = (id) => document.getElementById(id);

function make(tag, kind, text) {
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  if (text !== undefined) element.textContent = text;
  return element;
}

const line = make('p'), link = make('a', '', '‹ ');
link.append(make('span', 'word', 'Sessions'));
link.ariaLabel = 'Sessions';
line.id = 'told';
line.role = 'status';
link.href = '../';
$('bar').prepend(link);
$('main').prepend(line);

// A link may lead to an entry that is read only later.
let isFollowed = !location.hash || page.followHash();
function follow() { isFollowed ||= page.followHash(); }

let problem = '', isLost = false;
function tell() {
  const later = isFollowed ? '' : ' The entry of the link is opened then.';
  const text = isLost ? 'The server has ended. Start it again: sessiontree view' : problem || (page.index().part && page.index().part + later) || '';
  line.textContent = text;
  line.hidden = !text;
  document.body.dataset.live = isLost ? 'no' : problem ? 'problem' : page.index().part ? 'part' : 'yes';
}

// A state, made of the one before and a change.
function changed(old, {number, lists, values}) {
  const made = {...old, ...values, number};
  for (const [name, [stays, tail]] of Object.entries(lists)) {
    const before = old[name];
    if (before.all) made[name] = before.with(stays, tail);  // texts
    else if (name === 'kinds') made.kinds = before.slice(0, stays) + tail;
    else if (before instanceof Int32Array) {
      made[name] = new Int32Array(stays + tail.length);
      made[name].set(before.subarray(0, stays));
      made[name].set(tail, stays);
    } else made[name] = [...before.slice(0, stays), ...tail];
  }
  return made;
}

let queue = Promise.resolve(), stream = {close() {}};
const next = (step) => { queue = queue.then(step).catch(() => again()); };

async function again() {
  const found = page.expanded(await page.part('index'));
  await page.adopt(found, 0);
  follow();
  tell();
  listen();
}

function listen() {
  stream.close();
  stream = new EventSource(`${source}/events?from=${page.index().number}`);
  stream.addEventListener('open', () => { isLost = false; tell(); });
  stream.addEventListener('change', (news) => next(async () => {
    const change = JSON.parse(news.data);
    if (change.number !== page.index().number + 1) return;
    document.title = change.title;
    $('title').textContent = change.title;
    await page.adopt(changed(page.index(), change), change.same, change.changed);
    follow();
    tell();
  }));
  stream.addEventListener('again', () => next(again));
  stream.addEventListener('problem', (news) => { problem = news.data; tell(); });
  stream.addEventListener('error', () => {
    isLost = true;
    tell();
    stream.close();
    setTimeout(() => { if (!document.hidden) listen(); }, 1000);
  });
}

// ---- two branches side by side

function button(words, does) {
  const made = make('button', '', words);
  made.type = 'button';
  made.addEventListener('click', does);
  return made;
}

function dialog(title) {
  const made = make('dialog', 'asked');
  made.append(make('h2', '', title));
  document.body.append(made);
  made.addEventListener('close', () => made.remove());
  return made;
}

async function compare() {
  const found = await page.part('branches'), made = dialog('Two branches side by side');
  if (found.length < 2) made.append(make('p', '', 'This session has one branch.'));
  const current = Math.max(0, found.findIndex((one) => one.current));
  const choices = found.length < 2 ? [] : [current, current ? current - 1 : 1].map((chosen) => {
    const select = make('select');
    select.ariaLabel = 'Branch';
    select.append(...found.map((one) => Object.assign(make('option', '', (one.current ? '● ' : '○ ') + one.words), {value: one.leaf})));
    select.selectedIndex = chosen;
    return select;
  });
  const go = () => { location.href = `${source}/compare?one=${encodeURIComponent(choices[1].value)}&other=${encodeURIComponent(choices[0].value)}`; };
  const last = make('p');
  last.append(...(choices.length ? [button('Compare', go), ' '] : []), button('Close', () => made.close()));
  made.append(...choices.slice().reverse(), last);
  made.showModal();
}

// ---- one entry: the context there, and commands to copy

let commands = null;
const isPlain = (uuid) => /^[A-Za-z0-9_][A-Za-z0-9_.:-]*$/.test(uuid);

async function entry(uuid) {
  const made = dialog('This entry');
  const name = make('p');
  name.append(make('code', '', uuid));
  const link = make('a', '', 'As the model saw it here');
  link.href = `${source}/seen?at=${encodeURIComponent(uuid)}`;
  const first = make('p');
  first.append(link, ' ', button('Copy the link', () => copy(location.href.replace(/#.*/, '') + '#' + encodeURIComponent(uuid))));
  made.append(name, first);
  commands ||= (await page.part('about')).commands;
  for (const {does, command} of commands) {
    if (command.includes('{uuid}') && !isPlain(uuid)) continue;
    const text = command.replaceAll('{uuid}', uuid), line = make('div', 'command');
    line.append(make('span', 'dim', does), make('pre', '', text), button('Copy', () => copy(text)));
    made.append(line);
  }
  if (!isPlain(uuid)) made.append(make('p', 'dim', 'The uuid has special characters, so there are no commands for it.'));
  const last = make('p');
  last.append(button('Close', () => made.close()));
  made.append(last);
  made.showModal();
}

function copy(text) {
  navigator.clipboard.writeText(text).then(() => said('Copied'), () => said('The browser did not copy it'));
}

let timer = 0;
function said(text) {
  const told = $('said');
  told.textContent = text;
  told.hidden = false;
  clearTimeout(timer);
  timer = setTimeout(() => { told.hidden = true; }, 2000);
}

const told = make('output', 'chip');
told.id = 'said';
told.hidden = true;
const branches = button('Two branches side by side', compare);
$('bar').append(told);
$('filter').before(branches);
$('list').addEventListener('click', (event) => {
  const link = event.target.closest('a.at');
  if (link) entry(decodeURIComponent(new URL(link.href).hash.slice(1)));
});

// A browser opens few connections to one server, so a tab that nobody sees holds none.
document.addEventListener('visibilitychange', () => { if (document.hidden) stream.close(); else listen(); });
addEventListener('pagehide', () => stream.close());
tell();
if (!document.hidden) listen();
});
