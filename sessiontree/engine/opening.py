"""Opening: decide what a file is from its start, and open it as that.

`sniff` is the one place that decides. A file is a current session, a session of
version 1, a session whose header is lost, or another agent's session; anything else is
an error. `open_file` opens each of them as a `SessionFile`, so that nothing else asks.

Invariants: sniffing writes nothing; a current file is decided from its first line; a
file opened to write is current when `open_file` returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

import stringzilla  # type: ignore[import-not-found, unused-ignore]

from sessiontree.core.header import is_version_1
from sessiontree.engine.collector import gc_paused
from sessiontree.engine.header import find_header
from sessiontree.errors import (
    AgentRecordError,
    FileError,
    ForeignFormatError,
    MigrationRefusedError,
    NotASessionError,
)
from sessiontree.storage.lines import Read
from sessiontree.storage.zstd import MAGIC, Decompressed, Positioned

if TYPE_CHECKING:
    from sessiontree.core.damage import Damage
    from sessiontree.core.entry import Entry
    from sessiontree.core.notes import Note
    from sessiontree.core.salvage import HeaderStandIn
    from sessiontree.formats import Format
    from sessiontree.storage.log import Log

Kind = Literal["current", "version 1", "lost header", "foreign"]

Migrate = bool | Literal["later"]
"""Whether a writer migrates version 1 on disk: when it opens the file, or when it writes."""

KEPT_AS: Final = ".v1"
"""Ends the name of the original of a file that was migrated."""

LOOK: Final = 1024 * 1024
"""Bytes of a file's start that are searched for entries when its header may be lost."""

_CURRENT: Final = b'{"type":"session","version":2,"format":"sessiontree/'
"""How `core.codec` starts a current file."""

_CRC_KEY: Final = b',"crc":"'
"""What every entry that proves a header lost has in its line."""

_START: Final = 4096
_HEAD: Final = 64 * 1024


class Start(NamedTuple):
    """What the start of a file says.

    Attributes:
        kind: what the file is.
        header: the keys of its header; of a lost header, those that stand in for it; of
            another agent's file, none.
        format: the format of another agent's file.
        stand_in: what replaces a lost header.
        head: how the file starts, decompressed.
        read: reads the file, decompressed.
    """

    kind: Kind
    header: Mapping[str, Any]
    head: bytes
    read: Read
    format: Format | None = None
    stand_in: HeaderStandIn | None = None

    @property
    def session_id(self) -> str:
        """The session's id, empty if the start does not tell it."""
        if self.format is not None:
            return self.format.facts(self.head, b"").id or ""
        return str(self.header.get("id") or "")


def sniff(head: bytes, file: Positioned, look: int = LOOK) -> Start:
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
    header: Mapping[str, Any] = {}
    refused: FileError | None = None
    foreign: Start | None = None
    if not head.startswith(_CURRENT) and b"\n" not in head and len(head) < file.size():
        foreign = _foreign(head, file)  # its first line is longer than `head`
    if foreign is None:
        try:
            header = find_header(file, head).keys
        except FileError as error:
            refused = error
            foreign = _foreign(head, file)
    uuid = header.get("uuid")
    if uuid and isinstance(uuid, str):
        return Start("current", header, head, file.read)
    lost = _lost_header(head, file, LOOK if foreign is None and refused is not None else look)
    if lost is not None:
        return lost
    if foreign is not None:
        return foreign
    if refused is not None:
        raise _record(head, file.name) or refused
    kind: Kind = "version 1" if is_version_1(header) else "current"
    return Start(kind, header, head, file.read)


def _compressed(head: bytes, file: Positioned, look: int) -> Start:
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


def sniff_file(file: Positioned) -> Start:
    """Decide what an open file is; raises as `sniff` does."""
    head = file.read(0, _START)
    if len(head) == _START and not head.startswith(_CURRENT):
        head = file.read(0, _HEAD)
    return sniff(head, file)


def _foreign(head: bytes, file: Positioned) -> Start | None:
    """The start of another agent's file; None for any other file."""
    from sessiontree import formats  # slow to import, and few files are another agent's

    format = formats.recognise(head)
    if format is None and len(head) < formats.HEAD and len(head) < file.size():
        head = file.read(0, formats.HEAD)
        format = formats.recognise(head)
    return None if format is None else Start("foreign", {}, head, file.read, format)


def _record(head: bytes, file: str) -> AgentRecordError | None:
    """The error for a file that an agent keeps beside its sessions; None for any other."""
    from sessiontree import formats  # slow to import, and few files are another agent's

    what = formats.record_in(head)
    return None if what is None else AgentRecordError(f"{file} is {what}, not a session", file)


def _lost_header(head: bytes, file: Positioned, look: int) -> Start | None:
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
    return Start("lost header", header, head, file.read, stand_in=found)


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
    """

    is_current: bool
    ends_by_rule: bool

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

    def is_outdated(self) -> bool:
        """Whether `log` no longer shows the original, so that `reopened` is needed."""
        ...


class Current:
    """A session file of the current version: the log is the file. See `SessionFile`."""

    is_current = True
    ends_by_rule = False
    notes = ()

    def __init__(self, log: Log) -> None:
        self.log = self.original = log

    @property
    def size(self) -> int:
        return self.log.size()

    def damage_in_original(self, damage: Sequence[Damage]) -> list[Damage]:
        return list(damage)

    def original_line(self, entry: Entry) -> bytes:
        return entry.line

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
        return Current(log)
    if start.stand_in is not None:
        from sessiontree.engine.headless import Headless  # few headers are ever lost

        lost = Headless(log, start.stand_in)
        if log.readonly:
            return lost
        raise lost.refusal()
    if start.format is not None:
        if not log.readonly:
            raise foreign_refusal(start.format, log.name)
        from sessiontree.engine.translated import Translated  # few files are another agent's

        with gc_paused():
            return Translated(log, start.format)
    from sessiontree.engine import migrated  # few files are of version 1

    if log.readonly:
        with gc_paused():
            return migrated.Migrated(log)
    if not migrate:
        raise MigrationRefusedError(
            f"{log.name} is of version 1; open it with migrate=True to migrate it "
            "(the original is kept beside it), or with readonly=True to leave it as it is",
            log.name,
        )
    if migrate == "later":
        return Current(migrated.Unmigrated.of(log, KEPT_AS))
    migrated.migrate_file(log, KEPT_AS)
    return Current(log)


def reopened(file: SessionFile) -> SessionFile:
    """Open the file that is now at the path of one, as what it is now."""
    file.original.reopen()
    return open_file(file.original, migrate=False)


def foreign_refusal(format: Format, path: str) -> ForeignFormatError:
    """The error for a file of another agent that was to be changed."""
    return ForeignFormatError(
        f"{path} is a file of {format.program}, which is read in place and never written; import "
        "it to go on with it",
        path,
        format.program,
    )
