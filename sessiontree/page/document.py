"""The document: a session as one HTML file.

The file has its data inside, compressed, and a script that shows a window of it. It loads nothing:
its policy (`Content-Security-Policy`) allows its own script and style by their hashes, and images
that are inside. With a redaction, each entry is masked whole before anything is made of it.

Invariants: all branches are in the file, and every entry; one turn at a time is in memory, beside
the index; the same session gives the same file, at the same prices.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from sessiontree.core.blob import blob_of
from sessiontree.core.blocks import Contents, folded_message, is_handle_of_message
from sessiontree.core.display import LF_SHOWN, masking, one_line
from sessiontree.core.edits import Told
from sessiontree.core.embedded import left_out
from sessiontree.core.entry import HEADER, PIECES, Entry, decode_object
from sessiontree.core.handle import Handle
from sessiontree.core.index import NO_ROW
from sessiontree.core.media import base_type
from sessiontree.core.message import Message, result_ids
from sessiontree.core.moment import moment_of
from sessiontree.engine.cursor import Cursor
from sessiontree.errors import HandleError
from sessiontree.operations import prices
from sessiontree.operations.export import know_homes
from sessiontree.operations.turns import SessionOutline, Subagent, Turn, outline
from sessiontree.page import markup, rows
from sessiontree.page.changes import Changes
from sessiontree.page.contexts import contexts_of
from sessiontree.page.costs import Costs
from sessiontree.page.data import Chunks, packed
from sessiontree.page.plot import plot_of
from sessiontree.page.rows import Row, TurnRows
from sessiontree.page.templates import Templates
from sessiontree.text.amounts import dollars, in_short, lasting

if TYPE_CHECKING:
    from sessiontree.redact.redaction import Redaction

_TITLE: Final = 120
_MOST_WARNINGS: Final = 200
_FILES_IN_OVERVIEW: Final = 12
_FORK: Final = 2
_DATA: Final = "<!-- data -->"


def document(
    cursor: Cursor,
    original_line: Callable[[Entry], bytes],
    at: Entry | None = None,
    redaction: Redaction | None = None,
) -> Iterator[str]:
    """See `Session.to_html`.

    Args:
        cursor: the session.
        original_line: gives the line of the file that an entry was made of.
        at: the entry that the page opens at; None for the beginning.
        redaction: masks secrets.
    """
    if redaction is not None:
        know_homes(redaction, cursor.reader.header)
    yield from Document(cursor, original_line, at, redaction).parts()


class Document:
    """What a page shows of a session: the rows as chunks, then the index of them.

    The index is complete when all chunks were taken.
    """

    def __init__(
        self,
        cursor: Cursor,
        original_line: Callable[[Entry], bytes],
        at: Entry | None = None,
        redaction: Redaction | None = None,
    ) -> None:
        self._at = at
        self._cursor = cursor
        self._reader = cursor.reader
        self._original_line = original_line
        self._redaction = redaction
        with masking(None if redaction is None else redaction.text):
            self._outline = outline(cursor)
        self._tree = cursor.reader.index()
        self._warnings: list[str] = []
        self._line = b""
        self._told = Told({})
        self._contents = Contents(cursor.resolve, False, self._warnings)
        self._templates = Templates()
        self._chunks = Chunks()
        self._cwd = None if self._outline.cwd is None else self._text(self._outline.cwd)
        self._changes = Changes(self._cwd)
        self._costs = Costs(prices.load)
        self._kinds: list[str] = []
        self._gists: list[str] = []
        self._times = array("q")
        self._uuids: list[str] = []
        self._row_of: list[int] = []
        self._end_of: list[int] = []
        self._turns: list[list[Any]] = []
        self._agents: dict[int, list[int]] = {}
        self._files: dict[int, list[int]] = {}
        self._models: dict[str | None, str | None] = {}

    def parts(self) -> Iterator[str]:
        """The file in parts."""
        page = shell(self._templates, self.title(), self.facts(), data=_DATA)
        before, after = page.split(_DATA)
        yield before
        for number, chunk in enumerate(self.chunks()):
            yield f'<script type="text/plain" id="c{number}">{chunk}</script>\n'
        yield f'<script type="text/plain" id="index">{packed(self.index())}</script>\n'
        yield after

    def chunks(self) -> Iterator[str]:
        """The rows, turn by turn, then the changed files and the overview, as `packed` gives."""
        owned = _rows_by_turn(self._tree, self._outline)
        yield from self._take_turn(None, owned[-1], -1)
        for place, turn in enumerate(self._outline.turns):
            yield from self._take_turn(turn, owned[place], place)
        yield from self._take(self._changed_files())
        yield from self._take([self._overview()])
        yield self._chunks.close()

    def _take(self, made: Sequence[Row]) -> Iterator[str]:
        for row in made:
            self._kinds.append(row.kind)
            self._gists.append(self._text(row.gist))
            moment = moment_of(row.time)
            self._times.append(int(moment.timestamp()) if moment is not None else 0)
        yield from self._chunks.take(made)

    def _take_turn(self, turn: Turn | None, owned: Sequence[int], place: int) -> Iterator[str]:
        first = len(self._chunks)
        lane = turn.lane if turn is not None else None
        made = TurnRows(
            self._templates,
            self._told_beside,
            self._cwd,
            is_subagent=turn is not None and turn.subagent,
            model=self._models.get(lane),
        )
        before = 1 if turn is not None else 0  # the head of the turn comes first
        agents = _agents_by_caller(turn)
        agent_rows: list[tuple[int, Subagent]] = []
        pieces: list[Entry] = []

        def note(entry: Entry, at: int) -> None:
            self._uuids.append(entry.uuid)
            self._row_of.append(first + before + at)
            self._end_of.append(first + before + len(made))

        def flush() -> None:
            if pieces:
                whole = [self._contents.whole(piece) for piece in pieces]
                start = len(made)
                message = self._masked(folded_message(whole), pieces[0].uuid)
                self._costs.take(pieces[-1], message, place)
                made.take_message(message, {}, pieces[0].timestamp)
                for piece in pieces:
                    note(piece, start)
                start_agents(pieces[-1])
                pieces.clear()

        def start_agents(entry: Entry) -> None:
            for agent in agents.pop(entry.uuid, ()):
                agent_rows.append((len(made), agent))
                made.add(self._agent_row(agent))

        for row in owned:
            entry = self._reader.entry_at(row)
            if entry.type == HEADER:
                continue
            if entry.type in PIECES:
                if pieces and pieces[0].get("messageUuid") != entry.get("messageUuid"):
                    flush()
                pieces.append(entry)
                continue
            if entry.is_content:
                flush()
            start = len(made)
            at = self._take_entry(made, entry, place)
            note(entry, min(start, max(0, len(made) - 1)) if at is None else at)
            start_agents(entry)
        flush()
        for rest in agents.values():
            for agent in rest:
                agent_rows.append((len(made), agent))
                made.add(self._agent_row(agent))
        self._models[lane] = made.model
        found = made.rows
        for at, agent in agent_rows:
            if agent.turns:
                self._agents[first + before + at] = list(agent.turns)
        if turn is None or turn.current or turn.subagent:
            for change in made.changes:
                self._changes.take(change.edit, first + before + change.place)
        if turn is not None:
            found = [self._head(turn, place), *found]
        yield from self._take(found)
        if turn is not None:
            self._turns.append(self._turn(turn, first, first + len(found)))

    def _take_entry(self, made: TurnRows, entry: Entry, place: int) -> int | None:
        """Take an entry; the place of the row that has it where this is not a new one."""
        if is_handle_of_message(entry) or entry.type == "handle":
            self._take_handle(made, entry, place)
            return None
        fields = self._fields(entry)
        message = fields.get("message")
        if entry.type == "message" and isinstance(message, Mapping):
            return self._take_message(made, message, fields, entry, place)
        self._costs.take(entry, fields, place)
        made.take(entry.type, fields, entry.timestamp, entry.uuid)
        return None

    def _take_message(
        self,
        made: TurnRows,
        message: Message,
        fields: Mapping[str, Any],
        entry: Entry,
        place: int,
    ) -> int | None:
        ids = result_ids(message)
        at = made.place_of_result(ids[0]) if ids else None
        self._costs.take(entry, message, place)
        made.take_message(message, fields, entry.timestamp)
        return at

    def _take_handle(self, made: TurnRows, entry: Entry, place: int) -> None:
        kind, size = _binary_of(entry)
        if self._redaction is not None and kind is not None:
            self._redaction.left_out.append((entry.uuid, kind, size))
            message: Message = {"role": "user", "content": left_out(kind, size)}
        else:
            message = self._masked(self._contents.of_handle(entry), entry.uuid)
        self._take_message(made, message, {"uuid": entry.uuid}, entry, place)

    def _fields(self, entry: Entry) -> Mapping[str, Any]:
        whole = self._contents.whole(entry)
        fields = {key: whole[key] for key in whole if key not in ("spilled", "crc")}
        masked: Mapping[str, Any] = self._masked(fields, entry.uuid)
        return masked

    def _masked(self, value: Any, uuid: str | None) -> Any:
        return value if self._redaction is None else self._redaction.value(value, uuid)

    def _text(self, text: str) -> str:
        return text if self._redaction is None else self._redaction.text(text)

    def _told_beside(self, uuid: str) -> Told:
        """What the agent keeps beside the results of an entry, masked."""
        entry = self._reader.by_uuid(uuid)
        raw = b"" if entry is None else self._original_line(entry)
        if raw is not self._line:  # one line may have very many results
            self._line = raw
            self._told = Told(self._masked(decode_object(raw), None))
        return self._told

    def title(self) -> str:
        """The name of the session, or else its first prompt."""
        if name := self._outline.name:
            return one_line(self._text(name), _TITLE)
        prompts = (turn.prompt for turn in self._outline.turns if turn.prompt)
        found = next(prompts, None)
        return (
            one_line(self._text(found), _TITLE)
            if found
            else f"Session {self._text(self._outline.id)}"
        )

    def facts(self) -> list[str]:
        """What the session is, in a few words each."""
        found = self._outline
        facts = [found.agent or "sessiontree", f"session {found.id}", found.cwd or ""]
        facts += [found.work.started[:16].replace("T", " ")] if found.work.started else []
        facts += list(found.work.models[:4])
        return [one_line(self._text(fact), 200) for fact in facts if fact]

    def _head(self, turn: Turn, place: int) -> Row:
        work = turn.work
        facts = _did(turn)
        cost = self._costs.of(place)
        if tokens := self._costs.context_of(place):
            facts.append(f"context {in_short(tokens)}")
        bad = turn.outcome not in (None, "answered", "steered")
        head = self._templates.turn(
            name="Subagent" if turn.subagent else f"Turn {turn.name}",
            has_context=not turn.subagent,
            facts=[self._text(fact) for fact in facts],
            outcome=turn.outcome if bad else "",
            names=[self._text(name) for name in turn.names],
            cost=dollars(cost.dollars) if cost else "",
            cost_how=cost.how if cost else "",
        )
        gist = self._text(turn.prompt or turn.answer or "before the first prompt")
        return Row(rows.TURN, gist, head, time=work.started)

    def _agent_row(self, agent: Subagent) -> Row:
        work = agent.work
        facts = [_counted(sum(work.calls.values()), "call")] if work.calls else []
        facts += [f"{in_short(work.tokens)} tokens"] if work.tokens else []
        facts += [dollars(work.usage.cost)] if work.usage.cost else []
        name, task = self._text(agent.name), self._text(agent.task)
        head = self._templates.agent(
            name=name, task=task, facts=facts, missing=agent.missing, own=agent.own
        )
        return Row(rows.AGENT, f"{name}: {task}", head, time=work.started)

    def _turn(self, turn: Turn, first: int, end: int) -> list[Any]:
        """A turn as the page's script reads it."""
        return [
            turn.name,
            turn.above if turn.above is not None else -1,
            turn.fork,  # its number takes this place when all entries are known
            1 if turn.current else 0,
            1 if turn.subagent else 0,
            first,
            end,
            self._text(" · ".join(_did(turn))),
            [self._text(name) for name in turn.names],
        ]

    def _changed_files(self) -> list[Row]:
        made: list[Row] = []
        for file in self._changes.files.values():
            path = file.path.removeprefix((self._cwd or "").rstrip("/") + "/")
            did = [word if n == 1 else f"{word} {n:,} times" for word, n in file.did.items()]
            head = self._templates.file(
                path=one_line(path, 200), did=did, added=file.added, removed=file.removed
            )
            whole = file.diff()
            body = markup.diff(whole) if whole else Markup("")
            self._files[len(self._chunks) + len(made)] = file.rows
            made.append(Row(rows.FILE, path, head, body))
        return made

    def _overview(self) -> Row:
        title = self.title()
        found = self._outline
        closing = next((t.answer for t in reversed(found.turns) if t.current and t.answer), "")
        files = sorted(self._changes.files.values(), key=lambda f: -(f.added + f.removed))
        cwd = (self._cwd or "").rstrip("/") + "/"
        shown = [
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
            files=shown,
            more_files=max(0, len(files) - _FILES_IN_OVERVIEW),
            answer=markup.prose(self._text(closing).replace(LF_SHOWN, "\n")) if closing else "",
            warnings=self._all_warnings(),
        )
        return Row(rows.OVERVIEW, title, head)

    def _totals(self) -> list[str]:
        found, work = self._outline, self._outline.work
        prompts = sum(1 for t in found.turns if t.prompt is not None and not t.subagent)
        totals = [_counted(prompts, "prompt")]
        totals += [_counted(len(self._uuids), "entry", "entries")]
        calls = sorted(work.calls.items(), key=lambda call: -call[1])
        if calls:
            named = ", ".join(f"{self._text(name)} {n:,}" for name, n in calls[:8])
            totals.append(f"{_counted(sum(work.calls.values()), 'call')}: {named}")
        if work.failed:
            totals.append(f"{work.failed:,} failed")
        totals += [f"{_counted(len(self._changes.files), 'file')} changed"]
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
        places: list[int] = []
        for place, turn in enumerate(self._outline.turns):
            if turn.current and any(event.kind == "compaction" for event in turn.events):
                places.append(place)
        return places

    def _all_warnings(self) -> list[str]:
        damage = [
            f"line {one.line:,}, byte {one.offset:,}: {one.kind}: {one.cause}"
            for one in self._reader.damage
        ]
        found = list(dict.fromkeys([*damage, *self._warnings]))
        shown = [one_line(self._text(text), 300) for text in found[:_MOST_WARNINGS]]
        more = len(found) - len(shown)
        return [*shown, f"and {more:,} more"] if more > 0 else shown

    def index(self) -> dict[str, Any]:
        """What the script of the page reads first: all about the rows but what they show."""
        row_of = dict(zip(self._uuids, self._row_of, strict=True))
        number_of = {uuid: number for number, uuid in enumerate(self._uuids)}
        for turn in self._turns:
            turn[_FORK] = number_of.get(turn[_FORK], -1)
        contexts = contexts_of(self._cursor, self._outline, row_of)
        labels = self._reader.names().labels
        return {
            "at": "" if self._at is None else self._text(self._at.uuid),
            "kinds": "".join(self._kinds),
            "gists": self._gists,
            "times": differences(self._times),
            "uuids": "\n".join(self._text(uuid).replace("\n", " ") for uuid in self._uuids),
            "rowOf": differences(self._row_of),
            "endOf": differences(self._end_of),
            "turns": self._turns,
            "agents": self._agents_named(),
            "files": {str(row): found for row, found in self._files.items()},
            "labels": {self._text(uuid): self._label(label) for uuid, label in labels.items()},
            "contexts": {str(place): found for place, found in contexts.items()},
            "chunks": self._chunks.firsts,
            "here": -1 if self._outline.here is None else self._outline.here,
        }

    def _label(self, label: str) -> str:
        return one_line(self._text(label), 60)

    def _agents_named(self) -> dict[str, list[int]]:
        return {str(row): turns for row, turns in self._agents.items()}


def _rows_by_turn(tree: Any, found: SessionOutline) -> dict[int, list[int]]:
    """The rows of the index of each turn, in order; under -1 those above all turns.

    What hangs beside a turn, such as a label or a line of another program, is of the turn that it
    hangs at.
    """
    owner = array("i", [-1]) * len(tree)
    is_done = bytearray(len(tree))
    owned: dict[int, list[int]] = {place: [] for place in range(-1, len(found.turns))}
    for place, turn in enumerate(found.turns):
        first = tree.row(turn.uuid)
        path: list[int] = []
        for row in tree.rows_up(tree.row(turn.leaf)):
            if is_done[row]:
                break
            is_done[row] = 1
            owner[row] = place
            path.append(row)
            if row == first:
                break
        owned[place] = path[::-1]
    for row in range(len(tree)):
        if not is_done[row]:
            parent = tree.parents[row]
            owner[row] = owner[parent] if parent != NO_ROW else -1
            owned[owner[row]].append(row)
    if not tree.has_late_parents:
        for rows_of_turn in owned.values():
            rows_of_turn.sort()
    return owned


def _agents_by_caller(turn: Turn | None) -> dict[str, list[Subagent]]:
    found: dict[str, list[Subagent]] = {}
    for agent in () if turn is None else turn.subagents:
        found.setdefault(agent.caller or "", []).append(agent)
    return found


def _binary_of(entry: Entry) -> tuple[str | None, int]:
    """The media type and the size of the bytes that a handle stands for; None for a message."""
    text = entry.as_stored.get("handle")
    blob = blob_of(text)
    if blob is None or not isinstance(text, str):
        return None, 0
    try:
        media_type = base_type((Handle.parse(text).meta[2:3] or ("",))[0])
    except HandleError:
        return None, 0
    return (None, 0) if media_type.startswith("text/") else (media_type, blob.size)


def _did(turn: Turn) -> list[str]:
    """What was done in a turn, in words."""
    work = turn.work
    changed, read = len(work.changed), len(work.files) - len(work.changed)
    others = sum(work.calls.values())
    parts = [f"{_counted(others, 'call')}"] if others else []
    parts += [f"changed {_counted(changed, 'file')}"] if changed else []
    parts += [f"read {_counted(read, 'file')}"] if read > 0 else []
    parts += [f"{work.failed:,} failed"] if work.failed else []
    parts += [f"{work.refused:,} refused"] if work.refused else []
    parts += [f"{in_short(work.tokens)} tokens"] if work.tokens else []
    if work.seconds is not None and work.seconds >= 1:
        parts.append(lasting(work.seconds))
    return parts


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def differences(numbers: Sequence[int]) -> list[int]:
    """Numbers as their differences, which take less room."""
    before = 0
    found: list[int] = []
    for number in numbers:
        found.append(number - before)
        before = number
    return found


def shell(
    templates: Templates,
    title: str,
    facts: Sequence[str],
    *,
    data: str = "",
    source: str = "",
    scripts: Sequence[str] = (),
) -> str:
    """The page without its data.

    Args:
        templates: the templates.
        title: the title of the session.
        facts: what is shown until the rows are there.
        data: what stands in the place of the data.
        source: the address that gives the data; empty: it is in the page.
        scripts: more scripts, after that of the page.
    """
    script, style = "".join([asset("page.js"), *scripts]), asset("page.css")
    return templates.page(
        title=title,
        policy=policy(script, style, is_served=bool(source)),
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


def policy(script: str, style: str, *, is_served: bool = False) -> str:
    """The policy of a page: its own script and style, images inside, and its own server."""
    server = "connect-src 'self'; " if is_served else ""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; {server}"
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
