"""Messages of any shape as Codex stores them: the items of OpenAI Responses.

Codex drops a line with an item that it does not know, so such an item is left out by name. Its
terminal shows events, not items, so each text has an event beside its item.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sessiontree.context.providers import parts
from sessiontree.context.providers.reading import Reading
from sessiontree.context.providers.responses import ID_LIMIT, Items
from sessiontree.context.providers.values import Ids
from sessiontree.core.message import RESULT_ITEMS, Message, kind_of, text_of
from sessiontree.formats import writing

Item = dict[str, Any]
Line = tuple[str, dict[str, Any]]
"""The type of a line of a rollout, and its payload."""

_OWN_ITEMS: Final = frozenset(
    {
        *("local_shell_call", "web_search_call", "tool_search_call", "tool_search_output"),
        *("image_generation_call", "compaction"),
    }
)
"""Further items that Codex reads."""

_TEXTS_OF: Final = {
    "function_call": ("name", "arguments", "call_id"),
    "custom_tool_call": ("name", "input", "call_id"),
}
"""The keys of calls, which are texts."""

_OWN_CONTENT: Final = frozenset({"input_text", "output_text", "input_image"})
_FRAGMENTS: Final = (
    ("<environment_context>", "</environment_context>"),
    ("<user_instructions>", ""),  # of older versions
    ("# agents.md instructions", "</instructions>"),
    ("<user_shell_command>", "</user_shell_command>"),
    ("<skill>", "</skill>"),
    ("<turn_aborted>", "</turn_aborted>"),
    ("<subagent_notification>", "</subagent_notification>"),
)
"""The start and the end, in lower case, of texts of the user that Codex takes for its own."""

_STARTS: Final = tuple(start for start, _ in _FRAGMENTS)

_UNSEALED: Final = "thinking that OpenAI did not seal is shown, but not sent to the model"


def is_turn(item: Message) -> bool:
    """Whether Codex counts an item as the start of a turn when it takes turns back."""
    if item.get("role") != "user" or kind_of(item) != "message":
        return False
    content = item.get("content")
    return not any(map(_is_fragment, content if isinstance(content, list) else ()))


def _is_fragment(block: Any) -> bool:
    text = block.get("text") if isinstance(block, dict) else None
    if not isinstance(text, str):
        return False
    bare = text.strip().lower()
    return bare.startswith(_STARTS) and any(
        bare.startswith(start) and bare.endswith(end) for start, end in _FRAGMENTS
    )


class CodexMessages:
    def __init__(self, losses: writing.Losses) -> None:
        self._losses = losses
        self._reading = Reading(losses, None)
        self._items = Items(losses)
        self._ids = Ids(ID_LIMIT)
        self._calls: dict[tuple[str, str], str] = {}  # by entry and stored id
        self._last: dict[str, str] = {}  # by stored id
        self._open: dict[str, list[str]] = {}  # by stored id, those without a result
        self._entry = ""
        self._thinking: list[parts.Thinking] = []  # of the last message

    def items(self, message: Message, entry: str) -> list[Item]:
        """The items of a message of an entry; none for one of the system."""
        self._entry = entry
        self._thinking = []
        if message.get("role") == "system":
            return []
        if _is_own(message):
            return [self._own(message)]
        found: list[tuple[parts.Side, list[parts.Part]]] = []
        for side, part in self._reading.parts_of(message):
            if not found or found[-1][0] != side:
                found.append((side, []))
            if isinstance(part, parts.Thinking):
                self._thinking.append(part)
            found[-1][1].append(self._fit(part))
        if message.get("partial"):
            self._losses.add("a partial message is not marked as partial")
        return [item for side, run in found for item in self._of_side(side, run)]

    def _own(self, item: Message) -> Item:
        stored = item.get("call_id")
        if not isinstance(stored, str):
            return dict(item)
        is_result = kind_of(item) in RESULT_ITEMS
        return {**item, "call_id": self._answered(stored) if is_result else self._id(stored)}

    def _of_side(self, side: parts.Side, run: list[parts.Part]) -> Iterator[Item]:
        items = self._items
        made = items.user(run) if side == "user" else items.assistant(self._kept(run))
        for item in made:
            content = item.get("content")
            if isinstance(content, str):
                kind = "output_text" if side == "assistant" else "input_text"
                item["content"] = [{"type": kind, "text": content}]
            yield item

    def _kept(self, run: Sequence[parts.Part]) -> list[parts.Part]:
        """The parts of an answer that Codex can send; ids only beside reasoning that is sealed."""
        kept: list[parts.Part] = []
        for part in run:
            if isinstance(part, parts.Hosted):
                self._losses.add(f"a block of the kind {kind_of(part.block)!r} is left out")
            elif isinstance(part, parts.Thinking) and part.maker != "openai":
                self._losses.add(_UNSEALED)
            else:
                kept.append(part)
        if any(isinstance(part, parts.Thinking) for part in kept):
            return kept
        return [
            replace(part, item_id=None) if isinstance(part, parts.Text | parts.Call) else part
            for part in kept
        ]

    def _fit(self, part: parts.Part) -> parts.Part:
        """A part with an id that OpenAI takes, and without media that Codex does not send."""
        if isinstance(part, parts.Call):
            return replace(part, id=self._id(part.id))
        if isinstance(part, parts.Result):
            shown = tuple(map(self._without_media, part.parts))
            return replace(part, id=self._answered(part.id), parts=shown)
        return self._without_media(part) if isinstance(part, parts.Media) else part

    def _id(self, stored: str) -> str:
        """The id of a call, the same for each branch that has its entry."""
        key = self._entry, stored
        id = self._last[stored] = self._calls.get(key) or self._ids.give(stored)
        self._open.setdefault(stored, []).append(id)
        return self._calls.setdefault(key, id)

    def _answered(self, stored: str) -> str:
        """The id of the call that a result answers."""
        waiting = self._open.get(stored)
        return waiting.pop() if waiting else self._last.get(stored) or self._id(stored)

    def _without_media(self, part: parts.Text | parts.Media) -> parts.Text | parts.Media:
        if isinstance(part, parts.Text) or (part.kind == "image" and part.data):
            return part
        return parts.Text(self._losses.replaced(part, ": Codex sends only images, by their bytes"))

    def last_thoughts(self, message: Message) -> list[str]:
        """The readable thinking of the message of which the items were made last."""
        if kind_of(message) in ("reasoning", "compaction") and message.get("role") is None:
            told = parts.thinking_in(message, None).told
            return [told] if told else []
        if message.get("role") != "assistant":
            return []
        return [text for part in self._thinking if (text := part.text or part.told)]


def events(item: Item, *, is_prompt: bool) -> Iterator[Line]:
    """The events that show an item in Codex's terminal."""
    if kind_of(item) != "message":
        return
    text = text_of(item)
    if item.get("role") == "assistant" and text:
        yield "event_msg", {"type": "agent_message", "message": text}
    elif is_prompt:
        images = [
            block["image_url"]
            for block in item.get("content", ())
            if kind_of(block) == "input_image" and isinstance(block.get("image_url"), str)
        ]
        yield "event_msg", {"type": "user_message", "message": text, "images": images}


def _is_own(message: Message) -> bool:
    """Whether Codex reads an item as it is; it drops a line that it does not understand."""
    kind = kind_of(message)
    if kind == "message":
        is_known = message.get("role") in ("user", "assistant", "developer")
        return is_known and _are_own_blocks(message.get("content"))
    if message.get("role") is not None:
        return False
    if kind in ("function_call_output", "custom_tool_call_output"):
        output = message.get("output")
        return isinstance(output, str) or _are_own_blocks(output)
    if kind in _TEXTS_OF:
        return writing.are_texts(message, *_TEXTS_OF[kind])
    if kind == "reasoning":
        return isinstance(message.get("summary"), list)
    return kind in _OWN_ITEMS


def _are_own_blocks(content: Any) -> bool:
    return isinstance(content, list) and all(map(_is_own_block, content))


def _is_own_block(block: Any) -> bool:
    if not isinstance(block, Mapping) or kind_of(block) not in _OWN_CONTENT:
        return False
    if kind_of(block) == "input_image":
        address = block.get("image_url")
        return isinstance(address, str) and address.startswith("data:")
    return isinstance(block.get("text"), str)
