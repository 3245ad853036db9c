"""The drawing of an outline: a row for each turn, with what was done in it.

Prompts and work have columns of their own. The command `tree` and `SessionOutline.render` draw it.

Invariants: nothing here recurses; each line fits the width.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from sessiontree.core.display import one_line, short
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
)
from sessiontree.views.layout import OutlineRow, TurnTree, outline_rows
from sessiontree.views.words import (
    HERE,
    asked_in,
    clock_in,
    columns_of_parts,
    event_in,
    local_time,
    outcome_parts,
    outcomes_in,
    reply_in,
    told_in,
    words_of,
    work_in,
    work_of_subagent,
)
from sessiontree.views.work import total

if TYPE_CHECKING:
    from sessiontree.views.turns import SessionOutline, Subagent, Turn


class Surface(Protocol):
    """What an outline is drawn on."""

    @property
    def width(self) -> int: ...
    @property
    def height(self) -> int | None: ...
    @property
    def now(self) -> datetime: ...


class _Page(NamedTuple):
    width: int
    now: datetime
    height: int | None = None


def rendered(outline: SessionOutline, width: int) -> Iterator[str]:
    """See `SessionOutline.render`."""
    for line in OutlineRenderer(outline, _Page(width, datetime.now(UTC))).lines():
        yield line_text(line).rstrip()


_MORE_LINES: Final = 6  # of the answer at the leaf, or of a prompt, where rows are free


class OutlineRenderer:
    """Draws the outline of a session."""

    def __init__(self, outline: SessionOutline, screen: Surface, depth: int | None = None) -> None:
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
    facts = " · ".join(one_line(fact, 200) for fact in (title, outline.kin, outline.agent) if fact)
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
    if outline.turns_in_all:
        more = f"{outline.turns_in_all:,} with its other copies"
        parts = [Span(f"{counted(prompts, 'prompt')} in this file, {more}")]
    if (branches := outline.branches) > 1:
        parts.append(Span(f"{branches:,} branches, ○ off the current path"))
    if subagents:
        parts.append(Span(counted(subagents, "subagent")))
    parts += outcomes_in(outline.turns)
    if models := outline.work.models:
        named = ", ".join(models[:2]) + (", …" if len(models) > 2 else "")
        parts.append(Span(named, weight=0))
    yield dotted(work_in(outline.work, width, parts), width)
