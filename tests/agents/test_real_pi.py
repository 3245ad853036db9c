"""What pi builds of its own sessions is what sessiontree reads of them, at each entry.

pi's SessionManager makes random sessions. `tests.agents.test_pi` says how pi is installed.
`python -m tests.agents.test_real_pi` makes the samples in `fixtures/agents/pi` anew.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, Store, import_session
from tests.agents.cleaning import cleaned
from tests.agents.test_pi import PI, built_by_us, comparable, has_pi

SESSIONS = int(os.environ.get("SESSIONTREE_AGENT_SESSIONS", "40"))
"""The random sessions; ten take a second."""

SAMPLES = Path(__file__).parents[2] / "fixtures" / "agents" / "pi"

Json = dict[str, Any]


def made_by_pi(folder: Path, seeds: Iterable[int]) -> Iterator[Json]:
    """Random sessions: the file of each, and the context that pi builds at each entry."""
    script = str(Path(__file__).with_name("pi_random.mjs"))
    for seed in seeds:
        command = ["node", script, PI, str(folder), str(seed)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
        yield from map(json.loads, done.stdout.splitlines())


def check(file: Path | str, contexts: Iterable[tuple[str | None, Json]]) -> None:
    """Assert that each entry has the context that pi builds there."""
    with Session.open(file, readonly=True) as session:
        assert (session.damage, session.verify(), session.notes) == ([], [], [])
        uuids = {entry.uuid for entry in session.entries()}
        for id, context in contexts:
            ours, pis = built_by_us(session, id), comparable(context)
            for here, there in zip(ours["messages"], pis["messages"], strict=True):
                if there.get("fromId", id) not in uuids:  # of another file, or "root" for the top
                    here.pop("fromId", None)
                    there.pop("fromId", None)
            assert ours == pis, (file, id)


@has_pi
def test_random_sessions_have_at_each_entry_the_context_of_pi(tmp_path: Path) -> None:
    check_random(range(4), tmp_path)


@pytest.mark.soak
@has_pi
def test_many_random_sessions_have_at_each_entry_the_context_of_pi(tmp_path: Path) -> None:
    check_random(range(4, SESSIONS), tmp_path)


def check_random(seeds: Iterable[int], tmp_path: Path) -> None:
    for made in made_by_pi(tmp_path / "pi", seeds):
        check(made["file"], made["contexts"])
        done = import_session(made["file"], tmp_path / "in")
        check(done.file, made["contexts"])
        assert import_session(made["file"], tmp_path / "in").new == 0


@pytest.mark.parametrize("folder", sorted(SAMPLES.iterdir()), ids=lambda path: str(path.name))
def test_a_sample_has_at_each_entry_the_context_that_pi_built(folder: Path) -> None:
    for row in Store(folder).list():
        built = json.loads(Path(row.file).with_suffix(".contexts.json").read_text())
        check(row.file, built)


def main() -> None:
    version = json.loads((Path(PI) / "package.json").read_text())["version"]
    shutil.rmtree(SAMPLES / version, ignore_errors=True)
    (SAMPLES / version).mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        for made in made_by_pi(Path(folder), (8, 14)):
            target = SAMPLES / version / Path(made["file"]).name
            lines = map(json.loads, Path(made["file"]).read_text().splitlines())
            shown = (cleaned(line, folder, "/home/user/.pi") for line in lines)
            target.write_text("".join(json.dumps(line) + "\n" for line in shown))
            built = json.dumps(made["contexts"][::7], indent=1)
            target.with_suffix(".contexts.json").write_text(built + "\n")


if __name__ == "__main__":
    main()
