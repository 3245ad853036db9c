"""`call` is made of the schemas: its options, help, completion, results and exit codes."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from sessiontree import Store
from sessiontree.calls import dispatcher
from sessiontree.cli import call as call_module
from sessiontree.cli import terminal
from sessiontree.errors import UsageError
from sessiontree.ops import OWN
from sessiontree.ops.operation import Namespace
from sessiontree.ops.params import Call, SessionName
from tests.support.table import for_each
from tests.support.terminal import completed, done, driving, refused, run


class Size(msgspec.Struct):
    """A size."""

    width: int
    height: int = 1


class Given(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Parameters of all types."""

    word: Annotated[str, Meta(description="A word.", examples=["a"])]
    many_words: Annotated[list[str], Meta(description="Words.")] = []
    count: Annotated[int, Meta(ge=0, description="A number.")] = 3
    part: Annotated[float | None, Meta(description="A part.")] = None
    colour: Annotated[Literal["red", "blue"] | None, Meta(description="A colour.")] = None
    inks: Annotated[list[Literal["red", "blue"]] | None, Meta(description="Inks.")] = None
    brief: Annotated[bool, Meta(description="Be brief.")] = False
    loud: Annotated[bool, Meta(description="Be loud.")] = True
    size: Annotated[Size | None, Meta(description="A size.")] = None
    sizes: Annotated[list[Size], Meta(description="Sizes.")] = []
    any: Annotated[str | int | None, Meta(description="Anything.")] = None
    json: Annotated[str | None, Meta(description="Named as an option.")] = None
    from_: Annotated[str | None, Meta(description="A keyword.")] = msgspec.field(
        name="from", default=None
    )


class Echo(msgspec.Struct):
    """What was given."""

    given: Annotated[dict[str, Any], Meta(description="The parameters.")]


class Said(msgspec.Struct, omit_defaults=True):
    """A text."""

    text: Annotated[str, Meta(description="The text itself.")]
    cursor: Annotated[str | None, Meta(description="Where to go on.")] = None


class Word(msgspec.Struct):
    """A word."""

    word: Annotated[str, Meta(description="A word.")]


class OfSession(msgspec.Struct):
    """A session."""

    session: SessionName


toys = Namespace("toy", "For tests.")


@toys.method("Echo")
def echo(call: Call, given: Given) -> Echo:
    """Give back what was given."""
    return Echo(msgspec.to_builtins(given))


@toys.method("Say a word", "write")
def say(call: Call, given: Word) -> Said:
    """Say a word, and where to go on."""
    call.warn("be careful")
    return Said(given.word, "3:next")


@toys.method("Fail", "destroy")
def fail(call: Call, given: Word) -> Said:
    """Fail."""
    call.warn("be careful")
    raise UsageError(f"{given.word} is wrong")


@toys.method("Name")
def name(call: Call, given: OfSession) -> Said:
    """Name a session."""
    return Said(given.session)


@pytest.fixture(autouse=True)
def of_toys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Store:
    """One namespace in place of those of the package, and a store."""
    monkeypatch.setattr(dispatcher, "OWN", {"toy": toys})
    monkeypatch.setenv("SESSIONTREE_HOME", str(tmp_path / "store"))
    return Store(tmp_path / "store")


def given(*words: str, input: str | None = None) -> dict[str, Any]:
    """What a method gets from words on the command line."""
    printed = json.loads(done("call", "toy.echo", *words, "--json", input=input))
    found: dict[str, Any] = printed["given"]
    return {key: value for key, value in found.items() if value != getattr(DEFAULT, key, None)}


DEFAULT = Given(word="")


@for_each(
    ("words", "expected"),
    [
        ([], {}),
        (["--count", "5"], {"count": 5}),
        (["--part", "0.5"], {"part": 0.5}),
        (["--colour", "red"], {"colour": "red"}),
        (["--inks", "red", "--inks", "blue"], {"inks": ["red", "blue"]}),
        (["--brief", "--no-loud"], {"brief": True, "loud": False}),
        (["--many-words", "a b", "--many-words", "-c"], {"many_words": ["a b", "-c"]}),
        (["--size", '{"width": 2}'], {"size": {"width": 2, "height": 1}}),
        (["--sizes", '[{"width": 2}]'], {"sizes": [{"width": 2, "height": 1}]}),
        (["--any", "5"], {"any": 5}),
        (["--any", "five"], {"any": "five"}),
        (["--param-json", "x"], {"json": "x"}),
        (["--from", "here"], {"from": "here"}),
    ],
)
def test_each_parameter_is_an_option_of_its_type(
    words: list[str], expected: dict[str, Any]
) -> None:
    assert given("--word", "w", *words) == {"word": "w", **expected}


def test_parameters_are_taken_as_json_and_an_option_counts_before_them() -> None:
    params = json.dumps({"word": "a", "size": {"width": 2}, "count": 7})
    expected = {"word": "a", "size": {"width": 2, "height": 1}, "count": 9}
    words = ("call", "toy.echo", "--count", "9", "--json")
    for printed in (done(*words, "-", input=params), done(*words, params)):
        assert json.loads(printed)["given"].items() >= expected.items()


@for_each(
    ("words", "message"),
    [
        (["toy"], "'toy' has no dot"),
        (["tyo.say"], "no namespace 'tyo'; did you mean 'toy'? Call a method of one"),
        (["toy.sya"], "no method 'sya'; did you mean 'say'?"),
        (["toy.say"], "Missing option '--word'"),
        (["toy.say", "--word"], "Option '--word' requires an argument"),
        (["toy.say", "a"], "unexpected 'a'; give each parameter by its option"),
        (["toy.say", "--wrod", "a"], "No such option"),
        (["toy.echo", "--word", "a", "--count", "x"], "'--count'"),
        (["toy.echo", "--word", "a", "--count", "-1"], "`$.count`"),
        (["toy.echo", "--word", "a", "--colour", "green"], "'--colour'"),
        (["toy.echo", "--word", "a", "--size", "{"], "'--size': not JSON"),
        (["toy.echo", "--word", "a", "--size", "5"], "`$.size`"),
        (["toy.say", "--json", "{"], "'--json': OBJECT is not JSON"),
        (["toy.say", "--json", "[]"], "the parameters are a JSON object"),
        (["toy.say", "--json", '{"word": 5}'], "`$.word`"),
        (["toy.say", "--json", '{"word": "a", "more": 1}'], "no parameter 'more'"),
        ([], "name a method; --list lists all"),
        (["--list", "toy.say"], "only one of them"),
        (["--schema", "toy.sya"], "did you mean 'say'?"),
    ],
)
def test_a_bad_call_is_wrong_usage_with_one_clear_error(words: list[str], message: str) -> None:
    said = refused("call", *words, status=2)
    assert message in said.splitlines()[-1]


def test_what_is_not_json_on_standard_input_is_wrong_usage() -> None:
    for text in ("", "{", "\xff"):
        assert "standard input is not JSON" in refused(
            "call", "toy.say", "--json", "-", status=2, input=text
        )


def test_a_text_is_printed_as_it_is_and_the_rest_on_standard_error() -> None:
    result = run("call", "toy.say", "--word", "one\ntwo")
    assert (result.exit_code, result.stdout) == (0, "one\ntwo\n")
    assert result.stderr == "Warning: be careful\ncursor: 3:next\n"
    as_json = run("call", "toy.say", "--word", "one\ntwo", "--json")
    assert as_json.stdout == '{"text":"one\\ntwo","cursor":"3:next"}\n'
    assert as_json.stderr == "Warning: be careful\n"


def test_any_other_result_is_json_that_people_read() -> None:
    printed = done("call", "toy.echo", "--word", "ä")
    assert printed.startswith('{\n  "given": {\n    "word": "ä",\n')
    assert json.loads(printed)["given"]["word"] == "ä"


def test_a_method_that_fails_ends_with_1_and_says_what_to_do_next() -> None:
    said = refused("call", "toy.fail", "--word", "this")
    warning, error = said.splitlines()
    assert warning == "Warning: be careful"
    assert error == "Error: this is wrong. Change what the message names, and call again."


def test_no_text_of_a_result_drives_the_terminal() -> None:
    word = "\x1b[2J\u202e"
    for words in (["toy.say"], ["toy.say", "--json"], ["toy.echo"], ["toy.fail"]):
        result = run("call", words[0], "--word", word, *words[1:])
        assert not driving(result.output)


def test_the_help_of_a_method_is_made_of_its_schema() -> None:
    shown = done("call", "toy.echo", "--help")
    assert "Give back what was given." in shown
    for line in (
        "--word TEXT          A word. [required]",
        "--many-words TEXT    Words. You can give it more than once.",
        "--count N            A number. [default: 3]",
        "--part NUMBER        A part.",
        "--colour [blue|red]  A colour.",
        "--inks [blue|red]    Inks. You can give it more than once.",
        "--brief              Be brief.",
        "--loud / --no-loud   Be loud. [default: true]",
        "--size JSON          A size.",
    ):
        assert f"  {line}\n" in shown
    assert shown.endswith("Result:\n  given  The parameters.\n")
    assert "changes sessions" in done("call", "toy.say", "--help")
    assert "for good" in done("call", "toy.fail", "--help")


def test_the_list_has_a_line_for_each_method() -> None:
    assert done("call", "--list") == (
        "toy  For tests.\n"
        "  toy.echo  Echo\n  toy.say   Say a word\n  toy.fail  Fail\n  toy.name  Name\n"
    )


def test_the_schema_is_json_of_one_method_or_of_all() -> None:
    one = json.loads(done("call", "--schema", "toy.say"))
    assert (one["name"], one["effect"]) == ("toy.say", "write")
    every = json.loads(done("call", "--schema"))
    assert one in every["methods"]
    assert len(every["schema"]) == 16


def test_progress_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        terminal.ProgressBar, "__call__", lambda self, *progress: shown.append(progress)
    )
    steps = Namespace("steps", "For tests.")

    @steps.method("Go")
    def go(call: Call, given: Word) -> Said:
        """Go."""
        call.progress("one")
        call.progress("two", 1, 4)
        return Said("")

    monkeypatch.setattr(dispatcher, "OWN", {"steps": steps})
    done("call", "steps.go", "--word", "a")
    assert shown == [(0, None, "one"), (0.25, 1, "two")]


def test_names_options_and_values_are_completed(of_toys: Store) -> None:
    with of_toys.create(durability="os") as session:
        session.rename("recent")
        id = session.id
    assert completed("call", "toy.s") == ["toy.say"]
    assert completed("call", "toy.echo", "--ma") == ["--many-words"]
    assert completed("call", "toy.echo", "--colour", "") == ["blue", "red"]
    assert set(completed("call", "toy.name", "--session", "")) == {"latest", id[:8], "recent"}
    assert id in completed("call", "toy.name", "--session", id[:9])
    assert completed("call", "wrong.name", "") == completed("call", "")


def test_a_namespace_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    info = tmp_path / "others-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sessiontree.namespaces]\nnotes = gone_notes:x\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    ended = subprocess.run(
        [sys.executable, "-m", "sessiontree", "call", "notes.add"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("Left out: notes (gone_notes:x) cannot be loaded: ")
    assert "there is no namespace 'notes'" in ended.stderr


def test_a_call_loads_no_other_namespace_and_asks_for_no_plugins(tmp_path: Path) -> None:
    source = (
        "import sys; from sessiontree.cli import main;"
        "main(['call', 'session.list', '--json'], standalone_mode=False);"
        "print(*sys.modules, file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", source],
        env={**os.environ, "SESSIONTREE_HOME": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert json.loads(ended.stdout) == {"items": []}
    loaded = {name.removeprefix("sessiontree.ops.") for name in ended.stderr.split()}
    assert "session" in loaded
    assert loaded.isdisjoint({*OWN} - {"session"} | {"importlib.metadata"})


def test_no_method_is_named_in_the_code() -> None:
    source = Path(call_module.__file__).read_text(encoding="utf-8").partition("call.help = ")[0]
    texts = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    names = [f"{space.name}.{name}" for space in OWN.values() for name in space.methods]
    assert not [name for name in names if any(name in str(text) for text in texts)]
