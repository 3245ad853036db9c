"""The store that a command is about, and the sessions in it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from sessiontree.catalog.listing import SessionInfo
from sessiontree.cli.terminal import tell_each
from sessiontree.errors import RefError, SessionNotFoundError
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


def find_file(name: str) -> str:
    """The file of the one session in this user's store with a name or an id, or `latest`."""
    problems: list[str] = []
    try:
        return store_at(None).find(name, report=problems.append).file
    except RefError as error:
        if error.candidates:
            raise
        tell_each("Left out", problems)
        raise SessionNotFoundError(f"there is no file {name}, and {error}", name) from error


def sessions_in(
    store: Store, folder: str | None, cwd: str | None, report: Report
) -> Iterator[SessionInfo]:
    """The sessions of a store, which is in `folder` if one was named, and of a directory."""
    if cwd is None or folder is None:
        return store.iter_sessions(cwd=cwd, report=report)
    about = os.path.abspath(cwd)
    return (one for one in store.iter_sessions(report=report) if one.cwd == about)


def relative_path(file: str) -> str:
    """The path of a file; relative to the current directory where the file is below that."""
    below = os.path.relpath(file)
    return file if below.startswith(os.pardir) else below
