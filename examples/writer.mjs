#!/usr/bin/env node
// A writer of level 2 of sessiontree's file format, as docs/format.md describes it. The numbers in
// comments are those of its rules. It needs Node 20.15 and flock(1) of util-linux. It lists no names,
// sums and branches (2.17, 2.18, 2.21 to 2.24), which are for programs that show sessions.
//
//     node writer.mjs FILE < ENTRIES          append entries to a session, or begin a new one
//
// Each line of ENTRIES is an entry, or a list of entries that are written together. An entry has its
// type and the fields of the type, and may have `uuid`, `parentUuid`, `lane` and `metadata`:
//
//     {"type":"message","message":{"role":"user","content":"Build a CLI"}}
//
// The program prints the uuid of each entry once the entry is on the disk.
import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import * as fs from "node:fs";
import { dirname } from "node:path";
import { argv, cwd, exit, pid, stdin } from "node:process";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { crc32 } from "node:zlib";
import { LEVEL_3, entriesOf, isObject, isText, leafOf, pathOf } from "./reader.mjs";

const { O_APPEND, O_CREAT, O_NOFOLLOW, O_RDWR } = fs.constants;
const PATIENCE_SECONDS = 60;
const ANNOTATIONS = new Set(["label", "session_info", "usage"]);
const SET_HERE = ["version", "format", "timestamp", "spilled", "crc"];
const REFERENCES = ["fromUuid", "targetUuid", "firstKeptEntryUuid"];
const FIRST = ["type", "version", "format", "uuid", "parentUuid", "lane", "timestamp"];

const isBoolean = (value) => typeof value === "boolean";
const isContent = (value) => typeof value === "string" || Array.isArray(value);
const isCount = (value) => Number.isSafeInteger(value) && value >= 0;
const isMessage = (value) => isObject(value) && (isText(value.role) || isText(value.type));
const isName = (value) => isText(value) && /^[^@~:\s\p{Cc}]+$/u.test(value); // 2.8
const isLabel = (value) => isText(value) && value.split(" ").every(isName);
const orNull = (isRight) => (value) => value === null || isRight(value);
const optional = (isRight) => (value) => value === undefined || isRight(value);

const SUMMARY = { summary: isText, fromUuid: optional(isText) };
const COMMON = { uuid: optional(isText), parentUuid: optional(isText), lane: optional(isName) };
const FIELDS = { // 2.5
  message: { message: isMessage },
  compaction: { summary: isText, firstKeptEntryUuid: isText, tokensBefore: isCount },
  branch_summary: SUMMARY,
  stack_summary: SUMMARY,
  stack_push: {},
  branch: { name: optional(isName), fromUuid: optional(isText) },
  model_change: { provider: orNull(isText), modelId: isText },
  thinking_level_change: { thinkingLevel: isText },
  custom: { customType: isText },
  custom_message: { customType: isText, content: isContent, display: isBoolean },
  label: { targetUuid: isText, label: orNull(isLabel) },
  session_info: { name: optional(isText) },
  usage: { kind: isText, provider: orNull(isText), model: orNull(isText), usage: isObject },
};

/** Entries that this writer does not write; the file is as before. */
export class Invalid extends Error {}

function check(entry) {
  if (!isObject(entry) || !isText(entry.type)) throw new Invalid("an entry is an object with a type");
  const { type } = entry;
  if (LEVEL_3.has(type)) throw new Invalid(`${type} is of level 3, which this writer does not have`);
  if (!/^x-./.test(type) && !Object.hasOwn(FIELDS, type)) {
    throw new Invalid(`${type} is not a type to append; begin the name of your own type with x-`);
  }
  for (const [key, isRight] of Object.entries({ ...COMMON, ...FIELDS[type] })) {
    if (!isRight(entry[key])) throw new Invalid(`the ${key} of a ${type} is missing or wrong`);
  }
  if (!isObject(entry.metadata ?? {})) throw new Invalid("metadata is an object");
  const set = SET_HERE.find((key) => key in entry);
  if (set) throw new Invalid(`the writer itself sets ${set}; leave it out`);
  if (ANNOTATIONS.has(type) && "parentUuid" in entry) {
    throw new Invalid(`a ${type} goes below the last entry of its lane; leave parentUuid out`);
  }
}

function encoded(value) { // 2.3
  return JSON.stringify(value, function (key, part) {
    const texts = [key, part].filter((each) => typeof each === "string");
    if (!texts.every((text) => text.isWellFormed())) throw new Invalid(`${key} has a lone surrogate`);
    if (ArrayBuffer.isView(this[key])) throw new Invalid(`${key} has bytes, which JSON has not`);
    if (typeof part === "number" && !Number.isFinite(part)) {
      throw new Invalid(`${key} has a number beyond the range of a double`);
    }
    return part;
  });
}

/** An entry as a line without LF, with its checksum: 2.1, 2.2. */
export function lineOf(keys) {
  const fields = Object.keys(keys).filter((key) => !FIRST.includes(key) && key !== "metadata");
  const pairs = [...FIRST, ...fields, "metadata"]
    .filter((key) => keys[key] !== undefined)
    .map((key) => `${encoded(key)}:${encoded(keys[key])}`);
  const body = `{${pairs.join(",")}`;
  return `${body},"crc":"${crc32(body).toString(16).padStart(8, "0")}"}`;
}

function isAtPath(fd, path) { // 2.10
  const there = fs.statSync(path, { bigint: true, throwIfNoEntry: false });
  const open = fs.fstatSync(fd, { bigint: true });
  return there?.dev === open.dev && there.ino === open.ino;
}

/** Do something while no other process writes the session: 2.9, 2.10. */
function withLock(path, work) {
  const lockPath = `${path}.lock`;
  for (;;) {
    const fd = fs.openSync(lockPath, O_RDWR | O_CREAT | O_NOFOLLOW, 0o600);
    try {
      // The child locks the file that is open here, so the lock outlives it, and ends with this fd.
      const words = ["--exclusive", "--timeout", `${PATIENCE_SECONDS}`, "3"];
      const { status, error } = spawnSync("flock", words, { stdio: ["ignore", "ignore", 2, fd] });
      if (error) throw error;
      const owner = fs.readFileSync(fd, "utf8");
      if (status !== 0) throw new Error(`${lockPath} is held by another program: ${owner}`);
      if (!isAtPath(fd, lockPath)) continue;
      if (owner.startsWith('{"pid":')) fs.ftruncateSync(fd); // the owner is gone
      return work();
    } finally {
      fs.closeSync(fd);
    }
  }
}

function writeAll(fd, bytes) { // 2.11
  for (let done = 0; done < bytes.length; ) done += fs.writeSync(fd, bytes, done);
}

function syncFolder(path) {
  const fd = fs.openSync(dirname(path));
  fs.fsyncSync(fd);
  fs.closeSync(fd);
}

/** Begin a session: its file appears with the whole header, if no other program was faster. */
function create(path) { // 2.13
  const line = lineOf({
    type: "session", version: 2, format: "sessiontree/2", uuid: randomUUID(), parentUuid: null,
    timestamp: new Date().toISOString(), id: randomUUID(), cwd: cwd(),
  });
  const beside = `${path}.${pid}.tmp`;
  try {
    fs.writeFileSync(beside, `${line}\n`, { mode: 0o600, flush: true });
    fs.linkSync(beside, path);
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
  } finally {
    fs.rmSync(beside, { force: true });
  }
}

export class Writer {
  #path;
  #fd = -1;
  #size = -1; // where the file ended when it was read
  #entries = [];
  #positions = new Map(); // the uuid that each lane continues from

  constructor(file) {
    if (!fs.existsSync(file)) create(file);
    this.#path = fs.realpathSync(file);
    entriesOf(fs.readFileSync(this.#path)); // a file that is refused gets no lock file
  }

  /** Append entries with one write, all or none; returns their uuids once they are on the disk. */
  append(batch) {
    batch.forEach(check);
    return withLock(this.#path, () => {
      this.#read();
      const known = this.#entries.length;
      const positions = new Map(this.#positions);
      try {
        const lines = batch.map((entry) => this.#placed(entry, positions));
        if (lines.length > 0) this.#write(lines);
        this.#positions = positions;
        return this.#entries.slice(known).map(({ uuid }) => uuid);
      } catch (error) {
        this.close(); // 2.11: the next call reads the file again
        throw error;
      }
    });
  }

  close() {
    if (this.#fd >= 0) fs.closeSync(this.#fd);
    this.#fd = this.#size = -1;
  }

  #read() { // 2.10
    if (this.#fd >= 0 && !isAtPath(this.#fd, this.#path)) this.close();
    if (this.#fd < 0) {
      this.#fd = fs.openSync(this.#path, O_RDWR | O_APPEND);
      syncFolder(this.#path); // 2.12: the name of the file may be new
    }
    if (fs.fstatSync(this.#fd).size === this.#size) return;
    const bytes = fs.readFileSync(this.#path);
    this.#entries = entriesOf(bytes); // refuses what is not of this format: 1.6, 5.8
    this.#size = bytes.length;
  }

  #indexOf(uuid) {
    return this.#entries.findLastIndex((entry) => entry.uuid === uuid);
  }

  #laneOf({ type, lane = "main", targetUuid }) { // 2.16
    if (type !== "label" && type !== "session_info") return lane;
    const isHere = type === "label" && this.#entries[this.#indexOf(targetUuid)]?.lane === lane;
    return lane.startsWith("scratch/") && !isHere ? "main" : lane;
  }

  /** The line of an entry, which is then known. */
  #placed(given, positions) {
    const { type, uuid = randomUUID(), parentUuid, ...fields } = given;
    const lane = this.#laneOf(given);
    const isAnnotation = ANNOTATIONS.has(type);
    const from = isAnnotation ? undefined : (parentUuid ?? positions.get(lane)); // 2.15, 2.16
    const index = from === undefined ? -1 : this.#indexOf(from);
    if (from !== undefined && index < 0) throw new Invalid(`there is no entry ${from} to go below`);
    if (this.#indexOf(uuid) >= 0) throw new Invalid(`there is an entry ${uuid} already`); // 2.7
    const parent = index < 0 ? leafOf(this.#entries, lane) : index;
    const above = this.#entries[parent].uuid;
    const keys = { ...fields, type, uuid, parentUuid: above, timestamp: new Date().toISOString() };
    keys.lane = lane === "main" ? undefined : lane;
    this.#checkReferences(keys, parent);
    if (!isAnnotation || !positions.has(lane)) positions.set(lane, isAnnotation ? above : uuid);
    this.#entries.push({ uuid, type, parentUuid: above, parent, lane, keys });
    return lineOf(keys);
  }

  #checkReferences(keys, parent) { // 2.7
    for (const key of REFERENCES.filter((name) => keys[name] !== undefined)) {
      const isKept = key === "firstKeptEntryUuid";
      const there = isKept ? pathOf(this.#entries, parent) : this.#entries;
      if (isKept && keys[key] === keys.uuid) continue;
      if (there.some(({ uuid }) => uuid === keys[key])) continue;
      throw new Invalid(`${key} names ${keys[key]}, which is not ${isKept ? "above" : "there"}`);
    }
  }

  #write(lines) { // 2.11, 2.12
    const last = Buffer.alloc(1);
    fs.readSync(this.#fd, last, 0, 1, this.#size - 1);
    const start = last.toString() === "\n" ? "" : "\n";
    const block = Buffer.from(`${start}${lines.join("\n")}\n`);
    writeAll(this.#fd, block);
    fs.fsyncSync(this.#fd);
    this.#size += block.length;
  }
}

/** A line of JSON, unless it has a whole number that JavaScript would round. */
function parsed(line) {
  const bare = line.replace(/"(?:[^"\\]|\\.)*"/g, "");
  for (const [digits] of bare.matchAll(/(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/g)) {
    if (!Number.isSafeInteger(Number(digits))) throw new Invalid(`${digits} would lose digits`);
  }
  return JSON.parse(line);
}

if (argv[1] && import.meta.url === pathToFileURL(argv[1]).href) {
  try {
    if (argv.length !== 3) throw new Invalid("give the FILE, and entries on standard input");
    const writer = new Writer(argv[2]);
    for await (const line of createInterface({ input: stdin })) {
      for (const uuid of writer.append([parsed(line)].flat())) console.log(uuid);
    }
  } catch (error) {
    console.error(`error: ${error.message}`);
    exit(1);
  }
}
