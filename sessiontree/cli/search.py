"""The command that searches sessions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

import click

from sessiontree.catalog.listing import session_infos
from sessiontree.catalog.search import SearchHit, Wanted
from sessiontree.catalog.search import search as hits_in
from sessiontree.cli import arguments
from sessiontree.cli.arguments import SESSION_FILE
from sessiontree.cli.lookup import relative_path, sessions_in, store_at
from sessiontree.cli.output import out_json_list
from sessiontree.cli.terminal import as_line, finish, out, out_marked, short, tell, tell_each
from sessiontree.core.display import one_line
from sessiontree.errors import NotASessionError, SessionNotFoundError, UsageError
from sessiontree.storage.files import BLOBS, Report
from sessiontree.text.pattern import Pattern


@arguments.command("search", json="a list of the entries found")
@click.argument("pattern")
@click.argument("place", metavar="[DIR|FILE]", required=False, type=SESSION_FILE)
@click.option("--regex", is_flag=True, help="PATTERN is a regular expression, as in Python.")
@click.option("-i", "--ignore-case", is_flag=True, help="Do not distinguish A and a.")
@click.option("--role", "roles", metavar="ROLE", multiple=True, help="Find only entries of ROLE.")
@click.option("--tool", metavar="NAME", help="Find only calls and results of this tool.")
@arguments.time("--since", "Find only entries since this time")
@arguments.cwd
@click.option("--current", is_flag=True, help="Find only entries on the current path.")
@click.option("--blobs", is_flag=True, help="Also search large texts, which are stored as blobs.")
@click.option("--limit", metavar="N", type=click.IntRange(1), help="Stop after N entries.")
def search(
    pattern: str,
    place: str | None,
    regex: bool,
    ignore_case: bool,
    roles: tuple[str, ...],
    cwd: str | None,
    limit: int | None,
    as_json: bool,
    **only: Any,
) -> None:
    """The command searches the sessions in DIR, or the session FILE. Without DIR or FILE, it
    searches the store (see 'sessiontree ls --help').

    The command searches messages, thinking, tool calls, tool results, summaries, names and labels.
    The command does not search types, roles, ids or images. An accented letter matches in any
    Unicode form, except with --regex. Each entry is shown once, with its first match marked. The
    exit code is 0 even if nothing is found. You can give --role more than once.
    """
    try:
        looked_for = Pattern(pattern, regex=regex, ignore_case=ignore_case)
    except UsageError as error:
        raise click.UsageError(as_line(str(error))) from error
    wanted = Wanted(frozenset(roles), **only)
    problems: list[str] = []
    files = _files(place, cwd, problems.append)
    searching = hits_in(looked_for, files, wanted, problems.append, limit=limit, processes=None)
    with closing(searching) as hits:
        found = out_json_list(flushed(hits)) if as_json else out_hits(flushed(hits))
    if found == limit:
        tell(f"Stopped at {limit:,} as --limit asks; there may be more")
    elif not found and not as_json:
        tell(_nothing(pattern, files, place, cwd, blobs=wanted.blobs))
    tell_each("Left out", problems)


def _nothing(
    pattern: str, files: list[str], place: str | None, cwd: str | None, *, blobs: bool
) -> str:
    if not files:
        of = "" if cwd is None else f" of {os.path.abspath(cwd)}"
        return f"Nothing was searched: there is no session{of} in {place or store_at(None).root}"
    has_blobs = not blobs and any(os.path.isdir(os.path.realpath(f) + BLOBS) for f in files)
    more = "; --blobs searches large texts too" if has_blobs else ""
    return f"Nothing matches {pattern}{more}"


def _files(place: str | None, cwd: str | None, report: Report) -> list[str]:
    if place is not None and not os.path.isdir(place):
        if not os.path.exists(place):
            raise SessionNotFoundError(f"there is no file or folder {place}; check the path", place)
        if not os.path.isfile(place):
            message = f"{place} is a device or a pipe; give a session file or a folder"
            raise NotASessionError(message, place)
        if cwd is None:
            return [place]
        about = os.path.abspath(cwd)
        return [one.file for one in session_infos([place], report) if one.cwd == about]
    store = store_at(place)
    if cwd is not None and place is not None:
        return [one.file for one in sessions_in(store, place, cwd, report)]
    return store.paths(cwd=cwd, report=report)


def flushed(hits: Iterable[SearchHit]) -> Iterator[SearchHit]:
    """The same hits; standard output is flushed after each."""
    for hit in hits:
        yield hit
        finish()


def out_hits(hits: Iterable[SearchHit]) -> int:
    """Print hits below the names of their files; the number of hits."""
    file, count = None, 0
    for hit in hits:
        count += 1
        if hit.file != file:
            if file is not None:
                out()
            file = hit.file
            out(f"{one_line(relative_path(file), 1000)}  session {short(hit.session)}")
        start, end = hit.match
        role = one_line(hit.speaker or hit.type)
        before, match, after = hit.snippet[:start], hit.snippet[start:end], hit.snippet[end:]
        out_marked(f"  {short(hit.ref):<8}  {role:<10}  {before}", match, after)
    return count
