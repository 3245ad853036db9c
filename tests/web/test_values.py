"""What the pages of a context and of two branches say of a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree.errors import RefError
from sessiontree.page.templates import Templates
from sessiontree.web import pages
from sessiontree.web import pages as module
from sessiontree.web.pages import branches_of, compared, seen_at
from tests.page.reading import plain
from tests.support.conversation import assistant, user
from tests.web.serving import talk


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.jsonl"


def test_a_context_is_told_with_what_fell_out_of_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with talk(file, turns=3) as session:
        first = seen_at(str(file), session.leaf.uuid, Templates())
        session.set_model("own", "big-1")
        session.set_thinking_level("high")
        kept = session.append_message(user("kept"))
        session.compact("what was", first_kept=kept.uuid)
        leaf = session.append_message(assistant("last")).uuid
        tokens = session.context().tokens
        beginning = session.path()[1].uuid
    assert {key: first[key] for key in ("left", "of", "before", "system", "warnings")} == {
        "left": 0,
        "of": 6,
        "before": 0,
        "system": None,
        "warnings": [],
    }
    assert first["facts"][0] == "6 messages"
    found = seen_at(str(file), leaf, Templates())
    assert found["uuid"] == leaf
    assert found["facts"] == ["3 messages", f"about {tokens:,} tokens", "big-1", "thinking high"]
    assert (found["left"], found["before"]) == (6, 0)
    assert found["system"] is None
    assert [plain(row.head) for row in found["rows"]][1:] == ["User kept", "last"]
    monkeypatch.setattr(pages, "_MAX_MESSAGES", 1)
    cut = seen_at(str(file), leaf, Templates())
    assert (cut["before"], [plain(row.head) for row in cut["rows"]]) == (2, ["last"])
    assert seen_at(str(file), beginning, Templates())["of"] == 1
    with pytest.raises(RefError):
        seen_at(str(file), "no-entry", Templates())


def test_a_context_has_its_system_prompt_apart(file: Path) -> None:
    with talk(file, turns=1) as session:
        session.append_message({"role": "system", "content": "be <brief>"})
        found = seen_at(str(file), session.leaf.uuid, Templates())
    assert found["system"] == "<pre>be &lt;brief&gt;</pre>"
    assert found["facts"][0] == "2 messages"


def test_two_branches_are_told_side_by_side(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with talk(file, turns=2) as session:
        fork = session.path()[2].uuid
        main = session.leaf.uuid
        session.branch(fork)
        session.append_message(user("another way"))
        other = session.append_message(assistant("done")).uuid
    found = compared(str(file), main, other)
    assert found["fork"] == fork
    assert found["fork_turn"] == "turn 1: prompt 0"
    one, second = found["sides"]
    assert (one["leaf"], one["is_current"], second["is_current"]) == (main, False, True)
    assert one["did"][0] == second["did"][0] == "1 prompt"
    assert [turn["asked"] for turn in one["turns"] + second["turns"]] == ["prompt 1", "another way"]
    assert [turn["is_rest"] for turn in one["turns"]] == [False]
    assert (one["more"], one["files"], one["more_files"]) == (0, [], 0)
    turned = compared(str(file), other, main)
    assert turned["sides"] == [second, one]
    monkeypatch.setattr(module, "_MAX_TURNS", 0)
    assert [side["more"] for side in compared(str(file), main, other)["sides"]] == [1, 1]
    branches = branches_of(str(file))
    words = [one["words"] for one in branches]
    assert words == ["turn 2 · prompt 1", "turn 3 · another way"]
    assert [(one["leaf"], one["current"]) for one in branches] == [(main, False), (other, True)]
    monkeypatch.setattr(module, "_MAX_BRANCHES", 1)
    assert branches_of(str(file)) == branches[1:]
