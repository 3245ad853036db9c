"""Blame, history and the states to recover of one file, over all sessions.

Blame: in a repository the versions of the file and the edits of all sessions are played back in the
order of time (`history.replay`); without one, the edits alone are. History: every edit with what
came of it. States: where nothing else says what an edit was made on, and its old text fits the
version of the last commit before it, the state is based on that commit, and says so.

Invariants:

- Nothing is changed, and no file is written.
- A state has what the sessions and that commit record, and nothing else; what is not known is
  named.
- A line is given to an agent only if an edit of a session that was done, before the line was
  committed, wrote its text. All other lines are the person's.
- An edit that failed, was refused or has no result is listed too, as such.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from datetime import UTC, datetime
from sys import getsizeof
from typing import Any, Final, Literal

import msgspec

from sessiontree.core.entry import moment_given
from sessiontree.core.limits import Budget
from sessiontree.edits.diff import DiffCounts, counted_diff_of, lines_of
from sessiontree.edits.tools import Edit, SeenLines, after
from sessiontree.errors import RefError, TooMuchError, UsageError, with_step
from sessiontree.history.replay import KnownContent, LineWriter, Replay
from sessiontree.library.file_edits import (
    SECOND,
    FileVersions,
    SessionEdit,
    Target,
    edits_of,
    known_file,
    read_text,
    steps_for,
)
from sessiontree.library.git import LineCommit, Version
from sessiontree.operations.workers import Each, nothing
from sessiontree.storage.names import Report
from sessiontree.text.amounts import counted


class BlamedLine(msgspec.Struct, frozen=True):
    """A line of a file, and who wrote it."""

    line: int  # from 1
    text: str  # without the line end
    # `exact`: the edit wrote this text here; `normalized`: a formatter changed it since; `hunk`: an
    # edit that does not fit what is known wrote a run of lines that has it; `none`: no session
    # explains it, so a person wrote it.
    certainty: str
    # The commit of the line; None if it is not committed, or git does not know the file.
    commit: str | None = None
    author: str | None = None
    time: str | None = None  # the time of the edit; else of the commit; else None (RFC 3339)
    # The following are those of the edit, or None.
    agent: str | None = None
    model: str | None = None
    session: str | None = None
    file: str | None = None
    uuid: str | None = None
    call: str | None = None
    turn: str | None = None  # as `tree` shows it
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
        raise UsageError(f"{path} has {counted(count, 'line')}; {wrong}")
    known = known_file(path)
    if known.repository is not None and known.repository.is_shallow:
        report("older commits, which this shallow clone lacks; 'git fetch --unshallow' gets them")
    edits = edits_of(known.target, files(), report, each)
    if since is not None:
        edits = [edit for edit in edits if edit.seconds >= since.timestamp()]
    writers = played(known, edits, text).writers[first - 1 : last]
    commits = known.repository.blame(known.below, text, lines) if known.repository else []
    return list(_rows(text, first, writers, commits, edits))


class ReplayResult(msgspec.Struct):
    """What came of the edits of a file."""

    # The writer of each line of the file as it is now, by the number of its edit.
    writers: list[LineWriter | None]
    committed: set[int]  # the numbers of the edits that wrote a line of some version
    # The numbers of the edits after which the file had the content before them again.
    undone: set[int]


def played(known: FileVersions, edits: Sequence[SessionEdit], text: str) -> ReplayResult:
    """Play back the versions and the edits of a file to its content now."""
    done = [(number, edit) for number, edit in enumerate(edits) if edit.event.ending == "done"]
    committed: set[int] = set()
    if not done:
        return ReplayResult([None] * len(lines_of(text)), committed, set())
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
    return ReplayResult(replay.writers, committed, replay.undone)


def _after(
    replay: Replay, target: Target, version: Version, ahead: Sequence[tuple[int, SessionEdit]]
) -> Replay:
    """The replay after a commit; edits that are little later may be in it, as clocks differ."""
    assert version.text is not None
    late = [
        (number, edit)
        for number, edit in ahead[:20]
        if edit.seconds <= version.time + 300.0 and _has_context(edit)
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
    """True if an edit says what it replaces, so that it fits only what it was made for."""
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
    writers: Sequence[LineWriter | None],
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
    """A time of git in RFC 3339; None for one that no calendar has."""
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


Outcome = Literal[
    "kept",
    "replaced",
    "deleted",
    "absent",
    "reverted",
    "lost",
    "failed",
    "refused",
    "unanswered",
    "done",
]


class FileEdit(msgspec.Struct, frozen=True):
    """One edit of a file, and what came of it."""

    edit: SessionEdit
    kind: str  # `write`, `edit`, `delete`, `move` or `change`
    # `kept`: lines of it are in the file; `replaced`: other edits or commits took their place;
    # `deleted`: the file is not there any more; `absent`: nor is its directory, so it may never
    # have been on this machine; `reverted`: the file had the content before it again; `lost`: the
    # same, and no commit has it; `done`: it wrote no line, such as one that deletes the file;
    # `failed`, `refused` and `unanswered`: it changed nothing, as far as is known.
    outcome: Outcome
    kept: int  # the lines of the file that are the edit's
    added: int  # this and the next, as far as the edit says
    removed: int
    diff: tuple[str, ...]  # its lines, each with a mark

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that `history --json` prints."""
        event = self.edit.event
        return {
            "time": event.time,
            "agent": self.edit.agent,
            "model": event.model,
            "session": self.edit.session,
            "file": self.edit.file,
            "uuid": event.uuid,
            "call": event.call,
            "tool": event.tool,
            "lane": event.lane,
            "path": event.path,
            "kind": self.kind,
            "to": event.to,
            "outcome": self.outcome,
            "kept": self.kept,
            "added": self.added,
            "removed": self.removed,
            "turn": self.edit.reason.turn,
            "prompt": self.edit.reason.prompt,
            "reasoning": self.edit.reason.reasoning,
            "diff": list(self.diff),
        }


def history(
    path: str,
    files: Callable[[], Sequence[str]],
    report: Report,
    *,
    since: datetime | None = None,
    each: Each = nothing,
) -> list[FileEdit]:
    """List the edits of a file, which need not be there any more, in the order of time.

    See `blame`; `since` leaves out the edits before it.
    """
    text = read_text(path) if os.path.exists(path) else ""
    known = known_file(path)
    edits = edits_of(known.target, files(), report, each)
    result = played(known, edits, text)
    kept = Counter(writer.edit for writer in result.writers if writer is not None)
    shown = [
        (number, edit, made)
        for number, edit in enumerate(edits)
        if (made := edit.event.edit) and (since is None or edit.seconds >= since.timestamp())
    ]
    gone = _gone(path, known, edits)
    found: list[FileEdit] = []
    for number, edit, made in shown:
        counts, diff = counted_diff_of(made)
        is_undone, is_committed = number in result.undone, number in result.committed
        outcome = _outcome(edit, counts, kept[number], is_undone, is_committed)
        if outcome == "replaced" and gone is not None:
            outcome = gone
        found.append(FileEdit(edit, made.kind, outcome, kept[number], *counts, tuple(diff)))
    return found


def _gone(path: str, known: FileVersions, edits: Sequence[SessionEdit]) -> Outcome | None:
    if os.path.exists(path):
        return None
    done = [edit.event.edit for edit in edits if edit.event.ending == "done" and edit.event.edit]
    was_here = known.repository is not None or os.path.isdir(os.path.dirname(known.path))
    return "deleted" if was_here or (done and done[-1].kind == "delete") else "absent"


def _outcome(
    edit: SessionEdit, counts: DiffCounts, kept: int, is_undone: bool, is_committed: bool
) -> Outcome:
    event = edit.event
    if event.ending != "done":
        return event.ending
    if kept:
        return "kept"
    if is_undone:
        return "reverted" if is_committed else "lost"
    return "replaced" if counts.added else "done"


MAX_KEPT: Final = 200_000_000
"""The bytes of all states of a file; a line that may not be known counts as some."""


class FileState(msgspec.Struct, frozen=True):
    """A file after one of its edits, or as an agent saw it."""

    edit: SessionEdit  # or the look
    content: KnownContent
    commit: str | None  # that the state is based on; None if on the sessions alone

    @property
    def name(self) -> str:
        """What `--at` takes for it: the uuid of the entry."""
        return self.edit.event.uuid

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that `recover --json` prints."""
        event = self.edit.event
        gaps = self.content.gaps()
        return {
            "uuid": self.name,
            "time": event.time,
            "agent": self.edit.agent,
            "session": self.edit.session,
            "turn": self.edit.reason.turn,
            "file": self.edit.file,
            "kind": event.edit.kind if event.edit is not None else "read",
            "path": event.to or event.path,
            "known": self.content.known(),
            "gaps": [[gap.first, gap.last] for gap in gaps],
            "exists": self.content.is_there,
            "commit": self.commit,
        }

    def text(self, *, marked: bool = False) -> str:
        """The content; `marked` puts a line that names them in the place of unknown lines.

        Raises:
            UsageError: the file is not there in this state, or some of it is not known.
        """
        if not self.content.is_there:
            message = f"the edit {self.name} deleted the file; choose an earlier state"
            raise with_step(UsageError(message), "see states")
        if self.content.text is not None:
            return self.content.text
        gaps = self.content.gaps()
        if gaps and not marked:
            missing = ", ".join(gap.as_text() for gap in gaps[:10])
            more = f" and {len(gaps) - 10:,} more" if len(gaps) > 10 else ""
            message = f"not all of this state is known; missing: {missing}{more}"
            raise with_step(UsageError(message), "allow gaps")
        return "".join(f"{line}\n" for line in self._marked_lines())

    def _marked_lines(self) -> Iterator[str]:
        gaps = {gap.first: gap for gap in self.content.gaps()}
        for number, line in enumerate([*self.content.lines, None], 1):
            if number in gaps:
                yield f"<<< not known: {gaps[number].as_text()} >>>"
            if line is not None:
                yield line


def states(
    path: str, files: Callable[[], Sequence[str]], report: Report, *, each: Each = nothing
) -> list[FileState]:
    """The states of a file after each edit that was done, and as agents saw it, in time order.

    The file need not be there any more; see `blame`. A look that shows nothing new is not a state.

    Raises:
        UsageError, StorageError: git does not read the repository, or fails.
        TooMuchError: the states have over 200 MB, or the file is too large for its many edits.
    """
    known = known_file(path)
    edits = edits_of(known.target, files(), report, each)
    done = [edit for edit in edits if edit.event.ending == "done"]
    versions = known.versions_since(done[0].seconds) if _needs_base(done) else []
    steps = steps_for(done, "name fewer sessions")
    content = KnownContent()
    commit: str | None = None
    found: list[FileState] = []
    kept = 0
    for edit in done:
        event = edit.event.edit or edit.event.seen
        assert event is not None
        if isinstance(event, Edit) and not content.is_known():
            base = _base(event, versions, edit.seconds, steps)
            if base is not None:
                commit = base.commit
                content.take(SeenLines("", base.text or "", is_whole=True), steps)
        before = content.text, content.lines
        content.take(event, steps)
        if content.contradicted or not content.is_known() or _tells_all(event):
            commit = None
        if isinstance(event, Edit) or _is_other(content, before):
            found.append(FileState(edit, _snapshot(content), commit))
            kept += getsizeof(content.text or "") - getsizeof("") + 8 * len(content.lines)
            if kept > MAX_KEPT:
                raise TooMuchError("the file had too many states to keep; name fewer sessions")
    return found


def _is_other(content: KnownContent, before: tuple[str | None, list[str | None]]) -> bool:
    """True if a look showed more than was known, or something else; it makes a list of its own."""
    text, lines = before
    return content.text != text or (content.lines is not lines and content.lines != lines)


def _snapshot(content: KnownContent) -> KnownContent:
    kept = copy(content)
    kept.lines = list(content.lines)
    return kept


def _needs_base(done: Sequence[SessionEdit]) -> bool:
    """True if an edit may come before anything that records the content."""
    first = done[0].event.edit if done else None
    return any(edit.event.edit is not None for edit in done) and not (
        first is not None and first.kind == "write"
    )


def _base(edit: Edit, versions: Sequence[Version], seconds: float, steps: Budget) -> Version | None:
    """The last version before an edit, if what the edit replaces is in it."""
    if edit.kind == "write" or edit.before is not None:
        return None
    last = next((one for one in reversed(versions) if one.time <= seconds), None)
    if last is None or last.text is None or after(edit, last.text, steps) is None:
        return None
    return last


def _tells_all(event: Edit | SeenLines) -> bool:
    if isinstance(event, SeenLines):
        return event.is_whole
    return event.kind == "write" or event.before is not None


def state_at(found: Sequence[FileState], at: str) -> FileState:
    """The state that a user names: by the uuid of an edit, its start, or a time.

    `latest` and `last` are the last state in which the file was there.

    Raises:
        RefError: there is no such state, or more than one.
    """
    if at in ("latest", "last") and found:
        there = (state for state in reversed(found) if state.content.is_there)
        return next(there, found[-1])
    named = [state for state in found if len(at) >= 4 and state.name.startswith(at)]
    if len({state.name for state in named}) > 1:
        raise RefError(f"{at!r} is the start of {len(named)} uuids; give more characters", at)
    if named:
        return named[-1]
    try:
        moment = moment_given(at, datetime.now(UTC)).timestamp()
    except UsageError:
        message = f"{at!r:.100} is not a time, and no state of the file has this id"
        raise with_step(RefError(message, at), "see states") from None
    before = [state for state in found if state.edit.seconds <= moment]
    if not before:
        message = f"no session changed or read the file before {at:.100}"
        raise with_step(RefError(message, at), "see states")
    return before[-1]
