"""What the result of a call shows of a file, and what agents keep beside results."""

from __future__ import annotations

import json
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from sessiontree.core.message import ToolCall
from sessiontree.edits.patch import Hunk
from sessiontree.edits.tools import (
    Edit,
    Replacement,
    SeenLines,
    SideFacts,
    edits_of,
    paths_in,
    seen_in,
)

Fields = dict[str, Any]

WHOLE: Final = SeenLines("f", "a\nb\n", is_whole=True)
BOTH_LINES: Final = SeenLines("f", "a\nb", total=2)
SOME: Final = SeenLines("f", "", 0)
NUMBERED: Final = SeenLines("f", "a\nb", 3)
FILE: Final = {"path": "f"}
READ_FILE: Final = {"file_path": "f"}
CAT: Final = {"command": "cat f"}
OF_CODEX: Final = "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n"

READ: Final[dict[str, tuple[str, Fields, str, list[SeenLines]]]] = {
    "a whole file": ("read", FILE, "a\nb\n", [WHOLE]),
    "by the path of Gemini CLI": ("read_file", {"absolute_path": "f"}, "a\nb\n", [WHOLE]),
    "from its first line on": ("read", {"path": "f", "offset": 1}, "a\nb\n", [WHOLE]),
    "from line 0 on": ("read", {"path": "f", "offset": 0}, "a\nb\n", [WHOLE]),
    "from a later line on": (
        "read",
        {"path": "f", "offset": 3},
        "a\nb\n",
        [SeenLines("f", "a\nb", 3)],
    ),
    "from a line named otherwise": (
        "view",
        {"path": "f", "start_line": 3},
        "a",
        [SeenLines("f", "a", 3)],
    ),
    "an empty line at the end": ("read", {"path": "f", "offset": 3}, "\n", [SOME]),
    "a part": ("read", {"path": "f", "limit": 2}, "a\nb\n", [SOME]),
    "a part up to a line": ("read_file", {"path": "f", "end_line": 2}, "a\nb\n", [SOME]),
    "a range": ("view", {"path": "f", "view_range": [1, 2]}, "a\nb\n", [SOME]),
    "numbers with arrows": ("Read", READ_FILE, "     3→a\n     4→b", [NUMBERED]),
    "numbers with tabs": ("view", FILE, "     3\ta\n     4\tb\n", [NUMBERED]),
    "numbers of a part": (
        "Read",
        {"file_path": "f", "offset": 3, "limit": 2},
        "3→a\n4→b",
        [NUMBERED],
    ),
    "a reminder below": ("Read", READ_FILE, "3→a\n4→b\n\n<system-reminder>x", [NUMBERED]),
    "numbers that do not follow each other": (
        "Read",
        READ_FILE,
        "3→a\n5→b",
        [SeenLines("f", "3→a\n5→b", is_whole=True)],
    ),
    "numbers from 0 on": ("Read", READ_FILE, "0→a", [SeenLines("f", "0→a", is_whole=True)]),
    "numbers that the file itself has": (
        "read",
        FILE,
        "1\ta\n2\tb\n",
        [SeenLines("f", "1\ta\n2\tb\n", is_whole=True)],
    ),
    "from the end": ("read", {"path": "f", "offset": -3}, "a", [SOME]),
    "what pi cut by lines": ("read", FILE, "a\n\n[Showing lines 1-1 of 9. Use offset=2]", [SOME]),
    "what pi cut by size": ("read", FILE, "a\n\n... (9 more lines not shown)", [SOME]),
    "one line that is too long for pi": ("read", FILE, "[Line 1 is 9MB, exceeds 50KB]", [SOME]),
    "what Gemini CLI cut": (
        "read_file",
        FILE,
        "\nIMPORTANT: The file content has been truncated.",
        [SOME],
    ),
    "nothing": ("read", FILE, "", [SOME]),
    "an offset that is no number": ("read", {"path": "f", "offset": "3"}, "a", [SOME]),
    "a tool that does not read": ("grep", FILE, "a", []),
    "no path": ("read", {"offset": 3}, "a", []),
    "a tool of MCP": ("mcp__fs__read_text_file", FILE, "a\nb\n", [WHOLE]),
    "cat": ("bash", CAT, "a\nb\n", [BOTH_LINES]),
    "cat in Codex": ("shell", {"command": ["cat", "f"]}, f"{OF_CODEX}a\nb\n", [BOTH_LINES]),
    "cat in Codex, as JSON": (
        "shell",
        {"command": ["bash", "-lc", "cat f"]},
        json.dumps({"output": "a\nb\n", "metadata": {"exit_code": 0}}),
        [BOTH_LINES],
    ),
    "JSON without an output": ("shell", CAT, '{"metadata":{}}', []),
    "a file that is JSON": ("shell", CAT, "{1}", [SeenLines("f", "{1}", total=1)]),
    "cat in Gemini CLI": (
        "run_shell_command",
        CAT,
        "Command: cat f\nDirectory: (root)\nOutput: a\nb\nError: (none)\nExit Code: 0",
        [BOTH_LINES],
    ),
    "cat in Gemini CLI, told in short": (
        "run_shell_command",
        CAT,
        "Output: a\nb\nProcess Group PGID: 5",
        [BOTH_LINES],
    ),
    "cat in Copilot CLI": (
        "bash",
        CAT,
        "a\nb\n<shellId: 0 completed with exit code 0>",
        [BOTH_LINES],
    ),
    "some lines": ("bash", {"command": "sed -n 3,4p f"}, "a\nb\n", [NUMBERED]),
    "lines up to the end": (
        "bash",
        {"command": "sed -n 3,9p f"},
        "a\nb\n",
        [SeenLines("f", "a\nb", 3, total=4)],
    ),
    "cat of nothing": ("bash", CAT, "", []),
    "what a shell left out": ("bash", CAT, "a\n[9 lines left out]\nb", []),
    "what Codex left out": ("shell", CAT, "Total output lines: 900\n\na", []),
    "two commands": ("bash", {"command": "cat f; cat g"}, "a\n", []),
    "two lines": ("bash", {"command": "ls\ncat f"}, "a\n", []),
    "a command that shows nothing": ("bash", {"command": "rm f"}, "a\n", []),
}


def test_a_result_shows_what_is_certain_of_a_file() -> None:
    for name, (tool, arguments, result, expected) in READ.items():
        assert seen_in(ToolCall("c", tool, arguments, "tool_use"), {}, result) == expected, name


def kept(content: Any, first: Any, count: Any, total: Any, path: Any = "f") -> Fields:
    """What Claude Code keeps beside the result of a `Read`."""
    told = {"filePath": path, "content": content, "startLine": first}
    return {"file": {**told, "numLines": count, "totalLines": total}}


KEPT: Final[dict[str, tuple[Fields, list[SeenLines]]]] = {
    "a whole file": (kept("a\nb\n", 1, 3, 3), [SeenLines("f", "a\nb\n", is_whole=True, total=3)]),
    "from line 0 on": (kept("a\n", 0, 2, 2), [SeenLines("f", "a\n", is_whole=True, total=2)]),
    "an empty file": (kept("", 1, 1, 1), [SeenLines("f", "", is_whole=True, total=1)]),
    "no numbers": (kept("a", 1, None, None), [SeenLines("f", "a", is_whole=True)]),
    "the first lines": (kept("a\nb", 1, 2, 9), [SeenLines("f", "a\nb")]),
    "lines within": (kept("a\nb", 3, 2, 9), [SeenLines("f", "a\nb", 3)]),
    "the last lines": (kept("a\nb", 3, 2, 4), [SeenLines("f", "a\nb", 3, total=4)]),
    "the last lines with the end": (kept("a\n", 3, 2, 4), [SeenLines("f", "a", 3, total=3)]),
    "no total": (kept("a", 3, 1, None), [SeenLines("f", "a", 3)]),
    "nothing of a file": (kept("", 3, 0, 9), []),
    "an image": ({"file": {"filePath": "f", "base64": "x"}}, []),
    "a path of another type": (kept("a", 1, 1, 1, path=5), []),
    "a start of another type": (kept("a", "1", 1, 1), []),
}


def test_what_claude_code_keeps_of_a_read_comes_before_the_text() -> None:
    for name, (told, expected) in KEPT.items():
        call = ToolCall("c", "Read", {"file_path": "f"}, "tool_use")
        assert seen_in(call, told, "1→other") == expected, name


def test_all_lines_are_shown_if_the_number_of_lines_says_so() -> None:
    cases: list[tuple[SeenLines, bool]] = [
        (SeenLines("f", "a\nb", total=2), True),
        (SeenLines("f", "a\nb\n", total=2), True),
        (SeenLines("f", "a\nb", 2, total=3), False),
        (SeenLines("f", "a\nb", total=3), False),
        (SeenLines("f", "a\nb"), False),
    ]
    for seen, has_all in cases:
        assert seen.has_all_lines is has_all


def swapped(**more: Any) -> Edit:
    return Edit("f", "edit", swaps=(Replacement("a", "b"),), **more)


def written(**more: Any) -> Edit:
    return Edit("f", "write", **more)


PATCH: Final = [{"oldStart": 3, "lines": ["-a", "+b"]}]
HUNK: Final = Hunk(("a",), ("b",), 3)

BESIDE: Final[dict[str, tuple[str, Fields, Edit]]] = {
    "nothing": ("Edit", {}, swapped()),
    "the content before": ("Edit", {"originalFile": "a\n"}, swapped(before="a\n")),
    "the content before, by other names": (
        "Edit",
        {"originalFile": None, "original_file": "a\n", "originalContent": "no"},
        swapped(before="a\n"),
    ),
    "other texts": (
        "Edit",
        {"oldString": "a", "newString": "c"},
        Edit("f", "edit", swaps=(Replacement("a", "c"),)),
    ),
    "hunks of Claude Code": ("Edit", {"structuredPatch": PATCH}, swapped(hunks=(HUNK,))),
    "a diff of Gemini CLI": (
        "Edit",
        {"fileDiff": "--- f\n+++ f\n@@ -3 +3 @@\n-a\n+b\n"},
        swapped(hunks=(HUNK,)),
    ),
    "a diff of pi": ("Edit", {"diff": "-3 a\n+3 b"}, swapped(hunks=(HUNK,))),
    "the content after": (
        "Edit",
        {"originalContent": "a", "newContent": "b"},
        written(content="b", before="a"),
    ),
    "the content of a new file": (
        "Edit",
        {"originalContent": "", "newContent": "b"},
        written(content="b", before="", is_new=True),
    ),
    "the content after, by another name": ("Edit", {"updated_file": "b"}, written(content="b")),
    "a new file": ("Write", {"type": "create"}, written(content="a", is_new=True)),
    "a file that is written over": (
        "Write",
        {"type": "update", "originalFile": "o"},
        written(content="a", before="o"),
    ),
}


def test_an_edit_has_what_its_agent_keeps_beside_the_result() -> None:
    for name, (tool, told, expected) in BESIDE.items():
        arguments = {"file_path": "f", "old_string": "a", "new_string": "b"}
        if tool == "Write":
            arguments = {"file_path": "f", "content": "a"}
        assert edits_of(ToolCall("c", tool, arguments, "tool_use"), told) == [expected], name


DISPLAYS: Final = {"toolCalls": [{"id": "c", "resultDisplay": {"fileDiff": "x"}}, {"id": "d"}]}

LINES: Final[dict[str, tuple[Fields, Fields, Fields]]] = {
    "Claude Code": ({"toolUseResult": {"x": 1}}, {}, {"x": 1}),
    "an import of it": ({}, {"original": {"toolUseResult": {"x": 1}}}, {"x": 1}),
    "an entry that has it": ({}, {"toolUseResult": {"x": 1}}, {"x": 1}),
    "Claude Code, a text": ({"toolUseResult": "Error"}, {}, {}),
    "pi": ({"message": {"details": {"x": 1}}}, {}, {"x": 1}),
    "an import of pi": ({}, {"message": {"details": {"x": 1}}}, {"x": 1}),
    "Gemini CLI": (DISPLAYS, {}, {"fileDiff": "x"}),
    "an import of Gemini CLI": ({}, {"original": DISPLAYS}, {"fileDiff": "x"}),
    "nothing": ({}, {}, {}),
}


def test_what_is_kept_beside_a_result_is_found_in_each_agents_lines() -> None:
    for name, (line, keys, expected) in LINES.items():
        told = SideFacts(line)
        assert told.of(keys, "c") == expected, name
        assert told.of(keys, "c") == expected, name  # from what was found the first time


def test_what_is_kept_of_one_call_is_not_told_of_another() -> None:
    assert SideFacts(DISPLAYS).of({}, "d") == {}
    assert SideFacts({}).of({"original": DISPLAYS}, "e") == {}
    told = SideFacts({})
    other = {"toolCalls": [{"id": "c", "resultDisplay": {"fileDiff": "y"}}]}
    assert told.of({"original": DISPLAYS}, "c") == {"fileDiff": "x"}
    assert told.of({"original": other}, "c") == {"fileDiff": "y"}


NAMES: Final = ("Edit", "Write", "bash", "shell", "apply_patch", "read", "str_replace_editor")
KEYS: Final = st.sampled_from(
    [
        *("file_path", "path", "command", "cmd", "input", "content", "edits", "old_string"),
        *("new_string", "insert_line", "insert_text", "diff", "offset", "type", "file"),
        *("structuredPatch", "lines", "oldStart", "startLine", "totalLines", "originalFile"),
    ]
)
SCALARS: Final = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
VALUES: Final = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4)
)


@given(
    name=st.sampled_from(NAMES),
    arguments=VALUES,
    told=st.dictionaries(KEYS, VALUES, max_size=3),
    shape=st.sampled_from(["tool_use", "apply_patch_call", "local_shell_call"]),
)
def test_a_call_of_any_form_is_read(name: str, arguments: Any, told: Fields, shape: str) -> None:
    call = ToolCall("c", name, arguments, shape)
    for edit in edits_of(call, told):
        assert isinstance(edit.path, str)
    for seen in seen_in(call, told, "a\n"):
        assert seen.first >= 1
    assert all(isinstance(path, str) for path in paths_in(call))
