"""What the readers of other agents' formats share.

A format is pure: it takes lines and gives lines of version 2. The same file gives the
same lines each time, and so the same uuids: the agent's own, or a uuid5 of the session's
id, the line's number and the line's bytes.

Invariants: every line that holds a JSON value becomes an entry; a line of an unknown type
becomes a `custom` entry that holds the whole line, and is counted in a note; a line that is not
JSON is reported; a value keeps the bytes it was written with, unless it cannot be decoded without
a change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, Protocol

import msgspec
import orjson

from sessiontree.core import limits
from sessiontree.core.codec import FORMAT, VERSION, encode, raw_json
from sessiontree.core.damage import UNKNOWN_TYPE
from sessiontree.core.entry import HEADER, decode_leniently
from sessiontree.core.header import AGENT_SESSION_KEY
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.limits import SHORT_BYTES, Budget
from sessiontree.core.message import text_of
from sessiontree.core.migrate import LineName, name_of_line, uuid_of_line, uuid_of_name
from sessiontree.core.usage import Tally
from sessiontree.errors import EntryError

_NOTHING: Final[Mapping[str, Any]] = {}


class LinePlace(NamedTuple):
    """The position of a line."""

    source: int  # 0 for the file itself, 1 and up for the files beside it
    number: int  # the line's number, from 1
    offset: int  # the byte offset of its first byte


START: Final = LinePlace(0, 1, 0)


class SourceLine:
    """A line of an agent's file, without LF, or a part of one. Its keys are decoded once."""

    __slots__ = ("_values", "is_torn", "place", "text", "whole")

    def __init__(self, place: LinePlace, text: bytes, whole: SourceLine | None = None) -> None:
        self.place = place
        self.text = text
        self.is_torn = False  # whether it is a last line without LF
        self.whole = self if whole is None else whole  # the line that it is a part of, or itself
        self._values: Values | Literal[False] | None = False  # False: not decoded yet

    @property
    def values(self) -> Values | None:
        """The keys of the line; None if it is not a JSON object."""
        if self._values is False:
            self._values = values(self.text)
        return self._values


Report = Callable[[str, LinePlace, str], None]
"""Takes the kind of damage, its place and its cause; or `UNKNOWN_TYPE`, and the type."""


class EntryDraft(NamedTuple):
    """An entry of version 2 made from a source line, not encoded yet."""

    line: SourceLine
    fields: dict[str, Any]  # its keys; a value as the agent wrote it is an `orjson.Fragment`
    is_made: bool = False  # whether no line of the agent is this entry, such as a lane's start

    def encoded(self) -> bytes:
        """Its line, without LF."""
        return encoded(self.fields)


class AgentSource(Protocol):
    """An agent's file, open for reading."""

    name: str  # the file's name without its folder
    size: int  # its bytes, unpacked

    @property
    def sidecar(self) -> bytes | None:
        """The bytes of the file that describes it; for a chat of Gemini CLI its project's path."""

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """The offset and the bytes of each line, without LF; each call starts at the first."""

    def is_complete(self) -> bool:
        """Whether the last line ends in a newline."""

    def beside(self) -> Sequence[AgentSource]:
        """The files that belong to it, such as subagents' transcripts."""

    def segments(self) -> Sequence[str]:
        """The ids of the segments of its thread, for Codex; each is the id of a file."""

    def segment(self, id: str) -> tuple[int, AgentSource] | None:
        """The file of a segment of any thread, and its `LinePlace.source`; None if there is none.

        Raises:
            SessionTreeError: it cannot be read.
        """


class PartOfSource:
    """A file of which only some lines are given: an `AgentSource` without files beside it."""

    def __init__(
        self, name: str, lines: Sequence[tuple[int, bytes]], sidecar: bytes | None = None
    ) -> None:
        self.name = name
        self.size = sum(len(line) + 1 for _, line in lines)
        self.sidecar = sidecar
        self._lines = lines

    def lines(self) -> Iterator[tuple[int, bytes]]:
        return iter(self._lines)

    def is_complete(self) -> bool:
        return True

    def beside(self) -> Sequence[AgentSource]:
        return ()

    def segments(self) -> Sequence[str]:
        return ()

    def segment(self, id: str) -> tuple[int, AgentSource] | None:
        return None


class AgentFacts(msgspec.Struct, frozen=True):
    """What a list shows of a session; None for what was not found."""

    id: str | None = None  # the agent's own session id
    cwd: str | None = None  # the working directory
    name: str | None = None  # the user's name for it, or the agent's title
    first_message: str | None = None  # the text of the first prompt
    created: str | None = None  # the timestamp of its start
    modified: str | None = None  # of its last change, if the last line does not hold it
    is_continued: bool = False  # whether its history begins in another file
    above: str | None = None  # the id of the session that it was forked from, or started by


class Reader(Protocol):
    """Reads one agent's session files; a value here is the default of all readers."""

    name: str  # of the agent
    is_of_lines: bool = True  # whether each message is one line
    has_facts_beside: bool = False  # whether facts of a session are in other files
    has_subagents: bool = False  # whether subagents have files of their own beside a session
    needs_opening: bool = True  # whether a line is translated by what the first line says
    reads_twice: bool = False  # whether it reads a file for its structure first
    shares_origins: bool = False  # whether all entries of a converted line are of one entry
    has_result_files: bool = False  # whether `metadata.toolResults` names files beside a session
    session_keys: frozenset[str] = frozenset()  # keys of a line that say which session it is of
    repeating: bytes = b""  # what each line has that may repeat prompts above it; empty: none does

    def __init__(self, name: str) -> None:
        self.name = name

    def recognises(self, head: bytes) -> bool:
        """Whether a file with this start has this format."""

    def record_in(self, head: bytes) -> str | None:
        """What a file with this start is in the agent's home, in words, if it is no session."""
        return None

    def facts(self, head: bytes, tail: bytes) -> AgentFacts:
        """The facts in the start and the end of a file; both may cut lines."""

    def stands_alone(self, body: Mapping[str, Any], beside: bool) -> bool:
        """Whether all of a line's entry but its parent comes from the line."""
        return False

    def beyond_header(self, left: dict[str, bytes]) -> Mapping[str, bytes]:
        """The keys of the first line that the header does not hold, of those it lacks by name."""
        return left

    def repeats_prompts(self, body: Mapping[str, Any]) -> bool:
        """Whether the entries of a line repeat prompts above it."""
        return False

    def with_sidecar(self, facts: AgentFacts, sidecar: bytes | None) -> AgentFacts:
        """The facts with those in the file that describes a session; see `AgentSource.sidecar`."""
        return facts

    def inherited(self, source: AgentSource) -> Iterator[bytes]:
        """The lines that a session has in other files, before its own; each part in its order."""
        yield from ()

    def narrowed(self, source: AgentSource, may_match: Callable[[bytes], bool]) -> AgentSource:
        """The file without messages that cannot match, if no other entry depends on them."""
        return source

    def tally(self) -> Tally:
        """Counts the lines of a file; a document over many lines is one line."""

    def translate(self, source: AgentSource, report: Report) -> Iterator[EntryDraft]:
        """The entries, the header first; the last one is the agent's own leaf."""


class LineMaker:
    """Makes the version 2 lines of one session."""

    def __init__(self, agent: str, report: Report, session_id: str) -> None:
        self.agent = agent
        self.report = report
        self.session_id = session_id
        self.root = uuid_of_line(session_id, 0, agent.encode())
        self.leaf = self.root
        self._taken = {self.root}
        self._named: tuple[SourceLine, LineName] | None = None  # the last line with a name
        self._repeated: dict[str, LineName] = {}  # by digest: the longest name made from it

    def header(self, line: SourceLine, facts: AgentFacts, **metadata: Any) -> EntryDraft:
        """The header; its metadata names the agent and the agent's session id."""
        given = {key: value for key, value in metadata.items() if value is not None}
        agent = {"agent": self.agent, AGENT_SESSION_KEY: self.session_id}
        return EntryDraft(
            line,
            {
                "type": HEADER,
                "version": VERSION,
                "format": FORMAT,
                "uuid": self.root,
                "parentUuid": None,
                **({"timestamp": facts.created} if facts.created else {}),
                "id": self.session_id,
                "cwd": facts.cwd or "",
                **({"name": facts.name} if facts.name else {}),
                "metadata": {**agent, **given},
            },
        )

    def uuid(self, own: str | None, line: SourceLine, name: bytes = b"") -> str:
        """The agent's own uuid if it is free, else one derived from the line and a name."""
        uuid = own
        if not uuid or uuid in self._taken:
            if self._named is None or self._named[0] is not line:  # a line may be the whole file
                number = line.place.number + (line.place.source << 40)
                self._named = line, name_of_line(self.session_id, number, line.text)
            uuid = self._derived(self._named[1], name)
        self._taken.add(uuid)
        return uuid

    def _derived(self, named: LineName, name: bytes) -> str:
        if name:
            named = named.copy()
            named.update(name)
        digest = named.hexdigest()
        uuid = uuid_of_name(digest)
        if uuid in self._taken:  # the same message twice in one line
            named = self._repeated.setdefault(digest, named.copy())
        while uuid in self._taken:
            named.update(b" again")
            uuid = uuid_of_name(named.hexdigest())
        return uuid

    def has(self, uuid: str) -> bool:
        """Whether an entry so far has this uuid."""
        return uuid in self._taken

    def entry(
        self,
        kind: str,
        line: SourceLine,
        uuid: str,
        fields: Mapping[str, Any] = _NOTHING,
        *,
        parent: str | None = None,
        lane: str | None = None,
        timestamp: str | None = None,
    ) -> EntryDraft:
        """The line of an entry below `parent`, by default the leaf; main-lane entries move it."""
        made = {"type": kind, "uuid": uuid, "parentUuid": self.leaf if parent is None else parent}
        if lane is not None:
            made["lane"] = lane
        else:
            self.leaf = uuid
        if timestamp is not None:
            made["timestamp"] = timestamp
        return EntryDraft(line, {**made, **fields, **made})

    def custom(
        self, kind: str, line: SourceLine, uuid: str, data: Any, **more: str | None
    ) -> EntryDraft:
        """A `custom` entry, for a line that adds nothing to a context."""
        named = f"{self.agent}:{kind}"
        return self.entry("custom", line, uuid, {"customType": named, "data": data}, **more)

    def branch(self, leaf: str, place: LinePlace, lane: str | None = None) -> EntryDraft:
        """A `branch` entry that makes another entry the leaf of its lane."""
        line = SourceLine(place, b"leaf " + leaf.encode("utf-8", "replace"))
        made = self.entry("branch", line, self.uuid(None, line), parent=leaf, lane=lane)
        return made._replace(is_made=True)

    def note_unknown(self, kind: str, place: LinePlace) -> None:
        """Count a sound line of a type that the format does not know: a note, not damage."""
        self.report(UNKNOWN_TYPE, place, kind)

    def not_an_object(self, line: SourceLine, **more: str | None) -> Iterator[EntryDraft]:
        """Report a line that is not a JSON object; any other JSON value becomes an entry."""
        found = decode_leniently(line.text.strip(b"\0\r\t ").removeprefix(_BOM))
        if found is not None:
            self.report("foreign line", line.place, "the line is JSON, but not an object")
            yield self.custom("line", line, self.uuid(None, line), found, **more)
        elif not line.text.strip(b"\0\r\t " + _BOM):
            return
        elif line.is_torn:
            self.report("cut short", line.place, "the file ends in the middle of a line")
        else:
            self.report("unreadable", line.place, "the line is not JSON and was skipped")


def encoded(fields: Mapping[str, Any]) -> bytes:
    """The line of an entry, as `encode` makes it; lone surrogates become escapes."""
    try:
        return encode(fields)
    except EntryError:  # a lone surrogate in one of the texts that were decoded
        return encode({key: orjson.Fragment(json_of(value)) for key, value in fields.items()})


def json_of(value: Any) -> bytes:
    """A value of a draft as JSON; lone surrogates become escapes, what JSON cannot carry null."""
    if isinstance(value, orjson.Fragment):
        return orjson.dumps(value)
    try:
        return dumps(value)
    except EntryError:
        pass
    try:
        return json.dumps(value, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError):
        return b"null"


def numbered(source: AgentSource, number: int = 0) -> Iterator[SourceLine]:
    """The lines of the file with this `LinePlace.source`.

    Raises:
        TooMuchError: too many of them are short.
    """
    previous: SourceLine | None = None
    short = Budget(limits.SHORT_TEXTS, source.size, name=source.name, what="lines")
    for line_number, (offset, text) in enumerate(source.lines(), 1):
        if not text:
            continue
        if len(text) < SHORT_BYTES:
            short.take()
        if previous is not None:
            yield previous
        previous = SourceLine(LinePlace(number, line_number, offset), text)
    if previous is not None:
        previous.is_torn = not source.is_complete()
        yield previous


_BOM: Final = b"\xef\xbb\xbf"
_decode_values: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_string: Final = msgspec.json.Decoder(str).decode
_REFUSED: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Values:
    """The keys of one JSON object, each decoded on request."""

    __slots__ = ("_line", "_raw")

    def __init__(self, raw: Mapping[str, bytes | msgspec.Raw], line: bytes | None = None) -> None:
        self._raw = raw
        self._line = line

    def __contains__(self, key: str) -> bool:
        return key in self._raw

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def has_any(self, keys: frozenset[str]) -> bool:
        return not keys.isdisjoint(self._raw)

    def raw(self, key: str) -> bytes:
        """The bytes of a value as written; `null` if the key is absent."""
        return bytes(self._raw.get(key, b"null"))

    def raws(self) -> Mapping[str, bytes]:
        """The bytes of each value as written; they are copied once."""
        self._raw = raws = {key: bytes(raw) for key, raw in self._raw.items()}
        return raws

    def fragment(self, key: str) -> orjson.Fragment:
        return orjson.Fragment(self.raw(key))

    def text(self, key: str) -> str | None:
        if key not in self._raw:
            return None
        try:
            return _decode_string(self.raw(key))
        except _REFUSED:
            found = self.value(key)
            return found if isinstance(found, str) else None

    def value(self, key: str) -> Any:
        return decode_leniently(self.raw(key))

    def inside(self, key: str) -> Values:
        """The keys of a value that is an object; no keys for any other."""
        return values(self.raw(key)) or Values({})

    def as_json(self) -> bytes:
        if self._line is not None:
            return self._line
        pairs = [b"%b:%b" % (_json_of_key(key), bytes(raw)) for key, raw in self._raw.items()]
        return b"{" + b",".join(pairs) + b"}"

    def as_fragment(self) -> orjson.Fragment:
        return orjson.Fragment(self.as_json())


@lru_cache(1024)
def _json_of_key(key: str) -> bytes:
    return json.dumps(key).encode()


def values(line: bytes) -> Values | None:
    """The keys of a line; None if it is not a JSON object."""
    bare = line
    if not (bare.startswith(b"{") and bare.endswith(b"}")):
        bare = line.strip(b"\0").removeprefix(_BOM).strip()
        if not (bare.startswith(b"{") and bare.endswith(b"}")):
            return None
    try:
        if b"\n" in bare:  # one value over many lines; version 2 needs one line
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
    """The objects at the start of a file; the last one may be cut and then lacks keys."""
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
"""Each format reads the first line twice: to recognise the file, then for its facts."""


def leading_values(start: bytes) -> Values | None:
    """The keys of an object whose end may be missing, without a value that is cut."""
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
    """The bytes of the JSON value at an offset of a document decoded as Latin-1, or None."""
    try:
        end = _JSON.raw_decode(document, offset)[1]
    except (ValueError, RecursionError):
        return None
    return document[offset:end].encode("latin-1")


def prompt_text(message: Mapping[str, Any]) -> str | None:
    """The text of a user message; None if it has none."""
    return text_of(message).strip() or None
