"""What had to be said in another way, or left out, on the way to a provider."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class Notes:
    """Collects what is to be told: each thing once, how often, and where first.

    Attributes:
        uuid: of the entry that is looked at just now.
    """

    def __init__(self) -> None:
        self.uuid = ""
        self._found: dict[str, tuple[int, str]] = {}

    def add(self, text: str) -> None:
        """Note something about the entry that is looked at."""
        count, first = self._found.get(text, (0, self.uuid))
        self._found[text] = count + 1, first

    def warnings(self) -> list[str]:
        """A line for each thing noted, in the order met."""
        return [_line(text, count, first) for text, (count, first) in self._found.items()]


def _line(text: str, count: int, first: str) -> str:
    if count == 1:
        return f"{text} (entry {first[:8]})" if first else text
    where = f", first in entry {first[:8]}" if first else ""
    return f"{text} ({count:,} times{where})"


@dataclass(frozen=True, slots=True)
class Request:
    """A context as a provider's client takes it.

    Attributes:
        params: keyword arguments for the client's call, the model and its settings
            apart: `messages` and `system` for Anthropic, `input` and `instructions`
            for OpenAI Responses, `messages` for OpenAI Chat.
        warnings: what was said in another way or left out, in words.
    """

    params: dict[str, Any]
    warnings: list[str]
