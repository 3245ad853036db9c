"""One session: its facts, its opening, its upkeep, and the garbage of many.

Garbage is removed from one session after the other. Each is read first, and opened to write only if
it has garbage: so no lock file is made beside the others, and no writer of theirs waits.

Invariant: a file of version 1 that lies where an agent keeps its sessions is never migrated.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from sessiontree.context.settings import header_settings
from sessiontree.core.damage import Damage, Note, damage_row
from sessiontree.core.entry import MAIN, decode_object
from sessiontree.core.header import AGENT_SESSION_KEY, is_version_1
from sessiontree.engine.gc import GcResult
from sessiontree.engine.opening import Migrate, sniff_file
from sessiontree.engine.repair import Progress, RepairResult, never_written
from sessiontree.errors import (
    ForeignFormatError,
    MigrationRefusedError,
    MissingHeaderError,
    SessionTreeError,
    StorageError,
    TooMuchError,
    UsageError,
)
from sessiontree.library.conversations import continuations
from sessiontree.library.listing import SessionInfo, facts_of
from sessiontree.session import Session, repair_file
from sessiontree.storage.atomic import strays
from sessiontree.storage.fs import DISK, FileSystem
from sessiontree.storage.lines import ends_of
from sessiontree.storage.names import Report
from sessiontree.storage.places import open_log
from sessiontree.views.tree import count_branches

if TYPE_CHECKING:
    from sessiontree.handles.registry import Registry
    from sessiontree.views.turns import SessionOutline


class SessionFacts(msgspec.Struct, frozen=True, rename="camel"):
    """The facts about one session."""

    file: Annotated[str | None, Meta(description="The path of its file.")]
    id: Annotated[str, Meta(description="Its id.")]
    name: Annotated[str | None, Meta(description="Its name.")]
    cwd: Annotated[Any, Meta(description="Its working directory, as the header has it.")]
    created: Annotated[str | None, Meta(description="The time in the header.")]
    entries: Annotated[int, Meta(description="Its entries, with the header.")]
    branches: Annotated[
        int, Meta(description="Its branches, without scratch lanes that were never kept.")
    ]
    lanes: Annotated[list[str], Meta(description="The names of its lanes.")]
    leaf: Annotated[str, Meta(description="The uuid of its current leaf.")]
    model: Annotated[
        Mapping[str, Any] | None, Meta(description="The model at the leaf, or of the metadata.")
    ]
    agent_session: Annotated[Any, Meta(description="The agent's own id of the session.")]
    parent_session: Annotated[Any, Meta(description="The session that it is a copy of, as stored.")]
    metadata: Annotated[dict[str, Any], Meta(description="Its metadata.")]
    damage: Annotated[
        list[dict[str, str | int]],
        Meta(description="What is wrong with the file, each with the next step."),
    ]
    notes: Annotated[list[Note], Meta(description="The lines of unknown types, one note a type.")]


def facts_about(session: Session, report: Report) -> SessionFacts:
    """The facts about a session; `report` is called if its context is too large to read."""
    tree, metadata = session.reader.index(), session.metadata
    return SessionFacts(
        file=session.file,
        id=session.id,
        name=session.name,
        cwd=session.header.get("cwd"),
        created=session.header.timestamp,
        entries=len(tree),
        branches=count_branches(session.reader),
        lanes=[lane or MAIN for lane in tree.lanes],
        leaf=session.leaf.uuid,
        model=_model(session, report) or header_settings({"metadata": metadata}).get("model"),
        agent_session=metadata.get(AGENT_SESSION_KEY),
        parent_session=session.header.get("parentSession"),
        metadata=metadata,
        damage=[damage_row(found) for found in session.damage],
        notes=session.notes,
    )


def _model(session: Session, report: Report) -> Mapping[str, Any] | None:
    """The model at the leaf; None, with a report, where the context is too much."""
    try:
        return session.context().model
    except TooMuchError as error:
        report(str(error))
        return None


def with_agent(outline: SessionOutline, session: Session) -> SessionOutline:
    """The outline with the agent that a file of version 1 belongs to, as a list says it."""
    if outline.agent is not None or session.file is None:
        return outline
    header = decode_object(session.original(session.header))
    if not is_version_1(header):
        return outline
    from sessiontree.library.homes import agent_of_version_1  # few files are of version 1

    return replace(outline, agent=agent_of_version_1(session.file, header))


def as_listed(outline: SessionOutline, row: SessionInfo | None) -> SessionOutline:
    """The outline with what a list has of the conversation that its file is a row of.

    That is the name, which may be given to an import of an agent's file, and the turns that other
    copies have. Without a row, the file was named by its path, and counts alone.
    """
    if row is None:
        return outline
    if row.name is not None and row.name != outline.name:
        outline = replace(outline, name=row.name, title=row.title)
    if not (others := continuations(row)):
        return outline
    from sessiontree.library.spending import turns_in  # few sessions are of several files

    whole = turns_in(row)
    if whole <= outline.last_number:
        return outline
    return replace(outline, turns_in_all=whole, others=tuple(one.file for one in others))


def open_to_write(
    file: str,
    lane: str,
    hooks: Sequence[Any] = (),
    migrate: Migrate = "later",
    registry: Registry | None = None,
) -> tuple[Session, bool]:
    """Open a session to write, and say whether the file is of version 1, and may be migrated.

    Raises:
        ForeignFormatError: a version 1 file that lies where an agent keeps its sessions.
        SessionTreeError: any error of `Session.open`.
    """
    try:
        opened = Session.open(file, lane=lane, migrate=False, hooks=hooks, registry=registry)
    except MigrationRefusedError:
        from sessiontree.library.homes import check_not_of_agent  # few files are of version 1

        check_not_of_agent(file)
        return Session.open(file, lane=lane, migrate=migrate, hooks=hooks, registry=registry), True
    return opened, False


def opened_by_ends(file: str) -> Session | None:
    """A session with the last turns of a file; None if opening the file is as fast, or fails.

    The prompts and answers of its turns are those of the file. So are the uuids, except those that
    are made of the number of a line, as for Codex. It lacks what is above the turns and beside the
    file, such as subagents, and it does not grow.
    """
    from sessiontree.views.turns import latest  # few sessions are opened by their ends

    for size in (1 << 20, 1 << 24):  # the bytes at the end that have a turn are enough
        ends = ends_of(file, size)
        if ends is None:
            continue
        try:
            if facts_of(file).agent is None:
                return None
            session = Session.open(file, readonly=True, fs=ends)
        except (SessionTreeError, OSError):  # opening all of the file reports it
            return None
        if any(turn.prompt is not None for turn in latest(session.cursor)):
            return session
        session.close()
    return None


class FileCheck(NamedTuple):
    """What a look at a whole file found."""

    damage: list[Damage]  # in file order
    strays: list[str]  # files beside it that an interrupted program may have left
    unfinished: list[str]  # names of blobs that it may have left


def verified(
    session: Session, file: str, progress: Progress, processes: int | None = None
) -> FileCheck:
    """Read a whole file and check each reference; see `Session.verify`."""
    damage = session.verify(progress, processes=processes)
    left = strays(DISK, file)
    unfinished: list[str] = []
    with contextlib.suppress(StorageError):  # which is among the findings
        unfinished = session.blobs.unfinished()
    return FileCheck(damage, left, unfinished)


def repaired(file: str, migrated: Callable[[], object], *, relink: bool = False) -> RepairResult:
    """Repair a file, also one that must be migrated first or that has lost its header.

    `migrated` is called when a file of version 1 was migrated. For `relink` see `Session.repair`.
    """
    try:
        session, is_old = open_to_write(file, MAIN, migrate=True)
    except MissingHeaderError:
        return repair_file(file, relink=relink)
    except ForeignFormatError as error:
        with contextlib.closing(open_log(DISK, file, readonly=True)) as log:
            if sniff_file(log).kind == "version 1":  # no copy is made of it
                raise
        raise never_written(error.file, error.agent) from None
    if is_old:
        migrated()
    with session, session.writer.at_tip():
        return session.repair(relink=relink)


def collected(
    fs: FileSystem, files: Iterable[str], now: datetime | None, report: Report, *, dry_run: bool
) -> Iterator[tuple[str, GcResult]]:
    """Remove the garbage of each session; yield its path and what was removed.

    A session whose garbage cannot be removed is reported, and left out.
    """
    if now is not None and now.tzinfo is None:
        raise UsageError(f"now is a time with a time zone, not {now}")
    for file in files:
        try:
            result = _collect(fs, file, now, dry_run=dry_run)
        except SessionTreeError as error:
            report(str(error))
            continue
        yield file, result


def _collect(fs: FileSystem, file: str, now: datetime | None, *, dry_run: bool) -> GcResult:
    with Session.open(file, readonly=True, fs=fs) as session:
        found = session.gc(dry_run=True, now=now)
    if dry_run or found.is_empty:
        return found
    with Session.open(file, migrate=False, fs=fs) as session:
        return session.gc(now=now)
