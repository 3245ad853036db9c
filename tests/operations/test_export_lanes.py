"""Exports and forks of a session with lanes: what was only tried stays behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sessiontree import Entry, Session, SessionTreeWarning
from sessiontree.core.handle import Handle
from tests.support.conversation import said_in, scratch, talk, user

STAYED_BEHIND = "of scratch lanes that were never kept were not copied"


def says(file: Path) -> set[str]:
    with Session.open(file, readonly=True) as session:
        assert session.verify() == []
        return {row.preview for row in session.tree() if row.type == "message"}


def test_an_export_leaves_behind_what_was_tried_below_it_and_its_blobs(
    file: Path, copy: Path
) -> None:
    with Session.create(file, spill_over=100) as main:
        first = main.append_message(user("p1"))
        with scratch(main, "tried") as trial:
            trial.append_message(user("x" * 1000))
        talk(main, "p2")
        with pytest.warns(SessionTreeWarning, match=f"^2 entries {STAYED_BEHIND}"):
            main.export_branch(first, copy)
    assert says(copy) == {"p1", "p2"}
    assert not copy.with_name("copy.jsonl.blobs").exists()


@pytest.mark.parametrize(
    "reach",
    [
        lambda main, tried: main.keep(str(tried.lane)),
        lambda main, tried: main.merge(tried),
        lambda main, tried: main.label(tried, "good-idea"),
        lambda main, tried: main.branch(tried),
        lambda main, tried: main.append(
            "handle", handle=str(Handle.entry(main.id, tried.uuid)), kind="message"
        ),
    ],
    ids=["a keep", "a merge", "a label", "a branch", "a handle"],
)
def test_an_export_takes_along_what_something_lasting_reaches(
    copy: Path, main: Session, reach: Callable[[Session, Entry], object]
) -> None:
    first = main.leaf
    with scratch(main, "tried") as trial:
        tried = trial.leaf
    main.refresh()
    reach(main, tried)
    talk(main, "p2")
    main.export_branch(first, copy)
    assert says(copy) == {"p1", "tried", "p2"}


@pytest.mark.parametrize("place", [0, 1])
def test_an_export_from_a_scratch_lane_takes_that_lane_and_no_other(
    copy: Path, place: int, main: Session
) -> None:
    with main.scratch() as trial:
        tried = [trial.append_message(user(f"t{n}")) for n in range(3)]
        with trial.scratch(at=tried[1]) as inner:
            talk(inner, "inner")
    with pytest.warns(SessionTreeWarning, match=f"^1 entry {STAYED_BEHIND}"):
        main.export_branch(tried[place], copy)
    assert says(copy) == {f"t{n}" for n in range(place, 3)}
    assert said_in(copy) == [f"t{n}" for n in range(place, 3)]


def test_an_export_from_a_session_on_a_scratch_lane_takes_where_it_stands(
    copy: Path, main: Session
) -> None:
    with scratch(main, "tried") as trial:
        trial.export_branch(main.leaf, copy)
    assert says(copy) == {"p1", "tried"}
    assert said_in(copy) == ["p1", "tried"]


def test_a_lasting_lane_comes_along(copy: Path, main: Session) -> None:
    with main.lane("agent-2") as agent:
        talk(agent, "report")
    main.export_branch(main.header, copy)
    assert says(copy) == {"report", "p1"}


def test_a_fork_takes_a_path_and_so_nothing_that_was_tried_beside_it(
    copy: Path, tmp_path: Path, main: Session
) -> None:
    with scratch(main, "tried") as trial:
        tip = trial.leaf
    talk(main, "p2")
    main.fork(copy)
    main.fork(tmp_path / "tried.jsonl", tip)
    assert says(copy) == {"p1", "p2"}
    assert says(tmp_path / "tried.jsonl") == {"p1", "tried"}
    assert said_in(tmp_path / "tried.jsonl") == ["p1", "tried"]
