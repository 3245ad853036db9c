"""What a caller's append refuses because no model would get it, and what it takes as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import Message as Answer
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import ResponseFunctionToolCall

from sessiontree import EntryError, Session
from sessiontree.core.entry import HEADER, KNOWN, check_fields
from sessiontree.core.fields import FIELDS, fields_of, fits
from sessiontree.core.message import ToolCall, calls_of
from tests.support.conversation import line, opened, said, user
from tests.support.table import for_each
from tests.support.terminal import refused


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session.create(tmp_path / "s.jsonl", cwd="/project") as session:
        yield session


@for_each(
    "type, near",
    [
        *(("mesage", "message"), ("messages", "message"), ("Message", "message")),
        *(("branch-summary", "branch_summary"), ("modelChange", "model_change")),
        *(("todo_list", None), ("x", None), ("x-", None), ("X-mine", None)),
    ],
)
def test_a_type_that_is_not_known_is_refused_with_the_nearest_name(
    session: Session, type: str, near: str | None
) -> None:
    with pytest.raises(EntryError) as error:
        session.append(type, message=user("hi"))
    asked = f"did you mean {near!r}? Use" if near else "use"
    assert str(error.value).startswith(f"there is no entry type {type!r}; {asked} 'custom'")
    assert "begin the name of your own type with 'x-'" in str(error.value)
    assert session.leaf == session.header


def test_an_unknown_type_of_another_program_is_read_and_copied(tmp_path: Path) -> None:
    odd = line("of the future", "u1", "root", data=[1])
    with opened(tmp_path / "s.jsonl", odd) as session:
        assert session.leaf.type == "of the future"
        session.append_message(user("hi"))
        assert said(session.context()) == ["hi"]
        assert session.verify() == []
        with Session.open(session.fork(tmp_path / "copy.jsonl"), readonly=True) as copy:
            assert copy.entry("u1").line == session.entry("u1").line


@for_each(
    "message",
    [
        *({"role": "user"}, {"role": "assistant"}, {"role": "tool", "tool_call_id": "c"}),
        *({"role": "user", "text": "hi"}, {"role": "user", "parts": [{"text": "hi"}]}),
        {"type": "message", "role": "user"},
    ],
)
def test_a_message_without_content_is_refused(session: Session, message: Any) -> None:
    for call in (
        partial(session.append_message, message),
        partial(session.append_message, message, metadata={"a": 1}),
        partial(session.append, "message", message=message),
    ):
        with pytest.raises(EntryError, match="has no content; give it"):
            call()
    assert session.leaf == session.header
    assert session.file is not None
    told = refused("append", session.file, input=json.dumps(message))
    assert "has no content" in told


@for_each(
    "message",
    [
        *(user(""), user([]), user(None), {"role": "assistant", "content": []}),
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]},
        *({"role": "assistant", "refusal": "no"}, {"role": "assistant", "audio": {"id": "a"}}),
        {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "bashExecution", "command": "ls", "output": ""},
        {"role": "branchSummary", "summary": "S"},
        {"role": "system", "sections": {"a": "b"}},
        {"role": "toolResult", "toolCallId": "c", "content": []},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "reasoning", "summary": []},
    ],
)
def test_what_a_provider_or_an_agent_writes_is_taken(session: Session, message: Any) -> None:
    assert session.append_message(message)["message"] == message


def test_a_stored_message_without_content_is_read(tmp_path: Path) -> None:
    empty = line("message", "u1", "root", message={"role": "user"})
    with opened(tmp_path / "s.jsonl", empty) as session:
        assert session.context(verbatim=True).messages == [{"role": "user"}]
        assert session.cherry_pick("u1")["message"] == {"role": "user"}


BLOCKS = [
    {"type": "text", "text": "I'll read it."},
    {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a.rs"}},
]
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": BLOCKS,
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 2},
}
CHAT = {"role": "assistant", "content": "hello"}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}


def test_an_object_of_an_sdk_is_stored_as_its_plain_data(session: Session) -> None:
    for model, data in (
        (Answer, ANSWER),
        (ChatCompletionMessage, CHAT),
        (ResponseFunctionToolCall, CALL),
    ):
        given: Any = model.model_validate(data)
        stored = session.append_message(given)["message"]
        assert stored == given.model_dump(mode="json", by_alias=True)
        assert (
            data.items()
            <= {**stored, "content": data.get("content"), "usage": data.get("usage")}.items()
        )
    assert [call.name for call in calls_in(session)] == ["Read", "f"]


def test_objects_of_an_sdk_within_a_message_are_stored_as_their_plain_data(
    session: Session,
) -> None:
    answer = Answer.model_validate(ANSWER)
    message: Any = {"role": "assistant", "content": answer.content}
    session.append_message(user("Read a.rs"))
    entry = session.append_message(message, metadata={"usage": answer.usage})
    assert entry["message"]["content"][1]["input"] == {"path": "a.rs"}
    assert entry["metadata"]["usage"]["output_tokens"] == 2
    with session.batch():
        again = session.append_message(message)
    assert again["message"] == entry["message"]
    block = session.append("block", messageUuid="m", index=0, block=answer.content[0])
    assert block["block"]["text"] == "I'll read it."
    request = session.context().to_anthropic().params
    assert request["messages"][1]["content"][0] == BLOCKS[0]


def test_a_large_string_in_an_object_of_an_sdk_is_stored_as_a_blob(session: Session) -> None:
    long = "long " * 10_000
    answer: Any = Answer.model_validate({**ANSWER, "content": [{"type": "text", "text": long}]})
    for message in (answer, {"role": "assistant", "content": answer.content}):
        entry = session.append_message(message)
        assert len(entry.line) < 2000
        assert entry["message"]["content"][0]["text"] == long


class Dumped:
    def __init__(self, value: Any) -> None:
        self.value = value

    def model_dump(self) -> Any:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


def test_any_object_with_model_dump_will_do(session: Session) -> None:
    given: Any = Dumped(
        {"role": "user", "content": Dumped([Dumped({"type": "text", "text": "x"})])}
    )
    assert session.append_message(given)["message"] == user([{"type": "text", "text": "x"}])


def test_an_object_without_plain_data_is_refused_with_a_hint(session: Session) -> None:
    class Own:
        pass

    circle = Dumped(None)
    circle.value = circle
    for odd in (Own(), circle, Dumped(ValueError("no")), Dumped({1, 2})):
        for message in (odd, user(odd), user([odd])):
            with pytest.raises(EntryError) as error:
                session.append_message(message)  # type: ignore[arg-type]
            if isinstance(odd, Own):
                assert "model_dump(mode='json')" in str(error.value)
    assert session.leaf == session.header


def calls_in(session: Session) -> list[ToolCall]:
    return [call for message in session.context().messages for call in calls_of(message)]


def test_an_object_that_fails_as_json_is_refused_and_not_dumped_otherwise(tmp_path: Path) -> None:
    class Message:
        def model_dump(self, **how: str) -> dict[str, object]:
            if how:
                raise ValueError("a field has no JSON")
            return {"role": "user", "content": "a form that is not for JSON"}

    with (
        Session.create(tmp_path / "s.jsonl") as session,
        pytest.raises(EntryError, match="a field has no JSON"),
    ):
        session.append_message(Message())


@for_each(
    "type, key, wrong",
    [
        *(("compaction", "state", "m"), ("compaction", "state", {"model": {}})),
        *(("compaction", "usage", 3), ("branch_summary", "usage", [])),
        *(("stack_push", "note", 5), ("branch", "name", 7), ("branch", "fromUuid", "")),
        *(("merge", "summary", ["s"]), ("session_info", "name", 1)),
        *(("handle", "kind", "image"), ("handle", "role", ""), ("handle", "preview", 1)),
    ],
)
def test_a_field_that_may_be_left_out_has_its_type_or_is_refused(
    type: str, key: str, wrong: Any
) -> None:
    needed: dict[str, dict[str, Any]] = {
        "compaction": {"summary": "s", "firstKeptEntryUuid": "u", "tokensBefore": 0},
        "branch_summary": {"summary": "s"},
        "merge": {"mergedUuid": "a", "baseUuid": "b"},
        "handle": {"handle": "h", "kind": "message"},
    }
    check_fields(type, needed.get(type, {}))
    with pytest.raises(EntryError, match=f"'{key}' of a {type} must be "):
        check_fields(type, {**needed.get(type, {}), key: wrong})


def test_every_type_has_fields_and_each_field_says_what_it_must_be() -> None:
    assert FIELDS.keys() == KNOWN - {HEADER}
    for type in FIELDS.values():
        for field in fields_of(type):
            takes_any = fits(object(), field.type)
            assert takes_any == (not field.wanted), field
