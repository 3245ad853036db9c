"""Goose's sessions: a row of `sessions`, then its rows of `messages` (see `storage.databases`).

A message has the parts of what was said, asked of tools and answered by them. Each answer of a tool
becomes a message of its own. What only the user sees (`agentVisible` is false) was said before a
compaction: the first message that only the model sees, below such ones, is its summary.

Goose counts tokens by session alone: their sum becomes one `usage`, with the time of the last
change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sessiontree.agents import base
from sessiontree.agents.sequence import LineEntry, SequenceReader
from sessiontree.agents.shapes import (
    Object,
    TokenKeys,
    a_text,
    an_object,
    call_block,
    image_block,
    moment,
    objects,
    result_of,
    text_block,
)
from sessiontree.core.message import text_of

_SESSION: Final = "session_row"
_TOKENS: Final = TokenKeys("accumulated_input_tokens", "accumulated_output_tokens", "", "")
_UNNAMED: Final = ("", "CLI Session", "New Chat")
_CALLS: Final = ("toolRequest", "frontendToolRequest")


class GooseReader(SequenceReader):
    mark = b'"session_row"'
    needles = (b'"user"', b'"assistant"', b'"session_row"')
    others = frozenset({"message"})
    end = "end"

    def is_first(self, first: base.Values) -> bool:
        is_session = first.text("type") == _SESSION
        return is_session and "working_dir" in first and "extension_data" in first

    def facts_in(self, first: base.Values, second: base.Values) -> base.AgentFacts:
        name = first.text("name") or first.text("description") or ""
        return base.AgentFacts(
            first.text("id"),
            first.text("working_dir"),
            None if name in _UNNAMED else name,
            created=_time_in(first.text("created_at")),
        )

    def entries_in_first(self, first: base.Values) -> Iterator[LineEntry]:
        reported = {key: first.value(key) for key in _TOKENS[:2]}
        if not any(reported.values()):
            return
        config = first.inside("model_config_json")
        about = {"provider": first.text("provider_name"), "model": config.text("model_name")}
        used = {
            "kind": "session",
            "sumOf": first.text("id"),
            **about,
            "usage": _TOKENS.apart(reported),
        }
        yield LineEntry("usage", used, None, _time_in(first.text("updated_at")))

    def time_in(self, line: base.Values) -> str | None:
        seconds = line.value("created_timestamp")
        is_time = isinstance(seconds, int | float)
        return moment(seconds * 1000) if is_time else line.text("timestamp")

    def entries_in(self, line: base.Values) -> Iterator[LineEntry]:
        role, parts = line.text("role"), list(objects(line.value("content_json")))
        if role not in ("user", "assistant") or line.text("type") != "message":
            return
        blocks = [block for part in parts if (block := _block(part)) is not None]
        is_users = line.inside("metadata_json").value("userVisible") is not False
        marked = {} if is_users or role != "user" else {"metadata": {"isMeta": True}}
        if blocks:
            yield LineEntry("message", {"message": {"role": role, "content": blocks}, **marked})
        for part in parts:
            if part.get("type") == "toolResponse":
                yield LineEntry("message", {"message": _result(part)})

    def translated(
        self, numbered: Iterator[base.SourceLine], lines: base.LineMaker
    ) -> Iterator[base.EntryDraft]:
        is_compacted = False
        for line in numbered:
            about = (line.values or base.Values({})).inside("metadata_json")
            is_told = about.value("agentVisible") is not False
            for draft in self.entries_of(line, lines):
                message = draft.fields.get("message")
                if is_compacted and is_told and message and about.value("userVisible") is False:
                    is_compacted = False
                    fields: dict[str, Any] = {
                        key: draft.fields[key] for key in _PLACE if key in draft.fields
                    }
                    own = {"firstKeptEntryUuid": draft.fields["uuid"]}
                    fields |= {"type": "compaction", "summary": text_of(message), **own}
                    draft = draft._replace(fields=fields)
                yield draft
            is_compacted = is_compacted or not is_told


_PLACE: Final = ("uuid", "parentUuid", "timestamp")
"""The keys of an entry that say where it is."""


def _time_in(text: str | None) -> str | None:
    """A time of SQLite, which is in UTC, as RFC 3339."""
    return f"{text.replace(' ', 'T')}Z" if text and len(text) == 19 else text


def _block(part: Object) -> Object | None:
    """A part that a model gets, or wrote; None for an answer of a tool, and a note."""
    kind = part.get("type")
    if kind == "text":
        return text_block(a_text(part.get("text")))
    if kind == "image":
        return image_block(part.get("data"), part.get("mimeType"))
    if kind == "redactedThinking":
        return {**part, "type": "redacted_thinking"}
    if kind in _CALLS:
        call = an_object(an_object(part.get("toolCall")).get("value"))
        return call_block(part.get("id"), call.get("name"), call.get("arguments"))
    return part if kind == "thinking" else None


def _result(part: Object) -> Object:
    told = an_object(part.get("toolResult"))
    value = told.get("value")
    about = an_object(value)
    content: Any = [_block(each) or dict(each) for each in objects(about.get("content", value))]
    failed = told.get("status") == "error"
    is_error = failed or about.get("isError") is True
    return result_of(
        part.get("id"), None, a_text(told.get("error")) if failed else content, is_error=is_error
    )
