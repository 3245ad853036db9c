"""Scope: the sessions that the calls of one dispatcher may reach, and whether they may write.

Invariants: in a confined scope no call reads or makes a file outside the places, whatever the path,
the id or the links in it, and none connects to an address outside them; without `write` no call
changes or makes a file; nothing is opened to find out, so no server hears of an address that leads
elsewhere; an address that lies below is given back in the spelling of the place, with none of its
own options.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Final

from sessiontree.agents import OWN
from sessiontree.errors import RefError, SessionNotFoundError, UsageError
from sessiontree.library.homes import agent_folders
from sessiontree.library.listing import SessionInfo, by_time
from sessiontree.library.lookup import LATEST, find_conversation, to_read, to_write
from sessiontree.library.places import Selection, conversations_in, project_in
from sessiontree.ops.guidance import Refusal, ambiguous, nearest
from sessiontree.storage.names import Report
from sessiontree.storage.place import (
    Address,
    address,
    address_of,
    is_address,
    is_url,
    names_place,
    path_of,
    whole_path,
    without_secret,
)
from sessiontree.store import Store

if TYPE_CHECKING:
    from sessiontree.handles.registry import Registry


def below(given: str, place: str) -> str | None:
    """A path or an address as it is to be used, if it is a place or lies below it; else None.

    An address without options is one with those of the place.
    """
    try:
        if names_place(given) != names_place(place):
            return None
        if names_place(given):
            return _address_below(address(given), address(place))
        path = path_of(given)
    except UsageError:  # no address at all, or the file of another machine
        return None
    return path if is_path_below(path, place) else None


def is_path_below(path: str, folder: str) -> bool:
    """Whether a path, its links followed, is a folder or below it."""
    try:
        real = os.path.realpath(path)
    except ValueError:  # a NUL in it
        return False
    return os.path.join(real, "").startswith(os.path.join(os.path.realpath(folder), ""))


def address_in(place: str, name: str) -> str | None:
    """The address of a name that begins in a place at an address; None if it leads elsewhere."""
    at = address(place)
    return _address_below(at._replace(name=f"{at.name.rstrip('/')}/{name}".removeprefix("/")), at)


def _address_below(given: Address, place: Address) -> str | None:
    if given.shown != place.shown or given.shown_options not in ((), place.shown_options):
        return None
    name, start = given.name.rstrip("/"), place.name.strip("/")
    if "\0" in name or (name and any(part in ("", ".", "..") for part in name.split("/"))):
        return None
    if start and name != start and not name.startswith(f"{start}/"):
        return None
    return address_of(place.shown, name, place.shown_options)


_ENDINGS: Final = (".jsonl", ".zst", ".json")
_LONGEST: Final = 4096
"""Characters of a name or a path; a longer one would only cost time."""

_LONGEST_NAME: Final = 200
"""Characters of the name of a project that are compared with others."""

_MAX_NAMED: Final = 5

ASK_TO_WRITE: Final = "Ask the user to allow writing, or go on without writing."
"""The next step where calls may not write; a program may add how it is allowed."""

ASK_FOR_PROJECT: Final = "Ask the user to name the folder of the project."
"""The next step where calls may read the files of no project; a program may add how."""


class Scope:
    """What calls may reach.

    Args:
        root: the folder or the address of the store; by default the user's.
        agents: whether the sessions of known agents count, too.
        confined: whether calls stay in these places; else a path may lead anywhere.
        write: whether calls may change sessions and make files.
        redact: whether secrets are masked in what calls answer.
        projects: the folders of the files that agents changed, which calls may read, not write.
    """

    def __init__(
        self,
        root: str | None = None,
        *,
        agents: bool = True,
        confined: bool = True,
        write: bool = False,
        redact: bool = False,
        projects: Iterable[str] = (),
    ) -> None:
        self.store = Store(root, reaches=self.reaches)
        self.agents = agent_folders() if agents else []
        self.confined = confined
        self.write = write
        self.redact = redact
        self.projects = [os.path.abspath(folder) for folder in projects]

    @property
    def places(self) -> list[str]:
        """The folders in which sessions are found, and the address of the store if it has one."""
        return [self.store.root, *self.agents]

    @cached_property
    def registry(self) -> Registry | None:
        """The resolvers of handles; None: those of every session."""
        if not self.confined:
            return None
        from sessiontree.handles.builtin import built_in  # slow to import, few calls need them
        from sessiontree.handles.registry import Registry

        return Registry(built_in(self.is_inside), plugins=True)

    def file(self, name: str, tell: Report) -> str:
        """The file to read of the session that a path, an id, its start or a name stands for.

        Raises:
            Refusal: the path leads outside the places, or the name is unknown.
            RefError: there is more than one such session.
        """
        return self._file(name, tell, to_read)

    def file_to_write(self, name: str, tell: Report) -> str:
        """The file to write of a session, named and refused as for `file`."""
        return self._file(name, tell, to_write)

    def _file(self, name: str, tell: Report, choose: Callable[[SessionInfo, Report], str]) -> str:
        if len(name) > _LONGEST:
            raise Refusal(
                f"there is no session {name!r:.100}…, a name of {len(name):,} characters",
                "session_not_found",
                "Give an id; session.list and session.search find it.",
            )
        row = self.row(name, tell)
        return self.inside(name if row is None else choose(row, tell))

    def row(self, name: str, tell: Report) -> SessionInfo | None:
        """The conversation that an id, its start or a name stands for; None for a path.

        Refused as for `file`.
        """
        if os.sep in name or name.endswith(_ENDINGS):
            return None
        try:
            return find_conversation(name, self.store, self.agents, tell, reaches=self.reaches)
        except SessionNotFoundError:
            raise self._not_found(name) from None
        except RefError as error:
            raise ambiguous(error, "Give one of the available names.") from None

    def file_in_store(self, name: str, tell: Report) -> str:
        """The file of a session of the store, named as for `file`.

        Raises:
            Refusal: as for `file`, or the session is one that an agent keeps.
            RefError: there is more than one such session.
        """
        file = self.file_to_write(name, tell)
        if below(file, self.store.root) is None:
            raise Refusal(
                f"{file} lies outside the store: an agent keeps it",
                "outside",
                "Leave it to its agent; session.trash takes a session of the store.",
            )
        return file

    def file_in_trash(self, name: str, tell: Report) -> str:
        """The file of a session in the trash of the store, by its path, id, name or `latest`.

        Raises:
            Refusal: the path leads outside the places, or the name is unknown.
        """
        if os.sep in name:
            return whole_path(self.inside(name))
        try:
            return self.store.find_trashed(name, report=tell)
        except RefError as error:
            next = "Give an id or a path that session.trashed lists."
            if error.candidates:
                raise ambiguous(error, next) from None
            message = f"no session in the trash is named {name!r:.100}"
            raise Refusal(message, "session_not_found", next) from None

    def sessions(self, selection: Selection, tell: Report) -> Iterator[SessionInfo]:
        """The conversations that calls may reach, unordered; `tell` gets what is left out."""
        return iter(conversations_in(self.places, selection, tell, self.reaches))

    def missing(self, selection: Selection) -> str | None:
        """Why no session is selected: its agents or its project have none; and those that have.

        None if neither of them leaves all out.
        """
        if not selection.agents and selection.project is None:
            return None
        every = sorted(self.sessions(Selection(), _untold), key=by_time, reverse=True)
        of_agents = Selection(selection.agents)
        agents = " or ".join(sorted(selection.agents))
        if not any(map(of_agents.takes, every)):
            there = sorted({one.made_by or OWN for one in every})
            known = f": those here are of {', '.join(there)}" if there else ""
            return f"No session is of {agents}{known}." if agents else "There is no session here."
        project = selection.project
        of_project = Selection(selection.agents, project)
        if project is None or any(map(of_project.takes, every)):
            return None
        near = _nearest_projects(project, filter(of_agents.takes, every))
        known = f"; there are {', '.join(near)}" if near else ""
        of = f" of {agents}" if agents else ""
        return f"No session{of} is in the project {project!r:.200}{known}."

    def inside(self, path: str) -> str:
        """A path or an address of sessions that calls may reach, as it is to be used.

        Raises:
            Refusal: it leads outside the places.
        """
        if not self.confined:
            return path
        for place in self.places:
            if (found := below(path, place)) is not None:
                return found
        where = "places" if names_place(path) else "folders"
        raise Refusal(
            f"{_shown(path)!r:.200} is outside the {where} that can be reached",
            "outside",
            f"Give a path in one of these {where}, or the id of a session.",
            self.places,
        )

    def local(self, path: str) -> str:
        """The path of a file or a folder of this machine that calls may reach.

        Raises:
            Refusal: it leads outside the places, or is an address.
        """
        if names_place(path):
            raise _no_path(path, "Give a path.")
        return self.inside(path)

    def project_file(self, path: str) -> str:
        """The absolute path of a file that agents changed, which calls may read.

        A relative path begins in the first project that has it.

        Raises:
            Refusal: the path leads outside the projects.
        """
        if not self.confined:
            return os.path.abspath(_without_nul(path))
        for project in self.projects:
            found = os.path.join(project, path)
            if is_path_below(found, project) and (os.path.lexists(found) or os.path.isabs(path)):
                return os.path.abspath(found)
        if self.projects and is_path_below(os.path.join(self.projects[0], path), self.projects[0]):
            return os.path.abspath(os.path.join(self.projects[0], path))
        if not self.projects:
            raise Refusal("no file of a project can be read here", "outside", ASK_FOR_PROJECT)
        raise Refusal(
            f"{path!r:.200} is outside the projects that can be read",
            "outside",
            "Give a path in one of these folders.",
            self.projects,
        )

    def is_inside(self, path: str) -> bool:
        """True if calls may read a path or an address, wherever its links lead."""
        return not self.confined or any(below(path, place) is not None for place in self.places)

    def reaches(self, file: str) -> bool:
        """True if calls may read a file that was found in the places.

        Tools, resources, completions and subscriptions ask this of each file before they read it:
        it may be a link that leads outside. A link in the folders above it was asked for, too.
        """
        return not os.path.islink(file) or self.is_inside(file)

    def new_session(self, path: str) -> str:
        """The path or the address of a session that a call may make; see `new_file`.

        Raises:
            Refusal: it leads elsewhere, there is no such folder, or calls may not write.
        """
        self.check_write()
        if not self.confined:
            return path if is_address(path) else self.new_file(path)
        root = self.store.root
        if not is_address(root) and not names_place(path):
            return self.new_file(path)
        found = below(path, root) if is_url(path) else address_in(root, path)
        if found is None:
            raise _outside_store(path, root)
        return found

    def new_file(self, path: str) -> str:
        """The path of a file that a call may make.

        In a confined scope, it is below the folder of the store, where a relative path begins too.

        Raises:
            Refusal: the path leads elsewhere, there is no such folder, or calls may not write.
        """
        self.check_write()
        root = self.store.root
        if is_address(path):
            raise _no_path(path, "Give a path; tree.export_branch takes the address of a session.")
        if self.confined and is_address(root):
            raise Refusal(
                f"this makes a file on this machine, and all sessions here are at {root}",
                "outside",
                "Read a transcript with tree.export, or copy into the store: tree.export_branch.",
            )
        made = os.path.join(root, path_of(path)) if self.confined else path_of(path)
        if self.confined and not is_path_below(made, root):
            raise _outside_store(path, root)
        folder = os.path.dirname(os.path.abspath(made))
        if not os.path.isdir(folder):
            raise Refusal(
                f"there is no folder {folder!r:.200} for a new file",
                "storage",
                "Give a path in a folder that is there.",
            )
        return made

    def check_write(self) -> None:
        """Refuse where calls may not change anything."""
        if not self.write:
            raise Refusal(
                "calls may only read here: nothing was written",
                "read_only",
                ASK_TO_WRITE,
                recoverable=False,
            )

    def _not_found(self, name: str) -> Refusal:
        every = self.sessions(Selection(), _untold)
        newest = sorted(every, key=by_time, reverse=True)
        if not newest or name == LATEST:
            return Refusal(
                f"there is no session in {' or '.join(self.places)}",
                "session_not_found",
                "Make one with tree.create, or name other folders when the server starts.",
            )
        titles = [one.name or one.id for one in newest]
        near = nearest(name, titles)
        return Refusal(
            f"there is no session {name!r:.100}{near}",
            "session_not_found",
            "Give one of these ids, or look with session.list and session.search.",
            [one.id for one in newest[:_MAX_NAMED]],
        )


def _nearest_projects(project: str, among: Iterable[SessionInfo]) -> list[str]:
    """The working directories with the nearest names; without any, those that changed last."""
    named: dict[str, list[str]] = {}
    for cwd in dict.fromkeys(one.cwd for one in among if one.cwd):
        named.setdefault(project_in(cwd).casefold(), []).append(cwd)
    name = project_in(project).casefold()
    names = get_close_matches(name[:_LONGEST_NAME], named, n=_MAX_NAMED) or list(named)
    return [cwd for each in names for cwd in named[each]][:_MAX_NAMED]


def _untold(problem: str) -> None:
    """What is left out of a list is not what the call is about."""


def _without_nul(path: str) -> str:
    if "\0" in path:
        raise Refusal(f"{path!r:.200} is no path", "bad_value", "Give the path of a file.")
    return path


def _no_path(address: str, next: str) -> Refusal:
    shown = without_secret(address)
    message = f"this takes a path of this machine, and {shown!r:.200} is an address"
    return Refusal(message, "outside", next)


def _outside_store(path: str, root: str) -> Refusal:
    below_it = "an address below that one" if is_address(root) else "a path below that folder"
    return Refusal(
        f"{_shown(path)!r:.200} is outside {root}",
        "outside",
        f"Give a relative path, or {below_it}.",
        [root],
    )


def _shown(path: str) -> str:
    return without_secret(path) if names_place(path) else path
