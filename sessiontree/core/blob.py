"""The blob: content in a file of its own, named by the hash of its bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from sessiontree.core.handle import Handle
from sessiontree.errors import HandleError

MARK: Final = b"sha256:"  # the bytes in each line that names a blob
_SHA256: Final = re.compile("[0-9a-f]{64}")
_SIZE: Final = re.compile("0|[1-9][0-9]{0,17}")
_NAMED: Final = re.compile(MARK + b"([0-9a-f]{64})")


class Blob(NamedTuple):
    """The identity of a blob."""

    sha256: str  # the SHA-256 of its bytes, 64 lower-case hex digits; also its file's name
    size: int  # the number of its bytes


def blob_of(handle: Any) -> Blob | None:
    """The blob of a handle's text form; None where it is not a blob's handle."""
    if isinstance(handle, str) and "%" not in handle and not handle.startswith("blob@"):
        return None  # without the time that parsing takes
    try:
        parsed = Handle.parse(handle)
    except HandleError:
        return None
    if (parsed.plugin, parsed.method) != ("blob", "sha256") or len(parsed.meta) < 2:
        return None
    sha256, size = parsed.meta[:2]
    if not _SHA256.fullmatch(sha256) or not _SIZE.fullmatch(size):
        return None
    return Blob(sha256, int(size))


def blobs_needed(keys: Mapping[str, Any]) -> Iterator[Blob]:
    """The blobs that an entry needs to be whole, given its keys as stored."""
    spilled = keys.get("spilled")
    places = spilled if isinstance(spilled, list) else []
    handles = [place[1] for place in places if isinstance(place, list) and len(place) in (2, 3)]
    if keys.get("type") == "handle":
        handles.append(keys.get("handle"))
    for handle in handles:
        blob = blob_of(handle)
        if blob is not None:
            yield blob


def hashes_named(line: bytes) -> set[str]:
    """The hash of each blob that a line names, also in a quotation: blobs that must stay."""
    return {found[1].decode() for found in _NAMED.finditer(line)}
