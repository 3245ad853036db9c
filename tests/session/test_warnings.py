"""A warning names the line of the program that made the call."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sessiontree import Session, Store
from sessiontree.errors import SessionTreeWarning
from tests.support.conversation import talk
from tests.support.table import for_each

SPILLED = "a long text that is stored as a blob"


def without_blobs(session: Session) -> None:
    session.append_message({"role": "user", "content": SPILLED})
    for blob in Path(f"{session.file}.blobs").iterdir():
        blob.unlink()


def forked(session: Session, folder: Path) -> None:
    without_blobs(session)
    session.fork(folder / "copy.jsonl")


def exported(session: Session, folder: Path) -> None:
    without_blobs(session)
    session.export_branch("@", folder / "copy.jsonl")


def inlined(session: Session, folder: Path) -> None:
    session.append_handle("file@1.0.0::path:gone.md")
    session.export_branch("@", folder / "copy.jsonl", inline=True)


def listed(session: Session, folder: Path) -> None:
    (folder / "p").mkdir()
    (folder / "p" / "broken.jsonl").write_text("no session\n")
    list(Store(folder).list())


def branched(session: Session, folder: Path) -> None:
    above = session.leaf
    talk(session, "w " * 400, "two")
    session.compact("so far", first_kept="@")
    session.branch(above)


def streamed(session: Session, folder: Path) -> None:
    session.stream_message().feed({"type": "error", "error": {"type": "overloaded"}})


def no_json(session: Session, folder: Path) -> None:
    stream = session.stream_message()
    stream.start("tool_use", id="t", name="n")
    stream.delta("{")
    stream.stop()


@for_each("act", [forked, exported, inlined, listed, branched, streamed, no_json])
def test_a_warning_names_the_line_of_the_call(
    tmp_path: Path, act: Callable[[Session, Path], Any]
) -> None:
    with Session.create(tmp_path / "s.jsonl", spill_over=20) as session:
        talk(session, "p1", "a1")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            act(session, tmp_path)
    assert caught
    assert {warned.filename for warned in caught} == {__file__}
    assert all(issubclass(warned.category, SessionTreeWarning) for warned in caught)
