"""The title of a session: its name, or else its first prompt. Lists, pages and exports have one.

Invariants: no handle is resolved, so a title costs no blob; a title is on one line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sessiontree.core.activity import FirstPrompt
from sessiontree.core.display import one_line
from sessiontree.core.entry import is_of_subagent
from sessiontree.core.message import begins_turn, preview_of, typed_text
from sessiontree.text.preview import shown, told

WIDTH: Final = 200
"""The characters of a title at most."""


def prompt_in(keys: Mapping[str, Any]) -> str | None:
    """The text of the prompt in an entry, given its keys as stored; None in any other entry."""
    lane = keys.get("lane")
    if isinstance(lane, str) and is_of_subagent(lane):
        return None
    if keys.get("type") == "handle" and keys.get("kind") == "message":
        keys = {**keys, "message": {"role": keys.get("role"), "content": keys.get("preview")}}
    if (typed := typed_text(keys)) is not None:
        return typed
    return preview_of(shown(told(keys)["message"])) if begins_turn(keys) else None


class TitlePrompt:
    """Finds the prompt that is the title, among entries in file order; see `FirstPrompt`."""

    def __init__(self) -> None:
        self._first = FirstPrompt()

    @property
    def is_found(self) -> bool:
        """True if no later prompt can be the title."""
        return self._first.is_found

    @property
    def whole(self) -> str | None:
        """The prompt as it was typed; None without one."""
        return self._first.text

    @property
    def text(self) -> str | None:
        """Its start, on one line."""
        return None if self.whole is None else cut(self.whole)

    def take(self, keys: Mapping[str, Any]) -> None:
        """Note the next entry, given its keys as stored."""
        self._first.take(prompt_in(keys))


def cut(text: str) -> str:
    """The start of a text that a title has."""
    return one_line(text, WIDTH)


def title_of(name: str | None, prompt: str | None) -> str | None:
    """The title, given the name and what `TitlePrompt` found; None without both."""
    return name or prompt
