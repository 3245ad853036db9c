"""Copilot CLI's sessions: `~/.copilot/session-state/<session id>/events.jsonl`.

The first line, `session.start`, has the id and the working directory. The events below it are in
the order in which they happened, so each hangs below the one before; a `parentId` makes no branch,
for what a rewind took back is gone from the file, or is named by `session.snapshot_rewind`.

A prompt is what the user typed; the time that Copilot CLI puts before it stays in the line. An
answer is `assistant.message`, a result `tool.execution_complete`, the system prompt a
`system.message`. The events of a subagent have an `agentId`, and are on a lane of their own. What a
request took is in `session.usage_record`, which becomes `usage`; its cost is in premium requests,
not in money, and stays in the line. Older versions have no such lines: their tokens count as 0.

A `session.compaction_complete` becomes a compaction that keeps what came after its start. Copilot
CLI sends the user's messages again beside the summary; they stay above it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sessiontree.agents import base
from sessiontree.agents.sequence import EntriesTally
from sessiontree.agents.shapes import (
    TokenKeys,
    call_block,
    image_block,
    objects,
    result_of,
    text_block,
    thought_block,
)
from sessiontree.core.entry import lane_of_subagent
from sessiontree.core.usage import Tally

_START: Final = "session.start"
_PROMPT: Final = "user.message"
_ANSWER: Final = "assistant.message"
_RESULT: Final = "tool.execution_complete"
_USAGE: Final = "session.usage_record"
_COMPACTING: Final = "session.compaction_start"
_COMPACTED: Final = "session.compaction_complete"
_REWIND: Final = "session.snapshot_rewind"
_SUBAGENT: Final = "subagent.started"
_SYSTEM: Final = "system.message"
_NOTIFICATION: Final = "system.notification"

_TOKENS: Final = TokenKeys("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
_REQUEST: Final = "model."
"""How the types begin that record the requests of a compaction."""

_OTHERS: Final = frozenset(
    {
        *("abort", "assistant.intent", "assistant.reasoning", "assistant.turn_end"),
        *("assistant.turn_start", "assistant.usage", "hook.end", "hook.start"),
        *("permission.completed", "permission.requested", "session.context_changed"),
        *("session.error", "session.handoff", "session.idle", "session.info"),
        *("session.mode_changed", "session.model_change", "session.plan_changed"),
        *("session.resume", "session.shutdown", "session.task_complete"),
        *("session.title_changed", "session.truncation", "session.usage_info"),
        *("session.warning", "session.workspace_file_changed", "skill.invoked"),
        *("subagent.completed", "subagent.configured", "subagent.deselected"),
        *("subagent.failed", "subagent.selected", "tool.execution_partial_result"),
        *("tool.execution_progress", "tool.execution_start", "tool.user_requested"),
        *(_START, _COMPACTING, _COMPACTED, _REWIND, _SUBAGENT),
    }
)
"""The other known types: they add nothing to a context, or only where they have what it needs."""

_SPENT: Final = {_USAGE: "usage", _COMPACTED: "compactionTokensUsed"}
"""The key of the tokens of a request, by type of event."""

_MESSAGES: Final = frozenset({_PROMPT, _ANSWER, _RESULT, _SYSTEM, _NOTIFICATION})
_KNOWN: Final = _MESSAGES | _OTHERS
_LINE_KEYS: Final = (frozenset({"type", "data", "id", "timestamp"}),)
_LINES_TO_RECOGNISE: Final = 20


class CopilotReader(base.Reader):
    line_keys = _LINE_KEYS
    needs_opening = False
    parent_key = "parentId"

    def recognises(self, head: bytes) -> bool:
        """True if one of the first lines is an event of a type that is known."""
        for number, line in enumerate(base.first_values(head)):
            if number == _LINES_TO_RECOGNISE:
                return False
            if _is_own(line):
                return True
        return False

    def facts(self, head: bytes, tail: bytes) -> base.AgentFacts:
        lines = base.first_values(head)
        first = next(lines, base.Values({}))
        prompts = (_prompt_in(line) for line in lines)
        return _facts_in(first, next(filter(None, prompts), None))

    def stands_alone(self, body: Mapping[str, Any], beside: bool) -> bool:
        return body.get("type") in _MESSAGES and isinstance(body.get("id"), str)

    def tally(self) -> Tally:
        needles = (b'"user.message"', b'"assistant.message"', b'"inputTokens"')
        return EntriesTally(needles, _counted)

    def translate(self, source: base.AgentSource, report: base.Report) -> Iterator[base.EntryDraft]:
        numbered = base.numbered(source, _LINE_KEYS, 0, report)
        first = next(numbered, None)
        if first is None:
            return
        found = first.values or base.Values({})
        is_start = found.text("type") == _START
        facts = _facts_in(found)
        lines = base.LineMaker(self.name, report, facts.id or "")
        data = found.inside("data")
        about = {
            "agentVersion": data.text("copilotVersion"),
            "gitBranch": data.inside("context").text("branch"),
        }
        opening = first if is_start else base.SourceLine(base.START, b"")
        yield lines.header(opening, facts, **about)
        events = _CopilotEntries(lines)
        if not is_start:
            yield from events.translated(first)
        for line in numbered:
            yield from events.translated(line)


def _is_own(line: base.Values) -> bool:
    kind = line.text("type") or ""
    if kind not in _KNOWN or "." not in kind or "id" not in line:
        return kind == _START and "data" not in line and "payload" not in line  # it is cut
    return "parentId" in line and "timestamp" in line and bool(line.inside("data").raws())


def _facts_in(first: base.Values, prompt: str | None = None) -> base.AgentFacts:
    if first.text("type") != _START:
        return base.AgentFacts(first_message=prompt)
    data = first.inside("data")
    created = data.text("startTime") or first.text("timestamp")
    id, cwd = data.text("sessionId"), data.inside("context").text("cwd")
    return base.AgentFacts(id, cwd, None, prompt, created)


def _prompt_in(line: base.Values) -> str | None:
    """The text of a prompt that the user typed."""
    if line.text("type") != _PROMPT or "agentId" in line:
        return None
    data = line.inside("data")
    return None if _is_generated(data.text("source")) else (data.text("content") or "").strip()


def _is_generated(source: str | None) -> bool:
    """True if a message is not the user's, by its source."""
    return source is not None and source != "user"


class _CopilotEntries:
    """Makes the entries below the header."""

    def __init__(self, lines: base.LineMaker) -> None:
        self._lines = lines
        self._leaves: dict[str, str] = {}  # by lane, its last entry
        self._above: dict[str, str] = {}  # by the id of an event, the entry that it hangs below
        self._calls: dict[str, str] = {}  # by the id of a call, the entry with it
        self._first_kept: str | None = None  # the first message after the start of a compaction
        self._is_compacting = False

    def translated(self, line: base.SourceLine) -> Iterator[base.EntryDraft]:
        found = line.values
        if found is None:
            yield from self._lines.not_an_object(line)
            return
        kind, own = found.text("type") or "", found.text("id")
        agent = found.text("agentId")
        lane = lane_of_subagent(agent) if agent else None
        at = found.text("timestamp")
        uuid = self._lines.uuid(own, line)
        parent = self._leaves.get(lane, self._lines.root) if lane else self._lines.leaf
        if own:
            self._above[own] = parent
        data = found.inside("data")
        if kind == _REWIND and lane is None:
            parent = self._above.get(data.text("upToEventId") or "", parent)
        entry, made = self._made(kind, uuid, found, data, is_main=lane is None)
        fields = self._lines.with_tools(made)
        if entry == "custom" and kind not in _OTHERS and not kind.startswith(_REQUEST):
            self._lines.note_unknown(kind, line.place)
        if lane is not None:
            self._leaves[lane] = uuid
        more = {"lane": lane, "timestamp": at}
        yield self._lines.entry(entry, line, uuid, fields, parent=parent, **more)
        if kind == _COMPACTED and (used := _request_in(data.value(_SPENT[kind]))) is not None:
            extra = self._lines.uuid(None, line, b" usage")
            yield self._lines.entry("usage", line, extra, used, parent=uuid, **more)
            if lane is not None:
                self._leaves[lane] = extra

    def _made(
        self, kind: str, uuid: str, found: base.Values, data: base.Values, *, is_main: bool
    ) -> tuple[str, dict[str, Any]]:
        """The type and the fields of the entry of an event."""
        if (message := _message_in(kind, data)) is not None:
            for block in message["content"] if kind == _ANSWER else ():
                if block["type"] == "toolCall":
                    self._calls[block["id"]] = uuid
            if is_main and self._is_compacting and self._first_kept is None:
                self._first_kept = uuid
            return "message", {"message": message, **_metadata(kind, data, is_main)}
        if kind == _USAGE and (used := _request_in(data.value(_SPENT[kind]))) is not None:
            return "usage", used
        if is_main and kind == _COMPACTING:
            self._is_compacting, self._first_kept = True, None
        elif is_main and kind == _COMPACTED:
            kept, self._first_kept, self._is_compacting = self._first_kept, None, False
            if data.value("success") is True and (summary := data.text("summaryContent")):
                fields: dict[str, Any] = {"summary": summary, "firstKeptEntryUuid": kept or uuid}
                if isinstance(tokens := data.value("preCompactionTokens"), int):
                    fields["tokensBefore"] = tokens
                return "compaction", fields
        elif kind == _SUBAGENT:
            return "custom", self._subagent(found, data)
        named = f"{self._lines.agent}:{kind or 'line'}"
        return "custom", {"customType": named, "data": found.as_fragment()}

    def _subagent(self, found: base.Values, data: base.Values) -> dict[str, Any]:
        """The fields of the entry that starts the lane of a subagent."""
        caller = self._calls.get(data.text("toolCallId") or "")
        told = {
            "agentId": found.text("agentId"),
            "agentType": data.text("agentName"),
            "description": data.text("agentDescription"),
            "toolUseId": data.text("toolCallId"),
            "calledBy": caller,
        }
        known = {key: value for key, value in told.items() if value is not None}
        named = f"{self._lines.agent}:subagent"
        return {"customType": named, "data": {**known, "event": found.as_fragment()}}


def _metadata(kind: str, data: base.Values, is_main: bool) -> dict[str, Any]:
    is_generated = kind == _NOTIFICATION or (
        kind == _PROMPT and is_main and _is_generated(data.text("source"))
    )
    return {"metadata": {"isMeta": True}} if is_generated else {}


def _message_in(kind: str, data: base.Values) -> dict[str, Any] | None:
    """The message of an event; None for an event without one."""
    if kind == _RESULT:
        return _result(data)
    content = data.text("content")
    if kind == _SYSTEM:
        return None if content is None else {"role": "system", "content": content}
    if kind in (_PROMPT, _NOTIFICATION):
        images = list(_images_in(data.value("attachments")))
        if content is None and not images:
            return None
        text = [text_block(content or "")]
        return {"role": "user", "content": [*text, *images] if images else content}
    return _answer(data, content) if kind == _ANSWER else None


def _images_in(attachments: Any) -> Iterator[dict[str, Any]]:
    for each in objects(attachments):
        if each.get("type") == "blob" and "data" in each:
            yield image_block(each["data"], each.get("mimeType"))


def _answer(data: base.Values, content: str | None) -> dict[str, Any] | None:
    blocks: list[dict[str, Any]] = []
    if thought := data.text("reasoningText"):
        blocks.append(thought_block(thought))
    if content:
        blocks.append(text_block(content))
    blocks += (
        call_block(id, request.get("name"), request.get("arguments"))
        for request in objects(data.value("toolRequests"))
        if isinstance(id := request.get("toolCallId"), str)
    )
    if content is None and not blocks:
        return None
    model = data.text("model")
    return {"role": "assistant", "content": blocks, **({"model": model} if model else {})}


def _result(data: base.Values) -> dict[str, Any] | None:
    """The result of a call: what the model got, or the error."""
    call = data.text("toolCallId")
    if call is None:
        return None
    failed = data.value("success") is not True
    told = data.inside("error").text("message") if failed else None
    text = data.inside("result").text("content") if told is None else told
    return result_of(call, data.text("toolName"), text or "", is_error=failed)


def _request_in(reported: Any) -> dict[str, Any] | None:
    """The fields of a `usage` entry; the tokens read from a cache are part of the input."""
    usage = _TOKENS.within(reported)
    if usage is None:
        return None
    model = reported.get("model")
    named = model if isinstance(model, str) else None
    return {"kind": "request", "provider": None, "model": named, "usage": usage}


def _counted(line: bytes) -> Iterator[Mapping[str, Any]]:
    """The entries of a line, as far as they count."""
    found = base.values(line) or base.Values({})
    kind, data, agent = found.text("type") or "", found.inside("data"), found.text("agentId")
    about = {"timestamp": found.text("timestamp"), "uuid": found.text("id")}
    if kind in _SPENT and (used := _request_in(data.value(_SPENT[kind]))) is not None:
        yield {"type": "usage", **used, **about}
    elif kind in (_PROMPT, _ANSWER) and not agent and (message := _message_in(kind, data)):
        metadata = _metadata(kind, data, is_main=True)
        yield {"type": "message", "message": message, **metadata, **about}
