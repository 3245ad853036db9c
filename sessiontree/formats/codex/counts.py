"""What the lines of a rollout of Codex add up to. See `core.counts`."""

from __future__ import annotations

from typing import Any

from sessiontree.core.counts import Sums
from sessiontree.core.entry import decode_object
from sessiontree.core.usage import usage_of
from sessiontree.formats.codex.prompts import is_prompt


class CodexTally:
    """See `core.counts.Tally`."""

    needles: tuple[bytes, ...] = (b'"user"', b'"turn_context"', b'"token_count"')

    def __init__(self) -> None:
        self._sums = Sums()
        self.counts = self._sums.counts
        self._total: Any = None

    def take(self, line: bytes, *, beside: bool = False) -> None:
        body = decode_object(line)
        kind, payload = body.get("type"), body.get("payload")
        if not isinstance(payload, dict):
            return
        if kind == "response_item":
            self._sums.turns += payload.get("type") == "message" and is_prompt(payload)
        elif kind == "turn_context":
            self._sums.use(payload.get("model"))
        elif kind == "event_msg" and payload.get("type") == "token_count":
            self._take_usage(payload.get("info"), body.get("timestamp"))

    def _take_usage(self, info: Any, time: Any) -> None:
        if not isinstance(info, dict):
            return
        last, total = info.get("last_token_usage"), info.get("total_token_usage")
        if isinstance(last, dict) and total != self._total:  # Codex repeats the same count
            self._total = total
            self._sums.spend(usage_of(last), time)
