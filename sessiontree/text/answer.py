"""The answer: what an assistant says in a transcript, each call's result beneath the call."""

from __future__ import annotations

from sessiontree.core.message import Call
from sessiontree.text import passage


class Answer:
    """Parts of what an assistant says, up to the last result of a call in it.

    Attributes:
        open: where the results of calls go that have none yet, by the call's id.
        is_answered: whether a result has come.
    """

    def __init__(self) -> None:
        self.open: dict[str, int] = {}
        self.is_answered = False
        self._parts: list[str] = []

    def add(self, *parts: str) -> None:
        """Put what was said after the rest."""
        self._parts += parts

    def add_call(self, call: Call) -> None:
        """Put a call after the rest, with a place for its result."""
        self._parts.append(passage.called(call))
        self.open[call.id] = len(self._parts)
        self._parts.append("*No result was recorded.*")

    def answer(self, id: str, result: str) -> bool:
        """Put a result beneath its call; False where no call waits for it."""
        place = self.open.pop(id, None)
        if place is None:
            return False
        self.is_answered = True
        self._parts[place] = result
        return True

    def parts(self) -> list[str]:
        """All of it, in the order of reading."""
        return self._parts
