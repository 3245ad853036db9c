"""Commands that care for a file: verify, repair, gc, follow."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import click

from sessiontree.cli.arguments import PATH, file_argument, json_option, session_file
from sessiontree.cli.opening import reading, writing
from sessiontree.cli.output import out_json, out_json_list, speaker
from sessiontree.cli.terminal import finish, out, short, tell
from sessiontree.core.damage import NEXT_STEP, Damage
from sessiontree.core.display import one_line
from sessiontree.engine.repair import Progress, RepairResult
from sessiontree.errors import MissingHeaderError, SessionTreeError, StorageError
from sessiontree.session import Session, repair_file
from sessiontree.storage.atomic import strays
from sessiontree.storage.files import BLOBS
from sessiontree.storage.fs import DISK
from sessiontree.text.preview import preview

PATIENCE_SECONDS = 1.0
"""How long a command may be silent on a terminal before it shows its progress."""


MOST_SHOWN = 20
"""Lines of one kind that are printed of what `gc` takes out."""


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=PATH)
@json_option("a list of the findings")
@click.pass_context
def verify(context: click.Context, files: tuple[str, ...], as_json: bool) -> None:
    """Read everything, and say what is not sound.

    Checks every line, checksum, uuid, parent and reference. Exits with 1 if
    anything is damaged. Changes nothing.
    """
    found: list[Damage] = []
    failed = False
    for given in files:
        try:
            file = session_file(given)
            with Session.open(file, readonly=True) as session, _progress(file) as progress:
                damage = session.verify(progress, processes=None)
                left = strays(DISK, file)
                unfinished: list[str] = []
                with contextlib.suppress(StorageError):  # which is among the findings
                    unfinished = session.blobs.unfinished()
        except SessionTreeError as error:
            if len(files) == 1:
                raise
            tell(f"Error: {error}")
            failed = True
            continue
        found += damage
        tell(f"{file}: {_counted(len(damage))}")
        for stray in left:
            tell(f"{stray}: left by something cut short, if nothing is at work now; remove it")
        if unfinished:
            tell(f"{_unfinished(file, unfinished)}; gc takes it out when it is seven days old")
    if as_json:
        out_json_list(_as_dict(finding) for finding in found)
    else:
        _out_findings(found)
    finish()
    context.exit(1 if found or failed else 0)


def _counted(findings: int) -> str:
    return {0: "sound", 1: "1 finding"}.get(findings, f"{findings:,} findings")


def _unfinished(file: str, names: list[str]) -> str:
    """What was left of blobs that were being stored."""
    first = os.path.join(os.path.realpath(file) + BLOBS, names[0])
    more = f", and {len(names) - 1:,} more beside it" if len(names) > 1 else ""
    return f"{first}{more}: left by something cut short, if nothing is at work now"


def _as_dict(damage: Damage) -> dict[str, str | int]:
    return {
        "file": damage.file,
        "line": damage.line,
        "offset": damage.offset,
        "kind": damage.kind,
        "cause": damage.cause,
        "next": NEXT_STEP[damage.kind],
    }


def _out_findings(found: list[Damage]) -> None:
    for damage in found:
        place = f"{damage.file}:{damage.line}: byte {damage.offset}"
        out(f"{place}: {damage.kind}: {damage.cause}; {NEXT_STEP[damage.kind]}")


@contextlib.contextmanager
def _progress(file: str) -> Iterator[Progress | None]:
    """A bar on the terminal, once it takes longer than people like to wait in the dark."""
    if not sys.stderr.isatty():
        yield None
        return
    with contextlib.ExitStack() as shown:
        started = time.monotonic()
        bar = None
        done_before = 0

        def progress(done: int, size: int) -> None:
            nonlocal bar, done_before
            if bar is None and time.monotonic() - started > PATIENCE_SECONDS:
                made = click.progressbar(length=size, label=f"Reading {file}", file=sys.stderr)
                bar = shown.enter_context(made)
            if bar is not None:
                bar.update(done - done_before)
                done_before = done

        yield progress


def _moment(ctx: click.Context, option: click.Parameter, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is no moment; write it as 2026-01-31T12:00:00Z", ctx, option
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


@click.command()
@file_argument
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--now", metavar="MOMENT", callback=_moment, help="Count from this moment (UTC).")
@json_option("what went, and the bytes freed")
def gc(file: str, dry_run: bool, now: datetime | None, as_json: bool) -> None:
    """Take out what was tried and never kept.

    Entries of scratch lanes that nothing lasting reaches go seven days after the last
    of them was written, into an archive beside the file, and thirty days later the
    archive goes. Blobs that no entry names go after seven days, as do unfinished ones
    that a program left when it was killed, and damaged ones that were stored again,
    and kept aside, after thirty.
    """
    with reading(file) if dry_run else writing(file) as session:
        done = session.gc(dry_run=dry_run, now=now)
    if as_json:
        out_json(done.as_dict())
        return
    verb = "would go" if dry_run else "went"
    _out_some(
        [
            f"entry {short(entry.uuid)} of {one_line(entry.lane or '')}, written {entry.timestamp}"
            for entry in done.entries
        ],
        "entries",
    )
    for path in done.archives:
        out(f"archive {path}, older than thirty days")
    _out_some(
        [f"blob {b.sha256[:12]}, {b.size:,} bytes, named by no entry" for b in done.blobs], "blobs"
    )
    _out_some([f"unfinished file {name}" for name in done.unfinished], "unfinished files")
    for name in done.aside:
        out(f"damaged file {name}, kept aside for thirty days")
    if not (done.entries or done.archives or done.blobs or done.unfinished or done.aside):
        tell(f"{file}: nothing to take out")
        return
    count = len(done.entries)
    where = f" into {done.archive}" if done.archive else ""
    tell(f"{count:,} entr{'y' if count == 1 else 'ies'} {verb}{where}; {done.freed:,} bytes in all")


def _out_some(shown: list[str], kind: str) -> None:
    """Print lines; of more than people read, how many more there are."""
    for line in shown[:MOST_SHOWN]:
        out(line)
    if len(shown) > MOST_SHOWN:
        out(f"and {len(shown) - MOST_SHOWN:,} more {kind}; --json lists all")


@click.command()
@file_argument
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@json_option("what was mended, where the original is, and what remains")
@click.pass_context
def repair(context: click.Context, file: str, dry_run: bool, as_json: bool) -> None:
    """Mend what can be mended without guessing.

    Takes out torn fragments, NUL bytes and blank lines, parts fused lines, adopts
    lines without uuids, and writes a lost header anew. The original is kept beside
    the file. Exits with 1 if damage remains that only guessing could mend, and lists it.
    """
    if dry_run:
        with Session.open(file, readonly=True) as session:
            done = session.repair(dry_run=True)
    else:
        done = _repaired(file)
    if as_json:
        out_json(
            {
                "mended": done.mended,
                "original": done.evidence,
                "remaining": [_as_dict(damage) for damage in done.remaining],
            }
        )
    else:
        for mending in done.mended:
            what = _not_done(mending.what) if dry_run else mending.what
            out(f"{file}:{mending.line}: byte {mending.offset}: {what}")
        if not dry_run:
            _out_findings(done.remaining)
    finish()
    _tell_outcome(file, done, dry_run=dry_run)
    context.exit(1 if done.remaining and not dry_run else 0)


def _repaired(file: str) -> RepairResult:
    """A file mended, also one that is migrated first, or that no session can write to."""
    try:
        with writing(file) as session:
            return session.repair()
    except MissingHeaderError:
        return repair_file(file)


def _not_done(what: str) -> str:
    """What a mending would have done, from the words for what it did."""
    return f"would have {what.replace('took out', 'taken out', 1)}"


def _tell_outcome(file: str, done: RepairResult, *, dry_run: bool) -> None:
    count, remaining = len(done.mended), len(done.remaining)
    if not count:
        tell(f"{file}: nothing to mend")
    elif dry_run:
        tell(f"{file}: {count:,} to mend; nothing was written")
    else:
        tell(f"{file}: {count:,} mended; the original is kept as {done.evidence}")
    if remaining and not dry_run:
        verb = "remains" if remaining == 1 else "remain"
        tell(f"{file}: {_counted(remaining)} {verb}, not to be mended by guessing")


@click.command()
@file_argument
@json_option("each entry as stored, a line each,")
def follow(file: str, as_json: bool) -> None:
    """Print each entry that is added, as it comes.

    Goes on until interrupted, also when the file is migrated or repaired. What is
    added and is not sound is told on standard error. Another agent's own file is not
    followed: import it.
    """
    with Session.open(file, readonly=True) as session:
        for entry in session.follow(lambda damage: tell(str(damage))):
            if as_json:
                out_json(entry)
            else:
                out(f"{short(entry.uuid):<8}  {speaker(entry):<14}  {preview(entry)}".rstrip())
            finish()
