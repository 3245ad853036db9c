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

const line = make('p'), link = make('a', '', 'Sessions');
line.id = 'told';
line.role = 'status';
link.href = '/';
$('bar').prepend(link);
$('main').prepend(line);

let problem = '', isLost = false;
function tell() {
  const text = isLost ? 'The server has ended. Start it again: sessiontree view' : problem || page.index().part || '';
  line.textContent = text;
  line.hidden = !text;
  document.body.dataset.live = isLost ? 'no' : problem ? 'problem' : page.index().part ? 'part' : 'yes';
}

// A state, made of the one before and a change.
function changed(old, {number, lists, values}) {
  const made = {...old, ...values, number};
  for (const [name, [stays, tail]] of Object.entries(lists)) {
    const before = old[name];
    if (name === 'uuids') made.uuids = [...before.split('\n').slice(0, stays), ...tail].join('\n');
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

// A browser opens few connections to one server, so a tab that nobody sees holds none.
document.addEventListener('visibilitychange', () => { if (document.hidden) stream.close(); else listen(); });
addEventListener('pagehide', () => stream.close());
tell();
if (!document.hidden) listen();
});
