"""What the turns of a page cost: each answer once, in the turn that has it first."""

from __future__ import annotations

from typing import Any

from sessiontree.core.usage import Spent, Usage
from sessiontree.page.index import Chunks
from sessiontree.page.panels import Cost, CostsPanel
from sessiontree.page.rows import PageRow
from sessiontree.views.costs import Prices
from tests.page.reading import _unpacked
from tests.support.table import for_each


def spent(answer: str, cost: float = 0.0, tokens: int = 0, **more: Any) -> Spent:
    usage = Usage(input=tokens, cost=cost)
    return Spent(answer=answer, model="own", usage=usage, is_reported=bool(cost), **more)


def costs() -> CostsPanel:
    def load() -> Prices | None:
        return None

    return CostsPanel(load)


def test_an_answer_counts_once_in_its_first_turn() -> None:
    found = costs()
    found.take(0, [([spent("a", 1.0)], 10), ([spent("a", 1.0), spent("b", 2.0)], 20)])
    found.take(1, [([spent("b", 2.0)], 30), ([spent("c", 4.0)], 0), ([], 40)])
    assert [found.of(0), found.of(1), found.of(2)] == [
        Cost(3.0, "as reported"),
        Cost(4.0, "as reported"),
        None,
    ]
    assert found.total() == Cost(7.0, "as reported")
    assert [found.context_of(0), found.context_of(1), found.context_of(2)] == [20, 0, 0]


def test_what_was_reported_for_the_session_is_in_the_total_alone() -> None:
    found = costs()
    found.take(0, [([spent("a", 1.0)], 10), ([spent("s", 5.0, is_of_session=True)], 0)])
    assert found.of(0) == Cost(1.0, "as reported")
    assert found.total() == Cost(6.0, "as reported")


@for_each(
    ("answers", "cost"),
    [
        ([], None),
        ([spent("a", 0.0, 5)], None),
        ([spent("a", 1.0), spent("b", 0.0, 0)], Cost(1.0, "as reported")),
        (
            [spent("a", 1.0), spent("b", 0.0, 5)],
            Cost(1.0, "as reported, 1 answer without a price"),
        ),
        (
            [spent("a", 1.0), spent("b", 0.0, 5), spent("c", 0.0, 5)],
            Cost(1.0, "as reported, 2 answers without a price"),
        ),
    ],
)
def test_answers_without_a_price_are_counted(answers: list[Spent], cost: Cost | None) -> None:
    found = costs()
    found.take(3, [(answers, 1)])
    assert found.of(3) == found.total() == cost


def row(head: str, body: str = "") -> PageRow:
    return PageRow("u", "", head, body)


def test_chunks_end_behind_the_row_that_fills_them() -> None:
    chunks = Chunks()
    full = [*chunks.take([row("a" * 1024, "b" * 1024)] * 128), *chunks.take([])]
    assert full == []
    assert [len(_unpacked(one)) for one in chunks.take([row("a")] * 3)] == [129]
    assert (len(_unpacked(chunks.close())), len(chunks)) == (2, 131)
    assert _unpacked(chunks.close()) == []
    assert chunks.firsts == [0, 129, 131]


def test_a_long_body_that_repeats_is_the_number_of_its_first_row() -> None:
    chunks = Chunks()
    long, longer, short = "x" * 512, "x" * 513, "x" * 511
    made = [row("a", long), row("b", longer), row("c", short), row("d", long), row("e", short)]
    assert [*chunks.take([*made, row("f", longer), row("g")])] == []
    assert _unpacked(chunks.close()) == [
        *(["a", long], ["b", longer], ["c", short], ["d", 0], ["e", short], ["f", 1], ["g"]),
    ]
    assert [*chunks.take([row("h", long)])] == []
    assert _unpacked(chunks.close()) == [["h", 0]]
