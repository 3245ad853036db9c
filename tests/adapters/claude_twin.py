"""A store of claude-agent-sdk that asks its own store in memory and ours, and compares."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from claude_agent_sdk import InMemorySessionStore, SessionStore
from claude_agent_sdk.types import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
)

from sessiontree.adapters.claude_agent_sdk import SessionTreeStore


class Twin(SessionStore):
    """Both stores; each method is called on both, and must give the same.

    Times are those of the store in memory. It is not given what ours leaves out: entries with a
    uuid that the key has. A batch with one of those has no entries without a uuid here, because
    ours leaves out some of them too.
    """

    def __init__(self, ours: SessionTreeStore) -> None:
        self.memory = InMemorySessionStore()
        self.ours = ours

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        known = {_uuid(one) for one in self.memory.get_entries(key)} - {None}
        if any(_uuid(entry) in known for entry in entries):
            entries = [entry for entry in entries if _uuid(entry) is not None]
        await self.ours.append(key, entries)
        if new := _new(known, entries):
            await self.memory.append(key, new)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        expected = await self.memory.load(key)
        assert await self.ours.load(key) == expected
        return expected

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        expected = await self.memory.list_sessions(project_key)
        found = await self.ours.list_sessions(project_key)
        assert {one["session_id"] for one in found} == {one["session_id"] for one in expected}
        return expected

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        expected = await self.memory.list_session_summaries(project_key)
        found = await self.ours.list_session_summaries(project_key)
        times = {one["session_id"]: one["mtime"] for one in found}
        listed = await self.ours.list_sessions(project_key)
        assert all(times[one["session_id"]] >= one["mtime"] > 1e12 for one in listed)
        data = {one["session_id"]: one["data"] for one in expected}
        assert {one["session_id"]: one["data"] for one in found} == data
        return expected

    async def delete(self, key: SessionKey) -> None:
        await self.memory.delete(key)
        await self.ours.delete(key)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        expected = await self.memory.list_subkeys(key)
        assert await self.ours.list_subkeys(key) == expected
        return expected


def _new(known: Set[str | None], entries: Sequence[Any]) -> list[SessionStoreEntry]:
    seen = set(known)
    found: list[SessionStoreEntry] = []
    for entry in entries:
        if _uuid(entry) is None or _uuid(entry) not in seen:
            seen.add(_uuid(entry))
            found.append(entry)
    return found


def _uuid(entry: Any) -> str | None:
    uuid = entry.get("uuid")
    return uuid if isinstance(uuid, str) and uuid else None
