"""A session as a file of the pi coding agent, version 3.

The whole tree is written, entry by entry. Each entry becomes a line of pi's type for it, below the
line of its parent; the last line is the leaf. An entry that pi has no type for becomes a `custom`
entry, `sessiontree:<type>`, which pi keeps and does not show. An entry becomes several lines, one
below the other, if pi stores its message as several, or if it is a merge: pi has no merges, so the
merged messages are repeated.

pi has one message for each result of a tool, and supports text and images with their bytes. Each
message gets the other keys that pi requires: model, usage, time. The current system text is a
section of pi's prompt: pi adds the content of a system message to the earlier ones, but replaces a
section of the same name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from sessiontree.agents import writing
from sessiontree.context.fold import replaced
from sessiontree.context.providers import reading
from sessiontree.context.providers.reading import MessageReader
from sessiontree.context.providers.values import clean_value_noted
from sessiontree.context.settings import header_settings, model_of
from sessiontree.core.blocks import folded_message
from sessiontree.core.entry import HEADER, Entry, edit_of
from sessiontree.core.header import id_in_name
from sessiontree.core.index import NO_ROW, Ancestry, TreeIndex
from sessiontree.core.message import ABORTED, Message, kind_of, role_of, system_text
from sessiontree.core.usage import usage_of

_APIS: Final = {"anthropic": "anthropic-messages", "openai": "openai-responses"}
_STOP_REASONS: Final = frozenset({"stop", "length", "toolUse", "error", "aborted", "deferred"})
_STOP_REASON_OF: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "tool_use": "toolUse",
    "tool_calls": "toolUse",
    "refusal": "error",
}
_ANTHROPIC: Final = frozenset(
    {"tool_use", "tool_result", "redacted_thinking", "server_tool_use", "document"}
)
_FOREIGN_KEYS: Final = ("tool_calls", "function_call", "refusal", "type", "stop_reason")

Model = tuple[str | None, str]
"""The provider, or None if it is not known, and the model's id."""


class PiMessages:
    def __init__(self, losses: writing.Losses) -> None:
        self._losses = losses
        self._reading = MessageReader(losses, None)
        self._tools: dict[str, str] = {}
        self._counted: set[str] = set()

    def of(self, message: Message, model: Model | None, time: int) -> list[dict[str, Any]]:
        """The messages made from one; `time` is the entry's, in milliseconds since 1970."""
        made = [dict(message)] if _is_pi(message) else self._translated(message)
        for each in made:
            self._complete(each, message, model, time)
        return made

    def _translated(self, message: Message) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        last: reading.Side | None = None
        for side, part in self._reading.parts_of(message):
            if isinstance(part, reading.Result):
                made.append(self._result(part))
                last = None
                continue
            block = self._block(part, side)
            if block is None:
                continue
            if side != last:
                role = "assistant" if side == "assistant" else "user"
                made.append({"role": role, "content": []})
                last = side
            made[-1]["content"].append(block)
        return made

    def blocks(self, content: Any, role: str) -> Any:
        """The new content of a message, in the form that its role requires."""
        if isinstance(content, str):
            return content if role in ("user", "custom") else writing.block_list(content)
        if _is_pi({"role": role, "content": content, "toolCallId": ""}):
            return content
        side: reading.Side = "assistant" if role == "assistant" else "user"
        pieces = self._reading.parts_of({"role": side, "content": content})
        own = (part for _, part in pieces if not isinstance(part, reading.Result))
        return [block for part in own if (block := self._block(part, side)) is not None]

    def _result(self, result: reading.Result) -> dict[str, Any]:
        return {
            "role": "toolResult",
            "toolCallId": result.id,
            "toolName": result.name,
            "content": [block for part in result.parts if (block := self._block(part, "user"))],
            "isError": result.failed,
        }

    def _block(self, part: reading.Part, side: reading.Side) -> dict[str, Any] | None:
        if isinstance(part, reading.TextPart):
            return {"type": "text", "text": part.text}
        if isinstance(part, reading.Media):
            return self._media(part, side)
        if isinstance(part, reading.Thinking):
            return _thinking(part)
        if isinstance(part, reading.SentCall):
            called = {"id": part.id, "name": part.name}
            return {"type": "toolCall", **called, "arguments": writing.arguments_of(part)}
        if isinstance(part, reading.ProviderBlock):
            self._losses.add(f"a block of the kind {kind_of(part.block)!r} is left out")
        return None

    def _media(self, media: reading.Media, side: reading.Side) -> dict[str, Any]:
        if media.kind == "image" and media.data and side == "user":
            return {"type": "image", "data": media.data, "mimeType": media.media_type}
        text = self._losses.replaced(media, ": pi needs an image's bytes")
        return {"type": "text", "text": text}

    def _complete(
        self, made: dict[str, Any], message: Message, model: Model | None, time: int
    ) -> None:
        role = made["role"]
        if role == "assistant":
            self._complete_answer(made, message, model)
        elif role == "toolResult":
            made["content"] = writing.block_list(made.get("content"))
            id = str(made["toolCallId"])
            made["toolName"] = made.get("toolName") or self._tools.get(id, "")
            made["isError"] = made.get("isError") is True
        elif role != "bashExecution" and made.get("content") is None:
            made["content"] = []
        at = message.get("timestamp")
        made["timestamp"] = at if isinstance(at, int | float) else time

    def _complete_answer(self, made: dict[str, Any], message: Message, model: Model | None) -> None:
        made["content"] = writing.block_list(made.get("content"))
        calls = [block for block in made["content"] if kind_of(block) == "toolCall"]
        for call in calls:
            self._tools[call["id"]] = call["name"]
        known = model[1] if model else writing.UNKNOWN
        id = writing.text_in(message.get("model")) or known
        provider = writing.provider_of(id, message)
        if provider == writing.UNKNOWN and model is not None and model[1] == id and model[0]:
            provider = model[0]
        made.update(api=_api_of(message, provider), provider=provider, model=id)
        made["usage"] = self._usage(message)
        made["stopReason"] = _stop_reason(message, calls=bool(calls))
        made.pop("partial", None)

    def _usage(self, message: Message) -> dict[str, Any]:
        """The usage; zero if another part of the same response had it."""
        id, reported = writing.text_in(message.get("id")), message.get("usage")
        if id in self._counted:
            reported = None
        elif id and reported is not None:
            self._counted.add(id)
        return _pi_usage(reported)


def _thinking(part: reading.Thinking) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "thinking", "thinking": part.text or part.told}
    if part.item is not None:
        block["thinkingSignature"] = json.dumps(part.item, ensure_ascii=False)
    elif part.seal:
        block["thinkingSignature"] = part.seal
    if part.redacted:
        block["redacted"] = True
    return block


def _api_of(message: Message, provider: str) -> str:
    if given := writing.text_in(message.get("api")):
        return given
    if "tool_calls" in message:
        return "openai-completions"
    return _APIS.get(provider, writing.UNKNOWN)


def _stop_reason(message: Message, *, calls: bool) -> str:
    if message.get("partial"):
        return "aborted"
    given = message.get("stopReason", message.get("stop_reason", message.get("finish_reason")))
    if isinstance(given, str) and given in _STOP_REASONS:
        return given
    return _STOP_REASON_OF.get(str(given), "toolUse" if calls else "stop")


def _pi_usage(reported: Any) -> dict[str, Any]:
    if isinstance(reported, Mapping) and isinstance(reported.get("cost"), Mapping):
        return dict(reported)
    used = usage_of(reported)
    cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": used.cost}
    return {
        "input": used.input,
        "output": used.output,
        "cacheRead": used.cache_read,
        "cacheWrite": used.cache_write,
        "totalTokens": used.input + used.output + used.cache_read + used.cache_write,
        "cost": cost,
    }


def _is_pi(message: Message) -> bool:
    role, content = message.get("role"), message.get("content")
    if role == "bashExecution":
        return isinstance(message.get("command"), str)
    if role == "assistant":
        if any(message.get(key) for key in _FOREIGN_KEYS):
            return False
    elif role == "toolResult":
        if not isinstance(message.get("toolCallId"), str):
            return False
    elif role not in ("user", "custom"):
        return False
    if content is None or isinstance(content, str):
        return True
    return isinstance(content, list) and all(_is_pi_block(block, str(role)) for block in content)


def _is_pi_block(block: Any, role: str) -> bool:
    if not isinstance(block, dict):
        return False
    kind = kind_of(block)
    if kind == "text":
        return isinstance(block.get("text"), str)
    if kind == "image":
        return role != "assistant" and writing.are_texts(block, "data", "mimeType")
    if kind == "thinking":
        return (
            role == "assistant"
            and "signature" not in block
            and writing.are_texts(block, "thinking")
        )
    if kind == "toolCall":
        called = isinstance(block.get("arguments"), dict) and writing.are_texts(block, "id", "name")
        return role == "assistant" and called
    return (
        bool(kind)
        and kind not in writing.OPENAI_BLOCKS | _ANTHROPIC
        and not kind.endswith("_tool_result")
    )


OWN: Final = "sessiontree:"
"""The prefix of a sessiontree type in pi's `customType`."""

VERSION: Final = 3

_STRUCTURE: Final = frozenset(
    {"type", "uuid", "parentUuid", "lane", "timestamp", "crc", "spilled", "metadata"}
)
_UNCHANGED: Final = frozenset({"thinking_level_change", "usage", "custom"})
_SUMMARY_KEYS: Final = ("details", "usage", "fromHook")
_SUMMARY: Final = ("summary", "fromUuid", *_SUMMARY_KEYS)
_COMPACTION: Final = ("summary", "firstKeptEntryUuid", "tokensBefore", "state", "systemMessage")
_WRITTEN_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "message": ("message",),
    "handle": ("handle", "kind", "role", "preview"),
    "block": ("messageUuid", "index", "block"),
    "model_change": ("provider", "modelId"),
    "compaction": (*_COMPACTION, *_SUMMARY_KEYS),
    "branch_summary": _SUMMARY,
    "stack_summary": _SUMMARY,
    "merge": ("summary", "mergedUuid", "baseUuid", *_SUMMARY_KEYS),
}
"""The keys that are written beside `metadata`, by type; other keys are losses."""

_EDITABLE: Final = frozenset({"user", "assistant", "toolResult", "custom"})
_ID_LENGTH: Final = 8
_ID: Final = re.compile(r"[0-9a-f]{8}")


_STEPS: Final = 30
"""The steps up the tree that cost as much as an entry that is repeated."""


class PiWriter:
    def __init__(self, source: writing.SessionSource) -> None:
        self._source = source
        self._losses = source.losses
        self._tree = source.tree
        count = len(self._tree)
        self._ids = PiIds()
        self._ancestry: Ancestry | None = None
        self._steps = 0
        self._messages = PiMessages(self._losses)
        self._firsts: list[str | None] = [None] * count
        self._tips: list[str | None] = [None] * count
        self._models: list[Model | None] = [None] * count
        self._systems: list[str | None] = [None] * count
        self._pieces = _pieces_of(source)
        self._targets = {
            str(source.stored(row).get("targetUuid"))
            for row in self._tree.rows_of_type("context_edit")
        }
        self._written: dict[str, dict[int, list[tuple[str, str]]]] = {}
        self._last: str | None = None
        self._time = writing.LONG_AGO

    @property
    def session_id(self) -> str:
        return self._source.id or self._source.header.uuid

    @property
    def default_name(self) -> str:
        at = re.sub(r"[:.]", "-", self._source.header.timestamp or writing.LONG_AGO)
        return id_in_name(re.sub(r"[^\w.\-]+", "-", f"{at}_{self._source.id}")) + ".jsonl"

    def beside(self, name: str) -> list[writing.SideFile]:
        return []

    def blocks(self) -> Iterator[bytes]:
        """The lines of the file, each with its LF."""
        source = self._source
        header = source.header
        self._time = header.timestamp or writing.LONG_AGO
        yield writing.json_of(self._header(header)) + b"\n"
        yield from self._placed(0, header, self._opening(header), None)
        for row in writing.resolved_ahead(source, source.rows()):
            parent = self._tree.parents[row]
            above = max(parent, 0)  # an entry without a parent has the header's settings
            self._models[row] = self._models[above]
            self._systems[row] = self._systems[above]
            entry = source.entry(row)
            self._losses.uuid = entry.uuid
            if entry.lane is not None:
                lane = f"the lane {entry.lane!r}: pi has no lanes, so its entries are a branch"
                self._losses.add(lane)
            made = self._converted(entry, row)
            yield from self._placed(row, entry, made, None if parent == NO_ROW else parent)
        leaf = self._tips[source.leaf]
        if self._last != leaf:
            place = self._tree.uuids[source.leaf]
            id = self._ids.new(source.derived_uuid(place, 0))
            yield self._line(OWN + "leaf", id, leaf, {}, place)

    def _header(self, header: Entry) -> dict[str, Any]:
        origin = header.get("parentSession")
        above = origin.get("file") if isinstance(origin, dict) else origin
        metadata = header.get("metadata")
        if above is None and isinstance(metadata, dict):
            above = metadata.get("parentSession")  # of a session that pi wrote
        return {
            "type": HEADER,
            "version": VERSION,
            "id": self.session_id,
            "timestamp": self._time,
            "cwd": writing.text_in(header.get("cwd")),
            **({"parentSession": above} if isinstance(above, str) and above else {}),
            **self._source.origin_at(header.uuid, {"type": HEADER}),
        }

    def _opening(self, header: Entry) -> list[_PiLine]:
        """The lines for what pi's header does not hold."""
        made: list[_PiLine] = []
        facts = {key: header[key] for key in ("metadata", "parentSession") if key in header}
        if facts:
            made.append(_PiLine("custom", {"customType": OWN + HEADER, "data": facts}))
        if isinstance(name := header.get("name"), str):
            made.append(_PiLine("session_info", {"name": name}))
        settings = header_settings(header.body)
        model = settings.get("model")
        if isinstance(model, dict) and isinstance(model.get("modelId"), str):
            made.append(_PiLine("model_change", self._model(0, model)))
        if "thinkingLevel" in settings:
            level = {"thinkingLevel": settings["thinkingLevel"]}
            made.append(_PiLine("thinking_level_change", level))
        if "system" in settings:
            self._systems[0] = settings["system"]
            made.append(_PiLine("message", {"message": self._prompt(0, header, {})}))
        return made

    def _placed(
        self, row: int, entry: Entry, made: list[_PiLine], parent: int | None
    ) -> Iterator[bytes]:
        tip = None if parent is None else self._tips[parent]
        self._time = entry.timestamp or self._time
        if isinstance(entry.get("metadata"), dict) and row and made:
            made[0].fields.setdefault("metadata", entry["metadata"])
        for number, (kind, fields, of) in enumerate(made):
            id = self._ids.new(entry.uuid)
            if not number:
                self._firsts[row] = id
            if fields.get("firstKeptEntryId", "") is None:
                fields["firstKeptEntryId"] = id
            place = of[-1] if of and entry.type in writing.PIECES else entry.uuid
            yield self._line(kind, id, tip, fields, place)
            tip = id
            for uuid in self._targets.intersection((entry.uuid, *of)):
                self._note_written(uuid, row, id, kind, fields)
        self._tips[row] = tip

    def _line(
        self, kind: str, id: str, parent: str | None, fields: Mapping[str, Any], place: str
    ) -> bytes:
        """A line; `place` is the entry below which its continuation belongs."""
        if kind.startswith(OWN):
            kind, fields = "custom", {"customType": kind, **fields}
        if kind != "custom":
            fields = clean_value_noted(fields, self._losses)
        head = {"type": kind, "id": id, "parentId": parent, "timestamp": self._time}
        self._last = id
        try:
            line = {**head, **fields}
            return writing.json_of({**line, **self._source.origin_at(place, line)}) + b"\n"
        except RecursionError:
            self._losses.add("an entry that is nested too deeply for JSON is left empty")
            return writing.json_of({**head, "type": "custom", "customType": OWN + "deep"}) + b"\n"

    def _note_written(
        self, uuid: str, row: int, id: str, kind: str, fields: Mapping[str, Any]
    ) -> None:
        if kind == "custom":  # which is in no context
            return
        role = "custom" if kind == "custom_message" else kind
        if kind == "message":
            role = role_of(fields["message"])
        self._written.setdefault(uuid, {}).setdefault(row, []).append((id, role))

    def _converted(self, entry: Entry, row: int) -> list[_PiLine]:
        """The lines of an entry; none for a piece whose message is written elsewhere."""
        kind = entry.type
        if kind in _WRITTEN_KEYS:
            self._losses.keys(entry, (*_WRITTEN_KEYS[kind], "metadata"))
        if kind in writing.PIECES:
            return self._piece(entry, row)
        convert = _CONVERTERS.get(kind)
        if convert is not None:
            return convert(self, entry, row)
        if kind in _UNCHANGED:
            return [_PiLine(kind, _fields_of(entry))]
        if kind == "branch" and entry.get("name") is not None:
            self._losses.add("the name of a branch")
        elif kind != "branch":
            self._losses.add(f"a {kind} is a custom entry, which pi does not show")
        return [_as_custom(entry)]

    def _message(self, entry: Entry, row: int) -> list[_PiLine]:
        message = entry.get("message")
        if not isinstance(message, dict):
            self._losses.add("an entry without a message is a custom entry")
            return [_as_custom(entry)]
        return self._of_message(message, entry, row) or [_as_custom(entry)]

    def _of_message(self, message: Message, entry: Entry, row: int) -> list[_PiLine]:
        if message.get("role") == "system":
            self._systems[row] = system_text(message)
            kept = {key: message[key] for key in ("toolsAdded", "toolsRemoved") if key in message}
            return [_PiLine("message", {"message": self._prompt(row, entry, kept)})]
        if message.get("partial") and message.get("stopReason") != ABORTED:
            self._losses.add("a partial message is marked as aborted")
        made = self._messages.of(message, self._models[row], writing.milliseconds(entry.timestamp))
        model = model_of(message) if message.get("role") == "assistant" else None
        if model is not None:
            self._model(row, model)
        if not made and entry.uuid in self._targets:  # an edit may give it content
            role = "assistant" if role_of(message) == "assistant" else "user"
            made = self._messages.of({"role": role, "content": []}, self._models[row], 0)
        elif not made:
            self._losses.add("a message without content for a model is a custom entry")
        return [_PiLine("message", {"message": each}) for each in made]

    def _prompt(self, row: int, entry: Entry, more: Mapping[str, Any]) -> dict[str, Any]:
        """The current system text, as a section that a later one of the same name replaces."""
        sections = {"system": self._systems[row] or ""}
        at = writing.milliseconds(entry.timestamp)
        return {"role": "system", "content": "", "sections": sections, **more, "timestamp": at}

    def _model(self, row: int, model: Mapping[str, Any]) -> dict[str, Any]:
        """Note the current model; the fields that name it."""
        id = str(model.get("modelId"))
        provider = model.get("provider")
        self._models[row] = (provider if isinstance(provider, str) else None, id)
        return {"provider": writing.provider_of(id, model), "modelId": id}

    def _model_change(self, entry: Entry, row: int) -> list[_PiLine]:
        if not isinstance(entry.get("modelId"), str):
            return [_as_custom(entry)]
        return [_PiLine("model_change", self._model(row, entry.body))]

    def _handle(self, entry: Entry, row: int) -> list[_PiLine]:
        self._losses.add("a handle is replaced by its current content")
        return self._of_message(self._source.resolved(entry), entry, row) or [_as_custom(entry)]

    def _piece(self, entry: Entry, row: int) -> list[_PiLine]:
        members = self._pieces.get(row)
        if members is None:
            self._losses.add("a piece of a streamed message that another branch has is left out")
            return []
        if not members or members[0] != row:
            return []
        message = folded_message([self._source.entry(member) for member in members])
        pieces = tuple(self._tree.uuids[member] for member in members)
        return [line._replace(of=pieces) for line in self._of_message(message, entry, row)]

    def _compaction(self, entry: Entry, row: int) -> list[_PiLine]:
        state = entry.get("state")
        if isinstance(state, dict) and isinstance(state.get("system", 0), str | None):
            self._systems[row] = state["system"]
        tokens = entry.get("tokensBefore")
        fields: dict[str, Any] = {
            "summary": writing.text_in(entry.get("summary")),
            "firstKeptEntryId": self._first_kept(entry, row),
            "tokensBefore": tokens if isinstance(tokens, int) else 0,
            **_summary_fields(entry),
        }
        message = entry.get("systemMessage")  # of a compaction that pi wrote
        tools = message.get("toolsAdded") if isinstance(message, dict) else None
        kept = {"toolsAdded": tools} if isinstance(tools, list) else {}
        if self._systems[row] or kept:
            fields["systemMessage"] = self._prompt(row, entry, kept)
        return [_PiLine("compaction", fields)]

    def _first_kept(self, entry: Entry, row: int) -> str | None:
        """The id of the first kept line; None to keep nothing."""
        wanted = entry.get("firstKeptEntryUuid")
        if wanted == entry.uuid:
            return None
        if not self._tree.has_duplicates and not self._pieces:
            target = self._tree.row(wanted) if isinstance(wanted, str) else NO_ROW
            self._ancestry = self._ancestry or Ancestry(self._tree)
            is_above = target != NO_ROW and self._ancestry.is_above(target, row)
            if is_above and self._firsts[target] is not None:
                return self._firsts[target]
            if not is_above and not isinstance(self._source.header.get("parentSession"), dict):
                self._keep_nothing()
                return None
        kept: str | None = None
        topmost = row
        for above in self._tree.rows_up(self._tree.parents[row]):
            kept = self._firsts[above] or kept
            self._steps += 1
            if self._steps % _STEPS == 0:
                self._source.room.take()
            if self._tree.uuids[above] == wanted:
                return self._whole_of(above) or kept
            topmost = above or topmost
        origin = self._source.header.get("parentSession")
        if isinstance(origin, dict) and (
            origin.get("cutAbove") is True or origin.get("uuid") == self._tree.uuids[topmost]
        ):
            return kept
        self._keep_nothing()
        return None

    def _keep_nothing(self) -> None:
        self._losses.add("a compaction whose first kept entry is not on its path keeps nothing")

    def _whole_of(self, row: int) -> str | None:
        """The id of a streamed message, for a row that is a later piece of it; else None."""
        members = self._pieces.get(row)
        if not members or members[0] == row:
            return None
        self._losses.add("a compaction that kept part of a message keeps the whole message")
        return self._firsts[members[0]]

    def _summary(self, entry: Entry, row: int) -> list[_PiLine]:
        if entry.type != "branch_summary":
            self._losses.add(f"a {entry.type} is a branch_summary")
        left = entry.get("mergedUuid" if entry.type == "merge" else "fromUuid")
        summary = writing.text_in(entry.get("summary"))
        fields = {"fromId": self._id_of(left), "summary": summary, **_summary_fields(entry)}
        return [_PiLine("branch_summary", fields)]

    def _id_of(self, uuid: Any) -> str | None:
        row = self._tree.row(uuid) if isinstance(uuid, str) else NO_ROW
        return None if row == NO_ROW else self._tips[row]

    def _merge(self, entry: Entry, row: int) -> list[_PiLine]:
        if entry.get("summary") is not None:
            return self._summary(entry, row)
        self._losses.add("a merge: its messages are repeated in its place")
        made = [_as_custom(entry)]
        before = self._models[row]
        for message, merged in self._source.merged(entry):
            if message.get("role") != "system":
                contributed = self._contributed(message, merged, row)
                made.extend(line._replace(of=(merged.uuid,)) for line in contributed)
        if before is not None and self._models[row] != before:
            model = {"provider": before[0], "modelId": before[1]}
            made.append(_PiLine("model_change", self._model(row, model)))
        return made

    def _contributed(self, message: Message, entry: Entry, row: int) -> list[_PiLine]:
        role = message.get("role")
        summary = message.get("summary")
        if role in ("branchSummary", "compactionSummary") and isinstance(summary, str):
            left = message.get("fromUuid", message.get("mergedUuid", entry.uuid))
            return [_PiLine("branch_summary", {"fromId": self._id_of(left), "summary": summary})]
        return self._of_message(message, entry, row)

    def _custom_message(self, entry: Entry, row: int) -> list[_PiLine]:
        content = self._messages.blocks(entry.get("content"), "custom")
        display = entry.get("display")
        fields = {**_fields_of(entry), "content": content, "display": display is True}
        return [_PiLine("custom_message", fields)]

    def _label(self, entry: Entry, row: int) -> list[_PiLine]:
        target = self._id_of(entry.get("targetUuid"))
        if target is None:
            self._losses.add("a label of an entry that pi does not have is a custom entry")
            return [_as_custom(entry)]
        return [_PiLine("label", {**_fields_of(entry, "targetUuid"), "targetId": target})]

    def _session_info(self, entry: Entry, row: int) -> list[_PiLine]:
        named = isinstance(entry.get("name"), str)
        return [_PiLine("session_info", _fields_of(entry)) if named else _as_custom(entry)]

    def _context_edit(self, entry: Entry, row: int) -> list[_PiLine]:
        target, replacement = edit_of(entry) or ("", None)
        made: list[_PiLine] = []
        written = self._written.get(target, {})
        edited = self._edited(target, replacement) if written and replacement is not None else []
        for lines in written.values():
            left = list(edited)
            for id, role in lines:
                if replacement is not None and role not in _EDITABLE:
                    self._losses.add(f"an edit of a {role}, which pi does not edit, has no effect")
                    continue
                new = next((each for each in left if each["role"] == role), None)
                if new is not None:
                    left.remove(new)
                edit = None if new is None else {"content": new["content"]}
                made.append(_PiLine("context_edit", {"targetId": id, "replacement": edit}))
        return made or [_as_custom(entry)]

    def _edited(self, uuid: str, replacement: Any) -> list[dict[str, Any]]:
        """The messages made from an edited entry; none for a type that pi does not edit."""
        row = self._tree.row(uuid)
        entry = self._source.entry(row)
        message: Message = {"role": "custom", "content": None}
        if entry.type == "message":
            message = entry["message"]
        elif entry.type == "handle":
            message = self._source.resolved(entry)
        elif entry.type in writing.PIECES:
            message = {"role": "assistant", "content": None}
        elif entry.type != "custom_message":
            return []
        edited = replaced(message, replacement)
        return [] if edited is None else self._messages.of(edited, self._models[row], 0)


_CONVERTERS: Final[dict[str, Callable[[PiWriter, Entry, int], list[_PiLine]]]] = {
    "message": PiWriter._message,
    "model_change": PiWriter._model_change,
    "handle": PiWriter._handle,
    "compaction": PiWriter._compaction,
    "branch_summary": PiWriter._summary,
    "stack_summary": PiWriter._summary,
    "merge": PiWriter._merge,
    "custom_message": PiWriter._custom_message,
    "label": PiWriter._label,
    "session_info": PiWriter._session_info,
    "context_edit": PiWriter._context_edit,
}


class _PiLine(NamedTuple):
    """A line without its place in the tree; `of` names further entries whose content it has."""

    type: str
    fields: dict[str, Any]
    of: tuple[str, ...] = ()


def _fields_of(entry: Entry, *without: str) -> dict[str, Any]:
    return {k: v for k, v in entry.body.items() if k not in _STRUCTURE and k not in without}


def _summary_fields(entry: Entry) -> dict[str, Any]:
    return {key: entry[key] for key in _SUMMARY_KEYS if key in entry}


def _as_custom(entry: Entry) -> _PiLine:
    fields = _fields_of(entry)
    return _PiLine(
        "custom", {"customType": OWN + entry.type, **({"data": fields} if fields else {})}
    )


class PiIds:
    """Makes ids of eight hexadecimal digits, each once."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._next_number: dict[str, int] = {}

    def new(self, uuid: str) -> str:
        """An id for an entry: the start of its uuid if that is free."""
        id, number = uuid[:_ID_LENGTH], self._next_number.get(uuid, 0)
        while id in self._used or _ID.fullmatch(id) is None:
            name = f"{uuid}\n{number}".encode("utf-8", "surrogatepass")
            id = hashlib.sha256(name).hexdigest()[:_ID_LENGTH]
            number += 1
        self._next_number[uuid] = number
        self._used.add(id)
        return id


def _pieces_of(source: writing.SessionSource) -> dict[int, list[int]]:
    """For each piece of a message, the rows of all: those on the current path, or the last's."""
    tree = source.tree
    groups: dict[str, list[int]] = {}
    for row in tree.rows_of_type(*writing.PIECES):
        named = source.stored(row).get("messageUuid")
        groups.setdefault(named if isinstance(named, str) else "", []).append(row)
    current = {row: n for n, row in enumerate(tree.rows_up(source.leaf))} if groups else {}
    found: dict[int, list[int]] = {}
    for rows in groups.values():
        above = current if any(row in current for row in rows) else _above(tree, rows)
        written = sorted((row for row in rows if row in above), key=above.__getitem__, reverse=True)
        found.update(dict.fromkeys(written, written))
    return found


def _above(tree: TreeIndex, rows: list[int]) -> dict[int, int]:
    """The distance upwards from the last row to each row of its path, up to the topmost given."""
    missing = set(rows)
    found: dict[int, int] = {}
    for steps, row in enumerate(tree.rows_up(rows[-1])):
        found[row] = steps
        missing.discard(row)
        if not missing:
            break
    return found
