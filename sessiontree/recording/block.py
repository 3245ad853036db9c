"""A block of a message while it arrives: what it started with, and its deltas.

The shape is Anthropic's, and stays it: `text`, `thinking` with its `signature`,
`tool_use` with its `input`, and any other with what it started with. The deltas are
those of the Messages API's streaming: `text_delta`, `thinking_delta`,
`signature_delta`, `input_json_delta`, `citations_delta`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sessiontree.core.entry import decode_leniently
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.message import json_text
from sessiontree.errors import EntryError

_SAYING: Final = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("partial_json", "input"),
}
"""By type of delta: the key of its text, and the key of the block that it belongs to."""

_STARTED_BY: Final = {"text_delta": "text", "thinking_delta": "thinking"}


class OpenBlock:
    """A block that has not ended.

    Args:
        start: the block as it started, or as far as it came before it broke off.
        is_resumed: whether it broke off.
    """

    def __init__(self, start: Mapping[str, Any], *, is_resumed: bool = False) -> None:
        self.start = dict(start)
        self.is_resumed = is_resumed
        self._said: dict[str, list[str]] = {}
        self._citations: list[Any] = []
        given = self.start.get("input")
        if is_resumed and given:
            self._said["input"] = [given if isinstance(given, str) else json_text(given)]

    @property
    def type(self) -> str:
        kind = self.start.get("type")
        return kind if isinstance(kind, str) else ""

    def add(self, delta: Mapping[str, Any]) -> bool:
        """Take a delta in; False for one that is not known."""
        kind = delta.get("type")
        if kind == "signature_delta":
            self.start["signature"] = delta.get("signature")
            return True
        if kind == "citations_delta":
            self._citations.append(delta.get("citation"))
            return True
        text = delta_text(delta)
        if text is None:
            return False
        self._said.setdefault(_SAYING[str(kind)][1], []).append(text)
        return True

    def finished(self) -> dict[str, Any]:
        """The block as it is now; an input that is no JSON, or not yet, as its text."""
        block = self.start.copy()
        for key, pieces in self._said.items():
            said = "".join(pieces)
            if key == "input":
                found = decode_leniently(said.encode("utf-8", "surrogatepass"))
                block[key] = found if found is not None and _is_storable(found) else said
            else:
                before = block.get(key)
                block[key] = (before if isinstance(before, str) else "") + said
        if self._citations:
            before = block.get("citations")
            block["citations"] = [*(before if isinstance(before, list) else ()), *self._citations]
        return block


def delta_text(delta: Mapping[str, Any]) -> str | None:
    """What a delta says; None for one of another type, or without a text."""
    keys = _SAYING.get(str(delta.get("type")))
    text = delta.get(keys[0]) if keys else None
    return text if isinstance(text, str) else None


def started_by(delta: Mapping[str, Any]) -> dict[str, Any] | None:
    """The block that a delta must belong to whose start was never seen, or None."""
    kind = _STARTED_BY.get(str(delta.get("type")))
    return {"type": kind, kind: ""} if kind else None


def _is_storable(value: Any) -> bool:
    """Whether JSON carries a value; not every one that it spells: 1e999, for one."""
    try:
        dumps(storable(value))
    except EntryError:
        return False
    return True


def storable(value: Any) -> Any:
    """The same value with what UTF-8 cannot carry mended.

    A stream that was cut between the halves of a surrogate pair has them in two
    pieces: joined they are a character again. One alone becomes U+FFFD.
    """
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return value
    if isinstance(value, dict):
        return {storable(key): storable(kept) for key, kept in value.items()}
    if isinstance(value, list):
        return [storable(kept) for kept in value]
    return value
