"""New files written piece by piece, so that a crash or a fault may come between any two."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _each_piece_is_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessiontree.storage.atomic._WRITE", 1)
