"""What the lines of a chat of Gemini CLI add up to. See `core.counts`."""

from __future__ import annotations

from typing import Any

from sessiontree.core.counts import Sums
from sessiontree.core.entry import decode_object
from sessiontree.core.usage import usage_of
from sessiontree.formats.gemini.messages import is_ignored, is_snapshot, parts_of


class GeminiTally:
    """See `core.counts.Tally`. A message that lines repeat under one id counts once."""

    needles: tuple[bytes, ...] = (b'"user"', b'"tokens"', b'"messages"')

    def __init__(self) -> None:
        self._sums = Sums()
        self.counts = self._sums.counts
        self._prompts: set[str] = set()

    def take(self, line: bytes, *, beside: bool = False) -> None:
        body = decode_object(line)
        change = body.get("$set")
        for holder in (body, change if isinstance(change, dict) else {}):
            messages = holder.get("messages")
            for message in messages if isinstance(messages, list) else ():
                self._take_message(message, beside=beside)
        self._take_message(body, beside=beside)

    def _take_message(self, message: Any, *, beside: bool) -> None:
        if not isinstance(message, dict):
            return
        id = message.get("id")
        if message.get("type") == "user" and not beside:
            is_again = isinstance(id, str) and id in self._prompts
            if not is_again and _is_prompt(message):
                self._prompts.add(str(id))
                self._sums.turns += 1
        elif isinstance(message.get("tokens"), dict):
            usage = usage_of(message["tokens"])
            self._sums.spend(usage, message.get("timestamp"), id, beside=beside)
            if not beside:
                self._sums.use(message.get("model"))


def _is_prompt(message: dict[str, Any]) -> bool:
    content = message.get("content")
    if is_ignored(content) or is_snapshot(message):
        return False
    return not any(
        isinstance(part, dict) and "functionResponse" in part for part in parts_of(content)
    )
