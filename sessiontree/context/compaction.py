"""Compaction: how many tokens a context has, and where to cut it.

Tokens are estimated as the pi coding agent does: four characters each, an image and a page of a PDF
at a fixed cost. The caller may pass another counter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Final

import msgspec

from sessiontree.core.entry import Entry
from sessiontree.core.media import PDF
from sessiontree.core.message import (
    IMAGE_BLOCKS,
    RESULT_BLOCKS,
    Message,
    calls_of,
    is_prompt,
    json_text,
    kind_of,
    result_ids,
    role_of,
)

CHARACTERS_PER_TOKEN: Final = 4
IMAGE_TOKENS: Final = 1200
PDF_PAGE: Final = 65_536  # the estimated characters of base64 for one page of a PDF
KEEP_TOKENS: Final = 20_000
TokenCounter = Callable[[Message], int]  # takes a message of a context, gives its tokens


def estimate_tokens(message: Message) -> int:
    """Estimate a message's tokens: one token for four characters, and 1,200 tokens for an image."""
    characters, images = _size_of_content(message)
    for call in calls_of(message):
        characters += len(call.name) + _size_of_value(call.arguments)
    for key in ("command", "output"):
        if (value := message.get(key)) is not None:
            characters += _size_of_value(value)
    return -(-characters // CHARACTERS_PER_TOKEN) + images * IMAGE_TOKENS


def _size_of_content(message: Message) -> tuple[int, int]:
    content = message.get("content")
    if isinstance(content, str):
        return len(content), 0
    characters = images = 0
    for block in content if isinstance(content, list) else ():
        if isinstance(block, str):
            characters += len(block)
        elif isinstance(block, dict):
            more, pages = _size_of_block(block)
            characters, images = characters + more, images + pages
    return characters, images


def _size_of_block(block: dict[str, Any]) -> tuple[int, int]:
    kind = kind_of(block)
    if kind in IMAGE_BLOCKS:
        return 0, 1
    if kind == "document":
        return _text_size_of(block), _pages_of(block)
    if kind in RESULT_BLOCKS:
        return _size_of_content(block)
    texts = (block.get("text"), block.get("thinking"))
    return sum(len(text) for text in texts if isinstance(text, str)), 0


def _text_size_of(block: dict[str, Any]) -> int:
    source = block.get("source")
    if not isinstance(source, dict) or source.get("type") != "text":
        return 0
    data = source.get("data")
    return len(data) if isinstance(data, str) else 0


def _pages_of(block: dict[str, Any]) -> int:
    source = block.get("source")
    if not isinstance(source, dict) or source.get("media_type") != PDF:
        return 0
    data = source.get("data")
    return -(-len(data) // PDF_PAGE) if isinstance(data, str) else 1


def _size_of_value(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(json_text(value))


class Piece(msgspec.Struct, frozen=True):
    """What one entry contributes to a context."""

    uuid: str  # the entry on the path
    messages: Sequence[Message]  # its messages, in order; empty for an entry without any
    sources: Sequence[Entry] = ()  # of each message; a merge has those of another branch


def cut_point(pieces: Sequence[Piece], keep: int, count: TokenCounter) -> str | None:
    """The uuid of the first entry to keep, so that about `keep` tokens stay.

    A cut falls before a prompt where there is one between half and one and a half times `keep`,
    else before the message nearest to `keep` that is not a result; never between a call and its
    result. None where everything fits into `keep`, or nothing can be left out.
    """
    costs = [sum(map(count, piece.messages)) for piece in pieces]
    if sum(costs) <= keep:
        return None
    open_after = _open_calls(pieces)
    kept = 0
    prompts: list[tuple[int, int]] = []
    others: list[tuple[int, int]] = []
    first = next((at for at, piece in enumerate(pieces) if _is_new(piece)), 0)
    for place in range(len(pieces) - 1, first, -1):
        kept += costs[place]
        messages = pieces[place].messages
        if not messages or open_after[place - 1] or result_ids(messages[0]):
            continue
        distance = abs(kept - keep)
        if is_prompt(messages[0]) and keep <= 2 * kept and 2 * kept <= 3 * keep:
            prompts.append((distance, place))
        else:
            others.append((distance, place))
    best = min(prompts, default=None) or min(others, default=None)
    return pieces[best[1]].uuid if best else None


def _is_new(piece: Piece) -> bool:
    return any(role_of(message) != "compactionSummary" for message in piece.messages)


def _open_calls(pieces: Sequence[Piece]) -> list[bool]:
    """For each piece, whether a call up to it gets its result only after it."""
    answered_by = [-1] * len(pieces)
    waiting: dict[str, list[int]] = {}
    for place, piece in enumerate(pieces):
        for message in piece.messages:
            for id in result_ids(message):
                if waiting.get(id):
                    answered_by[waiting[id].pop()] = place
            for call in calls_of(message):
                waiting.setdefault(call.id, []).append(place)
    return [last > place for place, last in enumerate(accumulate(answered_by, max))]
