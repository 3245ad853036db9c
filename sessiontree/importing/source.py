"""The source: a file of another program, or of version 1, as lines of ours.

Invariants: it is opened to read, and nothing of it or beside it is written; what it
says is what it said when it was opened, however its program goes on; the same file
gives the same lines.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from typing import Final

from sessiontree.core.damage import Damage
from sessiontree.core.migrate import migrate
from sessiontree.core.origin import KEY as ORIGIN
from sessiontree.engine.opening import sniff_file
from sessiontree.engine.translated import SourceFile, agent_files, damage_of
from sessiontree.engine.view import View
from sessiontree.errors import NothingToDoError
from sessiontree.formats import Format
from sessiontree.formats.base import Place, Translated
from sessiontree.storage.fs import READ_PLAIN, FileSystem
from sessiontree.storage.log import FileLog

Progress = Callable[[int, int], object]
"""Takes the bytes that were read, and those that there are."""

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SUFFIXES: Final = (".jsonl.zst", ".jsonl", ".json")
_CONVERTED: Final = b'"%b":{"entry":"' % ORIGIN.encode()
_LARGEST_RESULT: Final = 1 << 30
"""Bytes of a result that are taken into memory."""


class Source:
    """One file to be carried over; a context manager.

    Attributes:
        path: as given.
        format: its format; None for one of our own version 1.
        damage: what was met so far that is not sound, or could not be carried.
        state: what tells this state of the file, and of those beside it, from another.
    """

    def __init__(self, fs: FileSystem, path: str, progress: Progress | None = None) -> None:
        """Open a file.

        Raises:
            NothingToDoError: it is a session of ours already.
            NotASessionError, ForeignFormatError, NewerFormatError: it is no session, or of a
                program that is not known.
            SessionNotFoundError, StorageError: it cannot be read.
        """
        self.path = path
        self.damage: list[Damage] = []
        self._fs = fs
        self._progress = progress
        self._done = 0
        self.state = _state(fs, path)  # before it is opened: it may be older than what is read
        self._log = FileLog(fs, path, readonly=True)
        try:
            start = sniff_file(self._log)
            if start.kind not in ("foreign", "version 1"):
                raise NothingToDoError(
                    f"{path} is a session of sessiontree already; open it as it is"
                )
            self.format: Format | None = start.format
            self._view = View(self._log) if start.format is None else None
            self._file = SourceFile(self._log)
            self._again = SourceFile(self._log)  # for those behind where the other reads
        except BaseException:
            self._log.close()
            raise
        self._file.passed = self._passed

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *error: object) -> None:
        for opened in self._file.opened:
            opened.close()
        self._log.close()

    @property
    def name(self) -> str:
        """The name of the file, without its folders."""
        return self._file.name

    @property
    def agent(self) -> str | None:
        """The short name of the agent that wrote it; None for our own version 1."""
        return None if self.format is None else self.format.name

    def session_id(self, told: str) -> str:
        """The id of the session, given the one that its lines tell.

        Claude Code knows a session by its file's name, and its subagents' files by names
        of their own; in the lines a session may have the id of the one it went on from.
        """
        stem = _stem(self.name)
        told = told.encode("utf-8", "replace").decode()
        if self.agent == "claude-code":
            if _UUID.fullmatch(stem):
                return stem
            if stem.startswith("agent-"):
                return f"{told}.{stem}"
        return told or stem

    def likely_id(self) -> str:
        """The same by a look at the start of the file; another where that does not tell."""
        if self.format is not None:
            head = self._file.head()
            return self.session_id(self.format.facts(head, b"").id or "")
        assert self._view is not None
        return self.session_id(str(self._view.header.get("id") or ""))

    def is_converted(self) -> bool:
        """Whether it is a session of ours that was converted."""
        return _CONVERTED in self._file.head()

    def translated(self) -> Iterator[Translated]:
        """The lines of ours, the header first, each with the place of the line it was made of."""
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
        """The line that stands at a place."""
        source = self._file.numbered(place.source) if place.source else self._again
        return source.value_at(place.offset)

    def result_kept_beside(self, name: str) -> bytes | None:
        """What a tool gave, and the agent put into a file of its own; None if it cannot be had.

        Args:
            name: the name of the file, without its folders.
        """
        folder = os.path.splitext(os.path.realpath(self.path))[0]
        if os.path.basename(os.path.dirname(folder)) == "subagents":
            folder = os.path.dirname(os.path.dirname(folder))
        try:
            fd = self._fs.open(os.path.join(folder, "tool-results", name), READ_PLAIN)
        except OSError:
            return None
        try:
            found = self._fs.stat(fd)
            if found.is_folder or found.is_stream or found.size > _LARGEST_RESULT:
                return None
            return self._fs.read(fd, found.size, 0)
        except OSError:
            return None
        finally:
            self._fs.close(fd)

    def note(self, kind: str, place: Place, cause: str) -> None:
        """Note damage at a place."""
        file = self._file.numbered(place.source).path
        self.damage.append(Damage(file, place.number, place.offset, kind, cause))

    def _passed(self, size: int) -> None:
        if self._progress is None:
            return
        self._done += size
        size_of_all = sum(file.size for file in (self._file, *self._file.opened))
        if self.agent == "claude-code":  # whose lines are read for their structure first
            size_of_all *= 2
        self._progress(min(self._done, size_of_all), size_of_all)


def _state(fs: FileSystem, path: str) -> str:
    digest = hashlib.sha256()
    beside = list(agent_files(path))
    sidecars = [found.removesuffix(".jsonl") + ".meta.json" for found in beside]
    for each in (path, *beside, *sidecars):
        with contextlib.suppress(OSError):
            found = fs.stat(each)
            told = f"{os.path.basename(each)}\n{found.size}\n{found.modified!r}\n"
            digest.update(told.encode("utf-8", "replace"))
    return digest.hexdigest()[:32]


def _stem(name: str) -> str:
    return next((name.removesuffix(end) for end in _SUFFIXES if name.endswith(end)), name)


def files_in(folder: str, report: Callable[[str], object]) -> Iterator[str]:
    """The files below a folder that may be sessions of agents, in order of their paths.

    Those of subagents are left out where the session that they belong to is there.

    Args:
        folder: the folder.
        report: told of each folder that cannot be read.
    """

    def refused(error: OSError) -> None:
        report(f"cannot read {error.filename}: {error.strerror}; check its permissions")

    for where, folders, names in os.walk(folder, onerror=refused):
        folders[:] = sorted(name for name in folders if not _is_passed_over(where, name))
        for name in sorted(names):
            if _may_be_session(name):
                yield os.path.join(where, name)


def _may_be_session(name: str) -> bool:
    if name.startswith(".") or not name.endswith(_SUFFIXES):
        return False
    return not name.endswith(".json") or name.startswith("session-")  # as Gemini CLI names them


def _is_passed_over(where: str, name: str) -> bool:
    if name.startswith(".") or name.endswith(".blobs"):
        return True
    return name == "subagents" and os.path.isfile(where + ".jsonl")
