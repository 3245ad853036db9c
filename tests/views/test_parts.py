"""The one walk over a message: the parts of each shape, in order, for all doors."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, Final

import sessiontree
from sessiontree.views.markdown import passage
from sessiontree.views.parts import Part, parts, parts_of, text_of_entry
from tests.support.lines import entry

SOURCES: Final = Path(sessiontree.__file__).parent
CALL: Final = {"type": "toolCall", "id": "c", "name": "bash", "arguments": {"command": "ls\n-l"}}
OUT: Final = {"type": "tool_result", "tool_use_id": "c", "content": "out"}
FUNCTION: Final = {"id": "a", "function": {"name": "f", "arguments": "{}"}}
PNG: Final = {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}
LINK: Final = {"type": "image_url", "image_url": {"url": "https://a.test/b.png"}}
TYPED: Final = "<command-name>/x</command-name><command-args>y</command-args>"

MESSAGES: Final[list[tuple[dict[str, Any], str]]] = [
    ({"role": "user", "content": "hello"}, "text hello"),
    ({"role": "user", "content": ""}, ""),
    ({"role": "user", "content": [{"type": "text", "text": ""}]}, ""),
    ({"role": "user", "content": TYPED}, "text /x y"),
    ({"role": "assistant", "content": TYPED}, f"text {TYPED}"),
    ({"content": "nobody"}, "text nobody"),
    ({"role": "system", "sections": ["a", "b"]}, "text a; text b"),
    (
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, CALL]},
        "thinking hm; call bash",
    ),
    ({"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}, "thinking"),
    ({"role": "assistant", "content": "", "tool_calls": [FUNCTION]}, "call f"),
    ({"role": "assistant", "content": [PNG, LINK]}, "media image/png 8 B; other image_url"),
    ({"role": "assistant", "content": "a", "refusal": "no"}, "text a; refusal no"),
    ({"role": "assistant", "content": "a", "errorMessage": "no", "error": 3}, "text a; error no"),
    (
        {"role": "assistant", "content": "a", "stopReason": "error"},
        "text a; error the answer ended with an error",
    ),
    ({"role": "assistant", "content": "API Error", "model": "<synthetic>"}, "error API Error"),
    ({"role": "assistant", "content": "a", "partial": True}, "text a; broken"),
    (
        {"role": "assistant", "content": "a", "stopReason": "aborted", "errorMessage": "Aborted"},
        "text a; broken Aborted",
    ),
    ({"role": "user", "content": [OUT, "b"]}, "result c out; text b"),
    ({"role": "user", "content": [{**OUT, "is_error": True}]}, "result c failed out"),
    ({"role": "toolResult", "toolCallId": "c", "content": "out"}, "result c out"),
    ({"role": "toolResult", "content": "out", "isError": "no"}, "result out"),
    ({"role": "toolResult", "content": {"a": 1}}, 'result {\n  "a": 1\n}'),
    ({"role": "tool", "content": ["a", PNG, {"type": "x"}]}, "result a image/png 8 B x"),
    ({"role": "bashExecution", "command": "ls", "output": "a"}, "shell ls a"),
    ({"role": "bashExecution", "command": None}, "shell"),
    ({"role": "bashExecution", "content": "ls"}, "text ls"),
    ({"type": "function_call_output", "call_id": "c", "output": "out"}, "result c out"),
    ({"type": "reasoning", "encrypted_content": "x"}, "thinking"),
    ({"type": "web_search_call", "query": "x"}, "other web_search_call"),
]

ENTRIES: Final[list[tuple[dict[str, Any], str]]] = [
    ({"type": "compaction", "summary": "short"}, "summary short"),
    ({"type": "custom_message", "content": "c"}, "text c"),
    ({"type": "custom", "metadata": {"typed": True}, "data": {"content": "t"}}, "text t"),
    ({"type": "block", "block": OUT}, "result c out"),
    ({"type": "own", "uuid": "u", "lane": "l", "crc": "c", "a": 1}, "other"),
    (dict.fromkeys(("type", "uuid", "parentUuid", "lane", "timestamp", "crc", "spilled"), "x"), ""),
]


def shown(part: Part) -> str:
    name = part.call.name if part.call is not None else ""
    kind = part.block.get("type", "") if part.kind == "other" else ""
    failed = "failed" if part.failed else ""
    pieces = (shown(piece).partition(" ")[2] for piece in part.pieces)
    return " ".join(filter(None, [part.kind, name, part.id, failed, part.text, kind, *pieces]))


def test_each_shape_of_a_message_and_an_entry_has_its_parts() -> None:
    for message, expected in MESSAGES:
        assert "; ".join(map(shown, parts(message))) == expected, message
    for keys, expected in ENTRIES:
        assert "; ".join(map(shown, parts_of(keys))) == expected, keys


def test_a_handle_has_the_parts_of_the_message_that_it_resolves_to() -> None:
    message = {"role": "user", "content": "from elsewhere"}
    assert [*parts_of({"type": "handle", "handle": "h"}, message)] == [*parts(message)]


def test_the_text_of_an_entry_is_whole_and_has_its_calls_in_short() -> None:
    shell = {"role": "bashExecution", "command": "ls", "output": "a\nb "}
    calls = {"role": "assistant", "content": ["x", {**CALL, "arguments": {}}]}
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("message", {"message": {"role": "user", "content": "a\nb"}}, "a\nb"),
        ("message", {"message": calls}, "x\nRan"),
        ("message", {"message": shell}, "$ ls\na\nb"),
        ("message", {"message": {"role": "user", "content": [PNG]}}, "[image/png 8 B]"),
        ("message", {"message": 5, "content": "c"}, "c"),
        ("compaction", {"summary": "s\nt"}, "s\nt"),
        ("label", {"targetUuid": "t", "label": "here"}, "here"),
    ]
    for kind, fields, text in cases:
        assert text_of_entry(entry(kind, **fields)) == text, fields


def test_markdown_shows_a_command_with_its_output_and_a_code_that_says_it_failed() -> None:
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"exitCode": 0}, []),
        ({"exitCode": 3}, ["*Exit code 3.*"]),
        ({"exitCode": "3"}, []),
        ({"exitCode": None, "output": ""}, []),
        ({"output": 5}, []),
        ({"output": "done"}, ["Result:\n\n```\ndone\n```"]),
    ]
    for fields, told in cases:
        (part,) = parts({"role": "bashExecution", "command": "ls", **fields})
        assert passage(part).split("\n\n", 1)[1:] == told


WALKING: Final = {
    *("blocks_of", "block_text", "call_in", "calls_beside", "numbered_blocks", "thought_text"),
    *("is_result_block", "THOUGHT_BLOCKS", "CALL_BLOCKS", "RESULT_BLOCKS"),
}
"""The names of `core.message` with which code looks into the content of a message."""

SHOWING: Final = (
    *("views", "history", "operations", "page", "library", "store", "ops", "calls"),
    *("cli", "mcp", "tui", "web"),
)


def test_a_message_is_walked_by_one_function_in_all_rooms_that_show_it() -> None:
    walking = {
        path.relative_to(SOURCES).as_posix()
        for room in SHOWING
        for path in SOURCES.joinpath(room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "sessiontree.core.message"
        if any(name.name in WALKING for name in node.names)
    }
    # An answer that broke off, and the attachments of a prompt, are found and never shown.
    assert walking - {"operations/moves.py", "operations/unfinished.py"} == {"views/parts.py"}


def test_a_tree_is_laid_out_by_one_function_in_all_rooms_that_show_it() -> None:
    joining, climbing = set(), set()
    for room in SHOWING:
        for path in SOURCES.joinpath(room).rglob("*.py"):
            name = path.relative_to(SOURCES).as_posix()
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    joining |= {name} if {"├─", "└─"} & {node.value[:2]} else set()
                if isinstance(node, ast.Attribute) and node.attr in ("above", "leaves"):
                    climbing |= {name} if ast.unparse(node.value) == "turn" else set()
    assert joining == {"views/layout.py"}
    # The script of a page goes up from a turn, to compare two branches.
    assert climbing == {"views/turns.py", "views/layout.py", "page/document.py"}
