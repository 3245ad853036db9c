"""A model of a disk that can lose power: every state a crash may leave is listed.

What a file held at its last sync is on the medium; of what was written since,
nothing, all, a part, or zeros of the right length may be. Names (made, linked,
replaced, removed) since the last sync of their folder are there or not, each by
itself; a folder is a name in the one above, and without it nothing in it is there.
This is weaker than any file system in use, so what survives here survives there.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Iterator
from stat import S_IFDIR, S_IFREG
from typing import NamedTuple

from sessiontree.storage.fs import Stat, Times, Unlinked

Names = dict[str, int]
NameChange = Callable[[Names], object]

SLASH = "/"
"""Ends the name of a folder, which holds no bytes. Other folders than those are there always."""


class Snapshot(NamedTuple):
    """The disk at one moment: what is certain, and what is pending.

    Attributes:
        call: the call that had just returned, for the story of a failure.
        durable: the bytes of each file that are on the medium.
        current: the bytes of each file as a running program sees them.
        names: the names that are on the medium.
        changes: the changes of names since then.
        folders: the folders that were made, by their names.
    """

    call: str
    durable: dict[int, bytes]
    current: dict[int, bytes]
    names: Names
    changes: tuple[NameChange, ...]
    folders: frozenset[str] = frozenset()


class CrashDisk(Unlinked):
    """Implements `FileSystem`; `snapshots` has one for each call that changed something."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self._numbers = itertools.count(1)
        self._durable: dict[int, bytes] = {}
        self._current: dict[int, bytearray] = {}
        self._names: Names = {}
        self._durable_names: Names = {}
        self._changes: list[tuple[str, NameChange]] = []
        self._folders: set[str] = set()
        self._open: dict[int, int] = {}
        self.snapshots: list[Snapshot] = []
        for path, content in (files or {}).items():
            number = next(self._numbers)
            self._durable[number] = content
            self._current[number] = bytearray(content)
            self._names[path] = self._durable_names[path] = number
            if path.endswith(SLASH):
                self._folders.add(path)
        self._note("start")

    def _note(self, call: str) -> None:
        current = {number: bytes(content) for number, content in self._current.items()}
        changes = tuple(change for _, change in self._changes)
        durable, names = dict(self._durable), dict(self._durable_names)
        folders = frozenset(self._folders)
        self.snapshots.append(Snapshot(call, durable, current, names, changes, folders))

    def _change(self, path: str, change: NameChange) -> None:
        change(self._names)
        self._changes.append((project_dir(path), change))

    def _check_folder(self, path: str) -> None:
        if project_dir(path).endswith(".blobs/") and project_dir(path) not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def files(self) -> dict[str, bytes]:
        """The files as a running program sees them."""
        return {path: bytes(self._current[number]) for path, number in self._names.items()}

    def open(self, path: str, flags: int) -> int:
        number = self._names.get(path)
        if number is None:
            if not flags & os.O_CREAT:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self._check_folder(path)
            number = self._make(path)
            self._note(f"open {path}")
        elif flags & os.O_EXCL:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if flags & os.O_TRUNC:
            self._durable[number] = b""
            self._current[number].clear()
        fd = next(self._numbers)
        self._open[fd] = number
        return fd

    def _make(self, path: str) -> int:
        made = next(self._numbers)
        self._durable[made] = b""
        self._current[made] = bytearray()
        self._change(path, lambda names: names.__setitem__(path, made))
        return made

    def close(self, fd: int) -> None:
        del self._open[fd]

    def read(self, fd: int, size: int, offset: int) -> bytes:
        return bytes(self._current[self._open[fd]][offset : offset + size])

    def write(self, fd: int, block: bytes) -> int:
        self._current[self._open[fd]] += block
        self._note(f"write {len(block)}")
        return len(block)

    def sync(self, fd: int) -> None:
        number = self._open[fd]
        self._durable[number] = bytes(self._current[number])
        self._note("sync")

    def sync_folder(self, path: str) -> None:
        synced = path + SLASH
        for folder, change in self._changes:
            if folder == synced:
                change(self._durable_names)
        self._changes = [change for change in self._changes if change[0] != synced]
        self._note("sync folder")

    def size(self, fd: int) -> int:
        return len(self._current[self._open[fd]])

    def stat(self, file: int | str) -> Stat:
        number = self._open.get(file) if isinstance(file, int) else self._names.get(file)
        if number is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file)
        return Stat(len(self._current[number]), (0, number), S_IFREG | 0o600)

    def times(self, fd: int) -> Times:
        return self.stat(fd).times

    def replace(self, source: str, target: str) -> None:
        number = self._names[source]

        def change(names: Names) -> None:
            names.pop(source, None)
            names[target] = number

        self._change(target, change)
        self._note(f"replace {target}")

    def link(self, source: str, target: str) -> None:
        if target in self._names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        number = self._names[source]
        self._check_folder(target)
        self._change(target, lambda names: names.__setitem__(target, number))
        self._note(f"link {target}")

    def unlink(self, path: str) -> None:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self._change(path, lambda names: names.pop(path, None))
        self._note(f"unlink {path}")

    def make_folder(self, path: str) -> None:
        if path in self._names or path + SLASH in self._names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self._folders.add(path + SLASH)
        self._make(path + SLASH)
        self._note(f"make folder {path}")

    def remove_folder(self, path: str) -> None:
        self._change(path, lambda names: names.pop(path + SLASH, None))
        self._note(f"remove folder {path}")

    def list(self, path: str) -> list[str]:
        found = [os.path.basename(name) for name in self._names if os.path.dirname(name) == path]
        if not found and path + SLASH not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return found

    def lock(self, fd: int) -> bool:
        return True

    def unlock(self, fd: int) -> None:
        pass


class Folders(CrashDisk):
    """A disk whose every folder is made, seen, and can be renamed with what is in it."""

    def _check_folder(self, path: str) -> None:
        if project_dir(path) not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def stat(self, file: int | str) -> Stat:
        number = self._names.get(f"{file}{SLASH}")
        return super().stat(file) if number is None else Stat(0, (0, number), S_IFDIR | 0o700)

    def list(self, path: str) -> list[str]:
        if path + SLASH not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return [
            os.path.basename(name.removesuffix(SLASH))
            for name in self._names
            if project_dir(name) == path + SLASH and name != path + SLASH
        ]

    def replace(self, source: str, target: str) -> None:
        if source + SLASH not in self._names:
            super().replace(source, target)
            return
        self._check_folder(target)

        def change(names: Names) -> None:
            inside = [name for name in names if name.startswith(source + SLASH)]
            for name in inside:
                names[target + name[len(source) :]] = names.pop(name)

        self._change(target, change)
        self._folders.add(target + SLASH)
        self._note(f"replace {target}")


def project_dir(path: str) -> str:
    """The folder that a name is in, with the slash that ends it."""
    return os.path.dirname(path.removesuffix(SLASH)) + SLASH


def crash_states(snapshot: Snapshot) -> Iterator[dict[str, bytes]]:
    """Every set of files that a crash at this moment may leave, by path."""
    seen: set[tuple[tuple[str, bytes], ...]] = set()
    durable, current = snapshot.durable, snapshot.current
    for kept in _subsets(snapshot.changes):
        names = dict(snapshot.names)
        for change in kept:
            change(names)
        for path in tuple(names):
            if project_dir(path) in snapshot.folders and project_dir(path) not in names:
                del names[path]
        for how in _LOSSES:
            files = {path: how(durable[number], current[number]) for path, number in names.items()}
            key = tuple(sorted(files.items()))
            if key not in seen:
                seen.add(key)
                yield files


def _subsets(changes: tuple[NameChange, ...]) -> Iterator[tuple[NameChange, ...]]:
    for size in range(len(changes) + 1):
        yield from itertools.combinations(changes, size)


def _part(durable: bytes, current: bytes, length: int) -> bytes:
    return durable + current[len(durable) : len(durable) + max(0, length)]


def _zeros(durable: bytes, current: bytes) -> bytes:
    return durable + bytes(len(current) - len(durable))


def _garbage_sector(durable: bytes, current: bytes) -> bytes:
    pending = current[len(durable) :]
    return durable + pending[:7] + b"\x80\xff\n\x00" * (len(pending[7:]) // 4)


_LOSSES: tuple[Callable[[bytes, bytes], bytes], ...] = (
    lambda durable, current: current,
    lambda durable, current: durable,
    lambda durable, current: _part(durable, current, 1),
    lambda durable, current: _part(durable, current, (len(current) - len(durable)) // 2),
    lambda durable, current: _part(durable, current, len(current) - len(durable) - 1),
    lambda durable, current: _part(durable, current, len(current) - len(durable) - 2),
    _zeros,
    _garbage_sector,
)
