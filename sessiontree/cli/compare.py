"""Two branches side by side on the screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

from sessiontree.cli.outline import styled_parts
from sessiontree.cli.screen import Screen
from sessiontree.cli.terminal import short
from sessiontree.core.display import one_line
from sessiontree.core.moment import moment_of
from sessiontree.operations.compare import Comparison, Side
from sessiontree.operations.words import (
    Part,
    asked_in,
    outcome_parts,
    outcomes_in,
    told_in,
    work_in,
)
from sessiontree.text.amounts import ago
from sessiontree.text.columns import columns_of, cut

_BETWEEN: Final = " │ "
_MOST_FILES: Final = 30


class _Line(NamedTuple):
    """A part of a line, and how many columns it has."""

    text: str = ""
    columns: int = 0


def side_by_side(
    found: Comparison, names: tuple[str, str], currents: tuple[bool, bool], screen: Screen
) -> Iterator[str]:
    """The lines that show a comparison; `currents`: whether each side is the current path."""
    yield from _parting(found, screen)
    width = (screen.width - len(_BETWEEN)) // 2
    sides = (found.one, found.other)
    columns = [
        [*_head(side, name, current, width, screen), *_turns(side, width, screen)]
        for side, name, current in zip(sides, names, currents, strict=True)
    ]
    yield from _joined(columns, width, screen)
    changed = [side.work.changed for side in sides]
    if any(changed):
        yield screen.styled("─" * width + "─┼─" + "─" * width, "dim")
        yield from _joined([*_files(changed, width, screen)], width, screen)


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


def _head(side: Side, name: str, current: bool, width: int, screen: Screen) -> Iterator[_Line]:
    mark = "●" if current else "○"
    ended = moment_of(side.work.ended)
    when = "" if ended is None else f", {ago((screen.now - ended).total_seconds())}"
    given = one_line(name, 100)
    named = short(side.leaf) if side.leaf.startswith(given) else f"{given} ({short(side.leaf)})"
    yield _line(f"{mark} {named}{when}", width, "here" if current else "title", screen)
    count = sum(turn.prompt is not None for turn in side.turns)
    if not side.turns:
        yield _line("nothing since", width, "dim", screen)
        return
    first = [Part(f"{count:,} {'prompt' if count == 1 else 'prompts'}"), *outcomes_in(side.turns)]
    yield _parts(work_in(side.work, width, first), width, "", screen)
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


def _files(changed: Sequence[tuple[str, ...]], width: int, screen: Screen) -> Iterator[list[_Line]]:
    """For each side a column of the files it changed, those that both changed first."""
    both = [path for path in changed[0] if path in set(changed[1])]
    for mine in changed:
        shown = [*both, *(path for path in mine if path not in set(both))]
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


def _parts(parts: Sequence[Part], width: int, indent: str, screen: Screen) -> _Line:
    room = width - len(indent)
    if len(parts) == 1:
        parts = [parts[0]._replace(text=cut(parts[0].text, room))]
    columns = sum(columns_of(part.text) for part in parts) + 3 * (len(parts) - 1)
    return _Line(indent + styled_parts(parts, room, screen), len(indent) + columns)
