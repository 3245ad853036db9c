"""A link that leads out of the root shows nothing: by tools, resources, completions, news."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceTemplateReference, ResourceUpdatedNotification

from sessiontree import Session
from sessiontree.mcp.subscriptions import Watching
from tests.mcp.clients import client, run
from tests.support.foreign import AGENTS as FOREIGN
from tests.support.foreign import BAD_IDS, foreign_session
from tests.support.sessions import by_hand
from tests.support.table import for_each

INNER, OUTER = "same-inner", "same-outer"
SECRET = "SECRET"
TEMPLATE = ResourceTemplateReference(type="ref/resource", uri="session://{session}/turn/{turn}")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    by_hand(root / "p" / "in.jsonl", "an inner prompt", id=INNER, cwd="/project")
    return root


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A session that was written later, with a label, in another folder."""
    file = by_hand(tmp_path / "outside" / "o.jsonl", f"hidden {SECRET}", id=OUTER, cwd=f"/{SECRET}")
    with Session.open(file) as session:
        session.rename("outer name")
        session.label("@", f"{SECRET}-label")
    return file


def _to_file(root: Path, outside: Path) -> None:
    (root / "p" / "link.jsonl").symlink_to(outside)


def _to_file_upwards(root: Path, outside: Path) -> None:
    (root / "p" / "link.jsonl").symlink_to(Path("../..", outside.relative_to(root.parent)))


def _to_folder(root: Path, outside: Path) -> None:
    (root / "linked").symlink_to(outside.parent)


def _chain(root: Path, outside: Path) -> None:
    (root / "p" / "first.jsonl").symlink_to("second.jsonl")
    (root / "p" / "second.jsonl").symlink_to(root / "folder" / outside.name)
    (root / "folder").symlink_to(root / "between")
    (root / "between").symlink_to(outside.parent)


KINDS = {
    each.__name__.strip("_"): each for each in (_to_file, _to_file_upwards, _to_folder, _chain)
}
linked = pytest.mark.parametrize("link", KINDS.values(), ids=KINDS)

Link = Callable[[Path, Path], None]


async def _lists(at: Any) -> list[Any]:
    """The answers that name sessions without being asked for one."""
    found = [await at.list_resources()]
    found += [
        await at.call_tool(tool.name, {})
        for tool in (await at.list_tools()).tools
        if not tool.input_schema.get("required")
    ]
    found += [
        await at.complete(TEMPLATE, {"name": "session", "value": start})
        for start in ("", "same", "outer")
    ]
    return [*found, await at.call_tool("session_search", {"pattern": "hidden"})]


async def _of_outer(at: Any) -> list[Any]:
    """The answers about the session outside, which is asked for by its id and its names."""
    names = (OUTER, "outer name", "same-o")
    found = [
        await at.call_tool(tool.name, {"session": name})
        for tool in (await at.list_tools()).tools
        for name in names
        if tool.input_schema.get("required") == ["session"]
    ]
    found += [
        await at.complete(
            TEMPLATE, {"name": kind, "value": ""}, context_arguments={"session": OUTER}
        )
        for kind in ("turn", "label", "branch", "ref")
    ]
    for part in ("", "/outline", "/context", "/turn/1"):
        for name in names:
            with pytest.raises(MCPError) as refused:
                await at.read_resource(f"session://{name.replace(' ', '%20')}{part}")
            found.append(refused.value)
    return found


@linked
def test_a_link_that_leads_out_shows_nothing(root: Path, outside: Path, link: Link) -> None:
    link(root, outside)

    async def test() -> None:
        async with client(root) as at:
            listed, asked = str(await _lists(at)), await _of_outer(at)
            assert INNER in listed
            assert OUTER not in listed
            assert SECRET not in listed + str(asked)
            assert len(asked) > 50
            assert all(getattr(one, "is_error", True) for one in asked)

    run(test)


@linked
def test_a_linked_session_does_not_make_an_id_ambiguous(
    root: Path, outside: Path, link: Link
) -> None:
    link(root, outside)

    async def test() -> None:
        async with client(root) as at:
            for name in ("same", "latest", INNER):
                answer = await at.call_tool("tree_render", {"session": name})
                assert not answer.is_error, answer
                assert "an inner prompt" in str(answer)
                assert "an inner prompt" in str(await at.read_resource(f"session://{name}"))
            listed = await at.list_resources()
            assert [one.name for one in listed.resources] == [INNER]
            found = await at.complete(TEMPLATE, {"name": "session", "value": "same"})
            assert found.completion.values == [INNER]

    run(test)


def test_a_session_that_is_replaced_by_a_link_is_gone(root: Path, outside: Path) -> None:
    inner = root / "p" / "in.jsonl"

    async def test() -> None:
        async with client(root) as at:
            assert (await at.list_resources()).resources
            inner.unlink()
            inner.symlink_to(outside)
            assert (await at.list_resources()).resources == []
            found = await at.complete(TEMPLATE, {"name": "session", "value": ""})
            assert found.completion.values == []
            for name in (INNER, OUTER, str(inner), "latest"):
                assert (await at.call_tool("tree_render", {"session": name})).is_error

    run(test)


def _grow(file: Path) -> None:
    with Session.open(file, durability="os") as session:
        session.append_message({"role": "user", "content": "more"})


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
@linked
def test_no_client_hears_of_a_session_that_a_link_leads_to(
    root: Path, outside: Path, link: Link
) -> None:
    link(root, outside)

    async def test() -> None:
        async with client(root, "legacy") as at:
            for name in (OUTER, "same-o", "outer%20name"):
                with pytest.raises(MCPError, match="no session"):
                    await at.session.subscribe_resource(f"session://{name}")
        async with client(root) as at:
            with pytest.raises(MCPError, match="no session"):
                async with at.listen(resource_subscriptions=[f"session://{OUTER}"]):
                    pass

    run(test)


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
def test_a_subscription_ends_with_the_file_and_does_not_follow_a_link_in_its_stead(
    root: Path, outside: Path
) -> None:
    inner = root / "p" / "in.jsonl"
    other = by_hand(root / "p" / "other.jsonl", "another", id="other")
    heard: list[str] = []

    async def hear(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            heard.append(message.params.uri)

    async def until(uri: str, act: Callable[[], None]) -> None:
        heard.clear()
        act()
        while uri not in heard:
            await anyio.sleep(0.01)

    def swap() -> None:
        inner.unlink()
        inner.symlink_to(outside)

    async def test() -> None:
        async with client(root, "legacy", message_handler=hear) as at:
            for name in (INNER, "other"):
                await at.session.subscribe_resource(f"session://{name}")
            await until(f"session://{INNER}", swap)  # it is gone
            _grow(outside)
            await until("session://other", lambda: _grow(other))
            assert heard == ["session://other"]

    run(test)


def test_a_new_session_behind_a_link_does_not_change_the_list(root: Path, outside: Path) -> None:
    from sessiontree.calls.scope import Scope

    watching = Watching(Scope(str(root), agents=False))
    before = watching._every_file()
    for make in KINDS.values():
        if make is not _to_file_upwards:
            make(root, outside)
    by_hand(outside.parent / "new.jsonl", "new", id="new")
    assert watching._every_file() == before == frozenset({str(root / "p" / "in.jsonl")})


@for_each("mode", ["auto", "legacy"])
def test_ids_that_cannot_be_names_are_listed_by_all_ways(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "root"
    count = 0
    for agent in FOREIGN:
        for id in BAD_IDS.values():
            count += 1
            foreign_session(root, agent, id, "/project", count)

    async def test() -> None:
        async with client(root, mode) as at:
            found = (await at.call_tool("session_list", {"budget": 0})).structured_content
            assert found is not None
            assert len(found["items"]) == count
            assert {one["turns"] for one in found["items"]} == {1}
            for by in ("agent", "day", "project", "model"):
                sums = await at.call_tool("session_totals", {"by": by})
                assert not sums.is_error, json.dumps(sums.structured_content)
            assert (await at.list_resources()).resources
            names = await at.complete(TEMPLATE, {"name": "session", "value": ""})
            assert names.completion.total

    run(test)
