"""New entries at the end of a large session, shown before the session is read whole again.

A whole reading takes time that follows the size of the file. Here the end of the file alone is made
a page of, as the whole is, and its last turn and what follows replace the last turn of the page.
The next whole reading replaces everything.

Invariant: if anything else happened, such as a branch, nothing is made here.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import orjson
from msgspec.structs import replace

from sessiontree.agents import named
from sessiontree.library.listing import facts_of
from sessiontree.page.document import Document
from sessiontree.page.index import END, FIRST, FORK, PARENT, as_json
from sessiontree.session import Session
from sessiontree.storage.fs import DISK
from sessiontree.storage.lines import Excerpt
from sessiontree.views.turns import SessionOutline, outline
from sessiontree.web.page_state import PageState, state_of

_START: Final = 96 * 1024
_END: Final = 256 * 1024
_OVERVIEW: Final = "FO"
_ELSEWHERE: Final = ("edits", "merges", "pieces", "strays")
"""The rules that reach entries above the end of the file."""


def start_of(path: str, large: int) -> int:
    """Where the start of a file ends, if it has at least so many bytes; else 0."""
    try:
        if os.stat(path).st_size < large:
            return 0
        with open(path, "rb") as file:
            return file.read(_START).rfind(b"\n") + 1
    except OSError:  # opening the session reports it
        return 0


def ends_of(path: str) -> Excerpt | None:
    """The file with its first line and its last lines alone; None where it is not longer."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        first = len(file.readline(_START))
        at = size - _END
        if at <= first:
            return None
        file.seek(at)
        skipped = file.read(_END).find(b"\n") + 1
    return Excerpt(path, first, at + skipped) if skipped else None


def with_news(state: PageState, file: str) -> PageState | None:
    """The state with what is new at the end; None where only a whole reading tells.

    Raises:
        SessionTreeError, OSError: the session cannot be read.
    """
    old = state.index
    facts = facts_of(file)
    agent = None if facts.agent is None else named(facts.made_by)
    if (agent is not None and not agent.has_uuids) or old["part"] or old["here"] < 0:
        return None
    with Session.open(file, readonly=True, fs=ends_of(file) or DISK) as session:
        found = outline(session.cursor)
        turn = _last_turn(old, found)
        if turn is None:
            return None
        shift = int(old["turns"][old["here"]][0].partition(".")[0]) - found.turns[turn].number
        turns = tuple(replace(one, number=one.number + shift) for one in found.turns)
        numbered = replace(found, turns=turns)
        end = state_of(Document(session.cursor, session.original, found=numbered))
    seam = _seam(old, end.index, turn)
    return None if seam is None else _joined(state, end, seam)


class _Seam(NamedTuple):
    turn: int
    entry: int
    row: int
    end_turn: int
    end_entry: int
    end_row: int


def _last_turn(old: dict[str, Any], found: SessionOutline) -> int | None:
    """The place, in the outline of the end, of the last turn of the page."""
    if not found.turns or found.here is None:
        return None
    first = old["uuids"][_first_entry(old)]
    return next((at for at, turn in enumerate(found.turns) if turn.uuid == first), 0)


def _first_entry(old: dict[str, Any]) -> int:
    first_row = old["turns"][old["here"]][FIRST]
    number = len(old["uuids"])
    while number and old["rowOf"][number - 1] >= first_row:
        number -= 1
    return min(number, len(old["uuids"]) - 1)


def _seam(old: dict[str, Any], end: dict[str, Any], turn: int) -> _Seam | None:
    """Where both go on alike, in one line without a branch; None if there is no such place."""
    here, last = old["here"], _end_of_rows(old)
    if old["turns"][here][END] != last:
        return None
    known = {uuid: n for n, uuid in enumerate(old["uuids"][_first_entry(old) :], _first_entry(old))}
    entry = end_entry = -1
    for end_entry, uuid in enumerate(end["uuids"]):
        entry = known.get(uuid, -1)
        if entry >= 0 and _has_own_row(old, entry) and _has_own_row(end, end_entry):
            break
    else:
        return None
    count = len(old["uuids"]) - entry
    if end["uuids"][end_entry : end_entry + count] != old["uuids"][entry:]:
        return None
    row, end_row = old["rowOf"][entry], end["rowOf"][end_entry]
    is_whole = end["turns"][turn][FIRST] + 1 == end_row and old["turns"][here][FIRST] + 1 == row
    if is_whole:  # its head says what was done in all of it
        row, end_row = row - 1, end_row - 1
    is_line = all(step == 1 for step in end["above"][end_entry + 1 :])
    reaches = any(int(n) >= end_entry for name in _ELSEWHERE for n in end["rules"][name])
    has_agents = any(int(at) >= end_row for at in end["agents"])
    kept = [to for n, to in end["rules"]["kept"].items() if int(n) >= end_entry]
    if not is_line or reaches or has_agents or any(to < end_entry for to in kept):
        return None
    return _Seam(here, entry, row, turn, end_entry, end_row)


def _has_own_row(index: dict[str, Any], entry: int) -> bool:
    return bool(index["entryOf"][index["rowOf"][entry]] == entry)


def _end_of_rows(index: dict[str, Any]) -> int:
    return len(index["kinds"].rstrip(_OVERVIEW))


def _joined(state: PageState, end: PageState, seam: _Seam) -> PageState:
    """The page up to the seam, the end from there on, and the overview of the page."""
    old, new = state.index, end.index
    old_last, new_last = _end_of_rows(old), _end_of_rows(new)
    rows, entries = seam.row - seam.end_row, seam.entry - seam.end_entry
    index = {**old}
    for name in ("kinds", "gists", "times"):
        index[name] = old[name][: seam.row] + new[name][seam.end_row : new_last]
        index[name] += old[name][old_last:]
    owners = new["entryOf"][seam.end_row : new_last]
    index["entryOf"] = old["entryOf"][: seam.row] + [n + entries if n >= 0 else n for n in owners]
    index["entryOf"] += old["entryOf"][old_last:]
    for name in ("uuids", "above", "tokens"):
        index[name] = old[name][: seam.entry] + new[name][seam.end_entry :]
    index["above"][seam.entry] = old["above"][seam.entry]
    index["rowOf"] = old["rowOf"][: seam.entry]
    index["rowOf"] += [row + rows for row in new["rowOf"][seam.end_entry :]]
    index["turns"] = [*old["turns"][: seam.turn], *_turns(old, new, seam)]
    index["here"] = seam.turn + new["here"] - seam.end_turn
    level = old["layout"][-1][1]  # of the current path, which goes straight down
    index["layout"] = [
        *old["layout"],
        *((n, level) for n in range(seam.turn + 1, len(index["turns"]))),
    ]
    by = new_last + rows - old_last
    index["files"] = {str(int(row) + by): calls for row, calls in old["files"].items()}
    index["labels"] = {**old["labels"], **new["labels"]}
    index["rules"] = {**old["rules"]}
    for name in ("kept", "calls", "answers"):
        index["rules"][name] = {n: v for n, v in old["rules"][name].items() if int(n) < seam.entry}
    for n, to in new["rules"]["kept"].items():
        index["rules"]["kept"][str(int(n) + entries)] = to + entries
    return _packed(state, index, seam.row, _rows(end, seam.end_row, new_last), old_last)


def _turns(old: dict[str, Any], new: dict[str, Any], seam: _Seam) -> Iterator[list[Any]]:
    rows = seam.row - seam.end_row
    for at, given in enumerate(new["turns"][seam.end_turn :]):
        turn = [*given]
        turn[FIRST], turn[END] = turn[FIRST] + rows, turn[END] + rows
        if at == 0:
            first = old["turns"][seam.turn]
            is_whole = first[FIRST] == seam.row
            turn = [*(turn if is_whole else first)[:FIRST], first[FIRST], turn[END]] + (
                turn[END + 1 :] if is_whole else first[END + 1 :]
            )
            turn[PARENT], turn[FORK] = first[PARENT], first[FORK]
        else:
            turn[PARENT], turn[FORK] = turn[PARENT] - seam.end_turn + seam.turn, turn[FORK] + rows
        yield turn


def _rows(state: PageState, first: int, end: int) -> list[list[Any]]:
    """Rows of a page, each with its own body, which many rows may share."""
    found: list[list[Any]] = []
    named = list(zip(state.index["chunks"], state.index["names"], strict=True))
    chunks: dict[int, list[list[Any]]] = {}

    def row_at(row: int) -> list[Any]:
        at, name = next(one for one in reversed(named) if one[0] <= row)
        if at not in chunks:
            chunks[at] = orjson.loads(zlib.decompress(state.parts[name]))
        return chunks[at][row - at]

    for row in range(first, end):
        head, *body = row_at(row)
        found.append([head, *(row_at(b)[1] if isinstance(b, int) else b for b in body)])
    return found


def _packed(
    state: PageState, index: dict[str, Any], row: int, rows: list[list[Any]], last: int
) -> PageState:
    """The state with the chunks of an index: those before a row stay as they are."""
    old = state.index
    ends = [*old["chunks"][1:], len(old["kinds"])]
    chunks = [
        (first, name)
        for first, end, name in zip(old["chunks"], ends, old["names"], strict=True)
        if end <= row
    ]
    parts = {name: state.parts[name] for _, name in chunks}
    first = ends[len(chunks) - 1] if chunks else 0
    overview = _rows(state, last, len(old["kinds"]))
    pieces: Iterable[tuple[int, list[list[Any]]]] = (
        (first, _rows(state, first, row)),
        (row, rows),
        (row + len(rows), overview),
    )
    for at, piece in pieces:
        if piece:
            data = zlib.compress(as_json(piece), 6)
            chunks.append((at, blake2b(data, digest_size=12).hexdigest()))
            parts[chunks[-1][1]] = data
    index["chunks"] = [at for at, _ in chunks]
    index["names"] = [name for _, name in chunks]
    return PageState(index, parts, state.title)
