"""The counts of a rollout: its prompts, and what its answers used.

Lines that Codex copied from a parent's rollout, with other times, are marked as inherited.
"""

from __future__ import annotations

from typing import Any, Final

from sessiontree.agents.codex.items import begins_turn
from sessiontree.agents.codex.repeats import SaidItems
from sessiontree.core.entry import seconds_of
from sessiontree.core.usage import Sums

_AT_ONCE: Final = 1.0
"""Seconds in which Codex writes a parent's lines again, and no model answers."""


class ParentReplay:
    """Tells which counts of tokens in a rollout are those of its parent, written again.

    A fork has its parent's lines as they were. A subagent's rollout has them with the time of its
    start: the answers would look like new ones.

    Args:
        own: the id of the rollout; None: the first `session_meta` line has it.
    """

    def __init__(self, own: str | None = None) -> None:
        self._own = own
        self._written: float | None = None

    def note(self, id: Any, begun: Any, written: Any) -> None:
        """Note a `session_meta` line: the id and the start that it gives, and its own time."""
        if self._own is None:
            self._own = id
        elif id != self._own:
            start, at = seconds_of(begun), seconds_of(written)
            is_late = start is not None and at is not None and at - start > _AT_ONCE
            self._written = at if is_late else None

    def has(self, time: Any) -> bool:
        """True if what was counted at a time is the parent's."""
        at = seconds_of(time)
        return self._written is not None and at is not None and at - self._written < _AT_ONCE


class CodexTally:
    """See `core.usage.Tally`."""

    needles: tuple[bytes, ...] = (
        *(b'"user"', b'"turn_context"', b'"token_count"'),
        *(b'"session_meta"', b'"thread_settings_applied"'),
    )

    def __init__(self) -> None:
        self._sums = Sums()
        self.counts = self._sums.counts
        self._replay = ParentReplay()
        self._total: Any = None
        self._provider: Any = None
        self._model: Any = None
        self._tier: Any = None
        self._said = SaidItems()

    def take(self, line: bytes, *, beside: bool = False) -> None:
        body = self._sums.decoded(line)
        kind, payload = body.get("type"), body.get("payload")
        if not isinstance(payload, dict):
            return
        if kind == "session_meta":
            self._provider = payload.get("model_provider")
            about = payload.get("id"), payload.get("timestamp"), body.get("timestamp")
            self._replay.note(*about)
        elif kind == "response_item" and payload.get("type") == "message" and begins_turn(payload):
            self._sums.ask(body.get("timestamp"))
            self._said.add(payload, "")
        elif kind == "compacted":
            self._take_listed(payload.get("replacement_history"), body.get("timestamp"))
        elif kind == "turn_context":
            self._model = payload.get("model") or self._model
            self._sums.use(self._model)
        elif kind == "event_msg" and payload.get("type") == "thread_settings_applied":
            settings = payload.get("thread_settings")
            self._tier = settings.get("service_tier") if isinstance(settings, dict) else None
        elif kind == "event_msg" and payload.get("type") == "token_count":
            self._take_usage(payload.get("info"), body.get("timestamp"))

    def _take_listed(self, items: Any, time: Any) -> None:
        """Count the prompts that only a compaction has."""
        listing = self._said.listing()
        prompts = filter(begins_turn, items if isinstance(items, list) else ())
        self._sums.ask(time, sum(listing.take(item, "") is None for item in prompts))

    def _take_usage(self, info: Any, time: Any) -> None:
        if not isinstance(info, dict):
            return
        last, total = info.get("last_token_usage"), info.get("total_token_usage")
        is_new = total != self._total or self._sums.is_told  # Codex repeats the same count
        if isinstance(last, dict) and is_new:
            self._total = total
            about = {"provider": self._provider, "model": self._model, "service_tier": self._tier}
            self._sums.spend(last, time, **about, is_inherited=self._replay.has(time))
