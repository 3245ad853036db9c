"""Gemini CLI's chats: `~/.gemini/tmp/<project>/chats/session-<time>-<id>.json` or `.jsonl`.

The older form is one JSON document, `{sessionId, projectHash, startTime, lastUpdated,
messages}`. The newer form is a log: a first line with the same keys, then messages. A
message with the id of an earlier one replaces it. `{"$set": …}` changes the keys of the
first line; with `messages` it replaces the whole conversation. `{"$rewindTo": id}` removes
that message and all after it, or every message if there is none with this id.

A message of type `user` or `gemini` becomes a message in the pi coding agent's shape: the
thoughts and tool calls of a `gemini` one are blocks, and each result that it holds is a
`toolResult` message after it. A replacement becomes a branch. Notes for people (`info`,
`warning`, `error`) and messages that are replaced at once become `custom` entries.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec
import orjson

from sessiontree.core.entry import decode_leniently
from sessiontree.formats import base
from sessiontree.formats.gemini.layout import first_message
from sessiontree.text.pattern import lines_with

_MESSAGES: Final = frozenset({"user", "gemini"})
_NOTES: Final = frozenset({"info", "warning", "error"})

_KEYS: Final = ("sessionId", "projectHash", "startTime", "lastUpdated")
"""The keys at the start of a document."""

_OPENING: Final = 4096
"""The bytes at the start of a document that hold those keys."""


class Gemini:
    name = "gemini"
    program = "Gemini CLI"

    def recognises(self, head: bytes) -> bool:
        """Whether the first object has `sessionId` and `projectHash`."""
        first = _first(head)
        return "sessionId" in first and "projectHash" in first and "uuid" not in first

    def facts(self, head: bytes, tail: bytes) -> base.Facts:
        first = _first(head)
        name = first.text("summary")
        for start, end in lines_with(b'"summary"', tail, len(tail)):
            name = _summary_in(tail[start:end]) or name
        return base.Facts(
            first.text("sessionId"),
            _cwd(first),
            name,
            _first_prompt(head),
            first.text("startTime"),
            first.text("lastUpdated") if _is_document(head) else None,
        )

    def translate(self, source: base.Source, report: base.Report) -> Iterator[base.Translated]:
        lines = base.numbered(source)
        first = next(lines, base.SourceLine(base.START, b""))
        opening = base.values(first.text)
        if opening is None:
            yield from self._document(source, report)
            return
        chat = _Chat(base.Lines(self, report, opening.text("sessionId") or ""))
        yield chat.header(base.START, opening)
        messages = opening.value("messages")
        if isinstance(messages, list):
            yield from chat.replaced(messages, first)
        for line in lines:
            yield from chat.take(line)
        yield from chat.finish()

    def translate_alone(
        self, session_id: str, place: base.Place, message: bytes
    ) -> Iterator[bytes]:
        """The lines made from one message of a document; only their parents differ."""
        chat = _Chat(base.Lines(self, lambda *_: None, session_id))
        for _, line in chain(chat.take(base.SourceLine(place, message)), chat.finish()):
            yield line

    def _document(self, source: base.Source, report: base.Report) -> Iterator[base.Translated]:
        text = b"\n".join(line for _, line in source.lines())
        opening = base.values(text) or base.leading_values(text) or base.Values({})
        chat = _Chat(base.Lines(self, report, opening.text("sessionId") or ""))
        yield chat.header(base.START, opening)
        end = 0
        for offset, message in _messages_of(text):
            end = offset + len(message)
            place = base.Place(0, text.count(b"\n", 0, offset) + 1, offset)
            yield from chat.take(base.SourceLine(place, message))
        if decode_leniently(text) is None:
            start = text.rfind(b"\n", 0, end) + 1
            place = base.Place(0, text.count(b"\n", 0, end) + 1, start)
            report("cut short", place, "the document ends early, or is damaged from here on")
        yield from chat.finish()


class _Turn(NamedTuple):
    """A message of the current conversation; `parent` is the uuid of the entry before it."""

    id: str
    parent: str
    line: base.SourceLine


class _Chat:
    """The state of one chat. The last message waits, because the next line may replace it."""

    def __init__(self, lines: base.Lines) -> None:
        self._lines = lines
        self._turns: list[_Turn] = []
        self._waiting: tuple[str, base.SourceLine, base.Values] | None = None

    def header(self, place: base.Place, opening: base.Values) -> base.Translated:
        id, name, created = map(opening.text, ("sessionId", "summary", "startTime"))
        facts = base.Facts(id, _cwd(opening), name, created=created)
        return self._lines.header(
            place, facts, projectHash=opening.text("projectHash"), kind=opening.text("kind")
        )

    def take(self, line: base.SourceLine) -> Iterator[base.Translated]:
        found = base.values(line.text)
        if found is None:
            yield from self._lines.not_an_object(line)
            return
        id = found.text("id")
        if id is not None and found.text("type") in _MESSAGES:
            yield from self._message(id, line, found)
            return
        yield from self.settled()
        if "$rewindTo" in found:
            yield self._branch(self._index_of(found.text("$rewindTo")) or 0, line)
        elif "$set" in found and "messages" in found.inside("$set"):
            messages = found.inside("$set").value("messages")
            yield from self.replaced(messages if isinstance(messages, list) else [], line)
        else:
            yield self._custom(line, found)

    def finish(self) -> Iterator[base.Translated]:
        yield from self.settled()

    def settled(self) -> Iterator[base.Translated]:
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            yield from self._entries(*waiting)

    def replaced(self, messages: list[Any], line: base.SourceLine) -> Iterator[base.Translated]:
        """Replace the conversation; the messages that both begin with stay."""
        new = [(message, _line_of(message)) for message in messages if isinstance(message, dict)]
        same = 0
        for turn, (message, text) in zip(self._turns, new, strict=False):
            if turn.id != message.get("id") or _line_of(decode_leniently(turn.line.text)) != text:
                break
            same += 1
        if same < len(self._turns):
            yield self._branch(same, line)
        for message, text in new[same:]:
            found = base.values(text)
            if found is not None and found.text("type") in _MESSAGES:
                new_line = base.SourceLine(line.place, text)
                yield from self._entries(str(message.get("id", "")), new_line, found)

    def _custom(self, line: base.SourceLine, found: base.Values) -> base.Translated:
        lines = self._lines
        kind = "set" if "$set" in found else found.text("type") or ""
        if kind not in _NOTES and kind != "set" and "sessionId" not in found:
            lines.note_unknown(kind, line.place)
        uuid = lines.uuid(found.text("id"), line)
        at = found.text("timestamp")
        return lines.custom(kind or "line", line, uuid, found.as_fragment(), timestamp=at)

    def _message(
        self, id: str, line: base.SourceLine, found: base.Values
    ) -> Iterator[base.Translated]:
        if self._waiting is not None and self._waiting[0] == id:
            _, old_line, old = self._waiting
            uuid = self._lines.uuid(None, old_line)
            yield self._lines.custom("replaced", old_line, uuid, old.as_fragment())
            self._waiting = (id, line, found)
            return
        yield from self.settled()
        at = self._index_of(id)
        if at is None:
            self._waiting = (id, line, found)
            return
        later = self._turns[at + 1 :]
        yield self._branch(at, line)
        for turn in (_Turn(id, "", line), *later):
            yield from self._entries(turn.id, turn.line, base.values(turn.line.text))

    def _index_of(self, id: str | None) -> int | None:
        return next((n for n, turn in enumerate(self._turns) if turn.id == id), None)

    def _branch(self, at: int, line: base.SourceLine) -> base.Translated:
        """Remove the turns from `at` on, and go on from before them."""
        parent = self._turns[at].parent if self._turns else self._lines.leaf
        del self._turns[at:]
        uuid = self._lines.uuid(None, line, b" branch")
        return self._lines.entry("branch", line, uuid, parent=parent)

    def _entries(
        self, id: str, line: base.SourceLine, found: base.Values | None
    ) -> Iterator[base.Translated]:
        lines = self._lines
        message = decode_leniently(line.text) if found is not None else None
        if found is None or not isinstance(message, dict):
            return
        self._turns.append(_Turn(id, lines.leaf, line))
        is_user = message.get("type") == "user"
        content = _content(message.get("content"))
        made = {"role": "user", "content": content} if is_user else _answer(message, content)
        at = found.text("timestamp")
        uuid = lines.uuid(id, line)
        yield lines.entry("message", line, uuid, {"message": made}, timestamp=at)
        for number, call in enumerate(() if is_user else _calls_of(message)):
            result = _result_of(call)
            if result is not None:
                uuid = lines.uuid(None, line, b" %d" % number)
                yield lines.entry("message", line, uuid, {"message": result}, timestamp=at)


def _line_of(message: Any) -> bytes:
    try:
        return orjson.dumps(message)
    except TypeError:
        return json.dumps(message).encode()


def _content(content: Any) -> Any:
    """A list of Gemini's parts as blocks; a string unchanged."""
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    return [_block(part) for part in content]


def _block(part: Any) -> Any:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, dict):
        return {"type": "part", "part": part}
    if isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    inline = part.get("inlineData")
    if isinstance(inline, dict):
        return {"type": "image", "data": inline.get("data"), "mimeType": inline.get("mimeType")}
    return {"type": next(iter(part), "part"), **part}


def _answer(message: dict[str, Any], content: Any) -> dict[str, Any]:
    """An assistant message; `content` is its content as blocks or a text."""
    thoughts = message.get("thoughts")
    blocks: list[Any] = [
        {"type": "thinking", "thinking": _thought(thought)}
        for thought in (thoughts if isinstance(thoughts, list) else ())
        if isinstance(thought, dict)
    ]
    text = [{"type": "text", "text": content}] if content else []
    blocks += text if isinstance(content, str) else content
    for call in _calls_of(message):
        named = {"id": call["id"], "name": call.get("name")}
        blocks.append({"type": "toolCall", **named, "arguments": call.get("args")})
    made: dict[str, Any] = {"role": "assistant", "content": blocks}
    if isinstance(message.get("model"), str):
        made |= {"provider": "google", "model": message["model"]}
    if isinstance(message.get("tokens"), dict):
        made["usage"] = message["tokens"]
    return made


def _thought(thought: dict[str, Any]) -> str:
    parts = (thought.get("subject"), thought.get("description"))
    return "\n".join(part for part in parts if isinstance(part, str) and part)


def _calls_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    calls = message.get("toolCalls")
    found = calls if isinstance(calls, list) else []
    return [call for call in found if isinstance(call, dict) and isinstance(call.get("id"), str)]


def _result_of(call: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a call as a message; None for a call without one."""
    result = call.get("result")
    if result is None:
        return None
    parts = result if isinstance(result, list) else [result]
    return {
        "role": "toolResult",
        "toolCallId": call["id"],
        "toolName": call.get("name"),
        "content": [_result_block(part) for part in parts],
        "isError": call.get("status") not in ("success", None),
    }


def _result_block(part: Any) -> Any:
    response = part.get("functionResponse") if isinstance(part, dict) else None
    given = response.get("response") if isinstance(response, dict) else None
    if not isinstance(given, dict):
        return _block(part)
    output = given.get("output", given.get("error"))
    text = output if isinstance(output, str) else json.dumps(given, ensure_ascii=False)
    return {"type": "text", "text": text}


def _first(head: bytes) -> base.Values:
    line, _, rest = head.partition(b"\n")
    if rest and (found := base.values(line)) is not None:
        return found
    return _leading(head[:_OPENING]) or next(base.first_values(head), None) or base.Values({})


@lru_cache(maxsize=1)  # used to recognise a document and then for its facts
def _leading(opening: bytes) -> base.Values | None:
    keys, found_list, _ = opening.partition(b'\n  "messages": [')
    before = base.values(keys.rstrip(b",") + b"}") if found_list else None
    if before is not None and all(key in before for key in _KEYS):
        return before
    return base.leading_values(opening)


def _summary_in(line: bytes) -> str | None:
    """The summary in a line: a `$set` of a log, or a key of a document."""
    if (patch := base.values(line)) is not None:
        return patch.inside("$set").text("summary")
    if not line.startswith(b'  "summary":'):
        return None
    key = base.values(b"{" + line.strip().removesuffix(b",") + b"}")
    return key.text("summary") if key is not None else None


def _cwd(opening: base.Values) -> str | None:
    folders = opening.value("directories")
    first = folders[0] if isinstance(folders, list) and folders else None
    return first if isinstance(first, str) else None


def _first_prompt(head: bytes) -> str | None:
    messages = chain(first_message(head), (text for _, text in _messages_of(head)))
    for text in messages if _is_document(head) else head.split(b"\n"):
        message = base.values(text) if b'"user"' in text else None
        if message is None or message.text("type") != "user":
            continue
        prompt = base.prompt_text({"content": _content(message.value("content"))})
        if prompt is not None:
            return prompt
    return None


def _is_document(head: bytes) -> bool:
    """Whether this is the older form: over many lines, or with messages in the first line."""
    if head.startswith(b"{\n"):
        return True
    opening = base.values(head.partition(b"\n")[0])
    return opening is None or opening.value("messages") not in (None, [])


def _messages_of(document: bytes) -> Iterator[tuple[int, bytes]]:
    """The offset and the bytes of each whole message of a document."""
    try:
        whole = _decode_document(document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        yield from _messages_of_start(document)
        return
    offset = 0
    for raw in whole.messages:
        message = bytes(raw)
        offset = document.find(message, offset)
        yield offset, message
        offset += len(message)


class _Document(msgspec.Struct):
    messages: list[msgspec.Raw] = []


_decode_document: Final = msgspec.json.Decoder(_Document).decode


def _messages_of_start(document: bytes) -> Iterator[tuple[int, bytes]]:
    """The same for a document that is cut or damaged."""
    text = document.decode("latin-1")  # a character for each byte, so that offsets are equal
    key = text.find('"messages"')
    at = text.find("[", key) + 1 if key >= 0 else 0
    while at:
        while text[at : at + 1] in (" ", "\t", "\r", "\n", ","):
            at += 1
        message = base.whole_value(text, at)
        if message is None:
            return
        yield at, message
        at += len(message)
