"""Blame is held against projects whose true writers are known.

Lines without a letter or a digit are not counted, because a diff cannot tell twins apart. Lines
such as `else:`, which several writers wrote in one file, are not counted either.
"""

from __future__ import annotations

import pytest

from tests.library.project import score

SEEDS = (1, 2, 3, 4)
LEAST_SHARE = 0.98


@pytest.mark.slow
def test_blame_names_the_call_that_wrote_a_line() -> None:
    """98% of agents' lines have their call; none of the person's is an agent's."""
    for seed in SEEDS:
        made = score(seed)
        assert not made.forbidden, "\n".join([str(made), "never to be:", *made.forbidden])
        assert made.share >= LEAST_SHARE, str(made)
        assert made.counts["other prompt"] == 0, str(made)
