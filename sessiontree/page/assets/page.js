// The script of the page. It shows a window of the rows, and opens the chunks with them when they
// are needed. Everything it inserts as HTML was made and escaped by sessiontree.
'use strict';
(() => {
const $ = (id) => document.getElementById(id);
const main = $('main'), list = $('list'), above = $('above'), below = $('below');
const HIDDEN = 'z';
const BEYOND = 500, MOST_NODES = 1300, KEPT_CHUNKS = 4, MOST_PASSES = 20;

// ---- data

let index, chunkOf = new Map();
const source = document.body.dataset.source;

// The parts of the data, by name, are inside the file, or a server has them.
async function part(name) {
  if (!source) return unpack(name);
  const answer = await fetch(`${source}/${name}`);
  if (!answer.ok) throw new Error(`${answer.status} ${name}`);
  return answer.json();
}

const partName = (chunk) => (index.names ? index.names[chunk] : 'c' + chunk);

async function unpack(id) {
  const bytes = Uint8Array.from(atob($(id).textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return JSON.parse(await new Response(stream).text());
}

function summed(differences) {
  let sum = 0;
  return Int32Array.from(differences, (one) => (sum += one));
}

function chunkNumber(row) {
  let low = 0, high = index.chunks.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (index.chunks[middle] <= row) low = middle; else high = middle - 1;
  }
  return low;
}

function loaded(row) {
  const number = chunkNumber(row), name = partName(number), chunk = chunkOf.get(name);
  if (!chunk || chunk instanceof Promise) return null;
  chunkOf.delete(name); chunkOf.set(name, chunk);  // the one used last is let go last
  return chunk[row - index.chunks[number]];
}

async function load(row) {
  const number = chunkNumber(row), name = partName(number), first = index.chunks[number];
  if (!chunkOf.has(name)) chunkOf.set(name, part(name));
  const chunk = await Promise.resolve(chunkOf.get(name)).catch((error) => { chunkOf.delete(name); throw error; });
  chunkOf.set(name, chunk);
  for (const old of chunkOf.keys()) {
    if (chunkOf.size <= KEPT_CHUNKS) break;
    if (!(chunkOf.get(old) instanceof Promise) && old !== name) chunkOf.delete(old);
  }
  return chunk[row - first];
}

async function bodyOf(row) {
  const [, body] = await load(row);
  return typeof body === 'number' ? (await load(body))[1] : body;
}

const NAME = 0, ABOVE = 1, FORK = 2, SUB = 3, FIRST = 4, END = 5, DID = 6, NAMES = 7;
let children;  // of each turn the turns below it, in the order of the layout

function turnOf(row) {
  let low = 0, high = index.turns.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (index.turns[middle][FIRST] <= row) low = middle; else high = middle - 1;
  }
  const turn = index.turns[low];
  return turn && turn[FIRST] <= row && row < turn[END] ? low : -1;
}

// Many texts, kept as bytes: strings would take several times the memory.
const DECODER = new TextDecoder(), ENCODER = new TextEncoder(), STEP = 16;
class Texts {
  constructor(texts) {
    this.bytes = ENCODER.encode(texts.join('\n') + '\n');
    this.length = texts.length;
    this.starts = new Int32Array(Math.ceil(texts.length / STEP));  // of each text in so many
    for (let n = 0, at = 0; n < texts.length; n++, at = this.end(at) + 1) if (n % STEP === 0) this.starts[n / STEP] = at;
  }
  end(start) { return this.bytes.indexOf(10, start); }
  start(n) {
    let at = this.starts[Math.floor(n / STEP)];
    for (let left = n % STEP; left; left--) at = this.end(at) + 1;
    return at;
  }
  at(n) { const start = this.start(n); return DECODER.decode(this.bytes.subarray(start, this.end(start))); }
  size(n) { const start = this.start(n); return this.end(start) - start; }
  all() { return DECODER.decode(this.bytes).split('\n').slice(0, this.length); }
  with(stays, tail) { return new this.constructor([...this.all().slice(0, stays), ...tail]); }
  find(text, isStart) { return this.all().findIndex((one) => (isStart ? one.startsWith(text) : one === text)); }
}

// Uuids of the usual form take 16 bytes each; others are texts.
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const HEX = Array.from({length: 256}, (_, n) => n.toString(16).padStart(2, '0'));
class Uuids {
  constructor(texts) {
    this.others = texts.every((one) => UUID.test(one)) ? null : new Texts(texts);
    this.length = texts.length;
    this.bytes = new Uint8Array(this.others ? 0 : 16 * texts.length);
    if (!this.others) texts.forEach((one, n) => this.bytes.set(this.packed(one), 16 * n));
  }
  packed(uuid) { return uuid.replaceAll('-', '').match(/../g).map((two) => parseInt(two, 16)); }
  at(n) {
    if (this.others) return this.others.at(n);
    let text = '';
    for (let k = 0; k < 16; k++) text += (k === 4 || k === 6 || k === 8 || k === 10 ? '-' : '') + HEX[this.bytes[16 * n + k]];
    return text;
  }
  all() { return Array.from({length: this.length}, (_, n) => this.at(n)); }
  with(stays, tail) { return new this.constructor([...this.all().slice(0, stays), ...tail]); }
  find(text, isStart) {
    if (this.others) return this.others.find(text, isStart);
    if (!isStart && !UUID.test(text)) return -1;
    for (let n = 0; n < this.length; n++) {
      if (HEX[this.bytes[16 * n]] === text.slice(0, 2) && this.at(n).startsWith(text)) return n;
    }
    return -1;
  }
}
const lines = (joined, length) => (length ? joined.split('\n') : []);

const uuidAt = (entry) => index.uuids.at(entry);
const gistAt = (row) => index.gists.at(row);
const entryOf = (uuid, isStart) => (uuid ? index.uuids.find(uuid, isStart) : -1);

function expanded(found) {
  for (const name of ['times', 'rowOf', 'entryOf']) found[name] = summed(found[name]);
  for (const name of ['above', 'tokens']) found[name] = Int32Array.from(found[name]);
  found.gists = new Texts(lines(found.gists, found.kinds.length));
  found.uuids = new Uuids(lines(found.uuids, found.rowOf.length));
  return found;
}

function prepare() {
  children = new Map();
  for (const [turn] of index.layout) {
    const parent = index.turns[turn][ABOVE];
    if (children.has(parent)) children.get(parent).push(turn); else children.set(parent, [turn]);
  }
}

const uuidOf = (row) => (index.entryOf[row] >= 0 ? uuidAt(index.entryOf[row]) : '');

function labelOf(row) {
  const uuid = uuidOf(row);
  return uuid && Object.hasOwn(index.labels, uuid) && index.rowOf[index.entryOf[row]] === row ? index.labels[uuid] : '';
}

// ---- what the list shows: numbers of rows, and notes of branches

let shown = [], depths = [], heights = [], notes = new Map();
let tip = -1, mode = {kind: 'all'}, preset = 'default';
const open = new Set(), spread = new Set();

function pathTo(turn) {
  const path = [];
  for (let at = turn; at >= 0 && path.length <= index.turns.length; at = index.turns[at][ABOVE]) path.push(at);
  return path.reverse();
}

function lastBelow(turn) {
  for (let found; (found = children.get(turn)); turn = found[found.length - 1]);
  return turn;
}

function place(row, depth) {
  if (index.kinds[row] === HIDDEN && preset !== 'all') return;
  shown.push(row); depths.push(Math.min(depth, 4));
  if (!spread.has(row)) return;
  for (const turn of index.agents[row] || []) {
    for (let r = index.turns[turn][FIRST]; r < index.turns[turn][END]; r++) place(r, depth + 1);
  }
  for (const call of index.files[row] || []) place(call, depth + 1);
}

function note(text, turns, depth) {
  const id = -2 - notes.size;
  notes.set(id, {text, turns});
  shown.push(id); depths.push(depth);
}

function build() {
  shown = []; depths = []; notes = new Map();
  const rows = index.kinds.length;
  if (mode.kind === 'changes') {
    for (let row = 0; row < rows; row++) if (index.kinds[row] === 'F') place(row, 0);
  } else {
    if (mode.kind === 'all') shown.push(rows - 1), depths.push(0);
    const preface = index.turns.length ? index.turns[0][FIRST] : index.kinds.search(/[FO]/);
    for (let row = 0; row < preface; row++) place(row, 0);
    const path = pathTo(tip);
    path.forEach((turn, at) => buildTurn(turn, path[at + 1]));
    const last = mode.kind === 'model' ? shown.indexOf(mode.end) + 1 : 0;
    if (last) shown.length = depths.length = last;
  }
  shown = Int32Array.from(shown); depths = Uint8Array.from(depths);
  heights = new Float32Array(shown.length);
  shown.forEach((row, at) => (heights[at] = estimate(row)));
}

function buildTurn(turn, next) {
  const [, , , , first, end] = index.turns[turn];
  const stop = next === undefined ? end : index.turns[next][FORK];
  const others = (children.get(turn) || []).filter((one) => one !== next);
  const at = new Map();
  for (const one of others) {
    const where = Math.min(index.turns[one][FORK], stop);
    at.set(where, [...(at.get(where) || []), one]);
  }
  for (let row = first; row < stop; row++) {
    place(row, 0);
    if (at.has(row + 1)) note('Other branches from here', at.get(row + 1), 0);
  }
  if (stop < end && index.kinds.slice(stop, end).replace(/z/g, '')) {
    note('This turn goes on on another branch', [turn], 0);
  }
}

function estimate(row) {
  if (row < 0) return 34;
  const kind = index.kinds[row], length = index.gists.size(row);
  return {u: 60, a: 40 + length, O: 500, T: 46, k: 50, y: 50}[kind] || 30;
}

// ---- the window of the list that is in the page

let from = 0, to = 0, anchor = 0, delta = 0, elements = new Map();
let isAtEnd = false;  // whether the end stays on the screen while rows get their heights
for (const kind of ['wheel', 'touchmove', 'pointerdown', 'keydown']) {
  addEventListener(kind, () => { isAtEnd = false; }, {passive: true, capture: true});
}

function top_(at) {
  let sum = 0;
  for (let i = 0; i < at; i++) sum += heights[i];
  return sum;
}

function noteAnchor() {
  let y = 0, at = 0;
  const scrolled = main.scrollTop - above.offsetTop;
  while (at < shown.length - 1 && y + heights[at] <= scrolled) y += heights[at++];
  anchor = at; delta = scrolled - y;
}

// Rows are chosen by the heights they had, or are guessed to have. Once they are drawn, they may be
// smaller, or the end of the list may stop the scrolling, so that the screen needs others: again.
function draw() {
  if (!shown.length) { list.replaceChildren(); above.style.height = below.style.height = '0'; return; }
  drawOnce();
  for (let passes = 1; passes < MOST_PASSES && !isFull(); passes++) { noteAnchor(); drawOnce(); }
  drawHits();
  markTree();
}

function isFull() {
  const start = main.scrollTop - above.offsetTop, end = start + main.clientHeight;
  return (from === 0 || top_(from) <= start + 1) && (to === shown.length || top_(to) >= end - 1);
}

function drawOnce() {
  anchor = Math.max(0, Math.min(anchor, shown.length - 1));
  let room = main.clientHeight + BEYOND - Math.max(0, -delta);
  from = anchor;
  for (let before = BEYOND - delta; from > 0 && before > 0;) before -= heights[--from];
  to = anchor;
  for (let left = room + delta; to < shown.length && left > 0;) left -= heights[to++];
  const drawn = new Map();
  let nodes = 0, end = -delta;  // where a row ends on the screen
  for (let at = from; at < to; at++) {
    const key = shown[at] + '/' + at, element = elements.get(key) || rowElement(at);
    drawn.set(key, element);
    nodes += element.nodes;
    if (at >= anchor) end += heights[at];
    if (nodes > MOST_NODES && at >= anchor && end > main.clientHeight) { to = at + 1; break; }
  }
  elements = drawn;
  const wanted = [...drawn.values()];
  wanted.forEach((element, at) => {
    if (list.children[at] !== element) list.insertBefore(element, list.children[at] || null);
  });
  while (list.children.length > wanted.length) list.lastChild.remove();
  const tops = wanted.map((element) => element.getBoundingClientRect().top);  // margins count
  tops.push(list.getBoundingClientRect().bottom);
  for (let at = from; at < to; at++) heights[at] = tops[at - from + 1] - tops[at - from] || heights[at];
  if (delta >= heights[anchor]) delta = 0;  // the row at the top was folded
  above.style.height = top_(from) + 'px';
  let rest = 0;
  for (let at = to; at < shown.length; at++) rest += heights[at];
  below.style.height = rest + 'px';
  const goal = Math.max(0, above.offsetTop + top_(anchor) + delta);
  if (isAtEnd && to === shown.length) main.scrollTop = main.scrollHeight;
  else if (Math.abs(main.scrollTop - goal) >= 0.5) main.scrollTop = goal;
}

let isWaiting = false;
function soon() {
  if (isWaiting) return;
  isWaiting = true;
  requestAnimationFrame(() => { isWaiting = false; draw(); });
}

main.addEventListener('scroll', () => {
  noteAnchor();
  const end = main.scrollTop + main.clientHeight - above.offsetTop;
  const first = top_(from), last = top_(to);
  const isInside = (from === 0 || first < end - main.clientHeight - 150) && (to === shown.length || last > end + 150);
  if (!isInside) soon(); else markTree();
}, {passive: true});
addEventListener('resize', () => { noteAnchor(); soon(); });
list.addEventListener('load', () => { if (!isAtEnd) noteAnchor(); soon(); }, {capture: true});  // an image has its height now

function make(tag, kind, text) {
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  if (text !== undefined) element.textContent = text;
  return element;
}

function rowElement(at) {
  const row = shown[at];
  if (row < 0) return noteElement(notes.get(row));
  const element = make('div', `row k-${index.kinds[row]} d${depths[at]}`);
  element.dataset.row = row;
  element.nodes = 8;
  if (mode.kind === 'model' && !mode.has(row)) element.classList.add('gone');
  if (row === targeted) element.classList.add('aim');
  element.style.minHeight = heights[at] + 'px';  // until its content is there
  const packed = loaded(row);
  if (packed) fill(element, row, packed);
  else {
    element.textContent = gistAt(row);
    load(row).then((found) => { fill(element, row, found); noteAnchor(); soon(); });
  }
  return element;
}

function fill(element, row, [head, body]) {
  element.replaceChildren();
  const uuid = uuidOf(row), seconds = index.times[row];
  let isWhole = true;
  if (uuid) {
    const link = make('a', 'at', seconds ? clock(seconds) : '#');
    link.href = '#' + encodeURIComponent(uuid);
    link.title = (seconds ? new Date(seconds * 1000).toLocaleString() + ' · ' : '') + uuid;
    element.append(link);
  }
  if (body === undefined && !isFolder(row)) {
    const holder = make('div', 'head');
    holder.innerHTML = head;
    element.append(holder);
  } else {
    const details = make('details'), summary = make('summary'), inside = make('div', 'body');
    summary.innerHTML = head;
    details.append(summary, inside);
    details.open = open.has(row) || spread.has(row);
    isWhole = !details.open || body === undefined;
    if (!isWhole) show(row, element, inside);
    details.addEventListener('toggle', () => toggled(row, element, details, inside, body !== undefined));
    element.append(details);
  }
  if (row === targeted && uuid && !'Tk'.includes(index.kinds[row])) {
    const button = make('button', 'saw', 'as the model saw it');
    button.type = 'button'; button.dataset.do = 'model';
    element.append(button);
  }
  const label = labelOf(row);
  if (label) element.firstChild.after(make('span', 'chip label', label));
  element.nodes = element.querySelectorAll('*').length + 1;
  if (isWhole) element.style.minHeight = '';
}

async function show(row, element, inside) {
  inside.innerHTML = await bodyOf(row);
  element.style.minHeight = '';
  noteAnchor(); soon();
}

const isFolder = (row) => row in index.agents || row in index.files;

function fold(row, isOpen) {
  if (isOpen) open.add(row); else open.delete(row);
  if (isFolder(row) && isOpen) spread.add(row); else spread.delete(row);
}

function toggled(row, element, details, inside, hasBody) {
  if (!details.isConnected || details.open === (open.has(row) || spread.has(row))) return;
  fold(row, details.open);
  element.style.minHeight = '';
  if (!details.open) inside.replaceChildren();
  else if (hasBody) show(row, element, inside);
  noteAnchor();
  if (isFolder(row)) rebuild(); else soon();
}

function noteElement({text, turns}) {
  const element = make('div', 'row k-z');
  element.append(make('span', 'who', text + ': '));
  for (const turn of turns.slice(0, 12)) {
    const link = make('a', '', `○ ${index.turns[turn][NAMES][0] || index.turns[turn][NAME]} ${gistAt(index.turns[turn][FIRST])}`.slice(0, 90));
    link.href = '#' + encodeURIComponent(uuidOf(index.turns[turn][FIRST]));
    link.addEventListener('click', (event) => { event.preventDefault(); showPath(lastBelow(turn)); jump(index.turns[turn][FIRST]); });
    element.append(link, ' ');
  }
  element.nodes = 3 + turns.length;
  return element;
}

const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], {hour: '2-digit', minute: '2-digit'});

function rebuild() {
  const before = shown.subarray(0, anchor + 1), known = new Map();
  shown.forEach((row, at) => { if (row >= 0) known.set(row, heights[at]); });
  build();
  const places = new Map();
  shown.forEach((row, at) => { if (row >= 0) { places.set(row, at); heights[at] = known.get(row) ?? heights[at]; } });
  const kept = before.findLastIndex((row) => places.has(row));  // its own row may be folded away
  if (kept < anchor) delta = 0;
  anchor = kept < 0 ? 0 : places.get(before[kept]);
  elements = new Map();
  draw();
}

function showPath(turn) {
  if (turn === tip) return;
  tip = turn;
  rebuild(); drawTree();
}

// ---- going to a row

let targeted = -1;

function reach(row) {
  if (shown.includes(row)) return;
  if (index.kinds[row] === HIDDEN && preset !== 'all') choose('all');
  const turn = turnOf(row);
  if (turn < 0) { setMode({kind: index.kinds[row] === 'F' ? 'changes' : 'all'}); return; }
  if (mode.kind !== 'all') setMode({kind: 'all'});
  const holder = Object.keys(index.agents).find((one) => index.agents[one].includes(turn));
  if (holder !== undefined && index.turns[turn][SUB]) {
    if (!spread.has(+holder)) { spread.add(+holder); reach(+holder); rebuild(); }
    return;
  }
  if (!pathTo(tip).includes(turn) || !shown.includes(row)) showPath(lastBelow(turn));
  if (!shown.includes(row)) { tip = turn; rebuild(); }
}

function jump(row, opened) {
  reach(row);
  if (opened) open.add(row);
  const at = shown.indexOf(row);
  if (at < 0) return;
  targeted = row;
  isAtEnd = false;
  anchor = at; delta = -Math.min(60, main.clientHeight / 5);
  elements = new Map();
  draw();
  load(row).then(() => { if (targeted === row && shown.includes(row)) { anchor = shown.indexOf(row); delta = -60; draw(); } });
}

function followHash() {
  const wanted = decodeURIComponent(location.hash.slice(1));
  if (!wanted) return false;
  let found = entryOf(wanted);
  if (found < 0 && wanted.length >= 4) found = entryOf(wanted, true);
  if (found < 0) return false;
  jump(index.rowOf[found], true);
  return true;
}
addEventListener('hashchange', followHash);

// ---- what the model saw, and what changed

function setMode(wanted) {
  mode = wanted;
  $('state').hidden = mode.kind === 'all';
  $('statetext').textContent = mode.text || '';
  rebuild();
}

// A path is folded as `sessiontree.context.fold` does it; see `sessiontree.page.contexts`.

const NOTHING = -1, HEADER = -1, ALL = -2, MOST_MERGED = 1e6;

// The entries that count at the end of a path, the oldest first; a compaction before what it keeps.
function visible(last, base, isMerged) {
  const {kept, cut} = index.rules, path = [];
  let compaction = -1, isFound = false, at = last;
  for (; at >= 0 && at !== base; at -= index.above[at]) {
    path.push(at);
    if (compaction < 0) {
      if (kept[at] === undefined) continue;
      compaction = at;
      if (kept[at] === at) { isFound = true; break; }
    } else if (at === kept[compaction]) { isFound = true; break; }
  }
  if (isMerged && at === HEADER && base !== HEADER) return [];  // the base is not above
  path.reverse();
  if (compaction < 0) return path;
  isFound ||= kept[compaction] === ALL;
  const isCut = cut === ALL || (cut >= 0 && path[0] === cut), place = path.indexOf(compaction);
  const before = isFound || isMerged || isCut ? path.slice(0, place).filter((one) => kept[one] === undefined) : [];
  return [compaction, ...before, ...path.slice(place + 1)];
}

// The first piece of a message that was written in pieces; any other entry is its own.
const whole = (entry) => index.rules.pieces[entry] ?? entry;

function editsOf(path) {
  const edits = new Map();
  for (const entry of path) {
    const edit = index.rules.edits[entry];
    if (edit) edits.set(whole(edit[0]), edit[1]);
  }
  return edits;
}

class Had {
  constructor(own) { this.own = new Set(own); this.entries = new Set(); this.messages = this.tokens = 0; this.seen = new Set(); this.read = 0; this.calls = new Map(); }

  take(entry, edits) {
    if (index.tokens[entry] === NOTHING) return;
    const first = whole(entry), edit = edits.get(first), isFirst = !this.seen.has(-2 - first);
    if (edit === NOTHING) return;
    const answered = (index.rules.answers[entry] || []).filter((id) => this.calls.get(id));
    for (const id of answered) this.calls.set(id, this.calls.get(id) - 1);
    if (index.rules.strays[entry] === 0 || (index.rules.strays[entry] && edit !== undefined)) { if (!answered.length) return; }
    this.seen.add(-2 - first);
    this.entries.add(entry);
    const [stays, ...calls] = index.rules.calls[entry] || [1];
    if (stays || edit === undefined) for (const id of calls) this.calls.set(id, (this.calls.get(id) || 0) + 1);
    this.messages += isFirst;
    this.tokens += edit === undefined ? index.tokens[entry] : isFirst ? edit : 0;
  }

  merge(merge, edits) {
    const frames = [[[merge], 0, edits]];
    while (frames.length) {
      const frame = frames[frames.length - 1], [path, at, inside] = frame;
      if (at === path.length) { frames.pop(); continue; }
      const entry = path[frame[1]++], ends = index.rules.merges[entry];
      if (this.seen.has(entry) || (frames.length > 1 && this.own.has(entry))) continue;
      this.seen.add(entry);
      if (!ends || ends[2] || inside.has(entry)) { this.take(entry, inside); continue; }
      const taken = ends[1] < 0 ? [] : visible(ends[1], ends[0], true);
      if ((this.read += taken.length) > MOST_MERGED) return;
      frames.push([taken, 0, new Map([...editsOf(taken), ...inside])]);
    }
  }
}

function contextAt(last) {
  const path = visible(last, -1, false), edits = editsOf(path), had = new Had(path);
  for (const entry of path) {
    if (index.rules.merges[entry]) had.merge(entry, edits);
    else had.take(entry, edits);
  }
  return had;
}

// The list ends at the entry: the rows of its path, those pale that the model had not.
function modelAt(entry) {
  if (entry < 0) return;
  const row = index.rowOf[entry], had = contextAt(entry);
  if (mode.kind !== 'all') setMode({kind: 'all'});
  reach(row);
  const has = (one) => 'TAFO'.includes(index.kinds[one]) || had.entries.has(index.entryOf[one]);
  const rows = new Set(shown), others = [...had.entries].filter((one) => !rows.has(index.rowOf[one]) && !index.rules.pieces[one] && index.kinds[index.rowOf[one]] !== HIDDEN);
  const count = (n, one) => `${n.toLocaleString()} ${one}${n === 1 ? '' : 's'}`;
  setMode({kind: 'model', has, end: row, text: `As the model saw it up to “${gistAt(row).slice(0, 60)}”: ${count(had.messages, 'message')}, about ${count(had.tokens, 'token')}. `
    + 'Pale rows were not in its context.' + (others.length ? ` ${count(others.length, 'entry').replace('entrys', 'entries')} came from elsewhere, by a merge.` : '')});
  jump(row);
  drawTree();
}

// The row that is aimed at if it is on the screen, or else the first one there.
function chosen() {
  const aimed = list.querySelector('.aim');
  if (aimed) {
    const box = aimed.getBoundingClientRect(), room = main.getBoundingClientRect();
    if (box.bottom > room.top && box.top < room.bottom) return targeted;
  }
  return shown.find((row, at) => at >= anchor && row >= 0 && index.entryOf[row] >= 0) ?? -1;
}

// The entry that a row ends with: a call has its result inside, and a turn all of its entries.
function lastEntryOf(row) {
  if (index.kinds[row] !== 'T' || index.turns[turnOf(row)][SUB]) return index.entryOf[row];
  for (let at = index.turns[turnOf(row)][END] - 1; at > row; at--) if (index.entryOf[at] >= 0) return index.entryOf[at];
  return index.entryOf[row];
}

const actions = {
  all() { setMode({kind: 'all'}); },
  changes() { setMode({kind: 'changes', text: 'What the session changed, file by file. Open a file for its edits.'}); anchor = 0; delta = 0; draw(); },
  help() { $('help').showModal(); },
  before() { step(-1); },
  after() { step(1); },
};
document.addEventListener('click', (event) => {
  const button = event.target.closest('[data-do]');
  if (!button) return;
  event.preventDefault();
  const row = button.closest('[data-row]');
  if (button.dataset.do === 'model' && row) modelAt(lastEntryOf(+row.dataset.row));
  else if (actions[button.dataset.do]) actions[button.dataset.do]();
});

// ---- search

let hits = [], hit = -1, pattern = null, searching = 0;
const plainOf = (html) => html.replace(/<[^>]*>/g, ' ').replace(/&(?:lt|gt|quot|#34|#39|amp);/g,
  (name) => ({'&lt;': '<', '&gt;': '>', '&quot;': '"', '&#34;': '"', '&#39;': "'", '&amp;': '&'}[name]));

function patternOf(query) {
  const given = /^\/(.+)\/$/.exec(query);
  try { return new RegExp(given ? given[1] : query.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'giu'); } catch { return null; }
}

async function search(query) {
  const turn = ++searching;
  hits = []; hit = -1; pattern = query ? patternOf(query) : null;
  $('hits').textContent = '';
  if (!pattern) { drawHits(); return; }
  const at = shown[anchor], start = at >= 0 && index.kinds[at] !== 'O' ? at : 0;
  for (let number = 0; number < index.chunks.length; number++) {
    const name = partName(number), chunk = await (chunkOf.get(name) || part(name));
    if (turn !== searching) return;
    chunk.forEach(([head, body], at) => {
      pattern.lastIndex = 0;
      if (index.kinds[index.chunks[number] + at] === 'O') return;
      if (pattern.test(plainOf(head + (typeof body === 'string' ? body : '')))) hits.push(index.chunks[number] + at);
    });
    $('hits').textContent = `${hits.length.toLocaleString()}…`;
  }
  hit = Math.max(0, hits.findIndex((row) => row >= start)) - 1;
  if (hits.length) step(1); else { $('hits').textContent = 'none'; drawHits(); }
}

function step(by) {
  if (!hits.length) return;
  hit = (hit + by + hits.length) % hits.length;
  $('hits').textContent = `${(hit + 1).toLocaleString()} of ${hits.length.toLocaleString()}`;
  const row = hits[hit];
  load(row).then(([head]) => {
    pattern.lastIndex = 0;
    jump(row, !pattern.test(plainOf(head)));
  });
}

function drawHits() {
  if (!self.CSS || !CSS.highlights) return;
  CSS.highlights.delete('hit');
  if (!pattern) return;
  const ranges = [];
  const texts = document.createTreeWalker(list, NodeFilter.SHOW_TEXT);
  for (let node; (node = texts.nextNode()) && ranges.length < 500;) {
    pattern.lastIndex = 0;
    for (let found; (found = pattern.exec(node.data)) && found[0] && ranges.length < 500;) {
      const range = new Range();
      range.setStart(node, found.index); range.setEnd(node, found.index + found[0].length);
      ranges.push(range);
    }
  }
  if (ranges.length) CSS.highlights.set('hit', new Highlight(...ranges));
}

let timer = 0;
$('query').addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(() => search($('query').value), 250); });
$('find').addEventListener('submit', (event) => { event.preventDefault(); step(1); });

// ---- the tree

const PRESETS = {
  default: ['Default', (kind) => 'Tuackymgebir'.includes(kind)],
  'no tools': ['No tools', (kind) => 'Tuakygei'.includes(kind)],
  prompts: ['Prompts', (kind) => kind === 'T'],
  labelled: ['Labelled', (kind, row) => Boolean(labelOf(row))],
  all: ['All', () => true],
};
const SIGNS = {u: '›', a: '', c: '⚙', t: '…', k: '⇣', y: '↩', e: '✗', i: '✗', m: '·', g: '⇥', A: '↳', r: '⚙', b: '$', x: '?', o: '·', z: '·', s: '·'};
let treePreset = 'prompts', treeRows = [], onPath = new Set();

function choose(name) {
  const was = preset;
  treePreset = name;
  preset = name === 'all' ? 'all' : 'default';
  for (const button of $('presets').children) button.setAttribute('aria-pressed', button.dataset.preset === name);
  if (was !== preset) rebuild();
  drawTree();
}

for (const [name, [words]] of Object.entries(PRESETS)) {
  const button = make('button', '', words);
  button.type = 'button'; button.dataset.preset = name;
  button.addEventListener('click', () => choose(name));
  $('presets').append(button);
}

function drawTree() {
  const wanted = PRESETS[treePreset][1], words = $('filter').value.toLowerCase();
  onPath = new Set(pathTo(tip));
  treeRows = [];
  for (const [turn, level] of index.layout) {
    const [, , , , first, end] = index.turns[turn];
    for (let row = first; row < end; row++) {
      const kind = index.kinds[row];
      if (kind === 'T' ? treePreset !== 'prompts' && treePreset !== 'all' : !wanted(kind, row)) continue;
      if (words && !(gistAt(row) + ' ' + labelOf(row)).toLowerCase().includes(words)) continue;
      treeRows.push([row, turn, level]);
    }
  }
  $('treesize').style.height = treeRows.length * rowHeight() + 'px';
  markTree();
}

const rowHeight = () => (treePreset === 'prompts' ? 44 : 24);

function markTree() {
  const tree = $('tree'), height = rowHeight();
  const first = Math.max(0, Math.floor(tree.scrollTop / height) - 2);
  const last = Math.min(treeRows.length, first + Math.ceil((tree.clientHeight || 600) / height) + 5);
  const seen = chosen(), here = seen >= 0 ? turnOf(seen) : -1;
  const made = [];
  for (let at = first; at < last; at++) {
    const [row, turn, level] = treeRows[at], link = make('a', height === 24 ? 'one' : '');
    if (!onPath.has(turn)) link.classList.add('off');
    if (turn === here) link.classList.add('here');
    link.href = '#' + encodeURIComponent(uuidOf(row));
    link.dataset.go = row;
    link.style.top = at * height + 'px';
    link.style.paddingLeft = 8 + Math.min(level, 10) * 12 + 'px';
    const kind = index.kinds[row];
    link.append(make('i', '', kind === 'T' ? (onPath.has(turn) ? '● ' : '○ ') : SIGNS[kind] + ' '));
    if (labelOf(row)) link.append(make('span', 'chip label', labelOf(row)), ' ');
    link.append((kind === 'T' ? index.turns[turn][NAME] + '  ' : '') + gistAt(row));
    if (kind === 'T' && turn === index.here) link.append(make('span', 'tip', ' ◀'));
    if (kind === 'T' && height !== 24) link.append(make('small', '', index.turns[turn][DID]));
    made.push(link);
  }
  $('treesize').replaceChildren(...made);
}
$('tree').addEventListener('scroll', markTree, {passive: true});
$('tree').addEventListener('click', (event) => {
  const link = event.target.closest('a');
  if (!link) return;
  event.preventDefault();
  history.replaceState(null, '', link.href);
  $('side').classList.remove('open');
  jump(+link.dataset.go);
});
$('filter').addEventListener('input', drawTree);
$('menu').addEventListener('click', () => {
  $('menu').setAttribute('aria-expanded', $('side').classList.toggle('open'));
  markTree();
});

// ---- keys

function next(isWanted, by) {
  for (let at = anchor + by; at >= 0 && at < shown.length; at += by) {
    if (isWanted(shown[at])) { goTo(at); return; }
  }
}

function goTo(at) {
  const row = shown[at];
  if (row >= 0) { history.replaceState(null, '', '#' + encodeURIComponent(uuidOf(row))); targeted = row; }
  anchor = at; delta = 0;
  isAtEnd = at === shown.length - 1;
  elements = new Map();
  draw();
}

const is = (kinds) => (row) => row >= 0 && kinds.includes(index.kinds[row]);
const KEYS = {
  j: ['Next prompt', () => next(is('T'), 1)],
  k: ['Prompt before', () => next(is('T'), -1)],
  c: ['Next compaction', () => next(is('k'), 1)],
  C: ['Compaction before', () => next(is('k'), -1)],
  b: ['Next branch point', () => next((row) => row < -1, 1)],
  B: ['Branch point before', () => next((row) => row < -1, -1)],
  x: ['Next error or interruption', () => next(is('ei'), 1)],
  o: ['Open or close what is on the screen', toggleShown],
  m: ['As the model saw it, up to this row', () => { const row = chosen(); if (mode.kind === 'model') actions.all(); else if (row >= 0) modelAt(lastEntryOf(row)); }],
  d: ['What the session changed', () => (mode.kind === 'changes' ? actions.all() : actions.changes())],
  '/': ['Search; /…/ is a regular expression', () => $('query').focus()],
  n: ['Next hit', () => step(1)],
  N: ['Hit before', () => step(-1)],
  f: ['Filter the tree', () => $('filter').focus()],
  t: ['What the tree shows: the next preset', () => { const names = Object.keys(PRESETS); choose(names[(names.indexOf(treePreset) + 1) % names.length]); }],
  g: ['The beginning', () => goTo(0)],
  G: ['The end', () => goTo(shown.length - 1)],
  '@': ['Where the session is now', () => { if (index.here >= 0) { showPath(index.here); jump(index.turns[index.here][FIRST]); } }],
  P: ['Print all of this path', printAll],
  '?': ['This sheet', () => $('help').showModal()],
};
for (const [key, [words]] of Object.entries(KEYS)) $('keys').append(make('dt', '', key), make('dd', '', words));
$('keys').append(make('dt', '', 'Esc'), make('dd', '', 'Back to the conversation'));

document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') {
    if (document.activeElement !== document.body) document.activeElement.blur();
    $('side').classList.remove('open');
    if (mode.kind !== 'all') actions.all();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, dialog')) return;
  const action = KEYS[event.key];
  if (action) { event.preventDefault(); action[1](); }
});

function toggleShown() {
  const found = [...list.querySelectorAll('.row > details')];
  const wanted = !found.some((one) => one.open);
  noteAnchor();
  for (const one of found) fold(+one.parentElement.dataset.row, wanted);
  rebuild();
}

async function printAll() {
  const made = [];
  for (let at = 0; at < shown.length; at++) {
    if (shown[at] >= 0) await load(shown[at]);
    made.push(rowElement(at));
  }
  list.replaceChildren(...made);
  above.style.height = below.style.height = '0';
  print();
  elements = new Map();
  draw();
}

// ---- another state of the session, which a server gives

// What a row is, whatever its number: its entry, and how far it is from the first row of it.
function keyOf(row) {
  if ('OF'.includes(index.kinds[row])) return index.kinds[row] + gistAt(row);
  return index.entryOf[row] < 0 ? null : [uuidOf(row), row - index.rowOf[index.entryOf[row]]];
}

function rowOfKey(key) {
  if (!key) return -1;
  if (typeof key === 'string') {
    for (let row = index.kinds.length - 1; row >= 0 && 'OF'.includes(index.kinds[row]); row--) {
      if (key[0] === index.kinds[row] && (key[0] === 'O' || key === keyOf(row))) return row;
    }
    return -1;
  }
  const entry = entryOf(key[0]);
  return entry < 0 ? -1 : Math.max(0, Math.min(index.rowOf[entry] + key[1], index.kinds.length - 1));
}

// Take over a state; the rows before `same` are as they were. The reader's place stays, or is the
// end if it was there.
async function adopt(found, same, changed = []) {
  const before = index;
  index = found;
  const last = found.kinds.search(/[FO]*$/) - 1;
  const needed = [...new Set([Math.min(same, last), last, found.kinds.length - 1, ...changed.slice(0, 2)])];
  const loads = needed.filter((row) => row >= 0).map((row) => load(row));
  index = before;
  await Promise.allSettled(loads);
  const isBelow = main.scrollTop + main.clientHeight >= main.scrollHeight - 40;
  isAtEnd ||= to === shown.length && isBelow && main.scrollTop > 0;
  let at = anchor;
  while (at > 0 && shown[at] < 0) at--;
  const firstOfTip = tip >= 0 ? index.turns[tip][FIRST] : -1, isHere = tip === index.here;
  const kept = [...open, ...spread, ...hits, shown[at], targeted, firstOfTip];
  const keys = new Map(kept.filter((row) => row >= same).map((row) => [row, keyOf(row)]));
  const redrawn = new Set(changed);
  const wasShown = shown, wereHeights = heights, anchorRow = shown[at];
  index = found;
  prepare();
  const now = (row) => (row < same ? row : rowOfKey(keys.get(row)));
  const mapped = (rows) => [...rows].map(now).filter((row) => row >= 0);
  const opened = mapped(open), folders = mapped(spread);
  open.clear(); opened.forEach((row) => open.add(row));
  spread.clear(); folders.forEach((row) => spread.add(row));
  hits = mapped(hits); hit = Math.min(hit, hits.length - 1);
  targeted = now(targeted);
  const turn = firstOfTip < 0 ? -1 : turnOf(now(firstOfTip));
  tip = isHere || turn < 0 ? (index.here >= 0 ? index.here : lastBelow(-1)) : turn;
  if (mode.kind === 'model') { mode = {kind: 'all'}; $('state').hidden = true; }
  build();
  const isOverview = (row, state) => row === state.kinds.length - 1;
  shown.forEach((row, n) => {
    const isSame = row < same ? wasShown[n] === row : isOverview(row, index) && isOverview(wasShown[n], before);
    if (isSame) heights[n] = wereHeights[n];
  });
  for (const key of elements.keys()) if (!(parseInt(key, 10) < same) || key[0] === '-' || redrawn.has(parseInt(key, 10))) elements.delete(key);
  const goal = shown.indexOf(now(anchorRow));
  if (isAtEnd) { anchor = shown.length - 1; delta = 0; } else if (goal >= 0) anchor = goal;
  draw();
  drawTree();
}

// ---- begin

(async () => {
  index = expanded(await part('index'));
  prepare();
  tip = index.here >= 0 ? index.here : lastBelow(-1);
  build();
  choose('prompts');
  list.replaceChildren();
  const first = shown.findIndex((row) => row >= 0);
  if (first >= 0) await load(shown[first]);
  draw();
  const at = entryOf(index.at);
  if (!followHash() && at >= 0) jump(index.rowOf[at], true);
  document.body.dataset.ready = 'yes';
  dispatchEvent(new CustomEvent('sessionpage', {detail: {adopt, contextAt, expanded, part, followHash, index: () => index}}));
})();
})();
