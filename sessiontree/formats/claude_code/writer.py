"""A session as a transcript of Claude Code: the conversations of its branches, and subagents.

Claude Code's readers go up from the last message of the file by `parentUuid`, and what
they meet is the conversation. So each branch is written as its context says it, messages
that branches begin with once, and the one that the session stands at last. A compaction
is Claude Code's own: a mark that starts anew, the summary, and then what was kept, said
again. A lane is a subagent, in a file of its own beside the transcript.

An answer's `message.id` is left out where other branches go on from within it: readers
gather all entries of an answer by it, also those of other branches.

Of what is said nothing is kept but where it stands: it is translated once to see what
becomes of it, and again when it is written.

Conversations laid over each other: what they begin with in common is kept once.

A node is one message of a conversation, below the one said before it. Conversations
share a node where the same entry says the same after the same; where an edit, a
compaction or a merge makes one say otherwise, it goes on in nodes of its own.

A node whose message is its entry's own keeps neither: they are read again when they are
asked for, so that conversations take the memory of their nodes, and not of what is said.

Ids of answers that other branches share: of which they have some entries, or results.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sessiontree.context.settings import model_of
from sessiontree.core.display import one_line
from sessiontree.core.entry import Entry
from sessiontree.core.message import Message, calls_of, result_ids, text_of
from sessiontree.core.origin import origin_at
from sessiontree.errors import NothingToDoError, SessionTreeError
from sessiontree.formats.claude_code.messages import AnthropicMessages
from sessiontree.formats.writing import Losses, json_of
from sessiontree.operations.convert import LONG_AGO, SCRATCH, Beside, Source


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


_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UNFIT: Final = re.compile(r"[^\w.\-]+")
_SUBAGENT: Final = "claude-code:subagent"
_NOT_SAID: Final = {
    "label": "a label",
    "custom": "a custom entry",
    "usage": "usage that is no message's",
    "stack_push": "a stack_push",
    "thinking_level_change": "a thinking level",
}
_TOLD_KEYS: Final = {
    "compaction": ("summary", "firstKeptEntryUuid", "tokensBefore", "state"),
    "branch": (),
    "block": ("messageUuid", "index", "block"),
}
"""Keys that are told, of the types of which most are."""

_OTHERWISE: Final = {
    "merge": "a merge: what it takes in is said again in its place",
    "context_edit": "an edit: the conversation is as edited, and what was there before is not told",
    "stack_summary": "a stack_summary is said by the user",
    "branch_summary": "a branch_summary is said by the user",
    "custom_message": "a custom_message is said by the user",
    "handle": "a handle is what it resolves to now",
}


class ClaudeCodeFiles:
    """Makes the transcript of one session, and those of its lanes.

    Attributes:
        source: the session.
        session_id: its id, or a UUID made of it.
        taken: the uuids given to lines so far, of all the files.
        model: the id of the model in force where the session stands, or None.
    """

    def __init__(self, source: Source) -> None:
        self.source = self._source = source
        self._losses = source.losses
        session = source.session
        self.session_id = session.id if _UUID.fullmatch(session.id) else ""
        if not self.session_id:
            self.session_id = source.derived_uuid(session.id, 0)
        self.taken: set[str] = set()
        model = session.context().model
        self.model = model["modelId"] if model else None
        self._note_what_is_not_said()
        tips = [row for row in source.tips() if source.tree.lane_of(row) == session._lane]
        self._main = _Transcript(self, [*tips, source.leaf], None)
        if not self._main.has_messages:
            raise NothingToDoError(
                f"{session.file or 'the session'} says nothing where it stands; "
                "a transcript needs a message: switch to a branch that has one"
            )
        self._lanes = self._subagents()

    @property
    def default_name(self) -> str:
        """As Claude Code names it: after its id."""
        return f"{self.session_id}.jsonl"

    def beside(self, stem: str) -> list[Beside]:
        """A transcript for each lane."""
        folder = os.path.join(stem, "subagents")
        made: list[Beside] = []
        for agent, (lines, known) in self._lanes.items():
            name = os.path.join(folder, f"agent-{agent}")
            made.append((name + ".jsonl", lines.lines))
            if known:
                made.append((name + ".meta.json", _once(json_of(known))))
        return made

    def blocks(self) -> Iterator[bytes]:
        """The lines of the transcript, each with its LF."""
        yield from self._main.lines()
        name = self._source.session.name
        if name is not None:
            title = {"type": "custom-title", "customTitle": name, "sessionId": self.session_id}
            known = origin_at(self._source.session.header.uuid, title)
            yield json_of({**title, **known}) + b"\n"

    def envelope(self, entry: Entry) -> dict[str, Any]:
        """What stands on every line beside its place and its message."""
        header = self._source.session.header
        metadata = header.get("metadata")
        facts = metadata if isinstance(metadata, dict) else {}
        cwd = header.get("cwd")
        is_own = facts.get("agent") == "claude-code"
        version = facts.get("agentVersion") if is_own else None
        return {
            "userType": "external",
            "cwd": cwd if isinstance(cwd, str) else "",
            "sessionId": self.session_id,
            **({"version": version} if isinstance(version, str) else {}),
            "gitBranch": facts["gitBranch"] if isinstance(facts.get("gitBranch"), str) else "",
            "timestamp": entry.timestamp or header.timestamp or LONG_AGO,
        }

    def _note_what_is_not_said(self) -> None:
        source, tree = self._source, self._source.tree
        for row in range(1, len(tree)):
            kind = tree.type_of(row)
            self._losses.uuid = tree.uuids[row]
            told = _OTHERWISE.get(kind) or (kind in _NOT_SAID and f"{_NOT_SAID[kind]} is not told")
            if told:
                self._losses.add(told)
            elif kind == "message":
                self._note_message(source.session._entry_at(row))
            elif kind == "session_info" and "metadata" in source.session._entry_at(row):
                self._losses.add("metadata of the session is not told")
            elif kind in _TOLD_KEYS:
                self._losses.keys(source.session._entry_at(row), _TOLD_KEYS[kind])
            elif kind not in _SAID:
                self._losses.add(f"a {one_line(kind, 40)} is not told")

    def _note_message(self, entry: Entry) -> None:
        message = entry.message_as_stored
        if isinstance(message, dict) and message.get("role") == "system":
            self._losses.add("a system message is not told: Claude Code makes its own")
        self._losses.keys(entry, ("message", "toolResults"))
        metadata = entry.get("metadata")
        if "toolResults" in entry or (isinstance(metadata, dict) and "toolResults" in metadata):
            self._losses.add(
                "a result that Claude Code took out to tool-results/ is told by its preview"
            )

    def _subagents(self) -> dict[str, tuple[_Transcript, dict[str, Any]]]:
        source = self._source
        known = {
            entry.lane: entry.get("data")
            for row in source.tree.rows_of_type("custom")
            if (entry := source.session._entry_at(row)).get("customType") == _SUBAGENT
        }
        found: dict[str, tuple[_Transcript, dict[str, Any]]] = {}
        for lane, tips in source.lanes().items():
            uuid = source.tree.uuids[tips[-1]]
            if lane.startswith(SCRATCH):
                self._losses.at(uuid, f"the scratch lane {lane!r} is left out")
                continue
            transcript = _Transcript(self, tips, lane)
            if not transcript.has_messages:
                continue
            self._losses.at(uuid, f"the lane {lane!r} is a subagent")
            told = known.get(lane)
            facts = told if isinstance(told, dict) else {}
            kept = {k: v for k, v in facts.items() if k not in ("agentId", "calledBy")}
            found[transcript.agent_in(found)] = transcript, kept
        return found


_SAID: Final = frozenset(
    {"compaction", "session_info", "model_change", "branch", "block", "message_end"}
)


class _Transcript:
    """The conversations of one lane.

    Args:
        files: the session's.
        tips: the rows at which conversations end, the one to stand at last.
        lane: the lane; None for the transcript itself.
    """

    def __init__(self, files: ClaudeCodeFiles, tips: list[int], lane: str | None) -> None:
        self._files = files
        self._source = files.source
        self._lane = lane
        self._chains = Chains(self._is_same)
        self._replaced: dict[str, Node | None] = {}
        self._last: Node | None = None
        for row in tips:
            self._last = self._conversation(self._source.session._entry_at(row))
        above = [] if self._last is None else list(self._last.up())
        self._shared = self._translate(above)
        self._last = next((node for node in above if node.uuids), None)
        if self._last is not None:  # whoever goes on from there does so where the lane stands
            self._last.place = tips[-1]
        self._nodes = self._chains.in_order(self._last)

    @property
    def has_messages(self) -> bool:
        """Whether anything is said where it stands."""
        return self._last is not None

    def agent_in(self, taken: Iterable[str]) -> str:
        """The id of the subagent that the lane is, another than those."""
        lane = self._lane or ""
        wanted = _UNFIT.sub("-", lane.removeprefix("agent-")).strip("-") or "unnamed"
        id, number = wanted, 1
        while id in taken:
            number += 1
            id = f"{wanted}-{number}"
        self._agent = id
        return id

    def _conversation(self, leaf: Entry) -> Node | None:
        """Take in what the path to an entry says, and all that compactions on it replaced."""
        waiting = [self._said(leaf)]
        while (summary := _summary_in(waiting[-1])) and summary.uuid not in self._replaced:
            self._replaced[summary.uuid] = None
            waiting.append(self._said(self._source.session._parent(summary)))
        last: Node | None = None
        for said in reversed(waiting):
            above, last = last, self._chains.add(said)
            if (summary := _summary_in(said)) and last is not None:
                if above is not None:
                    self._replaced[summary.uuid] = above
                *_, top = last.up()
                top.replaces = self._replaced[summary.uuid]
        return last

    def _said(self, leaf: Entry) -> list[Node]:
        """What the path to an entry says, not hung up yet."""
        context = self._source.context(leaf)
        places = self._source.places(leaf, context.entries)
        row_of = self._source.session._row
        return [
            Node(row_of(entry), place, None if _is_own(message, entry) else (message, entry))
            for message, entry, place in zip(context.messages, context.entries, places, strict=True)
            if message.get("role") != "system"
        ]

    def _read(self, node: Node) -> tuple[Message, Entry]:
        """The message of a node, and the entry that it came from."""
        if node.kept is not None:
            return node.kept
        entry = self._source.entry(node.row)
        return entry["message"], entry

    def _uuid_of(self, node: Node) -> str:
        return self._source.tree.uuids[node.row]

    def _is_same(self, one: Node, other: Node) -> bool:
        if one.row != other.row and self._uuid_of(one) != self._uuid_of(other):
            return False
        if one.row == other.row and one.kept is None and other.kept is None:
            return True
        (message, entry), (said, source) = self._read(one), self._read(other)
        return entry == source and message == said

    def _translate(self, standing: list[Node]) -> dict[str, str]:
        """See what becomes of each node: what is lost, and its lines' uuids.

        Returns:
            What `SharedIds` finds for the conversation that ends with the last.
        """
        losses = self._source.losses
        messages = AnthropicMessages(losses)
        nodes = self._chains.in_order(None)
        shared = SharedIds(standing) if len(nodes) > len(standing) else None
        for node in nodes:
            said, entry = self._read(node)
            found = model_of(said)
            above = self._files.model if node.parent is None else node.parent.model
            node.model = found["modelId"] if found else above
            losses.uuid = entry.uuid
            told = _translated(node, said, messages)
            node.uuids = self._given_uuids(entry.uuid, len(told))
            if shared is not None:
                shared.note(node, told, entry.uuid)
        return {} if shared is None else shared.found()

    def lines(self) -> Iterator[bytes]:
        """The lines, each with its LF."""
        for _, uuid in sorted(self._shared.items()):
            self._source.losses.at(uuid, "the id of an answer that other branches go on from")
        messages = AnthropicMessages(Losses())  # what is lost was noted before
        for node in self._nodes:
            yield from self._lines_of(node, messages)
        if self._last is not None and self._last.children:
            yield self._end(self._last)

    def _end(self, last: Node) -> bytes:
        """A line that says nothing, so that the last message is above a line of no branch."""
        _, entry = self._read(last)
        uuid = self._source.derived_uuid(entry.uuid, -1)
        fields = {"uuid": uuid, "subtype": "informational", "content": "", "isMeta": True}
        return self._line(last, entry, "system", _end_of(last), fields)

    def _lines_of(self, node: Node, messages: AnthropicMessages) -> Iterator[bytes]:
        if not node.uuids:
            return
        parent = None if node.parent is None else _end_of(node.parent)
        said, entry = self._read(node)
        is_summary = _is_summary(node, said)
        if is_summary:
            mark = self._source.derived_uuid(node.uuids[0], -2)
            yield self._line(node, entry, "system", parent, _mark(node, entry, mark))
            parent = mark
        told = _translated(node, said, messages)
        for uuid, message in zip(node.uuids, told, strict=True):
            if message.get("id") in self._shared:
                message = {key: value for key, value in message.items() if key != "id"}
            fields: dict[str, Any] = {"message": message, "uuid": uuid}
            if is_summary:
                fields["isCompactSummary"] = True
                fields["isVisibleInTranscriptOnly"] = True
            yield self._line(node, entry, message["role"], parent, fields)
            parent = uuid

    def _line(
        self, node: Node, entry: Entry, kind: str, parent: str | None, fields: dict[str, Any]
    ) -> bytes:
        is_sidechain = self._lane is not None
        place = {"parentUuid": parent, "isSidechain": is_sidechain}
        if is_sidechain:
            place["agentId"] = self._agent
        known = origin_at(self._source.tree.uuids[node.place], {"type": kind, **fields})
        envelope = self._files.envelope(entry)
        return json_of({**place, **known, "type": kind, **fields, **envelope}) + b"\n"

    def _given_uuids(self, wanted: str, count: int) -> tuple[str, ...]:
        """The uuids of a node's lines: the first has the entry's own where that is free."""
        taken = self._files.taken
        made: list[str] = []
        for _ in range(count):
            uuid, number = wanted, 0
            while uuid in taken or not _UUID.fullmatch(uuid):
                number += 1
                uuid = self._source.derived_uuid(wanted, number)
            taken.add(uuid)
            made.append(uuid)
        return tuple(made)


def _translated(node: Node, message: Message, messages: AnthropicMessages) -> list[dict[str, Any]]:
    if _is_summary(node, message):
        return [{"role": "user", "content": text_of(message)}]
    return messages.of(message, node.model)


def _end_of(node: Node) -> str | None:
    """The uuid of the last line of a node, or of the nearest above it that has one."""
    return next((above.uuids[-1] for above in node.up() if above.uuids), None)


def _mark(node: Node, entry: Entry, uuid: str) -> dict[str, Any]:
    """The mark of a compaction, which starts the conversation anew."""
    tokens = entry.get("tokensBefore")
    before = None if node.replaces is None else _end_of(node.replaces)
    return {
        "uuid": uuid,
        "logicalParentUuid": before,
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "level": "info",
        "isMeta": False,
        "compactMetadata": {
            "trigger": "manual",
            "preTokens": tokens if isinstance(tokens, int) else 0,
        },
    }


def _is_own(message: Message, entry: Entry) -> bool:
    """Whether a message is its entry's, as it can be read again."""
    try:
        return entry.type == "message" and bool(entry.get("message") == message)
    except SessionTreeError:
        return False


def _summary_in(said: list[Node]) -> Entry | None:
    """The compaction whose summary a conversation starts with, or None."""
    if not said or said[0].kept is None:
        return None
    entry = said[0].kept[1]
    return entry if entry.type == "compaction" else None


def _is_summary(node: Node, message: Message) -> bool:
    is_first = node.parent is None and message.get("role") == "compactionSummary"
    return is_first and bool(text_of(message))


def _once(block: bytes) -> Callable[[], Iterator[bytes]]:
    return lambda: iter([block])
