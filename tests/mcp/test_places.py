"""Resources of a store at an address: their list, their names, and what has grown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from mcp_types import ResourceTemplateReference

from sessiontree import Session, Store
from tests.mcp.clients import client, run
from tests.places.kinds import opened
from tests.support.sessions import said


@pytest.fixture(params=["memory", "postgres", "objects"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with opened(request.param, tmp_path) as (place, _):
        yield Store(place.address("team"))


def _say(file: str) -> None:
    with Session.open(file, durability="os") as session:
        session.append_message({"role": "user", "content": "more"})


def test_the_sessions_are_listed_and_named_those_changed_last_first(store: Store) -> None:
    ids = [Session.open(said(store, text), readonly=True).id for text in ("one", "two")]
    template = ResourceTemplateReference(type="ref/resource", uri="session://{session}")

    async def test() -> None:
        async with client(store.root) as at:
            listed = (await at.list_resources()).resources
            assert sorted(one.name for one in listed) == sorted(ids)
            assert all(one.size for one in listed)
            found = await at.complete(template, {"name": "session", "value": ""})
            assert sorted(found.completion.values) == sorted(["latest", *ids])
            read = await at.read_resource(f"session://{ids[0]}")
            assert "one" in str(read.contents[0])

    run(test)


def test_a_client_hears_of_growth_and_of_a_new_session(store: Store) -> None:
    file = said(store, "hello")
    with Session.open(file, readonly=True) as session:
        uri = f"session://{session.id}"

    async def test() -> None:
        async with (
            client(store.root) as at,
            at.listen(resource_subscriptions=[uri], resources_list_changed=True) as events,
        ):
            await to_thread.run_sync(_say, file)
            assert getattr(await anext(events), "uri", None) == uri
            async with anyio.create_task_group() as group:
                group.start_soon(_make_sessions, store)
                while type(await anext(events)).__name__ != "ResourcesListChanged":
                    continue
                group.cancel_scope.cancel()

    run(test)


async def _make_sessions(store: Store) -> None:
    """Make one after the other: the list may be looked at only once the first ones are there."""
    while True:
        await to_thread.run_sync(said, store, "new")
        await anyio.sleep(0.2)
