"""The backup of agents' sessions into a store: a pass, its cache, and the watch.

The backup of agents' sessions into a store, again and again. Each pass imports what is new in the
files of agents. A session that its agent deleted, or wrote anew with less in it, stays in the store
as it is: an import only adds.

What a pass calls kept was read back: each line that was written was compared with its checksum, the
lines were counted, and each blob that was stored was compared with its hash. A file that did not
change since an earlier pass is not read again; its stamps say so.

The stamps of files and sessions: what changes when they are written.

The cache of a backup: the stamps of files that did not change, so that it reads none again.

The cache is a file in the user's folder of caches, one for each store. A file that may still change
within the resolution of its times has no stamp there.

Watching: a pass of a backup after each change of an agent's file, until it is stopped. A pass waits
for a moment in which no file changes, but not for ever: an agent that writes without a pause is
backed up while it writes. Passes take at most a fifth of the time, unless they are long. Each
`POLL_SECONDS` there is a pass without a notice of the system as well: a change that the system did
not tell of, in a folder that was made meanwhile or while a pass ran, is only late, not lost.

Invariants:

- An agent's file is read and never written.
- A file that cannot be read, or whose session cannot be stored, hides no other.
- One backup at a time writes to a folder.
- A pass that finds nothing new writes nothing to the store.
- A cache that is missing, damaged or not writable changes no result but the time.
- No text of a session is in the cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import msgspec

from sessiontree.agents import AGENTS, OF_VERSION_1
from sessiontree.core.damage import NEXT_STEP, Damage, damage_row
from sessiontree.errors import (
    AgentRecordError,
    NothingToDoError,
    SessionBusyError,
    SessionTreeError,
)
from sessiontree.importing.importer import Importer, ImportResult
from sessiontree.importing.source import parts_of
from sessiontree.importing.target import record_in
from sessiontree.library.catalogs import Catalog, catalog_at
from sessiontree.library.homes import agent_folders, folders_of
from sessiontree.library.listing import header_of
from sessiontree.storage.atomic import swap_file
from sessiontree.storage.fs import DISK, LOCK, FileSystem, LockDescriptor, refused
from sessiontree.storage.names import LOCK as LOCK_SUFFIX
from sessiontree.storage.names import SUFFIX, TRASH, is_session_name, problem_of
from sessiontree.storage.place import StoredSession, is_address, path_of, whole_path
from sessiontree.storage.places import place_of
from sessiontree.storage.rollouts import index_line
from sessiontree.storage.sidecars import make_folders

Stamp = tuple[int, ...]
"""For each of some paths the size, both times in nanoseconds and the inode; -1 for none."""

ABSENT: Final[Stamp] = (-1, -1, -1, -1)
"""The stamp of nothing."""


def stamp_of(path: str) -> Stamp:
    """The stamp of a file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return ABSENT
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


class Stamps(Protocol):
    """The stamps of the sessions of a store, also of those in its trash.

    Attributes:
        catalog: the sessions, but those in the trash.
    """

    catalog: Catalog

    def stamp(self, file: str) -> Stamp:
        """The stamp of a session, as of this moment or of the last `look`."""

    def look(self, file: str = "") -> None:
        """Let the stamps be those of now: of one session, or of all."""

    def files(self) -> list[str]:
        """The files of all sessions but those in the trash, sorted."""

    def has_trash(self) -> bool:
        """Whether a session may be in the trash."""

    def is_trashed(self, file: str) -> bool:
        """Whether a session is in the trash."""


def stamps_in(catalog: Catalog) -> Stamps:
    """The stamps of the sessions of a store."""
    return _InPlace(catalog) if is_address(catalog.root) else _InFolder(catalog)


class _InFolder:
    """Those in a folder of this machine; see `Stamps`."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._trash = os.path.join(catalog.root, TRASH, "")

    def stamp(self, file: str) -> Stamp:
        return stamp_of(file)

    def look(self, file: str = "") -> None:
        """Do nothing: each stamp is of its moment."""

    def files(self) -> list[str]:
        return sorted(self.catalog.files(None, lambda problem: None))

    def has_trash(self) -> bool:
        return os.path.isdir(self._trash)

    def is_trashed(self, file: str) -> bool:
        return file.startswith(self._trash)


class _InPlace:
    """Those at an address, of one list that also has the trash; see `Stamps`."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._place, name = place_of(catalog.root)
        self._prefix = f"{name.strip('/')}/" if name.strip("/") else ""
        self._stamps: dict[str, Stamp] | None = None

    def _all(self) -> dict[str, Stamp]:
        if self._stamps is None:
            found = self._place.list(self._prefix)
            self._stamps = {self._place.address(one.name): _stamp(one) for one in found}
        return self._stamps

    def stamp(self, file: str) -> Stamp:
        return self._all().get(file, ABSENT)

    def look(self, file: str = "") -> None:
        if not file:
            self._stamps = None
        elif self._stamps is not None:
            found = self._place.find(self._place.name(file))
            self._stamps[file] = ABSENT if found is None else _stamp(found)

    def files(self) -> list[str]:
        kept = (file for file in self._all() if not self.is_trashed(file))
        return sorted(file for file in kept if self._place.name(file).endswith(SUFFIX))

    def has_trash(self) -> bool:
        return any(map(self.is_trashed, self._all()))

    def is_trashed(self, file: str) -> bool:
        return self._place.name(file).startswith(f"{self._prefix}{TRASH}/")


def _stamp(found: StoredSession) -> Stamp:
    return found.size, int(found.modified * 1e9), 0, 0


SETTLED_AFTER: Final = 2.0
"""Seconds after its last change from which on a file has a new time when it changes again."""

_MOST_KEPT: Final = 100_000

T = TypeVar("T")


class Origin(msgspec.Struct, array_like=True, frozen=True):
    """Whose session a file of the store is.

    Attributes:
        agent: the agent that it was imported from; None if it was not imported.
        id: its id.
        source: the name of the file that it was imported from.
    """

    agent: str | None = None
    id: str = ""
    source: str = ""


class _Source(msgspec.Struct, array_like=True, frozen=True):
    beside: list[str]  # the other files and folders that decide what is read
    stamp: Stamp  # of the source and those
    index: bytes | None  # what Codex's index says of it
    target: str
    stamp_of_target: Stamp


class _Target(msgspec.Struct, array_like=True, frozen=True):
    stamp: Stamp
    origin: Origin


class _KeptStamp(msgspec.Struct, array_like=True):
    sources: dict[str, _Source] = {}
    targets: dict[str, _Target] = {}


class Look(msgspec.Struct, frozen=True):
    """A source as it was before it was read."""

    beside: list[str]
    stamp: Stamp
    index: bytes | None
    is_whole: bool


class BackupStamps:
    """The stamps of the sources and the targets of the backups of one store.

    Args:
        store: the store.
        folder: where the cache is; None: nowhere.
        fs: the file system.
    """

    def __init__(self, store: Stamps, folder: str | None, fs: FileSystem) -> None:
        root = store.catalog.root
        real = root if is_address(root) else os.path.realpath(root)
        name = hashlib.sha256(os.fsencode(real)).hexdigest()[:16]
        self._store = store
        self._file = None if folder is None else os.path.join(folder, f"backup-1-{name}.msgpack")
        self._fs = fs
        self._kept = self._read()
        self._is_changed = False

    def target_of(self, source: str) -> str | None:
        """The session that has all of a source, if neither changed since that was seen."""
        kept = self._kept.sources.get(source)
        if kept is None or kept.stamp != _stamp_of_all([source, *kept.beside]):
            return None
        if kept.stamp_of_target != self._store.stamp(kept.target) or -1 in kept.stamp_of_target:
            return None
        return kept.target if kept.index == index_line(source, self._fs) else None

    def look(self, source: str) -> Look:
        """Take the stamps of a source, before it is read."""
        index = index_line(source, self._fs)
        parts = parts_of(source, self._fs)
        beside = list(dict.fromkeys([*parts.files[1:], *parts.folders]))
        return Look(beside, _stamp_of_all([source, *beside]), index, parts.is_whole)

    def keep(self, source: str, before: Look, target: str) -> None:
        """Note that a session has all that a source had at a look, unless that may still change."""
        if not before.is_whole or not _is_settled(before.stamp):
            return
        stamp = self._store.stamp(target)
        found = _Source(before.beside, before.stamp, before.index, target, stamp)
        if self._kept.sources.get(source) != found and _can_be_kept((source, found)):
            self._kept.sources[source] = found
            self._is_changed = True

    def origin_of(self, target: str) -> Origin:
        """Whose session a file of the store is; of nobody if it cannot be read."""
        stamp = self._store.stamp(target)
        kept = self._kept.targets.get(target)
        if kept is not None and kept.stamp == stamp:
            return kept.origin
        found = _Target(stamp, _origin_in(target, self._fs))
        if _can_be_kept((target, found)):
            self._kept.targets[target] = found
            self._is_changed = True
        return found.origin

    def _read(self) -> _KeptStamp:
        if self._file is None:
            return _KeptStamp()
        try:
            with open(self._file, "rb") as file:
                return _decode(file.read())
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return _KeptStamp()

    def save(self) -> None:
        """Keep what was seen, the newest of very many."""
        if self._file is None or not self._is_changed:
            return
        kept = _KeptStamp(_newest(self._kept.sources), _newest(self._kept.targets))
        with suppress(OSError, SessionTreeError):
            make_folders(self._fs, os.path.dirname(self._file))
            swap_file(self._fs, self._file, iter([msgspec.msgpack.encode(kept)]))
            self._is_changed = False


_decode: Final = msgspec.msgpack.Decoder(_KeptStamp).decode


def _stamp_of_all(paths: Iterable[str]) -> Stamp:
    return tuple(number for path in paths for number in stamp_of(path))


def _is_settled(stamp: Stamp) -> bool:
    return max(stamp[1::4]) < (time.time() - SETTLED_AFTER) * 1e9


def _newest(kept: dict[str, T]) -> dict[str, T]:
    return dict(list(kept.items())[-_MOST_KEPT:])


def _can_be_kept(found: object) -> bool:
    """Whether a cache can have it: a path that is not Unicode it cannot have."""
    try:
        msgspec.msgpack.encode(found)
    except UnicodeEncodeError:
        return False
    return True


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


Shown = Callable[[float, int, str], object]
"""Called with how many files are done, of how many, and the name of the file that is read."""

_LOCK: Final = ".backup" + LOCK_SUFFIX
PATIENCE_SECONDS: Final = 60.0
"""How long a backup waits for another one that writes to the store."""

_POLL_SECONDS: Final = 0.1

_NOT_LOST: Final = frozenset(
    {
        *("missing parent", "late parent", "cycle", "duplicate", "repeated", "reference"),
        *("foreign line", "open end", "blank", "bom", "crlf", "utf-8"),
    }
)
"""Kinds of damage of which an import keeps all that the file has."""

_ENDS_OF_LINES: Final = (".jsonl", ".json")
"""How files are named whose last line may be in the middle of being written."""


class BackupFailure(msgspec.Struct, frozen=True):
    """Something that a backup could not keep.

    Attributes:
        file: the path of the agent's file, or of the folder.
        cause: what is wrong.
        next: what to do about it.
        line, offset: the line that could not be read, and where it starts; None for a whole file.
    """

    file: str
    cause: str
    next: str = ""
    line: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        where = "" if self.line is None else f"{self.file}, line {self.line}: "
        return where + "; ".join(filter(None, (self.cause, self.next)))


class KeptAlone(msgspec.Struct, frozen=True):
    """A session of the store of which its agent has no file, because it was deleted or moved.

    Attributes:
        id: the id of the session.
        agent: the agent that the session is of.
        file: the path of the session in the store.
        source: the name of the file that it was imported from.
    """

    id: str
    agent: str
    file: str
    source: str


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
        notes: texts about files that end in the middle of a line, and about files of one session.
    """

    store: str
    new: list[ImportResult]
    grown: list[ImportResult]
    unchanged: int
    kept_alone: list[KeptAlone]
    trashed: int
    failed: list[BackupFailure]
    notes: list[str]

    @property
    def is_complete(self) -> bool:
        """Whether all of all files is kept."""
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
        self._store = stamps_in(catalog_at(whole_path(path_of(root)), fs))
        self.root = self._store.catalog.root
        self._paths = paths
        self._fs = fs
        self._environ = environ
        self._stop = stop or threading.Event()
        self._seen = BackupStamps(self._store, cache, fs)

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
            return _BackupPass(self._store, self._fs, self._seen, self._stop, shown, each).run(
                self.places(), self._covered
            )
        finally:
            self._seen.save()

    def _covered(self) -> Iterator[tuple[str, list[str]]]:
        """The agents of whose folders the places have all that are there, with these folders."""
        given = [_top(path) for path in self._paths]
        for agent in AGENTS:
            folders = folders_of(agent, self._environ)
            there = [_top(folder) for folder in folders if os.path.isdir(folder)]
            if not given or (there and all(_is_below_any(one, given) for one in there)):
                yield agent.name, [_top(folder) for folder in folders]


def _top(folder: str) -> str:
    """A folder, as the paths begin that are below it."""
    return os.path.join(os.path.realpath(folder), "")


def _is_below_any(folder: str, tops: Iterable[str]) -> bool:
    return any(map(folder.startswith, tops))


class _BackupPass:
    """One pass; see `Backup.run`."""

    def __init__(
        self,
        store: Stamps,
        fs: FileSystem,
        seen: BackupStamps,
        stop: threading.Event,
        shown: Shown,
        each: Callable[[ImportResult], object],
    ) -> None:
        store.look()
        self._store = store
        self._fs = fs
        self._seen = seen
        self._stop = stop
        self._shown = shown
        self._each = each
        self._importer = Importer(store.catalog.root, by_project=True, fs=fs)
        trash = store.catalog.trashed().root
        self._trash = Importer(trash, fs=fs) if store.has_trash() else None
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
            with _alone(self._fs, self._store.catalog.root):
                for number, file in enumerate(changed):
                    if self._stop.is_set():
                        break
                    self._keep(file, number, len(changed))
        alone = [] if self._stop.is_set() else list(self._kept_alone(covered()))
        return BackupResult(
            store=self._store.catalog.root,
            new=self._new,
            grown=self._grown,
            unchanged=self._unchanged,
            kept_alone=alone,
            trashed=self._trashed,
            failed=self._failed,
            notes=self._notes,
        )

    def _files(self, places: Sequence[str]) -> Iterator[str]:
        """The files that may be sessions of agents, each once; none of the store."""
        own = _top(self._store.catalog.root)  # below which no file is, if it is an address
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
        """Whether a file has not changed since all of it was seen to be kept."""
        target = self._seen.target_of(file)
        if target is not None:
            self._count(file, target)
        return target is not None

    def _count(self, file: str, target: str) -> None:
        """Count a file that has nothing new."""
        if not self._is_left_behind(file, target):
            self._sources.setdefault(target, file)
        if self._store.is_trashed(target):
            self._trashed += 1
        else:
            self._unchanged += 1

    def _is_left_behind(self, file: str, target: str) -> bool:
        """Whether a file is a subagent's, and the session that has it is the one that started it.

        That session has no file of its own then, or the file would be a part of it.
        """
        name = os.path.basename(file).partition(".")[0]
        return name.startswith("agent-") and not self._seen.origin_of(target).id.endswith(name)

    def _has_news(self, file: str, number: int, total: int) -> bool:
        """Whether a file is to be imported; only its start is read, and the end of its session."""
        self._shown(number, total, f"Looking at {os.path.basename(file)}")
        try:
            before = self._seen.look(file)
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
        self._seen.keep(file, before, holder)
        return False

    def _keep(self, file: str, number: int, total: int) -> None:
        """Import a file that has something new."""
        name = os.path.basename(file)

        def report(done: float, size: float) -> None:
            self._shown(number + done / max(size, 1), total, name)

        self._shown(number, total, name)
        try:
            before = self._seen.look(file)
            result = self._importer.take(file, report)
        except Exception as error:
            self._fail(file, error)
            return
        self._note(result, before)

    def _note(self, result: ImportResult, before: Look) -> None:
        self._store.look(result.file)
        other = self._sources.setdefault(result.file, result.source)
        if other != result.source:
            self._notes.append(
                f"{other} and {result.source} are both of the session {result.id}, and both are "
                f"in {result.file} now"
            )
        for damage in result.damage:
            self._note_damage(damage)
        if not result.damage:
            self._seen.keep(result.source, before, result.file)
        if result.is_up_to_date:
            self._unchanged += 1
            return
        (self._new if result.made else self._grown).append(result)
        self._each(result)

    def _note_damage(self, damage: Damage) -> None:
        if damage.kind == "cut short" and damage.file.endswith(_ENDS_OF_LINES):
            self._notes.append(
                f"{damage.file} ends in the middle of line {damage.line}; the next backup adds the "
                "line when it is complete"
            )
        elif damage.kind not in _NOT_LOST:
            next = NEXT_STEP[damage.kind]
            self._failed.append(
                BackupFailure(damage.file, damage.cause, next, damage.line, damage.offset)
            )

    def _skip(self, place: str, problem: str) -> None:
        """Note a folder that cannot be read."""
        self._not_looked_at.append(place)
        cause, _, next = problem.rpartition("; ")
        self._failed.append(BackupFailure(place, cause or next, next if cause else ""))

    def _fail(self, file: str, error: Exception) -> None:
        """Note a file that could not be kept, unless there is nothing in it for a backup."""
        if file not in self._named:
            if isinstance(error, AgentRecordError | NothingToDoError):
                return
            if not os.path.lexists(file) or _is_empty(file):
                return  # deleted this moment, or its agent has not written to it yet
        cause, _, next = problem_of(file, error).rpartition("; ")
        self._failed.append(BackupFailure(file, cause or next, next if cause else ""))

    def _kept_alone(self, covered: Iterable[tuple[str, list[str]]]) -> Iterator[KeptAlone]:
        """The sessions of which their agents have no file any more."""
        agents = {agent for agent, folders in covered if not self._is_missed(folders)}
        with_source = {_key(self._seen.origin_of(target)) for target in self._sources}
        unread = {_name_of_source(failure.file) for failure in self._failed}
        for file in self._store.files():
            if file in self._sources:
                continue
            origin = self._seen.origin_of(file)
            if origin.agent not in agents or _name_of_source(origin.source) in unread:
                continue
            if _key(origin) not in with_source:
                yield KeptAlone(origin.id, origin.agent, file, origin.source)

    def _is_missed(self, folders: Iterable[str]) -> bool:
        """Whether a place that was not looked at whole is one of some folders, or around one."""
        missed = [*map(_top, self._not_looked_at)]
        return any(_is_below_any(folder, missed) for folder in folders) or any(
            _is_below_any(place, folders) for place in missed
        )


def _key(origin: Origin) -> tuple[str | None, str]:
    return origin.agent, origin.id


def _name_of_source(file: str) -> str:
    """The name of an agent's file, whether compressed or not."""
    return os.path.basename(file).removesuffix(".zst")


def _is_empty(file: str) -> bool:
    with contextlib.suppress(OSError):
        return os.path.isfile(file) and not os.stat(file).st_size
    return False


@contextlib.contextmanager
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
    path = os.path.join(root, _LOCK)
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
            time.sleep(_POLL_SECONDS)
        yield


def _locked(lock: LockDescriptor, path: str) -> bool:
    with refused("lock", path):
        return lock.lock()


POLL_SECONDS: Final = 15.0
QUIET_MILLISECONDS: Final = 500
LONGEST_WAIT_MILLISECONDS: Final = 20_000
"""How long a pass waits for a quiet moment after the first change."""

_PAUSE: Final = 4
"""The pause after a pass, as a multiple of the time that it took."""

_LONGEST_PAUSE: Final = 10.0
_SIDECAR: Final = ".json"


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
            stop.wait(min(_PAUSE * took, _LONGEST_PAUSE))
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
    return (is_session_name(name) or name.endswith(_SIDECAR)) and not path.startswith(own)
