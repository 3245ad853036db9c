"""A file by another program may hold any value in any field: everything stays usable."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, UsageError
from tests.support.conversation import HEADER, chain, line, write
from tests.support.soak import in_soak
from tests.support.table import for_each

FIELDS = {
    "merge": ["mergedUuid", "baseUuid", "summary"],
    "compaction": ["summary", "firstKeptEntryUuid", "tokensBefore", "state", "details"],
    "branch_summary": ["summary", "fromUuid"],
    "stack_summary": ["summary", "fromUuid"],
    "branch": ["name"],
    "stack_push": ["note"],
    "context_edit": ["targetUuid", "replacement"],
    "model_change": ["provider", "modelId"],
    "thinking_level_change": ["thinkingLevel"],
    "custom": ["customType", "data"],
    "custom_message": ["customType", "content", "display", "details"],
    "label": ["targetUuid", "label"],
    "session_info": ["name", "metadata"],
    "usage": ["kind", "provider", "model", "usage"],
    "block": ["messageUuid", "index", "block"],
    "message_end": ["messageUuid", "role", "model", "usage", "stopReason"],
    "handle": ["handle", "kind", "role", "preview"],
    "message": ["message", "metadata", "lane", "timestamp"],
    "session": ["id", "cwd", "name", "parentSession", "metadata", "timestamp"],
}
ABSENT = object()
VALUES: list[Any] = [ABSENT, None, 5, "", "zzz", [1], {"a": 1}]


def _look(session: Session) -> None:
    session.context().as_dict()
    list(session.tree())
    list(session.render())
    session.branches()
    session.turns()
    session.find(type="message")
    session.find(tool_call_id="zzz")
    assert isinstance(session.metadata, dict)
    assert session.name is None or isinstance(session.name, str)
    for entry in list(session.entries()):
        session.children(entry)
        session.context(entry, verbatim=True)


def _write_on(session: Session, folder: Path) -> None:
    session.fork(folder / "fork.jsonl")
    session.export_branch("aaaa", folder / "export.jsonl")
    moves: list[Callable[[], object]] = [
        lambda: session.label("bbbb", "name"),
        lambda: session.entry("name~1"),
        lambda: session.compact(keep=0),
        lambda: session.branch("aaaa"),
        lambda: session.merge("bbbb"),
        lambda: session.pop(),
        lambda: session.rewind(),
        lambda: session.edit_context("aaaa", None),
    ]
    for move in moves:
        with contextlib.suppress(UsageError):
            move()
    _look(session)


@pytest.mark.filterwarnings("ignore::sessiontree.SessionTreeWarning")
@for_each("type, key", [(t, key) for t, keys in FIELDS.items() for key in keys])
@in_soak("every", 3, 1)
def test_any_value_in_any_field_leaves_the_session_usable(
    tmp_path: Path, type: str, key: str, every: int
) -> None:
    for number, value in list(enumerate(VALUES))[len(key) % every :: every]:
        odd = {**dict.fromkeys(FIELDS[type], "aaaa"), key: value}
        if type == "merge" and key != "summary":
            del odd["summary"]
        odd = {k: v for k, v in odd.items() if v is not ABSENT}
        if type == "session":
            lines = [{**HEADER, **odd}, *chain("aaaa", "bbbb")]
        else:
            lines = [HEADER, *chain("aaaa"), line(type, "bbbb", "aaaa", **odd)]
        folder = tmp_path / str(number)
        folder.mkdir()
        file = write(folder / "s.jsonl", [*lines, *chain("cccc", below="bbbb")])
        with Session.open(file, readonly=True) as session:
            _look(session)
        with Session.open(file, durability="os") as session:
            _write_on(session, folder)
        for copy in ("fork.jsonl", "export.jsonl"):
            with Session.open(folder / copy, readonly=True) as session:
                _look(session)
