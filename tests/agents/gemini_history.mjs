// Prints what Gemini CLI resumes of each chat, as JSON lines of {file, history}.
// node gemini_history.mjs BUNDLE FILE…, BUNDLE being the folder of its gemini.js.
import { core } from "./gemini_core.mjs";

const [bundle, ...files] = process.argv.slice(2);
const { convertSessionToClientHistory, loadConversationRecord } = await core(bundle);
for (const file of files) {
  const { messages } = await loadConversationRecord(file);
  console.log(JSON.stringify({ file, history: convertSessionToClientHistory(messages) }));
}
