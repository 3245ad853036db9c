"""Events: the pieces of a conversation, each with its position.

Recording a stream gives them as they come. `session.conversation()` gives the events that end
something for a stored session, at the same positions. As JSON each is an object with a `type` such
as `content_delta`.
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
        index: of the content block in its message; None for a whole entry.
    """

    uuid: str
    index: int | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag=_snake_case):
    """One event.

    Attributes:
        lane: its lane; a subagent has its own.
    """

    lane: str = "main"


class Start(Event, frozen=True):
    """The agent has started, or started another turn.

    Attributes:
        agent_session_id: the agent's own id of the session, to resume it with.
        model: the model it uses.
        position: the leaf that it continues from.
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
    """A piece of a block of thinking."""

    block_index: int
    text: str


class ThinkingEnd(Event, frozen=True):
    """A whole block of thinking; `text` is empty where it is redacted."""

    position: Position
    text: str


class ContentStart(Event, frozen=True):
    """A block of text begins."""

    block_index: int


class ContentDelta(Event, frozen=True):
    """A piece of a block of text."""

    block_index: int
    text: str


class ContentEnd(Event, frozen=True):
    """A whole block of text."""

    position: Position
    text: str


class ToolUseStart(Event, frozen=True):
    """A tool call begins."""

    block_index: int
    tool_use_id: str
    tool_name: str


class ToolUseDelta(Event, frozen=True):
    """A piece of the JSON of a call's input."""

    block_index: int
    partial_json: str


class ToolUseEnd(Event, frozen=True):
    """A whole tool call. `input` is text where it is not JSON."""

    position: Position
    tool_use_id: str
    tool_name: str
    input: Any


class ToolResult(Event, frozen=True):
    """The result of a tool call; `output` is its text."""

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
    """The usage that the agent reports: tokens, US dollars, turns, milliseconds.

    It counts the agent's whole process where that is reported, and else this turn.
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
        new_head: the last entry that is not an annotation, from which the session continues.
        agent_session_id: the agent's own id of the session, to resume it with.
        usage: the usage that it reports.
    """

    new_head: Position
    agent_session_id: str | None
    usage: ChatUsage


class Passthrough(Event, frozen=True):
    """An event, a block or an entry without an event of its own.

    Attributes:
        event_type: its type.
        position: where it is stored.
        data: all of it.
    """

    event_type: str
    position: Position
    data: Any


class Err(Event, frozen=True):
    """An error: in the stream, or reported by the agent."""

    message: str
