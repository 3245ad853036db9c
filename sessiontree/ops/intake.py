"""Methods of the namespace `session` that bring sessions in, and hand them to an agent."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from sessiontree.agents import NAMES, AgentName, command_of
from sessiontree.core.entry import MAIN
from sessiontree.errors import NothingToDoError, RefError, SessionTreeError
from sessiontree.importing.importer import Batch, Importer, ImportResult
from sessiontree.library import lookup
from sessiontree.library.listing import facts_of
from sessiontree.library.places import Selection, conversations_in, in_order
from sessiontree.library.resume import maker_of, plan
from sessiontree.ops.budget import Budgeted, short_list, size
from sessiontree.ops.field import opt
from sessiontree.ops.guidance import Refusal, ambiguous
from sessiontree.ops.operation import SESSION
from sessiontree.ops.params import Call, LaneName, OfSession
from sessiontree.ops.params import SessionName as Name
from sessiontree.recording.events import MessageCount
from sessiontree.recording.recorder import StreamAccumulator, header_facts
from sessiontree.session import Session

_MAX_TOLD: Final = 20


class Import(Budgeted):
    sources: Annotated[
        list[str],
        Meta(
            min_length=1,
            description="Paths of session files of agents, or of folders of such files; or ids or "
            "names of sessions of agents.",
            examples=[["latest"]],
        ),
    ]
    dry_run: Annotated[bool, opt("--dry-run", help="Only report what would be imported.")] = False


class Imported(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A session that was imported."""

    id: Annotated[str, Meta(description="The id of the session.")]
    file: Annotated[str, Meta(description="The file in the store.")]
    source: Annotated[str, Meta(description="The file that was imported.")]
    agent: Annotated[str | None, Meta(description="The agent that wrote it.")] = None
    new: Annotated[int, Meta(description="The entries that were added.")] = 0
    made: Annotated[bool, Meta(description="Whether the session is new in the store.")] = False
    damage: Annotated[int, Meta(description="How many places of the source are damaged.")] = 0


class Imports(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What was imported."""

    imported: Annotated[int, Meta(description="The sessions that are new in the store.")]
    updated: Annotated[int, Meta(description="Those that got new entries.")]
    same: Annotated[int, Meta(description="Those that were up to date.")]
    new: Annotated[int, Meta(description="The entries that were added in all.")]
    items: Annotated[list[Imported], Meta(description="The sessions, those up to date last.")]
    more: Annotated[str | None, Meta(description="What is left out, and how to get it.")] = None


@SESSION.method("Import sessions of agents", "write", idempotent=True, core=True)
def import_(call: Call, given: Import) -> Imports:
    """Convert sessions of known agents to sessions of the store; again, it adds what is new.

    The agents' files do not change. What a stopped call has imported stays. With `dry_run` nothing
    is written.
    """
    if not given.dry_run:
        call.scope.check_write()
    paths = [_source(call, source) for source in given.sources]
    failed: list[str] = []

    def fail(error: SessionTreeError) -> None:
        failed.append(str(error))

    def shown(done: float, size: int, name: str) -> None:
        call.progress(f"Importing {name}", done, size)

    scope = call.scope
    importer = Importer(scope.store.root, by_project=True, reaches=scope.reaches)
    batch = Batch(importer, paths, fail, dry_run=given.dry_run)
    found = list(batch.results(shown))
    if not found and batch.failed:
        raise NothingToDoError("; ".join([*failed, *batch.left_out][:_MAX_TOLD]))
    for kind, told in (("Failed", failed), ("Left out", batch.left_out), ("Warning", batch.shared)):
        _tell(call, kind, told)
    found.sort(key=lambda result: result.is_up_to_date)
    made = Imports(
        imported=batch.imported, updated=batch.updated, same=batch.same, new=batch.new, items=[]
    )
    made.items, made.more = short_list(list(map(_imported, found)), given, size(made))
    return made


def _source(call: Call, source: str) -> str:
    """The path of a file or a folder to import; a name or an id is that of a session of an agent.

    Raises:
        Refusal: the path is outside the scope, or no agent has such a session.
    """
    if os.sep in source or os.path.lexists(source):
        return call.scope.inside(source)
    scope = call.scope
    theirs = conversations_in(scope.agents, Selection(), call.warn, scope.reaches)
    try:
        found = lookup.find(source, in_order(theirs, "modified"), "of an agent", "session.list")
    except RefError as error:
        next = "Give a path, or the id of a session of an agent; session.list shows them."
        if error.candidates:
            raise ambiguous(error, next) from None
        raise Refusal(str(error), "session_not_found", next) from None
    return scope.inside(found.file)


def _tell(call: Call, kind: str, told: Sequence[str]) -> None:
    for text in told[:_MAX_TOLD]:
        call.warn(f"{kind}: {text}")
    if len(told) > _MAX_TOLD:
        call.warn(f"{kind}: and {len(told) - _MAX_TOLD:,} more")


def _imported(result: ImportResult) -> Imported:
    return Imported(
        id=result.id,
        file=result.file,
        source=result.source,
        agent=result.agent,
        new=result.new,
        made=result.made,
        damage=len(result.damage),
    )


class Record(Budgeted):
    events: Annotated[
        list[dict[str, Any] | str],
        Meta(
            min_length=1,
            description="The events of the stream-JSON of Claude Code, in order, each as an object "
            "or as its line.",
            examples=[[{"type": "user", "message": {"role": "user", "content": "…"}}]],
        ),
    ]
    session: Annotated[
        Name | None, Meta(description="The session to record into; by default a new one.")
    ] = None
    prompt: Annotated[
        str | None,
        opt("--prompt", metavar="TEXT", help="The prompt, if it is not in the stream."),
    ] = None
    granularity: Annotated[
        Literal["block", "message"],
        opt("--granularity", help="Store each block, or each whole message, once it is complete."),
    ] = "block"
    lane: LaneName | None = None
    scratch: Annotated[
        bool, opt("--scratch", help="Record on a new scratch lane, dropped unless it is kept.")
    ] = False


class Recorded(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What was recorded."""

    id: Annotated[str, Meta(description="The id of the session.")]
    file: Annotated[str | None, Meta(description="Its file.")] = None
    lane: Annotated[str, Meta(description="The lane of the agent.")]
    leaf: Annotated[str, Meta(description="The last entry, where the session goes on.")]
    messages: Annotated[int, Meta(description="The messages of the model that were recorded.")] = 0
    known: Annotated[int, Meta(description="The events that were understood.")] = 0


@SESSION.method("Record the events of an agent", "write", idempotent=True)
def record(call: Call, given: Record) -> Recorded:
    """Store the stream of a coding agent, as far as it came; what was recorded before counts once.

    A stream may come in several calls. What is not understood is kept unchanged. A call that is
    stopped keeps what it stored.
    """
    call.scope.check_write()
    with ExitStack() as stack:
        session = _to_record(call, given, stack)
        counted = MessageCount()
        accumulator = StreamAccumulator(session, granularity=given.granularity, prompt=given.prompt)
        try:
            for number, event in enumerate(given.events):
                call.progress("Recording", number, len(given.events))
                made = (
                    accumulator.feed(event.rstrip("\n") + "\n")
                    if isinstance(event, str)
                    else accumulator.take(event)
                )
                counted.take(made)
        finally:
            counted.take(accumulator.close())
        if not accumulator.recognized:
            call.warn(
                "Nothing in the stream was understood; it is kept as it came. session.record takes "
                "the stream-JSON of Claude Code; session.import takes files of agents."
            )
        return Recorded(
            id=session.id,
            file=session.file,
            lane=session.lane_name,
            leaf=accumulator.head.uuid,
            messages=counted.messages,
            known=accumulator.recognized,
        )


def _to_record(call: Call, given: Record, stack: ExitStack) -> Session:
    if given.session is not None:
        writing = call.writing(given.session, given.lane, scratch=given.scratch)
        return stack.enter_context(writing)
    lane = MAIN if given.lane is None else given.lane
    is_main = lane == MAIN and not given.scratch
    facts = header_facts(_head(given.events[0]), is_main=is_main)
    made = call.scope.store.create(lane=lane, **facts)
    session = stack.enter_context(made)
    return stack.enter_context(session.scratch()) if given.scratch else session


def _head(event: dict[str, Any] | str) -> bytes:
    """The first line of a stream, as far as it can be written."""
    if isinstance(event, str):
        return event.encode(errors="replace")
    try:
        return msgspec.json.encode(event)
    except (UnicodeEncodeError, OverflowError):
        return b""


class CommandToResume(OfSession):
    agent: Annotated[
        AgentName | None,
        opt(
            "--in",
            choices=NAMES,
            help="The agent that continues it; by default the session's own.",
        ),
    ] = None
    cwd: Annotated[
        str | None,
        opt(
            "--cwd",
            metavar="DIR",
            kind="path",
            help="The directory to continue in; by default the session's own.",
        ),
    ] = None


class ResumeCommand(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How an agent goes on with a session."""

    line: Annotated[str, Meta(description="The command for a shell.")]
    command: Annotated[list[str], Meta(description="The words of the command.")]
    setup: Annotated[
        list[str], Meta(description="The words of a command to run before it, if there is one.")
    ] = []
    cwd: Annotated[str, Meta(description="The directory to run it in.")]
    agent: Annotated[str, Meta(description="The agent.")]
    file: Annotated[str, Meta(description="The session file that the agent goes on with.")]
    converted: Annotated[bool, Meta(description="Whether that file was made for the agent.")] = (
        False
    )
    lost: Annotated[list[str], Meta(description="What the agent cannot keep.")] = []
    warnings: Annotated[list[str], Meta(description="What may go wrong.")] = []


@SESSION.method("Hand a session to an agent", "write", core=True, read_alone=True)
def resume_command(call: Call, given: CommandToResume) -> ResumeCommand:
    """Give the command by which an agent goes on with a session; nothing is run.

    An agent goes on with its own session as it is. For another agent a converted copy is written
    where that agent keeps its sessions; that is refused where calls only read.
    """
    one = facts_of(call.file(given.session))
    if given.agent is None and maker_of(one)[0] is None:
        raise Refusal(
            f"{one.id} is the session of no agent that can go on with it",
            "bad_value",
            "Give `agent`: the agent that goes on with it.",
            NAMES,
        )
    found = plan(
        one,
        given.agent,
        given.cwd,
        converts=lambda home: _check_converts(call, home),
        reaches=call.scope.is_inside,
    )
    warnings = list(found.warnings)
    if shutil.which(program := command_of(found.agent)) is None:
        warnings.append(f"{program!r} is not on the PATH")
    return ResumeCommand(
        line=found.line,
        command=found.command,
        setup=list(found.setup),
        cwd=found.cwd,
        agent=found.agent,
        file=found.file,
        converted=found.is_converted,
        lost=[str(loss) for loss in found.losses],
        warnings=warnings,
    )


def _check_converts(call: Call, home: str) -> None:
    call.scope.check_write()
    call.scope.local(home)
