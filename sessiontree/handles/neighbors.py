"""The sessions that a session handle may name: those of the same store, found by their id.

A store has a folder for each project (`core.project`). For a session outside of a store, the folder
of its file takes the place of the store. At an address, the parts of names are the folders.

Invariants: nothing outside of the store is opened, so a link that leads out of it is passed over;
a file that may not be read is passed over, too; of each file the start is read, once; nothing is
written.
"""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property

from sessiontree.core.project import id_in_name, id_of_name, is_folder_name
from sessiontree.engine.opening import sniff_file
from sessiontree.errors import SessionTreeError
from sessiontree.storage.backends import open_log, place_of
from sessiontree.storage.files import is_session_name, session_files
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.place import Place, is_address


def store_of(file: str) -> str:
    """The folder of the store that a session's file is in; outside of a store the file's own."""
    if is_address(file):
        place, name = place_of(file)
        return place.address(_store_in(name))
    return _store_in(os.path.realpath(file))


def _store_in(file: str) -> str:
    own = folder = os.path.dirname(file)
    while (above := os.path.dirname(folder)) != folder:
        if is_folder_name(os.path.basename(folder)):
            return above
        folder = above
    return own


class Neighbors:
    """The session files of one store, as they are when first asked for.

    Attributes:
        root: the folder of the store.
    """

    def __init__(
        self, file: str, fs: FileSystem, may_read: Callable[[str], bool] | None = None
    ) -> None:
        self.root = store_of(file)
        self._place: Place | None = None
        if is_address(file):
            self._place, name = place_of(file)
            self._folder = _store_in(name)
        self._may_read = may_read
        self._fs = fs
        self._ids: dict[str, str] = {}

    def files(self, id: str) -> list[str]:
        """The files of the sessions with an id.

        A file that is named for another session is read only where no other has the id.
        """
        own_named, others = self._by_name
        with contextlib.suppress(UnicodeError):  # no file can have such a name
            named = [file for file in own_named.get(id_in_name(id), ()) if self._id(file) == id]
            found = sorted({*named, *others.get(id, ())})
            if found:
                return found
        return self._by_id.get(id, [])

    @cached_property
    def _all(self) -> list[str]:
        if self._place is not None:
            found_there = map(self._place.address, self._names(self._place))
            return sorted(file for file in found_there if self._may(file))
        found: set[str] = set()
        with contextlib.suppress(OSError), os.scandir(self.root) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                with contextlib.suppress(OSError, SessionTreeError):
                    if is_session_name(entry.name) and entry.is_file():
                        found.add(entry.path)
                    elif is_folder_name(entry.name) and entry.is_dir(follow_symlinks=False):
                        found.update(session_files(entry.path, _ignore))
        return sorted(filter(self._is_inside, found))

    def _names(self, place: Place) -> Iterator[str]:
        """The names of the sessions of a place that are in the store."""
        start = f"{self._folder}/" if self._folder else ""
        for found in place.list(start):
            folder, slash, _ = found.name[len(start) :].partition("/")
            if is_session_name(found.name) and (not slash or is_folder_name(folder)):
                yield found.name

    def _may(self, file: str) -> bool:
        return self._may_read is None or self._may_read(file)

    def _is_inside(self, file: str) -> bool:
        if not self._may(file):
            return False
        if not os.path.islink(file):
            return True
        return os.path.realpath(file).startswith(os.path.join(self.root, ""))

    @cached_property
    def _by_name(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """The files named for a session, by the id in the name; all others by their id."""
        own_named: defaultdict[str, list[str]] = defaultdict(list)
        others: defaultdict[str, list[str]] = defaultdict(list)
        for file in self._all:
            name = id_of_name(file)
            if name is None:
                others[self._id(file)].append(file)
            else:
                own_named[name].append(file)
        return own_named, others

    @cached_property
    def _by_id(self) -> dict[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for file in self._all:
            found[self._id(file)].append(file)
        return found

    def _id(self, file: str) -> str:
        """The id of the session in a file; empty where it is not a session that can be read."""
        if file not in self._ids:
            self._ids[file] = ""
            with contextlib.suppress(OSError, SessionTreeError), contextlib.ExitStack() as opened:
                log = open_log(self._fs, file, readonly=True)
                opened.callback(log.close)
                self._ids[file] = sniff_file(log).session_id
        return self._ids[file]


def _ignore(problem: str) -> None:
    """Files that cannot be read are passed over; `ls` reports them."""
