"""The seam to the disk, and errors that name the file and the next step.

Every call by which this package touches the disk is here. Nothing else in the package opens for
writing, writes, renames, syncs or unlinks. Another implementation of `FileSystem` may take its
place: one in memory for sessions without a file, one that fails or records for tests.

Media assumptions: `flock` works and ends with its process (no NFS); a file that was synced, and its
name in a folder that was synced, survive a power cut; renaming within a folder is atomic; bytes
appended to a file do not change those before them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
from collections.abc import Iterator
from stat import S_IFREG, S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, Final, Literal, NoReturn, Protocol

import msgspec

from sessiontree.errors import (
    SessionExistsError,
    SessionNotFoundError,
    SessionTreeError,
    StorageError,
)

if TYPE_CHECKING:
    from sessiontree.storage.databases import StoredRows

APPEND: Final = os.O_RDWR | os.O_APPEND
CREATE: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL
LOCK: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
OVERWRITE: Final = os.O_WRONLY | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
"""Neither goes through a link, which may lead to another program's file."""
READ: Final = os.O_RDONLY
FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
"""To look at a folder, which not every system opens."""
READ_PLAIN: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""To read a file at this very path: a link is refused, and a pipe or device does not wait."""

POLL_MILLISECONDS: Final = 500
"""How often a follower looks for changes; not all file systems report them."""

Durability = Literal["fsync", "os"]
"""`fsync`: an acknowledged entry survives a power cut; `os`: the death of the process.

`group` is `fsync` for sessions in a bucket: what threads append at the same time is one object.
"""


Times = tuple[float, float]
"""When the bytes of a file, or the names in a folder, last changed, and when anything of it did."""


class Stat(msgspec.Struct, frozen=True, gc=False):
    """What a file is: `identity` tells one file from another at the same path.

    `mode` is its kind and its permissions, as POSIX has them in `st_mode`.
    `modified` is when its bytes last changed, in seconds since 1970, and `changed` when
    anything of it did, which nobody can set; 0 where that is not known.
    """

    size: int
    identity: tuple[int, int]
    mode: int
    modified: float = 0.0
    changed: float = 0.0

    @property
    def times(self) -> Times:
        return self.modified, self.changed

    @property
    def is_folder(self) -> bool:
        return S_ISDIR(self.mode)

    @property
    def is_stream(self) -> bool:
        """Whether it is a pipe, a socket or a device: nothing that is read by position."""
        return not S_ISREG(self.mode) and not S_ISDIR(self.mode)


class FileSystem(Protocol):
    """The calls of the seam. All raise OSError as the system does."""

    def open(self, path: str, flags: int) -> int:
        """A descriptor; a file made here is readable by its owner alone."""

    def close(self, fd: int) -> None: ...

    def read(self, fd: int, size: int, offset: int) -> bytes:
        """Up to `size` bytes from `offset`, fewer only at the end of the file."""

    def write(self, fd: int, block: bytes) -> int:
        """Write at the end; the number of bytes written may be short."""

    def sync(self, fd: int) -> None:
        """Return when the file's bytes and size are on the medium."""

    def sync_folder(self, path: str) -> None:
        """Return when the names in a folder are on the medium."""

    def size(self, fd: int) -> int:
        """The bytes of an open file; its times are not asked for, see `surroundings`."""

    def stat(self, file: int | str) -> Stat: ...

    def times(self, fd: int) -> Times:
        """When an open file or folder last changed; costs less than `stat`."""

    def replace(self, source: str, target: str) -> None:
        """Rename, taking the place of what is there."""

    def link(self, source: str, target: str) -> None:
        """Give a file a second name; fails where the name is taken."""

    def unlink(self, path: str) -> None: ...

    def make_folder(self, path: str) -> None:
        """Make a folder that its owner alone may enter; fails where the name is taken."""

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""

    def list(self, path: str) -> list[str]:
        """The names in a folder, in no order."""

    def lock(self, fd: int) -> bool:
        """Try to take the exclusive lock of a file; whether it was free."""

    def unlock(self, fd: int) -> None: ...

    def real_path(self, path: str) -> str:
        """The path without links in it.

        Raises:
            SessionNotFoundError: no file can have this name.
        """

    def is_link(self, path: str) -> bool: ...

    def watch(self, folder: str, stop: threading.Event) -> Iterator[object]:
        """Yield when a file in a folder may have changed, and now and then, until `stop` is set."""


class Unlinked:
    """A base of file systems without links, whose bytes need no sync."""

    def sync(self, fd: int) -> None:
        pass

    def sync_folder(self, path: str) -> None:
        pass

    def real_path(self, path: str) -> str:
        return path

    def is_link(self, path: str) -> bool:
        return False

    def watch(self, folder: str, stop: threading.Event) -> Iterator[object]:
        while not stop.wait(POLL_MILLISECONDS / 1000):
            yield None


_in_databases: Final[dict[int, tuple[bytes, Stat]]] = {}
"""The open sessions in databases, by descriptor: the bytes of each, and its state."""


class Disk:
    """The real disk, and the sessions in databases, which are files of a folder for all above."""

    def open(self, path: str, flags: int) -> int:
        more = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        try:
            return os.open(path, flags | more, 0o600)
        except NotADirectoryError:
            if (rows := _rows_at(path)) is None:
                raise
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise PermissionError(errno.EACCES, "it is in a database of another program", path)
        fd = os.open(os.devnull, os.O_RDONLY | more)  # a number that no file has
        _in_databases[fd] = rows
        return fd

    def close(self, fd: int) -> None:
        _in_databases.pop(fd, None)
        os.close(fd)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        if fd in _in_databases:
            return _in_databases[fd][0][offset : offset + size]
        block = os.pread(fd, size, offset)
        if len(block) == size or not block:
            return block
        blocks = [block]
        got = len(block)
        while got < size and (block := os.pread(fd, size - got, offset + got)):
            blocks.append(block)
            got += len(block)
        return b"".join(blocks)

    def write(self, fd: int, block: bytes) -> int:
        return os.write(fd, block)

    def sync(self, fd: int) -> None:
        if sys.platform == "darwin":
            import fcntl

            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # fsync there leaves the drive's cache alone
        else:
            os.fdatasync(fd)

    def sync_folder(self, path: str) -> None:
        with Descriptor(self, os.open(path, os.O_RDONLY | os.O_DIRECTORY)) as fd:
            os.fsync(fd)

    def size(self, fd: int) -> int:
        if fd in _in_databases:
            return len(_in_databases[fd][0])
        return os.lseek(fd, 0, os.SEEK_END)

    def stat(self, file: int | str) -> Stat:
        if isinstance(file, int) and file in _in_databases:
            return _in_databases[file][1]
        try:
            found = os.stat(file)
        except NotADirectoryError:
            if isinstance(file, int) or (in_database := _stat_at(file)) is None:
                raise
            return in_database
        identity = (found.st_dev, found.st_ino)
        return Stat(found.st_size, identity, found.st_mode, found.st_mtime, found.st_ctime)

    def times(self, fd: int) -> Times:
        if fd in _in_databases:
            return _in_databases[fd][1].times
        found = os.fstat(fd)
        return found.st_mtime, found.st_ctime

    def replace(self, source: str, target: str) -> None:
        os.replace(source, target)

    def link(self, source: str, target: str) -> None:
        os.link(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def make_folder(self, path: str) -> None:
        os.mkdir(path, 0o700)

    def remove_folder(self, path: str) -> None:
        os.rmdir(path)

    def list(self, path: str) -> list[str]:
        return os.listdir(path)

    def lock(self, fd: int) -> bool:
        return _lock(fd, blocking=False)

    def unlock(self, fd: int) -> None:
        _unlock(fd)

    def real_path(self, path: str) -> str:
        return real_path(path)

    def is_link(self, path: str) -> bool:
        return os.path.islink(path)

    def watch(self, folder: str, stop: threading.Event) -> Iterator[object]:
        from watchfiles import watch  # heavy, and only followers need it

        # If the system has no watches left, the loop below looks now and then.
        with contextlib.suppress(OSError, RuntimeError):
            yield from watch(
                folder,
                watch_filter=None,
                stop_event=stop,
                debounce=20,
                step=5,
                rust_timeout=POLL_MILLISECONDS,
                yield_on_timeout=True,
                recursive=False,
            )
        while not stop.wait(POLL_MILLISECONDS / 1000):
            yield None


def _lock(fd: int, *, blocking: bool) -> bool:
    """Load filelock at the first lock, for a reader needs none; then lock."""
    global _lock
    from filelock import lock_descriptor as _lock

    return _lock(fd, blocking=blocking)


def _unlock(fd: int) -> None:
    """Load filelock, then unlock; not with the lock, for a thread may come between the two."""
    global _unlock
    from filelock import unlock_descriptor as _unlock

    _unlock(fd)


def _rows_at(path: str) -> tuple[bytes, Stat] | None:
    """The bytes and the state of a session in a database; None for a path in none."""
    from sessiontree.storage import databases  # with sqlite3, and few sessions are in a database

    found = databases.content_at(path)
    return None if found is None else (found[0], _stat_of(found[1], len(found[0])))


def _stat_at(path: str) -> Stat | None:
    """The state of a session in a database; None for a path in none."""
    from sessiontree.storage import databases  # as above

    found = databases.rows_at(path)
    return None if found is None else _stat_of(found, databases.size_at(path))


def _stat_of(rows: StoredRows, size: int) -> Stat:
    changed = rows.modified / 1000
    return Stat(size, rows.identity, S_IFREG | 0o400, changed, changed)


DISK: Final[FileSystem] = Disk()


def write_all(fs: FileSystem, fd: int, block: bytes) -> None:
    """Write a block whole, over as many short writes as it takes."""
    written = fs.write(fd, block)
    while written < len(block):
        more = fs.write(fd, block[written:])
        if more <= 0:
            raise OSError("the system wrote nothing")
        written += more


class Descriptor:
    """The one owner of an open descriptor; as a context it gives the number, and closes it.

    Invariants: the number is given up before it is closed, as from then on it may be another
    file's. So whatever interrupts its owner, it is closed once, or never. Nothing copies an
    owner, and one that is dropped closes its descriptor.
    """

    __slots__ = ("_fs", "number")

    def __init__(self, fs: FileSystem, number: int) -> None:
        self.number = number  # the number of the descriptor; -1 after `close`
        self._fs = fs

    def close(self) -> None:
        """Give up the number and close the descriptor; a second call does nothing."""
        number, self.number = self.number, -1
        if number >= 0:
            self._fs.close(number)

    def __enter__(self) -> int:
        return self.number

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __del__(self) -> None:
        """Close a descriptor that was dropped without `close`."""
        if getattr(self, "number", -1) >= 0:
            with contextlib.suppress(Exception):  # at the end of the process all may be gone
                self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a descriptor has one owner, which cannot be copied")


class LockDescriptor(Descriptor):
    """The owner of a descriptor that may be locked: it is unlocked before it is given up.

    A forked child has its parent's lock on the same descriptor, and only closes it.
    """

    __slots__ = ("_process", "is_locked")

    def __init__(self, fs: FileSystem, number: int) -> None:
        self._process = os.getpid()
        self.is_locked = False  # True if it may be locked
        super().__init__(fs, number)

    def lock(self) -> bool:
        """Try to take the exclusive lock; return True if it was free."""
        self.is_locked = True  # first: an interrupt may hide the answer
        self.is_locked = self._fs.lock(self.number)
        return self.is_locked

    def close(self) -> None:
        if self.is_locked and self._process == os.getpid():
            with contextlib.suppress(OSError):  # closing unlocks as well
                self._fs.unlock(self.number)
        self.is_locked = False
        super().close()


_STEPS: Final = {
    errno.EACCES: "check the permissions of the file and its folder",
    errno.EPERM: "check the permissions of the file and its folder",
    errno.EROFS: "the medium is read-only; open it with readonly=True, or copy the file",
    errno.ENOSPC: "the disk is full; make space and try again",
    errno.EDQUOT: "the quota is used up; make space and try again",
    errno.ENOTDIR: "a part of the path is a file, not a folder; move it away",
    errno.ENOENT: "the folder it belongs in is gone; put that back",
    errno.ELOOP: "the path is a circle of links",
    errno.ENAMETOOLONG: "choose a shorter name",
}


def real_path(path: str) -> str:
    """The path without links in it.

    Raises:
        SessionNotFoundError: no file can have this name.
    """
    if not path or "\0" in path or not _can_be_encoded(path):
        raise SessionNotFoundError(f"{path!r} is not the name of a file; check the path", path)
    return os.path.realpath(path)


def _can_be_encoded(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:  # half a character
        return False
    return True


@contextlib.contextmanager
def os_errors(path: str, verb: str) -> Iterator[None]:
    """Raise errors of the system as typed errors; `verb` is what is done with the file."""
    try:
        yield
    except SessionTreeError:
        raise
    except FileNotFoundError as error:
        raise _not_found(path, verb) from error
    except FileExistsError as error:
        message = f"{path} is there already and was left as it is; choose another name"
        raise SessionExistsError(message, path) from error
    except OSError as error:
        raise _storage_error(path, verb, error) from error


@contextlib.contextmanager
def refused(verb: str, path: str) -> Iterator[None]:
    """Raise each error of the system as a plain `StorageError`, as for `os_errors`."""
    try:
        yield
    except SessionTreeError:
        raise
    except OSError as error:
        raise _storage_error(path, verb, error) from error


def _not_found(path: str, verb: str) -> SessionNotFoundError:
    folder = os.path.dirname(path) or "."
    if os.path.isdir(folder):
        return SessionNotFoundError(f"there is no file {path}; check the path", path)
    hint = "make it first" if verb == "make" else "check the path"
    return SessionNotFoundError(f"cannot {verb} {path}: there is no folder {folder}; {hint}", path)


def _storage_error(path: str, verb: str, error: OSError) -> StorageError:
    step = _STEPS.get(error.errno or 0, "check the path and the medium")
    return StorageError(f"cannot {verb} {path}: {error.strerror or error}; {step}", path)
