"""A place keeps logs by name, and contents by key, each whole or not at all."""

from __future__ import annotations

import contextlib
import contextvars
import io
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessiontree import Session
from sessiontree.errors import (
    ContentLostWarning,
    SessionBusyError,
    SessionExistsError,
    SessionNotFoundError,
    StorageError,
    TargetMissingError,
    UsageError,
)
from sessiontree.storage.memory_place import MemoryPlace
from sessiontree.storage.place import Place, address, is_address, path_of
from tests.contracts import PlaceLogs, check_log
from tests.places.kinds import KINDS, contents_of, opened
from tests.support.conversation import assistant, user


@pytest.fixture(
    params=[pytest.param(kind, marks=pytest.mark.slow) if kind == "s3" else kind for kind in KINDS]
)
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Place, str]]:
    with opened(request.param, tmp_path) as found:
        yield found


@pytest.fixture
def place(at: tuple[Place, str]) -> Place:
    return at[0]


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.soak] * (kind == "s3")) for kind in KINDS]
)
def test_a_log_of_a_place_keeps_what_the_engine_relies_on(kind: str, tmp_path: Path) -> None:
    with opened(kind, tmp_path) as (place, _):
        check_log(PlaceLogs(place))


def test_a_session_is_made_once_and_found_by_its_name(place: Place) -> None:
    assert place.find("p/a.jsonl") is None
    place.create("p/a.jsonl", iter([b"one\n", b"two\n"]))
    found = place.find("p/a.jsonl")
    assert found is not None
    assert (found.name, found.size) == ("p/a.jsonl", 8)
    with pytest.raises(SessionExistsError, match=r"p/a\.jsonl.* is there already"):
        place.create("p/a.jsonl", iter([b"three\n"]))
    with contextlib.closing(place.log("p/a.jsonl")) as log:
        assert log.read(0, 100) == b"one\ntwo\n"


@pytest.mark.parametrize("name", ["", "a//b", "../a", "a/./b", "a\0b"])
def test_a_name_that_no_session_can_have_is_refused(name: str, place: Place) -> None:
    with pytest.raises(StorageError, match="is not the name of a session"):
        place.create(name, iter([b"one\n"]))


def test_a_session_that_is_not_there_is_not_found(place: Place) -> None:
    for use in (
        lambda: place.log("p/none.jsonl"),
        lambda: place.move("p/none.jsonl", "p/other.jsonl"),
        lambda: place.remove("p/none.jsonl"),
    ):
        with pytest.raises(SessionNotFoundError, match=r"there is no session p/none\.jsonl in "):
            use()


def test_a_list_has_the_names_that_begin_with_a_text(place: Place) -> None:
    for name in ("p/a.jsonl", "p/b.jsonl", "q/c.jsonl"):
        place.create(name, iter([b"x" * 10 + b"\n"]))
    assert sorted(found.name for found in place.list("p/")) == ["p/a.jsonl", "p/b.jsonl"]
    assert len(list(place.list())) == 3
    assert list(place.list("r")) == []


def test_the_ends_of_sessions_are_what_their_logs_begin_and_end_with(place: Place) -> None:
    lines = [b"%d\n" % number * 7 for number in range(1000)]
    place.create("p/a.jsonl", iter(lines))
    place.create("p/b.jsonl", iter([b"short\n"]))
    content = b"".join(lines)
    ends = {one.found.name: one for one in place.ends("p/", 100, 300)}
    assert ends["p/a.jsonl"].head == content[:100]
    assert ends["p/a.jsonl"].tail == content[-300:]
    assert ends["p/b.jsonl"].head == ends["p/b.jsonl"].tail == b"short\n"
    assert {name: one.found.size for name, one in ends.items()} == {
        "p/a.jsonl": len(content),
        "p/b.jsonl": 6,
    }


def test_contents_are_put_read_listed_copied_and_removed(place: Place) -> None:
    if isinstance(place, MemoryPlace):
        return  # its contents are files
    contents = contents_of(place)
    contents.put("p/a.jsonl.blobs/1", io.BytesIO(b"0123456789"))
    contents.put("p/a.jsonl.v1", io.BytesIO(b""))
    found, empty = contents.look("p/a.jsonl.blobs/1"), contents.look("p/a.jsonl.v1")
    assert found is not None
    assert found.size == 10
    assert abs(found.modified - time.time()) < 600
    assert empty is not None
    assert empty.size == 0
    assert contents.look("p/a.jsonl.v2") is None
    assert contents.read("p/a.jsonl.blobs/1", 3, 4) == b"3456"
    assert contents.read("p/a.jsonl.blobs/1", 8, 400) == b"89"
    assert contents.read("p/a.jsonl.blobs/1", 10, 1) == b""
    contents.copy("p/a.jsonl.blobs/1", "p/b.jsonl.blobs/1")
    contents.put("p/a.jsonl.blobs/1", io.BytesIO(b"new"))
    assert contents.read("p/b.jsonl.blobs/1", 0, 99) == b"0123456789"
    assert contents.read("p/a.jsonl.blobs/1", 0, 99) == b"new"
    assert list(contents.keys("p/a.jsonl.")) == ["p/a.jsonl.blobs/1", "p/a.jsonl.v1"]
    contents.remove("p/a.jsonl.v1")
    contents.remove("p/a.jsonl.v1")
    assert list(contents.keys("p/a.jsonl.")) == ["p/a.jsonl.blobs/1"]
    for use in (
        lambda: contents.read("p/none", 0, 1),
        lambda: contents.copy("p/none", "p/other"),
    ):
        with pytest.raises(FileNotFoundError):
            use()


def test_a_session_moves_with_its_blobs_and_is_removed_with_them(at: tuple[Place, str]) -> None:
    place, _ = at
    with Session.create(place.address("p/a.jsonl"), cwd="/p", spill_over=100) as session:
        session.append_message(user("a"))
        session.append_message(assistant("b" * 1000))
    place.create("p/taken.jsonl", iter([b"x\n"]))
    with pytest.raises(SessionExistsError):
        place.move("p/a.jsonl", "p/taken.jsonl")
    place.move("p/a.jsonl", "q/b.jsonl")
    assert place.find("p/a.jsonl") is None
    with Session.open(place.address("q/b.jsonl")) as session:
        assert session.context().messages[1]["content"][0]["text"] == "b" * 1000
        assert session.verify() == []
        session.append_message(user("more"))
    place.remove("q/b.jsonl")
    assert place.find("q/b.jsonl") is None
    assert list(place.beside("q/b.jsonl")) == []


def test_a_session_at_an_address_is_as_one_in_a_file(
    at: tuple[Place, str], tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    place, _ = at
    found = []
    for named in (lambda name: str(tmp_path / name), place.address):
        with Session.create(named("s.jsonl"), cwd="/p", id="one", spill_over=100) as session:
            first = session.append_message(user("a"))
            session.append_message(assistant("b" * 1000))
            session.branch(first)
            session.append_message(assistant("c"))
            session.label(first, "here")
            session.compact("before", keep=0)
        with Session.open(named("s.jsonl")) as session:
            session.append_message(user("again"))
            copy = session.fork(named("fork.jsonl"))
            texts = [message["content"] for message in session.context().messages]
        with Session.open(copy, readonly=True) as forked:
            found.append((texts, len(list(forked.entries())), forked.verify()))
            assert forked.file is not None
            assert os.path.basename(forked.file).startswith("fork.jsonl")
    assert found[0] == found[1]
    assert not [one for one in recwarn if issubclass(one.category, ContentLostWarning)]


def test_an_address_is_taken_apart_and_shows_no_password() -> None:
    found = address("postgres://me:secret@host:5433/db/-p/a%20b.jsonl?region=eu&x=")
    assert found.scheme == "postgresql"
    assert found.base == "postgresql://me:secret@host:5433/db"
    assert found.shown == "postgresql://me@host:5433/db"
    assert found.name == "-p/a b.jsonl"
    assert found.options == (("region", "eu"), ("x", ""))
    assert address("s3://bucket/prefix/a.jsonl")[:3] == ("s3", "s3://bucket", "prefix/a.jsonl")


def test_the_address_of_a_session_is_taken_apart_again(place: Place) -> None:
    for name in ("p/a.jsonl", "+home+me~12/ä %2b?#.jsonl", ""):
        assert place.name(place.address(name)) == name
        assert is_address(place.address(name))


def test_what_is_no_address_is_a_path() -> None:
    assert [is_address(text) for text in ("memory://x", "a/b", "memory:", "")] == [
        *(True, False, False, False),
    ]
    assert path_of("file:///a%20b/c.jsonl") == "/a b/c.jsonl"
    assert path_of("a b") == "a b"
    with pytest.raises(UsageError, match="names a file of another machine"):
        path_of("file://other/a")
    for wrong in ("http://x", "postgres://me:secret@host:port/db", "postgres://me:secret@[/x"):
        with pytest.raises(UsageError) as raised:
            address(wrong)
        assert "secret" not in str(raised.value)


def test_a_session_reads_while_another_of_this_process_holds_the_log(place: Place) -> None:
    address = place.address("p/s.jsonl")
    with Session.create(address) as writer, Session.open(address) as other:
        told = writer.append_message(user("hello"))
        read = list[str]()

        def look() -> None:
            other.refresh()
            with Session.open(address, readonly=True) as reader:
                assert reader.leaf == told
            read.extend(entry.uuid for entry in other.entries())

        with writer.locked():
            thread = threading.Thread(target=contextvars.Context().run, args=(look,), daemon=True)
            thread.start()
            thread.join(30)
            assert told.uuid in read


def test_an_exclusive_session_keeps_out_the_others_of_its_process(place: Place) -> None:
    address = place.address("p/s.jsonl")
    with Session.create(address) as other:
        if not other.reader.log.keeps_out:
            with pytest.raises(UsageError, match="leave 'exclusive' out"):
                Session.open(address, exclusive=True)
            return
        with Session.open(address, exclusive=True) as session:
            session.append_message(user("mine"))
            with pytest.raises(SessionBusyError, match="held by"):
                other.append_message(user("no"))
        other.append_message(assistant("now"))
        assert [entry.type for entry in other.entries()] == ["session", "message", "message"]


def test_a_handle_leads_to_a_session_of_the_same_store(place: Place) -> None:
    with Session.create(place.address("p/far.jsonl"), id="far", cwd="/p") as far:
        entry = far.append_message(user("from afar"))
    with Session.create(place.address("other/p/far.jsonl"), id="hidden", cwd="/p") as hidden:
        there = hidden.append_message(user("not of this store"))
    with Session.create(place.address("p/near.jsonl"), cwd="/p") as near:
        found = near.handles.resolve(f"session@2.0.0::entry:far:{entry.uuid}")
        assert found.data["content"] == "from afar"
        with pytest.raises(TargetMissingError, match="points to a session that is not in"):
            near.handles.resolve(f"session@2.0.0::entry:hidden:{there.uuid}")


def test_a_session_sees_what_another_of_its_process_wrote_when_it_is_refreshed(
    place: Place,
) -> None:
    address = place.address("p/s.jsonl")
    with Session.create(address) as one:
        start = one.append_message(user("hello"))
        with Session.open(address) as other:
            other.append_message(assistant("hi"))
        assert one.children(start) == []
        one.refresh()
        assert len(one.children(start)) == 1


@pytest.mark.slow
def test_an_open_session_says_that_it_was_moved_or_removed(place: Place) -> None:
    for gone in ("moved", "removed"):
        address = place.address("p/s.jsonl")
        with Session.create(address) as session:
            session.append_message(user("hello"))
            if gone == "moved":
                place.move("p/s.jsonl", "p/t.jsonl")
            else:
                place.remove("p/s.jsonl")
            time.sleep(0.2)  # a database may take a tenth of a second to say so
            with pytest.raises(SessionNotFoundError):
                session.append_message(assistant("hi"))
    with Session.open(place.address("p/t.jsonl"), readonly=True) as moved:
        assert [entry.type for entry in moved.entries()] == ["session", "message"]


@pytest.mark.slow
def test_the_session_written_to_last_changed_last(place: Place) -> None:
    with Session.create(place.address("p/a.jsonl")) as first:
        Session.create(place.address("p/b.jsonl")).close()
        time.sleep(1.1)  # a server may count whole seconds
        first.append_message(user("hello"))
    found = {one.name: one.modified for one in place.list("p/")}
    assert found["p/a.jsonl"] > found["p/b.jsonl"]


def test_a_text_links_to_no_image_at_an_address(place: Place, tmp_path: Path) -> None:
    with Session.create(place.address("p/s.jsonl")) as session:
        session.attach(io.BytesIO(b"\x89PNG"), media_type="image/png", preview="the dialog")
        text = "".join(session.to_markdown(beside=str(tmp_path)))
    assert "*[the dialog, 4 B]*" in text
    assert "](" not in text
