"""The checker of the APIs' rules finds what the APIs refuse, and nothing in what they take."""

from __future__ import annotations

from typing import Any

from tests.examples.rules import Api, faults, seal
from tests.support.table import for_each

MODEL = "claude-opus-4-6"
IMAGE = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
EPHEMERAL = {"cache_control": {"type": "ephemeral"}}


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def thinking(said: str, model: str = MODEL) -> dict[str, Any]:
    return {"type": "thinking", "thinking": said, "signature": seal(model, said)}


def call(id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "bash", "input": {}}


def result(id: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": [text("done")]}


def anthropic(*contents: Any, **more: Any) -> dict[str, Any]:
    roles = ("user", "assistant") * len(contents)
    messages = [
        {"role": role, "content": content} for role, content in zip(roles, contents, strict=False)
    ]
    budget = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    return {"model": MODEL, "max_tokens": 2048, "messages": messages, **budget, **more}


def reasoning(number: str) -> dict[str, Any]:
    sealed = {"encrypted_content": seal(f"rs_{number}")}
    return {"type": "reasoning", "id": f"rs_{number}", "summary": [], **sealed}


def function_call(number: str, call_id: str = "call_1") -> dict[str, Any]:
    about = {"id": f"fc_{number}", "call_id": call_id, "name": "bash", "arguments": "{}"}
    return {"type": "function_call", **about}


OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "done"}
PROMPT = {"role": "user", "content": "Hi"}


def responses(*items: Any) -> dict[str, Any]:
    return {"model": "gpt-5", "input": [PROMPT, *items], "store": False}


def chat_call(id: str, arguments: str = "{}") -> dict[str, Any]:
    call = {"id": id, "type": "function", "function": {"name": "bash", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


TOOL = {"role": "tool", "tool_call_id": "call_1", "content": "done"}


def chat(*messages: Any) -> dict[str, Any]:
    return {"model": "gpt-5", "messages": [PROMPT, *messages]}


VALID: list[tuple[Api, dict[str, Any]]] = [
    ("anthropic", anthropic("Hi")),
    ("anthropic", anthropic("Hi", [thinking("so"), call("a"), call("b")], [*map(result, "ba")])),
    ("anthropic", anthropic([{"type": "image", "source": IMAGE}, text("see", **EPHEMERAL)])),
    ("anthropic", anthropic("Hi", [text("Ho")], "Hi", stream=True, system=[text("be")])),
    ("responses", responses(reasoning("r1"), function_call("r1"), OUTPUT)),
    ("responses", responses(PROMPT, PROMPT)),
    ("chat", chat(chat_call("call_1"), TOOL, PROMPT)),
]


@for_each("api, request", VALID)
def test_a_valid_request_has_no_faults(api: Api, request: dict[str, Any]) -> None:
    assert faults(api, request) == []


FIVE = [text(str(number), **EPHEMERAL) for number in range(5)]
INVALID: list[tuple[Api, dict[str, Any], str]] = [
    ("anthropic", anthropic("Hi", surprise=1), "has no key 'surprise'"),
    ("anthropic", {"model": MODEL, "messages": []}, "needs the key 'max_tokens'"),
    ("anthropic", anthropic([call("a") | {"partial": True}]), "has no key 'partial'"),
    ("anthropic", anthropic([{"type": "mystery"}]), "no member of the union takes 'mystery'"),
    ("anthropic", anthropic(), "at least one message"),
    ("anthropic", anthropic([]), "must not be empty"),
    ("anthropic", anthropic("Hi", "Ho"), "prefill"),
    ("anthropic", anthropic(" "), "non-whitespace"),
    (
        "anthropic",
        anthropic("Hi", [thinking("so"), call("a")], "Go on"),
        "results [] for the calls",
    ),
    ("anthropic", anthropic([result("a")]), "results ['a'] for the calls []"),
    ("anthropic", anthropic("Hi", [thinking("so"), call("a")], [text("x"), result("a")]), "first"),
    ("anthropic", anthropic("Hi", [call("a")], [result("a")]), "expected thinking"),
    ("anthropic", anthropic("Hi", [thinking("so", "another")], "Hi"), "invalid signature"),
    ("anthropic", anthropic("Hi", [call("a")], [result("a")] * 2), "results ['a', 'a']"),
    (
        "anthropic",
        anthropic("Hi", [call("a")], [result("a")], [call("a")], [result("a"), text("x")]),
        "unique",
    ),
    ("anthropic", anthropic("Hi", [call("a:b")], [result("a:b")]), "other characters"),
    ("anthropic", anthropic(FIVE), "a maximum of 4 blocks"),
    ("anthropic", anthropic([{"type": "image", "source": IMAGE | {"data": "?"}}]), "not base64"),
    ("anthropic", anthropic("Hi", max_tokens=1024), "max_tokens must be greater"),
    ("responses", responses(reasoning("r1")), "without its required following item"),
    ("responses", responses(function_call("r1"), OUTPUT), "without its required reasoning item"),
    ("responses", responses(reasoning("r1"), OUTPUT), "no tool call found"),
    ("responses", responses(function_call("1")), "no tool output found"),
    ("responses", responses(OUTPUT, function_call("1")), "comes before its call"),
    ("responses", responses(function_call("1"), OUTPUT, OUTPUT), "duplicate item call_1"),
    ("responses", responses(reasoning("r1") | {"created_by": "x"}), "no key 'created_by'"),
    (
        "responses",
        responses(reasoning("r1") | {"encrypted_content": "x"}, function_call("r1"), OUTPUT),
        "could not be verified",
    ),
    ("chat", chat(chat_call("call_1"), PROMPT), "have no tool messages"),
    ("chat", chat(TOOL), "must follow the message with its call"),
    ("chat", chat(chat_call("call_1", "{"), TOOL), "not JSON"),
    ("chat", chat({"role": "assistant", "content": ""}, PROMPT), "neither content nor calls"),
    ("chat", chat({"role": "user", "content": "Hi", "partial": True}), "has no key 'partial'"),
]


@for_each("api, request, fault", INVALID)
def test_each_kind_of_invalid_request_is_found(
    api: Api, request: dict[str, Any], fault: str
) -> None:
    assert [found for found in faults(api, request) if fault in found], faults(api, request)
