"""The entries of another agent's file, or of one of version 1, line by line.

To open such a file translates all of it. To search it, a line that may match is
translated by itself, and so is a message of a document, where what stands around it
changes nothing but the parent of its entry; where it does, all of the file is translated.

Invariant: entries have the uuids, lanes and texts that the opened file gives them; but
a uuid that a later line has again is given to both, and of a document that is damaged
within, the messages behind the damage are found as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import stringzilla  # type: ignore[import-not-found, unused-ignore]
from msgspec.structs import replace

from sessiontree.core.codec import decode
from sessiontree.core.damage import ignore
from sessiontree.core.entry import Entry, decode_object
from sessiontree.core.migrate import migrate, migrate_alone, uuid_of_line
from sessiontree.engine.translated import SourceFile, agent_files, sidecar_of
from sessiontree.engine.view import View
from sessiontree.formats import HEAD, recognise
from sessiontree.formats.base import Place, Source, values
from sessiontree.formats.claude_code.reader import TITLES, lane_name
from sessiontree.formats.gemini.layout import is_plain_log, messages_with
from sessiontree.formats.gemini.reader import Gemini
from sessiontree.storage.fs import DISK
from sessiontree.storage.lines import (
    Find,
    Inside,
    Read,
    Scanner,
    count_newlines,
    rest_of_line,
    whole_lines,
)
from sessiontree.storage.log import FileLog
from sessiontree.storage.zstd import MAGIC, Decompressed
from sessiontree.text.pattern import lines_with
from sessiontree.text.preview import role

_CLAUDE_CODE: Final = "claude-code"


class ForeignFile:
    """A file of another agent, open to be read.

    Args:
        file: its path.
        inside: of a file that is compressed, and being read: what is known of its inside.

    Attributes:
        id: the agent's own id of the session.
        files: its path, and those of the files beside it that belong to it.
        is_known: whether it is of another agent's format; else it may be of version 1.
    """

    def __init__(self, file: str, inside: Inside | None = None) -> None:
        self._log = FileLog(DISK, file, readonly=True)
        self._inside = inside
        self._read = self._log.read
        head = inside.head if inside is not None else self._read(0, HEAD)
        if inside is None and head.startswith(MAGIC):
            self._read = Decompressed(self._log).read
            head = self._read(0, HEAD)
        self._format = recognise(head)
        self.is_known = self._format is not None
        self.id = ""
        self.files = [file]
        self._counted: dict[int, tuple[int, int]] = {}
        if self._format is None:
            return
        self.id = self._format.facts(head, b"").id or ""
        self._opening = head.lstrip(b"\0\r\n\t ").partition(b"\n")[0]
        if self._format.name == _CLAUDE_CODE:
            self._opening = b""
            self.files += agent_files(file)

    def close(self) -> None:
        self._log.release()

    def entry(self, number: int, offset: int, line: bytes) -> Entry | None:
        """The entry of a line; None where that depends on others, or there is none.

        Args:
            number: which of the files the line is in.
            offset: where it stands.
            line: its bytes.
        """
        body = decode_object(line)
        if self._format is None or not body or _depends(self._format.name, body, number):
            return None
        alone = _Lines(os.path.basename(self.files[number]), self._opening, line)
        for place, made in self._format.translate(alone, _unheard):
            if place.offset:  # the header of a file without one stands at 0
                found = decode(made, offset, ignore)
                lane = lane_name(_agent(self.files[number])) if number else None
                return replace(found, lane=lane or found.lane) if found is not None else None
        return None

    def matching(self, find: Find, lines: Iterable[tuple[int, bytes]]) -> Iterator[Entry]:
        """The entries, as the opened file has them, whose lines may match; some twice.

        Args:
            find: finds such lines.
            lines: those of the file itself, and their offsets.
        """
        if self._format is None:
            alone = self._of_version_1(lines)
        elif isinstance(self._format, Gemini):
            is_log = values(self._opening) is not None
            of_chat = self._of_log if is_log else self._of_messages
            alone = of_chat(self._format, lines)
        else:
            alone = self._of_lines(find, lines)
        for entry in alone:
            if entry is None:
                yield from self._all(find)
                return
            yield entry

    def _of_lines(self, find: Find, lines: Iterable[tuple[int, bytes]]) -> Iterator[Entry | None]:
        """The entries of lines one by one, until one depends on others."""
        has_prompt = False
        for number, file in enumerate(self.files):
            if number and is_told_of(file, find):
                yield None
            for offset, line in Scanner().lines(file, find) if number else lines:
                entry = self.entry(number, offset, line)
                if entry is not None:
                    uuid = self._uuid(entry, number, offset, line)
                    entry = entry if entry.uuid == uuid else replace(entry, uuid=uuid)
                    has_prompt = has_prompt or role(entry) == "user"
                    if len(self.files) > 1 and self._may_be_caller(line, find):
                        entry = None
                yield entry
        if has_prompt and self._repeats_prompts():
            yield None

    def _may_be_caller(self, line: bytes, find: Find) -> bool:
        """Whether a uuid that a line names may match; that of its caller is told of a subagent."""
        body = decode_object(line)
        names = ("uuid", "parentUuid", "sourceToolAssistantUUID")
        return any(_is_in(str(body.get(name)).encode("utf-8", "replace"), find) for name in names)

    def _repeats_prompts(self) -> bool:
        """Whether Codex wrote a history here of which the prompts stand above it alone."""
        if self._format is None or self._format.name != "codex":
            return False
        found = Scanner().lines(self.files[0], partial(lines_with, b'"compacted"'))
        bodies = (decode_object(line) for _, line in found)
        return any(
            body.get("type") == "compacted"
            and isinstance(payload := body.get("payload"), dict)
            and not isinstance(payload.get("replacement_history"), list)
            for body in bodies
        )

    def _of_version_1(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[Entry | None]:
        opening = rest_of_line(self._read, 0)
        session_id = str(decode_object(opening).get("id", ""))
        position = counted = 0
        for offset, line in lines:
            between = objects_in(self._read, counted, offset)
            if between is None:
                yield None
                return
            position += between
            counted = offset
            made = migrate_alone(line, position, session_id)
            yield decode(made, offset, ignore) if made is not None else None

    def _of_messages(
        self, format: Gemini, lines: Iterable[tuple[int, bytes]]
    ) -> Iterator[Entry | None]:
        source = self._log if self._inside is None else Decompressed(self._log)
        document = source.read(0, source.size())
        for found in messages_with((offset for offset, _ in lines), document):
            if found is None:
                yield None
                return
            for made in format.translate_alone(self.id, *found):
                yield decode(made, found[0].offset, ignore)

    def _of_log(self, format: Gemini, lines: Iterable[tuple[int, bytes]]) -> Iterator[Entry | None]:
        is_plain: bool | None = None
        for offset, line in lines:
            if is_plain is None:
                is_plain = is_plain_log(line for at, line in self._own_lines() if at)
            if not offset or not is_plain:
                yield None
                return
            place = Place(0, self._line_number(0, offset), offset)
            for made in format.translate_alone(self.id, place, line):
                yield decode(made, offset, ignore)

    def _own_lines(self) -> Iterator[tuple[int, bytes]]:
        """All lines of the file itself, and their offsets."""
        return SourceFile(self._log).lines()

    def _uuid(self, entry: Entry, number: int, offset: int, line: bytes) -> str:
        """The uuid that the opened file gives an entry: its line's own, or one made of that."""
        is_header = bool(self._opening) and not (offset or number)
        if is_header or entry.uuid.encode("utf-8", "replace") in line:
            return entry.uuid
        place = self._line_number(number, offset) + (number << 40)
        return uuid_of_line(self.id, place, line)

    def _line_number(self, number: int, offset: int) -> int:
        if self._inside is not None and not number:
            return self._inside.number
        start, lines = self._counted.get(number, (0, 1))
        if start > offset:
            start, lines = 0, 1
        if number:
            log = FileLog(DISK, self.files[number], readonly=True)
            lines += count_newlines(log.read, start, offset)
            log.release()
        else:
            lines += count_newlines(self._read, start, offset)
        self._counted[number] = offset, lines
        return lines

    def _all(self, find: Find) -> Iterator[Entry]:
        """The entries whose lines may match, all the file being translated."""
        for line in self._lines():
            if next(find(line, len(line)), None) is None:
                continue
            entry = decode(line, 0, ignore)
            if entry is not None:
                yield entry

    def _lines(self) -> Iterator[bytes]:
        """The lines of version 2 that the file becomes."""
        if self._format is None:
            yield from migrate((line for _, line in View(self._log).lines()), 1)
            return
        source = SourceFile(self._log)
        for _, line in self._format.translate(source, _unheard):
            yield line
        for beside in source.opened:
            beside.close()


def objects_in(read: Read, start: int, end: int) -> int | None:
    """The lines from one offset to another, each of which is a JSON object; else None.

    A line that begins and ends with a brace holds one object or more, and none goes on in
    the next line, for no JSON has `}` before `{`: so there are as many objects as lines
    only where each line is one.
    """
    count = 0
    for _, block in whole_lines(read, start, end):
        lines: int = stringzilla.count(block, b"\n")
        begun = block.startswith(b"{") + stringzilla.count(block, b"\n{")
        if not lines == begun == stringzilla.count(block, b"}\n"):
            return None
        try:
            objects = len(_decode_objects(block))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        if objects != lines:
            return None
        count += lines
    return count


class _Object(msgspec.Struct, gc=False):
    """Any object; what is in it is passed over."""


_decode_objects: Final = msgspec.json.Decoder(_Object).decode_lines


def _depends(format: str, body: Mapping[str, Any], number: int) -> bool:
    """Whether more of a line's entry than its parent depends on other lines."""
    if format == "pi":
        message = body.get("message")
        is_patch = isinstance(message, dict) and message.get("role") == "system"
        return is_patch or body.get("type") == "context_edit" or "systemMessage" in body
    if format == "codex":
        return body.get("type") == "compacted"
    if format == _CLAUDE_CODE:
        if body.get("isCompactSummary") or (number and "uuid" not in body):
            return True
        if number:
            return False
        is_title = any(body.get(key) for key in TITLES)
        return is_title or bool(body.get("isSidechain") or body.get("teamName"))
    return True


def is_told_of(file: str, find: Find) -> bool:
    """Whether what is known of a subagent may match, apart from what its transcript says."""
    told = sidecar_of(file) or b""
    return _is_in(told, find) or _is_in(_agent(file).encode("utf-8", "replace"), find)


def _is_in(content: bytes, find: Find) -> bool:
    """Whether something that a line may be made of may match."""
    return next(find(content.replace(b"\n", b" "), len(content)), None) is not None


def _agent(file: str) -> str:
    return os.path.basename(file).removeprefix("agent-").removesuffix(".jsonl")


def _unheard(kind: str, place: Place, cause: str) -> None:
    """Who opens the file is told."""


class _Lines:
    """The first line of a file and another one, as a source of their own."""

    sidecar: bytes | None = None

    def __init__(self, name: str, opening: bytes, line: bytes) -> None:
        self.name = name
        self._opening = opening
        self._line = line

    def lines(self) -> Iterator[tuple[int, bytes]]:
        if self._opening and self._opening != self._line:
            yield 0, self._opening
        yield len(self._opening) + 1, self._line

    def is_complete(self) -> bool:
        return True

    def beside(self) -> Sequence[Source]:
        return ()
