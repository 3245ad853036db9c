"""A session as a session of Qwen Code: a tree, of which the current branch is the last.

The messages are those of a chat of Gemini CLI, with the same parts. Each becomes a line of the
user's, or one of an answer and one for each result. A branch goes on from a line further up; a
compaction becomes the history that replaces all before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from sessiontree.agents import writing
from sessiontree.agents.gemini.writer import ChatUnit, GeminiWriter, Line, contents_of
from sessiontree.core.header import KEY
from sessiontree.core.message import Message

_PROVENANCE: Final = {
    "user": "real_user",
    "assistant": "assistant_output",
    "tool_result": "tool_result",
    "system": "system",
}


class QwenWriter(GeminiWriter):
    program = "Qwen Code"
    document = "session"

    def __init__(self, source: writing.SessionSource) -> None:
        super().__init__(source)
        self._above: str | None = None  # the uuid of the line above the next one
        self._cwd = writing.text_in(source.header.get("cwd"))

    @property
    def default_name(self) -> str:
        return f"{self.session_id}.jsonl"

    def opening(self) -> Iterator[bytes]:
        yield from ()

    def ending(self) -> Iterator[bytes]:
        leaf = self.source.tree.uuids[self.source.leaf]
        if self.source.name is not None:
            payload = {"customTitle": self.source.name, "titleSource": "manual"}
            yield self._system("custom_title", payload, leaf)
        elif self.place != leaf:  # it is the entry below which a new one belongs
            yield self._system("ui_telemetry", {}, leaf)

    def go_back(self, count: int) -> Iterator[bytes]:
        self.log.cut(count)
        self._above = self.log.units[-1].last if count else None
        yield from ()

    def lines_of(self, unit: ChatUnit) -> Iterable[bytes]:
        made = list(self._lines(unit))
        unit.last = self._above or ""
        return made

    def prompt(self, content: list[Line], message: Message) -> list[Line]:
        return content

    def model_of(self, message: Message) -> Line:
        model = message.get("model")
        return {"model": model} if isinstance(model, str) else {}

    def _lines(self, unit: ChatUnit) -> Iterator[bytes]:
        if unit.is_compaction:
            history = [content for line in unit.sent for content in contents_of(line)]
            payload = {"info": {"compressionStatus": 1}, "compressedHistory": history}
            yield self._system("chat_compression", payload, unit.place)
            return
        line = unit.line
        own, at = line["id"], line["timestamp"]
        contents = list(contents_of(line))
        for number, content in enumerate(contents):
            kind = "user" if line["type"] == "user" else "assistant"
            about: Line = {"message": content}
            if KEY in line:
                about[KEY] = line[KEY]
            if number == 0 and kind == "assistant":
                about = {**_about_answer(line), **about}
            elif (response := _response_in(content)) is not None:
                kind = "tool_result"
                about["toolCallResult"] = _outcome(response)
            yield self._said(kind, self.uuid_for(own, number), at, about, unit.place)

    def _system(self, subtype: str, payload: Line, place: str) -> bytes:
        about = {"subtype": subtype, "systemPayload": payload}
        return self._said("system", self.uuid_for(place, 0), self.time, about, place)

    def _said(self, kind: str, uuid: str, at: str, about: Line, place: str) -> bytes:
        above, self._above = self._above, uuid
        made = {
            "uuid": uuid,
            "parentUuid": above,
            "sessionId": self.session_id,
            "timestamp": at,
            "type": kind,
            "provenance": _PROVENANCE[kind],
            "cwd": self._cwd,
            **about,
        }
        return self.line(made, place)


def _response_in(content: Line) -> Line | None:
    found = (part["functionResponse"] for part in content["parts"] if "functionResponse" in part)
    return next(found, None)


def _outcome(response: Line) -> Line:
    failed = "error" in response["response"]
    return {"callId": response["id"], "status": "error" if failed else "success"}


def _about_answer(line: Line) -> Line:
    """The model and the tokens of an answer, as Qwen Code has them."""
    model = {"model": line["model"]} if "model" in line else {}
    if (tokens := line.get("tokens")) is None:
        return model
    usage = {
        "promptTokenCount": tokens["input"],
        "candidatesTokenCount": tokens["output"],
        "totalTokenCount": tokens["total"],
        "cachedContentTokenCount": tokens["cached"],
    }
    return {**model, "usageMetadata": usage}
