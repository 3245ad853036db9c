"""A session as the events of Copilot CLI: one line of messages, the current path.

The messages are those of a chat of Gemini CLI, with the same parts: an answer is an event, and each
result another. Other branches are left out. Copilot CLI keeps of a compaction what it said between
its start and its end: the start stands above what is kept, or that is repeated between the two. It
opens no file in which the id of an event is not a UUID.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from sessiontree.agents import writing
from sessiontree.agents.agent import is_uuid
from sessiontree.agents.gemini.writer import ChatUnit, GeminiWriter, Line, contents_of
from sessiontree.core.header import KEY
from sessiontree.core.message import Message
from sessiontree.core.usage import Usage

_VERSION: Final = "1.0.102"
"""The version of Copilot CLI whose events these are like."""

_USAGE_LOST: Final = "the usage of an answer is left out: Copilot CLI has it in events of its own"


class CopilotWriter(GeminiWriter):
    program = "Copilot CLI"
    document = "session"
    is_linear = True

    def __init__(self, source: writing.SessionSource) -> None:
        super().__init__(source)
        self._events: list[tuple[Line, str, str]] = []  # each with its entry, and its place
        self._said: list[tuple[int, Line]] = []  # the messages, each with its first event's place

    @property
    def default_name(self) -> str:
        return f"{self.session_id}/events.jsonl"

    def opening(self) -> Iterator[bytes]:
        header = self.source.header
        about = {"version": 1, "producer": "copilot-agent", "copilotVersion": _VERSION}
        context = {"cwd": writing.text_in(header.get("cwd"))}
        data = {"sessionId": self.session_id, **about, "startTime": self.time, "context": context}
        self._add("session.start", data, header.uuid)
        if self.source.name is not None:
            self.losses.at(header.uuid, "the name is left out: Copilot CLI makes one of its own")
        yield from ()

    def ending(self) -> Iterator[bytes]:
        """All lines: where a compaction starts is known only at its end."""
        above: str | None = None
        for event, entry, place in self._events:
            event["id"] = self.uuid_for(entry, 0 if is_uuid(entry) else 1)
            event["parentId"], above = above, event["id"]
            yield self.line(event, place)

    def prompt(self, content: list[Line], message: Message) -> list[Line]:
        return content

    def model_of(self, message: Message) -> Line:
        model = message.get("model")
        return {"model": model} if isinstance(model, str) else {}

    def tokens(self, used: Usage) -> Line:
        self.losses.add(_USAGE_LOST)
        return {}

    def lines_of(self, unit: ChatUnit) -> Iterable[bytes]:
        if unit.is_compaction:
            self._compact(unit)
        else:
            self._say(unit.line, unit.place)
        return ()

    def _compact(self, unit: ChatUnit) -> None:
        (text, kept), place = self.summary_of(unit), unit.place
        first = len(self._said) - len(kept)
        stays = first >= 0 and [line for _, line in self._said[first:]] == kept
        at = self._said[first][0] if stays and kept else len(self._events)
        start = {"type": "session.compaction_start", "data": {}, "timestamp": self.time}
        self._events.insert(at, (start, place, place))
        for line in () if stays else kept:
            self._say(line, place)
        self._add("session.compaction_complete", {"success": True, "summaryContent": text}, place)

    def _say(self, line: Line, place: str) -> None:
        self._said.append((len(self._events), line))
        told, *results = contents_of(line)
        texts = [part["text"] for part in told["parts"] if "text" in part and not _thinks(part)]
        data: Line = {"content": "\n".join(texts)}
        if line["type"] == "user":
            images = [part["inlineData"] for part in told["parts"] if "inlineData" in part]
            if images:
                data["attachments"] = list(map(_attachment, images))
            self._add("user.message", {**data, **_SOURCE} if KEY in line else data, place, line)
            return
        thoughts = [part["text"] for part in told["parts"] if _thinks(part)]
        calls = [part["functionCall"] for part in told["parts"] if "functionCall" in part]
        data |= {"messageId": line["id"], "toolRequests": list(map(_request, calls))}
        data |= {"model": line["model"]} if "model" in line else {}
        data |= {"reasoningText": "\n".join(thoughts)} if thoughts else {}
        self._add("assistant.message", data, place, line)
        for result in results:
            self._add("tool.execution_complete", self._outcome(result["parts"]), place, line)

    def _outcome(self, parts: list[Line]) -> Line:
        """The data of a result, which is text alone."""
        response = parts[0]["functionResponse"]
        ((key, text),) = response["response"].items()
        for part in parts[1:]:
            self.losses.add("the image of a result is replaced by its name")
            text += f"\n[image: {part['inlineData']['mimeType']}]" if "inlineData" in part else ""
        outcome = {"error": {"message": text}} if key == "error" else {"result": {"content": text}}
        about = {"toolCallId": response["id"], "toolName": response["name"]}
        return {**about, "success": key != "error", **outcome}

    def _add(self, kind: str, data: Line, place: str, line: Line | None = None) -> None:
        at = self.time if line is None else line["timestamp"]
        entry = place if line is None else line["id"]
        self._events.append(({"type": kind, "data": data, "timestamp": at}, entry, place))


_SOURCE: Final = {"source": "system"}
"""What a message has that no user typed."""


def _thinks(part: Line) -> bool:
    return bool(part.get("thought"))


def _request(call: Line) -> Line:
    about = {"toolCallId": call["id"], "name": call["name"]}
    return {**about, "arguments": call["args"], "type": "function"}


def _attachment(media: Line) -> Line:
    name = media["mimeType"].replace("/", ".")
    return {
        "type": "blob",
        "data": media["data"],
        "mimeType": media["mimeType"],
        "displayName": name,
    }
