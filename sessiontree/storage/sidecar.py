"""The sidecar: the folder of blobs beside a session file, as a reader sees it.

It has the session file's real path with `.blobs` added, and its owner alone may
enter it. Each blob is a file in it, named by the SHA-256 of its bytes, in hex.

Invariants: nothing is changed; what stands under a blob's name is never believed:
it is compared with the hash whenever it is read; no link is followed below the
folder, and nothing there is waited for; no name leads out of it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from typing import Final

from sessiontree.core.blob import Blob
from sessiontree.errors import (
    BlobDamagedError,
    BlobError,
    BlobMissingError,
    BlobUnreadableError,
    DiskError,
)
from sessiontree.storage.atomic import UNFINISHED
from sessiontree.storage.fs import READ_PLAIN, FileSystem, Stat
from sessiontree.storage.oserrors import next_step

FOLDER: Final = ".blobs"
"""Added to the session file's name."""

ASIDE: Final = ".damaged-"
"""In the name under which what stood in a blob's place, and was not the blob, is kept."""

BLOCK: Final = 1024 * 1024
"""What of a blob is in memory at once, in bytes, where it is read or copied in blocks."""


class Sidecar:
    """The folder of blobs of one session file.

    Attributes:
        file: the path of the session file as given, for messages.
        folder: the path of the folder, without links; it need not be there.
    """

    def __init__(self, fs: FileSystem, file: str) -> None:
        self.file = file
        self.folder = os.path.realpath(file) + FOLDER
        self._fs = fs

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

    def blobs(self) -> Iterator[Blob]:
        """Each blob in the folder, with the size it has; nothing is read."""
        for name in self._names():
            if _NAME.fullmatch(name):
                path = self._path(name)
                with refused("look at", path), contextlib.suppress(FileNotFoundError):
                    found = self._fs.stat(path)
                    if not found.is_folder and not found.is_stream:
                        yield Blob(name, found.size)

    def unfinished(self) -> list[str]:
        """The names of files that a program which died in the middle of a `put` left behind.

        Another may be at one of them right now: `modified` tells.
        """
        return [name for name in self._names() if name.endswith(UNFINISHED)]

    def aside(self) -> list[str]:
        """The names of files that stood in a blob's place, and were not the blob."""
        return [name for name in self._names() if _ASIDE.fullmatch(name)]

    def look(self, name: str) -> Stat | None:
        """What a blob, by its SHA-256, or another file of the folder is; None where it is gone."""
        path = self._path(name)
        with refused("look at", path), contextlib.suppress(FileNotFoundError):
            return self._fs.stat(path)
        return None

    def fault(self, blob: Blob) -> BlobError | None:
        """What is wrong with a blob, as far as it can be told without reading it."""
        try:
            with self._opened(*blob):
                return None
        except BlobError as error:
            return error

    def verify(self, needed: Iterable[Blob] = ()) -> Iterator[BlobError]:
        """What is wrong with the blobs in the folder, and with those that are needed.

        Args:
            needed: the blobs that the session's entries name.
        """
        wanted: list[tuple[str, int | None]] = sorted(set(needed))
        names = {sha256 for sha256, _ in wanted}
        others = [name for name in self._names() if _NAME.fullmatch(name) and name not in names]
        for sha256, size in [*wanted, *((name, None) for name in others)]:
            try:
                self._verify(sha256, size)
            except BlobError as error:
                yield error

    def _verify(self, sha256: str, size: int | None) -> None:
        with self._opened(sha256, size) as (fd, found):
            if self._hash(fd, Blob(sha256, found)) != sha256:
                raise self._damaged(sha256, "its bytes are not those that were put there")

    def _names(self) -> list[str]:
        with refused("list", self.folder):
            try:
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
                wrong = self._damaged(sha256, f"it {cause}: {found.size:,} of {size:,} bytes")
                wrong.sizes = found.size, size
                raise wrong
            yield fd, found.size
        finally:
            with contextlib.suppress(OSError):
                self._fs.close(fd)

    def _not_opened(self, sha256: str, error: OSError) -> BlobError:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            cause = f"a blob of {self.file} is missing: there is no file {self._path(sha256)}"
            message = (
                f"{cause}; where the session was moved or copied, bring the folder along, "
                "or else restore it from a backup"
            )
            return BlobMissingError(message, self.file, sha256, cause)
        if error.errno in (errno.ELOOP, errno.EMLINK):
            return self._damaged(
                sha256, "a symbolic link stands in its place", "put the file itself there"
            )
        if error.errno == errno.ENXIO:
            return self._damaged(sha256, "a socket stands in its place", "move that away")
        return self._unreadable(sha256, error)

    def _unreadable(self, sha256: str, error: OSError) -> BlobUnreadableError:
        cause = (
            f"cannot read {self._path(sha256)}, a blob of {self.file}: {error.strerror or error}"
        )
        message = f"{cause}; check its permissions and the medium"
        return BlobUnreadableError(message, self.file, sha256, cause)

    def _damaged(self, sha256: str, cause: str, then: str = "") -> BlobDamagedError:
        wrong = f"a blob of {self.file} is damaged: {self._path(sha256)}: {cause}"
        then = then or "restore it from a backup, or store the same content again"
        return BlobDamagedError(f"{wrong}; {then}", self.file, sha256, wrong)

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
        """Where a blob or another file of ours is; no name leads out of the folder."""
        is_other = name.endswith(UNFINISHED) or _ASIDE.fullmatch(name)
        if not _NAME.fullmatch(name) and not (is_other and os.sep not in name):
            raise BlobMissingError(
                f"a blob of {self.file} is asked for by {name!r:.80}, which is no SHA-256 in hex; "
                "look at the handle",
                self.file,
            )
        return os.path.join(self.folder, name)


@contextlib.contextmanager
def refused(verb: str, what: str) -> Iterator[None]:
    """Turn the system's refusals into errors that name the file and the next step."""
    try:
        yield
    except OSError as error:
        message = f"cannot {verb} {what}: {error.strerror or error}; {next_step(error)}"
        raise DiskError(message, what) from error


_NAME: Final = re.compile("[0-9a-f]{64}")
_ASIDE: Final = re.compile(f"[0-9a-f]{{64}}{re.escape(ASIDE)}[0-9a-f-]+")
