"""The outline on a terminal: what a person sees of a session on one screen."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from sessiontree import Session
from sessiontree.cli.screen import Screen, path_in
from sessiontree.core.display import one_line, printable
from sessiontree.text.columns import cut_start
from sessiontree.views.drawing import OutlineRenderer
from sessiontree.views.words import without_path
from tests.agents.test_claude_code_queue import NOTE
from tests.cli.test_tree import in_terminal
from tests.support.conversation import HEADER, line, message, opened, write
from tests.support.table import for_each
from tests.support.terminal import done, run
from tests.support.transcripts import (
    CALL,
    Line,
    assistant,
    result,
    user,
    written,
)

NOW = datetime(2026, 2, 11, tzinfo=UTC)
LONG = "All parts of the importer are written, and the tests that were asked for pass. " * 5


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def drawn(session: Session, width: int = 80, height: int | None = 23) -> list[str]:
    screen = Screen(width, False, NOW, height)
    return list(screen.drawn(OutlineRenderer(session.outline(), screen).lines()))


DONE = "I did it as you asked, and all of the tests pass"


def turns(count: int, answer: str = DONE) -> list[Line]:
    lines, above = [], "root"
    for number in range(1, count + 1):
        prompt = f"prompt {number} with some words that say what is to be done here"
        lines += [message(f"p{number}", above, prompt, "user")]
        lines += [message(above := f"a{number}", f"p{number}", f"{answer} {number}", "assistant")]
    return lines


def test_every_turn_tells_what_came_out_of_it_while_rows_are_free(file: Path) -> None:
    with opened(file, *turns(9)) as session:
        for height in (23, None, 9):  # it fits, it is piped, it goes to a pager
            told = [row for row in drawn(session, height=height) if row.startswith("     →")]
            assert len(told) == 9
        assert sum("→" in row for row in drawn(session, height=14)) == 3


def test_a_short_prompt_is_followed_by_what_came_out_where_rows_are_few(file: Path) -> None:
    short = [message("q", "a2", "ok", "user"), message("b", "q", DONE, "assistant")]
    after = [{**one, "uuid": f"x{one['uuid']}"} for one in turns(3)]
    for one, above in zip(after, ["b", *(one["uuid"] for one in after)], strict=False):
        one["parentUuid"] = above
    with opened(file, *turns(2), *short, *after) as session:
        rows = drawn(session, height=10)
        assert len(rows) == 10
        assert rows[4] == f"● 3  ok  → {DONE} 1"[: len(rows[4])]


QUESTION = "Which of the two stores do you want to use for the sessions of the users?"


def asked_and_replied(uuid: str, above: str) -> list[Line]:
    ask = {"questions": [{"question": QUESTION}]}
    call = {"type": "tool_use", "id": "c", "name": "AskUserQuestion", "input": ask}
    reply = f'User has answered your questions: "{QUESTION}"="the small one". You can now continue'
    found = {"type": "tool_result", "tool_use_id": "c", "content": reply}
    said = [message(f"{uuid}1", above, "", "assistant"), message(f"{uuid}2", f"{uuid}1", "")]
    said[0]["message"]["content"], said[1]["message"]["content"] = [call], [found]
    return [*said, message(f"{uuid}3", f"{uuid}2", DONE, "assistant")]


def test_what_the_user_replied_to_a_question_is_a_row_while_rows_are_free(file: Path) -> None:
    question = message("q", "a2", "Store them", "user")
    with opened(file, *turns(2), question, *asked_and_replied("r", "q")) as session:
        row = next(row for row in drawn(session) if "?" in row)
        assert row == f"     ? {QUESTION[:56]}… — the small one"
        assert max(map(cell_len, drawn(session, 40))) <= 40
        for height, count in ((8, 0), (None, 1), (5, 1)):
            rows = drawn(session, height=height)
            assert sum("— the small one" in row for row in rows) == count
    opened_turn = done("tree", file, "--turn", "3")
    assert "r2        user         ? Which of the two" in opened_turn
    assert "— the small one" in opened_turn


def test_a_prompt_is_shown_whole_while_the_screen_has_room(file: Path) -> None:
    lines = turns(3)
    asked = [message("q", "a3", LONG[:200], "user"), message("b", "q", "**Yes**↵", "assistant")]
    with opened(file, *lines, *asked) as session:
        rows = drawn(session)
        row = next(at for at, row in enumerate(rows) if "All parts" in row)
        said = " ".join(each.strip().strip("…") for each in rows[row : row + 4])
        for word in LONG[:200].split()[:-1]:
            assert word[:6] in said
        assert "→ Yes  ←" in rows[-1]
        assert sum("asked for" in row for row in drawn(session, height=len(lines) + 7)) < 2
        for height in range(8, 24):
            assert len(drawn(session, height=height)) <= max(height, 12)


def test_a_long_outline_begins_with_the_end_and_folds_side_branches(file: Path) -> None:
    side = [message("s1", "a3", "a side way", "user"), message("t1", "s1", "tried", "assistant")]
    side += [message("s2", "t1", "more of it", "user"), message("t2", "s2", "again", "assistant")]
    lines = turns(30)
    with opened(file, *lines[:8], *side, *lines[8:]) as session:
        rows = drawn(session)
        assert rows[2].startswith("last: 32  prompt 30")
        assert "→ I did it" in rows[3]
        assert "--depth 9" in rows[4] + rows[5]
        assert sum("a side way" in row for row in rows) == 1
        assert not any("more of it" in row for row in rows)
        assert all(f"prompt {n} " in "".join(rows) for n in range(1, 31))
        assert "more of it" in "".join(drawn(session, height=200))
        assert max(map(cell_len, rows)) <= 80


def test_the_end_goes_back_to_an_answer_that_tells_something(file: Path) -> None:
    thanks = [message("p", "a30", "thanks", "user"), message("a", "p", "Sure.", "assistant")]
    with opened(file, *turns(30, f"{DONE}, as planned"), *thanks) as session:
        rows = drawn(session)
        assert [row[:8] for row in rows if row.startswith("last:")] == ["last: 30", "last: 31"]


def test_a_prompt_has_the_columns_that_figures_leave_free(file: Path) -> None:
    with opened(file, *turns(2)) as session:
        assert any("say what is to be done here" in row for row in drawn(session))


@for_each(
    ("prompt", "shown"),
    [
        ("'/var/folders/49/l4/T/shot-1.png' mend it", "[shot-1.png] mend it"),
        ("/var/folders/a\\ b is it", "[a\\ b] is it"),
        ("/tmp/some/where/x.log↵why?", "[x.log] why?"),
        ("'/var/folders/49/l4/T/a-very-long-name-of-a-file.png' x", "[…e-of-a-file.png] x"),
        ("/review the code", "/review the code"),
        ("/tmp/only/a/path", "/tmp/only/a/path"),
    ],
)
def test_a_prompt_that_begins_with_a_pasted_path_shows_what_follows(
    prompt: str, shown: str
) -> None:
    assert without_path(prompt) == shown


def test_paths_are_relative_and_lose_their_start() -> None:
    assert path_in("/home/me/app/lib/web/live.ex", "/home/me/app", 40) == "lib/web/live.ex"
    assert path_in("/home/me/app/lib/web/live.ex", "/home/me/app", 10) == "…b/live.ex"
    assert cut_start("日本語のファイル", 7) == "…ァイル"
    assert path_in("/else/x", "/home", 40) == "/else/x"


SAID: dict[str, tuple[list[Any], str]] = {
    "a note of a task": ([LONG, NOTE, "An old task ended."], LONG),
    "a note and a look": ([LONG, NOTE, 1, "Nothing is new."], LONG),
    "a note and a little work": ([LONG, NOTE, 2, LONG[::-1]], LONG[::-1]),
    "only a note": ([NOTE, "It ended."], "It ended."),
    "work after a note": (["Wait.", NOTE, 5, "Now it passes."], "Now it passes."),
    "a remark": ([LONG, 1, "Shall I go on?"], LONG),
    "a remark after work": ([LONG, 5, "It is pushed."], "It is pushed."),
}


@for_each("name", SAID)
def test_the_result_of_a_turn_is_the_last_answer_of_substance(name: str, tmp_path: Path) -> None:
    steps, expected = SAID[name]
    lines, above = [user("p", None)], "p"
    for number, step in enumerate(steps):
        uuid = f"n{number}"
        if step == NOTE:
            lines.append(user(uuid, above, step))
        elif isinstance(step, int):
            lines.append(assistant(uuid, above, uuid, [f"{uuid}{c}" for c in range(step)]))
            lines[-1]["message"]["content"].pop(0)
        else:
            lines.append(assistant(uuid, above, uuid))
            lines[-1]["message"]["content"][0]["text"] = step
        above = uuid
    with Session.open(written(tmp_path / "s.jsonl", lines), readonly=True) as session:
        (turn,) = session.outline().turns
        assert turn.answer == one_line(expected.strip(), 500)


STOP = "[Request interrupted by user]"


@pytest.mark.parametrize(
    ("end", "said", "stopped"),
    [([STOP], "given up", 1), ([STOP, "went"], "interrupted once, went on", 0)],
)
def test_a_turn_that_went_on_says_so(end: list[str], said: str, stopped: int, file: Path) -> None:
    roles = {STOP: "user", "went": "assistant"}
    lines, above = turns(1), "a1"
    for number, text in enumerate(end):
        lines.append(message(f"e{number}", above, text, roles[text]))
        above = f"e{number}"
    with opened(file, *lines) as session:
        (turn,) = session.outline().turns
        assert (turn.work.interruptions, turn.work.stopped) == (1, stopped)
        row = next(row for row in drawn(session, 200) if "●" in row)
        assert said in row
        assert ("went on" in row) == (not stopped)


def test_a_compaction_stands_under_the_command_that_caused_it(tmp_path: Path) -> None:
    about = {"subtype": "compact_boundary", "compactMetadata": {"preTokens": 9}}
    mark = {**user("m", None), "type": "system", "logicalParentUuid": "b", **about}
    command = "<command-name>/compact</command-name><command-args>and go on</command-args>"
    lines = [user("a", None), assistant("b", "a"), mark]
    lines += [user("s", "m", "what was done", isCompactSummary=True), user("c", "s", command)]
    with Session.open(written(tmp_path / "s.jsonl", lines), readonly=True) as session:
        first, second = session.outline().turns
        assert (first.events, second.prompt) == ((), "/compact and go on")
        assert [event.kind for event in second.events] == ["compaction"]


def test_a_subagent_without_a_file_has_a_row_that_says_so(tmp_path: Path) -> None:
    call = assistant("b", "a", "m", ["t"])
    asked = {"description": "Find callers", "subagent_type": "Explore", "prompt": "Find"}
    call["message"]["content"][1] |= {"name": "Task", "input": asked}
    refused = result("r", "b", "t")
    refused["message"]["content"][0]["content"] = "The user doesn't want to proceed with this"
    for end, count in ((CALL[2], 1), (refused, 0)):
        file = written(tmp_path / "s.jsonl", [CALL[0], call, end])
        with Session.open(file, readonly=True) as session:
            rows = [row for row in drawn(session) if "Explore: Find callers" in row]
            assert [row.endswith("its transcript is missing") for row in rows] == [True] * count


def test_all_rows_of_a_terminal_are_as_wide_as_the_screen_at_most(file: Path) -> None:
    label = line("label", "l", "a4", targetUuid="a2", label="x y")
    write(file, [HEADER, *turns(4, "words " * 40), label])
    for words in (("--all",), ("--turn", "2"), ()):
        shown = in_terminal("tree", str(file), *words, rows=99, NO_COLOR="1")
        assert max(map(cell_len, shown.splitlines())) <= 60
    assert "a2" in in_terminal("tree", str(file), "--all", rows=99, NO_COLOR="1")
    assert max(map(len, done("tree", file, "--all").splitlines())) > 60


def test_show_of_an_entry_without_content_names_the_last_that_has_some(file: Path) -> None:
    level = line("thinking_level_change", "t", "b", thinkingLevel="x")
    write(file, [HEADER, *turns(1), line("branch", "b", "a1"), level])
    shown = run("show", file, "@")
    assert "thinking_level_change" in shown.stdout
    named = shown.stderr.strip().rpartition(" ")[2]
    assert named == "a1"
    assert (
        done("show", file, named).splitlines()[-1]
        == "I did it as you asked, and all of the tests pass 1"
    )


def test_escape_sequences_are_removed_whole() -> None:
    assert printable("\x1b[1mDefault\x1b[0m x\x1b]0;title\x07y\x1b[") == "Default xy"
    assert one_line("Set model to \x1b[1;38;5;12mbest\x1b[22m") == "Set model to best"
    assert one_line("a" * 118 + "\x1b[1mb\x1b[0m", 60).endswith("a…")


def test_a_command_and_what_the_program_wrote_are_told_apart_in_markdown(tmp_path: Path) -> None:
    command = "<command-name>/mcp</command-name><command-args>list</command-args>"
    caveat = "<local-command-caveat>Caveat: not of the user</local-command-caveat>"
    lines = [user("a", None, caveat), user("b", "a", command), assistant("c", "b")]
    text = done("export", written(tmp_path / "s.jsonl", lines), "--format", "markdown")
    assert "> /mcp list" in text
    assert "command-name" not in text
    assert text.index("## Program") < text.index("Caveat") < text.index("## User")
