"""Completions: the names that a user may mean, while the user types."""

from __future__ import annotations

from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext

from sessiontree.mcp.answer import sendable
from sessiontree.mcp.content import Resources

_KINDS: Final = {
    "session": "session",
    "turn": "turn",
    "label": "label",
    "branch": "branch",
    "ref": "ref",
    "one": "ref",
    "other": "ref",
}
"""For each argument of a prompt or of a template the kind of its names."""


class Completing:
    """The completions of a server.

    Args:
        resources: finds the names.
    """

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    async def on_complete(
        self, ctx: ServerRequestContext[Any, Any], params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        kind = _KINDS.get(params.argument.name)
        if kind is None:
            return types.CompleteResult(completion=types.Completion(values=[]))
        before = params.context.arguments if params.context is not None else None
        found = await self._resources.ask(
            "names", kind=kind, start=params.argument.value, session=(before or {}).get("session")
        )
        value = found.value or {"names": [], "total": 0}
        names: list[str] = sendable(value["names"])
        total: int = value["total"]
        return types.CompleteResult(
            completion=types.Completion(values=names, total=total, has_more=total > len(names))
        )
