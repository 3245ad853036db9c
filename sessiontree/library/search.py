"""Search: the entries of many sessions that match a pattern, with their turns.

Raw bytes are searched first (`text.pattern`), and only a line that may match is decoded.
`text.preview` defines what counts as text. Each entry that matches is one hit, its first match
marked. The turns that hits are in have their numbers in `views.turns`: what a subagent did, and
what is above the first prompt, has none.

Invariants: an entry whose text matches is always found, however its line spells it; what cannot be
read is reported, and hides nothing else; nothing is changed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from sessiontree.agents.codex.names import rollout_of
from sessiontree.errors import AgentRecordError, SessionTreeError, UsageError
from sessiontree.library.changes import changes_of
from sessiontree.library.listing import SessionInfo, facts_of
from sessiontree.library.search_file import CHAT, FileSearch, SearchFilter, SearchHit
from sessiontree.operations.workers import Each, ProcessPool, available, nothing
from sessiontree.storage.fs import DISK
from sessiontree.storage.names import BLOBS, Report, problem_of
from sessiontree.storage.place import LikelyNames, is_address
from sessiontree.storage.places import located
from sessiontree.storage.scanner import Scanner
from sessiontree.text.pattern import AllOf, Pattern, Prefilter

NO_ROWS: Final[Mapping[str, SessionInfo | None]] = {}

WORTH_SHARING: Final = 32_000_000
"""Bytes from which a second process saves more time than its start costs."""

ROLES: Final = (
    *("user", "assistant", "tool", "prompt", "system", "developer", "model", "toolResult"),
    *("bashExecution", "custom"),
)


def check_roles(roles: Iterable[str]) -> None:
    """Refuse a role that is a known one spelled wrongly; programs may store roles of their own.

    Raises:
        UsageError: the role, and the one that is meant.
    """
    from difflib import get_close_matches  # only a search with roles needs it

    for role in roles:
        near = get_close_matches(role.casefold(), ROLES, 1, 0.75)
        if near and role not in ROLES:
            known = ", ".join(ROLES)
            raise UsageError(
                f"there is no role {role!r}; did you mean {near[0]}? The roles are {known}"
            )


def unknown_role(roles: Iterable[str]) -> str | None:
    """What to say of a role that no entry was found of, because it may be no role at all."""
    unknown = next((role for role in roles if role not in ROLES), None)
    known = ", ".join(ROLES)
    return unknown and f"{unknown!r:.100} is not a known role; the known ones are {known}."


def search(
    pattern: Pattern | AllOf,
    files: Sequence[str],
    wanted: SearchFilter,
    report: Report,
    *,
    limit: int | None = None,
    processes: int | None = 1,
    each: Each = nothing,
    rows: Mapping[str, SessionInfo | None] = NO_ROWS,
) -> Generator[SearchHit, None, None]:
    """The hits in files, at most `limit`, as they are found: file by file, in file order.

    An entry that several files of one conversation have, such as chats of Gemini CLI, or an
    original and what it was converted to, is one hit, in the first of them. `rows` gives the
    conversations of files, whose ids count where a file lost its own. `processes` share the
    files; None: as many as are worth it. The others end when the iterator is closed.
    `report` is called for each file and line that cannot be read, `each` with the number of each
    file before it is searched.
    """
    if limit is not None and limit < 1:
        return
    processes = processes_for(files, processes)
    scanner = Scanner()
    likely = CandidateSessions(files, None if wanted.blobs else pattern.sought)
    known: dict[tuple[str, ...], str] = {}  # the file of each hit, by what copies have in common

    def found_in(file: str) -> Iterator[SearchHit | str]:
        if not likely.has(file):
            return iter(())
        return _found_in(file, pattern, wanted, scanner)

    crew = ProcessPool(found_in, msgspec.msgpack.encode, _decode_found, processes)
    with closing(crew.results(files, each)) as results:
        given = 0
        for found in results:
            if isinstance(found, str):
                report(found)
                continue
            found = _with_whole_id(found, rows.get(found.file))
            if [key for key in _keys(found) if known.setdefault(key, found.file) != found.file]:
                continue
            yield found
            given += 1
            if given == limit:
                return


def _with_whole_id(hit: SearchHit, row: SessionInfo | None) -> SearchHit:
    """The hit, with the whole id of its session if its file has lost that."""
    if row is None or hit.session == row.id or not row.id.startswith(hit.session):
        return hit
    return replace(hit, session=row.id)


def _keys(hit: SearchHit) -> Iterator[tuple[str, ...]]:
    """What a hit has in common with hits in copies: its entry, or in a converted copy its words."""
    yield hit.session, hit.ref
    if hit.timestamp is not None:
        yield hit.session, hit.timestamp, hit.snippet


_decode_found: Final = msgspec.msgpack.Decoder(SearchHit | str).decode


def processes_for(files: Collection[str], wanted: int | None = None) -> int:
    """How many processes share files; `wanted` None: one if there is little to read.

    One where a session is in a place that a forked process cannot use.
    """
    processes = _worth(files) if wanted is None else wanted
    return processes if processes < 2 or all(map(_forks, files)) else 1


def _forks(file: str) -> bool:
    place = located(file).place
    return place is None or place.forks


def _worth(files: Iterable[str]) -> int:
    size = 0
    for file in files:
        with suppress(OSError):
            size += DISK.stat(file).size
        if size >= WORTH_SHARING:
            return available()
    return 1


def _found_in(
    file: str, pattern: Pattern | AllOf, wanted: SearchFilter, scanner: Scanner
) -> Iterator[SearchHit | str]:
    problems: list[str] = []
    try:
        hits = FileSearch(file, pattern, wanted, scanner, problems.append).hits()
        if wanted.facts:
            hits = with_turns(hits)
        yield from hits
    except AgentRecordError:
        return
    except Exception as error:
        problems.append(problem_of(file, error))
    yield from problems


class CandidateSessions:
    """Which sessions may have a hit, as the servers say that can search; some at a time."""

    def __init__(self, files: Sequence[str], sought: Prefilter | None) -> None:
        self._files = files
        self._sought = sought
        self._next = 0
        self._count = 4  # asked about at once; few, so that the first hit comes soon
        self._known: dict[str, bool] = {}

    def has(self, file: str) -> bool:
        if self._sought is None or not is_address(file):
            return True
        while file not in self._known and self._next < len(self._files):
            self._ask(self._files[self._next : self._next + self._count], self._sought)
            self._next += self._count
            self._count = min(2 * self._count, 128)
        return self._known.get(file, True)

    def _ask(self, files: Sequence[str], sought: Prefilter) -> None:
        self._known = {}
        asked: dict[LikelyNames, dict[str, str]] = {}
        for file in files:
            place, name = located(file)
            if place is not None and place.likely is not None and rollout_of(file) is None:
                asked.setdefault(place.likely, {})[name] = file
        for likely, names in asked.items():
            with suppress(SessionTreeError):  # which each session will tell then
                found = likely(names, sought, CHAT)
                self._known.update((file, name in found) for name, file in names.items())


class SessionsOfHits:
    """The facts of the sessions that hits are in, each read once.

    A session has the name of its conversation; `rows` gives that of each file.
    """

    def __init__(self, rows: Mapping[str, SessionInfo | None]) -> None:
        self._rows = rows
        self._file = ""
        self._facts: SessionInfo | None = None

    def of(self, hit: SearchHit) -> SessionInfo | None:
        """The facts of a hit's session; None if they cannot be read any more."""
        if self._file != hit.file:
            self._file, self._facts = hit.file, None
            with suppress(SessionTreeError):
                facts, row = facts_of(hit.file), self._rows.get(hit.file)
                given = None if row is None else row.name
                self._facts = replace(facts, name=given or facts.name)
        return self._facts


def has_blobs(files: Iterable[str]) -> bool:
    """True if a session has blobs; of those at addresses, only the first ones are looked at."""
    left = 20  # each is one request
    for file in files:
        place, name = located(file)
        if place is None:
            if os.path.isdir(os.path.realpath(name) + BLOBS):
                return True
        elif left:
            left -= 1
            with suppress(SessionTreeError):
                if any(key.startswith(f"{name}{BLOBS}/") for key, _ in place.beside(name)):
                    return True
    return False


def described(hits: Iterable[SearchHit], sessions: SessionsOfHits) -> Iterator[dict[str, Any]]:
    """Hits as `search --json` prints them, with the facts of their sessions."""
    for hit in hits:
        one = sessions.of(hit)
        about = {} if one is None else {"agent": one.made_by, "cwd": one.cwd}
        title = None if one is None else one.title
        yield {**msgspec.to_builtins(hit), "title": title, **about}


LARGEST: Final = 128_000_000
"""The largest session whose turns are numbered, in bytes: all of it is read, 40 MB a second."""


def with_turns(hits: Iterable[SearchHit]) -> Iterator[SearchHit]:
    found = list(hits)
    numbers = _numbers(found[0].file) if found else {}
    for hit in found:
        yield replace(hit, turn=numbers.get(hit.ref))


def _numbers(file: str) -> dict[str, int]:
    try:
        change = changes_of([file])[file]
        if change is None or change.size > LARGEST:
            return {}
        from sessiontree.session import Session  # a search of entries needs neither
        from sessiontree.views.turns import numbers_of

        with Session.open(file, readonly=True) as session:
            return numbers_of(session.cursor)
    except (SessionTreeError, OSError):  # the search reports what it cannot read
        return {}
