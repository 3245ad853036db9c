"""Another agent's file, opened to read: its lines as version 2, in memory.

Invariants: the file, and what is beside it, is read and never written; the line of an entry is read
again from the file, and not kept a second time; damage is reported at the places of the original.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import msgspec
from msgspec.structs import replace

from sessiontree.agents import AGENTS, HEAD
from sessiontree.agents.agent import Agent, ids_of_file, is_of_subagent, session_id
from sessiontree.agents.base import (
    AgentFacts,
    AgentSource,
    EntryDraft,
    LinePlace,
    in_one_line,
    numbered,
    whole_value,
)
from sessiontree.agents.codex.names import rollout_of
from sessiontree.core.codec import lines_in
from sessiontree.core.damage import (
    MAX_FINDINGS,
    UNKNOWN_TYPE,
    Damage,
    Note,
    Notes,
    kind_of_agents,
    more_like_it,
)
from sessiontree.core.entry import Entry, bare_line, decode_leniently, decode_object
from sessiontree.core.header import ORIGIN_START, origin_of
from sessiontree.engine.logtree import HeaderLine
from sessiontree.errors import SessionTreeError
from sessiontree.storage.fs import DISK, FileSystem, Times
from sessiontree.storage.lines import (
    MAGIC,
    Decompressed,
    Excerpt,
    Positioned,
    rest_of_line,
    whole_lines,
)
from sessiontree.storage.log import BytesLog, FileLog, Log, closed_on_failure
from sessiontree.storage.names import (
    SUBAGENTS,
    Report,
    chats_of_subagents,
    project_of_chat,
    read_side_file,
    side_files,
)
from sessiontree.storage.rollouts import index_line, rollout_near, rollouts_near


class TranslatedFile:
    """A file of another format; see `SessionFile`."""

    is_current = False
    header_line: HeaderLine | None = None
    ends_by_rule = True

    def __init__(self, original: Log, agent: Agent) -> None:
        self.original = original
        self.size = original.size()
        self._agent, self._reader = agent, agent.reader
        self._beside = self._stamps_beside()
        self._source = SourceFile(original)
        self._damage: list[Damage] = []
        self._notes = Notes()
        self._counts: Counter[str] = Counter()
        self._first_of_others: dict[str, Damage] = {}
        self._starts = array("q")
        self._firsts = bytearray()  # by row: whether the entry is the first of its line
        self._places = (array("l"), array("q"), array("q"))
        self._last_original: tuple[LinePlace, bytes] | None = (
            None  # many entries may be of one line
        )
        self.log = BytesLog(original.name, self._blocks())
        self.log.ended = (
            f"a file of {agent.program} is read in place and never written; import it to go on "
            "with it"
        )

    def _blocks(self) -> Iterator[bytes]:
        start = 0
        sources, numbers, offsets = self._places
        last: LinePlace | None = None
        try:
            for draft in self._reader.translate(self._source, self._report):
                if not self._starts:
                    self._name(draft)
                place, line = draft.line.place, draft.encoded()
                is_first = not draft.is_made and place != last
                if is_first and self._firsts:  # the line of the header may have an entry, too
                    last = place
                self._firsts.append(is_first)
                self._starts.append(start)
                sources.append(place.source)
                numbers.append(place.number)
                offsets.append(place.offset)
                start += len(line) + 1
                yield line + b"\n"
        finally:
            for source in self._source.opened:
                source.close()

    def _name(self, header: EntryDraft) -> None:
        """Give the header the id by which the agent knows the session."""
        fields = header.fields
        file, given = self.original.name, fields["id"]
        fields["id"] = session_id(self._agent, file, given, self._source.head())
        if not is_of_subagent(self._agent, file):
            fields["metadata"] |= ids_of_file(self._agent, file, given)

    def _report(self, kind: str, place: LinePlace, cause: str) -> None:
        if kind == UNKNOWN_TYPE and self._notes.again(cause):
            return
        file = self._source.numbered(place.source).path
        if kind == UNKNOWN_TYPE:
            self._notes.add(Note(file, place.number, place.offset, cause))
            return
        self._counts[kind] += 1
        if self._counts[kind] <= MAX_FINDINGS:
            self._damage.append(Damage(file, place.number, place.offset, kind, cause))
        elif kind not in self._first_of_others:
            first = Damage(file, place.number, place.offset, kind, cause)
            self._first_of_others[kind] = first

    def _row(self, offset: int) -> int:
        return max(bisect_right(self._starts, offset) - 1, 0)

    def _place(self, offset: int) -> LinePlace:
        """The place of the line that the line of `log` at an offset was made of."""
        row = self._row(offset)
        return LinePlace(*(column[row] for column in self._places))

    @property
    def notes(self) -> list[Note]:
        return self._notes.found()

    def damage_in_original(self, damage: Sequence[Damage]) -> list[Damage]:
        own = [*self._damage, *self._others()]
        found = [*own, *damage_of(self._source, own)]
        for each in damage:
            if each.kind == "utf-8":
                continue  # the source reports it, at the place in its own line
            place = self._place(each.offset)
            file = self._source.numbered(place.source).path
            kind = kind_of_agents(each.kind)
            found.append(Damage(file, place.number, place.offset, kind, each.cause))
        return sorted(found, key=lambda each: (each.file, each.offset))

    def _others(self) -> Iterator[Damage]:
        """For each kind of damage with more than `MAX_FINDINGS` findings one for the others."""
        for kind, first in self._first_of_others.items():
            more = more_like_it(self._counts[kind] - MAX_FINDINGS)
            yield replace(first, cause=first.cause + more)

    def original_line(self, entry: Entry) -> bytes:
        place = self._place(entry.offset)
        if self._last_original is None or self._last_original[0] != place:
            self._last_original = place, self._original_at(place)
        return self._last_original[1]

    def _original_at(self, place: LinePlace) -> bytes:
        source = self._source.numbered(place.source)
        try:
            return source.value_at(place.offset)
        finally:
            if place.source:  # the session closes only its own file
                source.close()

    def origin(self, entry: Entry) -> str | None:
        if not (self._firsts[self._row(entry.offset)] or self._reader.shares_origins):
            return None
        line = self.original_line(entry)
        return origin_of(decode_object(line)) if ORIGIN_START in line else None

    def is_outdated(self) -> bool:
        if self.original.was_replaced() or self.original.size() != self.size:
            return True
        return self._beside != self._stamps_beside()

    def _stamps_beside(self) -> list[tuple[str, int, Times]]:
        """The files beside it that change while it does not: their sizes and their times."""
        name, found = self.original.name, []
        about = self._agent.facts_file(name) if self._reader.has_sums_beside else None
        for path in (*agent_files(name, lambda cause: None), *filter(None, [about])):
            with suppress(OSError):  # it was removed this moment
                stat = self.original.blobs.fs.stat(path)
                found.append((path, stat.size, stat.times))
        return found


_WINDOW: Final = 4096
"""Bytes that are read at once for a line."""


class SourceFile:
    """A file as a format reads it, compressed or not; implements `AgentSource`.

    Attributes:
        path: its path.
        opened: the files beside it that were asked for.
        passed: called with the number of bytes of each block of lines that is read.
    """

    def __init__(self, log: Log, sidecar: bytes | None = None) -> None:
        self._log = log
        self.path = log.name
        self.name = os.path.basename(log.name)
        self._sidecar = sidecar
        fs = log.blobs.fs
        self.is_whole = not (isinstance(fs, Excerpt) and fs.lacks_lines)
        self.opened: list[SourceFile] = []
        self.passed: Callable[[int], object] | None = None
        self._document: str | None = None
        self._window = 0, b""  # the offset of some bytes, and the bytes
        self._not_read: list[Damage] = []
        self._not_utf8: dict[int, Damage] = {}
        is_compressed = log.read(0, len(MAGIC)) == MAGIC
        self._inside = Decompressed(log) if is_compressed else None
        lines: Positioned = log if self._inside is None else self._inside
        self._read = lines.read
        self.size = lines.size()

    @property
    def sidecar(self) -> bytes | None:
        """The bytes of the file of facts beside it; see `facts_beside`."""
        if self._sidecar is not None:
            return self._sidecar
        return facts_beside(self.path, self._log.blobs.fs)

    def numbered(self, source: int) -> SourceFile:
        """The file that a `LinePlace` calls `source`: this one, or one of `opened`."""
        return self.opened[source - 1] if source else self

    @property
    def damage(self) -> list[Damage]:
        """What is wrong with the compression, the bytes of the lines read, and side files."""
        found = [*self._not_utf8.values(), *self._not_read]
        if self._inside is not None and self._inside.cause:
            found.append(Damage(self.path, 1, 0, "cut short", self._inside.cause))
        return found

    def head(self) -> bytes:
        """How it starts, long enough to tell its format and its facts."""
        return self._read(0, HEAD)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        complete = 0
        number = 1
        for offset, block in whole_lines(self._read, 0, self.size):
            lines = lines_in(block)
            if _not_utf8_at(block) is not None:
                self._note_not_utf8(lines, number, offset)
            number += len(lines)
            start = offset
            for line in lines:
                yield start, line
                start += len(line) + 1
            complete = start
            if self.passed is not None:
                self.passed(len(block))
        if complete < self.size:
            line = self._read(complete, self.size - complete)
            self._note_not_utf8([line], number, complete)
            yield complete, line

    def _note_not_utf8(self, lines: Sequence[bytes], number: int, offset: int) -> None:
        for line in lines:
            bad = _not_utf8_at(line)
            if bad is not None:
                cause = f"invalid UTF-8 {bad} bytes into the line"
                self._not_utf8[offset] = Damage(self.path, number, offset, "utf-8", cause)
            number += 1
            offset += len(line) + 1

    def is_complete(self) -> bool:
        return not self.size or self._read(self.size - 1, 1) == b"\n"

    def beside(self) -> Sequence[AgentSource]:
        for path in agent_files(self.path, self._note_not_read):
            fs = self._log.blobs.fs
            try:
                beside = _opened(fs, path, sidecar_of(path, fs))
            except SessionTreeError as error:  # the main file still has its calls and results
                self._note_not_read(str(error))
                continue
            beside.passed = self.passed
            self.opened.append(beside)
        return self.opened

    def segments(self) -> Sequence[str]:
        own = rollout_of(self.path)
        if own is None:
            return []
        if own.segment == own.thread:  # the oldest
            return [own.segment]
        near = rollouts_near(self.path).values()
        ids = (each.segment for each in near if each.thread == own.thread)
        return [*sorted(id for id in ids if id < own.segment), own.segment]

    def segment(self, id: str) -> tuple[int, AgentSource] | None:
        found = rollout_near(self.path, id)
        if found is None:
            return None
        segment = _opened(self._log.blobs.fs, found.path)
        segment.passed = self.passed
        self.opened.append(segment)
        return len(self.opened), segment

    def _note_not_read(self, cause: str) -> None:
        self._not_read.append(Damage(self.path, 1, 0, "side file", cause))

    def value_at(self, offset: int) -> bytes:
        """The line at an offset, or the JSON value that starts there and takes several.

        Raises:
            StorageError: the file cannot be read.
        """
        if self._log.closed:
            self._log.reopen()
        line = self._line_at(offset)
        if _is_value(line):
            return line
        if self._document is None:  # Latin-1 gives a character a byte, so offsets stay the same
            self._document = self._read(0, self.size).decode("latin-1")
        value = whole_value(self._document, offset)
        return line if value is None else in_one_line(value) or value

    def _line_at(self, offset: int) -> bytes:
        """The line at an offset; lines near each other are read together."""
        start, window = self._window
        end = window.find(b"\n", offset - start) if start <= offset else -1
        if end < 0:
            start, window = self._window = offset, self._read(offset, _WINDOW)
            end = window.find(b"\n")
        return window[offset - start : end] if end >= 0 else rest_of_line(self._read, offset)

    def close(self) -> None:
        self._log.release()


def history_files(
    path: str, fs: FileSystem = DISK, missing: Callable[[str], None] = lambda cause: None
) -> list[str]:
    """The other files that a session of Codex is made of; empty for any other.

    `missing` is called with what is known of each file that is not there.
    """
    if rollout_of(path) is None:
        return []
    from sessiontree.agents.codex.reader import planned  # a list of other agents needs no reader

    with suppress(SessionTreeError), _source_at(path, fs) as source:  # opening the file reports it
        planned(source, lambda kind, place, cause: missing(cause))
        return [file.path for file in source.opened]
    return []


def inherited_lines(agent: Agent, path: str, fs: FileSystem = DISK) -> Iterator[bytes]:
    """The lines that a session has in other files; none for most."""
    with suppress(SessionTreeError), _source_at(path, fs) as source:
        yield from agent.reader.inherited(source)


def lines_as_read(agent: Agent, path: str, fs: FileSystem = DISK) -> Iterator[bytes]:
    """The lines of a file as the agent meant to write them; see `agents.base.numbered`."""
    with _source_at(path, fs) as source:
        for line in numbered(source, agent.reader.line_keys):
            yield line.text


def described(agent: Agent, facts: AgentFacts, path: str, fs: FileSystem) -> AgentFacts:
    """The facts of a file with those in other files: the name, the project, the first prompt."""
    reader = agent.reader
    facts = reader.with_sidecar(facts, facts_beside(path, fs))
    if facts.is_continued:
        with suppress(SessionTreeError), _source_at(path, fs) as source:
            found = (reader.facts(line, b"").first_message for line in reader.inherited(source))
            first = next(filter(None, found), None)
            return replace(facts, first_message=first or facts.first_message)
    return facts


def _opened(fs: FileSystem, path: str, sidecar: bytes | None = None) -> SourceFile:
    """A file that is open as long as it is needed, or not at all."""
    log = FileLog(fs, path, readonly=True)
    with closed_on_failure(log):
        return SourceFile(log, sidecar)


def facts_beside(path: str, fs: FileSystem) -> bytes | None:
    """What an agent keeps about a session in another file; None if there is nothing.

    For a chat of Gemini CLI that is its project, for Codex the session's line in the index.
    """
    if (line := index_line(path, fs)) is not None:
        return line
    if (project := project_of_chat(fs, path)) is not None:
        return project.encode("utf-8", "replace")
    named = filter(None, (agent.facts_file(path) for agent in AGENTS))
    return next((read_side_file(fs, file, _SIDECAR_LIMIT) for file in named), None)


@contextmanager
def _source_at(path: str, fs: FileSystem) -> Iterator[SourceFile]:
    source = _opened(fs, path)
    try:
        yield source
    finally:
        for file in (source, *source.opened):
            file.close()


def damage_of(source: SourceFile, known: Sequence[Damage]) -> list[Damage]:
    """What is wrong with a file and those beside it, except invalid UTF-8 in damaged lines.

    Args:
        source: the file.
        known: the lines that are known to be damaged.
    """
    places = {(each.file, each.offset) for each in known}
    return [
        each
        for file in (source, *source.opened)
        for each in file.damage
        if (each.file, each.offset) not in places or each.kind != "utf-8"
    ]


def _not_utf8_at(text: bytes) -> int | None:
    """The offset of the first byte that is not UTF-8, or None."""
    if text.isascii():
        return None
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


def _is_value(line: bytes) -> bool:
    """Whether a line holds a JSON value and nothing else."""
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        _skim(line)
        return True
    return decode_leniently(bare_line(line)) is not None


_skim = msgspec.json.Decoder(msgspec.Raw).decode


def agent_files(path: str, report: Report) -> Iterator[str]:
    """The transcripts of the subagents of a transcript, sorted by name."""
    for file in side_files(path, SUBAGENTS, report):
        name = os.path.basename(file)
        if name.startswith("agent-") and name.endswith(".jsonl"):
            yield file
    yield from chats_of_subagents(path, report)


_SIDECAR_LIMIT = 1 << 20


def sidecar_of(path: str, fs: FileSystem = DISK) -> bytes | None:
    """The content of the file of facts beside a subagent's transcript, or None."""
    return read_side_file(fs, path.removesuffix(".jsonl") + ".meta.json", _SIDECAR_LIMIT)
