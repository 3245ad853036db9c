from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree import Store


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "chat.jsonl"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")
