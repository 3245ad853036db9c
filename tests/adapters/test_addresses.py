"""Each adapter works on a store at an address as on one in a folder."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from sessiontree import Session, Store
from sessiontree.adapters.base import SessionFiles
from tests.adapters.test_contracts import ADAPTERS, Adapter, ran
from tests.places.kinds import empty_store


@pytest.fixture(params=["folder", "memory", "postgres", "objects", "s3"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with empty_store(request.param, tmp_path) as store:
        yield store


@pytest.mark.slow
@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.__name__)
def test_what_an_adapter_writes_is_read_by_another_one(
    adapter: Callable[[Any], Adapter], root: str
) -> None:
    write, _ = adapter(root)
    ran(write)()
    ran(write)()
    (one,) = Store(root).list()
    with Session.open(one.file, readonly=True) as session:
        assert session.context().messages
    assert ran(adapter(root)[1])()
    assert ran(adapter(Store(root))[1])() == ran(adapter(root)[1])()


@pytest.mark.slow
def test_conversations_are_made_forked_listed_and_deleted(root: str) -> None:
    pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed")
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.messages import ModelRequest, UserPromptPart

    from sessiontree.adapters.pydantic_ai import SessionTreeConversationStore

    async def go() -> None:
        store = SessionTreeConversationStore(root)
        for id in ("one", "two"):
            conversation = Conversation(conversation_id=id)
            conversation.messages.append(ModelRequest(parts=[UserPromptPart(id)]))
            await store.save(conversation)
        assert await SessionTreeConversationStore(root).load("one") is not None
        await store.delete("one")
        assert await store.load("one") is None
        assert await store.load("two") is not None

    anyio.run(go, backend="asyncio")
    assert len(Store(root).list()) == 1
    assert len(Store(root).trashed()) == 1


@pytest.mark.slow
def test_sessions_of_users_are_listed_and_deleted(root: str) -> None:
    pytest.importorskip("google.adk", reason="google-adk is not installed")
    from sessiontree.adapters.google_adk import SessionTreeSessionService

    async def go() -> None:
        service = SessionTreeSessionService(root)
        for user, id in (("me", "a"), ("me", "b"), ("you", "c")):
            await service.create_session(
                app_name="app", user_id=user, session_id=id, state={"user:n": 1, "app:n": 2}
            )
        found = await service.list_sessions(app_name="app")
        assert [one.id for one in found.sessions] == ["a", "b", "c"]
        await service.delete_session(app_name="app", user_id="me", session_id="a")
        found = await service.list_sessions(app_name="app", user_id="me")
        assert [one.id for one in found.sessions] == ["b"]

    anyio.run(go, backend="asyncio")


def test_a_place_lists_its_sessions_and_folders(root: str) -> None:
    place = SessionFiles(root, "sdk")
    assert not list(place.files())
    assert not list(place.folders())
    files = [place.file_of("one"), place.inside("below").file_of("two")]
    for file in files:
        assert not place.has(file)
        place.make_room(file)
        Session.create(file).close()
        assert place.has(file)
    assert list(place.files()) == files[:1]
    (below,) = place.folders()
    assert list(below.files()) == files[1:]


def test_one_program_at_a_time_is_alone_in_a_place(root: str) -> None:
    place, inside, most = SessionFiles(root, "sdk"), 0, 0

    def go() -> None:
        nonlocal inside, most
        for _ in range(5):
            with SessionFiles(root, "sdk").alone():
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (inside, most) == (0, 1)
    assert list(place.files()) == []
    assert Store(root).list() == []
