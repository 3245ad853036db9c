"""Subscriptions: clients hear when a session that they watch has grown, and when a session comes.

A client of an older protocol subscribes to each address; a client of the protocol of 2026-07-28
listens, and names all addresses at once. Both hear of the same changes.

Invariants: files and addresses are looked at only while somebody watches; a change is told after it
is in the file, so a client that reads then gets it. A server is asked no more than a share of the
time, and while it cannot be reached, the subscriptions to files go on.
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

from sessiontree.calls.scope import Scope
from sessiontree.errors import SessionTreeError
from sessiontree.library.changes import ChangeStamp, changes_of
from sessiontree.library.places import files_in
from sessiontree.mcp.content import ResourceAddress, not_found
from sessiontree.ops.guidance import Refusal
from sessiontree.storage.place import is_address

Context = ServerRequestContext[Any, Any]
Changes = dict[str, ChangeStamp | None]

_PAUSE_SECONDS: Final = 0.25
_SHARE: Final = 20
"""A list, or a look at addresses, is followed by a pause of so many times its length."""

_RETRY_SECONDS: Final = 10.0
"""The pause after a look at a server that cannot be reached."""

_MAX: Final = 1024
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
        self._changes: Changes = {}
        self._lists = 0  # how many watch the list
        self._told: OrderedDict[tuple[str, int], ServerSession] = OrderedDict()
        self._more = anyio.Event()  # set when there is more to watch

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look at what is watched until the end of the block."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._look_at_files)
            group.start_soon(self._look_at_addresses)
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
        while len(self._told) > _MAX:
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
        at = ResourceAddress.of(uri)
        try:
            file = await to_thread.run_sync(self._scope.file, at.session, _ignore)
            now = await to_thread.run_sync(self._changes_of, [file])
        except (Refusal, SessionTreeError) as error:
            raise not_found(uri, str(error)) from error
        file, count = self._files.get(uri, (file, 0))
        self._files[uri] = file, count + 1
        for changed, change in now.items():
            self._changes.setdefault(changed, change)

    def _remove(self, uris: Iterable[str]) -> None:
        for uri in uris:
            file, count = self._files.pop(uri)
            if count > 1:
                self._files[uri] = file, count - 1
            elif all(file != other for other, _ in self._files.values()):
                self._changes.pop(file, None)

    async def _look_at_files(self) -> None:
        while True:
            files = await self._watched(addresses=False)
            await anyio.sleep(_PAUSE_SECONDS)
            await self._look_at(files)

    async def _look_at_addresses(self) -> None:
        while True:
            files = await self._watched(addresses=True)
            before = anyio.current_time()
            try:
                await self._look_at(files)
            except SessionTreeError:
                await anyio.sleep(_RETRY_SECONDS)
            else:
                await anyio.sleep(_pause_after(before))

    async def _watched(self, *, addresses: bool) -> list[str]:
        """The files, or the addresses, that are watched; waits until there are some."""
        while not (found := [f for f in self._changes if is_address(f) == addresses]):
            await self._more.wait()
        return found

    async def _look_at(self, files: list[str]) -> None:
        now = await to_thread.run_sync(self._changes_of, files)
        changed = {f for f, change in now.items() if self._changes.get(f, change) != change}
        self._changes.update((f, now[f]) for f in changed)
        for uri in [uri for uri, (file, _) in self._files.items() if file in changed]:
            await self._tell(uri)

    def _changes_of(self, files: list[str]) -> Changes:
        """The changes of files; None for one that became a link which leads outside."""
        return {**dict.fromkeys(files), **changes_of(filter(self._scope.is_inside, files))}

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
            if known is not None and found not in (None, known):
                await self._bus.publish(ResourcesListChanged())
            known = known if found is None else found
            await anyio.sleep(_RETRY_SECONDS if found is None else _pause_after(before))

    def _wake(self) -> None:
        self._more.set()
        self._more = anyio.Event()

    def _every_file(self) -> frozenset[str] | None:
        """The files of all sessions; None where they cannot be listed now."""
        with suppress(SessionTreeError, OSError):
            return frozenset(files_in(self._scope.places, _ignore, self._scope.reaches))
        return None


def _pause_after(before: float) -> float:
    """The seconds to wait after a look that began at a time."""
    return max(_PAUSE_SECONDS, (anyio.current_time() - before) * _SHARE)


def _client(ctx: Context) -> int:
    return id(ctx.session.client_params)


def _ignore(problem: str) -> None:
    """Problems of other files are told where sessions are listed."""
