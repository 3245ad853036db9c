"""A block of Anthropic's streaming while its deltas arrive.

The deltas are `text_delta`, `thinking_delta`, `signature_delta`, `input_json_delta` and
`citations_delta`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sessiontree.context.providers.values import clean_text
from sessiontree.core.entry import decode_leniently
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.message import json_text
from sessiontree.errors import EntryError

_DELTAS: Final = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("partial_json", "input"),
}
"""By type of delta: the key of its text, and the key of the block that it belongs to."""

BEGUN_BY: Final = {"text_delta": "text", "thinking_delta": "thinking"}


class OpenBlock:
    """A block that has not ended; a resumed one starts as far as it came before it broke off."""

    def __init__(self, start: Mapping[str, Any], *, is_resumed: bool = False) -> None:
        self.start = dict(start)
        self._texts: dict[str, list[str]] = {}
        self._citations: list[Any] = []
        given = self.start.get("input")
        if is_resumed and given:
            self._texts["input"] = [given if isinstance(given, str) else json_text(given)]

    def add(self, delta: Mapping[str, Any]) -> bool:
        """Take a delta; False for one of an unknown type."""
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
        self._texts.setdefault(_DELTAS[str(kind)][1], []).append(text)
        return True

    def finished(self) -> dict[str, Any]:
        """The block as it is now, its input as text where that is not JSON yet."""
        block = self.start.copy()
        for key, pieces in self._texts.items():
            text = "".join(pieces)
            if key == "input":
                found = decode_leniently(text.encode("utf-8", "surrogatepass"))
                block[key] = found if found is not None and _is_storable(found) else text
            else:
                before = block.get(key)
                block[key] = (before if isinstance(before, str) else "") + text
        if self._citations:
            before = block.get("citations")
            block["citations"] = [*(before if isinstance(before, list) else ()), *self._citations]
        return block


def delta_text(delta: Mapping[str, Any]) -> str | None:
    """The text of a delta; None for one of another type, or without a text."""
    keys = _DELTAS.get(str(delta.get("type")))
    text = delta.get(keys[0]) if keys else None
    return text if isinstance(text, str) else None


def begins_block(delta: Mapping[str, Any]) -> bool:
    """Whether a delta can belong to a block whose start was not seen."""
    return str(delta.get("type")) in BEGUN_BY and delta_text(delta) is not None


def _is_storable(value: Any) -> bool:
    """Whether JSON carries a value. It does not carry every value it can spell, such as 1e999."""
    try:
        dumps(storable(value))
    except EntryError:
        return False
    return True


def storable(value: Any) -> Any:
    """The same value with surrogate pairs joined, and lone surrogates as U+FFFD.

    A stream that is cut between the halves of a pair has them in two pieces.
    """
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {storable(key): storable(kept) for key, kept in value.items()}
    if isinstance(value, list):
        return [storable(kept) for kept in value]
    return value
