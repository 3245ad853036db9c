"""Lists of places in a session: its labels, and its turns by cost. Enter gives the entry."""

from __future__ import annotations

from typing import Any, ClassVar

from sessiontree.operations.labels import Label
from sessiontree.operations.turns import SessionOutline
from sessiontree.operations.words import asked_in
from sessiontree.text.amounts import dollars, in_short
from sessiontree.text.columns import filled
from sessiontree.tui.line import Line, Piece
from sessiontree.tui.reader import Reader
from sessiontree.tui.view import View, listing


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
    """The turns of a session, the most expensive first."""

    BINDINGS: ClassVar[list[Any]] = listing("read the turn")
    HINTS = "Enter read  ? keys  Esc back"

    def __init__(self, outline: SessionOutline) -> None:
        super().__init__()
        self._outline = outline
        found = (turn for turn in outline.turns if turn.work.tokens or turn.work.usage.cost)
        self._turns = sorted(
            found, key=lambda turn: (turn.work.usage.cost, turn.work.tokens), reverse=True
        )

    def opened(self) -> None:
        self.lines.fill(len(self._turns), self._line)
        if not self._turns:
            self.tell("this session reports no tokens and no cost")

    def title_line(self) -> tuple[Line, Line]:
        usage = self._outline.work.usage
        cost = dollars(usage.cost) if usage.cost else "no reported cost"
        tokens = (
            f"{in_short(usage.input)} in, {in_short(usage.output)} out, "
            f"{in_short(usage.cache_read)} cached"
        )
        return [Piece("Reported costs and tokens by turn")], [Piece(f"{cost} · {tokens}")]

    def _line(self, number: int, width: int) -> Line:
        turn = self._turns[number]
        usage = turn.work.usage
        cost = dollars(usage.cost) if usage.cost else ""
        name = f"{turn.name}{' ↳' if turn.subagent else ''}"
        return [
            Piece(f"{cost:>9}  ", "number"),
            Piece(f"{in_short(turn.work.tokens):>6} tok  ", "dim"),
            Piece(f"{name:<6} ", "number"),
            Piece(asked_in(turn)),
        ]

    def action_choose(self) -> None:
        if self._turns:
            self.dismiss(self._turns[self.lines.at].uuid)
