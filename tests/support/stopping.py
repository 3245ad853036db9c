"""Calls that are stopped while they work."""

from __future__ import annotations

import threading
from typing import Any

from sessiontree.calls.dispatcher import Error, Event, Progress
from tests.support.calls import Calls


def reports_until_stopped(calls: Calls, name: str, after: int, **params: Any) -> int:
    """Stop a call at one of its reports; how many it gave until it ended."""
    stop, events = threading.Event(), list[Event]()

    def reports() -> int:
        return sum(isinstance(event, Progress) for event in events)

    def take(event: Event) -> None:
        events.append(event)
        if reports() == after:
            stop.set()

    calls.dispatcher.call(name, params, take, stop=stop)
    errors = [event.message for event in events if isinstance(event, Error)]
    assert len(errors) == 1
    assert "stopped" in errors[0]
    return reports()
