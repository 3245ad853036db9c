"""New entries at the end of a conversation, put onto the page before the session is read whole.

A whole reading takes time that follows the size of the session. Most news are a few entries that go
on with the last turn, or begin another: they are made rows of, and results are put into the rows of
their calls, with no more of the file read than its end. The next whole reading replaces all of it.

Invariant: where anything else happened, such as a branch, nothing is made here.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from hashlib import blake2b
from itertools import islice, takewhile
from typing import Any, Final, NamedTuple

import orjson

from sessiontree.core.entry import ANNOTATIONS, CONTENT, PIECES, Entry, decode_object, moment_of
from sessiontree.core.message import calls_of, result_ids
from sessiontree.edits.tools import Told
from sessiontree.library.listing import facts_of
from sessiontree.page.index import as_json
from sessiontree.page.markup import Colours
from sessiontree.page.panels import Rules
from sessiontree.page.rows import TURN, Row, TurnRows
from sessiontree.page.templates import Templates
from sessiontree.session import Session
from sessiontree.storage.fs import DISK
from sessiontree.views.messages import is_shown_as_prompt, is_typed
from sessiontree.web.news import ends_of
from sessiontree.web.state import State

_MOST: Final = 200  # new entries
_KNOWN: Final = 600  # entries of the page among which the new ones go on
_CALLS_WITHIN: Final = 100  # entries above the new ones in which their calls are looked for
_IN_PLACE: Final = ("claude-code", "pi")
"""The agents whose files have the uuids of their lines, so that an end tells the same uuids."""

_NOT_HERE: Final = PIECES | ANNOTATIONS | {"branch", "handle", "merge", "context_edit"}
_BELOW: Final = "FO"
_FIRST, _END = 5, 6


class _Group(NamedTuple):
    """The rows of a turn, or of the rest of one."""

    fork: str | None  # the entry that the turn begins below; None for the rest of a turn
    rows: list[Row]
    entries: list[tuple[Entry, int, int]]
    """The entry, the place of its row, and the number of a row that the page has; or -1."""


def with_news(state: State, file: str, templates: Templates) -> State | None:
    """The state with the entries that are new at the end; None where only a whole reading tells.

    Raises:
        SessionTreeError, OSError: the session cannot be read.
    """
    place = state.index["here"]
    if state.index["part"] or place < 0 or _end_of_rows(state) != state.index["turns"][place][_END]:
        return None
    made_by = facts_of(file).agent
    fs = DISK if made_by is None else ends_of(file) or DISK
    with Session.open(file, readonly=True, fs=fs) as session:
        agent = (session.header.get("metadata") or {}).get("agent")
        if made_by is not None and agent not in _IN_PLACE:
            return None
        return _News(state, session, templates).state()


def _end_of_rows(state: State) -> int:
    """The number of rows before the changed files and the overview."""
    kinds: str = state.index["kinds"]
    return len(kinds.rstrip(_BELOW))


class _News:
    def __init__(self, state: State, session: Session, templates: Templates) -> None:
        self._state = state
        self._index = state.index
        self._session = session
        self._templates = templates
        self._cwd = session.header.get("cwd")
        uuids = self._index["uuids"]
        first = max(0, len(uuids) - _KNOWN)
        self._known = {uuid: first + n for n, uuid in enumerate(uuids[first:])}
        self._entry: Entry | None = None
        self._replaced: dict[int, Row] = {}
        self._row_at: dict[int, int] = {}  # by the place of a row that is made again, its number

    def state(self) -> State | None:
        """See `with_news`."""
        found = self._new_entries()
        if found is None:
            return None
        entries, above = found
        if any(e.type in _NOT_HERE or e.lane != above[0].lane for e in entries):
            return None
        return self._with(self._groups(entries, above))

    def _new_entries(self) -> tuple[list[Entry], list[Entry]] | None:
        """The new entries, and those above them, nearest first; None where a branch began."""
        walk = self._session.cursor.up()
        new: list[Entry] = []
        for entry in islice(walk, _MOST):
            number = self._known.get(entry.uuid)
            if number is None:
                new.append(entry)
                continue
            if not new or not self._is_last(number):
                return None
            above = takewhile(self._is_of_turn, islice(walk, _CALLS_WITHIN))
            return new[::-1], [entry, *above]
        return None

    def _is_of_turn(self, entry: Entry) -> bool:
        """Whether an entry of the page is of the last turn."""
        number = self._known.get(entry.uuid)
        first = self._index["turns"][self._index["here"]][_FIRST]
        return number is not None and self._index["rowOf"][number] >= first

    def _is_last(self, number: int) -> bool:
        """Whether only annotations come after an entry."""
        rows, kinds = self._index["rowOf"][number + 1 :], self._index["kinds"]
        return all(row < len(kinds) and kinds[row] == "z" for row in rows)

    def _groups(self, entries: Sequence[Entry], above: Sequence[Entry]) -> list[_Group]:
        groups = [_Group(None, [], [])]
        last = next((entry.uuid for entry in above if _has_content(entry)), "")
        made = self._rows()
        self._take_calls(made, entries, above)
        shown = len(made)
        for entry in entries:
            if is_shown_as_prompt(entry):
                self._finish(groups[-1], made, shown)
                made, shown = self._rows(), 0
                self._row_at = {}
                groups.append(_Group(last, [], []))
            last = entry.uuid if _has_content(entry) else last
            start = len(made)
            at = self._take(made, entry)
            group = groups[-1]
            before = start if at is None else at
            known = self._row_at.get(before, -1) if before < shown else -1
            group.entries.append((entry, before - shown, known))
        self._finish(groups[-1], made, shown)
        return groups

    def _rows(self) -> TurnRows:
        cwd = self._cwd if isinstance(self._cwd, str) else None
        return TurnRows(self._templates, self._told, cwd, Colours(), is_subagent=False)

    def _told(self) -> Told:
        entry = self._entry
        return Told({} if entry is None else decode_object(self._session.original(entry)))

    def _take_calls(self, made: TurnRows, entries: Sequence[Entry], above: Sequence[Entry]) -> None:
        """Take what is above from the calls on whose results are new, and note its rows."""
        ids = {id for entry in entries for id in result_ids(_message(entry))}
        called = [n for n, e in enumerate(above) if ids & {c.id for c in calls_of(_message(e))}]
        for entry in reversed(above[: max(called, default=-1) + 1]):
            given = result_ids(_message(entry))
            if given and made.place_of_result(given[0]) is None:
                continue  # its call is above these
            start = len(made)
            self._take(made, entry)
            number = self._known.get(entry.uuid)
            for place in range(start, len(made)) if number is not None else ():
                row = self._index["rowOf"][number] + place - start
                self._row_at[place] = row
                self._replaced[row] = made.row(place)

    def _take(self, made: TurnRows, entry: Entry) -> int | None:
        """Take an entry; the place of the row that has it where this is not a new one."""
        self._entry = entry
        fields = {k: entry.get(k) for k in entry.as_stored if k not in ("spilled", "crc")}
        message = _message(entry)
        if entry.type != "message" or not message:
            made.take(entry.type, fields, entry.timestamp, entry.uuid)
            return None
        ids = result_ids(message)
        at = made.place_of_result(ids[0]) if ids else None
        made.take_message(message, fields, entry.timestamp)
        return at

    def _finish(self, group: _Group, made: TurnRows, shown: int) -> None:
        group.rows.extend(made.rows[shown:])

    def _with(self, groups: Sequence[_Group]) -> State:
        """The state with the rows of the groups after those of all turns."""
        index = {**self._index}
        first = _end_of_rows(self._state)
        turns = [*index["turns"]]
        rows: list[Row] = []
        uuids, row_of, entry_of = [*index["uuids"]], [*index["rowOf"]], list[int]()
        above, tokens, rules = [*index["above"]], [*index["tokens"]], {**index["rules"]}
        for group in groups:
            start = first + len(rows)
            if group.fork is not None:
                here = index["here"]
                fork = len(uuids) - 1 - uuids[::-1].index(group.fork)
                owners = [*index["entryOf"][:first], *entry_of]
                behind = (
                    row for row in range(*turns[here][_FIRST : _END + 1]) if owners[row] > fork
                )
                fork_end = next(behind, turns[here][_END])
                turns.append(_turn(turns, here, fork_end, start, len(group.rows)))
                index["here"] = len(turns) - 1
                rows.append(self._head(turns[-1][0], group))
                start += 1
            else:
                here = index["here"]
                turns[here] = [*turns[here]]
                turns[here][_END] = start + len(group.rows)
            entry_of += _owners(group, len(uuids))
            rows += group.rows
            for entry, at, known in group.entries:
                number = len(uuids)
                parent = self._known.get(str(entry.parent_uuid), number - 1)
                self._known[entry.uuid] = number
                uuids.append(entry.uuid)
                row_of.append(start + at if known < 0 else known)
                above.append(number - parent)
                tokens.append(_tokens(entry))
                if entry.type == "compaction":
                    kept = self._known.get(str(entry.get("firstKeptEntryUuid")), -1)
                    rules["kept"] = {**rules["kept"], str(number): kept}
        index |= {"turns": turns, "uuids": uuids, "rowOf": row_of, "above": above}
        index |= {"tokens": tokens, "rules": rules}
        index["entryOf"] = _put(index["entryOf"], first, entry_of)
        index["kinds"] = _put(index["kinds"], first, "".join(row.kind for row in rows))
        index["gists"] = _put(index["gists"], first, [row.gist for row in rows])
        index["times"] = _put(index["times"], first, [_seconds(row) for row in rows])
        index["files"] = {str(int(row) + len(rows)): of for row, of in index["files"].items()}
        return self._packed(index, first, rows)

    def _head(self, name: str, group: _Group) -> Row:
        head = self._templates.turn(
            name=f"Turn {name}",
            has_context=False,
            facts=[],
            outcome="",
            names=[],
            cost="",
            cost_how="",
        )
        gist = next((row.gist for row in group.rows), "")
        return Row(TURN, gist, head, time=group.rows[0].time if group.rows else None)

    def _packed(self, index: dict[str, Any], at: int, rows: Sequence[Row]) -> State:
        """The state with its chunks: one is cut where the new rows come, others are replaced."""
        parts = dict(self._state.parts)
        chunks: list[tuple[int, str]] = []

        def add(first: int, made: list[Any]) -> None:
            data = zlib.compress(as_json(made), 6)
            name = blake2b(data, digest_size=12).hexdigest()
            parts[name] = data
            chunks.append((first, name))

        firsts, names = self._index["chunks"], self._index["names"]
        ends = [*firsts[1:], len(self._index["kinds"])]
        is_in = False
        for first, end, name in zip(firsts, ends, names, strict=True):
            is_cut = first < at < end
            if end <= at and not any(first <= row < end for row in self._replaced):
                chunks.append((first, name))
                continue
            found: list[Any] = orjson.loads(zlib.decompress(parts[name]))
            for row, made in self._replaced.items():
                if first <= row < end:
                    found[row - first] = _pair(made)
            if is_cut or end <= at:
                add(first, found[: at - first])
            if end > at:
                if not is_in and rows:
                    add(at, [_pair(row) for row in rows])
                is_in = True
                start = max(first, at)
                rest = found[start - first :]
                add(start + len(rows), [_moved(pair, at, len(rows)) for pair in rest])
        index["chunks"] = [first for first, _ in chunks]
        index["names"] = [name for _, name in chunks]
        named = set(index["names"])
        kept = {name: data for name, data in parts.items() if name in named}
        return State(index, kept, self._state.title)


def _owners(group: _Group, number: int) -> list[int]:
    """For each row of a group, its head included, the number of its entry."""
    owners = [-1] * len(group.rows)
    for n, (_, at, known) in enumerate(group.entries):
        for place in range(at, len(owners)) if known < 0 and at >= 0 else ():
            owners[place] = number + n
    return owners if group.fork is None else [number, *owners]


def _tokens(entry: Entry) -> int:
    """What an entry contributes to a context; see `sessiontree.page.panels`."""
    message = _message(entry)
    rules = Rules()
    return rules.take_message(message, 0, is_stray=False) if message else rules.take(entry, 0)


def _turn(turns: list[list[Any]], above: int, fork_end: int, start: int, count: int) -> list[Any]:
    """A turn as the script of the page reads it."""
    numbers = (str(turn[0]).partition(".")[0] for turn in turns)
    number = max((int(each) for each in numbers if each.isdecimal()), default=0) + 1
    return [str(number), above, fork_end, 1, 0, start, start + count + 1, "", []]


def _has_content(entry: Entry) -> bool:
    return entry.type in CONTENT or is_typed(entry)


def _message(entry: Entry) -> dict[str, Any]:
    found = entry.get("message") if entry.type == "message" else None
    return found if isinstance(found, dict) else {}


def _pair(row: Row) -> list[Any]:
    return [row.head, row.body] if row.body else [row.head]


def _moved(pair: list[Any], at: int, by: int) -> list[Any]:
    """A row whose number grows; its body may be that of a row before it."""
    if len(pair) > 1 and isinstance(pair[1], int) and pair[1] >= at:
        return [pair[0], pair[1] + by]
    return pair


def _put(values: Any, at: int, more: Any) -> Any:
    return values[:at] + more + values[at:]


def _seconds(row: Row) -> int:
    moment = moment_of(row.time)
    return 0 if moment is None else int(moment.timestamp())
