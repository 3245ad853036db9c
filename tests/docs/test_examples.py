"""The documents say what the code does: their commands and code run here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Registry, agents
from sessiontree.cli import COMMANDS
from tests.docs.examples import Part, normalized, parts, play, prepare
from tests.docs.models import answer_from_lists

PARTS = parts()


def _named(part: Part) -> str:
    return part.name


@pytest.mark.slow
@pytest.mark.parametrize("part", [part for part in PARTS if part.console], ids=_named)
def test_the_terminal_prints_what_the_page_shows(part: Part, tmp_path: Path) -> None:
    prepare(part, tmp_path)
    for shown in part.console:
        assert normalized(play(shown, tmp_path)) == normalized(shown)


def _with_python() -> list[Any]:
    """The parts with Python code; one that imports a provider's package is slow."""
    slow = [pytest.mark.slow]
    return [
        pytest.param(part, marks=slow if "client" in part.python else [], id=part.name)
        for part in PARTS
        if part.python
    ]


@pytest.mark.slow
@pytest.mark.parametrize("part", _with_python())
def test_the_code_of_a_page_runs_and_prints_what_its_comments_say(
    part: Part,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Registry, "_default", None)  # what the code registers stays in here
    monkeypatch.setattr(agents, "AGENTS", agents.AGENTS)
    answer_from_lists(part.python, monkeypatch)
    Path("notes.md").write_text("Be quick.\nUse Rust.\n")
    exec(compile(part.python, part.name, "exec", dont_inherit=True), {"__name__": "__main__"})
    promised = re.findall(r"^ *print\(.*\)  # (.+)$", part.python, re.MULTILINE)
    printed = iter(capsys.readouterr().out.splitlines())
    assert promised
    assert [line for line in promised if line not in printed] == []  # all, and in this order


def test_the_examples_show_every_command_at_work() -> None:
    shown = "".join(part.text for part in PARTS)
    typed = set(re.findall(r"\bsessiontree ([a-z-]+)", shown))
    assert set(COMMANDS) - typed == set()
