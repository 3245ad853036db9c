"""Moving sessions: those of one working directory to another's, and to the trash and back.

The folder of a project is renamed whole if the other directory has none; otherwise its
sessions are moved into that one by one.

The trash is the folder `.trash` in the root of a store. Each session has a folder of its
own there, named by the time, and in that the path that it had. This package never removes
anything from it.

Invariants: nothing is overwritten; if an exclusive writer holds a session of a project, no
session of it is moved; no other program moves sessions of the store meanwhile.
"""

from __future__ import annotations

import os
from typing import Final

from sessiontree.catalog.listing import session_infos
from sessiontree.errors import NothingToDoError, SessionBusyError, UsageError
from sessiontree.storage.files import Report, session_files
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.move import move_session, moving
from sessiontree.storage.oserrors import os_errors

TRASH: Final = ".trash"
"""The name of the folder of the trash, in the root."""


def rename_project(
    fs: FileSystem, root: str, about: str, source: str, target: str, report: Report
) -> int:
    """Move the sessions of one project's folder to another's; return how many.

    `about` is their working directory, for messages; the errors are those of
    `Store.move_project`. Anything in the first folder that cannot be a session is reported.
    """
    if not os.path.isdir(root):
        raise NothingToDoError(f"there is no folder {root}, so there is nothing to move")
    with moving(fs, root):
        files = list(session_files(source, report)) if os.path.isdir(source) else []
        if source == target:
            raise NothingToDoError(f"{about} is where its sessions are already")
        if not files:
            raise NothingToDoError(f"no session of {about} is in {root}, so nothing is moved")
        _check_not_held(files)
        try:
            fs.replace(source, target)
        except OSError:  # the other folder has sessions already
            for file in files:
                inside = os.path.dirname(os.path.relpath(file, source))
                move_session(fs, file, os.path.join(target, inside).rstrip(os.sep))
        else:
            with os_errors(root, "sync"):
                fs.sync_folder(root)
        return len(files)


def _check_not_held(files: list[str]) -> None:
    for one in session_infos(files, lambda problem: None):  # a list reports the problems
        if one.writer is not None:
            message = f"{one.file} is held by {one.writer}; close it first, nothing was moved"
            raise SessionBusyError(message, one.file)


def trash(fs: FileSystem, root: str, file: str, stamp: str) -> str:
    """Move a session of a store to a new folder `stamp` in its trash; return its path there."""
    place = _below(root, file)
    if place is None:
        raise UsageError(f"{file} is not a session of {root}; name the folder of sessions it is in")
    if place.split(os.sep)[0] == TRASH:
        raise UsageError(f"{file} is in the trash of {root} already")
    folder = os.path.join(root, TRASH, stamp, os.path.dirname(place)).rstrip(os.sep)
    with moving(fs, root):
        return move_session(fs, file, folder)


def restore(fs: FileSystem, root: str, file: str) -> str:
    """Move a session from a store's trash to where it was; return its path."""
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
