"""The kinds of places that tests run on."""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol
from unittest.mock import patch

import pytest

from sessiontree.storage.contents import Contents
from sessiontree.storage.fs import CREATE
from sessiontree.storage.objects.place import ObjectPlace
from sessiontree.storage.place import Address, Place
from sessiontree.storage.places import place_of
from sessiontree.storage.postgres.place import PostgresPlace
from tests.places import servers
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


def objects(folder: Path) -> Iterator[str]:
    """A bucket in memory; any other bucket is where its address says."""
    from obstore.store import MemoryStore

    from sessiontree.storage.objects.bucket import open_store

    own, url = MemoryStore(), f"s3://test-{next(_NUMBERS)}"

    def opened_store(address: Address) -> Any:
        return own if address.base == url else open_store(address)

    with patch("sessiontree.storage.objects.place.open_store", opened_store):
        yield url


@functools.cache
def _moto() -> str:
    """The endpoint of moto's server, which runs until the tests end."""
    running = contextlib.ExitStack()
    atexit.register(running.close)
    return running.enter_context(servers.moto())


def s3(folder: Path) -> Iterator[str]:
    """A bucket of a server that answers as S3 does."""
    if not servers.has_moto():
        pytest.skip(servers.NO_MOTO)
    bucket = f"test-{next(_NUMBERS)}"
    servers.make_bucket(_moto(), bucket)
    with servers.credentials(_moto()):
        yield f"s3://{bucket}"


KINDS: Final[dict[str, Kind]] = {
    "memory": memory,
    "postgres": postgres,
    "objects": objects,
    "s3": s3,
}


@contextmanager
def opened(kind: str, folder: Path) -> Iterator[tuple[Place, str]]:
    """An empty place of a kind, and its address."""
    with contextmanager(KINDS[kind])(folder) as url:
        place, _ = place_of(url)
        try:
            yield place, url
        finally:
            place.close()


STORES: Final = ("folder", *KINDS)
"""The kinds of stores: a folder, and one in each kind of place."""


@contextmanager
def empty_store(kind: str, folder: Path) -> Iterator[str]:
    """The path or the address of an empty store of a kind."""
    if kind == "folder":
        yield str(folder / "empty")
        return
    with opened(kind, folder) as (place, _):
        yield place.address("team/sessions")


def in_store(root: str, name: str) -> str:
    """The path or the address of a session in a store, whose address may have options."""
    base, mark, options = root.partition("?")
    return f"{base}/{name}{mark}{options}"


def put_blob(place: Place, name: str, blob: str, content: bytes) -> None:
    """Put a file in the folder of a session's blobs, whatever is in it."""
    fs, path = place.blobs(name).fs, f"{place.blobs(name).open().folder}/{blob}"
    fs.write(fs.open(f"{path}.tmp", CREATE), content)
    fs.replace(f"{path}.tmp", path)


def contents_of(place: Place) -> Contents:
    """The contents of a place that keeps its blobs in a database or a bucket."""
    assert isinstance(place, (PostgresPlace, ObjectPlace))
    return place.contents
