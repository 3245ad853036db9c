"""A writer is killed at any moment: what it was told was kept is kept.

A child appends entries of 100 bytes to 8 MB, alone and in batches, and says each
uuid on a pipe once `append` has returned, and each write before it begins. It is
killed a random while after a random write began. Then every uuid that came over
the pipe stands in the file once, in order; nothing else is damaged but a torn
end; and the session goes on.
"""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import pytest

from sessiontree import Session
from tests.support.children import read_line, read_rest, running, uuids_in
from tests.support.conversation import user
from tests.support.files import Record
from tests.support.soak import in_soak
from tests.support.table import for_each

WRITER = """
import os, random, sys
from sessiontree import Session
from sessiontree.storage.fs import Disk
path, seed, durability = sys.argv[1], int(sys.argv[2]), sys.argv[3]
chance = random.Random(seed)
text = "x" * 8_000_000
class Telling(Disk):
    def write(self, fd, block):
        os.write(1, f"writing {len(block)}\\n".encode())
        return super().write(fd, block)
def append(session):
    size = int(100 * 80_000 ** chance.random())
    return session.append_message({"role": "user", "content": text[:size]}).uuid
with Session.open(path, durability=durability, fs=Telling()) as session:
    while True:
        if chance.random() < 0.1:
            with session.batch():
                uuids = [append(session) for _ in range(5)]
        else:
            uuids = [append(session)]
        os.write(1, "".join(uuid + "\\n" for uuid in uuids).encode())
"""

REPAIRER = """
import os, sys
from sessiontree import Session
path = sys.argv[1]
with Session.open(path, durability="os") as session:
    while True:
        uuid = session.append_message({"role": "user", "content": "x" * 100_000}).uuid
        os.write(1, uuid.encode() + b"\\n")
        with open(path, "ab", buffering=0) as file:
            file.write(b'{"type":"mess\\n')
        os.write(1, b"writing 0\\n")
        session.repair()
"""


def killed(script: str, chance: random.Random, *arguments: object, at_least: int = 0) -> list[str]:
    """Run a writer, kill it in a write of that many bytes or soon after, and give
    the uuids it acknowledged."""
    told: list[str] = []
    with running(script, *arguments) as child:
        writes_left = chance.randrange(1, 6)
        while writes_left > 0:
            told.append(read_line(child))
            word, _, size = told[-1].partition(" ")
            if word == "writing" and (writes_left > 1 or int(size) >= at_least):
                writes_left -= 1
        time.sleep(0 if at_least else 0.01 * chance.random() ** 4)
        child.kill()
        told += read_rest(child)
    assert child.returncode == -9
    return [line for line in told if not line.startswith("writing")]


def check_kept(path: Path, acknowledged: list[str]) -> bool:
    """Whether the end was torn; fails where anything acknowledged is not there."""
    uuids, damage = uuids_in(path)
    assert len(set(uuids)) == len(uuids)
    there = set(acknowledged)
    assert [uuid for uuid in uuids if uuid in there] == acknowledged
    assert {found.kind for found in damage} <= {"torn", "json", "open end"}
    return any(found.kind == "torn" for found in damage)


@pytest.mark.slow
@for_each("durability", ["os", "fsync"])
@in_soak("kills", 3, 300)
def test_what_a_killed_writer_was_told_is_kept_is_kept(
    tmp_path: Path, record_property: Record, kills: int, durability: str
) -> None:
    kept = torn = 0
    for seed in range(kills):
        chance = random.Random(seed)
        path = tmp_path / f"{seed // 3}.jsonl"
        if seed % 3 == 0:
            acknowledged: list[str] = []
            Session.create(path, durability="os").close()
        least = seed % 2 * 2_000_000
        acknowledged += killed(WRITER, chance, path, seed, durability, at_least=least)
        torn += check_kept(path, acknowledged)
        with Session.open(path, durability="os") as session:
            above = session.leaf.uuid
            entry = session.append_message(user("after the kill"))
            assert entry.parent_uuid == above
            acknowledged.append(entry.uuid)
        if seed % 3 == 2:
            with Session.open(path, durability="os") as session:
                assert session.repair().remaining == []
            assert not check_kept(path, acknowledged)
            kept += len(acknowledged)
            shutil.rmtree(f"{path}.blobs", ignore_errors=True)
            for left in tmp_path.glob(f"{path.name}*"):
                left.unlink()
    record_property("kills", kills)
    record_property("torn ends", torn)
    record_property("entries kept", kept)


@pytest.mark.slow
@in_soak("kills", 3, 100)
def test_a_killed_repair_loses_nothing(tmp_path: Path, record_property: Record, kills: int) -> None:
    path = tmp_path / "chat.jsonl"
    Session.create(path, durability="os").close()
    acknowledged: list[str] = []
    for seed in range(kills):
        acknowledged += killed(REPAIRER, random.Random(seed), path)
        uuids, _ = uuids_in(path)
        there = set(acknowledged)
        assert [uuid for uuid in uuids if uuid in there] == acknowledged
    with Session.open(path, durability="os") as session:
        session.repair()
        assert session.verify() == []
    assert path.with_name(path.name + ".lock").read_bytes() == b""
    record_property("kills", kills)
