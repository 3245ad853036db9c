"""Opening: decide what a file is from its start, and open it as that.

A file is a current session, a session of version 1, a session whose header is lost, or another
agent's session; anything else is an error. `sniff` is the one place that decides, and `open_file`
opens each of them as a `SessionFile`, so that nothing else asks.

A session whose header is lost is opened to read, with a stand-in for the start of the file. A file
of version 1 is migrated in memory for a reader, on disk for a writer. A command opens it as
`Unmigrated`, so that one that is refused changes nothing.

Invariants:

- Sniffing writes nothing, and decides a current file from its first line.
- A file opened to write is current when `open_file` returns.
- Behind a lost header everything is read from the file itself, so the cost is that of the file's
  start, and damage is reported at the places of the file. The file is not written.
- The original of version 1 stays, under its own name for a reader and as `NAME.v1` for a writer. A
  migration cut short leaves the old file or the new one. Both ways give the same uuids.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, Self

import stringzilla  # type: ignore[import-not-found, unused-ignore]
from msgspec.structs import replace

from sessiontree.core.codec import check_seal, decode, parts, report_run
from sessiontree.core.damage import Damage
from sessiontree.core.entry import HEADER, Entry, bare_line, decode_leniently
from sessiontree.core.header import SQLITE, is_version_1
from sessiontree.engine.logtree import HeaderLine, LogTree, find_header
from sessiontree.errors import (
    AgentRecordError,
    FileError,
    ForeignFormatError,
    MigrationRefusedError,
    MissingHeaderError,
    NotASessionError,
    with_step,
)
from sessiontree.storage.lines import (
    MAGIC,
    Decompressed,
    Positioned,
    Read,
    count_newlines,
    rest_of_line,
)
from sessiontree.storage.log import BytesLog, Log, Moved, planned_again
from sessiontree.storage.names import IN_GZIP

if TYPE_CHECKING:
    from sessiontree.agents.agent import Agent
    from sessiontree.core.damage import Note
    from sessiontree.core.salvage import SubstituteHeader


Kind = Literal["current", "version 1", "lost header", "foreign"]

Migrate = bool | Literal["later"]
"""Whether a writer migrates version 1 on disk: when it opens the file, or when it writes."""

KEPT_AS: Final = ".v1"
"""Ends the name of the original of a file that was migrated."""

LOOK: Final = 1024 * 1024
"""Bytes of a file's start that are searched for entries when its header may be lost."""

_GZIP: Final = b"\x1f\x8b\x08"
"""How a file starts that is compressed with gzip."""

_CURRENT: Final = b'{"type":"session","version":2,"format":"sessiontree/'
"""How `core.codec` starts a current file."""

_CRC_KEY: Final = b',"crc":"'
"""What every entry that proves a header lost has in its line."""

_START: Final = 4096
_HEAD: Final = 64 * 1024


class FileStart(NamedTuple):
    """What the start of a file says.

    Attributes:
        kind: what the file is.
        header: the keys of its header; of a lost header, those that stand in for it; of
            another agent's file, none.
        agent: the agent whose file it is; None for sessiontree.
        stand_in: what replaces a lost header.
        header_line: the header of a session that has one.
        head: how the file starts, decompressed.
        read: reads the file, decompressed.
        name: the path of another agent's file.
    """

    kind: Kind
    header: Mapping[str, Any]
    head: bytes
    read: Read
    agent: Agent | None = None
    stand_in: SubstituteHeader | None = None
    header_line: HeaderLine | None = None
    name: str = ""

    @property
    def session_id(self) -> str:
        """The session's id, empty if the start does not tell it."""
        if self.agent is None:
            return self.id_in_lines
        from sessiontree.agents.agent import session_id  # few files are another agent's

        return session_id(self.agent, self.name, self.id_in_lines, self.head)

    @property
    def id_in_lines(self) -> str:
        """The id that the lines give, which names those without a uuid; empty without one.

        Of an agent's file whose header is lost it is the id in its name.
        """
        if self.agent is not None:
            return self.agent.reader.id_of_lines(self.head, self.name)
        return str(self.header.get("id") or "")


def sniff(head: bytes, file: Positioned, look: int = LOOK) -> FileStart:
    """Decide what a file is.

    Args:
        head: how the file starts.
        file: reads more of it where `head` does not decide.
        look: how many bytes of a file with a header, or of a known format, are searched
            for entries that prove its header lost.

    Raises:
        NotASessionError: it is not a session.
        ForeignFormatError: it belongs to a program without a known format.
        NewerFormatError: it has a newer format than this package reads.
        DecoderMissingError: it is compressed, and there is no decoder.
    """
    if head.startswith(MAGIC):
        return _compressed(head, file, look)
    if head.startswith(_GZIP):
        raise NotASessionError(f"{file.name} {IN_GZIP}", file.name)
    found: HeaderLine | None = None
    refused: FileError | None = None
    foreign: FileStart | None = None
    if not head.startswith(_CURRENT) and b"\n" not in head and len(head) < file.size():
        foreign = _foreign(head, file)  # its first line is longer than `head`
    if foreign is None:
        try:
            found = find_header(file, head)
        except FileError as error:
            refused = error
            foreign = _foreign(head, file)
    uuid = None if found is None else found.keys.get("uuid")
    if found is not None and uuid and isinstance(uuid, str):
        return FileStart("current", found.keys, head, file.read, header_line=found)
    lost = _lost_header(head, file, LOOK if foreign is None and refused is not None else look)
    if lost is not None:
        return lost
    if foreign is not None:
        return foreign
    if refused is not None:
        raise _record(head, file.name) or _stranger(head, file) or refused
    assert found is not None
    kind: Kind = "version 1" if is_version_1(found.keys) else "current"
    return FileStart(kind, found.keys, head, file.read, header_line=found)


def _compressed(head: bytes, file: Positioned, look: int) -> FileStart:
    """The start of another agent's compressed file, or of a session that begins like one."""
    try:
        inside = Decompressed(file)
        foreign = _foreign(inside.head(min(look, _HEAD)), inside)
        if foreign is None:
            find_header(file, head)  # which refuses it
    except NotASessionError:
        foreign = _lost_header(head, file, LOOK)
        if foreign is None:
            raise
    assert foreign is not None
    return foreign


def sniff_file(file: Positioned) -> FileStart:
    """Decide what an open file is; raises as `sniff` does."""
    head = file.read(0, _START)
    if len(head) == _START and not head.startswith(_CURRENT):
        head = file.read(0, _HEAD)
    return sniff(head, file)


def _foreign(head: bytes, file: Positioned) -> FileStart | None:
    """The start of another agent's file; None for any other file."""
    from sessiontree import agents  # slow to import, and few files are another agent's

    agent = agents.recognise(head)
    if agent is None and len(head) < agents.HEAD and len(head) < file.size():
        head = file.read(0, agents.HEAD)
        agent = agents.recognise(head)
    if agent is None:
        return None
    return FileStart("foreign", {}, head, file.read, agent, name=file.name)


def _record(head: bytes, file: str) -> AgentRecordError | None:
    """The error for a file that an agent keeps beside its sessions; None for any other."""
    from sessiontree import agents  # slow to import, and few files are another agent's

    what = agents.record_in(head)
    return None if what is None else AgentRecordError(f"{file} is {what}, not a session", file)


def _stranger(head: bytes, file: Positioned) -> FileError | None:
    """The error for a database, or a file of a known agent without a reader; else None."""
    from sessiontree.agents import HEAD, strangers  # slow to import, and only a refusal needs it

    if head.startswith(SQLITE) and (inside := _names_in_database(file.name)):
        said = f"is a database of sessions ({len(inside):,}); name one of them, such as {inside[0]}"
        return NotASessionError(f"{file.name} {said}", file.name)
    if len(head) < HEAD and len(head) < file.size():
        head = file.read(0, HEAD)
    stranger = strangers.stranger_in(head)
    if stranger is None:
        return None
    said = f"is a session of {stranger.program}, which sessiontree does not read"
    message = f"{file.name} {said}; {stranger.step}"
    return with_step(ForeignFormatError(message, file.name, stranger.program), None)


def _names_in_database(file: str) -> list[str]:
    """The paths of the sessions in a database; of any other file none."""
    from sessiontree.storage import databases  # few files are a database

    return databases.sessions_in(file) if databases.is_database(file) else []


def _lost_header(head: bytes, file: Positioned, look: int) -> FileStart | None:
    is_enough = len(head) >= min(look, file.size())
    if is_enough and stringzilla.find(head, _CRC_KEY) < 0:
        return None
    from sessiontree.core.entry import decode_object
    from sessiontree.core.salvage import may_lack_header, stand_in  # few headers are ever lost

    if not is_enough and not may_lack_header(head):
        return None
    window = head if is_enough else file.read(0, look)
    found = stand_in(window, file.name, is_whole=len(window) >= file.size())
    if found is None:
        return None
    header = decode_object(found.header)
    return FileStart("lost header", header, head, file.read, stand_in=found)


class SessionFile(Protocol):
    """One opened file, of whatever kind.

    Attributes:
        log: what a session reads: lines of version 2.
        original: the file itself, open.
        is_current: whether `log` is the file itself, to which a writer appends.
        ends_by_rule: whether the leaf comes from another agent's rule, and may move to an
            entry that was there before.
        size: the bytes of the original that `log` shows.
        notes: the lines of the original whose types no reader knows.
        header_line: the header of `log`, where it is known.
    """

    is_current: bool
    ends_by_rule: bool
    header_line: HeaderLine | None

    @property
    def log(self) -> Log: ...
    @property
    def original(self) -> Log: ...
    @property
    def size(self) -> int: ...
    @property
    def notes(self) -> Sequence[Note]: ...

    def damage_in_original(self, damage: Sequence[Damage]) -> list[Damage]:
        """Damage met in `log`, at its places in the original, and what else is wrong there."""
        ...

    def original_line(self, entry: Entry) -> bytes:
        """The line of the original that an entry was made of.

        Raises:
            StorageError: the file cannot be read.
        """
        ...

    def origin(self, entry: Entry) -> str | None:
        """The uuid of the entry that the original's line was converted from; else None."""
        ...

    def is_outdated(self) -> bool:
        """Whether `log` no longer shows the original, so that `reopened` is needed."""
        ...


class NativeFile:
    """A session file of the current version: the log is the file. See `SessionFile`."""

    is_current = True
    ends_by_rule = False
    notes = ()

    def __init__(self, log: Log, header_line: HeaderLine | None = None) -> None:
        self.log = self.original = log
        self.header_line = header_line

    @property
    def size(self) -> int:
        return self.log.size()

    def damage_in_original(self, damage: Sequence[Damage]) -> list[Damage]:
        return list(damage)

    def original_line(self, entry: Entry) -> bytes:
        return entry.line

    def origin(self, entry: Entry) -> None:
        return None

    def is_outdated(self) -> bool:
        return False  # a session reads on in its log, and reopens it itself


def open_file(log: Log, *, migrate: Migrate) -> SessionFile:
    """Open a file as what it is.

    A reader gets the entries of any kind of file, made in memory if need be. A writer gets a
    current file: version 1 is migrated on disk.

    Args:
        log: the file, open.
        migrate: whether a writer may migrate version 1 on disk; "later": with its first entry.

    Raises:
        NotASessionError, NewerFormatError, DecoderMissingError: as `sniff` raises them.
        ForeignFormatError: another agent's file; a reader gets it if its format is known.
        MissingHeaderError: opened to write, and its header is lost.
        MigrationRefusedError: opened to write, of version 1, and `migrate` is False.
    """
    start = sniff_file(log)
    if start.kind == "current":
        return NativeFile(log, start.header_line)
    if start.stand_in is not None:
        lost = Headless(log, start.stand_in)
        if log.readonly:
            return lost
        raise lost.refusal()
    if start.agent is not None:
        if not log.readonly:
            raise foreign_refusal(start.agent, log.name)
        from sessiontree.engine.translated import TranslatedFile  # few files are another agent's
        from sessiontree.engine.walk import gc_paused

        with gc_paused():
            return TranslatedFile(log, start.agent)

    if log.readonly:
        from sessiontree.engine.walk import gc_paused

        with gc_paused():
            return Migrated(log)
    if not migrate:
        raise MigrationRefusedError(
            f"{log.name} is of version 1; open it with migrate=True to migrate it "
            "(the original is kept beside it), or with readonly=True to leave it as it is",
            log.name,
        )
    if migrate == "later":
        return NativeFile(Unmigrated.of(log, KEPT_AS))
    migrate_file(log, KEPT_AS)
    return NativeFile(log)


def reopened(file: SessionFile) -> SessionFile:
    """Open the file that is now at the path of one, as what it is now."""
    file.original.reopen()
    return open_file(file.original, migrate=False)


def foreign_refusal(agent: Agent, path: str) -> ForeignFormatError:
    """The error for a file of another agent that was to be changed."""
    return ForeignFormatError(
        f"{path} is a file of {agent.program}, which is read in place and never written; import "
        "it to go on with it",
        path,
        agent.program,
    )


_PLACE: Final = attrgetter("offset", "kind")  # the order of findings


class Headless:
    """A file without a header, as it is now; see `SessionFile`."""

    is_current = False
    ends_by_rule = False
    header_line: HeaderLine | None = None
    notes = ()

    def __init__(self, original: Log, stand_in: SubstituteHeader) -> None:
        self.original = original
        self.stand_in = stand_in  # what replaces its header
        self.size = original.size()
        self._prefix = b"".join(line + b"\n" for line in stand_in.lines)
        self._lines_before = count_newlines(original.read, 0, stand_in.rest)
        self.log: Log = _PatchedFile(original, self._prefix, stand_in.rest, self.size)

    def damage_in_original(self, damage: Sequence[Damage]) -> list[Damage]:
        lost = self.stand_in
        behind = lost.offset + len(rest_of_line(self.original.read, lost.offset)) + 1
        found = [*self._damage_in(0, lost.offset, 1), self._loss]
        found += self._damage_in(behind, lost.rest, lost.number + 1)
        for each in damage:
            line, offset = self.place(each.line, each.offset)
            found.append(replace(each, line=line, offset=offset))
        return sorted(found, key=_PLACE)

    @property
    def _loss(self) -> Damage:
        """The finding that the header is lost."""
        lost = self.stand_in
        return Damage(self.original.name, lost.number, lost.offset, "header", lost.cause)

    def _damage_in(self, offset: int, end: int, number: int) -> list[Damage]:
        """What is wrong in lines beside the damaged one that are left out: they hold no entry."""
        found: list[Damage] = []

        def report(kind: str, offset: int, cause: str) -> None:
            found.append(Damage(self.original.name, number, offset, kind, cause))

        for lines, count in parts(self.original.read(offset, max(0, end - offset))):
            for line in lines:
                if count > 1:
                    report_run(line[:-1], count, offset, report)
                else:
                    decode(line.removesuffix(b"\n"), offset, report)
                offset += count * len(line)
                number += count
        return found

    def place(self, line: int, offset: int) -> tuple[int, int]:
        """The line number and the offset in the file, for those of a line of `log`."""
        beyond = offset - len(self._prefix)
        if beyond < 0:
            return self.stand_in.number, self.stand_in.offset
        added = len(self.stand_in.lines)
        return line - added + self._lines_before, beyond + self.stand_in.rest

    def original_line(self, entry: Entry) -> bytes:
        return entry.line  # the stand-in's own line, which is not in the file, included

    def origin(self, entry: Entry) -> None:
        return None

    def is_outdated(self) -> bool:
        return self.original.was_replaced() or self.original.size() != self.size

    def refusal(self) -> MissingHeaderError:
        """The error for opening the file to write."""
        loss = self._loss
        return MissingHeaderError(
            f"{loss.file}, line {loss.line} (byte {loss.offset}): {loss.cause}; nothing was "
            "written: repair the file first, which keeps the original, or open it with "
            "readonly=True to look at it",
            loss.file,
            loss.offset,
        )


class _PatchedFile(BytesLog):
    """An open file up to a size, with other bytes for those before an offset."""

    def __init__(self, original: Log, prefix: bytes, rest: int, end: int) -> None:
        super().__init__(original.name, [prefix])
        self.blobs = original.blobs
        self._original = original
        self._prefix = prefix
        self._rest = rest
        self._end = end

    def read(self, offset: int, size: int) -> bytes:
        before = self._prefix[offset : offset + size]
        start = max(offset - len(self._prefix), 0) + self._rest
        more = min(size - len(before), self._end - start)
        return before + self._original.read(start, more) if more > 0 else before

    def size(self) -> int:
        self._original.size()  # refused where it is closed
        return len(self._prefix) + self._end - self._rest


_OF_A_LINE: Final = frozenset(
    {"blank", "bom", "crlf", "torn", "nul", "json", "utf-8", "crc", "object"}
)
"""Damage that is found in the original, because migration repairs some of it."""

_OF_ANY_LINE: Final = frozenset({"bom", "nul"})
"""Damage that is reported of a line that is no entry, too (rule 5.1)."""


class Migrated:
    """A version 1 file opened to read; see `SessionFile`."""

    is_current = False
    ends_by_rule = False
    header_line: HeaderLine | None = None
    notes = ()

    def __init__(self, original: Log) -> None:
        self.original = original
        self.size = original.size()
        self._offsets = array("q")
        view = LogTree(original)
        self.log = BytesLog(original.name, self._blocks(view))
        self.log.blobs = original.blobs
        self._damage = view.damage

    def _blocks(self, view: LogTree) -> Iterator[bytes]:
        from sessiontree.core.migrate import migrate  # with hashlib, and few files are so old

        def originals() -> Iterator[bytes]:
            for offset, line, count in view.line_runs():
                if count > 1 and not isinstance(decode_leniently(line), dict):
                    report_run(line, count, offset, view.report)
                    continue  # nothing counts these lines, and they are only in the original
                for at in range(offset, offset + count * (len(line) + 1), len(line) + 1):
                    self._offsets.append(at)
                    _check(line, at, view)
                    yield line

        for line in migrate(originals(), 1):
            yield line + b"\n"
        if not view.reads_to_end:
            last = decode_leniently(bare_line(rest_of_line(self.original.read, view.complete)))
            kind = last.get("type") if isinstance(last, dict) else None
            if isinstance(kind, str) and kind != HEADER:
                view.report("open end", view.complete, "the last line has no newline")

    def damage_in_original(self, damage: Sequence[Damage]) -> list[Damage]:
        found = [
            replace(each, offset=self._offsets[each.line - 1])
            for each in damage
            if each.kind not in _OF_A_LINE
        ]
        no_entries = {each.offset for each in found if each.kind == "no uuid"}
        of_lines = [
            each
            for each in self._damage
            if each.offset not in no_entries or each.kind in _OF_ANY_LINE
        ]
        return sorted([*of_lines, *found], key=_PLACE)

    def original_line(self, entry: Entry) -> bytes:
        row = count_newlines(self.log.read, 0, entry.offset)
        return rest_of_line(self.original.read, self._offsets[row])

    def origin(self, entry: Entry) -> None:
        return None

    def is_outdated(self) -> bool:
        return self.original.was_replaced() or self.original.size() != self.size


def _check(line: bytes, offset: int, view: LogTree) -> None:
    """Report damage in a line of version 1, which migration may repair."""
    if line.startswith(b"{") and line.endswith(b"}"):
        value = decode_leniently(line)
        if isinstance(value, dict) and "uuid" not in value:  # as all sound lines are
            check_seal(line, offset, view.report)
            return

    def report(kind: str, offset: int, cause: str) -> None:
        if kind == "no uuid":  # so it is with every sound line
            check_seal(line, offset, view.report)
        else:
            view.report(kind, offset, cause)

    decode(line, offset, report)


class Unmigrated:
    """A version 1 file opened to write, migrated in memory until an entry is written.

    The first append migrates the file, and fails with `Moved`: the file is then the log's
    successor. So a call that is refused leaves the file as it is. See `Log`.
    """

    find: Final = None
    lines_with: Final = None

    def __init__(self, file: Log, memory: Log, suffix: str) -> None:
        self._file = file
        self._memory = memory
        self._suffix = suffix
        self.name = file.name
        self.readonly = False
        self.identity = file.identity
        self.keeps_out = file.keeps_out
        self.blobs = file.blobs
        self.read, self.size = memory.read, memory.size
        self.alone, self.hold, self.keep = file.alone, file.hold, file.keep
        self.check_writable, self.to_read = file.check_writable, file.to_read
        self.reopen, self.successor = file.reopen, file.successor
        self.release, self.close = file.release, file.close
        self.changes, self.rewrite = file.changes, file.rewrite
        self.parts = file.parts

    @classmethod
    def of(cls, file: Log, suffix: str) -> Self:
        """Read a file of version 1; `suffix` is what the name of the original gets."""
        return cls(file, Migrated(file).log, suffix)

    @property
    def ended(self) -> str:
        return self._file.ended

    @ended.setter
    def ended(self, why: str) -> None:
        self._file.ended = why

    @property
    def written(self) -> int:
        return self._file.written

    @property
    def closed(self) -> bool:
        return self._file.closed

    def append(self, block: bytes, at: int) -> int:
        migrate_file(self._file, self._suffix)
        raise Moved

    def was_replaced(self) -> bool:
        return self._file.identity != self.identity or self._file.was_replaced()

    def ends_at(self, size: int) -> bool:
        return not self.was_replaced() and self.size() == size

    still_ends_at = ends_at

    def beside(self) -> Unmigrated:
        return Unmigrated(self._file.beside(), self._memory, self._suffix)


def migrate_file(log: Log, suffix: str) -> None:
    """Migrate a file on disk, unless another writer has done so first.

    Args:
        log: the file; it reads the new one afterwards.
        suffix: what the name of the original gets.
    """

    def migrated() -> None:
        view = LogTree(log)
        if view.is_version_1:
            lines = (line for _, line in view.lines())
            from sessiontree.core.migrate import migrate  # as above

            blocks = (line + b"\n" for line in migrate(lines, 1))
            log.rewrite(blocks, suffix)
            log.reopen()

    planned_again(log, migrated)
