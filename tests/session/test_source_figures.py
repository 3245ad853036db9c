"""The figures of the document that the format comes from, made by the API and read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree import Entry, RefError, Session, SessionTreeWarning
from tests.support.conversation import HEADER, in_memory, line, message, said, said_in, user, write


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
        assert session.verify() == []


def test_a_pop_that_names_no_leaf_is_whole(tmp_path: Path) -> None:
    lines = [
        {**HEADER, "uuid": "a1b2c3"},
        message("d4e5f6", "a1b2c3", "hi"),
        message("g7h8i9", "d4e5f6", "hello", "assistant"),
        line("stack_summary", "x1y2z3", "g7h8i9", summary="Work done after this point"),
    ]
    with Session.open(write(tmp_path / "s.jsonl", lines)) as session:
        assert session.verify() == []
        assert said(session.context())[-1] == "Work done after this point"
        session.append("branch_summary", summary="without a leaf", parent="d4e5f6")
        assert said(session.context())[-1] == "without a leaf"
        assert session.verify() == []
        with pytest.raises(RefError, match="'fromUuid' of the branch_summary is not the uuid"):
            session.append("branch_summary", summary="S", fromUuid="nowhere")


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


def test_multiple_pops_give_the_context_of_the_figure(file: Path) -> None:
    with Session.create(file) as session:
        _say(session, "b", "c", "d", "e", "f", "g", "h")
        i = session.pop("c", summary="i")
        _say(session, "j", "k", "l")
        m = session.pop("k", summary="m")
        _say(session, "n")
        assert (i["fromUuid"], i.parent_uuid, m["fromUuid"], m.parent_uuid) == ("h", "c", "l", "k")
        assert said(session.context()) == said_in(file) == ["b", "c", "i", "j", "k", "m", "n"]


def test_a_compaction_keeps_from_its_first_kept_entry_on(file: Path) -> None:
    with Session.create(file) as session:
        _say(session, *(f"m{n}" for n in range(1, 11)))
        compaction = session.compact("summary", first_kept="m6")
        assert (compaction.parent_uuid, compaction["firstKeptEntryUuid"]) == ("m10", "m6")
        kept = ["summary", "m6", "m7", "m8", "m9", "m10"]
        assert said(session.context()) == said_in(file) == kept


def test_compaction_and_stacking_each_stay_on_their_branch(file: Path) -> None:
    with Session.create(file) as session:
        _say(session, "m1", "m2", "m3", "m4", "m5")
        session.compact("c1", first_kept="m4")
        _say(session, "m6", "m7", "m8")
        with pytest.warns(SessionTreeWarning, match="above compaction"):
            stacked = session.pop("m3", summary="ss")
        _say(session, "m9", "m10")
        session.compact("c2", first_kept=stacked)
        _say(session, "m11")
        assert said(session.context()) == said_in(file) == ["c2", "ss", "m9", "m10", "m11"]
        assert said(session.context("m8")) == ["c1", "m4", "m5", "m6", "m7", "m8"]
        assert said(session.context("m10")) == ["m1", "m2", "m3", "ss", "m9", "m10"]
