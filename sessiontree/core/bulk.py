"""Bulk: what makes a session large, by kinds, in the lines of any agent and in entries of ours.

A string counts for the innermost part that says what it is: a picture in a result of a tool is an
image. Only a snapshot counts whole. Strings that are in a blob count with the size of the blob.

Pruning takes long tool output, images and snapshots out. A stub says what was there; a block of a
message stays a block, so that the message stays valid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from sessiontree.core.handle import blob_of
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.media import binary, binary_in

SNAPSHOTS: Final = "snapshots"
IMAGES: Final = "images"
RESULTS: Final = "tool output"
REASONING: Final = "reasoning"
OTHER: Final = "other"
KINDS: Final = (SNAPSHOTS, IMAGES, RESULTS, REASONING, OTHER)

_BY_KEY: Final = {
    "replacement_history": SNAPSHOTS,  # with it, Codex repeats the conversation at a compaction
    **dict.fromkeys(
        (
            *("toolUseResult", "toolResults", "resultDisplay", "functionResponse"),
            *("aggregated_output", "formatted_output"),
        ),
        RESULTS,
    ),
    **dict.fromkeys(
        (
            *("thinking", "thoughts", "reasoning", "reasoning_content", "encrypted_content"),
            *("signature", "thinkingSignature", "textSignature", "thoughtSignature"),
        ),
        REASONING,
    ),
}
_BY_TYPE: Final = {
    **dict.fromkeys(
        (
            *("tool_result", "function_call_output", "custom_tool_call_output"),
            *("local_shell_call_output", "computer_call_output", "exec_command_end"),
            "mcp_tool_call_end",
        ),
        RESULTS,
    ),
    **dict.fromkeys(("thinking", "redacted_thinking", "reasoning"), REASONING),
}
_OF_TOOLS: Final = frozenset({"tool", "toolResult", "bashExecution"})  # roles
_NOTHING: Final[Mapping[str, Any]] = {}
_SHORT: Final = 64  # characters of a string that is not worth a look

Visit = Callable[[Any, Any, str, int, str], object]
"""Takes a string's holder, its key there, itself, its size and its kind."""


def each_string(value: Any, visit: Visit) -> None:
    """Call `visit` for each longer string of a JSON value, in no fixed order."""
    waiting: list[tuple[Any, str]] = [(value, OTHER)]
    while waiting:
        part, kind = waiting.pop()
        if type(part) is list:
            for number, below in enumerate(part):
                if type(below) is not str:
                    waiting.append((below, kind))
                elif len(below) > _SHORT:
                    visit(part, number, below, *_measured(None, below, _NOTHING, kind))
        elif type(part) is dict:
            kind = _kind_of(part, kind)
            for key, below in part.items():
                of_key = kind if kind == SNAPSHOTS else _BY_KEY.get(key, kind)
                if type(below) is not str:
                    waiting.append((below, of_key))
                elif len(below) > _SHORT:
                    visit(part, key, below, *_measured(key, below, part, of_key))


def _kind_of(part: Mapping[str, Any], above: str) -> str:
    if above == SNAPSHOTS:
        return above
    role, kind = part.get("role"), part.get("type")
    if isinstance(role, str) and role in _OF_TOOLS:
        return RESULTS
    return _BY_TYPE.get(kind, above) if isinstance(kind, str) else above


def _measured(key: str | None, text: str, part: Mapping[str, Any], kind: str) -> tuple[int, str]:
    blob = blob_of(text)
    size = len(text) if blob is None else blob.size
    is_image = kind != SNAPSHOTS and binary(key, text, part) is not None
    return size, IMAGES if is_image else kind


def sizes_of(value: Any, sizes: dict[str, int], blobs: set[str]) -> None:
    """Add the sizes of the strings of a JSON value to those of each kind.

    A blob that is among `blobs` already does not count; a new one is added.
    """

    def visit(holder: Any, key: Any, text: str, size: int, kind: str) -> None:
        if kind == OTHER:
            return
        if size != len(text):
            if text in blobs:
                return
            blobs.add(text)
        sizes[kind] = sizes.get(kind, 0) + size

    each_string(value, visit)


LONGEST: Final = 4096
"""The characters of what pruning leaves as it is."""

PRUNED: Final = frozenset({SNAPSHOTS, IMAGES, RESULTS})

T = TypeVar("T")


def pruned(value: T) -> T:
    """A JSON value without long tool output, images and snapshots; the same one if it has none."""
    made: T = _pruned(value, OTHER, None, _NOTHING)
    return made


def _pruned(value: Any, kind: str, key: str | None, holder: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        if len(value) <= LONGEST:
            return value
        size, found = _measured(key, value, holder, kind)
        return _stub(found, size) if found in PRUNED else value
    if isinstance(value, list):
        items = [_pruned_item(below, kind) for below in value]
        return items if any(map(_is_other, items, value)) else value
    if not isinstance(value, Mapping):
        return value
    kind = _kind_of(value, kind)
    made = {name: _pruned_below(value, name, below, kind) for name, below in value.items()}
    return made if any(map(_is_other, made.values(), value.values())) else value


def _pruned_below(part: Mapping[str, Any], key: str, below: Any, kind: str) -> Any:
    of_key = kind if kind == SNAPSHOTS else _BY_KEY.get(key, kind)
    if of_key == SNAPSHOTS and isinstance(below, list):
        size = len(dumps(below))
        return _stub("snapshot", size) if size > LONGEST else below
    return _pruned(below, of_key, key, part)


def _pruned_item(item: Any, kind: str) -> Any:
    """An item of a list; a block of an image becomes one of text."""
    found = binary_in(item) if isinstance(item, Mapping) and kind != SNAPSHOTS else None
    if found is None or found[1] <= LONGEST:
        return _pruned(item, kind, None, _NOTHING)
    of_input = str(item.get("type")).startswith("input_")  # a block of the Responses API
    return {"type": "input_text" if of_input else "text", "text": _stub(*found)}


def _is_other(one: Any, other: Any) -> bool:
    return one is not other


def _stub(what: str, size: int) -> str:
    return f"[{what}, {size:,} bytes, pruned]"
