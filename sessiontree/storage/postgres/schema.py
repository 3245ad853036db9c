"""The tables, the statements, rows as bytes, and the search on the server.

A session is a row of `sessions`. Its log is rows of `lines`: a row a line, with the offset of its
first byte. A rewrite makes another log. The log that was replaced gets a **barrier** at its end: a
row without bytes, so that nothing can be appended there any more. Its lines go a day later.

Statements are texts in which `@` is the schema, and `&space` and `&followers` the numbers that set
apart its advisory locks. Those that search give every line that has one of some byte strings, and
may give more: who asks for them looks at the bytes again. A row without an LF at its end is given
too: a line may go on in the next row.

Invariants: the rows of a log are its bytes without a gap; two rows never have the same offset, so
that an insert at the end is a compare-and-swap; the columns beside `line` are hints for searches
and never decide what is stored, but for one: a row is appended only behind one with the uuid that
the writer knows, since a standby that took over may lack rows, and have others of the same length
in their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sessiontree.core.codec import head
from sessiontree.core.damage import ignore
from sessiontree.errors import NewerFormatError, StorageError
from sessiontree.storage.place import address_of
from sessiontree.text.pattern import Prefilter

if TYPE_CHECKING:
    from psycopg import Connection

    from sessiontree.storage.postgres.connections import Connections


NEWEST: Final = 1
"""The version of the tables that this package reads and writes."""

STEPS: Final[tuple[str, ...]] = (
    """
    CREATE TABLE @version (number integer NOT NULL);
    CREATE TABLE @sessions (
        name text COLLATE "C" PRIMARY KEY,
        session bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
        log bigint NOT NULL,
        made timestamptz NOT NULL DEFAULT now()
    );
    CREATE TABLE @logs (
        log bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        session bigint,
        replaced timestamptz
    );
    CREATE INDEX ON @logs (session);
    CREATE INDEX ON @logs (replaced) WHERE replaced IS NOT NULL;
    CREATE TABLE @lines (
        log bigint NOT NULL,
        at bigint NOT NULL,
        line bytea NOT NULL,
        uuid text COLLATE "C",
        parent text COLLATE "C",
        lane text COLLATE "C",
        written timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (log, at)
    );
    CREATE INDEX ON @lines (log, uuid, at) WHERE uuid IS NOT NULL;
    CREATE TABLE @contents (
        key text COLLATE "C" PRIMARY KEY,
        content bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
        size bigint NOT NULL,
        written timestamptz NOT NULL DEFAULT now()
    );
    CREATE TABLE @chunks (
        content bigint NOT NULL,
        number integer NOT NULL,
        bytes bytea NOT NULL,
        PRIMARY KEY (content, number)
    );
    ALTER TABLE @chunks ALTER COLUMN bytes SET STORAGE EXTERNAL;
    """,
)
"""Each makes the tables of one version from those of the version before."""


class Statements:
    """Makes statements for the tables in a schema.

    Args:
        schema: the name of the schema.
        space: sets its advisory locks apart from those of others.
    """

    def __init__(self, schema: str, space: int) -> None:
        self._stand_ins = {  # the name comes last: it may have the others in it
            "&space": str(space),
            "&followers": str(space ^ 1),
            "@": f"{identifier(schema)}.",
        }
        self._made: dict[str, bytes] = {}

    def __call__(self, text: str) -> bytes:
        """The statement of a text."""
        made = self._made.get(text)
        if made is None:
            whole = text
            for stand_in, value in self._stand_ins.items():
                whole = whole.replace(stand_in, value)
            made = self._made[text] = whole.encode()
        return made


def identifier(schema: str) -> str:
    """The name of a schema in a statement, without a `%`, which begins a parameter."""
    if "%" not in schema:
        return f'"{schema}"'
    escaped = schema.replace("\\", "\\\\").replace("%", "\\0025")
    return f'U&"{escaped}"'


class Tables(NamedTuple):
    """The tables of a place."""

    url: str  # the address of the place, without a password and options
    options: tuple[tuple[str, str], ...]  # the options of the address
    connections: Connections  # the connections to its server
    sql: Statements  # makes statements for its tables
    space: int  # sets its advisory locks apart from those of others
    notify: bool  # whether the server wakes followers

    @property
    def where(self) -> str:
        """The address of the place and the schema, for a message."""
        return f"{self.url}, schema {self.connections.settings.schema}"

    def address(self, name: str) -> str:
        """The address of a session."""
        return address_of(self.url, name, self.options)

    @property
    def followers(self) -> int:
        """Sets the locks that followers share apart from those of writers."""
        return self.space ^ 1

    def channel(self, session: int) -> str:
        """The channel on which the followers of a session are woken."""
        return f"sessiontree_{self.space}_{key_of(session)}"


def key_of(session: int) -> int:
    """The number of a session's advisory lock; sessions four billion apart share one."""
    return (session & 0xFFFFFFFF) - ((session & 0x80000000) << 1)


def check_version(found: int, url: str) -> None:
    """Check that this package knows the version of the tables.

    Raises:
        NewerFormatError: they are newer.
        StorageError: they are older, and were not made anew yet.
    """
    if found > NEWEST:
        raise NewerFormatError(
            f"{url} has tables of version {found}, and this sessiontree knows {NEWEST}; "
            "update sessiontree",
            url,
        )
    if found < NEWEST:
        raise StorageError(
            f"{url} has tables of version {found}; create a session there to bring them to "
            f"version {NEWEST}",
            url,
        )


def _last(log: str) -> str:
    """A join with the end of a log, and with the uuid of its last row, as `f`."""
    return f"""LEFT JOIN LATERAL (SELECT e.at + octet_length(e.line) AS size, e.uuid
        FROM @lines e WHERE e.log = {log} AND e.line <> '' ORDER BY e.at DESC LIMIT 1) f ON true"""


def _ends_there(log: str) -> str:
    """Whether a log ends at an offset with a row of this uuid, or is empty, as the offset says."""
    return f"""coalesce((SELECT e.at + octet_length(e.line) = %(at)s
            AND e.uuid IS NOT DISTINCT FROM %(last)s
        FROM @lines e WHERE e.log = {log} AND e.line <> '' ORDER BY e.at DESC LIMIT 1),
        %(at)s = 0)"""


def _range(log: str, start: str, stop: str) -> str:
    """The bytes of a log between two offsets."""
    return f"""(SELECT string_agg(substring(l.line
        FROM greatest({start} - l.at, 0)::int + 1
        FOR greatest(least({stop}, l.at + octet_length(l.line)) - greatest(l.at, {start}), 0)::int
        ), ''::bytea ORDER BY l.at)
        FROM @lines l WHERE l.log = {log} AND l.at < {stop}
        AND l.at >= (SELECT max(p.at) FROM @lines p WHERE p.log = {log} AND p.at <= {start}))"""


_TAIL: Final = "greatest(0, (f.size - 65536) / 65536 * 65536)"
"""Where the end of a log begins that is read with its start: at the start of a page."""

OPEN: Final = f"""
    SELECT (SELECT number FROM @version), s.session, s.log,
        {_range("s.log", "0", "4096")}, {_TAIL}, {_range("s.log", _TAIL, "f.size")}, f.uuid
    FROM @sessions s {_last("s.log")} WHERE s.name = %s
"""
"""A session by its name, with the start and the end of its log."""

STATE: Final = f"""
    SELECT s.log, coalesce(f.size, 0), f.uuid
    FROM @sessions s {_last("s.log")} WHERE s.name = %(name)s AND s.session = %(session)s
"""
"""The log of a session in force, its end, and the uuid of its last row."""

GROWN: Final = f"""
    SELECT coalesce(f.size, 0), f.uuid, (SELECT b.uuid FROM @lines b
            WHERE b.log = %(log)s AND b.at < %(known)s ORDER BY b.at DESC LIMIT 1),
        CASE WHEN f.size - %(known)s BETWEEN 1 AND 65536
        THEN {_range("%(log)s", "%(known)s", "f.size")} END
    FROM @logs g {_last("g.log")} WHERE g.log = %(log)s
"""
"""The end of a log, the uuids of its last row and of the one before an offset, and what is behind
that offset if it is little."""

READ: Final = f"SELECT {_range('%(log)s', '%(start)s::bigint', '%(stop)s::bigint')}"

LINES: Final = "SELECT at, line FROM @lines WHERE log = %s AND at = ANY(%s) ORDER BY at"

FIND: Final = """
    SELECT max(at) FROM @lines WHERE log = %(log)s AND uuid = %(uuid)s AND at < %(end)s
"""

_ALLOWED: Final = """
    pg_try_advisory_xact_lock_shared(&space, %(key)s) <> %(held)s
    AND %(ends)s
    AND %(sync)s
"""
_ENDS_IN_FORCE: Final = f"""(SELECT {_ends_there("s.log")} FROM @sessions s
    WHERE s.name = %(name)s AND s.log = %(log)s)"""

_TOLD: Final = """
    RETURNING CASE WHEN NOT pg_try_advisory_xact_lock(&followers, %(key)s)
        THEN pg_notify('sessiontree_&space_' || %(key)s, %(log)s || ' ' || %(at)s) END
"""

_SYNC: Final = """(current_setting('synchronous_commit') <> 'off'
    OR set_config('synchronous_commit', 'on', true) = 'on')"""
_NO_SYNC: Final = "set_config('synchronous_commit', 'off', true) = 'off'"

LINE_TYPES: Final = {
    "log": ("bigint", 20),
    "at": ("bigint", 20),
    "line": ("bytea", 17),
    "uuid": ("text", 25),
    "parent": ("text", 25),
    "lane": ("text", 25),
    "name": ("text", 25),
    "key": ("integer", 23),
    "held": ("boolean", 16),
    "last": ("text", 25),
}
"""The parameters of a statement that appends one line, in order: their types, and the numbers of
those, which no server changes."""


def append_statement(*, many: bool, syncs: bool, tells: bool, looks: bool = True) -> str:
    """The statement that appends one line, or many, if the log ends there and nobody holds it.

    The snapshot may be older than the lock. Then the primary key refuses a row at an offset at
    which another writer, or a rewrite, has put one. The parameters of the one for a line are
    numbered, as the server has them.

    Args:
        many: whether it is for many lines.
        syncs: whether it returns after the server has synced.
        tells: whether it wakes followers.
        looks: whether it looks if the session still has its name, which takes a tenth of the time.
    """
    text = "INSERT INTO @lines (log, at, line, uuid, parent, lane) SELECT "
    if many:
        text += f"""%(log)s, r.* FROM unnest(%(offsets)b::bigint[], %(lines)b::bytea[],
            %(uuids)s::text[], %(parents)s::text[], %(lanes)s::text[]) r
            WHERE (SELECT {_ALLOWED})"""
    else:
        text += f"%(log)s, %(at)s, %(line)s, %(uuid)s, %(parent)s, %(lane)s WHERE {_ALLOWED}"
    text += _TOLD if tells else "RETURNING NULL"
    text = text.replace("%(ends)s", _ENDS_IN_FORCE if looks else _ends_there("%(log)s"))
    text = text.replace("%(sync)s", _SYNC if syncs else _NO_SYNC)
    for number, (name, (type, _)) in enumerate(LINE_TYPES.items(), 1):
        text = text.replace(f"%({name})s", f"%({name})s::{type}" if many else f"${number}")
    return text


HOLD: Final = f"""
    BEGIN;
    SET LOCAL lock_timeout = %(wait)s;
    SET LOCAL idle_in_transaction_session_timeout = 0;
    SELECT set_config('application_name', %(owner)s, true);
    SELECT pg_advisory_xact_lock(%(space)s, %(key)s);
    SELECT s.log, coalesce(f.size, 0), f.uuid
    FROM @sessions s {_last("s.log")} WHERE s.name = %(name)s AND s.session = %(session)s
"""
"""Takes the lock of a session for a transaction, and then looks at the log: each of these
statements has a snapshot of its own. Sent as one text, with the values in it."""

IS_FREE: Final = "SELECT pg_try_advisory_xact_lock_shared(%s, %s)"

HOLDERS: Final = """
    SELECT a.application_name, a.usename, host(a.client_addr), a.backend_start
    FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.locktype = 'advisory' AND l.granted AND l.mode = 'ExclusiveLock' AND l.objsubid = 2
        AND l.classid = %s::oid AND l.objid = %s::oid
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
"""Who holds the lock of a session."""

BARRIER: Final = f"""
    INSERT INTO @lines (log, at, line) SELECT %(log)s, %(at)s, ''
    WHERE (SELECT {_ends_there("g.log")} FROM @logs g WHERE g.log = %(log)s)
"""

PURGE: Final = """
    WITH old AS (
        SELECT log FROM @logs WHERE replaced < now() - interval '1 day'
        ORDER BY log LIMIT 10 FOR UPDATE SKIP LOCKED
    ), gone AS (DELETE FROM @lines l USING old WHERE l.log = old.log)
    DELETE FROM @logs g USING old WHERE g.log = old.log
"""
"""Removes what is left of logs that were replaced over a day ago."""

_FOUND: Final = """
    FROM @sessions s LEFT JOIN LATERAL (
        SELECT e.at + octet_length(e.line) AS size, e.written FROM @lines e
        WHERE e.log = s.log ORDER BY e.at DESC LIMIT 1
    ) f ON true
"""
_FACTS: Final = (
    "s.name, coalesce(f.size, 0), extract(epoch FROM coalesce(f.written, s.made))::float8"
)

FOUND: Final = f"SELECT {_FACTS} {_FOUND} WHERE s.name = %s"

LIST: Final = f"SELECT {_FACTS} {_FOUND} WHERE s.name >= %(start)s AND s.name < %(stop)s"

ENDS: Final = f"""
    SELECT {_FACTS}, {_range("s.log", "0", "%(head)s::bigint")},
        {_range("s.log", "greatest(0, f.size - %(tail)s::bigint)", "f.size")}
    {_FOUND} WHERE s.name >= %(start)s AND s.name < %(stop)s
"""


def between(prefix: str) -> dict[str, str]:
    """The bounds of all texts that begin with a prefix, in the order of their bytes in UTF-8."""
    return {"start": prefix, "stop": prefix + "\U0010ffff"}


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


_ESCAPE: Final = b"\\u"
"""Begins the unusual spellings of characters, which few lines have."""

_WHOLE: Final = ", LATERAL (SELECT l.line || ''::bytea AS line OFFSET 0) whole"
"""The line, which the server gets and decompresses once and not for each byte string."""

_FOLDED: Final = """, LATERAL (SELECT lower(encode(whole.line, 'escape') COLLATE "C") AS line
    OFFSET 0) searched"""
"""The line as text with ASCII letters in lower case; bytes beyond ASCII are escaped."""


def _found_in(sought: Prefilter) -> tuple[str, dict[str, bytes]]:
    """The rest of a FROM clause and a WHERE clause about `@lines l`, and their values."""
    names = {f"needle{number}": needle for number, needle in enumerate(sought.needles)}
    from_clause = _WHOLE + (_FOLDED if sought.folds else "")
    usual = [name for name, needle in names.items() if not needle.startswith(_ESCAPE)]
    unusual = [name for name in names if name not in usual]
    any_of = [_has(name, sought) for name in usual]
    if unusual:
        names["escape"] = _ESCAPE
        found = " OR ".join(_has(name, sought) for name in unusual)
        any_of.append(f"({_has('escape', sought)} AND ({found}))")
    where = f"""octet_length(whole.line) > 0
        AND (substring(whole.line FROM octet_length(whole.line)) <> '\\x0a'::bytea
            OR {" OR ".join(any_of)})"""
    return f"{from_clause} WHERE {where}", names


def _has(name: str, sought: Prefilter) -> str:
    if sought.folds:
        return f"position(encode(%({name})b::bytea, 'escape') IN searched.line) > 0"
    return f"position(%({name})b::bytea IN whole.line) > 0"


def offsets_with(sought: Prefilter) -> tuple[str, dict[str, bytes]]:
    """The statement for the offsets and sizes of such lines of a log, and values for it."""
    clauses, values = _found_in(sought)
    columns = "l.at, octet_length(l.line)"
    return f"SELECT {columns} FROM @lines l{clauses} AND l.log = %(log)s ORDER BY l.at", values


def likely(sought: Prefilter) -> tuple[str, dict[str, bytes]]:
    """The statement for the sessions that have such a line, and values for it."""
    clauses, values = _found_in(sought)
    statement = f"""
        SELECT s.name FROM @sessions s, LATERAL (
            SELECT FROM @lines l{clauses} AND l.log = s.log LIMIT 1) found
        WHERE s.name = ANY(%(names)s)
        UNION SELECT s.name FROM @sessions s, @lines l
        WHERE s.name = ANY(%(names)s) AND l.log = s.log AND l.at < %(within)s
            AND position(%(start)b::bytea IN l.line) > 0
    """
    return statement, values
