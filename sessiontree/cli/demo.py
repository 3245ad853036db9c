"""The demo: a session played from start to end with the commands themselves.

What is shown is what runs: each step is a command line of this program, carried
out in a temporary folder, with what it printed below it.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import io
import os
import re
import shlex
import shutil
import tempfile
import textwrap
from typing import Final

import click

from sessiontree.cli.terminal import out, short
from sessiontree.storage.atomic import create_file
from sessiontree.storage.fs import DISK

_CHAT: Final = "chat.jsonl"
_OLD: Final = "old.jsonl"
_PLAIN: Final = re.compile(r"[\w@+=:,./-][\w@+=:,./~-]*")
_QUOTABLE: Final = re.compile(r'[^"$`\\!]*')


@click.command()
@click.option("--keep", is_flag=True, help="Keep the folder it plays in.")
def demo(keep: bool) -> None:
    """Play a session from start to end, and explain it.

    It plays in a temporary folder, which it removes at the end.
    """
    folder = tempfile.mkdtemp(prefix="sessiontree-demo-")
    try:
        with contextlib.chdir(folder):
            out(f"This plays in {folder}")
            _branch()
            _stack()
            _compact()
            _take_out()
            _migrate()
            _title("That was it")
            _say("Everything above is in these files, as lines of JSON that 'cat' can show:")
            for name in sorted(os.listdir()):
                if not name.endswith(".lock"):
                    out(f"  {name:<16}{os.path.getsize(name):>7,} bytes")
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    out()
    if keep:
        out(f"The folder is kept: {folder}")
    else:
        out("The folder is removed; 'sessiontree demo --keep' leaves it to be played with.")


def _branch() -> None:
    _title("1. A conversation is a tree")
    _say("A session is one file. A message is one line in it, below the one before.")
    _run("new", _CHAT, "--name", "A small CLI", "--cwd", "/project")
    _append("user", "Build a CLI")
    first_answer = _append("assistant", "I'll create…")
    _append("user", "Add --verbose flag")
    _append("assistant", "Here's the flag…")
    _append("user", "Actually use Python")
    _append("assistant", "Converting to Python…")
    _say("Second thoughts: go back to the first answer, and leave a note of what was tried.")
    attempt = "Attempted Node.js CLI with --verbose flag"
    _run("branch-here", _CHAT, first_answer, "--summary", attempt)
    _append("user", "Use Rust instead")
    _append("assistant", "Creating Rust CLI…")
    _say("Nothing is lost: the first attempt (○) stays as a branch beside the current path (●).")
    _run("tree", _CHAT, show=True)
    _say("The model sees the current path alone: five messages, the note among them.")
    _run("context", _CHAT, show=True)


def _stack() -> None:
    _title("2. A side trip: push, work, pop")
    _say("Mark the place, look into something, and come back with a summary of it.")
    _run("push", _CHAT, "--note", "which parser?")
    _append("user", "Compare clap and argh")
    _append("assistant", "clap can do more, so clap it is.")
    _run("pop", _CHAT)
    _say("The side trip costs the context its summary, no more:")
    _run("context", _CHAT, show=True)


def _compact() -> None:
    _title("3. A long context: compact")
    _say("The work goes on, until the context is too long for the model.")
    prompt = _append("user", "Now write the README")
    _append("assistant", "Here is a first draft…")
    _say("A summary takes the place of all before the first entry to keep.")
    summary = "A CLI in Rust, with clap"
    _run("compact", _CHAT, "--first-kept", prompt, "--summary", summary)
    _run("context", _CHAT, show=True)


def _take_out() -> None:
    _title("4. Names, and files of their own")
    _say("A label names an entry, here the one two messages up.")
    _run("label", _CHAT, "@~2", "readme")
    _say("This is the whole tree now: the branch, the side trip, the label.")
    _run("tree", _CHAT, show=True)
    _say("A subtree can be shared as a file of its own,")
    _run("export-branch", _CHAT, "readme", "readme.jsonl")
    _say("and the path to any entry can go on as another session.")
    _run("fork", _CHAT, "fork.jsonl", "--at", "readme")
    _run("context", "fork.jsonl", show=True)


def _migrate() -> None:
    _title("5. An old session, of version 1")
    old = importlib.resources.files("sessiontree.cli").joinpath("demo-v1.jsonl").read_bytes()
    create_file(DISK, _OLD, iter([old]))
    _say(f"{_OLD} is a plain list: its entries have no uuids, so none can be branched from.")
    _run("migrate", _OLD)
    _run("tree", _OLD, show=True)
    _say("Its compaction counts as it did: the summary, what was kept before it, what followed.")
    _run("context", _OLD, show=True)


def _title(text: str) -> None:
    out()
    out(text)
    out("─" * len(text))


def _say(text: str) -> None:
    out()
    out(text)


def _append(role: str, text: str) -> str:
    return _run("append", _CHAT, "--role", role, "--text", text)


def _run(*words: str, show: bool = False) -> str:
    """Carry out a command, and show it with what it said; the short uuid that it printed.

    Args:
        words: the command and its arguments.
        show: whether its data is for people, and not a uuid for scripts.
    """
    from sessiontree.cli import main

    out(f"$ sessiontree {' '.join(map(_as_typed, words))}")
    printed, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(told):
        main.main(list(words), prog_name="sessiontree", standalone_mode=False)
    for line in told.getvalue().splitlines() + (printed.getvalue().splitlines() if show else []):
        indent = "  " if show else "  → "
        out(textwrap.indent(line, indent))
    return short(printed.getvalue().strip())


def _as_typed(word: str) -> str:
    """A word as one would type it in a shell."""
    if _PLAIN.fullmatch(word):
        return word
    return f'"{word}"' if _QUOTABLE.fullmatch(word) else shlex.quote(word)
