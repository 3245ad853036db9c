"""The tools that the server makes of the dispatcher's methods."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Annotated, Any

import anyio
import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest
from mcp.client import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequestFormParams, ElicitResult

from sessiontree import Session, Store
from sessiontree.calls.dispatcher import Dispatcher
from sessiontree.calls.scope import Scope
from sessiontree.errors import UsageError
from sessiontree.mcp import answer as answers
from sessiontree.mcp.answer import DATA, MARK, marked
from sessiontree.mcp.offer import tool_name
from sessiontree.mcp.server import make_server
from sessiontree.ops.guidance import Refusal
from sessiontree.ops.operation import Namespace
from sessiontree.ops.params import Call, OfSession
from tests.mcp.clients import MODES, client, run, talk, text_of
from tests.support.sessions import said
from tests.support.table import for_each

TRIAL = Namespace("trial", "Methods for these tests.")


class Given(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Parameters of the methods."""

    size: Annotated[int, msgspec.Meta(description="How much.")] = 0


STOPPED = threading.Event()
BEGUN = threading.Event()


@TRIAL.method("Count")
def count(call: Call, given: Given) -> list[str]:
    """Count, with progress; the result is no object."""
    for number in range(given.size):
        call.progress("Counting", number, given.size)
    call.warn("see schema.list, trial.count")
    return ["\ud83d", "</session-data 0>"]


@TRIAL.method("Wait")
def wait(call: Call, given: Given) -> dict[str, int]:
    """Work until nobody wants the result."""
    BEGUN.set()
    try:
        while True:
            call.progress("Waiting")
    finally:
        STOPPED.set()


class Drop(OfSession):
    """Parameters of `trial.drop`."""


@TRIAL.method("Drop", "destroy", idempotent=True)
def drop(call: Call, given: Drop) -> dict[str, str]:
    """Drop a session."""
    return {"dropped": call.file(given.session)}


@for_each("mode", MODES)
def test_every_tool_answers_as_its_schema_says_or_says_what_to_do_next(
    tmp_path: Path, mode: str
) -> None:
    talk(tmp_path)
    methods = Dispatcher(Scope(str(tmp_path), agents=False)).methods

    async def test() -> None:
        async with client(tmp_path, mode, write=True) as at:
            tools = {tool.name: tool for tool in (await at.list_tools()).tools}
            assert set(tools) == set(map(tool_name, methods))
            for full_name, method in methods.items():
                tool = tools[tool_name(full_name)]
                result = await at.call_tool(tool.name, method.example)
                text = text_of(result)
                if result.is_error:
                    assert text.startswith("Error: "), full_name
                    assert "\nNext: " in text, full_name
                    assert "fault in sessiontree" not in text, full_name
                    continue
                assert text.startswith("<session-data "), full_name
                jsonschema.validate(result.structured_content, tool.output_schema or {})

    run(test)


def test_a_tool_is_described_as_its_method_in_short(tmp_path: Path) -> None:
    methods = Dispatcher(Scope(str(tmp_path), agents=False)).methods

    async def test() -> None:
        async with client(tmp_path, write=True) as at:
            tools = {tool.name: tool for tool in (await at.list_tools()).tools}
        for full_name, method in methods.items():
            tool = tools[tool_name(full_name)]
            assert tool.title == method.title
            assert tool.description
            given, whole = tool.input_schema, method.params_schema
            assert given.get("required", []) == whole["required"]
            assert list(given["properties"]) == list(whole["properties"])
            for name, one in given["properties"].items():
                assert one["description"], f"{full_name}: {name}"
                assert one.get("default") in (None, whole["properties"][name].get("default"))
            assert tool.annotations is not None
            hints = tool.annotations
            assert hints.read_only_hint == (method.effect == "read")
            assert hints.destructive_hint == (method.effect == "destroy")
            assert (hints.idempotent_hint, hints.open_world_hint) == (method.idempotent, False)
            assert tool.output_schema is not None
            assert tool.output_schema["type"] == "object"
            for schema in (tool.input_schema, tool.output_schema):
                jsonschema.Draft202012Validator.check_schema(schema)

    run(test)


CORE_TOKENS = {False: 7100, True: 13_000}


@for_each("write", CORE_TOKENS)
def test_the_core_is_offered_unless_told_and_costs_a_model_little(
    tmp_path: Path, write: bool
) -> None:
    methods = Dispatcher(Scope(str(tmp_path), agents=False)).methods

    async def test() -> None:
        async with client(tmp_path, write=write, tools="core") as at:
            tools = (await at.list_tools()).tools
        assert {"session_search", "session_resume_command"} <= {tool.name for tool in tools}
        offered = {
            tool_name(name)
            for name, method in methods.items()
            if method.core and method.effect_where(write) in ("read", "write" if write else "read")
        }
        assert {tool.name for tool in tools} == offered
        text = "".join(tool.model_dump_json(by_alias=True, exclude_none=True) for tool in tools)
        assert len(text.encode()) / 4 <= CORE_TOKENS[write]

    run(test)


def test_a_tool_that_is_not_offered_says_how_to_have_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with client(tmp_path, tools="session,branch.list") as at:
            names = {tool.name for tool in (await at.list_tools()).tools}
            assert {"session_totals", "branch_list"} <= names
            assert not {"tree_render", "branch_diff", "session_rename"} & names
            for name, needed in (
                ("tree_render", "--tools session,branch.list,tree.render"),
                ("branch_push", "--write --tools session,branch.list,branch.push"),
                ("session_rename", "--write"),
            ):
                result = await at.call_tool(name, {})
                assert result.is_error
                assert f"start the server with {needed}," in text_of(result)
        async with client(tmp_path, tools="core") as at:
            found = (await at.call_tool("schema_list", {"namespace": "tree"})).structured_content
            needs = {one["name"]: one.get("needs") for one in (found or {})["items"]}
            assert (needs["tree.render"], needs["tree.create"]) == (None, "--write")
            assert needs["tree.get"] == "--tools core,tree.get"
            found = (await at.call_tool("schema_get", {"method": "tree.get"})).structured_content
            assert (found or {})["needs"] == "--tools core,tree.get"

    run(test)


@for_each(
    ("chosen", "said"),
    [
        ("bramch", "did you mean 'branch'"),
        ("core,tree_rendr", "did you mean 'tree_render'"),
        ("branch_push", "'branch_push' writes; give --write"),
        ("", "no tool and no namespace ''"),
    ],
)
def test_a_wrong_choice_of_tools_is_refused(tmp_path: Path, chosen: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        make_server(Scope(str(tmp_path), agents=False), tools=chosen)


@TRIAL.method("Keep")
def keep(call: Call, given: Given) -> list[str]:
    """Write in some cases, which the method itself refuses."""
    call.scope.check_write()
    return []


def test_a_method_that_may_not_write_names_no_option_but_its_tool_does(tmp_path: Path) -> None:
    with pytest.raises(Refusal) as caught:
        Scope(str(tmp_path), agents=False).check_write()
    assert "--" not in f"{caught.value} {caught.value.next}"

    async def test() -> None:
        async with client(tmp_path, "legacy", [TRIAL]) as at:
            result = await at.call_tool("trial_keep", {})
        assert "Next: Ask the user to start the server with --write" in text_of(result)

    run(test)


@for_each("mode", MODES)
def test_a_server_that_only_reads_neither_lists_nor_calls_what_writes(
    tmp_path: Path, mode: str
) -> None:
    talk(tmp_path)
    before = sorted(tmp_path.rglob("*"))

    async def test() -> None:
        async with client(tmp_path, mode, [TRIAL, *_own(tmp_path)]) as at:
            names = {tool.name for tool in (await at.list_tools()).tools}
            assert {"tree_render", "trial_count"} <= names
            assert not {"trial_drop", "tree_create", "tree_fork"} & names
            for name in ("trial_drop", "tree_create"):
                result = await at.call_tool(name, {"session": "latest"})
                assert result.is_error
                assert "only reads" in text_of(result)
                assert "--write" in text_of(result)

    run(test)
    assert sorted(tmp_path.rglob("*")) == before


def _own(root: Path) -> list[Namespace]:
    return [*Dispatcher(Scope(str(root), agents=False)).namespaces.values()]


def test_with_write_a_tool_writes(tmp_path: Path) -> None:
    async def test() -> None:
        async with client(tmp_path, write=True) as at:
            made = await at.call_tool("tree_create", {"name": "new", "cwd": "/p"})
            assert not made.is_error
            assert isinstance(made.structured_content, dict)
            file = made.structured_content["file"]
        with Session.open(file, readonly=True) as session:
            assert session.name == "new"

    run(test)


REFUSED: list[tuple[str, Any, tuple[str, ...]]] = [
    ("tree_render", {}, ("session", "Example: ")),
    ("tree_render", {"session": 5}, ("Expected `str`", "$.session")),
    ("tree_render", {"session": "nope"}, ("no session 'nope'", "Available: ")),
    ("tree_render", {"session": "latest", "budgte": 1}, ("did you mean 'budget'?",)),
    ("tree_render", {"session": "latest", "budget": -1}, ("budget",)),
    ("tree_render", {"session": "latest", "budget": "much"}, ("budget",)),
    ("tree_render", {"session": "latest", "cursor": "x"}, ("'x' is not a cursor",)),
    ("tree_render", {"session": "/etc/passwd"}, ("outside the folders", "session")),
    ("tree_render", {"session": "../../etc/passwd"}, ("outside the folders",)),
    ("tree_render", {"session": "x" * 10_000_000}, ("no session", "10,000,000 characters")),
    ("tree_render", {"session": "\0"}, ("no session",)),
    ("tree_render", {"session": {"a": [1] * 100_000}}, ("Expected `str`",)),
]


@for_each(("name", "given", "said"), REFUSED)
def test_what_does_not_fit_is_refused_with_what_to_do_next(
    tmp_path: Path, name: str, given: Any, said: tuple[str, ...]
) -> None:
    talk(tmp_path)

    async def test() -> None:
        async with client(tmp_path) as at:
            result = await at.call_tool(name, given)
            text = text_of(result)
            assert result.is_error
            assert all(each in text for each in (*said, "Next: ")), text
            assert len(text) < 4000

    run(test)


@for_each("mode", MODES)
def test_an_unknown_tool_is_refused_with_the_nearest(tmp_path: Path, mode: str) -> None:
    async def test() -> None:
        async with client(tmp_path, mode) as at:
            with pytest.raises(MCPError, match="did you mean 'tree_render'") as caught:
                await at.call_tool("tree_rendr", {})
            assert "tree_render" in caught.value.data["available"]

    run(test)


def test_a_result_that_is_no_object_is_wrapped_and_text_cannot_close_its_mark(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        async with client(tmp_path, "legacy", [TRIAL]) as at:
            result = await at.call_tool("trial_count", {})
        note = "Warning: see schema.list, trial_count"  # only the names of tools are rewritten
        wanted = {"value": ["\ufffd", "</session-data 0>"], "notes": [note]}
        assert result.structured_content == {MARK: DATA, **wanted}
        assert result.meta is not None
        assert result.meta[MARK] == "data"
        first, *_, last, told = text_of(result).split("\n")
        assert last == first.replace("<", "</", 1).split(":")[0] + ">"
        assert told == note

    run(test)
    assert marked("a").split("\n")[1] == "a"


def test_a_text_with_its_own_hash_gets_another_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_MARK_LENGTH", 1)  # so short that a text has its own at once
    text = "0123456789abcde </session-data 0>"
    name = marked(text).splitlines()[0].removeprefix("<session-data ").partition(":")[0]
    assert name == "f"


def test_what_stands_beside_a_text_stands_between_the_marks() -> None:
    value = {"text": "said", "offset": 3, "next": 7, "cut": [{"part": "/x"}], "at": "go\non"}
    _, inside, behind = re.split("<.*>\n?", answers.ToolAnswer(value, ["Left out: b"]).text)
    assert inside == 'cut: [{"part":"/x"}]\nat: go\non\n\nsaid\n'
    assert behind == "offset: 3\nnext: 7\nLeft out: b"


@for_each("mode", MODES)
def test_progress_comes_in_steps_that_grow(tmp_path: Path, mode: str) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async def test() -> None:
        async with client(tmp_path, mode, [TRIAL]) as at:
            await at.call_tool("trial_count", {"size": 20_000}, progress_callback=note)
            await anyio.wait_all_tasks_blocked()

    run(test)
    steps = [done for done, _, _ in seen]
    assert 0 < len(steps) <= 100
    assert steps == sorted(set(steps))
    assert {(total, message) for _, total, message in seen} == {(1.0, "Counting")}


@for_each("mode", MODES)
def test_a_call_that_is_given_up_ends(tmp_path: Path, mode: str) -> None:
    STOPPED.clear()
    BEGUN.clear()

    async def test() -> None:
        async with client(tmp_path, mode, [TRIAL]) as at, anyio.create_task_group() as group:
            group.start_soon(at.call_tool, "trial_wait", {})
            await anyio.to_thread.run_sync(BEGUN.wait)
            group.cancel_scope.cancel()

    run(test)
    assert STOPPED.wait(60)


def _choosing(action: str, asked: list[str]) -> Any:
    async def choose(context: ClientRequestContext, params: Any) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        asked.append(params.message)
        choice = params.requested_schema["properties"]["choice"]
        names = choice["enum"]
        for name, read in zip(names, choice["enumNames"], strict=True):
            assert re.fullmatch(rf"[Bb]uild.* · \d{{4}}-\d\d-\d\d \d\d:\d\d · .+ · {name}", read)
        return ElicitResult(action=action, content={"choice": names[-1]})  # type: ignore[arg-type]

    return choose


@for_each("mode", MODES)
@for_each("action", ["accept", "decline", None])
def test_where_a_name_is_ambiguous_the_user_is_asked(
    tmp_path: Path, mode: str, action: str | None
) -> None:
    ids = {talk(tmp_path), talk(tmp_path)}
    asked: list[str] = []
    options = {} if action is None else {"elicitation_callback": _choosing(action, asked)}

    async def test() -> None:
        async with client(tmp_path, mode, **options) as at:
            result = await at.call_tool("tree_render", {"session": "build"})
        text = text_of(result)
        assert len(asked) == (action is not None)
        if action == "accept":
            assert not result.is_error
            assert sum(id in text for id in ids) == 1
        else:
            assert result.is_error
            assert all(id in text.partition("Available: ")[2] for id in ids)

    run(test)


def test_an_answer_keeps_its_budget_with_its_frame(tmp_path: Path) -> None:
    talk(tmp_path, "long", *(f"prompt {n} " + "é" * 60 for n in range(400)))

    async def test() -> None:
        async with client(tmp_path) as at:
            for budget in (None, 300, 1000):
                more = {} if budget is None else {"budget": budget}
                result = await at.call_tool("tree_get", {"session": "latest", **more})
                text = text_of(result)
                assert len(text.encode()) <= 4 * (budget or 4000)
                assert isinstance(result.structured_content, dict)
                assert result.structured_content["cursor"]

    run(test)


def test_secrets_are_masked_wherever_text_leaves(tmp_path: Path) -> None:
    key = "ghp_" + "a1B2" * 9
    id = talk(tmp_path, f"use {key}", f"the key is {key}")
    with Store(tmp_path).open(id) as session:  # a result that is cut in the middle of the key
        result = f"{'x ' * 490}{key} {'y ' * 2000}"
        session.append_message({"role": "toolResult", "toolCallId": "t", "content": result})

    async def test() -> None:
        async with client(tmp_path, redact=True) as at:
            parts = [text_of(await at.call_tool("tree_render", {"session": "latest"}))]
            parts.append((await at.list_resources()).model_dump_json())
            addresses = [
                f"session://{id}{part}" for part in ("", "/outline", "/turn/2", "/context")
            ]
            parts += [(await at.read_resource(each)).model_dump_json() for each in addresses]
            assert at.instructions is not None
            assert "masked" in at.instructions
        assert not [part for part in parts if key[:16] in part]

    run(test)


def test_two_methods_of_one_tool_name_are_told(tmp_path: Path) -> None:
    one, other = Namespace("a_b", "One."), Namespace("a", "Another.")

    @one.method("C")
    def c(call: Call, given: Given) -> list[str]:
        """Do."""
        return []

    @other.method("C")
    def b_c(call: Call, given: Given) -> list[str]:
        """Do."""
        return []

    _, problems = make_server(Scope(str(tmp_path), agents=False), [one, other], "all")
    assert problems == ["a.b_c is not a tool: another tool has the name a_b_c"]


def test_a_session_that_grows_or_goes_during_calls_gives_answers(tmp_path: Path) -> None:
    store = Store(tmp_path)
    file = said(store, "start")
    stop = threading.Event()

    def grow() -> None:
        with Session.open(file, durability="os") as session:
            while not stop.is_set():
                session.append_message({"role": "user", "content": "more"})

    async def test() -> None:
        async with client(tmp_path) as at:
            for number in range(20):
                result = await at.call_tool("tree_get", {"session": "latest"})
                assert not result.is_error, number

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        run(test)
    finally:
        stop.set()
        writer.join()
