"""The turns of a page as rows, made by several processes.

Invariants: every entry of the session is in one turn, and has a row or is within one; a turn does
not depend on what was made before it, so that several processes can make a page; with a redaction,
each entry is masked whole before anything is made of it; the turns come in order, and are the same
however many processes make them.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sessiontree.core import limits
from sessiontree.core.blocks import EntryContents, folded_message, is_handle_of_message
from sessiontree.core.entry import HEADER, PIECES, Entry, decode_object, missing_parent
from sessiontree.core.handle import blob_of, media_type_in
from sessiontree.core.index import NO_ROW
from sessiontree.core.jsonbytes import has_escapes
from sessiontree.core.limits import Budget
from sessiontree.core.media import base_type, left_out
from sessiontree.core.message import Message, count_of_blocks, result_ids
from sessiontree.edits.tools import SideFacts
from sessiontree.engine.cursor import Cursor
from sessiontree.operations.workers import ProcessPool, available
from sessiontree.page import rows
from sessiontree.page.markup import MAX_COLOURED, Colours
from sessiontree.page.panels import NOTHING, ContextRules, Found, found_in
from sessiontree.page.rows import HIDDEN, FileChange, MadeCommit, PageRow, TurnRows
from sessiontree.page.templates import Templates
from sessiontree.views.messages import is_repeat, is_said
from sessiontree.views.turns import SessionOutline, Subagent, Turn
from sessiontree.views.words import work_parts

if TYPE_CHECKING:
    from sessiontree.redact.redaction import Redaction


ABOVE: Final = -1
"""The place of what is above all turns."""

MAX_ANNOTATIONS: Final = 1000
"""Annotations that follow each other and have a row each; one row tells of all behind them."""

_COLOURED_PART: Final = 5
"""Of a file of over 5 MB, a fifth of the bytes may be coloured characters of code."""

_OF_LINES: Final = frozenset({"spilled", "crc"})
_METADATA: Final = b'"metadata"'
_ROWS_AT_ONCE: Final = 256
_BYTES_AT_ONCE: Final = 1 << 20
"""The entries that are read at once."""


class RenderedEntry(msgspec.Struct, array_like=True, gc=False):
    """An entry of a turn, by its row in the index of the tree."""

    row: int
    at: int
    """The place of its row in the turn."""

    end: int
    """How many rows the turn has with it."""

    tokens: int = NOTHING
    """What it contributes to a context."""


class RenderedTurn(msgspec.Struct, array_like=True):
    """The rows of a turn, and what the page needs to know of its entries."""

    rows: list[PageRow]
    """Without the head of the turn."""

    entries: list[RenderedEntry]
    rules: ContextRules
    changes: list[FileChange]
    commits: list[MadeCommit]
    spent: list[Found]
    agents: dict[int, list[int]]
    """The turns of a subagent, by the place of its row."""

    models: tuple[str, str] | None
    """The first and the last model that answered."""

    warnings: list[str]


class TurnRenderer:
    """Makes turns; `original_line` gives the line of the file that an entry was made of."""

    def __init__(
        self,
        cursor: Cursor,
        original_line: Callable[[Entry], bytes],
        found: SessionOutline,
        redaction: Redaction | None,
    ) -> None:
        self.reader = cursor.reader
        self.outline = found
        self.original_line = original_line
        self.redaction = redaction
        self.templates = Templates()
        self.warnings: list[str] = []
        self._resolve = cursor.resolve
        self.contents = EntryContents(self._resolve, False, self.warnings)
        self.cwd = None if found.cwd is None else self.text(found.cwd)
        self.tree = cursor.reader.index()
        advice = "; fork the path to an entry above it, and export the fork"
        size = cursor.reader.view.size
        self.rows = Budget(
            limits.SHOWN_BLOCKS, size, what="the session", next=", as many as a page shows" + advice
        )
        self.owned = _rows_by_turn(self.tree, found)
        self._line = b""
        self._told = SideFacts({})
        self._told_of: Entry | None = None

    def masked(self, value: Any, uuid: str | None) -> Any:
        """A value of an entry without secrets."""
        return value if self.redaction is None else self.redaction.value(value, uuid)

    def text(self, text: str) -> str:
        """A text without secrets."""
        return text if self.redaction is None else self.redaction.text(text)

    def take(self, entry: Entry | None) -> None:
        """Take the entry that `told` is asked of; None for one of which nothing is told."""
        self._told_of = entry

    def told(self) -> SideFacts:
        """What the agent keeps beside the results of the entry that was taken, masked."""
        entry = self._told_of
        if entry is None:
            return SideFacts({})
        raw = self.original_line(entry)
        if raw is not self._line:  # one line may have very many results
            self._line = raw
            line = entry.as_stored if raw is entry.line else decode_object(raw)
            self._told = SideFacts(self.masked(line, None))
        return self._told

    def made(self, places: Sequence[int]) -> Iterator[tuple[int, RenderedTurn]]:
        """Make the turns at places of the outline; `ABOVE` is what is above all turns."""
        rows = [row for place in places for row in self.owned[place]]
        entries, colours = self._entries(rows), self._colours(rows)
        for place in places:
            turn = None if place == ABOVE else self.outline.turns[place]
            making = _Making(self, turn, colours)
            for row, entry in islice(entries, len(self.owned[place])):
                if entry.type != HEADER:
                    making.take(entry, row)
            yield place, making.finished()
            self.warnings.clear()

    def _colours(self, rows: Sequence[int]) -> Colours:
        offsets, whole = self.tree.offsets, self.reader.view.size
        size = sum(_end_of(row, offsets, whole) - offsets[row] for row in rows)
        return Colours(max(MAX_COLOURED * size // whole, size // _COLOURED_PART))

    def _entries(self, rows: Sequence[int]) -> Iterator[tuple[int, Entry]]:
        """The entries of rows; some are read at once, and their handles resolved together."""
        for some in _runs(rows, self.tree.offsets):
            entries = self.reader.entries_at(some)
            self.contents = EntryContents(self._resolve, False, self.warnings)
            self.contents.prepare(entries)
            yield from zip(some, entries, strict=True)


class _Making:
    def __init__(self, maker: TurnRenderer, turn: Turn | None, colours: Colours) -> None:
        self._maker = maker
        self._made = TurnRows(
            maker.templates,
            maker.told,
            maker.cwd,
            colours,
            is_subagent=turn is not None and turn.subagent,
        )
        self._waiting = _agents_by_caller(turn)
        self._agents: dict[int, list[int]] = {}
        self._pieces: list[tuple[Entry, int]] = []
        self._entries: list[RenderedEntry] = []
        self._rules = ContextRules()
        self._spent: list[Found] = []
        self._annotations = 0  # that follow each other and have rows, up to the entry taken
        self._more = 0  # those behind them
        self._repeats = 0  # messages that a compaction repeats, up to the entry taken
        self._blocks = 0  # of its messages, each of which may be a row

    def take(self, entry: Entry, row: int) -> None:
        """Take the next entry of the turn."""
        if entry.type in PIECES:
            if self._repeats:
                self._end_repeats()
            self._end_annotations()
            if self._pieces and self._pieces[0][0].get("messageUuid") != entry.get("messageUuid"):
                self._take_pieces()
            self._pieces.append((entry, row))
            return
        if entry.is_content:
            self._take_pieces()
        self._maker.take(entry)
        has_notes = _METADATA in entry.line or has_escapes(
            entry.line
        )  # of its reader: that it repeats, or is joined
        if has_notes and is_repeat(entry, self._maker.reader.index):
            self._take_repeat(entry, row)
            return
        if self._repeats:
            self._end_repeats()
        start, number = len(self._made), len(self._entries)
        if not _is_annotation(entry):
            self._end_annotations()
        elif self._annotations == MAX_ANNOTATIONS:
            self._take_more(entry, row)
            return
        else:
            self._annotations += 1
        if has_notes and missing_parent(entry) is not None:
            self._made.add_gap()
        noted = RenderedEntry(row, 0, 0)
        self._entries.append(noted)
        at = self._take_whole(entry, number, noted)
        if at is None and len(self._made) == start:
            self._made.add_empty(self._maker.text(entry.type), entry.timestamp)
        noted.at = start if at is None else at
        noted.end = len(self._made)
        self._made.own(start, number)
        self._start_agents(entry)

    def _take_more(self, entry: Entry, row: int) -> None:
        """Take an annotation behind very many others, which has no row of its own."""
        fields = entry.body if entry.type == "usage" else {}
        self._spend(entry, self._maker.masked(fields, entry.uuid))
        if not self._more:
            self._made.add_more(entry.timestamp)
            self._made.own(len(self._made) - 1, len(self._entries))
        self._more += 1
        self._entries.append(RenderedEntry(row, len(self._made) - 1, len(self._made)))
        if entry.uuid in self._waiting:
            self._end_annotations()
            self._start_agents(entry)

    def _take_repeat(self, entry: Entry, row: int) -> None:
        """Take a message that a compaction repeats; those of one compaction share a row."""
        if not self._repeats:
            self._end_annotations()
            self._made.add_more(entry.timestamp)
            self._made.own(len(self._made) - 1, len(self._entries))
        self._repeats += 1
        message = self._maker.contents.whole(entry).body["message"]
        tokens = self._rules.take_message(
            message, len(self._entries), is_stray=self._stray(message)
        )
        self._entries.append(RenderedEntry(row, len(self._made) - 1, len(self._made), tokens))

    def _end_repeats(self) -> None:
        self._made.count_repeats(self._repeats)
        self._repeats = 0

    def _end_annotations(self) -> None:
        """Note that what comes next has rows behind those of the annotations before it."""
        if self._more:
            self._made.count_more(self._more)
        self._annotations = self._more = 0

    def finished(self) -> RenderedTurn:
        """The turn, when all its entries were taken."""
        if self._repeats:
            self._end_repeats()
        self._end_annotations()
        self._take_pieces()
        for agents in self._waiting.values():
            for agent in agents:
                self._start(agent)
        return RenderedTurn(
            rows=self._made.rows,
            entries=self._entries,
            rules=self._rules,
            changes=self._made.changes,
            commits=self._made.commits,
            spent=self._spent,
            agents=self._agents,
            models=self._made.models,
            warnings=self._maker.warnings.copy(),
        )

    def _take_pieces(self) -> None:
        if not self._pieces:
            return
        maker, (first, _) = self._maker, self._pieces[0]
        maker.take(None)
        pieces = [maker.contents.whole(piece) for piece, _ in self._pieces]
        start, number = len(self._made), len(self._entries)
        whole = folded_message(pieces)
        message = maker.masked(whole, first.uuid)
        self._spend(self._pieces[-1][0], message)
        self._made.take_message(message, {}, first.timestamp)
        if len(self._made) == start:
            self._made.add_empty("message", first.timestamp)
        self._made.own(start, number)
        self._rules.take_calls(whole, number)
        end = len(self._made)
        for piece, row in self._pieces:
            tokens = self._rules.take(piece, len(self._entries))
            self._entries.append(RenderedEntry(row, start, end, tokens))
        for piece, _ in self._pieces:
            self._start_agents(piece)
        self._pieces.clear()

    def _take_whole(self, entry: Entry, number: int, noted: RenderedEntry) -> int | None:
        """Take an entry; the place of the row that has it where this is not a new one."""
        maker = self._maker
        if is_handle_of_message(entry) or entry.type == "handle":
            return self._take_handle(entry, number, noted)
        whole = maker.contents.whole(entry)
        body = whole.body
        fields = {key: body[key] for key in body if key not in _OF_LINES}
        message = fields.get("message")
        if entry.type == "message" and isinstance(message, dict):
            self._blocks += count_of_blocks(message)
            maker.rows.check(self._blocks, uuid=entry.uuid)
            stray = self._stray(message)
            noted.tokens = self._rules.take_message(message, number, is_stray=stray)
            fields = maker.masked(fields, entry.uuid)
            return self._take_message(fields["message"], fields, entry)
        noted.tokens = self._rules.take(whole, number)
        fields = maker.masked(fields, entry.uuid)
        self._spend(entry, fields)
        self._made.take(maker.text(entry.type), fields, entry.timestamp, entry.uuid)
        return None

    def _stray(self, message: Message) -> bool:
        ids = result_ids(message)
        return bool(ids) and all(self._made.place_of_result(id) is None for id in ids)

    def _take_message(
        self, message: Message, fields: Mapping[str, Any], entry: Entry
    ) -> int | None:
        ids = result_ids(message)
        at = self._made.place_of_result(ids[0]) if ids else None
        self._spend(entry, message)
        self._made.take_message(message, fields, entry.timestamp)
        return at

    def _take_handle(self, entry: Entry, number: int, noted: RenderedEntry) -> int | None:
        maker = self._maker
        kind, size = _binary_of(entry)
        whole = maker.contents.of_handle(entry)
        noted.tokens = self._rules.take_message(whole, number, is_stray=self._stray(whole))
        if maker.redaction is not None and kind is not None:
            maker.redaction.left_out.append((entry.uuid, kind, size))
            message: Message = {"role": "user", "content": left_out(kind, size)}
        else:
            message = maker.masked(whole, entry.uuid)
        return self._take_message(message, {"uuid": entry.uuid}, entry)

    def _spend(self, entry: Entry, fields: Mapping[str, Any]) -> None:
        if (found := found_in(entry, fields)) is not None:
            self._spent.append(found)

    def _start_agents(self, entry: Entry) -> None:
        for agent in self._waiting.pop(entry.uuid, ()):
            self._start(agent)

    def _start(self, agent: Subagent) -> None:
        if agent.turns:
            self._agents[len(self._made)] = list(agent.turns)
        row = agent_row(agent, self._maker)
        row.entry = len(self._entries) - 1
        self._made.add(row)


def _is_annotation(entry: Entry) -> bool:
    return entry.type in HIDDEN and not is_said(entry)


def agent_row(agent: Subagent, maker: TurnRenderer) -> PageRow:
    """The row of a subagent, in which its turns are."""
    work = agent.work
    facts = [part.text for part in work_parts(work)]
    name, task = maker.text(agent.name), maker.text(agent.task)
    head = maker.templates.agent(
        name=name, task=task, facts=facts, missing=agent.missing, own=agent.own
    )
    return PageRow(rows.AGENT, f"{name}: {task}", head, time=work.started)


def _runs(rows: Sequence[int], offsets: Sequence[int]) -> Iterator[Sequence[int]]:
    """The rows in runs of a limited number, whose lines have a limited size."""
    first = size = 0
    for number, row in enumerate(rows):
        size += _end_of(row, offsets, offsets[row]) - offsets[row]
        if size > _BYTES_AT_ONCE or number - first == _ROWS_AT_ONCE:
            yield rows[first : number + 1]
            first, size = number + 1, 0
    if first < len(rows):
        yield rows[first:]


def _end_of(row: int, offsets: Sequence[int], end: int) -> int:
    return offsets[row + 1] if row + 1 < len(offsets) else end


def _rows_by_turn(tree: Any, found: SessionOutline) -> dict[int, list[int]]:
    """The rows of the index of each turn, in order; under `ABOVE` those above all turns.

    What hangs beside a turn, such as a label or a line of another program, is of the turn that it
    hangs at.
    """
    owner = array("i", [ABOVE]) * len(tree)
    is_done = bytearray(len(tree))
    owned: dict[int, list[int]] = {place: [] for place in range(ABOVE, len(found.turns))}
    for place, turn in enumerate(found.turns):
        first = tree.row(turn.uuid)
        path: list[int] = []
        for row in tree.rows_up(tree.row(turn.leaf)):
            if is_done[row]:
                break
            is_done[row] = 1
            owner[row] = place
            path.append(row)
            if row == first:
                break
        owned[place] = path[::-1]
    for row in range(len(tree)):
        if not is_done[row]:
            parent = tree.parents[row]
            owner[row] = owner[parent] if parent != NO_ROW else ABOVE
            owned[owner[row]].append(row)
    if not tree.has_late_parents:
        for rows_of_turn in owned.values():
            rows_of_turn.sort()
    return owned


def _agents_by_caller(turn: Turn | None) -> dict[str, list[Subagent]]:
    found: dict[str, list[Subagent]] = {}
    for agent in () if turn is None else turn.subagents:
        found.setdefault(agent.caller or "", []).append(agent)
    return found


def _binary_of(entry: Entry) -> tuple[str | None, int]:
    """The media type and the size of the bytes that a handle stands for; None for a message."""
    handle = entry.as_stored.get("handle")
    blob = blob_of(handle)
    if blob is None:
        return None, 0
    media_type = base_type(media_type_in(handle))
    return (None, 0) if media_type.startswith("text/") else (media_type, blob.size)


_MANY: Final = 4_000
"""Entries from which on several processes are faster than one."""

_SHARE: Final = 256
"""Entries that a process takes at once, in whole turns."""

_AS_JSON: Final = b"j"
_Made = tuple[int, RenderedTurn]  # the place of a turn, and the turn


def all_turns(maker: TurnRenderer) -> Iterator[_Made]:
    """All turns with their places, in order; first what is above them."""
    is_large = len(maker.tree) > _MANY
    processes = available() if is_large and maker.redaction is None else 1  # it counts secrets
    yield from ProcessPool(maker.made, _encoded, _decoded, processes).results(list(_shares(maker)))


def _shares(maker: TurnRenderer) -> Iterator[range]:
    first, size = ABOVE, 0
    for place in range(ABOVE, len(maker.outline.turns)):
        size += len(maker.owned[place])
        if size > _SHARE:
            yield range(first, place + 1)
            first, size = place + 1, 0
    yield range(first, len(maker.outline.turns))


def _plain(value: Any) -> str:
    return str.__str__(value)


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=_plain)
_decoder: Final = msgspec.msgpack.Decoder(tuple[int, RenderedTurn])


def _encoded(made: _Made) -> bytes:
    try:
        return b"m" + _encoder.encode(made)
    except UnicodeEncodeError:  # half of a pair of surrogates, as Node cuts texts
        return _AS_JSON + json.dumps(msgspec.to_builtins(made, enc_hook=_plain)).encode("ascii")


def _decoded(frame: bytes) -> _Made:
    if frame[:1] == _AS_JSON:
        return msgspec.convert(json.loads(frame[1:]), tuple[int, RenderedTurn], strict=False)
    return _decoder.decode(frame[1:])
