#!/usr/bin/env node
// A reader of level 1 of sessiontree's file format, as docs/format.md describes it.
// The numbers in comments are those of its rules.
//
//     node reader.mjs FILE [LANE]             print the messages of the context
//     node reader.mjs --json FILE [LANE]      print all that a reader of level 1 knows, as JSON
//
// Calls and results are as stored: pairing them is level 4.
import { readFileSync } from "node:fs";
import { argv, exit } from "node:process";
import { pathToFileURL } from "node:url";

const ADDS_NOTHING = new Set(
  `branch custom label model_change session session_info stack_push thinking_level_change usage`.split(" "),
);
export const LEVEL_3 = new Set(["block", "context_edit", "handle", "merge", "message_end"]);

/** A file that this program does not read; `kind` is one of fixtures/README.md. */
export class Refused extends Error {
  constructor(kind) {
    super(`the file is refused: ${kind}`);
    this.kind = kind;
  }
}

export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
export const isText = (value) => typeof value === "string" && value !== "";

function parsed(line) {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

function checkHeader(header) { // 1.5, 1.6
  if (!isObject(header) || header.type !== "session") throw new Refused("not a session");
  const format = header.format ?? null;
  if (format === null) {
    const version = "version" in header ? header.version : 1;
    if ("uuid" in header) {
      if (version !== 1 && version !== 2) throw new Refused("newer format");
    } else if (version === 1) {
      throw new Refused("version 1, which is level 5");
    } else {
      throw new Refused(Number.isInteger(version) && version > 1 ? "foreign format" : "newer format");
    }
  } else if (format !== "sessiontree/2") {
    const isOurs = typeof format === "string" && format.startsWith("sessiontree/");
    throw new Refused(isOurs ? "newer format" : "foreign format");
  }
  if (!isText(header.uuid)) throw new Refused("not a session"); // level 5 reads it
}

/** The entries of a file in order, each with its parent's index or -1: 1.1 to 1.8. */
export function entriesOf(bytes) {
  const lines = new TextDecoder().decode(bytes).split("\n");
  checkHeader(parsed(lines[0]));
  const entries = [];
  const last = new Map();
  for (const line of lines) {
    const keys = parsed(line);
    if (!isObject(keys) || !isText(keys.uuid) || typeof keys.type !== "string") continue;
    const isHeader = keys.type === "session";
    if (isHeader && entries.length > 0) continue; // 1.4
    const parentUuid = typeof keys.parentUuid === "string" && !isHeader ? keys.parentUuid : null;
    const parent = last.get(parentUuid) ?? -1; // 1.7
    const lane = typeof keys.lane === "string" ? keys.lane : "main"; // 1.8
    last.set(keys.uuid, entries.length);
    entries.push({ uuid: keys.uuid, type: keys.type, parentUuid, parent, lane, keys });
  }
  return entries;
}

export function leafOf(entries, lane) { // 1.9
  const onLane = entries.findLastIndex((entry) => entry.lane === lane);
  return onLane >= 0 ? onLane : entries.findLastIndex((entry) => entry.lane === "main");
}

export function pathOf(entries, index) { // 1.10
  const path = [];
  for (let at = index; at >= 0; at = entries[at].parent) path.push(entries[at]);
  return path.reverse();
}

function picked(keys, names) {
  return Object.fromEntries(names.filter((name) => name in keys).map((name) => [name, keys[name]]));
}

function summaryOf(role, keys) { // 1.12
  const text = typeof keys.summary === "string" ? keys.summary : "";
  const facts = picked(keys, ["fromUuid", "mergedUuid", "tokensBefore"]);
  return { role, content: text, summary: text, ...facts };
}

function messageOf({ type, uuid, keys }, warn) { // 1.11
  if (type === "message") {
    if (!isObject(keys.message)) return warn("no message", `${uuid} has no message`);
    if (keys.message.partial === true) warn("partial", `${uuid} broke off`);
    return keys.message;
  }
  if (type === "compaction") return summaryOf("compactionSummary", keys);
  if (type === "branch_summary" || type === "stack_summary") return summaryOf("branchSummary", keys);
  if (type === "custom_message") {
    return { role: "custom", ...picked(keys, ["customType", "content", "display", "details"]) };
  }
  if (!ADDS_NOTHING.has(type) && !LEVEL_3.has(type)) warn("unknown type", type);
}

function isSubtree(path) { // 1.15
  const source = path[0].keys.parentSession;
  if (path.length < 2 || path[0].type !== "session" || !isObject(source)) return false;
  return source.cutAbove === true || source.uuid === path[1].uuid;
}

function keptOf(path, warn) { // 1.14, 1.15
  const at = path.findLastIndex((entry) => entry.type === "compaction");
  if (at < 0) return path;
  const first = path[at].keys.firstKeptEntryUuid;
  let from = path.slice(0, at + 1).findLastIndex((entry) => entry.uuid === first);
  if (from < 0 && isSubtree(path)) from = 0;
  if (from < 0) warn("first kept", `${first} is not on the path`);
  const kept = path.slice(from < 0 ? at : from, at);
  return [path[at], ...kept.filter(({ type }) => type !== "compaction"), ...path.slice(at + 1)];
}

function textIn(content) {
  if (typeof content === "string") return content;
  const blocks = Array.isArray(content) ? content : [];
  return blocks.map((block) => (isText(block?.text) ? block.text : "")).filter(isText);
}

function systemText({ content, sections }) { // 1.17
  const text = textIn(content ?? "");
  const joined = typeof text === "string" ? text : text.join("\n");
  return joined || [textIn(sections ?? [])].flat().join("\n\n");
}

function settingsOf(path, header) { // 1.16, 1.18
  const found = { model: null, thinkingLevel: null, system: null };
  const set = (key, value) => { if (typeof value === "string") found[key] = value; };
  const setModel = (provider, modelId) => {
    const named = typeof provider === "string" ? provider : null;
    if (isText(modelId)) found.model = { provider: named, modelId };
  };
  for (const facts of [header, header.metadata].filter(isObject)) {
    for (const id of [facts.modelId, facts.model]) setModel(facts.provider, id);
    setModel(facts.model?.provider, facts.model?.modelId);
    for (const key of ["thinkingLevel", "system"]) set(key, facts[key]);
  }
  for (const { type, keys } of path) {
    const message = type === "message" && isObject(keys.message) ? keys.message : {};
    if (type === "model_change") setModel(keys.provider, keys.modelId);
    if (type === "thinking_level_change") set("thinkingLevel", keys.thinkingLevel);
    if (message.role === "assistant") setModel(message.provider, message.model);
    if (message.role === "system") found.system = systemText(message);
    const state = type === "compaction" && isObject(keys.state) ? keys.state : {};
    for (const key of Object.keys(found)) if (state[key] === null) found[key] = null;
    setModel(state.model?.provider, state.model?.modelId);
    for (const key of ["thinkingLevel", "system"]) set(key, state[key]);
  }
  return found;
}

/** The context at the leaf of a lane: messages, settings, and warnings by their kinds. */
export function contextOf(entries, lane = "main") {
  const warnings = [];
  const warn = (kind, text) => void warnings.push({ kind, text });
  const path = pathOf(entries, leafOf(entries, lane));
  const isOfLevel3 = ({ type, keys }) => LEVEL_3.has(type) || "spilled" in keys;
  path.filter(isOfLevel3).forEach(({ type }) => warn("level 3", type)); // 1.19
  const kept = keptOf(path, warn);
  for (const { uuid, keys } of kept) { // 1.13
    if (typeof keys.metadata?.missingParent === "string") warn("missing parent", uuid);
  }
  const verbatim = kept.map((entry) => messageOf(entry, warn)).filter(Boolean);
  const messages = verbatim.filter((message) => message.role !== "system"); // 1.17
  return { path, messages, verbatim, ...settingsOf(path, entries[0].keys), warnings };
}

if (argv[1] && import.meta.url === pathToFileURL(argv[1]).href) {
  const [file, lane] = argv.slice(2).filter((word) => word !== "--json");
  try {
    const entries = entriesOf(readFileSync(file));
    const context = contextOf(entries, lane);
    if (argv.includes("--json")) {
      console.log(JSON.stringify({ entries, ...context }));
    } else {
      for (const message of context.messages) {
        console.log(`${message.role}: ${[textIn(message.content)].flat().join("\n")}`);
      }
      for (const { kind, text } of context.warnings) console.error(`warning: ${kind}: ${text}`);
    }
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    console.error(error.message);
    exit(1);
  }
}
