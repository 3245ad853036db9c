"""Values from a session made fit for a request: text, arguments, base64."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

from sessiontree.core.message import json_text

_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+")
_DATA_URL: Final = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,", re.IGNORECASE)


def clean_text(text: str) -> str:
    """The text itself, or, where UTF-8 cannot carry it, with U+FFFD for lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clean_value(value: Any) -> Any:
    """A JSON value that any client can write: clean text, finite numbers.

    Raises:
        RecursionError: it is nested too deep.
    """
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(str(key)): clean_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [clean_value(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    return json_text(value)


def arguments_text(arguments: dict[str, Any]) -> str:
    """Arguments as the JSON text that OpenAI wants, keys in their stored order."""
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def object_in(text: str) -> dict[str, Any] | None:
    """The object that a JSON text holds; None where it is no JSON, or another value."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def base64_of(data: Any) -> str | None:
    """Base64 text without line breaks and with its padding; None where it is none."""
    if not isinstance(data, str):
        return None
    plain = "".join(data.split()).rstrip("=")
    if len(plain) % 4 == 1 or _BASE64.fullmatch(plain) is None:
        return None
    return plain + "=" * (-len(plain) % 4)


def data_url_parts(url: str) -> tuple[str, str] | None:
    """The media type and the base64 of a data URL; None where it is none."""
    match = _DATA_URL.match(url)
    data = base64_of(url[match.end() :]) if match else None
    return (match[1].lower(), data) if match and data else None


def text_or(value: Any, otherwise: str = "") -> str:
    """The value where it is text."""
    return clean_text(value) if isinstance(value, str) else otherwise
