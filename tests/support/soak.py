"""The same test in two amounts: a small one in each run, and the full one in the soak run.

`tests/conftest.py` sets the amount of random tests that name none.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings


def in_soak(names: str, normal: Any, soak: Any) -> pytest.MarkDecorator:
    """Give parameters one set of values in the normal run, and another in `pytest -m soak`."""
    normal, soak = [each if "," in names else (each,) for each in (normal, soak)]
    full = pytest.param(*soak, marks=pytest.mark.soak, id="soak")
    return pytest.mark.parametrize(names, [pytest.param(*normal, id="normal"), full])


def amount(soak: int) -> int:
    """The random examples of a run: this many in `pytest -m soak`, a quarter in each other."""
    return max(min(soak, 5), soak * settings().max_examples // 100)
