"""The play that blame is held against is true itself."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from sessiontree import Session
from sessiontree.core.message import calls_of, result_ids
from tests.history.lines import bytes_of
from tests.history.project import COMMITS, Project, play
from tests.support.terminal import printed_json

SEEDS = (1, 2)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=SEEDS)
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Project:
    return play(request.param, tmp_path_factory.mktemp("play"))


@pytest.fixture
def at_home(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The project, whose sessions are the user's."""
    for name, value in project.environ.items():
        monkeypatch.setenv(name, value)
    return project


def in_git(project: Project, sha: str) -> dict[str, bytes]:
    """The content of each file of a commit."""
    command = ["git", "-c", "core.autocrlf=false", "ls-tree", "-rz", "--name-only", sha]
    listed = subprocess.run(command, cwd=project.root, capture_output=True, check=True).stdout
    paths = listed.decode().split("\0")[:-1]
    asked = "".join(f"{sha}:{path}\n" for path in paths).encode()
    command = ["git", "cat-file", "--batch"]
    output = subprocess.run(
        command, cwd=project.root, input=asked, capture_output=True, check=True
    ).stdout
    contents = {}
    for path in paths:
        first, _, output = output.partition(b"\n")
        size = int(first.split()[-1])
        contents[path], output = output[:size], output[size + 1 :]
    return contents


def test_everything_that_is_to_happen_happens(project: Project) -> None:
    assert project.missed == []
    assert len(project.commits) >= COMMITS
    hows = {line.writer.how for lines in project.files.values() for line in lines if line.writer}
    assert len(hows) > 6
    agents = {agent.name for agent in project.sessions.values()}
    assert agents == {"claude-code", "codex", "gemini", "pi"}


def test_the_true_lines_are_those_of_each_commit_and_of_the_disk(project: Project) -> None:
    for commit in project.commits:
        truth = {path: bytes_of(lines) for path, lines in commit.after.items()}
        assert in_git(project, commit.sha) == truth
    for path, lines in project.files.items():
        assert (project.root / path).read_bytes() == bytes_of(lines)


def test_the_same_seed_plays_the_same_project(tmp_path: Path) -> None:
    once, again = play(3, tmp_path / "a/x"), play(3, tmp_path / "b/x")
    assert [*once.files] == [*again.files]
    assert [*map(bytes_of, once.files.values())] == [*map(bytes_of, again.files.values())]
    assert [commit.sha for commit in once.commits] == [commit.sha for commit in again.commits]
    assert [*once.sessions] == [*again.sessions]


def test_the_sessions_are_listed_and_have_no_damage(at_home: Project) -> None:
    listed = {row["id"]: row["agent"] for row in printed_json("ls")}
    assert listed == {id: agent.name for id, agent in at_home.sessions.items()}
    for file in at_home.paths.values():
        assert printed_json("verify", file) == []
        assert printed_json("tree", file)


def test_the_sessions_have_all_calls_and_their_results(at_home: Project) -> None:
    unanswered = 0
    for id, file in at_home.paths.items():
        with Session.open(file, readonly=True) as session:
            bodies = [entry.body for entry in session.entries()]
        messages = [body["message"] for body in bodies if body.get("message")]
        calls = [call.id for message in messages for call in calls_of(message)]
        answered = {result for message in messages for result in result_ids(message)}
        assert sorted(calls) == sorted(at_home.sessions[id].calls)
        unanswered += len({*calls} - answered)
    assert unanswered <= 2


def test_a_call_that_writes_a_line_is_in_its_session(project: Project) -> None:
    for lines in project.files.values():
        for line in lines:
            if line.writer is not None:
                session = project.sessions[line.writer.session]
                assert line.writer.call in session.calls
                assert line.writer.agent == session.name
                text = project.paths[session.id].read_text()
                assert json.dumps(line.writer.prompts[0])[1:-1] in text


def test_the_environment_names_no_home_of_the_user(project: Project) -> None:
    homes = project.root.parent.parent / "homes"
    for value in project.environ.values():
        assert value.startswith(str(homes))
        assert os.path.realpath(value) == value
