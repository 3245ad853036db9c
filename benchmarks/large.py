"""What every command costs on a session of 20 MB, of 200 MB and of 2 GB.

    python -m benchmarks.large [--size MB …] [--only COMMAND …] [--folder FOLDER]

makes a compacted session of each size (and the same as a transcript of Claude Code, to
import, and as a version 1 session, to migrate; the same bytes every time), runs each
command of the command line on it, one at a time, each in a process of its own, and
prints a table: the most memory that was resident, the processor's time, and the clock's.
All sizes take turns command by command, so that growth is seen in one run.
What a command wrote into the session is taken off again, and what it made is removed.
A run of 2 GB takes more than an hour, 9 GB of disk, and 4 GB of memory where it summarizes
what is left; `--only` leaves that out.

The peak of a process begins with that of the one that starts it, and so a small one
does: `python -I -S` with nothing imported, 9 MB.
"""

from __future__ import annotations

import argparse
import ast
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, Self

import orjson

from benchmarks.moves import BARE_TURN
from benchmarks.peers.corpora import SESSION, lines_of
from benchmarks.peers.shapes import ClaudeLines
from sessiontree import Store
from sessiontree.cli import COMMANDS

SIZES: Final = (20, 200, 2000)

_LAUNCHER: Final = """
import os, signal, sys, time
told = int(sys.argv[1])
os.set_inheritable(told, False)
began = time.perf_counter()
pid = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ, setsigdef=[signal.SIGINT])
os.write(told, b"%d\\n" % pid)
_, status, used = os.wait4(pid, 0)
took = time.perf_counter() - began
figures = took, used.ru_utime + used.ru_stime, used.ru_maxrss, os.waitstatus_to_exitcode(status)
os.write(told, repr(figures).encode())
"""
"""Starts a command, and tells a descriptor the command's id, then what it took.

A shell lets what runs in its background ignore Ctrl-C: a command of ours shall not.
"""

_PEAK_UNIT: Final = 1 if sys.platform == "darwin" else 1024
_TRANSCRIPT: Final = "claude"
_OLD: Final = "old.jsonl"
_TEXT: Final = "part-317.ts"


class Cost(NamedTuple):
    """What one run took: seconds by the clock, the processor's, and bytes resident."""

    wall: float
    processor: float
    peak: int


class Job(NamedTuple):
    """A command as it is run.

    Attributes:
        words: the command and its arguments; `{…}` are filled in by `Place.filled`.
        stdin: what is piped into it.
        before: commands that make ready for it, and are not measured.
        torn: whether the session is given a torn line first.
        code: the exit code that is right.
    """

    words: str
    stdin: bytes = b""
    before: tuple[str, ...] = ()
    torn: bool = False
    code: int = 0


_TRIED: Final = "append {file} --lane scratch/tried --text Tried"

JOBS: Final = (
    Job("show {file}"),
    Job("show {file} {middle}"),
    Job("tree {file}"),
    Job("tree {file} --json"),
    Job("branches {file}"),
    Job("path {file}"),
    Job("path {file} --json"),
    Job("context {file}"),
    Job("context {file} --json"),
    Job("context {file} {middle}"),
    Job("follow {file}"),
    Job("handle resolve session@2.0.0::entry:benchmark:{middle} --session {file}"),
    Job("handle schemas"),
    Job("stats {file}"),
    Job("blob ls {file}"),
    Job("blob cat {file} {blob}", before=("append {file} --attach {attached}",)),
    Job("blob verify {file}", before=("append {file} --attach {attached}",)),
    Job("ls {store}"),
    Job("ls {store} --branches"),
    Job("search {text} {file} --limit 100"),
    Job("search {text} {file} --current --limit 100"),
    Job("search nothing-like-it {file}"),
    Job("new {made}"),
    Job("append {file} --text More"),
    Job("append {file} --scratch --text Tried"),
    Job("append {file} --parent {middle} --text Aside"),
    Job("append {file} --attach {attached}"),
    Job("record {file} --prompt More?", stdin=BARE_TURN),
    Job("keep {file} scratch/tried", before=(_TRIED,)),
    Job("label {file} {middle} here"),
    Job("rename {file} Large"),
    Job("edit-context {file} @ --drop"),
    Job("branch-here {file} {middle}"),
    Job("branch-here {file} {middle} --summarize"),
    Job("switch {file} {middle}"),
    Job("rewind {file}"),
    Job("push {file}"),
    Job("pop {file}"),
    Job("compact {file}"),
    Job("cherry-pick {file} {middle}"),
    Job("merge {file} {leaf}", before=("branch-here {file} @~5", "append {file} --text Aside")),
    Job("fork {file} {made}"),
    Job("branch {file} {middle} {made}"),
    Job("export-branch {file} {middle} {made}"),
    Job("export-branch {file} {middle} {made} --redact"),
    Job("export {file} -o {made}"),
    Job("convert {file} --to pi -o {made}"),
    Job("convert {file} --to claude-code -o {made}"),
    Job("convert {file} --to atif -o {made}"),
    Job("import {transcript} -o {folder}/imported"),
    Job("verify {file}"),
    Job("repair {file} --dry-run"),
    Job("repair {file}", torn=True),
    Job("gc {file} --dry-run"),
    Job("gc {file} --as-of 2100-01-01", before=(_TRIED,)),
    Job("migrate {old}"),
    Job("trash {file} --store {store}"),
    Job("restore benchmark --store {store}", before=("trash {file} --store {store}",)),
    Job("move-project /project /renamed --store {store}"),
    Job("call tree.render --session {file}"),
    Job("demo"),
)


class Place:
    """A folder with a session of one size, and what is made of it.

    Attributes:
        entries: the lines of the session.
        size: its bytes.
    """

    def __init__(self, folder: Path, megabytes: int) -> None:
        self._folder = folder
        self._megabytes = megabytes
        self._file = Path(Store(folder / "store").project_dir("/project")) / "session.jsonl"
        if not self._file.exists():
            self._make()
        facts = orjson.loads((folder / "facts.json").read_bytes())
        self.entries, self.size = facts["entries"], facts["size"]
        self._middle, self._leaf = facts["middle"], facts["leaf"]
        (folder / "attached.txt").write_text("Attached. " * 10_000)

    def _make(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self._folder / "unfinished"
        uuids: list[str] = []
        with unfinished.open("wb") as out:
            for line in lines_of(f"compacted-{self._megabytes}"):
                out.write(line + b"\n")
                uuids.append(orjson.loads(line)["uuid"])
            size = out.tell()
        middle, leaf = uuids[len(uuids) // 2 + 7], uuids[-1]
        facts = {"entries": len(uuids), "size": size, "middle": middle, "leaf": leaf}
        (self._folder / "facts.json").write_bytes(orjson.dumps(facts))
        unfinished.rename(self._file)

    def filled(self, words: str) -> list[str]:
        """The words of a command, with the places in them."""
        return [
            word.format(
                file=self._file,
                store=self._folder / "store",
                folder=self._folder,
                made=self._folder / "made",
                old=self._folder / _OLD,
                transcript=self._folder / _TRANSCRIPT,
                attached=self._folder / "attached.txt",
                middle=self._middle,
                leaf=self._leaf,
                blob=self._blob(),
                text=_TEXT,
            )
            for word in words.split()
        ]

    def _blob(self) -> str:
        folder = Path(f"{self._file}.blobs")
        return next((file.name for file in folder.iterdir()), "") if folder.is_dir() else ""

    def cost(self, job: Job) -> Cost:
        """Run a command once, on a session that is as it was made."""
        self._make_ready(job)
        try:
            for words in job.before:
                _run(self.filled(words))
            if job.torn:
                with self._file.open("ab") as out:
                    out.write(b'{"type":"message","uu\n')
            if job.words.startswith("follow"):
                return self._followed(self.filled(job.words))
            return _run(self.filled(job.words), job.stdin, job.code)
        finally:
            self._clear()

    def _followed(self, words: list[str]) -> Cost:
        """Follow until something that is appended meanwhile is told."""
        with _Run(words, stdout=subprocess.PIPE) as run:
            os.set_blocking(run.output.fileno(), False)
            while not run.output.read(1):
                _run(self.filled("append {file} --text More"))
            os.kill(run.pid, signal.SIGINT)
            return run.cost(130)

    def _make_ready(self, job: Job) -> None:
        """Make what only few commands need, as it is large."""
        if "{old}" in job.words:
            _write(self._folder / _OLD, self._version_1())
        if "{transcript}" in job.words:
            folder = self._folder / _TRANSCRIPT
            folder.mkdir()
            _write(folder / f"{SESSION}.jsonl", self._claude_code())

    def _version_1(self) -> Iterator[dict[str, Any]]:
        rows: dict[str, int] = {}
        new = ("version", "format", "uuid", "parentUuid", "crc")
        for row, entry in enumerate(self._entries()):
            rows[entry["uuid"]] = row
            if "firstKeptEntryUuid" in entry:
                entry["firstKeptEntryIndex"] = rows[entry.pop("firstKeptEntryUuid")]
            yield {key: value for key, value in entry.items() if key not in new}

    def _claude_code(self) -> Iterator[dict[str, Any]]:
        shape = ClaudeLines(SESSION)
        return (line for entry in self._entries() for line in shape.lines(entry))

    def _entries(self) -> Iterator[dict[str, Any]]:
        with self._file.open("rb") as lines:
            yield from map(orjson.loads, lines)

    def _clear(self) -> None:
        """Take off what was appended, and remove what was made; make anew what was moved."""
        kept = {"store", "facts.json", "attached.txt"}
        _remove(file for file in self._folder.iterdir() if file.name not in kept)
        if not self._file.exists():
            moved = max(
                (self._folder / "store").rglob("*.jsonl"), key=lambda file: file.stat().st_size
            )
            moved.rename(self._folder / "moved")
            shutil.rmtree(self._folder / "store")
            self._file.parent.mkdir(parents=True)
            (self._folder / "moved").rename(self._file)
        _remove(file for file in self._file.parent.iterdir() if file != self._file)
        with self._file.open("r+b") as file:
            file.truncate(self.size)


def _write(file: Path, values: Iterator[dict[str, Any]]) -> None:
    with file.open("wb") as out:
        out.writelines(orjson.dumps(value) + b"\n" for value in values)


def _remove(files: Iterator[Path]) -> None:
    for file in list(files):
        shutil.rmtree(file) if file.is_dir() else file.unlink()


class _Run:
    """A command of ours that runs, below the launcher.

    Attributes:
        pid: the id of its process.
    """

    def __init__(
        self, words: Sequence[str], stdin: bytes = b"", stdout: int = subprocess.DEVNULL
    ) -> None:
        self._words = words
        self._told, told = os.pipe()
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115
        with tempfile.TemporaryFile() as given:
            given.write(stdin)
            given.seek(0)
            command = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(told)]
            command += [sys.executable, "-m", "sessiontree", *words]
            self._launcher = subprocess.Popen(
                command,
                stdin=given,
                stdout=stdout,
                stderr=self._complaints,
                pass_fds=[told],
            )
        os.close(told)
        self.pid = int(os.read(self._told, 32))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._launcher.wait()
        os.close(self._told)
        self._complaints.close()
        if self._launcher.stdout is not None:
            self._launcher.stdout.close()

    @property
    def output(self) -> IO[bytes]:
        assert self._launcher.stdout is not None
        return self._launcher.stdout

    def cost(self, code: int) -> Cost:
        """Wait for its end.

        Raises:
            RuntimeError: it ended otherwise than it should.
        """
        wall, processor, peak, ended = ast.literal_eval(os.read(self._told, 1000).decode())
        if ended != code:
            self._complaints.seek(0)
            said = self._complaints.read().decode(errors="replace")
            raise RuntimeError(f"{shlex.join(self._words)} ended with {ended}: {said[-1000:]}")
        return Cost(wall, processor, peak * _PEAK_UNIT)


def _run(words: Sequence[str], stdin: bytes = b"", code: int = 0) -> Cost:
    with _Run(words, stdin) as run:
        return run.cost(code)


def _shown(words: str) -> str:
    """A command as it stands in the table, without the session's name."""
    short = {"{file}": "", "{store}": "", "{made}": "NEW", "{middle}": "MIDDLE", "{leaf}": "LEAF"}
    for place, name in short.items():
        words = words.replace(place, name)
    return " ".join(words.translate({ord("{"): None, ord("}"): None}).split())


def _table(figures: Mapping[str, Mapping[str, Any]], sizes: Sequence[int]) -> None:
    named = ", ".join(f"{size} MB" for size in sizes)
    print(f"command | most memory at {named} | processor | clock")
    print("--- | --- | --- | ---")
    for job in JOBS:
        taken = figures.get(job.words, {})
        costs = [Cost(*taken[str(size)]) if str(size) in taken else None for size in sizes]
        cells = [
            _cell([f"{cost.peak / 1e6:,.0f}" if cost else "–" for cost in costs], "MB"),
            _cell([f"{cost.processor:,.1f}" if cost else "–" for cost in costs], "s"),
            _cell([f"{cost.wall:,.1f}" if cost else "–" for cost in costs], "s"),
        ]
        print(f"`{_shown(job.words)}`", *cells, sep=" | ")


def _cell(values: Sequence[str], unit: str) -> str:
    return f"{', '.join(values)} {unit}"


def main() -> None:
    assert {job.words.split()[0] for job in JOBS} == set(COMMANDS), "a command has no job"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, nargs="+", default=SIZES, help="in MB")
    parser.add_argument("--only", nargs="+", help="only jobs that begin so")
    parser.add_argument("--folder", type=Path, help="a folder that keeps sessions and figures")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sessiontree-large-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        kept = folder / "figures.json"
        figures = orjson.loads(kept.read_bytes()) if kept.exists() else {}
        places = {size: Place(folder / str(size), size) for size in options.size}
        for job in JOBS:
            if options.only and not job.words.startswith(tuple(options.only)):
                continue
            for size, place in places.items():
                try:
                    cost = place.cost(job)
                except RuntimeError as error:
                    print(f"{size} MB: {error}", file=sys.stderr)
                    continue
                print(f"{size} MB: {_shown(job.words)}: {cost}", file=sys.stderr)
                figures.setdefault(job.words, {})[str(size)] = list(cost)
                kept.write_bytes(orjson.dumps(figures))
        _table(figures, options.size)


if __name__ == "__main__":
    main()
