"""Sessions for the tests of the browser."""

from __future__ import annotations

from pathlib import Path

from sessiontree import Session
from tests.support.saying import assistant, call, result, text, user


def branched(file: Path) -> Path:
    """A session of three turns, the second on a side branch, with a label."""
    with Session.create(file, durability="os", cwd="/project", name="Branched") as session:
        session.append_message(user("Build a CLI"))
        first = session.append_message(assistant(text("In which language?")))
        session.append_message(user("In Go"))
        session.append_message(assistant(text("Here it is in Go.")))
        session.branch(first)
        rust = session.append_message(user("In Rust"))
        session.append_message(assistant(call("c", "Bash", command="cargo new")))
        session.append_message(result("c", "\n".join(f"line {n}" for n in range(40))))
        session.append_message(assistant(text("Here it is in Rust.")))
        session.label(rust, "rust")
    return file


def saying(file: Path, *words: str) -> Path:
    """A session with these prompts, each with an answer."""
    with Session.create(file, durability="os", cwd="/project") as session:
        for each in words:
            session.append_message(user(each))
            session.append_message(assistant(text(f"Answer to {each[:40]}")))
    return file
