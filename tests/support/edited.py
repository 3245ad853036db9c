"""Sessions that say that files were changed, as Claude Code's calls and their results."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

from sessiontree import Session, Store

_ids = count(1)


def ask(session: Session, prompt: str) -> None:
    session.append_message({"role": "user", "content": prompt})


def do(
    session: Session, tool: str, given: Any, result: str = "done", *, failed: bool = False
) -> str:
    """A call with its result; the id of the call."""
    id = f"toolu_{next(_ids):06}"
    called = {"type": "tool_use", "id": id, "name": tool, "input": given}
    session.append_message({"role": "assistant", "model": "m", "content": [called]})
    answered = {"type": "tool_result", "tool_use_id": id, "content": result, "is_error": failed}
    session.append_message({"role": "user", "content": [answered]})
    return id


def write(session: Session, file: Path, text: str) -> str:
    """The agent writes a whole file, also on the disk."""
    file.write_text(text)
    return do(session, "Write", {"file_path": str(file), "content": text})


def replace(session: Session, file: Path, old: str, new: str) -> str:
    """The agent replaces a text in a file, also on the disk."""
    file.write_text(file.read_text().replace(old, new, 1))
    return do(session, "Edit", {"file_path": str(file), "old_string": old, "new_string": new})


def project(folder: Path) -> tuple[Store, Path]:
    """A store, and the folder of a project beside it."""
    app = folder / "app"
    app.mkdir()
    return Store(folder / "store"), app
