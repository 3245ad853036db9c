"""Commands that show the turns of a session and its names: tree, labels, diff."""

from __future__ import annotations

from collections.abc import Iterator

import click

from sessiontree.cli import arguments
from sessiontree.cli.opening import reading
from sessiontree.cli.outline import Picture
from sessiontree.cli.output import out_json_list
from sessiontree.cli.screen import no_pager, screen, show
from sessiontree.cli.turn import opened_turn, turns_named
from sessiontree.core.display import printable
from sessiontree.session import Session


@arguments.file_command(
    "tree", json="a list of all entries in file order; with --turn, of one turn"
)
@click.option("--turn", metavar="TURN", help="Show one turn: its number, or a REF in it.")
@click.option(
    "--depth",
    type=click.IntRange(0),
    metavar="N",
    help="Open subagents, and fold branches and subagents that are more than N levels deep.",
)
@click.option("--all", "all_", is_flag=True, help="Draw every entry, not only the turns.")
@no_pager
def tree(
    file: str, turn: str | None, depth: int | None, all_: bool, no_pager: bool, as_json: bool
) -> None:
    """Each row is a turn: the prompt, and what was done until the next prompt. ● marks a turn on
    the current path. ○ marks any other turn. The number of a turn does not change while the
    session grows. A row below a turn can show a compaction, a summary, a failed answer or a
    subagent. The last turn of a branch also shows the end of the work: what the model said.

    Tokens are those read and written, without those read from a cache. The cost is the cost that
    the agent reported.
    """
    if sum((turn is not None, depth is not None, all_)) > 1:
        raise click.UsageError("give only one of --turn, --depth and --all")
    with reading(file) as session:
        if as_json:
            out_json_list(_rows(session, turn))
            return
        show(_lines(session, turn, depth, all_=all_), paged=not no_pager)


def _rows(session: Session, turn: str | None) -> Iterator[object]:
    if turn is None:
        return session.tree()
    uuids = {entry.uuid for one in turns_named(session, turn) for entry in session.turn(one)}
    return (row for row in session.tree() if row.uuid in uuids)


def _lines(session: Session, turn: str | None, depth: int | None, *, all_: bool) -> Iterator[str]:
    if all_:
        return map(printable, session.render(all=True))
    if turn is not None:
        return opened_turn(session, turn, screen())
    return Picture(session.outline(), screen(), depth).lines()
