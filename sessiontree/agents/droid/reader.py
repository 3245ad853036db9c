"""Droid's sessions: `~/.factory/sessions/<folder>/<session id>.jsonl`.

The first line, `session_start`, has the id, the title and the working directory, and no time; the
start is the time of the next line that has one. The lines below are in the order in which Droid
sends the messages: a `parentId` names the message above, or that which a hook is for, and makes no
branch. A session that goes on from another (`/compress`) has a file of its own, which names the
other one.

A message has Anthropic's shape and keeps it; its `modelId` becomes the `model`. The reasoning that
a chat completion has beside its content becomes a thinking block, if no block has it. A message
for the model only (`llm_only`), or one of reminders alone, is marked as the program's. One for the
user only, such as a hook or an error, adds nothing to a context and becomes a `custom` entry.

A `compaction_state` becomes a compaction that keeps the messages after its anchor. What it says of
the system stays in the line.

The tokens of a session are not in this file: Droid keeps their sum in `<session
id>.settings.json`, beside it, and rewrites that after each turn. The sum becomes a `usage` entry at
the end, with the id of the session, so that of several sums of one session the last counts. Its
time is that at which Droid chose the provider; no answer has tokens of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

import orjson

from sessiontree.agents import base
from sessiontree.agents.agent import is_uuid
from sessiontree.core.entry import seconds_of
from sessiontree.core.message import THOUGHT_BLOCKS, begins_turn, block_text, blocks_of, kind_of
from sessiontree.core.usage import Sums, Tally, usage_of

_START: Final = "session_start"
_SIDE_TYPES: Final = frozenset(
    {_START, "agent_turn_outcome", "session_end", "session_settings", "todo_state"}
)
"""The known types of lines that add nothing to a context."""

_OWN_TYPES: Final = frozenset({"agent_turn_outcome", "compaction_state", "todo_state"})
"""The types of lines that no other agent has."""

_REMINDER: Final = "<system-reminder>"
_CONTEXT: Final = "context-"
"""How the ids of all messages begin that Droid adds before a prompt."""

_LINE_KEYS: Final = (frozenset({"type", "id", "message"}), frozenset({"type", "id", "owner"}))
_UNTITLED: Final = "New Session"
_REASONING: Final = "chatCompletionReasoningContent"
_TOKENS: Final = {
    "inputTokens": "input",
    "outputTokens": "output",
    "thinkingTokens": "thoughts",
    "cacheReadTokens": "cacheRead",
    "cacheCreationTokens": "cacheWrite",
}
_MAX_UNTIMED: Final = 20
"""The lines below the first in which a time is looked for."""


class DroidReader(base.Reader):
    has_header = True
    has_sums_beside = True
    line_keys = _LINE_KEYS

    def recognises(self, head: bytes) -> bool:
        """Whether the first object is a `session_start`, or a line that only Droid writes."""
        first = base.first_line(head, _LINE_KEYS)
        return first is not None and (self.is_header(first) or _is_of_droid(first))

    def is_header(self, line: base.Values) -> bool:
        """Whether a line is a `session_start` with an id, a title and an owner."""
        is_start = line.text("type") == _START and bool(line.text("id"))
        return is_start and "title" in line and "owner" in line

    def made_header(self, source: base.AgentSource, id: str) -> dict[str, Any]:
        return {"type": _START, "id": id, "title": _UNTITLED, "owner": "unknown", "version": 2}

    def facts(self, head: bytes, tail: bytes) -> base.AgentFacts:
        first, lines = base.header_in(base.first_values(head), self.is_header)
        created: str | None = None
        prompt: str | None = None
        for line in lines:
            created = created or line.text("timestamp")
            prompt = prompt or _prompt_in(line)
            if created and prompt:
                break
        return _facts_in(first, created, prompt, _last_time(tail))

    def stands_alone(self, body: Mapping[str, Any], beside: bool) -> bool:
        return body.get("type") == "message" and _own(body.get("id")) is not None

    def tally(self) -> Tally:
        return DroidTally()

    def translate(self, source: base.AgentSource, report: base.Report) -> Iterator[base.EntryDraft]:
        numbered = base.numbered(source, _LINE_KEYS, 0, report)
        opening = base.opening_of(numbered, self.is_header, report)
        first = opening.values
        id = first.text("id") or ""
        lines = base.LineMaker(self.name, report, id)
        rest = chain(opening.above, numbered)
        held, created = _until_time(rest)
        origin = first.text("parent")
        derived = [origin] if origin else None
        yield lines.opening(opening, _facts_in(first, created), derivedFrom=derived)
        entries = _DroidEntries(lines)
        for each in chain(held, rest):
            yield from entries.translated(each)
        if (settings := source.sidecar) is not None:
            yield from _sum_in(settings, id, created, lines)


def _sum_in(
    settings: bytes, id: str, created: str | None, lines: base.LineMaker
) -> Iterator[base.EntryDraft]:
    """The tokens of a session by the settings beside it."""
    line = base.SourceLine(base.START, settings)
    if line.values is None:
        cause = "the settings beside the session are no JSON object; its tokens are not known"
        lines.report("side file", base.START, cause)
        return
    found = {key: line.values.value(key) for key in line.values}
    if (fields := _sum_of(found, id, created)) is not None:
        at = fields.pop("timestamp")
        yield lines.entry("usage", line, lines.uuid(None, line), fields, timestamp=at)


def _sum_of(settings: Mapping[str, Any], id: str, created: str | None) -> dict[str, Any] | None:
    """The fields of a `usage` entry of the sum in the settings of a session; None without one."""
    told = settings.get("tokenUsage")
    counts = told if isinstance(told, dict) else {}
    used = {name: counts[key] for key, name in _TOKENS.items() if key in counts}
    if not usage_of(used).tokens:
        return None
    at, model = settings.get("providerLockTimestamp"), _text(settings.get("model"))
    return {
        "kind": "session",
        "sumOf": id,
        "provider": None,
        "model": model or None,
        "usage": used,
        "timestamp": at if seconds_of(at) is not None else created,
    }


def _is_of_droid(line: base.Values) -> bool:
    """Whether a line is one that Droid alone writes; a message of pi has a time of its own."""
    if line.text("type") in _OWN_TYPES:
        return "uuid" not in line
    message = line.value("message")
    ids = [line.text("id"), line.text("parentId") if "parentId" in line else _CONTEXT]
    return (
        line.text("type") == "message"
        and bool(line.text("timestamp"))
        and isinstance(message, dict)
        and "timestamp" not in message
        and all(id is not None and (id.startswith(_CONTEXT) or is_uuid(id)) for id in ids)
    )


def _until_time(numbered: Iterator[base.SourceLine]) -> tuple[list[base.SourceLine], str | None]:
    """The lines up to the first one with a time, and the time."""
    held: list[base.SourceLine] = []
    for line in numbered:
        held.append(line)
        time = None if line.values is None else line.values.text("timestamp")
        if time or len(held) == _MAX_UNTIMED:
            return held, time
    return held, None


def _facts_in(
    first: base.Values,
    created: str | None,
    prompt: str | None = None,
    modified: str | None = None,
) -> base.AgentFacts:
    given = first.text("sessionTitle")
    name = given if given and given != _UNTITLED else first.text("title")
    return base.AgentFacts(
        first.text("id"), first.text("cwd"), name or None, prompt, created, modified
    )


def _last_time(tail: bytes) -> str | None:
    """The time of the last line that has one; the last line of a turn has none."""
    found = map(base.values, reversed(tail.split(b"\n")))
    times = (line.text("timestamp") for line in found if line is not None)
    return next(filter(None, times), None)


def _prompt_in(line: base.Values) -> str | None:
    """The text of a prompt without the reminders that older versions put before it."""
    message = line.value("message") if line.text("type") == "message" else None
    if not isinstance(message, dict) or message.get("role") != "user" or _is_hidden(message):
        return None
    said = [block for block in blocks_of(message) if not _is_reminder(block)]
    return base.prompt_text({"content": said})


def _own(id: Any) -> str | None:
    """An id of Droid as a uuid; None for one that begins as all of its kind do."""
    return id if isinstance(id, str) and id and not id.startswith(_CONTEXT) else None


def _is_reminder(block: Mapping[str, Any]) -> bool:
    return block_text(block).startswith(_REMINDER)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _is_hidden(message: Mapping[str, Any]) -> bool:
    """Whether a message is for the user only, and no model gets it."""
    return message.get("visibility") == "user_only"


def _is_meta(message: Mapping[str, Any]) -> bool:
    """Whether Droid wrote a message in the user's name."""
    if message.get("role") != "user":
        return False
    blocks = list(blocks_of(message))
    return message.get("visibility") == "llm_only" or (
        bool(blocks) and all(map(_is_reminder, blocks))
    )


def _metadata(message: Mapping[str, Any]) -> dict[str, Any]:
    return {"metadata": {"isMeta": True}} if _is_meta(message) else {}


class _DroidEntries:
    """Makes the entries below the header."""

    def __init__(self, lines: base.LineMaker) -> None:
        self._lines = lines
        self._places: dict[str, int] = {}  # by the id of a message: how many entries end with it
        self._uuids: list[str] = []

    def translated(self, line: base.SourceLine) -> Iterator[base.EntryDraft]:
        if line.values is None:
            yield from self._lines.not_an_object(line)
            return
        made = self._entry(line, line.values)
        self._uuids.append(made.fields["uuid"])
        if id := line.values.text("id"):
            self._places[id] = len(self._uuids)
        yield made

    def _entry(self, line: base.SourceLine, keys: base.Values) -> base.EntryDraft:
        lines = self._lines
        kind, at = keys.text("type") or "", keys.text("timestamp")
        uuid = lines.uuid(_own(keys.text("id")), line)
        if kind == "message":
            message = keys.value("message")
            if isinstance(message, dict) and _is_said(message):
                fields = {"message": _adjusted(message, keys), **_metadata(message)}
                return lines.entry("message", line, uuid, fields, timestamp=at)
        elif kind == "compaction_state" and (summary := keys.text("summaryText")):
            fields = {"summary": summary, "firstKeptEntryUuid": self._first_kept(keys) or uuid}
            return lines.entry("compaction", line, uuid, fields, timestamp=at)
        elif kind not in _SIDE_TYPES:
            lines.note_unknown(kind, line.place)
        return lines.custom(kind or "line", line, uuid, keys.as_fragment(), timestamp=at)

    def _first_kept(self, compaction: base.Values) -> str | None:
        """The entry after the last message that is gone; None if nothing is kept."""
        anchor = compaction.inside("anchorMessage").text("id") or ""
        place = self._places.get(anchor, len(self._uuids))
        return self._uuids[place] if place < len(self._uuids) else None


def _is_said(message: Mapping[str, Any]) -> bool:
    role = message.get("role")
    return isinstance(role, str) and bool(role) and not _is_hidden(message)


def _adjusted(message: Mapping[str, Any], keys: base.Values) -> Any:
    """A message with its model, and with the reasoning that is beside its content."""
    added: dict[str, Any] = {}
    kept = keys.inside("message")
    if isinstance(model := message.get("modelId"), str) and "model" not in message:
        added["model"] = model
    thought = message.get(_REASONING)
    if isinstance(thought, str) and thought and not _thinks(message):
        added["content"] = _with_thought(thought, message.get("content"), kept.raw("content"))
    if not added:
        return keys.fragment("message")
    return {**{key: kept.fragment(key) for key in kept}, **added}


def _with_thought(thought: str, content: Any, raw: bytes) -> Any:
    """The content below a thinking block; a list of blocks keeps its bytes."""
    block = {"type": "thinking", "thinking": thought}
    if not isinstance(content, list) or not content:
        return [block, *blocks_of({"content": content})]
    return orjson.Fragment(b"[%b,%b" % (base.json_of(block), raw.lstrip().removeprefix(b"[")))


def _thinks(message: Mapping[str, Any]) -> bool:
    return any(kind_of(block) in THOUGHT_BLOCKS for block in blocks_of(message))


class DroidTally:
    """Counts the lines of a session. See `Tally`."""

    needles: tuple[bytes, ...] = (b'"user"', b'"modelId"', b'"session_start"')

    def __init__(self) -> None:
        self._sums = Sums()
        self.counts = self._sums.counts
        self._id = ""
        self._created: str | None = None

    def take(self, line: bytes, *, beside: bool = False) -> None:
        body = self._sums.decoded(line)
        if beside:
            self._take_sum(_sum_of(body, self._id, self._created))
            return
        if body.get("type") == _START and isinstance(body.get("id"), str):
            self._id = self._id or body["id"]
        self._created = self._created or _text(body.get("timestamp"))
        message = body.get("message")
        if body.get("type") != "message" or not isinstance(message, dict) or not _is_said(message):
            return
        is_prompt = begins_turn({"message": message, **_metadata(message)})
        self._sums.ask(body.get("timestamp"), is_prompt)
        self._sums.use(message.get("model", message.get("modelId")))

    def _take_sum(self, found: Mapping[str, Any] | None) -> None:
        if found is not None:
            about = {"kind": found["kind"], "model": found["model"]}
            self._sums.spend(found["usage"], found["timestamp"], found["sumOf"], **about)
