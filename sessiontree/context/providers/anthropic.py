"""A context for Anthropic's Messages API.

The rules, from the API's reference and its refusals (https://docs.anthropic.com): the first message
is the user's; roles alternate (neighbours would be combined); text is never empty or only white
space, and the assistant's last text does not end in white space; each `tool_use` is answered by a
`tool_result` at the start of the very next message; ids and names are of `[a-zA-Z0-9_-]`, ids
unique; `thinking` and `redacted_thinking` come back unmodified with their signature and never last
in a message; an error result holds only text; images are JPEG, PNG, GIF or WebP, documents PDF,
both as base64 or by https; only the user sends them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from sessiontree.context.providers.alternate import (
    SideTurn,
    media_apart,
    note_answer_at_end,
    turns_of,
)
from sessiontree.context.providers.reading import (
    Media,
    Part,
    Result,
    SentCall,
    ServerToolBlock,
    TextPart,
    Thinking,
    cannot_be_sent,
    sent_name,
)
from sessiontree.context.providers.values import (
    AnthropicRequest,
    RequestNotes,
    clean_system,
    clean_value,
    is_fit,
    object_in,
)
from sessiontree.core.media import IMAGES, PDF
from sessiontree.core.message import Message, kind_of

ID_LIMIT: Final = 64
HOSTED_TOOLS: Final = {
    *("web_search", "web_fetch", "code_execution", "bash_code_execution"),
    "text_editor_code_execution",
}
"""The tools that Anthropic runs itself; each answers with a block `NAME_tool_result`."""

_OPENING: Final = "(The conversation begins with the assistant.)"


def request(
    messages: Sequence[Message],
    uuids: Sequence[str],
    *,
    system: str | None,
    model: str | None,
    is_paired: bool,
) -> AnthropicRequest:
    """`system` and `messages` of the Messages API, from the arguments of `turns_of`."""
    turns, notes = turns_of(
        messages, uuids, model=model, is_paired=is_paired, id_limit=ID_LIMIT, fit=_fit
    )
    note_answer_at_end(turns, messages, notes)
    if turns and turns[0].side == "assistant":
        notes.add("a first message of the user was put before the assistant's")
        turns.insert(0, SideTurn("user", [TextPart(_OPENING)]))
    params: dict[str, Any] = {"system": text} if (text := clean_system(system)) else {}
    params["messages"] = [_message(turn, notes) for turn in turns]
    return AnthropicRequest(params, notes.warnings())


def _fit(turn: SideTurn, notes: RequestNotes) -> SideTurn:
    if turn.side == "user":
        if any(isinstance(part, TextPart) and part.instruction for part in turn.parts):
            notes.add("a message of the role 'developer' is sent as the user's")
        return turn
    hosted = _sound_hosted(turn.parts)
    parts: list[Part] = []
    for part in turn.parts:
        if isinstance(part, Thinking) and part.maker != "anthropic":
            notes.add("thinking without a signature of Anthropic was left out")
        elif isinstance(part, ServerToolBlock) and id(part) not in hosted:
            notes.add(f"a block of the kind {kind_of(part.block)!r} was left out")
        else:
            parts.append(part)
    while parts and isinstance(parts[-1], Thinking):
        notes.add("thinking that nothing followed was left out")
        parts.pop()
    if parts and isinstance(last := parts[-1], TextPart):
        parts[-1] = replace(last, text=last.text.rstrip())
    return SideTurn("assistant", parts)


def _sound_hosted(parts: Sequence[Part]) -> set[int]:
    """The blocks of hosted tools that are a call and the result directly behind it."""
    sound: set[int] = set()
    blocks = [part for part in parts if isinstance(part, ServerToolBlock)]
    for call, result in pairwise(blocks):
        name = str(call.block.get("name"))
        answered_by = f"{name}_tool_result" if name in HOSTED_TOOLS else None
        if (
            kind_of(call.block) == "server_tool_use"
            and isinstance(call.block.get("input"), dict)
            and answered_by == kind_of(result.block)
            and isinstance(result.block.get("content"), list | dict)
            and call.id == result.id
            and is_fit(call.id, ID_LIMIT)
        ):
            sound |= {id(call), id(result)}
    return sound


def _message(turn: SideTurn, notes: RequestNotes) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    after_results: list[Part] = []
    for part in turn.parts:
        if isinstance(part, Result):
            result, apart = media_apart(part) if part.failed else (part, [])
            if apart:
                notes.add("the images of a failed call were put behind its result")
            after_results += apart
            blocks.append(_result(result, notes))
        else:
            after_results.append(part)
    blocks += [_block(part, turn.side, notes) for part in after_results]
    return {"role": turn.side, "content": blocks}


def _block(part: Part, side: str, notes: RequestNotes) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, Media):
        return _media(part, side, notes)
    if isinstance(part, SentCall):
        return _call(part, notes)
    if isinstance(part, Thinking):
        if part.redacted:
            return {"type": "redacted_thinking", "data": part.seal}
        return {"type": "thinking", "thinking": part.text, "signature": part.seal}
    if isinstance(part, Result):
        return _result(part, notes)
    kept = ("type", "id", "tool_use_id", "name", "input", "content")
    return {key: clean_value(part.block[key]) for key in kept if key in part.block}


def _call(call: SentCall, notes: RequestNotes) -> dict[str, Any]:
    given = call.arguments
    if call.freeform:
        notes.add("the free text that a tool takes was put into an object")
        given = {"input": given}
    elif isinstance(given, str):
        given = clean_value(object_in(given) or {})
    return {"type": "tool_use", "id": call.id, "name": sent_name(call, notes), "input": given}


def _result(result: Result, notes: RequestNotes) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.id}
    if result.parts:
        block["content"] = [_block(part, "user", notes) for part in result.parts]
    if result.failed:
        block["is_error"] = True
    return block


def _media(media: Media, side: str, notes: RequestNotes) -> dict[str, Any]:
    source = source_of(media)
    if source is None or side == "assistant":
        return {"type": "text", "text": cannot_be_sent(media, "Anthropic", notes)}
    return {"type": media.kind, "source": source}


def source_of(media: Media) -> dict[str, Any] | None:
    """The `source` of an image or document block; None where the API does not accept it."""
    if media.data:
        types = IMAGES if media.kind == "image" else {PDF}
        if media.media_type not in types:
            return None
        return {"type": "base64", "media_type": media.media_type, "data": media.data}
    if media.url and media.url.lower().startswith("https://"):
        return {"type": "url", "url": media.url}
    if media.file_id and media.file_host == "anthropic":
        return {"type": "file", "file_id": media.file_id}
    return None
