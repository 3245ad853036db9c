"""A command that is made of an operation and the method of the operation are one."""

from __future__ import annotations

import re

import click
import pytest

from sessiontree.calls import Dispatcher, Error, Event, Scope
from sessiontree.cli import COMMANDS, derive, made_of, main
from sessiontree.ops import OWN
from sessiontree.ops.field import parameters
from sessiontree.ops.operation import Method
from tests.support.table import for_each

DERIVED = sorted(name for name, (place, _) in COMMANDS.items() if "." in place.partition(":")[2])

BY_HAND = {
    "append": ("node.create_text", "node.create_message", "node.create_handle", "node.attach"),
    "handle": ("handle.resolve", "handle.schemas"),
    "import": ("session.import",),
    "record": ("session.record",),
    "resume": ("session.resume_command",),
}
WITHOUT_METHOD = {
    *("audit", "backup", "blob", "browse", "call", "completion", "copy", "demo", "follow", "mcp"),
    *("hide", "map-path", "migrate", "sync", "verify", "view"),
}
AGAIN = " You can give it more than once."


def method_of(full_name: str) -> Method:
    namespace, _, name = full_name.partition(".")
    return OWN[namespace].methods[name]


def command(name: str) -> click.Command:
    found = main.get_command(click.Context(main), name)
    assert found is not None
    return found


def shown(made: click.Command) -> dict[str, str]:
    """The text of each parameter that has one, without what says that it may be repeated."""
    texts = {}
    for one in made.params:
        text = getattr(one, "help", None) or vars(one).get("text")
        if isinstance(one, click.Option) and one.multiple and text:
            assert text.endswith(AGAIN), one.name
            text = text.removesuffix(AGAIN)
        if text:
            texts[str(one.name).removeprefix("given_")] = str(text)
    return texts


def described(*methods: Method) -> dict[str, str]:
    every = [one for method in methods for one in parameters(method.params)]
    return {one.name: one.description for one in reversed(every)}


@for_each("name", DERIVED)
def test_a_command_and_its_method_describe_a_parameter_in_one_place(name: str) -> None:
    texts = shown(command(name))
    given = {
        str(one.name).removeprefix("given_") for one in command(name).params if is_derived(one)
    }
    expected = described(*made_of(name).values())
    assert given
    assert {key: texts[key] for key in given} == {key: expected[key] for key in given}


def is_derived(one: click.Parameter) -> bool:
    return str(one.name).startswith("given_")


def test_each_parameter_of_a_method_is_an_option_of_its_call_with_the_same_text() -> None:
    calls = command("call")
    assert isinstance(calls, click.Group)
    for namespace in OWN.values():
        for method in namespace.methods.values():
            with click.Context(calls) as ctx:
                made = calls.get_command(ctx, method.full_name)
            assert made is not None
            options = {one.name: one for one in made.params if isinstance(one, click.Option)}
            for one in parameters(method.params):
                if one.is_for_people:
                    continue
                option = options[f"given_{one.name}"]
                text = one.description + (AGAIN if option.multiple else "")
                end = r" \[required\]" if one.is_required else r"( \[default: .+\])?"
                assert re.fullmatch(re.escape(text) + end, str(option.help)), method.full_name


def test_every_command_made_by_hand_is_known_by_its_methods() -> None:
    assert {*BY_HAND, *WITHOUT_METHOD} == {*COMMANDS} - {*DERIVED}


@for_each(("name", "methods"), BY_HAND.items())
def test_a_command_made_by_hand_describes_a_parameter_as_its_methods_do(
    name: str, methods: tuple[str, ...]
) -> None:
    known = [described(method_of(full_name)) for full_name in methods]
    texts = {key: text for made in with_parts(command(name)) for key, text in shown(made).items()}
    both = {key: text for key, text in texts.items() if any(key in one for one in known)}
    assert both
    for key, text in both.items():
        assert text in {one.get(key) for one in known}, key


def with_parts(made: click.Command) -> list[click.Command]:
    """A command, and the commands of a group."""
    context = click.Context(made)
    names = made.list_commands(context) if isinstance(made, click.Group) else []
    parts = [made.get_command(context, name) for name in names if isinstance(made, click.Group)]
    return [made, *(part for part in parts if part is not None)]


def test_what_is_only_for_people_is_refused_as_a_parameter_of_a_method() -> None:
    merge = OWN["branch"].methods["merge"]
    assert "summarizer" in {one.name for one in parameters(merge.params) if one.is_for_people}
    events: list[Event] = []
    given = {"session": "latest", "ref": "@", "summarizer": "cat"}
    Dispatcher(Scope(write=True)).call("branch.merge", given, events.append)
    assert [event.message for event in events if isinstance(event, Error)] == [
        "branch.merge has no parameter 'summarizer'; did you mean 'summarize'?"
    ]


def test_a_result_that_nothing_prints_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derive, "_RENDERERS", {})
    method = OWN["file"].methods["list"]
    call = derive.CommandCall(method, method.params(session="latest"), as_json=False)
    with pytest.raises(TypeError, match=r"no function prints the result of file\.list"):
        call.print([])
