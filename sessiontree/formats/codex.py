"""Codex rollouts: `~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl`, or `.jsonl.zst`.

A line is `{timestamp, type, payload}`. `session_meta` comes first. `response_item`s are the
conversation, as items of OpenAI Responses. `turn_context` names the model and the effort.
`compacted` replaces the history before it. An `event_msg` is for the terminal and adds nothing to a
context, except that `thread_rolled_back` takes back the last turns.

The file is linear: the parent of an entry is the entry before it. A rollback becomes a `branch`
below the entry before the turns taken back. A `compacted` line becomes a compaction that keeps
nothing, a `context_edit` that removes its summary, and the history that replaces it:
`replacement_history`, or in older versions the prompts so far and then the summary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from sessiontree.core.message import text_of
from sessiontree.errors import TooMuchError
from sessiontree.formats import base

_TYPES: Final = frozenset(
    {"session_meta", "response_item", "event_msg", "turn_context", "compacted"}
)
_SIDE_TYPES: Final = _TYPES | {"world_state", "inter_agent_communication"}
_SILENT_ITEMS: Final = frozenset({"ghost_snapshot", "other"})
"""Items that Codex does not send to a model."""

_GENERATED: Final = (
    *("<environment_context>", "<user_instructions>", "# AGENTS.md instructions"),
    *("<turn_aborted>", "<user_shell_command>", "<skill>", "<subagent_notification>"),
)
"""The starts of user messages that Codex generates; they begin no turn."""

_META: Final = {"metadata": {"isMeta": True}}


MOST_REPEATED: Final = 30_000
"""The prompts that compactions of older versions may repeat, each all prompts before it."""


class Codex:
    name = "codex"
    program = "Codex"

    def recognises(self, head: bytes) -> bool:
        """Whether the first line has a type of Codex and a payload."""
        first = next(base.first_values(head), None)
        if first is None or first.text("type") not in _TYPES:
            return False
        return "payload" in first or b'"payload"' in head

    def facts(self, head: bytes, tail: bytes) -> base.Facts:
        facts = base.Facts()
        first: str | None = None
        for line in head.split(b"\n"):
            found = base.values(line)
            if found is None:
                continue
            payload = found.inside("payload")
            if found.text("type") == "session_meta" and facts.id is None:
                facts = _facts(found, payload)
            elif first is None and found.text("type") == "response_item":
                first = _prompt_text(payload)
                if first is not None and facts.id is not None:
                    break
        if facts.id is None:
            facts = _facts_of_cut_line(head)
        return base.Facts(facts.id, facts.cwd, None, first, facts.created)

    def translate(self, source: base.Source, report: base.Report) -> Iterator[base.Translated]:
        rollout: _Rollout | None = None
        for line in base.numbered(source):
            if rollout is None:
                found = base.values(line.text) or base.Values({})
                payload = found.inside("payload")
                is_meta = found.text("type") == "session_meta"
                facts = _facts(found, payload) if is_meta else base.Facts()
                lines = base.Lines(self, report, facts.id or "")
                rollout = _Rollout(lines, payload.text("model_provider"), source.name)
                yield rollout.header(line.place, facts, payload if is_meta else base.Values({}))
                if is_meta:
                    continue
            yield from rollout.translated(line)


class _Item(NamedTuple):
    """An item of the current history: the uuid of the entry before it, and the prompt if any."""

    parent: str
    prompt: Any


class _Rollout:
    def __init__(self, lines: base.Lines, provider: str | None, name: str) -> None:
        self.lines = lines
        self._provider = provider
        self._name = name
        self._history: list[_Item] = []
        self._model: str | None = None
        self._effort: str | None = None
        self._usage: Any = None
        self._repeated = 0

    def header(self, place: base.Place, facts: base.Facts, meta: base.Values) -> base.Translated:
        given = meta.value("base_instructions")
        text = given.get("text") if isinstance(given, dict) else given
        return self.lines.header(
            place,
            facts,
            provider=self._provider,
            system=text if isinstance(text, str) else meta.text("instructions"),
            agentVersion=meta.text("cli_version"),
            forkedFrom=meta.text("forked_from_id"),
            git=meta.value("git"),
        )

    def translated(self, line: base.SourceLine) -> Iterator[base.Translated]:
        lines = self.lines
        found = base.values(line.text)
        if found is None:
            yield from lines.not_an_object(line)
            return
        kind, payload = found.text("type") or "", found.inside("payload")
        uuid = lines.uuid(None, line)
        at = found.text("timestamp")
        if kind == "response_item" and payload.text("type") not in (*_SILENT_ITEMS, None):
            prompt = _prompt_item(payload, found)
            self._history.append(_Item(lines.leaf, prompt))
            fields: dict[str, Any] = {"message": found.fragment("payload")}
            if prompt is None and payload.text("role") == "user":
                fields |= _META
            yield lines.entry("message", line, uuid, fields, timestamp=at)
        elif kind == "compacted":
            yield from self._compacted(line, uuid, at, payload)
        elif kind == "event_msg" and payload.text("type") == "thread_rolled_back":
            parent = self._rolled_back(payload.value("num_turns"))
            yield lines.entry("branch", line, uuid, parent=parent, timestamp=at)
        else:
            if kind not in _SIDE_TYPES:
                lines.note_unknown(kind, line.place)
            yield lines.custom(kind or "line", line, uuid, found.as_fragment(), timestamp=at)
            yield from self._settings(line, at, kind, payload)

    def _settings(
        self, line: base.SourceLine, at: str | None, kind: str, payload: base.Values
    ) -> Iterator[base.Translated]:
        """The changes of the model and the effort, and the usage, that a line reports."""
        if kind == "turn_context":
            model, effort = payload.text("model"), payload.text("effort")
            if model and model != self._model:
                self._model = model
                fields: dict[str, Any] = {"provider": self._provider, "modelId": model}
                yield self._extra("model_change", line, b" model", fields, at)
            if effort and effort != self._effort:
                self._effort = effort
                fields = {"thinkingLevel": effort}
                yield self._extra("thinking_level_change", line, b" effort", fields, at)
        elif kind == "event_msg" and payload.text("type") == "token_count":
            info = payload.inside("info")
            total, last = info.value("total_token_usage"), info.value("last_token_usage")
            if isinstance(last, dict) and total != self._usage:  # Codex repeats the same count
                self._usage = total
                model_of_turn = {"provider": self._provider, "model": self._model}
                fields = {"kind": "turn", **model_of_turn, "usage": last}
                yield self._extra("usage", line, b" usage", fields, at)

    def _extra(
        self, kind: str, line: base.SourceLine, name: bytes, fields: dict[str, Any], at: str | None
    ) -> base.Translated:
        """One more entry made from a line; `name` determines its uuid."""
        uuid = self.lines.uuid(None, line, name)
        return self.lines.entry(kind, line, uuid, fields, timestamp=at)

    def _rolled_back(self, turns: Any) -> str:
        """Remove the last turns from the history; the uuid of the entry before them."""
        starts = [n for n, item in enumerate(self._history) if item.prompt is not None]
        if not isinstance(turns, int) or turns <= 0 or not starts:
            return self.lines.leaf
        cut = starts[-turns] if turns < len(starts) else starts[0]
        parent = self._history[cut].parent
        del self._history[cut:]
        return parent

    def _compacted(
        self, line: base.SourceLine, uuid: str, at: str | None, payload: base.Values
    ) -> Iterator[base.Translated]:
        lines = self.lines
        summary = payload.text("message") or ""
        replacement = payload.value("replacement_history")
        if not isinstance(replacement, list):
            prompts = [item.prompt for item in self._history if item.prompt is not None]
            self._repeated += len(prompts)
            if self._repeated > MOST_REPEATED:
                raise TooMuchError(
                    f"{self._name}, line {line.place.number}: the compactions up to this line "
                    f"repeat prompts more than {MOST_REPEATED:,} times; remove compactions from a "
                    "copy, and open the copy"
                )
            text = {"type": "input_text", "text": summary}
            replacement = [*prompts, {"type": "message", "role": "user", "content": [text]}]
        fields: dict[str, Any] = {"summary": summary, "firstKeptEntryUuid": uuid}
        yield lines.entry("compaction", line, uuid, fields, timestamp=at)
        fields = {"targetUuid": uuid, "replacement": None}
        yield self._extra("context_edit", line, b" edit", fields, at)
        self._history = []
        for number, item in enumerate(replacement):
            if not isinstance(item, dict) or item.get("type") in _SILENT_ITEMS:
                continue
            is_prompt = _is_prompt(item)
            self._history.append(_Item(lines.leaf, item if is_prompt else None))
            is_meta = item.get("role") == "user" and not is_prompt
            fields = {"message": item, **(_META if is_meta else {})}
            yield self._extra("message", line, b" %d" % number, fields, at)


def _facts(line: base.Values, meta: base.Values) -> base.Facts:
    created = meta.text("timestamp") or line.text("timestamp")
    return base.Facts(id=meta.text("id"), cwd=meta.text("cwd"), created=created)


def _facts_of_cut_line(head: bytes) -> base.Facts:
    """The facts in a first line that is longer than the head."""
    start = head.find(b'"payload"')
    brace = head.find(b"{", start)
    line = head[brace:].split(b"\n")[0] if start >= 0 and brace >= 0 else b""
    nothing = base.Values({})
    return _facts(nothing, next(base.first_values(line), nothing))


def _prompt_item(payload: base.Values, line: base.Values) -> Any:
    if payload.text("role") != "user" or payload.text("type") != "message":
        return None
    item = line.value("payload")
    return item if _is_prompt(item) else None


def _prompt_text(payload: base.Values) -> str | None:
    if payload.text("role") != "user":
        return None
    message = {"role": "user", "content": payload.value("content")}
    return base.prompt_text(message) if _is_prompt(message) else None


def _is_prompt(item: Any) -> bool:
    if not isinstance(item, dict) or item.get("role") != "user":
        return False
    return not text_of(item).lstrip().startswith(_GENERATED)
