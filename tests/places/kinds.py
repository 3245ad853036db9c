"""The kinds of places that tests run on."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from sessiontree.storage.backends import place_of
from sessiontree.storage.place import Place
from tests.places.server import server


class Kind(Protocol):
    """Makes the address of an empty place of a kind, as a context."""

    def __call__(self, folder: Path) -> Iterator[str]: ...


_NUMBERS: Final = itertools.count()


def memory(folder: Path) -> Iterator[str]:
    """A place in memory."""
    yield f"memory://test-{next(_NUMBERS)}"


def postgres(folder: Path) -> Iterator[str]:
    """A database of a server that runs for the tests."""
    running = server()
    database = running.database()
    yield running.address(database)
    running.execute(f"DROP DATABASE {database} WITH (FORCE)")


KINDS: Final[dict[str, Kind]] = {"memory": memory, "postgres": postgres}


@contextmanager
def opened(kind: str, folder: Path) -> Iterator[tuple[Place, str]]:
    """An empty place of a kind, and its address."""
    with contextmanager(KINDS[kind])(folder) as url:
        place, _ = place_of(url)
        try:
            yield place, url
        finally:
            place.close()
