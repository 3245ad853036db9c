"""Answers keep their budget, and pages of a list hold each item once."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.ops.budget import Page, Paged, as_builtins, fit, page, size
from sessiontree.ops.guidance import Refusal
from tests.support.soak import amount
from tests.support.table import for_each

BYTES_OF_TOKEN = 4
LEAST = 200

texts = st.one_of(
    st.text(max_size=60),
    st.builds(lambda text, n: text * n, st.text(min_size=1, max_size=3), st.integers(1, 2000)),
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**40, -(10**4000)]),
    st.floats(allow_nan=False),
    texts,
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=8),
        st.dictionaries(texts, inner, max_size=8),
        st.builds(lambda one, n: [one] * n, inner, st.integers(0, 900)),
        st.builds(lambda one, n: {str(k): one for k in range(n)}, inner, st.integers(0, 90)),
    ),
    max_leaves=6,
)


def limit(budget: int) -> int:
    return budget * BYTES_OF_TOKEN


@settings(max_examples=amount(50), deadline=None)
@given(value=values, budget=st.integers(LEAST, 3000))
def test_any_value_fits_any_budget_and_what_is_left_out_is_said(value: Any, budget: int) -> None:
    if size(value) > 400_000:
        return
    found, left_out = fit(value, budget)
    assert size(found) <= limit(budget)
    assert (left_out is None) == (found == value)


@for_each(
    "value",
    [
        [list(range(300))] * 300,
        {"k" * 5000: 1},
        {str(n): "" for n in range(5000)},
        {str(n): {str(m): {"a": ["b"]} for m in range(60)} for n in range(60)},
        json.loads("[" * 900 + "]" * 900),
        "\x00" * 5000,
        "\ud800" * 5000,
        [{"id": "0" * 36, "text": "é" * 49}] * 300,
    ],
    ids=["numbers", "key", "keys", "nested", "deep", "control", "surrogates", "rows"],
)
@for_each("budget", [0, 1, LEAST, 4000])
def test_odd_values_fit_too(value: Any, budget: int) -> None:
    found, left_out = fit(value, budget)
    if not budget or size(value) <= limit(budget):
        assert (found, left_out) == (value, None)
    else:
        assert size(found) <= limit(max(budget, LEAST))
        assert left_out


def test_long_texts_are_cut_before_short_ones_and_a_uuid_never_before_a_list() -> None:
    value = {"id": "0" * 36, "title": "t" * 90, "text": "a" * 9000 + "end"}
    found, left_out = fit(value, LEAST)
    assert (found["id"], found["title"]) == (value["id"], value["title"])
    assert found["text"].startswith("aaa")
    assert found["text"].endswith("aend")
    assert " characters … " in found["text"]
    assert left_out is not None
    assert "a larger budget" in left_out
    rows, _ = fit([value["id"]] * 500, LEAST)
    assert set(rows) == {value["id"]}
    assert len(rows) > 10


def test_a_cut_text_is_not_longer_than_before() -> None:
    found, _ = fit(["x" * 49] * 100, LEAST)
    assert max(map(len, found)) <= 49


lists = st.lists(st.text(max_size=300), unique=True, max_size=60)


def pages(items: list[str], budget: int) -> list[Page[str]]:
    found = [page(items, Paged(budget=budget), str)]
    while found[-1].cursor is not None:
        assert found[-1].more
        found.append(page(items, Paged(budget=budget, cursor=found[-1].cursor), str))
    return found


@settings(max_examples=amount(150), deadline=None)
@given(items=lists, budget=st.integers(LEAST, 2000))
def test_the_pages_of_a_list_hold_each_item_once_in_order(items: list[str], budget: int) -> None:
    found = pages(items, budget)
    assert [item for one in found for item in one.items] == items
    for one in found:
        assert size(one) <= limit(budget) or len(one.items) == 1


def test_without_a_limit_there_is_one_page() -> None:
    every = [str(n) * 99 for n in range(2000)]
    assert page(every, Paged(budget=0), str).items == every


def test_a_page_takes_no_more_of_a_list_than_it_needs() -> None:
    taken: list[int] = []

    def items() -> Any:
        for n in range(10**9):
            taken.append(n)
            yield str(n)

    found = page(items(), Paged(budget=LEAST), str)
    assert len(taken) == len(found.items) + 1


@for_each("key", ["/a/long/path" * 40, "a:b", "", "\ud800", "\x00é"])
def test_a_cursor_survives_being_cut_with_the_page(key: str) -> None:
    """The first item alone is larger than the budget, so that all texts of the page are cut."""
    items = [("x" * 9000, key), ("last", "last")]
    first = page(items, Paged(budget=LEAST), lambda item: item[1])
    told, _ = fit(as_builtins(first), LEAST)
    rest = page(items, Paged(budget=LEAST, cursor=told["cursor"]), lambda item: item[1])
    assert rest.items == [("last", "last")]


def test_a_list_that_grew_goes_on_where_it_was() -> None:
    items = [f"{n:0300}" for n in range(9)]
    first = page(items, Paged(budget=LEAST), str)
    assert first.cursor is not None
    grown = ["new", *items, "newer"]
    rest = page(grown, Paged(budget=0, cursor=first.cursor), str)
    assert [*first.items, *rest.items] == [*items, "newer"]


@for_each("cursor", ["", "x", ":", "1", "a:b", "-1:b", "²:b", "9" * 5000 + ":b"])
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(Refusal, match="is not a cursor") as raised:
        page(["a"], Paged(cursor=cursor), str)
    assert raised.value.kind == "bad_cursor"


def test_a_cursor_to_an_item_that_is_gone_says_so() -> None:
    with pytest.raises(Refusal, match="the list has changed") as raised:
        page(["a"], Paged(cursor="3:gone"), str)
    assert (raised.value.kind, raised.value.recoverable) == ("bad_cursor", True)
    assert "without a cursor" in raised.value.next


class Odd(msgspec.Struct):
    """A value that only `plain` knows how to write."""

    shape: Any


class Shaped:
    def as_dict(self) -> dict[str, str]:
        return {"type": "message"}


def test_values_of_the_library_have_the_shape_that_is_stored() -> None:
    assert as_builtins(Odd(Shaped())) == {"shape": {"type": "message"}}
    assert size(Odd(Shaped())) == len('{"shape":{"type":"message"}}')
