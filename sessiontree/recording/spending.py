"""Spending: what is counted already, so that nothing is counted twice.

Messages tell what they cost in tokens; at the end the agent tells what all of it came
to, in tokens and in dollars. Kept is the difference, so that a session's stats say
what the agent says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sessiontree.core.usage import Usage, usage_of

if TYPE_CHECKING:
    from sessiontree.session import Session

FIRST: Final = "streamStart"
"""The metadata key of the event that a recording began with: nothing before it counts."""


class Spending:
    """What was counted since the agent started, and in this turn of its main lane."""

    def __init__(self) -> None:
        self._run: dict[str, Usage] = {}
        self._turn: dict[str, Usage] = {}
        self._models: set[Any] = set()

    def count(self, key: str, usage: Usage, model: Any, *, is_main: bool) -> None:
        """Count what a message of a model spent; the last count of a key stands."""
        self._run[key] = usage
        self._models.add(model if isinstance(model, str) else None)
        if is_main:
            self._turn[key] = usage

    def end_turn(self, key: str, usage: Usage) -> None:
        """Count what the end of a turn added, and begin another."""
        self._run[key] = usage
        self._turn.clear()
        self._models.clear()

    def only_model(self, result: Mapping[str, Any]) -> str | None:
        """The model that the result of a turn is about; None where there are several."""
        named = result.get("modelUsage")
        models = set(named) if isinstance(named, Mapping) and named else self._models
        return next(iter(models)) or None if len(models) == 1 else None

    def rest(self, result: Mapping[str, Any]) -> Usage:
        """What the result of a turn tells of that is not counted yet."""
        by_model = _of_models(result)
        run = sum(self._run.values(), Usage())
        counted = run if by_model else sum(self._turn.values(), Usage())
        told = spent_in_all(result)
        return Usage(
            input=max(0, told.input - counted.input),
            output=max(0, told.output - counted.output),
            cache_read=max(0, told.cache_read - counted.cache_read),
            cache_write=max(0, told.cache_write - counted.cache_write),
            cost=max(0.0, told.cost - run.cost),
        )


def spent_in_all(result: Mapping[str, Any]) -> Usage:
    """What a result tells: of all models since the agent started, or else of the turn."""
    models = _of_models(result)
    tokens = sum(models, Usage()) if models else usage_of(result.get("usage"))
    cost = result.get("total_cost_usd", result.get("cost_usd"))
    return usage_of({**tokens.as_dict(), "cost": cost})


def _of_models(result: Mapping[str, Any]) -> list[Usage]:
    models = result.get("modelUsage")
    if not isinstance(models, Mapping):
        return []
    return [_of_model(model) for model in models.values() if isinstance(model, Mapping)]


def _of_model(model: Mapping[str, Any]) -> Usage:
    return usage_of(
        {
            "input": model.get("inputTokens"),
            "output": model.get("outputTokens"),
            "cacheRead": model.get("cacheReadInputTokens"),
            "cacheWrite": model.get("cacheCreationInputTokens"),
        }
    )


def spent_since_start(session: Session) -> Spending:
    """What the entries tell since the agent started, the last time; reads the whole file."""
    spending = Spending()
    for entry in session.entries():
        if entry.type == "custom":
            about = entry.as_stored.get("metadata")
            if isinstance(about, Mapping) and FIRST in about:
                spending = Spending()
        elif entry.type == "usage":
            spending.end_turn(entry.uuid, usage_of(entry.as_stored.get("usage")))
        elif entry.type in ("message", "message_end"):
            said = entry.message_as_stored if entry.type == "message" else entry.as_stored
            if isinstance(said, Mapping) and isinstance(said.get("usage"), Mapping):
                key = str(said.get("messageUuid", entry.uuid))
                is_main = (entry.lane or "main") == session.lane_name
                usage = usage_of(said["usage"])
                spending.count(key, usage, said.get("model"), is_main=is_main)
    return spending


def was_reported(session: Session, reported: Mapping[str, Any]) -> bool:
    """Whether a result was kept before; reads the whole file."""
    return any(entry.get("reported") == reported for entry in session.find(type="usage"))
