"""The writers of a file's lines as an Agent Trace record (https://agent-trace.dev, version 0.1).

A conversation of the record is one session with one model. Lines that no session explains are a
person's. The record names the commit if it has the file as it is, since line numbers are those of a
revision. A session is named by a URN, never by its path; its agent and its turns are in the
metadata.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby, pairwise
from typing import Any, Final
from urllib.parse import quote

from sessiontree.core.usage import provider_of
from sessiontree.library.file_edits import known_file
from sessiontree.library.file_history import BlamedLine

_VERSION: Final = "0.1"  # the published schema allows no third number
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MAX_MODEL: Final = 250


def trace_record(path: str, lines: Sequence[BlamedLine], version: str) -> dict[str, Any]:
    """The record of a file.

    Args:
        path: the path of the file.
        lines: the lines as `blame` gives them.
        version: the version of this program.

    Raises:
        StorageError: the file cannot be read, or git fails.
    """
    known = known_file(path)
    revision = None
    if known.repository is not None:
        revision = known.repository.revision_of(known.below, known.path)
    vcs = {} if revision is None else {"vcs": {"type": "git", "revision": revision}}
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    by_session = sorted(lines, key=_conversation)
    conversations = [
        _as_conversation(session, model, list(found))
        for (session, model), found in groupby(by_session, key=_conversation)
    ]
    return {
        "version": _VERSION,
        "id": str(uuid.uuid4()),
        "timestamp": now,
        **vcs,
        "tool": {"name": "sessiontree", "version": version},
        "files": [
            {"path": known.below.replace(os.sep, "/"), "conversations": conversations},
        ],
        "metadata": {"sessiontree": {"sessions": _sessions(lines)}},
    }


def _conversation(line: BlamedLine) -> tuple[str, str]:
    return line.session or "", line.model or ""


def _as_conversation(session: str, model: str, lines: list[BlamedLine]) -> dict[str, Any]:
    contributor: dict[str, Any] = {"type": "ai" if session else "human"}
    if session and model:
        contributor["model_id"] = _model_id(model)
    url = {"url": _urn(session)} if session else {}
    ranges = [{"start_line": first, "end_line": last} for first, last in _ranges(lines)]
    return {**url, "contributor": contributor, "ranges": ranges}


def _model_id(model: str) -> str:
    """A model as models.dev names it, with its provider if that is known."""
    provider = None if "/" in model else provider_of(model)
    return (f"{provider}/{model}" if provider else model)[:_MAX_MODEL]


def _urn(session: str) -> str:
    if _UUID.fullmatch(session):
        return f"urn:uuid:{session}"
    return f"urn:sessiontree:{quote(session, safe='')}"


def _ranges(lines: Iterable[BlamedLine]) -> Iterator[tuple[int, int]]:
    numbers = [line.line for line in lines]
    starts = [numbers[0], *(after for before, after in pairwise(numbers) if after != before + 1)]
    ends = [*(before for before, after in pairwise(numbers) if after != before + 1), numbers[-1]]
    return zip(starts, ends, strict=True)


def _sessions(lines: Iterable[BlamedLine]) -> dict[str, Any]:
    """By URN, the agent of each session and the turns in which it wrote lines."""
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        if line.session is None:
            continue
        about = found.setdefault(
            _urn(line.session), {"id": line.session, "agent": line.agent, "turns": []}
        )
        if line.turn is not None and line.turn not in about["turns"]:
            about["turns"].append(line.turn)
    return found
