"""The one session that a name, an id or `latest` stands for: of the store, or of an agent.

Invariants: the store counts first; of several files of one session, it is the one that changed
last. What a user may not expect of the choice is told.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Protocol

from sessiontree.catalog import lookup
from sessiontree.catalog.listing import (
    Reaches,
    SessionInfo,
    by_time,
    every,
    facts_of,
    moment,
    reading,
)
from sessiontree.catalog.places import Selection, files_in, sessions_in
from sessiontree.errors import RefError, SessionNotFoundError, SessionTreeError
from sessiontree.storage.files import Report
from sessiontree.storage.fs import DISK


class Own(Protocol):
    """The store."""

    root: str

    def find(self, ref: str, *, report: Report | None = None) -> SessionInfo: ...

    def list(self, *, report: Report | None = None) -> Sequence[SessionInfo]: ...


def find_session(
    name: str,
    store: Own,
    agents: Sequence[str],
    tell: Report,
    command: str = "sessiontree ls",
    reaches: Reaches = every,
) -> SessionInfo:
    """Find the session that a name, an id, the start of an id, or `latest` stands for.

    The store counts first; then the folders of `agents`. The start of an id counts in both. Of
    several files of one session, such as the original and a copy that another agent goes on with,
    it is the file that changed last. `tell` gets a line that says so, and one if an agent's file
    has more than its import. An error names the `command` that lists the sessions. Only files of
    agents that the caller `reaches` count.

    Raises:
        SessionNotFoundError: there is no such session.
        RefError: there is more than one.
    """
    problems: list[str] = []
    try:
        own = [store.find(name, report=problems.append)]
    except RefError as error:
        if error.candidates:
            raise
        own = []
    if own and not lookup.is_start_of(name, own[0]):
        found = own[0]
    else:
        found = _with_agents(name, own, store, agents, problems, tell, command, reaches)
    if found in own and name != lookup.LATEST:
        _tell_newer(found, agents, tell, reaches)
    return found


def tell_left_out(problems: Sequence[str], tell: Report) -> None:
    """Say on one line that files were not looked at, where no session was found."""
    if problems:
        files = "1 file" if len(problems) == 1 else f"{len(problems):,} files"
        tell(f"Left out: {files} that cannot be read as a session; the list of sessions names each")


def _with_agents(
    name: str,
    own: Sequence[SessionInfo],
    store: Own,
    agents: Sequence[str],
    problems: list[str],
    tell: Report,
    command: str,
    reaches: Reaches,
) -> SessionInfo:
    """The one session with a name or an id among those of the agents and of the store."""
    theirs = sessions_in(agents, Selection(), problems.append, reaches)
    among = [*own, *sorted(theirs, key=by_time, reverse=True)]
    if len(name) < lookup.SHORTEST_PREFIX:  # the message says so where an id starts with it
        among += store.list(report=lambda problem: None)
    one_each: dict[str, SessionInfo] = {}  # an import has the id of its original, and counts first
    for one in among:
        one_each.setdefault(one.id, one)
    where = f"in {store.root} or where agents keep theirs"
    try:
        newest = sorted(one_each.values(), key=by_time, reverse=True)
        found = lookup.find(name, newest, where, command)
    except RefError as error:
        if error.candidates:
            raise
        tell_left_out(problems, tell)
        raise SessionNotFoundError(f"there is no file {name}, and {error}", name) from error
    is_copied = any(one.id == found.id and one is not found for one in among)
    if is_copied and found.agent is not None and name != lookup.LATEST:
        tell(f"Reading the file of {found.agent}, which changed last: {found.file}")
    return found


def _tell_newer(own: SessionInfo, agents: Sequence[str], tell: Report, reaches: Reaches) -> None:
    """Say which file of an agent has more of a session of the store than the store has."""
    for file in files_in(agents, lambda problem: None, reaches):
        name = os.path.basename(file)
        if own.id[:8] not in name and name != own.imported_from:
            continue
        with contextlib.suppress(SessionTreeError, OSError):
            one = facts_of(file)
            if one.id == own.id and _is_newer(one, own):
                tell(f"{file} of {one.agent} changed later; import it to add what is new")


def _is_newer(one: SessionInfo, other: SessionInfo) -> bool:
    """Whether a file changed later, by its last entry and by where it is kept."""
    if moment(one.modified) <= moment(other.modified):
        return False
    changed = [reading(DISK, each.file).stat(each.file).modified for each in (one, other)]
    return changed[0] > changed[1]
