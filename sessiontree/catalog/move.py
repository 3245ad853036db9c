"""Moving a project: the sessions of a working directory become those of another.

The project's folder is renamed whole if the other directory has none; otherwise its
sessions are moved into that one by one.

Invariants: nothing is overwritten; a session that an exclusive writer holds keeps all of
them where they are; no other program moves sessions of the store meanwhile.
"""

from __future__ import annotations

import os

from sessiontree.catalog.listing import session_infos
from sessiontree.errors import NothingToDoError, SessionBusyError
from sessiontree.storage.files import Report, session_files
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.move import move_session, moving
from sessiontree.storage.oserrors import os_errors


def rename_project(
    fs: FileSystem, root: str, about: str, source: str, target: str, report: Report
) -> int:
    """Move the sessions of one project's folder to another's.

    Args:
        fs: the seam to the disk.
        root: the store's folder.
        about: the working directory of the sessions, for messages.
        source, target: the paths of the two folders.
        report: called with anything in the first that cannot be a session.

    Returns:
        How many sessions were moved.

    Raises:
        NothingToDoError: there is none, or they are there already.
        SessionBusyError: a writer holds one; nothing was moved.
        SessionExistsError: both folders have a file of one name; those before it were moved.
        StorageError: the system refused.
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
