"""What the commands print about a few sessions, and what they write into the files.

A case is a folder of `printed/`, or a session of another agent in `fixtures/`. Its expectation
is `printed/expected/CASE.txt`. `python -m tests.cli.printing` writes all expectations again; a
change of an output then shows as a difference of these files.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from glob import glob
from pathlib import Path
from typing import Final

from tests.support.terminal import run

FIXTURES: Final = Path(__file__).parents[2] / "fixtures"
HERE: Final = Path(__file__).parent / "printed"
EXPECTED: Final = HERE / "expected"
FOREIGN: Final = {path.name: path for path in sorted(FIXTURES.glob("foreign-*/"))}
CASES: Final = {path.name: path for path in sorted(HERE.glob("*/")) if path != EXPECTED} | FOREIGN

READING: Final = """
show FILE
show FILE --json
show FILE @~1
show FILE no-such
tree FILE
tree FILE --all
tree FILE --json
branches FILE
branches FILE --json
path FILE
context FILE
context FILE --json
context FILE @~3 --verbatim --json
context FILE --to anthropic
context FILE --to openai-responses
context FILE --to openai-chat
stats FILE
stats FILE --json
verify FILE
verify FILE --json
repair FILE --dry-run --json
export FILE
export FILE --redact
search e FILE
search w\\d+ FILE --regex --json
ls . --branches
ls . --json
blob ls FILE
handle resolve FILE
convert FILE --to pi -o -
convert FILE --to claude-code -o new.jsonl
convert FILE --to atif -o new.json --json
"""

WRITING: Final = """
append FILE --text hello
append FILE --text hello --lane new --json
append FILE --text hello --parent @~2
append FILE --text hello --scratch; gc FILE --as-of 2030-01-01; gc FILE --as-of 2031-01-01 --json
label FILE @~1 mark; show FILE mark; label FILE mark --clear
rename FILE title; ls . --json
edit-context FILE @~1 --drop
branch FILE @~2 --summary left; branches FILE; context FILE
switch FILE @~1
rewind FILE
push FILE; append FILE --text inside; pop FILE --summary done
compact FILE --keep 50; context FILE; stats FILE
cherry-pick FILE @~1
fork FILE new.jsonl; convert new.jsonl --to pi -o converted.jsonl; import converted.jsonl -o .
export-branch FILE @~1 new.jsonl --redact
export-branch FILE @~1 new.jsonl --inline --with-path
convert FILE --to claude-code -o new.jsonl; append FILE --text more; import new.jsonl -o .
repair FILE
gc FILE --as-of 2030-01-01
migrate FILE
trash FILE --store .; restore --store .; ls .; restore latest --store . --json
move-project /project /moved --store . --json
"""

RECORDING: Final = """
record FILE < events.jsonl; context FILE; stats FILE
record FILE --prompt hello --granularity message --json < events.jsonl
record FILE --lane side < events.jsonl; record FILE --lane side < events.jsonl
record FILE < events.jsonl; convert FILE --to atif -o new.json; export FILE --redact
record FILE --granularity message < events.jsonl; convert FILE --to pi -o -; tree FILE --all
record FILE < events.jsonl; convert FILE --to claude-code -o new.jsonl; verify FILE
"""

CONVERTING: Final = """
convert FILE --to pi -o new.jsonl
convert FILE --to claude-code -o new.jsonl
convert FILE --to atif -o new.json
export FILE
context FILE --json
context FILE --to anthropic
context FILE --to openai-responses
context FILE --to openai-chat
stats FILE
tree FILE --all
branches FILE
verify FILE
fork FILE new.jsonl
export-branch FILE @~5 new.jsonl
convert FILE --to pi -o new.jsonl; import new.jsonl -o made
"""

IMPORTING: Final = """
import FILE -o made; import FILE -o made
import FILE --dry-run --json
"""

MORE: Final = {"own": WRITING, "damaged": WRITING, "version-1": "migrate FILE\nrepair FILE\n"}
"""The commands that write, where they meet the most."""

ALONE: Final = {"stream": RECORDING, "any": CONVERTING, "shaped": CONVERTING}
"""The commands of the other cases. `any` and `shaped` grew at random."""

LENGTH: Final = 150
"""How long the path of the folder is: files that name it have a size that is printed."""

LONG_AGO: Final = 1_770_000_000

UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
VARYING: Final = re.compile(
    "|".join(
        (
            UUID,
            r'"(?:state|says)":"[0-9a-f]+"',
            r'"crc":"[0-9a-f]{8}"',
            r"scratch/[0-9a-f]{8}\b|(?<=_)[0-9a-f]{8}(?=/)",
            r"\b1[7-9]\d{11}\b",
            r"\d{8}T\d{6}\.\d+Z",
            r"2\d{3}-\d\d-\d\dT\d\d-\d\d-\d\d(?:-\d{3}Z)?",
            r"2\d{3}-\d\d-\d\d(?:[T ]\d\d:\d\d:\d\d(?:\.\d+Z)?)?",
        )
    )
)
"""What differs in each run: uuids, hashes, names and times."""


def printed(case: Path) -> str:
    """What all commands print about a case, with times of UTC."""
    name = case.name
    commands = IMPORTING if name in FOREIGN else ALONE.get(name) or READING + MORE[name]
    with utc():
        return "\n".join(_played(case, line) for line in commands.split("\n") if line)


@contextmanager
def utc() -> Iterator[None]:
    before = os.environ.get("TZ")
    try:
        os.environ["TZ"] = "UTC"
        time.tzset()
        yield
    finally:
        os.environ.pop("TZ")
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()


def _played(case: Path, line: str) -> str:
    """What some commands print, and the files that differ afterwards."""
    with copied(case) as here:
        said = re.sub(f"{re.escape(here.rstrip('x'))}x+", "HERE", _said(line))  # or its start
    return steady(said, case)


@contextmanager
def copied(case: Path) -> Iterator[str]:
    """A copy of a case, as the working directory, that is as old as all its files."""
    with tempfile.TemporaryDirectory() as folder:
        made = os.path.join(folder, "x" * (LENGTH - len(folder)))
        shutil.copytree(case, made)
        with chdir(made):
            for path in Path().rglob("*"):
                os.utime(path, (LONG_AGO, LONG_AGO))
            yield made


def _said(line: str) -> str:
    before = dict(_files())
    said = [run_line(each) for each in line.replace("FILE", "session.jsonl").split("; ")]
    for name, content in _files():
        if (old := before.pop(name, None)) != content:
            start = len(old) if old and content.startswith(old) else 0
            added = content[start:].decode("utf-8", "backslashreplace").replace("\0", "\\0")
            said.append(f"--- {name} from {start}\n{added}\n")
    said += [f"--- {name} is gone\n" for name in before]
    return "".join(said)


def run_line(line: str) -> str:
    """What a command prints, below the command."""
    words, _, stdin = line.partition(" < ")
    named = [name for word in words.split() for name in (sorted(glob(word)) or [word])]
    result = run(*named, input=Path(stdin).read_bytes() if stdin else None)
    code = f"[exit {result.exit_code}]\n" if result.exit_code else ""
    return f"$ sessiontree {words}\n{result.output}{code}"


def _files() -> Iterator[tuple[str, bytes]]:
    for path in sorted(Path().rglob("*")):
        if path.is_file():
            yield str(path), path.read_bytes()


def steady(text: str, case: Path) -> str:
    """A text without what differs in each run: new uuids, checksums and times."""
    given = b"".join(p.read_bytes() for p in case.rglob("*.jsonl")).decode("utf-8", "replace")
    numbers: dict[str, str] = {}

    def steady(match: re.Match[str]) -> str:
        found = match[0]
        if found in given or found[:10] in ("2026-02-02", "2030-01-01", "2031-01-01"):
            return found
        if found.startswith(('"', "scratch/")):
            return f"{re.split('[:/]', found)[0]}…"
        if re.fullmatch(UUID, found):
            return numbers.setdefault(found, f"uuid-{len(numbers) + 1}")
        return "NOW"

    steadied = VARYING.sub(steady, text)
    for found, name in numbers.items():
        steadied = steadied.replace(found[:8], name)
    return steadied


def main() -> None:
    EXPECTED.mkdir(exist_ok=True)
    for name, case in CASES.items():
        (EXPECTED / f"{name}.txt").write_text(printed(case), encoding="utf-8")


if __name__ == "__main__":
    main()
