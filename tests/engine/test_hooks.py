"""Hooks: told of what is written, in order; able to refuse it; free to use the session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sessiontree import Entry, HookDepthError, HookRejectedError, Session, UsageError
from sessiontree.engine.hooks import DEEPEST, EVENTS
from tests.support.conversation import assistant, in_memory, said, talk, user
from tests.support.table import for_each


class Recorder:
    """Notes every call: the event, the type of the entry, whether it was in the file."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.entries: list[Entry] = []

    def __getattr__(self, event: str) -> Any:
        if event not in EVENTS:
            raise AttributeError(event)

        def told(session: Session, entry: Entry) -> None:
            self.calls.append((event, entry.type))
            self.entries.append(entry)
            is_before = event.startswith("before")
            assert (entry.offset < 0) == is_before
            assert any(e.uuid == entry.uuid for e in session.entries()) != is_before

        return told


@for_each(
    "write, type, event",
    [
        (lambda s: s.append_message(user("x")), "message", ""),
        (lambda s: s.label("@", "x"), "label", ""),
        (lambda s: s.rename("x"), "session_info", ""),
        (lambda s: s.push(), "stack_push", ""),
        (lambda s: s.set_model("p", "m"), "model_change", ""),
        (lambda s: s.edit_context("@", None), "context_edit", ""),
        (lambda s: s.branch(s.header), "branch", "branch"),
        (lambda s: s.branch(s.header, summary="s"), "branch_summary", "branch"),
        (lambda s: s.switch(s.header), "branch", "branch"),
        (lambda s: s.rewind(), "branch", "branch"),
        (lambda s: s.pop(summary="s"), "stack_summary", "branch"),
        (lambda s: s.compact("s", keep=0), "compaction", "compact"),
    ],
)
def test_the_calls_come_in_order(write: Callable[[Session], object], type: str, event: str) -> None:
    hook = Recorder()
    with in_memory(hooks=[hook]) as session:
        talk(session, "p1", "a1")
        del hook.calls[:], hook.entries[:]
        write(session)
        kinds = ["before_append", "after_append"]
        if event:
            kinds = [f"before_{event}", *kinds, f"after_{event}"]
        assert hook.calls == [(kind, type) for kind in kinds]
        assert len({entry.uuid for entry in hook.entries}) == 1


def test_hooks_are_called_in_the_order_given() -> None:
    calls: list[str] = []
    named = [SimpleNamespace(before_append=lambda *_, n=name: calls.append(n)) for name in "ab"]
    with in_memory(hooks=named) as session:
        session.append_message(user("x"))
    assert calls == ["a", "b"]


def refuses(event: str, type: str) -> SimpleNamespace:
    """A hook that vetoes one event for entries of one type."""

    def veto(session: Session, entry: Entry) -> None:
        if entry.type == type:
            raise HookRejectedError("not today")

    return SimpleNamespace(**{event: veto})


@for_each(
    "event, type, write",
    [
        ("before_append", "message", lambda s: s.append_message(user("x"))),
        ("before_append", "label", lambda s: s.label(s.path()[1], "x")),
        ("before_append", "session_info", lambda s: s.update_metadata(a=1)),
        ("before_append", "branch", lambda s: s.branch(s.header)),
        ("before_branch", "branch", lambda s: s.branch(s.header, name="n")),
        ("before_branch", "branch", lambda s: s.switch(s.header)),
        ("before_branch", "branch_summary", lambda s: s.branch(s.header, summary="s")),
        ("before_branch", "branch_summary", lambda s: s.branch(s.header, summary="s", name="n")),
        ("before_branch", "stack_summary", lambda s: s.pop(s.header, summary="s")),
        ("before_compact", "compaction", lambda s: s.compact("s", keep=0)),
        ("before_append", "compaction", lambda s: s.compact("s", keep=0)),
    ],
)
def test_a_veto_writes_nothing_and_moves_nobody(
    file: Path, event: str, type: str, write: Callable[[Session], object]
) -> None:
    with Session.create(file, cwd="/p") as session:
        talk(session, "p1", "a1")
    after = Recorder()
    with Session.open(file, hooks=[refuses(event, type), after]) as session:
        before, leaf = file.read_bytes(), session.leaf
        with pytest.raises(HookRejectedError, match="not today"):
            write(session)
        assert file.read_bytes() == before
        assert session.leaf == leaf
        assert not any(kind.startswith("after") for kind, _ in after.calls)
        assert said(session.context()) == ["p1", "a1"]


def test_a_hook_may_append_before_and_its_entry_comes_first() -> None:
    def stamp(session: Session, entry: Entry) -> None:
        if entry.type == "message":
            session.append("custom", customType="stamp")

    with in_memory(hooks=[SimpleNamespace(before_append=stamp)]) as session:
        first, second = talk(session, "p1", "a1")
        types = [entry.type for entry in session.path()]
        assert types == ["session", "custom", "message", "custom", "message"]
        assert session.path()[2] == first
        assert session.leaf == second


def test_an_entry_with_a_parent_stays_below_it_wherever_a_hook_goes() -> None:
    def stamp(session: Session, entry: Entry) -> None:
        if entry.type == "message":
            session.append("custom", customType="stamp")

    with in_memory(hooks=[SimpleNamespace(before_append=stamp)]) as session:
        first, *_ = talk(session, "p1", "a1")
        assert session.append_message(user("p2"), parent=first).parent_uuid == first.uuid
        assert session.append_message(user("p3")).parent_uuid == session.path()[-2].uuid


def test_a_hook_may_branch_compact_and_build_contexts() -> None:
    class Busy:
        def __init__(self) -> None:
            self.seen: list[list[str]] = []

        def after_append(self, session: Session, entry: Entry) -> None:
            self.seen.append(said(session.context()))
            if entry.type == "message" and "compact" in str(entry["message"]):
                session.compact("short", keep=0)

        def after_compact(self, session: Session, entry: Entry) -> None:
            session.branch(entry, name="fresh")
            list(session.tree())

    hook = Busy()
    with in_memory(hooks=[hook]) as session:
        talk(session, "p1", "compact now")
        assert hook.seen == [["p1"], ["p1", "compact now"], ["short"], ["short"]]
        assert session.leaf["name"] == "fresh"
        talk(session, "p2")
        assert said(session.context()) == ["short", "p2"]


@for_each("event", ["before_append", "after_append"])
def test_hooks_within_hooks_are_bounded(file: Path, event: str) -> None:
    def told(session: Session, entry: Entry) -> None:
        session.append("custom", customType="again")

    with Session.create(file, cwd="/p", hooks=[SimpleNamespace(**{event: told})]) as session:
        with pytest.raises(HookDepthError, match="within hooks"):
            session.append("custom", customType="first")
        written = 0 if event == "before_append" else DEEPEST + 1
        assert len(session.path()) == 1 + written
        with pytest.raises(HookDepthError):
            session.append("custom", customType="first")
    with Session.open(file) as session:
        assert len(session.path()) == 1 + 2 * written


def test_a_failing_after_hook_does_not_undo_what_is_kept(file: Path) -> None:
    def fails(session: Session, entry: Entry) -> None:
        raise RuntimeError("cannot notify")

    with Session.create(file, cwd="/p", hooks=[SimpleNamespace(after_append=fails)]) as session:
        with pytest.raises(RuntimeError, match="notify"):
            session.append_message(user("p1"))
        assert said(session.context()) == ["p1"]
    with Session.open(file) as session:
        assert said(session.context()) == ["p1"]


class Elsewhere:
    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def on_conflict(self, session: Session, entry: Entry) -> None:
        self.told.append((session.leaf.uuid, entry.uuid))
        assert session.entry(entry.uuid) == entry


@for_each("notice", ["append", "annotation", "refresh", "batch"])
def test_a_leaf_moved_by_another_writer_is_told(file: Path, notice: str) -> None:
    hook = Elsewhere()
    with Session.create(file, cwd="/p", hooks=[hook]) as session, Session.open(file) as other:
        mine = session.append_message(user("p1"))
        other.refresh()
        other.append_message(assistant("a1"))
        theirs = other.append_message(user("p2"))
        assert hook.told == []
        if notice == "append":
            mine = session.append_message(user("p3"))
        elif notice == "annotation":
            session.rename("x")
        elif notice == "refresh":
            session.refresh()
        else:
            with session.batch():
                mine = session.append_message(user("p3"))
        assert hook.told == [(mine.uuid, theirs.uuid)]
        session.append_message(user("p4"))
        session.refresh()
        assert len(hook.told) == 1


def test_annotations_and_other_lanes_of_others_are_not_told(file: Path) -> None:
    hook = Elsewhere()
    with Session.create(file, cwd="/p", hooks=[hook]) as session:
        first = session.append_message(user("p1"))
        with Session.open(file) as other, Session.open(file, lane="agent-2") as side:
            other.label(first, "x")
            other.rename("n")
            talk(side, "s1")
        session.refresh()
        talk(session, "p2")
    assert hook.told == []


def test_a_hook_told_of_a_move_may_write(file: Path) -> None:
    follows = SimpleNamespace(on_conflict=lambda session, entry: session.switch(entry))
    with Session.create(file, cwd="/p", hooks=[follows]) as session, Session.open(file) as other:
        talk(session, "p1")
        other.refresh()
        other.append_message(user("theirs"), parent=session.leaf)
        session.refresh()
        assert said(session.context()) == ["p1", "theirs"]


def test_what_is_no_hook_is_refused() -> None:
    for hook in (object(), "before_append", 5, None):
        with pytest.raises(UsageError, match="not a hook"):
            in_memory(hooks=[hook])


def test_a_hook_that_branches_off_does_not_misplace_a_compaction() -> None:
    strays = SimpleNamespace(before_compact=lambda session, entry: session.branch(session.header))
    with in_memory(hooks=[strays]) as session:
        kept = session.append_message(user("keep me"))
        session.append_message(user("and me"))
        with pytest.raises(UsageError, match="moved to"):
            session.compact("what was", first_kept=session.leaf)
        assert session.find(type="compaction") == []
        assert kept in session.entries()
