"""AsyncStore and the recorder for asyncio and trio, derived from the plain ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import anyio

from sessiontree.aio.iteration import Awaiting, awaited, items
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


def _opening(
    method: Callable[Concatenate[Store, P], Session],
) -> Callable[Concatenate[AsyncStore, P], Opening]:
    @functools.wraps(method)
    def call(self: AsyncStore, /, *args: P.args, **kwargs: P.kwargs) -> Opening:
        return opening(partial(method, self.plain, *args, **kwargs))

    return call


class AsyncStore(Awaiting[Store]):
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
        self.plain = self._plain = Store(root, fs=fs, reaches=reaches)
        self.root = self.plain.root  # the absolute path of the folder

    _piece = 1  # each item comes at once

    def __repr__(self) -> str:
        return f"Async{self.plain!r}"

    def project_dir(self, cwd: PathLike) -> str:
        """Return the path of the folder for the sessions of a working directory."""
        return self.plain.project_dir(cwd)

    create = _opening(Store.create)
    open = _opening(Store.open)
    open_or_create = _opening(Store.open_or_create)
    continue_latest = _opening(Store.continue_latest)
    fork = awaited(Store.fork)
    find = awaited(Store.find)
    list = awaited(Store.list)
    iter_sessions = items(Store.iter_sessions)
    paths = awaited(Store.paths)
    search = items(Store.search)
    latest = awaited(Store.latest)
    gc = awaited(Store.gc)
    backup = awaited(Store.backup)
    move_project = awaited(Store.move_project)
    trash = awaited(Store.trash)
    trashed = awaited(Store.trashed)
    restore = awaited(Store.restore)
    empty_trash = awaited(Store.empty_trash)
    find_trashed = awaited(Store.find_trashed)


class AsyncStreamAccumulator(Awaiting[StreamAccumulator]):
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
        return self._on(lambda plain: plain.head)

    feed = awaited(StreamAccumulator.feed)
    take = awaited(StreamAccumulator.take)

    async def close(self) -> list[StreamEvent]:
        """Take the rest of the stream, and end open messages, also in a cancelled scope."""
        events: list[StreamEvent] = []
        with anyio.CancelScope(shield=True):
            events += await self._on(lambda plain: plain.close())
        return events

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def _on(self, act: Callable[[StreamAccumulator], T]) -> T:
        def work(session: Session) -> T:
            if self._made is None:
                self._made = self._make(session)
            return act(self._made)

        return await self._session.run(work)
