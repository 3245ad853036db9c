"""What messages of each agent tell of its work."""

from __future__ import annotations

import json
from typing import Any

from sessiontree.core.activity import (
    as_typed,
    ended_calls,
    error_of,
    files_of,
    gist_of,
    is_interruption,
    is_output,
)
from sessiontree.core.message import ToolCall, is_generated, is_typed_command
from sessiontree.core.questions import answers_in, questions_of
from tests.support.conversation import user

PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n*** Add File: b.py\n*** End Patch"


def test_the_files_of_a_call_are_found_in_its_arguments() -> None:
    cases: list[tuple[str, Any, list[tuple[str, bool]]]] = [
        ("Read", {"file_path": "a.py"}, [("a.py", False)]),
        ("edit", {"path": "a.py"}, [("a.py", True)]),
        ("write_file", {"file_path": "a.py"}, [("a.py", True)]),
        ("Glob", {"path": "/project"}, []),
        ("apply_patch", PATCH, [("a.py", True), ("b.py", True)]),
        ("apply_patch", {"input": PATCH}, [("a.py", True), ("b.py", True)]),
        ("shell", {"command": "ls"}, []),
        ("Read", {"file_path": 5}, []),
        ("Read", None, []),
    ]
    for name, arguments, touched in cases:
        assert [*map(tuple, files_of(ToolCall("1", name, arguments, "toolCall")))] == touched


def result(**keys: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "1", "content": "x", **keys}


_LONG_AND_FAILED = json.dumps({"output": "x" * 900, "metadata": {"exit_code": 2}})


def _of_tool(text: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"role": "toolResult", "toolCallId": "1", "content": content, "isError": False}


def test_failed_and_refused_calls_are_told_apart() -> None:
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"role": "toolResult", "toolCallId": "1", "content": [], "isError": True}, ["failed"]),
        ({"role": "toolResult", "toolCallId": "1", "content": [], "isError": False}, ["done"]),
        (user([result(is_error=True), result()]), ["failed", "done"]),
        (user([result(is_error=True, content="The user doesn't want to proceed")]), ["refused"]),
        ({"type": "function_call_output", "call_id": "1", "output": "Exit code: 2\n"}, ["failed"]),
        ({"type": "function_call_output", "call_id": "1", "output": "Exit code: 0\n"}, ["done"]),
        (user("Exit code: 2"), []),
        ({"type": "function_call_output", "call_id": "1", "output": _LONG_AND_FAILED}, ["failed"]),
        (_of_tool("two\n<shellId: 0 completed with exit code 3>"), ["failed"]),
        (_of_tool("two\n<shellId: 0 completed with exit code 0>"), ["done"]),
        (_of_tool("Output: two\nExit Code: 3\nProcess Group PGID: 3"), ["failed"]),
        (_of_tool("Exit code 3"), ["done"]),
        (_of_tool('{"exit_code":1}, which a file has'), ["failed"]),
        (_of_tool('a file with "exit_code": 1,'), ["done"]),
    ]
    for message, outcomes in cases:
        assert list(ended_calls(message)) == [("1", outcome) for outcome in outcomes]


def test_interruptions_and_errors_of_each_agent_are_found() -> None:
    assert is_interruption(user([{"type": "text", "text": "[Request interrupted by user]"}]))
    assert is_interruption(user("<turn_aborted>"))
    assert is_interruption({"role": "assistant", "content": [], "stopReason": "aborted"})
    assert not is_interruption(user("Why was it interrupted?"))
    failed = {"role": "assistant", "content": [], "stopReason": "error", "errorMessage": "529"}
    assert error_of(failed) == "529"
    synthetic = {"role": "assistant", "model": "<synthetic>", "content": "API Error: 500"}
    assert error_of(synthetic) == "API Error: 500"
    assert error_of({"role": "assistant", "content": "no error"}) is None


def test_a_command_reads_as_it_was_typed() -> None:
    cases: list[tuple[str, str]] = [
        ("<command-name>/mcp</command-name>\n<command-args></command-args>", "/mcp"),
        (
            "<command-message>r</command-message><command-name>/review</command-name>"
            "<command-args>all of it</command-args>",
            "/review all of it",
        ),
        ("<bash-input>ls</bash-input>", "! ls"),
        ("<b>bold</b>", "<b>bold</b>"),
        ("plain", "plain"),
    ]
    for text, typed in cases:
        assert as_typed(text) == typed
        assert is_typed_command(user(text)) == text.startswith(("<command", "<bash"))


def test_the_gist_of_a_summary_leaves_out_how_each_begins() -> None:
    begins = "This session is being continued.\n\nAnalysis:\nFirst…\n\nSummary:\n"
    intent = "1. Primary Request and Intent:\n   - Mend it"
    assert gist_of(begins + intent).strip() == "Mend it"
    assert gist_of(begins + "They talked.") == "They talked."
    assert gist_of("They talked.") == "They talked."


SAID: dict[str, Any] = {"type": "text", "text": "a"}
THOUGHT = {"type": "thinking", "thinking": "x"}
CALLED = {"type": "toolCall", "id": "c", "name": "x", "arguments": {}}

OUTPUTS: list[tuple[dict[str, Any], bool]] = [
    ({}, False),
    ({"content": "a"}, True),
    ({"content": " \n"}, False),
    ({"content": None}, False),
    ({"content": []}, False),
    ({"content": [SAID]}, True),
    ({"content": [{**SAID, "text": " "}]}, False),
    ({"content": [THOUGHT]}, False),
    ({"content": [{"type": "redacted_thinking", "data": "x"}]}, False),
    ({"content": [THOUGHT, SAID]}, True),
    ({"content": [THOUGHT, CALLED]}, True),
    ({"content": [{"type": "image"}]}, True),
    ({"content": None, "tool_calls": [{"id": "c"}]}, True),
    ({"content": None, "tool_calls": []}, False),
    ({"content": None, "refusal": "no"}, True),
    ({"content": "", "refusal": ""}, False),
]


def test_output_is_more_than_thoughts() -> None:
    for message, expected in OUTPUTS:
        assert is_output({"role": "assistant", **message}) is expected


def test_only_the_mark_of_a_program_makes_an_entry_its_own() -> None:
    cases: list[tuple[dict[str, Any], bool]] = [
        ({"metadata": {"isMeta": True}}, True),
        ({"metadata": {"isMeta": False}}, False),
        ({"metadata": {"isMeta": 1}}, False),
        ({"metadata": {}}, False),
        ({"metadata": []}, False),
        ({"isMeta": True}, False),
        ({}, False),
    ]
    for keys, expected in cases:
        assert is_generated(keys) is expected


TWO = [
    {"id": "db", "question": 'Which "store"?', "header": "Store"},
    {"id": "n", "question": "How many?"},
]
BOTH = [('Which "store"?', "SQLite"), ("How many?", "2, or 3")]


def told(name: str, arguments: Any, result: str) -> list[tuple[str, str]]:
    asked = questions_of(ToolCall("c", name, arguments, "tool_use"))
    return [(question, reply) for question, reply in answers_in(result, asked)]


def test_the_replies_of_a_user_are_read() -> None:
    cases: list[tuple[str, Any, str, list[tuple[str, str]]]] = [
        (
            "AskUserQuestion",
            {"questions": TWO},
            'User has answered your questions: "Which "store"?"="SQLite", "How many?"="2, or 3". '
            "You can now continue with the user's answers in mind.",
            BOTH,
        ),
        (
            "AskUserQuestion",
            {"questions": TWO},
            'User has answered your questions: "How many?"="say "two""',
            [("How many?", 'say "two"')],
        ),
        (
            "AskUserQuestion",
            {"questions": TWO},
            'User has answered your questions: "How many?"="cut of',
            [("How many?", "cut of")],
        ),
        (
            "request_user_input",
            json.dumps({"questions": TWO}),
            '{"answers":{"db":{"answers":["SQLite"]},"n":{"answers":["2","or 3"]}}}',
            BOTH,
        ),
        ("ask_user", {"questions": TWO}, '{"answers":{"0":"SQLite","n":"2, or 3"}}', BOTH[1:]),
        (
            "ask_user",
            {"questions": [{"question": "Why?"}]},
            '{"answers":{"0":"So"}}',
            [("Why?", "So")],
        ),
        ("question", {"question": "Why?"}, "User wrote: so\n", [("Why?", "User wrote: so")]),
        ("question", {"question": "Why?"}, '{"answers": 3', [("Why?", '{"answers": 3')]),
        ("question", {"question": "Why?"}, " ", []),
        ("Bash", {"question": "Why?"}, "x", []),
        ("question", "not JSON", "x", []),
        ("question", {"questions": [7, {"question": 7}]}, "x", []),
    ]
    for name, arguments, result, replies in cases:
        assert told(name, arguments, result) == replies
