"""A change says what makes the new state of the old one, whatever the two are."""

from __future__ import annotations

import json
import zlib
from itertools import accumulate
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.web.page_state import _LISTS, _VALUES, PageState, change
from tests.support.soak import amount

ROW = st.sampled_from(["a", "b", "c"])
CHUNKS = st.lists(st.lists(ROW, min_size=1, max_size=3), min_size=1, max_size=4)
NUMBERS = st.lists(st.integers(0, 2), max_size=4)


def state(chunks: list[list[str]], lists: dict[str, list[int]], values: list[int]) -> PageState:
    """A state with some rows, each a head."""
    rows = [row for chunk in chunks for row in chunk]
    names = ["".join(chunk) for chunk in chunks]
    parts = {
        name: zlib.compress(orjson.dumps([[row] for row in chunk]))
        for name, chunk in zip(names, chunks, strict=True)
    }
    firsts = [0, *accumulate(len(chunk) for chunk in chunks)][:-1]
    index: dict[str, Any] = {**lists, **dict(zip(_VALUES, values, strict=True))}
    index |= {"kinds": "u" * len(rows), "gists": [""] * len(rows)}
    return PageState({**index, "chunks": firsts, "names": names}, parts, f"title {values[0]}")


@st.composite
def states(draw: st.DrawFn) -> PageState:
    lists = {name: draw(NUMBERS) for name in _LISTS}
    values = draw(st.lists(st.integers(0, 1), min_size=len(_VALUES), max_size=len(_VALUES)))
    return state(draw(CHUNKS), lists, values)


def rows_of(one: PageState) -> list[Any]:
    return [
        row for name in one.index["names"] for row in orjson.loads(zlib.decompress(one.parts[name]))
    ]


@settings(max_examples=amount(30))
@given(states(), states())
def test_a_change_makes_the_new_state_of_the_old_one(old: PageState, new: PageState) -> None:
    made = json.loads(change(old, new, 7))
    assert (made["number"], made["title"]) == (7, new.title)
    index = dict(old.index)
    for name, (stays, follows) in made["lists"].items():
        whole = index[name][:stays] + follows
        assert whole != index[name]
        is_cut = stays in (len(whole), len(index[name]))
        assert is_cut or index[name][stays] != whole[stays]
        index[name] = whole
    assert {**index, **made["values"]} == new.index
    assert all(old.index[name] != value for name, value in made["values"].items())


@settings(max_examples=amount(30))
@given(states(), states())
def test_a_change_names_the_rows_that_are_shown_in_another_way(
    old: PageState, new: PageState
) -> None:
    made = json.loads(change(old, new, 7))
    was, now = rows_of(old), rows_of(new)
    assert made["same"] == min(len(was), len(now))
    differing = {at for at in range(made["same"]) if was[at] != now[at]}
    assert differing <= set(made["changed"])
    more = set(made["changed"]) - differing
    assert not more & {row for row in range(made["same"]) if are_compared(old, new, row)}
    assert made["changed"] == sorted(made["changed"])
    assert all(row < made["same"] for row in made["changed"])


def are_compared(old: PageState, new: PageState, row: int) -> bool:
    """Whether a row is in a chunk of both states that begins at the same row."""
    first = max(first for first in new.index["chunks"] if first <= row)
    names = dict(zip(old.index["chunks"], old.index["names"], strict=True))
    return first in names and row < first + len(names[first])


def test_a_row_is_shown_anew_where_the_chunk_of_another_reading_is_longer() -> None:
    """What was added at the end has chunks of its own until the session is read whole."""
    nothing: dict[str, list[int]] = {name: [] for name in _LISTS}
    values = [0] * len(_VALUES)
    old, new = (
        state([["a", "b"], ["a"]], nothing, values),
        state([["a", "b", "c"]], nothing, values),
    )
    assert json.loads(change(old, new, 2))["changed"] == [2]
