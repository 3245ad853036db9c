"""The namespace `branch`: where a session goes on: branches, moves, lanes, and their joining."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from sessiontree.context.compaction import KEEP_TOKENS, Summary, summarize
from sessiontree.context.context import Context
from sessiontree.core.display import short
from sessiontree.core.entry import MAIN, Entry
from sessiontree.core.garbage import is_scratch
from sessiontree.core.index import Branch
from sessiontree.engine.names import LEAF
from sessiontree.errors import TooMuchError
from sessiontree.operations import moves
from sessiontree.operations.compact import CompactionPlan
from sessiontree.ops.budget import Offset, Page, page, page_of, passage, room, size
from sessiontree.ops.field import arg, only_for_people, opt
from sessiontree.ops.guidance import Refusal
from sessiontree.ops.operation import Namespace
from sessiontree.ops.params import Call, EntryRef, LaneName, NoPager, OfSession, PagedOfSession
from sessiontree.ops.params import SessionName as Name
from sessiontree.ops.rows import Row, TurnRow, WorkDone, done, relative, row_maker, turn_rows
from sessiontree.session import Session
from sessiontree.text.amounts import counted
from sessiontree.views.messages import ResolvedMessages

if TYPE_CHECKING:
    from sessiontree.operations.lanes import LaneRow
    from sessiontree.views.compare import Comparison, Side
    from sessiontree.views.turns import BranchEnd

BRANCH: Final = Namespace(
    "branch",
    "Where a session goes on: its branches and lanes, moves between them, and their joining.",
)

_TURN_WIDTH: Final = 200
_MAX_LEFT_OUT: Final = 200
"""Bytes of a sentence that says how many turns are left out."""


Count = Annotated[int, Meta(ge=0)]


class OnLane(OfSession, kw_only=True):
    """Parameters of a method that reads on a lane."""

    lane: Annotated[
        str | None, opt("--lane", metavar="LANE", help="The lane; by default main.")
    ] = None


class Moving(OfSession, kw_only=True):
    """Parameters of a method that writes one entry on a lane."""

    lane: LaneName | None = None
    scratch: Annotated[
        bool,
        opt("--scratch", help="Write on a new scratch lane, which is dropped unless it is kept."),
    ] = False


class Summarizing(Moving, kw_only=True):
    """Parameters of a method that may write a summary."""

    summary: Annotated[
        str | None, opt("--summary", metavar="TEXT", help="The text of the summary.")
    ] = None
    summarize: Annotated[
        bool,
        opt("--summarize", help="Let the built-in summarizer, which asks no model, write it."),
    ] = False
    summarizer: Annotated[
        Any,
        opt(
            "--summarizer",
            metavar="CMD",
            kind="program",
            help="Run a program that reads the transcript from standard input and writes the "
            "summary to standard output.",
        ),
        only_for_people,
    ] = None

    def chosen(self) -> Summary | None:
        """The summary, or what makes it, if any.

        Raises:
            Refusal: more than one is given.
        """
        ways = {
            "summary": self.summary is not None,
            "summarize": self.summarize,
            "summarizer": self.summarizer is not None,
        }
        given = [f"`{way}`" for way, is_given in ways.items() if is_given]
        if len(given) > 1:
            next = f"Give {' or '.join(given[:2])}, not both."
            raise Refusal("there are two summaries", "bad_value", next)
        return summarize if self.summarize else self.summarizer or self.summary


class MoveResult(msgspec.Struct, kw_only=True, omit_defaults=True):
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


@contextlib.contextmanager
def _writing(call: Call, given: Moving) -> Iterator[Session]:
    """Open the session to write on the lane; without its lock, if a program writes a summary."""
    hold = getattr(given, "summarizer", None) is None
    with call.writing(given.session, given.lane, scratch=given.scratch, hold=hold) as session:
        yield session


def _moved(call: Call, session: Session, entry: Entry, left: Entry) -> MoveResult:
    """Where a session is after a move away from the entry `left`."""
    seen = session.reader.skip_markers(left)
    is_left = not session.cursor.is_above(seen, entry)
    return MoveResult(
        uuid=entry.uuid,
        type=entry.type,
        lane=entry.lane,
        at=row_maker(call, session)(session.reader.skip_markers(entry)) if call.rows else None,
        left=seen.uuid if is_left else None,
        written=entry.uuid != left.uuid,
    )


class BranchList(PagedOfSession):
    below: Annotated[
        EntryRef | None, arg("[REF]", help="Only the branches below this entry; by default all.")
    ] = None


class BranchesFound(NamedTuple):
    """The branches of a session, which is open."""

    branches: list[Branch]
    session: Session

    def ends(self) -> Iterator[BranchEnd]:
        """The turn and the prompt that each branch ends in."""
        from sessiontree.views.turns import ends_of_branches  # only people read them

        return ends_of_branches(self.session.cursor, self.branches)


def _page_of_branches(call: Call, given: BranchList, found: BranchesFound) -> Page[Branch]:
    last_first = list(reversed(found.branches))
    last_first.sort(key=lambda branch: not branch.current)
    return page(last_first, given, lambda branch: branch.leaf)


@BRANCH.method("List branches", core=True, json="a list of the branches", answer=_page_of_branches)
def list_(call: Call, given: BranchList) -> BranchesFound:
    """List the branches of a session: the current one first, then those written last.

    What a subagent did is no branch; `branch.lanes` lists it.
    \f
    Each line shows the last entry of a branch, with its time, and the turn and the prompt that the
    branch ends in, in the order of the file. ● marks the current branch.
    """
    session = call.open(given.session)
    found = session.branches(given.below)
    if not found:
        where = "in {}" if given.below is None else "below {}"
        about = given.session if given.below is None else session.entry(given.below)
        call.note(f"There is no branch {where}", about)
    return BranchesFound(found, session)


class Here(OnLane):
    """Parameters of `branch.here`."""


class BranchPlace(msgspec.Struct, kw_only=True, omit_defaults=True):
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
def here(call: Call, given: Here) -> BranchPlace:
    """Tell where work stands: the leaf, the last prompt, and the tokens of the context there."""
    with _reading(call, given.session, given.lane) as session:
        make = row_maker(call, session)
        content = session.cursor.nearest(lambda entry: entry.is_content)
        prompt = session.cursor.nearest(ResolvedMessages(session.cursor.messages).begins_turn)
        push = moves.open_push(session.writer)
        context = _context(call, session)
        return BranchPlace(
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
    ref: Annotated[
        EntryRef, arg("REF", help="Where to go on: an entry, or the end of a named branch.")
    ]


@BRANCH.method("Go to an entry", "write", idempotent=True, core=True)
def switch(call: Call, given: Switch) -> MoveResult:
    """Move the leaf to an entry, or to the end of a branch; the next write goes below it.

    What is left stays as it is. To try something beside the main lane, use branch.try.
    \f
    If REF is the name of a branch, the next entry goes below the last entry of that branch. With
    any other REF, the next entry goes below the entry that REF names.
    """
    with _writing(call, given) as session:
        left, target = session.leaf, session.entry(given.ref)
        entry = session.switch(target)
        is_there = entry == left
        call.wrote(
            entry, "Already at {}; nothing was written" if is_there else "Switched to {}", target
        )
        return _moved(call, session, entry, left)


class BranchStart(Summarizing):
    ref: Annotated[
        EntryRef, arg("REF", help="The entry to go on from; the header for an empty context.")
    ]
    name: Annotated[
        str | None, opt("--name", metavar="NAME", help="A name for the new branch.")
    ] = None


@BRANCH.method("Start a branch", "write", core=True)
def start(call: Call, given: BranchStart) -> MoveResult:
    """Start a branch below an entry of the same session.

    With a summary, the context has it in place of the path that is left. Refuses a name in use.
    \f
    The next entry goes below REF. The entries that are already below REF stay as another
    branch. With --summary, --summarize or --summarizer, a summary of the path that you
    leave is added. Give the header as REF to start again with an empty context. To copy
    the path into a new file, use 'fork'.
    """
    summary = given.chosen()
    with _writing(call, given) as session:
        left, target = session.leaf, session.entry(given.ref)
        entry = session.branch(target, summary, given.name)
        call.wrote(entry, "Branched at {}", target)
        return _moved(call, session, entry, left)


class Push(Moving):
    note: Annotated[
        str | None, opt("--note", metavar="TEXT", help="A note about the work that follows.")
    ] = None


@BRANCH.method("Mark the place to come back to", "write", core=True)
def push(call: Call, given: Push) -> MoveResult:
    """Mark the leaf before a piece of work; `branch.pop` returns there with a summary."""
    with _writing(call, given) as session:
        left = session.leaf
        entry = session.push(given.note)
        call.wrote(entry, "Pushed; 'pop' returns here")
        return _moved(call, session, entry, left)


class Pop(Summarizing):
    ref: Annotated[
        EntryRef | None,
        arg(
            "[REF]",
            help="The entry to go back to, on the path; by default the last push without a pop, or "
            "else the last prompt with a message below it.",
        ),
    ] = None


@BRANCH.method("Go back with a summary", "write", core=True)
def pop(call: Call, given: Pop) -> MoveResult:
    """Go back up the path; a summary replaces what is left in the context.

    By default the built-in summarizer writes it. Refuses an entry that is not on the path.
    \f
    In the context, the summary replaces the entries below REF. Without a summary option, the
    built-in summarizer is used.
    """
    summary = given.chosen()
    with _writing(call, given) as session:
        left = session.leaf
        entry = session.pop(given.ref, summary)
        call.wrote(entry, "Popped to {}", session.entry(entry.parent_uuid or LEAF))
        return _moved(call, session, entry, left)


class Rewind(Moving):
    ref: Annotated[
        EntryRef | None, arg("[REF]", help="The prompt; by default the last one on the path.")
    ] = None


class Rewound(MoveResult, kw_only=True, omit_defaults=True):
    """A prompt that was taken back."""

    prompt: Annotated[str, Meta(description="The uuid of the prompt.")]
    text: Annotated[str, Meta(description="The text of the prompt, to change and ask again.")]


@BRANCH.method(
    "Take back a prompt",
    "write",
    core=True,
    json="the text of the prompt, the uuid of its entry and the new entry",
)
def rewind(call: Call, given: Rewind) -> Rewound:
    """Go to before a prompt, and give its text. Refuses an entry that is not a prompt.
    \f
    The command prints the text of the prompt. You can edit this text and append the edited text.
    """
    with _writing(call, given) as session:
        left = session.leaf
        prompt = moves.rewind(session.writer, given.ref)
        entry = session.leaf
        call.wrote(entry, "Rewound; the next entry goes below {}", short(entry.parent_uuid or ""))
        moved = _moved(call, session, entry, left)
        return Rewound(prompt=prompt.entry.uuid, text=str(prompt), **msgspec.structs.asdict(moved))


FirstKept = Annotated[
    EntryRef | None,
    opt("--first-kept", metavar="REF", help="The first entry that stays in the context."),
]
Keeping = Annotated[
    Count | None,
    opt(
        "--keep",
        metavar="TOKENS",
        help=f"About how many tokens at the end stay, by default {KEEP_TOKENS:,}; 0: nothing "
        "stays.",
    ),
]
Instructions = Annotated[
    str | None,
    opt("--instructions", metavar="TEXT", help="What the summary has to pay attention to."),
]


class Plan(OnLane):
    first_kept: FirstKept = None
    keep: Keeping = None
    instructions: Instructions = None
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


def _planned(call: Call, given: Plan, plan: CompactionPlan) -> Planned:
    part = passage([call.mask(plan.text)], given.offset, given.budget)
    return Planned(
        leaf=plan.leaf.uuid,
        first_kept=None if plan.first_kept is None else plan.first_kept.uuid,
        messages=len(plan.messages),
        tokens_before=plan.tokens_before,
        tokens_after=plan.tokens_after,
        text=part.text,
        next=part.next,
    )


@BRANCH.method("Plan a compaction", answer=_planned)
def plan(call: Call, given: Plan) -> CompactionPlan:
    """Give what a compaction would replace, as a request for the summary; nothing is written.

    Write the summary that the text asks for, and give it to `branch.compact` with `leaf`, and with
    `first_kept` or else `keep` 0.
    """
    _check_one(given.first_kept, given.keep)
    with _reading(call, given.session, given.lane) as session:
        return session.compaction_plan(
            first_kept=given.first_kept, keep=given.keep, instructions=given.instructions
        )


def _check_one(first_kept: str | None, keep: int | None) -> None:
    if first_kept is not None and keep is not None:
        raise Refusal(
            "`first_kept` and `keep` both say what stays",
            "bad_value",
            "Give `first_kept` or `keep`, not both.",
        )


class Compact(Summarizing):
    first_kept: FirstKept = None
    keep: Keeping = None
    leaf: Annotated[
        EntryRef | None,
        Meta(
            description="The `leaf` of the plan that the summary is for; what was written since "
            "stays in the context."
        ),
    ] = None
    instructions: Annotated[Instructions, only_for_people] = None


class Compacted(MoveResult, kw_only=True, omit_defaults=True):
    """A compaction."""

    tokens_before: Annotated[int, Meta(description="The tokens of the context before.")]
    tokens_after: Annotated[int, Meta(description="The tokens of the context now.")]


@BRANCH.method(
    "Replace the older context by a summary",
    "write",
    core=True,
    json="the whole new entry, not only its uuid; with --plan, the plan",
)
def compact(call: Call, given: Compact) -> Compacted:
    """Replace the older part of the context by a summary; the entries stay in the session.

    Ask `branch.plan` for what to summarize, then give the summary here; or let the built-in
    summarizer write it. Refuses where nothing would be replaced, and a plan that does not fit any
    more.
    \f
    The entries stay in the file and in the tree. By default, about 20,000 tokens at the end of
    the context stay. Without a summary option, the built-in summarizer is used. A context
    of fewer than 20,000 tokens is an exception: without a summary option, the command fails; with
    one, the summary replaces the whole context. To replace a context of any size, give '--keep 0'.

    With --plan, the command prints the text to send to a model, and the command that stores the
    model's answer as the summary. With --json, it also prints the entries that the summary
    replaces.

    \b
    Example:
      sessiontree compact chat.jsonl --instructions "Keep all file names" \\
        --summarizer "claude -p 'Summarize this conversation'"
    """
    _check_one(given.first_kept, given.keep)
    if given.instructions is not None and given.summarizer is None:
        raise Refusal(
            "the built-in summarizer takes no instructions",
            "bad_value",
            "Give `instructions` with `summarizer` or `plan`.",
        )
    summary = given.chosen()
    with _writing(call, given) as session:
        left, first, keep, planned = session.leaf, given.first_kept, given.keep, None
        if given.leaf is not None:
            with session.lane(session.lane_name, at=given.leaf) as then:
                planned = then.compaction_plan(first_kept=first, keep=keep)
            first = keep = None
        entry = session.compact(
            summary, planned, first_kept=first, keep=keep, instructions=given.instructions
        )
        before, after = entry["tokensBefore"], session.context().tokens
        call.wrote(entry, f"Compacted the context from about {before:,} tokens to about {after:,}")
        moved = _moved(call, session, entry, left)
        return Compacted(tokens_before=before, tokens_after=after, **msgspec.structs.asdict(moved))


class Merge(Summarizing):
    ref: Annotated[EntryRef, arg("REF", help="The last entry of the branch to merge.")]


@BRANCH.method("Merge a branch", "write", core=True)
def merge(call: Call, given: Merge) -> MoveResult:
    """Add the entries of another branch to the context of this path, or a summary of them.

    Refuses an entry that is on the path already.
    \f
    After the merge, the context of the current path also has the entries of the other branch,
    from the point where the branches separate, up to REF. With a summary option, the context has a
    summary of these entries instead.
    """
    summary = given.chosen()
    with _writing(call, given) as session:
        left, merged = session.leaf, session.entry(given.ref)
        entry = session.merge(merged, summary)
        call.wrote(entry, "Merged the branch up to {}", merged)
        return _moved(call, session, entry, left)


class CherryPick(Moving):
    ref: Annotated[EntryRef, arg("REF", help="The entry to copy.")]
    source: Annotated[
        Name | None,
        opt(
            "--from", metavar="OTHERFILE", help="The session that has it; by default this session."
        ),
    ] = None


@BRANCH.method("Copy one entry here", "write", core=True)
def cherry_pick(call: Call, given: CherryPick) -> MoveResult:
    """Copy an entry of another branch or session below the leaf.

    Refuses entries that mean something only at their place, such as labels and merges.
    \f
    If REF is a part of a message that was streamed in blocks, the copy is the whole message.
    """
    with contextlib.ExitStack() as opened:
        source = None if given.source is None else opened.enter_context(call.reading(given.source))
        picked = None if source is None else source.entry(given.ref)
        session = opened.enter_context(_writing(call, given))
        left, picked = session.leaf, picked or session.entry(given.ref)
        entry = session.cherry_pick(picked, source)
        call.wrote(entry, "Picked {}", picked)
        return _moved(call, session, entry, left)


class Diff(OfSession):
    one: Annotated[EntryRef, arg("REF", help="The last entry of one branch, or its name.")]
    other: Annotated[
        EntryRef, arg("[OTHER]", help="The last entry of the other; by default the leaf.")
    ] = "@"
    no_pager: NoPager = False


class SideRow(WorkDone, kw_only=True, omit_defaults=True):
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


def _difference(call: Call, given: Diff, found: Comparison) -> Difference:
    cwd = found.cwd
    made = Difference(
        fork=found.fork,
        turn=None if found.turn is None else found.turn.name,
        prompt=None if found.turn is None else found.turn.prompt,
        both_changed=[relative(path, cwd) for path in found.both_changed],
        one=_side(found.one, cwd),
        other=_side(found.other, cwd),
    )
    left = None if not given.budget else room(given.budget) - size(made) - 2 * _MAX_LEFT_OUT
    make = turn_rows(call, cwd, _TURN_WIDTH)
    for row, side in ((made.one, found.one), (made.other, found.other)):
        _add_turns(row, [make(turn) for turn in reversed(side.turns)], left and left // 2)
    return made


@BRANCH.method(
    "Compare two branches",
    core=True,
    json="where the branches separate, and what each did since",
    answer=_difference,
)
def diff(call: Call, given: Diff) -> Comparison:
    """Compare two branches: where they separate, and the turns, files, tokens and costs of each.
    \f
    The command shows where two branches separate. Below, it shows side by side what each branch
    did since: the turns, the calls, the files, the tokens and the cost. A file with = was changed
    on both sides.
    """
    from sessiontree.views.compare import compare  # heavy, and only for this

    def shown(done: int, size: int) -> None:
        call.progress("Reading the session", done, size)

    with call.reading(given.session) as session:
        return compare(session.cursor, session.entry(given.one), session.entry(given.other), shown)


def _side(side: Side, cwd: str | None) -> SideRow:
    return SideRow(
        leaf=side.leaf,
        current=side.current,
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
            more = counted(rest, "earlier turn is", "earlier turns are")
            side.more = f"{more} left out; session.outline lists all"
            return
        side.turns.append(turn)


class Try(OfSession):
    at: Annotated[EntryRef, Meta(description="The entry below which the attempt begins.")] = "@"
    lane: Annotated[
        str | None, Meta(description="The lane whose leaf '@' is; by default main.")
    ] = None


class ScratchLane(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A scratch lane."""

    lane: Annotated[
        str, Meta(description="The parameter `lane` of `node.create_text` and of other methods.")
    ]
    leaf: Annotated[str, Meta(description="The leaf of the lane.")]
    at: Annotated[Row, Meta(description="The entry below which it begins.")]


@BRANCH.method("Begin an attempt on a scratch lane", "write", core=True)
def try_(call: Call, given: Try) -> ScratchLane:
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
        return ScratchLane(lane=trial.lane_name, leaf=mark.uuid, at=row_maker(call, session)(start))


class Keep(OfSession):
    lane: Annotated[str, arg("LANE", help="The lane to join, such as that of `branch.try`.")]
    onto: Annotated[str | None, Meta(description="The lane that goes on; by default main.")] = None


@BRANCH.method("Keep an attempt", "write", core=True)
def keep(call: Call, given: Keep) -> MoveResult:
    """Join a lane: main goes on from its last entry.

    What main got meanwhile stays as a side branch, named by `left`; `branch.merge` adds it. Refuses
    a lane that has no entry or was joined already.
    \f
    The main lane goes on from the last entry of LANE. Entries that were written on main after
    LANE began stay as a side branch. The command prints how to merge the side branch or go back to
    the side branch. If LANE was started from another scratch lane, the command still joins LANE to
    main. The path of main then also has the entries of the other scratch lane above LANE.
    """
    with call.writing(given.session, given.onto) as session:
        before, onto = session.leaf, session.lane_name
        entry = session.keep(given.lane)
        moved = _moved(call, session, entry, before)
        moved.left = entry.get("fromUuid")
        tip = session.reader.skip_markers(entry)
        done = "Joined {} to {}; the next entry on {} goes below {}"
        call.wrote(entry, done, given.lane, onto, onto, tip)
        if moved.left is not None:
            left = session.entry(moved.left)
            call.note("The last entry of {} was {}; it is on a side branch now", onto, left)
            for what, command in (("merge it", "merge"), ("go back to it", "switch")):
                words = shlex.join([command, given.session, left.uuid])
                call.note(f"to {what}: sessiontree {{}}", words)
        return moved


class Lanes(PagedOfSession):
    scratch: Annotated[
        bool | None,
        Meta(description="True: only scratch lanes; False: only other lanes; by default all."),
    ] = None


class LaneSummary(msgspec.Struct, kw_only=True, omit_defaults=True):
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
def lanes(call: Call, given: Lanes) -> Page[LaneSummary]:
    """List the lanes of a session, the one written last first: main, those of agents and attempts.

    Each is a line of entries with a leaf of its own.
    """
    from sessiontree.operations.lanes import listed  # few calls list them

    with call.reading(given.session) as session:
        make = row_maker(call, session)
        found = listed(session.cursor)
        wanted = [row for row in found if given.scratch is None or given.scratch == _is_loose(row)]
        return page_of(
            wanted,
            given,
            lambda row: row.name,
            lambda row: LaneSummary(
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
