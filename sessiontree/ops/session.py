"""The namespace `session`: sessions are found, searched and read in short.

`session_care` and `session_intake` add the methods that change sessions and bring them in.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter as Tally
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from sessiontree.agents import OWN, MakerName
from sessiontree.core.display import in_quotes, one_line
from sessiontree.core.entry import moment_given
from sessiontree.core.garbage import is_scratch
from sessiontree.core.paths import PathRule, PathRules, is_of_windows
from sessiontree.core.usage import FileCounts, Usage
from sessiontree.errors import NothingToDoError, SessionTreeError, UsageError
from sessiontree.library.conversations import conversations, originals_first
from sessiontree.library.counts import (
    AT_ONCE,
    BY,
    PERIODS,
    By,
    CountCache,
    with_branches,
)
from sessiontree.library.hidden import hidden_ids
from sessiontree.library.listing import SessionInfo
from sessiontree.library.path_rules import move_folder, path_rules
from sessiontree.library.places import (
    ORDERS,
    Order,
    Selection,
    conversations_in,
    files_to_search,
    in_order,
    is_folder,
    sessions_in,
)
from sessiontree.library.root import cache_folder
from sessiontree.library.search import SessionsOfHits, check_roles, search, unknown_role
from sessiontree.library.search_file import SearchFilter, SearchHit, marked
from sessiontree.library.trash import RemovedSession
from sessiontree.operations.workers import Each, nothing
from sessiontree.ops.budget import Budgeted, Page, Paged, page_of, short_list, size
from sessiontree.ops.field import arg, only_for_people, opt
from sessiontree.ops.guidance import CHANGE, Refusal
from sessiontree.ops.operation import SESSION
from sessiontree.ops.params import FORMS_OF_TIME, Call, NameOfOne, NoPager, OfSession
from sessiontree.text.amounts import counted
from sessiontree.text.pattern import AllOf, Pattern, query

if TYPE_CHECKING:
    from sessiontree.importing.acp_client import AcpSession

if TYPE_CHECKING:  # a list of sessions starts without them
    from sessiontree.library.spending import Spending, SpendingSum, Totals
    from sessiontree.views.costs import Prices, Stats

_TITLE: Final = 100
_HASH: Final = 12  # characters of the hash of a path or a uuid
_LONGEST_TEXT: Final = 2000
_MAX_DAMAGE: Final = 5
_LONGEST_PATH: Final = 1000

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]

Agents = Annotated[list[MakerName], opt("--agent", help="Only sessions of these agents.")]
Project = Annotated[
    str | None,
    opt(
        "--cwd",
        "--project",
        metavar="DIR",
        kind="project",
        help="Only sessions of this directory or below it: a path, or a name in it.",
    ),
]


def time_option(option: str, help: str) -> Meta:
    """Describe a parameter that is a time, for people as the value of an option."""
    text = f"{help}: {FORMS_OF_TIME}"
    return opt(option, metavar="TIME", kind="time", help=text, examples=["7d", "2026-01-31"])


Since = Annotated[str | None, time_option("--since", "Only what changed since")]
Places = Annotated[
    list[str],
    arg("[DIR|FILE]…", kind="session", help="Where to look; by default in all sessions."),
    only_for_people,
]


class Selected(Paged, kw_only=True):
    """Parameters of a method about some sessions."""

    agents: Agents = msgspec.field(default_factory=list)
    project: Project = None
    since: Since = None


def moment_of_parameter(name: str, text: Any) -> datetime | None:
    """The time that a parameter names, which a command gives as such; None without one.

    Raises:
        Refusal: it is not a time.
    """
    if text is None or isinstance(text, datetime):
        return text
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


def _sessions(call: Call, places: Sequence[str], selection: Selection) -> list[SessionInfo]:
    """The selected conversations, a row each."""
    found: list[SessionInfo] = []
    for one in sessions_in(places, call.leave_out, call.reaches):
        found.append(one)
        if not len(found) % 100:
            call.progress(f"Reading sessions: {len(found):,}")
    call.check()
    return list(filter(selection.takes, conversations(found)))


class SessionList(Selected):
    places: Places = msgspec.field(default_factory=list)
    all: Annotated[
        bool,
        opt("--all", help="List the sessions of all working directories; this is the default."),
        only_for_people,
    ] = False
    order: Annotated[
        Order,
        opt(
            "--sort",
            help="'modified' (default), 'created' or 'size', greatest first; or 'name'.",
            choices=ORDERS,
        ),
    ] = "modified"
    limit: Annotated[
        Positive | None, opt("--limit", metavar="N", help="At most so many sessions.")
    ] = None
    hidden: Annotated[
        bool,
        opt("--hidden", help="List only sessions that 'hide' took off."),
        only_for_people,
    ] = False
    branches: Annotated[
        bool, opt("--branches", help="Also count the branches; this reads whole files.")
    ] = False
    acp: Annotated[
        str | None,
        opt(
            "--acp",
            metavar="COMMAND",
            help="List the sessions of the agent that COMMAND starts, by its protocol (ACP).",
        ),
        only_for_people,
    ] = None
    no_pager: NoPager = False


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
    cost: Annotated[float | None, Meta(description="Reported cost in US dollars.")] = None
    estimated: Annotated[float | None, Meta(description="Estimated rest.")] = None
    bytes: Annotated[int, Meta(description="The size of its file.")]
    lane: Annotated[str | None, Meta(description="The lane of its last entry, if not main.")] = None
    copy_of: Annotated[str | None, Meta(description="What it was forked from.")] = None
    imported_from: Annotated[str | None, Meta(description="The file it was imported from.")] = None
    writer: Annotated[str | None, Meta(description="Who holds it to write.")] = None
    file: Annotated[str | None, Meta(description="Its file, if its id is not enough.")] = None


class SessionsFound(NamedTuple):
    """The sessions of a list, for people with what is counted of them."""

    found: list[SessionInfo]
    every: list[SessionInfo]
    """All sessions there, among which each is told from the others."""


class AcpListing(NamedTuple):
    """The sessions that an agent lists by its protocol."""

    agent: str
    sessions: list[AcpSession]


def _page_of_sessions(call: Call, given: SessionList, listed: SessionsFound) -> Page[SessionRow]:
    ids = Tally(one.id for one in listed.every)
    with closing(_Counts(call)) as counts:
        return page_of(
            listed.found,
            given,
            lambda one: _hashed(one.file),
            lambda one: row_of_session(
                _row(call, given, counts, counts.of(one)), is_alone=ids[one.id] == 1
            ),
        )


@SESSION.method("List sessions", core=True, json="a list of the sessions", answer=_page_of_sessions)
def list_(call: Call, given: SessionList) -> SessionsFound | AcpListing:
    """List the sessions of the store and of agents, the last changed first.

    Turns, model and cost need whole files, of which each call reads some bytes more.
    \f
    Without DIR and FILE, 'ls' lists all sessions that it finds: those in the store, and those of
    the agents that '--agent' names, where these agents keep them. Their own variables, such as
    CLAUDE_CONFIG_DIR and CODEX_HOME, name other places. Each may name several homes, with commas
    between: CLAUDE_CONFIG_DIR=~/.claude,~/.claude-work. 'resume'
    writes a new file into the first. The store is what --store names; else what the variable
    SESSIONTREE_STORE names, a folder or an address such as postgresql://HOST/DB or
    s3://BUCKET/PREFIX; else the folder that the variable SESSIONTREE_HOME names; else the folder
    'sessiontree' in your data folder (on Linux: ~/.local/share).

    With DIR, 'ls' lists all sessions in DIR and in the folders below DIR, hidden folders included:
    the files *.jsonl and *.jsonl.zst, the files session-*.json of older versions of Gemini CLI, and
    the trajectories *trajectory.json and trajectory.*.json.
    It follows links to folders only where agents keep their sessions, and does not enter .git,
    node_modules, site-packages, caches and the trash. With FILE, 'ls' lists this session, and its
    row has the name of the file. You can give more than one DIR or FILE.

    For each id, 'ls' shows the shortest start that belongs to one session only, of at least 8
    characters. Every command that takes an id takes this start.

    A conversation is one row, whatever copies of it there are: imports, files converted for other
    agents, copies of a sync program. The row is the copy with the latest activity, and says where
    the others are. A label or a name makes no copy newer.

    'hide' takes a session off the list, and --hidden lists the hidden sessions.

    On a terminal, each session is one row. The columns that do not fit are left out: first the
    size, then the cost, the model, the turns, the project and the id. The cost is the cost that the
    agent reported, and else an estimate at list prices, marked '~$'.

    To find the turns, the model and the cost, 'ls' reads whole files, at most 24 MB each time you
    run it, from the top of the list. A '?' marks turns that are not counted yet. Run 'ls' again to
    count more, or run 'stats' to count all. The counts are kept in your cache folder.

    For the other facts, 'ls' reads only the start and the end of each file. If the name of a
    session is in the middle of a large file, 'ls' may not show the name; 'show' always shows it.

    With --acp, 'ls' starts the agent, asks for its sessions by the Agent Client Protocol, and ends
    it: for agents whose files sessiontree does not read. 'import --acp' imports them.
    """
    if given.acp is not None:
        from sessiontree.importing.acp_client import AcpAgent  # few lists ask an agent

        with AcpAgent(given.acp) as agent:
            return AcpListing(agent.name, agent.sessions())
    selection, places = _selection(given), call.places(given.places)
    every = _sessions(call, places, Selection())
    ids = hidden_ids()
    listed = (one for one in every if (one.id in ids) is given.hidden and selection.takes(one))
    found = in_order(listed, given.order)[: given.limit]
    if not found:
        call.tell_none(selection, places)
    if not call.rows:
        with closing(_Counts(call)) as counts:
            found = [_row(call, given, counts, each) for each in counts.each(found)]
    return SessionsFound(found, every)


def _row(
    call: Call, given: SessionList, counts: _Counts, each: tuple[SessionInfo, FileCounts | None]
) -> SessionInfo:
    one = counts.row(*each)
    return with_branches(one, call.leave_out) if given.branches else one


class _Counts:
    """Counts sessions one by one, so many bytes in a call."""

    def __init__(self, call: Call, at_once: int | None = AT_ONCE) -> None:
        self._call = call
        self._next: list[SessionInfo] = []
        self._counter = CountCache(cache_folder(), call.leave_out)
        self._counted = self._counter.counted(iter(self._next.pop, None), at_once)

    def of(self, one: SessionInfo) -> tuple[SessionInfo, FileCounts | None]:
        """A session, and what is counted of it."""
        self._call.check()
        self._next.append(one)
        return next(self._counted)

    def each(self, found: Sequence[SessionInfo]) -> Iterator[tuple[SessionInfo, FileCounts | None]]:
        """The same for each of all."""
        for number, one in enumerate(found):
            self._call.progress("Counting sessions", number, len(found))
            yield self.of(one)

    def row(self, one: SessionInfo, counts: FileCounts | None) -> SessionInfo:
        """The facts of a conversation with its counts; see `spending.row_of`."""
        if not one.copies:
            return self._counter.row(one, counts)
        from sessiontree.library.spending import row_of  # most conversations have one file

        return row_of(self._counter, one, counts)

    def close(self) -> None:
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
        estimated=one.estimated,
        bytes=one.bytes,
        lane=None if one.lane == "main" else one.lane,
        copy_of=one.copy_of,
        imported_from=one.imported_from,
        writer=one.writer,
        file=None if is_alone and one.id else one.file,
    )


def _title(one: SessionInfo) -> str:
    return one_line(one.title or "", _TITLE)


class Search(Selected):
    pattern: Annotated[
        str,
        arg(
            "PATTERN",
            help='Words that all have to be in an entry; words in "double quotes" are a phrase. '
            "Without a capital letter, case does not count.",
            min_length=1,
            examples=["retry backoff"],
        ),
    ]
    places: Places = msgspec.field(default_factory=list)
    session: Annotated[NameOfOne | None, Meta(description="Only this session; by default all.")] = (
        None
    )
    regex: Annotated[
        bool, opt("--regex", help="The pattern is a regular expression, as in Python.")
    ] = False
    ignore_case: Annotated[
        bool | None,
        opt(
            *("--ignore-case", "-i"),
            help="Do not distinguish A and a; by default the pattern tells.",
        ),
    ] = None
    case_sensitive: Annotated[
        bool,
        opt("--case-sensitive", "-s", help="Distinguish A and a, and accents."),
        only_for_people,
    ] = False
    roles: Annotated[
        list[str],
        opt(
            "--role",
            metavar="ROLE",
            help="Only these roles: user, assistant, tool (results) or prompt "
            "(what the user typed).",
        ),
    ] = msgspec.field(default_factory=list)
    tool: Annotated[
        str | None,
        opt(
            "--tool",
            metavar="NAME",
            help="Only the calls and results of this tool; case does not count.",
        ),
    ] = None
    current: Annotated[bool, opt("--current", help="Only entries on the current paths.")] = False
    everything: Annotated[
        bool,
        opt(
            "--everything",
            help="Also entries in which programs keep their own data, such as requests.",
        ),
    ] = False
    blobs: Annotated[
        bool, opt("--blobs", help="Also large texts, stored as blobs; of a named FILE always.")
    ] = False
    limit: Annotated[
        Positive | None,
        opt("--limit", metavar="N", help="Stop after so many entries."),
        only_for_people,
    ] = None
    no_pager: NoPager = False


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
        str, Meta(description="The text around the words; « and » enclose each of them.")
    ]


class SearchedFiles(NamedTuple):
    """A search, which goes on as its hits are taken."""

    call: Call
    given: Search
    pattern: Pattern | AllOf
    rows: Mapping[str, SessionInfo | None]  # of each file its conversation; None: named by path
    places: Sequence[str]
    selection: Selection

    @property
    def files(self) -> list[str]:
        """The files that are searched, the one with the latest activity first."""
        return [*self.rows]

    @property
    def sessions(self) -> SessionsOfHits:
        """The facts of the sessions that hits are in."""
        return SessionsOfHits(self.rows)

    @property
    def has_large_texts(self) -> bool:
        """True if blobs are searched: of named sessions always, whose imports may be meant."""
        is_any = bool(self.given.session or self.given.places)
        return self.given.blobs or (is_any and not any(map(is_folder, self.places)))

    def hits(
        self,
        files: Sequence[str],
        each: Each = nothing,
        *,
        facts: bool = True,
        limit: int | None = None,
    ) -> Generator[SearchHit, None, None]:
        """Some of the hits in some files; `each` is called with the number of each file."""
        given = self.given
        wanted = SearchFilter(
            roles=frozenset(given.roles),
            tool=given.tool,
            since=moment_of_parameter("since", given.since),
            current=given.current,
            blobs=self.has_large_texts,
            facts=facts,
            conversation=not given.everything,
        )
        return search(
            self.pattern,
            files,
            wanted,
            self.call.leave_out,
            limit=limit,
            processes=None,
            each=each,
            rows=self.rows,
        )


def _page_of_hits(call: Call, given: Search, found: SearchedFiles) -> Page[Hit]:
    looked_at = list(_from(found.files, given.cursor))

    def each(number: int) -> None:
        call.progress("Searching sessions", number, len(looked_at))

    sessions = found.sessions
    with closing(found.hits(looked_at, each)) as hits:
        page = page_of(hits, given, _key_of_hit, lambda hit: _hit(hit, sessions))
    if not page.items:
        _tell_nothing(call, given, found.files)
    return page


@SESSION.method(
    "Search sessions", core=True, json="a list of the entries found", answer=_page_of_hits
)
def search_(call: Call, given: Search) -> SearchedFiles:
    """Find entries that contain all given words, the newest sessions first.

    Use one to three rare words, and read the hits with session.turn or node.get. Each entry is
    found once, with its first match.
    \f
    The command searches the sessions in DIR, or the session FILE. You can give more than one DIR
    or FILE. Without DIR and FILE, it searches all sessions that 'sessiontree ls' lists, newest
    first.

    If PATTERN has several words, the command finds the entries that contain all these words. Words
    in "double quotes" are a phrase. If PATTERN has no capital letter, A and a are the same,
    except with --regex.

    The command searches messages, thinking, tool calls, tool results, summaries, names and labels.
    It does not search types, roles, ids or images. Accents and the width of letters do not matter,
    except with -s and --regex. The exit code is 0 even if nothing is found.

    A terminal shows three entries of each session, prompts and answers before results of tools. To
    see all entries of one session, give its id. A pipe and --json get all entries.
    """
    if given.ignore_case and given.case_sensitive:
        next = "Give `ignore_case` or `case_sensitive`, not both."
        raise Refusal("case counts, or it does not", "bad_value", next)
    ignore_case = False if given.case_sensitive else given.ignore_case
    try:
        check_roles(given.roles)
        pattern = query(given.pattern, regex=given.regex, ignore_case=ignore_case)
    except UsageError as error:
        raise Refusal(str(error), "bad_value", CHANGE) from None
    selection = Selection(frozenset(given.agents), given.project)
    if given.session is not None:
        places = [call.file(given.session)]
        rows: Mapping[str, SessionInfo | None] = {places[0]: call.row(given.session)}
    else:
        places = call.places(given.places)
        rows = files_to_search(places, selection, call.leave_out, call.reaches)
        named = {place: call.row(place) for place in places if place in rows}
        rows |= {file: row for file, row in named.items() if row is not None}
    return SearchedFiles(call, given, pattern, rows, places, selection)


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
        snippet=marked(hit.snippet, hit.matches, "«{}»".format),
    )


def _tell_nothing(call: Call, given: Search, files: Sequence[str]) -> None:
    more = "" if given.blobs else "; `blobs` searches large texts, too"
    more += "" if given.everything else "; `everything` searches what programs keep for themselves"
    number = "1 session" if len(files) == 1 else f"{len(files):,} sessions"
    call.warn(f"Nothing matches in {number}{more}.")
    if unknown := unknown_role(given.roles):
        call.warn(unknown)


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


def _numbers(call: Call, given: SessionStats, found: Stats) -> Numbers:
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


@SESSION.method("Count one session", answer=_numbers)
def stats(call: Call, given: SessionStats) -> Stats:
    """Count the entries, branches, bytes, tokens and costs of one session."""
    from sessiontree.library.spending import numbers_of  # a list of sessions adds up nothing

    return numbers_of(call.row(given.session), call.open(given.session).stats())


class SessionTotals(Selected):
    places: Places = msgspec.field(default_factory=list)
    by: Annotated[
        By | None,
        opt(
            "--by",
            choices=BY,
            help="What each row is about: it has the reported costs, and estimates of others. By "
            "default the turns and bytes of each agent are added up, too.",
        ),
    ] = None
    list_prices: Annotated[
        bool,
        opt("--list-prices", help="With --by, price each answer. Reported costs do not count."),
        only_for_people,
    ] = False
    since: Annotated[
        str | None,
        time_option(
            "--since",
            "Only what was spent since, in sessions that changed since; their turns and bytes "
            "count as a whole",
        ),
    ] = None
    no_pager: NoPager = False


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


class SumsOfAgents(NamedTuple):
    """The sums of sessions that were counted before, or are now."""

    total: Totals
    agents: dict[str, Totals]


class SumsByCost(NamedTuple):
    """What sessions cost, and how it was added up."""

    made: Spending
    by: By
    prices: Prices | None
    is_any: bool
    """Whether any session was added up."""


def _sums(
    call: Call, given: SessionTotals, found: SumsOfAgents | SumsByCost | Stats
) -> SessionSums:
    if isinstance(found, SumsOfAgents):
        total = found.total
        made = SessionSums(
            total=_agent_row(None, total),
            copies=total.copies,
            not_counted=total.not_counted,
            items=[],
        )
        rows = [_agent_row(name, sums) for name, sums in found.agents.items()]
    else:
        assert isinstance(found, SumsByCost)
        spent = found.made
        made = SessionSums(total=_total_row(None, spent.total), copies=spent.copies, items=[])
        rows = [_total_row(name, row) for name, row in spent.rows.items()]
        if found.by in PERIODS:
            rows.reverse()
    page = page_of(rows, given, lambda row: row.name or "", lambda row: row, size(made))
    made.items, made.more, made.cursor = page.items, page.more, page.cursor
    return made


def _agent_row(name: str | None, sums: Totals) -> TotalRow:
    return TotalRow(
        name=name,
        sessions=sums.sessions,
        turns=sums.turns,
        bytes=sums.bytes,
        usage=_spent(sums.usage),
    )


@SESSION.method("Add up many sessions", json="the numbers", answer=_sums)
def totals(call: Call, given: SessionTotals) -> SumsOfAgents | SumsByCost | Stats:
    """Add up the turns, tokens and costs of many sessions, by agent, period, project or model.

    An answer that several sessions have counts once.
    \f
    With one FILE, the command counts this session. With DIR, or more than one FILE, it adds up
    each FILE and the sessions in DIR and in the folders below DIR. Without FILE and DIR, it adds up
    all sessions that 'sessiontree ls' lists.

    The cost is the cost that the agents reported, and an estimate of the other answers at the list
    prices of their providers. If a fork, an import or a converted file has a
    copy of an answer, the answer counts once. The turns of a conversation count once, and again in
    its forks. The counts of many sessions are kept in your cache folder, so the next run counts
    only new and changed sessions.

    With --by, the command also estimates the cost of each answer without a reported cost, at the
    list price of the provider. The package genai-prices has the prices (pip install
    'sessiontree[prices]') and needs no network. Reported and estimated costs are separate columns.
    """
    from sessiontree.library.spending import spending_of, totals_of
    from sessiontree.views.costs import load  # a list of sessions adds up nothing

    selection, named = _selection(given), given.places
    if given.list_prices and given.by is None:
        next = "`list_prices` needs `by`, for example `by` model."
        raise Refusal("list prices are for sums by something", "bad_value", next)
    if given.by is None and len(named) == 1 and selection.is_all and not is_folder(named[0]):
        return stats(call, SessionStats(session=named[0]))
    places = call.places(named)
    found = originals_first(_sessions(call, places, selection))
    if not found:
        call.tell_none(selection, places)
    with closing(_Counts(call, None)) as counts:
        if given.by is None:
            return SumsOfAgents(*totals_of(counts.each(found), load(), selection.since))
        made = spending_of(
            counts.each(found),
            given.by,
            prices := load(),
            call.leave_out,
            since=selection.since,
            is_listed=given.list_prices,
        )
    return SumsByCost(made, given.by, prices, bool(found))


def _total_row(name: str | None, row: SpendingSum) -> TotalRow:
    return TotalRow(
        name=name,
        sessions=row.sessions,
        usage=_spent(row.usage),
        estimated=row.estimated or None,
        unpriced=row.unpriced,
    )


class Rename(OfSession):
    name: Annotated[str, arg("NAME", help="The new name, on one line.")]


class Noted(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a session is called, and what is known about it."""

    id: Annotated[str, Meta(description="The id of the session.")]
    name: Annotated[str | None, Meta(description="Its name now.")] = None
    metadata: Annotated[dict[str, Any], Meta(description="Its metadata now.")] = {}


@SESSION.method("Name a session", "write", idempotent=True, core=True)
def rename(call: Call, given: Rename) -> Noted:
    """Give a session a name, by which other methods find it, too."""
    with call.annotating(given.session) as session:
        call.wrote(session.rename(given.name), "Renamed the session to '{}'", given.name)
        return Noted(id=session.id, name=session.name)


class Metadata(OfSession):
    facts: Annotated[
        dict[str, Any],
        Meta(description="The facts to set; a fact that is not named stays as it is."),
    ]


@SESSION.method("Set facts of a session", "write", idempotent=True)
def metadata(call: Call, given: Metadata) -> Noted:
    """Set facts of the metadata of a session; `session.show` reads them."""
    with call.annotating(given.session) as session:
        session.update_metadata(**given.facts)
        return Noted(id=session.id, name=session.name, metadata=session.metadata)


class Trash(Budgeted):
    session: Annotated[
        NameOfOne,
        arg(
            "[SESSION…]",
            kind="session name",
            help="A session of the store: its id, the start of it, its name, 'latest', or the "
            "path of its file.",
        ),
    ]


class TrashedSession(msgspec.Struct, kw_only=True):
    """A session that was moved to the trash, or back."""

    file: Annotated[str, Meta(description="The path of its file in the store.")]
    trashed: Annotated[str, Meta(description="The path of its file in the trash.")]


@SESSION.method(
    "Move a session to the trash",
    "write",
    json="a list of the old and the new path of each session; with --empty, of the removed sessions"
    " with all their files",
)
def trash(call: Call, given: Trash) -> TrashedSession:
    """Move a session of the store to the trash; `session.restore` brings it back.

    Refuses the session of an agent, which lies outside the store.
    \f
    The session moves to the folder .trash of the store, with all its files. If a session cannot be
    moved, the command still moves the other sessions, and the exit code is 1.

    sessiontree empties the trash only when you ask for it: 'trash --empty --older-than 30d' removes
    the sessions that were trashed more than thirty days ago, and prints one line for each; with
    --older-than 0d, all. These sessions cannot be restored. If a folder in the trash holds a link,
    or a file that does not belong to its session, the folder stays, and the exit code is 1.
    """
    call.check_write()
    file = call.file_in_store(given.session)
    trashed = call.store.trash(file)
    call.did("Moved {} to the trash", one_line(file, _LONGEST_PATH))
    return TrashedSession(file=file, trashed=trashed)


class Trashed(Paged):
    """Parameters of `session.trashed`."""


def _page_of_trash(call: Call, given: Trashed, found: SessionsFound) -> Page[SessionRow]:
    return page_of(
        found.found, given, lambda one: one.file, lambda one: row_of_session(one, is_alone=False)
    )


@SESSION.method(
    "List the trash",
    json="a list of the old and the new path of each session; without SESSION, the trash",
    answer=_page_of_trash,
)
def trashed(call: Call, given: Trashed) -> SessionsFound:
    """List the sessions in the trash of the store, the one that was put there last first.
    \f
    Each session goes back to its old folder. Without SESSION, the command lists the trash, latest
    first.
    """
    store = call.store
    found = store.trashed(report=call.leave_out)
    if not found:
        call.tell_nothing(f"The trash of {store.root} is empty")
    return SessionsFound(found, found)


class Restore(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    session: Annotated[
        str,
        arg(
            "[SESSION…]",
            kind="place",
            help="The session in the trash: its id, the start of it, its name, the path of "
            "its file there, or 'latest' for the one trashed last.",
            examples=["latest"],
        ),
    ]


@SESSION.method(
    "Bring a session back from the trash",
    "write",
)
def restore(call: Call, given: Restore) -> TrashedSession:
    """Move a session from the trash of the store back to where it was.

    Refuses where another file has that place now.
    """
    call.check_write()
    trashed = call.file_in_trash(given.session)
    file = call.store.restore(trashed)
    call.did("Restored {}", one_line(file, _LONGEST_PATH))
    return TrashedSession(file=file, trashed=trashed)


class EmptyTrash(Budgeted):
    older_than: Annotated[
        str,
        time_option(
            "--older-than", "Needed with --empty: what was trashed before this time is removed"
        ),
    ]
    dry_run: Annotated[
        bool, opt("--dry-run", help="With --empty: only tell what would be removed.")
    ] = False


class TrashEmptied(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What was removed from the trash."""

    sessions: Annotated[int, Meta(description="How many sessions were removed.")]
    freed: Annotated[int, Meta(description="The bytes of their files.")]
    items: Annotated[list[str], Meta(description="The paths that they had in the trash.")]
    more: Annotated[str | None, Meta(description="What is left out, and how to get it.")] = None


class RemovedSessions(NamedTuple):
    """The sessions that were removed from the trash, and why others were not."""

    removed: list[RemovedSession]
    problems: list[str]


def _emptied(call: Call, given: EmptyTrash, done: RemovedSessions) -> TrashEmptied:
    for problem in done.problems:
        call.warn(problem)
    freed = sum(one.bytes for one in done.removed)
    made = TrashEmptied(sessions=len(done.removed), freed=freed, items=[])
    made.items, made.more = short_list([one.file for one in done.removed], given, size(made))
    return made


@SESSION.method("Empty the trash", "destroy", idempotent=True, answer=_emptied)
def empty_trash(call: Call, given: EmptyTrash) -> RemovedSessions:
    """Remove sessions from the trash for good, with all their files. They cannot be restored.

    With `dry_run` nothing is removed.
    """
    if not given.dry_run:
        call.check_write()
    before = moment_of_parameter("older_than", given.older_than)
    assert before is not None

    def each(one: RemovedSession) -> None:
        call.show(one)
        if given.dry_run:
            call.check()
        else:
            call.progress(f"Removed {os.path.basename(one.file)}")

    problems: list[str] = []
    removed = call.store.empty_trash(
        older_than=before, dry_run=given.dry_run, each=each, report=problems.append
    )
    return RemovedSessions(removed, problems)


class MoveProject(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    old: Annotated[str, arg("OLD", kind="path", help="The old path of the working directory.")]
    new: Annotated[str, arg("NEW", kind="path", help="Its new path.")]
    resume: Annotated[
        bool,
        opt("--resume", help="Also run 'resume ID --cwd NEW' for each session of an agent."),
        only_for_people,
    ] = False


class MovedSessions(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Sessions that were moved."""

    moved: Annotated[int, Meta(description="How many sessions were moved.")]
    of_agents: Annotated[
        int, Meta(description="How many sessions of agents stay with the old path.")
    ] = 0
    commands: Annotated[list[str], Meta(description="The commands that continue them there.")] = []


@SESSION.method(
    "Move the sessions of a renamed directory",
    "write",
    json="the number of sessions that were moved, and the commands of --resume",
)
def move_project(call: Call, given: MoveProject) -> MovedSessions:
    """Move the sessions of a renamed working directory to its new path, in the store.

    Sessions of agents stay as they are, and are counted; if the old path is gone, they are listed
    as sessions of the new one, too. Refuses relative paths, a directory without sessions, and one
    with a session that a program holds.
    \f
    OLD and NEW are the old and the new path of the directory. Afterwards 'ls' shows the
    sessions of OLD as sessions of NEW. The session files themselves do not change. If an
    exclusive writer holds one of the sessions, no session is moved. A session in a folder that
    the store did not name after OLD stays there.

    An agent's files are never touched. If OLD is gone, a rule of 'map-path' says that it is NEW
    now, so that an agent's sessions of OLD are listed and continued in NEW, with a copy where the
    agent needs one. --resume prints the command that continues each.
    """
    call.check_write()
    paths = [given.old, given.new]
    for path in paths:
        if not (call.is_command or os.path.isabs(path)):
            raise Refusal(
                f"{path!r:.200} is a relative path",
                "bad_value",
                "Give both paths from the root on; session.list shows the directories.",
            )
    old, new = (path if is_of_windows(path) else os.path.abspath(path) for path in paths)
    selection = Selection(project=old)
    theirs = conversations_in(call.scope.agents, selection, _untold, call.reaches)
    has_rule = bool(theirs) and not (os.path.isdir(old) or is_of_windows(new))
    if has_rule:
        path_rules().with_folder_moved(old, new)  # refused before anything is moved
    try:
        count = call.store.move_project(old, new)
    except NothingToDoError:
        if old == new or not theirs:
            raise
        count = 0
    call.did("Moved {} of {} to {}", counted(count, "session"), old, new)
    made = MovedSessions(moved=count, of_agents=len(theirs))
    if has_rule:
        move_folder(old, new)
    if given.resume:
        made.commands = list(_resumed(call, theirs, old, new))
    elif theirs:
        call.note(_told_of_agents(len(theirs), old, new))
    return made


def _told_of_agents(count: int, old: str, new: str) -> str:
    agents = counted(
        count, "session of an agent stays as it is", "sessions of agents stay as they are"
    )
    if path_rules().here(old) == new:
        every = "it is listed and continued" if count == 1 else "they are listed and continued"
        return f"{agents}; {every} in {new} from now on ('sessiontree map-path' has the rule)"
    how = in_quotes("sessiontree resume ID --cwd NEW")
    return f"{agents}: {how} continues one in NEW, and --resume does so for all"


def _resumed(call: Call, sessions: Iterable[SessionInfo], old: str, new: str) -> Iterator[str]:
    """The commands that continue sessions in the folder of the new path."""
    from sessiontree.library.resume import plan  # few calls convert

    for one in in_order(sessions, "modified"):
        cwd = one.cwd or old
        paths = [cwd, *path_rules().there(cwd)]
        moved = map(PathRules([PathRule(old, new)]).here, paths)
        folder = next((path for path, was in zip(moved, paths, strict=True) if path != was), cwd)
        try:
            yield plan(one, cwd=folder).line
        except SessionTreeError as error:
            call.leave_out(str(error))


def _untold(problem: str) -> None:
    """A list of sessions names what cannot be read."""
