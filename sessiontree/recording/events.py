"""Events: the pieces of a conversation, each with its position.

Recording a stream gives them as they come. `session.conversation()` gives the events of whole
blocks and messages of a stored session. As JSON, an event is an object with a `type` such as
`content_delta`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from sessiontree.core.message import ABORTED


def _snake_case(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


class Position(msgspec.Struct, frozen=True, rename="camel"):
    """A place in a session, as `session.block(uuid, index)` takes it."""

    uuid: str  # the uuid of the entry, or the `messageUuid` of a message that is not written yet
    # the index of the content block in the message; None for a whole entry
    index: int | None = None


class StreamEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag=_snake_case):
    """One event."""

    lane: str = "main"  # the lane of the event; each subagent has a lane of its own


class Start(StreamEvent, frozen=True):
    """The agent has started, or started another turn."""

    agent_session_id: str | None  # the agent's own id of the session, to resume the session with
    model: str | None  # the model of the agent
    position: Position  # the leaf from which the agent continues


class UserMessage(StreamEvent, frozen=True):
    """A prompt."""

    position: Position
    text: str


class ThinkingStart(StreamEvent, frozen=True):
    """A block of thinking begins."""

    block_index: int


class ThinkingDelta(StreamEvent, frozen=True):
    """A piece of a block of thinking."""

    block_index: int
    text: str


class ThinkingEnd(StreamEvent, frozen=True):
    """A whole block of thinking; `text` is empty if the thinking is redacted."""

    position: Position
    text: str


class ContentStart(StreamEvent, frozen=True):
    """A block of text begins."""

    block_index: int


class ContentDelta(StreamEvent, frozen=True):
    """A piece of a block of text."""

    block_index: int
    text: str


class ContentEnd(StreamEvent, frozen=True):
    """A whole block of text."""

    position: Position
    text: str


class ToolUseStart(StreamEvent, frozen=True):
    """A tool call begins."""

    block_index: int
    tool_use_id: str
    tool_name: str


class ToolUseDelta(StreamEvent, frozen=True):
    """A piece of the JSON of a call's input."""

    block_index: int
    partial_json: str


class ToolUseEnd(StreamEvent, frozen=True):
    """A whole tool call. `input` is a text if the input is not JSON."""

    position: Position
    tool_use_id: str
    tool_name: str
    input: Any


class ToolResult(StreamEvent, frozen=True):
    """The result of a tool call; `output` is the text of the result."""

    position: Position
    tool_use_id: str
    output: str
    is_error: bool


class AssistantMessage(StreamEvent, frozen=True):
    """A message of the model has ended."""

    position: Position  # the entry that ends the message
    stop_reason: str | None  # the provider's stop reason; `aborted` if the message was cut off


class ChatUsage(msgspec.Struct, frozen=True, rename="camel"):
    """The usage that the agent reports: tokens, US dollars, turns, milliseconds.

    The numbers are for the agent's whole process, or for this turn if the agent reports only that.
    """

    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: float
    turns: int | None
    duration_ms: int | None


class Complete(StreamEvent, frozen=True):
    """The agent is done."""

    new_head: Position  # the last entry that is not an annotation, from which the session continues
    agent_session_id: str | None  # the agent's own id of the session, to resume the session with
    usage: ChatUsage  # the usage that the agent reports


class Passthrough(StreamEvent, frozen=True):
    """An event, a block or an entry without an event of its own."""

    event_type: str  # the type of the event, the block or the entry
    position: Position  # the place where it is stored
    data: Any  # the whole event, block or entry


class Err(StreamEvent, frozen=True):
    """An error: in the stream, or reported by the agent."""

    message: str


StoredEvent = (
    UserMessage
    | ThinkingEnd
    | ContentEnd
    | ToolUseEnd
    | ToolResult
    | AssistantMessage
    | Passthrough
)
"""The events of a stored session; each has a position."""


class MessageCount:
    """Counts the messages of the model that have content."""

    def __init__(self) -> None:
        self._with_content: set[str] = set()
        self.messages = 0  # how many there are so far

    def take(self, batch: Iterable[StreamEvent]) -> None:
        """Take the next events of the recording."""
        for event in batch:
            self._take(event)

    def _take(self, event: StreamEvent) -> None:
        if isinstance(event, AssistantMessage):
            is_whole = event.stop_reason != ABORTED
            self.messages += is_whole or event.lane in self._with_content
            self._with_content.discard(event.lane)
        elif isinstance(event, ToolUseEnd) or (
            isinstance(event, ContentEnd | ThinkingEnd) and event.text
        ):
            self._with_content.add(event.lane)
