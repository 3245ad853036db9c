"""Blocks: messages that were written piece by piece, folded into one again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sessiontree.core.entry import Entry
from sessiontree.core.message import Message


class Blocks:
    """The messages that were written block by block, each at its first block's place."""

    def __init__(self, entries: Iterable[Entry], warnings: list[str]) -> None:
        self._warnings = warnings
        self._members: dict[str, list[Entry]] = {}
        for entry in entries:
            if entry.type in ("block", "message_end"):
                self._members.setdefault(message_uuid(entry), []).append(entry)

    def message_at(self, entry: Entry) -> tuple[Message, list[str]] | None:
        """The message that starts at an entry, and the uuids of all its entries."""
        if entry.type not in ("block", "message_end"):
            return None
        members = self._members.get(message_uuid(entry), [])
        if not members or members[0] != entry:
            return None
        message = folded_message(members)
        if message.get("partial"):
            self._warnings.append(f"message {entry.get('messageUuid')} is partial: it has no end")
        return message, [member.uuid for member in members]


def message_uuid(entry: Entry) -> str:
    """The uuid of the message that an entry is a piece of; empty where it names none."""
    uuid = entry.get("messageUuid")
    return uuid if isinstance(uuid, str) else ""


def folded_message(members: Sequence[Entry]) -> dict[str, Any]:
    """One message from its `block` entries and, where it was closed, its `message_end`.

    Blocks stand by `index`, a later one in place of an earlier with the same
    index, and its last end counts. Without one the message is marked `"partial": true`.
    """
    blocks = {
        _index(entry, place): entry.get("block")
        for place, entry in enumerate(members)
        if entry.type == "block"
    }
    content = [blocks[index] for index in sorted(blocks) if isinstance(blocks[index], dict)]
    end = next((entry for entry in reversed(members) if entry.type == "message_end"), None)
    if end is None:
        return {"role": "assistant", "content": content, "partial": True}
    extra = {k: end[k] for k in _OF_THE_END if k in end}
    return {"role": end.get("role") or "assistant", "content": content, **extra}


_OF_THE_END: Final = ("id", "provider", "model", "usage", "stopReason")


def _index(entry: Entry, place: int) -> float:
    index = entry.get("index")
    return index if isinstance(index, int | float) else place
