"""What each answer spent: when, on which model, and whether its cost is reported elsewhere."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from sessiontree.core.usage import Usage
from sessiontree.operations.spending import Spent, costs
from tests.support.transcripts import assistant, user, written

TOKENS = {"input_tokens": 10, "output_tokens": 5}


def answered(uuid: str, parent: str, id: str, second: int, model: str) -> dict[str, Any]:
    line = assistant(uuid, parent, id)
    line["message"] |= {"usage": TOKENS, "model": model}
    return {**line, "timestamp": f"2026-02-10T21:11:{second:02}.000Z"}


def cost_state(**costs: float) -> dict[str, Any]:
    models = {model.replace("_", "-"): {"costUSD": cost} for model, cost in costs.items()}
    return {"type": "cost-state", "modelUsage": models}


def spent_in(file: Path) -> list[Spent]:
    with Session.open(file, readonly=True) as session:
        return costs(session.cursor)


def test_a_cost_that_claude_code_reports_covers_the_answers_before_it(tmp_path: Path) -> None:
    lines = [
        user("a", None),
        answered("b", "a", "m1", 1, "opus-20260101"),
        answered("c", "b", "m1", 2, "opus-20260101"),
        cost_state(opus=0.25),
        answered("d", "c", "m2", 3, "opus-20260101"),
        answered("e", "d", "m3", 4, "haiku"),
    ]
    report, *answers = spent_in(written(tmp_path / "s.jsonl", lines))
    assert (report.is_report, report.usage) == (True, Usage(cost=0.25))
    assert report.name == "opus-20260101"
    assert report.time == datetime(2026, 2, 10, 21, 11, 2, tzinfo=UTC)
    assert [each.key.split()[0] for each in answers] == ["m1", "m2", "m3"]
    assert [each.time.second for each in answers if each.time] == [1, 3, 4]
    assert [each.needs_price for each in answers] == [False, True, True]


def test_the_cost_of_a_recorded_turn_covers_its_answers(session: Session) -> None:
    answer = {"role": "assistant", "content": "x", "model": "m[1m]", "usage": TOKENS}
    session.append_message({**answer, "id": "r1"})
    session.append("usage", kind="result", provider=None, model="m", usage={"cost": 0.5})
    time.sleep(0.002)
    session.append_message({**answer, "id": "r2"})
    assert [each.needs_price for each in costs(session.cursor)] == [False, False, True]


def test_a_recorded_turn_without_a_cost_covers_nothing(session: Session) -> None:
    answer = {"role": "assistant", "content": "x", "model": "m", "usage": TOKENS}
    session.append_message(answer)
    session.append("usage", kind="result", provider=None, model="m", usage={"output": 1, "cost": 0})
    assert [each.needs_price for each in costs(session.cursor)] == [True, True]


@pytest.mark.parametrize(
    ("usage", "needs_price"),
    [
        ({"input": 1, "cost": {"total": 0}}, False),
        ({"input": 1}, True),
        ({"input": 0, "output": 0}, False),
    ],
)
def test_an_answer_needs_a_price_where_nothing_reports_its_cost(
    session: Session, usage: dict[str, Any], needs_price: bool
) -> None:
    session.append_message({"role": "assistant", "content": "x", "usage": usage})
    session.append_usage({"cost": 1.0, "output": 1}, model="m")  # has its own cost alone
    assert costs(session.cursor)[0].needs_price == needs_price
