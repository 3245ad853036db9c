"""The source: a file of another agent, or of version 1, as version 2 lines.

Invariants: the file and those beside it are opened to read and never written; an import sees the
file as it was when it was opened, whatever its program appends; the same file gives the same lines.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from sessiontree.catalog.listing import Reaches, every, reached
from sessiontree.core.damage import Damage
from sessiontree.core.migrate import migrate
from sessiontree.core.notes import UNKNOWN_TYPE, Note, Notes
from sessiontree.core.origin import KEY as ORIGIN
from sessiontree.engine.opening import sniff_file
from sessiontree.engine.translated import SourceFile, agent_files, damage_of, history_files
from sessiontree.engine.view import View
from sessiontree.errors import NothingToDoError, UsageError
from sessiontree.formats import Format
from sessiontree.formats.base import Place, Translated
from sessiontree.storage.files import (
    SUBAGENTS,
    SUFFIX,
    TOOL_RESULTS,
    Report,
    chat_id_in,
    is_not_entered,
    is_of_chat,
    is_session_name,
    own_folder,
    path_in,
    read_side_file,
)
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.log import FileLog, closed_on_failure
from sessiontree.storage.place import names_place, without_secret
from sessiontree.storage.rollouts import in_force, index_line

Progress = Callable[[int, int], object]
"""Takes the number of bytes read so far and the total number of bytes."""

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SUFFIXES: Final = (".jsonl.zst", ".jsonl", ".json")
_CONVERTED: Final = b'"%b":{"entry":"' % ORIGIN.encode()


class Source:
    """One file to import; a context manager. `format` is None for version 1.

    Attributes:
        damage: the damage found so far, and what could not be imported.
        notes: the lines of unknown types found so far.
        state: a digest of the sizes and times of the file and those beside it.

    Raises:
        UsageError: the path is an address.
        NothingToDoError: the file is a session of sessiontree already.
    """

    def __init__(self, fs: FileSystem, path: str, progress: Progress | None = None) -> None:
        if names_place(path):
            raise UsageError(f"{without_secret(path)} is an address; give the path of a file")
        self.path = path
        self.damage: list[Damage] = []
        self.notes = Notes()
        self._fs = fs
        self._progress = progress
        self._done = 0
        self.state = _state(fs, path)  # taken first, so that it is never newer than the content
        self._log = FileLog(fs, path, readonly=True)
        with closed_on_failure(self._log):
            start = sniff_file(self._log)
            if start.kind not in ("foreign", "version 1"):
                raise NothingToDoError(
                    f"{path} is a session of sessiontree already; open it as it is"
                )
            self.format: Format | None = start.format
            self._view = View(self._log) if start.format is None else None
            sidecar = index_line(path, fs)
            self._file = SourceFile(self._log, sidecar)
            self._again = SourceFile(self._log)  # for lines that the other has passed
        self._file.passed = self._passed

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *error: object) -> None:
        for opened in self._file.opened:
            opened.close()
        self._log.close()

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return self._file.name

    @property
    def agent(self) -> str | None:
        """The short name of the agent that wrote it; None for version 1."""
        return None if self.format is None else self.format.name

    def session_id(self, given: str) -> str:
        """The id of the session, from the id in its lines.

        For Claude Code the file's name is the id, and subagents' files have names of their
        own; the lines may hold the id of the session that this one continues.
        """
        stem = _stem(self.name)
        given = given.encode("utf-8", "replace").decode()
        if self.agent == "claude-code":
            if _UUID.fullmatch(stem):
                return stem
            if stem.startswith("agent-"):
                return f"{given}.{stem}"
        return given or stem

    def likely_id(self) -> str:
        """The id by the start of the file; a wrong one if the start does not hold it."""
        if self.format is not None:
            head = self._file.head()
            return self.session_id(self.format.facts(head, b"").id or "")
        assert self._view is not None
        return self.session_id(str(self._view.header.get("id") or ""))

    def id_above(self) -> tuple[str, bool]:
        """The id of the session that started this one, and whether this is a subagent's."""
        id, stem = self.likely_id(), _stem(self.name)
        is_of_subagent = self.agent == "claude-code" and stem.startswith("agent-")
        return id.removesuffix(f".{stem}"), is_of_subagent

    def is_converted(self) -> bool:
        return _CONVERTED in self._file.head()

    def translated(self) -> Iterator[Translated]:
        """The version 2 lines, the header first, each with the place of its source line."""
        if self.format is not None:
            yield from self.format.translate(self._file, self.note)
            self.damage += damage_of(self._file, self.damage)
            return
        assert self._view is not None
        places = [Place(0, 1, 0)]

        def lines() -> Iterator[bytes]:
            assert self._view is not None
            for number, (offset, line) in enumerate(self._view.lines(), 1):
                places[0] = Place(0, number, offset)
                self._passed(len(line) + 1)
                yield line

        for line in migrate(lines(), 1):
            yield places[0], line

    def line_at(self, place: Place) -> bytes:
        source = self._file.numbered(place.source) if place.source else self._again
        return source.value_at(place.offset)

    def result_kept_beside(self, name: str) -> bytes | None:
        """The content of a result file by its name; None if it cannot be read."""
        folder = os.path.splitext(os.path.realpath(self.path))[0]
        if os.path.basename(os.path.dirname(folder)) == SUBAGENTS:
            folder = os.path.dirname(os.path.dirname(folder))
        results = os.path.join(folder, TOOL_RESULTS)
        path = path_in(results, name)
        if path is None or os.path.islink(folder) or os.path.islink(results):
            return None
        return read_side_file(self._fs, path)

    def note(self, kind: str, place: Place, cause: str) -> None:
        if kind == UNKNOWN_TYPE and self.notes.again(cause):
            return
        file = self._file.numbered(place.source).path
        if kind == UNKNOWN_TYPE:
            self.notes.add(Note(file, place.number, place.offset, cause))
            return
        self.damage.append(Damage(file, place.number, place.offset, kind, cause))

    def _passed(self, size: int) -> None:
        if self._progress is None:
            return
        self._done += size
        size_of_all = sum(file.size for file in (self._file, *self._file.opened))
        if self.agent == "claude-code":  # it is read twice
            size_of_all *= 2
        self._progress(min(self._done, size_of_all), size_of_all)


class Parts(NamedTuple):
    """What decides what an import of a file reads."""

    files: list[str]  # the file, and those beside it, there or not
    folders: list[str]  # where more of them may appear
    is_whole: bool  # whether all other files are there that the file names


def parts_of(path: str, fs: FileSystem) -> Parts:
    missing: list[str] = []
    beside = list(agent_files(path, lambda problem: None))  # reading reports the problems
    sidecars = [found.removesuffix(".jsonl") + ".meta.json" for found in beside]
    history = history_files(path, fs, missing.append)
    return Parts([path, *beside, *sidecars, *history], _folders_beside(path), not missing)


def _folders_beside(path: str) -> list[str]:
    """The folders of what belongs to a session, there or not."""
    own = own_folder(path)
    found = [own, os.path.join(own, TOOL_RESULTS)]
    for where, names, _ in os.walk(os.path.join(own, SUBAGENTS)):
        found += [where, *(os.path.join(where, name) for name in names)]
    id = chat_id_in(path)
    if id is not None:
        chats = os.path.dirname(path) or os.curdir
        found.append(chats)
        with contextlib.suppress(OSError):
            names = [name for name in os.listdir(chats) if is_of_chat(name, (id,))]
            found += [os.path.join(chats, name) for name in names]
    return list(dict.fromkeys(found))


def _state(fs: FileSystem, path: str) -> str:
    digest = hashlib.sha256()
    digest.update(index_line(path, fs) or b"")
    for each in parts_of(path, fs).files:
        with contextlib.suppress(OSError):
            found = fs.stat(each)
            facts = f"{os.path.basename(each)}\n{found.size}\n{found.modified!r}\n"
            digest.update(facts.encode("utf-8", "replace"))
    return digest.hexdigest()[:32]


def _stem(name: str) -> str:
    return next((name.removesuffix(end) for end in _SUFFIXES if name.endswith(end)), name)


def files_in(folder: str, report: Report, reaches: Reaches = every) -> Iterator[str]:
    """The files below a folder that may be agents' sessions, ordered by path; Codex's come last.

    Subagents' files are left out if their session is there, and a segment of Codex if a newer one
    of its thread is there. Only files that the caller `reaches` count. `report` is called with one
    line for each folder and each file that cannot or may not be read.
    """

    def refused(error: OSError) -> None:
        report(f"cannot read {error.filename}: {error.strerror}; check its permissions")

    def named_as_sessions() -> Iterator[str]:
        for where, folders, names in os.walk(folder, onerror=refused):
            chats = set(map(chat_id_in, names))
            folders[:] = sorted(
                name
                for name in folders
                if not (_is_skipped(where, name) or is_of_chat(name, chats))
            )
            for name in sorted(names):
                if is_session_name(name) and not name.startswith("."):
                    yield os.path.join(where, name)

    return in_force(reached(named_as_sessions(), reaches, report))


def _is_skipped(where: str, name: str) -> bool:
    is_part = name == SUBAGENTS and os.path.isfile(where + SUFFIX)
    return is_part or is_not_entered(name)
