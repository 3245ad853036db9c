"""JSON bytes: a value encoded exactly, or refused where JSON cannot carry it."""

from __future__ import annotations

import math
import sys
from enum import Enum
from typing import Any, Final, Protocol

import msgspec
import orjson

from sessiontree.errors import EntryError

_DEEPEST: Final = 254  # levels of nesting that orjson writes
_OPTIONS: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


def dumps(value: Any) -> bytes:
    """A value as JSON bytes; objects of an SDK as their plain data.

    An EntryError for a non-finite number, a lone surrogate, bytes, a set, a key that is not a
    string, or more than 254 levels of nesting.
    """
    try:
        body = orjson.dumps(value, option=_OPTIONS)
    except TypeError:
        try:
            value = _spelled_out(value, 0)
            body = orjson.dumps(value, option=_OPTIONS)
        except (TypeError, ValueError, RecursionError) as error:
            raise _no_json(error) from error
    # orjson writes NaN and infinities as null
    if _find(body, b"null") >= 0 and may_have_floats(value):
        _refuse_non_finite(value)
    return body


def sorted_ascii(value: Any) -> bytes | None:
    """What `json.dumps` writes of a value with sorted keys and no spaces, in a tenth of its time.

    None where the two differ, or may differ: beyond ASCII, for floats, and for what is not JSON.
    """
    try:
        body = orjson.dumps(value, option=_OPTIONS | orjson.OPT_SORT_KEYS)
    except TypeError:
        return None
    is_ascii = body.isascii() and b"\x7f" not in body
    return body if is_ascii and not may_have_floats(value) else None


def may_have_floats(value: Any) -> bool:
    """True if a value may have a float in it; told in a fraction of the time of a walk."""
    try:
        # the byte before each float in MessagePack; a length or a text may have it too
        return b"\xcb" in msgspec.msgpack.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return True


ESCAPE: Final = b"\\u00"
"""How the escape of an ASCII character begins, which some programs write."""

ESCAPES: Final = tuple(b"%b%d" % (ESCAPE, digit) for digit in range(2, 8))
"""How the escape of a visible one begins."""


def has_escapes(lines: bytes) -> bool:
    """True if a string in some lines may spell visible ASCII characters with escapes (rule 1.2).

    The bytes of such a string are not in the lines.
    """
    return find(lines, ESCAPE) >= 0 and any(find(lines, escape) >= 0 for escape in ESCAPES)


def find(body: bytes, text: bytes) -> int:
    """Return the offset of a text in a body, or -1, in a seventh of the time of `bytes.find`."""
    return _find(body, text)


def _find(body: bytes, text: bytes) -> int:
    """Load the search at its first use; then search."""
    global _find
    from stringzilla import find as _find  # type: ignore[import-not-found, no-redef, unused-ignore]

    return _find(body, text)  # type: ignore[no-any-return, unused-ignore]


def _no_json(error: Exception) -> EntryError:
    return EntryError(
        f"not JSON: {error}; use strings, finite numbers, booleans, null, lists and dicts, "
        "such as the model_dump(mode='json') of an SDK's object"
    )


class Dumpable(Protocol):
    """An object of a provider's SDK, which can give its plain data."""

    def model_dump(self) -> dict[str, Any]: ...


def plain(value: Any) -> Any:
    """The plain data of an SDK's object, from its `model_dump()`; any other value as it is.

    Raises:
        EntryError: the object fails to give it.
    """
    dump = None if isinstance(value, type) else getattr(value, "model_dump", None)
    if not callable(dump):
        return value
    try:
        return dump(mode="json", by_alias=True)
    except TypeError:  # it takes no such arguments
        pass
    except Exception as error:
        raise _no_dump(value, error) from error
    try:
        return dump()
    except Exception as error:
        raise _no_dump(value, error) from error


def _no_dump(value: Any, error: Exception) -> EntryError:
    return EntryError(f"not JSON: model_dump() of a {type(value).__name__} failed: {error}")


def _spelled_out(value: Any, depth: int) -> Any:
    """The value with what orjson refuses, and JSON can carry, in a form that orjson takes.

    It is an integer of more than 64 bits, as a fragment of digits, or an object of an SDK.
    """
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        if is_beyond_double(value):
            raise ValueError("a number beyond 1.8e308")
        return orjson.Fragment(str(int(value)))
    if depth > _DEEPEST:  # a circle ends here too
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        return {key: _spelled_out(part, depth + 1) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled_out(part, depth + 1) for part in value]
    data = plain(value)
    return value if data is value else _spelled_out(data, depth + 1)


def is_beyond_double(value: Any) -> bool:
    """True if a value has a number in it that is beyond the range of a double (IEEE 754)."""
    parts = [value]
    for part in parts:
        if isinstance(part, dict):
            parts.extend(part.values())
        elif isinstance(part, list):
            parts.extend(part)
        elif isinstance(part, int | float) and abs(part) > sys.float_info.max:
            return True
    return False


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
