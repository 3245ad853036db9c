"""What a target cannot say, named: each thing once, how often, and where first."""

from __future__ import annotations

import msgspec

from sessiontree.core.providers.notes import Notes


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

    def found(self) -> list[Loss]:
        """The losses in the order met."""
        return [Loss(what, count, uuid or None) for what, (count, uuid) in self._found.items()]
