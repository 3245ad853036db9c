"""What TAB completes: sessions, entries and projects.

Invariant: whatever cannot be read completes nothing, and says nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress

import click
from click.shell_completion import CompletionItem

from sessiontree.core.display import one_line
from sessiontree.errors import SessionTreeError
from sessiontree.library.listing import SessionInfo

_MAX_SESSIONS = 100
_LONGEST = 60
_SPECIAL = re.compile(r"[^\w@%+=:,./-]")  # to a shell


def session_items(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The ids and names of the newest sessions that begin so, and the paths of files.

    With `--undo`, only the hidden sessions.
    """
    from sessiontree.library.lookup import LATEST, short_ids, title_of
    from sessiontree.text.ids import SHORTEST_SHOWN

    is_undo = bool(ctx.params.get("undo"))
    found = [] if is_undo else [CompletionItem(incomplete, type="file")]
    names = {} if is_undo else {LATEST: ""}
    listed = list(_sessions(hidden=is_undo))
    ids = short_ids(one.id for one in listed)
    for one in listed:
        id = one.id if len(incomplete) > SHORTEST_SHOWN else ids[one.id]
        named = [id, one.name] if one.name else [id]
        names |= dict.fromkeys(named, title_of(one, _LONGEST))
    return [*found, *_items(names, incomplete)][:_MAX_SESSIONS]


def project_items(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The names of projects that begin so, or their paths; and the paths of folders."""
    from sessiontree.library.places import project_in

    names: dict[str, str] = {}
    for cwd in dict.fromkeys(one.cwd for one in _sessions() if one.cwd):
        name = cwd if incomplete.startswith("/") else project_in(cwd)
        names[name] = one_line(cwd, _LONGEST)
    return [CompletionItem(incomplete, type="dir"), *_items(names, incomplete)]


def entry_items(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The labels, branches and lanes that begin so, of the session before the REF."""
    from sessiontree.session import Session

    names = ["@", "@~1"]
    file = ctx.params.get("file") or ctx.params.get("given_session") or ""
    with suppress(SessionTreeError, OSError), Session.open(file, readonly=True) as session:
        names += sorted(session.reader.names().all_names())
    return _items(dict.fromkeys(names, ""), incomplete)


def _items(names: dict[str, str], incomplete: str) -> list[CompletionItem]:
    """The names that begin so, with their help, as the shell takes them."""
    shell = os.environ.get("_SESSIONTREE_COMPLETE", "").partition("_")[0]
    found: list[CompletionItem] = []
    for name, help in names.items():
        if not name.startswith(incomplete) or not name.isprintable():
            continue
        if shell == "fish" and "," in name:  # the script of fish ends a value there
            continue
        value = _in_bash(name) if shell == "bash" else name
        found.append(CompletionItem(value, help=help or None))
    return found


def _in_bash(name: str) -> str:
    """A name as click's script for bash reads it: quoted, unless the user has begun a quotation."""
    words = os.environ.get("COMP_WORDS", "").split("\n")
    is_quoted = words[-1][:1] in ("'", '"')
    quoted = name if is_quoted else _SPECIAL.sub(r"\\\g<0>", name)
    return quoted.replace("\\", "\\\\")  # 'read' without '-r' takes one away


def _sessions(*, hidden: bool = False) -> Iterator[SessionInfo]:
    """The sessions of the lists, or those hidden from them, the newest first."""
    from sessiontree.cli.lookup import places_at
    from sessiontree.library.hidden import hidden_ids
    from sessiontree.library.places import Selection, conversations_in, in_order

    with suppress(SessionTreeError, OSError):
        found = conversations_in(places_at(), Selection(), lambda problem: None)
        ids = hidden_ids()
        yield from in_order([one for one in found if (one.id in ids) == hidden], "modified")
