"""`convert` as a person uses it: data on one stream, what was lost on the other."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sessiontree import Session
from tests.support.terminal import contents, done, lines, printed_json, refused, run, said


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to stand in."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_a_file_has_the_name_that_its_program_would_give_it(chat: Path, here: Path) -> None:
    before = contents(chat.parent)
    names = [done("convert", chat, "--to", to).strip() for to in ("pi", "claude-code", "atif")]
    assert sorted(file.name for file in here.iterdir()) == sorted(names)
    assert names[0].endswith("_chat-id.jsonl")
    assert names[1].endswith(".jsonl")
    assert names[2] == "chat-id.trajectory.json"
    assert contents(chat.parent) == before


def test_convert_reports_what_the_target_cannot_keep(chat: Path, here: Path) -> None:
    done("label", chat, "@", "here")
    done("push", chat)
    said(chat, "user", "on")
    told = run("convert", chat, "--to", "claude-code", "-o", here / "one.jsonl")
    assert told.exit_code == 0
    assert told.stdout.strip() == str(here / "one.jsonl")
    assert "Not kept in claude-code: a label is left out (entry " in told.stderr
    printed = printed_json("convert", chat, "--to", "claude-code", "-o", here / "two.jsonl")
    assert (printed["to"], printed["warnings"], printed["beside"]) == ("claude-code", [], [])
    lost = {loss["what"]: loss for loss in printed["notExpressed"]}
    assert lost["a stack_push is left out"]["count"] == 1
    assert set(lost["a label is left out"]) == {"what", "count", "entry"}


def test_what_a_handle_points_to_is_found_below_the_root(chat: Path, here: Path) -> None:
    (here / "notes.md").write_text("Be quick")
    done("append", chat, "--handle", "file@1.0.0::path:notes.md")
    without = run("convert", chat, "--to", "pi", "-o", "-")
    assert "Be quick" not in without.stdout
    assert "name that folder as the root" in without.stderr
    assert "Be quick" in done("convert", chat, "--to", "pi", "-o", "-", "--root", here)


def test_one_file_goes_to_a_pipe_and_nothing_is_made(chat: Path, here: Path) -> None:
    trajectory = json.loads(done("convert", chat, "--to", "atif", "-o", "-"))
    assert [step["message"] for step in trajectory["steps"]] == ["hello", "hi", "more", "sure"]
    first, *_ = done("convert", chat, "--to", "pi", "-o", "-").splitlines()
    assert json.loads(first)["version"] == 3
    assert list(here.iterdir()) == []


def test_lanes_do_not_fit_into_a_pipe(chat: Path, here: Path) -> None:
    done("append", chat, "--role", "user", "--text", "look", "--lane", "reviewer")
    assert "more than one file" in refused("convert", chat, "--to", "claude-code", "-o", "-")
    done("convert", chat, "--to", "claude-code", "-o", "made.jsonl")
    assert (here / "made" / "subagents" / "agent-reviewer.jsonl").is_file()


def test_a_wrong_target_is_wrong_usage_and_lists_the_targets(chat: Path) -> None:
    told = refused("convert", chat, "--to", "aider", status=2)
    assert all(to in told for to in ("'pi'", "'claude-code'", "'codex'", "'gemini'", "'atif'"))
    refused("convert", chat, "--to", "pi", "-o", "-", "--json", status=2)


def test_a_damaged_file_is_converted_and_its_damage_reported(chat: Path, here: Path) -> None:
    chat.write_bytes(b"\n".join([*lines(chat)[:2], b"{torn", *lines(chat)[2:], b""]))
    told = run("convert", chat, "--to", "atif", "-o", "made.json")
    assert told.exit_code == 0
    assert "Damage: " in told.stderr
    assert len(json.loads((here / "made.json").read_text())["steps"]) == 4


def test_convert_fails_in_one_line_for_a_wrong_file_or_a_taken_name(chat: Path, here: Path) -> None:
    (here / "made").write_text("mine")
    for words in ((chat, "-o", "made"), (here / "made",), (here / "none",)):
        assert refused("convert", words[0], "--to", "pi", *words[1:]).count("\n") == 1
    assert (here / "made").read_text() == "mine"


def test_lanes_that_are_lost_in_the_same_way_share_a_line(tmp_path: Path) -> None:
    with Session.create(tmp_path / "s.jsonl", durability="os") as session:
        session.append_message({"role": "user", "content": "hello"})
        for number in range(3):
            with session.lane(f"agent-{number}") as lane:
                lane.append_message({"role": "user", "content": "a task"})
    told = run("convert", tmp_path / "s.jsonl", "--to", "codex", "-o", tmp_path / "c.jsonl").stderr
    assert told.count(" is left out") == 1
    assert re.search(r"the lane 'agent-0' is left out \(.+\); so it is with 2 other lanes\n", told)
