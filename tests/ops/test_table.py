"""A command that is made of an operation and the method of the operation are one."""

from __future__ import annotations

import click
import pytest

from sessiontree.calls import Dispatcher, Error, Event, Scope
from sessiontree.cli import COMMANDS, derive, made_of, main
from sessiontree.ops import OWN
from sessiontree.ops.field import parameters
from tests.support.table import for_each

DERIVED = sorted(name for name, (place, _) in COMMANDS.items() if "." in place.partition(":")[2])


def command(name: str) -> click.Command:
    found = main.get_command(click.Context(main), name)
    assert found is not None
    return found


@for_each("name", DERIVED)
def test_a_command_and_its_method_describe_a_parameter_in_one_place(name: str) -> None:
    every = [one for method in made_of(name).values() for one in parameters(method.params)]
    described = {one.name: one.description for one in reversed(every)}
    shown = {
        str(one.name).removeprefix("given_"): getattr(one, "help", None) or vars(one).get("text")
        for one in command(name).params
        if str(one.name).startswith("given_")
    }
    assert shown
    for parameter, text in shown.items():
        assert str(text).startswith(described[parameter]), parameter


def test_each_parameter_of_a_method_is_an_option_of_its_call_with_the_same_text() -> None:
    calls = command("call")
    assert isinstance(calls, click.Group)
    for namespace in OWN.values():
        for method in namespace.methods.values():
            with click.Context(calls) as ctx:
                made = calls.get_command(ctx, method.full_name)
            assert made is not None
            shown = {option.name: option.help for option in made.params if option.name}
            for name, schema in method.params_schema["properties"].items():
                assert str(shown[f"given_{name}"]).startswith(schema["description"]), (
                    method.full_name
                )


@for_each(
    ("name", "method"),
    [("import", "import"), ("record", "record"), ("resume", "resume_command")],
)
def test_a_command_made_by_hand_takes_the_options_of_its_method(name: str, method: str) -> None:
    described = {
        one.name: one.description for one in parameters(OWN["session"].methods[method].params)
    }
    shown = {str(one.name): getattr(one, "help", None) for one in command(name).params}
    both = {key for key in shown.keys() & described.keys() if shown[key] is not None}
    assert both
    assert {key: shown[key] for key in both} == {key: described[key] for key in both}


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
