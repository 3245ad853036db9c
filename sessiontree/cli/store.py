"""Commands over many sessions: ls, trash, restore, move-project.

Invariant: none of them overwrites a file, or deletes a session unless it is asked to.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import click

from sessiontree.catalog.counts import AT_ONCE, with_branches, with_counts
from sessiontree.catalog.empty import RemovedSession
from sessiontree.catalog.listing import SessionInfo
from sessiontree.catalog.lookup import short_ids
from sessiontree.catalog.places import ORDERS, Order, Selection, in_order, without_imports
from sessiontree.catalog.titles import agent_of, note_of, shown_id, title_of
from sessiontree.cli import arguments
from sessiontree.cli.arguments import PATH, PLACE
from sessiontree.cli.lookup import counts_of, none_found, places_at, read_sessions, store_at
from sessiontree.cli.output import out_json, out_json_list
from sessiontree.cli.screen import no_pager, screen, show
from sessiontree.cli.table import table, time_of
from sessiontree.cli.terminal import (
    counted,
    end,
    finish,
    is_terminal,
    out,
    tell,
    tell_each,
)
from sessiontree.core.display import in_quotes, one_line
from sessiontree.errors import SessionTreeError
from sessiontree.storage.backends import shown
from sessiontree.storage.files import Report
from sessiontree.store import Store, path_of_ref
from sessiontree.text.preview import size_in_short

Move = Callable[[str, Report], dict[str, str]]

_TITLE: Final = 60


@arguments.command("ls", json="a list of the sessions")
@arguments.places
@arguments.agent
@arguments.project
@arguments.time("--since", "List only sessions that changed since this time")
@click.option(
    "--all",
    is_flag=True,
    expose_value=False,
    help="List the sessions of all working directories; this is the default.",
)
@click.option(
    "--sort",
    "order",
    type=click.Choice(ORDERS),
    default="modified",
    show_default=True,
    help="Sort by time (latest first), by size (largest first), or by name.",
)
@click.option("--limit", metavar="N", type=click.IntRange(1), help="List at most N sessions.")
@click.option("--branches", is_flag=True, help="Also count the branches; this reads whole files.")
@no_pager
def ls(
    places: tuple[str, ...],
    order: Order,
    limit: int | None,
    branches: bool,
    no_pager: bool,
    as_json: bool,
    **only: Any,
) -> None:
    """Without DIR and FILE, 'ls' lists all sessions that it finds: those in the store, and those of
    Claude Code, Codex, the pi coding agent and Gemini CLI, where these agents keep them. The
    variables CLAUDE_CONFIG_DIR, CODEX_HOME, PI_CODING_AGENT_DIR, PI_CODING_AGENT_SESSION_DIR and
    GEMINI_CLI_HOME name other places, as they do for the agents. The store is
    what --store names; else what the variable SESSIONTREE_STORE names, a folder or an address such
    as postgresql://HOST/DB or s3://BUCKET/PREFIX; else the folder that the variable
    SESSIONTREE_HOME names; else the folder 'sessiontree' in your data folder (on Linux:
    ~/.local/share).

    With DIR, 'ls' lists all sessions in DIR and in the folders below DIR, hidden folders included:
    the files *.jsonl and *.jsonl.zst, and the files session-*.json of older versions of Gemini CLI.
    It does not follow links to folders, and does not enter .git, node_modules, site-packages,
    caches and the trash. With FILE, 'ls' lists this session. You can give more than one DIR or
    FILE.

    For each id, 'ls' shows the shortest start that belongs to one session only, of at least 8
    characters. Every command that takes an id takes this start.

    An import is listed only if its original is not, or if it has something later.

    On a terminal, each session is one row. The columns that do not fit are left out: first the
    size, then the cost, the model, the turns, the project and the id. The cost is the cost that the
    agent reported.

    To find the turns, the model and the cost, 'ls' reads whole files, at most 24 MB each time you
    run it, from the top of the list. A '?' marks turns that are not counted yet. Run 'ls' again to
    count more, or run 'stats' to count all. The counts are kept in your cache folder.

    For the other facts, 'ls' reads only the start and the end of each file. If the name of a
    session is in the middle of a large file, 'ls' may not show the name; 'show' always shows it.
    """
    problems: list[str] = []
    looked_in, selection = places_at(places), Selection(**only)
    every = without_imports(read_sessions(looked_in, Selection(), problems.append))
    found = in_order(filter(selection.takes, every), order)
    found = [with_counts(*each) for each in counts_of(found[:limit], problems.append, AT_ONCE)]
    if branches:
        found = [with_branches(one, problems.append) for one in found]
    _out_sessions(found, every, as_json=as_json, paged=not no_pager)
    if not found and not as_json:
        tell(none_found(looked_in, selection))
    tell_each("Left out", problems)


def _out_sessions(
    found: list[SessionInfo], among: list[SessionInfo], *, as_json: bool, paged: bool = True
) -> None:
    """Print sessions, each with the start of its id that no other of those `among` begins with."""
    if as_json:
        out_json_list(found)
        return
    ids = short_ids(one.id for one in among)
    if found and is_terminal():
        show(table(found, ids, screen()), paged=paged)
    else:
        _out_lines(found, ids)


def _out_lines(found: list[SessionInfo], ids: Mapping[str, str]) -> None:
    """Print a line for each session, without a limit of its width."""
    width = max((len(shown_id(one.id, ids)) for one in found), default=0)
    for one in found:
        count = "" if one.branches is None else counted(one.branches, "branch", "branches")
        turns = "" if one.turns is None else counted(one.turns, "turn")
        id = f"{shown_id(one.id, ids):<{width}}"
        parts = (time_of(one.modified), f"{size_in_short(one.bytes):>8}", id)
        facts = (f"{agent_of(one):<11}", title_of(one, _TITLE), count, turns, note_of(one, ids))
        out("  ".join(filter(None, (*parts, *facts, one_line(one.cwd or "", 200)))))


@arguments.command(
    "trash",
    json="a list of the old and the new path of each session; with --empty, of the removed sessions"
    " with all their files",
)
@click.argument("sessions", metavar="[SESSION…]", nargs=-1, type=PLACE)
@arguments.store
@click.option(
    "--empty", is_flag=True, help="Remove sessions from the trash for good; needs --older-than."
)
@arguments.time("--older-than", "With --empty: remove what was trashed before this time")
@click.option("--dry-run", is_flag=True, help="With --empty: only report what would be removed.")
def trash(
    sessions: tuple[str, ...],
    folder: str | None,
    empty: bool,
    older_than: datetime | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """SESSION is a file, an id, the first four or more characters of an id, a name, or
    'latest'. The session moves to the folder .trash of the store, with all its files.
    If a session cannot be moved, the command still moves the other sessions, and the exit
    code is 1.

    sessiontree empties the trash only when you ask for it: 'trash --empty --older-than 30d' removes
    the sessions that were trashed more than thirty days ago, and prints one line for each. These
    sessions cannot be restored. If a folder in the trash holds a link, or a file that does not
    belong to its session, the folder stays, and the exit code is 1.
    """
    if empty == bool(sessions):
        raise click.UsageError("give the sessions to move to the trash, or --empty")
    if empty != (older_than is not None) or (dry_run and not empty):
        raise click.UsageError(
            "--empty needs --older-than, for example --older-than 30d; --older-than and --dry-run "
            "need --empty"
        )
    store = store_at(folder)
    if older_than is not None:
        _empty(store, older_than, dry_run=dry_run, as_json=as_json)
        return

    def put_away(name: str, report: Report) -> dict[str, str]:
        file = path_of_ref(name) or store.find(name, report=report).file
        trashed = store.trash(file)
        tell(f"Moved {one_line(file, 1000)} to the trash")
        return {"file": file, "trashed": trashed}

    _out_each(sessions, put_away, "trashed", as_json=as_json)
    if not as_json:
        where = "" if folder is None else f" --store {shlex.quote(shown(folder))}"
        command = in_quotes(f"sessiontree restore{where}")
        tell(f"{command} lists the trash and restores sessions from it")


def _empty(store: Store, older_than: datetime, *, dry_run: bool, as_json: bool) -> None:
    problems: list[str] = []

    def name(one: RemovedSession) -> None:
        files = counted(len(one.files), "file")
        out(f"{one.file}  trashed {time_of(one.trashed)}, {files}, {size_in_short(one.bytes)}")

    removed = store.empty_trash(
        older_than=older_than,
        dry_run=dry_run,
        each=None if as_json else name,
        report=problems.append,
    )
    if as_json:
        out_json_list(removed)
    finish()
    verb = "Would remove" if dry_run else "Removed"
    freed = size_in_short(sum(one.bytes for one in removed))
    tell(f"{verb} {counted(len(removed), 'session')} from the trash of {store.root}, {freed}")
    for problem in problems:
        tell(f"Error: {problem}")
    end(problems)


@arguments.command(
    "restore",
    json="a list of the old and the new path of each session; without SESSION, the trash",
)
@click.argument("sessions", metavar="[SESSION…]", nargs=-1, type=PLACE)
@arguments.store
def restore(sessions: tuple[str, ...], folder: str | None, as_json: bool) -> None:
    """Each session goes back to its old folder. SESSION is a file in the trash, an id, the
    first four or more characters of an id, a name, or 'latest' for the session that was
    trashed last. Without SESSION, the command lists the trash, latest first.
    """
    store = store_at(folder)
    if not sessions:
        problems: list[str] = []
        found = store.trashed(report=problems.append)
        _out_sessions(found, found, as_json=as_json)
        if not found and not as_json:
            tell(f"The trash of {store.root} is empty")
        tell_each("Left out", problems)
        return

    def bring_back(name: str, report: Report) -> dict[str, str]:
        trashed = path_of_ref(name) or store.find_trashed(name, report=report)
        file = store.restore(trashed)
        tell(f"Restored {one_line(file, 1000)}")
        return {"trashed": trashed, "file": file}

    _out_each(sessions, bring_back, "file", as_json=as_json)


def _out_each(sessions: tuple[str, ...], move: Move, place: str, *, as_json: bool) -> None:
    """Move sessions one by one and print where each is now; exit with 1 if any was not moved."""
    problems: list[str] = []
    moved: list[dict[str, str]] = []
    try:
        for name in sessions:
            try:
                moved.append(move(name, problems.append))
            except SessionTreeError as error:
                if len(sessions) == 1:
                    raise
                tell(f"Error: {error}")
                continue
            if not as_json:
                out(moved[-1][place])
    finally:
        tell_each("Left out", problems)
    if as_json:
        out_json_list(moved)
    end(len(moved) < len(sessions))


@arguments.command("move-project", json="the number of sessions that were moved")
@click.argument("old", type=PATH)
@click.argument("new", type=PATH)
@arguments.store
def move_project(old: str, new: str, folder: str | None, as_json: bool) -> None:
    """OLD and NEW are the old and the new path of the directory. Afterwards 'ls' shows the
    sessions of OLD as sessions of NEW. The session files themselves do not change. If an
    exclusive writer holds one of the sessions, no session is moved. A session in a folder that
    the store did not name after OLD stays there.
    """
    count = store_at(folder).move_project(old, new)
    tell(f"Moved {counted(count, 'session')} of {os.path.abspath(old)} to {os.path.abspath(new)}")
    if as_json:
        out_json({"moved": count})
