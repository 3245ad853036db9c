"""A copy has the same bytes; one that was cut short goes on; nothing else is overwritten."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from sessiontree import (
    ForeignFormatError,
    Session,
    SessionExistsError,
    SessionNotFoundError,
    StorageError,
    Store,
    UsageError,
    copy,
)
from sessiontree.core.handle import Blob
from sessiontree.library.copies import Mirror
from sessiontree.storage.fs import DISK
from sessiontree.storage.places import blobs_of, open_log
from tests.places.kinds import KINDS, STORES, empty_store, in_store, opened
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
    with Session.create(file, cwd="/p", spill_over=100) as session:
        session.append_message(user("hello"))
        session.append_message(assistant(LARGE))
    Path(f"{file}.v1").write_bytes(b"the original\n")
    Path(f"{file}.archive-2026-01-01").write_bytes(b"archived\n")
    return str(file)


def content(file: str) -> bytes:
    with closing(open_log(DISK, file, readonly=True)) as log:
        return log.read(0, log.size())


def parts(file: str) -> dict[str, bytes]:
    with closing(open_log(DISK, file, readonly=True)) as log:
        names = [name for name in log.parts.list() if name not in (".blobs", ".lock")]
        return {name: b"".join(log.parts.read(name)) for name in names}


def blobs(file: str) -> dict[Blob, bytes]:
    found = blobs_of(DISK, file)
    return {blob: found.read(*blob) for blob in found.blobs()}


def test_a_session_is_copied_there_and_back_byte_for_byte(
    chat: str, other: str, tmp_path: Path
) -> None:
    there, back = in_store(other, "a/b.jsonl"), str(tmp_path / "back.jsonl")
    result = copy(chat, there)
    assert result.problems == []
    assert result.sessions[0].written == result.sessions[0].size == len(content(chat))
    assert result.sessions[0].blobs == 1
    assert result.sessions[0].parts == [".archive-2026-01-01", ".v1"]
    copy(there, back)
    for file in (there, back):
        assert content(file) == content(chat)
        assert blobs(file) == blobs(chat)
        assert parts(file) == parts(chat)
    assert copy(chat, there).is_unchanged
    with Session.open(there) as session:
        assert session.context().messages[1]["content"][0]["text"] == LARGE
        assert session.verify() == []


def test_a_store_is_copied_with_its_names_and_without_its_trash(other: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    for cwd, id in (("/p", "one"), ("/p", "two"), ("/q", "three")):
        with store.create(cwd=cwd, id=id) as session:
            session.append_message(user(id))
    store.trash("two")
    result = copy(store.root, other)
    names = sorted(os.path.relpath(one.source, store.root) for one in result.sessions)
    assert [name.rpartition("_")[2] for name in names] == ["one.jsonl", "three.jsonl"]
    copies = Store(other)
    assert sorted(one.id for one in copies.list()) == ["one", "three"]
    assert {one.cwd for one in copies.list()} == {"/p", "/q"}
    assert copy(store.root, other).is_unchanged
    trashed = copy(f"{store.root}/.trash", tmp_path / "trashed")
    assert len(trashed.sessions) == 1


def test_a_session_goes_into_a_store_with_its_name(chat: str, other: str) -> None:
    result = copy(chat, other)
    assert content(in_store(other, "chat.jsonl")) == content(chat)
    assert result.sessions[0].target == in_store(other, "chat.jsonl")


def test_a_copy_of_a_session_that_grew_goes_on(chat: str, other: str) -> None:
    there = in_store(other, "chat.jsonl")
    copy(chat, there)
    before = len(content(chat))
    with Session.open(chat, spill_over=100) as session:
        session.append_message(user("more " * 100))
    result = copy(chat, there)
    assert result.sessions[0].written == len(content(chat)) - before
    assert result.sessions[0].blobs == 1
    assert content(there) == content(chat)
    assert blobs(there) == blobs(chat)


@pytest.mark.parametrize("lines", range(4))
def test_a_copy_that_has_the_first_lines_goes_on(chat: str, other: str, lines: int) -> None:
    there = in_store(other, "chat.jsonl")
    copy(chat, there)
    whole = content(chat)
    cut = b"".join(whole.splitlines(keepends=True)[:lines])
    with closing(open_log(DISK, there)) as log, log.hold():
        log.rewrite(iter([cut]))
    assert copy(chat, there).sessions[0].written == len(whole) - len(cut)
    assert content(there) == whole


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_a_copy_whose_last_line_was_cut_off_is_made_whole(chat: str, other: str, cut: int) -> None:
    there = in_store(other, "chat.jsonl")
    copy(chat, there)
    whole = content(chat)
    with closing(open_log(DISK, there)) as log, log.hold():
        log.rewrite(iter([whole[:-cut]]))
    with Session.open(chat) as session:
        session.append_message(user("more"))
    copy(chat, there)
    assert content(there) == content(chat)


def test_a_target_that_is_something_else_is_named_with_the_first_byte_that_differs(
    chat: str, other: str
) -> None:
    there = in_store(other, "chat.jsonl")
    copy(chat, there)
    end = len(content(chat))
    with Session.open(there) as session:
        session.append_message(user("there"))
    changed = content(there)
    with pytest.raises(SessionExistsError, match=rf"differ from byte {end} on.* unite both"):
        copy(chat, there)
    with Session.open(chat) as session:
        session.append_message(user("here"))
    with pytest.raises(SessionExistsError, match=r"differ from byte \d+ on.* unite both"):
        copy(chat, there)
    assert content(there) == changed


def test_an_end_that_is_no_whole_line_is_left_out_and_reported(chat: str, other: str) -> None:
    there = in_store(other, "chat.jsonl")
    whole = content(chat)
    with open(chat, "ab") as file:
        file.write(b'{"type":"mess')
    result = copy(chat, there)
    assert content(there) == whole
    assert ["the last 13 bytes are no whole line" in found for found in result.damage] == [True]


def test_a_last_line_without_its_newline_is_copied_and_gone_on_from(chat: str, other: str) -> None:
    there = in_store(other, "chat.jsonl")
    Path(chat).write_bytes(content(chat)[:-1])
    copy(chat, there)
    assert content(there) == content(chat)
    with Session.open(chat) as session:
        session.append_message(user("more"))
    copy(chat, there)
    assert content(there) == content(chat)


def test_a_line_with_a_wrong_checksum_is_copied_as_it_is_and_reported(
    chat: str, other: str
) -> None:
    Path(chat).write_bytes(content(chat).replace(b"hello", b"hallo"))
    result = copy(chat, other)
    assert content(in_store(other, "chat.jsonl")) == content(chat)
    assert result.problems == []
    assert len(result.damage) == 1
    assert "wrong crc" in result.damage[0]


def test_a_blob_that_is_damaged_is_reported_and_not_copied(chat: str, other: str) -> None:
    (blob,) = Path(f"{chat}.blobs").iterdir()
    blob.write_bytes(b"x" * blob.stat().st_size)
    result = copy(chat, other)
    assert len(result.problems) == 1
    assert blob.name in result.problems[0]
    assert blobs(in_store(other, "chat.jsonl")) == {}


def _remove(blob: Path) -> None:
    shutil.rmtree(blob.parent)


def _link(blob: Path) -> None:
    blob.symlink_to(blob.rename(blob.parent.parent / blob.name))


def _pipe(blob: Path) -> None:
    blob.unlink()
    os.mkfifo(blob)


def _cut(blob: Path) -> None:
    os.truncate(blob, 10)


@pytest.mark.parametrize("spoil", [_remove, _link, _pipe, _cut])
def test_a_blob_that_is_lacking_is_reported_by_each_run_and_the_rest_is_copied(
    spoil: Callable[[Path], None], chat: str, other: str
) -> None:
    (blob,) = Path(f"{chat}.blobs").iterdir()
    spoil(blob)
    with Session.open(chat, spill_over=100) as session:
        session.append_message(user(f"{LARGE} and more"))
        session.append_message(user(f"a word about blob@1.0.0::sha256:{'a' * 64}:9"))
    for _ in range(2):
        result = copy(chat, other)
        (problem,) = result.problems
        assert problem.startswith("not copied: a blob of ")
        assert blob.name in problem
        assert content(in_store(other, "chat.jsonl")) == content(chat)
        assert len(blobs(in_store(other, "chat.jsonl"))) == 1


def test_a_blob_that_a_last_line_without_its_newline_names_is_reported(
    chat: str, tmp_path: Path
) -> None:
    shutil.rmtree(f"{chat}.blobs")
    os.truncate(chat, os.path.getsize(chat) - 1)
    assert len(copy(chat, tmp_path / "there.jsonl").problems) == 1


def test_a_mirror_reports_a_blob_that_is_lacking_once_and_takes_it_when_it_comes_back(
    chat: str, tmp_path: Path
) -> None:
    there = tmp_path / "there.jsonl"
    (blob,) = Path(f"{chat}.blobs").iterdir()
    kept = blob.read_bytes()
    blob.unlink()
    mirror = Mirror(chat, there)
    assert len(mirror.go().problems) == 1
    assert mirror.go().problems == []
    blob.write_bytes(kept)
    assert mirror.go().sessions[0].blobs == 1
    assert len(blobs(str(there))) == 1


def test_a_part_that_is_something_else_is_left_as_it_is(chat: str, other: str) -> None:
    there = in_store(other, "chat.jsonl")
    copy(chat, there)
    with closing(open_log(DISK, there)) as log:
        log.parts.write(".v1", iter([b"another"]))
    with open(f"{chat}.archive-2026-01-01", "ab") as file:
        file.write(b"more\n")
    result = copy(chat, there)
    assert result.sessions[0].parts == [".archive-2026-01-01"]
    assert parts(there) == {".v1": b"another", ".archive-2026-01-01": b"archived\nmore\n"}
    assert "/chat.jsonl.v1" in result.problems[0]
    assert " is there already" in result.problems[0]


def test_what_is_not_there_or_the_same_is_refused(chat: str, other: str, tmp_path: Path) -> None:
    for none in (str(tmp_path / "none.jsonl"), f"memory://none/{os.getpid()}"):
        with pytest.raises(SessionNotFoundError):
            copy(none, other)
    with pytest.raises(UsageError, match="are the same"):
        copy(chat, chat)
    with pytest.raises(UsageError, match="is a store, and"):
        copy(tmp_path, in_store(other, "one.jsonl"))
    with pytest.raises(UsageError, match="give two stores that are apart"):
        copy(tmp_path, tmp_path / "below")


def test_a_second_name_of_a_session_is_no_target(chat: str, tmp_path: Path) -> None:
    os.link(chat, tmp_path / "second.jsonl")
    with pytest.raises(UsageError, match="are the same session"):
        copy(chat, tmp_path / "second.jsonl")


def test_files_of_other_agents_are_skipped_and_hide_nothing(
    chat: str, other: str, tmp_path: Path
) -> None:
    folder = tmp_path / "some"
    folder.mkdir()
    line = '{"type":"user","uuid":"u","sessionId":"s","message":{"role":"user","content":"x"}}\n'
    (folder / "agent.jsonl").write_text(line)
    (folder / "broken.jsonl").write_text("no session")
    for each in (chat, f"{chat}.blobs"):
        os.rename(each, folder / os.path.basename(each))
    result = copy(folder, other)
    assert [one.target for one in result.sessions] == [in_store(other, "chat.jsonl")]
    assert len(result.skipped) == 2
    assert result.problems == []
    with pytest.raises(ForeignFormatError):
        copy(folder / "agent.jsonl", other)


def test_a_session_of_version_1_is_copied_as_it_is(other: str, tmp_path: Path) -> None:
    old = tmp_path / "old.jsonl"
    old.write_text('{"type":"session","id":"x","timestamp":"2026-01-01T00:00:00Z","cwd":"/p"}\n')
    before = old.read_bytes()
    copy(old, other)
    assert content(in_store(other, "old.jsonl")) == before == old.read_bytes()


def test_the_source_is_not_locked(chat: str, other: str) -> None:
    os.unlink(f"{chat}.lock")
    copy(chat, other)
    assert not os.path.exists(f"{chat}.lock")
    with Session.open(chat, exclusive=True) as session:
        session.append_message(user("more"))
        copy(chat, other)
    assert content(in_store(other, "chat.jsonl")) == content(chat)


def test_a_mirror_copies_what_is_new_and_reads_nothing_else(other: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    one, two = (store.create(cwd="/p", id=id) for id in ("one", "two"))
    mirror = Mirror(store.root, other)
    assert len(mirror.go().sessions) == 2
    assert mirror.go().sessions == []
    with one, two:
        one.append_message(user("more"))
        result = mirror.go()
        assert [done.source for done in result.sessions] == [one.file]
        assert result.sessions[0].written < result.sessions[0].size
    with store.create(cwd="/q", id="three"):
        assert len(mirror.go().sessions) == 1
    assert sorted(found.id for found in Store(other).list()) == ["one", "three", "two"]


def test_a_session_that_goes_through_all_kinds_of_places_comes_back_the_same(
    chat: str, tmp_path: Path
) -> None:
    with ExitStack() as places:
        last = chat
        for kind in KINDS:
            with suppress(pytest.skip.Exception):  # its server is not installed
                place, _ = places.enter_context(opened(kind, tmp_path / kind))
                there = place.address("team/p/chat.jsonl")
                assert copy(last, there).problems == []
                last = there
        assert last != chat
        back = str(tmp_path / "back.jsonl")
        copy(last, back)
        assert (content(back), blobs(back), parts(back)) == (
            content(chat),
            blobs(chat),
            parts(chat),
        )


def test_a_server_that_is_down_is_told_once(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    store = Store(tmp_path / "store")
    for id in ("one", "two", "three"):
        with store.create(cwd="/p", id=id):
            pass
    with pytest.raises(StorageError, match="cannot connect to postgresql://me@") as raised:
        copy(store.root, "postgresql://me:secret@127.0.0.1:1/none/team")
    assert "secret" not in str(raised.value)
