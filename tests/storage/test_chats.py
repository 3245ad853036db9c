"""Which chats of Gemini CLI belong together is told by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree.storage.names import chats_beside, chats_of_subagents

ID = "0a1b2c3d"
FIRST = f"session-2026-03-04T10-00-{ID}"
SECOND = f"session-2026-03-05T10-00-{ID}"
OTHER = "session-2026-03-04T10-00-99999999"
FOLDER = f"{ID}-1111-4111-8111-111111111111"


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")


def subagents(file: Path) -> list[str]:
    return [
        str(Path(found).relative_to(file.parent))
        for found in chats_of_subagents(str(file), pytest.fail)
    ]


def test_of_several_chats_of_a_session_the_first_has_its_subagents(tmp_path: Path) -> None:
    put(tmp_path, f"{FIRST}.jsonl", f"{SECOND}.jsonl", f"{OTHER}.jsonl", f"{FOLDER}/a.jsonl")
    put(tmp_path, f"{FOLDER}/b.json", "99999999-x/c.jsonl", "x0a1b2c3d-x/d.jsonl")
    assert subagents(tmp_path / f"{FIRST}.jsonl") == [f"{FOLDER}/a.jsonl"]
    assert subagents(tmp_path / f"{SECOND}.jsonl") == []
    assert subagents(tmp_path / f"{OTHER}.jsonl") == ["99999999-x/c.jsonl"]
    assert subagents(tmp_path / "notes.jsonl") == []
    assert subagents(tmp_path / "gone" / f"{FIRST}.jsonl") == []


def test_a_chat_as_lines_comes_before_one_as_a_document(tmp_path: Path) -> None:
    put(tmp_path, f"{FIRST}.json", f"{SECOND}.jsonl", f"{FOLDER}/a.jsonl")
    assert subagents(tmp_path / f"{FIRST}.json") == []
    assert subagents(tmp_path / f"{SECOND}.jsonl") == [f"{FOLDER}/a.jsonl"]


def test_beside_a_chat_are_the_others_of_its_session(tmp_path: Path) -> None:
    put(tmp_path, f"{FIRST}.jsonl", f"{SECOND}.jsonl", f"{OTHER}.jsonl", f"{FOLDER}/a.jsonl")
    first, second = (str(tmp_path / f"{name}.jsonl") for name in (FIRST, SECOND))
    assert chats_beside(first) == [second, str(tmp_path / FOLDER / "a.jsonl")]
    assert chats_beside(second) == [first]
    assert chats_beside(str(tmp_path / "notes.jsonl")) == []
