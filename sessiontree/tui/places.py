"""Lists of places in a session: its labels, and its turns by cost. Enter gives the entry."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from sessiontree.operations.labels import Label
from sessiontree.operations.prices import load
from sessiontree.operations.turn_costs import TurnCost, costs_of_turns
from sessiontree.operations.turns import SessionOutline
from sessiontree.operations.words import asked_in
from sessiontree.text.amounts import dollars, in_short
from sessiontree.text.columns import filled
from sessiontree.tui.line import Line, Piece
from sessiontree.tui.reader import Reader
from sessiontree.tui.view import View, listing

_WIDE: Final = 100  # columns from which on cached tokens are shown


class LabelsView(View, inherit_bindings=False):
    """The labels of a session."""

    BINDINGS: ClassVar[list[Any]] = listing("read the turn")
    HINTS = "Enter read  ? keys  Esc back"

    def __init__(self, reader: Reader) -> None:
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
        return [Piece("Labels")], [Piece(f"{len(self._labels):,}")]

    def _line(self, number: int, width: int) -> Line:
        label = self._labels[number]
        return [
            Piece("● " if label.current else "○ ", "here" if label.current else "dim"),
            Piece(filled(label.label, width // 3) + "  ", "label"),
            Piece(f"{label.uuid[:8]:<8}  ", "dim"),
            Piece(label.preview),
        ]

    def action_choose(self) -> None:
        if self._labels:
            self.dismiss(self._labels[self.lines.at].uuid)


class CostsView(View, inherit_bindings=False):
    """The turns of a session, the most expensive first, as reported or at list prices."""

    BINDINGS: ClassVar[list[Any]] = listing("read the turn")
    HINTS = "Enter read  ? keys  Esc back"

    def __init__(self, reader: Reader, outline: SessionOutline) -> None:
        super().__init__()
        self._reader, self._outline = reader, outline
        self._costs: list[TurnCost] | None = None
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
        listed = sum(cost.listed for cost in known)
        parts = [f"{dollars(usage.cost)} reported"] if usage.cost else []
        parts += [f"~{dollars(listed)} estimated"] if listed else []
        if not parts and self._costs is not None:
            parts = ["no known cost"]
        return [Piece("Costs by turn")], [Piece(" · ".join([*parts, tokens]))]

    def _line(self, number: int, width: int) -> Line:
        assert self._costs is not None
        place = self._places[number]
        turn, cost = self._outline.turns[place], self._costs[place]
        sign = "~" if cost.listed else ""
        name = f"{turn.name}{' ↳' if turn.subagent else ''}"
        return [
            Piece(f"{sign + dollars(cost.dollars) if cost.dollars else '':>10}  ", "number"),
            Piece(f"{in_short(turn.work.tokens):>6} tok  ", "dim"),
            Piece(f"{name:<6} ", "number"),
            Piece(asked_in(turn)),
        ]

    def action_choose(self) -> None:
        if self._places:
            self.dismiss(self._outline.turns[self._places[self.lines.at]].uuid)
