"""Commands that copy: from another branch or file into this path, and into new files.

Commands that give a session to others: as a transcript, with secrets masked.

The command that converts: a session as a file of another program.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from sessiontree.cli.arguments import (
    PATH,
    SESSION_FILE,
    file_argument,
    json_option,
    new_file_argument,
    optional_ref_argument,
    ref_argument,
    root_option,
    written_json_option,
)
from sessiontree.cli.opening import reading, writing
from sessiontree.cli.output import named, out_json, out_written
from sessiontree.cli.summaries import GivenSummary, summary_options
from sessiontree.cli.terminal import finish, out, tell, told
from sessiontree.core.display import one_line
from sessiontree.core.entry import Entry
from sessiontree.errors import ContentLostWarning, RefError
from sessiontree.formats.writing import Loss
from sessiontree.operations.convert import TARGETS, convert, converted
from sessiontree.operations.export import Original
from sessiontree.session import Session
from sessiontree.storage.atomic import create_file
from sessiontree.storage.fs import DISK

if TYPE_CHECKING:
    from sessiontree.redact.redaction import Redaction


Command = TypeVar("Command", bound=Callable[..., Any])

_MOST_PLACES: Final = 8


def _list_rules(ctx: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked:
        from sessiontree.redact.rules import RULES  # which take a while to compile

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
    from sessiontree.redact.rules import RULES, read_rules

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
            for part in session.to_markdown(ref, redact=redaction):
                out(part.removesuffix("\n"))
        else:
            folder = os.path.dirname(os.path.abspath(outfile))
            parts = session.to_markdown(ref, redact=redaction, beside=folder)
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


@click.command(name="cherry-pick")
@file_argument
@ref_argument
@click.option(
    "--from", "other", metavar="OTHERFILE", type=SESSION_FILE, help="The session that REF is of."
)
@written_json_option
def cherry_pick(file: str, ref: str, other: str | None, as_json: bool) -> None:
    """Copy one entry below the leaf."""
    if other is None:
        with writing(file) as session:
            picked = session.entry(ref)
            entry = session.cherry_pick(picked)
    else:
        with reading(other) as source:
            picked = source.entry(ref)
            with writing(file) as session:
                entry = session.cherry_pick(picked)
    out_written(entry, f"Picked {named(picked)}", as_json=as_json)


@click.command()
@file_argument
@ref_argument
@summary_options
@written_json_option
def merge(file: str, ref: str, given: GivenSummary, as_json: bool) -> None:
    """Take another branch into this path.

    Its entries since the two parted count here from now on, or the summary of them.
    """
    with writing(file, hold=not given.is_slow) as session:
        merged = session.entry(ref)
        entry = session.merge(merged, given.summary)
    out_written(entry, f"Merged the branch up to {named(merged)}", as_json=as_json)


@click.command()
@file_argument
@click.argument("words", nargs=-1, required=True, metavar="[REF] NEWFILE")
@click.option("--at", metavar="REF", help="The same as REF.")
@json_option("the header of the new file as stored")
def fork(file: str, words: tuple[str, ...], at: str | None, as_json: bool) -> None:
    """Copy the path to an entry into a new file.

    REF is the last entry to copy, by default where the session stands. FILE is left
    as it is. Exits with 1 where content is missing in FILE, and so in the copy.
    """
    *refs, newfile = words
    if at is not None:
        refs.append(at)
    if len(refs) > 1:
        raise click.UsageError("give one REF and one NEWFILE: sessiontree fork FILE REF NEWFILE")
    with _failing_for_what_was_lost():
        with reading(file) as session:
            leaf = _source(session, refs[0] if refs else "@", newfile)
            stood_at = session.reader.standing(leaf)
            session.fork(newfile, leaf)
        _out_made(newfile, f"Forked at {named(stood_at)} into {newfile}", as_json=as_json)


@click.command(name="export-branch")
@file_argument
@ref_argument
@new_file_argument
@click.option("--with-path", is_flag=True, help="Copy the path from the header down to it too.")
@click.option("--inline", is_flag=True, help="Put blobs, and what handles point to, into the file.")
@redact_options
@root_option
@json_option("the header of the new file as stored, with --redact beside what was masked,")
def export_branch(
    file: str,
    ref: str,
    newfile: str,
    with_path: bool,
    inline: bool,
    redact: bool,
    rules: str | None,
    root: str | None,
    as_json: bool,
) -> None:
    """Copy a subtree into a new file.

    REF is its top entry. Scratch lanes below it that were never kept are left out,
    unless REF is on one. FILE is left as it is. Exits with 1 where content is missing
    in FILE, and so in the copy.
    """
    redaction = redaction_asked(redact, rules)
    with _failing_for_what_was_lost():
        with reading(file, root) as session:
            top = _source(session, ref, newfile)
            session.export_branch(
                top, newfile, with_path=with_path, inline=inline, redact=redaction
            )
        done = f"Exported {named(top)} and all below it into {newfile}"
        _out_made(newfile, done, as_json=as_json, redaction=redaction)


@contextlib.contextmanager
def _failing_for_what_was_lost() -> Iterator[None]:
    """Exit with 1 after all is done, where a copy lacks content as its original does."""
    lost = False

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        nonlocal lost
        lost = lost or issubclass(category, ContentLostWarning)
        shown(message, category, *where, **more)

    with warnings.catch_warnings():
        shown, warnings.showwarning = warnings.showwarning, show
        yield
    if lost:
        finish()
        click.get_current_context().exit(1)


def _source(session: Session, ref: str, newfile: str) -> Entry:
    """The entry to copy; where it and the new file changed places, that is said."""
    try:
        found = session.entry(ref)
    except RefError:
        with contextlib.suppress(RefError):
            session.entry(newfile)
            raise _swapped(newfile) from None
        raise
    if newfile.startswith("@"):
        raise _swapped(newfile)
    return found


def _swapped(newfile: str) -> click.UsageError:
    return click.UsageError(f"{told(newfile)!r} is a REF; NEWFILE comes last: FILE REF NEWFILE")


def _out_made(file: str, done: str, *, as_json: bool, redaction: Redaction | None = None) -> None:
    tell(done)
    if redaction is not None:
        tell_redaction(redaction)
    if not as_json:
        out(file)
        return
    with Session.open(file, readonly=True) as made:
        if redaction is None:
            out_json(made.header)
        else:
            out_json({"header": made.header.body, "redaction": redaction.report()})


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
        original = Original(session.cursor, session.handles, session.file, session.disk)
        if output == _PIPE:
            blocks, source = converted(original, to)
            _out_bytes(blocks)
            losses, warnings = source.losses.found(), source.warnings
        else:
            made = convert(original, to, output)
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
