"""Images and documents of every shape, read into one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from sessiontree.context.providers.part import Media
from sessiontree.context.providers.values import base64_of, data_url_parts, text_or
from sessiontree.core.message import IMAGE_BLOCKS, kind_of

_IMAGES: Final = IMAGE_BLOCKS | {"computer_screenshot"}
_DOCUMENTS: Final = frozenset({"document", "file", "input_file"})
_SPELLED: Final = {"image/jpg": "image/jpeg"}


def media_in(block: Mapping[str, Any]) -> Media | None:
    """The image or document that a block holds; None where it holds none.

    A block of such a kind that cannot be read gives a `Media` without anything in it.
    """
    kind = kind_of(block)
    if kind in _IMAGES:
        return _image(block)
    if kind in _DOCUMENTS:
        return _document(block)
    return None


def is_readable(media: Media) -> bool:
    """Whether there is anything in it."""
    return bool(media.data or media.url or media.file_id)


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
        return _sourced("document", block["source"], _name(block.get("title")))
    file = block.get("file")
    file = file if isinstance(file, Mapping) else block
    name = _name(file.get("filename"))
    data = file.get("file_data")
    if isinstance(data, str) and not data.startswith("data:"):
        return _encoded("document", data, "application/pdf", name)
    return _located("document", data or file.get("file_url"), file.get("file_id"), name)


def _sourced(
    kind: Literal["image", "document"], source: Mapping[str, Any], name: str | None = None
) -> Media:
    how = kind_of(source)
    if how == "base64":
        return _encoded(kind, source.get("data"), source.get("media_type"), name)
    if how == "file" and isinstance(source.get("file_id"), str):
        return Media(kind, file_id=source["file_id"], file_host="anthropic", name=name)
    return _located(kind, source.get("url"), None, name)


def _located(
    kind: Literal["image", "document"], address: Any, file_id: Any, name: str | None = None
) -> Media:
    if isinstance(address, str) and address:
        if parts := data_url_parts(address):
            return _encoded(kind, parts[1], parts[0], name)
        if address.lower().startswith(("http://", "https://")):
            return Media(kind, url=text_or(address), name=name)
    elif isinstance(file_id, str) and file_id:
        return Media(kind, file_id=text_or(file_id), file_host="openai", name=name)
    return Media(kind, name=name)


def _encoded(
    kind: Literal["image", "document"], data: Any, media_type: Any, name: str | None = None
) -> Media:
    spelled = text_or(media_type).lower()
    return Media(kind, base64_of(data), _SPELLED.get(spelled, spelled), name=name)


def _name(value: Any) -> str | None:
    return text_or(value) or None


def stand_in(media: Media) -> str:
    """Words in place of an image or a document that cannot be sent."""
    told = media.name or media.media_type or media.url or media.file_id or "unreadable"
    return f"[{media.kind}: {told}]"
