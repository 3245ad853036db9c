"""A file verified by several processes: the same findings as by one, whatever is damaged where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessiontree import Session
from sessiontree.engine import repair
from sessiontree.storage.fs import DISK
from sessiontree.storage.log import FileLog
from tests.support.conversation import user
from tests.support.table import for_each


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    file = tmp_path_factory.mktemp("sound") / "s.jsonl"
    with Session.create(file, cwd="/project", durability="os") as session:
        for number in range(60):
            session.append_message(user(f"é {number} " * (number % 7 * 10)))
        session.label("@~3", "here")
        session.compact("short", keep=10)
    return file.read_bytes()


def findings(file: Path, processes: int) -> list[tuple[int, str, str]]:
    with Session.open(file, readonly=True) as session:
        found = session.verify(processes=processes)
        return [(one.offset, one.kind, one.cause) for one in found]


@pytest.mark.slow
@settings(deadline=None, max_examples=10, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_several_processes_find_what_one_finds(
    sound: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    monkeypatch.setattr(repair, "SHARE", data.draw(st.integers(1, len(sound))))
    damaged = bytearray(sound)
    header = sound.index(b"\n") + 1
    places = st.integers(header, len(sound) - 1)
    for place in data.draw(st.lists(places, max_size=4)):
        damaged[place] = data.draw(st.sampled_from(b'\n\0\xff"}x'))
    file = tmp_path / "s.jsonl"
    file.write_bytes(damaged)
    assert findings(file, 3) == findings(file, 1)


def test_what_only_a_checksum_tells_is_found_in_every_share(
    sound: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repair, "SHARE", 2_000)
    file = tmp_path / "s.jsonl"
    file.write_bytes(sound.replace(b'"role":"user"', b'"role":"USER"'))
    found = findings(file, 3)
    assert [kind for _, kind, _ in found] == ["crc"] * 60
    assert found == findings(file, 1)


@for_each("over", [-1, 0, 1])
def test_a_file_is_shared_if_it_is_larger_than_a_share(
    sound: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, over: int
) -> None:
    monkeypatch.setattr(repair, "SHARE", len(sound) - over)
    file = tmp_path / "s.jsonl"
    file.write_bytes(sound)
    taken: list[tuple[int, int]] = []

    def find(shares: Sequence[tuple[int, int]]) -> Iterator[Sequence[int]]:
        taken.extend(shares)
        return iter([()] * len(shares))

    log = FileLog(DISK, str(file), readonly=True)
    seen: list[tuple[int, int]] = []
    assert repair.verify(log, lambda *each: seen.append(each), find) == []
    log.close()
    assert (taken[:1], len(taken)) == (([(0, len(sound))], 1) if over > 0 else ([], 0))
    assert seen[-1] == (len(sound), len(sound))
