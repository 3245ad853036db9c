"""Lines out of chunks: a chunk may end anywhere, in a line and in a character."""

from __future__ import annotations


class Lines:
    """Takes bytes in, gives the lines that are whole.

    Attributes:
        number: how many lines were given, the last one among them.
    """

    def __init__(self) -> None:
        self.number = 0
        self._begun: list[bytes] = []

    def add(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this chunk, without their newlines."""
        first, *others = chunk.split(b"\n")
        self._begun.append(first)
        if not others:
            return []
        whole = [b"".join(self._begun), *others[:-1]]
        self._begun = [others[-1]]
        return whole

    def rest(self) -> bytes:
        """What came after the last newline; nothing of it is held any more."""
        rest = b"".join(self._begun)
        self._begun = []
        return rest
