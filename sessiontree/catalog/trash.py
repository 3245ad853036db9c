"""The trash of a store: the sessions that were thrown away, until they are restored.

It is the folder `.trash` in the root. Each session has a folder of its own there, named by
the time, and in that the path that it had. This package never removes anything from it.
"""

from __future__ import annotations

import os
from typing import Final

from sessiontree.errors import UsageError
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.move import move_session, moving

TRASH: Final = ".trash"
"""The name of the folder, in the root."""


def trash(fs: FileSystem, root: str, file: str, stamp: str) -> str:
    """Move a session of a store to its trash.

    Args:
        fs: the seam to the disk.
        root: the store's folder.
        file: the session file, below it.
        stamp: the name of the folder to make for it.

    Returns:
        The path of the file in the trash.

    Raises:
        UsageError: the file is not in the store, or is in its trash already.
        SessionBusyError, SessionNotFoundError, StorageError: as `move_session` raises them.
    """
    place = _below(root, file)
    if place is None:
        raise UsageError(f"{file} is not a session of {root}; name the folder of sessions it is in")
    if place.split(os.sep)[0] == TRASH:
        raise UsageError(f"{file} is in the trash of {root} already")
    folder = os.path.join(root, TRASH, stamp, os.path.dirname(place)).rstrip(os.sep)
    with moving(fs, root):
        return move_session(fs, file, folder)


def restore(fs: FileSystem, root: str, file: str) -> str:
    """Move a session from a store's trash to where it was.

    Returns:
        The path of the file.

    Raises:
        UsageError: the file is not in the trash.
        SessionExistsError: another file is there now.
        SessionBusyError, SessionNotFoundError, StorageError: as `move_session` raises them.
    """
    place = _below(os.path.join(root, TRASH), file)
    parts = place.split(os.sep) if place is not None else []
    if len(parts) < 2:
        raise UsageError(f"{file} is not in the trash of {root}; list what is there, and name one")
    folder = os.path.join(root, *parts[1:-1])
    with moving(fs, root):
        return move_session(fs, file, folder)


def _below(folder: str, file: str) -> str | None:
    """The path of a file relative to a folder that holds it, or None."""
    place = os.path.relpath(os.path.abspath(file), folder)
    return None if place == os.pardir or place.startswith(os.pardir + os.sep) else place
