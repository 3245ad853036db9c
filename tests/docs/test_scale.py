"""What the page on scale shows works, and what it warns of breaks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pytest

from sessiontree import Session, Store
from sessiontree.errors import StorageError
from sessiontree.storage.log import Log, Moved
from sessiontree.storage.objects.bucket import Bucket
from sessiontree.storage.objects.place import ObjectPlace
from sessiontree.storage.places import place_of
from tests.contracts import PlaceLogs, check_log
from tests.docs.examples import ROOT
from tests.places.server import Server, server
from tests.support.conversation import assistant, user
from tests.support.table import for_each

PAGE: Final = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
_PARTITION: Final = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
_DROP: Final = re.findall(r"`(DROP SCHEMA [^`]*)`", PAGE)[0]


@pytest.fixture(scope="module")
def running() -> Server:
    return server()


@pytest.fixture(scope="module")
def partitioned(running: Server) -> Iterator[str]:
    """A database with a session, partitioned as the page shows."""
    database = running.database()
    url = running.address(database)
    with Session.create(f"{url}/before.jsonl", cwd="/p") as session:
        session.append_message(user("before"))
    running.execute(_PARTITION, database)
    yield url
    place_of(url)[0].close()
    running.execute(f"DROP DATABASE {database} WITH (FORCE)")


def test_a_log_in_partitions_keeps_what_the_engine_relies_on(partitioned: str) -> None:
    check_log(PlaceLogs(place_of(partitioned)[0]))


def test_a_store_in_partitions_has_what_was_there_before_and_does_all(partitioned: str) -> None:
    with Session.open(f"{partitioned}/before.jsonl") as session:
        session.append_message(assistant("after"))
        assert len(session.context().messages) == 2
    store = Store(f"{partitioned}/team")
    for number in range(40):  # in more than one partition
        with store.create(cwd="/p", id=f"{number:08}") as session, session.batch():
            session.append_message(user(f"number {number}"))
            session.append_message(assistant("z" * 50_000))
    assert len(store.list()) == 40
    assert len(list(store.search("number 17"))) == 1
    store.restore(store.trash("00000003"))
    with store.open("00000003") as session:
        session.gc()
        assert len(session.context().messages) == 2
    store.trash("00000004")
    assert len(store.list()) == 39


def test_the_rows_of_a_partitioned_log_are_in_one_partition(
    partitioned: str, running: Server
) -> None:
    database = partitioned.rpartition("/")[2]
    found = running.execute(
        "SELECT log, count(DISTINCT tableoid) FROM sessiontree.lines GROUP BY log", database
    )
    assert {count for _, count in found} == {1}


def test_a_schema_that_is_dropped_ends_its_sessions_and_no_others(running: Server) -> None:
    database = running.database()
    url = running.address(database)
    for year in (2025, 2026):
        with Session.create(f"{url}/s.jsonl?schema=y{year}", cwd="/p") as session:
            session.append_message(user("hello"))
    with Session.open(f"{url}/s.jsonl?schema=y2025") as session:
        running.execute(_DROP, database)
        with pytest.raises(StorageError, match="no tables of sessions any more"):
            session.append_message(user("late"))
    with Session.open(f"{url}/s.jsonl?schema=y2026") as session:
        session.append_message(user("on"))
        assert len(session.context().messages) == 2
    with pytest.raises(StorageError, match="no tables of sessions any more"):
        Store(f"{url}?schema=y2025").list()


def _bucket() -> tuple[ObjectPlace, ObjectPlace]:
    """A bucket as two programs have it."""
    obstore = pytest.importorskip("obstore.store")
    found = obstore.MemoryStore()
    one, other = (ObjectPlace(Bucket("s3://bucket", found)) for _ in range(2))
    return one, other


def _append(log: Log, block: bytes, at: int | None = None) -> int:
    with log.alone():
        return log.append(block, log.size() if at is None else at)


@for_each("expired", [False, True])
def test_a_rule_that_removes_merged_blocks_would_lose_what_a_stalled_writer_appends(
    expired: bool,
) -> None:
    busy, stalled = _bucket()
    busy.create("s.jsonl", [b"header\n"])
    late, log = stalled.log("s.jsonl"), busy.log("s.jsonl")
    end = late.size()
    for number in range(200):
        _append(log, f"{number:03}\n".encode())
    blocks = [found.key for found in busy.bucket.list("s.jsonl/") if "/log/" in found.key]
    assert any("/merged/" in found.key for found in busy.bucket.list("s.jsonl/"))
    if expired:
        busy.bucket.remove(blocks[:64])
        _append(late, b"late\n", end)  # is acknowledged
    else:
        with pytest.raises(Moved):
            _append(late, b"late\n", end)
    fresh = ObjectPlace(busy.bucket).log("s.jsonl", readonly=True)
    content = fresh.read(0, fresh.size())
    assert content.startswith(b"header\n000\n001\n")
    assert b"late" not in content


def test_a_rule_that_removes_heads_would_let_another_session_take_the_name() -> None:
    one, other = _bucket()
    one.create("s.jsonl", [b"header\n"])
    writer = one.log("s.jsonl")
    _append(writer, b"kept\n")
    one.bucket.remove(["s.jsonl/head"])  # as a rule would
    assert other.find("s.jsonl") is None
    other.create("s.jsonl", [b"another\n"])
    found = ObjectPlace(other.bucket).log("s.jsonl", readonly=True)
    assert found.read(0, found.size()) == b"another\n"


def test_an_emptied_trash_leaves_the_heads_and_an_end_for_each_session() -> None:
    one, _ = _bucket()
    one.create("s.jsonl", [b"header\n"])
    one.remove("s.jsonl")
    assert sorted(found.size for found in one.bucket.list("")) == [0, 512]
