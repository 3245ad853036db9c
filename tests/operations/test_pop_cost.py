"""What a pop asks of resolvers."""

from __future__ import annotations

from typing import Any

import pytest

import sessiontree
from sessiontree.handles.registry import Registry
from tests.support.plugins import Plugin, handle, said


def test_a_pop_asks_once_for_a_handle_that_cannot_be_resolved() -> None:
    def lost(*_: Any) -> Any:
        raise ValueError("it is gone")

    plugin = Plugin("p", resolve=lost)
    session = sessiontree.Session.create(registry=Registry([plugin]))
    session.append_message(said("do it"))
    for key in range(3):
        session.append_handle(handle(key))
    plugin.asked.clear()
    with pytest.warns(sessiontree.SessionTreeWarning):
        session.pop()
    assert len(plugin.asked) == len(set(plugin.asked))
