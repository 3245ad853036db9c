"""Session: one conversation, a tree of entries in one append-only file.

What users hold. Opening, making and caring for the file are here; what it can be
asked is in `Reader` and `Surveyor`, appending in `Writer` and `Composer`, moving in
`Mover`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self

from sessiontree.core.codec import FORMAT, VERSION, encode
from sessiontree.core.damage import Damage
from sessiontree.core.entry import HEADER, Entry, check_fields, check_session_name
from sessiontree.engine import opening, refs
from sessiontree.engine.mover import Mover
from sessiontree.engine.reader import PathLike, Ref
from sessiontree.engine.writer import fresh_uuid, now
from sessiontree.errors import UsageError
from sessiontree.operations import follow as following
from sessiontree.operations import lanes
from sessiontree.storage.atomic import create_file
from sessiontree.storage.fs import DISK, FileSystem, Memory
from sessiontree.storage.log import Durability, FileLog

if TYPE_CHECKING:
    from sessiontree.engine.gc import GcResult
    from sessiontree.engine.repair import Progress, RepairResult
    from sessiontree.handles.registry import Registry

SPILL_OVER: Final = 32 * 1024
"""Bytes of a string that stay in the file by default."""


class Session(Mover):
    """A session; a context manager. Make one with `create` or `open`.

    What any method may raise, beside what it names itself:

    - RefError: a ref names no entry, or more than one.
    - Veto, or whatever else a hook raises: nothing was written.
    - ReadOnlyError: a write on a session that was opened to read, closed, or kept.
    - SessionBusyError: another writer is exclusive, or will not let go of the lock.
    - WriteFailedError, StorageError: the system refused, and how far the write came is unknown;
      open the session anew.
    - SessionNotFoundError, FileReplacedError: the file vanished, or another took its place.
    - CorruptionError: what was asked for lies in a damaged part of the file.
    """

    def __init__(
        self, log: FileLog, lane: str, hooks: Iterable[Any], spill_over: int | None
    ) -> None:
        refs.check_name(lane, "lane name")
        self._file: opening.SessionFile = opening.Current(log)
        self._closing = threading.Event()
        self._origin: Session | None = None
        self._followed: list[tuple[tuple[int, int], Damage]] = []
        super().__init__(log, None if lane == "main" else lane, hooks, spill_over)

    def __repr__(self) -> str:
        where = "in memory" if self.file is None else repr(self.file)
        return f"<Session {where}, lane {self.lane_name}>"

    @classmethod
    def create(
        cls,
        file: PathLike | None = None,
        *,
        cwd: PathLike | None = None,
        id: str | None = None,
        name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        exclusive: bool = False,
        lane: str = "main",
        durability: Durability = "fsync",
        spill_over: int | None = SPILL_OVER,
        hooks: Iterable[Any] = (),
        registry: Registry | None = None,
        root: PathLike | None = None,
        fs: FileSystem = DISK,
    ) -> Self:
        """Make a new session and open it.

        Args:
            file: where to keep it, readable by its owner alone; None keeps it in memory.
            cwd: the working directory it is about, by default the current one.
            id: its id, by default a fresh UUID.
            name: a name for people.
            metadata: facts such as `model`, `system`, or the agent's own session id.
            exclusive, lane, durability, spill_over, hooks, registry, root, fs: as for `open`.

        Raises:
            SessionExistsError: the file is there already.
            EntryError: a value that JSON cannot carry.
            StorageError: the file cannot be made.
        """
        refs.check_name(lane, "lane name")
        fields: dict[str, Any] = {
            "type": HEADER,
            "version": VERSION,
            "format": FORMAT,
            "uuid": fresh_uuid(),
            "parentUuid": None,
            "timestamp": now(),
            "id": id or fresh_uuid(),
            "cwd": os.fspath(cwd) if cwd is not None else os.getcwd(),
        }
        if name is not None:
            check_session_name(name)
            fields["name"] = name
        if metadata is not None:
            check_fields("custom", {"customType": HEADER, "metadata": metadata})
            fields["metadata"] = metadata
        if file is None:
            fs, durability, spill_over = Memory(), "os", None
        path = _IN_MEMORY if file is None else os.fspath(file)
        create_file(fs, path, iter([encode(fields) + b"\n"]))
        session = cls.open(
            path,
            exclusive=exclusive,
            lane=lane,
            durability=durability,
            spill_over=spill_over,
            hooks=hooks,
            registry=registry,
            root=root,
            fs=fs,
        )
        if file is None:
            session._disk = DISK
        return session

    @classmethod
    def open(
        cls,
        file: PathLike,
        *,
        readonly: bool = False,
        exclusive: bool = False,
        lane: str = "main",
        durability: Durability = "fsync",
        spill_over: int | None = SPILL_OVER,
        migrate: bool = True,
        hooks: Iterable[Any] = (),
        registry: Registry | None = None,
        root: PathLike | None = None,
        fs: FileSystem = DISK,
    ) -> Self:
        """Open a session. A version 1 file is migrated: on disk, or to read in memory.

        Another agent's file is opened to read only, and translated in memory; see
        `sessiontree.formats`.

        Args:
            file: the session file.
            readonly: never write: no lock, no migration on disk.
            exclusive: keep all other writers out until closed.
            lane: the lane to read and write; only a writer begins one.
            durability: `fsync`: an acknowledged entry survives a power cut;
                `os`: the death of the process.
            spill_over: strings of content with more UTF-8 bytes go into the sidecar folder;
                None: none does, 0: all do.
            migrate: False refuses a version 1 file where it would be written.
            hooks: objects told of what is written; see `sessiontree.engine.hooks`.
            registry: resolves handles; by default `Registry.default()`.
            root: the folder that `file` handles are below; without it none is read.
            fs: the seam to the disk; another one is for tests.

        Raises:
            NotASessionError, ForeignFormatError, NewerFormatError: not ours to open.
            MissingHeaderError: not `readonly`, and its header is lost; see `repair_file`.
            MigrationRefusedError: version 1, and `migrate=False`.
            SessionBusyError: another writer is exclusive.
            RefError: `readonly`, and nothing was ever written on the lane.
            SessionNotFoundError, StorageError: the system refused.
        """
        if durability not in ("fsync", "os"):
            raise UsageError(f"durability is 'fsync' or 'os', not {durability!r}")
        if spill_over is not None and (not isinstance(spill_over, int) or spill_over < 0):
            raise UsageError(f"spill_over is a number of bytes or None, not {spill_over!r}")
        if readonly and exclusive:
            raise UsageError("a session is opened readonly or exclusive, not both")
        log = FileLog(fs, os.fspath(file), readonly=readonly, durability=durability)
        try:
            opened = opening.open_file(log, migrate=migrate)
            if exclusive:
                log.lock.keep()
            session = cls(opened.log, lane, hooks, spill_over)
            if readonly:
                lanes.check_there(session)
        except BaseException:
            log.close()
            raise
        session._file = opened
        session._disk = fs
        session._registry = registry
        session._root = None if root is None else os.fspath(root)
        return session

    @property
    def file(self) -> str | None:
        return None if self._log.path == _IN_MEMORY else self._log.path

    def _file_size(self) -> int:
        return super()._file_size() if self._file.is_current else self._file.size

    @property
    def damage(self) -> list[Damage]:
        found = self._file.damage_in_original(super().damage)
        file = self._file.original
        met = {(damage.offset, damage.kind) for damage in found}
        for identity, damage in self._followed:
            if identity == file.identity and (damage.offset, damage.kind) not in met:
                met.add((damage.offset, damage.kind))
                found.append(damage)
        return sorted(found, key=lambda damage: damage.offset)

    def refresh(self) -> None:
        super().refresh()
        if self._file.is_outdated():
            again = opening.reopened(self._file)
            if self._file.ends_by_rule:
                self._leaf = self.header
            self._reopen_on(again.log)
            self._file = again

    def _go_on_with(self, log: FileLog) -> None:
        super()._go_on_with(log)
        self._file = opening.Current(log)

    def original(self, ref: str | Entry) -> bytes:
        """The line that an entry was made of, as the program wrote it whose file this is.

        For a file of the current version that is the entry's own line.
        """
        return self._file.original_line(self.entry(ref))

    def verify(
        self, progress: Progress | None = None, *, processes: int | None = 1
    ) -> list[Damage]:
        return self._file.damage_in_original(super().verify(progress, processes=processes))

    def repair(self, *, dry_run: bool = False) -> RepairResult:
        """Mend what can be mended without guessing; the original is kept beside the file.

        Args:
            dry_run: only say what would be done.

        Returns:
            What was mended, where the original is, and what is damaged still.

        Raises:
            MigrationRefusedError: the file is of version 1, and was opened to read.
        """
        from sessiontree.engine import repair as recovery  # few sessions are ever mended

        self._ready()
        if dry_run:
            return recovery.repair(self._file.original, dry_run=True)
        with self._holding():
            done = recovery.repair(self._log)
            if done.evidence is not None:
                self._reopen()
                self._tail = self._leaf_in_file().uuid
        return done

    def follow(self, damaged: Callable[[Damage], object] | None = None) -> Iterator[Entry]:
        """Each entry that anyone adds after what this session knows, as it comes.

        Ends when the session is closed. Only lines ended by a newline are given. What is
        added and is not sound goes to `damage`.

        Args:
            damaged: told of it as well, as it comes.

        Raises:
            UsageError: the session is in memory, or the file is another agent's.
            FileReplacedError: the file was rewritten in place, or is another session's now.
            SessionNotFoundError: it is gone.
        """
        view = self._ready()
        if self.file is None:
            raise UsageError("a session in memory has no file to follow")
        if self._file.not_followed:
            raise UsageError(self._file.not_followed)
        self._log.size()  # refused where this is closed
        log = FileLog(self._disk, self.file, readonly=True)

        def note(identity: tuple[int, int], damage: Damage) -> None:
            self._followed.append((identity, damage))
            if damaged is not None:
                damaged(damage)

        size = view.complete if self._file.is_current else self._file.size
        known = self._file.original.identity, size
        told = following.Told(note, known, self._fetch, self._closing)
        return following.follow(log, view, self._log, told)

    def gc(self, *, dry_run: bool = False, now: datetime | None = None) -> GcResult:
        """Take out what was tried on scratch lanes and never kept, and blobs nobody names.

        Seven days after it was written it goes into an archive beside the file, and
        thirty days later the archive goes.

        Args:
            dry_run: only say what would go.
            now: the moment to count from, with a time zone; by default this one.

        Raises:
            CorruptionError: the file has lines that cannot be read; repair it first.
        """
        from sessiontree.engine.gc import collect  # seldom called

        moment = datetime.now(UTC) if now is None else now
        if moment.tzinfo is None:
            raise UsageError(f"now is a moment with a time zone, not {moment}")
        self._ready()
        if dry_run:
            return collect(self._log, self.blobs, [self._leaf.uuid], moment, dry_run=True)
        with self._holding():
            done = collect(self._log, self.blobs, [self._leaf.uuid], moment)
            if done.entries:
                self._reopen()
                self._tail = self._leaf_in_file().uuid
        return done

    def lane(self, name: str, at: Ref | None = None) -> Session:
        """A session on another lane of this file; to be closed by itself.

        That of a session opened with `readonly=True` looks at the lane, and writes nothing.

        Args:
            name: the lane; one without entries starts at the main leaf.
            at: the entry that its next one hangs below; by default the lane's leaf.

        Raises:
            RefError: this session was opened to read, and nothing is on the lane.
        """
        return lanes.opened(self, name, at)

    def scratch(self, at: Ref | None = None) -> Session:
        """A session on a fresh scratch lane, from an entry on, by default the leaf.

        What it writes moves no other leaf, and is garbage unless `keep` is called on it;
        so are the labels of its own entries. Other labels, and a name or metadata for the
        session, are written on main: they stay.
        One may be opened from another: it is then kept there, not on main.

        Raises:
            ReadOnlyError: this session was opened to read.
        """
        return lanes.scratch(self, at)

    def keep(self, lane: str | None = None) -> Entry:
        """Join a lane to this one by a `branch` entry below its last; this session goes there.

        Without `lane` the one that this session is on is joined to the lane of the session
        that it was opened from (main, where it was opened by `Session.open`). If it is a
        scratch lane, this session writes nothing more: go on with the other one. A lane kept
        by its name goes on as before, and what it gets later can be kept again.

        Returns:
            The entry written. Its `lane` is where it was joined (None is main). It has a
            `fromUuid` where that lane had gone on meanwhile: the entry it stood at, which
            is the tip of a side branch now; `merge` takes it in, `switch` goes back to it.

        Raises:
            NothingToDoError: nothing was written on the lane, or it is kept already.
        """
        return lanes.keep_own(self) if lane is None else lanes.keep(self, lane)

    def close(self) -> None:
        self._closing.set()
        super().close()
        if not self._file.is_current:
            self._file.original.close()


_IN_MEMORY = "(in memory)"
