"""A `spilled` that does not fit its entry: no context raises, wherever the entry is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from sessiontree import Session
from tests.support.table import for_each

TIME: Final = "2026-01-01T00:00:00.000Z"
LOST: Final = f"blob@1.0.0::sha256:{'0' * 64}:2:text/plain"

ENTRIES: Final[dict[str, dict[str, Any]]] = {
    "message": {"message": {"role": "assistant", "content": LOST, "model": "m"}},
    "system message": {"type": "message", "message": {"role": "system", "content": LOST}},
    "compaction": {"summary": LOST, "firstKeptEntryUuid": "e1", "state": {"system": LOST}},
    "branch_summary": {"summary": LOST, "fromUuid": "e1"},
    "custom_message": {"customType": "n", "content": LOST, "display": True},
    "model_change": {"provider": "p", "modelId": "m"},
    "thinking_level_change": {"thinkingLevel": "low"},
    "session_info": {"name": "A name"},
    "label": {"targetUuid": "e1", "label": "l"},
    "usage": {"kind": "k", "provider": "p", "model": "m", "usage": {"input": 1}},
    "handle": {"handle": "session@2.0.0::entry:s1:e1", "kind": "message", "preview": LOST},
    "system handle": {"type": "handle", "handle": LOST, "kind": "binary", "role": "system"},
    "merge": {"mergedUuid": "e1", "baseUuid": "root", "summary": LOST},
    "context_edit": {"targetUuid": "e1", "replacement": {"content": LOST}},
    "block": {"messageUuid": "B", "index": 0, "block": {"type": "text", "text": LOST}},
    "message_end": {"messageUuid": "B", "role": "system", "model": "m"},
    "x-own": {"data": LOST},
}


def damages(fields: dict[str, Any]) -> list[Any]:
    """Each way in which a `spilled` can be wrong: as a whole, at an item, at each key."""
    keys = [*fields, "role", "type", "metadata", "gone"]
    return [5, None, {}, [5], [[[], LOST]], *([[[key], LOST]] for key in keys)]


def line(type: str, uuid: str, parent: str | None, **fields: Any) -> str:
    named = {"type": type, "uuid": uuid, "parentUuid": parent, "timestamp": TIME}
    return json.dumps({**named, **fields})


def said(role: str, **more: Any) -> dict[str, Any]:
    return {"message": {"role": role, "content": "hi", **more}}


@for_each("name", ENTRIES)
def test_no_context_raises(name: str, tmp_path: Path) -> None:
    fields = dict(ENTRIES[name])
    type = fields.pop("type", name)
    for number, spilled in enumerate(damages(fields)):
        lines = [
            line("session", "root", None, version=2, format="sessiontree/2", id="s1", cwd="/p"),
            line("message", "e1", "root", **said("user")),
            line(type, "e2", "e1", **fields, spilled=spilled),
            line("message", "e3", "e2", **said("user")),
            line("compaction", "e4", "e3", summary="S", firstKeptEntryUuid="e3", tokensBefore=1),
            line("handle", "e5", "e4", handle="session@2.0.0::entry:s1:e2", kind="message"),
            line("handle", "e6", "e5", handle="session@2.0.0::block:s1:B:0", kind="message"),
            line("merge", "e7", "e6", mergedUuid="e2", baseUuid="root"),
        ]
        file = tmp_path / f"{number}.jsonl"
        file.write_text("\n".join(lines) + "\n")
        with Session.open(file, readonly=True) as session:
            for number in range(1, 8):
                context = session.context(f"e{number}")
                assert (context.model, context.thinking_level, context.system) is not None
                assert session.context(f"e{number}", verbatim=True).messages is not None


@for_each("spilled", damages({"metadata": {}}))
def test_no_context_raises_for_a_header(spilled: Any, tmp_path: Path) -> None:
    keys = {"version": 2, "format": "sessiontree/2", "id": "s1", "cwd": "/p"}
    header = line("session", "root", None, **keys, metadata={"system": LOST}, spilled=spilled)
    file = tmp_path / "a.jsonl"
    file.write_text(header + "\n" + line("message", "e1", "root", **said("user")) + "\n")
    with Session.open(file, readonly=True) as session:
        assert session.context().messages == [said("user")["message"]]
