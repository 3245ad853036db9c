"""A session as an agent replays it by the Agent Client Protocol.

The first line says which session it is, and of which agent; each further line is an update, as the
agent sent it. Parts of one message that follow each other become one message: the user's, or an
answer with its thinking, its text and its calls; the result of each call is a message after it. An
update that says nothing of the conversation becomes a `custom` entry. The keys of a call that a
message does not say are in it, under `acp`.

What the protocol does not give is not guessed: branches, and mostly models, tokens and times. If an
agent adds a time, the tokens or a tool's name in `_meta`, as some do, they are taken. The uuid of
an entry is made of its first update alone, so a session that is loaded again has the same uuids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from sessiontree.agents import base
from sessiontree.core.entry import decode_leniently
from sessiontree.core.message import begins_turn
from sessiontree.core.migrate import uuid_of_line
from sessiontree.core.usage import Sums, Tally

REPLAY: Final = "acp_replay"
"""The type of the first line."""

_MARK: Final = REPLAY.encode()

_ACP: Final = "acp"
_CHUNKS: Final = {
    "user_message_chunk": "user",
    "agent_message_chunk": "assistant",
    "agent_thought_chunk": "assistant",
}
_CALLS: Final = frozenset({"tool_call", "tool_call_update"})
_ENDS: Final = frozenset({"completed", "failed"})
_PASSING: Final = frozenset(
    {"available_commands_update", "current_mode_update", "config_option_update"}
)
"""The updates about the running program, which are not of the session."""

_TOKENS: Final = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cachedWriteTokens": "cache_write_input_tokens",
}


class AcpReader(base.Reader):
    held_keys = frozenset(
        {
            *("sessionUpdate", "content", "toolCallId", "title", "kind", "locations", "rawInput"),
            *("rawOutput", "status"),
        }
    )

    def recognises(self, head: bytes) -> bool:
        """Whether the first line says that it begins a replay."""
        first = base.first_object(head) if _MARK in head else None
        return first is not None and self.is_header(first)

    def is_header(self, line: base.Values) -> bool:
        return line.text("type") == REPLAY and "sessionId" in line and "agent" in line

    def facts(self, head: bytes, tail: bytes) -> base.AgentFacts:
        lines = list(base.first_values(head))
        first = lines[0] if lines else base.Values({})
        found = map(_update_in, lines[1:])
        said = list(conversation(update for update in found if update))
        prompts = (one.message for one in said if one.message.get("role") == "user")
        prompt = next(filter(None, map(base.prompt_text, prompts)), None)
        created = next((one.time for one in said if one.time), None)
        return _facts_in(first, prompt, created)

    def tally(self) -> Tally:
        return AcpTally()

    def translate(self, source: base.AgentSource, report: base.Report) -> Iterator[base.EntryDraft]:
        numbered = base.numbered(source, (), 0, report)
        opening = base.opening_of(numbered, self.is_header, report)
        first = opening.values
        lines = base.LineMaker(self.name, report, first.text("sessionId") or "")
        updates = list(numbered)
        said = list(conversation(_update_of(line) for line in updates))
        created = next((one.time for one in said if one.time), None)
        facts = _facts_in(first, None, created)
        about = first.inside("agent")
        version, program = about.text("version"), about.text("name")
        yield lines.opening(opening, facts, agentVersion=version, program=program)
        for one in said:
            line = updates[one.number]
            own = uuid_of_line(lines.session_id, 0, line.text + b" %d" % one.part)
            uuid = lines.uuid(own, line, b" %d" % one.part)
            yield lines.entry(one.type, line, uuid, one.fields, timestamp=one.time)


def _facts_in(first: base.Values, prompt: str | None, created: str | None) -> base.AgentFacts:
    id, cwd, title, updated = map(first.text, ("sessionId", "cwd", "title", "updatedAt"))
    return base.AgentFacts(id, cwd or None, title, prompt, created or updated, updated)


def _update_in(line: base.Values) -> dict[str, Any]:
    found = decode_leniently(line.as_json())
    return found if isinstance(found, dict) else {}


def _update_of(line: base.SourceLine) -> dict[str, Any]:
    return {} if line.values is None else _update_in(line.values)


class SaidPart(NamedTuple):
    """An entry of a replay, before it is made."""

    type: str
    fields: dict[str, Any]
    time: str | None
    number: int  # the update that it begins with
    part: int = 0  # its number among the entries of that update

    @property
    def message(self) -> dict[str, Any]:
        found = self.fields.get("message")
        return found if isinstance(found, dict) else {}


class AcpTally:
    """Counts a replay. See `Tally`."""

    needles: tuple[bytes, ...] = (b'"sessionUpdate"',)

    def __init__(self) -> None:
        self._sums = Sums()
        self._updates: list[dict[str, Any]] = []

    def take(self, line: bytes, *, beside: bool = False) -> None:
        self._updates.append(self._sums.decoded(line))

    def counts(self) -> Any:
        for one in conversation(self._updates):
            if one.message.get("role") == "user":
                self._sums.ask(one.time, int(begins_turn(one.fields)))
            elif (used := one.message.get("usage")) is not None:
                self._sums.spend(used, one.time)
        self._updates = []
        return self._sums.counts()


def conversation(updates: Iterable[dict[str, Any]]) -> Iterator[SaidPart]:
    """The entries of a replayed session, in order."""
    said = _Replay()
    for number, update in enumerate(updates):
        yield from said.take(number, update)
    yield from said.flush()


def lacks(updates: Iterable[dict[str, Any]]) -> list[str]:
    """What the agent did not give of a session."""
    answers = [one for one in conversation(updates) if one.message.get("role") == "assistant"]
    found = ["branches", "models", "costs"]
    if not any("usage" in one.message for one in answers):
        found.append("tokens")
    if not any(one.time for one in answers):
        found.append("times")
    return found


class _Replay:
    """Puts updates together: the message that is being said, and the results of its calls."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._number = 0  # of the update that the message begins with
        self._role = ""
        self._id: Any = None
        self._blocks: list[dict[str, Any]] = []
        self._usage: dict[str, Any] | None = None
        self._time: str | None = None
        self._calls: dict[str, dict[str, Any]] = {}  # of the answer, by id: all that was said of it
        self._done: list[str] = []

    def take(self, number: int, update: dict[str, Any]) -> Iterator[SaidPart]:
        kind, meta = update.get("sessionUpdate"), _meta_of(update)
        if kind in _CHUNKS:
            yield from self._chunk(number, update, str(kind), meta)
        elif kind in _CALLS and isinstance(update.get("toolCallId"), str):
            yield from self._call(number, update, meta)
        elif update and kind not in _PASSING:
            yield from self.flush()
            fields = {"customType": f"{_ACP}:{kind}", "data": update}
            yield SaidPart("custom", fields, _time(meta), number)

    def _chunk(
        self, number: int, update: dict[str, Any], kind: str, meta: Mapping[str, Any]
    ) -> Iterator[SaidPart]:
        role, id = _CHUNKS[kind], update.get("messageId")
        block = _block(update.get("content"), is_thought=kind == "agent_thought_chunk")
        is_other = id is not None and self._id is not None and id != self._id
        is_next = role != self._role or is_other or self._are_calls_done()
        if is_next and (block is not None or role != self._role):
            yield from self.flush()
        self._role, self._id = role, id if id is not None else self._id
        self._note(meta)
        if block is not None:
            self._begin(number)
            _add(self._blocks, block)

    def _begin(self, number: int) -> None:
        self._number = self._number if self._blocks else number

    def _call(
        self, number: int, update: dict[str, Any], meta: Mapping[str, Any]
    ) -> Iterator[SaidPart]:
        id = update["toolCallId"]
        if id not in self._calls and (self._role != "assistant" or self._are_calls_done()):
            yield from self.flush()
        self._role = "assistant"
        known = self._calls.setdefault(id, {})
        if not known:
            self._begin(number)
            self._blocks.append({"type": "toolCall", "id": id})
            self._note(meta)
        else:
            known["ended"] = _time(meta)
        known.update({key: value for key, value in update.items() if value is not None})
        if update.get("status") in _ENDS and id not in self._done:
            self._done.append(id)

    def _note(self, meta: Mapping[str, Any]) -> None:
        self._time = self._time or _time(meta)
        if isinstance(used := meta.get("usage"), dict):
            self._usage = _usage(used)

    def _are_calls_done(self) -> bool:
        return bool(self._calls) and len(self._done) == len(self._calls)

    def flush(self) -> Iterator[SaidPart]:
        """What was said so far; the results follow their answer."""
        blocks = [self._whole(block) for block in self._blocks]
        if blocks:
            usage = {} if self._usage is None else {"usage": self._usage}
            message = {"role": self._role, "content": blocks, **usage}
            yield SaidPart("message", {"message": message}, self._time, self._number)
        for part, id in enumerate(self._done, 1):
            call = self._calls[id]
            fields = {"message": _result(id, call)}
            yield SaidPart("message", fields, call.get("ended"), self._number, part)
        self._start()

    def _whole(self, block: dict[str, Any]) -> dict[str, Any]:
        if block["type"] != "toolCall":
            return block
        call = self._calls[block["id"]]
        given = call.get("rawInput")
        arguments = given if isinstance(given, dict) else {} if given is None else {"input": given}
        about = {key: call[key] for key in ("title", "kind", "locations") if call.get(key)}
        return {**block, "name": _tool(call), "arguments": arguments, _ACP: about}


def _meta_of(update: Mapping[str, Any]) -> dict[str, Any]:
    meta = update.get("_meta")
    return meta if isinstance(meta, dict) else {}


def _tool(call: Mapping[str, Any]) -> str:
    """The name of a tool, which the protocol has not: the agent's own, or the kind of work."""
    return str(_meta_of(call).get("toolName") or call.get("kind") or "tool")


def _add(blocks: list[dict[str, Any]], block: dict[str, Any]) -> None:
    """Add a block; text goes on with the text before it."""
    kind = block["type"]
    if blocks and blocks[-1]["type"] == kind and kind in ("text", "thinking"):
        blocks[-1] = {**block, kind: blocks[-1][kind] + block[kind]}
    else:
        blocks.append(block)


def _block(content: Any, *, is_thought: bool = False) -> dict[str, Any] | None:
    """A block of content as pi has it; None for an empty one."""
    if not isinstance(content, dict):
        return None
    kind, text = content.get("type"), content.get("text")
    if kind == "text":
        name = "thinking" if is_thought else "text"
        return {"type": name, name: text} if isinstance(text, str) and text else None
    if kind == "image" and content.get("data"):
        return {"type": "image", "data": content["data"], "mimeType": content.get("mimeType")}
    inner = content.get("resource")
    if isinstance(inner, dict) and isinstance(inner.get("text"), str):
        return {"type": "text", "text": f"{inner.get('uri')}\n\n{inner['text']}", _ACP: kind}
    named = content.get("uri") or content.get("name") or kind
    return {"type": "text", "text": f"[{named}]", _ACP: content}


def _result(id: str, call: Mapping[str, Any]) -> dict[str, Any]:
    said = call.get("content")
    parts = list(filter(None, map(_part, said if isinstance(said, list) else ())))
    output = call.get("rawOutput")
    if not parts and output:
        text = output.get("content") if isinstance(output, dict) else output
        parts = [{"type": "text", "text": text if isinstance(text, str) else str(output)}]
    about = {key: call[key] for key in ("content", "rawOutput") if call.get(key)}
    return {
        "role": "toolResult",
        "toolCallId": id,
        "toolName": _tool(call),
        "content": parts,
        **({"isError": True} if call.get("status") == "failed" else {}),
        **({_ACP: about} if any(part.get("type") == "diff" for part in _parts(said)) else {}),
    }


def _parts(said: Any) -> list[dict[str, Any]]:
    return [part for part in said if isinstance(part, dict)] if isinstance(said, list) else []


def _part(part: Any) -> dict[str, Any] | None:
    if not isinstance(part, dict):
        return None
    if part.get("type") == "content":
        return _block(part.get("content"))
    if part.get("type") == "diff":
        return {"type": "text", "text": f"{part.get('path')} was changed."}
    return _block({**part, "name": f"{part.get('type')} {part.get('terminalId') or ''}".strip()})


def _time(meta: Mapping[str, Any]) -> str | None:
    """The time that an agent adds, in milliseconds since 1970, as RFC 3339."""
    value = meta.get("timestamp")
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    try:
        moment = datetime.fromtimestamp(value / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _usage(used: Mapping[str, Any]) -> dict[str, Any]:
    usage: dict[str, Any] = {
        name: used[key] for key, name in _TOKENS.items() if isinstance(used.get(key), int)
    }
    if isinstance(read := used.get("cachedReadTokens"), int):
        usage["input_tokens_details"] = {"cached_tokens": read}
    return usage
