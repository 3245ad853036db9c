"""Messages whose calls and results are paired."""

from __future__ import annotations

from collections.abc import Sequence

from sessiontree.context.pairing import Pairing
from sessiontree.core.message import Message


def pair(messages: Sequence[Message]) -> tuple[list[Message], list[str]]:
    """The messages with calls and results paired, and the warnings."""
    pairing: Pairing[None] = Pairing()
    for message in messages:
        pairing.take(message, None)
    paired, _, warnings = pairing.result()
    return paired, warnings
