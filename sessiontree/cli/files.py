"""The commands about files that agents changed: who wrote a line, what was done, what it was."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Final, TypeVar

import click

from sessiontree.cli import arguments
from sessiontree.cli.lookup import places_at
from sessiontree.cli.opening import reading
from sessiontree.cli.output import out_json, out_json_list
from sessiontree.cli.terminal import ProgressBar, out_bytes, tell, tell_each, write
from sessiontree.core.display import one_line, printable
from sessiontree.core.entry import moment_of
from sessiontree.edits.diff import lines_of
from sessiontree.errors import NotASessionError, SessionExistsError, SessionTreeError
from sessiontree.history.edits import files_of
from sessiontree.library.file_edits import Reason
from sessiontree.library.file_history import BlamedLine, FileEdit, FileState, state_at, states
from sessiontree.library.file_history import blame as blamed_lines
from sessiontree.library.file_history import history as edits_in_history
from sessiontree.library.listing import facts_of
from sessiontree.library.places import Selection, files_to_search
from sessiontree.storage.atomic import create_file, swap_file
from sessiontree.storage.fs import DISK

_LINES: Final = re.compile(r"(.+?):(\d{1,9})(?:-(\d{1,9}))?", re.DOTALL)
_Told = TypeVar("_Told")
_MARKS: Final = {"exact": "=", "normalized": "~", "hunk": "?", "none": " "}


def _told(
    about: Callable[..., list[_Told]], places: Sequence[str], problems: list[str]
) -> list[_Told]:
    """What sessions tell about a file; what cannot be read is added to `problems`."""
    with ProgressBar("Reading sessions") as shown:
        return about(
            files=lambda: _sessions(places, problems),
            report=problems.append,
            each=lambda number: shown(number, None),
        )


def _sessions(places: Sequence[str], problems: list[str]) -> list[str]:
    """The session files to look in.

    Raises:
        NotASessionError: a file that is named is not a session.
    """
    for place in filter(os.path.isfile, places):
        try:
            facts_of(place)
        except NotASessionError:
            raise
        except SessionTreeError:  # a damaged session is reported when it is read
            continue
    return files_to_search(places_at(places), Selection(), problems.append)


@arguments.command("blame", json="a list of the lines")
@click.argument("file", metavar="FILE[:LINE[-LINE]]")
@arguments.places
@click.option("--prompt", "prompts", is_flag=True, help="Also print the prompt and the reasoning.")
@arguments.time("--since", "Use only edits since this time")
def blame(
    file: str, places: tuple[str, ...], prompts: bool, since: datetime | None, as_json: bool
) -> None:
    """Tell which agent, in which turn of which session, wrote each line of FILE, or which person.

    The command finds the edits of FILE in all sessions that 'sessiontree ls' lists, or in the
    sessions in DIR and the session FILE that you name. In a git repository, it plays back the
    commits of FILE and the edits of all agents in the order of time. A line that no edit explains
    is the person's: it has the author of its commit, or 'not committed'.

    \b
    The mark after the commit says how sure an agent is:
      =   exact: the edit wrote this text here
      ~   normalized: a formatter changed the line since
      ?   hunk: an edit wrote this run of lines, but its place is not known
    """
    path, lines = _with_lines(file)
    problems: list[str] = []
    found = _told(partial(blamed_lines, path, lines=lines, since=since), places, problems)
    if as_json:
        out_json_list(line.as_dict() for line in found)
    else:
        _out_lines(found, prompts)
        if all(line.session is None for line in found):
            tell(f"No session explains a line of {path}: the persons are those of the commits")
    tell_each("Left out", problems)


def _with_lines(given: str) -> tuple[str, tuple[int, int] | None]:
    """The path and the lines in `FILE:LINE-LINE`."""
    found = _LINES.fullmatch(given)
    if found is None or os.path.lexists(given):
        return given, None
    first = int(found[2])
    return found[1], (first, int(found[3] or first))


def _out_lines(found: Sequence[BlamedLine], prompts: bool) -> None:
    names = [_writer(line) for line in found]
    width = max(map(len, names), default=0)
    digits = len(str(found[-1].line)) if found else 1
    last: tuple[str | None, str | None] | None = None
    for line, name in zip(found, names, strict=True):
        if prompts and (line.session, line.uuid) != last:
            last = line.session, line.uuid
            _out_reason(line)
        commit = (line.commit or "0" * 8)[:8]
        time = _time(line.time)
        text = printable(line.text.expandtabs())
        who = f"{commit} {_MARKS[line.certainty]} ({name:<{width}} {time} {line.line:>{digits}})"
        write(f"{who} {text}".rstrip(" ") + "\n")


def _writer(line: BlamedLine) -> str:
    """Who wrote a line: the agent and the turn, or the author of the commit."""
    if line.session is None:
        return one_line(line.author or "not committed", 40)
    return _named(line.agent, line.session, line.turn)


def _named(agent: str | None, session: str, turn: str | None) -> str:
    """An agent, the start of the id of its session, and the turn."""
    at = f":{turn}" if turn is not None else ""
    return f"{agent or 'sessiontree'} {printable(session[:8])}{at}"


def _time(stored: str | None) -> str:
    moment = moment_of(stored)
    return "-" * 16 if moment is None else moment.astimezone().strftime("%Y-%m-%d %H:%M")


def _out_reason(line: BlamedLine) -> None:
    if line.session is None:
        return
    model = f" · {one_line(line.model, 60)}" if line.model else ""
    write(f"# {line.agent or 'sessiontree'}{model} · session {one_line(line.session, 60)}\n")
    _out_why(Reason(line.turn, line.prompt, line.reasoning))


def _out_why(reason: Reason) -> None:
    if reason.prompt:
        write(f"#   prompt: {one_line(reason.prompt, 300)}\n")
    if reason.reasoning:
        write(f"#   before the call: {one_line(reason.reasoning, 300)}\n")


@arguments.command("history", json="a list of the edits")
@click.argument("file", metavar="FILE", type=arguments.PATH)
@arguments.places
@click.option("--prompt", "prompts", is_flag=True, help="Also print the prompt and the reasoning.")
@click.option("--stat", is_flag=True, help="Print one line for each edit, without the diff.")
@arguments.time("--since", "Print only edits since this time")
def history(
    file: str,
    places: tuple[str, ...],
    prompts: bool,
    stat: bool,
    since: datetime | None,
    as_json: bool,
) -> None:
    """List every edit of FILE by all agents over all sessions, with its diff, the oldest first.

    The command looks in all sessions that 'sessiontree ls' lists, or in the sessions in DIR and the
    session FILE that you name. FILE need not exist any more.

    \b
    Each edit has an outcome:
      kept        lines of it are in the file
      replaced    later edits or commits took the place of its lines
      deleted     the file is not there any more
      reverted    later, the file had the content from before the edit again
      lost        the same as reverted, but no commit has the edit
      failed, refused, unanswered    the edit changed nothing, as far as is known
      done        the edit added no line
    """
    problems: list[str] = []
    found = _told(partial(edits_in_history, file, since=since), places, problems)
    if as_json:
        out_json_list(found)
    else:
        for edit in found:
            _out_edit(edit, prompts=prompts, stat=stat)
        if not found:
            tell(f"No session has an edit of {file}")
    tell_each("Left out", problems)


def _out_edit(found: FileEdit, *, prompts: bool, stat: bool) -> None:
    edit, event = found.edit, found.edit.event
    who = _named(edit.agent, edit.session, edit.reason.turn)
    kept = f" {found.kept}" if found.outcome == "kept" else ""
    to = f" → {event.to}" if event.to else ""
    line = (
        f"{_time(event.time)}  {event.uuid[:8]}  {who}  {one_line(event.tool, 30)}  "
        f"+{found.added} −{found.removed}  {found.outcome}{kept}  {one_line(event.path, 200)}{to}"
    )
    write(line + "\n")
    if prompts:
        _out_why(edit.reason)
    if not stat:
        write("".join(f"    {printable(each.expandtabs())}\n" for each in found.diff))


@arguments.command("recover", json="a list of the states, or the state with its content")
@click.argument("file", metavar="FILE", type=arguments.PATH)
@arguments.places
@click.option(
    "--at",
    metavar="ID|TIME",
    help="The state to print: the id in its row, or a time for the last state until then.",
)
@click.option("-o", "--out", metavar="OUT", help="Write the state to this file.")
@click.option("--overwrite", is_flag=True, help="Let -o replace a file that exists.")
@click.option(
    "--partial",
    "marked",
    is_flag=True,
    help="Print a state although some lines are not known; mark these lines.",
)
def recover(
    file: str,
    places: tuple[str, ...],
    at: str | None,
    out: str | None,
    overwrite: bool,
    marked: bool,
    as_json: bool,
) -> None:
    """List the states that FILE had in sessions, or print one of them with --at.

    A state is rebuilt from what sessions tell: writes, edits, and what the agent read. Lines that
    no session tells are not guessed. Where an edit fits the last commit before it, and nothing else
    tells the content, the state is based on that commit, and the list says so. FILE need not exist
    any more.
    """
    problems: list[str] = []
    found = _told(partial(states, file), places, problems)
    tell_each("Left out", problems)
    if at is None:
        if out is not None:
            raise click.UsageError("-o needs --at, which says which state to write")
        _out_states(found, as_json=as_json)
        if not found and not as_json:
            tell(f"No session changed or read {file}")
        return
    state = state_at(found, at)
    text = state.text(marked=marked)
    content = text.encode("utf-8", "surrogateescape")
    if state.commit is not None:
        tell(
            f"Based on commit {state.commit[:8]}: what a person changed after that commit and "
            "before the first edit is not in it"
        )
    if state.content.gaps():
        tell(f"Not known: {', '.join(gap.as_text() for gap in state.content.gaps())}")
    if as_json:
        out_json({**state.as_dict(), "text": text})
    elif out is None:
        out_bytes([content])
    else:
        _save(out, content, overwrite=overwrite)
        tell(f"Wrote {len(lines_of(text)):,} lines to {out}")


def _save(out: str, content: bytes, *, overwrite: bool) -> None:
    save = swap_file if overwrite and os.path.exists(out) else create_file
    try:
        save(DISK, out, iter([content]))
    except SessionExistsError as error:
        if not os.path.isfile(out):
            raise
        raise SessionExistsError(f"{error}, or give --overwrite", out) from error


def _out_states(found: Sequence[FileState], *, as_json: bool) -> None:
    if as_json:
        out_json_list(found)
        return
    for state in found:
        edit, content = state.edit, state.content
        gaps = content.gaps()
        known = f"{content.known():,} lines" if content.is_there else "deleted"
        if gaps:
            known += f", not known: {', '.join(gap.as_text() for gap in gaps[:3])}"
            known += ", …" if len(gaps) > 3 else ""
        based = f", based on commit {state.commit[:8]}" if state.commit else ""
        changed = ", changed outside before" if content.contradicted else ""
        who = _named(edit.agent, edit.session, edit.reason.turn)
        write(f"{_time(edit.event.time)}  {state.name[:8]}  {who}  {known}{based}{changed}\n")


@arguments.command("files", json="a list of the files")
@click.argument("file", type=arguments.SESSION_FILE, default="latest")
def files(file: str, as_json: bool) -> None:
    """List the files that the session FILE read, wrote, created, moved and deleted.

    Without FILE, the session is the one that changed last. Each row has the number of lines that
    the session added and took away, as far as its edits tell them. A call that failed or was
    refused counts only as failed.
    """
    with reading(file) as session:
        found = files_of(session.file_events())
    if as_json:
        out_json_list(found)
        return
    for one in found:
        did = ", ".join(one.did()) or "nothing"
        write(f"+{one.added} −{one.removed}  {one_line(one.path, 300)}  {did}\n")
    if not found:
        tell("The session read and changed no file, as far as its calls tell")
