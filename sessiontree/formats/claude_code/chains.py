"""Conversations laid over each other: what they begin with in common is kept once.

A node is one message of a conversation, below the one said before it. Conversations
share a node where the same entry says the same after the same; where an edit, a
compaction or a merge makes one say otherwise, it goes on in nodes of its own.

A node whose message is its entry's own keeps neither: they are read again when they are
asked for, so that conversations take the memory of their nodes, and not of what is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sessiontree.core.entry import Entry
from sessiontree.core.message import Message


@dataclass(eq=False, slots=True)
class Node:
    """A message in a conversation.

    Attributes:
        row: of the entry that it came from, in the index.
        place: the row of the entry below which belongs what is said after it.
        kept: the message as the context has it, and that entry; None where the message is
            the entry's own.
        parent: the node said before it, or None.
        replaces: for the summary of a compaction, the last node that it stands for.
        children: the nodes said after it.
        model: the id of the model in force there, or None.
        uuids: of its lines.
    """

    row: int
    place: int
    kept: tuple[Message, Entry] | None
    parent: Node | None = None
    replaces: Node | None = None
    children: tuple[Node, ...] = ()
    model: str | None = None
    uuids: tuple[str, ...] = ()

    def up(self) -> Iterator[Node]:
        """This node and those above it."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    def below(self) -> Iterator[Node]:
        """All nodes under this one, each behind its parent."""
        waiting = [*reversed(self.children)]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))


class Chains:
    """Conversations that share their beginnings.

    Args:
        is_same: whether the same entry says the same in two nodes.

    Attributes:
        roots: the nodes that nothing was said before.
    """

    def __init__(self, is_same: Callable[[Node, Node], bool]) -> None:
        self.roots: tuple[Node, ...] = ()
        self._is_same = is_same

    def add(self, said: Iterable[Node]) -> Node | None:
        """Take in a conversation; its last node, or None for an empty one."""
        last: Node | None = None
        for node in said:
            beside = self.roots if last is None else last.children
            known = next((other for other in beside if self._is_same(other, node)), None)
            if known is None:
                node.parent = last
                if last is None:
                    self.roots += (node,)
                else:
                    last.children += (node,)
            last = known or node
        return last

    def in_order(self, last: Node | None) -> list[Node]:
        """All nodes, each behind its parent, but `last` at the end, behind even those below it."""
        below = set(last.below()) if last is not None else set()
        nodes = [node for root in self.roots for node in (root, *root.below())]
        early = [node for node in nodes if node not in below and node is not last]
        late = [node for node in nodes if node in below]
        return [*early, *late, *([last] if last is not None else [])]
