"""`resume` as a person uses it: the command that is printed, what it makes, and what it refuses."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from sessiontree import Session
from sessiontree.agents.claude_code import ClaudeCode
from sessiontree.library.resume import path_for
from sessiontree.recording import StreamAccumulator
from sessiontree.storage.fs import DISK
from tests.support.homes import VARIABLES
from tests.support.terminal import contents, done, printed_json, refused, run
from tests.support.transcripts import assistant, project_folder, user, written

FIXTURES = Path(__file__).parents[2] / "fixtures" / "agents"
CLAUDE_CODE = "5e551015-0000-4000-8000-000000000001"
AGENTS = ("claude-code", "codex", "gemini", "pi")
NEWEST = 4_000_000_000  # later than any session here


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, with a project in it as the current folder."""
    home = tmp_path / "home"
    project = home / "my project"
    project.mkdir(parents=True)
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SESSIONTREE_HOME", str(home / "store"))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return home


def ours(home: Path, id: str = "chat-id", cwd: str | None = None, agent: str = "") -> Path:
    """A session of the store; `agent` is the one that it was imported from."""
    file = home / "store" / f"{id}.jsonl"
    file.parent.mkdir(exist_ok=True)
    metadata: dict[str, Any] | None = {"agent": agent} if agent else None
    with Session.create(file, id=id, cwd=cwd or os.getcwd(), metadata=metadata) as session:
        session.append_message({"role": "user", "content": f"hello {id}"})
        session.append_message({"role": "assistant", "content": "hi"})
    return file


def transcript(home: Path) -> Path:
    """A session of Claude Code, where it keeps its own; its folder is there."""
    (home / "project").mkdir()
    folder = project_folder(home, home / "project")
    folder.mkdir(parents=True)
    text = (FIXTURES / "claude_code" / "2.1.330" / f"{CLAUDE_CODE}.jsonl").read_text()
    cwd = next(json.loads(line)["cwd"] for line in text.splitlines() if '"cwd"' in line)
    made = folder / f"{CLAUDE_CODE}.jsonl"
    made.write_text(text.replace(json.dumps(cwd), json.dumps(str(home / "project"))))
    os.utime(made, (1, 1))
    return made


def as_claude_code(home: Path) -> tuple[Path, list[str]]:
    return transcript(home), ["claude", "--resume", CLAUDE_CODE]


def as_codex(home: Path) -> tuple[Path, list[str]]:
    copytree(FIXTURES / "codex" / "0.169.0", home / ".codex")
    file = max((home / ".codex").rglob("rollout-*.jsonl"))
    return file, ["codex", "resume", file.stem[-36:], "--cd", os.getcwd()]


KEPT = [as_claude_code, as_codex]


@pytest.mark.parametrize("kept", KEPT)
def test_an_agent_goes_on_with_its_own_session_as_it_is(
    kept: Callable[[Path], tuple[Path, list[str]]], home: Path
) -> None:
    file, command = kept(home)
    before = contents(home)
    made = printed_json("resume", file, *(["--cwd", "."] if kept is as_codex else []))
    assert (made["command"], made["converted"], made["file"]) == (command, False, str(file))
    assert contents(home) == before


@pytest.mark.parametrize("kept", KEPT)
def test_an_agent_goes_on_with_its_own_session_of_a_recording(
    kept: Callable[[Path], tuple[Path, list[str]]], home: Path
) -> None:
    file, command = kept(home)
    id = command[2]
    start = {"type": "system", "subtype": "init", "session_id": id, "cwd": os.getcwd(), "uuid": "u"}
    stream = json.dumps(
        start if kept is as_claude_code else {"type": "thread.started"} | {"thread_id": id}
    )
    run("record", "recording.jsonl", "--prompt", "Look", input=stream.encode())
    with Session.create("other.jsonl", cwd=os.getcwd()) as session:  # whose header has no agent
        StreamAccumulator(session, prompt="Look").feed(stream + "\n")
    before = contents(home)
    for recording in ("recording.jsonl", "other.jsonl"):
        made = printed_json("resume", recording, *(["--cwd", "."] if kept is as_codex else []))
        assert (made["command"], made["converted"], made["file"]) == (command, False, str(file))
        assert "fork it and resume the fork" in " ".join(made["warnings"])
    assert contents(home) == before
    done("fork", "recording.jsonl", "fork.jsonl")
    assert printed_json("resume", "fork.jsonl")["converted"] is True
    file.unlink()
    assert printed_json("resume", "recording.jsonl", "--cwd", ".")["converted"] is True


def as_droid(home: Path) -> tuple[Path, list[str]]:
    """A session whose last line has no time."""
    id, file = "9b205d22", home / ".factory" / "sessions" / "-p" / "9b205d22.jsonl"
    file.parent.mkdir(parents=True)
    said = {"role": "user", "content": [{"type": "text", "text": "hello"}]}
    lines = [
        {"type": "session_start", "id": id, "title": "t", "owner": "o", "cwd": os.getcwd()},
        {"type": "message", "id": "m", "timestamp": "2026-01-02T03:04:05.678Z", "message": said},
        {"type": "agent_turn_outcome", "turnId": "t", "reason": "completed"},
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file, ["droid", "--resume", id]


@pytest.mark.parametrize("kept", [as_claude_code, as_droid])
def test_a_backup_that_adds_nothing_is_never_gone_on_with(
    kept: Callable[[Path], tuple[Path, list[str]]], home: Path
) -> None:
    file, command = kept(home)
    id = command[-1]
    before = printed_json("resume", id)
    assert (before["file"], before["command"][0]) == (str(file), command[0])
    run("backup")
    assert printed_json("resume", id) == before
    (row,) = printed_json("ls")
    assert row["file"] == str(file)


def test_without_an_id_it_is_the_newest_session_of_the_current_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for id in ("earlier", "later"):  # by name too, if they are of the same millisecond
        ours(home, id, agent="codex")
    ours(home, "elsewhere", cwd=str(home))
    monkeypatch.setenv("PATH", str(home))
    told = run("resume")
    assert told.stdout.startswith(f"cd {shlex.quote(os.getcwd())} && codex resume ")
    assert "later.jsonl for Codex" in told.stderr
    assert "'codex' is not on the PATH" in told.stderr
    monkeypatch.chdir("/")
    assert "elsewhere (" in refused("resume")


@pytest.mark.parametrize("agent", AGENTS)
def test_a_session_of_the_store_is_put_where_the_agent_looks_and_never_over_a_file(
    agent: str, home: Path
) -> None:
    before = ours(home).read_bytes()
    made = printed_json("resume", "chat-id", "--in", agent)
    file = Path(made["file"])
    with Session.open(file, readonly=True) as session:
        assert "hello chat-id" in json.dumps(list(session.context().messages))
        assert session.verify() == []
        assert session.header["cwd"] == os.getcwd()
    kept = contents(home)
    own = {key: made[key] for key in ("agent", "command", "cwd", "file")} | {"converted": False}
    for where in ([], ["--cwd", "."], ["--in", agent], ["--in", agent, "--cwd", os.getcwd()]):
        again = printed_json("resume", file, *where)
        assert {key: again[key] for key in own} == own
    again = printed_json("resume", "chat-id", "--in", agent)
    assert {key: again[key] for key in own} == own
    assert contents(home) == kept
    assert (home / "store" / "chat-id.jsonl").read_bytes() == before
    run("append", "chat-id", "--text", "one more")
    copy = file.read_bytes()
    again = printed_json("resume", home / "store" / "chat-id.jsonl", "--in", agent)
    assert (again["converted"], again["file"] != made["file"]) == (True, True)
    assert again["command"] != made["command"]
    assert file.read_bytes() == copy
    assert [row["id"] for row in printed_json("ls")] == ["chat-id"]


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_that_looks_by_folder_gets_a_copy_for_another_folder(
    agent: str, home: Path
) -> None:
    """Codex takes the folder with its command, and goes on with its own file."""
    made = printed_json("resume", ours(home), "--in", agent)
    other = home / "other"
    other.mkdir()
    kept = contents(home)
    moved = printed_json("resume", made["file"], "--cwd", other)
    assert moved["cwd"] == str(other)
    assert moved["converted"] is (agent != "codex")
    if agent == "codex":
        assert moved["command"] == [*made["command"], "--cd", str(other)]
        assert contents(home) == kept


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("11111111-2222-4333-8444-555555555555", "11111111-2222-4333-8444-555555555555"),
        ("11111111-2222-4333-8444-55555555555", CLAUDE_CODE),
        ("copy-11111111-2222-4333-8444-555555555555", CLAUDE_CODE),
    ],
)
def test_claude_code_knows_a_session_by_the_name_of_its_file(
    name: str, known: str, home: Path
) -> None:
    file = transcript(home)
    file = file.rename(file.with_name(f"{name}.jsonl"))
    assert printed_json("resume", file)["command"] == ["claude", "--resume", known]


def test_the_file_is_in_the_folder_that_the_command_names(home: Path) -> None:
    """Claude Code looks only in the folder that is named after the working directory."""
    file = transcript(home)
    other, project = home / "other", home / "project"
    other.mkdir()
    conflict = file.with_name(f"{file.stem}.sync-conflict-20260901-101010-ABCDEFG.jsonl")
    elsewhere = file.parent.with_name("-moved") / file.name
    elsewhere.parent.mkdir()
    for copy in (conflict, elsewhere):
        copy.write_bytes(file.read_bytes())
        os.utime(copy, (1, 1))

    own = printed_json("resume", CLAUDE_CODE)
    assert (own["cwd"], own["file"], own["converted"]) == (str(project), str(file), False)

    told = run("resume", CLAUDE_CODE, "--cwd", other)
    copies = [*project_folder(home, other).glob("*.jsonl")]
    assert [copy.stem for copy in copies] == [CLAUDE_CODE]
    assert told.stdout == f"cd {other} && claude --resume {CLAUDE_CODE}\n"
    assert f"Converted {file} for Claude Code: {copies[0]}\n" in told.stderr
    again = printed_json("resume", CLAUDE_CODE, "--cwd", other)
    assert (again["file"], again["converted"]) == (str(copies[0]), False)

    for copy in (file, conflict, copies[0]):
        copy.unlink()
    only = printed_json("resume", CLAUDE_CODE)
    assert (only["cwd"], only["file"], only["converted"]) == (str(project), str(file), True)


def test_a_project_that_moved_goes_on_where_it_is_now(home: Path) -> None:
    file = transcript(home)
    conflict = file.with_name(f"{file.stem}.sync-conflict-20260901-101010-ABCDEFG.jsonl")
    conflict.write_bytes(file.read_bytes())
    moved = (home / "project").rename(home / "moved")
    done("map-path", home / "project", moved)
    made = printed_json("resume", CLAUDE_CODE)
    there = project_folder(home, moved) / file.name
    assert (made["cwd"], made["file"], made["converted"]) == (str(moved), str(there), True)
    assert there.is_file()


def test_a_folder_that_was_renamed_with_its_project_needs_no_copy(home: Path) -> None:
    file = transcript(home)
    moved = (home / "project").rename(home / "moved")
    file.parent.rename(project_folder(home, moved))
    made = printed_json("resume", CLAUDE_CODE, "--cwd", moved)
    assert (made["file"], made["converted"]) == (
        str(project_folder(home, moved) / file.name),
        False,
    )


def test_an_agents_file_that_was_emptied_is_kept_and_another_one_made(home: Path) -> None:
    file = transcript(home)
    done("backup")
    file.write_bytes(b"")
    made = printed_json("resume", CLAUDE_CODE)
    assert made["converted"] is True
    assert Path(made["file"]).parent == file.parent
    assert made["command"] == ["claude", "--resume", Path(made["file"]).stem]
    Path(made["file"]).write_bytes(b"")
    again = printed_json("resume", CLAUDE_CODE)
    assert again["file"] not in (made["file"], str(file))
    assert Path(again["file"]).stat().st_size > 0
    assert (file.read_bytes(), Path(made["file"]).read_bytes()) == (b"", b"")


def test_a_session_that_codex_archived_is_taken_out_of_the_archive_first(home: Path) -> None:
    made = printed_json("resume", ours(home), "--in", "codex")
    archive = home / ".codex" / "archived_sessions"
    archive.mkdir()
    archived = Path(made["file"]).rename(archive / Path(made["file"]).name)
    for words in (["chat-id", "--in", "codex"], [archived, "--cwd", "."]):
        found = printed_json("resume", *words)
        assert (found["file"], found["converted"]) == (str(archived), False)
        assert "run 'codex unarchive" in found["warnings"][0]


def test_a_session_of_an_agent_goes_on_in_another_one(home: Path) -> None:
    transcript(home)
    made = printed_json("resume", CLAUDE_CODE[:8], "--in", "codex")
    assert made["command"] == ["codex", "resume", CLAUDE_CODE]
    assert made["cwd"] == str(home / "project")
    assert any("the lane" in loss["what"] for loss in made["notExpressed"]) is False
    assert any("custom entry" in loss["what"] for loss in made["notExpressed"])


def test_codex_gets_a_session_with_the_provider_that_its_user_set(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = ours(home)
    profile = "profile = 'p'\nmodel_provider = 'azure'\n"
    cases = [
        ("model = 'm'", "openai"),
        ("model_provider = 'azure'", "azure"),
        (profile + "[profiles.p]\nmodel_provider = 'own'", "own"),
        (profile, "azure"),
        ("model_provider = 1", "openai"),
        ("model_provider =", "openai"),
    ]
    for number, (config, provider) in enumerate(cases):
        codex = home / f"codex-{number}"
        written(codex / "config.toml", []).write_text(config)
        monkeypatch.setenv("CODEX_HOME", str(codex))
        made = printed_json("resume", file, "--in", "codex")
        first = json.loads(Path(made["file"]).read_text().splitlines()[0])
        assert first["payload"]["model_provider"] == provider


def test_exec_runs_the_agent_in_the_folder(home: Path) -> None:
    ours(home, agent="pi")
    program = home / "bin" / "pi"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$PWD: $*"\n')
    program.chmod(0o755)
    asked = [sys.executable, "-m", "sessiontree", "resume", "--exec"]
    path = f"{program.parent}:{os.environ['PATH']}"
    told = subprocess.run(
        asked, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
    )
    (file,) = (home / ".pi").rglob("*.jsonl")
    assert told.stdout == f"{os.getcwd()}: --session {file}\n"


def test_an_agent_that_exec_runs_in_another_folder_has_the_same_store(home: Path) -> None:
    ours(home, agent="pi", cwd=str(home))
    program = home / "bin" / "pi"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$PWD: $SESSIONTREE_STORE"\n')
    program.chmod(0o755)
    asked = [sys.executable, "-m", "sessiontree", "resume", "chat-id", "--exec"]
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    del environment["SESSIONTREE_HOME"]
    told = subprocess.run(
        [*asked, "--store", "../store"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == f"{home}: {home / 'store'}\n"


def test_exec_of_an_agent_that_is_not_installed_makes_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours(home)
    monkeypatch.setenv("PATH", str(home))
    before = contents(home)
    told = refused("resume", "--in", "gemini", "--exec")
    assert "'gemini' is not on the PATH; install it, or leave out --exec" in told
    assert contents(home) == before


def test_a_session_of_no_agent_needs_the_name_of_one(home: Path) -> None:
    ours(home)
    assert "name the agent that goes on with it (--in claude-code)" in refused("resume")


def test_a_folder_that_is_gone_is_named_and_another_one_serves(home: Path) -> None:
    ours(home, cwd="/gone/long ago")
    told = refused("resume", "chat-id", "--in", "codex")
    assert "/gone/long ago, the working directory of session chat-id, is not there" in told
    hint = "--cwd DIR, or once for all with 'sessiontree map-path OLD NEW'"
    assert told.endswith(f"name the folder to continue in ({hint})\n")
    made = printed_json("resume", "chat-id", "--in", "codex", "--cwd", ".")
    assert made["cwd"] == os.getcwd()


def test_what_can_be_done_with_a_session_that_only_its_folder_goes_on_with(home: Path) -> None:
    file, command = as_droid(home)
    gone = home / "gone"
    file.write_text(file.read_text().replace(os.getcwd(), str(gone)))
    told = refused("resume", file)
    assert f"{gone}, the working directory of session {command[-1]}, is not there" in told
    assert "Droid continues a session only in its own folder" in told
    assert told.endswith("(--in claude-code --cwd DIR)\n")
    assert "--in claude-code --cwd DIR" in refused("resume", file, "--cwd", gone)
    made = printed_json("resume", file, "--in", "claude-code", "--cwd", ".")
    assert (made["converted"], made["cwd"]) == (True, os.getcwd())


def test_an_ambiguous_id_and_an_unknown_one_are_refused(home: Path) -> None:
    ours(home, "abcd-1")
    ours(home, "abcd-2")
    told = refused("resume", "abcd")
    assert "'abcd' is ambiguous" in told
    assert "abcd-1" in told
    assert "abcd-2" in told
    assert "is named 'zzzz'" in refused("resume", "zzzz")


@pytest.mark.unprivileged
@pytest.mark.parametrize("agent", AGENTS)
def test_a_home_that_cannot_be_written_is_named(agent: str, home: Path) -> None:
    ours(home)
    home.chmod(0o555)
    try:
        told = refused("resume", "chat-id", "--in", agent)
    finally:
        home.chmod(0o755)
    assert str(home) in told
    assert "permission" in told.lower()


def test_a_session_that_is_being_written_is_told_of(home: Path) -> None:
    file = ours(home)
    with Session.open(file, exclusive=True):
        made = printed_json("resume", "chat-id", "--in", "pi")
    assert any("what it writes from now on is left out" in told for told in made["warnings"])
    own = transcript(home)
    os.utime(own, (NEWEST, NEWEST))
    (warning,) = printed_json("resume", own)["warnings"]
    assert "if Claude Code still runs there, end it first" in warning


def test_half_a_line_at_the_end_of_an_agents_file_is_reported_and_the_rest_converted(
    home: Path,
) -> None:
    own = transcript(home)
    own.write_bytes(own.read_bytes()[:-20])
    made = printed_json("resume", own, "--in", "gemini")
    assert any("middle of a line" in told for told in made["warnings"])


def test_gemini_gets_a_free_short_name_and_one_that_is_known_is_used(home: Path) -> None:
    tmp = home / ".gemini" / "tmp"
    (tmp / "my-project").mkdir(parents=True)
    (tmp / "my-project" / ".project_root").write_text("/another/my project")
    nameless = {"projects": {os.getcwd(): "", "/another": 5}}
    (home / ".gemini" / "projects.json").write_text(json.dumps(nameless))
    made = printed_json("resume", ours(home), "--in", "gemini")
    assert Path(made["file"]).parent == tmp / "my-project-1" / "chats"
    assert (tmp / "my-project-1" / ".project_root").read_text() == os.getcwd()
    (tmp / "my-project-1" / ".project_root").unlink()
    known = {"projects": {os.getcwd(): "known"}}
    (home / ".gemini" / "projects.json").write_text(json.dumps(known))
    made = printed_json("resume", ours(home, "second"), "--in", "gemini")
    assert Path(made["file"]).parent == tmp / "known" / "chats"


def test_the_folder_of_a_long_path_has_the_name_that_claude_code_gives_it(home: Path) -> None:
    sdk = pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")
    key = sdk._internal.sessions.project_key_for_directory
    for name in ("a b", "é~", "x" * 150 + "/" + "y" * 150):
        folder = home / name
        folder.mkdir(parents=True)
        made = path_for(ClaudeCode(), str(folder), "s.jsonl", DISK, {"HOME": str(home)})
        assert Path(made).parent.name == key(folder)


def test_printing_and_running_at_once_is_wrong_usage(home: Path) -> None:
    refused("resume", "--exec", "--json", status=2)
    assert "[ID]" in done("resume", "--help")


def goes_on(file: Path) -> None:
    """The agent of a transcript of Claude Code writes one more prompt."""
    said = json.loads(next(line for line in file.read_text().splitlines() if '"user"' in line))
    with file.open("a") as opened:
        later = {
            "uuid": "99999999-0000-4000-8000-000000000009",
            "timestamp": "2099-01-01T00:00:00Z",
        }
        said |= {**later, "message": {"role": "user", "content": "one more"}}
        opened.write(json.dumps(said) + "\n")


def test_an_id_means_the_file_that_changed_last_of_the_original_and_its_copies(home: Path) -> None:
    original = transcript(home)
    copy = Path(printed_json("resume", CLAUDE_CODE, "--in", "codex")["file"])
    for id in (CLAUDE_CODE, CLAUDE_CODE[:6]):  # the copy adds nothing
        told = run("tree", id)
        assert (told.exit_code, told.stderr) == (0, "")
        assert printed_json("show", id)["file"] == str(original)
    content = [{"type": "input_text", "text": "go on in Codex"}]
    said = {"type": "message", "role": "user", "content": content}
    line = {"timestamp": "2099-01-01T00:00:00.000Z", "type": "response_item", "payload": said}
    with copy.open("a") as opened:
        opened.write(json.dumps(line) + "\n")
    told = run("path", CLAUDE_CODE)
    assert "go on in Codex" in told.stdout
    assert f"of Codex, which changed last: {copy}\n" in told.stderr


def test_an_import_whose_agent_went_on_says_so(home: Path) -> None:
    original = transcript(home)
    done("import", original)
    assert run("tree", CLAUDE_CODE).stderr == ""
    goes_on(original)
    told = run("label", CLAUDE_CODE, "@", "mine")
    assert "changed later; 'sessiontree backup' adds what is new" in told.stderr
    assert told.exit_code == 0
    goes_on(original)
    done("import", original)
    assert run("tree", CLAUDE_CODE).stderr == ""


def test_an_id_that_names_no_session_says_where_it_was_looked_for(home: Path) -> None:
    transcript(home)
    told = refused("show", "zzzz")
    assert f"in {home / 'store'} or where agents keep theirs is named 'zzzz'" in told
    assert "'sessiontree ls' lists them" in told
    assert "give 4 characters or more of an id" in refused("show", CLAUDE_CODE[:3])


def test_what_was_left_out_of_a_look_for_an_id_is_one_line(home: Path) -> None:
    folder = transcript(home).parent
    for name in ("one.jsonl", "two.jsonl"):
        (folder / name).touch()
    for words in (("show", "zzzz"), ("resume", "zzzz")):
        left_out, error = refused(*words).splitlines()
        assert left_out.startswith("Left out: 2 files that cannot be read as a session; ")
        assert error.startswith("Error: ")
    told = run("ls").stderr.splitlines()
    assert [line.rpartition(": ")[2] for line in told] == [
        "it is empty; a program may not have written to it yet"
    ] * 2


def test_a_write_to_an_agent_s_file_says_to_import_it(home: Path) -> None:
    file = transcript(home)
    told = refused("append", file, "--text", "more")
    assert told.endswith(f"import it to go on with it ('sessiontree import {file}')\n")
    assert "readonly" not in told


def test_a_subagent_whose_session_is_gone_is_listed_and_goes_on_as_a_copy(home: Path) -> None:
    above = "0badcafe-0000-4000-8000-00000000000a"
    folder = home / ".claude" / "projects" / "-work" / above / "subagents"
    about: dict[str, Any] = {
        "isSidechain": True,
        "agentId": "a0a0",
        "sessionId": above,
        "cwd": os.getcwd(),
    }
    lines = [
        user("a", None, "List all callers of parse().", **about),
        assistant("b", "a", "m", **about),
        user("c", "b", "And of print().", **about),
        assistant("d", "c", "n", **about),
    ]
    for line in lines[1::2]:
        line["message"]["usage"] = {"input_tokens": 5, "output_tokens": 7}
    file = written(folder / "agent-a0a0.jsonl", lines)
    (row,) = printed_json("ls")
    found = (row["firstMessage"], row["turns"], row["model"])
    assert found == ("List all callers of parse().", 2, "claude")
    assert done("ls").count("List all callers of parse().  2 turns  subagent of 0badcafe") == 1
    made = printed_json("resume", above[:8])
    assert (made["file"] != str(file), made["converted"]) == (True, True)
    assert made["command"] == ["claude", "--resume", Path(made["file"]).stem]
    assert len(list(Session.open(made["file"], readonly=True).turns())) == 2


def test_a_session_with_subagents_in_its_lines_keeps_its_own_title(home: Path) -> None:
    aside = user("a", None, "Look around.", isSidechain=True)
    lines = [aside, user("b", None, "Fix the parser."), assistant("c", "b", "m")]
    written(home / ".claude" / "projects" / "-work" / f"{CLAUDE_CODE}.jsonl", lines)
    (row,) = printed_json("ls")
    assert (row["firstMessage"], row["turns"]) == ("Fix the parser.", 1)


def test_a_session_without_messages_has_nothing_to_resume(home: Path) -> None:
    id = "0badcafe-0000-4000-8000-00000000000b"
    summary = {"type": "summary", "summary": "Parser rewritten", "leafUuid": "gone"}
    file = written(home / ".claude" / "projects" / "-work" / f"{id}.jsonl", [summary])
    (row,) = printed_json("ls")
    assert (row["id"], row["name"]) == (id, "Parser rewritten")
    for words in ((id[:8],), (str(file), "--in", "codex")):
        said = refused("resume", *words)
        assert f"{file} has no messages, so there is nothing to resume" in said
    assert not (home / ".codex").exists()
    made = home / "empty.jsonl"
    done("new", made, "--name", "empty")
    assert "no messages" in refused("resume", made, "--in", "pi")
