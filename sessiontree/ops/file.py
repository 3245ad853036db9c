"""The namespace `file`: who wrote a line and why, what was done to a file, and what it was.

Invariants: no file is written; only files of the projects that calls may reach are read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from sessiontree.agents import OWN
from sessiontree.core.display import one_line
from sessiontree.errors import NotASessionError, SessionTreeError
from sessiontree.history.edits import SessionFileUse, files_of
from sessiontree.library.file_history import BlamedLine, FileEdit, FileState, state_at, states
from sessiontree.library.file_history import blame as blamed_lines
from sessiontree.library.file_history import history as edits_in_history
from sessiontree.library.listing import facts_of
from sessiontree.library.places import Selection, files_to_search
from sessiontree.ops.budget import Offset, Page, Paged, beginning, page_of, passage, size
from sessiontree.ops.field import arg, only_for_people, opt
from sessiontree.ops.guidance import Refusal
from sessiontree.ops.operation import Namespace
from sessiontree.ops.params import Call, PagedOfSession, SessionName
from sessiontree.ops.session import moment_of_parameter, time_option

T = TypeVar("T")

FILE: Final = Namespace(
    "file", "Files that agents changed: who wrote a line and why, all edits, what the file was."
)

_SAID: Final = 300
"""The characters of a prompt and of a reasoning."""

_LINE: Final = 160
_DIFF: Final = 1000
_GAPS: Final = 20

_LINES: Final = re.compile(r"(.+?):(\d{1,9})(?:[-,](\d{1,9}))?", re.DOTALL)

Since = Annotated[str | None, time_option("--since", "Only edits since then")]
Reasons = Annotated[
    bool, opt("--prompt", help="Also print the prompt and the reasoning."), only_for_people
]

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

    file: Annotated[
        str,
        arg(
            "FILE",
            kind="path",
            help="The path of the file, absolute or below the project; it need not exist any more.",
            examples=["a.py"],
        ),
    ]
    sessions: Annotated[
        list[str],
        arg(
            "[DIR|FILE]…",
            kind="session",
            help="Only these sessions: ids, names or paths; a command takes folders, too.",
        ),
    ] = msgspec.field(default_factory=list)


def _found(
    call: Call, given: OfFile, about: Callable[..., list[T]], path: str, **more: Any
) -> list[T]:
    """What the sessions that a call looks in tell of a file."""
    count = 0

    def files() -> list[str]:
        nonlocal count
        places = call.places(given.sessions)
        for place in filter(os.path.isfile, places if given.sessions else ()):
            _check_session(place)
        found = [*files_to_search(places, Selection(), call.leave_out, call.reaches)]
        count = len(found)
        return found

    def each(number: int) -> None:
        call.progress("Reading sessions", number, count)

    return about(path, files, call.leave_out, each=each, **more)


def _check_session(file: str) -> None:
    """Refuse a file that is no session at all; a damaged one is reported when it is read."""
    try:
        facts_of(file)
    except NotASessionError:
        raise
    except SessionTreeError:
        return


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


class _SeenReasons:
    """What was said before each edit: in the first item of the edit, and in no other."""

    def __init__(self) -> None:
        self._entries: set[tuple[str | None, str | None]] = set()

    def of(self, session: str | None, entry: str | None, texts: Iterable[str | None]) -> list[str]:
        """The texts, short; empty for those of an entry that was told, or which is none."""
        is_new = entry is not None and (session, entry) not in self._entries
        self._entries.add((session, entry))
        return [one_line(text, _SAID) if text and is_new else "" for text in texts]


class Blame(OfFile):
    file: Annotated[
        str,
        arg(
            "FILE[:LINE[-LINE]]",
            help="The path of the file, absolute or below the project; lines can follow it.",
            examples=["a.py"],
        ),
    ]
    lines: Annotated[LineRange | None, Meta(description="Only these lines.")] = None
    since: Since = None
    prompts: Reasons = False
    format: Annotated[
        Literal["text", "agent-trace"],
        opt(
            "--format",
            choices=("text", "agent-trace"),
            help="The format: lines of text, or a record of Agent Trace in JSON.",
        ),
        only_for_people,
    ] = "text"

    @property
    def path(self) -> str:
        """The path in FILE, without its lines."""
        named = _LINES.fullmatch(self.file)
        return self.file if named is None or os.path.lexists(self.file) else named[1]


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


def _runs(call: Call, given: Blame, found: list[BlamedLine]) -> Page[BlamedLines]:
    told = _SeenReasons()
    runs = [list(run) for _, run in groupby(found, _writer)]
    return page_of(
        runs, given, lambda run: f"{run[0].line}-{run[-1].line}", lambda run: _lines(run, told)
    )


@FILE.method("Tell who wrote lines, and why", core=True, json="a list of the lines", answer=_runs)
def blame(call: Call, given: Blame) -> list[BlamedLine]:
    """Tell which agent wrote the lines of a file, in which turn and why, or which person.

    Ask before you change an odd line; session.turn reads the turn. Refuses a binary file.
    \f
    Tell which agent, in which turn of which session, wrote each line of FILE, or which person.

    The command finds the edits of FILE in all sessions that 'sessiontree ls' lists, or in the
    sessions in DIR and the session FILE that you name. In a git repository, it plays back the
    commits of FILE and the edits of all agents in the order of time. A line that no edit explains
    is the person's: it has the author of its commit, or 'not committed'.

    \b
    The mark after the commit says how sure an agent is:
      =   exact: the edit wrote this text here
      ~   normalized: a formatter changed the line since
      ?   hunk: an edit wrote this run of lines, but its place is not known

    With --format agent-trace, the command prints a record of Agent Trace (agent-trace.dev): the
    ranges of lines by conversation and model. Lines that no session explains are a person's.
    """
    path, lines = _with_lines(call, given)
    since = moment_of_parameter("since", given.since)
    found = _found(call, given, blamed_lines, path, lines=lines, since=since)
    if all(line.session is None for line in found):
        call.tell_nothing(
            f"No session explains a line of {path}: the persons are those of the commits"
        )
    return found


def _with_lines(call: Call, given: Blame) -> tuple[str, tuple[int, int] | None]:
    """The path of a file, and its lines, which may also follow the path."""
    path, named = call.project_file(given.file), _LINES.fullmatch(given.file)
    if given.lines is not None or named is None or os.path.lexists(path):
        return path, _range(given.lines)
    first = int(named[2])
    return call.project_file(named[1]), (first, int(named[3] or first))


def _range(given: str | None) -> tuple[int, int] | None:
    if given is None:
        return None
    first, _, last = given.partition("-")
    return int(first), int(last or first)


def _writer(line: BlamedLine) -> tuple[str | None, ...]:
    """What lines of one item have in common."""
    return line.certainty, line.commit, line.session, line.uuid, line.call


def _lines(run: Sequence[BlamedLine], told: _SeenReasons) -> BlamedLines:
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
    prompts: Reasons = False
    stat: Annotated[
        bool,
        opt("--stat", help="Print one line for each edit, without the diff."),
        only_for_people,
    ] = False


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
            "'deleted': the file is gone; 'absent': so is its directory, if it was ever here; "
            "'reverted': the file had the content before it again; "
            "'lost': the same, and no commit has it; 'failed', 'refused', 'unanswered': nothing "
            "changed; 'done': it adds no line."
        ),
    ]
    kept: Annotated[int, Meta(description="How many lines of the file are of it.")] = 0
    added: Annotated[int, Meta(description="The lines that it added.")] = 0
    removed: Annotated[int, Meta(description="The lines that it took away.")] = 0
    diff: Annotated[str, Meta(description="Its diff.")] = ""
    left_out: Annotated[int, Meta(description="The characters of it that are left out.")] = 0


def _edit_rows(call: Call, given: History, found: list[FileEdit]) -> Page[EditRow]:
    told = _SeenReasons()
    numbered = list(enumerate(found))[::-1]
    return page_of(
        numbered,
        given,
        lambda one: f"{one[0]}/{one[1].edit.event.uuid}",
        lambda one: _edit_row(call, one[1], told, given.longest),
    )


@FILE.method("List the edits of a file", json="a list of the edits", answer=_edit_rows)
def history(call: Call, given: History) -> list[FileEdit]:
    """List every edit of a file by all agents, with its diff and what came of it, the last first.

    The file need not exist any more.
    \f
    List every edit of FILE by all agents over all sessions, with its diff, the oldest first.

    The command looks in all sessions that 'sessiontree ls' lists, or in the sessions in DIR and the
    session FILE that you name. FILE need not exist any more.

    \b
    Each edit has an outcome:
      kept        lines of it are in the file
      replaced    later edits or commits took the place of its lines
      deleted     the file is not there any more
      absent      its directory is not there either; it may never have been on this machine
      reverted    later, the file had the content from before the edit again
      lost        the same as reverted, but no commit has the edit
      failed, refused, unanswered    the edit changed nothing, as far as is known
      done        the edit added no line
    """
    path = call.project_file(given.file)
    since = moment_of_parameter("since", given.since)
    found = _found(call, given, edits_in_history, path, since=since)
    if not found:
        call.tell_nothing(f"No session has an edit of {path}")
    return found


def _edit_row(call: Call, found: FileEdit, told: _SeenReasons, longest: int) -> EditRow:
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
        opt(
            "--at",
            metavar="ID|TIME",
            help="The state to read: after the edit of this entry, the last until this time, or "
            "'latest'.",
        ),
    ] = None
    partial: Annotated[
        bool,
        opt(
            "--partial",
            help="Also read a state some lines of which are not known; marks them.",
        ),
    ] = False
    offset: Offset = 0
    out: Annotated[
        str | None,
        opt(
            *("-o", "--out"),
            metavar="OUT",
            kind="path",
            help="Write the state to this file; folders that are not there are made.",
        ),
        only_for_people,
    ] = None
    overwrite: Annotated[
        bool, opt("--overwrite", help="Let -o replace a file that exists."), only_for_people
    ] = False


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


class RecoveredStates(NamedTuple):
    """The states of a file, and the one that was asked for."""

    every: list[FileState]
    one: FileState | None = None


def _recovered(call: Call, given: Recover, found: RecoveredStates) -> Recovered:
    if found.one is not None:
        return _content(call, found.one, given)
    numbered = list(enumerate(found.every))[::-1]
    page = page_of(
        numbered, given, lambda one: f"{one[0]}/{one[1].name}", lambda one: _state(one[1])
    )
    return Recovered(items=page.items, more=page.more, cursor=page.cursor)


@FILE.method(
    "Read an earlier state of a file",
    json="a list of the states, or the state with its content",
    answer=_recovered,
)
def recover(call: Call, given: Recover) -> RecoveredStates:
    """List the states that a file had in sessions; with `at`, read one. Nothing is written.

    A state is rebuilt from writes, edits and reads. Lines that no session tells are not guessed:
    they are named, and such a state is refused without `partial`.
    \f
    List the states that FILE had in sessions, or print one of them with --at.

    A state is rebuilt from what sessions tell: writes, edits, and what the agent read. Lines that
    no session tells are not guessed. Where an edit fits the last commit before it, and nothing else
    tells the content, the state is based on that commit, and the list says so. FILE need not exist
    any more.
    """
    if given.out is not None and given.at is None:
        next = "`out` needs `at`, which says which state to write."
        raise Refusal("it is not known which state to write", "bad_value", next)
    path = call.project_file(given.file)
    found = _found(call, given, states, path)
    if given.at is not None:
        return RecoveredStates(found, state_at(found, given.at))
    if not found:
        call.tell_nothing(f"No session changed or read {path}")
    return RecoveredStates(found)


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
    session: SessionName = "latest"


def _page_of_files(
    call: Call, given: FileList, found: list[SessionFileUse]
) -> Page[SessionFileUse]:
    return page_of(found, given, lambda use: use.path, lambda use: use)


@FILE.method("List the files of a session", json="a list of the files", answer=_page_of_files)
def list_(call: Call, given: FileList) -> list[SessionFileUse]:
    """List the files that a session read, wrote, created, moved and deleted, with counts of lines.

    A call that failed or was refused counts only as failed.
    \f
    Without FILE, the session is the one that changed last. Each row has the number of lines that
    the session added and took away, as far as its edits tell them. A call that failed or was
    refused counts only as failed.
    """
    with call.reading(given.session) as session:
        found = files_of(call.each(session.file_events()))
    if not found:
        call.tell_nothing("The session read and changed no file, as far as its calls tell")
    return found
