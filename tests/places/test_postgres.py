"""Sessions in PostgreSQL when the server, the network or another writer fails."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Final
from urllib.parse import quote

import pytest

from sessiontree import Session
from sessiontree.errors import (
    NewerFormatError,
    ReadOnlyError,
    SessionBusyError,
    SessionNotFoundError,
    StorageError,
    UsageError,
    WriteFailedError,
)
from sessiontree.storage.log import Log, Moved
from sessiontree.storage.place import Place
from sessiontree.storage.places import place_of
from sessiontree.storage.postgres import connections as postgres_connections
from sessiontree.storage.postgres.connections import ServerConnection
from sessiontree.storage.postgres.log import PAGE
from tests.places.kinds import contents_of
from tests.places.proxy import Proxy, proxy
from tests.places.server import Server, server
from tests.support.children import forked
from tests.support.conversation import assistant, user
from tests.support.table import for_each

HEADER: Final = b'{"type":"session"}\n'
LINE: Final = b'{"type":"message","uuid":"one","parentUuid":null}\n'
OTHER: Final = b'{"type":"custom!"}\n'

_NUMBERS: Final = itertools.count()


@pytest.fixture
def running() -> Server:
    return server()


@pytest.fixture
def base(running: Server) -> Iterator[str]:
    """The name of an empty database."""
    name = running.database()
    yield name
    running.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def place(running: Server, base: str) -> Iterator[Place]:
    made, _ = place_of(running.address(base))
    yield made
    made.close()


@pytest.fixture
def between(running: Server) -> Iterator[Proxy]:
    with proxy(running.port) as made:
        yield made


@pytest.fixture
def distant(running: Server, base: str, between: Proxy) -> Iterator[Place]:
    """The place through the proxy."""
    made, _ = place_of(f"{running.address(base, between.port)}?timeout=1")
    yield made
    made.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_connections, "RECONNECT_SECONDS", 0.2)


def made(place: Place, content: bytes = HEADER) -> Log:
    name = f"p/{next(_NUMBERS)}.jsonl"
    place.create(name, [content])
    return place.log(name)


def content(log: Log) -> bytes:
    return log.read(0, log.size())


def append(log: Log, block: bytes) -> int:
    with log.alone():
        return log.append(block, log.size())


def connections_of(running: Server, base: str, mark: str) -> list[int]:
    """The processes of the server whose clients have a name with this mark."""
    rows = running.execute(
        f"SELECT pid FROM pg_stat_activity WHERE datname = '{base}' "
        f"AND application_name LIKE '%{mark}%'"
    )
    return [row[0] for row in rows]


def terminate(running: Server, pids: list[int]) -> None:
    for pid in pids:
        running.execute(f"SELECT pg_terminate_backend({pid}, 5000)")


@pytest.mark.slow
@pytest.mark.parametrize("side", ["cut_sent", "cut_answered"])
def test_an_append_whose_connection_breaks_is_kept_once_or_not_acknowledged(
    distant: Place, between: Proxy, side: str
) -> None:
    log = made(distant)
    kept = HEADER
    cuts = 0
    for number, left in enumerate([*range(0, 60, 4), *range(60, 1400, 90)]):
        block = b'{"type":"message","uuid":"%d"}\n' % number
        with log.alone():
            before = between.cuts
            setattr(between, side, left)
            assert log.append(block, len(kept)) == len(kept)
            cuts += between.cuts - before
        kept += block
        setattr(between, side, None)
    assert cuts > 10
    with contextlib.closing(distant.log(distant.name(log.name))) as again:
        assert content(again) == content(log) == kept
    log.close()


@pytest.mark.slow
def test_an_append_whose_outcome_cannot_be_found_is_the_last_of_its_log(
    place: Place, distant: Place, between: Proxy, impatient: None
) -> None:
    log = made(distant)
    for _ in range(3):  # all that it prepares
        append(log, LINE)
    between.refuses = True
    between.cut_answered = 0
    with pytest.raises(WriteFailedError, match="is unknown"), log.alone():
        log.append(OTHER, len(HEADER + LINE * 3))
    between.refuses = False
    with pytest.raises(WriteFailedError, match="open the session again"), log.hold():
        pass
    with contextlib.closing(place.log(place.name(log.name.partition("?")[0]))) as again:
        assert content(again) == HEADER + LINE * 3 + OTHER
    log.reopen()
    assert content(log) == HEADER + LINE * 3 + OTHER


def test_a_log_whose_server_was_never_reached_says_so(base: str, running: Server) -> None:
    url = f"postgresql://me:secret%21@127.0.0.1:1/{base}"
    with pytest.raises(StorageError, match="cannot connect to postgresql://me@") as raised:
        place_of(url)[0].find("a.jsonl")
    assert "secret" not in str(raised.value)


@for_each(
    "url",
    [
        "postgresql://me:secr%ZZet@127.0.0.1/db",
        "postgresql://me:secret@127.0.0.1/db?nonsense=1",
        "postgresql://me:secret@127.0.0.1/db?timeout=soon",
        "postgresql://me@127.0.0.1/db?password=secret",
        "postgresql://me:secret@127.0.0.1/db?notify=perhaps",
    ],
)
def test_a_wrong_address_is_refused_without_its_password(url: str) -> None:
    with pytest.raises((StorageError, UsageError)) as raised:
        place_of(url)[0].find("a.jsonl")
    assert "secret" not in str(raised.value)
    assert "secr%ZZet" not in str(raised.value)


@pytest.mark.parametrize(
    ("wrong", "told", "step"),
    [
        ("/none", 'database "none" does not exist', "make the database, or check its name"),
        ("nobody@", 'role "nobody" does not exist', "check the user and the password"),
        ("@no.such.host.invalid", "failed to resolve host", "check the name of the host"),
        ("?sslmode=wrong", 'invalid sslmode value: "wrong"', "check the options of the address"),
        (":1/", "Connection refused", "check that the server runs, and the host and the port"),
    ],
)
def test_a_connection_that_fails_says_what_to_check(
    wrong: str, told: str, step: str, base: str, running: Server
) -> None:
    url = running.address(base)
    url = {
        "/none": running.address("none"),
        "nobody@": url.replace("postgres@", "nobody@"),
        "@no.such.host.invalid": url.replace("@127.0.0.1", "@no.such.host.invalid"),
        ":1/": url.replace(f":{running.port}/", ":1/"),
    }.get(wrong, url + wrong)
    with pytest.raises(StorageError, match=f"cannot connect to .*{told}.*; {step}"):
        place_of(url)[0].find("a.jsonl")


@for_each(
    "option, told",
    [
        ("schema=", "schema= in postgresql://me@127.0.0.1:1/db is empty"),
        ("schema", "schema= in postgresql://me@127.0.0.1:1/db is empty"),
        ('schema="team"', "leave out the quotes"),
        ("schema=" + "s" * 64, "is too long for the name of a schema: it has 64 bytes"),
        ("schema=" + "%C3%BC" * 32, "is too long for the name of a schema: it has 64 bytes"),
    ],
)
def test_a_name_that_no_schema_has_is_refused_with_the_reason(option: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        place_of(f"postgresql://me@127.0.0.1:1/db?{option}")


def test_a_schema_of_63_bytes_is_taken(running: Server, base: str) -> None:
    place, _ = place_of(f"{running.address(base)}?schema={'s' * 63}")
    place.create("p/a.jsonl", [HEADER])
    assert place.find("p/a.jsonl") is not None
    place.close()


@pytest.mark.parametrize(
    "schema", ["50%", "%s", "a\\b%", "%(key)s", "&space", "&followers", "@lines", "$1", "it's -- é"]
)
def test_a_schema_may_have_a_name_that_statements_give_a_meaning(
    schema: str, running: Server, base: str
) -> None:
    file = f"{running.address(base)}/p/a.jsonl?schema={quote(schema, safe='')}"
    with Session.create(file, cwd="/p") as session:
        session.append_message(user("hello"))
        session.append_message(user("x" * 50_000))  # which is stored as a blob
        session.label("@", "end")
    with Session.open(file) as session, session.batch():
        session.append_message(user("again"))
        session.append_message(user("and again"))
        said = [message["content"] for message in session.context().messages]
    assert (said[0], len(said[1]), said[2:]) == ("hello", 50_000, ["again", "and again"])
    assert [found.name for found in place_of(file)[0].list("p/")] == ["p/a.jsonl"]
    assert (schema,) in running.execute("SELECT nspname FROM pg_namespace", base)
    place_of(file)[0].close()


def test_the_guide_shows_how_the_server_gives_the_text_of_a_session(
    running: Server, base: str, place: Place
) -> None:
    guide = Path(__file__).parents[2] / "docs" / "guide" / "postgresql.md"
    (statement,) = re.findall(r"```sql\n(SELECT convert_from.*?)```", guide.read_text(), re.DOTALL)
    place.create("project/chat.jsonl", [HEADER, LINE, '{"name":"grün"}\n'.encode()])
    text = (HEADER + LINE).decode() + '{"name":"grün"}\n'
    assert running.execute(statement, base) == [(text,)]


def test_what_is_kept_beside_a_session_is_named_by_an_address(running: Server, base: str) -> None:
    file = f"{running.address(base)}/p/a.jsonl?schema=rep"
    with Session.create(file, cwd="/p") as session:
        session.append_message(user("hello"))
    place, name = place_of(file)
    append(place.log(name), b'{"type":"message","uu\n')
    with Session.open(file) as session:
        kept = session.repair().evidence
    assert kept is not None
    path, _, options = kept.partition("?")
    assert options == "schema=rep"
    assert path.startswith(f"{running.address(base)}/p/a.jsonl.damaged-")
    assert place_of(kept)[0] is place
    assert contents_of(place).look(place_of(kept)[1]) is not None
    place.close()


def test_an_option_that_is_not_known_is_refused_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="there is no option scheme; there are: schema, notify, t"):
        place_of("postgresql://me@127.0.0.1:1/db?scheme=team&sslmode=disable")


def test_a_session_that_is_not_there_names_the_schema(running: Server, base: str) -> None:
    for options, schema in (("", "sessiontree"), ("?schema=team", "team")):
        place, _ = place_of(running.address(base) + options)
        with pytest.raises(SessionNotFoundError, match=f"in {place.url}, schema {schema}; check"):
            place.log("p/a.jsonl")
        place.close()


def test_a_refusal_of_the_server_is_told_without_the_statement(
    running: Server, base: str, place: Place
) -> None:
    log = made(place)
    running.execute(f"CREATE ROLE stranger_{base} LOGIN")
    url = running.address(base).replace("postgres@", f"stranger_{base}@")
    stranger, _ = place_of(url)
    with pytest.raises(StorageError, match="permission denied for schema sessiontree; ask") as told:
        stranger.log(place.name(log.name))
    assert "LINE" not in str(told.value)
    stranger.close()
    running.execute(f"DROP ROLE stranger_{base}")


def test_a_session_that_another_writer_keeps_is_not_moved_and_its_holder_is_named(
    place: Place, running: Server, base: str
) -> None:
    log = made(place)
    name = place.name(log.name)
    other, _ = place_of(f"{running.address(base)}?connections=2")  # as another program has it
    with contextlib.closing(other.log(name)) as kept:
        kept.keep()
        who = rf"is held by .* {os.getpid()} \(user postgres, .*; close that session"
        with pytest.raises(SessionBusyError, match=who):
            place.move(name, "p/moved.jsonl")
        with pytest.raises(SessionBusyError, match=who):
            place.remove(name)
    place.move(name, "p/moved.jsonl")
    other.close()


def test_a_server_that_hangs_ends_a_read_after_the_limit(
    distant: Place, between: Proxy, impatient: None
) -> None:
    log = made(distant)
    between.hangs = True
    with pytest.raises(StorageError, match="was lost"):
        log.size()
    between.hangs = False
    assert content(log) == HEADER


@pytest.mark.slow
def test_reads_go_on_after_connections_broke_and_the_server_restarted(
    place: Place, running: Server
) -> None:
    log = made(place)
    running.kill()
    running.start()
    assert content(log) == HEADER
    append(log, LINE)
    assert content(log) == HEADER + LINE


def test_what_the_bytes_are_does_not_matter(place: Place) -> None:
    odd = [
        LINE,
        LINE,  # a uuid twice
        b'{"type":"message","uuid":"a\\u0000b"}\n',
        b'{"type":"message","uuid":"\\ud800"}\n',
        b'{"type":"message","uuid":"%s"}\n' % (b"x" * 10_000),
        b"\xff\xfe\x00 no JSON\r\n",
        b"\n",
        b"[" * 100_000 + b"\n",
    ]
    log = made(place, HEADER + b"".join(odd))
    for block in (*odd, b"".join(odd)):
        append(log, block)
    assert content(log) == HEADER + b"".join(odd) * 3
    assert log.find is not None
    assert log.find("one", len(HEADER) + 1) == len(HEADER)
    assert log.find("one", len(HEADER) + len(LINE) + 1) == len(HEADER + LINE)
    assert log.find("none", log.size()) == -1


def test_a_line_of_many_pages_is_read_in_parts(place: Place) -> None:
    line = os.urandom(20 * PAGE).replace(b"\n", b" ") + b"\n"
    log = made(place, HEADER + line + OTHER)
    fresh = place.log(place.name(log.name))
    assert fresh.read(10 * PAGE, 5) == (HEADER + line)[10 * PAGE : 10 * PAGE + 5]
    for start in range(0, log.size(), 999_999):
        assert fresh.read(start, 999_999) == (HEADER + line + OTHER)[start : start + 999_999]
    assert content(log) == HEADER + line + OTHER


def test_a_kept_session_is_taken_again_where_nobody_wrote_meanwhile(
    place: Place, running: Server, base: str
) -> None:
    log = made(place)
    log.keep()
    append(log, LINE)
    terminate(running, connections_of(running, base, "exclusive"))
    append(log, OTHER)
    assert len(connections_of(running, base, "exclusive")) == 1
    with contextlib.closing(place.log(place.name(log.name))) as other:
        with pytest.raises(SessionBusyError, match=rf"is held by .* {os.getpid()} \(user postgres"):
            append(other, LINE)
        log.close()
        append(other, LINE)
        assert content(other) == HEADER + LINE + OTHER + LINE


def test_a_kept_session_in_which_another_wrote_meanwhile_is_over(
    place: Place, running: Server, base: str
) -> None:
    log = made(place)
    log.keep()
    terminate(running, connections_of(running, base, "exclusive"))
    other = place.log(place.name(log.name))
    append(other, OTHER)
    for _ in range(2):
        with pytest.raises(ReadOnlyError, match="another writer appended"), log.alone():
            log.append(LINE, len(HEADER))
    assert content(other) == HEADER + OTHER


def test_a_block_that_held_a_session_goes_on_after_its_connection_broke(
    place: Place, running: Server, base: str
) -> None:
    log = made(place)
    with log.hold():
        terminate(running, connections_of(running, base, "sessiontree"))
        append(log, LINE)
        append(log, OTHER)
    assert content(log) == HEADER + LINE + OTHER


def test_a_rewrite_after_the_lock_was_lost_loses_nothing_that_another_appended(
    place: Place, running: Server, base: str
) -> None:
    log = made(place)
    name = place.name(log.name)
    with log.hold():
        terminate(running, connections_of(running, base, "sessiontree"))
        with contextlib.closing(place.log(name)) as other:
            append(other, LINE)
        with pytest.raises(Moved):
            log.rewrite(iter([OTHER]), ".old")
        log.parts.remove(".old")
        assert content(log) == HEADER + LINE
        log.rewrite(iter([OTHER]), ".old")
    assert b"".join(log.parts.read(".old")) == HEADER + LINE


def test_what_is_appended_while_a_session_is_moved_is_in_the_moved_session(place: Place) -> None:
    log = made(place)
    append(log, LINE)
    place.move(place.name(log.name), "moved.jsonl")
    with contextlib.suppress(SessionNotFoundError):
        append(log, OTHER)
        with contextlib.closing(place.log("moved.jsonl")) as moved:
            assert content(moved) == HEADER + LINE + OTHER


def test_an_append_to_a_session_that_was_moved_or_removed_is_refused(place: Place) -> None:
    def move(name: str) -> None:
        place.move(name, name + "x")

    for go in (move, place.remove):
        log = made(place)
        append(log, LINE)
        go(place.name(log.name))
        time.sleep(0.11)  # until it looks again; an append is in the moved session before
        for write in (append, held):
            with pytest.raises(StorageError):
                write(log, OTHER)


def held(log: Log, block: bytes) -> None:
    with log.hold():
        log.still_ends_at(log.size())


def test_a_forked_child_has_connections_of_its_own(place: Place) -> None:
    log = made(place)
    log.keep()
    log.close()
    append(log := place.log(place.name(log.name)), LINE)

    def write() -> None:
        for _ in range(3):
            append(log, OTHER)

    child = forked(write)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    append(log, LINE)
    assert content(log) == HEADER + LINE + OTHER * 3 + LINE


def test_newer_tables_are_refused_and_left_alone(place: Place, running: Server, base: str) -> None:
    made(place)
    running.execute("UPDATE sessiontree.version SET number = 99", base)
    again, _ = place_of(f"{running.address(base)}?notify=off")
    for use in (
        lambda: again.find("p/0.jsonl"),
        lambda: again.log("p/0.jsonl", readonly=True),
        lambda: again.create("p/new.jsonl", [HEADER]),
    ):
        with contextlib.suppress(SessionNotFoundError), pytest.raises(NewerFormatError, match="99"):
            use()


def test_nothing_that_reads_makes_a_table(place: Place, running: Server, base: str) -> None:
    assert place.find("p/a.jsonl") is None
    assert list(place.list()) == []
    assert list(place.ends("", 1, 1)) == []
    assert contents_of(place).look("x") is None
    assert list(contents_of(place).keys("")) == []
    with pytest.raises(SessionNotFoundError):
        place.log("p/a.jsonl")
    assert running.execute("SELECT to_regnamespace('sessiontree')", base) == [(None,)]


def test_many_at_once_make_the_tables_once(running: Server, base: str) -> None:
    places = [place_of(f"{running.address(base)}?timeout={20 + n}")[0] for n in range(6)]

    def make(place: Place) -> None:
        place.create(f"p/{next(_NUMBERS)}.jsonl", [HEADER])

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(make, places))
    assert len(list(places[0].list("p/"))) == 6
    for one in places:
        one.close()


def test_a_database_that_is_read_only_refuses_writes_and_says_what_to_do(
    running: Server, base: str, place: Place
) -> None:
    log = made(place)
    url = f"{running.address(base)}?options=-c%20default_transaction_read_only%3Don"
    standby, _ = place_of(url)
    with contextlib.closing(standby.log(place.name(log.name))) as reading:
        assert content(reading) == HEADER
        with pytest.raises(StorageError, match="write to the primary"):
            append(reading, LINE)
    assert content(log) == HEADER


@pytest.mark.slow
def test_more_threads_than_connections_wait_for_each_other(
    running: Server, base: str, place: Place
) -> None:
    made(place)
    running.execute(f"CREATE ROLE few_{base} LOGIN SUPERUSER", base)
    running.execute(f"ALTER ROLE few_{base} NOSUPERUSER CONNECTION LIMIT 3", base)
    running.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA sessiontree TO few_{base}", base)
    running.execute(f"GRANT USAGE ON SCHEMA sessiontree TO few_{base}", base)
    try:
        url = running.address(base).replace("postgres@", f"few_{base}@")
        crowded, _ = place_of(url)

        def write(number: int) -> bytes:
            with contextlib.closing(made(crowded)) as log:
                for _ in range(5):
                    append(log, b"%d\n" % number)
                return content(log)

        with ThreadPoolExecutor(12) as threads:
            found = list(threads.map(write, range(12)))
        assert found == [HEADER + b"%d\n" % number * 5 for number in range(12)]
        crowded.close()
    finally:
        running.execute(f"DROP OWNED BY few_{base}; DROP ROLE few_{base}", base)


def test_what_is_acknowledged_is_synced_also_where_the_server_would_not(
    running: Server, base: str, place: Place
) -> None:
    log = made(place)
    name = place.name(log.name)
    running.execute(
        f"""
        ALTER DATABASE {base} SET synchronous_commit = off;
        CREATE TABLE seen (setting text);
        CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NEW;
        END $$;
        CREATE CONSTRAINT TRIGGER see AFTER INSERT ON sessiontree.lines DEFERRABLE
            INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION see();
        """,
        base,
    )
    place.close()
    for durability in ("fsync", "os"):
        with contextlib.closing(place.log(name, durability=durability)) as log:
            append(log, LINE)
            append(log, LINE + OTHER)
    assert running.execute("SELECT setting FROM seen", base) == [("on",)] * 3 + [("off",)] * 3


_LOCKS_IN_NAME_ONLY = """
    CREATE SCHEMA stubs;
    CREATE FUNCTION stubs.pg_advisory_xact_lock(int, int) RETURNS void LANGUAGE sql AS '';
    CREATE FUNCTION stubs.pg_try_advisory_xact_lock(int, int) RETURNS boolean
        LANGUAGE sql AS 'SELECT true';
    CREATE FUNCTION stubs.pg_try_advisory_xact_lock_shared(int, int) RETURNS boolean
        LANGUAGE sql AS 'SELECT true'
"""


def test_a_server_whose_locks_do_nothing_takes_appends_and_refuses_what_needs_a_lock(
    running: Server,
) -> None:
    database = running.database()
    running.execute(_LOCKS_IN_NAME_ONLY, database)
    options = "notify=off&options=-csearch_path%3Dstubs,pg_catalog"
    file = f"{running.address(database)}/p/s.jsonl?{options}"
    with Session.create(file, cwd="/p") as session:
        kept = session.append_message({"role": "user", "content": "hello"})
        with pytest.raises(StorageError, match="keeps nobody out"):
            session.label(kept, "a-label")
    with Session.open(file) as session:
        assert [entry.type for entry in session.entries()] == ["session", "message"]


def _long_session(file: str) -> str:
    """Make a session of a megabyte; return the uuid of its first message."""
    with Session.create(file, cwd="/p", spill_over=None) as session:
        first = session.append_message(user("the first"))
        for number in range(60):
            session.append_message(assistant(f"{number} " + "x" * 20_000))
    return first.uuid


def test_the_context_of_a_compacted_session_takes_two_round_trips(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = place.address("long.jsonl")
    _long_session(file)
    with Session.open(file) as session:
        session.compact("what was before", keep=2)
        session.append_message(user("go on"))
    statements = _counted(monkeypatch)
    with Session.open(file) as session:
        assert len(session.context().messages) >= 2
    assert len(statements) <= 2


def test_a_far_parent_is_found_by_its_uuid(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    file = place.address("long.jsonl")
    first = _long_session(file)
    with Session.open(file) as session:
        session.branch(first)
        session.append_message(user("another way"))
    with Session.open(file, readonly=True) as session:
        statements = _counted(monkeypatch)
        assert first in [entry.uuid for entry in session.path()]
    assert len(statements) <= 3


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The round trips of this process from now on."""
    found: list[object] = []
    wait: Callable[..., object] = ServerConnection.wait

    def counting(*args: object, **named: object) -> object:
        found.append(args)
        return wait(*args, **named)

    monkeypatch.setattr(ServerConnection, "wait", counting)
    return found


def test_an_append_is_one_round_trip(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with Session.create(place.address("p/a.jsonl"), cwd="/p") as session:
        for _ in range(3):  # all that it prepares
            session.append_message(user("a"))
        statements = _counted(monkeypatch)
        for number in range(10):
            session.append_message(assistant(str(number)))
    assert len(statements) == 10


@pytest.mark.slow
def test_a_writer_that_is_faster_moves_the_log_and_both_entries_are_kept(place: Place) -> None:
    log = made(place)
    name = place.name(log.name)
    start = threading.Barrier(4)

    def write(writer: int) -> int:
        moved = 0
        with contextlib.closing(place.log(name)) as mine:
            start.wait(30)
            for number in range(40):
                while True:
                    try:
                        append(mine, b"%d-%d\n" % (writer, number))
                        break
                    except Moved:
                        moved += 1
        return moved

    with ThreadPoolExecutor(4) as threads:
        moved = sum(threads.map(write, range(4)))
    lines = content(log).removeprefix(HEADER).split()
    assert sorted(lines) == sorted(b"%d-%d" % (w, n) for w in range(4) for n in range(40))
    assert moved > 0


def test_lines_that_were_removed_under_a_reader_are_an_error_and_never_other_bytes(
    place: Place, running: Server, base: str
) -> None:
    log = made(place, HEADER + b"x" * 300_000 + b"\n")
    place.remove(place.name(log.name))
    assert log.read(0, 10) == HEADER[:10]
    with pytest.raises(StorageError, match="open it again"):
        log.read(100_000, 100)
    assert running.execute("SELECT count(*) FROM sessiontree.lines", base) == [(1,)]


def test_a_list_that_nobody_reads_to_its_end_gives_its_connection_back(place: Place) -> None:
    for _ in range(3):
        made(place)
    for _ in range(70):  # more than there are
        assert next(iter(place.ends("", 10, 10))).head == HEADER[:10]
    assert len(list(place.ends("", 10, 10))) == 3


def test_no_entry_with_a_blob_goes_to_a_session_that_was_moved(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry may be in the moved session, but its blob would be under the old name."""
    put = contents_of(place).put

    def put_and_move(key: str, source: IO[bytes]) -> None:
        place.move("p/a.jsonl", "p/b.jsonl")
        put(key, source)

    with Session.create(place.address("p/a.jsonl"), cwd="/p", spill_over=100) as session:
        session.append_message(user("a"))
        monkeypatch.setattr(contents_of(place), "put", put_and_move)
        with pytest.raises(SessionNotFoundError):
            session.attach(io.BytesIO(b"z" * 1000), media_type="text/plain")
    with Session.open(place.address("p/b.jsonl"), readonly=True) as moved:
        assert moved.verify() == []
        assert len(list(moved.entries())) == 2
