"""A message that arrives in pieces is kept in pieces, and is one message in a context."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, Literal

import pytest

from sessiontree import HookRejectedError, Session, SessionTreeWarning, UsageError
from sessiontree.recording.stream import MessageStream
from tests.support.table import for_each


def stream(session: Session, granularity: Literal["message", "block"]) -> None:
    with session.stream_message(model="m-1", provider="p", granularity=granularity) as m:
        m.start("thinking")
        m.delta("Hm, ")
        m.delta("yes.")
        m.stop(thinkingSignature="sig")
        m.start("text")
        m.delta("I'll look.")
        m.stop()
        m.start("toolCall", id="c1", name="read")
        m.delta('{"path": ')
        m.delta('"a.py"}')
        m.stop()
        m.end(usage={"input": 3, "output": 5}, stopReason="toolUse")


WHOLE: dict[str, Any] = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "Hm, yes.", "thinkingSignature": "sig"},
        {"type": "text", "text": "I'll look."},
        {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a.py"}},
    ],
    "provider": "p",
    "model": "m-1",
    "usage": {"input": 3, "output": 5},
    "stopReason": "toolUse",
}


@for_each("granularity, entries", [("message", 1), ("block", 4)])
def test_a_streamed_message_is_one_message_either_way(
    file: Path, granularity: Literal["message", "block"], entries: int
) -> None:
    with Session.create(file) as session:
        session.append_message({"role": "user", "content": "Look"})
        stream(session, granularity)
        session.append_message({"role": "toolResult", "toolCallId": "c1", "content": "x"})
    with Session.open(file, readonly=True) as session:
        assert len(session.path()) == 3 + entries
        context = session.context()
        assert context.messages[1] == WHOLE
        assert context.warnings == []
        assert context.model == {"provider": "p", "modelId": "m-1"}


def test_finished_blocks_survive_a_kill_in_the_next_one_and_are_marked(file: Path) -> None:
    Session.create(file).close()
    child = os.fork()
    if not child:
        session = Session.open(file)
        m = session.stream_message(granularity="block")
        m.start("text")
        m.delta("kept")
        m.stop()
        m.start("text")
        m.delta("lost")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    with Session.open(file) as session:
        context = session.context()
        assert context.messages == [
            {"role": "assistant", "content": [{"type": "text", "text": "kept"}], "partial": True}
        ]
        assert "partial" in context.warnings[0]


@for_each("granularity", ["message", "block"])
def test_an_interrupted_stream_keeps_what_came_and_says_aborted(granularity: Any) -> None:
    def interrupted() -> None:
        with session.stream_message(granularity=granularity) as m:
            m.start("text")
            m.delta("so f")
            raise KeyboardInterrupt

    with Session.create() as session:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        said = session.context().messages[0]
    assert said["content"] == [{"type": "text", "text": "so f"}]
    assert said["stopReason"] == "aborted"


@for_each("granularity", ["message", "block"])
def test_tool_input_that_is_no_json_is_kept_raw_with_a_warning(granularity: Any) -> None:
    with Session.create() as session:
        with session.stream_message(granularity=granularity) as m:
            m.start("toolCall", id="c1", name="read")
            m.delta('{"path": "a')
            with pytest.warns(SessionTreeWarning, match="c1 is not JSON"):
                m.stop()
        assert session.context().messages[0]["content"][0]["arguments"] == '{"path": "a'


def test_a_stream_without_content_writes_nothing() -> None:
    with Session.create() as session:
        with session.stream_message():
            pass
        assert len(session.path()) == 1


def test_what_is_out_of_order_is_refused_and_nothing_is_lost() -> None:
    with Session.create() as session:
        m = session.stream_message(granularity="block")
        with pytest.raises(UsageError, match="no block is open"):
            m.delta("x")
        m.start("text")
        with pytest.raises(UsageError, match="stop it first"):
            m.start("text")
        with pytest.raises(UsageError, match="stop it first"):
            m.add({"type": "text", "text": "at once"})
        for text in (None, 5, b"x", ["x"]):
            with pytest.raises(UsageError, match="a delta is a string"):
                m.delta(text)  # type: ignore[arg-type]
        m.delta("kept")
        m.end()
        for act in (lambda: m.start("text"), lambda: m.delta("x"), m.stop):
            with pytest.raises(UsageError, match="has ended"):
                act()
        assert session.context().messages[0]["content"][0]["text"] == "kept"
        with pytest.raises(UsageError, match="granularity"):
            session.stream_message(granularity="word")  # type: ignore[arg-type]


def test_two_streams_at_once_stay_two_messages(file: Path) -> None:
    with Session.create(file) as session:
        one = session.stream_message(granularity="block")
        two = session.stream_message(granularity="block")
        for m, word in ((one, "a"), (two, "b"), (one, "c")):
            m.add({"type": "text", "text": word})
        one.end()
        two.end()
        texts = [[b["text"] for b in m["content"]] for m in session.context().messages]
    assert texts == [["a", "c"], ["b"]]


def test_a_veto_in_a_stream_keeps_what_was_written_before_it() -> None:
    class Refusing:
        def before_append(self, session: Session, entry: Any) -> None:
            if entry.type == "block" and "secret" in entry["block"]["text"]:
                raise HookRejectedError("no")

    with Session.create(hooks=[Refusing()]) as session:
        m = session.stream_message(granularity="block")
        m.add({"type": "text", "text": "fine"})
        with pytest.raises(HookRejectedError):
            m.add({"type": "text", "text": "secret"})
        m.end()
        assert session.context().messages[0]["content"] == [{"type": "text", "text": "fine"}]


def test_a_message_that_broke_off_is_gone_on_with_and_counted_once() -> None:
    with Session.create() as session:
        one = MessageStream(session, "assistant", {"model": "m"}, "block")
        one.add({"type": "text", "text": "so f"}, 0)
        one.end(stopReason="aborted", usage={"input": 3, "output": 1})
        rest = MessageStream(session, "assistant", {}, "block", uuid=one.uuid)
        rest.add({"type": "text", "text": "so far"}, 0)
        rest.end(stopReason="stop", usage={"input": 3, "output": 5})
        (said,) = session.context().messages
        assert said["content"] == [{"type": "text", "text": "so far"}]
        assert said["stopReason"] == "stop"
        assert session.stats().usage.output == 5
