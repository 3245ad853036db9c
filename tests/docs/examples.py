"""The examples in the documents, played as a reader would play them.

The README is one part, played from its first line to its last in one folder. In every
other page each section is a part and has a folder of its own.

`python -m tests.docs.examples` plays all console blocks and writes what the commands
print now into the pages, where it differs in more than uuids and times.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from tests.support.terminal import run
from tests.support.transcripts import folder_of_a_user, project_of_a_user

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
START = ROOT / "docs" / "README.md"
"""The page whose first console block makes the session that every section starts with."""

PAGES = (README, *sorted((ROOT / "docs").rglob("*.md")))
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FIRST = _CONSOLE.findall(START.read_text(encoding="utf-8"))[0]


_UNSEEN = " >/dev/null"
_OF_AGENTS = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR", "GEMINI_CLI_HOME")


class Part(NamedTuple):
    """A part of a page whose examples are played together."""

    page: Path
    text: str
    line: int  # the first line in the page

    @property
    def name(self) -> str:
        heading = self.text.partition("\n")[0].lstrip("# ")
        return f"{self.page.relative_to(ROOT)}: {heading}"

    @property
    def console(self) -> list[str]:
        return _CONSOLE.findall(self.text)

    @property
    def python(self) -> str:
        return "\n".join(_PYTHON.findall(self.text))

    @property
    def python_in_page(self) -> str:
        """The Python code at the lines that it has in the page; all other lines are blank."""
        rest = _PYTHON.split(self.text)
        rest[::2] = ["\n" * text.count("\n") for text in rest[::2]]
        rest[1::2] = ["\n" + code for code in rest[1::2]]
        return "\n" * (self.line - 1) + "".join(rest)


def parts() -> list[Part]:
    """All parts of the pages that people write, in the order of the pages."""
    written = [page for page in PAGES if page.parent.name != "reference"]
    return [part for page in written for part in _split(page)]


def _split(page: Path) -> Iterator[Part]:
    text, line = page.read_text(encoding="utf-8"), 1
    for each in [text] if page == README else re.split(r"^(?=## )", text, flags=re.MULTILINE):
        yield Part(page, each, line)
        line += each.count("\n")


def prepare(part: Part, folder: Path) -> None:
    """Put into a folder what the examples of a part start with."""
    if "~/.claude" in "".join(part.console):
        folder_of_a_user(folder, _absent_home())
    if "app/retry.py" in "".join(part.console):
        folder_of_a_user(folder, _absent_home())
        project_of_a_user(folder)
    if part.page == README:
        _keep_demo(folder)
    elif FIRST not in part.console:
        shutil.copytree(_started(), folder, dirs_exist_ok=True)


@functools.cache
def _started() -> str:
    """A folder with the session that every section starts with."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    play(FIRST, Path(folder))
    return folder


def _keep_demo(folder: Path) -> None:
    """The session that the demo plays."""
    played = _run("sessiontree demo --keep", folder)
    kept = Path(played.rsplit("The folder is kept: ", 1)[1].strip())
    shutil.copy(kept / "chat.jsonl", folder)
    shutil.rmtree(kept)


def play(block: str, folder: Path) -> str:
    """Type the commands of a console block; the block as the terminal shows it now."""
    return "".join(f"$ {command}\n{_run(command, folder)}" for command in commands_in(block))


def commands_in(block: str) -> list[str]:
    return re.findall(r"^\$ (.*)$", block, re.MULTILINE)


@functools.cache
def _absent_home() -> str:
    """A home as long as `/home/me` that is not on this machine, where that one may be.

    The project of a session that is not there is looked for elsewhere, as the pages show.
    """
    homes = (f"/home/{number:02}" for number in range(100))
    return next(home for home in homes if not os.path.exists(home))


def _with_home(text: str, home: str, other: str) -> str:
    """A text with another home in its paths, and in folders that are named after a path."""
    for mark in "/-+":
        text = text.replace(home.replace("/", mark), other.replace("/", mark))
    return text


def _run(command: str, folder: Path) -> str:
    environment = {**os.environ, "HOME": str(folder), "COLUMNS": "90"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for elsewhere in ("SESSIONTREE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", *_OF_AGENTS):
        environment.pop(elsewhere, None)
    typed = _with_home(command, "/home/me", _absent_home())
    play = _run_here if _needs_no_shell(typed) else _run_in_shell
    status, shown = play(typed, folder, environment)
    assert status == 0, f"$ {command}\n{shown}"
    return _with_home(shown, _absent_home(), "/home/me")


def _needs_no_shell(command: str) -> bool:
    """True if a command is only sessiontree's, shown as text or thrown away."""
    bare = re.sub(r"'[^']*'|\"[^\"$`]*\"", "", command.removesuffix(_UNSEEN))
    # `mcp` enters the program that runs; `handle` prints bytes; the others print sums to stderr
    is_plain = not re.search(r"[^\w @:~=,./%+-]| ~| (mcp|handle|blobs?|copy|sync|verify) ", bare)
    return bare.startswith("sessiontree ") and is_plain


def _run_here(command: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    _, *words = shlex.split(command.removesuffix(_UNSEEN))
    with chdir(folder), patch.dict(os.environ, environment, clear=True):
        result = run(*words)
    return result.exit_code, result.stderr if command.endswith(_UNSEEN) else result.output


def _run_in_shell(command: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        encoding="utf-8",
    )
    return done.returncode, done.stdout


def normalized(shown: str) -> str:
    """What a terminal shows, without what is different each time."""
    whole = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>", shown)
    short = re.sub(r"\b[0-9a-f]{8}\b", "<short>", whole)
    day = re.sub(r"── \d+ \w+ \d{4}, .*", "── <day>", short)
    ago = re.sub(r"just now|\d+ (?:min|h|days?|months?|years?) ago", "<ago>", day)
    lasted = re.sub(r"(?: ·)? \d+ (?:s|min)\b", "", ago)
    lasted = re.sub(r"(\d+ \w+ \d{4}) \d\d:\d\d, <ago>", "<day>, <ago>", lasted)
    clock = re.sub(r" *\b\d\d:\d\d$", "", lasted, flags=re.MULTILINE)
    clock = re.sub(r"  +", "  ", clock)
    return re.sub(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d\.\d{3}Z)?", "<time>", clock)


def _rewritten(part: Part) -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(part, folder)
        for shown in part.console:
            now = play(shown, folder)
            if normalized(now) != normalized(shown):
                yield shown, now


def main() -> None:
    """Write what the commands print now into the pages."""
    for part in parts():
        for shown, now in _rewritten(part) if part.console else ():
            text = part.page.read_text(encoding="utf-8")
            part.page.write_text(text.replace(shown, now, 1), encoding="utf-8")
            print(f"rewritten: {part.name}")


if __name__ == "__main__":
    main()
