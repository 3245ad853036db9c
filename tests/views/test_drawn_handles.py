"""Nothing that draws or lists a session resolves its handles."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sessiontree import Session, Store
from sessiontree.calls.dispatcher import Data, Dispatcher
from sessiontree.calls.scope import Scope
from sessiontree.handles.registry import Registry
from sessiontree.page.document import Document
from sessiontree.views.rows import read_turn
from sessiontree.views.turns import latest, numbers_of, prompt_numbers
from tests.support.conversation import in_memory
from tests.support.plugins import Plugin, install_plugins
from tests.support.table import for_each
from tests.support.terminal import done, printed_json
from tests.tui.driving import Driven, drive

MODULE: Final = """
from sessiontree import HandleSchema, MetaField

asked = []

class Counting:
    schemas = [HandleSchema("far", "message", "1.x", [MetaField("id")], "message")]

    def resolve(self, handle, scope):
        asked.append(str(handle))
        raise RuntimeError("somebody's database was asked")
"""


def far(number: int) -> str:
    return f"far@1.0.0::message:{number}"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What an installed plugin was asked for; it fails each time."""
    installed = tmp_path / "installed"
    installed.mkdir()
    (installed / "far_plugin.py").write_text(MODULE)
    install_plugins(installed, "far = far_plugin:Counting")
    monkeypatch.syspath_prepend(str(installed))
    monkeypatch.delitem(sys.modules, "far_plugin", raising=False)
    monkeypatch.setattr(Registry, "_default", None)
    import far_plugin  # type: ignore[import-not-found]

    yield far_plugin.asked
    sys.modules.pop("far_plugin", None)


@pytest.fixture
def file(tmp_path: Path, asked: list[str]) -> str:
    """A session of a store: handles with a role, a preview, both or none, on two branches."""
    with Store(tmp_path / "store").create(cwd="/project") as session:
        first = session.append_handle(far(1), role="user", preview="Build a CLI")
        session.append_handle(far(2), role="assistant")
        session.append_handle(far(3))
        session.append_handle(far(4), role="user")
        session.append_handle(far(5), role="assistant", preview="Done.")
        session.branch(first, name="other")
        session.append_handle(far(6), role="assistant")
        session.append_handle(far(7), preview="no role")
        assert session.file is not None
        return session.file


LOOKS: Final[dict[str, Callable[[Session], object]]] = {
    "tree": lambda session: list(session.tree()),
    "render": lambda session: list(session.render()),
    "render all": lambda session: list(session.render(all=True)),
    "outline": lambda session: session.outline(),
    "branches": lambda session: session.branches(),
    "compare": lambda session: session.compare("other", session.path()[1]),
    "path": lambda session: session.path(),
    "latest turns": lambda session: latest(session.cursor),
    "numbers of turns": lambda session: numbers_of(session.cursor),
    "numbers of prompts": lambda session: prompt_numbers(session.cursor),
    "outline of the page": lambda session: Document(session.cursor, session.original),
}


@for_each("look", LOOKS.values(), ids=LOOKS)
def test_no_look_at_a_session_resolves(
    file: str, asked: list[str], look: Callable[[Session], object]
) -> None:
    with Session.open(file, readonly=True) as session:
        assert look(session)
    assert asked == []


COMMANDS: Final = (
    *("tree FILE", "tree FILE --all", "tree FILE --json", "tree FILE --depth 9"),
    *("path FILE", "branches FILE", "diff FILE other @", "ls", "ls --json"),
    *("search Build", "show FILE @", "labels FILE --json"),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_that_draws_resolves(
    file: str, asked: list[str], command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSIONTREE_STORE", str(tmp_path / "store"))
    assert done(*(file if word == "FILE" else word for word in command.split()))
    assert asked == []


METHODS: Final = (
    *("tree.render", "tree.get", "tree.list", "session.outline", "branch.list"),
    *("context.get_path", "context.get_handles", "node.children", "node.find"),
)


@pytest.mark.parametrize("name", METHODS)
def test_no_method_that_lists_or_draws_resolves(
    file: str, asked: list[str], name: str, tmp_path: Path
) -> None:
    given = {} if name == "tree.list" else {"session": file}
    given |= {"node.children": {"entry": "@~2"}, "node.find": {"type": "handle"}}.get(name, {})
    found: list[Any] = []
    Dispatcher(Scope(str(tmp_path / "store"), agents=False)).call(name, given, found.append)
    assert any(isinstance(event, Data) for event in found), found
    assert asked == []


def test_the_browser_resolves_no_handle_in_its_list_and_its_outline(
    file: str, asked: list[str], tmp_path: Path
) -> None:
    async def steps(driven: Driven) -> None:
        assert "Build a CLI" in driven.text
        assert "far@1.0.0::message:4" in await driven.press("enter")
        assert asked == []

    drive(steps, tmp_path / "store")


def test_a_handle_is_drawn_as_its_preview_or_its_text(file: str) -> None:
    with Session.open(file, readonly=True) as session:
        drawn = "\n".join(session.render(all=True))
        branches = [branch.preview for branch in session.branches()]
        turns = [(turn.prompt, turn.answer) for turn in session.outline().turns]
        rows = {row.preview: row for row in session.tree() if row.type == "handle"}
    shown = ("user  Build a CLI", f"assistant  {far(2)}", f"handle  {far(3)}", f"user  {far(4)}")
    assert all(f" {row}  " in drawn for row in (*shown, "assistant  Done.", "handle  no role"))
    assert branches == ["Done.", "no role"]
    assert turns == [("Build a CLI", far(2)), (far(4), "Done."), (None, far(6))]
    assert [rows[far(n)].role for n in (2, 3, 4, 6)] == ["assistant", None, "user", "assistant"]


def test_the_path_on_the_command_line_shows_handles_as_they_are(file: str) -> None:
    rows = [line.split(maxsplit=1)[1] for line in done("path", file).splitlines()]
    shown = (("user", "Build a CLI"), ("branch", "other"), ("assistant", far(6)))
    assert rows[1:] == [f"{who:<14}  {what}" for who, what in (*shown, ("handle", "no role"))]


def test_each_row_of_a_handle_names_the_handle(file: str, tmp_path: Path) -> None:
    wanted = [None, *(far(number) for number in range(1, 6)), None, far(6), far(7)]
    with Session.open(file, readonly=True) as session:
        assert [row.handle for row in session.tree()] == wanted
    assert [row["handle"] for row in printed_json("tree", file)] == wanted
    found: list[Any] = []
    Dispatcher(Scope(str(tmp_path / "store"), agents=False)).call(
        "tree.get", {"session": file}, found.append
    )
    assert [row["handle"] for row in found[0].value["items"]] == wanted


def test_the_older_form_of_a_handle_is_named_too(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    Session.create(file).close()
    with Session.open(file, readonly=True) as session:
        above = session.leaf.uuid
    older = {"source": "cone", "source_version": "1", "identifier": "msg-1:user:bob"}
    entry = {"type": "handle", "uuid": "h", "parentUuid": above, "handle": older, "kind": "message"}
    with file.open("a") as lines:
        lines.write(json.dumps(entry) + "\n")
    with Session.open(file, readonly=True) as session:
        assert [row.handle for row in session.tree()] == [None, "cone@1::msg-1:user:bob"]


def test_a_turn_in_full_resolves_its_own_handles_alone() -> None:
    plugin = Plugin("p")
    with in_memory(registry=Registry([plugin])) as session:
        for number in range(4):
            session.append_handle(f"p@1.0.0::a:{number}", role=("user", "assistant")[number % 2])
        turn = session.outline().turns[-1]
        assert [entry.parts[0].text for entry in read_turn(session.cursor, turn)] == [
            *("p@1.0.0::a:2", "p@1.0.0::a:3")
        ]
    assert [str(one) for one in plugin.asked] == ["p@1.0.0::a:2", "p@1.0.0::a:3"]


def test_ten_thousand_handles_are_drawn_without_one_look_up(tmp_path: Path) -> None:
    plugin = Plugin("p")
    with in_memory(registry=Registry([plugin])) as session:
        with session.batch():
            for number in range(10_000):
                session.append_handle(f"p@1.0.0::a:{number}")
        assert len(list(session.render(all=True))) == 10_001
        assert len(list(session.tree())) == 10_001
        assert session.outline().turns
    assert plugin.asked == []
