"""A file cut off at any byte keeps every whole line, says what is torn, and goes on.

The cut is what a power failure, a full disk or a killed writer leaves. A peer's
session lost the entry after the tear, and with it the whole context, because the
next writer went on in the middle of the line.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessiontree import Session
from sessiontree.core.entry import Entry
from sessiontree.errors import NotASessionError
from tests.support.conversation import user
from tests.support.files import FILE, Record, content_of, in_memory, uuids
from tests.support.soak import in_soak


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A session with every kind of text that a cut may go through."""
    path = tmp_path_factory.mktemp("small") / "chat.jsonl"
    with Session.create(path, cwd="/p", durability="os") as session:
        session.append_message(user('é 😀 "quoted" \\ \n {"type":"x"}'))
        session.append("custom", customType="t", data=[1.5e300, -2, True, None, {"a": {}}])
        session.label("@", "naïve")
        session.append_message({"role": "assistant", "content": [{"type": "text", "text": "ok"}]})
        session.branch("@~1", summary="a side trip")
        session.append_message(user("the last words"))
    return path.read_bytes()


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Some megabytes, the last two lines of them as short as lines are in practice."""
    path = tmp_path_factory.mktemp("big") / "chat.jsonl"
    with Session.create(path, cwd="/p", durability="os") as session:
        with session.batch():
            for number in range(1000):
                session.append_message(user(f"{number} " + "words " * 500))
        session.append_message({"role": "assistant", "content": "the line before"})
        session.append_message(user("and é the last"))
    return path.read_bytes()


def _cuts(content: bytes, start: int, every: int) -> list[int]:
    """Each n-th place to cut from a start on, and all places around the ends of lines."""
    breaks = [at for at in range(start, len(content)) if content[at] == ord("\n")]
    near = (at + away for at in breaks for away in (-1, 0, 1, 2))
    within = range(start, len(content) + 1)
    return sorted({*within[::every], *(end for end in near if end in within)})


def _check_read(path: Path, content: bytes, end: int) -> None:
    """Reading reports the tear, if there is one, and changes nothing."""
    before = sorted(path.parent.iterdir())
    with Session.open(path, readonly=True) as session:
        assert [entry.line for entry in session.entries()] == _whole_lines(content, end)
        assert [(found.kind, found.offset) for found in session.damage] == _torn(content, end)
    assert path.read_bytes() == content[:end]
    assert sorted(path.parent.iterdir()) == before


def _check_write(path: Path, content: bytes, end: int) -> None:
    """The next entry starts a line of its own, and hangs below the last whole one."""
    whole = _whole_lines(content, end)
    torn = _torn(content, end)
    with Session.open(path, durability="os") as session:
        last = session.leaf
        assert last.line == whole[-1]
        entry = session.append_message(user("after the cut"))
        assert entry.parent_uuid == last.uuid
        assert [(found.kind, found.offset) for found in session.damage] == torn
    assert path.read_bytes().startswith(content[:end])
    with Session.open(path, readonly=True) as session:
        assert [found.line for found in session.entries()] == [*whole, entry.line]
        assert session.leaf == entry
        assert session.context().messages[-1]["content"] == "after the cut"
        assert [found.offset for found in session.damage] == [offset for _, offset in torn]


def _whole_lines(content: bytes, end: int) -> list[bytes]:
    """The lines of which every byte was written, with or without the newline."""
    lines = content[:end].split(b"\n")
    is_whole = content[end : end + 1] in (b"\n", b"") or not lines[-1]
    return [line for line in (lines if is_whole else lines[:-1]) if line]


def _torn(content: bytes, end: int) -> list[tuple[str, int]]:
    start = content.rfind(b"\n", 0, end) + 1
    is_torn = start < end and content[end : end + 1] not in (b"\n", b"")
    return [("torn", start)] if is_torn else []


@pytest.mark.slow
@in_soak("every", 7, 1)
def test_every_cut_of_a_small_session_loses_the_torn_line_alone(
    small: bytes, tmp_path: Path, record_property: Record, every: int
) -> None:
    path = tmp_path / "chat.jsonl"
    cuts = _cuts(small, small.index(b"\n"), every)
    for end in cuts:
        path.unlink(missing_ok=True)
        path.write_bytes(small[:end])
        _check_read(path, small, end)
        _check_write(path, small, end)
    record_property("offsets", len(cuts))


@pytest.mark.slow
@in_soak("every", 7, 1)
def test_every_cut_of_the_last_two_lines_of_a_big_session(
    big: bytes, tmp_path: Path, record_property: Record, every: int
) -> None:
    """The file is cut from its end byte by byte; what is written after a cut is cut off again."""
    assert len(big) > 3_000_000
    path = tmp_path / "chat.jsonl"
    path.write_bytes(big)
    start = big.rindex(b"\n", 0, big.rindex(b"\n", 0, -1)) + 1
    before = big[big.rindex(b"\n", 0, start - 1) + 1 : start - 1]
    cuts = _cuts(big, start, every)
    for end in reversed(cuts):
        os.truncate(path, end)
        whole = [before, *_whole_lines(big[start:], end - start)]
        torn = [(kind, start + offset) for kind, offset in _torn(big[start:], end - start)]
        with Session.open(path, durability="os") as session:
            assert [(found.kind, found.offset) for found in session.damage] == torn
            assert session.leaf.line == whole[-1]
            entry = session.append_message(user("after the cut"))
        with Session.open(path, readonly=True) as session:
            assert session.leaf == entry
            walk = itertools.islice(_upwards(session), len(whole) + 1)
            assert [found.line for found in walk] == [entry.line, *reversed(whole)]
        with path.open("rb") as file:
            file.seek(start)
            assert file.read(end - start) == big[start:end]
    record_property("offsets", len(cuts))


def _upwards(session: Session) -> Iterator[Entry]:
    """The entries from the leaf up, read as far as they are asked for."""
    entry = session.leaf
    while True:
        yield entry
        assert entry.parent_uuid is not None
        entry = session.entry(entry.parent_uuid)


@pytest.mark.slow
@in_soak("every", 5, 1)
def test_repair_after_any_cut_leaves_a_clean_file_with_all_that_was_whole(
    small: bytes, record_property: Record, every: int
) -> None:
    cuts = _cuts(small, small.index(b"\n") + 2, every)
    for end in cuts:
        disk = in_memory(small[:end])
        with Session.open(FILE, fs=disk) as session:
            before = [entry.line for entry in session.entries()]
            done = session.repair()
            ends_open = not small[:end].endswith(b"\n")
            assert (done.evidence is not None) == ends_open
            assert [found.kind for found in done.remaining] == []
            assert [entry.line for entry in session.entries()] == before
            if done.evidence is not None:
                assert content_of(disk, done.evidence) == small[:end]
    record_property("offsets", len(cuts))


@pytest.mark.slow
def test_a_cut_inside_the_header_is_named_and_nothing_is_written(
    small: bytes, tmp_path: Path
) -> None:
    """A session is made whole or not at all, so only another program leaves half a header."""
    path = tmp_path / "chat.jsonl"
    for end in range(small.index(b"\n")):
        path.write_bytes(small[:end])
        for readonly in (True, False):
            with pytest.raises(NotASessionError) as caught:
                Session.open(path, readonly=readonly)
            assert str(path) in str(caught.value)
            assert "\n" not in str(caught.value)
        assert path.read_bytes() == small[:end]
        assert list(tmp_path.iterdir()) == [path]


@pytest.mark.soak
def test_every_cut_is_survived_by_one_session_after_another(small: bytes, tmp_path: Path) -> None:
    """Cut, written to and cut again at each byte: the tears add up, the entries stay."""
    path = tmp_path / "chat.jsonl"
    path.write_bytes(small)
    kept: list[str] = []
    for cut in range(1, 400):
        with Session.open(path) as session:
            kept.append(session.append_message(user("kept")).uuid)
            session.append_message(user("torn" * 100))
        os.truncate(path, path.stat().st_size - cut)
        with Session.open(path, readonly=True) as session:
            assert [uuid for uuid in uuids(session) if uuid in kept] == kept
    with Session.open(path) as session:
        session.repair()
        assert [uuid for uuid in uuids(session) if uuid in kept] == kept
        assert session.verify() == []
