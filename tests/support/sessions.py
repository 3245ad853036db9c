"""Sessions made for these tests, some of them by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sessiontree import Session, Store


def said(store: Store, text: str, **options: Any) -> str:
    """Make a session in which one thing was said; its file."""
    with store.create(durability="os", **options) as session:
        session.append_message({"role": "user", "content": text})
        assert session.file is not None
        return session.file


def chat(file: Path, *messages: str | dict[str, Any], **options: Any) -> Path:
    """A new session file with these messages; a text is a user's."""
    with Session.create(file, durability="os", **options) as session:
        for message in messages:
            said = {"role": "user", "content": message} if isinstance(message, str) else message
            session.append_message(said)
    return file


def version_1(file: Path, text: str) -> Path:
    """A file of version 1 with one prompt."""
    header = {"type": "session", "id": "old", "timestamp": "2025-01-01T00:00:00.000Z"}
    message = {"type": "message", "message": {"role": "user", "content": text}}
    return json_lines(file, {**header, "cwd": "/old"}, message)


def json_lines(file: Path, *lines: dict[str, Any]) -> Path:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def by_hand(file: Path, *messages: str, id: str = "by-hand", **header: Any) -> Path:
    """A small session written without this library."""
    first = {"type": "session", "version": 2, "uuid": "h", "parentUuid": None, "id": id}
    lines: list[dict[str, Any]] = [{**first, **header}]
    for n, text in enumerate(messages):
        message = {"role": "user", "content": text}
        above = lines[-1]["uuid"]
        lines.append({"type": "message", "uuid": f"m{n}", "parentUuid": above, "message": message})
    file.parent.mkdir(parents=True, exist_ok=True)
    return json_lines(file, *lines)


def first_messages(store: Store) -> set[str | None]:
    return {one.first_message for one in store.list()}


def read(file: str) -> list[str]:
    """What was said in a session, in order."""
    with Session.open(file, readonly=True) as session:
        return [str(m["content"]) for m in session.context().messages]
