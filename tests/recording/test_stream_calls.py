"""What a streamed answer asks to run: its whole calls, and none of an answer that broke off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sessiontree import Session
from tests.support.table import for_each

Event = dict[str, Any]


def _anthropic() -> list[Event]:
    def block(index: int, id: str, text: str) -> list[Event]:
        call = {"type": "tool_use", "id": id, "name": "bash", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": text}
        return [
            {"type": "content_block_start", "index": index, "content_block": call},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]

    message = {"id": "m", "role": "assistant", "model": "claude", "content": [], "usage": {}}
    stopped = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}}
    return [
        {"type": "message_start", "message": message},
        *block(0, "a", '{"command": "ls"}'),
        *block(1, "b", '{"command": "pwd"}'),
        stopped,
        {"type": "message_stop"},
    ]


def _responses() -> list[Event]:
    def item(index: int, id: str, text: str) -> list[Event]:
        call = {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": "bash"}
        begun, done = {**call, "arguments": ""}, {**call, "arguments": text}
        return [
            {"type": "response.output_item.added", "output_index": index, "item": begun},
            {"type": "response.output_item.done", "output_index": index, "item": done},
        ]

    ended = {"id": "r", "status": "completed", "model": "gpt-5"}
    return [
        {"type": "response.created", "response": {"id": "r", "status": "in_progress"}},
        *item(0, "a", '{"command": "ls"}'),
        *item(1, "b", '{"command": "pwd"}'),
        {"type": "response.completed", "response": ended},
    ]


def _chat() -> list[Event]:
    def chunk(reason: str | None = None, **delta: Any) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}

    def call(index: int, id: str, text: str) -> Event:
        function = {"name": "bash", "arguments": text}
        made = {"index": index, "id": id, "type": "function", "function": function}
        return chunk(tool_calls=[made])

    calls = [call(0, "a", '{"command": "ls"}'), call(1, "b", '{"command": "pwd"}')]
    return [*calls, chunk("tool_calls")]


APIS = [(_anthropic(), "tool_use"), (_responses(), "completed"), (_chat(), "tool_calls")]


def streamed(events: Sequence[Event], granularity: Any) -> Any:
    with Session.create() as session:
        session.append_message({"role": "user", "content": "List"})
        with session.stream_message(granularity=granularity) as answer:
            for event in events:
                answer.feed(event)
            assert not answer.calls or events[-1]["type"] in ("message_stop", "response.completed")
    return answer


@for_each(("events", "reason"), APIS)
def test_the_calls_of_an_answer_have_decoded_arguments(events: list[Event], reason: str) -> None:
    for granularity in ("block", "message"):
        answer = streamed(events, granularity)
        found = [(call.id, call.name, call.arguments) for call in answer.calls]
        assert found == [("a", "bash", {"command": "ls"}), ("b", "bash", {"command": "pwd"})]
        assert answer.stop_reason == reason


@for_each(("events", "reason"), APIS)
def test_an_answer_that_broke_off_has_no_calls_to_run(events: list[Event], reason: str) -> None:
    for granularity in ("block", "message"):
        for count in range(1, len(events) - 1):
            answer = streamed(events[:count], granularity)
            assert answer.calls == []
            assert answer.stop_reason in ("aborted", None)


def test_a_call_that_a_limit_cut_off_is_not_run() -> None:
    events = [event for event in _anthropic() if event.get("index") != 1]
    cut = {**events[2], "delta": {"type": "input_json_delta", "partial_json": '{"comm'}}
    events[2] = cut
    events[4] = {**events[4], "delta": {"stop_reason": "max_tokens"}}
    answer = streamed(events, "block")
    assert (answer.calls, answer.stop_reason) == ([], "max_tokens")
