"""The writer's lock: one writer at a time, across processes and threads.

The lock is the system's own, on a descriptor of `<file>.lock` kept open: it ends
with its process, however that ends. It is held for the length of one write, or
for life by an exclusive writer, who then leaves its name in the lock file.

Invariants: while `held`, no other descriptor of the lock file at that path holds
it; a forked child never takes its parent's lock for its own.

The folder of a file, and whether its names still lead where they led.

A writer asks before each entry whether its file, and its lock, still stand at their
paths. To look at both costs more than the entry does (a file whose times were asked
for writes them anew with the next byte, too). One look at their folder answers for
both: POSIX has a folder's times change with every name that is made, renamed or
removed in it.

Invariant: as long as `look` gives the same number, every name of the folder leads to
the file that it led to. Noticed are: a file removed, renamed, or replaced by a rename,
also where somebody gives the folder its old time of modification back, as programs do
that restore one; the folder itself, or one above it, renamed or replaced. What a look
at the path would show and this does not is a file mounted upon the file.

A file system may count time in steps of up to two seconds (FAT), and within one step
two changes look like one. So a folder counts as unchanged only where it had last
changed some seconds before the look it is compared with; until then, and where it
changes often, cannot be looked at, or tells no times, every look gives a new number.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import orjson

from sessiontree.errors import SessionBusyError, SessionNotFoundError, StorageError
from sessiontree.storage.fs import LOCK, OVERWRITE, READ, FileSystem, Stat, write_all

SETTLED_SECONDS: Final = 3.0


class Surroundings:
    """What is around the files of one folder.

    Args:
        fs: the seam to the disk.
        folder: its path, empty for the working directory.
    """

    def __init__(self, fs: FileSystem, folder: str) -> None:
        self._fs = fs
        self._folder = folder or "."
        self._settled: Stat | None = None
        self._settles = 0.0
        self._number = 0

    def look(self) -> int:
        """The number of the state that the names are in: another one where any may have changed.

        Whoever gets a new one looks at the path itself, after this.
        """
        try:
            if self._settled is not None and self._fs.stat(self._folder) == self._settled:
                return self._number
        except OSError:
            pass  # a look at the path tells what is wrong
        self._number += 1
        self._settled = None
        now = time.time()
        if now >= self._settles:
            self._settle(now)
        return self._number

    def _settle(self, now: float) -> None:
        """Take the folder for settled, or note when it may be."""
        try:
            found = self._fs.stat(self._folder)
        except OSError:
            self._settles = now + SETTLED_SECONDS
            return
        last = max(found.modified, found.changed)
        self._settles = (last or now) + SETTLED_SECONDS
        if now >= self._settles:
            self._settled = found


POLL_SECONDS: Final = 0.001
EAGER_POLL_SECONDS: Final = 0.0001
EAGER_AFTER_SECONDS: Final = 0.005
"""After so long a writer looks twice as often, and oftener the longer it waits, down to
`EAGER_POLL_SECONDS`: whoever has waited longest is the likeliest to find the lock free."""

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


class WriterLock:
    """The lock of one session file; `path` is the lock file's.

    Taking it again in the thread that holds it is allowed and counted.

    Attributes:
        depth: how often the thread that is `alone` has taken it.
        written: where the last write under it ended, by any session of this process that
            goes by it.
        seen: the number of what surrounded it when it was last taken; see `Surroundings`.
    """

    def __init__(self, fs: FileSystem, path: str) -> None:
        self.path = path
        self._fs = fs
        self._fd = -1
        self._process = _process
        self._identity = (-1, -1)
        self._surroundings = Surroundings(fs, os.path.dirname(path))
        self._stood = -1  # the number of the surroundings in which it was seen at its path
        self.seen = 0
        self._threads = threading.RLock()
        self.depth = 0
        self.written = 0
        self._kept = False

    @property
    def _file(self) -> str:
        return self.path.removesuffix(".lock")

    def alone(self) -> threading.RLock:
        """What keeps out the other threads that share this session, and nobody else."""
        if self._process != _process:
            self._start_anew()
        return self._threads

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock.

        Raises:
            SessionBusyError: an exclusive writer has it, or nobody lets go.
            StorageError: the lock file cannot be made.
        """
        with self.alone():
            outer = self.depth
            try:
                self.take()
                yield
            finally:
                self.give_back(outer)

    def take(self) -> None:
        """Take the lock for a thread that is `alone`; raises as `held` does.

        To be given back whatever happens, also where Ctrl-C came in the middle of this.
        """
        if self.depth:
            self.seen = self._surroundings.look()
        elif not (self._kept and self._stands_still()):
            try:
                if not self._try():
                    self._wait()
            except BaseException:
                self._forget()  # what stands there is not ours: an owner is not to go by it
                raise
            if self._kept:
                self._name_owner()
        self.depth += 1

    def give_back(self, outer: int) -> None:
        """Hold the lock as often as before it was taken: `outer` was the depth then."""
        if self._process != _process:
            return  # a child that was forked meanwhile: the lock is its parent's
        self.depth = outer
        if outer or self._kept or self._fd < 0:
            return
        try:
            self._fs.unlock(self._fd)
        except OSError:
            self._forget()  # closing lets go as well

    def keep(self) -> None:
        """Take the lock for life, and leave the owner's name in the file."""
        with self._threads:
            try:
                if not self._try():
                    self._wait()
            except BaseException:
                self._forget()
                raise
            self._kept = True
            self._name_owner()

    def close(self) -> None:
        """Let go of the lock and its descriptor."""
        with self.alone():
            if self._kept and self._stands_still():
                self._write_owner(b"")
            self._kept = False
            self.depth = 0
            self._forget()

    def __del__(self) -> None:
        """Let go where nobody can any more: the session was dropped without being closed.

        In a forked child this closes what it shares, and lets go of nothing.
        """
        if getattr(self, "_fd", -1) < 0:
            return
        with contextlib.suppress(Exception):  # at the end of the process all may be gone
            if self._kept and self._process == _process and self._stands_still():
                self._write_owner(b"")
            self._forget()

    def _start_anew(self) -> None:
        """Start over in a forked child: it shares the descriptor, and so the lock."""
        self._forget()
        self._threads = threading.RLock()
        self.depth = 0
        self._kept = False
        self._process = _process

    def _wait(self) -> None:
        started = time.monotonic()
        while not self._try():
            waited = time.monotonic() - started
            owner = self._owner() if waited > OWNER_GRACE_SECONDS else ""
            if owner:
                raise SessionBusyError(
                    f"{self._file} is held by {owner}; "
                    "close that session or end that process; reading is possible meanwhile",
                    self._file,
                )
            if waited > PATIENCE_SECONDS:
                raise SessionBusyError(
                    f"{self._file}: another writer has held {self.path} for "
                    f"{PATIENCE_SECONDS:.0f} s; look for a process that hangs",
                    self._file,
                )
            eagerness = 1 + waited / EAGER_AFTER_SECONDS
            time.sleep(max(POLL_SECONDS / eagerness, EAGER_POLL_SECONDS))

    def _try(self) -> bool:
        """Try once to take the lock that now stands at the path."""
        try:
            if self._fd < 0:
                self._fd = self._fs.open(self.path, LOCK)
                self._identity = self._fs.stat(self._fd).identity
            if not self._fs.lock(self._fd):
                return False
            self.seen = self._surroundings.look()
            stands = self.seen == self._stood or self._stands()
            named = stands and self._fs.size(self._fd)
        except FileNotFoundError as error:
            raise SessionNotFoundError(
                f"{self._file} vanished with its folder while it was open; nothing was written. "
                "Put it back, or export from this session to a new file",
                self._file,
            ) from error
        except OSError as error:
            self._forget()
            raise StorageError(
                f"cannot lock {self.path}: {error.strerror or error}; "
                "a writer must be able to make files in that folder",
                self.path,
            ) from error
        if not stands:
            self._forget()
            return False
        if named:
            self._write_owner(b"")  # its owner is gone, or we would not hold the lock
        return True

    def _stands_still(self) -> bool:
        """Whether the lock file that is open stands at the path."""
        self.seen = self._surroundings.look()
        if self.seen == self._stood:
            return True
        try:
            return self._stands()
        except OSError:
            return False  # taking it again tells what is wrong

    def _stands(self) -> bool:
        """The same by a look at the path itself; raises OSError where it cannot be had."""
        try:
            standing = self._fs.stat(self.path)
        except FileNotFoundError:
            return False
        if standing.identity != self._identity:
            return False
        self._stood = self.seen
        return True

    def _name_owner(self) -> None:
        owner = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self._write_owner(orjson.dumps(owner))

    def _owner(self) -> str:
        """Who holds the lock for life, in words; empty when nobody says so."""
        try:
            fd = self._fs.open(self.path, READ)
            try:
                owner = orjson.loads(self._fs.read(fd, 4096, 0))
            finally:
                self._fs.close(fd)
            return f"process {owner['pid']} on {owner['host']} since {owner['since']}"
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
            return ""

    def _write_owner(self, owner: bytes) -> None:
        with contextlib.suppress(OSError):  # the name is a courtesy, the lock holds without it
            fd = self._fs.open(self.path, OVERWRITE)
            try:
                if owner:
                    write_all(self._fs, fd, owner)
            finally:
                self._fs.close(fd)

    def _forget(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                self._fs.close(self._fd)
            self._fd = -1
        self._identity = (-1, -1)
        self._stood = -1
