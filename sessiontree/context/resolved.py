"""Resolved handles, and the messages a model gets for them.

Invariants: the data of a `ResolvedHandle` has the shape of its kind; the same resolved handle gives
the same message; content that a model cannot get is named in one line, never left out, and the lack
is reported.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from sessiontree.core.blocks import ShownHandle, role_of_entry
from sessiontree.core.entry import Entry
from sessiontree.core.handle import KINDS, Handle, Kind
from sessiontree.core.media import IMAGES, PDF, base_type, is_text, text_in
from sessiontree.core.message import RESPONSES_ITEMS, Message, check_message, json_text, kind_of
from sessiontree.errors import EntryError, HandleDataError

LONGEST_TEXT: Final = 256 * 1024  # the most bytes of a text that a model gets whole
# The most bytes of a PDF that a model gets: in base64 it leaves room in a request of 32 MB, the
# limit of Anthropic (docs.anthropic.com, PDF support).
LARGEST_PDF: Final = 20 * 1024 * 1024
_SHOWN: Final = "images, PDF of up to 20 MiB, text of up to 256 KiB"


class ResolvedHandle(msgspec.Struct, frozen=True):
    """A handle and its content.

    Raises:
        HandleDataError: the data does not fit the kind.
    """

    handle: Handle  # the handle that was resolved
    kind: Kind  # `message`, `output`, `document` or `binary`
    # for `message`, a dict with a `role`; for `output`, `{stdout, stderr, exitCode}`, where
    # `exitCode` may be None; for `document`, any JSON value; for `binary`, bytes
    data: Any
    media_type: str | None = None  # the media type of a binary; None for the other kinds

    def __post_init__(self) -> None:
        if fault := _fault(self.kind, self.data):
            raise HandleDataError(
                f"{self.handle} resolved to {fault}; correct its content, or its resolver",
                str(self.handle),
            )

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that `handle resolve --json` prints, with bytes as base64.

        `mediaType` is there if the content has a media type.
        """
        data = _base64(self.data) if self.kind == "binary" else self.data
        found = {"handle": str(self.handle), "kind": self.kind, "data": data}
        return found if self.media_type is None else {**found, "mediaType": self.media_type}


class StoredMessage(ResolvedHandle, frozen=True):
    """The message of an entry: it is not checked, since a context has the entry's unchecked too."""

    def __post_init__(self) -> None:
        """Take any message."""


def _message_fault(data: Any) -> str | None:
    try:
        check_message(data)
    except EntryError as error:
        return f"no message: {error}"
    if not isinstance(data.get("content"), str | list | None):
        return f"a message whose content is a {type(data['content']).__name__}"
    says = any(key in data for key in ("content", "output", "tool_calls", "sections"))
    if not says and kind_of(data) not in RESPONSES_ITEMS:
        return "a message without content"
    return None


def _output_fault(data: Any) -> str | None:
    if not isinstance(data, Mapping):
        return f"a {type(data).__name__}, not {{stdout, stderr, exitCode}}"
    for key in ("stdout", "stderr"):
        if not isinstance(data.get(key), str):
            return f"an output whose {key} is not a string"
    code = data.get("exitCode", "")
    if not isinstance(code, int | None) or isinstance(code, bool):
        return "an output whose exitCode is neither a number nor None"
    return None


def _fault(kind: Kind, data: Any) -> str | None:
    if kind == "message":
        return _message_fault(data)
    if kind == "output":
        return _output_fault(data)
    if kind == "document":
        return "bytes, not a document" if isinstance(data, bytes | bytearray) else None
    if kind not in KINDS:
        return f"the kind {kind!r}; a kind is one of {', '.join(KINDS)}"
    return None if isinstance(data, bytes) else f"a {type(data).__name__}, not bytes"


def message_of(resolved: ResolvedHandle, entry: Entry) -> ShownHandle:
    """The message of a resolved handle in a context.

    A message is itself; an output is fenced text; a document its JSON; an image an image block; a
    PDF of up to 20 MiB a document block; text of up to 256 KiB fenced text; any other binary is
    named in one line. The `role` of the entry overrides that of a message, and is `user` where
    neither has one. A system message holds only text, which is not fenced where the content is
    a text file.
    """
    role = role_of_entry(entry)
    if resolved.kind == "message":
        message: Message = resolved.data
        return ShownHandle(message if role is None else {**message, "role": role})
    content, lack = (_system if role == "system" else _content)(resolved, entry)
    return ShownHandle({"role": role or "user", "content": content}, lack)


def carried_of(resolved: ResolvedHandle, entry: Entry) -> Message:
    """The same message with all the bytes in it.

    Content that a model would not get whole becomes a document block of its own media type. A
    provider that does not accept it gets its name.
    """
    message, lack = message_of(resolved, entry)
    if not lack:
        return message
    named = [{"type": "text", "text": message["content"]}] if message["role"] == "system" else []
    return {**message, "content": [*named, _document_block(resolved, entry)]}


def _system(resolved: ResolvedHandle, entry: Entry) -> tuple[str, str]:
    """The text of a system message for a resolved handle, and what it lacks."""
    if resolved.kind != "binary":
        return _content(resolved, entry)
    media_type, size = base_type(resolved.media_type), len(resolved.data)
    if not is_shown(media_type, size):
        return only_named(resolved.handle, media_type, size)
    if not is_text(media_type):
        lack = f"is only named to a model, as {media_type}: a system message holds only text"
        return reference(resolved.handle, media_type, size), lack
    return _text_of(resolved, media_type, size, str)


def _content(resolved: ResolvedHandle, entry: Entry) -> tuple[Any, str]:
    """The content of a message for a resolved handle, and what it lacks."""
    if resolved.kind == "output":
        return output_text(resolved.data), ""
    if resolved.kind == "document":
        return json_text(resolved.data), ""
    media_type, size = base_type(resolved.media_type), len(resolved.data)
    if media_type in IMAGES:
        return [{"type": "image", "data": _base64(resolved.data), "mimeType": media_type}], ""
    if not is_shown(media_type, size):
        return only_named(resolved.handle, media_type, size)
    if media_type == PDF:
        return [_document_block(resolved, entry)], ""
    return _text_of(resolved, media_type, size, fenced)


def _text_of(
    resolved: ResolvedHandle, media_type: str, size: int, shown: Callable[[str], str]
) -> tuple[str, str]:
    """The text of a binary as it is shown, and what it lacks."""
    found = text_in(resolved.data)
    if found is None:
        return reference(resolved.handle, media_type, size), (
            f"is only named to a model: its type is {media_type}, but it is not UTF-8; store it "
            "as UTF-8, or with its true media type"
        )
    text, wrong = found
    places = "one place that is" if wrong == 1 else f"{wrong:,} places that are"
    lack = f"is shown with U+FFFD in {places} not UTF-8; store it as UTF-8 to show it whole"
    return shown(text), lack if wrong else ""


def _document_block(resolved: ResolvedHandle, entry: Entry) -> dict[str, Any]:
    media_type = base_type(resolved.media_type)
    source = {"type": "base64", "media_type": media_type, "data": _base64(resolved.data)}
    block: dict[str, Any] = {"type": "document", "source": source}
    if isinstance(preview := entry.get("preview"), str) and preview:
        block["title"] = preview
    return block


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def is_shown(media_type: str, size: int) -> bool:
    """True if a model gets content of a type and size (bytes), or only its name."""
    if media_type in IMAGES:
        return True
    if media_type == PDF:
        return size <= LARGEST_PDF
    return size <= LONGEST_TEXT and is_text(media_type)


def only_named(handle: Handle, media_type: str, size: int) -> tuple[str, str]:
    """The line in place of content that a model does not get, and the lack in words."""
    lack = f"is only named to a model, as {media_type} of {size:,} bytes; models are shown {_SHOWN}"
    return reference(handle, media_type, size), lack


def reference(handle: Handle, media_type: str, size: int) -> str:
    """Content named in one line, by its handle."""
    return f"[{media_type}, {size:,} bytes: {handle}]"


def output_text(output: Mapping[str, Any]) -> str:
    """The output of a command, each stream in a fence that its text cannot end."""
    out, err, code = (output[key] for key in ("stdout", "stderr", "exitCode"))
    parts = [fenced(out)] if out or not err else []
    parts += [f"stderr:\n{fenced(err)}"] if err else []
    parts += [f"exit code {code}"] if code else []
    return "\n".join(parts)


def fenced(text: str) -> str:
    """Text in a fence of backticks longer than any run of them inside it."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    ended = text if text.endswith("\n") or not text else text + "\n"
    return f"{fence}\n{ended}{fence}"
