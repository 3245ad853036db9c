"""Codex rollouts: `~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl`, or `.jsonl.zst`.

A line is `{timestamp, type, payload}`. `session_meta` comes first; `response_item`s
are the conversation, items of OpenAI Responses; `turn_context` names the model and the
effort; `compacted` puts another history in place of all before it; an `event_msg`
tells a terminal what happened, for the most part what the items say too, and says
nothing to a model, except that `thread_rolled_back` takes back the last turns.

The file is linear: an entry hangs below the one before it. A rollback is a `branch`
below the entry before the turns taken back. A `compacted` line is a compaction that
keeps nothing, a `context_edit` that silences its summary, and after them the history
that Codex puts in its place: `replacement_history`, or, from older versions, the
prompts so far and then the summary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from sessiontree.core.message import text_of
from sessiontree.formats.base import (
    Facts,
    Lines,
    Place,
    Report,
    Source,
    Translated,
    Values,
    first_values,
    values,
    with_numbers,
)

_TYPES: Final = frozenset(
    {"session_meta", "response_item", "event_msg", "turn_context", "compacted"}
)
_SILENT_ITEMS: Final = frozenset({"ghost_snapshot", "other"})
"""Items that Codex keeps for itself."""

_SURROUNDINGS: Final = (
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<turn_aborted>",
    "<user_shell_command>",
    "<skill>",
    "<subagent_notification>",
)
"""How user messages start that Codex itself writes; they begin no turn."""

_META: Final = {"metadata": {"isMeta": True}}

_SIDE_TYPES: Final = _TYPES | {"world_state", "inter_agent_communication"}


class Codex:
    """See the module."""

    name = "codex"
    program = "Codex"

    def recognises(self, head: bytes) -> bool:
        """A first line of a type of Codex that has a payload."""
        first = next(first_values(head), None)
        if first is None or first.text("type") not in _TYPES:
            return False
        return "payload" in first or b'"payload"' in head

    def facts(self, head: bytes, tail: bytes) -> Facts:
        facts = Facts()
        first: str | None = None
        for line in head.split(b"\n"):
            found = values(line)
            if found is None:
                continue
            payload = found.inside("payload")
            if found.text("type") == "session_meta" and facts.id is None:
                facts = _facts(found, payload)
            elif first is None and found.text("type") == "response_item":
                first = _prompt(payload)
                if first is not None and facts.id is not None:
                    break
        if facts.id is None:
            facts = _facts_of_cut_line(head)
        return Facts(facts.id, facts.cwd, None, first, facts.created)

    def translate(self, source: Source, report: Report) -> Iterator[Translated]:
        rollout: _Rollout | None = None
        waiting: tuple[Place, bytes] | None = None
        for place, line in with_numbers(source.lines(), 0):
            if rollout is not None and waiting is not None:
                yield from rollout.translated(*waiting, is_last=False)
            waiting = place, line
            if rollout is None:
                found = values(line) or Values({})
                payload = found.inside("payload")
                is_meta = found.text("type") == "session_meta"
                facts = _facts(found, payload) if is_meta else Facts()
                rollout = _Rollout(
                    Lines(self, report, facts.id or ""), payload.text("model_provider")
                )
                yield rollout.header(place, facts, payload if is_meta else Values({}))
                waiting = None if is_meta else waiting
        if rollout is None:
            return
        if waiting is not None:
            yield from rollout.translated(*waiting, is_last=not source.is_complete())
        rollout.lines.report_unknown()


class _Item(NamedTuple):
    """An item of the history in force: the uuid above it, and itself where it is a prompt."""

    above: str
    prompt: Any


class _Rollout:
    """One rollout, line after line.

    Attributes:
        lines: makes the lines.
    """

    def __init__(self, lines: Lines, provider: str | None) -> None:
        self.lines = lines
        self._provider = provider
        self._history: list[_Item] = []
        self._model: str | None = None
        self._effort: str | None = None
        self._spent: Any = None

    def header(self, place: Place, facts: Facts, meta: Values) -> Translated:
        base = meta.value("base_instructions")
        text = base.get("text") if isinstance(base, dict) else base
        origin = meta.text("forked_from_id")
        return self.lines.header(
            place,
            facts,
            provider=self._provider,
            system=text if isinstance(text, str) else meta.text("instructions"),
            agentVersion=meta.text("cli_version"),
            forkedFrom=origin,
            git=meta.value("git"),
        )

    def translated(self, place: Place, line: bytes, *, is_last: bool) -> Iterator[Translated]:
        lines = self.lines
        found = values(line)
        if found is None:
            yield from lines.stray(line, place, is_last=is_last)
            return
        kind, payload = found.text("type") or "", found.inside("payload")
        uuid = lines.uuid(None, place, line)
        at = found.text("timestamp")
        if kind == "response_item" and payload.text("type") not in (*_SILENT_ITEMS, None):
            prompt = _prompt_item(payload, found)
            self._history.append(_Item(lines.leaf, prompt))
            said: dict[str, Any] = {"message": found.kept("payload")}
            if prompt is None and payload.text("role") == "user":
                said |= _META
            yield lines.entry("message", place, uuid, said, timestamp=at)
        elif kind == "compacted":
            yield from self._compacted(place, line, uuid, at, payload)
        elif kind == "event_msg" and payload.text("type") == "thread_rolled_back":
            parent = self._rolled_back(payload.value("num_turns"))
            yield lines.entry("branch", place, uuid, parent=parent, timestamp=at)
        else:
            if kind not in _SIDE_TYPES:
                lines.note_unknown(kind, place)
            yield lines.custom(kind or "line", place, uuid, found.whole(), timestamp=at)
            yield from self._settings(place, line, at, kind, payload)

    def _settings(
        self, place: Place, line: bytes, at: str | None, kind: str, payload: Values
    ) -> Iterator[Translated]:
        """What a line says beside the conversation: a change of model, tokens spent."""
        lines = self.lines
        if kind == "turn_context":
            model, effort = payload.text("model"), payload.text("effort")
            if model and model != self._model:
                self._model = model
                said = {"provider": self._provider, "modelId": model}
                uuid = lines.uuid(None, place, line + b" model")
                yield lines.entry("model_change", place, uuid, said, timestamp=at)
            if effort and effort != self._effort:
                self._effort = effort
                uuid = lines.uuid(None, place, line + b" effort")
                level = {"thinkingLevel": effort}
                yield lines.entry("thinking_level_change", place, uuid, level, timestamp=at)
        elif kind == "event_msg" and payload.text("type") == "token_count":
            told = payload.inside("info")
            total, last = told.value("total_token_usage"), told.value("last_token_usage")
            if isinstance(last, dict) and total != self._spent:  # it is told again and again
                self._spent = total
                spent = {
                    "kind": "turn",
                    "provider": self._provider,
                    "model": self._model,
                    "usage": last,
                }
                uuid = lines.uuid(None, place, line + b" usage")
                yield lines.entry("usage", place, uuid, spent, timestamp=at)

    def _rolled_back(self, turns: Any) -> str:
        """Take back the last turns; the uuid of the entry before them."""
        starts = [n for n, item in enumerate(self._history) if item.prompt is not None]
        if not isinstance(turns, int) or turns <= 0 or not starts:
            return self.lines.leaf
        cut = starts[-turns] if turns < len(starts) else starts[0]
        above = self._history[cut].above
        del self._history[cut:]
        return above

    def _compacted(
        self, place: Place, line: bytes, uuid: str, at: str | None, payload: Values
    ) -> Iterator[Translated]:
        lines = self.lines
        said = payload.text("message") or ""
        replacement = payload.value("replacement_history")
        if not isinstance(replacement, list):
            prompts = [item.prompt for item in self._history if item.prompt is not None]
            told = {"type": "input_text", "text": said}
            replacement = [
                *prompts,
                {"type": "message", "role": "user", "content": [told]},
            ]
        kept = {"summary": said, "firstKeptEntryUuid": uuid}
        yield lines.entry("compaction", place, uuid, kept, timestamp=at)
        silent = lines.uuid(None, place, line + b" edit")
        edit = {"targetUuid": uuid, "replacement": None}
        yield lines.entry("context_edit", place, silent, edit, timestamp=at)
        self._history = []
        for number, item in enumerate(replacement):
            if not isinstance(item, dict) or item.get("type") in _SILENT_ITEMS:
                continue
            item_uuid = lines.uuid(None, place, line + b" %d" % number)
            self._history.append(_Item(lines.leaf, item if _is_prompt(item) else None))
            is_meta = item.get("role") == "user" and not _is_prompt(item)
            fields = {"message": item, **(_META if is_meta else {})}
            yield lines.entry("message", place, item_uuid, fields, timestamp=at)


def _facts(line: Values, meta: Values) -> Facts:
    created = meta.text("timestamp") or line.text("timestamp")
    return Facts(id=meta.text("id"), cwd=meta.text("cwd"), created=created)


def _facts_of_cut_line(head: bytes) -> Facts:
    """What a first line says that goes on beyond what was read of it."""
    start = head.find(b'"payload"')
    brace = head.find(b"{", start)
    if start < 0 or brace < 0:
        return Facts()
    meta = next(first_values(head[brace:].split(b"\n")[0]), Values({}))
    return Facts(id=meta.text("id"), cwd=meta.text("cwd"), created=meta.text("timestamp"))


def _prompt_item(payload: Values, line: Values) -> Any:
    if payload.text("role") != "user" or payload.text("type") != "message":
        return None
    item = line.value("payload")
    return item if _is_prompt(item) else None


def _prompt(payload: Values) -> str | None:
    if payload.text("role") != "user":
        return None
    message = {"role": "user", "content": payload.value("content")}
    return text_of(message).strip() or None if _is_prompt(message) else None


def _is_prompt(item: Any) -> bool:
    """Whether an item is a user message that begins a turn."""
    if not isinstance(item, dict) or item.get("role") != "user":
        return False
    return not text_of(item).lstrip().startswith(_SURROUNDINGS)
