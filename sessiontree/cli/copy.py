"""Commands that combine and copy: into this path, into new sessions, into other formats."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from sessiontree.cli import arguments
from sessiontree.cli.arguments import PATH, SESSION_FILE
from sessiontree.cli.opening import entry_at, reading, writing
from sessiontree.cli.output import describe, out_json, out_written
from sessiontree.cli.summaries import GivenSummary, summary_options
from sessiontree.cli.terminal import as_line, counted, finish, out, short, tell
from sessiontree.core.entry import Entry
from sessiontree.errors import RefError
from sessiontree.operations.convert import TARGETS, converted
from sessiontree.operations.export import Original
from sessiontree.session import Session
from sessiontree.storage.atomic import create_file
from sessiontree.storage.fs import DISK

if TYPE_CHECKING:
    from sessiontree.redact.redaction import Redaction

_MOST_PLACES: Final = 8
_PIPE: Final = "-"
_FORMATS: Final = click.Choice(["markdown"])
_EXPORT_BRANCH: Final = (
    "to copy a subtree into a new session file, use 'sessiontree export-branch FILE REF NEWFILE'; "
    "to write the transcript to a file, use '-o OUT'"
)


def _redact_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that mask secrets; the command gets them as `redaction`."""

    @click.option("--redact", is_flag=True, help="Mask secrets, and report which and where.")
    @click.option(
        "--rules",
        metavar="TOML",
        type=PATH,
        help="With --redact: a file with more rules, one a line: name = 'regular expression'. "
        "A rule with the name of a built-in rule replaces it.",
    )
    @click.option(
        "--list-rules",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_list_rules,
        help="List the built-in rules and exit.",
    )
    @functools.wraps(command)
    def with_redaction(redact: bool, rules: str | None, **others: Any) -> None:
        if rules is not None and not redact:
            raise click.UsageError("--rules needs --redact")
        redaction = None
        if redact:
            from sessiontree.redact.redaction import Redaction  # slow: it compiles all rules
            from sessiontree.redact.rules import RULES, read_rules

            given = RULES if rules is None else read_rules(Path(rules).read_text("utf-8"), rules)
            redaction = Redaction(given, homes=[os.path.expanduser("~")])
        command(redaction=redaction, **others)
        if redaction is not None:
            _tell_redaction(redaction)

    return with_redaction


def _list_rules(ctx: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked:
        from sessiontree.redact.rules import RULES  # slow: it compiles all rules

        for rule in RULES:
            out(f"{rule.name:<18} {rule.what}")
        ctx.exit()


def _tell_redaction(redaction: Redaction) -> None:
    """Report what was masked and where, without any secret."""
    places: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    for (rule, entry), count in redaction.masked.items():
        counts[rule] = counts.get(rule, 0) + count
        times = f" ({count:,} times)" if count > 1 else ""
        places.setdefault(rule, []).append(short(entry) + times)
    for rule, count in counts.items():
        where = ", ".join(places[rule][:_MOST_PLACES])
        more = len(places[rule]) - _MOST_PLACES
        tell(f"Masked {rule}: {count:,}, in {where}" + (f" and {more:,} more" if more > 0 else ""))
    for entry, media_type, size in redaction.left_out:
        tell(f"Left out of {short(entry)}: {media_type}, {size:,} bytes that are not text")
    if redaction.unsealed:
        where = ", ".join(map(short, redaction.unsealed[:_MOST_PLACES]))
        total = counted(len(redaction.unsealed), "masked entry", "masked entries")
        tell(f"Removed the signatures of {total}: {where}")
    if not (redaction.masked or redaction.left_out):
        tell("No secrets were found")
    tell(
        "Check the result before you share it: secrets that no rule matches, that are split "
        "over several blocks, or that are encoded are not found"
    )


@arguments.file_command(context_settings=arguments.TAKES_MORE)
@arguments.optional_ref
@click.option(
    "--format", "to", type=_FORMATS, default="markdown", show_default=True, help="The format."
)
@click.option("--markdown", "to", flag_value="markdown", help="The same as --format markdown.")
@click.option("-o", "--output", "outfile", metavar="OUT", type=PATH, help="Write it to this file.")
@_redact_options
@arguments.root
@arguments.json("the path of the new file, and what --redact masked; needs -o")
def export(
    file: str,
    ref: str | None,
    to: str,
    outfile: str | None,
    redaction: Redaction | None,
    root: str | None,
    as_json: bool,
) -> None:
    """Print a transcript for people to read.

    The transcript has every message on the path to REF [default: the current leaf], also
    those that a compaction replaced in the context. To share the session itself with its
    secrets masked, use 'export-branch --redact'.
    """
    arguments.refuse_more(_EXPORT_BRANCH)
    if as_json and outfile is None:
        raise click.UsageError(
            "--json needs -o OUT; for the conversation as JSON, use 'context' or 'path'"
        )
    with reading(file, root) as session:
        end = None if ref is None else entry_at(session, ref, _EXPORT_BRANCH)
        if outfile is None:
            for part in session.to_markdown(end, redact=redaction):
                out(part.removesuffix("\n"))
            return
        folder = os.path.dirname(os.path.abspath(outfile))
        parts = session.to_markdown(end, redact=redaction, beside=folder)
        create_file(DISK, outfile, (part.encode("utf-8", "replace") for part in parts))
    tell(f"Exported {file} as {to} to {outfile}")
    report = None if redaction is None else redaction.report()
    out_json({"file": outfile, "redaction": report}) if as_json else out(outfile)


@arguments.file_command("cherry-pick")
@arguments.ref
@click.option(
    "--from", "other", metavar="OTHERFILE", type=SESSION_FILE, help="Take REF from this session."
)
@arguments.written_json
def cherry_pick(file: str, ref: str, other: str | None, as_json: bool) -> None:
    """Copy one entry below the leaf."""
    with contextlib.ExitStack() as opened:
        source = None if other is None else opened.enter_context(reading(other))
        picked = None if source is None else source.entry(ref)
        session = opened.enter_context(writing(file))
        picked = picked or session.entry(ref)
        entry = session.cherry_pick(picked)
    out_written(entry, f"Picked {describe(picked)}", as_json=as_json)


@arguments.file_command()
@arguments.ref
@summary_options
@arguments.written_json
def merge(file: str, ref: str, given: GivenSummary, as_json: bool) -> None:
    """Add the content of another branch to this path.

    From now on, this context also has the entries of the branch up to REF, from the point
    where the two branches separate. A summary option adds their summary instead.
    """
    with writing(file, hold=not given.is_slow) as session:
        merged = session.entry(ref)
        entry = session.merge(merged, given.summary)
    out_written(entry, f"Merged the branch up to {describe(merged)}", as_json=as_json)


@arguments.file_command()
@click.argument("words", nargs=-1, required=True, metavar="[REF] NEWFILE")
@click.option("--at", metavar="REF", help="The same as REF.")
@arguments.json("the header of the new file")
def fork(file: str, words: tuple[str, ...], at: str | None, as_json: bool) -> None:
    """Copy the path to an entry into a new session file.

    REF is the last entry to copy [default: the current leaf]. FILE does not change. The
    exit code is 1 if FILE has lost content that the copy then lacks too.
    """
    *refs, newfile = words
    refs += [] if at is None else [at]
    if len(refs) > 1:
        raise click.UsageError("give one REF and one NEWFILE: sessiontree fork FILE REF NEWFILE")
    with reading(file) as session:
        leaf = _source(session, refs[0] if refs else "@", newfile)
        last = session.reader.skip_markers(leaf)
        session.fork(newfile, leaf)
    tell(f"Forked at {describe(last)} into {newfile}")
    out_json(_header(newfile)) if as_json else out(newfile)


@arguments.file_command("export-branch")
@arguments.ref
@click.argument("newfile", type=PATH)
@click.option("--with-path", is_flag=True, help="Copy the path from the header to REF too.")
@click.option("--inline", is_flag=True, help="Store the content of blobs and handles in the file.")
@_redact_options
@arguments.root
@arguments.json("the header of the new file, and what --redact masked")
def export_branch(
    file: str,
    ref: str,
    newfile: str,
    redaction: Redaction | None,
    root: str | None,
    as_json: bool,
    **how: bool,
) -> None:
    """Copy a subtree into a new session file.

    REF is the top entry of the subtree. Scratch lanes below it that were not kept are
    left out, unless REF is on one. FILE does not change. The exit code is 1 if FILE has
    lost content that the copy then lacks too.
    """
    with reading(file, root) as session:
        top = _source(session, ref, newfile)
        session.export_branch(top, newfile, redact=redaction, **how)
    tell(f"Exported {describe(top)} and all below it into {newfile}")
    if not as_json:
        out(newfile)
    elif redaction is None:
        out_json(_header(newfile))
    else:
        out_json({"header": _header(newfile).body, "redaction": redaction.report()})


def _source(session: Session, ref: str, newfile: str) -> Entry:
    """The entry to copy; a NEWFILE that names an entry is refused unless it is a path."""
    if newfile.startswith("@") or (not arguments.is_path(newfile) and _is_ref(session, newfile)):
        raise click.UsageError(
            f"{as_line(newfile)!r} is a REF; NEWFILE comes last: FILE REF NEWFILE; for a new file "
            "of that name give its path with its folder, such as ./NEWFILE"
        )
    return session.entry(ref)


def _is_ref(session: Session, word: str) -> bool:
    with contextlib.suppress(RefError):
        return bool(session.entry(word))
    return False


def _header(file: str) -> Entry:
    with Session.open(file, readonly=True) as made:
        return made.header


@arguments.file_command("convert")
@click.option("--to", required=True, type=click.Choice(TARGETS), help="The format of the new file.")
@click.option(
    "-o",
    "--output",
    metavar="NEWFILE",
    type=PATH,
    help="The new file, or - for standard output [default: the name that the program would give]",
)
@arguments.root
@arguments.json("the new files and what they could not keep")
def convert_command(
    file: str, to: Any, output: str | None, root: str | None, as_json: bool
) -> None:
    """Write a file that another program can open.

    FILE is any session, also one of another agent; it does not change. For pi, the whole
    tree is converted; for Claude Code, the conversation of each branch, with lanes as
    subagents; for ATIF, a format for training, the current path as it happened. The
    command reports what the other format cannot keep.
    """
    if output == _PIPE and as_json:
        raise click.UsageError("'-o -' and --json both write to standard output; give one of them")
    with reading(file, root) as session:
        if output == _PIPE:
            original = Original(session.cursor, session.handles, session.file, session.disk)
            blocks, source = converted(original, to)
            for block in blocks:
                sys.stdout.buffer.write(block)
            finish()
            losses, warnings = source.losses.found(), source.warnings
        else:
            made = session.convert(to, output)
            losses, warnings = made.losses, made.warnings
            tell(f"Converted {file} to {to}: {made.file}")
            out_json(made) if as_json else out(made.file)
        for loss in losses:
            tell(f"Not kept in {to}: {loss}")
        for warning in warnings:
            tell(f"Warning: {warning}")
