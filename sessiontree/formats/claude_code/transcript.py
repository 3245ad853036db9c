"""The transcript: one file of Claude Code, its conversation found, and line by line ours.

A file is read twice: for its structure, of which a node a line is kept, and then to be
translated. Invariants: an entry stands behind its parent where that is in the file;
every line becomes an entry; the leaf is where the conversation ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from sessiontree.core.message import text_of
from sessiontree.formats.base import Lines, Place, Report, Source, Translated, with_numbers
from sessiontree.formats.claude_code.found import Found, is_of_program
from sessiontree.formats.claude_code.node import CHAIN, Node, node_of
from sessiontree.formats.claude_code.threads import (
    Responses,
    by_uuid,
    last_message,
    main_leaf,
    way_up,
)
from sessiontree.formats.values import Values, values

SIDE: Final = frozenset(
    {
        "agent-color",
        "agent-metadata",
        "agent-name",
        "agent-setting",
        "ai-title",
        "attribution-snapshot",
        "content-replacement",
        "custom-title",
        "file-history-snapshot",
        "last-prompt",
        "mode",
        "permission-mode",
        "pr-link",
        "queue-operation",
        "result",
        "speculation-accept",
        "started",
        "summary",
        "tag",
        "task-summary",
        "worktree-state",
    }
)
"""The types of lines without a place in the tree."""

_SPILLED: Final = re.compile(rb"tool-results(?:/|\\\\)([\w.\-]+)")
_NAME: Final = re.compile(r"[^\w.\-]+")


class Transcript:
    """One file, looked through once for its structure, and then translated.

    Args:
        source: the file.
        number: which of the sources it is.
        found: the facts of the session, to be added to.
        lane: the lane of all its entries; None for the main one.

    Attributes:
        leaf: the uuid at which its conversation ends; None where there is none.
        last: the place of its last line.
        callers: for each tool call the uuid of the entry that made it.
        agents: for each subagent the uuid of the entry that answers its call.
        folder: the name of the folder in which its session keeps what is too large.
    """

    def __init__(self, source: Source, number: int, found: Found, lane: str | None = None) -> None:
        self._source = source
        self.folder = source.name.removesuffix(".jsonl")
        self._number = number
        self._lane = lane
        self._lane_leaf: str | None = None
        self.last = Place(number, 1, 0)
        self.callers: dict[str, str] = {}
        self.agents: dict[str, str] = {}
        self._tokens: dict[str, int] = {}
        self._nodes: list[Node | None] = []
        for self.last, line in with_numbers(source.lines(), number):
            self._nodes.append(self._looked_at(line, found))
        nodes = [node for node in self._nodes if node is not None]
        self._named = by_uuid(nodes)
        self._given: dict[str, str] = {}
        self._lanes: dict[str, str] = {}
        self._parents: dict[str, str | None] = {}
        self._looped: set[str] = set()
        messages = [node for node in nodes if node.speaks]
        self._is_subagents = lane is not None or all(node.sidechain for node in messages)
        self._is_teams = all(not node.is_main for node in messages)
        marks = (self._boundary_above(node) for node in nodes if node.summary)
        self._summarized = {mark for mark in marks if mark is not None}
        way = self._conversation(nodes)
        self._on_way = {node.uuid for node in way}
        self._leaf = way[-1].uuid if way else None

    @property
    def leaf(self) -> str | None:
        return None if self._leaf is None else self._given.get(self._leaf, self._leaf)

    def _looked_at(self, line: bytes, found: Found) -> Node | None:
        node = node_of(line, len(self._nodes))
        if node is None or not found.has_prompt:
            facts = values(line)
            if facts is not None:
                found.note(facts)
        if node is None:
            return None
        for call in node.calls:
            self.callers[call] = node.uuid
        if node.results and b'"agentId"' in line:
            self._note_agent(node, line)
        if node.boundary and (mark := values(line)) is not None:
            tokens = mark.inside("compactMetadata").value("preTokens")
            if isinstance(tokens, int):
                self._tokens[node.uuid] = tokens
        return node

    def _note_agent(self, node: Node, line: bytes) -> None:
        found = values(line)
        agent = found.inside("toolUseResult").text("agentId") if found is not None else None
        if agent is not None:
            self.agents[agent] = node.source or node.parent or node.uuid

    def _conversation(self, nodes: list[Node]) -> list[Node]:
        """The conversation in order, with what was compacted of it.

        Notes for whom the parent is another than is stored.
        """
        leaf = None if self._is_subagents else main_leaf(nodes, self._named)
        leaf = leaf or last_message(nodes)
        responses = None if self._is_subagents else Responses(self._named.values())
        ways: list[list[Node]] = []
        met: set[str] = set()
        while leaf is not None and leaf.uuid not in met:
            way = way_up(leaf, self._named, met)
            top = way[0]
            if top.parent is not None and top.parent in self._named:
                self._parents[top.uuid] = None
                self._looped.add(top.uuid)
            if responses is not None:
                way = responses.made_whole(way, met)
            ways.append(way)
            is_mark = top.boundary and top.uuid in self._summarized
            leaf = self._named.get(top.logical_parent or "") if is_mark else None
        whole = [node for way in reversed(ways) for node in way]
        for above, node in pairwise(whole):
            if node.parent != above.uuid:
                self._parents[node.uuid] = above.uuid
        return whole

    def translated(self, lines: Lines, report: Report) -> Iterator[Translated]:
        """The lines of ours; an entry waits until its parent is there."""
        waiting: dict[str, list[tuple[Place, bytes, Node]]] = {}
        for (place, line), node in zip(
            with_numbers(self._source.lines(), self._number), self._nodes, strict=False
        ):
            if node is None:
                yield from self._aside(place, line, lines)
                continue
            if self._named[node.uuid] is not node:
                cause = f"the uuid {node.uuid} stands in a later line too"
                report("repeated", place, cause)
                yield from self._aside(place, line, lines)
                continue
            parent = self._parents.get(node.uuid, node.parent)
            if parent is not None and parent in self._named and parent not in self._given:
                waiting.setdefault(parent, []).append((place, line, node))
                continue
            ready = [(place, line, node)]
            while ready:
                next_place, next_line, next_node = ready.pop()
                yield self._entry(next_place, next_line, next_node, lines, report)
                ready.extend(reversed(waiting.pop(next_node.uuid, ())))
        rest = (held for children in waiting.values() for held in children)
        for place, line, node in sorted(rest, key=lambda held: held[0]):
            yield self._entry(place, line, node, lines, report)

    def finished(self, lines: Lines) -> Iterator[Translated]:
        """What makes the conversation's end the leaf of the lane."""
        leaf = self.leaf
        if leaf is not None and self._lane_leaf != leaf:
            uuid = lines.uuid(None, self.last, b"leaf " + leaf.encode("utf-8", "replace"))
            yield lines.entry("branch", self.last, uuid, parent=leaf, lane=self._lane)

    def _aside(self, place: Place, line: bytes, lines: Lines) -> Iterator[Translated]:
        """A line that is no part of the tree, below the entry before it."""
        found = values(line)
        more = {"parent": self._lane_leaf, "lane": self._lane}
        if found is None:
            is_last = place == self.last and not self._source.is_complete()
            yield from lines.stray(line, place, is_last=is_last, **more)
            return
        kind = found.text("type") or ""
        if kind not in SIDE and kind not in CHAIN:
            lines.note_unknown(kind, place)
        uuid = lines.uuid(None, place, line)
        if self._lane is not None:
            self._lane_leaf = uuid
        at = found.text("timestamp")
        yield lines.custom(kind or "line", place, uuid, found.whole(), timestamp=at, **more)

    def _entry(
        self, place: Place, line: bytes, node: Node, lines: Lines, report: Report
    ) -> Translated:
        uuid = self._given[node.uuid] = lines.uuid(node.uuid, place, line)
        parent = self._parent_of(node, lines)
        if node.uuid in self._looped:
            cause = f"entry {node.uuid} is an ancestor of its own parent {node.parent}"
            report("cycle", place, cause)
        if node.type not in CHAIN:
            lines.note_unknown(node.type, place)
        found = values(line) or Values({})
        lane = self._lane_of(node)
        if self._lane is not None:
            self._lane_leaf = uuid
        more = {"parent": parent, "lane": lane, "timestamp": node.timestamp or None}
        if not self._is_said(node, lane):
            return lines.custom(node.type or "line", place, uuid, found.whole(), **more)
        if node.summary and (mark := self._boundary_above(node)) is not None:
            summary = text_of({"content": found.inside("message").value("content")})
            if summary:
                kept: dict[str, Any] = {"summary": summary, "firstKeptEntryUuid": uuid}
                if mark in self._tokens:
                    kept["tokensBefore"] = self._tokens[mark]
                return lines.entry("compaction", place, uuid, kept, **more)
        fields: dict[str, Any] = {"message": found.kept("message")}
        if node.type == "user" and not node.has_result and _is_meta(node, found):
            fields["metadata"] = {"isMeta": True}
        if node.has_result and (spilled := self._spilled(found.raw("message"))):
            fields["metadata"] = {"toolResults": spilled}
        return lines.entry("message", place, uuid, fields, **more)

    def _parent_of(self, node: Node, lines: Lines) -> str:
        parent = self._parents.get(node.uuid, node.parent)
        if parent is not None:
            return self._given.get(parent, parent)
        if node.boundary and node.logical_parent is not None and node.uuid in self._summarized:
            return self._given.get(node.logical_parent, lines.root)
        return lines.root

    def _lane_of(self, node: Node) -> str | None:
        if self._lane is not None or not node.sidechain:
            return self._lane
        if self._is_subagents or node.uuid in self._on_way:
            return None
        if node.agent:
            return lane_name(node.agent)
        above = self._lanes.get(node.parent or "")
        lane = above or f"sidechain-{len(set(self._lanes.values())) + 1}"
        self._lanes[node.uuid] = lane
        return lane

    def _is_said(self, node: Node, lane: str | None) -> bool:
        """Whether a node is a message of its lane's conversation."""
        if not node.speaks:
            return False
        if self._is_subagents or lane is not None:
            return True
        if self._is_teams:
            return not node.meta
        return node.is_main

    def _boundary_above(self, summary: Node) -> str | None:
        """The mark of the compaction that a summary belongs to, itself where there is none.

        None where something was said between the summary and the top: then it is one
        message among others.
        """
        current = summary
        met = {summary.uuid}
        while current.parent is not None:
            above = self._named.get(current.parent)
            if above is None or above.uuid in met or above.speaks:
                return None
            met.add(above.uuid)
            current = above
        return current.uuid if current.boundary or current is summary else None

    def _spilled(self, message: bytes) -> list[str]:
        if b"tool-results" not in message:
            return []
        names = dict.fromkeys(name.decode() for name in _SPILLED.findall(message))
        return [f"{self.folder}/tool-results/{name}" for name in names]


def _is_meta(node: Node, line: Values) -> bool:
    """Whether a user's message is none of the user's own."""
    if node.meta or node.summary:
        return True
    message = line.value("message")
    return isinstance(message, dict) and is_of_program(text_of(message).lstrip())


def lane_name(agent: str) -> str:
    """The lane of a subagent."""
    return f"agent-{_NAME.sub('-', agent).strip('-') or 'unnamed'}"
