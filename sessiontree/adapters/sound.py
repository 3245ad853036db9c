"""Reads of a session that are whole, or an error: an SDK is never given a part as if it were all.

Invariant: damage that a read meets, or a path that does not lead to the header, is a
`CorruptionError`; what a write that was cut short left behind is no damage, for it was never
acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from sessiontree.core.codec import is_sealed
from sessiontree.core.entry import Entry
from sessiontree.errors import CorruptionError
from sessiontree.session import Session
from sessiontree.storage.lines import rest_of_line

_LOSES: Final = frozenset({"json", "object", "no uuid", "nul", "utf-8", "crc"})
"""The kinds of damage by which a line may not be what was given."""

_ENTRY: Final = b'{"type":'


def up(session: Session, entry: Entry) -> Iterator[Entry]:
    """Yield an entry and the entries above it.

    Raises:
        CorruptionError: the path does not lead to the header; or a line on it is damaged, which
            is seen when the last entry that is wanted was read (`check_sound`).
    """
    last = entry
    for last in chain([entry], session.reader.up(entry)):
        yield last
    check_sound(session)
    top = session.header.uuid
    if top not in (last.uuid, last.parent_uuid) and "parentSession" not in session.header:
        cause = f"the parent {last.parent_uuid} of its entry is not in the file"
        raise damaged(session, last.offset, cause)


def check_sound(session: Session, known: Sequence[tuple[int, str]] = ()) -> None:
    """Check that what was read so far met no damage.

    Args:
        known: the offset and the cause of damage that is known otherwise.

    Raises:
        CorruptionError: a line is damaged.
    """
    met = [
        (one.offset, one.cause)
        for one in session.damage
        if loses_content(session, one.offset, one.kind)
    ]
    for offset, cause in sorted([*met, *known])[:1]:
        raise damaged(session, offset, cause)


def loses_content(session: Session, offset: int, kind: str) -> bool:
    """Whether damage may have changed a line; what a write that was cut short left has not."""
    if kind not in _LOSES:
        return False
    line = rest_of_line(session.reader.log.read, offset)
    return line[: len(_ENTRY)] != _ENTRY[: len(line)] or is_sealed(line)


def damaged(session: Session, offset: int, cause: str) -> CorruptionError:
    """Make the error for a session of which a part is lost."""
    file = str(session.file)
    return CorruptionError(
        f"{file} is damaged at byte {offset:,}: {cause}; `sessiontree repair {file}` mends what "
        f"can be mended, and `sessiontree context {file}` shows what is left",
        file,
        offset,
    )
