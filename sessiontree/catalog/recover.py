"""The states that a file had, as sessions tell them, to bring one back.

Where nothing else tells what an edit was made on, and its old text fits the version of the last
commit before it, the state is based on that commit, and says so.

Invariants: what is given is what the sessions and that commit tell, and nothing else; what is not
known is named; no file is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from datetime import UTC, datetime
from sys import getsizeof
from typing import Any, Final

import msgspec

from sessiontree.catalog.file_edits import SessionEdit, edits_of, steps_for
from sessiontree.catalog.git import Version
from sessiontree.catalog.target import known_file
from sessiontree.core.edits import Edit, Seen, after
from sessiontree.core.moment import moment_given
from sessiontree.core.steps import Steps
from sessiontree.errors import RefError, TooMuchError, UsageError, with_step
from sessiontree.operations.recover import Content
from sessiontree.operations.workers import Each, nothing
from sessiontree.storage.files import Report

_MOST_NAMED: Final = 10
"""The gaps that a message names."""

MOST_KEPT: Final = 200_000_000
"""The bytes of all states of a file; a line that may not be known counts as some."""

_LINE: Final = 8
_EMPTY: Final = getsizeof("")

_SHORTEST: Final = 4
"""The characters of a uuid that name a state."""


class FileState(msgspec.Struct, frozen=True):
    """A file after one of its edits, or as an agent saw it.

    Attributes:
        edit: the edit or the look, with its session.
        content: what is known of the file.
        commit: the commit that the state is based on; None if the sessions alone tell it.
    """

    edit: SessionEdit
    content: Content
    commit: str | None

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
            missing = ", ".join(gap.as_text() for gap in gaps[:_MOST_NAMED])
            more = f" and {len(gaps) - _MOST_NAMED:,} more" if len(gaps) > _MOST_NAMED else ""
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

    A look that shows nothing new is no state.

    Args:
        path: the path of the file, which need not be there any more.
        files: gives the session files to look in.
        report: called with what cannot be read.
        each: called with the number of each session file before it is read.

    Raises:
        UsageError, StorageError: git does not read the repository, or fails.
        TooMuchError: the states have over 200 MB, or the file is too large for its many edits.
    """
    known = known_file(path)
    edits = edits_of(known.target, files(), report, each)
    done = [edit for edit in edits if edit.event.ending == "done"]
    versions = known.versions_since(done[0].seconds) if _needs_base(done) else []
    steps = steps_for(done, "name fewer sessions")
    content = Content()
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
                content.take(Seen("", base.text or "", is_whole=True), steps)
        before = content.text, content.lines
        content.take(event, steps)
        if content.contradicted or not content.is_known() or _tells_all(event):
            commit = None
        if isinstance(event, Edit) or _is_other(content, before):
            found.append(FileState(edit, _snapshot(content), commit))
            kept += getsizeof(content.text or "") - _EMPTY + _LINE * len(content.lines)
            if kept > MOST_KEPT:
                raise TooMuchError("the file had too many states to keep; name fewer sessions")
    return found


def _is_other(content: Content, before: tuple[str | None, list[str | None]]) -> bool:
    """Whether a look showed more than was known, or something else; it makes a list of its own."""
    text, lines = before
    return content.text != text or (content.lines is not lines and content.lines != lines)


def _snapshot(content: Content) -> Content:
    kept = copy(content)
    kept.lines = list(content.lines)
    return kept


def _needs_base(done: Sequence[SessionEdit]) -> bool:
    """Whether an edit may come before anything that tells the content."""
    first = done[0].event.edit if done else None
    return any(edit.event.edit is not None for edit in done) and not (
        first is not None and first.kind == "write"
    )


def _base(edit: Edit, versions: Sequence[Version], seconds: float, steps: Steps) -> Version | None:
    """The last version before an edit, if what the edit replaces is in it."""
    if edit.kind == "write" or edit.before is not None:
        return None
    last = next((one for one in reversed(versions) if one.time <= seconds), None)
    if last is None or last.text is None or after(edit, last.text, steps) is None:
        return None
    return last


def _tells_all(event: Edit | Seen) -> bool:
    if isinstance(event, Seen):
        return event.is_whole
    return event.kind == "write" or event.before is not None


def state_at(found: Sequence[FileState], at: str) -> FileState:
    """The state that a user names: by the uuid of an edit, its start, or a time.

    Raises:
        RefError: there is no such state, or more than one.
    """
    named = [state for state in found if len(at) >= _SHORTEST and state.name.startswith(at)]
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
