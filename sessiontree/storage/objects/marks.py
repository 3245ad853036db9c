"""The end block: a small object behind the last block of a log, which ends the log for good.

It has a fixed size, so a listing shows which objects need a look. A `barrier` names the generation
that replaced this one; `removed` ends a session. Programs up to 0.2.0 also put a `claim` or a
`free` mark at the end, which held it for one of them, and ended a log with `moved`; a claim is
replaced by its version, as an absent object is created.
"""

from __future__ import annotations

from typing import Final

import msgspec

from sessiontree.storage.objects.bucket import ObjectRange

SIZE: Final = 512
"""The bytes of a mark."""

_MAGIC: Final = b"\0sessiontree mark 1\n"


class EndMarker(msgspec.Struct, frozen=True):
    """A mark at the end of a log."""

    kind: str
    next: str = ""  # the generation that a barrier names

    @property
    def ends(self) -> bool:
        """Whether nothing is ever appended behind it."""
        return self.kind in ("barrier", "removed", "moved")

    def encoded(self) -> bytes:
        """The bytes of the object."""
        return (_MAGIC + msgspec.json.encode(self)).ljust(SIZE - 1) + b"\n"


def mark_in(got: ObjectRange) -> EndMarker | None:
    """The mark that an object is; None for a block.

    A block names its writer, a mark does not; so a block that begins like a mark is none.
    """
    if got.size != SIZE or got.by or not got.content.startswith(_MAGIC):
        return None
    try:
        return msgspec.json.decode(got.content[len(_MAGIC) :], type=EndMarker)
    except msgspec.MsgspecError:
        return None
