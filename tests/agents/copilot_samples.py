"""Makes `fixtures/agents/copilot`: `COPILOT=… python -m tests.agents.copilot_samples`.

The real Copilot CLI plays one session with parallel calls, one of which fails, an edit, a subagent
and a compaction. Long texts and paths are replaced. `sent.json` has the messages of the last
request that it sent before the compaction. A compaction takes a minute, as the program waits.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.agents.cleaning import DAY, cleaned
from tests.agents.copilot_driver import PROGRAM, CopilotCli, running
from tests.agents.qwen_driver import Json, call, text
from tests.agents.qwen_samples import SHOWN, Told, sent

SAMPLES: Final = Path(__file__).parents[2] / "fixtures" / "agents" / "copilot"
PROMPT: Final = "Why do our retries hammer the API? Fix the notes."
_TIME: Final = re.compile(r"<current_datetime>[^<]*</current_datetime>\s*")


def played(copilot: CopilotCli) -> Told:
    """What Copilot CLI sent for the session before its compaction."""
    notes = copilot.project / "notes.md"
    notes.write_text("# Notes\nRetries hammer the API.\n")
    look = [call("view", path=str(notes)), call("view", path="/none")]
    look.append(call("bash", command="echo two; exit 3", description="Say two"))
    edit = call("edit", path=str(notes), old_str="hammer", new_str="wait for")
    copilot.run("-p", PROMPT, answers=[[text("I read them."), *look], [edit]])
    task: Json = {"type": "tool_use", "name": "task"}
    task["input"] = {
        "agent_type": "general-purpose",
        "mode": "sync",
        "name": "counter",
        "description": "Count lines",
        "prompt": "Count the lines of the notes.",
    }
    count = [[task], [text("The notes have two lines.")], [text("Two lines.")]]
    copilot.run("--continue", "-p", "How many lines are there?", answers=count)
    told = said_to(copilot.requests[-1])
    copilot.run("--continue", "-p", "/compact")
    copilot.run("--continue", "-p", "And now?")
    return told


def said_to(request: list[Json]) -> Told:
    """What a request says, without the system prompt and the times before prompts."""
    return [(role, [_TIME.sub("", words) for words in said]) for role, said in sent(request)]


def main() -> None:
    if not PROGRAM:
        sys.exit("Copilot CLI is not installed: set COPILOT to the path of its program")
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as copilot:
        told = played(copilot)
        (file,) = copilot.sessions()
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        target = SAMPLES / lines[0]["data"]["copilotVersion"]
        shutil.rmtree(target, ignore_errors=True)
        made = [
            json.dumps(cleaned(line, folder, SHOWN, DAY)).replace(folder, SHOWN) for line in lines
        ]
        path = target / file.relative_to(copilot.home / "session-state")
        path.parent.mkdir(parents=True)
        path.write_text("".join(f"{line}\n" for line in made))
        (target / "sent.json").write_text(
            json.dumps(cleaned(json.loads(json.dumps(told)), folder, SHOWN)) + "\n"
        )
    sys.stdout.write(f"{target}\n")


if __name__ == "__main__":
    main()
