from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sessiontree.context.fold import ContextBuilder
from sessiontree.core.message import (
    Message,
    block_preview,
    calls_of,
    check_message,
    indented_text,
    interrupted_result,
    is_prompt,
    json_text,
    preview_of,
    result_ids,
    role_of,
    slash_command,
    speaker_of,
    system_text,
    text_of,
)
from sessiontree.errors import EntryError
from tests.support.histories import SHAPES, call, result, said
from tests.support.lines import entry, path, segments, values
from tests.support.paired import pair
from tests.support.soak import amount
from tests.support.table import for_each


def test_calls_and_results_are_understood_in_every_shape() -> None:
    for shape in SHAPES:
        [made] = calls_of(call(shape, "a"))
        assert (made.id, made.name) == ("a", "ls"), shape
        assert made.arguments in ({}, "{}"), shape
        assert result_ids(result(shape, "a")) == ["a"]
        assert calls_of(result(shape, "a")) == []
        assert result_ids(call(shape, "a")) == []


def test_a_result_is_a_tools_in_every_shape() -> None:
    for shape in SHAPES:
        assert speaker_of(result(shape, "a")) == "tool"
        assert speaker_of(call(shape, "a")) == "assistant"


def test_a_message_with_a_result_and_a_text_is_the_users() -> None:
    results = [{"type": "tool_result", "tool_use_id": "a", "content": "done"}]
    text = {"type": "text", "text": "go on"}
    assert speaker_of({"role": "user", "content": [*results, text]}) == "user"
    assert speaker_of({"role": "user", "content": []}) == "user"


def test_a_custom_tool_of_openai_is_a_call_too() -> None:
    chat = {"role": "assistant", "tool_calls": [{"id": "c", "custom": {"name": "g", "input": "x"}}]}
    assert [(c.id, c.name, c.arguments) for c in calls_of(chat)] == [("c", "g", "x")]
    shell = {"type": "local_shell_call", "call_id": "s", "action": {"command": ["ls"]}}
    assert [(c.id, c.arguments) for c in calls_of(shell)] == [("s", {"command": ["ls"]})]


def test_the_output_of_a_local_shell_names_its_call_by_its_id() -> None:
    shell = {"type": "local_shell_call", "id": "lsh", "call_id": "s", "action": {}}
    output = {"type": "local_shell_call_output", "id": "s", "output": "{}"}
    assert result_ids(output) == result_ids({**output, "id": "lsh", "call_id": "s"}) == ["s"]
    (made,) = calls_of(shell)
    assert result_ids(interrupted_result(made)) == ["s"]


def test_every_item_that_the_provider_declares_without_a_role_is_a_message() -> None:
    responses = pytest.importorskip("openai.types.responses", reason="openai is not installed")
    union, *_ = get_args(responses.ResponseInputItem)
    fields = [item.model_fields for item in get_args(union)]
    kinds = {
        kind
        for declared in fields
        if "role" not in declared
        for kind in _strings_in(declared["type"].annotation)
    }
    assert {"web_search_call", "mcp_call", "reasoning"} < kinds
    for kind in kinds:
        check_message({"type": kind})


def _strings_in(annotation: Any) -> Iterator[str]:
    """The values that an optional literal may have."""
    for found in get_args(annotation):
        if isinstance(found, str):
            yield found
        else:
            yield from _strings_in(found)


def test_what_ran_at_the_provider_needs_no_result() -> None:
    for kind in ("web_search_call", "file_search_call", "mcp_call", "image_generation_call"):
        item = {"type": kind, "id": "x", "call_id": "y", "status": "completed"}
        assert pair([item]) == ([item], []), kind


def test_an_item_without_a_role_plays_one() -> None:
    cases: list[tuple[Message, str]] = [
        ({"role": "user"}, "user"),
        *(({"type": t}, "assistant") for t in ("function_call", "reasoning", "web_search_call")),
        ({"type": "function_call_output"}, "tool"),
        ({"type": "mcp_approval_response"}, "user"),
        ({"role": 5, "type": ["x"]}, "assistant"),
    ]
    for item, role in cases:
        assert role_of(item) == role


def test_a_prompt_is_a_user_message_with_more_than_results() -> None:
    cases: list[tuple[Any, bool]] = [
        *((content, True) for content in ("go", [said("go")], [{"type": "image"}])),
        *((content, False) for content in ("", None, result("anthropic", "a")["content"])),
        *(([], False), (result("anthropic", "a", then="and now?")["content"], True)),
    ]
    for content, answer in cases:
        assert is_prompt({"role": "user", "content": content}) is answer
        assert not is_prompt({"role": "assistant", "content": content})


def test_a_message_is_anything_with_a_role_and_any_item() -> None:
    cases: list[Message] = [
        *({"role": "user"}, {"role": "custom role", "content": 5}),
        *({"type": "function_call", "call_id": "a"}, {"type": "reasoning"}),
    ]
    for sound in cases:
        check_message(sound)


@for_each(
    "wrong",
    [
        *(None, "text", ["role"], {}, {"role": ""}, {"role": 5}, {"content": "x"}),
        *({"type": "message"}, {"type": ["function_call"]}, {"role": "", "type": "reasoning"}),
    ],
)
def test_what_is_no_message_is_refused_with_the_way_to_write_one(wrong: Any) -> None:
    with pytest.raises(EntryError, match='"role": "user"'):
        check_message(wrong)


def test_text_is_the_text_blocks_joined() -> None:
    assert text_of({"content": [said("a"), {"type": "image"}, "b", 5]}) == "a\nb"
    assert text_of({"content": "a"}) == "a"
    assert text_of({}) == ""


def test_a_system_message_may_be_written_in_sections() -> None:
    assert system_text({"content": "a", "sections": ["b"]}) == "a"
    assert system_text({"sections": ["a", said("b"), 5, ""]}) == "a\n\nb"
    assert system_text({"sections": 5}) == ""


def test_a_block_is_shown_in_a_few_words() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        (said("hi"), "hi"),
        ({"type": "toolCall", "name": "ls", "arguments": {"path": "a", "n": 1}}, "ls(path=a, n=1)"),
        ({"type": "toolCall", "name": "w", "arguments": {"t": "x" * 99}}, f"w(t={'x' * 59}…)"),
        ({"type": "toolCall", "name": "w", "arguments": {"t": "x" * 60}}, f"w(t={'x' * 60})"),
        ({"type": "toolCall", "name": "w", "arguments": {"t": "x" * 61}}, f"w(t={'x' * 59}…)"),
        ({"type": "tool_use", "name": "ls", "input": "raw"}, "ls(raw)"),
        ({"type": "tool_use", "name": "ls"}, "ls()"),
        ({"type": "toolCall", "name": "ls", "arguments": [1]}, "ls([1])"),
        ({"type": "tool_result", "content": [said("out")]}, "out"),
        ({"type": "image", "data": "x"}, "[image]"),
        ({"type": "thinking", "thinking": "hm"}, "(thinking) hm"),
        *(({"type": "audio"}, "[audio]"), ({"type": ["audio"]}, ""), ({}, "")),
    ]
    for block, shown in cases:
        assert block_preview(block) == shown


def test_a_message_is_shown_by_what_it_says_or_does() -> None:
    cases: list[tuple[Message, str]] = [
        ({"content": [said("a"), {"type": "image"}]}, "a [image]"),
        (call("chat", "a"), "ls({})"),
        ({"role": "bashExecution", "command": "ls", "output": "x"}, "$ ls"),
        ({"type": "function_call_output", "output": "done"}, "done"),
        ({"type": "function_call_output", "output": [1]}, ""),
        ({}, ""),
    ]
    for whole, shown in cases:
        assert preview_of(whole) == shown


def test_any_value_has_a_text_to_look_at() -> None:
    cases: list[tuple[Any, str]] = [
        ({"a": [1]}, '{"a":[1]}'),
        ("\ud83d", '"\ud83d"'),
        (2**70, str(2**70)),
        (b"x", "\"b'x'\""),
    ]
    for value, text in cases:
        assert json_text(value) == text


def test_a_value_too_deep_to_write_still_has_a_text() -> None:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    assert json_text(deep) == "…"


keys = ["role", "content", "type", "name", "tool_calls", "call_id", "toolCallId", "output", "model"]
words = ["user", "assistant", "tool", "toolResult", "system", "function_call", "tool_use", "a"]
blocks = st.dictionaries(
    st.sampled_from(["type", "id", "text", "tool_use_id", "function", "content"]),
    values | st.sampled_from(words),
)
anything = st.dictionaries(
    st.sampled_from(keys), values | st.sampled_from(words) | st.lists(blocks, max_size=3)
)


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(60))
@given(st.lists(anything, max_size=4))
def test_no_message_of_a_file_makes_a_look_at_it_fail(found: list[dict[str, Any]]) -> None:
    for one in found:
        assert isinstance(preview_of(one), str)
        assert isinstance(role_of(one), str)
        assert isinstance(system_text(one), str)
    assert pair(found) == pair(found)
    entries = [entry("message", f"u{place}", message=one) for place, one in enumerate(found)]
    fold = ContextBuilder(path(*entries), segments({}))
    assert len(fold.result()[0]) == len(fold.result()[1])


def test_a_slash_command_stands_between_its_tags() -> None:
    cases: list[tuple[str, str | None]] = [
        ("<command-name>/clear</command-name>", "/clear"),
        ("x <command-name>\n/re view </command-name> y </command-name>", "/re view"),
        ("<command-name>a<command-name>b</command-name>", "a<command-name>b"),
        ("<command-name> </command-name>", None),
        ("<command-name>/clear", None),
        ("</command-name>/clear<command-name>", None),
        ("/clear", None),
    ]
    for text, command in cases:
        assert slash_command(text) == command


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8)
)


@example(1e-05)
@example([9.9e-05, 1e16, 1e-7])
@given(
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=12,
    )
)
def test_a_value_is_indented_as_the_standard_library_does(value: Any) -> None:
    assert indented_text(value) == json.dumps(value, ensure_ascii=False, indent=2)


def test_a_value_that_is_nested_deep_is_on_one_line() -> None:
    value: Any = "x"
    for _ in range(12):
        value = [value]
    assert indented_text(value).count("\n") == 24
    assert indented_text([value]) == json_text([value])
    assert indented_text({"a": value}) == json_text({"a": value})
    assert indented_text({1: "\ud800", "k": object}) == json.dumps(
        {1: "\ud800", "k": str(object)}, ensure_ascii=False, indent=2
    )
