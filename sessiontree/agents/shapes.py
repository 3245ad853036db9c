"""What the JSON of several agents says alike: times, tokens, results of calls.

Invariant: a value of another type than the agent writes is taken for one that is absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

Object = Mapping[str, Any]

_NOTHING: Final[Object] = {}


def moment(milliseconds: Any) -> str | None:
    """A time, in milliseconds since 1970, as RFC 3339; None for what is not a time."""
    if not isinstance(milliseconds, int | float) or isinstance(milliseconds, bool):
        return None
    try:
        at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return at.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def an_object(value: Any) -> Object:
    """A value that is an object; one without keys for any other."""
    return value if isinstance(value, Mapping) else _NOTHING


def objects(values: Any) -> Iterator[Object]:
    """The objects in a list; none of any other value."""
    return (each for each in (values if isinstance(values, list) else ()) if isinstance(each, dict))


def a_text(value: Any) -> str:
    """A value that is a text; empty for any other."""
    return value if isinstance(value, str) else ""


def whole(value: Any) -> int:
    """A value that is a whole number; 0 for any other."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


class TokenKeys(NamedTuple):
    """The names that an agent gives the numbers of tokens of a request."""

    input: str
    output: str
    cache_read: str
    cache_write: str

    def apart(self, reported: Any) -> dict[str, int] | None:
        """The tokens of a request, where those of its cache are not part of the input.

        None if nothing is reported.
        """
        if not isinstance(reported, Mapping):
            return None
        input, output, read, write = (whole(reported.get(key)) for key in self)
        return {"input": input, "output": output, "cacheRead": read, "cacheWrite": write}

    def within(self, reported: Any) -> dict[str, int] | None:
        """The same, where they are part of the input."""
        found = self.apart(reported)
        if found is not None:
            cached = found["cacheRead"] + found["cacheWrite"]
            found["input"] = max(0, found["input"] - cached)
        return found


def text_block(text: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": text}


def thought_block(text: str) -> dict[str, Any]:
    """A block of thinking."""
    return {"type": "thinking", "thinking": text}


def call_block(id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    """A block that calls a tool."""
    return {"type": "toolCall", "id": id, "name": name, "arguments": arguments}


def image_block(data: Any, media_type: Any) -> dict[str, Any]:
    """A block with an image, whose bytes are in Base64."""
    return {"type": "image", "data": data, "mimeType": media_type}


def result_of(
    id: Any, name: Any, content: str | Sequence[Object], *, is_error: bool, **details: Any
) -> dict[str, Any]:
    """The message with the result of a call; details that are None are left out."""
    blocks = [text_block(content)] if isinstance(content, str) else [*content]
    message = {"role": "toolResult", "toolCallId": id, "toolName": name, "content": blocks}
    known = {key: value for key, value in details.items() if value is not None}
    return {**message, "isError": is_error, **({"details": known} if known else {})}
