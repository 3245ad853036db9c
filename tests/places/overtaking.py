"""Two programs on one bucket, of which the second writes between two steps of the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any, Final
from unittest.mock import patch

from sessiontree.storage.objects.place import ObjectPlace
from sessiontree.storage.place import Address
from sessiontree.storage.places import place_of

_NUMBERS: Final = count()


class Programs:
    """The addresses of an empty bucket, as each of the two programs gives it."""

    def __init__(self, first: str, second: str) -> None:
        self.first = first
        self.second = second

    @contextmanager
    def overtaking(
        self, do: Callable[[], object], times: int = 1, at: str = "/log/"
    ) -> Iterator[list[int]]:
        """Do something in the second program just before the first one puts a block into a log.

        `at` is in the key of the object that the first one puts.
        """
        place, _ = place_of(self.first)
        assert isinstance(place, ObjectPlace)
        put = place.bucket._put
        done: list[int] = []

        def overtaken(key: str, content: bytes, mode: Any, by: str) -> str:
            if at in key and len(done) < times:
                done.append(len(done))
                do()
            return put(key, content, mode, by)

        with patch.object(place.bucket, "_put", overtaken):
            yield done
        assert len(done) == times, "the first program was overtaken"


@contextmanager
def programs() -> Iterator[Programs]:
    """Two programs on an empty bucket."""
    from obstore.store import MemoryStore

    from sessiontree.storage.objects.bucket import open_store

    number, own = next(_NUMBERS), MemoryStore()
    urls = [f"s3://{name}-{number}" for name in ("first", "second")]

    def opened_store(address: Address) -> Any:
        return own if address.base in urls else open_store(address)

    with ExitStack() as stack:
        stack.enter_context(patch("sessiontree.storage.objects.place.open_store", opened_store))
        for url in urls:
            stack.callback(place_of(url)[0].close)
        yield Programs(*urls)
