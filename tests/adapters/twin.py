"""A store of pydantic-ai that asks its own store in memory and ours, and compares the answers."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from pydantic_ai.conversation_store import (
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)

from sessiontree.adapters.pydantic_ai import SessionTreeConversationStore

T = TypeVar("T")


class Twin(ConversationStore):
    """Both stores; each primitive is called on both, and must give or raise the same."""

    def __init__(self, ours: SessionTreeConversationStore) -> None:
        self.memory = InMemoryConversationStore()
        self.ours = ours

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        return await _same(
            self.memory.read_record(conversation_id), self.ours.read_record(conversation_id)
        )

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        return await _same(
            self.memory.read_records(scope=scope, limit=limit),
            self.ours.read_records(scope=scope, limit=limit),
        )

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        asked: dict[str, Any] = {"new_entries": new_entries, "expected_revision": expected_revision}
        await _same(
            self.memory.write_record(record, **asked), self.ours.write_record(record, **asked)
        )

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        await _same(
            self.memory.delete_record(conversation_id, expected_revision=expected_revision),
            self.ours.delete_record(conversation_id, expected_revision=expected_revision),
        )

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        return await _same(self.memory.read_entry(entry_id), self.ours.read_entry(entry_id))

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        return await _same(
            self.memory.read_history(head_id, limit=limit),
            self.ours.read_history(head_id, limit=limit),
        )


async def _same(one: Awaitable[T], other: Awaitable[T]) -> T:
    expected, found = await _outcome(one), await _outcome(other)
    if isinstance(expected, Exception):
        assert isinstance(
            found, LookupError if isinstance(expected, LookupError) else type(expected)
        )
        raise expected
    assert found == expected
    return expected


async def _outcome(asked: Awaitable[T]) -> T | Exception:
    try:
        return await asked
    except Exception as error:
        return error
