"""What all sessions did to one file: their edits of it, and what they saw of it.

Invariants: a session that names the file in a call is found, however its line spells the name; what
cannot be read is reported, and hides nothing else; a call that several files have, such as a copy
and its original, is told once, as the original tells it.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Final

import msgspec

from sessiontree.catalog.listing import facts_of
from sessiontree.catalog.reason import Reason, reasons_of
from sessiontree.catalog.search import processes_for
from sessiontree.catalog.target import MOST_NAMES, Target
from sessiontree.core.moment import seconds_of
from sessiontree.core.steps import Steps
from sessiontree.engine.translated import agent_files, history_files
from sessiontree.errors import AgentRecordError, SessionTreeError
from sessiontree.operations.edits import FileEvent
from sessiontree.operations.outline import agent_of
from sessiontree.operations.workers import Crew, Each, nothing
from sessiontree.session import Session
from sessiontree.storage.files import Report, unreadable
from sessiontree.storage.scanner import Scanner
from sessiontree.text.pattern import Pattern

_CALLS: Final = (
    *(b"tool_use", b"toolCall", b"tool_calls", b"function_call", b"custom_tool_call"),
    *(b"local_shell_call", b"shell_call", b"apply_patch_call"),
)
"""Bytes of which a line with a call has one."""

_SHORTEST_CALL: Final = min(map(len, _CALLS))
"""A file may have millions of shorter lines."""

_Which = tuple[str, str, str | None, str, bool, bytes]


class SessionEdit(msgspec.Struct, frozen=True):
    """An event of a file, with the session that has it.

    Attributes:
        file: the path of the session file.
        session: the id of the session.
        agent: the short name of the agent; None if it is not known.
        event: the event.
        reason: why the call of an edit was made; empty for a look.
        size: the bytes of the session.
    """

    file: str
    session: str
    agent: str | None
    event: FileEvent
    reason: Reason = Reason()
    size: int = 0

    @property
    def seconds(self) -> float:
        """The time of the event, in seconds since 1970; 0 if it is not told."""
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
        for edit in _events_with(names, files, report, each, _found_in):
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
        moves += _events_with(new, files, lambda cause: None, nothing, _moves_in)
        _add_moves(target, moves)
    return target.names


def steps_for(edits: Iterable[SessionEdit], way_out: str) -> Steps:
    """The steps of a command that plays edits back, which follow the size of their sessions."""
    sizes = {edit.file: edit.size for edit in edits}
    error = f"the file is too large for the number of its edits; {way_out}"
    return Steps.of_command(sum(sizes.values()), error)


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
        return facts_of(file).imported_from is not None, os.stat(file).st_mtime, file
    return True, 0.0, file


def _add_moves(target: Target, edits: Iterable[SessionEdit]) -> None:
    """Add the paths from which the file was moved, as sessions tell."""
    for edit in edits:
        event = edit.event
        if event.to is None or event.ending != "done" or not target.has(event.to):
            continue
        below = _below(target, event.to, event.path)
        if below is not None and below not in target.paths and len(target.paths) < MOST_NAMES:
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


_Find = Callable[[Sequence[str], Scanner, str], Iterator["SessionEdit | str"]]
"""Gives the events in a session file of calls that have one of some names, or what is wrong."""


def _events_with(
    names: Sequence[str], files: Sequence[str], report: Report, each: Each, find: _Find
) -> Iterator[SessionEdit]:
    """The events of calls that have one of some names in their arguments."""
    if not names:
        return
    scanner = Scanner()
    crew = Crew(
        partial(find, names, scanner), msgspec.msgpack.encode, _decoded, processes_for(files)
    )
    for found in crew.results(files, each):
        if isinstance(found, str):
            report(found)
        else:
            yield found


_decoded: Final = msgspec.msgpack.Decoder(SessionEdit | str).decode


def _moves_in(names: Sequence[str], scanner: Scanner, file: str) -> Iterator[SessionEdit | str]:
    with suppress(SessionTreeError, OSError):  # which `_found_in` reports
        if not _may_have(names, scanner, file):
            return
        with Session.open(file, readonly=True) as session:
            for event in session.file_events(names):
                if event.to is not None and _is_named(event, names):
                    yield SessionEdit(file, session.id, None, event)


def _found_in(names: Sequence[str], scanner: Scanner, file: str) -> Iterator[SessionEdit | str]:
    try:
        if not _may_have(names, scanner, file):
            return
        with Session.open(file, readonly=True) as session:
            agent = agent_of(session.header) or facts_of(file).made_by
            events = [each for each in session.file_events(names) if _is_named(each, names)]
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


def _is_named(event: FileEvent, names: Sequence[str]) -> bool:
    """Whether a path of an event ends with one of some names."""
    paths = (event.path, event.to or "")
    return any(posixpath.basename(path) in names for path in paths)


def _may_have(names: Sequence[str], scanner: Scanner, file: str) -> bool:
    """Whether a session has a line with a call and one of the names."""
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
