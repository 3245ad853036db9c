"""What the calls of each agent's tools do to files."""

from __future__ import annotations

import json
from typing import Any, Final

from sessiontree.core.message import Call
from sessiontree.edits.patch import Hunk
from sessiontree.edits.tools import Edit, Swap, after, edits_of, paths_in
from tests.support.enough import ENOUGH

PATCH: Final = "*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n*** End Patch"
SWAP: Final = Edit("f", "edit", swaps=(Swap("a", "b"),))
HUNK: Final = Edit("f", "edit", hunks=(Hunk(("a",), ("b",)),))

TOOLS: Final[dict[str, tuple[str, Any, list[Edit]]]] = {
    "Claude Code, Edit": ("Edit", {"file_path": "f", "old_string": "a", "new_string": "b"}, [SWAP]),
    "each place": (
        "Edit",
        {"file_path": "f", "old_string": "a", "new_string": "b", "replace_all": True},
        [Edit("f", "edit", swaps=(Swap("a", "b", every=True),))],
    ),
    "MultiEdit": (
        "MultiEdit",
        {"file_path": "f", "edits": [{"old_string": x, "new_string": "b"} for x in "ac"]},
        [Edit("f", "edit", swaps=(Swap("a", "b"), Swap("c", "b")))],
    ),
    "Write": ("Write", {"file_path": "f", "content": "a"}, [Edit("f", "write", content="a")]),
    "NotebookEdit": (
        "NotebookEdit",
        {"notebook_path": "f", "new_source": "a"},
        [Edit("f", "change")],
    ),
    "pi, edit": ("edit", {"path": "f", "edits": [{"oldText": "a", "newText": "b"}]}, [SWAP]),
    "Gemini, replace": (
        "replace",
        {"file_path": "f", "old_string": "a", "new_string": "b", "expected_replacements": 2},
        [Edit("f", "edit", swaps=(Swap("a", "b", every=True),))],
    ),
    "a new file by replace": (
        "replace",
        {"file_path": "f", "old_string": "", "new_string": "b"},
        [Edit("f", "write", content="b")],
    ),
    "a tool of MCP": (
        "mcp__fs__edit_file",
        {"path": "f", "edits": [{"oldText": "a", "newText": "b"}]},
        [SWAP],
    ),
    "the text editor": (
        "str_replace_based_edit_tool",
        {"command": "str_replace", "path": "f", "old_str": "a", "new_str": "b"},
        [SWAP],
    ),
    "the text editor, create": (
        "str_replace_editor",
        {"command": "create", "path": "f", "file_text": "a"},
        [Edit("f", "write", content="a")],
    ),
    "the text editor, insert": (
        "str_replace_editor",
        {"command": "insert", "path": "f", "insert_line": 1, "insert_text": "a"},
        [Edit("f", "edit", content="a", line=1)],
    ),
    "the text editor, view": ("str_replace_editor", {"command": "view", "path": "f"}, []),
    "Codex, a patch as text": ("apply_patch", PATCH, [HUNK]),
    "Codex, a patch as JSON": ("apply_patch", json.dumps({"input": PATCH}), [HUNK]),
    "Codex, a patch in a shell": ("shell", {"command": ["apply_patch", PATCH]}, [HUNK]),
    "a script": ("Bash", {"command": "echo a > f"}, [Edit("f", "write", content="a\n")]),
    "a file of a server": (
        "mcp__github__create_or_update_file",
        {"owner": "me", "repo": "app", "path": "f", "content": "a", "branch": "main"},
        [],
    ),
    "a look": ("Read", {"file_path": "f"}, []),
    "a search": ("Grep", {"path": "f", "pattern": "a"}, []),
    "no path": ("Edit", {"old_string": "a", "new_string": "b"}, []),
    "a path of another type": ("Edit", {"file_path": 5, "old_string": "a", "new_string": "b"}, []),
    "texts of another type": ("Edit", {"file_path": "f", "old_string": 1, "new_string": 2}, []),
    "no arguments": ("Edit", {}, []),
    "broken JSON": ("Edit", "{", []),
}


def test_the_edits_of_a_call_are_found() -> None:
    for name, (tool, arguments, expected) in TOOLS.items():
        assert edits_of(Call("c", tool, arguments, "tool_use"), {}) == expected, name


def test_the_operations_of_openai_are_edits() -> None:
    cases: list[tuple[dict[str, Any], Edit]] = [
        ({"type": "create_file", "diff": "+a"}, Edit("f", "write", content="a\n", is_new=True)),
        ({"type": "update_file", "diff": "@@\n-a\n+b"}, HUNK),
        ({"type": "delete_file"}, Edit("f", "delete")),
    ]
    for operation, expected in cases:
        call = Call("c", "apply_patch", {"path": "f", **operation}, "apply_patch_call")
        assert edits_of(call, {}) == [expected]


def test_what_an_agent_keeps_of_an_edit_comes_before_the_arguments() -> None:
    """The user may have changed the edit before allowing it."""
    call = Call("c", "Edit", {"file_path": "f", "old_string": "a", "new_string": "b"}, "tool_use")
    told = {"originalFile": "a\n", "oldString": "a", "newString": "by the user"}
    (edit,) = edits_of(call, told)
    assert edit.before == "a\n"
    assert after(edit, edit.before, ENOUGH) == "by the user\n"


def test_an_edit_of_a_text_that_is_not_there_once_makes_nothing() -> None:
    assert after(SWAP, "a a", ENOUGH) is None
    assert after(SWAP, "c", ENOUGH) is None
    assert after(SWAP, None, ENOUGH) is None
    assert after(Edit("f", "edit", swaps=(Swap("a", "b", every=True),)), "a a", ENOUGH) == "b b"


def test_an_edit_that_multiplies_a_text_is_not_applied() -> None:
    edit = Edit("f", "edit", swaps=(Swap("a", "a" * 1000, every=True),))
    assert after(edit, "a" * 10_000, ENOUGH) is None


def test_arguments_that_are_nested_too_deep_are_no_edit_that_is_told() -> None:
    for deep in ('{"edits":' + "[" * 200_000, "[" * 200_000 + "]" * 200_000):
        for arguments in (deep, {"file_path": "a", "edits": deep}):
            assert edits_of(Call("1", "multiedit", arguments, "chat"), {}) == [], deep
        assert list(paths_in(Call("1", "multiedit", deep, "chat"))) == [deep]
