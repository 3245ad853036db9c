"""Sessions on object storage: what a server, a network and other programs can do to them."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import io
import itertools
import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import quote

import pytest
from obstore.exceptions import GenericError

from sessiontree import Session, Store
from sessiontree.errors import (
    BlobError,
    CorruptionError,
    SessionExistsError,
    SessionNotFoundError,
    SessionTreeWarning,
    StorageError,
    UsageError,
    WriteFailedError,
)
from sessiontree.library.search import search
from sessiontree.library.search_file import SearchFilter
from sessiontree.storage.log import Moved
from sessiontree.storage.objects import bucket as bucket_module
from sessiontree.storage.objects import generation
from sessiontree.storage.objects import log as object_log
from sessiontree.storage.objects import marks as object_marks
from sessiontree.storage.objects import place as objects
from sessiontree.storage.objects.bucket import (
    Bucket,
    ObjectInfo,
    OutcomeUnknown,
    _cause,
    _is_definite,
    _step,
)
from sessiontree.storage.objects.log import ObjectLog
from sessiontree.storage.objects.place import ObjectPlace
from sessiontree.storage.place import address
from sessiontree.storage.places import place_of
from sessiontree.text.pattern import Pattern
from tests.places import kinds, servers
from tests.places.gate import Gate, gate
from tests.support.conversation import assistant, user
from tests.support.table import for_each

NAME: Final = "p/s.jsonl"
HEADER: Final = b"header\n"


def store() -> Any:
    from obstore.store import MemoryStore

    return MemoryStore()


def place_on(found: Any, made: type[Bucket] = Bucket) -> ObjectPlace:
    """A place as a program of its own has it."""
    return ObjectPlace(made("s3://bucket", found))


def put(place: ObjectPlace, key: str, content: bytes) -> None:
    place.contents.put(key, io.BytesIO(content))


def keys(place: ObjectPlace, folder: str = "") -> list[str]:
    return [found.key for found in place.bucket.list(folder)]


def content(place: ObjectPlace, name: str = NAME) -> bytes:
    log = place.log(name, readonly=True)
    return log.read(0, log.size())


def append(log: ObjectLog, block: bytes) -> int:
    with log.alone():
        return log.append(block, log.size())


def folder_of(place: ObjectPlace, name: str = NAME) -> str:
    return place.log(name, readonly=True)._generation.folder


def requests(place: ObjectPlace) -> dict[str, int]:
    found = dict(place.bucket.requests)
    place.bucket.requests.clear()
    return found


# What a request costs


def test_an_append_is_one_request_also_under_a_hold() -> None:
    place = place_on(store())
    place.create(NAME, [HEADER])
    log = place.log(NAME)
    end = log.size()
    append(log, b"first\n")
    requests(place)
    with log.alone():
        log.append(b"one\n", end + 6)
    assert requests(place) == {"put": 1}
    with log.hold():
        assert log.still_ends_at(end + 10)
        log.append(b"two\n", end + 10)
    assert requests(place) == {"put": 1}
    with log.hold():
        assert log.size() == end + 14
        log.append(b"three\n", end + 14)
        assert log.ends_at(end + 20)
    assert requests(place) == {"list": 1, "put": 1}
    assert content(place) == HEADER + b"first\none\ntwo\nthree\n"


def test_a_merge_is_one_request_and_the_objects_stay_few_and_small() -> None:
    place = place_on(store())
    place.create(NAME, [HEADER])
    log = place.log(NAME)
    end = log.size()
    requests(place)
    line = b"x" * 99 + b"\n"
    with log.hold():
        for number in range(64 * 40):
            log.append(line, end + 100 * number)
    sent = requests(place)
    assert sent["put"] == 64 * 40 + 40
    merged = [found for found in place.bucket.list("") if "/merged/" in found.key]
    assert len(merged) <= 6
    blocks = sum(found.size for found in place.bucket.list("") if "/log/" in found.key)
    assert blocks == 64 * 40 * 100
    assert sum(found.size for found in merged) == blocks
    assert content(place_on(place.bucket._store)) == HEADER + line * 64 * 40


def test_a_session_is_made_with_one_object_and_resumed_with_few_requests() -> None:
    found = store()
    place = place_on(found)
    place.check_server(NAME)
    requests(place)
    place.create(NAME, [HEADER])
    assert requests(place) == {"put": 1}
    log = place.log(NAME)
    for number in range(1000):
        append(log, b"%06d\n" % number * 20)
    log.close()
    other = place_on(found)
    again = other.log(NAME)
    size = again.size()
    again.read(0, 4096)
    again.read(size - 32_768, 32_768)
    again.read(size - 100_000, 70_000)
    assert sum(requests(other).values()) <= 5
    assert size == len(HEADER) + 1000 * 140


def test_a_list_of_sessions_reads_each_head_once() -> None:
    found = store()
    place = place_on(found)
    for number in range(20):
        place.create(f"p/{number}.jsonl", [HEADER * number])
    other = place_on(found)
    assert {one.size for one in other.list()} == {len(HEADER) * number for number in range(20)}
    assert requests(other) == {"list": 1, "get": 20}
    assert len(list(other.list("p/"))) == 20
    assert requests(other) == {"list": 1}


def test_a_list_skips_long_runs_of_merged_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "PAGE", 10)
    found = store()
    place = place_on(found)
    for name in ("p/a.jsonl", "p/b.jsonl"):
        place.create(name, [HEADER])
        log = place.log(name)
        for _ in range(200):
            append(log, b"0123456\n")
        log.close()
    other = place_on(found)
    assert [(one.name, one.size) for one in other.list()] == [
        ("p/a.jsonl", len(HEADER) + 1600),
        ("p/b.jsonl", len(HEADER) + 1600),
    ]


# What stands in the way


@for_each(
    "key",
    [
        "{}/log/notes.txt",
        "{}/log/00000000000000009999.jsonl",
        "{}/merged/5.jsonl",
        "{}/merged/00000000000000000007-00000000000000000008.jsonl",
    ],
)
def test_a_foreign_object_in_the_way_is_named_and_left(key: str) -> None:
    found = store()
    place = place_on(found)
    place.create(NAME, [HEADER])
    key = key.format(folder_of(place))
    put(place, key, b"other")
    with pytest.warns(SessionTreeWarning, match=re.escape(key)):
        log = place_on(found).log(NAME)
    append(log, b"one\n")
    log.close()
    with pytest.warns(SessionTreeWarning, match=re.escape(key)):
        assert content(place_on(found)) == HEADER + b"one\n"
    assert place.contents.read(key, 0, 99) == b"other"


BIG: Final = 600
"""The bytes of each block of a session that loses some."""


def _holed(lost: Callable[[str], bool]) -> tuple[Any, bytes, list[bytes]]:
    """A session some of whose objects are lost: the bucket, what it had, and its blocks."""
    found = store()
    place = place_on(found)
    place.create(NAME, [HEADER])
    log = place.log(NAME)
    blocks = [b"%03d" % number * (BIG // 3 - 1) + b"ab\n" for number in range(5)]
    for block in blocks:
        append(log, block)
    for key in keys(place):
        if lost(key):
            place.contents.remove(key)
    return found, HEADER + b"".join(blocks), blocks


def test_a_lost_block_is_a_hole_the_rest_is_read_and_nothing_is_written() -> None:
    at = len(HEADER) + BIG
    found, whole, _ = _holed(lambda key: f"{at:020}.jsonl" in key)
    place = place_on(found)
    log = place.log(NAME)
    hole = b"\0" * (BIG - 1) + b"\n"
    assert content(place) == whole[:at] + hole + whole[at + BIG :]
    assert place.find(NAME) is not None
    with pytest.raises(CorruptionError, match=f"{at:020}.jsonl; nothing was written") as raised:
        append(log, b"more\n")
    assert raised.value.offset == at
    with pytest.raises(CorruptionError):
        place.move(NAME, "q/t.jsonl")
    log.close()
    assert not [key for key in keys(place) if "/merged/" in key or key.startswith("q/")]
    put(place, f"{folder_of(place)}/log/{at:020}.jsonl", whole[at : at + BIG])  # from a backup
    append(place_on(found).log(NAME), b"more\n")
    assert content(place_on(found)) == whole + b"more\n"


def test_several_lost_blocks_are_holes_and_a_rewrite_goes_on_without_them() -> None:
    lost = [len(HEADER) + BIG * number for number in (0, 1, 3)]
    found, whole, blocks = _holed(lambda key: any(f"{at:020}.jsonl" in key for at in lost))
    log = place_on(found).log(NAME)
    left = log.read(0, log.size())
    assert len(left) == len(whole)
    assert [line for line in left.splitlines(keepends=True) if b"\0" not in line] == [
        HEADER,
        blocks[2],
        blocks[4],
    ]
    with log.hold():
        log.rewrite(line for line in left.splitlines(keepends=True) if b"\0" not in line)
        log.reopen()
    append(log, b"more\n")
    assert content(place_on(found)) == HEADER + blocks[2] + blocks[4] + b"more\n"


def test_a_merged_object_that_is_lost_takes_no_byte_with_it() -> None:
    found = store()
    place = place_on(found)
    _filled(found)
    log = place.log(NAME)
    append(log, b"more\n")
    log.close()
    merged = [key for key in keys(place) if "/merged/" in key]
    assert merged
    for key in merged:
        place.contents.remove(key)
    assert content(place_on(found)) == FILLED + b"more\n"


def test_a_lost_part_of_a_content_that_was_stored_whole_is_a_hole() -> None:
    found = store()
    place = place_on(found)
    lines = [b"%d\n" % number * 1000 for number in range(20)]
    place.create(NAME, [HEADER, *lines])
    (key,) = [key for key in keys(place) if "/merged/" in key]
    place.contents.remove(key)
    other = place_on(found)
    assert len(content(other)) == len(HEADER + b"".join(lines))
    assert content(other)[16 * 1024 :].strip(b"\0\n") == b""
    with pytest.raises(CorruptionError):
        append(other.log(NAME), b"more\n")


def test_a_session_with_a_hole_is_repaired(tmp_path: Path) -> None:
    with kinds.opened("objects", tmp_path) as (place, url):
        assert isinstance(place, ObjectPlace)
        with Session.create(f"{url}/{NAME}", cwd="/p") as session:
            session.append_message(user("one"))
            at = session.append_message(user("two")).offset
            session.append_message(user("three"))
        place.contents.remove(f"{folder_of(place)}/log/{at:020}.jsonl")
        del session
        gc.collect()  # this process knows the bytes
        with Session.open(f"{url}/{NAME}") as session:
            assert [(damage.kind, damage.offset) for damage in session.verify()][:1] == [
                ("nul", at)
            ]
            with pytest.raises(CorruptionError, match="nothing was written"):
                session.append_message(user("four"))
            assert session.repair().evidence is not None
            session.append_message(user("four"))
            texts = [one["message"]["content"] for one in session.entries() if one.is_content]
        assert texts == ["one", "three", "four"]


@for_each(
    "head, told",
    [
        (b"hello", "is not the head of a session"),
        (b"[]\n", "is not the head of a session"),
        (b'{"generation":"0123456789abcdef","format":2}\n', "has the layout 2"),
    ],
)
def test_a_head_that_is_none_or_newer_is_named(head: bytes, told: str) -> None:
    place = place_on(store())
    put(place, f"{NAME}/head", head)
    with pytest.raises(StorageError, match=told):
        place.log(NAME)
    with pytest.raises(SessionExistsError):
        place.create(NAME, [HEADER])


def test_a_block_that_looks_like_a_mark_is_a_block() -> None:
    found = store()
    place = place_on(found)
    place.create(NAME, [HEADER])
    log = place.log(NAME)
    blocks = [object_marks.EndMarker("barrier", "0" * 16).encoded(), b"x" * 511 + b"\n"]
    for block in blocks:
        append(log, block)
        assert content(place_on(found)).endswith(block)
    append(place_on(found).log(NAME), b"more\n")
    assert content(place_on(found)) == HEADER + b"".join(blocks) + b"more\n"


def test_a_blob_that_is_missing_is_told() -> None:
    place = place_on(store())
    objects_url = "s3://bucket"
    from sessiontree.storage import places as backends

    key = objects_url, ()
    backends._places[key] = place
    try:
        with Session.create(f"{objects_url}/{NAME}", cwd="/p", spill_over=100) as session:
            session.append_message(assistant("b" * 1000))
        for each in [*place.contents.keys(f"{NAME}.blobs/")]:
            place.contents.remove(each)
        with Session.open(f"{objects_url}/{NAME}") as session:
            assert [damage.kind for damage in session.verify()] == ["blob"]
            with pytest.raises(BlobError):
                _ = session.leaf["message"]
    finally:
        del backends._places[key]


@pytest.mark.slow
def test_a_very_long_line_is_kept_and_merged() -> None:
    found = store()
    place = place_on(found)
    place.create(NAME, [HEADER])
    log = place.log(NAME)
    line = b"x" * 100_000_000 + b"\n"
    append(log, line)
    append(log, b"after\n")
    log.close()
    assert content(place_on(found)) == HEADER + line + b"after\n"
    assert any("/merged/" in key for key in keys(place))


class Late(Bucket):
    """A server whose listings lack the newest object of a log."""

    def list(self, folder: str, after: str = "") -> Iterator[ObjectInfo]:
        found = [*super().list(folder, after)]
        yield from found[:-1] if folder.endswith("/log") else found


def test_a_listing_that_lacks_the_newest_object_costs_and_doubles_nothing() -> None:
    found = store()
    first, second = place_on(found, Late), place_on(found, Late)
    first.create(NAME, [HEADER])
    logs = [first.log(NAME), second.log(NAME)]
    expected = b""
    for number, log in zip(range(20), itertools.cycle(logs), strict=False):
        block = b"%d\n" % number
        for _ in range(5):
            with contextlib.suppress(Moved):
                append(log, block)
                expected += block
                break
        else:
            raise AssertionError("it is appended after few tries")
    assert content(place_on(found)) == HEADER + expected


# What older programs left


def old_mark(kind: str, **said: object) -> bytes:
    """A mark as programs up to 0.2.0 wrote it."""
    told = {"kind": kind, "next": "", "kept": False, "user": "me", "host": "h", "pid": 1, **said}
    return (b"\0sessiontree mark 1\n" + json.dumps(told).encode()).ljust(511) + b"\n"


@for_each("kind", ["claim", "free"])
def test_a_claim_or_a_free_mark_of_an_older_program_is_replaced(kind: str) -> None:
    found = store()
    place = place_on(found)
    place.create(NAME, [HEADER])
    key = f"{folder_of(place)}/log/{len(HEADER):020}.jsonl"
    put(place, key, old_mark(kind, kept=True))
    assert content(place_on(found)) == HEADER
    log, other = place_on(found).log(NAME), place_on(found).log(NAME)
    put(place, key, old_mark(kind, count=1))  # its owner renews it
    append(log, b"one\n")
    with pytest.raises(Moved), other.alone():
        other.append(b"two\n", len(HEADER))
    assert content(place_on(found)) == HEADER + b"one\n"


def test_stray_claims_of_an_older_program_are_passed() -> None:
    found = store()
    place = place_on(found)
    place.create(NAME, [HEADER])
    for ahead in (4, 9):
        key = f"{folder_of(place)}/log/{len(HEADER) + ahead:020}.jsonl"
        put(place, key, old_mark("claim"))
    log = place_on(found).log(NAME)
    assert append(log, b"one\n") == len(HEADER)
    assert append(log, b"two!\n") == len(HEADER) + 4
    assert append(log, b"three\n") == len(HEADER) + 9
    assert content(place_on(found)) == HEADER + b"one\ntwo!\nthree\n"


def test_blocks_that_an_older_program_merged_and_emptied_are_read() -> None:
    found = store()
    place = place_on(found)
    place.create(NAME, [HEADER])
    log = place.log(NAME)
    for block in BLOCKS:
        append(log, block)
    log.close()
    for key in keys(place):
        if "/log/" in key:
            place.bucket.write(key, b"", "someone")
    assert content(place_on(found)) == FILLED
    append(place_on(found).log(NAME), b"more\n")
    assert content(place_on(found)) == FILLED + b"more\n"


def test_a_log_that_an_older_program_merges_and_empties_meanwhile_is_read() -> None:
    """Between the two listings of a reader, it merges and empties the block at the end."""
    found = store()
    place_on(found).create(NAME, [HEADER])
    writer = place_on(found).log(NAME)
    left = [*BLOCKS]

    class Merging(Bucket):
        def list(self, folder: str, after: str = "") -> Iterator[ObjectInfo]:
            listed = [*super().list(folder, after)]
            if folder.endswith("/merged") and left:
                block = left.pop()
                at = append(writer, block)
                folder = folder.removesuffix("/merged")
                end = at + len(block)
                super().create(f"{folder}/merged/{at:020}-{end:020}.jsonl", block)
                super().write(f"{folder}/log/{at:020}.jsonl", b"", "someone")
            return iter(listed)

    assert content(place_on(found, Merging)) == HEADER + b"".join(reversed(BLOCKS))


@for_each("is_ended", [False, True])
def test_a_move_that_an_older_program_did_not_finish_is_finished(is_ended: bool) -> None:
    found = store()
    place = place_on(found)
    _filled(found)
    generation = place.log(NAME, readonly=True)._generation
    id = hashlib.sha256(f"{generation.id} q/t.jsonl".encode()).hexdigest()[:16]
    head = {"generation": id, "format": 1, "arriving": True}
    put(place, "q/t.jsonl/head", json.dumps(head).encode() + b"\n")
    if is_ended:
        put(place, generation.block_key(generation.end), old_mark("moved", next=id))
        with pytest.raises(StorageError, match="move it again to the same place"):
            place_on(found).log(NAME)
    assert place_on(found).find("q/t.jsonl") is None
    place_on(found).move(NAME, "q/t.jsonl")
    assert content(place_on(found), "q/t.jsonl") == FILLED
    assert place_on(found).find(NAME) is None


def test_an_exclusive_session_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with kinds.opened("objects", tmp_path) as (place, url):
        with pytest.raises(UsageError, match="keeps no other program out; leave 'exclusive' out"):
            Session.create(f"{url}/{NAME}", cwd="/p", exclusive=True)
        Session.create(f"{url}/q/s.jsonl", cwd="/p").close()
        with pytest.raises(UsageError, match="leave 'exclusive' out"):
            Session.open(f"{url}/q/s.jsonl", exclusive=True)
        assert [one.name for one in place.list()] == ["q/s.jsonl"]


def test_a_forked_process_is_told_that_it_cannot_use_the_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = place_on(store())
    place.create(NAME, [HEADER])
    with monkeypatch.context() as forked:
        forked.setattr(bucket_module, "_is_forked", True)  # as in the child
        with pytest.raises(UsageError, match="does not work in a forked process"):
            content(place)
    assert content(place) == HEADER


@for_each("kind", ["objects", "postgres"])
def test_a_search_by_several_processes_finds_the_sessions_of_a_place_too(
    kind: str, tmp_path: Path
) -> None:
    with kinds.opened(kind, tmp_path) as (place, _):
        roots = str(tmp_path / "store"), place.address("team")
        for root in roots:
            for number in range(3):
                with Store(root).create(cwd="/p", id=f"{number}" * 4, spill_over=100) as session:
                    session.append_message(user("hello " * 100))
        files = [file for root in roots for file in Store(root).paths()]
        problems: list[str] = []
        wanted = SearchFilter(blobs=True)
        hits = search(Pattern("hello"), files, wanted, problems.append, processes=2)
        assert sorted({hit.file for hit in hits}) == sorted(files)
        assert problems == []


# Killed at each request


class Killed(BaseException):
    pass


class Mortal(Bucket):
    """A bucket whose program dies before, or just after, a write."""

    left: int = 1_000_000
    is_after = False

    def _write(self, do: Callable[[], Any]) -> Any:
        self.left -= 1
        if self.left < 0 or (self.left == 0 and not self.is_after):
            raise Killed
        done = do()
        if self.left == 0:
            raise Killed
        return done

    def _put(self, key: str, content: bytes, mode: Any, by: str) -> str:
        found: str = self._write(lambda: super(Mortal, self)._put(key, content, mode, by))
        return found

    def copy(self, source: str, target: str) -> None:
        self._write(lambda: super(Mortal, self).copy(source, target))

    def remove(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._write(lambda key=key: super(Mortal, self).remove([key]))  # type: ignore[misc]

    def upload(self, key: str, source: IO[bytes]) -> None:
        self._write(lambda: super(Mortal, self).upload(key, source))


BLOCKS: Final = [b"%d\n" % number * 10 for number in range(30)]


def _filled(found: Any) -> None:
    place = place_on(found)
    place.create(NAME, [HEADER])
    log = place.log(NAME)
    for block in BLOCKS:
        append(log, block)
    for key in ("1", "2"):
        put(place, f"{NAME}.blobs/{key}", key.encode())


def _kill_at_each_write(do: Callable[[ObjectPlace], object], check: Callable[[Any], object]) -> int:
    """Do something, killed at each of its writes in turn; check what it left; return the kills."""
    kills = 0
    for is_after in (False, True):
        for number in itertools.count(1):
            found = store()
            _filled(found)
            place = place_on(found, Mortal)
            place._is_probed = True
            mortal = place.bucket
            assert isinstance(mortal, Mortal)
            mortal.left, mortal.is_after = number, is_after
            try:
                do(place)
            except Killed:
                kills += 1
                mortal.left = -1  # it is dead: what `finally` still does does nothing
                check(found)
                continue
            break
    return kills


@pytest.fixture
def merging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merge early."""
    monkeypatch.setattr(generation, "_MANY", 8)


FILLED: Final = HEADER + b"".join(BLOCKS)


@pytest.mark.usefixtures("merging")
def test_a_writer_that_is_killed_at_any_write_loses_nothing() -> None:
    told: list[bytes] = []

    def write(place: ObjectPlace) -> None:
        told.clear()
        log = place.log(NAME)
        for number in range(10):
            block = b"more %d\n" % number
            with log.hold(), log.hold():
                append(log, block)
            told.append(block)
        log.close()

    def check(found: Any) -> None:
        left = content(place_on(found))
        known = FILLED + b"".join(told)
        assert left.startswith(known)
        assert left[len(known) :] in (b"", b"more %d\n" % len(told))
        append(place_on(found).log(NAME), b"next\n")
        assert content(place_on(found)) == left + b"next\n"

    assert _kill_at_each_write(write, check) > 20


@pytest.mark.usefixtures("merging")
def test_a_rewrite_that_is_killed_at_any_write_is_done_or_not_done() -> None:
    def rewrite(place: ObjectPlace) -> None:
        log = place.log(NAME)
        with log.hold():
            log.size()
            log.rewrite(iter([b"new\n", b"x" * 40_000 + b"\n"]), ".old")

    def check(found: Any) -> None:
        left = content(place_on(found))
        assert left in (FILLED, b"new\n" + b"x" * 40_000 + b"\n")
        append(place_on(found).log(NAME), b"next\n")
        assert content(place_on(found)) == left + b"next\n"

    assert _kill_at_each_write(rewrite, check) >= 10


@pytest.mark.usefixtures("merging")
def test_a_move_that_is_killed_at_any_write_is_finished_by_a_second_one() -> None:
    def move(place: ObjectPlace) -> None:
        place.move(NAME, "q/t.jsonl")

    def check(found: Any) -> None:
        place = place_on(found)
        try:
            move(place)
        except SessionNotFoundError:  # all was done
            assert place.find(NAME) is None
        assert content(place_on(found), "q/t.jsonl") == FILLED
        assert [*place.contents.keys("q/t.jsonl.")] == ["q/t.jsonl.blobs/1", "q/t.jsonl.blobs/2"]
        assert place.find(NAME) is None
        assert [*place.contents.keys(f"{NAME}.")] == []

    assert _kill_at_each_write(move, check) > 20


@pytest.mark.usefixtures("merging")
def test_a_removal_that_is_killed_at_any_write_is_finished_by_a_second_one() -> None:
    def remove(place: ObjectPlace) -> None:
        place.remove(NAME)

    def check(found: Any) -> None:
        place = place_on(found)
        with contextlib.suppress(SessionNotFoundError):
            remove(place)
        assert place.find(NAME) is None
        assert [*place.contents.keys(f"{NAME}.")] == []
        place.create(NAME, [b"again\n"])
        assert content(place_on(found)) == b"again\n"

    assert _kill_at_each_write(remove, check) > 20


# Removed, moved, replaced


@for_each("how", ["removed", "moved"])
def test_a_writer_of_a_session_that_is_gone_is_told(how: str) -> None:
    found = store()
    place, other = place_on(found), place_on(found)
    place.create(NAME, [HEADER])
    behind = place_on(found).log(NAME)
    log = place.log(NAME)
    append(log, b"one\n")
    if how == "removed":
        other.remove(NAME)
    else:
        other.move(NAME, "q/t.jsonl")
    for each in (log, behind):
        with pytest.raises(Moved), each.alone():
            each.append(b"two\n", each._generation.end)
        with pytest.raises(SessionNotFoundError, match="was removed while it was open"):
            each.was_replaced()
    other.create(NAME, [b"new\n"])
    with pytest.raises(Moved), log.alone():
        log.append(b"two\n", log._generation.end)
    assert content(place_on(found)) == b"new\n"
    if how == "moved":
        assert content(other, "q/t.jsonl") == HEADER + b"one\n"


def test_of_a_removed_session_nothing_is_left_but_what_ends_it() -> None:
    place = place_on(store())
    place.create(NAME, [HEADER])
    log = place.log(NAME)
    for _ in range(100):
        append(log, b"secret\n" * 100)
    put(place, f"{NAME}.archive-2026-01-01", b"secret")
    place.remove(NAME)
    left = [found for found in place.bucket.list("") if found.size]
    assert [found.size for found in left] == [object_marks.SIZE]
    assert list(place.list()) == []


def test_of_a_session_removed_after_a_day_no_key_of_a_block_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(objects, "_DAY", -1.0)
    found = store()
    place = place_on(found)
    place.create(NAME, [HEADER])
    log = place.log(NAME)
    for _ in range(5):
        append(log, b"one\n")
    behind = place_on(found).log(NAME)
    append(log, b"two\n")
    place.remove(NAME)
    assert len(keys(place)) == 2
    monkeypatch.setattr(object_log, "since", lambda then: 4000.0)  # it was away for long
    with pytest.raises(Moved), behind.alone():
        behind.append(b"late\n", behind._generation.end)


def test_a_rewrite_that_slept_while_others_replaced_the_session_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = store()
    place, other = place_on(found), place_on(found)
    place.create(NAME, [HEADER])
    log = place.log(NAME)
    append(log, b"one\n")
    monkeypatch.setattr(objects, "_DAY", -1.0)

    def lines() -> Iterator[bytes]:
        for number in range(2):  # the second one removes what the first one replaced
            theirs = other.log(NAME)
            with theirs.hold():
                theirs.rewrite(iter([HEADER, b"theirs %d\n" % number]))
        yield b"stale\n"

    with log.hold():
        log.size()
        with pytest.raises(Moved):
            log.rewrite(lines())
    assert content(place_on(found)) == HEADER + b"theirs 1\n"


def test_what_is_appended_during_a_move_is_moved_too() -> None:
    found = store()
    place, writer = place_on(found), place_on(found)
    _filled(found)
    log = writer.log(NAME)
    seen = place.bucket.copy

    def copy(source: str, target: str) -> None:
        if log.size() < len(FILLED) + 30:
            append(log, b"meanwhile\n")
        seen(source, target)

    place.bucket.copy = copy  # type: ignore[method-assign]
    place.move(NAME, "q/t.jsonl")
    left = content(place_on(found), "q/t.jsonl")
    assert left in [FILLED + b"meanwhile\n" * number for number in (3, 4)]
    with pytest.raises(SessionNotFoundError):
        writer.log(NAME)


def test_an_old_generation_goes_with_a_rewrite_a_day_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = store()
    place = place_on(found)
    place.create(NAME, [HEADER])
    log = place.log(NAME)
    append(log, b"one\n")
    first = log._generation.id
    for _ in range(2):
        with log.hold():
            log.rewrite(iter([HEADER]))
            log.reopen()
    assert any(first in key for key in keys(place))
    monkeypatch.setattr(objects, "_DAY", -1.0)
    with log.hold():
        log.rewrite(iter([HEADER, b"new\n"]))
        log.reopen()
    assert len([key for key in keys(place) if first in key]) == 1  # the barrier
    assert content(place_on(found)) == HEADER + b"new\n"


# The server and the network


@pytest.fixture
def guarded() -> Iterator[tuple[ObjectPlace, Gate]]:
    """A session of a server behind a gate."""
    if not servers.has_moto():
        pytest.skip(servers.NO_MOTO)
    from tests.places.kinds import _moto

    with gate(_moto()) as found:
        name = f"gate-{os.urandom(4).hex()}"
        servers.make_bucket(_moto(), name)
        url = (
            f"s3://{name}?endpoint={found.endpoint}&region=us-east-1&timeout=1"
            f"&access_key_id=AKIAKEY&secret_access_key={servers.SECRET}"
        )
        place, _ = place_of(url)
        assert isinstance(place, ObjectPlace)
        place.create(NAME, [HEADER])
        yield place, found


def _once(how: str, method: str, ending: str = "") -> Callable[[str, str], str]:
    left = [1]

    def answer(asked: str, path: str) -> str:
        if asked == method and ending in path and left[0]:
            left[0] -= 1
            return how
        return ""

    return answer


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", ["lose", "drop", "503", pytest.param("hang", marks=pytest.mark.slow)]
)
def test_an_append_whose_answer_is_lost_is_kept_once(
    guarded: tuple[ObjectPlace, Gate], how: str
) -> None:
    place, found = guarded
    log = place.log(NAME)
    found.how = _once(how, "PUT", "/log/")
    end = append(log, b"one\n")
    with log.hold(), log.hold():
        log.size()
        found.how = _once(how, "PUT", "/log/")
        append(log, b"two\n")
    append(log, b"one\n")
    assert end == len(HEADER)
    found.how = lambda method, path: ""
    assert content(place) == HEADER + b"one\ntwo\none\n"


@pytest.mark.slow
def test_an_append_whose_outcome_cannot_be_found_out_ends_the_log(
    guarded: tuple[ObjectPlace, Gate],
) -> None:
    place, found = guarded
    log = place.log(NAME)
    with log.alone():
        end = log.size()
        found.how = lambda method, path: "lose" if method == "PUT" else "drop"
        with pytest.raises(WriteFailedError, match="is unknown") as raised:
            log.append(b"one\n", end)
        assert servers.SECRET not in str(raised.value)
        assert "AKIAKEY" not in str(raised.value)
        found.how = lambda method, path: ""
        with pytest.raises(WriteFailedError, match="open the session again"):
            log.append(b"two\n", end)
    assert content(place_on_same(place)) == HEADER + b"one\n"


def place_on_same(place: ObjectPlace) -> ObjectPlace:
    """The same bucket as another program has it."""
    return ObjectPlace(Bucket(place.url, place.bucket._store))


@pytest.mark.slow
def test_a_program_without_rights_is_told_and_may_try_again(
    guarded: tuple[ObjectPlace, Gate],
) -> None:
    place, found = guarded
    log = place.log(NAME)
    found.how = lambda method, path: "403" if method == "PUT" else ""
    with pytest.raises(StorageError, match=r"cannot write .*Code403; check the credentials"):
        append(log, b"one\n")
    found.how = lambda method, path: "403"
    with pytest.raises(StorageError, match="Code403; check the credentials") as raised:
        place_on_same(place).log(NAME)
    assert servers.SECRET not in str(raised.value)
    found.how = lambda method, path: ""
    append(log, b"two\n")
    assert content(place) == HEADER + b"two\n"


@pytest.mark.slow
def test_a_server_that_is_overloaded_for_long_is_told(guarded: tuple[ObjectPlace, Gate]) -> None:
    place, found = guarded
    found.how = lambda method, path: "503"
    with pytest.raises(StorageError, match="Code503; the server is overloaded; try again later"):
        place_on_same(place).log(NAME)
    assert len(found.seen) < 40


@pytest.mark.slow
def test_a_failed_merge_is_no_error_of_the_append(guarded: tuple[ObjectPlace, Gate]) -> None:
    place, found = guarded
    log = place.log(NAME)
    found.how = lambda method, path: "403" if "/merged/" in path and method == "PUT" else ""
    for number in range(70):
        append(log, b"%d\n" % number)
    assert not [key for key in keys(place) if "/merged/" in key]
    found.how = lambda method, path: ""
    append(log, b"last\n")
    assert len([key for key in keys(place) if "/merged/" in key]) == 1
    assert content(place_on_same(place)).endswith(b"69\nlast\n")


@pytest.mark.slow
def test_a_bucket_that_is_not_there_is_told() -> None:
    if not servers.has_moto():
        pytest.skip(servers.NO_MOTO)
    from tests.places.kinds import _moto

    with servers.credentials(_moto()):
        place, _ = place_of(f"s3://none-{os.urandom(4).hex()}")
        with pytest.raises(StorageError, match="NoSuchBucket; make the bucket"):
            place.create(NAME, [HEADER])


def test_an_address_shows_no_secret_and_finds_its_place_without_it() -> None:
    url = "s3://b/p/s.jsonl?endpoint=http://localhost:1&access_key_id=AKIA&secret_access_key=S3CRET"
    found = address(url)
    assert found.shown_options == (("endpoint", "http://localhost:1"),)
    place, name = place_of(url)
    shown = place.address(name)
    assert "S3CRET" not in shown
    assert "AKIA" not in shown
    assert place_of(shown) == (place, name)
    for wrong in ("s3://b?secret_access_key=S3CRET&nonsense=1", "s3://?secret_access_key=S3CRET"):
        with pytest.raises(UsageError) as raised:
            place_of(wrong)
        assert "S3CRET" not in str(raised.value)
    with pytest.raises(UsageError, match="a number of seconds"):
        place_of("s3://b?timeout=long")


@pytest.fixture
def keyless(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that says nothing of object storage."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)


@for_each(
    "endpoint",
    [
        *("127.0.0.1:9000", "localhost", "ftp://127.0.0.1:1", "http://", "http://a b"),
        *("http://127.0.0.1:99999", "http://127.0.0.1:0", "http://me:S3CRET@127.0.0.1:1", "/x"),
    ],
)
@for_each("is_option", [True, False])
def test_an_endpoint_that_is_no_url_is_refused_with_the_form_it_has(
    endpoint: str, is_option: bool, keyless: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_option:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(UsageError, match="write it as http://host:port or https://host") as raised:
        place_of(f"s3://e{is_option}" + (f"?endpoint={quote(endpoint)}" if is_option else ""))
    assert ("the option endpoint" if is_option else "AWS_ENDPOINT_URL") in str(raised.value)
    assert "S3CRET" not in str(raised.value)


@for_each(
    "url, what",
    [("s3://b?region=eu%20west", "is not a region"), ("s3://a b", "is not the name of a bucket")],
)
def test_what_no_request_can_have_is_refused(url: str, what: str, keyless: None) -> None:
    with pytest.raises(UsageError, match=what):
        place_of(url)


@for_each(
    "name, value, what",
    [
        ("AWS_REGION", "eu west", "AWS_REGION is not a region"),
        ("AWS_SECRET_ACCESS_KEY", "S3CRET\n", "AWS_SECRET_ACCESS_KEY has a character that no cred"),
        ("AWS_SESSION_TOKEN", "S3CRET\n", "AWS_SESSION_TOKEN has a character that no credential"),
    ],
)
def test_a_variable_that_no_request_can_have_is_refused_and_not_shown(
    name: str, value: str, what: str, keyless: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(each, "a")
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=what) as raised:
        place_of("s3://variables")
    assert "S3CRET" not in str(raised.value)


def test_one_credential_without_the_other_is_refused_with_both_names(
    keyless: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one, what in {
        "AWS_ACCESS_KEY_ID": "an access key id is given without a secret access key",
        "AWS_SECRET_ACCESS_KEY": "a secret access key is given without an access key id",
    }.items():
        monkeypatch.setenv(one, "S3CRET")
        told = f"{what}; set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        with pytest.raises(UsageError, match=told) as raised:
            place_of("s3://one-of-two")
        assert "S3CRET" not in str(raised.value)
        monkeypatch.delenv(one)


KEYS: Final = "access_key_id=AKIA&secret_access_key=S3CRET"


def test_a_server_that_cannot_be_reached_is_named(
    keyless: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:2")
    place, _ = place_of(f"s3://no-server?endpoint=http://127.0.0.1:1&timeout=1&{KEYS}")
    told = r"cannot connect to http://127.0.0.1:1; check the endpoint and the network"
    for call in (lambda: list(place.list()), lambda: place.create(NAME, [HEADER])):
        with pytest.raises(StorageError, match=told):
            call()


def test_a_request_that_has_no_credentials_says_what_to_set() -> None:
    refused = GenericError(
        "Error performing PUT http://169.254.169.254/latest/api/token in 3ms - Server returned "
        "non-2xx status code: 403 Forbidden: "
    )
    assert _cause(refused) == "no credentials are set"
    assert _step(refused) == "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    assert _is_definite(refused)


def test_a_session_that_is_damaged_is_reported_and_hides_no_other(tmp_path: Path) -> None:
    with kinds.opened("objects", tmp_path) as (found, url):
        assert isinstance(found, ObjectPlace)
        store = Store(url)
        for id in ("a", "head", "log", "z"):
            with Session.create(f"{url}/p/{id}.jsonl", id=id, cwd="/p") as session:
                session.append_message(user("hello"))
        found.bucket.write("p/head.jsonl/head", b"something else")
        found.contents.remove("p/log.jsonl/head")
        found.bucket.write("p/log.jsonl/head", b'{"generation":"0","format":9}\n')
        problems: list[str] = []
        assert {one.id for one in store.list(report=problems.append)} == {"a", "z"}
        assert len(problems) == 2
        assert "p/head.jsonl/head is not the head of a session" in problems[0]
        assert "has the layout 9" in problems[1]
        names = {f"p/{id}.jsonl" for id in ("a", "head", "log", "z")}
        assert {each.name for each in found.list("p/")} == names
        assert len(list(store.search("hello", report=problems.append))) == 2
        assert len(problems) == 4


class _NotFound(BaseHTTPRequestHandler):
    """Answers as a web server does that has no such page."""

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_server_of_something_else_is_told_from_a_session_that_is_not_there(keyless: None) -> None:
    with HTTPServer(("127.0.0.1", 0), _NotFound) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            url = f"s3://web?endpoint=http://127.0.0.1:{server.server_port}&{KEYS}"
            with pytest.raises(StorageError, match="status 404; check the endpoint") as raised:
                place_of(url)[0].log(NAME)
        finally:
            server.shutdown()
            thread.join()
    assert not isinstance(raised.value, SessionNotFoundError)


class Overwriting(Bucket):
    """A server that overwrites, though it was asked to create or to replace a version."""

    ignored: tuple[str, ...] = ("create",)

    def _put(self, key: str, content: bytes, mode: Any, by: str) -> str:
        is_ignored = (mode if isinstance(mode, str) else "replace") in self.ignored
        return super()._put(key, content, "overwrite" if is_ignored else mode, by)


class Replacing(Overwriting):
    ignored = ("replace",)


@for_each(
    "made, told",
    [
        (Overwriting, "overwrites an object that was to be created"),
        (Replacing, "overwrites an object that is not the version"),
    ],
)
def test_a_server_that_overwrites_is_refused_for_writing_and_can_be_read(
    made: type[Bucket], told: str
) -> None:
    found = store()
    place_on(found).create(NAME, [HEADER])
    place = place_on(found, made)
    log = place.log(NAME)
    for write in (
        lambda: append(log, b"one\n"),
        lambda: place.create("p/other.jsonl", [HEADER]),
        lambda: place.remove(NAME),
        lambda: place.move(NAME, "p/t.jsonl"),
    ):
        with pytest.raises(StorageError, match=told):
            write()
    assert content(place) == HEADER
    assert keys(place) == [f"{NAME}/head"]


def test_the_server_is_asked_in_the_folder_of_the_session_that_is_written() -> None:
    class Limited(Bucket):
        """What a program sees whose rights end at a prefix."""

        def _put(self, key: str, content: bytes, mode: Any, by: str) -> str:
            assert key.startswith("team/alice/"), key
            return super()._put(key, content, mode, by)

        def remove(self, keys: Iterable[str]) -> None:
            for key in keys:
                assert key.startswith("team/alice/"), key
                super().remove([key])

    found = store()
    name = "team/alice/p/s.jsonl"
    place_on(found, Limited).create(name, [HEADER])
    append(place_on(found, Limited).log(name), b"one\n")
    place_on(found, Limited).move(name, "team/alice/.trash/1/p/s.jsonl")
    place_on(found, Limited).remove("team/alice/.trash/1/p/s.jsonl")
    assert not [key for key in keys(place_on(found)) if "probe" in key]


@for_each(
    "status, code, step",
    [
        (507, "XMinioStorageFull", "the storage is full"),
        (400, "XMinioAdminBucketQuotaExceeded", "the storage is full"),
        (403, "QuotaExceeded", "the storage is full"),
        (400, "EntityTooLarge", "refuses an object of this size"),
        (413, "", "refuses an object of this size"),
    ],
)
def test_a_server_without_room_is_told_from_one_that_is_not_reached(
    status: int, code: str, step: str
) -> None:
    said = f"<Error><Code>{code}</Code></Error>" if code else ""
    error = GenericError(f"Error performing PUT http://h: status code: {status}: {said}")
    assert step in _step(error)


def test_an_option_that_is_not_known_is_refused_with_all_that_are() -> None:
    with pytest.raises(UsageError, match=r"no option endpont; there are: endpoint, .*, timeout"):
        place_of("s3://bucket/x?endpont=http://localhost:1")


def test_a_lost_answer_of_a_creation_makes_one_session() -> None:
    class Losing(Bucket):
        def _put(self, key: str, content: bytes, mode: Any, by: str) -> str:
            done = super()._put(key, content, mode, by)
            if key.endswith("/head"):
                raise OutcomeUnknown("lost")
            return done

    place = place_on(store(), Losing)
    place._is_probed = True
    place.create(NAME, [HEADER])
    assert content(place) == HEADER
    with pytest.raises(SessionExistsError):
        place.create(NAME, [b"other\n"])


def test_a_session_of_the_engine_works_across_two_programs() -> None:
    found = store()
    from sessiontree.storage import places as backends

    first, second = place_on(found), place_on(found)
    backends._places["s3://bucket", ()] = first
    try:
        with Session.create(f"s3://bucket/{NAME}", cwd="/p") as session:
            session.append_message(user("one"))
            backends._places["s3://bucket", ()] = second
            with Session.open(f"s3://bucket/{NAME}") as other:
                other.append_message(user("two"))
                session.append_message(user("three"))
                session.label(session.leaf.uuid, "mine")
                other.append_message(user("four"))
                other.gc()
                with session.batch():
                    session.append_message(user("five"))
                    session.append_message(user("six"))
                other.refresh()
                assert other.verify() == []
                texts = [
                    entry["message"]["content"] for entry in other.entries()
                    if entry.type == "message"
                ]  # fmt: skip
        assert texts == ["one", "two", "three", "four", "five", "six"]
    finally:
        del backends._places["s3://bucket", ()]


def test_an_unknown_durability_is_refused() -> None:
    for file in ("s3://bucket/s.jsonl", "memory://unknown/s.jsonl", None):
        with pytest.raises(UsageError, match="durability must be 'fsync' or 'os', not 'group'"):
            Session.create(file, cwd="/p", durability="group")  # type: ignore[arg-type]


def test_a_second_list_reads_no_head_again(monkeypatch: pytest.MonkeyPatch) -> None:
    place = place_on(store())
    for number in range(30):
        place.create(f"p/{number:02}.jsonl", [HEADER, os.urandom(100).hex().encode() + b"\n"])
    found = list(place.list())
    before = place.bucket.requests["get"]
    assert list(place.list()) == found
    assert place.bucket.requests["get"] == before
    place.remove("p/00.jsonl")
    assert len(list(place.list())) == 29
    monkeypatch.setattr("sessiontree.storage.objects.head._KEPT", 1000)
    other = place_on(place.bucket._store)
    assert list(other.list()) == found[1:]
    before = other.bucket.requests["get"]
    assert list(other.list()) == found[1:]
    assert 0 < other.bucket.requests["get"] - before < 29  # the first ones are kept


def test_a_read_that_lists_anew_does_not_forget_what_was_known() -> None:
    """While others merge what it reads, a listing lacks the newest block, which it knew."""

    class Forgetful(Bucket):
        is_late = False

        def list(self, folder: str, after: str = "") -> Iterator[ObjectInfo]:
            found = [*super().list(folder, after)]
            yield from found[:-1] if self.is_late and folder.endswith("/log") else found

    found = store()
    _filled(found)
    other = place_on(found, Forgetful)
    log = other.log(NAME)
    end = log.size()
    writer = place_on(found).log(NAME)
    append(writer, b"last\n")
    assert log.size() == end + 5
    assert isinstance(other.bucket, Forgetful)
    other.bucket.is_late = True
    log._generation.refresh(anew=True)
    assert log._generation.end == end + 5
    assert log.read(0, end + 5) == FILLED + b"last\n"
