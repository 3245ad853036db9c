"""The turns of a session: what the user asked, and what was done, on all branches.

A turn is a prompt and all that follows it, up to the next prompt. The first thing done below an
entry goes on with its turn. Another try below the same entry, without a prompt of its own, is a
further part of the turn. What a subagent did is on turns of its own, below the call that started
it. Views for people (`tree`, `diff`) and programs build on this structure.

Invariants: the file is read once, line by line; no handle is resolved; memory is bounded by the
index and the turns; nothing recurses; turns have the order of the file, so that a number keeps its
turn while the file grows.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from sessiontree.core.activity import as_typed, ended_calls
from sessiontree.core.blocks import Resolve, is_handle_of_message
from sessiontree.core.display import one_line
from sessiontree.core.entry import HEADER, PIECES, SUMMARIES, UNDID, Entry, moment_of
from sessiontree.core.header import forked_from
from sessiontree.core.index import NO_ROW, Branch, Branching, TreeIndex
from sessiontree.core.jsonbytes import has_escapes
from sessiontree.core.message import Message, calls_of, is_typed_command, text_of
from sessiontree.core.usage import is_session_sum
from sessiontree.engine.cursor import Cursor
from sessiontree.engine.walk import gc_paused
from sessiontree.errors import RefError, with_step
from sessiontree.text.ids import kin_in_words
from sessiontree.text.preview import preview
from sessiontree.text.title import TitlePrompt, title_of
from sessiontree.views.messages import (
    ResolvedMessages,
    is_of_compaction,
    is_repeat,
    is_said,
    is_shown_as_prompt,
    may_be_prompt,
    repeated_in,
    typed_in,
)
from sessiontree.views.tree import (
    EntryTree,
    agent_of,
    entries_by_row,
    is_named_by_agent,
    path_rows,
    starts_subagent_lane,
)
from sessiontree.views.work import (
    TEXT,
    AnswerUsageDedup,
    NullTally,
    Outcome,
    TurnEnd,
    TurnEvent,
    Work,
    WorkTally,
    ends_of,
    message_of,
    outcome_of,
    total,
)

_MAX_NAMES: Final = 8
_SHOWN_EVERY: Final = 1024  # entries
_NUMBER: Final = re.compile(r"(\d{1,9})(?:\.(\d{1,9}))?")
_SIDE_AGENTS: Final = ("agent-acompact", "agent-aside_question", "agent-aprompt_suggestion")
"""The starts of lanes of agents that Claude Code starts by itself."""


class Subagent(msgspec.Struct, frozen=True):
    """A subagent that a turn started."""

    lane: str  # the lane with its entries
    name: str  # the agent's type or name as the program gives it, or the lane's name
    task: str  # what it was asked
    # the uuid of the entry with the call that started it; None if it is not known
    caller: str | None
    own: bool  # whether the program started it for itself, for example to compact the conversation
    turns: tuple[int, ...]  # the places of its turns in `SessionOutline.turns`
    work: Work  # what it did
    missing: bool = False  # whether the session names it, but has nothing of what it did


class Turn(msgspec.Struct, frozen=True):
    """A turn, or a further part of one."""

    # the number of the turn, counted over all branches in file order from 1; 0 for what is above
    # the first prompt. In a subagent, the number of the turn that started it
    number: int
    part: int  # 0, or for a further try from the same entry 1, 2 and so on
    uuid: str  # the uuid of its first entry
    leaf: str  # the uuid of its last entry with content
    prompt: str | None  # the start and the end of the prompt on one line; None without a prompt
    # the start and the end of the last text of substance that the model wrote; empty if it wrote
    # none. What it says to a note of a program, or in a few words after a longer text, is of none
    # where there is a better one
    answer: str
    above: int | None  # the place in `SessionOutline.turns` of the turn above; None at the top
    fork: str | None  # the uuid of the entry that it begins below; None at the top
    leaves: bool  # whether the turn above goes on without it: it begins in the middle of that turn
    lane: str | None  # the lane; None for main
    subagent: bool  # whether a subagent did this
    current: bool  # whether it is on the path to the session's leaf
    names: tuple[str, ...]  # the branch names that begin here
    labels: tuple[tuple[str, str], ...]  # the uuids of labelled entries with their labels
    # compactions, summaries, merges, errors, interruptions and the user's replies to questions of
    # tools, in order
    events: tuple[TurnEvent, ...]
    subagents: tuple[Subagent, ...]  # the subagents that were started here
    work: Work  # what was done, without the work of subagents
    # how it ended: `answered`; `steered` (the user typed the next prompt while the agent worked);
    # `interrupted` (the user interrupted the agent, and typed the next prompt); `given up` (the
    # user interrupted the agent, which did nothing more here); `no answer` (the agent did not
    # answer, or wrote nothing after its last call); `unfinished` (the branch ends before the agent
    # answers); `broke off` (an answer without its end); `failed` (an answer that ended with an
    # error). None where no answer was due
    outcome: Outcome | None = None

    @property
    def name(self) -> str:
        """The number with the part, such as `3` or `3.1`."""
        return f"{self.number}.{self.part}" if self.part else str(self.number)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that `diff --json` prints for a turn."""
        return {
            "turn": self.number,
            "part": self.part,
            "uuid": self.uuid,
            "leaf": self.leaf,
            "prompt": self.prompt,
            "answer": self.answer,
            "outcome": self.outcome,
            **self.work.as_dict(),
        }


class SessionOutline(msgspec.Struct, frozen=True):
    """The turns of a session."""

    id: str  # empty if the session has none
    name: str | None
    cwd: str | None  # the working directory
    # the program that wrote the session, such as `claude-code`; None for sessiontree
    agent: str | None
    turns: tuple[Turn, ...]  # all turns in file order, those of subagents included
    here: int | None  # the place in `turns` where the session's leaf is; None above all turns
    # the uuid of the last entry with content on the current path; None without one
    leaf: str | None
    work: Work  # what was done on all branches, with subagents
    title: str | None = None  # the name, or else the first prompt, as lists have it
    kin: str = ""  # of which session it is a fork or a subagent, in words; empty if of none
    # The turns of the conversation, and the other files that have some; 0 if the file has all.
    turns_in_all: int = 0
    others: tuple[str, ...] = ()

    def numbered(self, number: str) -> Turn:
        """The turn with a number, such as `3` or `3.1`; not a turn of a subagent.

        Raises:
            RefError: there is none.
        """
        for turn in self.turns:
            if not turn.subagent and turn.name == number.removesuffix(".0"):
                return turn
        raise self.without(number)

    def render(self, width: int = 100) -> Iterator[str]:
        """Yield the lines of the drawing that `sessiontree tree` prints, in so many columns."""
        from sessiontree.views.drawing import rendered  # few outlines are drawn

        return rendered(self, width)

    def up(self, place: int | None) -> Iterator[Turn]:
        """Yield the turn at a place and those above it."""
        while place is not None:
            yield self.turns[place]
            place = self.turns[place].above

    def ends(self) -> list[Turn]:
        """The last turn of each branch, if there are several; subagents have none."""
        own = [turn for turn in self.turns if not turn.subagent]
        above = {turn.above for turn in own if not turn.leaves}
        places = (place for place, turn in enumerate(self.turns) if not turn.subagent)
        ends = [self.turns[place] for place in places if place not in above]
        return ends if len(ends) > 1 else []

    @property
    def left_midway(self) -> set[str]:
        """The uuids of the turns that the current path leaves in their middle."""
        return {
            self.turns[turn.above].uuid
            for turn in self.turns
            if turn.current and turn.leaves and turn.above is not None
        }

    @property
    def branches(self) -> int:
        """The number of ends: turns that nothing goes on from at their own end."""
        own = [(place, turn) for place, turn in enumerate(self.turns) if not turn.subagent]
        goes_on = {turn.above for _, turn in own if not turn.leaves}
        return sum(place not in goes_on for place, _ in own)

    @property
    def last_number(self) -> int:
        """The number of the last turn; 0 without turns."""
        return max((turn.number for turn in self.turns), default=0)

    def without(self, number: str) -> RefError:
        """The error that there is no turn of a number."""
        has = f"its turns are 1 to {self.last_number}" if self.last_number else "it has no turns"
        if self.others:
            has += f" in this file, {self.turns_in_all:,} with its other copies: "
            has += ", ".join(self.others)
        return with_step(RefError(f"there is no turn {number}: {has}", number), "see turns")


class BranchEnd(NamedTuple):
    """What a branch ends in, by which people know it."""

    turn: str  # the name of its last turn; empty where nothing was asked
    prompt: str  # of that turn, or else of the nearest turn above


def ends_of_branches(cursor: Cursor, found: Iterable[Branch]) -> Iterator[BranchEnd]:
    """The end of each branch. The whole file is read once."""
    whole = outline(cursor)
    places = {turn.uuid: place for place, turn in enumerate(whole.turns)}
    tree = cursor.reader.index()
    for branch in found:
        uuids = (tree.uuids[row] for row in tree.rows_up(tree.row(branch.leaf)))
        place = next((places[uuid] for uuid in uuids if uuid in places), None)
        asked = next((turn for turn in whole.up(place) if turn.prompt), None)
        name = "" if asked is None or place is None else whole.turns[place].name
        yield BranchEnd(name, "" if asked is None else asked.prompt or "")


def turns(path: Sequence[Entry], resolve: Resolve) -> list[list[Entry]]:
    """The messages of a path by turns: each a prompt and what follows it."""
    messages = ResolvedMessages(resolve)
    messages.prepare(filter(may_be_prompt, path))
    found: list[list[Entry]] = []
    for entry in path:
        if messages.begins_turn(entry):
            found.append([entry])
        elif found and _is_message(entry):
            found[-1].append(entry)
    messages.warn("it is not known if they are prompts")
    return found


def _is_message(entry: Entry) -> bool:
    if entry.type == "message":
        return isinstance(entry.message_as_stored, dict)
    return entry.type in PIECES or is_handle_of_message(entry)


def outline(
    cursor: Cursor, shown: Callable[[int, int], object] = lambda done, size: None
) -> SessionOutline:
    """Read the whole session; see `Session.outline`.

    `shown` is called from time to time with how many entries were read, and of how many.
    """
    with cursor.alone(), gc_paused():
        drawn = EntryTree.of(cursor)
        turning = TurnBuilder(drawn)
        size = len(drawn.tree)
        for done, _ in enumerate(_taken(turning, drawn)):
            if not done % _SHOWN_EVERY:
                shown(done, size)
        return turning.outline()


def numbers_of(cursor: Cursor) -> dict[str, int]:
    """The number of the turn of each entry, by its uuid, without what subagents did."""
    with cursor.alone():
        drawn = EntryTree.of(cursor)
        turning = TurnBuilder(drawn, NullTally)
        rows = ((uuid, turning.number_of(row)) for row, uuid in _taken(turning, drawn))
        return {uuid: number for uuid, number in rows if number}


def prompt_numbers(cursor: Cursor) -> dict[str, int]:
    """The number of the turn that each prompt begins, by the uuid of the prompt.

    Only lines that may be prompts are decoded, so that this costs a fraction of `numbers_of`. Where
    an agent repeated prompts, or a parent stands below its child, that is needed.
    """
    with cursor.alone():
        reader = cursor.reader
        tree = reader.index()
        if tree.has_late_parents or tree.rows_of_type("context_edit"):
            return numbers_of(cursor)
        agents: set[str | None] = set()
        maker = agent_of(reader.header)
        found: dict[str, int] = {}
        count = 0
        view = reader.ready()
        for offset, line in view.entry_lines():
            if not any(map(line.__contains__, _OF_PROMPTS)) and not has_escapes(line):
                continue
            entry = view.read(offset)
            if entry is None:  # damaged
                continue
            lane = entry.lane
            if starts_subagent_lane(entry) or is_named_by_agent(lane, maker):
                agents.add(lane)
            if lane not in agents and is_shown_as_prompt(entry):
                count += 1
                found[entry.uuid] = count
        return found


_OF_PROMPTS: Final = (b'"user"', b'"typed"', b'"handle"', b':subagent"')
"""What the line of a prompt, or of the start of a subagent, has one of, unless it has escapes."""


def _taken(turning: TurnBuilder, drawn: EntryTree) -> Iterator[tuple[int, str]]:
    for row, entry in entries_in_order(drawn):
        turning.take(row, entry)
        yield row, entry.uuid


def turns_named(cursor: Cursor, outline: SessionOutline, name: str) -> list[tuple[int, Turn]]:
    """The turns of a name, each with its place in the outline.

    The name is a number, which all parts of a turn have, or a number with a part, such as `3.1`; or
    a ref, for the turn that has the entry.

    Raises:
        RefError: there is none.
    """
    places = list(enumerate(outline.turns))
    if number := _NUMBER.fullmatch(name):
        wanted = int(number[1]), int(number[2] or 0)
        is_part = number[2] is not None
        found = [
            (place, turn)
            for place, turn in places
            if not turn.subagent
            and (turn.number, turn.part if is_part else 0) == (wanted[0], wanted[1])
        ]
        if found:
            return found
    try:
        entry = cursor.entry(name)
    except RefError as error:
        if not _NUMBER.fullmatch(name):
            raise
        raise outline.without(name) from error
    first = {turn.uuid: (place, turn) for place, turn in places}
    above = next((first[e.uuid] for e in cursor.up(entry) if e.uuid in first), None)
    if above is None:
        message = f"{name!r} is above all turns; give an entry below a prompt"
        raise with_step(RefError(message, name), "see turns")
    return [above]


def entries_of(cursor: Cursor, turn: Turn) -> list[Entry]:
    """The entries of a turn, from its first to its last, annotations between them included."""
    with cursor.alone():
        found: list[Entry] = []
        for entry in cursor.up(cursor.entry(turn.leaf)):
            found.append(entry)
            if entry.uuid == turn.uuid:
                break
        found.reverse()
        return found


def latest(cursor: Cursor, most: int = 600) -> list[Turn]:
    """The last turns of the current path, from at most so many entries: what `outline` reads last.

    The cost does not depend on the size of the session. These turns have no numbers, names, labels,
    subagents and outcomes, and no place of a turn above. A turn that begins before the entries that
    were read is left out, unless it is the only one.
    """
    with cursor.alone():
        entries = list(islice(cursor.up(), most))[::-1]
        is_cut = not entries or entries[0].type != HEADER  # also where what is above is missing
        answers = AnswerUsageDedup()
        groups: list[list[Entry]] = [[]]
        for entry in entries:
            if is_shown_as_prompt(entry):
                groups.append([])
            groups[-1].append(entry)
        if len(groups) > 1 and (is_cut or not any(e.is_content for e in groups[0])):
            del groups[0]
        found = [_read_alone(group, answers) for group in groups if group]
        return [turn for turn in found if turn.prompt is not None or turn.answer]


def _read_alone(entries: list[Entry], answers: AnswerUsageDedup) -> Turn:
    first, tally, events = entries[0], WorkTally(), []
    for entry in entries:
        if repeated_in(entry) is None:
            events += tally.take(entry, answers)
    return Turn(
        number=0,
        part=0,
        uuid=first.uuid,
        leaf=entries[-1].uuid,
        prompt=_prompt(first) if is_shown_as_prompt(first) else None,
        answer=one_line(tally.answer, TEXT),
        above=None,
        fork=None,
        leaves=False,
        lane=first.lane,
        subagent=False,
        current=True,
        names=(),
        labels=(),
        events=tuple(events),
        subagents=(),
        work=tally.work(),
    )


class _Node:
    """A turn, or a part of one, while it is read."""

    __slots__ = (
        *("above", "events", "first", "fork", "labels", "lane", "last", "names", "number", "part"),
        *("prompt", "subagent", "subagents", "tally"),
    )

    def __init__(
        self, first: int, above: int, fork: int, lane: str | None, tally: WorkTally
    ) -> None:
        self.first = self.last = first
        self.above = above
        self.fork = fork
        self.lane = lane
        self.number = self.part = 0
        self.subagent = False
        self.prompt: str | None = None
        self.names: tuple[str, ...] = ()
        self.labels: list[tuple[str, str]] = []
        self.events: list[TurnEvent] = []
        self.subagents: list[Subagent] = []
        self.tally = tally

    def end(self) -> TurnEnd:
        did = self.tally
        return TurnEnd(did.ending, self.prompt, did.reached_model, did.started, did.ended)


class _Agent:
    """The lane of a subagent, while it is read."""

    __slots__ = ("caller", "name", "nodes", "seen", "task")

    def __init__(self, data: Mapping[str, Any], seen: int) -> None:
        self.caller = _text(data.get("calledBy"))
        self.name = _text(data.get("agentType")) or _text(data.get("name"))
        self.task = _text(data.get("description"))
        self.seen = seen  # the row of the main agent before its first one
        self.nodes: list[int] = []


def _text(value: Any) -> str | None:
    return one_line(value, TEXT) if isinstance(value, str) and value else None


class TurnBuilder:
    """Finds the turn of each entry; takes the entries of a session, parents first.

    `tallying` makes the tally of a turn; with one that does not count, there is no outline.
    """

    def __init__(self, drawn: EntryTree, tallying: Callable[[], WorkTally] = WorkTally) -> None:
        self._outline = drawn
        self._tallying = tallying
        tree = self._tree = drawn.tree
        self._branching = Branching(tree)
        self._anchors = array("i", [NO_ROW]) * len(tree)  # the content row at or above each row
        self._node_of = array("i", [NO_ROW]) * len(tree)
        self._goes_on = bytearray(len(tree))  # whether something goes on with the turn of a row
        self._nodes: list[_Node] = []
        self._names = self._branch_names()
        self.agent = agent_of(drawn.entry(0))
        self._agents: dict[str, _Agent | None] = {}  # by lane; None for a lane of the user's
        # Of a branch that was left, by row: they stand with what follows them.
        self._summaries: dict[int, list[TurnEvent]] = {}
        self._tasks: dict[str, tuple[str | None, str | None]] = {}  # by the uuid of the call
        self._called: dict[str, str] = {}  # that uuid by the id of the call
        self._copied: dict[int, str] = {}  # by row: the time of the entries that repeat others
        self._last_of_main = NO_ROW
        self._first = TitlePrompt()
        self._numbers = 0
        self._parts: Counter[int] = Counter()
        self._answers = AnswerUsageDedup()
        self._of_session = tallying()  # what is known of the session as a whole alone

    def _branch_names(self) -> dict[int, tuple[str, ...]]:
        rows = self._outline.names.branch_rows(self._tree)
        return {row: (name,) for name, found in rows.items() for row in found}

    def take(self, row: int, entry: Entry) -> bool:
        """Take the next entry; whether it is a prompt."""
        parent = self._tree.parents[row]
        lane = self._branching.lane_of(row)
        if entry.lane is not None and entry.lane not in self._agents:
            self._agents[entry.lane] = self._started(entry)
        anchor = self._anchors[parent] if parent != NO_ROW else NO_ROW
        if not is_said(entry):
            self._anchors[row] = anchor
            node = self._node_of[row] = self._node_of[parent] if parent != NO_ROW else NO_ROW
            is_named = parent != anchor or anchor in self._summaries
            above = self._names.get(parent, ()) if is_named else ()
            if names := (*above, *self._names.get(row, ())):
                self._names[row] = names[:_MAX_NAMES]
            if is_session_sum(entry.as_stored):
                self._of_session.take(entry, self._answers)
            elif entry.type == "usage" and node != NO_ROW:
                self._nodes[node].tally.take(entry, self._answers)
            elif entry.type == "context_edit" and parent != NO_ROW:
                self._note_edit(parent, entry)
            elif entry.type == "branch":
                metadata = entry.as_stored.get("metadata")
                self._take_back(metadata.get(UNDID) if isinstance(metadata, dict) else None)
            return False
        self._anchors[row] = row
        is_repeated = self._is_repeat(row, anchor, entry)
        asked = not is_repeated and is_shown_as_prompt(entry)
        is_named = parent != anchor or anchor in self._summaries
        names = self._names.get(parent, ()) if is_named else ()
        if asked or not self._continues(anchor, lane):
            node = self._begin(row, anchor, lane, entry, asked=asked)
        else:
            node = self._node_of[anchor]
            self._goes_on[anchor] = 1
        self._node_of[row] = node
        found = self._nodes[node]
        found.last = row
        if names and entry.type not in SUMMARIES:
            found.names = (*found.names, *names)[:_MAX_NAMES]
        before = self._summaries.pop(anchor, [])
        events = [] if is_repeated else found.tally.take(entry, self._answers)
        if entry.type in SUMMARIES:
            self._summaries[row] = [*before, *events][-_MAX_NAMES:]
            if names:
                self._names[row] = names
        else:
            found.events += [*before, *events]
        if not found.subagent:
            self._last_of_main = row
        self._note_task(entry)
        return asked

    def _note_task(self, entry: Entry) -> None:
        """Note what a call of a subagent says of it; a subagent's own lines may lack that."""
        if self._called and b"tool_use_id" in entry.line:
            self._note_refusal(message_of(entry, entry.as_stored) or {})
        if b"prompt" not in entry.line:
            return
        for call in calls_of(message_of(entry, entry.as_stored) or {}):
            given = call.arguments if isinstance(call.arguments, dict) else {}
            if "prompt" in given and ("description" in given or "subagent_type" in given):
                name, task = _text(given.get("subagent_type")), _text(given.get("description"))
                self._tasks.setdefault(entry.uuid, (name, task))
                self._called[call.id] = entry.uuid

    def _note_refusal(self, message: Message) -> None:
        for call, ending in ended_calls(message):
            if ending != "done":
                self._called.pop(call, None)

    def _note_edit(self, parent: int, entry: Entry) -> None:
        if self.agent is None:
            return
        is_dropped = entry.as_stored.get("targetUuid") == self._tree.uuids[parent]
        if is_dropped and self._tree.type_of(parent) == "compaction" and entry.timestamp:
            self._copied[parent] = entry.timestamp

    def _take_back(self, uuid: Any) -> None:
        """Leave out a compaction that an undo took back before anything followed it."""
        row = self._tree.row(uuid) if isinstance(uuid, str) else NO_ROW
        if row == NO_ROW or self._tree.type_of(row) != "compaction":
            return
        found = self._nodes[self._node_of[row]]
        if found.last == row and found.first != row:
            found.last = self._anchors[self._tree.parents[row]]
            found.events = [event for event in found.events if event.uuid != uuid]
            self._goes_on[found.last] = 0

    def _is_repeat(self, row: int, anchor: int, entry: Entry) -> bool:
        """True if an entry repeats an earlier one, for a compaction of Codex.

        In imports of older versions no entry says so. There it is what follows a compaction whose
        summary an edit drops, at the time of the compaction.
        """
        if is_of_compaction(entry):
            return is_repeat(entry, lambda: self._tree)
        time = self._copied.get(anchor)
        if time is None or entry.timestamp != time:
            return False
        self._copied[row] = time
        return True

    def place_of(self, row: int) -> int:
        """The place, in the outline, of the turn of a row that was taken; NO_ROW without a turn."""
        return self._node_of[row]

    def number_of(self, row: int) -> int | None:
        """The number of the turn of a row that was taken; None without a turn."""
        node = self._node_of[row]
        if node == NO_ROW or self._nodes[node].subagent:
            return None
        return self._nodes[node].number

    def _started(self, entry: Entry) -> _Agent | None:
        """The subagent that begins with the first entry of a lane; None for another lane."""
        data: Any = {}
        if starts_subagent_lane(entry):
            data = entry.as_stored.get("data")
        elif not is_named_by_agent(entry.lane, self.agent):
            return None
        return _Agent(data if isinstance(data, dict) else {}, self._last_of_main)

    def _continues(self, anchor: int, lane: str | None) -> bool:
        """Whether an entry that is not a prompt goes on with the turn that it is below."""
        if anchor == NO_ROW or self._goes_on[anchor] or self._node_of[anchor] == NO_ROW:
            return False
        return self._branching.lane_of(anchor) == lane

    def _begin(
        self,
        row: int,
        anchor: int,
        lane: str | None,
        entry: Entry,
        *,
        asked: bool,
    ) -> int:
        above = self._node_of[anchor] if anchor != NO_ROW else NO_ROW
        node = _Node(row, above, anchor, lane, self._tallying())
        if asked and node.tally.counts:
            node.prompt = _prompt(entry)
            if not self._first.is_found:
                self._first.take(entry.as_stored)
            self._take_compaction(node)
        agent = self._agents.get(lane) if lane is not None else None
        if agent is not None:
            node.subagent = True
            agent.nodes.append(len(self._nodes))
        elif asked:
            self._numbers += 1
            node.number = self._numbers
        else:
            node.number = self._nodes[above].number if above != NO_ROW else 0
            node.part = self._parts[node.number]
        if not node.subagent:
            self._parts[node.number] += 1
        self._nodes.append(node)
        return len(self._nodes) - 1

    def _take_compaction(self, node: _Node) -> None:
        """Give a turn that began with `/compact` the compaction that stands before the prompt."""
        above = self._nodes[node.above] if node.above != NO_ROW else None
        if above is None or not above.tally.is_compacted or not above.events:
            return
        if (node.prompt or "").startswith("/compact") and above.events[-1].kind == "compaction":
            node.events.append(above.events.pop())

    def outline(self) -> SessionOutline:
        """The outline of all that was taken."""
        header = self._outline.entry(0)
        for uuid, label in self._outline.names.labels.items():
            row = self._tree.row(uuid)
            if row != NO_ROW and (node := self._node_of[row]) != NO_ROW:
                self._nodes[node].labels.append((uuid, label))
        for row, events in self._summaries.items():  # nothing follows them yet
            self._nodes[self._node_of[row]].events += events
        self._hang_subagents()
        self._note_missing()
        current = self._outline.current(self._branching.content)
        here = self._node_of[current] if current != NO_ROW else NO_ROW
        on_path = path_rows(self._tree, self._outline.leaf)
        outcomes = self._outcomes()
        turns = tuple(
            self._turn(node, bool(on_path[node.first]), outcome)
            for node, outcome in zip(self._nodes, outcomes, strict=True)
        )
        return SessionOutline(
            id=str(header.get("id", "")),
            name=self._outline.names.name,
            cwd=cwd if isinstance(cwd := header.get("cwd"), str) and cwd else None,
            agent=self.agent,
            turns=turns,
            here=None if here == NO_ROW else here,
            leaf=None if current == NO_ROW else self._tree.uuids[current],
            work=total([*(turn.work for turn in turns), self._of_session.work()]),
            title=title_of(self._outline.names.name, self._first.text),
            kin=kin_in_words(str(header.get("id", "")), forked_from(header.as_stored)),
        )

    def _outcomes(self) -> list[Outcome | None]:
        ends = [node.end() for node in self._nodes]
        following: dict[int, TurnEnd] = {}  # by the last row of the turn above
        for node, end in zip(self._nodes, ends, strict=True):
            if end.prompt is not None and not node.subagent:
                following.setdefault(node.fork, end)
        lasts = (node.last for node in self._nodes)
        return [outcome_of(end, following.get(last)) for end, last in zip(ends, lasts, strict=True)]

    def _hang_subagents(self) -> None:
        agents = {lane: agent for lane, agent in self._agents.items() if agent is not None}
        times = self._times() if agents else []
        started = {lane: self._start_of(agent, times) for lane, agent in agents.items()}
        for lane, agent in agents.items():
            if not agent.nodes:
                continue
            first = self._nodes[agent.nodes[0]]
            above = started[lane] if started[lane] != NO_ROW else first.above
            if above == NO_ROW or self._is_below_itself(lane, started):
                above = NO_ROW
            else:
                self._nodes[above].subagents.append(self._subagent(lane, agent))
            for place in agent.nodes:
                if (node := self._nodes[place]).above == NO_ROW or place == agent.nodes[0]:
                    node.above = above
                    if agent.caller and (row := self._tree.row(agent.caller)) != NO_ROW:
                        node.fork = row
            if above == NO_ROW:  # it is drawn as a branch of its own
                for place in agent.nodes:
                    self._nodes[place].subagent = False

    def _note_missing(self) -> None:
        """Add the subagents that calls started and of which there is no file.

        Where it is not known which call started a lane, it may be any of them.
        """
        callers = {
            agent.caller
            for lane, agent in self._agents.items()
            if agent is not None and not lane.startswith(_SIDE_AGENTS)
        }
        started = set(self._called.values())
        if self.agent is None:
            return
        from sessiontree.agents import named  # few sessions have a call without its subagent

        agent = named(self.agent)
        if agent is None or not (agent.keeps_subagents and callers <= started):
            return
        for caller, (name, task) in self._tasks.items():
            row = self._tree.row(caller)
            node = self._node_of[row] if row != NO_ROW else NO_ROW
            if caller in callers or caller not in started or node == NO_ROW:
                continue
            missing = Subagent(
                *("", name or "subagent", task or "", caller, False, (), WorkTally().work()),
                missing=True,
            )
            self._nodes[node].subagents.append(missing)

    def _times(self) -> list[tuple[datetime, int]]:
        own = [place for place, node in enumerate(self._nodes) if not node.subagent]
        begun = [(moment_of(self._nodes[place].tally.started), place) for place in own]
        return sorted((moment, place) for moment, place in begun if moment is not None)

    def _start_of(self, agent: _Agent, times: list[tuple[datetime, int]]) -> int:
        """The turn that started a subagent, or NO_ROW.

        Without a call that is known, it is the turn that was going on at the time.
        """
        row = self._tree.row(agent.caller) if agent.caller else NO_ROW
        if row == NO_ROW and agent.nodes:
            first = self._nodes[agent.nodes[0]]
            row = first.fork
            moment = moment_of(first.tally.started)
            if row == NO_ROW and moment is not None and times:
                at = bisect_right(times, (moment, len(self._nodes))) - 1
                return times[max(0, at)][1]
        if row == NO_ROW:
            row = agent.seen
        return self._node_of[row] if row != NO_ROW else NO_ROW

    def _is_below_itself(self, lane: str, started: Mapping[str, int]) -> bool:
        seen: set[str] = set()
        at: str | None = lane
        while at is not None and at in started:
            if at in seen:
                return True
            seen.add(at)
            node = started[at]
            at = self._nodes[node].lane if node != NO_ROW else None
        return False

    def _subagent(self, lane: str, agent: _Agent) -> Subagent:
        nodes = [self._nodes[place] for place in agent.nodes]
        name, task = self._tasks.get(agent.caller or "", (None, None))
        prompt = next((node.prompt for node in nodes if node.prompt), "")
        task = agent.task or task or prompt
        return Subagent(
            lane=lane,
            name=agent.name or name or lane.removeprefix("agent-"),
            task=task or "",
            caller=agent.caller,
            own=lane.startswith(_SIDE_AGENTS),
            turns=tuple(agent.nodes),
            work=total(node.tally.work() for node in nodes),
        )

    def _turn(self, node: _Node, current: bool, outcome: Outcome | None) -> Turn:
        uuids = self._tree.uuids
        above = self._nodes[node.above] if node.above != NO_ROW else None
        return Turn(
            number=above.number if node.subagent and above is not None else node.number,
            part=node.part,
            uuid=uuids[node.first],
            leaf=uuids[node.last],
            prompt=node.prompt,
            answer=one_line(node.tally.answer, TEXT),
            above=None if node.above == NO_ROW else node.above,
            fork=None if node.fork == NO_ROW else uuids[node.fork],
            leaves=above is not None and not node.subagent and node.fork != above.last,
            lane=node.lane,
            subagent=node.subagent,
            current=current,
            names=node.names,
            labels=tuple(node.labels),
            events=tuple(node.events),
            subagents=tuple(node.subagents),
            work=node.tally.work(),
            outcome=outcome,
        )


def _prompt(entry: Entry) -> str:
    own = entry.message_as_stored if entry.type == "message" else None
    if isinstance(own, dict) and is_typed_command(own):
        return one_line(ends_of(as_typed(text_of(own).strip())), TEXT)
    if (typed := typed_in(entry)) is not None:
        return one_line(ends_of(typed), TEXT)
    text = text_of(own).strip() if isinstance(own, dict) else ""
    return one_line(ends_of(text), TEXT) if len(text) > TEXT else preview(entry, width=TEXT)


def entries_in_order(drawn: EntryTree) -> Iterator[tuple[int, Entry]]:
    """Yield each row with its entry, parents first, else in file order."""
    tree = drawn.tree
    if not tree.has_late_parents:
        yield from entries_by_row(drawn, drawn.view.entry_lines(), len(tree))
        return
    for row in _parents_first(tree):
        yield row, drawn.entry(row)


def _parents_first(tree: TreeIndex) -> Iterator[int]:
    waiting = tree.roots()
    heapify(waiting)
    while waiting:
        row = heappop(waiting)
        yield row
        for child in tree.children(row):
            heappush(waiting, child)
