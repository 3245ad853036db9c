"""The namespace `health`: whether sessions are sound, their repair, and the removal of garbage."""

from __future__ import annotations

import platform
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from sessiontree import __version__
from sessiontree.core.codec import FORMAT
from sessiontree.core.damage import NEXT_STEP, Damage, in_short
from sessiontree.engine.gc import GcResult
from sessiontree.engine.repair import RepairedLine, RepairResult
from sessiontree.errors import BlobError, UsageError
from sessiontree.handles.registry import Registry
from sessiontree.library.one import repaired, verified
from sessiontree.library.places import Selection
from sessiontree.operations.copy import FAULTS, verify_blobs
from sessiontree.ops.budget import Budgeted, Paged, page_of, short_list, size
from sessiontree.ops.field import arg, only_for_people, opt
from sessiontree.ops.guidance import Refusal
from sessiontree.ops.operation import Namespace
from sessiontree.ops.params import FORMS_OF_TIME, Call, OfSession, PagedOfSession
from sessiontree.ops.params import SessionName as Name
from sessiontree.session import Session, repair_file

HEALTH: Final = Namespace(
    "health", "Whether sessions are sound; the repair of damage, and the removal of garbage."
)

_MAX_LISTED: Final = 20


class Check(Paged):
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
    made.unreadable = problems[:_MAX_LISTED]
    if rest := len(problems) - _MAX_LISTED:
        made.unreadable += [f"and {rest:,} more"] if rest > 0 else []


def _check_session(call: Call, given: Check, name: str, made: Health) -> None:
    file = call.file(name)

    def shown(done: int, size: int) -> None:
        call.progress("Checking the session", done, size)

    with Session.open(file, readonly=True) as session:
        found = verified(session, file, shown)
        made.notes = in_short(session.notes)
    made.file, made.sound = file, not found.damage
    made.leftovers = [*found.strays, *found.unfinished][:_MAX_LISTED]
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
    dry_run: Annotated[bool, opt("--dry-run", help="Only report what would be repaired.")] = False
    relink: Annotated[
        bool,
        opt("--relink", help="Join an entry whose parent is missing to the entry before it."),
    ] = False
    out: Annotated[
        str | None,
        opt(
            *("-o", "--output"),
            metavar="NEW",
            kind="path",
            help="Of an agent's file: write a sound copy, which the agent opens, to NEW.",
            examples=["mended.jsonl"],
        ),
    ] = None


class Repaired(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What was repaired."""

    mended: Annotated[int, Meta(description="The number of repairs.")]
    original: Annotated[str | None, Meta(description="The file that keeps the original.")] = None
    remaining: Annotated[
        int, Meta(description="The damage that remains; `health.check` tells it.")
    ] = 0
    items: Annotated[list[RepairedLine], Meta(description="The repairs, in the order of the file.")]
    more: Annotated[str | None, Meta(description="What is left out, and how to get it.")] = None


def _repaired(call: Call, given: Repair, done: RepairResult) -> Repaired:
    made = Repaired(
        mended=len(done.mended),
        original=None if given.dry_run else done.evidence,
        remaining=len(done.remaining),
        items=[],
    )
    made.items, made.more = short_list(done.mended, given, size(made))
    return made


@HEALTH.method(
    "Repair a session",
    "write",
    idempotent=True,
    json="what was repaired, where the original is, and what damage remains",
    answer=_repaired,
)
def repair(call: Call, given: Repair) -> RepairResult:
    """Repair the damage that needs no guess; the original is kept beside the file.

    Tells what remains. With `dry_run` nothing is written.
    \f
    Removes NUL bytes, blank lines, and incomplete lines of an interrupted write. Splits joined
    lines, adds lines without a uuid to the tree, and writes a lost header again. The exit code is 1
    if damage remains.

    A file of an agent stays as it is. With -o, its copy has each entry on a line of its own, joined
    to the entry before it if its parent is missing. Fragments, copies of lines, and results without
    their call are left out; lone surrogates and invalid UTF-8 become U+FFFD. A lost header is
    written again. Each change is listed. End the agent's program before you put NEW in the place of
    FILE.
    """
    if given.dry_run:
        if given.out is not None:
            raise UsageError("-o writes a file, and --dry-run writes none: give one of them")
        with Session.open(call.file(given.session), readonly=True) as session:
            return session.repair(dry_run=True, relink=given.relink)
    call.check_write()
    file = call.file(given.session)
    if given.out is not None:
        return repair_file(file, call.new_file(given.out))
    return repaired(file, lambda: call.migrated(file), relink=given.relink)


class Gc(Budgeted):
    session: Annotated[
        Name | None,
        arg("[FILE]", help="The session; without it, all sessions of the store."),
    ] = None
    dry_run: Annotated[bool, opt("--dry-run", help="Only report what would be removed.")] = False
    store: Annotated[
        str | None,
        opt(
            "--store",
            metavar="[DIR|URL]",
            kind="store",
            help="Without FILE: all sessions in the folder DIR or at the address [default: the "
            "store]. With FILE: the store that it is in.",
        ),
        only_for_people,
    ] = None
    as_of: Annotated[
        Any,
        opt(
            "--as-of",
            metavar="TIME",
            kind="time",
            help=f"Use this time as the current time: {FORMS_OF_TIME}",
        ),
        only_for_people,
    ] = None


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


class StoreGarbage(NamedTuple):
    """The garbage of the sessions of a store."""

    root: str
    sessions: int  # how many were looked at
    found: dict[str, GcResult]  # by the files of the sessions that have garbage
    problems: list[str]  # why the garbage of others cannot be removed


def _collected(call: Call, given: Gc, done: GcResult | StoreGarbage) -> Collected:
    if isinstance(done, StoreGarbage):
        every = [_garbage(file, result) for file, result in done.found.items()]
        for problem in done.problems:
            call.warn(problem)
    else:
        assert given.session is not None
        every = [] if done.is_empty else [_garbage(call.file(given.session), done)]
    made = Collected(sessions=len(every), freed=sum(one.freed for one in every), items=[])
    made.items, made.more = short_list(every, given, size(made))
    return made


@HEALTH.method(
    "Remove garbage",
    "destroy",
    idempotent=True,
    json="what was removed, and the bytes freed; without FILE, a list with the path of each",
    answer=_collected,
)
def gc(call: Call, given: Gc) -> GcResult | StoreGarbage:
    """Remove attempts that nobody kept for seven days, and content that no entry uses.

    Entries move to an archive beside the session, which is removed after thirty days. With
    `dry_run` nothing is removed.
    \f
    \b
    - If a scratch lane was not kept, gc moves its entries to an archive beside the file.
      An entry is moved when the entry and all entries below it are seven days old.
    - An archive is removed after thirty days.
    - A blob that no entry uses is removed after seven days.
    - An unfinished blob of an interrupted program is removed after seven days.
    - When the content of a damaged blob is stored again, the damaged file gets another
      name. gc removes that file after thirty days.

    Without FILE, gc prints one line for each session that has something to remove. If gc fails for
    a session, it goes on with the other sessions, and the exit code is 1.
    """
    if not given.dry_run:
        call.check_write()
    if given.session is None:
        return _of_store(call, given)
    if given.store == "":
        next = "Give FILE, or --store without it for all sessions of the store"
        raise Refusal("there are two things to collect", "bad_value", next)
    opened = call.reading(given.session) if given.dry_run else call.writing(given.session)
    with opened as session:
        return session.gc(dry_run=given.dry_run, now=given.as_of)


def _of_store(call: Call, given: Gc) -> StoreGarbage:
    store, count, problems = call.store, 0, list[str]()

    def each(file: str, result: GcResult) -> None:
        nonlocal count
        count += 1
        call.progress(f"Removing garbage: {file}", count)

    found = store.gc(now=given.as_of, dry_run=given.dry_run, each=each, report=problems.append)
    return StoreGarbage(store.root, count, found, problems)


def _garbage(file: str, done: GcResult) -> Garbage:
    return Garbage(
        file=file,
        freed=done.freed,
        entries=len(done.entries),
        archive=done.archive,
        blobs=len(done.blobs),
        others=len(done.archives) + len(done.unfinished) + len(done.aside),
    )


class HealthBlobs(PagedOfSession):
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
def blobs(call: Call, given: HealthBlobs) -> CheckedBlobs:
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
