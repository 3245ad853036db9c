"""The namespace `branch`: where a session goes on: branches, moves, lanes, and their joining."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from sessiontree.context.compaction import KEEP_TOKENS, Summary, summarize
from sessiontree.context.context import Context
from sessiontree.core.entry import MAIN, Entry
from sessiontree.core.garbage import is_scratch
from sessiontree.core.index import Branch
from sessiontree.errors import TooMuchError
from sessiontree.operations import lanes as lane_operations
from sessiontree.operations import moves
from sessiontree.operations.lanes import LaneRow
from sessiontree.ops.budget import Offset, Page, page_of, passage, room, size
from sessiontree.ops.guidance import Refusal
from sessiontree.ops.operation import Namespace
from sessiontree.ops.params import Call, EntryRef, LaneName, OfSession, PagedOfSession
from sessiontree.ops.params import SessionName as Name
from sessiontree.ops.rows import Done, Row, TurnRow, done, relative, row_maker, turn_rows
from sessiontree.session import Session
from sessiontree.views.compare import Side, compare
from sessiontree.views.messages import Messages

BRANCH: Final = Namespace(
    "branch",
    "Where a session goes on: its branches and lanes, moves between them, and their joining.",
)

_TURN_WIDTH: Final = 200
_MOST_LEFT_OUT: Final = 200
"""Bytes of a sentence that says how many turns are left out."""


Count = Annotated[int, Meta(ge=0)]


class OnLane(OfSession, kw_only=True):
    """Parameters of a method that reads on a lane."""

    lane: Annotated[str | None, Meta(description="The lane; by default main.")] = None


class Moving(OfSession, kw_only=True):
    """Parameters of a method that writes one entry on a lane."""

    lane: LaneName | None = None
    scratch: Annotated[
        bool, Meta(description="Write on a new scratch lane, which is dropped unless it is kept.")
    ] = False


class Summarized(Moving, kw_only=True):
    """Parameters of a method that may write a summary."""

    summary: Annotated[str | None, Meta(description="The text of the summary.")] = None
    summarize: Annotated[
        bool, Meta(description="Let the built-in summarizer, which asks no model, write it.")
    ] = False

    def chosen(self) -> Summary | None:
        """The summary, or what makes it, if any.

        Raises:
            Refusal: both are given.
        """
        if self.summary is not None and self.summarize:
            raise Refusal(
                "there are two summaries",
                "bad_value",
                "Give `summary` or `summarize`, not both.",
            )
        return summarize if self.summarize else self.summary


class Moved(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Where the session is after a move."""

    uuid: Annotated[str, Meta(description="The new leaf: the next entry goes below it.")]
    type: Annotated[str, Meta(description="The type of that entry.")]
    lane: Annotated[str | None, Meta(description="Its lane; main if there is none.")] = None
    at: Annotated[Row | None, Meta(description="The entry with content at the leaf.")] = None
    left: Annotated[
        str | None,
        Meta(description="The last entry of the branch that was left; `branch.switch` goes back."),
    ] = None
    written: Annotated[bool, Meta(description="False if the session was there already.")] = True


def _move(call: Call, given: Moving, step: Callable[[Session], Entry]) -> Moved:
    """Where a session is after a step that gives its new leaf."""
    with call.writing(given.session, given.lane, scratch=given.scratch) as session:
        left = session.leaf
        return _moved(call, session, step(session), left)


def _moved(call: Call, session: Session, entry: Entry, left: Entry) -> Moved:
    """Where a session is after a move away from the entry `left`."""
    seen = session.reader.skip_markers(left)
    is_left = not session.cursor.is_above(seen, entry)
    return Moved(
        uuid=entry.uuid,
        type=entry.type,
        lane=entry.lane,
        at=row_maker(call, session)(session.reader.skip_markers(entry)),
        left=seen.uuid if is_left else None,
        written=entry.uuid != left.uuid,
    )


class List(PagedOfSession):
    """Parameters of `branch.list`."""

    below: Annotated[
        EntryRef | None, Meta(description="Only the branches below this entry; by default all.")
    ] = None


class BranchRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A branch, from the entry where it separates to its last entry."""

    leaf: Annotated[str, Meta(description="The uuid of its last entry with content.")]
    name: Annotated[str | None, Meta(description="Its name.")] = None
    current: Annotated[bool, Meta(description="Whether the session is at its end.")] = False
    fork: Annotated[str | None, Meta(description="The entry where it separates from others.")] = (
        None
    )
    entries: Annotated[int, Meta(description="Its entries with content below the fork.")]
    lane: Annotated[str | None, Meta(description="Its lane; main if there is none.")] = None
    preview: Annotated[str, Meta(description="The start of its last entry.")]
    updated: Annotated[str | None, Meta(description="When that was written.")] = None


@BRANCH.method("List branches", core=True)
def list_(call: Call, given: List) -> Page[BranchRow]:
    """List the branches of a session: the current one first, then those written last.

    What a subagent did is no branch; `branch.lanes` lists it.
    """
    with call.reading(given.session) as session:
        found = session.branches(given.below)
        found.reverse()  # those that end last in the file
        found.sort(key=lambda branch: not branch.current)
        return page_of(found, given, lambda branch: branch.leaf, _branch_row)


def _branch_row(branch: Branch) -> BranchRow:
    return BranchRow(
        leaf=branch.leaf,
        name=branch.name,
        current=branch.current,
        fork=branch.fork,
        entries=branch.length,
        lane=branch.lane,
        preview=branch.preview,
        updated=branch.updated,
    )


class Here(OnLane):
    """Parameters of `branch.here`."""


class Place(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Where a session is."""

    leaf: Annotated[str, Meta(description="The leaf: the next entry goes below it.")]
    lane: Annotated[str, Meta(description="The lane.")]
    at: Annotated[Row, Meta(description="The entry with content at the leaf.")]
    prompt: Annotated[Row | None, Meta(description="The last prompt above it.")] = None
    pushed: Annotated[
        str | None, Meta(description="The open push, to which `branch.pop` returns.")
    ] = None
    messages: Annotated[int | None, Meta(description="The messages of the context.")] = None
    tokens: Annotated[int | None, Meta(description="The estimated tokens of the context.")] = None
    model: Annotated[str | None, Meta(description="The model, as provider/model.")] = None


@BRANCH.method("Tell where a session is")
def here(call: Call, given: Here) -> Place:
    """Tell where work stands: the leaf, the last prompt, and the tokens of the context there."""
    with _reading(call, given.session, given.lane) as session:
        make = row_maker(call, session)
        content = session.cursor.nearest(lambda entry: entry.is_content)
        prompt = session.cursor.nearest(Messages(session.cursor.messages).begins_turn)
        push = moves.open_push(session.writer)
        context = _context(call, session)
        return Place(
            leaf=session.leaf.uuid,
            lane=session.lane_name,
            at=make(content or session.leaf),
            prompt=None if prompt is None else make(prompt),
            pushed=None if push is None else push.uuid,
            messages=None if context is None else len(context.messages),
            tokens=None if context is None else context.tokens,
            model=None if context is None else _model(context),
        )


def _context(call: Call, session: Session) -> Context | None:
    try:
        return session.context()
    except TooMuchError as error:
        call.warn(str(error))
        return None


def _model(context: Context) -> str | None:
    return "/".join(str(part) for part in context.model.values() if part) if context.model else None


@contextlib.contextmanager
def _reading(call: Call, session: str, lane: str | None) -> Iterator[Session]:
    with call.reading(session) as opened:
        if lane is None:
            yield opened
            return
        with opened.lane(lane) as on_lane:
            yield on_lane


class Switch(Moving):
    """Parameters of `branch.switch`."""

    ref: Annotated[
        EntryRef, Meta(description="Where to go on: an entry, or the end of a named branch.")
    ]


@BRANCH.method("Go to an entry", "write", idempotent=True, core=True)
def switch(call: Call, given: Switch) -> Moved:
    """Move the leaf to an entry, or to the end of a branch; the next write goes below it.

    What is left stays as it is. To try something beside the main lane, use branch.try.
    """
    return _move(call, given, lambda session: session.switch(given.ref))


class Start(Summarized):
    """Parameters of `branch.start`."""

    ref: Annotated[
        EntryRef, Meta(description="The entry to go on from; the header for an empty context.")
    ]
    name: Annotated[str | None, Meta(description="A name for the new branch.")] = None


@BRANCH.method("Start a branch", "write", core=True)
def start(call: Call, given: Start) -> Moved:
    """Start a branch below an entry of the same session.

    With a summary, the context has it in place of the path that is left. Refuses a name in use.
    """
    summary = given.chosen()
    return _move(call, given, lambda session: session.branch(given.ref, summary, given.name))


class Push(Moving):
    """Parameters of `branch.push`."""

    note: Annotated[str | None, Meta(description="A note about the work that follows.")] = None


@BRANCH.method("Mark the place to come back to", "write", core=True)
def push(call: Call, given: Push) -> Moved:
    """Mark the leaf before a piece of work; `branch.pop` returns there with a summary."""
    return _move(call, given, lambda session: session.push(given.note))


class Pop(Summarized):
    """Parameters of `branch.pop`."""

    ref: Annotated[
        EntryRef | None,
        Meta(
            description="The entry to go back to; by default the open push, or else the last "
            "prompt that was worked on."
        ),
    ] = None


@BRANCH.method("Go back with a summary", "write", core=True)
def pop(call: Call, given: Pop) -> Moved:
    """Go back up the path; a summary replaces what is left in the context.

    By default the built-in summarizer writes it. Refuses an entry that is not on the path.
    """
    summary = given.chosen()
    return _move(call, given, lambda session: session.pop(given.ref, summary))


class Rewind(Moving):
    """Parameters of `branch.rewind`."""

    ref: Annotated[
        EntryRef | None, Meta(description="The prompt; by default the last one on the path.")
    ] = None


class Rewound(Moved, kw_only=True, omit_defaults=True):
    """A prompt that was taken back."""

    prompt: Annotated[str, Meta(description="The uuid of the prompt.")]
    text: Annotated[str, Meta(description="The text of the prompt, to change and ask again.")]


@BRANCH.method("Take back a prompt", "write", core=True)
def rewind(call: Call, given: Rewind) -> Rewound:
    """Go to before a prompt, and give its text. Refuses an entry that is not a prompt."""
    with call.writing(given.session, given.lane, scratch=given.scratch) as session:
        left = session.leaf
        text, prompt = moves.rewind(session.writer, given.ref)
        moved = _moved(call, session, session.leaf, left)
        return Rewound(prompt=prompt.uuid, text=text, **msgspec.structs.asdict(moved))


class Plan(OnLane):
    """Parameters of `branch.plan`."""

    first_kept: Annotated[
        EntryRef | None, Meta(description="The first entry that stays in the context.")
    ] = None
    keep: Annotated[
        Count | None,
        Meta(
            description=f"The tokens at the end of the context that stay, about {KEEP_TOKENS:,} "
            "by default; 0: nothing stays.",
        ),
    ] = None
    instructions: Annotated[
        str | None, Meta(description="What the summary has to pay attention to.")
    ] = None
    offset: Offset = 0


class Planned(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a summary would replace."""

    leaf: Annotated[str, Meta(description="The parameter `leaf` of `branch.compact`.")]
    first_kept: Annotated[
        str | None,
        Meta(description="The parameter `first_kept` of `branch.compact`; none: give `keep` 0."),
    ] = None
    messages: Annotated[int, Meta(description="How many messages the summary replaces.")]
    tokens_before: Annotated[int, Meta(description="The tokens of the context now.")]
    tokens_after: Annotated[int, Meta(description="Those that stay, without the summary.")]
    text: Annotated[str, Meta(description="The request for the summary, from `offset` on.")]
    next: Annotated[
        int | None, Meta(description="The parameter `offset` of the rest of the text.")
    ] = None


@BRANCH.method("Plan a compaction")
def plan(call: Call, given: Plan) -> Planned:
    """Give what a compaction would replace, as a request for the summary; nothing is written.

    Write the summary that the text asks for, and give it to `branch.compact` with `leaf`, and with
    `first_kept` or else `keep` 0.
    """
    _check_one(given.first_kept, given.keep)
    with _reading(call, given.session, given.lane) as session:
        made = session.compaction_plan(
            first_kept=given.first_kept, keep=given.keep, instructions=given.instructions
        )
        part = passage([call.mask(made.text)], given.offset, given.budget)
        return Planned(
            leaf=made.leaf.uuid,
            first_kept=None if made.first_kept is None else made.first_kept.uuid,
            messages=len(made.messages),
            tokens_before=made.tokens_before,
            tokens_after=made.tokens_after,
            text=part.text,
            next=part.next,
        )


def _check_one(first_kept: str | None, keep: int | None) -> None:
    if first_kept is not None and keep is not None:
        raise Refusal(
            "`first_kept` and `keep` both say what stays",
            "bad_value",
            "Give `first_kept` or `keep`, not both.",
        )


class Compact(Summarized):
    """Parameters of `branch.compact`."""

    first_kept: Annotated[
        EntryRef | None, Meta(description="The first entry that stays in the context.")
    ] = None
    keep: Annotated[
        Count | None,
        Meta(description="About how many tokens at the end stay; 0: nothing stays."),
    ] = None
    leaf: Annotated[
        EntryRef | None,
        Meta(
            description="The `leaf` of the plan that the summary is for; what was written since "
            "stays in the context."
        ),
    ] = None


class Compacted(Moved, kw_only=True, omit_defaults=True):
    """A compaction."""

    tokens_before: Annotated[int, Meta(description="The tokens of the context before.")]
    tokens_after: Annotated[int, Meta(description="The tokens of the context now.")]


@BRANCH.method("Replace the older context by a summary", "write", core=True)
def compact(call: Call, given: Compact) -> Compacted:
    """Replace the older part of the context by a summary; the entries stay in the session.

    Ask `branch.plan` for what to summarize, then give the summary here; or let the built-in
    summarizer write it. Refuses where nothing would be replaced, and a plan that does not fit any
    more.
    """
    _check_one(given.first_kept, given.keep)
    summary = given.chosen()
    with call.writing(given.session, given.lane, scratch=given.scratch) as session:
        left = session.leaf
        if given.leaf is None:
            entry = session.compact(summary, first_kept=given.first_kept, keep=given.keep)
        else:
            with session.lane(session.lane_name, at=given.leaf) as then:
                planned = then.compaction_plan(first_kept=given.first_kept, keep=given.keep)
            entry = session.compact(summary, planned)
        moved = _moved(call, session, entry, left)
        return Compacted(
            tokens_before=entry["tokensBefore"],
            tokens_after=session.context().tokens,
            **msgspec.structs.asdict(moved),
        )


class Merge(Summarized):
    """Parameters of `branch.merge`."""

    ref: Annotated[EntryRef, Meta(description="The last entry of the branch to merge.")]


@BRANCH.method("Merge a branch", "write", core=True)
def merge(call: Call, given: Merge) -> Moved:
    """Add the entries of another branch to the context of this path, or a summary of them.

    Refuses an entry that is on the path already.
    """
    summary = given.chosen()
    return _move(call, given, lambda session: session.merge(given.ref, summary))


class CherryPick(Moving):
    """Parameters of `branch.cherry_pick`."""

    ref: Annotated[EntryRef, Meta(description="The entry to copy.")]
    source: Annotated[
        Name | None, Meta(description="The session that has it; by default this session.")
    ] = None


@BRANCH.method("Copy one entry here", "write", core=True)
def cherry_pick(call: Call, given: CherryPick) -> Moved:
    """Copy an entry of another branch or session below the leaf.

    Refuses entries that mean something only at their place, such as labels and merges.
    """
    with contextlib.ExitStack() as opened:
        source = None if given.source is None else opened.enter_context(call.reading(given.source))
        session = opened.enter_context(
            call.writing(given.session, given.lane, scratch=given.scratch)
        )
        left = session.leaf
        picked = (source or session).entry(given.ref)
        return _moved(call, session, session.cherry_pick(picked, source), left)


class Diff(OfSession):
    """Parameters of `branch.diff`."""

    one: Annotated[EntryRef, Meta(description="The last entry of one branch, or its name.")]
    other: Annotated[EntryRef, Meta(description="That of the other; by default the leaf.")] = "@"


class SideRow(Done, kw_only=True, omit_defaults=True):
    """What one branch has that the other has not."""

    leaf: Annotated[str, Meta(description="Its last entry that is compared.")]
    current: Annotated[bool, Meta(description="Whether it is on the current path.")] = False
    prompts: Annotated[int, Meta(description="How many prompts it has.")]
    turns: Annotated[list[TurnRow], Meta(description="Its turns, the last one first.")]
    more: Annotated[str | None, Meta(description="What is left out, and how to get it.")] = None


class Difference(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Two branches, and what was done on each since they separate."""

    fork: Annotated[str | None, Meta(description="The last entry with content of both.")] = None
    turn: Annotated[str | None, Meta(description="The turn with that entry.")] = None
    prompt: Annotated[str | None, Meta(description="The prompt of that turn.")] = None
    both_changed: Annotated[list[str], Meta(description="The files that both changed.")] = []
    one: SideRow
    other: SideRow


@BRANCH.method("Compare two branches", core=True)
def diff(call: Call, given: Diff) -> Difference:
    """Compare two branches: where they separate, and the turns, files, tokens and costs of each."""
    with call.reading(given.session) as session:
        one, other = session.entry(given.one), session.entry(given.other)

        def shown(done: int, size: int) -> None:
            call.progress("Reading the session", done, size)

        found = compare(session.cursor, one, other, shown)
        cwd = session.header.get("cwd")
        changed = set(found.other.work.changed)
        both = [path for path in found.one.work.changed if path in changed]
        made = Difference(
            fork=found.fork,
            turn=None if found.turn is None else found.turn.name,
            prompt=None if found.turn is None else found.turn.prompt,
            both_changed=[relative(path, cwd) for path in both],
            one=_side(session, found.one, cwd),
            other=_side(session, found.other, cwd),
        )
        left = None if not given.budget else room(given.budget) - size(made) - 2 * _MOST_LEFT_OUT
        make = turn_rows(call, cwd, _TURN_WIDTH)
        for row, side in ((made.one, found.one), (made.other, found.other)):
            _add_turns(row, [make(turn) for turn in reversed(side.turns)], left and left // 2)
        return made


def _side(session: Session, side: Side, cwd: str | None) -> SideRow:
    return SideRow(
        leaf=side.leaf,
        current=session.cursor.is_above(session.entry(side.leaf)),
        prompts=sum(turn.prompt is not None for turn in side.turns),
        turns=[],
        **done(side.work, cwd),  # type: ignore[arg-type]
    )


def _add_turns(side: SideRow, turns: Sequence[TurnRow], left: int | None) -> None:
    """Add the turns that there is room for; say how many are left out."""
    for count, turn in enumerate(turns):
        left = None if left is None else left - size(turn) - 1
        if left is not None and left < 0:
            rest = len(turns) - count
            side.more = f"{rest:,} earlier turns are left out; session.outline lists all"
            return
        side.turns.append(turn)


class Try(OfSession):
    """Parameters of `branch.try`."""

    at: Annotated[EntryRef, Meta(description="The entry below which the attempt begins.")] = "@"
    lane: Annotated[
        str | None, Meta(description="The lane whose leaf '@' is; by default main.")
    ] = None


class Attempt(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A scratch lane."""

    lane: Annotated[
        str, Meta(description="The parameter `lane` of `node.create_text` and of other methods.")
    ]
    leaf: Annotated[str, Meta(description="The leaf of the lane.")]
    at: Annotated[Row, Meta(description="The entry below which it begins.")]


@BRANCH.method("Begin an attempt on a scratch lane", "write", core=True)
def try_(call: Call, given: Try) -> Attempt:
    """Open a scratch lane at an entry, to try something without moving the leaf of any other lane.

    Write on it with the parameter `lane`; several attempts can begin at one entry. `branch.keep`
    joins the best one; `health.gc` removes the others seven days later.
    """
    with (
        call.writing(given.session, given.lane) as session,
        session.scratch(session.entry(given.at)) as trial,
    ):
        start = session.reader.skip_markers(session.entry(given.at))
        mark = trial.branch("@")
        return Attempt(lane=trial.lane_name, leaf=mark.uuid, at=row_maker(call, session)(start))


class Keep(OfSession):
    """Parameters of `branch.keep`."""

    lane: Annotated[str, Meta(description="The lane to join, such as that of `branch.try`.")]
    onto: Annotated[str | None, Meta(description="The lane that goes on; by default main.")] = None


@BRANCH.method("Keep an attempt", "write", core=True)
def keep(call: Call, given: Keep) -> Moved:
    """Join a lane: main goes on from its last entry.

    What main got meanwhile stays as a side branch, named by `left`; `branch.merge` adds it. Refuses
    a lane that has no entry or was joined already.
    """
    with call.writing(given.session, given.onto) as session:
        before = session.leaf
        entry = session.keep(given.lane)
        moved = _moved(call, session, entry, before)
        moved.left = entry.get("fromUuid")
        return moved


class Lanes(PagedOfSession):
    """Parameters of `branch.lanes`."""

    scratch: Annotated[
        bool | None,
        Meta(description="True: only scratch lanes; False: only other lanes; by default all."),
    ] = None


class LaneInShort(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A lane."""

    lane: Annotated[str, Meta(description="Its name.")]
    entries: Annotated[int, Meta(description="How many entries it has.")]
    leaf: Annotated[str, Meta(description="The uuid of its last entry.")]
    at: Annotated[Row | None, Meta(description="The entry with content there.")] = None
    scratch: Annotated[
        bool, Meta(description="Whether it is dropped seven days later unless it is kept.")
    ] = False
    joined: Annotated[bool, Meta(description="Whether its end is on the path of main.")] = False


@BRANCH.method("List lanes")
def lanes(call: Call, given: Lanes) -> Page[LaneInShort]:
    """List the lanes of a session, the one written last first: main, those of agents and attempts.

    Each is a line of entries with a leaf of its own.
    """
    with call.reading(given.session) as session:
        make = row_maker(call, session)
        found = lane_operations.listed(session.cursor)
        wanted = [row for row in found if given.scratch is None or given.scratch == _is_loose(row)]
        return page_of(
            wanted,
            given,
            lambda row: row.name,
            lambda row: LaneInShort(
                lane=row.name,
                entries=row.entries,
                leaf=row.leaf.uuid,
                at=make(row.at),
                scratch=_is_loose(row),
                joined=row.joined,
            ),
        )


def _is_loose(row: LaneRow) -> bool:
    return row.name != MAIN and is_scratch(row.name)
