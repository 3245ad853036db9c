"""What a page says of a session is what it was, to the last character."""

from __future__ import annotations

import pytest

from tests.page.printed import EXPECTED, NAMES, printed
from tests.support.table import for_each


@pytest.mark.filterwarnings("ignore")
@for_each("name", NAMES)
def test_a_page_says_what_is_expected(name: str) -> None:
    """`python -m tests.page.printed` writes the expectations again, after a change on purpose."""
    expected = (EXPECTED / f"{name}.txt").read_text(encoding="utf-8")
    assert printed(name).split("\n") == expected.split("\n")
