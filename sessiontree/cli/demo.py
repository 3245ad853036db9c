"""The command `demo`: plays a short session with the commands themselves.

Each step that it shows is a command line of this program, which runs in a temporary
folder, with its output below it.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import io
import os
import shlex
import shutil
import tempfile
import textwrap
from collections.abc import Iterator
from typing import Final

import click

from sessiontree.cli import main
from sessiontree.cli.arguments import command
from sessiontree.cli.screen import screen
from sessiontree.cli.terminal import out
from sessiontree.storage.atomic import create_file
from sessiontree.storage.fs import DISK

_INDENT: Final = "  "

_SCRIPT: Final = """\
# 1. A conversation is a tree
A session is one file. Each message is one line in it, below the one before it.
$ new chat.jsonl --name "A small CLI" --cwd /project
$ append chat.jsonl --role user --text "Build a CLI"
$ append chat.jsonl --role assistant --text "I'll create…"
$ append chat.jsonl --role user --text "Add --verbose flag"
$ append chat.jsonl --role assistant --text "Here's the flag…"
$ append chat.jsonl --role user --text "Actually use Python"
$ append chat.jsonl --role assistant --text "Converting to Python…"
Go back to the first answer, four messages up, and leave a summary of what was tried:
$ branch chat.jsonl @~4 --summary "Attempted Node.js CLI with --verbose flag"
$ append chat.jsonl --role user --text "Use Rust instead"
$ append chat.jsonl --role assistant --text "Creating Rust CLI…"
Nothing is lost: the first attempt (○) stays as a branch beside the current path (●).
$$ tree chat.jsonl
The model gets only the current path: five messages, one of them the summary.
$$ context chat.jsonl
# 2. A side trip: push, work, pop
Mark the place, look into something, and return with a summary of it.
$ push chat.jsonl --note "which parser?"
$ append chat.jsonl --role user --text "Compare clap and argh"
$ append chat.jsonl --role assistant --text "clap can do more, so clap it is."
$ pop chat.jsonl
In the context, the summary replaces the whole side trip:
$$ context chat.jsonl
# 3. A long context: compact
The work goes on until the context is too long for the model.
$ append chat.jsonl --role user --text "Now write the README"
$ append chat.jsonl --role assistant --text "Here is a first draft…"
A summary replaces everything before the first entry to keep.
$ compact chat.jsonl --first-kept @~1 --summary "A CLI in Rust, with clap"
$$ context chat.jsonl
# 4. Labels and copies
A label is a name for an entry, here for the one two messages up.
$ label chat.jsonl @~2 readme
This is the whole tree now, with the branch, the side trip and the label:
$$ tree chat.jsonl
Copy a subtree into a session file of its own, to share it:
$ export-branch chat.jsonl readme readme.jsonl
Or copy the path to an entry, to go on in another session:
$ fork chat.jsonl readme fork.jsonl
$$ context fork.jsonl
# 5. An old file of version 1
old.jsonl is a plain list: its entries have no uuids, so you cannot branch in it.
$ migrate old.jsonl
$$ tree old.jsonl
Its compaction still works: the summary, the entries it kept, and what followed.
$$ context old.jsonl
# The end
Everything above is in these files, as lines of JSON that 'cat' can show:
"""
"""Titles after `#`, commands after `$`, or after `$$` where their data is shown; text.
A blank line goes before each title and each line of text."""


@command("demo")
@click.option("--keep", is_flag=True, help="Keep the folder with the session files.")
def demo(keep: bool) -> None:
    """The example runs in a temporary folder. The folder is removed at the end."""
    folder = tempfile.mkdtemp(prefix="sessiontree-demo-")
    try:
        with contextlib.chdir(folder), _narrower(len(_INDENT)):
            out(f"The demo runs in {folder}")
            old = importlib.resources.files("sessiontree.cli").joinpath("demo-v1.jsonl")
            create_file(DISK, "old.jsonl", iter([old.read_bytes()]))
            for line in _SCRIPT.splitlines():
                _play(line)
            for name in sorted(os.listdir()):
                if not name.endswith(".lock"):
                    out(f"  {name:<16}{os.path.getsize(name):>7,} bytes")
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    if keep:
        out(f"\nThe folder is kept: {folder}")
    else:
        out("\nThe folder is removed; 'sessiontree demo --keep' keeps it for you to try more.")


@contextlib.contextmanager
def _narrower(by: int) -> Iterator[None]:
    """Let the commands draw on fewer columns, as what they print is indented."""
    before, width = os.environ.get("COLUMNS"), screen().width
    os.environ["COLUMNS"] = str(width - by)
    try:
        yield
    finally:
        del os.environ["COLUMNS"]
        if before is not None:
            os.environ["COLUMNS"] = before


def _play(line: str) -> None:
    mark, _, text = line.partition(" ")
    if mark == "#":
        out(f"\n{text}\n{'─' * len(text)}")
        return
    if mark not in ("$", "$$"):
        out(f"\n{line}")
        return
    data, messages = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(data), contextlib.redirect_stderr(messages):
        main.main(shlex.split(text), prog_name="sessiontree", standalone_mode=False)
    shown = textwrap.indent(messages.getvalue(), "  → ")
    shown += textwrap.indent(data.getvalue(), _INDENT) if mark == "$$" else ""
    out(f"$ sessiontree {text}\n{shown}".rstrip("\n"))
