"""Sessions moved to the trash and back, and the trash emptied.

The trash is the folder `.trash` in the root of a store. Each session has a folder of its own there,
named by the time, and in that the path that it had. A mark in the trash names the session that is
being moved to it or from it. What a killed program began is finished before the next such move: the
session is whole again where its file is, in its old place if that is both. If a writer holds it or
a name is taken, its mark stays, and the other sessions are moved all the same.

Emptying the trash, a session's folder first gets a name that nothing lists and nothing restores.
A rewritten session has such a folder, too, until all of it is there.
Only when that name is on the medium, the files in the folder are removed. So after a kill or a
power cut a session in the trash is whole, or it is in the trash no more; then the next call removes
the rest.

Invariants:

- A folder that holds anything but one session with its own files stays whole.
- No link is followed or removed, and nothing is overwritten.
- A session that a writer holds stays.
- No other program moves sessions of the store meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from sessiontree.engine.gc import ARCHIVE
from sessiontree.engine.opening import KEPT_AS
from sessiontree.errors import (
    SessionBusyError,
    SessionExistsError,
    SessionTreeError,
    StorageError,
    UsageError,
)
from sessiontree.library.listing import facts_of
from sessiontree.library.root import below
from sessiontree.storage.atomic import UNFINISHED, create_file
from sessiontree.storage.blobs import ASIDE
from sessiontree.storage.fs import READ_PLAIN, Descriptor, FileSystem, os_errors, refused
from sessiontree.storage.lock import WriterLock
from sessiontree.storage.names import (
    BLOBS,
    DELETING,
    LOCK,
    SUFFIX,
    TRASH,
    Report,
    chats_beside,
    is_own_folder,
    is_session_name,
    path_in,
)
from sessiontree.storage.rollouts import thread_beside
from sessiontree.storage.sidecars import (
    bring_sidecars,
    has_sidecars,
    is_same,
    make_folders,
    move_session,
    moving,
)

MARK: Final = ".moving-"
"""Starts the name of a mark in the trash; the rest is the name of the session's folder there."""


def move_trashed(fs: FileSystem, root: str, file: str, target: str) -> str:
    """Move a session of a store to its trash, or back; return the new path."""
    trash = os.path.join(root, TRASH)
    is_trashed = below(trash, file)
    if is_trashed is None:
        _check_whole(file)
    elif is_trashed.startswith(DELETING):
        raise UsageError(f"{file} is being removed from the trash, and cannot be restored")
    with moving(fs, root):
        _finish_all(fs, root)
        if is_trashed and os.path.exists(target) and not os.path.exists(file):
            return target
        return _move_marked(fs, root, file, target, file if is_trashed else target)


def _check_whole(file: str) -> None:
    """Refuse to move one file of a session that its agent keeps in several."""
    others = [*thread_beside(file), *chats_beside(file)]
    if others:
        raise UsageError(
            f"{file} is a part of a session that is in {len(others) + 1} files, such as "
            f"{others[0]}; only one file can be moved to the trash, so all of them stay: delete "
            "the session with its agent"
        )


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


_STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)-(\d{3})Z_[0-9a-f]{8}")
"""The name that `Store.trash` gives to the folder of a session."""


def trashed_at(folder: str) -> str | None:
    """When the session in a folder of the trash was moved there; None for another folder."""
    stamp = _STAMP.fullmatch(folder)
    return stamp and f"{stamp[1]}T{stamp[2]}:{stamp[3]}:{stamp[4]}.{stamp[5]}Z"


def is_before(trashed: str, moment: datetime) -> bool:
    try:
        return datetime.fromisoformat(trashed) < moment
    except ValueError:  # no day of the calendar: it is no older than anything
        return False


_SIDECAR: Final = re.compile(
    "({})?({})?".format(
        "|".join(
            (re.escape(LOCK), re.escape(KEPT_AS), rf"({re.escape(ARCHIVE)}|\.damaged-)[\w-]+")
        ),
        rf"\.[0-9]+-[0-9a-f]{{8}}{re.escape(UNFINISHED)}",
    ),
    re.ASCII,
)
"""What the name of a sidecar file has after the name of the session."""

_BEGUN: Final = re.compile(
    rf".+{re.escape(SUFFIX)}\.[0-9]+-[0-9a-f]{{8}}{re.escape(UNFINISHED)}", re.DOTALL
)
"""The name of a session file that was not yet whole."""

_BLOB: Final = re.compile(
    rf"[0-9a-f]{{64}}({re.escape(ASIDE)}[0-9a-f-]+)?|[^/]+{re.escape(UNFINISHED)}"
)


class RemovedSession(msgspec.Struct, frozen=True):
    """A session that was removed from the trash; after a dry run, that would be removed."""

    file: str  # the path that it had in the trash
    trashed: str  # when it was moved there
    files: list[str]  # the paths of all its files there
    bytes: int  # of these files


class _TrashedFiles(NamedTuple):
    """What is in a session's folder in the trash, by paths relative to it."""

    session: str | None
    files: dict[str, int]  # their sizes; the session's too
    folders: list[str]  # each behind those in it


def empty(
    fs: FileSystem, root: str, before: datetime, report: Report, *, dry_run: bool
) -> Iterator[RemovedSession]:
    """Remove the sessions that were put into the trash of a store before a moment.

    What cannot be removed, or cannot come from `trash`, is reported and stays.

    Raises:
        StorageError: the trash is a link, or cannot be read.
    """
    trash = os.path.join(root, TRASH)
    if os.path.islink(trash):
        raise StorageError(
            f"{trash} is a link, and nothing is removed through a link; put the folder itself "
            "there, or empty the trash of the store that it leads to",
            trash,
        )
    if not dry_run:
        finish(fs, root)
    for name in _names(fs, trash):
        trashed = trashed_at(name.removeprefix(DELETING))
        if name.startswith(MARK):
            continue
        if trashed is None:
            report(f"{os.path.join(trash, name)} is not a session in the trash; it stays")
            continue
        try:
            if name.startswith(DELETING) or is_before(trashed, before):
                found = _remove(fs, root, name, trashed, dry_run=dry_run)
                if found is not None:
                    yield found
        except SessionTreeError as error:
            report(str(error))


def _names(fs: FileSystem, trash: str) -> list[str]:
    with refused("list", trash), contextlib.suppress(FileNotFoundError):
        return sorted(fs.list(trash))
    return []


def _remove(
    fs: FileSystem, root: str, name: str, trashed: str, *, dry_run: bool
) -> RemovedSession | None:
    """Remove what one folder of the trash holds; None if that was not a file at all."""
    trash = os.path.join(root, TRASH)
    if dry_run:
        return _removed(trash, name, trashed, _checked(trash, name))
    with moving(fs, root):
        if os.path.lexists(os.path.join(trash, MARK + name)):
            top = os.path.join(trash, name)
            raise StorageError(f"{top} is being moved, and a writer holds it; try again", top)
        found = _checked(trash, name)
        if found.session is not None and not name.startswith(DELETING):
            name = _condemn(fs, trash, name, found.session)
            found = _checked(trash, name)
        _remove_all(fs, os.path.join(trash, name), found)
        return _removed(trash, name, trashed, found)


def _removed(trash: str, name: str, trashed: str, found: _TrashedFiles) -> RemovedSession | None:
    if found.session is None:
        return None
    top = os.path.join(trash, name.removeprefix(DELETING))
    files = [os.path.join(top, file) for file in found.files]
    size = sum(found.files.values())
    return RemovedSession(os.path.join(top, found.session), trashed, files, size)


def _checked(trash: str, name: str) -> _TrashedFiles:
    """What a folder of the trash holds, if all of it may be removed.

    Raises:
        StorageError: there is a link, a device, or a file that is not the session's.
    """
    top = os.path.join(trash, name)
    found = _found(top)
    if found.session is None and name.startswith(DELETING) and all(map(_is_begun, found.files)):
        return found
    if found.session is None and found.files:
        raise StorageError(
            f"{top} stays: it holds no session; look what it is, and move it away", top
        )
    own = _own_folder(found)
    for path in found.files:
        if not _belongs(found.session or "", own, path):
            raise _stays(top, os.path.join(top, path), "not a file of the session")
    return found


def _is_begun(path: str) -> bool:
    """True if a file is of a session that was never made whole: a blob, or the begun file."""
    folder, name = os.path.split(path)
    if folder.endswith(SUFFIX + BLOBS):
        return _BLOB.fullmatch(name) is not None
    return _BEGUN.fullmatch(name) is not None


def _found(top: str) -> _TrashedFiles:
    files: dict[str, int] = {}
    folders: list[str] = []
    waiting = [""]
    with refused("list", top), contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.lstat(top).st_mode):
            raise _stays(top, top, "a link or a file")
        while waiting:
            folders.append(waiting.pop())
            with os.scandir(os.path.join(top, folders[-1])) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    below = os.path.join(folders[-1], entry.name)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(below)
                    elif entry.is_file(follow_symlinks=False):
                        files[below] = entry.stat(follow_symlinks=False).st_size
                    else:
                        what = "a link" if entry.is_symlink() else "a device or a pipe"
                        raise _stays(top, entry.path, what)
    named = [file for file in files if is_session_name(os.path.basename(file))]
    session = min(named, key=lambda file: (file.count(os.sep), file), default=None)
    return _TrashedFiles(session, files, folders[::-1])


def _own_folder(found: _TrashedFiles) -> str | None:
    if found.session is None or not found.session.endswith(SUFFIX):
        return None
    own = found.session.removesuffix(SUFFIX) + os.sep
    below = [path[len(own) :] for path in (*found.files, *found.folders) if path.startswith(own)]
    return own if is_own_folder(path.split(os.sep)[0] for path in below) else None


def _belongs(session: str, own: str | None, path: str) -> bool:
    if own is not None and path.startswith(own):
        return True
    if path.startswith(session + BLOBS + os.sep):
        return _BLOB.fullmatch(path[len(session + BLOBS + os.sep) :]) is not None
    return path.startswith(session) and _SIDECAR.fullmatch(path[len(session) :]) is not None


def _stays(top: str, path: str, what: str) -> StorageError:
    hint = "move that away and empty the trash again"
    return StorageError(f"{top} stays: {path} is {what}; {hint}", path)


def _condemn(fs: FileSystem, trash: str, name: str, session: str) -> str:
    """Give a session's folder a name that nothing restores, on the medium; return the name."""
    top, doomed = os.path.join(trash, name), os.path.join(trash, DELETING + name)
    lock = WriterLock(fs, os.path.join(top, session) + LOCK)
    with contextlib.closing(lock), lock.held(), refused("rename", top):
        fs.replace(top, doomed)
        fs.sync_folder(trash)
    return DELETING + name


def _remove_all(fs: FileSystem, top: str, found: _TrashedFiles) -> None:
    """Remove the files in a folder, and the folder.

    The session file is last, also after a power cut: by its name the next call knows the others.
    """
    last = os.path.dirname(found.session or "")
    for file in found.files:
        if file != found.session:
            _gone(fs.unlink, os.path.join(top, file))
    for folder in found.folders:
        if folder.startswith(os.path.join(last, "")) and folder != last:
            _gone(fs.remove_folder, os.path.join(top, folder))
    if found.session is not None:
        with refused("sync", top):
            fs.sync_folder(os.path.join(top, last))
        _gone(fs.unlink, os.path.join(top, found.session))
    for folder in found.folders:
        _gone(fs.remove_folder, os.path.join(top, folder).rstrip(os.sep))


def discard(fs: FileSystem, root: str, name: str) -> None:
    """Remove a folder of the trash that nothing lists, if it is there; the caller holds `moving`.

    Raises:
        StorageError: it holds anything but one session with its files.
    """
    trash = os.path.join(root, TRASH)
    if name.startswith(DELETING) and os.path.isdir(os.path.join(trash, name)):
        _remove_all(fs, os.path.join(trash, name), _checked(trash, name))


def reveal(fs: FileSystem, root: str, name: str) -> None:
    """Give a folder of the trash that is whole the name by which it is listed, on the medium."""
    trash = os.path.join(root, TRASH)
    with refused("rename", os.path.join(trash, DELETING + name)):
        fs.replace(os.path.join(trash, DELETING + name), os.path.join(trash, name))
        fs.sync_folder(trash)


def _gone(remove: Callable[[str], None], path: str) -> None:
    with refused("remove", path), contextlib.suppress(FileNotFoundError):
        remove(path)
