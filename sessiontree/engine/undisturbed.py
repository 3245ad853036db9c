"""A look at a session, undisturbed by the other threads that share it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from sessiontree.storage.log import FileLog


class Shared(Protocol):
    """What threads may share: a session, whose log has the lock."""

    _log: FileLog


Looking = TypeVar("Looking", bound=Shared)
Parameters = ParamSpec("Parameters")
Found = TypeVar("Found")


def undisturbed(
    look: Callable[Concatenate[Looking, Parameters], Found],
) -> Callable[Concatenate[Looking, Parameters], Found]:
    """Let no other thread that shares the session come between the steps of a look."""

    @functools.wraps(look)
    def alone(self: Looking, /, *args: Parameters.args, **named: Parameters.kwargs) -> Found:
        with self._log.lock.alone():
            return look(self, *args, **named)

    return alone
