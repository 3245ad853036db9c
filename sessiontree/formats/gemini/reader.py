"""Gemini CLI's chats: `~/.gemini/tmp/<project>/chats/session-<time>-<id>.json` or `.jsonl`.

The older form is one JSON document, `{sessionId, projectHash, startTime, lastUpdated,
messages}`; the newer one a log: a first line with the same keys, then messages. A
message whose id was there replaces that one; `{"$set": …}` changes the keys of the
first line, and with `messages` the whole conversation; `{"$rewindTo": id}` drops that
message and all after it (all there are, where it is none of them).

A message of type `user` or `gemini` becomes one of the pi coding agent's shape, a
gemini one with its thoughts and tool calls as blocks, and each result that it holds
as a `toolResult` message behind it. What took the place of something is a branch.
Notes for people (`info`, `warning`, `error`) and versions that were replaced at once
become `custom` entries.

A message of Gemini CLI, as one of the pi coding agent's shape.
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
from sessiontree.core.message import text_of
from sessiontree.formats.base import (
    START,
    Facts,
    Lines,
    Place,
    Report,
    Source,
    Translated,
    Values,
    first_values,
    leading_values,
    values,
    with_numbers,
)
from sessiontree.formats.gemini.layout import first_message
from sessiontree.text.pattern import lines_with


def content_of(content: Any) -> Any:
    """A list of Gemini's parts as blocks; a string as it is."""
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


def assistant_of(message: dict[str, Any]) -> dict[str, Any]:
    thoughts = message.get("thoughts")
    blocks: list[Any] = [
        {"type": "thinking", "thinking": _thought(thought)}
        for thought in (thoughts if isinstance(thoughts, list) else ())
        if isinstance(thought, dict)
    ]
    content = content_of(message.get("content"))
    if isinstance(content, str):
        blocks += [{"type": "text", "text": content}] if content else []
    else:
        blocks += content
    blocks += [
        {
            "type": "toolCall",
            "id": call["id"],
            "name": call.get("name"),
            "arguments": call.get("args"),
        }
        for call in calls_of(message)
    ]
    said: dict[str, Any] = {"role": "assistant", "content": blocks}
    if isinstance(message.get("model"), str):
        said |= {"provider": "google", "model": message["model"]}
    if isinstance(message.get("tokens"), dict):
        said["usage"] = message["tokens"]
    return said


def _thought(thought: dict[str, Any]) -> str:
    parts = (thought.get("subject"), thought.get("description"))
    return "\n".join(part for part in parts if isinstance(part, str) and part)


def calls_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    calls = message.get("toolCalls")
    found = calls if isinstance(calls, list) else []
    return [call for call in found if isinstance(call, dict) and isinstance(call.get("id"), str)]


def result_of(call: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a call as a message; None for a call that has none yet."""
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
    told = response.get("response") if isinstance(response, dict) else None
    if not isinstance(told, dict):
        return _block(part)
    output = told.get("output", told.get("error"))
    text = output if isinstance(output, str) else json.dumps(told, ensure_ascii=False)
    return {"type": "text", "text": text}


_SPEAKING: Final = frozenset({"user", "gemini"})
_OPENING: Final = 4096
"""Bytes at the start of a document that hold its keys, but for the messages."""

_KEYS: Final = ("sessionId", "projectHash", "startTime", "lastUpdated")
"""Keys that are looked for at the start of a document."""

_NOTES: Final = frozenset({"info", "warning", "error"})


class Gemini:
    """See the module."""

    name = "gemini"
    program = "Gemini CLI"

    def recognises(self, head: bytes) -> bool:
        """A first object with `sessionId` and `projectHash`."""
        first = _first(head)
        return "sessionId" in first and "projectHash" in first and "uuid" not in first

    def facts(self, head: bytes, tail: bytes) -> Facts:
        first = _first(head)
        name = first.text("summary")
        for start, end in lines_with(b'"summary"', tail, len(tail)):
            name = _summary_in(tail[start:end]) or name
        return Facts(
            first.text("sessionId"),
            _cwd(first),
            name,
            _first_prompt(head),
            first.text("startTime"),
            first.text("lastUpdated") if _is_document(head) else None,
        )

    def translate(self, source: Source, report: Report) -> Iterator[Translated]:
        lines = source.lines()
        start = next(lines, (0, b""))
        opening = values(start[1])
        if opening is None:
            yield from self._document(source, report)
            return
        chat = _Chat(Lines(self, report, opening.text("sessionId") or ""))
        yield chat.header(START, opening)
        previous: tuple[Place, bytes] | None = None
        if isinstance(opening.value("messages"), list):
            yield from chat.replaced(opening.value("messages"), START, start[1])
        for place, line in with_numbers(source.lines(), 0):
            if place.number == 1:
                continue
            if previous is not None:
                yield from chat.take(*previous, is_last=False)
            previous = place, line
        if previous is not None:
            yield from chat.take(*previous, is_last=not source.is_complete())
        yield from chat.finish()

    def translate_alone(self, session_id: str, place: Place, message: bytes) -> Iterator[bytes]:
        """The lines that a message of a document becomes; the parents are not those it has there.

        Args:
            session_id: of the document.
            place: where it stands there.
            message: its bytes.
        """
        chat = _Chat(Lines(self, _unheard, session_id))
        for made in (chat.take(place, message, is_last=False), chat.finish()):
            yield from (line for _, line in made)

    def _document(self, source: Source, report: Report) -> Iterator[Translated]:
        """The older form, over many lines."""
        text = b"\n".join(line for _, line in source.lines())
        opening = values(text) or leading_values(text) or Values({})
        chat = _Chat(Lines(self, report, opening.text("sessionId") or ""))
        yield chat.header(START, opening)
        end = 0
        for offset, message in _messages_of(text):
            end = offset + len(message)
            place = Place(0, text.count(b"\n", 0, offset) + 1, offset)
            yield from chat.take(place, message, is_last=False)
        if decode_leniently(text) is None:
            place = Place(0, text.count(b"\n", 0, end) + 1, end)
            report("cut short", place, "the document ends early, or is damaged from here on")
        yield from chat.finish()


def _unheard(kind: str, place: Place, cause: str) -> None:
    """Who translates the whole document is told."""


class _Turn(NamedTuple):
    """A message of the conversation in force.

    Attributes:
        id: its own id.
        above: the uuid of the entry above it.
        line: its bytes.
        place: where it stands.
    """

    id: str
    above: str
    line: bytes
    place: Place


class _Chat:
    """One chat, line after line. The last message waits, for the next line may replace it."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._turns: list[_Turn] = []
        self._waiting: tuple[str, Place, bytes, Values] | None = None

    def header(self, place: Place, opening: Values) -> Translated:
        facts = Facts(
            opening.text("sessionId"),
            _cwd(opening),
            opening.text("summary"),
            created=opening.text("startTime"),
        )
        return self._lines.header(
            place, facts, projectHash=opening.text("projectHash"), kind=opening.text("kind")
        )

    def take(self, place: Place, line: bytes, *, is_last: bool) -> Iterator[Translated]:
        """The next line of the log, or message of the document."""
        lines = self._lines
        found = values(line)
        if found is None:
            yield from lines.stray(line, place, is_last=is_last)
            return
        id = found.text("id")
        if id is not None and found.text("type") in _SPEAKING:
            yield from self._message(id, place, line, found)
            return
        yield from self._settle()
        if "$rewindTo" in found:
            yield from self._rewound(found.text("$rewindTo"), place, line)
        elif "$set" in found and "messages" in found.inside("$set"):
            messages = found.inside("$set").value("messages")
            yield from self.replaced(messages if isinstance(messages, list) else [], place, line)
        else:
            yield self._aside(place, line, found)

    def finish(self) -> Iterator[Translated]:
        yield from self._settle()
        self._lines.report_unknown()

    def _aside(self, place: Place, line: bytes, found: Values) -> Translated:
        lines = self._lines
        kind = "set" if "$set" in found else found.text("type") or ""
        if kind not in _NOTES and kind != "set" and "sessionId" not in found:
            lines.note_unknown(kind, place)
        uuid = lines.uuid(found.text("id"), place, line)
        return lines.custom(
            kind or "line", place, uuid, found.whole(), timestamp=found.text("timestamp")
        )

    def _message(self, id: str, place: Place, line: bytes, found: Values) -> Iterator[Translated]:
        if self._waiting is not None and self._waiting[0] == id:
            _, old_place, old_line, old = self._waiting
            uuid = self._lines.uuid(None, old_place, old_line)
            yield self._lines.custom("replaced", old_place, uuid, old.whole())
            self._waiting = (id, place, line, found)
            return
        yield from self._settle()
        at = next((n for n, turn in enumerate(self._turns) if turn.id == id), None)
        if at is None:
            self._waiting = (id, place, line, found)
            return
        later = self._turns[at + 1 :]
        yield self._branch(self._turns[at].above, place, line)
        del self._turns[at:]
        for turn in (_Turn(id, "", line, place), *later):
            yield from self._said(turn.id, turn.place, turn.line, values(turn.line))

    def _settle(self) -> Iterator[Translated]:
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            yield from self._said(*waiting)

    def _branch(self, above: str, place: Place, line: bytes) -> Translated:
        uuid = self._lines.uuid(None, place, line + b" branch")
        return self._lines.entry("branch", place, uuid, parent=above)

    def _rewound(self, id: str | None, place: Place, line: bytes) -> Iterator[Translated]:
        at = next((n for n, turn in enumerate(self._turns) if turn.id == id), 0)
        above = self._turns[at].above if self._turns else self._lines.leaf
        del self._turns[at:]
        yield self._branch(above, place, line)

    def replaced(self, messages: list[Any], place: Place, line: bytes) -> Iterator[Translated]:
        """Another conversation in place of this one; what both start with stays."""
        written = [
            (message, _line_of(message)) for message in messages if isinstance(message, dict)
        ]
        same = 0
        for turn, (message, text) in zip(self._turns, written, strict=False):
            if turn.id != message.get("id") or _line_of(decode_leniently(turn.line)) != text:
                break
            same += 1
        if same < len(self._turns):
            above = self._turns[same].above
            del self._turns[same:]
            yield self._branch(above, place, line)
        for message, text in written[same:]:
            found = values(text)
            if found is None or found.text("type") not in _SPEAKING:
                continue
            yield from self._said(str(message.get("id", "")), place, text, found)

    def _said(
        self, id: str, place: Place, line: bytes, found: Values | None
    ) -> Iterator[Translated]:
        """The entries of one message: itself, and the results of its tool calls."""
        lines = self._lines
        message = decode_leniently(line) if found is not None else None
        if found is None or not isinstance(message, dict):
            return
        self._turns.append(_Turn(id, lines.leaf, line, place))
        uuid = lines.uuid(id, place, line)
        at = found.text("timestamp")
        if message.get("type") == "user":
            said = {"role": "user", "content": content_of(message.get("content"))}
            yield lines.entry("message", place, uuid, {"message": said}, timestamp=at)
            return
        yield lines.entry("message", place, uuid, {"message": assistant_of(message)}, timestamp=at)
        for number, call in enumerate(calls_of(message)):
            result = result_of(call)
            if result is not None:
                result_uuid = lines.uuid(None, place, line + b" %d" % number)
                yield lines.entry("message", place, result_uuid, {"message": result}, timestamp=at)


def _line_of(message: Any) -> bytes:
    try:
        return orjson.dumps(message)
    except TypeError:
        return json.dumps(message).encode()


def _first(head: bytes) -> Values:
    line, _, rest = head.partition(b"\n")
    if rest and (found := values(line)) is not None:
        return found
    return _leading(head[:_OPENING]) or next(first_values(head), None) or Values({})


@lru_cache(maxsize=1)  # who recognised a document asks for its facts
def _leading(opening: bytes) -> Values | None:
    keys, found_list, _ = opening.partition(b'\n  "messages": [')
    before = values(keys.rstrip(b",") + b"}") if found_list else None
    if before is not None and all(key in before for key in _KEYS):
        return before
    return leading_values(opening)


def _summary_in(line: bytes) -> str | None:
    """The summary that a line gives: a change of the log, or a key of the document."""
    if (patch := values(line)) is not None:
        return patch.inside("$set").text("summary")
    if not line.startswith(b'  "summary":'):
        return None
    key = values(b"{" + line.strip().removesuffix(b",") + b"}")
    return key.text("summary") if key is not None else None


def _cwd(opening: Values) -> str | None:
    folders = opening.value("directories")
    first = folders[0] if isinstance(folders, list) and folders else None
    return first if isinstance(first, str) else None


def _first_prompt(head: bytes) -> str | None:
    messages = chain(first_message(head), (text for _, text in _messages_of(head)))
    for text in messages if _is_document(head) else head.split(b"\n"):
        message = values(text) if b'"user"' in text else None
        if message is None or message.text("type") != "user":
            continue
        said = text_of({"content": content_of(message.value("content"))}).strip()
        if said:
            return said
    return None


def _is_document(head: bytes) -> bool:
    """Whether this is the older form: over many lines, or with its messages in the first."""
    if head.startswith(b"{\n"):
        return True
    opening = values(head.partition(b"\n")[0])
    return opening is None or opening.value("messages") not in (None, [])


def _messages_of(document: bytes) -> Iterator[tuple[int, bytes]]:
    """The messages of a document and their offsets, as many as are whole."""
    if not document.rstrip().endswith(b"}"):
        yield from _messages_of_start(document)
        return
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
    """The same where the document is cut short."""
    text = document.decode("utf-8", "surrogateescape")
    key = text.find('"messages"')
    at = text.find("[", key) if key >= 0 else -1
    offset = len(text[: at + 1].encode("utf-8", "surrogateescape"))
    while at >= 0:
        start = at + 1
        while text[start : start + 1] in (" ", "\t", "\r", "\n", ","):
            start += 1
        try:
            end = _JSON.raw_decode(text, start)[1]
        except (ValueError, RecursionError):
            return
        offset += start - at - 1
        message = text[start:end].encode("utf-8", "surrogateescape")
        yield offset, message
        offset += len(message)
        at = end - 1


_JSON: Final = json.JSONDecoder(parse_int=float)  # int() refuses thousands of digits
