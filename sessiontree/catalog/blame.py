"""Who wrote each line of a file: the edit of an agent that explains it, or the person.

In a repository the versions of the file and the edits of all sessions are played back in the order
of time (`operations.replay`). Without one, the edits alone are.

Invariants: a line is given to an agent only if an edit of a session that was done, before the line
was committed, wrote its text; all other lines are the person's; nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from sessiontree.catalog.file_edits import SessionEdit, edits_of, steps_for
from sessiontree.catalog.git import LineCommit, Version
from sessiontree.catalog.target import SECOND, KnownFile, Target, known_file, read_text
from sessiontree.core.line_diff import lines_of
from sessiontree.errors import UsageError
from sessiontree.operations.replay import Replay, Writer
from sessiontree.operations.workers import Each, nothing
from sessiontree.storage.files import Report

_CLOCKS: Final = 300.0
"""The seconds by which an edit may be later than the commit that has it: clocks differ."""


class BlamedLine(msgspec.Struct, frozen=True):
    """A line of a file, and who wrote it.

    Attributes:
        line: its number, from 1.
        text: its text, without the line end.
        certainty: `exact`: the edit wrote this text here; `normalized`: a formatter changed it
            since; `hunk`: an edit that does not fit what is known wrote a run of lines that has
            it; `none`: no session explains it, so a person wrote it.
        commit: the commit of the line; None if it is not committed, or git does not know the file.
        author: the author of the commit, or None.
        time: the time of the edit; else of the commit; else None (RFC 3339).
        agent, model: the agent and the model that wrote the line, or None.
        session, file: the id and the file of its session, or None.
        uuid, call: the entry and the id of the call that wrote it, or None.
        turn: the number of the turn, as `tree` shows it, or None.
        prompt: the text of the turn's prompt, or None.
        reasoning: what the agent said and thought before the call, or None.
    """

    line: int
    text: str
    certainty: str
    commit: str | None = None
    author: str | None = None
    time: str | None = None
    agent: str | None = None
    model: str | None = None
    session: str | None = None
    file: str | None = None
    uuid: str | None = None
    call: str | None = None
    turn: str | None = None
    prompt: str | None = None
    reasoning: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that `blame --json` prints."""
        return {key: getattr(self, key) for key in self.__struct_fields__}


def blame(
    path: str,
    files: Callable[[], Sequence[str]],
    report: Report,
    *,
    lines: tuple[int, int] | None = None,
    since: datetime | None = None,
    each: Each = nothing,
) -> list[BlamedLine]:
    """Tell who wrote the lines of a file.

    Args:
        path: the path of the file.
        files: gives the session files to look in.
        report: called with what cannot be read.
        lines: the first and the last line, from 1; all lines if None.
        since: edits before this time explain no line; None for all.
        each: called with the number of each session file before it is read.

    Raises:
        UsageError: the file is binary, or does not have the lines.
        StorageError: the file cannot be read, or git fails.
    """
    text = read_text(path)
    count = len(lines_of(text))
    first, last = lines if lines is not None else (1, count)
    if lines is not None and not 1 <= first <= last <= count:
        is_one = first == last
        wrong = f"there is no line {first}" if is_one else f"{first}-{last} is not a range of them"
        raise UsageError(f"{path} has {count:,} lines; {wrong}")
    known = known_file(path)
    if known.repository is not None and known.repository.is_shallow:
        report("older commits, which this shallow clone lacks; 'git fetch --unshallow' gets them")
    edits = edits_of(known.target, files(), report, each)
    if since is not None:
        edits = [edit for edit in edits if edit.seconds >= since.timestamp()]
    writers = played(known, edits, text).writers[first - 1 : last]
    commits = known.repository.blame(known.below, text, lines) if known.repository else []
    return list(_rows(text, first, writers, commits, edits))


class Played(msgspec.Struct):
    """What came of the edits of a file.

    Attributes:
        writers: the writer of each line of the file as it is now, by the number of its edit.
        committed: the numbers of the edits that wrote a line of some version.
        undone: the numbers of the edits after which the file had the content before them again.
    """

    writers: list[Writer | None]
    committed: set[int]
    undone: set[int]


def played(known: KnownFile, edits: Sequence[SessionEdit], text: str) -> Played:
    """Play back the versions and the edits of a file to its content now."""
    done = [(number, edit) for number, edit in enumerate(edits) if edit.event.ending == "done"]
    committed: set[int] = set()
    if not done:
        return Played([None] * len(lines_of(text)), committed, set())
    replay = Replay(steps_for(edits, "name fewer sessions, or a later time to begin at"))
    waiting = 0
    for version in known.versions_since(done[0][1].seconds):
        while waiting < len(done) and done[waiting][1].seconds <= version.time + SECOND:
            _apply(replay, known.target, *done[waiting])
            waiting += 1
        if version.text is not None:
            replay = _after(replay, known.target, version, done[waiting:])
            committed.update(writer.edit for writer in replay.writers if writer is not None)
    for number, edit in done[waiting:]:
        _apply(replay, known.target, number, edit)
    replay.see(text)
    replay.end()
    return Played(replay.writers, committed, replay.undone)


def _after(
    replay: Replay, target: Target, version: Version, ahead: Sequence[tuple[int, SessionEdit]]
) -> Replay:
    """The replay after a commit; edits that are little later may be in it."""
    assert version.text is not None
    late = [
        (number, edit)
        for number, edit in ahead[:20]
        if edit.seconds <= version.time + _CLOCKS and _has_context(edit)
    ]
    before = replay.copy() if late else replay
    replay.see(version.text)
    if not replay.unexplained or not late:
        return replay
    for number, edit in late:
        _apply(before, target, number, edit)
    before.see(version.text)
    return before if before.unexplained < replay.unexplained else replay


def _has_context(edit: SessionEdit) -> bool:
    """Whether an edit says what it replaces, so that it fits only what it was made for."""
    made = edit.event.edit
    return made is not None and (bool(made.swaps or made.hunks) or made.before is not None)


def _apply(replay: Replay, target: Target, number: int, edit: SessionEdit) -> None:
    event = edit.event
    if event.seen is not None:
        if event.seen.is_whole or event.seen.has_all_lines:
            replay.see(event.seen.text)
        return
    if event.edit is None:
        return
    if event.edit.kind == "move" and not target.has(event.to or ""):
        return  # the file goes on under its old name, in another branch of its history
    replay.edit(number, event.edit)


def _rows(
    text: str,
    first: int,
    writers: Sequence[Writer | None],
    commits: Sequence[LineCommit],
    edits: Sequence[SessionEdit],
) -> Iterator[BlamedLine]:
    lines = lines_of(text)
    for index, writer in enumerate(writers):
        number = first + index
        commit = commits[index] if index < len(commits) else LineCommit(None, None, None)
        line = lines[number - 1].removesuffix("\r")
        if writer is None:
            time = None if commit.time is None else _time(commit.time)
            yield BlamedLine(number, line, "none", commit.commit, commit.author, time)
            continue
        edit = edits[writer.edit]
        yield BlamedLine(
            number,
            line,
            writer.certainty,
            commit.commit,
            commit.author,
            edit.event.time,
            edit.agent,
            edit.event.model,
            edit.session,
            edit.file,
            edit.event.uuid,
            edit.event.call,
            edit.reason.turn,
            edit.reason.prompt,
            edit.reason.reasoning,
        )


def _time(seconds: int) -> str | None:
    """A time of git as sessions tell it; None for one that no calendar has."""
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
