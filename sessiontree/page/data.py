"""The data of a page: rows as compressed chunks, which the page opens as the reader gets there.

Invariants: a chunk is closed at the first end of a turn beyond its size, so that one turn is in
memory at most; a body that an earlier row has too is kept once.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, Final

import orjson

from sessiontree.page.rows import Row

_CHUNK: Final = 256 * 1024  # characters of HTML
_SHARED: Final = 512  # characters from which on an equal body is kept once


class Chunks:
    """Takes rows, and gives chunks."""

    def __init__(self) -> None:
        self.firsts: list[int] = []  # the number of the first row of each chunk
        self._rows: list[list[Any]] = []
        self._size = 0
        self._count = 0
        self._seen: dict[bytes, int] = {}

    def __len__(self) -> int:
        return self._count

    def take(self, rows: Iterable[Row]) -> Iterator[str]:
        """Take rows; give the chunks that are full."""
        for row in rows:
            self._rows.append(self._packed(row))
            self._count += 1
            self._size += len(row.head) + len(row.body)
            if self._size > _CHUNK:
                yield self.close()

    def _packed(self, row: Row) -> list[Any]:
        if not row.body:
            return [row.head]
        if len(row.body) < _SHARED:
            return [row.head, row.body]
        key = blake2b(row.body.encode("utf-8", "replace"), digest_size=12).digest()
        first = self._seen.setdefault(key, self._count)
        return [row.head, row.body if first == self._count else first]

    def close(self) -> str:
        """The rows since the last chunk, as a chunk."""
        rows, self._rows, self._size = self._rows, [], 0
        self.firsts.append(self._count - len(rows))
        return packed(rows)


def packed(value: Any) -> str:
    """A value as JSON, compressed, in base64."""
    return base64.b64encode(zlib.compress(as_json(value), 7)).decode("ascii")


def as_json(value: Any) -> bytes:
    """A value as JSON; half of a pair of surrogates becomes a question mark."""
    try:
        return orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_SUBCLASS, default=str)
    except (TypeError, orjson.JSONEncodeError):
        return json.dumps(value, default=str).encode("utf-8", "replace")
