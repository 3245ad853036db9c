"""The trash, and sessions that their agents keep in several files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sessiontree import Store, UsageError
from tests.agents.conftest import state_of
from tests.support.table import for_each

AGENTS = Path(__file__).parents[2] / "fixtures" / "agents"


@for_each(
    ("home", "pattern"),
    [
        ("codex/0.169.0/sessions", "**/rollout-*_*.jsonl"),
        ("codex/0.169.0/sessions", "**/rollout-*8691-55d64313dd2a.jsonl"),
        ("gemini/0.61.0/tmp", "**/session-*.jsonl"),
    ],
    ids=["newest segment", "oldest segment", "chat"],
)
def test_a_part_of_a_session_is_not_put_away_alone(tmp_path: Path, home: str, pattern: str) -> None:
    shutil.copytree(AGENTS / home, tmp_path / "home")
    file = next((tmp_path / "home").glob(pattern))
    before = state_of(tmp_path / "home")
    with pytest.raises(UsageError, match="in 2 files, such as"):
        Store(tmp_path / "home").trash(str(file))
    assert state_of(tmp_path / "home") == before


def test_a_rollout_that_is_all_of_its_thread_is_put_away(tmp_path: Path) -> None:
    shutil.copytree(AGENTS / "codex/0.169.0/sessions", tmp_path / "home")
    (file,) = (tmp_path / "home").glob("**/rollout-*0f45fcad1c27.jsonl")
    trashed = Store(tmp_path / "home").trash(str(file))
    assert Path(trashed).exists()
    assert not file.exists()
