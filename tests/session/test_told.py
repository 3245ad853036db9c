"""What a request and a lane tell that they once kept to themselves."""

from __future__ import annotations

from typing import Any

import pytest

from sessiontree import UsageError
from sessiontree.recording.stream import Granularity
from tests.support.conversation import in_memory, said, talk, user

BEGUN: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"model": "m"}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "I'll"}},
]
ITEM_BEGUN: list[dict[str, Any]] = [
    {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {"type": "message", "id": "m", "role": "assistant", "content": []},
    },
    {"type": "response.output_text.delta", "output_index": 0, "delta": "I'll"},
]


def test_a_request_tells_of_a_message_that_broke_off() -> None:
    with in_memory() as session:
        talk(session, "hi")
        block = {"type": "text", "text": "I'll"}
        session.append("block", messageUuid="m", index=0, block=block)
        context = session.context()
        assert context.messages[1]["partial"] is True
        for request in (context.to_anthropic(), context.to_openai(), context.to_openai("chat")):
            assert any("broke off" in warning for warning in request.warnings)


@pytest.mark.parametrize("events", [(), BEGUN, ITEM_BEGUN], ids=["blocks", "anthropic", "openai"])
@pytest.mark.parametrize("granularity", ["message", "block"])
def test_a_stream_that_an_exception_ends_is_told_of_like_one_that_a_kill_ends(
    granularity: Granularity, events: list[dict[str, Any]]
) -> None:
    def break_off() -> None:
        with session.stream_message(granularity=granularity) as answer:
            for event in events:
                answer.feed(event)
            if not events:
                answer.start("text")
                answer.delta("I'll")
            raise ConnectionError

    with in_memory() as session:
        talk(session, "hi")
        with pytest.raises(ConnectionError):
            break_off()
        context = session.context()
        assert said(context) == ["hi", "I'll"]
        message = context.messages[1]
        assert (message["partial"], message["stopReason"]) == (True, "aborted")
        assert [warning.split(" is ")[1] for warning in context.warnings] == [
            "partial: it broke off"
        ]
        for request in (context.to_anthropic(), context.to_openai(), context.to_openai("chat")):
            assert any("broke off" in warning for warning in request.warnings)
        assert "broke off" in "".join(session.to_markdown())


def test_a_message_that_another_agent_aborted_is_told_of_in_a_request() -> None:
    with in_memory() as session:
        stored = {"role": "assistant", "content": "I'll", "stopReason": "aborted"}
        session.append_message(stored)
        context = session.context()
        assert context.messages == [stored]
        assert any("broke off" in warning for warning in context.to_anthropic().warnings)


def test_a_request_to_anthropic_tells_of_the_role_developer() -> None:
    with in_memory() as session:
        session.append_message({"role": "developer", "content": "Be brief."})
        session.append_message(user("hi"))
        context = session.context()
        assert any("'developer'" in warning for warning in context.to_anthropic().warnings)
        assert context.to_openai().warnings == []


def test_a_lane_starts_empty_and_goes_on_where_it_was() -> None:
    with in_memory() as session:
        talk(session, "one", "two")
        with session.lane("agent", empty=True) as agent:
            assert said(agent.context()) == []
            talk(agent, "find")
        with session.lane("agent", empty=True) as again:
            assert said(again.context()) == ["find"]
        with session.lane("other") as other:
            assert said(other.context()) == ["one", "two"]
        with pytest.raises(UsageError, match="not both"):
            session.lane("third", at=session.leaf, empty=True)
