"""What the writers of other agents' formats share.

A writer gets the session as a `SessionSource` and gives the files as a `Writer`; it reads
no disk and writes none. A message in the target's own shape is copied as it is, unknown
kinds of blocks included. `context.providers.reading` takes any other apart into parts,
from which the writer makes messages. What the target cannot express is counted in `Losses`.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol, cast

import msgspec

from sessiontree.context.providers.parts import Call, Media, stand_in
from sessiontree.context.providers.values import Notes, clean_value, object_in
from sessiontree.core.display import one_line
from sessiontree.core.entry import Entry
from sessiontree.core.index import TreeIndex
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.message import Message, most_blocks
from sessiontree.core.moment import seconds_of
from sessiontree.errors import EntryError, NothingToDoError, TooMuchError

PIECES: Final = frozenset({"block", "message_end"})
CHANGES_ABOVE: Final = PIECES | {"compaction", "context_edit", "merge"}
"""The types of entries that change what stands above them, or have it in several places."""

LONG_AGO: Final = "1970-01-01T00:00:00.000Z"
UNKNOWN: Final = "unknown"

LOSS_OF_SYSTEM: Final = "a system message is left out: {} makes its own"
"""With the name of the program."""

LOSS_OF_TYPE: Final = {
    "label": "a label is left out",
    "custom": "a custom entry is left out",
    "stack_push": "a stack_push is left out",
    "merge": "a merge: its messages are repeated in its place",
    "context_edit": "an edit: the conversation is as edited, the original content is left out",
    "stack_summary": "a stack_summary is a user message",
    "branch_summary": "a branch_summary is a user message",
    "custom_message": "a custom_message is a user message",
    "handle": "a handle is replaced by its current content",
}
"""What is lost of an entry in the files of agents that have no such entries, by its type."""

WRITTEN_KEYS: Final = {
    "compaction": ("summary", "firstKeptEntryUuid", "tokensBefore", "state"),
    "branch": (),
    "block": ("messageUuid", "index", "block"),
}
"""The keys that are written, by type; other keys are losses."""

OPENAI_BLOCKS: Final = frozenset(
    {
        *("input_text", "output_text", "input_image", "image_url", "refusal", "file"),
        *("input_file", "reasoning", "compaction"),
    }
)
"""The kinds of blocks and items that only OpenAI has."""

_STRUCTURE: Final = frozenset(
    {"type", "uuid", "parentUuid", "lane", "timestamp", "crc", "spilled", "variantOf"}
)
_ENVELOPE: Final = frozenset(
    {
        *("type", "uuid", "parentUuid", "id", "parentId", "isSidechain", "agentId", "isMeta"),
        *("cwd", "version", "gitBranch", "userType", "sessionId", "timestamp"),
    }
)
"""The keys of other programs' lines that each written line has a value of its own for."""


class Loss(msgspec.Struct, frozen=True):
    """A part of a session that the converted file leaves out or changes.

    Attributes:
        what: the part and what became of it, in words.
        count: how often it was found.
        entry: the uuid of the first entry with it; None if it belongs to no entry.
    """

    what: str
    count: int
    entry: str | None

    def __str__(self) -> str:
        times = f"{self.count:,} times, first in entry" if self.count > 1 else "entry"
        return f"{self.what} ({times} {self.entry[:8]})" if self.entry else self.what


class Losses(Notes):
    """Counts losses; `uuid` is the entry that the next one belongs to."""

    def replaced(self, media: Media, why: str = "") -> str:
        """Note that media is replaced by its name; the text in its place."""
        name = stand_in(media)
        self.add(f"the {name[1:-1]} is replaced by its name{why}")
        return name

    def at(self, uuid: str, what: str) -> None:
        self.uuid = uuid
        self.add(what)

    def keys(self, entry: Entry, written: Container[str]) -> None:
        """Note the keys of an entry but those written and those of its place in the tree."""
        self.keys_in(entry.as_stored, entry, written)

    def keys_in(self, keys: Mapping[str, Any], entry: Entry, written: Container[str]) -> None:
        """The same, of an entry whose keys are decoded."""
        self.uuid = entry.uuid
        for key, value in keys.items():
            if key in written or key in _STRUCTURE:
                continue
            inner = value if key == "original" and isinstance(value, dict) else {key: value}
            for name in inner:
                if name not in _ENVELOPE:
                    kind = one_line(entry.type, 40)
                    self.add(f"the key {one_line(name, 40)!r} of a {kind} is left out")

    def found(self) -> list[Loss]:
        return [Loss(what, count, uuid or None) for what, (count, uuid) in self._found.items()]


_TOGETHER: Final = 100
"""The rows of which the handles are resolved together."""

_READ_AGAIN: Final = 40_000
"""The entries that the conversion of a small session may read again."""

_SIZE_OF_EACH: Final = 32
"""Bytes of a session for each further entry that its conversion may read again."""

_LINES_AGAIN: Final = 1_000_000
"""The lines that the files of the lanes of a small session may have."""

_SIZE_OF_EACH_LINE: Final = 5
"""Bytes of a session for each line that the files of its lanes may have."""

_MOST_LANES: Final = 4_000
"""The lanes that may become files of their own."""

_BYTES_AGAIN: Final = 128 << 20
"""The bytes of lines that a conversion may repeat."""

_TIMES: Final = 100
"""How often a conversion may repeat each byte, beyond those."""


class SessionSource(Protocol):
    """The session to convert, as a writer reads it. A row is a position in `tree`."""

    title: str  # the path of the session, or words for one without a file
    id: str
    name: str | None
    metadata: dict[str, Any]
    header: Entry
    opened: str | None  # the time at which the other program goes on, or None
    lane: str | None  # the current lane; None for main
    tree: TreeIndex  # the index of the whole session
    leaf: int  # the row of the current leaf
    losses: Losses  # collects the losses
    room: Room  # limits the entries that are read again
    lines: Room  # limits the lines of lanes
    repeated: Room  # limits the bytes of lines that repeat others

    def model_id(self) -> str | None:
        """The model at the leaf."""

    def rows(self) -> Iterator[int]:
        """All rows but the header's, in file order, each parent before its children."""

    def row(self, entry: Entry) -> int: ...

    def parent(self, entry: Entry) -> Entry: ...

    def stored(self, row: int) -> Entry:
        """The entry of a row, with spilled strings as their handles."""

    def entry(self, row: int) -> Entry:
        """The entry of a row, with spilled strings, or placeholders for missing ones."""

    def resolved(self, entry: Entry) -> Message:
        """The message of a `handle` entry, or a placeholder."""

    def resolve_ahead(self, rows: Sequence[int]) -> None:
        """Resolve the handles of rows together; `resolved` is asked for them next."""

    def context(self, leaf: Entry) -> list[tuple[Message, Entry, int]]:
        """The messages of the verbatim context of the path to an entry.

        Each with its entry, and the row to continue from. It is the row of the entry; of the last
        piece, for a message in pieces; of the compaction that kept it; or of the merge that added
        it.
        """

    def merged(self, merge: Entry) -> list[tuple[Message, Entry]]:
        """The messages that a merge adds to its path, each with its entry."""

    def path(self, leaf: int) -> array[int]:
        """The rows from the top down to one."""

    def messages(self, path: array[int]) -> Iterator[tuple[Message, Entry]]:
        """All messages of a path, compacted ones included, each with its entry."""

    def tips(self) -> list[int]:
        """The rows of the last content of each branch, in file order, but the leaf's path."""

    def lanes(self) -> dict[str, list[int]]:
        """The tips of each lane but the current one; the last is the lane's leaf."""

    def derived_uuid(self, uuid: str, number: int) -> str:
        """A uuid for the `number`th line made from an entry."""


class SideFile(NamedTuple):
    """A file beside the main one: its path from there, with `/`, and its bytes."""

    path: str
    blocks: Callable[[], Iterator[bytes]]

    @classmethod
    def of(cls, path: str, content: bytes) -> SideFile:
        """A file of which the content is known."""
        return cls(path, lambda: iter([content]))


class Writer(Protocol):
    """A session as the files of another program, which would give the main one `default_name`."""

    @property
    def default_name(self) -> str: ...

    def beside(self, name: str) -> list[SideFile]:
        """The files beside the main one; `name` is the main one's, without its suffix."""

    def blocks(self) -> Iterator[bytes]:
        """The bytes of the main file; called once, after `beside`."""


def resolved_ahead(source: SessionSource, rows: Iterator[int]) -> Iterator[int]:
    """The rows; the handles among those that follow each other are resolved together."""
    while batch := list(islice(rows, _TOGETHER)):
        handles = [row for row in batch if source.tree.type_of(row) == "handle"]
        if handles:
            source.resolve_ahead(handles)
        yield from batch


def durable_lanes(source: SessionSource) -> Iterator[tuple[str, list[int]]]:
    """Each lane but the current one and its tips; scratch lanes are noted as losses."""
    for lane, tips in source.lanes().items():
        if lane.startswith("scratch/"):
            uuid = source.tree.uuids[tips[-1]]
            source.losses.at(uuid, f"the scratch lane {lane!r} is left out")
        else:
            yield lane, tips


def subagents(source: SessionSource) -> dict[str | None, dict[str, Any]]:
    """The facts of each subagent by its lane, as the Claude Code reader stores them."""
    entries = map(source.stored, source.tree.rows_of_type("custom"))
    return {
        entry.lane: data
        for entry in entries
        if entry.get("customType") == "claude-code:subagent"
        and isinstance(data := entry.get("data"), dict)
    }


def arguments_of(call: Call) -> dict[str, Any]:
    """The arguments of a call as an object; a text that is not one is its `input`."""
    arguments: Any = call.arguments
    if isinstance(arguments, str):
        found = None if call.freeform else object_in(arguments)
        arguments = {"input": arguments} if found is None else clean_value(found)
    return cast("dict[str, Any]", arguments)


def block_list(content: Any) -> list[Any]:
    """Content as a list of blocks; a text is one block, an empty text none."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content) if isinstance(content, list) else []


def milliseconds(timestamp: str | None) -> int:
    """An RFC 3339 time as milliseconds since 1970; 0 for None."""
    return round((seconds_of(timestamp) or 0) * 1000)


class Room:
    """Limits what a conversion does again and again.

    A lane repeats what is above it, a compaction what it keeps, a merge what it takes in. A file
    may be made so that this grows with the square of its size.
    """

    def __init__(self, most: int, error: str) -> None:
        self._left = most
        self._error = f"{error}; fork the path that you need, and convert the copy"

    @classmethod
    def of_entries(cls, title: str, entries: int, size: int) -> Room:
        """Room to read entries again, in a session of so many entries and bytes."""
        most = entries + _READ_AGAIN + size // _SIZE_OF_EACH
        facts = f"{title} has {entries:,} entries, and its lanes, compactions and merges"
        return cls(most, f"{facts} repeat them more than {most:,} times")

    @classmethod
    def of_lanes(cls, title: str) -> Room:
        """Room for lanes that become files."""
        return cls(_MOST_LANES, f"{title} has more than {_MOST_LANES:,} lanes, a file each")

    @classmethod
    def of_lines(cls, title: str, size: int) -> Room:
        """Room for the lines of lanes, in a session of so many bytes."""
        most = max(_LINES_AGAIN, size // _SIZE_OF_EACH_LINE)
        return cls(most, f"the lanes of {title}, with what is above them, have over {most:,} lines")

    @classmethod
    def of_blocks(cls, title: str, size: int) -> Room:
        """Room for the content blocks and calls of messages, in a session of so many bytes."""
        most = most_blocks(size)
        return cls(most, f"{title} has more than {most:,} content blocks and calls")

    @classmethod
    def of_bytes(cls, title: str) -> Room:
        """Room for bytes that repeat others."""
        error = f"the lanes and compactions of {title} repeat each byte more than {_TIMES} times"
        return cls(_BYTES_AGAIN, error)

    def take(self, count: int = 1) -> None:
        """Note what is done again.

        Raises:
            TooMuchError: it is more than the limit.
        """
        self._left -= count
        if self._left < 0:
            raise TooMuchError(self._error)

    def widen(self, size: int) -> None:
        """Note bytes that repeat no others; they may be repeated later."""
        self._left += _TIMES * size


def has_context(source: SessionSource) -> bool:
    """Whether the context at the leaf has a message; the leaf tells it in most sessions."""
    leaf = source.stored(source.leaf)
    is_message = leaf.type == "message" and isinstance(leaf.message_as_stored, dict)
    if (is_message or leaf.type == "handle") and not source.tree.rows_of_type(*CHANGES_ABOVE):
        return True
    return bool(source.context(leaf))


def no_message(source: SessionSource, made: str) -> NothingToDoError:
    return NothingToDoError(
        f"{source.title} has no message on the path to its leaf, and a {made} needs one; "
        "go to a branch that has messages"
    )


def text_in(value: Any) -> str:
    """A value that is a text; for any other the empty text."""
    return value if isinstance(value, str) else ""


def are_texts(block: Mapping[str, Any], *keys: str) -> bool:
    return all(isinstance(block.get(key), str) for key in keys)


def json_of(value: Any) -> bytes:
    """A value as JSON on one line; lone surrogates become escapes, as Node writes them.

    Numbers that JSON cannot express become text. A RecursionError says that it is too deep.
    """
    try:
        return dumps(value)
    except EntryError:
        pass
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except (ValueError, TypeError):
        return json.dumps(clean_value(value), separators=(",", ":")).encode()
