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
what it led to; the ids of items are not sent without the reasoning they belong to, and no two items
share one. Items that OpenAI wrote go back as they were stored (see `accepted`).

In both, each message of the user stays a message, so that a request is a prefix of the next.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sessiontree.context.providers.accepted import RESPONSES, note_unknown
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
    as_function,
    cannot_be_sent,
    note_citations,
    sent_name,
)
from sessiontree.context.providers.values import (
    ChatRequest,
    RequestNotes,
    ResponsesRequest,
    clean_system,
    digest,
    is_fit,
    text_or,
)
from sessiontree.core.media import IMAGES, PDF
from sessiontree.core.message import CALL_ITEMS, RESULT_ITEMS, Message, is_partial, kind_of

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


Said = TextPart | Media | ProviderBlock


def by_message(parts: Sequence[Part]) -> Iterator[tuple[str, list[Said]]]:
    """The user's side without results: each message, in the role `user` or `developer`."""
    run: list[Said] = []
    speaker = ""
    for part in parts:
        if not isinstance(part, TextPart | Media | ProviderBlock):
            continue
        role = "developer" if isinstance(part, TextPart) and part.instruction else "user"
        if run and (role != speaker or part.source is not run[0].source):
            yield speaker, run
            run = []
        speaker = role
        run.append(part)
    if run:
        yield speaker, run


def only_text(run: Sequence[Said]) -> str | None:
    """The text of a run that is a single text, else None."""
    return run[0].text if len(run) == 1 and isinstance(run[0], TextPart) else None


def image_url(media: Media) -> str | None:
    """The address of an image, or its bytes as a data URL; None where it can have neither."""
    return _data_url(media) if is_sendable_data(media) else media.url


def detail_of(media: Media) -> str | None:
    """How closely OpenAI is to look at an image, as stored; None if it is not said."""
    stored = media.stored or {}
    inner = stored.get("image_url")
    detail = stored.get("detail", inner.get("detail") if isinstance(inner, Mapping) else None)
    return detail if isinstance(detail, str) else None


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


def _fit(turns: Sequence[SideTurn], notes: RequestNotes) -> list[SideTurn]:
    return [_fit_for_chat(turn, notes) for turn in turns]


def _fit_for_chat(turn: SideTurn, notes: RequestNotes) -> SideTurn:
    parts: list[Part] = []
    for part in turn.parts:
        if isinstance(part, Thinking):
            notes.add("thinking was left out: Chat Completions does not accept it")
        elif isinstance(part, ProviderBlock):
            part.leave_out(notes)
        else:
            parts.append(part)
    return SideTurn(turn.side, parts)


def _assistant(parts: Sequence[Part], notes: RequestNotes) -> dict[str, Any]:
    spoken = [part for part in parts if isinstance(part, TextPart)]
    for part in spoken:
        note_citations(part, notes)
    texts = [part.text for part in spoken]
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
    for role, run in by_message(behind):
        content = only_text(run) or [_content_part(part, notes) for part in run]
        yield {"role": role, "content": content}


def _content_part(part: Said, notes: RequestNotes) -> dict[str, Any]:
    assert not isinstance(part, ProviderBlock)
    if isinstance(part, TextPart):
        note_citations(part, notes)
        return {"type": "text", "text": part.text}
    if part.kind == "image":
        if where := image_url(part):
            detail = detail_of(part)
            shown = {"url": where} if detail is None else {"url": where, "detail": detail}
            return {"type": "image_url", "image_url": shown}
    elif is_sendable_data(part):
        return {"type": "file", "file": file_of(part)}
    elif part.file_id and part.file_host == "openai":
        return {"type": "file", "file": {"file_id": part.file_id}}
    return {"type": "text", "text": instead_of(part, notes)}


RESPONSES_ID_LIMIT: Final = 64
UNFOLLOWED: Final = "reasoning that nothing followed was left out"


def responses_request(
    responses: Sequence[str | None],
    messages: Sequence[Message],
    uuids: Sequence[str],
    *,
    system: str | None,
    model: str | None,
    is_paired: bool,
) -> ResponsesRequest:
    """`instructions` and `input` of the Responses API, from the arguments of `turns_of`.

    `responses` has the response of each message, where it is known.
    """
    left_out = _left_alone(messages, responses)
    broken = set(left_out)
    turns, notes = turns_of(
        [message for row, message in enumerate(messages) if row not in broken],
        [uuid for row, uuid in enumerate(uuids) if row not in broken],
        model=model,
        is_paired=is_paired,
        id_limit=RESPONSES_ID_LIMIT,
        fit=_fit_for_responses,
    )
    for row in left_out:
        notes.uuid = uuids[row]
        notes.add(UNFOLLOWED)
    notes.uuid = ""
    parts = (part for turn in turns for part in turn.parts)
    native = {p.id for p in parts if isinstance(p, Result) and kind_of(p.stored or {})}
    items = ItemMaker(notes, native)
    made: list[dict[str, Any]] = []
    for turn in turns:
        make = items.assistant if turn.side == "assistant" else items.user
        made.extend(make(turn.parts))
    lead = {"instructions": text} if (text := clean_system(system)) else {}
    return ResponsesRequest({**lead, "input": made}, notes.warnings())


def _left_alone(messages: Sequence[Message], responses: Sequence[str | None]) -> list[int]:
    """The rows of reasoning whose response has no whole item behind it.

    The response was killed, and the next one answers the same prompt.
    """
    found: list[int] = []
    led_to: str | None = None
    for row in reversed(range(len(responses))):
        if kind_of(messages[row]) != "reasoning":
            led_to = led_to if is_partial(messages[row]) else responses[row]
        elif responses[row] is not None and led_to not in (None, responses[row]):
            found.append(row)
    return found[::-1]


def _fit_for_responses(turns: Sequence[SideTurn], notes: RequestNotes) -> list[SideTurn]:
    fit: list[SideTurn] = []
    lost = False  # whether the last reasoning was left out, to which ids may belong
    for turn in turns:
        fitted, lost = _fit_turn(turn, lost, notes)
        fit.append(fitted)
    return fit


def _fit_turn(turn: SideTurn, lost: bool, notes: RequestNotes) -> tuple[SideTurn, bool]:
    """The turn with only the parts that Responses accepts; no ids behind lost reasoning."""
    kept: list[Part] = []
    for row, part in enumerate(turn.parts):
        if isinstance(part, ProviderBlock) and part.maker not in ("openai", None):
            part.leave_out(notes)
            continue
        if isinstance(part, Thinking):
            lack = _lack_of(part, turn.parts[row + 1 :])
            lost = lack is not None
            if lack is not None:
                notes.add(lack)
                continue
        elif lost and isinstance(part, TextPart | SentCall):
            part = replace(part, item_id=None)
        kept.append(part)
    return SideTurn(turn.side, kept), lost


def _lack_of(thinking: Thinking, rest: Sequence[Part]) -> str | None:
    """Why thinking is left out of a request, given what follows it; None if it is sent."""
    if thinking.maker != "openai":
        return "thinking without encrypted content of OpenAI was left out"
    return None if _leads_on(thinking, rest) else UNFOLLOWED


def _leads_on(thinking: Thinking, rest: Sequence[Part]) -> bool:
    """True if the next item is one that reasoning led to: whole, and no other reasoning.

    After reasoning at the end of an answer that broke off, the reasoning of the next answer comes.
    """
    if _is_compaction(thinking):
        return True
    led_to = next((part for part in rest if not _is_compaction(part)), None)
    if isinstance(led_to, ProviderBlock):
        return led_to.maker == "openai" and kind_of(led_to.block) != "message"  # a broken one
    if isinstance(led_to, TextPart | SentCall) and (thinking.item or {}).get("id"):
        return led_to.item_id is not None  # what broke off has none
    return led_to is not None and not isinstance(led_to, Thinking)


def _is_compaction(part: Part) -> bool:
    item = part.item if isinstance(part, Thinking) else None
    return item is not None and item["type"] == "compaction"


class ItemMaker:
    """Makes the items of the parts of a message; uses each id once.

    `native` has the ids of the calls whose results go back as they were stored.
    """

    def __init__(self, notes: RequestNotes, native: Collection[str] = ()) -> None:
        self._notes = notes
        self._native = native
        self._used: set[str] = set()

    def assistant(self, parts: Sequence[Part]) -> Iterator[dict[str, Any]]:
        run: list[TextPart | ProviderBlock] = []
        for part in parts:
            if isinstance(part, Media):
                part = TextPart(instead_of(part, self._notes), source=part.source)
            is_said = isinstance(part, TextPart | ProviderBlock)
            if run and not (is_said and _item_of(part) == _item_of(run[0])):
                yield from self._message(run)
                run = []
            if isinstance(part, TextPart | ProviderBlock):
                run.append(part)
            elif isinstance(part, SentCall):
                yield self._call(part)
            elif isinstance(part, Thinking):
                yield self._sealed(part)
        if run:
            yield from self._message(run)

    def _fit(self, stored: Mapping[str, Any] | None, made: dict[str, Any]) -> dict[str, Any]:
        """An item or a part, with what is stored of it beside what was made of it."""
        if stored is None or kind_of(stored) != made["type"]:
            return made
        kept = RESPONSES.fit(stored, self._notes)
        kept.pop("id", None)  # which only its first use has
        return {**kept, **made}

    def _own_id(self, id: str | None) -> str | None:
        """An item's id where it may be sent: fit, and used for the first time."""
        if id is None or not is_fit(id, RESPONSES_ID_LIMIT) or id in self._used:
            return None
        self._used.add(id)
        return id

    def _message(self, run: Sequence[TextPart | ProviderBlock]) -> Iterator[dict[str, Any]]:
        if isinstance(whole := run[0], ProviderBlock) and whole.is_item:
            yield self._item(whole)
            return
        texts = [part for part in run if isinstance(part, TextPart)]
        id = self._own_id(texts[0].item_id) if texts else None
        item: dict[str, Any] = {"type": "message", "role": "assistant"}
        if id is not None:
            status = (run[0].source or {}).get("status")
            known = status if status in ("in_progress", "incomplete") else "completed"
            item |= {"id": id, "status": known, "content": [self._said(part) for part in run]}
        elif texts:
            for part in run:
                self._note_lost(part)
            item["content"] = "\n\n".join(text.text for text in texts)
        else:
            for part in run:
                self._note_lost(part)
            return
        if texts and texts[0].phase:
            item["phase"] = texts[0].phase
        yield item

    def _note_lost(self, part: TextPart | ProviderBlock) -> None:
        if isinstance(part, TextPart):
            note_citations(part, self._notes)
        else:
            part.leave_out(self._notes)

    def _said(self, part: TextPart | ProviderBlock) -> dict[str, Any]:
        if isinstance(part, ProviderBlock):
            note_unknown(part.block, part.maker, self._notes)
            return RESPONSES.fit(part.block, self._notes)
        if kind_of(part.stored or {}) == "refusal":
            return {"type": "refusal", "refusal": part.text}
        made = {"type": "output_text", "text": part.text}
        return {"annotations": [], **self._fit(part.stored, made)}

    def _item(self, part: ProviderBlock) -> dict[str, Any]:
        item = RESPONSES.fit(part.block, self._notes)
        if kind_of(item) != "item_reference" and isinstance(item.get("id"), str):
            item["id"] = self._unique_id(item["id"])
        return item

    def _unique_id(self, wanted: str) -> str:
        """An id that was not given before: the wanted one, or one made of it."""
        id, again = self._own_id(wanted), 0
        while id is None:
            id = self._own_id(f"{wanted.partition('_')[0][:8]}_{digest(f'{wanted} {again}')}")
            again += 1
        return id

    def _call(self, call: SentCall) -> dict[str, Any]:
        kind = kind_of(call.stored or {})
        if kind in CALL_ITEMS and kind not in ("function_call", "custom_tool_call"):
            if call.id in self._native:
                item = self._fit(call.stored, {"type": kind, "call_id": call.id})
                return {**item, "id": self._unique_id(call.item_id or f"call_{call.id}")}
            self._notes.add(as_function(kind))
        name = sent_name(call, self._notes)
        item = {"type": "function_call", "call_id": call.id, "name": name}
        if call.freeform:
            item["type"] = "custom_tool_call"
            item["input"] = call.arguments
        else:
            item["arguments"] = arguments_of(call)
        if id := self._own_id(call.item_id):
            item["id"] = id
        return self._fit(call.stored, item)

    def _sealed(self, thinking: Thinking) -> dict[str, Any]:
        item = dict(thinking.item or {})
        item["id"] = self._unique_id(item["id"] or f"rs_{digest(thinking.seal)}")
        return self._fit(thinking.stored, item)

    def user(self, parts: Sequence[Part]) -> Iterator[dict[str, Any]]:
        for part in parts:
            if isinstance(part, Result):
                yield self._result(part)
        for role, run in by_message(parts):
            if isinstance(whole := run[0], ProviderBlock) and whole.is_item:
                yield self._item(whole)
                continue
            is_plain = kind_of(getattr(whole, "stored", None) or {}) != "input_text"
            content = only_text(run) if is_plain else None
            made = {"type": "message", "role": role}
            said = content or [self._content_part(part) for part in run]
            yield {**made, "content": said}

    def _result(self, result: Result) -> dict[str, Any]:
        stored = result.stored or {}
        kind = kind_of(stored)
        if kind in RESULT_ITEMS and kind not in ("function_call_output", "custom_tool_call_output"):
            key = "call_id" if "call_id" in RESPONSES.keys[kind] else "id"
            made: dict[str, Any] = {"type": kind, key: result.id}
        else:
            kind = "custom_tool_call" if result.freeform else "function_call"
            made = {"type": f"{kind}_output", "call_id": result.id}
            made["output"] = self._output(result)
        item = self._fit(result.stored, made)
        if "id" not in item and (id := self._own_id(text_or(stored.get("id")) or None)):
            item["id"] = id
        return item

    def _output(self, result: Result) -> str | list[dict[str, Any]]:
        is_text = all(
            isinstance(part, TextPart) and kind_of(part.stored or {}) != "input_text"
            for part in result.parts
        )
        if is_text:
            return output_text(result)
        lead = [TextPart(FAILED)] if result.failed else []
        return [self._content_part(part) for part in (*lead, *result.parts)]

    def _content_part(self, part: Said) -> dict[str, Any]:
        if isinstance(part, ProviderBlock):
            note_unknown(part.block, part.maker, self._notes)
            return RESPONSES.fit(part.block, self._notes)
        if isinstance(part, TextPart):
            note_citations(part, self._notes)
        return self._fit(part.stored, self._made_part(part))

    def _made_part(self, part: TextPart | Media) -> dict[str, Any]:
        if isinstance(part, TextPart):
            return {"type": "input_text", "text": part.text}
        own_file = part.file_id if part.file_host == "openai" else None
        if part.kind == "image":
            shown = {"type": "input_image", "detail": detail_of(part) or "auto"}
            if where := image_url(part):
                return {**shown, "image_url": where}
            if own_file:
                return {**shown, "file_id": own_file}
        elif is_sendable_data(part):
            return {"type": "input_file", **file_of(part)}
        elif part.url:
            return {"type": "input_file", "file_url": part.url}
        elif own_file:
            return {"type": "input_file", "file_id": own_file}
        return {"type": "input_text", "text": instead_of(part, self._notes)}


def _item_of(part: Part) -> tuple[Any, ...]:
    """What the parts of one message have in common."""
    if isinstance(part, TextPart):
        return id(part.source), part.item_id, part.phase
    source = part.source if isinstance(part, ProviderBlock) else None
    return id(source), None, None
