"""Parts: what messages of every provider are made of, whatever their shape.

Also the reading of media and of sealed thinking in every shape: Anthropic's `thinking` with a
`signature` and `redacted_thinking` with `data`; OpenAI's `reasoning` and `compaction` items with
`encrypted_content`; pi's `thinking` with a `thinkingSignature`, which holds the seal of the API
that the message came from: for OpenAI the whole item as JSON, for some the name of a field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from sessiontree.context.providers.values import (
    Notes,
    base64_of,
    clean_value,
    data_url_parts,
    fit_name,
    object_in,
    text_or,
)
from sessiontree.core.message import IMAGE_BLOCKS, Message, kind_of

Side = Literal["user", "assistant"]
MediaKind = Literal["image", "document"]


@dataclass(frozen=True, slots=True)
class Text:
    """Text."""

    text: str  # never empty, without lone surrogates
    item_id: str | None = None  # the id of its OpenAI Responses item, or None
    phase: str | None = None  # OpenAI's `commentary` or `final_answer`, or None
    instruction: bool = False  # whether its message had OpenAI's role `developer`


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


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call."""

    id: str  # the id in the session as read; in turns the one to send
    name: str  # the tool's name as stored; it may be empty or unfit
    arguments: Any  # an object, or text for a tool that takes free text
    freeform: bool = False  # whether the tool takes free text
    item_id: str | None = None  # the id of its OpenAI Responses item, or None


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a tool call."""

    id: str  # the call's id, as for `Call`
    parts: tuple[Text | Media, ...]  # text and media
    failed: bool = False  # whether it is marked as an error
    name: str = ""  # the tool's name, empty where it is not known
    freeform: bool = False  # whether the call had free text


@dataclass(frozen=True, slots=True)
class Hosted:
    """A call or a result of a tool that Anthropic itself ran."""

    id: str  # of the call, in both
    block: dict[str, Any]  # as stored


Part = Text | Media | Thinking | Call | Result | Hosted


_IMAGES: Final = IMAGE_BLOCKS | {"computer_screenshot"}
_DOCUMENTS: Final = frozenset({"document", "file", "input_file"})
_SPELLED: Final = {"image/jpg": "image/jpeg"}


def media_in(block: Mapping[str, Any]) -> Media | None:
    """The image or document of a block; None for another kind of block.

    A block that cannot be read gives an empty `Media`.
    """
    kind = kind_of(block)
    if kind in _IMAGES:
        return _image(block)
    return _document(block) if kind in _DOCUMENTS else None


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


def cannot_be_sent(media: Media, provider: str, notes: Notes) -> str:
    """Text in place of an image or a document that a provider does not accept; noted."""
    notes.add(f"the {stand_in(media)[1:-1]} cannot be sent to {provider}; its name is sent instead")
    return stand_in(media)


def sent_name(call: Call, notes: Notes) -> str:
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
        return _of_item(block)
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
