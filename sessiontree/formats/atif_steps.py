"""What was said on a path as the steps of a trajectory.

A step is the user's, the agent's or the system's. The agent's holds one answer of the
model, with its tool calls, and what they gave; the pieces of an answer that was stored
piece by piece, all of one `message.id`, are one step.

A step may grow as long as another does not follow it, but for what its calls gave, which
may come at any time: which message added to it last is told by `touched`, so that who
makes the steps again knows when one is whole.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from sessiontree.context.providers.media import stand_in
from sessiontree.context.providers.part import Call, Hosted, Media, Part, Result, Text, Thinking
from sessiontree.context.providers.reading import Reading
from sessiontree.context.providers.values import clean_text, clean_value, object_in
from sessiontree.core.entry import Entry
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
from sessiontree.formats.envelope import UNKNOWN
from sessiontree.formats.writing import Losses
from sessiontree.operations.source import moment_of

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
