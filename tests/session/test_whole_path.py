"""Asking for the whole path changes nothing about the context."""

from __future__ import annotations

from pathlib import Path

from tests.support.conversation import chain, line, opened


def test_a_setting_above_a_compaction_counts_after_the_path_was_asked_for(file: Path) -> None:
    kept = {"summary": "a greeting", "firstKeptEntryUuid": "c1", "tokensBefore": 1}
    lines = [  # as other programs write it: without the settings in force at the compaction
        line("model_change", "s1", "root", provider="anthropic", modelId="the latest"),
        line("thinking_level_change", "s2", "s1", thinkingLevel="high"),
        *chain("m1", below="s2"),
        line("compaction", "c1", "m1", **kept),
    ]
    with opened(file, *lines, readonly=True) as session:
        before = session.context().as_dict()
        session.path()
        assert session.context().as_dict() == before
        assert before["model"] == {"provider": "anthropic", "modelId": "the latest"}
        assert before["thinkingLevel"] == "high"
