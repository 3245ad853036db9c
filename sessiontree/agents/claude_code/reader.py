"""Claude Code's transcripts: `~/.claude/projects/<folder>/<session id>.jsonl`.

A line with a `uuid` has its place in a tree by `parentUuid`: messages (`user`, `assistant`, one
for each content block), hooks, progress and system notes. The others are side lines: titles,
snapshots, queues. A subagent has a file of its own, `<session id>/subagents/**/agent-<id>.jsonl`,
which becomes the lane `agent-<id>`; older versions mark its lines `isSidechain`. A forked agent's
file names the entry that it goes on from (`fork-context-ref`); its lane hangs below that entry.

Other side lines count too: `continued-in` and `derived-from` name other sessions, which are in the
header's metadata; `cost-state` has the cost so far, and what it adds becomes `usage`, as does the
cost that versions of 2025 wrote beside an answer (`costUSD`).

A message keeps its uuid, and is the API's message as stored; the output of a local command and a
prompt typed during a turn become messages of the user. A prompt that only the queue has
(`agents.claude_code.lines`) becomes a `custom` entry where it was sent, marked as a prompt; it
adds nothing to a context, for Claude Code sends it once. The context of the main lane is the
conversation that `agents.claude_code.threads` finds; only the entries of parallel tool calls get
another parent, on each branch and in each subagent. A line that is not part of the conversation
becomes a `custom` entry that holds the whole line, below its parent or else below the line before.

The summary of a compaction becomes a `compaction`, which keeps the messages that its mark names,
if they are the last before it; the parent of its mark is the last entry before it. A result in
`<session id>/tool-results/` stays the preview that the model saw; `metadata.toolResults` names the
files, relative to the transcript's folder.

Invariants: a parent comes before its children if it is in the file; every line becomes an entry;
the leaf is the end of the conversation. A file is read twice: for its structure, of which one node
a line is kept, then to translate it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from sessiontree.agents import base
from sessiontree.agents.claude_code.lines import (
    GENERATED,
    HIDDEN,
    QUEUE_OPERATION,
    ClaudeTally,
    Queue,
    message_of,
    metadata_of,
    new_costs,
    session_cost,
)
from sessiontree.agents.claude_code.threads import (
    CHAIN,
    Responses,
    ThreadNode,
    by_uuid,
    main_leaf,
    node_of,
    path_to,
)
from sessiontree.core.activity import FirstPrompt
from sessiontree.core.entry import decode_leniently, lane_of_subagent
from sessiontree.core.message import TYPED, is_typed_command, text_of
from sessiontree.core.usage import Tally, cost_in
from sessiontree.text.pattern import lines_with

TITLES: Final = ("customTitle", "aiTitle", "summary")
"""The keys of a line that name a session, the preferred one first."""

_SIDE_TYPES: Final = frozenset(
    {
        *("agent-color", "agent-metadata", "agent-name", "agent-setting", "agent_metadata"),
        *("ai-title", "api-request", "api-request-blob", "api-request-resumed"),
        *("api-request-shape", "artifact-autoreact-ledger", "artifact-comment-monitor"),
        *("atis-latch", "attribution-snapshot", "bridge-session", "content-replacement"),
        *("continued-in", "cost-state", "custom-title", "data-flow-incomplete"),
        *("data-flow-records", "derived-from", "dev-mods", "ended-by-model"),
        *("file-history-delta", "file-history-snapshot", "fork-context-ref", "frame-link"),
        *("history-suppression", "host-row", "hybrid-organization", "isolation-latch"),
        *("last-prompt", "memory-mode", "mode", "observer-ref", "permission-mode", "pr-link"),
        *("queue-operation", "relocated", "repl-mode", "result", "resume-head-vouch"),
        *("session-owner", "speculation-accept", "started", "summary", "tag"),
        *("task-summary", "tools-used", "worktree-state"),
    }
)
"""The types of lines without a place in the tree."""

_LINE_KEYS: Final = (
    frozenset({"type", "uuid", "parentUuid"}),
    frozenset({"type", "sessionId"}),
)
_COMMON_TYPES: Final = frozenset({"mode", "result", "started", "summary", "tag"})
"""The types of side lines that other programs may have, too."""

_OF_OTHERS: Final = frozenset(
    {"payload", "projectHash", "provenance", "systemPayload", "agentRunId"}
)
"""The keys of lines of Codex, Gemini CLI and Qwen Code."""

_OF_SIDE_LINES: Final = frozenset({"sessionId", "leafUuid", "agentId"})
_OF_LINES: Final = frozenset({"isSidechain", "userType"})
_LINES_TO_RECOGNISE: Final = 20
_RESULT_FILE: Final = re.compile(rb"tool-results(?:/|\\\\)([\w.\-]+)")


class ClaudeCodeReader(base.Reader):
    line_keys = _LINE_KEYS
    needs_opening = False
    has_subagents = True
    reads_twice = True
    has_result_files = True
    message_key = "message"
    parent_key = "parentUuid"
    session_keys = frozenset({"sessionId"})

    def recognises(self, head: bytes) -> bool:
        """True if one of the first lines has the shape of Claude Code's, and none is a header."""
        for number, line in enumerate(base.first_values(head)):
            kind = line.text("type")
            if number == _LINES_TO_RECOGNISE or (kind == "session" and not number):
                return False
            if line.has_any(_OF_OTHERS):
                return False
            if _is_own(line, kind):
                return True
        return False

    def record_in(self, head: bytes) -> str | None:
        first = next(base.first_values(head), base.Values({}))
        is_list = "display" in first and "project" in first
        return "the list of prompts of Claude Code" if is_list else None

    def facts(self, head: bytes, tail: bytes) -> base.AgentFacts:
        collected = _CollectedFacts()
        for line in base.first_values(head):
            collected.note(line)
            if collected.is_complete:
                break
        for window in (head, tail):
            for needle in (b"itle", b'"summary"'):
                for start, end in lines_with(needle, window, len(window)):
                    if (title := base.values(window[start:end])) is not None:
                        collected.note_title(title)
        return collected.facts()

    def stands_alone(self, body: Mapping[str, Any], beside: bool) -> bool:
        if body.get("isCompactSummary") or (beside and "uuid" not in body):
            return False
        if body.get("type") == QUEUE_OPERATION and body.get("content"):
            return False  # other lines tell whether a message carries the prompt
        if beside:
            return True
        is_title = any(body.get(key) for key in TITLES)
        return not (is_title or body.get("isSidechain") or body.get("teamName"))

    def link(self, line: base.Values) -> base.Link | None:
        node = node_of(line.as_json(), 0)
        return None if node is None else _link_of(node)

    def tally(self) -> Tally:
        return ClaudeTally()

    def translate(self, source: base.AgentSource, report: base.Report) -> Iterator[base.EntryDraft]:
        collected = _CollectedFacts()
        main = _Transcript(source, 0, collected, report)
        facts = collected.facts()
        lines = base.LineMaker(self.name, report, facts.id or "")
        about = {"agentVersion": collected.version, "gitBranch": collected.branch}
        yield lines.header(main.first, facts, **about, **collected.relations)
        yield from main.translated(lines)
        for number, beside in enumerate(source.beside(), 1):
            yield from _subagent(beside, number, main, lines)
        yield from main.end(lines)


def _is_own(line: base.Values, kind: str | None) -> bool:
    """True if only Claude Code, or a program that writes just as it does, writes such a line."""
    if kind in _SIDE_TYPES:
        return kind not in _COMMON_TYPES or line.has_any(_OF_SIDE_LINES)
    if kind in ("user", "assistant") and "sessionId" in line and "message" in line:
        return "content" in line.inside("message")
    return kind in CHAIN and line.has_any(_OF_LINES)


def _subagent(
    source: base.AgentSource, number: int, main: _Transcript, lines: base.LineMaker
) -> Iterator[base.EntryDraft]:
    agent = source.name.removeprefix("agent-").removesuffix(".jsonl")
    lane = lane_of_subagent(agent)
    transcript = _Transcript(source, number, _CollectedFacts(), lines.report, lane)
    transcript.folder = main.folder
    line = base.SourceLine(base.LinePlace(number, 1, 0), b"lane " + lane.encode())
    sidecar = decode_leniently(source.sidecar) if source.sidecar is not None else None
    known = sidecar if isinstance(sidecar, dict) else {}
    caller = main.callers.get(known.get("toolUseId", ""), main.agents.get(agent))
    data = {"agentId": agent, **known, **({"calledBy": caller} if caller else {})}
    above, uuid = _history_of_fork(transcript, main, lines), lines.uuid(None, line)
    made = lines.custom("subagent", line, uuid, data, parent=above or lines.root, lane=lane)
    yield made._replace(is_made=True)
    transcript.starts_at(uuid, below=above)
    yield from transcript.translated(lines)
    yield from transcript.end(lines)


def _history_of_fork(
    transcript: _Transcript, main: _Transcript, lines: base.LineMaker
) -> str | None:
    """The entry at which a forked agent's history ends; None for another agent.

    A fork does not copy its history: its file names the last line of it.
    """
    if transcript.fork is None:
        return None
    place, fork = transcript.fork
    above = main.uuid_of(fork.text("parentLastUuid") or "")
    if above is None:
        lines.report(
            "reference",
            place,
            f"the fork goes on from entry {fork.text('parentLastUuid')!r:.50} of session "
            f"{fork.text('parentSessionId')!r:.50}, which is not in {main.name}; "
            "its history is missing",
        )
    return above


class _Transcript:
    """One file, with the number `Place.source`: its structure, and then its lines."""

    def __init__(
        self,
        source: base.AgentSource,
        number: int,
        collected: _CollectedFacts,
        report: base.Report,
        lane: str | None = None,
    ) -> None:
        self._source = source
        self.folder = source.name.removesuffix(".jsonl")
        self.name = source.name
        self.fork: tuple[base.LinePlace, base.Values] | None = None
        self._number = number
        self._lane = lane
        self._costs: dict[str, float] = {}  # by model, as reported so far
        self._priced: set[str] = set()  # the answers whose cost is told
        self._lane_leaf: str | None = None
        self._top: str | None = None  # the entry above those without a parent; None: the header
        self.first = base.SourceLine(base.START, b"")
        self._last = base.LinePlace(number, 1, 0)
        self.callers: dict[str, str] = {}
        self.agents: dict[str, str] = {}
        self._tokens: dict[str, int] = {}
        self._first_kept: dict[str, str] = {}  # by the mark of its compaction
        self._nodes: list[ThreadNode | None] = []
        self._decoded: tuple[base.SourceLine, ThreadNode | None] | None = None  # the last line
        self._queue = Queue()
        for line in base.numbered(source, _LINE_KEYS, number, report, self._is_sound):
            if not self._nodes and not line.place.offset:
                self.first = line
            self._last = line.place
            node = self._node(line, collected)
            self._nodes.append(node)
            if node is None and self.fork is None and b'"fork-context-ref"' in line.text:
                self._note_fork(line)
            if lane is None:
                self._note_queued(line, node)
        nodes = [node for node in self._nodes if node is not None]
        self._by_uuid = by_uuid(nodes)
        self._missing = self._joined(nodes)
        self._steps = 4 * len(nodes)
        self._given: dict[str, str] = {}
        self._lanes: dict[str, str] = {}
        self._sidechains: dict[str, set[str]] = {}  # the uuids of each lane in `_lanes`
        self._parents: dict[str, str | None] = {}
        self._cycles: set[str] = set()
        messages = [node for node in nodes if node.is_message]
        self._is_subagents = lane is not None or all(node.sidechain for node in messages)
        self._is_teams = all(not node.is_main for node in messages)
        marks = (self._mark_of(node) for node in nodes if node.summary)
        self._summarized = {mark for mark in marks if mark is not None}
        self._compacted = self._ends_of_compacted(nodes)
        path = self._conversation(nodes)
        self._place_queued(path)
        self._on_path = {node.uuid for node in path}
        self._leaf = path[-1].uuid if path else None

    def _joined(self, nodes: list[ThreadNode]) -> dict[str, str]:
        """Join each entry without its parent to the one before it; the missing parents."""
        if not self._source.is_whole:
            return {}
        counting = [node for node in nodes if self._by_uuid[node.uuid] is node]
        found = base.joins(map(_link_of, counting))
        missing = {uuid: self._by_uuid[uuid].parent or "" for uuid in found}
        for uuid, parent in found.items():
            self._by_uuid[uuid].parent = parent
        return missing

    def uuid_of(self, own: str) -> str | None:
        """The uuid given to the line with a uuid of its own; None if there is no such line."""
        return self._given.get(own)

    def starts_at(self, start: str, *, below: str | None) -> None:
        """Take the entry that starts the lane; a fork's first entries hang below it."""
        self._lane_leaf = start
        self._top = start if below is not None else None

    def _note_fork(self, line: base.SourceLine) -> None:
        found = line.values
        if found is not None and found.text("type") == "fork-context-ref":
            self.fork = line.place, found

    def _is_sound(self, line: base.SourceLine) -> bool:
        node = node_of(line.text, 0)
        self._decoded = line, node
        return node is not None or line.values is not None

    def _node(self, line: base.SourceLine, collected: _CollectedFacts) -> ThreadNode | None:
        if self._decoded is None or self._decoded[0] is not line:
            self._is_sound(line)
        assert self._decoded is not None
        node = self._decoded[1]
        if node is not None:
            node.place = len(self._nodes)
        if node is None or not collected.has_title:
            facts = line.values
            if facts is not None:
                collected.note(facts)
        if node is None:
            return None
        self.callers.update(dict.fromkeys(node.calls, node.uuid))
        if node.results and b'"agentId"' in line.text:
            found = line.values
            agent = found.inside("toolUseResult").text("agentId") if found is not None else None
            if agent is not None:
                self.agents[agent] = node.source or node.parent or node.uuid
        if node.boundary and (mark := line.values) is not None:
            self._note_mark(node, mark.inside("compactMetadata"))
        return node

    def _note_mark(self, mark: ThreadNode, about: base.Values) -> None:
        """Note the tokens before a compaction, and the first message that it kept."""
        tokens = about.value("preTokens")
        if isinstance(tokens, int):
            self._tokens[mark.uuid] = tokens
        kept = about.inside("preservedMessages").value("uuids")
        head = kept[0] if isinstance(kept, list) and kept else None
        head = head or about.inside("preservedSegment").text("headUuid")
        if isinstance(head, str):
            self._first_kept[mark.uuid] = head

    def _is_above(self, uuid: str, below: str | None) -> bool:
        """Whether an entry is another one, or above it; the steps of all calls are bounded."""
        current = below
        while current is not None and current != uuid and self._steps > 0:
            self._steps -= 1
            node = self._by_uuid.get(current)
            current = None if node is None else self._parents.get(current, node.parent)
        return current == uuid

    def _conversation(self, nodes: list[ThreadNode]) -> list[ThreadNode]:
        """The conversation in order, compacted parts included; notes each changed parent."""
        leaf = None if self._is_subagents else main_leaf(nodes, self._by_uuid)
        leaf = leaf or next((node for node in reversed(nodes) if node.is_message), None)
        responses = Responses(self._by_uuid)
        paths: list[list[ThreadNode]] = []
        visited: set[str] = set()
        while leaf is not None and leaf.uuid not in visited:
            path = path_to(leaf, self._by_uuid, visited)
            top = path[0]
            if top.parent is not None and top.parent in self._by_uuid:
                self._parents[top.uuid] = None
                self._cycles.add(top.uuid)
            path = responses.completed(path, visited)
            paths.append(path)
            is_mark = top.boundary and top.uuid in self._summarized
            leaf = self._by_uuid.get(self._compacted.get(top.uuid, "")) if is_mark else None
        whole = [node for path in reversed(paths) for node in path]
        self._chain(whole)
        for node in reversed(nodes):  # the ends of other branches come before what is above them
            if node.is_message and node.uuid not in visited:
                path = path_to(self._by_uuid[node.uuid], self._by_uuid, visited)
                self._chain(responses.completed(path, visited))
        return whole

    def _ends_of_compacted(self, nodes: list[ThreadNode]) -> dict[str, str]:
        """The last entry before each compaction, by its mark.

        A mark may name an entry that was never written; then it is the message before the mark.
        """
        ends: dict[str, str] = {}
        last = ""
        for node in nodes:
            if node.is_message and not node.sidechain:
                last = node.uuid
            elif node.boundary and node.logical_parent is not None:
                is_there = node.logical_parent in self._by_uuid
                ends[node.uuid] = node.logical_parent if is_there else last
        return ends

    def _note_queued(self, line: base.SourceLine, node: ThreadNode | None) -> None:
        """Note a line of the queue, or the text of a message that may carry a queued prompt."""
        if node is None:
            if b'"queue-operation"' in line.text and (found := line.values) is not None:
                place = len(self._nodes) - 1
                self._queue.take(found.text("operation"), found.value("content"), place)
        elif not (self._queue.is_empty or node.summary or node.sidechain):
            self._queue.carry(_text_said(node, line))

    def _place_queued(self, path: list[ThreadNode]) -> None:
        """Put the prompts that only the queue has on the path, where they were sent.

        Claude Code sends such a prompt with the results of tools, so the first answer that
        follows them hangs below it.
        """
        lost = deque(self._queue.lost())
        for above, node in pairwise(path):
            if not lost:
                return
            if not node.is_message or node.summary or node.has_result or node.parent is None:
                continue
            last = self._parents.get(node.uuid) or above.uuid
            while lost and lost[0].removed < node.place:
                queued = lost.popleft()
                last = self._queued_node(queued.place, last)
                self._parents[node.uuid] = last

    def _queued_node(self, place: int, parent: str) -> str:
        """Give a line of the queue a place in the tree; the uuid by which it is known here."""
        line = b'{"type":"queue-operation","uuid":"queued %d","parentUuid":"%s"}'
        node = node_of(line % (place, b"-"), place)
        assert node is not None
        node.parent = parent
        self._nodes[place] = self._by_uuid[node.uuid] = node
        return node.uuid

    def _chain(self, path: list[ThreadNode]) -> None:
        """Note the parents of the entries of a path, where they are not the stored ones."""
        for above, node in pairwise(path):
            if node.parent != above.uuid:
                self._parents[node.uuid] = above.uuid

    def translated(self, lines: base.LineMaker) -> Iterator[base.EntryDraft]:
        """The version 2 lines; an entry waits until its parent is there."""
        waiting: dict[str, list[tuple[base.SourceLine, ThreadNode]]] = {}
        numbered = base.numbered(self._source, _LINE_KEYS, self._number)
        for line, node in zip(numbered, self._nodes, strict=False):
            if node is None:
                yield from self._side_line(line, lines)
                continue
            if self._by_uuid[node.uuid] is not node:
                lines.report("repeated", line.place, f"the uuid {node.uuid} is on a later line too")
                yield from self._side_line(line, lines)
                continue
            parent = self._parents.get(node.uuid, node.parent)
            if parent is not None and parent in self._by_uuid and parent not in self._given:
                waiting.setdefault(parent, []).append((line, node))
                continue
            ready = [(line, node)]
            while ready:
                next_line, next_node = ready.pop()
                yield from self._entries(next_line, next_node, lines)
                ready.extend(reversed(waiting.pop(next_node.uuid, ())))
        rest = (held for children in waiting.values() for held in children)
        for line, node in sorted(rest, key=lambda held: held[0].place):
            yield from self._entries(line, node, lines)

    def end(self, lines: base.LineMaker) -> Iterator[base.EntryDraft]:
        """A branch to the end of the conversation, if another entry is the lane's leaf."""
        leaf = None if self._leaf is None else self._given.get(self._leaf, self._leaf)
        current = lines.leaf if self._lane is None else self._lane_leaf
        if leaf is not None and current != leaf:
            yield lines.branch(leaf, self._last, self._lane)

    def _side_line(self, line: base.SourceLine, lines: base.LineMaker) -> Iterator[base.EntryDraft]:
        """A line without a place in the tree, below the entry before it."""
        found = line.values
        more = {"parent": self._lane_leaf, "lane": self._lane}
        if found is None:
            yield from lines.not_an_object(line, **more)
            return
        kind = found.text("type") or ""
        if kind not in _SIDE_TYPES and kind not in CHAIN:
            lines.note_unknown(kind, line.place)
        uuid = lines.uuid(None, line)
        if self._lane is not None:
            self._lane_leaf = uuid
        at = found.text("timestamp")
        yield lines.custom(kind or "line", line, uuid, found.as_fragment(), timestamp=at, **more)
        if kind == "cost-state" and self._lane is None:
            yield from self._new_costs(line, found, lines)

    def _new_costs(
        self, line: base.SourceLine, state: base.Values, lines: base.LineMaker
    ) -> Iterator[base.EntryDraft]:
        """What each model cost since the line before; a line has the sums of the session."""
        for model, cost in new_costs(state.value("modelUsage"), self._costs):
            if not cost:
                continue
            fields = session_cost(model, cost)
            uuid = lines.uuid(None, line, b" cost " + model.encode("utf-8", "replace"))
            yield lines.entry("usage", line, uuid, fields, timestamp=state.text("timestamp"))

    def _entries(
        self, line: base.SourceLine, node: ThreadNode, lines: base.LineMaker
    ) -> Iterator[base.EntryDraft]:
        """The entry of a line, and what the answer in it cost, as old versions wrote it."""
        yield self._entry(line, node, lines)
        if node.response is None or b'"costUSD"' not in line.text:
            return
        found = line.values or base.Values({})
        cost = cost_in(found.value("costUSD"))
        if cost and node.response not in self._priced:
            self._priced.add(node.response)
            model = found.inside("message").text("model")
            told = {"kind": "result", "provider": None, "model": model, "usage": {"cost": cost}}
            above, lane = self._given[node.uuid], self._lane_of(node)
            uuid = lines.uuid(None, line, b" cost")
            at = node.timestamp or None
            yield lines.entry("usage", line, uuid, told, parent=above, lane=lane, timestamp=at)

    def _entry(
        self, line: base.SourceLine, node: ThreadNode, lines: base.LineMaker
    ) -> base.EntryDraft:
        is_queued = node.type == QUEUE_OPERATION
        uuid = self._given[node.uuid] = lines.uuid(None if is_queued else node.uuid, line)
        parent = self._parent_of(node, lines)
        if node.uuid in self._cycles:
            cause = f"entry {node.uuid} is an ancestor of its own parent {node.parent}"
            lines.report("cycle", line.place, cause)
        if self._compacted.get(node.uuid) not in (None, node.logical_parent):
            cause = f"the last entry before the compaction, {node.logical_parent}, is not in "
            cause += f"{self.name}; the message before the compaction is taken for it"
            lines.report("reference", line.place, cause)
        if node.type not in CHAIN and not is_queued:
            lines.note_unknown(node.type, line.place)
        found = line.values or base.Values({})
        lane = self._lane_of(node)
        if self._lane is not None:
            self._lane_leaf = uuid
        more = {"parent": parent, "lane": lane, "timestamp": node.timestamp or None}
        more["missing"] = self._missing.get(node.uuid)
        if is_queued:
            named = {"customType": f"{lines.agent}:{QUEUE_OPERATION}"}
            held = {**named, "data": found.as_fragment(), "metadata": {TYPED: True}}
            more["timestamp"] = found.text("timestamp")
            return lines.entry("custom", line, uuid, held, **more)
        if not self._is_in_conversation(node, lane):
            return lines.custom(node.type or "line", line, uuid, found.as_fragment(), **more)
        if node.summary and (mark := self._mark_of(node)) is not None:
            summary = text_of({"content": found.inside("message").value("content")})
            if summary:
                first = self._given.get(self._first_kept.get(mark, ""))
                last = self._compacted.get(mark)
                if first is None or not self._is_above(self._first_kept[mark], last):
                    first = uuid
                kept: dict[str, Any] = {"summary": summary, "firstKeptEntryUuid": first}
                if mark in self._tokens:
                    kept["tokensBefore"] = self._tokens[mark]
                return lines.entry("compaction", line, uuid, kept, **more)
        fields: dict[str, Any] = {"message": message_of(node, found)}
        if metadata := metadata_of(node, found):
            fields["metadata"] = metadata
        if node.has_result and (files := self._result_files(found.raw("message"))):
            fields["metadata"] = {"toolResults": files}
        return lines.entry("message", line, uuid, fields, **more)

    def _parent_of(self, node: ThreadNode, lines: base.LineMaker) -> str:
        parent = self._parents.get(node.uuid, node.parent)
        if parent is not None:
            return self._given.get(parent, parent)
        if node.boundary and node.logical_parent is not None and node.uuid in self._summarized:
            last = self._compacted.get(node.uuid, "")
            return self._given.get(last, lines.root)
        return self._top or lines.root

    def _lane_of(self, node: ThreadNode) -> str | None:
        if self._lane is not None or not node.sidechain:
            return self._lane
        if self._is_subagents or node.uuid in self._on_path:
            return None
        if node.agent:
            return lane_of_subagent(node.agent)
        above = self._lanes.get(node.parent or "")
        lane = above or f"sidechain-{len(self._sidechains) + 1}"
        if (before := self._lanes.get(node.uuid)) is not None:
            self._sidechains[before].discard(node.uuid)
            if not self._sidechains[before]:
                del self._sidechains[before]
        self._lanes[node.uuid] = lane
        self._sidechains.setdefault(lane, set()).add(node.uuid)
        return lane

    def _is_in_conversation(self, node: ThreadNode, lane: str | None) -> bool:
        if not node.is_message:
            return False
        if self._is_subagents or lane is not None or self._is_teams:
            return True
        return not (node.sidechain or node.team)

    def _mark_of(self, summary: ThreadNode) -> str | None:
        """The uuid of a summary's compaction mark, or its own uuid if nothing is above it.

        None if a message is above it: then it is an ordinary message.
        """
        current = summary
        visited = {summary.uuid}
        while current.parent is not None:
            above = self._by_uuid.get(current.parent)
            if above is None or above.uuid in visited or above.is_message:
                return None
            visited.add(above.uuid)
            current = above
        return current.uuid if current.boundary or current is summary else None

    def _result_files(self, message: bytes) -> list[str]:
        names = dict.fromkeys(name.decode() for name in _RESULT_FILE.findall(message))
        return [f"{self.folder}/tool-results/{name}" for name in names]


def _link_of(node: ThreadNode) -> base.Link:
    """The place of a line; that of a subagent may be below a line of its main transcript."""
    lane = node.sidechain, node.agent, node.team
    return base.Link(node.uuid, node.parent, lane, node.sidechain)


def _text_said(node: ThreadNode, line: base.SourceLine) -> str:
    """The text of a message of the user; empty for another line."""
    if node.type == "assistant" or not node.is_message:
        return ""
    found = line.values or base.Values({})
    if node.type == "system":
        return text_of({"content": found.value("content")})
    if node.type == "attachment":
        return text_of({"content": found.inside("attachment").value("prompt")})
    return text_of({"content": found.inside("message").value("content")})


_NOTED: Final = frozenset(
    {
        *("sessionId", "cwd", "timestamp", "version", "gitBranch", "message", *TITLES),
        *("continuedInSessionId", "sessions"),
    }
)
"""The keys that say something about the session; a line of other keys has nothing to note."""


class _CollectedFacts:
    def __init__(self) -> None:
        self._id: str | None = None
        self._cwd: str | None = None
        self._created: str | None = None
        self._first = FirstPrompt()
        self._task: str | None = None  # the first prompt of a subagent
        self._has_main = False  # whether a message is not of a subagent
        self._titles: dict[str, str] = {}
        self.relations: dict[str, Any] = {}
        self.version: str | None = None
        self.branch: str | None = None

    @property
    def has_title(self) -> bool:
        """Whether a prompt is known that no later one replaces as the title."""
        return self._first.is_found

    @property
    def is_complete(self) -> bool:
        """Whether no further line changes anything but the titles."""
        return None not in (self._id, self._cwd, self._created) and self._first.is_found

    def note(self, line: base.Values) -> None:
        if not line.has_any(_NOTED):
            return
        self._id = self._id or line.text("sessionId")
        self._cwd = self._cwd or line.text("cwd")
        self._created = self._created or line.text("timestamp")
        self.version = self.version or line.text("version")
        self.branch = self.branch or line.text("gitBranch")
        self.note_title(line)
        self._note_relation(line)
        if not self._first.is_found and (kind := line.text("type")) in ("user", "assistant"):
            self._has_main = self._has_main or not line.value("isSidechain")
            if kind == "user":
                self._note_prompt(line)

    def _note_relation(self, line: base.Values) -> None:
        """Note the session that goes on with this one, or the sessions that it comes from."""
        kind = line.text("type")
        if kind == "continued-in" and (id := line.text("continuedInSessionId")):
            self.relations["continuedIn"] = id
        elif kind == "derived-from" and isinstance(ids := line.value("sessions"), list):
            self.relations["derivedFrom"] = ids

    def note_title(self, line: base.Values) -> None:
        for key in TITLES:
            title = line.text(key)
            if title:
                self._titles[key] = title

    def _note_prompt(self, line: base.Values) -> None:
        message = line.value("message")
        hidden = {key for key in HIDDEN if line.value(key)}
        if hidden - {"isSidechain"} or not isinstance(message, dict):
            return
        text = base.prompt_text(message)
        if text is None:
            return
        if hidden:
            self._task = self._task or text
            return
        if is_typed_command(message) or not GENERATED.match(text):
            self._first.take(text)

    def facts(self) -> base.AgentFacts:
        name = next((self._titles[key] for key in TITLES if key in self._titles), None)
        prompt = self._first.text or (None if self._has_main else self._task)
        return base.AgentFacts(self._id, self._cwd, name, prompt, self._created)
