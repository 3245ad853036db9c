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

The node: what a line of Claude Code says of its place in a conversation.

A line is a node when it has a `uuid` and is of a type that hangs in the tree, or names
a parent. Only the keys that tell its place are decoded. What a line is wrong about is
absent in its node: a value of a wrong type says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from sessiontree.core.entry import decode_leniently

CHAIN: Final = frozenset({"user", "assistant", "progress", "system", "attachment"})
"""The types of lines that hang in the tree."""


class Node(msgspec.Struct, gc=False):
    """What a line says of its place in the conversation.

    Attributes:
        place: the index of its line in the file, from 0.
        type: `user`, `assistant`, `progress`, `system`, `attachment` or another.
        uuid, parent, logical_parent: as stored; None where absent or no string.
        sidechain: whether a subagent wrote it.
        meta: whether it was said by the program to the model, behind the user's back.
        team: whether it belongs to a team of agents.
        summary: whether it is the summary of a compaction.
        boundary: whether it is the mark of a compaction.
        agent: the id of the subagent that wrote it, or None.
        timestamp: as stored, or empty.
        response: the `message.id` of an assistant's entry, or None.
        calls: the ids of the tool calls in it.
        results: the ids of the calls whose results are in it.
        has_result: whether there is a result in it, even one that names no call.
        source: the uuid of the assistant's entry that it says it answers, or None.
    """

    place: int
    type: str
    uuid: str
    parent: str | None = None
    logical_parent: str | None = None
    sidechain: bool = False
    meta: bool = False
    team: bool = False
    summary: bool = False
    boundary: bool = False
    agent: str | None = None
    timestamp: str = ""
    response: str | None = None
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    has_result: bool = False
    source: str | None = None

    @property
    def speaks(self) -> bool:
        """Whether it is a message, whoever said it."""
        return self.type in ("user", "assistant")

    @property
    def is_main(self) -> bool:
        """Whether it belongs to the conversation of the main agent with its user."""
        return not (self.sidechain or self.meta or self.team)


class _Block(msgspec.Struct, gc=False):
    type: str | None = None
    id: str | None = None
    tool_use_id: str | None = None


class _Message(msgspec.Struct, gc=False):
    id: str | None = None
    content: list[_Block] | str | None = None


class _Line(msgspec.Struct, rename="camel", gc=False):
    """The keys of a line that tell its place."""

    type: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    team_name: str | None = None
    agent_id: str | None = None
    subtype: str | None = None
    timestamp: str | None = None
    source_tool_assistant_uuid: str | None = msgspec.field(
        default=None, name="sourceToolAssistantUUID"
    )
    message: _Message | None = None


_decode_line: Final = msgspec.json.Decoder(_Line).decode


def node_of(line: bytes, place: int) -> Node | None:
    """What a line says of its place; None for a side line, or none that can be read."""
    try:
        found = _decode_line(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        lenient = _leniently(line)
        if lenient is None:
            return None
        found = lenient
    uuid, kind = found.uuid, found.type
    if not uuid or kind is None or (kind not in CHAIN and found.parent_uuid is None):
        return None
    message = found.message or _Message()
    blocks = message.content if isinstance(message.content, list) else []
    return Node(
        place=place,
        type=kind,
        uuid=uuid,
        parent=found.parent_uuid or None,
        logical_parent=found.logical_parent_uuid,
        sidechain=bool(found.is_sidechain),
        meta=bool(found.is_meta),
        team=bool(found.team_name),
        summary=bool(found.is_compact_summary) and kind == "user",
        boundary=kind == "system" and found.subtype == "compact_boundary",
        agent=found.agent_id,
        timestamp=found.timestamp or "",
        response=(message.id or None) if kind == "assistant" else None,
        calls=tuple(b.id for b in blocks if b.type == "tool_use" and b.id is not None),
        results=tuple(
            b.tool_use_id for b in blocks if b.type == "tool_result" and b.tool_use_id is not None
        ),
        has_result=any(b.type == "tool_result" for b in blocks),
        source=found.source_tool_assistant_uuid,
    )


def _leniently(line: bytes) -> _Line | None:
    """The same for a line that the fast decoder refuses; a value of a wrong type is absent."""
    whole = decode_leniently(line.strip(b"\0").removeprefix(b"\xef\xbb\xbf").strip())
    if not isinstance(whole, dict):
        return None
    texts = {
        field.name: whole[field.encode_name]
        for field in msgspec.structs.fields(_Line)
        if isinstance(whole.get(field.encode_name), str)
    }
    flags = {
        "is_sidechain": bool(whole.get("isSidechain")),
        "is_meta": bool(whole.get("isMeta")),
        "is_compact_summary": bool(whole.get("isCompactSummary")),
        "team_name": str(whole.get("teamName") or ""),
    }
    return _Line(**{**texts, **flags, "message": _message(whole.get("message"))})


def _message(message: Any) -> _Message | None:
    if not isinstance(message, dict):
        return None
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return _Message(
        id=_text(message.get("id")),
        content=[
            _Block(_text(b.get("type")), _text(b.get("id")), _text(b.get("tool_use_id")))
            for b in blocks
            if isinstance(b, dict)
        ],
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


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
