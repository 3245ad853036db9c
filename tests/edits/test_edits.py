"""What the calls of each agent's tools do to files."""

from __future__ import annotations

import json
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from sessiontree.core.message import ToolCall
from sessiontree.edits.patch import Hunk
from sessiontree.edits.tools import Edit, Replacement, after, edits_of, paths_in, undone
from tests.support.enough import ENOUGH

PATCH: Final = "*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n*** End Patch"
SWAP: Final = Edit("f", "edit", swaps=(Replacement("a", "b"),))
HUNK: Final = Edit("f", "edit", hunks=(Hunk(("a",), ("b",)),))

EVERY: Final = Edit("f", "edit", swaps=(Replacement("a", "b", every=True),))
WRITTEN: Final = Edit("f", "write", content="a")
SWAPPED: Final = {"old_string": "a", "new_string": "b"}

TOOLS: Final[dict[str, tuple[str, Any, list[Edit]]]] = {
    "Claude Code, Edit": ("Edit", {"file_path": "f", **SWAPPED}, [SWAP]),
    "each place": ("Edit", {"file_path": "f", **SWAPPED, "replace_all": True}, [EVERY]),
    "MultiEdit": (
        "MultiEdit",
        {"file_path": "f", "edits": [{"old_string": x, "new_string": "b"} for x in "ac"]},
        [Edit("f", "edit", swaps=(Replacement("a", "b"), Replacement("c", "b")))],
    ),
    "Write": ("Write", {"file_path": "f", "content": "a"}, [WRITTEN]),
    "NotebookEdit": (
        "NotebookEdit",
        {"notebook_path": "f", "new_source": "a"},
        [Edit("f", "change")],
    ),
    "pi, edit": ("edit", {"path": "f", "edits": [{"oldText": "a", "newText": "b"}]}, [SWAP]),
    "Gemini, replace": (
        "replace",
        {"file_path": "f", **SWAPPED, "expected_replacements": 2},
        [EVERY],
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
        [WRITTEN],
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
    "no path": ("Edit", SWAPPED, []),
    "a path of another type": ("Edit", {"file_path": 5, **SWAPPED}, []),
    "texts of another type": ("Edit", {"file_path": "f", "old_string": 1, "new_string": 2}, []),
    "no arguments": ("Edit", {}, []),
    "broken JSON": ("Edit", "{", []),
}


def test_the_edits_of_a_call_are_found() -> None:
    for name, (tool, arguments, expected) in TOOLS.items():
        assert edits_of(ToolCall("c", tool, arguments, "tool_use"), {}) == expected, name


def test_the_operations_of_openai_are_edits() -> None:
    cases: list[tuple[dict[str, Any], Edit]] = [
        ({"type": "create_file", "diff": "+a"}, Edit("f", "write", content="a\n", is_new=True)),
        ({"type": "update_file", "diff": "@@\n-a\n+b"}, HUNK),
        ({"type": "delete_file"}, Edit("f", "delete")),
    ]
    for operation, expected in cases:
        call = ToolCall("c", "apply_patch", {"path": "f", **operation}, "apply_patch_call")
        assert edits_of(call, {}) == [expected]


def test_what_an_agent_keeps_of_an_edit_comes_before_the_arguments() -> None:
    """The user may have changed the edit before allowing it."""
    call = ToolCall(
        "c", "Edit", {"file_path": "f", "old_string": "a", "new_string": "b"}, "tool_use"
    )
    told = {"originalFile": "a\n", "oldString": "a", "newString": "by the user"}
    (edit,) = edits_of(call, told)
    assert edit.before == "a\n"
    assert after(edit, edit.before, ENOUGH) == "by the user\n"


def test_an_edit_of_a_text_that_is_not_there_once_makes_nothing() -> None:
    assert after(SWAP, "a a", ENOUGH) is None
    assert after(SWAP, "c", ENOUGH) is None
    assert after(SWAP, None, ENOUGH) is None
    assert after(EVERY, "a a", ENOUGH) == "b b"


def test_an_edit_that_multiplies_a_text_is_not_applied() -> None:
    edit = Edit("f", "edit", swaps=(Replacement("a", "a" * 1000, every=True),))
    assert after(edit, "a" * 10_000, ENOUGH) is None


def test_arguments_that_are_nested_too_deep_are_no_edit_that_is_told() -> None:
    for deep in ('{"edits":' + "[" * 200_000, "[" * 200_000 + "]" * 200_000):
        for arguments in (deep, {"file_path": "a", "edits": deep}):
            assert edits_of(ToolCall("1", "multiedit", arguments, "chat"), {}) == [], deep
        assert list(paths_in(ToolCall("1", "multiedit", deep, "chat"))) == [deep]


LONG: Final = "a long line"
AFTER: Final[dict[str, tuple[dict[str, Any], str | None, str | None]]] = {
    "a whole file": ({"kind": "write", "content": "new\n"}, "old\n", "new\n"),
    "a new file": ({"kind": "write", "content": "new\n"}, None, "new\n"),
    "text at the end": ({"kind": "append", "content": "new\n"}, "old\n", "old\nnew\n"),
    "text at the end of an unknown file": ({"kind": "append", "content": "new\n"}, None, None),
    "one text for another": ({"swaps": (Replacement("b", "x"),)}, "a b c", "a x c"),
    "one that is not there": ({"swaps": (Replacement("d", "x"),)}, "a b c", None),
    "one that is there twice": ({"swaps": (Replacement("b", "x"),)}, "b b", None),
    "each of several": ({"swaps": (Replacement("b", "x", True),)}, "b b", "x x"),
    "two, one after the other": (
        {"swaps": (Replacement("a", "b b"), Replacement("c", "d"))},
        "a c",
        "b b d",
    ),
    "a text in a file with CRLF": (
        {"swaps": (Replacement("a\nb", "x\ny"),)},
        "a\r\nb\r\n",
        "x\r\ny\r\n",
    ),
    "a text with CRLF": ({"swaps": (Replacement("a\r\nb", "x"),)}, "a\r\nb\r\n", "x\r\n"),
    "nothing for nothing": ({"swaps": (Replacement("", "x"),)}, "a", None),
    "a line in front": ({"line": 0, "content": "new"}, "a\nb\n", "new\na\nb\n"),
    "a line behind another": ({"line": 1, "content": "new\n"}, "a\nb\n", "a\nnew\nb\n"),
    "a line behind the end": ({"line": 9, "content": "new"}, "a\n", None),
    "a file that is moved": ({"kind": "move", "to": "g"}, "a\n", "a\n"),
    "a file that is deleted": ({"kind": "delete"}, "a\n", None),
    "a change that is not told": ({"kind": "change"}, "a\n", None),
}


def test_what_an_edit_makes_of_a_text() -> None:
    for name, (fields, text, made) in AFTER.items():
        assert after(Edit(**{"path": "f", "kind": "edit", **fields}), text, ENOUGH) == made, name


@given(st.lists(st.sampled_from([LONG, "another line", "a"])), st.integers(0, 3))
def test_an_edit_that_is_taken_back_gives_the_text_before_or_nothing(
    lines: list[str], place: int
) -> None:
    """It gives nothing where the new text stands elsewhere, too: which one is not told."""
    edit = Edit("f", "edit", swaps=(Replacement("<old>", LONG),))
    lines.insert(place, "<old>")
    text = "\n".join(lines)
    made, back = after(edit, text, ENOUGH), undone(edit)
    assert back is not None
    assert after(back, made, ENOUGH) == (text if LONG not in text else None)


def test_an_edit_whose_place_is_not_told_by_its_text_is_not_taken_back() -> None:
    cases: list[dict[str, Any]] = [
        {"swaps": (Replacement("old", LONG, True),)},
        {"swaps": (Replacement("old", "short"),)},
        {"line": 1, "content": LONG},
        {"kind": "write", "content": LONG},
    ]
    for fields in cases:
        assert undone(Edit(**{"path": "f", "kind": "edit", **fields})) is None
