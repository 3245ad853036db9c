"""A file played back: the edit that wrote each line, and its content after each edit.

Edits of agents, looks at the file and versions that a repository has are given in the order of
time. A write, a look at all of the file, and the content that an agent keeps beside an edit make
all lines known; a look at a part makes these lines known, at their numbers. An edit changes the
lines that are known. What contradicts them shows that something else changed the file: then only
what was recorded since is known, and lines that nothing explains have no edit.

Invariants:

- A line has the edit that last wrote its text, or one whose text a formatter changed.
- An edit that does not fit anywhere is kept aside, and explains only whole runs of its own lines.
- A line without an edit is never given one because it looks alike.
- No line is guessed. A part that is not known is named by the numbers of its lines, and its length
  where that is known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, Literal, NamedTuple

import msgspec

from sessiontree.core.limits import CHANGED_LINE, LINE, Budget, find
from sessiontree.edits.diff import Run, lines_of, pairs, runs
from sessiontree.edits.patch import Hunk, are_applied
from sessiontree.edits.tools import Edit, SeenLines, after, characters_of, undone

Certainty = Literal["exact", "normalized", "hunk"]

MAX_ASIDE: Final = 8
"""The states of the file that were left and are still looked at."""

_REFORMED: Final = 12
"""The steps to look at a character of a line without regard to form."""

_GAP: Final = 40_000
"""The most pairs of lines of a gap that are compared without regard to form."""

_SPACE: Final = re.compile(r"\s+")
_COMMA: Final = re.compile(r",(?=[)\]}])")
_LETTERS: Final = re.compile(r"\w")


class LineWriter(NamedTuple):
    """The edit that wrote a line, by its number, and how sure that is."""

    edit: int
    certainty: Certainty


Writers = list[LineWriter | None]


class _FileState(NamedTuple):
    text: str
    lines: list[str]
    writers: Writers


_Key = tuple[int, int]
"""What stands for a content that the file had: a file may have thousands of large ones."""


def _key(text: str) -> _Key:
    return len(text), hash(text)


class _Floating(NamedTuple):
    """An edit that did not fit, by its number."""

    number: int
    edit: Edit
    back: Edit | None  # the edit that takes it back; None if it cannot be told
    own: list[str]  # the lines that it adds
    texts: frozenset[str]  # the same, each once
    starts: dict[tuple[str, str], list[int]]  # where two lines that follow each other are in `own`


class _GoneLine(NamedTuple):
    above: str | None
    below: str | None
    writer: LineWriter | None


def _at(lines: Sequence[str], index: int) -> str | None:
    return lines[index] if 0 <= index < len(lines) else None


def _is_near(gone: _GoneLine, above: str | None, below: str | None) -> bool:
    """Whether a line stands beside a line with letters that it stood beside before."""
    return any(
        old == new and old is not None and _LETTERS.search(old)
        for old, new in ((gone.above, above), (gone.below, below))
    )


class Replay:
    """The state of one file; see the module."""

    def __init__(self, steps: Budget) -> None:
        self._steps = steps
        self._state: _FileState | None = None
        self._aside: list[_FileState] = []  # states that were left, the latest last
        self._versions: dict[_Key, Writers] = {}
        self._floating: list[_Floating] = []
        self._gone: dict[
            str, list[_GoneLine]
        ] = {}  # lines that were in states before, by their text
        self._starts: dict[_Key, int] = {}  # the first edit of each content
        self._last = -1
        self.unexplained = 0  # the lines of the content that was seen last that nothing explained
        # the numbers of edits after which the file had the content before them again
        self.undone: set[int] = set()

    @property
    def text(self) -> str | None:
        """The content as known; None where it is not."""
        return None if self._state is None else self._state.text

    @property
    def writers(self) -> Writers:
        """The writer of each line of `text`."""
        return [] if self._state is None else self._state.writers

    def edit(self, number: int, edit: Edit) -> bool:
        """Apply an edit that was done; whether it fits what is known."""
        if edit.before is not None:
            self.see(edit.before)
        self._last = number
        if self._state is not None:
            self._steps.take(len(self._state.text))
            self._starts.setdefault(_key(self._state.text), number)
        if edit.kind == "delete":
            self._leave(_state(""))
            return True
        if edit.kind == "change":
            return True
        plain = _plain(edit)
        fit = self._fit(plain)
        known = [self._state, *reversed(self._aside)] if self._state else [None]
        for state in known:
            text = None if state is None else state.text
            made = fit if state is self._state else after(plain, text, self._steps)
            if made is not None:
                self._become(made, state, plain, number)
                return True
        # the steps to find a character of the lines that an edit adds by itself
        self._steps.take(200 * characters_of(edit))
        self._floating.append(_floating(number, edit))
        del self._floating[:-100]  # the edits that did not fit that are still looked at
        return False

    def _fit(self, edit: Edit) -> str | None:
        """The content after an edit; None if it does not fit the state.

        What the edit adds is taken back first, if it is there: somebody did that, or the edit would
        not be made. An agent does not add the same lines twice to one place.
        """
        if self._state is None:
            return after(edit, None, self._steps)
        fit = after(edit, self._state.text, self._steps)
        is_there = are_applied(edit.hunks, self._state.lines)
        back = undone(msgspec.structs.replace(edit, swaps=()) if is_there else edit)
        if back is None:
            return fit
        if fit is not None and not is_there and not _is_known_by_itself(_new_lines(edit)):
            return fit
        made = after(back, self._state.text, self._steps)
        if made is None or after(edit, made, self._steps) != self._state.text:
            return fit
        self.see(made)
        return after(edit, self._state.text, self._steps)

    def _become(self, text: str, state: _FileState | None, edit: Edit, number: int) -> None:
        if state is None:
            lines = self._lines(text)
            self._state = _FileState(text, lines, [LineWriter(number, "exact")] * len(lines))
            return
        if state is not self._state and self._state is not None:
            self._aside.append(self._state)
            del self._aside[:-MAX_ASIDE]
        lines = self._lines(text)
        if state is not self._state and self._state is not None:
            self._note_gone(self._state, self._same(self._state, lines))
        writers: Writers = [LineWriter(number, "exact")] * len(lines)
        same = self._same(state, lines)
        _keep(state, same, writers)
        if edit.kind == "write":  # it may have changes of others that nothing told
            for at, writer in _in_other_form(state, lines, same, self._steps):
                writers[at] = writer
        self._note_gone(state, same)
        self._state = _FileState(text, lines, writers)

    def _same(self, state: _FileState, lines: list[str]) -> list[Run]:
        """The lines that are the same in a state and a content, which both keep once."""
        self._steps.take(LINE * (len(state.lines) + len(lines)) // 2)
        same = runs(state.lines, lines)
        kept = sum(length for _, _, length in same)
        self._steps.take(CHANGED_LINE * (len(state.lines) + len(lines) - 2 * kept))
        for one, other, length in same:
            lines[other : other + length] = state.lines[one : one + length]
        return same

    def see(self, text: str) -> Writers:
        """Take a content that the file had at this time; the writer of each of its lines."""
        text = text.replace("\r\n", "\n")
        self._steps.take(2 * len(text))
        self.unexplained = 0
        key = _key(text)
        if self._state is not None and self._state.text == text:
            self._versions[key] = self._state.writers
            return self._state.writers
        if key in self._starts:
            self.undone.update(range(self._starts[key], self._last + 1))
        if self._floating:
            self._place_floating(text)
        lines = self._lines(text)
        writers: Writers = [None] * len(lines)
        open_lines: set[int] = set()
        if self._state is None:
            open_lines.update(range(len(lines)))
        else:
            same = _anchored(self._same(self._state, lines), lines)
            _keep(self._state, same, writers)
            gaps = _gaps(same, len(self._state.lines), len(lines))
            open_lines.update(at for _, new in gaps for at in new)
            for at, writer in _in_other_form(self._state, lines, same, self._steps):
                writers[at] = writer
                open_lines.discard(at)
            self._note_gone(self._state, same)
        if key in self._versions:  # it came back, and with it the writers of its lines
            writers = list(self._versions[key])
        elif open_lines:
            self._explain(lines, writers, open_lines)
            self.unexplained = len(open_lines)
        self._versions[key] = writers
        self._leave(_FileState(text, lines, writers))
        return writers

    def _place_floating(self, text: str) -> None:
        """Apply edits that did not fit, where taking them back from a later content shows how.

        Such an edit was made on lines that a person wrote shortly before.
        """
        fit: list[_Floating] = []
        left: list[_Floating] = []
        before = text
        for floating in reversed(self._floating):
            back = floating.back
            made = None if back is None else after(back, before, self._steps)
            if made is None:
                left.append(floating)
            else:
                before = made
                fit.append(floating)
        if not fit:
            return
        self._floating = []
        self.see(before)
        for floating in reversed(fit):
            self.edit(floating.number, floating.edit)
        self._floating += reversed(left)
        self._floating.sort(key=lambda floating: floating.number)

    def _leave(self, state: _FileState) -> None:
        if self._state is not None and self._state.lines != state.lines:
            self._aside.append(self._state)
            del self._aside[:-MAX_ASIDE]
        self._state = state

    def _note_gone(self, state: _FileState, same: Sequence[Run]) -> None:
        """Note the lines of a state that are not in the next one, with those beside them."""
        lines = state.lines
        self._steps.take(CHANGED_LINE * (len(lines) - sum(length for _, _, length in same)))
        for old, _ in _gaps(same, len(lines), 0):
            for at in old:
                places = self._gone.setdefault(lines[at], [])
                places.append(_GoneLine(_at(lines, at - 1), _at(lines, at + 1), state.writers[at]))
                del places[:-16]  # the places of one line that are kept after it is gone

    def _explain(self, lines: Sequence[str], writers: Writers, open_lines: set[int]) -> None:
        """Give writers to lines that the last state does not have."""
        self._steps.take(LINE * len(lines) + CHANGED_LINE * len(open_lines))
        for at in sorted(open_lines):
            beside = _at(lines, at - 1), _at(lines, at + 1)
            for gone in reversed(self._gone.get(lines[at], ())):
                if (gone.above, gone.below) == beside or _is_near(gone, *beside):
                    writers[at] = gone.writer
                    open_lines.discard(at)
                    break
        kept = {writer.edit for writer in writers if writer is not None}
        for run in _runs({at for at in open_lines if lines[at] in self._gone}):
            part = [lines[at] for at in run]
            self._steps.take(LINE * sum(map(len, part)))
            if not _is_known_by_itself(part):
                continue
            for at in run:
                writer = self._gone[lines[at]][-1].writer
                if writer is None or writer.edit not in kept:
                    writers[at] = writer and LineWriter(writer.edit, "hunk")
                    open_lines.discard(at)
        self._give_to_floating(lines, writers, open_lines)

    def _give_to_floating(
        self, lines: Sequence[str], writers: Writers, open_lines: set[int]
    ) -> None:
        """Give lines to edits that did not fit, whole runs of which they are."""
        if not self._floating:
            return
        self._steps.take(LINE * len(open_lines))
        texts = {lines[at] for at in open_lines}
        for floating in reversed(self._floating):
            self._steps.take(LINE * min(len(texts), len(floating.texts)))
            if texts.isdisjoint(floating.texts):
                continue
            # the steps to look for a line among those of an edit that did not fit
            self._steps.take(3_500 * len(open_lines))
            for run in _runs(open_lines):
                for part in _parts_in(run, lines, floating, self._steps):
                    for at in part:
                        writers[at] = LineWriter(floating.number, "hunk")
                        open_lines.discard(at)

    def end(self) -> None:
        """Give lines without a writer to edits that came later, by a clock that differs."""
        if self._state is None:
            return
        open_lines = {at for at, writer in enumerate(self._state.writers) if writer is None}
        writers = list(self._state.writers)
        self._give_to_floating(self._state.lines, writers, open_lines)
        self._state = self._state._replace(writers=writers)

    def _lines(self, text: str) -> list[str]:
        self._steps.take(len(text) + LINE * text.count("\n"))
        return lines_of(text)

    def copy(self) -> Replay:
        """A replay that goes on from here by itself."""
        self._steps.take(CHANGED_LINE * len(self._gone))
        made = Replay(self._steps)
        made._state, made._aside = self._state, list(self._aside)
        made._versions, made._floating = dict(self._versions), list(self._floating)
        made._starts, made._last = dict(self._starts), self._last
        made._gone = {line: list(places) for line, places in self._gone.items()}
        made.undone = set(self.undone)
        return made


def _plain(edit: Edit) -> Edit:
    if "\r" not in (edit.content or "") and not any("\r" in s.old + s.new for s in edit.swaps):
        return edit
    swaps = tuple(
        msgspec.structs.replace(s, old=s.old.replace("\r\n", "\n"), new=s.new.replace("\r\n", "\n"))
        for s in edit.swaps
    )
    content = None if edit.content is None else edit.content.replace("\r\n", "\n")
    return msgspec.structs.replace(edit, content=content, swaps=swaps)


def _state(text: str) -> _FileState:
    lines = lines_of(text)
    return _FileState(text, lines, [None] * len(lines))


def _floating(number: int, edit: Edit) -> _Floating:
    own = _new_lines(edit)
    counts: Counter[str] = Counter()
    starts: dict[tuple[str, str], list[int]] = {}
    for index, pair in enumerate(pairwise(own)):
        counts[pair[0]] += 1
        # the places of one line in an edit that did not fit that are looked at
        if counts[pair[0]] <= 100:
            starts.setdefault(pair, []).append(index)
    return _Floating(number, edit, undone(_plain(edit)), own, frozenset(own), starts)


def _new_lines(edit: Edit) -> list[str]:
    if edit.content is not None:
        return lines_of(edit.content.replace("\r\n", "\n"))
    found: list[str] = []
    for hunk in edit.hunks:
        same = {other for _, other in pairs(hunk.before, hunk.after)}
        found += (line for at, line in enumerate(hunk.after) if at not in same)
    for swap in edit.swaps if not edit.hunks else ():
        old, new = lines_of(swap.old), lines_of(swap.new)
        same = {other for _, other in pairs(old, new)}
        found += (line for at, line in enumerate(new) if at not in same)
    return [line.removesuffix("\r") for line in found]


def _anchored(same: Iterable[Run], lines: Sequence[str]) -> list[Run]:
    """The runs with a letter: a lone bracket between changes may be the twin of another one."""
    # the lines of the longest run without a letter that is taken for brackets and blank lines
    return [
        (one, other, length)
        for one, other, length in same
        if length > 3 or any(map(_LETTERS.search, lines[other : other + length]))
    ]


def _keep(state: _FileState, same: Iterable[Run], writers: Writers) -> None:
    for one, other, length in same:
        writers[other : other + length] = state.writers[one : one + length]


def _gaps(same: Sequence[Run], before: int, behind: int) -> Iterator[tuple[range, range]]:
    """The lines between runs that are the same, of two texts with so many lines."""
    last = above = 0
    for one, other, length in [*same, (before, behind, 0)]:
        if one > last or other > above:
            yield range(last, one), range(above, other)
        last, above = one + length, other + length


def _in_other_form(
    state: _FileState, lines: Sequence[str], same: Sequence[Run], steps: Budget
) -> Iterator[tuple[int, LineWriter | None]]:
    """The lines that a state has in another form, with their writers."""
    for old, new in _gaps(same, len(state.lines), len(lines)):
        yield from _reformed(state, old, lines, new, steps)


def _reformed(
    state: _FileState, old: range, lines: Sequence[str], new: range, steps: Budget
) -> Iterator[tuple[int, LineWriter | None]]:
    """The lines of a gap that are lines of the old gap in another form."""
    if not old or not new or len(old) * len(new) > _GAP:
        return
    characters = sum(len(state.lines[at]) for at in old) + sum(len(lines[at]) for at in new)
    steps.take(_REFORMED * characters + CHANGED_LINE * (len(old) + len(new)))
    before = [_normal(state.lines[at]) for at in old]
    behind = [_normal(lines[at]) for at in new]
    least = start = 0
    for one, other in [*_equal(before, behind), (len(before), len(behind))]:
        for olds, news in _joined(before, range(least, one), behind, range(start, other), steps):
            yield from _spread(state, old, before, olds, news, new)
        if other < len(behind):
            writer = state.writers[old[one]]
            yield new[other], writer and LineWriter(writer.edit, _weaker(writer.certainty))
        least, start = one + 1, other + 1


def _equal(before: Sequence[str], behind: Sequence[str]) -> list[tuple[int, int]]:
    """The lines that are equal, those with letters first, as a lone bracket has many twins."""
    old = [at for at, line in enumerate(before) if _LETTERS.search(line)]
    new = [at for at, line in enumerate(behind) if _LETTERS.search(line)]
    lettered = pairs([before[at] for at in old], [behind[at] for at in new])
    found: list[tuple[int, int]] = []
    least = start = 0
    for one, other in [*((old[i], new[j]) for i, j in lettered), (len(before), len(behind))]:
        between = pairs(before[least:one], behind[start:other])
        found += ((least + i, start + j) for i, j in between if before[least + i])
        found.append((one, other))
        least, start = one + 1, other + 1
    return found[:-1]


def _weaker(certainty: Certainty) -> Certainty:
    return "normalized" if certainty == "exact" else certainty


def _normal(line: str) -> str:
    """A line without what formatters change: spaces, the kind of quotes, a comma at the end."""
    return _SPACE.sub("", line).replace("'", '"').rstrip(";")


def _joined(
    before: Sequence[str], old: range, behind: Sequence[str], new: range, steps: Budget
) -> Iterator[tuple[range, range]]:
    """Runs of lines that have the same text, broken into lines elsewhere."""
    if not old or not new:
        return
    steps.take(LINE * len(old) * len(new))
    lefts = {at: _bare(before[at]) for at in old}
    rights = {at: _bare(behind[at]) for at in new}
    start = new.start
    for first in old:
        if not before[first]:
            continue
        left = lefts[first]
        for other in range(start, new.stop):
            right = rights[other]
            if not (left.startswith(right) or right.startswith(left)):
                continue
            ends = _same_text(before, first, old.stop, behind, other, new.stop, steps)
            if ends is not None:
                yield range(first, ends[0]), range(other, ends[1])
                start = ends[1]
                break


def _same_text(
    before: Sequence[str],
    one: int,
    last: int,
    behind: Sequence[str],
    other: int,
    end: int,
    steps: Budget,
) -> tuple[int, int] | None:
    """Where runs that begin at two lines have the same text; None if nowhere."""
    first, second = before[one], behind[other]
    one, other = one + 1, other + 1
    while True:
        # the characters of lines that a formatter may have joined or broken
        if max(len(first), len(second)) > 4000:
            return None
        steps.take(CHANGED_LINE + _REFORMED * (len(first) + len(second)))
        left, right = _bare(first), _bare(second)
        if left == right and left:
            return one, other
        if not (left.startswith(right.rstrip(",")) or right.startswith(left.rstrip(","))):
            return None
        if len(left) < len(right):
            if one == last:
                return None
            first, one = first + before[one], one + 1
        else:
            if other == end:
                return None
            second, other = second + behind[other], other + 1


def _bare(text: str) -> str:
    """A text without commas before a closing bracket and at the end."""
    return _COMMA.sub("", text).rstrip(",")


def _spread(
    state: _FileState, old: range, before: Sequence[str], olds: range, news: range, new: range
) -> Iterator[tuple[int, LineWriter | None]]:
    """Give each new line of a run the last writer of the old lines, if each of them has one."""
    writers = [state.writers[old[at]] for at in olds if _LETTERS.search(before[at])]
    if not writers:
        return
    known = [writer for writer in writers if writer is not None]
    writer = max(known) if len(known) == len(writers) else None
    for at in news:
        yield new[at], writer and LineWriter(writer.edit, _weaker(writer.certainty))


def _runs(numbers: set[int]) -> list[range]:
    found: list[range] = []
    for number in sorted(numbers):
        if found and found[-1].stop == number:
            found[-1] = range(found[-1].start, number + 1)
        else:
            found.append(range(number, number + 1))
    return found


def _is_known_by_itself(lines: Sequence[str]) -> bool:
    said = [len(_LETTERS.findall(line)) for line in lines]
    # letters and digits that a line needs to be known by itself, away from its place
    return sum(count > 2 for count in said) > 1 or max(said, default=0) >= 20


def _parts_in(
    run: range, lines: Sequence[str], floating: _Floating, steps: Budget
) -> Iterator[range]:
    """The parts of a run that are runs of an edit's own lines, long enough to be known."""
    own = floating.own
    at = run.start
    while at < run.stop:
        best = int(lines[at] in floating.texts)
        pair = (lines[at], lines[at + 1]) if at + 1 < run.stop else None
        for index in floating.starts.get(pair, ()) if pair is not None else ():
            length = 2
            while (
                at + length < run.stop
                and index + length < len(own)
                and lines[at + length] == own[index + length]
            ):
                length += 1
            best = max(best, length)
            steps.take(2 * LINE * length)
        if best and _is_known_by_itself(lines[at : at + best]):
            yield range(at, at + best)
        at += max(best, 1)


_MAX_LINES: Final = 1_000_000
"""The number of a line above which a part of a file is not kept."""


class Gap(msgspec.Struct, frozen=True):
    """Lines that are not known: the first, and the last; None if it is not known where it ends."""

    first: int
    last: int | None

    def as_text(self) -> str:
        """Its lines, for a message."""
        if self.last is None:
            return f"lines from {self.first:,} on"
        return (
            f"line {self.first:,}"
            if self.first == self.last
            else f"lines {self.first:,} to {self.last:,}"
        )


class KnownContent(msgspec.Struct):
    """What is known of a file at one time."""

    # the whole content; None where some of it is not known, or the file is not there
    text: str | None = None
    lines: list[str | None] = []  # its lines without ends, None for one that is not known
    is_end_known: bool = False  # whether no line follows the last of `lines`
    is_there: bool = True  # whether the file is there
    # whether the last event showed that something else had changed the file
    contradicted: bool = False

    def gaps(self) -> list[Gap]:
        """The parts that are not known."""
        if self.text is not None or not self.is_there:
            return []
        found: list[Gap] = []
        for number, line in enumerate(self.lines, 1):
            if line is not None:
                continue
            if found and found[-1].last == number - 1:
                found[-1] = Gap(found[-1].first, number)
            else:
                found.append(Gap(number, number))
        if not self.is_end_known:
            open_from = len(self.lines) + 1
            if found and found[-1].last == open_from - 1:
                open_from = found.pop().first
            found.append(Gap(open_from, None))
        return found

    def is_known(self) -> bool:
        """Whether any line is known, or that the file is not there."""
        return self.text is not None or not self.is_there or any(map(_is_known, self.lines))

    def known(self) -> int:
        """The number of lines that are known."""
        if self.text is not None:
            return len(lines_of(self.text))
        return sum(line is not None for line in self.lines)

    def take(self, event: Edit | SeenLines, steps: Budget) -> None:
        """Go on with the next event.

        Raises:
            TooMuchError: it needs more steps than are left.
        """
        self.contradicted = False
        steps.take(LINE * len(self.lines))
        if isinstance(event, SeenLines):
            self._see(event, steps)
            return
        if event.before is not None:
            self._is_whole(event.before)
        made = after(event, self.text if self.is_there else None, steps)
        if event.kind == "delete":
            self._replace(KnownContent(is_there=False))
        elif made is not None:
            self._replace(_whole(made))
        elif event.kind == "move" and not event.hunks:
            return
        elif (made := self._edited(event, steps)) is not None:
            self.lines = list(lines_of(made))
        elif event.kind == "append":
            self._open_end()
        elif event.hunks and all(hunk.start is not None for hunk in event.hunks):
            self._patch(event.hunks, steps)
        elif not self._swap(event, steps):
            self._forget()

    def _edited(self, edit: Edit, steps: Budget) -> str | None:
        """The content after an edit of lines that are all known, but for the end of the last."""
        lines = [line for line in self.lines if line is not None]
        is_known = self.text is None and self.is_there and self.is_end_known
        if not is_known or not lines or len(lines) < len(self.lines) or edit.kind != "edit":
            return None
        return after(edit, "".join(f"{line}\n" for line in lines), steps)

    def _replace(self, other: KnownContent) -> None:
        self.text, self.lines = other.text, other.lines
        self.is_end_known, self.is_there = other.is_end_known, other.is_there

    def _open_end(self) -> None:
        """Something was added at the end, maybe to the last line that is known."""
        self.is_end_known = False
        self.lines[-1:] = [None] if self.lines else []

    def _forget(self) -> None:
        """Something changed the file in a way that is not told."""
        self.contradicted = self.text is not None or any(map(_is_known, self.lines))
        self._replace(KnownContent())

    def _is_whole(self, text: str) -> None:
        contradicted = self.text is not None and self.text != text
        self._replace(_whole(text))
        self.contradicted = contradicted

    def _see(self, seen: SeenLines, steps: Budget) -> None:
        if seen.is_whole:
            self._is_whole(seen.text)
            return
        if not seen.first:
            return
        shown = [line.removesuffix("\r") for line in seen.text.split("\n")]
        low, high = seen.first - 1, seen.first - 1 + len(shown)
        steps.take(LINE * min(high, _MAX_LINES))
        if self.text is not None:
            steps.take(len(self.text) + LINE * self.text.count("\n"))
            if lines_of(self.text.replace("\r\n", "\n"))[low:high] == _trimmed(shown):
                return
            self._forget()
        if high > _MAX_LINES:
            return
        if not self.is_there:
            self._replace(KnownContent())
        known = self.lines[low:high]
        is_longer = self.is_end_known and high > len(self.lines)
        is_other = any(
            one is not None and one != two for one, two in zip(known, shown, strict=False)
        )
        if is_longer or is_other:
            self._forget()
        self.lines = [*self.lines, *[None] * (high - len(self.lines))]
        self.lines[low:high] = shown
        if seen.total is not None and seen.total == high:
            self.is_end_known = True
            del self.lines[high:]

    def _patch(self, hunks: Sequence[Hunk], steps: Budget) -> None:
        if any((hunk.start or 0) > _MAX_LINES for hunk in hunks):
            self._forget()
            return
        lines = [] if self.text is None else lines_of(self.text.replace("\r\n", "\n"))
        made: list[str | None] = list(lines) if self.text is not None else list(self.lines)
        shift = 0
        for hunk in hunks:
            low = max((hunk.start or 1) - 1 + shift, 0)
            high = low + len(hunk.before)
            steps.take(max(high, len(made)))  # lines that are made, or move
            made += [None] * (high - len(made))
            if any(
                one is not None and one != two
                for one, two in zip(made[low:high], hunk.before, strict=True)
            ):
                self._forget()
                made = [None] * high
            made[low:high] = hunk.after
            shift += len(hunk.after) - len(hunk.before)
        is_end_known = self.is_end_known and self.text is None
        self._replace(KnownContent(None, made, is_end_known))

    def _swap(self, edit: Edit, steps: Budget) -> bool:
        if self.text is not None or not edit.swaps or not self.is_there:
            return False
        made = list(self.lines)
        for swap in edit.swaps:
            steps.take(LINE * len(made))
            place = None if swap.every else _place_of(swap.old, made, steps)
            if place is None:
                return False
            first, last, text = place
            is_at_end = last == len(made)
            made[first:last] = text.replace(swap.old, swap.new, 1).split("\n")
            if is_at_end and not made[-1]:  # an empty line, or what follows the last LF
                made.pop()
                self.is_end_known = False
        self.lines = made
        return True


def _place_of(old: str, lines: Sequence[str | None], steps: Budget) -> tuple[int, int, str] | None:
    """The run of known lines that has a text once, and no other run has; with its text."""
    found: list[tuple[int, int, str]] = []
    first = 0
    while first < len(lines):
        if lines[first] is None:
            first += 1
            continue
        last = first
        while last < len(lines) and lines[last] is not None:
            last += 1
        text = "\n".join(line for line in lines[first:last] if line is not None)
        if (at := find(text, old, 0, steps)) >= 0:
            if find(text, old, at + len(old), steps) >= 0:
                return None
            found.append((first, last, text))
        first = last
    return found[0] if len(found) == 1 else None


def _whole(text: str) -> KnownContent:
    return KnownContent(text, [], is_end_known=True)


def _trimmed(lines: Sequence[str]) -> list[str]:
    return list(lines[:-1] if lines and not lines[-1] else lines)


def _is_known(line: str | None) -> bool:
    return line is not None
