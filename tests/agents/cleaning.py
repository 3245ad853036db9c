"""What the samples of `fixtures/agents` leave out of an agent's files."""

from __future__ import annotations

from typing import Any, Final

LONGEST: Final = 160
"""The characters of a text that are kept."""


def cleaned(value: Any, folder: str, shown: str) -> Any:
    """A value with its long texts cut, and with `shown` in place of a folder's path."""
    if isinstance(value, dict):
        return {key: cleaned(each, folder, shown) for key, each in value.items()}
    if isinstance(value, list):
        return [cleaned(each, folder, shown) for each in value]
    if not isinstance(value, str):
        return value
    text = value.replace(folder, shown)
    return text if len(text) <= LONGEST else text[:LONGEST].rstrip() + "…"
