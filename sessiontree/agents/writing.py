"""What the writers of other agents' formats share.

A writer gets the session as a `SessionSource` and gives the files as a `Writer`; it reads no disk
and writes none. A message in the target's own shape is copied as it is, unknown kinds of blocks
included. `context.providers.reading` takes any other apart into parts, from which the writer makes
messages. What the target cannot express is counted in `Losses`.

A program whose file is one log gets the branches one after another: it writes a branch, goes back,
and writes the next one, the current branch last. A branch goes on from a place that is in force
when it is written, so each entry is given once. A branch with a compaction, an edit, a merge or a
message in pieces is given whole, from its start, because these change what is above them: the
writer compares it with what it has written.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import merge
from itertools import chain, islice, pairwise, takewhile
from operator import itemgetter
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, cast

import msgspec

from sessiontree.agents.agent import is_uuid
from sessiontree.agents.base import MADE_ANEW
from sessiontree.context.pairing import Pairing
from sessiontree.context.providers.reading import Media, SentCall, maker_of, stand_in
from sessiontree.context.providers.values import RequestNotes, clean_value, object_in
from sessiontree.context.settings import may_make_system
from sessiontree.core.blocks import message_uuid
from sessiontree.core.display import one_line
from sessiontree.core.entry import SUBAGENT, Entry, decode_object, seconds_of
from sessiontree.core.index import NO_ROW, TreeIndex
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.limits import Budget
from sessiontree.core.message import REPEATS, Message, result_ids
from sessiontree.errors import EntryError, NothingToDoError

PIECES: Final = frozenset({"block", "message_end"})
_KNOWN_METADATA: Final = frozenset({"isMeta", REPEATS})
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

_OF_CALL: Final = frozenset({"id", "name", "args", "result", "status", "timestamp"})
"""The keys of a call of Gemini CLI that its entries say in their own way."""


class Loss(msgspec.Struct, frozen=True):
    """A part of a session that the converted file leaves out or changes."""

    what: str  # the part and what became of it, in words
    count: int  # how often it was found
    entry: str | None  # the uuid of the first entry with it; None if it belongs to no entry

    def __str__(self) -> str:
        times = f"{self.count:,} times, first in entry" if self.count > 1 else "entry"
        return f"{self.what} ({times} {self.entry[:8]})" if self.entry else self.what


class Losses(RequestNotes):
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
            kind = one_line(entry.type, 40)
            if key != "original" or not isinstance(value, dict):
                self._left_out({key: value}, _ENVELOPE, kind)
                continue
            self._left_out(value, _ENVELOPE | MADE_ANEW, kind)
            calls = value.get("toolCalls")
            for call in calls if isinstance(calls, list) else ():
                if isinstance(call, dict):
                    self._left_out(call, _OF_CALL, "call")

    def _left_out(self, keys: Iterable[str], written: Container[str], kind: str) -> None:
        for name in keys:
            if name not in written:
                self.add(f"the key {one_line(name, 40)!r} of a {kind} is left out")

    def found(self) -> list[Loss]:
        return [Loss(what, count, uuid or None) for what, (count, uuid) in self._found.items()]


class SessionSource(Protocol):
    """The session to convert, as a writer reads it. A row is a position in `tree`."""

    title: str  # the path of the session, or words for one without a file
    id: str
    name: str | None
    metadata: dict[str, Any]
    header: Entry
    opened: str | None  # the time at which the other program goes on, or None
    provider: str | None  # the provider of models that the other program is set to, or None
    lane: str | None  # the current lane; None for main
    tree: TreeIndex  # the index of the whole session
    leaf: int  # the row of the current leaf
    losses: Losses  # collects the losses
    room: Budget  # limits the entries that are read again
    lines: Budget  # limits the lines of lanes
    repeated: Budget  # limits the bytes of lines that repeat others

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

    def origin_at(self, uuid: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The origin key of a line with these fields that is made from an entry.

        The line of an entry that was itself converted has the same origin as that line.
        """


def session_uuid(source: SessionSource) -> str:
    """The session's id if it is a UUID, else one derived from it, the same each time."""
    return source.id if is_uuid(source.id) else source.derived_uuid(source.id, 0)


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
    while batch := list(islice(rows, 100)):  # the rows of which the handles are resolved together
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


def facts_of_lanes(source: SessionSource) -> dict[str | None, dict[str, Any]]:
    """What the start of each subagent's lane says, by the lane, whichever agent wrote it."""
    entries = map(source.stored, source.tree.rows_of_type("custom"))
    return {
        entry.lane: data
        for entry in entries
        if str(entry.get("customType")).endswith(SUBAGENT)
        and isinstance(data := entry.get("data"), dict)
    }


def arguments_of(call: SentCall) -> dict[str, Any]:
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


def provider_of(model: str, message: Message) -> str:
    """The provider in the message, or else the one that the model's name implies."""
    given = text_in(message.get("provider"))
    if known := given or maker_of({**message, "model": model}):
        return known
    if model.startswith(("gpt-", "o1", "o3", "o4", "codex")):
        return "openai"
    return "google" if model.startswith("gemini") else UNKNOWN


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


_NOTED: Final = frozenset({"usage", "model_change", "thinking_level_change"})

_WHOLLY_WRITTEN: Final = _NOTED | {"session_info", "message_end"}


class WrittenMessage(NamedTuple):
    """A message; `row` is that of the entry below which the next message belongs."""

    row: int
    entry: Entry
    message: Message


class WrittenCompaction(NamedTuple):
    """A compaction: what is in force from here on. `row` is that of the compaction."""

    row: int
    entry: Entry
    kept: list[WrittenMessage]


class WrittenNote(NamedTuple):
    """An entry about the usage, the model or the thinking level."""

    row: int
    entry: Entry


Step = WrittenMessage | WrittenCompaction | WrittenNote


class WrittenBranch(NamedTuple):
    """One branch."""

    above: int  # the number of entries above the place where it goes on; 0 for the start
    steps: Iterable[Step]  # the steps from there on, or all of them; given once
    is_whole: bool  # whether it is all of them
    is_last: bool  # whether it is the current one
    whole: Callable[[], Iterable[Step]]  # gives all of them


class _Deep(Protocol):
    @property
    def depth(self) -> int:
        """The number of entries above the last entry that a unit was made from."""


Unit = TypeVar("Unit", bound=_Deep)
Made = TypeVar("Made")


class WriterLog(Generic[Unit]):
    """What is in force of what a writer has written."""

    def __init__(self) -> None:
        self.units: list[Unit] = []
        self._early: list[int] = []  # the places of units that stand behind a deeper one

    def add(self, units: Iterable[Unit]) -> None:
        for unit in units:
            if self.units and unit.depth < self.units[-1].depth:
                self._early.append(len(self.units))
            self.units.append(unit)

    def common(
        self, made: Iterator[Made], again: Callable[[Unit, Made], Unit | None]
    ) -> tuple[int, Iterator[Made]]:
        """How many units are made again first, and the rest of what is made.

        `again` gives a unit as it is on this branch, or None where something else is made. A merge
        below has a message deeper than the branch that the message comes from.
        """
        count = 0
        is_moved = False
        for each in made:
            unit = again(self.units[count], each) if count < len(self.units) else None
            if unit is None:
                made = chain([each], made)
                break
            is_moved = is_moved or unit.depth != self.units[count].depth
            self.units[count] = unit
            count += 1
        if is_moved:
            depths = [unit.depth for unit in self.units]
            self._early = [n for n, (a, b) in enumerate(pairwise(depths), 1) if b < a]
        return count, made

    def cut(self, count: int) -> list[Unit]:
        """Leave the first units; gives the others."""
        removed = self.units[count:]
        del self.units[count:]
        while self._early and self._early[-1] >= count:
            self._early.pop()
        return removed

    def up_to(self, depth: int) -> int | None:
        """How many units are at or above a depth; None where these are not the first ones."""
        if not self._early:
            return bisect_right(self.units, depth, key=lambda unit: unit.depth)
        count = sum(1 for unit in self.units if unit.depth <= depth)
        return None if any(unit.depth > depth for unit in self.units[:count]) else count


class LogWriter(ABC, Generic[Unit]):
    """Writes the branches one after another into one log, the current one last; see `Writer`.

    What the next branch leaves is taken back by lines; a subclass makes those, and all others.
    """

    program: str  # the agent's name for people
    document: str  # what a session is there
    is_linear: bool = False  # whether it has the current branch alone

    def __init__(self, source: SessionSource) -> None:
        self.source = source
        self.losses = source.losses
        self.session_id = session_uuid(source)
        self.time = source.header.timestamp or LONG_AGO  # of the last step
        self.place = source.header.uuid  # of the last line
        self.branches = Branches(source)
        self.log: WriterLog[Unit] = WriterLog()
        self.counted: set[str] = set()  # the answers whose usage is written
        note_losses(source, self.program)
        if not has_context(source):
            raise no_message(source, self.document)
        for tip in source.tips() if self.is_linear else ():
            if source.tree.lane_of(tip) == source.lane:
                source.losses.at(source.tree.uuids[tip], "a branch that was left is left out")

    @abstractmethod
    def opening(self) -> Iterator[bytes]:
        """The lines before those of the branches."""

    @abstractmethod
    def units_of(self, branch: WrittenBranch) -> tuple[int, Iterable[Unit]]:
        """How many units of the log a branch begins with, and those that it adds."""

    @abstractmethod
    def go_back(self, count: int) -> Iterator[bytes]:
        """The lines that take back all but the first units of the log."""

    @abstractmethod
    def lines_of(self, unit: Unit) -> Iterable[bytes]: ...

    @abstractmethod
    def ending(self) -> Iterator[bytes]:
        """The lines that make the leaf the entry below which a new one belongs."""

    def beside(self, name: str) -> list[SideFile]:
        return []

    def blocks(self) -> Iterator[bytes]:
        """The lines of the file, each with its LF."""
        yield from self.opening()
        for branch in self._branches():
            common, units = self.units_of(branch)
            for line in self.go_back(common) if common < len(self.log.units) else ():
                self.source.repeated.take(len(line))
                yield line
            for unit in units:
                for line in self.lines_of(unit):
                    self.source.repeated.widen(len(line))
                    yield line
                if not branch.is_last:
                    self.log.add([unit])
        yield from self.ending()

    def _branches(self) -> Iterator[WrittenBranch]:
        if not self.is_linear:
            yield from self.branches
            return
        *_, last = self.branches
        yield last._replace(steps=last.whole(), is_whole=True)


_AGAIN: Final = 3
_MERGED: Final = {(0, "merge"): 1, (1, "compaction"): 2, (2, "merge"): _AGAIN}
"""What is above a row: a merge; a compaction below it; and a merge below that, which may bring back
what the compaction took away. Then a branch that leaves here has another start than the one that
was written."""


class Branches:
    """The branches of the current lane."""

    def __init__(self, source: SessionSource) -> None:
        self._source = source
        tree = source.tree
        # by row, the number of entries above an entry
        self.depths = array("i", bytes(4 * len(tree)))
        self._merged = bytearray(len(tree))
        for row in source.rows():
            parent = tree.parents[row]
            self.depths[row] = 1 if parent == NO_ROW else self.depths[parent] + 1
            above = 0 if parent == NO_ROW else self._merged[parent]
            self._merged[row] = _MERGED.get((above, tree.type_of(row)), above)

    def __iter__(self) -> Iterator[WrittenBranch]:
        tree = self._source.tree
        written = bytearray(len(tree))
        is_edited = False
        for tip in self._tips():
            new: list[int] = []
            above = tip
            while above > 0 and not written[above]:
                new.append(above)
                written[above] = 1
                above = tree.parents[above]
            is_edited = is_edited or any(map(self._edits_a_message, new))
            is_edited = is_edited or any(self._merged[row] == _AGAIN for row in new)
            is_whole = is_edited or any(tree.type_of(row) in CHANGES_ABOVE for row in new)
            rows = array("i", reversed(new))
            steps = self._whole(tip) if is_whole else self._part(rows)
            depth = self.depths[above] if above > 0 else 0
            whole = partial(self._whole, tip)
            yield WrittenBranch(depth, steps, is_whole, tip == self._source.leaf, whole)

    def _edits_a_message(self, row: int) -> bool:
        """Whether an entry changes what is above: then later branches have another start.

        The edit by which a reader takes away the summary of an agent's own compaction does not.
        """
        tree = self._source.tree
        if tree.type_of(row) != "context_edit":
            return False
        target = tree.row(str(self._source.stored(row).get("targetUuid")))
        is_readers = target == tree.parents[row] and tree.children(target) == [row]
        return not (is_readers and tree.type_of(target) == "compaction")

    def _tips(self) -> list[int]:
        """The ends of the branches, each where the branches that leave it are written already."""
        source, tree = self._source, self._source.tree
        owners = array("i", [NO_ROW]) * len(tree)
        leaving: dict[int, list[tuple[int, int]]] = {source.leaf: []}
        for row in tree.rows_up(source.leaf):
            owners[row] = source.leaf
        for tip in source.tips():
            if tree.lane_of(tip) != source.lane:
                continue
            leaving[tip] = []
            row = tip
            while row > 0 and owners[row] == NO_ROW:
                owners[row] = tip
                row = tree.parents[row]
            owner = source.leaf if row <= 0 else owners[row]
            leaving[owner].append((self.depths[row] if row > 0 else 0, tip))
        ordered: list[int] = []
        waiting = [(source.leaf, False)]
        while waiting:
            tip, is_done = waiting.pop()
            if is_done:
                ordered.append(tip)
                continue
            waiting.append((tip, True))
            below = sorted(leaving[tip], key=itemgetter(0), reverse=True)
            waiting += [(other, False) for _, other in below]
        return ordered

    def _part(self, rows: array[int]) -> Iterable[Step]:
        source = self._source
        said = (
            WrittenMessage(source.row(entry), entry, each) for each, entry in source.messages(rows)
        )
        return self._with_notes(rows, {row: at for at, row in enumerate(rows)}, said)

    def _whole(self, tip: int) -> Iterable[Step]:
        """All steps of a branch; what is in force at its end is exactly its context."""
        source, tree = self._source, self._source.tree
        path = source.path(tip)
        source.room.take(len(path))
        at = {row: place for place, row in enumerate(path)}
        kinds = [tree.type_of(row) for row in path]
        compactions = [place for place, kind in enumerate(kinds) if kind == "compaction"]
        if compactions:
            return self._with_notes(path, at, self._compacted(path, at, compactions))
        is_merged = "merge" in kinds
        said = self._in_force(tip) if is_merged else self._as_it_happened(path, at)
        return self._with_notes(path, at, said)

    def _compacted(
        self, path: array[int], at: dict[int, int], compactions: Sequence[int]
    ) -> Iterator[WrittenMessage | WrittenCompaction]:
        source = self._source
        happened = _Lookahead(self._as_it_happened(path, at))
        for place, following in pairwise(compactions):
            yield from happened.while_(_before(place, at))
            entry = source.stored(path[place])
            kept = self._kept(path, place)
            if not kept:
                kept = list(happened.while_(_Replacement(entry, _before(following, at))))
            yield WrittenCompaction(path[place], entry, kept)
        last = compactions[-1]
        yield from happened.while_(_before(last, at))
        entry = source.stored(path[last])
        context = _Lookahead(iter(self._in_force(path[-1])))
        kept = list(context.while_(lambda said: said.row == path[last]))
        yield WrittenCompaction(
            path[last], entry, kept or list(context.while_(_Replacement(entry)))
        )
        yield from context.while_(lambda said: True)

    def _in_force(self, row: int) -> list[WrittenMessage]:
        found = self._source.context(self._source.stored(row))
        return [WrittenMessage(place, entry, message) for message, entry, place in found]

    def _as_it_happened(self, path: array[int], at: dict[int, int]) -> Iterator[WrittenMessage]:
        """All messages of a path but the summaries of its compactions."""
        source, tree = self._source, self._source.tree
        merges = iter([place for place, row in enumerate(path) if tree.type_of(row) == "merge"])
        pieces = (row for row in path if tree.type_of(row) in PIECES)
        ends = {message_uuid(source.stored(row)): row for row in pieces}
        place, coming = 0, next(merges, None)
        for message, entry in source.messages(path):
            is_piece = entry.type in PIECES
            row = ends.get(message_uuid(entry), NO_ROW) if is_piece else source.row(entry)
            if row in at:
                place = at[row]
                while coming is not None and coming < place:
                    coming = next(merges, None)
            elif coming is not None:
                place = coming
            if tree.type_of(path[place]) != "compaction":
                yield WrittenMessage(path[place], entry, message)

    def _kept(self, path: array[int], place: int) -> list[WrittenMessage]:
        """What a compaction leaves in force; none where the agent's own messages follow it."""
        source = self._source
        entry = source.stored(path[place])
        following = source.stored(path[place + 1])
        if following.type == "context_edit" and following.get("targetUuid") == entry.uuid:
            return []
        return [said._replace(row=path[place]) for said in self._in_force(path[place])]

    def _with_notes(
        self, rows: array[int], at: dict[int, int], steps: Iterable[Step]
    ) -> Iterable[Step]:
        """The steps, with the entries of `_NOTED` types at their places."""
        tree, source = self._source.tree, self._source
        noted = [row for row in rows if tree.type_of(row) in _NOTED]
        if not noted:
            return steps
        notes = (WrittenNote(row, source.stored(row)) for row in noted)
        return merge(notes, steps, key=lambda step: at[step.row])


def _before(place: int, at: Mapping[int, int]) -> Callable[[WrittenMessage], bool]:
    """Tells the messages that stand before a place on a path."""
    return lambda said: at[said.row] < place


class _Lookahead:
    """Messages that are taken up to one that is left for later."""

    def __init__(self, said: Iterator[WrittenMessage]) -> None:
        self._said = said
        self._next: WrittenMessage | None = None

    def while_(self, test: Callable[[WrittenMessage], bool]) -> Iterator[WrittenMessage]:
        while True:
            said = self._next or next(self._said, None)
            self._next = said
            if said is None or not test(said):
                return
            self._next = None
            yield said


class _Replacement:
    """Tells the messages that an agent made of a history that it compacted: they follow it.

    All have the time of the compaction; or the first is the summary, which no user wrote.
    """

    def __init__(
        self, compaction: Entry, within: Callable[[WrittenMessage], bool] = lambda said: True
    ) -> None:
        self._time = compaction.timestamp
        self._within = within
        self._is_first = True

    def __call__(self, said: WrittenMessage) -> bool:
        if not self._within(said):
            return False
        if self._time is not None:
            return said.entry.timestamp == self._time
        metadata = said.entry.get("metadata")
        is_summary = isinstance(metadata, dict) and metadata.get("isMeta") is True
        is_first, self._is_first = self._is_first, False
        return is_first and is_summary


def paired(steps: Sequence[Step]) -> list[Step]:
    """The steps with each result behind its call, as a context has them; no result is made.

    Only a merge, or a branch between a call and its result, puts them apart.
    """
    found: list[Step] = []
    at = 0
    while at < len(steps):
        end = next(
            (n for n in range(at + 1, len(steps)) if isinstance(steps[n], WrittenCompaction)), None
        )
        found += _paired_segment(steps[at:end])
        at = len(steps) if end is None else end
    return found


def _paired_segment(steps: Sequence[Step]) -> Sequence[Step]:
    """The same for a compaction and what follows it, up to the next one."""
    first = steps[0]
    kept = first.kept if isinstance(first, WrittenCompaction) else []
    said = [*kept, *(step for step in steps if isinstance(step, WrittenMessage))]
    pairing: Pairing[WrittenMessage] = Pairing()
    for each in said:
        pairing.take(each.message, each)
    messages, sources, _ = pairing.result()
    made = [
        source._replace(message=message)
        for message, source in zip(messages, sources, strict=True)
        if result_ids(source.message) or not result_ids(message)
    ]
    if [each.message for each in made] == [each.message for each in said]:
        return steps
    rows = {each.row for each in kept}
    inside = list(takewhile(lambda each: each.row in rows, made)) if kept else []
    opening = [first._replace(kept=inside)] if isinstance(first, WrittenCompaction) else []
    return [
        *opening,
        *made[len(inside) :],
        *(each for each in steps if isinstance(each, WrittenNote)),
    ]


def note_losses(source: SessionSource, program: str) -> None:
    """Note what a log of one conversation cannot have."""
    losses, tree = source.losses, source.tree
    systems = _handles_of_systems(source)
    for row in range(1, len(tree)):
        kind = tree.type_of(row)
        losses.uuid = tree.uuids[row]
        if kind in LOSS_OF_TYPE:
            losses.add(LOSS_OF_TYPE[kind])
            if row in systems:
                losses.add(LOSS_OF_SYSTEM.format(program))
        elif kind == "message":
            _note_losses_of(source, source.stored(row), program)
        elif kind == "session_info" and "metadata" in source.stored(row):
            losses.add("metadata of the session is left out")
        elif kind in WRITTEN_KEYS:
            losses.keys(source.stored(row), WRITTEN_KEYS[kind])
        elif kind not in _WHOLLY_WRITTEN:
            losses.add(f"a {one_line(kind, 40)} is left out")
    for lane, tips in durable_lanes(source):
        losses.at(tree.uuids[tips[-1]], f"the lane {lane!r} is left out")


def _handles_of_systems(source: SessionSource) -> set[int]:
    """The rows of the handles whose content is a system message."""
    handles = source.tree.rows_of_type("handle")
    possible = (row for row in handles if may_make_system(source.stored(row)))
    return {
        row
        for row in resolved_ahead(source, possible)
        if source.resolved(source.stored(row)).get("role") == "system"
    }


def _note_losses_of(source: SessionSource, entry: Entry, program: str) -> None:
    # The keys are not kept with the entry, which waits in memory until it is written.
    keys = entry.as_stored if entry.has_spilled else decode_object(entry.line)
    message = keys.get("message")
    if isinstance(message, dict) and message.get("role") == "system":
        source.losses.add(LOSS_OF_SYSTEM.format(program))
    metadata = keys.get("metadata")
    is_known = isinstance(metadata, dict) and metadata.keys() <= _KNOWN_METADATA
    written = ("message", "metadata") if is_known else ("message",)
    source.losses.keys_in(keys, entry, written)
