"""The sessions in a SQLite database of OpenCode or Kilo, each as a file that is not there.

Such a database is taken for a folder, and a session in it for a file of that folder with the path
`…/opencode.db/<session id>.jsonl`. So a session has a path, a size, a time and an identity like
any other, and whoever reads files reads it. `DISK` asks here where the system says that a part of
a path is not a folder; nothing else needs to know.

The bytes of a session are its rows as JSON lines, in the order in which its program reads them:
the row of `session`; each row of `message` by its time, with its rows of `part` by their ids; at
the end the time of the last change. What a row has as JSON stands in its line byte for byte.

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
from typing import Any, Final, NamedTuple, TypeVar

import orjson

from sessiontree.core.header import DATABASE, IN_DATABASE, SQLITE
from sessiontree.errors import SessionNotFoundError, StorageError

T = TypeVar("T")

SUFFIX: Final = ".jsonl"
_WAL: Final = "-wal"
_INDEX: Final = "-shm"
_JOURNAL: Final = "-journal"
_TRIES: Final = 5
_WAIT_SECONDS: Final = 2.0
_ID: Final = re.compile(r"[\w.~+=@-]+")

_COLUMNS: Final = {
    "session": {"id", "project_id", "directory", "title", "time_created", "time_updated"},
    "message": {"id", "session_id", "time_created", "time_updated", "data"},
    "part": {"id", "message_id", "session_id", "data"},
}
"""The tables of a database with sessions, and columns that they have at least."""

_LINE: Final = (
    b'{"type":"message","id":%b,"time_created":%d,"time_updated":%d,"data":%b,"parts":[%b]}\n'
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
    if IN_DATABASE not in path or not path.endswith(SUFFIX):
        return None
    database, name = os.path.split(path)
    id = name.removesuffix(SUFFIX)
    return (database, id) if _ID.fullmatch(id) and os.path.isfile(database) else None


def is_database(path: str) -> bool:
    """True if a path leads to a database with sessions of OpenCode or Kilo."""
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
            known = _known[path] = stamp, _read(path, _has_sessions)
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
        if not _has_sessions(rows):
            return None
        session = rows.execute("SELECT * FROM session WHERE id = ?", (id,)).fetchone()
        if session is None:
            return None
        lines, changed = [_session_line(session, database)], [_number(session["time_updated"])]
        parts = _parts(rows, id)
        for message in _messages(rows, id):
            lines.append(_message_line(message, parts.get(message["id"], [])))
            changed.append(_number(message["time_updated"]))
        end = _end_line(max(changed))
        content = b"".join((*lines, end))
        rows_of_parts = sum(map(len, parts.values()))
        about = _stored(id, lines[0], end, max(changed), len(lines) - 1, rows_of_parts)
        _sizes[path] = about.identity, len(content)
        return content, about

    found = _read(database, read)
    if found is None:
        raise _no_session(path, database, id)
    return found


def _no_session(path: str, database: str, id: str) -> SessionNotFoundError:
    return SessionNotFoundError(f"{database} has no session {id}; check the id", path)


def _has_sessions(rows: sqlite3.Connection) -> bool:
    """True if there are the tables, as tables: a view could compute without an end."""
    marks = ", ".join("?" * len(_COLUMNS))
    kinds = rows.execute(f"SELECT type FROM sqlite_master WHERE name IN ({marks})", (*_COLUMNS,))
    if [row[0] for row in kinds] != [b"table"] * len(_COLUMNS):
        return False
    for table, columns in _COLUMNS.items():
        found = rows.execute("SELECT name FROM pragma_table_info(?)", (table,))
        if not columns <= {row[0].decode() for row in found}:
            return False
    return True


def _cataloged(rows: sqlite3.Connection, database: str) -> dict[str, StoredRows]:
    if not _has_sessions(rows):
        raise StorageError(f"{database} has no sessions that can be read", database)
    said = {
        row["session_id"]: row
        for row in rows.execute(
            "SELECT session_id, count(*) AS rows, max(time_updated) AS changed FROM message"
            " GROUP BY session_id"
        )
    }
    parts = dict(map(tuple, rows.execute("SELECT session_id, count(*) FROM part GROUP BY 1")))
    found: dict[str, StoredRows] = {}
    for session in rows.execute("SELECT * FROM session").fetchall():
        key = session["id"]
        id = _text(key)
        if not _ID.fullmatch(id):
            continue  # no program gives such an id, and no path can have it
        count, changed = 0, _number(session["time_updated"])
        if key in said:
            count, changed = said[key]["rows"], max(changed, _number(said[key]["changed"]))
        head, end = _session_line(session, database), _end_line(changed)
        head += _first_message(rows, key)
        found[id] = _stored(id, head, end, changed, count, parts.get(key, 0))
    return found


def _first_message(rows: sqlite3.Connection, session: bytes) -> bytes:
    """The line of the first message of a session, empty without one."""
    message = rows.execute(
        "SELECT * FROM message WHERE session_id = CAST(? AS TEXT)"
        " ORDER BY time_created, id LIMIT 1",
        (session,),
    ).fetchone()
    if message is None:
        return b""
    parts = rows.execute(
        "SELECT id, data FROM part WHERE message_id = CAST(? AS TEXT) ORDER BY id", (message["id"],)
    )
    return _message_line(message, [_part_of(row) for row in parts])


def _messages(rows: sqlite3.Connection, id: str) -> Iterator[sqlite3.Row]:
    yield from rows.execute(
        "SELECT * FROM message WHERE session_id = ? ORDER BY time_created, id", (id,)
    )


def _parts(rows: sqlite3.Connection, id: str) -> dict[bytes, list[bytes]]:
    """The parts of a session by the id of their message."""
    found: dict[bytes, list[bytes]] = {}
    for row in rows.execute(
        "SELECT message_id, id, data FROM part WHERE session_id = ? ORDER BY id", (id,)
    ):
        found.setdefault(row["message_id"], []).append(_part_of(row))
    return found


def _part_of(row: sqlite3.Row) -> bytes:
    return _PART % (_json(row["id"]), _raw(row["data"]))


def _message_line(row: sqlite3.Row, parts: list[bytes]) -> bytes:
    times = _number(row["time_created"]), _number(row["time_updated"])
    return _LINE % (_json(row["id"]), *times, _raw(row["data"]), b",".join(parts))


def _session_line(row: sqlite3.Row, database: str) -> bytes:
    """The line of a session: its columns, those with JSON as it is, and the database's name."""
    name = os.path.basename(database).encode("utf-8", "replace")
    columns = [b'"type":"session_row","database":%b' % _json(name)]
    for key in row.keys():  # noqa: SIM118  (a row gives its values)
        value = row[key]
        is_json = isinstance(value, bytes) and value[:1] in (b"{", b"[") and _is_json(value)
        columns.append(_json(key.encode()) + b":" + (value if is_json else _json(value)))
    return b"{%b}\n" % b",".join(columns)


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


def _stored(
    id: str, head: bytes, end: bytes, modified: int, messages: int, parts: int
) -> StoredRows:
    text = b"%b %d %d %d" % (id.encode(), modified, messages, parts)
    digest = hashlib.blake2b(text, digest_size=14).digest()
    identity = int.from_bytes(digest[:7]), int.from_bytes(digest[7:])
    return StoredRows(head, end, modified, identity)


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
        has_log = _has(database + _WAL)
        is_live = may_be_live and has_log and os.path.exists(database + _INDEX)
        try:
            if is_live:
                return _read_in(f"{_uri(database)}?mode=ro&readonly_shm=1", read)
            if has_log or _has(database + _JOURNAL):
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


def _has(path: str) -> bool:
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
        copied = os.path.join(folder, f"copy{DATABASE}")
        for ending in ("", _WAL, _JOURNAL):
            with suppress(FileNotFoundError):
                shutil.copyfile(database + ending, copied + ending)
        yield copied
