"""The costs of turns add up to what the session cost, except what is reported for all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree import Session
from sessiontree.views.costs import TurnCost, costs_of_turns, load
from sessiontree.views.turns import outline
from tests.support.spent import CLAUDE_CODE, claude_code_home, said, used
from tests.support.transcripts import user, written

MANY = 100_000


def turns_of(file: Path) -> list[TurnCost]:
    with Session.open(file, readonly=True) as session:
        return costs_of_turns(session.cursor, outline(session.cursor), load())


def test_each_turn_has_its_own_answers_and_its_subagents_theirs(tmp_path: Path) -> None:
    second = user("q", "a")
    lines = [
        said("a", "m", used(MANY)),
        second,
        {**said("b", "n", used(0, 0, 0, MANY)), "parentUuid": "q"},
        {**said("c", "n", used(0, 0, 0, MANY)), "parentUuid": "b"},
    ]
    file = claude_code_home(tmp_path, lines)
    inner = said("i", "s", used(0, MANY), "claude-haiku-4-5", isSidechain=True, agentId="one")
    asked = user("h", None, isSidechain=True, agentId="one")
    beside = file.with_suffix("") / "subagents" / "agent-one.jsonl"
    written(beside, [asked, {**inner, "parentUuid": "h"}])
    costs = [round(cost.dollars, 6) for cost in turns_of(file)]
    assert sorted(costs) == [0.5, 0.5, 0.625]
    assert all(cost.reported == cost.unpriced == 0 for cost in turns_of(file))


def test_what_is_reported_for_the_session_is_of_no_turn(tmp_path: Path) -> None:
    state = {"type": "cost-state", "modelUsage": {"claude-opus-4-6": {"costUSD": 12.5}}}
    file = claude_code_home(tmp_path, [*CLAUDE_CODE["an advisor"], state])
    assert sum(cost.dollars for cost in turns_of(file)) == pytest.approx(0.1755)


def test_what_is_reported_for_an_answer_is_of_its_turn(tmp_path: Path) -> None:
    file = claude_code_home(tmp_path, CLAUDE_CODE["a cost beside the answer"])
    found = turns_of(file)
    assert sum(cost.reported for cost in found) == 0.75
    assert sum(cost.listed for cost in found) == 0
