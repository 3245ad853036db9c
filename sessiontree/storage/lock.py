"""The writer's lock: one writer at a time, across processes and threads.

The lock is the system's own, on a descriptor of `<file>.lock` that stays open, so it ends
with its process. It is held during one write, or for life by an exclusive writer, who
then writes its name into the lock file.

A writer must know before each entry that its file and its lock are still at their paths.
Two calls of `stat` cost more than the entry. `DirectoryWatch` asks for their folder once
instead: POSIX changes a folder's times whenever a name in it is made, renamed or removed.
For a millisecond after a look at the path of the folder, its open descriptor is asked, which
takes half the time: a loop of appends looks at the path once a millisecond.

Invariants:
- While `held`, no other descriptor of the lock file at that path holds the lock.
- A thread that was started inside a block that holds the lock, and would wait for the block, is
  refused: the block may wait for the thread.
- A forked child never takes its parent's lock for its own.
- As long as `look` gives the same number, every name of the folder leads to the same
  file. It notices a file that is removed, renamed or replaced, also if a program restores
  the folder's time of modification. It notices a folder above that is renamed or replaced
  `TRUSTED_SECONDS` after it last looked at the path. It does not notice a file system
  mounted upon the file.

A file system may count time in steps of up to two seconds (FAT). So a folder counts as
unchanged only if its last change was some seconds before the look that it is compared
with; until then, or if it cannot be read or has no times, each look gives a new number.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final
from weakref import ref

import orjson

from sessiontree.errors import SessionBusyError, SessionNotFoundError, StorageError, UsageError
from sessiontree.storage.fs import (
    FOLDER,
    LOCK,
    OVERWRITE,
    READ,
    Descriptor,
    FileSystem,
    LockDescriptor,
    Stat,
    write_all,
)
from sessiontree.storage.names import is_owner_record, owner_in

SETTLED_SECONDS: Final = 3.0

TRUSTED_SECONDS: Final = 0.001
"""How long something is believed that was just seen, where to look again costs 5% of an append and
another program would have to change it between two appends of one loop."""


class DirectoryWatch:
    """What is around the files of one folder; an empty path is the working directory.

    Attributes:
        is_repeated: whether the last look followed one at the path within `TRUSTED_SECONDS`.
    """

    def __init__(self, fs: FileSystem, folder: str) -> None:
        self._fs = fs
        self._folder = folder or "."
        self._settled: Stat | None = None
        self._times = 0.0, 0.0  # of the settled folder
        self._settles = 0.0
        self._number = 0
        self._open = Descriptor(fs, -1)  # of the settled folder
        self._trusted = 0.0  # until when this folder is believed to be at its path
        self.is_repeated = False

    def look(self) -> int:
        """The number of the state of the names: a new one if any may have changed."""
        try:
            now = time.monotonic()
            self.is_repeated = now < self._trusted
            if self.is_repeated:
                if self._fs.times(self._open.number) == self._times:
                    return self._number
            elif self._settled is not None and self._fs.stat(self._folder) == self._settled:
                if self._open.number >= 0:
                    self._trusted = now + TRUSTED_SECONDS
                return self._number
        except OSError:
            pass  # a look at the path tells what is wrong
        self._number += 1
        self.close()
        today = time.time()
        if today >= self._settles:
            self._settle(today)
        return self._number

    def _settle(self, now: float) -> None:
        """Note that the folder is settled, or when it may be."""
        try:
            found = self._fs.stat(self._folder)
        except OSError:
            self._settles = now + SETTLED_SECONDS
            return
        last = max(found.modified, found.changed)
        self._settles = (last or now) + SETTLED_SECONDS
        if now < self._settles:
            return
        self._settled = found
        self._times = found.times
        with contextlib.suppress(OSError):  # each look is at the path then
            self._open = Descriptor(self._fs, self._fs.open(self._folder, FOLDER))

    def close(self) -> None:
        """Rely on nothing seen so far, and close the descriptor of the folder."""
        self._settled = None
        self._trusted = 0.0
        with contextlib.suppress(OSError):
            self._open.close()


POLL_SECONDS: Final = 0.001
EAGER_POLL_SECONDS: Final = 0.0001
EAGER_AFTER_SECONDS: Final = 0.005
"""After so long a writer tries twice as often, and more often the longer it waits, down to
`EAGER_POLL_SECONDS`: the writer that has waited longest is the likeliest to get the lock."""

OWNER_GRACE_SECONDS: Final = 0.25
"""How long an owner's name is not believed: the lock may have been left this moment."""

PATIENCE_SECONDS: Final = 60.0
"""How long to wait for a writer that gives no name."""


_process = os.getpid()
"""This process; asking the system at each append would cost as much as looking at a file."""


def _note_fork() -> None:
    global _process
    _process = os.getpid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


_HINTS: Final = dict.fromkeys(
    (errno.ELOOP, errno.EMLINK, errno.EINVAL, errno.EEXIST),
    "nothing was changed: look what it is, and remove it if no program needs it",
)
"""What to do about a lock file that is somebody else's, by the error."""


class ThreadLock:
    """Keeps the threads of this process apart; see `Log.alone` and `Log.hold`.

    Attributes:
        lock: the lock itself.
        blocks: the blocks that hold it across calls, the outermost first. One whose end was
            interrupted may still be here, and counts no more.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.lock = threading.RLock()
        self.blocks: tuple[ref[HeldBlock], ...] = ()

    @property
    def depth(self) -> int:
        """How many blocks of the thread that holds the lock are not over."""
        return len(self.running()) if self.blocks else 0

    def running(self) -> tuple[ref[HeldBlock], ...]:
        """Return the blocks that are not over."""
        return _running(self.blocks)

    def alone(self) -> threading.RLock:
        """The lock that keeps other threads out, for a thread that may take it."""
        if self.blocks:
            self.check()
        return self.lock

    def check(self) -> None:
        """Check that the thread may wait for the block that holds the lock.

        Raises:
            UsageError: the thread was started inside the block, which may wait for it.
        """
        around, thread = _BLOCKS.get(), threading.get_ident()
        blocks = (each() for each in self.running() if each in around)
        if any(block is not None and block.thread != thread for block in blocks):
            raise UsageError(
                f"this thread was started inside a batch or a locked block of {self._name}, and "
                "would wait for the block, which may wait for the thread; write in the block's "
                "own thread, or start the thread after the block"
            )

    def inside(self) -> HeldBlock:
        """Make a block that holds the lock, for threads that are started in it."""
        return HeldBlock(self)


class HeldBlock:
    """A block of code that holds a lock across calls, in the thread that is alone.

    Invariant: it is over as soon as its end begins, or nothing refers to it any more. So an
    interrupted end leaves nothing behind that later calls go by.
    """

    __slots__ = ("__weakref__", "_threads", "is_over", "thread")

    def __init__(self, threads: ThreadLock) -> None:
        self._threads = threads
        self.thread = threading.get_ident()  # the thread that runs it
        self.is_over = False  # True if it holds the lock no more

    def __enter__(self) -> None:
        threads, me = self._threads, ref(self)
        outer = threads.running()
        threads.blocks = (*outer, me)
        if not outer:
            _BLOCKS.set((*_running(_BLOCKS.get()), me))

    def __exit__(self, *raised: object) -> None:
        self.is_over = True
        self._threads.blocks = self._threads.running()
        _BLOCKS.set(_running(_BLOCKS.get()))


def _running(blocks: Iterable[ref[HeldBlock]]) -> tuple[ref[HeldBlock], ...]:
    return tuple(each for each in blocks if (block := each()) and not block.is_over)


_BLOCKS: Final[ContextVar[tuple[ref[HeldBlock], ...]]] = ContextVar(
    "blocks that hold a lock", default=()
)
"""The blocks that the calling code is inside of; `asyncio.to_thread` passes them on."""


class _LockFile(LockDescriptor):
    """The lock file that is open."""

    __slots__ = ("identity", "stood")

    def __init__(self, fs: FileSystem, number: int) -> None:
        self.identity = (-1, -1)  # tells it from another file at its path
        self.stood = -1  # the number of the surroundings in which it was seen at its path
        super().__init__(fs, number)

    def close(self) -> None:
        self.identity, self.stood = (-1, -1), -1
        super().close()


class WriterLock:
    """The lock of one session file; `path` is the lock file's.

    Taking it again in a block that holds it is allowed.

    Invariant: a lock that is held without a block, and is not kept, belongs to the call that runs.
    So if Ctrl-C interrupts the end of a call, the next call, or `close`, lets go of it.

    Attributes:
        threads: keeps the threads of this process apart.
        written: where the last write under it ended, by any session of this process that
            goes by it.
        seen: the number of what surrounded it when it was last taken; see `DirectoryWatch`.
    """

    def __init__(self, fs: FileSystem, path: str) -> None:
        self.path = path
        self._fs = fs
        self._lock_file = _LockFile(fs, -1)
        self._process = _process
        self._surroundings = DirectoryWatch(fs, os.path.dirname(path))
        self.seen = 0
        self.threads = ThreadLock(self.file)
        self.written = 0
        self._kept = False

    @property
    def file(self) -> str:
        """The path of the session file."""
        return self.path.removesuffix(".lock")

    @property
    def depth(self) -> int:
        """How many blocks of the thread that is `alone` hold it."""
        return self.threads.depth

    def alone(self) -> threading.RLock:
        """The lock that keeps out the other threads of this process that share the session."""
        if self._process != _process:
            self._start_anew()
        threads = self.threads
        if threads.blocks:
            threads.check()
        return threads.lock

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock; raises SessionBusyError if an exclusive writer, or a slow one, has it."""
        with self.alone():
            block = self.threads.inside()
            try:
                self.take()
                with block:
                    yield
            finally:
                block.is_over = True  # also if its own end was interrupted
                self.let_go()

    def take(self) -> None:
        """Take the lock for a thread that is `alone`; raises as `held` does.

        Let go of it whatever happens, also after Ctrl-C in the middle of this call.
        """
        if self.threads.blocks and self.depth:
            self.seen = self._surroundings.look()
        elif not (self._kept and self._is_in_place()):
            self._acquire()
            if self._kept:
                self._name_owner()

    def let_go(self) -> None:
        """Let go of the lock, unless an outer block holds it, or it is kept."""
        try:
            self._unlock()
        except BaseException:
            self._unlock()  # Ctrl-C came in the middle
            raise

    def _unlock(self) -> None:
        lock_file = self._lock_file
        if not lock_file.is_locked or self._kept or (self.threads.blocks and self.depth):
            return
        if self._process != _process:
            return  # a child that was forked meanwhile: the lock is its parent's
        try:
            self._fs.unlock(lock_file.number)
            lock_file.is_locked = False
        except OSError:
            self._forget()  # closing lets go as well

    def keep(self) -> None:
        """Take the lock for life, and leave the owner's name in the file."""
        with self.alone():
            try:
                self._acquire()
                self._kept = True
            finally:
                self.let_go()
            self._name_owner()

    def close(self) -> None:
        """Let go of the lock and its descriptor."""
        with self.alone():
            if self._kept and self._is_in_place():
                self._write_owner(b"")
            self._kept = False
            self.threads.blocks = ()
            self._forget()
            self._surroundings.close()

    def __del__(self) -> None:
        """Remove the owner's name of a session that was dropped without `close`.

        The lock file closes itself; in a forked child that releases nothing.
        """
        if not getattr(self, "_kept", False) or self._process != _process:
            return
        with contextlib.suppress(Exception):  # at the end of the process all may be gone
            if self._is_in_place():
                self._write_owner(b"")

    def _start_anew(self) -> None:
        """Start over in a forked child: it shares the descriptor, and so the lock."""
        self._forget()
        self.threads = ThreadLock(self.file)
        self._kept = False
        self._process = _process

    def _acquire(self) -> None:
        try:
            if not self._try():
                self._wait()
        except BaseException:
            self._forget()  # an exclusive writer must not go by a lock that it lost
            raise

    def _wait(self) -> None:
        started = time.monotonic()
        while not self._try():
            waited = time.monotonic() - started
            owner = self._owner() if waited > OWNER_GRACE_SECONDS else ""
            if owner:
                raise SessionBusyError(
                    f"{self.file} is held by {owner}; "
                    "close that session or end that process; reading is possible meanwhile",
                    self.file,
                )
            if waited > PATIENCE_SECONDS:
                raise SessionBusyError(
                    f"{self.file}: another writer has held {self.path} for "
                    f"{PATIENCE_SECONDS:.0f} s; look for a process that hangs",
                    self.file,
                )
            eagerness = 1 + waited / EAGER_AFTER_SECONDS
            time.sleep(max(POLL_SECONDS / eagerness, EAGER_POLL_SECONDS))

    def _try(self) -> bool:
        """Try once to take the lock file that is now at the path."""
        try:
            if self._lock_file.number < 0:
                self._open()
            lock_file = self._lock_file
            lock_file.is_locked = True  # first: Ctrl-C may hide the answer
            lock_file.is_locked = self._fs.lock(lock_file.number)
            if not lock_file.is_locked:
                return False
            self.seen = self._surroundings.look()
            if self.seen == lock_file.stood and self._surroundings.is_repeated:
                return True  # an owner that died since then is noticed in a millisecond
            is_there = self.seen == lock_file.stood or self._is_at_path()
            named = is_there and self._fs.size(lock_file.number)
            if named and not is_owner_record(self._fs, lock_file.number):
                raise OSError(errno.EEXIST, "it holds something else than a writer's name")
        except FileNotFoundError as error:
            raise SessionNotFoundError(
                f"{self.file} vanished with its folder while it was open; nothing was written. "
                "Put it back, or export from this session to a new file",
                self.file,
            ) from error
        except OSError as error:
            self._forget()
            hint = _HINTS.get(
                error.errno or 0, "a writer must be able to make files in that folder"
            )
            raise StorageError(
                f"cannot lock {self.path}: {error.strerror or error}; {hint}", self.path
            ) from error
        if not is_there:
            self._forget()
            return False
        if named:
            self._write_owner(b"")  # its owner is gone, or we would not hold the lock
        return True

    def _open(self) -> None:
        lock_file = _LockFile(self._fs, self._fs.open(self.path, LOCK))
        try:
            found = self._fs.stat(lock_file.number)
            if found.is_folder or found.is_stream:
                raise OSError(errno.EINVAL, "it is not a file")
        except BaseException:
            lock_file.close()
            raise
        lock_file.identity = found.identity
        self._lock_file = lock_file

    def _is_in_place(self) -> bool:
        self.seen = self._surroundings.look()
        with contextlib.suppress(OSError):  # taking it again tells what is wrong
            return self.seen == self._lock_file.stood or self._is_at_path()
        return False

    def _is_at_path(self) -> bool:
        """The same, by a look at the path itself; raises OSError if the system refuses."""
        try:
            found = self._fs.stat(self.path)
        except FileNotFoundError:
            return False
        if found.identity != self._lock_file.identity:
            return False
        self._lock_file.stood = self.seen
        return True

    def _name_owner(self) -> None:
        owner = {
            "pid": os.getpid(),
            "host": os.uname().nodename,
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self._write_owner(orjson.dumps(owner))

    def _owner(self) -> str:
        """The exclusive writer, in words; empty if the lock file does not name it."""
        try:
            file = Descriptor(self._fs, self._fs.open(self.path, READ))
        except OSError:
            return ""
        with file as fd:
            return owner_in(self._fs, fd)

    def _write_owner(self, owner: bytes) -> None:
        with (
            contextlib.suppress(OSError),  # the name is a courtesy, the lock holds without it
            Descriptor(self._fs, self._fs.open(self.path, OVERWRITE)) as fd,
        ):
            if owner:
                write_all(self._fs, fd, owner)

    def _forget(self) -> None:
        with contextlib.suppress(OSError):
            self._lock_file.close()
