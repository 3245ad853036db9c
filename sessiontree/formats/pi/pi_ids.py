"""Ids as the pi coding agent gives them: eight hexadecimal digits, unique in a file."""

from __future__ import annotations

import hashlib
import re
from typing import Final

_LENGTH: Final = 8
_HEX: Final = re.compile(r"[0-9a-f]{8}")


class PiIds:
    """Gives out ids, the same for the same uuids in the same order."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def give(self, uuid: str) -> str:
        """An id for an entry: the start of its uuid, which people know it by, where that is free.

        Asked again for the same uuid it gives another one.
        """
        id = uuid[:_LENGTH]
        again = 0
        while id in self._given or _HEX.fullmatch(id) is None:
            name = f"{uuid}\n{again}".encode("utf-8", "surrogatepass")
            id = hashlib.sha256(name).hexdigest()[:_LENGTH]
            again += 1
        self._given.add(id)
        return id
