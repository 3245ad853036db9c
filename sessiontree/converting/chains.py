"""Conversations laid over each other: what they begin with in common is kept once.

A node is one message of a conversation, below the one said before it. Conversations
share a node where the same entry says the same after the same; where an edit, a
compaction or a merge makes one say otherwise, it goes on in nodes of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sessiontree.core.entry import Entry
from sessiontree.core.message import Message

Said = tuple[Message, Entry, int]
"""A message, the entry that it came from, and the row at whose place it is said."""


@dataclass(eq=False, slots=True)
class Node:
    """A message in a conversation.

    Attributes:
        message: as the context has it.
        entry: the entry that it came from.
        parent: the node said before it, or None.
        place: the row of the entry below which belongs what is said after it.
        replaces: for the summary of a compaction, the last node that it stands for.
        children: the nodes said after it.
    """

    message: Message
    entry: Entry
    parent: Node | None
    place: int
    replaces: Node | None = None
    children: list[Node] = field(default_factory=list)

    def up(self) -> Iterator[Node]:
        """This node and those above it."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    def below(self) -> Iterator[Node]:
        """All nodes under this one, each behind its parent."""
        waiting = self.children[::-1]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))


class Chains:
    """Conversations that share their beginnings.

    Attributes:
        roots: the nodes that nothing was said before.
    """

    def __init__(self) -> None:
        self.roots: list[Node] = []

    def add(self, said: Iterable[Said]) -> Node | None:
        """Take in a conversation; its last node, or None for an empty one."""
        node: Node | None = None
        for message, entry, place in said:
            beside = self.roots if node is None else node.children
            above = node
            node = _found(beside, message, entry)
            if node is None:
                node = Node(message, entry, above, place)
                beside.append(node)
        return node

    def in_order(self, last: Node | None) -> list[Node]:
        """All nodes, each behind its parent, but `last` at the end, behind even those below it."""
        below = set(last.below()) if last is not None else set()
        nodes = [node for root in self.roots for node in (root, *root.below())]
        early = [node for node in nodes if node not in below and node is not last]
        late = [node for node in nodes if node in below]
        return [*early, *late, *([last] if last is not None else [])]


def _found(beside: list[Node], message: Message, entry: Entry) -> Node | None:
    for node in beside:
        if node.entry == entry and node.message == message:
            return node
    return None
