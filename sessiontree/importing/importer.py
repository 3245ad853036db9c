"""The import of one source or many: a session made from it, or updated.

A source is imported into one session, which the source's session id identifies, whatever the file's
name; so a second import adds what is new and nothing twice.

A transcript of a subagent may stay behind when its agent deletes the session. The imported session
has the transcript as a lane. An entry has the uuid that the agent gave its line; a line without a
uuid is known by its content.

Invariants:

- A source is read and never written.
- Two processes that import one source at the same time make one session.
- What an import wrote is read back and compared with its checksums and hashes before the import
  counts as done, a new file even before it gets its name.
- A file that cannot be imported hides no other.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from sessiontree.agents import OF_VERSION_1
from sessiontree.agents.base import values
from sessiontree.core.damage import Damage, Note, Notes
from sessiontree.core.header import IMPORTED_FROM, derived_uuid, folder_name
from sessiontree.core.index import NO_ROW
from sessiontree.engine.logtree import LogTree
from sessiontree.errors import (
    FileError,
    NothingToDoError,
    SessionBusyError,
    SessionExistsError,
    SessionNotFoundError,
    SessionTreeError,
    UsageError,
)
from sessiontree.importing.source import ImportSource, Progress, entries_of
from sessiontree.importing.target import (
    BlobHandles,
    ImportCounts,
    OpenedSource,
    SharedBlobs,
    Update,
    check_lines,
    create,
    handle_of,
    is_up_to_date,
    opening_of,
    planned,
)
from sessiontree.library.catalogs import catalog_at
from sessiontree.library.listing import (
    Reaches,
    SessionInfo,
    converted_until,
    every,
    facts_of,
    moment,
    without_stubs,
)
from sessiontree.library.places import files_in
from sessiontree.library.root import default_root, file_name
from sessiontree.storage.fs import DISK, FileSystem
from sessiontree.storage.lines import rest_of_line
from sessiontree.storage.log import Log, Moved
from sessiontree.storage.names import (
    Report,
    is_database,
    is_other_than_folder,
    problem_of,
    unreadable,
)
from sessiontree.storage.place import path_of, whole_path
from sessiontree.storage.places import blobs_of, check_new, open_log


def has_all(fs: FileSystem, session: str, source: ImportSource) -> bool:
    """True if a session has every line of a transcript."""
    with contextlib.closing(open_log(fs, session, readonly=True)) as log:
        tree = LogTree(log).tree()
        offsets = (tree.offsets[row] for row in tree.rows_of_type("custom"))
        kept = {_content(rest_of_line(log.read, offset)) for offset in offsets} - {b""}
        for entry in islice(entries_of(source), 1, None):  # the header is made
            is_known = entry.is_made or tree.row(entry.uuid) != NO_ROW
            if entry.type == "custom" and not is_known:
                is_known = _content(entry.line(handle_of)) in kept
            if not is_known:
                return False
    return True


def _content(line: bytes) -> bytes:
    """The line of the agent in a custom entry; empty for one of another program."""
    keys = values(line)
    return keys.raw("data") if keys is not None and "data" in keys else b""


_OURS: Final = "sessiontree"
"""The agent of the sessions that a converted file may come from; their id identifies them."""


class ImportResult(msgspec.Struct, frozen=True, rename="camel"):
    """The result of importing one file.

    Attributes:
        source: the path of the imported file.
        file: the path of the session that has the imported entries.
        id: the id of the session.
        agent: the short name of the agent that wrote the source; None for version 1 of sessiontree.
        entries: the number of entries in the source, without the header; None if the session
            was up to date, so that the source was not read.
        new: the number of entries written by this import.
        blobs: the number of blobs stored by this import.
        made: whether this import made the session.
        damage: the damage found in the source, and the parts that could not be imported.
        notes: the lines of unknown types in the source, one note a type.
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
    notes: list[Note]

    @property
    def is_up_to_date(self) -> bool:
        """True if the import wrote nothing."""
        return not self.made and not self.new


def import_session(
    file: str | os.PathLike[str],
    folder: str | os.PathLike[str] | None = None,
    *,
    progress: Progress | None = None,
    fs: FileSystem = DISK,
) -> ImportResult:
    """Import a session file of another agent, or of version 1.

    Args:
        file: the file to import. This file and the files of its subagents are only read.
        folder: the folder for the new session, created if it is missing, or an address; by default
            the folder for the session's working directory in the user's store.
        progress: called from time to time with the bytes read so far and the total bytes.

    Raises:
        NothingToDoError: the file is already a sessiontree file.
        NotASessionError, ForeignFormatError, NewerFormatError: the file is not a session, or
            has a format that cannot be imported.
        SessionExistsError: another file has the path of the session.
        StorageError: a file cannot be read or written.
    """
    into = default_root() if folder is None else folder
    return Importer(into, by_project=folder is None, fs=fs).take(file, progress)


class Importer:
    """Imports many files into one place.

    Args:
        folder: where the sessions go: a folder, or an address.
        by_project: whether the folder is the root of a store, where each session goes to the folder
            of its project.
        reaches: True for the path of a file that may be read, of an agent or of the folder.

    Raises:
        UsageError: the path is not a folder, or the address is not that of a place.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        by_project: bool = False,
        fs: FileSystem = DISK,
        reaches: Reaches = every,
    ) -> None:
        root = path_of(os.fspath(folder))
        self._catalog = catalog_at(whole_path(root) if by_project else root, fs, reaches)
        self._reaches = reaches
        self._shared = SharedBlobs(fs, self._catalog.root) if self._catalog.place is None else None
        if self._shared is not None and is_other_than_folder(root):
            raise UsageError(f"{root} is not a folder; give a folder to import into")
        self._by_project = by_project
        self._fs = fs
        self._known: dict[tuple[str, str], list[str]] | None = None

    def sources(self, path: str, report: Report) -> Iterator[str]:
        """The file at a path, or the files in the folder there that may be sessions.

        A chat of Gemini CLI in which nothing is said, as a resume leaves it, is left out if
        another chat beside it is of the same session.
        `report` is called with one line for each folder that cannot be read, and each file that
        may not be.
        SessionNotFoundError: there is nothing at the path.
        StorageError: the path cannot be looked at.
        """
        is_store = os.path.isdir(path) or is_database(path)
        if not is_store and is_other_than_folder(path):
            yield path
        elif is_store:
            yield from without_stubs(files_in([path], report, self._reaches), self._fs)
        else:
            try:
                os.stat(path)
            except PermissionError as error:
                raise unreadable(path, error) from error
            except OSError:
                pass
            raise SessionNotFoundError(f"there is no file {path}; check the path", path)

    def take(self, file: str | os.PathLike[str], progress: Progress | None = None) -> ImportResult:
        """Import one file; see `import_session`."""
        return self._done(os.fspath(file), progress, is_dry=False)

    def look(self, file: str | os.PathLike[str], progress: Progress | None = None) -> ImportResult:
        """What `take` would do with a file now; nothing is written."""
        return self._done(os.fspath(file), progress, is_dry=True)

    def _done(self, path: str, progress: Progress | None, *, is_dry: bool) -> ImportResult:
        for attempt in range(5):
            with ImportSource(self._fs, path, progress) as source:
                done = self._up_to_date(source)
                done = done or self._imported(source, hold=attempt > 0, is_dry=is_dry)
            if done is not None:
                return done
        raise SessionBusyError(f"other programs are importing {path}; try again", path)

    def kept(self, file: str) -> ImportResult | None:
        """The result for a file without a change since its import, else None; nothing is written.

        Only the start of the file is read, and the end of its session.
        """
        with ImportSource(self._fs, file) as source:
            return self._up_to_date(source)

    def holder_of(self, file: str) -> str | None:
        """The session that has all of a file under another name; else None.

        That is a converted file with which its agent never went on, or the transcript of a subagent
        of Claude Code, which its session would have beside itself.
        """
        with ImportSource(self._fs, file) as source:
            if is_mere_copy(facts_before_import(file, self._fs)):
                return self._target_of(source, source.likely_id())
            session, is_of_subagent = source.id_above()
            target = self._target_of(source, session) if is_of_subagent else None
            return target if target is not None and has_all(self._fs, target, source) else None

    def _up_to_date(self, source: ImportSource) -> ImportResult | None:
        """The result for a source without a change since its import, else None."""
        id = source.likely_id()
        for target in self._targets_of(source, id):  # the trash may have several
            if is_up_to_date(self._fs, target, source.state):
                return _result(source, target, id, None, made=False)
        return None

    def _imported(self, source: ImportSource, *, hold: bool, is_dry: bool) -> ImportResult | None:
        """Import a source; None if another program wrote first, and the import must restart.

        `hold` locks an existing session from the start.
        """
        opening = opening_of(source)
        id = opening.header["id"]
        target = self._target_of(source, id)
        if target is not None:
            counts = self._updated(target, source, opening, hold=hold, is_dry=is_dry)
            return None if counts is None else _result(source, target, id, counts, made=False)
        target = self._path_for(opening)
        try:
            if is_dry:
                check_new(self._fs, target)
                return _result(source, target, id, planned(opening), made=True)
            counts = create(self._fs, target, opening, self._shared)
        except SessionExistsError as error:
            self._known = None
            if self._target_of(source, id) is not None:
                return None
            raise SessionExistsError(
                f"{target} is there already and is not an import of {source.path}; it was left as "
                "it is; import into another folder",
                target,
            ) from error
        assert self._known is not None
        for key in (_key(source.maker, id), (_OURS, id)):
            self._known[key] = [target]
        return _result(source, target, id, counts, made=True)

    def _updated(
        self, target: str, source: ImportSource, opening: OpenedSource, *, hold: bool, is_dry: bool
    ) -> ImportCounts | None:
        """Add new entries to a session; None if another program wrote to it meanwhile."""
        blobs = BlobHandles(None if is_dry else blobs_of(self._fs, target), self._shared)
        with contextlib.closing(open_log(self._fs, target, readonly=is_dry)) as log:
            with log.hold() if hold else contextlib.nullcontext():
                update = Update(log, opening, source.maker)
                lines, counts = update.lines(blobs.put)
                if lines and not is_dry and not self._appended(target, log, update, lines, blobs):
                    return None
            return counts._replace(blobs=len(blobs.made))

    def _appended(
        self, target: str, log: Log, update: Update, lines: list[bytes], blobs: BlobHandles
    ) -> bool:
        """Append lines, and read them back; False if the log or a blob changed meanwhile."""
        with log.hold():
            if not log.ends_at(update.size) or not blobs.are_stored():
                return False
            block = b"\n".join([*lines, b""])
            try:
                start = log.append(block, update.size)
            except Moved:  # the connection that kept others out was lost
                return False
        check_lines(self._fs, target, start, start + len(block), len(lines))
        blobs.check()
        return True

    def _path_for(self, opening: OpenedSource) -> str:
        cwd, created = opening.header.get("cwd"), opening.header.get("timestamp")
        stamp = created.encode("ascii", "replace").decode() if isinstance(created, str) else None
        name = file_name(stamp, opening.header["id"])
        if self._by_project and isinstance(cwd, str) and os.path.isabs(cwd):
            with contextlib.suppress(ValueError):  # no path on this system
                name = f"{folder_name(os.path.abspath(cwd))}/{name}"
        return self._catalog.file(name)

    def _target_of(self, source: ImportSource, id: str) -> str | None:
        """The session that a source was imported into or converted from, or None."""
        return next(iter(self._targets_of(source, id)), None)

    def _targets_of(self, source: ImportSource, id: str) -> Sequence[str]:
        """The sessions of one key, the one that counts first."""
        if self._known is None:
            self._known = {}
            for key, path in sorted(self._targets(), key=lambda at: os.path.split(at[1])):
                self._known.setdefault(key, []).append(path)
        targets = self._known.get(_key(source.maker, id), ())
        if not targets and source.is_converted():
            targets = self._known.get((_OURS, id), ())
        return targets

    def _targets(self) -> Iterator[tuple[tuple[str, str], str]]:
        """The keys of the sessions there, each with the file."""
        for path, header in self._catalog.headers():
            id, metadata = header.get("id"), header.get("metadata")
            if not isinstance(id, str):
                continue
            yield (_OURS, id), path
            yield (_OURS, derived_uuid(id, id, 0)), path  # its id for Claude Code
            if not isinstance(metadata, dict) or "parentSession" in header:
                continue
            if IMPORTED_FROM in metadata:
                yield _key(metadata.get("agent"), id), path


def _key(agent: str | None, id: str) -> tuple[str, str]:
    """What identifies a session. pi wrote version 1 first, and migrates it to its own version 2."""
    return agent or OF_VERSION_1, id


def _result(
    source: ImportSource, target: str, id: str, counts: ImportCounts | None, *, made: bool
) -> ImportResult:
    entries, new, blobs = counts or (None, 0, 0)
    damage = sorted(source.damage, key=lambda found: (found.file, found.offset))
    return ImportResult(
        source.path,
        target,
        id,
        source.maker,
        entries,
        new,
        blobs,
        made,
        damage,
        source.notes.found(),
    )


Shown = Callable[[float, int, str], object]
"""Called with how many files are done, of how many, and the name of the file that is read."""


def facts_before_import(file: str, fs: FileSystem = DISK) -> SessionInfo | None:
    """The facts of a file; None if it has none, which the import says."""
    with contextlib.suppress(SessionTreeError):
        return facts_of(file, fs)
    return None


def is_mere_copy(found: SessionInfo | None) -> bool:
    """True if a file was converted from a session, and its agent never went on with it."""
    return found is not None and found.is_converted and not found.went_on


def place_in_order(found: SessionInfo | None, fs: FileSystem = DISK) -> tuple[float, float]:
    """A key by which files are imported in order: originals, then what was converted from them.

    What an agent added to a converted session belongs to its original. A session that was converted
    twice has all of the first conversion, and more. Of other copies the latest comes last, so that
    the session is where that one is. `found` is what `facts_before_import` gives.
    """
    if found is None:
        return -math.inf, 0.0
    converted = converted_until(found.file, fs) if found.is_converted else -math.inf
    return converted, moment(found.modified)


def shared_by(sources: dict[str, str], result: ImportResult) -> str | None:
    """What to say of two sources of one session; `sources` has the first of each session."""
    other = sources.setdefault(result.file, result.source)
    if other == result.source or result.is_up_to_date:
        return None
    found = facts_before_import(result.source)
    if found is not None and found.is_converted:  # what its agent added is of that conversation
        return None
    both = f"{other} and {result.source} are both of the session {result.id}"
    return f"{both}, and both are in {result.file} now"


class Batch:
    """The files of one import.

    Args:
        importer: where the sessions go.
        given: the files, and the folders of files.
        fail: called with the error of each file that should have been imported; if only one file is
            given, its error is raised instead.
        dry_run: only look what would be imported.
    """

    def __init__(
        self,
        importer: Importer,
        given: Sequence[str],
        fail: Callable[[SessionTreeError], object],
        *,
        dry_run: bool = False,
    ) -> None:
        self._importer = importer
        self._take = importer.look if dry_run else importer.take
        self._tell_failure = fail
        self._sources: dict[str, str] = {}
        self._files: list[tuple[str, bool]] = []
        self._is_alone = len(given) == 1 and not os.path.isdir(given[0])
        self.failed = False  # whether a file failed that should have been imported
        self.left_out: list[str] = []  # why files were left out that may be no sessions
        self.shared: list[str] = []  # warnings about files of one session id
        self.damage: list[Damage] = []  # in the files
        self.notes = Notes()
        self.imported = self.updated = self.same = 0  # sessions
        self.new = 0  # entries
        for path in given:
            try:
                files = importer.sources(path, self._refuse)
                found = [(file, file == path) for file in files]
            except SessionNotFoundError as error:
                self._fail(error)
                continue
            if not found:
                self.left_out.append(f"there is no session file in {path}; check the path")
                self.failed = self.failed or len(given) == 1
            self._files += found
        facts = {file: facts_before_import(file) for file, _ in self._files}
        self._mere_copies = {file for file, found in facts.items() if is_mere_copy(found)}
        self._files.sort(key=lambda each: place_in_order(facts[each[0]]))

    @property
    def is_of_many(self) -> bool:
        """True if more than one file is given, or a folder."""
        return len(self._files) > 1 or not self._is_alone

    def results(self, shown: Shown) -> Iterator[ImportResult]:
        """Import each file that is a session of another agent."""
        for number, (file, is_named) in enumerate(self._files):

            def report(done: float, size: float, at: int = number, file: str = file) -> None:
                shown(at + done / max(size, 1), len(self._files), os.path.basename(file))

            shown(number, len(self._files), os.path.basename(file))
            try:
                is_copy = file in self._mere_copies and not is_named
                if is_copy and self._importer.holder_of(file):
                    continue
                result = self._take(file, report)
            except SessionTreeError as error:
                if is_named or not isinstance(error, FileError | NothingToDoError):
                    self._fail(error)
                elif isinstance(error, FileError):
                    self.left_out.append(str(error))
                continue
            except Exception as error:
                if self._is_alone:
                    raise
                self._refuse(problem_of(file, error))
                continue
            self._note(result)
            yield result

    def _note(self, result: ImportResult) -> None:
        if (shared := shared_by(self._sources, result)) is not None:
            self.shared.append(
                f"{shared}; if they are not one conversation, import each into a folder of its own"
            )
        self.damage += result.damage
        for note in result.notes:
            self.notes.add(note)
        self.new += result.new
        self.imported += result.made
        self.same += result.is_up_to_date
        self.updated += not (result.made or result.is_up_to_date)

    def _refuse(self, problem: str) -> None:
        self.left_out.append(problem)
        self.failed = True

    def _fail(self, error: SessionTreeError) -> None:
        if self._is_alone:
            raise error
        self.failed = True
        self._tell_failure(error)
