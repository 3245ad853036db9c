"""Passages: the content of an entry for people to read, each part as Markdown.

An `Answer` collects the parts of an assistant's answer, each call's result below the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sessiontree.core.activity import as_typed
from sessiontree.core.embedded import binary_in
from sessiontree.core.entry import ANNOTATIONS
from sessiontree.core.message import (
    IMAGE_BLOCKS,
    THOUGHT_BLOCKS,
    Call,
    Message,
    block_text,
    blocks_of,
    call_in,
    calls_beside,
    indented_text,
    is_result_block,
    kind_of,
    role_of,
    thought_text,
)
from sessiontree.text.markdown import block, code, inline, prose, quote, typed

LONGEST_OPEN: Final = 25  # lines of a tool's result that are shown open; a longer result is folded


def asked(message: Message, *, images: bool = False) -> Iterator[str]:
    """The content of a user's message, or a system message, without results."""
    for part in blocks_of(message):
        if is_result_block(part):
            continue
        if text := as_typed(block_text(part)):
            yield quote(typed(text, images=images))
        else:
            yield other(part)


def answered(message: Message, *, images: bool = False) -> Iterator[str | Call]:
    """The content of an assistant's message, its tool calls in their places."""
    if kind_of(message) in THOUGHT_BLOCKS:
        yield from thought(message, images=images)
    for part in blocks_of(message):
        kind = kind_of(part)
        if (call := call_in(part)) is not None:
            yield call
        elif text := block_text(part):
            yield prose(text, images=images)
        elif kind in THOUGHT_BLOCKS:
            yield from thought(part, images=images)
        elif kind != "text":
            yield other(part)
    content = message.get("content")
    yield from calls_beside(message)
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal and not content:
        yield prose(refusal, images=images)


def thought(part: Mapping[str, Any], *, images: bool = False) -> Iterator[str]:
    """Thinking, folded; one line where it is sealed."""
    thinking = thought_text(part)
    if thinking:
        yield folded("Thinking", quote(prose(thinking, images=images)))
    elif kind_of(part) != "text":
        yield "*Thinking that only the provider can read.*"


def called(call: Call) -> str:
    """A tool call: the tool's name, and its arguments."""
    name = code(call.name) or "a tool"
    return "\n\n".join([f"**Calls {name}**", *_arguments(call.arguments)])


def _arguments(arguments: Any) -> Iterator[str]:
    if isinstance(arguments, str):
        yield block(arguments, "json" if arguments.lstrip().startswith("{") else "")
        return
    if not isinstance(arguments, Mapping):
        if arguments is not None:
            yield block(indented_text(arguments), "json")
        return
    long = {k: v for k, v in arguments.items() if isinstance(v, str) and "\n" in v.strip("\n")}
    short = {key: value for key, value in arguments.items() if key not in long}
    if short:
        yield block(indented_text(short), "json")
    for key, text in long.items():
        yield f"{code(str(key))}:\n\n{block(text)}"


def result(part: Mapping[str, Any], name: str = "") -> str:
    """The result of a tool call; with the tool's name where it is not below its call."""
    failed = part.get("isError") is True or part.get("is_error") is True
    title = ("Error" if failed else "Result") + (f" of {inline(name)}" if name else "")
    content = part.get("content", part.get("output"))
    blocks = list(blocks_of({"content": content}))
    texts = [text for piece in blocks if (text := block_text(piece))]
    others = [other(piece) for piece in blocks if not block_text(piece)]
    if isinstance(content, Mapping):
        texts.append(indented_text(content))
    text = "\n".join(texts)
    count = text.rstrip("\n").count("\n") + 1
    parts = [] if texts or others else [f"*{title}: empty.*"]
    if texts and count > LONGEST_OPEN:
        parts.append(folded(f"{title}, {count:,} lines", block(text)))
    elif texts:
        parts.append(f"{title}:\n\n{block(text)}")
    return "\n\n".join(parts + others)


def ran(message: Message) -> str:
    """A command that a user ran, and its output."""
    command, output = message.get("command"), message.get("output")
    parts = [block(f"$ {command}", "sh")]
    if isinstance(output, str) and output:
        parts.append(result({"content": output}))
    code_ = message.get("exitCode")
    if isinstance(code_, int) and code_:
        parts.append(f"*Exit code {code_}.*")
    return "\n\n".join(parts)


def other(part: Mapping[str, Any]) -> str:
    """A block that is not text: an image and the like by name, an unknown type as JSON."""
    if (found := binary_in(part)) is not None:
        return f"*[{inline(found[0])}, {size(found[1])}]*"
    kind = kind_of(part)
    is_image = kind in IMAGE_BLOCKS
    title = f"[{kind.replace('_', ' ')}]" if is_image else f"{inline(kind or 'something')}:"
    return f"*{title}*\n\n{block(indented_text(part), 'json')}"


def size(count: int) -> str:
    """Bytes for people: `1.0 MB`."""
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"


def folded(title: str, text: str) -> str:
    """Text that a reader unfolds by its title."""
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def summarized(title: str, text: Any, *, images: bool = False) -> str:
    """A summary, below its title."""
    has_text = isinstance(text, str) and text.strip()
    quoted = f"\n\n{quote(prose(text, images=images))}" if has_text else ""
    return f"---\n\n**{title}**{quoted}\n\n---"


def noted(kind: str, fields: Mapping[str, Any], *, images: bool = False) -> str | None:
    """An entry that is not a message; empty for nothing, None for an unknown type."""
    if kind == "compaction":
        tokens = fields.get("tokensBefore")
        before = f", {tokens:,} tokens before" if isinstance(tokens, int) else ""
        return summarized(f"Compacted here{before}", fields.get("summary"), images=images)
    if kind in ("branch_summary", "stack_summary"):
        left = code(str(fields.get("fromUuid") or "")[:8])
        return summarized(
            f"Summary of the branch left at {left}", fields.get("summary"), images=images
        )
    if kind == "merge":
        merged = code(str(fields.get("mergedUuid") or "")[:8])
        return summarized(f"Merged the branch up to {merged}", fields.get("summary"), images=images)
    if kind == "context_edit":
        target = code(str(fields.get("targetUuid") or "")[:8])
        done = "taken out of" if fields.get("replacement") is None else "replaced in"
        return f"*From here on {target} is {done} the context.*"
    if kind == "model_change":
        model = "/".join(str(fields[k]) for k in ("provider", "modelId") if fields.get(k))
        return f"*Model: {code(model)}*"
    if kind == "thinking_level_change":
        return f"*Thinking: {inline(str(fields.get('thinkingLevel')))}*"
    if kind in ANNOTATIONS or kind in ("branch", "stack_push"):
        return ""
    return None


def speaker(message: Message) -> str:
    """The speaker of a message, as a title."""
    role = role_of(message)
    known = {"bashExecution": "User", "developer": "System", "tool": "Assistant"}
    return inline(known.get(role, role[:1].upper() + role[1:]) or "Somebody")


class Answer:
    """The parts of an assistant's answer in order, up to the last result of a call in it."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.open: dict[str, int] = {}  # the place of the missing result of each call, by its id
        self.is_answered = False

    def add(self, *parts: str) -> None:
        self._parts += parts

    def add_call(self, call: Call) -> None:
        """Add a call at the end, with a place for its result."""
        self.open[call.id] = len(self._parts) + 1
        self.add(called(call), "*No result was recorded.*")

    def answer(self, id: str, result: str) -> bool:
        """Put a result below its call; False where no call waits for it."""
        place = self.open.pop(id, None)
        if place is None:
            return False
        self.is_answered = True
        self._parts[place] = result
        return True

    def parts(self) -> list[str]:
        return self._parts
