"""A stream cut at any byte leaves a readable session, and its rest is gone on with.

The cuts fall into lines, characters, the middle of a block and between the halves of a
message; each is recorded, looked over, and then given the rest of the stream.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from sessiontree.recording.recorder import StreamAccumulator
from tests.support.saying import text
from tests.support.soak import in_soak
from tests.support.streams import (
    CALL,
    TEXT,
    Agent,
    answer,
    as_bytes,
    contents,
    contents_of,
    conversation,
    recorded,
)
from tests.support.table import for_each

pytestmark = pytest.mark.filterwarnings("ignore:line .* is cut short")


def with_subagent() -> list[dict[str, Any]]:
    """A request whose answer a subagent found."""
    main, below = Agent(), Agent(parent="toolu_01")
    return [
        main.init(),
        *main.message("msg_1", [TEXT, CALL], "tool_use"),
        below.user("look"),
        *below.message("msg_s", [text("found")]),
        main.user([answer("toolu_01", "found")]),
        *main.message("msg_2", [text("Done.")], whole=False),
        main.result(),
    ]


STREAMS = {
    "both": conversation(),
    "deltas": conversation(whole=False),
    "whole": conversation(deltas=False),
    "subagent": with_subagent(),
}
LANES = ("main", "agent-toolu_01")


def told(session: Session) -> list[Any]:
    """The messages of both lanes, and what they cost."""
    found: list[Any] = []
    for lane in LANES:
        with session.lane(lane) as on_lane:
            found.append(on_lane.context().messages)
    return [*found, session.stats().usage]


def told_of(stream: bytes, granularity: str = "block") -> list[Any]:
    """What a session tells of a stream that was recorded in one piece."""
    with Session.create() as session:
        recorded(session, stream, granularity=granularity)
        return told(session)


def check_cut(stream: bytes, at: Sequence[int], granularity: str, whole: list[Any]) -> None:
    """Record the pieces of a stream one after the other; the whole must come of it."""
    pieces = [stream[a:b] for a, b in zip([0, *at], [*at, len(stream)], strict=True)]
    with Session.create() as session:
        for piece in pieces:
            recorded(session, piece, granularity=granularity)
            assert session.verify() == []
            for lane in LANES:
                with session.lane(lane) as on_lane:
                    context = on_lane.context()
                    broken = [message for message in context.messages if "partial" in message]
                    assert all(message["stopReason"] == "aborted" for message in broken)
                    context.to_anthropic()
        assert told(session) == whole, at
        before = len(list(session.entries()))
        recorded(session, stream, granularity=granularity)
        assert told(session) == whole, at
        assert len(list(session.entries())) == before


def check_cuts(kind: str, granularity: str, step: int) -> None:
    stream = as_bytes(STREAMS[kind])
    whole = told_of(stream, granularity)
    for at in range(1, len(stream), step):
        check_cut(stream, [at], granularity, whole)


@pytest.mark.slow
@in_soak("step", 499, 1)
@for_each("granularity", ["block", "message"])
@for_each("kind", list(STREAMS))
def test_the_rest_of_a_cut_stream_makes_it_whole(kind: str, granularity: str, step: int) -> None:
    check_cuts(kind, granularity, step)


def test_a_stream_cut_again_and_again_comes_whole() -> None:
    for kind in STREAMS:
        stream = as_bytes(STREAMS[kind])
        whole = told_of(stream)
        check_cut(stream, range(97, len(stream), 397), "block", whole)
        in_one_line = [len(stream) - 40, len(stream) - 30, len(stream) - 1]
        check_cut(stream, in_one_line, "block", whole)


def test_chunks_may_end_anywhere() -> None:
    for size in (1, 7, 4096):
        stream = as_bytes(conversation())
        with Session.create() as session:
            with StreamAccumulator(session) as accumulator:
                for at in range(0, len(stream), size):
                    accumulator.feed(stream[at : at + size])
            assert told(session) == told_of(stream), size


def test_a_cut_file_opens_clean_with_the_blocks_that_were_finished(file: Path) -> None:
    stream = as_bytes(conversation(whole=False))
    with Session.create(file) as session:
        recorded(session, stream[: stream.index(b'"partial_json"')])
    with Session.open(file, readonly=True) as session:
        assert session.verify() == [] == session.damage
        (message,) = session.context(verbatim=True).messages
        assert [block["type"] for block in message["content"]] == ["thinking", "text", "tool_use"]
        assert message["stopReason"] == "aborted"
        (message,) = session.context().messages  # without the call that was cut
        assert [block["type"] for block in message["content"]] == ["thinking", "text"]


def test_a_recording_that_was_killed_goes_on_when_the_stream_is_told_again(file: Path) -> None:
    stream = as_bytes(conversation())
    Session.create(file).close()
    child = os.fork()
    if not child:
        accumulator = StreamAccumulator(Session.open(file))
        accumulator.feed(stream[: len(stream) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    with Session.open(file) as session:
        assert session.verify() == []
        recorded(session, stream)
        assert contents(session) == contents_of(stream)
        assert session.stats().usage.output == 100
