"""The sessions that tests of operations and of views start from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sessiontree import Session
from tests.support.conversation import in_memory, opened, talk

Reading = Callable[..., Session]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy.jsonl"


@pytest.fixture
def session() -> Iterator[Session]:
    """An empty session in memory."""
    with in_memory() as session:
        yield session


@pytest.fixture
def stored(file: Path) -> Iterator[Session]:
    """An empty session in the file."""
    with Session.create(file, cwd="/p") as stored:
        yield stored


@pytest.fixture
def reading(file: Path) -> Reading:
    """Opens to read what another program wrote in the file: a header, and the lines given."""
    return lambda *lines: opened(file, *lines, readonly=True)


@pytest.fixture
def main(stored: Session) -> Session:
    """A session in the file, on the main lane, with the prompt `p1`."""
    talk(stored, "p1")
    return stored
