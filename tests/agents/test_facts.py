"""A list reads the start and the end of a file, and never fails, wherever these are cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from sessiontree.agents import recognise
from sessiontree.agents.base import AgentFacts

AGENTS: Final = Path(__file__).parents[2] / "fixtures" / "agents"
FILES: Final = sorted(
    path.relative_to(AGENTS).as_posix()
    for path in AGENTS.rglob("*.jsonl")
    if path.name != "session_index.jsonl"
)
DOCUMENT: Final = {
    "sessionId": "s-1",
    "projectHash": "p",
    "startTime": "2026-01-01T00:00:00.000Z",
    "lastUpdated": "2026-01-01T00:00:09.000Z",
    "messages": [
        {"id": "u1", "timestamp": "2026-01-01T00:00:01.000Z", "type": "user", "content": "one"}
    ],
    "summary": "what was done",
    "directories": ["/work"],
}
CUTS: Final = 150


def content_of(name: str) -> bytes:
    if name == "a document":
        return json.dumps(DOCUMENT, indent=2).encode()
    return (AGENTS / name).read_bytes()


def facts(head: bytes, tail: bytes) -> AgentFacts:
    format = recognise(head)
    assert format is not None
    return format.reader.facts(head, tail)


@pytest.mark.parametrize("name", [*FILES, "a document"])
def test_facts_of_a_cut_end_are_those_of_the_whole_or_lacking(name: str) -> None:
    content = content_of(name)
    whole, without = facts(content, content), facts(content, b"")
    for cut in range(0, len(content), max(1, len(content) // CUTS)):
        found = facts(content, content[cut:])
        for key in ("id", "cwd", "first_message", "created"):
            assert getattr(found, key) == getattr(whole, key)
        assert found.name in (whole.name, without.name)


@pytest.mark.parametrize("name", [*FILES, "a document"])
@pytest.mark.parametrize("spoiled", [b"", b"{", b'"', b"\\", b"[1]", b"null", b"\xff"])
def test_a_broken_line_costs_no_more_than_its_own_facts(name: str, spoiled: bytes) -> None:
    content = content_of(name)
    lines = content.split(b"\n")
    for at in range(1, len(lines), max(1, len(lines) // CUTS)):
        broken = lines[at][: len(lines[at]) // 2] + spoiled
        changed = b"\n".join([*lines[:at], broken, *lines[at + 1 :]])
        found = facts(content, changed)
        assert found.id == facts(content, content).id
        if recognise(changed) is not None:
            assert isinstance(facts(changed, changed), AgentFacts)
