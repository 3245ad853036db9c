"""Blobs: large contents, each a file of its own in a folder beside the session.

The folder has the session file's real path with `.blobs` added, and its owner alone may
enter it. Each blob is a file in it, named by the SHA-256 of its bytes, in hex.

Invariants of writing: a blob gets its name only when its bytes are on the medium, and
`put` returns only when its name is as well (with the durability `os`: when the system has
both), so a line written afterwards never names a blob that is not there; a blob is never
changed; a file that has a blob's name already is compared with the hash before it counts.
Writing needs no lock: two writers of the same content put the same file in its place.
Removing needs one, as `remove` says. Nothing is written, renamed or removed through a link: if
the folder is a link, to another session's blobs perhaps, every such call is refused.

Invariants of reading: nothing is changed; the content of a blob is compared with the hash
whenever it is read; no link is followed below the folder, and no pipe there is waited
for; no name leads out of the folder.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Final, Literal

from sessiontree.core.handle import Blob
from sessiontree.errors import (
    BlobDamagedError,
    BlobError,
    BlobMissingError,
    BlobUnreadableError,
    StorageError,
    UsageError,
)
from sessiontree.storage.atomic import UNFINISHED, blocks_of, link, unlinked_on_failure
from sessiontree.storage.fs import (
    CREATE,
    READ_PLAIN,
    Descriptor,
    Durability,
    FileSystem,
    Stat,
    refused,
    write_all,
)
from sessiontree.storage.names import BLOBS
from sessiontree.storage.place import WAY_HOME

ASIDE: Final = ".damaged-"
"""In the name of a damaged file that had a blob's name before."""

BLOCK: Final = 1024 * 1024
"""Bytes of a blob that are in memory at once."""

_NAME: Final = re.compile("[0-9a-f]{64}")
_ASIDE: Final = re.compile(f"[0-9a-f]{{64}}{re.escape(ASIDE)}[0-9a-f-]+")
_POINTER: Final = re.compile("at-[0-9a-f]{32}-[0-9a-f]{8}")
_WRONG: Final = "its bytes are not those that were put there"


class Blobs:
    """The folder of blobs of one session file; it is made when first needed.

    Attributes:
        file: the path of the session file as given, for messages.
        folder: the path of the folder, without links; it may not exist.
    """

    def __init__(
        self,
        fs: FileSystem,
        file: str,
        durability: Durability = "fsync",
        folder: str | None = None,
    ) -> None:
        self.file = file
        self.folder = fs.real_path(file) + BLOBS if folder is None else folder
        self._fs = fs
        self._syncs = durability == "fsync"
        self._is_made = False
        self._kept: dict[str, tuple[int, tuple[int, int]]] = {}

    def read(self, sha256: str, size: int) -> bytes:
        """A blob's bytes; raises BlobError if they are missing, damaged or not readable."""
        with self._opened(sha256, size) as (fd, _):
            content = self._read(fd, sha256, size, 0)
        if len(content) != size or hashlib.sha256(content).hexdigest() != sha256:
            raise self._damaged(sha256, _WRONG)
        return content

    def blocks(self, sha256: str, size: int) -> Iterator[bytes]:
        """A blob's bytes, block by block; raises as `read` does.

        The last block is given only if all of them have the right hash: do not use the
        blocks before an error.
        """
        hashed = hashlib.sha256()
        held = b""
        offset = 0
        with self._opened(sha256, size) as (fd, _):
            for block in self._blocks(fd, Blob(sha256, size)):
                if held:
                    yield held
                hashed.update(block)
                offset += len(block)
                held = block
        if offset != size or hashed.hexdigest() != sha256:
            raise self._damaged(sha256, _WRONG)
        if held:
            yield held

    def check_own(self) -> None:
        """Check that the folder is the session's own, before anything in it changes.

        Raises:
            StorageError: it is a link, which may lead to another session's blobs.
        """
        if self._fs.is_link(self.folder):
            raise StorageError(
                f"{self.folder} is a link, and no blob is written or removed through a link; "
                "nothing was changed: put the folder itself there, or remove the link",
                self.folder,
            )

    def blobs(self) -> Iterator[Blob]:
        """Each blob in the folder, with its size; none is read. A link is not a blob."""
        for name in filter(_NAME.fullmatch, self._names()):
            found = None if self._fs.is_link(self._path(name)) else self.look(name)
            if found is not None and not (found.is_folder or found.is_stream):
                yield Blob(name, found.size)

    def unfinished(self) -> list[str]:
        """The names of files left by a program that died in `put`, or is in it right now."""
        return [name for name in self._names() if name.endswith(UNFINISHED)]

    def aside(self) -> list[str]:
        """The names of damaged files that had a blob's name before."""
        return list(filter(_ASIDE.fullmatch, self._names()))

    def look(self, name: str) -> Stat | None:
        """The state of a blob, by its SHA-256, or of another file of the folder; None if gone."""
        path = self._path(name)
        with refused("look at", path), contextlib.suppress(FileNotFoundError):
            return self._fs.stat(path)
        return None

    def fault(self, blob: Blob) -> BlobError | None:
        """What is wrong with a blob, as far as its file's size and kind show."""
        try:
            with self._opened(*blob):
                return None
        except BlobError as error:
            return error

    def is_whole(self, blob: Blob) -> bool:
        """Whether a blob has the bytes that its name says; it is read."""
        try:
            self._verify(*blob)
        except BlobError:
            return False
        return True

    def verify(self, needed: Iterable[Blob] = ()) -> Iterator[BlobError]:
        """Read all blobs in the folder, and those that entries need; give what is wrong."""
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
            self._check(fd, Blob(sha256, found))

    def _check(self, fd: int, blob: Blob) -> None:
        if self._hash(fd, blob) != blob.sha256:
            raise self._damaged(blob.sha256, _WRONG)

    def _sync_blob(self, fd: int, sha256: str) -> None:
        if self._syncs:
            with refused("sync", self._path(sha256)):
                self._fs.sync(fd)

    def _names(self) -> list[str]:
        with refused("list", self.folder):
            try:
                return sorted(self._fs.list(self.folder))
            except FileNotFoundError:
                return []

    @contextlib.contextmanager
    def _opened(
        self, sha256: str, size: int | None = None, *, explains: bool = True
    ) -> Iterator[tuple[int, int]]:
        """The descriptor and the size of the plain file that has a blob's name and size.

        `explains` has the error for a missing one say where it may be, which may take a request.
        """
        path = self._path(sha256)
        try:
            file = Descriptor(self._fs, self._fs.open(path, READ_PLAIN))
        except OSError as error:
            raise self._not_opened(sha256, error, explains) from error
        fd = file.number
        try:
            try:
                found = self._fs.stat(fd)
            except OSError as error:
                raise self._unreadable(sha256, error) from error
            if found.is_folder or found.is_stream:
                what = "a folder" if found.is_folder else "a pipe or a device"
                raise self._damaged(sha256, f"{what} is in its place", "move that away")
            if size is not None and found.size != size:
                cause = "was cut off" if found.size < size else "had something added"
                wrong = self._damaged(sha256, f"it {cause}: {found.size:,} of {size:,} bytes")
                wrong.sizes = found.size, size
                raise wrong
            yield fd, found.size
        finally:
            with contextlib.suppress(OSError):
                file.close()

    def _not_opened(self, sha256: str, error: OSError, explains: bool) -> BlobError:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            cause = f"a blob of {self.file} is missing: there is no file {self._path(sha256)}"
            if explains and self._kept_at:
                message = f"{cause}: it is kept in {self._kept_at}; {WAY_HOME}"
                return BlobMissingError(message, self.file, sha256, cause)
            message = (
                f"{cause}; where the session was moved or copied, bring the folder along, "
                "or else restore it from a backup"
            )
            return BlobMissingError(message, self.file, sha256, cause)
        if error.errno in (errno.ELOOP, errno.EMLINK):
            return self._damaged(
                sha256, "a symbolic link is in its place", "put the file itself there"
            )
        if error.errno == errno.ENXIO:
            return self._damaged(sha256, "a socket is in its place", "move that away")
        return self._unreadable(sha256, error)

    @functools.cached_property
    def _kept_at(self) -> str:
        """The address where version 0.2 kept the blobs of this session, if not beside it.

        A file `at-…` has it; blobs that were put here since are here.
        """
        with contextlib.suppress(OSError):
            for pointer in filter(_POINTER.fullmatch, self._fs.list(self.folder)):
                path = os.path.join(self.folder, pointer)
                with Descriptor(self._fs, self._fs.open(path, READ_PLAIN)) as fd:
                    return self._fs.read(fd, 10_000, 0).decode(errors="replace")
        return ""

    def _unreadable(self, sha256: str, error: OSError) -> BlobUnreadableError:
        cause = (
            f"cannot read {self._path(sha256)}, a blob of {self.file}: {error.strerror or error}"
        )
        message = f"{cause}; check its permissions and the medium"
        return BlobUnreadableError(message, self.file, sha256, cause)

    def _damaged(
        self,
        sha256: str,
        cause: str,
        then: str = "restore it from a backup, or store the same content again",
    ) -> BlobDamagedError:
        wrong = f"a blob of {self.file} is damaged: {self._path(sha256)}: {cause}"
        return BlobDamagedError(f"{wrong}; {then}", self.file, sha256, wrong)

    def _read(self, fd: int, sha256: str, size: int, offset: int) -> bytes:
        try:
            return self._fs.read(fd, size, offset) if size else b""
        except OSError as error:
            raise self._unreadable(sha256, error) from error

    def _blocks(self, fd: int, blob: Blob) -> Iterator[bytes]:
        offset = 0
        while block := self._read(fd, blob.sha256, min(BLOCK, blob.size - offset), offset):
            yield block
            offset += len(block)

    def _hash(self, fd: int, blob: Blob) -> str:
        hashed = hashlib.sha256()
        for block in self._blocks(fd, blob):
            hashed.update(block)
        return hashed.hexdigest()

    def _path(self, name: str) -> str:
        is_other = name.endswith(UNFINISHED) or _ASIDE.fullmatch(name)
        if not _NAME.fullmatch(name) and not (is_other and os.sep not in name):
            raise BlobMissingError(
                f"a blob of {self.file} is asked for by {name!r:.80}, which is not a SHA-256 in "
                "hex; look at the handle",
                self.file,
            )
        return os.path.join(self.folder, name)

    def put(self, content: bytes | Iterable[bytes]) -> Blob:
        """Store bytes or blocks of them; they are durable when this returns.

        A blob that is there already stays. Blocks are never in memory together.

        Raises:
            StorageError: it cannot be written, or the folder is a link; nothing has the blob's
                name then.
            BlobError: its name belongs to something that cannot be read, or is not a file.
        """
        self.check_own()
        if isinstance(content, bytes):
            blob = Blob(hashlib.sha256(content).hexdigest(), len(content))
            if self.has(blob):
                return blob
            if self._found(blob) == "whole":
                return self._kept_from_now(blob)
            beside, _ = self._written_beside((content,))
        else:
            hashed = hashlib.sha256()
            beside, size = self._written_beside(_hashing(content, hashed.update))
            blob = Blob(hashed.hexdigest(), size)
        path = self._path(blob.sha256)
        try:
            found = self._found(blob)
            if found == "damaged":
                self._keep_aside(path)
            if found != "whole":
                with refused("name", path):
                    self._fs.replace(beside, path)
        finally:
            with contextlib.suppress(OSError):  # normally renamed by now
                self._fs.unlink(beside)
        return self._kept_from_now(blob)

    def _kept_from_now(self, blob: Blob) -> Blob:
        self._sync_folder()
        self._note(blob)
        return blob

    def confirm(self, blob: Blob) -> None:
        """Read a stored blob, compare it with its hash, and make it durable."""
        if self.has(blob):
            return
        with self._opened(*blob) as (fd, _):
            self._check(fd, blob)
            self._sync_blob(fd, blob.sha256)
        self._kept_from_now(blob)

    def has(self, blob: Blob) -> bool:
        """Whether a blob that this object put or confirmed is still in its place.

        Costs one look at the file's size and identity. A session asks again before it
        writes the line, because another program may have removed the blob meanwhile.
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
        found = self.look(blob.sha256)
        if found is not None:  # else it was removed this moment, and `has` says so
            self._kept[blob.sha256] = (found.size, found.identity)

    def _found(self, blob: Blob) -> Literal["absent", "damaged", "whole"]:
        """The state of the file that has a blob's name; it is read, and synced if whole."""
        try:
            with self._opened(blob.sha256, explains=False) as (fd, size):
                if size != blob.size or self._hash(fd, blob) != blob.sha256:
                    return "damaged"
                self._sync_blob(fd, blob.sha256)
                return "whole"
        except BlobMissingError:
            return "absent"

    def _written_beside(self, blocks: Iterable[bytes]) -> tuple[str, int]:
        """The path and the size of a synced file of the blocks, under a temporary name."""
        path, file = self._new_file()
        size = 0
        with unlinked_on_failure(self._fs, path):
            try:
                for block in filter(None, blocks):
                    with refused("write", self.folder):
                        write_all(self._fs, file.number, block)
                    size += len(block)
                if self._syncs:
                    with refused("sync", self.folder):
                        self._fs.sync(file.number)
            finally:
                with refused("close", self.folder):
                    file.close()
        return path, size

    def _new_file(self) -> tuple[str, Descriptor]:
        path = os.path.join(self.folder, f"{os.getpid()}-{os.urandom(8).hex()}{UNFINISHED}")
        with refused("make a file in", self.folder):
            if self._is_made:
                with contextlib.suppress(FileNotFoundError):
                    return path, Descriptor(self._fs, self._fs.open(path, CREATE))
            self._make_folder()
            return path, Descriptor(self._fs, self._fs.open(path, CREATE))

    def _make_folder(self) -> None:
        with contextlib.suppress(FileExistsError):
            self._fs.make_folder(self.folder)
        if self._syncs:  # also if another program made it: it may have died before its sync
            self._fs.sync_folder(os.path.dirname(self.folder))
        self._is_made = True

    def _keep_aside(self, path: str) -> None:
        """Give a file a second name, so that the first is never without a file."""
        today = datetime.now(UTC).date()
        aside = f"{path}{ASIDE}{today}-{os.urandom(4).hex()}"
        with refused("keep a copy of", path):
            if link(self._fs, path, aside):
                return
            with (
                Descriptor(self._fs, self._fs.open(path, READ_PLAIN)) as source,
                Descriptor(self._fs, self._fs.open(aside, CREATE)) as target,
            ):
                for block in blocks_of(self._fs, source):
                    write_all(self._fs, target, block)

    def _sync_folder(self) -> None:
        with refused("sync", self.folder):
            if not self._is_made:
                self._make_folder()
            if self._syncs:
                self._fs.sync_folder(self.folder)

    def link_from(self, other: Blobs, blobs: Iterable[Blob]) -> list[BlobError]:
        """Take over blobs of another session: as second names of its files, or as copies.

        They are durable when this returns. Each is read and compared with its hash; a second
        name costs no space. Returns an error for each blob that is missing or damaged there,
        and not taken over.
        """
        self.check_own()
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
        """Give a blob of another session a second name; whether that succeeded."""
        with other._opened(*blob) as (fd, _):
            other._check(fd, blob)
            if other._fs is not self._fs or other.folder == self.folder:
                return False
            source, target = other._path(blob.sha256), self._path(blob.sha256)
            with refused("make", target):
                if not self._is_made:
                    self._make_folder()
                if self._syncs:
                    self._fs.sync(fd)
                return link(self._fs, source, target, {errno.EXDEV, errno.EEXIST, errno.EACCES})

    def remove(self, name: str) -> None:
        """Remove a blob, by its SHA-256, or another file of the folder, unless it is gone.

        No entry on the medium may name it, and no writer may be about to write one: the
        caller holds the writer's lock.
        """
        self.check_own()
        self._kept.pop(name, None)
        path = self._path(name)
        with refused("remove", path), contextlib.suppress(FileNotFoundError):
            self._fs.unlink(path)


def _hashing(blocks: Iterable[bytes], update: Callable[[bytes], None]) -> Iterator[bytes]:
    for block in blocks:
        if not isinstance(block, bytes):
            raise UsageError(
                f"a blob is made of bytes, not of {type(block).__name__}; "
                "give bytes, or blocks of bytes"
            )
        update(block)
        yield block
