"""The sessions that the user took off the lists: their ids, one a line, in a file of the user.

Invariant: a session is never touched, and found by its id and in a search as before.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from contextlib import suppress

from sessiontree.library.listing import SessionInfo
from sessiontree.library.root import data_folder
from sessiontree.storage.atomic import swap_file
from sessiontree.storage.fs import DISK
from sessiontree.storage.sidecars import make_folders


def hidden_ids() -> frozenset[str]:
    """The ids of the hidden sessions; none if the file cannot be read."""
    with suppress(OSError, UnicodeDecodeError), open(_file(), encoding="utf-8") as file:
        return frozenset(file.read().splitlines())
    return frozenset()


def hide(ids: Collection[str]) -> None:
    """Take sessions off the lists.

    Raises:
        StorageError: the file cannot be written.
    """
    _write(hidden_ids() | set(ids))


def unhide(ids: Collection[str]) -> None:
    """Bring sessions back to the lists; raises as `hide`."""
    _write(hidden_ids() - set(ids))


def without_hidden(found: Iterable[SessionInfo]) -> list[SessionInfo]:
    """The sessions that a list shows."""
    ids = hidden_ids()
    return [one for one in found if one.id not in ids]


def _write(ids: Iterable[str]) -> None:
    make_folders(DISK, os.path.dirname(_file()))
    swap_file(DISK, _file(), iter([f"{id}\n".encode() for id in sorted(ids)]))


def _file() -> str:
    return os.path.join(data_folder(), ".hidden")
