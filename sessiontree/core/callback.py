"""Callbacks: functions of the user that a session calls: hooks, summarizers, resolvers.

A `Session` calls plain functions. An `AsyncSession` runs each call of a session in a thread of its
own, and sets a bridge there. Coroutine functions go over the bridge to the task that called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Final, Protocol

from sessiontree.errors import UsageError


class Bridge(Protocol):
    """The way from the thread of a session back to the task that called the session.

    Attributes:
        task: the task of asyncio or trio.
    """

    @property
    def task(self) -> object: ...

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...], *, alone: bool) -> Any:
        """Run a coroutine function in the task, and return its result.

        With `alone`, other tasks wait; else the session serves them meanwhile.
        """


BRIDGE: Final[ContextVar[Bridge | None]] = ContextVar("bridge to the calling task", default=None)


def called(function: Callable[..., Any], *arguments: Any, alone: bool = False) -> Any:
    """Call a function of the user, and return its result.

    Args:
        function: a plain function; over a bridge, a coroutine function too.
        arguments: the arguments of the function.
        alone: whether the session is in the middle of a step, so that other tasks must wait.

    Raises:
        UsageError: it is a coroutine function, and there is no bridge.
    """
    bridge = BRIDGE.get()
    if bridge is not None and is_coroutine_function(function):
        return bridge.call(function, arguments, alone=alone)
    result = function(*arguments)
    if result is None or not isinstance(result, Coroutine):
        return result
    if bridge is not None:
        return bridge.call(_itself, (result,), alone=alone)
    result.close()
    raise refusal(function)


def check_plain(function: Any) -> None:
    """Refuse a coroutine function where no bridge leads to a task."""
    if BRIDGE.get() is None and is_coroutine_function(function):
        raise refusal(function)


def check_never_awaited(argument: str, function: Any) -> None:
    """Refuse a coroutine function for an argument that nothing awaits."""
    if is_coroutine_function(function):
        raise UsageError(
            f"{argument} is a plain function, also of an AsyncSession, not the coroutine function "
            f"{_name_of(function)}"
        )


def is_coroutine_function(function: Any) -> bool:
    """True if calling an object makes a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # an object with an async `__call__`
    )


def refusal(function: object) -> UsageError:
    """The error for a coroutine function that is given to a `Session`."""
    return UsageError(
        f"{_name_of(function)} is a coroutine function, and a Session calls plain functions only; "
        "use AsyncSession, or give a plain function"
    )


def _name_of(function: object) -> str:
    return getattr(function, "__qualname__", None) or f"{function!r:.80}"


async def _itself(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return await coroutine
