"""The command that searches sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

import click

from sessiontree.catalog.places import Selection, files_to_search
from sessiontree.catalog.search import SearchHit, Wanted, check_roles, described, has_blobs
from sessiontree.catalog.search import search as hits_in
from sessiontree.cli import arguments
from sessiontree.cli.hits import lines, rows
from sessiontree.cli.lookup import none_found, places_at
from sessiontree.cli.output import out_json_list
from sessiontree.cli.screen import screen
from sessiontree.cli.terminal import as_line, finish, is_terminal, tell, tell_each, write
from sessiontree.errors import UsageError
from sessiontree.text.pattern import AllOf, Pattern, query


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
