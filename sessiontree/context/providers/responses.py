"""A context for OpenAI's Responses API.

The rules (https://platform.openai.com/docs/api-reference/responses): the system text is
`instructions`; calls and results are items of their own, tied by a `call_id` of at most 64
characters; a call of a custom tool is answered by a custom output; a `reasoning` item comes back
with its encrypted content, without the text, and followed by what it led to; the ids of items are
sent only beside the reasoning they belong to, and no two items share one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
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
from sessiontree.context.providers.turns import Turn, turns_of
from sessiontree.context.providers.values import Notes, Request, clean_system, digest, is_fit
from sessiontree.core.message import Message, kind_of

ID_LIMIT: Final = 64


def request(
    messages: Sequence[Message], uuids: Sequence[str], *, system: str | None, model: str | None
) -> Request:
    """`instructions` and `input` of the Responses API, from the arguments of `turns_of`."""
    turns, notes = turns_of(messages, uuids, model=model, id_limit=ID_LIMIT, fit=_fit)
    items = Items(notes)
    made: list[dict[str, Any]] = []
    for turn in turns:
        make = items.assistant if turn.side == "assistant" else items.user
        made.extend(make(turn.parts))
    lead = {"instructions": text} if (text := clean_system(system)) else {}
    return Request({**lead, "input": made}, notes.warnings())


def _fit(turn: Turn, notes: Notes) -> Turn:
    """The turn with only the parts that Responses accepts; ids only beside their reasoning."""
    if turn.side == "user":
        return turn
    kept: list[Part] = []
    lost = False
    for place, part in enumerate(turn.parts):
        if isinstance(part, Hosted):
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
        kept = [replace(p, item_id=None) if isinstance(p, Text | Call) else p for p in kept]
    return Turn("assistant", kept)


def _leads_on(thinking: Thinking, rest: Sequence[Part]) -> bool:
    if thinking.item is not None and thinking.item["type"] == "compaction":
        return True
    return any(isinstance(part, Text | Call | Media) for part in rest)


class Items:
    """Makes the items of the parts of a message; uses each id once."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._used: set[str] = set()

    def assistant(self, parts: Sequence[Part]) -> Iterator[dict[str, Any]]:
        run: list[Text] = []
        for part in parts:
            if isinstance(part, Media):
                part = Text(openai.instead_of(part, self._notes))
            if run and not (isinstance(part, Text) and _item_of(part) == _item_of(run[0])):
                yield self._message(run)
                run = []
            if isinstance(part, Text):
                run.append(part)
            elif isinstance(part, Call):
                yield self._call(part)
            elif isinstance(part, Thinking):
                yield self._sealed(part)
        if run:
            yield self._message(run)

    def _own_id(self, id: str | None) -> str | None:
        """An item's id where it may be sent: fit, and used for the first time."""
        if id is None or not is_fit(id, ID_LIMIT) or id in self._used:
            return None
        self._used.add(id)
        return id

    def _message(self, run: Sequence[Text]) -> dict[str, Any]:
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

    def _call(self, call: Call) -> dict[str, Any]:
        name = sent_name(call, self._notes)
        item: dict[str, Any] = {"type": "function_call", "call_id": call.id, "name": name}
        if call.freeform:
            item["type"] = "custom_tool_call"
            item["input"] = call.arguments
        else:
            item["arguments"] = openai.arguments_of(call)
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
        for role, run in openai.by_authority(parts):
            content = openai.only_text(run) or [self._content_part(part) for part in run]
            yield {"type": "message", "role": role, "content": content}

    def _output(self, result: Result) -> str | list[dict[str, Any]]:
        if all(isinstance(part, Text) for part in result.parts):
            return openai.output_text(result)
        lead = [Text(openai.FAILED)] if result.failed else []
        return [self._content_part(part) for part in (*lead, *result.parts)]

    def _content_part(self, part: Text | Media) -> dict[str, Any]:
        if isinstance(part, Text):
            return {"type": "input_text", "text": part.text}
        own_file = part.file_id if part.file_host == "openai" else None
        if part.kind == "image":
            if where := openai.image_url(part):
                return {"type": "input_image", "image_url": where, "detail": "auto"}
            if own_file:
                return {"type": "input_image", "file_id": own_file, "detail": "auto"}
        elif openai.is_sendable_data(part):
            return {"type": "input_file", **openai.file_of(part)}
        elif part.url:
            return {"type": "input_file", "file_url": part.url}
        elif own_file:
            return {"type": "input_file", "file_id": own_file}
        return {"type": "input_text", "text": openai.instead_of(part, self._notes)}


def _item_of(text: Text) -> tuple[str | None, str | None]:
    return text.item_id, text.phase
