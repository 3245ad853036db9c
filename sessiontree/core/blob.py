"""The blob: content kept in a file of its own, known by the hash of its bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple


class Blob(NamedTuple):
    """What tells one blob from all others.

    Attributes:
        sha256: the SHA-256 of its bytes, 64 lower-case hex digits; its file's name.
        size: its bytes.
    """

    sha256: str
    size: int


def blob_of(handle: Any) -> Blob | None:
    """The blob that the text form of a handle stands for; None where it is no blob's handle."""
    found = _WHOLE.fullmatch(handle) if isinstance(handle, str) else None
    return Blob(found[1], int(found[2])) if found else None


def blobs_needed(body: Mapping[str, Any]) -> Iterator[tuple[str, Blob]]:
    """The handles, and the blobs, that an entry cannot be read whole without.

    Args:
        body: the keys of a line as stored.
    """
    spilled = body.get("spilled")
    places = spilled if isinstance(spilled, list) else []
    handles = [place[1] for place in places if isinstance(place, list) and len(place) == 2]
    if body.get("type") == "handle":
        handles.append(body.get("handle"))
    for handle in handles:
        blob = blob_of(handle)
        if blob is not None:
            yield handle, blob


def blobs_named(line: bytes) -> Iterator[Blob]:
    """Every blob that a line names anywhere, in quoted text too: what must not be removed."""
    for found in _NAMED.finditer(line):
        yield Blob(found[1].decode(), int(found[2]))


MARK: Final = b"blob@1."
"""What each line that names a blob has in it."""

_WHOLE: Final = re.compile(
    r"blob@1\.\d{1,9}\.\d{1,9}::sha256:([0-9a-f]{64}):(0|[1-9][0-9]{0,17})(?::[^:@\x00-\x1f]*)?",
    re.ASCII,
)
_NAMED: Final = re.compile(
    rb"blob@1\.[0-9]{1,9}\.[0-9]{1,9}::sha256:([0-9a-f]{64}):(0|[1-9][0-9]{0,17})"
)
