"""Which entries of scratch lanes are garbage, against the rule as it is written down."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.core.codec import decode
from sessiontree.core.damage import ignore
from sessiontree.core.entry import Entry
from sessiontree.core.garbage import expired, unkept
from sessiontree.core.handle import Handle
from sessiontree.core.index import TreeIndex
from tests.support.soak import amount

OLD, YOUNG = "2026-01-01T00:00:00.000Z", "2026-03-01T00:00:00.000Z"
BETWEEN = datetime(2026, 2, 1, tzinfo=UTC)
LANES = [None, "agent-2", "scratch/a", "scratch/a", "scratch/b", "scratch/b/c"]

History = list[dict[str, Any]]


def made(kind: str, target: str, other: str) -> dict[str, Any]:
    """The fields of a kind of entry that refers to others."""
    fields: dict[str, dict[str, Any]] = {
        "message": {"message": {"role": "user", "content": target}},
        "branch": {"fromUuid": target, "name": target},
        "label": {"targetUuid": target, "label": "x"},
        "usage": {"usage": {}},
        "merge": {"mergedUuid": target, "baseUuid": other},
        "branch_summary": {"summary": "x", "fromUuid": target},
        "handle": {"handle": str(Handle.entry("id", target)), "kind": "message"},
        "handle path": {"handle": str(Handle.path("id", target)), "kind": "document"},
        "handle branch": {"handle": str(Handle.branch("id", target)), "kind": "document"},
        "handle lane": {"handle": str(Handle.branch("id", "scratch/a")), "kind": "document"},
        "handle elsewhere": {"handle": str(Handle.entry("no", target)), "kind": "message"},
    }
    return {"type": kind.split()[0], **fields[kind]}


HANDLES = ["path", "branch", "lane", "elsewhere"]
KINDS = ["message", "message", "branch", "label", "usage", "merge", "branch_summary"]
ENTRIES = st.lists(
    st.tuples(
        st.sampled_from([*KINDS, "handle", *(f"handle {kind}" for kind in HANDLES)]),
        st.sampled_from(LANES),
        st.integers(1, 4),
        st.integers(0, 25),
        st.integers(0, 25),
        st.sampled_from([OLD, OLD, YOUNG]),
    ),
    min_size=1,
    max_size=25,
)
"""Of each entry the kind, the lane, how far above its parent stands, two targets, the time."""


def history(drawn: list[tuple[str, str | None, int, int, int, str]]) -> History:
    """A header, and entries below it that refer to one another, also to later ones."""
    entries: History = [{"type": "session", "version": 2, "uuid": "e0", "parentUuid": None}]
    for row, (kind, lane, up, target, other, timestamp) in enumerate(drawn, 1):
        count = len(drawn) + 1
        entry = made(kind, f"e{target % count}", f"e{other % count}")
        entry |= {"uuid": f"e{row}", "parentUuid": f"e{max(row - up, 0)}", "timestamp": timestamp}
        entries.append(entry if lane is None else {**entry, "lane": lane})
    return entries


HISTORIES = ENTRIES.map(history)


def referred(entry: dict[str, Any], entries: History) -> set[str]:
    """What an entry holds on to, by the format's words: a branch only says where it came from."""
    found = {entry["parentUuid"], *annotating(entry, entries)}
    if entry["type"] != "branch":
        found |= {entry[key] for key in ("targetUuid", "mergedUuid", "baseUuid") if key in entry}
        found |= {entry["fromUuid"]} if "fromUuid" in entry else set()
    if entry["type"] == "handle" and "::branch:id:" in entry["handle"]:
        name = entry["handle"].split(":id:")[1]
        lanes = {e.get("lane") for e in entries if e.get("name") == name} - {None} | {name}
        found |= {e["uuid"] for e in entries if e.get("lane") in lanes}
    elif entry["type"] == "handle" and ":id:" in entry["handle"]:
        found.add(entry["handle"].rsplit(":", 1)[1])
    return found


def annotating(entry: dict[str, Any], entries: History) -> set[str]:
    """The labels and usage that belong to an entry: those behind it, and before the first."""
    lane = [e for e in entries if e.get("lane") == entry.get("lane")]
    contents = [e for e in lane if e["type"] not in ("label", "usage")]
    if entry not in contents:
        return set()
    at = contents.index(entry)
    start = lane.index(entry) if at else 0
    end = lane.index(contents[at + 1]) if at + 1 < len(contents) else len(lane)
    return {e["uuid"] for e in lane[start:end] if e not in contents}


def lasting(entries: History, standing: set[str]) -> set[str]:
    """The entries of lasting lanes, and all that these reach."""
    by_uuid = {entry["uuid"]: entry for entry in entries}
    reached = {e["uuid"] for e in entries if not e.get("lane", "").startswith("scratch/")}
    reached |= standing
    waiting = list(reached)
    while waiting:
        new = referred(by_uuid[waiting.pop()], entries) - reached - {None}
        reached |= new
        waiting += new
    return reached


def indexed(entries: History) -> tuple[TreeIndex, list[Entry | None]]:
    lines = [json.dumps(entry).encode() for entry in entries]
    tree = TreeIndex()
    tree.extend(b"".join(line + b"\n" for line in lines), 0, ignore)
    return tree, [decode(line, 0, ignore) for line in lines]


@settings(deadline=None, max_examples=amount(100))
@given(HISTORIES, st.sets(st.integers(0, 25), max_size=2))
def test_garbage_is_what_nothing_lasting_reaches(entries: History, stood_at: set[int]) -> None:
    tree, read = indexed(entries)
    standing = {f"e{n}" for n in stood_at if n < len(entries)}
    garbage = unkept(tree, read.__getitem__, "id", standing)
    kept = lasting(entries, standing)
    assert {f"e{row}" for row in garbage} == {e["uuid"] for e in entries} - kept
    for row in garbage:  # so nothing that stays loses what it hangs below
        assert garbage.issuperset(tree.subtree(row))


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(100))
@given(HISTORIES)
def test_garbage_goes_when_it_and_all_below_it_are_old(entries: History) -> None:
    tree, read = indexed(entries)
    garbage = unkept(tree, read.__getitem__, "id", [])
    old = [
        row
        for row in sorted(garbage)
        if all(entries[below]["timestamp"] == OLD for below in tree.subtree(row))
    ]
    assert expired(tree, read.__getitem__, "id", BETWEEN, []) == old
