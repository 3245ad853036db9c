"""Checkpoints of a thread in its session, and their values as JSON.

A checkpoint is an entry with a key made of its namespace and its id, so a search of the file from
its end finds the checkpoint and its pending writes together. It names the checkpoints that hold the
values that it does not hold itself.

A value that JSON can carry is kept as it is. A message of LangChain is a message of the session,
and what such a message has no place for is beside it. Anything else is kept as the serializer of
the saver writes it.

Invariants: what is newest is found without a look at the rest of the file; a checkpoint that was
hidden is found by its key, but is not listed; `decoded` gives a value equal to the one that
`encoded` got; `restored` gives a message equal to the one that `translated` got. With another
serializer than `JsonPlusSerializer`, which may encrypt, nothing is kept in plain text.

Source: `langchain_core.messages` 1.7, and the serializers of langgraph-checkpoint 4.3.
"""

from __future__ import annotations

import math
import re
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy, deepcopy
from functools import cache
from hashlib import blake2b
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, cast

import msgspec

from sessiontree.adapters.base import LANGGRAPH, damaged, up
from sessiontree.core.entry import Entry
from sessiontree.core.message import json_text
from sessiontree.errors import CorruptionError, EntryError
from sessiontree.session import Session

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.serde.base import SerializerProtocol


try:
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
except ImportError as error:
    raise LANGGRAPH.unknown(error) from error

Json = dict[str, Any]

_KINDS: Final[Mapping[str, type[BaseMessage]]] = {
    kind.__name__: kind for kind in (AIMessage, HumanMessage, SystemMessage, ToolMessage)
}
_ROLES: Final = {"ai": "assistant", "system": "system", "tool": "toolResult", "function": "user"}
_MAX: Final = 1 << 63


def encoded(value: Any, serde: SerializerProtocol) -> Json:
    """The value as JSON."""
    if _is_open(serde):
        if _is_plain(value):
            return {"json": value}
        if isinstance(value, BaseMessage):
            return {"message": list(translated(value, serde))}
        if type(value) is list:
            return {"list": [encoded(item, serde) for item in value]}
        if type(value) is dict and all(type(key) is str and _is_text(key) for key in value):
            return {"dict": {key: encoded(item, serde) for key, item in value.items()}}
    return {"serde": _dumped(value, serde)}


def decoded(kept: Json, serde: SerializerProtocol) -> Any:
    """The value that `encoded` made JSON of."""
    if "json" in kept:
        return kept["json"]
    if "message" in kept:
        shown, beside = kept["message"]
        return restored(shown, beside, serde)
    if "list" in kept:
        return [decoded(item, serde) for item in kept["list"]]
    if "dict" in kept:
        return {key: decoded(item, serde) for key, item in kept["dict"].items()}
    return _loaded(kept["serde"], serde)


def are_messages(value: Any, serde: SerializerProtocol) -> bool:
    """True if a value is a list of messages that may be kept in plain text."""
    return (
        type(value) is list
        and bool(value)
        and _is_open(serde)
        and all(isinstance(item, BaseMessage) for item in value)
    )


def translated(message: BaseMessage, serde: SerializerProtocol) -> tuple[Json, Json]:
    """The message of a session for a message, and what is kept beside it."""
    shown = _shown(message)
    if type(message).__name__ in _KINDS and not message.__pydantic_extra__:
        kept = _rest(message, shown)
        if kept is not None and _built(shown, kept) == message:
            return shown, kept
    return shown, {"serde": _dumped(message, serde)}


def restored(shown: Mapping[str, Any], kept: Mapping[str, Any], serde: SerializerProtocol) -> Any:
    """The message that `translated` got."""
    return _loaded(kept["serde"], serde) if "serde" in kept else _built(shown, kept)


def _is_open(serde: SerializerProtocol) -> bool:
    return type(serde) is JsonPlusSerializer


def _dumped(value: Any, serde: SerializerProtocol) -> list[str]:
    try:
        kind, content = serde.dumps_typed(value)
    except (TypeError, ValueError) as error:
        name = type(value).__name__
        raise EntryError(f"the serializer cannot write a value of type {name}: {error}") from error
    return [kind, b64encode(content).decode()]


def _loaded(kept: Sequence[str], serde: SerializerProtocol) -> Any:
    return serde.loads_typed((kept[0], b64decode(kept[1])))


def _is_plain(value: Any, depth: int = 0) -> bool:
    """True if JSON gives the very same value back."""
    kind = type(value)
    if value is None or kind is bool:
        return True
    if kind is str:
        return _is_text(value)
    if kind is int:
        return bool(-_MAX <= value < _MAX)
    if kind is float:
        return math.isfinite(value)
    if depth == 64:
        return False
    if kind is list:
        return all(_is_plain(item, depth + 1) for item in value)
    return kind is dict and all(
        type(key) is str and _is_text(key) and _is_plain(item, depth + 1)
        for key, item in value.items()
    )


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(message: BaseMessage) -> Json:
    calls = _calls(message)
    content = _content(message.content)
    if calls:
        before = [{"type": "text", "text": content}] if isinstance(content, str) else content
        content = [*(before if content else []), *calls]
    shown: Json = {"role": _ROLES.get(message.type, "user"), "content": content}
    if isinstance(message, ToolMessage):
        shown["toolCallId"] = message.tool_call_id
        shown["toolName"] = message.name or ""
        shown["isError"] = message.status == "error"
    elif isinstance(message, AIMessage):
        shown.update(_facts(message))
    return shown


def _content(content: Any) -> Any:
    if isinstance(content, str):
        return content if _is_text(content) else ascii(content)
    blocks = [{"type": "text", "text": item} if isinstance(item, str) else item for item in content]
    if all(type(block) is dict and isinstance(block.get("type"), str) for block in blocks) and (
        _is_plain(blocks)
    ):
        return blocks
    return json_text(content) if _is_plain(content) else ascii(content)


def _calls(message: BaseMessage) -> list[Json]:
    """The calls of an answer as blocks, unless its content has them."""
    if not isinstance(message, AIMessage) or not _is_plain(message.tool_calls):
        return []
    content = message.content
    if isinstance(content, list) and any(
        isinstance(item, dict) and "id" in item for item in content
    ):
        return []
    if not all(isinstance(call.get("id"), str) for call in message.tool_calls):
        return []
    return [
        {"type": "toolCall", "id": call["id"], "name": call["name"], "arguments": call["args"]}
        for call in message.tool_calls
    ]


def _rest(message: BaseMessage, shown: Json) -> Json | None:
    """What the shown message has no place for; None if JSON cannot carry it."""
    usual = _usual(type(message))
    rest = {
        key: value
        for key, value in message.__dict__.items()
        if key not in ("content", "type") and (key not in usual or value != usual[key])
    }
    kept: Json = {"is": type(message).__name__, "fields": rest}
    if isinstance(message, ToolMessage):
        del rest["tool_call_id"]
    calls = _calls(message)
    if calls:
        kept["calls"] = len(calls)
        del rest["tool_calls"]
    before = shown["content"][: -len(calls)] if calls else shown["content"]
    if calls and isinstance(message.content, str):
        before = before[0]["text"] if before else ""
    if before == message.content:
        kept["text"] = bool(calls) and isinstance(message.content, str)
    else:
        rest["content"] = message.content
    return kept if _is_plain(kept) else None


def _built(shown: Mapping[str, Any], kept: Mapping[str, Any]) -> BaseMessage:
    kind = _KINDS[kept["is"]]
    fields = {key: copy(value) for key, value in _usual(kind).items()} | kept["fields"]
    count, content = kept.get("calls", 0), shown["content"]
    if count:
        fields["tool_calls"] = [
            {
                "name": call["name"],
                "args": call["arguments"],
                "id": call["id"],
                "type": "tool_call",
            }
            for call in content[-count:]
        ]
        content = content[:-count]
    if "content" not in fields:
        is_text = kept["text"]
        fields["content"] = (content[0]["text"] if content else "") if is_text else content
    if "toolCallId" in shown:
        fields["tool_call_id"] = shown["toolCallId"]
    return kind.model_construct(**fields)


@cache
def _usual(kind: type[BaseMessage]) -> Json:
    """What the fields of a kind of message are unless they are given."""
    return {
        key: field.get_default(call_default_factory=True)
        for key, field in kind.model_fields.items()
        if not field.is_required()
    }


def _facts(message: AIMessage) -> Json:
    told = message.response_metadata
    facts = {"model": told.get("model_name"), "provider": told.get("model_provider")}
    found: Json = {key: value for key, value in facts.items() if value and isinstance(value, str)}
    usage = message.usage_metadata
    if usage is not None:
        details = usage.get("input_token_details") or {}
        read, written = details.get("cache_read") or 0, details.get("cache_creation") or 0
        found["usage"] = {
            "input": max(0, usage["input_tokens"] - read - written),
            "output": usage["output_tokens"],
            "cacheRead": read,
            "cacheWrite": written,
        }
    return found


KEY: Final = "langgraph"
"""The key of what the adapter tells in the metadata of an entry."""

CHECKPOINT: Final = "langgraph:checkpoint"
WRITES: Final = "langgraph:writes"
HIDDEN: Final = "langgraphHidden"
THREAD: Final = "threadId"


class CheckpointKey(NamedTuple):
    """What names a checkpoint: its thread, its namespace, and its id or None."""

    thread: str
    space: str
    id: str | None

    @property
    def key(self) -> str:
        """A text for the checkpoint that a search of the file finds; ids may have any letters."""
        return digest(self.space, self.id or "")

    def config(self, id: str) -> RunnableConfig:
        """The config of a checkpoint of the same namespace."""
        named = {"thread_id": self.thread, "checkpoint_ns": self.space, "checkpoint_id": id}
        return {"configurable": named}


class CheckpointAt(NamedTuple):
    """The entry of a checkpoint, those of its pending writes, and whether it was hidden by name."""

    entry: Entry
    writes: Sequence[Entry] = ()
    is_hidden: bool = False


class DeletedCheckpoints(msgspec.Struct):
    """The checkpoints that were deleted."""

    keys: list[str] = msgspec.field(default_factory=list)  # the keys of some
    # for each namespace the id of the oldest checkpoint that is not hidden
    before: dict[str, str] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, session: Session) -> Self:
        return msgspec.convert(session.reader.last_fact(HIDDEN) or {}, cls)

    def has(self, entry: Entry) -> bool:
        about = about_of(entry)
        return about["key"] in self.keys or about["id"] < self.before.get(about["ns"], "")


class Above:
    """The checkpoints at and above an entry."""

    def __init__(self, session: Session, entry: Entry) -> None:
        self._session = session
        self._entry = entry
        self._up: Iterator[Entry] = chain([entry], session.reader.up(entry))
        self._seen: dict[str, Entry] = {}

    def holder(self, key: str) -> Entry:
        """Return the checkpoint with a key, which is spelled so that no search for it ends here.

        Raises:
            CorruptionError: the file does not have it.
        """
        key = key.removeprefix("@")
        if key in self._seen:
            return self._seen[key]
        for entry in islice(self._up, 256):
            if entry.type == "custom" and entry.get("customType") == CHECKPOINT:
                self._seen[about_of(entry)["key"]] = entry
                if about_of(entry)["key"] == key:
                    return entry
        found = self._session.reader.last_with(key, lambda entry: is_checkpoint(entry, key))
        if found is None:
            raise self._missing()
        self._seen[key] = found
        self._up = self._session.reader.up(found)
        return found

    def _missing(self) -> CorruptionError:
        cause = "the checkpoint needs a value of one that is not in the file"
        return damaged(self._session, self._entry.offset, cause)

    def messages(self, holder: Entry, count: int, serde: SerializerProtocol) -> list[Any]:
        """Return the last messages above a checkpoint."""
        above = up(self._session, holder)
        found = [
            restored(entry["message"], about_of(entry), serde)
            for entry in islice((entry for entry in above if _is_message(entry)), count)
        ]
        if len(found) < count:
            raise self._missing()
        found.reverse()
        return found


def digest(*names: str) -> str:
    text = "\0".join(names).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=10).hexdigest()


def lane_of(space: str) -> str:
    """The name of the lane of a namespace."""
    words = re.sub(r"[^A-Za-z0-9._-]+", "-", space[:60]).strip("-.")
    return f"{words or 'graph'}-{digest(space)}"


def about_of(entry: Entry) -> Json:
    return cast(Json, (entry.get("metadata") or {}).get(KEY) or {})


def is_checkpoint(entry: Entry, key: str) -> bool:
    return (
        entry.type == "custom"
        and entry.get("customType") == CHECKPOINT
        and about_of(entry).get("key") == key
    )


def _is_message(entry: Entry) -> bool:
    return entry.type == "message" and bool(about_of(entry))


def parent_below(session: Session, above: Entry | None) -> Entry | None:
    """What a checkpoint hangs below, which is to be below another one; None: it is the leaf.

    Pending writes stand between them, so that a run is one line.
    """
    parent = above or session.header
    path = chain([session.leaf], session.reader.up(session.leaf))
    last = next((entry for entry in path if "of" not in about_of(entry)), session.header)
    return None if last.uuid == parent.uuid else parent


def find(session: Session, place: CheckpointKey) -> CheckpointAt | None:
    """The checkpoint of an id, with its writes; those that came early are above it."""
    newest: Entry | None = None
    writes: list[Entry] = []
    is_hidden = is_again = False
    above = 0
    key = place.key

    def is_last(entry: Entry) -> bool:
        nonlocal newest, is_hidden, is_again, above
        is_hidden = is_hidden or entry.type == "session_info"
        if about_of(entry).get("of") == key:
            writes.append(entry)
            above -= newest is not None
        elif is_checkpoint(entry, key):
            newest = newest or entry
            is_again = about_of(entry)["again"]
            above += about_of(entry)["early"]
        return newest is not None and not is_again and above <= 0

    session.reader.last_with(key, is_last)
    return None if newest is None else CheckpointAt(newest, writes[::-1], is_hidden)


def last_put(session: Session, space: str) -> Entry | None:
    """The checkpoint of a namespace that was written last."""
    text = digest(space)
    return session.reader.last_with(text, lambda entry: about_of(entry).get("space") == text)


def shown(session: Session, name: CheckpointKey) -> CheckpointAt | None:
    """The checkpoint of an id, or the one of a namespace with the highest id, if not hidden."""
    if name.id is not None:
        found = find(session, name)
        return None if found is None or DeletedCheckpoints.of(session).has(found.entry) else found
    last = last_put(session, name.space)
    if last is None:
        return None
    found = find(session, name._replace(id=about_of(last)["top"]))
    if found is not None and not found.is_hidden:
        return found
    others = visible(session)
    return next((each for each in others if about_of(each.entry)["ns"] == name.space), None)


def visible(session: Session) -> Iterator[CheckpointAt]:
    """The checkpoints that are not hidden, the one with the highest id first."""
    found: dict[str, Entry] = {}
    writes: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in session.entries():
        if entry.type == "custom" and entry.get("customType") == CHECKPOINT:
            found[about_of(entry)["key"]] = entry
        elif entry.type == "custom" and entry.get("customType") == WRITES:
            writes[about_of(entry)["of"]].append(entry)
    hidden = DeletedCheckpoints.of(session)
    for entry in sorted(found.values(), key=lambda entry: about_of(entry)["id"], reverse=True):
        if not hidden.has(entry):
            yield CheckpointAt(entry, writes[about_of(entry)["key"]])


@contextmanager
def hiding(session: Session) -> Iterator[DeletedCheckpoints]:
    """Lock a session, and give its hidden checkpoints, which are written at the end."""
    with session.locked():
        hidden = DeletedCheckpoints.of(session)
        before = deepcopy(hidden)
        yield hidden
        if hidden != before:
            session.update_metadata(**{HIDDEN: msgspec.to_builtins(hidden)})
