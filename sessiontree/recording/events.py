"""Events: what a conversation is made of, piece by piece, each with its place.

A stream that is being recorded gives them as they come, `session.conversation()` gives those that
end something for what is stored, at the same positions. As JSON each is an object with a `type`
such as `content_delta`.
"""

from __future__ import annotations

from typing import Any

import msgspec


def _snake_case(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


class Position(msgspec.Struct, frozen=True, rename="camel"):
    """A place in a session, as `session.block(uuid, index)` takes it.

    Attributes:
        uuid: of the entry, or the `messageUuid` of a message that is not written yet.
        index: of the content block in its message; None where a whole entry is meant.
    """

    uuid: str
    index: int | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag=_snake_case):
    """Something that happened.

    Attributes:
        lane: where; a subagent's is its own.
    """

    lane: str = "main"


class Start(Event, frozen=True):
    """The agent has started, or started another turn.

    Attributes:
        agent_session_id: its own id of the session, to resume it with.
        model: the model it asks.
        position: the leaf that it goes on from.
    """

    agent_session_id: str | None
    model: str | None
    position: Position


class UserMessage(Event, frozen=True):
    """A prompt."""

    position: Position
    text: str


class ThinkingStart(Event, frozen=True):
    """A block of thinking begins."""

    block_index: int


class ThinkingDelta(Event, frozen=True):
    """A piece of it."""

    block_index: int
    text: str


class ThinkingEnd(Event, frozen=True):
    """A block of thinking, whole; `text` is empty where it is redacted."""

    position: Position
    text: str


class ContentStart(Event, frozen=True):
    """A block of text begins."""

    block_index: int


class ContentDelta(Event, frozen=True):
    """A piece of it."""

    block_index: int
    text: str


class ContentEnd(Event, frozen=True):
    """A block of text, whole."""

    position: Position
    text: str


class ToolUseStart(Event, frozen=True):
    """A tool call begins."""

    block_index: int
    tool_use_id: str
    tool_name: str


class ToolUseDelta(Event, frozen=True):
    """A piece of the JSON of its input."""

    block_index: int
    partial_json: str


class ToolUseEnd(Event, frozen=True):
    """A tool call, whole. `input` is text where it is no JSON."""

    position: Position
    tool_use_id: str
    tool_name: str
    input: Any


class ToolResult(Event, frozen=True):
    """What a tool answered; `output` is its text."""

    position: Position
    tool_use_id: str
    output: str
    is_error: bool


class AssistantMessage(Event, frozen=True):
    """A message of the model has ended.

    Attributes:
        position: the entry that ends it.
        stop_reason: as the provider names it; `aborted` where it broke off.
    """

    position: Position
    stop_reason: str | None


class ChatUsage(msgspec.Struct, frozen=True, rename="camel"):
    """What the agent says it spent: tokens, US dollars, turns, milliseconds.

    It counts all that its process did so far where it says so, and this turn otherwise.
    """

    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: float
    turns: int | None
    duration_ms: int | None


class Complete(Event, frozen=True):
    """The agent is done.

    Attributes:
        new_head: the last entry that does more than annotate, where the session goes on.
        agent_session_id: its own id of the session, to resume it with.
        usage: what it says it spent.
    """

    new_head: Position
    agent_session_id: str | None
    usage: ChatUsage


class Passthrough(Event, frozen=True):
    """What has no event of its own.

    Attributes:
        event_type: the type of the event, the block or the entry.
        position: where it is kept.
        data: the whole of it.
    """

    event_type: str
    position: Position
    data: Any


class Err(Event, frozen=True):
    """Something that is wrong: with the stream, or as the agent reports it."""

    message: str
