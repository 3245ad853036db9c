"""The sessions that tests of operations start from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sessiontree import Session
from tests.support.conversation import in_memory, talk


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
def main(file: Path) -> Iterator[Session]:
    """A session on the main lane, with the prompt `p1`."""
    with Session.create(file, cwd="/p") as main:
        talk(main, "p1")
        yield main
