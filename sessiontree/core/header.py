"""The header: the first line, the root of the tree, and the sign of a session.

`format` decides where it is present, because other programs number and rewrite `version` in their
own way. The error for a first line that is not a header names what the file is, so that another
program's file is not taken for a damaged session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sessiontree.core.codec import FORMAT, VERSION
from sessiontree.core.entry import decode_leniently
from sessiontree.core.message import kind_of
from sessiontree.errors import ForeignFormatError, NewerFormatError, NotASessionError

LANE_KEY = "lane:"  # starts the metadata key of the facts of an agent that runs on a lane
AGENT_SESSION_KEY = "agentSessionId"  # of the agent's own session id in metadata; a fork omits it

_ZSTANDARD = b"\x28\xb5\x2f\xfd"  # the first bytes of a file compressed by Zstandard (RFC 8878)
_CLAUDE_CODE_LINES = frozenset({"file-history-snapshot", "queue-operation", "summary"})


def is_version_1(header: Mapping[str, Any]) -> bool:
    """Whether the header of a session is of the linear version 1."""
    return "format" not in header and "uuid" not in header and header.get("version", 1) == 1


def says_pi(header: Mapping[str, Any]) -> bool:
    """Whether the header of a session of version 1 has the model as pi wrote it there."""
    return "provider" in header and "modelId" in header


def check_header(line: bytes, file: str, place: str) -> dict[str, Any]:
    """The keys of the first line that is not blank; errors name the file and the place in it.

    Another program's file is a ForeignFormatError, a newer format a NewerFormatError, any other
    line a NotASessionError.
    """
    if line.startswith(_ZSTANDARD):
        raise NotASessionError(
            f"{file} is compressed and does not contain another agent's session; if it contains "
            "a session of sessiontree, decompress it",
            file,
        )
    value = decode_leniently(line.strip(b"\0").removeprefix(b"\xef\xbb\xbf"))
    if not isinstance(value, dict):
        what = "is binary" if b"\0" in line[:4096] else "does not start with a JSON object"
        raise NotASessionError(
            f"{file} is not a session: {place} {what}; give a file of sessiontree, or one of "
            "another agent that it reads",
            file,
        )
    if (program := _foreign_program(value)) is not None:
        raise ForeignFormatError(
            f"{file} is a file of {program}, not of sessiontree; open it with that program",
            file,
            program,
        )
    if value.get("type") != "session":
        raise NotASessionError(
            f"{file} is not a session: {place} is not a header, "
            f"its type is {value.get('type')!r}; a session starts with type 'session'",
            file,
        )
    if (newer := _newer(value)) is not None:
        raise NewerFormatError(
            f"{file} has {newer}, and this sessiontree reads up to {FORMAT!r}; "
            "the file is unchanged: upgrade sessiontree to open it",
            file,
        )
    return value


def _newer(header: Mapping[str, Any]) -> str | None:
    form, version = header.get("format"), header.get("version", 1)
    if form is not None:
        return None if form == FORMAT else f"format {form!r}"
    is_known = type(version) is int and 1 <= version <= VERSION
    return None if is_known and (version == 1 or "uuid" in header) else f"version {version!r}"


def _foreign_program(value: Mapping[str, Any]) -> str | None:
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
    form, version = header.get("format"), header.get("version", 1)
    if form is not None:
        is_own = isinstance(form, str) and form.startswith("sessiontree/")
        return None if is_own else f"another program (format {form!r})"
    if "uuid" not in header and isinstance(version, int) and version >= 2:
        return f"the pi coding agent (version {version})"
    return None
