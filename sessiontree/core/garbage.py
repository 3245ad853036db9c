"""Garbage: entries of scratch lanes that were never kept.

An annotation belongs to the last entry before it on its lane that is no annotation; if there is
none, to the first after it. It stands beside the path, and no entry refers to it.

Invariants: an entry of a lasting lane is never garbage, nor is one that such an entry reaches, by
its parents or by any reference (merge, label, edit, first kept entry, handle), nor an annotation
that belongs to one of these; an entry is garbage only when it and all below it have timestamps
before a given moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from sessiontree.core.entry import ANNOTATIONS, REFERENCES, Entry, moment_of
from sessiontree.core.handle import Handle
from sessiontree.core.index import NO_ROW, TreeIndex
from sessiontree.errors import HandleError

EntryAt = Callable[[int], Entry | None]  # takes a row of a tree, gives its entry
SCRATCH: Final = "scratch/"  # the prefix of the name of every scratch lane


def is_scratch(lane: str | None) -> bool:
    """True if the entries of a lane are garbage unless they are kept."""
    return lane is not None and lane.startswith(SCRATCH)


def expired(
    tree: TreeIndex, entry_at: EntryAt, session_id: str, before: datetime, leaves: Iterable[str]
) -> list[int]:
    """The rows of the garbage that was written before a moment, in file order.

    Handles name this session by `session_id`; `leaves` are the uuids that open sessions are at.
    """
    garbage = unkept(tree, entry_at, session_id, leaves)
    fresh: set[int] = set()
    for row in garbage:
        if not _is_older(entry_at(row), before):
            for above in tree.rows_up(row):
                if above in fresh:
                    break
                fresh.add(above)
    return sorted(garbage - fresh)


def unkept(tree: TreeIndex, entry_at: EntryAt, session_id: str, leaves: Iterable[str]) -> set[int]:
    """The rows of scratch lanes that nothing lasting reaches, whenever they were written.

    All rows below such a row are among them too. Args: as of `expired`.
    """
    lanes = {lane for lane in tree.lanes if is_scratch(lane)}
    if not lanes:
        return set()
    scratch = {row for row in range(1, len(tree)) if tree.lane_of(row) in lanes}
    return scratch - _reached(tree, entry_at, session_id, scratch, leaves)


def _reached(
    tree: TreeIndex, entry_at: EntryAt, session_id: str, scratch: set[int], leaves: Iterable[str]
) -> set[int]:
    referring = {*tree.rows_of_type(*REFERENCES, "handle")}
    of_uuid: dict[str, list[int]] = {}
    of_lane: dict[str | None, list[int]] = {}
    for row in scratch:
        of_uuid.setdefault(tree.uuids[row], []).append(row)
        of_lane.setdefault(tree.lane_of(row), []).append(row)
    lanes_of = _lanes_of_branches(tree, entry_at, scratch)
    annotating = _annotations(tree, scratch)
    reached: set[int] = set()

    def reach(uuid: str) -> list[int]:
        """The rows of a uuid, all above them and their annotations that were not reached yet."""
        new: list[int] = []
        waiting = [*of_uuid.get(uuid, ())]
        while waiting:
            for above in tree.rows_up(waiting.pop()):
                if above in reached or above not in scratch:
                    break  # a lasting entry reaches others further down
                reached.add(above)
                new.append(above)
                waiting += annotating.get(above, ())
        return new

    def reach_branch(name: str) -> list[int]:
        """The same for all rows of the lane of that name, and of the lanes of such a branch."""
        lanes = {name, *lanes_of.pop(name, ())}
        rows = [row for lane in lanes for row in of_lane.pop(lane, ())]
        return [new for row in rows for new in reach(tree.uuids[row])]

    for uuid in leaves:
        reach(uuid)
    for row in range(len(tree)):
        parent = tree.parents[row]
        if row not in scratch and parent != NO_ROW and parent in scratch:
            reach(tree.uuids[parent])
    waiting = [row for row in referring if row not in scratch or row in reached]
    while waiting:
        entry = entry_at(waiting.pop())
        for uuid in () if entry is None else _referred(entry, session_id):
            waiting += [row for row in reach(uuid) if row in referring]
        if entry is not None and (name := _branch_named(entry, session_id)) is not None:
            waiting += [row for row in reach_branch(name) if row in referring]
    return reached


def _annotations(tree: TreeIndex, scratch: set[int]) -> dict[int, list[int]]:
    owners: dict[str | None, int] = {}
    early: dict[str | None, list[int]] = {}
    found: dict[int, list[int]] = {}
    for row in sorted(scratch):
        lane = tree.lane_of(row)
        if tree.type_of(row) not in ANNOTATIONS:
            owners[lane] = row
            found[row] = early.pop(lane, [])
        elif lane in owners:
            found[owners[lane]].append(row)
        else:
            early.setdefault(lane, []).append(row)
    return found


def _lanes_of_branches(
    tree: TreeIndex, entry_at: EntryAt, scratch: set[int]
) -> dict[str, set[str | None]]:
    lanes: dict[str, set[str | None]] = {}
    for row in tree.rows_of_type("branch"):
        entry = entry_at(row) if row in scratch else None
        if entry is not None and isinstance(name := entry.get("name"), str):
            lanes.setdefault(name, set()).add(tree.lane_of(row))
    return lanes


def _branch_named(entry: Entry, session_id: str) -> str | None:
    """The name of the branch or lane of this session that a handle points to, or None."""
    handle = _session_handle(entry, session_id)
    if handle is None or handle.method != "branch" or len(handle.meta) < 2:
        return None
    return handle.meta[1]


def _referred(entry: Entry, session_id: str) -> Iterable[str]:
    for key in REFERENCES.get(entry.type, ()):
        uuid = entry.as_stored.get(key)
        if isinstance(uuid, str):
            yield uuid
    handle = _session_handle(entry, session_id)
    if handle is not None and handle.method != "branch":
        yield from handle.meta[1:2]


def _session_handle(entry: Entry, session_id: str) -> Handle | None:
    if entry.type != "handle":
        return None
    try:
        handle, _ = Handle.from_json(entry.get("handle"))
    except HandleError:
        return None
    return handle if handle.plugin == "session" and handle.meta[:1] == (session_id,) else None


def _is_older(entry: Entry | None, before: datetime) -> bool:
    written = None if entry is None else moment_of(entry.timestamp)
    return written is not None and written < before
