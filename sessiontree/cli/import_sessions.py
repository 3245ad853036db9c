"""The command `import`: converts the sessions of other agents to sessiontree files."""

from __future__ import annotations

import click
import msgspec

from sessiontree.cli import arguments
from sessiontree.cli.arguments import PATH, PLACE
from sessiontree.cli.lookup import relative_path, store_at
from sessiontree.cli.output import out_json_list
from sessiontree.cli.terminal import Progress, counted, end, finish, out, tell, tell_each
from sessiontree.core.damage import damage_row
from sessiontree.core.display import one_line
from sessiontree.core.notes import in_short
from sessiontree.importing import Importer, ImportResult
from sessiontree.importing.batch import Batch


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
