"""A place in a PostgreSQL database: its sessions, and what is kept beside them.

An address is `postgresql://user@host/database/<name>`. Its options are `schema`, `notify=off`,
`timeout`, `connections`, and all that the server's own library takes, such as `sslmode` and `host`.
A content, such as a blob, is a row, and chunks of a megabyte.

Invariants: a session is there whole or not at all; nothing that only reads makes a table.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, Final

from sessiontree.errors import SessionExistsError, SessionNotFoundError, StorageError
from sessiontree.storage.contents import ContentFiles, beside
from sessiontree.storage.fs import Durability
from sessiontree.storage.log import BlobLocation
from sessiontree.storage.names import BLOBS
from sessiontree.storage.place import (
    START,
    Address,
    HeadAndTail,
    StoredContent,
    StoredSession,
    check_name,
    missing_library,
    name_in,
    no_session,
)
from sessiontree.storage.postgres import schema
from sessiontree.storage.postgres.connections import (
    ConnectionLost,
    Connections,
    SchemaMissing,
    settings_of,
)
from sessiontree.storage.postgres.lock import HeldLog, busy, holder
from sessiontree.storage.postgres.log import PostgresLog
from sessiontree.storage.postgres.schema import (
    BARRIER,
    ENDS,
    FOUND,
    HOLDERS,
    LIST,
    NEWEST,
    STATE,
    STEPS,
    Statements,
    Tables,
    between,
    check_version,
    key_of,
    new_log,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import Connection

    from sessiontree.text.pattern import Prefilter


with missing_library("postgres"):
    from psycopg import errors as refusals


_CHUNK: Final = 1024 * 1024

_READ: Final = f"""
    SELECT c.size, k.number, substring(k.bytes
        FROM greatest(%(start)s - k.number::bigint * {_CHUNK}, 0)::int + 1
        FOR greatest(%(stop)s - greatest(k.number::bigint * {_CHUNK}, %(start)s), 0)::int)
    FROM @contents c LEFT JOIN @chunks k ON k.content = c.content
        AND k.number BETWEEN %(start)s / {_CHUNK} AND (%(stop)s - 1) / {_CHUNK}
    WHERE c.key = %(key)s ORDER BY k.number
"""


class PostgresContents:
    """Contents in a database; see `Contents`.

    Args:
        tables: the tables.
        make: makes the tables.
    """

    def __init__(self, tables: Tables, make: Callable[[], None]) -> None:
        self._tables = tables
        self._make = make

    def put(self, key: str, source: IO[bytes]) -> None:
        start = source.tell()
        connections = self._tables.connections

        def put() -> None:
            source.seek(start)
            with connections.transaction() as connection:
                self._put(connection, key, source)

        try:
            connections.again(put)  # it replaces what an attempt with an unknown outcome put
        except SchemaMissing:
            self._make()
            connections.again(put)

    def _put(self, connection: Connection[Any], key: str, source: IO[bytes]) -> None:
        sql = self._tables.sql
        made = _new_content(connection, self._tables, key)
        number = size = 0
        while chunk := source.read(_CHUNK):
            inserted = sql("INSERT INTO @chunks (content, number, bytes) VALUES (%s, %s, %b)")
            connection.execute(inserted, [made, number, chunk])
            number += 1
            size += len(chunk)
            if len(chunk) < _CHUNK:
                break
        connection.execute(sql("UPDATE @contents SET size = %s WHERE key = %s"), [size, key])

    def look(self, key: str) -> StoredContent | None:
        text = "SELECT size, extract(epoch FROM written)::float8 FROM @contents WHERE key = %s"
        rows = self._run(text, [key])
        return StoredContent(*rows[0]) if rows else None

    def _run(self, text: str, params: Any) -> list[Any]:
        try:
            return self._tables.connections.run(self._tables.sql(text), params)
        except SchemaMissing:
            return []

    def read(self, key: str, offset: int, size: int) -> bytes:
        rows = self._run(_READ, {"key": key, "start": offset, "stop": offset + max(size, 1)})
        if not rows:
            raise FileNotFoundError(key)
        return b"".join(found for _, _, found in rows if found is not None)[: max(size, 0)]

    def keys(self, prefix: str) -> Iterator[str]:
        text = "SELECT key FROM @contents WHERE key >= %(start)s AND key < %(stop)s ORDER BY key"
        for row in self._run(text, between(prefix)):
            yield row[0]

    def copy(self, source: str, target: str) -> None:
        connections = self._tables.connections

        def copy() -> None:
            with connections.transaction() as connection:
                _copy(connection, self._tables, source, target)

        if self.look(source) is None:
            raise FileNotFoundError(source)
        if source != target:
            connections.again(copy)

    def remove(self, key: str) -> None:
        connections = self._tables.connections

        def remove() -> None:
            with connections.transaction() as connection:
                _remove(connection, self._tables, "key = %(key)s", {"key": key})

        if self.look(key) is not None:
            connections.again(remove)


def _new_content(connection: Connection[Any], tables: Tables, key: str) -> int:
    """Give a key a new content without chunks; return its number."""
    sql, execute = tables.sql, connection.execute
    execute(
        sql("INSERT INTO @contents (key, size) VALUES (%s, 0) ON CONFLICT (key) DO NOTHING"), [key]
    )
    old = execute(sql("SELECT content FROM @contents WHERE key = %s FOR UPDATE"), [key]).fetchone()
    if old is not None:
        execute(sql("DELETE FROM @chunks WHERE content = %s"), old)
    made = execute(
        sql(
            "UPDATE @contents SET content = DEFAULT, written = now() WHERE key = %s "
            "RETURNING content"
        ),
        [key],
    ).fetchone()
    if made is None:  # removed between the two statements
        raise refusals.SerializationFailure("a content was removed while it was written")
    return int(made[0])


def _copy(connection: Connection[Any], tables: Tables, source: str, target: str) -> None:
    sql, execute = tables.sql, connection.execute
    found = execute(
        sql("SELECT content, size FROM @contents WHERE key = %s FOR SHARE"), [source]
    ).fetchone()
    if found is None:
        raise FileNotFoundError(source)
    made = _new_content(connection, tables, target)
    execute(
        sql(
            "INSERT INTO @chunks (content, number, bytes) "
            "SELECT %s, number, bytes FROM @chunks WHERE content = %s"
        ),
        [made, found[0]],
    )
    execute(sql("UPDATE @contents SET size = %s WHERE key = %s"), [found[1], target])


def _remove(connection: Connection[Any], tables: Tables, which: str, values: Any) -> None:
    text = f"""
        WITH gone AS (DELETE FROM @contents WHERE {which} RETURNING content)
        DELETE FROM @chunks k USING gone WHERE k.content = gone.content
    """
    connection.execute(tables.sql(text), values)


def remove_all(connection: Connection[Any], tables: Tables, prefix: str) -> None:
    """Remove all contents whose keys begin with a text."""
    _remove(connection, tables, "key >= %(start)s AND key < %(stop)s", between(prefix))


def rename_all(connection: Connection[Any], tables: Tables, source: str, target: str) -> None:
    """Let all keys that begin with a text begin with another, in place of those that do so."""
    remove_all(connection, tables, target)
    text = """
        UPDATE @contents SET key = %(target)s || substr(key, length(%(start)s) + 1)
        WHERE key >= %(start)s AND key < %(stop)s
    """
    connection.execute(tables.sql(text), {**between(source), "target": target})


with missing_library("postgres"):
    from psycopg import errors as refusals


_PAGE: Final = 100
"""Rows that are fetched at once of many large ones."""


class PostgresPlace:
    """Sessions in a schema of a database; see `Place`."""

    forks: Final = True

    def __init__(self, address: Address) -> None:
        settings = settings_of(address)
        self.url = settings.url
        self._schema = f'"{settings.schema}"'
        space = zlib.crc32(f"sessiontree {self._schema}".encode()) & 0x7FFFFFFE
        self._tables = Tables(
            settings.url,
            address.shown_options,
            Connections(settings),
            Statements(settings.schema, space),
            space,
            settings.notify,
        )
        self.contents = PostgresContents(self._tables, self._make_tables)
        self._files = ContentFiles(self.contents, f"{self.url}/")
        self._is_checked = False

    def address(self, name: str) -> str:
        return self._tables.address(name)

    def name(self, address: str) -> str:
        return name_in(address)

    def log(
        self, name: str, *, readonly: bool = False, durability: Durability = "fsync"
    ) -> PostgresLog:
        if not _is_text(name):
            raise self._missing(name)
        log = PostgresLog(
            *(self._tables, name, self.contents, self.blobs(name)),
            readonly=readonly,
            durability=durability,
        )
        self._is_checked = True
        return log

    def blobs(self, name: str) -> BlobLocation:
        return BlobLocation(self._files, self.address(name), "os", f"{self.url}/{name}{BLOBS}")

    def beside(self, name: str) -> Iterator[tuple[str, int]]:
        return beside(self.contents, name)

    def create(self, name: str, blocks: Iterable[bytes]) -> None:
        if not _is_text(check_name(name, self.url)):
            raise StorageError(f"{name!r} is not the name of a session in {self.url}", name)
        if not self._has_tables():
            self._make_tables()
        made = -1
        try:
            with self._tables.connections.transaction() as connection:
                made = self._create(connection, name, blocks)
        except refusals.UniqueViolation:
            raise self._taken(name) from None
        except ConnectionLost as error:
            wanted = self._sql("SELECT log FROM @sessions WHERE name = %s")
            found = self._tables.connections.run(wanted, [name])
            if not found or found[0][0] != made:  # the number of a log is never given twice
                raise StorageError(f"{error}; the session was not made", name) from error

    def _create(self, connection: Connection[Any], name: str, blocks: Iterable[bytes]) -> int:
        row = connection.execute(
            self._sql("INSERT INTO @sessions (name, log) VALUES (%s, 0) RETURNING session"), [name]
        ).fetchone()
        assert row is not None
        log = new_log(connection, self._tables.sql, row[0], blocks)[0]
        connection.execute(
            self._sql("UPDATE @sessions SET log = %s WHERE session = %s"), [log, row[0]]
        )
        return log

    def find(self, name: str) -> StoredSession | None:
        found = self._run(FOUND, [name]) if _is_text(name) else []
        return StoredSession(*found[0]) if found else None

    def list(self, prefix: str = "") -> Iterator[StoredSession]:
        for row in self._run(LIST, between(prefix)) if _is_text(prefix) else ():
            yield StoredSession(*row)

    def ends(self, prefix: str, head: int, tail: int) -> Iterator[HeadAndTail]:
        if not _is_text(prefix) or not self._has_tables():
            return
        wanted = {**between(prefix), "head": head, "tail": tail}
        with self._tables.connections.long() as connection:
            cursor = connection.cursor(binary=True)
            for row in cursor.stream(self._sql(ENDS), wanted):
                yield HeadAndTail(StoredSession(*row[:3]), row[3] or b"", row[4] or b"")

    def likely(self, names: Collection[str], sought: Prefilter, start: bytes) -> set[str]:
        """Return the names of the sessions that may have a hit; see `LikelyNames`."""
        statement, values = schema.likely(sought)
        wanted = {"names": list(filter(_is_text, names)), "start": start, "within": START}
        return {row[0] for row in self._run(statement, {**values, **wanted})}

    def move(self, source: str, target: str) -> None:
        check_name(target, self.url)
        if not _is_text(source) or not self._has_tables():
            raise self._missing(source)
        if not _is_text(target):
            raise StorageError(f"{target!r} is not the name of a session in {self.url}", target)
        try:
            with self._tables.connections.transaction() as connection:
                self._lock(connection, source)
                connection.execute(
                    self._sql("UPDATE @sessions SET name = %s WHERE name = %s"), [target, source]
                )
                rename_all(connection, self._tables, f"{source}.", f"{target}.")
        except refusals.UniqueViolation:
            raise self._taken(target) from None

    def remove(self, name: str) -> None:
        if not _is_text(name) or not self._has_tables():
            raise self._missing(name)
        with self._tables.connections.transaction() as connection:
            session, end = self._lock(connection, name)
            execute = connection.execute
            execute(self._sql(BARRIER), end.as_end())
            execute(
                self._sql(
                    "DELETE FROM @lines l USING @logs g WHERE g.session = %s AND l.log = g.log "
                    "AND octet_length(l.line) > 0"
                ),
                [session],
            )
            execute(
                self._sql(
                    "UPDATE @logs SET replaced = now() WHERE session = %s AND replaced IS NULL"
                ),
                [session],
            )
            execute(self._sql("DELETE FROM @sessions WHERE session = %s"), [session])
            remove_all(connection, self._tables, f"{name}.")

    def _lock(self, connection: Connection[Any], name: str) -> tuple[int, HeldLog]:
        """Hold a session for a transaction; return its number, and its log in force.

        Raises:
            SessionNotFoundError: there is none of this name.
            SessionBusyError: another writer holds it.
        """
        wanted = self._sql("SELECT session FROM @sessions WHERE name = %s")
        row = connection.execute(wanted, [name]).fetchone()
        if row is None:
            raise self._missing(name)
        self._wait_for(connection, name, row[0])
        state = connection.execute(self._sql(STATE), {"name": name, "session": row[0]}).fetchone()
        if state is None:
            raise self._missing(name)
        return row[0], HeldLog(*state)

    def _wait_for(self, connection: Connection[Any], name: str, session: int) -> None:
        """Wait for the lock of a session; not for one that is kept until a session is closed.

        Raises:
            SessionBusyError: another writer holds it.
        """
        key = [self._tables.space, key_of(session)]
        who = ""
        for wait in _WAITS:
            connection.execute(b"SET LOCAL lock_timeout = %d" % wait)
            connection.execute(b"SAVEPOINT waiting")
            try:
                connection.execute(b"SELECT pg_advisory_xact_lock(%s, %s)", key)
                return
            except refusals.LockNotAvailable:
                connection.execute(b"ROLLBACK TO waiting")
            wanted = [key[0], key[1] & 0xFFFFFFFF]
            held = connection.execute(self._sql(HOLDERS), wanted).fetchall()
            who, is_kept = holder(held)
            if is_kept:
                break
        raise busy(self.address(name), who)

    def close(self) -> None:
        self._tables.connections.close()

    def _missing(self, name: str) -> SessionNotFoundError:
        return SessionNotFoundError(no_session(name, self._tables.where), self.address(name))

    def _taken(self, name: str) -> SessionExistsError:
        path = self.address(name)
        return SessionExistsError(f"{path} is there already; choose another name", path)

    def _sql(self, text: str) -> bytes:
        return self._tables.sql(text)

    def _run(self, text: str, values: Any) -> Sequence[Any]:
        if not self._has_tables():
            return []
        return self._tables.connections.run(self._sql(text), values, slow=True)

    def _has_tables(self) -> bool:
        """Whether the tables are there, in a version that this package knows."""
        if self._is_checked:
            return True
        try:
            found = self._tables.connections.run(self._sql("SELECT number FROM @version"))
        except SchemaMissing:
            return False
        if not found or found[0][0] < NEWEST:
            return False
        check_version(found[0][0], self.url)
        self._is_checked = True
        return True

    def _make_tables(self) -> None:
        """Bring the tables to the newest version, once, whoever else does so at the moment.

        Raises:
            StorageError: the user may not make them, or the database has another encoding.
        """
        with self._tables.connections.transaction() as connection:
            execute = connection.execute
            encoding = connection.info.parameter_status("server_encoding")
            if encoding != "UTF8":
                raise StorageError(
                    f"{self.url} has the encoding {encoding}; make one with the encoding UTF8",
                    self.url,
                )
            execute(b"SELECT pg_advisory_xact_lock(%s, 0)", [self._tables.space])
            if execute(b"SELECT to_regnamespace(%s)", [self._schema]).fetchone() == (None,):
                execute(b"CREATE SCHEMA " + self._schema.encode())
            known = execute(b"SELECT to_regclass(%s)", [f"{self._schema}.version"]).fetchone()
            version = 0
            if known is not None and known[0] is not None:
                found = execute(self._sql("SELECT number FROM @version")).fetchone()
                version = 0 if found is None else found[0]
            for step in STEPS[version:]:
                execute(self._sql(step))
            if version < NEWEST:
                execute(self._sql("DELETE FROM @version"))
                execute(self._sql("INSERT INTO @version VALUES (%s)"), [NEWEST])
        self._has_tables()


_WAITS: Final = (250, 5000)
"""Milliseconds to wait for a writer before a session is moved or removed: until a look whether it
keeps the session, and then."""


def _is_text(name: str) -> bool:
    """Whether a database can have a name."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in name
