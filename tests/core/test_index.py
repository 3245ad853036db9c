from __future__ import annotations

import json
import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.core.entry import CONTENT
from sessiontree.core.index import NO_ROW, Ancestry, TreeIndex
from tests.support.lines import Findings
from tests.support.soak import amount

Line = tuple[str, str, str | None, str | None]
"""Type, uuid, parent, lane."""


def spelled(line: Line) -> bytes:
    type, uuid, parent, lane = line
    keys: dict[str, Any] = {"type": type, "uuid": uuid, "parentUuid": parent}
    return json.dumps(keys if lane is None else {**keys, "lane": lane}).encode()


def grown(*lines: Line) -> tuple[TreeIndex, Findings]:
    tree, findings = TreeIndex(), Findings()
    tree.extend(b"".join(spelled(line) + b"\n" for line in lines), 0, findings)
    return tree, findings


def chain(*uuids: str) -> list[Line]:
    above: list[str | None] = [None, *uuids[:-1]]
    types = ["session", *["message"] * (len(uuids) - 1)]
    return [(t, u, p, None) for t, u, p in zip(types, uuids, above, strict=True)]


def entries(lines: list[Line]) -> list[Line]:
    """The lines that are entries: all but second headers."""
    return [line for row, line in enumerate(lines) if not row or line[0] != "session"]


def model(lines: list[Line]) -> list[int]:
    """The parent of each row by the words of the rule, edges added in file order."""
    parents: list[int] = []
    waiting: list[int] = []
    for row, (type, uuid, parent, _) in enumerate(lines):
        before = [at for at in range(row) if lines[at][1] == parent]
        names_one = parent is not None and type != "session"
        parents.append(before[-1] if names_one and before else NO_ROW)
        for child in [at for at in waiting if lines[at][2] == uuid]:
            waiting.remove(child)
            above, circle = row, False
            while above != NO_ROW and not circle:
                circle = above == child
                above = parents[above]
            if not circle:
                parents[child] = row
        if names_one and not before and parent != uuid:
            waiting.append(row)
    return parents


uuids = st.sampled_from("abcdefgh")
anything = st.lists(
    st.tuples(
        st.sampled_from(["message", "message", "label", "session", "custom"]),
        uuids,
        st.none() | uuids,
        st.sampled_from([None, None, "x", "y"]),
    ),
    max_size=12,
).map(lambda rest: [("session", "root", None, None), *rest])


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(250))
@given(anything)
def test_any_lines_make_the_tree_that_the_rule_says(lines: list[Line]) -> None:
    tree, findings = grown(*lines)
    lines = entries(lines)
    parents = model(lines)
    assert list(tree.parents) == parents
    assert tree.uuids == [uuid for _, uuid, _, _ in lines]
    for row, (type, uuid, _, lane) in enumerate(lines):
        assert tree.type_of(row) == type
        assert tree.lane_of(row) == lane
        assert tree.row(uuid) == max(at for at in range(len(lines)) if lines[at][1] == uuid)
        assert tree.row_at(tree.offsets[row]) == row
        assert list(tree.children(row)) == [at for at, p in enumerate(parents) if p == row]
        up = list(tree.rows_up(row))
        assert up[0] == row
        assert parents[up[-1]] == NO_ROW
        assert tree.subtree(row) == [at for at in range(len(lines)) if row in tree.rows_up(at)]
        below = [at for at, is_below in enumerate(tree.rows_below(row)) if is_below]
        assert below == tree.subtree(row)
    assert tree.roots() == [row for row, parent in enumerate(parents) if parent == NO_ROW]
    assert len(findings.kinds) >= len(tree.roots()) - 1 - len(list(tree.missing_parents()))


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(150))
@given(anything, st.data())
def test_what_comes_in_pieces_is_what_comes_at_once(lines: list[Line], data: st.DataObject) -> None:
    whole, findings = grown(*lines)
    pieces, told = TreeIndex(), Findings()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(lines)), max_size=3)) | {len(lines)})
    start = 0
    for cut in cuts:
        block = b"".join(spelled(line) + b"\n" for line in lines[start:cut])
        pieces.extend(block, pieces.end, told)
        start = cut
        for row in range(len(pieces)):  # asked between, so that what is kept is kept right
            assert {pieces.parents[child] for child in pieces.children(row)} <= {row}
    assert pieces.parents == whole.parents
    assert pieces.offsets == whole.offsets
    assert pieces.end == whole.end
    assert told.told == findings.told
    assert [pieces.row(uuid) for uuid in "abcdefgh"] == [whole.row(uuid) for uuid in "abcdefgh"]
    for row in range(len(whole)):
        assert list(pieces.children(row)) == list(whole.children(row))


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(150))
@given(anything)
def test_ancestors_and_content_are_those_of_the_model(lines: list[Line]) -> None:
    tree, _ = grown(*lines)
    lines = entries(lines)
    rows = range(len(lines))
    content = tree.content_rows()
    assert [bool(mark) for mark in content] == [lines[row][0] in CONTENT for row in rows]
    above = tree.rows_above_content(content)
    for row in rows:
        assert bool(above[row]) == any(content[at] for at in tree.subtree(row) if at != row)
    for lane in (None, "x", "y", "nowhere"):
        on_lane = [row for row in rows if lines[row][3] == lane]
        assert tree.last_on(lane) == max(on_lane, default=NO_ROW)
    labels = [row for row in rows if lines[row][0] == "label"]
    assert tree.rows_of_type("label", "unheard of") == labels
    assert tree.rows_of_type("label", since=3) == [row for row in labels if row >= 3]
    assert tree.lanes[0] is None
    assert set(tree.lanes) == {None, *(line[3] for line in lines)}


def test_what_is_odd_is_reported() -> None:
    cases: list[tuple[Any, list[str]]] = [
        ([("message", "a", "a", None)], ["cycle"]),
        ([("message", "a", "b", None), ("message", "b", "a", None)], ["cycle"]),
        ([("message", "a", "b", None), ("message", "b", "r", None)], ["late parent"]),
        ([("message", "a", None, None)], ["missing parent"]),
        *(([("session", "s", parent, None)], ["second header"]) for parent in (None, "r")),
        ([("message", "r", "r", None)], ["duplicate"]),
        ([("message", "a", "gone", None)], []),
    ]
    for rest, kinds in cases:
        _, findings = grown(("session", "r", None, None), *rest)
        assert findings.kinds == kinds


def test_a_missing_parent_is_known_until_it_comes() -> None:
    tree, findings = grown(*chain("r", "a"), ("message", "c", "b", None))
    assert list(tree.missing_parents()) == [(2, "b")]
    assert not tree.has_late_parents
    tree.extend(spelled(("message", "b", "a", None)) + b"\n", tree.end, findings)
    assert list(tree.missing_parents()) == []
    assert tree.has_late_parents
    assert [tree.uuids[row] for row in tree.rows_up(2)] == ["c", "b", "a", "r"]


def test_a_line_that_is_no_entry_makes_no_row_and_moves_no_offset() -> None:
    tree, findings = TreeIndex(), Findings()
    lines = [spelled(("session", "r", None, None)), b"{", spelled(("t", "a", "r", None))]
    block = b"".join(line + b"\n" for line in lines)
    tree.extend(block, 0, findings)
    assert len(tree) == 2
    assert tree.end == len(block)
    assert block[tree.offsets[1] :].startswith(b'{"type": "t"')
    assert tree.row_at(1) == tree.row_at(len(block)) == NO_ROW
    assert findings.kinds == ["json"]


def test_a_file_of_more_types_and_lanes_than_anyone_has_is_indexed() -> None:
    tree, findings = TreeIndex(), Findings()
    for row in range(70_000):
        line = b'{"type":"t%d","uuid":"u%d","parentUuid":"u0","lane":"l%d"}' % (row, row, row)
        tree.add(line, row, findings)
    assert tree.type_of(69_999) == "t69999"
    assert tree.lane_of(69_999) == "l69999"


def test_nothing_recurses() -> None:
    tree, findings = TreeIndex(), Findings()
    tree.add(b'{"type":"session","uuid":"0","parentUuid":null}', 0, findings)
    for row in range(1, 100_000):
        line = b'{"type":"message","uuid":"%d","parentUuid":"%d"}' % (row, row - 1)
        tree.add(line, row, findings)
    assert len(list(tree.rows_up(99_999))) == len(tree.subtree(0)) == 100_000
    assert sum(tree.rows_above_content(tree.content_rows())) == 99_999
    assert findings.kinds == []


def test_entries_in_reverse_order_are_the_same_tree() -> None:
    header, *lines = chain(*(str(place) for place in range(2_000)))
    tree, findings = grown(header, *reversed(lines))
    assert [tree.uuids[row] for row in tree.rows_up(1)] == [
        *(line[1] for line in reversed(lines)),
        "0",
    ]
    assert set(findings.kinds) == {"late parent"}


def test_a_second_header_is_not_in_the_tree() -> None:
    for uuid in ("0", "other"):
        below = ("message", "x", uuid, None)
        tree, findings = grown(*chain("0", "1"), ("session", uuid, None, None), below)
        assert tree.uuids == ["0", "1", "x"], uuid
        assert [tree.uuids[row] for row in tree.rows_up(2)] == (
            ["x", "0"] if uuid == "0" else ["x"]
        )
        assert findings.kinds == ["second header"], uuid


def lines_run(lines: list[Line]) -> int:
    """How many lines of code run while an index is built."""
    block = b"".join(spelled(line) + b"\n" for line in lines)
    tree, findings, ran = TreeIndex(), Findings(), 0

    def count(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal ran
        ran += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        tree.extend(block, 0, findings)
    finally:
        sys.settrace(before)
    return ran


def late_below_a_deep_chain(size: int) -> list[Line]:
    late: list[Line] = []
    for number in range(size):
        late.append(("message", f"child-{number}", f"late-{number}", None))
        late.append(("message", f"late-{number}", str(size - 1), None))
    return chain(*map(str, range(size))) + late


def late_one_below_the_other(size: int) -> list[Line]:
    """A chain in reverse order, from its middle on."""
    whole = chain(*map(str, range(size)))
    return whole[: size // 2] + whole[: size // 2 - 1 : -1]


def alternating(size: int) -> list[Line]:
    """A chain of which every second entry stands after its child."""
    whole = chain(*map(str, range(size)))
    pairs = zip(whole[2::2], whole[1::2], strict=False)
    return [whole[0], *(line for pair in pairs for line in pair)]


def test_late_parents_cost_what_others_do_at_any_depth() -> None:
    """Each looked for itself above its parent, up to the root: hours for a large file."""
    for made in (late_below_a_deep_chain, late_one_below_the_other, alternating):
        assert lines_run(made(800)) < 2.5 * lines_run(made(400))


@given(st.lists(st.integers(0, 40), min_size=1, max_size=40))
def test_ancestry_in_one_step_is_what_the_parents_say(above: list[int]) -> None:
    lines: list[Line] = [("session", "0", None, None)]
    for row, parent in enumerate(above, 1):
        lines.append(("message", str(row), str(parent % (len(above) + 1)), None))
    tree = grown(*lines)[0]
    ancestry, rows = Ancestry(tree), range(len(tree))
    for row in rows:
        assert [at for at in rows if ancestry.is_above(at, row)] == sorted(tree.rows_up(row))
