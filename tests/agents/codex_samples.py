"""Makes `fixtures/agents/codex`: `CODEX=… python -m tests.agents.codex_samples`.

The real Codex plays one thread with a command, a revert, a fork, a compaction and a name. Long
texts and paths are replaced. `sent.json` has, for each file in force, the items of the last
request that Codex sent for it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.agents import codex_driver
from tests.agents.cleaning import cleaned
from tests.agents.codex_driver import Codex, Json, running

SAMPLES = Path(__file__).parents[2] / "fixtures" / "agents" / "codex"
SHOWN = "/home/user/.codex"


def played(codex: Codex) -> dict[str, Json]:
    """The last request of each thread."""
    thread = codex.start()
    codex.turn(thread, "first")
    calls = [codex_driver.shell("call_1", "echo hello")]
    second = codex.turn(thread, "second", calls, [codex_driver.text("it says hello")])
    codex.turn(thread, "third")
    codex.call("thread/revert", threadId=thread, beforeTurnId=second)
    codex.turn(thread, "another second")
    codex.call("thread/name/set", threadId=thread, name="A thread with a revert")
    requests = {thread: codex.model.requests[-1]}
    fork = codex.call("thread/fork", threadId=thread)["thread"]["id"]
    codex.turn(fork, "in the fork")
    codex.compact(fork)
    codex.turn(fork, "after the compaction")
    return requests | {fork: codex.model.requests[-1]}


def write(home: Path, requests: dict[str, Json], folder: Path) -> None:
    written: dict[str, list[bytes]] = {}
    for file in sorted(home.rglob("rollout-*.jsonl")):
        lines = [cleaned(json.loads(line), str(home), SHOWN) for line in file.open()]
        base = lines[0]["payload"].get("history_base")
        if base is not None:  # the byte moved with the texts
            before = written[base["thread_id"]]
            count = base["end_ordinal_exclusive"] - json.loads(before[0])["ordinal"]
            base["end_byte_offset"] = sum(map(len, before[:count]))
        made = [(json.dumps(line, separators=(",", ":")) + "\n").encode() for line in lines]
        written[file.stem[-36:]] = made
        target = folder / file.relative_to(home)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"".join(made))
    shutil.copyfile(home / "session_index.jsonl", folder / "session_index.jsonl")
    sent = {
        thread: cleaned(request["input"][1:], str(home), SHOWN)
        for thread, request in requests.items()
    }
    (folder / "sent.json").write_text(json.dumps(sent, indent=1) + "\n")


def main() -> None:
    path = codex_driver.program()
    if path is None:
        sys.exit("Codex is not installed: set CODEX to the path of its program")
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    version = done.stdout.split()[-1]
    with tempfile.TemporaryDirectory() as folder:
        with running(path, Path(folder)) as codex:
            requests = played(codex)
        shutil.rmtree(SAMPLES / version, ignore_errors=True)
        write(Path(folder), requests, SAMPLES / version)


if __name__ == "__main__":
    main()
