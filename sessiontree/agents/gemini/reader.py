"""Chats of Gemini CLI as entries, and their counts.

Chats are `~/.gemini/tmp/<project>/chats/session-<time>-<id>.json` or `.jsonl`. The older form is
one JSON document, `{sessionId, projectHash, startTime, lastUpdated, messages}`. The newer form is a
log: a first line with the same keys, then messages. A message with the id of an earlier one
replaces it. `{"$set": …}` changes the keys of the first line; with `messages` it replaces the whole
conversation. `{"$rewindTo": id}` removes that message and all after it, or every message if there
is none with this id.

A message of type `user` or `gemini` becomes a message in the pi coding agent's shape, and each
result that it holds a `toolResult` message after it. A replacement that changes what a model gets
becomes a branch, or a compaction where it begins with a summary. What a model gets nothing of
becomes a `custom` entry: notes for people (`info`, `warning`, `error`), a user message that Gemini
CLI leaves out when it resumes, and a message that is replaced at once.

A log whose header is lost is recognised by its first line. Its id is one that a line near the start
sets, else the start of the id in the file's name; its start is the time of its first message.

The chats of subagents are in a folder named by the session's id; each is a lane below its call.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from itertools import chain, islice, takewhile
from typing import Any, Final, NamedTuple

import msgspec
import orjson
import stringzilla  # type: ignore[import-not-found, unused-ignore]
from msgspec.structs import replace

from sessiontree.agents import base, document
from sessiontree.agents.gemini.messages import (
    Results,
    calls_of,
    content_of,
    is_ignored,
    is_snapshot,
    json_of,
    meaning,
    messages_of,
)
from sessiontree.agents.gemini.names import id_in
from sessiontree.core import limits
from sessiontree.core.activity import FirstPrompt
from sessiontree.core.entry import decode_leniently, lane_of_subagent
from sessiontree.core.header import GENERATED, KEY, is_of_program, stem_of
from sessiontree.core.limits import Budget
from sessiontree.core.message import begins_turn, text_of
from sessiontree.core.salvage import End
from sessiontree.core.usage import Sums, Tally
from sessiontree.text.pattern import lines_with


class GeminiTally:
    """See `core.usage.Tally`. A message that lines repeat under one id counts once."""

    needles: tuple[bytes, ...] = (b'"user"', b'"tokens"', b'"messages"')

    def __init__(self) -> None:
        self._sums = Sums()
        self.counts = self._sums.counts
        self._prompts: set[str] = set()

    def take(self, line: bytes, *, beside: bool = False) -> None:
        body = self._sums.decoded(line)
        change = body.get("$set")
        for holder in (body, change if isinstance(change, dict) else {}):
            messages = holder.get("messages")
            for message in messages if isinstance(messages, list) else ():
                self._take_message(message, beside=beside)
        self._take_message(body, beside=beside)

    def _take_message(self, message: Any, *, beside: bool) -> None:
        if not isinstance(message, dict):
            return
        id = message.get("id")
        if message.get("type") == "user" and not beside:
            is_again = isinstance(id, str) and id in self._prompts
            if not is_again and _is_prompt(message):
                self._prompts.add(str(id))
                self._sums.ask(message.get("timestamp"))
        elif isinstance(message.get("tokens"), dict):
            model = message.get("model")
            about = {"provider": "google" if isinstance(model, str) else None, "model": model}
            self._sums.spend(
                message["tokens"], message.get("timestamp"), id, beside=beside, **about
            )
            if not beside:
                self._sums.use(model)


def _is_prompt(message: dict[str, Any]) -> bool:
    if is_ignored(message.get("content")) or is_snapshot(message):
        return False
    metadata = {"metadata": GENERATED} if is_of_program(message.get(KEY)) else {}
    return any(begins_turn({"message": m, **metadata}) for m in messages_of(message, Results()))


_RESPONSE: Final = b'"functionResponse"'
_OUTPUT: Final = re.compile(
    _RESPONSE + rb'\s*:\s*{\s*(?:"(?:id|name)"\s*:\s*"[^"\\]*"\s*,\s*)*'
    rb'"response"\s*:\s*{\s*"output"\s*:\s*"'
)


def lines_made_anew(block: bytearray | bytes, end: int) -> Iterator[tuple[int, int]]:
    """The start and end of each line whose text is other than its bytes, so a search misses it.

    The text of a response that holds more than its output is JSON made anew.
    """
    searched = memoryview(block)[:end]
    at = stringzilla.find(searched, _RESPONSE)
    while at >= 0:
        if _OUTPUT.match(searched, at) is None:
            stop = block.find(b"\n", at, end)
            yield block.rfind(b"\n", 0, at) + 1, end if stop < 0 else stop
        at = stringzilla.find(searched, _RESPONSE, at + len(_RESPONSE))


_IN_HEADER: Final = frozenset(
    {"messages", "sessionId", "projectHash", "kind", "startTime", "summary"}
)
"""The keys of a first line that are in the header under other names, or are entries."""

_MESSAGES: Final = frozenset({"user", "gemini"})
_NOTES: Final = frozenset({"info", "warning", "error"})

_LINE_KEYS: Final = (
    frozenset({"sessionId", "projectHash"}),
    frozenset({"id", "timestamp", "type"}),
    frozenset({"$set"}),
    frozenset({"$rewindTo"}),
)
_SET_KEYS: Final = ("messages", "lastUpdated", "sessionId", "summary", "directories")
"""Keys of which a line of a log sets one."""

_LOOK: Final = 64 * 1024
"""The bytes at the start of a log in which an id is looked for if the header is lost."""

_OPENING: Final = 4096
"""The bytes at the start of a document that hold those keys."""


class GeminiReader(base.Reader):
    has_header = True
    line_keys = _LINE_KEYS
    has_subagents = True
    has_facts_beside = True
    is_of_lines = False
    shares_origins = True

    def recognises(self, head: bytes) -> bool:
        """Whether the first object has `sessionId` and `projectHash`, or is a line of a log."""
        if self.is_header(_first(head)):
            return True
        line = base.first_line(head, _LINE_KEYS)
        return line is not None and (self.is_header(line) or _is_of_log(line))

    def is_header(self, line: base.Values) -> bool:
        return "sessionId" in line and "projectHash" in line and "uuid" not in line

    def id_of_lines(self, head: bytes, file: str) -> str:
        return self.facts(head, b"").id or id_in(stem_of(file)) or ""

    def lacks_header(self, head: bytes) -> bool:
        """See `Reader.lacks_header`; Gemini CLI takes a header from any line."""
        lines = head.split(b"\n")
        return not _is_document(lines) and not any(map(self.is_header, _values_of(lines)))

    def made_header(self, source: base.AgentSource, id: str) -> dict[str, Any]:
        left = _left_of_header(line.text for line in base.numbered(source, _LINE_KEYS))
        project = (_project_in(source) or "").encode("utf-8", "replace")
        hashed = hashlib.sha256(project).hexdigest()  # Gemini CLI wants one, and compares none
        made = {"sessionId": left.text("sessionId") or id, "projectHash": hashed}
        return {**made, "startTime": left.text("startTime"), "kind": "main"}

    def facts(self, head: bytes, tail: bytes) -> base.AgentFacts:
        first = _first(head)
        if not self.is_header(first):
            lines = list(base.lines_in(head[:_LOOK], _LINE_KEYS))
            first, _ = base.header_in(_values_of(lines), self.is_header)
            first = first if "sessionId" in first else _left_of_header(lines)
        name = first.text("summary")
        for start, end in lines_with(b'"summary"', tail, len(tail)):
            name = _summary_in(tail[start:end]) or name
        return base.AgentFacts(
            first.text("sessionId"),
            _cwd(first),
            name,
            _first_prompt(head),
            first.text("startTime"),
            first.text("lastUpdated") if _is_document(head.split(b"\n")) else _time_of_batch(tail),
        )

    def with_sidecar(self, facts: base.AgentFacts, sidecar: bytes | None) -> base.AgentFacts:
        if sidecar is None:
            return facts
        return replace(facts, cwd=sidecar.decode("utf-8", "replace"))

    def beyond_header(self, left: dict[str, bytes]) -> Mapping[str, bytes]:
        return {key: value for key, value in left.items() if key not in _IN_HEADER}

    def narrowed(
        self, source: base.AgentSource, may_match: Callable[[bytes], bool]
    ) -> base.AgentSource:
        lines = list(source.lines())
        opening = base.values(lines[0][1]) if lines else None
        if opening is not None:
            if opening.value("messages"):
                return source
            left_out = _not_needed(lines[1:], may_match)
            kept = [(at, b"" if at in left_out else line) for at, line in lines]
            return base.PartOfSource(source.name, kept, source.sidecar)
        text = b"\n".join(line for _, line in lines)
        messages = (
            list(document.elements_of(text, "messages"))
            if decode_leniently(text) is not None
            else []
        )
        left_out = _not_needed(messages, may_match)
        parts: list[bytes] = []
        end = 0
        for at, message in messages:
            if at in left_out:  # a null of its length and its lines, so that places stay
                lines_in = message.count(b"\n")
                parts += (text[end:at], b"null".ljust(len(message) - lines_in), b"\n" * lines_in)
                end = at + len(message)
        parts.append(text[end:])
        kept = [(0, line) for line in b"".join(parts).split(b"\n")]  # no offset is read
        return base.PartOfSource(source.name, kept, source.sidecar)

    def whole_document(self, source: base.AgentSource) -> tuple[bytes, str] | None:
        if not _is_document(line for _, line in source.lines()):
            return None
        return document.made_whole(document.text_in(source), "messages")

    def tally(self) -> Tally:
        return GeminiTally()

    def translate(self, source: base.AgentSource, report: base.Report) -> Iterator[base.EntryDraft]:
        if _takes_lines(line for _, line in source.lines()):
            yield from self._document(source, report)
            return
        lines = base.numbered(source, _LINE_KEYS, 0, report)
        opening = base.opening_of(lines, self.is_header, report)
        first, keys = opening.line, opening.values
        if opening.header is None:
            texts = (line.text for line in base.numbered(source, _LINE_KEYS))
            keys = _left_of_header(_within(_LOOK, texts))
        id = keys.text("sessionId") or id_in(stem_of(source.name)) or ""
        made = base.LineMaker(self.name, report, id)
        chat = _Chat(made, source)
        header = chat.header(first, keys, _project_in(source))
        yield header._replace(is_made=opening.header is None)
        messages = keys.value("messages")
        if isinstance(messages, list):
            yield from chat.replaced(messages, first)
        for line in chain(opening.above, lines):
            yield from chat.take(line)
        yield from chat.finish()
        yield from _subagents(source, made, chat)

    def _document(self, source: base.AgentSource, report: base.Report) -> Iterator[base.EntryDraft]:
        text = document.text_in(source)
        opening = base.values(text) or base.leading_values(text) or base.Values({})
        lines = base.LineMaker(self.name, report, opening.text("sessionId") or "")
        chat = _Chat(lines, source)
        yield chat.header(base.SourceLine(base.START, text), opening, _project_in(source))
        for line in document.lines_of(text, "messages", report):
            yield from chat.take(line)
        yield from chat.finish()
        yield from _subagents(source, lines, chat)


class _MessageKeys(msgspec.Struct):
    """The keys of a message, or of another line, by which messages depend on each other."""

    id: str | None = None
    type: str | None = None
    change: msgspec.Raw | None = msgspec.field(default=None, name="$set")
    rewind: msgspec.Raw | None = msgspec.field(default=None, name="$rewindTo")


_decode_keys: Final = msgspec.json.Decoder(_MessageKeys).decode


def _not_needed(
    messages: Iterable[tuple[int, bytes]], may_match: Callable[[bytes], bool]
) -> frozenset[int]:
    """The offsets of messages that cannot match, and that no other message needs.

    Messages need each other where one replaces another, or takes others back, or where the user's
    message repeats results of the answer before it. Then none may be left out.
    """
    left_out: set[int] = set()
    ids: set[str] = set()
    for offset, message in messages:
        try:
            keys = _decode_keys(message)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return frozenset()
        if keys.rewind is not None or (keys.change is not None and b'"messages"' in message):
            return frozenset()
        if keys.id is None:
            continue
        if keys.id in ids:
            return frozenset()
        ids.add(keys.id)
        if not may_match(message) and next(lines_made_anew(message, len(message)), None) is None:
            left_out.add(offset)
        elif keys.type == "user" and _RESPONSE in message:
            return frozenset()
    return frozenset(left_out)


def _project_in(source: base.AgentSource) -> str | None:
    """The working directory in the file that names the folder of the chats."""
    return source.sidecar.decode("utf-8", "replace").strip() or None if source.sidecar else None


def _subagents(
    source: base.AgentSource, lines: base.LineMaker, main: _Chat
) -> Iterator[base.EntryDraft]:
    """The chats of subagents, each on a lane of its own below its call."""
    for number, beside in enumerate(source.beside(), 1):
        agent = beside.name.removesuffix(".jsonl")
        chat = _Chat(lines, beside, lane_of_subagent(agent))
        rest = base.numbered(beside, _LINE_KEYS, number, lines.report)
        for first in rest:
            yield chat.subagent(first, main.callers.get(agent))
            break
        for line in rest:
            yield from chat.take(line)
        yield from chat.finish()


class _Turn(NamedTuple):
    """A message of the current conversation; `parent` is the uuid of the entry before it."""

    id: str
    line: base.SourceLine
    made: tuple[bytes, ...]  # the JSON of the messages made from it
    meaning: tuple[bytes, ...]  # a digest of what a model gets of each of these
    answered: tuple[str, ...] = ()  # the calls that it has the results of
    parent: str = ""
    is_meta: bool = False  # whether no user typed it, as the summary of a compressed conversation


class _Chat:
    """The state of one chat. The last message waits, because a later line may replace it."""

    def __init__(
        self, lines: base.LineMaker, source: base.AgentSource | None, lane: str | None = None
    ) -> None:
        self._lines = lines
        self._short = (
            None
            if source is None
            else Budget(limits.SHORT_TEXTS, source.size, name=source.name, what="messages or calls")
        )
        self._lane = lane
        self._leaf = lines.root
        self._turns: list[_Turn] = []
        self._places: dict[str, int] = {}
        self._removed: list[_Turn] = []  # the turns after those, while the leaf is still below them
        self._removed_by = base.SourceLine(base.START, b"")
        self._results = Results()
        self._waiting: tuple[str, base.SourceLine, base.Values] | None = None
        self.callers: dict[str, str] = {}  # the entries that call subagents, by a subagent's id

    def header(
        self, line: base.SourceLine, opening: base.Values, cwd: str | None = None
    ) -> base.EntryDraft:
        id, name, created = map(opening.text, ("sessionId", "summary", "startTime"))
        facts = base.AgentFacts(id, cwd or _cwd(opening), name, created=created)
        return self._lines.header(
            line, facts, projectHash=opening.text("projectHash"), kind=opening.text("kind")
        )

    def subagent(self, line: base.SourceLine, caller: str | None) -> base.EntryDraft:
        """The start of a subagent's lane, below its call; `line` is the first of its chat."""
        opening = decode_leniently(line.text)
        data = {**(opening if isinstance(opening, dict) else {})}
        data |= {"calledBy": caller} if caller is not None else {}
        self._leaf = caller or self._lines.root
        fields = {"customType": "gemini:subagent", "data": data}
        return self._entry("custom", line, self._lines.uuid(None, line), fields)

    def take(self, line: base.SourceLine) -> Iterator[base.EntryDraft]:
        found = line.values
        if found is None:
            yield from self._not_an_object(line)
        elif "$rewindTo" in found:
            yield from self.settled()
            yield from self._left()
            yield self._branch(self._places.get(found.text("$rewindTo") or "", 0), line)
        elif (id := found.text("id")) is not None:
            yield from self._message(id, line, found)
        elif "$set" in found and "messages" in found.inside("$set"):
            yield from self.settled()
            messages = found.inside("$set").value("messages")
            made = list(self.replaced(messages if isinstance(messages, list) else [], line))
            yield from made or [self._custom(line, found)]
        else:
            yield self._custom(line, found)

    def finish(self) -> Iterator[base.EntryDraft]:
        yield from self.settled()
        yield from self._left()

    def settled(self) -> Iterator[base.EntryDraft]:
        if self._waiting is not None:
            (id, line, _), self._waiting = self._waiting, None
            yield from self._entries(self._turn(id, line))

    def _turn(self, id: str, line: base.SourceLine) -> _Turn:
        turn = _turn(id, line, self._results)
        parts = max(1, len(turn.made))
        if self._short is not None and len(line.text) < limits.SHORT_BYTES * parts:
            self._short.take(parts)
        return turn

    def replaced(self, messages: list[Any], line: base.SourceLine) -> Iterator[base.EntryDraft]:
        """Replace the conversation; the messages that both begin with stay.

        A compressed conversation begins with a summary, and becomes a compaction. What is only
        removed may come back with the next line, as in a resume.
        """
        self._results = Results()
        texts = {
            message["id"]: json_of(message)
            for message in messages
            if isinstance(message, dict) and isinstance(message.get("id"), str)
        }
        new = [
            self._turn(id, base.SourceLine(line.place, text, line))
            for id, text in texts.items()
            if text is not None
        ]
        old, self._removed = self._turns + self._removed, []
        kept, stays = _same(old, new)
        self._turns = old
        left = next((at for at in range(kept, len(old)) if old[at].meaning), None)
        said = next((at for at in range(stays, len(new)) if new[at].meaning), None)
        if left is not None and said is None:
            self._removed, self._removed_by = old[left:], line
        elif left is not None and said is not None and is_snapshot(_message_in(new[said])):
            yield from self._compaction(new[said], line)
            new[said] = new[said]._replace(is_meta=True)
            kept = stays = 0
        elif left is not None:
            yield self._branch(left, line)
        self._turns, self._places = [], {}
        for turn, above in _beside(new[:stays], old[:kept]):
            self._append(turn._replace(parent=above.parent, is_meta=above.is_meta))
        for turn in new[stays:]:
            if turn.meaning:
                yield from self._entries(turn)
            else:
                self._append(turn._replace(parent=self._leaf))

    def _compaction(self, summary: _Turn, line: base.SourceLine) -> Iterator[base.EntryDraft]:
        """A compaction that keeps nothing; the summary is the first message after it."""
        uuid = self._lines.uuid(None, line, b" compaction")
        text = text_of(decode_leniently(summary.made[0]))
        fields: dict[str, Any] = {"summary": text, "firstKeptEntryUuid": uuid}
        yield self._entry("compaction", line, uuid, fields)
        fields = {"targetUuid": uuid, "replacement": None}
        edit = self._lines.uuid(None, line, b" edit")
        yield self._entry("context_edit", line, edit, fields)

    def _entry(
        self,
        kind: str,
        line: base.SourceLine,
        uuid: str,
        fields: Mapping[str, Any],
        *,
        parent: str | None = None,
        timestamp: str | None = None,
    ) -> base.EntryDraft:
        """An entry on this chat's lane, by default below its leaf; it becomes the leaf."""
        parent, self._leaf = parent or self._leaf, uuid
        return self._lines.entry(
            kind, line, uuid, fields, parent=parent, lane=self._lane, timestamp=timestamp
        )

    def _custom(self, line: base.SourceLine, found: base.Values) -> base.EntryDraft:
        kind = "set" if "$set" in found else found.text("type") or ""
        known = _MESSAGES | _NOTES | {"set"}
        if kind not in known and "sessionId" not in found:
            self._lines.note_unknown(kind, line.place)
        return self._custom_of(kind or "line", line, found.text("id"), found)

    def _custom_of(
        self, kind: str, line: base.SourceLine, id: str | None, found: base.Values
    ) -> base.EntryDraft:
        fields = {"customType": f"gemini:{kind}", "data": found.as_fragment()}
        uuid = self._lines.uuid(id, line)
        return self._entry("custom", line, uuid, fields, timestamp=found.text("timestamp"))

    def _not_an_object(self, line: base.SourceLine) -> Iterator[base.EntryDraft]:
        for made in self._lines.not_an_object(line, parent=self._leaf, lane=self._lane):
            self._leaf = made.fields["uuid"]
            yield made

    def _message(
        self, id: str, line: base.SourceLine, found: base.Values
    ) -> Iterator[base.EntryDraft]:
        if self._waiting is not None and self._waiting[0] == id:
            _, old_line, old = self._waiting
            yield self._custom_of("replaced", old_line, None, old)
            self._waiting = (id, line, found)
            return
        yield from self.settled()
        yield from self._left()
        at = self._places.get(id)
        if at is None and found.text("type") in _MESSAGES:
            self._waiting = (id, line, found)
            return
        if at is not None:
            self._results.forget(self._turns[at].answered)
        turn = self._turn(id, line)
        if at is None:
            yield from self._entries(turn)
        elif turn.meaning == self._turns[at].meaning:
            yield self._custom_of("replaced", line, None, found)
        else:
            later = self._turns[at + 1 :]
            yield self._branch(at, line)
            for each in (turn, *later):
                yield from self._entries(each)

    def _branch(self, at: int, line: base.SourceLine) -> base.EntryDraft:
        """Remove the turns from `at` on, and go on from before them."""
        removed = self._turns[at:]
        del self._turns[at:]
        for turn in removed:
            self._places.pop(turn.id, None)
            self._results.forget(turn.answered)
        parent = removed[0].parent if any(turn.meaning for turn in removed) else None
        uuid = self._lines.uuid(None, line, b" branch")
        return self._entry("branch", line, uuid, {}, parent=parent)

    def _left(self) -> Iterator[base.EntryDraft]:
        """Go on from before the removed turns, if there are any."""
        if self._removed:
            parent, self._removed = self._removed[0].parent, []
            uuid = self._lines.uuid(None, self._removed_by, b" branch")
            yield self._entry("branch", self._removed_by, uuid, {}, parent=parent)

    def _append(self, turn: _Turn) -> None:
        self._results.add(turn.answered)
        self._places[turn.id] = len(self._turns)
        self._turns.append(turn)

    def _entries(self, turn: _Turn) -> Iterator[base.EntryDraft]:
        """The entries of one more turn; one that gives a model nothing is a `custom` entry."""
        line = turn.line
        self._append(turn._replace(parent=self._leaf))
        found = line.values or base.Values({})
        if not turn.made:
            yield self._custom(line, found)
            return
        more = {"metadata": {"isMeta": True}} if turn.is_meta else {}
        time = found.text("timestamp")
        for number, message in enumerate(turn.made):
            named = (turn.id, line) if not number else (None, line, b" %d" % (number - 1))
            uuid = self._lines.uuid(*named)
            if not number and b'"agentId"' in line.text:
                self._note_callers(line.text, uuid)
            fields = {"message": orjson.Fragment(message), **more}
            yield self._entry("message", line, uuid, fields, timestamp=time)

    def _note_callers(self, message: bytes, uuid: str) -> None:
        for call in calls_of(decode_leniently(message) or {}):
            if isinstance(call.get("agentId"), str):
                self.callers.setdefault(call["agentId"], uuid)


def _turn(id: str, line: base.SourceLine, results: Results) -> _Turn:
    """A message as a turn; its results are added to `results`, and those there left out."""
    message = _message_of(line)
    kind = message.get("type")
    is_said = kind == "gemini" or (kind == "user" and not is_ignored(message.get("content")))
    if not is_said:
        return _Turn(id, line, (), ())
    made: list[bytes] = []
    digests: list[bytes] = []
    answered: list[str] = []
    for each in messages_of(message, results):
        made.append(json_of(each) or b"null")
        digests.append(blake2b(meaning(each) or line.text, digest_size=16).digest())
        if isinstance(call := each.get("toolCallId"), str):
            answered.append(call)
    results.note(message)
    results.add(answered)
    is_meta = is_of_program(message.get(KEY))
    return _Turn(id, line, tuple(made), tuple(digests), tuple(answered), is_meta=is_meta)


def _message_in(turn: _Turn) -> dict[str, Any]:
    return _message_of(turn.line)


def _message_of(line: base.SourceLine) -> dict[str, Any]:
    message = decode_leniently(line.text) if line.values is not None else None
    return message if isinstance(message, dict) else {}


def _same(old: list[_Turn], new: list[_Turn]) -> tuple[int, int]:
    """How many turns two conversations begin with that give a model the same messages.

    An answer with its results may be one turn in the one, and several in the other.
    """
    pairs = zip(_flat(old), _flat(new), strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    ends = dict(_ends(old, same))
    return max(((ends[end], at) for end, at in _ends(new, same) if end in ends), default=(0, 0))


def _flat(turns: list[_Turn]) -> Iterator[bytes]:
    return chain.from_iterable(turn.meaning for turn in turns)


def _ends(turns: list[_Turn], most: int) -> Iterator[tuple[int, int]]:
    """For the turns with messages: the messages up to its end, up to `most`, and its number."""
    count = 0
    for number, turn in enumerate(turns, 1):
        count += len(turn.meaning)
        if count > most:
            return
        if turn.meaning:
            yield count, number


def _beside(new: list[_Turn], old: list[_Turn]) -> Iterator[tuple[_Turn, _Turn]]:
    """Each of the new turns, and the old one that has its first message."""
    said = iter([turn for turn in old for _ in turn.meaning])
    above = next(said, None)
    for turn in new:
        if above is None:
            return
        yield turn, above
        for _ in turn.meaning:
            above = next(said, above)


def _first(head: bytes) -> base.Values:
    found = document.first_keys(head)
    return found if any(found) else next(base.first_values(head), found)


def _summary_in(line: bytes) -> str | None:
    """The summary in a line: a `$set` of a log, or a key of a document."""
    if (patch := base.values(line)) is not None:
        return patch.inside("$set").text("summary")
    if not line.startswith(b'  "summary":'):
        return None
    key = base.values(b"{" + line.strip().removesuffix(b",") + b"}")
    return key.text("summary") if key is not None else None


def _is_of_log(line: base.Values) -> bool:
    """Whether a line is one of a log, and none of another program."""
    if "uuid" in line:
        return False
    change = line.inside("$set")
    is_message = line.text("type") in _MESSAGES | _NOTES and "content" in line
    return (
        (is_message and bool(line.text("id")) and bool(line.text("timestamp")))
        or any(key in change for key in _SET_KEYS)
        or bool(line.text("$rewindTo"))
    )


def _left_of_header(lines: Iterable[bytes]) -> base.Values:
    """What the lines of a log say of a header that is lost: the id, the time of the first."""
    id: str | None = None
    time: str | None = None
    for line in lines:
        if id is None and b'"sessionId"' in line:
            found = base.values(line) or base.leading_values(line) or base.Values({})
            id = found.text("sessionId") or found.inside("$set").text("sessionId")
        if time is None:
            times = (message.text("timestamp") for message in _values_of(_messages_in([line])))
            time = next(filter(None, times), None)
        if id is not None and time is not None:
            break
    left = {"sessionId": id, "startTime": time}
    return base.Values({key: json_of(value) or b"" for key, value in left.items() if value})


def _within(size: int, lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines in the first bytes of a file."""
    for line in lines:
        size -= len(line) + 1
        if size < 0:
            return
        yield line


def _values_of(lines: Iterable[bytes]) -> Iterator[base.Values]:
    return (found for found in map(base.values, lines) if found is not None)


def _cwd(opening: base.Values) -> str | None:
    folders = opening.value("directories")
    first = folders[0] if isinstance(folders, list) and folders else None
    return first if isinstance(first, str) else None


def _first_prompt(head: bytes) -> str | None:
    messages: Iterator[bytes]
    if _is_document(head.split(b"\n")):
        messages = (text for _, text in document.elements_of(head, "messages"))
    else:
        messages = _messages_in(base.lines_in(head, _LINE_KEYS))
    first = FirstPrompt()
    for text in messages:
        message = decode_leniently(text) if b'"user"' in text else None
        if not isinstance(message, dict) or message.get("type") != "user":
            continue
        prompt = base.prompt_text({"content": content_of(message.get("content"))})
        if prompt is not None and _is_prompt(message):
            first.take(prompt)
            if first.is_found:
                break
    return first.text


def _messages_in(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The messages in the lines of a log, also those that a `$set` has together."""
    for line in lines:
        if b'"$set"' not in line:
            yield line
            continue
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            yield from map(bytes, _decode_patch(line).change.messages)


def _time_of_batch(tail: bytes) -> str | None:
    """The time of the last message that a `$set` at the end of a log has, or None."""
    batches = (line for line in reversed(tail.split(b"\n")) if b'"messages"' in line)
    messages = list(_messages_in(islice(batches, 1)))
    last = base.values(messages[-1]) if messages else None
    return None if last is None else last.text("timestamp")


def _is_document(lines: Iterable[bytes]) -> bool:
    """True if this is the older form: over many lines, or with messages in the first line."""
    rest = iter(lines)
    first = next(rest, b"")
    opening = base.values(first)
    if opening is not None:
        return bool(opening.value("messages"))
    return _takes_lines(chain([first], rest))


def _takes_lines(lines: Iterable[bytes]) -> bool:
    """True if the first object takes several lines and has messages, or is still being written."""
    start: list[bytes] = []
    end, size = End(), 0
    for line in lines:
        if base.values(line) is not None:
            break
        start.append(line)
        size += len(line)
        if end.scan(line) is not None:
            first = base.values(b"\n".join(start))
            return first is not None and bool(first.value("messages"))
        if size > _OPENING:
            break
    else:
        if start and start[0].rstrip() == b"{":  # as every program begins such a document
            return True
    opening = b"\n".join(start)[:_OPENING]
    return b'"messages"' in opening.partition(b'"$set"')[0]  # in a log a line sets them


class _Messages(msgspec.Struct):
    messages: list[msgspec.Raw] = []


class _Patch(msgspec.Struct):
    change: _Messages = msgspec.field(name="$set")


_decode_patch: Final = msgspec.json.Decoder(_Patch).decode
