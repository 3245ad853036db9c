"""A session as a trajectory: the Agent Trajectory Interchange Format, version 1.7.

A trajectory is one line of work from its start to its end, for training and for
showing: so it is the path to where the session stands, as it happened. What was
compacted is in it, and so is the summary, as a step of the system that says so; edits
hold. A lane is a trajectory of a subagent inside it, in which the steps that it shares
with the main one are marked as copied. Images lie beside the file, in `NAME.images/`,
for the format knows them by their paths.

The steps are made twice: once to see what they amount to, which stands before them in
the file in part, and again as they are written. None is kept.

The format: https://harborframework.com/docs/trajectory-format

What was said on a path as the steps of a trajectory.

A step is the user's, the agent's or the system's. The agent's holds one answer of the
model, with its tool calls, and what they gave; the pieces of an answer that was stored
piece by piece, all of one `message.id`, are one step.

A step may grow as long as another does not follow it, but for what its calls gave, which
may come at any time: which message added to it last is told by `touched`, so that who
makes the steps again knows when one is whole.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sessiontree.context.providers.parts import (
    Call,
    Hosted,
    Media,
    Part,
    Result,
    Text,
    Thinking,
    stand_in,
)
from sessiontree.context.providers.reading import Reading
from sessiontree.context.providers.values import clean_text, clean_value, object_in
from sessiontree.context.settings import header_settings
from sessiontree.core.display import one_line
from sessiontree.core.entry import HEADER, Entry
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
from sessiontree.errors import NothingToDoError
from sessiontree.formats.writing import UNKNOWN, Losses, json_of
from sessiontree.operations.convert import SCRATCH, Beside, Source, moment_of

Step = dict[str, Any]

Illustrate = Callable[[Media], str | None]
"""Keeps an image beside the trajectory; its path from there, or None where it cannot."""

_SUMMARIES: Final = frozenset({"compactionSummary", "branchSummary"})
_SYSTEM: Final = _SUMMARIES | {"custom", "hookMessage"}
_SEALS: Final = ("signature", "thinkingSignature", "encrypted_content")
_COMPACTION: Final = {"context_management": {"type": "compaction", "boundary": "replace"}}


class Steps:
    """Makes the steps of one path.

    Args:
        losses: takes what is left out, or said in another way.
        illustrate: keeps images.

    Attributes:
        steps: those that were not taken out yet, in order, numbered from 1.
        touched: for each step, taken out or not, the number of the last message in it.
    """

    def __init__(self, losses: Losses, illustrate: Illustrate) -> None:
        self.steps: deque[Step] = deque()
        self.touched = array("I")
        self._taken = 0
        self._losses = losses
        self._illustrate = illustrate
        self._reading = Reading(losses, None)
        self._open: dict[str, Step] = {}
        self._answer: str | None = None

    def take(self, message: Message, entry: Entry, effort: str | None, *, copied: bool) -> None:
        """Take in the next message.

        Args:
            message: of any shape.
            entry: where it came from.
            effort: the thinking level in force.
            copied: whether it belongs to the trajectory that this one branched off from.
        """
        self._losses.uuid = entry.uuid
        self._taken += 1
        before = len(self.touched)
        role = role_of(message)
        if role == "system":
            self._say("system", clean_text(system_text(message)), entry)
        elif role in _SYSTEM:
            self._system(message, role, entry)
        else:
            self._turn(message, entry, effort)
        for step in self.steps if copied else ():
            if step["step_id"] > before:
                step["is_copied_context"] = True

    def followed(self) -> Iterator[Step]:
        """Take out the steps that another follows; their calls may still give something."""
        while len(self.steps) > 1:
            yield self.steps.popleft()

    def whole(self, touched: Sequence[int]) -> Iterator[Step]:
        """Take out the steps that nothing is added to any more, as `touched` tells."""
        while self.steps and touched[self.steps[0]["step_id"] - 1] <= self._taken:
            yield self.steps.popleft()

    def _system(self, message: Message, role: str, entry: Entry) -> None:
        if role not in _SUMMARIES:
            parts = [part for _, part in self._reading.parts_of(message)]
            self._say("system", self._content(parts), entry)
            return
        self._say("system", clean_text(text_of(message)), entry)
        if role == "compactionSummary":
            self.steps[-1]["extra"].update(_COMPACTION)

    def _turn(self, message: Message, entry: Entry, effort: str | None) -> None:
        theirs: list[Part] = []
        own: list[Part] = []
        for side, part in self._reading.parts_of(message):
            if isinstance(part, Result):
                self._observe(part, entry)
            else:
                (own if side == "assistant" else theirs).append(part)
        if own or role_of(message) == "assistant":
            self._act(own, message, entry, effort)
        if theirs:
            self._say("user", self._content(theirs), entry)

    def _say(self, source: str, message: Any, entry: Entry) -> Step:
        self.touched.append(self._taken)
        step: Step = {"step_id": len(self.touched)}
        if moment_of(entry.timestamp) is not None:
            step["timestamp"] = entry.timestamp
        step.update(source=source, message=message, extra={"entry": entry.uuid})
        self.steps.append(step)
        self._answer = None
        return step

    def _act(self, parts: list[Part], message: Message, entry: Entry, effort: str | None) -> None:
        """A model's answer: a step, or more of the last one."""
        id = message.get("id")
        id = id if isinstance(id, str) and id and "usage" in message else None
        if id is not None and id == self._answer:
            step = self.steps[-1]
            self.touched[step["step_id"] - 1] = self._taken
            step["message"] = _joined(step["message"], self._content(self._said(parts)))
        else:
            step = self._say("agent", self._content(self._said(parts)), entry)
            step["llm_call_count"] = 1
            self._answer = id
        if isinstance(message.get("model"), str) and message["model"]:
            step["model_name"] = clean_text(message["model"])
        if effort and effort != "off":
            step["reasoning_effort"] = effort
        told = (part.text or part.told for part in parts if isinstance(part, Thinking))
        thoughts = [text for text in told if text]
        if any(block.get(key) for block in (message, *blocks_of(message)) for key in _SEALS):
            self._losses.add("the seal of a thought is not told")
        if thoughts:
            step["reasoning_content"] = "\n\n".join([*_texts(step), *map(clean_text, thoughts)])
        if message.get("partial"):
            step["extra"]["partial"] = True
        if metrics := _metrics(message.get("usage")):
            step["metrics"] = metrics
        for part in parts:
            if isinstance(part, Call):
                self._call(step, part)
            elif isinstance(part, Hosted):
                self._hosted(step, part, entry)

    @staticmethod
    def _said(parts: Iterable[Part]) -> list[Part]:
        return [part for part in parts if isinstance(part, Text | Media)]

    def _call(self, step: Step, call: Call) -> None:
        given = call.arguments
        if isinstance(given, str):
            held = None if call.freeform else object_in(given)
            given = {"input": given} if held is None else clean_value(held)
        self._made(step, call.id, call.name, given)

    def _made(self, step: Step, id: str, name: str, arguments: Mapping[str, Any]) -> None:
        made = {
            "tool_call_id": clean_text(id),
            "function_name": name or UNKNOWN,
            "arguments": dict(arguments),
        }
        step.setdefault("tool_calls", []).append(made)
        self._open[id] = step

    def _hosted(self, step: Step, part: Hosted, entry: Entry) -> None:
        """A tool that the provider ran itself."""
        block = part.block
        if kind_of(block) == "server_tool_use":
            given = block.get("input")
            arguments = clean_value(given) if isinstance(given, dict) else {}
            self._made(step, part.id, str(block.get("name") or ""), arguments)
        else:
            said = Text(clean_text(json_text(block.get("content"))))
            self._observe(Result(part.id, (said,)), entry)

    def _observe(self, result: Result, entry: Entry) -> None:
        """What a tool gave, in the step of its call."""
        step = self._open.pop(result.id, None)
        found: dict[str, Any] = {"content": self._content(result.parts)}
        found["extra"] = {"entry": entry.uuid}
        if result.failed:
            found["extra"]["isError"] = True
        if step is None:
            self._losses.add("a result whose call is not on the path is a step of the system")
            step = self._say("system", "A tool's result, without its call.", entry)
        else:
            found["source_call_id"] = clean_text(result.id)
            self.touched[step["step_id"] - 1] = self._taken
        step.setdefault("observation", {"results": []})["results"].append(found)

    def _content(self, parts: Iterable[Part]) -> Any:
        """Text, or parts where there are images that can be shown."""
        made: list[dict[str, Any]] = []
        for part in parts:
            if isinstance(part, Text):
                made.append({"type": "text", "text": part.text})
            elif isinstance(part, Media):
                made.append(self._media(part))
        if any(part["type"] != "text" for part in made):
            return made
        return "\n".join(part["text"] for part in made)

    def _media(self, media: Media) -> dict[str, Any]:
        path = self._illustrate(media) if media.kind == "image" else None
        if path is None:
            self._losses.add(f"the {stand_in(media)[1:-1]} is only named")
            return {"type": "text", "text": stand_in(media)}
        return {"type": "image", "source": {"media_type": media.media_type, "path": path}}


def _texts(step: Step) -> list[str]:
    return [step["reasoning_content"]] if "reasoning_content" in step else []


def _joined(one: Any, other: Any) -> Any:
    """The content of two pieces of an answer as one."""
    if isinstance(one, str) and isinstance(other, str):
        return "\n".join(text for text in (one, other) if text)
    return [*_listed(one), *_listed(other)]


def _listed(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content)


def _metrics(reported: Any) -> dict[str, Any] | None:
    """What an answer took; tokens read from and written to a cache are among the prompt's."""
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


SCHEMA: Final = "ATIF-v1.7"

_SUFFIXES: Final = {
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/gif": "gif",
    "image/webp": "webp",
}
_SUBAGENT: Final = "claude-code:subagent"
_NOT_SAID: Final = {
    "label": "a label",
    "custom": "a custom entry",
    "usage": "usage that is no answer's",
    "stack_push": "a stack_push",
    "session_info": "a change of the name or the metadata",
}
_OTHERWISE: Final = {
    "merge": "a merge: what it takes in is said in its place",
    "context_edit": "an edit: the step is as edited",
    "stack_summary": "a stack_summary is a step of the system",
    "handle": "a handle is what it resolves to now",
}
_TOTALS: Final = {
    "total_prompt_tokens": "prompt_tokens",
    "total_completion_tokens": "completion_tokens",
    "total_cached_tokens": "cached_tokens",
    "total_cost_usd": "cost_usd",
}
"""Sums over the steps that are not copied; no tokens where none were told."""

_SILENT: Final = frozenset({HEADER, "branch", "model_change", "thinking_level_change"})


@dataclass
class _Line:
    """A line of work, and what its steps amount to.

    Attributes:
        id: of its trajectory.
        rows: of its path.
        shared: for each row of the file 1 where another trajectory has it before.
        more: what else is told of it.
        touched: see `Steps.touched`.
        makers: the number of the first step that made each call of a subagent.
        totals: its metrics.
        model: the name of the last model that was used, or None.
        is_copied: whether it says nothing of its own.
        lanes: for the number of a step, the calls in it whose subagents are told.
    """

    id: str
    rows: array[int]
    shared: bytearray
    more: Mapping[str, Any]
    touched: array[int] = field(default_factory=lambda: array("I"))
    makers: dict[str, int] = field(default_factory=dict)
    totals: dict[str, Any] = field(default_factory=dict)
    model: str | None = None
    is_copied: bool = True
    lanes: dict[int, list[tuple[str, str]]] = field(default_factory=dict)


class AtifDocument:
    """Makes the trajectory of one session."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._losses = source.losses
        self._images: dict[str, bytes] = {}
        self._folder = ""
        session = source.session
        self._called = self._calls_of_lanes()
        none = bytearray(len(source.tree))
        self._main = _Line(session.id, source.rows_down(source.leaf), none, {})
        self._survey(self._main)
        if not self._main.touched:
            raise NothingToDoError(
                f"{session.file or 'the session'} says nothing where it stands; "
                "a trajectory needs a step: switch to a branch that has one"
            )
        own = bytearray(len(source.tree))
        for row in self._main.rows:
            own[row] = 1
        self._note_what_is_not_said(own)
        self._lanes = self._told_lanes(own)
        costs = [line.totals for line in (self._main, *self._lanes)]
        if self._lanes and (cost := sum(each.get("total_cost_usd", 0) for each in costs)):
            costs[0]["total_cost_usd"] = cost

    @property
    def default_name(self) -> str:
        """The session's id."""
        name = "".join(c if c.isalnum() or c in "-_." else "-" for c in self._source.session.id)
        return f"{name or 'session'}.trajectory.json"

    def beside(self, stem: str) -> list[Beside]:
        """The images."""
        folder = f"{stem}.images"
        self._folder = os.path.basename(folder)
        return [
            (os.path.join(folder, name), _once(content)) for name, content in self._images.items()
        ]

    def blocks(self) -> Iterator[bytes]:
        """The document, as one line."""
        yield from self._document(self._main)
        for number, line in enumerate(self._lanes):
            yield b"," if number else b',"subagent_trajectories":['
            yield from self._document(line)
            yield b"}"
        yield b"]}\n" if self._lanes else b"}\n"

    def _document(self, line: _Line) -> Iterator[bytes]:
        """A trajectory, but for the brace that ends it."""
        yield json_of(self._start(line))[:-1] + b',"steps":['
        steps = Steps(Losses(), self._kept_image)  # what is lost was noted before
        for _ in self._taken(line, steps):
            for step in steps.whole(line.touched):
                yield b"," if step["step_id"] > 1 else b""
                for call, lane in line.lanes.get(step["step_id"], ()):
                    _refer(step, call, lane)
                yield json_of(self._placed(step))
        end = {"final_metrics": line.totals, **line.more}
        yield b"]," + json_of(end)[1:-1]

    def _placed(self, value: Any) -> Any:
        """The document with the paths of its images, now that the folder has a name."""
        if not self._images:
            return value
        if isinstance(value, list):
            return [self._placed(each) for each in value]
        if not isinstance(value, dict):
            return value
        if value.get("path") in self._images and "media_type" in value:
            return {**value, "path": f"{self._folder}/{value['path']}"}
        return {key: self._placed(each) for key, each in value.items()}

    def _taken(self, line: _Line, steps: Steps) -> Iterator[None]:
        """Let steps take in a path, message by message."""
        source = self._source
        settings = header_settings(source.session.header.body)
        if isinstance(system := settings.get("system"), str) and system:
            first = {"role": "system", "content": system}
            top = source.session._entry_at(line.rows[0])
            steps.take(first, top, None, copied=1 in line.shared)
            yield
        levels, level_at = self._efforts(line.rows, settings.get("thinkingLevel"))
        effort: str | None = None
        for message, entry in source.said(line.rows):
            row = source.session._row(entry)
            effort = levels[level_at[row]] if level_at[row] else effort
            steps.take(message, entry, effort, copied=bool(line.shared[row]))
            yield

    def _efforts(self, rows: array[int], start: Any) -> tuple[list[str | None], array[int]]:
        """The thinking levels of a path, and for each row the number of its own; 0 is none."""
        tree = self._source.tree
        levels = [None, _text(start)]
        level_at = array("I", bytes(array("I").itemsize * len(tree)))
        for row in rows:
            if tree.type_of(row) == "thinking_level_change":
                levels.append(_text(self._source.session._entry_at(row).get("thinkingLevel")))
            level_at[row] = len(levels) - 1
        return levels, level_at

    def _survey(self, line: _Line) -> None:
        """See what the steps of a line of work amount to, and what is lost."""
        steps = Steps(self._losses, self._kept_image)
        for _ in self._taken(line, steps):
            for step in steps.followed():
                self._count(step, line)
        for step in steps.steps:
            self._count(step, line)
        line.touched = steps.touched
        line.totals = {"total_steps": len(steps.touched), **line.totals}

    def _count(self, step: Step, line: _Line) -> None:
        line.model = step.get("model_name", line.model)
        for made in step.get("tool_calls", ()):
            if made["tool_call_id"] in self._called.values():
                line.makers.setdefault(made["tool_call_id"], step["step_id"])
        if step.get("is_copied_context"):
            return
        line.is_copied = False
        for total, key in _TOTALS.items() if "metrics" in step else ():
            if (value := step["metrics"].get(key)) is not None:
                line.totals[total] = line.totals.get(total, 0) + value

    def _start(self, line: _Line) -> dict[str, Any]:
        """What stands before the steps."""
        session = self._source.session
        metadata = session.metadata
        model = session.context().model
        agent: dict[str, Any] = {
            "name": _text(metadata.get("agent")) or UNKNOWN,
            "version": _text(metadata.get("agentVersion")) or UNKNOWN,
        }
        named = model and _text(model.get("modelId"))
        if named or line.model:
            agent["model_name"] = named or line.model
        tools = metadata.get("tools")
        if isinstance(tools, list) and tools and all(isinstance(tool, dict) for tool in tools):
            agent["tool_definitions"] = tools
        return {
            "schema_version": SCHEMA,
            "session_id": session.id or UNKNOWN,
            "trajectory_id": line.id or UNKNOWN,
            "agent": agent,
        }

    def _calls_of_lanes(self) -> dict[str | None, Any]:
        """The call that each lane of a subagent was made by."""
        source = self._source
        return {
            entry.lane: data.get("toolUseId")
            for row in source.tree.rows_of_type("custom")
            if (entry := source.session._entry_at(row)).get("customType") == _SUBAGENT
            and isinstance(data := entry.get("data"), dict)
        }

    def _told_lanes(self, own: bytearray) -> list[_Line]:
        """The lanes as trajectories of subagents, each named where it was called."""
        source = self._source
        found: list[_Line] = []
        for lane, tips in source.lanes().items():
            uuid = source.tree.uuids[tips[-1]]
            if lane.startswith(SCRATCH):
                self._losses.at(uuid, f"the scratch lane {lane!r} is left out")
                continue
            line = _Line(lane, source.rows_down(tips[-1]), own, {"extra": {"lane": lane}})
            self._survey(line)
            if line.is_copied:
                continue
            self._losses.at(uuid, f"the lane {lane!r} is the trajectory of a subagent")
            found.append(line)
            call = self._called.get(lane)
            if isinstance(call, str) and call in self._main.makers:
                told = self._main.lanes.setdefault(self._main.makers[call], [])
                told.append((call, lane))
        return found

    def _kept_image(self, media: Media) -> str | None:
        """Note an image, to be written beside the document; its path."""
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

    def _note_what_is_not_said(self, own: bytearray) -> None:
        source, tree = self._source, self._source.tree
        content = tree.content_rows()
        for row in range(1, len(tree)):
            kind, uuid = tree.type_of(row), tree.uuids[row]
            self._losses.uuid = uuid
            on_path = own[row]
            if kind in _NOT_SAID:
                self._losses.add(f"{_NOT_SAID[kind]} is not told")
            elif not on_path and content[row] and tree.lane_of(row) == source.session._lane:
                self._losses.add("what is said on other branches is not told")
            elif on_path and kind in _OTHERWISE:
                self._losses.add(_OTHERWISE[kind])
            elif on_path and not content[row] and kind not in _SILENT | {"context_edit"}:
                self._losses.add(f"a {one_line(kind, 40)} is not told")


def _refer(step: Step, call: str, lane: str) -> None:
    """Name a lane's trajectory in what the call of its subagent gave."""
    results = step.setdefault("observation", {"results": []})["results"]
    mine = next((r for r in results if r.get("source_call_id") == call), None)
    if mine is None:
        results.append(mine := {"source_call_id": call})
    mine.setdefault("subagent_trajectory_ref", []).append({"trajectory_id": lane})


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _once(block: bytes) -> Callable[[], Iterator[bytes]]:
    return lambda: iter([block])
