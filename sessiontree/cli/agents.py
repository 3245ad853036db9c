"""The commands about agents' programs: backup, record and resume."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import click
from msgspec.structs import replace

from sessiontree.agents import command_of
from sessiontree.cli import arguments
from sessiontree.cli.arguments import PATH, PLACE
from sessiontree.cli.derive import described
from sessiontree.cli.lookup import places_at, relative_path, store_at
from sessiontree.cli.opening import ConflictWarning, LaneOptions, lane_note
from sessiontree.cli.output import out_json, tell_losses
from sessiontree.cli.terminal import (
    ProgressBar,
    drop_output,
    end,
    finish,
    out,
    short,
    tell,
    tell_each,
)
from sessiontree.core.entry import MAIN
from sessiontree.errors import NothingToDoError, SessionNotFoundError, SessionTreeError, UsageError
from sessiontree.importing.backup import Backup, BackupResult, watched
from sessiontree.importing.importer import ImportResult
from sessiontree.library.listing import SessionInfo
from sessiontree.library.lookup import tell_left_out
from sessiontree.library.resume import plan, session_to_resume
from sessiontree.library.root import cache_folder, environment
from sessiontree.ops.intake import CommandToResume, Record
from sessiontree.recording import events
from sessiontree.recording.events import MessageCount
from sessiontree.recording.recorder import StreamAccumulator, header_facts
from sessiontree.session import Session
from sessiontree.text.amounts import counted

_MAX_TOLD: Final = 10_000
"""The problems that `--watch` remembers, to report each of them once."""


@arguments.command("backup", json="what was kept and what was not; with --watch, one line a pass")
@click.argument("paths", metavar="[PATH]…", nargs=-1, type=PATH)
@arguments.store
@click.option("--watch", is_flag=True, help="Go on: back up after each change, until Ctrl-C.")
@click.option("--verbose", "-v", is_flag=True, help="Also print each session that is kept.")
@click.option("--quiet", is_flag=True, help="Print only what could not be kept.")
def backup(
    paths: tuple[str, ...],
    folder: str | None,
    watch: bool,
    verbose: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Without PATH, 'backup' finds the sessions of all agents that sessiontree reads, where these
    agents keep them (see 'ls --help'). PATH is a session file of an agent, or a folder of such
    files. The command never changes these files.

    The command prints one line; with --verbose also one for each session. Run it again to add what
    is new. Each file becomes a session in the store, as with
    'import'; the store is a folder or an address. What an agent deletes or shortens stays in the
    store. 'resume ID' puts a deleted session back where its agent looks, if sessiontree writes
    files of this agent; 'resume ID --in AGENT' continues it in another agent. A session in the
    trash of the store stays there until its agent goes on with it.

    What was written is read back before it counts as kept. A content that several sessions have is
    stored once. If a file cannot be read, or a session cannot be stored, the command reports it,
    backs up all others, and the exit code is 1. A file that did not change is not read again.

    \b
    Example:
      sessiontree backup
      sessiontree backup --watch
    """
    stop = threading.Event()
    made = Backup(store_at(folder).root, paths, cache=cache_folder(), stop=stop)
    told = _BackupLines(verbose=verbose, quiet=quiet, as_json=as_json)
    if watch:
        with _stopping(stop):
            _watch(made, stop, told, folder)
        return
    result = told.passed(made)
    told.end(result)
    if not (made.places() or result.kept_alone or quiet or as_json):
        tell("No agent keeps sessions here; name a folder, or set the variables of 'ls --help'")
    end(result.failed)


class _BackupLines:
    """Prints what passes of a backup did."""

    def __init__(self, *, verbose: bool, quiet: bool, as_json: bool) -> None:
        self._is_verbose = verbose
        self._is_silent = quiet
        self._as_json = as_json

    def passed(self, backup: Backup) -> BackupResult:
        """Make a pass; if asked to, print each session as soon as it is kept."""
        with ProgressBar("Backing up") as shown:
            return backup.run(shown, self._each)

    def _each(self, result: ImportResult) -> None:
        if self._as_json or not self._is_verbose:
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
        text += (
            f"; {count} kept that the agents no longer have: 'resume ID [--in AGENT]' continues one"
        )
    return text


def _watch(backup: Backup, stop: threading.Event, told: _BackupLines, folder: str | None) -> None:
    def run() -> BackupResult:
        store_at(folder)  # which may be on a disk that was taken away
        return told.passed(backup)

    known: set[str] = set()

    def is_new(text: str) -> bool:
        if text in known or len(known) > _MAX_TOLD:
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


_CHUNK: Final = 1 << 16


@arguments.command("record", json="each event on a line of its own")
@click.argument("file", type=PLACE)
@described(Record, "prompt", "granularity", "lane", "scratch")
def record(
    file: str,
    prompt: str | None,
    granularity: Any,
    lane: str | None,
    scratch: bool,
    as_json: bool,
) -> None:
    """The command reads the stream-JSON output of Claude Code from standard input, with or
    without partial messages. If FILE does not exist, the command creates FILE.

    An event that was recorded before is not recorded again. So you can send a stream again from its
    start, or continue a stream that was cut off. An event is recognized by its uuid, and a message
    by its id. An event with neither a uuid nor a message id is recorded again.

    \b
    Example:
      claude -p "Build a CLI" --output-format stream-json --verbose \\
        --include-partial-messages | sessiontree record chat.jsonl --prompt "Build a CLI"
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError(
            "pipe the agent's stream in: "
            "claude -p … --output-format stream-json --verbose | sessiontree record FILE"
        )
    on = LaneOptions(lane, scratch)
    stream: Any = sys.stdin.buffer
    chunk = stream.read1(_CHUNK)
    if not chunk:
        raise NothingToDoError("standard input is empty; nothing was recorded")
    printer = _EventPrinter(as_json)
    with contextlib.ExitStack() as stack:
        session, chunk = _opened(file, on, stream, chunk, stack)
        accumulator = StreamAccumulator(session, granularity=granularity, prompt=prompt)
        try:
            while chunk:
                printer.print(accumulator.feed(chunk))
                chunk = stream.read1(_CHUNK)
        finally:  # the last events of an interrupted agent are stored too
            rest = accumulator.close()
        printer.print(rest)
        session.refresh()  # warns of what another writer added since the last entry
        head = accumulator.head.uuid
    if not accumulator.recognized:
        raise NothingToDoError(
            f"nothing in the stream was understood; it is stored as it came, in {file}. 'record' "
            "reads the output of Claude Code: claude -p … --output-format stream-json --verbose; "
            "for session files of other agents, use 'sessiontree import FILE'"
        )
    messages = counted(printer.counted.messages, "message")
    done = f"Recorded {messages} of the model; the leaf of {file} is {short(head)}"
    tell(done + lane_note(file, session))
    if not as_json:
        out(head)


def _opened(
    file: str, on: LaneOptions, stream: Any, first: bytes, stack: contextlib.ExitStack
) -> tuple[Session, bytes]:
    """The session, created if it does not exist, and what was read of the stream."""
    try:
        return stack.enter_context(on.writing(file, hold=False)), first
    except SessionNotFoundError:
        chunks = [first]
        while b"\n" not in chunks[-1] and (more := stream.read1(_CHUNK)):
            chunks.append(more)
        first = b"".join(chunks)
        lane, hooks = on.name(), [ConflictWarning()]
        facts = header_facts(first, is_main=lane == MAIN and not on.scratch)
        made = Session.create(file, lane=lane, hooks=hooks, **facts)
        session = stack.enter_context(made)
        tell(f"Created {file}, session {session.id}")
        return stack.enter_context(on.on(session)), first


class _EventPrinter:
    """Prints the events as they come, and counts them."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self.counted = MessageCount()

    def print(self, batch: Sequence[events.StreamEvent]) -> None:
        """Print the next events; recording goes on if the reader has closed the pipe."""
        self.counted.take(batch)
        try:
            for event in batch:
                self._print(event)
            finish()
        except BrokenPipeError:
            drop_output()

    def _print(self, event: events.StreamEvent) -> None:
        if self._as_json:
            out_json(event)
        elif isinstance(event, events.Complete):
            tell(f"Complete: {event.usage.output:,} output tokens, ${event.usage.cost:.4f}")
        elif isinstance(event, events.Err) and not event.message.startswith("line "):
            tell(f"Warning: {event.message}")


@arguments.command("resume", json="the command, its folder, and what the agent cannot keep")
@click.argument("session", metavar="[ID]", required=False, type=arguments.SESSION_NAME)
@described(CommandToResume, "agent", "cwd")
@click.option("--exec", "runs", is_flag=True, help="Run the command instead of printing it.")
def resume(
    session: str | None, agent: str | None, cwd: str | None, runs: bool, as_json: bool
) -> None:
    """Print the command by which an agent continues a session. With --exec, run the command.

    ID is the path of a session file, the id of a session, the first four or more characters of an
    id, a name, or 'latest'. 'resume' finds the sessions in the store, and the sessions of all
    agents that sessiontree reads, where these agents keep them. Without ID, 'resume' takes the
    newest session whose working directory is the current directory.

    An agent continues its own session as it is, also if ID names a recording of it. For a session
    of another agent, or of sessiontree, and for one that the agent does not find from the working
    directory, 'resume' writes a copy where the agent looks for its sessions. 'resume' reports the
    copy, and what the agent cannot keep. It never replaces a file and never changes the session
    itself. For OpenCode and Kilo CLI, which keep sessions in a database, the command has two
    parts: the first imports the copy. An agent for which sessiontree writes no files continues only
    its own sessions, each in its own folder.
    """
    if runs and as_json:
        raise click.UsageError("--exec runs the command, and --json prints it; give one of them")
    problems: list[str] = []
    try:
        one = session_to_resume(session, os.getcwd(), places_at(), problems.append)
    except SessionTreeError:
        tell_left_out(problems, tell)
        raise
    resume_session(one, agent, cwd, runs=runs, as_json=as_json)


def resume_session(
    one: SessionInfo,
    agent: str | None,
    cwd: str | None = None,
    *,
    runs: bool,
    as_json: bool = False,
) -> None:
    """Print the command by which an agent continues a session, or run it."""
    found = plan(one, agent, cwd, before=_check_installed if runs else lambda program: None)
    if found.is_converted:
        tell(f"Converted {one.file} for {found.program}: {found.file}")
    tell_losses(found.agent, found.losses)
    for warning in found.warnings:
        tell(f"Warning: {warning}")
    if runs:
        finish()
        with_store = environment()  # before the directory changes
        os.chdir(found.cwd)
        if found.setup and (code := subprocess.call(found.setup, env=with_store)):
            raise click.exceptions.Exit(code)
        os.execvpe(found.command[0], found.command, with_store)
    program = command_of(found.agent)
    if shutil.which(program) is None:
        tell(f"{_not_installed(program)}; the command works once it is installed")
    out_json(found) if as_json else out(found.line)


def _check_installed(program: str) -> None:
    if shutil.which(program) is None:
        raise UsageError(f"{_not_installed(program)}; install it, or leave out --exec")


def _not_installed(program: str) -> str:
    return f"{program!r} is not on the PATH"
