"""Asking for the whole path changes nothing about the context."""

from __future__ import annotations

import json
from pathlib import Path

from sessiontree import Session
from tests.support.conversation import line, user


def test_a_setting_above_a_compaction_counts_after_the_path_was_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    with Session.create(file, metadata={"model": "of the header"}) as session:
        session.set_model("anthropic", "the latest")
        session.set_thinking_level("high")
        leaf = session.append_message(user("hello"))
    # As other programs write it: without the settings in force.
    kept = {"summary": "a greeting", "firstKeptEntryUuid": "c1", "tokensBefore": 1}
    compaction = line("compaction", "c1", leaf.uuid, **kept)
    with file.open("a") as lines:
        lines.write(json.dumps(compaction) + "\n")
    with Session.open(file, readonly=True) as session:
        before = session.context().as_dict()
        session.path()
        assert session.context().as_dict() == before
        assert before["model"] == {"provider": "anthropic", "modelId": "the latest"}
        assert before["thinkingLevel"] == "high"
