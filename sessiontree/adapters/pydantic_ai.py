"""Conversations and messages of pydantic-ai as sessions, and back.

A message of pydantic-ai has parts of several roles: prompts, results of tools, system prompts.
Parts of one role that follow each other become one entry; a result is one by itself. What such an
entry cannot hold, for example the id of a part, is kept beside it. The last entry of a message has
the id of its `ConversationEntry`. The record is a fact in the session's metadata. It is written
behind the entries that it needs, so a crash leaves the record before. A fork is a file of its own,
and its entries keep their ids.

Sources: `pydantic_ai.conversation_store` and `pydantic_ai.messages` of pydantic-ai-slim 2.68, as
`ModelMessagesTypeAdapter` writes them.

Invariants:

- A message comes back equal to the one that was given.
- A record is replaced only under the lock of its file, after its revision was compared.
- The files of entries that are remembered are only a cache.
- `restored` gives what `translated` got, equal as JSON.
- A text is kept once.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import groupby
from typing import Any, Final, NamedTuple

from anyio.to_thread import run_sync

from sessiontree.adapters.base import (
    PYDANTIC_AI,
    SessionFiles,
    check_sound,
    remember,
    run_again,
    up,
    without,
)
from sessiontree.core.entry import Entry
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.message import json_text
from sessiontree.errors import EntryError, SessionExistsError, SessionNotFoundError
from sessiontree.session import Session
from sessiontree.store import PathLike, Store

Json = dict[str, Any]

_RESULTS: Final = ("tool-return", "retry-prompt", "tool-search-return", "capability-load-return")
_CALLS: Final = ("tool-call", "tool-search-call", "capability-load-call")
_STOPS: Final = {"stop": "stop", "length": "length", "tool_call": "toolUse", "error": "error"}


class PydanticMessage(NamedTuple):
    """A message of a session, and what is kept beside it."""

    message: Json
    kept: Json


class _MessagePiece(NamedTuple):
    """A block, the name of the key that it has the value of, and the other keys.

    Without a name, all keys are kept.
    """

    block: Json
    moved: str | None
    rest: Any


class _ModelPart(NamedTuple):
    role: str
    blocks: list[Json]
    kept: Json


def translated(message: Json) -> list[PydanticMessage]:
    """The messages for one message of pydantic-ai, at least one; the last keeps its other keys."""
    is_answer = message["kind"] == "response"
    parts = [_answered(part) if is_answer else _asked(part) for part in message["parts"]]
    found = [_joined(role, group) for role, group in _groups(parts)]
    if not found:
        found = [PydanticMessage({"role": "assistant" if is_answer else "user", "content": []}, {})]
    found[-1].kept["message"] = {key: value for key, value in message.items() if key != "parts"}
    if is_answer:
        found[-1].message.update(_facts(message))
    return found


def restored(pieces: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Json:
    """The message of pydantic-ai that messages were made of; each with what is kept beside it."""
    parts: list[Json] = []
    rest: Json = {}
    for message, kept in pieces:
        blocks = iter(message["content"])
        parts += (_whole_part(part, blocks) for part in kept.get("parts", ()))
        rest = kept.get("message", rest)
    return {"parts": parts, **rest}


def _groups(parts: Iterable[_ModelPart]) -> Iterator[tuple[str, list[_ModelPart]]]:
    """The parts of one role that follow each other; each result alone."""
    for role, group in groupby(parts, lambda part: part.role):
        if role == "toolResult":
            yield from ((role, [part]) for part in group)
        else:
            yield role, list(group)


def _joined(role: str, group: list[_ModelPart]) -> PydanticMessage:
    message: Json = {"role": role, "content": [block for part in group for block in part.blocks]}
    if role == "toolResult":
        part = group[0].kept["part"]
        message["toolCallId"] = part["tool_call_id"]
        message["toolName"] = part["tool_name"]
        is_retry = part["part_kind"] == "retry-prompt"
        message["isError"] = is_retry or part.get("outcome", "success") != "success"
    return PydanticMessage(message, {"parts": [part.kept for part in group]})


def _asked(part: Json) -> _ModelPart:
    kind, content = part["part_kind"], part.get("content")
    if kind in _RESULTS and isinstance(part.get("tool_call_id"), str) and part.get("tool_name"):
        role = "toolResult"
    else:
        role = "user" if kind in ("user-prompt", "retry-prompt", "retry-feedback") else "system"
    if kind == "user-prompt" and isinstance(content, list):
        pieces = [_item(item) for item in content]
        items = [[piece.moved, piece.rest] for piece in pieces]
        kept = {"part": without(part, "content"), "items": items}
        return _ModelPart(role, [piece.block for piece in pieces], kept)
    if isinstance(content, str):
        return _part(role, _MessagePiece(_text(content), "content", without(part, "content")))
    shown = f"[{kind}]" if content is None else json_text(content)
    return _part(role, _MessagePiece(_text(shown), None, part))


def _answered(part: Json) -> _ModelPart:
    kind, content = part["part_kind"], part.get("content")
    if kind == "text" and isinstance(content, str):
        return _part(
            "assistant", _MessagePiece(_text(content), "content", without(part, "content"))
        )
    if kind == "thinking" and isinstance(content, str):
        block = {"type": "thinking", "thinking": content}
        return _part("assistant", _MessagePiece(block, "content", without(part, "content")))
    if kind in _CALLS and isinstance(part.get("tool_call_id"), str):
        named = {"id": part["tool_call_id"], "name": part.get("tool_name")}
        call = {"type": "toolCall", **named, "arguments": part.get("args")}
        moved = "args" if "args" in part else None
        return _part("assistant", _MessagePiece(call, moved, without(part, "args")))
    return _part("assistant", _MessagePiece({"type": kind}, None, part))


def _part(role: str, piece: _MessagePiece) -> _ModelPart:
    kept: Json = {"part": piece.rest}
    if piece.moved is not None:
        kept["moved"] = piece.moved
    return _ModelPart(role, [piece.block], kept)


def _item(item: Any) -> _MessagePiece:
    if isinstance(item, str):
        return _MessagePiece(_text(item), "text", None)
    kind, data = item.get("kind"), item.get("data")
    if kind == "binary" and isinstance(data, str):
        type = item.get("media_type")
        named = "image" if str(type).startswith("image/") else "document"
        block: Json = {"type": named, "source": _base64(type, data)}
        return _MessagePiece(block, "data", without(item, "data"))
    if kind == "image-url":
        shown: Json = {"type": "image", "source": {"type": "url", "url": item.get("url")}}
        return _MessagePiece(shown, None, item)
    text = item.get("content", item.get("url"))
    return _MessagePiece(_text(text if isinstance(text, str) else f"[{kind}]"), None, item)


def _whole_part(kept: Mapping[str, Any], blocks: Iterator[Mapping[str, Any]]) -> Json:
    part = dict(kept["part"])
    if "items" in kept:
        part["content"] = [_whole_item(moved, rest, next(blocks)) for moved, rest in kept["items"]]
        return part
    block = next(blocks)
    moved = kept.get("moved")
    if moved == "args":
        part["args"] = block["arguments"]
    elif moved == "content":
        part["content"] = block["thinking" if block["type"] == "thinking" else "text"]
    return part


def _whole_item(moved: str | None, rest: Any, block: Mapping[str, Any]) -> Any:
    if moved == "text":
        return block["text"]
    return rest if moved is None else {**rest, "data": block["source"]["data"]}


def _facts(message: Json) -> Json:
    usage = message.get("usage") or {}
    read, written = usage.get("cache_read_tokens") or 0, usage.get("cache_write_tokens") or 0
    told = {
        "input": max(0, (usage.get("input_tokens") or 0) - read - written),
        "output": usage.get("output_tokens") or 0,
        "cacheRead": read,
        "cacheWrite": written,
    }
    facts = {
        "model": message.get("model_name"),
        "provider": message.get("provider_name"),
        "stopReason": _STOPS.get(message.get("finish_reason") or ""),
    }
    return {key: value for key, value in facts.items() if value} | {"usage": told}


def _base64(type: Any, data: str) -> Json:
    return {"type": "base64", "media_type": type, "data": data}


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


try:
    from pydantic import TypeAdapter
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )
    from pydantic_ai.messages import ModelMessagesTypeAdapter
    from pydantic_core import PydanticSerializationError
except ImportError as error:
    raise PYDANTIC_AI.unknown(error) from error

FOLDER: Final = "pydantic-ai"
"""The folder of a store that has the conversations."""

_KEY: Final = "pydanticAi"
_DELETED: Final = "deleted"
_RECORDS: Final = TypeAdapter(ConversationRecord)

_Made = tuple["ConversationEntry", list[PydanticMessage]]


class SessionTreeConversationStore(ConversationStore):
    """Keeps the conversations of pydantic-ai agents as sessions.

    A save costs what it adds. `delete` moves the session to the trash of the store; its entries
    are never those of another conversation, because a fork has its own copies, with the same ids.

    Args:
        root: the folder or the address of a store, or a `Store`; by default the store of the user.

    Raises:
        UnknownSdkError: the version of pydantic-ai is not known to work.
    """

    def __init__(self, root: PathLike | Store | None = None) -> None:
        PYDANTIC_AI.check()
        self._place = SessionFiles(root, FOLDER)
        self.store, self.folder = self._place.store, self._place.folder
        self._files: OrderedDict[str, str] = OrderedDict()  # of entries, the last ones
        self._remembering = threading.Lock()

    def file_of(self, conversation_id: str) -> str:
        """Return the path of the session of a conversation, which need not exist."""
        return self._place.file_of(conversation_id)

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """See `ConversationStore.read_record`."""
        return await run_sync(self._record_of, conversation_id)

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """See `ConversationStore.read_records`."""
        return await run_sync(self._records, scope, limit)

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """See `ConversationStore.write_record`.

        Raises:
            EntryError: a message has a value that JSON cannot carry.
        """
        await run_sync(self._write, record, list(new_entries), expected_revision)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """See `ConversationStore.delete_record`; the session is moved to the trash."""
        await run_sync(self._delete, conversation_id, expected_revision)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """See `ConversationStore.read_entry`.

        Raises:
            LookupError: no conversation has the entry.
        """
        return (await run_sync(self._history, entry_id, 1))[-1]

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """See `ConversationStore.read_history`.

        Raises:
            LookupError: no conversation has the entry.
        """
        if head_id is None or limit == 0:
            return []
        return await run_sync(self._history, head_id, limit)

    # Below, in a thread

    def _record_of(self, conversation_id: str) -> ConversationRecord | None:
        file = self.file_of(conversation_id)
        try:
            with self._place.opened(file, readonly=True) as session:
                record = _record_in(session, conversation_id)
        except SessionNotFoundError:
            return None
        self._remember(file, record)
        return record

    def _records(self, scope: str | None, limit: int | None) -> list[ConversationRecord]:
        found: list[ConversationRecord] = []
        for session in self._place.sessions():
            file, record = str(session.file), _record_in(session)
            if record is None or self.file_of(record.conversation_id) != file:
                continue  # a fork that was not finished
            if scope is None or record.scope == scope:
                self._remember(file, record)
                found.append(record)
        found.sort(key=lambda record: record.updated_at, reverse=True)
        return found[:limit]

    def _remember(self, file: str, record: ConversationRecord | None) -> None:
        entries = [] if record is None else [record.head_id, *record.branches]
        with self._remembering:
            for entry in filter(None, entries):
                remember(self._files, entry, file, 100_000)

    def _write(
        self, record: ConversationRecord, new: list[ConversationEntry], expected: str | None
    ) -> None:
        made = [(entry, _messages_of(entry)) for entry in new]
        file = self.file_of(record.conversation_id)
        if expected is not None:
            self._replace(file, record, made, expected)
        else:
            with self._place.alone():
                self._make(
                    file, record.conversation_id, new[0].parent_id if new else record.head_id
                )
                self._replace(file, record, made, None)
        self._remember(file, record)

    @run_again
    def _replace(
        self, file: str, record: ConversationRecord, made: list[_Made], expected: str | None
    ) -> None:
        with self._checked(file, record.conversation_id, expected) as session:
            known = {entry.id for entry, _ in made}
            needed = [record.head_id, *(entry.parent_id for entry, _ in made)]
            if any(one not in known and not _has(session, one) for one in needed):
                raise ConversationConflict(record.conversation_id)
            with session.batch():
                for entry, messages in made:
                    _append(session, entry, messages)
                head = session.header.uuid if record.head_id is None else record.head_id
                if session.reader.skip_markers(session.leaf).uuid != head:
                    session.switch(head)
                session.update_metadata(**{_KEY: _RECORDS.dump_python(record, mode="json")})

    @contextmanager
    def _checked(self, file: str, conversation_id: str, expected: str | None) -> Iterator[Session]:
        """The session of a conversation, locked, whose record has the expected revision."""
        with ExitStack() as stack:
            try:
                session = stack.enter_context(self._place.opened(file))
            except SessionNotFoundError:
                raise ConversationConflict(conversation_id) from None
            stack.enter_context(session.locked())
            stored = _record_in(session, conversation_id)
            is_other = (None if stored is None else stored.revision) != expected
            if is_other or session.reader.last_fact(_KEY) == _DELETED:
                raise ConversationConflict(conversation_id)
            yield session

    def _make(self, file: str, conversation_id: str, base: str | None) -> None:
        """Make the session of a new conversation, which may begin at an entry of another one.

        A file without a record is left by a program that was killed, or by `delete`. In a bucket
        that program may be at work: what it has acknowledged must not go to the trash.

        Raises:
            SessionExistsError: there is such a file in a bucket.
        """
        if self._place.has(file):
            with self._place.opened(file, readonly=True) as session:
                is_deleted = session.reader.last_fact(_KEY) == _DELETED
                if _record_in(session, conversation_id) or (not is_deleted and _has(session, base)):
                    return
                if not session.reader.log.keeps_out:
                    raise SessionExistsError(
                        f"{file} has no conversation: another program makes or deletes it, or was "
                        f"killed meanwhile; try again, and then: sessiontree trash '{file}'",
                        file,
                    )
            self.store.trash(file)
        with suppress(SessionExistsError):  # then `_replace` sees that another program made it
            self._make_at(file, conversation_id, base)

    def _make_at(self, file: str, conversation_id: str, base: str | None) -> None:
        if base is None:
            Session.create(file, metadata={"agent": FOLDER}).close()
            return
        source = self._file_with(base)
        if source is None:
            raise ConversationConflict(conversation_id)
        with self._place.opened(source, readonly=True) as session:
            session.fork(file, base)

    @run_again
    def _delete(self, conversation_id: str, expected: str) -> None:
        file = self.file_of(conversation_id)
        if not self._place.has(file):
            raise ConversationConflict(conversation_id)
        with self._place.alone():
            with self._checked(file, conversation_id, expected) as session:
                session.update_metadata(**{_KEY: _DELETED})  # for whoever waits for the lock
            self.store.trash(file)

    def _history(self, head_id: str, limit: int | None) -> list[ConversationEntry]:
        file = self._file_with(head_id)
        if file is None:
            raise LookupError(
                f"no conversation in {self.folder} has the entry {head_id}; if its file is "
                "damaged, `sessiontree verify FILE` tells"
            )
        try:
            with self._place.opened(file, readonly=True) as session:
                head = session.reader.by_uuid(head_id)
                return [] if head is None else _entries(session, head, limit)
        except SessionNotFoundError:
            raise LookupError(f"the conversation with the entry {head_id} was deleted") from None

    def _file_with(self, entry_id: str) -> str | None:
        known = self._files.get(entry_id)
        with suppress(SessionNotFoundError), ExitStack() as stack:
            if known is not None:
                session = stack.enter_context(self._place.opened(known, readonly=True))
                if _has(session, entry_id):
                    return known
        for session in self._place.sessions():
            if _has(session, entry_id):
                return str(session.file)
        return None


def _record_in(session: Session, conversation_id: str | None = None) -> ConversationRecord | None:
    """The record of a session; None if there is none, or that of the session it is a copy of."""
    stored = session.reader.last_fact(_KEY)
    if not isinstance(stored, dict):
        return None
    record = _RECORDS.validate_json(json.dumps(stored))
    return record if conversation_id in (None, record.conversation_id) else None


def _has(session: Session, entry_id: str | None) -> bool:
    return entry_id is None or session.reader.by_uuid(entry_id) is not None


def _append(session: Session, entry: ConversationEntry, messages: list[PydanticMessage]) -> None:
    parent = session.header.uuid if entry.parent_id is None else entry.parent_id
    below = None if session.reader.skip_markers(session.leaf).uuid == parent else parent
    for number, (message, kept) in enumerate(messages, 1):
        id = entry.id if number == len(messages) else None
        session.append("message", parent=below, uuid=id, message=message, metadata={_KEY: kept})
        below = None


def _messages_of(entry: ConversationEntry) -> list[PydanticMessage]:
    try:
        (message,) = ModelMessagesTypeAdapter.dump_python([entry.message], mode="json")
    except (PydanticSerializationError, ValueError) as error:
        raise EntryError(f"the message {entry.id} cannot be stored as JSON: {error}") from error
    made = translated(message)
    dumps(made)  # refused before anything is written
    return made


def _entries(session: Session, head: Entry, limit: int | None) -> list[ConversationEntry]:
    ids: list[str] = []
    messages: list[list[tuple[Any, Any]]] = []
    for entry in up(session, head):
        kept = (entry.get("metadata") or {}).get(_KEY) if entry.type == "message" else None
        if not isinstance(kept, dict):
            continue
        if "message" in kept:
            ids.append(entry.uuid)
            if limit is not None and len(ids) > limit:
                break
            messages.append([])
        messages[-1].append((entry["message"], kept))
    check_sound(session)
    made = [restored(reversed(pieces)) for pieces in messages]
    found = ModelMessagesTypeAdapter.validate_json(json.dumps(made[::-1]))
    parents = [*ids[1:], None][: len(found)]
    return [
        ConversationEntry(id=id, parent_id=parent, message=message)
        for id, parent, message in zip(ids[len(found) - 1 :: -1], parents[::-1], found, strict=True)
    ]
