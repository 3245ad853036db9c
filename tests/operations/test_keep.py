"""Keeping: what a scratch lane tried becomes a part of the lane it was opened from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessiontree import (
    Entry,
    HookRejectedError,
    NothingToDoError,
    ReadOnlyError,
    Session,
    UsageError,
)
from sessiontree.storage.fs import Disk
from tests.support.conversation import in_memory, said, said_in, scratch, talk, user


def test_keeping_says_which_entry_of_main_it_leaves_on_a_side_branch(main: Session) -> None:
    with scratch(main, "tried") as trial:
        beside = main.append_message(user("beside"))
        main.label(beside, "mine")
        kept = trial.keep()
    assert kept["fromUuid"] == beside.uuid
    main.merge(kept["fromUuid"])
    assert said(main.context()) == ["p1", "tried", "beside"]
    main.switch(kept["fromUuid"])
    assert said(main.context()) == ["p1", "beside"]
    assert main.verify() == []


class Meddled(Disk):
    """A disk on which another writer appends just before the file is locked, once asked to."""

    meddle: Callable[[], Any] | None = None

    def lock(self, fd: int) -> bool:
        meddle, self.meddle = self.meddle, None
        if meddle is not None:
            meddle()
        return super().lock(fd)


def test_keeping_takes_in_what_the_lane_gets_until_the_file_is_locked(file: Path) -> None:
    disk = Meddled()
    with Session.create(file) as other, Session.open(file, fs=disk) as session:
        with scratch(other, "tried") as trial:
            disk.meddle = lambda: talk(trial, "tried late")
            session.keep(trial.lane_name)
        assert said(session.context())[-2:] == ["tried", "tried late"]


def test_keeping_sees_what_another_writer_added_to_main_meanwhile(
    file: Path, main: Session
) -> None:
    with scratch(main, "tried") as trial, Session.open(file) as other:
        (theirs,) = talk(other, "theirs")
        assert trial.keep()["fromUuid"] == theirs.uuid


@pytest.mark.parametrize("marked", [False, True])
def test_keeping_leaves_nothing_where_main_said_nothing_meanwhile(
    marked: bool, main: Session
) -> None:
    with scratch(main, "tried") as trial:
        if marked:
            main.label("@", "here")
            main.push("note")
            main.branch("@", name="on")
            main.rename("talk")
        assert "fromUuid" not in trial.keep()


def test_a_first_entry_of_a_lane_leaves_nothing(session: Session) -> None:
    with scratch(session, "tried") as trial:
        talk(session, "beside")
        with session.lane("agent-2") as agent:
            kept = agent.keep(trial.lane_name)
            assert (kept.lane, "fromUuid" in kept) == ("agent-2", False)


def test_what_is_kept_already_is_not_kept_again(file: Path, main: Session) -> None:
    with scratch(main, "tried") as trial:
        trial.keep()
    talk(main, "p2")
    before = file.read_bytes()
    with pytest.raises(NothingToDoError, match="kept already"):
        trial.keep()
    with pytest.raises(NothingToDoError, match="kept already"):
        main.keep(trial.lane_name)
    assert file.read_bytes() == before
    assert said(main.context()) == ["p1", "tried", "p2"]


def test_a_kept_lane_is_kept_again_where_main_left_it_or_it_went_on(
    file: Path, main: Session
) -> None:
    first = main.leaf
    with scratch(main, "tried") as trial:
        name = trial.lane_name
    main.keep(name)
    main.switch(first)
    main.keep(name)
    assert said(main.context()) == ["p1", "tried"]
    with Session.open(file, lane=name) as trial:
        talk(trial, "more")
    main.keep(name)
    assert said(main.context()) == ["p1", "tried", "more"]


def test_a_scratch_session_that_was_kept_writes_no_more_and_can_still_be_read(
    main: Session,
) -> None:
    with scratch(main, "tried") as trial:
        trial.keep()
        for write in (
            lambda: talk(trial, "lost"),
            lambda: trial.label("@", "lost"),
            lambda: trial.branch("@"),
            trial.scratch,
            trial.keep,
        ):
            with pytest.raises(ReadOnlyError, match="was kept, and is a part of main; go on"):
                write()
        assert said(trial.context()) == ["p1", "tried"]
    talk(main, "p2")
    assert said(main.context()) == ["p1", "tried", "p2"]


def test_a_lasting_lane_goes_on_after_it_was_kept(session: Session) -> None:
    with session.lane("agent-2") as agent:
        talk(agent, "report")
        agent.keep()
        talk(agent, "more")
        assert said(session.context()) == ["report"]
        agent.keep()
        assert said(session.context()) == ["report", "more"]


def test_a_veto_leaves_a_trial_as_it_was() -> None:
    class Refusing:
        def before_branch(self, session: Session, entry: Entry) -> None:
            raise HookRejectedError("not now")

    with in_memory(hooks=[Refusing()]) as main, scratch(main, "tried") as trial:
        with pytest.raises(HookRejectedError):
            trial.keep()
        talk(trial, "more")
        assert said(trial.context()) == ["tried", "more"]
        assert said(main.context()) == []


def test_hooks_are_told_of_a_keep_and_may_write_before_it() -> None:
    told: list[tuple[str, str | None]] = []

    class Noting:
        def before_branch(self, session: Session, entry: Entry) -> None:
            told.append(("before", entry.parent_uuid))
            talk(session, "noted")

        def after_branch(self, session: Session, entry: Entry) -> None:
            told.append(("after", entry.parent_uuid))

    with in_memory(hooks=[Noting()]) as main:
        talk(main, "p1")
        with scratch(main, "tried") as trial:
            tip = trial.leaf.uuid
            kept = trial.keep()
        assert told == [("before", tip), ("after", tip)]
        assert said(main.context()) == ["p1", "tried"]
        assert said(main.context(kept["fromUuid"])) == ["p1", "noted"]


def test_a_trial_is_tried_and_kept_inside_a_batch_of_either_session(stored: Session) -> None:
    with stored.batch():
        talk(stored, "p1")
        with scratch(stored, "tried") as trial:
            trial.keep()
        talk(stored, "p2")
    with stored.scratch() as trial, trial.batch():
        talk(trial, "again")
        trial.keep()
    assert said(stored.context()) == ["p1", "tried", "p2", "again"]
    assert stored.verify() == []


def test_a_nested_trial_is_kept_on_the_trial_it_was_opened_from(main: Session) -> None:
    with scratch(main, "outer") as outer:
        with scratch(outer, "inner") as inner:
            assert inner.keep().lane == outer.lane_name
        assert said(main.context()) == ["p1"]
        assert said(outer.context()) == ["p1", "outer", "inner"]
        talk(outer, "on")
        outer.keep()
    assert said(main.context()) == ["p1", "outer", "inner", "on"]


def test_a_trial_is_kept_on_its_lane_though_the_session_is_closed(
    file: Path, main: Session
) -> None:
    with main.lane("agent-2") as agent:
        talk(agent, "agent")
        trial = agent.scratch()
    with trial:
        talk(trial, "tried")
        assert trial.keep().lane == "agent-2"
    assert said(main.context()) == ["p1"]
    assert said_in(file, "agent-2") == ["p1", "agent", "tried"]


def test_a_trial_is_kept_after_it_was_closed_as_long_as_someone_can(main: Session) -> None:
    with scratch(main, "tried") as trial:
        pass
    trial.keep()
    assert said(main.context()) == ["p1", "tried"]
    main.close()
    with pytest.raises(ReadOnlyError, match="is closed"):
        trial.keep()


def test_a_nested_trial_outlives_the_one_that_was_kept_before_it(session: Session) -> None:
    with scratch(session, "outer") as outer, scratch(outer, "inner") as inner:
        outer.keep()
        assert inner.keep().lane is None
    assert said(session.context()) == ["outer", "inner"]


def test_a_second_session_on_a_trial_keeps_it_where_the_first_would(session: Session) -> None:
    with scratch(session, "tried") as trial, trial.lane(trial.lane_name) as again:
        assert again.leaf == trial.leaf
        again.keep()
    assert said(session.context()) == ["tried"]


def test_a_session_opened_to_read_shows_lanes_and_keeps_nothing(file: Path, main: Session) -> None:
    with main.lane("agent-2") as agent:
        (report,) = talk(agent, "report")
    before = set(file.parent.iterdir())
    with Session.open(file, readonly=True) as main:
        with main.lane("agent-2") as agent, main.lane("other", at=report) as other:
            assert said(agent.context()) == said(other.context()) == ["p1", "report"]
            with Session.open(file, lane="agent-2") as writer:
                talk(writer, "more")
            agent.refresh()
            assert said(agent.context()) == ["p1", "report", "more"]
            for refused in (lambda: talk(agent, "no"), agent.keep, lambda: main.keep("agent-2")):
                with pytest.raises(ReadOnlyError, match="without readonly=True"):
                    refused()
        with pytest.raises(ReadOnlyError, match="without readonly=True"):
            main.scratch()
    assert set(file.parent.iterdir()) == before


def test_a_lane_of_an_old_file_opened_to_read_tells_its_lines_and_damage(file: Path) -> None:
    said_first = b'{"type":"message","message":{"role":"user","content":"first"}}'
    file.write_bytes(b'{"type":"session","id":"x","cwd":"/old"}\n' + said_first + b"\nno json\n")
    with Session.open(file, readonly=True) as main, main.lane("agent-2", at="@") as lane:
        assert (said(lane.context()), lane.file) == (["first"], str(file))
        assert lane.original(lane.leaf) == main.original(main.leaf) == said_first
        assert lane.damage == main.damage != []
        lane.refresh()
        with pytest.raises(ReadOnlyError):
            lane.scratch()


def test_a_lane_with_nothing_on_it_is_not_kept_and_the_others_are_named(main: Session) -> None:
    with pytest.raises(NothingToDoError, match="no lane but main has an entry"):
        main.keep("agent-1")
    for count in range(1, 11):
        with main.lane(f"agent-{count}") as lane:
            talk(lane, "here")
        named = ", ".join(f"agent-{n}" for n in range(max(1, count - 7), count + 1))
        more = f" and {count - 8} more" if count > 8 else ""
        with pytest.raises(NothingToDoError, match=f"; there are entries on {named}{more}$"):
            main.keep("agent-x")


def test_a_closed_session_opens_no_lane(main: Session) -> None:
    main.close()
    with pytest.raises(ReadOnlyError, match="is closed"):
        main.lane("agent-2")
    with pytest.raises(ReadOnlyError, match="is closed"):
        main.scratch()


def test_main_is_kept_on_another_lane_by_its_name(session: Session) -> None:
    with session.lane("agent-2") as agent:
        (left,) = talk(agent, "a1")
        talk(session, "p1")
        kept = agent.keep("main")
        assert (kept.lane, kept["fromUuid"]) == ("agent-2", left.uuid)
        assert said(agent.context()) == ["p1"]


def test_the_main_lane_is_not_kept(session: Session) -> None:
    with pytest.raises(UsageError, match="name the lane"):
        session.keep()
    with session.lane("main") as second, pytest.raises(UsageError, match="name the lane"):
        second.keep()
