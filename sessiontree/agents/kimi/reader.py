"""Kimi Code's sessions: `<session id>/agents/<agent>/wire.jsonl`, a log of events.

The events that make the context are read, in their order. A message of the user, or what Kimi Code
says in its name, is `context.append_message`; a prompt has the origin `user`. An answer is in the
parts and the calls of one step, and becomes one message; the other lines of the step become
`custom` entries without its texts. A result names its call. What a request took is in
`usage.record`, which becomes `usage`. The system prompt is in `profile.bind`.

`context.apply_compaction` becomes a compaction that keeps nothing; Kimi Code sends some prompts
again beside the summary, which stay above it. `context.undo` takes back the last prompts, and
`context.clear` everything: what follows is a branch.

The session's id, its working directory and its title are in `state.json`, two folders further up,
and so is the origin of a fork, which is a copy. A subagent has a log of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from sessiontree.agents import base
from sessiontree.agents.sequence import LineEntry, SequenceReader
from sessiontree.agents.shapes import (
    Object,
    TokenKeys,
    a_text,
    an_object,
    call_block,
    image_block,
    moment,
    objects,
    result_of,
    thought_block,
    whole,
)
from sessiontree.core.entry import decode_leniently

_MESSAGE: Final = "context.append_message"
_EVENT: Final = "context.append_loop_event"
_COMPACTED: Final = "context.apply_compaction"
_UNDONE: Final = "context.undo"
_CLEARED: Final = "context.clear"
_PARTS: Final = ("content.part", "tool.call")
_MAIN: Final = "main"
_TOKENS: Final = TokenKeys("inputOther", "output", "inputCacheRead", "inputCacheCreation")
_REPEATED: Final = {
    "agent.message.appended": "message",
    "llm.tools_snapshot": "tools",
    "turn.prompt": "input",
    _EVENT: "event",
}
"""By type of line the key of what other lines say, or no model needs to be told."""


class KimiReader(SequenceReader):
    mark = b'"protocol_version"'
    has_facts_beside = True
    line_keys = (frozenset({"type", "time"}), frozenset({"type", "protocol_version"}))
    needles = (b'"user"', b'"usage.record"', b'"llm.request"')
    others = frozenset(
        {
            *("agent.turn.ended", "agent.turn.started", "file_history.checkpoint", "forked"),
            *("file_history.tracked", "full_compaction.begin", "full_compaction.cancel"),
            *("full_compaction.complete", "llm.request", "permission.record_approval_result"),
            *("permission.set_mode", "plugin.session_start", "prompt.completed", "prompt.aborted"),
            *("runtime.set_binding", "subagent.cancelled", "subagent.completed"),
            *("subagent.failed", "subagent.spawned", "subagent.started", "token_counting.measured"),
            *("token_counting.turn_recorded", "turn.ended", "turn.started", _UNDONE, _CLEARED),
        }
    )

    def is_first(self, first: base.Values) -> bool:
        is_start = first.text("type") == "metadata" and "created_at" in first
        return is_start and "protocol_version" in first

    def record_in(self, head: bytes) -> str | None:
        keys = ("sessionId", "sessionDir", "workDir")
        is_index = all(map(self.first_in(head).__contains__, keys))
        return "Kimi Code's index of its sessions" if is_index else None

    def facts_in(self, first: base.Values, second: base.Values) -> base.AgentFacts:
        agent = second.text("agentId")
        own = agent if agent != _MAIN else None
        return base.AgentFacts(own, created=moment(first.value("created_at")))

    def with_sidecar(self, facts: base.AgentFacts, sidecar: bytes | None) -> base.AgentFacts:
        about = an_object(decode_leniently(sidecar)) if sidecar is not None else {}
        id, cwd = a_text(about.get("id")) or None, a_text(about.get("cwd")) or None
        if facts.id is not None:  # it is a subagent's, which the session with the id started
            return replace(facts, id=f"{id}.{facts.id}" if id else facts.id, cwd=cwd, above=id)
        title = a_text(about.get("title")) if about.get("isCustomTitle") else ""
        above = a_text(about.get("forkedFrom")) or None
        return replace(facts, id=id, cwd=cwd, name=title or None, above=above)

    def time_in(self, line: base.Values) -> str | None:
        return moment(line.value("time"))

    def entries_in(self, line: base.Values) -> Iterator[LineEntry]:
        kind = self.kind_in(line)
        if kind == _MESSAGE:
            message = line.inside("message")
            if role := message.text("role"):
                blocks = [_block(part) for part in objects(message.value("content"))]
                fields: dict[str, Any] = {"message": {"role": role, "content": blocks}}
                if role == "user" and not _is_asked(message.inside("origin")):
                    fields["metadata"] = {"isMeta": True}
                yield LineEntry("message", fields)
        elif kind == "profile.bind" and (text := line.text("systemPrompt")):
            yield LineEntry("message", {"message": {"role": "system", "content": text}})
        elif kind == "usage.record" and (usage := _TOKENS.apart(line.value("usage"))) is not None:
            model = {"provider": None, "model": line.text("model")}
            yield LineEntry("usage", {"kind": "request", **model, "usage": usage})
        elif kind == _COMPACTED:
            summary = line.text("contextSummary") or line.text("summary")
            if summary:
                tokens = {"tokensBefore": whole(line.value("tokensBefore"))}
                yield LineEntry("compaction", {"summary": summary, **tokens})
        elif kind in _REPEATED:
            data = {key: line.fragment(key) for key in line if key != _REPEATED[kind]}
            yield LineEntry("custom", {"customType": f"{self.name}:{kind}", "data": data})

    def counts_in(self, line: base.Values) -> Iterator[LineEntry]:
        yield from self.entries_in(line)
        if self.kind_in(line) == "llm.request":
            answer: dict[str, Any] = {"role": "assistant", "model": line.text("model")}
            yield LineEntry("message", {"message": answer})

    def translated(
        self, numbered: Iterator[base.SourceLine], lines: base.LineMaker
    ) -> Iterator[base.EntryDraft]:
        steps = _KimiSteps(self, lines)
        for line in numbered:
            yield from steps.take(line)
        yield from steps.flush()


class _KimiSteps:
    """Makes one message of the parts of each step, and the branches."""

    def __init__(self, reader: KimiReader, lines: base.LineMaker) -> None:
        self._reader = reader
        self._lines = lines
        self._parts: list[tuple[base.SourceLine, base.Values]] = []  # of the step so far
        self._model: str | None = None
        self._above: list[str] = []  # for each prompt in the context, the entry above it

    def take(self, line: base.SourceLine) -> Iterator[base.EntryDraft]:
        found = line.values or base.Values({})
        kind, event = self._reader.kind_in(found), found.inside("event")
        if kind == _EVENT and event.text("type") in _PARTS:
            self._parts.append((line, event))
            return
        if kind.startswith("context."):
            yield from self.flush()
        self._model = found.text("model") or self._model
        if kind == _EVENT and event.text("type") == "tool.result":
            yield self._message(line, _result(event))
        elif kind in (_UNDONE, _CLEARED):
            yield self._branch(line, found)
        else:
            if kind == _MESSAGE and _is_asked(found.inside("message").inside("origin")):
                self._above.append(self._lines.leaf)
            elif kind == _COMPACTED:
                self._above.clear()
            yield from self._reader.entries_of(line, self._lines)

    def flush(self) -> Iterator[base.EntryDraft]:
        """The message of the step so far, if there is one, and its other lines."""
        if not self._parts:
            return
        parts, self._parts = self._parts, []
        blocks = [_block_of(event) for _, event in parts]
        message: dict[str, Any] = {"role": "assistant", "content": blocks}
        if self._model:
            message["model"] = self._model
        yield self._message(parts[0][0], message, parts[0][1].text("stepUuid"))
        for line, _ in parts[1:]:
            yield from self._reader.entries_of(line, self._lines)

    def _message(
        self, line: base.SourceLine, message: Object, own: str | None = None
    ) -> base.EntryDraft:
        at = self._reader.time_in(line.values or base.Values({}))
        uuid = self._lines.uuid(own, line)
        fields = self._lines.with_tools({"message": message})
        return self._lines.entry("message", line, uuid, fields, timestamp=at)

    def _branch(self, line: base.SourceLine, found: base.Values) -> base.EntryDraft:
        """Go on from above the prompts that were taken back."""
        count = len(self._above) if found.text("type") == _CLEARED else whole(found.value("count"))
        taken = self._above[-count:] if count > 0 else []
        del self._above[len(self._above) - len(taken) :]
        parent = self._lines.root if found.text("type") == _CLEARED else next(iter(taken), None)
        at, uuid = self._reader.time_in(found), self._lines.uuid(None, line)
        return self._lines.entry("branch", line, uuid, {}, parent=parent, timestamp=at)


def _is_asked(origin: base.Values) -> bool:
    """Whether a message is a prompt: of the user, or of the agent that started this one."""
    return origin.text("kind") in (None, "user") or origin.text("name") == "subagent"


def _block_of(event: base.Values) -> Object:
    if event.text("type") == "tool.call":
        return call_block(event.text("toolCallId"), event.text("name"), event.value("args"))
    return _block(an_object(event.value("part")))


def _block(part: Object) -> dict[str, Any]:
    kind = part.get("type")
    if kind == "think":
        return thought_block(a_text(part.get("think")))
    url = a_text(an_object(part.get("imageUrl")).get("url"))
    if kind == "image_url" and url.startswith("data:"):
        media_type, _, data = url.removeprefix("data:").partition(";base64,")
        return image_block(data, media_type)
    return dict(part)


def _result(event: base.Values) -> Object:
    result = an_object(event.value("result"))
    output = result.get("output")
    blocks = [_block(part) for part in objects(output)]
    content = blocks or (output if isinstance(output, str) else base.json_of(output).decode())
    is_error = result.get("isError") is True
    return result_of(event.text("toolCallId"), None, content, is_error=is_error)
