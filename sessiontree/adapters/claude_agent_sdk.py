"""Transcripts of Claude Code as sessions, for `ClaudeAgentOptions(session_store=...)`.

A session of Claude Code is a session file in the folder `claude-agent-sdk/<project>` of a store. A
subagent's transcript is a lane of it. `adapters.claude_lines` says how a line becomes an entry.
The summary of a session, its time and its costs are a fact in the session's metadata, written
behind the lines that it sums up. So what follows the fact is what a crash left of a write, and the
next call completes it.

Invariants: lines come back equal to those that were given, in their order; a line is stored once,
however often its batch is given; a call is one write under the lock of the file; `delete` removes
nothing from a file.

Source: `claude_agent_sdk.SessionStore` of claude-agent-sdk 0.2.187.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec
from anyio.to_thread import run_sync

from sessiontree.adapters.base import (
    CLAUDE_AGENT_SDK,
    SessionFiles,
    check_sound,
    foreign,
    loses_content,
    remember,
    run_again,
)
from sessiontree.adapters.claude_lines import (
    STARTS,
    Key,
    Left,
    Placing,
    SdkLine,
    canonical,
    made,
    restored,
)
from sessiontree.agents.claude_code import ClaudeCode
from sessiontree.core.codec import lines_in
from sessiontree.core.entry import Entry, lane_of_subagent, seconds_of
from sessiontree.core.header import AGENT_SESSION_KEY, LANE_KEY
from sessiontree.core.index import NO_ROW, TreeIndex
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.message import blocks_of
from sessiontree.core.migrate import uuid_of_line
from sessiontree.engine.walk import gc_paused
from sessiontree.engine.writer import fresh_uuid
from sessiontree.errors import (
    SessionExistsError,
    SessionNotFoundError,
    SessionTreeError,
    UsageError,
    warn,
)
from sessiontree.importing.source import SourceEntry
from sessiontree.importing.target import BlobHandles
from sessiontree.session import Session
from sessiontree.storage.lines import whole_lines
from sessiontree.store import PathLike, Store

try:
    from claude_agent_sdk import SessionStore, fold_session_summary
    from claude_agent_sdk.types import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )
except ImportError as error:
    raise CLAUDE_AGENT_SDK.unknown(error) from error

FOLDER: Final = "claude-agent-sdk"
"""The folder of a store that has a folder for each project."""

_KEY: Final = "claudeAgentSdk"
_PROJECT: Final = "projectKey"
_CHECKED: Final = 64
_DELETED: Final = "claude-agent-sdk:deleted"

T = TypeVar("T")


class _SdkFact(msgspec.Struct):
    mtime: int  # when the transcript was written last, in milliseconds; it only grows
    summary: dict[str, Any] = {}  # the `data` of its summary
    costs: dict[str, float] = {}  # what each model cost


class _TranscriptKey(NamedTuple):
    file: str
    project: str
    session_id: str
    subpath: str | None


class SessionTreeStore(SessionStore):
    """Keeps the transcripts of Claude Code as sessions.

    Args:
        root: the folder or the address of a store, or a `Store`; by default the store of the user.

    Raises:
        UnknownSdkError: the version of claude-agent-sdk is not known to work.
    """

    def __init__(self, root: PathLike | Store | None = None) -> None:
        CLAUDE_AGENT_SDK.check()
        self._place = SessionFiles(root, FOLDER)
        self.store, self.folder = self._place.store, self._place.folder
        self._indexes = _Indexes()
        self._failed: dict[tuple[str, str | None], tuple[int, list[Any]]] = {}

    def file_of(self, project_key: str, session_id: str) -> str:
        """Return the path of a session, which need not exist."""
        return self._place.inside(project_key).file_of(session_id)

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """See `SessionStore.append`; what is stored already is left out.

        Raises:
            EntryError: an entry is not an object, or has a value that JSON cannot carry; none of
                the batch is stored.
            UsageError: the subpath is empty.
            NotASessionError: the file has something else.
        """
        wanted = self._wanted(key)
        if entries:
            await run_sync(self._append, wanted, list(entries))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """See `SessionStore.load`.

        Raises:
            CorruptionError: an entry is damaged.
        """
        return await run_sync(self._read, self._wanted(key), self._lines)

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """See `SessionStore.list_sessions`; a warning names each file that is no such session."""
        listed = await run_sync(lambda: list(self._summaries(project_key)))
        return [{"session_id": one["session_id"], "mtime": one["mtime"]} for one in listed]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """See `SessionStore.list_session_summaries`; warns as `list_sessions` does."""
        return await run_sync(lambda: list(self._summaries(project_key)))

    async def delete(self, key: SessionKey) -> None:
        """See `SessionStore.delete`.

        A session is moved to the trash of the store. The lane of a subagent stays in the file, and
        is no longer listed.
        """
        await run_sync(self._delete, self._wanted(key))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """See `SessionStore.list_subkeys`."""
        wanted = self._wanted(cast(SessionKey, key))
        return await run_sync(self._read, wanted, self._subkeys) or []

    # Below, in a thread

    def _wanted(self, key: SessionKey) -> _TranscriptKey:
        project, session_id, subpath = key["project_key"], key["session_id"], key.get("subpath")
        if subpath == "":
            raise UsageError("a subpath is not empty; leave it out for the session itself")
        return _TranscriptKey(self.file_of(project, session_id), project, session_id, subpath)

    def _read(
        self, wanted: _TranscriptKey, ask: Callable[[Session, _TranscriptKey], T]
    ) -> T | None:
        """What the session says; None if it has no file."""
        try:
            with gc_paused(), Session.open(wanted.file, readonly=True) as session:
                _check_own(session, wanted)
                return ask(session, wanted)
        except SessionNotFoundError:
            return None

    def _lines(self, session: Session, wanted: _TranscriptKey) -> list[SessionStoreEntry] | None:
        index = self._indexes.of(session, wanted.file)
        key = _key(session, index.tree, wanted.subpath)
        lines = [] if key is None else list(key.lines(key.rows(), wanted.session_id))
        check_sound(session, index.lost)
        return [cast(SessionStoreEntry, line) for line in lines if line is not None] or None

    def _subkeys(self, session: Session, wanted: _TranscriptKey) -> list[str]:
        tree = self._indexes.of(session, wanted.file).tree
        with self._indexes.lock:
            first, last = tree.first_of_each_lane(), tree.last_of_each_lane()
        found: list[str] = []
        for lane, row in sorted(first.items(), key=lambda pair: pair[1]):
            if lane is None or row == last[lane]:
                continue
            about = (session.reader.entry_at(row).get("metadata") or {}).get(_KEY)
            subpath = about.get("subpath") if isinstance(about, dict) else None
            key = _key(session, tree, subpath) if isinstance(subpath, str) else None
            if key is not None and key.lane == lane:
                found.append(str(subpath))
        return found

    def _summaries(self, project_key: str) -> Iterator[SessionSummaryEntry]:
        for file in self._place.inside(project_key).files():
            try:
                with Session.open(file, readonly=True) as session:
                    found = _summary(session, project_key)
            except SessionNotFoundError:
                continue
            except SessionTreeError as error:
                warn(str(error))
                continue
            if found is not None:
                yield found

    @run_again
    def _append(self, wanted: _TranscriptKey, entries: list[Any]) -> None:
        lines = [SdkLine.of(entry) for entry in entries]
        for _ in range(5):
            with suppress(SessionNotFoundError), self._made(wanted, entries) as session:
                with session.locked():
                    session.writer.check_log_is_there()  # it may be in the trash meanwhile
                    self._write(session, wanted, lines)
                return
        raise SessionNotFoundError(f"{wanted.file} is deleted again and again", wanted.file)

    @contextmanager
    def _made(self, wanted: _TranscriptKey, entries: Sequence[Any]) -> Iterator[Session]:
        try:
            session = Session.open(wanted.file)
        except SessionNotFoundError:
            self._place.make_room(wanted.file)
            facts = {"agent": ClaudeCode.name, AGENT_SESSION_KEY: wanted.session_id}
            facts[_PROJECT] = wanted.project
            cwds = (entry.get("cwd") for entry in entries)
            cwd = next((cwd for cwd in cwds if isinstance(cwd, str)), "")
            with suppress(SessionExistsError):
                Session.create(wanted.file, cwd=cwd, id=wanted.session_id, metadata=facts).close()
            session = Session.open(wanted.file)
        with session:
            _check_own(session, wanted)
            yield session

    def _write(self, session: Session, wanted: _TranscriptKey, lines: list[SdkLine]) -> None:
        tree, header = self._indexes.of(session, wanted.file).tree, session.header.uuid
        found = _key(session, tree, wanted.subpath)
        start = [] if found else [_start(session, tree, str(wanted.subpath), lines)]
        key = found or Key(session.reader, tree, start[0].lane, start[0].uuid, len(tree))
        left = key.left(_fact_of(key), wanted.session_id)
        since = self._since(session, wanted, lines, key, left)
        new = list(_new(key, lines, since))
        if new or left:
            told = _told(session.reader.last_with_fact(_KEY))
            is_fork = (start[0].parent if start else key.above(header)) != header
            top = key.start if is_fork else header
            placing = Placing(key, wanted.session_id, top, told.costs)
            entries = [*start, *placing.entries(left, new)]
            summed = [*(line for _, line in left), *(given.value for given, _ in new)]
            entries.append(_fact(key, placing.tail, told, wanted, summed))
            put = BlobHandles(session.blobs).put
            written = [entry.line(put) for entry in entries]
            self._failed[wanted.file, wanted.subpath] = since, [given.value for given in lines]
            session.writer.write_lines(written)
        self._failed.pop((wanted.file, wanted.subpath), None)

    def _since(
        self,
        session: Session,
        wanted: _TranscriptKey,
        lines: list[SdkLine],
        key: Key,
        left: list[Left],
    ) -> int:
        """Where what an earlier attempt to write these lines left begins; or the end of the file.

        A crash leaves lines without a fact behind them. A write that failed here may have left all.
        """
        since, failed = self._failed.get((wanted.file, wanted.subpath), (0, []))
        if failed == [given.value for given in lines]:
            return since
        return key.offset(left[0][0]) if left else session.reader.view.size

    @run_again
    def _delete(self, wanted: _TranscriptKey) -> None:
        with suppress(SessionNotFoundError):
            if wanted.subpath is None:
                self._read(wanted, lambda *opened: None)  # which checks it
                self.store.trash(wanted.file)
                return
            with Session.open(wanted.file) as session, session.locked():
                _check_own(session, wanted)
                tree = self._indexes.of(session, wanted.file).tree
                key = _key(session, tree, wanted.subpath)
                if key is not None:
                    fields = {"customType": dumps(_DELETED)}
                    end = made("custom", _end_of(key.start), key.tail(), key.lane, fields)
                    session.writer.write_lines([end.line(BlobHandles(session.blobs).put)])


class _Index(NamedTuple):
    tree: TreeIndex
    end: bytes
    lost: list[tuple[int, str]]


class _Indexes:
    """The indexes of the sessions that were used last; each costs what was added since."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Index] = OrderedDict()
        self.lock = threading.Lock()  # held while an index grows

    def of(self, session: Session, file: str) -> _Index:
        view, read = session.reader.view, session.reader.log.read
        lost: list[tuple[int, str]] = []

        def report(kind: str, offset: int, cause: str) -> None:
            if loses_content(session, offset, kind):
                lost.append((offset, cause))

        if not view.reads_to_end:
            return _Index(session.reader.index(), b"", lost)
        with self.lock:
            kept = self._kept.pop(file, _Index(TreeIndex(), b"", []))
            known = kept.tree.end
            if known > view.size or read(known - len(kept.end), len(kept.end)) != kept.end:
                kept = _Index(TreeIndex(), b"", [])  # the file was replaced
            for offset, block in whole_lines(read, kept.tree.end, view.size):
                kept.tree.extend(block, offset, report)
            end = read(max(0, view.size - _CHECKED), _CHECKED)
            remember(self._kept, file, _Index(kept.tree, end, kept.lost + lost), 8)
            return self._kept[file]


def _check_own(session: Session, wanted: _TranscriptKey) -> None:
    about = session.header.get("metadata") or {}
    if (about.get(AGENT_SESSION_KEY), about.get(_PROJECT)) != (wanted.session_id, wanted.project):
        raise foreign(wanted.file, FOLDER)


def _key(session: Session, tree: TreeIndex, subpath: str | None) -> Key | None:
    """What a session has of a key; None for a subagent that it does not have."""
    if subpath is None:
        header = session.header.uuid
        return Key(session.reader, tree, None, header, tree.row(header) + 1)
    for start in _starts_of(session, subpath):
        row = tree.row(start)
        if row == NO_ROW:
            return None
        if tree.row(_end_of(start)) == NO_ROW:
            return Key(session.reader, tree, tree.lane_of(row), start, row + 1)
    return None


def _starts_of(session: Session, subpath: str) -> Iterator[str]:
    """The uuids of the entries that start the lanes of a subagent; one more after each deletion."""
    named = canonical(subpath)
    return (uuid_of_line(session.header.uuid, number, named) for number in count())


def _end_of(start: str) -> str:
    """The uuid of the entry that takes the lane with this start off the list."""
    return uuid_of_line(start, 0, _DELETED.encode())


def _start(session: Session, tree: TreeIndex, subpath: str, lines: list[SdkLine]) -> SourceEntry:
    agent = subpath.rpartition("/")[2].removeprefix("agent-")
    named = [given.value for given in lines if given.value.get("type") == "agent_metadata"]
    known = {key: value for key, value in named[0].items() if key != "type"} if named else {}
    caller = _caller(session, known.get("toolUseId"))
    data = {"agentId": agent, **known, **({"calledBy": caller} if caller else {})}
    uuid = next(start for start in _starts_of(session, subpath) if tree.row(start) == NO_ROW)
    name = lane_of_subagent(agent[:60])
    names = (name if number == 1 else f"{name}.{number}" for number in count(1))
    lane = next(name for name in names if name not in tree.lanes)
    fields = {
        "customType": dumps(STARTS),
        "data": canonical(data),
        "metadata": canonical({_KEY: {"subpath": subpath}}),
    }
    parent = _history(session, tree, lines) or session.header.uuid
    return made("custom", uuid, parent, lane, fields)


def _caller(session: Session, call: object) -> str | None:
    for entry in session.reader.entries_with(call) if isinstance(call, str) and call else ():
        message = entry.get("message") if entry.type == "message" else None
        if message is not None and any(block.get("id") == call for block in blocks_of(message)):
            return entry.uuid
    return None


def _history(session: Session, tree: TreeIndex, lines: list[SdkLine]) -> str | None:
    """The entry at which the history of a forked agent ends, as its first line names it."""
    forks = (given.value for given in lines if given.value.get("type") == "fork-context-ref")
    named = next((fork.get("parentLastUuid") for fork in forks), None)
    main = _key(session, tree, None)
    assert main is not None
    uuid, row = main.stored(named) if isinstance(named, str) and named else ("", NO_ROW)
    return None if row == NO_ROW else uuid


def _new(key: Key, lines: list[SdkLine], since: int) -> Iterator[tuple[SdkLine, str]]:
    """The lines that a key does not have, with the uuids of their entries.

    A line without a uuid may be one that the key has, or a repetition. It is one that the key has
    as far as there are lines alike: anywhere, for a line before one that the key has, and else
    behind the last of those, or behind `since`.
    """
    found = [None if given.uuid is None else key.stored(given.uuid) for given in lines]
    rows = [NO_ROW if one is None else one[1] for one in found]
    last = max((at for at, row in enumerate(rows) if row != NO_ROW), default=-1)
    if last >= 0:
        since = key.offset(rows[last])
    taken: set[str] = set()
    skipped: Counter[bytes] = Counter()
    added: Counter[bytes] = Counter()
    for at, (given, one) in enumerate(zip(lines, found, strict=True)):
        if one is not None:
            if one[1] == NO_ROW and one[0] not in taken:
                taken.add(one[0])
                yield given, one[0]
            continue
        said = canonical(given.value)
        there = key.count(said)
        left = there if at < last else there - key.count(said, since) - skipped[said]
        if left > 0:
            skipped[said] += at > last
            continue
        yield given, key.alike(said, there + added[said])
        added[said] += 1


def _fact_of(key: Key) -> str:
    return _KEY if key.lane is None else LANE_KEY + key.lane


def _told(entry: Entry) -> _SdkFact:
    return msgspec.convert((entry.get("metadata") or {}).get(_KEY) or {"mtime": 0}, _SdkFact)


def _fact(
    key: Key, tail: str, told: _SdkFact, wanted: _TranscriptKey, lines: Sequence[Mapping[str, Any]]
) -> SourceEntry:
    mtime = max(time.time_ns() // 1_000_000, told.mtime + 1)
    fact: dict[str, Any] = {"mtime": mtime}
    fields: dict[str, bytes] = {}
    if key.lane is None:
        summary = _folded(told, wanted.project, wanted.session_id, lines)["data"]
        fact |= {"summary": summary, "costs": told.costs}
        if (title := _title(summary)) and title != _title(told.summary):
            fields["name"] = canonical(title)
    fields["metadata"] = canonical({_fact_of(key): fact})
    return made("session_info", fresh_uuid(), tail, key.lane, fields)


def _title(summary: dict[str, Any]) -> str | None:
    titles = (summary.get(key) for key in ("custom_title", "ai_title", "summary_hint"))
    return next(filter(None, titles), None)


def _folded(
    told: _SdkFact, project_key: str, session_id: str, lines: Sequence[Mapping[str, Any]]
) -> SessionSummaryEntry:
    before: SessionSummaryEntry | None = None
    if told.mtime:
        before = {"session_id": session_id, "mtime": told.mtime, "data": told.summary}
    key: SessionKey = {"project_key": project_key, "session_id": session_id}
    return fold_session_summary(before, key, cast(list[SessionStoreEntry], lines))


def _summary(session: Session, project_key: str) -> SessionSummaryEntry | None:
    file, about = str(session.file), session.header.get("metadata") or {}
    session_id = str(about.get(AGENT_SESSION_KEY))
    _check_own(session, _TranscriptKey(file, project_key, session_id, None))
    entry = session.reader.last_with_fact(_KEY)
    told = _told(entry)
    lines = list(_lines_after(session, entry, session_id))
    if not told.mtime and not lines:
        return None
    summary = _folded(told, project_key, session_id, lines)
    summary["mtime"] = told.mtime or int((seconds_of(session.header.timestamp) or 0) * 1000)
    return summary


def _lines_after(session: Session, entry: Entry, session_id: str) -> Iterator[dict[str, Any]]:
    """The lines of the transcript behind an entry: those that a crash left without a fact."""
    view, read = session.reader.view, session.reader.log.read
    for start, block in whole_lines(read, entry.offset, view.complete):
        offset = start
        for line in lines_in(block):
            found = view.decode(line, offset)
            offset += len(line) + 1
            if found is not None and found.lane is None:
                restored_line = restored(found.body, session_id)
                if restored_line is not None:
                    yield restored_line
