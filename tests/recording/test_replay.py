"""A conversation as data: the events of what is stored are those of its recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessiontree import Session, UsageError
from sessiontree.recording import events
from tests.support.streams import (
    CALL,
    TEXT,
    THINKING,
    Agent,
    answer,
    as_bytes,
    conversation,
    recorded,
)
from tests.support.table import for_each

LIVE_ONLY = {
    *("Start", "ThinkingStart", "ThinkingDelta", "ContentStart", "ContentDelta"),
    *("ToolUseStart", "ToolUseDelta", "Passthrough", "Complete"),
}


def lasting(found: Any) -> list[Any]:
    return [event for event in found if type(event).__name__ not in LIVE_ONLY]


@for_each("granularity", ["block", "message"])
@for_each("deltas", [True, False])
def test_what_is_stored_gives_the_events_it_was_recorded_with(
    tmp_path: Path, deltas: bool, granularity: str
) -> None:
    agent = Agent()
    stream = as_bytes(conversation(deltas=deltas)[:-1])
    more = as_bytes([agent.user("And now?")]).replace(b'"a0', b'"c0')
    with Session.create(tmp_path / "s.jsonl") as session:
        live = recorded(session, stream + more, granularity=granularity)
    with Session.open(tmp_path / "s.jsonl", readonly=True) as session:
        assert lasting(session.conversation()) == lasting(live)
        for event in session.conversation():
            if isinstance(event, events.ToolUseEnd):
                assert session.block(event.position.uuid, event.position.index or 0) == CALL


def test_an_event_that_is_kept_has_its_own_type_when_it_is_played_back() -> None:
    agent = Agent()
    kept = [agent.event(kind, about="it") for kind in ("rate_limit_event", "invented")]
    with Session.create() as session:
        live = recorded(session, as_bytes(kept))
        passed = [event for event in live if isinstance(event, events.Passthrough)]
        session.append("custom", customType="mine:note", data={})
        *found, mine = session.conversation()
    assert found == passed
    assert [event.event_type for event in passed] == ["rate_limit_event", "invented"]
    assert isinstance(mine, events.Passthrough)
    assert mine.event_type == "mine:note"


def test_turns_hold_the_pieces_of_what_was_answered() -> None:
    with Session.create() as session:
        session.append_message({"role": "user", "content": "go"})
        recorded(session, as_bytes(conversation()))
        (turn,) = session.turns()
        assert [entry.type for entry in turn] == [
            *("message", "block", "block", "block", "message_end"),
            *("message", "block", "message_end"),
        ]


@for_each("granularity", ["block", "message"])
def test_a_block_is_found_from_any_piece_of_its_message(granularity: str) -> None:
    with Session.create() as session:
        recorded(session, as_bytes(conversation()), granularity=granularity)
        path = session.path()
        kinds = ("block", "message_end") if granularity == "block" else ("message",)
        pieces = [e for e in path if e.type in kinds]
        for entry in pieces[: 4 if granularity == "block" else 1]:
            assert [session.block(entry, n) for n in range(3)] == [THINKING, TEXT, CALL]
            for wrong in (3, -1):
                with pytest.raises(UsageError, match="has no block"):
                    session.block(entry, wrong)
        with pytest.raises(UsageError, match="a session, which has no blocks"):
            session.block(session.header, 0)


def test_every_shape_of_message_is_told_and_nothing_is_left_out() -> None:
    with Session.create() as session:
        session.append_message({"role": "system", "content": "Be brief."})
        session.append_message({"role": "user", "content": "go"})
        call = {"type": "toolCall", "id": "c1", "name": "ls", "arguments": {"path": "."}}
        session.append_message({"role": "assistant", "content": [call]})
        failed = {"role": "toolResult", "toolCallId": "c1", "content": "a.py", "isError": True}
        session.append_message(failed)
        session.append_message({"role": "assistant", "content": "done"})
        session.append_message({"role": "user", "content": [answer("c2"), TEXT]})
        session.append("custom", customType="mine", data={"x": 1})
        session.append("x-next-years", field=1)
        session.label("@", "here")
        found = [msgspec.to_builtins(event) for event in session.conversation()]
    assert [event["type"] for event in found] == [
        *("passthrough", "user_message", "tool_use_end", "assistant_message", "tool_result"),
        *("content_end", "assistant_message", "tool_result", "user_message"),
        *("passthrough", "passthrough"),
    ]
    assert found[2]["input"] == {"path": "."}
    assert (found[4]["output"], found[4]["isError"]) == ("a.py", True)
    assert found[9]["data"] == {"x": 1}
    assert found[10]["eventType"] == "x-next-years"


def test_openais_calls_and_thinking_are_told_as_all_others() -> None:
    function = {"name": "ls", "arguments": '{"path":"."}'}
    with Session.create() as session:
        for message in (
            {"role": "assistant", "tool_calls": [{"id": "c", "function": function}]},
            {"role": "tool", "tool_call_id": "c", "content": "a.py"},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "function_call", "call_id": "d", "name": "ls", "arguments": "{"},
            {"type": "function_call_output", "call_id": "d", "output": "b.py"},
            {"role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
        ):
            session.append_message(message)
        found = [e for e in session.conversation() if not isinstance(e, events.AssistantMessage)]
    told = [
        (e.tool_use_id, e.tool_name, e.input)
        if isinstance(e, events.ToolUseEnd)
        else getattr(e, "output", None) or getattr(e, "text", None)
        for e in found
    ]
    assert told == [("c", "ls", {"path": "."}), "a.py", "hm", ("d", "ls", "{"), "b.py", "done"]


def test_a_conversation_goes_on_where_a_blob_is_gone(tmp_path: Path) -> None:
    with Session.create(tmp_path / "s.jsonl", spill_over=10) as session:
        session.append_message({"role": "user", "content": "a text that was spilled"})
        session.append_message({"role": "user", "content": "short"})
    for blob in (tmp_path / "s.jsonl.blobs").iterdir():
        blob.unlink()
    gone = pytest.warns(UserWarning, match="is missing")
    with Session.open(tmp_path / "s.jsonl", readonly=True) as session, gone:
        texts = [e.text for e in session.conversation() if isinstance(e, events.UserMessage)]
    assert texts[0].startswith("[missing: ")
    assert texts[1] == "short"


def test_the_items_of_codex_are_blocks_at_the_positions_they_are_told_at() -> None:
    items: list[Any] = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "content": None},
        {"type": "function_call", "call_id": "d", "name": "ls", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "d", "output": [{"text": "b.py"}]},
    ]
    with Session.create() as session:
        for item in items:
            session.append_message(item)
        found = [e for e in session.conversation() if not isinstance(e, events.AssistantMessage)]
        places = [event.position for event in found]
        assert [session.block(place.uuid, place.index or 0) for place in places] == items
        with pytest.raises(UsageError, match="has no block 1; it has 1"):
            session.block(places[0].uuid, 1)


@for_each("index", ["0", 0.0, True, None])
def test_a_block_is_named_by_a_whole_number(index: Any) -> None:
    with Session.create() as session:
        session.append_message({"role": "user", "content": "go"})
        with pytest.raises(UsageError, match="counted from 0, not by"):
            session.block("@", index)
