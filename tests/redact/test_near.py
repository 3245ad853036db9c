"""What is masked, and what is left, is what it was, for thousands of texts nearly alike."""

from __future__ import annotations

from tests.redact.near import EXPECTED, near
from tests.support.soak import in_soak


@in_soak("every", 15, 1)
def test_each_variation_is_masked_as_before(every: int) -> None:
    """`python -m tests.redact.near` writes the expectation again, after a change on purpose."""
    assert list(near(every)) == EXPECTED.read_text(encoding="utf-8").splitlines()[::every]
