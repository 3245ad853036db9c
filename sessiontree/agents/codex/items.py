"""Items of Codex: messages of any shape as items, and prompts.

Codex stores the items of OpenAI Responses. It drops a line with an item that it does not know, so
such an item is left out by name. Its terminal shows events, not items, so each text has an event
beside its item. Of the messages of role user, some the user wrote, and some Codex.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sessiontree.agents import writing
from sessiontree.context.providers import reading
from sessiontree.context.providers.openai import RESPONSES_ID_LIMIT, ItemMaker
from sessiontree.context.providers.reading import MessageReader
from sessiontree.context.providers.values import GivenIds, clean_value_noted
from sessiontree.core import message
from sessiontree.core.message import RESULT_ITEMS, Message, kind_of, text_of

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
        self._reading = MessageReader(losses, None)
        self._items = ItemMaker(losses)
        self._ids = GivenIds(RESPONSES_ID_LIMIT)
        self._calls: dict[tuple[str, str], str] = {}  # by entry and stored id
        self._last: dict[str, str] = {}  # by stored id
        self._open: dict[str, list[str]] = {}  # by stored id, those without a result
        self._entry = ""
        self._thinking: list[reading.Thinking] = []  # of the last message

    def items(self, message: Message, entry: str) -> list[Item]:
        """The items of a message of an entry; none for one of the system."""
        self._entry = entry
        self._thinking = []
        if message.get("role") == "system":
            return []
        if _is_own(message):
            return [self._own(message)]
        found: list[tuple[reading.Side, list[reading.Part]]] = []
        for side, part in self._reading.parts_of(message):
            if not found or found[-1][0] != side:
                found.append((side, []))
            if isinstance(part, reading.Thinking):
                self._thinking.append(part)
            if self._is_known(part):
                found[-1][1].append(self._fit(part))
        if message.get("partial"):
            self._losses.add("a partial message is not marked as partial")
        return [item for side, run in found for item in self._of_side(side, run)]

    def _own(self, item: Message) -> Item:
        own = clean_value_noted(dict(item), self._losses)
        stored = own.get("call_id")
        if not isinstance(stored, str):
            return own
        is_result = kind_of(item) in RESULT_ITEMS
        return {**own, "call_id": self._answered(stored) if is_result else self._id(stored)}

    def _of_side(self, side: reading.Side, run: list[reading.Part]) -> Iterator[Item]:
        items = self._items
        made = items.user(run) if side == "user" else items.assistant(self._kept(run))
        for item in made:
            content = item.get("content")
            if isinstance(content, str):
                kind = "output_text" if side == "assistant" else "input_text"
                item["content"] = [{"type": kind, "text": content}]
            yield item

    def _kept(self, run: Sequence[reading.Part]) -> list[reading.Part]:
        """The parts of an answer that Codex can send; ids only beside reasoning that is sealed."""
        kept: list[reading.Part] = []
        for part in run:
            if isinstance(part, reading.Thinking) and part.maker != "openai":
                self._losses.add(_UNSEALED)
            else:
                kept.append(part)
        if any(isinstance(part, reading.Thinking) for part in kept):
            return kept
        return [
            replace(part, item_id=None)
            if isinstance(part, reading.TextPart | reading.SentCall)
            else part
            for part in kept
        ]

    def _is_known(self, part: reading.Part) -> bool:
        """False for what Codex would drop, with all that is in its line."""
        if not isinstance(part, reading.ProviderBlock):
            return True
        self._losses.add(f"a block of the kind {kind_of(part.block)!r} is left out")
        return False

    def _fit(self, part: reading.Part) -> reading.Part:
        """A part with an id that OpenAI takes, and without media that Codex does not send."""
        if isinstance(part, reading.SentCall):
            return replace(part, id=self._id(part.id))
        if isinstance(part, reading.Result):
            shown = tuple(map(self._without_media, part.parts))
            return replace(part, id=self._answered(part.id), parts=shown)
        return self._without_media(part) if isinstance(part, reading.Media) else part

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

    def _without_media(
        self, part: reading.TextPart | reading.Media
    ) -> reading.TextPart | reading.Media:
        if isinstance(part, reading.TextPart) or (part.kind == "image" and part.data):
            return part
        return reading.TextPart(
            self._losses.replaced(part, ": Codex sends only images, by their bytes")
        )

    def last_thoughts(self, message: Message) -> list[str]:
        """The readable thinking of the message of which the items were made last."""
        if kind_of(message) in ("reasoning", "compaction") and message.get("role") is None:
            told = reading.thinking_in(message, None).told
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


_GENERATED: Final = (
    *("<environment_context>", "<user_instructions>", "# AGENTS.md instructions"),
    *("<turn_aborted>", "<user_shell_command>", "<skill>", "<subagent_notification>"),
    *("<codex_internal_context", "Another language model started to solve this problem"),
)
"""The starts of user messages that Codex generates; they begin no turn."""

ABOUT: Final = "internal_chat_message_metadata_passthrough"
"""The key of what Codex says about an item, such as who wrote each part of it."""


def is_prompt(item: Any) -> bool:
    """Whether an item is a message that the user wrote."""
    if not isinstance(item, dict) or item.get("role") != "user":
        return False
    written_by_user = _is_users(item.get(ABOUT))
    if written_by_user is not None:
        return written_by_user
    return not text_of(item).lstrip().startswith(_GENERATED)


def metadata_of(item: Any) -> dict[str, Any]:
    """The metadata of an item: a message of the user that the user did not write is marked."""
    is_generated = isinstance(item, dict) and item.get("role") == "user" and not is_prompt(item)
    return {"metadata": {"isMeta": True}} if is_generated else {}


def begins_turn(item: Any) -> bool:
    """Whether an item is a prompt: what the user wrote, or a command in a converted session."""
    if not isinstance(item, dict):
        return False
    return message.begins_turn({"message": item, **metadata_of(item)})


def _is_users(about: Any) -> bool | None:
    """Whether the user wrote a part of a message; None if Codex does not say."""
    if not isinstance(about, dict):
        return None
    kinds = about.get("content_item_kinds")
    given = kinds if isinstance(kinds, list) else []
    known = [kind for kind in given if isinstance(kind, str) and "." in kind]
    if known:
        return any(kind.startswith("user.") for kind in known)
    parts = about.get("content_item_metadata")
    types = [_provenance(part) for part in parts] if isinstance(parts, list) else []
    said = [type for type in types if type is not None]
    return "user" in said if said else None


def _provenance(part: Any) -> str | None:
    origin = part.get("provenance") if isinstance(part, dict) else None
    kind = origin.get("type") if isinstance(origin, dict) else None
    return kind if isinstance(kind, str) else None
