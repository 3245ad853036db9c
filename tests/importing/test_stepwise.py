"""What is read and imported of small sessions is what it was, to the last character."""

from __future__ import annotations

import pytest

from tests.importing.stepwise import EXPECTED, told


@pytest.mark.filterwarnings("ignore")
def test_small_sessions_are_read_and_imported_step_by_step_as_expected() -> None:
    """`python -m tests.importing.stepwise` writes it again, after a change on purpose."""
    assert told().split("=== ") == EXPECTED.read_text("utf-8").split("=== ")
