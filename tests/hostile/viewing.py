"""What `view` costs on hostile sessions of five megabytes, as a table.

    python -m tests.hostile.viewing [STRUCTURE …]

For each structure, a server of its own shows the session: its page with all rows, the context at
the last entry, the names of the branches, and a search. A row has the processor time of each, and
the most memory of the server. Without names, it takes the structures with the dearest pages.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import quote

from tests.hostile import corpus
from tests.hostile.test_cost import LARGE
from tests.web.serving import Server, serving

WORST: Final = (
    *("version_1", "no_parents", "gemini_calls_in_one_message", "merges_of_growing_paths"),
    *("handles_in_a_circle", "lines_with_lone_surrogates", "random_order", "handles_of_each"),
    *("merges_from_the_side", "claude_unknown_lines", "named_branches_down_a_chain"),
)
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_LAST: Final = 15  # the fields of /proc/PID/stat up to the times of ended children


def used(server: Server) -> float:
    """The processor time of a server so far, in seconds, with that of its processes that ended."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[_LAST - 4 : _LAST])) / _TICKS


def most_memory(server: Server) -> float:
    """The most memory of a server so far, in MB."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main(names: Iterable[str]) -> None:
    """Print a row for each structure."""
    print("| structure | page, s | context, s | branches, s | search, s | MB |")
    print("|---|---|---|---|---|---|")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            file = {**corpus.STRUCTURES, **corpus.FOREIGN}[name](Path(folder), LARGE)
            with serving(file) as server:
                costs = [f"{cost:.2f}" for cost in _costs(server)]
                memory = most_memory(server)
        print(f"| {name} | {' | '.join(costs)} | {memory:.0f} |", flush=True)


def _costs(server: Server) -> Iterable[float]:
    id = server.ids[0]
    before = used(server)

    def since() -> float:
        nonlocal before
        started, before = before, used(server)
        return before - started

    server.ask(f"/s/{id}")
    while (index := server.json(f"/s/{id}/index"))["part"]:  # only the start is read yet
        so_far = used(server)
        time.sleep(1.0)
        if used(server) == so_far:  # the rest is refused
            break
    for part in index["names"]:
        server.ask(f"/s/{id}/{part}")
    yield since()
    server.ask(f"/s/{id}/seen?at={quote(index['uuids'].rpartition(chr(10))[2])}")
    yield since()
    server.ask(f"/s/{id}/branches")
    yield since()
    server.ask("/search?q=x")
    yield since()


if __name__ == "__main__":
    main(sys.argv[1:] or WORST)
