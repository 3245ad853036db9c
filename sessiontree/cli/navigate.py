"""Commands that move the leaf: branching, switching, rewinding, the stack, compaction."""

from __future__ import annotations

import click

from sessiontree.cli.arguments import (
    file_argument,
    json_option,
    optional_ref_argument,
    ref_argument,
    written_json_option,
)
from sessiontree.cli.opening import writing
from sessiontree.cli.output import named, out_json, out_written
from sessiontree.cli.summaries import GivenSummary, summary_options
from sessiontree.cli.terminal import out, short, tell
from sessiontree.context.compaction import KEEP_TOKENS
from sessiontree.context.summary import summarize


@click.command(name="branch-here")
@file_argument
@ref_argument
@click.option("--name", metavar="NAME", help="A name for the new branch.")
@summary_options
@written_json_option
def branch_here(file: str, ref: str, name: str | None, given: GivenSummary, as_json: bool) -> None:
    """Go on from an entry, in the same file.

    Nothing is lost: what was below it stays, as a branch of its own. REF may be the
    header, to start over with an empty context.
    """
    with writing(file, hold=not given.is_slow) as session:
        target = session.entry(ref)
        entry = session.branch(target, given.summary, name)
    out_written(entry, f"Branched at {named(target)}", as_json=as_json)


@click.command()
@file_argument
@ref_argument
@written_json_option
def switch(file: str, ref: str, as_json: bool) -> None:
    """Go to another branch or entry.

    A branch name leads to the branch's tip, anything else to that very entry.
    """
    with writing(file) as session:
        before = session.leaf
        target = session.entry(ref)
        entry = session.switch(target)
    if entry == before:
        done = f"Already at {named(target)}; nothing was written"
    else:
        done = f"Switched to {named(target)}"
    out_written(entry, done, as_json=as_json)


@click.command()
@file_argument
@optional_ref_argument
@json_option("the prompt's text and the entry written")
def rewind(file: str, ref: str | None, as_json: bool) -> None:
    """Go to before a prompt, and print its text.

    Without REF before the last prompt. The text is there to be edited and sent again.
    """
    with writing(file) as session:
        text = session.rewind(ref)
        entry = session.leaf
    tell(f"Rewound; the next entry goes below {short(entry.parent_uuid or '')}")
    if as_json:
        out_json({"text": text, "entry": dict(entry.body)})
    else:
        out(text)


@click.command()
@file_argument
@click.option("--note", help="What the work ahead is about.")
@written_json_option
def push(file: str, note: str | None, as_json: bool) -> None:
    """Mark this place, to pop back to."""
    with writing(file) as session:
        entry = session.push(note)
    out_written(entry, "Pushed; 'pop' comes back here", as_json=as_json)


@click.command()
@file_argument
@optional_ref_argument
@summary_options
@written_json_option
def pop(file: str, ref: str | None, given: GivenSummary, as_json: bool) -> None:
    """Go back up the path, with a summary of what is left.

    Without REF, an entry on the current path, to the innermost open push, else to the
    nearest prompt with work after it. Without a summary option the built-in summarizer
    is used.
    """
    with writing(file, hold=not given.is_slow) as session:
        entry = session.pop(ref, given.summary or summarize)
        target = session.entry(entry.parent_uuid or "@")
    out_written(entry, f"Popped to {named(target)}", as_json=as_json)


@click.command()
@file_argument
@click.option("--first-kept", metavar="REF", help="The first entry to keep as it is.")
@click.option(
    "--keep",
    type=click.IntRange(min=0),
    metavar="TOKENS",
    help=f"About how many tokens to keep [default: {KEEP_TOKENS:,}]; 0 keeps nothing.",
)
@summary_options
@written_json_option
def compact(
    file: str, first_kept: str | None, keep: int | None, given: GivenSummary, as_json: bool
) -> None:
    """Put a summary in place of the older context.

    Give --first-kept or --keep, or neither. Without a summary option the built-in
    summarizer is used. The entries stay in the file and in the tree.
    """
    if first_kept is not None and keep is not None:
        raise click.UsageError("give --first-kept or --keep, not both")
    with writing(file, hold=not given.is_slow) as session:
        entry = session.compact(
            given.summary or summarize, first_kept, keep=KEEP_TOKENS if keep is None else keep
        )
        after = session.context().tokens
    done = f"Compacted: the context went from about {entry['tokensBefore']:,} tokens to {after:,}"
    out_written(entry, done, as_json=as_json)
