"""Sessions of other machines, and the user's rules for their paths, which every command goes by."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Store
from tests.support.table import for_each
from tests.support.terminal import completed, done, printed_json, refused, run

MAC, WINDOWS = "/Users/me/work/shop", "C:\\Users\\Me\\work\\shop"
ID = "5e55100{}-0000-4000-8000-000000000001"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with sessions of this machine and two others about one repository."""
    home = tmp_path / "home"
    here = home / "src" / "store"
    here.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    _session(home, 0, MAC, f"{MAC}/app/mac.py")
    _session(home, 1, WINDOWS, f"{WINDOWS}\\app\\win.py")
    _session(home, 2, str(here), f"{here}/app/here.py")
    for name in ("mac", "win", "here"):
        (here / "app").mkdir(exist_ok=True)
        (here / "app" / f"{name}.py").write_text(f"{name} = 1\n")
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=here, check=True)
    return home


@pytest.fixture
def here(home: Path) -> Path:
    """The repository, with a rule for each of the other machines."""
    done("map-path", "/Users/me/work/shop", home / "src" / "store")
    done("map-path", "c:/users/me/WORK", home / "src")
    done("map-path", "C:\\Users\\me\\work\\shop", home / "src" / "store")
    return home / "src" / "store"


def _session(home: Path, number: int, cwd: str, file: str) -> None:
    """A session of Claude Code that wrote one file."""
    about = {"isSidechain": False, "sessionId": ID.format(number), "cwd": cwd}
    about |= {"userType": "external", "version": "2.1.330"}
    name = Path(file.replace("\\", "/")).stem
    write = {"file_path": file, "content": f"{name} = 1\n"}
    call = {"type": "tool_use", "id": f"t{number}", "name": "Write", "input": write}
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "written"}
    usage = {"input_tokens": 5, "output_tokens": 7}
    said: list[dict[str, Any]] = [
        {"role": "user", "content": f"Write {name}"},
        {"role": "assistant", "id": f"m{number}", "model": "claude-opus-4-6", "usage": usage},
        {"role": "user", "content": [result]},
    ]
    said[1]["content"] = [call]
    lines, parent = [], None
    for at, message in enumerate(said):
        uuid = f"{number}{at}000000-0000-4000-8000-000000000000"
        time = f"2026-03-0{number + 1}T10:00:0{at}.000Z"
        line = {"parentUuid": parent, **about, "type": message["role"], "message": message}
        lines.append(json.dumps({**line, "uuid": uuid, "timestamp": time}))
        parent = uuid
    target = _file(home, number, cwd)
    target.parent.mkdir(parents=True)
    target.write_text("\n".join([*lines, ""]))


def _file(home: Path, number: int, cwd: str) -> Path:
    """Where Claude Code keeps a session of a folder."""
    folder = "".join(each if each.isalnum() else "-" for each in cwd)
    return home / ".claude/projects" / folder / f"{ID.format(number)}.jsonl"


def files_in(home: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (home / ".claude").rglob("*.jsonl")}


def test_rules_are_listed_and_removed(here: Path) -> None:
    assert printed_json("map-path") == [
        {"old": "/Users/me/work/shop", "new": str(here)},
        {"old": "c:/users/me/WORK", "new": str(here.parent)},
        {"old": "C:\\Users\\me\\work\\shop", "new": str(here)},
    ]
    assert "/Users/me/work/shop  →  ~/src/store" in done("map-path")
    removed = run("map-path", "--undo", "C:\\Users\\me\\work")
    assert removed.stderr == "C:\\Users\\me\\work is no longer mapped\n"
    added = run("map-path", "/x/y", here)
    assert added.stderr == "/x/y is now ~/src/store here\n"
    assert run("map-path", "--undo", "/x/y").exit_code == 0
    assert len(printed_json("map-path")) == 2
    assert "no rule maps /x" in refused("map-path", "--undo", "/x")
    assert "again and again" in refused("map-path", "/a", "/a/b")
    assert run("map-path", "/a").exit_code == 2
    assert run("map-path", "--undo").exit_code == 2
    assert run("map-path", "--undo", "/a", "/b").exit_code == 2


def test_rules_that_cannot_be_read_are_never_replaced(home: Path) -> None:
    (home / "data/sessiontree").mkdir(parents=True)
    (home / "data/sessiontree/.paths").write_text("old = new\n")
    assert ".paths is not a list of rules" in refused("map-path", "/a", "/b")
    assert len(printed_json("ls")) == 3


def test_sessions_of_other_machines_are_of_the_project_here(home: Path, here: Path) -> None:
    before = files_in(home)
    assert {row["cwd"] for row in printed_json("ls")} == {str(here)}
    for project in (here, "store", MAC, WINDOWS, "c:\\users\\ME\\work", "work/shop"):
        is_elsewhere = str(project) not in (str(here), "store")
        rows = printed_json("ls", "--project", project)
        assert len(rows) == 3, (project, is_elsewhere)
    assert [row["project"] for row in printed_json("stats", "--by", "project")["rows"]] == [
        str(here)
    ]
    assert {hit["cwd"] for hit in printed_json("search", "Write", "--project", here)} == {str(here)}
    assert str(here) in completed("ls", "--project", str(here.parent))
    assert files_in(home) == before


def test_a_session_of_another_machine_continues_in_the_folder_here(
    home: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files_in(home)
    for number in (0, 1, 2, 0):
        id = ID.format(number)
        assert done("resume", id) == f"cd {here} && claude --resume {id}\n"
        copy = _file(home, number, str(here)).read_text()
        assert json.loads(copy.splitlines()[0])["cwd"] == str(here)
        assert done("resume", id, "--cwd", MAC) == f"cd {here} && claude --resume {id}\n"
    assert before.items() <= files_in(home).items()
    assert len(printed_json("ls")) == 3
    monkeypatch.chdir(here)
    assert ID.format(2) in done("resume")


@for_each(("name", "number"), [("mac", 0), ("win", 1), ("here", 2)])
def test_the_files_of_other_machines_are_known(here: Path, name: str, number: int) -> None:
    file = here / "app" / f"{name}.py"
    assert [line["session"] for line in printed_json("blame", file)] == [ID.format(number)]
    (edit,) = printed_json("history", file)
    assert (edit["path"], edit["session"]) == (str(file), ID.format(number))
    file.unlink()
    assert done("recover", file, "--at", "latest") == f"{name} = 1\n"


def test_a_moved_project_has_its_sessions_of_other_machines(home: Path, here: Path) -> None:
    new = home / "new"
    new.mkdir()
    told = printed_json("move-project", here, new, "--resume")
    assert (told["moved"], told["of_agents"]) == (0, 3)
    assert set(told["commands"]) == {
        f"cd {new} && claude --resume {ID.format(number)}" for number in range(3)
    }


def test_the_store_finds_what_was_synced_of_a_directory(here: Path) -> None:
    id = Store().create(cwd=MAC).id
    (one,) = Store().list(cwd=here)
    assert (one.id, one.cwd) == (id, str(here))
    assert Store().list(cwd=here.parent) == []


def test_without_rules_a_windows_path_moves_a_project(home: Path) -> None:
    new = home / "new"
    new.mkdir()
    (told,) = printed_json("move-project", WINDOWS, new, "--resume")["commands"]
    assert told == f"cd {new} && claude --resume {ID.format(1)}"
