"""The lock of a session in PostgreSQL, as this process holds it.

It is an advisory lock of a transaction that stays open on a connection of its own. It ends with the
transaction, so also with the process and with the connection.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

from sessiontree.errors import SessionBusyError
from sessiontree.storage.lock import OWNER_GRACE_SECONDS, ThreadLock
from sessiontree.storage.place import missing_library
from sessiontree.storage.postgres.connections import (
    LOCK_SECONDS,
    PATIENCE_SECONDS,
    ServerConnection,
    is_alive,
    owner_name,
)
from sessiontree.storage.postgres.schema import HOLD, HOLDERS, Tables, key_of

with missing_library("postgres"):
    import psycopg
    from psycopg import errors as refusals
    from psycopg import sql


_FIRST_WAIT: Final = 250
_WAIT: Final = 1000 * LOCK_SECONDS
"""Milliseconds to wait for a lock: until a look whether another keeps it, and then."""


class HeldLog(NamedTuple):
    """The log of a session in force, as its holder knows it."""

    log: int  # its number
    size: int  # its end
    last: str | None  # the uuid of its last row, if that has one

    def as_end(self) -> dict[str, int | str | None]:
        """The values for a statement that needs the log to end there."""
        return {"log": self.log, "at": self.size, "last": self.last}


class SessionLock:
    """What the logs of a session that were opened beside each other share.

    Attributes:
        threads: keeps the threads of this process apart.
        written: where the last write by any of them ended.
        held: the log in force, while the session is held; None: there is none.
        kept: whether the session is held until the log is closed.
    """

    def __init__(self, tables: Tables, name: str) -> None:
        self._tables = tables
        self._connections = tables.connections
        self._session = name
        self._name = tables.address(name)
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self.threads = ThreadLock(self._name)
        self.written = 0
        self.held: HeldLog | None = None
        self.kept = False
        self._holder: ServerConnection | None = None

    def check_process(self) -> None:
        """Start anew in a forked child: the lock is its parent's."""
        if self._process != os.getpid():
            self._connections.check_process()
            _PARENTS.append(self._holder)
            self._start()

    @property
    def depth(self) -> int:
        """How many blocks of the thread that is `alone` hold the session."""
        return self.threads.depth

    @property
    def is_held(self) -> bool:
        """Whether this process holds the session, as far as it knows."""
        return self._holder is not None

    def is_alive(self) -> bool:
        """Whether the connection of the lock is not known to be closed."""
        return self._holder is not None and is_alive(self._holder)

    def acquire(self, session: int, *, exclusive: bool = False) -> None:
        """Hold the session of this number, and look at its log.

        Raises:
            SessionBusyError: another writer keeps it, or has held it for too long.
            StorageError: the server cannot be reached.
        """
        self.let_go()
        tables = self._tables
        values = {
            b"owner": sql.Literal(owner_name(exclusive=exclusive)).as_bytes(None),
            b"name": sql.Literal(self._session).as_bytes(None),
            b"session": b"%d" % session,
            b"space": b"%d" % tables.space,
            b"key": b"%d" % key_of(session),
        }
        started = time.monotonic()
        wait = _FIRST_WAIT
        while not self._connections.again(partial(self._try, values, wait)):
            self.check_patience(session, started)
            wait = _WAIT  # in the server's queue, in which nobody overtakes

    def _try(self, values: dict[bytes, bytes], wait: int) -> bool:
        """Try for some milliseconds to hold the session; whether that succeeded."""
        statement = self._tables.sql(HOLD) % {**values, b"wait": b"%d" % wait}
        connection = self._connections.take_held()
        try:
            with self._connections.errors(connection):
                cursor = connection.execute(statement)
                while cursor.nextset():
                    pass
                row = cursor.fetchone()
        except BaseException as error:
            self._connections.give_back_held(connection)
            if isinstance(error.__cause__, refusals.LockNotAvailable):
                return False
            raise
        self.held = None if row is None else HeldLog(*row)
        self._holder = connection
        return True

    def check_patience(self, session: int, started: float) -> None:
        """Check that no other writer keeps the session, or holds it since long before.

        Raises:
            SessionBusyError: one does.
        """
        waited = time.monotonic() - started
        if waited < OWNER_GRACE_SECONDS:
            return
        tables = self._tables
        wanted = [tables.space, key_of(session) & 0xFFFFFFFF]
        who, is_kept = holder(self._connections.run(tables.sql(HOLDERS), wanted))
        if is_kept:
            raise busy(self._name, who)
        if waited > PATIENCE_SECONDS:
            raise SessionBusyError(
                f"{self._name}: {who or 'another writer'} has held it for "
                f"{PATIENCE_SECONDS:.0f} s; look for a process that hangs",
                self._name,
            )

    def let_go(self) -> None:
        """Let others write."""
        holder, self._holder, self.held = self._holder, None, None
        if holder is None:
            return
        try:
            with contextlib.suppress(psycopg.Error):
                if not holder.closed:
                    holder.execute(b"COMMIT")
        finally:
            self._connections.give_back_held(holder)

    def let_go_if_free(self) -> None:
        """Let others write, unless a block holds the session, or it is kept."""
        if self._holder is not None and not self.kept and not self.depth:
            self.let_go()

    def __del__(self) -> None:
        """Let go of the lock of a session that was dropped without `close`."""
        if getattr(self, "_holder", None) is not None:
            with contextlib.suppress(Exception):  # at the end of the process all may be gone
                self.check_process()
                self.let_go()


_PARENTS: Final[list[object]] = []
"""Connections of a parent process, kept so that nothing closes them here."""


def holder(found: Sequence[Sequence[Any]]) -> tuple[str, bool]:
    """Who holds a session, given the rows of `HOLDERS`, and whether until it is closed.

    The name is empty if nobody holds it.
    """
    who = next((_owner(*row) for row in found), "")
    return who, bool(who) and " exclusive " in (found[0][0] or "")


def busy(name: str, who: str) -> SessionBusyError:
    """The error for a session that another writer holds."""
    return SessionBusyError(
        f"{name} is held by {who or 'another writer'}; close that session or end that process; "
        "reading is possible meanwhile",
        name,
    )


def _owner(name: str | None, user: str | None, host: str | None, since: datetime | None) -> str:
    """Who has a connection, in words; a user without rights sees the name alone."""
    who = (name or "a connection without a name").removeprefix("sessiontree ")
    about = [f"user {user}"] if user else []
    if since is not None:
        about += [f"from {host or 'the same machine'}", f"since {since:%Y-%m-%d %H:%M}"]
    return who.removeprefix("exclusive ") + (f" ({', '.join(about)})" if about else "")
