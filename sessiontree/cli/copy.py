"""The commands that copy sessions: into new files, other formats and other stores; and `import`."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from sessiontree.agents.writing import Loss
from sessiontree.cli import arguments
from sessiontree.cli.arguments import PATH, PLACE, SESSION_FILE, session_file
from sessiontree.cli.derive import CommandCall, described, renders
from sessiontree.cli.lookup import relative_path, store_at
from sessiontree.cli.output import out_json, out_json_list, tell_losses, tell_redaction
from sessiontree.cli.terminal import (
    ProgressBar,
    end,
    finish,
    out,
    out_bytes,
    tell,
    tell_each,
)
from sessiontree.core.damage import damage_row, in_short
from sessiontree.core.display import one_line
from sessiontree.importing.importer import Batch, Importer, ImportResult
from sessiontree.library.copies import CopyResult, Mirror, TransferResult
from sessiontree.library.copies import sync as sync_all
from sessiontree.library.places import is_folder
from sessiontree.operations.convert import ConversionResult
from sessiontree.operations.copy import CopiedSession
from sessiontree.operations.sync import SyncedSession
from sessiontree.ops.intake import Import
from sessiontree.ops.tree import (
    Convert,
    ExportFile,
    NewCopy,
    NewTranscript,
    PipedConversion,
    TranscriptParts,
    images_of,
)
from sessiontree.text.amounts import counted

if TYPE_CHECKING:
    pass


@renders(TranscriptParts)
def _(call: CommandCall, made: TranscriptParts) -> None:
    if call.as_json:
        raise click.UsageError(
            "--json needs -o OUT, as it prints the path of the transcript and what --redact "
            "masked; for the conversation as JSON, use 'context' or 'path'"
        )
    for part in made.parts:
        out(part.removesuffix("\n"))
    call.close()  # which may report damage
    if made.redaction is not None:
        tell_redaction(made.redaction)


@renders(NewTranscript)
def _(call: CommandCall, made: NewTranscript) -> None:
    given = call.given
    assert isinstance(given, ExportFile)
    is_page = given.is_page(made.file)
    kind = "html" if is_page else "markdown"
    tell(f"Exported {given.session} as {kind} to {made.file}")
    if is_page and os.path.isdir(images := images_of(made.file)):
        tell(f"The page needs the images in {images}: move and send them together")
    report = None if made.redaction is None else made.redaction.report()
    out_json({"file": made.file, "redaction": report}) if call.as_json else out(made.file)
    if made.redaction is not None:
        tell_redaction(made.redaction)


@renders(NewCopy)
def _(call: CommandCall, copy: NewCopy) -> None:
    if not call.as_json:
        out(copy.file)
    elif copy.redaction is None:
        out_json(copy.header())
    else:
        out_json({"header": copy.header().body, "redaction": copy.redaction.report()})
    if copy.redaction is not None:
        tell_redaction(copy.redaction)


@renders(PipedConversion)
def _(call: CommandCall, made: PipedConversion) -> None:
    if call.as_json:
        raise click.UsageError("'-o -' and --json both write to standard output; give one of them")
    out_bytes(made.blocks)
    call.close()
    _tell_lost(call, made.source.losses.found(), made.source.warnings)


@renders(ConversionResult)
def _(call: CommandCall, made: ConversionResult) -> None:
    assert isinstance(call.given, Convert)
    tell(f"Converted {call.given.session} to {made.to}: {made.file}")
    out_json(made) if call.as_json else out(made.file)
    _tell_lost(call, made.losses, made.warnings)


def _tell_lost(call: CommandCall, losses: Sequence[Loss], warnings: Sequence[str]) -> None:
    assert isinstance(call.given, Convert)
    tell_losses(call.given.to, losses)
    for warning in warnings:
        tell(f"Warning: {warning}")


@arguments.command("copy", json="what was copied, skipped, and is wrong")
@click.argument("source", metavar="FROM", type=SESSION_FILE)
@click.argument("target", metavar="TO", type=PLACE)
@click.option(
    "--watch",
    is_flag=True,
    help="Go on copying what is new, until you press Ctrl-C. With --json, each pass that copies "
    "something prints a line.",
)
def copy(source: str, target: str, watch: bool, as_json: bool) -> None:
    """FROM is a session, or a folder of sessions with all folders below it. TO is a session if it
    ends in .jsonl, else a folder; the copies have the same names there. FROM and TO can also be
    addresses, such as memory://NAME/PROJECT/FILE.jsonl.

    The copy has the same bytes: the log, the blobs, and archives. What was written is read back and
    compared. A copy that was cut short is continued when you run the command again, and so is a
    copy of a session that has grown. A file at TO that is something else is not changed: the
    command ends with an error. If both went on, use 'sync'.

    The sessions in the trash are not copied, unless FROM names the trash. Files of other agents are
    skipped; 'import' converts these files. The original is never locked.
    """
    mirror = Mirror(source, target)
    if not watch:
        with _continued():
            result = mirror.go(None if as_json else _tell_copied)
        _out_result(result, "Copied", as_json=as_json)
        end(result.problems)
        return
    tell("Copying what is new; press Ctrl-C to end")
    passes = mirror.watch(threading.Event(), None if as_json else _tell_copied)
    with _continued():
        _out_pass(next(passes), as_json=as_json)
    with contextlib.suppress(KeyboardInterrupt):
        for result in passes:
            _out_pass(result, as_json=as_json)


def _out_pass(result: CopyResult, *, as_json: bool) -> None:
    _out_result(result, "Copied", as_json=as_json)
    finish()


@contextlib.contextmanager
def _continued() -> Iterator[None]:
    """Say how an interrupted command is continued."""
    try:
        yield
    except KeyboardInterrupt:
        tell("Interrupted; run the same command again to continue")
        raise


def _tell_copied(copied: CopiedSession) -> None:
    if not copied.is_unchanged:
        blobs = f", {counted(copied.blobs, 'blob')}" if copied.blobs else ""
        out(f"{copied.source} -> {copied.target}: {counted(copied.written, 'byte')}{blobs}")


def _out_result(result: TransferResult[Any], done: str, *, as_json: bool) -> None:
    if as_json:
        out_json(result)
        return
    tell_each("Skipped", result.skipped)
    tell_each("Damage", result.damage)
    tell_each("Problem", result.problems)
    unchanged = sum(one.is_unchanged for one in result.sessions)
    new = len(result.sessions) - unchanged
    tell(f"{done} {counted(new, 'session')}; {unchanged:,} had nothing new")


@arguments.command("sync", json="what each side got, what was skipped, and is wrong")
@click.argument("a", metavar="A", type=PLACE)
@click.argument("b", metavar="B", type=PLACE)
def sync(a: str, b: str, as_json: bool) -> None:
    """A and B are two copies of a session that both went on, for example on two machines; or two
    folders of sessions. They can also be addresses, such as memory://NAME/PROJECT/FILE.jsonl.

    Each copy gets the lines that it lacks. No line is changed or removed. Afterwards both have the
    same entries and the same leaf: the later of the two leaves, by the time at which it was
    written. The other leaf is the end of a branch; 'branches' lists it, and 'switch' goes to it.
    The same holds for each lane, and for names, labels and metadata that both changed. The result
    is the same in any order and direction, and a second run changes nothing.

    If the same entry is different in the two copies, one of them is damaged: the command ends with
    an error, and writes nothing. A fork is a session of its own.

    In two folders, sessions with the same id are united, and a session that only one folder has is
    copied to the other one, with the same name. Beside a folder, an address that does not end in
    .jsonl is a store, which may be empty. A command that was stopped is finished by another run.
    """
    if not is_folder(a) and not is_folder(b):
        a, b = session_file(a), session_file(b)
    with _continued():
        result = sync_all(a, b, each=None if as_json else _tell_synced)
    _out_result(result, "United", as_json=as_json)
    end(result.problems)


def _tell_synced(done: SyncedSession) -> None:
    if done.copied_to is not None:
        out(f"{done.id}: copied to {done.copied_to}")
    elif not done.is_unchanged:
        out(f"{done.id}: {done.a} +{done.added_to_a:,}, {done.b} +{done.added_to_b:,} entries")


@arguments.command("import", json="the result for each file")
@click.argument("files", nargs=-1, metavar="FILE…|ID…", type=PATH)
@click.option("-o", "--output", metavar="DIR|URL", type=PLACE, help="Write to DIR itself.")
@click.option(
    "--acp",
    metavar="COMMAND",
    help="Import from the agent that COMMAND starts, by its protocol (ACP).",
)
@arguments.own_store()
@described(Import, "dry_run")
def import_(
    files: tuple[str, ...],
    output: str | None,
    acp: str | None,
    folder: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """FILE is a session file of an agent that sessiontree reads, with those of its subagents, a
    trajectory of a benchmark (ATIF), or a folder of such files. The command never changes these
    files.

    Each file becomes a session in the store, in the subfolder for the working directory of the
    session. With -o DIR, each file becomes a session in DIR itself, which is a folder or an
    address.

    Run the command again to add new entries. If you have added entries to an imported session, the
    agent's new entries go on a separate lane named after the agent. Your leaf does not move.

    With --acp, the command starts the agent, which replays its sessions by the Agent Client
    Protocol, and ends it: all that it lists, or those with an ID. This is for agents whose files
    sessiontree does not read, because the protocol gives no branches, and mostly no models, tokens,
    costs and times; the command says what is missing. The agent is offered no files and no
    terminal, and is refused what it asks for.

    \b
    Example:
      sessiontree import ~/.claude/projects
      sessiontree import --acp vibe-acp
    """
    if not files and acp is None:
        raise click.UsageError("name a FILE to import")
    if output is not None and folder is not None:
        raise click.UsageError("give --store for a store, or -o for a folder, not both")
    into = store_at(folder).root if output is None else output
    importer = Importer(into, by_project=output is None)
    if acp is not None:
        _import_by_acp(importer, acp, files, dry_run=dry_run, as_json=as_json)
        return
    batch = Batch(importer, files, lambda error: tell(f"Error: {error}"), dry_run=dry_run)
    with ProgressBar("Importing") as shown:
        done = batch.results(shown)
        if as_json:
            out_json_list(
                {**msgspec.to_builtins(result), "damage": [*map(damage_row, result.damage)]}
                for result in done
            )
        else:
            for result in done:
                out(f"{result.file}  {_counts(result)}, from {relative_path(result.source)}")
    finish()
    _tell(batch)
    if dry_run:
        tell("This was a dry run: nothing was written")
    end(batch.failed)


def _import_by_acp(
    importer: Importer, command: str, ids: Sequence[str], *, dry_run: bool, as_json: bool
) -> None:
    from sessiontree.importing.acp import chosen, imported  # few imports ask an agent
    from sessiontree.importing.acp_client import AcpAgent

    lacks: dict[str, None] = {}
    with AcpAgent(command) as agent:
        done = []
        for each in imported(agent, chosen(agent, ids), importer, dry_run=dry_run):
            lacks.update(dict.fromkeys(each.lacks))
            done.append(each.result)
            if not as_json:
                out(f"{each.result.file}  {_counts(each.result)}, from {agent.name}")
    if as_json:
        out_json_list(msgspec.to_builtins(result) for result in done)
    finish()
    tell(f"{agent.name}: {counted(len(done), 'session')}")
    if lacks:
        tell(f"Note: {agent.name} did not give {', '.join(lacks)}")
    if dry_run:
        tell("This was a dry run: nothing was written")


def _counts(result: ImportResult) -> str:
    if result.entries is None:
        return "up to date"
    entries = counted(result.entries, "entry", "entries")
    if result.is_up_to_date:
        return f"up to date, {entries}"
    blobs = f", {counted(result.blobs, 'blob')}" if result.blobs else ""
    return f"{entries}, {result.new:,} new{blobs}"


def _tell(batch: Batch) -> None:
    """Report what was left out or damaged, and the counts."""
    tell_each("Warning", batch.shared)
    tell_each("Warning", batch.damage)
    if noted := in_short(batch.notes.found()):
        tell(f"Kept as custom entries: {one_line(noted, 1000)}")
    tell_each("Left out", batch.left_out)
    if batch.is_of_many:
        tell(
            f"{batch.imported:,} imported, {batch.updated:,} updated, "
            f"{batch.same:,} up to date; {counted(batch.new, 'new entry', 'new entries')}"
        )
