"""The lines of Claude Code that hold a message of the user in their own way.

The reader notes the kind of line in the message's metadata, and the writer writes it so again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from sessiontree.core.message import text_of
from sessiontree.formats.base import Values
from sessiontree.formats.claude_code.threads import Node

LINE: Final = "line"
"""The key of the metadata that has the kind of line."""

META: Final = "meta"
"""Text that the program wrote for the model, such as that of a skill."""

LOCAL_COMMAND: Final = "local_command"
"""A slash command that the program runs itself, or its output."""

QUEUED_COMMAND: Final = "queued_command"
"""A prompt that the user typed during a turn."""

HIDDEN: Final = ("isMeta", "isCompactSummary", "isSidechain", "teamName")
"""The keys of a message that the user did not type."""

GENERATED: Final = re.compile(
    r"<(local-command|command-|session-start-hook|tick|goal|ide_|bash-|task-notification)"
    r"|\[Request interrupted|Caveat:"
)
"""The starts of user messages that Claude Code generates."""

_CARRIED: Final = frozenset({"isMeta", LINE})


def is_carried(metadata: Any) -> bool:
    """Whether the line of a message says all that its metadata says."""
    return isinstance(metadata, dict) and metadata.keys() <= _CARRIED


def as_line(message: Mapping[str, Any], metadata: Any) -> dict[str, Any]:
    """The type of the line of a message, and the keys that hold the message."""
    role = message["role"]
    plain = {"type": role, "message": message}
    if role != "user" or not isinstance(metadata, dict):
        return plain
    content, kind = message.get("content"), metadata.get(LINE)
    if kind == LOCAL_COMMAND and isinstance(content, str):
        about = {"level": "info", "isMeta": False}
        return {"type": "system", "subtype": LOCAL_COMMAND, "content": content, **about}
    if kind == QUEUED_COMMAND:
        queued = {"type": QUEUED_COMMAND, "prompt": content, "commandMode": "prompt"}
        return {"type": "attachment", "attachment": queued}
    if kind == META or (metadata.get("isMeta") is True and not GENERATED.match(_start(message))):
        return {**plain, "isMeta": True}
    return plain


def _start(message: Mapping[str, Any]) -> str:
    return text_of(message).lstrip()


def message_of(node: Node, line: Values) -> orjson.Fragment:
    """The message of a line, as Claude Code sends it."""
    if node.says == "message":
        return line.fragment("message")
    is_typed = node.says == "attachment"
    content = line.inside("attachment").raw("prompt") if is_typed else line.raw("content")
    return orjson.Fragment(b'{"role":"user","content":%b}' % content)


def metadata_of(node: Node, line: Values) -> dict[str, Any]:
    """The metadata of a message of the user: whether the program wrote it, and in what line."""
    if node.type == "assistant" or node.has_result:
        return {}
    if node.type == "system":
        return {"isMeta": True, LINE: LOCAL_COMMAND}
    if node.type == "attachment":
        return {LINE: QUEUED_COMMAND}
    if not _is_meta(node, line):
        return {}
    return {"isMeta": True, **({LINE: META} if node.meta else {})}


def _is_meta(node: Node, line: Values) -> bool:
    """Whether the program wrote a message in a line of the user."""
    if node.meta or node.summary or line.text("promptSource") == "system":
        return True
    message = line.value("message")
    return isinstance(message, dict) and bool(GENERATED.match(text_of(message).lstrip()))
