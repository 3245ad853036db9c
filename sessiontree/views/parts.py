"""The one walk over a message: what it says, in parts.

The page, Markdown, the terminal and `view` show parts, each in its own way; none of them looks at
the blocks of a message itself.

Invariants: no content fails; a block that is not understood is a part too, so that all of them show
the same; bytes are in no text of a part, only in its `block`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from sessiontree.core.activity import as_typed, error_of
from sessiontree.core.entry import SUMMARIES, Entry, edit_of
from sessiontree.core.media import binary_in
from sessiontree.core.message import (
    RESULT_ITEMS,
    THOUGHT_BLOCKS,
    TOOL,
    Message,
    ToolCall,
    block_text,
    blocks_of,
    call_in,
    calls_beside,
    failure_in,
    indented_text,
    is_item,
    is_partial,
    is_result_block,
    kind_of,
    printed,
    result_ids,
    role_of,
    text_of,
    thought_text,
    typed_text,
)
from sessiontree.text.preview import media_in_words, preview
from sessiontree.text.terminal import as_shown
from sessiontree.views.acts import Act, Detail, act_of, details_of

_RESULTS: Final = ("toolResult", TOOL)
_ERRORS: Final = ("errorMessage", "error")
_STRUCTURE: Final = ("type", "uuid", "parentUuid", "lane", "timestamp", "crc", "spilled")


class Part(msgspec.Struct, frozen=True, gc=False):
    """A part of a message or an entry."""

    kind: (
        Literal["text", "thinking", "call", "result", "media", "refusal"]
        | Literal["error", "broken", "shell", "summary", "other"]
    )
    text: str = ""
    """What it says; of thinking that only the provider can read, and of other blocks, empty."""

    block: Mapping[str, Any] = {}
    """The block, or the message, that it was made of."""

    call: ToolCall | None = None
    id: str = ""
    """Of a result: the id of its call."""

    pieces: tuple[Part, ...] = ()
    """Of a result, a command of the user, or a call with its result: what came out, in parts."""

    act: Act | None = None
    """Of a call with its result: what it did."""

    failed: bool = False


def parts(message: Message) -> Iterator[Part]:
    """Yield what a message says, in order; what the user typed without the tags of a program."""
    role = message.get("role")
    if role == "bashExecution" and "command" in message:
        output = tuple(_pieces(message.get("output")))
        command = message.get("command")
        yield Part("shell", command if isinstance(command, str) else "", message, pieces=output)
        return
    if role in _RESULTS or kind_of(message) in RESULT_ITEMS:
        yield _result(message, next(iter(result_ids(message)), ""))
        return
    cause = error_of(message)
    is_all = cause is not None and cause == text_of(message)
    if not is_all:
        yield from _said(message)
    if isinstance(refusal := message.get("refusal"), str) and refusal:
        yield Part("refusal", refusal)
    errors = [text for key in _ERRORS if isinstance(text := message.get(key), str) and text]
    if is_partial(message):
        yield Part("broken", errors[0] if errors else "", message)
    else:
        yield from (Part("error", text) for text in errors or filter(None, [cause]))


def parts_of(keys: Mapping[str, Any], message: Message | None = None) -> Iterator[Part]:
    """Yield the parts of an entry, given its keys; `message` is what a handle resolves to."""
    found = message or keys.get("message")
    if isinstance(found, Mapping):
        yield from parts(found)
    elif isinstance(block := keys.get("block"), Mapping):
        yield from _of_block(block, is_typed=False)
    elif isinstance(summary := keys.get("summary"), str):
        yield Part("summary", summary)
    elif (typed := typed_text(keys)) is not None:
        yield Part("text", typed)
    elif (failure := failure_in(keys)) is not None:
        yield Part("error", failure)
    elif "content" in keys:
        yield from parts({"role": "custom", "content": keys["content"]})
    elif rest := {key: value for key, value in keys.items() if key not in _STRUCTURE}:
        yield Part("other", block=rest)


def _said(message: Message) -> Iterator[Part]:
    is_empty = True
    if kind_of(message) in THOUGHT_BLOCKS:
        yield Part("thinking", thought_text(message), message)
        is_empty = False
    is_typed = role_of(message) != "assistant"
    sections = {"content": message.get("sections")}  # of a system message of some providers
    for block in blocks_of(message if message.get("content") else sections):
        is_empty = False
        yield from _of_block(block, is_typed=is_typed)
    for call in calls_beside(message):
        is_empty = False
        yield Part("call", call=call)
    if is_empty and is_item(message):
        yield Part("other", block=message)


def _of_block(block: Mapping[str, Any], *, is_typed: bool) -> Iterator[Part]:
    if (call := call_in(block)) is not None:
        yield Part("call", block=block, call=call)
    elif is_result_block(block):
        yield _result(block, block["tool_use_id"])
    elif text := block_text(block):
        yield Part("text", as_typed(text) if is_typed else text, block)
    elif kind_of(block) in THOUGHT_BLOCKS:
        yield Part("thinking", thought_text(block), block)
    else:
        yield from _piece(block)


def _piece(block: Mapping[str, Any]) -> Iterator[Part]:
    if text := block_text(block):
        yield Part("text", text, block)
    elif isinstance(refusal := block.get("refusal"), str) and refusal:
        yield Part("refusal", refusal, block)
    elif (found := binary_in(block)) is not None:
        yield Part("media", media_in_words(*found), block)
    elif kind_of(block) != "text":
        yield Part("other", block=block)


def _pieces(content: Any) -> Iterator[Part]:
    if isinstance(content, Mapping):
        yield Part("text", indented_text(content))
    for block in blocks_of({"content": content}):
        yield from _piece(block)


def _result(result: Mapping[str, Any], id: str) -> Part:
    content = result.get("content", printed(result.get("output")))
    failed = result.get("isError") is True or result.get("is_error") is True
    return Part("result", block=result, id=id, pieces=tuple(_pieces(content)), failed=failed)


class Remark(NamedTuple):
    """What an entry that is not a message does: words around a name, and perhaps a summary."""

    words: str
    name: str = ""
    done: str = ""
    summary: str | None = None


def note_of(kind: str, fields: Mapping[str, Any]) -> Remark | None:
    """Return what an entry does; None if it is a message, an annotation or of an unknown type."""
    if kind == "model_change":
        names = (str(fields[key]) for key in ("provider", "modelId") if fields.get(key))
        return Remark("Model:", "/".join(names))
    if kind == "thinking_level_change":
        return Remark("Thinking:", str(fields.get("thinkingLevel")))
    if kind == "context_edit":
        done = "is taken out of" if fields.get("replacement") is None else "is replaced in"
        is_valid = edit_of(fields) is not None
        told = f"{done} the context" if is_valid else "stays as it is: the edit is not valid"
        return Remark("From here on", _short(fields.get("targetUuid")), told)
    text = fields.get("summary")
    summary = text if isinstance(text, str) else ""
    if kind == "compaction":
        tokens = fields.get("tokensBefore")
        before = f"{tokens:,} tokens before" if isinstance(tokens, int) else ""
        return Remark("Compacted here", before, summary=summary)
    if kind == "merge":
        merged = _short(fields.get("mergedUuid"))
        return Remark("Merged the branch up to", merged, summary=summary)
    if kind in SUMMARIES:
        left = _short(fields.get("fromUuid"))
        return Remark("Summary of the branch left at", left, summary=summary)
    return None


def _short(uuid: Any) -> str:
    return str(uuid or "")[:8]


def title_of(part: Part) -> str:
    """What a part is, in words for before its text, or instead of it."""
    match part.kind:
        case "thinking":
            return "Thinking" if part.text else "Thinking that only the provider can read"
        case "result" | "shell":
            return "Error" if part.failed else "Result"
        case "error":
            return "The answer failed"
        case "broken":
            return "This message broke off"
    return kind_of(part.block) or "something"


def split_arguments(arguments: Any) -> tuple[dict[str, str], Any]:
    """The arguments of a call that have several lines, by name, and all others; None for none."""
    if not isinstance(arguments, Mapping):
        return {}, arguments
    long = {k: v for k, v in arguments.items() if isinstance(v, str) and "\n" in v.strip("\n")}
    short = {key: value for key, value in arguments.items() if key not in long}
    return long, short or None


def whole_text_of(message: Message) -> str:
    """The text of a message, with its calls and results whole."""
    return _joined(text_of_part(part) for part in parts(message))


def text_of_message(message: Message) -> str:
    """The text of a message, with its calls and results in short."""
    return _joined(text_of_part(part, in_short=True) for part in parts(message))


def text_of_entry(entry: Entry, message: Message | None = None) -> str:
    """The text of an entry, or else its preview; `message` is what a handle resolves to."""
    keys = {key: entry.get(key) for key in ("message", "block", "summary", "content")}
    given = {key: value for key, value in keys.items() if isinstance(value, dict | list | str)}
    found = (text_of_part(part, in_short=True) for part in parts_of(given, message))
    return _joined(found) or preview(entry)


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(text.rstrip() for text in texts if text.strip())


def text_of_part(part: Part, *, in_short: bool = False) -> str:
    """The text of a part, whole or with its calls, and what is not text, in short."""
    if part.call is not None:
        if in_short:
            return act_of(part.call).what
        pieces = (as_shown(text_of_part(piece)) for piece in part.pieces)
        return _joined([_text_of_call(part.call), *pieces])
    is_sealed = part.kind == "thinking" and not (part.text or in_short)
    said = {
        "thinking": f"({title_of(part)})" if is_sealed else f"(thinking) {part.text}",
        "media": f"[{part.text}]",
        "broken": f"(broke off) {part.text}",
        "shell": f"$ {part.text}",
        "other": f"[{title_of(part)}]" if in_short else indented_text(part.block),
    }.get(part.kind, part.text)
    pieces = (text_of_part(piece, in_short=in_short) for piece in part.pieces)
    return _joined([said, *map(as_shown, pieces)])


def _text_of_call(call: ToolCall) -> str:
    act = act_of(call)
    return "\n".join([act.what, *map(_text_of_detail, details_of(call, act))])


def _text_of_detail(detail: Detail) -> str:
    gap = "" if not detail.name else ":\n" if "\n" in detail.text else ": "
    return f"{detail.name}{gap}{detail.text}"
