"""A recorded turn costs what it adds; a stream that is told again is known behind a compaction."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sessiontree import Session
from sessiontree.core.codec import encode
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


@pytest.mark.parametrize("stream", [conversation(), BARE])
def test_a_turn_costs_what_it_adds(file: Path, stream: list[dict[str, object]]) -> None:
    with large(file) as session:
        session.compact("short", keep=2000)
    counting = Counting()
    with Session.open(file, durability="os", fs=counting) as session:
        recorded(session, as_bytes(stream))
        assert not session.reader.view.has_tree
    assert counting.bytes_read < 0.4 * file.stat().st_size


@pytest.mark.parametrize("stream", [conversation(), BARE])
def test_a_turn_costs_one_search_where_no_compaction_tells(
    file: Path, stream: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    large(file).close()
    monkeypatch.setattr(naming, "_NEAR", 1)
    counting = Counting()
    with Session.open(file, durability="os", fs=counting) as session:
        recorded(session, as_bytes(stream))
        assert not session.reader.view.has_tree
        assert session.metadata["agentSessionId"]
    assert counting.bytes_read < 1.3 * file.stat().st_size


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


@pytest.mark.parametrize("granularity", ["block", "message"])
@pytest.mark.parametrize("forgets", [set(), {"ids"}, {"ids", "marks"}])
@pytest.mark.parametrize("compactions", [1, 2, 3])
def test_a_message_told_again_behind_a_start_without_a_uuid_is_kept_once(
    file: Path, compactions: int, forgets: set[str], granularity: str
) -> None:
    """Compactions of an older version `forgets` some marks."""
    with large(file) as session:
        recorded(session, as_bytes(BARE), granularity=granularity)
        for _ in range(compactions):
            session.compact("short", keep=0)
            session.append_message(user("more"))
        before = said(session), session.stats().usage
    with_less(file, forgets)
    with Session.open(file) as session:
        recorded(session, as_bytes(BARE), granularity=granularity)
        assert (said(session), session.stats().usage) == before


def said(session: Session) -> list[str]:
    return [entry.uuid for entry in session.entries() if entry.type in ("block", "message")]


def with_less(file: Path, keys: set[str]) -> None:
    """Remove keys from the marks in all compactions; places in the file stay as they are."""
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(_with_less(line, keys) for line in lines))


def _with_less(line: bytes, keys: set[str]) -> bytes:
    entry = json.loads(line)
    if entry["type"] != "compaction":
        return line
    size, marks = len(line) - 1, entry["state"]["uuids"]
    entry["state"]["uuids"] = {key: marks[key] for key in marks if key not in keys}
    entry["summary"] += " " * (size - len(encode(entry)))
    return encode(entry) + b"\n"
