"""The figures of the document that the format comes from, each from a file and by the API."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree import Entry, Session, SessionTreeWarning
from tests.support.conversation import HEADER, chain, in_memory, line, message, said, user, write


def _uuids(path: list[Entry]) -> list[str]:
    return [entry.uuid for entry in path]


def _say(session: Session, *uuids: str) -> None:
    for uuid in uuids:
        session.append("message", message=user(uuid), uuid=uuid)


FULL_EXAMPLE = [
    {**HEADER, "uuid": "ses1"},
    message("m1", "ses1", "Build a CLI"),
    message("m2", "m1", "I'll create...", "assistant"),
    message("m3", "m2", "Add --verbose flag"),
    message("m4", "m3", "Here's the flag...", "assistant"),
    message("m5", "m4", "Actually use Python"),
    message("m6", "m5", "Converting to Python...", "assistant"),
    line("branch_summary", "bs1", "m2", summary="Attempted Node.js CLI with --verbose flag"),
    message("m7", "bs1", "Use Rust instead"),
    message("m8", "m7", "Creating Rust CLI...", "assistant"),
]
FIVE_ITEMS = [
    ("user", "Build a CLI"),
    ("assistant", "I'll create..."),
    ("branchSummary", "Attempted Node.js CLI with --verbose flag"),
    ("user", "Use Rust instead"),
    ("assistant", "Creating Rust CLI..."),
]


def test_the_full_example_gives_its_five_items(tmp_path: Path) -> None:
    with Session.open(write(tmp_path / "s.jsonl", FULL_EXAMPLE), readonly=True) as session:
        context = session.context()
        assert [(m["role"], m["content"]) for m in context.messages] == FIVE_ITEMS
        assert _uuids(session.path()) == ["ses1", "m1", "m2", "bs1", "m7", "m8"]
        assert _uuids(context.entries) == ["m1", "m2", "bs1", "m7", "m8"]
        assert context.warnings == []
        assert session.damage == []


def test_the_full_example_by_the_api_gives_its_five_items() -> None:
    with in_memory() as session:
        for role, content in FIVE_ITEMS[:2]:
            session.append_message({"role": role, "content": content})
        m2 = session.leaf
        for place, content in enumerate(["Add --verbose flag", "Here's the flag..."]):
            session.append_message({"role": ("user", "assistant")[place], "content": content})
        left = session.leaf
        summary = session.branch(m2, summary=FIVE_ITEMS[2][1])
        for role, content in FIVE_ITEMS[3:]:
            session.append_message({"role": role, "content": content})
        assert [(m["role"], m["content"]) for m in session.context().messages] == FIVE_ITEMS
        assert (summary.type, summary.parent_uuid) == ("branch_summary", m2.uuid)
        assert summary["fromUuid"] == left.uuid
        assert len(list(session.entries())) == 8


def test_branching_from_an_entry_leaves_the_old_path_in_the_file(tmp_path: Path) -> None:
    lines = [
        {**HEADER, "uuid": "a1b2"},
        *chain("d4e5", "g7h8", "j0k1", "m3n4", below="a1b2"),
        *chain("p6q7", "s9t0", below="g7h8"),
    ]
    with Session.open(write(tmp_path / "s.jsonl", lines), readonly=True) as session:
        assert _uuids(session.path()) == ["a1b2", "d4e5", "g7h8", "p6q7", "s9t0"]
        assert _uuids(session.path("m3n4")) == ["a1b2", "d4e5", "g7h8", "j0k1", "m3n4"]
        assert _uuids(session.children("g7h8")) == ["j0k1", "p6q7"]


MULTIPLE_POPS = ["a", "b", "c", "i", "j", "k", "m", "n"]


def test_multiple_pops_give_the_context_of_the_figure(tmp_path: Path) -> None:
    lines = [
        {**HEADER, "uuid": "a"},
        *chain("b", "c", "d", "e", "f", "g", "h", below="a"),
        line("stack_summary", "i", "c", summary="i", fromUuid="h"),
        *chain("j", "k", "l", below="i"),
        line("stack_summary", "m", "k", summary="m", fromUuid="l"),
        *chain("n", below="m"),
    ]
    with Session.open(write(tmp_path / "s.jsonl", lines), readonly=True) as session:
        assert _uuids(session.path()) == MULTIPLE_POPS
        assert said(session.context()) == MULTIPLE_POPS[1:]


def test_multiple_pops_by_the_api_give_the_context_of_the_figure() -> None:
    with in_memory() as session:
        _say(session, "b", "c", "d", "e", "f", "g", "h")
        i = session.pop("c", summary="i")
        _say(session, "j", "k", "l")
        m = session.pop("k", summary="m")
        _say(session, "n")
        assert (i["fromUuid"], i.parent_uuid, m["fromUuid"], m.parent_uuid) == ("h", "c", "l", "k")
        assert said(session.context()) == MULTIPLE_POPS[1:]


COMPACTED = ["summary", "m6", "m7", "m8", "m9", "m10"]


def test_a_compaction_keeps_from_its_first_kept_entry_on(tmp_path: Path) -> None:
    lines = [
        HEADER,
        *chain(*(f"m{n}" for n in range(1, 11))),
        line(
            "compaction",
            "c1",
            "m10",
            summary="summary",
            firstKeptEntryUuid="m6",
            tokensBefore=50000,
        ),
    ]
    with Session.open(write(tmp_path / "s.jsonl", lines), readonly=True) as session:
        assert said(session.context()) == COMPACTED
        assert session.context().messages[0]["role"] == "compactionSummary"
        assert session.context().messages[0]["tokensBefore"] == 50000


def test_a_compaction_by_the_api_keeps_from_its_first_kept_entry_on() -> None:
    with in_memory() as session:
        _say(session, *(f"m{n}" for n in range(1, 11)))
        compaction = session.compact("summary", first_kept="m6")
        assert compaction.parent_uuid == "m10"
        assert compaction["firstKeptEntryUuid"] == "m6"
        assert said(session.context()) == COMPACTED


STACKED = ["c2", "ss", "m9", "m10", "m11"]


def test_compaction_and_stacking_each_stay_on_their_branch(tmp_path: Path) -> None:
    compaction = {"tokensBefore": 9}
    lines = [
        HEADER,
        *chain("m1", "m2", "m3", "m4", "m5"),
        line("compaction", "c1", "m5", summary="c1", firstKeptEntryUuid="m4", **compaction),
        *chain("m6", "m7", "m8", below="c1"),
        line("stack_summary", "ss", "m3", summary="ss", fromUuid="m8"),
        *chain("m9", "m10", below="ss"),
        line("compaction", "c2", "m10", summary="c2", firstKeptEntryUuid="ss", **compaction),
        *chain("m11", below="c2"),
    ]
    with Session.open(write(tmp_path / "s.jsonl", lines), readonly=True) as session:
        assert said(session.context()) == STACKED
        assert said(session.context("m8")) == ["c1", "m4", "m5", "m6", "m7", "m8"]
        assert said(session.context("m10")) == ["m1", "m2", "m3", "ss", "m9", "m10"]


def test_compaction_and_stacking_by_the_api_each_stay_on_their_branch() -> None:
    with in_memory() as session:
        _say(session, "m1", "m2", "m3", "m4", "m5")
        session.compact("c1", first_kept="m4")
        _say(session, "m6", "m7", "m8")
        with pytest.warns(SessionTreeWarning, match="above compaction"):
            stacked = session.pop("m3", summary="ss")
        _say(session, "m9", "m10")
        session.compact("c2", first_kept=stacked)
        _say(session, "m11")
        assert said(session.context()) == STACKED
        assert said(session.context("m8")) == ["c1", "m4", "m5", "m6", "m7", "m8"]
        assert said(session.context("m10")) == ["m1", "m2", "m3", "ss", "m9", "m10"]
