"""What stands beside a transcript of Claude Code is read only if it is a file of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sessiontree import Session, Store, import_session
from sessiontree.storage.names import SUBAGENTS, side_files
from tests.support.children import commanded

SECRET = "a secret outside of the session"
ID = "0b8f6d54-0c7e-4b6e-8a3c-5a3d2f1e0c9b"


def line(uuid: str, parent: str | None, role: str, content: object, **more: object) -> str:
    found = {
        "type": role,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": ID,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "cwd": "/p",
        "message": {"role": role, "content": content},
    }
    return json.dumps(found | more) + "\n"


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    file = tmp_path / f"{ID}.jsonl"
    result = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": f"Full output saved to: {tmp_path}/{ID}/tool-results/long.txt",
    }
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "x"}}
    file.write_text(
        line("u1", None, "user", "hello")
        + line("u2", "u1", "assistant", [call])
        + line("u3", "u2", "user", [result])
    )
    (tmp_path / ID).mkdir()
    return file


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link_outside(path: Path) -> None:
    outside = path.parents[2] / "outside"
    outside.write_text(line("o1", None, "user", SECRET, isSidechain=True))
    path.symlink_to(outside)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


PLACES = [
    "subagents/agent-a1.jsonl",
    "subagents/agent-a1.meta.json",
    "tool-results/long.txt",
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("make", [pipe, link_outside, endless])
def test_a_side_file_that_is_no_file_is_named_and_left(
    transcript: Path, tmp_path: Path, place: str, make: Callable[[Path], None]
) -> None:
    side = transcript.with_suffix("") / place
    side.parent.mkdir()
    if place.endswith(".meta.json"):
        (side.parent / "agent-a1.jsonl").write_text(line("a1", None, "user", "x"))
    make(side)
    commands: list[list[str | Path]] = [
        ["show", "u1", transcript],
        ["context", transcript],
        ["export", transcript],
        ["search", "--regex", "secret|hello", transcript],
        ["import", transcript, "-o", tmp_path / "imported"],
        ["verify", transcript],
    ]
    told = ""
    for command in commands:
        done = commanded(*command)
        assert SECRET not in done.stdout, command
        assert "Traceback" not in done.stderr
        told += done.stderr + done.stdout
    assert str(side) in told


@pytest.mark.parametrize("folder", ["", "subagents", "tool-results"])
def test_a_linked_folder_of_side_files_is_not_entered(
    transcript: Path, tmp_path: Path, folder: str
) -> None:
    own = transcript.with_suffix("")
    elsewhere = tmp_path / ".git"  # no walk enters it
    inside = elsewhere / ("subagents" if not folder else "")
    inside.mkdir(parents=True)
    (inside / "agent-a1.jsonl").write_text(line("a1", None, "user", SECRET, isSidechain=True))
    (inside / "long.txt").write_text(SECRET)
    if not folder:
        own.rmdir()
    (own / folder).symlink_to(elsewhere) if folder else own.symlink_to(elsewhere)
    with Session.open(transcript, readonly=True) as session:
        assert SECRET not in "".join(map(str, session.entries()))
        assert [each.kind for each in session.verify()] == (
            [] if folder == "tool-results" else ["side file"]
        )
    problems: list[str] = []
    assert list(Store(tmp_path).search("secret", blobs=True, report=problems.append)) == []
    assert any("is a link" in problem for problem in problems)
    imported = import_session(transcript, tmp_path / "imported")
    assert SECRET not in Path(imported.file).read_text()


def test_a_folder_within_a_side_folder_is_searched_and_a_link_is_not(tmp_path: Path) -> None:
    inner, outside = tmp_path / "s" / SUBAGENTS / "deeper", tmp_path / "outside"
    inner.mkdir(parents=True)
    (inner / "agent-a.jsonl").touch()
    outside.mkdir()
    (outside / "agent-b.jsonl").touch()
    reported: list[str] = []
    for link in (None, inner / "link"):
        if link is not None:
            link.symlink_to(outside)
        found = list(side_files(str(tmp_path / "s.jsonl"), SUBAGENTS, reported.append))
        assert found == [str(inner / "agent-a.jsonl")]
        assert reported == ([] if link is None else [f"{link} is a link, so it is not read"])


def test_a_result_that_is_no_text_is_imported_as_its_bytes(transcript: Path) -> None:
    folder = transcript.with_suffix("") / "tool-results"
    folder.mkdir()
    (folder / "long.txt").write_bytes(b"\xff\x00")
    imported = import_session(transcript, transcript.parent / "in").file
    with Session.open(imported, readonly=True) as session:
        (kept,) = [found for entry in session.entries() if (found := entry.get("toolResults"))]
    assert kept == {f"{ID}/tool-results/long.txt": "data:application/octet-stream;base64,/wA="}
