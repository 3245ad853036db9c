"""A disk whose calls fail: the real one, but for the call that is to fail.

Nothing here loses power, so what is not to fail is not synced either: the calls
are counted, and the files are real.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec

from sessiontree.storage.fs import Disk, Stat, Times

KINDS = (
    *("open", "close", "read", "write", "sync", "sync_folder"),
    *(
        "size",
        "stat",
        "replace",
        "link",
        "unlink",
        "make_folder",
        "remove_folder",
        "list",
        "lock",
        "unlock",
    ),
)

SHORT_BY_ALL_BUT_ONE = -1
SHORT_BY_ONE = -2
FULL = -3
"""Faults of a write beside error numbers: one byte is written, all but one, or half of
the block and then the disk is full."""


class Fault(NamedTuple):
    """What is to go wrong.

    Attributes:
        kind: the call of the seam that fails.
        nth: which of these calls, from 1.
        error: an error number, or one of the faults of a write.
        stays: whether all later calls of the kind fail as well.
    """

    kind: str
    nth: int
    error: int
    stays: bool

    def __str__(self) -> str:
        names = {SHORT_BY_ALL_BUT_ONE: "one byte", SHORT_BY_ONE: "all but one byte", FULL: "full"}
        name = names.get(self.error) or errno.errorcode[self.error]
        return f"{self.kind} {self.nth}: {name}, {'from then on' if self.stays else 'once'}"

    @property
    def is_short(self) -> bool:
        return self.error in (SHORT_BY_ALL_BUT_ONE, SHORT_BY_ONE)


def faults(counts: dict[str, int], errors: Sequence[int]) -> Iterator[Fault]:
    """Each of some calls failing with each error, once and from then on."""
    for kind in KINDS:
        short = (FULL, SHORT_BY_ALL_BUT_ONE, SHORT_BY_ONE) if kind == "write" else ()
        for nth in range(1, counts[kind] + 1):
            for error in (*errors, *short):
                for stays in (False, True):
                    yield Fault(kind, nth, error, stays)


class FaultyDisk(Disk):
    """Implements `FileSystem`; nothing fails before `arm`.

    Attributes:
        counts: the calls since then, by kind.
        fired: how often the fault came about.
        fired_for: the path of the file that it first was for.
        calls: the calls since it was armed, with their paths.
        after: those since the fault came about.
        descriptors: the paths of what is open.
    """

    def __init__(self) -> None:
        self._fault: Fault | None = None
        self._armed = False
        self.counts = dict.fromkeys(KINDS, 0)
        self.fired = 0
        self.fired_for = ""
        self.calls: list[tuple[str, str]] = []
        self.after: list[tuple[str, str]] = []
        self.descriptors: dict[int, str] = {}

    def arm(self, fault: Fault | None = None) -> None:
        self._fault = fault
        self._armed = True

    def on(self, path: object) -> list[str]:
        """The kinds of the calls that changed a file."""
        changing = ("write", "sync", "replace", "link", "unlink")
        return [kind for kind, file in self.calls if file == str(path) and kind in changing]

    def heal(self) -> None:
        self._armed = False

    def _fails(self, kind: str, what: int | str) -> Fault | None:
        if not self._armed:
            return None
        self.counts[kind] += 1
        path = self.descriptors.get(what, "") if isinstance(what, int) else what
        self.calls.append((kind, path))
        if self.fired:
            self.after.append((kind, path))
        fault = self._fault
        if fault is None or fault.kind != kind:
            return None
        count = self.counts[kind]
        if count == fault.nth or (fault.stays and count > fault.nth):
            if not self.fired:
                self.fired_for = path
            self.fired += 1
            return fault
        return None

    def _call(self, kind: str, what: int | str) -> None:
        fault = self._fails(kind, what)
        if fault is not None:
            raise OSError(fault.error, os.strerror(fault.error))

    def open(self, path: str, flags: int) -> int:
        self._call("open", path)
        fd = super().open(path, flags)
        self.descriptors[fd] = path
        return fd

    def close(self, fd: int) -> None:
        super().close(fd)  # it is closed even where the system reports an error
        self._call("close", self.descriptors.pop(fd))

    def write(self, fd: int, block: bytes) -> int:
        fault = self._fails("write", fd)
        if fault is None:
            return super().write(fd, block)
        if fault.error == SHORT_BY_ALL_BUT_ONE:
            return super().write(fd, block[:1])
        if fault.error == SHORT_BY_ONE:
            return super().write(fd, block[: max(1, len(block) - 1)])
        if fault.error == FULL:
            super().write(fd, block[: len(block) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise OSError(fault.error, os.strerror(fault.error))

    def sync(self, fd: int) -> None:
        self._call("sync", fd)

    def sync_folder(self, path: str) -> None:
        self._call("sync_folder", path)


def _failing(kind: str, place: int) -> Callable[..., Any]:
    """A call of the disk that fails where it is to fail; `place` is that of its file."""

    def call(disk: FaultyDisk, *arguments: Any) -> Any:
        disk._call(kind, arguments[place])
        return getattr(Disk, kind)(disk, *arguments)

    return call


for _kind in (
    "read",
    "size",
    "stat",
    "unlink",
    "make_folder",
    "remove_folder",
    "list",
    "lock",
    "unlock",
):
    setattr(FaultyDisk, _kind, _failing(_kind, 0))
for _kind in ("replace", "link"):
    setattr(FaultyDisk, _kind, _failing(_kind, 1))


class NoLinks(FaultyDisk):
    """A disk on which a file has one name only."""

    def __init__(self, error: int = errno.EPERM) -> None:
        super().__init__()
        self._error = error

    def link(self, source: str, target: str) -> None:
        self._call("link", target)
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        raise OSError(self._error, os.strerror(self._error), target)


LONG_AGO: Final = 1_000_000_000.0


class Settled(Disk):
    """The disk, but the times of a folder are long ago, and tell any two states of it apart.

    Attributes:
        looks: the names of what was looked at by its path; "" for a folder that is open.
    """

    def __init__(self) -> None:
        self.looks: list[str] = []

    def stat(self, file: int | str) -> Stat:
        found = super().stat(file)
        if isinstance(file, str) or found.is_folder:
            self.looks.append("" if isinstance(file, int) else os.path.basename(file))
        if not found.is_folder:
            return found
        names = sorted((entry.name, entry.inode()) for entry in os.scandir(file))
        return msgspec.structs.replace(
            found, modified=LONG_AGO, changed=LONG_AGO + crc32(repr(names).encode()) / 10
        )

    def times(self, fd: int) -> Times:
        return self.stat(fd).times
