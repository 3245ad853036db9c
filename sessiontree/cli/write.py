"""Commands that write entries: at the leaf, to move the leaf, or from another branch.

`new` creates a session. Each of the others opens a session and writes one entry.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from sessiontree.cli import arguments
from sessiontree.cli.arguments import PATH, PLACE, SESSION_FILE
from sessiontree.cli.opening import OnLane, entry_at, lane_note, lane_options, reading, writing
from sessiontree.cli.output import describe, out_json, out_written, speaker
from sessiontree.cli.terminal import as_line, counted, out, short, tell
from sessiontree.context.compaction import KEEP_TOKENS, Summary, summarize
from sessiontree.core.entry import Entry
from sessiontree.core.message import check_new_message
from sessiontree.errors import EntryError, UsageError
from sessiontree.library.root import STORE_VARIABLE, environment, named_store
from sessiontree.operations import moves
from sessiontree.session import Session

_FORK: Final = "to copy a path into a new session file, use 'sessiontree fork FILE REF NEWFILE'"


@arguments.command("new", json=arguments.WRITTEN)
@click.argument("file", type=PLACE, required=False)
@arguments.own_store()
@click.option("--name", metavar="NAME", help="A name for the session.")
@arguments.path_option(
    "--cwd", metavar="DIR", help="The working directory of the session [default: the current one]."
)
@click.option("--id", metavar="ID", help="The id of the session [default: a new UUID].")
@arguments.metadata
def new(file: str | None, folder: str | None, cwd: str | None, as_json: bool, **given: Any) -> None:
    """FILE is the path of the new file, or an address that ends in /PROJECT/NAME.jsonl. Without
    FILE, the session is made in the store, and 'ls' lists it.
    """
    cwd = None if cwd is None else os.path.abspath(cwd)
    with _made(file, folder, cwd=cwd, **given) as session:
        out_written(
            session.header, f"Created {session.file}, session {session.id}", as_json=as_json
        )


def _made(file: str | None, folder: str | None, **given: Any) -> Session:
    """A new session, in a file or in the store."""
    if file is None:
        from sessiontree.cli.lookup import store_at  # heavy, and only for this

        return store_at(folder).create(**given)
    where = "--store" if folder is not None else STORE_VARIABLE
    if folder is not None or (not arguments.is_path(file) and named_store()):
        named = as_line(file)
        raise click.UsageError(
            f"{where} names a store, which chooses the file: leave out {named!r}, and give a name "
            "with --name; for a file outside of the store, give its path, such as ./chat.jsonl, "
            "without --store"
        )
    return Session.create(file, **given)


@arguments.write_command("append")
@click.option("--role", metavar="ROLE", help="The role of the message [default: user].")
@click.option("--text", metavar="TEXT", help="The text of the message.")
@click.option(
    "--attach",
    "attached",
    metavar="PATH",
    type=PATH,
    multiple=True,
    help="Store a copy of this file; with --text, as a part of the message. Can be repeated.",
)
@click.option("--handle", metavar="HANDLE", help="A handle: a pointer to content elsewhere.")
@click.option("--preview", metavar="TEXT", help="A short text that describes the file or handle.")
@click.option("--parent", metavar="REF", help="The parent of the new entry [default: the leaf].")
@lane_options
@arguments.metadata
def append(
    file: str,
    role: str | None,
    text: str | None,
    attached: tuple[str, ...],
    handle: str | None,
    preview: str | None,
    on: OnLane,
    as_json: bool,
    **where: Any,
) -> None:
    """Without --text, --attach or --handle, the command reads a message from standard
    input, as JSON in the shape of any provider. A model gets the content of an attached
    file if the file is an image, a PDF or text. With --text, or with several files, the
    files are a part of one prompt: 'rewind' takes back the text and the files.

    A scratch lane is for work that you may want to drop. The command 'keep' joins the lane to the
    main lane. If you do not keep the lane, 'gc' removes the lane seven days after its last entry.
    """
    if handle is not None and (text is not None or attached):
        raise click.UsageError("give --handle alone, or --text, --attach or both")
    if role is not None and text is None and not attached and handle is None:
        raise click.UsageError("--role needs --text; a message as JSON names its own role")
    alone = attached[0] if len(attached) == 1 and text is None else None
    if preview is not None and alone is None and handle is None:
        raise click.UsageError("--preview needs --handle, or one --attach without --text")
    attachments = () if alone is not None else attached
    on.name()  # refuses wrong options before standard input is read
    message: Any = {"role": "user" if role is None else role, "content": text}
    if alone is None and handle is None:
        message = _message_read() if text is None and not attachments else message
        check_new_message(message)  # before the file is touched
    with on.writing(file, hold=not attached) as session:
        before = session.leaf
        if alone is not None:
            entry = session.attach(alone, role=role or "user", preview=preview, **where)
        elif handle is not None:
            entry = session.append_handle(handle, role=role, preview=preview, **where)
        else:
            entry = session.append_message(message, attachments=attachments, **where)
        left = None if where["parent"] is None else session.reader.skip_markers(before)
        if left is not None and session.cursor.is_above(left, entry):
            left = None
    done = f"Appended {speaker(entry)} {short(entry.uuid)} below {short(entry.parent_uuid or '')}"
    out_written(entry, done + lane_note(file, session), as_json=as_json)
    if left is not None:
        tell(f"The leaf was {describe(left)}; it is on a side branch now")


def _message_read() -> Any:
    if sys.stdin is not None and sys.stdin.isatty():
        raise click.UsageError(
            "give the message with --role and --text, or pipe it in as JSON: "
            """echo '{"role": "user", "content": "…"}' | sessiontree append FILE"""
        )
    text = b"" if sys.stdin is None else sys.stdin.buffer.read()
    if not text.strip():
        raise EntryError(
            "standard input is empty; pipe in a message as JSON, or give --role and --text"
        )
    try:
        return arguments.json_value(text)
    except ValueError as error:
        raise EntryError(f"standard input is not a message: not JSON: {error}") from error


@arguments.write_command("keep")
@click.argument("lane")
def keep(file: str, lane: str, as_json: bool) -> None:
    """The main lane goes on from the last entry of LANE. Entries that were written on main after
    LANE began stay as a side branch. The command prints how to merge the side branch or go back to
    the side branch. If LANE was started from another scratch lane, the command still joins LANE to
    main. The path of main then also has the entries of the other scratch lane above LANE.
    """
    with writing(file) as session:
        entry = session.keep(lane)
        tip = session.reader.skip_markers(entry)
        left = session.entry(entry["fromUuid"]) if "fromUuid" in entry else None
    onto = session.lane_name
    done = f"Joined {lane} to {onto}; the next entry on {onto} goes below {describe(tip)}"
    out_written(entry, done, as_json=as_json)
    if left is not None:
        tell(f"The last entry of {onto} was {describe(left)}; it is on a side branch now")
        tell(f"to merge it: sessiontree {shlex.join(['merge', file, left.uuid])}")
        tell(f"to go back to it: sessiontree {shlex.join(['switch', file, left.uuid])}")


@arguments.write_command("label")
@arguments.ref
@click.argument("name", required=False)
@click.option("--clear", is_flag=True, help="Remove the label of the entry.")
def label(file: str, ref: str, name: str | None, clear: bool, as_json: bool) -> None:
    """You can use the label NAME as a REF: 'sessiontree switch FILE NAME'. An entry has one label:
    a new one replaces it.
    """
    if (name is None) != clear:
        raise click.UsageError("give either a NAME or --clear")
    with writing(file) as session:
        before = session.reader.names().labels
        entry = session.label(ref, name)
        target = session.entry(entry["targetUuid"])
    done = "Removed the label of {}" if clear else "Labelled {} '{}'"
    done = done.format(describe(target), name)
    if (old := before.get(target.uuid)) not in (None, name):
        done += f"; the label was '{old}'"
    out_written(entry, done, as_json=as_json)


@arguments.write_command("rename")
@click.argument("name")
def rename(file: str, name: str, as_json: bool) -> None:
    with writing(file) as session:
        entry = session.rename(name)
    out_written(entry, f"Renamed the session to '{name}'", as_json=as_json)


@arguments.write_command("edit-context")
@arguments.ref
@click.option("--drop", is_flag=True, help="Leave the entry out of the context.")
@click.option("--text", metavar="TEXT", help="Replace the content of the entry with this text.")
@click.option(
    "--content",
    type=arguments.Json((str, list), "give content as a string or a list of blocks"),
    help="Replace the content of the entry with this JSON: a string or a list of blocks.",
)
def edit_context(
    file: str, ref: str, drop: bool, text: str | None, content: Any, as_json: bool
) -> None:
    """The command appends an entry that records the change. The change applies to every context
    that is built at or below that entry. Contexts on other branches do not change. The entry REF
    itself does not change.
    """
    if drop + (text is not None) + (content is not None) != 1:
        raise click.UsageError("give one of --drop, --text and --content")
    replacement = None if drop else {"content": content if text is None else text}
    with writing(file) as session:
        entry = session.edit_context(ref, replacement)
        target = session.entry(entry["targetUuid"])
    done = "Dropped" if drop else "Replaced the content of"
    out_written(entry, f"{done} {describe(target)} in the context", as_json=as_json)


class _GivenSummary:
    """The text of a summary or what makes it, if any; it `is_slow` where a program does."""

    def __init__(self, text: str | None, built_in: bool, program: str | None) -> None:
        if (text is not None) + built_in + (program is not None) > 1:
            raise click.UsageError("give one of --summary, --summarize and --summarizer")
        self.is_slow = program is not None
        self.summary: Summary | None = summarize if built_in else text
        if program is not None:
            try:
                words = shlex.split(program)
            except ValueError as error:
                raise click.UsageError(f"--summarizer {program!r}: {error}") from error
            if not words:
                raise click.UsageError("--summarizer needs a command")
            self.summary = functools.partial(_ask, words)


def _summary_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the three summary options; the command gets them as `given`."""

    @click.option("--summary", metavar="TEXT", help="The text of the summary.")
    @click.option("--summarize", is_flag=True, help="Use the built-in summarizer.")
    @click.option(
        "--summarizer",
        metavar="CMD",
        help="Run a program that reads the transcript from standard input "
        "and writes the summary to standard output.",
    )
    @functools.wraps(command)
    def with_summary(summary: Any, summarize: bool, summarizer: Any, **others: Any) -> None:
        command(given=_GivenSummary(summary, summarize, summarizer), **others)

    return with_summary


def _ask(words: Sequence[str], entries: Sequence[Entry], instructions: str | None = None) -> str:
    """The summary that a program writes of the entries, by the user's instructions if any."""
    from sessiontree.views.parts import text_of_entry  # few commands show whole entries

    transcript = "\n".join(f"{speaker(e)}: {text_of_entry(e)}\n" for e in entries if e.is_content)
    if instructions is not None:
        transcript += f"\nThe user's instructions for the summary: {instructions}\n"
    try:
        ended = subprocess.run(
            words,
            input=transcript.encode(errors="replace"),
            stdout=subprocess.PIPE,
            env=environment(),
        )
        text = ended.stdout.decode().strip()
    except OSError as error:
        fault = f"cannot be run: {error.strerror or error}"
    except UnicodeDecodeError:
        fault = "did not answer in UTF-8"
    else:
        if text and not ended.returncode:
            return text
        fault = f"failed with status {ended.returncode}" if ended.returncode else "answered nothing"
    raise UsageError(f"the summarizer {shlex.join(words)!r} {fault}; nothing was written")


@arguments.write_command("branch", context_settings=arguments.TAKES_MORE)
@arguments.ref
@click.option("--name", metavar="NAME", help="A name for the new branch.")
@_summary_options
@lane_options
def branch(
    file: str, ref: str, name: str | None, given: _GivenSummary, on: OnLane, as_json: bool
) -> None:
    """The next entry goes below REF. The entries that are already below REF stay as another
    branch. With --summary, --summarize or --summarizer, a summary of the path that you
    leave is added. Give the header as REF to start again with an empty context. To copy
    the path into a new file, use 'fork'.
    """
    arguments.refuse_more(_FORK)
    with on.writing(file, hold=not given.is_slow) as session:
        target = entry_at(session, ref, _FORK)
        entry = session.branch(target, given.summary, name)
    done = f"Branched at {describe(target)}{lane_note(file, session)}"
    out_written(entry, done, as_json=as_json)


@arguments.write_command("switch")
@arguments.ref
@lane_options
def switch(file: str, ref: str, on: OnLane, as_json: bool) -> None:
    """If REF is the name of a branch, the next entry goes below the last entry of that
    branch. With any other REF, the next entry goes below the entry that REF names.
    """
    with on.writing(file) as session:
        before = session.leaf
        target = session.entry(ref)
        entry = session.switch(target)
    done = "Already at {}; nothing was written" if entry == before else "Switched to {}"
    done = done.format(describe(target)) + lane_note(file, session)
    out_written(entry, done, as_json=as_json)


@arguments.file_command(
    "rewind", json="the text of the prompt, the uuid of its entry and the new entry"
)
@arguments.optional_ref
@lane_options
def rewind(file: str, ref: str | None, on: OnLane, as_json: bool) -> None:
    """REF is the prompt [default: the last prompt on the path]. The command prints the text of the
    prompt. You can edit this text and append the edited text.
    """
    with on.writing(file) as session:
        text, prompt = moves.rewind(session.writer, ref)
        entry = session.leaf
    below = short(entry.parent_uuid or "")
    tell(f"Rewound; the next entry goes below {below}{lane_note(file, session)}")
    if not as_json:
        out(text)
        return
    out_json({"text": text, "prompt": prompt.uuid, "entry": dict(entry.body)})


@arguments.write_command("push")
@click.option("--note", metavar="TEXT", help="A note about the work that follows.")
@lane_options
def push(file: str, note: str | None, on: OnLane, as_json: bool) -> None:
    with on.writing(file) as session:
        entry = session.push(note)
    out_written(entry, f"Pushed; 'pop' returns here{lane_note(file, session)}", as_json=as_json)


@arguments.write_command("pop")
@arguments.optional_ref
@_summary_options
@lane_options
def pop(file: str, ref: str | None, given: _GivenSummary, on: OnLane, as_json: bool) -> None:
    """REF is the entry to go back to [default: the last push that has no pop yet; if there is no
    such push, the last prompt that has a message below it, for example an answer]. REF must be on
    the current path. In the context, the summary replaces the entries below REF. Without a summary
    option, the built-in summarizer is used.
    """
    with on.writing(file, hold=not given.is_slow) as session:
        entry = session.pop(ref, given.summary or summarize)
        target = session.entry(entry.parent_uuid or "@")
    done = f"Popped to {describe(target)}{lane_note(file, session)}"
    out_written(entry, done, as_json=as_json)


@arguments.file_command("compact", json=f"{arguments.WRITTEN}; with --plan, the plan")
@click.option("--first-kept", metavar="REF", help="The first entry that stays in the context.")
@click.option(
    "--keep",
    type=click.IntRange(min=0),
    metavar="TOKENS",
    help=f"The approximate number of tokens to keep [default: {KEEP_TOKENS:,}]; 0 keeps nothing.",
)
@_summary_options
@click.option(
    "--instructions",
    metavar="TEXT",
    help="Instructions for the summary, for --summarizer and --plan.",
)
@click.option(
    "--plan", is_flag=True, help="Write nothing; print a request to a model for the summary."
)
@lane_options
def compact(
    file: str,
    first_kept: str | None,
    keep: int | None,
    given: _GivenSummary,
    instructions: str | None,
    plan: bool,
    on: OnLane,
    as_json: bool,
) -> None:
    """The entries stay in the file and in the tree. By default, about 20,000 tokens at the end of
    the context stay. Without a summary option, the built-in summarizer is used. A context
    of fewer than 20,000 tokens is an exception: without a summary option, the command fails; with
    one, the summary replaces the whole context. To replace a context of any size, give '--keep 0'.

    With --plan, the command prints the text to send to a model, and the command that stores the
    model's answer as the summary. With --json, it also prints the entries that the summary
    replaces.

    \b
    Example:
      sessiontree compact chat.jsonl --instructions "Keep all file names" \\
        --summarizer "claude -p 'Summarize this conversation'"
    """
    if first_kept is not None and keep is not None:
        raise click.UsageError("give --first-kept or --keep, not both")
    if plan and given.summary is not None:
        raise click.UsageError("give --plan or a summary option, not both")
    if instructions is not None and not (plan or given.is_slow):
        raise click.UsageError("--instructions needs --summarizer or --plan")
    chosen: dict[str, Any] = {"first_kept": first_kept, "keep": keep, "instructions": instructions}
    if plan:
        _print_plan(file, on, chosen, as_json=as_json)
        return
    with on.writing(file, hold=not given.is_slow) as session:
        entry = session.compact(given.summary, **chosen)
        after = session.context().tokens
    before = f"{entry['tokensBefore']:,}"
    done = f"Compacted the context from about {before} tokens to about {after:,}"
    done += lane_note(file, session)
    out_written(entry, done, as_json=as_json)


def _print_plan(file: str, on: OnLane, chosen: dict[str, Any], *, as_json: bool) -> None:
    if on.scratch:
        raise click.UsageError("--plan writes nothing; give --lane or leave --scratch out")
    with reading(file) as opened, on.reading(opened) as session:
        plan = session.compaction_plan(**chosen)
    first = plan.first_kept
    summarized = counted(len(plan.messages), "message")
    tell(
        f"A summary would replace {summarized}; about {plan.tokens_after:,} of "
        f"{plan.tokens_before:,} tokens would stay"
    )
    kept = ["--keep", "0"] if first is None else ["--first-kept", first.uuid]
    lane = [] if on.lane is None else ["--lane", on.lane]
    command = shlex.join(["compact", file, *lane, *kept])
    tell(f"to write the summary: sessiontree {command} --summary TEXT")
    out_json(plan) if as_json else out(plan.text)


@arguments.write_command("cherry-pick")
@arguments.ref
@click.option(
    "--from", "other", metavar="OTHERFILE", type=SESSION_FILE, help="Take REF from this session."
)
def cherry_pick(file: str, ref: str, other: str | None, as_json: bool) -> None:
    """If REF is a part of a message that was streamed in blocks, the copy is the whole message."""
    with contextlib.ExitStack() as opened:
        source = None if other is None else opened.enter_context(reading(other))
        picked = None if source is None else source.entry(ref)
        session = opened.enter_context(writing(file))
        picked = picked or session.entry(ref)
        entry = session.cherry_pick(picked, source)
    out_written(entry, f"Picked {describe(picked)}", as_json=as_json)


@arguments.write_command("merge")
@arguments.ref
@_summary_options
def merge(file: str, ref: str, given: _GivenSummary, as_json: bool) -> None:
    """After the merge, the context of the current path also has the entries of the other branch,
    from the point where the branches separate, up to REF. With a summary option, the context has a
    summary of these entries instead.
    """
    with writing(file, hold=not given.is_slow) as session:
        merged = session.entry(ref)
        entry = session.merge(merged, given.summary)
    out_written(entry, f"Merged the branch up to {describe(merged)}", as_json=as_json)
