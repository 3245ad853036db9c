"""A session as a transcript of Claude Code: the conversations of its branches, and subagents.

Claude Code's readers find the conversation upwards from the last message by `parentUuid`. So each
branch is written as the messages of its context, shared beginnings once, and the conversation of
the current leaf last. A compaction is a mark that starts a new chain, the summary, and then the
kept messages again. A lane is a subagent, with a file of its own beside the transcript.

Branches share a node where the same entry gives the same message after the same messages. A node
holds no message that its entry can give again: the memory is that of the nodes, and each message
is translated twice, to count losses and to be written.

An entry that only adds to the context of its parent adds one node to the parent's conversation, so
that a tree costs its entries, however many branches it has. A compaction, an edit, a merge and a
message in scattered pieces need the whole context of their path. Lanes, and compactions that keep
the same messages, repeat messages; how many is limited.

A response's `message.id` is left out where another branch goes on from inside the response:
readers gather all entries with one id, those of other branches included.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from sessiontree.context.settings import may_make_system, model_of
from sessiontree.core.blocks import message_uuid
from sessiontree.core.display import one_line
from sessiontree.core.entry import Entry
from sessiontree.core.index import NO_ROW
from sessiontree.core.message import Message, calls_of, result_ids, text_of
from sessiontree.core.origin import origin_at
from sessiontree.errors import SessionTreeError
from sessiontree.formats import writing
from sessiontree.formats.claude_code.messages import AnthropicMessages

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NOT_IN_ID: Final = re.compile(r"[^\w.\-]+")

_LOSS_OF_TYPE: Final = {
    "label": "a label is left out",
    "custom": "a custom entry is left out",
    "usage": "usage without a message is left out",
    "stack_push": "a stack_push is left out",
    "thinking_level_change": "a thinking level is left out",
    "merge": "a merge: its messages are repeated in its place",
    "context_edit": "an edit: the conversation is as edited, the original content is left out",
    "stack_summary": "a stack_summary is a user message",
    "branch_summary": "a branch_summary is a user message",
    "custom_message": "a custom_message is a user message",
    "handle": "a handle is replaced by its current content",
}
_LOSS_OF_SYSTEM: Final = "a system message is left out: Claude Code makes its own"
_MAY_MAKE_SYSTEM: Final = frozenset({"handle", "message_end"})
_WRITTEN_KEYS: Final = {
    "compaction": ("summary", "firstKeptEntryUuid", "tokensBefore", "state"),
    "branch": (),
    "block": ("messageUuid", "index", "block"),
}
"""The keys that are written, by type; other keys are losses."""

_NEEDS_PATH: Final = frozenset(("compaction", "context_edit", "merge", *writing.PIECES))
"""The types of entries that may change what stands above them in a context."""

_WHOLLY_WRITTEN: Final = frozenset({"session_info", "model_change", "message_end"})


class ClaudeCodeWriter:
    """Writes one session as a transcript, and its lanes as subagents' transcripts."""

    def __init__(self, source: writing.SessionSource) -> None:
        self.source = source
        self._losses = source.losses
        is_uuid = _UUID.fullmatch(source.id) is not None
        self.session_id = source.id if is_uuid else source.derived_uuid(source.id, 0)
        self.used: set[str] = set()  # the uuids of the lines of all files
        self._next_numbers: dict[str, int] = {}
        self.whole_messages = _whole_messages(source)
        self.model = source.model_id()
        self._note_losses()
        tips = [row for row in source.tips() if source.tree.lane_of(row) == source.lane]
        self._main = _Transcript(self, [*tips, source.leaf], None)
        if not self._main.has_messages:
            raise writing.no_message(source, "transcript")
        self._lanes = self._subagents()

    @property
    def default_name(self) -> str:
        return f"{self.session_id}.jsonl"

    def beside(self, name: str) -> list[writing.SideFile]:
        """A transcript for each lane, and a description for each subagent that has one."""
        made: list[writing.SideFile] = []
        for agent, (transcript, facts) in self._lanes.items():
            path = f"{name}/subagents/agent-{agent}"
            made.append(writing.SideFile(f"{path}.jsonl", transcript.lines))
            if facts:
                made.append(writing.SideFile.of(f"{path}.meta.json", writing.json_of(facts)))
        return made

    def blocks(self) -> Iterator[bytes]:
        """The lines of the transcript, each with its LF."""
        yield from self._main.lines()
        name = self.source.name
        if name is not None:
            title = {"type": "custom-title", "customTitle": name, "sessionId": self.session_id}
            origin = origin_at(self.source.header.uuid, title)
            yield writing.json_of({**title, **origin}) + b"\n"

    def envelope(self, entry: Entry) -> dict[str, Any]:
        """The keys of every line beside its place and its message."""
        header = self.source.header
        metadata = header.get("metadata")
        facts = metadata if isinstance(metadata, dict) else {}
        version = facts.get("agentVersion") if facts.get("agent") == "claude-code" else None
        return {
            "userType": "external",
            "cwd": writing.text_in(header.get("cwd")),
            "sessionId": self.session_id,
            **({"version": version} if isinstance(version, str) else {}),
            "gitBranch": writing.text_in(facts.get("gitBranch")),
            "timestamp": entry.timestamp or header.timestamp or writing.LONG_AGO,
        }

    def _note_losses(self) -> None:
        source, tree = self.source, self.source.tree
        for row in range(1, len(tree)):
            kind = tree.type_of(row)
            self._losses.uuid = tree.uuids[row]
            if kind in _MAY_MAKE_SYSTEM and self._makes_system(source.stored(row)):
                self._losses.add(_LOSS_OF_SYSTEM)
            elif kind in _LOSS_OF_TYPE:
                self._losses.add(_LOSS_OF_TYPE[kind])
            elif kind == "message":
                self._note_losses_of(source.stored(row))
            elif kind == "session_info" and "metadata" in source.stored(row):
                self._losses.add("metadata of the session is left out")
            elif kind in _WRITTEN_KEYS:
                self._losses.keys(source.stored(row), _WRITTEN_KEYS[kind])
            elif kind not in _WHOLLY_WRITTEN:
                self._losses.add(f"a {one_line(kind, 40)} is left out")

    def _makes_system(self, entry: Entry) -> bool:
        """Whether the message that is made of a `handle` or `message_end` is a system message."""
        if not may_make_system(entry):
            return False
        return entry.type == "message_end" or self.source.resolved(entry).get("role") == "system"

    def _note_losses_of(self, entry: Entry) -> None:
        message = entry.message_as_stored
        if isinstance(message, dict) and message.get("role") == "system":
            self._losses.add(_LOSS_OF_SYSTEM)
        self._losses.keys(entry, ("message", "toolResults"))
        metadata = entry.get("metadata")
        if "toolResults" in entry or (isinstance(metadata, dict) and "toolResults" in metadata):
            self._losses.add("a result that Claude Code stored in tool-results/ is its preview")

    def free_uuid(self, wanted: str) -> str:
        """A uuid that no line has yet: the one wanted, if it is one."""
        uuid, number = wanted, self._next_numbers.get(wanted, 0)
        while uuid in self.used or not _UUID.fullmatch(uuid):
            number += 1
            uuid = self.source.derived_uuid(wanted, number)
        self._next_numbers[wanted] = number
        self.used.add(uuid)
        return uuid

    def free_name(self, wanted: str, used: Collection[str]) -> str:
        """A name that no subagent has yet: the one wanted, or one with a number."""
        key = f"agent {wanted}"
        name, number = wanted, self._next_numbers.get(key, 1)
        while name in used:
            number += 1
            name = f"{wanted}-{number}"
        self._next_numbers[key] = number
        return name

    def _subagents(self) -> dict[str, tuple[_Transcript, dict[str, Any]]]:
        source = self.source
        known = writing.subagents(source)
        found: dict[str, tuple[_Transcript, dict[str, Any]]] = {}
        for lane, tips in writing.durable_lanes(source):
            transcript = _Transcript(self, tips, lane)
            if not transcript.has_messages:
                continue
            self._losses.at(source.tree.uuids[tips[-1]], f"the lane {lane!r} is a subagent")
            facts = known.get(lane, {})
            kept = {k: v for k, v in facts.items() if k not in ("agentId", "calledBy")}
            found[transcript.agent_id(found)] = transcript, kept
        return found


@dataclass(eq=False, slots=True)
class _Node:
    """A message in a conversation."""

    row: int  # its entry's row in the index
    place: int  # the row of the entry below which the next message belongs
    kept: tuple[Message, Entry] | None  # None if the entry can give the message again
    parent: _Node | None = None  # the node before it, or None
    replaces: _Node | None = None  # for the summary of a compaction, the last node that it replaces
    children: list[_Node] | None = None  # the nodes after it, if any
    model: str | None = None  # the id of the current model there, or None
    uuids: tuple[str, ...] = ()  # of its lines
    last_uuid: str | None = None  # of its last line, or of the nearest node above that has one

    def up(self) -> Iterator[_Node]:
        node: _Node | None = self
        while node is not None:
            yield node
            node = node.parent

    def below(self) -> Iterator[_Node]:
        waiting = [*reversed(self.children or ())]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children or ()))


class _SharedIds:
    """Finds the response ids in the current conversation that other branches go on from."""

    def __init__(self, current: Iterable[_Node]) -> None:
        self._current = set(current)
        self._here: dict[str, str] = {}
        self._elsewhere: set[str] = set()
        self._answered: set[str] = set()
        self._owners: dict[str, list[str]] = {}
        self._ids: dict[_Node, list[str]] = {}

    def note(self, node: _Node, messages: Sequence[Message], uuid: str) -> None:
        ids = [id for m in messages if isinstance(id := m.get("id"), str) and id]
        if ids:
            self._ids[node] = ids
        for id in ids:
            if node in self._current:
                self._here.setdefault(id, uuid)
            else:
                self._elsewhere.add(id)
            for message in messages:
                for call in calls_of(message):
                    self._owners.setdefault(call.id, []).append(id)
        if node in self._current:
            return
        answered = [each for message in messages for each in result_ids(message)]
        self._answered.update(answered)
        if answered and node.parent is not None:
            self._elsewhere.update(self._ids.get(node.parent, ()))

    def found(self) -> dict[str, str]:
        """Each such id in the current conversation, with the uuid of its first entry."""
        elsewhere = self._elsewhere.union(
            *(self._owners.get(answered, ()) for answered in self._answered)
        )
        return {id: uuid for id, uuid in self._here.items() if id in elsewhere}


class _Transcript:
    """The conversations of one lane, which end at the rows `tips`, the current one last."""

    def __init__(self, writer: ClaudeCodeWriter, tips: list[int], lane: str | None) -> None:
        self._writer = writer
        self._source = writer.source
        self._lane = lane
        self._agent = ""
        self._roots: list[_Node] = []
        self._ends: dict[int, _Node | None] = {}  # by row: the last node of its conversation
        self._after: dict[tuple[int, str, int], list[_Node]] = {}  # see `_add`
        self._last: _Node | None = None
        for row in tips:
            self._last = self._conversation(row)
        current = [] if self._last is None else list(self._last.up())
        self._shared = self._translate(current)
        self._last = next((node for node in current if node.uuids), None)
        if self._last is not None:  # what is appended there continues at the lane's leaf
            self._last.place = tips[-1]
        self._nodes = self._in_order(self._last)

    @property
    def has_messages(self) -> bool:
        return self._last is not None

    def agent_id(self, used: Collection[str]) -> str:
        """The id of the subagent that the lane becomes; not one of those used."""
        lane = self._lane or ""
        wanted = _NOT_IN_ID.sub("-", lane.removeprefix("agent-")).strip("-") or "unnamed"
        self._agent = self._writer.free_name(wanted, used)
        return self._agent

    def lines(self) -> Iterator[bytes]:
        for _, uuid in sorted(self._shared.items()):
            self._source.losses.at(uuid, "the id of a response that other branches go on from")
        messages = AnthropicMessages(writing.Losses())  # the losses are counted already
        for node in self._nodes:
            yield from self._lines_of(node, messages)
        if self._last is not None and self._last.children:
            yield self._end(self._last)

    def _conversation(self, leaf: int) -> _Node | None:
        """Add the path to a row, and the paths that compactions on it replaced."""
        waiting = [leaf]
        asked: set[int] = set()
        while waiting:
            row = waiting[-1]
            above, rows = self._known_above(row)
            if above != NO_ROW and above not in self._ends:
                path = self._path(self._source.stored(above))
                summary = _compaction_in(path)
                replaced = NO_ROW
                if summary is not None:
                    replaced = self._source.row(self._source.parent(summary))
                    if replaced not in self._ends and replaced not in asked:
                        asked.add(replaced)
                        waiting.append(replaced)
                        continue
                last = self._add_all(path)
                if last is not None and summary is not None:
                    *_, top = last.up()
                    top.replaces = top.replaces or self._ends.get(replaced)
                self._ends[above] = last
            self._go_on(above, rows)
            waiting.pop()
        return self._ends[leaf]

    def _known_above(self, row: int) -> tuple[int, list[list[int]]]:
        """The nearest row at or above one whose conversation is known, or needs its whole path.

        NO_ROW where there is none. Also the rows below it, the lowest first, each with the other
        rows of its message, if it is one in pieces.
        """
        tree, whole = self._source.tree, self._writer.whole_messages
        found: list[list[int]] = []
        while row != NO_ROW and row not in self._ends:
            members = whole.get(row)
            if members is None and tree.type_of(row) in _NEEDS_PATH:
                return row, found
            if members is None:
                found.append([row])
            elif members[-1] == row:
                found.append(members)
            else:  # a branch leaves in the middle of a message
                found.append(members[: members.index(row) + 1])
                self._source.room.take(len(found[-1]))
            row = tree.parents[found[-1][0]]
        return row, found

    def _go_on(self, above: int, found: list[list[int]]) -> None:
        """Add the messages of rows, the lowest first, that only add to a conversation."""
        source = self._source
        last = self._ends[above] if above != NO_ROW else None
        last_piece = {members[0]: members[-1] for members in found}
        rows = array("i", (row for members in reversed(found) for row in members))
        ended = iter([members[-1] for members in reversed(found)])
        for message, entry in source.messages(rows):
            row = source.row(entry)
            place = last_piece.get(row, row)
            while (end := next(ended)) != place:
                self._ends[end] = last
            if message.get("role") != "system":
                kept = None if _is_own(message, entry) else (message, entry)
                last = self._add(last, _Node(row, place, kept), entry)
            self._ends[place] = last
        self._ends.update(dict.fromkeys(ended, last))

    def _add_all(self, path: list[_Node]) -> _Node | None:
        """Add a whole conversation; its last node, or None for an empty one."""
        last: _Node | None = None
        for node in path:
            _, entry = self._read(node)
            last = self._add(last, node, entry)
        return last

    def _add(self, last: _Node | None, node: _Node, entry: Entry) -> _Node:
        """Add a node below another, unless the same is there; gives the one that is there."""
        key = id(last), entry.uuid, hash(entry.line)
        alike = self._after.setdefault(key, [])
        known = next((other for other in alike if self._is_same(other, node)), None)
        if known is not None:
            return known
        self._source.room.take()
        alike.append(node)
        node.parent = last
        if last is None:
            self._roots.append(node)
        elif last.children is None:
            last.children = [node]
        else:
            last.children.append(node)
        return node

    def _in_order(self, last: _Node | None) -> list[_Node]:
        """All nodes, each parent before its children, but `last` after all others."""
        below = set(last.below()) if last is not None else set()
        nodes = [node for root in self._roots for node in (root, *root.below())]
        early = [node for node in nodes if node not in below and node is not last]
        late = [node for node in nodes if node in below]
        return [*early, *late, *([last] if last is not None else [])]

    def _path(self, leaf: Entry) -> list[_Node]:
        """The messages of the path to an entry, as nodes without parents."""
        contributed = self._source.context(leaf)
        places = self._source.places(leaf, [entry for _, entry in contributed])
        row_of = self._source.row
        return [
            _Node(row_of(entry), place, None if _is_own(message, entry) else (message, entry))
            for (message, entry), place in zip(contributed, places, strict=True)
            if message.get("role") != "system"
        ]

    def _read(self, node: _Node) -> tuple[Message, Entry]:
        if node.kept is not None:
            return node.kept
        entry = self._source.entry(node.row)
        return entry["message"], entry

    def _is_same(self, one: _Node, other: _Node) -> bool:
        uuids = self._source.tree.uuids
        if uuids[one.row] != uuids[other.row]:
            return False
        if one.row == other.row and one.kept is None and other.kept is None:
            return True
        (message, entry), (other_message, other_entry) = self._read(one), self._read(other)
        return entry == other_entry and message == other_message

    def _translate(self, current: list[_Node]) -> dict[str, str]:
        """Give each node its model and its lines' uuids; find the shared ids; note losses."""
        losses = self._source.losses
        messages = AnthropicMessages(losses)
        nodes = self._in_order(None)
        shared = _SharedIds(current) if len(nodes) > len(current) else None
        for node in nodes:
            message, entry = self._read(node)
            found = model_of(message)
            above = self._writer.model if node.parent is None else node.parent.model
            node.model = found["modelId"] if found else above
            losses.uuid = entry.uuid
            made = _translated(node, message, messages)
            node.uuids = tuple(self._writer.free_uuid(entry.uuid) for _ in made)
            before = None if node.parent is None else node.parent.last_uuid
            node.last_uuid = node.uuids[-1] if node.uuids else before
            if shared is not None:
                shared.note(node, made, entry.uuid)
        return {} if shared is None else shared.found()

    def _lines_of(self, node: _Node, messages: AnthropicMessages) -> Iterator[bytes]:
        if not node.uuids:
            return
        parent = None if node.parent is None else node.parent.last_uuid
        message, entry = self._read(node)
        is_summary = _is_summary(node, message)
        if is_summary:
            mark = self._source.derived_uuid(node.uuids[0], -2)
            yield self._line(node, entry, "system", parent, _mark(node, entry, mark))
            parent = mark
        for uuid, made in zip(node.uuids, _translated(node, message, messages), strict=True):
            if made.get("id") in self._shared:
                made = {key: value for key, value in made.items() if key != "id"}
            fields: dict[str, Any] = {"message": made, "uuid": uuid}
            if is_summary:
                fields |= {"isCompactSummary": True, "isVisibleInTranscriptOnly": True}
            yield self._line(node, entry, made["role"], parent, fields)
            parent = uuid

    def _end(self, last: _Node) -> bytes:
        """An empty line below the last message, so that it is above a line of no branch."""
        _, entry = self._read(last)
        uuid = self._source.derived_uuid(entry.uuid, -1)
        fields = {"uuid": uuid, "subtype": "informational", "content": "", "isMeta": True}
        return self._line(last, entry, "system", last.last_uuid, fields)

    def _line(
        self, node: _Node, entry: Entry, kind: str, parent: str | None, fields: dict[str, Any]
    ) -> bytes:
        place = {"parentUuid": parent, "isSidechain": self._lane is not None}
        if self._lane is not None:
            place["agentId"] = self._agent
        origin = origin_at(self._source.tree.uuids[node.place], {"type": kind, **fields})
        envelope = self._writer.envelope(entry)
        return writing.json_of({**place, **origin, "type": kind, **fields, **envelope}) + b"\n"


def _translated(node: _Node, message: Message, messages: AnthropicMessages) -> list[dict[str, Any]]:
    if _is_summary(node, message):
        return [{"role": "user", "content": text_of(message)}]
    return messages.of(message, node.model)


def _mark(node: _Node, entry: Entry, uuid: str) -> dict[str, Any]:
    tokens = entry.get("tokensBefore")
    before = tokens if isinstance(tokens, int) else 0
    return {
        "uuid": uuid,
        "logicalParentUuid": None if node.replaces is None else node.replaces.last_uuid,
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "level": "info",
        "isMeta": False,
        "compactMetadata": {"trigger": "manual", "preTokens": before},
    }


def _is_own(message: Message, entry: Entry) -> bool:
    """Whether the entry holds the message, and can give it again."""
    try:
        return entry.type == "message" and bool(entry.get("message") == message)
    except SessionTreeError:
        return False


def _compaction_in(path: list[_Node]) -> Entry | None:
    kept = path[0].kept if path else None
    return kept[1] if kept is not None and kept[1].type == "compaction" else None


def _is_summary(node: _Node, message: Message) -> bool:
    is_first = node.parent is None and message.get("role") == "compactionSummary"
    return is_first and bool(text_of(message))


def _whole_messages(source: writing.SessionSource) -> dict[int, list[int]]:
    """For each piece of a message the rows of all, where each is the parent of the next."""
    tree = source.tree
    groups: dict[str, list[int]] = {}
    for row in tree.rows_of_type(*writing.PIECES):
        groups.setdefault(message_uuid(source.stored(row)), []).append(row)
    found: dict[int, list[int]] = {}
    for rows in groups.values():
        if all(tree.parents[below] == above for above, below in pairwise(rows)):
            found.update(dict.fromkeys(rows, rows))
    return found
