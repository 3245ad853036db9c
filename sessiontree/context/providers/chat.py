"""A context for OpenAI's Chat Completions API, which many other providers speak.

The rules (https://platform.openai.com/docs/api-reference/chat): the system text is the first
message; each assistant message with `tool_calls` is followed by one `tool` message for each call,
and by nothing else before them; a `tool` message holds only text; ids have at most 40 characters,
names are of `[a-zA-Z0-9_-]` and have at most 64; arguments are JSON text; thinking has no place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sessiontree.context.providers import openai
from sessiontree.context.providers.parts import (
    Call,
    Hosted,
    Media,
    Part,
    Result,
    Text,
    Thinking,
    sent_name,
)
from sessiontree.context.providers.turns import Turn, media_apart, note_answer_at_end, turns_of
from sessiontree.context.providers.values import Notes, Request, clean_system
from sessiontree.core.message import Message, kind_of

ID_LIMIT: Final = 40


def request(
    messages: Sequence[Message], uuids: Sequence[str], *, system: str | None, model: str | None
) -> Request:
    """`messages` of the Chat Completions API, from the arguments of `turns_of`."""
    turns, notes = turns_of(messages, uuids, model=model, id_limit=ID_LIMIT, fit=_fit)
    note_answer_at_end(turns, messages, notes)
    text = clean_system(system)
    made: list[dict[str, Any]] = [{"role": "system", "content": text}] if text else []
    for turn in turns:
        if turn.side == "assistant":
            made.append(_assistant(turn.parts, notes))
        else:
            made.extend(_user(turn.parts, notes))
    return Request({"messages": made}, notes.warnings())


def _fit(turn: Turn, notes: Notes) -> Turn:
    parts: list[Part] = []
    for part in turn.parts:
        if isinstance(part, Thinking):
            notes.add("thinking was left out: Chat Completions does not accept it")
        elif isinstance(part, Hosted):
            notes.add(f"a block of the kind {kind_of(part.block)!r} was left out")
        else:
            parts.append(part)
    return Turn(turn.side, parts)


def _assistant(parts: Sequence[Part], notes: Notes) -> dict[str, Any]:
    texts = [part.text for part in parts if isinstance(part, Text)]
    texts += [openai.instead_of(part, notes) for part in parts if isinstance(part, Media)]
    calls = [_call(part, notes) for part in parts if isinstance(part, Call)]
    content: str | list[dict[str, Any]] | None = texts[0] if texts else None
    if len(texts) > 1:
        content = [{"type": "text", "text": text} for text in texts]
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = calls
    return message


def _call(call: Call, notes: Notes) -> dict[str, Any]:
    name = sent_name(call, notes)
    if call.freeform:
        return {"id": call.id, "type": "custom", "custom": {"name": name, "input": call.arguments}}
    made = {"name": name, "arguments": openai.arguments_of(call)}
    return {"id": call.id, "type": "function", "function": made}


def _user(parts: Sequence[Part], notes: Notes) -> Iterator[dict[str, Any]]:
    behind: list[Part] = []
    for part in parts:
        if isinstance(part, Result):
            result, apart = media_apart(part)
            if apart:
                notes.add("the images of a result were moved to a user message behind it")
            behind += apart
            yield {"role": "tool", "tool_call_id": result.id, "content": openai.output_text(result)}
    behind += [part for part in parts if not isinstance(part, Result)]
    for role, run in openai.by_authority(behind):
        content = openai.only_text(run) or [_content_part(part, notes) for part in run]
        yield {"role": role, "content": content}


def _content_part(part: Text | Media, notes: Notes) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if part.kind == "image":
        if where := openai.image_url(part):
            return {"type": "image_url", "image_url": {"url": where}}
    elif openai.is_sendable_data(part):
        return {"type": "file", "file": openai.file_of(part)}
    elif part.file_id and part.file_host == "openai":
        return {"type": "file", "file": {"file_id": part.file_id}}
    return {"type": "text", "text": openai.instead_of(part, notes)}
