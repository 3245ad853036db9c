"""The same test in two amounts: a small one in each run, and the full one in the soak run."""

from __future__ import annotations

from typing import Any

import pytest


def in_soak(names: str, normal: Any, soak: Any) -> pytest.MarkDecorator:
    """Give parameters one set of values in the normal run, and another in `pytest -m soak`."""
    normal, soak = [each if "," in names else (each,) for each in (normal, soak)]
    full = pytest.param(*soak, marks=pytest.mark.soak, id="soak")
    return pytest.mark.parametrize(names, [pytest.param(*normal, id="normal"), full])
