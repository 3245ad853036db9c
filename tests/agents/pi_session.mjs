// Prints what the pi coding agent makes of each session file given, as JSON lines.
// node pi_session.mjs PACKAGE FILE…, PACKAGE being the folder of @earendil-works/pi-coding-agent.
import path from "node:path";
import { pathToFileURL } from "node:url";

const [folder, ...files] = process.argv.slice(2);
const built = path.join(folder, "dist", "bundle", "index.js"); // with all that it needs inside
const { SessionManager } = await import(pathToFileURL(built).href);
for (const file of files) {
  const manager = SessionManager.open(file);
  const labels = {};
  for (const entry of manager.getEntries()) {
    const label = manager.getLabel(entry.id);
    if (label) labels[label] = entry.message ?? entry.type;
  }
  const context = manager.buildSessionContext();
  const name = manager.getSessionName() ?? null;
  console.log(JSON.stringify({ context, name, labels, id: manager.getSessionId() }));
}
