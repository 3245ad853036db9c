// Made by docs/make_schema.py: change the types of the code, then run it.

/** A JSON object. */
export type JsonObject = { [key: string]: unknown };

/** An entry that a reader accepts: of any type, with any other keys. */
export interface AnyEntry {
  type: string;
  uuid: string;
  [key: string]: unknown;
}

/** The first line of a file that a reader accepts. */
export interface FirstLine {
  type: "session";
  uuid: string;
  [key: string]: unknown;
}

/** An entry as a writer writes it. */
export type Entry = Header | MessageEntry | CompactionEntry | BranchSummaryEntry | StackSummaryEntry | StackPushEntry | BranchEntry | ModelChangeEntry | ThinkingLevelChangeEntry | CustomEntry | CustomMessageEntry | LabelEntry | SessionInfoEntry | UsageEntry | HandleEntry | MergeEntry | ContextEditEntry | BlockEntry | MessageEndEntry | OwnEntry;

/** The keys of every entry but the header. */
export interface EntryKeys {
  /** The uuid of the entry, unique in the file. */
  uuid: string;
  /** The uuid of the parent. */
  parentUuid: string;
  /** The lane; absent on the lane `main`. */
  lane?: string;
  /** The time: RFC 3339, UTC, with milliseconds. */
  timestamp: string;
  /** How the content was changed later. */
  rewritten?: Array<"masked" | "pruned">;
  /** Facts of the caller. */
  metadata?: JsonObject;
  /** The strings that are in blobs: the path of each, its handle, and perhaps its beginning. */
  spilled?: Array<[Array<string | number>, string, string?]>;
  /** The checksum of the line, its last key. */
  crc: string;
  [key: string]: unknown;
}

/** The header, the first line of a file and the root of the tree. */
export interface Header {
  type: "session";
  /** The version of the format. */
  version: 2;
  /** The name of the format. */
  format: "sessiontree/2";
  /** The uuid of the entry, unique in the file. */
  uuid: string;
  /** The header has no parent. */
  parentUuid: null;
  /** The time: RFC 3339, UTC, with milliseconds. */
  timestamp: string;
  /** The id of the session. */
  id: string;
  /** The working directory. */
  cwd: string;
  /** A name for people. */
  name?: string;
  /** In a copy: its source. */
  parentSession?: ParentSession;
  /** How the content was changed later. */
  rewritten?: Array<"masked" | "pruned">;
  /** Facts of the caller. */
  metadata?: JsonObject;
  /** The strings that are in blobs: the path of each, its handle, and perhaps its beginning. */
  spilled?: Array<[Array<string | number>, string, string?]>;
  /** The checksum of the line, its last key. */
  crc: string;
  [key: string]: unknown;
}

/** A message of the conversation, as the caller gave it. */
export interface MessageEntry extends EntryKeys {
  type: "message";
  /** The message. */
  message: RoleMessage | ResponsesItem;
  [key: string]: unknown;
}

/** A summary in place of the entries above the first kept one. */
export interface CompactionEntry extends EntryKeys {
  type: "compaction";
  /** The summary. */
  summary: string;
  /** The uuid of the first entry that is kept; the compaction's own keeps none. */
  firstKeptEntryUuid: string;
  /** The tokens of the context before. */
  tokensBefore: number;
  /** Facts of the caller. */
  details?: unknown;
  /** The tokens and the cost of making the summary. */
  usage?: JsonObject;
  /** The settings at the compaction. */
  state?: CompactionState;
  [key: string]: unknown;
}

/** A summary of a branch that was left. */
export interface BranchSummaryEntry extends EntryKeys {
  type: "branch_summary";
  /** The summary. */
  summary: string;
  /** The uuid of the leaf that was left. */
  fromUuid?: string;
  /** Facts of the caller. */
  details?: unknown;
  /** The tokens and the cost of making the summary. */
  usage?: JsonObject;
  [key: string]: unknown;
}

/** A summary of a branch that was left. */
export interface StackSummaryEntry extends EntryKeys {
  type: "stack_summary";
  /** The summary. */
  summary: string;
  /** The uuid of the leaf that was left. */
  fromUuid?: string;
  /** Facts of the caller. */
  details?: unknown;
  /** The tokens and the cost of making the summary. */
  usage?: JsonObject;
  [key: string]: unknown;
}

/** A mark that a `stack_summary` returns to. */
export interface StackPushEntry extends EntryKeys {
  type: "stack_push";
  /** What the work after it is about. */
  note?: string;
  [key: string]: unknown;
}

/** A move of the leaf: the parent is the entry to continue from. */
export interface BranchEntry extends EntryKeys {
  type: "branch";
  /** The name of the branch. */
  name?: string | null;
  /** The uuid of the leaf that was left. */
  fromUuid?: string;
  [key: string]: unknown;
}

/** The model in force. */
export interface ModelChangeEntry extends EntryKeys {
  type: "model_change";
  /** The provider; `null` if not known. */
  provider: string | null;
  /** The id of the model. */
  modelId: string;
  [key: string]: unknown;
}

/** A change of the thinking level. */
export interface ThinkingLevelChangeEntry extends EntryKeys {
  type: "thinking_level_change";
  /** The thinking level. */
  thinkingLevel: string;
  [key: string]: unknown;
}

/** Data of the caller, which the context does not have. */
export interface CustomEntry extends EntryKeys {
  type: "custom";
  /** The caller's name for the type. */
  customType: string;
  /** Any JSON value. */
  data?: unknown;
  [key: string]: unknown;
}

/** A message of the caller. */
export interface CustomMessageEntry extends EntryKeys {
  type: "custom_message";
  /** The caller's name for the type. */
  customType: string;
  /** The text, or the content blocks. */
  content: string | unknown[];
  /** True if people see it. */
  display: boolean;
  /** Facts of the caller. */
  details?: unknown;
  [key: string]: unknown;
}

/** A name for an entry. */
export interface LabelEntry extends EntryKeys {
  type: "label";
  /** The uuid of the entry that is named. */
  targetUuid: string;
  /** The label; `null` removes the label. */
  label: string | null;
  [key: string]: unknown;
}

/** Facts of the session that replace older ones. */
export interface SessionInfoEntry extends EntryKeys {
  type: "session_info";
  /** The name of the session. */
  name?: string | null;
  [key: string]: unknown;
}

/** Tokens that no message of the session reports. */
export interface UsageEntry extends EntryKeys {
  type: "usage";
  /** What the tokens were used for. */
  kind: string;
  /** The provider; `null` if not known. */
  provider: string | null;
  /** The id of the model; `null` if not known. */
  model: string | null;
  /** The tokens and the cost. */
  usage: JsonObject;
  /** The id of the session whose sum so far this is. */
  sumOf?: string;
  [key: string]: unknown;
}

/** A pointer to content that is stored elsewhere. */
export interface HandleEntry extends EntryKeys {
  type: "handle";
  /** The text form of the handle: `plugin@version::method:meta0:meta1`. */
  handle: string;
  /** The kind of the content. */
  kind: "binary" | "document" | "message" | "output";
  /** The role of the message. */
  role?: string;
  /** A short text for people. */
  preview?: string;
  [key: string]: unknown;
}

/** What another path adds to the context here. */
export interface MergeEntry extends EntryKeys {
  type: "merge";
  /** The uuid of the last entry of the other path. */
  mergedUuid: string;
  /** The uuid of the common ancestor. */
  baseUuid: string;
  /** A summary of the other path, instead of its messages. */
  summary?: string | null;
  [key: string]: unknown;
}

/** A change of what another entry adds to the context. */
export interface ContextEditEntry extends EntryKeys {
  type: "context_edit";
  /** The uuid of the entry that is edited. */
  targetUuid: string;
  /** The new content; `null` removes what the target adds. */
  replacement: EditReplacement | null;
  [key: string]: unknown;
}

/** A content block of a message that is written as it arrives. */
export interface BlockEntry extends EntryKeys {
  type: "block";
  /** The id that the parts of the message share. */
  messageUuid: string;
  /** The position of the block in the message. */
  index: number;
  /** The content block. */
  block: JsonObject;
  [key: string]: unknown;
}

/** The end of a message in blocks. Its other keys are keys of the message. */
export interface MessageEndEntry extends EntryKeys {
  type: "message_end";
  /** The id that the parts of the message share. */
  messageUuid: string;
  /** The role of the message. */
  role: string;
  [key: string]: unknown;
}

/** An entry of a program's own type, whose name begins with `x-`. */
export interface OwnEntry extends EntryKeys {
  type: `x-${string}`;
  [key: string]: unknown;
}

/** The file `branches.json`. */
export type BranchesFile = Branch[];

/** The file `context.json`. */
export type ContextFile = Context;

/** The file `facts.json`. */
export type FactsFile = Facts;

/** The file `handles.json`. */
export type HandlesFile = PointedTo[];

/** The file `lanes.json`. */
export type LanesFile = Record<string, JsonObject[]>;

/** The file `leaves.json`. */
export type LeavesFile = Record<string, string>;

/** The file `level_1.json`. */
export type Level1File = Level1;

/** The file `levels.json`. */
export type LevelsFile = Record<string, Levels>;

/** The file `path.json`. */
export type PathFile = Step[];

/** The file `refused.json`. */
export type RefusedFile = Refused;

/** The file `tree.json`. */
export type TreeFile = Row[];

/** The file `verbatim.json`. */
export type VerbatimFile = Verbatim;

/** The file `verify.json`. */
export type VerifyFile = Finding[];

/** A branch. */
export interface Branch {
  /** The uuid of its end. */
  leaf: string;
  /** The uuid of its fork. */
  fork: string | null;
  /** Its lane; `null` on main. */
  lane: string | null;
  /** Its name. */
  name: string | null;
  /** True if it is current. */
  current: boolean;
}

/** The settings at a compaction; `null` for one that was never set. */
export interface CompactionState {
  /** The model. */
  model?: ModelSetting | null;
  /** The thinking level. */
  thinkingLevel?: string | null;
  /** The system text. */
  system?: string | null;
  /** The name of the session. */
  name?: string | null;
  /** The uuid of the open `stack_push`. */
  push?: string | null;
  [key: string]: unknown;
}

/** The context at the leaf. */
export interface Context {
  /** The messages, paired. */
  messages: JsonObject[];
  /** The model. */
  model: Model | null;
  /** The thinking level. */
  thinkingLevel: string | null;
  /** The system text. */
  system: string | FreeText | null;
  /** The kinds of its warnings, sorted, each once. */
  warnings: Array<"before" | "cut" | "edit" | "first kept" | "level 3" | "merge" | "missing parent" | "moved" | "no message" | "not shown" | "order" | "orphan" | "partial" | "unanswered" | "unknown type" | "unresolved">;
}

/** The new content of an entry in a context. */
export interface EditReplacement {
  /** The content of the message, or the summary. */
  content: unknown;
  [key: string]: unknown;
}

/** Facts of the session; a file has some of them. */
export interface Facts {
  /** The id. */
  id?: string;
  /** The working directory. */
  cwd?: string | null;
  /** The name. */
  name?: string | null;
  /** The metadata. */
  metadata?: JsonObject;
  /** The labels by the uuid of the labelled entry. */
  labels?: Record<string, string>;
  /** The usage. */
  usage?: Tokens;
}

/** A damage. */
export interface Finding {
  /** The kind. */
  kind: "blank" | "blob" | "blob folder" | "bom" | "crc" | "crlf" | "cut short" | "cycle" | "duplicate" | "foreign line" | "handle" | "header" | "history" | "joined" | "json" | "late parent" | "layout" | "lost parent" | "missing parent" | "no uuid" | "nul" | "number" | "object" | "open end" | "reference" | "repeated" | "second header" | "side file" | "torn" | "unreadable" | "utf-8";
  /** The number of the line, from 1. */
  line: number;
  /** The offset of the first byte of the line. */
  offset: number;
}

/** The context of a reader without level 3. */
export interface Level1 {
  /** The messages. */
  messages: JsonObject[];
  /** The types that its warnings name, sorted. */
  types: string[];
}

/** A case in `levels.json`. */
export interface Levels {
  /** The level of the case. */
  level: 1 | 2 | 3 | 4 | 5;
  /** The rules that it tests. */
  rules: string[];
}

/** The source of a copy. */
export interface ParentSession {
  /** The id of the source. */
  id: string;
  /** The file of the source. */
  file?: string;
  /** The uuid of the entry that the copy was made at. */
  uuid: string;
  /** True if the ancestors of the first entry are left out. */
  cutAbove?: boolean;
  [key: string]: unknown;
}

/** The handle of a `handle` entry. */
export interface PointedTo {
  /** The uuid of the entry. */
  uuid: string;
  /** The text form of the handle. */
  handle: string;
  /** The metadata of the older form. */
  metadata: JsonObject | null;
}

/** The error of a file that cannot be opened. */
export interface Refused {
  /** The kind of the error. */
  kind: "foreign format" | "newer format" | "not a session";
}

/** An item of OpenAI Responses, which has no role. */
export interface ResponsesItem {
  /** The type of the item. */
  type: string;
  /** An item has no role. */
  role?: null;
  [key: string]: unknown;
}

/** A message with a role. Its other keys are those of the caller. */
export interface RoleMessage {
  /** The role: `system`, `user`, `assistant`, `toolResult`, `bashExecution`, `custom`, or another role of a provider. */
  role: string;
  [key: string]: unknown;
}

/** An entry of a tree. */
export interface Row {
  /** The uuid. */
  uuid: string;
  /** The uuid of the parent as stored; `null` if not a string. */
  parentUuid: string | null;
  /** The entry type. */
  type: string;
  /** The lane; `null` on main. */
  lane: string | null;
  /** The number of ancestors in the file. */
  depth: number;
}

/** An entry of a path. */
export interface Step {
  /** The uuid; `null` if the program chooses it. */
  uuid: string | null;
  /** The entry type. */
  type: string;
}

/** The messages as stored. */
export interface Verbatim {
  /** The messages, not paired, with system messages. */
  messages: JsonObject[];
}

/** A text that each program chooses; its value is `true`. */
export interface FreeText {
  $text: boolean;
}

/** The model of a context. */
export interface Model {
  /** The provider; `null` if not known. */
  provider: string | null;
  /** The id of the model. */
  modelId: string;
}

/** The model in force. */
export interface ModelSetting {
  /** The provider; `null` if not known. */
  provider: string | null;
  /** The id of the model. */
  modelId: string;
  [key: string]: unknown;
}

/** The usage of a session. */
export interface Tokens {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  cost: number;
}
