"""The edits and the states of files in real sessions, held against the raw lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from sessiontree.history.replay import KnownContent
from tests.agents.conftest import CORPUS, NO_CORPUS
from tests.support.enough import ENOUGH
from tests.support.table import for_each

needs_corpus = pytest.mark.skipif(not CORPUS.exists(), reason=NO_CORPUS)
SESSIONS = (
    *(f"claude-code/{name}.jsonl" for name in ("short", "subagent", "tool_heavy")),
    "pi-v1/large-session.jsonl",
)
_EDITING = {"edit", "write", "Edit", "Write", "MultiEdit", "NotebookEdit"}

OUTSIDE = {
    "user-message-selector.ts": "2025-11-20T23:44:00.011Z",
    "tool-execution.ts": "2025-11-21T01:56:46.528Z",
}
"""The looks that show what no call of the session wrote: its user changed the file by hand."""


def blocks(file: Path) -> Iterator[dict[str, Any]]:
    """The messages and content blocks of a session, read without sessiontree."""
    for line in file.read_text().splitlines():
        message = json.loads(line).get("message")
        if not isinstance(message, dict):
            continue
        yield message
        if isinstance(message.get("content"), list):
            yield from message["content"]


def done_by_hand(file: Path) -> set[str]:
    """The ids of the calls that edit a file and have a result that is no error."""
    calls = {
        str(block["id"])
        for block in blocks(file)
        if block.get("type") in ("tool_use", "toolCall") and block.get("name") in _EDITING
    }
    done = {block["toolCallId"] for block in blocks(file) if _is_done(block, "toolCallId")}
    done |= {block["tool_use_id"] for block in blocks(file) if _is_done(block, "tool_use_id")}
    return calls & done


def _is_done(block: dict[str, Any], key: str) -> bool:
    return key in block and not (block.get("isError") or block.get("is_error"))


@needs_corpus
@for_each("name", SESSIONS)
def test_every_edit_that_was_done_is_listed(name: str) -> None:
    file = CORPUS / name
    with Session.open(file, readonly=True) as session:
        listed = {
            event.call
            for event in session.file_events()
            if event.edit is not None and event.ending == "done" and event.tool in _EDITING
        }
    assert listed == done_by_hand(file)


@needs_corpus
@for_each("name", SESSIONS)
def test_a_file_is_as_later_looks_show_it_or_was_changed_from_outside(name: str) -> None:
    contents: dict[str, KnownContent] = {}
    compared = 0
    outside: dict[str, str | None] = {}
    with Session.open(CORPUS / name, readonly=True) as session:
        for event in session.file_events():
            change = event.edit or event.seen
            if event.ending != "done" or change is None:
                continue
            content = contents.setdefault(event.path, KnownContent())
            before = content.text
            content.take(change, ENOUGH)
            if event.seen is not None and event.seen.is_whole and before is not None:
                compared += 1
                if before != event.seen.text:
                    assert content.contradicted
                    outside[Path(event.path).name] = event.time
                assert content.text == event.seen.text
    if name.startswith("pi"):
        assert (compared, outside) == (7, OUTSIDE)
    else:
        assert outside == {}
