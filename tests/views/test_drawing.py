"""The drawing of `sessiontree tree`, and what a session cost, are there in Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sessiontree import Session
from tests.support.conversation import assistant, user


def test_the_drawing_is_what_the_command_prints(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with Session.create(file, cwd="/project", durability="os") as session:
        first = session.append_message(user("Build a CLI"))
        session.append_message(assistant("In Rust."))
        session.branch(first, name="again")
        session.append_message(assistant("In Python, with a text that is too long " * 5))
        lines = list(session.outline().render(100))
    command = [sys.executable, "-m", "sessiontree", "tree", str(file)]
    printed = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "100"}
    )
    assert printed.stdout.splitlines() == lines
    assert any("Build a CLI" in line for line in lines)


def test_a_narrow_drawing_fits() -> None:
    with Session.create(cwd="/project") as session:
        session.append_message(user("word " * 100))
        assert max(map(len, session.outline().render(48))) <= 48


def test_reported_and_estimated_costs_are_apart() -> None:
    pytest.importorskip("genai_prices")
    usage = {"input_tokens": 1_000_000, "output_tokens": 0}
    with Session.create() as session:
        assert session.stats().cost == (0, 0, 0)
        session.append_usage({**usage, "cost": 0.5}, provider="anthropic", model="claude-opus-4-6")
        assert session.stats().cost == (0.5, 0, 0)
        session.append_usage(usage, provider="anthropic", model="claude-opus-4-6")
        session.append_usage(usage, model="a model of nobody")
        cost = session.stats().cost
    assert (cost.reported, cost.unpriced) == (0.5, 1)
    assert cost.estimated > 0
    assert cost.dollars == cost.reported + cost.estimated
