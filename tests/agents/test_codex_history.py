"""Codex's paginated rollouts: a revert and a fork name their history in other files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, Store
from sessiontree.importing.importer import Importer
from tests.agents.test_codex import Line, line, said, texts
from tests.support import transcripts

THREAD, FORK, OTHER = (f"01a204ba-0000-7000-8000-00000000000{n}" for n in (1, 5, 9))
SECOND, THIRD = (f"01a204ba-0000-7000-8000-00000000000{n}" for n in (2, 3))
DAY = "sessions/2026/11/22"


class Home:
    """A folder of Codex, in which rollouts are written."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: dict[str, Path] = {}

    def add(
        self, segment: str, *lines: Line, thread: str = THREAD, base: Any = None, folder: str = DAY
    ) -> Path:
        """Write a segment; `base` is the id of another one and the ordinal where it ends."""
        meta: dict[str, Any] = {"id": thread, "cwd": "/p", "history_mode": "paginated"}
        start = 0
        if base is not None:
            id, start = base
            named = {"thread_id": id, "end_ordinal_exclusive": start}
            meta["history_base"] = {**named, "end_byte_offset": self.byte_of(id, start)}
        found = [line("session_meta", **meta), *lines]
        numbered = [{"ordinal": start + n, **each} for n, each in enumerate(found)]
        name = thread if segment == thread else f"{thread}_{segment}"
        path = self.root / folder / f"rollout-2026-11-22T10-00-00-{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        self.files[segment] = transcripts.written(path, numbered)
        return path

    def byte_of(self, segment: str, ordinal: int) -> int:
        lines = self.files[segment].read_bytes().splitlines(keepends=True)
        first = int(lines[0].split(b'"ordinal": ')[1].split(b",")[0])
        return sum(map(len, lines[: ordinal - first]))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / ".codex")


def turns(*words: str) -> list[Line]:
    return [
        each for word in words for each in (said("user", word), said("assistant", word.upper()))
    ]


def told(path: Path) -> list[str]:
    with Session.open(path, readonly=True) as session:
        assert session.verify() == []
        assert session.context().warnings == []
        return texts(session)


def leaves(path: Path) -> list[str]:
    """The last text of each branch."""
    with Session.open(path, readonly=True) as session:
        tips = (session.path(branch.leaf) for branch in session.branches())
        spoken = ([entry for entry in tip if entry.type == "message"] for tip in tips)
        return sorted(path[-1]["message"]["content"][0]["text"] for path in spoken if path)


def test_a_revert_continues_the_history_that_it_names(home: Home) -> None:
    home.add(THREAD, *turns("one", "two", "three"))
    path = home.add(SECOND, *turns("new"), base=(THREAD, 3))
    assert told(path) == ["one", "ONE", "new", "NEW"]
    assert leaves(path) == ["NEW", "THREE"]  # what was reverted is a branch


def test_reverts_of_reverts_are_one_session(home: Home) -> None:
    home.add(THREAD, *turns("one", "two"))
    home.add(SECOND, *turns("three", "four"), base=(THREAD, 3))
    path = home.add(THIRD, *turns("five"), base=(SECOND, 6))
    assert told(path) == ["one", "ONE", "three", "THREE", "five", "FIVE"]
    assert leaves(path) == ["FIVE", "FOUR", "TWO"]


def test_a_revert_before_the_first_prompt_keeps_what_was_there_as_a_branch(home: Home) -> None:
    home.add(THREAD, *turns("one"))
    path = home.add(SECOND, *turns("new"))
    assert told(path) == ["new", "NEW"]
    assert leaves(path) == ["NEW", "ONE"]


def test_a_fork_has_the_history_up_to_its_end_and_no_more(home: Home) -> None:
    home.add(THREAD, *turns("one", "two"))
    home.add(SECOND, *turns("three", "four"), base=(THREAD, 3))
    path = home.add(FORK, *turns("five"), thread=FORK, base=(SECOND, 6))
    assert told(path) == ["one", "ONE", "three", "THREE", "five", "FIVE"]
    assert leaves(path) == ["FIVE"]
    again = home.add(OTHER, *turns("six"), thread=FORK, base=(THREAD, 3))
    assert told(again) == ["one", "ONE", "six", "SIX"]
    assert leaves(again) == ["FIVE", "SIX"]


def test_a_revert_before_a_compaction_is_below_what_the_compaction_replaced(home: Home) -> None:
    kept = [said("user", "summary")["payload"]]
    compacted = line("compacted", message="summary", replacement_history=kept)
    home.add(THREAD, *turns("one", "two"), compacted, *turns("three"))
    after = home.add(SECOND, *turns("new"), base=(THREAD, 8))
    before = home.add(THIRD, *turns("new"), base=(THREAD, 5))
    assert told(after) == ["summary", "three", "THREE", "new", "NEW"]
    assert told(before) == ["one", "ONE", "two", "TWO", "new", "NEW"]


def test_a_line_has_one_uuid_in_every_session_that_has_it(home: Home) -> None:
    first = home.add(THREAD, *turns("one", "two"))
    second = home.add(SECOND, *turns("new"), base=(THREAD, 3))
    with Session.open(first, readonly=True) as one, Session.open(second, readonly=True) as two:
        assert {e.uuid for e in one.entries()} < {e.uuid for e in two.entries()}
        assert [two.original(e.uuid) for e in one.entries()] == [
            one.original(e.uuid) for e in one.entries()
        ]


@pytest.mark.parametrize("folder", ["archived_sessions", "sessions/2025/01/31", "compressed"])
def test_the_history_is_found_where_codex_keeps_it(home: Home, folder: str) -> None:
    where = DAY if folder == "compressed" else folder
    base = home.add(THREAD, *turns("one", "two"), folder=where)
    path = home.add(SECOND, *turns("new"), base=(THREAD, 3))
    if folder == "compressed":
        zstandard = pytest.importorskip("zstandard", reason="zstandard is not installed")
        packed = zstandard.ZstdCompressor().compress(base.read_bytes())
        base.with_name(base.name + ".zst").write_bytes(packed)
        base.unlink()
    assert told(path) == ["one", "ONE", "new", "NEW"]


def _missing(home: Home, path: Path) -> Path:
    path.unlink()
    return path


def _pipe(home: Home, path: Path) -> Path:
    path.unlink()
    os.mkfifo(path)
    return path


def _short(home: Home, path: Path) -> Path:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]))
    return path


def _circle(home: Home, path: Path) -> Path:
    return home.add(THREAD, *turns("one", "two"), base=(SECOND, 4))


@pytest.mark.parametrize(
    ("fault", "cause", "left"),
    [
        (_missing, f"segment {THREAD}, a file 'rollout-*{THREAD}.jsonl'", []),
        (_pipe, f"segment {THREAD}, a file 'rollout-*{THREAD}.jsonl'", []),
        (_short, "continued from ordinal 3, but its last ordinal is 1", ["one"]),
        (_circle, f"leads back to segment {SECOND}", []),
    ],
)
def test_a_history_that_is_not_there_is_one_finding(
    home: Home, fault: Callable[[Home, Path], Path], cause: str, left: list[str]
) -> None:
    base = home.add(THREAD, *turns("one", "two"))
    path = home.add(SECOND, *turns("new"), base=(THREAD, 3))
    fault(home, base)
    with Session.open(path, readonly=True) as session:
        assert [found.kind for found in session.verify()] == ["history"]
        assert cause in session.damage[0].cause
        assert texts(session) == [*left, "new", "NEW"]


def test_a_compressed_history_without_a_decoder_is_one_finding(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    zstandard = pytest.importorskip("zstandard", reason="zstandard is not installed")
    base = home.add(THREAD, *turns("one"))
    path = home.add(SECOND, *turns("new"), base=(THREAD, 3))
    packed = zstandard.ZstdCompressor().compress(base.read_bytes())
    base.with_name(base.name + ".zst").write_bytes(packed)
    base.unlink()
    for name in ("compression.zstd", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    with Session.open(path, readonly=True) as session:
        assert [found.kind for found in session.verify()] == ["history"]
        assert "pip install" in session.damage[0].cause
        assert texts(session) == ["new", "NEW"]


def named(home: Home, *names: str) -> None:
    lines = [{"id": THREAD, "thread_name": name, "updated_at": "x"} for name in names]
    content = "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in lines)
    home.root.mkdir(exist_ok=True)
    (home.root / "session_index.jsonl").write_text(content)


def test_a_thread_is_one_row_with_its_name_and_first_prompt(home: Home) -> None:
    home.add(THREAD, *turns("one", "two"))
    path = home.add(SECOND, *turns("new"), base=(THREAD, 3), folder="sessions/2026/11/23")
    fork = home.add(FORK, *turns("other"), thread=FORK, base=(SECOND, 6))
    named(home, "before", "A name")
    rows = {row.file: (row.id, row.name, row.first_message) for row in Store(home.root).list()}
    assert rows == {
        str(path): (THREAD, "A name", "one"),
        str(fork): (FORK, None, "one"),
    }
    with Session.open(path, readonly=True) as session:
        assert session.name == "A name"


def test_a_search_finds_what_is_in_older_segments_once(home: Home) -> None:
    home.add(THREAD, *turns("one", "needle"))
    path = home.add(SECOND, *turns("new"), base=(THREAD, 3))
    fork = home.add(FORK, *turns("other"), thread=FORK, base=(SECOND, 6))
    found = [(hit.file, hit.ref) for hit in Store(home.root).search("needle", ignore_case=False)]
    with Session.open(path, readonly=True) as session:
        assert [file for file, _ in found] == [str(path)]  # the fork is not of that branch
        assert session.entry(found[0][1]).type == "message"
    assert {hit.file for hit in Store(home.root).search("one")} == {str(path), str(fork)}


def test_an_import_has_all_segments_in_one_session_and_adds_new_ones(home: Home) -> None:
    named(home, "A name")
    into = home.root.parent / "into"
    importer = Importer(into)

    def imported() -> list[int]:
        results = [importer.take(file) for file in importer.sources(str(home.root), pytest.fail)]
        return [result.new for result in results]

    home.add(THREAD, *turns("one", "two"))
    assert imported() == [4]
    path = home.add(SECOND, *turns("new"), base=(THREAD, 3))
    assert imported() == [3]  # with the first line, which starts the segment
    named(home, "A name", "Another")
    assert imported() == [0]
    (file,) = into.glob("*.jsonl")
    with Session.open(file, readonly=True) as session:
        assert session.name == "Another"
    assert told(file) == told(path)
    assert leaves(file) == leaves(path)
    home.add(THIRD, *turns("last"), base=(SECOND, 6))
    assert imported() == [3]
    assert imported() == [0]
