"""Attaching: copies a file, or a stream, into the sidecar folder, block by block."""

from __future__ import annotations

import hashlib
import itertools
import mimetypes
import os
from collections.abc import Iterator
from typing import BinaryIO

from sessiontree.core.blob import Blob
from sessiontree.core.handle import Handle
from sessiontree.core.media import UNKNOWN_BYTES, media_type_of
from sessiontree.errors import BlobError, SessionTreeError, StorageError, UsageError
from sessiontree.storage.blobs import Blobs
from sessiontree.storage.fs import READ, Disk
from sessiontree.storage.oserrors import real_path

PathLike = str | os.PathLike[str]

_BLOCK = 1024 * 1024


def store(
    blobs: Blobs, content: PathLike | BinaryIO, media_type: str | None
) -> tuple[Handle, str | None]:
    """Store content as a blob; return its handle, and the name of the file."""
    if not isinstance(content, str | os.PathLike):
        if not callable(getattr(content, "read", None)):
            raise UsageError(f"attach a path or a binary stream, not a {type(content).__name__}")
        return _store(blobs, _blocks_of_stream(content), media_type, "", ""), None
    path = os.fspath(content)
    real_path(path)  # refused before anything is stored
    name = os.path.basename(path)
    return _store(blobs, _blocks_of_file(path), media_type, name, path), name


def _store(
    blobs: Blobs, blocks: Iterator[bytes], media_type: str | None, name: str, path: str
) -> Handle:
    if media_type is not None:
        Handle.blob("0" * 64, 0, media_type)  # refused before a gigabyte is copied
    by_name, packed = mimetypes.guess_type(name)
    if packed is not None:  # the name of a package: its own type, not that of its content
        by_name = "application/gzip" if packed == "gzip" else f"application/x-{packed}"
    first = next(blocks, b"")
    blob = _blob_there(blobs, path) or blobs.put(itertools.chain([first], blocks))
    return Handle.blob(*blob, media_type or media_type_of(first, by_name or UNKNOWN_BYTES))


def _blob_there(blobs: Blobs, path: str) -> Blob | None:
    """The blob with the content of a file, confirmed, where it is stored already.

    The file is hashed only where a blob of its size is stored. A file that changes between
    this reading and the copying is stored as it is when it is copied.
    """
    if not path:
        return None
    try:
        size = Disk().stat(path).size
    except OSError as error:
        raise _unreadable(path, error) from error
    if size <= _BLOCK or all(one.size != size for one in blobs.blobs()):
        return None
    digest, length = hashlib.sha256(), 0
    for block in _blocks_of_file(path):
        digest.update(block)
        length += len(block)
    blob = Blob(digest.hexdigest(), length)
    try:
        blobs.confirm(blob)
    except BlobError:  # another of the same size, or damaged, which `put` replaces
        return None
    return blob


def _blocks_of_file(path: str) -> Iterator[bytes]:
    disk = Disk()
    try:
        found = disk.stat(path)
        if found.is_folder or found.is_stream:
            what = "a folder" if found.is_folder else "a pipe or a device"
            raise StorageError(f"cannot attach {path}: it is {what}; give a file or a stream", path)
        fd = disk.open(path, READ)
        try:
            offset = 0
            while block := disk.read(fd, _BLOCK, offset):
                yield block
                offset += len(block)
        finally:
            disk.close(fd)
    except SessionTreeError:
        raise
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError) -> StorageError:
    return StorageError(f"cannot attach {path}: {error.strerror or error}; check the path", path)


def _blocks_of_stream(stream: BinaryIO) -> Iterator[bytes]:
    while block := stream.read(_BLOCK):
        if not isinstance(block, bytes):
            raise UsageError("attach a binary stream; open the file with 'rb'")
        yield block
