"""Qwen Code's sessions: `~/.qwen/projects/<folder>/chats/<session id>.jsonl`.

Each line has a `uuid` and hangs below its `parentUuid`; the last line is the leaf. A rewind goes on
from a line further up, and is a branch. A message has Gemini's parts and becomes messages as those
of Gemini CLI do; `tool_result` lines answer the calls. A line that no model gets (`system`: events,
titles, slash commands) becomes a `custom` entry.

A `chat_compression` line has the history that replaces all before it: its first message becomes the
summary of a compaction that keeps nothing, and the others follow it.

A subagent has a file of its own, `../subagents/<session id>/agent-<id>.jsonl`, which becomes a
lane; the file of facts beside it names its call. A forked session is a copy, whose lines name the
original.

The tokens are those of the answers. What a request for a summary or for memories took is in events
alone, and not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sessiontree.agents import base
from sessiontree.agents.gemini.messages import Results, messages_of, parts_of
from sessiontree.core.activity import FirstPrompt
from sessiontree.core.entry import decode_leniently, lane_of_subagent
from sessiontree.core.header import GENERATED, KEY, is_of_program
from sessiontree.core.message import begins_turn
from sessiontree.core.usage import Sums, Tally
from sessiontree.text.pattern import lines_with

_LINE_KEYS: Final = (frozenset({"type", "uuid", "parentUuid", "sessionId"}),)
_LINES_TO_RECOGNISE: Final = 20
_MESSAGES: Final = frozenset({"user", "assistant", "tool_result"})
_GENERATED: Final = frozenset({"notification", "cron", "goal_runtime"})
"""The subtypes of messages that the program wrote in the user's name."""

_REALTIME: Final = "realtime_message"
"""The subtype of a message that was spoken, which no model gets again."""

_COMPRESSION: Final = "chat_compression"
_TITLE: Final = "custom_title"
_PARENT: Final = "parent_session"
_SUBTYPES: Final = frozenset(
    {
        *("agent_bootstrap", "agent_launch_prompt", "agent_retry", "agent_session_ready"),
        *("at_command", "attribution_snapshot", "background_task_completed", "branch_checkpoint"),
        *("file_history_snapshot", "goal_state", "goal_turn_end", "omni_recall", "rewind"),
        *("session_artifact_event", "session_artifact_snapshot", "session_model"),
        *("session_source", "session_sources_snapshot", "slash_command", "turn_result"),
        *("ui_telemetry", "user_text_elements", _COMPRESSION, _PARENT, _TITLE),
    }
)
"""The known subtypes of `system` lines."""


class QwenReader(base.Reader):
    line_keys = _LINE_KEYS
    needs_opening = False
    has_subagents = True
    reads_twice = True
    shares_origins = True
    parent_key = "parentUuid"
    session_keys = frozenset({"sessionId"})

    def recognises(self, head: bytes) -> bool:
        """True if one of the first lines has the shape of Qwen Code's."""
        for number, line in enumerate(base.first_values(head)):
            if number == _LINES_TO_RECOGNISE or "projectHash" in line:
                return False
            if _is_own(line):
                return True
        return False

    def facts(self, head: bytes, tail: bytes) -> base.AgentFacts:
        collected = _SessionFacts()
        for line in base.first_values(head):
            collected.note(line)
        for start, end in lines_with(b'"custom_title"', tail, len(tail)):
            if (titled := base.values(tail[start:end])) is not None:
                collected.note(titled)
        return collected.facts()

    def stands_alone(self, body: Mapping[str, Any], beside: bool) -> bool:
        return body.get("type") in _MESSAGES and isinstance(body.get("uuid"), str)

    def link(self, line: base.Values) -> base.Link | None:
        return _link_of(line)

    def tally(self) -> Tally:
        return QwenTally()

    def translate(self, source: base.AgentSource, report: base.Report) -> Iterator[base.EntryDraft]:
        collected = _SessionFacts()
        joins = _joins(source, 0, collected)
        facts = collected.facts()
        lines = base.LineMaker(self.name, report, facts.id or "")
        numbered = base.numbered(source, _LINE_KEYS, 0, report)
        first = next(numbered, None)
        if first is None:
            return
        derived = [facts.above] if facts.above else None
        about = {"agentVersion": collected.version, "gitBranch": collected.branch}
        opening = base.SourceLine(base.START, b"") if first.place.offset else first
        yield lines.header(opening, facts, **about, derivedFrom=derived)
        main = _Conversation(lines, joins)
        yield from main.translated(first)
        for line in numbered:
            yield from main.translated(line)
        for number, beside in enumerate(source.beside(), 1):
            yield from _subagent(beside, number, main, lines)


def _is_own(line: base.Values) -> bool:
    kind = line.text("type")
    if not all(map(line.__contains__, ("uuid", "parentUuid", "sessionId"))):
        return False
    if kind == "system":
        return "subtype" in line and "systemPayload" in line
    message = line.inside("message")
    return kind in _MESSAGES and "content" not in message and ("parts" in message or _cut(line))


def _cut(line: base.Values) -> bool:
    """True if a line lacks its message, which is behind the end of what is looked at."""
    return "message" not in line and "provenance" in line


def _link_of(line: base.Values) -> base.Link | None:
    uuid = line.text("uuid")
    return base.Link(uuid, line.text("parentUuid"), line.text("agentId")) if uuid else None


def _joins(source: base.AgentSource, number: int, collected: _SessionFacts) -> dict[str, str]:
    """The parents of the entries of a file whose own is not there; notes the facts, too."""
    links: list[base.Link] = []
    for line in base.numbered(source, _LINE_KEYS, number):
        if (found := line.values) is not None:
            collected.note(found)
            if (link := _link_of(found)) is not None:
                links.append(link)
    return base.joins(links) if source.is_whole else {}


def _subagent(
    source: base.AgentSource, number: int, main: _Conversation, lines: base.LineMaker
) -> Iterator[base.EntryDraft]:
    """The entries of a subagent, on a lane that starts with the facts beside its file."""
    agent = source.name.removeprefix("agent-").removesuffix(".jsonl")
    lane = lane_of_subagent(agent)
    line = base.SourceLine(base.LinePlace(number, 1, 0), b"lane " + lane.encode())
    sidecar = decode_leniently(source.sidecar) if source.sidecar is not None else None
    known = sidecar if isinstance(sidecar, dict) else {}
    caller = main.callers.get(str(known.get("toolUseId", "")))
    data = {"agentId": agent, **known, **({"calledBy": caller} if caller else {})}
    uuid = lines.uuid(None, line)
    made = lines.custom("subagent", line, uuid, data, parent=lines.root, lane=lane)
    yield made._replace(is_made=True)
    joins = _joins(source, number, _SessionFacts())
    conversation = _Conversation(lines, joins, lane, uuid)
    for each in base.numbered(source, _LINE_KEYS, number, lines.report):
        yield from conversation.translated(each)


class _Conversation:
    """Makes the entries of one file."""

    def __init__(
        self,
        lines: base.LineMaker,
        joins: Mapping[str, str],
        lane: str | None = None,
        start: str | None = None,
    ) -> None:
        self.callers: dict[str, str] = {}  # by the id of a call, the entry with it
        self._lines = lines
        self._joins = joins
        self._lane = lane
        self._leaf = self._top = start or lines.root
        self._ends: dict[str, str] = {}  # by a line's uuid, the last entry made of it

    def translated(self, line: base.SourceLine) -> Iterator[base.EntryDraft]:
        found = line.values
        if found is None:
            for made in self._lines.not_an_object(line, parent=self._leaf, lane=self._lane):
                self._leaf = made.fields["uuid"]
                yield made
            return
        own = found.text("uuid")
        parent, missing = self._parent(found, own)
        before = self._leaf = parent
        for kind, fields, name in self._made(line, found):
            uuid = self._lines.uuid(None if name else own, line, name)
            if kind == "compaction":
                fields["firstKeptEntryUuid"] = uuid
            for call in _calls_in(fields.get("message")):
                self.callers.setdefault(call, uuid)
            yield self._lines.entry(
                kind,
                line,
                uuid,
                fields,
                parent=self._leaf,
                lane=self._lane,
                timestamp=found.text("timestamp"),
                missing=missing if self._leaf == before else None,
            )
            self._leaf = uuid
        if own:
            self._ends[own] = self._leaf

    def _parent(self, found: base.Values, own: str | None) -> tuple[str, str | None]:
        """The entry above a line, and the parent that it names if that is not in the file."""
        if own in self._ends:  # a further part of the same message
            return self._ends[own], None
        parent = found.text("parentUuid")
        if parent is None:
            return self._top if "parentUuid" in found else self._leaf, None
        if (above := self._joins.get(own or "")) is not None:
            return self._ends.get(above, above), parent
        return self._ends.get(parent, parent), None

    def _made(
        self, line: base.SourceLine, found: base.Values
    ) -> Iterator[tuple[str, dict[str, Any], bytes]]:
        """The type and the fields of each entry made of a line; all but the first have a name."""
        kind, subtype = found.text("type") or "", found.text("subtype")
        if kind in _MESSAGES and subtype != _REALTIME:
            message = found.value("message")
            if messages := _messages_in(message, found):
                metadata = _metadata(found)
                for number, made in enumerate(messages):
                    name = b" message %d" % number if number else b""
                    yield "message", {"message": made, **metadata}, name
                return
        elif kind == "system" and subtype == _COMPRESSION:
            if history := _history_in(found):
                yield from _compaction(history, found)
                return
        elif kind != "system" or subtype not in _SUBTYPES:
            self._lines.note_unknown(subtype or kind, line.place)
        named = f"{self._lines.agent}:{subtype or kind or 'line'}"
        yield "custom", {"customType": named, "data": found.as_fragment()}, b""


def _calls_in(message: Any) -> list[str]:
    content = message.get("content") if isinstance(message, dict) else None
    blocks = content if isinstance(content, list) else []
    return [block["id"] for block in blocks if block.get("type") == "toolCall"]


def _messages_in(message: Any, line: base.Values) -> list[dict[str, Any]]:
    """The messages of a line; the answer of a model has its model and its usage."""
    if not isinstance(message, dict):
        return []
    made = _of_content(message, str(line.text("uuid")))
    if made and made[0]["role"] == "assistant":
        if (model := line.text("model")) is not None:
            made[0]["model"] = model
        if (usage := _usage(line.value("usageMetadata"))) is not None:
            made[0]["usage"] = usage
    return made


def _of_content(content: Mapping[str, Any], id: str) -> list[dict[str, Any]]:
    """The messages of one of Gemini's contents."""
    is_answer = content.get("role") == "model"
    given = {"type": "gemini" if is_answer else "user", "content": parts_of(content.get("parts"))}
    made = messages_of(given, Results())
    if is_answer:
        made[0]["id"] = id
    return made


def _usage(reported: Any) -> dict[str, int] | None:
    """The tokens of an answer; thoughts are part of the output in some versions, so the sum says.

    The tokens that were read from a cache are part of the input.
    """
    if not isinstance(reported, dict):
        return None

    def count(key: str) -> int:
        value = reported.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    read, total = count("promptTokenCount"), count("totalTokenCount")
    told = count("candidatesTokenCount")
    written = total - read if total > read else max(told, count("thoughtsTokenCount"))
    return {"input": read, "output": written, "cached": count("cachedContentTokenCount")}


def _metadata(line: base.Values) -> dict[str, Any]:
    return _marked(line.text("subtype"), line.value(KEY))


def _marked(subtype: Any, origin: Any) -> dict[str, Any]:
    """The metadata of a message of the user: whether a program wrote it."""
    is_programs = subtype in _GENERATED or is_of_program(origin)
    return {"metadata": GENERATED} if is_programs else {}


def _begins_turn(content: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    return any(begins_turn({"message": each, **metadata}) for each in _of_content(content, ""))


def _history_in(line: base.Values) -> list[dict[str, Any]]:
    """The contents that replace the conversation so far; empty if the first has no text."""
    history = line.inside("systemPayload").value("compressedHistory")
    contents = history if isinstance(history, list) else []
    contents = [content for content in contents if isinstance(content, dict)]
    return contents if contents and _text(contents[0]) else []


def _text(content: Mapping[str, Any]) -> str:
    texts = (part.get("text") for part in parts_of(content.get("parts")) if isinstance(part, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def _compaction(
    history: list[dict[str, Any]], line: base.Values
) -> Iterator[tuple[str, dict[str, Any], bytes]]:
    fields: dict[str, Any] = {"summary": _text(history[0])}
    tokens = line.inside("systemPayload").inside("info").value("originalTokenCount")
    if isinstance(tokens, int):
        fields["tokensBefore"] = tokens
    yield "compaction", fields, b""
    for number, content in enumerate(history[1:], 1):
        for part, made in enumerate(_of_content(content, f"{line.text('uuid')} {number}")):
            is_users = made["role"] == "user"
            metadata = {"metadata": {"isMeta": True}} if is_users else {}
            yield "message", {"message": made, **metadata}, b" kept %d %d" % (number, part)


class _SessionFacts:
    """Collects what a list shows of a session."""

    def __init__(self) -> None:
        self.version: str | None = None
        self.branch: str | None = None
        self._id: str | None = None
        self._cwd: str | None = None
        self._created: str | None = None
        self._first = FirstPrompt()
        self._title: str | None = None
        self._above: str | None = None

    def note(self, line: base.Values) -> None:
        self._id = self._id or line.text("sessionId")
        self._cwd = self._cwd or line.text("cwd")
        self._created = self._created or line.text("timestamp")
        self.version = self.version or line.text("version")
        self.branch = self.branch or line.text("gitBranch")
        if "forkedFrom" in line:
            self._above = self._above or line.inside("forkedFrom").text("sessionId")
        kind, subtype = line.text("type"), line.text("subtype")
        payload = line.inside("systemPayload")
        if kind == "system" and subtype == _TITLE:
            self._title = payload.text("customTitle") or self._title
        elif kind == "system" and subtype == _PARENT:
            self._above = self._above or payload.text("parentSessionId")
        elif kind == "user" and subtype is None and not self._first.is_found:
            self._first.take(payload.text("displayText") or _prompt_in(line))

    def facts(self) -> base.AgentFacts:
        return base.AgentFacts(
            self._id, self._cwd, self._title, self._first.text, self._created, above=self._above
        )


def _prompt_in(line: base.Values) -> str | None:
    content = line.value("message")
    if not isinstance(content, dict) or not _begins_turn(content, _metadata(line)):
        return None
    return _text(content).strip() or None


class QwenTally:
    """Counts the lines of a session. See `Tally`."""

    needles: tuple[bytes, ...] = (b'"user"', b'"usageMetadata"')

    def __init__(self) -> None:
        self._sums = Sums()
        self.counts = self._sums.counts
        self._seen: set[str] = set()

    def take(self, line: bytes, *, beside: bool = False) -> None:
        body = self._sums.decoded(line)
        kind, subtype, uuid = body.get("type"), body.get("subtype"), body.get("uuid")
        content = body.get("message")
        if kind not in _MESSAGES or subtype == _REALTIME or not isinstance(content, dict):
            return
        if kind == "user" and not beside:
            is_again = isinstance(uuid, str) and uuid in self._seen
            self._seen.add(str(uuid))
            if not is_again:
                is_prompt = _begins_turn(content, _marked(subtype, body.get(KEY)))
                self._sums.ask(body.get("timestamp"), is_prompt)
        elif (usage := _usage(body.get("usageMetadata"))) is not None:
            model = body.get("model")
            self._sums.spend(usage, body.get("timestamp"), uuid, model=model, beside=beside)
            if not beside:
                self._sums.use(model)
