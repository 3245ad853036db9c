"""Codex's files are found by their names, in the folders where Codex keeps them and no others."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from sessiontree.agents.codex.names import Rollout, rollout_of
from sessiontree.storage.fs import DISK
from sessiontree.storage.rollouts import (
    home_of,
    in_force,
    index_line,
    rollout_near,
    rollouts_near,
    thread_beside,
)
from tests.support.table import for_each

BEGAN: Final = datetime(2026, 3, 4, 23, 30, tzinfo=UTC)
DAY: Final = "2026/03/04"


def id_of(number: int, began: datetime = BEGAN) -> str:
    """A UUID of version 7, as Codex makes them: the first twelve digits are its time."""
    digits = f"{int(began.timestamp() * 1000):012x}"
    return f"{digits[:8]}-{digits[8:]}-7000-8000-{number:012x}"


THREAD, OTHER, SECOND, THIRD = map(id_of, range(1, 5))


def name_of(thread: str, segment: str = "", end: str = ".jsonl") -> str:
    return f"rollout-2026-03-04T23-30-00-{thread}{segment and '_'}{segment}{end}"


def put(folder: Path, *names: str) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"")
    return [folder / name for name in names]


@for_each(
    "name, thread, segment",
    [
        (name_of(THREAD), THREAD, THREAD),
        (name_of(THREAD, SECOND), THREAD, SECOND),
        (name_of(THREAD, SECOND, ".jsonl.zst"), THREAD, SECOND),
    ],
)
def test_a_name_says_the_thread_and_the_segment(name: str, thread: str, segment: str) -> None:
    assert rollout_of(f"/a/{name}") == Rollout(f"/a/{name}", thread, segment)


@for_each(
    "name",
    [
        name_of(THREAD, end=".json"),
        name_of(THREAD, end=".jsonl.gz"),
        f"x{name_of(THREAD)}",
        name_of(THREAD[:-1]),
        name_of(THREAD.upper()),
        f"rollout-2026-03-04-{THREAD}.jsonl",
    ],
)
def test_another_name_is_not_codexs(name: str) -> None:
    assert rollout_of(f"/a/{name}") is None
    assert thread_beside(f"/a/{name}") == []
    assert index_line(f"/a/{name}", DISK) is None


@for_each(
    "folder, is_codexs",
    [
        (f"sessions/{DAY}", True),
        ("sessions/2026/03", True),
        ("sessions", True),
        ("archived_sessions", True),
        (f"archived_sessions/{DAY}", True),
        (f"sessions/{DAY}/05", False),
        ("elsewhere", False),
        (".", False),
    ],
)
def test_the_home_of_a_file_is_above_the_folder_of_sessions(
    tmp_path: Path, folder: str, is_codexs: bool
) -> None:
    (file,) = put(tmp_path / folder, name_of(THREAD))
    assert home_of(str(file)) == (str(tmp_path) if is_codexs else None)


def test_all_files_of_codex_are_near_each_other(tmp_path: Path) -> None:
    sessions = tmp_path / "sessions"
    (first,) = put(sessions / DAY, name_of(THREAD))
    (second,) = put(sessions / "2026/04/01", name_of(THREAD, SECOND))
    (third,) = put(tmp_path / "archived_sessions", name_of(OTHER))
    put(sessions / "other", name_of(THREAD, THIRD))
    put(sessions / "20260304", name_of(THREAD, THIRD))
    (sessions / DAY / name_of(id_of(7))).symlink_to(first)
    put(tmp_path / "elsewhere" / "03" / "04", name_of(id_of(9)))
    (sessions / "2025").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(sessions / DAY / name_of(id_of(8)))
    near = {THREAD: first, SECOND: second, OTHER: third}
    for file in (first, second, third):
        found = rollouts_near(str(file))
        assert {segment: Path(each.path) for segment, each in found.items()} == near
    assert thread_beside(str(first)) == [str(second)]
    assert thread_beside(str(second)) == [str(first)]
    assert thread_beside(str(third)) == []
    put(sessions / DAY / "05", name_of(THREAD, THIRD))
    assert THIRD not in rollouts_near(str(third))


def test_beside_a_file_elsewhere_are_those_of_its_folder(tmp_path: Path) -> None:
    first, second = put(tmp_path / "a", name_of(THREAD), name_of(THREAD, SECOND))
    put(tmp_path / "b", name_of(THREAD, THIRD))
    assert thread_beside(str(first)) == [str(second)]


def test_of_two_files_of_a_segment_the_nearer_and_the_plain_one_counts(tmp_path: Path) -> None:
    archived = tmp_path / "archived_sessions"
    here = put(tmp_path / "sessions" / DAY, name_of(THREAD), name_of(THREAD, end=".jsonl.zst"))
    there = put(archived, name_of(THREAD), name_of(OTHER, end=".jsonl.zst"))
    assert rollouts_near(str(here[1]))[THREAD].path == str(here[0])
    assert rollouts_near(str(there[0]))[THREAD].path == str(there[0])
    assert rollouts_near(str(there[0]))[OTHER].path == str(there[1])


@for_each("days", [-2, -1, 0, 1, 2])
def test_a_segment_is_found_wherever_its_day_is(tmp_path: Path, days: int) -> None:
    (first,) = put(tmp_path / "sessions" / "2026/01/01", name_of(THREAD))
    day = BEGAN + timedelta(days=days)
    (other,) = put(tmp_path / "sessions" / f"{day:%Y/%m/%d}", name_of(THREAD, SECOND))
    found = rollout_near(str(first), SECOND)
    assert found is not None
    assert found.path == str(other)
    assert rollout_near(str(first), THIRD) is None
    assert rollout_near(str(first), "no id") is None


def test_most_segments_are_found_without_a_look_at_all_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, beside = put(tmp_path / "sessions" / DAY, name_of(THREAD), name_of(THREAD, SECOND))
    yesterday, tomorrow = id_of(5), id_of(6)
    put(tmp_path / "sessions" / "2026/03/03", name_of(THREAD, yesterday))
    put(tmp_path / "sessions" / "2026/03/05", name_of(THREAD, tomorrow))
    monkeypatch.setattr("sessiontree.storage.rollouts.rollouts_near", pytest.fail)
    assert rollout_near(str(first), SECOND) == Rollout(str(beside), THREAD, SECOND)
    for segment in (yesterday, tomorrow):
        found = rollout_near(str(first), segment)
        assert found is not None
        assert found.segment == segment


def test_the_newest_segment_of_each_thread_is_in_force() -> None:
    one, two = name_of(THREAD), name_of(THREAD, SECOND)
    other, plain = name_of(OTHER), "session.jsonl"
    assert list(in_force([one, other, plain, two])) == [plain, two, other]
    assert list(in_force([two, one])) == [two]
    twice = [f"sessions/{two}", f"archived_sessions/{two}"]
    assert list(in_force([one, *twice])) == twice


def test_the_last_name_of_a_thread_in_the_index_counts(tmp_path: Path) -> None:
    (file,) = put(tmp_path / "sessions" / DAY, name_of(THREAD, SECOND))
    (there,) = put(tmp_path / "elsewhere", name_of(THREAD))
    index = tmp_path / "session_index.jsonl"
    assert index_line(str(file), DISK) is None
    lines = [f'{{"id":"{id}","name":"{name}"}}' for id, name in ((THREAD, "a"), (OTHER, "b"))]
    index.write_text("\n".join(lines) + "\n")
    assert index_line(str(file), DISK) == lines[0].encode()
    lines.append(lines[0].replace('"a"', '"c"'))
    index.write_text("\n".join(lines))
    assert index_line(str(file), DISK) == lines[2].encode()
    assert index_line(str(there), DISK) is None
    (there.parent / index.name).write_text(lines[0])
    assert index_line(str(there), DISK) == lines[0].encode()
    index.write_text(lines[1])
    assert index_line(str(file), DISK) is None
