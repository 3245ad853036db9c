"""Methods of the namespace `session` that name sessions, and put them away and back."""

from __future__ import annotations

import os
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sessiontree.catalog.empty import RemovedSession
from sessiontree.dispatch.budget import Budgeted, Page, Paged, page_of, short_list, size
from sessiontree.dispatch.call import Call, OfSession
from sessiontree.dispatch.guidance import Refusal, ambiguous
from sessiontree.dispatch.namespaces.session import (
    SESSION,
    SessionRow,
    moment_of_parameter,
    row_of_session,
)
from sessiontree.errors import RefError
from sessiontree.storage.place import whole_path


class Rename(OfSession):
    """Parameters of `session.rename`."""

    name: Annotated[str, Meta(description="The new name, on one line.")]


class Noted(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a session is called, and what is known about it."""

    id: Annotated[str, Meta(description="The id of the session.")]
    name: Annotated[str | None, Meta(description="Its name now.")] = None
    metadata: Annotated[dict[str, Any], Meta(description="Its metadata now.")] = {}


@SESSION.method("Name a session", "write", idempotent=True, core=True)
def rename(call: Call, given: Rename) -> Noted:
    """Give a session a name, by which other methods find it, too."""
    with call.writing(given.session) as session:
        session.rename(given.name)
        return Noted(id=session.id, name=session.name)


class Metadata(OfSession):
    """Parameters of `session.metadata`."""

    facts: Annotated[
        dict[str, Any],
        Meta(description="The facts to set; a fact that is not named stays as it is."),
    ]


@SESSION.method("Set facts of a session", "write", idempotent=True)
def metadata(call: Call, given: Metadata) -> Noted:
    """Set facts of the metadata of a session; `session.show` reads them."""
    with call.writing(given.session) as session:
        session.update_metadata(**given.facts)
        return Noted(id=session.id, name=session.name, metadata=session.metadata)


class Trash(OfSession):
    """Parameters of `session.trash`."""


class Put(msgspec.Struct, kw_only=True):
    """A session that was moved."""

    before: Annotated[str, Meta(description="The path that its file had.")]
    file: Annotated[str, Meta(description="The path of its file now.")]


@SESSION.method("Move a session to the trash", "write")
def trash(call: Call, given: Trash) -> Put:
    """Move a session of the store to the trash; `session.restore` brings it back.

    Refuses the session of an agent, which lies outside the store.
    """
    call.scope.check_write()
    file = call.file(given.session)
    if not call.scope.is_in_store(file):
        raise Refusal(
            f"{file} lies outside the store: an agent keeps it",
            "outside",
            "Leave it to its agent; session.trash takes a session of the store.",
        )
    return Put(before=file, file=call.scope.store.trash(file))


class Trashed(Paged):
    """Parameters of `session.trashed`."""


@SESSION.method("List the trash")
def trashed(call: Call, given: Trashed) -> Page[SessionRow]:
    """List the sessions in the trash of the store, the one that was put there last first."""
    found = call.scope.store.trashed(report=call.warn)
    return page_of(
        found, given, lambda one: one.file, lambda one: row_of_session(one, is_alone=False)
    )


class Restore(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Parameters of `session.restore`."""

    session: Annotated[
        str,
        Meta(
            description="The session in the trash: its id, the start of it, its name, the path of "
            "its file there, or 'latest' for the one trashed last.",
            examples=["latest"],
        ),
    ]


@SESSION.method("Bring a session back from the trash", "write")
def restore(call: Call, given: Restore) -> Put:
    """Move a session from the trash of the store back to where it was.

    Refuses where another file has that place now.
    """
    call.scope.check_write()
    store = call.scope.store
    if os.sep in given.session:
        file = whole_path(call.scope.inside(given.session))
    else:
        try:
            file = store.find_trashed(given.session, report=call.warn)
        except RefError as error:
            next = "Give an id or a path that session.trashed lists."
            if error.candidates:
                raise ambiguous(error, next) from None
            raise Refusal(
                f"no session in the trash is named {given.session!r:.100}",
                "session_not_found",
                next,
            ) from None
    return Put(before=file, file=store.restore(file))


class EmptyTrash(Budgeted):
    """Parameters of `session.empty_trash`."""

    older_than: Annotated[
        str,
        Meta(
            description="What was trashed before this time is removed: a date, or how long ago.",
            examples=["30d"],
        ),
    ]
    dry_run: Annotated[bool, Meta(description="Only tell what would be removed.")] = False


class Emptied(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What was removed from the trash."""

    sessions: Annotated[int, Meta(description="How many sessions were removed.")]
    freed: Annotated[int, Meta(description="The bytes of their files.")]
    items: Annotated[list[str], Meta(description="The paths that they had in the trash.")]
    more: Annotated[str | None, Meta(description="What is left out, and how to get it.")] = None


@SESSION.method("Empty the trash", "destroy", idempotent=True)
def empty_trash(call: Call, given: EmptyTrash) -> Emptied:
    """Remove sessions from the trash for good, with all their files. They cannot be restored.

    With `dry_run` nothing is removed.
    """
    if not given.dry_run:
        call.scope.check_write()
    before = moment_of_parameter("older_than", given.older_than)
    assert before is not None

    def each(one: RemovedSession) -> None:
        if given.dry_run:
            call.check()
        else:
            call.progress(f"Removed {os.path.basename(one.file)}")

    removed = call.scope.store.empty_trash(
        older_than=before, dry_run=given.dry_run, each=each, report=call.warn
    )
    made = Emptied(sessions=len(removed), freed=sum(one.bytes for one in removed), items=[])
    made.items, made.more = short_list([one.file for one in removed], given, size(made))
    return made


class MoveProject(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Parameters of `session.move_project`."""

    old: Annotated[str, Meta(description="The old path of the working directory.")]
    new: Annotated[str, Meta(description="Its new path.")]


class MovedSessions(msgspec.Struct, kw_only=True):
    """Sessions that were moved."""

    moved: Annotated[int, Meta(description="How many sessions were moved.")]


@SESSION.method("Move the sessions of a renamed directory", "write")
def move_project(call: Call, given: MoveProject) -> MovedSessions:
    """Move the sessions of a renamed working directory to its new path, in the store.

    Refuses relative paths, a directory without sessions, and one with a session that a program
    holds.
    """
    call.scope.check_write()
    for path in (given.old, given.new):
        if not os.path.isabs(path):
            raise Refusal(
                f"{path!r:.200} is a relative path",
                "bad_value",
                "Give both paths from the root on; session.list shows the directories.",
            )
    return MovedSessions(moved=call.scope.store.move_project(given.old, given.new))
