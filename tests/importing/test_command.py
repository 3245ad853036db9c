"""`sessiontree import`: files and folders in, sessions of ours where `ls` finds them."""

from __future__ import annotations

import json
import os
import pty
import sys
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from sessiontree.cli import importing
from tests.cli.terminal import done, driving, printed_json, run
from tests.formats import test_codex, test_gemini, test_pi
from tests.formats.conftest import SESSION, state_of
from tests.formats.transcripts import assistant, result, user, written
from tests.importing.conftest import messages, touched

OTHER = "99999999-2222-4333-8444-555555555555"


@pytest.fixture
def everything(tmp_path: Path) -> Path:
    """A folder of all agents' sessions, as they lie on a disk, and other files between."""
    folder = tmp_path / "agents"
    claude = folder / "projects" / "-project"
    lines = [user("a", None), assistant("b", "a", "m", ["t"]), result("r", "b", "t")]
    written(claude / f"{SESSION}.jsonl", lines)
    more: dict[str, Any] = {"isSidechain": True, "agentId": "one"}
    inner = [user("s1", None, **more), assistant("s2", "s1", "n", **more)]
    written(claude / SESSION / "subagents" / "agent-one.jsonl", inner)
    (claude / SESSION / "subagents" / "agent-one.meta.json").write_text('{"toolUseId":"t"}')
    written(claude / OTHER / "subagents" / "agent-two.jsonl", inner)  # its session is gone
    (claude / "sessions-index.json").write_text('{"version":1,"entries":[]}')
    for name in ("codex", "gemini", "pi"):
        (folder / name).mkdir()
    test_codex.written(folder / "codex" / "rollout-1-s-1.jsonl", test_codex.said("user", "x"))
    test_gemini.document(folder / "gemini" / "session-1.json", *test_gemini.MESSAGES)
    test_pi.written(folder / "pi" / "t_s.jsonl", test_pi.EVERYTHING)
    (folder / "pi" / "notes.jsonl").write_text("no session\n")
    with Session.create(folder / "pi" / "ours.jsonl"):
        pass
    return folder


def test_a_folder_of_all_agents_is_imported(everything: Path, out: Path) -> None:
    before = state_of(everything)
    first = run("import", everything, "-o", out)
    assert first.exit_code == 0
    assert first.stdout.count("\n") == 5
    assert "5 imported, 0 grew, 0 up to date" in first.stderr
    assert "notes.jsonl is no session" in first.stderr
    assert len(list(out.glob("*.jsonl"))) == 5
    assert run("verify", *out.glob("*.jsonl")).exit_code == 0
    again = run("import", everything, "-o", out)
    assert "0 imported, 0 grew, 5 up to date; 0 new entries" in again.stderr
    assert again.stdout.count("up to date") == 5
    assert state_of(everything) == before


def test_a_dry_run_says_what_an_import_does_and_writes_nothing(
    everything: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSIONTREE_HOME", str(tmp_path / "home"))
    for where in (("-o", out), ()):
        before = state_of(tmp_path)
        told = run("import", everything, *where, "--dry-run", "--json")
        assert state_of(tmp_path) == before
        assert "5 imported, 0 grew, 0 up to date" in told.stderr
        assert "This was a dry run: nothing was written" in told.stderr
        assert json.loads(told.stdout) == printed_json("import", everything, *where)


def test_a_dry_run_says_what_a_session_would_grow_by(tmp_path: Path, out: Path) -> None:
    large = {**user("c", "b"), "message": {"role": "user", "content": "x" * 40_000}}
    lines = [user("a", None), assistant("b", "a", "m"), large, user("d", "c")]
    file = written(tmp_path / "t" / f"{SESSION}.jsonl", lines[:2])
    done("import", file, "-o", out)
    assert "up to date" in done("import", file, "-o", out, "--dry-run")
    with Session.open(next(out.glob("*.jsonl"))) as session:
        session.append_message({"role": "user", "content": "of mine"})
    written(file, lines)
    before = state_of(out)
    told = printed_json("import", file, "-o", out, "--dry-run")
    assert state_of(out) == before
    assert told == printed_json("import", file, "-o", out)
    assert (told[0]["new"], told[0]["blobs"], told[0]["made"]) == (2, 1, False)


def test_a_dry_run_refuses_what_an_import_refuses(tmp_path: Path, out: Path) -> None:
    file = written(tmp_path / "t" / f"{SESSION}.jsonl", [user("a", None)])
    target = Path(done("import", file, "-o", out).split("  ")[0])
    target.write_text("something else")
    refusals = [run("import", file, "-o", out, *dry) for dry in ((), ("--dry-run",))]
    assert [refused.exit_code for refused in refusals] == [1, 1]
    assert refusals[0].stderr == refusals[1].stderr
    assert "is there already" in refusals[0].stderr


def test_sessions_go_to_the_store_of_the_user(
    everything: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSIONTREE_HOME", str(tmp_path / "home"))
    assert run("import", everything).exit_code == 0
    listed = printed_json("ls", "--all")
    assert len(listed) == 5
    of_project = printed_json("ls", "--cwd", "/project")
    ids = {SESSION, f"{SESSION}.agent-two", "s-1", "s"}
    assert {found["id"] for found in of_project} == ids
    assert not any(found["program"] for found in listed)
    done("rename", next(found["file"] for found in listed if found["id"] == "s"), "Mine")
    assert run("import", everything).exit_code == 0
    assert len(printed_json("ls", "--all")) == 5


def test_each_file_is_told_as_json(everything: Path, out: Path) -> None:
    file = everything / "projects" / "-project" / f"{SESSION}.jsonl"
    (told,) = printed_json("import", file, "-o", out)
    assert told["source"] == str(file)
    assert (told["id"], told["agent"], told["made"]) == (SESSION, "claude-code", True)
    assert told["entries"] == told["new"] == 6
    assert messages(told["file"]) == messages(file)
    with file.open("a") as source:
        source.write("no JSON\n" + json.dumps(user("c", "r")) + "\n")
    (told,) = printed_json("import", file, "-o", out)
    assert (told["new"], told["made"]) == (1, False)
    (lost,) = told["damage"]
    assert (lost["file"], lost["line"], lost["kind"]) == (str(file), 4, "unreadable")
    assert lost["next"]


def test_what_fails_is_told_and_the_rest_imported(everything: Path, out: Path) -> None:
    (everything / "file").write_text("text")
    good = everything / "pi" / "t_s.jsonl"
    result = run("import", everything / "file", everything / "gone", good, "-o", out)
    assert result.exit_code == 1
    assert result.stdout.count("\n") == 1
    assert result.stderr.count("Error: ") == 2
    alone = run("import", everything / "gone", "-o", out)
    assert (alone.exit_code, alone.stderr.count("\n")) == (1, 1)
    ours = run("import", everything / "pi" / "ours.jsonl", "-o", out)
    assert ours.exit_code == 1
    assert "already" in ours.stderr
    empty = everything / "empty"
    empty.mkdir()
    assert run("import", empty, "-o", out).exit_code == 1
    assert run("import").exit_code == 2
    for place in (everything / "file", everything / "file" / "below"):
        refused = run("import", good, "-o", place)
        assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
        assert f"{place}" in refused.stderr
        assert "; " in refused.stderr  # what to do next


def test_an_import_into_its_own_folder_touches_no_source(everything: Path) -> None:
    folder = everything / "projects" / "-project"
    before = {file: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    for _ in range(2):
        assert run("import", folder, "-o", folder).exit_code == 0
    assert all(file.read_bytes() == content for file, content in before.items())
    assert len([file for file in folder.iterdir() if file.is_file()]) == len(before) + 2
    pi = everything / "pi" / "t_s.jsonl"  # it has the very name that the import would have
    content = pi.read_bytes()
    refused = run("import", pi, "-o", pi.parent)
    assert refused.exit_code == 1
    assert "into another folder" in refused.stderr
    assert pi.read_bytes() == content


def test_names_and_texts_do_not_drive_the_terminal(tmp_path: Path, out: Path) -> None:
    file = written(tmp_path / "t" / "s\x1b[31m.jsonl", [user("a", None, "\x1b[2J", id="\x1b")])
    with file.open("a") as source:
        source.write('{"type":"\\u001b[2J","uuid":"\\u001b","sessionId":"x"}\n')
    result = run("import", file, "-o", out)
    assert result.exit_code == 0
    assert not driving(result.stdout + result.stderr)


def test_a_long_import_shows_its_progress_on_a_terminal(
    tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [user(f"u{n}", f"u{n - 1}" if n else None, "x" * 2_000) for n in range(2_000)]
    file = written(tmp_path / "t" / "s.jsonl", lines)
    monkeypatch.setattr(importing, "PATIENCE_SECONDS", 0.0)
    pid, terminal = pty.fork()
    if not pid:
        status = 1
        try:
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
            importing.import_.main([str(file), "-o", str(out)], standalone_mode=False)
            status = 0
        finally:
            sys.stderr.flush()
            os._exit(status)
    shown = b""
    while True:
        try:
            block = os.read(terminal, 65536)
        except OSError:
            break
        if not block:
            break
        shown += block
    os.close(terminal)
    os.waitpid(pid, 0)
    assert b"%" in shown
    assert b"2,001 entries" in shown or b"2,000 entries" in shown
    assert messages(next(out.glob("*.jsonl"))) == messages(touched(file))


def test_each_line_names_the_source_and_two_of_one_session_are_both_named(
    tmp_path: Path, out: Path
) -> None:
    one = written(tmp_path / "p" / "one.jsonl", [user("a", None)])
    two = written(tmp_path / "p" / "two.jsonl", [user("b", None)])
    first = run("import", one, "-o", out)
    assert f"from {one}" in first.stdout
    assert "Warning" not in first.stderr
    both = run("import", tmp_path / "p", "-o", out)
    assert [line.rpartition("from ")[2] for line in both.stdout.splitlines()] == [
        str(one),
        str(two),
    ]
    assert f"Warning: {one} and {two} are both of the session {SESSION}" in both.stderr
    assert "Warning" not in run("import", one, one, "-o", out).stderr


@pytest.mark.parametrize("command", ["context", "merge", "switch", "keep"])
def test_the_lane_of_what_is_new_is_named_by_the_agent(
    tmp_path: Path, out: Path, command: str
) -> None:
    lines = [user("a", None), assistant("b", "a", "m")]
    source = written(tmp_path / "s.jsonl", lines)
    done("import", source, "-o", out)
    (file,) = out.glob("*.jsonl")
    mine = done("append", file, "--text", "mine").strip()
    written(source, [*lines, user("c", "b")])
    touched(source)
    done("import", source, "-o", out)
    result = run(command, file, "claude-code")
    assert result.exit_code == 0
    assert (mine in result.stderr) == (command == "keep")  # it names the line that it leaves
    done("verify", file)
