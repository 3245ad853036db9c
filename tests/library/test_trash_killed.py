"""A killed trash, restore or emptying of the trash parts no session: the next one finishes it.

The program dies at each call of the seam in turn. Nothing after that call runs, so nothing is
undone; then another program goes on.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from sessiontree import ContentLostWarning, RefError, Session, Store, copy
from sessiontree.errors import SessionExistsError, SessionTreeError, UsageError
from sessiontree.storage.names import session_files
from tests.support.faultydisk import NoLinks

TEXT = "a text too large for a line " * 2000


class Killed(BaseException):
    """The program is gone."""


class Dying(NoLinks):
    """Dies before call number `left` of those that change something."""

    left = -1
    has_links = True

    def _call(self, kind: str, what: int | str) -> None:
        if kind in (
            "write",
            "replace",
            "link",
            "unlink",
            "make_folder",
            "remove_folder",
            "sync_folder",
            "sync",
        ):
            self.left -= 1
        if self.left == 0:
            self.left += 1  # it stays dead
            raise Killed
        super()._call(kind, what)

    def link(self, source: str, target: str) -> None:
        if not self.has_links:
            super().link(source, target)
            return
        self._call("link", target)
        os.link(source, target)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with one session that has sidecars."""
    store = Store(tmp_path / "store")
    with store.create(cwd="/p", id="one", durability="os") as session:
        session.append_message({"role": "user", "content": TEXT})
    Path(f"{session.file}.v1").write_text("the original")
    return store


def places(store: Store) -> list[str]:
    tops = (store.root, f"{store.root}/.trash")
    return [f for top in tops if os.path.isdir(top) for f in session_files(top, print)]


def is_whole(file: str) -> bool:
    if Path(f"{file}.v1").read_text() != "the original":
        return False
    with Session.open(file, readonly=True) as session:
        return [message["content"] for message in session.context().messages] == [TEXT]


def again(store: Store, file: str) -> None:
    """The same once more, and back."""
    if os.path.exists(file):
        assert is_whole(store.trash(file))
    assert len(store.trashed()) == 1
    assert store.restore("latest") == file


def restored(store: Store, file: str) -> None:
    try:
        assert store.restore("latest") == file
    except RefError:  # it is not in the trash
        assert os.path.exists(file)


def restored_by_path(store: Store, file: str) -> None:
    """By the path that a list of the trash gave."""
    for trashed in store.trashed():
        assert store.restore(trashed.file) == file
    restored(store, file)


def repaired(store: Store, file: str) -> None:
    """Rewritten in the meantime, so that it is another file; then both once more."""
    if os.path.exists(file):
        with open(file, "ab") as damaged:
            damaged.write(b"\n")
        with Session.open(file) as session:
            session.repair()
        store.trash(file)
    assert store.restore("latest") == file


def killed(
    store: Store, links: bool, act: Callable[[Store, str], object], tmp_path: Path
) -> Iterator[tuple[Store, str]]:
    """The store after a program died at each call of an act, in turn."""
    (file,) = places(store)
    for number in count(1):
        root = tmp_path / str(number)
        shutil.copytree(store.root, root)
        disk = Dying()
        disk.has_links, disk.left = links, number
        at = str(root) + file.removeprefix(store.root)
        try:
            act(Store(root, fs=disk), at)
        except Killed:
            yield Store(root), at
        else:
            assert number > 10
            return


@pytest.mark.parametrize("links", [True, False], ids=["hard links", "no hard links"])
@pytest.mark.parametrize("then", [again, restored, restored_by_path, repaired])
def test_a_trash_that_was_killed_is_finished(
    store: Store, tmp_path: Path, links: bool, then: Callable[[Store, str], None]
) -> None:
    for left, file in killed(store, links, lambda s, f: s.trash(f), tmp_path):
        then(left, file)
        assert is_whole(file), places(left)
        assert not [p for p in places(left) if p != file and is_same_session(p)]
        assert not list(Path(left.root, ".trash").glob(".moving-*"))


def is_same_session(file: str) -> bool:
    """Whether a file in the trash is more than an older state, left by a repair."""
    return os.path.exists(f"{file}.blobs")


@pytest.mark.parametrize("links", [True, False], ids=["hard links", "no hard links"])
@pytest.mark.parametrize("then", [restored, restored_by_path, again])
def test_a_restore_that_was_killed_is_finished(
    store: Store, tmp_path: Path, links: bool, then: Callable[[Store, str], None]
) -> None:
    (original,) = places(store)
    store.trash("one")
    for left, trashed in killed(store, links, lambda s, f: s.restore(f), tmp_path):
        file = left.root + original.removeprefix(store.root)
        assert trashed.startswith(left.root)
        then(left, file)
        assert places(left) == [file]
        assert is_whole(file)
        stayed = [path.name for path in Path(left.root, ".trash").rglob("*.jsonl*")]
        assert all(name.endswith(".lock") for name in stayed), stayed


def test_a_new_session_of_the_same_name_gets_nothing_of_the_trashed_one(store: Store) -> None:
    (file,) = places(store)
    trashed = store.trash("one")
    place = os.path.relpath(trashed, f"{store.root}/.trash")
    mark = Path(store.root, ".trash", ".moving-" + place.split(os.sep)[0])
    mark.write_text(place)  # the program died before it removed its mark
    Session.create(file).close()
    store.trash(file)
    assert is_whole(trashed)
    assert not mark.exists()


def test_a_mark_that_leads_out_of_the_store_moves_nothing(store: Store, tmp_path: Path) -> None:
    (file,) = places(store)
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.copy(file, outside / "chat.jsonl")
    store.trash("one")
    mark = Path(store.root, ".trash", ".moving-x")
    for place in ("x/../../../outside/chat.jsonl", "y/chat.jsonl", "x", ""):
        mark.write_text(place)
        store.restore("one")
        assert not mark.exists()
        store.trash("one")
    assert [path.name for path in outside.iterdir()] == ["chat.jsonl"]


def test_a_session_held_after_a_killed_trash_does_not_stop_the_others(
    store: Store, tmp_path: Path
) -> None:
    parted = 0
    for left, file in killed(store, True, lambda s, f: s.trash(f), tmp_path):
        if not os.path.exists(file) or os.path.exists(f"{file}.blobs"):
            continue
        parted += 1
        other = left.create(cwd="/p", id="other")
        other.close()
        with Session.open(file, exclusive=True):
            left.trash(str(other.file))
            assert list(Path(left.root, ".trash").glob(".moving-*"))
        assert is_whole(left.trash(file))
        assert len(left.trashed()) == 2
    assert parted


def test_a_refused_restore_does_not_stop_the_others(store: Store, tmp_path: Path) -> None:
    (file,) = places(store)
    copied = str(tmp_path / "copy.jsonl")
    copy(file, copied)
    trashed = store.trash("one")
    copy(copied, file)
    other = store.create(cwd="/p", id="other")
    other.close()
    with pytest.raises(SessionExistsError, match="is there already"):
        store.restore(trashed)
    assert not list(Path(store.root, ".trash").glob(".moving-*"))
    store.restore(store.trash(str(other.file)))
    assert is_whole(file)
    assert is_whole(trashed)


def test_a_killed_trash_that_cannot_be_finished_does_not_stop_the_others(
    store: Store, tmp_path: Path
) -> None:
    parted = 0
    for left, file in killed(store, True, lambda s, f: s.trash(f), tmp_path):
        if os.path.exists(file) or os.path.exists(f"{file}.blobs"):
            continue
        parted += 1
        in_the_way = Path(f"{file}.blobs")
        in_the_way.write_bytes(b"of another program")
        other = left.create(cwd="/p", id="other")
        other.close()
        left.trash(str(other.file))
        assert in_the_way.read_bytes() == b"of another program"
    assert parted


def test_a_restore_says_which_session_lacks_blobs(store: Store) -> None:
    trashed = store.trash("one")
    shutil.rmtree(f"{trashed}.blobs")
    with pytest.warns(ContentLostWarning, match="1 of the blobs that it needs are missing or"):
        file = store.restore("one")
    assert os.path.exists(file)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SessionTreeError):
            store.restore("one")


@pytest.mark.parametrize("then", ["emptied", "restored"])
def test_an_emptying_that_was_killed_is_finished(store: Store, tmp_path: Path, then: str) -> None:
    store.trash("one")
    ends: set[bool] = set()

    def empty(store: Store, file: str) -> None:
        store.empty_trash(older_than=timedelta(0))

    for left, trashed in killed(store, True, empty, tmp_path):
        is_there = bool(left.trashed())
        ends.add(is_there)
        assert not is_there or is_whole(trashed)
        for hidden in Path(left.root, ".trash").glob(".deleting-*/*/*.jsonl"):
            with pytest.raises(UsageError, match="is being removed"):
                left.restore(str(hidden))
        if is_there and then == "restored":
            assert is_whole(left.restore("latest"))
            continue
        left.empty_trash(older_than=timedelta(0 if is_there else 1))
        assert list(Path(left.root, ".trash").iterdir()) == []
    assert ends == {True, False}
