"""How many messages of the model a recording has."""

from __future__ import annotations

from collections.abc import Iterable

from sessiontree.core.message import ABORTED
from sessiontree.recording import events


class MessageCount:
    """Counts the messages of the model that have content.

    Attributes:
        messages: how many there are so far.
    """

    def __init__(self) -> None:
        self._with_content: set[str] = set()
        self.messages = 0

    def take(self, batch: Iterable[events.Event]) -> None:
        """Take the next events of the recording."""
        for event in batch:
            self._take(event)

    def _take(self, event: events.Event) -> None:
        if isinstance(event, events.AssistantMessage):
            is_whole = event.stop_reason != ABORTED
            self.messages += is_whole or event.lane in self._with_content
            self._with_content.discard(event.lane)
        elif isinstance(event, events.ToolUseEnd) or (
            isinstance(event, events.ContentEnd | events.ThinkingEnd) and event.text
        ):
            self._with_content.add(event.lane)
