"""Which messages of role user the user wrote, and which Codex."""

from __future__ import annotations

from typing import Any, Final

from sessiontree.core.message import text_of

_GENERATED: Final = (
    *("<environment_context>", "<user_instructions>", "# AGENTS.md instructions"),
    *("<turn_aborted>", "<user_shell_command>", "<skill>", "<subagent_notification>"),
    *("<codex_internal_context", "Another language model started to solve this problem"),
)
"""The starts of user messages that Codex generates; they begin no turn."""

ABOUT: Final = "internal_chat_message_metadata_passthrough"
"""The key of what Codex says about an item, such as who wrote each part of it."""


def is_prompt(item: Any) -> bool:
    """Whether an item is a message that the user wrote."""
    if not isinstance(item, dict) or item.get("role") != "user":
        return False
    written_by_user = _is_users(item.get(ABOUT))
    if written_by_user is not None:
        return written_by_user
    return not text_of(item).lstrip().startswith(_GENERATED)


def _is_users(about: Any) -> bool | None:
    """Whether the user wrote a part of a message; None if Codex does not say."""
    if not isinstance(about, dict):
        return None
    kinds = about.get("content_item_kinds")
    given = kinds if isinstance(kinds, list) else []
    known = [kind for kind in given if isinstance(kind, str) and "." in kind]
    if known:
        return any(kind.startswith("user.") for kind in known)
    parts = about.get("content_item_metadata")
    types = [_provenance(part) for part in parts] if isinstance(parts, list) else []
    said = [type for type in types if type is not None]
    return "user" in said if said else None


def _provenance(part: Any) -> str | None:
    origin = part.get("provenance") if isinstance(part, dict) else None
    kind = origin.get("type") if isinstance(origin, dict) else None
    return kind if isinstance(kind, str) else None
