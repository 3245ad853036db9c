"""The conversation in a transcript of Claude Code: which entries belong to it, in what order.

An entry's parent is the entry written before, not always the message before. So the conversation
is found from its end, as Claude Code's own readers find it:

- It ends at the last `user` or `assistant` entry of the main agent that has no children, or only
  hooks and progress below it.
- It goes up by `parentUuid`, and stops where a parent is missing, absent or visited before.
- A response is one entry for each content block, all with the same `message.id`, and a tool's
  result is below its call. With parallel calls the path up misses some of them. They follow the
  last entry of the response that is on the path: first the response's own, then the results, each
  by time.
  The same is true on other branches, and in the files of subagents.
- It stops above at the mark of a compaction. The compacted part is a conversation of its own,
  found in the same way from the entry that the mark names.

The messages of a conversation are those that Claude Code sends to its model: `user` and `assistant`
entries, also those that it wrote itself (`isMeta`: the text of a skill or of a slash command); the
output of a local command (`system`, `local_command`); a prompt that was typed during a turn
(`attachment`, `queued_command`). It sends no entry marked as for display alone, no virtual message,
and no message that stands for an error of the API.

A line is a node if it has a `uuid` and either a type with a place in the tree or a parent. Only the
keys that determine its place are decoded; a value of a wrong type counts as absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from sessiontree.core.entry import decode_leniently

CHAIN: Final = frozenset({"user", "assistant", "progress", "system", "attachment"})
"""The types of lines with a place in the tree."""


class ThreadNode(msgspec.Struct, gc=False):
    """The place of a line in the conversation; a value of a wrong type counts as absent."""

    place: int  # the index of its line in the file, from 0
    type: str  # `user`, `assistant`, `progress`, `system`, `attachment` or another
    uuid: str
    parent: str | None
    logical_parent: str | None
    sidechain: bool  # whether a subagent wrote it
    meta: bool  # whether the program wrote it for the model, hidden from the user
    team: bool  # whether it belongs to a team of agents
    summary: bool  # whether it is the summary of a compaction
    boundary: bool  # whether it is the mark of a compaction
    agent: str | None  # the subagent's id
    timestamp: str  # as stored, or empty
    response: str | None  # the `message.id` of an assistant's entry, or None
    calls: tuple[str, ...]  # the ids of its tool calls
    results: tuple[str, ...]  # the ids of the calls whose results it holds
    has_result: bool  # whether it holds a result, even one that names no call
    source: str | None  # the uuid of the assistant's entry that it answers
    says: str | None  # the key that holds what is sent to the model, or None

    @property
    def is_message(self) -> bool:
        return self.says is not None

    @property
    def is_main(self) -> bool:
        """Whether it belongs to the conversation of the main agent and the user."""
        return not (self.sidechain or self.meta or self.team)


class _Block(msgspec.Struct, gc=False):
    type: str | None = None
    id: str | None = None
    tool_use_id: str | None = None


class _Message(msgspec.Struct, gc=False):
    id: str | None = None
    model: str | None = None
    content: list[_Block] | str | None = None


class _Origin(msgspec.Struct, gc=False):
    kind: str | None = None


class _Attachment(msgspec.Struct, rename="camel", gc=False):
    type: str | None = None
    command_mode: str | None = None
    is_meta: bool | None = None
    origin: _Origin | None = None


class _ThreadLine(msgspec.Struct, rename="camel", gc=False):
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
    is_display_only: bool | None = None
    is_virtual: bool | None = None
    is_api_error_message: bool | None = None
    retired_by_no_persons_input: bool | None = None
    attachment: _Attachment | None = None
    timestamp: str | None = None
    source_tool_assistant_uuid: str | None = msgspec.field(
        default=None, name="sourceToolAssistantUUID"
    )
    message: _Message | None = None


SYNTHETIC: Final = "<synthetic>"
"""The model of messages that Claude Code wrote in the name of the assistant."""

_decode_line: Final = msgspec.json.Decoder(_ThreadLine).decode


def node_of(line: bytes, place: int) -> ThreadNode | None:
    """The node of a line; None for a side line, and for a line that cannot be read."""
    try:
        found = _decode_line(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        if (lenient := _decode_leniently(line)) is None:
            return None
        found = lenient
    uuid, kind = found.uuid, found.type
    if not uuid or kind is None or (kind not in CHAIN and found.parent_uuid is None):
        return None
    message = found.message or _Message()
    blocks = message.content if isinstance(message.content, list) else []
    return ThreadNode(
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
        says=_said_by(found, message),
    )


def _said_by(line: _ThreadLine, message: _Message) -> str | None:
    """The value of `ThreadNode.says`."""
    if line.type == "system":
        is_output = line.subtype == "local_command" and not line.is_display_only
        return "content" if is_output else None
    if line.type == "attachment":
        return "attachment" if _is_typed(line.attachment) else None
    if line.type not in ("user", "assistant") or line.is_virtual:
        return None
    is_error = line.is_api_error_message and message.model == SYNTHETIC
    return None if is_error or line.retired_by_no_persons_input else "message"


def _is_typed(queued: _Attachment | None) -> bool:
    """Whether an attachment is a prompt that the user typed during a turn."""
    if queued is None or queued.type != "queued_command" or queued.command_mode != "prompt":
        return False
    return not queued.is_meta and (queued.origin is None or queued.origin.kind == "human")


_FLAGS: Final = {
    found.encode_name: found.name
    for found in msgspec.structs.fields(_ThreadLine)
    if found.name.startswith(("is_", "retired_"))
}
"""The names of the fields of `_ThreadLine` that are true or false, by their keys."""


def _decode_leniently(line: bytes) -> _ThreadLine | None:
    """Decode a line that the fast decoder refuses; a value of a wrong type is absent."""
    whole = decode_leniently(line.strip(b"\0").removeprefix(b"\xef\xbb\xbf").strip())
    if not isinstance(whole, dict):
        return None
    flags: dict[str, Any] = {name: bool(whole.get(key)) for key, name in _FLAGS.items()}
    flags["team_name"] = str(whole.get("teamName") or "")
    flags["attachment"] = _attachment(whole.get("attachment"))
    message = whole.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    blocks = [_Block(**_texts(b, _Block)) for b in content] if isinstance(content, list) else None
    made = _Message(**_texts(message, _Message))
    made.content = blocks
    return _ThreadLine(**{**_texts(whole, _ThreadLine), **flags, "message": made})


def _attachment(given: Any) -> _Attachment | None:
    if not isinstance(given, dict):
        return None
    origin = given.get("origin")
    facts: dict[str, Any] = {
        "is_meta": bool(given.get("isMeta")),
        "origin": None if origin is None else _Origin(**_texts(origin, _Origin)),
    }
    return _Attachment(**{**_texts(given, _Attachment), **facts})


def _texts(value: Any, kind: type[msgspec.Struct]) -> dict[str, str]:
    """The strings of a decoded object that are fields of a struct, by the fields' names."""
    found = value if isinstance(value, dict) else {}
    names = {field.encode_name: field.name for field in msgspec.structs.fields(kind)}
    return {
        names[key]: text for key, text in found.items() if key in names and isinstance(text, str)
    }


def by_uuid(nodes: Iterable[ThreadNode]) -> dict[str, ThreadNode]:
    """The nodes by uuid; for a repeated uuid the last node, at the place of the first."""
    return {node.uuid: node for node in nodes}


def main_leaf(
    nodes: Sequence[ThreadNode], nodes_by_uuid: Mapping[str, ThreadNode]
) -> ThreadNode | None:
    """The last message of the main conversation; None if there is no message."""
    parents = {node.parent for node in nodes}
    best: ThreadNode | None = None
    seen: set[str] = set()
    for node in nodes:
        if node.uuid in parents:
            continue
        leaf = _nearest_message(nodes_by_uuid[node.uuid], nodes_by_uuid, seen)
        if leaf is not None:
            best = max(best or leaf, leaf, key=lambda node: (node.is_main, node.place))
    return best


def _nearest_message(
    node: ThreadNode, nodes_by_uuid: Mapping[str, ThreadNode], seen: set[str]
) -> ThreadNode | None:
    """The first message upwards; None if a walk from another tip passed here before."""
    current: ThreadNode | None = node
    while current is not None and current.uuid not in seen:
        seen.add(current.uuid)
        if current.is_message:
            return current
        current = nodes_by_uuid.get(current.parent) if current.parent else None
    return None


def path_to(
    leaf: ThreadNode, nodes_by_uuid: Mapping[str, ThreadNode], visited: set[str]
) -> list[ThreadNode]:
    """A node and those above it, the topmost first, up to a visited one; they become visited."""
    path: list[ThreadNode] = []
    current: ThreadNode | None = leaf
    while current is not None and current.uuid not in visited:
        visited.add(current.uuid)
        path.append(current)
        current = nodes_by_uuid.get(current.parent) if current.parent else None
    path.reverse()
    return path


_Response = tuple[str, str | None]


class Responses:
    """The responses of a file by id, and the results by the entries that they may answer."""

    def __init__(self, nodes_by_uuid: Mapping[str, ThreadNode]) -> None:
        self._members: dict[_Response, list[ThreadNode]] = {}
        self._owners: dict[str, ThreadNode | None] = {}
        self._order: dict[str, int] = {}
        self._nodes = nodes_by_uuid
        self._answers: dict[str, str | None] = {}  # of entries of responses
        self._nearest: dict[str, str | None] = {}  # of other entries
        results: list[ThreadNode] = []
        for number, node in enumerate(nodes_by_uuid.values()):
            self._order[node.uuid] = number
            if (response := self._response_of(node)) is not None:
                self._members.setdefault(response, []).append(node)
                for call in node.calls:  # a call in two responses has no owner
                    owner = self._owners.get(call, node)
                    is_same = owner is not None and self._response_of(owner) == response
                    self._owners[call] = node if is_same else None
            elif node.type == "user" and node.has_result and node.parent:
                results.append(node)
        assistants = {node.uuid: node for members in self._members.values() for node in members}
        self._results: dict[str, list[ThreadNode]] = {}
        for result in results:
            for uuid in self._answered(result, assistants):
                self._results.setdefault(uuid, []).append(result)

    def _response_of(self, node: ThreadNode) -> _Response | None:
        """The response that an entry is a part of: its id, and what it answers.

        A replay repeats a response, with its id, below a copy of the prompt.
        """
        return None if node.response is None else (node.response, self._above(node))

    def _above(self, node: ThreadNode) -> str | None:
        """The entry that a response answers: a prompt, or the last entry of another response."""
        passed: list[str] = []
        current: str | None = node.uuid
        while current is not None and current not in self._answers:
            self._answers[current] = None  # a cycle ends here
            passed.append(current)
            asked = self._asked(current)
            if asked is None or self._nodes[asked].response != node.response:
                self._answers.update(dict.fromkeys(passed, asked))
                return asked
            current = asked
        found = self._answers.get(current or "")
        self._answers.update(dict.fromkeys(passed, found))
        return found

    def _asked(self, uuid: str) -> str | None:
        """The nearest prompt or entry of a response above an entry."""
        passed: list[str] = []
        parent = self._nodes[uuid].parent
        while parent is not None and parent not in self._nearest:
            above = self._nodes.get(parent)
            if above is None:
                parent = None
            elif above.response is not None or (above.is_message and not above.has_result):
                break
            else:
                self._nearest[parent] = None  # a cycle ends here
                passed.append(parent)
                parent = above.parent
        found = self._nearest.get(parent, parent) if parent is not None else None
        self._nearest.update(dict.fromkeys(passed, found))
        return found

    def _answered(self, result: ThreadNode, assistants: Mapping[str, ThreadNode]) -> Iterator[str]:
        """The uuids of the entries that a result may answer."""
        if result.parent is not None:
            yield result.parent
        source = assistants.get(result.source) if result.source is not None else None
        writer = result.sidechain, result.agent
        for node in (source, *(self._owners.get(call) for call in result.results)):
            if node is not None and (node.sidechain, node.agent) == writer:
                yield node.uuid

    def completed(self, path: list[ThreadNode], visited: set[str]) -> list[ThreadNode]:
        """A path with the parallel calls and results that it misses, which become visited."""
        found = ((self._response_of(node), node) for node in path)
        anchors = {response: node for response, node in found if response is not None}
        missed: dict[str, list[ThreadNode]] = {}
        for response in anchors:
            added = self._missed(response, path, visited)
            visited.update(node.uuid for node in added)
            missed[anchors[response].uuid] = added
        return [found for node in path for found in (node, *missed.get(node.uuid, ()))]

    def _missed(
        self, response: _Response, path: Sequence[ThreadNode], visited: set[str]
    ) -> list[ThreadNode]:
        members = self._members[response]
        uuids = {member.uuid for member in members}
        candidates = {
            result.uuid: result
            for member in members
            for result in self._results.get(member.uuid, ())
            if result.uuid not in visited
        }
        results = [node for node in candidates.values() if node.parent in uuids]
        strays = [node for node in candidates.values() if node.parent not in uuids]
        if strays:
            results += self._wanted(strays, results, path, uuids)
        siblings = [member for member in members if member.uuid not in visited]
        siblings.sort(key=lambda node: node.timestamp)
        results.sort(key=lambda node: node.timestamp)
        return siblings + results

    def _wanted(
        self,
        strays: list[ThreadNode],
        results: list[ThreadNode],
        path: Sequence[ThreadNode],
        members: set[str],
    ) -> list[ThreadNode]:
        """The results from elsewhere that answer a call that is still open."""
        answered = {call for node in (*path, *results) for call in node.results}
        wanted: list[ThreadNode] = []
        for stray in sorted(strays, key=lambda node: self._order[node.uuid]):
            owners = (self._owners.get(call) for call in stray.results if call not in answered)
            if any(owner is not None and owner.uuid in members for owner in owners):
                answered.update(stray.results)
                wanted.append(stray)
        return wanted
