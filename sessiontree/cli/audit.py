"""The command `audit`: which sessions hold secrets, and what makes the files large.

Invariant: no secret is printed, also not in a path, an id or an error.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, Final

import click

from sessiontree.agents import MAKERS
from sessiontree.cli import arguments, terminal
from sessiontree.cli.arguments import PROJECT, SESSION_NAME, TIME
from sessiontree.cli.lookup import none_found, places_at, store_at
from sessiontree.cli.output import out_json, out_json_list
from sessiontree.cli.screen import no_pager, show
from sessiontree.cli.terminal import ProgressBar, end, finish, is_terminal, tell, tell_each, write
from sessiontree.core.bulk import KINDS, LONGEST, PRUNED
from sessiontree.core.display import one_line
from sessiontree.library import rewrite
from sessiontree.library.audit import ConversationSecrets, FileSize, audited
from sessiontree.library.listing import SessionInfo
from sessiontree.library.lookup import short_ids, shown_id
from sessiontree.library.places import Selection, conversations_in, is_folder
from sessiontree.library.root import below
from sessiontree.redact.redaction import SecretMasking
from sessiontree.storage.fs import DISK
from sessiontree.storage.names import Report
from sessiontree.text.amounts import counted
from sessiontree.text.columns import columns_of, filled
from sessiontree.text.preview import size_in_short

_GAP: Final = "  "
_MAX_TURNS: Final = 5
_MAX_LARGEST: Final = 5


@arguments.command("audit", json="the secrets, the sizes of files, and what was not read")
@click.argument("places", metavar="[ID|DIR|FILE]…", nargs=-1, type=SESSION_NAME)
@click.option(
    "--agent",
    "agents",
    multiple=True,
    metavar="NAME",
    type=arguments.OneOf(MAKERS),
    help="Only sessions of this agent, such as codex.",
)
@click.option(
    "--cwd",
    "--project",
    "project",
    metavar="DIR",
    type=PROJECT,
    help="Only sessions of this directory, or below it.",
)
@click.option("--since", metavar="TIME", type=TIME, help="Only sessions that changed since.")
@click.option("--mask", is_flag=True, help="Mask the secrets of these sessions in the store.")
@click.option("--prune", is_flag=True, help="Take out long tool output, images and snapshots.")
@no_pager
def audit(
    places: tuple[str, ...],
    agents: tuple[str, ...],
    project: str | None,
    since: datetime | None,
    mask: bool,
    prune: bool,
    no_pager: bool,
    as_json: bool,
) -> None:
    """Each row is one kind of secret in one conversation, whatever copies of it there are. No
    secret is printed. The exit code is 1 if there is one, or a file cannot be searched. Secrets in
    images and in encoded text are not found. Then come sizes by agent, and the largest sessions.

    --mask and --prune rewrite sessions in the store; the old ones go to the trash.

    \b
    Example:
      sessiontree audit --agent codex --since 7d
      sessiontree audit 17e4c773 --mask
    """
    masked = SecretMasking().text
    terminal.mask_with(masked)
    if mask or prune:
        if agents or project or since:
            raise click.UsageError("--mask and --prune take the names of sessions alone")
        _rewrite(places, masked, mask=mask, prune=prune, as_json=as_json)
        return
    left_out: list[str] = []
    problems: list[str] = []
    selection = Selection(frozenset(agents), project, since)
    rows = _rows(places, selection, left_out.append)
    if not rows:
        tell(none_found(list(places) or places_at(), selection))
    files = [one.file for row in rows for one in (row, *row.copies)]
    with ProgressBar("Searching for secrets") as shown:
        found, sizes = audited(
            rows,
            problems.append,
            lambda number: shown(number, len(files), os.path.basename(files[number])),
        )
    if as_json:
        out_json(
            {
                "secrets": [_as_json(one, masked) for one in found],
                "sizes": [_size_as_json(one, masked) for one in sizes],
                "notRead": list(map(masked, [*left_out, *problems])),
            }
        )
    else:
        ids = short_ids(row.id for row in rows)
        tables = [_secret_rows(found, ids), _rows_of_agents(sizes), _largest(sizes, ids)]
        show(map(masked, _tables(tables)), paged=is_terminal() and not no_pager)
    finish()
    if rows:
        _tell_secrets(found, rows)
        _tell_sizes(sizes)
    tell_each("Left out", left_out)
    for problem in problems:
        tell(f"Error: {problem}")
    end(found or problems)


def _rows(places: Sequence[str], selection: Selection, report: Report) -> list[SessionInfo]:
    """The conversations: in folders, of files by their paths, and by ids with all their copies."""
    if not places:
        return conversations_in(places_at(), selection, report)
    found: dict[str, SessionInfo] = {}
    named = [place for place in places if is_folder(place) or _is_path(place)]
    rows = conversations_in(places_at(named), selection, report) if named else []
    for place in places:
        if place not in named:
            file = arguments.session_file(place)
            every = conversations_in(places_at(), Selection(), report)
            rows += [row for row in every if file in (one.file for one in (row, *row.copies))]
    found.update((row.file, row) for row in rows)
    return list(found.values())


def _rewrite(
    places: Sequence[str], masked: Callable[[str], str], *, mask: bool, prune: bool, as_json: bool
) -> None:
    """Mask or prune the sessions of the store that places name."""
    if not places or any(map(is_folder, places)):
        raise click.UsageError("name each session to rewrite; 'sessiontree audit' lists them")
    root, made = store_at(None).root, []
    for file in dict.fromkeys(file for place in places for file in _own_files(place, root)):
        if mask and (hidden := rewrite.mask(DISK, root, file)) is not None:
            made.append((hidden[0], dict(hidden[1])))
            masks = ", ".join(f"{kind} {count:,}" for kind, count in hidden[1].items())
            tell(f"Masked {masks or 'what no entry uses'}")
        elif mask:
            tell(f"{file}: no secrets found")
        if prune and (smaller := rewrite.prune(DISK, root, file)) is not None:
            made.append((smaller, {}))
            entries = counted(smaller.entries, "entry", "entries")
            tell(f"Pruned {entries}: {size_in_short(smaller.freed)} less")
        elif prune:
            tell(f"{file}: nothing to prune")
    if as_json:
        out_json_list(
            {
                "file": masked(one.file),
                "trashed": masked(one.trashed),
                "entries": one.entries,
                "freed": one.freed,
                "masked": kinds,
            }
            for one, kinds in made
        )
    for one, _ in made:
        if not as_json:
            write(masked(one.file) + "\n")
        tell(f"The trash has the old session as it was: {one.trashed}")
    if made:
        tell("'sessiontree trash --empty --older-than 0d' removes all that is in the trash")


def _own_files(place: str, root: str) -> list[str]:
    """The files of a session to rewrite: that of a path, or all copies in the store."""
    if _is_path(place):
        return [place]
    file = arguments.session_file(place)
    every = conversations_in(places_at(), Selection(), lambda problem: None)
    rows = (row for row in every if file in (one.file for one in (row, *row.copies)))
    copies = (one for row in rows for one in (row, *row.copies))
    own = [one.file for one in copies if one.agent is None and below(root, one.file)]
    return own or [file]


def _is_path(place: str) -> bool:
    return os.path.lexists(place) or arguments.is_path(place)


def _as_json(one: ConversationSecrets, mask: Callable[[str], str]) -> dict[str, Any]:
    last = None if one.last is None else datetime.fromtimestamp(one.last).astimezone().isoformat()
    return {
        "kind": one.kind,
        "agent": one.agent,
        "session": mask(one.session),
        "file": mask(one.file),
        "turns": one.turns,
        "secrets": one.secrets,
        "times": one.times,
        "last": last,
        "files": list(map(mask, one.files)),
    }


def _size_as_json(one: FileSize, mask: Callable[[str], str]) -> dict[str, Any]:
    facts = {"session": mask(one.session), "file": mask(one.file)}
    return {"agent": one.agent, **facts, "bytes": one.bytes, "kinds": one.kinds}


def _secret_rows(
    found: Sequence[ConversationSecrets], ids: dict[str, str]
) -> Iterator[Sequence[str]]:
    if found:
        yield "When", "Kind", "Agent", "Session", "In turn", "Secrets", "Times", "Files"
    for one in found:
        yield (
            _day(one.last),
            one.kind,
            one_line(one.agent),
            shown_id(one.session, ids),
            turns_in_short(one.turns),
            f"{one.secrets:,}",
            f"{one.times:,}",
            f"{len(one.files):,}",
        )


def turns_in_short(turns: Sequence[int]) -> str:
    """Numbers of turns, such as `2, 5-7`; of many, the first."""
    runs = [
        [turn for _, turn in run]
        for _, run in groupby(enumerate(turns), key=lambda numbered: numbered[1] - numbered[0])
    ]
    shown = [f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs[:_MAX_TURNS]]
    return ", ".join(shown) + (" …" if len(runs) > _MAX_TURNS else "")


def _day(seconds: float | None) -> str:
    if seconds is None:
        return ""
    try:
        return f"{datetime.fromtimestamp(seconds):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return ""


def _rows_of_agents(sizes: Sequence[FileSize]) -> Iterator[Sequence[str]]:
    """A row for each agent, the one with the most bytes first, without kinds that nobody has.

    Backups have a row of their own: their sessions are those of the agents, a second time.
    """
    agents: dict[str, Counter[str]] = {}
    sessions: dict[str, set[str]] = {}
    for one in sizes:
        sums = agents.setdefault(_writer(one), Counter())
        sums.update({**one.kinds, "Size": one.bytes})
        sessions.setdefault(_writer(one), set()).add(one.conversation)
    kinds = [kind for kind in KINDS if any(sums[kind] for sums in agents.values())]
    if sizes:
        yield "Files of", "Sessions", "Size", *(kind.capitalize() for kind in kinds)
    for agent, sums in sorted(agents.items(), key=lambda item: -item[1]["Size"]):
        amounts = [size_in_short(sums[kind]) if sums[kind] else "" for kind in ("Size", *kinds)]
        yield agent, f"{len(sessions[agent]):,}", *amounts


def _writer(one: FileSize) -> str:
    """Whose files they are, in a word."""
    return "backups" if one.is_backup else one.agent


def _largest(sizes: Sequence[FileSize], ids: dict[str, str]) -> Iterator[Sequence[str]]:
    if len(sizes) > 1:
        yield "Largest", "Files of", "Size", "Mostly"
        for one in sizes[:_MAX_LARGEST]:
            kind, size = max(one.kinds.items(), key=lambda item: item[1])
            share = f"{kind} {100 * size // max(one.bytes, 1)}%"
            yield shown_id(one.session, ids), _writer(one), size_in_short(one.bytes), share


def _tables(tables: Iterable[Iterator[Sequence[str]]]) -> Iterator[str]:
    """The lines of some tables, with a blank line between."""
    is_first = True
    for table in tables:
        cells = list(table)
        if cells and not is_first:
            yield ""
        is_first = is_first and not cells
        widths = [max(map(columns_of, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            yield _GAP.join(map(filled, row, widths)).rstrip()


def _tell_secrets(found: Sequence[ConversationSecrets], rows: Sequence[SessionInfo]) -> None:
    of = counted(len(rows), "session")
    if not found:
        tell(f"No secrets found in {of}")
        return
    sessions = len({one.file for one in found})
    files = len({file for one in found for file in one.files})
    tell(f"Secrets in {sessions:,} of {of}, in {counted(files, 'file')}; --json lists the files")
    tell("Revoke them: a model was sent what its agent read")
    tell("'audit ID --mask' masks a session in the store; delete one of an agent with the agent")


def _tell_sizes(sizes: Sequence[FileSize]) -> None:
    """Say how to make the largest files smaller, whose they are."""
    if any(one.is_own and sum(map(one.kinds.__getitem__, PRUNED)) > LONGEST for one in sizes):
        tell("'audit ID --prune' takes tool output, images and snapshots out of one in the store")
    if any(not one.is_own for one in sizes):
        saved = "'backup' saves copies in the store, which can be changed"
        tell(f"Files of agents are never changed: {saved}; then delete the sessions with the agent")
