"""A session as the JSON that `opencode import` takes: one line of messages, the current path.

The messages are those of a chat of Gemini CLI, with the same parts: a call and its result are one
`tool` part. Other branches are left out. A compaction becomes the user's message that asks for one,
and an answer with the summary. What it keeps stays above it if it was said last, and is repeated
below it otherwise.

OpenCode sorts messages by their time, then by id, and parts by id. So no message is older than the
one before it, and ids count up to the time at which OpenCode goes on. An import drops keys that it
does not know; so the origin of a message is in the metadata of one of its parts, and that of the
session in its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from sessiontree.agents import writing
from sessiontree.agents.gemini.writer import ChatUnit, GeminiWriter, Line, contents_of
from sessiontree.agents.opencode.names import SESSION, UNTITLED
from sessiontree.core.header import KEY
from sessiontree.core.message import Message
from sessiontree.core.usage import Usage

_VERSION: Final = "1.18.33"
"""The version of OpenCode whose exports these are like."""

_NO_TOKENS: Final = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
_MESSAGE: Final = "msg_"
_PART: Final = "prt_"
_WITH_METADATA: Final = frozenset({"text", "reasoning", "tool"})


class OpenCodeWriter(GeminiWriter):
    program = "OpenCode"
    document = "session"
    is_linear = True
    mode = "build"  # the name of its agent that edits files

    def __init__(self, source: writing.SessionSource) -> None:
        super().__init__(source)
        digest = hashlib.blake2b(source.id.encode("utf-8", "replace"), digest_size=13).hexdigest()
        self.session_id = source.id if source.id.startswith(SESSION) else SESSION + digest
        self._end_of_ids = digest[-14:]
        self._cwd = writing.text_in(source.header.get("cwd"))
        opened = source.opened or source.stored(source.leaf).timestamp
        self._opened = writing.milliseconds(opened or self.time)
        self._at = writing.milliseconds(self.time)  # of the last message
        self._number = 0  # of ids
        self._asked = _MESSAGE  # the id of the user's last message
        self._last = ""  # the id of the last message
        self._said: list[tuple[str, Line]] = []  # the messages, each with its id
        self._model = {
            "providerID": writing.UNKNOWN,
            "modelID": source.model_id() or writing.UNKNOWN,
        }

    @property
    def default_name(self) -> str:
        return f"{self.session_id}.json"

    def opening(self) -> Iterator[bytes]:
        begun = self._at
        untitled = f"{UNTITLED}{self.time}"
        info = {
            "id": self.session_id,
            "slug": self.session_id.removeprefix(SESSION),
            "projectID": "global",
            "directory": self._cwd,
            "title": untitled if self.source.name is None else self.source.name,
            "version": _VERSION,
            "metadata": self.source.origin_at(self.source.header.uuid, {"type": "session_row"}),
            "time": {"created": begun, "updated": max(begun, self._opened)},
        }
        yield b'{"info":%b,"messages":[' % writing.json_of(info)

    def ending(self) -> Iterator[bytes]:
        yield b"\n]}\n"

    def prompt(self, content: list[Line], message: Message) -> list[Line]:
        return content

    def model_of(self, message: Message) -> Line:
        model = writing.text_in(message.get("model"))
        if not model:
            return {}
        self._model = {"providerID": writing.provider_of(model, message), "modelID": model}
        return self._model

    def tokens(self, used: Usage) -> Line:
        cache = {"read": used.cache_read, "write": used.cache_write}
        counted = {"input": used.input, "output": used.output, "reasoning": 0, "cache": cache}
        return {"tokens": counted, "cost": used.cost}

    def lines_of(self, unit: ChatUnit) -> Iterable[bytes]:
        if not unit.is_compaction:
            yield self._of_line(unit.line, unit.place)
            return
        (text, kept), place = self.summary_of(unit), unit.place
        first = len(self._said) - len(kept)
        stays = bool(kept) and first >= 0 and [line for _, line in self._said[first:]] == kept
        asks: Line = {"type": "compaction", "auto": False}
        if stays:
            asks["tail_start_id"] = self._said[first][0]
        about = {"timestamp": self.time}
        yield self._of_user([asks], about, place)
        told = [{"type": "text", "text": text}]
        more = {"summary": True, "mode": "compaction", "agent": "compaction"}
        yield self._of_assistant(told, about, place, more)
        for line in () if stays else kept:
            yield self._of_line(line, place)

    def _of_line(self, line: Line, place: str) -> bytes:
        at = self._moment(line)
        if line["type"] == "user":
            mark = {"synthetic": True} if KEY in line else {}
            parts = [{**_part(part), **mark} for part in next(contents_of(line))["parts"]]
            made = self._of_user(parts, line, place)
        else:
            calls = {call["id"]: call for call in line.get("toolCalls", ())}
            told = next(contents_of(line))
            parts = [_part(part, calls, at) for part in told["parts"]]
            made = self._of_assistant(parts, line, place, {})
        self._said.append((self._last, line))
        return made

    def _of_user(self, parts: list[Line], line: Line, place: str) -> bytes:
        time = {"created": self._moment(line)}
        about = {"role": "user", "time": time, "agent": self.mode, "model": self._model}
        made = self._line(about, parts, place)
        self._asked = self._last
        return made

    def _of_assistant(self, parts: list[Line], line: Line, place: str, more: Line) -> bytes:
        at = self._moment(line)
        is_open = any(part["type"] == "tool" for part in parts)
        tokens = {"tokens": line.get("tokens", _NO_TOKENS), "cost": line.get("cost", 0)}
        finish = {"type": "step-finish", "reason": "tool-calls" if is_open else "stop", **tokens}
        about = {
            "role": "assistant",
            "time": {"created": at, "completed": at},
            "parentID": self._asked,
            **{key: line.get(key, name) for key, name in self._model.items()},
            "mode": self.mode,
            "agent": self.mode,
            "path": {"cwd": self._cwd, "root": self._cwd},
            **tokens,
            "finish": finish["reason"],
            **more,
        }
        return self._line(about, [{"type": "step-start"}, *parts, finish], place)

    def _line(self, about: Line, parts: list[Line], place: str) -> bytes:
        """A message and its parts; one of these has the origin."""
        origin = self.source.origin_at(place, {"type": "message", "data": about})
        marked = next((part for part in parts if part["type"] in _WITH_METADATA), None)
        if marked is None:
            marked = {"type": "text", "text": "", "ignored": True}
            parts = [*parts, marked]
        marked["metadata"] = origin
        self._last = self._id(_MESSAGE)
        ids = {"sessionID": self.session_id, "messageID": self._last}
        info = {**about, "id": self._last, "sessionID": self.session_id}
        made = [{**part, "id": self._id(_PART), **ids} for part in parts]
        for part in made:
            for attached in part.get("state", {}).get("attachments", ()):
                attached |= {"id": self._id(_PART), **ids}
        separator = b"," if self._number > len(made) + 1 else b""
        return separator + b"\n" + writing.json_of({"info": info, "parts": made})

    def _moment(self, line: Line) -> int:
        """The time of a message, in milliseconds; never before the one above it."""
        self._at = max(self._at, writing.milliseconds(line["timestamp"]))
        return self._at

    def _id(self, prefix: str) -> str:
        """The next id: the time at which OpenCode goes on, and a number that counts up to it."""
        self._number += 1
        at = (self._opened * 4096 + self._number) % 2**48
        return f"{prefix}{at:012x}{self._end_of_ids}"


def _part(part: Line, calls: Mapping[str, Line] = {}, at: int = 0) -> Line:
    """A part of Gemini's as one of OpenCode's; a call has its result."""
    if "functionCall" in part:
        call = part["functionCall"]
        made = {"type": "tool", "tool": call["name"], "callID": call["id"]}
        return {**made, "state": _state(call["args"], calls[call["id"]], at)}
    if "inlineData" in part:
        return _file(part["inlineData"])
    if part.get("thought"):
        return {"type": "reasoning", "text": part["text"], "time": {"start": at, "end": at}}
    return {"type": "text", "text": part["text"]}


def _file(media: Line) -> Line:
    url = f"data:{media['mimeType']};base64,{media['data']}"
    return {"type": "file", "mime": media["mimeType"], "url": url}


def _state(arguments: Any, call: Line, at: int) -> Line:
    """The state of a call: its result, or the error."""
    response, *media = call["result"]
    told = response["functionResponse"]["response"]
    about: Line = {"input": arguments, "time": {"start": at, "end": at}}
    if "error" in told:
        return {"status": "error", "error": told["error"], **about}
    files = [_file(each["inlineData"]) for each in media if "inlineData" in each]
    made = {"status": "completed", "output": told["output"], "title": "", "metadata": {}, **about}
    return {**made, "attachments": files} if files else made
