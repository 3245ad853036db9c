"""What the formats of other agents share: lines read leniently, entries of ours made of them.

A format is pure: lines in, lines of version 2 out, and nothing else. The same file
gives the same lines, and so the same uuids, each time: the agent's own where it has
them, else a uuid5 of the session's id, the line's number and its bytes.

Invariants: every line that holds a JSON value becomes an entry, those of an unknown
type a `custom` one with the whole line in it; what is no JSON is reported; values are
carried over as the bytes they were written with.

Values: a line of another agent, read leniently and by the key.

Invariant: a value that is carried over keeps the bytes it was written with, unless
there is no reading it but by mending it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

import msgspec
import orjson

from sessiontree.core.codec import FORMAT, VERSION, encode, raw_json
from sessiontree.core.entry import HEADER, decode_leniently
from sessiontree.core.header import AGENT_SESSION_KEY
from sessiontree.core.message import text_of
from sessiontree.core.migrate import uuid_of_line
from sessiontree.errors import EntryError

_NOTHING: Final[Mapping[str, Any]] = {}


class Place(NamedTuple):
    """Where a line stands.

    Attributes:
        source: 0 the file itself, from 1 on the files beside it.
        number: the line's number, from 1.
        offset: the byte offset of its first byte.
    """

    source: int
    number: int
    offset: int


START: Final = Place(0, 1, 0)

Report = Callable[[str, Place, str], None]
"""Takes the kind of damage, its place, and the cause."""

Translated = tuple[Place, bytes]
"""A line of ours, without LF, and the place of the line it was made of."""


class Source(Protocol):
    """An agent's file, to be read.

    Attributes:
        name: the name of the file, without its folders.
        sidecar: the bytes of what is kept about it in a file of its own, or None.
    """

    name: str
    sidecar: bytes | None

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """The lines without LF and their offsets, from the start, each time it is called."""
        ...

    def is_complete(self) -> bool:
        """Whether the last line ends in a newline."""
        ...

    def beside(self) -> Sequence[Source]:
        """The files that belong to it, such as those of subagents."""
        ...


class Facts(msgspec.Struct, frozen=True):
    """What tells a session apart in a list; None for what was not found.

    Attributes:
        id: the agent's own session id.
        cwd: the working directory.
        name: the name given to it, or the agent's own title for it.
        first_message: the text of the first prompt.
        created: the timestamp of its start.
        modified: that of its last change, where something else than its last line tells it.
    """

    id: str | None = None
    cwd: str | None = None
    name: str | None = None
    first_message: str | None = None
    created: str | None = None
    modified: str | None = None


class Format(Protocol):
    """One agent's way to keep its conversations.

    Attributes:
        name: short and fixed, such as `claude-code`; stands before the colon in `customType`.
        program: the agent's name for people.
    """

    name: str
    program: str

    def recognises(self, head: bytes) -> bool:
        """Whether a file that starts like this is of this format."""
        ...

    def facts(self, head: bytes, tail: bytes) -> Facts:
        """What the start and the end of a file tell, each some whole lines and pieces of lines."""
        ...

    def translate(self, source: Source, report: Report) -> Iterator[Translated]:
        """The lines of ours, the header first, ending where the agent itself stands."""
        ...


class Lines:
    """Makes the lines of one session, and keeps count of what it did not know.

    Attributes:
        session_id: the agent's own id of the session.
        leaf: the uuid of the last entry made on the main lane.
        root: the uuid of the header.
    """

    def __init__(self, format: Format, report: Report, session_id: str) -> None:
        self._format = format
        self._report = report
        self.session_id = session_id
        self.root = uuid_of_line(session_id, 0, format.name.encode())
        self.leaf = self.root
        self._taken = {self.root}
        self._unknown: dict[str, tuple[Place, int]] = {}

    def header(self, place: Place, facts: Facts, **metadata: Any) -> Translated:
        """The header, with where the session came from in its metadata."""
        known = {"name": facts.name} if facts.name else {}
        told = {key: value for key, value in metadata.items() if value is not None}
        return place, encoded(
            {
                "type": HEADER,
                "version": VERSION,
                "format": FORMAT,
                "uuid": self.root,
                "parentUuid": None,
                **({"timestamp": facts.created} if facts.created else {}),
                "id": self.session_id,
                "cwd": facts.cwd or "",
                **known,
                "metadata": {
                    "agent": self._format.name,
                    AGENT_SESSION_KEY: self.session_id,
                    **told,
                },
            }
        )

    def uuid(self, own: str | None, place: Place, line: bytes) -> str:
        """The agent's own uuid where it is free, else one made of the line."""
        if own and own not in self._taken:
            uuid = own
        else:
            number = place.number + (place.source << 40)
            uuid = uuid_of_line(self.session_id, number, line)
            while uuid in self._taken:  # the same message twice in one line
                line += b" again"
                uuid = uuid_of_line(self.session_id, number, line)
        self._taken.add(uuid)
        return uuid

    def entry(
        self,
        kind: str,
        place: Place,
        uuid: str,
        fields: Mapping[str, Any] = _NOTHING,
        *,
        parent: str | None = None,
        lane: str | None = None,
        timestamp: str | None = None,
    ) -> Translated:
        """The line of an entry, below `parent` or else the leaf; on the main lane the new leaf."""
        made = {"type": kind, "uuid": uuid, "parentUuid": self.leaf if parent is None else parent}
        if lane is not None:
            made["lane"] = lane
        else:
            self.leaf = uuid
        if timestamp is not None:
            made["timestamp"] = timestamp
        return place, encoded({**fields, **made})

    def custom(
        self, kind: str, place: Place, uuid: str, data: Any, **more: str | None
    ) -> Translated:
        """A `custom` entry, for a line that says nothing to a model."""
        named = f"{self._format.name}:{kind}"
        return self.entry("custom", place, uuid, {"customType": named, "data": data}, **more)

    def note_unknown(self, kind: str, place: Place) -> None:
        """Count a line of a type that this package does not know."""
        first, count = self._unknown.get(kind, (place, 0))
        self._unknown[kind] = (first, count + 1)

    def stray(
        self, line: bytes, place: Place, *, is_last: bool, **more: str | None
    ) -> Iterator[Translated]:
        """A line that is no JSON object: it is reported, and kept where it is JSON at all."""
        found = self._note_no_object(line, place, is_last=is_last)
        if found is not None:
            yield self.custom("line", place, self.uuid(None, place, line), found, **more)

    def _note_no_object(self, line: bytes, place: Place, *, is_last: bool) -> Any:
        """Report such a line; its value where it is JSON, else None."""
        found = decode_leniently(line.strip(b"\0\r\t ").removeprefix(b"\xef\xbb\xbf"))
        if found is None and not line.strip(b"\0\r\t \xef\xbb\xbf"):
            return None
        if found is None and is_last:
            self._report("cut short", place, "the file ends in the middle of a line")
        elif found is None:
            self._report("unreadable", place, "the line is no JSON and was passed over")
        else:
            self._report("foreign line", place, "the line is JSON, but no object")
        return found

    def report_unknown(self) -> None:
        """Report each unknown type once, with the lines it has."""
        for kind, (place, count) in self._unknown.items():
            lines = "a line" if count == 1 else f"{count:,} lines, the first of them here,"
            cause = f"{lines} of a type that is not known for {self._format.program}: {kind!r:.60}"
            self._report("foreign line", place, cause)


def encoded(fields: Mapping[str, Any]) -> bytes:
    """The line of an entry, as `encode`; a lone surrogate in it is spelled as an escape."""
    try:
        return encode(fields)
    except EntryError:  # a lone surrogate in one of the texts that were decoded
        return encode({key: _escaped(value) for key, value in fields.items()})


def _escaped(value: Any) -> orjson.Fragment:
    """A value in JSON that spells lone surrogates as escapes, as Node does."""
    if isinstance(value, orjson.Fragment):
        return value
    try:
        return orjson.Fragment(json.dumps(value, allow_nan=False))
    except (ValueError, TypeError, RecursionError):
        return orjson.Fragment(b"null")


def with_numbers(lines: Iterable[tuple[int, bytes]], source: int) -> Iterator[tuple[Place, bytes]]:
    """The lines of a source with their places."""
    for number, (offset, line) in enumerate(lines, 1):
        yield Place(source, number, offset), line


_decode_values: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_string: Final = msgspec.json.Decoder(str).decode
_REFUSED: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Values:
    """The keys of one JSON object, decoded one by one as they are asked for."""

    __slots__ = ("_line", "_raw")

    def __init__(self, raw: Mapping[str, bytes | msgspec.Raw], line: bytes | None = None) -> None:
        self._raw = raw
        self._line = line

    def __contains__(self, key: str) -> bool:
        return key in self._raw

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def raw(self, key: str) -> bytes:
        """The bytes of a value as written; those of `null` where there is none."""
        found = self._raw.get(key)
        if found is None:
            return b"null"
        return bytes(found)

    def kept(self, key: str) -> orjson.Fragment:
        """A value, to be written as it was."""
        return orjson.Fragment(self.raw(key))

    def text(self, key: str) -> str | None:
        """A value that is a string; None for any other."""
        if key not in self._raw:
            return None
        try:
            return _decode_string(self.raw(key))
        except _REFUSED:
            found = self.value(key)
            return found if isinstance(found, str) else None

    def value(self, key: str) -> Any:
        """A value, decoded."""
        return decode_leniently(self.raw(key))

    def inside(self, key: str) -> Values:
        """The keys of a value that is an object; no keys where it is none."""
        return values(self.raw(key)) or Values({})

    def whole(self) -> orjson.Fragment:
        """The whole object, to be written as it was."""
        return orjson.Fragment(self.text_of_whole())

    def text_of_whole(self) -> bytes:
        """The same as JSON."""
        if self._line is not None:
            return self._line
        pairs = (json.dumps(key).encode() + b":" + self.raw(key) for key in self._raw)
        return b"{" + b",".join(pairs) + b"}"


def values(line: bytes) -> Values | None:
    """The keys of a line; None where it is no JSON object."""
    bare = line.strip(b"\0").removeprefix(b"\xef\xbb\xbf").strip()
    if not (bare.startswith(b"{") and bare.endswith(b"}")):
        return None
    try:
        if b"\n" in bare:  # of a document over many lines; ours stand on one
            bare = msgspec.json.format(bare, indent=-1)
        return Values(_decode_values(bare), bare)
    except _REFUSED:
        pass
    parsed = decode_leniently(bare)
    if not isinstance(parsed, dict):
        return None
    try:
        return Values(raw_json(bare))
    except _REFUSED:
        pass
    try:
        anew = {key: json.dumps(value, allow_nan=False) for key, value in parsed.items()}
        return Values({key: text.encode() for key, text in anew.items()})
    except (ValueError, RecursionError):
        return Values({"text": orjson.dumps(bare.decode("utf-8", "replace"))})


def first_values(head: bytes) -> Iterator[Values]:
    """The objects at the start of a file, a last one that is cut short as far as it goes."""
    closing = b"}\n" if b"}\n" in head else b"\n"
    end = head.find(closing)
    while end >= 0:
        start = head.rfind(b"\n", 0, end) + 1
        found = _values_again(head[start : end + 1])
        if found is not None:
            yield found
        end = head.find(closing, end + 1)
    cut = leading_values(head[head.rfind(b"\n") + 1 :])
    if cut is not None:
        yield cut


_values_again: Final = lru_cache(maxsize=1)(values)
"""Each format asks for the first line to recognise a file, and then for its facts."""


def leading_values(start: bytes) -> Values | None:
    """The keys of an object of which the end may be missing; a value cut short is left out."""
    text = start.decode("utf-8", "replace").lstrip("\0\ufeff \t\r\n")
    if not text.startswith("{"):
        return None
    found: dict[str, bytes] = {}
    at = 1
    try:
        while True:
            at = _skip(text, at)
            key, at = _JSON.raw_decode(text, at)
            at = _skip(text, at) + 1
            at = _skip(text, at)
            end = _JSON.raw_decode(text, at)[1]
            if end == len(text):
                break
            if isinstance(key, str):
                found[key] = text[at:end].encode("utf-8", "replace")
            at = _skip(text, end)
            if text[at : at + 1] != ",":
                break
            at += 1
    except (json.JSONDecodeError, RecursionError):
        pass
    return Values(found)


_JSON: Final = json.JSONDecoder(parse_int=float)  # int() refuses thousands of digits
_SPACE: Final = re.compile(r"[ \t\r\n]*")


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def whole_value(document: str, offset: int) -> bytes | None:
    """The bytes of the JSON value that starts at an offset of a document; None for none.

    Args:
        document: the bytes, each as the character of its number (Latin-1).
        offset: where the value starts.
    """
    try:
        end = _JSON.raw_decode(document, offset)[1]
    except (ValueError, RecursionError):
        return None
    return document[offset:end].encode("latin-1")


def prompt_text(message: Mapping[str, Any]) -> str | None:
    """The text of a user message, if it has any."""
    return text_of(message).strip() or None
