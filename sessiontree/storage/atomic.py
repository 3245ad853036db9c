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
from collections.abc import Callable, Iterable, Iterator, Set
from itertools import zip_longest
from typing import Final

from sessiontree.errors import SessionExistsError
from sessiontree.storage.fs import (
    CREATE,
    READ,
    Descriptor,
    FileSystem,
    os_errors,
    write_all,
)
from sessiontree.storage.lines import LARGEST_BLOCK

UNFINISHED: Final = ".tmp"
"""Ends the name of a file that is being written, or whose writer died."""

NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
"""The errors of a file system without hard links."""

_WRITE: Final = 256 * 1024
"""Bytes that are gathered before they are written."""


def check_free(fs: FileSystem, path: str) -> None:
    """Raise SessionExistsError if a path is taken, before work is done for it."""
    with os_errors(path, "make"), contextlib.suppress(FileNotFoundError):
        fs.stat(fs.real_path(path))
        raise FileExistsError(path)


def check_all_free(fs: FileSystem, paths: Iterable[str]) -> None:
    """Do the same for many paths, at the cost of a look into each folder."""
    taken: dict[str, set[str]] = {}
    for path in paths:
        folder, name = os.path.split(path)
        if folder not in taken:
            with os_errors(path, "make"):
                taken[folder] = _names_in(fs, folder)
        if name in taken[folder]:
            check_free(fs, path)


def _names_in(fs: FileSystem, folder: str) -> set[str]:
    try:
        return set(fs.list(folder or os.curdir))
    except (FileNotFoundError, NotADirectoryError):
        return set()


def create_file(
    fs: FileSystem, path: str, blocks: Iterator[bytes], check: Callable[[str], object] | None = None
) -> None:
    """Make a new file with all its content, or none; SessionExistsError if the path is taken.

    `check` is called with the path of the complete file before that gets its name, and may raise.
    """
    target = fs.real_path(path)
    make_file(fs, path, target, blocks, check)
    with os_errors(path, "sync the folder of"):
        fs.sync_folder(os.path.dirname(target))


def make_file(
    fs: FileSystem,
    path: str,
    target: str,
    blocks: Iterator[bytes],
    check: Callable[[str], object] | None = None,
) -> None:
    """Do the same at the real path `target`, but leave its folder to the caller to sync."""
    beside = _write_beside(fs, path, target, blocks)
    try:
        if check is not None:
            check(beside)
        with os_errors(path, "make"):
            _name(fs, beside, target)
    finally:
        with contextlib.suppress(OSError):
            fs.unlink(beside)


def _name(fs: FileSystem, beside: str, target: str) -> None:
    """Give a finished file its name, unless it is taken."""
    if link(fs, beside, target):
        return
    taken = Descriptor(fs, fs.open(target, CREATE))  # fails where the name is taken
    with unlinked_on_failure(fs, target):
        taken.close()
        fs.replace(beside, target)


def link(fs: FileSystem, source: str, target: str, others: Set[int] = frozenset()) -> bool:
    """Give a file a second name; False where there are no hard links, or on `others` errors."""
    try:
        fs.link(source, target)
    except OSError as error:
        if error.errno not in NO_LINKS | others:
            raise
        return False
    return True


def swap_file(fs: FileSystem, path: str, blocks: Iterator[bytes]) -> None:
    """Put a new file in place of an old one, which is gone then, and stays on an error."""
    target = fs.real_path(path)
    beside = _write_beside(fs, path, target, blocks)
    _put_in_place(fs, path, beside, target)


def replace_file(fs: FileSystem, path: str, suffix: str, blocks: Iterator[bytes]) -> None:
    """Put a new file in place of an old one, which stays under its name with a suffix.

    The caller holds the writer's lock: so temporary files beside it are left by programs
    that died. Raises SessionExistsError if a file with other content has that name.
    """
    target = fs.real_path(path)
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
    refuse_link(fs, kept)
    try:
        is_linked = link(fs, target, kept)
    except FileExistsError:
        if _same_bytes(fs, target, kept):
            return
        message = f"{kept} is there already, and is not a copy of {target}; move it away"
        raise SessionExistsError(
            f"{message} and try again: both were left as they are", kept
        ) from None
    if not is_linked:
        with Descriptor(fs, fs.open(target, READ)) as fd:
            create_file(fs, kept, blocks_of(fs, fd))


def blocks_of(fs: FileSystem, fd: int) -> Iterator[bytes]:
    """The bytes of an open file."""
    offset = 0
    while block := fs.read(fd, LARGEST_BLOCK, offset):
        yield block
        offset += len(block)


def refuse_link(fs: FileSystem, path: str) -> None:
    """Refuse a link at the path of a sidecar: it may lead to any file.

    Raises:
        SessionExistsError: there is one.
    """
    if fs.is_link(path):
        raise SessionExistsError(
            f"{path} is a link, and a session writes no file of its own through a link; "
            "nothing was changed: remove it and try again",
            path,
        )


def _same_bytes(fs: FileSystem, one: str, other: str) -> bool:
    if fs.stat(one).identity == fs.stat(other).identity:
        return True
    with contextlib.ExitStack() as opened:
        fds = [opened.enter_context(Descriptor(fs, fs.open(path, READ))) for path in (one, other)]
        return all(
            first == second for first, second in zip_longest(*(blocks_of(fs, fd) for fd in fds))
        )


def _write_beside(fs: FileSystem, path: str, target: str, blocks: Iterator[bytes]) -> str:
    beside = f"{target}.{os.getpid()}-{os.urandom(4).hex()}{UNFINISHED}"
    with os_errors(path, "make"):
        file = Descriptor(fs, fs.open(beside, CREATE))
    with unlinked_on_failure(fs, beside), os_errors(path, "write"), file as fd:
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
    folder, name = os.path.split(fs.real_path(path))
    beside = re.compile(re.escape(name) + r"\.[0-9]+-[0-9a-f]{8}" + re.escape(UNFINISHED))
    try:
        found = fs.list(folder)
    except OSError:  # not a reason for the caller to fail
        return []
    return sorted(os.path.join(folder, other) for other in found if beside.fullmatch(other))
