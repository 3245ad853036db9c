"""The store that a command is about, and the sessions in it."""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
from collections.abc import Iterator, Sequence

from sessiontree.catalog.counts import Counter, cache_folder
from sessiontree.catalog.homes import agent_folders
from sessiontree.catalog.listing import SessionInfo, by_time, facts_of, moment
from sessiontree.catalog.lookup import LATEST, SHORTEST_PREFIX, find, is_start_of
from sessiontree.catalog.places import Selection, files_in, sessions_in
from sessiontree.cli.terminal import Progress, counted, tell
from sessiontree.core.counts import Counts
from sessiontree.errors import (
    NotASessionError,
    RefError,
    SessionNotFoundError,
    SessionTreeError,
)
from sessiontree.storage.files import Report, unreadable
from sessiontree.store import HOME_VARIABLE, Store


def store_at(folder: str | None) -> Store:
    """The store in a folder, which must exist; by default this user's."""
    if folder is None:
        store = Store()
        if os.path.isfile(store.root):
            raise SessionNotFoundError(
                f"{store.root}, the default store, is a file, not a folder; if {HOME_VARIABLE} "
                "names it, change the variable",
                store.root,
            )
        return store
    if os.path.isfile(folder):
        raise SessionNotFoundError(f"{folder} is a file, not a folder of sessions", folder)
    if os.path.isdir(folder):
        return Store(folder)
    try:
        os.stat(folder)
    except PermissionError as error:
        raise unreadable(folder, error) from error
    except OSError:
        pass
    raise SessionNotFoundError(f"there is no folder {folder}; check the path", folder)


def places_at(named: Sequence[str] = ()) -> list[str]:
    """The places of sessions: those named; else the user's store, and the folders of the agents."""
    if named:
        return [_place_at(place) for place in named]
    return [store_at(None).root, *agent_folders()]


def _place_at(place: str) -> str:
    """A folder, or a session file, which must exist."""
    if os.path.isdir(place):
        return os.path.abspath(place)
    try:
        kind = os.stat(place).st_mode
    except (FileNotFoundError, NotADirectoryError):
        message = f"there is no file or folder {place}; check the path"
        raise SessionNotFoundError(message, place) from None
    except OSError as error:
        raise unreadable(place, error) from error
    if not stat.S_ISREG(kind):
        message = f"{place} is a device or a pipe; give a session file or a folder"
        raise NotASessionError(message, place)
    return place


def read_sessions(places: Sequence[str], selection: Selection, report: Report) -> list[SessionInfo]:
    """The sessions in some places, with the progress on a terminal."""
    found: list[SessionInfo] = []
    with Progress("Reading sessions") as shown:
        for one in sessions_in(places, selection, report):
            found.append(one)
            shown(len(found), None)
    return found


def counts_of(
    found: Sequence[SessionInfo], at_once: int | None = None
) -> Iterator[tuple[SessionInfo, Counts | None]]:
    """Each session with its counts, which are kept for the next time; see `Counter.counted`."""
    counter = Counter(cache_folder())
    with Progress("Counting sessions") as shown:
        for number, each in enumerate(counter.counted(found, at_once), 1):
            yield each
            shown(number, len(found))
    counter.save()


def none_found(places: Sequence[str], selection: Selection) -> str:
    """The message for a list without a session."""
    where = ", ".join(places)
    if places == places_at():
        where = places[0] if len(places) == 1 else f"{places[0]} or where agents keep theirs"
    if selection.is_all:
        return f"No session in {where}"
    return f"No session in {where} is of the agent, the project and the time that are asked for"


def find_file(name: str) -> str:
    """The file of the one session with a name or an id, or `latest`.

    The user's store counts first; then the sessions that agents keep. The start of an id counts in
    both. Of several files of one session, such as the original and a copy that another agent goes
    on with, it is the file that changed last. A line on standard error says so, and if an agent's
    file has more than its import.
    """
    problems: list[str] = []
    store = store_at(None)
    try:
        own = [store.find(name, report=problems.append)]
    except RefError as error:
        if error.candidates:
            raise
        own = []
    if own and not is_start_of(name, own[0]):
        found = own[0]
    else:
        found = _with_agents(name, own, store, problems)
    if found in own and name != LATEST:
        _tell_newer(found)
    return found.file


def _with_agents(
    name: str, own: Sequence[SessionInfo], store: Store, problems: list[str]
) -> SessionInfo:
    """The one session with a name or an id among those of the agents and of the store."""
    agents = sessions_in(agent_folders(), Selection(), problems.append)
    among = [*own, *sorted(agents, key=by_time, reverse=True)]
    if len(name) < SHORTEST_PREFIX:  # the message says so where an id starts with it
        among += store.list(report=lambda problem: None)
    one_each: dict[str, SessionInfo] = {}  # an import has the id of its original, and counts first
    for one in among:
        one_each.setdefault(one.id, one)
    where = f"in {store.root} or where agents keep theirs"
    try:
        found = find(name, list(one_each.values()), where, "sessiontree ls")
    except RefError as error:
        if error.candidates:
            raise
        report_left_out(problems)
        raise SessionNotFoundError(f"there is no file {name}, and {error}", name) from error
    is_copied = any(one.id == found.id and one is not found for one in among)
    if is_copied and found.agent is not None and name != LATEST:
        tell(f"Reading the file of {found.agent}, which changed last: {found.file}")
    return found


def report_left_out(problems: Sequence[str]) -> None:
    """Say on one line that files were not looked at, where no session was found."""
    if problems:
        files = counted(len(problems), "file")
        tell(f"Left out: {files} that cannot be read as a session; 'sessiontree ls' names each")


def _tell_newer(own: SessionInfo) -> None:
    """Say which file of an agent has more of a session of the store than the store has."""
    for file in files_in(agent_folders(), lambda problem: None):
        name = os.path.basename(file)
        if own.id[:8] not in name and name != own.imported_from:
            continue
        with contextlib.suppress(SessionTreeError, OSError):
            one = facts_of(file)
            if one.id == own.id and _is_newer(one, own):
                tell(
                    f"{file} of {one.agent} changed later; to add what is new: sessiontree import "
                    f"{shlex.quote(file)}"
                )


def _is_newer(one: SessionInfo, other: SessionInfo) -> bool:
    """Whether a file changed later, by its last entry and by the file system."""
    if moment(one.modified) <= moment(other.modified):
        return False
    return os.stat(one.file).st_mtime_ns > os.stat(other.file).st_mtime_ns


def relative_path(file: str) -> str:
    """The path of a file; relative to the current directory where the file is below that."""
    below = os.path.relpath(file)
    return file if below.startswith(os.pardir) else below
