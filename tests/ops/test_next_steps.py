"""What a refused call says to do next can be done with the methods that there are."""

from __future__ import annotations

from typing import Any

import pytest

from sessiontree import Store
from sessiontree.calls.dispatcher import Dispatcher
from tests.support.events import refusal
from tests.support.table import for_each

FILE = "file@1.0.0::path:notes.md"
BLOB = f"blob@1.0.0::sha256:{'a' * 64}:1:text/plain"
ENTRY = "session@2.0.0::entry:a:b"


@for_each(
    ("name", "params", "kind", "next"),
    [
        ("branch.keep", {"lane": "none"}, "nothing_to_do", "branch.lanes"),
        ("branch.keep", {"lane": "main"}, "bad_value", "branch.lanes"),
        ("branch.here", {"lane": "none"}, "no_such_ref", "branch.lanes"),
        ("branch.compact", {}, "nothing_to_do", "`keep` 0"),
        ("branch.merge", {"ref": "@"}, "nothing_to_do", "name something else"),
        ("tree.fork", {"at": "nope"}, "no_such_ref", "node.find"),
        ("session.outline", {"first": 9}, "no_such_ref", "`first`"),
        ("session.outline", {"first": 1, "last": 0}, "no_such_ref", "`last`"),
        ("session.turn", {"turn": 9}, "no_such_ref", "session.outline"),
        ("session.restore", {}, "session_not_found", "session.trashed"),
        ("node.get", {"offset": 10**6}, "bad_value", "`offset`"),
        ("tree.export", {"offset": 10**6}, "bad_value", "`offset`"),
        ("handle.resolve", {"handle": FILE}, "unresolved_handle", "`root`"),
        ("session.resume_command", {"agent": "codex"}, "session_not_found", "`cwd`"),
    ],
)
def test_the_next_step_of_a_refusal_fits_it(
    name: str, params: dict[str, Any], kind: str, next: str, writing: Dispatcher
) -> None:
    guidance, error = refusal(writing, name, {"session": "first", **params})
    assert guidance.kind == kind
    assert next in guidance.next
    assert "--" not in error.message
    assert "'sessiontree " not in error.message


@pytest.mark.parametrize("handle", [BLOB, ENTRY])
def test_a_handle_without_its_session_asks_for_it(handle: str, writing: Dispatcher) -> None:
    guidance, _ = refusal(writing, "handle.resolve", {"handle": handle})
    assert "`session`" in guidance.next


def test_a_file_of_an_agent_is_not_put_away(
    store: Store, writing: Dispatcher, tmp_path: Any
) -> None:
    writing.scope.agents.append(str(tmp_path))
    file = tmp_path / "theirs.jsonl"
    file.write_text("{}")
    guidance, _ = refusal(writing, "session.trash", {"session": str(file)})
    assert (guidance.kind, file.exists()) == ("outside", True)
    assert "to its agent" in guidance.next
