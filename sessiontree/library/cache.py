"""A cache in the user's folder of caches: facts about files, kept as long as these do not change.

Invariants: a cache that is missing, damaged or not writable changes no result but the time; a file
that may still change within the resolution of its times is not cached; no text of a session is in
a cache.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, Generic, TypeVar

import msgspec

from sessiontree.errors import SessionTreeError
from sessiontree.storage.atomic import swap_file
from sessiontree.storage.fs import DISK, FileSystem
from sessiontree.storage.sidecars import make_folders

MAX_ROWS: Final = 100_000

Row = TypeVar("Row")
Stamp = tuple[int, ...]
"""For each of some files the size, both times in nanoseconds and the inode; -1 for a missing one.

The stamp of a session at an address has its size and its time alone.
"""


def stamp_of(paths: Iterable[str]) -> Stamp:
    return tuple(number for path in paths for number in _stamp_of(path))


def _stamp_of(path: str) -> Stamp:
    try:
        found = os.stat(path)
    except NotADirectoryError:
        return _stamp_in_database(path)
    except (OSError, ValueError):
        return -1, -1, -1, -1
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def _stamp_in_database(path: str) -> Stamp:
    """The stamp of a session in a database, which changes with its rows alone."""
    from sessiontree.storage import databases  # with sqlite3, and few sessions are in a database

    with suppress(OSError, SessionTreeError):
        if (rows := databases.rows_at(path)) is not None:
            changed = rows.modified * 1_000_000
            return rows.identity[0], changed, changed, rows.identity[1]
    return -1, -1, -1, -1


def is_settled(stamp: Stamp) -> bool:
    """True if the next change of each file gives it a new time."""
    return max(stamp[1::4]) < (time.time() - 2.0) * 1e9


class Cache(Generic[Row]):
    """Rows by the path of a file.

    Args:
        file: where they are kept; None: in memory only.
        decoder: decodes all rows.
    """

    def __init__(
        self,
        file: str | None,
        decoder: msgspec.msgpack.Decoder[dict[str, Row]],
        fs: FileSystem = DISK,
    ) -> None:
        self._file = file
        self._fs = fs
        self._decode = decoder.decode
        self._rows = self._saved()
        self._changed: dict[str, Row] = {}

    def _saved(self) -> dict[str, Row]:
        if self._file is None:
            return {}
        try:
            with open(self._file, "rb") as opened:
                return self._decode(opened.read())
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return {}

    def get(self, path: str) -> Row | None:
        return self._rows.get(path)

    def keep(self, path: str, row: Row) -> None:
        if self._rows.get(path) == row:
            return
        with suppress(UnicodeEncodeError):  # a path that is not Unicode, which no cache can have
            msgspec.msgpack.encode((path, row))
            self._rows[path] = self._changed[path] = row

    def save(self) -> None:
        """Write the rows, the newest of very many; those that another process wrote since stay."""
        if self._file is None or not self._changed:
            return
        self._rows |= self._saved() | self._changed
        rows = dict(list(self._rows.items())[-MAX_ROWS:])
        with suppress(OSError, SessionTreeError):
            make_folders(self._fs, os.path.dirname(self._file))
            swap_file(self._fs, self._file, iter([msgspec.msgpack.encode(rows)]))
            self._changed = {}
