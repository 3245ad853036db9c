"""The command `import`: converts the sessions of other agents to sessiontree files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

import click
import msgspec

from sessiontree.cli import arguments
from sessiontree.cli.arguments import PATH
from sessiontree.cli.lookup import relative_path, store_at
from sessiontree.cli.output import out_json_list
from sessiontree.cli.terminal import Progress, counted, end, finish, out, tell, tell_each
from sessiontree.core.damage import Damage, damage_row
from sessiontree.core.display import one_line
from sessiontree.core.notes import Notes, in_short
from sessiontree.errors import FileError, NothingToDoError, SessionNotFoundError, SessionTreeError
from sessiontree.importing import Importer, ImportResult
from sessiontree.importing.source import Progress as Report

Take = Callable[[str, Report], ImportResult]  # `Importer.take` or `Importer.look`


@arguments.command("import", json="the result for each file")
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=PATH)
@click.option("-o", "--output", "folder", metavar="DIR", type=PATH, help="Write to DIR.")
@click.option("--dry-run", is_flag=True, help="Only report what would be imported.")
def import_(files: tuple[str, ...], folder: str | None, dry_run: bool, as_json: bool) -> None:
    """FILE is a session file of Claude Code (with its subagents), the pi coding agent, Codex
    or Gemini CLI, or a folder of such files. The command never changes these files.

    Each file becomes a session in your sessions folder (the store), in the subfolder for
    the working directory of the session. With -o DIR, each file becomes a session in DIR.

    Run the command again to add new entries. If you have added entries to an imported session, the
    agent's new entries go on a separate lane named after the agent. Your leaf does not move.

    \b
    Example:
      sessiontree import ~/.claude/projects
    """
    importer = Importer(folder if folder is not None else store_at(None))
    batch = _Batch(importer, files, importer.look if dry_run else importer.take)
    with Progress("Importing") as shown:
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
    batch.tell()
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


class _Batch:
    """The files of one command; `failed` if one failed that should have been imported."""

    def __init__(self, importer: Importer, given: Sequence[str], take: Take) -> None:
        self._take = take
        self._left_out: list[str] = []
        self._damage: list[Damage] = []
        self._notes = Notes()
        self._sources: dict[str, str] = {}
        self._shared: list[str] = []
        self._imported = self._updated = self._same = self._new = 0
        self.failed = False
        self._files: list[tuple[str, bool]] = []
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
            self._files += found

    def results(self, shown: Progress) -> Iterator[ImportResult]:
        """Import each file that is a session of another agent."""
        for number, (file, is_named) in enumerate(self._files):

            def report(done: float, size: float, at: int = number, file: str = file) -> None:
                shown(at + done / max(size, 1), len(self._files), os.path.basename(file))

            shown(number, len(self._files), os.path.basename(file))
            try:
                result = self._take(file, report)
            except SessionTreeError as error:
                if is_named or not isinstance(error, FileError | NothingToDoError):
                    self._fail(error)
                elif isinstance(error, FileError):
                    self._left_out.append(str(error))
                continue
            self._note(result)
            yield result

    def _note(self, result: ImportResult) -> None:
        other = self._sources.setdefault(result.file, result.source)
        if other != result.source:
            self._shared.append(
                f"{other} and {result.source} are both of the session {result.id}, and both "
                f"are in {result.file} now; if they are not one conversation, import each into "
                "a folder of its own"
            )
        self._damage += result.damage
        for note in result.notes:
            self._notes.add(note)
        self._new += result.new
        self._imported += result.made
        self._same += result.is_up_to_date
        self._updated += not (result.made or result.is_up_to_date)

    def _refuse(self, problem: str) -> None:
        self._left_out.append(problem)
        self.failed = True

    def _fail(self, error: SessionTreeError) -> None:
        if self._is_alone:
            raise error
        self.failed = True
        tell(f"Error: {error}")

    def tell(self) -> None:
        """Report what was left out or damaged, and the counts."""
        tell_each("Warning", self._shared)
        tell_each("Warning", self._damage)
        if noted := in_short(self._notes.found()):
            tell(f"Kept as custom entries: {one_line(noted, 1000)}")
        tell_each("Left out", self._left_out)
        if len(self._files) > 1 or not self._is_alone:
            tell(
                f"{self._imported:,} imported, {self._updated:,} updated, "
                f"{self._same:,} up to date; {counted(self._new, 'new entry', 'new entries')}"
            )
