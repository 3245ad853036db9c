"""Make the pages of `docs/reference/` from the commands' help and from the docstrings.

`python docs/make_reference.py` writes them; with `--check` it writes nothing and exits
with 1 when a page is not current.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import click

import sessiontree
from sessiontree import cli
from sessiontree.ops import OWN
from sessiontree.ops.operation import Method

FOLDER = Path(__file__).parent / "reference"
ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "sessiontree"
MADE = "<!-- Made by docs/make_reference.py: change the help or the docstrings, then run it. -->"


WIDTH = 92
HELP = ["-h", "--help"]

TYPES = """\
Names in the signatures:

| name | means |
|---|---|
| `PathLike` | a `str` or an `os.PathLike[str]` |
| `Ref` | a `str` (see [refs](../README.md#name-an-entry)) or an `Entry` |
| `Summary` | a text, or a function from the summarized entries to a text; see `AsyncSession` |
| `TokenCounter` | a callable that takes a message and returns its number of tokens |
| `Durability` | `"fsync"` or `"os"` (see [durability](../durability.md)) |
| `Resolution` | the result of resolving a handle: a `ResolvedHandle` or an error |
| `Progress` | a callable that takes the number of bytes done and the total number of bytes |"""


METHODS = """\
`sessiontree call NAMESPACE.METHOD` calls these methods ([methods by name](../guide/methods.md)).
`sessiontree call --schema` prints their JSON schemas, with the types that this page names only."""

MODULES = """\
The rooms from top to bottom, as `pyproject.toml` orders them: a room imports only rooms below it.
[Architecture](../architecture.md) explains them."""

EFFECTS = {
    "read": "*{}. It changes nothing.*",
    "write": "*{}. It changes sessions or makes files.*",
    "destroy": "*{}. It removes something for good.*",
}


def commands_page() -> str:
    """The page of the commands."""
    top = click.Context(
        cli.main, info_name="sessiontree", terminal_width=WIDTH, help_option_names=HELP
    )
    parts = [MADE, "# Commands", _block(top.get_help())]
    for title, commands in cli.SECTIONS.items():
        parts.append(f"## {title}")
        for name in commands:
            command = cli.main.get_command(top, name)
            assert command is not None
            parts += _of_command(click.Context(command, top, name), name, "###")
    return "\n\n".join(parts) + "\n"


def _of_command(context: click.Context, name: str, level: str) -> Iterator[str]:
    yield f"{level} {name}"
    yield _block(context.get_help())
    if isinstance(context.command, click.Group):
        for below, command in context.command.commands.items():
            yield from _of_command(
                click.Context(command, context, below), f"{name} {below}", level + "#"
            )


def _block(text: str) -> str:
    lines = "\n".join(line.rstrip() for line in text.splitlines())
    return f"```text\n{lines}\n```"


def python_page() -> str:
    """The page of the Python names."""
    named = [(name, getattr(sessiontree, name)) for name in sessiontree.__all__]
    classes = [(name, value) for name, value in named if not _is_error(value)]
    errors = [(name, value) for name, value in named if _is_error(value)]
    parts = [MADE, "# Python", TYPES]
    for name, value in sorted(classes, key=lambda pair: (pair[0] != "Session", pair[0] != "Store")):
        parts += _of_name(name, value)

    parts += ["## Errors and warnings"]
    for name, value in errors:
        bases = ", ".join(base.__name__ for base in value.__bases__)
        parts += [f"### {name}({bases})", *_text(value)]
    return "\n\n".join(parts) + "\n"


def _is_error(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


def _of_name(name: str, value: Any) -> Iterator[str]:
    yield f"## {name}"
    if not isinstance(value, type):
        yield _code(name, value)
        yield from _text(value)
        return
    if _is_made_by_callers(value):
        yield _code(name.rpartition(".")[2], value)
    yield from _text(value)
    if rows := list(_attributes(value)):
        yield "**Attributes**"
        yield "\n".join(rows)
    members = [(name, inspect.getattr_static(owner, name)) for name, owner in _members(value)]
    plain = {sessiontree.AsyncSession: "Session", sessiontree.AsyncStore: "Store"}.get(value)
    if plain is not None:
        yield from _same_words(plain, [pair for pair in members if _is_taken_over(pair[1])])
        members = [pair for pair in members if not _is_taken_over(pair[1])]
    for name, member in members:
        yield from _of_member(name, member)


def _attributes(value: type) -> Iterator[str]:
    """The public attributes of a class and of its bases that have a comment: on, or above, them."""
    if value.__base__ is not None and value.__base__.__module__.startswith("sessiontree"):
        yield from _attributes(value.__base__)
    lines = textwrap.dedent(inspect.getsource(value)).split("\n")
    (made,) = ast.parse("\n".join(lines)).body
    assert isinstance(made, ast.ClassDef)
    starts = [n.body for n in made.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
    for node in chain(made.body, *starts):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        name = ast.unparse(targets[0]).removeprefix("self.") if targets[0] is not None else "_"
        text = lines[node.lineno - 1].partition("  # ")[2]
        above = node.lineno - 1
        while not text and lines[above - 1].lstrip().startswith("# "):
            above -= 1
        text = text or " ".join(line.lstrip("# ") for line in lines[above : node.lineno - 1])
        if name.isidentifier() and not name.startswith("_") and text:
            yield f"- `{name}`: {text}."


def _is_taken_over(member: Any) -> bool:
    """Whether a method is the one of another class, awaited."""
    return hasattr(member, "__wrapped__")


def _same_words(plain: str, members: list[tuple[str, Any]]) -> Iterator[str]:
    """The methods that are described at the class that they are taken from, by their use."""
    uses: dict[str, list[str]] = {}
    for name, member in members:
        uses.setdefault(_use_of(member), []).append(f"`{name}`")
    rows = "\n".join(f"| {use} | {', '.join(names)} |" for use, names in uses.items())
    yield f"The methods in this table have the arguments, results and errors of `{plain}`."
    yield f"| use | methods |\n|---|---|\n{rows}"


def _use_of(member: Any) -> str:
    result = str(inspect.signature(member).return_annotation)
    if inspect.iscoroutinefunction(member):
        return "`await`"
    if result in ("Self", "Session"):
        return "`await`, or `async with`: an `AsyncSession`"
    return "`async with`" if result == "MessageStream" else "`async for`"


def _is_made_by_callers(value: type) -> bool:
    """Whether a class's constructor has arguments that a caller gives."""
    by_methods = (sessiontree.Session, sessiontree.AsyncSession)
    if getattr(value, "_is_protocol", False) or value in by_methods:
        return False
    return "Args:" in (value.__doc__ or "") or value in (sessiontree.Handle, sessiontree.MetaField)


def _members(value: type) -> list[tuple[str, type]]:
    """The public methods and properties of a class, in the order of its source."""
    found: dict[str, type] = {}
    for owner in reversed(value.__mro__):
        if owner.__module__.startswith("sessiontree"):
            for name, member in vars(owner).items():
                if not name.startswith("_") and (member.__doc__ or name not in found):
                    found[name] = owner
    return [(name, owner) for name, owner in found.items() if _is_member(owner, name)]


def _is_member(owner: type, name: str) -> bool:
    member = inspect.getattr_static(owner, name)
    return isinstance(member, property | classmethod | staticmethod) or inspect.isfunction(member)


def _of_member(name: str, member: Any) -> Iterator[str]:
    yield f"### {name}"
    if isinstance(member, property):
        assert member.fget is not None
        result = member.fget.__annotations__.get("return", "Any")
        yield f"```python\n{name}: {result}\n```"
        yield from _text(member.fget)
        return
    function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
    mark = "@classmethod\n" if isinstance(member, classmethod) else ""
    yield _code(name, function, mark)
    yield from _text(function)


def _code(name: str, value: Callable[..., Any], mark: str = "") -> str:
    signature = inspect.signature(value)
    given = [one for one in signature.parameters.values() if one.name not in ("self", "cls")]
    result = "" if isinstance(value, type) else _result(signature)
    line = f"{name}({', '.join(_arguments(given))}){result}"
    if len(line) > WIDTH:
        rows = "".join(f"    {argument},\n" for argument in _arguments(given))
        line = f"{name}(\n{rows}){result}"
    return f"```python\n{mark}{line}\n```"


def _arguments(given: list[inspect.Parameter]) -> Iterator[str]:
    keyword_only = False
    for one in given:
        if one.kind is one.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            yield "*"
        stars = "*" if one.kind is one.VAR_POSITIONAL else ""
        stars = "**" if one.kind is one.VAR_KEYWORD else stars
        keyword_only = keyword_only or stars == "*"
        typed = "" if one.annotation is one.empty else f": {_type(one.annotation)}"
        default = "" if one.default is one.empty else f" = {_value(one.default)}"
        yield f"{stars}{one.name}{typed}{default}"


def _result(signature: inspect.Signature) -> str:
    return (
        ""
        if signature.return_annotation is signature.empty
        else (f" -> {_type(signature.return_annotation)}")
    )


def _type(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:sessiontree\.[\w.]+\.|builtins\.)(\w+)", r"\1", text)


def _value(default: Any) -> str:
    return repr(default) if isinstance(default, str | int | float | tuple | None) else "…"


def _text(value: Any) -> Iterator[str]:
    """A docstring as Markdown: paragraphs, and Google's sections as lists."""
    text = inspect.cleandoc(value.__doc__ or "")
    for part in re.split(r"\n\n+", text):
        title, _, rest = part.partition("\n")
        if re.fullmatch(r"[A-Z]\w+:", title):
            yield f"**{title[:-1]}**"
            yield _list(textwrap.dedent(rest))
        elif part:
            yield part


def _list(text: str) -> str:
    items = re.split(r"\n(?=\S)", text)
    return "\n".join(_item(re.sub(r"\s*\n\s+", " ", item)) for item in items)


def _item(text: str) -> str:
    name, colon, rest = text.partition(":")
    if colon and re.fullmatch(r"[\w*.]+(?:, [\w*.]+)*", name):
        return f"- `{name}`: {rest.strip()}"
    return f"- {text}"


def methods_page() -> str:
    """The page of the methods that are called by name."""
    parts = [MADE, "# Methods", METHODS]
    for namespace in OWN.values():
        parts += [f"## {namespace.name}", namespace.description]
        for method in namespace.methods.values():
            parts += _of_method(method)
    return "\n\n".join(parts) + "\n"


def _of_method(method: Method) -> Iterator[str]:
    yield f"### {method.full_name}"
    yield EFFECTS[method.effect].format(method.title)
    yield method.description
    needed = method.params_schema["required"]
    yield from _fields("Parameters", method.params_schema, needed)
    yield from _fields("Result", method.result_schema, ())


def _fields(title: str, schema: dict[str, Any], needed: Sequence[str]) -> Iterator[str]:
    """The fields of a schema as a list, those that are needed first."""
    found = schema.get("properties", {})
    names = sorted(found, key=lambda name: name not in needed)
    rows = (_field(name, found[name], name in needed) for name in names)
    if found:
        yield f"**{title}**"
        yield "\n".join(rows)


def _field(name: str, schema: dict[str, Any], is_needed: bool) -> str:
    default = schema.get("default")
    more = ", required" if is_needed else ""
    if default not in (None, [], False):
        more = f", by default `{json.dumps(default)}`"
    return f"- `{name}` ({_kind(schema)}{more}): {schema.get('description', '')}".rstrip(": ")


def _kind(schema: dict[str, Any]) -> str:
    """The type of a value, in words."""
    if "anyOf" in schema:
        kinds = [_kind(each) for each in schema["anyOf"] if each.get("type") != "null"]
        return " or ".join(kinds)
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "any value"))


def modules_page() -> str:
    """Return the page of the rooms and their modules, from the first lines of their docstrings."""
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    order = layers["tool"]["importlinter"]["contracts"][0]["layers"]
    rooms = [room.strip() for layer in order for room in layer.split("|")]
    text = f"# The rooms and their modules\n\n{MADE}\n\n{MODULES}\n"
    for room in rooms:
        folder = PACKAGE / room
        if not folder.is_dir():
            text += f"\n## {room}.py\n\n{_first_line(folder.with_suffix('.py'))}\n"
            continue
        text += f"\n## {room}/\n\n{_first_line(folder / '__init__.py')}\n\n"
        for file in sorted(folder.rglob("*.py")):
            name = file.relative_to(folder).as_posix()
            if name != "__init__.py":
                text += f"- `{name}`: {_first_line(file)}\n"
    return text


def _first_line(file: Path) -> str:
    doc = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(doc.partition("\n\n")[0].split())


PAGES = {
    "commands.md": commands_page,
    "python.md": python_page,
    "methods.md": methods_page,
    "modules.md": modules_page,
}


def update(folder: Path, pages: Mapping[str, Callable[[], str]], script: str) -> None:
    """Write the pages that are not current, or with `--check` fail if there are any."""
    check = "--check" in sys.argv[1:]
    made = {folder / name: page() for name, page in pages.items()}
    old = [file for file, text in made.items() if _is_old(file, text)]
    for file in old:
        print(f"{file.name} is not current" + (f"; run python {script}" if check else ""))
        if not check:
            file.write_text(made[file], encoding="utf-8")
    sys.exit(1 if check and old else 0)


def _is_old(file: Path, made: str) -> bool:
    return not file.exists() or file.read_text(encoding="utf-8") != made


if __name__ == "__main__":
    update(FOLDER, PAGES, "docs/make_reference.py")
