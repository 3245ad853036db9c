"""Streams as Claude Code writes them, made up here: with deltas, without, and with both."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from sessiontree import Session
from sessiontree.recording.events import StreamEvent
from sessiontree.recording.recorder import StreamAccumulator
from tests.support.saying import text

Object = dict[str, Any]
AGENT_SESSION = "3f0e6d1c-0000-4000-8000-000000000001"
MODEL = "claude-sonnet-4-5-20250929"

THINKING: Object = {"type": "thinking", "thinking": "The user wants…", "signature": "EqQBsig=="}
TEXT = text("I'll look at the café's file 🍰.")
CALL: Object = {"type": "tool_use", "id": "toolu_01", "name": "Read"}
CALL["input"] = {"file_path": "/p/a.py", "limit": 10}
START_USAGE = {"input_tokens": 10, "cache_read_input_tokens": 100, "output_tokens": 1}


class Agent:
    """Writes events as the agent would, each with a uuid of its own."""

    def __init__(self, parent: str | None = None) -> None:
        self._numbers = count(1)
        self._parent = parent

    def event(self, type: str, **fields: Any) -> Object:
        letter = "b" if self._parent else "a"
        uuid = f"{letter}{next(self._numbers):07d}-1111-4000-8000-000000000000"
        about = {"session_id": AGENT_SESSION, "parent_tool_use_id": self._parent, "uuid": uuid}
        return {"type": type, **fields, **about}

    def init(self) -> Object:
        return self.event(
            "system", subtype="init", cwd="/p", model=MODEL, tools=["Read", "Task"], mcp_servers=[]
        )

    def streamed(self, **event: Any) -> Object:
        return self.event("stream_event", event=event)

    def whole(self, id: str, content: Sequence[Object], usage: Object | None = None) -> Object:
        message: Object = {"id": id, "type": "message", "role": "assistant", "model": MODEL}
        message |= {"content": [*content], "stop_reason": None, "usage": usage or START_USAGE}
        return self.event("assistant", message=message)

    def begin(self, id: str) -> Object:
        message = self.whole(id, [])["message"]
        return self.streamed(type="message_start", message=message)

    def deltas(self, index: int, block: Object, size: int = 6) -> Iterator[Object]:
        """The start of a block, and its deltas."""
        start, kind, key = dict(block), block["type"], block["type"]
        if kind == "tool_use":
            start["input"], said = {}, json.dumps(block["input"])
            name, key = "input_json_delta", "partial_json"
        else:
            said, start[key] = block[key], ""
            name = f"{kind}_delta"
        if "signature" in start:
            start["signature"] = ""
        yield self.streamed(type="content_block_start", index=index, content_block=start)
        for at in range(0, len(said), size):
            delta = {"type": name, key: said[at : at + size]}
            yield self.streamed(type="content_block_delta", index=index, delta=delta)
        if "signature" in block:
            delta = {"type": "signature_delta", "signature": block["signature"]}
            yield self.streamed(type="content_block_delta", index=index, delta=delta)

    def stop(self, index: int) -> Object:
        return self.streamed(type="content_block_stop", index=index)

    def end(self, reason: str, output_tokens: int) -> Iterator[Object]:
        usage = {"output_tokens": output_tokens}
        delta = {"stop_reason": reason, "stop_sequence": None}
        yield self.streamed(type="message_delta", delta=delta, usage=usage)
        yield self.streamed(type="message_stop")

    def message(
        self, id: str, blocks: Sequence[Object], reason: str = "end_turn", *, whole: bool = True
    ) -> Iterator[Object]:
        """A message in deltas, and each block whole before it stops, as the agent does it."""
        yield self.begin(id)
        for index, block in enumerate(blocks):
            yield from self.deltas(index, block)
            if whole:
                yield self.whole(id, [block])
            yield self.stop(index)
        yield from self.end(reason, 50)

    def user(self, content: str | Sequence[Object], **more: Any) -> Object:
        said = content if isinstance(content, str) else list(content)
        return self.event("user", message={"role": "user", "content": said}, **more)

    def result(self, **numbers: Any) -> Object:
        usage = {"input_tokens": 20, "cache_read_input_tokens": 200, "output_tokens": 100}
        about = {"subtype": "success", "is_error": False, "num_turns": 2, "duration_ms": 900}
        return self.event("result", **{"total_cost_usd": 0.25, "usage": usage, **about, **numbers})


def answer(id: str, words: str = "10 lines") -> Object:
    return {"type": "tool_result", "tool_use_id": id, "content": words}


def conversation(*, deltas: bool = True, whole: bool = True) -> list[Object]:
    """Two requests to a model with a tool's answer between them."""
    agent = Agent()
    found = [agent.init()]
    first = ("msg_1", [THINKING, TEXT, CALL], "tool_use")
    for id, blocks, reason in (first, ("msg_2", [text("Done.")], "end_turn")):
        if deltas:
            found += agent.message(id, blocks, reason, whole=whole)
        else:
            found += [agent.whole(id, [block]) for block in blocks]
        if id == "msg_1":
            found.append(agent.user([answer("toolu_01")], tool_use_result={"lines": 10}))
    found.append(agent.event("rate_limit_event", rate_limit_info={"status": "allowed"}))
    found.append(agent.result())
    return found


def as_bytes(events: Sequence[Mapping[str, Any]]) -> bytes:
    lines = (json.dumps(event, ensure_ascii=False, separators=(",", ":")) for event in events)
    return "".join(line + "\n" for line in lines).encode()


def recorded(session: Session, *streams: bytes, granularity: Any = "block") -> list[StreamEvent]:
    """Feed streams, each to an accumulator of its own; all that they yield."""
    found: list[StreamEvent] = []
    for stream in streams:
        with StreamAccumulator(session, granularity=granularity) as accumulator:
            found += accumulator.feed(stream)
            found += accumulator.close()
    return found


def contents(session: Session) -> list[Any]:
    """The content of each message of the context."""
    return [message.get("content") for message in session.context().messages]


def contents_of(*streams: bytes) -> list[Any]:
    """The contents of a new session that streams were recorded into."""
    with Session.create() as session:
        recorded(session, *streams)
        return contents(session)


def kept(file: Path, *streams: bytes, granularity: Any = "block") -> list[Any]:
    """The messages of a session that streams were recorded into, one after the other."""
    with Session.create(file, durability="os") as session:
        recorded(session, *streams, granularity=granularity)
    with Session.open(file, readonly=True) as session:
        assert session.verify() == []
        return list(session.context().messages)
