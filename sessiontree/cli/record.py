"""The command that records: a coding agent's stream on standard input, kept as it comes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from sessiontree.cli.arguments import PATH, json_option
from sessiontree.cli.opening import writing
from sessiontree.cli.output import out_json
from sessiontree.cli.terminal import drop_output, finish, out, short, tell
from sessiontree.errors import NothingToDoError, SessionNotFoundError
from sessiontree.recording import StreamAccumulator
from sessiontree.recording.events import (
    AssistantMessage,
    Complete,
    ContentEnd,
    Err,
    Event,
    ThinkingEnd,
    ToolUseEnd,
)
from sessiontree.recording.recorder import agents_cwd
from sessiontree.recording.stream import ABORTED
from sessiontree.session import Session

_CHUNK: Final = 1 << 16


@click.command()
@click.argument("file", type=PATH)
@click.option("--prompt", help="What the agent was asked, where its stream does not say so.")
@click.option(
    "--granularity",
    type=click.Choice(["block", "message"]),
    default="block",
    show_default=True,
    help="What is kept as soon as it has ended.",
)
@json_option("each event as it comes, an object a line,")
def record(file: str, prompt: str | None, granularity: Any, as_json: bool) -> None:
    """Record a coding agent's stream from standard input.

    It is the stream-JSON of Claude Code, with or without partial messages. A FILE that is
    not there is made. What was recorded before is not recorded again: a stream may
    be told from its start once more, or gone on with where it was cut. It is known by the
    uuids of its events and the ids of its messages; what has neither is recorded again.

    \b
    Example:
      claude -p "Build a CLI" --output-format stream-json --verbose \\
        --include-partial-messages | sessiontree record chat.jsonl --prompt "Build a CLI"
    """
    stream = _stream()
    first = stream.read1(_CHUNK)
    if not first:
        raise NothingToDoError("standard input is empty; nothing was recorded")
    told = _Told(as_json)
    with contextlib.ExitStack() as stack:
        session, first = _opened(file, stream, first, stack)
        accumulator = StreamAccumulator(session, granularity=granularity, prompt=prompt)
        try:
            chunk = first
            while chunk:
                told.tell(accumulator.feed(chunk))
                chunk = stream.read1(_CHUNK)
        finally:  # an interrupted agent's last words are kept too
            rest = accumulator.close()
        told.tell(rest)
        head = accumulator.head.uuid
    if not accumulator.understood:
        raise NothingToDoError(
            f"nothing in the stream was understood; it is kept as it came, in {file}. What is "
            "recorded is Claude Code's: claude -p … --output-format stream-json --verbose; the "
            "files of other agents can be imported: sessiontree import FILE"
        )
    messages = f"{told.messages:,} message{'' if told.messages == 1 else 's'}"
    tell(f"Recorded {messages} of the model; {file} stands at {short(head)}")
    if not as_json:
        out(head)


def _stream() -> Any:
    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError(
            "pipe the agent's stream in: "
            "claude -p … --output-format stream-json --verbose | sessiontree record FILE"
        )
    return sys.stdin.buffer


def _opened(
    file: str, stream: Any, first: bytes, stack: contextlib.ExitStack
) -> tuple[Session, bytes]:
    """The session to record into, standing at its tip, and what was read of the stream.

    A new one is made where there is none, about the directory that the agent works in.
    """
    try:
        return stack.enter_context(writing(file, hold=False)), first
    except SessionNotFoundError:
        first = _whole_line(stream, first)
        session = stack.enter_context(Session.create(file, cwd=agents_cwd(first)))
        tell(f"Made {file}, session {session.id}")
        return session, first


def _whole_line(stream: Any, first: bytes) -> bytes:
    """What was read, and more up to the end of a line."""
    chunks = [first]
    while b"\n" not in chunks[-1] and (more := stream.read1(_CHUNK)):
        chunks.append(more)
    return b"".join(chunks)


class _Told:
    """Tells the events as they come.

    Attributes:
        messages: how many messages of the model have ended, and said something.
    """

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._has_said: set[str] = set()
        self.messages = 0

    def tell(self, events: Sequence[Event]) -> None:
        """Tell the next events; where nobody listens any more, recording goes on."""
        for event in events:
            self._count(event)
        try:
            self._tell(events)
            finish()
        except BrokenPipeError:
            drop_output()

    def _count(self, event: Event) -> None:
        if isinstance(event, AssistantMessage):
            is_whole = event.stop_reason != ABORTED
            self.messages += is_whole or event.lane in self._has_said
            self._has_said.discard(event.lane)
        elif isinstance(event, ToolUseEnd) or (
            isinstance(event, ContentEnd | ThinkingEnd) and event.text
        ):
            self._has_said.add(event.lane)

    def _tell(self, events: Sequence[Event]) -> None:
        for event in events:
            if self._as_json:
                out_json(event)
            elif isinstance(event, Complete):
                usage = event.usage
                tell(f"Complete: {usage.output:,} tokens of output, ${usage.cost:.4f}")
            elif isinstance(event, Err) and not event.message.startswith("line "):
                tell(f"Warning: {event.message}")
