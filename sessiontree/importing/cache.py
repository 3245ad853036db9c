"""The cache of a backup: the stamps of files that did not change, so that it reads none again.

The cache is a file in the user's folder of caches, one for each store. A file that may still
change within the resolution of its times has no stamp there.

Invariants: a cache that is missing, damaged or not writable changes no result but the time; no text
of a session is in the cache.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, TypeVar

import msgspec

from sessiontree.catalog.listing import header_of
from sessiontree.errors import SessionTreeError
from sessiontree.importing.source import parts_of
from sessiontree.importing.stamps import Stamp, Stamps, stamp_of
from sessiontree.importing.target import record_in
from sessiontree.storage.atomic import swap_file
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.move import make_folders
from sessiontree.storage.place import is_address
from sessiontree.storage.rollouts import index_line

SETTLED_AFTER: Final = 2.0
"""Seconds after its last change from which on a file has a new time when it changes again."""

_MOST_KEPT: Final = 100_000

T = TypeVar("T")


class Origin(msgspec.Struct, array_like=True, frozen=True):
    """Whose session a file of the store is.

    Attributes:
        agent: the agent that it was imported from; None if it was not imported.
        id: its id.
        source: the name of the file that it was imported from.
    """

    agent: str | None = None
    id: str = ""
    source: str = ""


class _Source(msgspec.Struct, array_like=True, frozen=True):
    beside: list[str]  # the other files and folders that decide what is read
    stamp: Stamp  # of the source and those
    index: bytes | None  # what Codex's index says of it
    target: str
    stamp_of_target: Stamp


class _Target(msgspec.Struct, array_like=True, frozen=True):
    stamp: Stamp
    origin: Origin


class _Kept(msgspec.Struct, array_like=True):
    sources: dict[str, _Source] = {}
    targets: dict[str, _Target] = {}


class Look(msgspec.Struct, frozen=True):
    """A source as it was before it was read."""

    beside: list[str]
    stamp: Stamp
    index: bytes | None
    is_whole: bool


class Seen:
    """The stamps of the sources and the targets of the backups of one store.

    Args:
        store: the store.
        folder: where the cache is; None: nowhere.
        fs: the file system.
    """

    def __init__(self, store: Stamps, folder: str | None, fs: FileSystem) -> None:
        root = store.catalog.root
        real = root if is_address(root) else os.path.realpath(root)
        name = hashlib.sha256(os.fsencode(real)).hexdigest()[:16]
        self._store = store
        self._file = None if folder is None else os.path.join(folder, f"backup-1-{name}.msgpack")
        self._fs = fs
        self._kept = self._read()
        self._is_changed = False

    def target_of(self, source: str) -> str | None:
        """The session that has all of a source, if neither changed since that was seen."""
        kept = self._kept.sources.get(source)
        if kept is None or kept.stamp != _stamp([source, *kept.beside]):
            return None
        if kept.stamp_of_target != self._store.stamp(kept.target) or -1 in kept.stamp_of_target:
            return None
        return kept.target if kept.index == index_line(source, self._fs) else None

    def look(self, source: str) -> Look:
        """Take the stamps of a source, before it is read."""
        index = index_line(source, self._fs)
        parts = parts_of(source, self._fs)
        beside = list(dict.fromkeys([*parts.files[1:], *parts.folders]))
        return Look(beside, _stamp([source, *beside]), index, parts.is_whole)

    def keep(self, source: str, before: Look, target: str) -> None:
        """Note that a session has all that a source had at a look, unless that may still change."""
        if not before.is_whole or not _is_settled(before.stamp):
            return
        stamp = self._store.stamp(target)
        found = _Source(before.beside, before.stamp, before.index, target, stamp)
        if self._kept.sources.get(source) != found and _can_be_kept((source, found)):
            self._kept.sources[source] = found
            self._is_changed = True

    def origin_of(self, target: str) -> Origin:
        """Whose session a file of the store is; of nobody if it cannot be read."""
        stamp = self._store.stamp(target)
        kept = self._kept.targets.get(target)
        if kept is not None and kept.stamp == stamp:
            return kept.origin
        found = _Target(stamp, _origin_in(target, self._fs))
        if _can_be_kept((target, found)):
            self._kept.targets[target] = found
            self._is_changed = True
        return found.origin

    def _read(self) -> _Kept:
        if self._file is None:
            return _Kept()
        try:
            with open(self._file, "rb") as file:
                return _decode(file.read())
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return _Kept()

    def save(self) -> None:
        """Keep what was seen, the newest of very many."""
        if self._file is None or not self._is_changed:
            return
        kept = _Kept(_newest(self._kept.sources), _newest(self._kept.targets))
        with suppress(OSError, SessionTreeError):
            make_folders(self._fs, os.path.dirname(self._file))
            swap_file(self._fs, self._file, iter([msgspec.msgpack.encode(kept)]))
            self._is_changed = False


_decode: Final = msgspec.msgpack.Decoder(_Kept).decode


def _stamp(paths: Iterable[str]) -> Stamp:
    return tuple(number for path in paths for number in stamp_of(path))


def _is_settled(stamp: Stamp) -> bool:
    return max(stamp[1::4]) < (time.time() - SETTLED_AFTER) * 1e9


def _newest(kept: dict[str, T]) -> dict[str, T]:
    return dict(list(kept.items())[-_MOST_KEPT:])


def _can_be_kept(found: object) -> bool:
    """Whether a cache can have it: a path that is not Unicode it cannot have."""
    try:
        msgspec.msgpack.encode(found)
    except UnicodeEncodeError:
        return False
    return True


def _origin_in(file: str, fs: FileSystem) -> Origin:
    try:
        header = header_of(file, fs)
    except SessionTreeError:
        return Origin()
    id, metadata = header.get("id"), header.get("metadata")
    record = record_in(header)
    if not (record and isinstance(id, str) and isinstance(metadata, dict)):
        return Origin()
    if "parentSession" in header:  # a fork is the user's own
        return Origin()
    agent, source = metadata.get("agent"), record.get("file")
    return Origin(str(agent or "pi"), id, str(source or ""))
