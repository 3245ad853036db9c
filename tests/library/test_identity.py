"""Whatever copies of a conversation went on: one row, all turns, one title."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.library.test_truth import sum_of, tokens
from tests.library.truth import MODELS, Conversation, MadeHome
from tests.support.homes import empty_home
from tests.support.terminal import done


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return empty_home(tmp_path, monkeypatch)


def row_of(one: Conversation) -> dict[str, Any]:
    rows: list[dict[str, Any]] = json.loads(done("ls", "--json"))
    (row,) = (row for row in rows if row["id"] == one.id)
    return row


CONFLICTS = (
    "{stem} (conflicted copy 2026-09-01).jsonl",
    "{stem}.sync-conflict-20260901-101010-ABCDEFG.jsonl",
)


def diverged(made: MadeHome, one: Conversation, name: str, *, copy_is_newer: bool) -> Path:
    """A session and a conflict copy of it both go on; the newer one is `one.file`.

    Returns the older one.
    """
    own = one.file
    copy = own.with_name(name.format(stem=own.stem))
    shutil.copy(own, copy)
    older, newer = (own, copy) if copy_is_newer else (copy, own)
    one.file = older
    made.go_on(one, one.at + timedelta(days=1))
    one.file = newer
    made.go_on(one, one.at + timedelta(days=1))
    made.go_on(one)
    return older


@pytest.mark.parametrize("copy_is_newer", [False, True])
@pytest.mark.parametrize("name", CONFLICTS)
@pytest.mark.parametrize("agent", MODELS)
def test_a_conflict_copy_that_went_on_is_a_branch_of_its_session(
    top: Path, agent: str, name: str, copy_is_newer: bool
) -> None:
    made = MadeHome(top, 4)
    one = made.of(agent)[0]
    diverged(made, one, name, copy_is_newer=copy_is_newer)

    def check() -> None:
        row = row_of(one)
        assert (row["turns"], row["lane"]) == (len(one.prompts), "main")
        assert datetime.fromisoformat(row["modified"]) == one.at
        assert row["file"] == str(one.file)
        sums = json.loads(done("stats", "--json"))
        assert sums["turns"] == sum(len(each.prompts) for each in made.all)
        assert tokens(sums["usage"]) == sum_of(made.answers())
        found = json.loads(done("search", one.word, "--role", "prompt", "--json"))
        alike = [each for each in made.all if each.word == one.word]
        assert len(found) == sum(len(each.prompts) for each in alike)

    check()
    resumed = json.loads(done("resume", one.id, "--json"))
    last = one.prompts[-1]
    assert last in Path(resumed["file"]).read_text()
    if resumed["converted"]:
        Path(resumed["file"]).unlink()
    done("backup")
    check()
    again = json.loads(done("resume", one.id, "--json"))
    assert again["command"] == resumed["command"]
    assert last in Path(again["file"]).read_text()
    if again["converted"]:
        Path(again["file"]).unlink()
    shown = done("tree", one.id)
    assert f"{len(one.prompts)} prompts" in shown
    assert "lane" not in shown
    assert "subagent" not in shown
    assert last in done("export", one.id)
    one.also |= {one.file}
    done("backup")
    check()
