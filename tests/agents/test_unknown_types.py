"""A line of a type that no reader knows is a note that is counted, and never damage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from sessiontree.core.damage import Note, Notes, in_short
from sessiontree.importing.importer import import_session
from tests.support.terminal import printed_json, run
from tests.support.transcripts import user

GLOW = {"type": "glow", "timestamp": "2026-02-10T21:11:02Z", "payload": {"x": 1}}
PI = {"type": "session", "version": 3, "id": "p", "cwd": "/p", "timestamp": "2026-02-10T21:11:02Z"}
GEMINI = {"sessionId": "g", "projectHash": "h", "startTime": "2026-02-10T21:11:02Z"}
STARTS: dict[str, dict[str, Any]] = {
    "claude-code": user("a", None, cwd="/p"),
    "droid": {"type": "session_start", "id": "d", "title": "t", "owner": "o", "cwd": "/p"},
    "codex": {"type": "session_meta", "payload": {"id": "c", "cwd": "/p"}},
    "gemini": GEMINI,
    "copilot": {
        "type": "session.start",
        "id": "c",
        "parentId": None,
        "timestamp": GLOW["timestamp"],
        "data": {"sessionId": "c", "copilotVersion": "1", "context": {"cwd": "/p"}},
    },
    "kimi": {"type": "metadata", "protocol_version": "1.5", "created_at": 1},
    "pi": PI,
    "qwen": {
        "type": "user",
        "uuid": "q",
        "parentUuid": None,
        "sessionId": "q",
        "cwd": "/p",
        "message": {"role": "user", "parts": [{"text": "Hi"}]},
    },
}


@pytest.fixture(params=STARTS)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    lines = [STARTS[request.param], GLOW, {**GLOW, "id": "g2"}, {**GLOW, "type": "hum"}]
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_unknown_types_are_notes_and_the_lines_are_kept(file: Path, tmp_path: Path) -> None:
    with Session.open(file, readonly=True) as session:
        assert (session.damage, session.verify()) == ([], [])
        noted = [(note.type, note.line, note.count) for note in session.notes]
        kept = [e["data"] for e in session.entries() if e.get("customType", "").endswith(":glow")]
    assert noted == [("glow", 2, 2), ("hum", 4, 1)]
    assert kept[0] == GLOW
    imported = import_session(file, tmp_path / "store")
    assert imported.damage == []
    assert [(note.type, note.count) for note in imported.notes] == [("glow", 2), ("hum", 1)]


def test_show_verify_and_import_count_them(file: Path, tmp_path: Path) -> None:
    short = "3 lines of unknown types: glow 2, hum 1"
    assert f"notes          {short}" in run("show", file).stdout
    assert [note["count"] for note in printed_json("show", file)["notes"]] == [2, 1]
    verified = run("verify", file)
    assert (verified.exit_code, verified.stdout) == (0, "")
    assert short in verified.stderr
    assert short in run("import", file, "-o", tmp_path / "store").stderr


def test_the_types_that_are_kept_are_bounded() -> None:
    notes = Notes()
    for number in range(3_000):
        notes.add(Note("f", number + 1, number, f"type {number}" + "x" * 100))
    found = notes.found()
    assert len(found) == 1_001
    assert sum(note.count for note in found) == 3_000
    assert max(len(note.type) for note in found) <= 60
    assert in_short(found).endswith("and 991 more")
