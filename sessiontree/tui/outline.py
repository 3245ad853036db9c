"""The outline of a session: its turns as rows, whose branches and subagents fold.

The last turns are there at once; the whole outline replaces them when the file is read. Those of
another agent's large file are read from its end, before all of it is translated.

Invariant: a row keeps its key while the outline is read again.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from sessiontree.core.damage import Damage
from sessiontree.library.one import opened_by_ends, with_agent
from sessiontree.session import Session
from sessiontree.text.columns import Line, Span
from sessiontree.tui import loader
from sessiontree.tui.drawing import last_line, row_line, rows_of
from sessiontree.tui.leaving import ViewServers, ask_to_resume
from sessiontree.tui.lines import Ask
from sessiontree.tui.loader import FileReader
from sessiontree.tui.view import BACK, HELP, LETTERS, MOVING, View, key
from sessiontree.views.layout import OutlineRow
from sessiontree.views.rows import read_turn
from sessiontree.views.turns import (
    SessionOutline,
    Turn,
    latest,
    outline,
    turns_named,
)
from sessiontree.views.words import work_in


class OutlineView(View, inherit_bindings=False):
    """The turns of one session."""

    BINDINGS: ClassVar[list[Any]] = [
        *MOVING,
        *(each for each in LETTERS if each.key != "space"),
        key("enter", "choose", "read the turn", "Enter"),
        key("space,left,right", "fold", "fold or unfold the branch or the subagent", "Space ← →"),
        key("z", "fold_all", "fold or unfold all branches"),
        key("right_square_bracket", "branch_point(1)", "the next branch point", "]"),
        key("left_square_bracket", "branch_point(-1)", "the branch point before", "["),
        key("at", "here", "the turn where the session is", "@"),
        key("slash", "search", "search the session", "/"),
        key("L", "labels", "list the labels"),
        key("dollar_sign", "costs", "list the turns by cost", "$"),
        key("r", "resume(True)", "resume the session in its agent, or in another"),
        key("R", "resume(False)", "end, and print the command that resumes"),
        key("b", "branch", "go on from the end of the turn, in the same file"),
        key("l", "label", "label the turn"),
        key("f", "fork", "copy the path to the turn into a new session of the store"),
        key("e", "export", "export the path as Markdown, or the session as a page: .html"),
        key("y", "copy", "copy the prompt"),
        key("w", "view", "open the turn in the browser"),
        key("t", "trash", "move the session to the trash, or hide an agent's"),
        key("f5", "read", "read the session again", "F5"),
        HELP,
        BACK,
    ]
    HINTS = "Enter read  Space fold  / search  L labels  $ costs  ? keys  Esc back"

    def __init__(self, file: str, entry: str | None = None) -> None:
        super().__init__()
        self.file = file
        self.reader = FileReader(file)
        self._early: FileReader | None = None  # of the last turns, until the whole file is read
        self.outline: SessionOutline | None = None
        self.has_written = False
        self._entry = entry
        self._last: list[Turn] = []
        self._rows: list[OutlineRow] = []
        self._folded: set[str] = set()
        self._opened: set[str] = set()
        self._progress = "reading …"

    def opened(self) -> None:
        self.action_read()

    def on_unmount(self) -> None:
        self.reader.close()
        if self._early is not None:
            self._early.close()

    def action_read(self) -> None:
        self.reader.close()
        self.reader = FileReader(self.file)
        self.run_worker(self._read(), group="read", exclusive=True)

    async def _read(self) -> None:
        self._progress = "reading …"
        self.refresh_title()
        if self.outline is None:
            last = await self._read_last()
            if last is None:
                self._progress = "not readable"
                self.refresh_title()
                return
            self._show_last(last)
        app = self.app

        def show(done: int, size: int) -> None:
            self.reader.check()
            app.call_from_thread(self._show_progress, done, size)

        read = await self.tried(self.reader.ask(lambda session: _whole(session, show)))
        self._progress = ""
        if read is not None:
            found, damage = read
            self._show(found)
            if damage:
                self.tell(f"{len(damage):,} damaged: {damage[0]}", "failure")
        self.refresh_title()

    async def _read_last(self) -> list[Turn] | None:
        self._early = self._early or FileReader(self.file, opened_by_ends)
        last = await self.tried(self._early.ask(_latest))
        if last is None:
            self._early.close()
            self._early = None
            last = await self.tried(self.reader.ask(_latest))
        return last

    @property
    def _reading(self) -> FileReader:
        return self.reader if self.outline is not None else self._early or self.reader

    def _show_progress(self, done: int, size: int) -> None:
        self._progress = f"reading {100 * done // max(1, size)} %"
        self.refresh_title()

    def _show_last(self, last: list[Turn]) -> None:
        self._last = last
        self.lines.fill(len(last), self._line, len(last) - 1)

    def _show(self, found: SessionOutline) -> None:
        before = self.turn
        is_first = self.outline is None
        self.outline = found
        uuid = None if before is None else before.uuid
        if is_first:
            uuid = self._shown_before(found, uuid)
        self._refill(uuid)
        if self._entry is not None:
            entry, self._entry = self._entry, None
            self.open_entry(entry)

    def _shown_before(self, found: SessionOutline, uuid: str | None) -> str | None:
        """The turn of the outline at which the cursor was among the last turns."""
        is_last = uuid is None or uuid == self._last[-1].uuid
        if is_last and found.here is not None:
            return found.turns[found.here].uuid
        if uuid is None or any(turn.uuid == uuid for turn in found.turns):
            return uuid
        path = [turn.uuid for turn in found.turns if turn.current and not turn.subagent]
        from_end = len(self._last) - self.lines.at
        return path[-from_end] if from_end <= len(path) else None

    def _refill(self, uuid: str | None) -> None:
        assert self.outline is not None
        turns = self.outline.turns
        self._rows = rows_of(self.outline, self._folded, self._opened)
        at = next((n for n, row in enumerate(self._rows) if turns[row.place].uuid == uuid), 0)
        self.lines.fill(len(self._rows), self._line, at)

    @property
    def turn(self) -> Turn | None:
        """The turn that the cursor is on."""
        at = self.lines.at
        if self.outline is None:
            return self._last[at] if self._last else None
        return self.outline.turns[self._rows[at].place] if self._rows else None

    def title_line(self) -> tuple[Line, Line]:
        found = self.outline
        if found is None:
            return [Span(self.file.rpartition("/")[2])], [Span(self._progress)]
        name = found.name or found.id[:8] or "a session without id"
        facts = [name, found.agent or "sessiontree", found.cwd or ""]
        did = " · ".join(part.text for part in work_in(found.work, self.size.width // 3))
        return [Span(" · ".join(filter(None, facts)))], [Span(self._progress or did)]

    def _line(self, number: int, width: int) -> Line:
        if self.outline is not None:
            return row_line(self.outline, self._rows[number], width)
        return last_line(self._last[number], width)

    def action_choose(self) -> None:
        turn = self.turn
        if turn is None:
            return
        uuid = None
        if self.outline is not None:
            row = self._rows[self.lines.at]
            if row.kind == "subagent":
                agent = turn.subagents[row.item]
                if not agent.turns:
                    self.tell("the transcript of the subagent is missing", "failure")
                    return
                turn = self.outline.turns[agent.turns[0]]
            elif row.kind != "turn":
                uuid = turn.events[row.item].uuid
        self._open(turn, uuid)

    def _open(self, turn: Turn, uuid: str | None) -> None:
        from sessiontree.tui.turn import ReadingView

        self.app.push_screen(ReadingView(self._reading, turn, uuid), self._has_read)

    def _has_read(self, has_written: Any) -> None:
        if has_written:
            self.written()

    def open_entry(self, uuid: str) -> None:
        """Open the turn of an entry, with the cursor on the entry."""
        self.run_worker(self._open_entry(uuid))

    async def _open_entry(self, uuid: str) -> None:
        found = self.outline
        if found is None:
            self.tell("the session is still being read; try again when it is done", "failure")
            return
        named = await self.tried(self.reader.ask(lambda s: turns_named(s.cursor, found, uuid)))
        if named:
            self._open(named[0][1], uuid)

    def action_fold(self) -> None:
        if self.outline is None or not self._rows:
            return
        row = self._rows[self.lines.at]
        if row.key is None:
            self.tell("nothing folds here: Space folds a branch at its first turn, and a subagent")
            return
        keys = self._opened if row.kind == "subagent" else self._folded
        keys ^= {row.key}
        at = self.lines.at
        self._refill(None)
        self.lines.go(at)

    def action_fold_all(self) -> None:
        if self.outline is None:
            return
        turn = self.turn
        turns = self.outline.turns
        starts = {turns[row.place].uuid for row in self._rows if row.starts}
        self._folded = set() if self._folded else starts
        self._refill(None if turn is None else turn.uuid)

    def action_branch_point(self, by: int) -> None:
        places = [n for n, row in enumerate(self._rows) if row.starts]
        ahead = [n for n in places if (n - self.lines.at) * by > 0]
        if ahead:
            self.lines.go(min(ahead, key=lambda n: abs(n - self.lines.at)))
        else:
            self.tell("there is no other branch that way")

    def action_here(self) -> None:
        if self.outline is not None and self.outline.here is not None:
            self._refill(self.outline.turns[self.outline.here].uuid)

    def action_search(self) -> None:
        self.app.push_screen(Ask("Search the session for"), self._search)

    def _search(self, words: str | None) -> None:
        if words:
            from sessiontree.tui.lists import HitsView

            self.app.push_screen(HitsView(words, lambda: [self.file]), self._open_hit)

    def _open_hit(self, hit: Any) -> None:
        if hit is not None:
            self.open_entry(hit.ref)

    def written(self) -> None:
        self.has_written = True
        self.action_read()

    def action_back(self) -> None:
        self.dismiss(self.has_written)

    def action_resume(self, runs: bool) -> None:
        ask_to_resume(self, self.file, runs=runs)

    def action_branch(self) -> None:
        if (turn := self.turn) is not None:
            self.start(loader.branch, self.file, turn.leaf)

    def action_label(self) -> None:
        if (turn := self.turn) is not None:
            before = dict(turn.labels).get(turn.uuid, "")
            uuid = turn.uuid
            self.ask("Label", lambda text: self.start(loader.label, self.file, uuid, text), before)

    def action_fork(self) -> None:
        if (turn := self.turn) is not None:
            self.start(loader.fork, self.file, turn.leaf)

    def action_export(self) -> None:
        if (turn := self.turn) is not None:
            leaf = turn.leaf
            name = f"{self.file.rpartition('/')[2].partition('.')[0]}.md"
            self.ask(
                "Export to .md or .html",
                lambda path: self.start(loader.export, self.file, leaf, path),
                name,
            )

    def action_view(self) -> None:
        if (turn := self.turn) is not None:
            self.run_worker(self._view(turn))

    async def _view(self, turn: Turn) -> None:
        viewing: ViewServers = self.app.viewing  # type: ignore[attr-defined]
        told = await self.tried(asyncio.to_thread(viewing.open, self.file, turn.uuid))
        if told is not None:
            self.tell(told)

    def action_copy(self) -> None:
        if (turn := self.turn) is not None and turn.prompt is not None:
            self.run_worker(self._copy(turn))

    async def _copy(self, turn: Turn) -> None:
        read = await self.tried(self._reading.ask(lambda s: next(read_turn(s.cursor, turn), None)))
        if read is not None:
            self.app.copy_to_clipboard("\n".join(part.text for part in read.parts))
            self.tell("copied the prompt, as far as the terminal allows it")

    def action_trash(self) -> None:
        self.confirm(loader.removal(self.file), lambda: self.run_worker(self._trash()))

    async def _trash(self) -> None:
        done = await self.tried(asyncio.to_thread(loader.remove, self.file))
        if done is not None:
            self.dismiss(True)

    def action_labels(self) -> None:
        from sessiontree.tui.lists import LabelsView

        self.app.push_screen(LabelsView(self.reader), self._open_named)

    def action_costs(self) -> None:
        if self.outline is None:
            self.tell("the session is still being read; try again when it is done", "failure")
            return
        from sessiontree.tui.lists import CostsView

        self.app.push_screen(CostsView(self.reader, self.outline), self._open_named)

    def _open_named(self, uuid: str | None) -> None:
        if uuid is not None:
            self.open_entry(uuid)


def _latest(session: Session) -> list[Turn]:
    return latest(session.cursor)


def _whole(session: Session, shown: Any) -> tuple[SessionOutline, list[Damage]]:
    return with_agent(outline(session.cursor, shown), session), session.damage
