"""The backup of agents' sessions into a store: a pass, its cache, and the watch.

Each pass imports what is new in the files of agents. A session that its agent deleted, or wrote
anew with less in it, stays in the store as it is: an import only adds. What a pass reports as kept
was read back. A file that did not change since an earlier pass is not read again; a cache for each
store has its stamp.

The watch makes a pass after each change of an agent's file, until it is stopped. A pass waits for a
moment in which no file changes, but not for ever: an agent that writes without a pause is backed up
while it writes. Passes take at most a fifth of the time, unless they are long. Each `POLL_SECONDS`
there is a pass without a notice of the system as well: a change that the system did not report, in
a folder that was made meanwhile or while a pass ran, is only late, not lost.

Invariants:

- An agent's file is read and never written.
- A file that cannot be read, or whose session cannot be stored, hides no other.
- One backup at a time writes to a folder.
- A pass that finds nothing new writes nothing to the store.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

import msgspec

from sessiontree.agents import AGENTS, OF_VERSION_1
from sessiontree.core.damage import NEXT_STEP, Damage, damage_row
from sessiontree.engine.translated import facts_beside
from sessiontree.errors import (
    AgentRecordError,
    NothingToDoError,
    SessionBusyError,
    SessionTreeError,
)
from sessiontree.importing.importer import (
    Importer,
    ImportResult,
    Shown,
    facts_before_import,
    is_mere_copy,
    place_in_order,
    shared_by,
)
from sessiontree.importing.source import parts_of
from sessiontree.importing.target import record_in
from sessiontree.library.cache import Cache, Stamp, is_settled, stamp_of
from sessiontree.library.catalogs import Catalog, catalog_at
from sessiontree.library.changes import ChangeStamp, changes_in, changes_of
from sessiontree.library.homes import agent_folders, folders_of
from sessiontree.library.listing import header_of
from sessiontree.storage.fs import DISK, LOCK, FileSystem, LockDescriptor, refused
from sessiontree.storage.names import LOCK as LOCK_SUFFIX
from sessiontree.storage.names import is_session_name, problem_of
from sessiontree.storage.place import is_address, path_of, whole_path
from sessiontree.storage.sidecars import make_folders


class Origin(msgspec.Struct, array_like=True, frozen=True):
    """Whose session a file of the store is."""

    agent: str | None = None  # that it was imported from; None if it was not imported
    id: str = ""
    source: str = ""  # the name of the file that it was imported from


class SourceSnapshot(msgspec.Struct, array_like=True, frozen=True):
    """A source as it was before it was read."""

    beside: list[str]  # the other files and folders that decide what is read
    stamp: Stamp  # of the source and those
    index: bytes | None  # what Codex's index says of it
    is_whole: bool  # whether all files are there that it names


class _Kept(msgspec.Struct, array_like=True, frozen=True):
    source: SourceSnapshot
    target: str
    change: ChangeStamp  # of the target


class _KnownOrigin(msgspec.Struct, array_like=True, frozen=True):
    change: ChangeStamp
    origin: Origin


_sources_decoder: Final = msgspec.msgpack.Decoder(dict[str, _Kept])
_origins_decoder: Final = msgspec.msgpack.Decoder(dict[str, _KnownOrigin])


class BackupCache:
    """What is known of the sources of one store's backups, and of its sessions.

    Args:
        catalog: the sessions of the store.
        folder: where the cache is; None: nowhere.
        fs: the file system.
    """

    def __init__(self, catalog: Catalog, folder: str | None, fs: FileSystem) -> None:
        root = catalog.root
        real = os.path.realpath(root) if catalog.place is None else root
        name = hashlib.sha256(os.fsencode(real)).hexdigest()[:16]

        def file(kind: str) -> str | None:
            return None if folder is None else os.path.join(folder, f"{kind}-{name}.msgpack")

        self._catalog = catalog
        self._fs = fs
        self._sources = Cache(file("backup-2"), _sources_decoder, fs)
        self._origins = Cache(file("origins-1"), _origins_decoder, fs)
        self.sessions: dict[str, ChangeStamp | None] = {}
        self.trashed: dict[str, ChangeStamp | None] = {}

    def refresh(self) -> None:
        """Take the stamps of all sessions of the store, and of those in its trash."""
        self.sessions = dict(changes_in([self._catalog.root], lambda problem: None))
        self.trashed = dict(changes_in([self._catalog.trashed().root], lambda problem: None))

    def refresh_one(self, file: str) -> None:
        self.sessions.update(changes_of([file]))

    def _change(self, file: str) -> ChangeStamp | None:
        return self.sessions.get(file) or self.trashed.get(file)

    def target_of(self, source: str) -> str | None:
        """The session that has all of a source, if neither changed since that was seen."""
        kept = self._sources.get(source)
        if kept is None or kept.change != self._change(kept.target):
            return None
        before = kept.source
        is_same = before.stamp == stamp_of([source, *before.beside])
        return kept.target if is_same and before.index == facts_beside(source, self._fs) else None

    def snapshot(self, source: str) -> SourceSnapshot:
        index = facts_beside(source, self._fs)
        parts = parts_of(source, self._fs)
        beside = list(dict.fromkeys([*parts.files[1:], *parts.folders]))
        return SourceSnapshot(beside, stamp_of([source, *beside]), index, parts.is_whole)

    def keep(self, source: str, before: SourceSnapshot, target: str) -> None:
        """Note that a session has all of a source, unless that may still change."""
        change = self._change(target)
        if change is not None and before.is_whole and is_settled(before.stamp):
            self._sources.keep(source, _Kept(before, target, change))

    def origin_of(self, target: str) -> Origin:
        """Whose session a file of the store is; of nobody if it cannot be read."""
        change = self._change(target)
        known = self._origins.get(target)
        if known is not None and known.change == change:
            return known.origin
        origin = _origin_in(target, self._fs)
        if change is not None:
            self._origins.keep(target, _KnownOrigin(change, origin))
        return origin

    def save(self) -> None:
        self._sources.save()
        self._origins.save()


def _origin_in(file: str, fs: FileSystem) -> Origin:
    try:
        header = header_of(file, fs)
    except SessionTreeError:
        return Origin()
    id, metadata = header.get("id"), header.get("metadata")
    record = record_in(header)
    if not (record and isinstance(id, str) and isinstance(metadata, dict)):
        return Origin()
    if "parentSession" in header:  # a fork is the user's own
        return Origin()
    agent, source = metadata.get("agent"), record.get("file")
    return Origin(str(agent or OF_VERSION_1), id, str(source or ""))


PATIENCE_SECONDS: Final = 60.0
"""How long a backup waits for another one that writes to the store."""

_NOT_LOST: Final = frozenset(
    {
        *("missing parent", "lost parent", "late parent", "cycle", "reference"),
        *("duplicate", "repeated"),
        *("foreign line", "open end", "blank", "bom", "crlf", "utf-8"),
    }
)
"""Kinds of damage of which an import keeps all that the file has."""


class BackupFailure(msgspec.Struct, frozen=True):
    """Something that a backup could not keep."""

    file: str  # the path of the agent's file, or of the folder
    cause: str
    next: str = ""  # what to do about it
    line: int | None = None  # that could not be read; None for a whole file
    offset: int | None = None  # of that line

    def __str__(self) -> str:
        where = "" if self.line is None else f"{self.file}, line {self.line}: "
        return where + "; ".join(filter(None, (self.cause, self.next)))


class OrphanedSession(msgspec.Struct, frozen=True):
    """A session of the store whose agent has no file of it, because it was deleted or moved."""

    id: str
    agent: str
    file: str  # in the store
    source: str  # the name of the file that it was imported from


class BackupResult(msgspec.Struct, frozen=True, rename="camel"):
    """What one pass of a backup did.

    Attributes:
        store: the root of the store.
        new: the sessions that are new in the store.
        grown: the sessions that got new entries.
        unchanged: the number of files of agents that have nothing new.
        kept_alone: the sessions of the store of which their agents have no file, with `id`,
            `agent`, `file` and the name of their `source`; only of the agents whose folders the
            pass looked at whole.
        trashed: the number of files whose sessions are in the trash of the store, with all that the
            files have; they are left there.
        failed: what could not be kept: the `file`, the `cause`, what to do `next`, and for a part
            of a file its `line` and `offset`.
        notes: texts about files that end in the middle of a line, about lines with several entries
            or a part of one, and about files of one session.
    """

    store: str
    new: list[ImportResult]
    grown: list[ImportResult]
    unchanged: int
    kept_alone: list[OrphanedSession]
    trashed: int
    failed: list[BackupFailure]
    notes: list[str]

    @property
    def is_complete(self) -> bool:
        """True if everything was kept."""
        return not self.failed

    def as_dict(self) -> dict[str, Any]:
        """The shape that `backup --json` prints."""
        rows = {name: [*map(_row, getattr(self, name))] for name in ("new", "grown")}
        return {**msgspec.to_builtins(self), **rows}


def _row(result: ImportResult) -> dict[str, Any]:
    return {**msgspec.to_builtins(result), "damage": [*map(damage_row, result.damage)]}


class Backup:
    """The backups of agents' files into one store; each call of `run` is a pass.

    Args:
        root: the root of the store: a folder, or an address.
        paths: the files and folders of agents; none: the folders where the agents keep sessions.
        cache: the folder for the stamps of what was seen; None: they are kept in memory only.
        stop: a pass ends before the next file when it is set.
    """

    def __init__(
        self,
        root: str,
        paths: Sequence[str] = (),
        *,
        fs: FileSystem = DISK,
        cache: str | None = None,
        environ: Mapping[str, str] = os.environ,
        stop: threading.Event | None = None,
    ) -> None:
        self._catalog = catalog_at(whole_path(path_of(root)), fs)
        self.root = self._catalog.root
        self._paths = paths
        self._fs = fs
        self._environ = environ
        self._stop = stop or threading.Event()
        self._cache = BackupCache(self._catalog, cache, fs)

    def places(self) -> list[str]:
        """The folders and files that a pass looks at now."""
        return list(self._paths) or agent_folders(self._environ)

    def run(
        self,
        shown: Shown = lambda done, total, name: None,
        each: Callable[[ImportResult], object] = lambda result: None,
    ) -> BackupResult:
        """Import all that is new.

        Args:
            shown: called with the progress.
            each: called with each session that is new or grown, as soon as it is kept.

        Raises:
            SessionBusyError: another backup writes to the store, and does not end.
            UsageError: the root of the store is a file.
            StorageError: the store cannot be written.
        """
        try:
            backup = _BackupPass(self._catalog, self._fs, self._cache, self._stop, shown, each)
            return backup.run(self.places(), self._covered)
        finally:
            self._cache.save()

    def _covered(self) -> Iterator[tuple[str, list[str]]]:
        """Yield each agent whose folders are all looked at, with these folders."""
        given = [_top(path) for path in self._paths]
        for agent in AGENTS:
            folders = folders_of(agent, self._environ)
            there = [_top(folder) for folder in folders if os.path.isdir(folder)]
            if not given or (there and all(_is_below_any(one, given) for one in there)):
                yield agent.name, [_top(folder) for folder in folders]


def _top(folder: str) -> str:
    """Return the prefix of all paths below a folder."""
    return os.path.join(os.path.realpath(folder), "")


def _is_below_any(folder: str, tops: Iterable[str]) -> bool:
    return any(map(folder.startswith, tops))


class _BackupPass:
    def __init__(
        self,
        catalog: Catalog,
        fs: FileSystem,
        cache: BackupCache,
        stop: threading.Event,
        shown: Shown,
        each: Callable[[ImportResult], object],
    ) -> None:
        self._root = catalog.root
        self._fs = fs
        self._cache = cache
        self._stop = stop
        self._shown = shown
        self._each = each
        self._importer = Importer(self._root, by_project=True, fs=fs)
        cache.refresh()
        self._trash = Importer(catalog.trashed().root, fs=fs) if cache.trashed else None
        self._new: list[ImportResult] = []
        self._grown: list[ImportResult] = []
        self._unchanged = self._trashed = 0
        self._failed: list[BackupFailure] = []
        self._notes: list[str] = []
        self._not_looked_at: list[str] = []
        self._named: list[str] = []
        self._sources: dict[str, str] = {}  # by the session that has it

    def run(
        self, places: Sequence[str], covered: Callable[[], Iterable[tuple[str, list[str]]]]
    ) -> BackupResult:
        left = [file for file in self._files(places) if not self._is_seen(file)]
        changed = [
            file
            for number, file in enumerate(left)
            if not self._stop.is_set() and self._has_news(file, number, len(left))
        ]
        if changed and not self._stop.is_set():
            changed.sort(key=self._place_in_order)
            with _alone(self._fs, self._root):
                for number, file in enumerate(changed):
                    if self._stop.is_set():
                        break
                    self._keep(file, number, len(changed))
        alone = [] if self._stop.is_set() else list(self._kept_alone(covered()))
        return BackupResult(
            store=self._root,
            new=self._new,
            grown=self._grown,
            unchanged=self._unchanged,
            kept_alone=alone,
            trashed=self._trashed,
            failed=self._failed,
            notes=self._notes,
        )

    def _place_in_order(self, file: str) -> tuple[float, float]:
        return place_in_order(facts_before_import(file, self._fs), self._fs)

    def _files(self, places: Sequence[str]) -> Iterator[str]:
        """The files that may be sessions of agents, each once; none of the store."""
        own = _top(self._root)  # below which no file is, if it is an address
        known: set[str] = set()
        self._named = [*map(os.path.abspath, places)]
        for place in self._named:
            real = os.path.realpath(place)
            try:
                for file in self._importer.sources(place, partial(self._skip, place)):
                    if file not in known and not (real + file[len(place) :]).startswith(own):
                        known.add(file)
                        yield file
            except SessionTreeError as error:
                self._not_looked_at.append(place)
                self._fail(place, error)

    def _is_seen(self, file: str) -> bool:
        """True if a file has not changed since all of it was kept."""
        target = self._cache.target_of(file)
        if target is not None:
            self._count(file, target)
        return target is not None

    def _count(self, file: str, target: str) -> None:
        if not self._is_left_behind(file, target):
            self._sources.setdefault(target, file)
        if target in self._cache.trashed:
            self._trashed += 1
        else:
            self._unchanged += 1

    def _is_left_behind(self, file: str, target: str) -> bool:
        """True if a file is a subagent's, and the session that has it is the one that started it.

        That session has no file of its own then, or the file would be a part of it.
        """
        name = os.path.basename(file).partition(".")[0]
        return name.startswith("agent-") and not self._cache.origin_of(target).id.endswith(name)

    def _has_news(self, file: str, number: int, total: int) -> bool:
        """True if a file is to be imported; only its start is read, and the end of its session."""
        self._shown(number, total, f"Looking at {os.path.basename(file)}")
        try:
            before = self._cache.snapshot(file)
            done = self._importer.kept(file)
            if done is None and self._trash is not None:
                done = self._trash.kept(file)
            holder = self._importer.holder_of(file) if done is None else done.file
        except Exception as error:
            self._fail(file, error)
            return False
        if holder is None:
            return True
        self._count(file, holder)
        self._cache.keep(file, before, holder)
        return False

    def _keep(self, file: str, number: int, total: int) -> None:
        is_copy = is_mere_copy(facts_before_import(file, self._fs))
        if is_copy and not self._has_news(file, number, total):
            return  # its original was kept right before
        name = os.path.basename(file)

        def report(done: float, size: float) -> None:
            self._shown(number + done / max(size, 1), total, name)

        self._shown(number, total, name)
        try:
            before = self._cache.snapshot(file)
            result = self._importer.take(file, report)
        except Exception as error:
            self._fail(file, error)
            return
        self._note(result, before)

    def _note(self, result: ImportResult, before: SourceSnapshot) -> None:
        self._cache.refresh_one(result.file)
        self._notes += filter(None, [shared_by(self._sources, result)])
        for damage in result.damage:
            self._note_damage(damage)
        if not result.damage:
            self._cache.keep(result.source, before, result.file)
        if result.is_up_to_date:
            self._unchanged += 1
            return
        (self._new if result.made else self._grown).append(result)
        self._each(result)

    def _note_damage(self, damage: Damage) -> None:
        if damage.kind == "cut short" and damage.file.endswith((".jsonl", ".json")):
            self._notes.append(
                f"{damage.file} ends in the middle of line {damage.line}; the next backup adds the "
                "line when it is complete"
            )
        elif damage.kind == "layout":  # what is beside entries and lost, is damage of another kind
            self._notes.append(f"{damage.file}, line {damage.line}: {damage.cause}")
        elif damage.kind not in _NOT_LOST:
            next = NEXT_STEP[damage.kind]
            self._failed.append(
                BackupFailure(damage.file, damage.cause, next, damage.line, damage.offset)
            )

    def _skip(self, place: str, problem: str) -> None:
        self._not_looked_at.append(place)
        self._failed.append(_failure(place, problem))

    def _fail(self, file: str, error: Exception) -> None:
        """Note a file that could not be kept, unless there is nothing in it for a backup."""
        if file not in self._named:
            if isinstance(error, AgentRecordError | NothingToDoError):
                return
            with suppress(OSError):
                if os.path.isfile(file) and not os.stat(file).st_size:
                    return  # its agent has not written to it yet
            if not os.path.lexists(file):
                return  # deleted this moment
        self._failed.append(_failure(file, problem_of(file, error)))

    def _kept_alone(self, covered: Iterable[tuple[str, list[str]]]) -> Iterator[OrphanedSession]:
        agents = {agent for agent, folders in covered if not self._is_missed(folders)}
        origins = [*map(self._cache.origin_of, self._sources)]
        with_source = {(origin.agent, origin.id) for origin in origins}
        unread = {_name_of_source(failure.file) for failure in self._failed}
        for file in sorted(self._cache.sessions):
            if file in self._sources:
                continue
            origin = self._cache.origin_of(file)
            if origin.agent not in agents or _name_of_source(origin.source) in unread:
                continue
            if (origin.agent, origin.id) not in with_source:
                yield OrphanedSession(origin.id, origin.agent, file, origin.source)

    def _is_missed(self, folders: Iterable[str]) -> bool:
        """True if a place that was not looked at whole is one of some folders, or around one."""
        missed = [*map(_top, self._not_looked_at)]
        return any(_is_below_any(folder, missed) for folder in folders) or any(
            _is_below_any(place, folders) for place in missed
        )


def _failure(file: str, problem: str) -> BackupFailure:
    cause, _, next = problem.rpartition("; ")
    return BackupFailure(file, cause or next, next if cause else "")


def _name_of_source(file: str) -> str:
    """The name of an agent's file, whether compressed or not."""
    return os.path.basename(file).removesuffix(".zst")


@contextmanager
def _alone(fs: FileSystem, root: str) -> Iterator[None]:
    """Keep out other backups into a folder; at an address they do each session once.

    Raises:
        SessionBusyError: another one does not end.
        StorageError: the store cannot be written.
    """
    if is_address(root):
        yield
        return
    make_folders(fs, root)
    path = os.path.join(root, ".backup" + LOCK_SUFFIX)
    with refused("lock", path):
        lock = LockDescriptor(fs, fs.open(path, LOCK))
    with lock:
        started = time.monotonic()
        while not _locked(lock, path):
            if time.monotonic() - started > PATIENCE_SECONDS:
                raise SessionBusyError(
                    f"another backup into {root} has not ended for {PATIENCE_SECONDS:.0f} s; let "
                    "it end, or look for a process that hangs",
                    root,
                )
            time.sleep(0.1)
        yield


def _locked(lock: LockDescriptor, path: str) -> bool:
    with refused("lock", path):
        return lock.lock()


POLL_SECONDS: Final = 15.0
QUIET_MILLISECONDS: Final = 500
LONGEST_WAIT_MILLISECONDS: Final = 20_000
"""How long a pass waits for a quiet moment after the first change."""


def watched(
    backup: Backup, stop: threading.Event, run: Callable[[], BackupResult]
) -> Iterator[BackupResult | SessionTreeError]:
    """The results of the passes of a backup, the first one at once, until `stop` is set.

    Args:
        backup: knows the places that are watched.
        run: makes a pass. If a later pass than the first fails, its error is the result, and the
            next pass tries again.
    """
    took = 0.0
    yield run()
    while not stop.is_set():
        places = _places(backup)
        for _ in _changes(places, backup.root, stop):
            stop.wait(min(4 * took, 10.0))
            if stop.is_set():
                return
            started = time.monotonic()
            try:
                result: BackupResult | SessionTreeError = run()
            except SessionTreeError as error:
                result = error
            took = time.monotonic() - started
            yield result
            if places != _places(backup):
                break  # a home was made or removed


def _places(backup: Backup) -> list[str]:
    return [place for place in backup.places() if os.path.exists(place)]


def _changes(places: Sequence[str], root: str, stop: threading.Event) -> Iterator[None]:
    """Yield after a change of a session's file, and now and then without one."""
    if places:
        from watchfiles import watch  # heavy, and only watching needs it

        own = os.path.join(os.path.realpath(root), "")
        due = time.monotonic() + POLL_SECONDS
        # If the system has no watches left, the loop below looks now and then.
        with suppress(OSError, RuntimeError):
            for changes in watch(
                *places,
                watch_filter=None,
                stop_event=stop,
                debounce=LONGEST_WAIT_MILLISECONDS,
                step=QUIET_MILLISECONDS,
                rust_timeout=int(POLL_SECONDS * 1000),
                yield_on_timeout=True,
            ):
                is_news = any(_is_of_session(path, own) for _, path in changes)
                if is_news or time.monotonic() >= due:
                    yield None
                    due = time.monotonic() + POLL_SECONDS
    while not stop.wait(POLL_SECONDS):
        yield None


def _is_of_session(path: str, own: str) -> bool:
    name = os.path.basename(path)
    return (is_session_name(name) or name.endswith(".json")) and not path.startswith(own)
