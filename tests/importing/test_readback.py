"""What an import wrote is read back; what does not read back is not called imported."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sessiontree import CorruptionError, Session
from sessiontree.importing.importer import Importer, import_session
from sessiontree.importing.target import check_lines
from sessiontree.storage.fs import DISK, Disk
from sessiontree.storage.names import BLOBS
from tests.importing.conftest import messages
from tests.importing.test_crashes import FIRST, MORE
from tests.support.faultydisk import NoLinks
from tests.support.transcripts import Line, user, written

LARGE = "word " * 20_000


class Forgetful(Disk):
    """A medium that changes a byte of what is written: of blobs, or of all else."""

    def __init__(self, *, of_blobs: bool) -> None:
        self._of_blobs = of_blobs
        self._paths: dict[int, str] = {}

    def open(self, path: str, flags: int) -> int:
        fd = super().open(path, flags)
        self._paths[fd] = path
        return fd

    def write(self, fd: int, block: bytes) -> int:
        is_blob = BLOBS in self._paths[fd]
        return super().write(
            fd, block.replace(b"say", b"sax") if is_blob == self._of_blobs else block
        )


SMALL: list[Line] = [user("a", None), user("b", "a")]


def test_a_session_that_does_not_read_back_gets_no_name(tmp_path: Path, out: Path) -> None:
    source = written(tmp_path / "t" / "s.jsonl", SMALL)
    with pytest.raises(CorruptionError, match=r"is not kept: the line at byte .* other bytes"):
        import_session(source, out, fs=Forgetful(of_blobs=False))
    assert list(out.iterdir()) == []
    assert import_session(source, out).made


def test_new_entries_that_do_not_read_back_are_an_error(tmp_path: Path, out: Path) -> None:
    source = written(tmp_path / "t" / "s.jsonl", SMALL)
    import_session(source, out)
    written(source, [*SMALL, user("c", "b")])
    with pytest.raises(CorruptionError, match="is not kept"):
        import_session(source, out, fs=Forgetful(of_blobs=False))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_another_number_of_lines_does_not_read_back(count: int, tmp_path: Path, out: Path) -> None:
    file = str(import_session(written(tmp_path / "t" / "s.jsonl", SMALL[:1]), out).file)
    check_lines(DISK, file, 0, os.path.getsize(file), 2)
    with pytest.raises(CorruptionError, match=f"2 of {count} lines read back"):
        check_lines(DISK, file, 0, os.path.getsize(file), count)


def test_a_blob_that_does_not_read_back_is_an_error(tmp_path: Path, out: Path) -> None:
    source = written(tmp_path / "t" / "s.jsonl", [user("a", None, "say " + LARGE)])
    with pytest.raises(CorruptionError, match=r"is not kept: blob .* other bytes"):
        import_session(source, out, fs=Forgetful(of_blobs=True))
    assert not list(out.glob("*.jsonl"))
    done = import_session(source, out)
    assert messages(done.file) == messages(source)


def blobs_in(session: str) -> dict[str, Path]:
    return {path.name: path for path in Path(f"{session}.blobs").iterdir()}


def session_of(tmp_path: Path, id: str, *texts: str) -> Path:
    lines = [user(f"{id}{n}", None, text, sessionId=id) for n, text in enumerate(texts)]
    return written(tmp_path / id / "s.jsonl", lines)


def test_sessions_share_the_blobs_of_the_same_content(tmp_path: Path, out: Path) -> None:
    importer = Importer(out)
    first = importer.take(session_of(tmp_path, "one", LARGE)).file
    later = Importer(out)
    second = later.take(session_of(tmp_path, "two", LARGE, "other " + LARGE)).file
    third = later.take(session_of(tmp_path, "three", "other " + LARGE)).file
    one, two, three = map(blobs_in, (first, second, third))
    assert len({*one, *two, *three}) == 2
    for name, path in {**one, **three}.items():
        assert path.samefile(two[name])
    for path in one.values():
        path.unlink()
    for file, source in ((second, "two"), (third, "three")):
        assert messages(file) == messages(tmp_path / source / "s.jsonl")


def test_a_damaged_blob_is_not_shared(tmp_path: Path, out: Path) -> None:
    first = import_session(session_of(tmp_path, "one", LARGE), out).file
    for path in blobs_in(first).values():
        path.write_bytes(b"x" * path.stat().st_size)
    source = session_of(tmp_path, "two", LARGE)
    assert messages(import_session(source, out).file) == messages(source)


def test_without_hard_links_blobs_are_copied(tmp_path: Path, out: Path) -> None:
    for id in ("one", "two"):
        source = session_of(tmp_path, id, LARGE)
        done = import_session(source, out, fs=NoLinks())
        assert messages(done.file) == messages(source)


def test_a_large_session_reads_back(tmp_path: Path, out: Path) -> None:
    source = written(tmp_path / "t" / "s.jsonl", FIRST)
    made = import_session(source, out)
    written(source, MORE)
    again = import_session(source, out)
    assert (made.new, again.new) == (3, 2)
    with Session.open(again.file, readonly=True) as session:
        assert session.verify() == []
