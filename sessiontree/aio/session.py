"""AsyncSession: a session for asyncio and trio, with the words of `Session`, awaited."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Final, NoReturn, ParamSpec, Self, TypeVar

from sessiontree.aio.iteration import AsyncMessageStream, Awaiting, Following, awaited, items
from sessiontree.aio.worker import AsyncBlock, Worker
from sessiontree.context.context import Context
from sessiontree.core.damage import Damage, Note
from sessiontree.core.entry import Entry
from sessiontree.core.handle import Handle
from sessiontree.engine.reader import PathSlice
from sessiontree.errors import ReadOnlyError, UsageError, no_attribute
from sessiontree.handles.registry import ResolverScope
from sessiontree.recording.stream import MessageStream
from sessiontree.session import NEAR_NAMES, KnowsNearNames, Session
from sessiontree.views.messages import ReadEntries, ResolvedEntries

P = ParamSpec("P")
T = TypeVar("T")


def _settled(
    method: Callable[Concatenate[Session, P], Context],
) -> Callable[Concatenate[AsyncSession, P], Coroutine[Any, Any, Context]]:
    """The method that returns a context, which then reads nothing more."""

    @functools.wraps(method)
    async def call(self: AsyncSession, /, *args: P.args, **kwargs: P.kwargs) -> Context:
        return await self.run(lambda session: method(session, *args, **kwargs).settle())

    return call


def _opening(method: Callable[P, Session]) -> Callable[P, Opening]:
    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> Opening:
        return opening(partial(method, *args, **kwargs))

    return call


def _beside(
    method: Callable[Concatenate[Session, P], Session],
) -> Callable[Concatenate[AsyncSession, P], Opening]:
    @functools.wraps(method)
    def call(self: AsyncSession, /, *args: P.args, **kwargs: P.kwargs) -> Opening:
        return Opening(
            partial(_opened, self._worker, partial(method, self._plain, *args, **kwargs))
        )

    return call


def _streamed(
    method: Callable[Concatenate[Session, P], MessageStream],
) -> Callable[Concatenate[AsyncSession, P], AsyncMessageStream]:
    """The method that returns a stream; that reads and writes nothing yet."""

    @functools.wraps(method)
    def call(self: AsyncSession, /, *args: P.args, **kwargs: P.kwargs) -> AsyncMessageStream:
        return AsyncMessageStream(self._worker, method(self._plain, *args, **kwargs), self)

    return call


class _NotPlain:
    def __enter__(self) -> NoReturn:
        raise UsageError("an AsyncSession is entered with 'async with', not with 'with'")

    def __exit__(self, *error: object) -> None:
        """Exists for the error of `__enter__`."""


class AsyncSession(_NotPlain, Awaiting[Session], metaclass=KnowsNearNames):
    """A session for asyncio and trio. Its methods have the names and arguments of `Session`.

    The docstring of `Session` lists them in groups. `run` calls a function with the plain session.

    `open` and `create` return a session to await, or to enter with `async with`. A method that
    reads or writes is awaited. A method that yields is an asynchronous iterator.

    All calls of a session and of its lanes run in one thread, in the order in which tasks make
    them, so the event loop is never blocked. A call that is cancelled before it starts does
    nothing. A call that has started runs to its end in the thread: the entry is then written, and
    the next call sees it.

    Hooks, summarizers and the resolvers of handles may be coroutine functions. They run in the task
    that made the call, and get an `AsyncSession`. Plain functions run in the thread, and get the
    `Session`. A hook must not wait for another task that uses the same session.

    A session that is not closed is closed when the event loop ends.
    """

    def __init__(self, session: Session, worker: Worker, *, closes: bool = True) -> None:
        """Wrap an open session; `create` and `open` make them."""
        self._plain = session
        self._worker = worker
        self._drop = weakref.finalize(self, worker.drop, session) if closes else None
        _FACES[id(session)] = self

    if not TYPE_CHECKING:  # as in `Session`

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, NEAR_NAMES)

    def __repr__(self) -> str:
        return repr(self._plain).replace("<Session", "<AsyncSession", 1)

    # Open and close

    create = staticmethod(_opening(Session.create))
    open = staticmethod(_opening(Session.open))
    open_or_create = staticmethod(_opening(Session.open_or_create))
    beside = _beside(Session.beside)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Write an open batch, close the file, and release the lock. A second call does nothing."""
        if self._drop is not None and self._drop.detach() is not None:
            await self._worker.run(partial(self._worker.close, self._plain), always=True)

    async def run(
        self, function: Callable[Concatenate[Session, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call a function with the plain `Session` in the thread of this session.

        Use it for what has no awaited method: `await session.run(lambda plain: plain.blobs)`.

        Args:
            function: a plain function that takes the `Session` first.
            args, kwargs: its other arguments.

        Returns:
            What the function returns.
        """
        return await self._worker.run(partial(function, self._plain, *args, **kwargs))

    async def _call(self, function: Callable[[], T]) -> T:
        return await self._worker.run(function)

    # Look

    @property
    def file(self) -> str | None:
        """The path of the file, as given; None for a session in memory."""
        return self._plain.file

    @property
    def header(self) -> Entry:
        """The first entry, the root of the tree."""
        return self._plain.header

    @property
    def id(self) -> str:
        """The id of the session."""
        return self._plain.id

    @property
    def lane_name(self) -> str:
        """The lane that this session reads and writes."""
        return self._plain.lane_name

    @property
    def leaf(self) -> Entry:
        """The current entry: the parent of the next entry that this session writes."""
        return self._plain.leaf

    @property
    def conflict(self) -> Coroutine[Any, Any, Entry | None]:
        """The last entry of another writer that is not on this path: `await session.conflict`.

        See `Session.conflict`.
        """
        return self.run(lambda session: session.conflict)

    @property
    def name(self) -> Coroutine[Any, Any, str | None]:
        """The latest name of the session, or None: `await session.name`."""
        return self.run(lambda session: session.name)

    @property
    def metadata(self) -> Coroutine[Any, Any, dict[str, Any]]:
        """The metadata of the header, with all later changes: `await session.metadata`."""
        return self.run(lambda session: session.metadata)

    @property
    def damage(self) -> Coroutine[Any, Any, list[Damage]]:
        """The damage found in the file so far, in file order: `await session.damage`."""
        return self.run(lambda session: session.damage)

    @property
    def notes(self) -> Coroutine[Any, Any, list[Note]]:
        """The lines of unknown types in another agent's file: `await session.notes`."""
        return self.run(lambda session: session.notes)

    entry = awaited(Session.entry)
    entries = items(Session.entries)
    children = awaited(Session.children)
    find = awaited(Session.find)
    path = awaited(Session.path)
    context = _settled(Session.context)
    unfinished = awaited(Session.unfinished)
    turn = awaited(Session.turn)
    turns = awaited(Session.turns)
    branches = awaited(Session.branches)
    tree = items(Session.tree)
    compare = awaited(Session.compare)
    labels = awaited(Session.labels)
    outline = awaited(Session.outline)
    render = items(Session.render)
    conversation = items(Session.conversation)
    block = awaited(Session.block)
    stats = awaited(Session.stats)
    file_events = awaited(Session.file_events)
    original = awaited(Session.original)
    sent_request = awaited(Session.sent_request)
    resolve = awaited(Session.resolve)
    resolve_many = awaited(Session.resolve_many)
    resolved_path = awaited(Session.resolved_path)
    resolved_tree = awaited(Session.resolved_tree)
    refresh = awaited(Session.refresh)

    def follow(self, damaged: Callable[[Damage], object] | None = None) -> Following:
        """Yield each entry that any writer adds from now on, until the session is closed.

        Args:
            damaged: also called, in another thread, with each damage found in the new lines.

        Returns:
            An asynchronous iterator. To end it earlier, enter it with `async with`, or `aclose` it.

        Raises:
            UsageError: the session is in memory, or the file belongs to another agent.
            FileReplacedError: the file was rewritten in place, or now has another session.
        """

        def start(stop: threading.Event) -> Iterator[Entry]:
            return session.follow(damaged, stop)

        session = self._plain
        return Following(self._worker, start, self)

    # Write

    append = awaited(Session.append)
    append_message = awaited(Session.append_message)
    append_handle = awaited(Session.append_handle)
    attach = awaited(Session.attach)
    stream_message = _streamed(Session.stream_message)
    append_usage = awaited(Session.append_usage)
    label = awaited(Session.label)
    rename = awaited(Session.rename)
    update_metadata = awaited(Session.update_metadata)
    set_model = awaited(Session.set_model)
    set_thinking_level = awaited(Session.set_thinking_level)

    def batch(self) -> AsyncBlock:
        """Write all entries that the `async with` block appends, with one write and one sync.

        The batch belongs to the task that enters it, and ends when the block is left, also by
        cancellation: what was appended is written. If another task appends an entry meanwhile, the
        waiting entries and this entry are written at once. Another task that enters a batch waits
        for the end of this one. See `Session.batch`.

        Raises:
            UsageError: this task has a batch open, or was started inside one.
        """
        return AsyncBlock(self._worker, self._plain.batch)

    def locked(self) -> AsyncBlock:
        """Take the lock, move to the newest leaf of the lane, and hold the lock for the block."""
        return AsyncBlock(self._worker, self._plain.locked)

    # Move and combine

    branch = awaited(Session.branch)
    branch_plan = awaited(Session.branch_plan)
    switch = awaited(Session.switch)
    rewind = awaited(Session.rewind)
    undo = awaited(Session.undo)
    retract = awaited(Session.retract)
    push = awaited(Session.push)
    pop = awaited(Session.pop)
    pop_plan = awaited(Session.pop_plan)
    compact = awaited(Session.compact)
    compaction_plan = awaited(Session.compaction_plan)
    needs_compaction = awaited(Session.needs_compaction)
    auto_compact = awaited(Session.auto_compact)
    cherry_pick = awaited(Session.cherry_pick)
    merge = awaited(Session.merge)
    merge_plan = awaited(Session.merge_plan)
    edit_context = awaited(Session.edit_context)

    # Copy

    fork = awaited(Session.fork)
    export_branch = awaited(Session.export_branch)
    to_markdown = items(Session.to_markdown)
    to_html = items(Session.to_html)
    convert = awaited(Session.convert)

    # Lanes

    lane = _beside(Session.lane)
    subagent = _beside(Session.subagent)
    scratch = _beside(Session.scratch)
    keep = awaited(Session.keep)

    # Maintain

    verify = awaited(Session.verify)
    repair = awaited(Session.repair)
    gc = awaited(Session.gc)


class Opening(_NotPlain):
    """A session that is being opened: await it, or enter it with `async with`."""

    def __init__(self, open: Callable[[], Coroutine[Any, Any, AsyncSession]]) -> None:
        self._open = open
        self._opened: AsyncSession | None = None

    def __await__(self) -> Generator[Any, None, AsyncSession]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncSession:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(self, *error: object) -> None:
        if self._opened is not None:
            await self._opened.close()


def opening(make: Callable[[], Session]) -> Opening:
    """Open a session in a worker of its own."""

    async def open() -> AsyncSession:
        return await _opened(Worker(_shown), make)

    return Opening(open)


async def _opened(worker: Worker, make: Callable[[], Session]) -> AsyncSession:
    made: list[Session] = []

    def work() -> None:
        made.append(make())
        worker.add(made[0])

    try:
        await worker.run(work)
    except BaseException:
        with suppress(ReadOnlyError):  # the worker has ended
            worker.submit(lambda: tuple(map(worker.close, made)))
        raise
    return AsyncSession(made[0], worker)


class AsyncScope(Awaiting[ResolverScope]):
    """What a resolver that is a coroutine function gets in place of a `ResolverScope`."""

    def __init__(self, scope: ResolverScope, worker: Worker) -> None:
        self._plain = scope
        self._worker = worker

    @property
    def session(self) -> AsyncSession:
        """The session that the handles are in."""
        found = self._plain.session
        assert isinstance(found, Session)
        return _face(found, self._worker)

    @property
    def root(self) -> str:
        """The folder that `file` handles are below."""
        return self._plain.root

    @property
    def found(self) -> dict[Any, Any]:
        """What resolvers keep for the next handle."""
        return self._plain.found

    def metadata(self, handle: Handle) -> Mapping[str, Any]:
        """The metadata of the handle's entry; see `ResolverScope.metadata`. It is not awaited."""
        return self._plain.metadata(handle)

    async def _call(self, function: Callable[[], T]) -> T:
        return await self._worker.run(function)

    resolve = awaited(ResolverScope.resolve)
    resolve_many = awaited(ResolverScope.resolve_many)


_FACES: Final[weakref.WeakValueDictionary[int, AsyncSession]] = weakref.WeakValueDictionary()
"""The asynchronous session of each plain session that has one, by its identity."""


def _face(session: Session, worker: Worker) -> AsyncSession:
    return _FACES.get(id(session)) or AsyncSession(session, worker, closes=False)


def _shown(worker: Worker, argument: Any) -> Any:
    """What a coroutine function gets in place of an argument that belongs to the worker."""
    if isinstance(argument, Session):
        return _face(argument, worker)
    if isinstance(argument, ResolverScope):
        return AsyncScope(argument, worker)
    if isinstance(argument, ResolvedEntries):
        return ReadEntries(argument)  # the other would read the file as it goes
    if isinstance(argument, PathSlice):
        return list(argument)
    return argument
