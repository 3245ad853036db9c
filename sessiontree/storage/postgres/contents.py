"""The contents of a place in PostgreSQL: each is a row, and chunks of a megabyte."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, Final

from sessiontree.storage.place import Content, missing_library
from sessiontree.storage.postgres.connections import NoTables
from sessiontree.storage.postgres.schema import Tables, between

with missing_library("postgres"):
    from psycopg import errors as refusals

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import Connection

_CHUNK: Final = 1024 * 1024

_READ: Final = f"""
    SELECT c.size, k.number, substring(k.bytes
        FROM greatest(%(start)s - k.number::bigint * {_CHUNK}, 0)::int + 1
        FOR greatest(%(stop)s - greatest(k.number::bigint * {_CHUNK}, %(start)s), 0)::int)
    FROM @contents c LEFT JOIN @chunks k ON k.content = c.content
        AND k.number BETWEEN %(start)s / {_CHUNK} AND (%(stop)s - 1) / {_CHUNK}
    WHERE c.key = %(key)s ORDER BY k.number
"""

_LOCKED: Final = "SELECT content FROM @contents WHERE key = %s FOR UPDATE"


class PostgresContents:
    """Contents in a database; see `Contents`.

    Args:
        tables: the tables.
        make: makes the tables.
    """

    forks: Final = True

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
        except NoTables:
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

    def look(self, key: str) -> Content | None:
        text = "SELECT size, extract(epoch FROM written)::float8 FROM @contents WHERE key = %s"
        rows = self._run(text, [key])
        return Content(*rows[0]) if rows else None

    def _run(self, text: str, params: Any) -> list[Any]:
        try:
            return self._tables.connections.run(self._tables.sql(text), params)
        except NoTables:
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
    old = execute(sql(_LOCKED), [key]).fetchone()
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
