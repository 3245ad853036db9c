"""The recorder: takes the stream of a coding agent as it comes, and keeps it as a session.

It reads what Claude Code writes with `--output-format stream-json`, with or without
`--include-partial-messages`: lines of JSON with a `type`. `system`, `stream_event` (the streaming
events of Anthropic's Messages API), `assistant`, `user` and `result` have a meaning here; all
others are kept as `custom` entries. So are lines that are not events, and the end of a line that
was cut short.

Invariants: when `feed` returns, all that was taken in is kept, block by block or message by
message; a message is kept once, however often it comes; a subagent writes on a lane of its own; an
unknown event is kept unchanged; a stream may end at any byte, and be continued, or repeated from
its start, by another accumulator.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from sessiontree.core.entry import ANNOTATIONS, MAIN, Entry, decode_leniently
from sessiontree.core.garbage import is_scratch
from sessiontree.core.header import AGENT_SESSION_KEY, LANE_KEY
from sessiontree.core.jsonbytes import plain
from sessiontree.core.message import kind_of
from sessiontree.errors import EntryError, UsageError, warn
from sessiontree.recording import events
from sessiontree.recording.events import Position, StreamEvent
from sessiontree.recording.lane import (
    FIRST,
    PREFIX,
    Earlier,
    RecordedLane,
    TurnSpending,
    is_kept,
    spent_in_all,
    spent_since_start,
)
from sessiontree.recording.provider import (
    ANTHROPIC_EVENTS,
    is_chat_event,
    is_responses_event,
    storable,
)
from sessiontree.recording.stream import Granularity

if TYPE_CHECKING:
    from sessiontree.session import Session


class StreamLines:
    """Splits chunks of bytes into whole lines, and counts them; a chunk may end anywhere."""

    def __init__(self) -> None:
        self.number = 0
        self._begun: list[bytes] = []

    def add(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this chunk, without their newlines."""
        first, *others = chunk.split(b"\n")
        self._begun.append(first)
        if not others:
            return []
        whole = [b"".join(self._begun), *others[:-1]]
        self._begun = [others[-1]]
        return whole

    def rest(self) -> bytes:
        """The bytes after the last newline, which are then dropped here."""
        rest = b"".join(self._begun)
        self._begun = []
        return rest


TORN: Final = "torn"
"""The end of the `customType` of a line that was cut short."""


def kept(line: bytes) -> dict[str, str]:
    """A line as JSON can carry it: its text, or its bytes in hexadecimal digits."""
    try:
        return {"text": line.decode()}
    except UnicodeDecodeError:
        return {"hex": line.hex()}


def torn_before(session: Session) -> bytes:
    """The beginning of the line in which the last recording was cut, if nothing came after."""
    leaf = session.leaf
    if leaf.type != "custom" or leaf.get("customType") != PREFIX + TORN:
        return b""
    data = leaf.get("data")
    try:
        return str(data["text"]).encode() if "text" in data else bytes.fromhex(data["hex"])
    except (KeyError, TypeError, ValueError):
        return b""


_FACTS: Final = {
    "model": "model",
    "cwd": "cwd",
    "tools": "tools",
    "claude_code_version": "agentVersion",
    "permissionMode": "permissionMode",
}
"""Keys of the start of an agent, and the metadata keys where they are kept."""

_UUID: Final = re.compile(rb'"uuid": ?"([\w-]{5,64})"')
_ID: Final = re.compile(rb'"id": ?"([\w-]{5,64})"')

_CODEX_START: Final = "thread.started"
"""The first event of `codex exec --json`; of Codex, only its id of the session is recognized."""

_RESULT_KEYS: Final = frozenset({"subtype", "usage", "modelUsage", "total_cost_usd", "cost_usd"})
"""Keys of a result of Claude Code; another agent's result has none of them."""


class StreamAccumulator:
    """A context manager that appends the content of a stream to a session.

    Args:
        session: the session that gets the content below its leaf. `close` does not close the
            session.
        granularity: `block`: store each block as soon as it is complete. `message`: store each
            complete message; a message that is cut off is stored in blocks.
        prompt: the prompt of the agent, if the prompt is not in the stream. The prompt is written
            before the agent's messages. The prompt is not written if the stream was recorded before
            or continues after a cut. A stream is identified by the uuid of its start event, or,
            without a uuid, by the id of its first message.
    """

    def __init__(
        self, session: Session, *, granularity: Granularity = "block", prompt: str | None = None
    ) -> None:
        if granularity not in ("message", "block"):
            raise UsageError(f"granularity is 'message' or 'block', not {granularity!r}")
        session.writer.log.check_writable()
        self._session = session
        self._granularity: Granularity = granularity
        self._prompt = prompt
        self._lines = StreamLines()
        self._waiting: deque[bytes] = deque()
        self._events: list[StreamEvent] = []
        self._spending: TurnSpending | None = None
        self._earlier: Earlier = "recorded"
        self._reports: list[dict[str, Any]] = []
        self._lanes: dict[str, RecordedLane] = {}
        self._agent_session: str | None = None
        self._is_asking = False
        self._is_closed = False
        self._is_warned = False
        # the number of events that the recorder knows; 0 means that the stream is of another kind
        # and was stored unchanged
        self.recognized = 0

    def feed(self, chunk: bytes | str) -> list[StreamEvent]:
        """Take the next piece of the stream, which may end anywhere. Returns the new events.

        A line that is not an event is stored as a `custom` entry, with a warning.

        Raises:
            UsageError: the accumulator is closed.
            HookRejectedError: a hook refused a line; the next call continues after that line.
            StorageError: the session could not be written.
        """
        self._begin_call()
        data = chunk.encode("utf-8", "surrogatepass") if isinstance(chunk, str) else chunk
        self._waiting.extend(self._lines.add(data))
        self._take_lines()
        return self._events.copy()

    def take(self, event: Mapping[str, Any]) -> list[StreamEvent]:
        """Take a decoded event. Returns the new events.

        Raises:
            EntryError: the event is not an object, or has a value that is not JSON.
            UsageError, HookRejectedError, StorageError: as for `feed`.
        """
        self._begin_call()
        event = plain(event)
        if not isinstance(event, Mapping):
            raise EntryError(f"an event is a dict, not a {type(event).__name__}")
        self._take(dict(event))
        return self._events.copy()

    def close(self) -> list[StreamEvent]:
        """Take the rest of the stream, and end open messages. A second call does nothing.

        If a message is cut off, the part that arrived is stored and marked. If another accumulator
        gets the rest of the stream, that accumulator continues the message.
        """
        if self._is_closed:
            return []
        self._begin_call()
        self._take_lines()
        self._is_closed = True
        rest = self._lines.rest()
        if rest.strip():
            self._lines.number += 1
            if self._event(rest) is not None:
                self._take_line(rest)
                rest = b""
            elif not self._lanes:
                rest = torn_before(self._session) + rest
        self._write_prompt()  # where no message came to write it before
        main, subagents = list(self._lanes.values())[:1], list(self._lanes.values())[1:]
        for lane in (*subagents, *main):
            lane.close()
        for lane in subagents:
            lane.session.close()
        if rest.strip():  # written last, so that a later recording finds it
            self._keep_line(rest, TORN, "is cut short")
        return self._events.copy()

    @property
    def head(self) -> Entry:
        """The last entry on the current path that is not a label, a name or a `usage` entry."""
        found = self._session.cursor.nearest(lambda entry: entry.type not in ANNOTATIONS)
        return found or self._session.header

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _begin_call(self) -> None:
        if self._is_closed:
            raise UsageError("the recording is closed; make another StreamAccumulator to continue")
        self._events.clear()

    def _take_lines(self) -> None:
        if self._waiting and not self._lanes:
            self._session.reader.scan().expect(_ids_in(self._waiting))
        while self._waiting:
            line = self._waiting.popleft()
            self._lines.number += 1
            self._take_line(line)

    def _take_line(self, line: bytes) -> None:
        if not line.strip(b"\0\r\t \xef\xbb\xbf"):
            return
        event = self._event(line)
        if event is None:
            self._keep_line(line, "line", "is not a JSON object")
            return
        before = len(self._events)
        try:
            self._take(event)
        except EntryError as error:
            del self._events[before:]
            self._keep_line(line, "line", f"cannot be stored as an event: {error}")

    def _event(self, line: bytes) -> dict[str, Any] | None:
        """The event of a line; the first may continue the line where a recording was cut."""
        event = _decoded(line)
        if event is None and not self._lanes and (before := torn_before(self._session)):
            return _decoded(before + line)
        return event

    def _keep_line(self, line: bytes, kind: str, problem: str) -> None:
        text = f"line {self._lines.number} of the stream {problem}; it is kept unchanged"
        self._events.append(events.Err(message=text))
        self._lane().keep(kind, kept(line))
        warn(text)

    def _lane(self, call: str = "") -> RecordedLane:
        if call not in self._lanes:
            session = self._subagent(call) if call else self._session
            if self._spending is None:
                self._spending = spent_since_start(self._session)
            self._lanes[call] = RecordedLane(
                session,
                self._granularity,
                self._spending,
                self._events,
                is_main=not call,
                earlier=self._earlier,
            )
        return self._lanes[call]

    def _subagent(self, call: str) -> Session:
        """The lane of a subagent. It starts below the header: a subagent sees nothing else."""
        name = "agent-" + "".join(c if c.isalnum() or c in "._-" else "-" for c in call)
        self._lane()
        callers = (lane.caller(call) for lane in self._lanes.values())
        caller = next((uuid for uuid in callers if uuid), None)
        session = self._session.lane(name)
        if session.leaf.lane != name:
            session.close()
            session = self._session.lane(name, at=self._session.header)
            data = {"toolUseId": call, **({"calledBy": caller} if caller else {})}
            session.append("custom", customType=PREFIX + "subagent", data=storable(data))
        return session

    def _take(self, event: dict[str, Any]) -> None:
        """Take an event; one that is not recognized is kept.

        An event of Anthropic's API itself is taken as Claude Code reports it.
        """
        if kind_of(event) in ANTHROPIC_EVENTS:
            event = {"type": "stream_event", "event": event}
        elif not self._is_warned and (is_responses_event(event) or is_chat_event(event)):
            self._is_warned = True
            warn(
                "events of OpenAI's APIs are kept unchanged, and models do not get them; "
                "give them to stream_message().feed"
            )
        about = None
        if not self._lanes:
            is_new = _is_start(event) and not is_kept(self._session, event)
            if is_new:
                self._spending, about = TurnSpending(), {FIRST: True}
                self._earlier = "new" if isinstance(event.get("uuid"), str) else "maybe"
            self._ask(event, is_new=is_new)
        elif self._is_asking:
            self._ask_unless_known(event)
        kind, call = event.get("type"), event.get("parent_tool_use_id")
        lane = self._lane(call if isinstance(call, str) else "")
        id = event.get("session_id")
        if isinstance(id, str) and id and id != self._agent_session:
            self._agent_session = id
            self._update({AGENT_SESSION_KEY: id})
        if _is_start(event):
            self.recognized += 1
            self._start(event, lane, about)
            return
        if kind == _CODEX_START:
            self._update(storable(_agent_in(event)))
        is_known = kind == "result" and not _RESULT_KEYS.isdisjoint(event)
        if is_known:
            self._result(event, lane)
        is_known = is_known or lane.take(event)
        # types of events of Claude Code, even where no more is known of one
        self.recognized += is_known or str(kind) in {"system", "stream_event", "rate_limit_event"}
        if not is_known:
            lane.keep(kind if isinstance(kind, str) and kind else "event", event, event.get("uuid"))

    def _ask(self, event: Mapping[str, Any], *, is_new: bool) -> None:
        """Write the prompt, unless its answer is known.

        A start without a uuid may be a repetition: then the first message decides.
        """
        if self._prompt is None:
            return
        last = self._session.cursor.nearest(lambda entry: entry.is_content)
        self._is_asking = is_new or last is None
        if last is None or isinstance(event.get("uuid"), str):
            self._write_prompt()

    def _ask_unless_known(self, event: Mapping[str, Any]) -> None:
        inner = event.get("event")
        message = event.get("message", inner.get("message") if isinstance(inner, Mapping) else None)
        if self._lane().knows(message):
            self._is_asking = False
        elif isinstance(message, Mapping):
            self._write_prompt()

    def _write_prompt(self) -> None:
        if self._is_asking:
            self._is_asking = False
            prompt = self._prompt or ""
            entry = self._session.append_message({"role": "user", "content": prompt})
            said = events.UserMessage(position=Position(entry.uuid), text=prompt)
            self._events.append(said)

    def _update(self, facts: Mapping[str, Any]) -> None:
        """Store facts of the agent: for its lane, or on main for the session.

        A scratch lane stores none: the session must not change by what is only tried.
        """
        known, lane = self._session.metadata, self._session.lane_name
        if lane != MAIN:
            own = known.get(LANE_KEY + lane)
            known = own if isinstance(own, dict) else {}
        changed = {key: value for key, value in facts.items() if known.get(key) != value}
        if not changed or is_scratch(lane):
            return
        more = changed if lane == MAIN else {LANE_KEY + lane: {**known, **changed}}
        self._session.update_metadata(**more)

    def _start(
        self, event: dict[str, Any], lane: RecordedLane, about: dict[str, Any] | None
    ) -> None:
        facts = {kept: event[key] for key, kept in _FACTS.items() if event.get(key) is not None}
        self._update(storable({**facts, **_agent_in(event)}))
        position = Position(self._session.leaf.uuid)
        before = len(self._events)
        lane.keep("system", event, event.get("uuid"), about)
        model = event["model"] if isinstance(event.get("model"), str) else None
        id = self._agent_session
        self._events[before:] = [events.Start(agent_session_id=id, model=model, position=position)]

    def _result(self, event: dict[str, Any], lane: RecordedLane) -> None:
        for other in (*list(self._lanes.values())[1:], lane):
            other.end()
        reported = storable({key: event[key] for key in event if key != "type"})
        self._keep_usage(reported, lane)
        if event.get("is_error") is True:
            cause = event.get("result") or event.get("errors") or event.get("subtype")
            self._events.append(events.Err(message=f"the agent reports an error: {cause}"))
        usage = events.ChatUsage(
            **msgspec.structs.asdict(spent_in_all(event)),
            turns=_count(event.get("num_turns")),
            duration_ms=_count(event.get("duration_ms")),
        )
        head, id = Position(self.head.uuid), self._agent_session
        self._events.append(events.Complete(new_head=head, agent_session_id=id, usage=usage))

    def _keep_usage(self, reported: dict[str, Any], lane: RecordedLane) -> None:
        uuid = reported.get("uuid")
        uuid = uuid if isinstance(uuid, str) and uuid else None
        if is_kept(self._session, reported) if uuid else self._is_reported(reported, lane):
            return
        spending = lane.spending
        rest = spending.rest(reported)
        fields: dict[str, Any] = {
            "provider": None,
            "model": spending.only_model(reported),
            "usage": rest.as_dict(),
            "reported": reported,
        }
        entry = self._session.append("usage", uuid=uuid, kind="result", **fields)
        spending.end_turn(entry.uuid, rest)
        self._reports.append(reported)

    def _is_reported(self, reported: dict[str, Any], lane: RecordedLane) -> bool:
        """True if a report without a uuid was kept, in this recording or an earlier one."""
        if lane.is_new:
            return reported in self._reports
        kept = self._session.reader.entries_with("reported")
        return any(e.type == "usage" and e.get("reported") == reported for e in kept)


def header_facts(head: bytes, *, is_main: bool) -> dict[str, Any]:
    """The `cwd` and `metadata` of a new session, from the first line of the stream.

    An agent on another lane than main gives the session no metadata.
    """
    event = _decoded(head.partition(b"\n")[0]) or {}
    cwd = event.get("cwd") if _is_start(event) else None
    metadata = storable(_agent_in(event)) if is_main else {}
    return {"cwd": cwd if isinstance(cwd, str) and cwd else None, "metadata": metadata or None}


def _agent_in(event: Mapping[str, Any]) -> dict[str, str]:
    """The agent that starts with an event, and its id of the session, which resumes it."""
    agent, id = "claude-code", event.get("session_id") if _is_start(event) else None
    if event.get("type") == _CODEX_START:
        agent, id = "codex", event.get("thread_id")
    return {"agent": agent, AGENT_SESSION_KEY: id} if isinstance(id, str) and id else {}


def _decoded(line: bytes) -> dict[str, Any] | None:
    found = decode_leniently(line.strip(b"\0\r\t ").removeprefix(b"\xef\xbb\xbf"))
    return found if isinstance(found, dict) else None


def _ids_in(lines: Iterable[bytes]) -> list[str]:
    """The ids that the log will be asked for: of whole events; else that of the first message."""
    whole = [line for line in lines if b'"stream_event"' not in line]
    uuids = [found.decode() for line in whole for found in _UUID.findall(line)]
    first = (found for line in lines if (found := _ID.search(line)))
    return uuids or [found[1].decode() for found in islice(first, 1)]


def _is_start(event: Mapping[str, Any]) -> bool:
    return event.get("type") == "system" and event.get("subtype") == "init"


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
