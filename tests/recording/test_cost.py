"""A recorded turn costs what it adds; a stream that is told again is known behind a compaction."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree import Session
from sessiontree.engine import naming
from tests.support.conversation import user
from tests.support.files import Counting
from tests.support.streams import as_bytes, conversation, recorded

BARE = [{key: value for key, value in event.items() if key != "uuid"} for event in conversation()]


def large(file: Path) -> Session:
    session = Session.create(file, durability="os")
    with session.batch():
        for _ in range(500):
            session.append_message(user("x" * 2000))
    return session


@pytest.mark.parametrize(("stream", "reads"), [(conversation(), 0.4), (BARE, 2.4)])
def test_a_turn_costs_what_it_adds(
    file: Path, stream: list[dict[str, object]], reads: float
) -> None:
    """`reads` is how often the whole file may be read."""
    with large(file) as session:
        session.compact("short", keep=2000)
    counting = Counting()
    with Session.open(file, durability="os", fs=counting) as session:
        recorded(session, as_bytes(stream))
        assert not session.reader.view.has_tree
    assert counting.bytes_read < reads * file.stat().st_size


@pytest.mark.parametrize(("stream", "reads"), [(conversation(), 1.3), (BARE, 2.3)])
def test_a_turn_costs_one_search_where_no_compaction_tells(
    file: Path, stream: list[dict[str, object]], reads: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    large(file).close()
    monkeypatch.setattr(naming, "_NEAR", 1)
    counting = Counting()
    with Session.open(file, durability="os", fs=counting) as session:
        recorded(session, as_bytes(stream))
        assert not session.reader.view.has_tree
        assert session.metadata["agentSessionId"]
    assert counting.bytes_read < reads * file.stat().st_size


@pytest.mark.parametrize("compactions", [0, 1, 2])
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


def test_a_message_told_again_behind_a_start_without_a_uuid_is_kept_once(file: Path) -> None:
    with large(file) as session:
        recorded(session, as_bytes(BARE))
        session.compact("short", keep=0)
        before = len(session.find(type="block")), session.stats().usage
    with Session.open(file) as session:
        recorded(session, as_bytes(BARE))
        assert (len(session.find(type="block")), session.stats().usage) == before
