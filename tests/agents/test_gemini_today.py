"""Chats as Gemini CLI 0.61 writes them: each message several times, in files that go together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, Store
from sessiontree.importing.importer import Importer, import_session
from sessiontree.library.listing import facts_of
from tests.agents.test_gemini import META, Line, gemini, log, texts, user
from tests.support.table import for_each
from tests.support.terminal import printed_json
from tests.support.transcripts import written

SET: Line = {"$set": {"lastUpdated": "2026-01-01T00:00:02.000Z"}}
TOKENS = {"input": 10, "output": 5, "cached": 3, "thoughts": 2, "tool": 1, "total": 18}
THOUGHT = {"subject": "Looking", "description": "around"}
HARNESS = user("ctx", [{"text": "<session_context>\nToday is Sunday.\n</session_context>"}])


def response(id: str, output: str) -> Line:
    return {"functionResponse": {"id": id, "name": "ls", "response": {"output": output}}}


def call(id: str, *results: Line, **more: Any) -> Line:
    made = {"id": id, "name": "ls", "args": {"path": "."}, "status": "success", **more}
    return {**made, "result": list(results)} if results else made


def replaced(*messages: Line) -> Line:
    return {"$set": {"messages": list(messages)}}


ANSWER = gemini("g1", "", thoughts=[THOUGHT], tokens=TOKENS)
CALLED = {**ANSWER, "toolCalls": [call("c1", response("c1", "out"))]}
RESULT = user("r1", [response("c1", "out")])
DONE = gemini("g2", "done", tokens=TOKENS)
TURN = [user("u1", [{"text": "list"}]), SET, ANSWER, SET, CALLED, RESULT, SET, DONE, SET]
"""A prompt, a call and an answer, as they are written one after the other."""

THOUGHT_PART = {"text": "**Looking** around", "thought": True}
CALL_PART = {"functionCall": {"id": "c1", "name": "ls", "args": {"path": "."}}}
AGAIN = [
    HARNESS,
    TURN[0],
    {**CALLED, "content": [THOUGHT_PART, CALL_PART]},
    user("g1_response", [response("c1", "out")]),
    RESULT,
    {**DONE, "content": [{"text": "done"}]},
]
"""The same messages as a resume writes them."""

ROLES = ["user", "assistant", "toolResult", "assistant"]
BLOCKS = [
    {"type": "thinking", "thinking": "Looking\naround"},
    {"type": "toolCall", "id": "c1", "name": "ls", "arguments": {"path": "."}},
]


def opened(path: Path, *lines: Line) -> Session:
    return Session.open(log(path, *lines), readonly=True)


def roles(session: Session) -> list[str]:
    context = session.context()
    assert (context.warnings, session.damage, session.verify()) == ([], [], [])
    return [message["role"] for message in context.messages]


CHATS = {
    "tool call": TURN,
    "resumed": [replaced(HARNESS), *TURN, replaced(*AGAIN)],
    "resumed twice": [replaced(HARNESS), *TURN, replaced(*AGAIN), META, replaced(*AGAIN)],
    "another context": [replaced(user("ctx", "<session_context>old")), *TURN, replaced(*AGAIN)],
}


@for_each("lines", CHATS.values(), ids=CHATS)
def test_a_tool_call_is_said_once_on_one_branch(tmp_path: Path, lines: list[Line]) -> None:
    with opened(tmp_path / "s.jsonl", *lines) as session:
        assert roles(session) == ROLES
        assert session.context().messages[1]["content"] == BLOCKS
        assert len(session.branches()) == 1
        assert session.stats().usage.input == 2 * (10 - 3 + 1)


def test_cached_tokens_and_thoughts_are_counted(tmp_path: Path) -> None:
    with opened(tmp_path / "s.jsonl", *TURN) as session:
        used = session.stats().usage
        assert (used.input, used.cache_read, used.output) == (2 * 8, 2 * 3, 2 * 7)


def test_parallel_calls_have_a_result_each_after_a_resume(tmp_path: Path) -> None:
    both = [response("c1", "one"), response("c2", "two")]
    calls = [call("c1", both[0]), call("c2", both[1])]
    after = [call("c1", *both, *both), call("c2", *both)]  # what a resume makes of it
    before = [user("u1", "list"), gemini("g1", "", toolCalls=calls), user("r1", both)]
    new = replaced(before[0], gemini("g1", "", toolCalls=after), before[2])
    with opened(tmp_path / "s.jsonl", *before, new) as session:
        assert roles(session) == ["user", "assistant", "toolResult", "toolResult"]
        assert texts(session)[2:] == ["one", "two"]
        assert len(session.branches()) == 1


def test_parts_alone_are_a_call_and_its_result(tmp_path: Path) -> None:
    said = gemini("g1", "") | {"content": [THOUGHT_PART, CALL_PART]}
    failed = {"functionResponse": {"id": "c1", "name": "ls", "response": {"error": "gone"}}}
    new = replaced(user("u1", "list"), said, user("r1", [failed, {"text": "hurry"}]))
    with opened(tmp_path / "s.jsonl", new) as session:
        assert roles(session) == ["user", "assistant", "toolResult", "user"]
        _, answer, result, _ = session.context().messages
        assert answer["content"] == BLOCKS
        assert (result["toolCallId"], result["isError"]) == ("c1", True)
        assert texts(session)[2:] == ["gone", "hurry"]


def test_content_with_parts_stands_alone_beside_calls(tmp_path: Path) -> None:
    more = call("c2", response("c2", "two"))
    said = {**CALLED, "content": [CALL_PART], "toolCalls": [*CALLED["toolCalls"], more]}
    with opened(tmp_path / "s.jsonl", TURN[0], said) as session:
        assert session.context().messages[1]["content"] == BLOCKS[1:]
        assert [m["role"] for m in session.context().messages] == ROLES[:3]


@for_each("text", ["", " ", "/help", "?", "<session_context>x", "<hook_context>x</hook_context>"])
def test_what_the_program_ignores_is_not_said_by_the_user(tmp_path: Path, text: str) -> None:
    lines = [user("u0", [{"text": text}]), user("u1", "hello")]
    with opened(tmp_path / "s.jsonl", *lines) as session:
        assert texts(session) == ["hello"]
        assert json.loads(session.original("u0")) == lines[0]
    assert facts_of(str(tmp_path / "s.jsonl")).first_message == "hello"


@for_each("type", ["info", "warning", "error"])
def test_a_rewind_to_a_note_removes_it_and_what_follows(tmp_path: Path, type: str) -> None:
    note = {**user("n1", "a note"), "type": type}
    lines = [user("u1", "one"), gemini("g1", "1"), note, user("u2", "two"), {"$rewindTo": "n1"}]
    with opened(tmp_path / "s.jsonl", *lines) as session:
        assert texts(session) == ["one", "1"]


SUMMARY = "<state_snapshot>all so far</state_snapshot>"
COMPRESSED = [user("s1", [{"text": SUMMARY}]), gemini("s2", "Got it."), AGAIN[1], *AGAIN[2:]]


def test_a_compressed_conversation_is_a_compaction_on_one_branch(tmp_path: Path) -> None:
    lines = [*TURN, user("u2", "next"), replaced(*AGAIN, user("u2", "next"))]
    kept = replaced(HARNESS, *COMPRESSED, user("u2", "next"))
    with opened(tmp_path / "s.jsonl", *lines, kept, kept, gemini("g3", "more")) as session:
        assert texts(session)[:2] == [SUMMARY, "Got it."]
        assert roles(session) == ["user", "assistant", *ROLES, "user", "assistant"]
        assert len(session.branches()) == 1
        (compaction,) = session.find(type="compaction")
        assert compaction["summary"] == SUMMARY
        assert session.stats().usage.input == 2 * 8
        first = session.path()[session.path().index(compaction) + 2]
        assert first["metadata"] == {"isMeta": True}, "the summary is no prompt"


SUB = "5e5e5e5e-0000-4000-8000-000000000001"
MAIN = "abcdef12-0000-4000-8000-000000000000"
NAME = "session-2026-11-22T19-31-abcdef12.jsonl"


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    """A user's folder of chats: a session, its subagent, and the stub that a resume leaves."""
    chats = tmp_path / ".gemini" / "tmp" / "app" / "chats"
    meta = {**META, "sessionId": MAIN}
    called = {**CALLED, "toolCalls": [call("c1", response("c1", "out"), agentId=SUB)]}
    written(chats / NAME, [meta, replaced(HARNESS), TURN[0], ANSWER, called, RESULT, DONE])
    sub = {**META, "sessionId": SUB, "kind": "subagent"}
    written(chats / MAIN / f"{SUB}.jsonl", [sub, user("a1", "look there"), gemini("a2", "seen")])
    written(chats / NAME.replace("19-31", "19-33"), [meta, replaced(HARNESS)])
    (chats.parent / ".project_root").write_text("/home/me/app")
    return chats


def test_a_subagent_hangs_at_its_call(chats: Path) -> None:
    with Session.open(chats / NAME, readonly=True) as session:
        assert roles(session) == ROLES
        assert list(session.stats().lanes) == ["main", f"agent-{SUB}"]
        (start,) = (e for e in session.entries() if e.get("customType") == "gemini:subagent")
        assert (start.lane, start.parent_uuid) == (f"agent-{SUB}", "g1")
    with Session.open(chats / NAME, readonly=True, lane=f"agent-{SUB}") as session:
        assert texts(session)[-2:] == ["look there", "seen"]


def test_the_files_of_one_session_are_one_in_a_list(chats: Path) -> None:
    (found,) = Store(chats).list(report=pytest.fail)
    assert (found.id, found.first_message) == (MAIN, "list")
    assert found.file.endswith(NAME)
    (hit,) = Store(chats).search("look there")
    assert hit.ref == "a1"


def test_the_files_of_one_session_are_imported_once(chats: Path, tmp_path: Path) -> None:
    importer = Importer(tmp_path / "out")
    files = list(importer.sources(str(chats), pytest.fail))
    assert [Path(file).name for file in files] == [NAME]
    made = importer.take(files[0])
    assert importer.take(files[0]).is_up_to_date
    assert import_session(chats / NAME, tmp_path / "out").new == 0
    with Session.open(made.file, readonly=True) as session:
        assert roles(session) == ROLES
        assert session.header["cwd"] == "/home/me/app"
        assert f"agent-{SUB}" in session.stats().lanes


def test_a_subagent_that_comes_later_is_added_to_its_import(chats: Path, tmp_path: Path) -> None:
    whole = (chats / NAME).read_bytes().splitlines(keepends=True)
    (chats / NAME).write_bytes(b"".join(whole[:4]))  # before the call has a result
    file = import_session(chats / NAME, tmp_path / "out").file
    (chats / NAME).write_bytes(b"".join(whole))
    import_session(chats / NAME, tmp_path / "out")
    before = Path(file).read_bytes()
    assert import_session(chats / NAME, tmp_path / "out").new == 0
    assert Path(file).read_bytes() == before
    with Session.open(file, readonly=True) as session:
        assert roles(session) == ROLES
    with Session.open(file, readonly=True, lane=f"agent-{SUB}") as session:
        assert texts(session)[-2:] == ["look there", "seen"]


@pytest.mark.parametrize("known", ["root", "registry", "neither", "odd registry"])
def test_the_working_directory_is_that_of_the_project(chats: Path, known: str) -> None:
    registry = {"projects": {"/home/me/other": "other", "/home/me/app": "app"}}
    if known != "root":
        (chats.parent / ".project_root").unlink()
    if known == "registry":
        (chats.parents[2] / "projects.json").write_text(json.dumps(registry))
    if known == "odd registry":
        (chats.parents[2] / "projects.json").write_text('[{"projects": "x"}]')
    expected = "/home/me/app" if known in ("root", "registry") else None
    assert facts_of(str(chats / NAME)).cwd == expected
    assert facts_of(str(chats / MAIN / f"{SUB}.jsonl")).cwd == expected
    with Session.open(chats / NAME, readonly=True) as session:
        assert session.header["cwd"] == (expected or "")


def test_chats_of_one_session_are_listed_and_found_once(tmp_path: Path) -> None:
    chats = tmp_path / ".gemini/tmp/project/chats"
    chats.mkdir(parents=True)
    first, second = ({**META, "sessionId": digit * 8 + "-0000"} for digit in "ab")
    more = [user("u2", [{"text": "needle two"}]), gemini("g3", "yes", tokens=TOKENS)]
    other = user("u3", [{"text": "needle one"}])
    said = ((first, TURN), (first, [*TURN, *more]), (first, [HARNESS]), (second, [other]))
    for minute, (meta, lines) in enumerate(said):
        name = f"session-2026-01-01T00-0{minute}-{meta['sessionId'][:8]}.jsonl"
        written(chats / name, [meta, *lines])
    assert sorted(row["turns"] for row in printed_json("ls", tmp_path)) == [1, 2]
    assert printed_json("stats", tmp_path)["usage"]["output"] == 3 * 7
    for words in ((), ("--agent", "gemini")):
        for text, refs in (("done", ["g2"]), ("needle", ["u2", "u3"]), ("Sunday", [])):
            found = printed_json("search", text, tmp_path, *words, "--everything")
            assert sorted(hit["ref"] for hit in found) == refs


def test_a_history_of_notes_alone_that_is_set_again_goes_on(tmp_path: Path) -> None:
    note = {**user("i1", "a note"), "type": "info"}
    file = log(tmp_path / "s.jsonl", note, replaced(note, user("u1", "hello")), gemini("g1", "hi"))
    with Session.open(file, readonly=True) as session:
        assert texts(session) == ["hello", "hi"]
        assert session.damage == session.verify() == []
