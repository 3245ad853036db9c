"""Messages of any shape read into the parts of a request.

Messages of any shape read into parts, each on the user's side or the assistant's. Every message
gives some parts, or none and a note with the reason. The calls and results are those of
`message.calls_of` and `message.result_ids`, so that what the pairing answered is what is sent.

Parts: what messages of every provider are made of, whatever their shape. Also the reading of media
and of sealed thinking in every shape: Anthropic's `thinking` with a `signature` and
`redacted_thinking` with `data`; OpenAI's `reasoning` and `compaction` items with
`encrypted_content`; pi's `thinking` with a `thinkingSignature`, which holds the seal of the API
that the message came from: for OpenAI the whole item as JSON, for some the name of a field.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from sessiontree.context.providers.accepted import is_of_anthropic, is_of_openai
from sessiontree.context.providers.values import (
    RequestNotes,
    base64_of,
    clean_noted,
    clean_value,
    data_url_parts,
    fit_name,
    is_same_model,
    object_in,
    text_or,
)
from sessiontree.context.resolved import LONGEST_TEXT, fenced
from sessiontree.core.media import base_type, is_text, text_in
from sessiontree.core.message import (
    CALL_BLOCKS,
    CALL_ITEMS,
    IMAGE_BLOCKS,
    RESPONSES_ITEMS,
    RESULT_BLOCKS,
    RESULT_ITEMS,
    THOUGHT_BLOCKS,
    Message,
    answers_no_call,
    is_partial,
    json_text,
    kind_of,
    result_ids,
    role_of,
    text_of,
)

Side = Literal["user", "assistant"]
MediaKind = Literal["image", "document"]


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text."""

    text: str  # never empty, without lone surrogates
    item_id: str | None = None  # the id of its OpenAI Responses item, or None
    phase: str | None = None  # OpenAI's `commentary` or `final_answer`, or None
    instruction: bool = False  # whether its message had OpenAI's role `developer`
    # the block and the message that it was read from, or None
    stored: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    source: Message | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Media:
    """An image or a document: exactly one of bytes, address, or a provider's file."""

    kind: MediaKind
    data: str | None = None  # base64 of the bytes, or None
    media_type: str = ""  # such as `image/png`; empty where it is not known
    url: str | None = None  # an http(s) address, or None
    file_id: str | None = None  # the id of a file that `file_host` keeps, or None
    file_host: str = ""  # `anthropic` or `openai`
    name: str | None = None  # the file's name or title, or None
    # as for `TextPart`
    stored: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    source: Message | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Thinking:
    """Thinking of a model, sealed so that only its maker can read or check it.

    A seal is bound to the model. So thinking is sent back only while that model is in force.
    """

    text: str  # the thinking where it can be read; empty for Responses (see `told`)
    seal: str  # the signature, the redacted data, or the encrypted content
    maker: str  # `anthropic` or `openai`; empty for others, or without a seal
    redacted: bool = False  # whether it is an Anthropic block without text
    item: dict[str, Any] | None = None  # the Responses item, `reasoning` or `compaction`, or None
    told: str = ""  # the readable text of such an item
    # as for `TextPart`
    stored: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SentCall:
    """A tool call."""

    id: str  # the id in the session as read; in turns the one to send
    name: str  # the tool's name as stored; it may be empty or unfit
    arguments: Any  # an object, or text for a tool that takes free text
    freeform: bool = False  # whether the tool takes free text
    item_id: str | None = None  # the id of its OpenAI Responses item, or None
    # as for `TextPart`
    stored: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a tool call."""

    id: str  # the call's id, as for `SentCall`
    parts: tuple[TextPart | Media, ...]  # text and media
    failed: bool = False  # whether it is marked as an error
    name: str = ""  # the tool's name, empty where it is not known
    freeform: bool = False  # whether the call had free text
    # as for `TextPart`
    stored: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class ProviderBlock:
    """A block or an item that only its maker reads, such as a call of a tool that it runs itself.

    `maker` is `anthropic` or `openai`, empty for others, and None if nothing says whose it is.
    """

    block: Mapping[str, Any]  # as stored
    maker: str | None
    is_item: bool = False  # whether it is an item of OpenAI Responses, not a block in a message
    # as for `TextPart`
    source: Message | None = field(default=None, compare=False, repr=False)

    entry: str = ""  # the uuid of the entry that it was read from

    @property
    def id(self) -> str:
        """The id of the call, in the call and in its result; empty without one."""
        block = self.block
        return text_or(block.get("tool_use_id")) or text_or(block.get("id"))

    def leave_out(self, notes: RequestNotes) -> None:
        """Note that the block is left out."""
        notes.uuid = self.entry
        notes.add(f"a block of the kind {kind_of(self.block)!r} was left out")
        notes.uuid = ""


Part = TextPart | Media | Thinking | SentCall | Result | ProviderBlock


_IMAGES: Final = IMAGE_BLOCKS | {"computer_screenshot"}
_DOCUMENTS: Final = frozenset({"document", "file", "input_file"})
_SPELLED: Final = {"image/jpg": "image/jpeg"}


def media_in(block: Mapping[str, Any]) -> Media | None:
    """The image or document of a block; None for another kind of block.

    A block that cannot be read gives an empty `Media`.
    """
    kind = kind_of(block)
    if kind not in _IMAGES and kind not in _DOCUMENTS:
        return None
    media = _image(block) if kind in _IMAGES else _document(block)
    return media if "mimeType" in block else replace(media, stored=block)


def _image(block: Mapping[str, Any]) -> Media:
    if isinstance(block.get("source"), Mapping):
        return _sourced("image", block["source"])
    if "data" in block:  # pi's
        return _encoded("image", block["data"], block.get("mimeType"))
    address = block.get("image_url")
    if isinstance(address, Mapping):
        address = address.get("url")
    return _located("image", address, block.get("file_id"))


def _document(block: Mapping[str, Any]) -> Media:
    if isinstance(block.get("source"), Mapping):
        return _sourced("document", block["source"], text_or(block.get("title")) or None)
    file = block.get("file")
    file = file if isinstance(file, Mapping) else block
    name = text_or(file.get("filename")) or None
    data = file.get("file_data")
    if isinstance(data, str) and not data.startswith("data:"):
        return _encoded("document", data, "application/pdf", name)
    return _located("document", data or file.get("file_url"), file.get("file_id"), name)


def _sourced(kind: MediaKind, source: Mapping[str, Any], name: str | None = None) -> Media:
    how = kind_of(source)
    if how == "base64":
        return _encoded(kind, source.get("data"), source.get("media_type"), name)
    if how == "file" and isinstance(source.get("file_id"), str):
        return Media(kind, file_id=source["file_id"], file_host="anthropic", name=name)
    return _located(kind, source.get("url"), None, name)


def _located(kind: MediaKind, address: Any, file_id: Any, name: str | None = None) -> Media:
    if isinstance(address, str) and address:
        if parts := data_url_parts(address):
            return _encoded(kind, parts[1], parts[0], name)
        if address.lower().startswith(("http://", "https://")):
            return Media(kind, url=text_or(address), name=name)
    elif known := text_or(file_id):
        return Media(kind, file_id=known, file_host="openai", name=name)
    return Media(kind, name=name)


def _encoded(kind: MediaKind, data: Any, media_type: Any, name: str | None = None) -> Media:
    spelled = text_or(media_type).lower()
    return Media(kind, base64_of(data), _SPELLED.get(spelled, spelled), name=name)


def stand_in(media: Media) -> str:
    """The name of an image or a document, in brackets."""
    name = media.name or media.media_type or media.url or media.file_id or "unreadable"
    return f"[{media.kind}: {name}]"


def cannot_be_sent(media: Media, provider: str, notes: RequestNotes) -> str:
    """Text in place of an image or a document that a provider does not accept; noted."""
    notes.add(f"the {stand_in(media)[1:-1]} cannot be sent to {provider}; its name is sent instead")
    return stand_in(media)


def sent_name(call: SentCall, notes: RequestNotes) -> str:
    """A tool's name, fit to be sent."""
    name = fit_name(call.name)
    if name != call.name:
        notes.add(f"the tool {call.name!r} is called {name!r}")
    return name


def maker_of(message: Message) -> str | None:
    """Who sealed the thinking of an assistant message: `anthropic`, `openai`, or empty for others.

    None where the message does not say; then the shape of the block decides.
    """
    api, provider, model = (text_or(message.get(k)).lower() for k in ("api", "provider", "model"))
    if api:
        if "anthropic" in api or ("bedrock" in api and "claude" in model):
            return "anthropic"
        return "openai" if "responses" in api else ""
    if provider in ("anthropic", "openai"):
        return provider
    if "claude" in model:
        return "anthropic"
    return "" if provider else None


def thinking_in(block: Mapping[str, Any], maker: str | None) -> Thinking:
    """The thinking of a block or an item, in a message whose seals `maker` made."""
    kind = kind_of(block)
    if kind in ("reasoning", "compaction"):
        return replace(_of_item(block), stored=block)
    made_by = "anthropic" if maker is None else maker
    if kind == "redacted_thinking":
        return _made(Thinking("", text_or(block.get("data")), made_by, redacted=True))
    text = text_or(block.get("thinking"))
    if signature := text_or(block.get("signature")):
        return _made(Thinking(text, signature, made_by))
    stored = text_or(block.get("thinkingSignature"))
    item = object_in(stored) if stored.startswith("{") else None
    if item is not None and kind_of(item) == "reasoning":
        return _of_item(item)
    if block.get("redacted") and made_by == "anthropic":
        return _made(Thinking("", stored, made_by, redacted=True))
    return _made(Thinking(text, stored, made_by))


def _made(thinking: Thinking) -> Thinking:
    """The thinking, or its text alone where it has no seal of a known maker."""
    is_sealed = thinking.seal and thinking.maker == "anthropic"
    return thinking if is_sealed else Thinking(thinking.text, "", "")


def _of_item(item: Mapping[str, Any]) -> Thinking:
    sealed = text_or(item.get("encrypted_content"))
    kept: dict[str, Any] = {"type": kind_of(item), "id": text_or(item.get("id"))}
    if kept["type"] == "reasoning":
        summary = item.get("summary")
        kept["summary"] = [
            {"type": "summary_text", "text": text_or(piece.get("text"))}
            for piece in (summary if isinstance(summary, list) else ())
            if isinstance(piece, Mapping)
        ]
    kept["encrypted_content"] = sealed
    made_by = "openai" if sealed else ""
    return Thinking("", sealed, made_by, item=clean_value(kept), told=_texts_of(item))


def _texts_of(item: Mapping[str, Any]) -> str:
    pieces = (
        text_or(piece.get("text"))
        for key in ("summary", "content")
        if isinstance(item.get(key), list)
        for piece in item[key]
        if isinstance(piece, Mapping)
    )
    return "\n\n".join(piece for piece in pieces if piece)


_TEXTS: Final = frozenset({"text", "input_text", "output_text"})
_SEALED: Final = THOUGHT_BLOCKS | {"compaction"}
_CUSTOM: Final = frozenset({"custom", "hookMessage"})
_SUMMARIES: Final = {
    "compactionSummary": "The earlier part of this conversation was replaced by this summary:",
    "branchSummary": "This summary tells of another branch of this conversation:",
}
_SAID: Final = ("content", "tool_calls", "function_call", "refusal", "audio")
ASSISTANTS: Final = frozenset({"assistant", "model"})
WITHOUT_CITATIONS: Final = "a text was sent without its citations"


def as_function(kind: str) -> str:
    """The note that the call of a built-in tool is sent as one of a function."""
    return f"a {kind} was written as the call of a function"


def note_citations(part: TextPart, notes: RequestNotes) -> None:
    """Note the citations of a text that is sent without them."""
    stored = part.stored
    if stored is not None and (stored.get("citations") or stored.get("annotations")):
        notes.add(WITHOUT_CITATIONS)


def _side_of(role: str) -> Side:
    return "user" if role == "user" else "assistant"


class MessageReader:
    """Reads messages into parts; notes what could not be read unchanged.

    `model` is the id of the model in force; None where it is not known. What a translation loses is
    noted if `translates`; a request, which may take what its provider wrote as it is, notes that
    itself.
    """

    def __init__(self, notes: RequestNotes, model: str | None, *, translates: bool = True) -> None:
        self.notes = notes
        self._model = model
        self._translates = translates
        self._source: Message | None = None  # the message that is read

    def parts_of(self, message: Message) -> Iterator[tuple[Side, Part]]:
        """The parts of a message in order, each with its side."""
        self._source = message
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
        elif role is None and kind in _SEALED:
            edited = isinstance(message.get("content"), str)
            yield from self._edited(message) if edited else self._thinking(message, message)
        elif isinstance(role, str) and kind not in RESPONSES_ITEMS:
            yield from self._spoken(message, role)
        else:
            yield (
                _side_of(role_of(message)),
                ProviderBlock(message, "openai", True, message, self.notes.uuid),
            )

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
        is_sent = any(not isinstance(part, Thinking) for _, part in said)
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
            if self._translates and (block.get("citations") or block.get("annotations")):
                self.notes.add(WITHOUT_CITATIONS)
            yield from self._texts(block.get("text"), side, message, block)
        elif kind in CALL_BLOCKS:
            arguments = block.get("arguments", block.get("input"))
            for on, call in self._call(block.get("id"), block.get("name"), arguments):
                yield on, replace(call, stored=block)
        elif kind in RESULT_BLOCKS:
            id, failed = text_or(block.get("tool_use_id")), block.get("is_error") is True
            parts = self._result_parts(block.get("content"))
            yield "user", Result(id, parts, failed, stored=block)
        elif kind == "reasoning" and is_partial(message):  # an item that was open
            self.notes.add("a block of the kind 'reasoning' broke off and was left out")
        elif kind in THOUGHT_BLOCKS or (kind == "compaction" and "id" in block):
            yield from self._thinking(block, message)
        elif kind == "refusal":
            yield from self._texts(block.get("refusal"), side, message, block)
        elif (document := self._text_document(block)) is not None:
            yield from self._texts(document, side, message, block)
        elif media := media_in(block):
            yield side, replace(media, source=self._source)
        elif is_of_anthropic(block) or not isinstance(block.get("text"), str):
            yield from self._of_provider(block, side, message)
        else:
            yield from self._texts(block["text"], side, message)

    def _of_provider(
        self, block: Mapping[str, Any], side: Side, message: Message
    ) -> Iterator[tuple[Side, ProviderBlock]]:
        if is_partial(message) and not isinstance(block.get("input", {}), Mapping):
            self.notes.add(f"a block of the kind {kind_of(block)!r} broke off and was left out")
            return
        maker: str | None = "anthropic" if is_of_anthropic(block) else "openai"
        if not is_of_anthropic(block) and not is_of_openai(block):
            maker = "" if "api" in message or not kind_of(block) else maker_of(message)
        yield side, ProviderBlock(block, maker, False, message, self.notes.uuid)

    def _texts(
        self,
        text: Any,
        side: Side = "user",
        message: Message | None = None,
        block: Mapping[str, Any] | None = None,
    ) -> Iterator[tuple[Side, TextPart]]:
        """A text, unless it is blank: providers refuse such text."""
        if not isinstance(text, str) or not text:
            return
        if text.isspace():
            self.notes.add("text of nothing but white space was left out")
            return
        clean = self._clean(text)
        source = self._source
        if message is None:
            yield side, TextPart(clean, stored=block, source=source)
            return
        stored = None if "api" in message else block  # pi's blocks have keys of their own
        if side == "user":
            is_instruction = message.get("role") == "developer"
            yield side, TextPart(clean, None, None, is_instruction, stored, source)
        else:
            phase = message.get("phase")
            known = phase if phase in ("commentary", "final_answer") else None
            is_output = block is not None and kind_of(block) in ("output_text", "refusal")
            id = message.get("id") if is_output else None
            own = id if isinstance(id, str) else None
            yield side, TextPart(clean, own, known, False, stored, source)

    def _clean(self, text: str) -> str:
        return clean_noted(text, self.notes)

    def _thinking(self, block: Mapping[str, Any], message: Message) -> Iterator[tuple[Side, Part]]:
        thinking = thinking_in(block, maker_of(message))
        named = message.get("model")
        if (
            thinking.seal
            and self._model
            and isinstance(named, str)
            and not is_same_model(named, self._model)
        ):
            self.notes.add("thinking of another model was left out: its seal binds it to that one")
        elif thinking.seal or thinking.text or thinking.item:
            yield "assistant", thinking

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
            if self._translates:
                self.notes.add(as_function(kind))
        asked = (item.get(key) for key in ("arguments", "input", "action", "operation"))
        arguments = next((value for value in asked if value is not None), None)
        own = item.get("id")
        freeform = kind == "custom_tool_call"
        for side, call in self._call(item.get("call_id"), name, arguments, freeform=freeform):
            item_id = own if isinstance(own, str) else None
            yield side, replace(call, item_id=item_id, stored=item)

    def _call(
        self, id: Any, name: Any, arguments: Any, *, freeform: bool = False
    ) -> Iterator[tuple[Side, SentCall]]:
        if not isinstance(id, str):
            self.notes.add(f"a call of {name or 'a tool'} without an id was left out")
            return
        free = freeform and isinstance(arguments, str)
        given = self._clean(arguments) if free else self._arguments(arguments)
        own = id.partition("|")[2]  # pi's ids of Responses calls hold the item's too
        yield "assistant", SentCall(id, text_or(name), given, free, own or None)

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
        stored = message if kind_of(message) in RESULT_ITEMS else None
        return Result(id, self._result_parts(content), failed, name, freeform, stored)

    def _result_parts(self, content: Any) -> tuple[TextPart | Media, ...]:
        blocks = content if isinstance(content, list) else [content]
        return tuple(part for block in blocks for part in self._parts_of_result(block))

    def _parts_of_result(self, block: Any) -> Iterator[TextPart | Media]:
        if block is None:
            return
        stored = block if isinstance(block, Mapping) else None
        if isinstance(block, Mapping):
            text = block.get("text") if kind_of(block) in _TEXTS else self._text_document(block)
            if text is None and (media := media_in(block)):
                yield replace(media, source=self._source)
                return
            block = text if isinstance(text, str) else json_text(block)
        text = block if isinstance(block, str) else json_text(block)
        yield from (part for _, part in self._texts(text, block=stored))

    def _text_document(self, block: Mapping[str, Any]) -> str | None:
        """The text of a document or a search result; None for another block."""
        source = block.get("source")
        if kind_of(block) == "search_result":
            heads = (block.get("title"), source, text_of(block))
            return "\n".join(head for head in heads if isinstance(head, str) and head) or None
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
    """True if an assistant message says nothing, in any shape."""
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
