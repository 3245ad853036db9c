"""All copies of a conversation are one row, one hit and one answer, whatever lies where."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sessiontree import Session, Store
from tests.support.terminal import done, run
from tests.support.transcripts import folder_of_a_user


@pytest.fixture
def transcript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session of Claude Code, with its import in the store."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / ".claude"))
    monkeypatch.setenv("SESSIONTREE_HOME", str(tmp_path / "store"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for agent in ("CODEX_HOME", "PI_CODING_AGENT_DIR", "GEMINI_CLI_HOME"):
        monkeypatch.setenv(agent, str(tmp_path / agent))
    made = folder_of_a_user(tmp_path)
    Store().backup([tmp_path / ".claude"])
    return made


def listed() -> list[str]:
    return [one["file"] for one in json.loads(done("ls", "--json"))]


def said(*command: str) -> str:
    """What a command says beside its result."""
    return run(*command).stderr


def hits(words: str) -> list[str]:
    return [hit["file"] for hit in json.loads(done("search", words, "--json"))]


def test_a_session_and_its_import_are_one_row_and_one_hit(transcript: Path) -> None:
    assert listed() == [str(transcript)]
    assert len(hits("never waits")) == 1


def test_an_import_whose_original_is_gone_is_listed(transcript: Path) -> None:
    shutil.rmtree(transcript.parent)
    (kept,) = Store().list()
    assert listed() == [kept.file]
    assert hits("never waits") == [kept.file]


def test_an_import_that_went_on_is_the_row_of_its_conversation(transcript: Path) -> None:
    (kept,) = Store().list()
    with Session.open(kept.file) as session:
        session.append_message({"role": "user", "content": "And a jitter"})
    assert listed() == [kept.file]
    assert hits("jitter") == [kept.file]
    assert len(hits("never waits")) == 1


def test_a_label_and_a_name_make_no_copy_newer_and_are_shown(transcript: Path) -> None:
    before = [done("ls"), done("stats"), hits("never waits")]
    done("label", transcript.stem, "@", "mark")
    assert [done("ls"), done("stats"), hits("never waits")] == before
    assert "mark" in done("tree", transcript.stem)
    done("rename", transcript.stem, "My own name")
    assert listed() == [str(transcript)]
    assert "My own name" in done("ls")
    assert "My own name" in done("tree", "My own name")


def test_a_row_says_where_else_its_conversation_is(transcript: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for agent in ("codex", "pi"):
        done(*_resume(transcript.stem, agent, tmp_path))
    assert "also in codex, pi · backed up" in done("ls")
    (row,) = json.loads(done("ls", "--json"))
    assert sorted(str(copy["agent"]) for copy in row["copies"]) == ["claude-code", "codex", "pi"]


def test_what_a_program_copied_is_one_row_that_opens_the_copy_with_the_most(
    transcript: Path,
) -> None:
    copy = transcript.with_name(f"{transcript.stem}.sync-conflict-20260920.jsonl")
    shutil.copy(transcript, copy)
    assert listed() == [str(transcript)]
    assert "1 more copy" in done("ls")
    lines = transcript.read_text().splitlines()
    asked = next(line for line in lines if "Back off" in line and '"user' in line)
    later = {**json.loads(asked), "timestamp": "2099-01-01T00:00:00.000Z", "uuid": "later"}
    copy.write_text("\n".join([*lines, json.dumps(later), ""]))
    assert listed() == [str(copy)]
    assert len(hits("never waits")) == 1
    told = said("resume", transcript.stem, "--cwd", str(transcript.parent))
    assert f"Converted {copy} " in told  # Claude Code opens a session by the name of its file


def test_a_fork_of_claude_code_has_the_id_of_its_file(transcript: Path) -> None:
    fork = transcript.with_name("33333333-0000-4000-8000-000000000000.jsonl")
    shutil.copy(transcript, fork)  # with the id of the original in its lines
    assert sorted(listed()) == sorted([str(transcript), str(fork)])
    with Session.open(fork, readonly=True) as session:
        assert session.id == fork.stem
    assert json.loads(done("show", "3333", "--json"))["id"] == fork.stem


def test_one_uuid_on_two_lines_of_a_file_is_two_hits(transcript: Path, tmp_path: Path) -> None:
    file = tmp_path / "twice.jsonl"
    with Session.create(file) as session:
        session.append_message({"role": "user", "content": "never waits"})
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines, lines[-1]]))
    assert len(json.loads(done("search", "never waits", file, "--json"))) == 2


@pytest.mark.parametrize("target", ["codex", "gemini", "pi"])
def test_a_session_converted_for_an_agent_is_neither_listed_nor_counted_nor_converted_again(
    target: str, transcript: Path, tmp_path: Path
) -> None:
    id, sums = transcript.stem, [done("stats"), done("stats", "--by", "model", "--json")]
    (tmp_path / "there").mkdir()
    made = Path(json.loads(done(*_resume(id, target, tmp_path), "--json"))["file"])
    assert made.is_file()
    assert listed() == [str(transcript)]
    assert [done("stats"), done("stats", "--by", "model", "--json")] == sums
    other = "pi" if target == "codex" else "codex"
    assert f"Converted {transcript} " in said(*_resume(id, other, tmp_path))

    shutil.rmtree(tmp_path / "store")
    done("backup")
    (kept,) = Store().list()
    assert kept.made_by == "claude-code"
    assert "0 new, 0 grown" in said("backup")

    _go_on(made)
    assert listed() == [str(made)]
    assert "converted" in done("ls")
    assert len(hits("never waits")) == 1
    assert [done("stats", "--by", "model", "--json")] == sums[1:]  # a prompt costs nothing
    shutil.rmtree(transcript.parent)
    assert listed() == [str(made)]
    assert [done("stats", "--by", "model", "--json")] == sums[1:]


def _resume(id: str, agent: str, home: Path) -> list[str]:
    return ["resume", id, "--in", agent, "--cwd", str(home / "there")]


def _go_on(made: Path) -> None:
    """Say something more in a converted session, as its agent writes it."""
    lines = made.read_text().splitlines()
    asked = next(line for line in lines if "Back off" in line and '"user' in line)
    later = {**json.loads(asked), "timestamp": "2099-01-01T00:00:00.000Z", "id": "later"}
    del later["sessiontree"]
    made.write_text("\n".join([*lines, json.dumps(later), ""]))


def test_a_name_and_a_label_of_a_session_that_an_agent_keeps_are_kept_in_the_store(
    transcript: Path, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "store")
    before = transcript.read_bytes()
    told = said("rename", transcript.stem, "Mine")
    (kept,) = Store().list()
    assert f"its import has it: {kept.file}" in told
    done("label", transcript.stem, "@", "mark")
    assert listed() == [str(transcript)]
    assert "Mine" in done("ls")
    assert "mark" in done("tree", "Mine")
    assert transcript.read_bytes() == before


def test_latest_is_never_a_hidden_session(transcript: Path) -> None:
    with Session.create(transcript.parent.parent / "other.jsonl") as session:
        session.append_message({"role": "user", "content": "Later"})
    assert json.loads(done("show", "latest", "--json"))["id"] == session.id
    done("hide", "latest")
    assert json.loads(done("show", "latest", "--json"))["id"] == transcript.stem
