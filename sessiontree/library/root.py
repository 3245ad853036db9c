"""Where a store keeps its sessions: its root, the folder of each project, the name of each file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sessiontree.core.header import encoded, folder_name, id_in_name
from sessiontree.errors import UsageError
from sessiontree.storage.names import SUFFIX
from sessiontree.storage.place import is_address, path_of, whole_path

_LONGEST_TIME: Final = 40

HOME_VARIABLE: Final = "SESSIONTREE_HOME"
"""The environment variable that names the default folder; empty is the same as unset."""

STORE_VARIABLE: Final = "SESSIONTREE_STORE"
"""The environment variable that names the default store, also by an address; it comes first."""

_named: Final[list[str]] = []
"""The stores of the commands that run, the innermost last; a context variable fails in threads."""


@contextmanager
def naming_store(store: str) -> Iterator[None]:
    """Make a store the default of all threads; it comes before that of a variable."""
    _named.append(store)
    try:
        yield
    finally:
        _named.pop()


def store_of_command() -> str | None:
    """The store that `naming_store` names, so that no variable counts."""
    return next(reversed(_named), None)


def naming_variable() -> str | None:
    """The environment variable that names the default store; None if none does."""
    if store_of_command():
        return None
    return next(filter(os.environ.get, (STORE_VARIABLE, HOME_VARIABLE)), None)


def named_store() -> str | None:
    """The store that `naming_store` or the variable names; None if neither names one."""
    store = store_of_command() or os.environ.get(STORE_VARIABLE)
    if not store:
        return None
    return store if is_address(store) else os.path.expanduser(store)


def environment() -> dict[str, str]:
    """The environment of a program that this process starts, which gets the same default store.

    A folder is named by its absolute path: the program may run in another directory.
    """
    if not _named:
        return dict(os.environ)
    return {**os.environ, STORE_VARIABLE: whole_path(path_of(default_root()))}


def default_root() -> str:
    """The default store: the one that is named, or the folder in the user's data folder."""
    if store := named_store():
        return store
    if home := os.environ.get(HOME_VARIABLE):
        return os.path.expanduser(home)
    return data_folder()


def data_folder() -> str:
    """The folder of this user's data."""
    return _user_folder("XDG_DATA_HOME", "~/.local/share", on_mac="~/Library/Application Support")


def cache_folder() -> str:
    """The folder of this user's caches."""
    return _user_folder("XDG_CACHE_HOME", "~/.cache", on_mac="~/Library/Caches")


def _user_folder(variable: str, default: str, *, on_mac: str) -> str:
    """This program's folder below one of the user's.

    Source: the XDG Base Directory Specification 0.8, in which a relative path does not count, and
    Apple's File System Programming Guide.
    """
    named = os.path.expanduser(os.environ.get(variable, ""))
    usual = os.path.expanduser(on_mac if sys.platform == "darwin" else default)
    return os.path.join(named if os.path.isabs(named) else usual, "sessiontree")


def project_name(cwd: str | os.PathLike[str]) -> str:
    """The name of the folder for the sessions of a working directory.

    Raises:
        UsageError: no directory can have this path.
    """
    try:
        return folder_name(os.path.abspath(cwd))
    except (UnicodeError, ValueError) as error:
        raise UsageError(f"{os.fspath(cwd)!r:.200} is not a path of a directory") from error


def below(folder: str, file: str) -> str | None:
    """The path of a file relative to a folder that holds it, or None."""
    path = os.path.relpath(os.path.abspath(file), folder)
    return None if path == os.pardir or path.startswith(os.pardir + os.sep) else path


def file_name(created: str | None, id: str) -> str:
    """The name of a session's file: the time it was made, if known, and its id."""
    name = f"{id_in_name(id)}{SUFFIX}"
    return name if created is None else f"{encoded(for_names(created))[:_LONGEST_TIME]}_{name}"


def for_names(timestamp: str) -> str:
    """A time as it is in the names of files."""
    return timestamp.replace(":", "-").replace(".", "-")
