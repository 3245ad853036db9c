"""The node: what a line of Claude Code says of its place in a conversation.

A line is a node when it has a `uuid` and is of a type that hangs in the tree, or names
a parent. Only the keys that tell its place are decoded. What a line is wrong about is
absent in its node: a value of a wrong type says nothing.
"""

from __future__ import annotations

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
