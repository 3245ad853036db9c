"""The lists of the browser: hits of a search, labels, turns by cost, and costs of sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, ClassVar, Final

from sessiontree.core.display import one_line
from sessiontree.library.conversations import originals_first
from sessiontree.library.counts import BY, PERIODS, By, CountCache
from sessiontree.library.listing import SessionInfo
from sessiontree.library.root import cache_folder
from sessiontree.library.search import search
from sessiontree.library.search_file import SearchFilter, SearchHit
from sessiontree.library.spending import (
    UNNAMED,
    CountedSession,
    Name,
    Spending,
    SpendingSum,
    spendings_of,
)
from sessiontree.text.amounts import counted, dollars, in_short
from sessiontree.text.columns import Line, Span, cut, filled
from sessiontree.text.pattern import query
from sessiontree.tui.loader import FileReader
from sessiontree.tui.view import BACK, HELP, LETTERS, MOVING, View, key, listing
from sessiontree.views.costs import HOW_TO_GET, CostSum, Prices, costs_of_turns, load
from sessiontree.views.tree import Label
from sessiontree.views.turns import SessionOutline
from sessiontree.views.words import asked_in


class HitsView(View, inherit_bindings=False):
    """The hits of a search, as they are found."""

    BINDINGS: ClassVar[list[Any]] = listing("open the entry")
    HINTS = "Enter open  ? keys  Esc back"

    def __init__(self, words: str, files: Callable[[], list[str]]) -> None:
        super().__init__()
        self._words, self._files = words, files
        self._hits: list[SearchHit] = []
        self._problems: list[str] = []
        self._is_done = self._is_left = False

    def opened(self) -> None:
        self.run_worker(self._search())

    def on_unmount(self) -> None:
        self._is_left = True

    async def _search(self) -> None:
        found = await self.tried(asyncio.to_thread(self._started))
        while found is not None and not self._is_left:
            more = await self.tried(asyncio.to_thread(lambda: list(islice(found, 50))))
            if not more:
                break
            self._hits += more
            self.lines.fill(len(self._hits), self._line, self.lines.at)
            self.refresh_title()
        self._is_done = True
        self.refresh_title()
        if not self._hits and not self._is_left and found is not None:
            self.tell(f"nothing matches {self._words}")

    def _started(self) -> Iterator[SearchHit]:
        return search(
            query(self._words),
            self._files(),
            SearchFilter(conversation=True),
            self._problems.append,
            limit=1000,
            each=self._check,
        )

    def _check(self, number: int) -> None:
        if self._is_left:
            raise InterruptedError

    def title_line(self) -> tuple[Line, Line]:
        state = "" if self._is_done else " · searching …"
        if self._problems:
            state += f" · {len(self._problems):,} left out: {self._problems[0]}"
        return [Span(f"search: {self._words}")], [Span(counted(len(self._hits), "hit") + state)]

    def _line(self, number: int, width: int) -> Line:
        hit = self._hits[number]
        turn = "" if hit.turn is None else f"{hit.turn}"
        who = filled(one_line(hit.speaker or hit.type), 10)
        return [
            Span(f"{hit.session[:8]:<8} {turn:>4}  ", "dim"),
            Span(f"{who} ", "number"),
            *marked_spans(hit.snippet, hit.matches),
        ]

    def action_choose(self) -> None:
        if self._hits:
            self.dismiss(self._hits[self.lines.at])


def marked_spans(text: str, matches: Iterable[tuple[int, int]], role: str = "") -> Iterator[Span]:
    """Yield a text in pieces, its matches in the colour of what is found."""
    at = 0
    for start, end in matches:
        yield Span(text[at:start], role)
        yield Span(text[start:end], "found")
        at = end
    yield Span(text[at:], role)


_WIDE: Final = 100  # columns from which on cached tokens are shown


class LabelsView(View, inherit_bindings=False):
    """The labels of a session."""

    BINDINGS: ClassVar[list[Any]] = listing("read the turn")
    HINTS = "Enter read  ? keys  Esc back"

    def __init__(self, reader: FileReader) -> None:
        super().__init__()
        self._reader = reader
        self._labels: list[Label] = []

    def opened(self) -> None:
        self.run_worker(self._read())

    async def _read(self) -> None:
        found = await self.tried(self._reader.ask(lambda session: session.labels()))
        self._labels = found or []
        self.lines.fill(len(self._labels), self._line)
        if found == []:
            self.tell("this session has no label")

    def title_line(self) -> tuple[Line, Line]:
        return [Span("Labels")], [Span(f"{len(self._labels):,}")]

    def _line(self, number: int, width: int) -> Line:
        label = self._labels[number]
        return [
            Span("● " if label.current else "○ ", "here" if label.current else "dim"),
            Span(filled(label.label, width // 3) + "  ", "label"),
            Span(f"{label.uuid[:8]:<8}  ", "dim"),
            Span(label.preview),
        ]

    def action_choose(self) -> None:
        if self._labels:
            self.dismiss(self._labels[self.lines.at].uuid)


class CostsView(View, inherit_bindings=False):
    """The turns of a session, the most expensive first, as reported or at list prices."""

    BINDINGS: ClassVar[list[Any]] = listing("read the turn")
    HINTS = "Enter read  ? keys  Esc back"

    def __init__(self, reader: FileReader, outline: SessionOutline) -> None:
        super().__init__()
        self._reader, self._outline = reader, outline
        self._costs: list[CostSum] | None = None
        self._places: list[int] = []

    def opened(self) -> None:
        self.run_worker(self._read())

    async def _read(self) -> None:
        outline = self._outline
        found = await self.tried(
            self._reader.ask(lambda session: costs_of_turns(session.cursor, outline, load()))
        )
        if found is None:
            return
        turns = outline.turns
        used = [n for n, turn in enumerate(turns) if turn.work.tokens or found[n].dollars]
        self._costs = found
        self._places = sorted(
            used, key=lambda n: (found[n].dollars, turns[n].work.tokens), reverse=True
        )
        self.lines.fill(len(self._places), self._line)
        self.refresh_title()
        if not self._places:
            self.tell("this session reports no tokens and no cost")

    def title_line(self) -> tuple[Line, Line]:
        usage = self._outline.work.usage
        tokens = f"{in_short(usage.input)} in, {in_short(usage.output)} out"
        if self.size.width >= _WIDE:
            tokens += f", {in_short(usage.cache_read)} cached"
        known = self._costs or []
        listed = sum(cost.estimated for cost in known)
        parts = [f"{dollars(usage.cost)} reported"] if usage.cost else []
        parts += [f"~{dollars(listed)} estimated"] if listed else []
        if not parts and self._costs is not None:
            parts = ["no known cost"]
        return [Span("Costs by turn")], [Span(" · ".join([*parts, tokens]))]

    def _line(self, number: int, width: int) -> Line:
        assert self._costs is not None
        place = self._places[number]
        turn, cost = self._outline.turns[place], self._costs[place]
        sign = "~" if cost.estimated else ""
        name = f"{turn.name}{' ↳' if turn.subagent else ''}"
        return [
            Span(f"{sign + dollars(cost.dollars) if cost.dollars else '':>10}  ", "number"),
            Span(f"{in_short(turn.work.tokens):>6} tok  ", "dim"),
            Span(f"{name:<6} ", "number"),
            Span(asked_in(turn)),
        ]

    def action_choose(self) -> None:
        if self._places:
            self.dismiss(self._outline.turns[self._places[self.lines.at]].uuid)


class SpendingView(View, inherit_bindings=False):
    """The costs of sessions: reported ones, and estimates at list prices."""

    BINDINGS: ClassVar[list[Any]] = [
        *MOVING,
        *LETTERS,
        key("tab,right", "turn(1)", "by the next of: day, project, model, agent", "Tab →"),
        key("shift+tab,left", "turn(-1)", "by the one before", "←"),
        HELP,
        BACK,
    ]
    HINTS = "Tab by project, model, agent  ? keys  Esc back"

    def __init__(self, sessions: Sequence[SessionInfo]) -> None:
        super().__init__()
        self._sessions = originals_first(sessions)
        self._made: dict[By, Spending] | None = None
        self._by: By = "day"
        self._rows: list[tuple[Name, SpendingSum]] = []
        self._problems: list[str] = []
        self._read = 0
        self._is_left = False

    def opened(self) -> None:
        self.run_worker(self._add_up())

    def on_unmount(self) -> None:
        self._is_left = True

    async def _add_up(self) -> None:
        found = await self.tried(asyncio.to_thread(self._added_up))
        if found is None or self._is_left:
            return
        self._made, prices = found
        self._refill()
        if prices is None and self._made["day"].unpriced:
            self.tell(f"for estimates at list prices: {HOW_TO_GET}")

    def _added_up(self) -> tuple[dict[By, Spending], Prices | None]:
        prices = load()
        return spendings_of(self._counted(), BY, prices, self._problems.append), prices

    def _counted(self) -> Iterator[CountedSession]:
        counter = CountCache(cache_folder(), self._problems.append)
        for number, each in enumerate(counter.counted(self._sessions, None)):
            self._note(number)
            yield each
        counter.save()

    def _note(self, number: int) -> None:
        if self._is_left:
            raise InterruptedError
        self._read = number
        if number % 16 == 0:
            self.app.call_from_thread(self.refresh_title)

    def _refill(self) -> None:
        assert self._made is not None
        rows = list(self._made[self._by].rows.items())
        self._rows = rows[::-1] if self._by in PERIODS else rows  # the newest first
        self.lines.fill(len(self._rows), self._line)
        self.refresh_title()
        if not self._rows:
            self.tell("these sessions report no tokens and no cost")

    def action_turn(self, by: int) -> None:
        self.hint()
        self._by = BY[(BY.index(self._by) + by) % len(BY)]
        if self._made is not None:
            self._refill()

    def title_line(self) -> tuple[Line, Line]:
        if self._made is None:
            left = f"{self._read:,} of {len(self._sessions):,}"
            return [Span(f"Costs by {self._by}")], [Span(f"reading {left}")]
        total = self._made[self._by].total
        cost = dollars(total.usage.cost + total.estimated)
        parts = [f"█ {dollars(total.usage.cost)} reported"] if total.usage.cost else []
        parts += [f"░ {dollars(total.estimated)} estimated"] if total.estimated else []
        parts += [f"{total.unpriced:,} no price"] if total.unpriced else []
        parts += [f"{len(self._problems):,} left out"] if self._problems else []
        return [Span(f"Costs by {self._by} · {cost}")], [Span(" · ".join(parts))]

    def _line(self, number: int, width: int) -> Line:
        name, row = self._rows[number]
        most = max(each.usage.cost + each.estimated for _, each in self._rows)
        cost = row.usage.cost + row.estimated
        used = row.usage
        shown = one_line(name, 400) if name else UNNAMED.get(self._by, "")
        wide = width // 3
        pieces = [
            Span(filled(cut(shown, wide), wide) + "  "),
            Span(f"{dollars(cost) if cost else '':>10}  ", "number"),
        ]
        if width >= _WIDE:
            tokens = f"{in_short(used.input):>6} in {in_short(used.output):>6} out "
            cached = f"{in_short(used.cache_read + used.cache_write):>6} cached  "
            pieces.append(Span(tokens + cached, "dim"))
        room = width - sum(len(piece.text) for piece in pieces)
        length = max(1, round(room * cost / most)) if cost and room > 0 else 0
        reported = min(length, round(length * used.cost / cost)) if cost else 0
        pieces += [Span("█" * reported, "branch"), Span("░" * (length - reported), "label")]
        return pieces
