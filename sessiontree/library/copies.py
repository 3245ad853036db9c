"""Copies of sessions between stores, byte for byte, and the sync of two copies."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from sessiontree.core.callback import check_never_awaited
from sessiontree.errors import (
    DecoderMissingError,
    ForeignFormatError,
    MigrationRefusedError,
    NotASessionError,
    SessionExistsError,
    SessionNotFoundError,
    SessionTreeError,
    StorageError,
    UsageError,
    with_step,
)
from sessiontree.library.catalogs import (
    Catalog,
    Endpoint,
    check_apart,
    make_room,
    source_at,
    target_at,
)
from sessiontree.operations.copy import CopiedSession, SessionCopy
from sessiontree.operations.sync import SyncedSession, check_kind, sync_session
from sessiontree.storage.fs import DISK, FileSystem
from sessiontree.storage.names import SUFFIX
from sessiontree.storage.places import located, open_log

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


OneSession = TypeVar("OneSession", CopiedSession, SyncedSession)


class TransferResult(msgspec.Struct, Generic[OneSession], frozen=True):
    """What `copy` or `sync` did."""

    sessions: list[OneSession]
    """The sessions that both sides have now, in the order of their names."""

    skipped: list[str]
    """The files that are not copied or united, each with the reason."""

    problems: list[str]
    """What could not be done."""

    damage: list[str]
    """What is wrong with the lines of the sessions, which are copied as they are."""

    @property
    def is_unchanged(self) -> bool:
        """True if nothing was written."""
        return all(one.is_unchanged for one in self.sessions)

    def as_dict(self) -> dict[str, Any]:
        """Return the shape that `--json` prints."""
        return {
            "sessions": [one.as_dict() for one in self.sessions],
            "skipped": self.skipped,
            "problems": self.problems,
            "damage": self.damage,
        }


def _note(
    session: OneSession,
    result: TransferResult[OneSession],
    each: Callable[[OneSession], object] | None,
) -> None:
    result.sessions.append(session)
    result.problems.extend(session.problems)
    result.damage.extend(session.damage)
    if each is not None:
        each(session)


class CopyResult(TransferResult[CopiedSession], frozen=True):
    """What `copy` did: the sessions that the target has now, and what is wrong.

    `skipped` are the files that are not sessions of sessiontree, each with the reason; `problems`
    is what could not be copied; `damage` is copied as it is.
    """

    def as_dict(self) -> dict[str, Any]:
        """Return the shape that `copy --json` prints."""
        shape = super().as_dict()
        return {
            "sessions": shape["sessions"],
            "written": sum(one.written for one in self.sessions),
            "blobs": sum(one.blobs for one in self.sessions),
            **shape,
        }


class SyncResult(TransferResult[SyncedSession], frozen=True):
    """What `sync` did: the sessions of both stores, and what is wrong.

    `skipped` are the files that cannot be united, each with the reason and the next step;
    `problems` is what could not be done; `damage` is what is wrong with the lines.
    """


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
        _note(done, result, each)

    def _places(self, name: str) -> tuple[str, str]:
        """The session and its copy; a session by itself has no name."""
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
        seconds = POLL_SECONDS if self._source.at.place is None else POLL_PLACE_SECONDS
        while not stop.wait(seconds):
            yield None


Each = Callable[[SyncedSession], object]


def sync(
    a: PathLike, b: PathLike, *, each: Each | None = None, fs: FileSystem = DISK
) -> SyncResult:
    """Unite two copies of a session that both went on, or all sessions of two stores.

    Each copy gets the lines that it lacks, with their blobs; nothing is rewritten. Then both have
    the same entries, and the same leaf on each lane: where both went on, the leaf with the later
    timestamp, and of equal ones that with the greater uuid. The other one stays the end of a
    branch. Names, labels and metadata that both changed are settled in the same way. The result
    does not depend on the order of the two; a second call changes nothing.

    In stores, sessions with the same id are united. A session that only one of them has is copied
    to the other one, with the same name. Beside a store, an address that does not end in `.jsonl`
    is a store, which may be empty.

    Args:
        a, b: the paths or addresses of two sessions, or of two stores.
        each: called with each session as soon as it is done.

    Returns:
        What was done. A session of a store that cannot be united hides no other.

    Raises:
        SessionNotFoundError: one of them is not there.
        UsageError: they are the same, or two different sessions, or a session and a store.
        CorruptionError: an entry is different in the two copies of a session; nothing was written.
        SessionTreeError: a session, given by its own path or address, cannot be united.
        StorageError: a place cannot be used any more.
    """
    check_never_awaited("each", each)
    given = os.fspath(a), os.fspath(b)
    one, other = _side(*given, fs), _side(*given[::-1], fs)
    check_apart(one, other)
    if (one.store is None) != (other.store is None):
        raise UsageError(
            f"one of {one.file} and {other.file} is a session, and the other one a store; give "
            "two sessions or two stores"
        )
    result = SyncResult([], [], [], [])
    if one.store is None or other.store is None:
        _note(sync_session(fs, one.file, other.file), result, each)
    else:
        _Stores(fs, one.store, other.store, result, each).unite()
    return result


def _side(given: str, beside: str, fs: FileSystem) -> Endpoint:
    """What a path or an address names; beside a store, an address may be that of an empty one."""
    try:
        return source_at(given, fs)
    except SessionNotFoundError as error:
        at = located(given)
        is_session = given.endswith(SUFFIX) or at.is_session
        if is_session or not _is_store(beside, fs):
            raise with_step(error, "copy") from None
    if at.place is not None:
        return target_at(given, fs)
    message = f"there is no folder {at.name}; make the folder first"
    raise with_step(SessionNotFoundError(message, given), "copy")


def _is_store(given: str, fs: FileSystem) -> bool:
    with contextlib.suppress(SessionTreeError):
        return source_at(given, fs).store is not None
    return False


class _Stores(NamedTuple):
    fs: FileSystem
    one: Catalog
    other: Catalog
    result: SyncResult
    each: Each | None

    def unite(self) -> None:
        ours, theirs = self._by_id(self.one), self._by_id(self.other)
        trashed = {store: self._trashed(store) for store in (self.one, self.other)}
        for id in dict.fromkeys([*ours, *theirs]):
            names = ours.get(id, []), theirs.get(id, [])
            for pair in self._pairs(id, *names):
                lacking = self.one if pair[0] is None else self.other if pair[1] is None else None
                if lacking is not None and id in trashed[lacking]:
                    self.result.skipped.append(
                        f"the session {id} is in the trash of {lacking.root}, so it is not copied "
                        "there: restore it first, or empty the trash"
                    )
                    continue
                try:
                    self._unite(id, *pair)
                except SessionTreeError as error:
                    note_problem(self.result.problems, error, *self._files(*pair))

    def _files(self, ours: str | None, theirs: str | None) -> Iterator[str]:
        if ours is not None:
            yield self.one.file(ours)
        if theirs is not None:
            yield self.other.file(theirs)

    def _by_id(self, store: Catalog) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, _ in sorted(store.states(self.result.problems.append)):
            try:
                id = self._id_of(store.file(name))
            except (*NO_SESSION, MigrationRefusedError) as error:
                self.result.skipped.append(str(error))
                continue
            except SessionTreeError as error:
                note_problem(self.result.problems, error, store.file(name))
                continue
            found.setdefault(id, []).append(name)
        return found

    def _trashed(self, store: Catalog) -> set[str]:
        """The ids of the sessions in the trash of a store, as far as they can be read."""
        found: set[str] = set()
        trash = store.trashed()
        for name, _ in trash.states(lambda problem: None):
            with contextlib.suppress(SessionTreeError):
                found.add(self._id_of(trash.file(name)))
        return found

    def _id_of(self, file: str) -> str:
        with contextlib.closing(open_log(self.fs, file, readonly=True)) as log:
            return check_kind(log).session_id

    def _pairs(
        self, id: str, ours: list[str], theirs: list[str]
    ) -> list[tuple[str | None, str | None]]:
        """Which names belong together: the only ones of an id, else those that are the same."""
        if len(ours) <= 1 and len(theirs) <= 1 and id:
            return [(next(iter(ours), None), next(iter(theirs), None))]
        same: list[tuple[str | None, str | None]] = [(n, n) for n in ours if n in theirs]
        left = [name for name in (*ours, *theirs) if (name, name) not in same]
        if left:
            named = f"with the id {id}" if id else "without an id"
            files = [*map(self.one.file, ours), *map(self.other.file, theirs)]
            self.result.problems.append(
                f"there are several sessions {named}, so it is not clear which belong together: "
                f"{', '.join(files)}; only those with the same name are united: give the others "
                "one by one"
            )
        return same

    def _unite(self, id: str, ours: str | None, theirs: str | None) -> None:
        if ours is not None and theirs is not None:
            done = sync_session(self.fs, self.one.file(ours), self.other.file(theirs))
            _note(done, self.result, self.each)
        elif ours is not None:
            self._copy(id, self.one, self.other, ours)
        elif theirs is not None:
            self._copy(id, self.other, self.one, theirs)

    def _copy(self, id: str, source: Catalog, target: Catalog, name: str) -> None:
        make_room(self.fs, target.file(name))
        try:
            copied = SessionCopy(self.fs, source.file(name), target.file(name)).go()
        except SessionExistsError as error:
            raise UsageError(
                f"{source.file(name)} cannot be copied to {target.root}: another session has its "
                "name there; rename one of the two"
            ) from error
        a, b = (copied.source, copied.target)[:: 1 if source is self.one else -1]
        done = SyncedSession(
            id, a, b, 0, 0, copied.blobs, copied.target, copied.problems, copied.damage
        )
        _note(done, self.result, self.each)
