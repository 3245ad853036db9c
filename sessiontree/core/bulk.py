"""Bulk: what makes a session large, by kinds, in the lines of any agent and in entries of ours.

A string counts for the innermost part that says what it is: a picture in a result of a tool is an
image. Only a snapshot counts whole. Strings that are in a blob count with the size of the blob.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from sessiontree.core.handle import blob_of
from sessiontree.core.media import binary

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
    blob = blob_of(text) if text.startswith("blob@") else None
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
