"""What TAB completes: sessions, entries and projects.

Invariant: whatever cannot be read completes nothing, and says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import click
from click.shell_completion import CompletionItem

from sessiontree.core.display import one_line
from sessiontree.errors import SessionTreeError
from sessiontree.library.listing import SessionInfo

_MAX_SESSIONS = 100
_LONGEST = 60


def session_items(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The ids and names of the newest sessions that begin so, and the paths of files."""
    from sessiontree.library.lookup import LATEST, SHORTEST_SHOWN, short_ids, title_of

    found = [CompletionItem(incomplete, type="file"), CompletionItem(LATEST)]
    listed = list(_sessions())
    ids = short_ids(one.id for one in listed)
    for one in listed:
        id = one.id if len(incomplete) > SHORTEST_SHOWN else ids[one.id]
        names = [id, one.name] if one.name and " " not in one.name else [id]
        found += [CompletionItem(name, help=title_of(one, _LONGEST)) for name in names]
    return [item for item in found if str(item.value).startswith(incomplete)][:_MAX_SESSIONS]


def project_items(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The names of projects that begin so, or their paths; and the paths of folders."""
    from sessiontree.library.places import project_in

    found = [CompletionItem(incomplete, type="dir")]
    for cwd in dict.fromkeys(one.cwd for one in _sessions() if one.cwd):
        name = cwd if incomplete.startswith("/") else project_in(cwd)
        if name.startswith(incomplete):
            found.append(CompletionItem(name, help=one_line(cwd, _LONGEST)))
    return list({item.value: item for item in found}.values())


def entry_items(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The labels, branches and lanes that begin so, of the session before the REF."""
    from sessiontree.session import Session

    names = ["@", "@~1"]
    file = ctx.params.get("file") or ctx.params.get("given_session") or ""
    with suppress(SessionTreeError, OSError), Session.open(file, readonly=True) as session:
        names += sorted(session.reader.names().all_names())
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _sessions() -> Iterator[SessionInfo]:
    """The sessions of the lists, the newest first."""
    from sessiontree.cli.lookup import places_at
    from sessiontree.library.hidden import without_hidden
    from sessiontree.library.places import Selection, conversations_in, in_order

    with suppress(SessionTreeError, OSError):
        found = conversations_in(places_at(), Selection(), lambda problem: None)
        yield from in_order(without_hidden(found), "modified")
