"""The messages of all conversations of a session, each once: a tree that transcripts share.

A node is a message after those above it. Branches and lanes share a node where the same entry gives
the same message after the same messages. A node holds no message that its entry can give again: the
memory is that of the nodes, and a message is translated again when it is written.

An entry that only adds to the context of its parent adds one node to the parent's conversation, so
that a tree costs its entries, however many branches and lanes it has. A compaction, an edit, a
merge and a message in scattered pieces need the whole context of their path.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from sessiontree.context.settings import model_of
from sessiontree.core.blocks import message_uuid
from sessiontree.core.entry import Entry
from sessiontree.core.index import NO_ROW
from sessiontree.core.message import Message, text_of
from sessiontree.errors import SessionTreeError
from sessiontree.formats import writing
from sessiontree.formats.claude_code.messages import AnthropicMessages

_NEEDS_PATH: Final = frozenset(("compaction", "context_edit", "merge", *writing.PIECES))
"""The types of entries that may change what stands above them in a context."""


@dataclass(eq=False, slots=True)
class Node:
    """A message in a conversation."""

    row: int  # its entry's row in the index
    place: int  # the row of the entry below which the next message belongs
    kept: tuple[Message, Entry] | None  # None if the entry can give the message again
    parent: Node | None = None  # the node before it, or None
    written: Node | None = None  # the nearest node at or above it that has lines
    replaces: int = NO_ROW  # for the summary of a compaction, the row of the leaf that it replaced
    model: str | None = None  # the id of the current model there, or None
    lines: int = 0  # how many messages of Claude Code it is
    has_id: bool = False  # whether one of them has the id of a response
    losses: tuple[str, ...] = ()
    lanes: int = 0  # how many lanes have it
    rendered: tuple[tuple[bytes, bytes], ...] | None = None  # see `writer._Transcript`

    def up(self) -> Iterator[Node]:
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent


class Conversations:
    """The conversations that end at rows of a session."""

    def __init__(self, source: writing.SessionSource) -> None:
        self._source = source
        self._whole = _whole_messages(source)
        self._model = source.model_id()
        self._ends: dict[int, Node | None] = {}  # by row: the last node of its conversation
        self._after: dict[tuple[int, str, int], list[Node]] = {}  # see `_add`
        # By row, the nodes of its conversation that another gave another place.
        self._places: dict[int, list[tuple[Node, int]]] = {}
        self._losses = writing.Losses()
        self._messages = AnthropicMessages(self._losses)

    def end(self, leaf: int) -> Node | None:
        """The last node of the conversation that ends at a row; None for an empty one."""
        above, rows = self._known_above(leaf)
        if above != NO_ROW and above not in self._ends:
            self._ends[above] = self._add_path(above)
        self._go_on(above, rows)
        return self._ends[leaf]

    def places(self, leaf: int) -> dict[Node, int]:
        """The places that nodes have in the conversation at a row, where they are not `place`."""
        found: dict[Node, int] = {}
        if not self._places:
            return found
        tree = self._source.tree
        for row in tree.rows_up(leaf):
            found.update(self._places.get(row, ()))
            if tree.type_of(row) in _NEEDS_PATH and row not in self._whole:
                break
        return found

    def read(self, node: Node) -> tuple[Message, Entry]:
        """The message of a node, and its entry."""
        if node.kept is not None:
            return node.kept
        entry = self._source.entry(node.row)
        return entry["message"], entry

    def _known_above(self, row: int) -> tuple[int, list[list[int]]]:
        """The nearest row at or above one whose conversation is known, or needs its whole path.

        NO_ROW where there is none. Also the rows below it, the lowest first, each with the other
        rows of its message, if it is one in pieces.
        """
        tree, whole = self._source.tree, self._whole
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
                last = self._add(last, Node(row, place, kept), message, entry, place)
            self._ends[place] = last
        self._ends.update(dict.fromkeys(ended, last))

    def _add_path(self, row: int) -> Node | None:
        """Add the whole conversation of a row; its last node, or None for an empty one."""
        leaf = self._source.stored(row)
        contributed = self._source.context(leaf)
        last: Node | None = None
        for message, entry, place in contributed:
            if message.get("role") == "system":
                continue
            kept = None if _is_own(message, entry) else (message, entry)
            node = Node(self._source.row(entry), place, kept)
            if last is None and entry.type == "compaction":
                node.replaces = self._source.row(self._source.parent(entry))
            last = self._add(last, node, message, entry, row)
        return last

    def _add(self, last: Node | None, node: Node, message: Message, entry: Entry, by: int) -> Node:
        """Add a node below another, unless the same is there; gives the one that is there."""
        key = id(last), entry.uuid, hash(entry.line)
        alike = self._after.setdefault(key, [])
        for known in alike:
            if self._is_same(known, node):
                if known.place != node.place:
                    self._places.setdefault(by, []).append((known, node.place))
                return known
        self._source.room.take()
        alike.append(node)
        node.parent = last
        found = model_of(message)
        above = self._model if last is None else last.model
        node.model = found["modelId"] if found else above
        self._translate(node, message)
        node.written = node if node.lines else None if last is None else last.written
        return node

    def _is_same(self, one: Node, other: Node) -> bool:
        uuids = self._source.tree.uuids
        if uuids[one.row] != uuids[other.row]:
            return False
        if one.row == other.row and one.kept is None and other.kept is None:
            return True
        (message, entry), (other_message, other_entry) = self.read(one), self.read(other)
        return bool(entry == other_entry and message == other_message)

    def _translate(self, node: Node, message: Message) -> None:
        """Note how many lines a node has, and what they lose."""
        made = translated(node, message, self._messages)
        node.lines = len(made)
        node.has_id = any(isinstance(each.get("id"), str) and each["id"] for each in made)
        lost = self._losses.found()
        if lost:
            node.losses = tuple(loss.what for loss in lost for _ in range(loss.count))
            self._losses = writing.Losses()
            self._messages = AnthropicMessages(self._losses)


def translated(node: Node, message: Message, messages: AnthropicMessages) -> list[dict[str, Any]]:
    """The messages of Claude Code that a node is."""
    if is_summary(node, message):
        return [{"role": "user", "content": text_of(message)}]
    return messages.of(message, node.model)


def is_summary(node: Node, message: Message) -> bool:
    """Whether a node is the summary at the top of a conversation."""
    is_first = node.parent is None and message.get("role") == "compactionSummary"
    return is_first and bool(text_of(message))


def _is_own(message: Message, entry: Entry) -> bool:
    """Whether the entry holds the message, and can give it again."""
    try:
        return entry.type == "message" and bool(entry.get("message") == message)
    except SessionTreeError:
        return False


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
