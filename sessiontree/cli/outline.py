"""The commands that show turns and names: tree, diff and labels.

`views.drawing` draws the outline of a session. One turn is its prompt in full, and a row for each
entry. Two branches are side by side.

Invariants: nothing here recurses; each line fits the screen.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Final

import msgspec

from sessiontree.cli.derive import CommandCall, renders
from sessiontree.cli.output import out_json_list, speaker
from sessiontree.cli.screen import Screen, path_in, screen, show
from sessiontree.cli.terminal import short, tell
from sessiontree.core.activity import as_typed
from sessiontree.core.display import one_line, printable
from sessiontree.core.entry import Entry, moment_of
from sessiontree.core.message import Message, text_of
from sessiontree.text.amounts import ago
from sessiontree.text.columns import (
    Line,
    Span,
    beside,
    columns_of,
    cut,
    cut_start,
    dotted,
    filled,
    fitted,
    wrapped,
)
from sessiontree.text.preview import preview
from sessiontree.views.drawing import OutlineRenderer
from sessiontree.views.layout import TurnTree
from sessiontree.views.messages import typed_in
from sessiontree.views.rows import said_in
from sessiontree.views.turns import SessionOutline, Subagent, Turn
from sessiontree.views.words import (
    act_in,
    asked_in,
    local_time,
    outcome_in,
    outcome_parts,
    prompts_in,
    reply_in,
    told_in,
    without_path,
    work_in,
    work_of_subagent,
    work_parts,
)
from sessiontree.views.work import TurnEvent

if TYPE_CHECKING:
    from sessiontree.ops.look import OutlineRead, TreeDrawn, TurnRead
    from sessiontree.session import Session
    from sessiontree.views.compare import Comparison, Side
    from sessiontree.views.ledger import LedgerRow
    from sessiontree.views.tree import Label

_ROLE_WIDTH: Final = 11
_INDENT: Final = " " * (_ROLE_WIDTH + 2)
_STYLES: Final = {"user": "prompt", "tool": "dim", "assistant": "number"}


def opened_turn(read: TurnRead, screen: Screen) -> Iterator[Line]:
    """The lines that show a turn."""
    from sessiontree.views.ledger import ledger  # an outline does without

    session, outline, named = read
    for place, turn in named:
        yield from _heading(turn, outline, screen)
        agents = {agent.caller: agent for agent in turn.subagents if agent.caller}
        labels = dict(turn.labels)
        replies: dict[str, list[TurnEvent]] = {}
        for event in turn.events:
            if event.kind == "reply":
                replies.setdefault(event.uuid, []).append(event)
        for row in ledger(said_in(session.cursor, turn), outline.cwd, session.original):
            entry, message = row.entry, row.message
            label = f"[{labels[entry.uuid]}] " if entry.uuid in labels else ""
            if entry.uuid == turn.uuid and turn.prompt is not None:
                yield from _prompt(entry, message, turn, label, screen.width)
            elif entry.uuid in replies:
                yield from _replies(entry, replies[entry.uuid], screen.width)
            elif not (row.acts or row.is_result):
                yield _row(entry, message, label, screen.width)
            elif row.rest is not None:
                yield _row(entry, row.rest, label, screen.width)
            yield from _acts(row, replies, agents.pop(entry.uuid, None), screen.width)
        yield from _following(outline, place, screen.width)


def _before(uuid: str = "") -> list[Span]:
    return [Span(f"{short(uuid):<8}", "dim"), Span("  ")]


def _heading(turn: Turn, outline: SessionOutline, screen: Screen) -> Iterator[Line]:
    where = f"turn {turn.name} of {outline.last_number}"
    if turn.subagent:
        where = f"subagent in turn {turn.number}, lane {turn.lane}"
    parts = [where]
    if (moment := local_time(turn)) is not None:
        past = ago((screen.now - moment).total_seconds())
        parts.append(f"{moment.day} {moment.strftime('%B %Y %H:%M')}, {past}")
    parts += turn.work.models[:3]
    parts += [] if turn.current else ["not on the current path"]
    yield fitted([Span(" · ".join(parts), "title")], screen.width)
    if told := outcome_in(turn):
        yield fitted([Span(told, "failure")], screen.width)
    did = work_parts(turn.work, tools=20, files=0, words=True)
    if did:
        said = " · ".join(part.text for part in did)
        yield from ([Span(line, "dim")] for line in wrapped(said, screen.width))
    for path in turn.work.changed[:20]:
        shown = path_in(one_line(path, 400), outline.cwd, screen.width - 10)
        yield [Span(f"  changed {shown}", "dim")]
    if len(turn.work.changed) > 20:
        yield [Span(f"  changed {len(turn.work.changed) - 20:,} more", "dim")]
    yield []


def _prompt(
    entry: Entry, message: Message | None, turn: Turn, label: str, width: int
) -> Iterator[Line]:
    own = entry.message_as_stored if entry.type == "message" else message
    text = as_typed(text_of(own).strip()) if isinstance(own, dict) else typed_in(entry)
    lines = iter(wrapped(printable(text or turn.prompt or ""), width - 10))
    first = next(lines, "")
    yield [*_before(entry.uuid), Span(cut(label + first, width - 10), "prompt")]
    yield from ([*_before(), Span(line, "prompt")] for line in islice(lines, 39))
    if next(lines, None) is not None:
        yield [Span(f"{'':10}… 'show' with {short(entry.uuid)} prints the rest", "dim")]


def _row(entry: Entry, message: Message | None, label: str, width: int) -> Line:
    who = speaker(entry, message)
    role = _STYLES.get(who, "compaction" if entry.type == "compaction" else "")
    said = label + preview(entry, message, 2 * width)
    body = Span(cut(said, width - 10 - _ROLE_WIDTH - 2), "dim" if role == "dim" else "")
    named = Span(f"{cut(who, _ROLE_WIDTH):<{_ROLE_WIDTH}}", role)
    return [*_before(entry.uuid), named, Span("  "), body]


def _acts(
    row: LedgerRow, replies: Container[str], agent: Subagent | None, width: int
) -> Iterator[Line]:
    """The lines of the acts of an entry; a subagent has what it did as its outcome."""
    for _, act, result in row.acts:
        if act.kind == "question" and result in replies:  # which has the question, too
            continue
        came = None
        if act.kind == "subagent" and agent is not None:
            came, agent = work_of_subagent(agent, width // 2), None
        yield [*_before(row.entry.uuid), *act_in(act, width - 10, came)]
        if act.failed:
            yield from (
                [*_before(), Span(_INDENT), Span(cut(line, width - 10 - len(_INDENT)), "dim")]
                for line in act.tail()
            )
    if agent is not None:
        parts = [Span(f"↳ {agent.name}: {agent.task}", "agent")]
        did = work_in(agent.work, max(20, width // 2), parts)
        yield [Span(" " * 10), *dotted(did, width - 10)]


def _replies(entry: Entry, replies: list[TurnEvent], width: int) -> Iterator[Line]:
    uuid, who = entry.uuid, "user"
    for event in replies:
        said = reply_in(event, width - 10 - _ROLE_WIDTH - 2)
        yield [*_before(uuid), Span(f"{who:<{_ROLE_WIDTH}}", "prompt"), Span("  "), *said]
        uuid = who = ""


def _following(outline: SessionOutline, place: int, width: int) -> Iterator[Line]:
    below = TurnTree(outline.turns).below(place)
    if below:
        yield []
    for turn in (outline.turns[at] for at in below):
        mark = "●" if turn.current else "○"
        text = f"{mark} {turn.name}  {without_path(turn.prompt or turn.answer)}"
        yield fitted([Span(text, "dim")], width)


_BETWEEN: Final = Span(" │ ", "dim")
_MAX_FILES: Final = 30


def side_by_side(found: Comparison, names: tuple[str, str], screen: Screen) -> Iterator[Line]:
    """The lines that show a comparison."""
    yield from _parting(found, screen.width)
    width = (screen.width - len(_BETWEEN.text)) // 2
    sides = (found.one, found.other)
    yield from _joined(
        [
            [*_head(side, name, width, screen), *_turns(side, width)]
            for side, name in zip(sides, names, strict=True)
        ],
        width,
    )
    if any(side.work.changed for side in sides):
        yield [Span("─" * width + "─┼─" + "─" * width, "dim")]
        yield from _joined([*_files(found, width)], width)


def _parting(found: Comparison, width: int) -> Iterator[Line]:
    if found.fork is None:
        yield [Span("The two share no entry.", "title")]
        return
    where = f"They part at {short(found.fork)}"
    if found.turn is not None:
        where += f", in turn {found.turn.name}: {found.turn.prompt or found.turn.answer}"
    yield fitted([Span(where, "title")], width)
    yield []


def _joined(sides: Sequence[Sequence[Line]], width: int) -> Iterator[Line]:
    for one, other in zip_longest(*sides, fillvalue=()):
        yield [*beside(one, (), width), _BETWEEN, *fitted(other, width)]


def _head(side: Side, name: str, width: int, screen: Screen) -> Iterator[Line]:
    mark = "●" if side.current else "○"
    ended = moment_of(side.work.ended)
    when = "" if ended is None else f", {ago((screen.now - ended).total_seconds())}"
    given = one_line(name, 100)
    named = short(side.leaf) if side.leaf.startswith(given) else f"{given} ({short(side.leaf)})"
    yield [Span(f"{mark} {named}{when}", "here" if side.current else "title")]
    if not side.turns:
        yield [Span("nothing since", "dim")]
        return
    yield dotted(work_in(side.work, width, prompts_in(side.turns)), width)
    yield []


def _turns(side: Side, width: int) -> Iterator[Line]:
    digits = max((len(turn.name) for turn in side.turns), default=0)
    for place, turn in enumerate(side.turns):
        is_rest = side.is_rest and place == 0
        text = f"(the rest of turn {turn.name})" if is_rest else asked_in(turn)
        number = f"{'' if is_rest else turn.name:<{digits}}  "
        yield [Span(number, "number"), Span(text, "prompt")]
        indent = Span(" " * columns_of(number))
        if did := work_in(turn.work, width - len(indent.text), outcome_parts(turn)):
            yield [indent, *dotted(did, width - len(indent.text))]
        if (turn.answer and turn.prompt is not None) or is_rest:
            yield [Span(f"{indent.text}→ {told_in(turn)}", "dim")]


def _files(found: Comparison, width: int) -> Iterator[list[Line]]:
    """For each side a column of the files it changed, those that both changed first."""
    both = dict.fromkeys(found.both_changed)
    for side in (found.one, found.other):
        shown = [*both, *(path for path in side.work.changed if path not in both)]
        lines: list[Line] = [[Span("changed", "title")]] if shown else []
        for path in shown[:_MAX_FILES]:
            mark = "= " if path in both else "  "
            lines.append([Span(mark + cut_start(path, width - 2))])
        if len(shown) > _MAX_FILES:
            lines.append([Span(f"  and {len(shown) - _MAX_FILES:,} more", "dim")])
        yield lines


@renders("session.outline", with_json=True)
def _(call: CommandCall, read: OutlineRead) -> None:
    given = call.given
    if call.as_json:
        _out_rows(read.session, read.outline)
    else:
        on = screen()
        lines = OutlineRenderer(read.outline, on, given.depth).lines()
        show(on.drawn(lines), paged=not given.no_pager)


@renders("session.turn", with_json=True)
def _(call: CommandCall, read: TurnRead) -> None:
    if call.as_json:
        wanted = {entry.uuid for _, turn in read.named for entry in read.session.turn(turn)}
        _out_rows(read.session, read.outline, wanted)
    else:
        on = screen()
        show(on.drawn(opened_turn(read, on)), paged=not call.given.no_pager)


@renders("tree.render", with_json=True)
def _(call: CommandCall, drawn: TreeDrawn) -> None:
    if call.as_json:
        _out_rows(drawn.session, drawn.session.outline())
        return
    width = call.width
    lines = (printable(line) if width is None else cut(line, width) for line in drawn.lines)
    show(lines, paged=not call.given.no_pager)


def _out_rows(
    session: Session, outline: SessionOutline, wanted: Container[str] | None = None
) -> None:
    """Print the rows of entries as JSON; the first one of a turn says how the turn ended."""
    outcomes = {turn.uuid: turn.outcome for turn in outline.turns}
    out_json_list(
        {**msgspec.to_builtins(row), "outcome": outcomes.get(row.uuid)}
        for row in session.tree()
        if wanted is None or row.uuid in wanted
    )


@renders("branch.diff")
def _(call: CommandCall, found: Comparison) -> None:
    given, on = call.given, screen()
    lines = side_by_side(found, (given.one, given.other), on)
    show(on.drawn(lines), paged=not given.no_pager)


@renders("node.labels")
def _(call: CommandCall, found: list[Label]) -> None:
    if not found:
        tell(f"There is no label in {call.given.session}; 'label' gives an entry one")
    on = screen()
    show(on.drawn(_label_lines(found, on)), paged=not call.given.no_pager)


def _label_lines(found: list[Label], on: Screen) -> Iterator[Line]:
    names = [one_line(label.label, 100) for label in found]
    widest = min(max(map(columns_of, names), default=0), on.width // 3)
    for label, name in zip(found, names, strict=True):
        moment = moment_of(label.time)
        when = "" if moment is None else ago((on.now - moment).total_seconds())
        before = f"{'●' if label.current else '○'} "
        after = f"  {short(label.uuid):<8}  "
        if on.width >= 70:
            after += f"{when:<13}  {one_line(label.role or label.type)}  "
        room = on.width - 2 - widest - columns_of(after)
        yield [
            Span(before),
            Span(filled(name, widest), "label"),
            Span(after, "dim"),
            Span(cut(label.preview, room)),
        ]
