"""What a list counts in whole files: how much at once, and of documents only whole ones."""

from __future__ import annotations

import json
import os
from functools import cache as cache_of_functions
from pathlib import Path
from typing import Any

import pytest

from sessiontree import CorruptionError, CostSum, SessionNotFoundError, Store
from sessiontree.core.usage import FileCounts
from sessiontree.library import counts
from sessiontree.library.counts import CountCache
from sessiontree.library.listing import facts_of
from tests.support.sessions import by_hand
from tests.support.terminal import printed_json

MESSAGES = [
    {"id": str(n), "timestamp": "2026-02-10T21:11:00Z", "type": kind, "content": f"say {n}"}
    for n, kind in enumerate(("user", "gemini", "user"))
]


@pytest.fixture
def document(tmp_path: Path) -> Path:
    """A chat of an older Gemini CLI, which is one JSON document over many lines."""
    times = {"startTime": "2026-02-10T21:11:00Z", "lastUpdated": "2026-02-10T21:12:00Z"}
    file = tmp_path / "session-1.json"
    chat = {"sessionId": "one", "projectHash": "0", **times, "messages": MESSAGES}
    file.write_text(json.dumps(chat, indent=2))
    return file


def turns(*files: Path, at_once: int | None = None, folder: Path | None = None) -> list[int | None]:
    counter = CountCache(None if folder is None else str(folder))
    told = counter.counted([facts_of(str(file)) for file in files], at_once)
    found = [None if each is None else each.turns for _, each in told]
    counter.save()
    return found


def test_a_list_counts_so_many_bytes_and_passes_over_what_is_larger(tmp_path: Path) -> None:
    files = [
        by_hand(tmp_path / "two.jsonl", "a", "b"),
        by_hand(tmp_path / "large.jsonl", *"abcdefghi"),
        by_hand(tmp_path / "one.jsonl", "a"),
        by_hand(tmp_path / "another.jsonl", "a"),
    ]
    two, large, one, _ = (file.stat().st_size for file in files)
    assert turns(*files, at_once=two + one) == [2, None, 1, None]
    assert turns(*files, at_once=two + one - 1) == [2, None, None, None]
    assert turns(*files, at_once=two + large + one) == [2, 9, 1, None]
    assert turns(*files, at_once=0) == [None] * 4
    assert turns(*files) == [2, 9, 1, 1]


def test_what_is_kept_costs_nothing_and_only_the_newest_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [by_hand(tmp_path / f"{n}.jsonl", *"abc"[:n]) for n in (1, 2, 3)]
    for file in files:
        os.utime(file, (1_000, 1_000))
    cache = tmp_path / "cache"
    monkeypatch.setattr("sessiontree.library.cache.MAX_ROWS", 2)
    assert turns(*files, folder=cache) == [1, 2, 3]
    assert turns(*files, folder=cache, at_once=0) == [None, 2, 3]


def test_two_processes_that_count_at_once_both_keep_what_they_counted(tmp_path: Path) -> None:
    files = [by_hand(tmp_path / f"{n}.jsonl", *"abc"[:n]) for n in (1, 2)]
    cache = tmp_path / "cache"
    counters = [CountCache(str(cache)) for _ in files]
    for file, counter in zip(files, counters, strict=True):
        os.utime(file, (1_000, 1_000))
        assert [*counter.counted([facts_of(str(file))])]
    for counter in counters:
        counter.save()
    assert turns(*files, folder=cache, at_once=0) == [1, 2]


def test_a_document_is_counted_whole_and_up_to_a_size(
    document: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = document.stat().st_size
    assert turns(document) == [2]
    monkeypatch.setattr(counts, "LARGEST_DOCUMENT", size)
    assert turns(document) == [2]
    monkeypatch.setattr(counts, "LARGEST_DOCUMENT", size - 1)
    assert turns(document) == [None]


def test_the_turns_of_a_document_that_is_cut_are_unknown(document: Path) -> None:
    facts = facts_of(str(document))
    document.write_bytes(document.read_bytes()[:-3])  # its agent writes it now
    ((_, found),) = CountCache(None).counted([facts], None)
    assert found is None


def test_the_counts_of_a_file_that_is_gone_are_unknown(tmp_path: Path) -> None:
    file = by_hand(tmp_path / "s.jsonl", "a")
    facts = facts_of(str(file))
    file.unlink()
    ((_, found),) = CountCache(None).counted([facts], None)
    assert found is None


@pytest.fixture
def settled(tmp_path: Path) -> Path:
    """A session that changed long ago, so that its counts are kept."""
    file = by_hand(tmp_path / "s.jsonl", "a")
    os.utime(file, (1_000, 1_000))
    return file


def kept(folder: Path) -> list[Path]:
    return list(folder.glob("counts-*"))


def test_nothing_is_kept_of_a_file_that_changes_while_it_is_counted(
    settled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = counts._counts_of

    def counted(*given: Any) -> FileCounts | None:
        found = count(*given)
        by_hand(settled, "a", "b")
        os.utime(settled, (1_001, 1_001))
        return found

    with monkeypatch.context() as patched:
        patched.setattr(counts, "_counts_of", counted)
        assert turns(settled, folder=tmp_path / "cache") == [1]
    assert kept(tmp_path / "cache") == []
    assert turns(settled, folder=tmp_path / "cache") == [2]


def test_the_cache_is_written_only_if_something_was_counted(settled: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert turns(settled) == [1]
    assert turns(settled, folder=cache) == [1]
    (before,) = kept(cache)
    inode = before.stat().st_ino
    assert turns(settled, folder=cache) == [1]
    assert [each.stat().st_ino for each in kept(cache)] == [inode]
    by_hand(settled, "a", "b")
    os.utime(settled, (1_001, 1_001))
    assert turns(settled, folder=cache) == [2]
    assert turns(settled, folder=cache, at_once=0) == [2]


def test_a_path_that_is_not_unicode_is_counted_and_not_kept(settled: Path, tmp_path: Path) -> None:
    odd = settled.with_name(os.fsdecode(b"\xff.jsonl"))
    odd.write_bytes(settled.read_bytes())
    os.utime(odd, (1_000, 1_000))
    assert turns(odd, settled, folder=tmp_path / "cache") == [1, 1]
    assert turns(odd, settled, folder=tmp_path / "cache", at_once=0) == [None, 1]


ANSWERS: list[dict[str, Any]] = [
    {"usage": {"input_tokens": 10, "output_tokens": 5, "cost": 0.25}},
    {"usage": {"input_tokens": 1_000_000, "output_tokens": 0}},
    {"usage": {"input_tokens": 7, "output_tokens": 1}, "model": "no-such-model"},
]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store with a session of two branches, and the cache folder beside it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = Store(tmp_path / "store")
    with made.create(cwd="/p") as session:
        first = session.append_message({"role": "user", "content": "Build a CLI"})
        for answer in ANSWERS:
            shape = {"role": "assistant", "model": "claude-opus-4-6", "provider": "anthropic"}
            session.append_message({**shape, "content": "Done.", **answer})
        session.branch(first)
        session.append_message({"role": "user", "content": "In Rust"})
    return made


def test_a_row_of_a_store_counts_as_the_open_session_does(store: Store) -> None:
    (row,) = store.list()
    with store.open(row.id, readonly=True) as session:
        stats = session.stats()
    counts = row.counts
    assert (counts.turns, counts.model) == (2, "no-such-model")
    assert counts.usage == stats.usage
    assert counts.cost == stats.cost
    assert counts.cost.reported == 0.25
    assert "turns=2, model='no-such-model'" in repr(counts)


def test_the_cost_of_a_row_is_reported_and_estimated_apart(store: Store) -> None:
    pytest.importorskip("genai_prices")
    (row,) = store.list()
    cost = row.counts.cost
    assert (cost.reported, cost.estimated > 1, cost.unpriced) == (0.25, True, 1)


def test_a_row_counts_the_file_as_it_is_now(store: Store) -> None:
    (row,) = store.list()
    for turns in (2, 3):
        assert row.counts.turns == turns
        with store.open(row.id) as session:
            session.append_message({"role": "user", "content": "And tests"})
    os.unlink(row.file)
    with pytest.raises(SessionNotFoundError):
        row.counts  # noqa: B018


def test_a_list_counts_nothing_and_a_row_keeps_what_is_worth_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (row,) = store.list()
    os.utime(row.file, (1_000, 1_000))
    cache = tmp_path / "cache"
    assert not cache.exists()
    assert row.counts.turns == 2
    assert not cache.exists()  # so few bytes are counted again as fast
    monkeypatch.setattr(counts, "WORTH_SAVING", 1)
    os.utime(row.file, (2_000, 2_000))
    assert row.counts.turns == 2
    (saved,) = (path for path in cache.rglob("*") if path.is_file())
    monkeypatch.setattr(counts, "_shared", cache_of_functions(CountCache))  # as a new process
    before = saved.stat()
    assert row.counts.turns == 2
    assert saved.stat() == before


def test_a_row_of_another_agent_counts_too(document: Path) -> None:
    counted = facts_of(str(document)).counts
    assert (counted.turns, counted.cost) == (2, CostSum())
    document.write_bytes(document.read_bytes()[:-9])
    with pytest.raises(CorruptionError, match="is cut"):
        facts_of(str(document)).counts  # noqa: B018


def test_a_prompt_behind_a_byte_order_mark_counts(tmp_path: Path) -> None:
    lines = [
        {"type": "user", "uuid": f"u{number}", "sessionId": "s", "parentUuid": None}
        | {"message": {"role": "user", "content": f"prompt {number}"}}
        for number in range(3)
    ]
    text = "\n".join(map(json.dumps, lines)) + "\n"
    (tmp_path / "s.jsonl").write_text(text, encoding="utf-8-sig")
    (row,) = printed_json("ls", tmp_path / "s.jsonl")
    assert row["turns"] == 3
