"""Attaching: a file's bytes, or a stream's, kept in the sidecar block by block."""

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


def stored(
    blobs: Blobs, content: PathLike | BinaryIO, media_type: str | None
) -> tuple[Handle, str | None]:
    """Keep content as a blob; its handle, and the name of the file it came from.

    Raises:
        StorageError: it cannot be read, or kept.
        HandleError: the media type is none.
    """
    if isinstance(content, str | os.PathLike):
        path = os.fspath(content)
        real_path(path)  # refused before anything is kept of it
        name = os.path.basename(path)
        return _kept(blobs, _blocks_of_file(path), media_type, name, path), name
    if not callable(getattr(content, "read", None)):
        raise UsageError(f"attach a path or a binary stream, not a {type(content).__name__}")
    return _kept(blobs, _blocks_of_stream(content), media_type, ""), None


def _kept(
    blobs: Blobs, blocks: Iterator[bytes], media_type: str | None, name: str, path: str = ""
) -> Handle:
    if media_type is not None:
        Handle.blob("0" * 64, 0, media_type)  # refused before a gigabyte is copied
    by_name = _type_by_name(name)
    first = next(blocks, b"")
    blob = _there_already(blobs, path) or blobs.put(itertools.chain([first], blocks))
    return Handle.blob(*blob, media_type or media_type_of(first, by_name))


def _type_by_name(name: str) -> str:
    """The media type that a file's name says: of what is packed, that of the package."""
    found, packed = mimetypes.guess_type(name)
    if packed is not None:
        return "application/gzip" if packed == "gzip" else f"application/x-{packed}"
    return found or UNKNOWN_BYTES


def _there_already(blobs: Blobs, path: str) -> Blob | None:
    """The blob that a file is, where it is stored, and then made sure of; else None.

    The file is read for its hash only where something of its size is stored: then nothing
    need be written. What changes in it while it is read twice is stored as it is the second
    time.
    """
    if not path:
        return None
    try:
        size = Disk().stat(path).size
    except OSError as error:
        raise _unreadable(path, error) from error
    if size <= _BLOCK or all(one.size != size for one in blobs.blobs()):
        return None
    hashed = hashlib.sha256()
    read = 0
    for block in _blocks_of_file(path):
        hashed.update(block)
        read += len(block)
    blob = Blob(hashed.hexdigest(), read)
    try:
        blobs.confirm(blob)
    except BlobError:  # of the same size and another, or damaged: `put` sees to it
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
    except SessionTreeError:
        raise
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        offset = 0
        while block := _read(disk, fd, offset, path):
            yield block
            offset += len(block)
    finally:
        disk.close(fd)


def _read(disk: Disk, fd: int, offset: int, path: str) -> bytes:
    try:
        return disk.read(fd, _BLOCK, offset)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError) -> StorageError:
    return StorageError(f"cannot attach {path}: {error.strerror or error}; check the path", path)


def _blocks_of_stream(stream: BinaryIO) -> Iterator[bytes]:
    while block := stream.read(_BLOCK):
        if not isinstance(block, bytes):
            raise UsageError("attach a binary stream; open the file with 'rb'")
        yield block
