"""The command that records: a coding agent's stream on standard input, stored as it comes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from sessiontree.cli import arguments
from sessiontree.cli.arguments import PLACE
from sessiontree.cli.opening import ConflictWarning, OnLane, lane_note, lane_options
from sessiontree.cli.output import out_json
from sessiontree.cli.terminal import counted, drop_output, finish, out, short, tell
from sessiontree.errors import NothingToDoError, SessionNotFoundError
from sessiontree.recording import StreamAccumulator, events
from sessiontree.recording.events import MessageCount
from sessiontree.recording.recorder import agents_cwd
from sessiontree.session import Session

_CHUNK: Final = 1 << 16


@arguments.command("record", json="each event on a line of its own")
@click.argument("file", type=PLACE)
@click.option("--prompt", metavar="TEXT", help="The prompt, if it is not in the stream.")
@click.option(
    "--granularity",
    type=click.Choice(["block", "message"]),
    default="block",
    show_default=True,
    help="Store each block, or each whole message, as soon as it is complete.",
)
@lane_options
def record(file: str, prompt: str | None, granularity: Any, on: OnLane, as_json: bool) -> None:
    """The command reads the stream-JSON output of Claude Code from standard input, with or
    without partial messages. If FILE does not exist, the command creates FILE.

    An event that was recorded before is not recorded again. So you can send a stream again from its
    start, or continue a stream that was cut off. An event is recognized by its uuid, and a message
    by its id. An event with neither a uuid nor a message id is recorded again.

    \b
    Example:
      claude -p "Build a CLI" --output-format stream-json --verbose \\
        --include-partial-messages | sessiontree record chat.jsonl --prompt "Build a CLI"
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError(
            "pipe the agent's stream in: "
            "claude -p … --output-format stream-json --verbose | sessiontree record FILE"
        )
    stream: Any = sys.stdin.buffer
    chunk = stream.read1(_CHUNK)
    if not chunk:
        raise NothingToDoError("standard input is empty; nothing was recorded")
    printer = _EventPrinter(as_json)
    with contextlib.ExitStack() as stack:
        session, chunk = _opened(file, on, stream, chunk, stack)
        accumulator = StreamAccumulator(session, granularity=granularity, prompt=prompt)
        try:
            while chunk:
                printer.print(accumulator.feed(chunk))
                chunk = stream.read1(_CHUNK)
        finally:  # the last events of an interrupted agent are stored too
            rest = accumulator.close()
        printer.print(rest)
        session.refresh()  # warns of what another writer added since the last entry
        head = accumulator.head.uuid
    if not accumulator.recognized:
        raise NothingToDoError(
            f"nothing in the stream was understood; it is stored as it came, in {file}. 'record' "
            "reads the output of Claude Code: claude -p … --output-format stream-json --verbose; "
            "for session files of other agents, use 'sessiontree import FILE'"
        )
    messages = counted(printer.counted.messages, "message")
    done = f"Recorded {messages} of the model; the leaf of {file} is {short(head)}"
    tell(done + lane_note(file, session))
    if not as_json:
        out(head)


def _opened(
    file: str, on: OnLane, stream: Any, first: bytes, stack: contextlib.ExitStack
) -> tuple[Session, bytes]:
    """The session, created if it does not exist, and what was read of the stream."""
    try:
        return stack.enter_context(on.writing(file, hold=False)), first
    except SessionNotFoundError:
        chunks = [first]
        while b"\n" not in chunks[-1] and (more := stream.read1(_CHUNK)):
            chunks.append(more)
        first = b"".join(chunks)
        cwd, hooks = agents_cwd(first), [ConflictWarning()]
        made = Session.create(file, cwd=cwd, lane=on.name(), hooks=hooks)
        session = stack.enter_context(made)
        tell(f"Created {file}, session {session.id}")
        return stack.enter_context(on.on(session)), first


class _EventPrinter:
    """Prints the events as they come, and counts them."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self.counted = MessageCount()

    def print(self, batch: Sequence[events.Event]) -> None:
        """Print the next events; recording goes on if the reader has closed the pipe."""
        self.counted.take(batch)
        try:
            for event in batch:
                self._print(event)
            finish()
        except BrokenPipeError:
            drop_output()

    def _print(self, event: events.Event) -> None:
        if self._as_json:
            out_json(event)
        elif isinstance(event, events.Complete):
            tell(f"Complete: {event.usage.output:,} output tokens, ${event.usage.cost:.4f}")
        elif isinstance(event, events.Err) and not event.message.startswith("line "):
            tell(f"Warning: {event.message}")
