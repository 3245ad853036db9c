"""The simulation of a day plays against real servers, and the same seed draws the same day."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.day import SHAPES, Day, calls_of, demand_of
from tests.places import servers
from tests.places.server import check_installed

ROOT = Path(__file__).parents[2]


def test_the_same_seed_draws_the_same_day_and_another_one_draws_another() -> None:
    day = Day(agents=20)
    assert demand_of(day, 7) == demand_of(day, 7) != demand_of(day, 8)


def test_an_agent_makes_its_calls_in_order_and_ends_each_turn_with_an_answer() -> None:
    for agent in range(50):
        calls = list(calls_of(Day(), 1, agent))
        assert [call.kind for call in calls][:2] == ["start", "prompt"]
        assert calls[-1].kind == "answer"
        assert sorted(call.at for call in calls) == [call.at for call in calls]


def test_the_tables_of_what_was_measured_grow() -> None:
    for shape in SHAPES.values():
        assert all(list(table) == sorted(table) for table in shape)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["postgres", pytest.param("moto", marks=pytest.mark.soak)])
def test_a_small_day_loses_nothing(place: str) -> None:
    if place == "postgres":
        check_installed()
    elif not servers.has_moto():
        pytest.skip(servers.NO_MOTO)
    size = ["--agents", "12", "--every", "3", "--seconds", "1", "--threads", "2"]
    command = [sys.executable, "-m", "benchmarks.simulation", place, *size]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=600)
    assert done.returncode == 0, done.stderr
    assert "none lost, none twice" in done.stdout
    assert "times the busiest minute" in done.stdout
