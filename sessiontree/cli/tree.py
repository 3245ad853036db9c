"""Commands that show the turns of a session and its names: tree, labels, diff."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click
import msgspec

from sessiontree.catalog.about import with_agent
from sessiontree.cli import arguments
from sessiontree.cli.compare import side_by_side
from sessiontree.cli.opening import reading
from sessiontree.cli.outline import Picture
from sessiontree.cli.output import out_json, out_json_list
from sessiontree.cli.screen import Screen, no_pager, screen, show
from sessiontree.cli.terminal import short, tell
from sessiontree.cli.turn import opened_turn
from sessiontree.core.display import one_line, printable
from sessiontree.core.moment import moment_of
from sessiontree.operations.labels import Label
from sessiontree.operations.turns import turns_named
from sessiontree.session import Session
from sessiontree.text.amounts import ago
from sessiontree.text.columns import columns_of, cut, filled


@arguments.file_command(
    "tree",
    json="a list of all entries in file order, or of the entries of --turn; the first entry of a "
    "turn has the outcome of the turn",
)
@click.option(
    "--turn",
    metavar="TURN",
    help="Show one turn. TURN is its number, or a REF that names an entry of the turn.",
)
@click.option(
    "--depth",
    type=click.IntRange(0),
    metavar="N",
    help="Draw N levels of branches, and of the turns of subagents. A deeper branch or subagent "
    "takes one row.",
)
@click.option("--all", "all_", is_flag=True, help="Draw every entry, not only the turns.")
@no_pager
def tree(
    file: str, turn: str | None, depth: int | None, all_: bool, no_pager: bool, as_json: bool
) -> None:
    """Each row is a turn: the prompt, and what was done until the next prompt. ● marks a turn on
    the current path. ○ marks any other turn. The number of a turn does not change while the
    session grows. A row below a turn can show a compaction, a summary, a failed answer or a
    subagent. → shows what came out of a turn: the last answer of substance. ? shows a question that
    a tool of the agent asked the user, and what the user replied. In a pager or a pipe, each turn
    has these rows. If a screen has no room for all of them, only the newest turns have them, and
    the text of → may stand behind a short prompt.

    A turn without an answer says how it ended:

    \b
    steered      the user typed the next prompt while the agent worked
    interrupted  the user interrupted the agent, and typed the next prompt
    given up     the user interrupted the agent, which did nothing more
    no output    the agent gave neither a text nor a call
    no answer    the agent wrote nothing after its last call
    unfinished   the session ends before the agent answers
    broke off    the answer has no end

    If an outline is longer than the terminal, it begins with rows marked 'last:', which repeat the
    last turn. Each side branch is then one row. --depth 9 shows the side branches whole.

    The number of tokens does not include tokens that were read from a cache. The cost is the cost
    that the agent reported.

    Handles are not resolved, except with --turn: a handle is shown as its preview or its text.
    """
    if sum((turn is not None, depth is not None, all_)) > 1:
        raise click.UsageError("give only one of --turn, --depth and --all")
    with reading(file) as session:
        if as_json:
            out_json_list(_rows(session, turn))
            return
        show(_lines(session, turn, depth, all_=all_), paged=not no_pager)


def _rows(session: Session, turn: str | None) -> Iterator[object]:
    """The rows of the entries; the first one of a turn says how the turn ended."""
    outline = session.outline()
    outcomes = {one.uuid: one.outcome for one in outline.turns}
    opened = [] if turn is None else [one for _, one in turns_named(session.cursor, outline, turn)]
    wanted = {entry.uuid for one in opened for entry in session.turn(one)}
    for row in session.tree():
        if turn is None or row.uuid in wanted:
            yield {**msgspec.to_builtins(row), "outcome": outcomes.get(row.uuid)}


def _lines(session: Session, turn: str | None, depth: int | None, *, all_: bool) -> Iterator[str]:
    if all_:
        return _every_entry(session, screen())
    if turn is not None:
        return opened_turn(session, turn, screen())
    return Picture(with_agent(session.outline(), session), screen(), depth).lines()


def _every_entry(session: Session, on: Screen) -> Iterator[str]:
    """The drawing of all entries; on a terminal, as wide as the screen."""
    if on.height is None:
        return map(printable, session.render(all=True))
    return (cut(line, on.width) for line in session.render(all=True, width=on.width))


@arguments.file_command("diff", json="where the branches separate, and what each did since")
@click.argument("one", metavar="REF")
@click.argument("other", metavar="[REF]", default="@")
@no_pager
def diff(file: str, one: str, other: str, no_pager: bool, as_json: bool) -> None:
    """The command shows where two branches separate. Below, it shows side by side what each branch
    did since: the turns, the calls, the files, the tokens and the cost. Without the second REF, the
    command compares with the current leaf. A file with = was changed on both sides.
    """
    with reading(file) as session:
        left, right = session.entry(one), session.entry(other)
        found = session.compare(left, right)
        if as_json:
            out_json(found)
            return
        currents = session.cursor.is_above(left), session.cursor.is_above(right)
        show(side_by_side(found, (one, other), currents, screen()), paged=not no_pager)


@arguments.file_command("labels", json="a list of the labels")
@no_pager
def labels(file: str, no_pager: bool, as_json: bool) -> None:
    """Each line shows a label and the entry that it names. ● marks an entry on the current path.

    You can use a label as a REF. You can put a label with spaces in quotation marks, for example
    '"a good state"~2'.
    """
    with reading(file) as session:
        found = session.labels()
        if as_json:
            out_json_list(found)
            return
        if not found:
            tell(f"There is no label in {file}; 'label' gives an entry one")
        show(_label_lines(found, screen()), paged=not no_pager)


_ROOM_FOR_ALL: Final = 70
"""Columns from which on a label is shown with its time and its role."""


def _label_lines(found: list[Label], on: Screen) -> Iterator[str]:
    names = [one_line(label.label, 100) for label in found]
    widest = min(max(map(columns_of, names), default=0), on.width // 3)
    for label, name in zip(found, names, strict=True):
        moment = moment_of(label.time)
        when = "" if moment is None else ago((on.now - moment).total_seconds())
        before = f"{'●' if label.current else '○'} "
        after = f"  {short(label.uuid):<8}  "
        if on.width >= _ROOM_FOR_ALL:
            after += f"{when:<13}  {one_line(label.role or label.type)}  "
        room = on.width - 2 - widest - columns_of(after)
        yield (
            before
            + on.styled(filled(name, widest), "label")
            + on.styled(after, "dim")
            + cut(label.preview, room)
        ).rstrip()
