"""Why a call was made: its turn and prompt, and what was said before it, on its own lane."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from sessiontree.core.entry import AGENT_LANE, Entry
from sessiontree.library import file_edits
from sessiontree.library.file_edits import LONGEST, reasons_of
from sessiontree.views.work import message_of
from tests.support.sessions import json_lines

Line = dict[str, Any]
Why = tuple[str | None, str | None, str | None]


def reasons(file: Path, *uuids: str) -> list[Why]:
    with Session.open(file, readonly=True) as session:
        found = reasons_of(session, uuids)
    assert list(found) == list(uuids)
    return [(each.turn, each.prompt, each.reasoning) for each in found.values()]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes a session; each line is its uuid, its parent, its lane, and a message or custom."""

    def writes(*lines: tuple[str, str | None, str | None, Any]) -> Path:
        header = {"type": "session", "version": 2, "format": "sessiontree/2", "uuid": "h"}
        stored: list[Line] = [{**header, "parentUuid": None, "id": "s", "cwd": "/p"}]
        for uuid, above, lane, given in lines:
            where = {"uuid": uuid, "parentUuid": above or "h", **({"lane": lane} if lane else {})}
            stored.append({**given, **where})
        return json_lines(tmp_path / "s.jsonl", *stored)

    return writes


def asked(text: str) -> Line:
    return {"type": "message", "message": {"role": "user", "content": text}}


def said(*blocks: Line) -> Line:
    return {"type": "message", "message": {"role": "assistant", "content": list(blocks)}}


def text(words: str) -> Line:
    return {"type": "text", "text": words}


def thought(words: str) -> Line:
    return {"type": "thinking", "thinking": words}


CALL: Line = {"type": "toolCall", "id": "c", "name": "write", "arguments": {"path": "a.py"}}
RESULT: Line = {
    "type": "message",
    "message": {"role": "toolResult", "toolCallId": "c", "content": "what a tool says"},
}


def started(caller: Any) -> Line:
    data = {"agentId": "a", **({} if caller is None else {"calledBy": caller})}
    return {"type": "custom", "customType": "claude-code:subagent", "data": data}


def test_a_reason_has_the_last_words_before_a_call_in_its_turn(
    write: Callable[..., Path],
) -> None:
    file = write(
        ("c0", None, None, said(CALL)),
        ("u1", "c0", None, asked("one")),
        ("c1", "u1", None, said(CALL)),
        ("c2", "c1", None, said(thought("inside"), CALL)),
        ("r2", "c2", None, RESULT),
        ("c3", "r2", None, said(thought("inside"), text("  aloud "), CALL)),
        ("c4", "c3", None, said(text("  "), CALL)),
        ("u2", "c4", None, asked("two")),
        ("c5", "u2", None, said(CALL)),
        ("c6", "c5", None, said(text("after"), CALL)),
    )
    expected = {
        "c6": ("2", "two", "after"),
        "c0": (None, None, None),
        "c1": ("1", "one", None),
        "c2": ("1", "one", "inside"),
        "c3": ("1", "one", "aloud"),
        "c4": ("1", "one", "aloud"),
        "c5": ("2", "two", None),
    }
    assert reasons(file, *expected) == list(expected.values())
    assert reasons(file, *reversed(expected)) == [*reversed(expected.values())]


def test_a_reason_is_cut_behind_so_many_characters(write: Callable[..., Path]) -> None:
    file = write(
        ("u", None, None, asked("p" * (LONGEST + 1))),
        ("c", "u", None, said(text("s" * (LONGEST + 1)), CALL)),
    )
    assert reasons(file, "c") == [("1", "p" * LONGEST, "s" * LONGEST)]


def test_turns_have_numbers_up_to_a_size_of_the_session(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(("u", None, None, asked("one")), ("c", "u", None, said(CALL)))
    size = file.stat().st_size
    monkeypatch.setattr(file_edits, "LARGEST", size)
    assert reasons(file, "c") == [("1", "one", None)]
    monkeypatch.setattr(file_edits, "LARGEST", size - 1)
    assert reasons(file, "c") == [(None, "one", None)]


def test_the_turns_are_counted_only_where_a_reason_is_asked_for(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(("u", None, None, asked("one")), ("c", "u", None, said(CALL)))
    monkeypatch.setattr(file_edits, "prompt_numbers", pytest.fail)
    assert reasons(file) == []


def test_an_entry_is_read_once_however_many_calls_it_has_below(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    uuids = [f"c{n}" for n in range(50)]
    above = ["u", *uuids]
    calls = [(uuid, above[n], None, said(CALL)) for n, uuid in enumerate(uuids)]
    file = write(("u", None, None, asked("one")), *calls)
    looks: list[str] = []

    def counted(entry: Entry, stored: Any) -> Any:
        looks.append(entry.uuid)
        return message_of(entry, stored)

    monkeypatch.setattr(file_edits, "message_of", counted)
    assert reasons(file, *uuids) == [("1", "one", None)] * 50
    assert sorted(looks) == sorted(above)


def test_an_entry_that_is_gone_has_no_reason(write: Callable[..., Path]) -> None:
    file = write(("u", None, None, asked("one")), ("c", "u", None, said(text("so"), CALL)))
    assert reasons(file, "gone", "c") == [(None, None, None), ("1", "one", "so")]


def test_what_a_subagent_did_is_of_the_turn_of_its_caller(write: Callable[..., Path]) -> None:
    one, two, lost, odd = (f"{AGENT_LANE}{name}" for name in ("one", "two", "lost", "odd"))
    file = write(
        ("u1", None, None, asked("one")),
        ("c1", "u1", None, said(text("I ask one"), CALL)),
        ("u2", "c1", None, asked("two")),
        ("c2", "u2", None, said(text("I go on"), CALL)),
        ("s1", None, one, started("c1")),
        ("p1", "s1", one, asked("you are one")),
        ("a1", "p1", one, said(CALL)),
        ("a2", "a1", one, said(text("I am one"), CALL)),
        ("s2", None, two, started("a2")),
        ("b1", "s2", two, said(CALL)),
        ("b2", "b1", two, said(thought("I am two"), CALL)),
        ("s3", None, lost, started("nowhere")),
        ("l1", "s3", lost, said(text("I am lost"), CALL)),
        ("s4", None, odd, started(["c1"])),
        ("o1", "s4", odd, said(text("I am odd"), CALL)),
    )
    assert reasons(file, "c2", "a1", "a2", "b1", "b2", "l1", "o1", "c1") == [
        ("2", "two", "I go on"),
        ("1", "one", None),
        ("1", "one", "I am one"),
        ("1", "one", None),
        ("1", "one", "I am two"),
        (None, None, "I am lost"),
        (None, None, "I am odd"),
        ("1", "one", "I ask one"),
    ]


@pytest.mark.parametrize(("depth", "turn"), [(19, "1"), (20, "1"), (21, None)])
def test_subagents_start_subagents_so_deep(
    write: Callable[..., Path], depth: int, turn: str | None
) -> None:
    lines: list[tuple[str, str | None, str | None, Any]] = [
        ("u", None, None, asked("one")),
        ("c0", "u", None, said(CALL)),
    ]
    for n in range(1, depth + 1):
        lines += [
            (f"s{n}", None, f"{AGENT_LANE}{n}", started(f"c{n - 1}")),
            (f"c{n}", f"s{n}", f"{AGENT_LANE}{n}", said(CALL)),
        ]
    file = write(*lines)
    assert reasons(file, f"c{depth}") == [(turn, "one" if turn else None, None)]


def test_a_subagent_that_starts_itself_ends(write: Callable[..., Path]) -> None:
    file = write(
        ("s1", None, f"{AGENT_LANE}1", started("c1")),
        ("c1", "s1", f"{AGENT_LANE}1", said(text("I am one"), CALL)),
    )
    assert reasons(file, "c1") == [(None, None, "I am one")]
