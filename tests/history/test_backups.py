"""The copies that Claude Code keeps of files before it changes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sessiontree import Session
from tests.support.table import for_each
from tests.support.transcripts import line, user, written

SESSION = "5f0c8a52-1d8e-4a53-9c06-2f6f3f5b7d10"


def transcript(folder: Path, name: str) -> Path:
    """A transcript that names a copy of a file."""
    backup = {"backupFileName": name, "version": 1, "backupTime": "2026-02-10T21:11:30.000Z"}
    snapshot = {"messageId": "a", "trackedFileBackups": {"src/app.py": backup}}
    about = {"type": "file-history-snapshot", "messageId": "a", "snapshot": snapshot}
    first = {**user("a", None, "Change it"), "sessionId": SESSION}
    return written(folder / "projects" / "-project" / f"{SESSION}.jsonl", [first, about])


def seen(file: Path) -> list[tuple[str, str]]:
    with Session.open(file, readonly=True) as session:
        return [(event.path, event.seen.text) for event in session.file_events() if event.seen]


def test_a_copy_shows_the_file_before_an_edit(tmp_path: Path) -> None:
    folder = tmp_path / "file-history" / SESSION
    folder.mkdir(parents=True)
    (folder / "0a1b@v1").write_text("x = 1\n")
    assert seen(transcript(tmp_path, "0a1b@v1")) == [("/project/src/app.py", "x = 1\n")]


@for_each("name", ["gone@v1", "../../secret", "..", "", "/etc/hostname"])
def test_a_copy_that_is_gone_or_outside_shows_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "file-history" / SESSION).mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    assert seen(transcript(tmp_path, name)) == []


def test_a_transcript_elsewhere_has_no_copies(tmp_path: Path) -> None:
    folder = tmp_path / "file-history" / SESSION
    folder.mkdir(parents=True)
    (folder / "0a1b@v1").write_text("x = 1\n")
    moved = transcript(tmp_path, "0a1b@v1").rename(tmp_path / f"{SESSION}.jsonl")
    assert seen(moved) == []


@for_each("odd", [None, 1, [], {"src/app.py": None}, {"src/app.py": {}}])
def test_odd_copies_are_passed_over(tmp_path: Path, odd: Any) -> None:
    about = {"type": "file-history-snapshot", "snapshot": {"trackedFileBackups": odd}}
    file = tmp_path / "projects" / "-project" / f"{SESSION}.jsonl"
    assert seen(written(file, [line("a", None), about])) == []
