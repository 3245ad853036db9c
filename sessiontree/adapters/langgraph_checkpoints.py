"""Where the checkpoints of a thread are in its session.

A checkpoint is an entry with a key, which is made of its namespace and its id, so that a search of
the file from its end finds the checkpoint and its pending writes together. Each names the
checkpoints that hold the values that it does not hold itself.

Invariants: what is newest is found without a look at the rest of the file; a checkpoint that was
hidden is found by its key, but is not listed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from hashlib import blake2b
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, cast

import msgspec

from sessiontree.adapters import langgraph_values as kept
from sessiontree.adapters.sound import damaged, up
from sessiontree.core.entry import Entry
from sessiontree.errors import CorruptionError
from sessiontree.session import Session

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.serde.base import SerializerProtocol

KEY: Final = "langgraph"
"""The key of what the adapter tells in the metadata of an entry."""

CHECKPOINT: Final = "langgraph:checkpoint"
WRITES: Final = "langgraph:writes"
HIDDEN: Final = "langgraphHidden"
THREAD: Final = "threadId"
_NEAR: Final = 256

Json = dict[str, Any]


class Name(NamedTuple):
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


class Found(NamedTuple):
    """The entry of a checkpoint, those of its pending writes, and whether it was hidden by name."""

    entry: Entry
    writes: Sequence[Entry] = ()
    is_hidden: bool = False


class Hidden(msgspec.Struct):
    """The checkpoints that were deleted.

    Attributes:
        keys: the keys of some.
        before: for each namespace the id of the oldest checkpoint that is not hidden.
    """

    keys: list[str] = msgspec.field(default_factory=list)
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
        for entry in islice(self._up, _NEAR):
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
            kept.restored(entry["message"], about_of(entry), serde)
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


def find(session: Session, place: Name) -> Found | None:
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
    return None if newest is None else Found(newest, writes[::-1], is_hidden)


def last_put(session: Session, space: str) -> Entry | None:
    """The checkpoint of a namespace that was written last."""
    text = digest(space)
    return session.reader.last_with(text, lambda entry: about_of(entry).get("space") == text)


def shown(session: Session, name: Name) -> Found | None:
    """The checkpoint of an id, or the one of a namespace with the highest id, if not hidden."""
    if name.id is not None:
        found = find(session, name)
        return None if found is None or Hidden.of(session).has(found.entry) else found
    last = last_put(session, name.space)
    if last is None:
        return None
    found = find(session, name._replace(id=about_of(last)["top"]))
    if found is not None and not found.is_hidden:
        return found
    others = visible(session)
    return next((each for each in others if about_of(each.entry)["ns"] == name.space), None)


def visible(session: Session) -> Iterator[Found]:
    """The checkpoints that are not hidden, the one with the highest id first."""
    found: dict[str, Entry] = {}
    writes: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in session.entries():
        if entry.type == "custom" and entry.get("customType") == CHECKPOINT:
            found[about_of(entry)["key"]] = entry
        elif entry.type == "custom" and entry.get("customType") == WRITES:
            writes[about_of(entry)["of"]].append(entry)
    hidden = Hidden.of(session)
    for entry in sorted(found.values(), key=lambda entry: about_of(entry)["id"], reverse=True):
        if not hidden.has(entry):
            yield Found(entry, writes[about_of(entry)["key"]])


@contextmanager
def hiding(file: str) -> Iterator[tuple[Session, Hidden]]:
    """The session of a file, locked, with its hidden checkpoints, which are written at the end."""
    with Session.open(file) as session, session.locked():
        hidden = Hidden.of(session)
        before = deepcopy(hidden)
        yield session, hidden
        if hidden != before:
            session.update_metadata(**{HIDDEN: msgspec.to_builtins(hidden)})
