"""Commands for handles: which there are, and what one of them points to."""

from __future__ import annotations

import contextlib
import json
import sys

import click

from sessiontree.cli.arguments import PATH, json_option, root_option
from sessiontree.cli.opening import reading
from sessiontree.cli.output import out_json, out_json_list, out_message
from sessiontree.cli.terminal import out, tell, tell_each, told
from sessiontree.context.resolved import ResolvedHandle, output_text
from sessiontree.core.handle import Handle
from sessiontree.handles.registry import Registry, Scope
from sessiontree.handles.schema import HandleSchema


@click.group()
def handle() -> None:
    """Look up what handles point to.

    A handle is a pointer to content that is kept elsewhere:
    PLUGIN@VERSION::METHOD:META.

    \b
    Example:
      sessiontree handle schemas --json
      sessiontree handle resolve file@1.0.0::path:notes.md --root .
    """


@handle.command(short_help="List the handles that each plugin makes.")
@json_option("a list of the schemas")
def schemas(as_json: bool) -> None:
    """List the handles that each plugin makes, and what they resolve to.

    A plugin is a class with 'schemas' and 'resolve'. The package that has it names it
    in its pyproject.toml, and where that package is installed the plugin is known:

    \b
      [project.entry-points."sessiontree.handles"]
      notes = "my_package:Notes"
    """
    registry = Registry.default()
    found = registry.schemas()
    if as_json:
        out_json_list(schema.as_dict() for schema in found)
    else:
        for schema in found:
            _out_schema(schema)
    tell_each("Warning", [str(error) for error in registry.broken])


def _out_schema(schema: HandleSchema) -> None:
    out(f"{schema.name} → {schema.kind}")
    if schema.resolves_to:
        told = schema.resolves_to
        out(f"  {told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)}")
    for index, field in enumerate(schema.meta):
        facts = [
            f"meta[{index}]  {field.name}",
            f"prefix {field.prefix}" if field.prefix else "",
            field.form or (f"matches {field.pattern}" if field.pattern else ""),
            "" if field.required else "may be left out",
        ]
        out("  " + "  ".join(fact for fact in facts if fact))


@handle.command()
@click.argument("words", nargs=-1, required=True, metavar="HANDLE")
@click.option(
    "--session",
    metavar="FILE",
    type=PATH,
    help="The session that the handle stands in: its blobs, its folder.",
)
@root_option
@json_option("the handle, its kind and its data, bytes as base64,")
def resolve(words: tuple[str, ...], session: str | None, root: str | None, as_json: bool) -> None:
    """Print what a handle points to.

    Bytes are printed as they are, but not to a terminal. A HANDLE with a space or a ;
    in it stands in quotation marks.
    """
    if len(words) > 1:
        raise click.UsageError(f"give one HANDLE, in quotation marks: '{told(' '.join(words))}'")
    wanted = Handle.parse(words[0])
    with contextlib.ExitStack() as opened:
        stands_in = None if session is None else opened.enter_context(reading(session))
        scope = opened.enter_context(Scope(Registry.default(), stands_in, root))
        found = scope.resolve(wanted)
    out_json(found.as_dict()) if as_json else _out_resolved(found)


def _out_resolved(found: ResolvedHandle) -> None:
    if found.kind == "message":
        out_message(found.data)
    elif found.kind == "output":
        out(output_text(found.data))
    elif found.kind == "document":
        out(json.dumps(found.data, ensure_ascii=False, indent=2))
    else:
        _out_bytes(found)


def _out_bytes(found: ResolvedHandle) -> None:
    """Print bytes where something takes them in; a terminal would be driven by them."""
    if sys.stdout.isatty():
        tell(f"{len(found.data):,} bytes of {found.media_type}, not printed to a terminal")
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(found.data)
