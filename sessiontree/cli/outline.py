"""The commands that show turns and names: tree, diff and labels.

The outline of a session has a row for each turn, with what was done in it; prompts and work have
columns of their own. One turn is its prompt in full, and a row for each entry. Two branches are
side by side.

Invariants: nothing here recurses; each line fits the screen.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from sessiontree.cli.derive import CommandCall, renders
from sessiontree.cli.output import out_json_list, speaker
from sessiontree.cli.screen import Screen, path_in, screen, show
from sessiontree.cli.terminal import short, tell
from sessiontree.core.activity import as_typed
from sessiontree.core.display import one_line, printable
from sessiontree.core.entry import CONTENT, Entry, moment_of
from sessiontree.core.message import Message, text_of
from sessiontree.text.amounts import ago
from sessiontree.text.columns import columns_of, cut, cut_start, filled, wrapped
from sessiontree.text.preview import is_unclear, preview
from sessiontree.views.layout import Run, inside, layout
from sessiontree.views.messages import is_typed, typed_in, with_messages
from sessiontree.views.turns import SessionOutline, Subagent, Turn, TurnTree
from sessiontree.views.words import (
    EVENTS,
    Phrase,
    asked_in,
    clock_in,
    columns_of_parts,
    event_in,
    local_time,
    outcome_in,
    outcome_parts,
    outcomes_in,
    prompts_in,
    told_in,
    without_path,
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

HERE: Final = "← you are here"
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


def styled_parts(parts: Sequence[Phrase], width: int, screen: Screen) -> str:
    """Parts with dots between them, in their colours, cut where one alone is too wide."""
    if len(parts) == 1:
        parts = [parts[0]._replace(text=cut(parts[0].text, width))]
    dot = screen.styled(" · ", "dim")
    return dot.join(screen.styled(part.text, part.role or "dim") for part in parts)


class Picture:
    """Draws the outline of a session."""

    def __init__(self, outline: SessionOutline, screen: Screen, depth: int | None = None) -> None:
        self._outline = outline
        self._screen = screen
        self._depth = depth
        self._shape = TurnTree(outline.turns, with_subagents=bool(depth))
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
        self._has_times = screen.width >= 60
        self._work = self._work_columns()
        self._deepest = max(2, (screen.width - self._work - 30) // 2)
        self._day = ""
        self._spare = 0  # rows that nothing needs
        self._spare_at_end = 0  # the same, for the answer at the leaf

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
        if folds and self._outline.branches > 1:
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
        found: list[Turn] = []
        for turn in self._outline.up(self._outline.here):
            if turn.prompt is None and not turn.answer:
                continue
            found.append(turn)
            if len(turn.answer) >= _TELLING or len(found) == _LAST_TURNS:
                break
        return found

    def _drawn(self) -> Iterator[str]:
        yield from heading(self._outline, self._screen)
        if self._outline.turns and self._outline.here is None:
            yield self._screen.styled(f"● {HERE}", "here")
        for run in layout(self._shape, deepest=self._deepest, folded=self._is_folded):
            if run.is_folded:
                yield self._folded(run)
                continue
            columns = run.columns + run.joint
            for place in run.nodes:
                if place not in self._empty:
                    yield from self._turn(place, columns, run.below)
                    columns = run.below

    def _is_folded(self, run: Run) -> bool:
        return self._depth is not None and run.level > self._depth

    def _folded(self, run: Run) -> str:
        """One row for a branch or a subagent that is too deep."""
        turns, first = self._outline.turns, run.nodes[0]
        all_inside = [turns[at] for at in inside(self._shape, first)]
        count = f"{len(all_inside):,} {'turn' if len(all_inside) == 1 else 'turns'}"
        parts = [Phrase(count, "branch"), *outcomes_in(all_inside)]
        work = work_in(total(turn.work for turn in all_inside), self._work, parts)
        return self._row(turns[first], run.columns + run.joint, work)

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
        return not self._shape.below(place)

    def _has_end(self, turn: Turn) -> bool:
        """Whether there is something to say of what came out of a turn."""
        return bool(turn.answer) and not turn.subagent and turn.prompt is not None

    def _work_of(self, turn: Turn, width: int) -> list[Phrase]:
        first = [Phrase("left midway", "failure")] if turn.uuid in self._left else []
        first += outcome_parts(turn)
        return work_in(turn.work, width, first)

    def _rest_of_prompt(
        self, turn: Turn, columns: str, below: str, work: list[Phrase]
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

    def _room(self, columns: str, work: list[Phrase]) -> int:
        """The columns of a row that are left for the prompt."""
        times = _TIME + 2 if self._has_times else 0
        before = columns_of(columns) + 2 + self._digits + 2
        figures = min(self._work, columns_of_parts(work))
        return max(8, self._screen.width - before - figures - 2 - times)

    def _row(self, turn: Turn, columns: str, work: list[Phrase], *, tells: bool = False) -> str:
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
        clock = clock_in(turn) if self._has_times else ""
        if not clock:
            return line.rstrip()
        return line + "  " + screen.styled(clock, "dim")

    def _asked(self, turn: Turn, room: int) -> list[Phrase]:
        """The names, the labels and the prompt of a turn, in so many columns."""
        parts: list[Phrase] = []
        if turn.subagent:
            parts.append(Phrase(f"{self._agents.get(turn.uuid, '')}: ", "agent"))
        elif turn.lane is not None:
            parts.append(Phrase(f"lane {one_line(turn.lane, 40)}: ", "agent"))
        parts += [Phrase(f"({one_line(name, 40)}) ", "branch") for name in turn.names]
        parts += [
            Phrase(f"[{one_line(label, 40)}] ", "label") for _, label in turn.labels[:_MOST_LABELS]
        ]
        if len(turn.labels) > _MOST_LABELS:
            parts.append(Phrase(f"[+{len(turn.labels) - _MOST_LABELS:,}] ", "label"))
        role = ("prompt" if turn.current else "") if turn.prompt is not None else "dim"
        parts.append(Phrase(asked_in(turn), role))
        kept: list[Phrase] = []
        for part in parts:
            text = cut(part.text, room)
            room -= columns_of(text)
            if text:
                kept.append(part._replace(text=text))
        return kept

    def _told(self, turn: Turn, room: int) -> list[Phrase]:
        """What came out of a turn, behind a short prompt."""
        return [Phrase(cut(f"  → {told_in(turn)}", room), "dim")] if room >= _LEAST_TOLD else []

    def _new_day(self, turn: Turn, columns: str) -> Iterator[str]:
        """A heading where the day is another than in the row above."""
        moment = local_time(turn)
        if moment is None:
            return
        day = f"{moment.day} {moment.strftime('%B %Y')}"
        if day == self._day:
            return
        self._day = day
        past = ago((self._screen.now - moment).total_seconds())
        yield self._screen.styled(cut(f"{columns}── {day}, {past}", self._screen.width), "dim")

    def _event(self, event: TurnEvent, columns: str) -> str:
        said = event_in(event)
        return self._note(said.text, columns, said.role)

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
        parts = work_of_subagent(agent, self._work)
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


def reply_in(event: TurnEvent, width: int, screen: Screen) -> str:
    """A question of a tool and what the user replied; a long question leaves room for the reply."""
    question = f"? {event.question} — "
    least = max(width // 2, width - columns_of(event.text))
    question = question if columns_of(question) <= least else cut(question[:-3], least - 3) + " — "
    reply = cut(event.text, max(8, width - columns_of(question)))
    return screen.styled(question, "dim") + screen.styled(reply, "prompt")


def _plain(parts: Sequence[Phrase]) -> str:
    return "".join(part.text for part in parts)


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
    parts = [Phrase(f"{prompts:,} {'prompt' if prompts == 1 else 'prompts'}")]
    if (branches := outline.branches) > 1:
        parts.append(Phrase(f"{branches:,} branches, ○ off the current path"))
    if subagents:
        parts.append(Phrase(f"{subagents:,} {'subagent' if subagents == 1 else 'subagents'}"))
    parts += outcomes_in(outline.turns)
    models = ", ".join(outline.work.models[:2]) + (", …" if len(outline.work.models) > 2 else "")
    if outline.turns:
        first = [*parts, Phrase(models, weight=0)] if models else parts
        yield styled_parts(work_in(outline.work, screen.width, first), screen.width, screen)


_PROMPT_LINES: Final = 40
_ROLE_WIDTH: Final = 11
_STYLES: Final = {"user": "prompt", "tool": "dim", "assistant": "number"}


def opened_turn(read: TurnRead, screen: Screen) -> Iterator[str]:
    """The lines that show a turn."""
    session, outline, named = read
    for place, turn in named:
        yield from _heading(turn, outline, screen)
        entries = session.turn(turn)
        agents = {agent.caller: agent for agent in turn.subagents if agent.caller}
        labels = dict(turn.labels)
        replies: dict[str, list[TurnEvent]] = {}
        for event in turn.events:
            if event.kind == "reply":
                replies.setdefault(event.uuid, []).append(event)
        for entry, message in with_messages(entries, session.cursor.messages, is_wanted=is_unclear):
            if entry.type not in CONTENT and not is_typed(entry):
                continue
            if entry.uuid == turn.uuid and turn.prompt is not None:
                yield from _prompt(entry, message, turn, labels, screen)
            elif entry.uuid in replies:
                yield from _replies(entry, replies[entry.uuid], screen)
            else:
                yield _row(entry, message, labels, screen)
            if agent := agents.get(entry.uuid):
                parts = [Phrase(f"↳ {agent.name}: {agent.task}", "agent")]
                did = work_in(agent.work, max(20, screen.width // 2), parts)
                yield f"{'':10}{styled_parts(did, screen.width - 10, screen)}"
        yield from _following(outline, place, screen)


def _heading(turn: Turn, outline: SessionOutline, screen: Screen) -> Iterator[str]:
    where = f"turn {turn.name} of {outline.last_number}"
    if turn.subagent:
        where = f"subagent in turn {turn.number}, lane {turn.lane}"
    parts = [where]
    if (moment := local_time(turn)) is not None:
        past = ago((screen.now - moment).total_seconds())
        parts.append(f"{moment.day} {moment.strftime('%B %Y %H:%M')}, {past}")
    parts += turn.work.models[:3]
    parts += [] if turn.current else ["not on the current path"]
    yield screen.styled(cut(" · ".join(parts), screen.width), "title")
    if told := outcome_in(turn):
        yield screen.styled(cut(told, screen.width), "failure")
    did = work_parts(turn.work, tools=20, files=0, words=True)
    if did:
        said = " · ".join(part.text for part in did)
        yield from (screen.styled(line, "dim") for line in wrapped(said, screen.width))
    for path in turn.work.changed[:20]:
        shown = path_in(one_line(path, 400), outline.cwd, screen.width - 10)
        yield screen.styled(f"  changed {shown}", "dim")
    if len(turn.work.changed) > 20:
        yield screen.styled(f"  changed {len(turn.work.changed) - 20:,} more", "dim")
    yield ""


def _prompt(
    entry: Entry, message: Message | None, turn: Turn, labels: dict[str, str], screen: Screen
) -> Iterator[str]:
    own = entry.message_as_stored if entry.type == "message" else message
    text = as_typed(text_of(own).strip()) if isinstance(own, dict) else typed_in(entry)
    lines = iter(wrapped(printable(text or turn.prompt or ""), screen.width - 10))
    label = f"[{labels[entry.uuid]}] " if entry.uuid in labels else ""
    shown = list(islice(lines, _PROMPT_LINES))
    for at, line in enumerate(shown or [""]):
        before = short(entry.uuid) if at == 0 else ""
        body = screen.styled(cut((label if at == 0 else "") + line, screen.width - 10), "prompt")
        yield f"{screen.styled(f'{before:<8}', 'dim')}  {body}".rstrip()
    if next(lines, None) is not None:
        yield screen.styled(f"{'':10}… 'show' with {short(entry.uuid)} prints the rest", "dim")


def _row(entry: Entry, message: Message | None, labels: dict[str, str], screen: Screen) -> str:
    who = speaker(entry, message)
    label = f"[{labels[entry.uuid]}] " if entry.uuid in labels else ""
    room = screen.width - 10 - _ROLE_WIDTH - 2
    words = cut(label + preview(entry, message, 2 * screen.width), room)
    role = _STYLES.get(who, "compaction" if entry.type == "compaction" else "")
    spoken = cut(who, _ROLE_WIDTH)
    named = f"{spoken:<{_ROLE_WIDTH}}"
    body = screen.styled(words, "dim") if role == "dim" else words
    uuid = screen.styled(f"{short(entry.uuid):<8}", "dim")
    return f"{uuid}  {screen.styled(named, role) if role else named}  {body}".rstrip()


def _replies(entry: Entry, replies: list[TurnEvent], screen: Screen) -> Iterator[str]:
    """What the user replied to the questions of a tool."""
    for at, event in enumerate(replies):
        before = screen.styled(f"{short(entry.uuid) if at == 0 else '':<8}", "dim")
        who = screen.styled(f"{'user' if at == 0 else '':<{_ROLE_WIDTH}}", "prompt")
        said = reply_in(event, screen.width - 10 - _ROLE_WIDTH - 2, screen)
        yield f"{before}  {who}  {said}".rstrip()


def _following(outline: SessionOutline, place: int, screen: Screen) -> Iterator[str]:
    below = TurnTree(outline.turns).below(place)
    if below:
        yield ""
    for turn in (outline.turns[at] for at in below):
        mark = "●" if turn.current else "○"
        text = f"{mark} {turn.name}  {without_path(turn.prompt or turn.answer)}"
        yield screen.styled(cut(text, screen.width), "dim")


_BETWEEN: Final = " │ "
_MOST_FILES: Final = 30


class _Line(NamedTuple):
    """A part of a line, and how many columns it has."""

    text: str = ""
    columns: int = 0


def side_by_side(found: Comparison, names: tuple[str, str], screen: Screen) -> Iterator[str]:
    """The lines that show a comparison."""
    yield from _parting(found, screen)
    width = (screen.width - len(_BETWEEN)) // 2
    sides = (found.one, found.other)
    columns = [
        [*_head(side, name, width, screen), *_turns(side, width, screen)]
        for side, name in zip(sides, names, strict=True)
    ]
    yield from _joined(columns, width, screen)
    if any(side.work.changed for side in sides):
        yield screen.styled("─" * width + "─┼─" + "─" * width, "dim")
        yield from _joined([*_files(found, width, screen)], width, screen)


def _parting(found: Comparison, screen: Screen) -> Iterator[str]:
    if found.fork is None:
        yield screen.styled("The two share no entry.", "title")
        return
    where = f"They part at {short(found.fork)}"
    if found.turn is not None:
        where += f", in turn {found.turn.name}: {found.turn.prompt or found.turn.answer}"
    yield screen.styled(cut(where, screen.width), "title")
    yield ""


def _joined(columns: Sequence[Sequence[_Line]], width: int, screen: Screen) -> Iterator[str]:
    bar = screen.styled(_BETWEEN, "dim")
    for one, other in zip_longest(*columns, fillvalue=_Line()):
        yield f"{one.text}{' ' * (width - one.columns)}{bar}{other.text}".rstrip()


def _head(side: Side, name: str, width: int, screen: Screen) -> Iterator[_Line]:
    mark = "●" if side.current else "○"
    ended = moment_of(side.work.ended)
    when = "" if ended is None else f", {ago((screen.now - ended).total_seconds())}"
    given = one_line(name, 100)
    named = short(side.leaf) if side.leaf.startswith(given) else f"{given} ({short(side.leaf)})"
    yield _line(f"{mark} {named}{when}", width, "here" if side.current else "title", screen)
    if not side.turns:
        yield _line("nothing since", width, "dim", screen)
        return
    yield _parts(work_in(side.work, width, prompts_in(side.turns)), width, "", screen)
    yield _Line()


def _turns(side: Side, width: int, screen: Screen) -> Iterator[_Line]:
    digits = max((len(turn.name) for turn in side.turns), default=0)
    for place, turn in enumerate(side.turns):
        is_rest = side.is_rest and place == 0
        text = f"(the rest of turn {turn.name})" if is_rest else asked_in(turn)
        number = f"{'' if is_rest else turn.name:<{digits}}  "
        shown = cut(text, width - columns_of(number))
        styled = screen.styled(number, "number") + screen.styled(shown, "prompt")
        yield _Line(styled, columns_of(number) + columns_of(shown))
        indent = " " * columns_of(number)
        did = work_in(turn.work, width - len(indent), outcome_parts(turn))
        if did:
            yield _parts(did, width, indent, screen)
        if (turn.answer and turn.prompt is not None) or is_rest:
            yield _line(f"{indent}→ {told_in(turn)}", width, "dim", screen)


def _files(found: Comparison, width: int, screen: Screen) -> Iterator[list[_Line]]:
    """For each side a column of the files it changed, those that both changed first."""
    both = dict.fromkeys(found.both_changed)
    for side in (found.one, found.other):
        shown = [*both, *(path for path in side.work.changed if path not in both)]
        lines = [_line("changed", width, "title", screen)] if shown else []
        for path in shown[:_MOST_FILES]:
            mark = "= " if path in both else "  "
            lines.append(_line(mark + _end_of(path, width - 2), width, "", screen))
        if len(shown) > _MOST_FILES:
            lines.append(_line(f"  and {len(shown) - _MOST_FILES:,} more", width, "dim", screen))
        yield lines


def _end_of(path: str, width: int) -> str:
    """The end of a path, which tells files apart."""
    return path if len(path) <= width else "…" + path[-(width - 1) :]


def _line(text: str, width: int, role: str, screen: Screen) -> _Line:
    shown = cut(text, width)
    return _Line(screen.styled(shown, role) if role else shown, columns_of(shown))


def _parts(parts: Sequence[Phrase], width: int, indent: str, screen: Screen) -> _Line:
    room = width - len(indent)
    if len(parts) == 1:
        parts = [parts[0]._replace(text=cut(parts[0].text, room))]
    columns = sum(columns_of(part.text) for part in parts) + 3 * (len(parts) - 1)
    return _Line(indent + styled_parts(parts, room, screen), len(indent) + columns)


@renders("session.outline", with_json=True)
def _(call: CommandCall, read: OutlineRead) -> None:
    given = call.given
    if call.as_json:
        _out_rows(read.session, read.outline)
    else:
        show(Picture(read.outline, screen(), given.depth).lines(), paged=not given.no_pager)


@renders("session.turn", with_json=True)
def _(call: CommandCall, read: TurnRead) -> None:
    if call.as_json:
        wanted = {entry.uuid for _, turn in read.named for entry in read.session.turn(turn)}
        _out_rows(read.session, read.outline, wanted)
    else:
        show(opened_turn(read, screen()), paged=not call.given.no_pager)


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
    given = call.given
    show(side_by_side(found, (given.one, given.other), screen()), paged=not given.no_pager)


_ROOM_FOR_ALL: Final = 70
"""Columns from which on a label is shown with its time and its role."""


@renders("node.labels")
def _(call: CommandCall, found: list[Label]) -> None:
    if not found:
        tell(f"There is no label in {call.given.session}; 'label' gives an entry one")
    show(_label_lines(found, screen()), paged=not call.given.no_pager)


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
