"""The commands over many sessions: ls, search, trash, restore and move-project.

The command that searches sessions.

The list of sessions as a table: a row a session, whatever the width of the screen. The title gets
what the other columns leave. Where that is too little, columns are left out in a fixed order: size,
cost, model, turns, project, id. A column that has nothing to show is left out too. On a narrow
screen times, agents and projects are shorter. An id is as long as it must be to name one session;
`ids` has the start of each.

Commands over many sessions: ls, trash, restore, move-project.

The entries that a search found, below the session that each is in. On a screen a hit is one row:
its snippet gets what the other columns leave, and is cut around the match. Elsewhere the path of
each session and the whole snippet are printed.

Invariants: none of them overwrites a file, or deletes a session unless it is asked to.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any, Final, NamedTuple

import click

from sessiontree.agents import command_of
from sessiontree.cli import arguments
from sessiontree.cli.arguments import PATH, PLACE
from sessiontree.cli.lookup import (
    counts_of,
    none_found,
    places_at,
    read_sessions,
    relative_path,
    store_at,
)
from sessiontree.cli.output import out_json, out_json_list
from sessiontree.cli.screen import Screen, no_pager, screen, show
from sessiontree.cli.terminal import (
    as_line,
    end,
    finish,
    is_terminal,
    out,
    short,
    tell,
    tell_each,
    write,
)
from sessiontree.core.display import in_quotes, one_line, printable
from sessiontree.core.entry import seconds_of
from sessiontree.errors import SessionTreeError, UsageError
from sessiontree.library.counts import AT_ONCE, with_branches, with_counts
from sessiontree.library.listing import SessionInfo, moment
from sessiontree.library.lookup import (
    agent_of,
    model_of,
    note_of,
    short_id,
    short_ids,
    shown_id,
    title_of,
)
from sessiontree.library.moving import RemovedSession
from sessiontree.library.places import (
    ORDERS,
    Order,
    Selection,
    files_to_search,
    in_order,
    without_imports,
)
from sessiontree.library.search import SessionsOfHits, check_roles, described, has_blobs
from sessiontree.library.search import search as hits_in
from sessiontree.library.search_file import SearchHit, Wanted
from sessiontree.storage.names import Report
from sessiontree.storage.places import shown
from sessiontree.store import Store, path_of_ref
from sessiontree.text.amounts import ago, briefly_ago, counted, dollars
from sessiontree.text.columns import columns_of, cut, filled
from sessiontree.text.pattern import AllOf, Pattern, query
from sessiontree.text.preview import size_in_short

_LEAST_TITLE: Final = 28
_LEAST_MODEL: Final = 15
_GAP: Final = 2
_MOST: Final = 200
_WIDE: Final = 140
"""Columns from which on times and agents are written out."""

_VERY_WIDE: Final = 170
"""Columns from which on a project is a path."""

_LONGEST_ID: Final = 24
"""Columns of an id; a longer one is shown by --json, and where there is no screen."""

_DROPPED: Final = ("Size", "Cost", "Model", "Turns", "Project", "Id", "Agent")
_STYLES: Final = {
    "When": "dim",
    "Id": "number",
    "Agent": "agent",
    "Turns": "dim",
    "Model": "dim",
    "Size": "dim",
}
"""The role of each column's text, for its colour."""

_TO_THE_RIGHT: Final = frozenset({"Turns", "Cost", "Size", "Branches"})


class _Column(NamedTuple):
    name: str
    cells: Sequence[str]
    width: int


def table(found: Sequence[SessionInfo], ids: Mapping[str, str], screen: Screen) -> Iterator[str]:
    """The lines of the table, the names of the columns first."""
    columns = _columns(found, ids, screen)
    left = _left(columns, screen)
    for name in _DROPPED:
        if left >= _LEAST_TITLE:
            break
        columns = [column for column in columns if column.name != name]
        left = _left(columns, screen)
    at = next((n for n, column in enumerate(columns) if column.name in _AFTER_TITLE), len(columns))
    before, after = columns[:at], columns[at:]
    names = [_cell(column.name, column) for column in before]
    names.append(filled("Session", left))
    names += [_cell(column.name, column) for column in after]
    yield screen.styled((" " * _GAP).join(names).rstrip(), "dim")
    for row, one in enumerate(found):
        cells = [_styled(column, row, screen) for column in before]
        cells.append(_title_cell(one, ids, left, screen))
        cells += [_styled(column, row, screen) for column in after]
        yield (" " * _GAP).join(cells).rstrip()


_AFTER_TITLE: Final = frozenset({"Branches", "Turns", "Model", "Cost", "Size"})


def _columns(found: Sequence[SessionInfo], ids: Mapping[str, str], screen: Screen) -> list[_Column]:
    cap = max(10, screen.width // (8 if screen.width < _VERY_WIDE else 6))
    made = {
        "When": [_when(one, screen) for one in found],
        "Id": [cut(shown_id(one.id, ids), _LONGEST_ID) for one in found],
        "Agent": [_agent(one, screen) for one in found],
        "Project": [_project(one.cwd, cap, screen) for one in found],
        "Branches": ["" if one.branches is None else f"{one.branches:,}" for one in found],
        "Turns": [_turns(one) for one in found] if any(map(_is_counted, found)) else [""],
        "Model": [cut(model_of(one), max(screen.width // 8, _LEAST_MODEL)) for one in found],
        "Cost": [dollars(one.cost) if one.cost else "" for one in found],
        "Size": [size_in_short(one.bytes) for one in found],
    }
    return [
        _Column(name, cells, max(len(name), *map(columns_of, cells)))
        for name, cells in made.items()
        if any(cells)
    ]


def _is_counted(one: SessionInfo) -> bool:
    return one.turns is not None


def _turns(one: SessionInfo) -> str:
    return "?" if one.turns is None else f"{one.turns:,}"


def _left(columns: Sequence[_Column], screen: Screen) -> int:
    """The columns that are left for the title."""
    return screen.width - sum(column.width + _GAP for column in columns)


def _cell(text: str, column: _Column) -> str:
    if column.name not in _TO_THE_RIGHT:
        return filled(text, column.width)
    return " " * (column.width - columns_of(text)) + text


def _styled(column: _Column, row: int, screen: Screen) -> str:
    cell = _cell(column.cells[row], column)
    role = _STYLES.get(column.name)
    return cell if role is None else screen.styled(cell, role)


def _title_cell(one: SessionInfo, ids: Mapping[str, str], width: int, screen: Screen) -> str:
    note = cut(note_of(one, ids), max(0, width // 2))
    space = max(1, width - (columns_of(note) + _GAP if note else 0))
    title = cut(title_of(one, _MOST), space)
    gap = " " * _GAP if note else ""
    rest = " " * (width - columns_of(title) - columns_of(gap + note))
    return title + gap + screen.styled(note, "label") + rest


def _agent(one: SessionInfo, screen: Screen) -> str:
    name = agent_of(one)
    return cut(name if screen.width >= _WIDE else command_of(name), 12)


def _project(cwd: str | None, cap: int, screen: Screen) -> str:
    """The name of the working directory; on a very wide screen the end of its path."""
    if not cwd:
        return ""
    home = os.path.expanduser("~")
    if screen.width < _VERY_WIDE:
        return cut("~" if cwd == home else os.path.basename(cwd.rstrip(os.sep)) or cwd, cap)
    path = one_line("~" + cwd[len(home) :] if f"{cwd}/".startswith(f"{home}/") else cwd, _MOST)
    while columns_of(path) > cap:
        path = "…" + path.lstrip("…")[1:]
    return path


def _when(one: SessionInfo, screen: Screen) -> str:
    seconds = screen.now.timestamp() - moment(one.modified)
    return ago(seconds) if screen.width >= _WIDE else briefly_ago(seconds)


def time_of(timestamp: str | None) -> str:
    """A stored time as the date and the time here."""
    seconds = seconds_of(timestamp)
    if seconds is None:
        return "unknown"
    try:
        return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return "unknown"


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


_ROLES: Final = {"user": "prompt", "tool": "tool", "assistant": ""}
_MATCH: Final = ("\x1b[1;31m", "\x1b[0m")


def lines(hits: Iterable[SearchHit]) -> Iterator[tuple[str, bool]]:
    """The lines to print where there is no screen, and whether each is a hit."""
    sessions, file = SessionsOfHits(), None
    for hit in hits:
        if hit.file != file:
            if file is not None:
                yield "", False
            file = hit.file
            yield _path_heading(hit, sessions.of(hit)), False
        before, match, after = _parts(hit)
        role = one_line(hit.speaker or hit.type)
        text = f"{before}«{match}»{after}"
        yield f"  {short(hit.ref):<8}  {role:<10}  {time_of(hit.timestamp):<16}  {text}", True


def _path_heading(hit: SearchHit, one: SessionInfo | None) -> str:
    heading = f"{one_line(relative_path(hit.file), 1000)}  session {_session(hit)}"
    if one is None:
        return heading
    return f"{heading}  {agent_of(one)}  {time_of(one.modified)}  {title_of(one, _TITLE)}"


def rows(hits: Iterable[SearchHit], screen: Screen) -> Iterator[tuple[str, bool]]:
    """The rows to draw on a screen, and whether each is a hit."""
    sessions, file = SessionsOfHits(), None
    for hit in hits:
        if hit.file != file:
            if file is not None:
                yield "", False
            file = hit.file
            yield _heading(hit, sessions.of(hit), screen), False
        yield _row(hit, screen), True


def _heading(hit: SearchHit, one: SessionInfo | None, screen: Screen) -> str:
    if one is None:
        return cut(hit.file, screen.width)
    when = f"{_ago(one.modified, screen)} ago".replace("now ago", "now")
    facts = [_session(hit), when, agent_of(one)]
    facts += [one_line((one.cwd or "").rstrip("/").rpartition("/")[2], 20)]
    about = " · ".join(filter(None, facts))
    title = cut(title_of(one, screen.width), max(10, screen.width - columns_of(about) - 2))
    return f"{screen.styled(title, 'title')}  {screen.styled(about, 'dim')}"


def _row(hit: SearchHit, screen: Screen) -> str:
    role = one_line(hit.speaker or hit.type)
    cells = [short(hit.ref), cut(role, 9), _ago(hit.timestamp, screen)]
    roles = ["number", _ROLES.get(role, "dim"), "dim"]
    widths = [8, 9, 4]
    made = [
        screen.styled(filled(cell, width), style) if style else filled(cell, width)
        for cell, width, style in zip(cells, widths, roles, strict=True)
    ]
    left = screen.width - sum(widths) - 2 * (len(widths) + 1) - (0 if screen.colour else 2)
    before, match, after = fitted(*_parts(hit), max(left, 10))
    opening, closing = _MATCH if screen.colour else ("«", "»")
    return "  " + "  ".join(made) + f"  {before}{opening}{match}{closing}{after}"


def _ago(timestamp: str | None, screen: Screen) -> str:
    return briefly_ago(screen.now.timestamp() - moment(timestamp)) if timestamp else "?"


def _session(hit: SearchHit) -> str:
    return one_line(short_id(hit.session))


def _parts(hit: SearchHit) -> tuple[str, str, str]:
    start, end = hit.match
    parts = (hit.snippet[:start], hit.snippet[start:end], hit.snippet[end:])
    return printable(parts[0]), printable(parts[1]), printable(parts[2])


def fitted(before: str, match: str, after: str, width: int) -> tuple[str, str, str]:
    """The parts of a snippet, cut to a width around the match: a third of the rest before it."""
    match = cut(match, width)
    left = width - columns_of(match)
    space = max(left // 3, left - columns_of(after))
    while columns_of(before) > space:
        before = "…" + before.lstrip("…")[1:] if space else ""
    return before, match, cut(after, left - columns_of(before))


def _checked(roles: tuple[str, ...]) -> tuple[str, ...]:
    try:
        check_roles(roles)
    except UsageError as error:
        raise click.BadParameter(str(error), param_hint="'--role'") from None
    return roles


@arguments.command("search", json="a list of the entries found")
@click.argument("words", metavar="PATTERN")
@arguments.places
@click.option("--regex", is_flag=True, help="PATTERN is a regular expression, as in Python.")
@click.option("-i", "--ignore-case", is_flag=True, help="Do not distinguish A and a.")
@click.option("-s", "--case-sensitive", is_flag=True, help="Distinguish A and a.")
@click.option(
    "--role",
    "roles",
    metavar="ROLE",
    multiple=True,
    callback=lambda ctx, option, given: _checked(given),
    help="Find only entries of ROLE, which is user, assistant, tool (results of tools) or prompt "
    "(what you typed). You can give --role more than once.",
)
@click.option(
    "--tool", metavar="NAME", help="Find only calls and results of this tool; case does not count."
)
@arguments.time("--since", "Find only entries since this time")
@arguments.agent
@arguments.project
@click.option("--current", is_flag=True, help="Find only entries on the current path.")
@click.option(
    "--everything",
    is_flag=True,
    help="Also search 'custom' entries, in which programs keep their own data, such as requests to "
    "the model.",
)
@click.option("--blobs", is_flag=True, help="Also search large texts, which are stored as blobs.")
@click.option("--limit", metavar="N", type=click.IntRange(1), help="Stop after N entries.")
def search(
    words: str,
    places: tuple[str, ...],
    regex: bool,
    ignore_case: bool,
    case_sensitive: bool,
    roles: tuple[str, ...],
    agents: frozenset[str],
    project: str | None,
    limit: int | None,
    everything: bool,
    as_json: bool,
    **only: Any,
) -> None:
    """The command searches the sessions in DIR, or the session FILE. You can give more than one DIR
    or FILE. Without DIR and FILE, it searches all sessions that 'sessiontree ls' lists, newest
    first.

    If PATTERN has several words, the command finds the entries that contain all these words. Words
    in "double quotes" are a phrase. If PATTERN has no capital letter, A and a are the same,
    except with --regex.

    The command searches messages, thinking, tool calls, tool results, summaries, names and labels.
    It does not search types, roles, ids or images. An accented letter matches in any Unicode form,
    except with --regex. Each entry is shown once, with its first match marked. The exit code is 0
    even if nothing is found.
    """
    if ignore_case and case_sensitive:
        raise click.UsageError("give --ignore-case or --case-sensitive, not both")
    looked_for = _pattern(words, ignore_case or (None if not case_sensitive else False), regex)
    wanted = Wanted(frozenset(roles), facts=as_json, conversation=not everything, **only)
    selection = Selection(agents, project)
    problems: list[str] = []
    looked_in = places_at(places)
    files = files_to_search(looked_in, selection, problems.append)
    searching = hits_in(looked_for, files, wanted, problems.append, limit=limit, processes=None)
    with closing(searching) as hits:
        found = out_json_list(described(flushed(hits))) if as_json else out_hits(flushed(hits))
    if found == limit:
        tell(f"Stopped at {limit:,} as --limit asks; there may be more")
    elif not found and not as_json:
        nothing = _nothing(words, files, blobs=wanted.blobs, everything=everything)
        tell(nothing if files else f"Nothing was searched. {none_found(looked_in, selection)}")
    tell_each("Left out", problems)


def _pattern(words: str, ignore_case: bool | None, regex: bool) -> Pattern | AllOf:
    try:
        return query(words, regex=regex, ignore_case=ignore_case)
    except UsageError as error:
        raise click.UsageError(as_line(str(error))) from error


def _nothing(words: str, files: list[str], *, blobs: bool, everything: bool) -> str:
    more = "; --blobs searches large texts too" if not blobs and has_blobs(files) else ""
    more += "" if everything else "; --everything also searches what programs keep for themselves"
    return f"Nothing matches {words}{more}"


def flushed(hits: Iterable[SearchHit]) -> Iterator[SearchHit]:
    """The same hits; standard output is flushed after each."""
    for hit in hits:
        yield hit
        finish()


def out_hits(hits: Iterable[SearchHit]) -> int:
    """Print hits below the sessions that they are in; the number of hits."""
    count = 0
    for line, is_hit in rows(hits, screen()) if is_terminal() else lines(hits):
        write(line + "\n")
        count += is_hit
    return count
