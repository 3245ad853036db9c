"""A run of bytes as the rows of a log in PostgreSQL: a row a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from sessiontree.core.codec import head
from sessiontree.core.damage import ignore
from sessiontree.storage.postgres.schema import Statements

if TYPE_CHECKING:
    from psycopg import Connection

_PIECE: Final = 64 * 1024 * 1024
"""A longer line is several rows, since a row has at most a gigabyte."""

_LONGEST_HINT: Final = 500
"""A longer uuid, parent or lane is in no column: an index has no room for it."""

Row = tuple[int, bytes, str | None, str | None, str | None]
"""The offset of a line, the line, its uuid, its parent and its lane."""


def rows_in(block: bytes, offset: int) -> list[Row]:
    """The rows of a block, which begins at an offset."""
    if 1 < len(block) <= _PIECE and block.find(b"\n") == len(block) - 1:
        return [_row(block, offset)]
    return list(rows_of([block], offset))


def rows_of(blocks: Iterable[bytes], offset: int = 0) -> Iterator[Row]:
    """The rows of a run of bytes, which begins at an offset."""
    rest: list[bytes] = []
    for block in blocks:
        start = 0
        while (end := block.find(b"\n", start) + 1) > 0:
            line = block[start:end]
            if rest:
                line = b"".join([*rest, line])
                rest = []
            yield from _rows_of_line(line, offset)
            offset += len(line)
            start = end
        if start < len(block):
            rest.append(block[start:])
    if rest:
        yield from _rows_of_line(b"".join(rest), offset)


def _rows_of_line(line: bytes, offset: int) -> Iterator[Row]:
    if len(line) <= _PIECE:
        yield _row(line, offset)
        return
    whole = _row(line, offset)
    yield offset, line[:_PIECE], *whole[2:]
    for start in range(_PIECE, len(line), _PIECE):
        yield offset + start, line[start : start + _PIECE], None, None, None


def _row(line: bytes, offset: int) -> Row:
    found = head(line.rstrip(b"\n"), offset, ignore) if len(line) > 1 else None
    if found is None:
        return offset, line, None, None, None
    return offset, line, _hint(found.uuid), _hint(found.parent_uuid), _hint(found.lane)


def _hint(text: object) -> str | None:
    """A text that a column can have."""
    if not isinstance(text, str) or len(text) > _LONGEST_HINT or "\0" in text:
        return None
    return text if text.isascii() or _is_unicode(text) else None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def new_log(
    connection: Connection[Any], sql: Statements, session: int, blocks: Iterable[bytes]
) -> tuple[int, int, str | None]:
    """Make a log with this content; return its number, its end and the uuid of its last row."""
    made = connection.execute(
        sql("INSERT INTO @logs (session) VALUES (%s) RETURNING log"), [session]
    ).fetchone()
    assert made is not None
    end, last = 0, None
    copying = "COPY @lines (log, at, line, uuid, parent, lane) FROM STDIN (FORMAT BINARY)"
    with connection.cursor().copy(sql(copying)) as copied:
        copied.set_types(["int8", "int8", "bytea", "text", "text", "text"])
        for row in rows_of(blocks):
            copied.write_row((made[0], *row))
            end, last = row[0] + len(row[1]), row[2]
    return made[0], end, last
