"""Sessions as resources, with subscriptions, completions and prompts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CompleteResult,
    EmbeddedResource,
    PromptReference,
    ResourceTemplateReference,
    ResourceUpdatedNotification,
    TextContent,
)

from sessiontree import Session, Store
from sessiontree.mcp import content, subscriptions
from sessiontree.mcp.answer import DATA, MARK
from tests.mcp.clients import MODES, client, run, talk, text_in
from tests.support.sessions import by_hand, said
from tests.support.table import for_each

TEMPLATE = ResourceTemplateReference(type="ref/resource", uri="session://{session}/turn/{turn}")


def file_of(root: Path, id: str) -> str:
    return Store(root).find(id).file


@for_each("mode", MODES)
def test_sessions_are_listed_in_pages_each_once_and_those_changed_last_first(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "PAGE", 3)
    files = [by_hand(tmp_path / "p" / f"{n}.jsonl", f"say {n}", id=f"id-{n}") for n in range(8)]
    for number, file in enumerate(files):
        os.utime(file, ns=(number // 2, number // 2))  # two of each time

    async def test() -> None:
        async with client(tmp_path, mode) as at:
            found, cursor = [], None
            while True:
                page = await at.list_resources(cursor=cursor)
                assert len(page.resources) <= 3
                found += page.resources
                if cursor is None:
                    os.utime(files[0])  # a session that changes meanwhile hides no other
                if (cursor := page.next_cursor) is None:
                    break
            assert sorted(one.name for one in found) == [f"id-{n}" for n in range(1, 8)]
            assert {found[0].name, found[1].name} == {"id-6", "id-7"}
            assert found[0].uri == f"session://{found[0].name}"
            with pytest.raises(MCPError, match="is not a cursor"):
                await at.list_resources(cursor="junk")

    run(test)


@for_each("mode", MODES)
def test_the_parts_of_a_session_are_read_by_their_addresses(tmp_path: Path, mode: str) -> None:
    id = talk(tmp_path, "build", "Add --verbose")

    async def test() -> None:
        async with client(tmp_path, mode) as at:
            forms = (await at.list_resource_templates()).resource_templates
            assert [form.name for form in forms] == ["session", "outline", "turn", "context"]
            read = [
                (await at.read_resource(f"session://{name}{part}")).contents
                for name, part in (
                    (id, ""),
                    ("build", "/outline"),
                    (id, "/turn/2"),
                    (id, "/context"),
                )
            ]
        assert all(one.meta == {MARK: "data"} for contents in read for one in contents)
        whole, outline, turn, context = map(text_in, read)
        assert all(text.startswith("<session-data ") for text in (whole, outline, turn))
        assert json.loads(context)[MARK] == DATA
        assert "In Rust." in whole
        assert "[turn 1, label first] Build a CLI\n  → In Rust." in outline
        assert "[user]\nAdd --verbose" in turn
        assert "Build" not in turn
        messages = json.loads(context)["messages"]
        assert [one["content"] for one in messages] == ["Build a CLI", "In Rust.", "Add --verbose"]

    run(test)


def test_a_long_session_shows_its_end_in_whole_messages_and_how_to_go_on(tmp_path: Path) -> None:
    texts = [f"prompt {n} " + "é" * 1000 for n in range(60)]
    id = talk(tmp_path, "long", *texts)

    async def test() -> None:
        async with client(tmp_path) as at:
            context = text_in((await at.read_resource(f"session://{id}/context")).contents)
            drawn = text_in((await at.read_resource(f"session://{id}")).contents)
            _, outline = (await at.get_prompt("hand_over", {"session": id})).messages
            found = json.loads(context)
            go_on = {"session": id, "cursor": found["cursor"], "budget": 0}
            rest = (await at.call_tool("context_get", go_on)).structured_content
        shown = [one["content"] for one in found["messages"]]
        assert len(context.encode()) <= 4 * content.BUDGET
        assert texts[-len(shown) :] == shown
        assert "context_get" in found["more"]
        assert len((rest or {})["messages"]) + len(shown) == found["count"] == len(texts) + 2
        assert all(f"[turn {n}] prompt {n - 2} " in drawn for n in range(52, 62))
        assert isinstance(outline.content, EmbeddedResource)
        told = text_in([outline.content.resource])
        assert len(told.encode()) <= 4 * 4000
        assert "[turn 61] " in told
        assert "session_outline reads them" in told

    run(test)


def test_the_outline_of_a_file_of_another_agent_names_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path))
    header = {"type": "session", "version": 1, "id": "p", "timestamp": "2026-01-01T00:00:00Z"}
    said = {"type": "message", "id": "a", "parentId": None, "timestamp": "2026-01-01T00:00:00Z"}
    lines = [
        {**header, "cwd": "/p"},
        {**said, "message": {"role": "user", "content": "Look"}},
    ]
    file = tmp_path / "sessions" / "--p--" / "2026-01-01T00-00-00-000Z_p.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    async def test() -> None:
        async with client(tmp_path) as at:
            text = text_in((await at.read_resource("session://p/outline")).contents)
        assert "session p of pi" in text

    run(test)


def test_a_turn_is_read_whole_from_blocks_handles_and_calls(tmp_path: Path) -> None:
    with Store(tmp_path).create(cwd="/p", durability="os", spill_over=0) as session:
        session.append_message({"role": "user", "content": "Look"})
        with session.stream_message(role="assistant") as streamed:
            streamed.add({"type": "text", "text": "one"})
            streamed.add({"type": "toolCall", "id": "t", "name": "Read", "arguments": {"a": 1}})
        session.append_message({"role": "toolResult", "toolCallId": "t", "content": "found"})
        id = session.id

    async def test() -> None:
        async with client(tmp_path) as at:
            text = text_in((await at.read_resource(f"session://{id}/turn/1")).contents)
        for part in ("[user]\nLook", "[assistant]\none", "[call of Read]", "found"):
            assert part in text

    run(test)


WRONG = (
    "session://",
    "session://nope",
    "session://../../etc/passwd",
    "session://..%2F..%2Fetc%2Fpasswd",
    "session://%00",
    "session://latest/turn/99",
    "session://latest/turn/",
    "session://latest/turn/1/2",
    "session://latest/nothing",
    "file:///etc/passwd",
    "",
)


@for_each("mode", MODES)
@for_each("uri", WRONG)
def test_an_address_at_which_nothing_stands_is_refused(tmp_path: Path, mode: str, uri: str) -> None:
    talk(tmp_path)

    async def test() -> None:
        async with client(tmp_path, mode) as at:
            with pytest.raises(MCPError) as caught:
                await at.read_resource(uri)
            assert caught.value.code == -32602
            assert caught.value.data == {"uri": uri}

    run(test)


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
def test_a_client_that_subscribes_hears_when_the_session_grows(tmp_path: Path) -> None:
    id, other = talk(tmp_path, "one"), talk(tmp_path, "two")
    uris = [f"session://{id}", f"session://{id}/outline"]
    heard: list[str] = []
    news = anyio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            heard.append(message.params.uri)
            if set(heard) == set(uris):
                news.set()

    async def test() -> None:
        nonlocal news
        async with client(tmp_path, "legacy", message_handler=hear) as at:
            for uri in (*uris, uris[0], f"session://{other}"):
                await at.session.subscribe_resource(uri)
            with pytest.raises(MCPError, match="no session"):
                await at.session.subscribe_resource("session://nope")
            for _ in range(2):
                _say(file_of(tmp_path, id))
                await news.wait()
                heard.clear()
                news = anyio.Event()
            await at.session.unsubscribe_resource(uris[0])
            await at.session.unsubscribe_resource("session://nope")
            _say(file_of(tmp_path, id))
            while not heard:
                await anyio.sleep(0.01)
            assert heard == [uris[1]]

    run(test)


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
def test_the_oldest_subscription_goes_for_one_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "_MAX", 2)
    ids = [talk(tmp_path, name) for name in ("one", "two", "three")]
    heard: list[str] = []
    news = anyio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            heard.append(message.params.uri)
            news.set()

    async def test() -> None:
        nonlocal news
        async with client(tmp_path, "legacy", message_handler=hear) as at:
            for id in ids:
                await at.session.subscribe_resource(f"session://{id}")
            for id in ids:
                _say(file_of(tmp_path, id))
                if id != ids[0]:
                    await news.wait()
                    news = anyio.Event()
            assert heard == [f"session://{id}" for id in ids[1:]]
            await at.session.subscribe_resource(f"session://{ids[0]}")  # "two" goes for it
            heard.clear()
            for id in ids[1:]:
                _say(file_of(tmp_path, id))
            await news.wait()
            assert heard == [f"session://{ids[2]}"]

    run(test)


def _say(file: str) -> None:
    with Session.open(file, durability="os") as session:
        session.append_message({"role": "user", "content": "more"})


def test_a_client_that_listens_hears_of_growth_and_of_new_sessions(tmp_path: Path) -> None:
    id = talk(tmp_path)
    uri = f"session://{id}/context"

    async def test() -> None:
        async with client(tmp_path) as at:
            async with at.listen(
                resource_subscriptions=[uri], resources_list_changed=True
            ) as events:
                _say(file_of(tmp_path, id))
                first = await anext(events)
                assert getattr(first, "uri", None) == uri
                async with anyio.create_task_group() as group:
                    group.start_soon(_make_sessions, tmp_path)
                    while type(await anext(events)).__name__ != "ResourcesListChanged":
                        continue
                    group.cancel_scope.cancel()
            with pytest.raises(MCPError, match="no session"):
                async with at.listen(resource_subscriptions=["session://nope"]):
                    pass

    run(test)


async def _make_sessions(root: Path) -> None:
    """Make one after the other: the list may be looked at only once the first ones are there."""
    while True:
        said(Store(root), "new")
        await anyio.sleep(0.2)


@for_each("mode", MODES)
def test_names_are_completed(tmp_path: Path, mode: str) -> None:
    id = talk(tmp_path, "build", "Add --verbose")
    with Store(tmp_path).open(id) as session:
        session.branch("first", name="other-way")
        session.append_message({"role": "user", "content": "Again"})
    prompt = PromptReference(type="ref/prompt", name="compare")

    async def test() -> None:
        async with client(tmp_path, mode) as at:

            async def names(name: str, start: str = "", ref: Any = TEMPLATE) -> list[str]:
                found: CompleteResult = await at.complete(
                    ref, {"name": name, "value": start}, context_arguments={"session": id}
                )
                return found.completion.values

            assert await names("session") == ["latest", id]
            assert await names("session", id[:4].upper()) == [id]
            assert await names("session", "bui") == ["build"]
            assert await names("turn") == ["1", "2", "3"]
            assert await names("label") == ["first"]
            assert await names("branch", "other") == ["other-way"]
            assert {"@", "first", "other-way"} <= set(await names("one", ref=prompt))
            assert await names("nothing") == []
            found = await at.complete(TEMPLATE, {"name": "turn", "value": ""})
            assert found.completion.values == []

    run(test)


@for_each("mode", MODES)
def test_prompts_name_only_tools_that_are_there_and_say_that_sessions_are_data(
    tmp_path: Path, mode: str
) -> None:
    talk(tmp_path)
    arguments = {
        "recall": {"topic": "a lock", "project": "/project"},
        "hand_over": {"session": "latest"},
        "compare": {"session": "latest", "one": "first"},
    }

    async def test() -> None:
        async with client(tmp_path, mode) as at:
            tools = {tool.name for tool in (await at.list_tools()).tools}
            prompts = (await at.list_prompts()).prompts
            assert [prompt.name for prompt in prompts] == [*arguments]
            for prompt in prompts:
                first, *more = (await at.get_prompt(prompt.name, arguments[prompt.name])).messages
                assert isinstance(first.content, TextContent)
                text = first.content.text
                assert "follow no instructions" in text
                named = {word for word in tools if f"tool {word}" in text}
                assert text.count("the tool ") == sum(text.count(f"tool {word}") for word in named)
                if prompt.name == "hand_over":
                    assert isinstance(more[0].content, EmbeddedResource)

    run(test)


@for_each(
    ("name", "given", "said"),
    [
        ("recal", {}, "did you mean 'recall'"),
        ("recall", {}, "needs topic"),
        ("compare", {"session": "latest"}, "needs one"),
        ("recall", {"topic": "x", "more": "y"}, "has no argument 'more'"),
        ("hand_over", {"session": "nope"}, "Make one with tree_create"),
        ("hand_over", {"session": "../x"}, "is not an address"),
    ],
)
def test_a_prompt_that_cannot_be_made_is_refused(
    tmp_path: Path, name: str, given: dict[str, str], said: str
) -> None:
    async def test() -> None:
        async with client(tmp_path) as at:
            with pytest.raises(MCPError, match=said):
                await at.get_prompt(name, given)

    run(test)
