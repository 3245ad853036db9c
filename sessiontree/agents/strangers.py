"""Agents whose sessions sessiontree does not read, each known by the shape of its file.

Invariants: a stranger is named by keys or tables that only its files have; a file of any other
shape is not guessed. No agent that has a reader is listed here, but for files that this does not
read.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from sessiontree.agents import base


class Stranger(NamedTuple):
    """A known agent without a reader."""

    program: str
    export: str = ""  # the command that writes one of its sessions as JSON or text
    instead: str = ""  # the step to a form that is read, if there is one

    @property
    def step(self) -> str:
        """What the user can do with a file, in words."""
        if self.instead:
            return self.instead
        return f"'{self.export}' exports it" if self.export else f"open it with {self.program}"


class _Shape(NamedTuple):
    """The shape of a file's first object."""

    stranger: Stranger
    keys: frozenset[str]
    values: tuple[tuple[str, object], ...] = ()


_EXPORT: Final = Stranger(
    "OpenCode or Kilo CLI as JSON",
    instead="'opencode import FILE' puts it into a database, which is read",
)
_OPENHANDS: Final = Stranger("OpenHands")
_VIBE: Final = Stranger("Mistral Vibe")
_AIDER: Final = Stranger("Aider")

_EVENT: Final = frozenset({"id", "timestamp", "source"})  # of OpenHands
_SHAPES: Final = (
    _Shape(_OPENHANDS, frozenset({"agent", "persistence_dir", "execution_status"})),
    *(_Shape(_OPENHANDS, _EVENT | {key}) for key in ("llm_message", "system_prompt")),
    *(_Shape(_OPENHANDS, _EVENT | {key, "tool_name"}) for key in ("thought", "observation")),
    _Shape(_VIBE, frozenset({"generation", "manifest_sha256", "store_format"})),
    _Shape(_VIBE, frozenset({"payload", "record_sha256", "recovery_journal_record_version"})),
    _Shape(_VIBE, frozenset({"session_id", "start_time", "origin_directory", "import_provenance"})),
)

_CHAT_OF_AIDER: Final = re.compile(rb"\s*# aider chat started at \d{4}-\d\d-\d\d")


def stranger_in(head: bytes) -> Stranger | None:
    """The known stranger whose file starts with these bytes; None for any other file."""
    if _CHAT_OF_AIDER.match(head):
        return _AIDER
    first = base.first_object(head)
    if first is None:
        return None
    if _is_export_of_opencode(first):
        return _EXPORT
    return next((shape.stranger for shape in _SHAPES if _has_shape(first, shape)), None)


def _has_shape(first: base.Values, shape: _Shape) -> bool:
    is_like = all(key in first for key in shape.keys)
    return is_like and all(first.value(key) == value for key, value in shape.values)


def _is_export_of_opencode(first: base.Values) -> bool:
    about = first.inside("info")
    return (about.text("id") or "").startswith("ses_") and "projectID" in about
