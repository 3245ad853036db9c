"""The namespace `tree`: a session as a tree of entries."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from sessiontree.core.display import printable
from sessiontree.dispatch.budget import Page, page
from sessiontree.dispatch.call import Call, EntryRef, OfSession, PagedOfSession
from sessiontree.dispatch.namespace import Namespace
from sessiontree.operations.rows import TreeRow

TREE: Final = Namespace("tree", "A session as a tree of entries: make, read, draw and copy it.")


class Create(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Parameters of `tree.create`."""

    cwd: Annotated[
        str | None, Meta(description="The working directory of the session; by default this one.")
    ] = None
    name: Annotated[str | None, Meta(description="The name of the session.")] = None


class Made(msgspec.Struct):
    """A new session."""

    id: Annotated[str, Meta(description="The id of the session.")]
    file: Annotated[str, Meta(description="The path of its file.")]


@TREE.method("Create a session", "write")
def create(call: Call, given: Create) -> Made:
    """Create an empty session in the store."""
    call.scope.check_write()
    with call.scope.store.create(cwd=given.cwd) as session:
        if given.name is not None:
            session.rename(given.name)
        assert session.file is not None
        return Made(session.id, session.file)


class Render(PagedOfSession):
    """Parameters of `tree.render`."""

    all: Annotated[
        bool, Meta(description="Draw every entry, not only prompts, answers and branches.")
    ] = False


class Drawing(msgspec.Struct, omit_defaults=True):
    """A drawing of a tree."""

    text: Annotated[str, Meta(description="The drawing, a row a line.")]
    more: Annotated[str | None, Meta(description="What is left out, and how to get it.")] = None
    cursor: Annotated[str | None, Meta(description="The cursor of the next rows.")] = None


@TREE.method("Draw a tree")
def render(call: Call, given: Render) -> Drawing:
    """Draw the tree of a session, a row an entry, with its handles unresolved.

    Rows above the last compactions and short branches may be left out; `all` draws every entry.
    """
    with call.reading(given.session) as session:
        rows = enumerate(map(printable, session.render(all=given.all)))
        found = page(rows, given, lambda row: str(row[0]))
    text = "\n".join(line for _, line in found.items)
    return Drawing(text, found.more, found.cursor)


class Get(PagedOfSession):
    """Parameters of `tree.get`."""


@TREE.method("Read the rows of a tree")
def get(call: Call, given: Get) -> Page[TreeRow]:
    """Read all entries of a session in the order of its file, each as a row with a preview."""
    with call.reading(given.session) as session:
        return page(session.tree(), given, lambda row: row.uuid)


class Fork(OfSession):
    """Parameters of `tree.fork`."""

    at: Annotated[EntryRef, Meta(description="The last entry to copy.")] = "@"
    name: Annotated[str | None, Meta(description="The name of the copy.")] = None


@TREE.method("Copy a path into a new session", "write")
def fork(call: Call, given: Fork) -> Made:
    """Copy an entry and all entries above it into a new session of the store."""
    call.scope.check_write()
    store = call.scope.store
    file = store.fork(call.file(given.session), given.at, name=given.name)
    with call.reading(file) as copy:
        return Made(copy.id, file)
