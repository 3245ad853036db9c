"""Moving sessions: those of one working directory to another's, and to the trash and back.

The folder of a project is renamed whole if the other directory has none; otherwise its
sessions are moved into that one by one.

The trash is the folder `.trash` in the root of a store. Each session has a folder of its own there,
named by the time, and in that the path that it had. Only `catalog.empty` removes any.

A mark in the trash names the session that is being moved to it or from it. What a killed
program began is finished before the next such move: the session is whole again where its file
is, in its old place if that is both. If a writer holds it or a name is taken, its mark stays, and
the other sessions are moved all the same.

Invariants: nothing is overwritten; if an exclusive writer holds a session of a project, no
session of it is moved; no other program moves sessions of the store meanwhile.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

from sessiontree.catalog.listing import facts_of, session_infos
from sessiontree.errors import (
    NothingToDoError,
    SessionBusyError,
    SessionExistsError,
    SessionTreeError,
    UsageError,
)
from sessiontree.storage.atomic import create_file
from sessiontree.storage.files import DELETING, TRASH, Report, chats_beside, path_in, session_files
from sessiontree.storage.fs import READ_PLAIN, Descriptor, FileSystem
from sessiontree.storage.move import (
    bring_sidecars,
    has_sidecars,
    is_same,
    make_folders,
    move_session,
    moving,
)
from sessiontree.storage.oserrors import os_errors
from sessiontree.storage.rollouts import thread_beside

MARK: Final = ".moving-"
"""Starts the name of a mark in the trash; the rest is the name of the session's folder there."""


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
    _check_whole(file)
    trashed = os.path.join(root, TRASH, stamp, place)
    with moving(fs, root):
        _finish_all(fs, root)
        return _move_marked(fs, root, file, trashed, trashed)


def _check_whole(file: str) -> None:
    """Refuse to move one file of a session that its agent keeps in several.

    Raises:
        UsageError: there are others.
    """
    others = [*thread_beside(file), *chats_beside(file)]
    if others:
        raise UsageError(
            f"{file} is a part of a session that is in {len(others) + 1} files, such as "
            f"{others[0]}; only one file can be moved to the trash, so all of them stay: delete "
            "the session with its agent"
        )


def restore(fs: FileSystem, root: str, file: str) -> str:
    """Move a session from a store's trash to where it was; return its path."""
    place = _below(os.path.join(root, TRASH), file)
    parts = place.split(os.sep) if place is not None else []
    if len(parts) < 2:
        raise UsageError(f"{file} is not in the trash of {root}; list what is there, and name one")
    if parts[0].startswith(DELETING):
        raise UsageError(f"{file} is being removed from the trash, and cannot be restored")
    target = os.path.join(root, *parts[1:])
    with moving(fs, root):
        _finish_all(fs, root)
        if os.path.exists(target) and not os.path.exists(file):
            return target
        return _move_marked(fs, root, file, target, file)


def finish(fs: FileSystem, root: str) -> None:
    """Finish the moves to the trash of a store, and from it, that were cut short."""
    if _marks(fs, root):
        with moving(fs, root):
            _finish_all(fs, root)


def _move_marked(fs: FileSystem, root: str, file: str, target: str, trashed: str) -> str:
    """Move a session; keep a mark of its path in the trash on the medium meanwhile."""
    place = os.path.relpath(trashed, os.path.join(root, TRASH))
    mark = os.path.join(root, TRASH, MARK + place.split(os.sep)[0])

    def begin() -> None:
        make_folders(fs, os.path.dirname(mark))
        create_file(fs, mark, iter([os.fsencode(place)]))

    try:
        move_session(fs, file, os.path.dirname(target), begin)
    except SessionTreeError:
        with contextlib.suppress(SessionTreeError, OSError):
            _finish(fs, root, mark)
        raise
    with contextlib.suppress(OSError):  # the next move finds nothing to finish
        fs.unlink(mark)
    return target


def _marks(fs: FileSystem, root: str) -> list[str]:
    folder = os.path.join(root, TRASH)
    with os_errors(folder, "list"), contextlib.suppress(FileNotFoundError):
        return [os.path.join(folder, name) for name in fs.list(folder) if name.startswith(MARK)]
    return []


def _finish_all(fs: FileSystem, root: str) -> None:
    for mark in _marks(fs, root):
        with contextlib.suppress(SessionBusyError, SessionExistsError):  # the mark stays
            _finish(fs, root, mark)


def _finish(fs: FileSystem, root: str, mark: str) -> None:
    """Bring the parts of a marked session together, where its file is, and remove the mark."""
    with os_errors(mark, "read"), Descriptor(fs, fs.open(mark, READ_PLAIN)) as fd:
        place = os.fsdecode(fs.read(fd, fs.size(fd), 0))
    parts = place.split(os.sep)
    trashed, file = path_in(os.path.join(root, TRASH), *parts), path_in(root, *parts[1:])
    if mark.endswith(MARK + parts[0]) and trashed is not None and file is not None:
        _bring_together(fs, trashed, file)
    with os_errors(mark, "remove"):
        fs.unlink(mark)


def _bring_together(fs: FileSystem, trashed: str, file: str) -> None:
    if not os.path.exists(file):
        if os.path.exists(trashed) and has_sidecars(fs, file):
            move_session(fs, trashed, os.path.dirname(file))
        return
    if not os.path.exists(trashed):
        if has_sidecars(fs, trashed):
            bring_sidecars(fs, trashed, file)
        return
    if is_same(fs, trashed, file):
        move_session(fs, trashed, os.path.dirname(file))
    elif facts_of(trashed, fs).id == facts_of(file, fs).id:  # rewritten since, as by a repair
        bring_sidecars(fs, trashed, file)


def _below(folder: str, file: str) -> str | None:
    """The path of a file relative to a folder that holds it, or None."""
    place = os.path.relpath(os.path.abspath(file), folder)
    return None if place == os.pardir or place.startswith(os.pardir + os.sep) else place
