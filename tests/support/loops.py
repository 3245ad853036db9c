"""Tests that run in an event loop of asyncio and in one of trio, and tasks cut at an await."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any

import anyio
import pytest

LOOPS = ("asyncio", "trio")

PATIENCE = 60
"""Seconds after which a test gives up waiting; none takes a tenth of it."""


def in_each_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a test of a coroutine function: it runs in asyncio and in trio."""

    @functools.wraps(test)
    def run(loop: str, **fixtures: Any) -> None:
        run_in(loop, functools.partial(test, **fixtures))

    signature = inspect.signature(test)
    loop = inspect.Parameter("loop", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), loop]
    )
    both: Callable[..., None] = pytest.mark.parametrize("loop", LOOPS)(run)
    return both


def run_in(loop: str, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine function in a fresh event loop, for a minute at most."""

    async def bounded() -> None:
        with anyio.fail_after(PATIENCE):
            await main()

    anyio.run(bounded, backend=loop)


class Watched:
    """An awaitable whose suspensions are counted; at the one with a number, something is done.

    Attributes:
        count: how often it was suspended.
    """

    def __init__(self, work: Awaitable[Any], at: int = 0, act: Callable[[], object] = int) -> None:
        self.count = 0
        self._work = work
        self._at = at
        self._act = act

    def __await__(self) -> Generator[Any, Any, Any]:
        work = self._work.__await__()
        resume: Callable[[], Any] = functools.partial(next, work)
        while True:
            try:
                asked = resume()
            except StopIteration as done:
                return done.value
            self.count += 1
            if self.count == self._at:
                self._act()
            try:
                answer = yield asked
            except BaseException as error:
                resume = functools.partial(work.throw, error)
            else:
                resume = functools.partial(work.send, answer)
