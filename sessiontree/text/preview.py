"""An entry in one line, as its whole text, and as the texts that a search reads.

The line is short, for people to recognize the entry by. A search looks through every string of the
entry's content, at any depth: text, thinking, input and output of tools, summaries, names, labels
and notes. Not so keys, values that structure an entry, a message or a block
(`core.spill.is_structure`: types, roles, ids, model and tool names), a caller's metadata, and the
bytes of an image or a document. Spilled strings count where they were put back before.

Invariants: no blob is read; no line of a file, whatever it holds, makes a preview fail; an entry
with spilled strings looks as it would inline, as far as its line has their beginnings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from sessiontree.core.blocks import handle_text, is_handle_of_message
from sessiontree.core.display import WIDTH, is_masking, one_line
from sessiontree.core.entry import SUMMARIES, Entry
from sessiontree.core.handle import blob_of, media_type_in
from sessiontree.core.media import binary_in
from sessiontree.core.message import (
    IMAGE_BLOCKS,
    RESULT_BLOCKS,
    TOOL,
    Message,
    block_preview,
    blocks_of,
    calls_of,
    failure_in,
    is_result_block,
    kind_of,
    message_in,
    preview_of,
    printed,
    result_ids,
    role_of,
    speaker_named,
    speaker_of,
    typed_text,
)
from sessiontree.core.spill import OPAQUE, beginnings, is_structure, restore
from sessiontree.errors import SpilledError

_DATA_URL: Final = re.compile(r"data:([!-+\--~]{1,80});base64,")
_TELLING: Final = (
    *("name", "note", "label", "provider", "modelId", "thinkingLevel", "customType", "cwd"),
)


def preview(entry: Entry, message: Message | None = None, width: int = WIDTH) -> str:
    """An entry's content in a few words, on one line; `message` is what a handle resolves to."""
    if message is None or _text(entry.as_stored, "preview"):
        return one_line(_words(entry), width)
    return one_line(preview_of(shown(message)) or _words(entry), width)


def size_in_short(count: int) -> str:
    """A number of bytes, such as `1.4 KB`."""
    size = float(count)
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def _words(entry: Entry) -> str:
    kind = entry.type
    if kind == "message":
        return _words_of_message(entry)
    keys = told(entry.as_stored)
    if kind in SUMMARIES or kind in ("compaction", "merge"):
        return _text(keys, "summary") or _text(keys, "mergedUuid")
    if kind == "handle":
        content = _content_of_blob(keys.get("handle"))
        return f"{_text(keys, 'preview')} {content}".strip() or handle_text(entry)
    if kind == "custom_message":
        return preview_of(shown({"content": keys.get("content")}))
    if kind == "block":
        block = keys.get("block")
        return block_preview(_shown_block(block)) if isinstance(block, dict) else ""
    if kind == "message_end":
        reason = _text(keys, "stopReason")
        return f"(the message ends: {reason})" if reason else "(the message ends)"
    if kind == "custom" and (typed := typed_text(keys)) is not None:
        return typed
    if kind == "custom" and (failure := failure_in(keys)) is not None:
        return failure
    words = [_text(keys, key) for key in _TELLING if key in keys]
    return " ".join(filter(None, words))


def _words_of_message(entry: Entry) -> str:
    """A message in words, after the preview of an attachment that became it."""
    line = entry.line
    given, message = "", entry.message_as_stored
    if entry.has_spilled or b'"preview"' in line:
        keys = told(entry.as_stored)
        given, message = _text(keys, "preview"), keys.get("message")
    if not isinstance(message, dict):
        return given
    has_bytes = b"image" in line or b"base64" in line
    words = preview_of(shown(message) if has_bytes else message)
    return f"{given} {words}" if given else words


def told(keys: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keys of an entry as far as its line has them, spilled texts by beginning or size."""
    if "spilled" not in keys:
        return keys
    begins = beginnings(keys)
    try:
        return restore(keys, lambda handle: _replaced(handle, begins.get(handle, "")).encode())
    except (SpilledError, UnicodeEncodeError):
        return keys


def _replaced(handle: str, begins: str) -> str:
    if _DATA_URL.match(begins):
        return begins.partition(",")[0] + "," + handle  # which `binary_in` reads
    if begins:
        return (begins.rpartition(" ")[0] if is_masking() else begins) + "…"
    content = _content_of_blob(handle)
    return content if content.startswith("[text/") else handle


def _content_of_blob(handle: Any) -> str:
    blob = blob_of(handle)
    if blob is None:
        return ""
    media_type = media_type_in(handle).partition(";")[0]
    return f"[{media_type or 'blob'} {size_in_short(blob.size)}]"


def shown(message: Message) -> Message:
    """A message with the type and size of each image or document in its place."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {**message, "content": [_shown_result(block) for block in content]}


def _shown_result(block: Any) -> Any:
    content = block.get("content") if isinstance(block, dict) else None
    if isinstance(content, list) and kind_of(block) in RESULT_BLOCKS:
        return {**block, "content": [_shown_block(part) for part in content]}
    return _shown_block(block)


def _shown_block(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    if (found := binary_in(block)) is not None:
        return {"type": "text", "text": f"[{media_in_words(*found)}]"}
    return {"type": "text", "text": "[image]"} if kind_of(block) in IMAGE_BLOCKS else block


def media_in_words(media_type: str, size: int) -> str:
    """The type and the size of an image or a document."""
    return f"{media_type:.60} {size_in_short(size)}"


def _text(keys: Mapping[str, Any], key: str) -> str:
    value = keys.get(key)
    return value if isinstance(value, str) else ""


def is_uninformative(entry: Entry) -> bool:
    """True if an entry is a handle of a message, and lacks its role or its preview."""
    if not is_handle_of_message(entry):
        return False
    return not (role(entry) and _text(entry.as_stored, "preview"))


_ROLES: Final = {"block": "assistant", "custom_message": "custom"}


def role(entry: Entry, message: Message | None = None) -> str | None:
    """The role of an entry; None for one without a message; `message` as for `preview`."""
    if entry.type == "message":
        found = entry.message_as_stored
        return role_of(found) if isinstance(found, dict) else None
    if entry.type in ("handle", "message_end"):
        found = entry.as_stored.get("role")
        own = found if isinstance(found, str) and found else None
        return role_of(message) if own is None and message is not None else own
    if entry.type == "custom" and b'"typed"' in entry.line and typed_text(entry.as_stored):
        return "user"
    if entry.type == "custom" and b'"isApiErrorMessage"' in entry.line:
        return None if failure_in(entry.as_stored) is None else "assistant"
    return _ROLES.get(entry.type)


def speaker(entry: Entry, message: Message | None = None) -> str | None:
    """The role of an entry as people read it; None for one without; `message` as for `preview`.

    It is `tool` for results of tools, which some agents store as messages of the user.
    """
    own = entry.message_as_stored if entry.type == "message" else message
    if isinstance(own, dict):
        return speaker_of(own)
    block = entry.as_stored.get("block") if entry.type == "block" else None
    if isinstance(block, dict) and kind_of(block) in RESULT_BLOCKS:
        return TOOL
    found = role(entry)
    return None if found is None else speaker_named(found)


_BYTES: Final = IMAGE_BLOCKS | {"base64"}  # blocks, and sources, that hold bytes and no text
# Events of Codex that repeat the text of a message.
_REPEATED: Final = frozenset({"user_message", "agent_message", "agent_reasoning"})


def texts(body: Mapping[str, Any]) -> Iterator[str]:
    """The texts of an entry in their order, its names first.

    An event of Codex that repeats a message has none. The items that a compaction lists are
    entries of their own.
    """
    if body.get("customType") == "codex:event_msg" and isinstance(event := body.get("data"), dict):
        payload = event.get("payload")
        if isinstance(payload, dict) and kind_of(payload) in _REPEATED:
            return
    for key in ("name", "label", "note", "preview"):  # people gave them, to find the entry by
        if isinstance(given := body.get(key), str):
            yield given
    yield from _strings(_without_listed(body) if body.get("type") == "compaction" else body)


def _without_listed(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """An imported compaction of Codex without the items that it lists."""
    original = body.get("original")
    if not isinstance(original, dict):
        return body
    payload = original.get("payload")
    if not isinstance(payload, dict) or "replacement_history" not in payload:
        return body
    rest = {key: payload[key] for key in payload if key != "replacement_history"}
    return {**body, "original": {**original, "payload": rest}}


def _strings(value: Any, *, opaque: bool = False) -> Iterator[str]:
    waiting = [(value, opaque)]
    while waiting:
        value, opaque = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            waiting.extend((part, opaque) for part in reversed(value))
        elif isinstance(value, dict) and (opaque or kind_of(value) not in _BYTES):
            waiting += [
                (printed(part) if key == "output" else part, opaque or key in OPAQUE)
                for key, part in reversed(value.items())
                if opaque or not is_structure(key)
            ]


def texts_of_tool(
    body: Mapping[str, Any], tool: str, name_of: Callable[[str], str | None]
) -> Iterator[str]:
    """The texts of a tool's calls and results; `name_of` gives the tool's name for a call's id.

    Case does not count in the name of the tool.
    """
    wanted = tool.casefold()

    def is_wanted(name: str | None) -> bool:
        return name is not None and name.casefold() == wanted

    message = message_in(body)
    if message is None:
        return
    for call in calls_of(message):
        if is_wanted(call.name):
            yield from _strings(call.arguments, opaque=True)
    ids = result_ids(message)
    if not ids:
        return
    if message.get("role") == "user":
        for block in blocks_of(message):
            if is_result_block(block) and is_wanted(name_of(block["tool_use_id"])):
                yield from _strings(block)
        return
    named = message.get("toolName", message.get("name"))
    if is_wanted(named if isinstance(named, str) else name_of(ids[0])):
        yield from _strings(message)
