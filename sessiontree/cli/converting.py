"""The command that converts: a session as a file of another program."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from sessiontree.cli.arguments import PATH, file_argument, json_option, root_option
from sessiontree.cli.opening import reading
from sessiontree.cli.output import out_json
from sessiontree.cli.printing import finish, out, tell
from sessiontree.formats.writing import Loss
from sessiontree.operations.convert import TARGETS, convert, converted

_PIPE = "-"


@click.command(name="convert")
@file_argument
@click.option("--to", required=True, type=click.Choice(TARGETS), help="The program to convert to.")
@click.option(
    "-o",
    "--output",
    metavar="NEWFILE",
    type=PATH,
    help="The file to make, or - for standard output  [default: named as the program would]",
)
@root_option
@json_option("the files made and what they do not say,")
def convert_command(
    file: str, to: str, output: str | None, root: str | None, as_json: bool
) -> None:
    """Make a file that another program opens.

    FILE is any session that can be opened, another agent's too, and is left as it is.
    For pi the whole tree is converted; for Claude Code the conversation of each branch,
    lanes as subagents; for ATIF the current path as it happened, for training. What the
    target cannot say is named.
    """
    if output == _PIPE and as_json:
        raise click.UsageError("-o - and --json both want standard output; give one of them")
    with reading(file, root) as session:
        if output == _PIPE:
            blocks, source = converted(session, to)
            _out_bytes(blocks)
            losses, warnings = source.losses.found(), source.warnings
        else:
            made = convert(session, to, output)
            losses, warnings = made.losses, made.warnings
            tell(f"Converted {file} to {to}: {made.file}")
            out_json(made.as_dict()) if as_json else out(made.file)
        _tell_lost(to, losses, warnings)


def _out_bytes(blocks: Iterator[bytes]) -> None:
    for block in blocks:
        sys.stdout.buffer.write(block)
    finish()


def _tell_lost(to: str, losses: list[Loss], warnings: list[str]) -> None:
    for loss in losses:
        tell(f"Not as it was in {to}: {loss}")
    for warning in warnings:
        tell(f"Warning: {warning}")
