"""The namespace `health`: whether sessions are sound, their repair, and the removal of garbage."""

from __future__ import annotations

import platform
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from sessiontree import __version__
from sessiontree.catalog.places import Selection
from sessiontree.catalog.upkeep import repaired, verified
from sessiontree.core.codec import FORMAT
from sessiontree.core.damage import NEXT_STEP, Damage
from sessiontree.core.notes import in_short
from sessiontree.dispatch.budget import Budgeted, Paged, page_of, short_list, size
from sessiontree.dispatch.call import Call, OfSession, PagedOfSession
from sessiontree.dispatch.call import SessionName as Name
from sessiontree.dispatch.namespace import Namespace
from sessiontree.engine.gc import GcResult
from sessiontree.engine.repair import RepairResult
from sessiontree.errors import BlobError
from sessiontree.handles.registry import Registry
from sessiontree.operations.blobs import FAULTS, verify_blobs
from sessiontree.session import Session

HEALTH: Final = Namespace(
    "health", "Whether sessions are sound; the repair of damage, and the removal of garbage."
)

_MOST_LISTED: Final = 20


class Check(Paged):
    """Parameters of `health.check`."""

    session: Annotated[
        Name | None,
        Meta(description="Check this session line by line; by default look at all in short."),
    ] = None


class Finding(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A case of damage."""

    line: Annotated[int, Meta(description="The number of the line, from 1.")]
    offset: Annotated[int, Meta(description="The first byte of the line.")]
    kind: Annotated[str, Meta(description="The kind of damage.")]
    cause: Annotated[str, Meta(description="What is wrong.")]
    next: Annotated[str, Meta(description="What to do.")]
    file: Annotated[str | None, Meta(description="The file, if it is not the session's.")] = None


class Health(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How sessions are, and what reads them."""

    version: Annotated[str, Meta(description="The version of sessiontree.")]
    format: Annotated[str, Meta(description="The format of the files that it writes.")]
    python: Annotated[str, Meta(description="The version of Python.")]
    schema: Annotated[str, Meta(description="The hash of all methods.")]
    problems: Annotated[
        list[str], Meta(description="Why plugins of other packages do not take part.")
    ] = []
    sound: Annotated[bool, Meta(description="Whether nothing is damaged or cannot be read.")]
    places: Annotated[list[str], Meta(description="The folders where sessions are found.")] = []
    sessions: Annotated[int | None, Meta(description="The sessions there.")] = None
    unreadable: Annotated[list[str], Meta(description="What cannot be read there.")] = []
    writes: Annotated[bool, Meta(description="Whether calls may write.")] = False
    file: Annotated[str | None, Meta(description="The file that was checked.")] = None
    notes: Annotated[str, Meta(description="Its lines of types that are not known.")] = ""
    leftovers: Annotated[
        list[str], Meta(description="Files that an interrupted program may have left beside it.")
    ] = []
    items: Annotated[list[Finding], Meta(description="The damage, in the order of the file.")] = []
    more: Annotated[str | None, Meta(description="What is left out, and how to get it.")] = None
    cursor: Annotated[str | None, Meta(description="The cursor of the next findings.")] = None


@HEALTH.method("Check sessions", core=True)
def check(call: Call, given: Check) -> Health:
    """Check one session line by line, or that all sessions can be listed; nothing changes.

    Tells the versions, and which plugins do not take part.
    """
    handles = call.scope.registry or Registry.default()
    handles.schemas()  # which loads each plugin
    made = Health(
        version=__version__,
        format=FORMAT,
        python=platform.python_version(),
        schema=call.catalog.schema,
        problems=[*call.catalog.problems, *map(str, handles.broken)],
        sound=True,
        writes=call.scope.write,
    )
    if given.session is None:
        _check_places(call, made)
    else:
        _check_session(call, given, given.session, made)
    return made


def _check_places(call: Call, made: Health) -> None:
    made.places = call.scope.places
    made.sessions = 0
    problems: list[str] = []
    for _ in call.scope.sessions(Selection(), problems.append):
        made.sessions += 1
        if not made.sessions % 100:
            call.progress(f"Reading sessions: {made.sessions:,}")
    made.sound = not problems
    made.unreadable = problems[:_MOST_LISTED]
    if rest := len(problems) - _MOST_LISTED:
        made.unreadable += [f"and {rest:,} more"] if rest > 0 else []


def _check_session(call: Call, given: Check, name: str, made: Health) -> None:
    file = call.file(name)

    def shown(done: int, size: int) -> None:
        call.progress("Checking the session", done, size)

    with Session.open(file, readonly=True) as session:
        found = verified(session, file, shown)
        made.notes = in_short(session.notes)
    made.file, made.sound = file, not found.damage
    made.leftovers = [*found.strays, *found.unfinished][:_MOST_LISTED]
    page = page_of(
        enumerate(found.damage),
        given,
        lambda each: str(each[0]),
        lambda each: _finding(each[1], file),
        size(made),
    )
    made.items, made.more, made.cursor = page.items, page.more, page.cursor


def _finding(damage: Damage, file: str) -> Finding:
    return Finding(
        line=damage.line,
        offset=damage.offset,
        kind=damage.kind,
        cause=damage.cause,
        next=NEXT_STEP[damage.kind],
        file=None if damage.file == file else damage.file,
    )


class Repair(OfSession):
    """Parameters of `health.repair`."""

    dry_run: Annotated[bool, Meta(description="Only tell what would be repaired.")] = False


class Mended(msgspec.Struct, kw_only=True):
    """A repair."""

    line: Annotated[int, Meta(description="The number of the line, from 1.")]
    offset: Annotated[int, Meta(description="The first byte of the line.")]
    what: Annotated[str, Meta(description="What was done, or would be.")]


class Repaired(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What was repaired."""

    mended: Annotated[int, Meta(description="The number of repairs.")]
    original: Annotated[str | None, Meta(description="The file that keeps the original.")] = None
    remaining: Annotated[
        int, Meta(description="The damage that remains; `health.check` tells it.")
    ] = 0
    items: Annotated[list[Mended], Meta(description="The repairs, in the order of the file.")]
    more: Annotated[str | None, Meta(description="What is left out, and how to get it.")] = None


@HEALTH.method("Repair a session", "write", idempotent=True)
def repair(call: Call, given: Repair) -> Repaired:
    """Repair the damage that needs no guess; the original is kept beside the file.

    Tells what remains. With `dry_run` nothing is written.
    """
    done = _repair(call, given)
    made = Repaired(
        mended=len(done.mended),
        original=None if given.dry_run else done.evidence,
        remaining=len(done.remaining),
        items=[],
    )
    every = [Mended(line=one.line, offset=one.offset, what=one.what) for one in done.mended]
    made.items, made.more = short_list(every, given, size(made))
    return made


def _repair(call: Call, given: Repair) -> RepairResult:
    if given.dry_run:
        with Session.open(call.file(given.session), readonly=True) as session:
            return session.repair(dry_run=True)
    call.scope.check_write()
    file = call.file(given.session)
    return repaired(
        file, lambda: call.warn(f"{file} was of version 1: it was migrated, the original is kept.")
    )


class Gc(Budgeted):
    """Parameters of `health.gc`."""

    session: Annotated[
        Name | None, Meta(description="The session; by default all sessions of the store.")
    ] = None
    dry_run: Annotated[bool, Meta(description="Only tell what would be removed.")] = False


class Garbage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The garbage of a session."""

    file: Annotated[str, Meta(description="The file of the session.")]
    freed: Annotated[int, Meta(description="The bytes that are freed.")]
    entries: Annotated[int, Meta(description="Entries that move to an archive.")] = 0
    archive: Annotated[str | None, Meta(description="The archive.")] = None
    blobs: Annotated[int, Meta(description="Blobs that no entry uses.")] = 0
    others: Annotated[int, Meta(description="Old archives, unfinished and damaged files.")] = 0


class Collected(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The garbage of some sessions."""

    sessions: Annotated[int, Meta(description="How many sessions have garbage.")]
    freed: Annotated[int, Meta(description="The bytes that are freed in all.")]
    items: Annotated[list[Garbage], Meta(description="The sessions with garbage.")]
    more: Annotated[str | None, Meta(description="What is left out, and how to get it.")] = None


@HEALTH.method("Remove garbage", "destroy", idempotent=True)
def gc(call: Call, given: Gc) -> Collected:
    """Remove attempts that nobody kept for seven days, and content that no entry uses.

    Entries move to an archive beside the session, which is removed after thirty days. With
    `dry_run` nothing is removed.
    """
    if not given.dry_run:
        call.scope.check_write()
    found = _of_store(call, given) if given.session is None else _of_session(call, given)
    every = [_garbage(file, result) for file, result in found if not result.is_empty]
    made = Collected(sessions=len(every), freed=sum(one.freed for one in every), items=[])
    made.items, made.more = short_list(every, given, size(made))
    return made


def _of_store(call: Call, given: Gc) -> list[tuple[str, GcResult]]:
    def each(file: str, result: GcResult) -> None:
        call.progress(f"Removing garbage: {file}")

    found = call.scope.store.gc(dry_run=given.dry_run, each=each, report=call.warn)
    return list(found.items())


def _of_session(call: Call, given: Gc) -> list[tuple[str, GcResult]]:
    assert given.session is not None
    opened = call.reading(given.session) if given.dry_run else call.writing(given.session)
    with opened as session:
        return [(session.file or "", session.gc(dry_run=given.dry_run))]


def _garbage(file: str, done: GcResult) -> Garbage:
    return Garbage(
        file=file,
        freed=done.freed,
        entries=len(done.entries),
        archive=done.archive,
        blobs=len(done.blobs),
        others=len(done.archives) + len(done.unfinished) + len(done.aside),
    )


class Blobs(PagedOfSession):
    """Parameters of `health.blobs`."""


class BlobFinding(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A blob that is not sound."""

    sha256: Annotated[str | None, Meta(description="The blob.")] = None
    kind: Annotated[str, Meta(description="'missing', 'damaged', 'unreadable' or 'spilled'.")]
    cause: Annotated[str, Meta(description="What is wrong.")]


class CheckedBlobs(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The blobs of a session."""

    checked: Annotated[int, Meta(description="How many blobs were read.")]
    sound: Annotated[bool, Meta(description="Whether each is there, with the right bytes.")]
    items: Annotated[list[BlobFinding], Meta(description="Those that are not sound.")] = []
    more: Annotated[str | None, Meta(description="What is left out, and how to get it.")] = None
    cursor: Annotated[str | None, Meta(description="The cursor of the next findings.")] = None


@HEALTH.method("Check the blobs of a session")
def blobs(call: Call, given: Blobs) -> CheckedBlobs:
    """Read every blob of a session, and tell those that are missing or damaged."""
    with call.reading(given.session) as session:
        found, checked = verify_blobs(session.reader)
    made = CheckedBlobs(checked=checked, sound=not found)
    page = page_of(
        enumerate(found),
        given,
        lambda each: str(each[0]),
        lambda each: _blob_finding(each[1]),
        size(made),
    )
    made.items, made.more, made.cursor = page.items, page.more, page.cursor
    return made


def _blob_finding(error: BlobError) -> BlobFinding:
    return BlobFinding(sha256=error.sha256, kind=FAULTS[type(error)], cause=str(error))
