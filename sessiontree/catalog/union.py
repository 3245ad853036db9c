"""Sync: unite two copies of a session, or all sessions of two stores."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from sessiontree.catalog.base import Catalog
from sessiontree.catalog.copies import NO_SESSION, PathLike, note_problem
from sessiontree.catalog.location import Location, check_apart, make_room, source_at, target_at
from sessiontree.core.callback import check_never_awaited
from sessiontree.errors import (
    MigrationRefusedError,
    SessionExistsError,
    SessionNotFoundError,
    SessionTreeError,
    UsageError,
    with_step,
)
from sessiontree.operations.copy import SessionCopy
from sessiontree.operations.sync import SyncedSession, check_kind, sync_session
from sessiontree.storage.backends import open_log
from sessiontree.storage.files import SUFFIX
from sessiontree.storage.fs import DISK, FileSystem
from sessiontree.storage.place import is_address, is_session_address, path_of

Each = Callable[[SyncedSession], object]


class SyncResult(msgspec.Struct, frozen=True):
    """What `sync` did.

    Attributes:
        sessions: the sessions, in the order of their names in the first store, then in the second.
        skipped: the files that cannot be united, each with the reason and the next step.
        problems: what could not be done.
        damage: what is wrong with the lines of the sessions.
    """

    sessions: list[SyncedSession]
    skipped: list[str]
    problems: list[str]
    damage: list[str]

    @property
    def is_unchanged(self) -> bool:
        """Whether nothing was written."""
        return all(one.is_unchanged for one in self.sessions)

    def as_dict(self) -> dict[str, Any]:
        """Return the shape that `sync --json` prints."""
        return {
            "sessions": [one.as_dict() for one in self.sessions],
            "skipped": self.skipped,
            "problems": self.problems,
            "damage": self.damage,
        }


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
        _done(sync_session(fs, one.file, other.file), result, each)
    else:
        _Stores(fs, one.store, other.store, result, each).unite()
    return result


def _side(given: str, beside: str, fs: FileSystem) -> Location:
    """What a path or an address names; beside a store, an address may be that of an empty one."""
    try:
        return source_at(given, fs)
    except SessionNotFoundError as error:
        is_session = given.endswith(SUFFIX) or is_session_address(given)
        if is_session or not _is_store(beside, fs):
            raise with_step(error, "copy") from None
    if is_address(given):
        return target_at(given, fs)
    message = f"there is no folder {path_of(given)}; make the folder first"
    raise with_step(SessionNotFoundError(message, given), "copy")


def _is_store(given: str, fs: FileSystem) -> bool:
    with contextlib.suppress(SessionTreeError):
        return source_at(given, fs).store is not None
    return False


def _done(session: SyncedSession, result: SyncResult, each: Each | None) -> None:
    result.sessions.append(session)
    result.problems.extend(session.problems)
    result.damage.extend(session.damage)
    if each is not None:
        each(session)


class _Stores(NamedTuple):
    """Two stores that are united."""

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
        """The paths or addresses of a session, given its names in the stores."""
        if ours is not None:
            yield self.one.file(ours)
        if theirs is not None:
            yield self.other.file(theirs)

    def _by_id(self, store: Catalog) -> dict[str, list[str]]:
        """The names of the sessions of a store, by their ids."""
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
            _done(done, self.result, self.each)
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
        _done(done, self.result, self.each)
