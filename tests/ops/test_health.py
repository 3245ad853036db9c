"""`health`: sessions are checked, repaired and freed of garbage by calls."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import sessiontree
from sessiontree import Session, Store
from sessiontree.calls.dispatcher import Dispatcher
from sessiontree.ops import OWN
from sessiontree.ops.operation import Namespace
from tests.support.calls import Calls
from tests.support.sessions import said
from tests.support.table import for_each


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def file(store: Store) -> str:
    return said(store, "hello")


@pytest.fixture
def calls(store: Store) -> Calls:
    return Calls(store.root)


def test_a_look_at_all_tells_versions_and_what_cannot_be_read(
    calls: Calls, store: Store, file: str
) -> None:
    found = calls.value("health.check")
    assert (found["version"], found["sound"]) == (sessiontree.__version__, True)
    assert (found["sessions"], found["places"]) == (1, [store.root])
    assert found["schema"] == calls.dispatcher.schema
    Path(store.root, "bad.jsonl").write_text("{}\n")
    found = calls.value("health.check")
    assert found["sound"] is False
    assert "bad.jsonl" in found["unreadable"][0]


def test_namespaces_that_do_not_take_part_are_named(calls: Calls) -> None:
    calls.dispatcher = Dispatcher(calls.scope, [*OWN.values(), Namespace("tree", "another")])
    assert "tree" in calls.value("health.check")["problems"][0]


def test_plugins_of_handles_that_cannot_be_loaded_are_named(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "plugins" / "gone-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gone\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sessiontree.handles]\ngone = no_such_module:gone\n")
    monkeypatch.syspath_prepend(str(tmp_path / "plugins"))
    assert "the plugin 'gone' cannot be loaded" in calls.value("health.check")["problems"][0]


def test_damage_is_told_a_page_at_a_time_with_the_next_step(calls: Calls, file: str) -> None:
    with Path(file).open("ab") as session:
        session.write(b"".join(b'{"broken %d\n' % number for number in range(100)))
    found = calls.pages("health.check", session=file, budget=1000)
    assert [one["line"] for one in found] == list(range(3, 103))
    assert {one["kind"] for one in found} == {"json"}
    assert "repair" in found[0]["next"]


def test_a_repair_says_what_it_does_first_and_keeps_the_original(calls: Calls, file: str) -> None:
    sound = Path(file).read_bytes()
    damaged = sound + b"\0" * 50 + b"\n" + b'{"broken\n'
    Path(file).write_bytes(damaged)
    tried = calls.value("health.repair", session=file, dry_run=True)
    assert tried["mended"] == len(tried["items"]) > 0
    assert Path(file).read_bytes() == damaged
    done = calls.value("health.repair", session=file)
    assert done["items"] == tried["items"]
    assert Path(done["original"]).read_bytes() == damaged
    assert Path(file).read_bytes() == sound
    assert calls.value("health.repair", session=file) == {"mended": 0, "items": []}


def test_an_attempt_that_nobody_kept_is_garbage_seven_days_later(
    calls: Calls, store: Store, file: str
) -> None:
    lane = calls.value("branch.try", session=file)["lane"]
    calls.value("node.create_text", session=file, text="tried", lane=lane)
    blob = Path(f"{file}.blobs", "0" * 64)
    blob.parent.mkdir()
    blob.write_bytes(b"x" * 10)
    assert calls.value("health.gc", dry_run=True) == {"sessions": 0, "freed": 0, "items": []}
    long_ago = time.time() - 8 * 24 * 3600
    os.utime(blob, (long_ago, long_ago))
    tried = calls.value("health.gc", dry_run=True)
    assert (tried["sessions"], tried["freed"]) == (1, 10)
    assert blob.exists()
    assert calls.value("health.gc", session=file)["items"] == tried["items"]
    assert not blob.exists()


def test_a_lost_blob_is_told(calls: Calls, store: Store) -> None:
    with store.create(durability="os") as session:
        entry = session.append_message({"role": "user", "content": "x" * 100_000})
        file = str(session.file)
    assert calls.value("health.blobs", session=file) == {"checked": 1, "sound": True}
    (blob,) = Path(f"{file}.blobs").iterdir()
    blob.write_bytes(b"y" * 100_000)
    found = calls.value("health.blobs", session=file)
    assert (found["sound"], found["items"][0]["kind"]) == (False, "damaged")
    assert found["items"][0]["sha256"] == blob.name
    assert entry.has_spilled


@pytest.mark.parametrize("name", ["repair", "gc"])
def test_nothing_is_repaired_or_removed_where_calls_only_read(
    store: Store, file: str, name: str
) -> None:
    before = sorted(Path(store.root).rglob("*"))
    calls = Calls(store.root, write=False)
    assert calls(f"health.{name}", session=file).kind == "read_only"
    assert calls(f"health.{name}", session=file, dry_run=True).error is None
    assert sorted(Path(store.root).rglob("*")) == before


@for_each("name", ["check", "repair", "gc", "blobs"])
def test_a_session_that_is_not_there_is_refused(calls: Calls, file: str, name: str) -> None:
    assert calls(f"health.{name}", session="none").kind == "session_not_found"


def test_a_check_of_a_session_leaves_no_trace(calls: Calls, file: str) -> None:
    before = sorted(os.listdir(os.path.dirname(file)))
    calls.value("health.check", session=file)
    with Session.open(file, readonly=True) as session:
        assert not session.damage
    assert sorted(os.listdir(os.path.dirname(file))) == before
