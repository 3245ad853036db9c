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
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sessiontree.context.providers.part import Media
from sessiontree.context.settings import header_settings
from sessiontree.core.display import one_line
from sessiontree.core.entry import HEADER
from sessiontree.errors import NothingToDoError
from sessiontree.formats.atif_steps import Step, Steps
from sessiontree.formats.envelope import UNKNOWN
from sessiontree.formats.jsonlines import json_of
from sessiontree.formats.writing import Losses
from sessiontree.operations.source import SCRATCH, Source
from sessiontree.operations.written import Beside

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
