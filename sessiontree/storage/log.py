"""The log: an append-only run of bytes, addressed by offset.

The engine knows `Log` and nothing below it: no path, no descriptor, no lock file. Appending
at an offset is the compare-and-swap that keeps writers apart: it fails with `Moved` if the
log does not end at that offset any more. `FileLog` is a file under its writer's lock, on the
disk or in memory (`storage.memory`).

Invariants: written bytes are never changed or cut off; a block is written whole and starts a
line; `append` returns after the sync that the durability asks for; after a failed write or
sync, whose outcome is unknown, nothing more is written until the log is opened again. A
`FileLog` writes only to the file that is at its path at that moment. If a program that
ignores the lock appends into the line of a block, that is an error.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, Protocol, Self, TypeVar

from sessiontree.errors import (
    NotASessionError,
    ReadOnlyError,
    SessionNotFoundError,
    StorageError,
    WriteFailedError,
)
from sessiontree.storage.atomic import replace_file, swap_file
from sessiontree.storage.fs import (
    APPEND,
    READ,
    Descriptor,
    Durability,
    FileSystem,
    Stat,
    os_errors,
    write_all,
)
from sessiontree.storage.lock import TRUSTED_SECONDS, ThreadLock, WriterLock

if TYPE_CHECKING:
    from sessiontree.storage.blobs import Blobs
    from sessiontree.storage.sidecars import FileParts, Parts
    from sessiontree.text.pattern import Prefilter


T = TypeVar("T")

Find = Callable[[str, int], int]
"""Takes a uuid and an offset, gives that of the last line before it with this uuid, or -1.

The line may turn out to be another, and there may be a line where none is found: it is a hint.
"""

LinesWith = Callable[["Prefilter"], Generator[tuple[int, bytes], None, None]]
"""Takes what is sought, yields runs of bytes with their offsets, in order: each line that has it.

Each run is one line with its LF. If one has no LF, it is the last, and all that begins there may
match, in lines that go on behind it.
"""


class Moved(Exception):
    """The log does not end at the given offset: another writer was faster.

    Nothing was written. Read what was added, and append again.
    """


class Closable(Protocol):
    def close(self) -> None: ...


@contextlib.contextmanager
def closed_on_failure(log: Closable) -> Iterator[None]:
    """Close a log if what is done with it fails."""
    try:
        yield
    except BaseException:
        log.close()
        raise


class BlobLocation(NamedTuple):
    """Where the blobs of a log are kept; opens nothing by itself."""

    fs: FileSystem  # what has them as files
    path: str  # the name of the log in messages; for a file its path
    durability: Durability  # what writing a blob waits for
    folder: str | None = None  # the folder of the blobs; None: the one beside the file

    def open(self) -> Blobs:
        """Open the sidecar folder."""
        from sessiontree.storage.blobs import Blobs  # many sessions have none

        return Blobs(*self)


class Log(Protocol):
    """An append-only run of bytes, open to read, or to read and write.

    Attributes:
        name: the name of the log in messages; for a file the path as given.
        readonly: whether it was opened to read.
        ended: why nothing more may be written, in words; empty if writing is allowed.
        written: the end of the last write by any session of this process that shares the log.
    """

    name: str
    readonly: bool
    ended: str

    @property
    def written(self) -> int: ...

    @property
    def identity(self) -> tuple[int, int]:
        """Identifies the open log; a log that replaces it has another identity."""

    @property
    def closed(self) -> bool: ...

    @property
    def blobs(self) -> BlobLocation:
        """Where the blobs of the log are kept."""

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset`, fewer only at the end of the log."""

    def size(self) -> int:
        """Return the number of bytes of the open log."""

    @property
    def find(self) -> Find | None:
        """Finds a line by its uuid without a search of the bytes; None where nothing does."""

    @property
    def keeps_out(self) -> bool:
        """Whether `hold` keeps out the writers of other programs, too.

        If not, a block that holds the log sees one state of it, and what the block appends or
        rewrites raises `Moved` if another program was faster.
        """

    @property
    def lines_with(self) -> LinesWith | None:
        """Finds lines by their bytes where the server searches them; None where no server does."""

    def append(self, block: bytes, at: int) -> int:
        """Append a block of whole lines at the offset `at`; return the offset of its first line.

        If the log ends in the middle of a line, a newline comes first. The thread must be `alone`.

        Raises:
            Moved: the log ends at another offset, or another log replaced it.
            ReadOnlyError: it was opened to read, closed, or ended.
            WriteFailedError: the outcome of this or an earlier write is unknown; open the
                session again.
        """

    def alone(self) -> contextlib.AbstractContextManager[object]:
        """Keep out the other threads that share the log, but no other process."""

    def hold(self) -> contextlib.AbstractContextManager[None]:
        """Keep out all other writers; see `keeps_out`. A thread may hold it more than once."""

    def keep(self) -> None:
        """Keep out all other writers until the log is closed; the lock file says who does.

        Raises:
            UsageError: the log keeps no other program out.
        """

    def ends_at(self, size: int) -> bool:
        """Whether this log was not replaced, and ends at `size`."""

    def still_ends_at(self, size: int) -> bool:
        """Do the same as `ends_at`, for a thread that has just taken the lock."""

    def check_writable(self) -> None:
        """Check that the log may be written.

        Raises:
            ReadOnlyError: it was opened to read, closed, or ended.
            WriteFailedError: an earlier write failed.
        """

    def was_replaced(self) -> bool:
        """Whether another log replaced this one.

        Raises:
            SessionNotFoundError: there is no log at the place any more.
            StorageError: the system refused to look.
        """

    def reopen(self) -> None:
        """Open the current log in place of this one.

        Raises:
            SessionNotFoundError: there is none.
            NotASessionError: it is a folder, or a device or pipe, which could block for ever.
            StorageError: it cannot be opened.
        """

    def successor(self) -> Log:
        """Open the current log beside this one, under the same lock; raises as `reopen`."""

    def beside(self) -> Log:
        """Open the log again under the same lock, for another session of this process."""

    def to_read(self) -> Log:
        """Open the log again to read, without the lock."""

    def release(self) -> None:
        """Close the open log, and keep the lock."""

    def close(self) -> None:
        """Close the log, and release the lock if this log owns it."""

    def changes(self, stop: threading.Event) -> Iterator[object]:
        """Yield when the log may have grown, and now and then, until `stop` is set."""

    def rewrite(self, lines: Iterator[bytes], kept_as: str = "") -> str:
        """Replace the whole content in one step; the caller holds the lock.

        The open log does not change; see `successor`. Raises `Moved` as `append` does.

        Args:
            lines: the new content, each line with its LF.
            kept_as: the suffix to keep the old content under; empty: do not keep it.

        Returns:
            The name of the kept content, or an empty string.
        """

    @property
    def parts(self) -> Parts:
        """What is kept beside the log."""


def planned_again(log: Log, do: Callable[[], T]) -> T:
    """Hold a log and do what rewrites it, again each time that another program was faster."""
    with log.hold():
        while True:
            if log.was_replaced():
                log.reopen()
            with contextlib.suppress(Moved):
                return do()


def closed_error(log: Log) -> ReadOnlyError:
    """The error of whatever is asked of a log that is closed."""
    return ReadOnlyError(f"{log.name} is closed; open the session again")


def check_allowed(log: Log) -> None:
    """Check that a log is open, and may be written as far as its caller goes.

    Raises:
        ReadOnlyError: it was opened to read, closed, or ended.
    """
    if log.closed:
        raise closed_error(log)
    if log.ended:
        raise ReadOnlyError(f"{log.name}: {log.ended}")
    if log.readonly:
        raise ReadOnlyError(
            f"{log.name} was opened to read; open it without readonly=True to write"
        )


class _OpenFile(Descriptor):
    """The file that a log has open, with what is known of it.

    Attributes:
        identity: tells it from another file at its path.
        ended: where the last write ended a line; -1: not known.
        trusted: until when it is believed that it still does.
        folder_seen: `WriterLock.seen` when the file was last found at its path; -1: never.
    """

    __slots__ = ("ended", "folder_seen", "identity", "trusted")

    def __init__(self, fs: FileSystem, number: int) -> None:
        self.identity = (-1, -1)
        self.ended = self.folder_seen = -1
        self.trusted = 0.0
        super().__init__(fs, number)


class FileLog:
    """A file under its writer's lock; see `Log`.

    Attributes:
        path: the path as given by the caller.
        durability: what `append` waits for: `fsync` or `os`.
    """

    find: Final = None
    lines_with: Final = None
    keeps_out: Final = True

    def __init__(
        self,
        fs: FileSystem,
        path: str,
        *,
        readonly: bool = False,
        durability: Durability = "fsync",
        lock: WriterLock | None = None,
    ) -> None:
        self.fs = fs
        self.path = self.name = path
        self.blobs = BlobLocation(fs, path, durability)
        self.readonly = readonly
        self.durability = durability
        self.lock = lock or WriterLock(fs, fs.real_path(path) + ".lock")
        self._real_path = self.lock.file
        self.alone = self.lock.alone
        self._owns_lock = True
        self.ended = ""
        self._failed = ""
        self._file = self._opened()

    def reopen(self) -> None:
        old, self._file = self._file, self._opened()
        with contextlib.suppress(OSError):
            old.close()

    def _opened(self) -> _OpenFile:
        """Open the file that is now at the path; raises as `reopen`."""
        flags = READ if self.readonly else APPEND
        with os_errors(self.path, "open"):
            found = self._found()
            if found.is_folder or found.is_stream:
                what = "a folder" if found.is_folder else "a device or a pipe"
                raise NotASessionError(f"{self.path} is {what}; give a session file", self.path)
            file = _OpenFile(self.fs, self.fs.open(self._real_path, flags))
            with closed_on_failure(file):
                file.identity = self.fs.stat(file.number).identity
        return file

    def _found(self) -> Stat:
        """Look at the file at the path. A pipe such as /dev/stdin has no other real path."""
        try:
            return self.fs.stat(self._real_path)
        except FileNotFoundError:
            return self.fs.stat(self.path)

    def successor(self) -> FileLog:
        log = FileLog(
            *(self.fs, self.path),
            readonly=self.readonly,
            durability=self.durability,
            lock=self.lock,
        )
        log._owns_lock, log.ended, log._failed = self._owns_lock, self.ended, self._failed
        return log

    def release(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()

    @property
    def identity(self) -> tuple[int, int]:
        return self._file.identity

    @property
    def closed(self) -> bool:
        return self._file.number < 0

    def beside(self) -> FileLog:
        log = self.successor()
        log._owns_lock = False
        log.ended = ""
        return log

    def close(self) -> None:
        with self.lock.alone():  # wait for a thread that is writing
            if self._owns_lock:
                self.lock.close()
            self.release()

    def read(self, offset: int, size: int) -> bytes:
        fd = self._file.number
        if fd < 0:
            raise closed_error(self)
        try:
            return self.fs.read(fd, size, offset)
        except OSError as error:
            raise StorageError(
                f"cannot read {self.path} at byte {offset}: {error.strerror or error}; "
                "check the medium and try again",
                self.path,
            ) from error

    def size(self) -> int:
        fd = self._file.number
        if fd < 0:
            raise closed_error(self)
        with os_errors(self.path, "read"):
            return self.fs.size(fd)

    @property
    def written(self) -> int:
        return self.lock.written

    def keep(self) -> None:
        self.lock.keep()

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        self.check_writable()
        with self.lock.held():
            self.check_writable()  # again: another thread may have closed it
            yield

    def check_writable(self) -> None:
        check_allowed(self)
        if self._failed:
            raise WriteFailedError(self._failed, self.path)

    def was_replaced(self) -> bool:
        try:
            return self.fs.stat(self._real_path).identity != self._file.identity
        except OSError as error:
            raise self._stat_failed(error) from error

    def ends_at(self, size: int) -> bool:
        try:
            found = self.fs.stat(self._real_path)
        except OSError as error:
            raise self._stat_failed(error) from error
        return found.size == size and found.identity == self._file.identity

    def still_ends_at(self, size: int) -> bool:
        """See `Log`; does not look at the path if no name in the folder changed."""
        file = self._file
        if file.folder_seen != self.lock.seen:
            if not self.ends_at(size):
                return False
            file.folder_seen = self.lock.seen
            return True
        try:
            return self.fs.size(file.number) == size
        except OSError as error:
            raise self._stat_failed(error) from error

    def _stat_failed(self, error: OSError) -> StorageError:
        written = "" if self.readonly else "nothing was written, "
        if isinstance(error, FileNotFoundError):
            then = (
                "put it back, or open it where it is now"
                if self.readonly
                else "nothing was written. Put it back, or export from this session to a new file"
            )
            return SessionNotFoundError(
                f"{self.path} vanished while it was open; {then}", self.path
            )
        return StorageError(
            f"cannot look at {self.path}: {error.strerror or error}; {written}"
            "check the path and the medium and try again",
            self.path,
        )

    def append(self, block: bytes, at: int) -> int:
        """See `Log.append`; what a program without the lock appends comes before the block."""
        if self._file.number < 0 or self.ended or self.readonly or self._failed:
            self.check_writable()
        lock = self.lock
        if lock.threads.blocks and lock.depth:  # a block looked at the path when it took it
            if self.size() != at:
                raise Moved
            return self._put(block, at)
        try:
            lock.take()
            if not self.still_ends_at(at):
                raise Moved
            return self._put(block, at)
        finally:
            lock.let_go()

    def _put(self, block: bytes, end: int) -> int:
        ended = 0
        now = monotonic()
        file = self._file
        is_known = end == file.ended and now < file.trusted
        if not is_known and end and self.read(end - 1, 1) != b"\n":
            block = b"\n" + block
            ended = 1
        fs, fd = self.fs, file.number
        stop = end + len(block)
        try:
            if (written := fs.write(fd, block)) != len(block):
                write_all(fs, fd, block[written:])
            if self.durability == "fsync":
                fs.sync(fd)
            if (size := fs.size(fd)) != stop:
                end = self._start_of(block, end, size)
                stop = end + len(block)
        except OSError as error:
            self._failed = (
                f"writing to {self.path} failed: {error.strerror or error}. Whether the last entry "
                "was kept is unknown, and this session writes no more; "
                "remove the cause (space, medium) and open the session again to see"
            )
            raise WriteFailedError(self._failed, self.path) from error
        file.ended = self.lock.written = stop
        file.trusted = now + TRUSTED_SECONDS
        return end + ended

    def _start_of(self, block: bytes, end: int, size: int) -> int:
        """Find a block written at `end`, in a file that grew by more than the block.

        Raises:
            WriteFailedError: it does not start a line.
        """
        added = self.fs.read(self._file.number, size - end, end)
        before = added.find(block)
        if before == 0 or (before > 0 and b"\n" in (added[before - 1 : before], block[:1])):
            return end + before
        if before < 0:
            self._failed = (
                f"what was written to {self.path} is not at its end: another program changed the "
                "file in place; this session writes no more: verify the file, then open the "
                "session again"
            )
            raise WriteFailedError(self._failed, self.path)
        self._failed = (
            f"another program appended to {self.path} at the same moment, without its lock, and "
            "the last entry shares a line with that; this session writes no more: "
            "repair the file, which splits them, then open the session again"
        )
        raise WriteFailedError(self._failed, self.path)

    def to_read(self) -> FileLog:
        return FileLog(self.fs, self.path, readonly=True)

    def changes(self, stop: threading.Event) -> Iterator[object]:
        return self.fs.watch(os.path.dirname(self._real_path), stop)

    def rewrite(self, lines: Iterator[bytes], kept_as: str = "") -> str:
        if not kept_as:
            swap_file(self.fs, self.path, lines)
            return ""
        replace_file(self.fs, self.path, kept_as, lines)
        return (self._real_path if self.fs.is_link(self.path) else self.path) + kept_as

    @property
    def parts(self) -> FileParts:
        from sessiontree.storage.sidecars import FileParts  # few sessions have parts

        return FileParts(self.fs, self._real_path)


class BytesLog:
    """Ready bytes, open to read: a file of another format, translated; see `Log`."""

    find: Final = None
    lines_with: Final = None
    keeps_out: Final = True
    written: Final = 0

    def __init__(self, name: str, blocks: Iterable[bytes] = ()) -> None:
        self.name = name
        self.readonly = True
        self.ended = ""
        self.closed = False
        self.identity = -2, next(_NUMBERS)
        self._content = bytearray()
        for block in blocks:  # one by one: they may be as much as the memory has room for
            self._content += block

    @functools.cached_property
    def blobs(self) -> BlobLocation:
        from sessiontree.storage.memory import MemoryFiles  # few translated files are asked for one

        return BlobLocation(MemoryFiles(), self.name, "os")

    def read(self, offset: int, size: int) -> bytes:
        if self.closed:
            raise closed_error(self)
        return bytes(self._content[offset : offset + size])

    def size(self) -> int:
        if self.closed:
            raise closed_error(self)
        return len(self._content)

    def check_writable(self) -> None:
        check_allowed(self)

    def _refuse(self) -> NoReturn:
        check_allowed(self)
        raise AssertionError("it is open to read")

    def append(self, block: bytes, at: int) -> int:
        self._refuse()

    def rewrite(self, lines: Iterator[bytes], kept_as: str = "") -> str:
        self._refuse()

    def keep(self) -> None:
        self._refuse()

    def hold(self) -> contextlib.AbstractContextManager[None]:
        self._refuse()

    def alone(self) -> contextlib.AbstractContextManager[object]:
        return contextlib.nullcontext()

    def ends_at(self, size: int) -> bool:
        return self.size() == size

    still_ends_at = ends_at

    def was_replaced(self) -> bool:
        return False

    def reopen(self) -> None:
        self.closed = False

    def successor(self) -> Self:
        log = copy.copy(self)
        log.closed = False
        return log

    beside = to_read = successor

    def close(self) -> None:
        self.closed = True

    release = close

    def changes(self, stop: threading.Event) -> Iterator[object]:
        return self.blobs.fs.watch("", stop)

    @property
    def parts(self) -> FileParts:
        from sessiontree.storage.sidecars import FileParts  # few sessions have parts

        return FileParts(self.blobs.fs, self.name)


_NUMBERS: Final = itertools.count()


class SharedLogState:
    """What the logs of one opened session share, and those of another session do not."""

    def __init__(self, name: str) -> None:
        self.threads = ThreadLock(name)  # keeps the threads apart that use them
        self.written = 0  # where their last write ended
