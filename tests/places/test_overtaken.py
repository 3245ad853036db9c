"""A writer in a bucket that another program overtakes plans again, and no update is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from sessiontree import Session
from sessiontree.errors import InvalidNameError, OvertakenError
from sessiontree.session import repair_file
from sessiontree.storage.log import Log
from sessiontree.storage.places import place_of
from tests.places.overtaking import Programs, programs
from tests.support.conversation import assistant, user

NAME = "p/s.jsonl"


@pytest.fixture
def two() -> Iterator[Programs]:
    with programs() as found:
        Session.create(f"{found.first}/{NAME}", cwd="/p").close()
        yield found


def texts(url: str) -> list[object]:
    with Session.open(f"{url}/{NAME}", readonly=True) as session:
        assert session.verify() == []
        return [one["message"]["content"] for one in session.entries() if one.is_content]


def test_a_message_is_appended_behind_the_others_and_below_what_its_writer_saw(
    two: Programs,
) -> None:
    with Session.open(f"{two.first}/{NAME}") as session, Session.open(f"{two.second}/{NAME}") as o:
        with two.overtaking(lambda: o.append_message(user("theirs"))):
            mine = session.append_message(user("mine"))
        assert mine.parent_uuid == session.header.uuid
        assert session.conflict is not None
    assert texts(two.first) == ["theirs", "mine"]


def test_an_annotation_goes_below_the_entry_that_came_between(two: Programs) -> None:
    with Session.open(f"{two.first}/{NAME}") as session, Session.open(f"{two.second}/{NAME}") as o:
        with two.overtaking(lambda: o.append_message(user("theirs"))):
            named = session.rename("mine")
        assert named.parent_uuid == o.leaf.uuid
    with Session.open(f"{two.first}/{NAME}") as session:
        assert session.name == "mine"
        assert session.context().messages == [user("theirs")]


def test_a_batch_of_annotations_goes_below_the_entry_that_came_between(two: Programs) -> None:
    with Session.open(f"{two.first}/{NAME}") as session, Session.open(f"{two.second}/{NAME}") as o:
        with two.overtaking(lambda: o.append_message(user("theirs"))), session.batch():
            first = session.rename("mine")
            second = session.update_metadata(a=1)
        assert (first.parent_uuid, second.parent_uuid) == (o.leaf.uuid, first.uuid)
        assert first["parentUuid"] == o.leaf.uuid
        session.append_message(user("mine"))
        session.rename("again")
    assert texts(two.second) == ["theirs", "mine"]
    with Session.open(f"{two.first}/{NAME}") as session:
        assert session.context().messages == [user("mine")]  # below what its writer saw


def test_a_label_that_another_program_gave_meanwhile_is_refused(two: Programs) -> None:
    with Session.open(f"{two.first}/{NAME}") as session:
        entries = [session.append_message(user(text)).uuid for text in ("a", "b")]
        with (
            Session.open(f"{two.second}/{NAME}") as other,
            two.overtaking(lambda: other.label(entries[0], "done")),
            pytest.raises(InvalidNameError),
        ):
            session.label(entries[1], "done")
        session.refresh()
        assert session.entry("done").uuid == entries[0]


def test_a_locked_block_that_is_overtaken_writes_nothing_and_says_so(two: Programs) -> None:
    def count(url: str) -> None:
        with Session.open(f"{url}/{NAME}") as session, session.locked():
            session.update_metadata(n=session.metadata.get("n", 0) + 1)

    count(two.second)
    with two.overtaking(lambda: count(two.second)), pytest.raises(OvertakenError, match="again"):
        count(two.first)
    count(two.first)
    with Session.open(f"{two.first}/{NAME}") as session:
        assert session.metadata["n"] == 3


def test_a_locked_block_sees_its_own_writes_and_those_of_its_lanes(two: Programs) -> None:
    with Session.open(f"{two.first}/{NAME}") as session, session.locked():
        one = session.append_message(user("one"))
        with session.lane("side") as lane:
            lane.append_message(assistant("two"))
        with session.batch():
            session.append_message(assistant("three"))
        assert session.append_message(user("four")).uuid in [e.uuid for e in session.path()]
        assert session.entry(one.uuid) == one
    assert texts(two.second) == ["one", [{"type": "text", "text": "two"}],
                                 [{"type": "text", "text": "three"}], "four"]  # fmt: skip


def test_a_scratch_lane_is_kept_below_the_entry_that_came_between(two: Programs) -> None:
    with Session.open(f"{two.first}/{NAME}") as session, Session.open(f"{two.second}/{NAME}") as o:
        session.append_message(user("start"))
        with session.scratch() as lane:
            lane.append_message(assistant("tried"))
            with two.overtaking(lambda: o.append_message(user("theirs"))):
                lane.keep()
    assert len(texts(two.first)) == 3


def test_gc_that_is_overtaken_collects_again_and_keeps_what_came_between(two: Programs) -> None:
    later = datetime.now(UTC) + timedelta(days=8)
    with Session.open(f"{two.first}/{NAME}") as session, Session.open(f"{two.second}/{NAME}") as o:
        session.append_message(user("start"))
        with session.lane("scratch/tried") as lane:
            lane.append_message(user("garbage"))
        with two.overtaking(lambda: o.append_message(user("theirs")), times=2):
            collected = session.gc(now=later)
        assert [entry["message"] for entry in collected.entries] == [user("garbage")]
        session.append_message(user("mine"))
    assert texts(two.second) == ["start", "theirs", "theirs", "mine"]


def test_gc_in_a_locked_block_that_is_overtaken_changes_nothing_and_says_so(two: Programs) -> None:
    later = datetime.now(UTC) + timedelta(days=8)
    with Session.open(f"{two.first}/{NAME}") as session, Session.open(f"{two.second}/{NAME}") as o:
        with session.lane("scratch/tried") as lane:
            lane.append_message(user("garbage"))
        with (
            two.overtaking(lambda: o.append_message(user("theirs"))),
            pytest.raises(OvertakenError, match="again"),
            session.locked(),
        ):
            session.gc(now=later)
    assert texts(two.second) == ["garbage", "theirs"]


def _add_fragment(url: str) -> Log:
    """Append a torn line; return the log, which is open to read."""
    place, name = place_of(f"{url}/{NAME}")
    with closing(place.log(name)) as log:
        log.append(b'{"type":"mess\n', log.size())
    return place.log(name, readonly=True)


def test_a_repair_that_is_overtaken_repairs_again_and_keeps_one_original(two: Programs) -> None:
    log = _add_fragment(two.first)
    with Session.open(f"{two.first}/{NAME}") as session, Session.open(f"{two.second}/{NAME}") as o:
        with two.overtaking(lambda: o.append_message(user("theirs"))):
            repaired = session.repair()
        assert (len(repaired.mended), repaired.remaining) == (1, [])
        session.append_message(user("mine"))
    assert texts(two.second) == ["theirs", "mine"]
    (kept,) = log.parts.list()
    assert repaired.evidence == log.parts.name(kept)
    assert b"theirs" in b"".join(log.parts.read(kept))


def test_a_repair_without_a_header_that_is_overtaken_repairs_again(two: Programs) -> None:
    def remove_header(log: Log) -> None:
        log.rewrite(iter([log.read(0, log.size()).partition(b"\n")[2]]))

    with Session.open(f"{two.first}/{NAME}") as session:
        session.append_message(user("start"))
    place, name = place_of(f"{two.first}/{NAME}")
    with closing(place.log(name)) as log, log.hold():
        remove_header(log)
    with two.overtaking(lambda: _add_fragment(two.second)):
        repaired = repair_file(f"{two.first}/{NAME}")
    assert len(repaired.mended) == 2
    assert texts(two.second) == ["start"]
