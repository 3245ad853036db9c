"""A call is a stream of events in order, and raises nothing for a caller's fault."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessiontree import Store, errors
from sessiontree.calls.dispatcher import Data, Dispatcher, Done, Event, Guidance, Progress
from sessiontree.calls.scope import Scope
from sessiontree.errors import warn
from sessiontree.ops import OWN
from sessiontree.ops.guidance import Refusal
from sessiontree.ops.operation import Namespace
from sessiontree.ops.params import Call
from tests.support.events import data, events, refusal
from tests.support.table import for_each


class Asked(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Parameters."""

    what: str
    count: int = 1


class Answer(msgspec.Struct):
    """An answer."""

    text: str


def toy(work: Any = None, name: str = "toy") -> Namespace:
    """A namespace with one method, `ask`, which does some work first."""
    made = Namespace(name, "For tests.")

    @made.method("Ask")
    def ask(call: Call, given: Asked) -> Answer:
        """Answer with what was asked."""
        if work is not None:
            work(call)
        return Answer(given.what * given.count)

    return made


def asking(work: Any = None) -> Dispatcher:
    return Dispatcher(Scope(os.devnull, agents=False), [toy(work)])


def kinds(found: list[Event]) -> list[str]:
    return [type(event).__name__ for event in found]


def test_a_call_tells_progress_and_guidance_before_its_result_and_done_last() -> None:
    def work(call: Call) -> None:
        call.progress("looking")
        call.progress("reading", 1, 4)
        call.warn("beware")
        warn("the library warns")
        call.progress("done", 9, 4)
        call.progress("nothing of how much", 3)
        call.progress("how much alone", size=4)

    found = events(asking(work), "toy.ask", {"what": "a", "count": 2})
    assert kinds(found) == [*["Progress"] * 2, *["Guidance"] * 2, *["Progress"] * 3, "Data", "Done"]
    assert [e.fraction for e in found if isinstance(e, Progress)] == [
        *(None, 0.25, 1.0, None, None)
    ]
    told = [(e.kind, e.next) for e in found if isinstance(e, Guidance)]
    assert told == [("warning", "beware"), ("warning", "the library warns")]
    assert {event.provenance for event in found} == {"sessiontree/toy/ask"}
    result = found[-2]
    assert isinstance(result, Data)
    assert (result.content_type, result.value) == ("sessiontree.Answer", {"text": "aa"})


@for_each(
    ("name", "kind", "provenance", "words"),
    [
        ("ask", "bad_name", "sessiontree", "no dot"),
        (None, "bad_name", "sessiontree", "no dot"),
        (["toy.ask"], "bad_name", "sessiontree", "no dot"),
        ("tyo.ask", "unknown_namespace", "sessiontree", "did you mean 'toy'"),
        (".ask", "unknown_namespace", "sessiontree", "no namespace ''"),
        ("toy.aks", "unknown_method", "sessiontree/toy", "did you mean 'ask'"),
        ("toy.", "unknown_method", "sessiontree/toy", "no method ''"),
        ("toy.ask.", "unknown_method", "sessiontree/toy", "no method 'ask.'"),
        ("toy.\ud800" + "x" * 10_000, "unknown_method", "sessiontree/toy", "no method"),
    ],
)
def test_an_unknown_name_is_answered_with_the_known_ones(
    name: Any, kind: str, provenance: str, words: str
) -> None:
    guidance, error = refusal(asking(), name)
    assert (guidance.kind, error.provenance) == (kind, provenance)
    assert words in error.message
    assert len(error.message) < 300
    assert guidance.available == (["toy.ask"] if kind == "unknown_method" else ["toy"])
    assert error.recoverable


@for_each(
    ("params", "words"),
    [
        (None, "not null"),
        ([1], "not list"),
        ("text", "not str"),
        ({"wath": "a"}, "no parameter 'wath'; did you mean 'what'?"),
        ({5: "a"}, "no parameter 5"),
        ({}, "required field `what`"),
        ({"what": 5}, "Expected `str`, got `int` - at `$.what`"),
        ({"what": "a", "count": "2"}, "Expected `int`, got `str` - at `$.count`"),
        ({"what": "a", "count": [[]]}, "`$.count`"),
        ({"what": "a", "count": object()}, "`$.count`"),
    ],
)
def test_a_parameter_that_does_not_fit_is_named_with_an_example(params: Any, words: str) -> None:
    found: list[Event] = []
    asking().call("toy.ask", params, found.append)
    guidance = found[0]
    assert kinds(found) == ["Guidance", "Error", "Done"]
    assert isinstance(guidance, Guidance)
    assert (guidance.kind, guidance.available) == ("bad_parameter", ["what", "count"])
    assert guidance.example == {"what": "…"}
    assert words in found[1].message  # type: ignore[attr-defined]


@for_each(
    ("error", "kind", "recoverable"),
    [
        (Refusal("no", "mine", "Do this."), "mine", True),
        (errors.UsageError("no"), "bad_value", True),
        (errors.CorruptionError("no", "file", 0), "damage", False),
        (PermissionError(13, "denied"), "storage", True),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "no"), "bad_value", True),
        (RecursionError("deep"), "too_deep", False),
        (MemoryError(), "memory", False),
        (KeyError("odd"), "fault", False),
        (errors.RefError("no", "ref", ["near"]), "no_such_ref", True),
    ],
)
def test_what_a_method_raises_is_told(error: Exception, kind: str, recoverable: bool) -> None:
    def work(call: Call) -> None:
        call.progress("before")
        raise error

    guidance, told = refusal(asking(work), "toy.ask", {"what": "a"})
    assert (guidance.kind, told.recoverable) == (kind, recoverable)
    assert told.message
    assert guidance.next
    assert guidance.available == list(getattr(error, "candidates", ()))


class TakeFailed(Exception):
    pass


@for_each("failed", [TakeFailed, KeyboardInterrupt])
def test_what_take_raises_ends_the_call_though_the_method_catches_errors(
    failed: type[BaseException],
) -> None:
    taken: list[Event] = []

    def take(event: Event) -> None:
        taken.append(event)
        raise failed

    def work(call: Call) -> None:
        try:
            call.progress("one")
        except Exception:
            call.progress("two")

    with pytest.raises(failed):
        asking(work).call("toy.ask", {"what": "a"}, take)
    assert len(taken) == 1


def test_a_stopped_call_ends_at_its_next_report_though_the_method_catches_errors() -> None:
    stop = threading.Event()
    steps: list[int] = []

    def work(call: Call) -> None:
        for step in range(9):
            try:
                call.progress("step", step, 9)
            except Exception:
                continue
            steps.append(step)
            if step == 3:
                stop.set()

    found = events(asking(work), "toy.ask", {"what": "a"}, stop=stop)
    assert steps == [0, 1, 2, 3]
    assert isinstance(found[-3], Guidance)
    assert found[-3].kind == "stopped"


def test_the_hash_changes_with_a_method_and_with_nothing_else() -> None:
    def hash_of(*namespaces: Namespace) -> str:
        return Dispatcher(Scope(os.devnull, agents=False), namespaces).schema

    other = toy()

    @other.method("Tell")
    def tell(call: Call, given: Asked) -> Answer:
        """Tell it."""
        return Answer("")

    assert hash_of(toy()) == hash_of(toy(work=print))
    assert hash_of(toy(), toy(name="b")) == hash_of(toy(name="b"), toy())
    assert len({hash_of(), hash_of(toy()), hash_of(toy(name="b")), hash_of(other)}) == 4


def test_a_call_without_the_hash_makes_no_schema_of_another_method(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr("sessiontree.calls.dispatcher.schema_hash")
    found: list[Event] = []
    asking().call("toy.ask", {"what": "a"}, found.append, hashed=False)
    assert kinds(found) == ["Data", "Done"]
    assert {event.schema for event in found} == {""}


def test_the_hash_is_the_same_in_every_process() -> None:
    source = (
        "from sessiontree.calls.dispatcher import Dispatcher; "
        "from sessiontree.calls.scope import Scope; "
        "print(Dispatcher(Scope()).schema)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", source],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_an_unknown_session_is_answered_with_those_that_there_are(
    writing: Dispatcher, store: Store
) -> None:
    guidance, error = refusal(writing, "tree.render", {"session": "frist"})
    assert guidance.kind == "session_not_found"
    assert guidance.available == [store.list()[0].id]
    assert "did you mean 'first'" in error.message


def test_a_session_that_is_damaged_is_read_and_the_damage_told(
    writing: Dispatcher, store: Store
) -> None:
    file = Path(store.list()[0].file)
    file.write_bytes(file.read_bytes() + b"garbage\n")
    found = events(writing, "tree.get", {"session": "first"})
    told = [event for event in found if isinstance(event, Guidance)]
    assert [one.kind for one in told] == ["damage"]
    assert any(isinstance(event, Data) for event in found)


def test_secrets_are_masked_in_every_event(store: Store) -> None:
    secret = "sk-ant-api03-" + "a1B2" * 20 + "AA"
    name = f"about {secret}"
    with store.open("first") as session:
        session.append_message({"role": "user", "content": name})
    masking = Dispatcher(Scope(store.root, agents=False, redact=True))
    for params in ({"session": "first"}, {"session": name}, {"session": "first", secret: 1}):
        found: list[Event] = []
        masking.call("tree.get", params, found.append)
        assert isinstance(found[-1], Done)
        assert secret[:30].encode() not in msgspec.json.encode(found)


PLUGINS = """
import msgspec
from sessiontree.ops.params import Call
from sessiontree.ops.operation import Namespace

class Given(msgspec.Struct):
    "Parameters."
    word: str

class Said(msgspec.Struct):
    "An answer."
    text: str

def make(name):
    made = Namespace(name, "Of another package.")
    @made.method("Say")
    def say(call: Call, given: Given) -> Said:
        "Say a word."
        return Said(given.word)
    return made

good = make("notes")
again = make("notes")
own = make("tree")
wrong = 5

class Odd: ...
class Unfit(msgspec.Struct):
    odd: Odd

unfit = make("unfit")
@unfit.method("Odd")
def odd(call: Call, given: Unfit) -> Said:
    "It has no schema."
"""


@pytest.fixture
def plugged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store) -> Dispatcher:
    """The methods of this package and of an installed one, which has good and bad namespaces."""
    folder = tmp_path / "installed"
    info = folder / "others-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    names = ("good", "again", "own", "wrong", "unfit", "missing")
    points = [f"{name} = others_namespaces:{name}" for name in names]
    points += ["raising = others_raising:x", "leaving = others_leaving:x", "gone = others_gone:x"]
    text = "\n".join(["[sessiontree.namespaces]", *points])
    (info / "entry_points.txt").write_text(text)
    (folder / "others_namespaces.py").write_text(PLUGINS)
    (folder / "others_raising.py").write_text("raise RuntimeError")
    (folder / "others_leaving.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(str(folder))
    return Dispatcher(Scope(store.root, agents=False))


def test_an_installed_package_adds_a_namespace(plugged: Dispatcher) -> None:
    assert data(plugged, "notes.say", word="hello") == {"text": "hello"}
    assert plugged.schema != Dispatcher(plugged.scope, []).schema


def test_a_namespace_that_cannot_take_part_is_named_and_harms_no_other(plugged: Dispatcher) -> None:
    assert "unfit" not in plugged.namespaces
    assert set(data(plugged, "tree.render", session="first")) == {"text"}
    said = "\n".join(plugged.problems)
    for words in (
        "more than one namespace 'notes'",
        "more than one namespace 'tree'",
        "wrong (others_namespaces:wrong) cannot be loaded: TypeError: it is not a Namespace",
        "missing (others_namespaces:missing) cannot be loaded: ",
        "raising (others_raising:x) cannot be loaded: RuntimeError",
        "leaving (others_leaving:x) cannot be loaded: SystemExit: 3",
        "gone (others_gone:x) cannot be loaded: ModuleNotFoundError: ",
        "unfit (others_namespaces:unfit) cannot be loaded: TypeError: ",
    ):
        assert words in said
    assert len(plugged.problems) == 8


@for_each("name", ["", "a.b", "a b", "ä\n", "Tree"])
def test_a_namespace_has_a_name_that_can_be_called(name: str) -> None:
    with pytest.raises(ValueError, match="not a name for a namespace"):
        Namespace(name, "For tests.")


def test_a_method_says_which_handles_it_produces() -> None:
    made = toy()

    @made.method("Chat", "write", produces=["cone::chat", "cone::image"])
    def chat(call: Call, given: Asked) -> Answer:
        """Chat with a model."""
        return Answer("cone@1.0.0::chat:7")

    dispatcher = Dispatcher(Scope(os.devnull, agents=False), [made, OWN["schema"]])
    found = data(dispatcher, "schema.get", method="toy.chat")
    said = "Produces handles: cone::chat, cone::image; handle.schemas describes them."
    assert found["description"] == f"Chat with a model.\n\n{said}"
    assert made.methods["chat"].as_dict()["produces"] == ["cone::chat", "cone::image"]
    assert made.methods["ask"].as_dict()["produces"] == []
    for wrong in ("cone", "cone@1.0.0::chat", "::chat", "cone::chat:7"):
        with pytest.raises(ValueError, match="a form of handles is PLUGIN::METHOD"):
            made.method("Odd", produces=[wrong])


def test_a_method_without_parameters_a_result_or_a_name_of_its_own_is_refused() -> None:
    made = toy()
    add = made.method("Odd")

    def no_given(call: Call) -> Answer:
        return Answer("")

    def no_result(call: Call, given: Asked):  # type: ignore[no-untyped-def]
        return Answer("")

    def ask(call: Call, given: Asked) -> Answer:
        return Answer("")

    for function in (no_given, no_result):
        with pytest.raises(TypeError, match=function.__name__):
            add(function)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="toy has a method 'ask' already"):
        add(ask)


def test_a_value_that_is_none_of_a_few_is_refused_with_those() -> None:
    own = Dispatcher(Scope(os.devnull, agents=False))
    found = events(own, "context.get", {"session": "latest", "to": "openai"})
    guidance = found[0]
    assert isinstance(guidance, Guidance)
    assert guidance.available == ["anthropic", "messages", "openai-chat", "openai-responses"]


def test_a_method_is_described_by_the_name_of_its_tool() -> None:
    own = Dispatcher(Scope(os.devnull, agents=False))
    found = data(own, "schema.get", method="session_search")
    assert found["name"] == "session.search"
