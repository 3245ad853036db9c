"""The whole content of an entry in parts, for a screen that shows each in its own way.

Invariants: no content fails; what is not known is shown as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from sessiontree.core.activity import as_typed
from sessiontree.core.message import (
    RESULT_ITEMS,
    THOUGHT_BLOCKS,
    TOOL,
    Call,
    Message,
    block_text,
    blocks_of,
    call_in,
    calls_beside,
    indented_text,
    is_result_block,
    kind_of,
    message_in,
    text_of,
    thought_text,
    typed_text,
)
from sessiontree.text.preview import shown

_RESULTS: Final = ("toolResult", TOOL)
_ERRORS: Final = ("errorMessage", "error")


class Part(NamedTuple):
    """A part of an entry.

    Attributes:
        kind: what the part is.
        title: the name of the tool that is called; else empty.
        text: the text, with all its lines.
    """

    kind: Literal["text", "thinking", "call", "result", "error", "summary", "other"]
    title: str
    text: str


def parts_of(keys: Mapping[str, Any], message: Message | None = None) -> list[Part]:
    """The parts of an entry, given its keys; `message` is what a handle resolves to."""
    found = message or message_in(keys)
    if found is not None:
        return list(_of_message(shown(found)))
    if isinstance(summary := keys.get("summary"), str):
        return [Part("summary", "", summary)]
    if (typed := typed_text(keys)) is not None:
        return [Part("text", "", typed)]
    if text := text_of({"content": keys.get("content")}):
        return [Part("text", "", text)]
    rest = {key: value for key, value in keys.items() if key not in _STRUCTURE}
    return [Part("other", "", indented_text(rest))] if rest else []


_STRUCTURE: Final = ("type", "uuid", "parentUuid", "lane", "timestamp", "crc", "spilled")


def _of_message(message: Message) -> Iterator[Part]:
    role = message.get("role")
    if role == "bashExecution":
        yield Part("call", "$", str(message.get("command", "")))
        yield Part("result", "", str(message.get("output", "")))
        return
    if role in _RESULTS or kind_of(message) in RESULT_ITEMS:
        yield _result(message)
        return
    for block in blocks_of(message):
        yield from _of_block(block, is_user=role == "user")
    yield from map(_call, calls_beside(message))
    if kind_of(message) in THOUGHT_BLOCKS:
        yield from _thought(message)
    if isinstance(refusal := message.get("refusal"), str) and refusal:
        yield Part("text", "", refusal)
    for key in _ERRORS:
        if isinstance(error := message.get(key), str) and error:
            yield Part("error", "", error)


def _of_block(block: Mapping[str, Any], *, is_user: bool) -> Iterator[Part]:
    kind = kind_of(block)
    if (call := call_in(block)) is not None:
        yield _call(call)
    elif is_result_block(block):
        yield _result(block)
    elif text := block_text(block):
        yield Part("text", "", as_typed(text) if is_user else text)
    elif kind in THOUGHT_BLOCKS:
        yield from _thought(block)
    elif kind != "text":
        yield Part("other", "", indented_text(block))


def _thought(block: Mapping[str, Any]) -> Iterator[Part]:
    yield Part("thinking", "", thought_text(block) or "(only the provider can read it)")


def _call(call: Call) -> Part:
    arguments = call.arguments
    if isinstance(arguments, Mapping):
        lines = (
            f"{key}: {value if isinstance(value, str) else indented_text(value)}"
            for key, value in arguments.items()
        )
        return Part("call", call.name, "\n".join(lines))
    if arguments is None:
        return Part("call", call.name, "")
    text = arguments if isinstance(arguments, str) else indented_text(arguments)
    return Part("call", call.name, text)


def _result(part: Mapping[str, Any]) -> Part:
    failed = part.get("isError") is True or part.get("is_error") is True
    content = part.get("content", part.get("output"))
    texts = [block_text(block) or indented_text(block) for block in blocks_of({"content": content})]
    if isinstance(content, Mapping):
        texts.append(indented_text(content))
    return Part("error" if failed else "result", "", "\n".join(texts))
