"""A turn in full: each entry below a line that says who speaks and when. Long parts fold.

A call is one line with what came of it; unfolded, it has the rest of the call and its result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final, NamedTuple

from sessiontree.core.entry import moment_of
from sessiontree.text.columns import Line, Span, beside, line_text, wrapped
from sessiontree.text.terminal import as_shown
from sessiontree.tui import loader as actions
from sessiontree.tui.lines import Ask
from sessiontree.tui.loader import FileReader
from sessiontree.tui.view import BACK, HELP, LETTERS, MOVING, View, key
from sessiontree.views.acts import Act, details_of
from sessiontree.views.parts import Part, text_of_part
from sessiontree.views.rows import ReadEntry, read_turn
from sessiontree.views.turns import Turn
from sessiontree.views.words import act_in

_OPEN: Final = 12  # lines of a part that are shown unfolded
_INDENT: Final = "  "
_ROLES: Final = {
    "thinking": "dim",
    "call": "tool",
    "result": "dim",
    "error": "failure",
    "broken": "failure",
    "shell": "tool",
    "media": "dim",
    "summary": "compaction",
    "other": "dim",
}


_OF_DIFF: Final = {"+": "branch", "-": "failure", "@": "number"}


class ReadingLine(NamedTuple):
    """A line of the turn: its entry, the part that folds here, and the text."""

    entry: int
    part: int | None
    line: Line


def lines_of(
    entries: list[ReadEntry], unfolded: set[tuple[int, int]], width: int
) -> list[ReadingLine]:
    """The lines of a turn in so many columns."""
    found: list[ReadingLine] = []
    for at, entry in enumerate(entries):
        if at:
            found.append(ReadingLine(at - 1, None, ()))
        found.append(ReadingLine(at, None, _heading(entry, width)))
        for number, part in enumerate(entry.parts):
            is_open = (at, number) in unfolded
            found += (
                ReadingLine(at, number, line)
                for line in part_lines(part, width - len(_INDENT), is_open=is_open)
            )
    return found


def _heading(entry: ReadEntry, width: int) -> Line:
    moment = moment_of(entry.time)
    when = "" if moment is None else moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    label = [Span(f"  [{entry.label}]", "label")] if entry.label else []
    left = [Span(entry.speaker, "here" if entry.speaker == "user" else "number"), *label]
    if entry.type not in ("message", entry.speaker):
        left.append(Span(f"  {entry.type}", "dim"))
    return beside(left, [Span(f"{when}  {entry.uuid[:8]}", "dim")], width)


def part_lines(part: Part, width: int, *, is_open: bool) -> list[Line]:
    """The lines of a part; of a long one that is folded, the first lines and how many more."""
    if part.act is not None:
        return list(_act_lines(part, part.act, width, is_open=is_open))
    role = "failure" if part.failed else _ROLES.get(part.kind, "")
    text = text_of_part(part).rstrip()
    if part.kind == "thinking" and not is_open:
        start = " ".join(text[: 4 * width].split())
        return [[Span(_INDENT), Span(f"▸ {start}", role)]]
    lines = wrapped(text or "(empty)", width)
    if part.kind == "text" or is_open or len(lines) <= _OPEN + 1:
        return [[Span(_INDENT), Span(line, role)] for line in lines]
    more = f"▸ {len(lines) - _OPEN:,} more lines"
    return [
        *([Span(_INDENT), Span(line, role)] for line in lines[:_OPEN]),
        [Span(_INDENT), Span(more, "branch")],
    ]


def _act_lines(part: Part, act: Act, width: int, *, is_open: bool) -> Iterator[Line]:
    """The line of an act; of one that failed its last lines; of an open one all that it has."""
    yield [Span(_INDENT), *act_in(act, width)]
    if not is_open:
        yield from ([Span(2 * _INDENT), Span(line, "dim")] for line in act.tail() if act.failed)
        return
    texts = [(each.text, each.language) for each in details_of(part.call, act)] if part.call else []
    texts += [(as_shown(text_of_part(piece)), "") for piece in part.pieces]
    for text, language in texts:
        for line in wrapped(text.rstrip() or "(empty)", width - len(_INDENT)):
            role = _OF_DIFF.get(line[:1], "dim") if language == "diff" else "dim"
            yield [Span(2 * _INDENT), Span(line, role)]


class ReadingView(View, inherit_bindings=False):
    """One turn in full."""

    BINDINGS: ClassVar[list[Any]] = [
        *MOVING,
        *(each for each in LETTERS if each.key != "space"),
        key("space,enter", "fold", "fold or unfold the part", "Space Enter"),
        key("z", "fold_all", "fold or unfold all parts"),
        key("right_square_bracket", "entry(1)", "the next entry", "]"),
        key("left_square_bracket", "entry(-1)", "the entry before", "["),
        key("slash", "search", "search the text", "/"),
        key("n", "match(1)", "the next match"),
        key("N", "match(-1)", "the match before"),
        key("y", "copy", "copy the text of the entry"),
        key("b", "branch", "go on from the entry, in the same file"),
        key("l", "label", "label the entry"),
        key("f", "fork", "copy the path to the entry into a new session of the store"),
        HELP,
        BACK,
    ]
    HINTS = "Space unfold  ] next entry  / search  n next match  y copy  ? keys  Esc back"

    def __init__(self, reader: FileReader, turn: Turn, uuid: str | None = None) -> None:
        super().__init__()
        self._reader, self._turn, self._uuid = reader, turn, uuid
        self._entries: list[ReadEntry] = []
        self._shown: list[ReadingLine] = []
        self._unfolded: set[tuple[int, int]] = set()
        self._words = ""
        self._has_written = False
        self._matches: list[int] = []

    def opened(self) -> None:
        self.run_worker(self._read())

    async def _read(self) -> None:
        found = await self.tried(
            self._reader.ask(lambda session: list(read_turn(session.cursor, self._turn)))
        )
        self._entries = found or []
        at = next((n for n, e in enumerate(self._entries) if e.uuid == self._uuid), 0)
        self._lay_out()
        self._go_to_entry(at)

    def resized(self) -> None:
        at = self._shown[self.lines.at].entry if self._shown else 0
        self._lay_out()
        self._go_to_entry(at)

    def _lay_out(self) -> None:
        self._shown = lines_of(self._entries, self._unfolded, self.size.width)
        self._find()
        self.lines.fill(len(self._shown), self._line, self.lines.at)

    def _line(self, number: int, width: int) -> Line:
        line = self._shown[number].line
        if not self._words:
            return line
        return [piece for each in line for piece in _marked(each, self._words)]

    @property
    def entry(self) -> ReadEntry | None:
        """The entry that the cursor is on."""
        return self._entries[self._shown[self.lines.at].entry] if self._shown else None

    def title_line(self) -> tuple[Line, Line]:
        turn = self._turn
        name = f"turn {turn.name}" if turn.number else "the turn"
        if turn.subagent:
            name = f"subagent in {name}"
        count = len(self._entries)
        at = self._shown[self.lines.at].entry + 1 if self._shown else 0
        end = f"entry {at:,} of {count:,}"
        if self._words:
            place = sum(match <= self.lines.at for match in self._matches)
            end = f"match {place:,} of {len(self._matches):,} · {end}"
        return [Span(f"{name} · {turn.prompt or turn.answer}")], [Span(end)]

    def _go_to_entry(self, at: int) -> None:
        self.lines.go(next((n for n, line in enumerate(self._shown) if line.entry == at), 0))

    def action_choose(self) -> None:
        self.action_fold()

    def action_fold(self) -> None:
        if not self._shown:
            return
        at = self._shown[self.lines.at]
        if at.part is None:
            return
        self._unfolded ^= {(at.entry, at.part)}
        self._lay_out()
        first = next(n for n, line in enumerate(self._shown) if line[:2] == at[:2])
        self.lines.go(first)

    def action_fold_all(self) -> None:
        at = self._shown[self.lines.at].entry if self._shown else 0
        everything = {(n, p) for n, e in enumerate(self._entries) for p in range(len(e.parts))}
        self._unfolded = set() if self._unfolded else everything
        self._lay_out()
        self._go_to_entry(at)

    def action_entry(self, by: int) -> None:
        if self._shown:
            at = self._shown[self.lines.at].entry + by
            self._go_to_entry(max(0, min(at, len(self._entries) - 1)))

    def action_search(self) -> None:
        self.app.push_screen(Ask("Search the turn for"), self._search)

    def _search(self, words: str | None) -> None:
        if words is None:
            return
        self._words = words.casefold()
        self._unfolded = {
            (n, p)
            for n, entry in enumerate(self._entries)
            for p, part in enumerate(entry.parts)
            if self._words and self._words in text_of_part(part).casefold()
        }
        self._lay_out()
        if self._words and not self._matches:
            self.tell(f"nothing in this turn matches {words}", "failure")
        elif self._words:
            self.action_match(1 if self.lines.at not in self._matches else 0)

    def _find(self) -> None:
        self._matches = (
            [
                n
                for n, line in enumerate(self._shown)
                if self._words in line_text(line.line).casefold()
            ]
            if self._words
            else []
        )

    def action_match(self, by: int) -> None:
        ahead = [n for n in self._matches if (n - self.lines.at) * by > 0]
        if ahead:
            self.lines.go(min(ahead, key=lambda n: abs(n - self.lines.at)))
        elif by and self._matches:
            self.lines.go(self._matches[0 if by > 0 else -1])

    def written(self) -> None:
        self._has_written = True

    def action_back(self) -> None:
        self.dismiss(self._has_written)

    def action_branch(self) -> None:
        if (entry := self.entry) is not None:
            self.start(actions.branch, self._reader.file, entry.uuid)

    def action_label(self) -> None:
        if (entry := self.entry) is not None:
            file, uuid = self._reader.file, entry.uuid
            self.ask(
                "Label", lambda text: self.start(actions.label, file, uuid, text), entry.label or ""
            )

    def action_fork(self) -> None:
        if (entry := self.entry) is not None:
            self.start(actions.fork, self._reader.file, entry.uuid)

    def action_copy(self) -> None:
        if (entry := self.entry) is not None:
            self.app.copy_to_clipboard("\n".join(map(text_of_part, entry.parts)))
            self.tell(f"copied the text of {entry.uuid[:8]}, as far as the terminal allows it")


def _marked(piece: Span, words: str) -> list[Span]:
    at = piece.text.casefold().find(words)
    if at < 0 or len(piece.text.casefold()) != len(piece.text):
        return [piece]
    end = at + len(words)
    before, found, after = piece.text[:at], piece.text[at:end], piece.text[end:]
    return [Span(before, piece.role), Span(found, "found"), Span(after, piece.role)]
