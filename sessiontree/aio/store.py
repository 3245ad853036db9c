"""AsyncStore and the recorder for asyncio and trio, derived from the plain ones.

AsyncStore: a folder of sessions for asyncio and trio, with the words of `Store`, awaited.

The recorder for asyncio and trio: a running agent's stream, kept as it arrives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import anyio
from anyio.to_thread import run_sync

from sessiontree.aio.iteration import AsyncItems
from sessiontree.aio.session import AsyncSession, Opening, opening
from sessiontree.core.entry import Entry
from sessiontree.library.listing import Reaches, every
from sessiontree.recording.events import StreamEvent
from sessiontree.recording.recorder import StreamAccumulator
from sessiontree.recording.stream import Granularity
from sessiontree.session import Session
from sessiontree.storage.fs import DISK, FileSystem
from sessiontree.store import PathLike, Store

P = ParamSpec("P")
T = TypeVar("T")


def _awaited(
    method: Callable[Concatenate[Store, P], T],
) -> Callable[Concatenate[AsyncStore, P], Coroutine[Any, Any, T]]:
    @functools.wraps(method)
    async def call(self: AsyncStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await run_sync(partial(method, self.plain, *args, **kwargs))

    return call


def _items(
    method: Callable[Concatenate[Store, P], Iterator[T]],
) -> Callable[Concatenate[AsyncStore, P], AsyncItems[T]]:
    """A method of `Store` that yields, as an asynchronous iterator; each item comes at once."""

    @functools.wraps(method)
    def call(self: AsyncStore, /, *args: P.args, **kwargs: P.kwargs) -> AsyncItems[T]:
        return AsyncItems(run_sync, partial(method, self.plain, *args, **kwargs), piece=1)

    return call


def _opening(
    method: Callable[Concatenate[Store, P], Session],
) -> Callable[Concatenate[AsyncStore, P], Opening]:
    @functools.wraps(method)
    def call(self: AsyncStore, /, *args: P.args, **kwargs: P.kwargs) -> Opening:
        return opening(partial(method, self.plain, *args, **kwargs))

    return call


class AsyncStore:
    """A folder of sessions for asyncio and trio.

    The methods have the names and arguments of `Store`. `open` and `create` return an
    `AsyncSession` to await, or to enter with `async with`. A method that reads or writes is
    awaited. A method that yields is an asynchronous iterator.

    Args:
        root, fs, reaches: as for `Store`.
    """

    def __init__(
        self, root: PathLike | None = None, *, fs: FileSystem = DISK, reaches: Reaches = every
    ) -> None:
        self.plain = Store(root, fs=fs, reaches=reaches)
        self.root = self.plain.root  # the absolute path of the folder

    def __repr__(self) -> str:
        return f"Async{self.plain!r}"

    def project_dir(self, cwd: PathLike) -> str:
        """Return the path of the folder for the sessions of a working directory."""
        return self.plain.project_dir(cwd)

    create = _opening(Store.create)
    open = _opening(Store.open)
    fork = _awaited(Store.fork)
    find = _awaited(Store.find)
    list = _awaited(Store.list)
    iter_sessions = _items(Store.iter_sessions)
    paths = _awaited(Store.paths)
    search = _items(Store.search)
    latest = _awaited(Store.latest)
    gc = _awaited(Store.gc)
    backup = _awaited(Store.backup)
    move_project = _awaited(Store.move_project)
    trash = _awaited(Store.trash)
    trashed = _awaited(Store.trashed)
    restore = _awaited(Store.restore)
    empty_trash = _awaited(Store.empty_trash)
    find_trashed = _awaited(Store.find_trashed)


class AsyncStreamAccumulator:
    """A `StreamAccumulator` for an `AsyncSession`, with the same methods to await.

    Args:
        session, granularity, prompt: as for `StreamAccumulator`.
    """

    def __init__(
        self,
        session: AsyncSession,
        *,
        granularity: Granularity = "block",
        prompt: str | None = None,
    ) -> None:
        self._session = session
        self._make = partial(StreamAccumulator, granularity=granularity, prompt=prompt)
        self._made: StreamAccumulator | None = None

    @property
    def recognized(self) -> int:
        """The number of events that the recorder knows; see `StreamAccumulator`."""
        return 0 if self._made is None else self._made.recognized

    @property
    def head(self) -> Coroutine[Any, Any, Entry]:
        """The last entry that is no annotation, as of `StreamAccumulator`: `await … .head`."""
        return self._run(lambda plain: plain.head)

    async def feed(self, chunk: bytes | str) -> list[StreamEvent]:
        """Take the next piece of the stream; see `StreamAccumulator.feed`."""
        return await self._run(lambda plain: plain.feed(chunk))

    async def take(self, event: Mapping[str, Any]) -> list[StreamEvent]:
        """Take a decoded event; see `StreamAccumulator.take`."""
        return await self._run(lambda plain: plain.take(event))

    async def close(self) -> list[StreamEvent]:
        """Take the rest of the stream, and end open messages, also in a cancelled scope."""
        events: list[StreamEvent] = []
        with anyio.CancelScope(shield=True):
            events += await self._run(lambda plain: plain.close())
        return events

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def _run(self, act: Callable[[StreamAccumulator], T]) -> T:
        def work(session: Session) -> T:
            if self._made is None:
                self._made = self._make(session)
            return act(self._made)

        return await self._session.run(work)
