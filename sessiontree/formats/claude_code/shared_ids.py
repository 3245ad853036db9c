"""Ids of answers that other branches share: of which they have some entries, or results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sessiontree.core.message import Message, calls_of, result_ids
from sessiontree.formats.claude_code.chains import Node


class SharedIds:
    """Finds them.

    Args:
        standing: the nodes of the conversation that the others are beside.
    """

    def __init__(self, standing: Iterable[Node]) -> None:
        self._standing = set(standing)
        self._here: dict[str, str] = {}
        self._elsewhere: set[str] = set()
        self._answered: set[str] = set()
        self._owners: dict[str, list[str]] = {}
        self._ids: dict[Node, list[str]] = {}

    def note(self, node: Node, told: Sequence[Message], uuid: str) -> None:
        """Take in a node, behind its parent: its messages, and the uuid of its entry."""
        ids = [id for m in told if isinstance(id := m.get("id"), str) and id]
        if ids:
            self._ids[node] = ids
        for id in ids:
            if node in self._standing:
                self._here.setdefault(id, uuid)
            else:
                self._elsewhere.add(id)
            for message in told:
                for call in calls_of(message):
                    self._owners.setdefault(call.id, []).append(id)
        if node in self._standing:
            return
        answered = [each for message in told for each in result_ids(message)]
        self._answered.update(answered)
        if answered and node.parent is not None:
            self._elsewhere.update(self._ids.get(node.parent, ()))

    def found(self) -> dict[str, str]:
        """Each such id of the conversation, with the uuid of the first entry that has it."""
        elsewhere = self._elsewhere.union(
            *(self._owners.get(answered, ()) for answered in self._answered)
        )
        return {id: uuid for id, uuid in self._here.items() if id in elsewhere}
