"""What came of an edit, and edits whose clock is not that of the commits."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sessiontree.library.file_history import blame, history
from tests.support.terminal import run
from tests.support.transcripts import line, user, written

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected."


class Project:
    """A file in a git repository, and a session of Claude Code that edits it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "app"
        self.folder.mkdir()
        self.file = self.folder / "a.py"
        self.session = folder / "session.jsonl"
        self._lines: list[dict[str, Any]] = []
        self._git("init", "-q")
        self.file.write_text("one\n")
        self.commit(0)

    def commit(self, minute: int) -> None:
        at = (START + timedelta(minutes=minute)).isoformat()
        self._git("add", "a.py", at=at)
        self._git("commit", "-q", "-m", f"minute {minute}", at=at)

    def _git(self, *words: str, at: str = "") -> None:
        who = {"NAME": "Ada", "EMAIL": "ada@example.org", "DATE": at}
        known = {f"GIT_{role}_{key}": who[key] for role in ("AUTHOR", "COMMITTER") for key in who}
        environment = {**os.environ, **known, "GIT_CONFIG_GLOBAL": os.devnull}
        subprocess.run(["git", *words], cwd=self.folder, env=environment, check=True)

    def edit(self, minute: int, old: str, new: str, answer: str | None = "Updated.") -> None:
        """Tell of an edit; it changes the file if its answer does not refuse it."""
        name = f"e{len(self._lines)}"
        swap = {"file_path": str(self.file), "old_string": old, "new_string": new}
        tool = {"type": "tool_use", "id": f"toolu_{name}", "name": "Edit", "input": swap}
        message = {"role": "assistant", "model": "claude", "content": [tool]}
        above = self._lines[-1]["uuid"] if self._lines else None
        time = (START + timedelta(minutes=minute)).isoformat()
        told = [
            user(f"{name}p", above, f"prompt {name}"),
            line(f"{name}c", f"{name}p", "assistant", message=message),
        ]
        if answer is not None:
            block: dict[str, Any] = {
                "type": "tool_result",
                "tool_use_id": f"toolu_{name}",
                "content": answer,
            }
            if answer != "Updated.":
                block["is_error"] = True
            told.append(user(f"{name}r", f"{name}c", [block]))
        self._lines += [{**each, "timestamp": time, "cwd": str(self.folder)} for each in told]
        written(self.session, self._lines)
        if answer == "Updated.":
            self.file.write_text(self.file.read_text().replace(old, new))

    def change(self, old: str, new: str) -> None:
        """Change the file as a person does, whom no session tells of."""
        self.file.write_text(self.file.read_text().replace(old, new))

    def outcomes(self) -> list[str]:
        found = history(str(self.file), lambda: [str(self.session)], pytest.fail)
        return [edit.outcome for edit in found]

    def certainties(self) -> list[str]:
        found = blame(str(self.file), lambda: [str(self.session)], pytest.fail)
        return [each.certainty for each in found]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_an_edit_whose_lines_are_there_is_kept_and_one_written_over_is_replaced(
    project: Project,
) -> None:
    project.edit(1, "one", "first line of all")
    project.edit(2, "first line of all", "second line of all")
    assert project.outcomes() == ["replaced", "kept"]


def test_an_edit_that_was_committed_and_taken_back_is_reverted(project: Project) -> None:
    project.edit(1, "one", "another line of the file")
    project.commit(2)
    project.file.write_text("one\n")
    project.commit(3)
    assert project.outcomes() == ["reverted"]


def test_an_edit_that_no_commit_has_and_that_was_taken_back_is_lost(project: Project) -> None:
    project.edit(1, "one", "another line of the file")
    project.file.write_text("one\n")
    assert project.outcomes() == ["lost"]


def test_an_edit_of_a_file_that_is_gone_is_deleted(project: Project) -> None:
    project.edit(1, "one", "another line of the file")
    project.file.unlink()
    assert project.outcomes() == ["deleted"]


def test_edits_that_changed_nothing_say_why(project: Project) -> None:
    project.edit(1, "nowhere", "another", "String to replace not found in file.")
    project.edit(2, "one", "another", REFUSED)
    project.edit(3, "one", "another", None)
    assert project.outcomes() == ["failed", "refused", "unanswered"]
    assert project.certainties() == ["none"]


@pytest.mark.parametrize("late", [-60, 2, 120])
def test_an_edit_may_be_later_than_its_commit_by_a_clock_that_differs(
    project: Project, late: int
) -> None:
    """The lines that it adds stand there before it, and nobody adds lines twice to one place."""
    more = "a line that is long enough\nand another one behind it\n"
    project.edit(200 + late, "one\n", f"one\n{more}")
    project.commit(200)
    assert project.certainties() == ["none", "exact", "exact"]


MORE = (
    "a line that is long enough",
    "the second line, which is longer",
    "and the third of them all",
)


@pytest.mark.parametrize(
    ("late", "certainties", "outcomes"),
    [
        (5, ["hunk", "hunk", "none", "hunk"], ["kept"]),
        (6, ["none", "none", "none", "none"], ["lost"]),
    ],
)
def test_a_late_edit_is_in_a_commit_that_another_one_changed(
    project: Project, late: int, certainties: list[str], outcomes: list[str]
) -> None:
    """The clocks of a session and of a commit differ by five minutes at most."""
    project.edit(200 + late, "one\n", "\n".join(("two", *MORE)) + "\n")
    project.commit(200)
    project.change(MORE[1], "nobody told of this one")
    project.commit(200)
    assert (project.certainties(), project.outcomes()) == (certainties, outcomes)


def test_late_edits_are_in_a_commit_in_the_order_of_their_times(project: Project) -> None:
    project.edit(203, "one\n", f"two\n{MORE[0]}\n")
    project.edit(204, f"{MORE[0]}\n", f"{MORE[1]}\n{MORE[2]}\n")
    project.commit(200)
    project.change("two", "nobody told of this one")
    project.commit(201)
    assert project.certainties() == ["none", "exact", "exact"]
    assert project.outcomes() == ["lost", "kept"]


def test_a_late_edit_that_explains_nothing_of_a_commit_is_not_in_it(project: Project) -> None:
    project.change("one", "nobody told of this one")
    project.commit(200)
    project.edit(202, "nobody told of this one", MORE[0])
    project.commit(203)
    assert project.certainties() == ["exact"]
    assert project.outcomes() == ["kept"]


def test_a_shallow_clone_says_what_it_lacks(project: Project, tmp_path: Path) -> None:
    project.edit(1, "one", "another line of the file")
    project.commit(2)
    clone = tmp_path / "clone" / "app"
    command = ["git", "clone", "-q", "--depth", "1", project.folder.as_uri(), str(clone)]
    subprocess.run(command, check=True)
    done = run("blame", clone / "a.py", project.session, "--json")
    assert done.exit_code == 0
    assert "git fetch --unshallow" in done.stderr
    assert [each["text"] for each in json.loads(done.stdout)] == ["another line of the file"]
