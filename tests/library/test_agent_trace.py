"""Blame as a record of Agent Trace: valid by the rules of version 0.1, and each line once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from sessiontree.library.agent_trace import trace_record
from sessiontree.library.file_history import BlamedLine
from tests.cli.test_files import git, session_in
from tests.support.edited import ask, project, replace, write
from tests.support.terminal import done, refused

jsonschema: Any = pytest.importorskip("jsonschema")


def _object(needed: str, more: str = "", **properties: Any) -> dict[str, Any]:
    assert {*needed.split(), *more.split()} == set(properties)
    shape = {"type": "object", "additionalProperties": False}
    return {**shape, "required": needed.split(), "properties": properties}


TEXT: Final = {"type": "string"}
NUMBER: Final = {"type": "integer", "minimum": 1}
CONTRIBUTOR: Final = _object(
    "type",
    "model_id",
    type={"enum": ["human", "ai", "mixed", "unknown"]},
    model_id={"type": "string", "maxLength": 250},
)
CONVERSATION: Final = _object(
    "ranges",
    "url contributor",
    url={"type": "string", "format": "uri", "pattern": "^[a-z]+:"},
    contributor=CONTRIBUTOR,
    ranges={
        "type": "array",
        "items": _object("start_line end_line", start_line=NUMBER, end_line=NUMBER),
    },
)
RECORD: Final = _object(
    "version id timestamp files",
    "vcs tool metadata",
    version={"type": "string", "pattern": r"^[0-9]+\.[0-9]+$"},
    id={"type": "string", "pattern": r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
    timestamp={"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"},
    vcs=_object("type revision", type={"enum": ["git", "jj", "hg", "svn"]}, revision=TEXT),
    tool=_object("name version", name=TEXT, version=TEXT),
    files={
        "type": "array",
        "items": _object(
            "path conversations",
            path=TEXT,
            conversations={"type": "array", "items": CONVERSATION},
        ),
    },
    metadata={"type": "object"},
)
"""The rules of https://agent-trace.dev, version 0.1."""


def record(file: Path, *sessions: Path) -> dict[str, Any]:
    found = json.loads(done("blame", file, *sessions, "--format", "agent-trace"))
    jsonschema.validate(found, RECORD)
    numbers = [
        number
        for each in found["files"][0]["conversations"]
        for span in each["ranges"]
        for number in range(span["start_line"], span["end_line"] + 1)
    ]
    assert sorted(numbers) == list(range(1, len(file.read_text().splitlines()) + 1))
    return dict(found)


def test_each_conversation_has_its_ranges(tmp_path: Path) -> None:
    store, app = project(tmp_path)
    git(app, "init", "-q")
    file = app / "sub" / "a.py"
    file.parent.mkdir()
    with session_in(store, app, "first") as session:
        ask(session, "Write it")
        write(session, file, "one\ntwo\nthree\n")
    id = "5f0c8a52-1d8e-4a53-9c06-2f6f3f5b7d10"
    with session_in(store, app, id) as session:
        ask(session, "Change it")
        replace(session, file, "two\n", "2\n")
    file.write_text(file.read_text() + "mine\n")
    git(app, "add", "-A")
    git(app, "commit", "-qm", "one")
    found = record(file, Path(store.root))
    (only,) = found["files"]
    assert only["path"] == "sub/a.py"
    person, later, first = only["conversations"]
    assert person == {"contributor": {"type": "human"}, "ranges": [span(4, 4)]}
    assert later["url"] == f"urn:uuid:{id}"
    assert later["contributor"] == {"type": "ai", "model_id": "m"}
    assert first["url"] == "urn:sessiontree:first"
    assert first["ranges"] == [span(1, 1), span(3, 3)]
    sessions = found["metadata"]["sessiontree"]["sessions"]
    assert sessions["urn:sessiontree:first"] == {"id": "first", "agent": None, "turns": ["1"]}
    assert len(found["vcs"]["revision"]) == 40
    file.write_text(file.read_text() + "more\n")
    assert "vcs" not in record(file, Path(store.root))  # its line numbers are of no commit


def span(first: int, last: int) -> dict[str, int]:
    return {"start_line": first, "end_line": last}


def test_outside_of_a_repository_no_revision_is_named(tmp_path: Path) -> None:
    store, app = project(tmp_path)
    with session_in(store, app, "first") as session:
        write(session, app / "a.py", "one\n")
    found = record(app / "a.py", Path(store.root))
    assert "vcs" not in found
    assert found["files"][0]["path"] == "a.py"


def test_a_model_has_the_provider_that_is_known(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("x\n")
    models = ["claude-opus-4-6", "gpt-5", "o3", "gemini-2.5-pro", "glm-5", "openrouter/x", "", None]
    names = [
        trace_record(str(file), [BlamedLine(1, "x", "exact", session="s", model=model)], "1")[
            "files"
        ][0]["conversations"][0]["contributor"].get("model_id")
        for model in models
    ]
    assert names == [
        *("anthropic/claude-opus-4-6", "openai/gpt-5", "openai/o3", "google/gemini-2.5-pro"),
        *("glm-5", "openrouter/x", None, None),
    ]


def test_some_lines_of_a_file_have_a_record(tmp_path: Path) -> None:
    store, app = project(tmp_path)
    with session_in(store, app, "first") as session:
        write(session, app / "a.py", "one\ntwo\n")
    words = ("blame", f"{app / 'a.py'}:2", store.root, "--format", "agent-trace")
    found = json.loads(done(*words))
    assert found["files"][0]["conversations"][0]["ranges"] == [span(2, 2)]
    assert "not both" in refused(*words, "--json")
