"""Programs that make, move, throw away and bring back sessions of one store at once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from sessiontree import Session, Store
from sessiontree.importing.importer import Importer
from sessiontree.storage.names import session_files

CREATE = """
import sys
from sessiontree import Store
from sessiontree.errors import StorageError
store = Store(sys.argv[1])
for number in range(25):
    session = store.create(cwd="/a", durability="os")
    try:
        entry = session.append_message({"role": "user", "content": "kept " * 8000})
        print(session.id, entry.uuid, flush=True)
    except StorageError:  # moved away before anything was said: nothing was acknowledged
        pass
    session.close()
"""

MOVE = """
import os, sys
from sessiontree import Store
from sessiontree.errors import StorageError, NothingToDoError
store = Store(sys.argv[1])
old, new, stop = sys.argv[2:]
while not os.path.exists(stop):
    try:
        store.move_project(old, new)
    except (StorageError, NothingToDoError):  # another was there first
        pass
"""

THROW = """
import os, sys
from sessiontree import Store
from sessiontree.errors import StorageError, RefError
store = Store(sys.argv[1])
is_last = False
while not is_last:
    is_last = os.path.exists(sys.argv[2])
    try:
        store.restore(store.trash("latest"))
        store.trash("latest")
    except (StorageError, RefError):  # another was there first
        pass
"""

EMPTY = """
import os, sys
from datetime import timedelta
from sessiontree import Store
store = Store(sys.argv[1])
is_last = False
while not is_last:
    is_last = os.path.exists(sys.argv[2])
    problems = []
    for one in store.empty_trash(older_than=timedelta(0), report=problems.append):
        print(os.path.basename(one.file).removesuffix(".jsonl").rpartition("_")[2], flush=True)
    assert not problems, problems
"""


def spawn(script: str, store: Store, *words: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", "-c", script, store.root, *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(process: subprocess.Popen[str]) -> str:
    """What a program printed that ended well."""
    told, error = process.communicate()
    assert (process.returncode, error) == (0, "")
    return told


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_or_doubled_as_all_move(store: Store, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    creators = [spawn(CREATE, store) for _ in range(2)]
    others = [spawn(MOVE, store, "/a", "/b", stop), spawn(MOVE, store, "/b", "/a", stop)]
    others.append(spawn(THROW, store, stop))
    try:
        told = [finished(process) for process in creators]
    finally:
        stop.touch()
    for process in others:
        finished(process)
    lines = [line.split() for text in told for line in text.splitlines()]
    assert_each_is_there_once(store, dict(lines))


def assert_each_is_there_once(store: Store, acknowledged: dict[str, str]) -> None:
    assert acknowledged
    trash = Path(store.root, ".trash")
    files = [*session_files(store.root, print)]
    files += session_files(str(trash), print) if trash.is_dir() else []
    found: Counter[str] = Counter()
    for file in files:
        with Session.open(file, readonly=True) as session:
            found[session.id] += 1
            if session.id in acknowledged:
                entry = session.entry(acknowledged[session.id])
                assert entry["message"]["content"] == "kept " * 8000  # from its blob
    assert {id: found[id] for id in acknowledged} == dict.fromkeys(acknowledged, 1)


FOLDER = """
import os, sys
while not os.path.exists(sys.argv[2]):
    os.mkdir(sys.argv[1])
    os.rmdir(sys.argv[1])
"""


def test_a_folder_made_or_removed_meanwhile_is_still_a_folder(store: Store, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    other = spawn(FOLDER, store, stop)
    try:
        for _ in range(20_000):
            assert store.list() == []
            Importer(store.root)
    finally:
        stop.touch()
        other.communicate()
    assert other.returncode == 0


@pytest.mark.slow
def test_a_list_made_during_changes_has_whole_sessions(store: Store, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    creator, other = spawn(CREATE, store), spawn(THROW, store, stop)
    seen = 0
    try:
        while creator.poll() is None:
            for one in store.list(report=lambda problem: None):
                assert one.id
                assert one.cwd == "/a"
                seen += 1
    finally:
        stop.touch()
    finished(creator)
    finished(other)
    assert seen


@pytest.mark.slow
def test_what_an_emptied_trash_loses_is_what_it_names(store: Store, tmp_path: Path) -> None:
    created, thrown = tmp_path / "created", tmp_path / "thrown"
    creator, thrower = spawn(CREATE, store), spawn(THROW, store, created)
    emptiers = [spawn(EMPTY, store, thrown) for _ in range(2)]
    try:
        acknowledged = dict(line.split() for line in finished(creator).splitlines())
        created.touch()  # the last round of the thrower finds what nobody writes any more
        finished(thrower)
    finally:
        created.touch()
        thrown.touch()
    removed = [id for emptier in emptiers for id in finished(emptier).splitlines()]
    assert removed
    assert len(set(removed)) == len(removed)
    left = {id: uuid for id, uuid in acknowledged.items() if id not in removed}
    if left:
        assert_each_is_there_once(store, left)
    names = [path.name for path in Path(store.root).rglob("*")]
    assert not [name for name in names for id in removed if id in name and "lock" not in name]
