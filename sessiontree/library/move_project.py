"""The sessions of a project moved to another directory.

The folder of the project is renamed whole if the other directory has none; otherwise its sessions
are moved into that one by one.

Invariants: nothing is overwritten; if an exclusive writer holds a session of the project, no
session of it is moved; no other program moves sessions of the store meanwhile.
"""

from __future__ import annotations

import os

from sessiontree.errors import (
    NothingToDoError,
    SessionBusyError,
)
from sessiontree.library.listing import session_infos
from sessiontree.storage.fs import FileSystem, os_errors
from sessiontree.storage.names import Report, session_files
from sessiontree.storage.sidecars import move_session, moving


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
