"""A session as a chat of Gemini CLI: one log, the branches one after another, the current last.

A line is a message: the user's, or an answer with its calls and their results. `$rewindTo` takes
back a message and all after it. `$set.messages` sets the conversation anew: for a compaction, whose
first message then is a summary in `<state_snapshot>`, and to go back above one.

Gemini CLI deletes chats that were not changed for a month, so the time of the last change is that
at which it goes on.

Gemini's API wants an answer to be one turn, and each result directly behind its call. So messages
of one response become one line, and a call that was never answered gets a result that says so.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Any, Final

import msgspec

from sessiontree.agents import writing
from sessiontree.agents.gemini.messages import SNAPSHOT, is_ignored, parts_of
from sessiontree.agents.writing import (
    Step,
    WrittenBranch,
    WrittenCompaction,
    WrittenMessage,
)
from sessiontree.context.pairing import Pairing
from sessiontree.context.providers import reading
from sessiontree.context.providers.reading import MessageReader
from sessiontree.context.settings import header_settings
from sessiontree.core.display import one_line
from sessiontree.core.entry import Entry
from sessiontree.core.header import GENERATED, KEY
from sessiontree.core.message import Message, calls_of, is_generated, is_prompt, kind_of, result_ids
from sessiontree.core.usage import Usage, spent_mark, usage_of

_GOOGLE_MODEL: Final = re.compile(r"(gemini|gemma)\b", re.IGNORECASE)
_LEAD: Final = "(The user's text follows.)\n"
_LOST_NOTES: Final = {
    "usage": "usage without a message is left out",
    "thinking_level_change": "a thinking level is left out",
}
_WITHOUT_SUMMARY: Final = "The messages below are what is left of it."
_UNSEALED: Final = "the signature of thinking is left out"

Line = dict[str, Any]


class ChatUnit(msgspec.Struct, eq=False):
    """One message of the chat, or a compaction.

    Attributes:
        top, depth: the number of entries above its first and its last.
        key: a digest of what it says.
        place: the uuid of the entry below which the next message belongs.
        line: the message; for a compaction the `$set`.
        sent: the messages that it adds, or that a compaction leaves in force.
        response: the id of the response that an answer is part of, or None.
        parts, texts: of an answer, all parts in order; those that are neither thoughts nor calls.
        rank: the rank of its last part, as long as thoughts, texts and calls are in this order.
        calls: the first call of each id in it.
        has_results: whether one of its calls has a result.
        last: the id of the last line written of it, if a message is several lines.
    """

    top: int
    depth: int
    key: bytes
    place: str
    line: Line
    sent: list[Line]
    response: str | None = None
    parts: list[Line] = msgspec.field(default_factory=list)
    texts: list[Line] = msgspec.field(default_factory=list)
    rank: int | None = 0
    calls: dict[str, Line] = msgspec.field(default_factory=dict)
    has_results: bool = False
    last: str = ""

    @property
    def is_compaction(self) -> bool:
        return "$set" in self.line


class GeminiWriter(writing.LogWriter[ChatUnit]):
    program = "Gemini CLI"
    document = "chat"

    def __init__(self, source: writing.SessionSource) -> None:
        super().__init__(source)
        self._digest = b""  # of the message that is taken apart
        self._reading = MessageReader(self.losses, None)
        self._units: list[ChatUnit] = []  # those that are made together
        self._callers: dict[str, ChatUnit] = {}
        self._ids = _Ids(source)
        self._lines_with: set[str] = set()  # the uuids that lines have
        for row in source.tree.rows_of_type(*_LOST_NOTES):
            self.losses.at(source.tree.uuids[row], _LOST_NOTES[source.tree.type_of(row)])
        if "system" in header_settings(source.header.body):
            self.losses.at(source.header.uuid, writing.LOSS_OF_SYSTEM.format(self.program))

    @property
    def default_name(self) -> str:
        at = re.sub(r"[^0-9T]", "-", (self.source.header.timestamp or writing.LONG_AGO)[:16])
        return f"session-{at}-{self.session_id[:8]}.jsonl"

    def opening(self) -> Iterator[bytes]:
        header = self.source.header
        cwd = writing.text_in(header.get("cwd"))
        name = {} if self.source.name is None else {"summary": self.source.name}
        last = self.source.opened or self.source.stored(self.source.leaf).timestamp
        opening = {
            "sessionId": self.session_id,
            "projectHash": hashlib.sha256(cwd.encode("utf-8", "replace")).hexdigest(),
            "startTime": self.time,
            "lastUpdated": last or self.time,
            "kind": "main",
            **name,
            **({"directories": [cwd]} if cwd else {}),
        }
        yield self.line(opening, header.uuid)

    def ending(self) -> Iterator[bytes]:
        leaf = self.source.tree.uuids[self.source.leaf]
        if self.place != leaf:  # it is the entry below which a new one belongs
            note = {"id": self.source.derived_uuid(leaf, -1), "timestamp": self.time}
            yield self.line({**note, "type": "info", "content": ""}, leaf)

    def units_of(self, branch: WrittenBranch) -> tuple[int, Iterator[ChatUnit]]:
        common = self.log.up_to(branch.above)
        steps = iter(branch.steps)
        opening = list(_up_to_said(steps))
        if common is None or branch.is_whole or self._cuts(common, branch, opening):
            self._ids.keep(())
            whole = chain(opening, steps) if branch.is_whole else branch.whole()
            return self.log.common(self._made(whole), _again)
        self._give_back(common)
        return common, self._made(chain(opening, steps))

    def lines_of(self, unit: ChatUnit) -> Iterable[bytes]:
        return (self.line(unit.line, unit.place),)

    def _cuts(self, count: int, branch: WrittenBranch, opening: list[Step]) -> bool:
        """Whether a branch goes on inside of a message of the chat."""
        units = self.log.units
        if count < len(units) and units[count].top <= branch.above:
            return True
        return _goes_on(units[count - 1] if count else None, opening)

    def go_back(self, count: int) -> Iterator[bytes]:
        units = self.log.units
        place = units[count - 1].place if count else self.source.header.uuid
        removed = self.log.cut(count)
        if any(unit.is_compaction for unit in removed):
            yield self.line({"$set": {"messages": _in_force(units)}}, place)
        else:
            yield self.line({"$rewindTo": removed[0].line["id"]}, place)

    def _give_back(self, count: int) -> None:
        """Make the ids free that are no longer in force behind the first units of the log."""
        units = self.log.units
        after = units[count:]
        if any(unit.is_compaction for unit in after):
            self._ids.keep(message["id"] for message in _in_force(units[:count]))
        else:
            self._ids.give_back(unit.line["id"] for unit in after)

    def _made(self, steps: Iterable[Step]) -> Iterator[ChatUnit]:
        """The units of steps; those before a prompt are given when no call is open there."""
        run: list[WrittenMessage] = []
        compaction: WrittenCompaction | None = None
        calls = _OpenCalls()
        for step in steps:
            if isinstance(step, WrittenMessage):
                if run and not calls.open and is_prompt(step.message):
                    yield from self._take(compaction, run)
                    compaction, run = None, []
                run.append(step)
                calls.take(step)
            elif isinstance(step, WrittenCompaction):
                yield from self._take(compaction, run)
                compaction, run = step, []
                calls = _OpenCalls()
                for said in step.kept:
                    calls.take(said)
        yield from self._take(compaction, run)

    def _take(
        self, compaction: WrittenCompaction | None, run: list[WrittenMessage]
    ) -> list[ChatUnit]:
        """The units of a compaction and of what follows it; `run` is empty then."""
        kept = [] if compaction is None else compaction.kept
        pairing: Pairing[tuple[WrittenMessage, bool]] = Pairing()
        for said, is_kept in [*((each, True) for each in kept), *((each, False) for each in run)]:
            if said.message.get("role") != "system":
                pairing.take(said.message, (said, is_kept))
        messages, sources, warnings = pairing.result()
        for warning in warnings:
            self.losses.at("", warning)  # the pairing names no entry
        waiting = deque(zip(messages, sources, strict=True))
        del pairing, messages, sources
        run.clear()  # so that each message goes when its unit is made
        made: list[ChatUnit] = []
        self._units, self._callers = [], {}
        if compaction is not None:
            self._ids.keep(())
            for message, (said, is_kept) in waiting:
                if is_kept:
                    self._message(message, said)
            made.append(self._compaction(compaction, self._units))
            self._units = []
        while waiting:
            message, (said, is_kept) = waiting.popleft()
            if not is_kept:
                self._message(message, said)
        return made + self._units

    def _compaction(self, compaction: WrittenCompaction, kept: list[ChatUnit]) -> ChatUnit:
        sent = [unit.line for unit in kept]
        depth = self.branches.depths[compaction.row]
        digest = blake2b(compaction.entry.uuid.encode("utf-8", "surrogatepass"), digest_size=16)
        for unit in kept:
            digest.update(unit.key)
        place = self.source.tree.uuids[compaction.row]
        return ChatUnit(depth, depth, digest.digest(), place, {"$set": {"messages": sent}}, sent)

    def _message(self, message: Message, said: WrittenMessage) -> None:
        self._digest = _digest(message, said)
        self.losses.uuid = said.entry.uuid
        self.time = said.entry.timestamp or self.time
        if message.get("role") == "user" and _is_meta(said.entry):
            self.losses.add("a text that no user wrote counts as the user's")
        if message.get("partial"):
            self.losses.add("a partial message is not marked as partial")
        given = list(self._reading.parts_of(message))
        for side in ("user", "assistant"):
            run = [part for which, part in given if which == side]
            results = [part for part in run if isinstance(part, reading.Result)]
            for result in results:
                self._result(result, said)
            rest = [part for part in run if not isinstance(part, reading.Result)]
            if rest and side == "user":
                self._prompt(rest, said, message)
            elif rest:
                self._answer(rest, said, message)

    def _unit(self, said: WrittenMessage, fields: Line) -> ChatUnit:
        id = self._ids.take(said.entry.uuid)
        line = {"id": id, "timestamp": self.time, **fields}
        depth = self.branches.depths[said.row]
        place = self.source.tree.uuids[said.row]
        unit = ChatUnit(depth, depth, self._digest, place, line, [line])
        self._units.append(unit)
        return unit

    def _extend(self, unit: ChatUnit, said: WrittenMessage) -> None:
        """Note that a unit has one more message."""
        unit.depth = max(unit.depth, self.branches.depths[said.row])
        unit.key = blake2b(unit.key + self._digest, digest_size=16).digest()
        unit.place = self.source.tree.uuids[said.row]

    def _prompt(
        self, given: Sequence[reading.Part], said: WrittenMessage, message: Message
    ) -> None:
        parts = [made for part in given if (made := self._part(part)) is not None]
        if content := self.prompt(parts, message):
            mark = {KEY: GENERATED} if _is_meta(said.entry) else {}
            self._unit(said, {"type": "user", "content": content, **mark})

    def prompt(self, content: list[Line], message: Message) -> list[Line]:
        """The parts of a message of the user as the agent takes them for what they are."""
        if message.get("role") == "compactionSummary" and SNAPSHOT not in str(content):
            text = "".join(part.get("text", "") for part in content)
            return [{"text": f"{SNAPSHOT}\n{text}\n</{SNAPSHOT[1:]}"}]
        if content and is_ignored(content):
            self.losses.add("a text that Gemini CLI would ignore has words before it")
            return [{"text": _LEAD}, *content]
        return content

    def _answer(
        self, given: Sequence[reading.Part], said: WrittenMessage, message: Message
    ) -> None:
        content = [made for part in given if (made := self._part(part)) is not None]
        calls = [_call(part) for part in content if "functionCall" in part]
        id = message.get("id") if isinstance(message.get("id"), str) else None
        unit = self._open_answer(id, calls)
        tokens = self._tokens(message, id)
        if unit is None:
            if not content:
                return
            unit = self._unit(said, {"type": "gemini", "content": [], **tokens})
        else:
            self._extend(unit, said)
            unit.line |= tokens
        unit.response = id
        if tokens:
            unit.line[KEY] = {**unit.line.get(KEY, {}), **spent_mark(message)}
        unit.line |= self.model_of(message)
        _add(unit, content, calls)
        self._callers |= {call["id"]: unit for call in calls}

    def _open_answer(self, id: str | None, calls: list[Line]) -> ChatUnit | None:
        """The answer that a message belongs to, or None."""
        last = self._units[-1] if self._units else None
        if last is None or last.line.get("type") != "gemini":
            return None
        if id is not None and id == last.response:
            return last
        if last.has_results:
            return None
        is_apart = id is not None and last.response is not None
        is_call_behind_text = bool(calls) and "toolCalls" not in last.line
        return None if is_apart and not is_call_behind_text else last

    def _result(self, result: reading.Result, said: WrittenMessage) -> None:
        unit = self._callers.get(result.id)
        call = None if unit is None else unit.calls.get(result.id)
        text = "\n".join(part.text for part in result.parts if isinstance(part, reading.TextPart))
        name = result.name if call is None else call["name"]
        key = "error" if result.failed else "output"
        response = {"id": result.id, "name": name or "tool", "response": {key: text}}
        found: list[Line] = [{"functionResponse": response}]
        media = [part for part in result.parts if isinstance(part, reading.Media)]
        found += [made for part in media if (made := self._part(part)) is not None]
        if unit is None or call is None or "result" in call:
            self._unit(said, {"type": "user", "content": found})
            return
        call["result"] = found
        call["status"] = "error" if result.failed else "success"
        unit.has_results = True
        self._extend(unit, said)

    def _part(self, part: reading.Part) -> Line | None:
        if isinstance(part, reading.TextPart):
            return {"text": part.text}
        if isinstance(part, reading.Media):
            if part.data and part.media_type:
                return {"inlineData": {"mimeType": part.media_type, "data": part.data}}
            return {"text": self.losses.replaced(part, f": {self.program} needs the bytes")}
        if isinstance(part, reading.SentCall):
            name = reading.sent_name(part, self.losses)
            called = {"id": part.id, "name": name, "args": writing.arguments_of(part)}
            return {"functionCall": called}
        if isinstance(part, reading.Thinking):
            if part.seal:
                self.losses.add(_UNSEALED)
            told = part.text or part.told
            return {"text": told, "thought": True} if told else None
        if isinstance(part, reading.ProviderBlock):
            self.losses.add(f"a block of the kind {kind_of(part.block)!r} is left out")
        return None

    def _tokens(self, message: Message, id: str | None) -> Line:
        """The usage, once for all messages of one response."""
        reported = message.get("usage")
        if not isinstance(reported, Mapping) or message.get("role") != "assistant":
            return {}
        if id is not None:
            is_next = bool(self._units) and self._units[-1].response == id
            if id in self.counted and not is_next:
                return {}
            self.counted.add(id)
        return self.tokens(usage_of(reported))

    def tokens(self, used: Usage) -> Line:
        """The keys with the usage of an answer."""
        if used.cost:
            self.losses.add("a reported cost is left out")
        read = used.input + used.cache_read + used.cache_write
        tokens = {"input": read, "output": used.output, "cached": used.cache_read}
        return {"tokens": {**tokens, "thoughts": 0, "tool": 0, "total": read + used.output}}

    def model_of(self, message: Message) -> Line:
        """The keys with the model of an answer, if the agent can use it."""
        model = message.get("model")
        if not isinstance(model, str):
            return {}
        if message.get("provider") == "google" or _GOOGLE_MODEL.match(model):
            return {"model": model}
        self.losses.add(f"the model {one_line(model, 60)} is left out: Gemini CLI uses its own")
        return {}

    def summary_of(self, unit: ChatUnit) -> tuple[str, list[Line]]:
        """The summary of a compaction, for an agent that sends one, and the messages it keeps."""
        kept = unit.sent
        if not kept or kept[0]["id"] != unit.place:  # an agent's own history has no summary
            return _WITHOUT_SUMMARY, kept
        entry = self.source.entry(self.source.tree.row(unit.place))
        return writing.text_in(entry.get("summary")), kept[1:]

    def uuid_for(self, own: str, number: int) -> str:
        """The uuid of the entry for its first line, if no line has it; else one made of it."""
        uuid = own if number == 0 else self.source.derived_uuid(own, number)
        while uuid in self._lines_with:
            number += 1
            uuid = self.source.derived_uuid(own, number)
        self._lines_with.add(uuid)
        return uuid

    def line(self, line: Line, place: str) -> bytes:
        """A line of the file; the next one belongs below the entry with the uuid `place`."""
        self.place = place
        try:
            origin = self.source.origin_at(place, line)
            if KEY in line and KEY in origin:
                origin = {KEY: {**origin[KEY], **line[KEY]}}
            return writing.json_of({**line, **origin}) + b"\n"
        except RecursionError:
            self.losses.add("an entry that is nested too deeply for JSON is left out")
            return b""


def _is_meta(entry: Entry) -> bool:
    """Whether a program wrote a message.

    The bytes are looked at first, because an entry that is asked for a key keeps all of them.
    """
    return b"isMeta" in entry.line and is_generated(entry.as_stored)


def _again(unit: ChatUnit, made: ChatUnit) -> ChatUnit | None:
    if made.key != unit.key:
        return None
    made.last = unit.last
    return made


class _Ids:
    """The ids of the messages in force: each is the uuid of an entry, or the next one derived."""

    def __init__(self, source: writing.SessionSource) -> None:
        self._source = source
        self._made: dict[str, tuple[str, int]] = {}  # by id, the uuid and its number
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}  # by uuid, a number below which all are taken

    def take(self, uuid: str) -> str:
        """The first id of a uuid that is free."""
        number = self._next.get(uuid, 0)
        while (id := self._source.derived_uuid(uuid, number) if number else uuid) in self._taken:
            number += 1
        self._made[id] = uuid, number
        self._taken.add(id)
        self._next[uuid] = number + 1
        return id

    def give_back(self, ids: Iterable[str]) -> None:
        for id in ids:
            uuid, number = self._made[id]
            self._taken.discard(id)
            self._next[uuid] = min(self._next.get(uuid, 0), number)

    def keep(self, ids: Iterable[str]) -> None:
        """Only these are in force."""
        self._taken = set(ids)
        self._next = {}


class _OpenCalls:
    """The calls that have no result yet."""

    def __init__(self) -> None:
        self.open: set[str] = set()

    def take(self, said: WrittenMessage) -> None:
        self.open.update(call.id for call in calls_of(said.message))
        self.open.difference_update(result_ids(said.message))


def _up_to_said(steps: Iterator[Step]) -> Iterator[Step]:
    """Steps up to the first message, which is one of them."""
    for step in steps:
        yield step
        if isinstance(step, WrittenMessage):
            return


def _add(unit: ChatUnit, content: list[Line], calls: list[Line]) -> None:
    """Add parts to an answer: thoughts, texts and calls apart where they are in this order."""
    line = unit.line
    unit.parts += content
    thoughts: list[Line] = line.pop("thoughts", [])
    for part in content:
        rank = 0 if "thought" in part else 2 if "functionCall" in part else 1
        unit.rank = rank if unit.rank is not None and rank >= unit.rank else None
        if rank == 0:
            told = {"description": part["text"], "timestamp": line["timestamp"]}
            thoughts.append({"subject": "", **told})
        elif rank == 1:
            unit.texts.append(part)
    if unit.rank is None:
        line["content"] = unit.parts
    else:
        if thoughts:
            line["thoughts"] = thoughts
        is_one = len(unit.texts) == 1 and "text" in unit.texts[0]
        line["content"] = unit.texts[0]["text"] if is_one else unit.texts or ""
    if calls:
        line.setdefault("toolCalls", []).extend(calls)
    for call in calls:
        unit.calls.setdefault(call["id"], call)


def _call(part: Line) -> Line:
    return {**part["functionCall"], "status": "cancelled"}


def contents_of(line: Line) -> Iterator[Line]:
    """What a message of a chat says as Gemini's contents, and then each result."""
    if line["type"] == "user":
        yield {"role": "user", "parts": _parts(line["content"])}
        return
    parts = _parts(line["content"])
    calls = line.get("toolCalls", [])
    if not any("thought" in part or "functionCall" in part for part in parts):
        thoughts = line.get("thoughts", [])
        told = [{"text": thought["description"], "thought": True} for thought in thoughts]
        sent = ({key: call[key] for key in ("id", "name", "args")} for call in calls)
        parts = [*told, *parts, *({"functionCall": call} for call in sent)]
    yield {"role": "model", "parts": parts}
    for call in calls:
        if "result" in call:
            yield {"role": "user", "parts": call["result"]}


def _parts(content: Any) -> list[Line]:
    return [{"text": part} if isinstance(part, str) else part for part in parts_of(content)]


def _goes_on(last: ChatUnit | None, steps: list[Step]) -> bool:
    """Whether steps may belong to the answer that stands before them."""
    first = next((step for step in steps if isinstance(step, WrittenMessage)), None)
    if first is None or last is None or last.line.get("type") != "gemini":
        return False
    given = MessageReader(writing.Losses(), None).parts_of(first.message)
    return any(side == "assistant" or isinstance(part, reading.Result) for side, part in given)


def _in_force(log: list[ChatUnit]) -> list[Line]:
    """The messages in force at the end of a log."""
    last = next((n for n in reversed(range(len(log))) if log[n].is_compaction), 0)
    return [line for unit in log[last:] for line in unit.sent]


def _digest(message: Message, said: WrittenMessage) -> bytes:
    digest = blake2b(digest_size=16)
    digest.update(said.entry.uuid.encode("utf-8", "surrogatepass"))
    try:
        digest.update(writing.json_of(message))
    except RecursionError:
        digest.update(said.entry.line)
    return digest.digest()
