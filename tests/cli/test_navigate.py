from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from tests.support.table import for_each
from tests.support.terminal import contents, done, last, printed_json, refused, run, said, texts


def program(source: str) -> str:
    """A summarizer that runs some Python."""
    return shlex.join([sys.executable, "-c", source])


@pytest.mark.parametrize("command", ["branch", "branch-here"])
def test_branch_goes_on_from_an_entry_in_the_same_file(chat: Path, command: str) -> None:
    entry = printed_json(command, chat, "@~2")
    assert list(chat.parent.glob("*.jsonl")) == [chat]
    assert entry["type"] == "branch"
    assert texts(chat) == ["hello", "hi"]
    said(chat, "user", "instead")
    assert texts(chat) == ["hello", "hi", "instead"]


def test_a_named_branch_is_found_by_its_name(chat: Path) -> None:
    tip = last(chat)["uuid"]
    done("branch", chat, "@~2", "--name", "other", "--summary", "left")
    said(chat, "user", "instead")
    done("switch", chat, tip)
    assert texts(chat)[-1] == "sure"
    done("switch", chat, "other")
    assert texts(chat) == ["hello", "hi", "left", "instead"]


def test_switching_to_the_leaf_writes_nothing(chat: Path) -> None:
    before = contents(chat.parent)
    result = run("switch", chat, "@")
    assert result.exit_code == 0
    assert "nothing was written" in result.stderr
    assert result.stdout == last(chat)["uuid"] + "\n"
    assert contents(chat.parent) == before


def test_rewind_prints_the_prompt_to_be_edited(chat: Path) -> None:
    assert done("rewind", chat) == "more\n"
    assert texts(chat) == ["hello", "hi"]
    first = printed_json("path", chat)[1]["uuid"]
    found = printed_json("rewind", chat, first)
    assert found == {"text": "hello", "prompt": first, "entry": last(chat)}
    assert texts(chat) == []


def test_push_and_pop_come_back_with_a_summary(chat: Path) -> None:
    note = printed_json("push", chat, "--note", "side trip")
    said(chat, "user", "look into it")
    said(chat, "assistant", "it is so")
    popped = printed_json("pop", chat)
    assert (popped["type"], popped["parentUuid"]) == ("stack_summary", note["uuid"])
    assert "look into it" in popped["summary"]
    assert "it is so" in popped["summary"]


def test_pop_to_a_ref_hangs_below_that_very_entry(chat: Path) -> None:
    target = printed_json("path", chat)[1]["uuid"]
    popped = printed_json("pop", chat, target, "--summary", "tried")
    assert popped["parentUuid"] == target
    assert texts(chat) == ["hello", "tried"]


def test_compact_summarizes_all_before_the_first_kept(chat: Path) -> None:
    kept = printed_json("path", chat)[3]["uuid"]
    entry = printed_json("compact", chat, "--first-kept", "@~1")
    assert entry["firstKeptEntryUuid"] == kept
    assert texts(chat)[1:] == ["more", "sure"]
    assert "hello" in texts(chat)[0]


@pytest.mark.parametrize("mark", [("edit-context", "@~3", "--drop"), ("label", "@", "here")])
def test_compact_keeps_the_message_above_an_annotation(chat: Path, mark: tuple[str, ...]) -> None:
    command, *words = mark
    done(command, chat, *words)
    done("compact", chat, "--first-kept", "@", "--summary", "so far")
    assert texts(chat)[1:] == ["sure"]


def test_compact_with_a_summary_acts_on_a_short_context(chat: Path) -> None:
    done("compact", chat, "--summary", "so far")
    assert texts(chat) == ["so far"]


def test_a_plan_is_a_request_to_a_model_and_writes_nothing(chat: Path) -> None:
    before = contents(chat.parent)
    words = ("--first-kept", "@~1", "--instructions", "In French", "--plan")
    printed = run("compact", chat, *words)
    plan = printed_json("compact", chat, *words)
    assert contents(chat.parent) == before
    assert [entry["message"]["content"] for entry in plan["entries"]] == ["hello", "hi"]
    assert printed.stdout == plan["text"] + "\n"
    assert plan["text"].index("hello") < plan["text"].index("In French")
    kept = f"--first-kept {plan['firstKeptEntryUuid']} --summary TEXT"
    assert f"sessiontree compact {chat} {kept}" in printed.stderr
    assert plan["tokensAfter"] < plan["tokensBefore"]


def test_a_plan_may_be_of_a_lane_and_may_keep_nothing(chat: Path) -> None:
    done("append", chat, "--lane", "side", "--text", "aside")
    printed = run("compact", chat, "--plan", "--lane", "side")
    assert "aside" in printed.stdout
    assert f"sessiontree compact {chat} --lane side --keep 0 --summary TEXT" in printed.stderr


def test_a_program_that_summarizes_gets_the_instructions(chat: Path) -> None:
    entry = printed_json("compact", chat, "--summarizer", "cat", "--instructions", "In French")
    assert entry["summary"].startswith("user: hello")
    assert entry["summary"].endswith("The user's instructions for the summary: In French")


def test_moving_above_a_compaction_warns_in_one_line(chat: Path) -> None:
    done("compact", chat, "--keep", "0", "--summary", "all of it")
    assert texts(chat) == ["all of it"]
    result = run("branch", chat, printed_json("path", chat)[1]["uuid"])
    assert result.exit_code == 0
    warned = [line for line in result.stderr.splitlines() if line.startswith("Warning: ")]
    assert len(warned) == 1
    assert "tokens again" in warned[0]


WITH_SUMMARY = [("branch", "@~2"), ("pop", "@~2"), ("compact", "--first-kept", "@~1")]


@pytest.mark.parametrize("words", WITH_SUMMARY)
def test_a_program_may_write_the_summary(chat: Path, words: tuple[str, ...]) -> None:
    upper = program("import sys; print(sys.stdin.read().upper())")
    entry = printed_json(words[0], chat, *words[1:], "--summarizer", upper)
    asked, answered = ("HELLO", "HI") if words[0] == "compact" else ("MORE", "SURE")
    assert entry["summary"] == f"USER: {asked}\n\nASSISTANT: {answered}"


def test_a_program_may_write_the_summary_of_a_merge(forked: Path, left: str) -> None:
    entry = printed_json("merge", forked, left, "--summarizer", "cat")
    assert entry["summary"] == "user: more\n\nassistant: sure"


@for_each("words", WITH_SUMMARY)
@for_each(
    ("summarizer", "error"),
    [
        (program("raise SystemExit(3)"), "failed with status 3"),
        (program("import os; os.kill(os.getpid(), 9)"), "failed with status -9"),
        (program("print('  ')"), "answered nothing"),
        (program("import os; os.write(1, bytes([255]))"), "did not answer in UTF-8"),
        ("/nowhere/summarizer", "cannot be run"),
    ],
)
def test_a_program_that_fails_to_write_it_changes_nothing(
    chat: Path, words: tuple[str, ...], summarizer: str, error: str
) -> None:
    before = contents(chat.parent)
    told = refused(words[0], chat, *words[1:], "--summarizer", summarizer)
    assert told.startswith("Error: the summarizer ")
    assert error in told
    assert told.count("\n") == 1
    assert contents(chat.parent) == before


def test_a_program_that_does_not_read_the_transcript_may_answer(chat: Path) -> None:
    said(chat, "user", "long " * 100_000)
    entry = printed_json("pop", chat, "@~2", "--summarizer", "echo short")
    assert entry["summary"] == "short"


def test_no_shell_reads_the_summarizer(chat: Path) -> None:
    entry = printed_json("branch", chat, "@~2", "--summarizer", "echo 'a b' ; $HOME")
    assert entry["summary"] == "a b ; $HOME"


@pytest.mark.slow
@pytest.mark.parametrize("words", WITH_SUMMARY)
def test_others_may_write_while_a_program_thinks(chat: Path, words: tuple[str, ...]) -> None:
    source = (
        "import subprocess, sys;"
        f"subprocess.run([sys.executable, '-m', 'sessiontree', 'append', {str(chat)!r},"
        " '--text', 'meanwhile'], check=True, stdout=subprocess.DEVNULL); print('thought')"
    )
    result = run(words[0], chat, *words[1:], "--summarizer", program(source))
    assert result.exit_code == 0
    assert "Warning: meanwhile another writer added" in result.stderr
    kept = ["more", "sure"] if words[0] == "compact" else ["hello", "hi"]
    assert sorted(map(str, texts(chat))) == sorted([*kept, "thought"])
    assert "meanwhile" in [branch["preview"] for branch in printed_json("branches", chat)]


def test_summarize_uses_the_built_in_summarizer(chat: Path) -> None:
    entry = printed_json("branch", chat, "@~2", "--summarize")
    assert entry["summary"] == "Asked:\n- more\n\nLast answer: sure"


MOVES = [
    ["branch", "@~2"],
    ["switch", "@~2"],
    ["rewind"],
    ["push"],
    ["pop", "@~1"],
    ["compact", "--keep", "0"],
]


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move[0])
def test_a_move_on_a_lane_leaves_main_where_it_is(chat: Path, move: list[str]) -> None:
    command, *words = move
    done("append", chat, "--text", "on it", "--lane", "side")
    before, leaf = texts(chat), last(chat)
    result = run(command, chat, *words, "--lane", "side")
    assert result.exit_code == 0
    assert "on lane side" in result.stderr
    assert texts(chat) == before
    assert last(chat) != leaf
    assert last(chat)["lane"] == "side"


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move[0])
def test_a_move_on_a_scratch_lane_says_how_to_keep_it(chat: Path, move: list[str]) -> None:
    command, *words = move
    before = texts(chat)
    result = run(command, chat, *words, "--scratch")
    assert result.exit_code == 0
    assert texts(chat) == before
    kept = shlex.split(result.stderr.partition("to keep it: sessiontree ")[2].splitlines()[0])
    done(*kept)
    if command not in ("push", "switch"):
        assert texts(chat) != before
    refused(command, chat, *words, "--scratch", "--lane", "x", status=2)
