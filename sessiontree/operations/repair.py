"""A sound copy of another agent's file, by the rules of `agents.repair`.

Invariants: the file, and those beside it, are only read; the copy is complete or absent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sessiontree.agents.base import LinePlace
from sessiontree.agents.repair import mended
from sessiontree.engine.opening import sniff_file
from sessiontree.engine.repair import RepairedLine
from sessiontree.engine.translated import SourceFile
from sessiontree.errors import UsageError
from sessiontree.storage.atomic import create_file
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.log import Log

_BLOCK: Final = 1024 * 1024


def copied(log: Log, output: str, fs: FileSystem) -> list[RepairedLine]:
    """Write the copy to a new file; return what differs.

    Raises:
        UsageError: the file has the format of sessiontree.
        SessionExistsError: `output` is there already.
    """
    start = sniff_file(log)
    if start.kind == "version 1":
        raise UsageError(
            f"{log.name} has version 1, and a copy is made of agents' files only: import it, and "
            "repair the session that this makes"
        )
    if start.agent is None:
        raise UsageError(f"{log.name} is a file of sessiontree: 'repair FILE' repairs it in place")
    changes: list[RepairedLine] = []

    def note(place: LinePlace, what: str) -> None:
        changes.append(RepairedLine(place.number, place.offset, what))

    lines = mended(start.agent.reader, SourceFile(log), start.session_id, note)
    create_file(fs, output, _in_blocks(lines))
    return changes


def _in_blocks(lines: Iterator[bytes]) -> Iterator[bytes]:
    block: list[bytes] = []
    size = 0
    for line in lines:
        block += (line, b"\n")
        size += len(line)
        if size > _BLOCK:
            yield b"".join(block)
            block, size = [], 0
    yield b"".join(block)
