"""The append-only file: the writer's lock, one write per append, reads by position.

Invariants: bytes once written are never changed or cut off; a block is written
whole, starting on a line of its own, by the holder of the lock, to the file that
then stands at the path (a program that appends without the lock at that moment may
share its line, which is an error); `append` returns only after the sync that `durability`
asks for; after a write or sync that failed, nothing more is written until the
file is opened again, for nobody can say what of it reached the medium.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Literal

from sessiontree.errors import (
    NotASessionError,
    ReadOnlyError,
    SessionNotFoundError,
    StorageError,
    WriteFailedError,
)
from sessiontree.storage.fs import APPEND, READ, FileSystem, Stat, write_all
from sessiontree.storage.lock import WriterLock
from sessiontree.storage.oserrors import real_path, speaking_of

Durability = Literal["fsync", "os"]
"""`fsync`: an acknowledged entry survives a power cut; `os`: the death of the process."""


class FileLog:
    """One open session file.

    Attributes:
        path: as given by the caller, for messages.
        readonly: whether it was opened to read.
        durability: what `append` waits for.
        ended: why nothing more is to be written, in words; empty while it may be.
    """

    def __init__(
        self, fs: FileSystem, path: str, *, readonly: bool = False, durability: Durability = "fsync"
    ) -> None:
        self.fs = fs
        self.path = path
        self.readonly = readonly
        self.durability = durability
        self._real_path = real_path(path)
        self.lock = WriterLock(fs, self._real_path + ".lock")
        self._owns_lock = True
        self.ended = ""
        self._failed = ""
        self._ended = -1  # where our last write ended a line
        self._stood = -1  # what surrounded the lock when the file was seen at its path
        self._fd = -1
        self.reopen()

    def reopen(self) -> None:
        """Open the file that now stands at the path.

        Raises:
            SessionNotFoundError: there is none.
            NotASessionError: it is a folder, or a pipe, on which opening might wait for ever.
            StorageError: it may not be opened.
        """
        flags = READ if self.readonly else APPEND
        with speaking_of(self.path, "open"):
            found = self._found()
            if found.is_folder or found.is_stream:
                what = "a folder" if found.is_folder else "a device or a pipe"
                raise NotASessionError(f"{self.path} is {what}; give a session file", self.path)
            fd = self.fs.open(self._real_path, flags)
            try:
                self._identity = self.fs.stat(fd).identity
            except BaseException:
                self.fs.close(fd)
                raise
        self.release()
        self._fd = fd
        self._ended = self._stood = -1

    def _found(self) -> Stat:
        """What stands at the path. A pipe such as /dev/stdin has no other name than that."""
        try:
            return self.fs.stat(self._real_path)
        except FileNotFoundError:
            return self.fs.stat(self.path)

    def successor(self) -> FileLog:
        """The file that now stands at the path, opened beside this one, under the same lock.

        Raises:
            SessionNotFoundError, NotASessionError, StorageError: as `reopen` does.
        """
        log = copy.copy(self)
        log._fd = -1
        log.reopen()
        return log

    def release(self) -> None:
        """Let go of the file, and keep the lock."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                self.fs.close(self._fd)
        self._fd = -1

    def __del__(self) -> None:
        """Let go of the file of a session that was dropped without being closed."""
        if getattr(self, "_fd", -1) >= 0:
            with contextlib.suppress(Exception):  # at the end of the process all may be gone
                self.release()

    @property
    def identity(self) -> tuple[int, int]:
        """Tells the open file from any other."""
        return self._identity

    @property
    def closed(self) -> bool:
        return self._fd < 0

    def beside(self) -> FileLog:
        """The file opened once more, for another session of this process under the same lock."""
        log = self.successor()
        log._owns_lock = False
        log.ended = ""
        return log

    def close(self) -> None:
        """Let go of the file, and of the lock where it is this log's own."""
        with self.lock.alone():  # a thread that is writing has done so first
            if self._owns_lock:
                self.lock.close()
            self.release()

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`, fewer only at the end of the file."""
        if self._fd < 0:
            raise ReadOnlyError(f"{self.path} is closed; open the session again")
        try:
            return self.fs.read(self._fd, size, offset)
        except OSError as error:
            raise StorageError(
                f"cannot read {self.path} at byte {offset}: {error.strerror or error}; "
                "check the medium and try again",
                self.path,
            ) from error

    def size(self) -> int:
        """The size of the open file in bytes."""
        if self._fd < 0:
            raise ReadOnlyError(f"{self.path} is closed; open the session again")
        with speaking_of(self.path, "read"):
            return self.fs.size(self._fd)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the writer's lock."""
        self.check_writable()
        with self.lock.held():
            self.check_writable()  # again: another thread may have closed it meanwhile
            yield

    def check_writable(self) -> None:
        """Refuse where nothing may be written.

        Raises:
            ReadOnlyError: opened to read, closed, or ended.
            WriteFailedError: an earlier write failed.
        """
        if self._fd < 0:
            raise ReadOnlyError(f"{self.path} is closed; open the session again")
        if self.ended:
            raise ReadOnlyError(f"{self.path}: {self.ended}")
        if self.readonly:
            raise ReadOnlyError(
                f"{self.path} was opened to read; open it without readonly=True to write"
            )
        if self._failed:
            raise WriteFailedError(self._failed, self.path)

    def was_replaced(self) -> bool:
        """Whether another file stands at the path than the one that is open.

        Raises:
            SessionNotFoundError: none stands there any more.
            StorageError: nobody can say.
        """
        try:
            return self.fs.stat(self._real_path).identity != self._identity
        except OSError as error:
            raise self._out_of_sight(error) from error

    def stands_at(self, size: int) -> bool:
        """Whether the open file still stands at the path, with this many bytes.

        Raises:
            SessionNotFoundError, StorageError: as `was_replaced` does.
        """
        try:
            standing = self.fs.stat(self._real_path)
        except OSError as error:
            raise self._out_of_sight(error) from error
        return standing.size == size and standing.identity == self._identity

    def stands_still_at(self, size: int) -> bool:
        """The same, of the moment the lock was taken: for whoever took it just now.

        Where nothing in the folder got another name, the path is not looked at.

        Raises:
            SessionNotFoundError, StorageError: as `was_replaced` does.
        """
        if self._stood != self.lock.seen:
            if not self.stands_at(size):
                return False
            self._stood = self.lock.seen
            return True
        try:
            return self.fs.size(self._fd) == size
        except OSError as error:
            raise self._out_of_sight(error) from error

    def _out_of_sight(self, error: OSError) -> StorageError:
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

    def append(self, block: bytes, end: int) -> int:
        """Write a block of whole lines at the end, which is at `end`; its offset.

        The lock must be held. Where the file ends in the middle of a line, that
        line is ended first. What a program that knows of no lock appended since the end
        was looked for stands before the block.

        Raises:
            WriteFailedError: the outcome is unknown; open the session again.
        """
        ended = 0
        if end != self._ended and end and self.read(end - 1, 1) != b"\n":
            block = b"\n" + block
            ended = 1
        fs, fd = self.fs, self._fd
        stop = end + len(block)
        try:
            write_all(fs, fd, block)
            if self.durability == "fsync":
                fs.sync(fd)
            if (size := fs.size(fd)) != stop:
                end = self._start_of(block, end, size)
                stop = end + len(block)
        except OSError as error:
            self._failed = (
                f"writing to {self.path} failed: {error.strerror or error}. Whether the last entry "
                "was kept is unknown, and this session writes no more; "
                "mend the cause (space, medium) and open the session again to see"
            )
            raise WriteFailedError(self._failed, self.path) from error
        self._ended = self.lock.written = stop
        return end + ended

    def _start_of(self, block: bytes, end: int, size: int) -> int:
        """Where a block stands that was to stand at `end`, of a file that grew by more than it.

        Raises:
            WriteFailedError: it does not start a line.
        """
        standing = self.fs.read(self._fd, size - end, end)
        before = standing.find(block)
        if before == 0 or (before > 0 and b"\n" in (standing[before - 1 : before], block[:1])):
            return end + before
        if before < 0:
            self._failed = (
                f"what was written to {self.path} does not stand at its end: another program "
                "changed the file in place; this session writes no more: run 'sessiontree "
                "verify', then open it again"
            )
            raise WriteFailedError(self._failed, self.path)
        self._failed = (
            f"another program appended to {self.path} at the same moment, without its lock, and "
            "the last entry stands in one line with that; this session writes no more: "
            "'sessiontree repair' parts them, then open the session again"
        )
        raise WriteFailedError(self._failed, self.path)
