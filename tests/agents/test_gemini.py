"""Gemini CLI's chats: the document and the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, TooMuchError
from sessiontree.agents import recognise
from sessiontree.core import limits
from sessiontree.library.listing import facts_of
from tests.support.table import for_each
from tests.support.transcripts import written

Line = dict[str, Any]

AT = "2026-01-01T00:00:00.000Z"
META: Line = {"sessionId": "g-1", "projectHash": "h", "kind": "main"}
META |= {"startTime": AT, "lastUpdated": AT}


def user(id: str, content: Any) -> Line:
    return {"id": id, "timestamp": "2026-01-01T00:00:01.000Z", "type": "user", "content": content}


def gemini(id: str, content: str, **more: Any) -> Line:
    return {**user(id, content), "type": "gemini", "model": "gemini-pro", **more}


RESPONSE = {"id": "c1", "name": "ls", "response": {"output": "out"}}
CALL: Line = {"id": "c1", "name": "ls", "args": {"path": "."}, "status": "success"}
CALL["result"] = [{"functionResponse": RESPONSE}]


def log(path: Path, *lines: Line) -> Path:
    return written(path, (META, *lines))


def document(path: Path, *messages: Line) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**META, "messages": messages}, indent=2))
    return path


def texts(session: Session) -> list[Any]:
    contents = [message["content"] for message in session.context().messages]
    return [said if isinstance(said, str) else said[0].get("text") for said in contents]


def test_a_list_knows_a_chat_whose_messages_came_together(tmp_path: Path) -> None:
    asked = [user("u1", "<session_context>a tree</session_context>"), user("u2", "The question")]
    batch = [{**each, "timestamp": "2026-02-03T04:05:06.000Z"} for each in asked]
    info = facts_of(str(log(tmp_path / "s.jsonl", {"$set": {"messages": batch}})))
    assert (info.title, info.modified) == ("The question", "2026-02-03T04:05:06.000Z")


THOUGHT = {"subject": "Look", "description": "around"}
TOKENS = {"input": 3, "output": 4, "total": 7}
MESSAGES = [
    user("u1", [{"text": "list"}]),
    {**user("i1", "a note"), "type": "info"},
    gemini("g1", "done", thoughts=[THOUGHT], toolCalls=[CALL], tokens=TOKENS),
]


@for_each("made", [log, document])
def test_a_gemini_chat_becomes_a_conversation(tmp_path: Path, made: Any) -> None:
    file = made(tmp_path / "session.json", *MESSAGES)
    with Session.open(file, readonly=True) as session:
        assert session.id == "g-1"
        first, answer, result = session.context().messages
        assert first == {"role": "user", "content": [{"type": "text", "text": "list"}]}
        assert answer["content"] == [
            {"type": "thinking", "thinking": "Look\naround"},
            {"type": "text", "text": "done"},
            {"type": "toolCall", "id": "c1", "name": "ls", "arguments": {"path": "."}},
        ]
        assert (answer["model"], answer["usage"]["total"]) == ("gemini-pro", 7)
        assert (result["toolCallId"], result["content"][0]["text"]) == ("c1", "out")
        assert session.context().warnings == []
        assert session.damage == session.verify() == []
        assert session.find(type="custom")[0]["customType"] == "gemini:info"
        for message in MESSAGES:
            assert json.loads(session.original(message["id"])) == message


def test_a_repeated_message_id_replaces_the_message(tmp_path: Path) -> None:
    later = [gemini("g1", "partial"), gemini("g1", "whole"), user("u2", "next")]
    file = log(tmp_path / "s.jsonl", user("u1", "first"), *later, user("u1", "first, mended"))
    with Session.open(file, readonly=True) as session:
        assert texts(session) == ["first, mended", "whole", "next"]
        assert [e["customType"] for e in session.find(type="custom")] == ["gemini:replaced"]


@for_each(("id", "left"), [("u2", ["one", "1"]), ("u1", []), ("gone", [])])
def test_a_rewind_removes_a_message_and_all_after(tmp_path: Path, id: str, left: list[str]) -> None:
    turns = [user("u1", "one"), gemini("g1", "1"), user("u2", "two"), gemini("g2", "2")]
    file = log(tmp_path / "s.jsonl", *turns, {"$rewindTo": id}, user("u3", "new"))
    with Session.open(file, readonly=True) as session:
        assert texts(session) == [*left, "new"]


def test_a_set_of_messages_replaces_the_conversation(tmp_path: Path) -> None:
    turns = [user("u1", "one"), gemini("g1", "1"), user("u2", "two")]
    messages = [turns[0], {**user("i", "a note"), "type": "info"}, gemini("g1", "shorter")]
    patch = {"$set": {"messages": messages, "lastUpdated": "t"}}
    file = log(tmp_path / "s.jsonl", *turns, patch, {"$set": {"summary": "S"}}, user("u4", "new"))
    with Session.open(file, readonly=True) as session:
        assert texts(session) == ["one", "shorter", "new"]
    head = file.read_bytes()
    found = recognise(head)
    assert found is not None
    facts = found.reader.facts(head, head)
    assert (facts.id, facts.name, facts.first_message) == ("g-1", "S", "one")


@for_each("left", [0.3, 0.6, 0.9, 0.99])
def test_a_cut_document_gives_the_messages_before_the_cut(tmp_path: Path, left: float) -> None:
    file = document(tmp_path / "s.json", *(user(f"u{n}", f"say {n}") for n in range(50)))
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * left)])
    with Session.open(file, readonly=True) as session:
        told = texts(session)
        assert told == [f"say {n}" for n in range(len(told))]
        assert len(told) >= int(50 * left) - 3
        (found,) = session.damage
        assert found.kind == "cut short"
        assert found.line > 5 * len(told)


@for_each("indent", [None, 2])
def test_a_documents_facts_do_not_depend_on_its_layout(tmp_path: Path, indent: int | None) -> None:
    file = tmp_path / "session-1.json"
    chat = {**META, "lastUpdated": "2025-10-01T10:01:00.000Z", "messages": MESSAGES}
    file.write_text(json.dumps(chat, indent=indent))
    told = facts_of(str(file))
    assert told.first_message == "list"
    assert told.modified == "2025-10-01T10:01:00.000Z"


def test_a_response_that_is_an_object_keeps_its_letters(tmp_path: Path) -> None:
    response = {"functionResponse": {"id": "c1", "response": {"größe": 5}}}
    file = log(tmp_path / "s.jsonl", gemini("g1", "", toolCalls=[{**CALL, "result": [response]}]))
    with Session.open(file, readonly=True) as session:
        assert session.context().messages[-1]["content"][0]["text"] == '{"größe": 5}'


def test_the_first_message_of_a_chat_is_the_first_with_a_text(tmp_path: Path) -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    file = log(tmp_path / "s.jsonl", user("u1", [image]), user("u2", "hello"))
    assert facts_of(str(file)).first_message == "hello"


@for_each("make", [log, document])
def test_very_many_messages_that_no_agent_writes_are_refused(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SHORT_TEXTS", limits.SHORT_TEXTS._replace(most=3))
    short = [{"id": f"i{n}", "type": "user", "content": "x"} for n in range(4)]
    with Session.open(make(tmp_path / "a.jsonl", *short[:3]), readonly=True) as session:
        assert texts(session) == ["x"] * 3
    with pytest.raises(TooMuchError, match=r"more than 3 \w+( or calls)? of less than 100 bytes"):
        Session.open(make(tmp_path / "b.jsonl", *short), readonly=True)


def test_very_many_calls_that_no_agent_writes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SHORT_TEXTS", limits.SHORT_TEXTS._replace(most=3))
    calls = [{"id": f"c{n}", "name": "t", "args": {}, "result": []} for n in range(8)]
    asked = {"id": "i", "type": "gemini", "content": "x", "toolCalls": calls}
    with pytest.raises(TooMuchError, match="more than 3 messages or calls of less than 100 bytes"):
        Session.open(log(tmp_path / "a.jsonl", asked), readonly=True)
    asked["toolCalls"] = calls[:2]
    with Session.open(log(tmp_path / "b.jsonl", asked), readonly=True) as session:
        assert len(session.context().messages) == 3


def test_a_long_chat_may_have_as_many_short_lines_as_there_is_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SHORT_TEXTS", limits.SHORT_TEXTS._replace(most=3))
    long = {"id": "long", "type": "user", "content": "x" * 250 * 10}
    lines = [{"$set": {"a": number}} for number in range(10)]
    with Session.open(log(tmp_path / "a.jsonl", long, *lines), readonly=True) as session:
        assert len(session.find(type="custom")) == 10
