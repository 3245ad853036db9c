"""The store that a command is about, and the sessions in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from sessiontree.catalog.counting import AT_ONCE, Counter, cache_folder
from sessiontree.catalog.homes import agent_folders
from sessiontree.catalog.listing import SessionInfo
from sessiontree.catalog.lookup import find, is_start_of
from sessiontree.catalog.places import Selection, sessions_in
from sessiontree.cli.terminal import tell_each
from sessiontree.errors import RefError, SessionNotFoundError
from sessiontree.storage.files import Report, unreadable
from sessiontree.store import HOME_VARIABLE, Store, by_time


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


def places_at(folder: str | None) -> list[str]:
    """The folders of sessions: the one named; else the user's store, and those of the agents."""
    store = store_at(folder)
    return [store.root] if folder is not None else [store.root, *agent_folders()]


def counted_sessions(
    found: Sequence[SessionInfo],
    at_once: int | None = AT_ONCE,
    shown: Callable[[float, float | None], object] = lambda done, total: None,
) -> list[SessionInfo]:
    """Sessions with their counts, which are kept for the next time; `shown` gets the progress."""
    counter = Counter(cache_folder())
    counted: list[SessionInfo] = []
    for one in counter.counted(found, at_once):
        counted.append(one)
        shown(len(counted), len(found))
    counter.save()
    return counted


def none_found(places: Sequence[str], selection: Selection) -> str:
    """The message for a list without a session."""
    where = places[0] if len(places) == 1 else f"{places[0]} or where agents keep theirs"
    if selection.is_all:
        return f"No session in {where}"
    return f"No session in {where} is of the agent, the project and the time that are asked for"


def find_file(name: str) -> str:
    """The file of the one session with a name or an id, or `latest`.

    The user's store counts first; then the sessions that agents keep. The start of an id counts in
    both.
    """
    problems: list[str] = []
    store = store_at(None)
    try:
        own = store.find(name, report=problems.append)
        if not is_start_of(name, own):
            return own.file
        return _with_agents(name, [own], problems.append).file
    except RefError as error:
        if error.candidates:
            raise
        missing = error
    try:
        return _with_agents(name, [], problems.append).file
    except RefError as error:
        if error.candidates:
            raise
    tell_each("Left out", problems)
    raise SessionNotFoundError(f"there is no file {name}, and {missing}", name) from missing


def _with_agents(name: str, own: Sequence[SessionInfo], report: Report) -> SessionInfo:
    """The one session with a name or an id among those of the agents and of the store."""
    _, *places = places_at(None)
    ids = {one.id for one in own}  # an import has the id of its original, and counts first
    agents = [one for one in sessions_in(places, Selection(), report) if one.id not in ids]
    among = [*own, *sorted(agents, key=by_time, reverse=True)]
    return find(name, among, "of the store or of the agents", "sessiontree ls")


def relative_path(file: str) -> str:
    """The path of a file; relative to the current directory where the file is below that."""
    below = os.path.relpath(file)
    return file if below.startswith(os.pardir) else below
