"""The page: one HTML file with the turns of a session, and its images.

The file has its data inside, compressed, and a script that shows a window of it. It loads nothing:
its policy (`Content-Security-Policy`) allows its own script and style by their hashes, and images
that are inside. The first images are inside the page, those above a limit in files beside it. With
a redaction, each entry is masked whole before anything is made of it.

Invariants:

- All branches are in the file, and every entry.
- One turn at a time is in memory, beside the index.
- The same session gives the same file, at the same prices.
- A file is named after its content, so that none is replaced by another.
- An image is written before the page that shows it is complete.
- Only markup of this package is looked at, where an image is a `data:` address with nothing but
  base64 in it.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib import resources
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec
from markupsafe import Markup

from sessiontree.core.display import LF_SHOWN, masking, one_line
from sessiontree.core.entry import Entry
from sessiontree.engine.cursor import Cursor
from sessiontree.errors import SessionExistsError, TooMuchError
from sessiontree.page import markup, rows
from sessiontree.page.index import NO_ENTRY, Chunks, Index, packed
from sessiontree.page.making import ABOVE, RenderedTurn, TurnRenderer, all_turns
from sessiontree.page.panels import Changes, Cost, CostsPanel, plot_of
from sessiontree.page.rows import MadeCommit, PageRow
from sessiontree.page.templates import Templates
from sessiontree.storage.atomic import create_file
from sessiontree.storage.fs import DISK
from sessiontree.storage.sidecars import make_folders
from sessiontree.text.amounts import counted, dollars, in_short, lasting
from sessiontree.views.costs import load
from sessiontree.views.layout import TurnTree, layout
from sessiontree.views.turns import SessionOutline, Turn, outline
from sessiontree.views.words import work_parts

if TYPE_CHECKING:
    from sessiontree.redact.redaction import Redaction


INSIDE: Final = 3_000_000
"""The characters of images, as base64, that a page has inside."""

_IMAGE: Final = re.compile(
    r'(<img alt="image/([\w.+-]{1,40})" src=")data:[\w/.+-]+;base64,([^"]*)(">)'
)


class Images:
    """Puts images into a folder beside the page, which is made if need be."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._inside = 0
        self.count = 0

    def placed(self, markup: str) -> str:
        """Markup of a row whose images are inside, or files that it names.

        Raises:
            StorageError: a file cannot be written.
        """
        return _IMAGE.sub(self._place, markup) if "<img " in markup else markup

    def _place(self, found: re.Match[str]) -> str:
        before, kind, data, after = found.groups()
        if self._inside + len(data) <= INSIDE:
            self._inside += len(data)
            return found[0]
        content = base64.b64decode(data + "=" * (-len(data) % 4))
        name = f"{sha256(content).hexdigest()[:32]}.{kind.partition('+')[0]}"
        make_folders(DISK, self._folder)
        with suppress(SessionExistsError):  # an image that the page has twice
            create_file(DISK, os.path.join(self._folder, name), iter([content]))
            self.count += 1
        return f"{before}{quote(os.path.basename(self._folder))}/{name}{after}"


MAX_TURNS: Final = 50_000
"""The turns of a page: more of them, in a file of five megabytes, are of a few letters each."""

_TITLE: Final = 120
_FILES_IN_OVERVIEW: Final = 12
_COMMITS_IN_OVERVIEW: Final = 50
_DATA: Final = "<!-- data -->"


def document(
    cursor: Cursor,
    original_line: Callable[[Entry], bytes],
    at: Entry | None = None,
    redaction: Redaction | None = None,
    images: Images | None = None,
) -> Iterator[str]:
    """See `Session.to_html`; `original_line` gives the line that an entry was made of."""
    if redaction is not None:
        redaction.know_homes_of(cursor.reader.header)
    yield from Document(cursor, original_line, at, redaction, images).parts()


class Document:
    """What a page shows of a session: the rows as chunks, then the index of them.

    The index is complete when all chunks were taken. A session of more than `MAX_TURNS` turns is
    refused with a `TooMuchError`.
    """

    def __init__(
        self,
        cursor: Cursor,
        original_line: Callable[[Entry], bytes],
        at: Entry | None = None,
        redaction: Redaction | None = None,
        images: Images | None = None,
        found: SessionOutline | None = None,
    ) -> None:
        self._at = at
        self._images = images
        self._reader = cursor.reader
        with masking(None if redaction is None else redaction.text):
            self._outline = found or outline(cursor)
        if (turns := len(self._outline.turns)) > MAX_TURNS:
            raise TooMuchError(
                f"the session has {turns:,} turns; a page shows at most {MAX_TURNS:,}. Export it "
                "as Markdown, or fork the path to an earlier entry, and export the fork"
            )
        self._maker = TurnRenderer(cursor, original_line, self._outline, redaction)
        self._warnings: list[str] = []
        self._text = self._maker.text
        self._templates = self._maker.templates
        self._chunks = Chunks()
        self._cwd = self._maker.cwd
        self._changes = Changes(self._cwd, cursor.reader.view.size)
        self._commits: list[dict[str, str]] = []
        self._costs = CostsPanel(functools.cache(load))
        self._rows = Index(self._maker.tree, self._text)
        self._models: dict[str | None, str | None] = {}

    def parts(self) -> Iterator[str]:
        """The file in parts."""
        has_images = self._images is not None
        page = shell(self._templates, self.title(), self.facts(), data=_DATA, images=has_images)
        before, after = page.split(_DATA)
        yield before
        for number, chunk in enumerate(self.chunks()):
            yield f'<script type="text/plain" id="c{number}">{chunk}</script>\n'
        yield f'<script type="text/plain" id="index">{packed(self.index())}</script>\n'
        yield after

    def chunks(self) -> Iterator[str]:
        """The rows, turn by turn, then the changed files and the overview, as `packed` gives."""
        for place, made in all_turns(self._maker):
            yield from self._take_turn(place, made)
        yield from self._take(self._changed_files())
        yield from self._take([self._overview()])
        yield self._chunks.close()

    def _take(self, made: Sequence[PageRow], first_entry: int = NO_ENTRY) -> Iterator[str]:
        if (images := self._images) is not None:
            for row in made:
                if "<img " in row.head or "<img " in row.body:
                    row.head, row.body = images.placed(row.head), images.placed(row.body)
        self._rows.take(made, first_entry)
        yield from self._chunks.take(made)

    def _take_turn(self, place: int, made: RenderedTurn) -> Iterator[str]:
        turn = None if place == ABOVE else self._outline.turns[place]
        first, first_entry = self._rows.rows, self._rows.entries
        end = self._reader.header.uuid if turn is None else turn.leaf
        self._maker.rows.check(first + len(made.rows), uuid=end)
        before = 1 if turn is not None else 0  # the head of the turn comes first
        self._rows.take_entries(made, first + before)
        self._costs.take(place, made.spent)
        self._warnings += made.warnings
        if turn is None or turn.current or turn.subagent:
            for change in made.changes:
                self._changes.take(change.edit, change.counts, first + before + change.place)
            self._commits += (self._told_of(one, made) for one in made.commits)
        if turn is None:
            yield from self._take(made.rows, first_entry)
            return
        did = [part.text for part in work_parts(turn.work, cost=False)]
        cost = self._costs.of(place)
        model = self._new_model(turn.lane, made.models)
        found = [self._head(turn, place, model, did, cost), *made.rows]
        yield from self._take(found, first_entry)
        self._rows.turns.append(self._turn(turn, did, cost, first, first + len(found)))

    def _told_of(self, made: MadeCommit, turn: RenderedTurn) -> dict[str, str]:
        entry = turn.entries[turn.rows[made.place].entry]
        uuid = self._reader.index().uuids[entry.row]
        return {**msgspec.structs.asdict(made.commit), "uuid": self._text(uuid)}

    def _new_model(self, lane: str | None, models: tuple[str, str] | None) -> str:
        """The model that a turn begins with, where the one before it had another."""
        if models is None:
            return ""
        known = self._models.get(lane)
        self._models[lane] = models[1]
        return models[0] if known != models[0] else ""

    def title(self) -> str:
        """The title of the session, or else its id."""
        title = self._outline.title or f"Session {self._outline.id}"
        return one_line(self._text(title), _TITLE)

    def facts(self) -> list[str]:
        """What the session is, in a few words each."""
        found = self._outline
        facts = [found.agent or "sessiontree", f"session {found.id}", found.kin, found.cwd or ""]
        facts += [found.work.started[:16].replace("T", " ")] if found.work.started else []
        facts += list(found.work.models[:4])
        return [one_line(self._text(fact), 200) for fact in facts if fact]

    def _head(
        self, turn: Turn, place: int, model: str, did: Sequence[str], cost: Cost | None
    ) -> PageRow:
        facts = [one_line(model, 100), *did] if model else [*did]
        if tokens := self._costs.context_of(place):
            facts.append(f"context {in_short(tokens)}")
        bad = turn.outcome not in (None, "answered", "steered")
        head = self._templates.turn(
            name="Subagent" if turn.subagent else f"Turn {turn.name}",
            has_context=not turn.subagent,
            facts=list(map(self._text, facts)),
            outcome=turn.outcome or "" if bad else "",
            names=list(map(self._text, turn.names)),
            cost=dollars(cost.dollars) if cost else "",
            cost_how=cost.how if cost else "",
        )
        gist = one_line(self._text(turn.prompt or turn.answer or "before the first prompt"), _TITLE)
        entry = 0 if self._maker.owned[place] else NO_ENTRY
        return PageRow(rows.TURN, gist, str(head), time=turn.work.started, entry=entry)

    def _turn(
        self, turn: Turn, did: Sequence[str], cost: Cost | None, first: int, end: int
    ) -> list[Any]:
        did = [*did, dollars(cost.dollars)] if cost else did
        return [
            turn.name,
            turn.above if turn.above is not None else -1,
            turn.fork,
            1 if turn.subagent else 0,
            first,
            end,
            self._text(" · ".join(did)),
            list(map(self._text, turn.names)),
        ]

    def _changed_files(self) -> list[PageRow]:
        made: list[PageRow] = []
        for file in self._changes.files.values():
            path = file.path.removeprefix((self._cwd or "").rstrip("/") + "/")
            did = [word if n == 1 else f"{word} {n:,} times" for word, n in file.did.items()]
            head = self._templates.file(
                path=one_line(path, 200), did=did, added=file.added, removed=file.removed
            )
            whole = file.diff()
            body = markup.diff(whole) if whole else Markup("")
            self._rows.files[self._rows.rows + len(made)] = file.rows
            made.append(PageRow(rows.FILE, path, head, body))
        return made

    def _overview(self) -> PageRow:
        title = self.title()
        found = self._outline
        closing = next((t.answer for t in reversed(found.turns) if t.current and t.answer), "")
        shown = self._text(closing).replace(LF_SHOWN, "\n")
        files = sorted(self._changes.files.values(), key=lambda f: -(f.added + f.removed))
        cwd = (self._cwd or "").rstrip("/") + "/"
        listed = [
            {
                "path": one_line(f.path.removeprefix(cwd), 120),
                "added": f.added,
                "removed": f.removed,
            }
            for f in files[:_FILES_IN_OVERVIEW]
        ]
        head = self._templates.overview(
            title=title,
            facts=self.facts(),
            totals=self._totals(),
            plot=plot_of(self._costs.sizes(self._outline), self._compactions()),
            files=listed,
            more_files=max(0, len(files) - _FILES_IN_OVERVIEW),
            commits=self._commits[:_COMMITS_IN_OVERVIEW],
            more_commits=max(0, len(self._commits) - _COMMITS_IN_OVERVIEW),
            answer=markup.prose(shown, markup.Colours()) if shown else "",
            warnings=self._all_warnings(),
        )
        return PageRow(rows.OVERVIEW, title, head)

    def _totals(self) -> list[str]:
        found, work = self._outline, self._outline.work
        prompts = sum(1 for t in found.turns if t.prompt is not None and not t.subagent)
        totals = [counted(prompts, "prompt")]
        totals += [counted(self._rows.entries, "entry", "entries")]
        calls = sorted(work.calls.items(), key=lambda call: -call[1])
        if calls:
            named = ", ".join(f"{self._text(name)} {n:,}" for name, n in calls[:8])
            totals.append(f"{counted(sum(work.calls.values()), 'call')}: {named}")
        if work.failed:
            totals.append(f"{work.failed:,} failed")
        totals += [f"{counted(len(self._changes.files), 'file')} changed"]
        used = work.usage
        if work.tokens or used.cache_read:
            tokens = f"{in_short(work.tokens)} tokens and {in_short(used.cache_read)} from a cache"
            totals.append(tokens)
        if cost := self._costs.total():
            totals.append(f"{dollars(cost.dollars)} ({cost.how})")
        if work.seconds:
            totals.append(lasting(work.seconds))
        return totals

    def _compactions(self) -> list[int]:
        return [
            place
            for place, turn in enumerate(self._outline.turns)
            if turn.current and any(event.kind == "compaction" for event in turn.events)
        ]

    def _all_warnings(self) -> list[str]:
        damage = [
            f"line {one.line:,}, byte {one.offset:,}: {one.kind}: {one.cause}"
            for one in self._reader.damage
        ]
        found = list(dict.fromkeys([*damage, *self._warnings]))
        shown = [one_line(self._text(text), 300) for text in found[:200]]
        more = len(found) - len(shown)
        return [*shown, f"and {more:,} more"] if more > 0 else shown

    def index(self) -> dict[str, Any]:
        """What the script of the page reads first: all about the rows but what they show."""
        labels = self._reader.names().labels
        shown = {uuid: one_line(self._text(label), 60) for uuid, label in labels.items()}
        return {
            **self._rows.as_dict(self._reader.header, shown),
            "at": "" if self._at is None else self._text(self._at.uuid),
            "chunks": self._chunks.firsts,
            "here": -1 if self._outline.here is None else self._outline.here,
            "layout": self._layout(),
        }

    def _layout(self) -> list[tuple[int, int]]:
        """The turns but those of subagents from top to bottom, each with its level."""
        runs = layout(TurnTree(self._outline.turns), deepest=0)
        return [(place, run.level) for run in runs for place in run.nodes]


def shell(
    templates: Templates,
    title: str,
    facts: Sequence[str],
    *,
    data: str = "",
    source: str = "",
    scripts: Sequence[str] = (),
    images: bool = False,
) -> str:
    """The page without its data: with `data` in place of it, or the address `source` of it.

    It shows `facts` until the rows are there. `images` allows those in the folder beside it.
    """
    script, style = "".join([asset("page.js"), *scripts]), asset("page.css")
    return templates.page(
        title=title,
        policy=policy(script, style, is_served=bool(source), images=images),
        style=Markup(style),
        script=Markup(script),
        data=Markup(data),
        source=source,
        facts=facts,
    )


@functools.cache
def asset(name: str) -> str:
    """A script or a style of the page."""
    return resources.files("sessiontree.page").joinpath("assets", name).read_text("utf-8")


def policy(script: str, style: str, *, is_served: bool = False, images: bool = False) -> str:
    """The policy of a page: its own script and style, images inside, and its own server.

    `images` allows those in the folder beside it.
    """
    beside = " 'self'" if images else ""
    server = "connect-src 'self'; " if is_served else ""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; {server}"
        f"img-src data:{beside}; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
