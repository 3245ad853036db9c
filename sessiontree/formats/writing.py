"""What a target cannot say, named: each thing once, how often, and where first."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

import msgspec

from sessiontree.context.providers.notes import Notes
from sessiontree.core.display import one_line
from sessiontree.core.entry import Entry

ORIGINAL: Final = "original"
"""The key in which an import keeps what a line said beside."""

_STRUCTURE: Final = frozenset(
    {"type", "uuid", "parentUuid", "lane", "timestamp", "crc", "spilled", "variantOf"}
)
_AROUND: Final = frozenset(
    {
        *("type", "uuid", "parentUuid", "id", "parentId", "isSidechain", "agentId", "isMeta"),
        *("cwd", "version", "gitBranch", "userType", "sessionId", "timestamp"),
    }
)
"""Keys of lines of other programs for which each line that is written has its own."""


class Loss(msgspec.Struct, frozen=True):
    """Something of a session that the converted file does not say, or says otherwise.

    Attributes:
        what: what it is, and what became of it, in words.
        count: how often it was met.
        entry: the uuid of the first entry with it; None where it belongs to none.
    """

    what: str
    count: int
    entry: str | None

    def __str__(self) -> str:
        times = f"{self.count:,} times, first in entry" if self.count > 1 else "entry"
        return f"{self.what} ({times} {self.entry[:8]})" if self.entry else self.what


class Losses(Notes):
    """Collects losses. `uuid` is that of the entry that is looked at just now."""

    def at(self, uuid: str, what: str) -> None:
        """Note something about an entry."""
        self.uuid = uuid
        self.add(what)

    def keys(self, entry: Entry, told: Container[str]) -> None:
        """Note the keys of an entry that a target does not tell.

        Args:
            entry: as stored.
            told: those that it tells, beside the place in the tree.
        """
        self.uuid = entry.uuid
        for key, value in entry.as_stored.items():
            if key in told or key in _STRUCTURE:
                continue
            inner = value if key == ORIGINAL and isinstance(value, dict) else {key: value}
            for name in inner:
                if name not in _AROUND:
                    kind = one_line(entry.type, 40)
                    self.add(f"the key {one_line(name, 40)!r} of a {kind} is not told")

    def found(self) -> list[Loss]:
        """The losses in the order met."""
        return [Loss(what, count, uuid or None) for what, (count, uuid) in self._found.items()]
