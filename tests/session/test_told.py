"""What a request and a lane tell that they once kept to themselves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessiontree import Session, UsageError
from sessiontree.recording.stream import Granularity
from tests.support.conversation import in_memory, said, talk, user
from tests.support.table import for_each

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


HALF: dict[str, Any] = {"type": "text", "text": "I'll"}
CALL: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "read", "input": {}}
THOUGHT: dict[str, Any] = {"type": "thinking", "thinking": "Hm"}
LEFT_OUT = "an answer that broke off at the end was left out: the model answers anew"
SENT = "a message that broke off was sent as far as it came"
ENDS = "the request ends with an answer of the model; some models refuse that"
EMPTY = "an answer without content was left out"
WITHOUT: dict[str, Any] = {"role": "assistant", "content": [], "stopReason": "refusal"}


def killed(session: Session, *blocks: dict[str, Any]) -> None:
    """What a process leaves that is killed in the middle of an answer."""
    for index, block in enumerate(blocks):
        session.append("block", messageUuid="m", index=index, block=block)


def requests(session: Session) -> list[tuple[str, str, list[str]]]:
    """For each API: the request as JSON, its last role, and what is told of answers."""
    context = session.context()
    made = [context.to_anthropic(), context.to_openai("chat"), context.to_openai()]
    return [
        (
            json.dumps(messages := request.params.get("messages") or request.params["input"]),
            messages[-1].get("role", messages[-1].get("type")),
            [warning.split(" (")[0] for warning in request.warnings if "answer " in warning]
            + [SENT for warning in request.warnings if SENT in warning],
        )
        for request in made
    ]


def test_a_request_never_ends_with_an_answer_that_broke_off() -> None:
    for blocks, told in (([HALF], [LEFT_OUT]), ([THOUGHT], [LEFT_OUT]), ([CALL, HALF], [SENT])):
        with in_memory() as session:
            talk(session, "hi")
            killed(session, *blocks)
            assert session.context().messages[1]["partial"] is True, blocks
            for text, last, found in requests(session):
                assert last in ("user", "tool", "function_call_output"), blocks
                assert found == told
                assert ("I'll" in text) == (told == [SENT])


def test_an_answer_that_broke_off_is_sent_in_the_middle_of_a_request() -> None:
    for block, told in ((HALF, [SENT]), (THOUGHT, [])):
        with in_memory() as session:
            talk(session, "hi")
            killed(session, block)
            session.append_message(user("go on"))
            for text, last, found in requests(session):
                assert ("I'll" in text, last, found) == (told == [SENT], "user", told)


@for_each("shape", ["pieces", "aborted", "before an empty one"])
def test_all_of_an_answer_that_broke_off_is_left_out(shape: str) -> None:
    with in_memory() as session:
        talk(session, "hi")
        half = {"role": "assistant", "content": [HALF], "id": "m1", "stopReason": "aborted"}
        if shape == "pieces":
            session.append_message({"role": "assistant", "content": [HALF], "id": "m1"})
        session.append_message(half)
        if shape == "before an empty one":
            session.append_message(WITHOUT)
        for text, last, found in requests(session):
            assert ("I'll" in text, last) == (False, "user")
            assert LEFT_OUT in found
            assert (EMPTY in found) == (shape == "before an empty one")


def test_what_is_not_sent_does_not_hide_an_answer_that_broke_off() -> None:
    with in_memory() as session:
        talk(session, "hi")
        killed(session, HALF)
        command = {"role": "bashExecution", "command": "ls", "output": ""}
        session.append_message({**command, "excludeFromContext": True})
        for text, last, found in requests(session):
            assert ("I'll" in text, last, found) == (False, "user", [LEFT_OUT])


def test_a_request_that_ends_with_an_answer_says_so() -> None:
    for key in ("stopReason", "stop_reason"):
        with in_memory() as session:
            talk(session, "hi", "hello")
            assert [found for _, _, found in requests(session)] == [[ENDS], [ENDS], []], key
            session.append_message(user("search"))
            session.append_message({"role": "assistant", "content": [HALF], key: "pause_turn"})
            assert [found for _, _, found in requests(session)] == [[], [], []], key


def test_a_turn_that_broke_off_is_asked_again() -> None:
    with in_memory() as session:
        talk(session, "hi")
        killed(session, HALF)
        session.branch(session.context().entries[-1].parent_uuid or "")
        context = session.context()
        assert said(context) == ["hi"]
        assert (context.warnings, context.to_anthropic().warnings) == ([], [])


@for_each("events", [(), BEGUN, ITEM_BEGUN])
@for_each("granularity", ["message", "block"])
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
