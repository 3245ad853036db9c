"""What all sessions did to one file, the names they call it by, and why.

A session names a file by its absolute path, by one below its working directory, by one in another
working tree of the same repository, or by the path of a place where the project was before: a
folder of the same name that is not there any more. The reason of a call is the turn that it is in,
its prompt, and what the agent said before it.

Invariants:

- A session that names the file in a call is found, however its line spells the name.
- What cannot be read is reported, and hides nothing else.
- A call that several files have, such as a copy and its original, counts once, as the original
  records it.
- Nothing is changed, and a file of another name is never taken for this one.
- What a subagent did belongs to the turn of the main agent that started it.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, cached_property, partial
from typing import Final

import msgspec
from msgspec.structs import replace

from sessiontree.core.activity import as_typed
from sessiontree.core.display import mask_then_cut
from sessiontree.core.entry import Entry, is_of_subagent, seconds_of
from sessiontree.core.limits import EDIT_STEPS, Budget
from sessiontree.core.message import Message, kind_of, role_of, text_of
from sessiontree.core.paths import is_of_windows
from sessiontree.engine.cursor import Cursor
from sessiontree.engine.translated import agent_files, history_files
from sessiontree.errors import (
    AgentRecordError,
    RefError,
    SessionTreeError,
    StorageError,
    UsageError,
    with_step,
)
from sessiontree.history.edits import FileEvent
from sessiontree.library.git import Repository, Version, repository_of
from sessiontree.library.listing import facts_of
from sessiontree.library.path_rules import path_rules
from sessiontree.library.search import LARGEST, processes_for
from sessiontree.operations.workers import Each, ProcessPool, nothing
from sessiontree.session import Session
from sessiontree.storage.fs import DISK
from sessiontree.storage.names import Report, unreadable
from sessiontree.storage.scanner import Scanner
from sessiontree.text.pattern import Pattern
from sessiontree.views.messages import is_shown_as_prompt, typed_in
from sessiontree.views.parts import parts
from sessiontree.views.tree import agent_of, starts_subagent_lane
from sessiontree.views.turns import prompt_numbers
from sessiontree.views.work import message_of

MAX_NAMES: Final = 20
"""The names that a file had that are looked for."""

SECOND: Final = 0.999
"""What the time of a commit, in whole seconds, may lack."""


class Target(msgspec.Struct):
    """A file that is asked about."""

    # The folders below which the file is: working trees of one repository, or one folder.
    roots: tuple[str, ...]
    paths: list[str]  # the paths of the file below them, now and before

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(map(posixpath.basename, self.paths)))[:MAX_NAMES]

    def has(self, path: str) -> bool:
        return any(self._is(path, below) for below in self.paths)

    def _is(self, path: str, below: str) -> bool:
        if not path.endswith(below):
            return False
        if path == below or any(path == posixpath.join(root, below) for root in self.roots):
            return True
        root = path[: -len(below)].rstrip("/")
        if not path.endswith("/" + below) or not root:
            return False
        names = {posixpath.basename(known) for known in self.roots}
        if posixpath.basename(root) in names and not os.path.isdir(root):
            return True
        return os.path.realpath(root) in map(os.path.realpath, self.roots)


class FileVersions(msgspec.Struct):
    """A file, as the disk and its repository know it."""

    path: str  # absolute
    target: Target  # what sessions may call it
    repository: Repository | None
    versions: list[Version]  # the oldest first, without contents

    @property
    def below(self) -> str:
        """Its path below the top of its repository, or below its folder."""
        return self.target.paths[0]

    def versions_since(self, first: float) -> list[Version]:
        """The versions from the last before a time on, with their contents, the oldest first."""
        if self.repository is None:
            return []
        before = [version for version in self.versions if version.time + SECOND < first]
        return self.repository.with_texts([*before[-1:], *self.versions[len(before) :]])


def known_file(path: str) -> FileVersions:
    """What is known of a file, which need not be there.

    Raises:
        UsageError: it is a folder.
        UsageError, StorageError: git does not read the repository, or fails.
    """
    path = os.path.abspath(path)
    if os.path.isdir(path):
        raise UsageError(f"{path} is a folder; name a file of text")
    repository = repository_of(path)
    if repository is None:
        folder, name = os.path.split(path)
        return FileVersions(path, Target((folder,), [name]), None, [])
    top = os.path.realpath(repository.top)
    real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    below = os.path.relpath(real, top)
    versions = repository.versions(below)
    paths = list(dict.fromkeys([below, *(version.path for version in reversed(versions))]))
    roots = tuple(dict.fromkeys([*repository.worktrees, top, _shown_top(path, below)]))
    return FileVersions(path, Target(roots, [each for each in paths if each]), repository, versions)


def _shown_top(path: str, below: str) -> str:
    """The top as the path spells it, which may have links in it."""
    return path[: -len(below)].rstrip("/") if path.endswith("/" + below) else os.path.dirname(path)


def read_text(path: str) -> str:
    """The content of a file of text.

    Raises:
        UsageError: it is a folder, is binary, or has more than 64 MiB.
        StorageError: it is not there, or cannot be read.
    """
    try:
        if not os.path.isfile(path):
            os.stat(path)
            raise UsageError(f"{path} is not a file; name a file of text")
        if os.path.getsize(path) > 64 * 1024 * 1024:
            raise UsageError(f"{path} has over 64 MiB; its lines are not told")
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        error = StorageError(f"there is no file {path}; check the path", path)
        raise with_step(error, "see history") from None
    except OSError as fault:
        raise unreadable(path, fault) from fault
    if b"\0" in content[:8000]:
        raise UsageError(f"{path} is binary; name a file of text")
    return content.decode("utf-8", "replace")


LONGEST: Final = 2000
"""The most characters of a prompt, and of a reasoning, that are kept."""


class Reason(msgspec.Struct, frozen=True):
    """Why a call was made."""

    # None in a session of more than 16 MB, and above all prompts.
    turn: str | None = None
    prompt: str | None = None  # at most 2,000 characters; None above all prompts
    # What the agent said, or else thought, before the call, at most 2,000 characters; None if that
    # is nothing.
    reasoning: str | None = None


def reasons_of(session: Session, uuids: Iterable[str]) -> dict[str, Reason]:
    """The reason of each call of a session, by the uuids of their entries."""
    cursor = session.cursor
    wanted = dict.fromkeys(uuids)
    is_small = bool(wanted) and cursor.reader.log.size() <= LARGEST
    reasons = _Reasons(cursor, prompt_numbers(cursor) if is_small else {})
    return {uuid: reasons.of(uuid) for uuid in wanted}


class _Reasons:
    """The reasons of calls; an entry is passed once for each lane, whatever is below it."""

    def __init__(self, cursor: Cursor, numbers: dict[str, int]) -> None:
        self._cursor = cursor
        self._numbers = numbers  # of the turns, by the uuids of their prompts
        self._known: dict[tuple[str, str | None], Reason] = {}  # by uuid and lane; texts uncut

    def of(self, uuid: str) -> Reason:
        try:
            entry = self._cursor.entry(uuid)
        except RefError:  # the file was replaced meanwhile
            return Reason()
        found = self._from(entry)
        said = mask_then_cut(found.reasoning or "", 0, LONGEST)[:LONGEST]
        return Reason(found.turn, found.prompt, said or None)

    def _from(self, entry: Entry) -> Reason:
        passed: list[tuple[str, str]] = []
        reason = Reason()
        for above in self._above(entry):
            known = self._known.get((above.uuid, entry.lane))
            if known is not None:
                reason = known
                break
            if not is_of_subagent(above.lane) and is_shown_as_prompt(above):
                reason = self._known[above.uuid, entry.lane] = self._turn(above)
                break
            is_own = above.lane == entry.lane
            passed.append((above.uuid, _said_in(_message_in(above) or {}) if is_own else ""))
        for uuid, said in reversed(passed):
            if said:
                reason = Reason(reason.turn, reason.prompt, said)
            self._known[uuid, entry.lane] = reason
        return reason

    def _turn(self, entry: Entry) -> Reason:
        message = _message_in(entry) or {}
        prompt = typed_in(entry) or text_of(message)
        number = self._numbers.get(entry.uuid)
        name = None if number is None else str(number)
        return Reason(name, mask_then_cut(as_typed(prompt), 0, LONGEST)[:LONGEST])

    @cached_property
    def _callers(self) -> dict[str | None, str]:
        """By the lane of each subagent the uuid of the entry with the call that started it."""
        starts = filter(starts_subagent_lane, self._cursor.reader.of_type("custom"))
        facts = ((start.lane, start.as_stored.get("data")) for start in starts)
        called = ((lane, data.get("calledBy")) for lane, data in facts if isinstance(data, dict))
        return {lane: caller for lane, caller in called if isinstance(caller, str)}

    def _above(self, entry: Entry) -> Iterator[Entry]:
        """An entry and those above it; above those of a subagent, those above its call."""
        yield from _with(entry, self._cursor.up(entry))
        for _ in range(20):  # how deep subagents may start subagents; hostile ones start themselves
            caller = self._callers.get(entry.lane) if is_of_subagent(entry.lane) else None
            if caller is None:
                return
            try:
                entry = self._cursor.entry(caller)
            except RefError:  # its line is damaged
                return
            yield from _with(entry, self._cursor.up(entry))


def _with(entry: Entry, above: Iterator[Entry]) -> Iterator[Entry]:
    yield entry
    yield from (each for each in above if each.uuid != entry.uuid)


def _message_in(entry: Entry) -> Message | None:
    return message_of(entry, entry.as_stored)


def _said_in(message: Message) -> str:
    """What an answer says beside its calls; else what it thinks."""
    if role_of(message) != "assistant" and kind_of(message) != "reasoning":
        return ""
    said = text_of(message).strip()
    if not said:
        thoughts = (part.text for part in parts(message) if part.kind == "thinking")
        said = "\n".join(filter(None, thoughts)).strip()
    return said


_CALLS: Final = (
    *(b"tool_use", b"toolCall", b"tool_calls", b"function_call", b"custom_tool_call"),
    *(b"local_shell_call", b"shell_call", b"apply_patch_call", b'"callID"'),
)
"""A line with a call has one of these."""

_SHORTEST_CALL: Final = min(map(len, _CALLS))
"""A file may have millions of shorter lines."""

_Which = tuple[str, str, str | None, str, bool, bytes]


class SessionEdit(msgspec.Struct, frozen=True):
    """An event of a file, with the session that has it."""

    file: str
    session: str  # its id
    agent: str | None  # its short name
    event: FileEvent
    reason: Reason = Reason()  # why the call of an edit was made; empty for a look
    size: int = 0  # of the session, in bytes

    @property
    def seconds(self) -> float:
        """The time of the event, in seconds since 1970; 0 if it is not known."""
        return seconds_of(self.event.time) or 0.0


def edits_of(
    target: Target, files: Sequence[str], report: Report, each: Each = nothing
) -> list[SessionEdit]:
    """The events of a file in sessions, in the order of time.

    Paths that the file was moved from are added to the target. `each` is called with the number of
    each session file before it is read.
    """
    found: dict[_Which, SessionEdit] = {}

    def take(names: Sequence[str]) -> None:
        for edit in _events_with(names, files, report, each):
            key = _which(edit.event, edit.file, edit.event.time, is_known=False)
            found.setdefault(key, edit)  # a session may name a copy of a file more than once

    take(names := target.names)
    take([name for name in _all_names(target, files, found.values()) if name not in names])
    kept = [edit for edit in _told_once(found.values()) if _is_about(target, edit.event)]
    return sorted(kept, key=lambda edit: (edit.seconds, edit.file))


def _all_names(target: Target, files: Sequence[str], edits: Iterable[SessionEdit]) -> Sequence[str]:
    """The names of a target, with those that moves in sessions tell, of which edits are known.

    A file may be moved twenty times. Each name is looked for alone, and quickly: the moves alone
    are read, without their reasons.
    """
    moves = [edit for edit in edits if edit.event.to is not None]
    asked = set(target.names)
    _add_moves(target, moves)
    while new := [name for name in target.names if name not in asked]:
        asked.update(new)
        moves += _events_with(new, files, lambda cause: None, moves_alone=True)
        _add_moves(target, moves)
    return target.names


def steps_for(edits: Iterable[SessionEdit], way_out: str) -> Budget:
    """The steps of a command that plays edits back, which follow the size of their sessions."""
    sizes = {edit.file: edit.size for edit in edits}
    error = f"the file is too large for the number of its edits; {way_out}"
    return Budget(EDIT_STEPS, sum(sizes.values()), error=error)


def _is_about(target: Target, event: FileEvent) -> bool:
    return target.has(event.path) or (event.to is not None and target.has(event.to))


def _told_once(edits: Iterable[SessionEdit]) -> list[SessionEdit]:
    """The events without those of copies of their calls, which may tell less, or another time.

    Copies of one session have the ids of its calls. Copies with another id have the times too. An
    id that one file has at several times is short, and is not known without its time.
    """
    times: dict[tuple[str, str], set[str | None]] = {}
    edits = list(edits)
    for edit in edits:
        times.setdefault((edit.file, edit.event.call), set()).add(edit.event.time)

    def in_session(edit: SessionEdit) -> _Which:
        event = edit.event
        is_known = bool(event.call) and len(times[edit.file, event.call]) == 1
        return _which(event, edit.session, "" if is_known else event.time, is_known=is_known)

    def anywhere(edit: SessionEdit) -> _Which:
        event = edit.event
        return _which(event, "", event.time, is_known=bool(event.call and event.time))

    return _originals(_originals(edits, in_session), anywhere)


def _which(event: FileEvent, owner: str, time: str | None, *, is_known: bool) -> _Which:
    """What all copies of an event have; also its content, unless the call is known by its id."""
    content = b"" if is_known else msgspec.msgpack.encode((event.edit, event.seen))
    return owner, event.call, time, event.path, event.edit is not None, content


def _originals(
    edits: Iterable[SessionEdit], which: Callable[[SessionEdit], _Which]
) -> list[SessionEdit]:
    """Of the events that are the same, those in the file that is rather the original."""
    found: dict[_Which, dict[str, list[SessionEdit]]] = {}
    for edit in edits:
        found.setdefault(which(edit), {}).setdefault(edit.file, []).append(edit)
    age = cache(_age)
    return [
        edit
        for files in found.values()
        for edit in files[min(files, key=age) if len(files) > 1 else next(iter(files))]
    ]


def _age(file: str) -> tuple[bool, float, str]:
    with suppress(SessionTreeError, OSError):
        return facts_of(file).imported_from is not None, DISK.stat(file).modified, file
    return True, 0.0, file


def _add_moves(target: Target, edits: Iterable[SessionEdit]) -> None:
    """Add the paths from which the file was moved."""
    for edit in edits:
        event = edit.event
        if event.to is None or event.ending != "done" or not target.has(event.to):
            continue
        below = _below(target, event.to, event.path)
        if below is not None and below not in target.paths and len(target.paths) < MAX_NAMES:
            target.paths.append(below)


def _below(target: Target, to: str, path: str) -> str | None:
    """The path below a root of the file that was moved to another path of the target."""
    for known in target.paths:
        if to == known:
            return path
        if to.endswith("/" + known):
            root = to[: -len(known)]
            return path.removeprefix(root) if path.startswith(root) else None
    return None


def _events_with(
    names: Sequence[str],
    files: Sequence[str],
    report: Report,
    each: Each = nothing,
    *,
    moves_alone: bool = False,
) -> Iterator[SessionEdit]:
    """The events of calls that have one of some names in their arguments."""
    if not names:
        return
    find = partial(_events_in, names, Scanner(), moves_alone=moves_alone)
    crew = ProcessPool(find, msgspec.msgpack.encode, _decoded, processes_for(files))
    for found in crew.results(files, each):
        if isinstance(found, str):
            report(found)
        else:
            yield found


_decoded: Final = msgspec.msgpack.Decoder(SessionEdit | str).decode


def _events_in(
    names: Sequence[str], scanner: Scanner, file: str, *, moves_alone: bool
) -> Iterator[SessionEdit | str]:
    """The events in a session file of calls that have one of some names, or what is wrong.

    Moves alone come without their agent and their reasons.
    """
    try:
        if not _may_have(names, scanner, file):
            return
        with Session.open(file, readonly=True) as session:
            found = map(_with_paths_here, session.file_events(names))
            events = [each for each in found if _is_named(each, names)]
            if moves_alone:
                moves = (event for event in events if event.to is not None)
                yield from (SessionEdit(file, session.id, None, event) for event in moves)
                return
            agent = agent_of(session.header) or facts_of(file).made_by
            edits = (event.uuid for event in events if event.edit is not None)
            reasons = reasons_of(session, edits)
            size = session.cursor.reader.view.size
            for event in events:
                reason = reasons.get(event.uuid, Reason())
                yield SessionEdit(file, session.id, agent, event, reason, size)
    except AgentRecordError:
        return
    except SessionTreeError as error:
        yield str(error)
    except OSError as error:
        yield str(unreadable(file, error))


def _with_paths_here(event: FileEvent) -> FileEvent:
    """An event with the paths of this machine, by the user's rules; of Windows' ones with `/`."""
    path, to = _path_here(event.path), event.to and _path_here(event.to)
    return event if (path, to) == (event.path, event.to) else replace(event, path=path, to=to)


def _path_here(path: str) -> str:
    path = path_rules().here(path)
    return path.replace("\\", "/") if is_of_windows(path) else path


def _is_named(event: FileEvent, names: Sequence[str]) -> bool:
    paths = (event.path, event.to or "")
    return any(posixpath.basename(path) in names for path in paths)


def _may_have(names: Sequence[str], scanner: Scanner, file: str) -> bool:
    """True if a session has a line with a call and one of the names."""
    for name in names:
        find = Pattern(name).candidates
        for path in (file, *agent_files(file, lambda cause: None), *history_files(file)):
            lines = scanner.lines(path, find)
            try:
                # In a document the name and the call have lines of their own.
                is_document = path.endswith(".json")
                if any(
                    is_document
                    or (len(line) >= _SHORTEST_CALL and any(map(line.__contains__, _CALLS)))
                    for _, line in lines
                ):
                    return True
            finally:
                lines.close()
    return False
