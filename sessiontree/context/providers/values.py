"""Values of a session made fit for a request: text, arguments, base64, names and ids.

Every provider accepts names and ids of letters, digits, `_` and `-`, not too long. Ids are given
out in the order of the calls, each once. So two calls never share an id, even where a session uses
`call_0` in every turn, and a later call never changes an earlier id.

`RequestNotes` collects the changes and omissions on the way to a provider.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NoReturn, NotRequired, TypedDict, TypeVar

from sessiontree.core.jsonbytes import dumps
from sessiontree.core.message import json_text
from sessiontree.errors import EntryError

T = TypeVar("T")

_FIT: Final = re.compile(r"[a-zA-Z0-9_-]+")
_UNFIT: Final = re.compile(r"[^a-zA-Z0-9_-]+")
_LONGEST_NAME: Final = 64
_DIGEST: Final = 12
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+")
_DATA_URL: Final = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,", re.IGNORECASE)


def clean_text(text: str) -> str:
    """The text itself, or, where UTF-8 cannot carry it, with U+FFFD for lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clean_noted(text: str, notes: RequestNotes) -> str:
    """See `clean_text`; a change is noted."""
    clean = clean_text(text)
    if clean is not text:
        notes.add("lone surrogates in a text were replaced")
    return clean


def clean_value_noted(value: T, notes: RequestNotes) -> T:
    """A JSON value whose texts are clean, and the same one if they are already."""
    try:
        dumps(value)
    except EntryError:  # a lone surrogate, or what the standard library takes
        with suppress(TypeError, ValueError, RecursionError):
            text = json.dumps(value, ensure_ascii=False)
            clean = clean_noted(text, notes)
            if clean is not text:
                made: T = json.loads(clean)
                return made
    return value


def clean_system(system: str | None) -> str:
    """The system text fit to be sent; empty where it is blank."""
    return clean_text(system) if system and system.strip() else ""


def clean_value(value: Any) -> Any:
    """A JSON value that any client can write: clean text, finite numbers; or RecursionError."""
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


def object_in(text: str) -> dict[str, Any] | None:
    """The object of a JSON text; None where it is not JSON, or another value."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def base64_of(data: Any) -> str | None:
    """Base64 text without line breaks and with its padding; None where it is not base64."""
    if not isinstance(data, str):
        return None
    plain = "".join(data.split()).rstrip("=")
    if len(plain) % 4 == 1 or _BASE64.fullmatch(plain) is None:
        return None
    return plain + "=" * (-len(plain) % 4)


def data_url_parts(url: str) -> tuple[str, str] | None:
    """The media type and the base64 of a data URL; None where it is not one."""
    match = _DATA_URL.match(url)
    data = base64_of(url[match.end() :]) if match else None
    return (match[1].lower(), data) if match and data else None


def text_or(value: Any, otherwise: str = "") -> str:
    """The value where it is text, else `otherwise`."""
    return clean_text(value) if isinstance(value, str) else otherwise


_VENDOR: Final = re.compile(r"(?:[a-z-]+\.)+(?=[a-z])")
_MODEL: Final = re.compile(
    r"(?P<name>.+?)(?:-0)?"
    r"(?:[-@](?P<date>\d{8}|\d{4}-\d\d-\d\d))?"
    r"(?:@default|[-@]latest)?(?:-v\d+(?::.*)?)?(?:[:\[].*)?"
)


def is_same_model(one: str, other: str) -> bool:
    """True if two names are of one model: with or without its date, vendor, region or version."""
    if one == other:
        return True
    (name, date), (other_name, other_date) = _model_of(one), _model_of(other)
    return name == other_name and (date == other_date or not (date and other_date))


@lru_cache(maxsize=256)
def _model_of(name: str) -> tuple[str, str]:
    """The bare name of a model, and the digits of its date."""
    bare = _VENDOR.sub("", name.strip().lower().rpartition("/")[2], count=1)
    match = _MODEL.fullmatch(bare)
    if match is None:
        return bare, ""
    return match["name"].replace(".", "-"), (match["date"] or "").replace("-", "")


class GivenIds:
    """Gives out ids of at most `limit` characters."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._given: set[str] = set()
        self._next_number: dict[str, int] = {}

    def give(self, stored: str) -> str:
        """An id for the next call: the stored one where it is fit and was not given before.

        Of pi's `call_1|fc_2`, the part before the bar counts.
        """
        given = wanted = stored.partition("|")[0]
        number = self._next_number.get(stored, 0)
        while given in self._given or not is_fit(given, self._limit):
            given = _derived(wanted, f"{stored}\n{number}", self._limit)
            number += 1
        self._next_number[stored] = number
        self._given.add(given)
        return given


def is_fit(text: str, limit: int) -> bool:
    """True if a provider accepts this as a name or an id."""
    return 0 < len(text) <= limit and _FIT.fullmatch(text) is not None


def fit_name(name: str) -> str:
    """A tool's name as every provider accepts it; unchanged where it is fit."""
    if is_fit(name, _LONGEST_NAME):
        return name
    if len(name) > _LONGEST_NAME:
        return _derived(name, name, _LONGEST_NAME)
    return _UNFIT.sub("_", name) or "unnamed_tool"


def digest(text: str) -> str:
    """Twelve hexadecimal digits that stand for a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]


def _derived(wanted: str, seed: str, limit: int) -> str:
    stem = _UNFIT.sub("_", wanted)[: limit - _DIGEST - 1]
    return f"{stem}_{digest(seed)}" if stem else f"call_{digest(seed)}"


class RequestNotes:
    """Collects notes: each text once, how often, and the first entry."""

    def __init__(self) -> None:
        self.uuid = ""  # of the entry that is read now
        self._found: dict[str, tuple[int, str]] = {}

    def add(self, text: str) -> None:
        """Note something about the current entry."""
        times, first = self._found.get(text, (0, self.uuid))
        self._found[text] = times + 1, first

    def warnings(self) -> list[str]:
        """A line for each note, in order."""
        lines = []
        for text, (times, first) in self._found.items():
            where = f"{'entry' if times == 1 else 'first in entry'} {first[:8]}" if first else ""
            facts = ", ".join(filter(None, (f"{times:,} times" if times > 1 else "", where)))
            lines.append(f"{text} ({facts})" if facts else text)
        return lines


@dataclass(frozen=True, slots=True)
class Request:
    """A context as a provider's client takes it."""

    # Keyword arguments for the client's call, without the model and its settings: a dict with
    # `messages` and `system` for Anthropic, `input` and `instructions` for OpenAI Responses,
    # `messages` for OpenAI Chat.
    params: Any
    warnings: list[str]  # changes and omissions, in words


class AnthropicParams(TypedDict):
    """The arguments of a request to Anthropic's Messages API."""

    messages: Any
    system: NotRequired[Any]


class ResponsesParams(TypedDict):
    """The arguments of a request to OpenAI's Responses API."""

    input: Any
    instructions: NotRequired[Any]


class ChatParams(TypedDict):
    """The arguments of a request to OpenAI's Chat Completions API."""

    messages: Any


# The fields are named one by one, so a type checker knows the answer of a call with `**params`.


class AnthropicRequest(Request):
    """A context for Anthropic's client."""

    __slots__ = ()
    params: AnthropicParams


class ResponsesRequest(Request):
    """A context for the Responses API of OpenAI's client."""

    __slots__ = ()
    params: ResponsesParams


class ChatRequest(Request):
    """A context for the Chat Completions API of OpenAI's client."""

    __slots__ = ()
    params: ChatParams
