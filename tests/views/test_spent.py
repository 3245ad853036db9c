"""What each answer spent: when, on which model, and whether its cost is reported elsewhere."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, import_session
from sessiontree.core.usage import Spent, Usage
from sessiontree.views.costs import load, spending, unreported, with_covered
from tests.agents.test_bad_input import LOGS
from tests.support.spent import CLAUDE_CODE, CODEX, claude_code_home, codex_home
from tests.support.table import for_each
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
        return with_covered(spending(session.cursor))


def test_a_cost_that_claude_code_reports_covers_the_answers_before_it(tmp_path: Path) -> None:
    lines = [
        user("a", None),
        answered("b", "a", "m1", 1, "opus-20260101"),
        answered("c", "b", "m1", 2, "opus-20260101"),
        cost_state(opus=0.25),
        answered("d", "c", "m2", 3, "opus-20260101"),
        answered("e", "d", "m3", 4, "haiku"),
    ]
    found = spent_in(written(tmp_path / "s.jsonl", lines))
    (report,), answers = (
        [each for each in found if each.is_report == is_report] for is_report in (True, False)
    )
    assert (report.is_report, report.usage) == (True, Usage(cost=0.25))
    assert report.name == "opus-20260101"
    assert report.moment == datetime(2026, 2, 10, 21, 11, 1, tzinfo=UTC)
    assert [each.answer for each in answers] == ["m1", "m2", "m3"]
    assert [each.moment.second for each in answers if each.moment] == [1, 3, 4]
    assert [each.needs_price for each in answers] == [False, True, True]


def test_the_cost_of_a_recorded_turn_covers_its_answers(session: Session) -> None:
    answer = {"role": "assistant", "content": "x", "model": "m[1m]", "usage": TOKENS}
    session.append_message({**answer, "id": "r1"})
    session.append("usage", kind="result", provider=None, model="m", usage={"cost": 0.5})
    time.sleep(0.002)
    session.append_message({**answer, "id": "r2"})
    assert [each.needs_price for each in with_covered(spending(session.cursor))] == [
        False,
        False,
        True,
    ]


def test_the_work_of_the_turns_adds_up_to_the_usage_of_the_session(session: Session) -> None:
    session.append_message({"role": "user", "content": "go"})
    advised = [{"type": "advisor_message", "model": "m", "input_tokens": 7}]
    answer = {"role": "assistant", "content": "x", "model": "m"}
    session.append_message({**answer, "id": "r1", "usage": {**TOKENS, "iterations": advised}})
    usage = {**TOKENS, "iterations": advised}
    session.append("usage", kind="other", provider=None, model="m", usage=usage)
    (turn,) = session.outline().turns
    assert turn.work.usage == session.stats().usage == Usage(input=34, output=10)


def test_a_recorded_turn_without_a_cost_covers_nothing(session: Session) -> None:
    answer = {"role": "assistant", "content": "x", "model": "m", "usage": TOKENS}
    session.append_message(answer)
    session.append("usage", kind="result", provider=None, model="m", usage={"output": 1, "cost": 0})
    assert [each.needs_price for each in with_covered(spending(session.cursor))] == [True, True]


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
    assert spending(session.cursor)[0].needs_price == needs_price


@for_each(
    ("case", "tokens", "dollars"),
    [
        # ten thousand new tokens and what the last line of each answer wrote
        ("an answer in several lines", (10_005, 507, 11, 13), 0.06278675),
        # what an answer wrote only grows, so a smaller number is of an earlier moment
        ("a last line with fewer tokens", (10_000, 500, 0, 0), 0.0625),
        # 60,000 tokens at $10, 140,000 at $6.25 a million
        ("a cache for an hour", (20, 20, 40, 200_000), 1.47562),
        # at twice, once, six times and twice the usual price
        ("fast mode", (40_000, 40_000, 0, 0), 3.3),
        ("a message of the program itself", (10_000, 10_000, 0, 0), 0.3),
        # of Opus 4.6, and once of the advisor, whose tokens those of the answer do not include
        ("an advisor", (30_000, 1_010, 500, 0), 0.1755),
        # as reported, once for each answer
        ("a cost beside the answer", (20_000, 20_000, 0, 0), 0.75),
        # Amazon's price in a region
        ("the names of Amazon", (10_000, 10_000, 0, 0), 0.33),
        ("several models", (30_000, 30_000, 0, 0), 0.48),
    ],
)
def test_what_an_answer_of_claude_code_used_and_cost(
    case: str, tokens: tuple[int, ...], dollars: float, tmp_path: Path
) -> None:
    file = claude_code_home(tmp_path, CLAUDE_CODE[case])
    assert _sums(spent_in(file)) == (tokens, dollars)


@for_each(
    ("case", "tokens", "dollars"),
    [
        ("requests", (12_000, 2_000, 8_000, 0), 0.062),
        ("a count told twice", (6_000, 1_000, 4_000, 0), 0.031),
        ("another model", (12_000, 2_000, 8_000, 0), 0.0562),
        # the second of three requests at twice the usual price
        ("a tier of service", (18_000, 3_000, 12_000, 0), 0.124),
    ],
)
def test_what_a_request_of_codex_used_and_cost(
    case: str, tokens: tuple[int, ...], dollars: float, tmp_path: Path
) -> None:
    file = codex_home(tmp_path, CODEX[case])
    assert _sums(spent_in(file)) == (tokens, dollars)


def test_at_list_prices_no_reported_cost_counts(tmp_path: Path) -> None:
    file = claude_code_home(tmp_path, CLAUDE_CODE["a cost beside the answer"])
    assert _sums(unreported(spent_in(file))) == ((20_000, 20_000, 0, 0), 0.6)


def test_an_import_costs_what_its_original_does(tmp_path: Path) -> None:
    for case, lines in CLAUDE_CODE.items():
        file = claude_code_home(tmp_path / case, lines)
        made = import_session(file, tmp_path / f"{case} imported").file
        assert _sums(spent_in(Path(made))) == _sums(spent_in(file)), case


def _sums(found: list[Spent]) -> tuple[tuple[int, ...], float]:
    """The tokens, and the cost as reported or at list prices."""
    prices = load()
    assert prices is not None
    used = sum((spent.usage for spent in found), Usage())
    listed = [prices.of(spent) for spent in found if spent.needs_price]
    assert None not in listed
    tokens = used.input, used.output, used.cache_read, used.cache_write
    return tokens, round(used.cost + sum(price or 0.0 for price in listed), 9)


def answer(output: int, **more: Any) -> dict[str, Any]:
    usage = {"input": 10, "output": output, "cost": {"total": 0.01}}
    return {"role": "assistant", "content": "x", "usage": usage, **more}


def test_all_branches_lanes_summaries_and_usage_entries_count(file: Path) -> None:
    with Session.create(file) as session:
        user = session.append_message({"role": "user", "content": "Do it"})
        session.append_message(answer(1, model="m", provider="p"))
        session.branch(user)
        session.append_message(answer(2, model="m", provider="p"))
        session.append("usage", kind="title", provider="p", model="n", usage={"output": 4})
        session.append("message_end", messageUuid="x", role="assistant", usage={"output": 8})
        session.append("custom", customType="c", data={"usage": {"output": 1000}})
    with Session.open(file, lane="agent-2") as other:
        other.append_message(answer(16))
    with Session.open(file, readonly=True) as session:
        found = session.stats()
    assert found.entries == 9
    assert found.types["message"] == 4
    assert found.branches == 3
    assert found.lanes == {"main": 8, "agent-2": 1}
    assert found.file_bytes == file.stat().st_size
    assert found.usage == Usage(30, 1 + 2 + 4 + 8 + 16, cost=0.03)
    assert found.models == {"p/m": Usage(20, 3, cost=0.02), "p/n": Usage(output=4)}


def test_an_answer_that_stands_in_several_entries_is_counted_once(session: Session) -> None:
    for output in (1, 5):
        session.append_message(answer(output, id="msg_1"))
    assert session.stats().usage.output == 5


def test_the_bytes_in_blobs_are_told_and_no_blob_is_read(file: Path) -> None:
    with Session.create(file, spill_over=100) as session:
        for text in ("a" * 1000, "b" * 500, "a" * 1000):
            session.append_message({"role": "user", "content": text})
        found = session.stats()
        assert (found.blobs, found.blob_bytes, found.lost_blobs) == (2, 1500, 0)
        shutil.rmtree(f"{file}.blobs")
        assert session.stats().blobs == 0
        assert session.stats().as_dict()["lostBlobs"] == 2


@for_each("made", LOGS)
def test_the_bytes_of_another_agents_file_are_those_on_the_disk(
    made: Callable[[Path], Path], tmp_path: Path
) -> None:
    file = made(tmp_path / "s.jsonl")
    with Session.open(file, readonly=True) as session:
        assert session.stats().file_bytes == file.stat().st_size


def test_an_answer_is_counted_whatever_its_line_says_of_spilled_strings(file: Path) -> None:
    with Session.create(file) as session:
        session.append_message(answer(4))
    line = file.read_bytes().replace(b',"crc":', b',"spilled":[1],"crc":')
    file.write_bytes(line)
    with Session.open(file, readonly=True) as session:
        assert session.stats().usage.output == 4
