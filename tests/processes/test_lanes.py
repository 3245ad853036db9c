"""Lanes of several processes in one file: written, kept and collected at once."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sessiontree import Entry, Session
from sessiontree.core.entry import MARKERS
from sessiontree.errors import FileReplacedError, NothingToDoError
from tests.support.children import together
from tests.support.conversation import line, user
from tests.support.terminal import run

LATER = datetime.now(UTC) + timedelta(days=8)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "s.jsonl"
    with Session.create(file, durability="os") as session:
        say(session, "start")
    return file


def say(session: Session, text: str) -> Entry:
    return session.append_message(user(text))


def opened(file: Path, lane: str = "main") -> Session:
    return Session.open(file, lane=lane, durability="os")


def all_of(file: Path) -> list[Entry]:
    with Session.open(file, readonly=True) as session:
        assert session.verify() == []
        return list(session.entries())


def texts(entries: list[Entry]) -> list[str]:
    return [entry["message"]["content"] for entry in entries if entry.type == "message"]


def path_to(file: Path, entry: Entry) -> list[str]:
    with Session.open(file, readonly=True) as session:
        return [above.uuid for above in session.path(entry)]


def assert_each_keep_says_what_it_left(file: Path) -> int:
    """Each keep stands below the whole of its lane, and names what it left; how many there are."""
    entries = all_of(file)
    by_uuid = {entry.uuid: entry for entry in entries}
    last_of: dict[str | None, Entry] = {}
    main = entries[0]
    keeps = 0
    for entry in entries:
        if entry.type == "branch":
            keeps += 1
            tip = by_uuid[entry.parent_uuid or ""]
            assert last_of[tip.lane] == tip
            is_left = main.uuid not in path_to(file, entry)
            assert entry.get("fromUuid") == (main.uuid if is_left else None)
            upwards = (by_uuid[uuid] for uuid in reversed(path_to(file, entry)))
            main = next(above for above in upwards if above.type not in MARKERS)
        elif entry.lane is None:
            main = entry
        last_of[entry.lane] = entry
    return keeps


def test_keeps_racing_each_other_and_main_lose_nothing_and_name_what_they_leave(file: Path) -> None:
    def keeper(name: str) -> None:
        for number in range(8):
            with opened(file) as main, main.scratch() as trial:
                for step in range(3):
                    say(trial, f"{name} {number} {step}")
                trial.keep()

    def writer() -> None:
        with opened(file) as main:
            for number in range(40):
                say(main, f"main {number}")

    together(lambda: keeper("a"), lambda: keeper("b"), writer)
    expected = [f"{name} {n} {step}" for name in "ab" for n in range(8) for step in range(3)]
    expected += ["start", *(f"main {number}" for number in range(40))]
    assert sorted(texts(all_of(file))) == sorted(expected)
    assert assert_each_keep_says_what_it_left(file) == 16


def test_a_lane_kept_while_it_is_written_is_kept_as_far_as_it_was(file: Path) -> None:
    lane = "scratch/long"
    with opened(file, lane) as trial:
        say(trial, "first")

    def writer() -> None:
        with opened(file, lane) as trial:
            for number in range(60):
                say(trial, f"more {number}")

    def keeper() -> None:
        with opened(file) as main:
            for _ in range(30):
                try:
                    main.keep(lane)
                except NothingToDoError:
                    main.refresh()

    together(writer, keeper)
    with opened(file) as main:
        with contextlib.suppress(NothingToDoError):  # the last of the keeps had it all
            main.keep(lane)
        assert texts(main.path()) == ["start", "first", *(f"more {n}" for n in range(60))]
    assert_each_keep_says_what_it_left(file)


def test_a_lane_that_two_commands_keep_at_once_is_kept_once(file: Path) -> None:
    with opened(file, "scratch/x") as trial:
        say(trial, "tried")
    together(*[lambda: run("keep", file, "scratch/x")] * 3)
    assert [entry.type for entry in all_of(file)].count("branch") == 1


def test_lanes_kept_on_lanes_by_processes_of_their_own_keep_to_their_lanes(file: Path) -> None:
    def agent(name: str) -> None:
        with opened(file, name) as lane:
            for number in range(5):
                say(lane, f"{name} {number}")
                with lane.scratch() as trial:
                    say(trial, f"{name} tries {number}")
                    if number % 2:
                        trial.keep()

    names = [f"agent-{n}" for n in range(3)]
    together(*(lambda name=name: agent(name) for name in names))
    for name in names:
        with opened(file, name) as lane:
            tried = ["", " tries"]
            expected = [f"{name}{how} {n}" for n in range(5) for how in tried[: 1 + n % 2]]
            assert texts(lane.path()) == ["start", *expected]
    with opened(file) as main:
        assert texts(main.path()) == ["start"]


def old_trials(file: Path, count: int) -> None:
    """Trials of January 2020, each a day after the one before."""
    with opened(file) as main, file.open("a") as lines:
        for day in range(count):
            when = f"2020-01-{day + 1:02}T00:00:00.000Z"
            keys = {"lane": f"scratch/old-{day}", "timestamp": when, "message": user(f"old {day}")}
            old = line("message", f"old-{day}", main.leaf.uuid, **keys)
            lines.write(json.dumps(old) + "\n")


def test_gc_beside_a_trial_that_is_written_takes_what_is_old_and_nothing_else(file: Path) -> None:
    old_trials(file, 15)

    def trying() -> None:
        with opened(file) as main:
            for number in range(10):
                with main.scratch() as trial:
                    for step in range(4):
                        say(trial, f"{number} {step}")
                    if number % 2:
                        trial.keep()

    def collector() -> None:
        for day in range(15):
            with opened(file) as main:
                gone = main.gc(now=datetime(2020, 1, day + 9, tzinfo=UTC)).entries
                assert [entry.uuid for entry in gone] == [f"old-{day}"]

    together(trying, collector)
    left = texts(all_of(file))
    assert left == ["start", *(f"{number} {step}" for number in range(10) for step in range(4))]
    with opened(file) as main:
        kept = [f"{number} {step}" for number in range(1, 10, 2) for step in range(4)]
        assert texts(main.path()) == ["start", *kept]


def test_a_trial_whose_lane_was_collected_writes_nothing_and_says_so(file: Path) -> None:
    with opened(file) as main, main.scratch() as trial:
        tried = say(trial, "tried")
        together(lambda: run("gc", file, "--as-of", LATER.isoformat()))
        before = file.read_bytes()
        assert tried.line not in before
        with pytest.raises(FileReplacedError, match="nothing was written"):
            say(trial, "more")
        with pytest.raises(NothingToDoError, match="nothing on the lane"):
            trial.keep()
        say(main, "on")
        assert file.read_bytes().startswith(before)
        assert texts(main.path()) == ["start", "on"]
    (archive,) = file.parent.glob("*.archive-*")
    assert archive.read_bytes() == tried.line + b"\n"


def test_nested_trials_are_collected_with_what_they_were_kept_on(file: Path) -> None:
    with opened(file) as main:
        for outcome in ("neither", "inner", "outer", "both"):
            with main.scratch() as outer:
                say(outer, f"{outcome}: outer")
                with outer.scratch() as inner:
                    say(inner, f"{outcome}: inner")
                    if outcome in ("inner", "both"):
                        inner.keep()
                if outcome in ("outer", "both"):
                    outer.keep()
        kept = ["outer: outer", "both: outer", "both: inner"]
        assert sorted(texts(main.gc(now=LATER).entries)) == [
            *("inner: inner", "inner: outer", "neither: inner", "neither: outer", "outer: inner")
        ]
        assert texts(main.path()) == ["start", *kept]
        assert main.gc(now=LATER).entries == []
        say(main, "on")
    assert texts(all_of(file)) == ["start", *kept, "on"]
