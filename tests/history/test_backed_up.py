"""A copy of a session changes nothing of what is told of files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.history.project import Project, play
from tests.support.soak import in_soak
from tests.support.terminal import printed_json

SEED = 5
COMMANDS = ("blame", "history", "recover")

pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project, whose sessions are the user's."""
    played = play(SEED, tmp_path)
    for name, value in played.environ.items():
        monkeypatch.setenv(name, value)
    return played


def told(project: Project, every: int) -> dict[str, list[dict[str, Any]]]:
    """What is told of files, and the content of the last state of each."""
    made = {}
    for name in sorted(project.files)[::every]:
        file = project.root / name
        for command in COMMANDS:
            made[f"{command} {name}"] = printed_json(command, file)
        for state in made[f"recover {name}"][-1:]:
            made[f"content {name}"] = [printed_json("recover", file, "--at", state["uuid"])]
    return made


@in_soak("every", 3, 1)
def test_a_backup_changes_nothing_that_is_told_of_a_file(project: Project, every: int) -> None:
    before = told(project, every)
    kept = printed_json("backup")
    assert kept["new"]
    assert not kept["failed"]
    assert told(project, every) == before


def test_a_backup_tells_who_wrote_a_line_when_the_agents_sessions_are_gone(
    project: Project,
) -> None:
    def writers() -> dict[str, list[Any]]:
        return {
            name: [
                (row["agent"], row["session"], row["call"], row["prompt"])
                for row in printed_json("blame", project.root / name)
            ]
            for name in sorted(project.files)
        }

    before = writers()
    printed_json("backup")
    for file in project.paths.values():
        shutil.rmtree(file.with_suffix(""), ignore_errors=True)  # its subagents
        file.unlink()
    after = writers()
    assert {name: rows for name, rows in after.items() if rows != before[name]} == {}


@in_soak("targets, every", (1, 3), (3, 1))
def test_a_session_that_goes_on_in_another_agent_is_told_once(
    project: Project, targets: int, every: int
) -> None:
    before = told(project, every)
    for number, (id, agent) in enumerate(project.sessions.items()):
        others = {"claude-code", "codex", "gemini", "pi"} - {agent.name}
        for other in (sorted(others) * 2)[number % 3 :][:targets]:
            printed_json("resume", id, "--in", other)
    assert told(project, every) == before
