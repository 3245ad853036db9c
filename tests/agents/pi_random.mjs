// Makes random sessions with pi's own SessionManager, and prints what it builds with each entry as
// the leaf, as JSON lines of {file, contexts}.
// node pi_random.mjs PACKAGE FOLDER SEED…, PACKAGE being the folder of @earendil-works/pi-coding-agent.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [folder, made, ...seeds] = process.argv.slice(2);
const built = path.join(folder, "dist", "bundle", "index.js"); // with all that it needs inside
const { SessionManager } = await import(pathToFileURL(built).href);

function dice(seed) {
  let state = seed * 2654435761 + 1;
  return (sides) => {
    state = (Math.imul(state ^ (state >>> 15), 2246822519) + 3266489917) | 0;
    return ((state ^ (state >>> 13)) >>> 0) % sides;
  };
}

const usage = { input: 7, output: 3, cacheRead: 2, cacheWrite: 1, totalTokens: 13 };
usage.cost = { input: 0.1, output: 0.2, cacheRead: 0, cacheWrite: 0, total: 0.3 };

function session(seed) {
  const roll = dice(seed);
  const home = path.join(made, String(seed));
  const manager = SessionManager.create("/project", home);
  let count = 0;
  const word = () => `w${count++}`;
  const text = () => [{ type: "text", text: word() }];
  const at = () => Date.UTC(2026, 0, 1) + count++;
  const entries = () => manager.getEntries();
  const any = () => entries()[roll(entries().length)].id;
  const prompt = () =>
    manager.appendMessage({ role: "user", content: roll(2) ? word() : text(), timestamp: at() });
  const answer = (content, stopReason) => {
    const model = { api: "anthropic-messages", provider: "p", model: `m${roll(2)}` };
    const said = { role: "assistant", content, ...model, usage, stopReason, timestamp: at() };
    manager.appendMessage(said);
  };
  const acts = [
    prompt,
    prompt,
    () => answer(text(), ["stop", "stop", "aborted", "error"][roll(4)]),
    () => {
      const ids = Array.from({ length: 1 + roll(2) }, word);
      const calls = ids.map((id) => ({ type: "toolCall", id, name: "read", arguments: {} }));
      answer([...text(), ...calls], "toolUse");
      for (const toolCallId of ids) {
        const result = { role: "toolResult", toolCallId, toolName: "read", isError: !roll(3) };
        manager.appendMessage({ ...result, content: text(), timestamp: at() });
      }
    },
    () => manager.branch(any()),
    () => manager.branchWithSummary(roll(4) ? any() : null, word()),
    () => roll(3) || manager.resetLeaf(),
    () => {
      const path = manager.getBranch();
      const kept = roll(3) ? path[roll(path.length)]?.id : null;
      manager.appendCompaction(word(), kept ?? null, roll(999), undefined, false, usage);
    },
    () => {
      const roles = ["user", "assistant", "toolResult"];
      const path = manager.getBranch().filter(({ message }) => roles.includes(message?.role));
      const target = path[roll(path.length)]?.id;
      if (target) manager.appendContextEdit(target, roll(2) ? null : { content: text() });
    },
    () => manager.appendCustomMessageEntry("mine", roll(2) ? word() : text(), !roll(2)),
    () => manager.appendCustomEntry("mine", { count }),
    () => manager.appendThinkingLevelChange(["off", "low", "high"][roll(3)]),
    () => manager.appendModelChange("p", `m${roll(3)}`),
    () => manager.appendUsage("cache_warm", "p", "m", usage),
    () => manager.appendSessionInfo(word()),
    () => manager.appendLabelChange(any(), roll(3) ? word() : undefined),
    () => {
      const sections = { [["a", "b", "10", "2"][roll(4)]]: roll(3) ? word() : null };
      manager.appendMessage({ role: "system", content: "", sections, timestamp: at() });
    },
    () => {
      const run = { role: "bashExecution", command: "ls", output: word(), exitCode: 0 };
      const more = { cancelled: false, truncated: false, timestamp: at() };
      manager.appendMessage({ ...run, ...more, excludeFromContext: !roll(3) });
    },
  ];
  prompt();
  answer(text(), "stop"); // so that the file is there
  for (let left = 5 + roll(30); left > 0; left--) acts[roll(acts.length)]();
  let file = manager.getSessionFile();
  const branched = roll(5) ? undefined : manager.createBranchedSession(any());
  if (branched && fs.existsSync(branched)) file = branched; // a path without a prompt has no file
  const opened = SessionManager.open(file);
  const leaf = opened.getLeafId();
  const contexts = [[null, opened.buildSessionContext()]];
  for (const { id } of opened.getEntries()) {
    opened.branch(id);
    contexts.push([id, opened.buildSessionContext()]);
  }
  return { file, leaf, contexts };
}

for (const seed of seeds) {
  fs.mkdirSync(path.join(made, seed), { recursive: true });
  console.log(JSON.stringify(session(Number(seed))));
}
