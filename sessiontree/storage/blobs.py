"""Blobs: large contents, each a file of its own beside the session.

They lie in the folder that has the session file's real path with `.blobs` added,
which its owner alone may enter; each is named by the SHA-256 of its bytes, in hex.

Invariants: a blob has its name only when its bytes are on the medium, and `put`
returns only when its name is as well (with the durability `os`: when the system has
both), so a line written afterwards never names a blob that is not there; a blob is
never changed; what stands under its name is never believed: it is compared with the
hash whenever it is read, and by `put` before it counts as there already. No link is
followed below the folder, and nothing there is waited for. Nothing needs a lock:
whoever stores the same content at the same time puts the same file in its place.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from sessiontree.core.blob import Blob
from sessiontree.errors import (
    BlobDamagedError,
    BlobError,
    BlobMissingError,
    BlobUnreadableError,
    CallerError,
    DiskError,
)
from sessiontree.storage.fs import CREATE, READ_PLAIN, FileSystem, write_all
from sessiontree.storage.journal import Durability

FOLDER: Final = ".blobs"
"""Added to the session file's name."""

BLOCK: Final = 1024 * 1024
"""What of a blob is in memory at once, in bytes, where it is read or copied in blocks."""

UNFINISHED: Final = ".tmp"
DAMAGED: Final = ".damaged-"


class Blobs:
    """The sidecar folder of one session file.

    Attributes:
        file: the path of the session file as given, for messages.
        folder: the path of the folder, without links; it is made when first needed.
    """

    def __init__(self, fs: FileSystem, file: str, durability: Durability = "fsync") -> None:
        self.file = file
        self.folder = os.path.realpath(file) + FOLDER
        self._fs = fs
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
            found = self._found(blob)
            if found != "whole":
                beside, _ = self._written_beside((content,))
                self._name(beside, blob, found)
        else:
            beside, blob = self._written_beside(content)
            try:
                found = "whole" if self.has(blob) else self._found(blob)
            except BaseException:
                self._drop(beside)
                raise
            if found == "whole":
                self._drop(beside)
            else:
                self._name(beside, blob, found)
        self._sync_folder()
        self._note(blob)
        return blob

    def has(self, blob: Blob) -> bool:
        """Whether a blob that was put here, by this object, is in its place still.

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
        with self._refused("look at", self._path(blob.sha256)):
            found = self._fs.stat(self._path(blob.sha256))
        self._kept[blob.sha256] = (found.size, found.identity)

    def _found(self, blob: Blob) -> Literal["absent", "damaged", "whole"]:
        """What stands in a blob's place, read and compared; synced where it is the blob."""
        try:
            with self._opened(blob.sha256) as (fd, size):
                if size != blob.size or self._hash(fd, blob) != blob.sha256:
                    return "damaged"
                if self._syncs:
                    with self._refused("sync", self._path(blob.sha256)):
                        self._fs.sync(fd)
                return "whole"
        except BlobMissingError:
            return "absent"

    def _written_beside(self, content: Iterable[bytes]) -> tuple[str, Blob]:
        """Content in a synced file that has no blob's name yet, and what blob it is."""
        path, fd = self._new_file()
        hashed = hashlib.sha256()
        size = 0
        try:
            try:
                for block in content:
                    if not isinstance(block, bytes):
                        raise CallerError(
                            f"a blob is made of bytes, not of {type(block).__name__}; "
                            "give bytes, or blocks of bytes"
                        )
                    hashed.update(block)
                    size += len(block)
                    if block:
                        with self._refused("write", self.folder):
                            write_all(self._fs, fd, block)
                if self._syncs:
                    with self._refused("sync", self.folder):
                        self._fs.sync(fd)
            finally:
                with self._refused("close", self.folder):
                    self._fs.close(fd)
        except BaseException:
            self._drop(path)
            raise
        return path, Blob(hashed.hexdigest(), size)

    def _new_file(self) -> tuple[str, int]:
        path = os.path.join(self.folder, f"{os.getpid()}-{os.urandom(8).hex()}{UNFINISHED}")
        with self._refused("make a file in", self.folder):
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
        try:
            if found == "damaged":
                self._keep_aside(path)
            with self._refused("name", path):
                self._fs.replace(beside, path)
        except BaseException:
            self._drop(beside)
            raise

    def _keep_aside(self, path: str) -> None:
        """Give what stands at a path another name as well: the first is never without a file."""
        aside = f"{path}{DAMAGED}{os.urandom(4).hex()}"
        with self._refused("keep a copy of", path):
            try:
                self._fs.link(path, aside)
            except OSError as error:
                if error.errno not in NO_LINKS:
                    raise
                self._copy(path, aside)

    def _copy(self, path: str, aside: str) -> None:
        with contextlib.ExitStack() as opened:
            source, target = self._fs.open(path, READ_PLAIN), self._fs.open(aside, CREATE)
            opened.callback(self._fs.close, source)
            opened.callback(self._fs.close, target)
            offset = 0
            while block := self._fs.read(source, BLOCK, offset):
                write_all(self._fs, target, block)
                offset += len(block)

    def _drop(self, path: str) -> None:
        with contextlib.suppress(OSError):
            self._fs.unlink(path)

    def _sync_folder(self) -> None:
        with self._refused("sync", self.folder):
            if not self._is_made:
                self._make_folder()
            if self._syncs:
                self._fs.sync_folder(self.folder)

    def read(self, sha256: str, size: int) -> bytes:
        """A blob's bytes.

        Raises:
            BlobMissingError: it is not there.
            BlobDamagedError: something else is: of another size, other bytes, a link, a folder.
            BlobUnreadableError: the system refuses.
        """
        with self._opened(sha256, size) as (fd, _):
            content = self._read(fd, sha256, size, 0)
        if len(content) != size or hashlib.sha256(content).hexdigest() != sha256:
            raise self._damaged(sha256, "its bytes are not those that were put there")
        return content

    def blocks(self, sha256: str, size: int) -> Iterator[bytes]:
        """A blob's bytes, block by block, one of them in memory at a time.

        The last block is given only when all of them have the right hash. So whoever
        gets to the end has had the right bytes; what came before an error is not to
        be used. A blob of one block is right or an error.

        Raises:
            BlobError: as `read`; in place of the last block where the bytes are wrong.
        """
        hashed = hashlib.sha256()
        held = b""
        with self._opened(sha256, size) as (fd, _):
            offset = 0
            while block := self._read(fd, sha256, min(BLOCK, size - offset), offset):
                if held:
                    yield held
                hashed.update(block)
                offset += len(block)
                held = block
        if offset != size or hashed.hexdigest() != sha256:
            raise self._damaged(sha256, "its bytes are not those that were put there")
        if held:
            yield held

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
            with self._refused("make", target):
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

    def blobs(self) -> Iterator[Blob]:
        """Each blob in the folder, with the size it has; nothing is read."""
        for name in self._names():
            if _NAME.fullmatch(name):
                with contextlib.suppress(FileNotFoundError), self._refused("look at", name, False):
                    found = self._fs.stat(self._path(name))
                    if not found.is_folder and not found.is_stream:
                        yield Blob(name, found.size)

    def unfinished(self) -> list[str]:
        """The names of files that a program which died in the middle of a `put` left behind.

        Another may be at one of them right now: `modified` tells.
        """
        return [name for name in self._names() if name.endswith(UNFINISHED)]

    def modified(self, name: str) -> float:
        """When a blob, by its SHA-256, or an unfinished file was written, in seconds since 1970."""
        path = self._path(name)
        with self._refused("look at", path):
            return self._fs.stat(path).modified

    def remove(self, name: str) -> None:
        """Remove a blob, by its SHA-256, or an unfinished file; one that is gone is none.

        Nothing that is on the medium may name it any more, and no writer may be about
        to: the caller holds the writer's lock.
        """
        self._kept.pop(name, None)
        path = self._path(name)
        with contextlib.suppress(FileNotFoundError), self._refused("remove", path, False):
            self._fs.unlink(path)

    def verify(self, needed: Iterable[Blob] = ()) -> Iterator[BlobError]:
        """What is wrong with the blobs in the folder, and with those that are needed.

        Args:
            needed: the blobs that the session's entries name.
        """
        wanted = dict.fromkeys(sorted(needed))
        names = {blob.sha256 for blob in wanted}
        there = [name for name in self._names() if _NAME.fullmatch(name) and name not in names]
        for blob in [*wanted, *(Blob(name, -1) for name in there)]:
            try:
                self._verify(blob)
            except BlobError as error:
                yield error

    def _verify(self, blob: Blob) -> None:
        size = None if blob.size < 0 else blob.size
        with self._opened(blob.sha256, size) as (fd, found):
            if self._hash(fd, Blob(blob.sha256, found)) != blob.sha256:
                raise self._damaged(blob.sha256, "its bytes are not those that were put there")

    def _names(self) -> list[str]:
        try:
            with self._refused("list", self.folder, False):
                return sorted(self._fs.list(self.folder))
        except FileNotFoundError:
            return []

    @contextlib.contextmanager
    def _opened(self, sha256: str, size: int | None = None) -> Iterator[tuple[int, int]]:
        """The descriptor of what stands in a blob's place, a plain file, and its size.

        Raises:
            BlobError: there is no such file, or it is of another size than is asked for.
        """
        path = self._path(sha256)
        try:
            fd = self._fs.open(path, READ_PLAIN)
        except OSError as error:
            raise self._not_opened(sha256, error) from error
        try:
            try:
                found = self._fs.stat(fd)
            except OSError as error:
                raise self._unreadable(sha256, error) from error
            if found.is_folder or found.is_stream:
                what = "a folder" if found.is_folder else "a pipe or a device"
                raise self._damaged(sha256, f"{what} stands in its place", "move that away")
            if size is not None and found.size != size:
                cause = "was cut off" if found.size < size else "had something added"
                raise self._damaged(sha256, f"it {cause}: {found.size:,} of {size:,} bytes")
            yield fd, found.size
        finally:
            with contextlib.suppress(OSError):
                self._fs.close(fd)

    def _not_opened(self, sha256: str, error: OSError) -> BlobError:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            message = (
                f"a blob of {self.file} is missing: there is no file {self._path(sha256)}; "
                f"put the folder back beside the session file, from where that was copied, "
                "or restore it from a backup"
            )
            return BlobMissingError(message, self.file)
        if error.errno in (errno.ELOOP, errno.EMLINK):
            return self._damaged(
                sha256, "a symbolic link stands in its place", "put the file itself there"
            )
        if error.errno == errno.ENXIO:
            return self._damaged(sha256, "a socket stands in its place", "move that away")
        return self._unreadable(sha256, error)

    def _unreadable(self, sha256: str, error: OSError) -> BlobUnreadableError:
        return BlobUnreadableError(
            f"cannot read {self._path(sha256)}, a blob of {self.file}: "
            f"{error.strerror or error}; check its permissions and the medium",
            self.file,
        )

    def _damaged(self, sha256: str, cause: str, then: str = "") -> BlobDamagedError:
        return BlobDamagedError(
            f"a blob of {self.file} is damaged: {self._path(sha256)}: {cause}; "
            f"{then or 'restore it from a backup, or store the same content again'}",
            self.file,
        )

    def _read(self, fd: int, sha256: str, size: int, offset: int) -> bytes:
        try:
            return self._fs.read(fd, size, offset) if size else b""
        except OSError as error:
            raise self._unreadable(sha256, error) from error

    def _hash(self, fd: int, blob: Blob) -> str:
        hashed = hashlib.sha256()
        offset = 0
        while block := self._read(fd, blob.sha256, min(BLOCK, blob.size - offset), offset):
            hashed.update(block)
            offset += len(block)
        return hashed.hexdigest()

    def _path(self, name: str) -> str:
        """Where a blob or an unfinished file is; no name leads out of the folder."""
        is_ours = _NAME.fullmatch(name) or (name.endswith(UNFINISHED) and os.sep not in name)
        if not is_ours:
            raise BlobMissingError(
                f"a blob of {self.file} is asked for by {name!r:.80}, which is no SHA-256 in hex; "
                "look at the handle",
                self.file,
            )
        return os.path.join(self.folder, name)

    @contextlib.contextmanager
    def _refused(self, verb: str, what: str, missing: bool = True) -> Iterator[None]:
        """Turn the system's refusals into errors that name the file and the next step."""
        try:
            yield
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not missing:
                raise
            hint = _HINTS.get(error.errno or 0, "check the path and the medium")
            message = f"cannot {verb} {what}: {error.strerror or error}; {hint}"
            raise DiskError(message, what) from error


NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
"""What a file system says that gives a file one name only."""

_NAME: Final = re.compile("[0-9a-f]{64}")

_HINTS: Final = {
    errno.EACCES: "check the permissions of the folder",
    errno.EPERM: "check the permissions of the folder",
    errno.EROFS: "the medium is read-only; copy the session elsewhere to write to it",
    errno.ENOSPC: "the disk is full; make space and try again",
    errno.EDQUOT: "the quota is used up; make space and try again",
    errno.ENOTDIR: "a file stands where the folder of blobs belongs; move it away",
    errno.ENOENT: "the folder of the session is gone; put it back",
    errno.ENAMETOOLONG: "choose a shorter name for the session file",
}
