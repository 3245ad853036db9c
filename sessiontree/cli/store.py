"""The folder of sessions that a command is about, and what it could not read there.

The commands that move whole sessions of a store: trash, restore, move-project.

None of them removes anything, and none overwrites.

The command that lists sessions: ls. It writes nothing.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click
from msgspec.structs import replace

from sessiontree.catalog.listing import SessionInfo, moment
from sessiontree.cli import terminal
from sessiontree.cli.arguments import PATH, json_option
from sessiontree.cli.output import out_json, out_json_list
from sessiontree.cli.terminal import finish, out, short, tell
from sessiontree.core.display import one_line
from sessiontree.errors import RefError, SessionNotFoundError, SessionTreeError
from sessiontree.storage.files import Report, unreadable
from sessiontree.store import Store, in_time, path_given
from sessiontree.text.preview import size_in_short

HOME_VARIABLE = "SESSIONTREE_HOME"
"""The environment variable that names the folder of sessions; empty is unset."""


def store_at(folder: str | None) -> Store:
    """The store in a folder, by default where this user's sessions are.

    Raises:
        SessionNotFoundError: a folder was named that is not there.
    """
    if folder is None:
        home = os.path.expanduser(os.environ.get(HOME_VARIABLE) or "")
        if os.path.isfile(home):
            raise SessionNotFoundError(
                f"{HOME_VARIABLE} is {home}, a file, and names no folder", home
            )
        return Store(home or None)
    if os.path.isfile(folder):
        raise SessionNotFoundError(f"{folder} is a file, and no folder of sessions", folder)
    if not os.path.isdir(folder):
        _check_seen(folder)
        raise SessionNotFoundError(f"there is no folder {folder}; check the path", folder)
    return Store(folder)


def _check_seen(folder: str) -> None:
    """Refuse a folder of which the system will not say whether it is there."""
    try:
        os.stat(folder)
    except PermissionError as error:
        raise unreadable(folder, error) from error
    except OSError:
        pass


def file_named(name: str) -> str:
    """The file of the session that a name, an id or `latest` names where sessions are kept.

    Raises:
        SessionNotFoundError: there is none of it.
        RefError: there is more than one.
    """
    problems = Problems()
    try:
        return store_at(None).find(name, report=problems).file
    except RefError as error:
        if error.candidates:
            raise
        problems.tell()
        raise SessionNotFoundError(f"there is no file {name}, and {error}", name) from error


class Problems:
    """What could not be read, told at the end so that it stands below what could."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def __call__(self, problem: str) -> None:
        self._found.append(problem)

    def tell(self) -> None:
        """Tell them, a line each, the first of them where there are many."""
        terminal.tell_each("Left out", self._found)


def moment_given(ctx: click.Context, option: click.Parameter, text: str | None) -> datetime | None:
    """The time that an option names: a date, a date and time, or how long ago."""
    if text is None:
        return None
    ago = re.fullmatch(r"(\d{1,6})([mhdw])", text)
    try:
        if ago:
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise click.BadParameter(
            "no time; give a date such as 2026-01-31, a date and time, or 30m, 12h, 7d, 2w ago",
            ctx,
            option,
        ) from None


_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


PATIENCE_SECONDS: Final = 0.5
"""How long to be silent before progress is shown."""

_TITLE: Final = 60
_NARROWEST: Final = 70
"""Columns that a table needs to show something of each session's name and directory."""

_ORDERS: Final[dict[str, tuple[Callable[[SessionInfo], Any], bool]]] = {
    "modified": (in_time, True),
    "created": (lambda one: (moment(one.created), in_time(one)), True),
    "size": (lambda one: one.bytes, True),
    "name": (lambda one: (one.name is None, (one.name or "").casefold()), False),
}
"""For each order its key, and whether the greatest comes first."""


@click.command()
@click.argument("folder", metavar="[DIR]", required=False, type=PATH)
@click.option("--cwd", metavar="DIR", type=PATH, help="Only sessions of this working directory.")
@click.option("--all", "all_", is_flag=True, help="Sessions of all working directories.")
@click.option(
    "--sort",
    "order",
    type=click.Choice(list(_ORDERS)),
    default="modified",
    show_default=True,
    help="What they are ordered by, the latest or largest first.",
)
@click.option("--limit", metavar="N", type=click.IntRange(1), help="At most so many.")
@click.option("--branches", is_flag=True, help="Count the branches too: reads whole files.")
@json_option("a list of the sessions")
def ls(
    folder: str | None,
    cwd: str | None,
    all_: bool,
    order: str,
    limit: int | None,
    branches: bool,
    as_json: bool,
) -> None:
    """List sessions.

    Without DIR those of the current working directory, from where sessions are kept:
    the folder that SESSIONTREE_HOME names, or else your data folder. With DIR all that
    lie in it, or in the folders in it: files named *.jsonl, *.jsonl.zst and, as Gemini
    CLI names its older chats, session-*.json.

    Only the head and the tail of each file are read. A name that was given in the
    middle of a large file is not seen there; 'show' finds it.
    """
    problems = Problems()
    store = store_at(folder)
    if cwd is None and folder is None and not all_:
        cwd = os.getcwd()
    found = list(_shown_going_on(_found(store, folder, cwd, problems)))
    key, is_reversed = _ORDERS[order]
    found.sort(key=key, reverse=is_reversed)
    found = found[:limit]
    if branches:
        found = [_with_branches(one, problems) for one in found]
    out_sessions(found, as_json=as_json)
    if not found and not as_json:
        where = f" of {os.path.abspath(cwd)}" if cwd is not None else ""
        more = "" if folder or all_ else "; 'ls --all' lists those of all directories"
        tell(f"No session{where} in {store.root}{more}")
    problems.tell()


def out_sessions(found: list[SessionInfo], *, as_json: bool) -> None:
    """Print sessions: as JSON, as a table on a terminal, or else a line each."""
    if as_json:
        out_json_list(found)
    elif found and _is_terminal():
        _out_table(found)
    else:
        _out_lines(found)


def _found(
    store: Store, folder: str | None, cwd: str | None, problems: Problems
) -> Iterator[SessionInfo]:
    if cwd is None or folder is None:
        return store.iter_sessions(cwd=cwd, report=problems)
    about = os.path.abspath(cwd)
    return (one for one in store.iter_sessions(report=problems) if one.cwd == about)


def _with_branches(one: SessionInfo, problems: Problems) -> SessionInfo:
    from sessiontree.operations.outline import count_branches
    from sessiontree.session import Session

    try:
        with Session.open(one.file, readonly=True) as session:
            return replace(one, branches=count_branches(session.reader.index()))
    except SessionTreeError as error:
        problems(str(error))
        return one


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _shown_going_on(sessions: Iterable[SessionInfo]) -> Iterator[SessionInfo]:
    """The same sessions; on a terminal, their number is shown when it takes a while."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield from sessions
        return
    started = time.monotonic()
    sessions = iter(sessions)
    for one in sessions:
        yield one
        if time.monotonic() - started > PATIENCE_SECONDS:
            break
    yield from _with_spinner(sessions)


def _with_spinner(sessions: Iterator[SessionInfo]) -> Iterator[SessionInfo]:
    first = next(sessions, None)
    if first is None:
        return
    from rich.console import Console
    from rich.progress import track  # heavy, and only a long list on a terminal needs it

    rest = itertools.chain([first], sessions)
    yield from track(rest, "Reading sessions", console=Console(stderr=True), transient=True)


def _out_lines(found: list[SessionInfo]) -> None:
    for one in found:
        parts = [_time(one.modified), f"{size_in_short(one.bytes):>8}", short(one.id), _title(one)]
        parts += [_branches(one.branches)] if one.branches is not None else []
        parts += [note] if (note := _note(one)) else []
        parts += [one_line(one.cwd, 200)] if one.cwd else []
        out("  ".join(parts))


def _out_table(found: list[SessionInfo]) -> None:
    from rich.console import Console  # heavy, and only a terminal needs it
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout)
    if console.width < _NARROWEST:
        _out_lines(found)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Modified", no_wrap=True)
    table.add_column("Size", no_wrap=True, justify="right")
    for heading in ("Id", "Session", "Directory"):
        table.add_column(heading, no_wrap=heading == "Id")
    if found[0].branches is not None:
        table.add_column("Branches", justify="right")
    for one in found:
        said = Text(_title(one))
        if note := _note(one):
            said.append(f"  {note}", style="yellow")
        cells = [
            Text(_time(one.modified)),
            Text(size_in_short(one.bytes)),
            Text(short(one.id)),
            said,
        ]
        cells.append(Text(one_line(one.cwd or "", 200)))
        cells += [Text(str(one.branches))] if one.branches is not None else []
        table.add_row(*cells)
    finish()
    console.print(table)


def _title(one: SessionInfo) -> str:
    return one_line(one.name or one.first_message or "(nothing said yet)", _TITLE)


def _branches(count: int) -> str:
    return "1 branch" if count == 1 else f"{count:,} branches"


def _note(one: SessionInfo) -> str:
    notes = [f"lane {one_line(one.lane)}"] if one.lane != "main" else []
    notes += [f"of {one_line(one.agent)}"] if one.agent is not None else []
    notes += [f"held by {one_line(one.writer, 200)}"] if one.writer is not None else []
    return ", ".join(notes)


def _time(timestamp: str) -> str:
    """A time as stored, as the clock here shows it."""
    try:
        return datetime.fromtimestamp(moment(timestamp)).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return "unknown"


store_option = click.option(
    "--store",
    "folder",
    type=PATH,
    metavar="DIR",
    help="The folder of sessions; by default SESSIONTREE_HOME, or else your data folder.",
)


@click.command()
@click.argument("sessions", metavar="SESSION…", nargs=-1, required=True)
@store_option
@json_option("a list of where each was and is")
@click.pass_context
def trash(
    context: click.Context, sessions: tuple[str, ...], folder: str | None, as_json: bool
) -> None:
    """Put sessions away, to be had back.

    SESSION is a file, or an id, four characters or more of one, a name, or 'latest'.
    All that lies beside the file goes with it, into the folder .trash of the store.
    Nothing is ever removed from there but by you. A session that is refused keeps
    none of the others from going; the exit code is 1 then.
    """
    store = store_at(folder)

    def put_away(named: str, report: Report) -> dict[str, str]:
        file = path_given(named) or store.find(named, report=report).file
        trashed = store.trash(file)
        tell(f"Put {one_line(file, 1000)} away")
        return {"file": file, "trashed": trashed}

    is_done = _out_each(sessions, put_away, "trashed", as_json=as_json)
    if is_done and not as_json:
        where = "" if folder is None else f" --store {shlex.quote(folder)}"
        tell(f"'sessiontree restore{where}' lists what was put away, and brings it back")
    context.exit(0 if is_done else 1)


@click.command()
@click.argument("sessions", metavar="[SESSION…]", nargs=-1)
@store_option
@json_option("a list of where each was and is; without SESSION of what there is")
@click.pass_context
def restore(
    context: click.Context, sessions: tuple[str, ...], folder: str | None, as_json: bool
) -> None:
    """Bring sessions back, or list what was put away.

    Each goes from the trash to where it was. SESSION is a file there, or an id, four
    characters or more of one, a name, or 'latest', which was put away last. Without
    one, all that were put away are listed, the latest first.
    """
    store = store_at(folder)
    if not sessions:
        problems = Problems()
        found = store.trashed(report=problems)
        out_sessions(found, as_json=as_json)
        if not found and not as_json:
            tell(f"Nothing was put away from {store.root}")
        problems.tell()
        return

    def bring_back(named: str, report: Report) -> dict[str, str]:
        trashed = path_given(named) or store.find_trashed(named, report=report)
        file = store.restore(trashed)
        tell(f"Brought {one_line(file, 1000)} back")
        return {"trashed": trashed, "file": file}

    is_done = _out_each(sessions, bring_back, "file", as_json=as_json)
    context.exit(0 if is_done else 1)


def _out_each(
    sessions: tuple[str, ...],
    move: Callable[[str, Report], dict[str, str]],
    place: str,
    *,
    as_json: bool,
) -> bool:
    """Move sessions one by one, and print where each went; whether all of them did.

    One that is refused is told, and keeps none of the others where it is.
    """
    problems = Problems()
    moved: list[dict[str, str]] = []
    try:
        for named in sessions:
            try:
                moved.append(move(named, problems))
            except SessionTreeError as error:
                if len(sessions) == 1:
                    raise
                tell(f"Error: {error}")
                continue
            if not as_json:
                out(moved[-1][place])
    finally:
        problems.tell()
    if as_json:
        out_json_list(moved)
    return len(moved) == len(sessions)


@click.command()
@click.argument("old", type=PATH)
@click.argument("new", type=PATH)
@store_option
@json_option("how many were moved")
def move_project(old: str, new: str, folder: str | None, as_json: bool) -> None:
    """Let a renamed directory keep its sessions.

    What was said in OLD is then listed in NEW, with what is there already. The files
    themselves are not changed. While a writer holds one of the sessions, none is moved.
    """
    count = store_at(folder).move_project(old, new)
    told = "1 session" if count == 1 else f"{count:,} sessions"
    tell(f"Moved {told} of {os.path.abspath(old)} to {os.path.abspath(new)}")
    if as_json:
        out_json({"moved": count})
