"""Sessions at an address as resources: listed, completed, read, and heard of when they grow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import ResourceTemplateReference, ResourceUpdatedNotification

from sessiontree import Session, Store
from sessiontree.errors import StorageError
from sessiontree.library import changes, places
from sessiontree.mcp import content, subscriptions
from tests.mcp.clients import MODES, client, run, talk, text_in
from tests.places.kinds import in_store, opened
from tests.support.sessions import said
from tests.support.table import for_each

KINDS = ("memory", "postgres", "objects")
TEMPLATE = ResourceTemplateReference(type="ref/resource", uri="session://{session}/turn/{turn}")


def _say(root: str, id: str) -> None:
    with Store(root).open(id) as session:
        session.append_message({"role": "user", "content": "more"})


@for_each("mode", MODES)
@for_each("kind", KINDS)
def test_sessions_are_listed_in_pages_completed_and_read(
    tmp_path: Path, kind: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "PAGE", 2)
    with opened(kind, tmp_path) as (_, url):
        if kind == "postgres":
            said(Store(url), "of another schema")
            url += "?schema=b"
        root = in_store(url, "team")
        said(Store(in_store(url, "other")), "of another team")
        ids = [talk(root, f"say-{number}") for number in range(3)]

        async def test() -> None:
            async with client(root, mode) as at:
                found, cursor = [], None
                while True:
                    page = await at.list_resources(cursor=cursor)
                    assert len(page.resources) <= 2
                    found += page.resources
                    if (cursor := page.next_cursor) is None:
                        break
                assert sorted(one.name for one in found) == sorted(ids)
                assert {one.title for one in found} == {"say-0", "say-1", "say-2"}
                named = await at.complete(TEMPLATE, {"name": "session", "value": ""})
                latest, *names = named.completion.values
                assert (latest, sorted(names)) == ("latest", sorted(ids))
                for uri in (found[0].uri, f"session://{ids[2][:13]}", "session://say-2"):
                    read = (await at.read_resource(f"{uri}/outline")).contents
                    assert "In Rust." in text_in(read)

        run(test)


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
@for_each("few", [0, 8])
@for_each("kind", KINDS)
def test_a_client_that_subscribes_hears_when_the_session_grows(
    tmp_path: Path, kind: str, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "FEW", few)
    with opened(kind, tmp_path) as (_, url):
        root = in_store(f"{url}?schema=b" if kind == "postgres" else url, "team")
        id, other = talk(root, "one"), talk(root, "two")
        heard: list[str] = []
        news = anyio.Event()

        async def hear(message: Any) -> None:
            if isinstance(message, ResourceUpdatedNotification):
                heard.append(message.params.uri)
                news.set()

        async def test() -> None:
            nonlocal news
            async with client(root, "legacy", message_handler=hear) as at:
                for each in (id, other):
                    await at.session.subscribe_resource(f"session://{each}")
                for each in (id, other, id):
                    await anyio.to_thread.run_sync(_say, root, each)
                    await news.wait()
                    assert heard == [f"session://{each}"]
                    heard.clear()
                    news = anyio.Event()

        run(test)


@for_each("kind", KINDS)
def test_a_client_that_listens_hears_of_growth_and_of_new_sessions(
    tmp_path: Path, kind: str
) -> None:
    with opened(kind, tmp_path) as (place, _):
        root = place.address("team")
        id = talk(root)

        async def test() -> None:
            async with client(root) as at:
                uri = f"session://{id}/context"
                async with at.listen(
                    resource_subscriptions=[uri], resources_list_changed=True
                ) as events:
                    await anyio.to_thread.run_sync(_say, root, id)
                    assert getattr(await anext(events), "uri", None) == uri
                    async with anyio.create_task_group() as group:
                        group.start_soon(_make_sessions, root)
                        while type(await anext(events)).__name__ != "ResourcesListChanged":
                            continue
                        group.cancel_scope.cancel()

        run(test)


async def _make_sessions(root: str) -> None:
    while True:
        await anyio.to_thread.run_sync(said, Store(root), "new")
        await anyio.sleep(0.2)


def test_a_server_that_cannot_be_reached_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = 0
    look, list_all = changes.changes_of, places.files_in

    def fail() -> None:
        nonlocal failures
        failures += 1
        if failures % 3:
            raise StorageError("the server is gone", root)

    def failing_look(files: list[str]) -> Any:
        fail()
        return look(files)

    def failing_list(*given: Any) -> Any:
        fail()
        return list_all(*given)

    monkeypatch.setattr(subscriptions, "_RETRY_SECONDS", 0.05)
    with opened("memory", tmp_path) as (_, root):
        id = talk(root)

        async def test() -> None:
            async with client(root) as at:
                uri = f"session://{id}"
                async with at.listen(
                    resource_subscriptions=[uri], resources_list_changed=True
                ) as events:
                    monkeypatch.setattr(subscriptions, "changes_of", failing_look)
                    monkeypatch.setattr(subscriptions, "files_in", failing_list)
                    await anyio.sleep(0.5)
                    await anyio.to_thread.run_sync(_say, root, id)
                    assert getattr(await anext(events), "uri", None) == uri
                    assert failures > 2

        run(test)


def test_the_changes_of_sessions_are_found_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions of several folders, projects and places, and some that are not there."""
    with opened("memory", tmp_path) as (_, url):
        file = said(Store(tmp_path / "store"), "hello")
        there = [said(Store(in_store(url, name)), "hello") for name in ("a", "a", "b")]
        gone = [str(tmp_path / "gone.jsonl"), in_store(url, "a/gone.jsonl")]
        every = [file, *there, *gone]
        one_by_one = changes.changes_of(every)
        monkeypatch.setattr(changes, "FEW", 0)
        assert changes.changes_of(every) == one_by_one
        assert [one_by_one[each] for each in gone] == [None, None]
        listed = dict(changes.changes_in([str(tmp_path / "store"), url], lambda problem: None))
        assert listed == {each: one_by_one[each] for each in (file, *there)}
        with Session.open(there[0]) as session:
            session.append_message({"role": "user", "content": "more"})
        now = changes.changes_of(every)
        assert [each for each in every if now[each] != one_by_one[each]] == [there[0]]
