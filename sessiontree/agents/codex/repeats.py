"""Items that a compaction repeats: what the model saw again, and nobody said again.

A `compacted` line of Codex lists the history that stays in the context: items of the rollout, the
summary, and what Codex writes anew for each request. An item of that list which the path above
already has is marked with the entry that said it; any other is the only copy of its content.

Codex rebuilds prompts from their texts, without ids and images, and shortens the oldest prompt in
its middle. So a message of texts counts by its role and its text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

from sessiontree.agents.codex.items import ABOUT, is_prompt
from sessiontree.core.message import Message, kind_of

_NOT_CONTENT: Final = frozenset({"id", "status", "metadata", ABOUT})
"""The keys of an item that say nothing of its content."""

_SHORTENED: Final = re.compile(r"(.*)…\d+ (?:tokens|chars) truncated…(.*)", re.DOTALL)


class SaidItems:
    """The entries of a path that say something first, by the digest of the content."""

    def __init__(self) -> None:
        self._uuids: dict[bytes, str] = {}
        self._prompts: dict[str, str] = {}  # the text of each, by the uuid
        self._taken_back: set[str] = set()

    def copy(self) -> SaidItems:
        made = SaidItems()
        made._uuids = dict(self._uuids)
        made._prompts = dict(self._prompts)
        made._taken_back = set(self._taken_back)
        return made

    def add(self, item: Message, uuid: str) -> None:
        """Add the item of an entry, if none above says the same."""
        for digest in _digests(item):
            self._add(digest, uuid)
        if item.get("role") == "user":
            self._prompts[uuid] = "\n".join(_texts(item))

    def add_summary(self, summary: str, uuid: str) -> None:
        """Add the summary of a compaction, which the model sees as a message of the user."""
        self._add(_digest_of_text("user", summary), uuid)

    def _add(self, digest: bytes, uuid: str) -> None:
        known = self._uuids.get(digest)
        if known is None or known in self._taken_back:
            self._uuids[digest] = uuid

    def listing(self) -> CompactionListing:
        """Return what takes the items that a compaction lists."""
        return CompactionListing(self)

    def find(self, item: Message) -> str | None:
        """The uuid of the entry that says what an item says; None without one."""
        uuid = self._uuids.get(next(_digests(item)))
        return None if uuid in self._taken_back else uuid

    def find_whole(self, item: Message) -> str | None:
        """The uuid of the prompt that an item has the start and the end of, if it is shortened."""
        parts = _SHORTENED.fullmatch("\n".join(_texts(item)))
        if parts is None:
            return None
        start, end = parts.groups()
        prompts = self._prompts.items()
        matches = (uuid for uuid, text in prompts if text.startswith(start) and text.endswith(end))
        return next((uuid for uuid in matches if uuid not in self._taken_back), None)

    def take_back(self, uuids: Iterable[str]) -> None:
        """Forget entries that are not on the path any more."""
        self._taken_back.update(uuids)


class CompactionListing:
    """The items that one compaction lists, in their order."""

    def __init__(self, said: SaidItems) -> None:
        self._said = said
        self._is_first = True  # no prompt was listed yet

    def take(self, item: Message, uuid: str) -> str | None:
        """Take the next item: the uuid of the entry that it repeats, or None, and then it is said.

        Codex shortens at most the first prompt of the list.
        """
        repeated = self._said.find(item)
        if is_prompt(item):
            if repeated is None and self._is_first:
                repeated = self._said.find_whole(item)
            self._is_first = False
        if repeated is None:
            self._said.add(item, uuid)
        return repeated


def _digests(item: Message) -> Iterator[bytes]:
    """The digest of the content, and of the texts alone if a message has more."""
    role, blocks = item.get("role"), _blocks(item)
    texts = _texts(item)
    if blocks is None or len(texts) < len(blocks):
        yield _digest({key: item[key] for key in item.keys() - _NOT_CONTENT})
    if blocks is not None and texts:
        yield _digest_of_text(role, "\n".join(texts))


def _blocks(item: Message) -> list[Any] | None:
    content = item.get("content")
    is_message = kind_of(item) == "message" and isinstance(content, list)
    return content if is_message and isinstance(content, list) and content else None


def _texts(item: Message) -> list[str]:
    blocks = (block for block in _blocks(item) or () if isinstance(block, Mapping))
    return [text for block in blocks if isinstance(text := block.get("text"), str)]


def _digest_of_text(role: Any, text: str) -> bytes:
    return _digest([role, text])


def _digest(value: Any) -> bytes:
    import hashlib  # slow to load, and most sessions need no digest

    try:
        content = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # a lone surrogate, or an integer of more than 64 bits
        content = json.dumps(value, sort_keys=True).encode()
    return hashlib.sha1(content, usedforsecurity=False).digest()
