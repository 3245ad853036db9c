"""The rooms of the package: imports point down, make no circle, and objects keep their privacy.

`pyproject.toml` has the layers as contracts; `lint-imports` checks those.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final, NamedTuple

import sessiontree
from sessiontree import Session
from tests.support.table import for_each

PACKAGE: Final = Path(sessiontree.__file__).parent

FLOORS: Final = (
    *(
        "cli",
        "adapters",
        "mcp",
        "tui",
        "web",
        "calls",
        "ops",
        "__init__",
        "aio",
        "store",
    ),
    *("importing", "library", "session", "page", "recording", "operations", "history", "views"),
    *("handles", "engine", "storage", "agents", "text", "context", "edits", "redact", "core"),
    "errors",
)
"""The rooms, each above those that it may import."""

PURE: Final = ("core", "redact", "edits", "context", "text", "agents")
"""Rooms that read and write nothing."""

IO_MODULES: Final = {
    *("os", "pathlib", "shutil", "tempfile", "socket", "subprocess", "threading", "mmap"),
    *("watchfiles", "filelock", "fcntl"),
}

PATH_ONLY: Final = {"os.path", "os.fspath", "os.PathLike", "os.sep", "os.fsencode", "os.fsdecode"}
"""What a pure room may take from `os`: names of files, not files."""

NAMED_TUPLE: Final = {"_replace", "_asdict", "_fields", "_make"}
"""The public methods of a named tuple."""

LOOSE: Final = {"__init__", "__main__", "errors", "session", "store"}
"""The modules that may stand at the top of the package."""


class Import(NamedTuple):
    """One import of a module of the package by another; `kind` is top, late or type."""

    importer: str
    imported: str
    kind: str
    line: int


def modules() -> dict[str, Path]:
    """The modules of the package by their names, without the package's own."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)] = path
    return found


MODULES: Final = modules()


@cache
def nodes(name: str) -> list[ast.AST]:
    """A module and everything in it, outer nodes first."""
    return list(ast.walk(ast.parse(MODULES[name].read_bytes())))


@cache
def imports() -> list[Import]:
    """The imports of modules of the package by others, but those for types."""
    return [found for found in _all_imports() if found.kind != "type"]


def _all_imports() -> Iterator[Import]:
    """Every import of a module of the package by another, late ones and those for types too."""
    for name in MODULES:
        for_types = {
            id(node)
            for test in nodes(name)
            if isinstance(test, ast.If)
            and isinstance(test.test, ast.Name)
            and test.test.id == "TYPE_CHECKING"
            for statement in test.body
            for node in ast.walk(statement)
        }
        top = {id(node) for node in ast.iter_child_nodes(nodes(name)[0])}
        for node in nodes(name):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(
                "sessiontree"
            ):
                continue
            kind = "type" if id(node) in for_types else "top" if id(node) in top else "late"
            base = (node.module or "").removeprefix("sessiontree").removeprefix(".")
            for alias in node.names:
                whole = f"{base}.{alias.name}".removeprefix(".")
                imported = whole if whole in MODULES else base or "__init__"
                yield Import(name, imported, kind, node.lineno)


def room(module: str) -> str:
    return module.split(".")[0]


def test_every_module_is_in_a_room() -> None:
    rooms = {room(name) for name in MODULES}
    assert rooms - {"__main__"} == set(FLOORS)
    assert {name for name, path in MODULES.items() if path.parent == PACKAGE} <= LOOSE


def test_imports_point_down() -> None:
    up = [
        found
        for found in imports()
        if found.importer != "__main__"
        and FLOORS.index(room(found.importer)) > FLOORS.index(room(found.imported))
    ]
    assert not up


def test_imports_make_no_circle() -> None:
    """Late imports count: a circle that is closed when a function runs is a circle."""
    graph: dict[str, set[str]] = {name: set() for name in MODULES}
    for found in imports():
        if found.importer != found.imported:
            graph[found.importer].add(found.imported)
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_pure_rooms_do_no_input_or_output() -> None:
    found = []
    for name in MODULES:
        if room(name) not in PURE:
            continue
        for node in nodes(name):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if node.value.id == "os" and f"os.{node.attr}" not in PATH_ONLY:
                    found.append(f"{name}:{node.lineno}: os.{node.attr}")
                continue
            else:
                continue
            found += [
                f"{name}:{node.lineno}: {module}"
                for module in names
                if module.split(".")[0] in IO_MODULES - {"os"}
            ]
    assert not found


def test_the_engine_knows_no_path_and_no_lock_file() -> None:
    """What an engine module reads and writes is a `Log`, whatever that is."""
    names = {"FileLog", "WriterLock", "create_file", "replace_file", "swap_file", "DISK"}
    found = [
        f"{name}:{node.lineno}: {node.id}"
        for name in MODULES
        if room(name) == "engine" and name not in FILES_BESIDE
        for node in nodes(name)
        if isinstance(node, ast.Name) and node.id in names
    ]
    assert not found


FILES_BESIDE: Final = {"engine.translated"}
"""Another agent's session is several files; this module opens those beside the first."""


def private_names(module: str) -> set[str]:
    """The private names that a module defines: of itself, its classes and their objects."""
    names = set()
    for node in nodes(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        ):
            names.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)  # in __slots__
    return {name for name in names if name.startswith("_")}


@for_each("name", [n for n in MODULES if n != "session" and room(n) != "engine"])
def test_no_private_name_of_another_module_is_touched(name: str) -> None:
    own = private_names(name)
    found = []
    for node in nodes(name):
        if isinstance(node, ast.Attribute):
            is_private = node.attr.startswith("_") and not node.attr.endswith("__")
            of_self = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", "os")
            if is_private and not of_self and node.attr not in own | NAMED_TUPLE:
                found.append(f"{node.lineno}: {ast.unparse(node)}")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sessiontree"):
            found += [
                f"{node.lineno}: {alias.name}"
                for alias in node.names
                if alias.name.startswith("_") and not alias.name.endswith("__")
            ]
    assert not found


def test_a_session_is_one_class() -> None:
    assert Session.__mro__ == (Session, object)


def test_no_two_classes_have_one_name() -> None:
    classes = [
        (node.name, name)
        for name in MODULES
        for node in nodes(name)
        if isinstance(node, ast.ClassDef)
    ]
    twice = {name for name, count in Counter(name for name, _ in classes).items() if count > 1}
    assert [each for each in classes if each[0] in twice] == []
