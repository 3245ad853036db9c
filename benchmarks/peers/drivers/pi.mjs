// The jobs with the pi coding agent's session manager.
//
//     node pi.mjs SESSION_MANAGER JOB FOLDER
//
// The module is imported alone, without the program around it: what is measured
// is what pi itself calls when it resumes, forks, branches and lists.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [, , manager, job, folder] = process.argv;
const { SessionManager } = await import(pathToFileURL(manager).href);
const facts = JSON.parse(readFileSync(join(folder, "facts.json"), "utf8"));
const file = join(folder, "pi", "session.jsonl");
const NEEDLE = "part-317.ts";

function messages() {
  const text = readFileSync(join(folder, "messages.jsonl"), "utf8");
  return text.trim().split("\n").map((line) => JSON.parse(line));
}

let wall = 0;
let cpu = 0;

async function timed(work) {
  const began = performance.now();
  const used = process.cpuUsage();
  const result = await work();
  const { user, system } = process.cpuUsage(used);
  wall += (performance.now() - began) / 1e3;
  cpu += (user + system) / 1e6;
  return result;
}

const jobs = {
  async resume() {
    return timed(() => SessionManager.open(file).buildSessionContext().messages.length);
  },
  async "append-os"() {
    const session = SessionManager.open(file);
    const added = messages();
    await timed(() => {
      for (const message of added) session.appendMessage(message);
    });
    return added.length;
  },
  async fork() {
    const session = await timed(() => {
      const opened = SessionManager.open(file);
      opened.createBranchedSession(facts.half.pi);
      return opened;
    });
    return session.buildSessionContext().messages.length;
  },
  async branch() {
    const session = SessionManager.open(file);
    session.buildSessionContext();
    return timed(() => {
      session.branch(facts.half.pi);
      return session.buildSessionContext().messages.length;
    });
  },
  async list() {
    return timed(async () => (await SessionManager.list("/project", join(folder, "pi"))).length);
  },
  // As its picker does: list, and look for the words in the text that the list holds.
  async search() {
    return timed(async () => {
      const sessions = await SessionManager.list("/project", join(folder, "pi"));
      return sessions.filter((session) => session.allMessagesText.includes(NEEDLE)).length;
    });
  },
};

const count = await jobs[job]();
console.log(JSON.stringify({ wall, cpu, count }));
