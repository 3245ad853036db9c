"""Sessions in PostgreSQL whose server is full, read-only, a standby, or another than before."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from sessiontree import Session, Store
from sessiontree.errors import (
    FileReplacedError,
    SessionNotFoundError,
    StorageError,
    WriteFailedError,
)
from sessiontree.storage.place import address
from sessiontree.storage.places import place_of
from sessiontree.storage.postgres import connections
from sessiontree.storage.postgres.connections import Connections, settings_of
from tests.places.proxy import proxy
from tests.places.server import Server, check_installed, new_server, server
from tests.support.conversation import user
from tests.support.soak import in_soak
from tests.support.table import for_each

LONG: Final = os.urandom(100_000).hex()


@pytest.fixture
def disk() -> Iterator[Path]:
    """A small disk."""
    check_installed()
    folder = tempfile.mkdtemp(prefix="postgres-disk-")
    mount = ["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", folder]
    mounted = subprocess.run(mount, capture_output=True)
    if mounted.returncode:
        os.rmdir(folder)
        pytest.skip(f"a disk of a fixed size cannot be made here: {mounted.stderr!r}")
    os.chown(folder, pwd.getpwnam("postgres").pw_uid, -1)
    yield Path(folder)
    subprocess.run(["umount", "--lazy", folder], check=True)
    os.rmdir(folder)


@contextlib.contextmanager
def filled(disk: Path, room: int) -> Iterator[None]:
    """Fill a disk with a file until there is only so much room."""
    file = disk / "filler"
    found = os.statvfs(disk)
    with open(file, "wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, found.f_bavail * found.f_frsize - room)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def append_on(session: Session, kept: list[str]) -> None:
    """Append long messages until that fails, and note which were kept."""
    for number in range(500):
        session.append_message(user(f"{number} {LONG}"))
        kept.append(f"{number} {LONG}")


def said(file: str) -> Counter[str]:
    """The texts of a session that is whole."""
    with Session.open(file, readonly=True) as session:
        assert session.verify() == []
        return Counter(
            e.get("message")["content"] for e in session.entries() if e.type == "message"
        )


@pytest.mark.slow
def test_an_append_to_a_full_disk_fails_and_the_session_goes_on_when_there_is_room(
    disk: Path,
) -> None:
    base = server().database()
    server().execute(f"CREATE TABLESPACE {base} LOCATION '{disk}'")
    try:
        server().execute(f"ALTER DATABASE {base} SET TABLESPACE {base}")
        file = f"{server().address(base)}/p/s.jsonl"
        kept: list[str] = []
        with Session.create(file, cwd="/p", spill_over=None) as session:
            session.append_message(user("first"))
            with filled(disk, 3_000_000), pytest.raises(StorageError, match="make room on the se"):
                append_on(session, kept)
            session.append_message(user("last"))
        assert said(file) == Counter(["first", *kept, "last"])
        assert kept
    finally:
        server().execute(f"DROP DATABASE {base} WITH (FORCE)")
        server().execute(f"DROP TABLESPACE {base}")


@pytest.mark.slow
def test_a_server_that_ends_because_its_disk_is_full_loses_nothing_acknowledged(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "RECONNECT_SECONDS", 0.5)
    running = new_server({"max_wal_size": "64MB", "wal_recycle": "off"})
    try:
        running.stop()
        subprocess.run(["mv", running.data / "pg_wal", disk / "wal"], check=True)
        (running.data / "pg_wal").symlink_to(disk / "wal")
        running.start()
        file = f"{running.address('postgres')}/p/s.jsonl"
        kept: list[str] = []
        with Session.create(file, cwd="/p", spill_over=None) as session, filled(disk, 20_000_000):
            with pytest.raises(WriteFailedError, match="open the session again"):
                append_on(session, kept)
            running.stop()
        running.start()
        found = said(file)
        assert not set(kept) - set(found)
        assert max(found.values()) == 1
        assert len(found) - len(kept) <= 1
        assert kept
    finally:
        running.stop()


@pytest.fixture
def pair() -> Iterator[tuple[Server, Server]]:
    """A server, and a standby of it."""
    check_installed()
    primary = new_server()
    standby = new_server(primary=primary)
    yield primary, standby
    primary.stop()
    standby.stop()


def both(pair: tuple[Server, Server], base: str) -> str:
    """The address of whichever of two servers can be written to."""
    hosts = ",".join(f"127.0.0.1:{one.port}" for one in pair)
    return f"postgresql://postgres@{hosts}/{base}/p/s.jsonl?target_session_attrs=read-write"


@pytest.mark.slow
def test_writers_go_on_at_the_standby_that_took_over_and_lose_nothing(
    pair: tuple[Server, Server],
) -> None:
    primary, standby = pair
    base = primary.database()
    primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
    primary.execute("SELECT pg_reload_conf()")
    file = both(pair, base)
    Session.create(file, cwd="/p").close()
    acknowledged: list[str] = []
    ready = threading.Barrier(5)

    def write(writer: int) -> None:
        with Session.open(file) as session:
            for number in range(40):
                if number == 10:
                    ready.wait(60)
                text = f"{writer}-{number}"
                session.append_message(user(text))
                acknowledged.append(text)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    ready.wait(60)
    primary.kill()
    standby.execute("SELECT pg_promote()")
    for thread in threads:
        thread.join()
    assert len(acknowledged) == 160
    assert said(file) == Counter(acknowledged)


@pytest.mark.slow
@pytest.mark.parametrize("others", [[], ["b2", "c2"], ["b2", "c2", "d2"], ["longer than b"] * 3])
def test_a_writer_whose_entries_a_standby_never_got_is_told_and_appends_to_no_other_entries(
    pair: tuple[Server, Server], others: list[str]
) -> None:
    primary, standby = pair
    file = both(pair, primary.database())
    with Session.create(file, cwd="/p") as session:
        session.append_message(user("a1"))
        wait_for_replay(pair)
        standby.execute("ALTER SYSTEM SET primary_conninfo = ''")
        standby.execute("SELECT pg_reload_conf()")
        while standby.execute("SELECT 1 FROM pg_stat_wal_receiver"):
            time.sleep(0.01)
        session.append_message(user("b1"))
        session.append_message(user("c1"))
        primary.kill()
        standby.execute("SELECT pg_promote()")
        with Session.open(file) as other:
            for text in others:
                other.append_message(user(text))
        for _ in range(2):
            with pytest.raises(FileReplacedError, match="open it again"):
                session.append_message(user("d1"))
            with pytest.raises(FileReplacedError, match="open it again"):
                session.label(session.leaf.uuid, "under the lock")
            with pytest.raises(FileReplacedError, match="open it again"):
                session.gc()
    assert said(file) == Counter(["a1", *others])


def wait_for_replay(pair: tuple[Server, Server]) -> None:
    """Wait until the standby has all that the server has written."""
    primary, standby = pair
    end = primary.execute("SELECT pg_current_wal_lsn()")[0][0]
    while not standby.execute(f"SELECT pg_last_wal_replay_lsn() >= '{end}'")[0][0]:
        time.sleep(0.01)


@pytest.mark.slow
def test_a_standby_is_read_and_followed_and_refuses_each_write_with_what_to_do(
    pair: tuple[Server, Server],
) -> None:
    primary, standby = pair
    base = primary.database()
    there, here = (f"{one.address(base)}/p/s.jsonl" for one in pair)
    with Session.create(there, cwd="/p") as session:
        session.append_message(user("hello"))
    wait_for_replay(pair)
    store = Store(standby.address(base))
    assert [hit.snippet for hit in store.search("hello")] == ["hello"]
    assert said(here) == Counter(["hello"])
    writes: list[Callable[[Session], object]] = [
        lambda session: session.append_message(user("x")),
        lambda session: session.append_message(user("x" * 100_000)),
        lambda session: session.label(session.leaf.uuid, "x"),
    ]
    for write in writes:
        with Session.open(here) as session, pytest.raises(StorageError, match="to the primary"):
            write(session)
    with pytest.raises(StorageError, match="write to the primary"):
        Session.create(here.replace("s.jsonl", "new.jsonl"), cwd="/p")
    with pytest.raises(StorageError, match="write to the primary"):
        store.trash(here)
    with Session.open(here, readonly=True) as reader, ThreadPoolExecutor(1) as threads:
        followed = threads.submit(next, reader.follow())
        with Session.open(there) as session:
            entry = session.append_message(user("new"))
        assert followed.result(60).uuid == entry.uuid


@pytest.mark.slow
def test_a_read_that_a_standby_ended_for_its_replay_is_tried_again(
    pair: tuple[Server, Server],
) -> None:
    primary, standby = pair
    standby.execute("ALTER SYSTEM SET max_standby_streaming_delay = 0")
    standby.execute("SELECT pg_reload_conf()")
    base = primary.database()
    primary.execute("CREATE TABLE gone AS SELECT generate_series(1, 1000)", base)
    wait_for_replay(pair)
    reading = Connections(settings_of(address(standby.address(base))))
    sleeps = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    with contextlib.closing(reading), ThreadPoolExecutor(1) as threads:
        read = threads.submit(reading.run, b"SELECT count(*) FROM gone, pg_sleep(2)")
        while not standby.execute(sleeps):
            time.sleep(0.01)
        primary.execute("DELETE FROM gone", base)
        primary.execute("VACUUM gone", base)
        assert read.result(60) == [(0,)]


@for_each("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_is_not_utf8_has_no_sessions_and_is_refused(encoding: str) -> None:
    base = f"test_{os.getpid()}_{encoding.lower()}"
    server().execute(
        f"CREATE DATABASE {base} ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' "
        "LC_CTYPE 'C'"
    )
    try:
        file = f"{server().address(base)}/p/ä€.jsonl"
        for _ in range(2):
            with pytest.raises(StorageError, match=f"encoding {encoding}; make one with the enc"):
                Session.create(file, cwd="/p")
        with pytest.raises(SessionNotFoundError):
            Session.open(file)
        assert list(Store(server().address(base)).search("ä€")) == []
    finally:
        server().execute(f"DROP DATABASE {base} WITH (FORCE)")


AT_ANOTHER_TIME: Final = """
import sys
from datetime import timedelta
from sessiontree import Session, Store
url, name, text = sys.argv[1:]
with Session.open(f"{url}/p/{name}.jsonl", spill_over=100) as session:
    for number in range(5):
        session.append_message({"role": "user", "content": f"{number} {text * 100}"})
    with session.batch():
        session.append_message({"role": "assistant", "content": text})
    assert session.gc().blobs == [], "removed fresh blobs"
store = Store(url)
file = f"{url}/p/trashed-{name}-{text}.jsonl"
Session.create(file, cwd="/p").close()
store.restore(store.trash(file))
assert store.empty_trash(older_than=timedelta(days=1)) == []
"""


@pytest.mark.slow
def test_clocks_that_disagree_by_hours_do_no_harm() -> None:
    faketime = shutil.which("faketime")
    if faketime is None:
        pytest.skip("faketime is not installed (apt-get install faketime)")
    base = server().database()
    url = server().address(base)
    clocks = ["-9h", "+9h", "-2h", "+0"]
    try:
        Session.create(f"{url}/p/one.jsonl", cwd="/p").close()
        children = [
            subprocess.Popen(
                [faketime, "-f", clock, sys.executable, "-c", AT_ANOTHER_TIME, url, "one", clock]
            )
            for clock in clocks
        ]
        assert [child.wait(120) for child in children] == [0] * len(clocks)
        found = said(f"{url}/p/one.jsonl")
        assert found == Counter(
            [f"{n} {clock * 100}" for n in range(5) for clock in clocks] + clocks
        )
        assert len(Store(url).list()) == 1 + len(clocks)
    finally:
        place_of(url)[0].close()
        server().execute(f"DROP DATABASE {base} WITH (FORCE)")


@pytest.mark.slow
@in_soak("size", 10_000_000, 100_000_000)
def test_a_large_line_is_kept_once_though_its_connection_breaks(size: int) -> None:
    base = server().database()
    text = "x" * size
    try:
        with proxy(server().port) as between:
            file = f"{server().address(base, between.port)}/p/s.jsonl"
            with Session.create(file, cwd="/p", spill_over=None) as session:
                session.append_message(user("first"))
                between.cut_sent = size // 2
                session.append_message(user(text))
                assert between.cuts == 1
                between.cut_sent = None
                session.append_message(user("last"))
            with Session.open(file) as session:
                assert [m["content"] for m in session.context().messages] == ["first", text, "last"]
                session.append_message(user("more"))
            assert said(file) == Counter(["first", text, "last", "more"])
            hits = list(Store(server().address(base, between.port)).search("xxxx"))
            assert len(hits) == 1
            place_of(file)[0].close()
    finally:
        server().execute(f"DROP DATABASE {base} WITH (FORCE)")
