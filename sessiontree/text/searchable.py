"""The texts of an entry that a search looks through.

Every string of the entry's content counts, at any depth: text, thinking, input and output of tools,
summaries, names, labels and notes. Not so keys, values that structure an entry, a message or a
block (`core.spill.is_structure`: types, roles, ids, model and tool names), a caller's metadata, and
the bytes of an image or a document. Spilled strings count where they were put back before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from sessiontree.core.message import (
    IMAGE_BLOCKS,
    blocks_of,
    calls_of,
    is_result_block,
    kind_of,
    message_in,
    result_ids,
)
from sessiontree.core.spill import OPAQUE, is_structure

_GIVEN: Final = ("name", "label", "note", "preview")  # people gave them, to find the entry by
_BYTES: Final = IMAGE_BLOCKS | {"base64"}  # blocks, and sources, that hold bytes and no text
# Events of Codex that repeat the text of a message.
_REPEATED: Final = frozenset({"user_message", "agent_message", "agent_reasoning"})


def texts(body: Mapping[str, Any]) -> Iterator[str]:
    """The texts of an entry in their order, its names first.

    An event of Codex that repeats a message has none.
    """
    if body.get("customType") == "codex:event_msg" and isinstance(event := body.get("data"), dict):
        payload = event.get("payload")
        if isinstance(payload, dict) and kind_of(payload) in _REPEATED:
            return
    for key in _GIVEN:
        if isinstance(given := body.get(key), str):
            yield given
    yield from _strings(body)


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
                (part, opaque or key in OPAQUE)
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
