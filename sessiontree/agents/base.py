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
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Final, Literal, NamedTuple, Protocol

import msgspec
import orjson

from sessiontree.core import limits
from sessiontree.core.codec import FORMAT, VERSION, encode, raw_json
from sessiontree.core.damage import UNKNOWN_TYPE
from sessiontree.core.entry import HEADER, MISSING_PARENT, bare_line, decode_leniently
from sessiontree.core.header import AGENT_SESSION_KEY
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.limits import SHORT_BYTES, Budget
from sessiontree.core.message import calls_of, text_of
from sessiontree.core.migrate import LineName, name_of_line, uuid_of_line, uuid_of_name
from sessiontree.core.salvage import End, spans_of_objects, without_separators
from sessiontree.core.usage import Tally
from sessiontree.errors import EntryError

_NOTHING: Final[Mapping[str, Any]] = {}


MADE_ANEW: Final = frozenset(
    {
        *("message", "payload", "content", "toolCalls", "thoughts", "tokens", "model"),
        *("isCompactSummary", "isVisibleInTranscriptOnly"),
    }
)
"""Keys of agents' lines that an entry says in its own way, where its `original` has them."""


class LinePlace(NamedTuple):
    """The position of a line."""

    source: int  # 0 for the file itself, 1 and up for the files beside it
    number: int  # the line's number, from 1
    offset: int  # the byte offset of its first byte


START: Final = LinePlace(0, 1, 0)


class SourceLine:
    """A line of an agent's file, without LF, or a part of one. Its keys are decoded once."""

    __slots__ = ("_values", "is_beside", "is_part", "is_torn", "place", "text", "whole")

    def __init__(self, place: LinePlace, text: bytes, whole: SourceLine | None = None) -> None:
        self.place = place
        self.text = text
        self.is_torn = False  # whether it is a last line without LF
        self.is_part = False  # whether it did not have its line, or its lines, for itself
        self.is_beside = False  # whether it is what is left of a line, beside whole entries
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


def unreported(kind: str, place: LinePlace, cause: str) -> None:
    """A report that does nothing."""


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
    is_whole: bool  # whether lines that are not given are not in the file

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

    is_whole = False

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


LineKeys = tuple[frozenset[str], ...]
"""A line of an agent has all keys of at least one of these sets; of none, any object is a line."""


class Link(NamedTuple):
    """The place of a line in its agent's tree."""

    id: str
    parent: str | None
    lane: Hashable = None
    may_be_elsewhere: bool = False  # whether the parent may be in another file


class Reader(Protocol):
    """Reads one agent's session files; a value here is the default of all readers."""

    name: str  # of the agent
    is_of_lines: bool = True  # whether each message is one line
    has_facts_beside: bool = False  # whether facts of a session are in other files
    has_sums_beside: bool = False  # whether `Agent.facts_file` has sums of tokens
    has_subagents: bool = False  # whether subagents have files of their own beside a session
    has_header: bool = False  # whether the agent opens no file without the line of `is_header`
    needs_opening: bool = True  # whether a line is translated by what the first line says
    reads_twice: bool = False  # whether it reads a file for its structure first
    shares_origins: bool = False  # whether all entries of a converted line are of one entry
    has_result_files: bool = False  # whether `metadata.toolResults` names files beside a session
    line_keys: LineKeys = ()  # what tells a line of the agent from an object within one
    message_key: str = ""  # the key of a line that has a message, if calls and results are apart
    parent_key: str = ""  # the key of a line that names the line above it
    session_keys: frozenset[str] = frozenset()  # keys of a line that say which session it is of
    held_keys: frozenset[str] = frozenset()  # keys of a line that its entries have in another form

    def __init__(self, name: str) -> None:
        self.name = name

    def recognises(self, head: bytes) -> bool:
        """Whether a file with this start has this format."""

    def is_header(self, line: Values) -> bool:
        """Whether a line is the header of a file, which is its first line unless that is lost."""
        return False

    def lacks_header(self, head: bytes) -> bool:
        """Whether the agent does not open a file with this start, because its header is lost."""
        *lines, cut = head.split(b"\n")
        whole = (found for line in lines if (found := values(line)) is not None)
        first = next(whole, None) or leading_values(cut)
        return self.has_header and first is not None and not self.is_header(first)

    def made_header(self, source: AgentSource, id: str) -> dict[str, Any] | None:
        """A header for a file whose own is lost; None if the agent needs none.

        Args:
            source: the file.
            id: the id of the session.
        """
        return None

    def id_of_lines(self, head: bytes, file: str) -> str:
        """The id from which the uuids of lines are made that have none.

        Args:
            head: the start of the file.
            file: its path or name.
        """
        return self.facts(head, b"").id or ""

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

    def with_sidecar(self, facts: AgentFacts, sidecar: bytes | None) -> AgentFacts:
        """The facts with those in the file that describes a session; see `AgentSource.sidecar`."""
        return facts

    def inherited(self, source: AgentSource) -> Iterator[bytes]:
        """The lines that a session has in other files, before its own; each part in its order."""
        yield from ()

    def narrowed(self, source: AgentSource, may_match: Callable[[bytes], bool]) -> AgentSource:
        """The file without messages that cannot match, if no other entry depends on them."""
        return source

    def link(self, line: Values) -> Link | None:
        """The place of a line in the agent's tree; None for a line without one."""
        return None

    def whole_document(self, source: AgentSource) -> tuple[bytes, str] | None:
        """A file that is one document, sound, and what was changed; None for a file of lines."""
        return None

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
        self.short: Budget | None = None  # for entries that are made of few bytes
        self._tools: dict[str, str] = {}  # by the id of a call so far, the name of the tool

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

    def opening(self, opening: FileOpening, facts: AgentFacts, **metadata: Any) -> EntryDraft:
        """The header of a file by how it begins; it is made if the file's own is lost."""
        made = self.header(opening.line, facts, **metadata)
        return made._replace(is_made=opening.header is None)

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

    def with_tools(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """The fields of an entry; a result of a call so far that lacks the tool's name gets it."""
        message = fields.get("message")
        if not isinstance(message, dict):
            return fields
        self._tools |= {call.id: call.name for call in calls_of(message)}
        if message.get("role") != "toolResult" or message.get("toolName") is not None:
            return fields
        name = self._tools.get(str(message.get("toolCallId")))
        return {**fields, "message": {**message, "toolName": name}}

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
        missing: str | None = None,
    ) -> EntryDraft:
        """The line of an entry below `parent`, by default the leaf; main-lane entries move it.

        `missing` is the parent that it names, if that is not in the file.
        """
        if missing is not None:
            cause = f"the parent {missing} of entry {uuid} is not in the file"
            self.report(
                "joined", line.place, f"{cause}; it is joined to the one before it, {parent}"
            )
            metadata = {**_decoded(fields.get("metadata")), MISSING_PARENT: missing}
            fields = {**fields, "metadata": metadata}
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
        elif line.is_beside:
            cause = f"{len(line.text):,} bytes beside whole entries are not JSON and were skipped"
            self.report("unreadable", line.place, cause)
        else:
            self.report("unreadable", line.place, "the line is not JSON and was skipped")


def _decoded(metadata: Any) -> dict[str, Any]:
    if isinstance(metadata, orjson.Fragment):
        metadata = decode_leniently(json_of(metadata))
    return metadata if isinstance(metadata, dict) else {}


def joins(entries: Iterable[Link]) -> dict[str, str]:
    """By its id, the parent for each entry whose own parent is not among them.

    That is the entry before it, of the same lane; among reordered lines, the last one before it
    that has nothing below it yet. The first entry of a lane has none, and no entry is joined to one
    below it.

    Args:
        entries: the entries in the order of the file.
    """
    listed = list(entries)
    ids: set[str | None] = {None, *(link.id for link in listed)}
    if all(link.parent in ids for link in listed):
        return {}
    above: dict[str, str] = {}

    def top_of(id: str) -> str:
        passed = []
        while id in above:
            passed.append(id)
            id = above[id]
        above.update(dict.fromkeys(passed, id))
        return id

    for id, parent, *_ in listed:
        if parent is None or parent not in ids or id in above:
            continue
        if top_of(parent) != id:
            above[id] = parent
    before: dict[Hashable, list[str]] = {}
    parents: set[str | None] = set()
    found: dict[str, str] = {}
    steps = 2 * len(listed)
    for id, parent, lane, _ in listed:
        earlier = before.setdefault(lane, [])
        if parent not in ids and id not in found:
            nearest: str | None = None
            for other in reversed(earlier):
                steps -= 1
                if top_of(other) != id:
                    nearest = nearest or other
                    if other not in parents:
                        nearest = other
                        break
                if steps < 0:
                    break
            if nearest is not None:
                found[id] = above[id] = parent = nearest
        earlier.append(id)
        parents.add(parent)
    return found


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


IsSound = Callable[["SourceLine"], bool]
"""True if a line is an object as it is."""


def _has_values(line: SourceLine) -> bool:
    return line.values is not None


def numbered(
    source: AgentSource,
    keys: LineKeys = (),
    number: int = 0,
    report: Report = unreported,
    is_sound: IsSound = _has_values,
) -> Iterator[SourceLine]:
    """The lines of the file with this `LinePlace.source`, as the agent meant to write them.

    A line that several entries share is one line for each of them; an entry that takes several
    lines is one line. A fragment is a line of its own, which is not JSON.

    Args:
        source: the file.
        keys: what tells a line of the agent from an object within one.
        number: the number of the file.
        report: called with the place of each line that is not as the agent writes it.
        is_sound: decodes a line in the way in which the caller needs it.

    Raises:
        TooMuchError: too many of them are short.
    """
    lines = _as_they_are(source, number, report)
    return _Lines(lines, keys, report, source.size, is_sound).read()


def lines_in(head: bytes, keys: LineKeys = ()) -> Iterator[bytes]:
    """The same for the start of a file; the last line may be cut."""
    for line in _Lines(_placed(head), keys, unreported, len(head)).read():
        yield line.text


def _placed(head: bytes, most: int | None = None) -> Iterator[SourceLine]:
    """The lines of the start of a file, up to a number of them."""
    offset, number = 0, 1
    while offset < len(head) and number != most:
        end = head.find(b"\n", offset)
        end = len(head) if end < 0 else end
        if end > offset:
            yield SourceLine(LinePlace(0, number, offset), head[offset:end])
        offset, number = end + 1, number + 1


MAX_ABOVE_HEADER: Final = 20
"""The lines of a file in which its header is looked for; lines may have been reordered."""


class FileOpening(NamedTuple):
    """How a file begins whose agent writes a header first."""

    header: SourceLine | None  # None if it is lost
    values: Values  # of the header; of one that is damaged those that are left
    above: list[SourceLine]  # the lines before it; of a lost header those that were looked at
    torn: SourceLine | None = None  # what is left of a lost header, if nothing can be read of it

    def is_at(self, place: LinePlace) -> bool:
        """True if the header is at a place."""
        return self.header is not None and self.header.place == place

    @property
    def is_empty(self) -> bool:
        """True if the file has no line."""
        return not self.above and self.header is None and self.torn is None

    @property
    def line(self) -> SourceLine:
        """The line with the header; the first line of a file whose header is lost."""
        first = [*filter(None, (self.header, self.torn)), *self.above[:1]]
        return first[0] if first else SourceLine(START, b"")


def opening_of(
    lines: Iterator[SourceLine],
    is_header: Callable[[Values], bool],
    report: Report = unreported,
) -> FileOpening:
    """Take the header and the lines before it; a header that is lost or damaged is reported.

    A first line that is not JSON is taken for what is left of the header.
    """
    above: list[SourceLine] = []
    for line in islice(lines, MAX_ABOVE_HEADER):
        found = line.values or leading_values(line.text)
        if found is not None and is_header(found):
            if line.values is None:
                report("header", line.place, "the header is damaged; its readable part is used")
            elif any(other.values is not None for other in above):
                report("header", line.place, "the header is not the first line")
            return FileOpening(line, found, above)
        above.append(line)
    if above and _is_torn_header(above[0]):
        torn = above.pop(0)
        report("header", torn.place, f"the header cannot be read; {_WITHOUT_HEADER}")
        return FileOpening(None, Values({}), above, torn)
    if above:
        report("header", above[0].place, f"the header before this line is lost; {_WITHOUT_HEADER}")
    return FileOpening(None, Values({}), above)


def header_in(
    lines: Iterator[Values], is_header: Callable[[Values], bool]
) -> tuple[Values, Iterator[Values]]:
    """The header among the first lines of a file, without keys if it is lost; the other lines."""
    above: list[Values] = []
    for line in islice(lines, MAX_ABOVE_HEADER):
        if is_header(line):
            return line, chain(above, lines)
        above.append(line)
    return Values({}), chain(above, lines)


def first_time(lines: Iterable[SourceLine]) -> str | None:
    """The time of the first of some lines that has one."""
    found = (line.values.text("timestamp") for line in lines if line.values is not None)
    return next(filter(None, found), None)


def _is_torn_header(line: SourceLine) -> bool:
    return line.values is None and decode_leniently(line.text.strip(_EMPTY)) is None


_WITHOUT_HEADER: Final = "its facts come from the file's name and the other lines"


def first_line(head: bytes, keys: LineKeys) -> Values | None:
    """The first object in the start of a file; of a damaged line only a line of the agent.

    One that is cut lacks keys.
    """
    first = first_object(head)
    if first is None or _has_some(first, keys):
        return first
    for line in _placed(head.lstrip(_EMPTY), MAX_ABOVE_HEADER):
        if (found := values_again(line.text)) is not None:
            return found
        if b"\0" in line.text:  # a database has lines of agents, too
            return first
        cut = map(leading_values, _beginnings(line.text))
        found = next((left for left in cut if left is not None and _has_some(left, keys)), None)
        if found is not None:
            return found
    return first


def _has_some(line: Values, keys: LineKeys) -> bool:
    return any(names <= set(line) for names in keys)


def _beginnings(line: bytes) -> Iterator[bytes]:
    """The ends of a line that may begin with an object, up to a number of them."""
    start = -1
    for _ in range(_MAX_BEGINNINGS):
        start = line.find(b"{", start + 1)
        if start < 0:
            return
        yield line[start:]


_MAX_BEGINNINGS: Final = 16


def _as_they_are(source: AgentSource, number: int, report: Report) -> Iterator[SourceLine]:
    previous: SourceLine | None = None
    short = Budget(limits.SHORT_TEXTS, source.size, name=source.name, what="lines")
    for line_number, (offset, text) in enumerate(source.lines(), 1):
        if not text:
            continue
        if len(text) < SHORT_BYTES:
            short.take()
        if previous is not None:
            yield previous
        place = LinePlace(number, line_number, offset)
        if text[0] in _BEFORE_LINE or text[-1] in _BEHIND_LINE:
            text = without_zeros(text, place, report)
        previous = SourceLine(place, text)
    if previous is not None:
        previous.is_torn = not source.is_complete()
        yield previous


def without_zeros(text: bytes, place: LinePlace, report: Report) -> bytes:
    """A line without NUL bytes around it, which are reported; a crash may write such bytes."""
    bare = bare_line(text.rstrip(b"\0\r"))
    zeros = text.count(b"\0") - bare.count(b"\0")
    if not zeros:
        return text
    report("nul", place, f"{zeros:,} NUL bytes in the line")
    return bare


_BEFORE_LINE: Final = b"\0\xef"  # what may begin a line with NUL bytes, and end one
_BEHIND_LINE: Final = b"\0\r"

SEPARATES: Final = "the line only separates entries"
"""The cause of damage in a line that is left out."""


class _Lines:
    """Takes damaged lines apart, and puts entries over several lines together.

    Invariants: each whole object of a damaged line is given once, in its order; the lines read
    ahead in vain have no more than twice the bytes of the file.
    """

    def __init__(
        self,
        lines: Iterator[SourceLine],
        keys: LineKeys,
        report: Report,
        size: int,
        is_sound: IsSound = _has_values,
    ) -> None:
        self._is_sound = is_sound
        self._lines = lines
        self._ahead: deque[SourceLine] = deque()
        self._keys = keys
        self._report = report
        self._left = 2 * size

    def read(self) -> Iterator[SourceLine]:
        while (line := self._next()) is not None:
            if self._is_sound(line):
                yield line
            else:
                yield from self._parts(line)

    def _next(self) -> SourceLine | None:
        return self._ahead.popleft() if self._ahead else next(self._lines, None)

    def _is_line(self, found: Mapping[str, Any]) -> bool:
        return not self._keys or any(keys <= found.keys() for keys in self._keys)

    def _parts(self, line: SourceLine) -> Iterator[SourceLine]:
        text = line.text
        spans = spans_of_objects(text, self._is_line) if b"{" in text else []
        if line.is_torn:
            spans = _of_written_entries(text, spans)
        done = 0
        for start, end in spans:
            yield from _fragment(line, done, start)
            yield _part(line, start, in_one_line(text[start:end]) or text[start:end])
            done = end
        rest = without_separators(text, done)
        whole = self._continued(line, rest) if text[rest : rest + 1] == b"{" else None
        if whole is not None:
            yield whole
        elif spans:
            yield from _fragment(line, done, len(text))
        elif rest < len(text) or not text.strip(_EMPTY) or decode_leniently(text) is not None:
            yield line
            return
        self._report_layout(line, spans, whole)

    def _report_layout(
        self, line: SourceLine, spans: Sequence[tuple[int, int]], whole: SourceLine | None
    ) -> None:
        count = len(spans) + (whole is not None)
        if count > 1:
            cause = f"the line has {count} entries; each is read"
        elif whole is not None:
            cause = "the entry takes several lines; it is read as one"
        elif count:
            cause = "the entry shares its line with other text; it is read"
        else:
            cause = SEPARATES
        self._report("layout", line.place, cause)

    def _continued(self, line: SourceLine, start: int) -> SourceLine | None:
        """The object that begins in a line, and ends in a later one; None if it ends in none."""
        end = End()
        if end.scan(line.text, start) is not None:
            return None
        texts, taken, size, last = [line.text[start:]], [], 0, line
        while size < self._left and (following := self._next()) is not None:
            taken.append(following)
            if self._begins_with_object(following):
                break
            size += len(following.text)
            at = end.scan(following.text)
            newlines = b"\n" * (following.place.number - last.place.number)
            texts.append(newlines + following.text[:at])
            last = following
            if at is None:
                continue
            made = in_one_line(b"".join(texts))
            found = None if made is None else values(made)
            if made is None or found is None or (start and not self._is_line(found.raws())):
                break
            if without_separators(last.text, at) < len(last.text):
                rest = _part(last, at, last.text[at:])
                rest.is_torn = last.is_torn
                self._ahead.appendleft(rest)
            return _part(line, start, made)
        self._left -= size
        self._ahead.extendleft(reversed(taken))
        return None

    def _begins_with_object(self, line: SourceLine) -> bool:
        if not line.text.startswith(b"{"):
            return False
        if line.values is not None:
            return True
        spans = spans_of_objects(line.text, self._is_line)
        return bool(spans) and spans[0][0] == 0


def _of_written_entries(text: bytes, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The objects of a last line without those within an entry that is still being written."""
    done = 0
    for number, (start, end) in enumerate(spans):
        begins = without_separators(text, done)
        if begins < start:
            return spans[:number] if _is_being_written(text[begins:]) else spans
        done = end
    return spans


def _is_being_written(text: bytes) -> bool:
    """True if only the end is missing."""
    try:
        msgspec.json.decode(text.rstrip(b"-+.eE"), type=msgspec.Raw)  # a number may be cut
    except _REFUSED as error:
        return str(error) == "Input data was truncated"
    return False


def _part(line: SourceLine, start: int, text: bytes) -> SourceLine:
    place = line.place
    part = SourceLine(LinePlace(place.source, place.number, place.offset + start), text)
    part.is_part = True
    return part


def _fragment(line: SourceLine, start: int, end: int) -> Iterator[SourceLine]:
    """The text between whole objects, unless it only separates them."""
    start = without_separators(line.text, start)
    if start < end:
        made = _part(line, start, line.text[start:end])
        made.is_torn = line.is_torn and end == len(line.text)
        made.is_beside = True
        yield made


def in_one_line(text: bytes) -> bytes | None:
    """An object as valid JSON in one line: control characters become escapes; else None."""
    text = _STRING.sub(lambda string: _CONTROL.sub(_as_escape, string[0]), text)
    if b"\n" not in text:
        return text
    try:
        return msgspec.json.format(text, indent=-1)
    except _REFUSED:
        return None


def _as_escape(character: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % character[0][0]


_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_CONTROL: Final = re.compile(rb"[\0-\x1f]")
_EMPTY: Final = b"\0\r\t \xef\xbb\xbf"
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
    start = 0
    while (end := head.find(b"\n", start)) >= 0:
        found = values_again(head[start:end])
        if found is None and head.find(b"{", start, end) >= 0:
            break
        if found is not None:
            yield found
        start = end + 1
    if end < 0 and not head.startswith(b"[", start):
        cut = leading_values(head[start:])
        if cut is not None:
            yield cut
        return
    lines = _lines_again(head[start:])
    whole = [found for line in lines if (found := values(line)) is not None]
    yield from whole
    if not whole and (cut := leading_values(head[start:])) is not None:
        yield cut
    if (whole or len(lines) > 1) and values(lines[-1]) is None:
        cut = leading_values(lines[-1])
        if cut is not None:
            yield cut


@lru_cache(maxsize=1)
def first_object(head: bytes) -> Values | None:
    """The first object at the start of a file, by which each format recognises its own."""
    return next(first_values(head), None)


@lru_cache(maxsize=1)
def _lines_again(head: bytes) -> Sequence[bytes]:
    return tuple(lines_in(head))


values_again: Final = lru_cache(maxsize=32)(values)
"""Several formats read the first lines, to recognise the file; one of them again for its facts."""


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
            after = _skip(text, end)
            if text[after : after + 1] not in _ENDS_VALUE:  # at the end the value may be cut
                break
            if isinstance(key, str):
                found[key] = text[at:end].encode("utf-8", "replace")
            if text[after] == "}":
                break
            at = after + 1
    except (json.JSONDecodeError, RecursionError):
        pass
    return Values(found)


_ENDS_VALUE: Final = (",", "}")
# int() refuses thousands of digits; a string may have control characters
_JSON: Final = json.JSONDecoder(parse_int=float, strict=False)
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
