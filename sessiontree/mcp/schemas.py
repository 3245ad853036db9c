"""The schemas of a tool, short: a model pays for each word of them in each conversation.

A schema of parameters keeps what a model needs to call: types, limits, defaults, and one
description for each parameter. A schema of a result keeps the names and the types of its fields,
and of the fields of the items of a page; what is deeper shows in the result, and `schema.get`
describes all of it.

Invariant: a value that fits a schema of a result fits the short one, and parameters that fit the
short schema fit the whole one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_NULL: Final[Mapping[str, Any]] = {"type": "null"}
_REFERENCE: Final = "$ref"
_DEFINITIONS: Final = "$defs"
_FIELDS: Final = "properties"
_START: Final = "#/$defs/"
_ITEMS: Final = "items"
"""The field of a page with its rows."""

_LARGEST: Final = 2**31
"""A limit from here on tells a model nothing."""

_NOTHING: Final[tuple[Any, ...]] = (None, False, "", [], {})
"""Defaults that go without saying."""

_WORDS: Final = ("title", "description", "examples", "default")


def of_parameters(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The short schema of parameters."""
    fields = {name: _parameter(one) for name, one in schema[_FIELDS].items()}
    made: dict[str, Any] = {"type": "object", _FIELDS: fields}
    for key in ("required", _DEFINITIONS):
        if schema.get(key):
            made[key] = schema[key]
    if not fields:
        made["additionalProperties"] = False
    return made


def of_result(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The short schema of a result."""
    definitions = schema.get(_DEFINITIONS, {})
    rest = {key: one for key, one in schema.items() if key not in (_DEFINITIONS, _FIELDS)}
    made: dict[str, Any] = _short(rest, definitions)
    if _FIELDS not in schema:
        return made
    fields = schema[_FIELDS].items()
    return {
        **made,
        _FIELDS: {name: _short(one, definitions, is_page=name == _ITEMS) for name, one in fields},
    }


def _parameter(schema: Mapping[str, Any]) -> dict[str, Any]:
    """One parameter: it may be left out, so it need not be null."""
    kinds = [each for each in schema.get("anyOf", ()) if each != _NULL]
    if len(kinds) == 1:
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        schema = {**kinds[0], **rest}
    made = _typed({key: value for key, value in schema.items() if key not in _WORDS})
    if "enum" in made:
        made["enum"] = [one for one in made["enum"] if one is not None]
    if made.get("maximum", 0) >= _LARGEST:
        del made["maximum"]
    if schema.get("default") not in _NOTHING:
        made["default"] = schema["default"]
    text = schema.get("description", "")
    told = f"{text} {made.get('default')}"
    if examples := [one for one in schema.get("examples", ()) if str(one) not in told]:
        made["examples"] = examples
    return {**made, "description": text} if text else made


def _short(schema: Any, definitions: Mapping[str, Any], *, is_page: bool = False) -> Any:
    """A schema of a value, without words and references.

    Only the items of a page have their fields, each of which may be missing.
    """
    if isinstance(schema, list):
        return [_short(each, definitions, is_page=is_page) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    if _REFERENCE in schema:
        schema = definitions[schema[_REFERENCE].removeprefix(_START)]
    if _FIELDS not in schema:
        words = {key: one for key, one in schema.items() if key not in _WORDS}
        return _typed(
            {key: _short(one, definitions, is_page=is_page) for key, one in words.items()}
        )
    if not is_page:
        return {"type": "object"}
    fields = schema[_FIELDS].items()
    return {"type": "object", _FIELDS: {name: _short(one, definitions) for name, one in fields}}


def _typed(schema: dict[str, Any]) -> dict[str, Any]:
    """`anyOf` of plain types as a list of types."""
    kinds = schema.get("anyOf")
    if not kinds or any(set(each) != {"type"} for each in kinds):
        return schema
    types: list[str] = []
    for each in kinds:
        types += each["type"] if isinstance(each["type"], list) else [each["type"]]
    return {"type": types, **{key: value for key, value in schema.items() if key != "anyOf"}}
