"""The outline of a session on the screen: a row for each turn, with what was done in it.

The path to the leaf goes straight down. Side branches are to the right, at the turn that they
leave, in file order, above the rest of the path. Prompts and work stand in columns of their own.

Invariants: nothing here recurses; each line fits the screen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Final, NamedTuple

from sessiontree.cli.screen import Screen
from sessiontree.cli.terminal import short
from sessiontree.core.display import one_line
from sessiontree.core.moment import moment_of
from sessiontree.operations.turns import SessionOutline, Subagent, Turn
from sessiontree.operations.words import (
    EVENTS,
    Part,
    asked_in,
    columns_of_parts,
    outcome_parts,
    outcomes_in,
    told_in,
    work_in,
)
from sessiontree.operations.work import TurnEvent, total
from sessiontree.text.amounts import ago, in_short
from sessiontree.text.columns import columns_of, cut, cut_start, filled

HERE: Final = "← you are here"
NO_PLACE: Final = -1  # above all turns
_BELOW: Final = {"": "", "├─": "│ ", "└─": "  "}
_MOST_SUBAGENTS: Final = 5  # rows of folded subagents below a turn
_MOST_MEASURED: Final = 2000  # turns whose work is measured for the width of its column
_MOST_LABELS: Final = 4
_END_LINES: Final = 3  # of the answer at the leaf
_MORE_LINES: Final = 6  # of the answer at the leaf, or of a prompt, where rows are free
_MOST_ASKED: Final = 10_000  # columns, more than any prompt and its labels have
_LAST_TURNS: Final = 3  # that the header tells, at most
_LEAST_TOLD: Final = 20  # columns for what came out of a turn
_TELLING: Final = 40  # characters of an answer that tells what came out
_WIDE: Final = 160  # columns from which on the work gets a greater share
_LEAST_WORK: Final = 24  # columns
_NARROW: Final = 100  # columns up to which the prompt gets a greater share
_MOST_WORK: Final = 96
_TIME: Final = 5  # columns of a time of day


def styled_parts(parts: Sequence[Part], width: int, screen: Screen) -> str:
    """Parts with dots between them, in their colours, cut where one alone is too wide."""
    if len(parts) == 1:
        parts = [parts[0]._replace(text=cut(parts[0].text, width))]
    dot = screen.styled(" · ", "dim")
    return dot.join(screen.styled(part.text, part.role or "dim") for part in parts)


class _Run(NamedTuple):
    """Turns of which each is the only one that is drawn below the one before."""

    place: int  # of the first
    columns: str
    joint: str
    level: int  # how many branches and subagents it is inside of

    @property
    def below(self) -> str:
        return self.columns + _BELOW[self.joint]


class Picture:
    """Draws the outline of a session."""

    def __init__(self, outline: SessionOutline, screen: Screen, depth: int | None = None) -> None:
        self._outline = outline
        self._screen = screen
        self._depth = depth
        self._below = self._children()
        self._empty = {place for place, turn in enumerate(outline.turns) if _says_nothing(turn)}
        self._empty.discard(-1 if outline.here is None else outline.here)
        self._agents = {
            outline.turns[place].uuid: one_line(agent.name, 40)
            for turn in outline.turns
            for agent in turn.subagents
            for place in agent.turns
        }
        self._left = _left_midway(outline)
        own = {place for place, turn in enumerate(outline.turns) if not turn.subagent}
        self._answered = own  # the turns that show what came out of them
        self._replied = own  # those that show what the user replied to questions
        self._digits = max((len(turn.name) for turn in outline.turns), default=0)
        self._has_times = screen.width >= 60
        self._work = self._work_columns()
        self._deepest = max(2, (screen.width - self._work - 30) // 2)
        self._day = ""
        self._spare = 0  # rows that nothing needs
        self._spare_at_end = 0  # the same, for the answer at the leaf

    def _children(self) -> dict[int | None, list[int]]:
        """The turns below each; subagents' too, where they are opened."""
        below: dict[int | None, list[int]] = {}
        for place, turn in enumerate(self._outline.turns):
            if not turn.subagent or self._depth:
                below.setdefault(turn.above, []).append(place)
        return below

    def _work_columns(self) -> int:
        width = self._screen.width
        share = 0.3 if width < _NARROW else 0.4 if width < _WIDE else 0.46
        least = min(_LEAST_WORK, width // 2 - 6)
        most = max(least, min(_MOST_WORK, round(width * share)))
        longest = 10
        for turn in self._outline.turns[:_MOST_MEASURED]:
            longest = max(longest, columns_of_parts(self._work_of(turn, most)))
            if longest >= most:
                return most
        return longest

    def lines(self) -> Iterator[str]:
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
        more = [at for at, turn in enumerate(turns) if at not in ends and self._has_end(turn)]
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

    def _drawn_long(self) -> Iterator[str]:
        """An outline that is longer than the screen."""
        folds = self._depth is None
        if folds:
            self._depth = 0
        lines = self._drawn()
        top = list(heading(self._outline, self._screen))
        yield from islice(lines, len(top))
        yield from self._last()
        if folds and _branches(self._outline) > 1:
            hint = "side branches are folded to a row each; --depth 9 opens them"
            yield self._screen.styled(cut(hint, self._screen.width), "dim")
        yield from lines

    def _last(self) -> Iterator[str]:
        """What was asked last on the current path, and what came out of it.

        It goes back to an answer that tells something, a few turns at most.
        """
        screen, found = self._screen, self._last_turns()
        for turn in found[::-1]:
            before = f"last: {turn.name}  "
            asked = cut(asked_in(turn), screen.width - columns_of(before))
            yield screen.styled(before, "here") + screen.styled(asked, "prompt")
            lines = _wrapped(f"→ {told_in(turn)}", screen.width - 6, 2) if turn.answer else []
            for line in lines:
                yield " " * 6 + screen.styled(cut(line, screen.width - 6), "dim")

    def _last_turns(self) -> list[Turn]:
        turns, at = self._outline.turns, self._outline.here
        found: list[Turn] = []
        while at is not None and len(found) < _LAST_TURNS:
            turn, at = turns[at], turns[at].above
            if turn.prompt is None and not turn.answer:
                continue
            found.append(turn)
            if len(turn.answer) >= _TELLING:
                break
        return found

    def _drawn(self) -> Iterator[str]:
        yield from heading(self._outline, self._screen)
        if self._outline.turns and self._outline.here is None:
            yield self._screen.styled(f"● {HERE}", "here")
        starts = self._below.get(None, [])
        waiting = self._forks(starts, _Run(NO_PLACE, "", "", 0)) if starts else []
        while waiting:
            run = waiting.pop()
            if self._depth is not None and run.level > self._depth:
                yield from self._folded(run)
                continue
            columns = run.columns + run.joint
            place: int | None = run.place
            while place is not None:
                if place not in self._empty:
                    yield from self._turn(place, columns, run.below)
                    columns = run.below
                children = self._below.get(place, [])
                place = None
                if len(children) == 1 and not self._outline.turns[children[0]].subagent:
                    place = children[0]
                elif children:
                    waiting += self._forks(children, run)

    def _forks(self, children: list[int], run: _Run) -> list[_Run]:
        """The runs below a fork, the first to be drawn at the end."""
        turns = self._outline.turns
        ordered = sorted(children, key=lambda at: (turns[at].current, not turns[at].subagent, at))
        columns = run.below[: 2 * self._deepest]
        forks = [_Run(at, columns, "├─", run.level + 1) for at in ordered]
        last = turns[ordered[-1]]
        is_alone = len(ordered) == 1 or turns[ordered[-2]].subagent
        if not last.subagent and (last.current or is_alone):
            forks[-1] = _Run(ordered[-1], run.below, "", run.level)
        else:
            forks[-1] = forks[-1]._replace(joint="└─")
        return forks[::-1]

    def _folded(self, run: _Run) -> Iterator[str]:
        """One row for a branch or a subagent that is too deep."""
        turns = self._outline.turns
        inside = [run.place]
        for at in inside:
            inside += self._below.get(at, ())
        count = f"{len(inside):,} {'turn' if len(inside) == 1 else 'turns'}"
        work = total(turns[at].work for at in inside)
        first = [Part(count, "branch"), *outcomes_in(turns[at] for at in inside)]
        yield self._row(
            turns[run.place],
            run.columns + run.joint,
            work_in(work, self._work, first),
        )

    def _turn(self, place: int, columns: str, below: str) -> Iterator[str]:
        turn = self._outline.turns[place]
        yield from self._new_day(turn, below)
        work = self._work_of(turn, self._work)
        is_here = place == self._outline.here
        has_end_row = is_here or place in self._answered or self._is_end(place)
        yield self._row(turn, columns, work, tells=not has_end_row)
        yield from self._rest_of_prompt(turn, columns, below, work)
        for event in turn.events:
            if event.kind in EVENTS:
                yield self._event(event, below)
            elif event.kind == "reply" and place in self._replied:
                yield self._reply(event, below)
        if not self._depth:
            yield from self._subagents(turn, below)
        if is_here or (has_end_row and self._has_end(turn)):
            yield from self._end(turn, below, is_here=is_here)

    def _is_end(self, place: int) -> bool:
        return place not in self._below

    def _has_end(self, turn: Turn) -> bool:
        """Whether there is something to say of what came out of a turn."""
        return bool(turn.answer) and not turn.subagent and turn.prompt is not None

    def _work_of(self, turn: Turn, width: int) -> list[Part]:
        first = [Part("left midway", "failure")] if turn.uuid in self._left else []
        first += outcome_parts(turn)
        return work_in(turn.work, width, first)

    def _rest_of_prompt(
        self, turn: Turn, columns: str, below: str, work: list[Part]
    ) -> Iterator[str]:
        """What the row of a turn cuts off its prompt, where there are rows to spare."""
        if not self._spare or turn.prompt is None:
            return
        shown = _plain(self._asked(turn, self._room(columns, work)))
        whole = _plain(self._asked(turn, _MOST_ASKED))
        if shown == whole:
            return
        indent = 4 + self._digits
        width = max(8, self._screen.width - columns_of(below) - indent)
        rest = "…" + whole[len(shown) - 1 :].lstrip()
        for line in _wrapped(rest, width, min(self._spare, _MORE_LINES)):
            self._spare -= 1
            yield self._note(line.strip(), below, "prompt" if turn.current else "")

    def _room(self, columns: str, work: list[Part]) -> int:
        """The columns of a row that are left for the prompt."""
        times = _TIME + 2 if self._has_times else 0
        before = columns_of(columns) + 2 + self._digits + 2
        figures = min(self._work, columns_of_parts(work))
        return max(8, self._screen.width - before - figures - 2 - times)

    def _row(self, turn: Turn, columns: str, work: list[Part], *, tells: bool = False) -> str:
        screen = self._screen
        mark = "●" if turn.current else "○"
        number = turn.name if not turn.subagent else "↳"
        numbered = f"{number:<{self._digits}}  "
        room = self._room(columns, work)
        text = self._asked(turn, room)
        if tells and self._has_end(turn):
            text += self._told(turn, room - columns_of(_plain(text)))
        padding = " " * max(0, room - columns_of(_plain(text)))
        said = styled_parts(work, self._work, screen)
        line = (
            screen.styled(columns, "dim")
            + screen.styled(mark, "here" if turn.current else "dim")
            + " "
            + screen.styled(numbered, "number")
            + "".join(
                screen.styled(part.text, part.role) if part.role else part.text for part in text
            )
            + padding
            + "  "
            + said
        )
        clock = self._clock(turn) if self._has_times else ""
        if not clock:
            return line.rstrip()
        return line + "  " + screen.styled(clock, "dim")

    def _asked(self, turn: Turn, room: int) -> list[Part]:
        """The names, the labels and the prompt of a turn, in so many columns."""
        parts: list[Part] = []
        if turn.subagent:
            parts.append(Part(f"{self._agents.get(turn.uuid, '')}: ", "agent"))
        elif turn.lane is not None:
            parts.append(Part(f"lane {one_line(turn.lane, 40)}: ", "agent"))
        parts += [Part(f"({one_line(name, 40)}) ", "branch") for name in turn.names]
        parts += [
            Part(f"[{one_line(label, 40)}] ", "label") for _, label in turn.labels[:_MOST_LABELS]
        ]
        if len(turn.labels) > _MOST_LABELS:
            parts.append(Part(f"[+{len(turn.labels) - _MOST_LABELS:,}] ", "label"))
        role = ("prompt" if turn.current else "") if turn.prompt is not None else "dim"
        parts.append(Part(asked_in(turn), role))
        kept: list[Part] = []
        for part in parts:
            text = cut(part.text, room)
            room -= columns_of(text)
            if text:
                kept.append(part._replace(text=text))
        return kept

    def _told(self, turn: Turn, room: int) -> list[Part]:
        """What came out of a turn, behind a short prompt."""
        return [Part(cut(f"  → {told_in(turn)}", room), "dim")] if room >= _LEAST_TOLD else []

    def _clock(self, turn: Turn) -> str:
        moment = _local(turn.work.started)
        return "" if moment is None else moment.strftime("%H:%M")

    def _new_day(self, turn: Turn, columns: str) -> Iterator[str]:
        """A heading where the day is another than in the row above."""
        moment = _local(turn.work.started)
        if moment is None:
            return
        day = f"{moment.day} {moment.strftime('%B %Y')}"
        if day == self._day:
            return
        self._day = day
        past = ago((self._screen.now - moment).total_seconds())
        yield self._screen.styled(cut(f"{columns}── {day}, {past}", self._screen.width), "dim")

    def _event(self, event: TurnEvent, columns: str) -> str:
        sign, role = EVENTS[event.kind]
        if event.tokens:
            sign += f" at {in_short(event.tokens)} tokens"
        text = f"{sign}: {event.text}" if event.text else sign
        return self._note(text, columns, role)

    def _reply(self, event: TurnEvent, columns: str) -> str:
        indent = " " * (4 + self._digits)
        room = self._screen.width - columns_of(columns) - len(indent)
        said = reply_in(event, room, self._screen)
        return self._screen.styled(columns, "dim") + indent + said

    def _note(self, text: str, columns: str, role: str) -> str:
        before = columns + " " * (4 + self._digits)
        shown = cut(text, max(8, self._screen.width - columns_of(before)))
        return (
            self._screen.styled(columns, "dim")
            + " " * (4 + self._digits)
            + (self._screen.styled(shown, role) if role else shown)
        )

    def _subagents(self, turn: Turn, columns: str) -> Iterator[str]:
        shown = [agent for agent in turn.subagents if not agent.own]
        for agent in shown[:_MOST_SUBAGENTS]:
            yield self._subagent(agent, columns)
        if len(shown) > _MOST_SUBAGENTS:
            more = f"↳ {len(shown) - _MOST_SUBAGENTS:,} more subagents"
            yield self._note(more, columns, "agent")

    def _subagent(self, agent: Subagent, columns: str) -> str:
        screen = self._screen
        before = columns_of(columns) + 4 + self._digits
        times = _TIME + 2 if self._has_times else 0
        room = max(8, screen.width - before - self._work - 2 - times)
        name = one_line(agent.name, 40)
        text = f"↳ {name}: {agent.task}" if agent.task and agent.task != agent.name else f"↳ {name}"
        parts = work_in(agent.work, self._work)
        if agent.missing:
            parts = [Part("its transcript is missing", "failure")]
        figures = (
            columns_of_parts(parts) if agent.missing else min(self._work, columns_of_parts(parts))
        )
        room += self._work - figures
        work = styled_parts(parts, figures, screen)
        indent = " " * (4 + self._digits)
        named = screen.styled(filled(text, room), "agent")
        return f"{screen.styled(columns, 'dim')}{indent}{named}  {work}".rstrip()

    def _end(self, turn: Turn, columns: str, *, is_here: bool) -> Iterator[str]:
        """The lines with what came out of a turn, and whether the leaf is here."""
        indent = " " * (4 + self._digits)
        room = max(8, self._screen.width - columns_of(columns) - len(indent))
        before = self._screen.styled(columns, "dim") + indent
        leaf, here = self._outline.leaf, HERE
        if is_here and leaf is not None and leaf != turn.leaf:
            yield before + self._screen.styled(cut(f"{HERE}, at {short(leaf)}", room), "here")
            return
        if not is_here:
            yield before + self._screen.styled(cut(f"→ {told_in(turn)}", room), "dim")
            return
        most = _END_LINES + self._spare_at_end
        lines = _wrapped(f"→ {told_in(turn)}", room, most) if turn.answer else []
        beside = max(8, room - len(here) - 2)
        if lines and len(lines) < most:
            lines[-1:] = _wrapped(lines[-1], beside, 2)
        for line in lines[:-1]:
            yield before + self._screen.styled(line, "dim")
        last = cut(lines[-1], beside) if lines else ""
        gap = "  " if last else ""
        yield before + self._screen.styled(last, "dim") + gap + self._screen.styled(here, "here")


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
    """Whether there is nothing to draw of a turn: it has neither a prompt nor any work."""
    if turn.prompt is not None or turn.names or turn.labels or turn.subagents or turn.subagent:
        return False
    return not (turn.answer or turn.work.calls or turn.events)


def _left_midway(outline: SessionOutline) -> set[str]:
    """The uuids of the turns that the current path leaves in their middle."""
    turns = outline.turns
    return {
        turns[turn.above].uuid
        for turn in turns
        if turn.current and turn.leaves and turn.above is not None
    }


def reply_in(event: TurnEvent, width: int, screen: Screen) -> str:
    """A question of a tool and what the user replied; a long question leaves room for the reply."""
    question = f"? {event.question} — "
    least = max(width // 2, width - columns_of(event.text))
    question = question if columns_of(question) <= least else cut(question[:-3], least - 3) + " — "
    reply = cut(event.text, max(8, width - columns_of(question)))
    return screen.styled(question, "dim") + screen.styled(reply, "prompt")


def _plain(parts: Sequence[Part]) -> str:
    return "".join(part.text for part in parts)


def _local(timestamp: str | None) -> datetime | None:
    moment = moment_of(timestamp)
    try:
        return None if moment is None else moment.astimezone()
    except (OverflowError, OSError, ValueError):
        return None


def heading(outline: SessionOutline, screen: Screen) -> Iterator[str]:
    """The first lines: which session this is, and what was done in it."""
    title = outline.name or (
        f"session {short(outline.id)}" if outline.id else "a session without id"
    )
    facts = " · ".join(one_line(fact, 200) for fact in (title, outline.agent) if fact)
    folder = one_line(outline.cwd or "", 400)
    least = min(columns_of(folder), screen.width // 4) + 3 if folder else 0
    facts = cut(facts, screen.width - least)
    if folder:
        facts += " · " + cut_start(folder, screen.width - columns_of(facts) - 3)
    yield screen.styled(facts, "title")
    prompts = sum(turn.prompt is not None and not turn.subagent for turn in outline.turns)
    subagents = sum(not agent.own for turn in outline.turns for agent in turn.subagents)
    parts = [Part(f"{prompts:,} {'prompt' if prompts == 1 else 'prompts'}")]
    if (branches := _branches(outline)) > 1:
        parts.append(Part(f"{branches:,} branches, ○ off the current path"))
    if subagents:
        parts.append(Part(f"{subagents:,} {'subagent' if subagents == 1 else 'subagents'}"))
    parts += outcomes_in(outline.turns)
    models = ", ".join(outline.work.models[:2]) + (", …" if len(outline.work.models) > 2 else "")
    if outline.turns:
        first = [*parts, Part(models, weight=0)] if models else parts
        yield styled_parts(work_in(outline.work, screen.width, first), screen.width, screen)


def _branches(outline: SessionOutline) -> int:
    """The number of ends: turns that nothing goes on from at their own end."""
    goes_on = {turn.above for turn in outline.turns if not turn.leaves and not turn.subagent}
    return sum(
        place not in goes_on and not turn.subagent for place, turn in enumerate(outline.turns)
    )
