"""Entry: one line of a session file, the types it may have, and its time.

An entry is frozen. Its structural keys are attributes, all others are read by key
(`entry["message"]`), and `entry.line` is the line as stored. Do not change what `entry[...]`
returns.

A session may have a million entries. So an entry keeps no dict beside the message, the garbage
collector does not track it (it cannot be part of a cycle), and its other keys are decoded when
first asked for. Spilled strings are put back then too; `as_stored` gives the keys without them.

Reading is lenient, and preserves entries of unknown types. Writing refuses an entry that a reader
could not use (`check_fields`), and a type that is not known (`check_type`). A caller's own type,
whose name begins with `x-`, is written as given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, final

import msgspec
import orjson
from msgspec import UNSET, field
from msgspec.structs import force_setattr

from sessiontree.core.display import printable
from sessiontree.core.fields import FIELDS, EditReplacement, fields_of, fits
from sessiontree.core.jsonbytes import has_escapes
from sessiontree.core.message import check_new_message
from sessiontree.core.spill import Fetch, SpilledBody
from sessiontree.errors import EntryError, UsageError, no_attribute

_decode_any: Final[Callable[[bytes], Any]] = msgspec.json.Decoder().decode

HEADER: Final = "session"
# The name of the main lane. Entries of it have no `lane` key; one with this name is on it too.
MAIN: Final = "main"
AGENT_LANE: Final = "agent-"  # the prefix of the lane of a subagent in a converted session

# Types that put a summary into the context.
SUMMARIES: Final = frozenset({"branch_summary", "stack_summary"})
MOVES: Final = SUMMARIES | {"branch"}  # by which a writer leaves the path on purpose
# Types that apply to the whole file and never move a leaf.
ANNOTATIONS: Final = frozenset({"label", "session_info", "usage"})
MARKERS: Final = ANNOTATIONS | {"branch", "stack_push"}  # contribute nothing to a context
UNDID: Final = "undid"  # the key of a move's metadata with the uuid that an undo takes back
PIECES: Final = frozenset({"block", "message_end"})  # of a message that was streamed in blocks
SETTINGS: Final = frozenset({"model_change", "thinking_level_change"})
# Types that contribute to a context: what `@~3` counts.
CONTENT: Final = (
    SUMMARIES | PIECES | {*("message", "handle", "compaction", "merge", "custom_message")}
)
KNOWN: Final = CONTENT | MARKERS | SETTINGS | {HEADER, "context_edit", "custom"}


@final
class Block(NamedTuple):
    """Lines that follow each other in a file, each with its LF, and the offset of the first.

    The entries of many short lines share one, at most some 32 KB: that is less memory than a copy
    of each line. An entry keeps all of it, so a block has only lines of entries that were read.
    """

    lines: bytes
    offset: int

    def line_at(self, offset: int) -> bytes:
        """The line at an offset of the file, without its LF."""
        start = offset - self.offset
        return self.lines[start : self.lines.index(b"\n", start)]


MISSING_PARENT: Final = "missingParent"
"""The key of the metadata of an entry whose parent was not in the file: the uuid of that parent."""

MARK_OF_JOINED: Final = MISSING_PARENT.encode()
"""What the line of such an entry has, unless it has escapes; and seldom another line."""

_NEAR_NAMES: Final = {
    "id": "uuid",
    "parent": "parent_uuid",
    "parent_id": "parent_uuid",
    "parentUuid": "parent_uuid",
    "kind": "type",
    "time": "timestamp",
    "created_at": "timestamp",
    "message": "entry['message']",
    "role": "entry['message']['role']",
    "content": "entry['message']['content']",
    "data": "entry['data']",
    "summary": "entry['summary']",
    "metadata": "entry.get('metadata')",
    "children": "session.children(entry)",
}
"""Names that people try, and what an entry has for them."""


class Entry(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One entry of a session, as stored."""

    type: str  # the entry type, such as `message` or `compaction`
    uuid: str  # the uuid of the entry, unique in the file
    # the uuid of the parent; None for the header
    parent_uuid: str | None = field(default=None, name="parentUuid")
    lane: str | None = None  # the lane of the entry; None for main
    timestamp: str | None = None  # the time as stored (RFC 3339); None if the line has no timestamp
    # the value of `message`. UNSET if the entry has no `message`, or if some strings of the entry
    # are in blobs
    message_value: Any = field(default=UNSET, name="message")
    # the value of `spilled`, the list of strings that are in blobs; or UNSET
    spilled_value: Any = field(default=UNSET, name="spilled")
    # Set after decoding. A line with one of these names fails the type check and is decoded the
    # long way, so no key of a file gets here.
    _line: None = field(default=None, name="(line)")
    _body: None = field(default=None, name="(body)")
    _at: None = field(default=None, name="(offset)")
    _fetch: None = field(default=None, name="(fetch)")

    @property
    def line(self) -> bytes:
        """The line as stored, without its newline."""
        line: bytes | Block = self._line  # type: ignore[assignment]  # a cast is a call
        return line.line_at(self.offset) if type(line) is Block else line

    @property
    def offset(self) -> int:
        """The byte offset of the line in the file; -1 until the entry is written."""
        at: int = self._at  # type: ignore[assignment]
        return at

    if not TYPE_CHECKING:  # to a type checker, any name would be right

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, _NEAR_NAMES)

    def __getitem__(self, key: str) -> Any:
        """The value of a key, with spilled strings put back.

        Raises:
            KeyError: the entry has no such key.
            BlobError: a blob of the entry cannot be read.
        """
        if key == "message" and self.message_value is not UNSET:
            return self.message_value
        return self.body[key]

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or `default`. Raises the same BlobError as `entry[key]`."""
        if key == "message" and self.message_value is not UNSET:
            return self.message_value
        return self.body.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self.as_stored

    def __iter__(self) -> Iterator[str]:
        return iter(self.as_stored)

    @property
    def body(self) -> Mapping[str, Any]:
        """All keys and values of the line. Do not change the values.

        If a part of a value is in a blob that cannot be read, reading the key raises BlobError.
        """
        known: Mapping[str, Any] | None = self._body
        if known is not None:
            return known
        body: Mapping[str, Any] = decode_object(self.line)
        if self.spilled_value is not UNSET:
            body = SpilledBody(body, self._fetch)
        force_setattr(self, "_body", body)
        return body

    @property
    def as_stored(self) -> Mapping[str, Any]:
        """All keys and values as in the line.

        If a string is stored in a blob, the text of the blob's handle replaces the string.
        """
        body = self.body
        if type(body) is dict:  # as nearly all; the other check is ten times as slow
            return body
        return body.stored if isinstance(body, SpilledBody) else body

    @property
    def has_spilled(self) -> bool:
        """True if strings of the entry are in blobs."""
        return self.spilled_value is not UNSET

    @property
    def message_as_stored(self) -> Any:
        """The `message` as in the line, or None. Strings in blobs are handles; see `as_stored`."""
        return self.as_stored.get("message") if self.message_value is UNSET else self.message_value

    def __await__(self) -> NoReturn:
        raise UsageError(
            "a Session returns the entry itself: leave 'await' out, or use AsyncSession, which has "
            "the same methods to await"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entry):
            return NotImplemented
        return self.uuid == other.uuid and self.line == other.line

    def __ne__(self, other: object) -> bool:
        return not self == other  # the base class compares by identity

    def __hash__(self) -> int:
        return hash(self.uuid)

    def __repr__(self) -> str:
        return f"<Entry {self.type} {self.uuid} parent={self.parent_uuid}>"

    @property
    def is_content(self) -> bool:
        """True if the entry contributes to a context."""
        return self.type in CONTENT


def stored(
    entry: Entry, line: bytes | Block, offset: int, body: Mapping[str, Any] | None = None
) -> Entry:
    """Set the line, the offset and, where known, the decoded keys of a fresh entry."""
    force_setattr(entry, "_line", line)
    force_setattr(entry, "_at", offset)
    if body is not None:
        force_setattr(entry, "_body", body)
    return entry


def with_fetch(entry: Entry, fetch: Fetch | None) -> Entry:
    """Give an entry the function that reads its blobs."""
    force_setattr(entry, "_fetch", fetch)
    if entry.spilled_value is not UNSET:
        force_setattr(entry, "message_value", UNSET)  # `body` gives it whole
    return entry


def moved(entry: Entry, offset: int) -> Entry:
    """Set the offset of an entry that was written."""
    force_setattr(entry, "_at", offset)
    return entry


def rehung(entry: Entry, again: Entry) -> Entry:
    """Give an entry that is not written yet the parent and the line of another draft of it."""
    force_setattr(entry, "parent_uuid", again.parent_uuid)
    force_setattr(entry, "_body", None)
    return stored(entry, again.line, -1)


def decode_object(line: bytes) -> dict[str, Any]:
    """The keys of a line; empty where it is not a JSON object even when read leniently."""
    value = decode_leniently(bare_line(line))
    return value if isinstance(value, dict) else {}


BOM: Final = b"\xef\xbb\xbf"
_BEFORE: Final = re.compile(rb"\A(?:\0++|\xef\xbb\xbf)++")  # possessive: one try at each byte


def bare_line(line: bytes) -> bytes:
    """A line without the NUL bytes around it, and the byte order marks before it, in any order."""
    if line[:1] not in (b"\0", b"\xef"):
        return line.rstrip(b"\0")
    return _BEFORE.sub(b"", line, count=1).rstrip(b"\0")


_ENDS: Final = {
    b"{": b"}",
    b"[": b"]",
    b'"': b'"',
    b"t": b"e",
    b"f": b"e",
    b"n": b"l",
    **{b"%c" % first: b"0123456789" for first in b"-0123456789"},
}
"""The bytes that a JSON value may end with, by its first byte."""


def decode_leniently(line: bytes) -> Any:
    """A line's JSON value from the first decoder that accepts it, or None.

    msgspec keeps every number exact. The standard library accepts some lines that msgspec refuses
    (a lone surrogate, a stray byte, a number too large). orjson reads 1,024 levels of nesting,
    whatever the depth of the caller's stack.
    """
    if not line or line.isspace():  # a file may have millions of such lines
        return None
    try:
        return _decode_any(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    bare = line.strip()
    is_cut = len(bare) == 1 and not bare.isdigit()
    if is_cut or bare[-1] not in _ENDS.get(bare[:1], b""):  # the slow decoders would say so too
        return None
    try:
        return _decode_text(line.decode("utf-8", "replace"))
    except ValueError:
        return None
    except RecursionError:
        pass
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _whole_number(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:  # Python refuses thousands of digits; infinity, as for 1e999
        return float(digits)


_decode_text: Final = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_int=_whole_number
).decode

REWRITTEN: Final = "rewritten"
"""The key of an entry with other content than it was written with: the names of the changes."""

RESERVED: Final = frozenset(
    {"type", "version", "format", "uuid", "parentUuid", "lane", "timestamp", "spilled", "crc"}
)
"""Keys that only the session writes."""


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def whole_number(value: Any) -> int | None:
    """Return a whole number of JSON, spelled `2` or `2.0`; None for anything else."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if type(value) is int else None


REFERENCES: Final[dict[str, tuple[str, ...]]] = {
    "compaction": ("firstKeptEntryUuid",),
    "branch_summary": ("fromUuid",),
    "stack_summary": ("fromUuid",),
    "merge": ("mergedUuid", "baseUuid"),
    "context_edit": ("targetUuid",),
    "label": ("targetUuid",),
}
"""The fields of a type that name other entries, which must exist."""

OPTIONAL_REFERENCES: Final = frozenset({"fromUuid"})
"""The fields among them that an entry may leave out."""


OWN: Final = "x-"
"""The beginning of the name of a caller's own type."""


def check_type(kind: Any) -> None:
    """Check that a caller may write entries of a type: a known one, or an own one."""
    if not _is_text(kind) or kind in KNOWN or (kind.startswith(OWN) and kind != OWN):
        return  # `check_fields` refuses what is not a name, and the header
    from difflib import get_close_matches  # only a refusal needs it

    near = get_close_matches(kind.lower(), sorted(KNOWN - {HEADER}), n=1, cutoff=0.7)
    asked = f"did you mean {near[0]!r}? Use" if near else "use"
    raise EntryError(
        f"there is no entry type {kind!r:.60}; {asked} 'custom' for your own data, or begin the "
        "name of your own type with 'x-'"
    )


def check_fields(kind: Any, fields: Mapping[str, Any]) -> None:
    """Check that an entry may be written; an EntryError names what is missing or wrong."""
    if not _is_text(kind):
        raise EntryError(f"an entry's type must be a non-empty string, not {kind!r}")
    if kind == HEADER:
        raise EntryError("a session has only one header; change its facts with update_metadata")
    if not RESERVED.isdisjoint(fields):
        key = next(key for key in fields if key in RESERVED)
        raise EntryError(f"only the session writes the key {key!r}; leave it out")
    if kind in FIELDS and not fits(fields, FIELDS[kind]):
        raise _refusal(kind, fields)
    if kind == "message":
        check_new_message(fields["message"])
    if kind == "session_info" and fields.get("name") is not None:
        check_session_name(fields["name"])
    metadata = fields.get("metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise EntryError(f"metadata must be a dict, not {metadata!r:.60}")


def _refusal(kind: str, fields: Mapping[str, Any]) -> EntryError:
    """Return the error for fields that do not fit their type; it names the first wrong one."""
    for known in fields_of(FIELDS[kind]):
        key, wanted = known.key, known.wanted
        if key in fields and not fits(fields[key], known.type):
            return EntryError(f"{key!r} of a {kind} must be {wanted}, not {fields[key]!r:.60}")
        if key not in fields and known.is_required:
            return EntryError(f"a {kind} needs {key!r}: {wanted}")
    return EntryError(f"the keys of a {kind} must be strings")


def edit_of(entry: Entry | Mapping[str, Any]) -> tuple[str, Any] | None:
    """Return the target and the replacement of a `context_edit`; None if it has no effect.

    An edit needs both. A replacement is None, or a dict with `content`.
    """
    target, replacement = entry.get("targetUuid"), entry.get("replacement", False)
    if not isinstance(target, str) or not fits(replacement, EditReplacement | None):
        return None
    return target, replacement


def check_session_name(name: Any) -> None:
    """Check that a session's name is a line of text, not empty; else raise an EntryError."""
    if not isinstance(name, str) or not name.strip():
        raise EntryError(f"a session's name must be non-empty text, not {name!r:.60}")
    if (bad := next((c for c in name if c in "\n\t" or not printable(c)), None)) is not None:
        raise EntryError(
            f"a session's name must be a line without control characters; {name!r:.60} has {bad!r}"
        )


RESPONSE: Final = "responseId"
"""The key of the metadata with the id of the response of OpenAI that an item is of."""


def response_of(entry: Entry) -> str | None:
    """Return the id of the response of OpenAI that an item is of, or None if it is not known."""
    metadata = entry.as_stored.get("metadata")
    id = metadata.get(RESPONSE) if isinstance(metadata, dict) else None
    return id if isinstance(id, str) else None


SUBAGENT: Final = ":subagent"
"""The end of the `customType` of a custom entry that begins the lane of a subagent."""

_NOT_IN_LANE_NAME: Final = re.compile(r"[^\w.\-]+")


def missing_parent(entry: Entry) -> str | None:
    """The parent that was not in the file, of an entry joined to the one before it; else None."""
    if MARK_OF_JOINED not in entry.line and not has_escapes(entry.line):
        return None
    metadata = entry.as_stored.get("metadata")
    named = metadata.get(MISSING_PARENT) if isinstance(metadata, dict) else None
    return named if isinstance(named, str) else None


def lane_of_subagent(id: str) -> str:
    """Return the lane of the subagent with this id."""
    return f"{AGENT_LANE}{_NOT_IN_LANE_NAME.sub('-', id).strip('-') or 'unnamed'}"


def is_of_subagent(lane: str | None) -> bool:
    """True if a lane has the work of a subagent of another agent's session."""
    return lane is not None and lane.startswith(AGENT_LANE)


_AGO: Final = re.compile(
    r"(\d{1,6})\s*(?:(mo)(?:nths?)?|(m)(?:in(?:ute)?s?)?|(h)(?:ours?)?|(d)(?:ays?)?|(w)(?:eeks?)?|"
    r"(y)(?:ears?)?)(?:\s+ago)?"
)
_MINUTES: Final = {"m": 1, "h": 60, "d": 1440, "w": 7 * 1440, "mo": 30 * 1440, "y": 365 * 1440}
_WEEK: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def moment_of(timestamp: object) -> datetime | None:
    """A stored time (RFC 3339), one without a zone as UTC; None if it is not a time."""
    if not isinstance(timestamp, str):
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def seconds_of(timestamp: object) -> float | None:
    """A stored time in seconds since 1970; None if it is not a time."""
    moment = moment_of(timestamp)
    return None if moment is None else moment.timestamp()


def moment_given(text: str, now: datetime) -> datetime:
    """The time that a user names: a date, a date and time, a day, or how long before `now`.

    A day, such as `yesterday` or the last `monday`, begins at midnight here.

    Raises:
        UsageError: the text is not such a time.
    """
    word = text.strip().lower()
    try:
        if ago := _AGO.fullmatch(word):
            unit = next(filter(None, ago.groups()[1:]))
            return now - timedelta(minutes=int(ago[1]) * _MINUTES[unit])
        today = now.astimezone().date()
        days = {"today": 0, "yesterday": 1}
        days |= {day: (today.weekday() - number) % 7 for number, day in enumerate(_WEEK)}
        if word in days:
            text = (today - timedelta(days=days[word])).isoformat()
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        forms = (
            "a date such as 2026-01-31, a date and time, 'yesterday', 'monday', or how long ago: "
            "30m, 12h, 7d, 2w"
        )
        raise UsageError(f"not a time; give {forms}") from None
