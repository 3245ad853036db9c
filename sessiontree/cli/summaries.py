"""Where a summary comes from: the command line, the built-in summarizer, or a program."""

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
    """The summary that the options ask for; `summary` is None where none does.

    `is_slow` where another program makes it.
    """

    def __init__(self, text: str | None, built_in: bool, program: str | None) -> None:
        if (text is not None) + built_in + (program is not None) > 1:
            raise click.UsageError("give one of --summary, --summarize and --summarizer")
        self.is_slow = program is not None
        self.summary: Summary | None = text
        if built_in:
            self.summary = summarize
        elif program is not None:
            self.summary = functools.partial(_ask, _words_of(program))


def summary_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the three summary options; the command gets them as `given`."""

    @click.option("--summary", metavar="TEXT", help="The summary itself.")
    @click.option("--summarize", is_flag=True, help="Let the built-in summarizer write it.")
    @click.option(
        "--summarizer",
        metavar="CMD",
        help="Let a program write it: the transcript on its standard input, "
        "the summary on its standard output.",
    )
    @functools.wraps(command)
    def with_summary(
        summary: str | None, summarize: bool, summarizer: str | None, **others: Any
    ) -> None:
        command(given=GivenSummary(summary, summarize, summarizer), **others)

    return with_summary


def _words_of(program: str) -> list[str]:
    try:
        words = shlex.split(program)
    except ValueError as error:
        raise click.UsageError(f"--summarizer {program!r}: {error}") from error
    if not words:
        raise click.UsageError("--summarizer needs a command")
    return words


def _ask(words: Sequence[str], entries: Sequence[Entry]) -> str:
    """What a program says to the transcript of the entries."""
    about = f"the summarizer {shlex.join(words)!r}"
    try:
        ended = subprocess.run(
            words, input=transcript(entries).encode(errors="replace"), stdout=subprocess.PIPE
        )
    except OSError as error:
        raise UsageError(
            f"{about} cannot be run: {error.strerror or error}; nothing was written"
        ) from error
    if ended.returncode:
        raise UsageError(f"{about} failed with status {ended.returncode}; nothing was written")
    try:
        text = ended.stdout.decode().strip()
    except UnicodeDecodeError as error:
        raise UsageError(f"{about} did not answer in UTF-8; nothing was written") from error
    if not text:
        raise UsageError(f"{about} answered nothing; nothing was written")
    return text


def transcript(entries: Sequence[Entry]) -> str:
    """Entries as plain text, each with who speaks in front."""
    return "\n".join(f"{speaker(entry)}: {_said(entry)}\n" for entry in entries if entry.is_content)


def _said(entry: Entry) -> str:
    message = entry.get("message")
    if entry.type == "message" and isinstance(message, dict):
        return text_of_message(message)
    summary = entry.get("summary")
    if isinstance(summary, str):
        return summary
    return text_of({"content": entry.get("content")}) or preview(entry)
