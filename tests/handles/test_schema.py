from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from sessiontree.context.resolved import ResolvedHandle
from sessiontree.core.handle import Handle, Kind
from sessiontree.errors import HandleError, HandleSchemaError, ResolveError, UsageError
from sessiontree.handles.registry import HandleSchema, MetaField, Registry, ResolverScope
from tests.support.plugins import Plugin, said
from tests.support.table import for_each

META = [
    MetaField("message id", prefix="msg-", pattern="[0-9a-f]+"),
    MetaField("role", pattern="user|assistant"),
    MetaField("name", required=False),
]
CHAT = HandleSchema("cone", "chat", "1.x", META, "message")


def includes(versions: str, version: str) -> bool:
    return HandleSchema("p", "m", versions).includes(version)


@for_each(
    "versions, inside, outside",
    [
        ("*", ["0.0.0", "9.9.9-rc.1"], []),
        ("1", ["1.0.0", "1.99.3", "1.0.0-rc.1"], ["0.9.9", "2.0.0", "10.0.0", "2.0.0-rc.1"]),
        ("1.x", ["1.0.0", "1.99.3"], ["2.0.0"]),
        ("1.x.x", ["1.0.0", "1.99.3"], ["2.0.0"]),
        ("1.2", ["1.2.0", "1.2.9"], ["1.3.0", "1.20.0"]),
        (">=1.2 <3", ["1.2.0", "2.9.9", "1.2.0-rc.1"], ["1.1.9", "3.0.0", "3.0.0-rc.1"]),
        (">1", ["2.0.0"], ["1.9.9"]),
        ("<=1", ["0.1.0", "1.9.9"], ["2.0.0"]),
    ],
)
def test_a_range_includes_what_it_says(
    versions: str, inside: list[str], outside: list[str]
) -> None:
    assert [v for v in inside if not includes(versions, v)] == []
    assert [v for v in outside if includes(versions, v)] == []


@for_each(
    "versions",
    [
        *("", " ", "x", "v1", "1.x.3", "1.x.3-rc", "1.2.3", "1.2.3.x", "1.2-rc", "1.2.3-01"),
        *("x.1", "1-rc.1", "^1", "1,2", ">", "01"),
    ],
)
def test_what_is_no_range_is_refused(versions: str) -> None:
    with pytest.raises(UsageError, match="range of versions"):
        HandleSchema("p", "m", versions)


@for_each(
    "arguments, told",
    [
        (("", "m"), "plugin"),
        (("p", ""), "method"),
        (("p", "m", "*", [], "video"), "a kind is one of"),
        (("p", "m", "*", [MetaField("a", required=False), MetaField("b")]), "come last"),
    ],
)
def test_a_schema_is_checked_when_it_is_made(arguments: tuple[Any, ...], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        HandleSchema(*arguments)


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="not a regular expression"):
        MetaField("a", pattern="(")


@for_each("meta", [("msg-1f", "user", "bob"), ("msg-1f", "user")])
def test_meta_that_fits_its_schema_is_taken(meta: tuple[str, ...]) -> None:
    CHAT.check(Handle("cone", "1.0.0", "chat", meta))


@for_each(
    "meta, part",
    [
        ((), "meta[0] (message id)"),
        (("msg-1f",), "meta[1] (role)"),
        (("1f", "user"), "meta[0] (message id)"),
        (("msg-", "user"), "meta[0] (message id)"),
        (("msg-1f\n", "user"), "meta[0] (message id)"),
        (("msg-1f", "system"), "meta[1] (role)"),
        (("msg-1f", "user", "bob", "more"), "meta[3]"),
    ],
)
def test_meta_that_breaks_its_schema_is_refused_by_its_part(
    meta: tuple[str, ...], part: str
) -> None:
    with pytest.raises(HandleSchemaError) as refused:
        CHAT.check(Handle("cone", "1.0.0", "chat", meta))
    assert refused.value.part == part
    assert isinstance(refused.value, HandleError)
    assert "cone@VERSION::chat:msg-<message id>:<role>[:name]" in str(refused.value)


NOTE = {
    "type": "object",
    "properties": {"lines": {"type": "array", "items": {"$ref": "#/$defs/line"}}},
    "required": ["lines"],
    "$defs": {"line": {"type": "string", "maxLength": 3}},
}


def resolved(schema: dict[str, Any], data: Any, kind: Kind = "document") -> ResolvedHandle:
    plugin = Plugin("p", resolve=lambda handle, scope: data)
    plugin.schemas = [HandleSchema("p", "a", "*", [], kind, schema)]
    with ResolverScope(Registry([plugin])) as scope:
        return scope.resolve("p@1.0.0::a")


def as_resolved(kind: Kind, data: Any) -> ResolvedHandle:
    return ResolvedHandle(Handle("p", "1.0.0", "a"), kind, data)


def test_data_that_fits_its_json_schema_is_resolved() -> None:
    for lines in (["abc"], ("a", "b")):
        assert resolved(NOTE, {"lines": lines}).data == {"lines": lines}
    other = as_resolved("binary", b"bytes")  # the schema is that of documents
    assert resolved(NOTE, other).data == b"bytes"
    assert resolved({}, 10**30).data == 10**30


@for_each(
    "schema, data, kind, told",
    [
        (NOTE, {"lines": ["abc", 5]}, "document", r"5 is not of type 'string' at \$.lines\[1\];"),
        (NOTE, as_resolved("document", {}), "document", r"'lines' is a required property at \$;"),
        ({"required": ["model"]}, said("x"), "message", "'model' is a required property"),
        ({"items": {"type": "null"}}, ["x" * 10**6] * 99, "document", r"at \$\[0\]"),
        ({"$ref": "#/$defs/gone"}, 1, "document", "cannot be used: .*gone.*correct the plugin"),
        ({"$ref": "http://localhost/x"}, 1, "document", "cannot be used: .*http://localhost/x"),
        ({"items": {"$ref": "#"}}, json.loads("[" * 250 + "]" * 250), "document", "too deeply"),
    ],
)
def test_data_that_breaks_its_json_schema_is_refused_with_its_first_fault(
    schema: dict[str, Any], data: Any, kind: Kind, told: str
) -> None:
    with pytest.raises(ResolveError, match=told) as refused:
        resolved(schema, data, kind)
    assert len(str(refused.value)) < 500


@for_each(
    "schema, kind, told",
    [
        ({"type": "notes"}, "document", r"'notes' is not valid .* at \$.type; correct it, or give"),
        ({"pattern": "("}, "document", r"'\(' is not a 'regex' at \$.pattern"),
        ({"type": "string"}, "binary", "the data of the kind binary is bytes; give a text"),
    ],
)
def test_what_is_no_json_schema_is_refused(schema: dict[str, Any], kind: Kind, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        HandleSchema("p", "a", "*", [], kind, schema)


def test_a_json_schema_without_jsonschema_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(UsageError, match=r"needs a package .*pip install 'sessiontree\[schemas\]'"):
        HandleSchema("p", "a", "*", [], "document", NOTE)


def test_a_schema_is_printed_whole() -> None:
    number = MetaField("number", required=False, prefix="n", pattern="[0-9]+", form="a number")
    schema = HandleSchema("cone", "chat", "1.x", [META[1], number], "message", "a message")
    role = {"index": 0, "name": "role", "required": True, "pattern": "user|assistant"}
    assert schema.as_dict() == {
        "plugin": "cone",
        "method": "chat",
        "versions": "1.x",
        "kind": "message",
        "meta": [
            role | {"prefix": None, "form": None},
            {
                "index": 1,
                "name": "number",
                "required": False,
                "prefix": "n",
                "pattern": "[0-9]+",
                "form": "a number",
            },
        ],
        "resolvesTo": "a message",
    }
