"""SessionInfo: what a list shows of a session, from its head and its tail alone.

The cost of a file does not depend on its size: its last 32 KB are read, and its first 16 KB where
those are before that. So the answers are bounded as well:

- the name is the last one given in the tail; else that of the last compaction there,
  which repeats the name in force; else the last one given in the head; else the header's. A name
  given in the middle of a large file and never since is not seen here, but is by `Session.name`.
- the first message is searched for in the first 256 KB.
- lane and time of the last change are those of the last whole entry.

Head and tail are windows of the file that start or end anywhere; only lines that are whole in one
count.

The end of a compressed file, and the size of a session in a database, are known only after all of
it is read. So this fact is kept in the user's cache folder until the file changes.

Invariants: listing changes nothing, makes no file but that cache, and never waits: a lock is tried
only if another program left its name in it, and released at once.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, partial
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import stringzilla  # type: ignore[import-not-found, unused-ignore]
from msgspec.structs import replace

from sessiontree.core.entry import ANNOTATIONS, decode_object, seconds_of
from sessiontree.core.header import KEY as ORIGIN
from sessiontree.core.header import (
    ORIGIN_START,
    directory_of,
    forked_from,
    id_of_name,
    is_in_database,
)
from sessiontree.core.jsonbytes import ESCAPES, has_escapes
from sessiontree.core.message import (
    role_of,
    slash_command,
    text_of,
)
from sessiontree.engine.opening import FileStart, sniff
from sessiontree.errors import (
    AgentRecordError,
    NotASessionError,
    SessionTreeError,
    StorageError,
)
from sessiontree.library.cache import Cache, Stamp, is_settled, stamp_of
from sessiontree.library.root import cache_folder
from sessiontree.storage.fs import (
    DISK,
    READ_PLAIN,
    Descriptor,
    FileSystem,
    LockDescriptor,
)
from sessiontree.storage.lines import Backwards, Read
from sessiontree.storage.log import Log
from sessiontree.storage.names import (
    LOCK,
    Report,
    chat_id_in,
    owner_in,
    problem_of,
    unreadable,
)
from sessiontree.storage.place import HeadAndTail, StoredSession, is_address
from sessiontree.storage.places import place_of
from sessiontree.text.title import TitlePrompt, cut, title_of

if TYPE_CHECKING:
    from sessiontree.agents.agent import Agent
    from sessiontree.agents.base import AgentFacts
    from sessiontree.library.counts import SessionCounts
    from sessiontree.storage.databases import StoredRows


Reaches = Callable[[str], bool]
"""Returns True if a caller may read a file."""

HEAD: Final = 16 * 1024
TAIL: Final = 32 * 1024
FIRST_MESSAGE_WITHIN: Final = 256 * 1024
HAS_MORE: Final = "hasMore"
"""The key in the record of an import that has messages which its source had no more."""


T = TypeVar("T")


class SessionInfo(msgspec.Struct, frozen=True, rename="camel"):
    """The facts about one session in a list.

    Attributes:
        file: the path of the session file.
        id: the id of the session.
        cwd: the working directory of the session, or None; the folder here that a rule of
            `map-path` gives for it, if one does.
        name: the name of the session, or None.
        first_message: the text of the first prompt, up to 200 characters on one line, or None.
        created: the time in the header, or None.
        modified: the time of the last entry that is not a label, a name or a count of tokens, or
            else of the last change of the file (RFC 3339).
        bytes: the size of the file.
        lane: the lane of the last entry.
        writer: a text that describes the exclusive writer, or None; for a session at an address
            always None, as nothing asks for it.
        branches: the number of branches; None if the branches were not counted.
        agent: the agent whose program wrote the file; None for a sessiontree file. The JSON key is
            `program`.
        made_by: the short name of the agent that held the conversation, also for an imported
            session; None if that is not known. The JSON key is `agent`.
        imported_from: the name of the file from which the session was imported, or None.
        turns: the number of prompts on all branches; None if the file was not counted. This and
            the following are in the list of the command line; in a store's list, `counts` has
            them.
        model: the model that was used last, or None.
        usage: the tokens of all answers, as `stats --json` prints them, or None.
        cost: the reported cost in US dollars, or None.
        estimated: the cost in US dollars of the answers without a reported cost, or None.
        copy_of: the id of the session that this one was forked from, or None; its own id if it was
            converted for an agent.
        went_on: True if it has what the file that it was made of lacks: the agent for which it was
            converted went on with it, or the file that was imported has lost messages since.
        is_renamed: True if it is an import, and its name was given to the import itself.
        copies: the other files of the same conversation; none but in a list of conversations.
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
    agent: str | None = msgspec.field(default=None, name="program")
    made_by: str | None = msgspec.field(default=None, name="agent")
    imported_from: str | None = None
    turns: int | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None
    cost: float | None = None
    estimated: float | None = None
    copy_of: str | None = None
    went_on: bool = False
    is_renamed: bool = False
    copies: tuple[SessionInfo, ...] = ()

    @property
    def counts(self) -> SessionCounts:
        """The turns, the model, the usage and the cost of the session, as the file is now.

        A list reads only the start and the end of each file. The first read of this property reads
        the whole file, and keeps the sums in the user's cache folder until the file changes, as
        `sessiontree ls` does. In an event loop, read it in a thread.

        Raises:
            SessionTreeError: the file is gone, or a part of it cannot be read.
        """
        from sessiontree.library.counts import counts_of  # slow to import; few lists show it

        return counts_of(self)

    @property
    def is_converted(self) -> bool:
        """True if the file was made for an agent from a session of another one."""
        return self.agent is not None and self.copy_of == self.id

    @property
    def dollars(self) -> float:
        """The cost in US dollars as far as it is known, reported or estimated."""
        return (self.cost or 0.0) + (self.estimated or 0.0)

    @property
    def title(self) -> str | None:
        """The name, or else the first prompt."""
        return title_of(self.name, self.first_message)


def files_with_ending(names: Mapping[str, str], ending: str) -> list[str]:
    """The files whose names end so, and those whose names no store gave; none if no name ends so.

    `names` gives the name of each file.
    """
    if not any(name.endswith(ending) for name in names.values()):
        return []
    return [
        file for file, name in names.items() if name.endswith(ending) or id_of_name(name) is None
    ]


def session_infos(
    files: Iterable[str], report: Report, look: Callable[[str], SessionInfo] | None = None
) -> Iterator[SessionInfo]:
    """The facts of each session; a file that cannot be listed is reported and left out.

    What an agent keeps beside its sessions, such as a list of prompts, is left out in silence.

    `look` gives the facts of one file, by default `facts_of`. Where several files in one folder
    may be one session, those in which nothing is said are left out, unless there is no other; what
    is left comes last.
    """
    try:
        yield from _infos(files, report, look or facts_of)
    finally:
        _facts_kept(cache_folder()).save()


def _infos(
    files: Iterable[str], report: Report, look: Callable[[str], SessionInfo]
) -> Iterator[SessionInfo]:
    chats: dict[tuple[str, str], list[SessionInfo]] = {}
    for file in files:
        try:
            found = look(file)
        except AgentRecordError:
            continue
        except Exception as error:
            report(problem_of(file, error))
            continue
        if found.agent is None or not _is_in_files(found.agent):
            yield found
            continue
        chats.setdefault((os.path.dirname(file), found.id), []).append(found)
    for group in chats.values():
        converted = [one for one in group if one.is_converted]
        own = [one for one in group if not one.is_converted]
        said = [one for one in own if one.first_message is not None]
        yield from said or ([max(own, key=by_time)] if own and not converted else [])
        yield from converted


def _is_in_files(agent: str) -> bool:
    """True if an agent, given its name for people, keeps a session in several files."""
    from sessiontree.agents import AGENTS  # slow to import, and few files are another agent's

    return any(each.is_in_files for each in AGENTS if each.program == agent)


def without_stubs(files: Iterable[str], fs: FileSystem = DISK) -> Iterator[str]:
    """The files without the chats of Gemini CLI in which nothing is said, as a resume leaves them.

    Such a chat is left out if another one beside it is of the same session, and says something.
    """
    files = list(files)
    stubs: set[str] = set()
    for chats in chats_of_sessions(files):
        stubs.update(_stubs(chats, fs))
    return (file for file in files if file not in stubs)


def chats_of_sessions(files: Iterable[str]) -> Iterator[list[str]]:
    """The chats of Gemini CLI that may be one session, by their names; not those of one chat."""
    chats: dict[tuple[str, str], list[str]] = {}
    for file in files:
        if (id := chat_id_in(file)) is not None:
            chats.setdefault((os.path.dirname(file), id), []).append(file)
    return (group for group in chats.values() if len(group) > 1)


def _stubs(chats: Iterable[str], fs: FileSystem) -> Iterator[str]:
    found: list[SessionInfo] = []
    for file in chats:
        with suppress(Exception):  # reported when the file is read
            found.append(facts_of(file, fs))
    said = {one.id for one in found if one.first_message is not None}
    return (one.file for one in found if one.first_message is None and one.id in said)


def facts_of(file: str, fs: FileSystem = DISK, ends: HeadAndTail | None = None) -> SessionInfo:
    """The facts of one file; `ends` are those of a session at an address, if they are known.

    Raises:
        NotASessionError, ForeignFormatError, NewerFormatError: it is not a session.
        StorageError: it cannot be read.
    """
    return _with_cwd_here(_looked_into(file, fs, ends, _Opened.facts))


def recorded_cwd(file: str) -> str | None:
    """The working directory as a file names it, which may be of another machine; see `facts_of`."""
    return _looked_into(file, DISK, None, _Opened.facts).cwd


def _with_cwd_here(found: SessionInfo) -> SessionInfo:
    """The facts with the working directory on this machine, if a rule of the user maps it."""
    from sessiontree.library.path_rules import path_rules  # few commands on one file need it

    here = None if found.cwd is None else path_rules().here(found.cwd)
    return found if here == found.cwd else replace(found, cwd=here)


def every(file: str) -> bool:
    """The `reaches` of a caller that may read all files."""
    return True


def reached(files: Iterable[str], reaches: Reaches, report: Report) -> Iterator[str]:
    """The files that a caller may read; each other one is reported, and never looked into."""
    for file in files:
        if reaches(file):
            yield file
        else:
            report(f"{file} is a link that leads outside the folders that can be reached")


def facts_in(root: str, file: str, fs: FileSystem = DISK) -> SessionInfo:
    """Return the facts of a file below a root; its project is the folder that it is in."""
    return in_project(facts_of(file, fs), file.removeprefix(root).lstrip(os.sep))


def in_project(found: SessionInfo, name: str) -> SessionInfo:
    """The facts of a session that has this name in a store."""
    directory = directory_of(name.partition("/")[0])
    if directory in (None, found.cwd):
        return found
    return _with_cwd_here(replace(found, cwd=directory))


def id_in_lines(file: str) -> str:
    """The id that a file's lines give, empty without one. Raises as `facts_of` does."""

    def look(opened: _Opened) -> str:
        return sniff(opened.read(0, HEAD), opened, HEAD).id_in_lines

    return _looked_into(file, DISK, None, look)


def header_of(
    file: str, fs: FileSystem = DISK, ends: HeadAndTail | None = None
) -> Mapping[str, Any]:
    """The keys of a file's header, none for another agent's file; raises as `facts_of` does."""
    return _looked_into(
        file, fs, ends, lambda opened: sniff(opened.read(0, HEAD), opened, HEAD).header
    )


def _looked_into(
    file: str, fs: FileSystem, ends: HeadAndTail | None, look: Callable[[_Opened], T]
) -> T:
    """Return what `look` finds in a file. (A context manager would cost a list a twentieth.)"""
    try:
        if ends is not None or (fs is DISK and is_address(file)):
            stored = _Stored(file, ends)
            try:
                found = stored.found
                return look(_Opened(fs, file, stored.read, found.size, found.modified))
            finally:
                stored.close()
        if is_in_database(file) and fs is DISK and (rows := _rows_at(file)) is not None:
            inside = _InDatabase(file, rows)
            return look(inside.opened(fs))
        with Descriptor(fs, _open(fs, file)) as fd:
            stat = fs.stat(fd)
            if not S_ISREG(stat.mode):
                what = "a folder" if stat.is_folder else "a device or a pipe"
                raise NotASessionError(f"{file} is not a session file: it is {what}", file)

            def read(offset: int, size: int) -> bytes:
                return fs.read(fd, size, offset)

            return look(_Opened(fs, file, read, stat.size, stat.modified))
    except SessionTreeError:
        raise
    except OSError as error:
        raise unreadable(file, error) from error


def _rows_at(file: str) -> StoredRows | None:
    """See `databases.rows_at`."""
    from sessiontree.storage import databases  # with sqlite3, and few sessions are in a database

    return databases.rows_at(file)


def moment(timestamp: str | None) -> float:
    """A stored time in seconds since 1970; 0 if it is not a time."""
    return seconds_of(timestamp) or 0.0


def by_time(one: SessionInfo) -> tuple[float, str]:
    return moment(one.modified), os.path.basename(one.file)


def _open(fs: FileSystem, file: str) -> int:
    """A descriptor to read a file; opening a pipe does not wait."""
    try:
        return fs.open(file, READ_PLAIN)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EMLINK):
            raise
    return fs.open(os.path.realpath(file, strict=True), READ_PLAIN)


class _Stored:
    """A session at an address; what its ends hold takes no request."""

    def __init__(self, file: str, ends: HeadAndTail | None) -> None:
        self._file = file
        self._log: Log | None = None
        self._head, self._tail = (b"", b"") if ends is None else (ends.head, ends.tail)
        self.found = self._find() if ends is None else ends.found

    def _find(self) -> StoredSession:
        place, name = place_of(self._file)
        self._log = place.log(name, readonly=True)
        if (found := place.find(name)) is None:
            self._log.close()
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._file)
        return found

    def read(self, offset: int, size: int) -> bytes:
        whole = self.found.size
        size = max(0, min(size, whole - offset))
        if offset + size <= len(self._head):
            return self._head[offset : offset + size]
        start = whole - len(self._tail)
        if offset >= start:
            return self._tail[offset - start : offset - start + size]
        if self._log is None:
            place, name = place_of(self._file)
            self._log = place.log(name, readonly=True)
        return self._log.read(offset, size)

    def close(self) -> None:
        if self._log is not None:
            self._log.close()


class _InDatabase:
    """A session in a database; what its ends hold takes no look at the rows of its messages."""

    def __init__(self, file: str, rows: StoredRows) -> None:
        self._file = file
        self._rows = rows

    def opened(self, fs: FileSystem) -> _Opened:
        ends = self._rows.head, b"\n" + self._rows.end
        modified = self._rows.modified / 1000
        size: int = _kept(self._file, lambda: DISK.stat(self._file).size)
        return _Opened(fs, self._file, self._read, size, modified, ends)

    def _read(self, offset: int, size: int) -> bytes:
        head = self._rows.head
        if offset + size <= len(head):
            return head[offset : offset + size]
        with Descriptor(DISK, DISK.open(self._file, READ_PLAIN)) as fd:
            return DISK.read(fd, size, offset)


class _Opened:
    """One file while it is listed, read by position; `ends` are its head and tail, if known."""

    def __init__(
        self,
        fs: FileSystem,
        file: str,
        read: Read,
        size: int,
        modified: float,
        ends: tuple[bytes, bytes] | None = None,
    ) -> None:
        self.name = file
        self._fs = fs
        self._read = read
        self._size = size
        self._changed = modified
        self._ends = ends

    def read(self, offset: int, size: int) -> bytes:
        return self._read(offset, size)

    def size(self) -> int:
        return self._size

    def facts(self) -> SessionInfo:
        size = self._size
        if self._ends is None:
            tail = self.read(max(0, size - TAIL), TAIL)
            head = tail if size <= TAIL else self.read(0, HEAD)
        else:
            head, tail = self._ends
        start = sniff(head, self, HEAD if self._ends is None else len(head))
        if start.agent is not None:
            return self._foreign_facts(start, start.agent, tail)
        header = start.header
        metadata = _object(header, "metadata")
        owner = maker = None
        if start.kind == "version 1":
            from sessiontree.library import homes  # few files are of version 1

            owner = homes.agent_at(self.name)
            maker = homes.agent_of_version_1(self.name, header)
        last = _last_entry(tail, self.read, size)
        imported_from = _text(_object(metadata, "importedFrom"), "file")
        named = _naming(tail) or _compacted(tail) or ({} if head is tail else _naming(head))
        return SessionInfo(
            file=self.name,
            id=start.session_id,
            cwd=_text(header, "cwd"),
            name=_text(named, "name") or _text(header, "name"),
            first_message=_first_message(head, self.read, size),
            created=_text(header, "timestamp"),
            modified=last.timestamp or self._modified(),
            bytes=size,
            lane=last.lane or "main",
            writer=_writer(self._fs, self.name),
            agent=None if owner is None else owner.program,
            made_by=maker or _text(metadata, "agent"),
            imported_from=imported_from,
            copy_of=forked_from(header),
            went_on=imported_from is not None and _has_more(tail),
            is_renamed=imported_from is not None and _is_given_here(named),
        )

    def _foreign_facts(self, start: FileStart, agent: Agent, tail: bytes) -> SessionInfo:
        """The facts of another agent's file; of the end of a compressed one only its time."""
        from sessiontree.agents.agent import session_id  # slow to import, as all of agents

        has_lines = start.read == self.read and not start.head.startswith(b"{\n")
        last = _last_entry(tail, self.read, self.size()).timestamp if has_lines else None
        if start.read != self.read:
            tail = b""
            find = partial(_last_inside, start.read)
            last = None if is_address(self.name) else _kept(self.name, find)
        head = start.head
        reader = agent.reader
        found = reader.facts(head, tail)
        while len(head) < FIRST_MESSAGE_WITHIN:
            is_known = found.id is not None and _is_title(found.first_message)
            if is_known or len(head) < HEAD:
                break
            before, head = head, start.read(0, 4 * len(head))
            if len(head) == len(before):
                break
            found = reader.facts(head, tail)
        if reader.has_facts_beside and not is_address(self.name):
            from sessiontree.engine.translated import described  # slow to import, few need it

            found = described(agent, found, self.name, self._fs)
        first, id = found.first_message, session_id(agent, self.name, found.id or "", head)
        is_converted = _is_converted(head)
        return SessionInfo(
            file=self.name,
            id=id,
            cwd=found.cwd,
            name=found.name,
            first_message=first and cut(first),
            created=found.created,
            modified=last or found.modified or self._modified(),
            bytes=self.size(),
            lane="main",
            writer=None,
            agent=agent.program,
            made_by=agent.name,
            copy_of=id if is_converted else _fork_of(found, id),
            went_on=is_converted and _went_on(tail),
        )

    def _modified(self) -> str:
        changed = datetime.fromtimestamp(self._changed, UTC)
        return changed.isoformat(timespec="milliseconds")[:-6] + "Z"


def _writer(fs: FileSystem, file: str) -> str | None:
    """Who holds the session to write alone: the name in the lock file, if it is held."""
    if is_address(file):  # no file is beside it; a writer that waits is told who holds it
        return None
    lock = file + LOCK
    try:
        if not fs.stat(lock).size:
            return None
        held = LockDescriptor(fs, fs.open(lock, READ_PLAIN))
    except OSError:
        return None
    with held as fd, suppress(OSError):
        if held.lock():  # until it is closed
            return None  # its owner died
        return owner_in(fs, fd) or "another writer"
    return "another writer"


class _CachedFact(msgspec.Struct, array_like=True, frozen=True):
    stamp: Stamp
    fact: int | str | None


_decode_facts: Final = msgspec.msgpack.Decoder(dict[str, _CachedFact])


@cache
def _facts_kept(folder: str) -> Cache[_CachedFact]:
    """The one fact of each file that takes a look at all of it."""
    return Cache(os.path.join(folder, "facts-1.msgpack"), _decode_facts)


def _kept(file: str, find: Callable[[], int | str | None]) -> Any:
    """A fact of a file, found again only if the file changed since it was kept."""
    facts, stamp = _facts_kept(cache_folder()), stamp_of([file])
    known = facts.get(file)
    if known is not None and known.stamp == stamp:
        return known.fact
    fact = find()
    if is_settled(stamp):
        facts.keep(file, _CachedFact(stamp, fact))
    return fact


def _last_inside(read: Read) -> str | None:
    """The time of the last entry of a compressed file; None if it cannot be read to its end."""
    with suppress(StorageError):  # it unpacks to too much, which reading it says
        return _last_entry(*_end_of(read)).timestamp
    return None


def _end_of(read: Read) -> tuple[bytes, Read, int]:
    """The last bytes of a file that is read from its start on, and its size."""
    tail, size = b"", 0
    while block := read(size, FIRST_MESSAGE_WITHIN):
        tail = (tail + block)[-FIRST_MESSAGE_WITHIN:]
        size += len(block)
    return tail, read, size


class _Last(msgspec.Struct, gc=False):
    type: str
    timestamp: str | None = None
    lane: str | None = None


_decode_last: Final = msgspec.json.Decoder(_Last).decode


def _last_entry(tail: bytes, read: Read, size: int) -> _Last:
    """The last entry of a file, read further back if it does not start in the tail.

    Its time is that of the last entry that has one and is of the conversation: what agents add at
    an end has none, and a label or a name given later makes no session newer.
    """
    backwards = Backwards(read, tail, size - len(tail))
    end = size - tail.endswith(b"\n")
    last: _Last | None = None
    for _ in range(32):  # lines that are no entries, have no time, or are annotations
        start, line = backwards.line_before(end)
        if line:
            with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                found = _decode_last(line)
                last = last or found
                if found.timestamp is not None and found.type not in ANNOTATIONS:
                    return replace(last, timestamp=found.timestamp)
        end = start - 1
        if end <= 0:
            break
    return last or _Last("")


def _is_converted(head: bytes) -> bool:
    """True if a line at the start of a file names the entry that it was converted from."""
    return any(isinstance(body.get(ORIGIN), dict) for body in _objects_with(head, ORIGIN_START))


def _fork_of(found: AgentFacts, id: str) -> str | None:
    """The id of the session that an agent's one was forked from: its lines may have kept it."""
    above = found.above or found.id
    return None if above == id else above


def _went_on(tail: bytes) -> bool:
    """True if something was said in a converted file after its last converted line."""
    last = stringzilla.rfind(tail, ORIGIN_START)
    _, end = _line_around(tail, last) if last >= 0 else (0, 0)
    return b'"timestamp"' in tail[end:]


def _has_more(tail: bytes) -> bool:
    """True if the record of an import in its tail says that the source had lost entries."""
    return any(_entries_in(tail, b'"%b":true' % HAS_MORE.encode(), "session_info"))


def converted_until(file: str, fs: FileSystem = DISK) -> float:
    """The time of the last converted line of a file; 0 without one. Raises as `facts_of` does.

    Of two conversions of one session, the one with the earlier time may be what the other was
    converted from.
    """

    def look(opened: _Opened) -> float:
        backwards, end = Backwards(opened.read), opened.size()
        while end > 0:
            start, line = backwards.line_before(end)
            if ORIGIN_START in line and (time := _text(decode_object(line), "timestamp")):
                return moment(time)
            end = start - 1
        return 0.0

    return _looked_into(file, fs, None, look)


def _naming(window: bytes) -> Mapping[str, Any]:
    """The last entry in a window that gives a name; an empty one without it."""
    infos = _entries_in(window, b'"session_info"', "session_info")
    return next((entry for entry in infos if _text(entry, "name")), {})


def _compacted(tail: bytes) -> Mapping[str, Any]:
    """The state of the last compaction in the tail of a file, which repeats the name in force."""
    compaction = next(_entries_in(tail, b'"compaction"', "compaction"), {})
    state = _object(compaction, "state")
    return state if _text(state, "name") else {}


def _is_given_here(named: Mapping[str, Any]) -> bool:
    """True if a name was given to a session itself, and not taken over from another file."""
    return _text(named, "type") == "session_info" and "original" not in named


def has_marks(file: str) -> bool:
    """True if an import has a label or a name, near its end, that its agent's file lacks.

    Raises as `facts_of` does.
    """

    def look(opened: _Opened) -> bool:
        tail = opened.read(max(0, opened.size() - TAIL), TAIL)
        labels = _entries_in(tail, b'"label"', "label")
        return _is_given_here(_naming(tail)) or any("original" not in one for one in labels)

    return _looked_into(file, DISK, None, look)


def _entries_in(window: bytes, needle: bytes, kind: str) -> Iterator[Mapping[str, Any]]:
    """The entries of a type in the lines of a window that hold a needle, last to first."""
    if has_escapes(window):
        yield from reversed([body for body in _objects_with(window, needle) if _is(body, kind)])
        return
    at = stringzilla.rfind(window, needle)
    while at >= 0:
        start, end = _line_around(window, at)
        body = decode_object(window[start:end])
        if _is(body, kind):
            yield body
        at = stringzilla.rfind(window, needle, 0, start)


def _is(body: Mapping[str, Any], kind: str) -> bool:
    return body.get("type") == kind


def _line_around(window: bytes, at: int) -> tuple[int, int]:
    end = window.find(b"\n", at)
    return window.rfind(b"\n", 0, at) + 1, end if end >= 0 else len(window)


def _first_message(head: bytes, read: Read, size: int) -> str | None:
    """The prompt that is the title, or else the first command given to the agent's program."""
    found = _prompt_in(head)
    while not _is_title(found) and len(head) < min(size, FIRST_MESSAGE_WITHIN):
        head = read(0, 4 * len(head))
        found = _prompt_in(head)
    return found or _command_in(head)


def _is_title(prompt: str | None) -> bool:
    """Whether no later prompt can be the title in the place of one; see `FirstPrompt`."""
    return prompt is not None and (not prompt.startswith("/") or " " in prompt)


def _prompt_in(window: bytes) -> str | None:
    first = TitlePrompt()
    for body in _objects_with(window, b'"user"'):
        first.take(body)
        if first.is_found:
            break
    return first.text


def _command_in(window: bytes) -> str | None:
    for body in _objects_with(window, b"<command-name>"):
        message = body.get("message")
        if isinstance(message, dict) and role_of(message) == "user":
            command = slash_command(text_of(message))
            if command is not None:
                return cut(command)
    return None


def _objects_with(window: bytes, needle: bytes) -> Iterator[dict[str, Any]]:
    """The objects in the lines of a window that hold a needle, first to last.

    Those of lines whose strings may spell it with escapes, too.
    """
    if has_escapes(window):
        from sessiontree.text.pattern import finder  # few windows have escapes

        for start, end in finder((needle, *ESCAPES))(window, len(window)):
            yield decode_object(window[start:end])
        return
    at = stringzilla.find(window, needle)
    while at >= 0:
        start, end = _line_around(window, at)
        yield decode_object(window[start:end])
        at = stringzilla.find(window, needle, end)


def _text(body: Mapping[str, Any], key: str) -> str | None:
    value = body.get(key)
    return value if isinstance(value, str) else None


def _object(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = body.get(key)
    return value if isinstance(value, dict) else {}
