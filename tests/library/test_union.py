"""Two copies, or two stores, are united; what cannot be united is refused and left as it is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sessiontree import (
    CorruptionError,
    ForeignFormatError,
    MigrationRefusedError,
    MissingHeaderError,
    Session,
    SessionBusyError,
    SessionNotFoundError,
    SessionTreeError,
    Store,
    UsageError,
    copy,
    sync,
)
from sessiontree.core.codec import encode
from sessiontree.library.listing import facts_of
from sessiontree.storage.fs import DISK
from sessiontree.storage.places import blobs_of, open_log
from tests.places.kinds import STORES, empty_store, in_store
from tests.support.conversation import assistant, user

LARGE = "a text that is a blob " * 20


@pytest.fixture(params=[*STORES[:-1], pytest.param(STORES[-1], marks=pytest.mark.soak)])
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store that is empty, of each kind."""
    with empty_store(request.param, tmp_path) as store:
        yield store


@pytest.fixture
def chat(tmp_path: Path) -> str:
    file = tmp_path / "chat.jsonl"
    with Session.create(file, cwd="/p", id="one", spill_over=100) as session:
        session.append_message(user("hello"))
        session.append_message(assistant("good day"))
    return str(file)


@pytest.fixture
def there(chat: str, other: str) -> str:
    """A copy of the session in the other store."""
    return copy(chat, other).sessions[0].target


def content(file: str) -> bytes:
    with closing(open_log(DISK, file, readonly=True)) as log:
        return log.read(0, log.size())


def add(file: str, *lines: dict[str, object]) -> None:
    """Append lines, made with times that no clock gave."""
    with closing(open_log(DISK, file)) as log, log.alone():
        for keys in lines:
            log.append(encode(keys) + b"\n", log.size())


def said(uuid: str, parent: str, time: str, **more: object) -> dict[str, object]:
    message = {"role": "user", "content": uuid}
    keys = {"type": "message", "uuid": uuid, "parentUuid": parent, "timestamp": time}
    return {**keys, "message": message, **more}


def leaf_of(file: str) -> str:
    with Session.open(file, readonly=True) as session:
        return session.leaf.uuid


def last_words(file: str) -> str:
    with Session.open(file, readonly=True) as session:
        return str(session.context().messages[-1]["content"])


def test_each_copy_gets_what_it_lacks_with_its_blobs(chat: str, there: str) -> None:
    for file, text in ((chat, "here"), (there, "there")):
        with Session.open(file, spill_over=100) as session:
            session.append_message(user(text + LARGE))
    before = content(chat), content(there)
    result = sync(chat, there)
    (done,) = result.sessions
    assert (done.id, done.added_to_a, done.added_to_b, done.blobs) == ("one", 2, 2, 2)
    assert result.problems == result.damage == []
    assert content(chat).startswith(before[0])
    assert content(there).startswith(before[1])
    assert leaf_of(chat) == leaf_of(there)
    for file in (chat, there):
        with Session.open(file, readonly=True) as session:
            assert len(session.branches()) == 2
            assert session.verify() == []
            for entry in session.entries():
                assert entry.get("message", 0) is not None
    assert sync(there, chat).is_unchanged


def test_two_copies_in_one_place_are_united(there: str, other: str) -> None:
    second = copy(there, in_store(other, "second.jsonl")).sessions[0].target
    for file in (there, second):
        with Session.open(file, spill_over=100) as session:
            session.append_message(user(file + LARGE))
    assert sync(there, second).sessions[0].added_to_a == 2
    assert leaf_of(there) == leaf_of(second)
    assert sync(second, there).is_unchanged
    for file in (there, second):
        assert len(list(blobs_of(DISK, file).blobs())) == 2


def test_a_copy_that_only_lacks_lines_gets_no_other(chat: str, there: str) -> None:
    with Session.open(chat) as session:
        session.append_message(user("more"))
        session.label(session.leaf, "here")
    sync(chat, there)
    assert content(chat) == content(there)


def test_the_leaf_with_the_later_time_wins(chat: str, there: str) -> None:
    leaf = leaf_of(chat)
    add(chat, said("a", leaf, "2030-01-01T00:00:00.000Z"))
    add(there, said("b", leaf, "2030-01-01T01:30:00.000+02:00"))  # half an hour earlier
    sync(chat, there)
    for file in (chat, there):
        assert last_words(file) == "a"


def test_of_equal_times_the_leaf_with_the_greater_uuid_wins(chat: str, there: str) -> None:
    leaf = leaf_of(chat)
    add(chat, said("a", leaf, "2030-01-01T00:00:00.000Z"))
    add(there, said("b", leaf, "2030-01-01T00:00:00.000Z"))
    sync(there, chat)
    for file in (chat, there):
        assert last_words(file) == "b"


def test_a_leaf_that_the_other_writer_had_read_never_wins(chat: str, there: str) -> None:
    """Whatever the clocks say: that writer went on from it, or left it on purpose."""
    leaf = leaf_of(chat)
    add(chat, said("a", leaf, "2035-01-01T00:00:00.000Z"))
    sync(chat, there)
    with Session.open(there) as session:
        session.branch(leaf)
        session.append_message(user("later, by a slow clock"))
    sync(chat, there)
    assert content(chat) == content(there)
    assert last_words(chat) == "later, by a slow clock"


def test_an_annotation_moves_no_leaf_whatever_its_time(chat: str, there: str) -> None:
    leaf = leaf_of(chat)
    add(chat, said("a", leaf, "2030-01-01T00:00:00.000Z"))
    later = {"uuid": "n", "parentUuid": leaf, "timestamp": "2040-01-01T00:00:00.000Z"}
    add(there, {"type": "session_info", **later, "name": "named"})
    sync(chat, there)
    for file in (chat, there):
        assert last_words(file) == "a"
        with Session.open(file, readonly=True) as session:
            assert session.name == "named"


def test_a_label_here_and_a_name_there_are_no_activity(chat: str, there: str) -> None:
    leaf, before = leaf_of(chat), facts_of(chat).modified
    later = {"parentUuid": leaf, "timestamp": "2040-01-01T00:00:00.000Z"}
    add(chat, {"type": "label", "uuid": "l", **later, "targetUuid": leaf, "label": "here"})
    add(there, {"type": "session_info", "uuid": "n", **later, "name": "named"})
    sync(chat, there)
    assert facts_of(chat).modified == facts_of(there).modified == before


def test_each_lane_has_the_same_leaf(chat: str, there: str) -> None:
    leaf = leaf_of(chat)
    add(chat, said("a", leaf, "2030-01-01T00:00:00.000Z", lane="l"))
    add(there, said("b", leaf, "2030-01-01T00:00:01.000Z", lane="l"))
    sync(chat, there)
    assert leaf_of(chat) == leaf_of(there) == leaf
    for file in (chat, there):
        with Session.open(file, readonly=True) as session, session.lane("l") as lane:
            assert lane.leaf.parent_uuid == "b"
            assert lane.leaf.lane == "l"


def test_names_labels_and_metadata_are_the_same_afterwards(chat: str, there: str) -> None:
    leaf = leaf_of(chat)
    for file, text, hour in ((chat, "here", 1), (there, "there", 2)):
        keys = {"parentUuid": leaf, "timestamp": f"2030-01-01T0{hour}:00:00.000Z"}
        facts = {"name": text, "metadata": {"where": text, text: 1}}
        add(file, {"type": "session_info", "uuid": f"i-{text}", **keys, **facts})
        add(file, {"type": "label", "uuid": f"l-{text}", **keys, "targetUuid": leaf, "label": text})
    sync(chat, there)
    found = []
    for file in (chat, there):
        with Session.open(file, readonly=True) as session:
            labels = [label.label for label in session.labels()]
            found.append((session.name, labels, sorted(session.metadata.items())))
            assert session.path()[-4].uuid == leaf  # above the branch, name and label
            assert session.leaf.uuid == leaf_of(chat)
    assert found[0] == found[1]
    assert found[0] == ("there", ["there"], [("here", 1), ("there", 1), ("where", "there")])


def test_each_entry_is_found_where_lines_are_in_another_order(chat: str, there: str) -> None:
    """A compaction tells which uuids are before it, in the copy where it was written."""
    with Session.open(chat) as session:
        first = [session.append_message(user("short")) for _ in range(30)]
        session.compact("summary", keep=0)
    with Session.open(there) as session:
        session.append_message(user("long " * 3000))
    sync(chat, there)
    with Session.open(chat) as session:
        session.append_message(user("x" * 400))
        session.compact("summary", keep=0)
    sync(chat, there)
    assert content(chat) != content(there)
    for file in (chat, there):
        for entry in first:
            with Session.open(file, readonly=True) as session:
                assert session.reader.has_uuid(entry.uuid)
                assert session.entry(entry.uuid) == entry


def test_a_blob_that_only_one_copy_lost_comes_back(chat: str, tmp_path: Path) -> None:
    with Session.open(chat, spill_over=100) as session:
        session.append_message(user(LARGE))
    there = str(tmp_path / "there.jsonl")
    copy(chat, there)
    (blob,) = Path(f"{there}.blobs").iterdir()
    blob.unlink()
    assert sync(chat, there).sessions[0].blobs == 1
    assert blob.exists()
    shutil.rmtree(f"{chat}.blobs")
    Path(there).write_bytes(content(there).rpartition(b'{"type":"message"')[0])
    shutil.rmtree(f"{there}.blobs")
    assert "neither copy has the blob" in sync(chat, there).problems[0]
    assert content(there) == content(chat)


def test_a_blob_that_both_copies_lack_is_reported_by_each_run(chat: str, there: str) -> None:
    with Session.open(chat, spill_over=100) as session:
        session.append_message(user(LARGE))
        session.append_message(user("between " * 300_000))
        session.append_message(user(f"{LARGE} and more"))
    copy(chat, there)
    shutil.rmtree(f"{chat}.blobs")
    lacking = [blob.sha256 for blob in (blobs_of(DISK, there).blobs())]
    for sha256 in lacking:
        blobs_of(DISK, there).remove(sha256)
    assert len(lacking) == 3
    for _ in range(2):
        problems = sync(chat, there).problems
        assert len(problems) == 3
        assert all(any(sha256 in problem for problem in problems) for sha256 in lacking)


def test_a_store_gets_a_session_whose_blobs_are_gone_and_says_so(
    chat: str, other: str, tmp_path: Path
) -> None:
    with Session.open(chat, spill_over=100) as session:
        session.append_message(user(LARGE))
    shutil.rmtree(f"{chat}.blobs")
    (tmp_path / "store").mkdir()
    os.rename(chat, tmp_path / "store" / "chat.jsonl")
    Session.create(tmp_path / "another.jsonl", cwd="/p", id="two").close()
    copy(tmp_path / "another.jsonl", other)
    result = sync(tmp_path / "store", other)
    assert result.sessions[0].copied_to is not None
    assert "not copied: a blob of " in result.problems[0]


def test_the_same_entry_with_other_bytes_is_damage_and_nothing_is_written(
    chat: str, there: str
) -> None:
    changed = content(chat).replace(b"good day", b"good dax")
    offset = changed.rindex(b"\n", 0, -1) + 1
    with closing(open_log(DISK, chat)) as log, log.hold():
        log.rewrite(iter([changed]))
    with Session.open(there) as session:
        session.append_message(user("more"))
    before = content(there)
    for pair in ((chat, there), (there, chat)):
        with pytest.raises(CorruptionError, match=rf"is not the same in both.*byte {offset}"):
            sync(*pair)
    assert (content(chat), content(there)) == (changed, before)


def test_two_sessions_are_refused(chat: str, other: str) -> None:
    with Session.open(chat) as session:
        forked = session.fork(f"{os.path.dirname(chat)}/forked.jsonl")
    before = content(chat), content(forked)
    with pytest.raises(UsageError, match="are two sessions"):
        sync(chat, forked)
    assert (content(chat), content(forked)) == before
    with pytest.raises(UsageError, match="are the same"):
        sync(chat, chat)
    with pytest.raises(UsageError, match="the other one a store"):
        sync(chat, os.path.dirname(chat))
    with pytest.raises(SessionNotFoundError):
        sync(chat, in_store(other, "none.jsonl"))


OLD = b'{"type":"session","id":"one","timestamp":"2026-01-01T00:00:00Z","cwd":"/p"}\n'
FOREIGN = b'{"type":"user","uuid":"u","sessionId":"s","message":{"role":"user","content":"x"}}\n'


@pytest.mark.parametrize(
    ("made", "error", "then"),
    [
        (OLD, MigrationRefusedError, "migrate it first"),
        (FOREIGN, ForeignFormatError, "import it"),
        (b"", SessionTreeError, "is empty"),
        (None, MissingHeaderError, "repair it first"),
    ],
    ids=["version 1", "foreign", "empty", "lost header"],
)
def test_what_has_no_entries_to_unite_is_refused_with_the_next_step(
    chat: str, tmp_path: Path, made: bytes | None, error: type[SessionTreeError], then: str
) -> None:
    file = tmp_path / "made.jsonl"
    file.write_bytes(content(chat).partition(b"\n")[2] if made is None else made)
    before = content(chat), file.read_bytes()
    for pair in ((chat, file), (file, chat)):
        with pytest.raises(error, match=then):
            sync(*pair)
    assert (content(chat), file.read_bytes()) == before


def test_a_session_that_an_exclusive_writer_holds_is_busy_unless_nothing_is_lacking(
    chat: str, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessiontree.storage.lock.PATIENCE_SECONDS", 0.01, raising=False)
    with Session.open(chat, exclusive=True):
        assert sync(chat, there).is_unchanged
        with Session.open(there) as session:
            session.append_message(user("more"))
        with pytest.raises(SessionBusyError):
            sync(chat, there)


def test_a_torn_line_stays_where_it_is_and_its_entry_comes_from_the_other(
    chat: str, tmp_path: Path
) -> None:
    there = str(tmp_path / "there.jsonl")
    copy(chat, there)
    torn = content(there)[:-30]
    Path(there).write_bytes(torn)
    result = sync(chat, there)
    assert content(there).startswith(torn + b"\n")
    assert result.sessions[0].added_to_b == 1
    assert [there in found for found in result.damage] == [True]
    assert leaf_of(there) == leaf_of(chat)
    with Session.open(there, readonly=True) as session:
        assert [damage.kind for damage in session.verify()] == ["json"]


def test_a_copy_on_a_medium_that_cannot_be_written_gives_what_it_has(
    chat: str, tmp_path: Path
) -> None:
    class ReadOnly(type(DISK)):  # type: ignore[misc]
        def open(self, path: str, flags: int) -> int:
            if path.startswith(f"{tmp_path}/medium") and flags & os.O_RDWR:
                raise PermissionError(13, "Permission denied", path)
            return int(super().open(path, flags))

    medium = tmp_path / "medium"
    copy(chat, medium)
    there = f"{medium}/chat.jsonl"
    with Session.open(there) as session:
        session.append_message(user("more"))
    assert sync(there, chat, fs=ReadOnly()).sessions[0].added_to_b == 1
    with Session.open(chat) as session:
        session.append_message(user("again"))
    with pytest.raises(SessionTreeError, match="Permission denied"):
        sync(there, chat, fs=ReadOnly())


@pytest.mark.parametrize("is_first", [True, False])
def test_beside_a_store_an_address_is_an_empty_store(
    chat: str, other: str, tmp_path: Path, is_first: bool
) -> None:
    here, there = str(tmp_path / "here"), in_store(other, "new/folder")
    copy(chat, here)
    pair = (here, there) if is_first else (there, here)
    if there.startswith(str(tmp_path)):
        with pytest.raises(SessionNotFoundError, match="make the folder first"):
            sync(*pair)
        return
    assert "/new/folder/chat.jsonl" in str(sync(*pair).sessions[0].copied_to)
    assert sync(*pair).is_unchanged
    for file, none in ((here, "new/none.jsonl"), (chat, "none")):
        with pytest.raises(SessionNotFoundError):
            sync(file, in_store(other, none))


def test_the_sessions_of_one_id_are_all_named_with_their_stores(chat: str, tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    files = [str(a / "p/x.jsonl"), str(b / "p/x.jsonl"), str(b / "q/y.jsonl")]
    for file in files:
        copy(chat, file)
    result = sync(a, b)
    assert len(result.sessions) == 1
    [problem] = result.problems
    assert f"belong together: {', '.join(files)}; only those with the same name" in problem


def test_two_stores_are_united_by_the_ids_of_their_sessions(other: str, tmp_path: Path) -> None:
    here, there = Store(tmp_path / "here"), Store(other)
    for id in ("both", "here"):
        with here.create(cwd="/p", id=id) as session:
            session.append_message(user(id))
    copy(here.find("both").file, in_store(other, "renamed.jsonl"))
    with there.create(cwd="/q", id="there", spill_over=100) as session:
        session.append_message(user(LARGE))
    for store in (here, there):
        with store.open("both") as session:
            session.append_message(user("more"))
    result = sync(here.root, other)
    assert result.problems == result.skipped == []
    assert {one.id: one.copied_to is not None for one in result.sessions} == {
        "both": False,
        "here": True,
        "there": True,
    }
    for id in ("both", "here", "there"):
        files = here.find(id).file, there.find(id).file
        assert sorted(content(files[0]).splitlines()) == sorted(content(files[1]).splitlines())
        assert not list(blobs_of(DISK, files[0]).verify())
    assert here.find("there").cwd == "/q"
    assert sync(other, here.root).is_unchanged


def test_what_cannot_be_united_hides_nothing(chat: str, other: str, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    shutil.copy(chat, here / "a.jsonl")
    shutil.copy(chat, here / "b.jsonl")  # which of them is meant?
    (here / "old.jsonl").write_bytes(OLD)
    (here / "agent.jsonl").write_bytes(FOREIGN)
    with Session.create(here / "taken.jsonl", id="taken") as session:
        session.append_message(user("x"))
    copy(chat, in_store(other, "c.jsonl"))
    with Session.create(tmp_path / "another.jsonl", id="another") as session:
        session.append_message(user("x"))
    copy(tmp_path / "another.jsonl", in_store(other, "taken.jsonl"))
    with Session.create(here / "fine.jsonl", id="fine"):
        pass
    result = sync(here, other)
    assert [one.id for one in result.sessions] == ["fine"]
    assert len(result.skipped) == 2
    told = " ".join(result.problems)
    named = f"{here}/a.jsonl, {here}/b.jsonl, {other}"
    assert f"it is not clear which belong together: {named.partition('?')[0]}" in told
    assert "/c.jsonl" in told
    assert told.count("another session has its name there") == 2
    assert len(result.problems) == 3


def test_a_session_in_the_trash_of_a_store_is_not_copied_there(other: str, tmp_path: Path) -> None:
    here, there = Store(tmp_path / "here"), Store(other)
    for id in ("one", "two"):
        with here.create(cwd="/p", id=id):
            pass
    copy(here.root, other)
    there.trash("one")
    result = sync(here.root, other)
    assert [f"the session one is in the trash of {other}" in text for text in result.skipped] == [
        True
    ]
    assert [one.id for one in there.list()] == ["two"]
    there.empty_trash(older_than=datetime.now(UTC) + timedelta(days=1))
    assert sync(here.root, other).sessions[0].copied_to is not None
