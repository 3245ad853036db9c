"""Random sessions of an agent at work, and what their messages say in any shape."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from sessiontree import Session, UsageError
from sessiontree.context.providers import reading as parts
from sessiontree.context.providers.reading import MessageReader
from sessiontree.context.providers.values import RequestNotes

Flat = list[tuple[str, str]]
Message = dict[str, Any]

_FRAMES = (
    *("<summary>", "</summary>", "<state_snapshot>", "</state_snapshot>", "(no output)"),
    *("The call failed:", "aborted", "Interrupted: no result was recorded for this call."),
    *("The earlier part of this conversation was replaced by this summary:", "(no content)"),
    *("(The user's text follows.)", "No result provided"),
    "This summary tells of another branch of this conversation:",
    "The following is a summary of a branch that this conversation came back from:",
    "The conversation history before this point was compacted into the following summary:",
)


def flat(messages: Iterable[Any]) -> Flat:
    """What messages of any shape say, line by line, without thinking and frames."""
    reading = MessageReader(RequestNotes(), None)
    found: Flat = []
    for message in messages:
        if message.get("role") != "system":
            for side, part in reading.parts_of(message):
                found += _flat(side, part)
    return found


def _flat(side: str, part: parts.Part) -> Iterator[tuple[str, str]]:
    if isinstance(part, parts.TextPart):
        yield from _lines(side, part.text)
    elif isinstance(part, parts.Media) and part.data:
        yield "image", part.data[-20:]
    elif isinstance(part, parts.SentCall):
        given = part.arguments
        asked = json.loads(given) if isinstance(given, str) and given[:1] == "{" else given
        yield "call", json.dumps(asked, sort_keys=True)
    elif isinstance(part, parts.Result):
        for inner in part.parts:
            for _, said in _flat("result", inner):
                yield "result", said


def _lines(side: str, text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        bare = line.strip()
        if bare and bare not in _FRAMES:
            yield side, bare.removesuffix("</summary>")


def grown(file: Path, chance: Random, *, answered: bool) -> Path:
    """A random session in Anthropic's shape, with branches, calls, edits and compactions.

    `answered` is whether each call has its result behind it. Claude Code drops a message with an
    open call, and pi leaves the pairing to its caller.
    """
    with Session.create(file, cwd=str(file.parent)) as session:
        for step in range(14):
            session.append_message({"role": "user", "content": f"prompt {step}"})
            calls = [f"toolu_{step}_{n}" for n in range(chance.choice([0, 0, 1, 2]))]
            content: list[Message] = [{"type": "text", "text": f"answer {step}"}]
            content += [
                {"type": "tool_use", "id": id, "name": "Read", "input": {"of": id}} for id in calls
            ]
            answer = session.append_message({"role": "assistant", "content": content})
            results = [
                {"type": "tool_result", "tool_use_id": id, "content": f"result of {id}"}
                for id in calls[: 2 if answered else chance.choice([0, 2, 2, 2])]
            ]
            if results:
                session.append_message({"role": "user", "content": results})
                session.append_message({"role": "assistant", "content": f"then {step}"})
            what = chance.choice(["", "", "branch", "branch", "inside", "compact", "edit", "merge"])
            above = [entry for entry in session.path()[1:] if entry.type == "message"]
            prompts = [entry for entry in above if isinstance(entry["message"]["content"], str)]
            with contextlib.suppress(UsageError):  # nothing to compact or to merge
                if what == "branch":
                    session.branch(chance.choice(prompts))
                elif what == "inside" and not (answered and calls):
                    session.branch(answer)
                elif what == "compact":
                    session.compact(f"summary {step}", first_kept=chance.choice(prompts[-3:]))
                elif what == "edit":
                    session.edit_context(chance.choice(prompts), {"content": f"edited {step}"})
                elif what == "merge":
                    session.merge(chance.choice(session.branches()).leaf)
        session.append_message({"role": "user", "content": "the last prompt"})
        session.append_message({"role": "assistant", "content": "the last answer"})
    return file
