"""Where each agent looks for the sessions of a directory, and which name a project gets."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from sessiontree.agents import AGENTS
from sessiontree.library.resume import path_for
from sessiontree.storage.fs import DISK
from tests.support.table import for_each
from tests.support.terminal import contents

BY_NAME = {agent.name: agent for agent in AGENTS}
CODEX = "rollout-2026-03-04T05-06-07-id.jsonl"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path)) / "home"


def placed(home: Path, agent: str, cwd: str, name: str = "s.jsonl", **environ: str) -> str:
    path = path_for(BY_NAME[agent], cwd, name, DISK, {"HOME": str(home), **environ})
    assert os.path.isdir(os.path.dirname(path))
    return os.path.relpath(path, home)


@for_each(
    ("agent", "cwd", "name", "path"),
    [
        ("claude-code", "/gone/a_b.c/é", "s.jsonl", ".claude/projects/-gone-a-b-c--/s.jsonl"),
        ("claude-code", "/gone/e\u0301", "s.jsonl", ".claude/projects/-gone--/s.jsonl"),
        ("claude-code", "/" + "a" * 199, "s", f".claude/projects/-{'a' * 199}/s"),
        ("claude-code", "/" + "a" * 200, "s", f".claude/projects/-{'a' * 199}-b6ymvl/s"),
        ("claude-code", "/" + "é" * 200, "s", f".claude/projects/{'-' * 200}-s4uqmp/s"),
        ("claude-code", "/" + "b" * 201, "s", f".claude/projects/-{'b' * 199}-ueu0ib/s"),
        ("codex", "/gone", CODEX, f".codex/sessions/2026/03/04/{CODEX}"),
        ("codex", "/gone", "other", ".codex/sessions/other"),
        ("pi", "/gone/a_b\\c:d", "s", ".pi/agent/sessions/--gone-a_b-c-d--/s"),
        ("pi", "/", "s", ".pi/agent/sessions/----/s"),
        ("gemini", "/gone/My  App!", "s", ".gemini/tmp/my-app/chats/s"),
        ("gemini", "/gone/é", "s", ".gemini/tmp/project/chats/s"),
    ],
)
def test_each_agent_names_the_folder_of_a_directory(
    agent: str, cwd: str, name: str, path: str, home: Path
) -> None:
    assert placed(home, agent, cwd, name) == path


def test_pi_has_one_folder_where_its_variable_names_one(home: Path) -> None:
    own = str(home / "own")
    assert placed(home, "pi", "/gone", PI_CODING_AGENT_SESSION_DIR=own) == "own/s.jsonl"


def test_a_link_to_a_directory_is_that_directory(home: Path) -> None:
    (home / "app").mkdir(parents=True)
    (home / "link").symlink_to(home / "app")
    assert placed(home, "pi", str(home / "link")) == placed(home, "pi", str(home / "app"))


class Gemini:
    """The folder of Gemini CLI, with what it knows of projects."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.runtime = home / ".gemini"
        self.runtime.mkdir(parents=True)

    def registers(self, content: object) -> None:
        text = content if isinstance(content, str) else json.dumps({"projects": content})
        (self.runtime / "projects.json").write_text(text)

    def owns(self, slug: str, cwd: str, kind: str = "tmp") -> None:
        folder = self.runtime / kind / slug
        folder.mkdir(parents=True)
        (folder / ".project_root").write_text(f"{cwd}\n")

    def place(self, cwd: str = "/gone/app") -> str:
        """The short name that a directory has or gets."""
        *_, slug, chats, _ = Path(placed(self.home, "gemini", cwd)).parts
        assert chats == "chats"
        return slug

    def owner(self, slug: str) -> str:
        return (self.runtime / "tmp" / slug / ".project_root").read_text()


@pytest.fixture
def gemini(home: Path) -> Gemini:
    return Gemini(home)


def test_a_new_project_gets_a_free_name_once(gemini: Gemini) -> None:
    assert gemini.place() == "app"
    assert gemini.owner("app") == "/gone/app"
    before = contents(gemini.home)
    assert gemini.place() == "app"
    assert contents(gemini.home) == before
    assert [gemini.place("/other/app"), gemini.place("/third/App")] == ["app-1", "app-2"]
    assert not (gemini.runtime / "projects.json").exists()


def test_a_name_that_is_registered_is_taken(gemini: Gemini) -> None:
    gemini.registers({"/gone/app": "own", "/other": "app", "/odd": 3, "/empty": ""})
    before = (gemini.runtime / "projects.json").read_bytes()
    assert gemini.place() == "own"
    assert gemini.owner("own") == "/gone/app"
    assert gemini.place("/third/app") == "app-1"
    assert [gemini.place("/odd"), gemini.place("/empty")] == ["odd", "empty"]
    assert (gemini.runtime / "projects.json").read_bytes() == before


@pytest.mark.parametrize("kind", ["tmp", "history"])
def test_a_registered_name_that_another_project_has_is_not_taken(gemini: Gemini, kind: str) -> None:
    gemini.registers({"/gone/app": "own"})
    gemini.owns("own", "/other", kind)
    gemini.owns("app", "/another", kind)
    assert gemini.place() == "app-1"


@pytest.mark.parametrize("content", ["", "no json", "[]", '{"projects": []}'])
def test_a_register_that_cannot_be_read_names_nothing(gemini: Gemini, content: str) -> None:
    gemini.registers(content)
    assert gemini.place() == "app"


def test_a_folder_that_names_the_project_is_its_own(gemini: Gemini) -> None:
    gemini.owns("zzz", "/gone/app")
    gemini.owns("aaa", "/other")
    (gemini.runtime / "tmp" / "file").write_text("")
    assert gemini.place() == "zzz"
    assert sorted(os.listdir(gemini.runtime / "tmp")) == ["aaa", "file", "zzz"]


def test_a_folder_of_an_older_version_is_used_as_it_is(gemini: Gemini) -> None:
    hashed = hashlib.sha256(b"/gone/app").hexdigest()
    (gemini.runtime / "tmp" / hashed).mkdir(parents=True)
    assert gemini.place() == hashed
    assert not (gemini.runtime / "tmp" / hashed / ".project_root").exists()
