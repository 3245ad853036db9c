"""The command that imports: other agents' sessions, made sessions of ours."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import click
import msgspec

from sessiontree.cli.arguments import PATH, json_option
from sessiontree.cli.output import out_json_list
from sessiontree.cli.store import store_at
from sessiontree.cli.terminal import finish, from_here, out, tell, tell_each
from sessiontree.core.damage import NEXT_STEP, Damage
from sessiontree.core.display import one_line
from sessiontree.errors import (
    FileError,
    NothingToDoError,
    SessionNotFoundError,
    SessionTreeError,
)
from sessiontree.importing import Importer, ImportResult
from sessiontree.importing.source import Progress

PATIENCE_SECONDS: Final = 1.0
"""How long to be silent on a terminal before progress is shown."""

_WIDTH: Final = 40


@click.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=PATH)
@click.option(
    "-o", "--output", "folder", metavar="DIR", type=PATH, help="Keep the sessions in DIR."
)
@click.option("--dry-run", is_flag=True, help="Say what would be imported, and write nothing.")
@json_option("what became of each file")
@click.pass_context
def import_(
    context: click.Context,
    files: tuple[str, ...],
    folder: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Import sessions of other agents, to go on with them.

    Takes files of Claude Code (with its subagents), the pi coding agent, Codex and
    Gemini CLI, and folders of them; they are read and never written. Each becomes a
    session where 'ls' finds it, in the project of its working directory, or in DIR.

    Importing again adds what is new. Whoever went on in the imported session stays
    where they are; what is new is then on a lane named after the agent.

    \b
    Example:
      sessiontree import ~/.claude/projects
    """
    importer = Importer(folder if folder is not None else store_at(None))
    batch = _Batch(importer, files, importer.look if dry_run else importer.take)
    with _shown_going_on(len(batch.files)) as progress:
        done = batch.taken(progress)
        if as_json:
            out_json_list(_as_dict(imported) for imported in done)
        else:
            for imported in done:
                out(f"{imported.file}  {_counted(imported)}, from {from_here(imported.source)}")
    finish()
    batch.tell()
    if dry_run:
        tell("This was a dry run: nothing was written")
    context.exit(1 if batch.failed else 0)


def _as_dict(imported: ImportResult) -> dict[str, Any]:
    told = msgspec.to_builtins(imported)
    damage = [{**each, "next": NEXT_STEP[each["kind"]]} for each in told["damage"]]
    return {**told, "damage": damage}


def _counted(imported: ImportResult) -> str:
    if imported.entries is None:
        return "up to date"
    entries = f"{imported.entries:,} {'entry' if imported.entries == 1 else 'entries'}"
    if imported.is_up_to_date:
        return f"up to date, {entries}"
    blobs = f", {imported.blobs:,} blob{'' if imported.blobs == 1 else 's'}"
    return f"{entries}, {imported.new:,} new{blobs if imported.blobs else ''}"


Step = Callable[[str, int, int], None]
"""Takes the file that is read, the bytes read of it, and those there are."""


Take = Callable[[str, Progress], ImportResult]
"""What is done with a file: `Importer.take` or `Importer.look`."""


class _Batch:
    """The files of one command, imported one after the other, or looked at.

    Attributes:
        files: their paths, each with whether it was named itself.
        failed: whether one could not be imported that should have been.
    """

    def __init__(self, importer: Importer, given: Sequence[str], take: Take) -> None:
        self._take = take
        self._left_out: list[str] = []
        self._damage: list[Damage] = []
        self._sources: dict[str, str] = {}
        self._shared: list[str] = []
        self._made = self._grown = self._same = self._new = 0
        self.failed = False
        self.files: list[tuple[str, bool]] = []
        self._is_alone = len(given) == 1 and not os.path.isdir(given[0])
        for path in given:
            try:
                found = [(file, file == path) for file in importer.sources(path, self._refuse)]
            except SessionNotFoundError as error:
                self._fail(error)
                continue
            if not found:
                self._left_out.append(f"there is no session file in {path}; check the path")
                self.failed = self.failed or len(given) == 1
            self.files += found

    def taken(self, progress: Step) -> Iterator[ImportResult]:
        """What became of each file that is a session of another agent."""
        for file, is_named in self.files:
            try:
                imported = self._take(file, _of(file, progress))
            except (FileError, NothingToDoError) as error:
                if is_named:
                    self._fail(error)
                elif isinstance(error, FileError):
                    self._left_out.append(str(error))
                continue
            except SessionTreeError as error:
                self._fail(error)
                continue
            finally:
                progress(file, 1, 1)
            self._note(imported)
            yield imported

    def _note(self, imported: ImportResult) -> None:
        other = self._sources.setdefault(imported.file, imported.source)
        if other != imported.source:
            self._shared.append(
                f"{other} and {imported.source} are both of the session {imported.id}, and both "
                f"are in {imported.file} now; if they are not one conversation, import each into "
                "a folder of its own"
            )
        self._damage += imported.damage
        self._new += imported.new
        if imported.made:
            self._made += 1
        elif imported.new:
            self._grown += 1
        else:
            self._same += 1

    def _refuse(self, problem: str) -> None:
        self._left_out.append(problem)
        self.failed = True

    def _fail(self, error: SessionTreeError) -> None:
        if self._is_alone:
            raise error
        self.failed = True
        tell(f"Error: {error}")

    def tell(self) -> None:
        """Tell what could not be carried over or was left out, and how many there were."""
        tell_each("Warning", self._shared)
        tell_each("Warning", self._damage)
        tell_each("Left out", self._left_out)
        if len(self.files) > 1 or not self._is_alone:
            tell(
                f"{self._made:,} imported, {self._grown:,} grew, "
                f"{self._same:,} up to date; {self._new:,} new entries"
            )


def _of(file: str, progress: Step) -> Callable[[int, int], None]:
    return lambda done, size: progress(file, done, size)


def _silent(file: str, done: int, size: int) -> None:
    """The progress of one who is not shown it."""


@contextlib.contextmanager
def _shown_going_on(count: int) -> Iterator[Step]:
    """A bar on the terminal, once it takes longer than people like to wait in the dark."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield _silent
        return
    with contextlib.ExitStack() as shown:
        bar = _Bar(count, shown)
        yield bar


class _Bar:
    """The progress of some files, shown when it has taken a while."""

    def __init__(self, count: int, shown: contextlib.ExitStack) -> None:
        self._count = count
        self._shown = shown
        self._started = time.monotonic()
        self._ended = 0
        self._bar: Any = None
        self._task: Any = None

    def __call__(self, file: str, done: int, size: int) -> None:
        if self._bar is None and time.monotonic() - self._started > PATIENCE_SECONDS:
            self._show()
        if self._bar is not None:
            name = one_line(os.path.basename(file), _WIDTH)
            part = self._ended + done / max(size, 1)
            self._bar.update(self._task, completed=part, description=name)
        if (done, size) == (1, 1):
            self._ended += 1

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import Progress  # heavy, and only a long import on a terminal needs it

        is_shown = sys.stdout is not None and sys.stdout.isatty()  # else it is data for others
        console = Console(stderr=True, soft_wrap=True)  # a long line above it stays one
        bar = Progress(console=console, transient=True, redirect_stdout=is_shown)
        self._bar = self._shown.enter_context(bar)
        self._task = bar.add_task("Importing", total=self._count)
