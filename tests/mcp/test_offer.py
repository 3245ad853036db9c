"""Which tools a server offers for the names that it is given, and which names it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree.calls.dispatcher import Dispatcher
from sessiontree.calls.scope import Scope
from sessiontree.errors import UsageError
from sessiontree.mcp.offer import ToolSelection
from sessiontree.ops.operation import Method
from tests.support.table import for_each


@pytest.fixture
def methods(tmp_path: Path) -> dict[str, Method]:
    return dict(Dispatcher(Scope(str(tmp_path), agents=False)).methods)


@for_each(
    ("chosen", "error"),
    [
        ("branch.switch", "'branch.switch' writes; give --write, too"),
        ("core, branch_switch", "'branch_switch' writes; give --write, too"),
        ("nothing", "there is no tool and no namespace 'nothing'"),
        ("core,", "there is no tool and no namespace ''"),
    ],
)
def test_a_name_of_nothing_that_can_be_offered_is_refused(
    methods: dict[str, Method], chosen: str, error: str
) -> None:
    with pytest.raises(UsageError, match=error):
        ToolSelection(methods, chosen, write=False)


def test_a_namespace_that_only_writes_needs_leave_to_write(methods: dict[str, Method]) -> None:
    writing = {name: each for name, each in methods.items() if each.effect_where(True) == "write"}
    space = next(iter(writing)).partition(".")[0]
    only = {name: each for name, each in writing.items() if each.namespace == space}
    with pytest.raises(UsageError, match=f"each method of '{space}' writes; give --write, too"):
        ToolSelection(only, space, write=False)
    assert all(
        ToolSelection(only, space, write=True).needs(method) is None for method in only.values()
    )


@pytest.mark.parametrize("write", [False, True])
def test_what_is_needed_for_a_tool_is_told(methods: dict[str, Method], write: bool) -> None:
    offer = ToolSelection(methods, " tree.render , session", write=write)
    needed = {name: offer.needs(method) for name, method in methods.items()}
    assert needed["tree.render"] is None
    assert needed["session.list"] is None
    assert needed["branch.list"] == "--tools tree.render,session,branch.list"
    assert needed["session.rename"] == (None if write else "--write")
    missing = "--tools tree.render,session,branch.switch"
    assert needed["branch.switch"] == (missing if write else f"--write {missing}")
