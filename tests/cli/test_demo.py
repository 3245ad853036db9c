from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tests.support.terminal import contents, done, driving, printed_json


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("columns", ["", "100"])
def test_the_demo_plays_in_a_folder_that_it_removes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    before = os.getcwd()
    shown = done("demo")
    assert list(folder.iterdir()) == []
    assert os.getcwd() == before
    assert max(len(line) for line in shown.replace(str(folder), "").splitlines()) <= 100
    assert os.environ["COLUMNS"] == columns
    assert not driving(shown)


def test_the_demo_shows_the_five_items_of_the_context(folder: Path) -> None:
    assert (
        "  user              Build a CLI\n"
        "  assistant         I'll create…\n"
        "  branchSummary     Attempted Node.js CLI with --verbose flag\n"
        "  user              Use Rust instead\n"
        "  assistant         Creating Rust CLI…\n"
        "  — 5 messages, " in done("demo")
    )


def test_demo_with_keep_leaves_real_sessions(folder: Path) -> None:
    shown = done("demo", "--keep")
    (kept,) = folder.iterdir()
    assert f"The folder is kept: {kept}" in shown
    assert set(contents(kept)) == {
        *("chat.jsonl", "fork.jsonl", "old.jsonl", "old.jsonl.v1", "readme.jsonl")
    }
    assert printed_json("show", kept / "old.jsonl")["entries"] == 25
    for file in kept.glob("*.jsonl"):
        found = printed_json("context", file)
        assert found["messages"]
        assert found["warnings"] == []
        assert printed_json("show", file)["damage"] == []


def test_the_old_session_of_the_demo_is_compacted_where_its_index_said(folder: Path) -> None:
    done("demo", "--keep")
    (kept,) = folder.iterdir()
    messages = printed_json("context", kept / "old.jsonl")["messages"]
    assert messages[0]["role"] == "compactionSummary"
    assert messages[1] == {"role": "user", "content": "Does the week view have the same mistake?"}
