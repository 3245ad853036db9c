"""The importer: other agents' sessions, made sessions of ours.

A session is imported into one file, which is found again by the session's id whatever
it is called, so that importing again adds what is new and nothing twice.

Invariants: what is imported is read and never written; two processes that import the
same session at the same time make one file of it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from sessiontree.catalog.listing import header_of
from sessiontree.core.damage import Damage
from sessiontree.core.origin import derived_uuid
from sessiontree.errors import (
    NotASessionError,
    SessionBusyError,
    SessionExistsError,
    SessionNotFoundError,
    SessionTreeError,
    UsageError,
)
from sessiontree.importing.source import Progress, Source, files_in
from sessiontree.importing.target import (
    IMPORTED_FROM,
    Counts,
    Named,
    Opening,
    Stored,
    begun,
    counted,
    create,
    is_at,
)
from sessiontree.importing.update import Grown
from sessiontree.storage.blobs import Blobs
from sessiontree.storage.fs import DISK, FileSystem
from sessiontree.storage.log import FileLog
from sessiontree.storage.move import make_folders
from sessiontree.storage.oserrors import speaking_of
from sessiontree.store import Store, file_name

_ATTEMPTS: Final = 5
_OURS: Final = "sessiontree"
"""Stands for the agent of sessions that may have been converted: they are found by their id."""


class ImportResult(msgspec.Struct, frozen=True, rename="camel"):
    """What became of one file.

    Attributes:
        source: its path.
        file: the session of ours that has it now.
        id: the session's id.
        agent: the agent that wrote it, in short; None for one of our own version 1.
        entries: the entries that it has; None where it was not read, being up to date.
        new: those that were written now.
        blobs: the large contents that were stored beside the session now.
        made: whether the session was made now.
        damage: what was met that is not sound, or could not be carried over.
    """

    source: str
    file: str
    id: str
    agent: str | None
    entries: int | None
    new: int
    blobs: int
    made: bool
    damage: list[Damage]

    @property
    def is_up_to_date(self) -> bool:
        """Whether there was nothing new."""
        return not self.made and not self.new


def import_session(
    file: str | os.PathLike[str],
    folder: str | os.PathLike[str] | None = None,
    *,
    progress: Progress | None = None,
    fs: FileSystem = DISK,
) -> ImportResult:
    """Import a session file of another agent, or one of version 1, into a session of ours.

    Args:
        file: the file; it is read, as are those of its subagents beside it, and not written.
        folder: where the session goes; made where it is not there. By default the user's
            store, to the project of the session's working directory.
        progress: told of the bytes read and the bytes in all, now and then.

    Raises:
        NothingToDoError: it is a session of ours already.
        NotASessionError, ForeignFormatError, NewerFormatError: it is no session, or of a
            program that is not known.
        SessionExistsError: another file stands where the session would.
        StorageError: the system refused.
    """
    return Importer(Store(fs=fs) if folder is None else folder, fs=fs).take(file, progress)


class Importer:
    """Imports many files into one place.

    Args:
        into: a store, where each goes to its project; or a folder.

    Raises:
        UsageError: what stands there is no folder.
    """

    def __init__(self, into: Store | str | os.PathLike[str], *, fs: FileSystem = DISK) -> None:
        self._store = into if isinstance(into, Store) else None
        self.folder = into.root if isinstance(into, Store) else os.fspath(into)
        self._fs = fs
        self._known: dict[tuple[str, str], str] | None = None
        if os.path.lexists(self.folder) and not os.path.isdir(self.folder):
            raise UsageError(f"{self.folder} is no folder; give one to import into")

    def sources(self, path: str, report: Callable[[str], object]) -> Iterator[str]:
        """The files that a path names: itself, or those in it that may be sessions.

        Args:
            path: a file or a folder.
            report: told of each folder in it that cannot be read, in a line that names it.

        Raises:
            SessionNotFoundError: there is nothing at the path.
        """
        if not os.path.isdir(path):
            if not os.path.lexists(path):
                raise SessionNotFoundError(f"there is no file {path}; check the path", path)
            yield path
            return
        yield from files_in(path, report)

    def take(self, file: str | os.PathLike[str], progress: Progress | None = None) -> ImportResult:
        """Import one file; see `import_session`."""
        path = os.fspath(file)
        for attempt in range(_ATTEMPTS):
            with Source(self._fs, path, progress) as source:
                done = self._up_to_date(source)
                done = done or self._imported(source, _opening_of(source), hold=attempt > 0)
            if done is not None:
                return done
        raise SessionBusyError(f"{path} is imported by others at this moment; try again", path)

    def look(self, file: str | os.PathLike[str], progress: Progress | None = None) -> ImportResult:
        """What `take` would do with a file now; nothing is written."""
        with Source(self._fs, os.fspath(file), progress) as source:
            return self._up_to_date(source) or self._looked(source, _opening_of(source))

    def _up_to_date(self, source: Source) -> ImportResult | None:
        """What is told of a source that was imported as it is; None where it was not."""
        id = source.likely_id()
        target = self._target_of(source, id)
        if target is None or not is_at(self._fs, target, source.state):
            return None
        return _told(source, target, id, None, made=False)

    def _looked(self, source: Source, opening: Opening) -> ImportResult:
        id = opening.header["id"]
        target = self._target_of(source, id)
        if target is None:
            target = os.path.join(self._folder_for(opening), _name_for(opening))
            if os.path.lexists(target):
                raise _taken(target, source)
            return _told(source, target, id, counted(opening), made=True)
        log = FileLog(self._fs, target, readonly=True)
        try:
            named = Named()
            _, counts = Grown(log, opening, source.agent).added(named.put)
        finally:
            log.close()
        return _told(source, target, id, counts._replace(blobs=len(named.blobs)), made=False)

    def _imported(self, source: Source, opening: Opening, *, hold: bool) -> ImportResult | None:
        """Import a source; None where another program was faster, and it is to be looked again."""
        id = opening.header["id"]
        target = self._target_of(source, id)
        if target is None:
            target = self._path_for(opening)
            try:
                counts = create(self._fs, target, opening)
            except SessionExistsError as error:
                self._known = None
                if self._target_of(source, id) is not None:
                    return None
                raise _taken(target, source) from error
            self._note(source, id, target)
            return _told(source, target, id, counts, made=True)
        grown = self._grow(target, source, opening, hold=hold)
        return None if grown is None else _told(source, target, id, grown, made=False)

    def _grow(self, target: str, source: Source, opening: Opening, *, hold: bool) -> Counts | None:
        """Add what is new to a target; None where others wrote to it meanwhile.

        Args:
            hold: whether to keep others out from the start.
        """
        log = FileLog(self._fs, target)
        try:
            if hold:
                with log.hold():
                    return self._grow_now(log, source, opening)
            return self._grow_now(log, source, opening)
        finally:
            log.close()

    def _grow_now(self, log: FileLog, source: Source, opening: Opening) -> Counts | None:
        blobs = Stored(Blobs(self._fs, log.path))
        grown = Grown(log, opening, source.agent)
        lines, counts = grown.added(blobs.put)
        if lines:
            with log.hold():
                if not log.ends_at(grown.size) or not blobs.are_kept():
                    return None
                log.append(b"\n".join([*lines, b""]), grown.size)
        return counts._replace(blobs=len(blobs.blobs))

    def _path_for(self, opening: Opening) -> str:
        """Where a session is to be made, in a folder that is there then."""
        folder = self._folder_for(opening)
        with speaking_of(folder, "make"):
            make_folders(self._fs, os.path.abspath(folder))
        return os.path.join(folder, _name_for(opening))

    def _folder_for(self, opening: Opening) -> str:
        cwd = opening.header.get("cwd")
        if self._store is not None and isinstance(cwd, str) and os.path.isabs(cwd):
            with contextlib.suppress(UsageError):  # no path that a system could have
                return self._store.project_dir(cwd)
        return self.folder

    def _target_of(self, source: Source, id: str) -> str | None:
        """The session that a source was imported into, or else converted from; None for none."""
        if self._known is None:
            self._known = dict(reversed(list(self._targets())))
        target = self._known.get(_key(source.agent, id))
        if target is None and source.is_converted():
            target = self._known.get((_OURS, id))
        return target

    def _note(self, source: Source, id: str, path: str) -> None:
        assert self._known is not None
        self._known[_key(source.agent, id)] = path

    def _targets(self) -> Iterator[tuple[tuple[str, str], str]]:
        """The sessions in the folder, in order of their paths, each with what it is found by."""
        if not os.path.isdir(self.folder):
            return
        for path in files_in(self.folder, lambda problem: None):
            try:
                header = header_of(path, self._fs)
            except SessionTreeError:
                continue
            id, metadata = header.get("id"), header.get("metadata")
            if not isinstance(id, str):
                continue
            yield (_OURS, id), path
            yield (_OURS, derived_uuid(id, id, 0)), path  # by which Claude Code knows it
            if not isinstance(metadata, dict) or "parentSession" in header:
                continue
            if IMPORTED_FROM in metadata:
                yield _key(metadata.get("agent"), id), path


def _opening_of(source: Source) -> Opening:
    opening = begun(source)
    if opening is None:
        raise NotASessionError(
            f"{source.path} has no line that could be read; there is nothing to import", source.path
        )
    return opening


def _name_for(opening: Opening) -> str:
    created = opening.header.get("timestamp")
    stamp = created.encode("ascii", "replace").decode() if isinstance(created, str) else None
    return file_name(stamp, opening.header["id"])


def _taken(target: str, source: Source) -> SessionExistsError:
    return SessionExistsError(
        f"{target} is there already, is no import of {source.path}, and was left as it is; "
        "import into another folder",
        target,
    )


def _key(agent: str | None, id: str) -> tuple[str, str]:
    """What tells a session apart. Version 1 was pi's before it was ours, and pi migrates it."""
    return agent or "pi", id


def _told(
    source: Source, target: str, id: str, counts: Counts | None, *, made: bool
) -> ImportResult:
    entries, new, blobs = counts or (None, 0, 0)
    damage = sorted(source.damage, key=lambda found: (found.file, found.offset))
    return ImportResult(source.path, target, id, source.agent, entries, new, blobs, made, damage)
