"""Work on edits of files that once multiplied: patches, diffs, contents played back, scripts."""

from __future__ import annotations

import hashlib
import tracemalloc
from collections import Counter
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sessiontree import Session, TooMuchError
from sessiontree.core.limits import EDIT_STEPS, Budget, Limit
from sessiontree.edits.diff import counted_diff_of, counts_of, runs
from sessiontree.edits.patch import Hunk, applied, parse_numbered
from sessiontree.edits.shell import effects
from sessiontree.edits.tools import Edit, Replacement, SeenLines, after
from sessiontree.history.replay import KnownContent, Replay
from sessiontree.library import file_edits
from sessiontree.library.file_edits import Target, reasons_of
from tests.hostile import corpus
from tests.hostile.test_steps import opened, steps_of
from tests.support.enough import ENOUGH
from tests.support.table import for_each

_GROWTH = 5


class Looked(str):
    """A line that counts how often lines are compared or hashed."""

    __slots__ = ()
    looks: ClassVar = 0

    def __eq__(self, other: object) -> bool:
        Looked.looks += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        Looked.looks += 1
        return str.__hash__(self)


def looks_at(lines: list[str], others: list[str], work: Callable[[Any, Any], object]) -> float:
    """How often some work looks at each line of two texts."""
    Looked.looks = 0
    work(list(map(Looked, lines)), list(map(Looked, others)))
    return Looked.looks / (len(lines) + len(others))


def grows_with(work: Callable[[int], object], size: int) -> float:
    """How many times as many steps some work takes for four times the size."""
    work(size)  # what is made once is made now
    small, large = (steps_of(lambda: work(size * n)) for n in (1, 4))  # noqa: B023
    return large / small


@for_each(
    "hunk",
    [
        lambda size: Hunk(("a",) * (size // 10) + ("b",), ()),
        lambda size: Hunk(("a",) * (size // 10) + ("b",), (), start=size // 2),
        lambda size: Hunk(("b",), (), above=("a",) * (size // 10)),
    ],
)
def test_a_hunk_is_looked_for_in_steps_that_follow_the_lines(
    hunk: Callable[[int], Hunk],
) -> None:
    def work(size: int) -> None:
        assert applied([hunk(size)], ["a"] * size, ENOUGH) is None

    assert grows_with(work, 1_000) < _GROWTH


def test_a_hunk_compares_a_line_of_the_file_a_few_times() -> None:
    block = tuple(map(Looked, ["a"] * 200 + ["b"]))

    def work(lines: list[str], _: Any) -> None:
        assert applied([Hunk(block, ()), Hunk(block, (), start=9)], lines, ENOUGH) is None
        assert applied([Hunk(block, (), start=9)], lines, ENOUGH) is None

    assert looks_at(["a"] * 4_000, [], work) < 3


def test_many_hunks_that_take_much_of_a_file_end_with_the_steps_of_the_command() -> None:
    lines = ["a"] * 100_000 + ["x"] * 20_000
    hunks = [Hunk(("x", "x"), (f"z{number}",), 1) for number in range(5_000)]
    with pytest.raises(TooMuchError, match="too large"):
        applied(hunks, lines, Budget(EDIT_STEPS, 5_000_000, error="too large"))


def test_the_numbers_of_hunks_are_counted_once() -> None:
    def work(size: int) -> None:
        shown = "".join(f"+{number} a\n...\n" for number in range(1, size))
        assert len(parse_numbered(shown)) == size - 1

    assert grows_with(work, 300) < _GROWTH


def test_a_diff_of_runs_without_anchors_looks_at_a_line_a_few_times() -> None:
    before, behind = ["b", "b", "a"] * 33, ["a", "b"] * 25 + ["b", "a"] * 25
    assert looks_at(before, behind, runs) < 20


def test_a_diff_of_anchors_within_anchors_looks_at_a_line_a_few_times() -> None:
    before, behind = (
        f" {mark} ".join(f"u{n + 1} u{n} v{n}" for n in range(60)).split() + [mark, "a"] * 20_000
        for mark in "xy"
    )
    assert looks_at(before, behind, runs) < 40


def test_a_diff_of_many_changes_is_shown_in_steps_that_follow_the_lines() -> None:
    def work(size: int) -> None:
        text = "".join(f"{n}\n" if n % 9 else "b\n" for n in range(9 * size))
        edit = Edit("f", "edit", swaps=(Replacement("b", "c", every=True),), before=text)
        counts, diff = counted_diff_of(edit)
        assert counts == counts_of(edit) == (size, size)
        assert sum(line.startswith("@@") for line in diff) == size

    assert grows_with(work, 100) < _GROWTH


def test_an_edit_of_many_swaps_is_shown_as_they_tell_it() -> None:
    swaps = tuple(Replacement("ab"[number % 2], "ba"[number % 2]) for number in range(20_000))
    shown = counted_diff_of(Edit("f", "edit", swaps=swaps, before="c" * 700_000 + "a"))
    assert shown[0] == (20_000, 20_000)
    few = counted_diff_of(Edit("f", "edit", swaps=swaps[:20], before="c" * 700_000 + "a"))
    assert few == ((0, 0), [])


@for_each("size", [29_000, 1_000_000])
def test_a_search_of_a_text_that_repeats_takes_steps_for_each_look(size: int) -> None:
    edit = Edit("f", "edit", swaps=(Replacement("a" * 49 + "b" + "a" * 49, "c"),))
    steps = Budget(Limit(5 * size, "enough"))
    with pytest.raises(TooMuchError):
        after(edit, "a" * size, steps)
    after(edit, "def" * (size // 3), Budget(Limit(2 * size, "enough")))


def edit_all(number: int) -> Edit:
    old, new = "ab"[number % 2], "ba"[number % 2]
    return Edit("f", "edit", swaps=(Replacement(old, new, every=True),))


def edits_until_the_end(replay: Replay, edits: list[Edit]) -> int:
    """How many edits are played back, again and again, until there are no more steps."""
    for number, edit in enumerate(cycle(edits), 1):
        try:
            replay.edit(number, edit)
        except TooMuchError:
            return number
    raise AssertionError


def test_edits_of_each_line_end_with_the_steps_of_the_command() -> None:
    replay = Replay(Budget(EDIT_STEPS, 5_000_000, error="too large"))
    replay.edit(0, Edit("f", "write", content="a\n" * 20_000))
    assert 10 < edits_until_the_end(replay, [edit_all(0), edit_all(1)]) < 200


def test_an_edit_that_fits_nowhere_takes_steps_for_each_state_it_is_tried_on() -> None:
    replay = Replay(Budget(EDIT_STEPS, 5_000_000, error="too large"))
    replay.edit(0, Edit("f", "write", content="a\n" * 500_000))
    edit = Edit("f", "edit", hunks=(Hunk(("a", "b"), ("a", "c")),))
    assert 3 < edits_until_the_end(replay, [edit]) < 50


def test_lines_of_edits_that_fit_nowhere_end_with_the_steps_of_the_command() -> None:
    replay = Replay(Budget(EDIT_STEPS, 5_000_000, error="too large"))
    for number in range(100):
        swap = Replacement(f"nothing of the file {number}\n", "ab\n" * 100)
        assert not replay.edit(number, Edit("f", "edit", swaps=(swap,)))
    with pytest.raises(TooMuchError):
        replay.see("ab\n" * 100_000)


def test_a_replay_keeps_no_text_of_the_states_that_are_gone() -> None:
    text = "".join(f"a line that is the {number}th\n" for number in range(4_000))
    replay = Replay(ENOUGH)
    replay.edit(0, Edit("f", "write", content=text + "start 0\n"))
    tracemalloc.start()
    for number in range(1, 101):
        swap = Replacement(f"start {number - 1}\n", f"start {number}\n")
        assert replay.edit(number, Edit("f", "edit", swaps=(swap,)))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 10 * len(text)


@for_each(
    "events",
    [
        [SeenLines("f", "line", 999_999)],
        [SeenLines("f", "line", 999_999), SeenLines("f", "other", 999_999)],
        [SeenLines("f", "a\n" * 400_000, 1, is_whole=True), SeenLines("f", "a", 9, total=10**9)],
    ],
)
def test_looks_at_a_part_end_with_the_steps_of_the_command(events: list[SeenLines]) -> None:
    content, steps = KnownContent(), Budget(EDIT_STEPS, 5_000_000, error="too large")

    def look() -> None:
        for event in events * 1_000:
            content.take(event, steps)

    with pytest.raises(TooMuchError):
        look()


def test_a_script_is_taken_apart_in_few_steps_for_its_length() -> None:
    script = f"echo '{'x' * 8_000}' > a\n" * 20
    effects("ls")
    assert steps_of(lambda: effects(script)) < len(script) / 20


def test_a_line_of_codex_is_hashed_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed, sha1 = Counter[str](), hashlib.sha1

    def counted(name: bytes, **more: Any) -> Any:
        hashed["bytes"] += len(name)
        return sha1(name, **more)

    monkeypatch.setattr(hashlib, "sha1", counted)
    size = 200_000
    with opened("codex_items_in_a_compaction", tmp_path, size) as session:
        assert session.stats().types["message"] > 1_000
    assert hashed["bytes"] < 10 * size


def test_the_reasons_of_edits_are_found_twice_however_often_the_file_was_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Counter[str]()

    def counted(session: Session, uuids: Any) -> Any:
        found["times"] += 1
        return reasons_of(session, uuids)

    monkeypatch.setattr(file_edits, "reasons_of", counted)
    file = corpus.STRUCTURES["moves_in_a_chain"](tmp_path, 60_000)
    target = Target((str(tmp_path),), ["a.py"])
    edits = file_edits.edits_of(target, [str(file)], pytest.fail)
    assert len(target.paths) == 20
    assert len(edits) > 50
    assert found["times"] == 2
