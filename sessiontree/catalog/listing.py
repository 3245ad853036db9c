"""What a list of sessions tells of each file, from its head and its tail alone.

The cost of a file does not depend on its size: its last 32 KB are read, and its
first 16 KB where those lie before that. So what is told is bounded as well:

- the name is the last one given in the tail; else that of the last compaction there,
  which repeats the name in force; else the last one given in the head; else the
  header's. A name given in the middle of a large file and never since is not seen
  here, and is by `Session.name`.
- the first message is looked for in the first 256 KB.
- lane and time of the last change are those of the last whole entry.

Invariant: looking changes nothing, makes no file, and never waits: a lock that is
tried is one that another program left its name in, and is let go of at once.

What the two ends of a session of ours tell: its head and its tail, of bounded size.

Windows are bytes of the file that start or end anywhere; only lines that lie whole in
one are looked at.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import orjson
import stringzilla  # type: ignore[import-not-found, unused-ignore]

from sessiontree.core.display import one_line
from sessiontree.core.entry import decode_object
from sessiontree.core.header import check_header
from sessiontree.core.message import begins_turn, preview_of, role_of, slash_command, text_of
from sessiontree.errors import (
    ForeignFormatError,
    NewerFormatError,
    NotASessionError,
    SessionTreeError,
)
from sessiontree.storage.files import Report, unreadable
from sessiontree.storage.fs import DISK, READ_PLAIN, FileSystem, Stat
from sessiontree.storage.lines import Backwards, Read, rest_of_line
from sessiontree.storage.zstd import MAGIC, Decompressed
from sessiontree.text.preview import shown, told

HEAD: Final = 16 * 1024
TAIL: Final = 32 * 1024
FIRST_MESSAGE_WITHIN: Final = 256 * 1024
FIRST_MESSAGE_WIDTH: Final = 200
"""Characters of the first message that are told."""

_LAST_LINES: Final = 8
"""Lines looked at, from the end, for one that is an entry."""


class Last(msgspec.Struct, gc=False):
    """What is told of the last entry."""

    type: str
    timestamp: str | None = None
    lane: str | None = None


_decode_last: Final = msgspec.json.Decoder(Last).decode


def last_in(window: bytes, *, whole: bool) -> Last | None:
    """The last line of a window that is an entry and lies in it whole, or None."""
    end = len(window)
    for _ in range(_LAST_LINES):
        start = window.rfind(b"\n", 0, end) + 1
        if not start and not whole:
            return None
        if found := _as_last(window[start:end]):
            return found
        end = start - 1
        if end <= 0:
            break
    return None


def last_before(read: Read, size: int) -> Last:
    """The same of a file whose last lines are longer than a window, or no entries."""
    backwards = Backwards(read)
    end = size
    for _ in range(_LAST_LINES):
        start, line = backwards.line_before(end)
        if found := _as_last(line):
            return found
        end = start - 1
        if end <= 0:
            break
    return Last("")


def _as_last(line: bytes) -> Last | None:
    if line:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return _decode_last(line)
    return None


def name_in(tail: bytes) -> str | None:
    """The name that the end of a file tells, or None."""
    given = name_given_in(tail)
    if given is not None:
        return given
    for body in _bodies(tail, b'"compaction"', "compaction"):
        state = body.get("state")
        return text(state, "name") if isinstance(state, dict) else None
    return None


def name_given_in(window: bytes) -> str | None:
    """The last name that whole lines of a window give, or None."""
    for body in _bodies(window, b'"session_info"', "session_info"):
        if name := text(body, "name"):
            return name
    return None


def _bodies(window: bytes, needle: bytes, kind: str) -> Iterator[Mapping[str, Any]]:
    """The entries of a type in a window, last first."""
    at = stringzilla.rfind(window, needle)
    while at >= 0:
        start = window.rfind(b"\n", 0, at) + 1
        end = window.find(b"\n", at)
        body = decode_object(window[start : end if end >= 0 else len(window)])
        if body.get("type") == kind:
            yield body
        at = stringzilla.rfind(window, needle, 0, start)


def first_message(head: bytes, read: Read, size: int) -> str | None:
    """What the first prompt says; the head is read further where it is not in there.

    Where there is none, the first command that was given to the program itself.
    """
    found = _prompt_in(head)
    while found is None and len(head) < min(size, FIRST_MESSAGE_WITHIN):
        head = read(0, 4 * len(head))
        found = _prompt_in(head)
    return found or _command_in(head)


def _prompt_in(window: bytes) -> str | None:
    """What the first prompt in whole lines of a window says."""
    at = stringzilla.find(window, _USER)
    while at >= 0:
        start = window.rfind(b"\n", 0, at) + 1
        end = window.find(b"\n", at)
        end = len(window) if end < 0 else end
        body = decode_object(window[start:end])
        if begins_turn(body):
            return one_line(_said(body)[:_LOOK], FIRST_MESSAGE_WIDTH)
        at = stringzilla.find(window, _USER, end)
    return None


def _command_in(window: bytes) -> str | None:
    at = stringzilla.find(window, _COMMAND)
    while at >= 0:
        start, end = window.rfind(b"\n", 0, at) + 1, window.find(b"\n", at)
        end = len(window) if end < 0 else end
        message = decode_object(window[start:end]).get("message")
        if isinstance(message, dict) and role_of(message) == "user":
            command = slash_command(text_of(message))
            if command is not None:
                return one_line(command[:_LOOK], FIRST_MESSAGE_WIDTH)
        at = stringzilla.find(window, _COMMAND, end)
    return None


_COMMAND: Final = b"<command-name>"
_USER: Final = b'"user"'


def _said(body: Mapping[str, Any]) -> str:
    return preview_of(shown(told(body)["message"]))


def text(body: Mapping[str, Any], key: str) -> str | None:
    """A value that is a string; None for any other."""
    value = body.get(key)
    return value if isinstance(value, str) else None


LOCK: Final = ".lock"

_HEADER_LIMIT: Final = 64 * 1024 * 1024
_LOOK: Final = 2 * FIRST_MESSAGE_WIDTH


class SessionInfo(msgspec.Struct, frozen=True, rename="camel"):
    """What a list tells of one session.

    Attributes:
        file: its path.
        id: the session's id.
        cwd: the working directory it is about, or None.
        name: its name, or None.
        first_message: what its first prompt says, in up to 200 characters on one line, or None.
        created: when, as the header has it, or None.
        modified: when its last entry was written; of one without a time, its file. RFC 3339.
        bytes: the size of the file.
        lane: the lane of its last entry.
        writer: who holds it to write alone, in words, or None.
        branches: how many branches it has; None where that was not asked.
        program: the agent whose own file this is; None for a session of ours.
    """

    file: str
    id: str
    cwd: str | None
    name: str | None
    first_message: str | None
    created: str | None
    modified: str
    bytes: int
    lane: str
    writer: str | None
    branches: int | None = None
    program: str | None = None


def listed(
    files: Iterable[str], report: Report, look: Callable[[str], SessionInfo] | None = None
) -> Iterator[SessionInfo]:
    """What is told of each file; one that cannot be listed is reported, and left out.

    Args:
        files: their paths.
        report: told why.
        look: looks at one of them, by default `facts_of`.
    """
    look = look or facts_of
    for file in files:
        try:
            yield look(file)
        except SessionTreeError as error:
            report(str(error))


def facts_of(file: str, fs: FileSystem = DISK) -> SessionInfo:
    """What a list tells of one file.

    Raises:
        NotASessionError, ForeignFormatError, NewerFormatError: it is no session.
        StorageError: it cannot be read.
    """
    try:
        fd = _open(fs, file)
        with closing(_Opened(fs, fd, file)) as opened:
            return opened.facts()
    except SessionTreeError:
        raise
    except OSError as error:
        raise unreadable(file, error) from error


def header_of(file: str, fs: FileSystem = DISK) -> dict[str, Any]:
    """The keys of a file's header; raises as `facts_of` does."""
    try:
        with closing(_Opened(fs, _open(fs, file), file)) as opened:
            return opened.header()
    except SessionTreeError:
        raise
    except OSError as error:
        raise unreadable(file, error) from error


def _open(fs: FileSystem, file: str) -> int:
    """A descriptor to read a file; a pipe in its place is not waited for."""
    try:
        return fs.open(file, READ_PLAIN)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EMLINK):
            raise
    return fs.open(os.path.realpath(file, strict=True), READ_PLAIN)


class _Opened:
    """One file while it is looked at, by positioned reads.

    Attributes:
        path: the file.
    """

    def __init__(self, fs: FileSystem, fd: int, file: str) -> None:
        self._fs = fs
        self._fd = fd
        self.path = file
        self._stat: Stat = fs.stat(fd)

    def close(self) -> None:
        self._fs.close(self._fd)

    def read(self, offset: int, size: int) -> bytes:
        return self._fs.read(self._fd, size, offset)

    def size(self) -> int:
        return self._stat.size

    def facts(self) -> SessionInfo:
        size = self._checked_size()
        tail = self.read(max(0, size - TAIL), TAIL)
        head = tail if size <= TAIL else self.read(0, HEAD)
        if head.startswith(MAGIC):
            return self._facts_of_compressed()
        is_whole = size <= TAIL
        try:
            header = _header(head, self.read, self.path)
        except (ForeignFormatError, NewerFormatError, NotASessionError):
            is_document = head.startswith(b"{\n")
            last = None if is_document else last_in(tail, whole=is_whole)
            listed = self._facts_of_other(head, tail, self.read, last or Last(""))
            if listed is not None:
                return listed
            lost = self._lost_header()
            if lost is None:
                raise
            header = lost
        last = last_in(tail, whole=is_whole) or last_before(self.read, size)
        return SessionInfo(
            file=self.path,
            id=str(header.get("id", "")),
            cwd=text(header, "cwd"),
            name=name_in(tail) or name_given_in(head) or text(header, "name"),
            first_message=first_message(head, self.read, size),
            created=text(header, "timestamp"),
            modified=last.timestamp or _spelled(self._stat.modified),
            bytes=size,
            lane=last.lane or "main",
            writer=_writer(self._fs, self.path),
        )

    def _facts_of_compressed(self) -> SessionInfo:
        """What the start of a compressed file tells; its end is not worth what is before."""
        inside = Decompressed(self)
        head = inside.head(HEAD)
        listed = self._facts_of_other(head, b"", inside.read, Last(""))
        if listed is None:
            raise NotASessionError(
                f"{self.path} is compressed, and no session of an agent that is known; "
                "if it is one of ours, decompress it",
                self.path,
            )
        return listed

    def _facts_of_other(
        self, head: bytes, tail: bytes, read: Read, last: Last
    ) -> SessionInfo | None:
        """What is told of another agent's file; None where nobody knows whose it is."""
        from sessiontree import formats  # heavy, and not needed for files of ours

        format = formats.recognise(head)
        if format is None and len(head) >= HEAD:
            head = read(0, formats.HEAD)
            format = formats.recognise(head)
        if format is None:
            return None
        told = format.facts(head, tail)
        while None in (told.id, told.first_message) and HEAD <= len(head) < FIRST_MESSAGE_WITHIN:
            before, head = head, read(0, 4 * len(head))
            if len(head) == len(before):
                break
            told = format.facts(head, tail)
        first = told.first_message
        return SessionInfo(
            file=self.path,
            id=told.id or "",
            cwd=told.cwd,
            name=told.name,
            first_message=first and one_line(first[:_LOOK], FIRST_MESSAGE_WIDTH),
            created=told.created,
            modified=last.timestamp or told.modified or _spelled(self._stat.modified),
            bytes=self._stat.size,
            lane="main",
            writer=None,
            program=format.program,
        )

    def header(self) -> dict[str, Any]:
        size = self._checked_size()
        try:
            return _header(self.read(0, min(HEAD, size)), self.read, self.path)
        except (ForeignFormatError, NewerFormatError, NotASessionError):
            lost = self._lost_header()
            if lost is None:
                raise
            return lost

    def _lost_header(self) -> dict[str, Any] | None:
        """What stands for the keys of a header that is lost; None of a file that is no session."""
        from sessiontree.engine.opening import _lost_header  # few headers are ever lost

        found = _lost_header(self.read(0, 65536), self, 1 << 20)
        return None if found is None else dict(found.header)

    def _checked_size(self) -> int:
        file = self.path
        if self._stat.is_folder or self._stat.is_stream:
            what = "a folder" if self._stat.is_folder else "a device or a pipe"
            raise NotASessionError(f"{file} is no session file: it is {what}", file)
        if not self._stat.size:
            raise NotASessionError(f"{file} is no session: it is empty", file)
        return self._stat.size


def _header(head: bytes, read: Read, file: str) -> dict[str, Any]:
    """The header's keys: the first line that is not blank."""
    offset = 0
    for number in range(1, 1000):
        end = head.find(b"\n", offset)
        line = head[offset:end] if end >= 0 else rest_of_line(read, offset, _HEADER_LIMIT)
        if line.strip(b"\0\r\t \xef\xbb\xbf"):
            return check_header(line, file, f"line {number} (byte {offset})")
        if end < 0:
            break
        offset = end + 1
    raise NotASessionError(f"{file} is no session: it holds no entry", file)


def _spelled(seconds: float) -> str:
    """A time of the system as the format writes it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def moment(timestamp: str | None) -> float:
    """A time as stored, in seconds since 1970; 0 where it is none."""
    try:
        return datetime.fromisoformat(timestamp or "").timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0


def _writer(fs: FileSystem, file: str) -> str | None:
    """Who holds the session to write alone: the name in the lock file, if it is held."""
    lock = file + LOCK
    try:
        if not fs.stat(lock).size:
            return None
        fd = fs.open(lock, READ_PLAIN)
    except OSError:
        return None
    try:
        if fs.lock(fd):
            fs.unlock(fd)
            return None  # its owner died
        owner = orjson.loads(fs.read(fd, 4096, 0))
        return f"process {owner['pid']} on {owner['host']} since {owner['since']}"
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
        return "another writer"
    finally:
        fs.close(fd)
