"""What is kept beside a session file, and the moves of a session with all of it.

The parts beside a log are the original of a version 1 file and the archives of `gc`. A part is a
run of bytes with a suffix, which is written in one step and read from its start. `FileParts` are
the files beside a session file; those of a session in a database or a bucket are contents of its
place (`storage.contents.ContentParts`). With a transcript of Claude Code, the folder of its own
name moves too, which has the subagents' transcripts and long results.

Invariants: nothing is overwritten. At every moment, and after a power cut, the session is whole in
one of the two places, or its file is in the first, to be moved again. With hard links it is then in
both, one file with two names; it is in parts only if it has two folders. A move that is refused
midway is undone; one that was cut short is finished by moving again. The writer's lock is held
meanwhile, in both places before the file is in the second, so that a program that finds it there
waits for the rest. The lock does not keep the folders where they are: `moving` does.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import Final, Protocol

from sessiontree.errors import (
    SessionExistsError,
    SessionNotFoundError,
    SessionTreeError,
    StorageError,
)
from sessiontree.storage.atomic import (
    UNFINISHED,
    blocks_of,
    create_file,
    link,
    refuse_link,
    swap_file,
)
from sessiontree.storage.blobs import Blobs
from sessiontree.storage.fs import READ_PLAIN, Descriptor, FileSystem
from sessiontree.storage.lock import WriterLock
from sessiontree.storage.names import BLOBS, LOCK, SUFFIX, is_own_folder

_BLOCK: Final = 256 * 1024


class Parts(Protocol):
    """What is kept beside a log, by suffix."""

    def list(self) -> list[str]:
        """Return the suffixes, sorted."""

    def name(self, suffix: str) -> str:
        """Return the name of a part, for messages."""

    def size(self, suffix: str) -> int:
        """Return the number of bytes of a part; -1 if it is not a run of bytes.

        Raises:
            FileNotFoundError: there is no such part; also for `read` and `remove`.
        """

    def read(self, suffix: str) -> Iterator[bytes]:
        """Yield the bytes of a part, block by block."""

    def write(self, suffix: str, blocks: Iterator[bytes]) -> None:
        """Make or replace a part in one step."""

    def remove(self, suffix: str) -> None: ...


def keep(
    parts: Parts, suffix: str, of: str, size: int, content: Callable[[], Iterator[bytes]]
) -> bool:
    """Keep a content as a part; whether it was not kept already.

    Args:
        parts: where to keep it.
        suffix: its name there.
        of: the name of what has the content, for messages.
        size: the bytes of the content.
        content: gives the content, block by block, each time it is called.

    Raises:
        SessionExistsError: another content has the suffix.
    """
    try:
        is_same = parts.size(suffix) == size and begin_alike(parts.read(suffix), content(), size)
    except FileNotFoundError:
        parts.write(suffix, content())
        return True
    if is_same:
        return False
    kept = parts.name(suffix)
    raise SessionExistsError(f"{kept} is there already, and is not a copy of {of}", kept)


def begin_alike(one: Iterable[bytes], other: Iterable[bytes], size: int) -> bool:
    """Whether the first `size` bytes of two contents are the same; one that is shorter is not."""
    return all(
        ours == theirs for ours, theirs in zip_longest(_pieces(one, size), _pieces(other, size))
    )


def _pieces(blocks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The first bytes of blocks, in pieces of one length."""
    waiting = bytearray()
    for block in blocks:
        waiting += block
        while size and len(waiting) >= min(_BLOCK, size):
            piece = bytes(waiting[: min(_BLOCK, size)])
            del waiting[: len(piece)]
            size -= len(piece)
            yield piece
        if not size:
            return
    if waiting and size:
        yield bytes(waiting)


class FileParts:
    """The files beside a session file; see `Parts`.

    Args:
        fs: what has them.
        path: the real path of the session file, with which the name of each part begins.
    """

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self._path = path

    def list(self) -> list[str]:
        folder, name = os.path.split(self._path)
        try:
            names = self._fs.list(folder)
        except FileNotFoundError:
            return []
        return sorted(found[len(name) :] for found in names if found.startswith(f"{name}."))

    def name(self, suffix: str) -> str:
        return self._path + suffix

    def size(self, suffix: str) -> int:
        path = self.name(suffix)
        found = self._fs.stat(path)
        return -1 if found.is_folder or found.is_stream or self._fs.is_link(path) else found.size

    def read(self, suffix: str) -> Iterator[bytes]:
        refuse_link(self._fs, self.name(suffix))
        with Descriptor(self._fs, self._fs.open(self.name(suffix), READ_PLAIN)) as fd:
            yield from blocks_of(self._fs, fd)

    def write(self, suffix: str, blocks: Iterator[bytes]) -> None:
        path = self.name(suffix)
        refuse_link(self._fs, path)
        try:
            self._fs.stat(path)
        except FileNotFoundError:
            create_file(self._fs, path, blocks)
        else:
            swap_file(self._fs, path, blocks)

    def remove(self, suffix: str) -> None:
        self._fs.unlink(self.name(suffix))


def name_beside(log: str, suffix: str) -> str:
    """The name of a part beside a log; in an address, the suffix is before the options."""
    path, mark, options = log.partition("?") if "://" in log else (log, "", "")
    return f"{path}{suffix}{mark}{options}"


MOVING: Final = ".moving.lock"
"""The name of the lock, in the folder of a store, for moving sessions or their folders."""


@contextlib.contextmanager
def moving(fs: FileSystem, root: str) -> Iterator[None]:
    """Hold the lock for moving sessions below a folder, which exists.

    A folder renamed during a move would part a session from its sidecars: the lock of the
    session is renamed with the folder, and stops nobody.
    """
    with contextlib.closing(WriterLock(fs, os.path.join(root, MOVING))) as lock, lock.held():
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # a program that waits makes a new one
                fs.unlink(lock.path)


def move_session(
    fs: FileSystem, file: str, folder: str, begin: Callable[[], object] = lambda: None
) -> str:
    """Move a session and its sidecars to a folder, made if need be; return the new path.

    `begin` is called when the session is locked and its name is free, before anything is moved.

    Raises:
        SessionBusyError: a writer holds it.
        SessionExistsError: the name of the file, or of a sidecar, is taken there.
        SessionNotFoundError: the file is gone.
        StorageError: the system refused; moving again continues where this ended.
    """
    if fs.is_link(file):
        raise StorageError(f"{file} is a link; move the file that it leads to", file)
    target = os.path.join(folder, os.path.basename(file))
    with _move_errors(file, folder):
        fs.stat(file)  # so that no lock is made where there is nothing to move
        with contextlib.closing(WriterLock(fs, file + LOCK)) as lock, lock.held():
            fs.stat(file)  # another program may have moved it before the lock was taken
            _check_free(fs, file, target)
            begin()
            make_folders(fs, folder)
            _move_locked(fs, file, target)
    return target


def _move_locked(fs: FileSystem, file: str, target: str) -> None:
    """Move a session that is locked in its old folder, and lock it in the new one."""
    source, there = file + LOCK, target + LOCK
    is_linked = link(fs, source, there, {errno.EEXIST})
    if not is_linked and not is_same(fs, source, there):  # no links, or a writer's lock there
        with contextlib.closing(WriterLock(fs, there)) as second, second.held():
            _move_all(fs, file, target)
        return
    try:
        _move_all(fs, file, target)
    except (OSError, SessionTreeError):
        if not is_same(fs, file, target):  # the file is not there, so its lock is not needed
            with contextlib.suppress(OSError):
                fs.unlink(there)
        raise


def bring_sidecars(fs: FileSystem, source: str, file: str) -> None:
    """Move what a move that was cut short left beside `source` to a session's file.

    Calling it again finishes what a killed call began.

    Raises:
        SessionBusyError: a writer has the session open with `exclusive=True`.
        SessionExistsError: the name of a sidecar is taken there.
        StorageError: the system refused.
    """
    here, there = os.path.dirname(source), os.path.dirname(file)
    with (
        _move_errors(source, there),
        contextlib.closing(WriterLock(fs, file + LOCK)) as lock,
        lock.held(),
    ):
        pairs = [(source + name, file + name) for name in _endings(fs, source)]
        if (source + BLOBS, file + BLOBS) in pairs:
            _take_over_blobs(fs, source, file)
        for old, new in pairs:
            _check_free(fs, old, new)
        for old, new in pairs:
            if is_same(fs, old, new):
                fs.unlink(old)
            else:
                fs.replace(old, new)
        fs.sync_folder(there)
        fs.sync_folder(here)


def _endings(fs: FileSystem, file: str) -> list[str]:
    """What the names of a session's sidecars have after the session's; not that of the lock."""
    session = os.path.basename(file)
    sidecars = [name for name in fs.list(os.path.dirname(file)) if is_sidecar(name, session)]
    return [name.removeprefix(session) for name in sidecars if name != session + LOCK]


def _move_all(fs: FileSystem, file: str, target: str) -> None:
    here = os.path.dirname(file)
    pairs = [(file, target)]
    pairs += [(file + ending, target + ending) for ending in _endings(fs, file)]
    folder = file.removesuffix(SUFFIX)
    if os.path.basename(folder) in fs.list(here) and _is_own(fs, folder):
        pairs.append((folder, target.removesuffix(SUFFIX)))
    if (file + BLOBS, target + BLOBS) in pairs:
        _take_over_blobs(fs, file, target)
    for source, taken in pairs:
        _check_free(fs, source, taken)
    for source in reversed(_name_all(fs, pairs)):  # the file last: while it is there, moving
        fs.unlink(source)  # again finds it
    with contextlib.suppress(OSError):  # a lock that stays does no harm
        fs.unlink(file + LOCK)
    fs.sync_folder(here)


def _name_all(fs: FileSystem, pairs: list[tuple[str, str]]) -> list[str]:
    """Give all files of a session their names in the new folder, or none.

    Every file that can have two names has both on the medium before anything is renamed;
    a session file that cannot is renamed last. So as long as a crash may part them, the file
    is in the old folder, to be moved again. `pairs` are old and new paths, the session
    file's first. Returns the old paths of the files that have both names now.
    """
    there = os.path.dirname(pairs[0][1])
    linked: list[tuple[str, str]] = []
    renamed: list[tuple[str, str]] = []
    try:
        for source, target in pairs:
            with _unless_unfinished(source):
                if _link(fs, source, target):
                    linked.append((source, target))
        fs.sync_folder(there)
        for source, target in reversed([pair for pair in pairs if pair not in linked]):
            if (source, target) == pairs[0] and renamed:
                fs.sync_folder(there)
            with _unless_unfinished(source):
                _check_free(fs, source, target)
                fs.replace(source, target)
                renamed.append((source, target))
        if renamed:
            fs.sync_folder(there)
    except (OSError, SessionExistsError):
        for source, target in reversed(renamed):
            with contextlib.suppress(OSError):
                fs.replace(target, source)
        for _, target in reversed(linked):
            with contextlib.suppress(OSError):
                fs.unlink(target)
        raise
    return [source for source, _ in linked]


@contextlib.contextmanager
def _unless_unfinished(source: str) -> Iterator[None]:
    """Ignore that a temporary file is gone: its writer removed it."""
    try:
        yield
    except FileNotFoundError:
        if not source.endswith(UNFINISHED):
            raise


def is_sidecar(name: str, session: str) -> bool:
    """Whether a name in a session's folder is that of a sidecar of the session."""
    rest = name[len(session) :]
    return name.startswith(session + ".") and not (SUFFIX in rest or f"{rest}.".startswith(".zst."))


def _is_own(fs: FileSystem, folder: str) -> bool:
    return fs.stat(folder).is_folder and is_own_folder(fs.list(folder))


def has_sidecars(fs: FileSystem, file: str) -> bool:
    """Whether something that belongs to a session is beside the path of its file."""
    with contextlib.suppress(OSError):
        return bool(_endings(fs, file))
    return False


def is_same(fs: FileSystem, source: str, target: str) -> bool:
    """Whether two paths are names of one file."""
    with contextlib.suppress(FileNotFoundError):
        return fs.stat(target).identity == fs.stat(source).identity
    return False


def _take_over_blobs(fs: FileSystem, file: str, target: str) -> None:
    """Add the blobs that are already where a session's folder goes to the session's own.

    A session that was open when its file was moved away may have stored them since. No
    entry names them, and they would keep the file from coming back.
    """
    own, stray = Blobs(fs, file), Blobs(fs, target)
    with contextlib.suppress(FileNotFoundError):
        if not fs.stat(stray.folder).is_folder:
            return
        own.check_own()
        there = dict(own.blobs())
        for blob in list(stray.blobs()):
            if blob.sha256 not in there or stray.is_whole(blob):
                name = os.path.join(stray.folder, blob.sha256)
                fs.replace(name, os.path.join(own.folder, blob.sha256))


def _check_free(fs: FileSystem, source: str, target: str) -> None:
    """Refuse a name that is taken, unless by the same file, or by an empty folder for a folder."""
    with contextlib.suppress(FileNotFoundError):
        found, moved = fs.stat(target), fs.stat(source)
        if found.identity == moved.identity:
            return
        if found.is_folder and moved.is_folder and not fs.list(target):
            return
        raise SessionExistsError(
            f"{target} is there already; nothing was moved, and {source} is where it was: "
            "rename one of them",
            target,
        )


def _link(fs: FileSystem, source: str, target: str) -> bool:
    """Give a file its name in the new folder as well; whether it can have both."""
    if fs.is_link(source) or fs.stat(source).is_folder:
        return False
    try:
        return link(fs, source, target)
    except FileExistsError:
        _check_free(fs, source, target)  # the same file: a move was cut short
        return True


def make_folders(fs: FileSystem, folder: str) -> None:
    """Make a folder, and those above it, unless they exist."""
    above = os.path.dirname(folder)
    with _move_errors(folder, above):
        with contextlib.suppress(FileNotFoundError):
            if fs.stat(folder).is_folder:
                return
        if above != folder:
            make_folders(fs, above)
        try:
            fs.make_folder(folder)
        except FileExistsError:  # another program made it meanwhile, or it is a file
            if not fs.stat(folder).is_folder:
                raise
        fs.sync_folder(above)


@contextlib.contextmanager
def _move_errors(file: str, folder: str) -> Iterator[None]:
    """Raise errors of the system as errors that name both places."""
    try:
        yield
    except SessionTreeError:
        raise
    except FileNotFoundError as error:
        raise SessionNotFoundError(f"{file} is not there any more; look again", file) from error
    except FileExistsError as error:
        raise SessionExistsError(
            f"{error.filename2 or error.filename} is there already", file
        ) from error
    except OSError as error:
        hint = "they are on two file systems" if error.errno == errno.EXDEV else "check the folder"
        cause = f"cannot move or make {file} in {folder}: {error.strerror or error}; {hint}"
        raise StorageError(cause, file) from error
