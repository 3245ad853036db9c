"""The outline on the screen: its options, its width, its pager."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.cli.outlines import WORKED
from tests.support.conversation import line
from tests.support.soak import in_soak
from tests.support.table import for_each
from tests.support.terminal import done, driving, printed_json, refused, run

FIXTURES = Path(__file__).parents[2] / "fixtures"
FILES = [*sorted(FIXTURES.glob("*/session.jsonl")), *sorted(FIXTURES.glob("agents/*/**/*.jsonl"))]
_STYLE = re.compile(r"\x1b\[[\d;]*m")


WIDTHS = ["40", "80", "200"]


@pytest.mark.slow
@for_each("width", WIDTHS)
@in_soak("every", 6, 1)
def test_no_line_is_wider_than_the_screen_and_none_drives_it(
    width: str, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    monkeypatch.setenv("FORCE_COLOR", "1")
    for file in (*FILES[WIDTHS.index(width) :: len(WIDTHS) * every], WORKED):
        for words in (("tree",), ("tree", "--depth", "9"), ("labels",), ("diff", "@~1")):
            drawn = _STYLE.sub("", run(words[0], file, *words[1:]).stdout)
            assert driving(drawn) == set()
            wide = [line for line in drawn.split("\n") if cell_len(line) > int(width)]
            assert wide == [], (file, words)


def test_a_turn_is_opened_by_its_number_its_part_or_an_entry_of_it() -> None:
    assert done("tree", WORKED, "--turn", "3") == done("tree", WORKED, "--turn", "green")
    assert "Which version" in done("tree", WORKED, "--turn", "5.1")
    rows = printed_json("tree", WORKED, "--turn", "5.1")
    assert [row["uuid"] for row in rows] == ["a11"]
    assert printed_json("tree", WORKED, "--turn", "s2")[0]["lane"] == "agent-callers"


@for_each(
    ("turn", "told"),
    [
        ("99", "there is no turn 99: its turns are 1 to 6"),
        ("5.7", "there is no turn 5.7"),
        ("root", "'root' is above all turns"),
        ("gone-away", "no entry is named 'gone-away'"),
    ],
)
def test_a_turn_that_is_not_there_is_refused_with_the_turns_there_are(turn: str, told: str) -> None:
    assert told in refused("tree", WORKED, "--turn", turn)


@for_each("turn", ["1", "3", "5", "5.1", "6"])
def test_a_turn_is_a_ref_wherever_a_ref_is_taken(turn: str, tmp_path: Path) -> None:
    first = printed_json("tree", WORKED, "--turn", turn)[0]["uuid"]
    ref = f"turn:{turn}"
    assert printed_json("show", WORKED, ref)["uuid"] == first
    assert printed_json("path", WORKED, f"{ref}~0") == printed_json("path", WORKED, first)
    assert printed_json("diff", WORKED, ref) == printed_json("diff", WORKED, first)
    assert printed_json("tree", WORKED, "--turn", ref)[0]["uuid"] == first
    copy = tmp_path / "copy.jsonl"
    shutil.copy(WORKED, copy)
    assert printed_json("label", copy, ref, "here")["targetUuid"] == first
    assert printed_json("branch", copy, f'"turn:{turn}"', "--name", "again")["parentUuid"] == first


@for_each(
    ("ref", "told"),
    [
        ("5", "no entry is named '5'; for the prompt of turn 5, give turn:5"),
        ("5.1", "give turn:5.1"),
        ("turn:99", "there is no turn 99: its turns are 1 to 6"),
        ("turn:x", "no entry is named 'turn:x'"),
    ],
)
def test_a_ref_that_is_no_turn_is_refused_with_the_right_form(ref: str, told: str) -> None:
    assert told in refused("show", WORKED, ref)


def test_a_number_is_no_new_label_and_an_old_one_is_read(tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    shutil.copy(WORKED, copy)
    before = copy.read_bytes()
    assert "'46' is not a new label: 'tree' shows numbers" in refused("label", copy, "@", "46")
    assert copy.read_bytes() == before
    target = str(printed_json("show", copy)["leaf"])
    label = line("label", "l46", target, targetUuid=target, label="46")
    with copy.open("ab") as opened:
        opened.write(json.dumps(label).encode() + b"\n")
    assert printed_json("show", copy, "46")["uuid"] == target


def test_only_one_way_to_draw_is_taken() -> None:
    refused("tree", WORKED, "--turn", "1", "--all", status=2)


def test_a_session_without_messages_has_a_heading(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    done("new", file, "--cwd", "/project")
    assert done("tree", file).endswith(" · /project\n")
    assert "it has no turns" in refused("tree", file, "--turn", "1")
    assert "There is no label" in run("labels", file).stderr
    assert printed_json("labels", file) == []
    assert "nothing since" in done("diff", file, "@")


def test_diff_json_has_both_sides() -> None:
    found = json.loads(done("diff", WORKED, "a4", "a7", "--json"))
    assert (found["fork"], found["turn"], found["one"]["isRest"]) == ("a2", 1, False)
    assert [turn["turn"] for turn in found["other"]["turns"]] == [3]
    assert found["one"]["changed"] == ["src/retry.py"]
    assert found["other"]["usage"]["cost"] == 0.38


def test_tree_json_says_of_each_entry_what_a_screen_needs() -> None:
    rows = {row["uuid"]: row for row in printed_json("tree", WORKED)}
    keys = ("turn", "prompt", "tools", "model", "cost", "time")
    assert [rows["p2"][key] for key in keys] == [
        2,
        True,
        [],
        None,
        None,
        "2026-02-10T09:05:50.000Z",
    ]
    assert rows["a3"]["tools"] == ["Bash", "Edit"]
    assert (rows["a3"]["cost"], rows["a3"]["usage"]["input"]) == (0.04, 2500)
    assert (rows["r4"]["tools"], rows["r4"]["prompt"]) == (["Bash"], False)
    assert (rows["s1"]["turn"], rows["s1"]["prompt"]) == (None, True)


def in_terminal(*words: str, rows: int = 8, **variables: str) -> str:
    """What a command shows on a terminal of 60 columns and a few rows."""
    above, below = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "60", "LINES": str(rows), **variables}
    command = [sys.executable, "-m", "sessiontree", *words]
    with subprocess.Popen(command, stdout=below, stdin=below, stderr=below, env=environment):
        os.close(below)
        shown = b""
        while True:
            try:
                block = os.read(above, 65536)
            except OSError:  # the other end is closed
                break
            if not block:
                break
            shown += block
    os.close(above)
    return shown.decode()


def test_long_output_goes_through_the_pager_on_a_terminal_only(tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho PAGED; cat\n")
    pager.chmod(0o755)
    tree = ("tree", str(WORKED))
    assert in_terminal(*tree, PAGER=str(pager), NO_COLOR="1").startswith("PAGED")
    assert "PAGED" not in in_terminal(*tree, PAGER=str(pager), rows=80)
    assert "PAGED" not in in_terminal(*tree, "--no-pager", PAGER=str(pager))
    for none in ("", "cat", "no-such-pager", "'"):
        assert "you are here" in in_terminal(*tree, PAGER=none)


def test_a_pager_that_is_left_ends_the_command_in_silence(tmp_path: Path) -> None:
    assert "rror" not in in_terminal("tree", str(WORKED), PAGER="head -n 1", rows=4)


def test_colours_are_for_terminals_and_can_be_switched_off() -> None:
    assert "\x1b[" in in_terminal("tree", str(WORKED), rows=80)
    assert "\x1b[" not in in_terminal("tree", str(WORKED), rows=80, NO_COLOR="1")
    assert "\x1b[" not in in_terminal("tree", str(WORKED), rows=80, TERM="dumb")
