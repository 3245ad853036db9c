"""Continue's sessions: `<session id>.json`, one document that is written whole.

Its `history` has messages of OpenAI's shape, each with the calls that it made and what came of
them. A call's result becomes a message of its own, if it ended; so does a summary of what was said
so far, as a compaction that keeps nothing. Reasoning is a message in a role of its own.

No message has a time or an id; an answer gets an id made of its bytes, so that a copy of it, as in
a fork or an import, costs nothing. The start of a session is in the list of sessions beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final

from msgspec.structs import replace

from sessiontree.agents import base
from sessiontree.agents.sequence import DocumentReader, LineEntry
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
from sessiontree.core.message import blocks_of, text_of

_UNTITLED: Final = "Untitled Session"
_ENDED: Final = ("done", "errored", "canceled")


class ContinueReader(DocumentReader):
    list_key = "history"
    has_facts_beside = True

    def is_first(self, first: base.Values) -> bool:
        return all(key in first for key in ("sessionId", "title", "workspaceDirectory"))

    def facts_in(self, first: base.Values, second: base.Values) -> base.AgentFacts:
        title = first.text("title")
        name = title if title != _UNTITLED else None
        return base.AgentFacts(first.text("sessionId"), first.text("workspaceDirectory"), name)

    def with_sidecar(self, facts: base.AgentFacts, sidecar: bytes | None) -> base.AgentFacts:
        listed = objects(decode_leniently(sidecar) if sidecar is not None else None)
        own = next((each for each in listed if each.get("sessionId") == facts.id), {})
        began = a_text(own.get("dateCreated"))
        return replace(facts, created=moment(int(began)) if began.isdecimal() else None)

    def time_in(self, line: base.Values) -> str | None:
        return None

    def entries_in(self, line: base.Values) -> Iterator[LineEntry]:
        message = an_object(line.value("message"))
        role, content = a_text(message.get("role")), message.get("content")
        if not role:
            return
        blocks = [_block(part) for part in objects(content)]
        said: dict[str, Any] = {"role": role, "content": blocks or content or []}
        if role in ("assistant", "thinking"):
            said = _answer(message)
        yield LineEntry("message", {"message": said})
        for state in objects(line.value("toolCallStates")):
            if state.get("status") in _ENDED:
                yield LineEntry("message", {"message": _result(state)})
        if summary := line.text("conversationSummary"):
            yield LineEntry("compaction", {"summary": summary})


def _block(part: Object) -> Object:
    url = a_text(an_object(part.get("imageUrl")).get("url"))
    if not url.startswith("data:"):
        return part
    media_type, _, data = url.removeprefix("data:").partition(";base64,")
    return image_block(data, media_type)


def _answer(message: Object) -> dict[str, Any]:
    blocks = list(blocks_of(message))
    if message.get("role") == "thinking":
        blocks = [thought_block(text_of(message))]
    for call in objects(message.get("toolCalls")):
        made = an_object(call.get("function"))
        blocks.append(call_block(call.get("id"), made.get("name"), _arguments(made)))
    answer: dict[str, Any] = {"role": "assistant", "content": blocks}
    usage = message.get("usage")
    if isinstance(usage, dict):
        digest = blake2b(base.json_of(message), digest_size=8).hexdigest()
        answer |= {"id": digest, "usage": usage, "model": usage.get("model")}
        if cents := usage.get("cost_cents"):
            dollars = cents / 100 if isinstance(cents, int | float) else None
            answer["usage"] = {**usage, "cost": {"total": dollars}}
    return answer


def _arguments(made: Object) -> Any:
    given = made.get("arguments")
    found = decode_leniently(given.encode("utf-8", "replace")) if isinstance(given, str) else None
    return given if found is None else found


def _result(state: Object) -> Object:
    shown = [text_block(a_text(each.get("content"))) for each in objects(state.get("output"))]
    is_error = state.get("status") != "done"
    return result_of(state.get("toolCallId"), None, shown, is_error=is_error)
