"""Lines of a file of the pi coding agent, before they have their place in its tree."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from sessiontree.core.entry import Entry

OWN: Final = "sessiontree:"
"""Stands before the name of a type of ours, where it is pi's `customType`."""

_STRUCTURE: Final = frozenset(
    {"type", "uuid", "parentUuid", "lane", "timestamp", "crc", "spilled", "metadata"}
)


class Line(NamedTuple):
    """A line without its place in the tree.

    Attributes:
        type: of the entry, as pi calls it.
        fields: all but its id, parent and timestamp.
        of: the uuids of the entries, beside the one it is made of, whose content it says.
    """

    type: str
    fields: dict[str, Any]
    of: tuple[str, ...] = ()


def fields_of(entry: Entry, *without: str) -> dict[str, Any]:
    """The fields of an entry beside its place in the tree."""
    return {k: v for k, v in entry.body.items() if k not in _STRUCTURE and k not in without}


def some_of(entry: Entry, *keys: str) -> dict[str, Any]:
    """Those of some fields that an entry has."""
    return {key: entry[key] for key in keys if key in entry}


def as_custom(entry: Entry) -> Line:
    """An entry as a custom one of pi's, with all that it holds."""
    held = fields_of(entry)
    return Line("custom", {"customType": OWN + entry.type, **({"data": held} if held else {})})


def tools_of(compaction: Entry) -> dict[str, Any]:
    """The tools in force at a compaction of pi's own."""
    message = compaction.get("systemMessage")
    tools = message.get("toolsAdded") if isinstance(message, dict) else None
    return {"toolsAdded": tools} if isinstance(tools, list) else {}
