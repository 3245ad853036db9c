"""Make `docs/format.schema.json` and `docs/format.d.ts` from the types of the code.

The types of entries are in `sessiontree/core/fields.py`, those of the expected files of a case in
`fixtures/source/expected.py`. `python docs/make_schema.py` writes both files; with `--check` it
writes nothing and exits with 1 when a file is not current.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from make_reference import ROOT, update

from sessiontree.core import fields
from sessiontree.core.codec import FORMAT, VERSION
from sessiontree.core.entry import HEADER, OWN

HERE: Final = Path(__file__).parent
MADE: Final = "Made by docs/make_schema.py: change the types of the code, then run it."
sys.path.insert(0, str(ROOT / "fixtures"))
EXPECTED: Final = importlib.import_module("source.expected")
FILES: Final[dict[str, Any]] = EXPECTED.FILES

Schema = dict[str, Any]

_REF: Final = "#/$defs/"
_OWN_TYPE: Final = {"type": "string", "pattern": f"^{OWN}."}
_TEXT: Final = {"type": "string", "minLength": 1}
_ENTRY: Final = {"allOf": [{"$ref": f"{_REF}entry"}]}


def schema() -> Schema:
    """Return the JSON schema of a line."""
    header = _object(fields.HeaderFields, fields.ClosingKeys)
    kinds = {HEADER: _of_type({"const": HEADER}, header)}
    for name, kind in fields.FIELDS.items():
        kinds[name] = _of_type({"const": name}, {**_object(kind), **_ENTRY})
    own = f"An entry of a program's own type, whose name begins with `{OWN}`."
    kinds["own"] = _of_type(_OWN_TYPE, {"description": own, **_ENTRY})
    written = {
        "description": "An entry as a writer writes it.",
        "oneOf": [{"$ref": _REF + name} for name in kinds],
    }
    keys = _object(fields.LeadingKeys, fields.ClosingKeys)
    parts = _with_parts({"entry": keys, **kinds, **_files()})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of a session file, version 2",
        "description": (
            "An entry that a reader accepts. `#/$defs/written` is an entry as a writer writes it; "
            "`#/$defs/context.json` and others are the expected files of the fixtures."
        ),
        "$comment": MADE,
        "$ref": f"{_REF}read",
        "$defs": {"read": _read(), "firstLine": _first_line(), "written": written, **parts},
    }


def _read() -> Schema:
    return {
        "description": "An entry that a reader accepts: of any type, with any other keys.",
        "type": "object",
        "properties": {"type": {"type": "string"}, "uuid": _TEXT},
        "required": ["type", "uuid"],
        "if": {"properties": {"type": {"const": HEADER}}},
        "then": {"$ref": f"{_REF}firstLine"},
    }


def _first_line() -> Schema:
    """The schema of rule 1.5."""
    older = {"format": {"type": "null"}, "version": {"enum": list(range(1, VERSION + 1))}}
    return {
        "description": "The first line of a file that a reader accepts.",
        "type": "object",
        "properties": {"type": {"const": HEADER}, "uuid": _TEXT},
        "required": ["type", "uuid"],
        "anyOf": [
            {"properties": {"format": {"const": FORMAT}}, "required": ["format"]},
            {"properties": older},
        ],
    }


def _object(*kinds: type) -> Schema:
    """The schema of an object with the keys of some types."""
    made = [_components([kind])[kind.__name__] for kind in kinds]
    return {
        "description": made[0]["description"],
        "type": "object",
        "properties": {key: each for one in made for key, each in one["properties"].items()},
        "required": [key for one in made for key in one["required"]],
    }


def _of_type(type: Schema, made: Schema) -> Schema:
    properties = {"type": type, **made.get("properties", {})}
    required = ["type", *made.get("required", ())]
    return _plain({**made, "properties": properties, "required": required})


def _files() -> Schema:
    """The schemas of the expected files."""
    made, _ = msgspec.json.schema_components(FILES.values(), ref_template=_REF + "{name}")
    about = ({"description": f"The file `{name}`."} for name in FILES)
    return {name: {**words, **each} for name, words, each in zip(FILES, about, made, strict=True)}


def _with_parts(made: Schema) -> Schema:
    """Some schemas with those that they refer to."""
    known = _components([*fields.FIELDS.values(), *fields.MESSAGES, fields.HeaderFields])
    known |= {name: _closed(each) for name, each in _components(FILES.values()).items()}
    while missing := {name for name in _references(made) if name not in made}:
        made |= {name: known[name] for name in sorted(missing)}
    return made


def _closed(made: Schema) -> Schema:
    return {**made, "additionalProperties": False}


def _references(made: Schema) -> Iterator[str]:
    return (found[1] for found in re.finditer(rf'"{re.escape(_REF)}([^"]+)"', json.dumps(made)))


def _components(kinds: Iterable[Any]) -> Schema:
    """The schemas of types and of their parts by name, their keys in the order of the code."""
    _, made = msgspec.json.schema_components(kinds, ref_template=_REF + "{name}")
    return {name: _in_order(each, _kind(name)) for name, each in made.items()}


def _kind(name: str) -> Any:
    return getattr(fields, name, None) or getattr(EXPECTED, name)


def _in_order(made: Schema, kind: Any) -> Schema:
    """A schema with its keys in the order of its type, and their descriptions."""
    keys = typing.get_type_hints(kind, include_extras=True)
    properties = {key: {**_about(keys[key]), **made["properties"][key]} for key in keys}
    return {
        "description": _description(kind),
        "type": "object",
        "properties": {key: _plain(each) for key, each in properties.items()},
        "required": [key for key in keys if key in made["required"]],
    }


def _about(hint: Any) -> Schema:
    words = [each for each in typing.get_args(hint)[1:] if isinstance(each, str)]
    return {"description": words[0]} if words else {}


def _plain(made: Schema) -> Schema:
    """A schema without the type of what it refers to, and with one value as a constant."""
    implied = {"type"} if {"allOf", "anyOf"} & made.keys() else set()
    values = made.get("enum", ())
    if len(values) == 1:
        made, implied = {**made, "const": values[0]}, {*implied, "enum"}
    return {key: each for key, each in made.items() if key not in implied}


def _description(kind: type) -> str:
    return " ".join((kind.__doc__ or "").split())


HEAD: Final = f"""\
// {MADE}

/** A JSON object. */
export type JsonObject = {{ [key: string]: unknown }};
"""


def typescript(made: Schema) -> str:
    """Return the TypeScript types of the definitions of a schema."""
    return HEAD + "".join(_declared(name, each) for name, each in made["$defs"].items())


def _declared(name: str, made: Schema) -> str:
    named = _typescript_name(name)
    head = f"\n/** {made['description']} */\n"
    if "properties" not in made:
        return f"{head}export type {named} = {_typescript(made)};\n"
    above = f" extends {_typescript(made['allOf'][0])}" if "allOf" in made else ""
    keys = "".join(_property(key, each, made) for key, each in made["properties"].items())
    open_end = "" if made.get("additionalProperties") is False else "  [key: string]: unknown;\n"
    return f"{head}export interface {named}{above} {{\n{keys}{open_end}}}\n"


def _property(key: str, made: Schema, whole: Schema) -> str:
    comment = f"  /** {made['description']} */\n" if "description" in made else ""
    mark = "" if key in whole["required"] else "?"
    return f"{comment}  {key}{mark}: {_typescript(made)};\n"


_NAMES: Final = {
    "read": "AnyEntry",
    "written": "Entry",
    "entry": "EntryKeys",
    "firstLine": "FirstLine",
    HEADER: "Header",
}


def _typescript_name(name: str) -> str:
    """The name of a definition: `message` is MessageEntry, `path.json` is PathFile."""
    if name[0].isupper() or name in _NAMES:
        return _NAMES.get(name, name)
    words, _, is_file = name.partition(".")
    return "".join(map(str.capitalize, words.split("_"))) + ("File" if is_file else "Entry")


def _typescript(made: Schema) -> str:
    """A schema as a TypeScript type."""
    if "$ref" in made:
        return _typescript_name(made["$ref"].removeprefix(_REF))
    for key in ("anyOf", "oneOf"):
        if key in made:
            return " | ".join(map(_typescript, made[key]))
    values = [made["const"]] if "const" in made else made.get("enum", [])
    if values:
        return " | ".join(json.dumps(value) for value in values)
    if isinstance(made.get("type"), list):
        return " | ".join(_typescript({**made, "type": kind}) for kind in made["type"])
    if made == _OWN_TYPE:
        return f"`{OWN}${{string}}`"
    if made.get("type") == "array":
        return _list(made)
    if made.get("type") == "object":
        values_of = made.get("additionalProperties")
        return f"Record<string, {_typescript(values_of)}>" if values_of else "JsonObject"
    names = {"integer": "number", "number": "number", "string": "string", "boolean": "boolean"}
    return {**names, "null": "null"}.get(made.get("type", ""), "unknown")


def _list(made: Schema) -> str:
    if parts := made.get("prefixItems"):
        kinds = map(_typescript, parts)
        return (
            f"[{', '.join(each + '?' * (n >= made['minItems']) for n, each in enumerate(kinds))}]"
        )
    items = _typescript(made.get("items", {}))
    return f"Array<{items}>" if " " in items else f"{items}[]"


def _json_text() -> str:
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def _typescript_text() -> str:
    return typescript(schema())


PAGES: Final[Mapping[str, Any]] = {
    "format.schema.json": _json_text,
    "format.d.ts": _typescript_text,
}

if __name__ == "__main__":
    update(HERE, PAGES, "docs/make_schema.py")
