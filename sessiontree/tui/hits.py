"""What a search found; Enter opens the entry in its session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from typing import Any, ClassVar, Final

from sessiontree.catalog.search import SearchHit, Wanted, search
from sessiontree.core.display import one_line
from sessiontree.text.columns import filled
from sessiontree.text.pattern import Pattern
from sessiontree.tui.line import Line, Piece
from sessiontree.tui.view import View, listing

_MOST: Final = 1000
_AT_ONCE: Final = 50


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
            more = await self.tried(asyncio.to_thread(lambda: list(islice(found, _AT_ONCE))))
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
        pattern = Pattern(self._words, ignore_case=self._words.islower())
        hits = search(
            pattern,
            self._files(),
            Wanted(conversation=True),
            self._problems.append,
            limit=_MOST,
            each=self._check,
        )
        return _all_of(hits)

    def _check(self, number: int) -> None:
        if self._is_left:
            raise InterruptedError

    def title_line(self) -> tuple[Line, Line]:
        count = f"{len(self._hits):,} {'hit' if len(self._hits) == 1 else 'hits'}"
        state = "" if self._is_done else " · searching …"
        if self._problems:
            state += f" · {len(self._problems):,} left out: {self._problems[0]}"
        return [Piece(f"search: {self._words}")], [Piece(count + state)]

    def _line(self, number: int, width: int) -> Line:
        hit = self._hits[number]
        start, end = hit.match
        turn = "" if hit.turn is None else f"{hit.turn}"
        who = filled(one_line(hit.speaker or hit.type), 10)
        return [
            Piece(f"{hit.session[:8]:<8} {turn:>4}  ", "dim"),
            Piece(f"{who} ", "number"),
            Piece(hit.snippet[:start]),
            Piece(hit.snippet[start:end], "found"),
            Piece(hit.snippet[end:]),
        ]

    def action_choose(self) -> None:
        if self._hits:
            self.dismiss(self._hits[self.lines.at])


def _all_of(hits: Any) -> Iterator[SearchHit]:
    with closing(hits):
        yield from hits
