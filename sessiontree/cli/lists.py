"""What ls, search, trash and restore print: lists of sessions, and hits.

The list of sessions is a table on a screen: a row a session, whatever the width. The title gets
what the other columns leave. Where that is too little, columns are left out in a fixed order. A
column that has nothing to show is left out too. On a narrow screen times, agents and projects are
shorter. `ids` has the start of each id that names one session.

Hits are printed below the session that each is in. On a screen a hit is one row: its snippet gets
what the other columns leave, and is cut around the match. Elsewhere the path of each session and
the whole snippet are printed.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Final, NamedTuple

import click

from sessiontree.agents import command_of
from sessiontree.cli import arguments
from sessiontree.cli.arguments import SESSION_FILE
from sessiontree.cli.derive import CommandCall, renders
from sessiontree.cli.lookup import none_found, relative_path
from sessiontree.cli.output import out_json, out_json_list
from sessiontree.cli.screen import Screen, screen, show
from sessiontree.cli.terminal import end, finish, is_terminal, out, short, tell, write
from sessiontree.core.display import in_quotes, one_line, printable
from sessiontree.core.entry import seconds_of
from sessiontree.library.hidden import hide, unhide
from sessiontree.library.homes import with_tilde
from sessiontree.library.listing import SessionInfo, facts_of, moment
from sessiontree.library.lookup import (
    agent_of,
    cost_of_row,
    model_of,
    note_of,
    short_ids,
    shown_id,
    title_of,
)
from sessiontree.library.path_rules import change_path_rules, path_rules
from sessiontree.library.places import project_in
from sessiontree.library.root import store_of_command
from sessiontree.library.search import SessionsOfHits, described, has_blobs, unknown_role
from sessiontree.library.search_file import SearchHit, marked
from sessiontree.library.trash import RemovedSession
from sessiontree.ops.session import (
    AcpListing,
    EmptyTrash,
    MovedSessions,
    RemovedSessions,
    Search,
    SearchedFiles,
    SessionList,
    SessionsFound,
    TrashedSession,
)
from sessiontree.storage.places import shown
from sessiontree.text.amounts import ago, briefly_ago, counted
from sessiontree.text.columns import columns_of, cut, cut_start, filled
from sessiontree.text.ids import short_id
from sessiontree.text.preview import size_in_short

_LEAST_TITLE: Final = 28
_PATH: Final = 400
_GAP: Final = 2
_MAX: Final = 200
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


def table(
    found: Sequence[SessionInfo],
    ids: Mapping[str, str],
    screen: Screen,
    named: Collection[str] = (),
) -> Iterator[str]:
    """The lines of the table, the names of the columns first; files that are `named` are shown."""
    columns = _columns(found, ids, screen, named)
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


def _columns(
    found: Sequence[SessionInfo], ids: Mapping[str, str], screen: Screen, named: Collection[str]
) -> list[_Column]:
    cap = max(10, screen.width // (8 if screen.width < _VERY_WIDE else 6))
    made = {
        "When": [_when(one, screen) for one in found],
        "File": [cut_start(_file(one, named), max(screen.width // 4, 20)) for one in found],
        "Id": [cut(shown_id(one.id, ids), _LONGEST_ID) for one in found],
        "Agent": [_agent(one, screen) for one in found],
        "Project": [_project(one.cwd, cap, screen) for one in found],
        "Branches": ["" if one.branches is None else f"{one.branches:,}" for one in found],
        "Turns": ["?" if one.turns is None else f"{one.turns:,}" for one in found],
        "Model": [cut(model_of(one), max(screen.width // 8, 15)) for one in found],
        "Cost": [cost_of_row(one) for one in found],
        "Size": [size_in_short(one.bytes) for one in found],
    }
    if all(one.turns is None for one in found):
        del made["Turns"]
    return [
        _Column(name, cells, max(len(name), *map(columns_of, cells)))
        for name, cells in made.items()
        if any(cells)
    ]


def _file(one: SessionInfo, named: Collection[str]) -> str:
    """The file of a session, if the user named it, as it is spelled from here."""
    return one_line(relative_path(one.file), _MAX) if one.file in named else ""


def _left(columns: Sequence[_Column], screen: Screen) -> int:
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
    title = cut(title_of(one, _MAX), space)
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
    path = with_tilde(cwd)
    if screen.width < _VERY_WIDE:
        return cut(project_in(path), cap)
    return cut_start(one_line(path, _MAX), cap)


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


_TITLE: Final = 60


@renders(SessionsFound)
def _(call: CommandCall, listed: SessionsFound) -> None:
    """Print sessions, each with the start of its id that no other there begins with.

    Those of files that the user named have the file in their rows.
    """
    found, given = listed.found, call.given
    if call.as_json:
        out_json_list(found)
        return
    ids = short_ids(one.id for one in listed.every)
    named = given.places if isinstance(given, SessionList) else ()
    if found and is_terminal():
        paged = not (isinstance(given, SessionList) and given.no_pager)
        show(table(found, ids, screen(), named), paged=paged)
    else:
        _out_lines(found, ids, named)


@renders(AcpListing)
def _(call: CommandCall, listed: AcpListing) -> None:
    if call.as_json:
        out_json_list(each._asdict() for each in listed.sessions)
        return
    for each in listed.sessions:
        title = one_line(each.title or "", _TITLE)
        out(f"{time_of(each.updated)}  {printable(each.id)}  {title}  {one_line(each.cwd, 200)}")
    if not listed.sessions:
        tell(f"{listed.agent} lists no sessions")


def _out_lines(found: list[SessionInfo], ids: Mapping[str, str], named: Collection[str]) -> None:
    """Print a line for each session, without a limit of its width."""
    width = max((len(shown_id(one.id, ids)) for one in found), default=0)
    for one in found:
        count = "" if one.branches is None else counted(one.branches, "branch", "branches")
        turns = "" if one.turns is None else counted(one.turns, "turn")
        id = f"{shown_id(one.id, ids):<{width}}"
        parts = (time_of(one.modified), f"{size_in_short(one.bytes):>8}", id)
        facts = (f"{agent_of(one):<11}", title_of(one, _TITLE), count, turns)
        about = (cost_of_row(one), note_of(one, ids), one_line(one.cwd or "", 200))
        out("  ".join(filter(None, (*parts, *facts, *about, _file(one, named)))))


@renders(TrashedSession)
def _(call: CommandCall, moved: TrashedSession) -> None:
    if call.method.name == "restore":
        out(moved.file)
        return
    out(moved.trashed)
    store = store_of_command()
    where = "" if store is None else f" --store {shlex.quote(shown(store))}"
    command = in_quotes(f"sessiontree restore{where}")
    call.note("{} lists the trash and restores sessions from it", command)


@renders(MovedSessions)
def _(call: CommandCall, made: MovedSessions) -> None:
    if call.as_json:
        out_json(made)
        return
    for line in made.commands:
        out(line)


@renders(RemovedSession)
def _(call: CommandCall, one: RemovedSession) -> None:
    files = counted(len(one.files), "file")
    out(f"{one.file}  trashed {time_of(one.trashed)}, {files}, {size_in_short(one.bytes)}")


@renders(RemovedSessions)
def _(call: CommandCall, done: RemovedSessions) -> None:
    assert isinstance(call.given, EmptyTrash)
    if call.as_json:
        out_json_list(done.removed)
    finish()
    verb = "Would remove" if call.given.dry_run else "Removed"
    freed = size_in_short(sum(one.bytes for one in done.removed))
    root = call.store.root
    tell(f"{verb} {counted(len(done.removed), 'session')} from the trash of {root}, {freed}")
    for problem in done.problems:
        tell(f"Error: {problem}")
    end(done.problems)


@arguments.command("hide", json="a list of the sessions")
@click.argument("sessions", metavar="SESSION…", nargs=-1, required=True, type=SESSION_FILE)
@click.option("--undo", is_flag=True, help="Bring the sessions back to the lists.")
def hide_sessions(sessions: tuple[str, ...], undo: bool, as_json: bool) -> None:
    """'ls', 'browse' and 'view' no longer list the sessions, and 'latest' never means one of them.
    'ls --hidden' lists them. 'search' and 'stats' still count them, and their ids still name them.
    No session file is touched, also not an agent's.

    \b
    Example:
      sessiontree hide 17e4c773
      sessiontree ls --hidden
      sessiontree hide --undo 17e4c773
    """
    found = [facts_of(file) for file in sessions]
    (unhide if undo else hide)({one.id for one in found})
    verb = "Brought back to" if undo else "Took off"
    for one in found:
        tell(f"{verb} the lists: {short_id(one.id)}  {title_of(one, _TITLE)}")
    if as_json:
        out_json_list(found)


@arguments.command("map-path", json="a list of the rules")
@click.argument("old", required=False)
@click.argument("new", required=False)
@click.option("--undo", is_flag=True, help="Remove the rule for OLD.")
def map_path(old: str | None, new: str | None, undo: bool, as_json: bool) -> None:
    """Sessions that were synced or copied from another machine name its folders. A rule says which
    folder here OLD is, and counts for everything below OLD. Without OLD, the rules are listed.

    Afterwards 'ls', 'stats', '--project' and 'move-project' take a session of OLD for one of NEW,
    'resume' continues it in NEW, and 'blame', 'history' and 'recover' know its files. If several
    rules match, the one with the longest OLD counts. No session file is touched.

    OLD is a whole path, also one of Windows, of which capitals do not matter.

    \b
    Example:
      sessiontree map-path /Users/me/work ~/work
      sessiontree map-path 'C:\\Users\\me\\work' ~/work
      sessiontree map-path
      sessiontree map-path --undo /Users/me/work
    """
    if undo is not (old is not None and new is None):
        raise click.UsageError("give OLD and NEW, or --undo and OLD, or neither for a list")
    rules = path_rules()
    if old is not None:
        rules = change_path_rules(old, None if new is None else os.path.abspath(new))
    if as_json:
        out_json_list(rules.rules)
        return
    if old is not None:
        told = "no longer mapped" if new is None else f"now {with_tilde(os.path.abspath(new))} here"
        tell(f"{old} is {told}")
        return
    for rule in rules.rules:
        out(f"{one_line(rule.old, _PATH)}  →  {with_tilde(one_line(rule.new, _PATH))}")


_ROLES: Final = {"user": "prompt", "tool": "tool", "assistant": ""}
_MATCH: Final = ("\x1b[1;31m", "\x1b[0m")


def lines(hits: Iterable[SearchHit], sessions: SessionsOfHits) -> Iterator[tuple[str, bool]]:
    """The lines to print where there is no screen, and whether each is a hit."""
    file = None
    for hit in hits:
        if hit.file != file:
            if file is not None:
                yield "", False
            file = hit.file
            yield _path_heading(hit, sessions.of(hit)), False
        yield _line(hit), True


SHOWN: Final = 3
"""The hits of each session on a screen."""


def rows(
    hits: Iterable[SearchHit],
    sessions: SessionsOfHits,
    screen: Screen,
    more: Callable[[SearchHit], str] | None = None,
    limit: int | None = None,
) -> Iterator[tuple[str, bool]]:
    """The rows to draw on a screen, and whether each is a hit, at most `limit` of them.

    `more` is the command for all hits of a session of which the screen has `SHOWN`; None: it has
    all hits of each session.
    """
    count = 0
    for _, in_file in groupby(hits, lambda hit: hit.file):
        found = sorted(in_file, key=_is_late)
        if count:
            yield "", False
        yield _heading(found[0], sessions.of(found[0]), screen), False
        left = None if limit is None else limit - count
        shown = found[: left if more is None else SHOWN if left is None else min(SHOWN, left)]
        for hit in shown:
            yield _row(hit, screen), True
        count += len(shown)
        if count == limit:
            break
        if more is not None and len(found) > len(shown):
            row = f"  … {len(found) - len(shown):,} more"
            how = f": {more(found[0])}"
            if columns_of(row + how) > screen.width:
                how = "; repeat the search with its id"
            yield screen.styled(cut(row + how, screen.width), "dim"), False
    if count:
        yield "", False
        yield screen.styled(cut(_HOW_TO_OPEN, screen.width), "dim"), False


_HOW_TO_OPEN: Final = "Open a hit: sessiontree tree ID --turn N, or sessiontree show ID REF"


def _is_late(hit: SearchHit) -> bool:
    """True if an entry is not a prompt or an answer without calls: these come first."""
    return hit.speaker not in ("user", "assistant") or bool(hit.tools)


def _search_of(given: Search, hit: SearchHit) -> str:
    """The command that shows all hits of a session."""
    name = relative_path(hit.file) if given.places else short_id(hit.session)
    flags = {
        "--regex": given.regex,
        "-i": given.ignore_case,
        "-s": given.case_sensitive,
        "--current": given.current,
        "--everything": given.everything,
        "--blobs": given.blobs,
    }
    options = [option for role in given.roles for option in ("--role", role)]
    options += ["--tool", given.tool] if given.tool else []
    options += ["--since", given.since] if given.since else []
    options += [flag for flag, is_given in flags.items() if is_given]
    return "sessiontree " + one_line(shlex.join(["search", given.pattern, name, *options]), 1000)


def _line(hit: SearchHit) -> str:
    role = one_line(hit.speaker or hit.type)
    text = marked(printable(hit.snippet), hit.matches, "«{}»".format)
    return f"  {short(hit.ref):<8}  {role:<10}  {time_of(hit.timestamp):<16}  {text}"


def _path_heading(hit: SearchHit, one: SessionInfo | None) -> str:
    heading = f"{one_line(relative_path(hit.file), 1000)}  session {_session(hit)}"
    if one is None:
        return heading
    return f"{heading}  {agent_of(one)}  {time_of(one.modified)}  {title_of(one, _TITLE)}"


def _heading(hit: SearchHit, one: SessionInfo | None, screen: Screen) -> str:
    if one is None:
        return cut(hit.file, screen.width)
    when = f"{_ago(one.modified, screen)} ago".replace("now ago", "now")
    facts = [_session(hit), when, agent_of(one)]
    facts += [one_line(project_in(one.cwd), 20)]
    about = " · ".join(filter(None, facts))
    title = cut(title_of(one, screen.width), max(10, screen.width - columns_of(about) - 2))
    return f"{screen.styled(title, 'title')}  {screen.styled(about, 'dim')}"


def _row(hit: SearchHit, screen: Screen) -> str:
    role = one_line(hit.speaker or hit.type)
    cells = [short(hit.ref), cut(role, 9), "" if hit.turn is None else f"turn {hit.turn}"]
    roles = ["number", _ROLES.get(role, "dim"), "dim"]
    widths = [8, 9, 9]
    if screen.width >= _WITH_TIMES:
        cells, roles, widths = [*cells, _ago(hit.timestamp, screen)], [*roles, "dim"], [*widths, 4]
    made = [
        screen.styled(filled(cell, width), style) if style else filled(cell, width)
        for cell, width, style in zip(cells, widths, roles, strict=True)
    ]
    left = screen.width - sum(widths) - 2 * (len(widths) + 1)
    opening, closing = _MATCH if screen.colour else ("«", "»")
    left -= 0 if screen.colour else 2 * len(hit.matches)
    text, matches = _fitted(hit, max(left, 10))
    snippet = marked(text, matches, lambda match: f"{opening}{match}{closing}")
    return "  " + "  ".join(made) + f"  {snippet}"


_WITH_TIMES: Final = 100
"""Columns from which on a hit has its time."""


def _ago(timestamp: str | None, screen: Screen) -> str:
    return briefly_ago(screen.now.timestamp() - moment(timestamp)) if timestamp else "?"


def _session(hit: SearchHit) -> str:
    return one_line(short_id(hit.session))


def _fitted(hit: SearchHit, width: int) -> tuple[str, list[tuple[int, int]]]:
    """A snippet cut to a width around its first match, and the matches that are left."""
    snippet, (start, end) = printable(hit.snippet), hit.match
    before, match, after = fitted(snippet[:start], snippet[start:end], snippet[end:], width)
    text = before + match + after
    gone = start - len(before)
    if match != snippet[start:end]:
        return text, [(len(before), len(text))]
    kept = len(before) + len(match) + len(after) - (after != snippet[end:])
    spans = ((max(a - gone, gone > 0), min(b - gone, kept)) for a, b in hit.matches)
    return text, [(a, b) for a, b in spans if a < b]


def fitted(before: str, match: str, after: str, width: int) -> tuple[str, str, str]:
    """The parts of a snippet, cut to a width around the match: a third of the rest before it."""
    match = cut(match, width)
    left = width - columns_of(match)
    space = max(left // 3, left - columns_of(after))
    while columns_of(before) > space:
        before = "…" + before.lstrip("…")[1:] if space else ""
    return before, match, cut(after, left - columns_of(before))


@renders(SearchedFiles)
def _(call: CommandCall, found: SearchedFiles) -> None:
    given, is_drawn = found.given, is_terminal() and not call.as_json
    with_facts, limit = call.as_json or is_drawn, None if is_drawn else given.limit
    with closing(found.hits(found.files, facts=with_facts, limit=limit)) as hits:
        if is_drawn:
            count = _show_hits(hits, found, has_one=len(found.files) == 1)
        elif call.as_json:
            count = out_json_list(described(flushed(hits), found.sessions))
        else:
            count = out_hits(flushed(hits), found.sessions)
    if count == given.limit:
        tell(f"Stopped at {given.limit:,} as --limit asks; there may be more")
    elif not count and not call.as_json:
        if found.files:
            tell(_nothing(found))
        else:
            tell(f"Nothing was searched. {none_found(found.places, found.selection)}")


def _show_hits(hits: Iterable[SearchHit], found: SearchedFiles, *, has_one: bool) -> int:
    """Draw hits, in the pager if they are many; the number of hits that were drawn."""
    given, count = found.given, 0

    def drawn() -> Iterator[str]:
        nonlocal count
        more = None if has_one else partial(_search_of, given)
        for row, is_hit in rows(hits, found.sessions, screen(), more, given.limit):
            count += is_hit
            yield row

    show(drawn(), paged=not given.no_pager)
    return count


def _nothing(found: SearchedFiles) -> str:
    given, is_partial = found.given, not found.has_large_texts and has_blobs(found.files)
    more = "; --blobs searches large texts too" if is_partial else ""
    if not given.everything:
        more += "; --everything also searches what programs keep for themselves"
    unknown = unknown_role(given.roles)
    more += f"; {unknown}" if unknown else ""
    return f"Nothing matches {given.pattern}{more}"


def flushed(hits: Iterable[SearchHit]) -> Iterator[SearchHit]:
    """The same hits; standard output is flushed after each."""
    for hit in hits:
        yield hit
        finish()


def out_hits(hits: Iterable[SearchHit], sessions: SessionsOfHits) -> int:
    """Print hits below the sessions that they are in; the number of hits."""
    count = 0
    for line, is_hit in lines(hits, sessions):
        write(line + "\n")
        count += is_hit
    return count
