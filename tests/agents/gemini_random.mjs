// Records random chats with Gemini CLI's own recorder, and prints what it resumes of each, as JSON
// lines of {file, history}.
// node gemini_random.mjs BUNDLE FOLDER COUNT, BUNDLE being the folder of its gemini.js.
import fs from "node:fs";
import path from "node:path";
import { core } from "./gemini_core.mjs";

const [bundle, folder, count] = process.argv.slice(2);
const { ChatRecordingService, convertSessionToClientHistory, loadConversationRecord } =
  await core(bundle);

function dice(seed) {
  let state = seed * 2654435761 + 1;
  return (sides) => {
    state = (Math.imul(state ^ (state >>> 15), 2246822519) + 3266489917) | 0;
    return ((state ^ (state >>> 13)) >>> 0) % sides;
  };
}

async function chat(seed) {
  const roll = dice(seed);
  const home = path.join(folder, String(seed));
  const context = {
    promptId: `${String(seed).padStart(8, "0")}-0000-4000-8000-000000000000`,
    toolRegistry: { getTool: () => undefined },
    config: { getProjectRoot: () => home, storage: { getProjectTempDir: () => home } },
  };
  let recorder = new ChatRecordingService(context);
  await recorder.initialize(undefined, "main");
  let calls = 0;
  const say = (type, content) => recorder.recordMessage({ type, content, model: "gemini-pro" });
  const messages = () => recorder.getConversation().messages;
  const synced = (change) => {
    const history = structuredClone(convertSessionToClientHistory(messages()));
    recorder.updateMessagesFromHistory(change ? change(history) : history);
  };
  const acts = [
    () => say("user", roll(2) ? `say ${roll(99)}` : [{ text: `say ${roll(99)}` }]),
    () => say("user", ["/help", "<session_context>x</session_context>", "?"][roll(3)]),
    () => say(["info", "warning", "error"][roll(3)], "a note"),
    () => {
      if (roll(2)) recorder.recordThought({ subject: "Look", description: `at ${roll(9)}` });
      if (roll(2)) recorder.recordMessageTokens({ promptTokenCount: 9, candidatesTokenCount: 1 });
      say("gemini", roll(3) ? `answer ${roll(99)}` : "");
    },
    () => {
      if (messages().at(-1)?.type !== "gemini") return;
      const made = Array.from({ length: 1 + roll(2) }, () => {
        const id = `call-${calls++}`;
        const response = { id, name: "ls", response: { output: `out of ${id}` } };
        const result = [{ functionResponse: response }];
        return { id, name: "ls", args: { path: "." }, status: "success", result };
      });
      recorder.recordToolCalls("gemini-pro", made);
      say("user", made.flatMap((call) => call.result));
    },
    () => {
      const found = messages();
      if (found.length) recorder.rewindTo(found[roll(found.length)].id);
    },
    async () => {
      const filePath = recorder.getConversationFilePath();
      const conversation = await loadConversationRecord(filePath);
      recorder = new ChatRecordingService(context);
      await recorder.initialize({ filePath, conversation }, "main");
      synced();
    },
    () => synced((history) => history.slice(0, roll(history.length + 1))),
    () =>
      synced((history) => [
        { id: `s${calls++}`, content: { role: "user", parts: [{ text: `<state_snapshot>${roll(99)}</state_snapshot>` }] } },
        { id: `s${calls++}`, content: { role: "model", parts: [{ text: "Got it." }] } },
        ...history.slice(roll(history.length + 1)),
      ]),
  ];
  const likely = [0, 0, 0, 1, 2, 3, 3, 3, 3, 4, 4, 4, 5, 6, 6, 7, 8];
  for (let left = 5 + roll(25); left > 0; left--) await acts[likely[roll(likely.length)]]();
  const file = recorder.getConversationFilePath();
  const kept = await loadConversationRecord(file);
  return { file, history: convertSessionToClientHistory(kept.messages) };
}

for (let seed = 1; seed <= Number(count); seed++) {
  fs.mkdirSync(path.join(folder, String(seed)), { recursive: true });
  console.log(JSON.stringify(await chat(seed)));
}
