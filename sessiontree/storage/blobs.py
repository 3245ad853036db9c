"""Blobs: large contents, each a file of its own beside the session.

Invariants: a blob has its name only when its bytes are on the medium, and `put`
returns only when its name is as well (with the durability `os`: when the system has
both), so a line written afterwards never names a blob that is not there; a blob is
never changed; what has its name already is compared with the hash before it counts.
Nothing here needs a lock: whoever stores the same content at the same time puts the
same file in its place. Removing needs one, as `remove` says.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Literal

from sessiontree.core.blob import Blob
from sessiontree.errors import BlobError, BlobMissingError, CallerError
from sessiontree.storage.atomic import NO_LINKS, UNFINISHED
from sessiontree.storage.fs import CREATE, READ_PLAIN, FileSystem, write_all
from sessiontree.storage.journal import Durability
from sessiontree.storage.sidecar import ASIDE, BLOCK, Sidecar, refused


class Blobs(Sidecar):
    """The sidecar folder of one session file, to be written; it is made when first needed."""

    def __init__(self, fs: FileSystem, file: str, durability: Durability = "fsync") -> None:
        super().__init__(fs, file)
        self._syncs = durability == "fsync"
        self._is_made = False
        self._kept: dict[str, tuple[int, tuple[int, int]]] = {}

    def put(self, content: bytes | Iterable[bytes]) -> Blob:
        """Store content; it is kept when this returns. What is there already stays.

        Args:
            content: the bytes, or blocks of them, which are never in memory together.

        Raises:
            DiskError: it cannot be written; nothing has the blob's name then.
            BlobError: something stands in its place that cannot be read, or is no file.
        """
        if isinstance(content, bytes):
            blob = Blob(hashlib.sha256(content).hexdigest(), len(content))
            if self.has(blob):
                return blob
            if self._found(blob) == "whole":
                return self._kept_from_now(blob)
            beside = self._written_beside((content,))
        else:
            hashed = _Hashed(content)
            beside = self._written_beside(hashed)
            blob = hashed.blob()
        try:
            found = self._found(blob)
            if found != "whole":
                self._name(beside, blob, found)
        finally:
            self._drop(beside)  # a name it has no more, as a rule
        return self._kept_from_now(blob)

    def _kept_from_now(self, blob: Blob) -> Blob:
        self._sync_folder()
        self._note(blob)
        return blob

    def confirm(self, blob: Blob) -> None:
        """Make sure of a blob that is there: it is read, compared, and kept when this returns.

        Raises:
            BlobError: it is not there, or something else is.
            DiskError: it cannot be synced.
        """
        if self.has(blob):
            return
        with self._opened(*blob) as (fd, _):
            if self._hash(fd, blob) != blob.sha256:
                raise self._damaged(blob.sha256, "its bytes are not those that were put there")
            if self._syncs:
                with refused("sync", self._path(blob.sha256)):
                    self._fs.sync(fd)
        self._kept_from_now(blob)

    def has(self, blob: Blob) -> bool:
        """Whether a blob that was put here, or made sure of, by this object, is in its place still.

        Costs one look at the file's size and identity. A session asks again before
        it writes the line, for somebody may have removed the blob meanwhile.
        """
        kept = self._kept.get(blob.sha256)
        if kept is None or kept[0] != blob.size:
            return False
        try:
            found = self._fs.stat(self._path(blob.sha256))
        except OSError:
            return False
        return (found.size, found.identity) == kept

    def _note(self, blob: Blob) -> None:
        with refused("look at", self._path(blob.sha256)):
            try:
                found = self._fs.stat(self._path(blob.sha256))
            except FileNotFoundError:  # removed this moment; `has` will say so
                return
        self._kept[blob.sha256] = (found.size, found.identity)

    def _found(self, blob: Blob) -> Literal["absent", "damaged", "whole"]:
        """What stands in a blob's place, read and compared; synced where it is the blob."""
        try:
            with self._opened(blob.sha256) as (fd, size):
                if size != blob.size or self._hash(fd, blob) != blob.sha256:
                    return "damaged"
                if self._syncs:
                    with refused("sync", self._path(blob.sha256)):
                        self._fs.sync(fd)
                return "whole"
        except BlobMissingError:
            return "absent"

    def _written_beside(self, blocks: Iterable[bytes]) -> str:
        """The path of a synced file that holds the blocks, and has no blob's name yet."""
        path, fd = self._new_file()
        try:
            try:
                for block in blocks:
                    if block:
                        with refused("write", self.folder):
                            write_all(self._fs, fd, block)
                if self._syncs:
                    with refused("sync", self.folder):
                        self._fs.sync(fd)
            finally:
                with refused("close", self.folder):
                    self._fs.close(fd)
        except BaseException:
            self._drop(path)
            raise
        return path

    def _new_file(self) -> tuple[str, int]:
        path = os.path.join(self.folder, f"{os.getpid()}-{os.urandom(8).hex()}{UNFINISHED}")
        with refused("make a file in", self.folder):
            if self._is_made:
                with contextlib.suppress(FileNotFoundError):
                    return path, self._fs.open(path, CREATE)
            self._make_folder()
            return path, self._fs.open(path, CREATE)

    def _make_folder(self) -> None:
        with contextlib.suppress(FileExistsError):
            self._fs.make_folder(self.folder)
        if self._syncs:  # also where another made it, who may not have come so far
            self._fs.sync_folder(os.path.dirname(self.folder))
        self._is_made = True

    def _name(self, beside: str, blob: Blob, found: Literal["absent", "damaged"]) -> None:
        """Give a finished file a blob's name; damage that stands there is kept beside."""
        path = self._path(blob.sha256)
        if found == "damaged":
            self._keep_aside(path)
        with refused("name", path):
            self._fs.replace(beside, path)

    def _keep_aside(self, path: str) -> None:
        """Give what stands at a path another name as well: the first is never without a file."""
        today = datetime.now(UTC).date()
        aside = f"{path}{ASIDE}{today}-{os.urandom(4).hex()}"
        with refused("keep a copy of", path):
            try:
                self._fs.link(path, aside)
            except OSError as error:
                if error.errno not in NO_LINKS:
                    raise
                self._copy(path, aside)

    def _copy(self, path: str, aside: str) -> None:
        with contextlib.ExitStack() as opened:
            source = self._fs.open(path, READ_PLAIN)
            opened.callback(self._fs.close, source)
            target = self._fs.open(aside, CREATE)
            opened.callback(self._fs.close, target)
            offset = 0
            while block := self._fs.read(source, BLOCK, offset):
                write_all(self._fs, target, block)
                offset += len(block)

    def _drop(self, path: str) -> None:
        with contextlib.suppress(OSError):
            self._fs.unlink(path)

    def _sync_folder(self) -> None:
        with refused("sync", self.folder):
            if not self._is_made:
                self._make_folder()
            if self._syncs:
                self._fs.sync_folder(self.folder)

    def link_from(self, other: Blobs, blobs: Iterable[Blob]) -> list[BlobError]:
        """Take blobs of another session along: as second names of its files, or as copies.

        They are kept when this returns. A copy is compared with its hash; a second
        name is of the very same file, whatever is in it, and costs no space.

        Returns:
            What could not be taken along, for it is missing or damaged there; no name
            of it is made here.

        Raises:
            DiskError: the system refuses here.
        """
        lost: list[BlobError] = []
        linked: list[Blob] = []
        for blob in dict.fromkeys(blobs):
            try:
                if self._link(other, blob):
                    linked.append(blob)
                else:
                    self.put(other.blocks(*blob))
            except BlobError as error:
                lost.append(error)
        if linked:
            self._sync_folder()
            for blob in linked:
                self._note(blob)
        return lost

    def _link(self, other: Blobs, blob: Blob) -> bool:
        """Whether a second name could be given to a blob of another session."""
        with other._opened(*blob) as (fd, _):
            if other._fs is not self._fs or other.folder == self.folder:
                return False
            source, target = other._path(blob.sha256), self._path(blob.sha256)
            with refused("make", target):
                if not self._is_made:
                    self._make_folder()
                if self._syncs:
                    self._fs.sync(fd)
                try:
                    self._fs.link(source, target)
                except OSError as error:
                    if error.errno not in NO_LINKS | {errno.EXDEV, errno.EEXIST, errno.EACCES}:
                        raise
                    return False
        return True

    def remove(self, name: str) -> None:
        """Remove a blob, by its SHA-256, or another file of the folder; one that is gone is none.

        Nothing that is on the medium may name it any more, and no writer may be about
        to: the caller holds the writer's lock.
        """
        self._kept.pop(name, None)
        path = self._path(name)
        with refused("remove", path), contextlib.suppress(FileNotFoundError):
            self._fs.unlink(path)


class _Hashed:
    """Blocks on their way to a file, and what blob they are once they are all through."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = blocks
        self._hash = hashlib.sha256()
        self._size = 0

    def __iter__(self) -> Iterator[bytes]:
        for block in self._blocks:
            if not isinstance(block, bytes):
                raise CallerError(
                    f"a blob is made of bytes, not of {type(block).__name__}; "
                    "give bytes, or blocks of bytes"
                )
            self._hash.update(block)
            self._size += len(block)
            yield block

    def blob(self) -> Blob:
        return Blob(self._hash.hexdigest(), self._size)
