"""The header: the first line, the root of the tree, and what tells a session apart.

`format` decides where it is present, because other programs number and rewrite `version` in their
own way. A first line that is no header of ours is named for what it is, so that nobody's file is
mistaken for a damaged one of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sessiontree.core.codec import FORMAT, VERSION
from sessiontree.core.entry import decode_leniently
from sessiontree.core.message import kind_of
from sessiontree.errors import (
    ForeignFormatError,
    NewerFormatError,
    NotASessionError,
    SessionTreeError,
)

AGENT_SESSION_KEY = "agentSessionId"
"""The metadata key that holds the agent's own session id; a fork leaves it out."""


_ZSTANDARD = b"\x28\xb5\x2f\xfd"
"""How a file compressed by Zstandard starts (RFC 8878)."""

_CLAUDE_CODE_LINES = frozenset({"file-history-snapshot", "queue-operation", "summary"})


def is_version_1(header: Mapping[str, Any]) -> bool:
    """Whether a header, known to be a session's, is of the linear version 1."""
    return "format" not in header and "uuid" not in header and header.get("version", 1) == 1


def check_header(line: bytes, file: str, place: str) -> dict[str, Any]:
    """The header's keys.

    Args:
        line: the first line that is not blank.
        file: the path, for the message.
        place: where in the file the line stands, for the message.

    Raises:
        NotASessionError: no header at all.
        ForeignFormatError: another program's file.
        NewerFormatError: a format newer than this package.
    """
    value = decode_leniently(line.strip(b"\0").removeprefix(b"\xef\xbb\xbf"))
    refused = _refusal(value, line, file, place)
    if refused is not None:
        raise refused
    assert isinstance(value, dict)
    return value


def _refusal(value: Any, line: bytes, file: str, place: str) -> SessionTreeError | None:
    if line.startswith(_ZSTANDARD):
        return NotASessionError(
            f"{file} is compressed, and what is inside is no session of an agent that is known; "
            "if it is one of ours, decompress it",
            file,
        )
    if not isinstance(value, dict):
        what = "is binary" if b"\0" in line[:4096] else "does not start with a JSON object"
        return NotASessionError(
            f"{file} is no session: {place} {what}; give a file of sessiontree, or one of "
            "another agent that it reads",
            file,
        )
    program = _foreign_program(value)
    if program is not None:
        return ForeignFormatError(
            f"{file} is a file of {program}, not of sessiontree; open it with that program",
            file,
            program,
        )
    if value.get("type") != "session":
        return NotASessionError(
            f"{file} is no session: {place} is no header, "
            f"its type is {value.get('type')!r}; a session starts with type 'session'",
            file,
        )
    return _version_refusal(value, file)


def _version_refusal(header: Mapping[str, Any], file: str) -> SessionTreeError | None:
    form, version = header.get("format"), header.get("version", 1)
    if form is None:
        known = type(version) is int and 1 <= version <= VERSION
        if known and (version == 1 or "uuid" in header):
            return None
        newer = f"version {version!r}"
    elif form == FORMAT:
        return None
    else:
        newer = f"format {form!r}"
    return NewerFormatError(
        f"{file} has {newer}, and this sessiontree reads up to {FORMAT!r}; "
        "it was left untouched: upgrade sessiontree to open it",
        file,
    )


def _foreign_program(value: Mapping[str, Any]) -> str | None:
    """The program that writes lines like this one, or None."""
    kind = kind_of(value)
    if kind == "session":
        return _foreign_session(value)
    if value.get("kind") == "header" and "version" in value:
        return "the pi coding agent (version 4)"
    if kind == "session_meta" or (kind == "response_item" and "payload" in value):
        return "Codex"
    if "projectHash" in value and "sessionId" in value:
        return "Gemini CLI"
    if ("sessionId" in value and kind) or kind in _CLAUDE_CODE_LINES:
        return "Claude Code"
    return None


def _foreign_session(header: Mapping[str, Any]) -> str | None:
    form = header.get("format")
    if form is not None:
        ours = isinstance(form, str) and form.startswith("sessiontree/")
        return None if ours else f"another program (format {form!r})"
    version = header.get("version", 1)
    if "uuid" not in header and isinstance(version, int) and version >= 2:
        return f"the pi coding agent (version {version})"
    return None
