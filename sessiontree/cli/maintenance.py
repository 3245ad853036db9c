"""Commands that look after a file: verify, repair, gc, migrate."""

from __future__ import annotations

import os
from collections.abc import Sized
from datetime import datetime

import click

from sessiontree.cli import arguments
from sessiontree.cli.arguments import PLACE
from sessiontree.cli.opening import open_migrated, reading, tell_migrated, writing
from sessiontree.cli.output import out_findings, out_json, out_json_list
from sessiontree.cli.terminal import ProgressBar, counted, end, finish, out, short, tell
from sessiontree.core.damage import Damage, damage_row, in_short
from sessiontree.core.display import one_line
from sessiontree.engine.gc import GcResult
from sessiontree.errors import SessionTreeError
from sessiontree.library.one import repaired, verified
from sessiontree.session import Session
from sessiontree.storage.names import BLOBS

_MOST_SHOWN = 20
_DEFAULT_STORE = ""
_REST = "no running program writes it, it is a leftover"


@arguments.command("verify", json="a list of the findings")
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=PLACE)
def verify(files: tuple[str, ...], as_json: bool) -> None:
    """The command checks every line, checksum, uuid, parent and reference. The file does not
    change. The exit code is 1 if there is damage.
    """
    found: list[Damage] = []
    failed = False
    for given in files:
        try:
            found += _verified(arguments.session_file(given))
        except SessionTreeError as error:
            if len(files) == 1:
                raise
            tell(f"Error: {error}")
            failed = True
    out_json_list(map(damage_row, found)) if as_json else out_findings(found)
    end(found or failed)


def _verified(file: str) -> list[Damage]:
    """The damage of a file; reports the leftovers of interrupted programs too."""
    title = f"Reading {os.path.basename(file)}"
    with Session.open(file, readonly=True) as session, ProgressBar(title) as shown:
        damage, left, unfinished = verified(session, file, shown)
        notes = one_line(in_short(session.notes), 1000)
    tell(f"{file}: {counted(len(damage), 'finding') if damage else 'no damage found'}")
    if notes:
        tell(f"{file}: {notes}, kept as custom entries")
    for stray in left:
        tell(f"{stray}: if {_REST}; remove it")
    if unfinished:
        first = os.path.join(os.path.realpath(file) + BLOBS, unfinished[0])
        more = f", and {len(unfinished) - 1:,} more beside it" if len(unfinished) > 1 else ""
        tell(f"{first}{more}: if {_REST}; gc removes it when it is seven days old")
    return damage


@arguments.file_command(
    "repair", json="what was repaired, where the original is, and what damage remains"
)
@click.option("--dry-run", is_flag=True, help="Only report what would be repaired.")
def repair(file: str, dry_run: bool, as_json: bool) -> None:
    """The command removes NUL bytes, blank lines, and incomplete lines of an interrupted write. The
    command splits joined lines, adds lines without a uuid to the tree, and writes a lost header
    again. The original stays beside the file. The command lists the damage that remains. The exit
    code is 1 if damage remains.
    """
    if dry_run:
        with Session.open(file, readonly=True) as session:
            done = session.repair(dry_run=True)
    else:
        done = repaired(file, lambda: tell_migrated(file))
    if as_json:
        remaining = [damage_row(damage) for damage in done.remaining]
        out_json({"mended": done.mended, "original": done.evidence, "remaining": remaining})
    else:
        for mending in done.mended:
            what = f"would have {mending.what}" if dry_run else mending.what
            out(f"{file}:{mending.line}: byte {mending.offset}: {what}")
        if not dry_run:
            out_findings(done.remaining)
    finish()
    count = len(done.mended)
    if not count:
        tell(f"{file}: nothing to repair")
    elif dry_run:
        tell(f"{file}: {count:,} to repair; nothing was written")
    else:
        tell(f"{file}: {count:,} repaired; the original is kept as {done.evidence}")
    if done.remaining and not dry_run:
        rest = counted(len(done.remaining), "finding remains", "findings remain")
        tell(f"{file}: {rest}; repair does not guess")
        end(rest)


@arguments.command(
    "gc", json="what was removed, and the bytes freed; with --store, a list with the path of each"
)
@click.argument("file", required=False, type=arguments.SESSION_FILE)
@arguments.own_store(
    metavar="[DIR|URL]",
    help="Without FILE: all sessions in the folder DIR or at the address [default: the store]. "
    "With FILE: the store that it is in.",
    is_flag=False,
    flag_value=_DEFAULT_STORE,
)
@click.option("--dry-run", is_flag=True, help="Only report what would be removed.")
@arguments.time("--as-of", "Use this time as the current time")
def gc(
    file: str | None, folder: str | None, dry_run: bool, as_of: datetime | None, as_json: bool
) -> None:
    """\b
    - If a scratch lane was not kept, gc moves its entries to an archive beside the file.
      An entry is moved when the entry and all entries below it are seven days old.
    - An archive is removed after thirty days.
    - A blob that no entry uses is removed after seven days.
    - An unfinished blob of an interrupted program is removed after seven days.
    - When the content of a damaged blob is stored again, the damaged file gets another
      name. gc removes that file after thirty days.

    With --store, gc prints one line for each session that has something to remove. If gc fails for
    a session, it goes on with the other sessions, and the exit code is 1.
    """
    if file is None and folder is None:
        raise click.UsageError("give FILE, or --store for all sessions of the store")
    if file is not None and folder == _DEFAULT_STORE:
        raise click.UsageError("give FILE, or --store without it for all sessions of the store")
    if file is None:
        _collect_store(folder or None, as_of, dry_run=dry_run, as_json=as_json)
    else:
        _collect_file(file, as_of, dry_run=dry_run, as_json=as_json)


def _collect_store(
    folder: str | None, as_of: datetime | None, *, dry_run: bool, as_json: bool
) -> None:
    from sessiontree.cli.lookup import store_at  # heavy, and only for this

    store = store_at(folder)
    problems: list[str] = []
    count = 0
    with ProgressBar("Removing garbage") as shown:

        def each(file: str, done: GcResult) -> None:
            nonlocal count
            count += 1
            shown(count, None)
            if not (done.is_empty or as_json):
                out(f"{file}: {_in_short(done, dry_run=dry_run)}")

        found = store.gc(now=as_of, dry_run=dry_run, each=each, report=problems.append)
    if as_json:
        out_json_list({"file": file, **done.as_dict()} for file, done in found.items())
    finish()
    freed = sum(done.freed for done in found.values())
    verb = "would be freed" if dry_run else "freed"
    of = f"{len(found):,} of {counted(count, 'session')}"
    tell(f"{store.root}: garbage in {of}; {freed:,} bytes {verb}")
    for problem in problems:
        tell(f"Error: {problem}")
    end(problems)


def _in_short(done: GcResult, *, dry_run: bool) -> str:
    """What was removed from a session, on one line."""
    verb = "would be " if dry_run else ""
    entries = counted(len(done.entries), "entry", "entries")
    into = [f"{entries} {verb}moved into {done.archive}"] if done.entries else []
    kinds: dict[str, Sized] = {
        "archive": done.archives,
        "blob": done.blobs,
        "unfinished file": done.unfinished,
        "damaged file": done.aside,
    }
    removed = ", ".join(counted(len(each), kind) for kind, each in kinds.items() if each)
    gone = [f"{removed} {verb}removed"] if removed else []
    return "; ".join([*into, *gone, f"{done.freed:,} bytes"])


def _collect_file(file: str, as_of: datetime | None, *, dry_run: bool, as_json: bool) -> None:
    with reading(file) if dry_run else writing(file) as session:
        done = session.gc(dry_run=dry_run, now=as_of)
    if as_json:
        out_json(done)
        return
    removed = {
        "entries": [
            f"entry {short(e.uuid)} of {one_line(e.lane or '')}, written {e.timestamp}"
            for e in done.entries
        ],
        "archives": [f"archive {path}, older than thirty days" for path in done.archives],
        "blobs": [f"blob {b.sha256[:12]}, {b.size:,} bytes, used by no entry" for b in done.blobs],
        "unfinished files": [f"unfinished file {name}" for name in done.unfinished],
        "damaged files": [f"damaged file {name}, kept for thirty days" for name in done.aside],
    }
    for kind, lines in removed.items():
        for line in lines[:_MOST_SHOWN]:
            out(line)
        if len(lines) > _MOST_SHOWN:
            out(f"and {len(lines) - _MOST_SHOWN:,} more {kind}; --json lists all")
    if not any(removed.values()):
        tell(f"{file}: nothing to remove")
        return
    verb = "would be " if dry_run else ""
    into = f"{verb}moved into {done.archive}" if done.archive else f"{verb}removed"
    tell(f"{counted(len(done.entries), 'entry', 'entries')} {into}; {done.freed:,} bytes freed")


@arguments.file_command("migrate", json="what was done")
def migrate(file: str, as_json: bool) -> None:
    """The original file is kept as FILE.v1."""
    session, original = open_migrated(file)
    with session:
        entries = len(session.reader.index())
    if original is None:
        tell(f"{file} has the current version already; nothing was done")
    else:
        tell(f"{counted(entries, 'entry', 'entries')}, the header included")
    if as_json:
        migrated = original is not None
        out_json({"file": file, "migrated": migrated, "original": original, "entries": entries})
