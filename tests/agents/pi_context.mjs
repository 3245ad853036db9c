// Prints what the pi coding agent builds of each session file given, as JSON lines.
// node pi_context.mjs PACKAGE FILE…, PACKAGE being the folder of @earendil-works/pi-coding-agent.
import path from "node:path";
import { pathToFileURL } from "node:url";

const [folder, ...files] = process.argv.slice(2);
const built = path.join(folder, "dist", "bundle", "index.js"); // with all that it needs inside
const { SessionManager } = await import(pathToFileURL(built).href);
for (const file of files) {
  const context = SessionManager.open(file).buildSessionContext();
  console.log(JSON.stringify(context));
}
