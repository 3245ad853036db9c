"""Blobs that are kept elsewhere than the logs are there as long as their sessions are."""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

import sessiontree
from sessiontree import Session, Store
from sessiontree.errors import (
    BlobMissingError,
    RefError,
    SessionExistsError,
    SessionNotFoundError,
    StorageError,
    UsageError,
)
from sessiontree.storage.atomic import UNFINISHED
from sessiontree.storage.beside import Beside
from sessiontree.storage.folder import FolderContents
from sessiontree.storage.place import Place, is_address, shown_address, without_secret
from sessiontree.storage.places import place_of
from tests.places.kinds import opened
from tests.places.server import server
from tests.places.steps import Killed, Steps, kill_at_each_step, stepped
from tests.support.children import read_line, read_rest, running
from tests.support.conversation import assistant, user
from tests.support.crashdisk import Folders, crash_states

LONG: Final = "a text too large for a line " * 40
MORE: Final = "another text of many words " * 40
LATER: Final = timedelta(days=40)

_NUMBERS: Final = itertools.count()


def lines_in_memory() -> tuple[str, str]:
    """The addresses of an empty place in memory, and of one for its blobs."""
    number = next(_NUMBERS)
    return f"memory://lines-{number}", f"memory://blobs-{number}/a/b"


def said(name: str, url: str, file: str = "p/s.jsonl") -> str:
    """The address of a session with an option for its blobs."""
    return f"{name}/{file}?blobs={url}"


def written(file: str, *texts: str) -> None:
    """Append texts to a session, which is made if need be."""
    try:
        session = Session.open(file, spill_over=100)
    except StorageError:
        session = Session.create(file, cwd="/p", spill_over=100)
    with session:
        for text in texts:
            session.append_message(assistant(text))


def texts_of(file: str) -> list[str]:
    with Session.open(file, readonly=True) as session:
        assert session.verify() == []
        return [message["content"][0]["text"] for message in session.context().messages]


def own_keys(file: str) -> list[str]:
    """The keys of all that a place itself keeps beside its logs."""
    place, _ = place_of(file)
    assert isinstance(place.contents, Beside)
    return list(place.contents.own.keys(""))


def keys_at(url: str) -> list[str]:
    return list(place_of(url)[0].contents.keys(""))


def test_a_blob_is_in_the_other_place_and_the_lines_are_not() -> None:
    lines, blobs = lines_in_memory()
    file = said(lines, blobs)
    written(file, LONG, "short")
    [key] = keys_at(blobs)
    assert key.startswith("a/b/blobs/")
    [pointer] = own_keys(file)
    assert pointer.startswith("p/s.jsonl.blobs/at-")
    assert texts_of(file) == [LONG, "short"]


def test_a_missing_option_is_named_in_the_error_and_hides_no_line() -> None:
    lines, blobs = lines_in_memory()
    written(said(lines, blobs), LONG, "short")
    plain = f"{lines}/p/s.jsonl"
    with Session.open(plain, readonly=True) as session:
        assert [entry.type for entry in session.entries()] == ["session", "message", "message"]
        with pytest.raises(BlobMissingError) as raised:
            session.blobs.read(keys_at(blobs)[0].rpartition("/")[2], len(LONG))
        assert f"give it the option blobs={blobs}" in str(raised.value)
        [warning] = session.context().warnings
        assert "is missing" in str(warning)


def test_nothing_is_copied_or_removed_without_the_option(tmp_path: Path) -> None:
    lines, blobs = lines_in_memory()
    written(said(lines, blobs), LONG)
    plain, place = f"{lines}/p/s.jsonl", place_of(lines)[0]
    with pytest.raises(StorageError, match=f"option blobs={blobs}"):
        sessiontree.copy(plain, tmp_path / "copy.jsonl")
    assert os.listdir(tmp_path) == []
    with pytest.raises(StorageError, match=f"option blobs={blobs}"):
        place.remove("p/s.jsonl")
    with Session.open(plain) as session, pytest.raises(StorageError, match="option blobs="):
        session.gc(now=datetime.now(UTC) + LATER)
    assert texts_of(said(lines, blobs)) == [LONG]


def test_another_option_than_that_of_the_session_is_refused() -> None:
    lines, blobs = lines_in_memory()
    written(said(lines, blobs), LONG)
    other = said(lines, "memory://not-these/x")
    with pytest.raises(StorageError, match="says blobs=memory://not-these/x: give it the option"):
        written(other, MORE)
    with Session.open(other, readonly=True) as session:
        assert len(list(session.entries())) == 2
    assert keys_at("memory://not-these") == []
    assert texts_of(said(lines, blobs)) == [LONG]


@pytest.mark.parametrize("kind", ["memory", "postgres", "objects", "s3"])
def test_a_session_with_blobs_elsewhere_takes_none_without_the_option(
    kind: str, tmp_path: Path
) -> None:
    with opened(kind, tmp_path) as (_, url):
        there = (tmp_path / "blobs").as_uri()
        file = said(url, there)
        written(file, LONG)
        plain = f"{url}/p/s.jsonl"
        before = own_keys(plain)
        with (
            Session.open(plain, spill_over=100) as session,
            pytest.raises(StorageError, match=f"give it the option blobs={re.escape(there)}"),
        ):
            session.append_message(assistant(MORE))
        assert own_keys(plain) == before
        written(plain, "short")
        assert texts_of(file) == [LONG, "short"]


def test_blobs_from_before_the_option_was_given_are_found() -> None:
    lines, blobs = lines_in_memory()
    written(f"{lines}/p/s.jsonl", LONG)
    written(said(lines, blobs), MORE)
    assert texts_of(said(lines, blobs)) == [LONG, MORE]
    with Session.open(said(lines, blobs)) as session:
        fork = session.fork(said(lines, blobs, "p/fork.jsonl"))
    assert texts_of(fork) == [LONG, MORE]


def test_a_session_takes_its_blobs_along_even_without_the_option() -> None:
    lines, blobs = lines_in_memory()
    with Store(f"{lines}/team?blobs={blobs}").create(cwd="/p", id="one", spill_over=100) as session:
        session.append_message(assistant(LONG))
    before = keys_at(blobs)
    Store(f"{lines}/team").trash("one")
    with pytest.raises(StorageError, match="option blobs="):
        Store(f"{lines}/team").empty_trash(older_than=timedelta(0))
    store = Store(f"{lines}/team?blobs={blobs}")
    assert texts_of(store.restore("one")) == [LONG]
    assert keys_at(blobs) == before
    store.trash("one")
    [removed] = store.empty_trash(older_than=timedelta(0))
    assert removed.bytes > len(LONG)
    assert keys_at(blobs) == own_keys(lines) == []


def hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_two_writers_that_begin_at_once_both_find_both_blobs() -> None:
    lines, blobs = lines_in_memory()
    file = said(lines, blobs)
    written(file, "short")
    place, name = place_of(file)
    beside = place.contents
    assert isinstance(beside, Beside)
    found = beside.own.keys

    def stale(prefix: str) -> Iterator[str]:
        return iter(()) if prefix.endswith("/at-") else found(prefix)

    for text in (LONG, MORE):
        beside.own.keys = stale  # type: ignore[method-assign]
        beside.put(f"{name}.blobs/{hashed(text)}", io.BytesIO(text.encode()))
        del beside.own.keys
    assert len(own_keys(file)) == 2
    for text in (LONG, MORE):
        assert beside.read(f"{name}.blobs/{hashed(text)}", 0, 10_000) == text.encode()
    place.remove(name)
    assert keys_at(blobs) == own_keys(file) == []


def test_an_address_with_a_place_for_blobs_shows_no_password() -> None:
    inner = "postgresql%3A%2F%2Fme%3Asecret%40host%2Fdb%3Fschema%3Dx"
    for url in (
        f"memory://a/p/s.jsonl?blobs={inner}",
        "memory://a/p/s.jsonl?blobs=postgresql://me:secret@host/db",
        "memory://a?x=1&blobs=s3://b/p%3Faccess_key_id%3Dsecret%26secret_access_key%3Dsecret%26region%3Dr&y=2",
    ):
        assert is_address(shown_address(url))
        assert shown_address(shown_address(url)) == shown_address(url)
        for shown in (shown_address(url), without_secret(url), place_of(url)[0].address("x")):
            assert "secret" not in shown.replace("secret_access_key", "")
            assert "blobs=" in shown
        assert place_of(shown_address(url))[0] is place_of(url)[0]


@pytest.mark.parametrize(
    ("blobs", "why"),
    [
        ("bucket/prefix", "is not the address of a place"),
        ("http://me:secret@x", "is not the address of a place"),
        ("memory://x%3Fblobs=memory://y", "has an option blobs itself"),
        ("file://other/x", "names a file of another machine"),
        ("s3://", "names no bucket"),
        ("s3://b%3Fregoin=x", "there is no option regoin"),
        ("s3://b%3Fsecret_access_key=me:secret", "without an access key id; set both"),
    ],
)
def test_what_is_no_place_for_blobs_is_refused(blobs: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as raised:
        Store(f"memory://x/y?blobs={blobs}")
    assert "me:secret" not in str(raised.value)


def test_a_part_of_a_session_in_a_folder_with_the_name_of_one_of_blobs_is_no_blob() -> None:
    lines, blobs = lines_in_memory()
    place, _ = place_of(f"{lines}?blobs={blobs}")
    place.create("app.blobs/s.jsonl", iter([b"{}\n"]))
    place.contents.put("app.blobs/s.jsonl.v1", io.BytesIO(b"original"))
    assert keys_at(blobs) == []
    place.move("app.blobs/s.jsonl", "p/s.jsonl")
    assert place.contents.read("p/s.jsonl.v1", 0, 99) == b"original"


def test_a_folder_takes_no_option(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has options, and a file has none"):
        Store(f"file://{tmp_path}?blobs=memory://x")


def test_a_folder_keeps_contents_by_their_keys(tmp_path: Path) -> None:
    contents = FolderContents(str(tmp_path / "new"))
    assert contents.look("a/b") is None
    assert list(contents.keys("")) == []
    contents.put("a/b", io.BytesIO(b"0123"))
    contents.put("a/b", io.BytesIO(b"01234"))
    contents.copy("a/b", "c/d/e")
    assert list(contents.keys("")) == ["a/b", "c/d/e"]
    assert list(contents.keys("c/d")) == ["c/d/e"]
    assert contents.read("c/d/e", 1, 3) == b"123"
    for use in (lambda: contents.read("a/b/c", 0, 1), lambda: contents.copy("x", "y")):
        with pytest.raises(FileNotFoundError):
            use()
    contents.remove("a/b")
    contents.remove("a/b")
    assert os.listdir(tmp_path / "new") == ["c"]
    (tmp_path / "new" / "link").symlink_to(tmp_path / "new" / "c" / "d" / "e")
    with pytest.raises(OSError, match="link"):
        contents.read("link", 0, 1)


def test_no_crash_leaves_a_part_of_a_content_or_loses_one_that_was_put() -> None:
    disk = Folders({"/model/": b""})
    contents = FolderContents("/model/kept", disk)
    kept: list[tuple[int, str]] = []
    for key, text in (("a/b", LONG), ("a/c", MORE), ("a/b", MORE)):
        contents.put(key, io.BytesIO(text.encode()))
        kept.append((len(disk.snapshots), f"/model/kept/{key}"))
    contents.copy("a/b", "d/e")
    kept.append((len(disk.snapshots), "/model/kept/d/e"))
    states = 0
    for moment, snapshot in enumerate(disk.snapshots, 1):
        for files in crash_states(snapshot):
            states += 1
            for path, content in files.items():
                if path.startswith("/model/kept/") and not path.endswith(("/", UNFINISHED)):
                    assert content in (LONG.encode(), MORE.encode())
            assert {path for at, path in kept if at <= moment} <= set(files)
    assert states > 50


WRITER: Final = """
import itertools, sys
from sessiontree import Session

with Session.open(sys.argv[1], spill_over=100) as session:
    for number in itertools.count():
        text = f"{sys.argv[2]} {number} " * 40
        session.append_message({"role": "assistant", "content": text})
        print(text, flush=True)
"""


@pytest.mark.slow
def test_processes_that_are_killed_leave_no_entry_without_its_blob(tmp_path: Path) -> None:
    base = server().database()
    url = f"{server().address(base)}?blobs={(tmp_path / 'blobs').as_uri()}"
    place, _ = place_of(url)
    file = place.address("p/s.jsonl")
    Session.create(file, cwd="/p").close()
    acknowledged: list[str] = []
    try:
        for number in range(5):
            with (
                running(WRITER, file, f"a{number}") as one,
                running(WRITER, file, f"b{number}") as b,
            ):
                for child in (one, b):
                    acknowledged += [read_line(child) for _ in range(3 + number)]
                one.kill()
                b.kill()
                for child in (one, b):
                    acknowledged += read_rest(child)
        with Session.open(file, readonly=True) as session:
            assert session.verify() == []
            lines = [entry.line.decode() for entry in session.entries()]
        named = [name for line in lines for name in re.findall("sha256:([0-9a-f]{64})", line)[:1]]
        assert len(named) == len(set(named))
        assert {*map(hashed, acknowledged)} <= {*named}
        assert len(acknowledged) >= 50
    finally:
        place.close()
        server().execute(f"DROP DATABASE {base} WITH (FORCE)")


ALL: Final = ("memory and files", "postgres and objects", "objects and memory")
WITHOUT_CLAIMS: Final = ALL[:2]
"""In a bucket, what a killed program held is free after a while; see test_objects_kills."""


@pytest.fixture(params=ALL)
def by_steps(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Store, Place, Steps]]:
    """A store, and the steps that programs take there."""
    with opened(request.param, tmp_path) as (place, _):
        yield Store(place.address("team")), place, stepped(place, monkeypatch)


def filled(store: Store) -> None:
    for id, text in (("aaaa1111", LONG), ("bbbb2222", MORE)):
        with store.create(cwd="/p", id=id, spill_over=100) as session:
            session.append_message(user("go"))
            session.append_message(assistant(text))


def wholes(store: Store) -> dict[str, list[list[str]]]:
    """The texts of all sessions, those in the trash too, by their ids; each is sound."""
    found: dict[str, list[list[str]]] = {}
    for one in [*store.list(), *store.trashed()]:
        with Session.open(one.file, readonly=True) as session:
            assert session.verify() == []
            contents = [message["content"] for message in session.context().messages]
        found.setdefault(one.id, []).append(
            [text if isinstance(text, str) else text[0]["text"] for text in contents]
        )
    return found


def folders(place: Place) -> tuple[set[str], set[str]]:
    """The numbers of the folders that sessions have, and of those in which blobs are."""
    beside = place.contents
    assert isinstance(beside, Beside)
    assert beside._elsewhere is not None
    own = [key for key in beside.own.keys("") if ".blobs/at-" in key]
    there = {key.split("/")[-2] for key in beside._elsewhere.contents.keys("") if "blobs/" in key}
    return {key.partition("/at-")[2].partition("-")[0] for key in own}, there


BOTH: Final = {"aaaa1111": [["go", LONG]], "bbbb2222": [["go", MORE]]}


@pytest.mark.parametrize("by_steps", WITHOUT_CLAIMS, indirect=True)
def test_no_kill_of_a_move_to_the_trash_and_back_loses_a_blob(
    by_steps: tuple[Store, Place, Steps],
) -> None:
    store, place, steps = by_steps
    filled(store)

    def prepare() -> None:
        for one in store.trashed():
            store.restore(one.file)
        assert wholes(store) == BOTH
        assert [one for one in store.list() if one.id == "aaaa1111"]

    def trash_and_restore() -> None:
        store.trash("aaaa1111")
        store.restore("aaaa1111")

    def check() -> None:
        for use in (store.trash, store.restore):
            try:
                use("aaaa1111")
            except (RefError, SessionExistsError, StorageError):
                continue
        if not [one for one in store.list() if one.id == "aaaa1111"]:
            store.restore("aaaa1111")
        assert wholes(store) == BOTH
        assert folders(place)[0] == folders(place)[1]

    assert kill_at_each_step(steps, prepare, trash_and_restore, check) >= 4


def test_no_kill_of_a_removal_takes_the_blobs_of_a_session_that_is_left(
    by_steps: tuple[Store, Place, Steps],
) -> None:
    store, place, steps = by_steps

    def prepare() -> None:
        if len(store.list()) == 2:
            return
        store.empty_trash(older_than=timedelta(0))
        place.finish()
        if store.list():
            store.trash("bbbb2222")
            store.empty_trash(older_than=timedelta(0))
        assert folders(place) == (set(), set())
        filled(store)
        store.trash("aaaa1111")

    def empty() -> None:
        store.empty_trash(older_than=timedelta(0))

    def check() -> None:
        left = wholes(store)
        assert left["bbbb2222"] == BOTH["bbbb2222"]
        assert left.get("aaaa1111", BOTH["aaaa1111"]) == BOTH["aaaa1111"]
        had = folders(place)
        empty()
        assert wholes(store) == {"bbbb2222": BOTH["bbbb2222"]}
        assert folders(place)[1] == folders(place)[0], had
        assert len(folders(place)[0]) == 1

    assert kill_at_each_step(steps, prepare, empty, check) >= 4


def test_no_kill_of_a_restore_after_a_killed_removal_loses_a_blob(
    by_steps: tuple[Store, Place, Steps],
) -> None:
    """The note about the removal is still there, and the session is at another place."""
    store, place, steps = by_steps
    filled(store)
    trashed = store.trash("aaaa1111")
    steps.revive(last=1)
    with pytest.raises(Killed):
        place.remove(place.name(trashed))
    steps.revive()
    assert wholes(store) == BOTH
    store.restore("aaaa1111")
    store.empty_trash(older_than=timedelta(0))
    place.finish()
    assert wholes(store) == BOTH


@pytest.mark.parametrize("by_steps", ALL[2:], indirect=True)
def test_a_killed_move_in_a_bucket_is_finished_by_a_second_with_the_blobs(
    by_steps: tuple[Store, Place, Steps],
) -> None:
    _, place, steps = by_steps
    number = itertools.count()
    name = ""

    def prepare() -> None:
        nonlocal name
        name = f"p/{next(number)}.jsonl"
        written(place.address(name), LONG)

    def check() -> None:
        with contextlib.suppress(SessionNotFoundError):  # it had moved
            place.move(name, f"moved/{name}")
        assert texts_of(place.address(f"moved/{name}")) == [LONG]
        place.finish()
        assert texts_of(place.address(f"moved/{name}")) == [LONG]
        place.remove(f"moved/{name}")
        assert folders(place)[1] == set()

    def move() -> None:
        place.move(name, f"moved/{name}")

    assert kill_at_each_step(steps, prepare, move, check) >= 6


@pytest.mark.parametrize("by_steps", WITHOUT_CLAIMS, indirect=True)
def test_no_kill_of_a_write_leaves_a_line_without_its_blob(
    by_steps: tuple[Store, Place, Steps],
) -> None:
    store, place, steps = by_steps
    filled(store)
    number = itertools.count()

    def write() -> None:
        with store.open("aaaa1111", spill_over=100) as session:
            session.append_message(user(f"{next(number)} short"))
        with store.create(cwd="/q", id=f"new{next(number)}", spill_over=100) as session:
            session.append_message(user(f"{next(number)} {MORE}"))
        copy = store.fork("bbbb2222", id=f"fork{next(number)}")
        sessiontree.copy(copy, place.address(f"copy/{next(number)}.jsonl"))

    def check() -> None:
        place.finish()
        assert wholes(store)["bbbb2222"] == BOTH["bbbb2222"]
        for found in place.list("copy/"):
            with Session.open(place.address(found.name), readonly=True) as session:
                assert session.verify() == []

    assert kill_at_each_step(steps, lambda: None, write, check) >= 6


@pytest.mark.parametrize("by_steps", WITHOUT_CLAIMS, indirect=True)
def test_no_kill_of_a_sync_or_of_gc_loses_a_blob(
    by_steps: tuple[Store, Place, Steps], tmp_path: Path
) -> None:
    store, _, steps = by_steps
    filled(store)
    number = itertools.count()
    local = str(tmp_path / "local")

    def prepare() -> None:
        for one in (*store.list(), *Store(local).list()):
            if one.id != "bbbb2222":
                (store if is_address(one.file) else Store(local)).trash(one.file)
        with store.create(cwd="/q", id=f"new{next(number)}", spill_over=100) as session:
            session.append_message(user("hello"))
            session.blobs.put(b"that no entry names")
            with session.scratch() as lane:
                lane.append_message(user(f"{next(number)} {LONG}"))
        for one in store.list(cwd="/q"):
            file = os.path.join(local, os.path.basename(one.file.partition("?")[0]))
            sessiontree.copy(one.file, file)
            with Session.open(file, spill_over=100) as session:
                session.append_message(user(f"{next(number)} {LONG}"))

    def both() -> None:
        sessiontree.sync(store.root, local)
        store.gc(now=datetime.now(UTC) + LATER)

    def check() -> None:
        assert wholes(store)["bbbb2222"] == BOTH["bbbb2222"]
        sessiontree.sync(local, store.root)
        [one] = store.list(cwd="/q")
        assert wholes(store)[one.id] == wholes(Store(local))[one.id]

    assert kill_at_each_step(steps, prepare, both, check) >= 4


def test_the_blobs_of_a_copy_are_where_its_address_says(tmp_path: Path) -> None:
    lines, blobs = lines_in_memory()
    written(str(tmp_path / "s.jsonl"), LONG, MORE)
    file = said(lines, blobs, "copied/s.jsonl")
    sessiontree.copy(tmp_path / "s.jsonl", file)
    assert len(keys_at(blobs)) == 2
    back = tmp_path / "back.jsonl"
    sessiontree.copy(file, back)
    assert back.read_bytes() == (tmp_path / "s.jsonl").read_bytes()
    assert sorted(os.listdir(f"{back}.blobs")) == sorted(os.listdir(f"{tmp_path}/s.jsonl.blobs"))
