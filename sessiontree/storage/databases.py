"""The sessions in a SQLite database of an agent, each as a file that is not there.

Such a database is taken for a folder, and a session in it for a file of that folder with the path
`…/opencode.db/<session id>.jsonl`. So a session has a path, a size, a time and an identity like
any other, and whoever reads files reads it. `DISK` asks here where the system says that a part of
a path is not a folder; nothing else needs to know.

The bytes of a session are its rows as JSON lines, in the order in which its program reads them. Of
OpenCode and Kilo that is the row of `session`; each row of `message` by its time, with its rows of
`part` by their ids; at the end the time of the last change. Of Goose and Crush it is the row of
`sessions` and each row of `messages`, and the same end. Of OpenClaw it is what each row of
`transcript_events` holds. What a row has as JSON stands in its line byte for byte.

A list needs only the first lines and the last one of each session. `catalog` reads these for all
sessions at once, and again only when the database or its log changed. It reads no other messages
and counts the rows alone: the size of a session takes a look at each of its rows, and is asked for
apart.

Invariants: a database is never written, and nothing is left beside it. With its log and the index
of that it is opened read-only, as a reader beside the writer. A log without an index is read in a
copy, as SQLite would make the index. A database without a log is read as it is, without a lock,
and again if it changed or got a log meanwhile. All rows of a session are of one state.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import orjson

from sessiontree.core.header import DATABASES, ORIGIN_START, SQLITE, is_in_database
from sessiontree.errors import SessionNotFoundError, StorageError

T = TypeVar("T")

SUFFIX: Final = ".jsonl"
_WAL: Final = "-wal"
_INDEX: Final = "-shm"
_JOURNAL: Final = "-journal"
_TRIES: Final = 5
_WAIT_SECONDS: Final = 2.0
_IN_PROJECT: Final = ".crush"
"""The folder in a project in which Crush keeps the database of its sessions."""

_ID: Final = re.compile(r"[\w.~+=@$-]+")

_LINE: Final = (
    b'{"type":"message","id":%b,"time_created":%d,"time_updated":%d,"data":%b%b,"parts":[%b]}\n'
)
_PART: Final = b'{"id":%b,"data":%b}'
_END: Final = b'{"type":"end","timestamp":"%b"}\n'


class StoredRows(NamedTuple):
    """A session in a database, as a list needs it."""

    head: bytes  # its first lines
    end: bytes  # its last line
    modified: int  # when it last changed, in milliseconds since 1970
    identity: tuple[int, int]  # changes with its content


class _Catalog(NamedTuple):
    stamp: tuple[int, ...]
    sessions: Mapping[str, StoredRows]


_catalogs: dict[str, _Catalog] = {}
"""By database the last one; of few, as a list is of few databases."""

_sizes: dict[str, tuple[tuple[int, int], int]] = {}
"""By path the identity and the size of a session."""

_known: dict[str, tuple[tuple[int, ...], bool]] = {}
"""By database its stamp, and whether it has sessions."""


def database_of(path: str) -> tuple[str, str] | None:
    """The database and the id in the path of a session in a database; None for another path.

    Nothing looks whether there is such a session.
    """
    if not is_in_database(path) or not path.endswith(SUFFIX):
        return None
    database, name = os.path.split(path)
    id = name.removesuffix(SUFFIX)
    return (database, id) if _ID.fullmatch(id) and os.path.isfile(database) else None


def is_database(path: str) -> bool:
    """True if a path leads to a database with sessions of an agent."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        with open(path, "rb") as file:
            if file.read(len(SQLITE)) != SQLITE:
                return False
    except OSError:
        return False
    stamp, known = _stamp(path), _known.get(path)
    if known is None or known[0] != stamp:
        with suppress(StorageError):
            known = _known[path] = stamp, _read(path, _tables_in) is not None
    return known is not None and known[1]


def sessions_in(database: str) -> list[str]:
    """The paths of the sessions in a database, by their ids.

    Raises:
        StorageError: it cannot be read.
    """
    return [f"{database}{os.sep}{id}{SUFFIX}" for id in sorted(catalog(database))]


def catalog(database: str) -> Mapping[str, StoredRows]:
    """The sessions in a database by their ids.

    Raises:
        StorageError: it cannot be read.
    """
    stamp = _stamp(database)
    known = _catalogs.get(database)
    if known is not None and known.stamp == stamp:
        return known.sessions
    found = _read(database, lambda rows: _cataloged(rows, database))
    _catalogs[database] = _Catalog(stamp, found)
    return found


def rows_at(path: str) -> StoredRows | None:
    """The session at a path as a list needs it; None for a path that is not in a database.

    Raises:
        SessionNotFoundError: the database has no such session.
        StorageError: the database cannot be read.
    """
    named = database_of(path)
    if named is None:
        return None
    found = catalog(named[0]).get(named[1])
    if found is None:
        raise _no_session(path, *named)
    return found


def size_at(path: str) -> int:
    """The number of bytes of the session at a path, which is in a database; raises as `rows_at`."""
    rows = rows_at(path)
    known = _sizes.get(path)
    if rows is not None and known is not None and known[0] == rows.identity:
        return known[1]
    found = content_at(path)
    return 0 if found is None else len(found[0])


def content_at(path: str) -> tuple[bytes, StoredRows] | None:
    """All bytes of the session at a path; raises as `rows_at`."""
    named = database_of(path)
    if named is None:
        return None
    database, id = named

    def read(rows: sqlite3.Connection) -> tuple[bytes, StoredRows] | None:
        tables = _tables_in(rows)
        row = None if tables is None else next(tables.sessions(rows, database, id), None)
        if tables is None or row is None:
            return None
        lines = list(tables.lines(rows, row))
        content, about = b"".join(lines), _stored(row, b"", lines[-1])
        _sizes[path] = about.identity, len(content)
        return content, about

    found = _read(database, read)
    if found is None:
        raise _no_session(path, database, id)
    return found


def _no_session(path: str, database: str, id: str) -> SessionNotFoundError:
    return SessionNotFoundError(f"{database} has no session {id}; check the id", path)


class _SessionRow(NamedTuple):
    """A session, and what changes when it does."""

    key: bytes
    line: bytes  # its first line; empty if that is one of its rows
    modified: int  # in milliseconds since 1970
    counts: tuple[int, ...]  # of its rows, by table


class _Tables(Protocol):
    """The tables in which an agent keeps its sessions."""

    @property
    def columns(self) -> Mapping[str, frozenset[str]]:
        """The columns that each table has at least."""

    def sessions(
        self, rows: sqlite3.Connection, database: str, id: str | None = None
    ) -> Iterator[_SessionRow]:
        """All sessions, or the one with an id."""

    def lines(
        self, rows: sqlite3.Connection, session: _SessionRow, most: int = -1
    ) -> Iterator[bytes]:
        """The lines of a session, the last one with the time; with up to so many messages."""


class _OfOpenCode:
    columns: Mapping[str, frozenset[str]] = {
        "session": frozenset({"id", "project_id", "directory", "title", "time_created"}),
        "message": frozenset({"id", "session_id", "time_created", "time_updated", "data"}),
        "part": frozenset({"id", "message_id", "session_id", "data"}),
    }

    def sessions(
        self, rows: sqlite3.Connection, database: str, id: str | None = None
    ) -> Iterator[_SessionRow]:
        said = _grouped(rows, "message", "max(time_updated)", id)
        parts = _grouped(rows, "part", "0", id)
        for session in _selected(rows, "SELECT * FROM session", id):
            key = session["id"]
            count, changed = said.get(key, (0, 0))
            counts = count, parts.get(key, (0, 0))[0]
            line = _line_of("session_row", session, database)
            yield _SessionRow(key, line, max(changed, _number(session["time_updated"])), counts)

    def lines(
        self, rows: sqlite3.Connection, session: _SessionRow, most: int = -1
    ) -> Iterator[bytes]:
        yield session.line
        parts = {} if most >= 0 else _parts(rows, session.key)
        for message in rows.execute(
            "SELECT * FROM message WHERE session_id = CAST(? AS TEXT)"
            " ORDER BY time_created, id LIMIT ?",
            (session.key, most),
        ).fetchall():
            own = parts.get(message["id"], []) if most < 0 else _parts_of(rows, message["id"])
            yield _message_line(message, own)
        yield _end_line(session.modified)


class _OfMessages(NamedTuple):
    """Tables `sessions` and `messages`, in which each row of a message has all of it."""

    columns: Mapping[str, frozenset[str]]
    order: str  # in which the messages are read
    changed: str  # when a session changed, in seconds since 1970, in SQL

    def sessions(
        self, rows: sqlite3.Connection, database: str, id: str | None = None
    ) -> Iterator[_SessionRow]:
        said = _grouped(rows, "messages", "0", id)
        query = f"SELECT *, {self.changed} AS changed_at FROM sessions"
        for session in _selected(rows, query, id):
            changed = _number(session["changed_at"])
            changed = changed if changed > _SECONDS else changed * 1000
            line = _line_of("session_row", session, database)
            yield _SessionRow(session["id"], line, changed, said.get(session["id"], (0, 0))[:1])

    def lines(
        self, rows: sqlite3.Connection, session: _SessionRow, most: int = -1
    ) -> Iterator[bytes]:
        yield session.line
        query = (
            "SELECT * FROM messages WHERE session_id = CAST(? AS TEXT)"
            f" ORDER BY {self.order} LIMIT ?"
        )
        for message in rows.execute(query, (session.key, most)):
            yield _line_of("message", message)
        yield _end_line(session.modified)


class _OfEvents:
    """The events of OpenClaw, each a line of pi's shape; long ones are compressed."""

    columns: Mapping[str, frozenset[str]] = {
        "transcript_events": frozenset({"session_id", "seq", "event_json", "created_at"})
    }

    def sessions(
        self, rows: sqlite3.Connection, database: str, id: str | None = None
    ) -> Iterator[_SessionRow]:
        found = _grouped(rows, "transcript_events", "max(created_at)", id)
        for key, (count, changed) in found.items():
            yield _SessionRow(key, b"", changed, (count,))

    def lines(
        self, rows: sqlite3.Connection, session: _SessionRow, most: int = -1
    ) -> Iterator[bytes]:
        query = "SELECT * FROM transcript_events WHERE session_id = CAST(? AS TEXT)"
        if most < 0:
            yield from map(_event_line, rows.execute(f"{query} ORDER BY seq", (session.key,)))
            return
        query += " AND event_json IS NOT NULL ORDER BY seq"  # a list unpacks none
        first = rows.execute(f"{query} LIMIT ?", (session.key, _LISTED))
        last = rows.execute(f"{query} DESC LIMIT 1", (session.key,)).fetchall()
        yield from map(_event_line, [*first.fetchall(), *last])


def _event_line(event: sqlite3.Row) -> bytes:
    text = event["event_json"]
    if text is None:
        from sessiontree.storage.zstandard import unpacked  # few events are compressed

        text = unpacked(bytes(event["event_zstd"]), MAX_EVENT, "an event of OpenClaw")
    return (text or b"damaged").replace(b"\n", b" ") + b"\n"


MAX_EVENT: Final = 4 * 1024 * 1024
"""The largest event of OpenClaw, in bytes."""

_LISTED: Final = 16
"""The events at the start of a session of OpenClaw that have its first prompt."""

_SECONDS: Final = 10**11
"""Larger times are in milliseconds."""

_TABLES: Final[tuple[_Tables, ...]] = (
    _OfOpenCode(),
    _OfMessages(
        {
            "sessions": frozenset({"id", "working_dir", "created_at", "updated_at"}),
            "messages": frozenset({"id", "session_id", "role", "content_json"}),
        },
        "timestamp, id",
        "CAST(strftime('%s', updated_at) AS INTEGER)",
    ),
    _OfMessages(
        {
            "sessions": frozenset({"id", "parent_session_id", "title", "updated_at"}),
            "messages": frozenset({"id", "session_id", "role", "parts", "model", "created_at"}),
        },
        "created_at, rowid",
        "updated_at",
    ),
    _OfEvents(),
)


def _tables_in(rows: sqlite3.Connection) -> _Tables | None:
    """The tables with sessions, if there are any, as tables: a view could compute without an end.

    Raises:
        sqlite3.Error: it cannot be read.
    """
    kinds = dict(map(tuple, rows.execute("SELECT name, type FROM sqlite_master")))
    return next((tables for tables in _TABLES if _has(rows, kinds, tables)), None)


def _has(rows: sqlite3.Connection, kinds: Mapping[bytes, bytes], tables: _Tables) -> bool:
    for table, columns in tables.columns.items():
        if kinds.get(table.encode()) != b"table":
            return False
        found = rows.execute("SELECT name FROM pragma_table_info(?)", (table,))
        if not columns <= {row[0].decode() for row in found}:
            return False
    return True


def _selected(rows: sqlite3.Connection, query: str, id: str | None) -> list[sqlite3.Row]:
    """The rows of all sessions, or of one."""
    if id is None:
        return rows.execute(query).fetchall()
    return rows.execute(f"{query} WHERE id = ?", (id,)).fetchall()


def _grouped(
    rows: sqlite3.Connection, table: str, changed: str, id: str | None = None
) -> dict[bytes, tuple[int, int]]:
    """By session, or of one, the number of its rows in a table, and when one changed."""
    query = f"SELECT session_id, count(*), {changed} FROM {table}"
    where = "" if id is None else " WHERE session_id = ?"
    found = rows.execute(f"{query}{where} GROUP BY 1", () if id is None else (id,))
    return {row[0]: (row[1], _number(row[2])) for row in found}


def _cataloged(rows: sqlite3.Connection, database: str) -> dict[str, StoredRows]:
    tables = _tables_in(rows)
    if tables is None:
        raise StorageError(f"{database} has no sessions that can be read", database)
    found: dict[str, StoredRows] = {}
    for session in list(tables.sessions(rows, database)):
        id = _text(session.key)
        if not _ID.fullmatch(id):
            continue  # no program gives such an id, and no path can have it
        *head, end = tables.lines(rows, session, most=1)
        found[id] = _stored(session, b"".join(head), end)
    return found


def _parts_of(rows: sqlite3.Connection, message: bytes) -> list[bytes]:
    parts = rows.execute(
        "SELECT id, data FROM part WHERE message_id = CAST(? AS TEXT) ORDER BY id", (message,)
    )
    return [_part_of(row) for row in parts]


def _parts(rows: sqlite3.Connection, key: bytes) -> dict[bytes, list[bytes]]:
    """The parts of a session by the id of their message."""
    found: dict[bytes, list[bytes]] = {}
    for row in rows.execute(
        "SELECT message_id, id, data FROM part WHERE session_id = CAST(? AS TEXT) ORDER BY id",
        (key,),
    ):
        found.setdefault(row["message_id"], []).append(_part_of(row))
    return found


def _part_of(row: sqlite3.Row) -> bytes:
    return _PART % (_json(row["id"]), _raw(row["data"]))


def _message_line(row: sqlite3.Row, parts: list[bytes]) -> bytes:
    times = _number(row["time_created"]), _number(row["time_updated"])
    said = b",".join(parts)
    return _LINE % (_json(row["id"]), *times, _raw(row["data"]), _origin_in(said), said)


def _origin_in(text: bytes) -> bytes:
    """The origin in metadata, as a key of the line; empty for none.

    OpenCode keeps no keys of others in a session and its messages but in the metadata of parts.
    """
    found = _ORIGIN.search(text)
    return b"," + found[0] if found else b""


_ORIGIN: Final = re.compile(re.escape(ORIGIN_START) + rb'"(?:[^"\\{}]|\\.)*+"[^{}]*+\}')


def _line_of(kind: str, row: sqlite3.Row, database: str = "") -> bytes:
    """The line of a row: its columns, those with JSON as it is, and where its database is."""
    columns = [b'"type":%b' % _json(kind)]
    if database:
        folder, name = os.path.split(os.path.abspath(database))
        named = {b"database": name}
        if os.path.basename(folder) == _IN_PROJECT:
            named[b"project"] = os.path.dirname(folder)
        columns += [
            b'"%b":%b' % (key, _json(value.encode("utf-8", "replace")))
            for key, value in named.items()
        ]
    for key in row.keys():  # noqa: SIM118  (a row gives its values)
        value = row[key]
        is_json = isinstance(value, bytes) and value[:1] in (b"{", b"[") and _is_json(value)
        columns.append(_json(key.encode()) + b":" + (value if is_json else _json(value)))
    text = b",".join(columns)
    return b"{%b%b}\n" % (text, _origin_in(text))


def _end_line(changed: int) -> bytes:
    with suppress(ValueError, OverflowError, OSError):
        moment = datetime.fromtimestamp(changed / 1000, UTC)
        return _END % (moment.isoformat(timespec="milliseconds")[:-6] + "Z").encode()
    return _END % b""


def _is_json(text: bytes) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return b"\n" not in text


def _raw(value: Any) -> bytes:
    """A column with JSON, byte for byte; what is not a text as what it is."""
    return value if isinstance(value, bytes) and value else _json(value)


def _json(value: Any) -> bytes:
    if isinstance(value, bytes):
        value = _text(value)
    return orjson.dumps(value)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _number(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 10**15 else 0


def _stored(row: _SessionRow, head: bytes, end: bytes) -> StoredRows:
    text = b"%b %d %b" % (row.key, row.modified, b" ".join(b"%d" % each for each in row.counts))
    digest = hashlib.blake2b(text, digest_size=14).digest()
    identity = int.from_bytes(digest[:7]), int.from_bytes(digest[7:])
    return StoredRows(head, end, row.modified, identity)


def _stamp(database: str) -> tuple[int, ...]:
    """What changes when a database, or its log, does."""
    numbers: list[int] = []
    for path in (database, database + _WAL, database + _JOURNAL):
        with suppress(OSError):
            found = os.stat(path)
            numbers += [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns]
            continue
        numbers.append(-1)
    return tuple(numbers)


def _read(database: str, read: Callable[[sqlite3.Connection], T]) -> T:
    """What a function reads of a database, all of it of one state.

    Raises:
        SessionNotFoundError: it is not there.
        StorageError: it cannot be read.
    """
    problem: sqlite3.Error | None = None
    may_be_live = True
    for _ in range(_TRIES):
        before = _stamp(database)
        if before[0] < 0:
            raise SessionNotFoundError(f"there is no file {database}; check the path", database)
        has_log = _is_filled(database + _WAL)
        is_live = may_be_live and has_log and os.path.exists(database + _INDEX)
        try:
            if is_live:
                return _read_in(f"{_uri(database)}?mode=ro&readonly_shm=1", read)
            if has_log or _is_filled(database + _JOURNAL):
                with _copy(database) as copied:
                    if _stamp(database) == before:
                        return _read_in(_uri(copied), read)
                continue
            found = _read_in(f"{_uri(database)}?immutable=1", read)
            if _stamp(database) == before:
                return found
        except sqlite3.Error as error:
            problem = error
            if is_live and _is_refused(error):
                may_be_live = False  # its index cannot be opened
            elif is_live or _stamp(database) == before:
                break
        except OSError as error:
            raise StorageError(
                f"cannot read {database}: {error.strerror or error}; check its permissions and "
                "the space for temporary files",
                database,
            ) from error
    raise _problem(database, problem) from problem


def _is_refused(error: sqlite3.Error) -> bool:
    return any(word in str(error) for word in ("unable to open", "readonly", "disk I/O"))


def _problem(database: str, error: sqlite3.Error | None) -> StorageError:
    if error is None:
        said = "it changed each time that it was read; try again when its program has less to do"
    elif "locked" in str(error) or "busy" in str(error):
        said = "another program has locked it; try again when that is done"
    elif isinstance(error, sqlite3.OperationalError) and "malformed" not in str(error):
        said = f"{error}; check its permissions"
    else:
        said = (
            f"it is damaged ({error}); 'sqlite3 {os.path.basename(database)} .recover' saves what "
            "can be saved"
        )
    return StorageError(f"cannot read {database}: {said}", database)


def _is_filled(path: str) -> bool:
    """True if a file is there, and not empty."""
    with suppress(OSError):
        return os.stat(path).st_size > 0
    return False


def _uri(path: str) -> str:
    from urllib.parse import quote  # few sessions are in a database

    return f"file:{quote(os.path.abspath(path))}"


def _read_in(uri: str, read: Callable[[sqlite3.Connection], T]) -> T:
    rows = sqlite3.connect(uri, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)
    with closing(rows):
        rows.row_factory = sqlite3.Row
        rows.text_factory = bytes
        rows.execute("BEGIN")
        return read(rows)


@contextmanager
def _copy(database: str) -> Iterator[str]:
    """A copy of a database and its logs in a temporary folder, which is removed."""
    with tempfile.TemporaryDirectory(prefix="sessiontree-") as folder:
        copied = os.path.join(folder, f"copy{DATABASES[0]}")
        for ending in ("", _WAL, _JOURNAL):
            with suppress(FileNotFoundError):
                shutil.copyfile(database + ending, copied + ending)
        yield copied
