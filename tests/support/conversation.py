"""What the tests of a session say, and how they read it back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sessiontree import Context, Entry, Session

HEADER: dict[str, Any] = {"type": "session", "version": 2, "uuid": "root", "parentUuid": None}
HEADER |= {"id": "abc", "cwd": "/project"}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: str | list[dict[str, Any]]) -> dict[str, Any]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {"role": "assistant", "content": blocks}


def call(*ids: str) -> dict[str, Any]:
    blocks = [{"type": "toolCall", "id": id, "name": "read", "arguments": {}} for id in ids]
    return {"role": "assistant", "content": blocks}


def result(id: str, text: str = "done") -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"role": "toolResult", "toolCallId": id, "toolName": "read", "content": content}


def text(message: Mapping[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return " ".join(block.get("text", block.get("id", "")) for block in content)


def said(context: Context) -> list[str]:
    """The text of each message of a context."""
    return [text(message) for message in context.messages]


def said_in(file: Path, lane: str = "main") -> list[str]:
    """The text of each message of the context of a session file."""
    with Session.open(file, readonly=True, lane=lane) as session:
        return said(session.context())


def line(type: str, uuid: str, parent: str | None, **fields: Any) -> dict[str, Any]:
    return {"type": type, "uuid": uuid, "parentUuid": parent, **fields}


def message(uuid: str, parent: str, said: str, role: str = "user") -> dict[str, Any]:
    return line("message", uuid, parent, message={"role": role, "content": said})


def chain(*uuids: str, below: str = "root") -> list[dict[str, Any]]:
    """Messages below each other that say their uuids, user and assistant in turn."""
    lines = []
    for place, uuid in enumerate(uuids):
        lines.append(message(uuid, below, uuid, "assistant" if place % 2 else "user"))
        below = uuid
    return lines


def write(file: Path, lines: Iterable[Mapping[str, Any]]) -> Path:
    """A session file as another program writes it: no format, no crc, spaced out."""
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def opened(file: Path, *lines: Mapping[str, Any], readonly: bool = False) -> Session:
    """A session whose file another program wrote: the header, and these lines below it."""
    return Session.open(write(file, [HEADER, *lines]), readonly=readonly)


def in_memory(**options: Any) -> Session:
    return Session.create(cwd="/project", **options)


def talk(session: Session, *texts: str) -> list[Entry]:
    """Append messages, user and assistant in turn; their entries."""
    said_by = (user, assistant)
    return [session.append_message(said_by[n % 2](words)) for n, words in enumerate(texts)]


def forked(session: Session, *texts: str) -> tuple[Entry, Entry]:
    """Append the prompt `p1` and answers below it, and go back; the prompt and the last answer."""
    fork = session.append_message(user("p1"))
    for words in texts:
        session.append_message(assistant(words))
    tip = session.leaf
    session.branch(fork)
    return fork, tip


@contextmanager
def scratch(session: Session, *texts: str) -> Iterator[Session]:
    """A scratch lane of a session with messages on it."""
    with session.scratch() as trial:
        talk(trial, *texts)
        yield trial
