"""Columns of secrets in tables: Markdown, CSV, tab-separated, and those of consoles.

Invariants: each line is read once, as a header or as a row; so the cost is that of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from sessiontree.redact.rule import compiled, lowered
from sessiontree.redact.values import (
    PLACEHOLDER,
    SNAKE,
    is_generated,
    is_password,
    is_secret_value,
    is_telling,
    keyword_of,
)

_COLUMN: Final = compiled("<COLUMN>")
_BREAK: Final = re.compile(r"(?:\\r)?\\n|\r?\n")
_RULER: Final = re.compile(r"[\s|│┃+:=_─━┄┼├┤┿╪╞╡-]*")
_SIGNS: Final = ("│", "┃", "|", "\t", "\\t", ";", ",")
_FRAMED: Final = ("│", "┃", "|")
_CODE: Final = re.compile(r"[()\[\]{}]|=[ \"']")
_ALIGNED: Final = re.compile(r"\S+(?: \S+)*")  # cells that two blanks keep apart
_NAME: Final = re.compile(
    "[A-Za-z][A-Za-z0-9_/#-]{0,30}(?: [A-Za-z0-9_/#-]{1,30}){0,2}"
)  # a column
_QUOTE: Final = re.compile(r"""\\{0,8}["'] """)
_DECORATION: Final = " \t*`\"'\\"
_LONGEST_HEADER: Final = 400

_Cell = tuple[int, int]


class _TableLine(NamedTuple):
    start: int
    end: int
    next: int  # where the next line starts


def _line_at(text: str, start: int) -> _TableLine:
    found = _BREAK.search(text, start)
    return (
        _TableLine(start, len(text), len(text))
        if found is None
        else _TableLine(start, *found.span())
    )


def _start_of_line(text: str, first: int, at: int) -> int:
    broken, spelled = text.rfind("\n", first, at), text.rfind("\\n", first, at)
    return max(first, broken + 1, spelled + 2 if spelled >= 0 else 0)


def _cells(text: str, line: _TableLine, sign: str) -> list[_Cell]:
    """The cells of a line, without what surrounds their text."""
    if not sign:
        start = max(line.start, text.rfind('"', line.start, line.end - 1) + 1)  # of a quoted table
        return [_bare(text, *cell.span()) for cell in _ALIGNED.finditer(text, start, line.end)]
    cells: list[_Cell] = []
    at = line.start
    for part in text[line.start : line.end].split(sign):
        cells.append(_bare(text, at, at + len(part)))
        at += len(part) + len(sign)
    return cells


def _bare(text: str, start: int, end: int) -> _Cell:
    while start < end and text[start] in _DECORATION:
        start += 1
    while start < end and text[end - 1] in _DECORATION:
        end -= 1
    quote = _QUOTE.search(text, start, end)  # of a text around the table
    return start, end if quote is None else quote.start()


def _sign_of(header: str) -> str:
    return next((sign for sign in _SIGNS if sign in header), "")


def table_cells(text: str) -> Iterator[tuple[int, int]]:
    """The cells of a text below a header that names a secret, or beside one."""
    read = 0  # the lines before this are done with
    for found in _COLUMN.finditer(lowered(text).text):
        if found.start() < read:
            continue
        first = max(read, found.start() - _LONGEST_HEADER)
        header = _line_at(text, _start_of_line(text, first, found.start()))
        read = header.next
        if header.end - header.start > _LONGEST_HEADER:
            continue
        sign = _sign_of(text[header.start : header.end])
        cells = _cells(text, header, sign)
        names = _names(text, cells)
        if not names or len(cells) < 2 or (sign not in _FRAMED and not _is_header(text, cells)):
            continue
        if not sign and 0 in names:
            continue
        yield from _beside(text, cells, names, sign)
        for line in _rows(text, header, cells, sign):
            yield from _of_row(text, _cells(text, line, sign), cells, names, sign)
            read = line.next


def _names(text: str, cells: list[_Cell]) -> dict[int, str]:
    names: dict[int, str] = {}
    for place, (start, end) in enumerate(cells):
        if end - start <= 40 and (name := keyword_of(text[start:end])) is not None:
            names[place] = name
    return names


def _is_header(text: str, cells: list[_Cell]) -> bool:
    """True if all cells of a line are names of columns, so that the line is not one of code."""
    (start, end), *others = cells
    start = max(start, text.rfind('"', start, end) + 1)  # of a quoted table
    return all(_NAME.fullmatch(text, *cell) for cell in ((start, end), *others))


def _rows(text: str, header: _TableLine, cells: list[_Cell], sign: str) -> Iterator[_TableLine]:
    line = header
    while line.next < len(text):
        line = _line_at(text, line.next)
        is_ruler = _RULER.fullmatch(text, line.start, line.end) is not None
        if is_ruler and line.start == line.end:
            return
        count = len(_cells(text, line, sign))
        if not is_ruler and (count != len(cells) if sign else count < 2):
            return
        if sign not in _FRAMED and _CODE.search(text, line.start, line.end):
            return
        yield line


def _of_row(
    text: str, row: list[_Cell], header: list[_Cell], names: dict[int, str], sign: str
) -> Iterator[_Cell]:
    for place, name in names.items():
        cell = _cell_of(row, place, header, sign)
        if cell is None:
            continue
        value = text[slice(*cell)]
        if _is_secret(name, value) and ((sign and sign not in _FRAMED) or _is_random(value)):
            yield cell


def _cell_of(row: list[_Cell], place: int, header: list[_Cell], sign: str) -> _Cell | None:
    """The cell of a column; that of an aligned table starts where its header starts."""
    if sign:
        return row[place] if place < len(row) else None
    if not row:
        return None
    column = header[place][0] - header[0][0]
    return next((cell for cell in row if cell[0] - row[0][0] == column), None)


def _beside(text: str, cells: list[_Cell], names: dict[int, str], sign: str) -> Iterator[_Cell]:
    """The value of a row that begins with a name: `| password | X |`."""
    filled = [cell for cell in cells if cell[0] < cell[1]]
    if sign in ("", ",", ";") or len(filled) != 2:
        return
    place = cells.index(filled[0])
    value = text[slice(*filled[1])]
    if place in names and _is_secret(names[place], value) and _is_random(value):
        yield filled[1]


def _is_random(value: str) -> bool:
    return is_password(value) or is_generated(value)


def _is_secret(name: str, value: str) -> bool:
    if " " in value or value.isdecimal() or PLACEHOLDER.fullmatch(value.strip("()-")):
        return False
    if SNAKE.fullmatch(value) or value.endswith(")") or not is_secret_value(name, value):
        return False
    return not is_telling(name) or len(value) >= 6
