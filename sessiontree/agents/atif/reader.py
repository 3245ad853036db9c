"""Trajectories as entries: ATIF 1, one JSON document each.

A step of the user becomes a user message, one of the agent an assistant message with its thinking,
its text and its calls, and each of its results a message after it. A step of the system becomes a
system message; one that says that it replaces the context, a compaction. Trajectories of subagents
that are in the document become lanes, which name the calls whose results name them.

A result that names no call is matched in order if as many calls have no result; else it is the
result of the last of these calls, as for an agent that types several commands and sees one screen.
Without such a call it is a message of the program.

What a message does not say of its step, result or call is in it as it is, under `atifStep`,
`atifResult` or `atifCall`: token ids, probabilities and `extra`. The keys of the root are in the
metadata, `trajectory`. The metrics of copied context do not count: they are another trajectory's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sessiontree.agents import base
from sessiontree.agents.document import elements_of, lines_of, made_whole
from sessiontree.core.entry import SUBAGENT, decode_leniently, lane_of_subagent
from sessiontree.core.message import begins_turn, block_text
from sessiontree.core.usage import Sums, Tally

TRAJECTORY: Final = "trajectory"
"""The key of the metadata with the keys of the root; of a subagent's, in the start of its lane."""

STEP: Final = "atifStep"
RESULT: Final = "atifResult"
CALL: Final = "atifCall"
UNNAMED: Final = "atifNamesNoCall"
"""The key of a result that names no call in its trajectory; without content it is not in it."""

_SCHEMA: Final = re.compile(r"ATIF-v1\.\d+")
_MARK: Final = b'"ATIF-v1.'
_TIME: Final = re.compile(rb'"timestamp"\s*:\s*"([^"\\]*)"')
_STEPS: Final = "steps"
_BELOW: Final = "subagent_trajectories"
_OF_STEP: Final = frozenset(
    {
        *("step_id", "timestamp", "source", "message", "model_name", "reasoning_content"),
        *("tool_calls", "observation"),
    }
)
_OF_RESULT: Final = frozenset({"source_call_id", "content"})
_OF_CALL: Final = frozenset({"tool_call_id", "function_name", "arguments"})


class AtifReader(base.Reader):
    is_of_lines = False
    held_keys = _OF_STEP | {"extra", "metrics", "reasoning_effort"}

    def recognises(self, head: bytes) -> bool:
        """Whether the file is an object that names the schema of ATIF, with an agent or steps."""
        return _MARK in head and _root(head) is not None

    def facts(self, head: bytes, tail: bytes) -> base.AgentFacts:
        root = _root(head) or base.Values({})
        created: str | None = None
        prompt: str | None = None
        for _, text in elements_of(head, _STEPS):
            step = _object(text)
            created = created or _text(step.get("timestamp"))
            if step.get("source") == "user" and not prompt:
                prompt = base.prompt_text(_said(step, "user"))
            if created and prompt:
                break
        times = _TIME.findall(tail)
        modified = max(times).decode("utf-8", "replace") if times else None  # subagents end first
        return base.AgentFacts(_id(root), None, None, prompt, created, modified)

    def beyond_header(self, left: dict[str, bytes]) -> Mapping[str, bytes]:
        return {}

    def whole_document(self, source: base.AgentSource) -> tuple[bytes, str] | None:
        return made_whole(_document(source), _STEPS)

    def tally(self) -> Tally:
        return AtifTally()

    def translate(self, source: base.AgentSource, report: base.Report) -> Iterator[base.EntryDraft]:
        document = _document(source)
        root = base.values(document) or base.leading_values(document) or base.Values({})
        lines = base.LineMaker(self.name, report, _id(root) or "")
        first = _object(next(elements_of(document, _STEPS), (0, b""))[1])
        facts = base.AgentFacts(created=_text(first.get("timestamp")))
        whole = base.SourceLine(base.START, document)
        yield lines.header(whole, facts, **{TRAJECTORY: _about(root)})
        run = _TrajectoryEntries(lines, root)
        for line in lines_of(document, _STEPS, report):
            yield from run.step(line)
        yield from run.below(document, 0)


def _document(source: base.AgentSource) -> bytes:
    return b"\n".join(line for _, line in source.lines())


def _root(head: bytes) -> base.Values | None:
    """The keys of a trajectory, as far as its start has them; None for any other document."""
    root = base.values(head) or base.leading_values(head)
    if root is None or _SCHEMA.fullmatch(root.text("schema_version") or "") is None:
        return None
    return root if "agent" in root or _STEPS in root else None


def _id(root: base.Values) -> str | None:
    return root.text("session_id") or root.text("trajectory_id")


def _about(root: base.Values) -> dict[str, Any]:
    return {key: root.fragment(key) for key in root if key not in (_STEPS, _BELOW)}


def _object(text: bytes) -> dict[str, Any]:
    found = decode_leniently(text)
    return found if isinstance(found, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _rest(keys: Mapping[str, Any], known: frozenset[str], name: str) -> dict[str, Any]:
    rest = {key: value for key, value in keys.items() if key not in known and value is not None}
    return {name: rest} if rest else {}


def _blocks(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [_block(part) for part in _objects(content)]


def _block(part: dict[str, Any]) -> dict[str, Any]:
    source = part.get("source")
    path = source.get("path") if isinstance(source, dict) else None
    if isinstance(source, dict) and isinstance(path, str) and "://" in path:
        return {**part, "source": {**source, "type": "url", "url": path}}
    return part


def _said(step: Mapping[str, Any], role: str) -> dict[str, Any]:
    said = step.get("message")
    content = said if isinstance(said, str) and role != "assistant" else _blocks(said)
    return {"role": role, "content": content, **_rest(step, _OF_STEP, STEP)}


def _answer(step: Mapping[str, Any], model: str | None) -> dict[str, Any]:
    thought = _text(step.get("reasoning_content"))
    thinking = [{"type": "thinking", "thinking": thought}] if thought else []
    calls = [
        {
            "type": "toolCall",
            "id": str(call.get("tool_call_id")),
            "name": str(call.get("function_name")),
            "arguments": call.get("arguments"),
            **_rest(call, _OF_CALL, CALL),
        }
        for call in _objects(step.get("tool_calls"))
    ]
    message = _said(step, "assistant")
    message["content"] = [*thinking, *message["content"], *calls]
    if named := _text(step.get("model_name")) or model:
        message["model"] = named
    if (usage := _usage(step)) is not None:
        message["usage"] = usage
    return message


def _usage(step: Mapping[str, Any]) -> dict[str, Any] | None:
    """The usage of a step; in its metrics, tokens of a cache are part of the prompt."""
    metrics = step.get("metrics")
    if not isinstance(metrics, dict) or step.get("is_copied_context"):
        return None
    more = metrics.get("extra")
    written = _count(more.get("cache_write_tokens")) if isinstance(more, dict) else 0
    read = _count(metrics.get("cached_tokens"))
    usage = {
        "input": max(0, _count(metrics.get("prompt_tokens")) - read - written),
        "output": _count(metrics.get("completion_tokens")),
        "cacheRead": read,
        "cacheWrite": written,
    }
    cost = metrics.get("cost_usd")
    return usage if cost is None else {**usage, "cost": {"total": cost}}


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _is_compaction(step: Mapping[str, Any]) -> bool:
    """Whether a step of the system replaces the context above it, as its `extra` says."""
    extra = step.get("extra")
    change = extra.get("context_management") if isinstance(extra, dict) else None
    return isinstance(change, dict) and change.get("type") == "compaction"


class _TrajectoryEntries:
    """Makes the entries of one trajectory, on the main lane or on a subagent's."""

    def __init__(
        self,
        lines: base.LineMaker,
        root: base.Values,
        lane: str | None = None,
        lanes: dict[str, int] | None = None,
    ) -> None:
        self._lanes = {} if lanes is None else lanes  # of the whole file, by name: the next number
        self._lines = lines
        self._model = root.inside("agent").text("model_name")
        self._lane = lane
        self._leaf = lines.root
        self._callers: dict[str, tuple[str, str | None]] = {}  # by trajectory: the entry, the call

    def step(self, line: base.SourceLine) -> Iterator[base.EntryDraft]:
        """The entries of a step."""
        if line.values is None:
            for made in self._lines.not_an_object(line, parent=self._leaf, lane=self._lane):
                self._leaf = made.fields["uuid"]
                yield made
            return
        step = _object(line.text)
        time, kind = _text(step.get("timestamp")), step.get("source")
        entries: list[tuple[str, dict[str, Any]]]
        if kind == "agent":
            entries = [("message", {"message": _answer(step, self._model)})]
        elif kind == "system" and _is_compaction(step):
            text = "\n".join(map(block_text, _blocks(step.get("message"))))
            entries = [("compaction", {"summary": text, **_rest(step, _OF_STEP, "details")})]
        else:
            role = "system" if kind == "system" else "user"
            entries = [("message", {"message": _said(step, role)})]
        entries += [("message", fields) for fields in _results(step)]
        first: str | None = None
        for number, (type_, fields) in enumerate(entries):
            made = self._entry(type_, line, fields, b" %d" % number if number else b"", time)
            first = first or made.fields["uuid"]
            yield made
        self._note_callers(step, first or "")

    def _entry(
        self,
        kind: str,
        line: base.SourceLine,
        fields: dict[str, Any],
        name: bytes,
        time: str | None,
    ) -> base.EntryDraft:
        uuid = self._lines.uuid(None, line, name)
        if kind == "compaction":
            fields = {**fields, "firstKeptEntryUuid": uuid}
        parent, self._leaf = self._leaf, uuid
        return self._lines.entry(
            kind, line, uuid, fields, parent=parent, lane=self._lane, timestamp=time
        )

    def _note_callers(self, step: Mapping[str, Any], uuid: str) -> None:
        for result in _results_of(step):
            for named in _objects(result.get("subagent_trajectory_ref")):
                if id := _text(named.get("trajectory_id")) or _text(named.get("session_id")):
                    self._callers.setdefault(id, (uuid, _text(result.get("source_call_id"))))

    def _free_lane(self, id: str) -> str:
        """A lane that no trajectory has yet; the id may be that of a lane."""
        lane = wanted = lane_of_subagent(id.removeprefix("agent-"))
        while lane in self._lanes:
            self._lanes[wanted] += 1
            lane = f"{wanted}-{self._lanes[wanted]}"
        self._lanes[lane] = 1
        return lane

    def below(self, document: bytes, start: int) -> Iterator[base.EntryDraft]:
        """The entries of the subagents in a trajectory that begins at `start` in the file."""
        for offset, text in elements_of(document, _BELOW):
            place = base.LinePlace(0, 1, start + offset)
            root = base.values(text)
            if root is None:
                yield from self._lines.not_an_object(base.SourceLine(place, text))
                continue
            id = root.text("trajectory_id") or _id(root) or str(start + offset)
            caller, call = self._callers.get(id, (None, None))
            line = base.SourceLine(place, text)
            run = _TrajectoryEntries(self._lines, root, self._free_lane(id), self._lanes)
            data = {"calledBy": caller, "toolUseId": call, TRAJECTORY: _about(root)}
            named = {"agentType": root.inside("agent").text("name"), **data}
            kept = {key: value for key, value in named.items() if value is not None}
            fields = {"customType": f"{self._lines.agent}{SUBAGENT}", "data": kept}
            yield run._entry("custom", line, fields, b"", None)
            for inner, step in elements_of(text, _STEPS):
                at = base.LinePlace(0, 1, start + offset + inner)
                yield from run.step(base.SourceLine(at, step))
            yield from run.below(text, start + offset)


def _results_of(step: Mapping[str, Any]) -> list[dict[str, Any]]:
    observation = step.get("observation")
    return _objects(observation.get("results")) if isinstance(observation, dict) else []


def _results(step: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The fields of the entries for the results of a step."""
    names = {
        str(call.get("tool_call_id")): str(call.get("function_name"))
        for call in _objects(step.get("tool_calls"))
    }
    results = _results_of(step)
    named = {_text(result.get("source_call_id")) for result in results}
    waiting = [id for id in names if id not in named]
    unnamed = sum(_text(result.get("source_call_id")) is None for result in results)
    if 0 < unnamed < len(waiting):  # one screen for several commands
        for id in waiting[:-unnamed]:
            yield _result({}, id, names, is_named=False)
        waiting = waiting[-unnamed:]
    for result in results:
        if (own := _text(result.get("source_call_id"))) is not None:
            yield _result(result, own, names)
        elif waiting:
            yield _result(result, waiting.pop(0), names, is_named=False)
        else:
            said = {"role": "user", "content": _blocks(result.get("content"))}
            message = {**said, **_rest(result, _OF_RESULT, RESULT), UNNAMED: True}
            yield {"message": message, "metadata": {"isMeta": True}}


def _result(
    result: Mapping[str, Any], id: str, names: Mapping[str, str], *, is_named: bool = True
) -> dict[str, Any]:
    extra = result.get("extra")
    failed = isinstance(extra, dict) and extra.get("isError") is True
    message = {
        "role": "toolResult",
        "toolCallId": id,
        "toolName": names.get(id, ""),
        "content": _blocks(result.get("content")),
        **({"isError": True} if failed else {}),
        **_rest(result, _OF_RESULT, RESULT),
        **({} if is_named else {UNNAMED: True}),
    }
    return {"message": message}


class AtifTally:
    """Counts the steps of a trajectory, and of those below it. See `Tally`."""

    needles: tuple[bytes, ...] = (_MARK,)

    def __init__(self) -> None:
        self._sums = Sums()
        self.counts = self._sums.counts

    def take(self, line: bytes, *, beside: bool = False) -> None:
        self._take(self._sums.decoded(line), beside=beside)

    def _take(self, root: Mapping[str, Any], *, beside: bool) -> None:
        agent = root.get("agent")
        model = _text(agent.get("model_name")) if isinstance(agent, dict) else None
        for step in _objects(root.get(_STEPS)):
            time = step.get("timestamp")
            if step.get("source") == "agent":
                self._answer(step, model, beside=beside)
            elif step.get("source") != "system" and not beside:
                self._sums.ask(time, int(begins_turn({"message": _said(step, "user")})))
        for below in _objects(root.get(_BELOW)):
            self._take(below, beside=True)

    def _answer(self, step: Mapping[str, Any], model: str | None, *, beside: bool) -> None:
        named = _text(step.get("model_name")) or model
        if (usage := _usage(step)) is not None:
            self._sums.spend(usage, step.get("timestamp"), model=named, beside=beside)
        if not beside:
            self._sums.use(named)
