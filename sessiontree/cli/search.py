"""The command that searches sessions: search. It writes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime

import click

from sessiontree.catalog.listing import listed
from sessiontree.catalog.search import SearchHit, Wanted
from sessiontree.catalog.search import search as hits_in
from sessiontree.cli.arguments import PATH, SESSION_FILE, json_option
from sessiontree.cli.output import out_json_list
from sessiontree.cli.store import Problems, moment_given, store_at
from sessiontree.cli.terminal import finish, from_here, out, out_marked, short, tell, told
from sessiontree.core.display import one_line
from sessiontree.errors import NotASessionError, SessionNotFoundError, UsageError
from sessiontree.storage.files import BLOBS
from sessiontree.text.pattern import Pattern


@click.command()
@click.argument("pattern")
@click.argument("place", metavar="[DIR|FILE]", required=False, type=SESSION_FILE)
@click.option("--regex", is_flag=True, help="PATTERN is a regular expression, of Python's re.")
@click.option("-i", "--ignore-case", is_flag=True, help="Letters match in either case.")
@click.option(
    "--role",
    "roles",
    metavar="ROLE",
    multiple=True,
    help="Only entries of this role; may be repeated.",
)
@click.option("--tool", metavar="NAME", help="Only calls of this tool, and their results.")
@click.option(
    "--since",
    metavar="TIME",
    callback=moment_given,
    help="Only entries written since a date, a time, or 30m, 12h, 7d, 2w ago.",
)
@click.option("--cwd", metavar="DIR", type=PATH, help="Only sessions of this working directory.")
@click.option("--current", is_flag=True, help="Only what is on a session's current path.")
@click.option("--blobs", is_flag=True, help="Also in large texts kept beside the file.")
@click.option("--limit", metavar="N", type=click.IntRange(1), help="Stop after so many.")
@json_option("a list of the entries found")
def search(
    pattern: str,
    place: str | None,
    regex: bool,
    ignore_case: bool,
    roles: tuple[str, ...],
    tool: str | None,
    since: datetime | None,
    cwd: str | None,
    current: bool,
    blobs: bool,
    limit: int | None,
    as_json: bool,
) -> None:
    """Search what was said, in all branches of all sessions.

    Without DIR or FILE where sessions are kept: the folder that SESSIONTREE_HOME names, or
    else your data folder.

    What is searched: all texts of an entry, such as messages, thoughts, what tools were
    given and gave, summaries, names and labels; not types, roles, ids and images. An
    accent matches however it is spelled, but in a regular expression. Each entry found
    is shown once, its first match marked. To find nothing is no failure: it is said, and
    the exit code is 0; test for the output, or --json's empty list.
    """
    looked_for = _pattern_given(pattern, regex=regex, ignore_case=ignore_case)
    wanted = Wanted(frozenset(roles), tool, since, current, blobs)
    problems = Problems()
    files = _files(place, cwd, problems)
    searching = hits_in(looked_for, files, wanted, problems, limit=limit, processes=None)
    with closing(searching) as hits:
        found = _Counted(as_they_come(hits))
        if as_json:
            out_json_list(found)
        else:
            out_hits(found)
    if found.count == limit:
        tell(f"Stopped at {limit:,}, as --limit asks; there may be more")
    elif not found.count and not as_json:
        tell(_nothing(pattern, files, place, cwd, blobs=blobs))
    problems.tell()


def _pattern_given(text: str, *, regex: bool, ignore_case: bool) -> Pattern:
    try:
        return Pattern(text, regex=regex, ignore_case=ignore_case)
    except UsageError as error:
        raise click.UsageError(told(str(error))) from error


def _nothing(
    pattern: str, files: list[str], place: str | None, cwd: str | None, *, blobs: bool
) -> str:
    """What is said where nothing was found."""
    if not files:
        of = "" if cwd is None else f" of {os.path.abspath(cwd)}"
        return f"Nothing was searched: there is no session{of} in {place or store_at(None).root}"
    aside = not blobs and any(os.path.isdir(os.path.realpath(f) + BLOBS) for f in files)
    more = "; --blobs looks in large texts too" if aside else ""
    return f"Nothing matches {pattern}{more}"


def _files(place: str | None, cwd: str | None, problems: Problems) -> list[str]:
    """The files to search, those named for a later time first."""
    if place is not None and not os.path.isdir(place):
        if not os.path.exists(place):
            raise SessionNotFoundError(f"there is no file or folder {place}; check the path", place)
        if not os.path.isfile(place):
            message = f"{place} is a device or a pipe; give a session file or a folder"
            raise NotASessionError(message, place)
        return _of_directory([place], cwd, problems)
    store = store_at(place)
    if cwd is not None and place is not None:
        about = os.path.abspath(cwd)
        return [one.file for one in store.iter_sessions(report=problems) if one.cwd == about]
    return store.paths(cwd=cwd, report=problems)


def _of_directory(files: list[str], cwd: str | None, problems: Problems) -> list[str]:
    if cwd is None:
        return files
    about = os.path.abspath(cwd)
    return [one.file for one in listed(files, problems) if one.cwd == about]


class _Counted(Iterator[SearchHit]):
    """Hits as they come, and in `count` how many there were so far."""

    def __init__(self, hits: Iterable[SearchHit]) -> None:
        self.count = 0
        self._hits = iter(hits)

    def __next__(self) -> SearchHit:
        hit = next(self._hits)
        self.count += 1
        return hit


def as_they_come(hits: Iterable[SearchHit]) -> Iterator[SearchHit]:
    """The same hits; what was printed of one is brought out before the next is looked for."""
    for hit in hits:
        yield hit
        finish()


def out_hits(hits: Iterable[SearchHit]) -> bool:
    """Print hits below their files; whether there were any."""
    file = None
    for hit in hits:
        if hit.file != file:
            if file is not None:
                out()
            file = hit.file
            out(f"{one_line(from_here(file), 1000)}  session {short(hit.session)}")
        start, end = hit.match
        said = one_line(hit.role or hit.type)
        before, match, after = hit.snippet[:start], hit.snippet[start:end], hit.snippet[end:]
        out_marked(f"  {short(hit.ref):<8}  {said:<10}  {before}", match, after)
    return file is not None
