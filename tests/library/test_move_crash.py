"""Whatever moment the power fails at while a session is moved, it is whole in one place.

A move is made on a disk that lists all states a crash may leave after every call
(`tests/support/crashdisk.py`). In each the session is, with all that belongs to it, in
one of the two places, and moving again ends what was begun; so it does after a crash of
that one. The moves are tested as the harness is: by disks that forget a sync.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Iterator

from sessiontree.storage.sidecars import bring_sidecars, make_folders, move_session
from tests.support.crashdisk import SLASH, CrashDisk, Folders, crash_states
from tests.support.table import for_each

HERE, THERE = "/store/old", "/store/.trash/today/old"
NAME = "chat.jsonl"
BESIDE = {
    NAME: b"the session",
    f"{NAME}.blobs/": b"",
    f"{NAME}.blobs/{'0' * 64}": b"its blob",
    f"{NAME}.v1": b"the original",
}
STORE = {"/store/": b"", f"{HERE}/": b"", **{f"{HERE}/{name}": b for name, b in BESIDE.items()}}

Files = dict[str, bytes]


class Moving(Folders):
    """A name in both places is one file, as it was before the crash."""

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        for path in files:
            here = HERE + path.removeprefix(THERE)
            if files.get(here) == files[path] and not path.endswith(SLASH):
                self._names[path] = self._durable_names[path] = self._names[here]
        self.snapshots.clear()
        self._note("start")


class NoLinks(Moving):
    """One on which a file has one name only."""

    def link(self, source: str, target: str) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), source)


def moved(disk: CrashDisk) -> CrashDisk:
    make_folders(disk, THERE)
    move_session(disk, f"{HERE}/{NAME}", THERE)
    return disk


def wholes(files: Files) -> list[str]:
    """The places where the session is with all that belongs to it."""
    return [
        place
        for place in (HERE, THERE)
        if all(files.get(f"{place}/{name}") == content for name, content in BESIDE.items())
    ]


def without(files: Files, place: str) -> bool:
    names = [name for name in files if name.startswith(f"{place}/") and name != f"{place}/"]
    return all(name.endswith(".lock") for name in names)


def states(disk: CrashDisk) -> Iterator[tuple[str, Files]]:
    for snapshot in disk.snapshots:
        for files in crash_states(snapshot):
            yield snapshot.call, files


def wrong(disk: CrashDisk, make: Callable[[Files], CrashDisk]) -> Iterator[str]:
    """What is wrong in the states that a crash of a move may leave, and of moving again."""
    ended = list(crash_states(disk.snapshots[-1]))
    done: set[frozenset[tuple[str, bytes]]] = set()
    waiting = list(states(disk))
    while waiting:
        when, files = waiting.pop()
        key = frozenset(files.items())
        if key in done:
            continue
        done.add(key)
        is_here = f"{HERE}/{NAME}" in files
        if is_here and files in ended:
            yield "what was moved is back"
        if not wholes(files) and not (is_here and make is NoLinks):
            yield f"{when}: parted: {sorted(files)}"
        elif is_here:
            again = moved(make(files))
            if wholes(again.files()) != [THERE] or not without(again.files(), HERE):
                yield f"{when}: moving again left {sorted(again.files())}"
            waiting += states(again)


@for_each("make", [Moving, NoLinks])
def test_no_crash_parts_a_session_that_is_moved(
    make: Callable[[Files], CrashDisk], record_property: Callable[[str, object], None]
) -> None:
    disk = moved(make(STORE))
    assert wholes(disk.files()) == [THERE]
    assert without(disk.files(), HERE)
    assert list(wrong(disk, make)) == []
    record_property("crash states", sum(1 for _ in states(disk)))


def test_sidecars_that_a_killed_move_left_are_brought_for_good() -> None:
    names = {f"{HERE}/{name}": content for name, content in BESIDE.items() if name != NAME}
    there = {f"{THERE}/{name}": BESIDE[name] for name in (NAME, f"{NAME}.v1")}
    folders = ("/store/", "/store/.trash/", "/store/.trash/today/", f"{HERE}/", f"{THERE}/")
    disk = Moving({**dict.fromkeys(folders, b""), **names, **there})
    bring_sidecars(disk, f"{HERE}/{NAME}", f"{THERE}/{NAME}")
    for files in crash_states(disk.snapshots[-1]):
        assert (wholes(files), without(files, HERE)) == ([THERE], True)


class Forgetful(Moving):
    """Leaves out one sync of a folder."""

    syncs_left = 0

    def sync_folder(self, path: str) -> None:
        type(self).syncs_left -= 1
        if self.syncs_left:
            super().sync_folder(path)


def test_no_sync_of_a_move_could_be_left_out() -> None:
    for number in itertools.count(1):
        Forgetful.syncs_left = number
        disk = moved(Forgetful(STORE))
        if Forgetful.syncs_left > 0:
            break
        assert next(wrong(disk, Moving), None), f"sync {number} does nothing"
    assert number > 6
