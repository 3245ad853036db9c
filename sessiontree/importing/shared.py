"""Blobs that sessions share: an import stores a content once for all sessions of a folder.

A session has a name of its own for each of its blobs, in its own folder of blobs. Where the file
system has hard links, a blob that another session of the folder has costs a name and no space; to
remove one session never hurts another.

Invariant: a blob of another session is read and compared with its hash before it is shared.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from typing import Final

from sessiontree.core.blob import Blob
from sessiontree.errors import SessionTreeError
from sessiontree.storage.blobs import Blobs
from sessiontree.storage.files import BLOBS, is_not_entered
from sessiontree.storage.fs import FileSystem

_NAME: Final = re.compile(r"[0-9a-f]{64}")


class SharedBlobs:
    """The blobs of all sessions in a folder and below, which is looked at when one is first put."""

    def __init__(self, fs: FileSystem, folder: str) -> None:
        self._fs = fs
        self._folder = folder
        self._holders: dict[str, str] | None = None

    def put(self, blobs: Blobs, content: bytes) -> Blob:
        """Store a content among the blobs of a session; raises as `Blobs.put` does."""
        if self._holders is None:
            self._holders = self._found()
        sha256 = hashlib.sha256(content).hexdigest()
        blob = Blob(sha256, len(content))
        holder = self._holders.get(sha256)
        if holder not in (None, blobs.file) and not blobs.has(blob) and blobs.look(sha256) is None:
            with contextlib.suppress(SessionTreeError):  # the content itself is stored below
                blobs.link_from(Blobs(self._fs, str(holder)), [blob])
        stored = blobs.put(content)
        self._holders[sha256] = blobs.file
        return stored

    def _found(self) -> dict[str, str]:
        """For each blob the file of a session that has it, by their names."""
        holders: dict[str, str] = {}
        for where, folders, _ in os.walk(self._folder):
            for name in [name for name in folders if name.endswith(BLOBS)]:
                holder = os.path.join(where, name)
                with contextlib.suppress(OSError):
                    for blob in filter(_NAME.fullmatch, self._fs.list(holder)):
                        holders[blob] = holder.removesuffix(BLOBS)
            folders[:] = [name for name in folders if not is_not_entered(name)]
        return holders
