"""Commands that look after a file: verify, repair, gc, migrate."""

from __future__ import annotations

import os
from collections.abc import Sized

import click

from sessiontree.cli import arguments
from sessiontree.cli.arguments import SESSION_NAME
from sessiontree.cli.derive import CommandCall, renders
from sessiontree.cli.lookup import store_at
from sessiontree.cli.opening import open_migrated
from sessiontree.cli.output import out_findings, out_json, out_json_list
from sessiontree.cli.terminal import ProgressBar, end, finish, out, short, tell
from sessiontree.core.damage import Damage, damage_row, in_short
from sessiontree.core.display import one_line
from sessiontree.engine.gc import GcResult
from sessiontree.engine.repair import RepairResult
from sessiontree.errors import AgentRecordError, SessionTreeError
from sessiontree.library.one import verified
from sessiontree.library.places import files_in, is_folder
from sessiontree.ops.care import HEALTH as HEALTH
from sessiontree.ops.care import Gc, Repair, StoreGarbage
from sessiontree.session import Session
from sessiontree.storage.names import BLOBS, Report
from sessiontree.text.amounts import counted

_MAX_SHOWN = 20
_REST = "no running program writes it, it is a leftover"


@arguments.command("verify", json="a list of the findings")
@click.argument("places", nargs=-1, metavar="[DIR|FILE]…", type=SESSION_NAME)
def verify(places: tuple[str, ...], as_json: bool) -> None:
    """Every line, checksum, uuid, parent and reference is checked, and no file changes. DIR is any
    folder of sessions, or the address of a store. Without DIR and FILE, all sessions of the store
    are checked. The exit code is 1 if there is damage.
    """
    found: list[Damage] = []
    problems: list[str] = []
    for given in places or (store_at(None).root,):
        if not places or is_folder(given):
            found += _verified_in(given, problems.append)
            continue
        try:
            found += _verified(arguments.session_file(given))
        except SessionTreeError as error:
            if len(places) == 1:
                raise
            problems.append(str(error))
    out_json_list(map(damage_row, found)) if as_json else out_findings(found)
    finish()
    for problem in problems:
        tell(f"Error: {problem}")
    end(found or problems)


def _verified_in(folder: str, report: Report) -> list[Damage]:
    """The damage of all sessions in a folder or at an address."""
    found: list[Damage] = []
    files = sorted(files_in([folder], report))
    with ProgressBar("Verifying") as shown:
        for number, file in enumerate(files):
            shown(number, len(files), os.path.basename(file))
            try:
                with Session.open(file, readonly=True) as session:
                    found += verified(session, file, _untold).damage
            except AgentRecordError:
                continue  # not a session
            except SessionTreeError as error:
                report(str(error))
    damage = counted(len(found), "finding") if found else "no damage found"
    tell(f"{folder}: {counted(len(files), 'session')}, {damage}")
    return found


def _untold(done: int, size: int) -> None:
    """The sessions are counted, not their bytes."""


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


@renders(RepairResult)
def _(call: CommandCall, done: RepairResult) -> None:
    given = call.given
    assert isinstance(given, Repair)
    file, is_trial = given.session, given.dry_run
    if call.as_json:
        remaining = [damage_row(damage) for damage in done.remaining]
        out_json({"mended": done.mended, "original": done.evidence, "remaining": remaining})
    else:
        for mending in done.mended:
            what = f"would have {mending.what}" if is_trial else mending.what
            out(f"{file}:{mending.line}: byte {mending.offset}: {what}")
        if not is_trial:
            out_findings(done.remaining)
    finish()
    count = len(done.mended)
    if given.out is not None:
        what = f"{count:,} repaired" if count else "nothing to repair"
        tell(f"{file}: {what}; the sound copy is {given.out}")
    elif not count:
        tell(f"{file}: nothing to repair")
    elif is_trial:
        tell(f"{file}: {count:,} to repair; nothing was written")
    else:
        tell(f"{file}: {count:,} repaired; the original is kept as {done.evidence}")
    if done.remaining and not is_trial:
        rest = counted(len(done.remaining), "finding remains", "findings remain")
        tell(f"{file}: {rest}; repair does not guess")
        end(rest)


@renders(StoreGarbage)
def _(call: CommandCall, done: StoreGarbage) -> None:
    is_trial = _is_trial(call)
    if call.as_json:
        out_json_list({"file": file, **one.as_dict()} for file, one in done.found.items())
    else:
        for file, one in done.found.items():
            out(f"{file}: {_in_short(one, dry_run=is_trial)}")
    finish()
    freed = sum(one.freed for one in done.found.values())
    verb = "would be freed" if is_trial else "freed"
    of = f"{len(done.found):,} of {counted(done.sessions, 'session')}"
    tell(f"{done.root}: garbage in {of}; {freed:,} bytes {verb}")
    for problem in done.problems:
        tell(f"Error: {problem}")
    end(done.problems)


def _is_trial(call: CommandCall) -> bool:
    assert isinstance(call.given, Gc)
    return call.given.dry_run


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


@renders(GcResult)
def _(call: CommandCall, done: GcResult) -> None:
    if call.as_json:
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
        for line in lines[:_MAX_SHOWN]:
            out(line)
        if len(lines) > _MAX_SHOWN:
            out(f"and {len(lines) - _MAX_SHOWN:,} more {kind}; --json lists all")
    if not any(removed.values()):
        assert isinstance(call.given, Gc)
        tell(f"{call.given.session}: nothing to remove")
        return
    verb = "would be " if _is_trial(call) else ""
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
