"""What a provider's package declares goes back to the provider as it was stored."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, NotRequired, Required, get_args, get_origin

import pytest

pydantic = pytest.importorskip("pydantic")
pytest.importorskip("anthropic", reason="the dev extra is not installed")
pytest.importorskip("openai", reason="the dev extra is not installed")

from anthropic.types import ContentBlock, ContentBlockParam  # noqa: E402
from anthropic.types.beta import BetaContentBlock, BetaContentBlockParam  # noqa: E402
from openai.types.responses import (  # noqa: E402
    ResponseInputContentParam,
    ResponseOutputItem,
)
from openai.types.responses.response_input_item_param import (  # noqa: E402
    ResponseInputItemParam,
)
from openai.types.responses.response_output_message_param import Content  # noqa: E402
from typing_extensions import is_typeddict  # noqa: E402

from sessiontree.context.providers.accepted import ANTHROPIC, RESPONSES  # noqa: E402
from tests.support.saying import assistant, context, text, user  # noqa: E402

REFUSED = {
    "reasoning.content": "the API refuses reasoning with its text",
    "program.caller_id": "the `program` that calls a function, not the item",
    "refusal.category": "only an answer has it: the message has no other content",
}
"""Keys that the types declare and a request leaves out, and why."""

ALLOWED: dict[str, dict[str, Any]] = {
    "additional_tools": {"role": "developer"},
    "image_generation_call": {"error": None},
}
"""Values that the type of an answer has wider than that of an input."""

INNER = {"browser_state", "tool_reference"}
"""Blocks that only the results of tools hold."""

OWN_TESTS = {"message", "reasoning", "compaction", "input_text", "input_image", "input_file"}
OWN_TESTS |= {"output_text", "refusal"}
"""Items and parts that other tests send."""


def plain(hint: Any) -> Any:
    while get_origin(hint) in (Annotated, Required, NotRequired):
        hint = get_args(hint)[0]
    return hint


def is_class(hint: Any) -> bool:
    is_model = inspect.isclass(hint) and issubclass(hint, pydantic.BaseModel)
    return is_typeddict(hint) or is_model


def members(union: Any) -> Iterator[Any]:
    """The classes of a union."""
    hint = plain(union)
    if is_class(hint):
        yield hint
    elif get_origin(hint) in (typing.Union, types.UnionType):
        for inner in get_args(hint):
            yield from members(inner)


def hints(declared: Any) -> dict[str, Any]:
    if is_typeddict(declared):
        return typing.get_type_hints(declared, include_extras=True)
    return {field.alias or name: field.annotation for name, field in declared.model_fields.items()}


def tags(declared: Any) -> list[str]:
    kind = plain(hints(declared).get("type"))
    inner = get_args(kind) if get_origin(kind) is typing.Union else (kind,)
    return [tag for each in inner for tag in get_args(plain(each)) if isinstance(tag, str)]


def declared(union: Any) -> dict[str, set[str]]:
    """The keys of each type of a union of inputs."""
    found: dict[str, set[str]] = {}
    for one in members(union):
        if is_typeddict(one):
            for tag in tags(one):
                found.setdefault(tag, set()).update(hints(one))
    return found


def made(hint: Any, depth: int = 0) -> Any:
    """A value of a type, as small as the type allows."""
    hint = plain(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return arguments[0]
    if origin in (typing.Union, types.UnionType):
        fit = [one for one in arguments if one is not type(None)]
        return made(next((one for one in fit if is_class(plain(one))), fit[0]), depth)
    if is_class(hint):
        known = hints(hint)
        needed = known if depth == 0 else required(hint)
        return {key: made(known[key], depth + 1) for key in needed}
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return {"a": made(arguments[1], depth + 1)}
    if origin is not None:
        return [made(arguments[0], depth + 1)] if arguments else []
    values: dict[Any, Any] = {str: "x", int: 1, float: 1.5, bool: True, object: {"a": 1}}
    return values.get(hint, {"a": 1})


def required(one: Any) -> list[str]:
    if not is_typeddict(one):
        return [field.alias or n for n, field in one.model_fields.items() if field.is_required()]
    return [
        key
        for key, hint in hints(one).items()
        if get_origin(hint) is Required or (one.__total__ and get_origin(hint) is not NotRequired)
    ]


def found_in(params: Mapping[str, Any], kind: str) -> dict[str, Any] | None:
    """The first block or item of a type in a request."""
    waiting: list[Any] = [params]
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, dict):
            if value.get("type") == kind:
                return value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return None


def test_the_keys_are_those_that_the_packages_declare() -> None:
    blocks = declared(BetaContentBlockParam)
    for kind, keys in declared(ContentBlockParam).items():
        assert keys <= blocks[kind]
    items = declared(ResponseInputItemParam)
    for union in (ResponseInputContentParam, Content):
        items |= declared(union)
    for accepted, known in ((ANTHROPIC, blocks), (RESPONSES, items)):
        for kind, keys in known.items():
            wanted = {key for key in keys if f"{kind}.{key}" not in REFUSED}
            assert accepted.keys[kind] == wanted, kind
        assert set(accepted.keys) - set(known) <= INNER


def test_every_block_of_anthropic_goes_back_as_it_was() -> None:
    adapter = pydantic.TypeAdapter(BetaContentBlockParam)
    unions = (BetaContentBlockParam, BetaContentBlock, ContentBlockParam, ContentBlock)
    kinds: set[str] = set()
    for one in (member for union in unions for member in members(union)):
        (kind,) = tags(one)
        if kind == "tool_result" or f"{kind}.category" in REFUSED:
            continue
        block = made(one) | ({"type": kind} if is_typeddict(one) else {})
        if kind == "document":
            block["source"] = {"type": "text", "media_type": "text/plain", "data": "x"}
        elif kind == "image":
            block["source"] = {"type": "url", "url": "https://a.test/b.png"}
        sent = sent_back(kind, block)
        assert sent is not None, kind
        adapter.validate_python(sent)
        lost = {key for key, value in block.items() if sent.get(key) != value}
        refused = {key for key in lost if key == "citations" and "file_id" in str(block[key])}
        assert lost <= refused, (kind, lost, sent)
        kinds.add(kind)
    assert len(kinds) >= 22


def sent_back(kind: str, block: dict[str, Any]) -> dict[str, Any] | None:
    use = {"type": "server_tool_use", "id": "x", "name": "web_search", "input": {}}
    own: dict[str, Any] = {"model": "claude-x"}
    if kind in ("document", "image", "search_result"):
        return found_in(context(user([block])).to_anthropic().params, kind)
    lead = [use] if "tool_use_id" in block else []
    tail = [text("so")] if not kind.endswith("tool_use") else []
    answer = assistant(*lead, block, *tail, **own)
    return found_in(context(user("go"), answer).to_anthropic().params["messages"][1], kind)


def test_every_item_of_responses_goes_back_as_it_was() -> None:
    adapter = pydantic.TypeAdapter(ResponseInputItemParam)
    kinds: set[str] = set()
    for union in (ResponseInputItemParam, ResponseOutputItem):
        for one in members(union):
            for kind in tags(one):
                if kind in OWN_TESTS:
                    continue
                item = made(one) | ALLOWED.get(kind, {})
                sent = item_back(kind, item)
                assert sent is not None, kind
                adapter.validate_python(sent)
                lost = {key for key in item if key not in sent and f"{kind}.{key}" not in REFUSED}
                lost -= {key for key in lost if item[key] is None}
                assert lost <= {"created_by"} | ({"status"} if "custom" in kind else set()), kind
                kinds.add(kind)
    assert len(kinds) >= 28


def item_back(kind: str, item: dict[str, Any]) -> dict[str, Any] | None:
    """The item in the next request, with the call or the result that belongs to it."""
    all_items = members(ResponseInputItemParam)
    others = {tag: one for one in all_items for tag in tags(one)}
    before, after = [], []
    if kind.endswith("_call") and f"{kind}_output" in others:
        after = [made(others[f"{kind}_output"])]
        item = {**item, "id": "x" if kind == "local_shell_call" else "y"}
    elif kind.endswith("_call_output"):
        before = [{**made(others[kind.removesuffix("_output")]), "id": "y"}]
    return found_in(context(user("go"), *before, item, *after).to_openai().params, kind)
