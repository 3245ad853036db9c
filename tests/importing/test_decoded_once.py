"""An import decodes a line of another agent once, and encodes its entry once."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

from sessiontree.agents import base, recognise
from sessiontree.importing.source import ImportSource, entries_of
from sessiontree.storage.fs import DISK

AGENTS: Final = Path(__file__).parents[2] / "fixtures" / "agents"
FILES: Final = [path for path in sorted(AGENTS.rglob("*.jsonl")) if recognise(path.read_bytes())]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(AGENTS).as_posix())
def test_a_line_is_decoded_once(file: Path) -> None:
    decoded: Counter[bytes] = Counter()
    encoded = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal encoded
        if event == "call" and frame.f_code is base.values.__code__:
            decoded[frame.f_locals["line"]] += 1
        encoded += event == "call" and frame.f_code is base.encoded.__code__

    with ImportSource(DISK, str(file)) as source:
        assert source.reader is not None
        most = 2 if source.reader.reads_twice else 1  # for its structure, then as an entry
        sys.setprofile(note)
        try:
            entries = list(entries_of(source))
        finally:
            sys.setprofile(None)
    assert len(entries) > 1
    assert encoded == 0
    lines = Counter(file.read_bytes().splitlines())
    opening = next(iter(lines))  # of Codex it also tells the history of the thread
    often = {line for line, times in decoded.items() if times > most * lines[line] > 0}
    assert often <= {opening}
