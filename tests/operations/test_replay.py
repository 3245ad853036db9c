"""A file that comes back to a content that it had has the writers of that content."""

from __future__ import annotations

import pytest

from sessiontree.core.edits import Edit
from sessiontree.operations.replay import Replay, Writer


def written(number: int, text: str, replay: Replay) -> None:
    assert replay.edit(number, Edit("a.py", "write", content=text))


@pytest.mark.parametrize(
    "made",
    ["second = 2\nfirst = 1\n", "second = 2\nsecond = 2\nthird = 3\n", "third = 3\nfirst = 1\n"],
)
def test_a_restored_file_has_no_line_of_the_edit_that_is_gone(made: str) -> None:
    replay = Replay()
    replay.see("first = 1\nsecond = 2\n")
    written(0, made, replay)
    replay.see("first = 1\nsecond = 2\n")
    assert replay.writers == [None, None]
    assert replay.undone == {0}


def test_a_restored_file_has_the_writers_that_it_had() -> None:
    replay = Replay()
    replay.see("first = 1\n")
    written(0, "first = 1\nsecond = 2\n", replay)
    replay.see("first = 1\nsecond = 2\n")
    written(1, "second = 2\nfirst = 1\n", replay)
    replay.see("first = 1\nsecond = 2\n")
    assert replay.writers == [None, Writer(0, "exact")]
    assert replay.undone == {1}
