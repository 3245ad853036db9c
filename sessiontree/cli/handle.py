"""The commands `handle schemas` and `handle resolve`."""

from __future__ import annotations

import contextlib
import sys

import click

from sessiontree.cli import arguments
from sessiontree.cli.arguments import PATH
from sessiontree.cli.opening import reading
from sessiontree.cli.output import for_people, out_json, out_json_list, out_message
from sessiontree.cli.terminal import as_line, is_terminal, out, tell, tell_each
from sessiontree.context.resolved import output_text
from sessiontree.core.handle import Handle
from sessiontree.handles.registry import Registry, Scope
from sessiontree.handles.schema import HandleSchema


@click.group()
def handle() -> None:
    """Resolve handles and list their schemas.

    A handle points to content that is stored elsewhere. Its form is
    PLUGIN@VERSION::METHOD:META.

    \b
    Example:
      sessiontree handle schemas --json
      sessiontree handle resolve file@1.0.0::path:notes.md --root .
    """


@handle.command(short_help="List the handles of each plugin.")
@arguments.json("a list of the schemas")
def schemas(as_json: bool) -> None:
    """List the handles of each plugin, and what they resolve to.

    A plugin is a class with 'schemas' and 'resolve'. An installed package provides it
    with an entry point in its pyproject.toml:

    \b
      [project.entry-points."sessiontree.handles"]
      notes = "my_package:Notes"
    """
    registry = Registry.default()
    found = registry.schemas()
    if as_json:
        out_json_list(found)
    else:
        for schema in found:
            _out_schema(schema)
    tell_each("Warning", [str(error) for error in registry.broken])


def _out_schema(schema: HandleSchema) -> None:
    out(f"{schema.name} → {schema.kind}")
    if schema.resolves_to:
        target = schema.resolves_to
        out(f"  {target if isinstance(target, str) else for_people(target)}")
    for index, field in enumerate(schema.meta):
        facts = [
            f"meta[{index}]  {field.name}",
            f"prefix {field.prefix}" if field.prefix else "",
            field.form or (f"matches {field.pattern}" if field.pattern else ""),
            "" if field.required else "optional",
        ]
        out("  " + "  ".join(fact for fact in facts if fact))


@handle.command()
@click.argument("words", nargs=-1, required=True, metavar="HANDLE")
@click.option(
    "--session",
    metavar="FILE",
    type=PATH,
    help="The session that has the handle, for its blobs and its folder.",
)
@arguments.root
@arguments.json("the handle, its kind and its data (bytes as base64)")
def resolve(words: tuple[str, ...], session: str | None, root: str | None, as_json: bool) -> None:
    """Print what a handle points to.

    Bytes are printed as they are, but not to a terminal. Put a HANDLE that contains a
    space or a semicolon in quotation marks.
    """
    if len(words) > 1:
        raise click.UsageError(f"give one HANDLE, in quotation marks: '{as_line(' '.join(words))}'")
    wanted = Handle.parse(words[0])
    with contextlib.ExitStack() as opened:
        owner = None if session is None else opened.enter_context(reading(session))
        scope = opened.enter_context(Scope(Registry.default(), owner, root))
        found = scope.resolve(wanted)
    if as_json:
        out_json(found)
    elif found.kind == "message":
        out_message(found.data)
    elif found.kind == "output":
        out(output_text(found.data))
    elif found.kind == "document":
        out(for_people(found.data, indent=2))
    elif is_terminal():  # which would obey the bytes
        tell(f"{len(found.data):,} bytes of {found.media_type}, not printed to a terminal")
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(found.data)
