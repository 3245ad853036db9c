"""Commands that move the leaf: branch, switch, rewind, push, pop, compact."""

from __future__ import annotations

import click

from sessiontree.cli import arguments
from sessiontree.cli.opening import entry_at, writing
from sessiontree.cli.output import describe, out_json, out_written
from sessiontree.cli.summaries import GivenSummary, summary_options
from sessiontree.cli.terminal import out, short, tell
from sessiontree.context.compaction import KEEP_TOKENS
from sessiontree.context.summary import summarize

_FORK = "to copy a path into a new session file, use 'sessiontree fork FILE REF NEWFILE'"


@arguments.file_command(context_settings=arguments.TAKES_MORE)
@arguments.ref
@click.option("--name", metavar="NAME", help="A name for the new branch.")
@summary_options
@arguments.written_json
def branch(file: str, ref: str, name: str | None, given: GivenSummary, as_json: bool) -> None:
    """Go on from an entry, in the same file.

    The next entry goes below REF. The entries that are already below REF stay, as a
    branch of their own; a summary option adds a summary of what you leave. Give the
    header as REF to start again with an empty context. To copy the path into a new
    file, use 'fork'.
    """
    arguments.refuse_more(_FORK)
    with writing(file, hold=not given.is_slow) as session:
        target = entry_at(session, ref, _FORK)
        entry = session.branch(target, given.summary, name)
    out_written(entry, f"Branched at {describe(target)}", as_json=as_json)


@arguments.file_command()
@arguments.ref
@arguments.written_json
def switch(file: str, ref: str, as_json: bool) -> None:
    """Go to another branch or entry.

    The name of a branch leads to its last entry, any other REF to the entry itself.
    """
    with writing(file) as session:
        before = session.leaf
        target = session.entry(ref)
        entry = session.switch(target)
    if entry == before:
        done = f"Already at {describe(target)}; nothing was written"
    else:
        done = f"Switched to {describe(target)}"
    out_written(entry, done, as_json=as_json)


@arguments.file_command()
@arguments.optional_ref
@arguments.json("the text of the prompt and the new entry")
def rewind(file: str, ref: str | None, as_json: bool) -> None:
    """Go back to before a prompt, and print its text.

    You can edit the text and send it again. REF is the prompt [default: the last one].
    """
    with writing(file) as session:
        text = session.rewind(ref)
        entry = session.leaf
    tell(f"Rewound; the next entry goes below {short(entry.parent_uuid or '')}")
    if as_json:
        out_json({"text": text, "entry": dict(entry.body)})
    else:
        out(text)


@arguments.file_command()
@click.option("--note", metavar="TEXT", help="What the work that follows is about.")
@arguments.written_json
def push(file: str, note: str | None, as_json: bool) -> None:
    """Mark this place, for pop to return to."""
    with writing(file) as session:
        entry = session.push(note)
    out_written(entry, "Pushed; 'pop' returns here", as_json=as_json)


@arguments.file_command()
@arguments.optional_ref
@summary_options
@arguments.written_json
def pop(file: str, ref: str | None, given: GivenSummary, as_json: bool) -> None:
    """Go back up the path and leave a summary there.

    In the context, the summary replaces the entries that you leave. REF is an entry on
    the current path [default: the last push that was not popped, or else the nearest
    prompt with work after it]. Without a summary option, the built-in summarizer is used.
    """
    with writing(file, hold=not given.is_slow) as session:
        entry = session.pop(ref, given.summary or summarize)
        target = session.entry(entry.parent_uuid or "@")
    out_written(entry, f"Popped to {describe(target)}", as_json=as_json)


@arguments.file_command()
@click.option("--first-kept", metavar="REF", help="The first entry to keep as it is.")
@click.option(
    "--keep",
    type=click.IntRange(min=0),
    metavar="TOKENS",
    help=f"About how many tokens to keep [default: {KEEP_TOKENS:,}]; 0 keeps nothing.",
)
@summary_options
@arguments.written_json
def compact(
    file: str, first_kept: str | None, keep: int | None, given: GivenSummary, as_json: bool
) -> None:
    """Replace the older context with a summary.

    The entries stay in the file and in the tree. A context that is shorter than --keep
    is refused: '--keep 0' replaces all of it. Without a summary option, the built-in
    summarizer is used.
    """
    if first_kept is not None and keep is not None:
        raise click.UsageError("give --first-kept or --keep, not both")
    with writing(file, hold=not given.is_slow) as session:
        entry = session.compact(
            given.summary or summarize, first_kept, keep=KEEP_TOKENS if keep is None else keep
        )
        after = session.context().tokens
    before = f"{entry['tokensBefore']:,}"
    done = f"Compacted the context from about {before} tokens to about {after:,}"
    out_written(entry, done, as_json=as_json)
