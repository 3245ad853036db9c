"""Stream events of a provider's API are taken as they come."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from anthropic.types import RawMessageStreamEvent
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from sessiontree import EntryError, Session, SessionTreeWarning, UsageError
from sessiontree.recording.recorder import StreamAccumulator
from tests.support.conversation import user

Events = list[dict[str, Any]]
Granularity = Literal["message", "block"]
either = pytest.mark.parametrize("granularity", ["message", "block"])
as_given = pytest.mark.parametrize("sdk", [False, True], ids=["dicts", "objects"])


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> Events:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


TOOL: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "Read", "input": {}}
START: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 9, "output_tokens": 1, "cache_read_input_tokens": 4},
}
THINKING = block(
    0,
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "Hm, "},
    {"type": "thinking_delta", "thinking": "yes."},
    {"type": "signature_delta", "signature": "sig"},
)
TEXT = block(
    1,
    {"type": "text", "text": ""},
    {"type": "text_delta", "text": "I'll "},
    {"type": "text_delta", "text": "look."},
)
CALL = block(
    2,
    TOOL,
    {"type": "input_json_delta", "partial_json": '{"path": '},
    {"type": "input_json_delta", "partial_json": '"a.rs"}'},
)
END: Events = [
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 20},
    },
    {"type": "message_stop"},
]
ANTHROPIC: Events = [{"type": "message_start", "message": START}, *THINKING, *TEXT, *CALL, *END]
BLOCKS = [
    {"type": "thinking", "thinking": "Hm, yes.", "signature": "sig"},
    {"type": "text", "text": "I'll look."},
    {**TOOL, "input": {"path": "a.rs"}},
]


def reasoning(**more: Any) -> dict[str, Any]:
    return {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x", **more}


def call(id: str, arguments: str, status: str) -> dict[str, Any]:
    named = {"type": "function_call", "id": f"i-{id}", "call_id": id, "name": "read"}
    return {**named, "arguments": arguments, "status": status}


def response(status: str, **more: Any) -> dict[str, Any]:
    base = {"id": "resp_1", "object": "response", "created_at": 0, "model": "gpt-x", "output": []}
    rules = {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
    return {**base, **rules, "status": status, **more}


USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
    "output_tokens": 6,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 16,
}
ITEMS = [reasoning(), call("a", '{"n":1}', "completed"), call("b", '{"n":2}', "completed")]


def numbered(events: Events) -> Events:
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def item_event(kind: str, index: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": f"response.output_item.{kind}", "output_index": index, "item": item}


def arguments(index: int, delta: str) -> dict[str, Any]:
    kind = "response.function_call_arguments.delta"
    return {"type": kind, "output_index": index, "item_id": "i", "delta": delta}


RESPONSES = numbered(
    [
        {"type": "response.created", "response": response("in_progress")},
        item_event("added", 0, reasoning(encrypted_content=None)),
        item_event("done", 0, ITEMS[0]),
        item_event("added", 1, call("a", "", "in_progress")),
        item_event("added", 2, call("b", "", "in_progress")),
        arguments(2, '{"n":2}'),
        arguments(1, '{"n'),
        item_event("done", 2, ITEMS[2]),
        arguments(1, '":1}'),
        item_event("done", 1, ITEMS[1]),
        {
            "type": "response.completed",
            "response": response("completed", output=ITEMS, usage=USAGE),
        },
    ]
)
_ANTHROPIC: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
_OPENAI: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def given(events: Events, *, sdk: bool) -> list[Any]:
    """The events as dicts, or as the objects that the SDK yields."""
    adapter = _ANTHROPIC if events[0]["type"] == "message_start" else _OPENAI
    return [adapter.validate_python(event) for event in events] if sdk else list(events)


def known(stored: Any, wanted: Any) -> Any:
    """What is stored, without the keys that an SDK's object adds as null."""
    if isinstance(stored, dict) and isinstance(wanted, dict):
        kept = {key: value for key, value in stored.items() if value is not None or key in wanted}
        return {key: known(value, wanted.get(key)) for key, value in kept.items()}
    if isinstance(stored, list) and isinstance(wanted, list) and len(stored) == len(wanted):
        return [known(one, other) for one, other in zip(stored, wanted, strict=True)]
    return stored


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session.create(tmp_path / "s.jsonl", cwd="/project") as session:
        session.append_message(user("Look"))
        yield session


@as_given
@either
def test_an_answer_of_anthropic_is_one_message(
    session: Session, granularity: Granularity, sdk: bool
) -> None:
    with session.stream_message(granularity=granularity) as answer:
        for event in given(ANTHROPIC, sdk=sdk):
            answer.feed(event)
    message = session.context(verbatim=True).messages[1]
    assert known(message["content"], BLOCKS) == BLOCKS
    facts = {key: value for key, value in message.items() if key not in ("content", "usage")}
    assert facts == {
        "role": "assistant",
        "id": "msg_1",
        "provider": "anthropic",
        "model": "claude-x",
        "stopReason": "tool_use",
    }
    assert message["usage"]["input_tokens"] == 9
    assert message["usage"]["output_tokens"] == 20
    usage = session.stats().usage
    assert (usage.input, usage.output, usage.cache_read) == (9, 20, 4)
    session.append_message(user([{"type": "tool_result", "tool_use_id": "t1", "content": "x"}]))
    request = session.context().to_anthropic()
    assert (request.warnings, len(request.params["messages"])) == ([], 3)
    assert request.params["messages"][1]["content"][0]["signature"] == "sig"


def test_blocks_that_interleave_keep_their_places(session: Session) -> None:
    mixed = [ANTHROPIC[0], *(e for pair in zip(TEXT, CALL, strict=True) for e in pair), *END]
    with session.stream_message(granularity="block") as answer:
        entries = [entry for event in mixed for entry in answer.feed(event)]
    assert [entry.type for entry in entries] == ["block", "block", "message_end"]
    assert session.context(verbatim=True).messages[1]["content"] == BLOCKS[1:]


@as_given
@either
def test_each_item_of_openai_is_an_entry_and_the_usage_counts(
    session: Session, granularity: Granularity, sdk: bool
) -> None:
    with session.stream_message(granularity=granularity) as answer:
        for event in given(RESPONSES, sdk=sdk):
            answer.feed(event)
    items = [entry for entry in session.path()[2:] if entry.type == "message"]
    assert known([entry["message"] for entry in items], ITEMS) == ITEMS
    assert all(entry["metadata"] == {"responseId": "resp_1"} for entry in items)
    (usage,) = session.find(type="usage")
    assert (usage["kind"], usage["provider"], usage["model"]) == ("response", "openai", "gpt-x")
    assert usage["metadata"] == {"responseId": "resp_1", "status": "completed"}
    assert session.stats().usage.input == 6
    for id in "ab":
        output = {"type": "function_call_output", "call_id": id, "output": "x"}
        session.append_message(output)
    context = session.context()
    request = context.to_openai()
    assert (context.warnings, request.warnings) == ([], [])
    kinds = ["reasoning", *["function_call"] * 2, *["function_call_output"] * 2]
    assert [item["type"] for item in request.params["input"][1:]] == kinds


def test_a_finished_item_is_on_disk_once_none_before_it_is_open(session: Session) -> None:
    answer = session.stream_message(granularity="block")
    written = [
        [e["message"].get("call_id") for e in answer.feed(event)] for event in RESPONSES[:10]
    ]
    assert written == [[], [], [None], *[[]] * 6, ["a", "b"]]


@pytest.mark.parametrize("cut", range(1, len(ANTHROPIC)))
@either
def test_an_answer_of_anthropic_that_broke_off_is_kept(
    session: Session, granularity: Granularity, cut: int
) -> None:
    with session.stream_message(granularity=granularity) as answer:
        for event in ANTHROPIC[:cut]:
            answer.feed(event)
    messages = session.context(verbatim=True).messages
    if cut == 1:
        assert len(messages) == 1
        return
    assert messages[1]["stopReason"] == "aborted"
    deltas = json.dumps(ANTHROPIC[:cut])
    for words in ("Hm, ", "yes.", "I'll ", "look."):
        assert (words in json.dumps(messages)) == (words in deltas)
    session.append_message(user("go on"))
    session.context().to_anthropic()


REFUSED: Events = [
    ANTHROPIC[0],
    {"type": "message_delta", "delta": {"stop_reason": "refusal"}, "usage": {"output_tokens": 0}},
    {"type": "message_stop"},
]


@either
def test_an_answer_without_content_is_kept_and_left_out_of_requests(
    session: Session, granularity: Granularity
) -> None:
    with session.stream_message(granularity=granularity) as answer:
        entries = [entry for event in REFUSED for entry in answer.feed(event)]
    assert entries == [session.leaf]
    assert session.leaf.uuid == answer.uuid
    message = session.context().messages[1]
    facts = ("content", "id", "model", "provider", "stopReason")
    assert [message[key] for key in facts] == [[], "msg_1", "claude-x", "anthropic", "refusal"]
    usage = session.stats().usage
    assert (usage.input, usage.output) == (9, 0)
    assert session.verify() == []
    session.append_message(user("go on"))
    context = session.context()
    assert context.warnings == []
    for request in (context.to_anthropic(), context.to_openai(), context.to_openai("chat")):
        (told,) = request.warnings
        assert told.startswith("an answer without content was left out")
        assert "assistant" not in json.dumps(request.params)


@either
def test_the_recorder_keeps_an_answer_without_content_once(
    session: Session, granularity: Granularity
) -> None:
    for _ in range(2):
        with StreamAccumulator(session, granularity=granularity) as recording:
            for event in REFUSED:
                recording.take(event)
    assert [entry.type for entry in session.path()] == ["session", "message", "message"]
    message = session.leaf["message"]
    assert (message["content"], message["stopReason"]) == ([], "refusal")
    assert session.stats().usage.input == 9


@either
def test_what_a_stream_cost_that_broke_off_before_its_content_is_kept(
    session: Session, granularity: Granularity
) -> None:
    prompt = session.leaf
    with session.stream_message(granularity=granularity) as answer:
        answer.feed(ANTHROPIC[0])
    (usage,) = answer.entries
    assert (usage.type, usage["kind"], usage["model"]) == ("usage", "response", "claude-x")
    assert usage["metadata"] == {"responseId": "msg_1", "stopReason": "aborted"}
    assert session.stats().usage.input == 9
    assert session.leaf == prompt
    assert len(session.context().messages) == 1


@pytest.mark.parametrize(
    ("facts", "types"),
    [
        ({}, []),
        ({"model": "m"}, []),
        ({"stopReason": "aborted"}, []),
        ({"usage": {"input_tokens": 3}}, ["usage"]),
        ({"stopReason": "stop", "usage": {"input_tokens": 3}}, ["message"]),
    ],
)
@either
def test_the_end_of_a_message_without_blocks_keeps_what_it_is_told(
    session: Session, granularity: Granularity, facts: dict[str, Any], types: list[str]
) -> None:
    answer = session.stream_message(granularity=granularity)
    entry = answer.end(**facts)
    assert [entry.type for entry in answer.entries] == types
    assert (entry is not None) == (types == ["message"])
    assert session.stats().usage.input == (3 if "usage" in facts else 0)


@pytest.mark.parametrize("cut", range(2, len(RESPONSES)))
@either
def test_an_answer_of_openai_that_broke_off_is_kept(
    session: Session, granularity: Granularity, cut: int
) -> None:
    with session.stream_message(granularity=granularity) as answer:
        for event in RESPONSES[:cut]:
            answer.feed(event)
    messages = [entry["message"] for entry in session.path() if entry.type == "message"][1:]
    begun = [e["output_index"] for e in RESPONSES[:cut] if e["type"].endswith("item.added")]
    ended = [e["output_index"] for e in RESPONSES[:cut] if e["type"].endswith("item.done")]
    assert len(messages) == len(begun)
    for index, message in enumerate(messages):
        assert (message == ITEMS[index]) == (index in ended)
        assert ("stopReason" in message) == (index not in ended)
    session.append_message(user("go on"))
    session.context().to_openai()


def test_the_texts_of_a_message_and_its_reasoning_are_kept_where_they_broke_off(
    session: Session,
) -> None:
    said = {"type": "message", "id": "m", "role": "assistant", "content": [], "status": "x"}
    events: Events = [
        item_event("added", 0, reasoning()),
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "Hm"},
        item_event("added", 1, said),
        {"type": "response.output_text.delta", "output_index": 1, "delta": "I'll "},
    ]
    with session.stream_message() as answer:
        for event in events:
            answer.feed(event)
    content = [entry["message"]["content"] for entry in session.path()[2:]]
    assert content == [
        [{"type": "thinking", "thinking": "Hm"}],
        [{"type": "text", "text": "I'll "}],
    ]


def test_an_error_in_the_stream_is_told_and_what_came_is_kept(session: Session) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with session.stream_message() as answer:
        for event in (*ANTHROPIC[:8], {"type": "ping"}):
            answer.feed(event)
        with pytest.warns(SessionTreeWarning, match="overloaded_error"):
            answer.feed(error)
    assert session.leaf["message"]["stopReason"] == "aborted"
    failed = {"type": "response.failed", "response": response("failed", error={"code": "broken"})}
    with session.stream_message() as other:
        other.feed(RESPONSES[3])
        with pytest.warns(SessionTreeWarning, match="broken"):
            other.feed(failed)
    assert session.leaf["message"]["stopReason"] == "aborted"


@either
def test_the_citations_of_a_text_are_kept_in_the_order_they_came(
    session: Session, granularity: Granularity
) -> None:
    one, two, three = ({"type": "char_location", "cited_text": text} for text in "abc")
    cited = [{"type": "citations_delta", "citation": each} for each in (two, three)]
    text = block(0, {"type": "text", "text": "", "citations": [one]}, TEXT[1]["delta"], *cited)
    with session.stream_message(granularity=granularity) as answer:
        for event in ({"type": "message_start", "message": START}, *text, *END):
            answer.feed(event)
    (kept,) = session.context().messages[-1]["content"]
    assert kept == {"type": "text", "text": "I'll ", "citations": [one, two, three]}


def test_a_delta_of_no_block_begins_one_or_is_refused(session: Session) -> None:
    def delta(index: int, **fields: Any) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": index, "delta": fields}

    with session.stream_message() as answer:
        answer.feed({"type": "message_start", "message": START})
        answer.feed(delta(0, type="text_delta", text="begun by its first words"))
        with pytest.raises(UsageError, match="content block has no 'next_delta'"):
            answer.feed(delta(0, type="next_delta", text="x"))
        with pytest.raises(UsageError, match="a signature_delta belongs to no block"):
            answer.feed(delta(1, type="signature_delta", signature="s"))
    (kept,) = session.leaf["message"]["content"]
    assert kept == {"type": "text", "text": "begun by its first words"}


def test_an_item_that_broke_off_before_its_first_word_is_kept_as_it_came(session: Session) -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "in_progress"}
    with session.stream_message() as answer:
        answer.feed({"type": "response.output_item.added", "output_index": 0, "item": search})
        with pytest.warns(SessionTreeWarning, match="broken"):
            answer.feed({"type": "response.failed", "response": response("failed", error="broken")})
    kept = session.leaf["message"]
    assert (kept["content"], kept["partial"]) == ([search], True)


def test_what_is_no_event_is_refused(session: Session) -> None:
    with session.stream_message() as answer:
        for odd in ({"type": "mine"}, {"object": "list", "data": []}, 5, "message_start"):
            with pytest.raises(UsageError):
                answer.feed(odd)  # type: ignore[arg-type]
        answer.start("text")
        with pytest.raises(UsageError, match="block is open"):
            answer.feed(ANTHROPIC[0])
        answer.delta("x")
    with pytest.raises(UsageError, match="has ended"):
        answer.feed(ANTHROPIC[0])
    with session.stream_message() as another:
        for event in ({"type": "message_start"}, {"type": "content_block_start", "index": 0}):
            with pytest.raises(UsageError, match="feed the events as given"):
                another.feed(event)


@as_given
def test_the_recorder_takes_the_events_of_anthropic(session: Session, sdk: bool) -> None:
    with StreamAccumulator(session) as recording:
        for event in given(ANTHROPIC, sdk=sdk):
            recording.take(event)
    assert recording.recognized == len(ANTHROPIC)
    message = session.context(verbatim=True).messages[1]
    assert known(message["content"], BLOCKS) == BLOCKS
    assert message["usage"]["output_tokens"] == 20
    lines = "".join(json.dumps(event) + "\n" for event in ANTHROPIC).encode()
    with Session.create() as other:
        with StreamAccumulator(other) as recording:
            recording.feed(lines)
        assert other.context(verbatim=True).messages[0]["content"] == BLOCKS


def test_the_recorder_warns_of_the_events_of_openai_and_keeps_them(session: Session) -> None:
    with warnings.catch_warnings(record=True) as told, StreamAccumulator(session) as recording:
        warnings.simplefilter("always")
        for event in RESPONSES:
            recording.take(event)
    assert "stream_message" in str(told[0].message)
    assert len(told) == 1
    assert [e["data"] for e in session.path() if e.type == "custom"] == RESPONSES
    with StreamAccumulator(session) as recording, pytest.raises(EntryError, match="not a int"):
        recording.take(5)  # type: ignore[arg-type]


def test_usage_has_a_place_of_its_own(session: Session) -> None:
    from openai.types.responses import ResponseUsage

    leaf = session.leaf
    entry = session.append_usage(USAGE, model="gpt-x", provider="openai", metadata={"n": 1})
    assert (entry.type, entry["kind"], entry["metadata"]) == ("usage", "response", {"n": 1})
    of_sdk: Any = ResponseUsage.model_validate(USAGE)
    assert session.append_usage(of_sdk, kind="summary")["usage"]["input_tokens"] == 10
    assert session.leaf == leaf
    assert session.stats().usage.output == 12
    with pytest.raises(EntryError, match="usage"):
        session.append_usage(5)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::sessiontree.SessionTreeWarning")
@pytest.mark.parametrize(
    ("kind", "ends"), [("completed", True), ("incomplete", True), ("failed", False)]
)
def test_the_last_event_of_a_response_has_all_its_items_and_may_end_it(
    session: Session, kind: str, ends: bool
) -> None:
    last = {"type": f"response.{kind}", "response": response(kind, output=ITEMS, usage=USAGE)}
    with session.stream_message() as answer:
        for event in (RESPONSES[0], last):
            answer.feed(event)
        assert bool(session.find(type="usage")) is ends
    stored = [entry["message"] for entry in session.path()[2:] if entry.type == "message"]
    assert known(stored, ITEMS) == ITEMS
