"""Commands that copy: from another branch or file into this path, and into new files."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from sessiontree.cli.arguments import (
    SESSION_FILE,
    file_argument,
    json_option,
    new_file_argument,
    ref_argument,
    root_option,
    written_json_option,
)
from sessiontree.cli.exporting import redact_options, redaction_asked, tell_redaction
from sessiontree.cli.opening import reading, writing
from sessiontree.cli.output import named, out_json, out_written
from sessiontree.cli.printing import finish, out, tell, told
from sessiontree.cli.summaries import GivenSummary, summary_options
from sessiontree.core.entry import Entry
from sessiontree.errors import ContentLostWarning, RefError
from sessiontree.session import Session

if TYPE_CHECKING:
    from sessiontree.redact.redaction import Redaction


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
            stood_at = session._standing(leaf)
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
            session.export(top, newfile, with_path=with_path, inline=inline, redact=redaction)
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
