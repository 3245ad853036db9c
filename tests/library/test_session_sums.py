"""An agent's sum of the tokens of a session: each command has it, and it counts once.

Droid keeps it in a file beside the session, which it rewrites while the session stays as it is.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from sessiontree.core.usage import Spent, Usage
from sessiontree.views.costs import load
from tests.support.droid import ID, MODEL, DroidSession
from tests.support.homes import empty_home, settle
from tests.support.terminal import done, run


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return empty_home(tmp_path, monkeypatch)


Tokens = tuple[int, int, int, int]


def tokens(usage: dict[str, int]) -> Tokens:
    return usage["input"], usage["output"], usage["cacheRead"], usage["cacheWrite"]


def price_of(used: Tokens) -> float:
    prices = load()
    assert prices is not None
    price = prices.of(Spent(time=0, model=MODEL, usage=Usage(*used)))
    assert price is not None
    return price


def check(*expected: Tokens, ids: tuple[str, ...] = (ID,)) -> None:
    """All commands have these sums of the sessions with these ids, and their price."""
    rows = {row["id"]: row for row in json.loads(done("ls", "--json"))}
    assert sorted(rows) == sorted(ids)
    for id, used in zip(ids, expected, strict=True):
        assert tokens(rows[id]["usage"]) == used
        assert (rows[id]["cost"], rows[id]["estimated"]) == (None, pytest.approx(price_of(used)))
        assert tokens(json.loads(done("stats", id, "--json"))["usage"]) == used
        shown = done("show", id)
        assert f"{used[0]:,} in, {used[1]:,} out" in shown
        assert f"~${price_of(used):.2f} at list prices\n" in shown
    every = tuple(map(sum, zip(*expected, strict=True)))
    found = [json.loads(done("stats", "--json"))]
    found += [json.loads(done("stats", "--by", by, "--json")) for by in ("model", "day", "block")]
    assert [tokens(each["usage"]) for each in found] == [every] * 4
    for each in found:
        assert each["cost"]["estimated"] == pytest.approx(sum(map(price_of, expected)))


def test_the_last_sum_counts_wherever_the_session_is(top: Path) -> None:
    one = DroidSession(top)
    one.sum_up(4_000, 690, 20_000, 500, 10)
    check((4_000, 700, 20_000, 500))
    done("backup")
    check((4_000, 700, 20_000, 500))
    one.sum_up(5_000, 990, 30_000, 500, 10)  # the session itself stays as it is
    check((5_000, 1_000, 30_000, 500))
    done("backup")
    check((5_000, 1_000, 30_000, 500))
    one.go_on()
    one.sum_up(6_000, 1_990, 40_000, 600, 10)
    check((6_000, 2_000, 40_000, 600))
    done("backup")
    before = done("ls", "--json"), done("stats", "--json")
    assert json.loads(done("backup", "--json"))["unchanged"] == 1
    assert (done("ls", "--json"), done("stats", "--json")) == before
    check((6_000, 2_000, 40_000, 600))
    one.file.unlink()
    one.settings.unlink()
    check((6_000, 2_000, 40_000, 600))
    assert "2 prompts" in done("tree", ID)


def test_each_session_has_a_sum_of_its_own(top: Path) -> None:
    other = f"{ID[:-1]}2"
    DroidSession(top).sum_up(4_000, 700)
    DroidSession(top, other, parent=ID).sum_up(4_000, 700)
    check((4_000, 700, 0, 0), (4_000, 700, 0, 0), ids=(ID, other))
    done("backup")
    check((4_000, 700, 0, 0), (4_000, 700, 0, 0), ids=(ID, other))


def test_an_import_by_hand_has_the_sum(top: Path) -> None:
    one = DroidSession(top)
    one.sum_up(4_000, 700)
    done("import", one.file)
    one.sum_up(5_000, 800)
    done("import", one.file)
    check((5_000, 800, 0, 0))


def test_a_session_without_settings_has_no_tokens_until_they_are_there(top: Path) -> None:
    one = DroidSession(top)
    (row,) = json.loads(done("ls", "--json"))
    assert tokens(row["usage"]) == (0, 0, 0, 0)
    one.sum_up(0, 0)
    assert json.loads(done("stats", "--by", "day", "--json"))["answers"] == 0
    one.sum_up(4_000, 700)
    check((4_000, 700, 0, 0))


def test_settings_that_are_no_object_are_named(top: Path) -> None:
    one = DroidSession(top)
    one.settings.write_text("[1")
    settle(one.settings)
    (row,) = json.loads(done("ls", "--json"))
    assert (row["turns"], tokens(row["usage"])) == (1, (0, 0, 0, 0))
    told = run("verify", one.file)
    assert "the settings beside the session are no JSON object" in told.output


def test_the_sum_is_of_no_turn_and_of_the_whole_session(top: Path) -> None:
    one = DroidSession(top)
    one.go_on()
    one.sum_up(4_000_000, 700)
    with Session.open(one.file, readonly=True) as session:
        outline = session.outline()
        assert [turn.work.tokens for turn in outline.turns] == [0, 0]
        assert outline.work.tokens == 4_000_700
        assert session.stats().usage == Usage(4_000_000, 700)
        one.sum_up(4_000_001, 700)
        session.refresh()
        assert session.stats().usage == Usage(4_000_001, 700)


def test_a_sum_is_priced_as_requests_of_a_usual_size() -> None:
    prices = load()
    assert prices is not None
    about: dict[str, Any] = {"model": "claude-sonnet-4-5", "usage": Usage(10_000_000, 10)}
    at = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
    small = prices.of(Spent(time=at, **{**about, "usage": Usage(10_000, 0)}))
    whole = prices.of(Spent(time=at, **about, is_of_session=True))
    assert small is not None
    assert whole == pytest.approx(1000 * small, rel=1e-3)
    assert prices.of(Spent(time=at, **about)) != pytest.approx(whole, rel=1e-3)


def test_a_pipe_in_the_place_of_settings_is_not_waited_for(top: Path) -> None:
    one = DroidSession(top)
    os.mkfifo(one.settings)
    (row,) = json.loads(done("ls", "--json"))
    assert tokens(row["usage"]) == (0, 0, 0, 0)
