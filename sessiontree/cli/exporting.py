"""Commands that give a session to others: as a transcript, with secrets masked."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from sessiontree.cli.arguments import (
    PATH,
    file_argument,
    json_option,
    optional_ref_argument,
    root_option,
)
from sessiontree.cli.opening import reading
from sessiontree.cli.output import out_json
from sessiontree.cli.printing import out, tell
from sessiontree.core.display import one_line
from sessiontree.storage.atomic import create_file
from sessiontree.storage.fs import DISK

if TYPE_CHECKING:
    from sessiontree.redact.redaction import Redaction

Command = TypeVar("Command", bound=Callable[..., Any])

_MOST_PLACES: Final = 8


def _list_rules(ctx: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked:
        from sessiontree.redact.secrets import RULES  # which take a while to compile

        for rule in RULES:
            out(f"{rule.name:<18} {rule.what}")
        ctx.exit()


def redact_options(command: Command) -> Command:
    """The options that mask secrets; `redaction_asked` takes them."""
    for option in (
        click.option(
            "--list-rules",
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_list_rules,
            help="List the built-in rules and exit.",
        ),
        click.option(
            "--rules",
            metavar="TOML",
            type=PATH,
            help="With --redact: a file of more rules, a line each: name = 'regular expression'. "
            "A rule of a built-in's name takes its place.",
        ),
        click.option(
            "--redact", is_flag=True, help="Mask secrets; what, and where, is told at the end."
        ),
    ):
        command = option(command)
    return command


def redaction_asked(redact: bool, rules: str | None) -> Redaction | None:
    """What masks the secrets, where that is asked for."""
    if not redact:
        if rules is not None:
            raise click.UsageError("--rules is for --redact; give both")
        return None
    from sessiontree.redact.redaction import Redaction
    from sessiontree.redact.secrets import RULES, read_rules

    given = RULES if rules is None else read_rules(Path(rules).read_text(encoding="utf-8"), rules)
    return Redaction(given, homes=[os.path.expanduser("~")])


def tell_redaction(redaction: Redaction) -> None:
    """Tell what was masked and where, without a secret."""
    places: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    for (rule, entry), count in redaction.masked.items():
        counts[rule] = counts.get(rule, 0) + count
        places.setdefault(rule, []).append(_place(entry, count))
    for rule, count in counts.items():
        where = ", ".join(places[rule][:_MOST_PLACES])
        more = len(places[rule]) - _MOST_PLACES
        tell(f"Masked {rule}: {count:,}, in {where}" + (f" and {more:,} more" if more > 0 else ""))
    for entry, media_type, size in redaction.left_out:
        tell(f"Left out of {_place(entry, 1)}: {media_type}, {size:,} bytes, not searchable")
    if redaction.unsealed:
        where = ", ".join(_place(entry, 1) for entry in redaction.unsealed[:_MOST_PLACES])
        tell(f"Dropped the signatures of what was masked, in {len(redaction.unsealed):,}: {where}")
    if not (redaction.masked or redaction.left_out):
        tell("Nothing to mask was found")
    tell(
        "Look it over before you share it: what no rule describes, what is split over several "
        "blocks, and what is encoded is not found"
    )


def _place(entry: str, count: int) -> str:
    short = one_line(entry, 100)[:8]
    return short if count == 1 else f"{short} ({count:,} times)"


@click.command()
@file_argument
@optional_ref_argument
@click.option("--markdown", is_flag=True, help="As Markdown, which is the default.")
@click.option("-o", "--output", "outfile", metavar="OUT", type=PATH, help="Make this file of it.")
@redact_options
@root_option
@json_option("what was made and masked, with -o,")
def export(
    file: str,
    ref: str | None,
    markdown: bool,
    outfile: str | None,
    redact: bool,
    rules: str | None,
    root: str | None,
    as_json: bool,
) -> None:
    """Print a transcript for people to read.

    It is all that was said on the path to REF, by default to where the session stands,
    whatever a compaction took from the context since. To share the session itself, with
    secrets masked, use 'export-branch --redact'.
    """
    if as_json and outfile is None:
        raise click.UsageError(
            "--json tells what -o OUT made; for the conversation as JSON see 'context' and 'path'"
        )
    redaction = redaction_asked(redact, rules)
    with reading(file, root) as session:
        if outfile is None:
            for part in session.transcript(ref, redact=redaction):
                out(part.removesuffix("\n"))
        else:
            folder = os.path.dirname(os.path.abspath(outfile))
            parts = session.transcript(ref, redact=redaction, beside=folder)
            blocks = (part.encode("utf-8", "replace") for part in parts)
            create_file(DISK, outfile, blocks)
            tell(f"Exported {file} as Markdown into {outfile}")
            if as_json:
                report = None if redaction is None else redaction.report()
                out_json({"file": outfile, "redaction": report})
            else:
                out(outfile)
    if redaction is not None:
        tell_redaction(redaction)
