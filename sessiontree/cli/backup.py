"""The command `backup`: keeps the sessions of all agents in the store, again and again."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import click
from msgspec.structs import replace

from sessiontree.catalog.counts import cache_folder
from sessiontree.catalog.root import named_store
from sessiontree.cli import arguments
from sessiontree.cli.arguments import PATH
from sessiontree.cli.lookup import relative_path, store_at, tell_without_secret
from sessiontree.cli.output import out_json
from sessiontree.cli.schedule import help_text
from sessiontree.cli.terminal import Progress, counted, end, finish, out, tell, tell_each
from sessiontree.errors import SessionTreeError
from sessiontree.importing import ImportResult
from sessiontree.importing.backup import Backup, BackupResult
from sessiontree.importing.watch import watched
from sessiontree.storage.backends import shown
from sessiontree.storage.place import path_of, whole_path

_MOST_TOLD: Final = 10_000
"""The problems that `--watch` remembers, to report each of them once."""


@arguments.command("backup", json="what was kept and what was not; with --watch, one line a pass")
@click.argument("paths", metavar="[PATH]…", nargs=-1, type=PATH)
@arguments.store
@click.option("--watch", is_flag=True, help="Go on: back up after each change, until Ctrl-C.")
@click.option("--quiet", is_flag=True, help="Print only what could not be kept.")
@click.option(
    "--install-help",
    is_flag=True,
    help="Print how cron, systemd and launchd run this command every hour, and exit.",
)
def backup(
    paths: tuple[str, ...],
    folder: str | None,
    watch: bool,
    quiet: bool,
    install_help: bool,
    as_json: bool,
) -> None:
    """Without PATH, 'backup' finds the sessions of Claude Code, Codex, the pi coding agent and
    Gemini CLI, where these agents keep them (see 'ls --help'). PATH is a session file of an agent,
    or a folder of such files. The command never changes these files.

    Run the command again to add what is new. Each file becomes a session in the store, as with
    'import'; the store is a folder or an address. What an agent deletes or shortens stays in the
    store. 'resume ID' puts a deleted session back where its agent looks. A session in the trash of
    the store stays there until its agent goes on with it.

    What was written is read back before it counts as kept. A content that several sessions have is
    stored once. If a file cannot be read, or a session cannot be stored, the command reports it,
    backs up all others, and the exit code is 1. A file that did not change is not read again.

    \b
    Example:
      sessiontree backup
      sessiontree backup --watch
    """
    if install_help:
        if watch or as_json:
            raise click.UsageError("--install-help takes neither --watch nor --json")
        given = named_store() if folder is None else folder
        out(help_text(_scheduled(paths, given)))
        tell_without_secret(given or "")
        return
    stop = threading.Event()
    made = Backup(store_at(folder).root, paths, cache=cache_folder(), stop=stop)
    told = _Told(quiet=quiet, as_json=as_json)
    if watch:
        with _stopping(stop):
            _watch(made, stop, told, folder)
        return
    result = told.passed(made)
    told.end(result)
    if not (made.places() or result.kept_alone or quiet or as_json):
        tell("No agent keeps sessions here; name a folder, or set the variables of 'ls --help'")
    end(result.failed)


def _scheduled(paths: tuple[str, ...], folder: str | None) -> list[str]:
    store = [] if not folder else ["--store", whole_path(shown(path_of(folder)))]
    return ["backup", "--quiet", *store, *map(os.path.abspath, paths)]


class _Told:
    """Prints what passes of a backup did."""

    def __init__(self, *, quiet: bool, as_json: bool) -> None:
        self._is_silent = quiet
        self._as_json = as_json

    def passed(self, backup: Backup) -> BackupResult:
        """Make a pass, and print each session as soon as it is kept."""
        with Progress("Backing up") as shown:
            return backup.run(shown, self._each)

    def _each(self, result: ImportResult) -> None:
        if self._as_json or self._is_silent:
            return
        kind = "new" if result.made else "grown"
        parts = [kind, counted(result.new, "new entry", "new entries")]
        parts += [counted(result.blobs, "blob")] if result.blobs else []
        file, source = relative_path(result.file), relative_path(result.source)
        out(f"{file}  {', '.join(parts)}, from {source}")

    def end(self, result: BackupResult) -> None:
        """Print what a pass did, and what it could not keep."""
        if self._as_json:
            out_json(result)
        finish()
        if not self._is_silent:
            tell_each("Note", result.notes)
            tell(_summary(result))
        tell_each("Not kept", [str(failure) for failure in result.failed])


def _summary(result: BackupResult) -> str:
    text = (
        f"{len(result.new):,} new, {len(result.grown):,} grown, {result.unchanged:,} unchanged in "
        f"{relative_path(result.store)}"
    )
    if result.trashed:
        text += f"; {result.trashed:,} in the trash"
    if result.kept_alone:
        count = counted(len(result.kept_alone), "session")
        text += f"; {count} kept that the agents no longer have: 'resume ID' puts one back"
    return text


def _watch(backup: Backup, stop: threading.Event, told: _Told, folder: str | None) -> None:
    def run() -> BackupResult:
        store_at(folder)  # which may be on a disk that was taken away
        return told.passed(backup)

    known: set[str] = set()

    def is_new(text: str) -> bool:
        if text in known or len(known) > _MOST_TOLD:
            return False
        known.add(text)
        return True

    is_first = True
    for result in watched(backup, stop, run):
        if isinstance(result, SessionTreeError):
            if is_new(str(result)):
                tell(f"Error: {result}; trying again")
            continue
        failed = [failure for failure in result.failed if is_new(str(failure))]
        notes = [note for note in result.notes if is_new(note)]
        if is_first or result.new or result.grown or failed:
            told.end(replace(result, failed=failed, notes=notes))
        is_first = False
        finish()


@contextmanager
def _stopping(stop: threading.Event) -> Iterator[None]:
    """End at Ctrl-C, or when the system asks, after the file that is being imported.

    The second time, the command ends at once; what it has not yet kept, the next backup keeps.
    """
    kinds = (signal.SIGINT, signal.SIGTERM)
    before: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {
        kind: signal.getsignal(kind) for kind in kinds
    }

    def restore() -> None:
        for kind, handler in before.items():
            signal.signal(kind, handler)

    def end_soon(number: int, frame: FrameType | None) -> None:
        stop.set()
        restore()

    for kind in kinds:
        signal.signal(kind, end_soon)
    try:
        yield
    finally:
        restore()
