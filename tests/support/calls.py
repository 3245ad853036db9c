"""Calls of a dispatcher, and what they answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from sessiontree.calls.dispatcher import Data, Dispatcher, Done, Error, Event, Guidance
from sessiontree.calls.scope import Scope
from sessiontree.ops.budget import size

BYTES_OF_TOKEN = 4


class Answer(NamedTuple):
    """The events of one call."""

    events: list[Event]

    @property
    def value(self) -> Any:
        """The result; fails where there is an error."""
        assert self.error is None, self.error
        (found,) = (event.value for event in self.events if isinstance(event, Data))
        return found

    @property
    def error(self) -> str | None:
        return next((event.message for event in self.events if isinstance(event, Error)), None)

    @property
    def guidance(self) -> list[tuple[str, str]]:
        """The kind and the text of each."""
        return [(event.kind, event.next) for event in self.events if isinstance(event, Guidance)]

    @property
    def kind(self) -> str:
        """The kind of a refusal."""
        assert self.error is not None, self.events
        return self.guidance[-1][0]

    @property
    def tokens(self) -> int:
        """The tokens of the result."""
        return -(-size(self.value) // BYTES_OF_TOKEN)


class Calls:
    """Calls methods in a scope; by default in a confined one that may write."""

    def __init__(self, root: Path | str, **scope: Any) -> None:
        options = {"agents": False, "write": True, **scope}
        self.scope = Scope(str(root), **options)
        self.dispatcher = Dispatcher(self.scope)

    def __call__(self, name: str, /, **params: Any) -> Answer:
        events: list[Event] = []
        self.dispatcher.call(name, params, events.append)
        assert [isinstance(event, Done) for event in events].count(True) == 1
        assert isinstance(events[-1], Done)
        return Answer(events)

    def value(self, name: str, /, **params: Any) -> Any:
        return self(name, **params).value

    def pages(self, name: str, /, **params: Any) -> list[Any]:
        """The items of all pages, each page within its budget."""
        items: list[Any] = []
        cursor = None
        while True:
            answer = self(name, cursor=cursor, **params)
            budget = params.get("budget", 4000)
            assert not budget or answer.tokens <= max(budget, 200)
            items += answer.value["items"]
            cursor = answer.value.get("cursor")
            if cursor is None:
                return items
