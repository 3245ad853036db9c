"""Every method of this package, also one that is added later, holds what the room promises.

Random parameters of right and wrong types raise nothing, end with `done`, give a result that fits
its own schema and its budget, and make no file outside of the store.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessiontree import Store
from sessiontree.calls.dispatcher import Data, Dispatcher, Guidance
from sessiontree.calls.scope import Scope
from sessiontree.ops import OWN
from sessiontree.ops.budget import size
from sessiontree.ops.operation import Method
from tests.support.events import events
from tests.support.soak import in_soak
from tests.support.table import for_each

Schema = dict[str, Any]

METHODS = {method.full_name: method for space in OWN.values() for method in space.methods.values()}
TOKENS, LEAST, BYTES_OF_TOKEN = 4000, 200, 4

SESSIONS = (
    "latest",
    "first",
    "large",
    "damaged",
    "old",
    "no such session",
    "../store",
    "/etc/passwd",
)
HANDLE = "file@1.0.0::path:notes.md"
REFS = ("@", "@~1", "@~99", "main", "here", "agent", "side", "turn:1")
TEXTS = ("", "new", "a b", "\x00", "\ud800", "../out.jsonl", "out.jsonl", "-1", "x" * 9000, HANDLE)
NUMBERS = (0, 1, -1, 2, LEAST, 999, 2**31, 2**63, -(2**63), 10**30)


def make_store(root: Path) -> None:
    """Small sessions of each kind: branches, labels, handles, blobs, damage, an older version."""
    store = Store(root)
    with store.create(cwd="/project", durability="os", id="first-id") as session:
        session.rename("first")
        for n in range(3):
            session.append_message({"role": "user", "content": f"Build a CLI {n}"})
            call = {"type": "toolCall", "id": f"c{n}", "name": "bash", "arguments": {"cmd": "ls"}}
            session.append_message({"role": "assistant", "content": [call]})
            result = {"role": "toolResult", "toolCallId": f"c{n}", "content": "a.py"}
            session.append_message(result)
        session.label("@", "here")
        session.append_handle(HANDLE)
        session.branch("@~3", summary="went elsewhere", name="side")
        session.append_message({"role": "user", "content": "instead"})
        with session.lane("agent") as lane:
            lane.append_message({"role": "user", "content": "try"})
        with session.scratch() as trial:
            trial.append_message({"role": "user", "content": "try"})
    with store.create(cwd="/project", durability="os") as session:
        session.rename("large")
        session.append_message({"role": "user", "content": "word " * 20_000})
        kept = session.append_message({"role": "user", "content": "more"})
        session.compact("in short", first_kept=kept)
        damaged = Path(str(session.file)).parent / "damaged.jsonl"
    with store.create(cwd="/other", durability="os") as session:
        session.rename("damaged")
        session.append_message({"role": "user", "content": "sound"})
        lines = Path(str(session.file)).read_bytes()
    Path(str(session.file)).write_bytes(lines + b"garbage\n")
    header = {"type": "session", "id": "old", "timestamp": "2025-01-01T00:00:00.000Z", "cwd": "/o"}
    message = {"type": "message", "message": {"role": "user", "content": "first"}}
    damaged.with_name("old.jsonl").write_text(f"{json.dumps(header)}\n{json.dumps(message)}\n")


anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), st.floats(), st.text()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def fitting(schema: Schema, whole: Schema, name: str = "") -> st.SearchStrategy[Any]:
    """Values of a schema, many of which name something that there is."""
    if "$ref" in schema:
        return fitting(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole)
    if "anyOf" in schema:
        return st.one_of([fitting(each, whole, name) for each in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    items = schema.get("items", {}) if isinstance(schema.get("items", {}), dict) else {}
    made: dict[str, st.SearchStrategy[Any]] = {
        "null": st.none(),
        "boolean": st.booleans(),
        "integer": st.sampled_from(NUMBERS) | st.integers(),
        "number": st.sampled_from(NUMBERS) | st.floats(),
        "string": st.sampled_from(SESSIONS)
        if name in ("session", "sessions")
        else _texts(tuple(schema.get("examples", ("a",)))),
        "array": st.deferred(lambda: st.lists(fitting(items, whole, name), max_size=3)),
        "object": _objects(schema, whole),
    }
    return made.get(schema.get("type", ""), anything)


def _texts(examples: tuple[str, ...]) -> st.SearchStrategy[str]:
    pools = [st.sampled_from(pool) for pool in (REFS, TEXTS, examples)]
    return st.one_of(*pools) | st.text()


def _objects(schema: Schema, whole: Schema) -> st.SearchStrategy[Any]:
    if "properties" not in schema:
        return st.just({"role": "user", "content": "new"}) | st.dictionaries(st.text(), anything)
    return st.deferred(lambda: _fields(schema, whole))


def _fields(schema: Schema, whole: Schema, wrong: bool = False) -> st.SearchStrategy[Any]:
    """Objects with the fields that are needed and some others; `wrong`: some of any type."""
    needed: dict[str, st.SearchStrategy[Any]] = {}
    others: dict[str, st.SearchStrategy[Any]] = {}
    for name, each in schema["properties"].items():
        values = fitting(each, whole, name)
        place = needed if name in schema.get("required", ()) else others
        place[name] = values | anything if wrong else values
    return st.fixed_dictionaries(needed, optional=others)


def params_of(method: Method) -> st.SearchStrategy[Any]:
    schema = method.params_schema
    right, wrong = _fields(schema, schema), _fields(schema, schema, wrong=True)
    return st.one_of(right, right, right, wrong, anything)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    make_store(folder / "store")
    return folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder beside the store, in which the calls run."""
    beside = tmp_path / "beside"
    beside.mkdir()
    monkeypatch.chdir(beside)
    (tmp_path / "store").mkdir()
    yield tmp_path
    assert sorted(os.listdir(tmp_path)) == ["beside", "store"]
    assert os.listdir(beside) == []


@pytest.mark.slow
@for_each("name", METHODS)
@in_soak("times", 4, 80)
def test_random_parameters_raise_nothing_and_results_fit(
    name: str, prepared: Path, place: Path, times: int
) -> None:
    method = METHODS[name]
    result = jsonschema.Draft202012Validator(method.result_schema)
    answered = 0

    @settings(max_examples=times, deadline=None, suppress_health_check=list(HealthCheck))
    @given(params=params_of(method), redact=st.booleans())
    def check(params: Any, redact: bool) -> None:
        nonlocal answered
        shutil.rmtree(place / "store", ignore_errors=True)
        shutil.copytree(prepared / "store", place / "store")
        root = str(place / "store")
        scope = Scope(root, agents=False, write=True, redact=redact, projects=[root])
        for event in events(Dispatcher(scope, OWN.values()), name, params):
            if isinstance(event, Guidance):
                assert event.kind != "fault", (event, params)
            if isinstance(event, Data):
                answered += 1
                result.validate(event.value)
                budget = (params or {}).get("budget", TOKENS)
                assert not budget or size(event.value) <= max(budget, LEAST) * BYTES_OF_TOKEN

    check()


def test_every_method_is_described_and_its_schemas_are_sound() -> None:
    for name, method in METHODS.items():
        assert method.description, name
        for schema in (method.params_schema, method.result_schema):
            jsonschema.Draft202012Validator.check_schema(schema)
            for field, described in schema.get("properties", {}).items():
                assert _described(described, schema), f"{name}: {field}"
        jsonschema.validate(method.example, method.params_schema)


def _described(schema: Schema, whole: Schema) -> bool:
    if "$ref" in schema:
        return _described(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole)
    return bool(schema.get("description")) or any(
        _described(each, whole) for each in schema.get("anyOf", ())
    )
