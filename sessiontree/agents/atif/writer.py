"""A session as a trajectory: the Agent Trajectory Interchange Format, version 1.7.

A trajectory is one line of work: the path to the current leaf, as it happened. Compacted messages
are in it, and the summary is a step of the system that says so; edits apply. A lane is a subagent's
trajectory inside it, and the steps that it shares with the main one are marked as copied. Images
are files in `NAME.images/`, because the format refers to them by path.

A step is the user's, the agent's or the system's. The agent's holds one response of the model (all
parts with one `message.id`), its tool calls and their results. A step may grow until the next one
follows; only results of its calls may come later.

What the reader of trajectories kept of a step as it was is written as it was.

The steps are made twice, for the totals at the beginning and to be written. None is kept.

The format: https://harborframework.com/docs/trajectory-format
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sessiontree.agents import writing
from sessiontree.agents.atif.reader import CALL, RESULT, STEP, TRAJECTORY, UNNAMED
from sessiontree.context.providers import reading
from sessiontree.context.providers.reading import MessageReader
from sessiontree.context.providers.values import clean_text, clean_value
from sessiontree.context.settings import header_settings
from sessiontree.core.display import one_line
from sessiontree.core.entry import HEADER, Entry, moment_of
from sessiontree.core.header import id_in_name
from sessiontree.core.message import (
    Message,
    blocks_of,
    json_text,
    kind_of,
    role_of,
    system_text,
    text_of,
)
from sessiontree.core.usage import usage_of

SCHEMA: Final = "ATIF-v1.7"

_TOTAL: Final = "final_metrics"
_NOTHING: Final[Mapping[str, Any]] = {}

Step = dict[str, Any]

SaveImage = Callable[[reading.Media], str | None]
"""Keeps an image for a file beside the document; gives its path, or None if it cannot."""

_SUMMARIES: Final = frozenset({"compactionSummary", "branchSummary"})
_SYSTEM: Final = frozenset({"custom", "hookMessage"})
_SIGNATURES: Final = ("signature", "thinkingSignature", "encrypted_content")
_COMPACTION: Final = {"context_management": {"type": "compaction", "boundary": "replace"}}
_SUFFIXES: Final = {
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/gif": "gif",
    "image/webp": "webp",
}
_ALWAYS_LOST: Final = {
    "label": "a label is left out",
    "custom": "a custom entry is left out",
    "usage": "usage without a message is left out",
    "stack_push": "a stack_push is left out",
    "session_info": "a change of the name or the metadata is left out",
}
_CHANGED: Final = {
    "merge": "a merge: its messages are in its place",
    "context_edit": "an edit: the step is as edited",
    "stack_summary": "a stack_summary is a step of the system",
    "handle": "a handle is replaced by its current content",
}
_SETTINGS: Final = frozenset({HEADER, "branch", "model_change", "thinking_level_change"})
_TOTALS: Final = {
    "total_prompt_tokens": "prompt_tokens",
    "total_completion_tokens": "completion_tokens",
    "total_cached_tokens": "cached_tokens",
    "total_cost_usd": "cost_usd",
}
"""The sums over the steps that are not copied, each absent if no step has a value."""


class AtifWriter:
    """Writes the trajectory of one session."""

    def __init__(self, source: writing.SessionSource) -> None:
        self._source = source
        self._losses = source.losses
        self._images: dict[str, bytes] = {}
        self._folder = ""
        self._model = writing.text_in(source.model_id())
        facts = writing.facts_of_lanes(source)
        self._calls = {lane: data.get("toolUseId") for lane, data in facts.items()}
        self._abouts = {lane: _about(data) for lane, data in facts.items()}
        none = bytearray(len(source.tree))
        about = _about(source.metadata)
        self._main = _WorkLine(source.id, source.path(source.leaf), none, {}, about)
        self._survey(self._main)
        if not self._main.touched:
            raise writing.no_message(source, "trajectory")
        own = bytearray(len(source.tree))
        for row in self._main.rows:
            own[row] = 1
        self._note_losses(own)
        self._lanes = self._lines_of_lanes(own)
        totals = [line.totals for line in (self._main, *self._lanes)]
        if self._lanes and (cost := sum(each.get("total_cost_usd", 0) for each in totals)):
            totals[0]["total_cost_usd"] = cost

    @property
    def default_name(self) -> str:
        name = "".join(c if c.isalnum() or c in "-_." else "-" for c in self._source.id)
        return f"{id_in_name(name) or 'session'}.trajectory.json"

    def beside(self, name: str) -> list[writing.SideFile]:
        self._folder = f"{name}.images"
        images = self._images.items()
        return [
            writing.SideFile.of(f"{self._folder}/{image}", content) for image, content in images
        ]

    def blocks(self) -> Iterator[bytes]:
        """The document, as one line."""
        yield from self._document(self._main)
        for number, line in enumerate(self._lanes):
            yield b"," if number else b',"subagent_trajectories":['
            yield from self._document(line)
            yield b"}"
        yield b"]}\n" if self._lanes else b"}\n"

    def _document(self, line: _WorkLine) -> Iterator[bytes]:
        yield writing.json_of(self._start(line))[:-1] + b',"steps":['
        steps = _Steps(writing.Losses(), self._save_image)  # the losses are counted already
        for _ in self._fill(line, steps):
            for step in steps.completed(line.touched):
                yield b"," if step["step_id"] > 1 else b""
                for call, lane in line.lanes.get(step["step_id"], ()):
                    _refer(step, call, lane)
                yield writing.json_of(self._with_paths(step))
        before = line.about.get(_TOTAL)
        own = before.get("extra") if isinstance(before, dict) else None
        end = {_TOTAL: {**line.totals, **({"extra": own} if own else {})}, **line.more}
        yield b"]," + writing.json_of(end)[1:-1]

    def _with_paths(self, value: Any) -> Any:
        if not self._images:
            return value
        if isinstance(value, list):
            return [self._with_paths(each) for each in value]
        if not isinstance(value, dict):
            return value
        if str(value.get("path")) in self._images and "media_type" in value:
            return {**value, "path": f"{self._folder}/{value['path']}"}
        return {key: self._with_paths(each) for key, each in value.items()}

    def _fill(self, line: _WorkLine, steps: _Steps) -> Iterator[None]:
        """Give the messages of a path to steps, one at each iteration."""
        source = self._source
        settings = header_settings(source.header.body)
        if isinstance(system := settings.get("system"), str) and system:
            first = {"role": "system", "content": system}
            top = source.stored(line.rows[0])
            steps.take(first, top, None, copied=1 in line.shared)
            yield
        efforts = self._efforts(line.rows, settings.get("thinkingLevel"))
        effort: str | None = None
        for message, entry in source.messages(line.rows):
            row = source.row(entry)
            effort = efforts.get(row, effort)
            steps.take(message, entry, effort, copied=bool(line.shared[row]))
            yield

    def _efforts(self, rows: array[int], start: Any) -> dict[int, str]:
        """The thinking level at each row of a path."""
        tree = self._source.tree
        level = writing.text_in(start)
        found: dict[int, str] = {}
        for row in rows:
            if tree.type_of(row) == "thinking_level_change":
                level = writing.text_in(self._source.stored(row).get("thinkingLevel"))
            found[row] = level
        return found

    def _survey(self, line: _WorkLine) -> None:
        steps = _Steps(self._losses, self._save_image)
        for _ in self._fill(line, steps):
            for step in steps.preceding():
                self._count(step, line)
        for step in steps.steps:
            self._count(step, line)
        line.touched = steps.touched
        line.totals = {"total_steps": len(steps.touched), **line.totals}

    def _count(self, step: Step, line: _WorkLine) -> None:
        line.model = step.get("model_name", line.model)
        for made in step.get("tool_calls", ()):
            if made["tool_call_id"] in self._calls.values():
                line.callers.setdefault(made["tool_call_id"], step["step_id"])
        if step.get("is_copied_context"):
            return
        line.is_copied = False
        for total, key in _TOTALS.items() if "metrics" in step else ():
            if (value := step["metrics"].get(key)) is not None:
                line.totals[total] = line.totals.get(total, 0) + value

    def _start(self, line: _WorkLine) -> dict[str, Any]:
        metadata = self._source.metadata
        agent: dict[str, Any] = {
            "name": writing.text_in(metadata.get("agent")) or writing.UNKNOWN,
            "version": writing.text_in(metadata.get("agentVersion")) or writing.UNKNOWN,
        }
        if model := self._model or line.model:
            agent["model_name"] = model
        tools = metadata.get("tools")
        if isinstance(tools, list) and tools and all(isinstance(tool, dict) for tool in tools):
            agent["tool_definitions"] = tools
        return {
            "schema_version": SCHEMA,
            "session_id": self._source.id or writing.UNKNOWN,
            "trajectory_id": line.id or writing.UNKNOWN,
            "agent": agent,
            **{key: value for key, value in line.about.items() if key != _TOTAL},
        }

    def _lines_of_lanes(self, own: bytearray) -> list[_WorkLine]:
        source = self._source
        found: list[_WorkLine] = []
        for lane, tips in writing.durable_lanes(source):
            about = self._abouts.get(lane, {})
            more = {} if about else {"extra": {"lane": lane}}
            id = str(about.get("trajectory_id", lane))
            line = _WorkLine(id, source.path(tips[-1]), own, more, about)
            source.room.take(len(line.rows))
            self._survey(line)
            if line.is_copied:
                continue
            uuid = source.tree.uuids[tips[-1]]
            self._losses.at(uuid, f"the lane {lane!r} is the trajectory of a subagent")
            found.append(line)
            call = self._calls.get(lane)
            if isinstance(call, str) and call in self._main.callers:
                step = self._main.callers[call]
                self._main.lanes.setdefault(step, []).append((call, id))
        return found

    def _save_image(self, media: reading.Media) -> str | None:
        suffix = _SUFFIXES.get(media.media_type)
        if suffix is None:
            return None
        if not media.data:
            return media.url
        try:
            content = base64.b64decode(media.data, validate=True)
        except binascii.Error:
            return None
        name = f"{hashlib.sha256(content).hexdigest()}.{suffix}"
        self._images[name] = content
        return name

    def _note_losses(self, own: bytearray) -> None:
        source, tree = self._source, self._source.tree
        content = tree.content_rows()
        for row in range(1, len(tree)):
            kind = tree.type_of(row)
            self._losses.uuid = tree.uuids[row]
            on_path = own[row]
            if kind in _ALWAYS_LOST:
                self._losses.add(_ALWAYS_LOST[kind])
            elif not on_path and content[row] and tree.lane_of(row) == source.lane:
                self._losses.add("a message on another branch is left out")
            elif on_path and kind in _CHANGED:
                self._losses.add(_CHANGED[kind])
            elif on_path and not content[row] and kind not in _SETTINGS:
                self._losses.add(f"a {one_line(kind, 40)} is left out")


@dataclass
class _WorkLine:
    id: str
    rows: array[int]
    shared: bytearray  # for each row of the session 1 if the main trajectory has it
    more: Mapping[str, Any]  # further keys of the trajectory
    about: Mapping[str, Any]  # its keys, if it was read from a trajectory
    touched: array[int] = field(default_factory=lambda: array("I"))
    callers: dict[str, int] = field(default_factory=dict)  # by call: the first step that made it
    totals: dict[str, Any] = field(default_factory=dict)
    model: str | None = None
    is_copied: bool = True  # whether all of its steps are copied
    lanes: dict[int, list[tuple[str, str]]] = field(default_factory=dict)  # by step: call, lane


class _Steps:
    def __init__(self, losses: writing.Losses, save_image: SaveImage) -> None:
        self.steps: deque[Step] = deque()
        self.touched = array("I")
        self._taken = 0
        self._losses = losses
        self._save_image = save_image
        self._reading = MessageReader(losses, None)
        self._open: dict[str, Step] = {}
        self._response_id = ""

    def take(self, message: Message, entry: Entry, effort: str | None, *, copied: bool) -> None:
        """Add the next message; `copied` if the main trajectory has it too."""
        self._losses.uuid = entry.uuid
        self._taken += 1
        before = len(self.touched)
        role = role_of(message)
        if role == "system":
            self._add("system", clean_text(system_text(message)), entry)
        elif role in _SUMMARIES:
            step = self._add("system", clean_text(text_of(message)), entry)
            step["extra"].update(_COMPACTION if role == "compactionSummary" else {})
        elif role in _SYSTEM:
            pieces = [part for _, part in self._reading.parts_of(message)]
            self._add("system", self._content(pieces), entry)
        else:
            self._turn(message, entry, effort)
        if len(self.touched) > before and isinstance(own := message.get(STEP), dict):
            step = self.steps[-1]
            step.update({**own, "extra": {**(own.get("extra") or {}), **step["extra"]}})
        for step in self.steps if copied else ():
            if step["step_id"] > before:
                step["is_copied_context"] = True

    def preceding(self) -> Iterator[Step]:
        """Remove all steps but the last; results of their calls may still be added."""
        while len(self.steps) > 1:
            yield self.steps.popleft()

    def completed(self, touched: Sequence[int]) -> Iterator[Step]:
        """Remove the steps that are complete, given the `touched` of an earlier run."""
        while self.steps and touched[self.steps[0]["step_id"] - 1] <= self._taken:
            yield self.steps.popleft()

    def _turn(self, message: Message, entry: Entry, effort: str | None) -> None:
        user: list[reading.Part] = []
        response: list[reading.Part] = []
        for side, part in self._reading.parts_of(message):
            if isinstance(part, reading.Result):
                self._add_result(part, entry, message)
            else:
                (response if side == "assistant" else user).append(part)
        if response or role_of(message) == "assistant":
            self._respond(response, message, entry, effort)
        if user and UNNAMED in message and self.steps:
            self._observe(self.steps[-1], user, message, entry)
        elif user:
            self._add("user", self._content(user), entry)

    def _add(self, source: str, message: Any, entry: Entry) -> Step:
        self.touched.append(self._taken)
        step: Step = {"step_id": len(self.touched)}
        if moment_of(entry.timestamp) is not None:
            step["timestamp"] = entry.timestamp
        step.update(source=source, message=message, extra={"entry": entry.uuid})
        self.steps.append(step)
        self._response_id = ""
        return step

    def _respond(
        self, pieces: list[reading.Part], message: Message, entry: Entry, effort: str | None
    ) -> None:
        """Add a model's response: a step, or more of the last one."""
        shown = (part for part in pieces if isinstance(part, reading.TextPart | reading.Media))
        content = self._content(shown)
        id = writing.text_in(message.get("id")) if "usage" in message else ""
        if id and id == self._response_id:
            step = self.steps[-1]
            self.touched[step["step_id"] - 1] = self._taken
            step["message"] = _joined(step["message"], content)
        else:
            step = self._add("agent", content, entry)
            step["llm_call_count"] = 1
            self._response_id = id
        if model := writing.text_in(message.get("model")):
            step["model_name"] = clean_text(model)
        if effort and effort != "off":
            step["reasoning_effort"] = effort
        found = (part.text or part.told for part in pieces if isinstance(part, reading.Thinking))
        thoughts = [text for text in found if text]
        if any(block.get(key) for block in (message, *blocks_of(message)) for key in _SIGNATURES):
            self._losses.add("the signature of a thought is left out")
        if thoughts:
            earlier = [step["reasoning_content"]] if "reasoning_content" in step else []
            step["reasoning_content"] = "\n\n".join([*earlier, *map(clean_text, thoughts)])
        if message.get("partial"):
            step["extra"]["partial"] = True
        if metrics := _metrics(message.get("usage")):
            step["metrics"] = metrics
        for part in pieces:
            if isinstance(part, reading.SentCall):
                self._add_call(step, part.id, part.name, writing.arguments_of(part))
                if part.stored is not None and isinstance(own := part.stored.get(CALL), dict):
                    step["tool_calls"][-1].update(own)
            elif isinstance(part, reading.ProviderBlock):
                self._hosted(step, part, entry)

    def _add_call(self, step: Step, id: str, name: str, arguments: Mapping[str, Any]) -> None:
        named = {"tool_call_id": clean_text(id), "function_name": name or writing.UNKNOWN}
        step.setdefault("tool_calls", []).append({**named, "arguments": dict(arguments)})
        self._open[id] = step

    def _hosted(self, step: Step, part: reading.ProviderBlock, entry: Entry) -> None:
        block = part.block
        if kind_of(block) == "server_tool_use":
            given = block.get("input")
            arguments = clean_value(given) if isinstance(given, dict) else {}
            self._add_call(step, part.id, str(block.get("name") or ""), arguments)
        elif "tool_use_id" not in block:
            self._losses.uuid = entry.uuid
            self._losses.add(f"a block of the kind {kind_of(block)!r} is left out")
        else:
            text = reading.TextPart(clean_text(json_text(block.get("content"))))
            self._add_result(reading.Result(part.id, (text,)), entry)

    def _add_result(
        self, result: reading.Result, entry: Entry, message: Mapping[str, Any] = _NOTHING
    ) -> None:
        step = self._open.pop(result.id, None)
        is_unnamed = UNNAMED in message
        if is_unnamed and not result.parts:
            return
        if step is None:
            self._losses.add("a result whose call is not on the path is a step of the system")
            step = self._add("system", "A tool's result, without its call.", entry)
            is_unnamed = True
        found = self._observe(step, result.parts, message, entry)
        if result.failed:
            found["extra"]["isError"] = True
        if not is_unnamed:
            found["source_call_id"] = clean_text(result.id)

    def _observe(
        self, step: Step, parts: Iterable[reading.Part], message: Mapping[str, Any], entry: Entry
    ) -> dict[str, Any]:
        """Add a result to the observation of a step, and return it."""
        own = kept if isinstance(kept := message.get(RESULT), dict) else {}
        found: dict[str, Any] = {"content": self._content(parts), **own}
        found["extra"] = {**(own.get("extra") or {}), "entry": entry.uuid}
        step.setdefault("observation", {"results": []})["results"].append(found)
        self.touched[step["step_id"] - 1] = self._taken
        return found

    def _content(self, pieces: Iterable[reading.Part]) -> Any:
        """Text; parts if there are images that can be shown."""
        made: list[dict[str, Any]] = []
        for part in pieces:
            if isinstance(part, reading.TextPart):
                made.append({"type": "text", "text": part.text})
            elif isinstance(part, reading.Media):
                made.append(self._media(part))
        if any(part["type"] != "text" for part in made):
            return made
        return "\n".join(part["text"] for part in made)

    def _media(self, media: reading.Media) -> dict[str, Any]:
        source = (media.stored or {}).get("source")
        if isinstance(source, dict) and isinstance(source.get("path"), str):  # of a trajectory
            if "url" not in source:
                self._losses.add("an image has the path that it had in the trajectory before")
            kept = {key: source[key] for key in source if key not in ("type", "url")}
            return {"type": "image", "source": kept}
        path = self._save_image(media) if media.kind == "image" else None
        if path is None:
            return {"type": "text", "text": self._losses.replaced(media)}
        return {"type": "image", "source": {"media_type": media.media_type, "path": path}}


def _about(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a trajectory that was read, but its version."""
    found = facts.get(TRAJECTORY)
    keys = found.items() if isinstance(found, dict) else ()
    return {k: v for k, v in keys if v is not None and k != "schema_version"}


def _joined(one: Any, other: Any) -> Any:
    if isinstance(one, str) and isinstance(other, str):
        return "\n".join(text for text in (one, other) if text)
    return [*writing.block_list(one), *writing.block_list(other)]


def _metrics(reported: Any) -> dict[str, Any] | None:
    """The usage of a response; tokens read from and written to a cache are prompt tokens."""
    if not isinstance(reported, Mapping):
        return None
    used = usage_of(reported)
    prompt = used.input + used.cache_read + used.cache_write
    if not prompt and not used.output:
        return None
    metrics: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": used.output,
        "cached_tokens": used.cache_read,
    }
    if used.cost:
        metrics["cost_usd"] = used.cost
    if used.cache_write:
        metrics["extra"] = {"cache_write_tokens": used.cache_write}
    return metrics


def _refer(step: Step, call: str, lane: str) -> None:
    results = step.setdefault("observation", {"results": []})["results"]
    mine = next((r for r in results if r.get("source_call_id") == call), None)
    if mine is None:
        results.append(mine := {"source_call_id": call})
    references = mine.setdefault("subagent_trajectory_ref", [])
    if all(known.get("trajectory_id") != lane for known in references):
        references.append({"trajectory_id": lane})
