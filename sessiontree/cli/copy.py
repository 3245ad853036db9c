"""The commands that copy and combine: fork, export, convert, import, copy and sync.

Commands that combine and copy: into this path, into new sessions, into other formats.

Commands between stores: copy, sync.

The command `import`: converts the sessions of other agents to sessiontree files.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from sessiontree.agents import TARGETS
from sessiontree.cli import arguments
from sessiontree.cli.arguments import PATH, PLACE, SESSION_FILE, session_file
from sessiontree.cli.lookup import is_folder, relative_path, store_at
from sessiontree.cli.opening import entry_at, reading
from sessiontree.cli.output import describe, out_json, out_json_list
from sessiontree.cli.terminal import (
    ProgressBar,
    as_line,
    counted,
    end,
    finish,
    mask_with,
    out,
    out_bytes,
    short,
    tell,
    tell_each,
)
from sessiontree.core.damage import damage_row, in_short
from sessiontree.core.display import one_line
from sessiontree.core.entry import Entry
from sessiontree.errors import RefError
from sessiontree.importing.importer import Batch, Importer, ImportResult
from sessiontree.library.copies import CopyResult, Mirror, TransferResult
from sessiontree.library.copies import sync as sync_all
from sessiontree.operations.convert import converted
from sessiontree.operations.copy import CopiedSession
from sessiontree.operations.export import Original
from sessiontree.operations.sync import SyncedSession
from sessiontree.session import Session
from sessiontree.storage.atomic import create_file
from sessiontree.storage.fs import DISK

if TYPE_CHECKING:
    from sessiontree.redact.redaction import Redaction
    from sessiontree.redact.rule import Rule


_MOST_PLACES: Final = 8
_FORMATS: Final = click.Choice(["markdown", "html"])
_EXPORT_BRANCH: Final = (
    "to copy a subtree into a new session file, use 'sessiontree export-branch FILE REF NEWFILE'; "
    "to write the transcript to a file, use '-o OUT'"
)

_INTO_STORE: Final = "; to copy into the store, give REF as --at REF"


def _redact_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that mask secrets; the command gets them as `redaction`."""

    @click.option("--redact", is_flag=True, help="Mask secrets, and list the masked entries.")
    @arguments.path_option(
        "--rules",
        metavar="TOML",
        help="With --redact: a file with more rules, one per line: name = 'regular expression'. "
        "A rule with the name of a built-in rule replaces the built-in rule.",
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
        if not redact:
            if rules is not None:
                raise click.UsageError("--rules needs --redact")
            command(redaction=None, **others)
            return
        from sessiontree.redact.redaction import Redaction  # slow: it compiles all rules

        redaction = Redaction(_own_rules(rules), homes=[os.path.expanduser("~")])
        mask_with(redaction.text)
        command(redaction=redaction, **others)
        mask_with(None)  # the report is made of masks
        _tell_redaction(redaction)

    return with_redaction


def _own_rules(file: str | None) -> Iterable[Rule] | None:
    """The rules of a user's file and the built-in ones; None without a file."""
    if file is None:
        return None
    from sessiontree.operations.own_rules import OwnRules  # slow: it compiles all rules

    rules = OwnRules(Path(file).read_text("utf-8"), file)
    return click.get_current_context().find_root().with_resource(rules).rules


def _list_rules(ctx: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked:
        from sessiontree.redact.rules import RULES  # slow: it compiles all rules

        for rule in RULES:
            out(f"{rule.name:<18} {rule.what}")
        ctx.exit()


def _tell_redaction(redaction: Redaction) -> None:
    """Report what was masked and where, without any secret."""
    found: dict[str, dict[str, int]] = {}
    for (rule, entry), count in redaction.masked.items():
        found.setdefault(rule, {})[entry] = count
    for rule, counts in found.items():
        places = [short(e) + (f" ({n:,} times)" if n > 1 else "") for e, n in counts.items()]
        more = f" and {len(places) - _MOST_PLACES:,} more" if len(places) > _MOST_PLACES else ""
        where = ", ".join(places[:_MOST_PLACES])
        tell(f"Masked {rule}: {sum(counts.values()):,}, in {where}{more}")
    for entry, media_type, size in redaction.left_out:
        kind = redaction.text(media_type)
        tell(f"Left out of {short(entry)}: {kind}, {size:,} bytes that are not text")
    if redaction.unsealed:
        where = ", ".join(map(short, redaction.unsealed[:_MOST_PLACES]))
        total = counted(len(redaction.unsealed), "masked entry", "masked entries")
        tell(f"Removed the signatures of {total}: {where}")
    if not (redaction.masked or redaction.left_out):
        tell("No secrets were found")
    missed = "secrets that match no rule, are split over several blocks, or are encoded"
    tell(f"Check the result before you share it: redaction does not find {missed}")


@arguments.file_command(
    "export",
    json="the path of the new file, and what --redact masked; needs -o",
    context_settings=arguments.TAKES_MORE,
)
@arguments.optional_ref
@click.option(
    "--format", "to", type=_FORMATS, default="markdown", show_default=True, help="The format."
)
@click.option("--markdown", "to", flag_value="markdown", help="The same as --format markdown.")
@click.option("--html", "to", flag_value="html", help="The same as --format html.")
@arguments.path_option("-o", "--output", metavar="OUT", help="Write the transcript to this file.")
@click.option(
    "--remote-images",
    is_flag=True,
    help="Keep an image that a message refers to by its address, instead of a link.",
)
@_redact_options
@arguments.root
def export(
    file: str,
    ref: str | None,
    to: str,
    output: str | None,
    remote_images: bool,
    redaction: Redaction | None,
    root: str | None,
    as_json: bool,
) -> None:
    """With --format html, the file is a page with the whole session: all branches and every entry.
    It opens at REF [default: the beginning]. The page loads nothing from elsewhere: open it from
    disk, or send it to somebody. Its key ? lists the keys. With -o, images after the first 3 MB are
    files in a folder beside it, named like OUT with '-images'.

    With --format markdown, the transcript has every message on the path to REF [default: the
    current leaf], also the messages that a compaction replaced in the context. To share the session
    file with masked secrets, use 'export-branch --redact'.

    If a message refers to an image by its address, the transcript has a link instead of the
    image. With --remote-images, the image stays: a viewer loads it, which tells the image's server
    who reads the transcript, and when.
    """
    arguments.refuse_more(_EXPORT_BRANCH)
    if as_json and output is None:
        raise click.UsageError(
            "--json needs -o OUT, as it prints the path of the transcript and what --redact "
            "masked; for the conversation as JSON, use 'context' or 'path'"
        )
    if to == "html" and remote_images:
        raise click.UsageError("--remote-images is for --format markdown: a page loads no images")
    with reading(file, root) as session:
        end = None if ref is None else entry_at(session, ref, _EXPORT_BRANCH)
        beside = None if output is None else os.path.dirname(os.path.abspath(output))
        if to == "html":
            images = None if output is None else _images_of(output)
            parts = session.to_html(end, redact=redaction, images=images)
        else:
            parts = session.to_markdown(
                end, redact=redaction, beside=beside, remote_images=remote_images
            )
        if output is None:
            for part in parts:
                out(part.removesuffix("\n"))
            return
        with session.handles.failing_once():  # a page asks for a handle twice
            create_file(DISK, output, (part.encode("utf-8", "replace") for part in parts))
    tell(f"Exported {file} as {to} to {output}")
    if to == "html" and os.path.isdir(_images_of(output)):
        tell(f"The page needs the images in {_images_of(output)}: move and send them together")
    report = None if redaction is None else redaction.report()
    out_json({"file": output, "redaction": report}) if as_json else out(output)


def _images_of(output: str) -> str:
    """The folder for the images of a page."""
    return f"{os.path.splitext(output)[0]}-images"


@arguments.file_command("fork", json="the header of the new file")
@click.argument("words", nargs=-1, metavar="[[REF] NEWFILE]")
@click.option(
    "--at",
    metavar="REF",
    help="The last entry to copy, given as an option instead of the argument REF.",
)
@arguments.own_store()
@arguments.path_option(
    "--cwd", metavar="DIR", help="The working directory of the copy [default: that of FILE]."
)
@click.option("--name", metavar="NAME", help="The name of the copy [default: that of FILE].")
def fork(
    file: str,
    words: tuple[str, ...],
    at: str | None,
    folder: str | None,
    cwd: str | None,
    name: str | None,
    as_json: bool,
) -> None:
    """REF is the last entry to copy [default: the current leaf]. Without NEWFILE, the copy becomes
    a new session in the store, and 'ls' lists it. In this case, give REF with --at. The store is
    also where the id or the name of FILE is looked up. FILE does not change. If a blob of FILE is
    missing or damaged, the copy is made without the blob, and the exit code is 1.
    """
    refs, newfile = list(words[:-1]), words[-1] if words else None
    refs += [] if at is None else [at]
    if len(refs) > 1:
        raise click.UsageError("give one REF and one NEWFILE: sessiontree fork FILE REF NEWFILE")
    if newfile is not None and folder is not None and not arguments.is_path(newfile):
        raise click.UsageError(
            "--store names the store of FILE and of the copy: leave out NEWFILE, or give its path, "
            "such as ./NEWFILE"
        )
    with reading(file) as session:
        leaf = _source(session, refs[0] if refs else "@", newfile, _INTO_STORE)
        last = session.reader.skip_markers(leaf)
        if newfile is None:
            from sessiontree.cli.lookup import store_at  # heavy, and only for this

            newfile = store_at(folder).fork(file, leaf, cwd=cwd, name=name)
        else:
            about = None if cwd is None else os.path.abspath(cwd)
            newfile = session.fork(newfile, leaf, cwd=about, name=name)
    tell(f"Forked at {describe(last)} into {newfile}")
    out_json(_header(newfile)) if as_json else out(newfile)


@arguments.file_command(
    "export-branch", json="the header of the new file, and what --redact masked"
)
@arguments.ref
@click.argument("newfile", type=PLACE)
@click.option("--with-path", is_flag=True, help="Copy the path from the header to REF too.")
@click.option("--inline", is_flag=True, help="Store the content of blobs and handles in NEWFILE.")
@_redact_options
@arguments.root
def export_branch(
    file: str,
    ref: str,
    newfile: str,
    redaction: Redaction | None,
    root: str | None,
    as_json: bool,
    **how: bool,
) -> None:
    """REF is the top entry of the subtree. A scratch lane below REF is copied only if the lane was
    kept. If REF itself is on a scratch lane, the entries of that lane below REF are copied even if
    the lane was not kept. FILE does not change. If a blob of FILE is missing or damaged, the copy
    is made without the blob, and the exit code is 1.
    """
    with reading(file, root) as session:
        top = _source(session, ref, newfile)
        newfile = session.export_branch(top, newfile, redact=redaction, **how)
    tell(f"Exported {_described(top, newfile)} and all below it into {newfile}")
    if not as_json:
        out(newfile)
    elif redaction is None:
        out_json(_header(newfile))
    else:
        out_json({"header": _header(newfile).body, "redaction": redaction.report()})


def _source(session: Session, ref: str, newfile: str | None, hint: str = "") -> Entry:
    """The entry to copy; refuses a NEWFILE that is not a path and names an entry."""
    if newfile is None:
        return session.entry(ref)
    is_ref = newfile.startswith("@")
    if not is_ref and not arguments.is_path(newfile):
        with contextlib.suppress(RefError):
            is_ref = bool(session.entry(newfile))
    if is_ref:
        raise click.UsageError(
            f"{as_line(newfile)!r} is a REF; NEWFILE comes last: FILE REF NEWFILE; for a new file "
            f"of that name give its path with its folder, such as ./NEWFILE{hint}"
        )
    return session.entry(ref)


def _described(entry: Entry, copy: str) -> str:
    """A copied entry in a few words: those of the copy, whose secrets may be masked."""
    with Session.open(copy, readonly=True) as made:
        return describe(made.reader.by_uuid(entry.uuid) or made.header)


def _header(file: str) -> Entry:
    with Session.open(file, readonly=True) as made:
        return made.header


@arguments.file_command("convert", json="the new files and what the other format cannot keep")
@click.option("--to", required=True, type=click.Choice(TARGETS), help="The format of the new file.")
@arguments.path_option(
    "-o",
    "--output",
    metavar="NEWFILE",
    help="The new file, or - for standard output [default: a name that the other program uses]",
)
@arguments.root
def convert_command(
    file: str, to: Any, output: str | None, root: str | None, as_json: bool
) -> None:
    """FILE is any session, also a session of another agent. FILE does not change. The
    command reports what the other format cannot keep.

    \b
    The new file contains:
      pi           the whole tree
      claude-code  the conversation of each branch; lanes become subagents
      codex        the conversation of each branch, one after another
      gemini       the conversation of each branch, one after another
      atif         the current path, also the messages that were compacted away
                   (ATIF is a format for training)

    To go on with a session in an agent, use 'resume', which puts the new file where the agent
    looks for its sessions.
    """
    if output == "-" and as_json:
        raise click.UsageError("'-o -' and --json both write to standard output; give one of them")
    with reading(file, root) as session:
        if output == "-":
            original = Original(session.cursor, session.handles, session.file, session.disk)
            blocks, source = converted(original, to)
            out_bytes(blocks)
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
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=PATH)
@click.option("-o", "--output", metavar="DIR|URL", type=PLACE, help="Write to DIR itself.")
@arguments.own_store()
@click.option("--dry-run", is_flag=True, help="Only report what would be imported.")
def import_(
    files: tuple[str, ...],
    output: str | None,
    folder: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """FILE is a session file of Claude Code (with its subagents), the pi coding agent, Codex
    or Gemini CLI, or a folder of such files. The command never changes these files.

    Each file becomes a session in the store, in the subfolder for the working directory of the
    session. With -o DIR, each file becomes a session in DIR itself, which is a folder or an
    address.

    Run the command again to add new entries. If you have added entries to an imported session, the
    agent's new entries go on a separate lane named after the agent. Your leaf does not move.

    \b
    Example:
      sessiontree import ~/.claude/projects
    """
    if output is not None and folder is not None:
        raise click.UsageError("give --store for a store, or -o for a folder, not both")
    into = store_at(folder).root if output is None else output
    importer = Importer(into, by_project=output is None)
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
