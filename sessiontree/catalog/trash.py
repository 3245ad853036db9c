"""The trash of a store: where sessions go that somebody threw away, to be had back.

It is the folder `.trash` in the root. Each session lies there in a folder of its
own, named by the time, below the path that it had. Nothing in it is ever removed by
this package.
"""

from __future__ import annotations

import os
from typing import Final

from sessiontree.errors import UsageError
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.move import move_session, moving

TRASH: Final = ".trash"
"""The name of the folder, in the root."""


def throw_away(fs: FileSystem, root: str, file: str, stamp: str) -> str:
    """Move a session of a store to its trash; the path that it has there.

    Args:
        fs: the seam to the disk.
        root: the store's folder.
        file: the session file, somewhere below it.
        stamp: the name of the folder to be made for it.

    Raises:
        UsageError: the file is not in the store, or in its trash already.
        SessionBusyError, SessionNotFoundError, StorageError: as `move_session` raises them.
    """
    place = _below(root, file)
    if place is None:
        raise UsageError(f"{file} is no session of {root}; name the folder of sessions it is in")
    if place.split(os.sep)[0] == TRASH:
        raise UsageError(f"{file} is in the trash of {root} already")
    folder = os.path.join(root, TRASH, stamp, os.path.dirname(place)).rstrip(os.sep)
    with moving(fs, root):
        return move_session(fs, file, folder)


def bring_back(fs: FileSystem, root: str, file: str) -> str:
    """Move a session from a store's trash to where it was; its path.

    Raises:
        UsageError: the file is not in the trash.
        SessionExistsError: another file has its place now.
        SessionBusyError, SessionNotFoundError, StorageError: as `move_session` raises them.
    """
    place = _below(os.path.join(root, TRASH), file)
    parts = place.split(os.sep) if place is not None else []
    if len(parts) < 2:
        raise UsageError(f"{file} is not in the trash of {root}; list what is, and name one of it")
    folder = os.path.join(root, *parts[1:-1])
    with moving(fs, root):
        return move_session(fs, file, folder)


def _below(folder: str, file: str) -> str | None:
    """The path of a file from a folder that holds it, or None."""
    place = os.path.relpath(os.path.abspath(file), folder)
    return None if place == os.pardir or place.startswith(os.pardir + os.sep) else place
