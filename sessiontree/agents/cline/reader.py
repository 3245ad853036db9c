"""Cline's sessions: `<session id>/<session id>.messages.json`, one document that is written whole.

Its messages are in the order in which Cline sends them. They have Anthropic's blocks, made plain
here: what the user typed is without the tag around it, and a result of a tool is the text that
Cline shows of it. Such a result is a list of queries with their outcomes, or one of them as JSON;
it failed if none of them succeeded.

The title, the working directory, the start and the origin of a fork are in `<session id>.json`
beside it. A title that Cline made of the prompt counts as none. A subagent's session has a file of
its own, which names the other one. A compaction, which is in
another file, is not read: its session is shown whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeGuard

from msgspec.structs import replace

from sessiontree.agents import base
from sessiontree.agents.sequence import DocumentReader, LineEntry
from sessiontree.agents.shapes import (
    Object,
    TokenKeys,
    a_text,
    an_object,
    image_block,
    moment,
    objects,
    text_block,
)
from sessiontree.core.entry import decode_leniently
from sessiontree.core.message import blocks_of, is_result_block

_TYPED: Final = re.compile(r'<user_input(?: mode="\w+")?>(.*)</user_input>', re.DOTALL)
_TOKENS: Final = TokenKeys("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
_OPENING: Final = ("version", "updated_at", "agent", "sessionId", "origin")


class ClineReader(DocumentReader):
    list_key = "messages"
    has_facts_beside = True

    def is_first(self, first: base.Values) -> bool:
        return all(key in first for key in _OPENING)

    def record_in(self, head: bytes) -> str | None:
        first = self.first_in(head)
        is_about = all(map(first.__contains__, ("session_id", "started_at", "workspace_root")))
        return "what Cline keeps about a session" if is_about else None

    def facts_in(self, first: base.Values, second: base.Values) -> base.AgentFacts:
        above = first.inside("origin").text("parentThreadId")
        return base.AgentFacts(
            first.text("sessionId"), modified=first.text("updated_at"), above=above
        )

    def with_sidecar(self, facts: base.AgentFacts, sidecar: bytes | None) -> base.AgentFacts:
        about = an_object(decode_leniently(sidecar)) if sidecar is not None else {}
        described = replace(facts, cwd=a_text(about.get("cwd")) or None)
        if facts.above:  # it is a subagent's, and the rest is about the session that started it
            return described
        more = an_object(about.get("metadata"))
        title, prompt = a_text(more.get("title")), a_text(about.get("prompt"))
        return replace(
            described,
            name=title if title and not prompt.startswith(title.rstrip("….")) else None,
            created=a_text(about.get("started_at")) or facts.created,
            above=a_text(an_object(more.get("fork")).get("forkedFromSessionId")) or None,
        )

    def about(self, first: base.Values) -> dict[str, Any]:
        version = first.inside("origin").text("version")
        return {"agentVersion": version, "system": first.text("system_prompt")}

    def time_in(self, line: base.Values) -> str | None:
        return moment(line.value("ts"))

    def entries_in(self, line: base.Values) -> Iterator[LineEntry]:
        role = line.text("role")
        if role not in ("user", "assistant"):
            return
        blocks = list(map(_block, blocks_of({"content": line.value("content")})))
        message: dict[str, Any] = {"role": role, "content": blocks}
        model = line.inside("modelInfo")
        for key, name in (("provider", "provider"), ("model", "id")):
            if value := model.text(name):
                message[key] = value
        metrics = line.value("metrics")
        if (usage := _TOKENS.within(metrics)) is not None:
            cost = {"cost": {"total": metrics["cost"]}} if metrics.get("cost") else {}
            message["usage"] = {**usage, **cost}
        yield LineEntry("message", {"message": message}, line.text("id"))


def _block(block: Object) -> Object:
    kind = block.get("type")
    if kind == "text" and (typed := _TYPED.fullmatch(a_text(block.get("text")).strip())):
        return {**block, "text": typed[1]}
    if kind == "image":
        return image_block(block.get("data"), block.get("mediaType"))
    if kind == "file":
        return text_block(a_text(block.get("content")))
    return _result(block) if is_result_block(block) else block


def _result(block: Object) -> Object:
    content = block.get("content")
    told = decode_leniently(content.encode("utf-8", "replace")) if _is_json(content) else content
    outcomes = list(objects([told] if isinstance(told, dict) else told))
    if not outcomes or not all("success" in outcome for outcome in outcomes):
        blocks = blocks_of({"content": content})
        return {**block, "content": [_block(each) for each in blocks]}
    failed = block.get("is_error") is True or not any(each["success"] for each in outcomes)
    return {**block, "content": [*map(_outcome, outcomes)], "is_error": failed}


def _is_json(content: Any) -> TypeGuard[str]:
    return isinstance(content, str) and content.startswith(("{", "["))


def _outcome(outcome: Mapping[str, Any]) -> Object:
    given = (outcome.get("result"), outcome.get("error"))
    told = next((each for each in given if each not in (None, "")), "")
    return text_block(told if isinstance(told, str) else base.json_of(told).decode())
