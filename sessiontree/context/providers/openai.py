"""Requests for OpenAI's two APIs, Responses and Chat Completions.

What OpenAI's two APIs, Responses and Chat Completions, have in common.

A context for OpenAI's Chat Completions API, which many other providers speak. The rules
(https://platform.openai.com/docs/api-reference/chat): the system text is the first message; each
assistant message with `tool_calls` is followed by one `tool` message for each call, and by nothing
else before them; a `tool` message holds only text; ids have at most 40 characters, names are of
`[a-zA-Z0-9_-]` and have at most 64; arguments are JSON text; thinking has no place.

A context for OpenAI's Responses API. The rules (https://platform.openai.com/docs/api-
reference/responses): the system text is `instructions`; calls and results are items of their own,
tied by a `call_id` of at most 64 characters; a call of a custom tool is answered by a custom
output; a `reasoning` item comes back with its encrypted content, without the text, and followed by
what it led to; the ids of items are sent only beside the reasoning they belong to, and no two items
share one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
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
    ChatRequest,
    RequestNotes,
    ResponsesRequest,
    clean_system,
    digest,
    is_fit,
)
from sessiontree.core.media import IMAGES, PDF
from sessiontree.core.message import Message, kind_of

FAILED: Final = "The call failed:"


def output_text(result: Result) -> str:
    """A result's text. A failure is said in words, because there is no key for it."""
    texts = [part.text for part in result.parts if isinstance(part, TextPart)]
    lead = [FAILED] if result.failed else []
    return "\n".join(lead + (texts or ["(no output)"]))


def arguments_of(call: SentCall) -> str:
    """A call's arguments as text, unchanged where they were stored as text."""
    given = call.arguments
    if isinstance(given, str):
        return given
    return json.dumps(given, ensure_ascii=False, separators=(",", ":"))


def by_authority(parts: Sequence[Part]) -> Iterator[tuple[str, list[TextPart | Media]]]:
    """The user's side without results, in runs of the roles `user` and `developer`."""
    run: list[TextPart | Media] = []
    speaker = ""
    for part in parts:
        if not isinstance(part, TextPart | Media):
            continue
        role = "developer" if isinstance(part, TextPart) and part.instruction else "user"
        if run and role != speaker:
            yield speaker, run
            run = []
        speaker = role
        run.append(part)
    if run:
        yield speaker, run


def only_text(run: Sequence[TextPart | Media]) -> str | None:
    """The text of a run that is a single text, else None."""
    return run[0].text if len(run) == 1 and isinstance(run[0], TextPart) else None


def image_url(media: Media) -> str | None:
    """The address of an image, or its bytes as a data URL; None where it can have neither."""
    return _data_url(media) if is_sendable_data(media) else media.url


def file_of(media: Media) -> dict[str, str]:
    """The bytes of a document, and the file name that OpenAI requires with them."""
    name = media.name or "document"
    name = name if name.lower().endswith(".pdf") else f"{name}.pdf"
    return {"filename": name, "file_data": _data_url(media)}


def _data_url(media: Media) -> str:
    return f"data:{media.media_type};base64,{media.data}"


def is_sendable_data(media: Media) -> bool:
    """True if the bytes are of a type that OpenAI reads."""
    types = IMAGES if media.kind == "image" else {PDF}
    return bool(media.data) and media.media_type in types


def instead_of(media: Media, notes: RequestNotes) -> str:
    """Text in place of media that cannot be sent."""
    return cannot_be_sent(media, "OpenAI", notes)


ID_LIMIT: Final = 40


def request(
    messages: Sequence[Message],
    uuids: Sequence[str],
    *,
    system: str | None,
    model: str | None,
    is_paired: bool,
) -> ChatRequest:
    """`messages` of the Chat Completions API, from the arguments of `turns_of`."""
    turns, notes = turns_of(
        messages, uuids, model=model, is_paired=is_paired, id_limit=ID_LIMIT, fit=_fit
    )
    note_answer_at_end(turns, messages, notes)
    text = clean_system(system)
    made: list[dict[str, Any]] = [{"role": "system", "content": text}] if text else []
    for turn in turns:
        if turn.side == "assistant":
            made.append(_assistant(turn.parts, notes))
        else:
            made.extend(_user(turn.parts, notes))
    return ChatRequest({"messages": made}, notes.warnings())


def _fit(turn: SideTurn, notes: RequestNotes) -> SideTurn:
    parts: list[Part] = []
    for part in turn.parts:
        if isinstance(part, Thinking):
            notes.add("thinking was left out: Chat Completions does not accept it")
        elif isinstance(part, ServerToolBlock):
            notes.add(f"a block of the kind {kind_of(part.block)!r} was left out")
        else:
            parts.append(part)
    return SideTurn(turn.side, parts)


def _assistant(parts: Sequence[Part], notes: RequestNotes) -> dict[str, Any]:
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    texts += [instead_of(part, notes) for part in parts if isinstance(part, Media)]
    calls = [_call(part, notes) for part in parts if isinstance(part, SentCall)]
    content: str | list[dict[str, Any]] | None = texts[0] if texts else None
    if len(texts) > 1:
        content = [{"type": "text", "text": text} for text in texts]
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = calls
    return message


def _call(call: SentCall, notes: RequestNotes) -> dict[str, Any]:
    name = sent_name(call, notes)
    if call.freeform:
        return {"id": call.id, "type": "custom", "custom": {"name": name, "input": call.arguments}}
    made = {"name": name, "arguments": arguments_of(call)}
    return {"id": call.id, "type": "function", "function": made}


def _user(parts: Sequence[Part], notes: RequestNotes) -> Iterator[dict[str, Any]]:
    behind: list[Part] = []
    for part in parts:
        if isinstance(part, Result):
            result, apart = media_apart(part)
            if apart:
                notes.add("the images of a result were moved to a user message behind it")
            behind += apart
            yield {"role": "tool", "tool_call_id": result.id, "content": output_text(result)}
    behind += [part for part in parts if not isinstance(part, Result)]
    for role, run in by_authority(behind):
        content = only_text(run) or [_content_part(part, notes) for part in run]
        yield {"role": role, "content": content}


def _content_part(part: TextPart | Media, notes: RequestNotes) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if part.kind == "image":
        if where := image_url(part):
            return {"type": "image_url", "image_url": {"url": where}}
    elif is_sendable_data(part):
        return {"type": "file", "file": file_of(part)}
    elif part.file_id and part.file_host == "openai":
        return {"type": "file", "file": {"file_id": part.file_id}}
    return {"type": "text", "text": instead_of(part, notes)}


RESPONSES_ID_LIMIT: Final = 64


def responses_request(
    messages: Sequence[Message],
    uuids: Sequence[str],
    *,
    system: str | None,
    model: str | None,
    is_paired: bool,
) -> ResponsesRequest:
    """`instructions` and `input` of the Responses API, from the arguments of `turns_of`."""
    turns, notes = turns_of(
        messages,
        uuids,
        model=model,
        is_paired=is_paired,
        id_limit=RESPONSES_ID_LIMIT,
        fit=_fit_for_responses,
    )
    items = ItemMaker(notes)
    made: list[dict[str, Any]] = []
    for turn in turns:
        make = items.assistant if turn.side == "assistant" else items.user
        made.extend(make(turn.parts))
    lead = {"instructions": text} if (text := clean_system(system)) else {}
    return ResponsesRequest({**lead, "input": made}, notes.warnings())


def _fit_for_responses(turn: SideTurn, notes: RequestNotes) -> SideTurn:
    """The turn with only the parts that Responses accepts; ids only beside their reasoning."""
    if turn.side == "user":
        return turn
    kept: list[Part] = []
    lost = False
    for place, part in enumerate(turn.parts):
        if isinstance(part, ServerToolBlock):
            notes.add(f"a block of the kind {kind_of(part.block)!r} was left out")
        elif isinstance(part, Thinking) and part.maker != "openai":
            notes.add("thinking without encrypted content of OpenAI was left out")
            lost = True
        elif isinstance(part, Thinking) and not _leads_on(part, turn.parts[place + 1 :]):
            notes.add("reasoning that nothing followed was left out")
            lost = True
        else:
            kept.append(part)
    if lost or not any(isinstance(part, Thinking) for part in kept):
        kept = [replace(p, item_id=None) if isinstance(p, TextPart | SentCall) else p for p in kept]
    return SideTurn("assistant", kept)


def _leads_on(thinking: Thinking, rest: Sequence[Part]) -> bool:
    if thinking.item is not None and thinking.item["type"] == "compaction":
        return True
    return any(isinstance(part, TextPart | SentCall | Media) for part in rest)


class ItemMaker:
    """Makes the items of the parts of a message; uses each id once."""

    def __init__(self, notes: RequestNotes) -> None:
        self._notes = notes
        self._used: set[str] = set()

    def assistant(self, parts: Sequence[Part]) -> Iterator[dict[str, Any]]:
        run: list[TextPart] = []
        for part in parts:
            if isinstance(part, Media):
                part = TextPart(instead_of(part, self._notes))
            if run and not (isinstance(part, TextPart) and _item_of(part) == _item_of(run[0])):
                yield self._message(run)
                run = []
            if isinstance(part, TextPart):
                run.append(part)
            elif isinstance(part, SentCall):
                yield self._call(part)
            elif isinstance(part, Thinking):
                yield self._sealed(part)
        if run:
            yield self._message(run)

    def _own_id(self, id: str | None) -> str | None:
        """An item's id where it may be sent: fit, and used for the first time."""
        if id is None or not is_fit(id, RESPONSES_ID_LIMIT) or id in self._used:
            return None
        self._used.add(id)
        return id

    def _message(self, run: Sequence[TextPart]) -> dict[str, Any]:
        item: dict[str, Any] = {"type": "message", "role": "assistant"}
        id = self._own_id(run[0].item_id)
        if id is None:
            item["content"] = "\n\n".join(text.text for text in run)
        else:
            item |= {"id": id, "status": "completed"}
            item["content"] = [
                {"type": "output_text", "text": text.text, "annotations": []} for text in run
            ]
        if run[0].phase:
            item["phase"] = run[0].phase
        return item

    def _call(self, call: SentCall) -> dict[str, Any]:
        name = sent_name(call, self._notes)
        item: dict[str, Any] = {"type": "function_call", "call_id": call.id, "name": name}
        if call.freeform:
            item["type"] = "custom_tool_call"
            item["input"] = call.arguments
        else:
            item["arguments"] = arguments_of(call)
        if id := self._own_id(call.item_id):
            item["id"] = id
        return item

    def _sealed(self, thinking: Thinking) -> dict[str, Any]:
        item = dict(thinking.item or {})
        id = self._own_id(item["id"])
        again = 0
        while id is None:
            id = self._own_id(f"rs_{digest(f'{thinking.seal} {again}')}")
            again += 1
        item["id"] = id
        return item

    def user(self, parts: Sequence[Part]) -> Iterator[dict[str, Any]]:
        for part in parts:
            if isinstance(part, Result):
                kind = "custom_tool_call" if part.freeform else "function_call"
                yield {"type": f"{kind}_output", "call_id": part.id, "output": self._output(part)}
        for role, run in by_authority(parts):
            content = only_text(run) or [self._content_part(part) for part in run]
            yield {"type": "message", "role": role, "content": content}

    def _output(self, result: Result) -> str | list[dict[str, Any]]:
        if all(isinstance(part, TextPart) for part in result.parts):
            return output_text(result)
        lead = [TextPart(FAILED)] if result.failed else []
        return [self._content_part(part) for part in (*lead, *result.parts)]

    def _content_part(self, part: TextPart | Media) -> dict[str, Any]:
        if isinstance(part, TextPart):
            return {"type": "input_text", "text": part.text}
        own_file = part.file_id if part.file_host == "openai" else None
        if part.kind == "image":
            if where := image_url(part):
                return {"type": "input_image", "image_url": where, "detail": "auto"}
            if own_file:
                return {"type": "input_image", "file_id": own_file, "detail": "auto"}
        elif is_sendable_data(part):
            return {"type": "input_file", **file_of(part)}
        elif part.url:
            return {"type": "input_file", "file_url": part.url}
        elif own_file:
            return {"type": "input_file", "file_id": own_file}
        return {"type": "input_text", "text": instead_of(part, self._notes)}


def _item_of(text: TextPart) -> tuple[str | None, str | None]:
    return text.item_id, text.phase
