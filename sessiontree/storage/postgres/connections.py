"""Connections to PostgreSQL: settings, errors, and the queue of those who wait.

All sessions of a place share a few connections, opened when needed. Each statement takes one and
gives it back. A lock of a session is a transaction that stays open on a connection of its own, so
nothing here needs the state of a connection: a pooler such as pgbouncer may give each transaction
another one of the server's.

Invariants:

- A message has no password.
- A connection that failed is never used again.
- A forked child uses none of its parent's.
- A wait for the server, or for a free connection, ends after a limit.
- The thread that has waited longest gets the next connection. One that is given back while others
  wait goes to one of them, also where the thread that gave it wants it again at once.
- The queue takes no lock, so a `__del__` may give a connection back at any moment.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from sessiontree.errors import StorageError, UsageError
from sessiontree.storage.place import Address, missing_library
from sessiontree.storage.postgres.schema import LINE_TYPES

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult


T = TypeVar("T")


class FairQueue(Generic[T]):
    """Things, and the threads that wait for them.

    Attributes:
        free: the things that nobody has. A thread that removes one there does not wait in line;
            what comes back is given.
    """

    def __init__(self, free: Iterable[T] = ()) -> None:
        self.free: Final = deque(free)
        self._waiting: deque[SimpleQueue[T]] = deque()

    def take(self, seconds: float) -> T:
        """Take a thing, in turn.

        Raises:
            Empty: there was none for this long.
        """
        if not self._waiting:
            try:
                return self.free.pop()
            except IndexError:
                pass
        turn: SimpleQueue[T] = SimpleQueue()
        self._waiting.append(turn)
        self._hand_out()  # what was given before this thread stood in line
        try:
            return turn.get(timeout=seconds)
        except Empty:
            if self._left(turn):
                raise
            return turn.get()
        except BaseException:
            if not self._left(turn):
                self.give(turn.get())
            raise

    def _left(self, turn: SimpleQueue[T]) -> bool:
        """Leave the line; whether it was not this thread's turn yet."""
        try:
            self._waiting.remove(turn)
        except ValueError:
            return False
        return True

    def give(self, thing: T) -> None:
        """Give a thing to the thread that has waited longest, or keep it for the next."""
        self.free.append(thing)
        if self._waiting:
            self._hand_out()

    def _hand_out(self) -> None:
        while self.free:
            try:
                thing = self.free.pop()
            except IndexError:
                return
            try:
                self._waiting.popleft().put(thing)
            except IndexError:
                self.free.append(thing)
                if not self._waiting:  # else a thread came that saw nothing free
                    return


with missing_library("postgres"):
    import psycopg
    from psycopg import errors as refusals
    from psycopg.generators import execute
    from psycopg.pq import ExecStatus, TransactionStatus


Params = Mapping[str, Any] | Sequence[Any] | None
R = TypeVar("R")

PATIENCE_SECONDS: Final = 60.0
"""How long to wait for a writer, or for a connection."""

RECONNECT_SECONDS: Final = 20.0
"""How long to try to reach a server again that was there before."""

LOCK_SECONDS: Final = 10
"""How long the server lets a writer wait in the queue for a lock, before the writer looks."""

_SLOW: Final = 20
"""How many times as long a statement over many sessions may take."""

_IDLE_SECONDS: Final = 60.0
"""Connections: of statements, of locks, that wait for either, and how long they wait."""

BEGIN: Final = b"""BEGIN; SELECT set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') = 'off'"""

_FULL_SECONDS: Final = 0.25
"""How long no thread asks a server that had no connection left for another one."""

_LOCAL: Final = 40
"""Characters of the host's name in the name of a connection, which the server cuts at 63."""


class UrlOptions(NamedTuple):
    """What an address says."""

    url: str  # the address, without a password
    conninfo: str  # the address for the server's library
    options: Mapping[str, str]  # options of the server's library
    schema: str  # the schema of the tables
    notify: bool  # whether followers are woken by the server
    seconds: float  # how long a statement may take
    most: int  # the most connections of statements
    secrets: tuple[str, ...]  # what is in no message


def settings_of(address: Address) -> UrlOptions:
    """What an address says.

    Raises:
        UsageError: it names no database, or an option has a wrong value.
    """
    if not urlsplit(address.base).path.strip("/"):
        raise UsageError(f"{address.shown} names no database; write {address.shown}DATABASE")
    options = dict(address.options)
    schema = options.pop("schema", "sessiontree")
    notify = options.pop("notify", "on")
    _check_schema(schema, address.shown)
    if notify not in ("on", "off"):
        raise UsageError(f"notify={notify} in {address.shown} is neither on nor off")
    seconds = _number(options.pop("timeout", "30"), "timeout", address.shown)
    most = int(_number(options.pop("connections", "8"), "connections", address.shown))
    for secret in ("password", "sslpassword"):
        if secret in options:
            raise UsageError(
                f"{secret} is in the options of {address.shown}, which are shown; write the "
                "password in front of the @, in PGPASSWORD, or in ~/.pgpass"
            )
    if unknown := sorted(set(options) - _library_options()):
        raise UsageError(
            f"{address.shown}: there is no option {unknown[0]}; there are: {', '.join(_OWN)}, and "
            f"those of PostgreSQL's library, such as {_LIKELY}"
        )
    password = urlsplit(address.base).password or ""
    secrets = {password, unquote(password)} - {""}
    return UrlOptions(
        *(address.shown, address.base, options, schema, notify == "on", seconds, max(most, 1)),
        tuple(sorted(secrets, key=len, reverse=True)),
    )


def _check_schema(schema: str, shown: str) -> None:
    """Refuse the name of a schema that the server would not take as it is."""
    if not schema:
        raise UsageError(
            f"schema= in {shown} is empty; name a schema, or leave the option out for sessiontree"
        )
    if '"' in schema or "\0" in schema:
        raise UsageError(f"{schema!r} is not the name of a schema; leave out the quotes")
    if (size := len(schema.encode("utf-8", "surrogateescape"))) > _SCHEMA:
        raise UsageError(
            f"{schema!r} is too long for the name of a schema: it has {size} bytes, and the server "
            f"keeps {_SCHEMA} of them; choose a shorter one"
        )


_SCHEMA: Final = 63
"""The bytes that PostgreSQL keeps of a name; it cuts the rest, and says nothing."""

_OWN: Final = ("schema", "notify", "timeout", "connections")
_LIKELY: Final = "host, sslmode, sslrootcert and target_session_attrs"
"""Options of an address: of this package, and the ones of the library that are used most."""


def _library_options() -> set[str]:
    """The names of the options that the server's library takes."""
    return {each.keyword.decode() for each in psycopg.pq.Conninfo.get_defaults()}


def _number(text: str, option: str, shown: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e6:
        raise UsageError(f"{option}={text} in {shown} is not a number above 0")
    return number


LINE_OIDS: Final = [number for _, number in LINE_TYPES.values()]
_LINE_FORMATS: Final = [1 if name == "line" else 0 for name in LINE_TYPES]
"""Whether a value is in the server's binary form."""


class ConnectionLost(StorageError):
    """The connection broke, so that it is unknown whether the statement was carried out, or the
    server undid the statement for the sake of another: it may be tried again."""


class SchemaMissing(StorageError):
    """The database has no tables of sessions: nothing was stored yet, or they were dropped."""


class ServerConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose waits end."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.seconds = 30.0  # how long a statement may take
        self.idle_since = 0.0  # when it was given back
        self._line_statements: dict[bytes, bytes] = {}

    def insert(self, statement: bytes, values: list[bytes | None], *, is_direct: bool) -> int:
        """Insert one line; return the number of rows inserted.

        The same as `execute`, which takes three times as long on this side.
        """
        pgconn = self.pgconn
        if not is_direct:
            pgconn.send_query_params(statement, values, LINE_OIDS, _LINE_FORMATS)
        else:
            name = self._line_statements.get(statement)
            if name is None:
                name = b"sessiontree_%d" % len(self._line_statements)
                pgconn.send_prepare(name, statement, LINE_OIDS)
                self._result()
                self._line_statements[statement] = name
            pgconn.send_query_prepared(name, values, _LINE_FORMATS)
        return self._result().command_tuples or 0

    def undo(self) -> bool:
        """Undo an open transaction; whether that succeeded, else the connection is closed.

        After a `rollback` of psycopg, it has the server forget all prepared statements.
        """
        try:
            if self.pgconn.transaction_status != TransactionStatus.ACTIVE:
                self.pgconn.send_query(b"ROLLBACK")
                self._result()
                return True
        except psycopg.Error:
            pass
        self.close()
        return False

    def _result(self) -> PGresult:
        result = self.wait(execute(self.pgconn))[-1]
        if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
            raise refusals.error_from_result(result)
        return result  # type: ignore[no-any-return]

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        try:
            return super().wait(gen, interval, self.seconds if timeout is None else timeout)
        except refusals.OperationalError:
            if timeout is None and self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()  # the answer may come yet, and be taken for another's
            raise


_NOT_MINE: Final[list[object]] = []
"""Connections of a parent process, kept so that nothing closes them here."""


class Connections:
    """The connections of one place.

    Attributes:
        settings: what the address says.
        is_direct: whether they lead to a server, and not to a pooler; None: not known yet.
    """

    def __init__(self, settings: UrlOptions) -> None:
        self.settings = settings
        self.is_direct: bool | None = None
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._idle = FairQueue[ServerConnection]()
        self._free = FairQueue([None] * self.settings.most)
        self._free_held = FairQueue([None] * 64)
        self._reached = False
        self._full_until = 0.0
        self.name = owner_name()

    def check_process(self) -> None:
        """Start anew in a forked child."""
        if self._process != os.getpid():
            _NOT_MINE.append(self._idle)
            self._start()

    @contextlib.contextmanager
    def one(self, *, slow: bool = False) -> Iterator[ServerConnection]:
        """A connection for a statement, or for one transaction.

        Raises:
            Lost: it broke meanwhile.
            NoTables: the tables are not there.
            StorageError: the server refused, or cannot be reached.
        """
        self.check_process()
        self._wait_for(self._free)
        try:
            connection = self._take()
            connection.seconds = self.settings.seconds * (_SLOW if slow else 1)
            try:
                with self.errors(connection):
                    yield connection
            finally:
                self._give_back(connection)
        finally:
            self._free.give(None)

    def _wait_for(self, permits: FairQueue[None]) -> None:
        try:
            permits.take(PATIENCE_SECONDS)
        except Empty:
            raise self._all_taken() from None

    def _all_taken(self) -> StorageError:
        url = self.settings.url
        return StorageError(
            f"{url}: all connections of this process were in use for {PATIENCE_SECONDS:.0f} s; "
            "write with fewer threads at once, or add ?connections=N to the address",
            url,
        )

    def take_held(self) -> ServerConnection:
        """A connection for a lock; give it back with `give_back_held`.

        Raises:
            StorageError: there is none, after a limit.
        """
        self.check_process()
        self._wait_for(self._free_held)
        try:
            connection = self._take()
        except BaseException:
            self._free_held.give(None)
            raise
        connection.seconds = self.settings.seconds + LOCK_SECONDS
        return connection

    def give_back_held(self, connection: ServerConnection) -> None:
        """Give back the connection of a lock; a transaction that is not over is undone."""
        try:
            self._give_back(connection)
        finally:
            self._free_held.give(None)

    def _take(self) -> ServerConnection:
        try:
            return self._idle.free.pop()
        except IndexError:
            return self._connect()

    def _give_back(self, connection: ServerConnection) -> None:
        if connection.closed:
            return
        if connection.pgconn.transaction_status != _IDLE and not connection.undo():
            return
        connection.idle_since = now = time.monotonic()
        self._idle.give(connection)
        idle = self._idle.free
        if len(idle) <= 1:
            return
        with contextlib.suppress(IndexError, ValueError):  # another thread took it
            old = idle[0]
            if len(idle) > 8 or now - old.idle_since > _IDLE_SECONDS:
                idle.remove(old)  # one at a time, until all are in use
                old.close()

    def _connect(self) -> ServerConnection:
        """Connect, again and again where the server was reached before, or is full."""
        started = time.monotonic()
        for pause in pauses():
            while self._full_until > (now := time.monotonic()):
                with contextlib.suppress(Empty):
                    return self._idle.take(self._full_until - now)
            if self._full_until:
                self._full_until = now + _FULL_SECONDS  # the others stay in line meanwhile
            try:
                connection = self._connect_once()
            except psycopg.Error as error:
                waited = time.monotonic() - started
                is_full = "too many" in str(error) or "connection slots" in str(error)
                self._full_until = time.monotonic() + _FULL_SECONDS if is_full else 0.0
                limit = PATIENCE_SECONDS if is_full else RECONNECT_SECONDS * self._reached
                if waited >= limit:
                    raise self._unreachable(error) from None  # it may have the password
            else:
                self._reached = True
                self._full_until = 0.0
                return connection
            with contextlib.suppress(Empty):
                return self._idle.take(pause)
        raise AssertionError("pauses never end")

    def _connect_once(self) -> ServerConnection:
        settings = self.settings
        given: dict[str, Any] = {
            "connect_timeout": max(2, int(settings.seconds)),
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            "tcp_user_timeout": int(settings.seconds * 1000),
            "application_name": self.name,
            "client_encoding": "UTF8",
            **settings.options,
        }
        connection = ServerConnection.connect(settings.conninfo, autocommit=True, **given)
        if self.is_direct is None:  # a pooler invents the number of the process
            row = connection.execute(b"SELECT pg_backend_pid()").fetchone()
            self.is_direct = row is not None and row[0] == connection.info.backend_pid
        if not self.is_direct:
            connection.prepare_threshold = None
        return connection

    def _unreachable(self, error: psycopg.Error) -> StorageError:
        url = self.settings.url
        if isinstance(error, psycopg.ProgrammingError):
            return StorageError(
                f"{url} is not an address that PostgreSQL understands: {self.told(error)}", url
            )
        return StorageError(
            f"cannot connect to {url}: {self.told(error)}; {_check(str(error))}", url
        )

    def told(self, error: BaseException) -> str:
        """What an error says, in one line, without a password, and without the statement."""
        text = (error.diag.message_primary if isinstance(error, psycopg.Error) else "") or str(
            error
        )
        for secret in self.settings.secrets:
            text = text.replace(secret, "***")
        return " ".join(text.split()) or type(error).__name__

    @contextlib.contextmanager
    def errors(self, connection: ServerConnection) -> Iterator[None]:
        """Turn the errors of the server's library into those of this package.

        A violation of a primary key stays as it is.
        """
        try:
            yield
        except refusals.UniqueViolation:
            raise
        except psycopg.Error as error:
            raise self._translated(error, connection) from error

    def _translated(self, error: psycopg.Error, connection: ServerConnection) -> Exception:
        url = self.settings.url
        if isinstance(error, (refusals.UndefinedTable, refusals.InvalidSchemaName)):
            return SchemaMissing(
                f"{url} has no tables of sessions any more; if they were dropped, what they had "
                "is only in backups",
                url,
            )
        if isinstance(error, _UNDONE):
            return ConnectionLost(
                f"{url}: the server undid a statement: {self.told(error)}; try again", url
            )
        if connection.closed:
            return ConnectionLost(
                f"the connection to {url} was lost: {self.told(error)}; try again when the "
                "server can be reached",
                url,
            )
        return self.refused(error)

    def refused(self, error: psycopg.Error) -> StorageError:
        """The error for a statement that the server refused."""
        url = self.settings.url
        then = next((told for kind, told in _NEXT.items() if isinstance(error, kind)), _AGAIN)
        return StorageError(f"{url}: the server refused: {self.told(error)}; {then}", url)

    def insert(self, statement: bytes, values: list[bytes | None]) -> int:
        """Insert one line, by a statement with the parameters of `LINE_TYPES`; raises as `one`.

        Returns:
            The number of rows inserted.
        """
        if self._process != os.getpid():
            self.check_process()
        self._wait_for(self._free)
        try:
            connection = self._take()
            connection.seconds = self.settings.seconds
            try:
                return connection.insert(statement, values, is_direct=self.is_direct is True)
            except refusals.UniqueViolation:
                raise
            except psycopg.Error as error:
                raise self._translated(error, connection) from error
            finally:
                self._give_back(connection)
        finally:
            self._free.give(None)

    def run(self, query: bytes, params: Params = None, *, slow: bool = False) -> list[Any]:
        """The rows of a statement that changes nothing; again where the connection was lost."""

        def rows() -> list[Any]:
            with self.one(slow=slow) as connection:
                return connection.execute(query, params, binary=True).fetchall()

        return self.again(rows)

    def again(self, work: Callable[[], R]) -> R:
        """Do what may be done twice; do it again where the connection was lost."""
        deadline = time.monotonic() + RECONNECT_SECONDS
        for pause in pauses():
            try:
                return work()
            except ConnectionLost:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(pause)
        raise AssertionError("pauses never end")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[ServerConnection]:
        """A connection with a transaction, which is committed at the end; raises as `one` does.

        It is none of those for statements, which the transaction may wait for.
        """
        with self.long() as connection:
            connection.execute(BEGIN)
            yield connection
            connection.execute(b"COMMIT")

    @contextlib.contextmanager
    def long(self) -> Iterator[ServerConnection]:
        """A connection that stays in use while others are taken; raises as `one` does."""
        connection = self.take_held()
        connection.seconds = self.settings.seconds * _SLOW
        try:
            with self.errors(connection):
                yield connection
        finally:
            self.give_back_held(connection)

    def listener(self) -> ServerConnection | None:
        """A connection of the caller's own that can listen; None where a pooler is between."""
        self.check_process()
        connection = self._take()
        if self.is_direct:
            return connection
        self._give_back(connection)
        return None

    def close(self) -> None:
        """Close the connections that are not in use."""
        self.check_process()
        while self._idle.free:
            with contextlib.suppress(IndexError):
                self._idle.free.pop().close()


_CHECKS: Final = (
    (r'database ".*" does not exist', "make the database, or check its name in the address"),
    (
        r'role ".*" does not exist|password|authentication|pg_hba',
        "check the user and the password (PGPASSWORD, or ~/.pgpass), and from where the server "
        "lets the user connect (pg_hba.conf)",
    ),
    (r"permission denied", "ask the owner of the database for the right to connect"),
    (r"resolve host|translate host", "check the name of the host in the address"),
    (r"connection is bad: invalid|SSL|certificate", "check the options of the address"),
    (r"too many|connection slots", "end other programs, or raise max_connections of the server"),
    (r"", "check that the server runs, and the host and the port in the address"),
)
"""What to do where a connection fails, by what its error says; the first that matches counts."""


def _check(error: str) -> str:
    """What to do about a connection that failed."""
    return next(step for pattern, step in _CHECKS if re.search(pattern, error))


_IDLE: Final = TransactionStatus.IDLE
_UNDONE: Final = (refusals.SerializationFailure, refusals.DeadlockDetected)
"""Also where a standby has no room for a read beside what it replays."""

_AGAIN: Final = "see the server's log"
_NEXT: Final[dict[type[psycopg.Error], str]] = {
    refusals.InsufficientPrivilege: "ask the owner of the database for the rights, see "
    "docs/guide/postgresql.md",
    refusals.ReadOnlySqlTransaction: "the server is a standby, or set to read only: write to the "
    "primary",
    refusals.DiskFull: "make room on the server, and try again",
    refusals.QueryCanceled: "a timeout of the server ended it; raise statement_timeout, or try "
    "again",
    refusals.UntranslatableCharacter: "make a database with the encoding UTF8",
}
"""What to do about a refusal."""


def pauses() -> Iterator[float]:
    """Seconds to wait between attempts: longer each time, and never the same for two programs."""
    pause = 0.001
    while True:
        yield pause * (0.5 + random.random())
        pause = min(pause * 1.5, 0.25)


def is_alive(connection: ServerConnection) -> bool:
    """Whether the server has not closed an idle connection, as far as this machine knows."""
    if connection.closed:
        return False
    look = select.poll()
    look.register(connection.pgconn.socket, select.POLLIN)
    try:
        while look.poll(0):  # first why it is closed, then that it is
            connection.pgconn.consume_input()
    except psycopg.Error:
        connection.close()
    return not connection.closed


def owner_name(*, exclusive: bool = False) -> str:
    """The name of a connection of this process, which others see who wait for it."""
    host = socket.gethostname().encode("ascii", "replace").decode()[:_LOCAL]
    return f"sessiontree {'exclusive ' * exclusive}{host} {os.getpid()}"
