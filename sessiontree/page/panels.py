"""The panels of a page: changed files, contexts, costs, and the plot of the context's size.

The script folds a path as `context.fold` does, but with numbers: of each entry it knows the parent
and the tokens that it contributes; of a compaction the first kept entry, of an edit its target, of
a merge the path that it takes in. It needs no messages, so a page of any length has the context of
every entry.

Invariants: a diff of a whole file is made only if each state of the file is known, from its first
edit to its last; the rows that the script finds for an entry are those of `Session.context`; an
answer counts once, in the turn that has it first, however many entries repeat it; a session costs
what `stats --by` says.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from sessiontree.context.compaction import estimate_tokens
from sessiontree.context.fold import custom_message, replaced, summary_message
from sessiontree.core.blocks import message_uuid
from sessiontree.core.entry import PIECES, SUMMARIES, Entry, edit_of
from sessiontree.core.limits import EDIT_STEPS, Budget
from sessiontree.core.message import Message, calls_of, is_prompt, result_ids
from sessiontree.core.usage import Spent, Sums, Usage, spent_by
from sessiontree.edits.diff import DiffCounts, diff_of
from sessiontree.edits.tools import Edit, after
from sessiontree.errors import TooMuchError
from sessiontree.text.amounts import counted, in_short
from sessiontree.views.costs import Prices, with_covered
from sessiontree.views.turns import SessionOutline

_MAX_TEXT: Final = 400_000  # characters of a file whose states are kept


class ChangedFile(msgspec.Struct):
    """A file that a session changed."""

    path: str
    rows: list[int] = []
    """The rows of the calls that edited it."""

    added: int = 0
    removed: int = 0
    did: dict[str, int] = {}
    """What was done, in words, and how often."""

    first: str | None = None
    last: str | None = None
    is_known: bool = True

    def diff(self) -> list[str]:
        """The lines of a diff from the first state to the last; empty where they are not known."""
        if not self.is_known or self.last is None or len(self.rows) < 2:
            return []
        whole = Edit(path=self.path, kind="write", before=self.first or "", content=self.last)
        return diff_of(whole)


class Changes:
    """Collects the edits of a session of so many bytes, in order."""

    def __init__(self, cwd: str | None, size: int) -> None:
        self._cwd = cwd
        self._steps = Budget(
            EDIT_STEPS, size, error="the files are too large for the number of edits"
        )
        self.files: dict[str, ChangedFile] = {}

    def take(self, edit: Edit, counts: DiffCounts, row: int) -> None:
        """Take an edit that was done by the call of a row, with the lines that it changed."""
        path = posixpath.normpath(posixpath.join(self._cwd or "", edit.path))
        file = self.files.setdefault(path, ChangedFile(path))
        if not file.rows or file.rows[-1] != row:
            file.rows.append(row)
        file.added += counts.added
        file.removed += counts.removed
        word = "created" if edit.is_new else _WORDS.get(edit.kind, "edited")
        file.did[word] = file.did.get(word, 0) + 1
        self._follow(file, edit)

    def _follow(self, file: ChangedFile, edit: Edit) -> None:
        is_first = file.last is None and file.is_known
        if is_first:
            file.first = "" if edit.is_new else edit.before
        before = (
            edit.before if edit.before is not None else file.last if not is_first else file.first
        )
        made = self._after(edit, before)
        file.is_known = file.is_known and file.first is not None and made is not None
        file.last = made if made is not None and len(made) <= _MAX_TEXT else None
        if file.last is None:
            file.is_known, file.first = False, None

    def _after(self, edit: Edit, before: str | None) -> str | None:
        try:
            return after(edit, before, self._steps)
        except TooMuchError:  # the page has the diff of each edit
            return None


_WORDS: Final = {"write": "written", "delete": "deleted", "move": "moved", "append": "appended to"}


NOTHING: Final = -1
"""The tokens of an entry that contributes nothing."""


class ContextRules(msgspec.Struct):
    """What of some entries decides about contexts, by the number of the entry in its turn."""

    kept: dict[int, str] = {}  # of a compaction: the uuid of the first entry that it keeps
    edits: dict[int, tuple[str, int]] = {}  # the target, and its new tokens; `NOTHING` drops it
    merges: dict[int, tuple[str, str, bool]] = {}  # the base, the end; whether it has a summary
    pieces: dict[int, str] = {}  # the name of the message
    calls: dict[int, tuple[list[str], bool]] = {}  # ids; whether they stay in an edited message
    answers: dict[int, list[str]] = {}  # the ids of the calls
    strays: dict[int, bool] = {}  # results without their calls; whether there is something else

    def take(self, entry: Entry, number: int) -> int:
        """Take a whole entry that is not a message; gives the tokens that it contributes."""
        kind = entry.type
        if kind == "context_edit":
            self._take_edit(entry, number)
        elif kind == "merge":
            ends = _text(entry.get("baseUuid")), _text(entry.get("mergedUuid"))
            self.merges[number] = *ends, entry.get("summary") is not None
            return estimate_tokens(summary_message("branchSummary", entry))
        elif kind == "compaction":
            self.kept[number] = _text(entry.get("firstKeptEntryUuid"))
            return estimate_tokens(summary_message("compactionSummary", entry))
        elif kind in SUMMARIES:
            return estimate_tokens(summary_message("branchSummary", entry))
        elif kind == "custom_message":
            return estimate_tokens(custom_message(entry))
        elif kind in PIECES:
            self.pieces[number] = message_uuid(entry)
            if entry.get("role") == "system":  # only now it is known to be no message of a context
                self.edits[number] = entry.uuid, NOTHING
            block = entry.get("block")
            return estimate_tokens({"content": [block]}) if isinstance(block, dict) else 0
        return NOTHING

    def _take_edit(self, entry: Entry, number: int) -> None:
        if (edit := edit_of(entry)) is not None:
            target, replacement = edit
            message = replaced({"role": "user", "content": ""}, replacement)
            self.edits[number] = target, NOTHING if message is None else estimate_tokens(message)

    def take_message(self, message: Message, number: int, *, is_stray: bool) -> int:
        """Take a message; gives the tokens that it contributes.

        `is_stray` tells that it has a result, whose call its turn does not have.
        """
        if message.get("role") == "system":
            return NOTHING
        self.take_calls(message, number)
        if ids := result_ids(message):
            self.answers[number] = ids
            if is_stray:
                self.strays[number] = is_prompt(message)
        return estimate_tokens(message)

    def take_calls(self, message: Message, number: int) -> None:
        """Take the calls of a message."""
        if calls := calls_of(message):
            is_apart = not isinstance(message.get("content"), list)
            self.calls[number] = [call.id for call in calls], is_apart


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


class Cost(NamedTuple):
    """A cost in US dollars, and how it was found."""

    dollars: float
    how: str


Found = tuple[list[Spent], int]
"""What the answers of an entry used, and the size of the context they had."""


def found_in(entry: Entry, fields: Mapping[str, Any]) -> Found | None:
    """What the fields of a message or another entry say of usage."""
    found = list(spent_by(entry.body, fields))
    if not found:
        return None
    usage = Usage() if found[0].is_of_session else found[0].usage
    return found, usage.input + usage.cache_read + usage.cache_write


class CostsPanel:
    """Collects the usage of answers; `load` gives the list prices, and is called when needed."""

    def __init__(self, load: Callable[[], Prices | None]) -> None:
        self._load = load
        self._sums = Sums()
        self._by_turn: dict[int, list[int]] = {}
        self._sizes: dict[int, list[int]] = {}

    def take(self, place: int, entries: Iterable[Found]) -> None:
        """Take what the entries of the turn at a place used."""
        for found, size in entries:
            new = [at for spent in found if (at := self._sums.add(spent)) is not None]
            if new:
                self._by_turn.setdefault(place, []).extend(new)
            if size and new:
                self._sizes.setdefault(place, []).append(size)

    def context_of(self, place: int) -> int:
        """The tokens that the model got at the last answer of a turn."""
        return self._sizes.get(place, [0])[-1]

    def sizes(self, outline: SessionOutline) -> list[list[int]]:
        """The sizes of the context by answer, for each turn of the current path."""
        return [
            self._sizes.get(place, []) if turn.current and not turn.subagent else []
            for place, turn in enumerate(outline.turns)
        ]

    def of(self, place: int) -> Cost | None:
        """What a turn cost; None if that is not known.

        What the agent reported for the whole session counts in `total` alone.
        """
        if place not in self._by_turn:
            return None
        found = [self._sums.spent[at] for at in self._by_turn[place]]
        return self._sum([spent for spent in found if not spent.is_of_session])

    def total(self) -> Cost | None:
        """What all turns cost."""
        return self._sum(self._sums.spent)

    def _sum(self, found: list[Spent]) -> Cost | None:
        reported = listed = 0.0
        unknown = 0
        for spent in with_covered(found):
            reported += spent.usage.cost
            if not spent.needs_price:
                continue
            prices = self._load()
            price = None if prices is None else prices.of(spent)
            listed += price or 0.0
            unknown += price is None
        if not (reported or listed):
            return None
        how = ["as reported"] if reported else []
        how += ["at list prices"] if listed else []
        how += [f"{counted(unknown, 'answer')} without a price"] if unknown else []
        return Cost(reported + listed, ", ".join(how))


_WIDTH: Final = 600
_HEIGHT: Final = 80


class Plot(msgspec.Struct, frozen=True):
    """A line, as an SVG polyline has it, and the places of compactions."""

    points: str
    compactions: tuple[int, ...]
    most: str
    width: int = _WIDTH
    height: int = _HEIGHT


def plot_of(sizes: Sequence[Sequence[int]], compacted: Sequence[int]) -> Plot | None:
    """The plot of the sizes of each turn; None with fewer than two sizes.

    `compacted` has the places of the turns with a compaction.
    """
    flat = [size for turn in sizes for size in turn]
    if len(flat) < 2:
        return None
    most = max(flat)
    step = max(1, len(flat) // _WIDTH)
    shown = [max(flat[at : at + step]) for at in range(0, len(flat), step)]
    across = _WIDTH / max(1, len(shown) - 1)
    points = (
        f"{at * across:.0f},{_HEIGHT - size * _HEIGHT / most:.0f}" for at, size in enumerate(shown)
    )
    before = [0]
    for turn in sizes:
        before.append(before[-1] + len(turn))
    marks = sorted({round(before[place] * _WIDTH / len(flat)) for place in compacted})
    return Plot(" ".join(points), tuple(marks), in_short(most))
