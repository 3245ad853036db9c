"""The namespace `file`: who wrote a line and why, what was done to a file, and what it was.

Invariants: no file is written; only files of the projects that calls may reach are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from sessiontree.agents import OWN
from sessiontree.core.display import one_line
from sessiontree.history.edits import SessionFileUse, files_of
from sessiontree.library.file_history import BlamedLine, FileEdit, FileState, state_at, states
from sessiontree.library.file_history import blame as blamed_lines
from sessiontree.library.file_history import history as edits_in_history
from sessiontree.library.places import Selection, files_to_search
from sessiontree.ops.budget import Offset, Page, Paged, beginning, page_of, passage, size
from sessiontree.ops.operation import Namespace
from sessiontree.ops.params import Call, PagedOfSession
from sessiontree.ops.session import moment_of_parameter

FILE: Final = Namespace(
    "file", "Files that agents changed: who wrote a line and why, all edits, what the file was."
)

_SAID: Final = 300
"""The characters of a prompt and of a reasoning."""

_LINE: Final = 160
_DIFF: Final = 1000
_GAPS: Final = 20

File = Annotated[
    str,
    Meta(description="Its path, absolute or below the project.", examples=["a.py"]),
]
Sessions = Annotated[list[str], Meta(description="Only these sessions: ids, names or paths.")]
Since = Annotated[str | None, Meta(description="Only edits since then.", examples=["7d"])]

LineRange = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{1,9}(-[0-9]{1,9})?$",
        description="A line, or the first and the last.",
        examples=["12-40"],
    ),
]


class OfFile(Paged, kw_only=True):
    """Parameters of a method that answers with a page about one file."""

    file: File
    sessions: Sessions = msgspec.field(default_factory=list)


class _Reading:
    """The sessions that a call looks in, and how far it is."""

    def __init__(self, call: Call, names: Sequence[str]) -> None:
        self._call = call
        self._names = names
        self._count = 0

    def files(self) -> list[str]:
        """The session files, those that calls may reach."""
        call = self._call
        if self._names:
            found = list(dict.fromkeys(map(call.file, self._names)))
        else:
            scope = call.scope
            found = files_to_search(scope.places, Selection(), call.warn, scope.reaches)
        self._count = len(found)
        return found

    def each(self, number: int) -> None:
        """Report that the session file of a number is read."""
        self._call.progress("Reading sessions", number, self._count)


class Author(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Who made a change, and why."""

    agent: Annotated[str, Meta(description="The agent.")] = ""
    model: Annotated[str, Meta(description="Its model.")] = ""
    session: Annotated[str, Meta(description="The id of its session.")] = ""
    turn: Annotated[str, Meta(description="The turn, which `session.turn` reads.")] = ""
    entry: Annotated[str, Meta(description="The uuid of the entry, which `node.get` reads.")] = ""
    prompt: Annotated[
        str,
        Meta(description="What the user asked for. It stands in the first item of each entry."),
    ] = ""
    reasoning: Annotated[
        str, Meta(description="What the agent said or thought before; where `prompt` is.")
    ] = ""


class _Told:
    """What was said before each edit: in the first item of the edit, and in no other."""

    def __init__(self) -> None:
        self._entries: set[tuple[str | None, str | None]] = set()

    def of(self, session: str | None, entry: str | None, texts: Iterable[str | None]) -> list[str]:
        """The texts, short; empty for those of an entry that was told, or which is none."""
        is_new = entry is not None and (session, entry) not in self._entries
        self._entries.add((session, entry))
        return [one_line(text, _SAID) if text and is_new else "" for text in texts]


class Blame(OfFile):
    lines: Annotated[LineRange | None, Meta(description="Only these lines.")] = None
    since: Since = None


class BlamedLines(Author, kw_only=True, omit_defaults=True):
    """Lines that follow each other and have one writer."""

    first: Annotated[int, Meta(description="The number of the first line.")]
    last: Annotated[int, Meta(description="The number of the last line.")]
    text: Annotated[str, Meta(description="The first line, maybe cut.")]
    certainty: Annotated[
        str,
        Meta(
            description="'exact': the edit wrote this text here; 'normalized': a formatter changed "
            "it since; 'hunk': an edit wrote it, its place is not known; 'none': no session "
            "explains it, so a person wrote it."
        ),
    ]
    time: Annotated[str, Meta(description="When it was written.")] = ""
    commit: Annotated[str, Meta(description="Its commit, if it is committed.")] = ""
    author: Annotated[str, Meta(description="The author of the commit.")] = ""


@FILE.method("Tell who wrote lines, and why", core=True)
def blame(call: Call, given: Blame) -> Page[BlamedLines]:
    """Tell which agent wrote the lines of a file, in which turn and why, or which person.

    Ask before you change an odd line; session.turn reads the turn. Refuses a binary file.
    """
    path = call.scope.project_file(given.file)
    reading = _Reading(call, given.sessions)
    found = blamed_lines(
        path,
        reading.files,
        call.warn,
        lines=_range(given.lines),
        since=moment_of_parameter("since", given.since),
        each=reading.each,
    )
    told = _Told()
    runs = [list(run) for _, run in groupby(found, _writer)]
    return page_of(
        runs, given, lambda run: f"{run[0].line}-{run[-1].line}", lambda run: _lines(run, told)
    )


def _range(given: str | None) -> tuple[int, int] | None:
    if given is None:
        return None
    first, _, last = given.partition("-")
    return int(first), int(last or first)


def _writer(line: BlamedLine) -> tuple[str | None, ...]:
    """What lines of one item have in common."""
    return line.certainty, line.commit, line.session, line.uuid, line.call


def _lines(run: Sequence[BlamedLine], told: _Told) -> BlamedLines:
    line = run[0]
    prompt, reasoning = told.of(line.session, line.uuid, (line.prompt, line.reasoning))
    return BlamedLines(
        first=line.line,
        last=run[-1].line,
        text=one_line(line.text, _LINE),
        certainty=line.certainty,
        time=line.time or "",
        commit=line.commit or "",
        author=line.author or "",
        agent=_agent(line.agent, line.session),
        model=line.model or "",
        session=line.session or "",
        turn=line.turn or "",
        entry=line.uuid or "",
        prompt=prompt,
        reasoning=reasoning,
    )


def _agent(agent: str | None, session: str | None) -> str:
    return agent or OWN if session is not None else ""


class History(OfFile):
    since: Since = None
    longest: Annotated[int, Meta(ge=0, description="The characters of each diff; 0: no limit.")] = (
        _DIFF
    )


class EditRow(Author, kw_only=True, omit_defaults=True):
    """An edit of a file, and what came of it."""

    time: Annotated[str, Meta(description="When it was done.")] = ""
    tool: Annotated[str, Meta(description="The tool that was called.")]
    kind: Annotated[
        str | None,
        Meta(description="'write', 'append', 'edit', 'delete', 'move'; 'change': not told how."),
    ] = None
    path: Annotated[str, Meta(description="The path that the file had.")]
    to: Annotated[str | None, Meta(description="The path that it was moved to.")] = None
    outcome: Annotated[
        str,
        Meta(
            description="'kept': lines of it are in the file; 'replaced': not any more; "
            "'deleted': the file is gone; 'reverted': the file had the content before it again; "
            "'lost': the same, and no commit has it; 'failed', 'refused', 'unanswered': nothing "
            "changed; 'done': it adds no line."
        ),
    ]
    kept: Annotated[int, Meta(description="How many lines of the file are of it.")] = 0
    added: Annotated[int, Meta(description="The lines that it added.")] = 0
    removed: Annotated[int, Meta(description="The lines that it took away.")] = 0
    diff: Annotated[str, Meta(description="Its diff.")] = ""
    left_out: Annotated[int, Meta(description="The characters of it that are left out.")] = 0


@FILE.method("List the edits of a file")
def history(call: Call, given: History) -> Page[EditRow]:
    """List every edit of a file by all agents, with its diff and what came of it, the last first.

    The file need not exist any more.
    """
    path = call.scope.project_file(given.file)
    reading = _Reading(call, given.sessions)
    found = edits_in_history(
        path,
        reading.files,
        call.warn,
        since=moment_of_parameter("since", given.since),
        each=reading.each,
    )
    told = _Told()
    numbered = list(enumerate(found))[::-1]
    return page_of(
        numbered,
        given,
        lambda one: f"{one[0]}/{one[1].edit.event.uuid}",
        lambda one: _edit_row(call, one[1], told, given.longest),
    )


def _edit_row(call: Call, found: FileEdit, told: _Told, longest: int) -> EditRow:
    edit, event, reason = found.edit, found.edit.event, found.edit.reason
    prompt, reasoning = told.of(edit.session, event.uuid, (reason.prompt, reason.reasoning))
    diff: str = call.mask("\n".join(found.diff))
    shown = beginning(diff, longest) if longest else diff
    return EditRow(
        time=event.time or "",
        agent=_agent(edit.agent, edit.session),
        model=event.model or "",
        session=edit.session,
        turn=reason.turn or "",
        entry=event.uuid,
        tool=one_line(event.tool, _LINE),
        kind=None if event.edit is None else event.edit.kind,
        path=event.path,
        to=event.to,
        outcome=found.outcome,
        kept=found.kept,
        added=found.added,
        removed=found.removed,
        prompt=prompt,
        reasoning=reasoning,
        diff=shown,
        left_out=len(diff) - len(shown),
    )


class Recover(OfFile):
    at: Annotated[
        str | None,
        Meta(description="The state to read: after the edit of this entry, or at this time."),
    ] = None
    partial: Annotated[
        bool, Meta(description="Also read a state some lines of which are not known; marks them.")
    ] = False
    offset: Offset = 0


class State(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A state that a file had."""

    at: Annotated[str, Meta(description="The uuid of the entry that made or showed it.")]
    time: Annotated[str | None, Meta(description="When it was made.")] = None
    agent: Annotated[str | None, Meta(description="The agent that made it.")] = None
    session: Annotated[str, Meta(description="The id of its session.")]
    kind: Annotated[str, Meta(description="The edit that made it, or 'read' for a look.")]
    path: Annotated[str, Meta(description="The path of the file then.")]
    exists: Annotated[bool, Meta(description="Whether the file was there.")] = True
    known: Annotated[int, Meta(description="How many lines of it are known.")]
    missing: Annotated[list[str], Meta(description="The lines of it that are not known.")] = []
    more_missing: Annotated[int, Meta(description="How many more such parts there are.")] = 0
    commit: Annotated[
        str | None,
        Meta(
            description="The commit that it is based on; changes of persons after it are missing."
        ),
    ] = None


class Recovered(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The states of a file, or the content of one."""

    items: Annotated[list[State], Meta(description="The states, the last first; or the one.")]
    more: Annotated[str | None, Meta(description="What is left out, and how to get it.")] = None
    cursor: Annotated[str | None, Meta(description="The cursor of the next states.")] = None
    text: Annotated[str | None, Meta(description="The content of the state, from `offset` on.")] = (
        None
    )
    offset: Annotated[int, Meta(description="The characters before it.")] = 0
    next: Annotated[
        int | None, Meta(description="The parameter `offset` of the next part of the text.")
    ] = None


@FILE.method("Read an earlier state of a file")
def recover(call: Call, given: Recover) -> Recovered:
    """List the states that a file had in sessions; with `at`, read one. Nothing is written.

    A state is rebuilt from writes, edits and reads. Lines that no session tells are not guessed:
    they are named, and such a state is refused without `partial`.
    """
    path = call.scope.project_file(given.file)
    reading = _Reading(call, given.sessions)
    found = states(path, reading.files, call.warn, each=reading.each)
    if given.at is not None:
        return _content(call, state_at(found, given.at), given)
    numbered = list(enumerate(found))[::-1]
    page = page_of(
        numbered, given, lambda one: f"{one[0]}/{one[1].name}", lambda one: _state(one[1])
    )
    return Recovered(items=page.items, more=page.more, cursor=page.cursor)


def _content(call: Call, state: FileState, given: Recover) -> Recovered:
    text: str = call.mask(state.text(marked=given.partial))
    made = Recovered(items=[_state(state)], text="", offset=given.offset, next=given.offset)
    part = passage([text], given.offset, given.budget, size(made))
    made.text, made.offset, made.next = part.text, part.offset, part.next
    return made


def _state(state: FileState) -> State:
    event, gaps = state.edit.event, state.content.gaps()
    return State(
        at=state.name,
        time=event.time,
        agent=_agent(state.edit.agent, state.edit.session),
        session=state.edit.session,
        kind=event.edit.kind if event.edit is not None else "read",
        path=event.to or event.path,
        exists=state.content.is_there,
        known=state.content.known(),
        missing=[gap.as_text() for gap in gaps[:_GAPS]],
        more_missing=max(len(gaps) - _GAPS, 0),
        commit=state.commit,
    )


class FileList(PagedOfSession):
    """Parameters of `file.list`."""


class FileRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a session did to a file."""

    path: Annotated[str, Meta(description="The path of the file.")]
    reads: Annotated[int, Meta(description="The calls that read it.")] = 0
    edits: Annotated[int, Meta(description="The calls that changed it.")] = 0
    failed: Annotated[int, Meta(description="The calls that should change it and did not.")] = 0
    added: Annotated[int, Meta(description="The lines that were added.")] = 0
    removed: Annotated[int, Meta(description="The lines that were taken away.")] = 0
    created: Annotated[bool, Meta(description="Whether a call created it.")] = False
    deleted: Annotated[bool, Meta(description="Whether the last change deleted it.")] = False
    moved_to: Annotated[str | None, Meta(description="The path that it was moved to.")] = None
    first: Annotated[str | None, Meta(description="The time of the first call.")] = None
    last: Annotated[str | None, Meta(description="The time of the last call.")] = None


@FILE.method("List the files of a session")
def list_(call: Call, given: FileList) -> Page[FileRow]:
    """List the files that a session read, wrote, created, moved and deleted, with counts of lines.

    A call that failed or was refused counts only as failed.
    """
    with call.reading(given.session) as session:
        found = files_of(call.each(session.file_events()))
    return page_of(found, given, lambda use: use.path, _file_row)


def _file_row(use: SessionFileUse) -> FileRow:
    return FileRow(**msgspec.structs.asdict(use))
