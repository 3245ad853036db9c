// The part of Gemini CLI's bundle that records chats and reads them again.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

export async function core(bundle) {
  for (const name of fs.readdirSync(bundle).filter((name) => name.startsWith("chunk-"))) {
    const file = path.join(bundle, name);
    if (fs.readFileSync(file, "utf8").includes("var ChatRecordingService = class")) {
      const found = await import(pathToFileURL(file).href);
      if (found.ChatRecordingService && found.convertSessionToClientHistory) return found;
    }
  }
  throw new Error(`no chunk of ${bundle} has ChatRecordingService`);
}
