"""`stats --by`: reported and estimated costs apart, and a line for all that is not known."""

from __future__ import annotations

import json
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from sessiontree.cli.screen import Screen
from sessiontree.cli.stats import table
from sessiontree.core.usage import Usage
from sessiontree.library.counts import By
from sessiontree.library.spending import Spending, SpendingSum
from tests.support.sessions import chat
from tests.support.table import for_each
from tests.support.terminal import done, printed_json, refused, run


def answer(model: str, **usage: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "x", "model": model, "usage": {"output": 1000, **usage}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "sessions"
    folder.mkdir()
    answers = [answer("claude-opus-4-5", cost=0.5), answer("claude-opus-4-5"), answer("no-such")]
    chat(folder / "s.jsonl", *answers, cwd="/p")
    return folder


def test_reported_and_estimated_costs_are_columns_and_keys_of_their_own(folder: Path) -> None:
    shown = run("stats", folder, "--by", "model")
    head, row, other, total = shown.stdout.splitlines()
    assert head.split()[-4:] == ["Reported", "Estimated", "No", "price"]
    assert row.split()[:7] == ["claude-opus-4-5", "1", "2", "0", "2k", "0", "$0.50"]
    assert (other.split()[0], other.split()[-1], total.split()[-1]) == ("no-such", "1", "1")
    assert "Warning: no price known for no-such, 1 answer\n" in shown.stderr
    assert "Estimated: at the list prices of genai-prices" in shown.stderr
    found = printed_json("stats", folder, "--by", "model")
    assert found["usage"]["cost"] == found["cost"]["reported"] == 0.5
    assert 0 < found["rows"][0]["cost"]["estimated"] == found["cost"]["estimated"]
    assert [row["model"] for row in found["rows"]] == ["claude-opus-4-5", "no-such"]
    assert found["unpricedModels"] == [{"model": "no-such", "answers": 1}]
    assert found["prices"].startswith("genai-prices ")


def test_the_source_of_prices_is_named_only_where_a_cost_is_estimated(tmp_path: Path) -> None:
    chat(tmp_path / "s.jsonl", answer("claude-opus-4-5", cost=0.5))
    assert run("stats", tmp_path / "s.jsonl", "--by", "model").stderr == ""


def test_without_the_package_a_line_says_how_to_get_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    shown = run("stats", folder, "--by", "project")
    assert (shown.exit_code, "$0.50" in shown.stdout) == (0, True)
    assert shown.stderr == (
        "Warning: 2 answers without a reported cost; to estimate the cost: "
        "pip install 'sessiontree[prices]'\n"
    )
    assert printed_json("stats", folder, "--by", "day")["prices"] is None


def test_with_list_prices_each_answer_is_priced(folder: Path) -> None:
    usual = printed_json("stats", folder, "--by", "model")
    found = printed_json("stats", folder, "--by", "model", "--list-prices")
    assert found["cost"]["reported"] == found["usage"]["cost"] == 0
    assert found["cost"]["estimated"] == pytest.approx(2 * usual["cost"]["estimated"])
    assert found["answers"] == usual["answers"]
    assert "--list-prices needs --by" in run("stats", folder, "--list-prices").stderr


def test_files_and_folders_add_up(folder: Path, tmp_path: Path) -> None:
    file = chat(tmp_path / "more.jsonl", answer("m", cost=0.25))
    found = printed_json("stats", file, folder, "--by", "day")
    assert (found["sessions"], found["cost"]["reported"]) == (2, 0.75)
    assert printed_json("stats", file, folder)["sessions"] == 2
    assert printed_json("stats", file, "--by", "day", "--agent", "pi")["sessions"] == 0
    assert printed_json("stats", file, "--agent", "sessiontree")["sessions"] == 1
    assert "there is no file" in refused("stats", tmp_path / "gone.jsonl", "--by", "day")


def test_what_cannot_be_read_is_a_line_and_the_rest_is_served(folder: Path) -> None:
    (folder / "foreign.jsonl").write_text("nothing\n")
    with (folder / "s.jsonl").open("ab") as file:
        file.write(b'{"type":"message"')
    shown = run("stats", folder, "--by", "agent")
    assert (shown.exit_code, shown.stdout.split()[-1]) == (0, "1")
    assert "Left out: what 1 damaged place of " in shown.stderr
    assert "foreign.jsonl is not a session" in shown.stderr


def test_a_reference_that_is_lost_costs_nothing(folder: Path) -> None:
    lost = {
        "type": "compaction",
        "uuid": "c1",
        "parentUuid": None,
        "summary": "",
        "firstKeptEntryUuid": "gone",
        "tokensBefore": 1,
    }
    with (folder / "s.jsonl").open("a") as file:
        file.write(json.dumps(lost) + "\n")
    assert '"kind":"reference"' in run("verify", folder / "s.jsonl", "--json").stdout
    assert "Left out" not in run("stats", folder, "--by", "agent").stderr


@for_each("width", [40, 50, 64, 79])
def test_the_table_fits_a_narrow_screen(width: int) -> None:
    row = SpendingSum(1234, 12345, Usage(10**7, 10**6, 10**8, 10**6, 12345.6), 2345.6, 12)
    made = Spending({"/a/long/path/to/a/project/of/somebody" * 2: row}, row, Counter())
    lines = list(table(made, "project", Screen(width, False, datetime.now(UTC))))
    assert max(map(cell_len, lines)) <= width
    assert "$12,345.60" in lines[1]
    assert "$2,345.60" in lines[1]


@for_each(("by", "shown"), [("project", "…ect/of/somebody"), ("model", "/a/long/path/to…")])
def test_a_long_name_is_cut_at_its_end_and_a_path_at_its_start(by: By, shown: str) -> None:
    row = SpendingSum(1, 1, Usage(1, 1, 0, 0, 0.0), 0.0, 1)
    made = Spending({"/a/long/path/to/a/project/of/somebody": row}, row, Counter())
    lines = list(table(made, by, Screen(64, False, datetime.now(UTC))))
    assert lines[1].split("  ")[0] == shown
    assert list(table(made, by, None))[1].startswith("/a/long/path/to/a/project/of/somebody ")


def test_nothing_spent_is_said(tmp_path: Path) -> None:
    chat(tmp_path / "s.jsonl", "hello")
    assert run("stats", tmp_path, "--by", "day").stderr == "Nothing was spent\n"
    assert done("stats", tmp_path, "--by", "day", "--project", "/other") == ""


def test_a_table_says_how_many_sessions_are_in_no_row(folder: Path) -> None:
    done("fork", folder / "s.jsonl", folder / "fork.jsonl")
    chat(folder / "prompt.jsonl", {"role": "user", "content": "unanswered"}, cwd="/p")
    assert printed_json("stats", folder)["sessions"] == 3
    shown = run("stats", folder, "--by", "agent")
    assert shown.stdout.splitlines()[-1].split()[:2] == ["Total", "1"]
    note = "Not in the table: 2 sessions without answers, or with those of another session only\n"
    assert note in shown.stderr
    assert "Not in the table" not in run("stats", folder / "s.jsonl", "--by", "agent").stderr
