"""Messages of any shape read into parts, each on the user's side or the assistant's.

Every message gives some parts, or none and a note with the reason. The calls and results are those
of `message.calls_of` and `message.result_ids`, so that what the pairing answered is what is sent.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from sessiontree.context.providers.parts import (
    Call,
    Hosted,
    Media,
    Part,
    Result,
    Side,
    Text,
    maker_of,
    media_in,
    thinking_in,
)
from sessiontree.context.providers.values import (
    Notes,
    base64_of,
    clean_text,
    clean_value,
    object_in,
    text_or,
)
from sessiontree.context.resolved import LONGEST_TEXT, fenced
from sessiontree.core.media import base_type, is_text, text_in
from sessiontree.core.message import (
    CALL_BLOCKS,
    CALL_ITEMS,
    RESULT_BLOCKS,
    RESULT_ITEMS,
    THOUGHT_BLOCKS,
    Message,
    answers_no_call,
    is_partial,
    json_text,
    kind_of,
    result_ids,
    text_of,
)

_TEXTS: Final = frozenset({"text", "input_text", "output_text"})
_THINKING: Final = THOUGHT_BLOCKS | {"compaction"}
_CUSTOM: Final = frozenset({"custom", "hookMessage"})
_SUMMARIES: Final = {
    "compactionSummary": "The earlier part of this conversation was replaced by this summary:",
    "branchSummary": "This summary tells of another branch of this conversation:",
}
_SAID: Final = ("content", "tool_calls", "function_call", "refusal", "audio")
ASSISTANTS: Final = frozenset({"assistant", "model"})


class Reading:
    """Reads messages into parts; notes what could not be read unchanged.

    `model` is the id of the model in force; None where it is not known.
    """

    def __init__(self, notes: Notes, model: str | None) -> None:
        self.notes = notes
        self._model = model

    def parts_of(self, message: Message) -> Iterator[tuple[Side, Part]]:
        """The parts of a message in order, each with its side."""
        role = message.get("role")
        kind = kind_of(message)
        if answers_no_call(message):
            self.notes.add("an output that answers no call was sent as the user's text")
            yield from self._blocks({"content": message.get("output")}, "user")
        elif role == "toolResult" or role == "tool" or kind in RESULT_ITEMS:
            yield "user", self._result_message(message)
        elif kind in CALL_ITEMS:
            yield from self._edited(message)
            yield from self._call_item(message, kind)
        elif role is None and kind in _THINKING:
            edited = isinstance(message.get("content"), str)
            yield from self._edited(message) if edited else self._thinking(message, message)
        elif isinstance(role, str):
            yield from self._spoken(message, role)
        else:
            self.notes.add(f"an item of the kind {kind!r} was left out")

    def _edited(self, item: Message) -> Iterator[tuple[Side, Part]]:
        if isinstance(item.get("content"), str):
            yield from self._texts(item["content"], "assistant")

    def _spoken(self, message: Message, role: str) -> Iterator[tuple[Side, Part]]:
        if role in _SUMMARIES:
            yield from self._texts(_summary_text(message, _SUMMARIES[role]))
        elif role == "bashExecution" and message.get("excludeFromContext"):
            self.notes.add("a command was left out, as it was run to stay out of the context")
        elif role == "bashExecution":
            yield from self._texts(_command_text(message))
        elif role in ASSISTANTS:
            yield from self._answer(message)
        else:
            if role not in _CUSTOM and role not in ("user", "developer"):
                self.notes.add(f"a message of the role {role!r} is sent as the user's")
            yield from self._blocks(message, "user")
            yield from self._chat_calls(message)

    def _answer(self, message: Message) -> Iterator[tuple[Side, Part]]:
        if _is_empty(message):
            self.notes.add("an answer without content was left out")
        said = (
            *self._blocks(message, "assistant"),
            *self._chat_calls(message),
            *self._texts(message.get("refusal"), "assistant"),
        )
        # Thinking alone is never sent: it leads to nothing.
        is_sent = any(isinstance(part, Text | Media | Call) for _, part in said)
        if is_sent and is_partial(message):
            self.notes.add("a message that broke off was sent as far as it came")
        yield from said

    def _blocks(self, message: Message, side: Side) -> Iterator[tuple[Side, Part]]:
        content = message.get("content")
        if isinstance(content, str):
            yield from self._texts(content, side, message)
        elif isinstance(content, list):
            for block in content:
                if isinstance(block, str):
                    yield from self._texts(block, side, message)
                elif isinstance(block, Mapping):
                    yield from self._block(block, side, message)
                else:
                    self.notes.add("a content block that is not an object was left out")
        elif content is not None:
            self.notes.add("content that is neither text nor a list was left out")

    def _block(
        self, block: Mapping[str, Any], side: Side, message: Message
    ) -> Iterator[tuple[Side, Part]]:
        kind = kind_of(block)
        if kind in _TEXTS:
            if block.get("citations") or block.get("annotations"):
                self.notes.add("a text was sent without its citations")
            yield from self._texts(block.get("text"), side, message, kind)
        elif kind in CALL_BLOCKS:
            arguments = block.get("arguments", block.get("input"))
            yield from self._call(block.get("id"), block.get("name"), arguments)
        elif kind in RESULT_BLOCKS:
            id, failed = text_or(block.get("tool_use_id")), block.get("is_error") is True
            yield "user", Result(id, self._result_parts(block.get("content")), failed)
        elif kind in _THINKING:
            yield from self._thinking(block, message)
        elif kind == "refusal":
            yield from self._texts(block.get("refusal"), side, message)
        elif (document := self._text_document(block)) is not None:
            yield from self._texts(document, side)
        elif media := media_in(block):
            yield side, media
        elif kind == "server_tool_use" or kind.endswith("_tool_result"):
            yield from self._hosted(block)
        elif isinstance(block.get("text"), str):
            yield from self._texts(block["text"], side, message)
        else:
            self.notes.add(f"a content block of the kind {kind!r} was left out")

    def _texts(
        self, text: Any, side: Side = "user", message: Message | None = None, kind: str = "text"
    ) -> Iterator[tuple[Side, Text]]:
        """A text, unless it is blank: providers refuse such text."""
        if not isinstance(text, str) or not text:
            return
        if text.isspace():
            self.notes.add("text of nothing but white space was left out")
            return
        clean = self._clean(text)
        if message is None:
            yield side, Text(clean)
        elif side == "user":
            yield side, Text(clean, instruction=message.get("role") == "developer")
        else:
            phase = message.get("phase")
            known = phase if phase in ("commentary", "final_answer") else None
            id = message.get("id") if kind == "output_text" else None
            yield side, Text(clean, id if isinstance(id, str) else None, known)

    def _clean(self, text: str) -> str:
        clean = clean_text(text)
        if clean is not text:
            self.notes.add("lone surrogates in a text were replaced")
        return clean

    def _thinking(self, block: Mapping[str, Any], message: Message) -> Iterator[tuple[Side, Part]]:
        thinking = thinking_in(block, maker_of(message))
        named = message.get("model")
        if thinking.seal and self._model and isinstance(named, str) and named != self._model:
            self.notes.add("thinking of another model was left out: its seal binds it to that one")
        elif thinking.seal or thinking.text or thinking.item:
            yield "assistant", thinking

    def _hosted(self, block: Mapping[str, Any]) -> Iterator[tuple[Side, Part]]:
        id = block.get("id", block.get("tool_use_id"))
        if isinstance(id, str):
            yield "assistant", Hosted(id, dict(block))
        else:
            self.notes.add(f"a content block of the kind {kind_of(block)!r} was left out")

    def _chat_calls(self, message: Message) -> Iterator[tuple[Side, Part]]:
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if not isinstance(call, Mapping):
                self.notes.add("a tool call that is not an object was left out")
                continue
            freeform = isinstance(call.get("custom"), Mapping) and not call.get("function")
            made = call.get("custom") if freeform else call.get("function")
            made = made if isinstance(made, Mapping) else {}
            arguments = made.get("arguments", made.get("input"))
            yield from self._call(call.get("id"), made.get("name"), arguments, freeform=freeform)
        if message.get("function_call"):
            self.notes.add("a function call without an id was left out")

    def _call_item(self, item: Message, kind: str) -> Iterator[tuple[Side, Part]]:
        name = item.get("name")
        if kind not in ("function_call", "custom_tool_call"):
            name = name or kind.removesuffix("_call")
            self.notes.add(f"a {kind} was written as the call of a function")
        asked = (item.get(key) for key in ("arguments", "input", "action", "operation"))
        arguments = next((value for value in asked if value is not None), None)
        own = item.get("id")
        freeform = kind == "custom_tool_call"
        for side, call in self._call(item.get("call_id"), name, arguments, freeform=freeform):
            yield side, replace(call, item_id=own if isinstance(own, str) else None)

    def _call(
        self, id: Any, name: Any, arguments: Any, *, freeform: bool = False
    ) -> Iterator[tuple[Side, Call]]:
        if not isinstance(id, str):
            self.notes.add(f"a call of {name or 'a tool'} without an id was left out")
            return
        free = freeform and isinstance(arguments, str)
        given = self._clean(arguments) if free else self._arguments(arguments)
        own = id.partition("|")[2]  # pi's ids of Responses calls hold the item's too
        yield "assistant", Call(id, text_or(name), given, free, own or None)

    def _arguments(self, arguments: Any) -> Any:
        """An object, or the text of one. Text that is sound JSON stays as the model wrote it."""
        if arguments is None or arguments == "":
            return {}
        if isinstance(arguments, str):
            if object_in(arguments) is not None:
                return self._clean(arguments)
            self.notes.add("arguments that are not a JSON object were put into one")
            return {"arguments": self._clean(arguments)}
        if not isinstance(arguments, Mapping):
            self.notes.add("arguments that are not a JSON object were put into one")
            arguments = {"arguments": arguments}
        try:
            clean = clean_value(dict(arguments))
        except RecursionError:
            self.notes.add("arguments nested too deep were left out")
            return {}
        if clean != arguments:
            self.notes.add("arguments that JSON cannot carry were replaced")
        return clean

    def _result_message(self, message: Message) -> Result:
        (id,) = result_ids(message)
        content = message.get("content", message.get("output"))
        name, failed = text_or(message.get("toolName")), message.get("isError") is True
        freeform = kind_of(message) == "custom_tool_call_output"
        return Result(id, self._result_parts(content), failed, name, freeform)

    def _result_parts(self, content: Any) -> tuple[Text | Media, ...]:
        blocks = content if isinstance(content, list) else [content]
        return tuple(part for block in blocks for part in self._parts_of_result(block))

    def _parts_of_result(self, block: Any) -> Iterator[Text | Media]:
        if block is None:
            return
        if isinstance(block, Mapping):
            text = block.get("text") if kind_of(block) in _TEXTS else self._text_document(block)
            if text is None and (media := media_in(block)):
                yield media
                return
            block = text if isinstance(text, str) else json_text(block)
        text = block if isinstance(block, str) else json_text(block)
        yield from (part for _, part in self._texts(text))

    def _text_document(self, block: Mapping[str, Any]) -> str | None:
        source = block.get("source")
        if kind_of(block) != "document" or not isinstance(source, Mapping):
            return None
        text, title = source.get("data"), block.get("title")
        if kind_of(source) == "content":
            text = text_of(source)
        elif kind_of(source) != "text":
            text = self._text_of_bytes(source) if kind_of(source) == "base64" else None
        if not isinstance(text, str):
            return None
        return f"{title}\n\n{text}" if isinstance(title, str) and title else text

    def _text_of_bytes(self, source: Mapping[str, Any]) -> str | None:
        media_type, data = base_type(text_or(source.get("media_type"))), source.get("data")
        if not is_text(media_type) or (encoded := base64_of(data)) is None:
            return None
        found = text_in(content) if len(content := b64decode(encoded)) <= LONGEST_TEXT else None
        if found and found[1]:
            self.notes.add("bytes of a text that are not UTF-8 were replaced")
        return fenced(found[0]) if found else None


def _is_empty(message: Message) -> bool:
    """Whether an assistant message says nothing, in any shape."""
    return not any(message.get(key) for key in _SAID)


def _summary_text(message: Message, lead: str) -> str:
    text = text_of(message) or text_or(message.get("summary"))
    return f"{lead}\n\n<summary>\n{text}\n</summary>" if text.strip() else ""


def _command_text(message: Message) -> str:
    output = text_or(message.get("output")) or text_of(message)
    lines = [f"The user ran `{text_or(message.get('command'))}`:"]
    lines.append(fenced(output.rstrip("\n")) if output.strip() else "(no output)")
    if message.get("cancelled"):
        lines.append("The command was cancelled.")
    elif (code := message.get("exitCode")) not in (None, 0):
        lines.append(f"The command ended with exit code {json.dumps(code)}.")
    if message.get("truncated"):
        whole = text_or(message.get("fullOutputPath"))
        lines.append("The output was cut" + (f"; the whole is in {whole}." if whole else "."))
    return "\n".join(lines)
