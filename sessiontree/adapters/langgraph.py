"""Checkpoints of LangGraph as sessions of a store: a thread a session, a checkpoint an entry.

A checkpoint stands below its parent, so that time travel is a branch. It holds the values of the
channels that changed, and names the entries that hold the others; of a list that grew, it holds
what is new. The messages of the channel `messages` are messages of the session, above the
checkpoint that has them. Pending writes stand below their checkpoint. Each namespace of subgraphs
is a lane.

Invariants: what is given comes back equal; a call is one write under the lock of the file; nothing
is removed: `delete_thread` moves the file to the trash, the other ways to delete hide checkpoints.
What a run writes for a thread that was deleted meanwhile is dropped: the thread stays deleted.

Source: `langgraph.checkpoint.base` of langgraph-checkpoint 4.3.
"""

from __future__ import annotations

import builtins
from collections import OrderedDict
from collections.abc import (
    AsyncIterator,
    Callable,
    Container,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import ExitStack, contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial, wraps
from itertools import islice, takewhile
from threading import Lock
from typing import Any, Concatenate, Final, NamedTuple, NoReturn, ParamSpec, TypeVar, cast

from anyio.to_thread import run_sync

from sessiontree.adapters import langgraph_checkpoints as checkpoints
from sessiontree.adapters import langgraph_checkpoints as kept
from sessiontree.adapters.base import LANGGRAPH, SessionFiles, check_sound, remember, run_again
from sessiontree.adapters.langgraph_checkpoints import (
    KEY,
    Above,
    CheckpointAt,
    CheckpointKey,
    about_of,
)
from sessiontree.core.entry import Entry
from sessiontree.errors import NothingToDoError, SessionNotFoundError, SessionTreeError, UsageError
from sessiontree.session import Session
from sessiontree.store import PathLike, Store

try:
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP,
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
        PendingWrite,
        get_checkpoint_id,
        get_checkpoint_metadata,
        writes_sort_key,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol
except ImportError as error:
    raise LANGGRAPH.unknown(error) from error

FOLDER: Final = "langgraph"
"""The folder of a store that has the sessions."""

_MAX_DROPPED: Final = 10_000
"""The most dropped checkpoints that are remembered, of which writes may follow."""

_ATOMS: Final = (str, int, float, bool, bytes, type(None))

Json = dict[str, Any]
P = ParamSpec("P")
T = TypeVar("T")


class _ThreadDeletedError(Exception):
    """What is written belongs to a thread that was deleted."""


def _awaited(
    method: Callable[Concatenate[SessionTreeSaver, P], T],
) -> Callable[Concatenate[SessionTreeSaver, P], Coroutine[Any, Any, T]]:
    @wraps(method)
    async def call(self: SessionTreeSaver, /, *args: P.args, **kwargs: P.kwargs) -> T:
        own = getattr(self, method.__name__)  # a subclass may have its own
        result: T = await run_sync(partial(own, *args, **kwargs))
        return result

    return call


class SessionTreeSaver(BaseCheckpointSaver[int]):
    """Keeps the checkpoints of a graph's threads in session files.

    Args:
        root: the folder or the address of a store, or a `Store`; by default the store of the user.
        serde: the serializer of values that JSON cannot carry. With another one than
            `JsonPlusSerializer`, all values are kept as it writes them.

    Raises:
        UnknownSdkError: the version of langgraph-checkpoint is not known to work.
    """

    def __init__(
        self, root: PathLike | Store | None = None, *, serde: SerializerProtocol | None = None
    ) -> None:
        LANGGRAPH.check()
        super().__init__(serde=serde)
        self._place = SessionFiles(root, FOLDER)
        self.store, self.folder = self._place.store, self._place.folder
        self._known = _CheckpointCache()
        self._dropped: OrderedDict[str, None] = OrderedDict()  # the keys of checkpoints

    def file_of(self, thread_id: object) -> str:
        """Return the path of the session of a thread, which its first checkpoint makes."""
        return self._place.file_of(str(thread_id))

    # What is stored

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `BaseCheckpointSaver.get_tuple`."""
        place = _named(config)
        with self._reading(place.thread) as session:
            if session is None:
                return None
            found = checkpoints.shown(session, place)
            return None if found is None else self._tuple(session, place.thread, found)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """See `BaseCheckpointSaver.list`; the newest checkpoint of a thread is the first."""
        asked = config["configurable"] if config else {}
        last = get_checkpoint_id(before) if before else None

        def is_asked(entry: Entry) -> bool:
            about = about_of(entry)
            if asked.get("checkpoint_ns", about["ns"]) != about["ns"]:
                return False
            if (asked.get("checkpoint_id") or about["id"]) != about["id"]:
                return False
            if last is not None and about["id"] >= last:
                return False
            told = kept.decoded(entry["about"], self.serde) if filter else {}
            return all(told.get(key) == value for key, value in (filter or {}).items())

        def tuples() -> Iterator[CheckpointTuple]:
            for session in self._threads(asked["thread_id"]) if config else self._place.sessions():
                thread = session.reader.last_fact(checkpoints.THREAD)
                for found in checkpoints.visible(session):
                    if is_asked(found.entry):
                        yield self._tuple(session, thread, found)

        return islice(tuples(), None if limit is None else max(0, limit))

    @run_again
    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See `BaseCheckpointSaver.put`; the checkpoint is durable when the call returns.

        A checkpoint below one of a thread that was deleted is dropped.
        """
        place = _named(config)
        about = kept.encoded(get_checkpoint_metadata(config, metadata), self.serde)
        own = place._replace(id=checkpoint["id"])
        with suppress(_ThreadDeletedError), self._writing(place, own) as session:
            above = None if place.id is None else self._entry(session, place)
            if above is None:
                self._check_thread(place, own)
            draft = self._draft(session, place, above, checkpoint, new_versions)
            parent = checkpoints.parent_below(session, above)
            with session.batch():
                if draft.replaces:
                    _replace(session, parent)
                    parent = None
                for message in draft.messages:
                    shown, rest = kept.translated(message, self.serde)
                    if draft.replaces:
                        shown.pop("usage", None)  # it is counted where the message was first
                    session.append("message", parent=parent, message=shown, metadata={KEY: rest})
                    parent = None
                entry = session.append(
                    "custom",
                    parent=parent,
                    customType=checkpoints.CHECKPOINT,
                    checkpoint=kept.encoded(_without_values(checkpoint), self.serde),
                    about=about,
                    values=draft.values,
                    metadata={KEY: draft.about},
                )
            self._known.put(session, entry, draft.snapshots)
        return place.config(checkpoint["id"])

    @run_again
    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """See `BaseCheckpointSaver.put_writes`; the writes are durable when the call returns.

        Those of a checkpoint of a thread that was deleted are dropped.
        """
        place = _named(config)
        stored = [[channel, kept.encoded(value, self.serde)] for channel, value in writes]
        about = {KEY: {"of": place.key, "task": task_id, "path": task_path}}
        with suppress(_ThreadDeletedError), self._writing(place) as session:
            session.append("custom", customType=checkpoints.WRITES, writes=stored, metadata=about)
            if self._known.get(session, place.key) is None:
                self._known.note_early(session, place.key)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `BaseCheckpointSaver.get_delta_channel_history`; hidden checkpoints count too."""
        writes: dict[str, builtins.list[PendingWrite]] = {channel: [] for channel in channels}
        seeds: dict[str, Any] = {}
        place = _named(config)
        with self._reading(place.thread) as session:
            if session is None:
                return {channel: {"writes": []} for channel in channels}
            found = checkpoints.shown(session, place)
            while found is not None and len(seeds) < len(writes):
                above = about_of(found.entry)["parent"]
                if above is None:
                    break
                found = checkpoints.find(session, place._replace(id=above))
                if found is None:
                    break
                wanted = writes.keys() - seeds.keys()
                for write in reversed(self._pending(found, wanted)):
                    writes[write[1]].append(write)
                seeds.update(self._values(session, found.entry, wanted))
        history: dict[str, DeltaChannelHistory] = {}
        for channel, written in writes.items():
            history[channel] = {"writes": written[::-1]}
            if channel in seeds:
                history[channel]["seed"] = seeds[channel]
        return history

    # What is taken away

    def delete_thread(self, thread_id: str) -> None:
        """Move the session of a thread to the trash of the store."""
        with suppress(SessionNotFoundError):
            self.store.trash(self.file_of(thread_id))

    @run_again
    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Hide the checkpoints of runs. They stay in their files."""
        wanted = set(run_ids)
        for session in self._place.sessions(readonly=False) if wanted else ():
            with checkpoints.hiding(session) as hidden:
                for found in checkpoints.visible(session):
                    if kept.decoded(found.entry["about"], self.serde).get("run_id") in wanted:
                        hidden.keys.append(about_of(found.entry)["key"])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes of a thread to a new thread.

        Raises:
            SessionNotFoundError: there is no such thread.
            SessionExistsError: the target has checkpoints.
        """
        source, target = self.file_of(source_thread_id), self.file_of(target_thread_id)
        with self._place.opened(source, readonly=True) as session:
            session.export_branch(session.header.uuid, target)
        with Session.open(target) as session:
            session.update_metadata(**{checkpoints.THREAD: target_thread_id})

    @run_again
    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Hide all checkpoints of threads but the latest of each namespace, or delete the threads.

        Raises:
            UsageError: the strategy is neither `keep_latest` nor `delete`.
        """
        if strategy not in ("keep_latest", "delete"):
            raise UsageError(f"a strategy is 'keep_latest' or 'delete', not {strategy!r}")
        if isinstance(thread_ids, str):
            raise UsageError(f"thread_ids is a list of ids, not the text {thread_ids!r:.60}")
        for thread in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread)
                continue
            with (
                suppress(SessionNotFoundError),
                self._place.opened(self.file_of(thread)) as session,
                checkpoints.hiding(session) as hidden,
            ):
                for found in reversed(list(checkpoints.visible(session))):
                    about = about_of(found.entry)
                    hidden.before[about["ns"]] = about["id"]

    # The same, awaited

    aget_tuple = _awaited(get_tuple)
    aput = _awaited(put)
    aput_writes = _awaited(put_writes)
    aget_delta_channel_history = _awaited(get_delta_channel_history)
    adelete_thread = _awaited(delete_thread)
    adelete_for_runs = _awaited(delete_for_runs)
    acopy_thread = _awaited(copy_thread)
    aprune = _awaited(prune)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See `list`."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (each := await run_sync(next, found, None)) is not None:
            yield each

    # Below

    @contextmanager
    def _reading(self, thread: str) -> Iterator[Session | None]:
        with ExitStack() as stack:
            session, file = None, self.file_of(thread)
            with suppress(SessionNotFoundError):
                session = stack.enter_context(self._place.opened(file, readonly=True))
            yield session

    def _threads(self, thread: str) -> Iterator[Session]:
        with self._reading(thread) as session:
            if session is not None:
                yield session

    @contextmanager
    def _writing(self, place: CheckpointKey, own: CheckpointKey | None = None) -> Iterator[Session]:
        """Open the session of a thread to write below a checkpoint, perhaps `own`, a new one.

        Raises:
            _ThreadDeletedError: the thread of the checkpoint was deleted.
        """
        facts, file = {checkpoints.THREAD: place.thread}, self.file_of(place.thread)
        with ExitStack() as stack:
            try:
                session = stack.enter_context(self._place.opened(file))
            except SessionNotFoundError:
                self._check_thread(place, own)
                session = stack.enter_context(self._place.made(file, facts))
            if place.space:
                lane = session.lane(checkpoints.lane_of(place.space), empty=True)
                session = stack.enter_context(lane)
            try:
                stack.enter_context(session.locked())
            except SessionNotFoundError:
                if any(self._place.trashed(file)):  # where it went meanwhile
                    self._drop(own)
                raise
            yield session

    def _check_thread(self, place: CheckpointKey, own: CheckpointKey | None) -> None:
        """Check that a checkpoint that the session lacks is not of a thread that was deleted.

        Raises:
            _ThreadDeletedError: it is, and `own` below it is dropped.
        """
        if place.id is not None and (place.key in self._dropped or self._is_trashed(place)):
            self._drop(own)

    def _drop(self, own: CheckpointKey | None) -> NoReturn:
        if own is not None:
            remember(self._dropped, own.key, None, _MAX_DROPPED)
        raise _ThreadDeletedError

    def _is_trashed(self, place: CheckpointKey) -> bool:
        for file in self._place.trashed(self.file_of(place.thread)):
            with (
                suppress(SessionTreeError),
                self._place.opened(file, readonly=True) as session,
            ):
                if checkpoints.find(session, place) is not None:
                    return True
        return False

    def _draft(
        self,
        session: Session,
        place: CheckpointKey,
        above: Entry | None,
        checkpoint: Checkpoint,
        new_versions: ChannelVersions,
    ) -> _Draft:
        own = place._replace(id=checkpoint["id"])
        newest = checkpoints.last_put(session, place.space)
        top = "" if newest is None else about_of(newest)["top"]
        draft = _Draft(
            about={
                "key": own.key,
                "id": own.id,
                "ns": own.space,
                "space": checkpoints.digest(own.space),
                "parent": place.id,
                "top": max(top, checkpoint["id"]),
                "again": checkpoint["id"] <= top and checkpoints.find(session, own) is not None,
                "early": self._known.early(session, own.key),
                "at": {},
                "shown": 0,
            }
        )
        before: Json = {"at": {}, "shown": 0}
        versions: ChannelVersions = {}
        known: dict[str, builtins.list[Snapshot]] = {}
        if above is not None:
            before = about_of(above)
            versions = kept.decoded(above["checkpoint"], self.serde)["channel_versions"]
            known = self._snapshots(session, above)
        draft.about["shown"] = before["shown"]
        for channel, value in checkpoint["channel_values"].items():
            at = before["at"].get(channel)
            same = versions.get(channel) == checkpoint["channel_versions"].get(channel)
            if at is not None and same and channel not in new_versions:
                draft.about["at"][channel] = at
                if channel in known:
                    draft.snapshots[channel] = known[channel]
                continue
            draft.about["at"][channel] = f"@{own.key}"
            draft.values[channel] = self._stored(draft, channel, value, known.get(channel), at)
        return draft

    def _stored(
        self, draft: _Draft, channel: str, value: Any, base: Sequence[Snapshot] | None, at: str
    ) -> Json:
        """The value of a channel as it is stored, below a value that began as `base`."""
        if type(value) is not list:
            return kept.encoded(value, self.serde)
        base = base or []
        pairs = zip(value, base, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[1].is_of(pair[0], self.serde), pairs))
        new = value[same:]
        draft.snapshots[channel] = [*base[:same], *(Snapshot.of(item, self.serde) for item in new)]
        if channel == "messages" and kept.are_messages(value, self.serde):
            shown = draft.about["shown"]
            draft.replaces = not same == len(base) == shown
            draft.messages = value if draft.replaces else new
            draft.about["shown"] = len(value)
            return {"count": len(value)}
        if same < 8:
            return kept.encoded(value, self.serde)
        return {"base": at, "keep": same, "new": [kept.encoded(item, self.serde) for item in new]}

    def _entry(self, session: Session, place: CheckpointKey) -> Entry | None:
        known = self._known.get(session, place.key)
        if known is not None:
            return known.entry
        found = checkpoints.find(session, place)
        return None if found is None else found.entry

    def _snapshots(self, session: Session, entry: Entry) -> dict[str, builtins.list[Snapshot]]:
        known = self._known.get(session, about_of(entry)["key"])
        if known is not None:
            return known.lists
        return self._taken(dict(self._values(session, entry, about_of(entry)["at"])))

    def _taken(self, values: Mapping[str, Any]) -> dict[str, builtins.list[Snapshot]]:
        """The items of the lists among values, which their owner may change later."""
        return {
            channel: [Snapshot.of(item, self.serde) for item in value]
            for channel, value in values.items()
            if type(value) is list
        }

    def _tuple(self, session: Session, thread: str, found: CheckpointAt) -> CheckpointTuple:
        about = about_of(found.entry)
        place = CheckpointKey(thread, about["ns"], about["id"])
        values = dict(self._values(session, found.entry, about["at"]))
        check_sound(session)
        if self._known.get(session, about["key"]) is None:
            self._known.put(session, found.entry, self._taken(values))
        parent = about["parent"]
        told = kept.decoded(found.entry["checkpoint"], self.serde)
        return CheckpointTuple(
            config=place.config(about["id"]),
            checkpoint=cast(Checkpoint, {**told, "channel_values": values}),
            metadata=kept.decoded(found.entry["about"], self.serde),
            parent_config=None if parent is None else place.config(parent),
            pending_writes=self._pending(found),
        )

    def _pending(
        self, found: CheckpointAt, wanted: Container[str] | None = None
    ) -> builtins.list[PendingWrite]:
        stored: dict[tuple[str, int], tuple[str, str, Json]] = {}
        for entry in found.writes:
            about = about_of(entry)
            for number, (channel, value) in enumerate(entry["writes"]):
                key = about["task"], WRITES_IDX_MAP.get(channel, number)
                if key[1] < 0 or key not in stored:
                    stored[key] = about["path"], channel, value
        ordered = sorted(stored, key=lambda key: writes_sort_key(stored[key][0], *key))
        return [
            (key[0], channel, kept.decoded(value, self.serde))
            for key, (_, channel, value) in ((key, stored[key]) for key in ordered)
            if wanted is None or channel in wanted
        ]

    def _values(
        self, session: Session, entry: Entry, channels: Iterable[str]
    ) -> Iterator[tuple[str, Any]]:
        at = about_of(entry)["at"]
        above = Above(session, entry)
        for channel in channels:
            if channel in at:
                yield channel, self._value(above, above.holder(at[channel]), channel)

    def _value(self, above: Above, holder: Entry, channel: str) -> Any:
        parts: builtins.list[builtins.list[Any]] = []
        most: int | None = None
        while True:
            stored = holder["values"][channel]
            if "count" in stored:
                value: Any = above.messages(holder, stored["count"], self.serde)
            elif "base" in stored:
                value = [kept.decoded(item, self.serde) for item in stored["new"]]
            else:
                value = kept.decoded(stored, self.serde)
            if "base" not in stored and not parts:
                return value
            keep = stored.get("keep", 0)
            parts.append(value if most is None else value[: max(0, most - keep)])
            if "base" not in stored:
                return [item for part in reversed(parts) for item in part]
            most = keep if most is None else min(most, keep)
            holder = above.holder(stored["base"])


@dataclass
class _Draft:
    about: Json  # what names it, and which checkpoint holds the value of each channel
    values: dict[str, Json] = field(default_factory=dict)  # the values that it holds itself
    snapshots: dict[str, list[Snapshot]] = field(default_factory=dict)  # the items of its lists
    messages: list[BaseMessage] = field(default_factory=list)  # the messages to write before it
    replaces: bool = False  # whether these take the place of all messages above


class Snapshot(NamedTuple):
    """An item of a list as it was, whatever its owner does with it later."""

    kind: type
    state: Any

    @classmethod
    def of(cls, item: Any, serde: SerializerProtocol) -> Snapshot:
        if isinstance(item, BaseMessage):
            return cls(type(item), {key: _copy(value) for key, value in item.__dict__.items()})
        return cls(type(item), item if type(item) in _ATOMS else serde.dumps_typed(item))

    def is_of(self, item: Any, serde: SerializerProtocol) -> bool:
        """True if an item is what it was."""
        if type(item) is not self.kind:
            return False
        if isinstance(item, BaseMessage):
            return bool(item.__dict__ == self.state)
        return bool(self.state == (item if type(item) in _ATOMS else serde.dumps_typed(item)))


class _SeenCheckpoint(NamedTuple):
    entry: Entry
    lists: dict[str, list[Snapshot]]


class _CheckpointCache:
    """The checkpoints that this process read or wrote last, and writes that came before theirs.

    It is only a cache: what it does not have is read. LangGraph stores a checkpoint and the writes
    of its tasks side by side, so that the writes may be the first in the file.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], _SeenCheckpoint] = OrderedDict()
        self._early: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._lock = Lock()

    def get(self, session: Session, key: str) -> _SeenCheckpoint | None:
        return self._seen.get((session.header.uuid, key))

    def put(self, session: Session, entry: Entry, lists: dict[str, list[Snapshot]]) -> None:
        name = session.header.uuid, about_of(entry)["key"]
        with self._lock:
            remember(self._seen, name, _SeenCheckpoint(entry, lists), 8)
            self._early.pop(name, None)

    def note_early(self, session: Session, key: str) -> None:
        name = session.header.uuid, key
        with self._lock:
            remember(self._early, name, self._early.get(name, 0) + 1, 8)

    def early(self, session: Session, key: str) -> int:
        return self._early.get((session.header.uuid, key), 0)


def _named(config: RunnableConfig) -> CheckpointKey:
    asked = config["configurable"]
    return CheckpointKey(
        str(asked["thread_id"]), asked.get("checkpoint_ns", ""), get_checkpoint_id(config) or None
    )


def _copy(value: Any) -> Any:
    return value if type(value) in _ATOMS else deepcopy(value)


def _replace(session: Session, parent: Entry | None) -> None:
    """Let the messages above have no part in the context from here on."""
    if parent is not None:
        session.append("branch", parent=parent.uuid)
    with suppress(NothingToDoError):
        session.compact("The graph replaced its messages.", keep=0)


def _without_values(checkpoint: Checkpoint) -> Json:
    return {key: value for key, value in checkpoint.items() if key != "channel_values"}
