"""Makes `fixtures/agents/continue`: `python -m tests.agents.continue_samples`.

The files are written as Continue writes them: a session with calls, one of which fails, an edit,
reasoning and a summary, and the list of sessions.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

SAMPLES: Final = Path(__file__).parents[2] / "fixtures" / "agents" / "continue"
ID: Final = "0c0ffee0-0000-4000-8000-000000000001"
PROMPT: Final = "Why do our retries hammer the API? Fix the notes."
NOTES: Final = "/home/user/project/notes.md"
USAGE: Final = {
    "prompt_tokens": 1200,
    "completion_tokens": 34,
    "prompt_tokens_details": {"cached_tokens": 1000},
    "model": "fake-1",
    "cost_cents": 2.5,
}

Item = Mapping[str, Any]


def said(role: str, content: Any, **more: Any) -> Item:
    """An item of the history."""
    return {"message": {"role": role, "content": content}, "contextItems": [], **more}


def answered(words: str, *calls: tuple[str, str, Mapping[str, Any], str, str]) -> Item:
    """An answer; of each call the id, the tool, the arguments, how it ended, and the output."""
    made = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for id, name, given, _, _ in calls
    ]
    states = [
        {"toolCallId": id, "status": status, "output": [{"content": output, "name": "Result"}]}
        for id, _, _, status, output in calls
    ]
    message = {"role": "assistant", "content": words, "toolCalls": made, "usage": USAGE}
    return {"message": message, "contextItems": [], "toolCallStates": states}


def history() -> list[Item]:
    edit = {"file_path": NOTES, "old_string": "hammer the API", "new_string": "wait"}
    read = "Content of notes.md:\n# Notes\n"
    return [
        said("user", PROMPT, editorState=PROMPT),
        said("thinking", "I should look at the notes first."),
        answered(
            "I read the notes.",
            ("t1", "Read", {"filepath": NOTES}, "done", read),
            ("t2", "Bash", {"command": "exit 3"}, "errored", "Exit code 3"),
        ),
        answered("Now I edit.", ("t3", "Edit", edit, "done", "Edited.")),
        {**answered("The notes say so."), "conversationSummary": "We fixed the notes."},
        said("user", [{"type": "text", "text": "How would you test it?"}]),
        answered("With fake clocks.", ("t4", "Bash", {"command": "sleep 9"}, "generated", "")),
    ]


def document(items: list[Any], **more: Any) -> dict[str, Any]:
    """A session."""
    about = {"title": "Notes about retries", "workspaceDirectory": "/home/user/project"}
    return {"sessionId": ID, **about, "history": items, **more}


def main() -> None:
    shutil.rmtree(SAMPLES, ignore_errors=True)
    folder = SAMPLES / "1.5.47"
    folder.mkdir(parents=True)
    (folder / f"{ID}.json").write_text(json.dumps(document(history()), indent=2))
    listed = {"sessionId": ID, "title": "Notes about retries", "dateCreated": "1795251600000"}
    (folder / "sessions.json").write_text(json.dumps([listed], indent=2))
    sys.stdout.write(f"{folder}\n")


if __name__ == "__main__":
    main()
