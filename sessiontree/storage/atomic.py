"""New files: made whole or not at all, as a new name or in place of an old file.

Invariants: a file is written under another name, synced, then named, and its folder is
synced. So whatever happens, a path names the old file or the new one, or nothing if
there was none, and never a part. A name that is taken is replaced only on request. The
content may come in pieces of any size: they are gathered into large writes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Generator, Iterator
from typing import Final

from sessiontree.errors import SessionExistsError
from sessiontree.storage.fs import CREATE, READ, FileSystem, write_all
from sessiontree.storage.lines import LARGEST_BLOCK
from sessiontree.storage.oserrors import os_errors, real_path

UNFINISHED: Final = ".tmp"
"""Ends the name of a file that is being written, or whose writer died."""

NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
"""The errors of a file system without hard links."""

_WRITE: Final = 256 * 1024
"""Bytes that are gathered before they are written."""


def check_free(fs: FileSystem, path: str) -> None:
    """Check that a path is free, before work is done for it.

    Raises:
        SessionExistsError: it is taken.
    """
    with os_errors(path, "make"), contextlib.suppress(FileNotFoundError):
        fs.stat(real_path(path))
        raise FileExistsError(path)


def create_file(fs: FileSystem, path: str, blocks: Iterator[bytes]) -> None:
    """Make a new file with all its content, or none.

    Raises:
        SessionExistsError: the path is taken; the file there stays.
        StorageError: it cannot be written.
    """
    target = real_path(path)
    beside = _write_beside(fs, path, target, blocks)
    try:
        with os_errors(path, "make"):
            _name(fs, beside, target)
    finally:
        with contextlib.suppress(OSError):
            fs.unlink(beside)
    with os_errors(path, "sync the folder of"):
        fs.sync_folder(os.path.dirname(target))


def _name(fs: FileSystem, beside: str, target: str) -> None:
    """Give a finished file its name, unless it is taken."""
    try:
        fs.link(beside, target)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        fd = fs.open(target, CREATE)  # takes the name, or fails where it is taken
        with unlinked_on_failure(fs, target):
            fs.close(fd)
            fs.replace(beside, target)


def swap_file(fs: FileSystem, path: str, blocks: Iterator[bytes]) -> None:
    """Put a new file in place of an old one, which is then gone.

    At every moment the path names the old file or the new one, whole.

    Raises:
        StorageError: it cannot be written; the old one stays.
    """
    target = os.path.realpath(path)
    beside = _write_beside(fs, path, target, blocks)
    _put_in_place(fs, path, beside, target)


def replace_file(fs: FileSystem, path: str, suffix: str, blocks: Iterator[bytes]) -> None:
    """Put a new file in place of an old one, which stays under its name with a suffix.

    At every moment the path names the old file or the new one, whole. The caller holds the
    writer's lock: so temporary files beside it are left by programs that died.

    Raises:
        SessionExistsError: that name is taken by a file with other content.
        StorageError: it cannot be written.
    """
    target = os.path.realpath(path)
    kept = target + suffix
    for stray in strays(fs, target):
        with contextlib.suppress(OSError):
            fs.unlink(stray)
    beside = _write_beside(fs, path, target, blocks)
    with unlinked_on_failure(fs, beside), os_errors(kept, "make"):
        _keep(fs, target, kept)
        fs.sync_folder(os.path.dirname(target))
    _put_in_place(fs, path, beside, target)


def _put_in_place(fs: FileSystem, path: str, beside: str, target: str) -> None:
    with unlinked_on_failure(fs, beside), os_errors(path, "replace"):
        fs.replace(beside, target)
    with os_errors(path, "sync the folder of"):
        fs.sync_folder(os.path.dirname(target))


@contextlib.contextmanager
def unlinked_on_failure(fs: FileSystem, path: str) -> Iterator[None]:
    """Remove a file if what is done with it fails."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            fs.unlink(path)
        raise


def _keep(fs: FileSystem, target: str, kept: str) -> None:
    """Give a file a second name, unless an earlier attempt did; without hard links, a copy."""
    try:
        fs.link(target, kept)
    except FileExistsError:
        if not _same_bytes(fs, target, kept):
            message = f"{kept} is there already, and is not a copy of {target}; move it away"
            raise SessionExistsError(
                f"{message} and try again: both were left as they are", kept
            ) from None
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        with contextlib.closing(_blocks(fs, target)) as blocks:
            create_file(fs, kept, blocks)


def _blocks(fs: FileSystem, path: str) -> Generator[bytes, None, None]:
    with _closing(fs, fs.open(path, READ)) as fd:
        offset = 0
        while block := fs.read(fd, LARGEST_BLOCK, offset):
            yield block
            offset += len(block)


def _same_bytes(fs: FileSystem, one: str, other: str) -> bool:
    if fs.stat(one).identity == fs.stat(other).identity:
        return True
    with contextlib.ExitStack() as opened:
        fds = [opened.enter_context(_closing(fs, fs.open(path, READ))) for path in (one, other)]
        offset = 0
        while True:
            first, second = (fs.read(fd, LARGEST_BLOCK, offset) for fd in fds)
            if first != second or not first:
                return first == second
            offset += len(first)


@contextlib.contextmanager
def _closing(fs: FileSystem, fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        fs.close(fd)


def _write_beside(fs: FileSystem, path: str, target: str, blocks: Iterator[bytes]) -> str:
    beside = f"{target}.{os.getpid()}-{os.urandom(4).hex()}{UNFINISHED}"
    with os_errors(path, "make"):
        fd = fs.open(beside, CREATE)
    with unlinked_on_failure(fs, beside), os_errors(path, "write"), _closing(fs, fd):
        for block in _gathered(blocks):
            write_all(fs, fd, block)
        fs.sync(fd)
    return beside


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= _WRITE:
            yield b"".join(waiting)
            waiting, size = [], 0
    if size:
        yield b"".join(waiting)


def strays(fs: FileSystem, path: str) -> list[str]:
    """The temporary files beside a file: their writer is at work, or was killed."""
    folder, name = os.path.split(real_path(path))
    beside = re.compile(re.escape(name) + r"\.[0-9]+-[0-9a-f]{8}" + re.escape(UNFINISHED))
    try:
        found = fs.list(folder)
    except OSError:  # not a reason for the caller to fail
        return []
    return sorted(os.path.join(folder, other) for other in found if beside.fullmatch(other))
