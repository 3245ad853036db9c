"""A message of Gemini CLI as messages in the pi coding agent's shape.

An answer has its text in `content`, and its thoughts and calls in `thoughts` and `toolCalls`.
After a resume, a compression or an abort `content` has all of them as Gemini's parts, beside the
old keys: where a part is a thought or a call, `content` alone is the answer. The results are in
`toolCalls[].result`, and a second time in a message of the user, so the second is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator
from typing import Any, Final

import orjson

from sessiontree.core.header import KEY
from sessiontree.core.usage import spent_before

Part = dict[str, Any]

_IGNORED: Final = ("/", "?", "<session_context>", "<hook_context>")
"""The starts of user messages that Gemini CLI leaves out of a conversation that it resumes."""

SNAPSHOT: Final = "<state_snapshot>"
_RESPONSE: Final = "functionResponse"
_SUBJECT: Final = re.compile(r"\*\*(.+?)\*\*", re.DOTALL)


def is_ignored(content: Any) -> bool:
    """Whether Gemini CLI leaves out a user message with this content when it resumes."""
    parts = content if isinstance(content, list) else [content]
    text = "".join(map(_text_of_any, parts)).strip()
    return not text or text.startswith(_IGNORED)


def is_snapshot(message: Part) -> bool:
    """Whether this is the summary that stands first in a compressed conversation."""
    parts = parts_of(message.get("content"))
    return message.get("type") == "user" and any(SNAPSHOT in _text_of_any(part) for part in parts)


def _text_of_any(part: Any) -> str:
    """The text of a part; a mark for another kind of part, which is never ignored."""
    if isinstance(part, str):
        return part
    if not isinstance(part, dict) or not part:
        return ""
    text = part.get("text")
    return text if isinstance(text, str) else "[part]"


class Results:
    """The results that one conversation has so far."""

    def __init__(self) -> None:
        self._calls: set[str] = set()
        self._extras: set[bytes] = set()

    def note(self, message: Part) -> None:
        """Note what one more answer of the conversation has beside its responses."""
        for call in calls_of(message):
            extras = (part for part in parts_of(call.get("result")) if _response_in(part) is None)
            self._extras.update(text for part in extras if (text := json_of(part)) is not None)

    def add(self, calls: Iterable[str]) -> None:
        """Note the calls that have a result."""
        self._calls.update(calls)

    def forget(self, calls: Iterable[str]) -> None:
        """Note that the results of calls are not part of the conversation any more."""
        self._calls.difference_update(calls)

    def split(self, parts: Iterable[Any]) -> tuple[list[list[Any]], list[Any]]:
        """The results in a user message that are not known yet, and the parts that are no result.

        What follows a response and is no text, such as an image, belongs to the response.
        """
        results: list[list[Any]] = []
        rest: list[Any] = []
        seen = set(self._calls)
        into = rest
        for part in parts:
            response = _response_in(part)
            if response is not None:
                into = [part]
                id = response.get("id")
                if not isinstance(id, str) or id not in seen:
                    results.append(into)
                if isinstance(id, str):
                    seen.add(id)
            elif not self._is_extra(part):
                (rest if is_text(part) else into).append(part)
        return results, rest

    def _is_extra(self, part: Any) -> bool:
        return bool(self._extras) and json_of(part) in self._extras


def messages_of(message: Part, known: Results) -> list[Part]:
    """The messages made from one; `known` are the results of the conversation so far."""
    content = message.get("content")
    if message.get("type") == "gemini":
        calls = calls_of(message)
        ids = frozenset(call["id"] for call in calls)
        results = (_result_of_call(call, ids) for call in calls)
        return [_answer(message), *(each for each in results if each is not None)]
    if not isinstance(content, list) or all(_response_in(part) is None for part in content):
        return [{"role": "user", "content": content_of(content)}]
    found, rest = known.split(content)
    made = [_result(parts) for parts in found]
    return [*made, {"role": "user", "content": content_of(rest)}] if rest else made


def content_of(content: Any) -> Any:
    """A list of Gemini's parts as blocks; a string unchanged."""
    if isinstance(content, str):
        return content
    return list(map(_block, parts_of(content)))


def parts_of(content: Any) -> list[Any]:
    if isinstance(content, list):
        return content
    return [content] if isinstance(content, dict | str) and content else []


def calls_of(message: Part) -> list[Part]:
    calls = message.get("toolCalls")
    found = calls if isinstance(calls, list) else []
    return [call for call in found if isinstance(call, dict) and isinstance(call.get("id"), str)]


def meaning(message: Part) -> bytes | None:
    """What a model gets of a message, alike for a text and a list with that text.

    None for one that is nested too deeply.
    """
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or ()
    kept = [block for block in blocks if block != {"type": "text", "text": ""}]
    return json_of([message["role"], message.get("toolCallId"), kept])


def _answer(message: Part) -> Part:
    """An assistant message. Its id marks it, so that a repeated answer is counted once."""
    made: Part = {"role": "assistant", "content": list(_blocks_of_answer(message))}
    if isinstance(message.get("model"), str):
        made |= {"provider": "google", "model": message["model"]}
    if isinstance(message.get("tokens"), dict):
        made |= {"id": message.get("id"), "usage": message["tokens"]}
        made |= spent_before(message.get(KEY))
    return made


def _blocks_of_answer(message: Part) -> Iterator[Part]:
    parts = parts_of(message.get("content"))
    if any(isinstance(part, dict) and (part.get("thought") or _call_in(part)) for part in parts):
        ids = [call["id"] for call in calls_of(message)]
        for part in parts:
            call = _call_in(part)
            if call is None:
                yield _block(part)
                continue
            id = call.get("id") or (ids[0] if ids else None)
            ids = ids[1:]
            yield _call(id, call) if isinstance(id, str) else _block(part)
        return
    thoughts = message.get("thoughts")
    for thought in thoughts if isinstance(thoughts, list) else ():
        if isinstance(thought, dict):
            yield {"type": "thinking", "thinking": _thought(thought)}
    yield from map(_block, parts)
    for call in calls_of(message):
        yield _call(call["id"], call)


def _call(id: str, call: Part) -> Part:
    return {"type": "toolCall", "id": id, "name": call.get("name"), "arguments": call.get("args")}


def _call_in(part: Any) -> Part | None:
    call = part.get("functionCall") if isinstance(part, dict) else None
    return call if isinstance(call, dict) else None


def _thought(thought: Part) -> str:
    parts = (thought.get("subject"), thought.get("description"))
    return "\n".join(part for part in parts if isinstance(part, str) and part)


def _thought_in(text: str) -> str:
    """The text of a part that is a thought, in the form of `_thought`."""
    found = _SUBJECT.search(text)
    if found is None:
        return text
    subject, description = found[1].strip(), text[: found.start()] + text[found.end() :]
    return _thought({"subject": subject, "description": description.strip()})


def _block(part: Any) -> Part:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, dict):
        return {"type": "part", "part": part}
    if isinstance(part.get("text"), str):
        if part.get("thought"):
            return {"type": "thinking", "thinking": _thought_in(part["text"])}
        return {"type": "text", "text": part["text"]}
    inline = part.get("inlineData")
    if isinstance(inline, dict):
        return {"type": "image", "data": inline.get("data"), "mimeType": inline.get("mimeType")}
    return {"type": next(iter(part), "part"), **part}


def _result_of_call(call: Part, ids: Container[str]) -> Part | None:
    """The result of a call as a message; None for a call without one.

    `ids` has the ids of all calls of its answer.
    """
    result = call.get("result")
    if result is None:
        return None
    parts = result if isinstance(result, list) else [result]
    made = _result_message(call["id"], call.get("name"), _own_parts(call["id"], parts, ids))
    return {**made, "isError": call.get("status") not in ("success", None)}


def _own_parts(id: str, parts: list[Any], ids: Container[str]) -> list[Any]:
    """The parts of one call's result: after a resume each of parallel calls has all results."""
    own: list[Any] = []
    seen: set[str] = set()
    is_own = True
    for part in parts:
        response = _response_in(part)
        if response is not None:
            named = response.get("id")
            is_own = not isinstance(named, str) or (
                named not in seen and (named == id or named not in ids)
            )
            if isinstance(named, str):
                seen.add(named)  # it may be repeated
        if is_own:
            own.append(part)
    return own


def _result(parts: list[Any]) -> Part:
    """The result that the parts of a user message give."""
    response = _response_in(parts[0]) or {}
    given = response.get("response")
    made = _result_message(response.get("id"), response.get("name"), parts)
    return {**made, "isError": isinstance(given, dict) and "error" in given}


def _result_message(id: Any, name: Any, parts: list[Any]) -> Part:
    content = [_result_block(part) for part in parts]
    return {"role": "toolResult", "toolCallId": id, "toolName": name, "content": content}


def _response_in(part: Any) -> Part | None:
    response = part.get(_RESPONSE) if isinstance(part, dict) else None
    return response if isinstance(response, dict) else None


def _result_block(part: Any) -> Part:
    response = _response_in(part)
    given = response.get("response") if response is not None else None
    if not isinstance(given, dict):
        return _block(part)
    output = given.get("output", given.get("error"))
    text = output if isinstance(output, str) else json.dumps(given, ensure_ascii=False)
    return {"type": "text", "text": text}


def is_text(part: Any) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and isinstance(part.get("text"), str))


def json_of(value: Any) -> bytes | None:
    """A value as JSON; None for one that is nested too deeply."""
    try:
        return bytes(memoryview(orjson.dumps(value)))  # a copy: the first has a kilobyte at least
    except TypeError:  # a lone surrogate, an integer of more than 64 bits, a deep nesting
        pass
    try:
        return json.dumps(value).encode()
    except RecursionError:
        return None
