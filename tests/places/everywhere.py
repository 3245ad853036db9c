"""A plugin of pytest: each session of a test is in a place, and not in a file.

    python -m pytest -p tests.places.everywhere --place KIND tests/session tests/operations

A path that a test gives stands for a session of the place with the path as its name. What the test
itself writes to the path is put into the place when it is opened. A test that looks into the file,
or at its path, fails: it is about files. All others hold in each kind of place, or in none.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

from sessiontree import session as session_module
from sessiontree.operations import export
from sessiontree.storage import backends
from sessiontree.storage.blobs import Blobs
from sessiontree.storage.fs import DISK, FileSystem
from sessiontree.storage.log import Log
from sessiontree.storage.place import Place, is_address
from tests.places.kinds import opened

_PATIENCE: Final = 60


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--place", default="memory", help="the kind of place")


@pytest.fixture(autouse=True)
def everywhere(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Put the sessions of a test into an empty place."""
    with opened(request.config.getoption("--place"), tmp_path / "place") as (place, _):
        moved = _Moved(place)
        monkeypatch.setattr(session_module, "open_log", moved.open_log)
        for module in (session_module, export):
            monkeypatch.setattr(module, "create_log", moved.create_log)
        monkeypatch.setattr(export, "check_new", moved.check_new)
        monkeypatch.setattr(export, "blobs_of", moved.blobs_of)
        with _ended():
            yield


@contextmanager
def _ended() -> Iterator[None]:
    """End a test that waits for ever for a change of its file."""

    def end(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"the test took {_PATIENCE} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(_PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class _Moved:
    def __init__(self, place: Place) -> None:
        self._place = place

    def _address(self, fs: FileSystem, file: str) -> str:
        """The address of what a path stands for; a test's own file system keeps its files."""
        if fs is not DISK or is_address(file):
            return file
        return self._place.address(os.path.abspath(file).lstrip("/"))

    def open_log(self, fs: FileSystem, file: str, **options: Any) -> Log:
        address = self._address(fs, file)
        if address != file and os.path.isfile(file):
            name = self._place.name(address)
            content = Path(file).read_bytes()
            if self._place.find(name) is None:
                self._place.create(name, iter([content]))
        return backends.open_log(fs, address, **options)

    def create_log(self, fs: FileSystem, file: str, blocks: Iterator[bytes]) -> None:
        backends.create_log(fs, self._address(fs, file), blocks)

    def check_new(self, fs: FileSystem, file: str) -> None:
        backends.check_new(fs, self._address(fs, file))

    def blobs_of(self, fs: FileSystem, file: str) -> Blobs:
        return backends.blobs_of(fs, self._address(fs, file))
