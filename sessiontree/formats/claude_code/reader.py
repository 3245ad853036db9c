"""Claude Code's transcripts: `~/.claude/projects/<folder>/<session id>.jsonl`.

A line with a `uuid` is part of a tree by `parentUuid`: messages (`user`, `assistant`,
one for each content block), and between them hooks, progress and system notes. Lines
without one are side lines: titles, snapshots, queues. Subagents write files of their
own, `<session id>/subagents/**/agent-<id>.jsonl`, each here a lane `agent-<id>`;
older versions wrote them between the others, marked `isSidechain`.

A message keeps its uuid and is the API's message as stored. The main lane's context is
the conversation that `formats.claude_code.threads` finds: entries on it that parallel tool
calls left aside are hung where they belong, and only those. What does not speak in it
(hooks, side lines, what is marked as meta or as another agent's) is a `custom` entry
with the whole line in it, below its parent or else the line before.

The summary of a compaction is a `compaction` that keeps nothing, and the mark before
it hangs below the last entry that was compacted. A result that was taken out to
`<session id>/tool-results/` stays as its preview, as the model saw it;
`metadata.toolResults` names the files, relative to the transcript's folder.

The transcript: one file of Claude Code, its conversation found, and line by line ours.

A file is read twice: for its structure, of which a node a line is kept, and then to be
translated. Invariants: an entry stands behind its parent where that is in the file;
every line becomes an entry; the leaf is where the conversation ends.

What is found out about a session of Claude Code on the way through its lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from sessiontree.core.entry import decode_leniently
from sessiontree.core.message import slash_command, text_of
from sessiontree.formats.base import (
    START,
    Facts,
    Lines,
    Place,
    Report,
    Source,
    Translated,
    Values,
    first_values,
    prompt_text,
    values,
    with_numbers,
)
from sessiontree.formats.claude_code.threads import (
    CHAIN,
    Node,
    Responses,
    by_uuid,
    last_message,
    main_leaf,
    node_of,
    way_up,
)
from sessiontree.text.pattern import lines_with

TITLES: Final = ("customTitle", "aiTitle", "summary")
"""Keys of a line by which a session is named, the first of them before the others."""

_NO_PROMPT: Final = re.compile(
    r"<(local-command|command-|session-start-hook|tick|goal|ide_|bash-)"
    r"|\[Request interrupted|Caveat:"
)


def is_of_program(text: str) -> bool:
    """Whether a user's message is one that Claude Code wrote in their name."""
    return _NO_PROMPT.match(text) is not None


class Found:
    """The facts of a session, as they turn up."""

    def __init__(self) -> None:
        self._id: str | None = None
        self._cwd: str | None = None
        self._created: str | None = None
        self._prompt: str | None = None
        self._command: str | None = None
        self._titles: dict[str, str] = {}
        self.version: str | None = None
        self.branch: str | None = None
        self.model: str | None = None

    @property
    def has_prompt(self) -> bool:
        """Whether the first prompt is known."""
        return self._prompt is not None

    def note(self, line: Values) -> None:
        """Take from a line what is not known yet."""
        self._id = self._id or line.text("sessionId")
        self._cwd = self._cwd or line.text("cwd")
        self._created = self._created or line.text("timestamp")
        self.version = self.version or line.text("version")
        self.branch = self.branch or line.text("gitBranch")
        self.note_title(line)
        if self._prompt is None and line.text("type") == "user":
            self._note_prompt(line)

    @property
    def is_complete(self) -> bool:
        """Whether all is known but for titles, of which a later one counts."""
        return None not in (self._id, self._cwd, self._created, self._prompt)

    def note_title(self, line: Values) -> None:
        """Take a title from a side line; a later one counts."""
        for key in TITLES:
            title = line.text(key)
            if title:
                self._titles[key] = title

    def _note_prompt(self, line: Values) -> None:
        hidden = ("isMeta", "isCompactSummary", "isSidechain", "teamName")
        message = line.value("message")
        if any(line.value(key) for key in hidden) or not isinstance(message, dict):
            return
        text = prompt_text(message)
        if text is None:
            return
        if not is_of_program(text):
            self._prompt = text
        elif self._command is None:
            self._command = slash_command(text)

    def facts(self) -> Facts:
        names = (self._titles.get(key) for key in TITLES)
        return Facts(
            self._id,
            self._cwd,
            next((name for name in names if name), None),
            self._prompt or self._command,
            self._created,
        )


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


_OPENING_LINES: Final = 20
"""How many lines are looked at to recognise a transcript."""


class ClaudeCode:
    """See the module."""

    name = "claude-code"
    program = "Claude Code"

    def recognises(self, head: bytes) -> bool:
        """Lines with a `sessionId`, or side lines of Claude Code, and no header of a session."""
        for number, line in enumerate(first_values(head)):
            kind = line.text("type")
            if number == _OPENING_LINES or (kind == "session" and not number):
                return False
            if "payload" in line or "projectHash" in line:
                return False
            if kind in SIDE or ("sessionId" in line and kind is not None):
                return True
        return False

    def facts(self, head: bytes, tail: bytes) -> Facts:
        found = Found()
        for line in first_values(head):
            found.note(line)
            if found.is_complete:
                break
        for window in (head, tail):
            for needle in (b"itle", b'"summary"'):
                for start, end in lines_with(needle, window, len(window)):
                    if (title := values(window[start:end])) is not None:
                        found.note_title(title)
        return found.facts()

    def translate(self, source: Source, report: Report) -> Iterator[Translated]:
        found = Found()
        main = Transcript(source, 0, found)
        facts = found.facts()
        lines = Lines(self, report, facts.id or "")
        yield lines.header(
            START, facts, agentVersion=found.version, gitBranch=found.branch, model=found.model
        )
        yield from main.translated(lines, report)
        for number, beside in enumerate(source.beside(), 1):
            yield from _subagent(beside, number, main, lines, report)
        if main.leaf is not None and lines.leaf != main.leaf:
            uuid = lines.uuid(None, main.last, b"leaf " + main.leaf.encode("utf-8", "replace"))
            yield lines.entry("branch", main.last, uuid, parent=main.leaf)
        lines.report_unknown()


def _subagent(
    source: Source, number: int, main: Transcript, lines: Lines, report: Report
) -> Iterator[Translated]:
    """The lane of a subagent: what is known about it, and then what it wrote."""
    agent = source.name.removeprefix("agent-").removesuffix(".jsonl")
    lane = lane_name(agent)
    transcript = Transcript(source, number, Found(), lane)
    transcript.folder = main.folder
    place = Place(number, 1, 0)
    known = decode_leniently(source.sidecar) if source.sidecar is not None else None
    told = known if isinstance(known, dict) else {}
    caller = main.callers.get(told.get("toolUseId", ""), main.agents.get(agent))
    uuid = lines.uuid(None, place, b"lane " + lane.encode())
    data = {"agentId": agent, **told, **({"calledBy": caller} if caller else {})}
    yield lines.custom("subagent", place, uuid, data, parent=lines.root, lane=lane)
    yield from transcript.translated(lines, report)
    yield from transcript.finished(lines)
