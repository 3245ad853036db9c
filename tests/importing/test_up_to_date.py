"""An import is up to date if all of its source was written, also after a write that was cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiontree.importing.target import IMPORTED_FROM, is_up_to_date
from sessiontree.storage.fs import DISK

HEADER = {"type": "session", "version": 2, "format": "sessiontree/2", "uuid": "h", "id": "s"}


def entry(uuid: str, **fields: Any) -> dict[str, Any]:
    return {"type": "custom", "uuid": uuid, "parentUuid": "h", **fields}


def recorded(uuid: str, **record: Any) -> dict[str, Any]:
    return {**entry(uuid, metadata={IMPORTED_FROM: record}), "type": "session_info"}


FIRST = recorded("i", state="first", last="a")
SECOND = recorded("j", state="second", last="b")

FILES: dict[str, tuple[list[dict[str, Any]], bool]] = {
    "all is there": ([FIRST, entry("a"), SECOND, entry("b")], True),
    "the last entry is missing": ([FIRST, entry("a"), SECOND], False),
    "the last entry is only named": ([entry("a"), SECOND, entry("c", data={"uuid": "b"})], False),
    "an entry after it": ([SECOND, entry("b"), entry("c")], True),
    "another state since": ([SECOND, entry("b"), FIRST, entry("a")], False),
    "an earlier state": ([FIRST, entry("a")], False),
    "no last entry is told": ([recorded("j", state="second")], True),
    "a text that looks like a record": ([entry("x", data={IMPORTED_FROM: "second"})], False),
    "nothing": ([], False),
}


@pytest.mark.parametrize("name", FILES)
def test_an_import_has_all_of_a_state_if_the_last_entry_is_there(tmp_path: Path, name: str) -> None:
    entries, is_whole = FILES[name]
    file = tmp_path / "s.jsonl"
    lines = [{**HEADER, "parentUuid": None}, *entries]
    file.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    assert is_up_to_date(DISK, str(file), "second") is is_whole
