"""Moves read what they pass; they do what a look at the whole path says."""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

import sessiontree
from sessiontree import NothingToDoError, Session
from sessiontree.core.entry import Entry
from sessiontree.handles.registry import Registry
from sessiontree.operations.moves import open_push
from tests.support.conversation import talk, user
from tests.support.files import Counting
from tests.support.plugins import Plugin, handle, said

KEPT: list[dict[str, Any]] = [{"keep": 0}, {"first_kept": "@"}]


def pushed(path: list[Entry]) -> Entry | None:
    """The innermost push on a path that no summary follows."""
    for entry, below in reversed(list(zip(path, [*path[1:], None], strict=True))):
        if entry.type == "stack_push" and (below is None or below.type != "stack_summary"):
            return entry
    return None


def compaction_on(path: list[Entry]) -> Entry | None:
    return next((entry for entry in reversed(path) if entry.type == "compaction"), None)


@pytest.mark.parametrize("seed", range(30))
def test_a_pop_and_a_warning_are_those_of_the_whole_path(file: Path, seed: int) -> None:
    random = Random(seed)
    with Session.create(file, durability="os") as session:
        for _ in range(60):
            step = random.choice(
                ["say", "say", "say", "push", "pop", "compact", "switch", "switch"]
            )
            if step == "say":
                talk(session, "p", "a")
            elif step == "push":
                session.push()
            elif step == "compact":
                with suppress(NothingToDoError):
                    session.compact("short", **random.choice(KEPT))
            elif step == "pop":
                with warnings.catch_warnings(action="ignore"), suppress(NothingToDoError):
                    session.pop(summary="popped")
            elif step == "switch":
                target = random.choice(list(session.entries()))
                left, entered = (compaction_on(session.path(ref)) for ref in (None, target))
                above = entered is None or entered in session.path(left) if left else False
                with warnings.catch_warnings(record=True) as told:
                    warnings.simplefilter("always")
                    moved = session.leaf != session.switch(target)
                assert bool(told) == (moved and left != entered and above)
            with Session.open(file, readonly=True) as cold:
                assert open_push(cold.writer) == pushed(session.path())


@pytest.mark.parametrize("pushes", [True, False])
def test_behind_a_compaction_a_pop_costs_what_is_passed(file: Path, pushes: bool) -> None:
    with Session.create(file, durability="os") as session:
        with session.batch():
            talk(session, *("x" * 2000 for _ in range(500)))
        push = session.push() if pushes else None
        session.compact("short", keep=2000)
        talk(session, "p", "a")
    counting = Counting()
    with Session.open(file, durability="os", fs=counting) as session:
        assert open_push(session.writer) == push
        if push is None:
            session.pop(summary="popped")
        assert not session.reader.view.has_tree
    assert counting.bytes_read < 400_000 < file.stat().st_size


def test_a_push_far_above_is_found_without_a_compaction(file: Path) -> None:
    with Session.create(file, durability="os") as session, session.batch():
        push = session.push()
        for _ in range(1000):
            session.append_message(user("x"))
    with Session.open(file) as session:
        assert session.pop(summary="popped").parent_uuid == push.uuid
        with pytest.raises(NothingToDoError):
            session.pop(summary="again")


def test_a_pop_asks_once_for_a_handle_that_cannot_be_resolved() -> None:
    def lost(*_: Any) -> Any:
        raise ValueError("it is gone")

    plugin = Plugin("p", resolve=lost)
    session = sessiontree.Session.create(registry=Registry([plugin]))
    session.append_message(said("do it"))
    for key in range(3):
        session.append_handle(handle(key))
    plugin.asked.clear()
    with pytest.warns(sessiontree.SessionTreeWarning):
        session.pop()
    assert len(plugin.asked) == len(set(plugin.asked))
