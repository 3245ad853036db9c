"""The JSON schema and the TypeScript types of the format, against the code and the fixtures."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from sessiontree import (
    EntryError,
    ForeignFormatError,
    Handle,
    InvalidNameError,
    NewerFormatError,
    NotASessionError,
    Session,
)
from sessiontree.core.damage import NEXT_STEP
from sessiontree.core.entry import HEADER, check_fields
from sessiontree.core.fields import FIELDS
from sessiontree.core.header import check_header
from sessiontree.engine.names import LABEL, check_name
from sessiontree.importing.importer import import_session
from sessiontree.redact.redaction import Redaction
from tests.docs.examples import ROOT
from tests.fixtures.test_conformance import FOLDERS, OPENING, WARNINGS
from tests.support.conversation import user
from tests.support.pi_trees import PiShaped
from tests.support.table import for_each
from tests.support.trees import Tree

FIXTURES: Final = ROOT / "fixtures"
SCHEMA: Final[dict[str, Any]] = json.loads((ROOT / "docs/format.schema.json").read_bytes())
TYPES: Final = ROOT / "docs/format.d.ts"
NODE: Final = shutil.which("node")
COMPILER: Final = os.environ.get("TYPESCRIPT", "")

Json = dict[str, Any]


@cache
def validator(name: str) -> Draft202012Validator:
    """The validator of a definition."""
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]})


def faults(name: str, value: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in validator(name).iter_errors(value)]


def definition_of(entry: Json) -> str:
    kind = entry["type"]
    return kind if kind == HEADER or kind in FIELDS else "own"


def faults_of_written(lines: bytes) -> list[str]:
    """What is wrong with the lines of a file as a writer writes them; the type's own words."""
    found = []
    for line in lines.splitlines():
        entry = json.loads(line)
        found += [f"{entry['type']}: {each}" for each in faults(definition_of(entry), entry)]
        assert not faults("read", entry)
        assert validator("written").is_valid(entry) == (not faults(definition_of(entry), entry))
    return found


def test_the_schema_is_a_schema_of_draft_2020_12() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    references = set(re.findall(r'"#/\$defs/([^"]+)"', json.dumps(SCHEMA)))
    assert references <= SCHEMA["$defs"].keys()
    described = [name for name, each in SCHEMA["$defs"].items() if not each.get("description")]
    assert described == []


def _is_sound(folder: Path) -> bool:
    is_ours = not folder.name.startswith(("foreign-", "version-1-"))
    return is_ours and json.loads((folder / "expected/verify.json").read_bytes()) == []


def test_every_line_of_a_sound_fixture_and_every_expected_file_validates() -> None:
    root, lines = Draft202012Validator(SCHEMA), 0
    for folder in filter(_is_sound, OPENING):
        for line in (folder / "session.jsonl").read_bytes().splitlines():
            assert root.is_valid(json.loads(line)), f"{folder.name}: {line!r}"
            lines += 1
    assert lines > 900
    for folder in FOLDERS:
        for file in (folder / "expected").glob("*.json"):
            assert faults(file.name, json.loads(file.read_bytes())) == [], file
    assert faults("levels.json", json.loads((FIXTURES / "levels.json").read_bytes())) == []


def test_the_kinds_of_warnings_and_of_damage_are_those_of_the_code() -> None:
    context, finding = SCHEMA["$defs"]["Context"], SCHEMA["$defs"]["Finding"]
    warnings = context["properties"]["warnings"]["items"]["enum"]
    assert set(warnings) == {*WARNINGS.values(), "level 3"}
    assert set(finding["properties"]["kind"]["enum"]) == NEXT_STEP.keys()


MODEL: Final = {"provider": "p", "modelId": "m"}
STATE: Final = {"model": MODEL, "thinkingLevel": "high", "system": "S", "name": "n", "push": "u1"}
SUMMARY: Final = {"summary": "s", "fromUuid": "u1", "details": 1, "usage": {}}
COMPACTION: Final = {"summary": "s", "firstKeptEntryUuid": "u1", "tokensBefore": 0}
PARENT: Final = {"id": "s0", "file": "/a.jsonl", "uuid": "u9", "cutAbove": True}

ENTRY: Final[Json] = {
    "uuid": "u1",
    "parentUuid": "u0",
    "lane": "scratch/a",
    "timestamp": "2026-01-01T00:00:00.000Z",
    "rewritten": ["masked", "pruned"],
    "metadata": {"a": 1},
    "spilled": [[["message", "content", 0], "blob@1.0.0::sha256:0a:1:text/plain", "The"]],
    "crc": "0123abcd",
}
HEAD: Final[Json] = {
    "version": 2,
    "format": "sessiontree/2",
    "uuid": "u0",
    "parentUuid": None,
    "timestamp": "2026-01-01T00:00:00.000Z",
    "id": "s1",
    "cwd": "",
    "name": "n",
    "parentSession": PARENT,
    **{key: ENTRY[key] for key in ("rewritten", "metadata", "spilled", "crc")},
}
WHOLE: Final[dict[str, Json]] = {
    "message": {"message": {"role": "user", "content": ["Hi"]}},
    "compaction": {**COMPACTION, "details": 1, "usage": {}, "state": STATE},
    "branch_summary": SUMMARY,
    "stack_summary": SUMMARY,
    "stack_push": {"note": "n"},
    "branch": {"name": "n", "fromUuid": "u1"},
    "model_change": MODEL,
    "thinking_level_change": {"thinkingLevel": "high"},
    "custom": {"customType": "c", "data": 1},
    "custom_message": {"customType": "c", "content": "x", "display": True, "details": 1},
    "label": {"targetUuid": "u1", "label": "two words"},
    "session_info": {"name": "n"},
    "usage": {"kind": "k", "provider": "p", "model": "m", "usage": {}, "sumOf": "s"},
    "handle": {"handle": "p@1.0.0::m:x", "kind": "output", "role": "user", "preview": "p"},
    "merge": {"mergedUuid": "u1", "baseUuid": "u0", "summary": "s"},
    "context_edit": {"targetUuid": "u1", "replacement": {"content": 1}},
    "block": {"messageUuid": "b", "index": 0, "block": {}},
    "message_end": {"messageUuid": "b", "role": "assistant", "usage": {}},
}
"""An entry of each type with all its fields."""

OTHERS: Final[tuple[Any, ...]] = (
    *(None, "", "word", "two words", "a@b", "a~", "a:b", "two  spaces", "a\nb", "x" * 201),
    *(-1, 0, 3, 1.5, True, [], ["word"], ["word", "word"], ["masked", "masked"], {}),
    *({"content": None}, {"role": "r", "content": ""}, {"role": "", "content": ""}),
    *({"type": "reasoning"}, {"type": "reasoning", "role": None}, {"type": "reasoning", "role": 3}),
    *({"type": "message", "content": ""}, {"type": ""}, {"role": None, "type": 3}),
    *([[["a"], "h"]], [[["a"], "h", "b", "c"]], [[["a"]]], [[[], "h"]], [[[1.5], "h"]]),
    *([["a", "h"]], [[["a"], ""]], [[["a"], 3]], [[["a"], "h", 3]], [[["a"], "h", "b" * 201]]),
    *("2026-01-01", "2026-01-01T00:00:00.000Z ", "0123ABCD", "0123abcde", "x-", "x-mine", "mine"),
)
"""Values that some key may have and most may not."""


def whole(name: str) -> Json:
    """A correct entry of a definition, with all keys."""
    if name == HEADER:
        return {"type": HEADER, **HEAD}
    return {"type": "x-mine" if name == "own" else name, **ENTRY, **WHOLE.get(name, {})}


def varied(value: Any) -> Iterator[Any]:
    """A value with one of its parts replaced by each other value, or left out."""
    yield from OTHERS
    if isinstance(value, dict):
        for key, part in value.items():
            yield {other: each for other, each in value.items() if other != key}
            for each in varied(part):
                yield {**value, key: each}


NAMES: Final = [HEADER, *FIELDS, "own"]


@cache
def wrong(name: str) -> list[Any]:
    """The variations of a correct entry that the schema refuses; of the keys of all, in `own`."""
    entry = whole(name)
    same = {key: each for key, each in entry.items() if key in ENTRY and name in WHOLE}
    own = {key: each for key, each in entry.items() if key not in same}
    variations = ({**same, **each} if isinstance(each, dict) else each for each in varied(own))
    return [each for each in variations if not validator(name).is_valid(each)]


def _code_refuses(kind: str, fields: Json) -> str:
    """What the writer of the code refuses in fields; empty for nothing."""
    try:
        check_fields(kind, fields)
        if kind == "label" and fields["label"] is not None:
            check_name(fields["label"], LABEL)
        if kind == "branch" and fields.get("name") is not None:
            check_name(fields["name"], "branch name")
    except (EntryError, InvalidNameError) as error:
        return str(error)
    return ""


def test_the_code_and_the_schema_refuse_the_same_fields() -> None:
    refused = 0
    for kind, fields in WHOLE.items():
        for variation in varied(fields):
            if not isinstance(variation, dict):
                continue
            entry = {**ENTRY, "type": kind, **variation}
            cause, fault = _code_refuses(kind, variation), faults(kind, entry)
            is_stricter = "has no content" in cause or "session's name must be" in cause
            assert bool(cause) == bool(fault) or is_stricter, (kind, variation, cause, fault)
            refused += bool(fault)
    assert refused > 1_000


def _constraints(schema: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each keyword of a schema that refuses something, and of each required key."""
    if isinstance(schema, list):
        for place, each in enumerate(schema):
            yield from _constraints(each, (*path, place))
        return
    if not isinstance(schema, dict):
        return
    for keyword, value in schema.items():
        if keyword == "required":
            yield from ((*path, keyword, place) for place in range(len(value)))
        elif keyword == "properties":
            for key, each in value.items():
                yield from _constraints(each, (*path, keyword, key))
        elif keyword == "description" or _is_implied(keyword, schema):
            continue
        else:
            yield (*path, keyword)
            if keyword == "not":  # less of it refuses more
                continue
            yield from _constraints(value, (*path, keyword))


def _is_implied(keyword: str, schema: Json) -> bool:
    """True if other keywords of the same schema refuse what a keyword refuses."""
    return keyword == "minLength" and "pattern" in schema


def _without(definitions: Json, name: str, path: tuple[Any, ...]) -> Json:
    made: Any = copy.deepcopy(definitions[name])
    node = made
    for step in path[:-1]:
        node = node[step]
    del node[path[-1]]
    return {**definitions, name: made}


def _users(name: str) -> list[str]:
    """The types of entries whose definition uses another."""
    if name in NAMES:
        return [name]
    using = [each for each in SCHEMA["$defs"] if _uses(each, name)]
    return [each for one in using for each in _users(one)]


def _uses(user: str, name: str) -> bool:
    return user in {*NAMES, "ModelSetting", "CompactionState"} and (
        f'"#/$defs/{name}"' in json.dumps(SCHEMA["$defs"][user])
    )


OF_ENTRIES: Final = [
    *(*NAMES, "entry", "RoleMessage", "ResponsesItem", "ModelSetting", "CompactionState"),
    *("EditReplacement", "ParentSession"),
]


@pytest.mark.slow
@for_each("name", OF_ENTRIES)
def test_each_constraint_of_a_written_entry_refuses_something_alone(name: str) -> None:
    user = _users(name)[-1]
    for path in _constraints(SCHEMA["$defs"][name]):
        loose = _without(SCHEMA["$defs"], name, path)
        accepts = Draft202012Validator({"$ref": f"#/$defs/{user}", "$defs": loose}).is_valid
        likely = sorted(wrong(user), key=lambda value: not _is_about(value, user, path))
        assert any(map(accepts, likely)), f"{name}: {path} refuses nothing"


def _is_about(value: Any, name: str, path: tuple[Any, ...]) -> bool:
    """True if a variation is of the key that a constraint is about, as far as the path says."""
    if not isinstance(value, dict) or path[0] not in ("properties", "required"):
        return False
    required = SCHEMA["$defs"][name]["required"]
    key = path[1] if path[0] == "properties" else required[path[1] % len(required)]
    return value.get(key) != whole(name).get(key)


def test_each_type_is_refused_under_the_name_of_another() -> None:
    for name in NAMES:
        assert faults(name, whole(name)) == []
        assert validator("written").is_valid(whole(name))
    for kind in ("mine", "x-", "", None, 3):
        assert not validator("written").is_valid({**whole("own"), "type": kind})
    assert validator("read").is_valid({"type": "of the future", "uuid": "u", "lane": 3})
    wrong: list[Any] = [{"type": 3, "uuid": "u"}, {"type": "t", "uuid": ""}, {"uuid": "u"}, [], "t"]
    for entry in wrong:
        assert not validator("read").is_valid(entry)


HEADERS: Final = st.fixed_dictionaries(
    {"type": st.sampled_from([HEADER, HEADER, HEADER, "message"])},
    optional={
        "uuid": st.sampled_from(["u", "v"]),
        "format": st.sampled_from(["sessiontree/2", "sessiontree/2", "sessiontree/3", "z", None]),
        "version": st.sampled_from([1, 2, 2.0, 3, 0, "2", None, True]),
    },
)


@given(HEADERS)
def test_a_first_line_is_accepted_by_the_schema_as_by_the_code(header: Json) -> None:
    try:
        check_header(json.dumps(header).encode(), "s.jsonl", "line 1")
        is_accepted = "uuid" in header  # without one: version 1, or a lost header
    except (NotASessionError, ForeignFormatError, NewerFormatError):
        is_accepted = False
    assert validator("firstLine").is_valid(header) == is_accepted


@given(st.text(), st.sampled_from([LABEL, "branch name"]))
def test_a_name_that_the_code_writes_fits_the_schema(name: str, what: str) -> None:
    try:
        check_name(name, what)
    except InvalidNameError:
        return
    kind, key = ("label", "label") if what == LABEL else ("branch", "name")
    assert faults(kind, {**whole(kind), key: name}) == []


@given(st.integers(0, 2**32), st.sampled_from([Tree, PiShaped]))
@pytest.mark.filterwarnings("ignore::sessiontree.SessionTreeWarning")
def test_every_line_of_a_random_session_is_as_a_writer_writes_it(
    seed: int, kind: type[Tree] | type[PiShaped]
) -> None:
    session = kind(Random(seed)).grow(30).session
    lines = [session.entry(row.uuid).line for row in session.tree()]
    assert faults_of_written(b"\n".join(lines)) == []


def test_every_line_that_the_methods_write_is_as_a_writer_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with Session.create(file, cwd="/p", name="N", metadata={"a": 1}, spill_over=200) as session:
        first = session.append_message({"role": "user", "content": "long " * 100})
        session.append_message({"role": "assistant", "content": "x", "model": "m"}, metadata={})
        session.append_handle(Handle.blob(*session.blobs.put(b"text"), "text/plain"), preview="p")
        session.append("custom", customType="c", metadata=None)
        session.append("x-mine", data=[1])
        session.push(note="n")
        session.append_message({"role": "user", "content": "y"})
        session.pop(summary="S")
        session.label(first, "two words")
        session.update_metadata(b=None)
        session.rename("other")
        session.append("usage", kind="k", provider=None, model=None, usage={})
        with session.scratch() as lane:
            lane.append_message({"role": "user", "content": "try"})
            name = lane.leaf.lane
        session.keep(name)
        session.branch(first, name="b")
        session.undo()
        session.branch(first, name="c")
        session.append_message(user("z " * 200 + "sk-ant-" + "api03-" + "x" * 93 + "AA"))
        session.fork(tmp_path / "fork.jsonl")
        session.export_branch(first, tmp_path / "below.jsonl")
        session.export_branch(first, tmp_path / "masked.jsonl", redact=Redaction())
    written = [path.read_bytes() for path in sorted(tmp_path.glob("*.jsonl"))]
    assert [faults_of_written(lines) for lines in written] == [[], [], [], []]
    assert b'"spilled"' in written[-1]
    assert b'"undid"' in written[-1]


UNKNOWN_IN_SOURCE: Final = {"timestamp", "tokensBefore"}


@for_each(
    "source",
    [
        *sorted(FIXTURES.glob("foreign-*/session.jsonl")),
        *(path for path in sorted((FIXTURES / "agents").rglob("*-*-*-*-*.jsonl"))),
    ],
)
@pytest.mark.filterwarnings("ignore::sessiontree.SessionTreeWarning")
def test_an_imported_line_lacks_only_what_its_source_does_not_have(
    source: Path, tmp_path: Path
) -> None:
    made = import_session(source, tmp_path / "store").file
    for fault in faults_of_written(Path(made).read_bytes()):
        missing = re.search(r"'(\w+)' is a required property$", fault)
        assert (missing and missing[1] in UNKNOWN_IN_SOURCE) or "$.summary: ''" in fault, fault


PROGRAM: Final = """
import type { AnyEntry, CompactionEntry, Entry, Header } from "%s";
import type * as expected from "%s";

const lines: Entry[] = [%s];
const read: AnyEntry[] = lines;
export const context: expected.ContextFile = %s;
export const verify: expected.VerifyFile = %s;
export const path: expected.PathFile = %s;
export const tree: expected.TreeFile = %s;

export function said(entry: Entry): unknown {
  switch (entry.type) {
    case "session": return entry.parentSession?.cutAbove;
    case "message": return entry.message.role;
    case "compaction": return entry.tokensBefore + (entry.state?.model?.modelId.length ?? 0);
    case "context_edit": return entry.replacement?.content;
    case "x-mine": return entry.uuid;
  }
  return read.length;
}

export function typed(header: Header, compaction: CompactionEntry): string {
  const version: 2 = header.version;
  return compaction.firstKeptEntryUuid + version;
}
"""
"""A program that reads and makes entries with the types."""

WRONG: Final = (
    'import type { Entry, RefusedFile } from "%s";\n',
    'export const label: Entry = { type: "label", uuid: "u" };\n',
    'export const type: Entry["type"] = "mine";\n',
    'export const kind: RefusedFile = { kind: "newer" };\n',
)

needs_compiler = pytest.mark.skipif(
    not COMPILER or NODE is None,
    reason="needs node, and TypeScript, whose script the variable TYPESCRIPT names",
)


def _compile(file: Path) -> str:
    assert NODE is not None
    options = ["--strict", "--noEmit", "--noUncheckedIndexedAccess", "--target", "es2022"]
    command = [NODE, COMPILER, *options, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@needs_compiler
@pytest.mark.slow
def test_a_program_over_the_fixtures_compiles_and_wrong_entries_do_not(tmp_path: Path) -> None:
    types = str(TYPES.with_suffix("").with_suffix(""))
    case = FIXTURES / "compaction-in-side-trip"
    lines = [json.dumps(whole(name)) for name in NAMES]
    found = [line.decode() for line in (case / "session.jsonl").read_bytes().splitlines()]
    files = ("context", "verify", "path", "tree")
    texts = [(case / f"expected/{name}.json").read_text("utf-8") for name in files]
    program = tmp_path / "program.ts"
    program.write_text(PROGRAM % (types, types, ",\n".join(lines + found), *texts), "utf-8")
    assert _compile(program) == ""
    wrong = tmp_path / "wrong.ts"
    wrong.write_text("".join(WRONG) % types, "utf-8")
    errors = re.findall(r"wrong\.ts\((\d+),", _compile(wrong))
    assert errors == ["2", "3", "4"]
