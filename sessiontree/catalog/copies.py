"""Copies of sessions from one store to another, byte for byte, with the same names."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from sessiontree.catalog.location import check_apart, make_room, source_at, target_at
from sessiontree.errors import (
    DecoderMissingError,
    ForeignFormatError,
    NotASessionError,
    SessionExistsError,
    SessionTreeError,
    StorageError,
    UsageError,
)
from sessiontree.operations.copy import CopiedSession, SessionCopy
from sessiontree.storage.backends import open_log
from sessiontree.storage.files import SUFFIX
from sessiontree.storage.fs import DISK, FileSystem
from sessiontree.storage.place import is_address

PathLike = str | os.PathLike[str]

POLL_SECONDS: Final = 0.5
"""How often a mirror looks for changes in a folder."""

POLL_PLACE_SECONDS: Final = 5.0
"""How often it looks in a place, where each look is a request."""

NO_SESSION: Final = (ForeignFormatError, NotASessionError, DecoderMissingError)
"""The errors for files that are no sessions of sessiontree."""


def note_problem(problems: list[str], error: SessionTreeError, *files: str) -> None:
    """Add an error of one session to the problems; raise one that is about a whole place.

    An error about a session names the session. So the same text a second time is about the place,
    such as a server that is down, and no other session will do better. Where an error names none
    of the files of its session, the first of them is put before it.
    """
    said = str(error)
    if problems and (problems[-1] == said or problems[-1].endswith(f": {said}")):
        raise error
    is_named = not files or any(file.partition("?")[0] in said for file in files)
    problems.append(said if is_named else f"{files[0]}: {said}")


class CopyResult(msgspec.Struct, frozen=True):
    """What `copy` did.

    Attributes:
        sessions: the sessions that are in the target now, in the order of their names.
        skipped: the files that are no sessions of sessiontree, each with the reason.
        problems: what could not be copied.
        damage: what is wrong with the lines of the sessions, which were copied as they are.
    """

    sessions: list[CopiedSession]
    skipped: list[str]
    problems: list[str]
    damage: list[str]

    @property
    def is_unchanged(self) -> bool:
        """Whether nothing was written."""
        return all(one.is_unchanged for one in self.sessions)

    def as_dict(self) -> dict[str, Any]:
        """Return the shape that `copy --json` prints."""
        return {
            "sessions": [one.as_dict() for one in self.sessions],
            "written": sum(one.written for one in self.sessions),
            "blobs": sum(one.blobs for one in self.sessions),
            "skipped": self.skipped,
            "problems": self.problems,
            "damage": self.damage,
        }


def copy(
    source: PathLike,
    target: PathLike,
    *,
    each: Callable[[CopiedSession], object] | None = None,
    fs: FileSystem = DISK,
) -> CopyResult:
    """Copy a session, or all sessions of a store, byte for byte: logs, blobs and archives.

    A copy that was cut short is continued by the next call. The source is never locked; a session
    that grows meanwhile is copied up to a whole line. What was written is read back and compared.
    The sessions in the trash are left out, unless the trash is the source.

    Args:
        source: the path or address of a session, or of a store: a folder, or a place.
        target: where to copy it. A name that ends in `.jsonl` is that of a session; any other is a
            store, in which the copies have the names of the originals.
        each: called with each session as soon as it is copied.

    Returns:
        What was done. A session of a store that cannot be copied hides no other.

    Raises:
        SessionNotFoundError: there is nothing to copy.
        SessionExistsError: the target of one session is there, and is no earlier copy of it.
        UsageError: source and target are the same, or a store is to become a session.
        SessionTreeError: a session, given by its own path or address, cannot be copied.
        StorageError: a place cannot be used any more.
    """
    return Mirror(source, target, fs=fs).go(each)


class Mirror:
    """A copy of a session or a store that is brought up to date again and again.

    Raises:
        SessionNotFoundError, UsageError: as `copy` raises them.
    """

    def __init__(self, source: PathLike, target: PathLike, *, fs: FileSystem = DISK) -> None:
        self._fs = fs
        self._source = source_at(os.fspath(source), fs)
        self._target = target_at(os.fspath(target), fs)
        check_apart(self._source, self._target)
        if self._source.store is not None and self._target.store is None:
            raise UsageError(
                f"{self._source.file} is a store, and {self._target.file} the name of one session; "
                f"give a folder, or an address that does not end in {SUFFIX}"
            )
        self._copies: dict[str, SessionCopy] = {}
        self._seen: dict[str, object] = {}

    def go(self, each: Callable[[CopiedSession], object] | None = None) -> CopyResult:
        """Copy what is new; see `copy`."""
        result = CopyResult([], [], [], [])
        if self._source.store is None:
            self._copy("", result, each)
            return result
        for name, state in sorted(self._source.store.states(result.problems.append)):
            if self._seen.get(name) == state:
                continue
            try:
                self._copy(name, result, each)
            except NO_SESSION as error:
                result.skipped.append(str(error))
            except SessionTreeError as error:
                note_problem(result.problems, error, *self._places(name))
                if isinstance(error, StorageError) and not isinstance(error, SessionExistsError):
                    continue  # the next pass tries again
            self._seen[name] = state
        return result

    def _copy(
        self, name: str, result: CopyResult, each: Callable[[CopiedSession], object] | None
    ) -> None:
        source, target = self._places(name)
        copy = self._copies.get(name) or SessionCopy(self._fs, source, target)
        make_room(self._fs, target)
        done = copy.go()
        self._copies[name] = copy
        result.sessions.append(done)
        result.problems.extend(done.problems)
        result.damage.extend(done.damage)
        if each is not None:
            each(done)

    def _places(self, name: str) -> tuple[str, str]:
        """The paths or addresses of a session and its copy; a session by itself has no name."""
        one, other = self._source, self._target
        source = one.file if one.store is None else one.store.file(name)
        target = other.file if other.store is None else other.store.file(name or one.base)
        return source, target

    def watch(
        self, stop: threading.Event, each: Callable[[CopiedSession], object] | None = None
    ) -> Iterator[CopyResult]:
        """Copy what is new, again and again, until `stop` is set; yield each pass that did it.

        The first pass is always yielded. A problem is reported when it is new, and what the system
        refused is tried again.
        """
        result = self.go(each)
        yield result
        told = set(result.problems)
        for _ in self._waits(stop):
            try:
                result = self.go(each)
            except StorageError as error:
                result = CopyResult([], [], [str(error)], [])
            new = [problem for problem in result.problems if problem not in told]
            if new or result.skipped or not result.is_unchanged:
                yield msgspec.structs.replace(result, problems=new)
            told.update(new)

    def _waits(self, stop: threading.Event) -> Iterator[object]:
        """Yield when something may be new, and now and then, until `stop` is set."""
        if self._source.store is None:
            with contextlib.closing(open_log(self._fs, self._source.file, readonly=True)) as log:
                yield from log.changes(stop)
            return
        seconds = POLL_PLACE_SECONDS if is_address(self._source.file) else POLL_SECONDS
        while not stop.wait(seconds):
            yield None
