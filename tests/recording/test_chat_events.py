"""Chunks of Chat Completions are taken as they come, in the dialects of many servers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import pytest
from openai.types.chat import ChatCompletionChunk

from sessiontree import Session, SessionTreeWarning
from tests.support.conversation import user
from tests.support.table import for_each

Chunks = list[dict[str, Any]]
Granularity = Literal["message", "block"]
GRANULARITIES: tuple[Granularity, ...] = ("message", "block")
either = pytest.mark.parametrize("granularity", GRANULARITIES)


def chunk(delta: Mapping[str, Any] | None = None, reason: str | None = None, **more: Any) -> Any:
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "qwen"}
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {**base, "choices": [] if delta is None else [choice], **more}


def piece(
    index: int | None, id: str | None = None, name: str | None = None, text: Any = None
) -> Any:
    made = {"name": name, "arguments": text}
    found = {"function": {key: value for key, value in made.items() if value is not None}}
    named = {key: value for key, value in (("index", index), ("id", id)) if value is not None}
    return {**named, **found}


def calls(*pieces: Any) -> Any:
    return chunk({"tool_calls": list(pieces)})


USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
LAST = chunk(usage=USAGE)
ENDS = [chunk({}, "tool_calls"), LAST]
OPENAI: Chunks = [
    chunk({"role": "assistant", "content": "", "refusal": None}),
    chunk({"content": "I'll "}),
    chunk({"content": "look."}),
    calls(piece(0, "a", "read", "")),
    calls(piece(0, text='{"n": ')),
    calls(piece(1, "b", "read", "")),
    calls(piece(1, text='{"n":2}')),
    calls(piece(0, text="1}")),
    *ENDS,
]


def call(id: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": id, "name": name, "arguments": arguments}


ANSWER = [
    {"type": "text", "text": "I'll look."},
    call("a", "read", '{"n": 1}'),
    call("b", "read", '{"n":2}'),
]


def answer_to(
    chunks: Iterable[Any], granularity: Granularity = "message"
) -> tuple[Session, dict[str, Any]]:
    session = Session.create()
    session.append_message(user("Look"))
    with session.stream_message(granularity=granularity) as answer:
        for each in chunks:
            answer.feed(each)
    return session, dict(session.context(verbatim=True).messages[-1])


@either
@pytest.mark.parametrize("sdk", [False, True], ids=["dicts", "objects"])
def test_an_answer_of_chat_completions_is_one_message(granularity: Granularity, sdk: bool) -> None:
    given = [ChatCompletionChunk.model_validate(each) for each in OPENAI] if sdk else OPENAI
    session, message = answer_to(given, granularity)
    assert message["content"] == ANSWER
    assert (message["model"], message["stopReason"]) == ("qwen", "tool_calls")
    usage = session.stats().usage
    assert (usage.input, usage.output) == (10, 5)
    for id in "ab":
        session.append_message({"role": "tool", "tool_call_id": id, "content": "x"})
    request = session.context().to_openai("chat")
    assert request.warnings == []
    sent = request.params["messages"]
    assert [each["role"] for each in sent] == ["user", "assistant", "tool", "tool"]
    made = [each["function"]["arguments"] for each in sent[1]["tool_calls"]]
    assert made == ['{"n": 1}', '{"n":2}']  # as the model wrote them


def thinking(field: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": "Hm.", "thinkingSignature": field}


PIECES = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
    {"type": "text", "text": "Yes"},
]
WHOLE = {"message": {"content": "Yes", "role": "assistant"}, "finish_reason": "stop"}
YES = {"type": "text", "text": "Yes"}
READ = call("a", "read", "{}")
DIALECTS: dict[str, tuple[Chunks, list[dict[str, Any]]]] = {
    "openrouter: reasoning": (
        [chunk({"reasoning": "Hm", "content": ""}), chunk({"reasoning": "."})],
        [thinking("reasoning")],
    ),
    "vllm: both names": (
        [chunk({"reasoning": "Hm.", "reasoning_content": "Hm."}), chunk({"content": "Yes"})],
        [thinking("reasoning_content"), YES],
    ),
    "mistral: pieces in the content": (
        [chunk({"content": PIECES})],
        [{"type": "thinking", "thinking": "Hm."}, YES],
    ),
    "ollama: whole calls, all with the index 0": (
        [calls(piece(0, "a", "read", "{}")), calls(piece(0, "b", "ls", "{}"))],
        [READ, call("b", "ls", "{}")],
    ),
    "gemini: calls without an index": (
        [calls(piece(None, "a", "read", "{}"), piece(None, "b", "ls", "{}"))],
        [READ, call("b", "ls", "{}")],
    ),
    "no index, and pieces that repeat the id": (
        [calls(piece(None, "a", "read", "{")), calls(piece(None, "a", "read", "}"))],
        [READ],
    ),
    "no index, and pieces without an id": (
        [calls(piece(None, "a", "read", "{")), calls(piece(None, None, None, "}"))],
        [READ],
    ),
    "id and name in each piece": (
        [calls(piece(0, "a", "read", "{")), calls(piece(0, "a", "read", "}"))],
        [READ],
    ),
    "a name in pieces": (
        [calls(piece(0, "a", "re")), calls(piece(0, None, "ad")), calls(piece(0, text="{}"))],
        [READ],
    ),
    "no arguments": ([calls(piece(0, "a", "read"))], [READ]),
    "arguments as an object": (
        [calls(piece(0, "a", "read", {"n": 1}))],
        [call("a", "read", {"n": 1})],
    ),
    "a refusal": (
        [chunk({"refusal": "I "}), chunk({"refusal": "can't."})],
        [{"type": "refusal", "refusal": "I can't."}],
    ),
    "neither object nor id": ([{"choices": [{"delta": {"content": "Yes"}}]}], [YES]),
    "an answer that is not streamed": ([{"object": "chat.completion", "choices": [WHOLE]}], [YES]),
    "the stream helper of the SDK": (
        [
            {"type": "chunk", "chunk": chunk({"content": "Yes"}), "snapshot": {}},
            {"type": "content.delta", "delta": "Yes", "snapshot": "Yes"},
        ],
        [YES],
    ),
}


@for_each("chunks, blocks", DIALECTS.values(), DIALECTS)
def test_dialects_of_servers_give_the_same_kinds_of_blocks(
    chunks: Chunks, blocks: list[dict[str, Any]]
) -> None:
    for granularity in GRANULARITIES:
        _, message = answer_to([*chunks, *ENDS], granularity)
        assert message["content"] == blocks
        assert "partial" not in message


def test_a_call_without_an_id_gets_one_that_its_result_can_name() -> None:
    session, message = answer_to([calls(piece(0, None, "read", "{}"), piece(1, None, "ls")), *ENDS])
    one, other = (block["id"] for block in message["content"])
    assert one != other
    assert one.startswith("call_")
    session.append_message({"role": "tool", "tool_call_id": one, "content": "x"})
    session.append_message({"role": "tool", "tool_call_id": other, "content": "y"})
    assert session.context().warnings == []


@pytest.mark.parametrize("cut", range(1, len(OPENAI) - 1))
@either
def test_an_answer_that_broke_off_is_kept(granularity: Granularity, cut: int) -> None:
    session, message = answer_to(OPENAI[:cut], granularity)
    if cut == 1:
        assert message["role"] == "user"
        return
    assert (message["stopReason"], message["partial"]) == ("aborted", True)
    given = json.dumps(OPENAI[:cut])
    assert ("look." in json.dumps(message)) == ("look." in given)
    session.append_message(user("go on"))
    session.context().to_openai("chat")


def test_an_answer_whose_reason_came_is_whole_without_its_usage() -> None:
    session = Session.create()
    session.append_message(user("Look"))
    answer = session.stream_message()
    for each in OPENAI[:-1]:
        answer.feed(each)
    answer.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert session.leaf["message"]["content"] == ANSWER
    assert session.leaf["message"]["stopReason"] == "tool_calls"


def test_a_finished_text_is_on_disk_while_the_calls_arrive() -> None:
    session = Session.create()
    answer = session.stream_message(granularity="block")
    written = [[entry.type for entry in answer.feed(each)] for each in OPENAI]
    assert written == [[], [], [], ["block"], [], [], [], [], ["block", "block"], []]
    end = answer.end()
    assert end is not None
    assert (end.type, end["stopReason"], end["usage"]) == ("message_end", "tool_calls", USAGE)


@either
def test_keys_that_are_not_known_are_kept(granularity: Granularity) -> None:
    details = [{"type": "reasoning.encrypted", "data": "x", "index": number} for number in (0, 1)]
    chunks = [
        chunk({"content": "Yes", "reasoning_details": [one], "audio": {"data": "a"}})
        for one in details
    ]
    _, message = answer_to([*chunks, *ENDS], granularity)
    assert message["reasoning_details"] == details
    assert message["audio"] == {"data": "aa"}


def test_an_error_in_the_stream_is_reported_and_what_came_is_kept() -> None:
    for error in (
        {"error": {"message": "overloaded", "code": 502}},
        chunk({"content": ""}, "error", error={"message": "overloaded"}),
    ):
        with pytest.warns(SessionTreeWarning, match="overloaded"):
            _, message = answer_to([*OPENAI[:3], error])
        assert (message["content"], message["stopReason"]) == (ANSWER[:1], "aborted")


def test_only_the_first_choice_is_stored_and_a_warning_says_so() -> None:
    other = chunk({"content": "No"})
    other["choices"][0]["index"] = 1
    with pytest.warns(SessionTreeWarning, match="only the first is stored") as told:
        _, message = answer_to([chunk({"content": "Yes"}), other, other, *ENDS])
    assert len(told) == 1
    assert message["content"] == [{"type": "text", "text": "Yes"}]


def test_thinking_of_another_server_is_not_taken_for_one_of_anthropic() -> None:
    chunks = [chunk({"reasoning": "Hm."}), chunk({"content": "Yes"}), *ENDS]
    for each in chunks:
        each["model"] = "anthropic/claude-x"
    for granularity in GRANULARITIES:
        session, _ = answer_to(chunks, granularity)
        session.append_message(user("go on"))
        assert "reasoning" not in json.dumps(session.context().to_anthropic().params)
