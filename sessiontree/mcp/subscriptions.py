"""Subscriptions: clients hear when a session that they watch has grown, and when a session comes.

A client of an older protocol subscribes to each address; a client of the protocol of 2026-07-28
listens, and names all addresses at once. Both hear of the same changes.

Invariants: files are looked at only while somebody watches; a change is told after it is in the
file, so a client that reads then gets it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import anyio
import mcp_types as types
from anyio import to_thread
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)

from sessiontree.catalog.listing import reading
from sessiontree.catalog.places import files_in
from sessiontree.dispatch.guidance import Refusal
from sessiontree.dispatch.scope import Scope
from sessiontree.errors import SessionTreeError
from sessiontree.mcp.resources import Address, not_found
from sessiontree.storage.fs import DISK

Context = ServerRequestContext[Any, Any]
Stamp = tuple[int, ...] | None

_PAUSE_SECONDS: Final = 0.25
_SHARE: Final = 20
"""A look at files, or at a list, is followed by a pause of so many times its length."""

_MOST: Final = 1024
"""Subscriptions of clients of an older protocol; the oldest one goes for a new one."""


class Watching:
    """What clients watch, and the task that looks at the files.

    Args:
        scope: finds the file of a session.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._bus = InMemorySubscriptionBus()
        self._listening = ListenHandler(self._bus)
        self._files: dict[str, tuple[str, int]] = {}  # by address: the file, and how many watch it
        self._stamps: dict[str, Stamp] = {}
        self._lists = 0  # how many watch the list
        self._told: OrderedDict[tuple[str, int], ServerSession] = OrderedDict()
        self._more = anyio.Event()  # set when there is more to watch

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look at what is watched until the end of the block."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._look_at_files)
            group.start_soon(self._look_at_list)
            try:
                yield
            finally:
                self._listening.close()
                group.cancel_scope.cancel()

    async def on_listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        wanted = params.notifications
        uris = list(dict.fromkeys(wanted.resource_subscriptions or ()))
        held: list[str] = []
        try:
            for uri in uris:
                await self._add(uri)
                held.append(uri)
            self._lists += bool(wanted.resources_list_changed)
            self._wake()
            try:
                return await self._listening(ctx, params)
            finally:
                self._lists -= bool(wanted.resources_list_changed)
        finally:
            self._remove(held)

    async def on_subscribe(
        self, ctx: Context, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        key = params.uri, _client(ctx)
        if key not in self._told:
            await self._add(params.uri)
            if key in self._told:  # the client asked twice at once
                self._remove([params.uri])
            self._told[key] = ctx.session
            self._wake()
        while len(self._told) > _MOST:
            (oldest, _), _session = self._told.popitem(last=False)
            self._remove([oldest])
        return types.EmptyResult()

    async def on_unsubscribe(
        self, ctx: Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        if self._told.pop((params.uri, _client(ctx)), None) is not None:
            self._remove([params.uri])
        return types.EmptyResult()

    async def _add(self, uri: str) -> None:
        at = Address.of(uri)
        try:
            file = await to_thread.run_sync(self._scope.file, at.session, _ignore)
        except (Refusal, SessionTreeError) as error:
            raise not_found(uri, str(error)) from error
        file, count = self._files.get(uri, (file, 0))
        self._files[uri] = file, count + 1
        self._stamps.setdefault(file, _stamp(file))

    def _remove(self, uris: Iterable[str]) -> None:
        for uri in uris:
            file, count = self._files.pop(uri)
            if count > 1:
                self._files[uri] = file, count - 1
            elif all(file != other for other, _ in self._files.values()):
                self._stamps.pop(file, None)

    async def _look_at_files(self) -> None:
        pause = _PAUSE_SECONDS
        while True:
            while not self._files:
                await self._more.wait()
            await anyio.sleep(pause)
            before = anyio.current_time()
            now = await to_thread.run_sync(_stamps, [*self._stamps])
            pause = _pause(before)
            changed = {f for f, stamp in now.items() if self._stamps.get(f, stamp) != stamp}
            self._stamps.update((f, now[f]) for f in changed)
            for uri in [uri for uri, (file, _) in self._files.items() if file in changed]:
                await self._tell(uri)

    async def _tell(self, uri: str) -> None:
        await self._bus.publish(ResourceUpdated(uri))
        for (watched, _), session in [*self._told.items()]:
            if watched == uri:
                await session.send_resource_updated(uri)

    async def _look_at_list(self) -> None:
        known: frozenset[str] | None = None
        while True:
            while not self._lists:
                known = None
                await self._more.wait()
            before = anyio.current_time()
            found = await to_thread.run_sync(self._every_file)
            if known is not None and found != known:
                await self._bus.publish(ResourcesListChanged())
            known = found
            await anyio.sleep(_pause(before))

    def _wake(self) -> None:
        self._more.set()
        self._more = anyio.Event()

    def _every_file(self) -> frozenset[str]:
        with suppress(SessionTreeError, OSError):
            return frozenset(files_in(self._scope.places, _ignore))
        return frozenset()


def _pause(before: float) -> float:
    """The seconds between a look that began then, and the next one."""
    return max(_PAUSE_SECONDS, (anyio.current_time() - before) * _SHARE)


def _client(ctx: Context) -> int:
    return id(ctx.session.client_params)


def _stamps(files: list[str]) -> dict[str, Stamp]:
    return {file: _stamp(file) for file in files}


def _stamp(file: str) -> Stamp:
    """What changes with a file: its identity, its size and its time."""
    try:
        found = reading(DISK, file).stat(file)
    except OSError:
        return None
    return *found.identity, found.size, round(found.modified * 1e9)


def _ignore(problem: str) -> None:
    """Problems of other files are told where sessions are listed."""
