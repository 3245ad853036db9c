"""Each key that reads does what the sheet of keys says."""

from __future__ import annotations

import os
import threading
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from benchmarks.viewers import sessions
from sessiontree import Session
from sessiontree.tui import outline
from tests.support.spent import CLAUDE_CODE, claude_code_home
from tests.support.table import for_each
from tests.support.terminal import utc
from tests.tui.driving import Driven, drive
from tests.tui.sessions import branched, saying


def test_typing_filters_and_esc_clears_and_ends(tmp_path: Path) -> None:
    for name in ("apples", "pears"):
        saying(tmp_path / f"{name}.jsonl", f"Count the {name}")

    async def steps(driven: Driven) -> None:
        assert "2 sessions" in driven.rows[0]
        await driven.press("slash")  # the key to the filter, which is no part of it
        assert "Count the pears" in await driven.type("PEARS count")
        assert "1 of 2 sessions" in driven.rows[0]
        assert "no session has all these words" in await driven.type("x")
        assert "1 of 2" in await driven.press("backspace")
        assert "2 sessions" in await driven.press("escape")
        await driven.press("escape")
        assert not driven.app.is_running

    drive(steps, tmp_path)


def test_sorting_goes_through_the_orders_of_ls(tmp_path: Path) -> None:
    saying(tmp_path / "large.jsonl", *map(str, range(9)))
    saying(tmp_path / "small.jsonl", "small")

    async def steps(driven: Driven) -> None:
        orders = [(await driven.press("ctrl+s")).splitlines()[0].split()[-1] for _ in range(5)]
        assert orders == ["created", "size", "name", "cost", "modified"]
        await driven.press("ctrl+s", "ctrl+s")
        assert driven.rows[2].endswith("KB")
        assert driven.rows[3].endswith(" B")

    drive(steps, tmp_path)


def test_the_list_is_read_again(tmp_path: Path) -> None:
    async def steps(driven: Driven) -> None:
        assert "there is no session" in driven.text
        await driven.press("enter")  # opens nothing
        saying(tmp_path / "new.jsonl", "Something new")
        assert "Something new" in await driven.press("f5")

    drive(steps, tmp_path)


def test_the_outline_has_the_branches_and_folds_them(tmp_path: Path) -> None:
    async def steps(driven: Driven) -> None:
        rows = [row.split("  →")[0].rstrip() for row in driven.rows[1:4]]
        assert rows == ["● 1   Build a CLI", "│ ○ 2   In Go", "● 3   [rust] ◀ In Rust"]
        assert "In Rust" in driven.chosen  # where the session is
        assert "In Go" in (await driven.press("left_square_bracket"), driven.chosen)[1]
        assert "▸ 1 turn" in (await driven.press("space"), driven.chosen)[1]
        assert "▸" not in (await driven.press("space"), driven.chosen)[1]
        assert "▸ 1 turn" in await driven.press("z")
        assert "▸" not in await driven.press("z")
        assert "In Rust" in (await driven.press("at"), driven.chosen)[1]
        assert "nothing folds here" in await driven.press("space")
        assert "no other branch" in await driven.press("right_square_bracket")

    drive(steps, file=branched(tmp_path / "s.jsonl"))


def test_a_turn_is_shown_in_full_and_folds(tmp_path: Path) -> None:
    async def steps(driven: Driven) -> None:
        text = await driven.press("enter")
        assert "40 lines" in text
        assert "line 11" not in text
        assert "entry 2 of 3" in await driven.press("right_square_bracket")
        assert "line 11" in await driven.press("j", "space")
        assert "line 11" not in await driven.press("space")
        assert "entry 1 of 3" in await driven.press("left_square_bracket")
        await driven.press("z")
        assert "line 39" in await driven.press("G", "k", "k", "k")
        await driven.press("z")
        assert "line 39" not in await driven.press("g")

    drive(steps, file=branched(tmp_path / "s.jsonl"))


def test_a_search_in_a_turn_unfolds_and_counts_its_matches(tmp_path: Path) -> None:
    async def steps(driven: Driven) -> None:
        await driven.press("enter", "slash")
        assert "match 1 of 11" in await driven.press(*"LINE", "space", "3", "enter")
        assert "line 3" in driven.chosen
        assert "match 2 of 11" in await driven.press("n")
        assert "match 1 of 11" in await driven.press("N")
        assert "match 11 of 11" in await driven.press("N")
        await driven.press("slash")
        assert "nothing in this turn matches" in await driven.press(*"zebra", "enter")

    size = (100, 60)
    drive(steps, file=branched(tmp_path / "s.jsonl"), size=size)


def test_a_search_finds_entries_on_all_branches_and_opens_them(tmp_path: Path) -> None:
    async def steps(driven: Driven) -> None:
        await driven.press("slash")
        text = await driven.press(*"in", "space", *"gop", "backspace", "enter")
        assert "2 hits" in text
        assert "Here it is in Go." in await driven.press("down", "enter")
        assert "entry 2 of 2" in driven.rows[0]
        await driven.press("escape", "slash", *"zebra", "enter")
        assert "nothing matches zebra" in driven.foot
        await driven.press("escape", "slash", *"go", "space", *"here")
        assert "1 hit" in await driven.press("enter")  # all words, as the command search has it
        await driven.press("escape")
        await driven.press("slash", "x", "escape")  # asks, and is not answered
        assert "Branched" in driven.rows[0]

    drive(steps, file=branched(tmp_path / "s.jsonl"))


def test_labels_and_costs_lead_to_their_turns(tmp_path: Path) -> None:
    file = branched(tmp_path / "s.jsonl")
    with Session.open(file, durability="os") as session:
        session.append_message(
            {
                "role": "assistant",
                "content": "Dear.",
                "usage": {"input": 1000, "output": 10, "cost": {"total": 0.5}},
            }
        )

    async def steps(driven: Driven) -> None:
        assert "● rust" in await driven.press("L")
        assert "turn 3 · In Rust" in await driven.press("enter")
        assert "$0.50" in await driven.press("escape", "dollar_sign")
        assert "turn 3 · In Rust" in await driven.press("enter")

    drive(steps, file=file)


def test_costs_are_added_up_by_day_project_model_and_agent(tmp_path: Path) -> None:
    claude_code_home(tmp_path / "one", CLAUDE_CODE["fast mode"])
    renamed = [deepcopy(line) for line in CLAUDE_CODE["a cost beside the answer"]]
    for line in renamed:
        line["message"]["id"] += "2"  # another answer, and no copy of it
    other = claude_code_home(tmp_path / "other", renamed)
    other.rename(other.with_name("60000000-0000-4000-8000-000000000000.jsonl"))

    async def steps(driven: Driven) -> None:
        await driven.press("ctrl+e")
        assert driven.rows[0].split("  ")[0] == "Costs by day · $4.05"
        assert driven.rows[0].endswith("█ $0.75 reported · ░ $3.30 estimated")
        assert driven.chosen.split()[:2] == ["2026-02-10", "$4.05"]
        for period in ("week", "month", "block"):
            assert f"Costs by {period}" in await driven.press("tab")
        assert "Costs by project" in await driven.press("tab")
        assert driven.chosen.startswith("/project")
        await driven.press("tab")
        names = [row.split()[0] for row in driven.rows[1:4]]
        assert names == ["claude-opus-4-6", "claude-opus-5", "claude-opus-4-8"]
        assert driven.chosen.startswith("claude-opus-4-6")
        assert "█" in driven.chosen
        assert "░" in driven.chosen
        assert "claude-code" in await driven.press("right")
        assert "Costs by model" in await driven.press("left")
        await driven.press("escape")
        assert "2 sessions" in driven.rows[0]

    with utc():
        drive(steps, tmp_path)


def test_sessions_without_tokens_cost_nothing(tmp_path: Path) -> None:
    saying(tmp_path / "s.jsonl", "Nothing spent")

    async def steps(driven: Driven) -> None:
        await driven.press("ctrl+e")
        assert "report no tokens and no cost" in driven.foot

    drive(steps, tmp_path)


def test_the_last_turns_of_a_large_transcript_are_read_before_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole file is read when the test allows it; a turn can be read before."""
    file = tmp_path / "s.jsonl"
    sessions.write(file, sessions.made(), 2.5)
    may_read = threading.Event()

    def whole(*given: Any) -> Any:
        may_read.wait(60)
        return read_whole(*given)

    read_whole = outline._whole
    monkeypatch.setattr(outline, "_whole", whole)

    async def steps(driven: Driven) -> None:
        await driven.pilot.press("enter")
        while "●" not in driven.text:
            await driven.pilot.pause(0.05)
        assert "reading" in driven.rows[0]
        last = driven.chosen
        await driven.pilot.press("up", "enter")
        while "wombat" not in driven.text or "entry" not in driven.rows[0]:
            await driven.pilot.pause(0.05)
        await driven.pilot.press("escape")
        await driven.pilot.pause()
        above = driven.chosen
        assert above != last
        may_read.set()
        await driven.settled()
        assert "reading" not in driven.rows[0]
        assert above.split("quokka")[1][:30] in driven.chosen  # the cursor stays on its turn
        assert "wombat" in await driven.press("enter")

    drive(steps, tmp_path)


def test_the_text_of_an_entry_is_copied(tmp_path: Path) -> None:
    async def steps(driven: Driven) -> None:
        assert "copied" in await driven.press("enter", "y")

    assert drive(steps, file=branched(tmp_path / "s.jsonl")).clipboard == "In Rust"


@for_each("keys", [("question_mark",), ("f1",)])
def test_the_sheet_lists_each_key_of_its_view(tmp_path: Path, keys: tuple[str, ...]) -> None:
    async def steps(driven: Driven) -> None:
        described = {binding.description for binding in driven.app.screen.BINDINGS}  # type: ignore[union-attr]
        text = await driven.press(*keys)
        assert all(each in text for each in described)

    drive(steps, file=branched(tmp_path / "s.jsonl"), size=(100, 50))


def test_moving_keys_reach_each_line_and_stop_at_the_ends(tmp_path: Path) -> None:
    file = saying(tmp_path / "s.jsonl", *(f"prompt {n}" for n in range(100)))

    async def steps(driven: Driven) -> None:
        for keys, number in (
            (("home",), 0),
            (("down", "j"), 2),
            (("up", "k", "k"), 0),
            (("pagedown",), 21),
            (("pageup",), 0),
            (("end",), 99),
            (("g",), 0),
            (("G", "down"), 99),
        ):
            await driven.press(*keys)
            assert f" prompt {number} " in f"{driven.chosen} ", keys

    drive(steps, file=file)


def test_the_view_follows_the_size_of_the_terminal(tmp_path: Path) -> None:
    async def steps(driven: Driven) -> None:
        for width, height in ((40, 10), (20, 5), (1, 1), (200, 50)):
            await driven.pilot.resize_terminal(width, height)
            await driven.settled()
            assert len(driven.rows) == height
        assert "In Rust" in driven.text
        await driven.press("enter")
        await driven.pilot.resize_terminal(30, 12)
        assert "In Rust" in await driven.settled()

    drive(steps, file=branched(tmp_path / "s.jsonl"))


def test_reading_changes_nothing(tmp_path: Path) -> None:
    file = branched(tmp_path / "s.jsonl")
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir()}

    async def steps(driven: Driven) -> None:
        await driven.press("enter", "enter", "escape", "L", "escape", "dollar_sign", "escape")
        await driven.press("slash", "g", "o", "enter", "enter")

    drive(steps, tmp_path)
    assert {
        path: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir()
    } == before
    assert os.listdir(tmp_path) == [file.name] or len(before) == len(os.listdir(tmp_path))


@for_each("key", ["ctrl+q", "ctrl+c"])
def test_two_keys_end_the_browser_from_everywhere(tmp_path: Path, key: str) -> None:
    branched(tmp_path / "s.jsonl")
    for before in ((), ("enter",), ("enter", "enter"), ("enter", "slash"), ("ctrl+f",)):

        async def steps(driven: Driven, before: tuple[str, ...] = before) -> None:
            await driven.press(*before)
            await driven.pilot.press(key)
            await driven.pilot.pause()
            assert not driven.app.is_running

        drive(steps, tmp_path)
