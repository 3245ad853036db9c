"""The summary that a command is given: a text, the built-in summarizer, or a program."""

from __future__ import annotations

import functools
import shlex
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import click

from sessiontree.cli.output import speaker, text_of_message
from sessiontree.context.summary import Summary, summarize
from sessiontree.core.entry import Entry
from sessiontree.core.message import text_of
from sessiontree.errors import UsageError
from sessiontree.text.preview import preview


class GivenSummary:
    """The text of a summary or what makes it, if any; it `is_slow` where a program does."""

    def __init__(self, text: str | None, built_in: bool, program: str | None) -> None:
        if (text is not None) + built_in + (program is not None) > 1:
            raise click.UsageError("give one of --summary, --summarize and --summarizer")
        self.is_slow = program is not None
        self.summary: Summary | None = text
        if built_in:
            self.summary = summarize
        elif program is not None:
            try:
                words = shlex.split(program)
            except ValueError as error:
                raise click.UsageError(f"--summarizer {program!r}: {error}") from error
            if not words:
                raise click.UsageError("--summarizer needs a command")
            self.summary = functools.partial(_ask, words)


def summary_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the three summary options; the command gets them as `given`."""

    @click.option("--summary", metavar="TEXT", help="The text of the summary.")
    @click.option("--summarize", is_flag=True, help="Use the built-in summarizer.")
    @click.option(
        "--summarizer",
        metavar="CMD",
        help="Run this program: it reads the transcript from standard input "
        "and writes the summary to standard output.",
    )
    @functools.wraps(command)
    def with_summary(
        summary: str | None, summarize: bool, summarizer: str | None, **others: Any
    ) -> None:
        command(given=GivenSummary(summary, summarize, summarizer), **others)

    return with_summary


def _ask(words: Sequence[str], entries: Sequence[Entry]) -> str:
    """The summary that a program writes of the entries."""
    try:
        ended = subprocess.run(
            words, input=transcript(entries).encode(errors="replace"), stdout=subprocess.PIPE
        )
        text = ended.stdout.decode().strip()
    except OSError as error:
        fault = f"cannot be run: {error.strerror or error}"
    except UnicodeDecodeError:
        fault = "did not answer in UTF-8"
    else:
        if text and not ended.returncode:
            return text
        fault = f"failed with status {ended.returncode}" if ended.returncode else "answered nothing"
    raise UsageError(f"the summarizer {shlex.join(words)!r} {fault}; nothing was written")


def transcript(entries: Sequence[Entry]) -> str:
    """Entries as plain text, each with its role in front."""
    return "\n".join(f"{speaker(entry)}: {_text(entry)}\n" for entry in entries if entry.is_content)


def _text(entry: Entry) -> str:
    message = entry.get("message")
    if entry.type == "message" and isinstance(message, dict):
        return text_of_message(message)
    summary = entry.get("summary")
    if isinstance(summary, str):
        return summary
    return text_of({"content": entry.get("content")}) or preview(entry)
