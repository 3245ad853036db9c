"""What many sessions cost: rows by day, project, model and agent; nothing counts twice."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from sessiontree import Session, import_session
from sessiontree.core.usage import Usage
from sessiontree.library.counts import By, CountCache
from sessiontree.library.listing import SessionInfo, facts_of
from sessiontree.library.spending import CountedSession, Spending, spending_of, totals_of
from sessiontree.views.costs import Prices
from tests.agents import test_codex
from tests.support.sessions import chat
from tests.support.spent import CLAUDE_CODE, claude_code_home
from tests.support.table import for_each
from tests.support.terminal import utc
from tests.support.transcripts import user, written
from tests.views.test_spent import answered, cost_state

AGENTS = Path(__file__).parents[2] / "fixtures" / "agents"


def cheap(usage: dict[str, int], model: str, **about: Any) -> Any:
    """A dollar for each token written; models named `odd` have no price."""
    if model == "odd":
        raise LookupError(model)
    price = SimpleNamespace(output=1)
    return SimpleNamespace(total_price=usage.get("output_tokens", 0), model_price=price)


PRICES = Prices(cheap, dict, "test")


@pytest.fixture(autouse=True)
def times_of_utc() -> Iterator[None]:
    with utc():
        yield


def source(
    file: str | os.PathLike[str], agent: str = "one", project: str | None = "/p"
) -> SessionInfo:
    return replace(facts_of(os.fspath(file)), made_by=agent, cwd=project)


def spent(
    *sources: SessionInfo,
    by: By = "model",
    report: Callable[[str], Any] = pytest.fail,
    prices: Prices | None = PRICES,
    **how: Any,
) -> Spending:
    return spending_of(counts_of(*sources), by, prices, report, **how)


def counts_of(*sources: SessionInfo) -> Iterator[CountedSession]:
    return CountCache(None).counted(sources, None)


def answer(model: str, output: int, **usage: Any) -> dict[str, Any]:
    told = {"output": output, **usage}
    return {"role": "assistant", "content": "x", "model": model, "usage": told}


def test_reported_and_estimated_costs_are_kept_apart(tmp_path: Path) -> None:
    answers = [answer("a", 1, cost=0.5), answer("a", 2), answer("odd", 4), answer("", 8)]
    found = spent(source(chat(tmp_path / "s.jsonl", *answers)))
    costs = {name: row.as_dict()["cost"] for name, row in found.rows.items()}
    assert costs == {
        "a": {"reported": 0.5, "estimated": 2.0, "unpricedAnswers": 0},
        None: {"reported": 0.0, "estimated": 0.0, "unpricedAnswers": 1},
        "odd": {"reported": 0.0, "estimated": 0.0, "unpricedAnswers": 1},
    }
    assert found.total.as_dict()["cost"] == {
        "reported": 0.5,
        "estimated": 2.0,
        "unpricedAnswers": 2,
    }
    assert found.unpriced == {"odd": 1, None: 1}


@for_each(
    ("by", "names"),
    [
        ("day", ["2026-02-10"]),
        ("week", ["2026-02-09"]),
        ("month", ["2026-02"]),
        ("block", ["2026-02-10 21:00"]),
        ("project", ["/p", None]),
        ("model", ["a", "b"]),
        ("agent", ["one", "two"]),
    ],
)
def test_rows_are_of_what_is_asked_for(tmp_path: Path, by: By, names: list[str | None]) -> None:
    files = [
        written(tmp_path / f"{name}.jsonl", [user("u", None), answered(name, "u", name, 1, name)])
        for name in ("a", "b")
    ]
    other = replace(source(files[1], "two", None), id="other")
    found = spent(source(files[0]), other, by=by)
    assert list(found.rows) == names
    assert sum(row.sessions for row in found.rows.values()) == 2
    assert (found.total.sessions, found.total.answers, found.total.estimated) == (2, 2, 10.0)


def test_the_day_is_that_of_the_answer_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path / "s.jsonl", [user("u", None), answered("a", "u", "m", 1, "a")])
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    assert list(spent(source(file), by="day").rows) == ["2026-02-11"]


def test_answers_of_the_agents_count_once_in_forks_and_imports(tmp_path: Path) -> None:
    kinds = {"claude_code": "*/*.jsonl", "codex": "**/rollout-*", "gemini": "**/session-*"}
    kinds |= {"pi": "*/*.jsonl"}
    files = [source(f, kind) for kind, name in kinds.items() for f in (AGENTS / kind).glob(name)]
    imports = [source(import_session(one.file, str(tmp_path)).file, "import") for one in files]
    found = spent(*files, *imports, by="agent")
    assert {
        name: (row.usage.input, row.usage.output, row.usage.cache_read, row.answers)
        for name, row in found.rows.items()
    } == {
        "claude_code": (110, 55, 0, 11),  # as its own last report of each model has it
        "codex": (160, 80, 0, 8),  # eight requests in three threads that share history
        "gemini": (65, 35, 15, 5),  # thoughts are output, what is cached is not input
        "pi": (91, 39, 26, 13),
    }
    assert found.rows["claude_code"].as_dict()["cost"] == {
        "reported": 0.002065,
        "estimated": 0.0,
        "unpricedAnswers": 0,
    }
    assert found.rows["pi"].as_dict()["cost"] == {
        "reported": 3.9,
        "estimated": 0.0,
        "unpricedAnswers": 0,
    }
    assert found.copies
    every, agents = totals_of(counts_of(*files, *imports), PRICES)
    assert (every.usage.as_dict(), every.copies) == (found.total.usage.as_dict(), found.copies)
    rows = {name: row.usage.as_dict() for name, row in found.rows.items()}
    assert {name: agents[str(name)].usage.as_dict() for name in rows} == rows


@pytest.mark.parametrize("order", [1, -1])
def test_a_copy_without_the_report_of_its_cost_is_not_priced(tmp_path: Path, order: int) -> None:
    lines = [user("u", None), answered("a", "u", "m1", 1, "a"), answered("b", "a", "m2", 2, "odd")]
    states = [cost_state(a=0.25, odd=0.5)]
    files = [written(tmp_path / "copy.jsonl", lines), written(tmp_path / "s.jsonl", lines + states)]
    found = spent(*map(source, files[::order]))
    assert (found.total.usage.cost, found.total.estimated, found.total.unpriced) == (0.75, 0.0, 0)
    assert (found.total.usage.output, found.copies, dict(found.unpriced)) == (10, 2, {})


def test_a_damaged_session_is_reported_and_all_else_counts(tmp_path: Path) -> None:
    torn = chat(tmp_path / "torn.jsonl", answer("a", 1))
    with torn.open("ab") as file:
        file.write(b'{"type":"message","uu')
    broken = chat(tmp_path / "broken.jsonl", answer("a", 4))
    broken.write_bytes(broken.read_bytes().replace(b'"role":', b'"role"') + b"\n")
    gone = source(chat(tmp_path / "gone.jsonl", answer("a", 8)))
    Path(gone.file).unlink()
    problems: list[str] = []
    sources = [
        source(torn),
        source(broken),
        gone,
        source(chat(tmp_path / "s.jsonl", answer("a", 2))),
    ]
    found = spent(*sources, report=problems.append)
    assert found.total.usage.output == 3
    named = [problem.partition(str(tmp_path))[2].partition(".jsonl")[0] for problem in problems]
    assert named == ["/torn", "/broken", "/gone"]


def test_what_was_spent_before_does_not_count(tmp_path: Path) -> None:
    lines = [user("u", None), answered("a", "u", "m1", 1, "a"), answered("b", "a", "m2", 3, "a")]
    since = datetime(2026, 2, 10, 21, 11, 2, tzinfo=UTC)
    found = spent(source(written(tmp_path / "s.jsonl", lines)), since=since)
    assert found.total.answers == 1


def test_without_prices_what_is_reported_is_served(tmp_path: Path) -> None:
    file = chat(tmp_path / "s.jsonl", answer("a", 1, cost=0.5), answer("a", 2))
    found = spent(source(file), prices=None)
    assert (found.total.usage.cost, found.total.estimated, found.unpriced) == (0.5, 0, {"a": 1})


def test_a_fork_costs_nothing_again(tmp_path: Path) -> None:
    file = chat(tmp_path / "s.jsonl", "do it", answer("a", 2))
    with Session.open(file) as session:
        session.append_usage({"output": 4}, model="a")
        session.fork(tmp_path / "fork.jsonl")
    found = spent(source(file), source(tmp_path / "fork.jsonl"))
    assert (found.total.estimated, found.total.sessions, found.copies) == (6.0, 1, 2)
    every, _ = totals_of(counts_of(source(file), source(tmp_path / "fork.jsonl")), PRICES)
    assert (every.usage, every.copies, every.sessions) == (found.total.usage, 2, 2)


def test_answers_with_ids_of_their_own_are_no_copies(tmp_path: Path) -> None:
    files = [
        written(
            tmp_path / f"{number}.jsonl",
            [user("a", None), answered(f"b{number}", "a", f"m{number}", 1, "opus")],
        )
        for number in (1, 2)
    ]
    found = spent(*map(source, files))
    assert (found.total.usage, found.copies) == (Usage(20, 10), 0)


def test_a_fork_of_codex_repeats_the_counts_of_its_parent_for_nothing(tmp_path: Path) -> None:
    count = {"last_token_usage": {"input_tokens": 7}, "total_token_usage": {"input_tokens": 7}}
    files = [
        test_codex.written(
            tmp_path / f"{id}.jsonl",
            test_codex.line("session_meta", **{**test_codex.META, "id": id}),
            test_codex.line("event_msg", type="token_count", info=count),
        )
        for id in ("parent", "fork")
    ]
    found = spent(*map(source, files), report=lambda problem: None)
    assert (found.total.usage, found.copies) == (Usage(7), 1)


def test_a_block_is_five_hours_from_the_hour_of_its_first_answer(tmp_path: Path) -> None:
    times = ["08:59:00", "12:00:00", "13:01:00", "18:30:00", "23:59:00"]
    lines = [
        answered(f"a{n}", "u", f"m{n}", 1, "a") | {"timestamp": f"2026-02-10T{time}.000Z"}
        for n, time in enumerate(times)
    ]
    found = spent(source(written(tmp_path / "s.jsonl", [user("u", None), *lines])), by="block")
    assert {name: row.answers for name, row in found.rows.items()} == {
        "2026-02-10 08:00": 2,
        "2026-02-10 13:00": 1,
        "2026-02-10 18:00": 1,
        "2026-02-10 23:00": 1,
    }


def test_what_a_subagent_says_of_its_progress_counts_once_wherever_it_is_read(
    tmp_path: Path,
) -> None:
    file = claude_code_home(tmp_path, CLAUDE_CODE["the progress of a subagent"])
    kept = import_session(file, tmp_path / "kept.jsonl").file
    for each in (file, Path(kept)):
        made = spent(source(each))
        assert {name: row.answers for name, row in made.rows.items()} == {
            "claude-opus-4-6": 1,
            "claude-haiku-4-5-20251001": 2,
        }
        with Session.open(each, readonly=True) as session:
            assert session.stats().usage == made.total.usage == Usage(20_005, 10_010, 11, 13)
