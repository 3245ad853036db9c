"""The namespace `session`: sessions are found, searched and read in short.

`session_care` and `session_intake` add the methods that change sessions and bring them in.
"""

from __future__ import annotations

import hashlib
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from sessiontree.agents import OWN, MakerName
from sessiontree.core.damage import in_short
from sessiontree.core.display import one_line
from sessiontree.core.entry import Entry, moment_given
from sessiontree.core.garbage import is_scratch
from sessiontree.core.message import Message
from sessiontree.core.usage import Usage
from sessiontree.errors import UsageError
from sessiontree.library.counts import AT_ONCE, Counter, with_branches, with_counts
from sessiontree.library.listing import SessionInfo
from sessiontree.library.one import facts_about, with_agent
from sessiontree.library.places import (
    Order,
    Selection,
    files_to_search,
    in_order,
    originals_first,
)
from sessiontree.library.root import cache_folder
from sessiontree.library.search import ROLES, SessionsOfHits, check_roles, search
from sessiontree.library.search_file import SearchHit, Wanted
from sessiontree.library.spending import By, CountedSession, spending_of, totals_of
from sessiontree.library.spending import SpendingSum as SpendingRow
from sessiontree.ops.budget import Page, Paged, beginning, page_of, size
from sessiontree.ops.guidance import Refusal
from sessiontree.ops.operation import Namespace
from sessiontree.ops.params import Call, OfSession, PagedOfSession
from sessiontree.ops.params import SessionName as Name
from sessiontree.ops.rows import WIDTH, TurnRow, Width, turn_rows
from sessiontree.session import Session
from sessiontree.text.pattern import query
from sessiontree.text.preview import is_unclear, speaker
from sessiontree.views.costs import load
from sessiontree.views.messages import is_typed, with_messages
from sessiontree.views.parts import text_of_entry
from sessiontree.views.turns import SessionOutline, Turn, outline, turns_named

SESSION: Final = Namespace(
    "session", "Sessions of sessiontree and of known agents: found, searched, read, brought in."
)

_TITLE: Final = 100
_HASH: Final = 12  # characters of the hash of a path or a uuid
_LONGEST_TEXT: Final = 2000
_MOST_DAMAGE: Final = 5

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]

Agents = Annotated[
    list[MakerName], Meta(description="Only sessions of these agents; by default of all.")
]
Project = Annotated[
    str | None,
    Meta(description="Only sessions of this working directory: its path, or the last part of it."),
]
Since = Annotated[
    str | None,
    Meta(
        description="Only what changed since: a date, a date and time, or how long ago.",
        examples=["7d", "12h", "2026-01-31"],
    ),
]


class Selected(Paged, kw_only=True):
    """Parameters of a method about some sessions."""

    agents: Agents = msgspec.field(default_factory=list)
    project: Project = None
    since: Since = None


def moment_of_parameter(name: str, text: str | None) -> datetime | None:
    """The time that a parameter names; None without one.

    Raises:
        Refusal: it is not a time.
    """
    if text is None:
        return None
    try:
        return moment_given(text, datetime.now(UTC))
    except UsageError as error:
        raise Refusal(
            f"{name}: {text!r:.60} is {error}",
            "bad_parameter",
            "Give a time such as 7d, 12h or 2026-01-31.",
        ) from None


def _selection(given: Selected) -> Selection:
    since = moment_of_parameter("since", given.since)
    return Selection(frozenset(given.agents), given.project, since)


def _sessions(call: Call, selection: Selection) -> list[SessionInfo]:
    found: list[SessionInfo] = []
    for one in call.scope.sessions(selection, call.warn):
        found.append(one)
        if not len(found) % 100:
            call.progress(f"Reading sessions: {len(found):,}")
    call.check()
    return found


class SessionList(Selected):
    order: Annotated[
        Order, Meta(description="By 'modified', 'created' or 'size', greatest first; or 'name'.")
    ] = "modified"
    limit: Annotated[Positive | None, Meta(description="At most so many sessions.")] = None
    branches: Annotated[
        bool, Meta(description="Also count the branches; this reads whole files.")
    ] = False


class SessionRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A session in short."""

    id: Annotated[str, Meta(description="Its id, by which other methods take it.")]
    title: Annotated[str, Meta(description="Its name, or the start of its first prompt.")] = ""
    agent: Annotated[str, Meta(description="The agent that held the conversation.")]
    cwd: Annotated[str | None, Meta(description="Its working directory.")] = None
    modified: Annotated[str, Meta(description="When its last entry was written.")]
    created: Annotated[str | None, Meta(description="When it was made.")] = None
    turns: Annotated[int | None, Meta(description="Its prompts; none: not counted yet.")] = None
    branches: Annotated[int | None, Meta(description="Its branches, if they are counted.")] = None
    model: Annotated[str | None, Meta(description="The model that was used last.")] = None
    cost: Annotated[float | None, Meta(description="Its reported cost in US dollars.")] = None
    bytes: Annotated[int, Meta(description="The size of its file.")]
    lane: Annotated[str | None, Meta(description="The lane of its last entry, if not main.")] = None
    copy_of: Annotated[str | None, Meta(description="The session that it is a copy of.")] = None
    imported_from: Annotated[str | None, Meta(description="The file it was imported from.")] = None
    writer: Annotated[str | None, Meta(description="The program that holds it to write.")] = None
    file: Annotated[
        str | None, Meta(description="Its file, if its id does not tell it from others.")
    ] = None


@SESSION.method("List sessions", core=True)
def list_(call: Call, given: SessionList) -> Page[SessionRow]:
    """List the sessions of the store and of known agents, those that changed last first.

    For turns, model and cost, whole files are read, a limited number of bytes in each call; the
    counts are kept, so the next call counts more.
    """
    selection = _selection(given)
    every = _sessions(call, Selection())
    found = in_order(filter(selection.takes, every), given.order)[: given.limit]
    if not found:
        call.tell_none(selection)
    ids = Tally(one.id for one in every)
    counts = _Counts(call, branches=given.branches)
    try:
        return page_of(
            found,
            given,
            lambda one: _hashed(one.file),
            lambda one: row_of_session(counts.of(one), is_alone=ids[one.id] == 1),
        )
    finally:
        counts.save()


class _Counts:
    """Counts sessions one by one, so many bytes in a call."""

    def __init__(self, call: Call, *, branches: bool) -> None:
        self._call = call
        self._branches = branches
        self._next: list[SessionInfo] = []
        self._counter = Counter(cache_folder(), call.warn)
        self._counted = self._counter.counted(iter(self._next.pop, None), AT_ONCE)

    def of(self, one: SessionInfo) -> SessionInfo:
        """A session with what is counted of it."""
        self._call.check()
        self._next.append(one)
        counted = with_counts(*next(self._counted))
        return with_branches(counted, self._call.warn) if self._branches else counted

    def save(self) -> None:
        """Keep what was counted, for the next call."""
        self._counter.save()


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:_HASH]


def row_of_session(one: SessionInfo, *, is_alone: bool) -> SessionRow:
    """A session as a row; `is_alone`: whether its id tells it from all others."""
    return SessionRow(
        id=one.id,
        title=_title(one),
        agent=one.made_by or OWN,
        cwd=one.cwd,
        modified=one.modified,
        created=one.created,
        turns=one.turns,
        branches=one.branches,
        model=one.model,
        cost=one.cost,
        bytes=one.bytes,
        lane=None if one.lane == "main" else one.lane,
        copy_of=one.copy_of,
        imported_from=one.imported_from,
        writer=one.writer,
        file=None if is_alone and one.id else one.file,
    )


def _title(one: SessionInfo) -> str:
    return one_line(one.name or one.first_message or "", _TITLE)


class Search(Selected):
    pattern: Annotated[
        str,
        Meta(
            min_length=1,
            description='Words that all have to be in an entry; words in "double quotes" are a '
            "phrase. Without a capital letter, case does not count.",
            examples=["retry backoff"],
        ),
    ]
    session: Annotated[Name | None, Meta(description="Only this session; by default all.")] = None
    regex: Annotated[
        bool, Meta(description="The pattern is a regular expression, as in Python.")
    ] = False
    ignore_case: Annotated[
        bool | None, Meta(description="Whether case does not count; by default the pattern tells.")
    ] = None
    roles: Annotated[
        list[str],
        Meta(description="Only entries of these roles: user, assistant, tool or prompt."),
    ] = msgspec.field(default_factory=list)
    tool: Annotated[str | None, Meta(description="Only the calls and results of this tool.")] = None
    current: Annotated[bool, Meta(description="Only entries on the current paths.")] = False
    everything: Annotated[
        bool, Meta(description="Also the entries that programs keep for themselves.")
    ] = False
    blobs: Annotated[bool, Meta(description="Also large texts, which are stored apart.")] = False


class Hit(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An entry that matches."""

    session: Annotated[str, Meta(description="The id of its session.")]
    title: Annotated[str, Meta(description="The name or the first prompt of the session.")] = ""
    agent: Annotated[str | None, Meta(description="The agent of the session.")] = None
    cwd: Annotated[str | None, Meta(description="Its working directory.")] = None
    turn: Annotated[
        int | None, Meta(description="The number of the turn, which `session.turn` reads.")
    ] = None
    entry: Annotated[str, Meta(description="The uuid of the entry, which `node.get` reads.")]
    role: Annotated[str | None, Meta(description="Who speaks; 'tool' for a result.")] = None
    time: Annotated[str | None, Meta(description="When it was written.")] = None
    tools: Annotated[list[str], Meta(description="The tools it calls, or has results of.")] = []
    lane: Annotated[str | None, Meta(description="Its lane; main if there is none.")] = None
    snippet: Annotated[
        str, Meta(description="The text around the first match, which stands between « and ».")
    ]


@SESSION.method("Search sessions", core=True)
def search_(call: Call, given: Search) -> Page[Hit]:
    """Find entries that contain all given words as they are spelled, the newest sessions first.

    Use one to three rare words, and read the hits with session.turn or node.get. Each entry is
    found once, with its first match. Refuses an empty pattern, and a regular
    expression that is none.
    """
    check_roles(given.roles)
    pattern = query(given.pattern, regex=given.regex, ignore_case=given.ignore_case)
    wanted = Wanted(
        roles=frozenset(given.roles),
        tool=given.tool,
        since=moment_of_parameter("since", given.since),
        current=given.current,
        blobs=given.blobs,
        facts=True,
        conversation=not given.everything,
    )
    files = _files(call, given)
    looked_at = list(_from(files, given.cursor))

    def each(number: int) -> None:
        call.progress("Searching sessions", number, len(looked_at))

    sessions = SessionsOfHits()
    searching = search(pattern, looked_at, wanted, call.warn, processes=None, each=each)
    with closing(searching) as hits:
        found = page_of(hits, given, _key_of_hit, lambda hit: _hit(hit, sessions))
    if not found.items:
        _tell_nothing(call, given, files)
    return found


def _files(call: Call, given: Search) -> Sequence[str]:
    if given.session is not None:
        return [call.file(given.session)]
    selection = Selection(frozenset(given.agents), given.project)
    return files_to_search(call.scope.places, selection, call.warn, call.scope.reaches)


def _from(files: Sequence[str], cursor: str | None) -> Iterable[str]:
    """The files from that of a cursor on: those before it were searched."""
    if cursor is not None:
        key = cursor.partition(":")[2].partition("/")[0]
        for number, file in enumerate(files):
            if _hashed(file) == key:
                return islice(files, number, None)
    return files


def _key_of_hit(hit: SearchHit) -> str:
    return f"{_hashed(hit.file)}/{_hashed(hit.ref)}"


def _hit(hit: SearchHit, sessions: SessionsOfHits) -> Hit:
    one = sessions.of(hit)
    start, end = hit.match
    snippet = f"{hit.snippet[:start]}«{hit.snippet[start:end]}»{hit.snippet[end:]}"
    return Hit(
        session=hit.session,
        title="" if one is None else _title(one),
        agent=None if one is None else one.made_by or OWN,
        cwd=None if one is None else one.cwd,
        turn=hit.turn,
        entry=hit.ref,
        role=hit.speaker or hit.role,
        time=hit.timestamp,
        tools=hit.tools,
        lane=hit.lane,
        snippet=snippet,
    )


def _tell_nothing(call: Call, given: Search, files: Sequence[str]) -> None:
    more = "" if given.blobs else "; `blobs` searches large texts, too"
    more += "" if given.everything else "; `everything` searches what programs keep for themselves"
    number = "1 session" if len(files) == 1 else f"{len(files):,} sessions"
    call.warn(f"Nothing matches in {number}{more}.")
    if own := [role for role in given.roles if role not in ROLES]:
        call.warn(f"{own[0]!r:.100} is not a known role; the known ones are {', '.join(ROLES)}.")


class Outline(PagedOfSession):
    first: Annotated[
        Count | None, Meta(description="The first turn of a range, which is given in order.")
    ] = None
    last: Annotated[Count | None, Meta(description="The last turn of a range.")] = None
    current: Annotated[bool, Meta(description="Only turns on the current path.")] = False
    subagents: Annotated[bool, Meta(description="Also the turns of subagents.")] = False
    width: Width = WIDTH


class Turns(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A session by its turns."""

    id: Annotated[str, Meta(description="The id of the session.")]
    title: Annotated[str, Meta(description="Its name, or its first prompt.")] = ""
    agent: Annotated[str | None, Meta(description="The agent that wrote it.")] = None
    cwd: Annotated[str | None, Meta(description="Its working directory.")] = None
    turns: Annotated[int, Meta(description="The number of its prompts.")]
    here: Annotated[str | None, Meta(description="The turn where the session is.")] = None
    tokens: Annotated[int, Meta(description="The tokens of all turns, without cached ones.")] = 0
    cost: Annotated[float | None, Meta(description="The reported cost of all turns.")] = None
    items: Annotated[list[TurnRow], Meta(description="Turns; without a range the last one first.")]
    more: Annotated[str | None, Meta(description="What is left out, and how to get it.")] = None
    cursor: Annotated[str | None, Meta(description="The cursor of the next turns.")] = None


@SESSION.method("Read the turns of a session", core=True)
def outline_(call: Call, given: Outline) -> Turns:
    """Read the turns of a session: each prompt, what was done, and how it ended.

    The last turns come first; with `first` or `last`, the turns of that range in order.
    """
    with call.reading(given.session) as session:
        found = _outline(call, session)
        title = found.name or next((turn.prompt for turn in found.turns if turn.prompt), None)
        made = Turns(
            id=found.id,
            title=one_line(title or "", _TITLE),
            agent=found.agent,
            cwd=found.cwd,
            turns=max((turn.number for turn in found.turns), default=0),
            here=None if found.here is None else found.turns[found.here].name,
            tokens=found.work.tokens,
            cost=found.work.usage.cost or None,
            items=[],
        )
        make = turn_rows(call, found.cwd, given.width)
        turns = _range(found, given)
        if not turns and (given.first is not None or given.last is not None):
            raise Refusal(
                f"no turn is in that range: the turns are 1 to {made.turns}",
                "no_such_ref",
                "Give a `first` and a `last` in that range, or none of them.",
            )
        page = page_of(turns, given, lambda turn: turn.uuid, make, size(made))
        made.items, made.more, made.cursor = page.items, page.more, page.cursor
        return made


def _outline(call: Call, session: Session) -> SessionOutline:
    def shown(done: int, size: int) -> None:
        call.progress("Reading the session", done, size)

    return with_agent(outline(session.cursor, shown), session)


def _range(found: SessionOutline, given: Outline) -> Sequence[Turn]:
    first, last = given.first or 0, given.last
    turns = [
        turn
        for turn in found.turns
        if (given.subagents or not turn.subagent)
        and (turn.current or not given.current)
        and first <= turn.number
        and (last is None or turn.number <= last)
    ]
    return turns if given.first is not None or last is not None else turns[::-1]


class OneTurn(PagedOfSession):
    turn: Annotated[
        str | int,
        Meta(
            description="The number of the turn, such as 3 or '3.1', or an entry of it.",
            examples=["1"],
        ),
    ]
    longest: Annotated[int, Meta(ge=0, description="The characters of each text; 0: no limit.")] = (
        _LONGEST_TEXT
    )


class Said(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An entry of a turn."""

    uuid: Annotated[str, Meta(description="The uuid of the entry.")]
    role: Annotated[str, Meta(description="Who speaks, or the type of the entry.")]
    text: Annotated[str, Meta(description="What it says, with calls and results in short.")]
    left_out: Annotated[
        int, Meta(description="The characters that are left out; `node.get` reads the entry.")
    ] = 0


class WholeTurn(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A turn, entry by entry."""

    turns: Annotated[
        list[TurnRow], Meta(description="The turn in short, and each further try of it.")
    ]
    items: Annotated[list[Said], Meta(description="The entries in order, the prompt first.")]
    more: Annotated[str | None, Meta(description="What is left out, and how to get it.")] = None
    cursor: Annotated[str | None, Meta(description="The cursor of the next entries.")] = None


@SESSION.method("Read one turn", core=True)
def turn(call: Call, given: OneTurn) -> WholeTurn:
    """Read one turn: the prompt, and each answer, call and result until the next prompt.

    Refuses a number that the session does not have.
    """
    with call.reading(given.session) as session:
        found = _outline(call, session)
        named = [each for _, each in turns_named(session.cursor, found, str(given.turn))]
        make = turn_rows(call, found.cwd, WIDTH)
        made = WholeTurn(turns=[make(each) for each in named], items=[])
        page = page_of(
            _entries(call, session, named),
            given,
            lambda each: each[0].uuid,
            lambda each: _said(call, *each, given.longest),
            size(made),
        )
        made.items, made.more, made.cursor = page.items, page.more, page.cursor
        return made


def _entries(
    call: Call, session: Session, turns: Sequence[Turn]
) -> Iterator[tuple[Entry, Message | None]]:
    """The entries of turns that say something, with the messages behind their handles."""
    for each in turns:
        entries = session.turn(each)
        for entry, message in with_messages(entries, session.cursor.messages, is_wanted=is_unclear):
            call.check()
            if entry.is_content or is_typed(entry):
                yield entry, message


def _said(call: Call, entry: Entry, message: Message | None, longest: int) -> Said:
    text: str = call.mask(text_of_entry(entry, message))
    shown = beginning(text, longest) if longest else text
    return Said(
        uuid=entry.uuid,
        role=speaker(entry, message) or entry.type,
        text=shown,
        left_out=len(text) - len(shown),
    )


class SessionStats(OfSession):
    """Parameters of `session.stats`."""


class SpentTokens(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Tokens and their cost."""

    input: Annotated[int, Meta(description="Tokens read, without cached ones.")] = 0
    output: Annotated[int, Meta(description="Tokens written.")] = 0
    cache_read: Annotated[int, Meta(description="Tokens read from a cache.")] = 0
    cache_write: Annotated[int, Meta(description="Tokens written to a cache.")] = 0
    cost: Annotated[float | None, Meta(description="The reported cost in US dollars.")] = None


def _spent(usage: Usage) -> SpentTokens:
    return SpentTokens(**{**msgspec.structs.asdict(usage), "cost": usage.cost or None})


class Numbers(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A session in numbers."""

    entries: Annotated[int, Meta(description="Its entries, with the header.")]
    types: Annotated[dict[str, int], Meta(description="The entries of each type.")]
    branches: Annotated[int, Meta(description="Its branches.")]
    lanes: Annotated[dict[str, int], Meta(description="The entries on each lane.")]
    scratch: Annotated[int, Meta(description="The entries on scratch lanes, of all together.")] = 0
    bytes: Annotated[int, Meta(description="The size of its file.")]
    blobs: Annotated[int, Meta(description="The number of its blobs.")] = 0
    blob_bytes: Annotated[int, Meta(description="Their size.")] = 0
    lost_blobs: Annotated[int, Meta(description="Blobs that are missing or cut.")] = 0
    usage: Annotated[SpentTokens, Meta(description="The tokens and the cost of all answers.")]
    models: Annotated[dict[str, SpentTokens], Meta(description="Those of each model.")] = {}


@SESSION.method("Count one session")
def stats(call: Call, given: SessionStats) -> Numbers:
    """Count the entries, branches, bytes, tokens and costs of one session."""
    with call.reading(given.session) as session:
        found = session.stats()
        return Numbers(
            entries=found.entries,
            types=found.types,
            branches=found.branches,
            lanes={name: count for name, count in found.lanes.items() if not is_scratch(name)},
            scratch=sum(count for name, count in found.lanes.items() if is_scratch(name)),
            bytes=found.file_bytes,
            blobs=found.blobs,
            blob_bytes=found.blob_bytes,
            lost_blobs=found.lost_blobs,
            usage=_spent(found.usage),
            models={name: _spent(usage) for name, usage in found.models.items()},
        )


class SessionTotals(Selected):
    by: Annotated[
        Literal["agent", "day", "project", "model"],
        Meta(
            description="What each row is about. By day, project or model, costs that were not "
            "reported are estimated."
        ),
    ] = "agent"


class TotalRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The sums of some answers."""

    name: Annotated[str | None, Meta(description="The agent, day, project or model.")] = None
    sessions: Annotated[int, Meta(description="The number of sessions.")]
    turns: Annotated[int | None, Meta(description="The number of prompts.")] = None
    bytes: Annotated[int | None, Meta(description="The size of the files.")] = None
    usage: Annotated[SpentTokens, Meta(description="The tokens, and the reported cost.")]
    estimated: Annotated[
        float | None, Meta(description="The cost at list prices, where none was reported.")
    ] = None
    unpriced: Annotated[int, Meta(description="Answers without any known cost.")] = 0


class SessionSums(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What many sessions add up to."""

    total: Annotated[TotalRow, Meta(description="The sums of all.")]
    copies: Annotated[int, Meta(description="Answers in several sessions; each counts once.")] = 0
    not_counted: Annotated[int, Meta(description="Sessions that could not be counted.")] = 0
    items: Annotated[list[TotalRow], Meta(description="A row for each; the greatest first.")]
    more: Annotated[str | None, Meta(description="What is left out, and how to get it.")] = None
    cursor: Annotated[str | None, Meta(description="The cursor of the next rows.")] = None


@SESSION.method("Add up many sessions")
def totals(call: Call, given: SessionTotals) -> SessionSums:
    """Add up the turns, tokens and costs of many sessions, by agent, day, project or model.

    An answer that several sessions have counts once.
    """
    selection = _selection(given)
    found = originals_first(_sessions(call, selection))
    if not found:
        call.tell_none(selection)
    made, rows = (
        _by_agent(call, found)
        if given.by == "agent"
        else _by(call, found, given.by, selection.since)
    )
    page = page_of(rows, given, lambda row: row.name or "", lambda row: row, size(made))
    made.items, made.more, made.cursor = page.items, page.more, page.cursor
    return made


def _counted(call: Call, found: Sequence[SessionInfo]) -> Iterator[CountedSession]:
    counter = Counter(cache_folder(), call.warn)
    try:
        for number, each in enumerate(counter.counted(found, None)):
            call.progress("Counting sessions", number, len(found))
            yield each
    finally:
        counter.save()


def _by_agent(call: Call, found: Sequence[SessionInfo]) -> tuple[SessionSums, list[TotalRow]]:
    total, agents = totals_of(_counted(call, found))
    rows = [
        TotalRow(
            name=name,
            sessions=sums.sessions,
            turns=sums.turns,
            bytes=sums.bytes,
            usage=_spent(sums.usage),
        )
        for name, sums in [("", total), *agents.items()]
    ]
    rows[0].name = None
    made = SessionSums(total=rows[0], copies=total.copies, not_counted=total.not_counted, items=[])
    return made, rows[1:]


def _by(
    call: Call, found: Sequence[SessionInfo], by: By, since: datetime | None
) -> tuple[SessionSums, list[TotalRow]]:
    made = spending_of(_counted(call, found), by, load(), call.warn, since=since)
    rows = [_total_row(name, row) for name, row in made.rows.items()]
    if by == "day":
        rows.reverse()
    return SessionSums(total=_total_row(None, made.total), copies=made.copies, items=[]), rows


def _total_row(name: str | None, row: SpendingRow) -> TotalRow:
    return TotalRow(
        name=name,
        sessions=row.sessions,
        usage=_spent(row.usage),
        estimated=row.estimated or None,
        unpriced=row.unpriced,
    )


class Show(OfSession):
    """Parameters of `session.show`."""


class Facts(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The facts about a session."""

    file: Annotated[str | None, Meta(description="The path of its file.")] = None
    id: Annotated[str, Meta(description="Its id.")]
    name: Annotated[str | None, Meta(description="Its name.")] = None
    cwd: Annotated[Any, Meta(description="Its working directory.")] = None
    created: Annotated[str | None, Meta(description="When it was made.")] = None
    entries: Annotated[int, Meta(description="Its entries, with the header.")]
    branches: Annotated[int, Meta(description="Its branches; `branch.list` lists them.")]
    lanes: Annotated[int, Meta(description="Its lanes; `branch.lanes` lists them.")]
    leaf: Annotated[str, Meta(description="Its leaf.")]
    model: Annotated[Any, Meta(description="The model at the leaf.")] = None
    agent_session: Annotated[Any, Meta(description="The agent's own id of the session.")] = None
    parent_session: Annotated[Any, Meta(description="The session that it is a copy of.")] = None
    damage: Annotated[
        list[dict[str, Any]], Meta(description="What is damaged; `health.check` tells all.")
    ] = []
    notes: Annotated[str, Meta(description="Lines of types that are not known.")] = ""
    metadata: Annotated[dict[str, Any], Meta(description="Its metadata.")] = {}


@SESSION.method("Show the facts of a session")
def show(call: Call, given: Show) -> Facts:
    """Show the facts of a session: its name, file, leaf, model, metadata, and what is damaged."""
    with call.reading(given.session) as session:
        found = facts_about(session, call.warn)
        return Facts(
            file=found.file,
            id=found.id,
            name=found.name,
            cwd=found.cwd,
            created=found.created,
            entries=found.entries,
            branches=found.branches,
            lanes=len(found.lanes),
            leaf=found.leaf,
            model=found.model,
            agent_session=found.agent_session,
            parent_session=found.parent_session,
            damage=list(found.damage[:_MOST_DAMAGE]),
            notes=in_short(found.notes),
            metadata=found.metadata,
        )
