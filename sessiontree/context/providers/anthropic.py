"""A context for Anthropic's Messages API.

The rules, from the API's reference and its refusals (https://docs.anthropic.com): the first message
is the user's; roles alternate (neighbours would be combined); text is never empty or only white
space, and the assistant's last text does not end in white space; each `tool_use` is answered by a
`tool_result` at the start of the very next message; ids and names are of `[a-zA-Z0-9_-]`, ids
unique; `thinking` and `redacted_thinking` come back unmodified with their signature and never last
in a message; an error result holds only text; images are JPEG, PNG, GIF or WebP, documents PDF,
both as base64 or by https; only the user sends them; a call of a tool that Anthropic runs has its
result behind it, unless the API still has to run it: in an answer that paused, or whose other calls
the user's side answers last.

Blocks that Anthropic wrote, and blocks in its shape, go back as they were stored (see `accepted`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sessiontree.context.providers.accepted import ANTHROPIC, is_known, note_unknown
from sessiontree.context.providers.alternate import (
    SideTurn,
    media_apart,
    note_answer_at_end,
    turns_of,
)
from sessiontree.context.providers.reading import (
    Media,
    Part,
    ProviderBlock,
    Result,
    SentCall,
    TextPart,
    Thinking,
    cannot_be_sent,
    maker_of,
    note_citations,
    sent_name,
)
from sessiontree.context.providers.values import (
    AnthropicRequest,
    RequestNotes,
    clean_system,
    clean_value,
    object_in,
)
from sessiontree.core.media import IMAGES, PDF
from sessiontree.core.message import Message, kind_of

ID_LIMIT: Final = 64
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


MAX_BREAKPOINTS: Final = 4


def with_breakpoints(request: AnthropicRequest, cache: str | None) -> AnthropicRequest:
    """The request with breakpoints of the prompt cache: the stored ones, or those of `cache`.

    `cache` is how long the cache is kept. Its breakpoints are behind the system text, the last
    message and the message of the user before that, which ended the request before.
    """
    params, warnings = request.params, request.warnings
    messages: list[dict[str, Any]] = params["messages"]
    marked = [block for said in messages for block in said["content"] if "cache_control" in block]
    surplus = marked if cache else marked[:-MAX_BREAKPOINTS]
    for block in surplus:
        del block["cache_control"]
    if surplus:
        why = "`cache` sets its own" if cache else f"a request has at most {MAX_BREAKPOINTS}"
        warnings = [*warnings, f"{len(surplus):,} stored cache_control were left out: {why}"]
    if cache is None:
        return AnthropicRequest(params, warnings)
    mark = {"type": "ephemeral", "ttl": cache}
    if "system" in params:
        system = [{"type": "text", "text": params["system"], "cache_control": mark}]
        params = {**params, "system": system}
    before = [said for said in messages[:-1] if said["role"] == "user"][-1:]
    for said in [*before, *messages[-1:]]:
        block = next(filter(_can_be_marked, reversed(said["content"])), None)
        if block is not None:
            block["cache_control"] = mark.copy()
    return AnthropicRequest(params, warnings)


def _can_be_marked(block: Mapping[str, Any]) -> bool:
    return "cache_control" in ANTHROPIC.keys.get(kind_of(block), ())


def _fit(turns: Sequence[SideTurn], notes: RequestNotes) -> list[SideTurn]:
    served = _answered_blocks(turns)
    return [_fit_turn(turn, served, notes) for turn in turns]


def _fit_turn(turn: SideTurn, served: set[int], notes: RequestNotes) -> SideTurn:
    parts: list[Part] = []
    for part in turn.parts:
        if isinstance(part, Thinking) and part.maker != "anthropic":
            notes.add("thinking without a signature of Anthropic was left out")
        elif isinstance(part, ProviderBlock) and id(part) not in served:
            part.leave_out(notes)
        else:
            parts.append(part)
    if turn.side == "user":
        if any(isinstance(part, TextPart) and part.instruction for part in parts):
            notes.add("a message of the role 'developer' is sent as the user's")
        return SideTurn("user", parts)
    while parts and isinstance(parts[-1], Thinking):
        notes.add("thinking that nothing followed was left out")
        parts.pop()
    if parts and isinstance(last := parts[-1], TextPart):
        parts[-1] = replace(last, text=last.text.rstrip())
    return SideTurn("assistant", parts)


def _answered_blocks(turns: Sequence[SideTurn]) -> set[int]:
    """The blocks of Anthropic that it takes back: no call or result alone."""
    served: set[int] = set()
    waiting: dict[str, tuple[int, ProviderBlock]] = {}  # the calls without a result, by their ids
    last_answer = -1
    for row, turn in enumerate(turns):
        last_answer = row if turn.side == "assistant" else last_answer
        for part in turn.parts:
            if not isinstance(part, ProviderBlock) or part.is_item or part.maker in ("", "openai"):
                continue
            if "tool_use_id" in part.block:
                call = waiting.pop(part.id, None)
                served |= set() if call is None else {id(call[1]), id(part)}
            elif not kind_of(part.block).endswith("_tool_use"):
                served.add(id(part))
            elif isinstance(part.block.get("input"), dict):
                waiting[part.id] = row, part
    is_open = any(isinstance(part, Result) for part in turns[-1].parts) if turns else False
    if last_answer == len(turns) - 1 or is_open:  # the API runs these calls next
        served |= {id(part) for row, part in waiting.values() if row == last_answer}
    return served


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
    if isinstance(part, ProviderBlock):
        note_unknown(part.block, part.maker, notes)
        return ANTHROPIC.fit(part.block, notes)
    made = _translated(part, side, notes)
    stored = part.stored
    if stored is None:
        return made
    if kind_of(stored) == made["type"]:
        return made if stored.keys() == made.keys() else {**ANTHROPIC.fit(stored, notes), **made}
    if isinstance(part, TextPart):
        if side == "user" and _is_whole(stored):
            return ANTHROPIC.fit(stored, notes)
        if not is_known(stored) and part.source and maker_of(part.source) == "anthropic":
            return ANTHROPIC.fit(stored, notes)
        note_citations(part, notes)
    return made


def _is_whole(block: Mapping[str, Any]) -> bool:
    """True if a block that is read as text is one that Anthropic takes itself."""
    kind, source = kind_of(block), block.get("source")
    if kind == "document" and isinstance(source, Mapping):
        is_text = kind_of(source) == "text" and source.get("media_type") == "text/plain"
        return is_text or kind_of(source) == "content"
    if kind == "search_result":
        return isinstance(block.get("title"), str) and isinstance(block.get("content"), list)
    return kind in ("tool_reference", "browser_state")


def _translated(
    part: TextPart | Media | SentCall | Thinking | Result, side: str, notes: RequestNotes
) -> dict[str, Any]:
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
    return _result(part, notes)


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
