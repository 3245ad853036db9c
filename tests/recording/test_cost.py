"""What a recorded turn costs; a stream that is told again is known behind a compaction."""

from __future__ import annotations

from pathlib import Path

from sessiontree import Session
from tests.support.conversation import user
from tests.support.files import Counting
from tests.support.streams import as_bytes, conversation, recorded
from tests.support.table import for_each

BARE = [{key: value for key, value in event.items() if key != "uuid"} for event in conversation()]


def large(file: Path) -> Session:
    session = Session.create(file, durability="os")
    with session.batch():
        for _ in range(500):
            session.append_message(user("x" * 2000))
    return session


@for_each("stream", [conversation(), BARE])
def test_a_turn_costs_some_searches_and_the_index_at_most(
    file: Path, stream: list[dict[str, object]]
) -> None:
    large(file).close()
    counting = Counting()
    with Session.open(file, durability="os", fs=counting) as session:
        recorded(session, as_bytes(stream * 3))
        assert session.metadata["agentSessionId"]
    assert counting.bytes_read < 6 * file.stat().st_size


@for_each("stream", [conversation(deltas=False), conversation(whole=True)])
def test_a_turn_that_is_fed_whole_costs_one_search(
    file: Path, stream: list[dict[str, object]]
) -> None:
    large(file).close()
    counting = Counting()
    with Session.open(file, durability="os", fs=counting) as session:
        recorded(session, as_bytes(stream))
        assert not session.reader.view.has_tree
    assert counting.bytes_read < 1.5 * file.stat().st_size


@for_each("compactions", [0, 1, 2])
def test_a_stream_told_again_later_adds_nothing(file: Path, compactions: int) -> None:
    stream = conversation()
    with large(file) as session:
        recorded(session, as_bytes(stream))
        for _ in range(compactions):
            session.compact("short", keep=0)
            session.append_message(user("more"))
        before = [entry.uuid for entry in session.entries()]
    with Session.open(file) as session:
        recorded(session, as_bytes(stream))
        assert [entry.uuid for entry in session.entries()] == before


@for_each("granularity", ["block", "message"])
@for_each("compactions", [1, 2, 3])
def test_a_message_told_again_behind_a_start_without_a_uuid_is_kept_once(
    file: Path, compactions: int, granularity: str
) -> None:
    with large(file) as session:
        recorded(session, as_bytes(BARE), granularity=granularity)
        for _ in range(compactions):
            session.compact("short", keep=0)
            session.append_message(user("more"))
        before = said(session), session.stats().usage
    with Session.open(file) as session:
        recorded(session, as_bytes(BARE), granularity=granularity)
        assert (said(session), session.stats().usage) == before


def said(session: Session) -> list[str]:
    return [entry.uuid for entry in session.entries() if entry.type in ("block", "message")]
