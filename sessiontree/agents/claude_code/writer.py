"""A session as transcripts of Claude Code: its branches, and its lanes as subagents.

Claude Code's readers find the conversation upwards from the last message by `parentUuid`. So each
branch is written as the messages of its context, shared beginnings once, and the conversation of
the current leaf last. A compaction is a mark that starts a new chain, the summary, and then the
kept messages again. A lane is a subagent, with a file of its own beside the transcript, which
repeats what is above the lane: readers follow `parentUuid` inside one file.

The messages of all conversations are a tree that the transcripts share. A node is a message after
those above it: branches and lanes share a node where the same entry gives the same message after
the same messages. A node holds no message that its entry can give again, so the memory is that of
the nodes, and a message is translated again when it is written. An entry that only adds to the
context of its parent adds one node, so a tree costs its entries, however many branches and lanes it
has. A compaction, an edit, a merge and a message in scattered pieces need the whole context of
their path.

Each transcript has uuids of its own for the nodes. The lines of a node differ in these alone, so
the bytes between them are made once, and a lane costs little more than its bytes. A lane's lines
are made when its file is written, and not kept.

Messages of any shape become Anthropic's, with results as the user's. A summary becomes a user
message that says what it is. Thinking without a signature of Anthropic is left out, because
Anthropic's API would refuse the whole conversation. A response's `message.id` is left out where
another branch goes on from inside the response: readers gather all entries with one id, those of
other branches included.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, takewhile
from typing import Any, Final

from sessiontree.agents import writing
from sessiontree.agents.agent import is_uuid
from sessiontree.agents.claude_code.lines import as_line, is_carried
from sessiontree.context.providers import reading
from sessiontree.context.providers.anthropic import source_of
from sessiontree.context.providers.reading import MessageReader
from sessiontree.context.providers.values import clean_value_noted
from sessiontree.context.settings import may_make_system, model_of
from sessiontree.core import limits
from sessiontree.core.blocks import message_uuid
from sessiontree.core.display import one_line
from sessiontree.core.entry import Entry
from sessiontree.core.header import id_in_name
from sessiontree.core.index import NO_ROW
from sessiontree.core.limits import Budget
from sessiontree.core.message import Message, calls_of, kind_of, result_ids, text_of
from sessiontree.core.usage import usage_of
from sessiontree.errors import SessionTreeError

_PI_KEYS: Final = frozenset(
    {"timestamp", "api", "provider", "stopReason", "errorMessage", "responseId", "responseModel"}
)
"""The keys that pi adds to messages, also to those in Anthropic's shape."""

_FOREIGN_KEYS: Final = (
    *("tool_calls", "function_call", "refusal"),
    *("api", "stopReason", "provider"),
)
_STOP_REASONS: Final = frozenset(
    {
        *("end_turn", "stop_sequence", "pause_turn", "max_tokens", "tool_use", "tool_calls"),
        "refusal",
    }
)
_STOP_REASON_OF: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "toolUse": "tool_use",
    "error": "end_turn",
    "aborted": "end_turn",
    "deferred": "pause_turn",
}

_UNSIGNED: Final = "thinking without a signature of Anthropic is left out"


class AnthropicMessages:
    def __init__(self, losses: writing.Losses) -> None:
        self._losses = losses
        self._reading = MessageReader(losses, None)

    def clean(self, made: dict[str, Any]) -> dict[str, Any]:
        """A message that an API takes, as Claude Code sends it as it is."""
        return clean_value_noted(made, self._losses)

    def of(self, message: Message, model: str | None) -> list[dict[str, Any]]:
        """The messages made from one; none if it has no content."""
        if _is_anthropic(message):
            own = {key: value for key, value in message.items() if key not in _PI_KEYS}
            return [self._completed(own, message, model)]
        made: list[tuple[reading.Side, list[reading.Part]]] = []
        for side, part in self._reading.parts_of(message):
            if isinstance(part, reading.Thinking) and part.maker != "anthropic":
                self._losses.add(_UNSIGNED)
                continue
            if isinstance(part, reading.ProviderBlock) and part.maker != "anthropic":
                self._losses.add(f"a block of the kind {kind_of(part.block)!r} is left out")
                continue
            if not made or made[-1][0] != side:
                made.append((side, []))
            made[-1][1].append(part)
        found: list[dict[str, Any]] = []
        for side, pieces in made:
            is_user = side == "user"
            content = self._content(pieces) if is_user else [self._block(p, side) for p in pieces]
            found.append(self._completed({"role": side, "content": content}, message, model))
        return found

    def _completed(
        self, made: dict[str, Any], message: Message, model: str | None
    ) -> dict[str, Any]:
        """An assistant message with every key that readers of Claude Code expect."""
        if made["role"] != "assistant":
            return made
        if isinstance(made["content"], str):
            made["content"] = writing.block_list(made["content"])
        if made.pop("partial", None):
            self._losses.add("a partial message is not marked as partial")
        calls = any(kind_of(block) == "tool_use" for block in made["content"])
        made.setdefault("model", writing.text_in(message.get("model")) or model or writing.UNKNOWN)
        if id := writing.text_in(message.get("id")):
            made.setdefault("id", id)
        made.setdefault("type", "message")
        made.setdefault("stop_reason", _stop_reason(message, calls=calls))
        made.setdefault("stop_sequence", None)
        made["usage"] = _usage(message.get("usage"))
        return made

    def _block(self, part: reading.Part, side: reading.Side) -> dict[str, Any]:
        if isinstance(part, reading.TextPart):
            return {"type": "text", "text": part.text}
        if isinstance(part, reading.Media):
            return self._media(part, side)
        if isinstance(part, reading.Thinking):
            if part.redacted:
                return {"type": "redacted_thinking", "data": part.seal}
            return {"type": "thinking", "thinking": part.text, "signature": part.seal}
        if isinstance(part, reading.SentCall):
            called = {"id": part.id, "name": part.name}
            return {"type": "tool_use", **called, "input": writing.arguments_of(part)}
        if isinstance(part, reading.ProviderBlock):
            return dict(part.block)
        return self._result(part)

    def _result(self, result: reading.Result) -> dict[str, Any]:
        block = {"type": "tool_result", "tool_use_id": result.id}
        failed = {"is_error": True} if result.failed else {}
        return {**block, "content": self._content(result.parts), **failed}

    def _content(self, pieces: Sequence[reading.Part]) -> Any:
        """The content of a user message or a result: the text, if that is all of it."""
        if len(pieces) == 1 and isinstance(text := pieces[0], reading.TextPart):
            return text.text
        return [self._block(part, "user") for part in pieces]

    def _media(self, media: reading.Media, side: reading.Side) -> dict[str, Any]:
        source = source_of(media)
        if source is None or side == "assistant":
            return {"type": "text", "text": self._losses.replaced(media)}
        return {"type": media.kind, "source": source}


def _stop_reason(message: Message, *, calls: bool) -> str:
    given = message.get("stop_reason", message.get("stopReason"))
    if isinstance(given, str) and given in _STOP_REASONS:
        return given
    return _STOP_REASON_OF.get(str(given), "tool_use" if calls else "end_turn")


def _usage(reported: Any) -> dict[str, Any]:
    if isinstance(reported, Mapping) and "input_tokens" in reported:
        return dict(reported)
    used = usage_of(reported)
    return {
        "input_tokens": used.input,
        "cache_creation_input_tokens": used.cache_write,
        "cache_read_input_tokens": used.cache_read,
        "output_tokens": used.output,
    }


def _is_anthropic(message: Message) -> bool:
    role = message.get("role")
    if role not in ("user", "assistant") or any(message.get(key) for key in _FOREIGN_KEYS):
        return False
    return _has_own_content(message, role)


def _is_anthropic_block(block: Any, role: str) -> bool:
    if not isinstance(block, dict):
        return False
    kind = kind_of(block)
    if kind == "text":
        return isinstance(block.get("text"), str)
    if kind in ("image", "document"):
        return role == "user" and isinstance(block.get("source"), Mapping)
    if kind == "thinking":
        return writing.are_texts(block, "thinking", "signature") and bool(block["signature"])
    if kind == "tool_use":
        return isinstance(block.get("input"), dict) and writing.are_texts(block, "id", "name")
    if kind == "tool_result":
        if role != "user" or not writing.are_texts(block, "tool_use_id"):
            return False
        return block.get("content") is None or _has_own_content(block, "user")
    return bool(kind) and kind not in writing.OPENAI_BLOCKS and kind != "toolCall"


def _has_own_content(holder: Mapping[str, Any], role: str) -> bool:
    content = holder.get("content")
    if isinstance(content, list):
        return all(_is_anthropic_block(block, role) for block in content)
    return isinstance(content, str)


_NEEDS_PATH: Final = frozenset(("compaction", "context_edit", "merge", *writing.PIECES))
"""The types of entries that may change what stands above them in a context."""


@dataclass(eq=False, slots=True)
class WrittenNode:
    """A message in a conversation."""

    row: int  # its entry's row in the index
    place: int  # the row of the entry below which the next message belongs
    kept: tuple[Message, Entry] | None  # None if the entry can give the message again
    parent: WrittenNode | None = None  # the node before it, or None
    written: WrittenNode | None = None  # the nearest node at or above it that has lines
    replaces: int = NO_ROW  # for the summary of a compaction, the row of the leaf that it replaced
    model: str | None = None  # the id of the current model there, or None
    lines: int = 0  # how many messages of Claude Code it is
    has_id: bool = False  # whether one of them has the id of a response
    losses: tuple[str, ...] = ()
    lanes: int = 0  # how many lanes have it
    rendered: tuple[tuple[bytes, bytes], ...] | None = None  # see `writer._Transcript`

    def up(self) -> Iterator[WrittenNode]:
        node: WrittenNode | None = self
        while node is not None:
            yield node
            node = node.parent


class Conversations:
    """The conversations that end at rows of a session."""

    def __init__(self, source: writing.SessionSource) -> None:
        self._source = source
        self._whole = _whole_messages(source)
        self._model = source.model_id()
        self._ends: dict[int, WrittenNode | None] = {}  # by row: the last node of its conversation
        self._after: dict[tuple[int, str, int], list[WrittenNode]] = {}  # see `_add`
        # By row, the nodes of its conversation that another gave another place.
        self._places: dict[int, list[tuple[WrittenNode, int]]] = {}
        self._losses = writing.Losses()
        self._messages = AnthropicMessages(self._losses)

    def end(self, leaf: int) -> WrittenNode | None:
        """The last node of the conversation that ends at a row; None for an empty one."""
        above, rows = self._known_above(leaf)
        if above != NO_ROW and above not in self._ends:
            self._ends[above] = self._add_path(above)
        self._go_on(above, rows)
        return self._ends[leaf]

    def places(self, leaf: int) -> dict[WrittenNode, int]:
        """The places that nodes have in the conversation at a row, where they are not `place`."""
        found: dict[WrittenNode, int] = {}
        if not self._places:
            return found
        tree = self._source.tree
        for row in tree.rows_up(leaf):
            found.update(self._places.get(row, ()))
            if tree.type_of(row) in _NEEDS_PATH and row not in self._whole:
                break
        return found

    def read(self, node: WrittenNode) -> tuple[Message, Entry]:
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
                last = self._add(last, WrittenNode(row, place, kept), message, entry, place)
            self._ends[place] = last
        self._ends.update(dict.fromkeys(ended, last))

    def _add_path(self, row: int) -> WrittenNode | None:
        """Add the whole conversation of a row; its last node, or None for an empty one."""
        leaf = self._source.stored(row)
        contributed = self._source.context(leaf)
        last: WrittenNode | None = None
        for message, entry, place in contributed:
            if message.get("role") == "system":
                continue
            kept = None if _is_own(message, entry) else (message, entry)
            node = WrittenNode(self._source.row(entry), place, kept)
            if last is None and entry.type == "compaction":
                node.replaces = self._source.row(self._source.parent(entry))
            last = self._add(last, node, message, entry, row)
        return last

    def _add(
        self, last: WrittenNode | None, node: WrittenNode, message: Message, entry: Entry, by: int
    ) -> WrittenNode:
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

    def _is_same(self, one: WrittenNode, other: WrittenNode) -> bool:
        uuids = self._source.tree.uuids
        if uuids[one.row] != uuids[other.row]:
            return False
        if one.row == other.row and one.kept is None and other.kept is None:
            return True
        (message, entry), (other_message, other_entry) = self.read(one), self.read(other)
        return bool(entry == other_entry and message == other_message)

    def _translate(self, node: WrittenNode, message: Message) -> None:
        """Note how many lines a node has, and what they lose."""
        made = translated(node, message, self._messages)
        node.lines = len(made)
        node.has_id = any(isinstance(each.get("id"), str) and each["id"] for each in made)
        lost = self._losses.found()
        if lost:
            node.losses = tuple(loss.what for loss in lost for _ in range(loss.count))
            self._losses = writing.Losses()
            self._messages = AnthropicMessages(self._losses)


def translated(
    node: WrittenNode, message: Message, messages: AnthropicMessages
) -> list[dict[str, Any]]:
    """The messages of Claude Code that a node is."""
    if is_summary(node, message):
        return [messages.clean({"role": "user", "content": text_of(message)})]
    return [messages.clean(made) for made in messages.of(message, node.model)]


def is_summary(node: WrittenNode, message: Message) -> bool:
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


_NOT_IN_ID: Final = re.compile(r"[^\w.\-]+")

_LOSS_OF_TYPE: Final = {
    **writing.LOSS_OF_TYPE,
    "usage": "usage without a message is left out",
    "thinking_level_change": "a thinking level is left out",
}
_LOSS_OF_SYSTEM: Final = writing.LOSS_OF_SYSTEM.format("Claude Code")
_WHOLLY_WRITTEN: Final = frozenset({"session_info", "model_change", "message_end"})

_MAX_KEPT: Final = 32 << 20
"""The bytes of lines that are kept for the lanes that repeat them."""

_BLOCK: Final = 1 << 18
"""The bytes of lines that are given together."""


class ClaudeCodeWriter:
    """Writes one session as a transcript, and its lanes as subagents' transcripts."""

    def __init__(self, source: writing.SessionSource) -> None:
        self.source = source
        self._losses = source.losses
        self.session_id = writing.session_uuid(source)
        self._uuids = frozenset(source.tree.uuids)
        self._used: set[str] = set()  # those of the session that lines have, in any file
        self._numbers: dict[str, int] = {}  # by uuid: the lines with a uuid derived from it
        self._names: dict[str, int] = {}
        self._written = bytearray(len(source.tree))  # the rows with lines in any file
        self.room_to_keep = _MAX_KEPT
        self.conversations = Conversations(source)
        self._note_losses()
        tips = [row for row in source.tips() if source.tree.lane_of(row) == source.lane]
        self._main = _LaneTranscript(self, [*tips, source.leaf], None)
        if not self._main.has_messages:
            raise writing.no_message(source, "transcript")
        self._main.prepare()
        self._lanes = self._subagents()

    @property
    def default_name(self) -> str:
        return f"{self.session_id}.jsonl"

    def beside(self, name: str) -> list[writing.SideFile]:
        """A transcript for each lane, and a description for each subagent that has one."""
        made: list[writing.SideFile] = []
        for agent, (transcript, facts) in self._lanes.items():
            path = f"{name}/subagents/agent-{agent}"
            made.append(writing.SideFile(f"{path}.jsonl", transcript.lines_of_lane))
            if facts:
                made.append(writing.SideFile.of(f"{path}.meta.json", writing.json_of(facts)))
        return made

    def blocks(self) -> Iterator[bytes]:
        """The lines of the transcript, each with its LF."""
        yield from self._main.blocks()
        name = self.source.name
        if name is not None:
            title = {"type": "custom-title", "customTitle": name, "sessionId": self.session_id}
            origin = self.source.origin_at(self.source.header.uuid, title)
            yield writing.json_of({**title, **origin}) + b"\n"

    def envelope(self, entry: Entry) -> dict[str, Any]:
        """The keys of every line beside its place and its message."""
        time = entry.timestamp or self.source.header.timestamp or writing.LONG_AGO
        return {**self._facts, "timestamp": time}

    @cached_property
    def _facts(self) -> dict[str, Any]:
        """The keys that are the same in every line."""
        header = self.source.header
        metadata = header.get("metadata")
        facts = metadata if isinstance(metadata, dict) else {}
        version = facts.get("agentVersion") if facts.get("agent") == "claude-code" else None
        return {
            "userType": "external",
            "cwd": writing.text_in(header.get("cwd")),
            "sessionId": self.session_id,
            **({"version": version} if isinstance(version, str) else {}),
            "gitBranch": writing.text_in(facts.get("gitBranch")),
        }

    def _note_losses(self) -> None:
        source, tree = self.source, self.source.tree
        systems = self._rows_of_system()
        for row in range(1, len(tree)):
            kind = tree.type_of(row)
            self._losses.uuid = tree.uuids[row]
            if row in systems:
                self._losses.add(_LOSS_OF_SYSTEM)
            elif kind in _LOSS_OF_TYPE:
                self._losses.add(_LOSS_OF_TYPE[kind])
            elif kind == "message":
                self._note_losses_of(source.stored(row))
            elif kind == "session_info" and "metadata" in source.stored(row):
                self._losses.add("metadata of the session is left out")
            elif kind in writing.WRITTEN_KEYS:
                self._losses.keys(source.stored(row), writing.WRITTEN_KEYS[kind])
            elif kind not in _WHOLLY_WRITTEN:
                self._losses.add(f"a {one_line(kind, 40)} is left out")

    def _rows_of_system(self) -> set[int]:
        """The rows of `handle` and `message_end` entries of which a system message is made."""
        source, tree = self.source, self.source.tree
        rows = tree.rows_of_type("handle", "message_end")
        rows = [row for row in rows if may_make_system(source.stored(row))]
        found = {row for row in rows if tree.type_of(row) == "message_end"}
        handles = (row for row in rows if row not in found)
        for row in writing.resolved_ahead(source, handles):
            if source.resolved(source.stored(row)).get("role") == "system":
                found.add(row)
        return found

    def _note_losses_of(self, entry: Entry) -> None:
        message = entry.message_as_stored
        if isinstance(message, dict) and message.get("role") == "system":
            self._losses.add(_LOSS_OF_SYSTEM)
        metadata = entry.get("metadata")
        carried = ("metadata",) if is_carried(metadata) else ()
        self._losses.keys(entry, ("message", "toolResults", *carried))
        if "toolResults" in entry or (isinstance(metadata, dict) and "toolResults" in metadata):
            self._losses.add("a result that Claude Code stored in tool-results/ is its preview")

    def free_uuid(self, wanted: str) -> str:
        """A uuid that no line has yet: the one wanted, if it is one."""
        number = self._numbers.get(wanted)
        if number is None:
            number = self._numbers[wanted] = 0
            if wanted not in self._used and is_uuid(wanted):
                self._used.add(wanted)
                return wanted
        while True:
            number += 1
            uuid = self.source.derived_uuid(wanted, number)
            if uuid not in self._uuids:  # so no line wants it, and nothing else is derived to it
                break
            if uuid not in self._used:
                self._used.add(uuid)
                break
        self._numbers[wanted] = number
        return uuid

    def note_written(self, row: int, size: int) -> None:
        """Note the bytes of lines, and whether they repeat lines of the same row."""
        if self._written[row]:
            self.source.repeated.take(size)
        else:
            self._written[row] = 1
            self.source.repeated.widen(size)

    def free_name(self, wanted: str, used: Collection[str]) -> str:
        """A name that no subagent has yet: the one wanted, or one with a number."""
        name, number = wanted, self._names.get(wanted, 1)
        while name in used:
            number += 1
            name = f"{wanted}-{number}"
        self._names[wanted] = number
        return name

    def _subagents(self) -> dict[str, tuple[_LaneTranscript, dict[str, Any]]]:
        source = self.source
        known = writing.subagents(source)
        room = Budget(limits.LANE_FILES, title=source.title)
        found: dict[str, tuple[_LaneTranscript, dict[str, Any]]] = {}
        for lane, tips in writing.durable_lanes(source):
            room.take()
            transcript = _LaneTranscript(self, tips, lane)
            transcript.survey()
            if not transcript.has_messages:
                continue
            self._losses.at(source.tree.uuids[tips[-1]], f"the lane {lane!r} is a subagent")
            facts = known.get(lane, {})
            kept = {k: v for k, v in facts.items() if k not in ("agentId", "calledBy")}
            found[transcript.agent_id(found)] = transcript, kept
        return found


class _SharedIds:
    """Finds the response ids in the current conversation that other branches go on from."""

    def __init__(self, current: Iterable[WrittenNode]) -> None:
        self._current = set(current)
        self._here: dict[str, str] = {}
        self._elsewhere: set[str] = set()
        self._answered: set[str] = set()
        self._owners: dict[str, list[str]] = {}
        self._ids: dict[WrittenNode, list[str]] = {}

    def note(self, node: WrittenNode, messages: Sequence[Message], uuid: str) -> None:
        ids = [id for m in messages if isinstance(id := m.get("id"), str) and id]
        if ids:
            self._ids[node] = ids
        for id in ids:
            if node in self._current:
                self._here.setdefault(id, uuid)
            else:
                self._elsewhere.add(id)
            for message in messages:
                for call in calls_of(message):
                    self._owners.setdefault(call.id, []).append(id)
        if node in self._current:
            return
        answered = [each for message in messages for each in result_ids(message)]
        self._answered.update(answered)
        if answered and node.parent is not None:
            self._elsewhere.update(self._ids.get(node.parent, ()))

    def found(self) -> dict[str, str]:
        """Each such id in the current conversation, with the uuid of its first entry."""
        elsewhere = self._elsewhere.union(
            *(self._owners.get(answered, ()) for answered in self._answered)
        )
        return {id: uuid for id, uuid in self._here.items() if id in elsewhere}


class _LaneTranscript:
    """The conversations of one lane, which end at the rows `tips`, the current one last.

    `_runs` has its nodes: each run goes from a node, whose parent is in an earlier run or nowhere,
    down to the end of a conversation.
    """

    def __init__(self, writer: ClaudeCodeWriter, tips: list[int], lane: str | None) -> None:
        self._writer = writer
        self._source = writer.source
        self._conversations = writer.conversations
        self._lane = lane
        self._tips = tips
        self._agent = ""
        last = self._conversations.end(tips[-1])
        self._last = None if last is None else last.written
        self._runs: list[list[WrittenNode]] = []
        self._places: dict[WrittenNode, int] = {}
        self._uuids: dict[WrittenNode, tuple[str, ...]] = {}
        self._shared: dict[str, str] = {}

    @property
    def has_messages(self) -> bool:
        return self._last is not None

    @property
    def _is_one_branch(self) -> bool:
        """Whether all nodes with lines are above the current end."""
        return len(self._runs) == 1 and self._runs[0][-1].written is self._last

    def agent_id(self, used: Collection[str]) -> str:
        """The id of the subagent that the lane becomes; not one of those used."""
        lane = self._lane or ""
        wanted = _NOT_IN_ID.sub("-", lane.removeprefix("agent-")).strip("-") or "unnamed"
        self._agent = self._writer.free_name(id_in_name(wanted), used)
        return self._agent

    def survey(self) -> None:
        """Note what a lane repeats, and what it loses; its nodes are found again to be written."""
        self._find_runs()
        self._source.lines.take(sum(map(len, self._runs)))
        self._note_losses()
        for run in self._runs:
            for node in run:
                node.lanes += 1
        self._release()

    def prepare(self) -> None:
        """Note the losses of the main lane, and give its lines their uuids."""
        self._find_runs()
        self._note_losses()
        self._name()

    def lines_of_lane(self) -> Iterator[bytes]:
        """The lines of a lane, many at a time."""
        self._find_runs()
        self._name()
        yield from self.blocks()
        self._release()

    def blocks(self) -> Iterator[bytes]:
        """The lines, many at a time, once they have uuids."""
        for _, uuid in sorted(self._shared.items()):
            self._source.losses.at(uuid, "the id of a response that other branches go on from")
        messages = AnthropicMessages(writing.Losses())  # the losses are counted already
        head = self._head()
        uuids, places, shared = self._uuids, self._places, self._shared
        block: list[bytes] = []
        new = repeated = 0
        for node in self._order():
            if not node.lines:
                continue
            above = None if node.parent is None else node.parent.written
            rendered = node.rendered
            if rendered is None or above is None or node in places or (shared and node.has_id):
                lines = self._lines_of(node, messages)
                self._keep(node, lines)
                size = sum(map(len, lines))
                self._writer.note_written(node.row, size)
                new += size
                block += lines
            else:
                parent = uuids[above][-1].encode()
                for (middle, end), uuid in zip(rendered, uuids[node], strict=True):
                    own = uuid.encode()
                    block += (b'{"parentUuid":"', parent, head, middle, own, end)
                    repeated += len(middle) + len(end)
                    parent = own
            if new + repeated >= _BLOCK:
                self._source.repeated.take(repeated)
                yield b"".join(block)
                block, new, repeated = [], 0, 0
        self._source.repeated.take(repeated)
        if self._last is not None and self._has_more_below(self._last):
            block.append(self._end(self._last))
        yield b"".join(block)

    def _find_runs(self) -> None:
        found: set[WrittenNode] = set()
        conversations = self._conversations
        for tip in self._tips:
            leaf, waiting = tip, []
            tops: set[WrittenNode] = set()
            while (end := conversations.end(leaf)) is not None:
                run = [*takewhile(lambda node: node not in found, end.up())]
                run.reverse()
                waiting.append((leaf, run))
                top = run[0] if run else None
                if top is None or top in tops or top.replaces == NO_ROW:
                    break
                tops.add(top)
                leaf = top.replaces  # what the compaction replaced comes first
            for leaf, run in reversed(waiting):
                new = [node for node in run if node not in found]
                if not new:
                    continue
                found.update(new)
                self._runs.append(new)
                others = conversations.places(leaf)
                self._places.update((node, others[node]) for node in new if node in others)
        if self._last is not None:  # what is appended there goes on at the lane's leaf
            self._places.pop(self._last, None)
            if self._last.place != self._tips[-1]:
                self._places[self._last] = self._tips[-1]

    def _release(self) -> None:
        self._runs, self._places, self._uuids, self._shared = [], {}, {}, {}

    def _nodes(self) -> Iterator[WrittenNode]:
        """All nodes, each parent before its children."""
        if len(self._runs) == 1:
            yield from self._runs[0]
            return
        roots: list[list[WrittenNode]] = []
        beside: dict[WrittenNode, list[list[WrittenNode]]] = {}  # further runs below a node
        for run in self._runs:
            above = run[0].parent
            (roots if above is None else beside.setdefault(above, [])).append(run)
        waiting = roots[::-1]
        while waiting:
            for node in waiting.pop():
                yield node
                waiting.extend(reversed(beside.get(node, ())))

    def _order(self) -> Iterator[WrittenNode]:
        """All nodes, each parent before its children, but the current end after all others."""
        last = self._last
        if last is None or self._is_one_branch:
            yield from self._nodes()
            return
        below: set[WrittenNode] = set()
        late: list[WrittenNode] = []
        for node in self._nodes():
            if node.parent is last or node.parent in below:
                below.add(node)
                late.append(node)
            elif node is not last:
                yield node
        yield from late
        yield last

    def _note_losses(self) -> None:
        losses, uuids = self._source.losses, self._source.tree.uuids
        for node in self._nodes():
            if node.losses:
                losses.uuid = uuids[node.row]
                for what in node.losses:
                    losses.add(what)

    def _name(self) -> None:
        """Give each line its uuid; find the ids that branches share."""
        uuids, free = self._source.tree.uuids, self._writer.free_uuid
        self._uuids = {
            node: tuple([free(uuids[node.row]) for _ in range(node.lines)])
            for node in self._nodes()
            if node.lines
        }
        self._shared = self._shared_ids()

    def _has_more_below(self, last: WrittenNode) -> bool:
        return any(node.parent is last for node in self._nodes())

    def _shared_ids(self) -> dict[str, str]:
        if self._last is None or self._is_one_branch:
            return {}
        current = set(self._last.up())
        if not any(node.has_id for node in current):
            return {}
        shared = _SharedIds(current)
        messages = AnthropicMessages(writing.Losses())
        for node in self._nodes():
            message, entry = self._conversations.read(node)
            shared.note(node, translated(node, message, messages), entry.uuid)
        return shared.found()

    def _uuid_of(self, node: WrittenNode | None) -> str | None:
        """The uuid of the last line at or above a node."""
        written = None if node is None else node.written
        return None if written is None else self._uuids[written][-1]

    def _lines_of(self, node: WrittenNode, messages: AnthropicMessages) -> list[bytes]:
        parent = self._uuid_of(node.parent)
        message, entry = self._conversations.read(node)
        found: list[bytes] = []
        is_compacted = is_summary(node, message)
        uuids = self._uuids[node]
        if is_compacted:
            mark = self._source.derived_uuid(uuids[0], -2)
            found.append(self._line(node, entry, "system", parent, self._mark(node, entry, mark)))
            parent = mark
        for uuid, made in zip(uuids, translated(node, message, messages), strict=True):
            if str(made.get("id")) in self._shared:
                made = {key: value for key, value in made.items() if key != "id"}
            fields: dict[str, Any] = as_line(made, None if is_compacted else entry.get("metadata"))
            kind = fields.pop("type")
            fields["uuid"] = uuid
            if is_compacted:
                fields |= {"isCompactSummary": True, "isVisibleInTranscriptOnly": True}
            found.append(self._line(node, entry, kind, parent, fields))
            parent = uuid
        return found

    def _keep(self, node: WrittenNode, lines: list[bytes]) -> None:
        """Keep the parts of a node's lines for further lanes, where they are all that differs."""
        size = sum(map(len, lines))
        if node.lanes < 2 or node.rendered is not None or size > self._writer.room_to_keep:
            return
        uuids = self._uuids[node]
        parent = self._uuid_of(node.parent)
        if parent is None or node in self._places or self._shared or len(lines) != len(uuids):
            return
        parts: list[tuple[bytes, bytes]] = []
        for line, uuid in zip(lines, uuids, strict=True):
            start = b'{"parentUuid":"%b%b' % (parent.encode(), self._head())
            # A text inside a message has a backslash before such a quotation mark, and only texts
            # follow the key of the line.
            key = b',"uuid":"%b"' % uuid.encode()
            at = line.rfind(key)
            if not line.startswith(start) or at < 0:
                return
            parts.append((line[len(start) : at + len(b',"uuid":"')], line[at + len(key) - 1 :]))
            parent = uuid
        node.rendered = tuple(parts)
        self._writer.room_to_keep -= size

    def _end(self, last: WrittenNode) -> bytes:
        """An empty line below the last message, so that it is above a line of no branch."""
        _, entry = self._conversations.read(last)
        uuid = self._source.derived_uuid(entry.uuid, -1)
        fields = {"uuid": uuid, "subtype": "informational", "content": "", "isMeta": True}
        return self._line(last, entry, "system", self._uuid_of(last), fields)

    def _mark(self, node: WrittenNode, entry: Entry, uuid: str) -> dict[str, Any]:
        tokens = entry.get("tokensBefore")
        before = tokens if isinstance(tokens, int) else 0
        replaced = node.replaces
        end = None if replaced == NO_ROW else self._conversations.end(replaced)
        return {
            "uuid": uuid,
            "logicalParentUuid": self._uuid_of(end),
            "subtype": "compact_boundary",
            "content": "Conversation compacted",
            "level": "info",
            "isMeta": False,
            "compactMetadata": {"trigger": "manual", "preTokens": before},
        }

    def _head(self) -> bytes:
        """What follows the parent's uuid in each line."""
        return writing.json_of({"parentUuid": "", **self._place()})[len(b'{"parentUuid":"') : -1]

    def _place(self) -> dict[str, Any]:
        place: dict[str, Any] = {"isSidechain": self._lane is not None}
        if self._lane is not None:
            place["agentId"] = self._agent
        return place

    def _line(
        self, node: WrittenNode, entry: Entry, kind: str, parent: str | None, fields: dict[str, Any]
    ) -> bytes:
        place = self._places.get(node, node.place)
        origin = self._source.origin_at(self._source.tree.uuids[place], {"type": kind, **fields})
        envelope = self._writer.envelope(entry)
        line = {"parentUuid": parent, **self._place(), **origin, "type": kind, **fields}
        return writing.json_of({**line, **envelope}) + b"\n"
