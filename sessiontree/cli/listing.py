"""The command that lists sessions: ls. It writes nothing."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final

import click
from msgspec.structs import replace

from sessiontree.catalog.listing import Listed, moment
from sessiontree.cli.arguments import PATH, json_option
from sessiontree.cli.output import out_json_list
from sessiontree.cli.printing import finish, out, short, tell
from sessiontree.cli.stores import Problems, store_at
from sessiontree.core.display import one_line
from sessiontree.errors import SessionTreeError
from sessiontree.store import Store, in_time
from sessiontree.text.preview import size_in_short

PATIENCE_SECONDS: Final = 0.5
"""How long to be silent before progress is shown."""

_TITLE: Final = 60
_NARROWEST: Final = 70
"""Columns that a table needs to show something of each session's name and directory."""

_ORDERS: Final[dict[str, tuple[Callable[[Listed], Any], bool]]] = {
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


def out_sessions(found: list[Listed], *, as_json: bool) -> None:
    """Print sessions: as JSON, as a table on a terminal, or else a line each."""
    if as_json:
        out_json_list(found)
    elif found and _is_terminal():
        _out_table(found)
    else:
        _out_lines(found)


def _found(
    store: Store, folder: str | None, cwd: str | None, problems: Problems
) -> Iterator[Listed]:
    if cwd is None or folder is None:
        return store.survey(cwd=cwd, report=problems)
    about = os.path.abspath(cwd)
    return (one for one in store.survey(report=problems) if one.cwd == about)


def _with_branches(one: Listed, problems: Problems) -> Listed:
    from sessiontree.operations.outline import count_branches
    from sessiontree.session import Session

    try:
        with Session.open(one.file, readonly=True) as session:
            return replace(one, branches=count_branches(session._index()))
    except SessionTreeError as error:
        problems(str(error))
        return one


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _shown_going_on(sessions: Iterable[Listed]) -> Iterator[Listed]:
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


def _with_spinner(sessions: Iterator[Listed]) -> Iterator[Listed]:
    first = next(sessions, None)
    if first is None:
        return
    from rich.console import Console
    from rich.progress import track  # heavy, and only a long list on a terminal needs it

    rest = itertools.chain([first], sessions)
    yield from track(rest, "Reading sessions", console=Console(stderr=True), transient=True)


def _out_lines(found: list[Listed]) -> None:
    for one in found:
        parts = [_time(one.modified), f"{size_in_short(one.bytes):>8}", short(one.id), _title(one)]
        parts += [_branches(one.branches)] if one.branches is not None else []
        parts += [note] if (note := _note(one)) else []
        parts += [one_line(one.cwd, 200)] if one.cwd else []
        out("  ".join(parts))


def _out_table(found: list[Listed]) -> None:
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


def _title(one: Listed) -> str:
    return one_line(one.name or one.first_message or "(nothing said yet)", _TITLE)


def _branches(count: int) -> str:
    return "1 branch" if count == 1 else f"{count:,} branches"


def _note(one: Listed) -> str:
    notes = [f"lane {one_line(one.lane)}"] if one.lane != "main" else []
    notes += [f"of {one_line(one.program)}"] if one.program is not None else []
    notes += [f"held by {one_line(one.writer, 200)}"] if one.writer is not None else []
    return ", ".join(notes)


def _time(timestamp: str) -> str:
    """A time as stored, as the clock here shows it."""
    try:
        return datetime.fromtimestamp(moment(timestamp)).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return "unknown"
