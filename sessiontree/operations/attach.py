"""Attaching: a file, or a stream, as a blob of its own, or as a part of a prompt.

A blob is copied block by block, and may have any size. A part of a prompt is a content block in the
message; its bytes are in memory, and large ones are spilled as any large string.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import mimetypes
import os
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Final

from sessiontree.context.resolved import LARGEST_PDF, LONGEST_TEXT
from sessiontree.core.handle import Blob, Handle
from sessiontree.core.jsonbytes import Dumpable, plain
from sessiontree.core.media import IMAGES, TEXT, UNKNOWN_BYTES, is_text, media_type_of
from sessiontree.core.message import Message, check_message
from sessiontree.errors import BlobError, EntryError, SessionTreeError, StorageError, UsageError
from sessiontree.storage.blobs import Blobs
from sessiontree.storage.fs import READ, Descriptor, Disk, real_path

PathLike = str | os.PathLike[str]

Attachment = PathLike | bytes | BinaryIO

_BLOCK = 1024 * 1024
_LARGEST: Final = LARGEST_PDF  # in bytes: a provider refuses a prompt with more


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
    first = next(blocks, b"")
    blob = _blob_there(blobs, path) or blobs.put(itertools.chain([first], blocks))
    return Handle.blob(*blob, media_type or _type_of(first, name))


def _type_of(first: bytes, name: str) -> str:
    by_name, packed = mimetypes.guess_type(name)
    if packed is not None:  # the name of a package: its own type, not that of its content
        by_name = "application/gzip" if packed == "gzip" else f"application/x-{packed}"
    return media_type_of(first, by_name or UNKNOWN_BYTES)


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
        with Descriptor(disk, disk.open(path, READ)) as fd:
            offset = 0
            while block := disk.read(fd, _BLOCK, offset):
                yield block
                offset += len(block)
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


def prompt_with(message: Message | Dumpable, attachments: Iterable[Attachment]) -> Message:
    """A prompt with files and streams as content blocks behind its own content.

    Raises:
        UsageError: the message is not a user's, or an attachment is none or too large.
        StorageError: an attachment cannot be read.
    """
    prompt: Message = plain(message)
    check_message(prompt)
    if prompt.get("role") != "user":
        raise UsageError(
            f"attachments belong to a prompt, a message of role 'user', not "
            f"{prompt.get('role')!r}; use attach for a file in another role"
        )
    if isinstance(attachments, str | bytes | os.PathLike) or hasattr(attachments, "read"):
        raise UsageError("attachments is a list of paths, bytes and binary streams; give [it]")
    given = prompt.get("content")
    if isinstance(given, str):
        given = [{"type": "text", "text": given}] if given else []
    if not isinstance(given, list | None):
        raise EntryError(f"content is a string or a list of blocks, not {given!r:.60}")
    return {**prompt, "content": [*(given or ()), *map(_block_of, attachments)]}


def _block_of(attachment: Attachment) -> dict[str, Any]:
    """The content block of an attachment, in a shape that every provider's request reads."""
    name = ""
    if isinstance(attachment, str | os.PathLike):
        path = os.fspath(attachment)
        name = os.path.basename(path)
        content = _limited(_blocks_of_file(path), path)
    elif isinstance(attachment, bytes):
        content = _limited(iter([attachment]), "the bytes")
    elif callable(getattr(attachment, "read", None)):
        content = _limited(_blocks_of_stream(attachment), "the stream")
    else:
        kind = type(attachment).__name__
        raise UsageError(f"an attachment is a path, bytes or a binary stream, not a {kind}")
    media_type = _type_of(content, name)
    if media_type in IMAGES:
        return {"type": "image", "data": _base64(content), "mimeType": media_type}
    text = _text_in(content) if is_text(media_type) else None
    if text is not None:
        source = {"type": "text", "media_type": TEXT, "data": text}
    else:
        source = {"type": "base64", "media_type": media_type, "data": _base64(content)}
    return {"type": "document", "source": source, **({"title": name} if name else {})}


def _limited(blocks: Iterator[bytes], of: str) -> bytes:
    content = bytearray()
    for block in blocks:
        content += block
        if len(content) > _LARGEST:
            raise UsageError(
                f"{of}: an attachment of a prompt has at most {_LARGEST >> 20} MiB; attach it "
                "as an entry of its own, which may have any size"
            )
    return bytes(content)


def _text_in(content: bytes) -> str | None:
    if len(content) > LONGEST_TEXT:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
