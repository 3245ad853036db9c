"""The conversation in a transcript of Claude Code: which entries it is, in what order.

Entries name their parents, but a parent is what was written before, not always what
was said before. So the conversation is found from its end, as Claude Code's own
readers find it:

- it ends at the last `user` or `assistant` entry of the file that is the tip of a
  chain, or above nothing but hooks and progress, and belongs to the main agent;
- it goes up from there by `parentUuid`, and ends where a parent is missing, absent, or
  was met before;
- a response is written as one entry for each content block, all of one `message.id`,
  and a tool's result hangs below its call; with parallel calls the way up misses some
  of them. They stand behind the last entry of the response that is on the way, first
  the response's own, then the results, each by time;
- it ends above at the mark of a compaction. What was compacted is a conversation of
  its own, found in the same way from the entry that the mark names.

Nothing here reads content but ids. See `formats.claude_code.reader` for the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sessiontree.formats.claude_code.node import Node


def by_uuid(nodes: Iterable[Node]) -> dict[str, Node]:
    """The nodes by uuid; of those with the same one the last, at the place of the first."""
    return {node.uuid: node for node in nodes}


def main_leaf(nodes: Sequence[Node], named: Mapping[str, Node]) -> Node | None:
    """The message at which the main conversation ends, or None where there is no message."""
    above_another = {node.parent for node in nodes}
    best: Node | None = None
    seen: set[str] = set()
    for node in nodes:
        if node.uuid in above_another:
            continue
        leaf = _nearest_message(named[node.uuid], named, seen)
        if leaf is not None and (best is None or _later(leaf, best)):
            best = leaf
    return best


def _later(one: Node, other: Node) -> bool:
    if one.is_main != other.is_main:
        return one.is_main
    return one.place > other.place


def _nearest_message(node: Node, named: Mapping[str, Node], seen: set[str]) -> Node | None:
    """The first message upwards; None also where another tip came by here before."""
    current: Node | None = node
    while current is not None and current.uuid not in seen:
        seen.add(current.uuid)
        if current.speaks:
            return current
        current = named.get(current.parent) if current.parent else None
    return None


def last_message(nodes: Sequence[Node]) -> Node | None:
    """The message at which a subagent's conversation ends: its last one."""
    return next((node for node in reversed(nodes) if node.speaks), None)


def way_up(leaf: Node, named: Mapping[str, Node], met: set[str]) -> list[Node]:
    """A node and those above it, the topmost first; ends before one that was met.

    Args:
        leaf: the node.
        named: all nodes by uuid.
        met: the uuids of those that were met; these are added.
    """
    way: list[Node] = []
    current: Node | None = leaf
    while current is not None and current.uuid not in met:
        met.add(current.uuid)
        way.append(current)
        current = named.get(current.parent) if current.parent else None
    way.reverse()
    return way


class Responses:
    """The responses of a file by id, and the results by the entries they may answer."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._members: dict[str, list[Node]] = {}
        self._owners: dict[str, Node | None] = {}
        self._order: dict[str, int] = {}
        results: list[Node] = []
        for number, node in enumerate(nodes):
            self._order[node.uuid] = number
            if node.response is not None:
                self._members.setdefault(node.response, []).append(node)
                for call in node.calls:
                    self._own(call, node)
            elif node.type == "user" and node.has_result and node.parent:
                results.append(node)
        assistants = {node.uuid: node for members in self._members.values() for node in members}
        self._results: dict[str, list[Node]] = {}
        for result in results:
            for uuid in self._answered(result, assistants):
                self._results.setdefault(uuid, []).append(result)

    def _own(self, call: str, node: Node) -> None:
        """Note who made a call; a call that two responses made is nobody's."""
        owner = self._owners.get(call, node)
        same = owner is not None and owner.response == node.response
        self._owners[call] = node if same else None

    def _answered(self, result: Node, assistants: Mapping[str, Node]) -> Iterator[str]:
        """The uuids of the entries that a result may answer."""
        if result.parent is not None:
            yield result.parent
        named = assistants.get(result.source) if result.source is not None else None
        for node in (named, *(self._owners.get(call) for call in result.results)):
            if node is not None and _same_writer(result, node):
                yield node.uuid

    def made_whole(self, way: list[Node], met: set[str]) -> list[Node]:
        """A way with the parallel calls and results that it misses put back.

        Args:
            way: the way.
            met: the uuids of the nodes that have their place; those put back are added.
        """
        anchors = {node.response: node for node in way if node.response is not None}
        put_back: dict[str, list[Node]] = {}
        for response in dict.fromkeys(node.response for node in way if node.response is not None):
            missed = self._missed(response, way, met)
            met.update(node.uuid for node in missed)
            put_back[anchors[response].uuid] = missed
        return [found for node in way for found in (node, *put_back.get(node.uuid, ()))]

    def _missed(self, response: str, way: Sequence[Node], met: set[str]) -> list[Node]:
        """What belongs to a response and was not met, in order."""
        members = self._members[response]
        uuids = {member.uuid for member in members}
        candidates = {
            result.uuid: result
            for member in members
            for result in self._results.get(member.uuid, ())
            if result.uuid not in met
        }
        results = [node for node in candidates.values() if node.parent in uuids]
        strays = [node for node in candidates.values() if node.parent not in uuids]
        if strays:
            results += self._wanted(strays, results, way, uuids)
        siblings = [member for member in members if member.uuid not in met]
        siblings.sort(key=lambda node: node.timestamp)
        results.sort(key=lambda node: node.timestamp)
        return siblings + results

    def _wanted(
        self, strays: list[Node], results: list[Node], way: Sequence[Node], members: set[str]
    ) -> list[Node]:
        """Of results that hang elsewhere those that answer a call still open."""
        answered = {call for node in (*way, *results) for call in node.results}
        wanted: list[Node] = []
        for stray in sorted(strays, key=lambda node: self._order[node.uuid]):
            owners = (self._owners.get(call) for call in stray.results if call not in answered)
            if any(owner is not None and owner.uuid in members for owner in owners):
                answered.update(stray.results)
                wanted.append(stray)
        return wanted


def _same_writer(one: Node, other: Node) -> bool:
    return one.sidechain == other.sidechain and one.agent == other.agent
