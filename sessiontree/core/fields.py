"""What each known type of entry must hold to be written.

Reading is lenient and never asks this; writing a known type that a reader could
make nothing of is refused. Unknown types are written as they are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from sessiontree.core.display import printable
from sessiontree.core.entry import HEADER
from sessiontree.core.message import check_message
from sessiontree.errors import EntryError

RESERVED: Final = frozenset(
    {"type", "version", "format", "uuid", "parentUuid", "lane", "timestamp", "spilled", "crc"}
)
"""Keys that the session itself writes."""


_MAPPINGS: Final = (dict, Mapping)
"""For `isinstance`: the plain question is much the faster, and nearly always enough."""


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_text_or_null(value: Any) -> bool:
    return value is None or _is_text(value)


def _is_object(value: Any) -> bool:
    return isinstance(value, _MAPPINGS)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_replacement(value: Any) -> bool:
    return value is None or (isinstance(value, Mapping) and "content" in value)


_Check = tuple[Callable[[Any], bool], str]
_TEXT: Final[_Check] = (_is_text, "a string that is not empty")
_OBJECT: Final[_Check] = (_is_object, "a dict")
_NULLABLE: Final[_Check] = (_is_text_or_null, "a string that is not empty, or None")

_REQUIRED: Final[dict[str, dict[str, _Check]]] = {
    "message": {"message": _OBJECT},
    "handle": {"handle": _TEXT, "kind": _TEXT},
    "compaction": {
        "summary": _TEXT,
        "firstKeptEntryUuid": _TEXT,
        "tokensBefore": (_is_count, "a whole number"),
    },
    "branch_summary": {"summary": _TEXT, "fromUuid": _TEXT},
    "stack_summary": {"summary": _TEXT, "fromUuid": _TEXT},
    "merge": {"mergedUuid": _TEXT, "baseUuid": _TEXT},
    "context_edit": {
        "targetUuid": _TEXT,
        "replacement": (_is_replacement, "None, or a dict with 'content'"),
    },
    "model_change": {"provider": _NULLABLE, "modelId": _TEXT},
    "thinking_level_change": {"thinkingLevel": _TEXT},
    "custom": {"customType": _TEXT},
    "custom_message": {
        "customType": _TEXT,
        "content": (lambda value: isinstance(value, str | list), "a string or a list of blocks"),
        "display": (lambda value: isinstance(value, bool), "True or False"),
    },
    "label": {"targetUuid": _TEXT, "label": _NULLABLE},
    "usage": {"kind": _TEXT, "provider": _NULLABLE, "model": _NULLABLE, "usage": _OBJECT},
    "block": {
        "messageUuid": _TEXT,
        "index": (_is_count, "a whole number"),
        "block": _OBJECT,
    },
    "message_end": {"messageUuid": _TEXT, "role": _TEXT},
}

REFERENCES: Final[dict[str, tuple[str, ...]]] = {
    "compaction": ("firstKeptEntryUuid",),
    "branch_summary": ("fromUuid",),
    "stack_summary": ("fromUuid",),
    "merge": ("mergedUuid", "baseUuid"),
    "context_edit": ("targetUuid",),
    "label": ("targetUuid",),
}
"""The fields of a type that name other entries, which must be there."""


def check_fields(kind: Any, fields: Mapping[str, Any]) -> None:
    """Refuse an entry that may not be written.

    Raises:
        EntryError: with what is missing or wrong.
    """
    if not _is_text(kind):
        raise EntryError(f"an entry's type is a string that is not empty, not {kind!r}")
    if kind == HEADER:
        raise EntryError("a session has one header, and it is written already; see update_metadata")
    if not RESERVED.isdisjoint(fields):
        key = next(key for key in fields if key in RESERVED)
        raise EntryError(f"the key {key!r} is written by the session itself; leave it out")
    for key, (is_right, wanted) in _REQUIRED.get(kind, {}).items():
        if key not in fields:
            raise EntryError(f"a {kind} needs {key!r}: {wanted}")
        if not is_right(fields[key]):
            raise EntryError(f"{key!r} of a {kind} is {wanted}, not {fields[key]!r:.60}")
    if kind == "message":
        check_message(fields["message"])
    if kind == "session_info" and fields.get("name") is not None:
        check_session_name(fields["name"])
    metadata = fields.get("metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise EntryError(f"metadata is a dict, not {metadata!r:.60}")


def check_session_name(name: Any) -> None:
    """Refuse a session's name that could not be shown on one line as it is.

    Raises:
        EntryError: no text, or with line breaks or control characters.
    """
    if not isinstance(name, str) or not name.strip():
        raise EntryError(f"a session's name is some text, not {name!r:.60}")
    if (bad := next((c for c in name if c in "\n\t" or not printable(c)), None)) is not None:
        raise EntryError(
            f"a session's name is one line without control characters; {name!r:.60} holds {bad!r}"
        )
