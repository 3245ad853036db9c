"""Every answer about a large, a foreign, an old or a damaged session fits its budget."""

from __future__ import annotations

import shutil
from pathlib import Path
from threading import Event
from typing import Any, Final

import pytest

from sessiontree import Handle, Session
from sessiontree.calls.dispatcher import Data
from tests.support.calls import Answer, Calls
from tests.support.soak import in_soak
from tests.support.table import for_each

FIXTURES: Final = Path("fixtures")
CASES: Final = [
    *sorted(path.name for path in FIXTURES.glob("foreign-*")),
    *("version-1-linear", "version-1-compaction", "version-1-torn"),
    *sorted(path.name for path in FIXTURES.glob("damage-*")),
    *("end-fragment", "spill-missing", "type-unknown", "type-block-and-message_end"),
]
READS: Final[list[tuple[str, dict[str, Any]]]] = [
    ("tree.list", {}),
    ("tree.render", {}),
    ("tree.render", {"all": True}),
    ("tree.get", {}),
    ("tree.export", {}),
    ("node.get", {}),
    ("node.get", {"offset": 1}),
    ("node.children", {"entry": "@~1"}),
    ("node.labels", {}),
    ("node.find", {"text": "e"}),
    ("node.find", {"type": "message"}),
    ("node.find", {"role": ["prompt"]}),
    ("context.get_path", {}),
    ("context.get_handles", {}),
    ("context.resolve", {}),
    ("context.get", {}),
    ("context.get", {"verbatim": True}),
    ("context.get", {"to": "anthropic"}),
    ("context.get", {"to": "openai-responses"}),
    ("context.get", {"to": "openai-chat"}),
    ("context.estimate", {"window": 200_000}),
    ("handle.schemas", {}),
    ("branch.list", {}),
    ("branch.here", {}),
    ("branch.lanes", {}),
    ("branch.diff", {"one": "@~1"}),
    ("session.list", {}),
    ("session.search", {"pattern": "e"}),
    ("session.outline", {}),
    ("session.outline", {"first": 0, "subagents": True}),
    ("session.stats", {}),
    ("session.totals", {"by": "model"}),
    ("session.show", {}),
    ("health.check", {}),
    ("health.blobs", {}),
    ("schema.list", {}),
]
WITHOUT_SESSION: Final = (
    *("tree.list", "handle.schemas", "schema.list"),
    *("session.list", "session.totals"),
)
NAMED: Final = [f"{name} {params}" for name, params in READS]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """5 MB: an answer of 2 MB, 300 turns, branches, labels, handles, lone surrogates."""
    file = tmp_path_factory.mktemp("large") / "large.jsonl"
    with Session.create(file, spill_over=None, durability="os", name="large") as session:
        session.append_message({"role": "system", "content": "Be brief. " * 5000})
        with session.batch():
            for n in range(300):
                prompt = session.append_message({"role": "user", "content": f"prompt {n}\n" * 50})
                call = {"type": "tool_use", "id": f"c{n}", "name": "Read", "input": {"n": n}}
                session.append_message({"role": "assistant", "content": [call]})
                result = {"type": "tool_result", "tool_use_id": f"c{n}", "content": "é\n" * 2500}
                session.append_message({"role": "user", "content": [result]})
                if n % 20 == 0:
                    session.append_handle(Handle.entry(session.id, prompt.uuid), role="user")
        for n in range(300):
            session.label(f"@~{n}", f"label {n}")
        for n in range(50):
            session.branch("@~15", name=f"branch-{n}")
            session.append_message({"role": "user", "content": f"on branch {n}"})
        session.switch("branch-3")
        session.append_message({"role": "assistant", "content": '\\ "quoted" é\n' * 120_000})
        session.append_message({"role": "user", "content": "lone XXXXXX here"})
    file.write_bytes(file.read_bytes().replace(b"XXXXXX", b"\\ud800"))
    assert file.stat().st_size > 4_000_000
    return file


@for_each(("name", "params"), READS, ids=NAMED)
@in_soak("budgets", [200], [200, 4000])
def test_an_answer_about_a_large_session_fits(
    large: Path, name: str, params: dict[str, Any], budgets: list[int]
) -> None:
    calls = Calls(large.parent, write=False)
    given = {**params} if name in WITHOUT_SESSION else {"session": "large", **params}
    for budget in budgets:
        answer = calls(name, budget=budget, **given)
        assert answer.tokens <= budget
        assert answer.value


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of each case, which no call changes."""
    root = tmp_path_factory.mktemp("cases")
    for case in CASES:
        shutil.copytree(FIXTURES / case, root / case)
    return root


@for_each("number, case", enumerate(CASES))
@in_soak("every", 3, 1)
def test_any_session_is_read_by_every_method_or_refused_in_words(
    cases: Path, number: int, case: str, every: int
) -> None:
    before = {path: path.read_bytes() for path in (cases / case).rglob("*") if path.is_file()}
    calls = Calls(cases / case, write=False)
    file = str(cases / case / "session.jsonl")
    for name, params in READS[number % every :: every]:
        given = {} if name in WITHOUT_SESSION else {"session": file}
        answer = calls(name, **given, **params)
        kinds = {kind for kind, _ in answer.guidance}
        assert "fault" not in kinds, (name, params, answer.events)
        if answer.error is None:
            assert answer.tokens <= 4000, name
        else:
            refused = {"too_much", "damage", "bad_value", "wrong_file"}
            refused |= {"no_such_ref", "blob", "storage"}
            assert kinds & refused, (name, params, answer.events)
    after = {path: path.read_bytes() for path in (cases / case).rglob("*") if path.is_file()}
    assert after == before


@for_each("name", ["tree.get", "tree.export", "context.get"])
def test_damage_is_told_with_what_tells_all_of_it(cases: Path, name: str) -> None:
    calls = Calls(cases, write=False)
    answer = calls(name, session=str(cases / "damage-json" / "session.jsonl"))
    assert answer.value
    ((kind, text),) = answer.guidance
    assert kind == "damage"
    assert "health.check" in text


def test_a_lone_surrogate_leaves_the_rest_of_an_answer_as_it_is(tmp_path: Path) -> None:
    """One such character must not make six bytes of each letter that is not ASCII."""
    file = tmp_path / "s.jsonl"
    with Session.create(file) as session:
        for _ in range(40):
            session.append_message({"role": "user", "content": "é" * 300})
        session.append_message({"role": "user", "content": "XXXXXX"})
    file.write_bytes(file.read_bytes().replace(b"XXXXXX", b"\\ud800"))
    answer = Calls(tmp_path)("context.get", session=str(file))
    assert [event.left_out for event in answer.events if isinstance(event, Data)] == [None]
    assert answer.value["messages"][-1]["message"]["content"] == "\ud800"
    assert len(answer.value["messages"]) > 15


@for_each("name", ["tree.list", "tree.export", "node.find", "context.estimate"])
def test_a_stopped_call_ends_in_the_middle_of_its_work(large: Path, name: str) -> None:
    calls = Calls(large.parent, write=False)
    stop = StopsAfter(2)
    given: dict[str, Any] = {} if name == "tree.list" else {"session": str(large)}
    given |= {"text": "prompt"} if name == "node.find" else {}
    events: list[Any] = []
    calls.dispatcher.call(name, {**given, "budget": 0}, events.append, stop=stop)
    assert Answer(events).kind == "stopped"


class StopsAfter(Event):
    """Is set when it was asked a few times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self._left = times

    def is_set(self) -> bool:
        self._left -= 1
        return self._left < 0
