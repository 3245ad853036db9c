"""Whatever blocks a message has, deltas and whole events make the same of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree import Session
from sessiontree.recording.recorder import StreamLines
from tests.support.saying import text
from tests.support.soak import amount
from tests.support.streams import Agent, as_bytes, contents, recorded

TEXTS = st.text(min_size=1, max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
INPUTS = st.dictionaries(TEXTS, VALUES, max_size=3)
BLOCKS = st.one_of(
    st.builds(text, TEXTS),
    st.fixed_dictionaries({"type": st.just("thinking"), "thinking": TEXTS, "signature": TEXTS}),
    st.fixed_dictionaries({"type": st.just("tool_use"), "name": TEXTS, "input": INPUTS}),
)
MESSAGES = st.lists(st.lists(BLOCKS, min_size=1, max_size=5), min_size=1, max_size=3)


def with_ids(messages: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """Each call with an id of its own, as the provider gives it."""
    return [
        [
            {**block, "id": f"toolu_{m}_{b}"} if block["type"] == "tool_use" else block
            for b, block in enumerate(blocks)
        ]
        for m, blocks in enumerate(messages)
    ]


def in_deltas(
    blocks: list[dict[str, Any]], id: str, order: random.Random, whole: str
) -> Iterator[dict[str, Any]]:
    """A message whose blocks come in deltas, any of them between those of the others.

    Args:
        whole: when each block is told of whole too: `before` its end, `after` it, or never.
    """
    agent = Agent()
    yield agent.begin(id)
    waiting = [(i, iter([*agent.deltas(i, block, size=3)])) for i, block in enumerate(blocks)]
    while waiting:
        at = order.randrange(len(waiting)) if whole == "never" else 0
        index, pieces = waiting[at]
        piece = next(pieces, None)
        if piece is not None:
            yield piece
            continue
        del waiting[at]
        if whole == "before":
            yield agent.whole(id, [blocks[index]])
        yield agent.stop(index)
        if whole == "after":
            yield agent.whole(id, [blocks[index]])
    yield from agent.end("end_turn", 7)
    if order.random() < 0.3:
        yield agent.whole(id, blocks)


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(40))
@given(messages=MESSAGES, granularity=st.sampled_from(["block", "message"]))
@pytest.mark.parametrize("whole", ["before", "after", "never"])
def test_blocks_in_deltas_are_the_blocks_told_whole(
    messages: list[list[dict[str, Any]]], granularity: str, whole: str
) -> None:
    messages = with_ids(messages)
    deltas = [
        event
        for number, blocks in enumerate(messages)
        for event in in_deltas(blocks, f"msg_{number}", random.Random(number), whole)
    ]
    whole_of = Agent().whole
    full = [whole_of(f"msg_{n}", [block]) for n in range(len(messages)) for block in messages[n]]
    for stream in (deltas, full):
        for number, event in enumerate(stream):
            event["uuid"] = f"{number:08d}-2222-4000-8000-000000000000"
        with Session.create() as session:
            recorded(session, as_bytes(stream), granularity=granularity)
            told = session.context(verbatim=True).messages
            assert [said["content"] for said in told if said["role"] == "assistant"] == messages


@settings(deadline=None)
@given(
    data=st.binary(max_size=60).map(lambda b: b.replace(b"a", b"\n")),
    cuts=st.lists(st.integers(0, 60), max_size=6),
)
def test_lines_are_the_same_however_they_are_cut(data: bytes, cuts: list[int]) -> None:
    lines, found = StreamLines(), list[bytes]()
    at = 0
    for cut in [*sorted(cuts), len(data)]:
        found += lines.add(data[at:cut])
        at = max(at, cut)
    assert b"\n".join([*found, lines.rest()]) == data


def test_a_torn_block_never_costs_the_next_message() -> None:
    agent = Agent()
    broken = [agent.begin("msg_1"), *agent.deltas(0, text("one and"))]
    with Session.create() as session:
        recorded(session, as_bytes([*broken, *agent.message("msg_2", [text("two")])]))
        assert contents(session) == [[text("one and")], [text("two")]]
        assert session.context().messages[0]["stopReason"] == "aborted"
