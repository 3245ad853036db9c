"""A session knows what a crash left undone, and takes steps and broken answers back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sessiontree import AsyncSession, Entry, NothingToDoError, Session
from tests.support.conversation import assistant, call, result, said, user
from tests.support.loops import in_each_loop
from tests.support.table import for_each

Act = Callable[[Session], object]


def item(type: str, **fields: Any) -> Act:
    return lambda session: session.append_message({"type": type, **fields})


def append(*messages: dict[str, Any]) -> Act:
    return lambda session: [session.append_message(message) for message in messages]


def streamed(*blocks: dict[str, Any]) -> Act:
    """Blocks of an answer whose process is killed."""

    def act(session: Session) -> None:
        answer = session.stream_message(granularity="block")
        for block in blocks:
            answer.add(block)

    return act


def interrupted(session: Session) -> None:
    with suppress(KeyboardInterrupt), session.stream_message() as answer:
        answer.start("text")
        answer.delta("I'll re")
        raise KeyboardInterrupt


def ended(session: Session) -> None:
    with session.stream_message(granularity="block") as answer:
        answer.add({"type": "text", "text": "Done."})
        answer.add({"type": "tool_use", "id": "t", "name": "read", "input": {}})
        answer.end(stopReason="tool_use")


TEXT = {"type": "text", "text": "I'll read"}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}
SAID: dict[str, Any] = {"role": "assistant", "content": [{"type": "output_text", "text": "I'll"}]}
CUT = {"role": "assistant", "content": [TEXT], "stopReason": "aborted", "partial": True}
LAST = {"role": "assistant", "id": "msg_1", "content": [THOUGHT]}
SHELL = {"role": "bashExecution", "command": "ls", "output": "a.py", "exitCode": 0}
PAUSED = {**assistant("Searching"), "stop_reason": "pause_turn"}

STATES: list[tuple[str | None, Act]] = [
    (None, lambda session: None),
    ("prompt", append(user("p"))),
    ("prompt", append(user("p"), SHELL)),
    (None, append(user("p"), assistant("a"))),
    (None, append(user("p"), assistant("a"), SHELL)),
    ("prompt", append(user("p"), assistant("a"), user("p2"))),
    ("results", append(user("p"), call("1", "2"))),
    ("results", append(user("p"), call("1", "2"), result("1"))),
    ("results", append(user("p"), call("1"), result("1"), SHELL)),
    ("results", append(user("p"), PAUSED)),
    (None, append(user("p"), call("1"), result("1"), assistant("a"))),
    ("partial", interrupted),
    ("partial", streamed(TEXT)),
    ("partial", streamed(TEXT, {"type": "tool_use", "id": "t", "name": "read", "input": {}})),
    ("results", ended),
    ("partial", item("reasoning", summary=[])),
    ("partial", append(assistant(""), {"role": "assistant", "content": [THOUGHT]})),
    (None, append({"role": "assistant", "content": [THOUGHT, TEXT]})),
    ("results", item("function_call", call_id="1", name="read", arguments="{}")),
    ("partial", append({"type": "message", **SAID, "partial": True})),
    (None, append({"type": "message", **SAID})),
]


@for_each("state, act", STATES, range(len(STATES)))
def test_what_is_left_to_do_follows_from_the_last_message(state: str | None, act: Act) -> None:
    with Session.create() as session:
        if act is not STATES[0][1]:
            session.append_message(user("p"))
        act(session)
        session.label("@", "here")
        session.set_model("anthropic", "claude-opus-4-6")
        session.append("custom", customType="mine")
        assert session.unfinished() == state


def moved(session: Session) -> None:
    session.rewind()


MOVES: list[Act] = [
    moved,
    lambda session: session.branch("first"),
    lambda session: session.branch("first", summary="left", name="other"),
    lambda session: session.switch("first"),
    lambda session: session.pop("first", summary="popped"),
    lambda session: (session.push(), session.undo()),
]


@for_each("move", MOVES, range(len(MOVES)))
def test_after_a_move_nothing_waits_until_something_is_written(move: Act) -> None:
    with Session.create() as session:
        session.label(session.append_message(user("p")), "first")
        append(call("1"), result("1"))(session)
        move(session)
        assert session.unfinished() is None
        session.append_message(SHELL)  # a note of the user asks for no answer
        assert session.unfinished() is None
        session.append_message(user("p2"))
        assert session.unfinished() == "prompt"


def test_a_compaction_and_a_dropped_message_do_not_hide_what_waits() -> None:
    with Session.create() as session:
        append(user("p"), assistant("a"), user("p2"))(session)
        session.compact("summary", keep=0)
        assert session.unfinished() == "prompt"
        answer = session.append_message(assistant("a2"))
        assert session.unfinished() is None
        session.edit_context(answer, None)
        assert session.unfinished() == "prompt"


def test_nothing_waits_on_a_lane_that_has_no_entry() -> None:
    with Session.create() as session:
        append(user("p"), call("1"))(session)
        with session.lane("side") as side:
            assert side.unfinished() is None
            side.append_message(user("p2"))
            assert side.unfinished() == "prompt"


BROKEN: list[tuple[Act, int]] = [
    (interrupted, 0),
    (streamed(TEXT), 0),
    (streamed(TEXT, TEXT), 0),
    (append({"type": "reasoning", "summary": []}, {"type": "message", **SAID, "partial": True}), 0),
    (append({"type": "reasoning", "summary": []}), 0),
    (append({"type": "reasoning", "summary": []}, CUT), 0),
    (append({"role": "assistant", "id": "msg_1", "content": [TEXT]}, {**LAST, "partial": True}), 0),
    (append({"role": "assistant", "content": [THOUGHT]}), 0),
    (append({**PAUSED, "type": "message"}, {**assistant("On"), "partial": True}), 1),
]


@for_each("act, kept", BROKEN, range(len(BROKEN)))
def test_a_broken_answer_is_taken_off_and_what_it_replied_to_waits(act: Act, kept: int) -> None:
    with Session.create() as session:
        prompt = session.append_message(user("p"))
        act(session)
        broken = session.leaf
        assert session.unfinished() == "partial"
        assert session.retract() == broken
        context = session.context()
        assert len(context.messages) == 1 + kept
        assert context.entries[0] == prompt
        assert context.warnings == []
        assert session.unfinished() == ("results" if kept else "prompt")
        with pytest.raises(NothingToDoError, match="not an answer that broke off"):
            session.retract()
        assert session.undo().type == "branch"
        assert session.unfinished() is None


def test_what_a_response_before_left_is_not_a_part_of_the_broken_answer() -> None:
    called = {"type": "function_call", "call_id": "1", "name": "read", "arguments": "{}"}
    with Session.create() as session:
        session.append_message(user("p"))
        session.append_message(called, metadata={"responseId": "resp_1"})
        thought = {"type": "reasoning", "summary": []}
        session.append_message(thought, metadata={"responseId": "resp_2"})
        session.retract()
        assert session.context().messages[1] == called
        assert session.unfinished() == "results"


def test_a_crash_between_the_retraction_and_the_new_answer_hides_nothing(tmp_path: Path) -> None:
    with Session.create(tmp_path / "s.jsonl", durability="os") as session:
        session.append_message(user("p"))
        streamed(TEXT)(session)
        session.retract()
    with Session.open(tmp_path / "s.jsonl") as session:
        assert session.unfinished() == "prompt"


def test_a_whole_answer_is_not_retracted() -> None:
    with Session.create() as session:
        with pytest.raises(NothingToDoError):
            session.retract()
        append(user("p"), assistant("a"))(session)
        with pytest.raises(NothingToDoError, match="'branch' from the entry above it"):
            session.retract()


STEPS: list[tuple[str, Act]] = [
    ("compaction", lambda session: session.compact("summary", keep=0)),
    ("context_edit", lambda session: session.edit_context("first", "another text")),
    ("stack_push", lambda session: session.push("note")),
    ("branch", lambda session: session.branch("first")),
    ("branch_summary", lambda session: session.branch("first", summary="left", name="named")),
    ("branch", lambda session: session.rewind()),
    ("stack_summary", lambda session: session.pop("first", summary="popped")),
]


@for_each("type, step", STEPS, [f"{n} {type}" for n, (type, _) in enumerate(STEPS)])
def test_the_last_step_is_taken_back(type: str, step: Act) -> None:
    with Session.create() as session:
        session.label(session.append_message(user("p")), "first")
        append(assistant("a"), user("p2"), assistant("a2"))(session)
        before, entries = session.context(), len(list(session.entries()))
        step(session)
        taken = session.leaf
        session.label("first", "renamed")
        assert session.undo() == taken
        assert taken.type == type
        assert said(session.context()) == said(before)
        assert len(list(session.entries())) > entries + 1
        session.switch(taken)
        assert said(session.context()) != said(before) or type == "stack_push"


def test_a_second_undo_takes_back_the_step_before() -> None:
    with Session.create() as session:
        first = session.append_message(user("p"))
        second = session.append_message(assistant("a"))
        push = session.push()
        edit = session.edit_context(first, "q")
        there = session.switch(first)
        again = session.switch(second)
        assert [session.undo() for _ in range(4)] == [again, there, edit, push]
        assert said(session.context()) == ["p", "a"]
        with pytest.raises(NothingToDoError, match="a message was written since"):
            session.undo()


def test_a_merge_is_taken_back_and_a_setting_stays() -> None:
    with Session.create() as session:
        first = session.append_message(user("p"))
        side = session.append_message(assistant("side"))
        session.branch(first)
        session.append_message(assistant("main"))
        merge = session.merge(side)
        session.set_model("anthropic", "claude-opus-4-6")
        session.set_thinking_level("high")
        assert session.undo() == merge
        context = session.context()
        assert said(context) == ["p", "main"]
        assert context.model == {"provider": "anthropic", "modelId": "claude-opus-4-6"}
        assert context.thinking_level == "high"


def test_nothing_is_taken_back_where_there_is_no_step() -> None:
    with Session.create() as session:
        with pytest.raises(NothingToDoError, match="has no move, compaction, edit or push"):
            session.undo()
        session.append_message(user("p"))
        session.append("branch", parent=session.header)  # as another program writes it
        with pytest.raises(NothingToDoError, match="does not say where the session was"):
            session.undo()


@in_each_loop
async def test_the_same_is_awaited() -> None:
    async with AsyncSession.create() as session:
        await session.append_message(user("p"))
        assert await session.unfinished() == "prompt"
        async with session.stream_message() as answer:
            await answer.start("text")
            await answer.delta("half")
            await answer.end(stopReason="aborted")
        assert await session.unfinished() == "partial"
        broken: Entry = await session.retract()
        assert broken["message"]["partial"] is True
        assert (await session.undo()).type == "branch"
