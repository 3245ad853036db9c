"""The garbage of all sessions of a store is removed, one session after the other."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sessiontree import AsyncStore, Session, SessionTreeWarning, Store, UsageError
from tests.support.loops import in_each_loop
from tests.support.sessions import said, version_1
from tests.support.terminal import printed_json, refused, run

LATER = datetime.now(UTC) + timedelta(days=8)


@pytest.fixture(autouse=True)
def _is_home(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSIONTREE_HOME", store.root)


def tried(store: Store, id: str, cwd: str = "/p") -> str:
    """A session with one scratch entry."""
    file = said(store, "hello", id=id, cwd=cwd)
    with Session.open(file) as main, main.scratch() as trial:
        trial.append_message({"role": "user", "content": "tried"})
    return file


def names(store: Store) -> set[str]:
    return {path.name for path in Path(store.root).rglob("*")}


def test_each_session_with_garbage_is_named_and_the_others_are_only_read(store: Store) -> None:
    files = [tried(store, "one"), tried(store, "two", cwd="/q")]
    clean = Path(said(store, "hello", cwd="/p"))
    old = version_1(Path(store.root, "old.jsonl"), "hello")
    os.unlink(f"{clean}.lock")
    trashed = store.trash(tried(store, "three"))
    before = {path: Path(path).read_bytes() for path in (clean, old, trashed)}
    assert store.gc() == {}
    with pytest.raises(UsageError, match="now is a time with a time zone"):
        store.gc(now=LATER.replace(tzinfo=None))
    planned = store.gc(now=LATER, dry_run=True)
    assert {file: len(found.entries) for file, found in planned.items()} == dict.fromkeys(files, 1)
    assert set(store.gc(now=LATER, cwd="/q")) == {files[1]}
    seen: list[tuple[str, bool]] = []
    done = store.gc(now=LATER, each=lambda file, result: seen.append((file, result.is_empty)))
    assert set(done) == {files[0]}
    assert sorted(seen) == sorted(
        [(files[0], False), *((str(file), True) for file in (files[1], clean, old))]
    )
    for file in files:
        with Session.open(file, readonly=True) as session:
            assert len(list(session.entries())) == 2
    assert {path: Path(path).read_bytes() for path in before} == before
    assert not os.path.exists(f"{clean}.lock")


def test_a_session_that_fails_is_reported_and_does_not_stop_the_others(store: Store) -> None:
    torn, held, good = (tried(store, id) for id in ("torn", "held", "good"))
    with open(torn, "ab") as file:
        file.write(b'{"type":"mess\n')
    problems: list[str] = []
    with Session.open(held, exclusive=True):
        assert set(store.gc(now=LATER, report=problems.append)) == {good}
    assert [torn in text or held in text for text in problems] == [True, True]
    with pytest.warns(SessionTreeWarning, match="repair the file first"):
        assert set(store.gc(now=LATER)) == {held}


def test_a_time_without_a_zone_is_refused_before_anything_is_removed(store: Store) -> None:
    tried(store, "one")
    with pytest.raises(UsageError, match="time zone"):
        store.gc(now=datetime(2999, 1, 1))


@in_each_loop
async def test_an_async_store_removes_garbage(tmp_path: Path) -> None:
    store = AsyncStore(tmp_path / "store")
    file = tried(store.plain, "one")
    assert set(await store.gc(now=LATER)) == {file}


def test_the_command_prints_a_line_for_each_session_with_garbage(
    store: Store, tmp_path: Path
) -> None:
    as_of = ("--as-of", LATER.isoformat())
    other = Store(tmp_path / "other")
    elsewhere = tried(other, "elsewhere")
    file, torn = tried(store, "one"), tried(store, "torn")
    said(store, "no garbage")
    planned = run("gc", "--store", "--dry-run", *as_of)
    assert (planned.exit_code, len(planned.stdout.splitlines())) == (0, 2)
    assert f"{file}: 1 entry would be moved into {file}.archive-" in planned.stdout
    assert "garbage in 2 of 3 sessions" in planned.stderr
    with open(torn, "ab") as damaged:
        damaged.write(b'{"type":"mess\n')
    result = run("gc", *as_of, "--store")
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{file}: 1 entry moved into {file}.archive-")
    assert f"Error: {torn}:" in result.stderr
    (told,) = printed_json("gc", "--store", other.root, *as_of)
    assert (told["file"], len(told["entries"])) == (elsewhere, 1)
    assert printed_json("gc", "--store", other.root, *as_of) == []


def test_the_command_takes_one_session_or_all(store: Store) -> None:
    assert "garbage in 0 of 0 sessions" in run("gc").stderr
    os.mkdir(store.root)
    before = dict(os.environ)
    assert "no session in" in refused("gc", "lost", "--store", store.root)
    assert dict(os.environ) == before


def test_the_command_does_not_take_a_file_for_a_store(store: Store) -> None:
    assert "is a file, not a folder" in refused("gc", "--store", said(store, "hello"))
