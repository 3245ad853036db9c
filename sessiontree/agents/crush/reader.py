"""Crush's sessions: a row of `sessions`, then its rows of `messages` (see `storage.databases`).

A message has parts: texts, thinking, calls, results, files. Each result becomes a message of its
own, with what an edit changed; an answer says why it ended, if it was stopped or failed. A summary
becomes a compaction that keeps nothing. A session that a call of another one started names it.

Crush keeps the cost of a session, and no tokens of its answers: the cost becomes one `usage`, with
the time of the last change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sessiontree.agents import base
from sessiontree.agents.sequence import LineEntry, SequenceReader
from sessiontree.agents.shapes import (
    Object,
    a_text,
    an_object,
    call_block,
    image_block,
    moment,
    objects,
    result_of,
    text_block,
    thought_block,
)
from sessiontree.core.entry import decode_leniently
from sessiontree.core.message import ABORTED

_SESSION: Final = "session_row"
_UNNAMED: Final = ("", "New Session", "Untitled Session")
_STOPS: Final = {"canceled": ABORTED, "error": "error"}
_SECONDS: Final = 10**11
"""Larger times are in milliseconds."""


class CrushReader(SequenceReader):
    mark = b'"session_row"'
    needles = (b'"user"', b'"assistant"', b'"session_row"')
    others = frozenset({"message"})
    end = "end"

    def is_first(self, first: base.Values) -> bool:
        keys = ("parent_session_id", "prompt_tokens", "completion_tokens")
        return first.text("type") == _SESSION and all(map(first.__contains__, keys))

    def facts_in(self, first: base.Values, second: base.Values) -> base.AgentFacts:
        title = first.text("title") or ""
        return base.AgentFacts(
            first.text("id"),
            first.text("project"),
            None if title in _UNNAMED else title,
            created=_time(first.value("created_at")),
            above=first.text("parent_session_id"),
        )

    def entries_in_first(self, first: base.Values) -> Iterator[LineEntry]:
        if cost := first.value("cost"):
            nobody = {"provider": None, "model": None}
            used = {
                "kind": "session",
                "sumOf": first.text("id"),
                **nobody,
                "usage": {"cost": {"total": cost}},
            }
            yield LineEntry("usage", used, None, _time(first.value("updated_at")))

    def time_in(self, line: base.Values) -> str | None:
        return _time(line.value("created_at")) or line.text("timestamp")

    def entries_in(self, line: base.Values) -> Iterator[LineEntry]:
        role, parts = line.text("role"), list(_parts_in(line.value("parts")))
        if not role or line.text("type") != "message":
            return
        blocks = [block for kind, part in parts if (block := _block(kind, part)) is not None]
        message: dict[str, Any] = {"role": role, "content": blocks}
        if line.value("is_summary_message"):
            texts = (a_text(block.get("text")) for block in blocks)
            yield LineEntry("compaction", {"summary": "\n".join(filter(None, texts))})
            return
        if role == "assistant":
            message |= {k: v for k in ("provider", "model") if (v := line.text(k))}
            message |= _end_in(parts)
        results = [_result(part) for kind, part in parts if kind == "tool_result"]
        if blocks or not results:
            yield LineEntry("message", {"message": message}, line.text("id"))
        for result in results:
            yield LineEntry("message", {"message": result}, None if blocks else line.text("id"))


def _time(value: Any) -> str | None:
    return moment(value * 1000 if isinstance(value, int) and value < _SECONDS else value)


def _parts_in(parts: Any) -> Iterator[tuple[Any, Object]]:
    return ((part.get("type"), an_object(part.get("data"))) for part in objects(parts))


def _end_in(parts: list[tuple[Any, Object]]) -> dict[str, Any]:
    """Why an answer ended, if it was stopped or failed."""
    end = next((part for kind, part in parts if kind == "finish"), {})
    stop = _STOPS.get(str(end.get("reason")))
    told = "\n".join(filter(None, (a_text(end.get("message")), a_text(end.get("details")))))
    return {} if stop is None else {"stopReason": stop, "errorMessage": told}


def _block(kind: Any, part: Object) -> Object | None:
    if kind == "text":
        return text_block(a_text(part.get("text")))
    if kind == "reasoning":
        return thought_block(a_text(part.get("thinking")))
    if kind == "tool_call":
        return call_block(part.get("id"), part.get("name"), _decoded(part.get("input")))
    if kind == "binary" and a_text(part.get("MIMEType")).startswith("image/"):
        return image_block(part.get("Data"), part.get("MIMEType"))
    if kind == "shell_command":
        return text_block(f"$ {part.get('command')}\n{part.get('output')}")
    return None if kind in ("finish", "tool_result") else {**part, "type": str(kind)}


def _decoded(text: Any) -> Any:
    """A text that has JSON, decoded; any other value as it is."""
    found = decode_leniently(text.encode("utf-8", "replace")) if isinstance(text, str) else None
    return text if found is None else found


def _result(part: Object) -> Object:
    about = an_object(_decoded(part.get("metadata")))
    changed = {"originalContent": about.get("old_content"), "newContent": about.get("new_content")}
    is_error = part.get("is_error") is True
    content = [text_block(a_text(part.get("content")))]
    if part.get("data"):
        content.append(image_block(part.get("data"), part.get("mime_type")))
    return result_of(
        part.get("tool_call_id"), part.get("name") or None, content, is_error=is_error, **changed
    )
