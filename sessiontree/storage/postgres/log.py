"""A log in PostgreSQL, and the pages of it that were read.

See `Log`, and `schema` for its rows. An append is one statement in one round trip. It inserts rows
where the log ends at the given offset and nobody holds the session; the primary key refuses them
where another writer was faster. To hold a session is an advisory lock of a transaction on a
connection of its own. So what keeps writers apart is the primary key, and the lock only makes
others wait.

If the connection breaks during an append, its outcome is unknown. Then the log reads what is at the
offset: its own bytes, which are kept; other bytes, so that it `Moved`; or nothing, so that it
appends again at the same offset, where the rows can be only once. Where it cannot read either, the
append fails with a `WriteFailedError`, and the log writes no more.

Bytes that were read are kept as pages of one size, so that none is asked for twice. A read that
misses a page beside one that is there goes on in the same direction, so it fetches more pages, and
twice as many each time: a walk backwards, or a scan, of many megabytes takes few requests.

Invariants: bytes that an `append` returned for are committed, and the server has synced them unless
the durability is `os`; bytes of a log never change, so a page stays true; only the last page may be
short, and grows.
"""

from __future__ import annotations

import contextlib
import copy
import os
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from sessiontree.errors import (
    FileReplacedError,
    SessionNotFoundError,
    StorageError,
    WriteFailedError,
)
from sessiontree.storage.contents import ContentParts, Contents
from sessiontree.storage.fs import POLL_MILLISECONDS, Durability
from sessiontree.storage.lines import Read
from sessiontree.storage.log import BlobLocation, Moved, check_allowed, closed_error
from sessiontree.storage.place import missing_library, no_session
from sessiontree.storage.postgres import schema
from sessiontree.storage.postgres.connections import ConnectionLost, SchemaMissing, pauses
from sessiontree.storage.postgres.lock import HeldLog, SessionLock
from sessiontree.storage.postgres.schema import (
    BARRIER,
    FIND,
    GROWN,
    IS_FREE,
    LINES,
    OPEN,
    PURGE,
    READ,
    STATE,
    Row,
    Tables,
    append_statement,
    check_version,
    key_of,
    new_log,
    rows_in,
)
from sessiontree.storage.sidecars import keep

if TYPE_CHECKING:
    from psycopg import Connection

    from sessiontree.text.pattern import Prefilter


PAGE: Final = 64 * 1024
_KEPT: Final = 128
_FIRST_AHEAD: Final = 7
_MAX_AHEAD: Final = 63
"""Pages that are fetched beyond the one that is asked for: at first, and at most."""


class LogPages:
    """The pages of one log.

    Args:
        fetch: reads the log itself: all bytes from an offset to another, both before its end.
    """

    def __init__(self, fetch: Read) -> None:
        self._fetch = fetch
        self._pages: dict[int, bytes] = {}
        self._ahead = _FIRST_AHEAD
        self._lock = threading.Lock()
        self.end = 0  # the end of the log, as last seen

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`, fewer only at the end."""
        with self._lock:
            return self._read(offset, size)

    def _read(self, offset: int, size: int) -> bytes:
        stop = min(offset + size, self.end)
        if offset >= stop:
            return b""
        first, last = offset // PAGE, (stop - 1) // PAGE
        if first == last:  # nearly every read
            page = self._pages.get(first, b"")
            start = offset - first * PAGE
            if len(page) >= stop - first * PAGE:
                return page[start : start + stop - offset]
        if last - first >= _MAX_AHEAD:
            return self._straight(offset, stop)
        found = [self._page(number, last, stop) for number in range(first, last + 1)]
        start = offset - first * PAGE
        return b"".join(found)[start : start + stop - offset]

    def _straight(self, offset: int, stop: int) -> bytes:
        """Read what is more than the pages that are kept."""
        step = (_MAX_AHEAD + 1) * PAGE
        return b"".join(
            self._fetch(start, min(step, stop - start)) for start in range(offset, stop, step)
        )

    def _page(self, number: int, last: int, stop: int) -> bytes:
        """A page, with at least its bytes before `stop`; `last` is the last one that is wanted."""
        page = self._pages.pop(number, b"")
        if len(page) >= min(stop - number * PAGE, PAGE):
            self._pages[number] = page  # behind those that were used earlier
            return page
        while last > number and self._is_whole(last):
            last -= 1
        first = number
        if self._is_whole(last + 1):
            first = max(0, number - self._more())
        elif number == 0 or self._is_whole(number - 1):
            last += self._more()
        else:
            self._ahead = _FIRST_AHEAD
        while first < number and self._is_whole(first):
            first += 1
        self._load(first, last)
        return self._pages[number]

    def _is_whole(self, number: int) -> bool:
        found = len(self._pages.get(number, b""))
        return found > 0 and found >= min(self.end - number * PAGE, PAGE)

    def _more(self) -> int:
        ahead = self._ahead
        self._ahead = min(2 * ahead + 1, _MAX_AHEAD)
        return ahead

    def _load(self, first: int, last: int) -> None:
        start, stop = first * PAGE, min((last + 1) * PAGE, self.end)
        self._add(start, self._fetch(start, stop - start))

    def begin(self, start: bytes, offset: int, block: bytes) -> None:
        """Keep the start of the log, and its bytes from the start of a page on to its end."""
        self.end = offset + len(block)
        if offset:
            self._add(0, start)
        self._add(offset, block)

    def _add(self, offset: int, block: bytes) -> None:
        """Keep bytes that were read, from the start of a page on or from the end of a known one."""
        number = offset // PAGE
        begun = offset - number * PAGE
        if begun:
            page = self._pages.get(number, b"")
            if len(page) != begun:
                skipped = PAGE - begun
                block, number, page = block[skipped:], number + 1, b""
            block = page + block
        for start in range(0, len(block), PAGE):
            self._pages.pop(number, None)
            self._pages[number] = block[start : start + PAGE]
            number += 1
        while len(self._pages) > _KEPT:
            self._pages.pop(next(iter(self._pages)), None)

    def grow(self, known: int, size: int, block: bytes | None) -> None:
        """Note that the log grew from `known` to `size`, by a block unless it was not read."""
        with self._lock:
            if block is not None and known == self.end:
                self._add(known, block)
            self.end = max(self.end, size)


with missing_library("postgres"):
    from psycopg import errors as refusals
    from psycopg import sql


_TRUSTED_SECONDS: Final = 0.1
"""How long a session is believed to have its name after a look. If it was moved meanwhile, what is
appended is in the session at its new name."""

_COMPARED: Final = 1024 * 1024
"""Bytes that are fetched at once, to be compared or searched; a line is fetched whole."""


class PostgresLog:
    """The lines of a session in a database; see `Log`.

    Args:
        tables: the tables.
        session: the name of the session.
        contents: what is kept beside the sessions of the place.
        blobs: where the blobs of the session are.
    """

    keeps_out: Final = True

    def __init__(
        self,
        tables: Tables,
        session: str,
        contents: Contents,
        blobs: BlobLocation,
        *,
        readonly: bool,
        durability: Durability,
    ) -> None:
        self._tables = tables
        self._session = session
        self._contents = contents
        self.blobs = blobs
        self.name = tables.address(session)
        self.readonly = readonly
        self.ended = ""
        self._failed = ""
        self._syncs = durability != "os"
        self._guard = SessionLock(tables, session)
        self._owns_guard = True
        self._is_open = False
        self.reopen()

    def reopen(self) -> None:
        tables = self._tables
        try:
            rows = tables.connections.run(tables.sql(OPEN), [self._session])
        except SchemaMissing:
            rows = []
        if not rows:
            raise self._missing()
        version, self._number, self._log, start, tail_at, tail, last = rows[0]
        check_version(version or 0, tables.url)
        self._key = key_of(self._number)
        self._pages = LogPages(self._fetch)
        self._pages.begin(start or b"", tail_at, tail or b"")
        self._known = HeldLog(self._log, self._pages.end, last)  # replaced as a whole
        self._ended = -1
        self._trusted = 0.0  # until when the session is believed to have its name
        self._is_open = True

    def _missing(self) -> SessionNotFoundError:
        return SessionNotFoundError(no_session(self._session, self._tables.where), self.name)

    def _vanished(self) -> SessionNotFoundError:
        return SessionNotFoundError(
            f"{self.name} was moved or removed while it was open; open it where it is now, or "
            "export from this session to a new file",
            self.name,
        )

    @property
    def written(self) -> int:
        return self._guard.written

    @property
    def identity(self) -> tuple[int, int]:
        return -3 - (self._tables.space & 0xFFFFFFFF), self._log

    @property
    def closed(self) -> bool:
        return not self._is_open

    def check_writable(self) -> None:
        check_allowed(self)
        if self._failed:
            raise WriteFailedError(self._failed, self.name)

    @property
    def parts(self) -> ContentParts:
        return ContentParts(self._contents, self._session, self.name)

    # Reading

    def read(self, offset: int, size: int) -> bytes:
        if not self._is_open:
            raise closed_error(self)
        if size > 0 and offset >= self._pages.end:
            self.size()
        return self._pages.read(offset, size)

    def _fetch(self, offset: int, size: int) -> bytes:
        tables = self._tables
        wanted = {"log": self._log, "start": offset, "stop": offset + size}
        found: bytes = tables.connections.run(tables.sql(READ), wanted)[0][0] or b""
        if len(found) != size:
            raise self._gone()
        return found

    def _gone(self) -> FileReplacedError:
        return FileReplacedError(
            f"{self.name}: the lines that this session had open were removed; open it again",
            self.name,
        )

    def size(self) -> int:
        if not self._is_open:
            raise closed_error(self)
        before = self._known
        known = before.size
        if self._guard.depth and self._guard.held == before:
            return known
        tables = self._tables
        rows = tables.connections.run(tables.sql(GROWN), {"log": self._log, "known": known})
        if not rows or rows[0][0] < known or rows[0][2] != before.last:
            raise self._gone()
        size, last, _, new = rows[0]
        self._grow(known, HeldLog(self._log, size, last), new)
        return self._pages.end

    def _grow(self, known: int, to: HeldLog, block: bytes | None) -> None:
        """Note what was read or appended, unless another thread was further already."""
        self._pages.grow(known, to.size, block)
        if to.size >= self._known.size:
            self._known = to

    def find(self, uuid: str, end: int) -> int:
        """Return the offset of the last line before `end` with this uuid; -1 if none is known."""
        tables = self._tables
        wanted = {"log": self._log, "uuid": uuid, "end": end}
        found = tables.connections.run(tables.sql(FIND), wanted)[0][0]
        return -1 if found is None else int(found)

    def lines_with(self, sought: Prefilter) -> Generator[tuple[int, bytes], None, None]:
        """Yield each line that has what is sought; see `LinesWith`."""
        tables = self._tables
        statement, values = schema.offsets_with(sought)
        found = tables.connections.run(
            tables.sql(statement), {**values, "log": self._log}, slow=True
        )
        while found:
            size, count = 0, 0
            while count < len(found) and (not count or size + found[count][1] <= _COMPARED):
                size += found[count][1]
                count += 1
            wanted = [self._log, [at for at, _ in found[:count]]]
            yield from tables.connections.run(tables.sql(LINES), wanted)
            del found[:count]

    # Writing

    def append(self, block: bytes, at: int) -> int:
        self.check_writable()
        guard = self._guard
        if at < 0:
            raise Moved
        guard.let_go_if_free()  # what an interrupted call left
        if guard.is_held and not guard.is_alive():
            self._take_again()
        if guard.depth and (at != self._known.size or guard.held != self._known):
            if guard.held is None:
                raise self._vanished()
            if guard.held.log == self._log and guard.held.size < at:
                self._hold_again()
            raise Moved
        begun = 0
        if at and at != self._ended and self.read(at - 1, 1) != b"\n":
            begun = 1
            block = b"\n" + block
        last = self._put(block, at)
        self._ended = guard.written = stop = at + len(block)
        end = HeldLog(self._log, stop, last)
        self._grow(at, end, block)
        if guard.held is not None:
            guard.held = end
        return at + begun

    def _put(self, block: bytes, at: int) -> str | None:
        """Insert the rows of a block; return the uuid of the last; raises as `append` does."""
        rows = rows_in(block, at)
        insert = self._insert_line if len(rows) == 1 else self._insert_lines
        is_unknown = False
        pausing = started = None
        while True:
            try:
                if insert(rows, at):
                    return rows[-1][2]
                if is_unknown and self._stands(block, at):
                    return rows[-1][2]
                started = started or time.monotonic()
                self._find_why(at, started)
            except refusals.UniqueViolation:
                if is_unknown and self._stands(block, at):
                    return rows[-1][2]
                self._hold_again()
                raise Moved from None
            except ConnectionLost as error:
                is_unknown = True
                if self._settled(block, at, error):
                    return rows[-1][2]
            except StorageError as error:
                if not is_unknown:
                    raise
                raise self._fail(error) from error
            pausing = pausing or pauses()
            time.sleep(next(pausing))

    def _insert_line(self, rows: list[Row], at: int) -> bool:
        """Insert a row at the end of the log; whether the log ended there, free to write."""
        tables = self._tables
        _, line, uuid, parent, lane = rows[0]
        values = [
            b"%d" % self._log,
            b"%d" % at,
            line,
            None if uuid is None else uuid.encode(),
            None if parent is None else parent.encode(),
            None if lane is None else lane.encode(),
            self._session.encode(),
            b"%d" % self._key,
            b"t" if self._guard.is_held else b"f",
            None if (last := self._known.last) is None else last.encode(),
        ]
        now = time.monotonic()
        looks = at == 0 or now > self._trusted
        appends = _APPENDS if looks else _APPENDS_IN_A_LOOP
        statement = tables.sql(appends[False, self._syncs, tables.notify])
        if not tables.connections.insert(statement, values):
            return False
        if looks:
            self._trusted = now + _TRUSTED_SECONDS
        return True

    def _insert_lines(self, rows: list[Row], at: int) -> bool:
        """Insert rows as `_insert_line` does one, all or none."""
        tables = self._tables
        names = ("offsets", "lines", "uuids", "parents", "lanes")
        values: dict[str, Any] = {
            **dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)),
            "log": self._log,
            "at": at,
            "name": self._session,
            "key": self._key,
            "held": self._guard.is_held,
            "last": self._known.last,
        }
        statement = tables.sql(_APPENDS[True, self._syncs, tables.notify])
        with tables.connections.one() as connection:
            return connection.execute(statement, values).rowcount > 0

    def _find_why(self, at: int, started: float) -> None:
        """Find why nothing was inserted, and return where it may be tried again.

        Raises:
            Moved: the log ends elsewhere.
            SessionNotFoundError: the session was moved or removed.
            SessionBusyError: another writer holds it.
            StorageError: a lock of this server keeps nobody out.
        """
        state = self._state()
        if state is None:
            raise self._vanished()
        guard = self._guard
        if state != (self._log, at, self._known.last):
            if guard.held != state:
                self._hold_again()
            raise Moved
        if guard.is_held:
            if self._is_free():
                self._take_again()
                self._check_held()
        elif not self._is_free():
            guard.check_patience(self._number, started)

    def _check_held(self) -> None:
        """Check that a lock that was just taken keeps others out.

        Raises:
            StorageError: it does not, as on servers that know these locks by name only.
        """
        if self._is_free():
            raise StorageError(
                f"{self.name}: a lock of this server keeps nobody out, so nothing is written; use "
                "PostgreSQL, whose advisory locks work",
                self.name,
            )

    def _is_free(self) -> bool:
        """Whether nobody holds the session."""
        tables = self._tables
        values = [tables.space, self._key]
        return bool(tables.connections.run(tables.sql(IS_FREE), values)[0][0])

    def _state(self) -> HeldLog | None:
        tables = self._tables
        wanted = {"name": self._session, "session": self._number}
        rows = tables.connections.run(tables.sql(STATE), wanted)
        return HeldLog(*rows[0]) if rows else None

    def _settled(self, block: bytes, at: int, error: ConnectionLost) -> bool:
        """Whether a block stands in the log, after its connection was lost."""
        try:
            return self._stands(block, at)
        except StorageError as unreadable:
            raise self._fail(error) from unreadable

    def _stands(self, block: bytes, at: int) -> bool:
        tables = self._tables
        for start in range(0, len(block), _COMPARED):
            part = block[start : start + _COMPARED]
            wanted = {"log": self._log, "start": at + start, "stop": at + start + len(part)}
            if tables.connections.run(tables.sql(READ), wanted)[0][0] != part:
                return False
        return True

    def _fail(self, error: Exception) -> WriteFailedError:
        self._failed = (
            f"writing to {self.name} failed: {error}. Whether the last entry was kept is unknown, "
            "and this session writes no more; open the session again to see"
        )
        return WriteFailedError(self._failed, self.name)

    # Holding

    def alone(self) -> contextlib.AbstractContextManager[object]:
        self._guard.check_process()
        return self._guard.threads.alone()

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        self.check_writable()
        guard = self._guard
        with self.alone():
            process = os.getpid()
            block = guard.threads.inside()
            try:
                if not guard.depth:
                    self._take()
                with block:
                    self.check_writable()  # again: another thread may have closed it
                    yield
            finally:
                block.is_over = True  # also if its own end was interrupted
                if process == os.getpid():  # in a child that was forked meanwhile it is none's
                    guard.let_go_if_free()

    def keep(self) -> None:
        guard = self._guard
        with self.alone():
            guard.acquire(self._number, exclusive=True)
            guard.kept = True

    def _take(self) -> None:
        """Hold the session for a thread that is `alone`."""
        guard = self._guard
        if not guard.kept:
            guard.acquire(self._number)
        elif not guard.is_alive():
            self._take_again()

    def _hold_again(self) -> None:
        """Take the lock again if this log holds it, as another writer appended nevertheless.

        The connection of the lock broke unnoticed. What is known of the end is then old.
        """
        if self._guard.is_held:
            self._take_again()

    def _take_again(self) -> None:
        """Hold the session again, after the connection of the lock was lost.

        Raises:
            ReadOnlyError: the session was kept, and another writer appended meanwhile.
        """
        guard = self._guard
        before = guard.held
        guard.acquire(self._number, exclusive=guard.kept)
        if not guard.kept or guard.held == before:
            return
        self.ended = (
            "the connection that kept other writers out was lost, and another writer appended; "
            "open the session again"
        )
        guard.kept = False
        guard.let_go()
        self.check_writable()

    def ends_at(self, size: int) -> bool:
        guard = self._guard
        state = guard.held if guard.depth else self._state()
        if state is None:
            raise self._vanished()
        if size == self._known.size:
            return state == self._known
        return state[:2] == (self._log, size)

    still_ends_at = ends_at

    def was_replaced(self) -> bool:
        guard = self._guard
        state = guard.held if guard.depth else self._state()
        if state is None:
            raise self._vanished()
        number: int = state.log
        return number != int(self._log)

    # Other logs of the session

    def successor(self) -> PostgresLog:
        log = copy.copy(self)
        log.reopen()
        return log

    def beside(self) -> PostgresLog:
        log = self.successor()
        log._owns_guard = False
        log.ended = ""
        return log

    def to_read(self) -> PostgresLog:
        return PostgresLog(
            *(self._tables, self._session, self._contents, self.blobs),
            readonly=True,
            durability="fsync",
        )

    def release(self) -> None:
        self._is_open = False

    def close(self) -> None:
        guard = self._guard
        with self.alone():  # wait for a thread that is writing
            if self._owns_guard:
                guard.kept = False
                guard.let_go()
            self.release()

    def changes(self, stop: threading.Event) -> Iterator[object]:
        """See `Log.changes`; the server wakes a follower, who also looks now and then."""
        seconds = POLL_MILLISECONDS / 1000
        while not stop.is_set():
            with contextlib.suppress(StorageError):
                yield from self._notices(stop, seconds)
            if stop.wait(seconds):
                return
            yield None

    def _notices(self, stop: threading.Event, seconds: float) -> Iterator[object]:
        """Yield at each notice of the server; end where it gives none."""
        tables = self._tables
        connection = tables.connections.listener() if tables.notify else None
        if connection is None:
            return
        channel = sql.Identifier(tables.channel(self._number)).as_bytes(None)
        try:
            with tables.connections.errors(connection):
                connection.execute(b"LISTEN " + channel)
                shared = b"SELECT pg_advisory_lock_shared(%s, %s)"
                connection.execute(shared, [tables.followers, self._key])
                yield None  # what was appended before this
                while not stop.is_set():
                    for _ in connection.notifies(timeout=seconds, stop_after=1):
                        pass
                    yield None
        finally:
            connection.close()

    # Rewriting

    def rewrite(self, lines: Iterator[bytes], kept_as: str = "") -> str:
        guard = self._guard
        old = guard.held or self._state()
        if old is None:
            raise self._vanished()
        if kept_as:
            self._keep_as(kept_as, old.size)
        made = self._swap(lines, old)
        if guard.depth:
            guard.held = made
        return self.parts.name(kept_as) if kept_as else ""

    def _keep_as(self, suffix: str, size: int) -> None:
        log = self.successor() if self.was_replaced() else self
        if log.size() != size:
            raise Moved

        def blocks() -> Iterator[bytes]:
            for start in range(0, size, _COMPARED):
                yield log.read(start, min(_COMPARED, size - start))

        keep(self.parts, suffix, self.name, size, blocks)

    def _swap(self, lines: Iterable[bytes], old: HeldLog) -> HeldLog:
        """Make another log and put it in force."""
        tables = self._tables
        made = HeldLog(-1, 0, None)
        try:
            with tables.connections.transaction() as connection:
                made = HeldLog(*new_log(connection, tables.sql, self._number, lines))
                self._replace(connection, old, made.log)
                connection.execute(tables.sql(PURGE))
        except (Moved, refusals.UniqueViolation):
            self._hold_again()
            raise Moved from None
        except ConnectionLost as error:
            state = self._state()  # the number of a log is never given twice
            if state is None or state.log != made.log:
                raise StorageError(f"{error}; nothing was changed", self.name) from error
        return made

    def _replace(self, connection: Connection[Any], old: HeldLog, log: int) -> None:
        execute, sql = connection.execute, self._tables.sql
        if execute(sql(BARRIER), old.as_end()).rowcount != 1:
            raise Moved
        execute(sql("UPDATE @logs SET replaced = now() WHERE log = %s"), [old.log])
        replaced = execute(
            sql("UPDATE @sessions SET log = %s WHERE name = %s AND log = %s"),
            [log, self._session, old.log],
        )
        if replaced.rowcount != 1:
            raise Moved
        if self._tables.notify:
            told = [self._tables.channel(self._number), f"{log} 0"]
            execute(b"SELECT pg_notify(%s, %s)", told)


_APPENDS: Final = {
    (many, syncs, tells): append_statement(many=many, syncs=syncs, tells=tells)
    for many in (False, True)
    for syncs in (False, True)
    for tells in (False, True)
}
_APPENDS_IN_A_LOOP: Final = {
    (False, syncs, tells): append_statement(many=False, syncs=syncs, tells=tells, looks=False)
    for syncs in (False, True)
    for tells in (False, True)
}
