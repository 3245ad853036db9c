"""Large sources: lines of any length, and memory that does not grow with the content."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sessiontree import Session
from sessiontree.importing.importer import import_session
from tests.agents.test_bad_input import claude_code
from tests.support.soak import in_soak
from tests.support.transcripts import user


@pytest.mark.slow
@in_soak("size", 10_000_000, 100_000_000)
def test_a_large_line_is_read_and_imported(tmp_path: Path, out: Path, size: int) -> None:
    file = claude_code(tmp_path / "source" / "s.jsonl")
    before, after = json.dumps(user("big", "last", "XX")).split("XX")
    with file.open("a") as source:
        source.write(f"{before}{'x' * size}{after}\n")
    done = import_session(file, out)
    assert done.blobs == 1
    assert Path(done.file).stat().st_size < 100_000
    for each in (file, done.file):
        with Session.open(each, readonly=True) as session:
            assert session.leaf.uuid == "big"
            assert len(session.context().messages[-1]["content"]) == size


MEASURED = """
import resource, sys
from sessiontree.importing import import_session
import_session(sys.argv[1], sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def _memory(source: Path, out: Path) -> int:
    """The peak memory of an import, in KiB."""
    command = [sys.executable, "-c", MEASURED, str(source), str(out)]
    return int(subprocess.run(command, capture_output=True, check=True).stdout)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted in KiB on Linux alone")
def test_the_memory_of_an_import_does_not_grow_with_the_content(tmp_path: Path) -> None:
    peaks = []
    for size in (100, 20_000):
        file = tmp_path / f"of-{size}.jsonl"
        with file.open("w") as source:
            for number in range(2_000):
                above = f"u{number - 1}" if number else None
                source.write(json.dumps(user(f"u{number}", above, "x" * size)) + "\n")
        peaks.append(_memory(file, tmp_path / f"out{size}"))
    small, large = peaks
    assert large - small < 20_000  # of 40 MB more
