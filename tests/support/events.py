"""Calls of a dispatcher as tests make them: the events as a list, and what must hold for them."""

from __future__ import annotations

from typing import Any

from sessiontree.calls.dispatcher import Data, Dispatcher, Done, Error, Event, Guidance


def events(dispatcher: Dispatcher, name: Any, params: Any = None, **options: Any) -> list[Event]:
    """The events of a call, which are in order and all have provenance and hash."""
    found: list[Event] = []
    dispatcher.call(name, {} if params is None else params, found.append, **options)
    assert [isinstance(event, Done) for event in found] == [False] * (len(found) - 1) + [True]
    errors = [isinstance(event, Error) for event in found]
    assert sum(errors) <= 1
    assert not any(errors) or (errors[-2] and isinstance(found[-3], Guidance))
    assert {event.schema for event in found} == {dispatcher.schema}
    assert all(event.provenance.split("/")[0] == "sessiontree" for event in found)
    return found


def data(dispatcher: Dispatcher, name: str, /, **params: Any) -> Any:
    """The one result of a call that must succeed."""
    found = events(dispatcher, name, params)
    assert not any(isinstance(event, Error) for event in found), found
    (result,) = (event.value for event in found if isinstance(event, Data))
    return result


def refusal(dispatcher: Dispatcher, name: Any, params: Any = None) -> tuple[Guidance, Error]:
    """The guidance and the error of a call that must fail, and gives no result."""
    found = events(dispatcher, name, params)
    assert not any(isinstance(event, Data) for event in found), found
    guidance, error = found[-3:-1]
    assert isinstance(guidance, Guidance), found
    assert isinstance(error, Error), found
    return guidance, error
