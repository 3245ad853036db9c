"""The acts of a turn: each call with its result, wherever in the turn that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sessiontree.core.codec import decode, encode
from sessiontree.core.damage import ignore
from sessiontree.core.entry import Entry
from sessiontree.views.ledger import gist_of, ledger

READ = {"type": "tool_use", "id": "1", "name": "Read", "input": {"file_path": "/p/a.py"}}
RUN = {"type": "tool_use", "id": "2", "name": "Bash", "input": {"command": "pytest"}}


def said(uuid: str, role: str, content: Any, second: int = 0) -> Entry:
    keys = {"message": {"role": role, "content": content}}
    time = f"2026-01-01T00:00:{second:02}Z"
    line = encode({"type": "message", "uuid": uuid, "timestamp": time, **keys})
    entry = decode(line, 0, ignore)
    assert entry is not None
    return entry


def result(id: str, text: str, **keys: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": text, **keys}


def shown(entries: Sequence[Entry]) -> list[tuple[str, list[str], bool, bool]]:
    rows = ledger([(entry, None) for entry in entries], "/p")
    return [
        (
            row.entry.uuid,
            [f"{act.line} {act.took}".rstrip() for _, act, _ in row.acts],
            row.rest is not None,
            row.is_result,
        )
        for row in rows
    ]


def test_a_result_is_in_the_row_of_its_call() -> None:
    entries = [
        said("a", "assistant", [{"type": "text", "text": "I look."}, READ, RUN]),
        said("b", "user", [result("2", "1 passed in 0.1s"), result("1", "x\ny")], 4),
        said("c", "assistant", "done", 5),
    ]
    acts = ["Read a.py → 2 lines 4 s", "Ran pytest → 1 passed 4 s"]
    assert shown(entries) == [
        ("a", acts, True, False),
        ("b", [], False, True),
        ("c", [], False, False),
    ]


def test_an_id_that_repeats_has_the_results_in_order() -> None:
    entries = [
        said("a", "assistant", [READ]),
        said("b", "user", [result("1", "x")]),
        said("c", "assistant", [READ]),
        said("d", "user", [result("1", "x\ny")]),
    ]
    assert [row[1] for row in shown(entries)] == [
        ["Read a.py → 1 line"],
        [],
        ["Read a.py → 2 lines"],
        [],
    ]


def test_words_beside_a_result_and_results_without_calls_keep_their_rows() -> None:
    entries = [
        said("b", "user", [result("1", "of a call that is not here")]),
        said("a", "assistant", [READ]),
        said("c", "user", [result("1", "x"), {"type": "text", "text": "and this"}]),
        said("d", "assistant", [RUN]),
    ]
    assert shown(entries) == [
        ("b", [], False, False),
        ("a", ["Read a.py → 1 line"], False, False),
        ("c", [], False, False),
        ("d", ["Ran pytest"], False, False),
    ]


def test_an_entry_in_a_few_words_has_its_calls_as_acts() -> None:
    entry = said("a", "assistant", [{"type": "text", "text": "I look."}, READ, RUN])
    assert gist_of(entry, 60, "/p") == "I look. · Read a.py · Ran pytest"
    assert gist_of(entry, 20) == "I look. · Read /p/a…"
    assert gist_of(said("b", "user", 'a "tool_use"')) == 'a "tool_use"'
