"""Commands between stores: copy, sync."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import click

from sessiontree.catalog.copies import CopyResult, Mirror
from sessiontree.catalog.union import SyncResult
from sessiontree.catalog.union import sync as sync_all
from sessiontree.cli import arguments
from sessiontree.cli.arguments import PLACE, SESSION_FILE, session_file
from sessiontree.cli.lookup import is_folder
from sessiontree.cli.output import out_json
from sessiontree.cli.terminal import counted, end, finish, out, tell, tell_each
from sessiontree.operations.copy import CopiedSession
from sessiontree.operations.sync import SyncedSession


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


def _out_result(result: CopyResult | SyncResult, done: str, *, as_json: bool) -> None:
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
