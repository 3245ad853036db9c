"""A session in numbers: all branches count, no answer counts twice, no blob is read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from sessiontree.core.usage import Usage
from tests.formats.test_bad_input import LOGS


def answer(output: int, **more: Any) -> dict[str, Any]:
    usage = {"input": 10, "output": output, "cost": {"total": 0.01}}
    return {"role": "assistant", "content": "x", "usage": usage, **more}


def test_all_branches_lanes_summaries_and_usage_entries_count(file: Path) -> None:
    with Session.create(file) as session:
        user = session.append_message({"role": "user", "content": "Do it"})
        session.append_message(answer(1, model="m", provider="p"))
        session.branch(user)
        session.append_message(answer(2, model="m", provider="p"))
        session.append("usage", kind="title", provider="p", model="n", usage={"output": 4})
        session.append("message_end", messageUuid="x", role="assistant", usage={"output": 8})
        session.append("custom", customType="c", data={"usage": {"output": 1000}})
    with Session.open(file, lane="agent-2") as other:
        other.append_message(answer(16))
    with Session.open(file, readonly=True) as session:
        found = session.stats()
    assert found.entries == 9
    assert found.types["message"] == 4
    assert found.branches == 3
    assert found.lanes == {"main": 8, "agent-2": 1}
    assert found.file_bytes == file.stat().st_size
    assert found.usage == Usage(30, 1 + 2 + 4 + 8 + 16, cost=0.03)
    assert found.models == {"p/m": Usage(20, 3, cost=0.02), "p/n": Usage(output=4)}


def test_an_answer_that_stands_in_several_entries_is_counted_once(session: Session) -> None:
    for output in (1, 5):
        session.append_message(answer(output, id="msg_1"))
    assert session.stats().usage.output == 5


def test_the_bytes_in_blobs_are_told_and_no_blob_is_read(file: Path) -> None:
    with Session.create(file, spill_over=100) as session:
        for text in ("a" * 1000, "b" * 500, "a" * 1000):
            session.append_message({"role": "user", "content": text})
        found = session.stats()
        assert (found.blobs, found.blob_bytes, found.lost_blobs) == (2, 1500, 0)
        shutil.rmtree(f"{file}.blobs")
        assert session.stats().blobs == 0
        assert session.stats().as_dict()["lostBlobs"] == 2


@pytest.mark.parametrize("made", LOGS)
def test_the_bytes_of_another_agents_file_are_those_on_the_disk(
    made: Callable[[Path], Path], tmp_path: Path
) -> None:
    file = made(tmp_path / "s.jsonl")
    with Session.open(file, readonly=True) as session:
        assert session.stats().file_bytes == file.stat().st_size
