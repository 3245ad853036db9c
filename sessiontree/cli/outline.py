"""The commands that show turns and names: tree, diff and labels.

The outline of a session has a row for each turn, with what was done in it; prompts and work have
columns of their own. One turn is its prompt in full, and a row for each entry. Two branches are
side by side.

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
from sessiontree.text.amounts import ago, counted
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
    line_text,
    wrapped,
)
from sessiontree.text.preview import preview
from sessiontree.views.layout import OutlineRow, TurnTree, outline_rows
from sessiontree.views.messages import typed_in
from sessiontree.views.rows import said_in
from sessiontree.views.turns import SessionOutline, Subagent, Turn
from sessiontree.views.words import (
    HERE,
    asked_in,
    clock_in,
    columns_of_parts,
    event_in,
    local_time,
    outcome_in,
    outcome_parts,
    outcomes_in,
    prompts_in,
    reply_in,
    told_in,
    without_path,
    words_of,
    work_in,
    work_of_subagent,
    work_parts,
)
from sessiontree.views.work import TurnEvent, total

if TYPE_CHECKING:
    from sessiontree.ops.look import OutlineRead, TreeDrawn, TurnRead
    from sessiontree.session import Session
    from sessiontree.views.compare import Comparison, Side
    from sessiontree.views.tree import Label

_MORE_LINES: Final = 6  # of the answer at the leaf, or of a prompt, where rows are free


class OutlineRenderer:
    """Draws the outline of a session."""

    def __init__(self, outline: SessionOutline, screen: Screen, depth: int | None = None) -> None:
        self._outline = outline
        self._screen = screen
        self._depth = depth
        self._tree = TurnTree(outline.turns, with_subagents=bool(depth))
        self._empty = {place for place, turn in enumerate(outline.turns) if _says_nothing(turn)}
        self._empty.discard(-1 if outline.here is None else outline.here)
        self._agents = {
            outline.turns[place].uuid: one_line(agent.name, 40)
            for turn in outline.turns
            for agent in turn.subagents
            for place in agent.turns
        }
        self._left = outline.left_midway
        own = {place for place, turn in enumerate(outline.turns) if not turn.subagent}
        self._answered = own  # the turns that show what came out of them
        self._replied = own  # those that show what the user replied to questions
        self._digits = max((len(turn.name) for turn in outline.turns), default=0)
        self._indent = " " * (4 + self._digits)
        self._time = 7 if screen.width >= 60 else 0  # columns of a time of day and a gap
        self._work = self._work_columns()
        self._deepest = max(2, (screen.width - self._work - 30) // 2)
        self._day = ""
        self._spare = 0  # rows that nothing needs
        self._spare_at_end = 0  # the same, for the answer at the leaf

    def _work_columns(self) -> int:
        width = self._screen.width
        share = 0.3 if width < 100 else 0.4 if width < 160 else 0.46
        least = min(24, width // 2 - 6)
        most = max(least, min(96, round(width * share)))
        longest = 10
        for turn in self._outline.turns[:2000]:  # more would take too long to measure
            longest = max(longest, columns_of_parts(self._work_of(turn, most)))
            if longest >= most:
                return most
        return longest

    def lines(self) -> Iterator[Line]:
        """The outline; on a terminal it is made to fit, or its end is told at its start.

        Where rows cost nothing, each turn shows what came out of it.
        """
        height = self._screen.height
        if height is not None:
            everything, self._answered, self._replied = self._answered, set(), set()
            rows = sum(1 for _ in islice(self._drawn(), height + 1))
            self._day = ""
            if rows > height:
                self._answered = self._replied = everything
                yield from self._drawn_long()
                return
            spare = self._reply_newest(self._answer_newest(height - rows))
            self._spare_at_end = min(spare, _MORE_LINES)
            self._spare = spare - self._spare_at_end
        yield from self._drawn()

    def _answer_newest(self, room: int) -> int:
        """Show what came out of the newest turns, in so many rows; return how many are left."""
        turns = self._outline.turns
        ends = {place for place in range(len(turns)) if self._is_end(place)}
        more = [at for at, turn in enumerate(turns) if at not in ends and _has_answer(turn)]
        self._answered = set(more[-room:] if room else ())
        return room - len(self._answered)

    def _reply_newest(self, room: int) -> int:
        """Show what the user replied in the newest turns, in so many rows; return what is left."""
        for place in reversed(range(len(self._outline.turns))):
            turn = self._outline.turns[place]
            replies = sum(event.kind == "reply" for event in turn.events)
            if turn.subagent or not replies:
                continue
            if replies > room:
                break
            self._replied.add(place)
            room -= replies
        return room

    def _drawn_long(self) -> Iterator[Line]:
        folds = self._depth is None
        if folds:
            self._depth = 0
        lines = self._drawn()
        top = list(heading(self._outline, self._screen.width))
        yield from islice(lines, len(top))
        yield from self._last()
        if folds and self._outline.branches > 1:
            hint = "side branches are folded to a row each; --depth 9 opens them"
            yield fitted([Span(hint, "dim")], self._screen.width)
        yield from lines

    def _last(self) -> Iterator[Line]:
        """What was asked last on the current path, and what came out of it.

        It goes back to an answer that tells something, a few turns at most.
        """
        width = self._screen.width
        for turn in self._last_turns()[::-1]:
            last = [Span(f"last: {turn.name}  ", "here"), Span(asked_in(turn), "prompt")]
            yield fitted(last, width)
            lines = _wrapped(f"→ {told_in(turn)}", width - 6, 2) if turn.answer else []
            for line in lines:
                yield [Span(" " * 6), Span(cut(line, width - 6), "dim")]

    def _last_turns(self) -> list[Turn]:
        found: list[Turn] = []
        for turn in self._outline.up(self._outline.here):
            if turn.prompt is None and not turn.answer:
                continue
            found.append(turn)
            if len(turn.answer) >= 40 or len(found) == 3:
                break
        return found

    def _drawn(self) -> Iterator[Line]:
        yield from heading(self._outline, self._screen.width)
        if self._outline.turns and self._outline.here is None:
            yield [Span(f"● {HERE}", "here")]
        for row in outline_rows(
            self._tree,
            deepest=self._deepest,
            folded=lambda run: self._depth is not None and run.level > self._depth,
            left_out=self._empty,
            most_subagents=5,
        ):
            yield from self._lines_of(row, self._outline.turns[row.place])

    def _lines_of(self, row: OutlineRow, turn: Turn) -> Iterator[Line]:
        match row.kind:
            case "turn" if row.inside:
                yield self._folded(row, turn)
            case "turn":
                yield from self._turn(row, turn)
            case "event":
                yield self._note(row, [event_in(turn.events[row.item])])
            case "reply" if row.place in self._replied:
                yield self._note(row, reply_in(turn.events[row.item], self._room_below(row)))
            case "subagent":
                yield self._subagent(row, turn.subagents[row.item])
            case "more":
                yield self._note(row, [Span(f"↳ {len(row.inside):,} more subagents", "agent")])
            case "end":
                yield from self._end(row, turn)

    def _folded(self, row: OutlineRow, turn: Turn) -> Line:
        inside = [self._outline.turns[at] for at in row.inside]
        parts = [Span(counted(len(inside), "turn"), "branch"), *outcomes_in(inside)]
        return self._row(row, turn, work_in(total(t.work for t in inside), self._work, parts))

    def _turn(self, row: OutlineRow, turn: Turn) -> Iterator[Line]:
        below = row._replace(columns=row.below)
        yield from self._new_day(below, turn)
        work = self._work_of(turn, self._work)
        yield self._row(row, turn, work, tells=not self._has_end_row(row.place))
        yield from self._rest_of_prompt(row, turn, work)

    def _has_end_row(self, place: int) -> bool:
        is_here = place == self._outline.here
        return is_here or place in self._answered or self._is_end(place)

    def _is_end(self, place: int) -> bool:
        return not self._tree.below(place)

    def _work_of(self, turn: Turn, width: int) -> list[Span]:
        first = [Span("left midway", "failure")] if turn.uuid in self._left else []
        first += outcome_parts(turn)
        return work_in(turn.work, width, first)

    def _rest_of_prompt(self, row: OutlineRow, turn: Turn, work: list[Span]) -> Iterator[Line]:
        if not self._spare or turn.prompt is None:
            return
        words = self._words(turn)
        shown, whole = line_text(fitted(words, self._room(row, work))), line_text(words)
        if shown == whole:
            return
        rest = "…" + whole[len(shown) - 1 :].lstrip()
        below = row._replace(columns=row.below)
        for line in _wrapped(rest, self._room_below(below), min(self._spare, _MORE_LINES)):
            self._spare -= 1
            yield self._note(below, [Span(line.strip(), "prompt" if turn.current else "")])

    def _words(self, turn: Turn) -> list[Span]:
        return words_of(turn, self._agents.get(turn.uuid, ""))

    def _room(self, row: OutlineRow, work: list[Span]) -> int:
        before = columns_of(row.columns) + 2 + self._digits + 2
        figures = min(self._work, columns_of_parts(work))
        return max(8, self._screen.width - before - figures - 2 - self._time)

    def _row(self, row: OutlineRow, turn: Turn, work: list[Span], *, tells: bool = False) -> Line:
        number = turn.name if not turn.subagent else "↳"
        room = self._room(row, work)
        words = fitted(self._words(turn), room)
        left = room - columns_of(line_text(words))
        if tells and _has_answer(turn) and left >= 20:
            words.append(Span(f"  → {told_in(turn)}", "dim"))
        return [
            Span(row.columns, "dim"),
            Span("●", "here") if turn.current else Span("○", "dim"),
            Span(" "),
            Span(f"{number:<{self._digits}}  ", "number"),
            *beside(words, (), room),
            Span("  "),
            *dotted(work, self._work),
            Span("  "),
            Span(clock_in(turn) if self._time else "", "dim"),
        ]

    def _new_day(self, row: OutlineRow, turn: Turn) -> Iterator[Line]:
        moment = local_time(turn)
        if moment is None:
            return
        day = f"{moment.day} {moment.strftime('%B %Y')}"
        if day == self._day:
            return
        self._day = day
        past = ago((self._screen.now - moment).total_seconds())
        yield fitted([Span(f"{row.columns}── {day}, {past}", "dim")], self._screen.width)

    def _before(self, row: OutlineRow) -> list[Span]:
        return [Span(row.columns, "dim"), Span(self._indent)]

    def _room_below(self, row: OutlineRow) -> int:
        return max(8, self._screen.width - columns_of(row.columns) - len(self._indent))

    def _note(self, row: OutlineRow, line: Line) -> Line:
        return [*self._before(row), *fitted(line, self._room_below(row))]

    def _subagent(self, row: OutlineRow, agent: Subagent) -> Line:
        before = columns_of(row.columns) + len(self._indent)
        room = max(8, self._screen.width - before - self._work - 2 - self._time)
        name = one_line(agent.name, 40)
        text = f"↳ {name}: {agent.task}" if agent.task and agent.task != agent.name else f"↳ {name}"
        parts = work_of_subagent(agent, self._work)
        figures = columns_of_parts(parts)
        figures = figures if agent.missing else min(self._work, figures)
        named = Span(filled(text, room + self._work - figures), "agent")
        return [*self._before(row), named, Span("  "), *dotted(parts, figures)]

    def _end(self, row: OutlineRow, turn: Turn) -> Iterator[Line]:
        """The lines with what came out of a turn, and whether the leaf is here."""
        room, leaf = self._room_below(row), self._outline.leaf
        if row.place != self._outline.here:
            if self._has_end_row(row.place) and _has_answer(turn):
                yield self._note(row, [Span(f"→ {told_in(turn)}", "dim")])
            return
        if leaf is not None and leaf != turn.leaf:
            yield self._note(row, [Span(f"{HERE}, at {short(leaf)}", "here")])
            return
        most = 3 + self._spare_at_end
        lines = _wrapped(f"→ {told_in(turn)}", room, most) if turn.answer else []
        left = max(8, room - len(HERE) - 2)
        if lines and len(lines) < most:
            lines[-1:] = _wrapped(lines[-1], left, 2)
        for line in lines[:-1]:
            yield [*self._before(row), Span(line, "dim")]
        last = [Span(cut(lines[-1], left), "dim"), Span("  ")] if lines else []
        yield [*self._before(row), *last, Span(HERE, "here")]


def _wrapped(text: str, width: int, most: int) -> list[str]:
    """A text on a few lines, broken at spaces where there are any; the last one may be too wide."""
    lines: list[str] = []
    while columns_of(text) > width and len(lines) < most - 1:
        head = cut(text, width).removesuffix("…")
        at = head.rfind(" ", len(head) // 2)
        at = len(head) if at < 0 else at
        lines.append(text[:at])
        text = "  " + text[at:].lstrip()
    return [*lines, text]


def _says_nothing(turn: Turn) -> bool:
    if turn.prompt is not None or turn.names or turn.labels or turn.subagents or turn.subagent:
        return False
    return not (turn.answer or turn.work.calls or turn.events)


def _has_answer(turn: Turn) -> bool:
    """Whether there is something to say of what came out of a turn."""
    return bool(turn.answer) and not turn.subagent and turn.prompt is not None


def heading(outline: SessionOutline, width: int) -> Iterator[Line]:
    """The first lines: which session this is, and what was done in it."""
    title = outline.name or (
        f"session {short(outline.id)}" if outline.id else "a session without id"
    )
    facts = " · ".join(one_line(fact, 200) for fact in (title, outline.agent) if fact)
    folder = one_line(outline.cwd or "", 400)
    least = min(columns_of(folder), width // 4) + 3 if folder else 0
    facts = cut(facts, width - least)
    if folder:
        facts += " · " + cut_start(folder, width - columns_of(facts) - 3)
    yield [Span(facts, "title")]
    if not outline.turns:
        return
    prompts = sum(turn.prompt is not None and not turn.subagent for turn in outline.turns)
    subagents = sum(not agent.own for turn in outline.turns for agent in turn.subagents)
    parts = [Span(counted(prompts, "prompt"))]
    if (branches := outline.branches) > 1:
        parts.append(Span(f"{branches:,} branches, ○ off the current path"))
    if subagents:
        parts.append(Span(counted(subagents, "subagent")))
    parts += outcomes_in(outline.turns)
    if models := outline.work.models:
        named = ", ".join(models[:2]) + (", …" if len(models) > 2 else "")
        parts.append(Span(named, weight=0))
    yield dotted(work_in(outline.work, width, parts), width)


_ROLE_WIDTH: Final = 11
_STYLES: Final = {"user": "prompt", "tool": "dim", "assistant": "number"}


def opened_turn(read: TurnRead, screen: Screen) -> Iterator[Line]:
    """The lines that show a turn."""
    session, outline, named = read
    for place, turn in named:
        yield from _heading(turn, outline, screen)
        agents = {agent.caller: agent for agent in turn.subagents if agent.caller}
        labels = dict(turn.labels)
        replies: dict[str, list[TurnEvent]] = {}
        for event in turn.events:
            if event.kind == "reply":
                replies.setdefault(event.uuid, []).append(event)
        for entry, message in said_in(session.cursor, turn):
            label = f"[{labels[entry.uuid]}] " if entry.uuid in labels else ""
            if entry.uuid == turn.uuid and turn.prompt is not None:
                yield from _prompt(entry, message, turn, label, screen.width)
            elif entry.uuid in replies:
                yield from _replies(entry, replies[entry.uuid], screen.width)
            else:
                yield _row(entry, message, label, screen.width)
            if agent := agents.get(entry.uuid):
                parts = [Span(f"↳ {agent.name}: {agent.task}", "agent")]
                did = work_in(agent.work, max(20, screen.width // 2), parts)
                yield [Span(" " * 10), *dotted(did, screen.width - 10)]
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
