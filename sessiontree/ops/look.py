"""A session is looked at: its facts, its turns, and its tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from sessiontree.core.display import one_line, printable
from sessiontree.core.garbage import is_scratch
from sessiontree.library.one import SessionFacts, as_listed, facts_about, with_agent
from sessiontree.ops.budget import beginning, page, page_of, size
from sessiontree.ops.field import only_for_people, opt
from sessiontree.ops.guidance import Refusal
from sessiontree.ops.operation import SESSION, TREE
from sessiontree.ops.params import Call, NoPager, OfSession, PagedOfSession
from sessiontree.ops.rows import WIDTH, TurnRow, Width, turn_rows
from sessiontree.session import Session
from sessiontree.text.preview import speaker

if TYPE_CHECKING:
    from sessiontree.library.listing import SessionInfo
    from sessiontree.views.ledger import LedgerRow
    from sessiontree.views.turns import SessionOutline, Turn

_LONGEST_TEXT: Final = 2000
_MAX_DAMAGE: Final = 5
_RECENT: Final = 40
"""Rows at the leaf that a drawing has in any case: about a quarter of a page."""

Count = Annotated[int, Meta(ge=0)]


class Show(OfSession):
    """Parameters of `session.show`."""


class ShownSession(NamedTuple):
    """The facts of a session, which is open."""

    facts: SessionFacts
    session: Session
    row: SessionInfo | None  # the conversation, if it was named by an id or a name


def _facts_in_short(call: Call, given: Show, shown: ShownSession) -> SessionFacts:
    facts = shown.facts
    lanes = [lane for lane in facts.lanes if not is_scratch(lane)]
    return replace(facts, lanes=lanes, damage=facts.damage[:_MAX_DAMAGE])


@SESSION.method(
    "Show the facts of a session",
    json="the facts, or the entry as stored",
    answer=_facts_in_short,
)
def show(call: Call, given: Show) -> ShownSession:
    """Show the facts of a session: its name, file, leaf, model, metadata, and what is damaged.
    \f
    With REF, the command shows the whole entry. If the entry is a part of an answer that was
    streamed in blocks, the command shows the whole answer. Without REF, it shows facts about the
    session.
    """
    session = call.open(given.session)
    facts, row = facts_about(session, call.warn), call.row(given.session)
    facts = facts if row is None else replace(facts, name=row.name or facts.name)
    return ShownSession(facts, session, row)


class Outline(PagedOfSession):
    first: Annotated[
        Count | None, Meta(description="The first turn of a range, which is given in order.")
    ] = None
    last: Annotated[Count | None, Meta(description="The last turn of a range.")] = None
    current: Annotated[bool, Meta(description="Only turns on the current path.")] = False
    subagents: Annotated[bool, Meta(description="Also the turns of subagents.")] = False
    width: Width = WIDTH
    depth: Annotated[
        Count | None,
        opt(
            "--depth",
            metavar="N",
            help="Draw N levels of branches, and of the turns of subagents. A deeper branch or "
            "subagent takes one row.",
        ),
        only_for_people,
    ] = None
    no_pager: NoPager = False


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


class OutlineRead(NamedTuple):
    """The turns of a session, which is open."""

    session: Session
    outline: SessionOutline


def _turns(call: Call, given: Outline, read: OutlineRead) -> Turns:
    found = read.outline
    made = Turns(
        id=found.id,
        title=one_line(found.title or "", 100),
        agent=found.agent,
        cwd=found.cwd,
        turns=found.last_number,
        here=None if found.here is None else found.turns[found.here].name,
        tokens=found.work.tokens,
        cost=found.work.usage.cost or None,
        items=[],
    )
    turns = _range(found, given)
    if not turns and (given.first is not None or given.last is not None):
        raise Refusal(
            f"no turn is in that range: the turns are 1 to {made.turns}",
            "no_such_ref",
            "Give a `first` and a `last` in that range, or none of them.",
        )
    make = turn_rows(call, found.cwd, given.width)
    page = page_of(turns, given, lambda turn: turn.uuid, make, size(made))
    made.items, made.more, made.cursor = page.items, page.more, page.cursor
    return made


@SESSION.method(
    "Read the turns of a session",
    core=True,
    json="a list of all entries in file order, or of the entries of --turn; the first entry of a "
    "turn has the outcome of the turn",
    answer=_turns,
)
def outline_(call: Call, given: Outline) -> OutlineRead:
    """Read the turns of a session: each prompt, what was done, and how it ended.

    The last turns come first; with `first` or `last`, the turns of that range in order.
    \f
    Each row is a turn: the prompt, and what was done until the next prompt. ● marks a turn on
    the current path. ○ marks any other turn. The number of a turn does not change while the
    session grows. A row below a turn can show a compaction, a summary, a failed answer or a
    subagent. → shows what came out of a turn: the last answer of substance. ? shows a question that
    a tool of the agent asked the user, and what the user replied. In a pager or a pipe, each turn
    has these rows. If a screen has no room for all of them, only the newest turns have them, and
    the text of → may stand behind a short prompt.

    A turn without an answer says how it ended:

    \b
    steered      the user typed the next prompt while the agent worked
    interrupted  the user interrupted the agent, and typed the next prompt
    given up     the user interrupted the agent, which did nothing more
    no answer    the agent did not answer, or wrote nothing after its last call
    unfinished   the session ends before the agent answers
    broke off    the answer has no end

    If an outline is longer than the terminal, it begins with rows marked 'last:', which repeat the
    last turn. Each side branch is then one row. --depth 9 shows the side branches whole.

    The number of tokens does not include tokens that were read from a cache. The cost is the cost
    that the agent reported.

    Handles are not resolved, except with --turn: a handle is shown as its preview or its text.
    """
    return _outline(call, given)


def _outline(call: Call, given: OfSession | PagedOfSession) -> OutlineRead:
    from sessiontree.views.turns import outline  # the facts of a session do without

    def shown(done: int, size: int) -> None:
        call.progress("Reading the session", done, size)

    session = call.open(given.session)
    found = with_agent(outline(session.cursor, shown), session)
    return OutlineRead(session, as_listed(found, call.row(given.session)))


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
        opt(
            "--turn",
            metavar="TURN",
            kind="text",
            help="The number of the turn, such as 3 or '3.1', or an entry of it.",
            examples=["1"],
        ),
    ]
    longest: Annotated[int, Meta(ge=0, description="The characters of each text; 0: no limit.")] = (
        _LONGEST_TEXT
    )
    no_pager: NoPager = False


class Said(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An entry of a turn."""

    uuid: Annotated[str, Meta(description="The uuid of the entry.")]
    role: Annotated[str, Meta(description="Who speaks, or the type of the entry.")]
    text: Annotated[str, Meta(description="What it says; a call is one line with what came of it.")]
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


class TurnRead(NamedTuple):
    """The turns of one name, each with its place in the outline of a session, which is open."""

    session: Session
    outline: SessionOutline
    named: list[tuple[int, Turn]]


def _whole_turn(call: Call, given: OneTurn, read: TurnRead) -> WholeTurn:
    named = [turn for _, turn in read.named]
    make = turn_rows(call, read.outline.cwd, WIDTH)
    made = WholeTurn(turns=[make(each) for each in named], items=[])
    page = page_of(
        _rows(call, read, named),
        given,
        lambda row: row.entry.uuid,
        lambda row: _said(call, row, given.longest),
        size(made),
    )
    made.items, made.more, made.cursor = page.items, page.more, page.cursor
    return made


@SESSION.method("Read one turn", core=True, answer=_whole_turn)
def turn(call: Call, given: OneTurn) -> TurnRead:
    """Read one turn: the prompt, and each answer, call and result until the next prompt.

    Refuses a number that the session does not have.
    """
    from sessiontree.views.turns import turns_named  # as above

    session, found = _outline(call, given)
    return TurnRead(session, found, turns_named(session.cursor, found, str(given.turn)))


def _rows(call: Call, read: TurnRead, turns: Sequence[Turn]) -> Iterator[LedgerRow]:
    from sessiontree.views.ledger import ledger  # as above
    from sessiontree.views.rows import said_in

    session, cwd = read.session, read.outline.cwd
    for each in turns:
        for row in ledger(said_in(session.cursor, each), cwd, session.original):
            call.check()
            yield row


def _said(call: Call, row: LedgerRow, longest: int) -> Said:
    from sessiontree.views.parts import text_of_entry, text_of_message  # as above

    entry, message = row.entry, row.message
    if row.acts:
        rest = [] if row.rest is None else [text_of_message(row.rest)]
        text: str = call.mask("\n".join([*rest, *(act.line for _, act, _ in row.acts)]))
    else:
        text = call.mask(text_of_entry(entry, message))
    shown = beginning(text, longest) if longest else text
    return Said(
        uuid=entry.uuid,
        role=speaker(entry, message) or entry.type,
        text=shown,
        left_out=len(text) - len(shown),
    )


class Render(PagedOfSession):
    all: Annotated[
        bool, opt("--all", help="Draw every entry, not only prompts, answers and branches.")
    ] = False
    no_pager: NoPager = False


class Drawing(msgspec.Struct, omit_defaults=True):
    """A drawing of a tree."""

    text: Annotated[str, Meta(description="The drawing, with one row on each line.")]
    more: Annotated[str | None, Meta(description="What is left out, and how to get it.")] = None
    cursor: Annotated[str | None, Meta(description="The cursor of the next rows.")] = None


class TreeDrawn(NamedTuple):
    """The lines that show a tree, made as they are taken from a session, which is open."""

    session: Session
    lines: Iterator[str]


def _drawing(call: Call, given: Render, drawn: TreeDrawn) -> Drawing:
    rows = enumerate(map(printable, drawn.lines))
    found = page(rows, given, lambda row: str(row[0]))
    return Drawing("\n".join(line for _, line in found.items), found.more, found.cursor)


@TREE.method("Draw a tree", core=True, answer=_drawing)
def render(call: Call, given: Render) -> TreeDrawn:
    """Draw the tree of a session, to see where it branches.

    Each entry is a row; handles are not resolved.

    For what was said, use session.outline. Long runs between branches are folded, but for the
    40 recent rows at the leaf; `all` draws every entry.
    """
    from sessiontree.views.layout import draw  # as above

    session = call.open(given.session)
    lines = draw(session.cursor, all=given.all, width=call.width, recent=_RECENT)
    return TreeDrawn(session, lines)
