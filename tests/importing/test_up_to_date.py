"""An import is up to date if all of its source was written, also after a write that was cut."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from sessiontree.core.header import IMPORTED_FROM
from sessiontree.importing.importer import Importer
from sessiontree.importing.target import check_lines, is_up_to_date
from sessiontree.storage.fs import DISK, Disk
from tests.importing.conftest import SUBAGENT, imported
from tests.support.table import for_each
from tests.support.transcripts import CALL, user, written

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


@for_each("name", FILES)
def test_an_import_has_all_of_a_state_if_the_last_entry_is_there(tmp_path: Path, name: str) -> None:
    entries, is_whole = FILES[name]
    file = tmp_path / "s.jsonl"
    lines = [{**HEADER, "parentUuid": None}, *entries]
    file.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    assert is_up_to_date(DISK, str(file), "second") is is_whole


class Reading(Disk):
    """A disk on which nothing is opened to write."""

    def open(self, path: str, flags: int) -> int:
        assert flags & os.O_ACCMODE == os.O_RDONLY, path
        return super().open(path, flags)


def test_a_look_opens_no_file_to_write(tmp_path: Path, out: Path) -> None:
    file = written(tmp_path / "t" / "s.jsonl", CALL)
    beside = written(tmp_path / "t" / "s" / "subagents" / "agent-one.jsonl", SUBAGENT)
    looking = Importer(out, fs=Reading())
    assert looking.look(file).made
    assert looking.kept(str(file)) is None
    assert looking.holder_of(str(beside)) is None
    made = imported(file, out)
    looking = Importer(out, fs=Reading())
    assert looking.look(file).is_up_to_date
    assert looking.kept(str(file)) is not None
    assert looking.holder_of(str(beside)) == made.file
    check_lines(
        Reading(),
        made.file,
        0,
        os.path.getsize(made.file),
        Path(made.file).read_bytes().count(b"\n"),
    )
    written(file, [*CALL, user("z", "r")])
    assert looking.look(file).new == 1
