"""What the sessions of the list cost, by day, project, model and agent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from sessiontree.catalog.listing import SessionInfo
from sessiontree.catalog.places import OWN, originals_first
from sessiontree.catalog.spending import BY, By, Name, Row, Source, Spending, spendings_of
from sessiontree.core.display import one_line
from sessiontree.operations.prices import HOW_TO_GET, Prices, load
from sessiontree.text.amounts import dollars, in_short
from sessiontree.text.columns import cut, filled
from sessiontree.tui.line import Line, Piece
from sessiontree.tui.view import BACK, HELP, LETTERS, MOVING, View, key

_UNKNOWN: Final = {"day": "(no time)", "project": "(no directory)", "model": "(no model)"}
_LONGEST: Final = 400
_SHOWN_EVERY: Final = 16  # sessions
_WIDE: Final = 100  # columns from which on the tokens are shown


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
        self._rows: list[tuple[Name, Row]] = []
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
        sources = [Source(one.file, one.made_by or OWN, one.cwd) for one in self._sessions]
        found = spendings_of(sources, BY, prices, self._problems.append, shown=self._note)
        return found, prices

    def _note(self, number: int) -> None:
        if self._is_left:
            raise InterruptedError
        self._read = number
        if number % _SHOWN_EVERY == 0:
            self.app.call_from_thread(self.refresh_title)

    def _refill(self) -> None:
        assert self._made is not None
        rows = list(self._made[self._by].rows.items())
        self._rows = rows[::-1] if self._by == "day" else rows  # the newest day first
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
            return [Piece(f"Costs by {self._by}")], [Piece(f"reading {left}")]
        total = self._made[self._by].total
        cost = dollars(total.usage.cost + total.estimated)
        parts = [f"█ {dollars(total.usage.cost)} reported"] if total.usage.cost else []
        parts += [f"░ {dollars(total.estimated)} estimated"] if total.estimated else []
        parts += [f"{total.unpriced:,} no price"] if total.unpriced else []
        parts += [f"{len(self._problems):,} left out"] if self._problems else []
        return [Piece(f"Costs by {self._by} · {cost}")], [Piece(" · ".join(parts))]

    def _line(self, number: int, width: int) -> Line:
        name, row = self._rows[number]
        most = max(each.usage.cost + each.estimated for _, each in self._rows)
        cost = row.usage.cost + row.estimated
        used = row.usage
        shown = one_line(name, _LONGEST) if name else _UNKNOWN.get(self._by, "")
        wide = width // 3
        pieces = [
            Piece(filled(cut(shown, wide), wide) + "  "),
            Piece(f"{dollars(cost) if cost else '':>10}  ", "number"),
        ]
        if width >= _WIDE:
            tokens = f"{in_short(used.input):>6} in {in_short(used.output):>6} out "
            cached = f"{in_short(used.cache_read + used.cache_write):>6} cached  "
            pieces.append(Piece(tokens + cached, "dim"))
        room = width - sum(len(piece.text) for piece in pieces)
        length = max(1, round(room * cost / most)) if cost and room > 0 else 0
        reported = min(length, round(length * used.cost / cost)) if cost else 0
        pieces += [Piece("█" * reported, "branch"), Piece("░" * (length - reported), "label")]
        return pieces
