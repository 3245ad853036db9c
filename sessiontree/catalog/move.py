"""Renaming: the sessions of a working directory become those of another.

The folder of the project is renamed whole where the other directory has none; else its
sessions are moved into that one by one.

Invariants: nothing is overwritten; what a writer holds for itself keeps all where they
are; nobody else moves sessions of the store about meanwhile.
"""

from __future__ import annotations

import os

from sessiontree.catalog.listing import listed
from sessiontree.errors import NothingToDoError, SessionBusyError
from sessiontree.storage.files import Report, session_files
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.move import move_session, moving
from sessiontree.storage.oserrors import speaking_of


def rename_project(
    fs: FileSystem, root: str, about: str, source: str, target: str, report: Report
) -> int:
    """Move the sessions of one project's folder to another's; how many they are.

    Args:
        fs: the seam to the disk.
        root: the store's folder.
        about: the working directory whose sessions they are, for messages.
        source, target: the paths of the two folders.
        report: told of what in the first cannot be a session.

    Raises:
        NothingToDoError: there is none, or they are there already.
        SessionBusyError: a writer holds one; nothing was moved.
        SessionExistsError: both have a file of one name; what was moved before stays so.
        StorageError: the system refused.
    """
    if not os.path.isdir(root):
        raise NothingToDoError(f"there is no folder {root}, so nothing to be moved")
    with moving(fs, root):
        files = list(session_files(source, report)) if os.path.isdir(source) else []
        if source == target:
            raise NothingToDoError(f"{about} is where its sessions are already")
        if not files:
            raise NothingToDoError(f"no session of {about} is in {root}, so none is moved")
        _check_free(files)
        try:
            fs.replace(source, target)
        except OSError:  # the new one has sessions already
            for file in files:
                inside = os.path.dirname(os.path.relpath(file, source))
                move_session(fs, file, os.path.join(target, inside).rstrip(os.sep))
        else:
            with speaking_of(root, "sync"):
                fs.sync_folder(root)
        return len(files)


def _check_free(files: list[str]) -> None:
    for one in listed(files, lambda problem: None):  # who lists them is told of it
        if one.writer is not None:
            message = f"{one.file} is held by {one.writer}; close it first, nothing was moved"
            raise SessionBusyError(message, one.file)
