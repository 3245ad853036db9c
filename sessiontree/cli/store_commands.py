"""The commands that move whole sessions of a store: trash, restore, move-project.

None of them removes anything, and none overwrites.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable

import click

from sessiontree.cli.arguments import PATH, json_option
from sessiontree.cli.listing import out_sessions
from sessiontree.cli.output import out_json, out_json_list
from sessiontree.cli.printing import out, tell
from sessiontree.cli.stores import Problems, store_at
from sessiontree.core.display import one_line
from sessiontree.errors import SessionTreeError
from sessiontree.storage.files import Report
from sessiontree.store import path_given

store_option = click.option(
    "--store",
    "folder",
    type=PATH,
    metavar="DIR",
    help="The folder of sessions; by default SESSIONTREE_HOME, or else your data folder.",
)


@click.command()
@click.argument("sessions", metavar="SESSION…", nargs=-1, required=True)
@store_option
@json_option("a list of where each was and is")
@click.pass_context
def trash(
    context: click.Context, sessions: tuple[str, ...], folder: str | None, as_json: bool
) -> None:
    """Put sessions away, to be had back.

    SESSION is a file, or an id, four characters or more of one, a name, or 'latest'.
    All that lies beside the file goes with it, into the folder .trash of the store.
    Nothing is ever removed from there but by you. A session that is refused keeps
    none of the others from going; the exit code is 1 then.
    """
    store = store_at(folder)

    def put_away(named: str, report: Report) -> dict[str, str]:
        file = path_given(named) or store.find(named, report=report).file
        trashed = store.trash(file)
        tell(f"Put {one_line(file, 1000)} away")
        return {"file": file, "trashed": trashed}

    is_done = _out_each(sessions, put_away, "trashed", as_json=as_json)
    if is_done and not as_json:
        where = "" if folder is None else f" --store {shlex.quote(folder)}"
        tell(f"'sessiontree restore{where}' lists what was put away, and brings it back")
    context.exit(0 if is_done else 1)


@click.command()
@click.argument("sessions", metavar="[SESSION…]", nargs=-1)
@store_option
@json_option("a list of where each was and is; without SESSION of what there is")
@click.pass_context
def restore(
    context: click.Context, sessions: tuple[str, ...], folder: str | None, as_json: bool
) -> None:
    """Bring sessions back, or list what was put away.

    Each goes from the trash to where it was. SESSION is a file there, or an id, four
    characters or more of one, a name, or 'latest', which was put away last. Without
    one, all that were put away are listed, the latest first.
    """
    store = store_at(folder)
    if not sessions:
        problems = Problems()
        found = store.trashed(report=problems)
        out_sessions(found, as_json=as_json)
        if not found and not as_json:
            tell(f"Nothing was put away from {store.root}")
        problems.tell()
        return

    def bring_back(named: str, report: Report) -> dict[str, str]:
        trashed = path_given(named) or store.find_trashed(named, report=report)
        file = store.restore(trashed)
        tell(f"Brought {one_line(file, 1000)} back")
        return {"trashed": trashed, "file": file}

    is_done = _out_each(sessions, bring_back, "file", as_json=as_json)
    context.exit(0 if is_done else 1)


def _out_each(
    sessions: tuple[str, ...],
    move: Callable[[str, Report], dict[str, str]],
    place: str,
    *,
    as_json: bool,
) -> bool:
    """Move sessions one by one, and print where each went; whether all of them did.

    One that is refused is told, and keeps none of the others where it is.
    """
    problems = Problems()
    moved: list[dict[str, str]] = []
    try:
        for named in sessions:
            try:
                moved.append(move(named, problems))
            except SessionTreeError as error:
                if len(sessions) == 1:
                    raise
                tell(f"Error: {error}")
                continue
            if not as_json:
                out(moved[-1][place])
    finally:
        problems.tell()
    if as_json:
        out_json_list(moved)
    return len(moved) == len(sessions)


@click.command()
@click.argument("old", type=PATH)
@click.argument("new", type=PATH)
@store_option
@json_option("how many were moved")
def move_project(old: str, new: str, folder: str | None, as_json: bool) -> None:
    """Let a renamed directory keep its sessions.

    What was said in OLD is then listed in NEW, with what is there already. The files
    themselves are not changed. While a writer holds one of the sessions, none is moved.
    """
    count = store_at(folder).move_project(old, new)
    told = "1 session" if count == 1 else f"{count:,} sessions"
    tell(f"Moved {told} of {os.path.abspath(old)} to {os.path.abspath(new)}")
    if as_json:
        out_json({"moved": count})
