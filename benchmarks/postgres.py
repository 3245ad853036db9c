"""Sessions in PostgreSQL, beside bare statements, files, and the stores of others on one server.

    python -m benchmarks.postgres SERVER [--jobs JOB …] [--rounds N]

SERVER is the address of a server on which databases may be made, such as
`postgresql://postgres@127.0.0.1:5432`; it should sync (`fsync=on`). All that is compared writes to
one database in turns, in one run. Times are the clock's, in milliseconds. Stores whose packages are
not installed are left out: langgraph-checkpoint-postgres, openai-agents[sqlalchemy], and the
example of claude-agent-sdk's source distribution, which must be on the path, with asyncpg.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import tempfile
import threading
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, Final

import psycopg

from sessiontree import Session, Store
from sessiontree.library.copies import copy
from sessiontree.storage.places import place_of
from sessiontree.storage.postgres.connections import ServerConnection

_TEXT: Final = "x" * 300
_TURN: Final = 20
_MESSAGE: Final = {"role": "user", "content": _TEXT}

Append = Callable[[], object]
AsyncAppend = Callable[[], Awaitable[object]]


def main() -> None:
    """Measure, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server")
    parser.add_argument("--jobs", nargs="+", default=list(_JOBS), choices=list(_JOBS))
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    with psycopg.connect(f"{given.server}/postgres", autocommit=True) as connection:
        version = connection.execute("SHOW server_version").fetchone()
        print(f"PostgreSQL {version and version[0]}, fsync {_setting(connection, 'fsync')}")
        for job in given.jobs:
            name = f"benchmark_{os.getpid()}_{job}"
            connection.execute(f"CREATE DATABASE {name}".encode())
            try:
                _JOBS[job](f"{given.server}/{name}", given.rounds)
            finally:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def _setting(connection: psycopg.Connection[Any], name: str) -> str:
    row = connection.execute(b"SELECT current_setting(%s)", [name]).fetchone()
    return str(row and row[0])


def _row(label: str, times: list[float], extra: str = "") -> None:
    """Print the median and the 99th percentile, in milliseconds."""
    times = sorted(times)
    high = times[min(len(times) - 1, len(times) * 99 // 100)]
    print(f"{label:44} {median(times) * 1000:9.2f} {high * 1000:9.2f}  {extra}", flush=True)


def _timed(call: Append) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


_BARE: Final = """
    CREATE TABLE IF NOT EXISTS bare (log bigint, at bigint, line bytea, PRIMARY KEY (log, at));
    CREATE TABLE IF NOT EXISTS same (log bigint, at bigint, line bytea, uuid text, parent text,
        lane text, written timestamptz DEFAULT now(), PRIMARY KEY (log, at));
    CREATE INDEX IF NOT EXISTS same_uuid ON same (log, uuid, at) WHERE uuid IS NOT NULL
"""


@contextmanager
def bare(url: str, log: int = 1) -> Iterator[Append]:
    """A prepared insert of a line into a table with a key, committed at once."""
    with psycopg.connect(url, autocommit=True) as connection:
        line = _line()
        at = 0

        def append() -> None:
            nonlocal at
            insert = b"INSERT INTO bare VALUES (%s, %s, %b)"
            connection.execute(insert, (log, at, line), prepare=True)
            at += len(line)

        yield append


@contextmanager
def same_columns(url: str, log: int = 1) -> Iterator[Append]:
    """The same, with the columns and the index that sessiontree has."""
    with psycopg.connect(url, autocommit=True) as connection:
        line = _line()
        at = 0

        def append() -> None:
            nonlocal at
            insert = b"INSERT INTO same VALUES (%s, %s, %b, %s, %s)"
            values = (log, at, line, str(uuid.uuid4()), str(uuid.uuid4()))
            connection.execute(insert, values, prepare=True)
            at += len(line)

        yield append


def _line() -> bytes:
    with Session.create(cwd="/p") as session:
        return session.append_message(_MESSAGE).line + b"\n"


@contextmanager
def ours(url: str, name: str = "one") -> Iterator[Append]:
    with Session.create(f"{url}/p/{name}.jsonl", cwd="/p") as session:
        yield lambda: session.append_message(_MESSAGE)


@contextmanager
def langgraph(url: str) -> Iterator[Append]:
    """A checkpoint with one message, which is the least that a step stores."""
    saver_class = import_module("langgraph.checkpoint.postgres").PostgresSaver
    with saver_class.from_conn_string(url) as saver:
        saver.setup()
        yield _put(saver, "one")


def _put(saver: Any, thread: str) -> Append:
    base = import_module("langgraph.checkpoint.base")
    uuid6 = import_module("langgraph.checkpoint.base.id").uuid6
    config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}

    def put() -> None:
        nonlocal config
        checkpoint = base.empty_checkpoint()
        checkpoint["id"] = str(uuid6())
        checkpoint["channel_values"] = {"messages": [_MESSAGE]}
        versions = {"messages": f"{time.monotonic_ns():032}"}
        checkpoint["channel_versions"] = versions
        config = saver.put(config, checkpoint, {"source": "loop"}, versions)

    return put


@contextmanager
def openai_agents(url: str) -> Iterator[Append]:
    session_class = import_module("agents.extensions.memory").SQLAlchemySession
    with asyncio.Runner() as runner:
        address = url.replace("postgresql://", "postgresql+asyncpg://")
        session = session_class.from_url("one", url=address, create_tables=True)
        yield lambda: runner.run(session.add_items([_MESSAGE]))
        runner.run(session.engine.dispose())


@contextmanager
def claude_agent_sdk(url: str) -> Iterator[Append]:
    named = import_module("examples.session_stores.postgres_session_store")
    with asyncio.Runner() as runner:
        pool = runner.run(_pool(url))
        store = named.PostgresSessionStore(pool, "claude_lines")
        runner.run(store.create_schema())
        key = {"project_key": "p", "session_id": str(uuid.uuid4())}

        def append() -> None:
            line = {"type": "user", "uuid": str(uuid.uuid4()), "message": _MESSAGE}
            runner.run(store.append(key, [line]))

        yield append
        runner.run(pool.close())


async def _pool(url: str) -> Any:
    return await import_module("asyncpg").create_pool(url, min_size=1)


_STORES: Final[dict[str, Callable[[str], Any]]] = {
    "bare insert and commit": bare,
    "the same with all columns and indexes": same_columns,
    "sessiontree, Session.append_message": ours,
    "langgraph PostgresSaver.put": langgraph,
    "openai-agents SQLAlchemySession.add_items": openai_agents,
    "claude-agent-sdk PostgresSessionStore.append": claude_agent_sdk,
}


def _append(url: str, rounds: int) -> None:
    """One writer: each store appends some times in turns."""
    print(f"\nappend of a message of {len(_TEXT)} characters: median, p99 (ms), ratio to bare")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_BARE.encode())
    with ExitStack() as stack:
        stores: dict[str, Append] = {}
        for label, store in _STORES.items():
            with suppress(ImportError):
                stores[label] = stack.enter_context(store(url))
        times: dict[str, list[float]] = {label: [] for label in stores}
        for append in stores.values():
            for _ in range(_TURN):
                append()
        for _ in range(rounds):
            for label, append in stores.items():
                times[label] += [_timed(append) for _ in range(_TURN)]
    first = median(next(iter(times.values())))
    for label, found in times.items():
        _row(label, found, f"{median(found) / first:.2f}")


def _writers(url: str, rounds: int) -> None:
    """Writers that append at once, each to a session of its own; and 50 to one."""
    print("\nwriters at once, on as many sessions: median, p99 (ms), appends a second")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_BARE.encode())
    for writers in (1, 8, 64, 1000):
        each = max(5, 2000 // writers)
        kinds: dict[str, Any] = {"bare": bare, "sessiontree": ours}
        if writers > 64:  # more connections than a server has
            del kinds["bare"]
        for label, store in kinds.items():
            opened: Any = [partial(store, url, _own(label, n, writers)) for n in range(writers)]
            _run_writers(f"{label}, {writers:,} writers", opened, each)
        with suppress(ImportError), _langgraphs(url, writers) as opened:
            _run_writers(f"langgraph, {writers:,} writers", opened, each)
        for label, stores in {
            "openai-agents": _openai_agents,
            "claude-agent-sdk": _claude_agent_sdks,
        }.items():
            with suppress(ImportError):
                asyncio.run(_run_tasks(f"{label}, {writers:,} writers", stores(url, writers), each))
    name = f"{url}/p/shared.jsonl"
    Session.create(name, cwd="/p").close()
    _run_writers("sessiontree, 50 writers on one session", [partial(_shared, name)] * 50, 20)


_POOLED: Final = 8
"""Connections that the writers of a store share, as those of sessiontree do."""


@contextmanager
def _langgraphs(url: str, writers: int) -> Iterator[list[Callable[[], Any]]]:
    """A saver for each thread, as a saver takes one call at a time, over one pool."""
    pools = import_module("psycopg_pool")
    saver_class = import_module("langgraph.checkpoint.postgres").PostgresSaver
    dict_row = import_module("psycopg.rows").dict_row
    given = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    sizes = {"min_size": _POOLED, "max_size": _POOLED, "timeout": 120, "max_waiting": 0}
    with pools.ConnectionPool(url, kwargs=given, **sizes) as pool:
        saver_class(pool).setup()
        yield [
            partial(_saver, saver_class(pool), f"{writers}-{number}") for number in range(writers)
        ]


@contextmanager
def _saver(saver: Any, thread: str) -> Iterator[Append]:
    yield _put(saver, thread)


@asynccontextmanager
async def _openai_agents(url: str, writers: int) -> AsyncIterator[list[AsyncAppend]]:
    """Tasks of one event loop, over one pool."""
    session_class = import_module("agents.extensions.memory").SQLAlchemySession
    made = import_module("sqlalchemy.ext.asyncio").create_async_engine(
        url.replace("postgresql://", "postgresql+asyncpg://"),
        pool_size=_POOLED,
        max_overflow=0,
        pool_timeout=120,
    )
    sessions = [
        session_class(f"{writers}-{number}", engine=made, create_tables=number == 0)
        for number in range(writers)
    ]
    await sessions[0].add_items([_MESSAGE])  # makes the tables
    yield [partial(session.add_items, [_MESSAGE]) for session in sessions]
    await made.dispose()


@asynccontextmanager
async def _claude_agent_sdks(url: str, writers: int) -> AsyncIterator[list[AsyncAppend]]:
    """Tasks of one event loop, over one pool."""
    named = import_module("examples.session_stores.postgres_session_store")
    pool = await import_module("asyncpg").create_pool(url, min_size=_POOLED, max_size=_POOLED)
    store = named.PostgresSessionStore(pool, "claude_lines")
    await store.create_schema()

    async def append(key: dict[str, str]) -> None:
        line = {"type": "user", "uuid": str(uuid.uuid4()), "message": _MESSAGE}
        await store.append(key, [line])

    keys = [{"project_key": "p", "session_id": str(uuid.uuid4())} for _ in range(writers)]
    yield [partial(append, key) for key in keys]
    await pool.close()


async def _run_tasks(
    label: str, stores: AbstractAsyncContextManager[list[AsyncAppend]], each: int
) -> None:
    times: list[float] = []

    async def write(append: AsyncAppend) -> None:
        for _ in range(each):
            started = time.perf_counter()
            await append()
            times.append(time.perf_counter() - started)

    async with stores as appends:
        for append in appends:
            await append()
        started = time.perf_counter()
        await asyncio.gather(*map(write, appends))
        took = time.perf_counter() - started
    _row(label, times, f"{len(times) / took:,.0f}/s")


def _own(label: str, number: int, writers: int) -> Any:
    return number + 10_000 * writers if label == "bare" else f"{writers}-{number}"


@contextmanager
def _shared(name: str) -> Iterator[Append]:
    with Session.open(name) as session:
        yield lambda: session.append_message(_MESSAGE)


def _run_writers(label: str, stores: list[Callable[[], Any]], each: int) -> None:
    times: list[float] = []
    failures: list[BaseException] = []
    ready = threading.Barrier(len(stores) + 1)
    opening = threading.Semaphore(8)

    def write(store: Callable[[], Any]) -> None:
        try:
            with ExitStack() as stack:
                with opening:
                    append = stack.enter_context(store())
                    append()
                ready.wait()
                times.extend([_timed(append) for _ in range(each)])
        except BaseException as error:
            failures.append(error)
            ready.abort()

    threads = [threading.Thread(target=write, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    with suppress(threading.BrokenBarrierError):
        ready.wait()
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - started
    if failures:
        raise failures[0]
    _row(label, times, f"{len(times) / took:,.0f}/s")


def _resume(url: str, rounds: int) -> None:
    """Resume of sessions, from a file and from the server, in turns and in this process."""
    print("\nresume: median, p99 (ms), round trips")
    with tempfile.TemporaryDirectory() as folder:
        files = {
            "compacted, 200 MB": Path(folder) / "compacted.jsonl",
            "36,000 entries": Path(folder) / "deep.jsonl",
        }
        _make_compacted(files["compacted, 200 MB"])
        _make_deep(files["36,000 entries"])
        for label, file in files.items():
            place, name = place_of(f"{url}/{file.name}")
            with open(file, "rb") as source:
                place.create(name, iter(partial(source.read, 1 << 20), b""))
            stored = place.address(name)
            times: dict[str, list[float]] = {str(file): [], stored: []}
            for _ in range(rounds):
                for where, found in times.items():
                    found.append(_timed(partial(_context, where)))
            _row(f"{label}, a file", times[str(file)])
            _row(f"{label}, PostgreSQL", times[stored], f"{_trips(stored)} round trips")


def _context(where: str) -> None:
    with Session.open(where) as session:
        assert session.context().messages


def _trips(where: str) -> int:
    """The round trips of a resume, once connected."""
    count = 0
    wait: Callable[..., object] = ServerConnection.wait

    def counting(*args: object, **named: object) -> object:
        nonlocal count
        count += 1
        return wait(*args, **named)

    ServerConnection.wait = counting  # type: ignore[method-assign]
    try:
        _context(where)
    finally:
        ServerConnection.wait = wait  # type: ignore[method-assign]
    return count


def _make_compacted(file: Path) -> None:
    with Session.create(file, cwd="/p", durability="os", spill_over=None) as session:
        text = "the quick brown fox jumps over the lazy dog " * 220
        with session.batch():
            for number in range(20_000):
                role = "assistant" if number % 2 else "user"
                session.append_message({"role": role, "content": f"{number} {text}"})
        session.compact("what was before", keep=10)
        for number in range(10):
            session.append_message({"role": "user", "content": f"{number} {text}"})


def _make_deep(file: Path) -> None:
    with Session.create(file, cwd="/p", durability="os") as session, session.batch():
        for number in range(36_000):
            role = "assistant" if number % 2 else "user"
            session.append_message({"role": role, "content": f"{number} {_TEXT}"})


def _list(url: str, rounds: int) -> None:
    """A list of 10,000 sessions."""
    print("\n10,000 sessions: median, p99 (ms)")
    place, _ = place_of(url)
    content = _line()
    for number in range(10_000):
        place.create(f"p{number % 100}/{number}.jsonl", [content, content])
    assert len(list(place.list())) == 10_000
    few = max(3, rounds // 5)
    _row("list", [_timed(lambda: list(place.list())) for _ in range(few)])
    _row("list of one project", [_timed(lambda: list(place.list("p7/"))) for _ in range(few)])
    ends = [_timed(lambda: list(place.ends("", 4096, 16384))) for _ in range(few)]
    _row("list with starts and ends", ends)


def _search(url: str, rounds: int) -> None:
    """Searches of 100 sessions of a megabyte, in files and on the server."""
    print("\nsearch of 100 MB: median, p99 (ms)")
    words = [uuid.uuid4().hex[:6] for _ in range(20_000)]
    choose = random.Random(1).choices
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "p").mkdir()
        for number in range(100):
            file = Path(folder) / "p" / f"{number}.jsonl"
            with Session.create(file, cwd="/p", durability="os") as session, session.batch():
                for _ in range(500):
                    session.append_message(
                        {"role": "user", "content": " ".join(choose(words, k=270))}
                    )
                if number % 50 == 0:
                    session.append_message({"role": "user", "content": "the Needle"})
        copy(folder, url)
        few = max(3, rounds // 10)
        for label, asked in {
            "a text in two sessions": {"pattern": "the Needle"},
            "the same, case ignored": {"pattern": "the needle", "ignore_case": True},
            "a text in all sessions, 100 hits": {"pattern": words[0], "limit": 100},
            "a regular expression, all lines read": {"pattern": "[t]he Needle", "regex": True},
        }.items():
            for where, store in {"files": Store(folder), "PostgreSQL": Store(url)}.items():
                found = partial(lambda store, asked: list(store.search(**asked)), store, asked)
                _row(f"{label}, {where}", [_timed(found) for _ in range(few)])


def _space(url: str, rounds: int) -> None:
    """The bytes that an entry takes."""
    file = f"{url}/p/s.jsonl"
    with Session.create(file, cwd="/p", durability="os") as session:
        for _ in range(20):
            with session.batch():
                for number in range(1000):
                    session.append_message({"role": "user", "content": f"{number} {_TEXT}"})
        size = session.leaf.offset + len(session.leaf.line) + 1
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            "SELECT pg_total_relation_size('sessiontree.lines'), "
            "pg_indexes_size('sessiontree.lines')"
        ).fetchone()
    assert row is not None
    print(f"\nbytes an entry: {size / 20_000:.0f} in a file, {row[0] / 20_000:.0f} in PostgreSQL")
    print(f"of them in indexes: {row[1] / 20_000:.0f}")


_PARTITION: Final = """
    ALTER TABLE {schema}.lines RENAME TO lines_before;
    CREATE TABLE {schema}.lines (LIKE {schema}.lines_before INCLUDING ALL) PARTITION BY HASH (log);
    DO $$ BEGIN FOR part IN 0..{count} - 1 LOOP
        EXECUTE format('CREATE TABLE {schema}.lines_%s PARTITION OF {schema}.lines
            FOR VALUES WITH (MODULUS {count}, REMAINDER %s)', part, part);
    END LOOP; END $$;
    INSERT INTO {schema}.lines SELECT * FROM {schema}.lines_before;
    DROP TABLE {schema}.lines_before
"""


def _partitions(url: str, rounds: int) -> None:
    """The same calls in turns with tables in more and more partitions by the hash of the log."""
    print("\npartitions of the lines: median, p99 (ms)")
    counts = (0, 16, 64, 256)
    for count in counts:
        Session.create(f"{url}/p/one.jsonl?schema=parts{count}", cwd="/p").close()
        if count:
            statement = _PARTITION.format(schema=f"parts{count}", count=count)
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(statement.encode())
        place, _ = place_of(f"{url}?schema=parts{count}")
        for number in range(1000):
            place.create(f"q/{number}.jsonl", [_line()])
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        for count in counts:
            for label, call in _calls_in(f"{url}/p/one.jsonl?schema=parts{count}"):
                times.setdefault(f"{count} partitions, {label}", []).append(_timed(call))
    for label, found in times.items():
        _row(label, found)


_MANY: Final = 1_000_000
_EACH: Final = 10
_PROJECT: Final = 100
_HEADER: Final = (
    '{"type":"session","version":2,"format":"sessiontree/2","uuid":"00000000-0000-4000-8000-%s",'
    '"parentUuid":null,"timestamp":"2026-01-01T00:00:00.000Z","id":"%s","cwd":"/p"}\\n'
)
_LATER: Final = (
    '{"type":"message","uuid":"0000000%s-0000-4000-8000-%s","parentUuid":"0000000%s-0000-4000-8000'
    '-%s","message":{"role":"user","content":"%s"}}\\n'
)
_FILL: Final = """
    INSERT INTO {schema}.sessions (name, session, log) OVERRIDING SYSTEM VALUE
    SELECT format('p%s/2026-01-01T00-00-00-000Z_%s.jsonl', n / {project}, lpad(to_hex(n), 12, '0')),
        n, n FROM generate_series({first}, {last}) n;
    INSERT INTO {schema}.logs (log, session) OVERRIDING SYSTEM VALUE
    SELECT n, n FROM generate_series({first}, {last}) n;
    INSERT INTO {schema}.lines (log, at, line, uuid, parent)
    SELECT n, 0, convert_to(format(E'{header}', id, id), 'UTF8'), '00000000-0000-4000-8000-' || id,
        NULL
    FROM generate_series({first}, {last}) n, lpad(to_hex(n), 12, '0') id
    UNION ALL
    SELECT n, {start} + (k - 1) * {size},
        convert_to(format(E'{later}', k, id, k - 1, id, repeat(md5(n * k || ''), 9)), 'UTF8'),
        format('0000000%s-0000-4000-8000-%s', k, id),
        format('0000000%s-0000-4000-8000-%s', k - 1, id)
    FROM generate_series({first}, {last}) n, generate_series(1, {each} - 1) k,
        lpad(to_hex(n), 12, '0') id
    ORDER BY 1, 2
"""


def _fill(url: str, schema: str, count: int) -> None:
    """Make sessions of ten entries each by statements of the server."""
    Session.create(f"{url}/p/one.jsonl?schema={schema}", cwd="/p").close()
    start = len(_HEADER.replace("%s", "x" * 12)) - 1
    size = len(_LATER) - 1 - 10 + 2 + 24 + 288
    with psycopg.connect(url, autocommit=True) as connection:
        for first in range(1000, 1000 + count, 50_000):
            last = min(first + 50_000, 1000 + count) - 1
            values = {"schema": schema, "first": first, "last": last, "project": _PROJECT}
            texts = {"header": _HEADER, "later": _LATER, "start": start, "size": size}
            connection.execute(_FILL.format(**values, **texts, each=_EACH).encode())
        connection.execute(f"ANALYZE {schema}.lines, {schema}.sessions, {schema}.logs".encode())


def _size(url: str, rounds: int) -> None:
    """The same calls in turns with a thousand sessions and with a million."""
    print(f"\n1,000 sessions and {_MANY:,} of {_EACH} entries: median, p99 (ms)")
    counts = {"1,000": 1000, f"{_MANY:,}": _MANY}
    for label, count in counts.items():
        print(f"{label} made in {_timed(partial(_fill, url, f'size{count}', count)):.0f} s")
    times: dict[str, list[float]] = {}
    chance = random.Random(1)
    for _ in range(rounds):
        for label, count in counts.items():
            number = chance.randrange(1000, 1000 + count)
            for name, call in _calls_at(f"{url}?schema=size{count}", number):
                times.setdefault(f"{name}, of {label}", []).append(_timed(call))
    for label in sorted(times):
        _row(label, times[label])


def _calls_at(url: str, number: int) -> Iterator[tuple[str, Append]]:
    """Calls to a session by its number, and to its project."""
    place, _ = place_of(url)
    project = f"p{number // _PROJECT}/"
    name = f"{project}2026-01-01T00-00-00-000Z_{number:012x}.jsonl"
    file = place.address(name)
    yield "find by name", lambda: place.find(name)
    yield "resume", partial(_context, file)
    with Session.open(file) as session:
        assert len(session.path()) >= _EACH
        yield "first append", lambda: session.append_message(_MESSAGE)
        yield "append", lambda: session.append_message(_MESSAGE)
    yield "list of a project", lambda: list(place.list(project))
    yield "list of a project with ends", lambda: list(place.ends(project, 4096, 16384))


def _calls_in(file: str) -> Iterator[tuple[str, Append]]:
    with Session.open(file) as session:
        for _ in range(_TURN):
            yield "append", lambda: session.append_message(_MESSAGE)
        yield "batch of 100", partial(_batch, session)
    yield "resume", partial(_context, file)
    yield "list of 1,000", lambda: list(place_of(file)[0].list())


def _batch(session: Session) -> None:
    with session.batch():
        for _ in range(100):
            session.append_message(_MESSAGE)


_JOBS: Final[dict[str, Callable[[str, int], None]]] = {
    "append": _append,
    "writers": _writers,
    "resume": _resume,
    "list": _list,
    "search": _search,
    "space": _space,
    "partitions": _partitions,
    "size": _size,
}

if __name__ == "__main__":
    main()
