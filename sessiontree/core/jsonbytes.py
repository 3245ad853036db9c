"""JSON bytes: a value encoded exactly, or refused where JSON cannot carry it."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any, Final

import orjson

from sessiontree.errors import EntryError

_DEEPEST: Final = 254  # levels of nesting that orjson writes
_OPTIONS: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


def dumps(value: Any) -> bytes:
    """A value as JSON bytes.

    An EntryError for a non-finite number, a lone surrogate, bytes, a set, a key that is not a
    string, or more than 254 levels of nesting.
    """
    try:
        body = orjson.dumps(value, option=_OPTIONS)
    except TypeError as error:
        if "64-bit" not in str(error):
            raise _no_json(error) from error
        try:
            body = orjson.dumps(_with_big_integers(value, 0), option=_OPTIONS)
        except (TypeError, ValueError, RecursionError) as error:
            raise _no_json(error) from error
    if _find(body, b"null") >= 0:  # orjson writes NaN and infinities as null
        _refuse_non_finite(value)
    return body


def _find(body: bytes, text: bytes) -> int:
    """Load, at the first write, a search in a seventh of the time of `bytes.find`; then search."""
    global _find
    from stringzilla import find as _find  # type: ignore[import-not-found, no-redef, unused-ignore]

    return _find(body, text)  # type: ignore[no-any-return, unused-ignore]


def _no_json(error: Exception) -> EntryError:
    return EntryError(
        f"not JSON: {error}; use strings, finite numbers, booleans, null, lists and dicts"
    )


def _with_big_integers(value: Any, depth: int) -> Any:
    """The value with each integer that orjson refuses as a fragment of digits."""
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        return orjson.Fragment(str(int(value)))
    if not isinstance(value, dict | list | tuple):
        return value
    if depth > _DEEPEST:  # a circle ends here too
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        return {key: _with_big_integers(part, depth + 1) for key, part in value.items()}
    return [_with_big_integers(part, depth + 1) for part in value]


def _refuse_non_finite(value: Any) -> None:
    parts = [value]
    for part in parts:
        if isinstance(part, dict):
            parts.extend(part.values())
        elif isinstance(part, list | tuple):
            parts.extend(part)
        elif isinstance(part, Enum):
            parts.append(part.value)
        elif isinstance(part, float) and not math.isfinite(part):
            raise EntryError(f"not JSON: the number {part}; use a finite number, null or a string")
