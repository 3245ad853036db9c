"""Random sessions of the agents whose programs cannot play them here: each fact is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from sessiontree import Session
from sessiontree.core.activity import ending_of, output_of, results_in
from sessiontree.core.media import binary_in
from sessiontree.core.message import (
    THOUGHT_BLOCKS,
    begins_turn,
    block_text,
    blocks_of,
    call_in,
    calls_of,
    kind_of,
    thought_text,
)
from sessiontree.edits.tools import edits_of, with_arguments
from sessiontree.library.counts import CountCache
from sessiontree.library.listing import facts_of as listed
from tests.agents.random_talks import AGENTS, Tokens, facts_of, steps_of, talk_of
from tests.support.soak import in_soak
from tests.support.table import for_each

_NAMELESS: Final = ("droid", "cline")
"""The agents whose results are blocks, which do not name the tool."""


def read(file: str) -> Iterator[tuple[Any, ...]]:
    """What the entries of a session say, in the words of `random_talks.facts_of`."""
    with Session.open(file, readonly=True) as session:
        entries = [entry.as_stored for entry in session.entries()]
    for keys in entries:
        if keys["type"] == "compaction":
            yield "summary", keys["summary"]
        elif keys["type"] == "message":
            yield from said(keys)


def said(keys: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    message = keys["message"]
    blocks = list(blocks_of(message))
    if begins_turn(keys):
        texts = [block_text(block) for block in blocks if kind_of(block) == "text"]
        images = [found for block in blocks if (found := binary_in(block))]
        assert {kind for kind, _ in images} <= {"image/png"}
        yield "prompt", "".join(texts), len(images)
        return
    for id, result in results_in(message):
        name = message.get("toolName")
        yield "result", id, name, output_of(result), ending_of(result) == "failed"
    if message["role"] != "assistant":
        return
    for block in blocks:
        if kind_of(block) in THOUGHT_BLOCKS:
            yield "thought", thought_text(block)
        elif kind_of(block) == "text":
            yield "text", block_text(block)
        elif call_in(block) is None:
            yield "other", block
    for call in map(with_arguments, calls_of(message)):
        yield "call", call.id, call.name, call.arguments
        for edit in edits_of(call, {}):
            yield from (("edit", edit.path, swap.old, swap.new) for swap in edit.swaps)


@for_each("agent", [*AGENTS])
@in_soak("count", 20, 400)
def test_a_random_session_is_read_as_it_was_written(agent: str, count: int, tmp_path: Path) -> None:
    write, tools = AGENTS[agent]
    for seed in range(count):
        random = Random(f"{agent} {seed}")
        turns = talk_of(random, is_compacted=agent != "cline")  # which keeps compactions apart
        stored = write(tmp_path / str(seed), turns, random.random() < 0.3)
        facts = facts_of(turns, tools)
        if agent in _NAMELESS:
            facts = [
                (*fact[:2], None, *fact[3:]) if fact[0] == "result" else fact for fact in facts
            ]
        assert list(read(str(stored.file))) == facts, seed
        ((_, counted),) = CountCache(None).counted([listed(str(stored.file))], None)
        assert counted is not None
        used, steps = counted.usage, list(steps_of(turns))
        found = {name: getattr(used, name) for name in Tokens._fields}
        assert counted.turns == len(turns), seed
        assert found == {
            name: sum(getattr(step.tokens, name) for step in steps) if name in stored.counts else 0
            for name in Tokens._fields
        }, seed
        cents = sum(step.cents for step in steps) if stored.has_costs else 0
        assert (used.cost or 0) == pytest.approx(cents / 100), seed
