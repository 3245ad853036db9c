"""The sessions in some places, as one list: in a user's store, where agents keep theirs, or named.

A place is a folder, which is walked whole, an address, or a session file.

Invariants: a session that lies in two of the places is listed once; a folder or a session that
cannot be read is reported, and hides nothing else. An address is one that the user gave: if it
cannot be reached, that is an error, because a shorter list would look like an answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, Final, Literal, get_args

import msgspec

from sessiontree.agents import OWN
from sessiontree.core.paths import is_of_windows
from sessiontree.errors import SessionNotFoundError, SessionTreeError
from sessiontree.library.conversations import conversations, files_with_more
from sessiontree.library.homes import agent_at
from sessiontree.library.listing import (
    Reaches,
    SessionInfo,
    by_time,
    every,
    facts_in,
    facts_of,
    header_of,
    moment,
    reached,
    session_infos,
    without_stubs,
)
from sessiontree.library.path_rules import path_rules
from sessiontree.storage.names import FolderLinks, Report, is_database, is_file, session_files
from sessiontree.storage.places import Location, located
from sessiontree.storage.rollouts import in_force

Order = Literal["modified", "created", "size", "name"]
ORDERS: Final[tuple[Order, ...]] = get_args(Order)

_KEYS: Final[dict[Order, tuple[Callable[[SessionInfo], Any], bool]]] = {
    "modified": (by_time, True),
    "created": (lambda one: (moment(one.created), by_time(one)), True),
    "size": (lambda one: one.bytes, True),
    "name": (lambda one: (one.name is None, (one.name or "").casefold()), False),
}
"""For each order its key, and whether the greatest comes first."""


class Selection(msgspec.Struct, frozen=True):
    """Which sessions of a list count.

    Attributes:
        agents: those of these agents, by their short names; all if empty.
        project: those of this working directory or below it, by its path or names in it; None for
            all.
        since: those changed since then; None for all.
    """

    agents: frozenset[str] = frozenset()
    project: str | None = None
    since: datetime | None = None

    @property
    def is_all(self) -> bool:
        return not self.agents and self.project is None and self.since is None

    def takes(self, one: SessionInfo) -> bool:
        """Whether a session counts."""
        if self.agents and (one.made_by or OWN) not in self.agents:
            return False
        if self.since is not None and moment(one.modified) < self.since.timestamp():
            return False
        if self.project is None or one.cwd is None:
            return self.project is None
        cwds = [one.cwd, *path_rules().there(one.cwd)]
        return any(_is_of_project(cwd, self.project) for cwd in cwds)


def _is_of_project(cwd: str, project: str) -> bool:
    """True if a working directory is a path or below it, or has a name or names in its path."""
    if is_of_windows(cwd):  # which does not tell capitals from small letters
        cwd, project = cwd.casefold(), project.casefold()
    path = os.path.expanduser(project)
    own, asked = parts_of_path(cwd), parts_of_path(path)
    if project.startswith(("/", "~")) or {os.curdir, os.pardir} & set(asked):
        folders = (os.path.abspath(path), os.path.realpath(path))
        return any(own[: len(asked)] == asked for asked in map(parts_of_path, folders))
    if os.path.islink(path) and _is_of_project(cwd, os.path.realpath(path)):
        return True
    starts = range(len(own) - len(asked) + 1)
    return any(own[start : start + len(asked)] == asked for start in starts)


def parts_of_path(path: str) -> list[str]:
    """The names in a path, also one of Windows."""
    return list(filter(None, path.replace("\\", "/").split("/")))


def project_in(cwd: str | None) -> str:
    """The name of the project of a working directory: the last name in its path."""
    return next(reversed(parts_of_path(cwd or "")), cwd or "")


def is_folder(place: str) -> bool:
    """Whether a place is a folder, or an address that is not that of one session."""
    return os.path.isdir(place) or _is_store(located(place))


def _is_store(at: Location) -> bool:
    return at.place is not None and not at.is_session


def files_in(places: Iterable[str], report: Report, reaches: Reaches = every) -> Iterator[str]:
    """The paths of the session files in some places, one for each session, unordered.

    Only files that the caller `reaches`; the others hide none of them. A folder that is not there
    holds none; one that cannot be read is reported. Links to folders are followed where agents keep
    their sessions.

    Raises:
        StorageError: an address cannot be reached.
    """
    return in_force(reached(_all_files(places, report, reaches), reaches, report))


def _all_files(places: Iterable[str], report: Report, reaches: Reaches) -> Iterator[str]:
    def follows(link: str) -> bool:
        return agent_at(link) is not None and any(reached([link], reaches, report))

    places = list(places)
    links = FolderLinks((place for place in places if located(place).place is None), follows)
    seen: set[str] = set()
    for place in places:
        at = located(place)
        real = os.path.realpath(place) if at.place is None else ""
        for file in _files_of(place, at, report, links):
            below = file[len(place) :].lstrip(os.sep) if real else file
            path = os.path.join(real, below) if below else real
            if path not in seen:
                seen.add(path)
                yield file


def _files_of(place: str, at: Location, report: Report, links: FolderLinks) -> Iterator[str]:
    if is_database(place):
        yield from session_files(place, report)
        return
    if is_file(place) or at.is_session:
        yield place
        return
    if at.place is not None:
        from sessiontree.library.catalogs import Remote  # few stores have an address

        yield from Remote(at.place, at.name).files(None, report)
        return
    try:
        yield from session_files(place, report, links)
    except SessionNotFoundError:
        return
    except SessionTreeError as error:
        report(str(error))


def conversations_in(
    places: Sequence[str], selection: Selection, report: Report, reaches: Reaches = every
) -> list[SessionInfo]:
    """The selected conversations in some places, a row each; raises as `sessions_in`."""
    return [*filter(selection.takes, conversations(sessions_in(places, report, reaches)))]


def sessions_in(
    places: Sequence[str], report: Report, reaches: Reaches = every
) -> Iterator[SessionInfo]:
    """The files of sessions in some places, in no fixed order; only those the caller `reaches`.

    Raises:
        SessionTreeError: a place is a file or the address of a session, and not a session.
        StorageError: an address cannot be reached.
    """
    remote = [at for at in map(located, places) if _is_store(at)]
    others = [place for place in places if not _is_store(located(place))]
    look = _looking_in(others)
    found = session_infos(files_in(others, report, reaches), report, look)
    if remote:
        found = _once(chain(found, _infos_at(remote, report)))
    return found


def _once(found: Iterable[SessionInfo]) -> Iterator[SessionInfo]:
    seen = set[str]()
    for one in found:
        if one.file not in seen:
            seen.add(one.file)
            yield one


def _infos_at(stores: Iterable[Location], report: Report) -> Iterator[SessionInfo]:
    from sessiontree.library.catalogs import Remote  # few stores have an address

    for place, name in stores:
        if place is not None:
            yield from Remote(place, name).infos(None, report)


def in_order(found: Iterable[SessionInfo], order: Order) -> list[SessionInfo]:
    """Sessions in an order."""
    key, is_reversed = _KEYS[order]
    return sorted(found, key=key, reverse=is_reversed)


def _looking_in(places: Sequence[str]) -> Callable[[str], SessionInfo]:
    """A function that gives the facts of a file in some places."""
    folders = []
    for place in places:
        at = located(place)
        if (is_file(place) and not is_database(place)) or at.is_session:
            facts_of(place)
        elif at.place is None:
            folders.append(os.path.join(place, ""))

    def look(file: str) -> SessionInfo:
        folder = next((folder for folder in folders if file.startswith(folder)), None)
        return facts_of(file) if folder is None else facts_in(folder, file)

    return look


def files_to_search(
    places: Sequence[str], selection: Selection, report: Report, reaches: Reaches = every
) -> dict[str, SessionInfo]:
    """The files of the conversations in some places, each with the row of its conversation.

    The conversation with the latest activity comes first. All chats of a session and all copies
    that may have more than others are included. Only files that the caller `reaches`.

    Raises:
        SessionTreeError: a place is a file, and not a session.
        StorageError: an address cannot be reached, or has no session.
    """
    for place in places:
        if located(place).is_session:
            header_of(place)
    files = without_stubs(files_in(places, report, reaches))
    look = _looking_in(places)
    each = (one for file in files for one in session_infos([file], report, look))
    rows = sorted(filter(selection.takes, conversations(each)), key=by_time, reverse=True)
    return {file: row for row in rows for file in files_with_more(row)}
