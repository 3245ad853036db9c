"""The page for people who come from the proposals: each of sessiontree's names on it exists."""

from __future__ import annotations

import re
from typing import Any, Final

import click
import msgspec

import sessiontree
from sessiontree.calls import Event
from sessiontree.cli import main
from sessiontree.core.entry import KNOWN
from sessiontree.ops import OWN
from sessiontree.ops.operation import Namespace
from sessiontree.recording import events
from tests.docs.examples import ROOT

DOCS: Final = ROOT / "docs"
PAGE: Final = (DOCS / "proposals.md").read_text(encoding="utf-8")
NAMES, _, REST = PAGE.partition("## How version 2 differs")
VERSION_2, _, CALLS = REST.partition("\n## How calls by name differ")
CLASSES: Final[dict[str, Any]] = {
    **{name: getattr(sessiontree, name) for name in sessiontree.__all__},
    **vars(events),
    "Namespace": Namespace,
}
CODE: Final = re.compile(r"`([^`]+)`")
WRITTEN: Final = (
    *("format.md", "architecture.md"),
    *("guide/methods.md", "guide/mcp.md", "guide/large-content.md"),
)
"""The pages that define the names of keys and of the wire, which are tested there."""

EVENTS: Final = {str(event.__struct_config__.tag) for event in Event.__subclasses__()}


def rows(text: str) -> list[list[str]]:
    """The cells of each row of the tables in a text, without the heads."""
    lines = re.findall(r"^\| (.+) \|$", text, re.MULTILINE)
    return [line.split(" | ") for line in lines if not line.startswith("in the proposal |")]


def exists(name: str) -> bool:
    """True if a name on the page is one of a class, an attribute, a method, a command or a key."""
    command = re.fullmatch(r"sessiontree ([a-z-]+)", name)
    if command is not None:
        return main.get_command(click.Context(main), command[1]) is not None
    first, _, second = re.sub(r"^sessiontree/(\w+)/", r"\1.", name).partition(".")
    if first in OWN and (not second or second in OWN[first].methods):
        return True
    if first not in CLASSES:
        return name in KNOWN or name in EVENTS or is_written(name)
    return not second or second in members(CLASSES[first])


def members(owner: Any) -> set[str]:
    """The names of the methods, the properties and the fields of a class."""
    fields = msgspec.structs.fields(owner) if issubclass(owner, msgspec.Struct) else ()
    annotated = (each for base in owner.__mro__ for each in vars(base).get("__annotations__", ()))
    return {*dir(owner), *(field.name for field in fields), *annotated}


def is_written(name: str) -> bool:
    is_word = name.isidentifier()
    forms = (f"`{name}`", f'"{name}"') if is_word else (name,)
    return any(form in page for form in forms for page in _PAGES)


_PAGES: Final = [(DOCS / name).read_text(encoding="utf-8") for name in WRITTEN]


def test_each_name_of_sessiontree_on_the_page_exists() -> None:
    table = rows(NAMES)
    proposed = {name for theirs, *_ in table for name in CODE.findall(theirs)}
    used = [name for _, ours, why in table for name in CODE.findall(f"{ours} {why}")]
    assert [name for name in used if not exists(name) and name not in proposed] == []
    ours = [name for _, ours, _ in table for name in CODE.findall(ours)]
    assert [name for name in ours if not exists(name)] == []
    assert all(CODE.search(cell) for _, cell, _ in table)


def test_each_name_in_the_table_of_calls_exists() -> None:
    ours = [name for _, cell, _ in rows(CALLS) for name in CODE.findall(cell)]
    assert len(ours) > 12
    assert [name for name in ours if not exists(name)] == []


def test_the_page_has_the_names_of_the_proposals() -> None:
    proposed = {name for theirs, *_ in rows(NAMES) for name in CODE.findall(theirs)}
    assert len(proposed) >= 60


def test_a_name_that_does_not_exist_is_found() -> None:
    absent = (
        "Session.getEntry",
        "getEntry",
        "sessiontree pops",
        "node.create_external",
        "Sessions",
    )
    assert [name for name in absent if exists(name)] == []
