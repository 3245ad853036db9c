"""Settings: the model, the thinking level, the system message and the session's name.

The latest on the path is in force. A compaction repeats those in force at its place, so that older
entries need not be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sessiontree.core.blocks import (
    Blocks,
    EntryContents,
    is_handle_of_message,
    message_uuid,
    role_of_entry,
)
from sessiontree.core.entry import PIECES, Entry
from sessiontree.core.message import Message, system_text
from sessiontree.errors import SessionTreeError

SETTING_KEYS: Final = ("model", "thinkingLevel", "system", "name")


def model_of(message: Message) -> dict[str, Any] | None:
    """The model that an assistant message names, as a setting."""
    return _model(message.get("provider"), message.get("model"))


def _model(provider: Any, id: Any) -> dict[str, Any] | None:
    """A model as a setting; None without an id that is a text and not empty."""
    if not isinstance(id, str) or not id:
        return None
    return {"provider": _text(provider), "modelId": id}


def _model_in(value: Any) -> dict[str, Any] | None:
    """The model in `{"provider", "modelId"}`; None for any other value."""
    is_object = isinstance(value, Mapping)
    return _model(value.get("provider"), value.get("modelId")) if is_object else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


_SHAPES: Final = {"model": _model_in, **dict.fromkeys(SETTING_KEYS[1:], _text)}
"""What reads each setting in the state of a compaction, which another program may have written."""


def settings_of(entry: Entry) -> dict[str, Any]:
    """The settings that an entry puts in force; None for those it says were never set.

    A system text whose message has to be made first is not among them: see `made_system`.
    """
    kind = entry.type
    if kind == "message":
        message = entry.message_as_stored
        if not isinstance(message, dict):
            return {}
        if message.get("role") == "system":
            return {"system": system_text(entry["message"])}
        model = model_of(message) if message.get("role") == "assistant" else None
        return {"model": model} if model else {}
    if kind == "model_change":
        model = _model_in(entry.as_stored)
        return {"model": model} if model else {}
    if kind == "thinking_level_change":
        level = _text(entry.as_stored.get("thinkingLevel"))
        return {} if level is None else {"thinkingLevel": level}
    if kind == "message_end":
        model = model_of(entry.as_stored)
        return {"model": model} if model else {}
    if kind == "compaction":
        state = entry.get("state")
        state = state if isinstance(state, dict) else {}
        stored = [(key, state[key]) for key in SETTING_KEYS if key in state]
        read = [(key, value, _SHAPES[key](value)) for key, value in stored]
        return {key: one for key, value, one in read if one is not None or value is None}
    return {}


def header_settings(header: Mapping[str, Any]) -> dict[str, Any]:
    """The settings a session starts with, from its header."""
    metadata = header.get("metadata")
    settings: dict[str, Any] = {}
    for facts in (header, metadata if isinstance(metadata, dict) else {}):
        named = (_model(facts.get("provider"), facts.get(key)) for key in ("model", "modelId"))
        found = {
            "model": _model_in(facts.get("model")) or next(filter(None, named), None),
            **{key: _text(facts.get(key)) for key in ("thinkingLevel", "system")},
        }
        settings |= {key: value for key, value in found.items() if value is not None}
    return settings


def may_make_system(entry: Entry) -> bool:
    """True if a message that has to be made of an entry may be a system message.

    It is resolved, for a `handle`, or joined from its blocks, for a `message_end`.
    """
    if entry.type == "message_end":
        return role_of_entry(entry) == "system"
    if entry.type != "handle":
        return False
    role = role_of_entry(entry)
    return role == "system" or (role is None and is_handle_of_message(entry))


def made_system(entry: Entry, blocks: Blocks, contents: EntryContents) -> str | None:
    """The system text that an entry puts in force, if its message has to be made; else None.

    `blocks` has the messages of the entry's path that were written in blocks.
    """
    if not may_make_system(entry):
        return None
    if entry.type == "message_end":  # a later end may give the message another role
        return system_text(blocks.ended_by(entry))
    message = contents.of_handle(entry)
    return system_text(message) if message.get("role") == "system" else None


def _settings_of(entry: Entry, contents: EntryContents) -> dict[str, Any]:
    """The settings that an entry puts in force, with a placeholder for a text that is lost."""
    try:
        return settings_of(entry)
    except SessionTreeError:
        return settings_of(contents.whole(entry))


def settings_of_all(entries: Sequence[Entry], contents: EntryContents) -> dict[str, Any]:
    """The settings at the end of entries that follow each other.

    Nothing is resolved or read above the last entry that sets the system text.
    """
    settings: dict[str, Any] = {}
    for entry in reversed(entries):
        if "system" in settings and _is_system(entry):
            continue
        for key, value in _settings_of(entry, contents).items():
            settings.setdefault(key, value)
        if "system" not in settings and may_make_system(entry):
            blocks = Blocks(map(contents.whole, _pieces_beside(entry, entries)), [])
            if (text := made_system(entry, blocks, contents)) is not None:
                settings["system"] = text
    return settings


def _is_system(entry: Entry) -> bool:
    message = entry.message_as_stored if entry.type == "message" else None
    return isinstance(message, dict) and message.get("role") == "system"


def _pieces_beside(end: Entry, entries: Sequence[Entry]) -> list[Entry]:
    """The pieces of the message that an entry ends; none for an entry of another type."""
    if end.type != "message_end":
        return []
    pieces = (entry for entry in entries if entry.type in PIECES)
    return [entry for entry in pieces if message_uuid(entry) == message_uuid(end)]


class EffectiveSettings:
    """The settings at the end of a path: those known, by `SETTING_KEYS`, and those of the header.

    The entries above, nearest first, are read only for a setting not found yet. `contents` makes
    them whole.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        above: Iterator[Entry],
        header: Mapping[str, Any],
        contents: EntryContents,
    ) -> None:
        self._settings = settings
        self._above = above
        self._defaults = header_settings(header)
        self._contents = contents

    def get(self, key: str) -> Any:
        """A setting by its key; None where none is in force."""
        settings = self._settings
        while key not in settings and (entry := next(self._above, None)) is not None:
            for found, value in _settings_of(entry, self._contents).items():
                settings.setdefault(found, value)
            if "system" not in settings and may_make_system(entry):
                self._note_system(entry)
        return settings.get(key, self._defaults.get(key))

    def _note_system(self, entry: Entry) -> None:
        pieces = [entry]
        if entry.type == "message_end":  # rare: its blocks may stand anywhere above
            above = list(self._above)
            self._above = iter(above)
            pieces += (one for one in above if one.type == "block")
        blocks = Blocks(map(self._contents.whole, reversed(pieces)), [])
        text = made_system(entry, blocks, self._contents)
        if text is not None:
            self._settings["system"] = text
