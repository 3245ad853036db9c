"""The one session that `latest`, an id, a name or the start of an id stands for, and its title.

Invariants:

- Exactly one is found, or the error names those that match. A session of the store counts before
  those of agents that its name or its id may also name.
- A name is the one that the session has now, wherever in its file it was given.
- Among the ids of a list, `find` takes each id as `short_ids` gives it.
- Of the copies of a conversation it is the one that `conversations` gives; a choice that may
  surprise is reported.
"""

from __future__ import annotations

import contextlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Final, Protocol

from sessiontree.agents import OWN
from sessiontree.agents.agent import is_uuid
from sessiontree.core.display import in_quotes, one_line
from sessiontree.core.entry import decode_object
from sessiontree.core.header import is_derived, stem_of
from sessiontree.errors import RefError, SessionNotFoundError, SessionTreeError
from sessiontree.library.conversations import (
    continuations,
    conversations,
    files_with_marks,
    has_start_of_id,
    in_store,
    is_start_of_id,
)
from sessiontree.library.hidden import without_hidden
from sessiontree.library.listing import (
    TAIL,
    Reaches,
    SessionInfo,
    by_time,
    every,
    facts_of,
)
from sessiontree.library.places import files_in, sessions_in
from sessiontree.storage.names import Report, chat_id_in
from sessiontree.storage.scanner import Scanner
from sessiontree.text.amounts import about, counted, dollars
from sessiontree.text.ids import SHORTEST_SHOWN, kin_in_words, short_id, without_word
from sessiontree.text.pattern import lines_with

LATEST: Final = "latest"
SHORTEST_PREFIX: Final = 4

_find_names: Final = partial(lines_with, b'"session_info"')


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """The start of each id that no other one begins with, of at least 8 characters.

    A subagent has the start of its session, a dot, and its own name, which `find` takes, too.
    """
    known = set(ids)
    below = {id for id in known if "." in id and id.rpartition(".")[0] in known}
    shorts = _starts(known - below)
    for id in sorted(below):  # a session comes before its subagents
        above, _, name = id.rpartition(".")
        shorts[id] = f"{shorts[above]}.{name}"
    return shorts


def _starts(ids: Iterable[str]) -> dict[str, str]:
    known = sorted((without_word(id), id) for id in ids)
    shared = [_shared(one, other) for (one, _), (other, _) in pairwise(known)]
    return {
        id: bare[: max(SHORTEST_SHOWN, before + 1, after + 1)]
        for (bare, id), before, after in zip(known, [0, *shared], [*shared, 0], strict=False)
    }


def _shared(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def find(ref: str, among: Sequence[SessionInfo], where: str, command: str) -> SessionInfo:
    """The session that a ref names; RefError if it names none, or more than one.

    `among` has the one that `latest` means first, but for those that are hidden; the message says
    `where` they are, in words, and the `command` that lists them. The candidates of the error are
    in the order of `among`; where several files have one id, they are its paths.
    """
    if ref == LATEST and (visible := without_hidden(among)):
        return visible[0]
    found = [one for one in among if one.id == ref] or _by_name(ref, among)
    if not found and len(ref) >= SHORTEST_PREFIX:
        found = _without_subagents([one for one in among if _begins(one.id, ref)])
    if not found and is_uuid(ref):  # which a program gave a second file of the conversation
        found = [one for one in among if _has_in_a_name(ref, one)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise RefError(_none_named(ref, among, where, command), ref)
    likely = ", ".join(f"{one.id} ({one.file})" for one in found[:8])
    more = f" and {len(found) - 8} more" if len(found) > 8 else ""
    whole = "" if found[0].id == ref else "a whole id, or "
    message = f"{ref!r} is ambiguous: it may be {likely}{more}; give {whole}the path of the file"
    count = Counter(one.id for one in found)
    names = [one.id if count[one.id] == 1 else one.file for one in found]
    raise RefError(message, ref, names)


def _begins(id: str, ref: str) -> bool:
    """True if an id begins with a ref, or if the ref is the start that `short_ids` gives it."""
    if id.startswith(ref) or without_word(id).startswith(ref):
        return True
    (start, *names), (of, *own) = ref.split("."), id.split(".")
    return bool(names) and names == own and _begins(of, start)


def _without_subagents(found: list[SessionInfo]) -> list[SessionInfo]:
    """The sessions but the subagents of others among them, whose ids begin with those ids."""
    ids = {one.id for one in found}
    return [one for one in found if one.id.rpartition(".")[0] not in ids]


def _has_in_a_name(id: str, one: SessionInfo) -> bool:
    files = [each.file for each in (one, *one.copies)]
    return any(stem_of(file).endswith(id) or chat_id_in(file) == id[:8] for file in files)


def is_start_of(ref: str, one: SessionInfo) -> bool:
    """True if a ref names a session that was found by the start of its id alone."""
    return one.id.startswith(ref) and ref not in (LATEST, one.id) and not _by_name(ref, [one])


def _by_name(name: str, among: Sequence[SessionInfo]) -> list[SessionInfo]:
    """The sessions of that name; a list may not see a name given in the middle of a file."""
    scanner = Scanner()
    given = _as_typed(name)

    def is_named(one: SessionInfo) -> bool:
        return _as_typed(_name_of(one, scanner)) == given

    likely = [one for one in among if _as_typed(one.name) == given]
    return list(filter(is_named, likely)) or list(filter(is_named, among))


def _none_named(ref: str, among: Sequence[SessionInfo], where: str, command: str) -> str:
    if ref == LATEST:
        return f"there is no session {where}"
    is_short = 0 < len(ref) < SHORTEST_PREFIX and any(one.id.startswith(ref) for one in among)
    hint = f"give {SHORTEST_PREFIX} characters or more of an id; " if is_short else ""
    return f"no session {where} is named {ref!r}; {hint}{in_quotes(command)} lists them"


def _as_typed(name: str | None) -> str | None:
    """A name in one spelling of its accents, as there are two."""
    return name and unicodedata.normalize("NFC", name)


def _name_of(one: SessionInfo, scanner: Scanner) -> str | None:
    """The last name given anywhere in a file, else the one that a list gives."""
    if one.bytes <= TAIL:
        return one.name  # the list has seen the whole file
    name = None
    try:
        for _, line in scanner.lines(one.file, _find_names):
            body = decode_object(line)
            given = body.get("name")
            if body.get("type") == "session_info" and isinstance(given, str):
                name = given
    except OSError:
        return None
    return name or one.name


class SessionStore(Protocol):
    """The store."""

    root: str

    def find(self, ref: str, *, report: Report | None = None) -> SessionInfo: ...

    def list(self, *, report: Report | None = None) -> Sequence[SessionInfo]: ...


def find_conversation(
    name: str,
    store: SessionStore,
    agents: Sequence[str],
    tell: Report,
    command: str = "sessiontree ls",
    reaches: Reaches = every,
) -> SessionInfo:
    """Find the conversation that a name, an id, the start of an id, or `latest` stands for.

    The row is the copy with the latest activity, in the store if one there has all of it. An error
    names the `command` that lists the sessions, and `tell` gets a line if files could not be looked
    at. Only files of `agents` that the caller `reaches` count.

    Raises:
        SessionNotFoundError: there is no such session.
        RefError: there is more than one.
    """
    problems: list[str] = []
    own = _in_store(name, store, problems.append)
    if own and has_start_of_id(own[0]):  # another session of the store may have the whole id
        own = list(store.list(report=lambda problem: None))
    elif own and name != LATEST and not is_start_of(name, own[0]):
        return in_store(conversations([*own, *_copies(own[0], agents, reaches)])[0])
    among = [*own, *sessions_in(agents, problems.append, reaches)]
    if len(name) < SHORTEST_PREFIX:  # the message says so where an id starts with it
        among += store.list(report=lambda problem: None)
    where = f"in {store.root} or where agents keep theirs"
    rows = sorted(conversations(among), key=by_time, reverse=True)
    rows = without_hidden(rows) if name == LATEST else rows
    try:
        row = find(name, rows, where, command)
    except RefError as error:
        if error.candidates:
            raise
        tell_left_out(problems, tell)
        raise SessionNotFoundError(f"there is no file {name}, and {error}", name) from error
    kept = [] if own else _in_store(row.id, store, lambda problem: None)
    return in_store(conversations([row, *row.copies, *kept])[0] if kept else row)


def to_read(row: SessionInfo, tell: Report) -> str:
    """The file of a conversation to read.

    `tell` gets a line if it is a converted one, and if what another copy has, or labels of an older
    import, are not in it.
    """
    if row.is_converted and row.copies:
        tell(f"Reading the file of {row.agent}, which changed last: {row.file}")
    for one in continuations(row):
        tell(beyond(one, row.file))
    if row.agent is not None and files_with_marks(row):
        tell(
            f"{row.file} of {row.agent} changed later, and labels or names in its import are left "
            "out; 'sessiontree backup' adds what is new"
        )
    return row.file


def beyond(one: SessionInfo, file: str) -> str:
    """What a copy of a conversation has that a file lacks, in words."""
    if one.agent is None:
        return f"{one.file} has content that {file} lacks, such as turns that were cut off"
    return f"{one.agent} went on with the session, too, in {one.file}; {file} lacks that"


def to_write(row: SessionInfo, tell: Report) -> str:
    """The file of a conversation to write: the one in the store, if there is one.

    `tell` gets a line if an agent's file has more.
    """
    own = next((one for one in (row, *row.copies) if one.agent is None), row)
    if own is not row:
        tell(f"{row.file} of {row.agent} changed later; 'sessiontree backup' adds what is new")
    return own.file


def tell_left_out(problems: Sequence[str], tell: Report) -> None:
    """Say on one line that files were not looked at, where no session was found."""
    if problems:
        files = "1 file" if len(problems) == 1 else f"{len(problems):,} files"
        tell(f"Left out: {files} that cannot be read as a session; the list of sessions names each")


def _in_store(name: str, store: SessionStore, report: Report) -> list[SessionInfo]:
    """The one session of the store with a name or an id; none without it.

    Raises:
        RefError: there is more than one.
    """
    try:
        return [store.find(name, report=report)]
    except RefError as error:
        if error.candidates:
            raise
        return []


def _copies(own: SessionInfo, agents: Sequence[str], reaches: Reaches) -> Iterator[SessionInfo]:
    """The files of agents that are copies of a session of the store.

    Only those whose names have its id, or tell nothing: an id that was made by a conversion, or
    the start of one.
    """
    for file in files_in(agents, lambda problem: None, reaches):
        name = os.path.basename(file)
        is_named = own.id[:8] in name or name == own.imported_from
        if not is_named and chat_id_in(name) is None and not is_derived(stem_of(name)):
            continue
        with contextlib.suppress(SessionTreeError, OSError):
            one = facts_of(file)
            if one.id == own.id or (has_start_of_id(one) and is_start_of_id(one, own)):
                yield one


_DATE: Final = re.compile(r"-(\d{8}|\d{4}-\d\d-\d\d)$")


def title_of(one: SessionInfo, width: int) -> str:
    return one_line(one.title or "(no messages)", width)


def shown_id(id: str, ids: Mapping[str, str]) -> str:
    """An id as a list shows it, and as commands take it."""
    return one_line(ids.get(id) or short_id(id), 200)


def note_of(one: SessionInfo, ids: Mapping[str, str]) -> str:
    """What is special about a session; empty for most."""
    notes = [f"lane {one_line(one.lane)}"] if one.lane != "main" else []
    if (also := _also(one)) is not None:
        notes.append(also)
    if one.is_converted:
        notes.append("converted")
    elif one.copy_of is not None:
        notes.append(kin_in_words(one.id, one.copy_of, shown_id(one.copy_of, ids)))
    notes += ["imported"] if one.imported_from is not None else []
    notes += [f"held by {one_line(one.writer, 200)}"] if one.writer is not None else []
    return ", ".join(notes)


def _also(one: SessionInfo) -> str | None:
    """What other copies there are: `also in codex, gemini · backed up`."""
    imports = [copy for copy in one.copies if copy.imported_from is not None]
    others = [copy for copy in one.copies if copy.imported_from is None]
    with_more = continuations(one) if one.turns is not None else []  # else they are not read yet
    went_on = Counter(agent_of(copy) for copy in with_more if copy.imported_from is None)
    alike = went_on.pop(agent_of(one), 0)
    agents = sorted({agent_of(copy) for copy in others} - {agent_of(one)})
    more = sum(agent_of(copy) == agent_of(one) for copy in others) - alike
    parts = [f"also in {', '.join(agents)}"] if agents else []
    parts += [f"{', '.join(sorted(went_on))} went on"] if went_on else []
    parts += [counted(alike, "copy that went on", "copies that went on")] if alike else []
    parts += [counted(more, "more copy", "more copies")] if more else []
    if imports and one.imported_from is None:
        has_more = any(copy.imported_from is not None for copy in with_more)
        parts.append("backed up, with more" if has_more else "backed up")
    return " · ".join(parts) or None


def cost_of_row(one: SessionInfo) -> str:
    """What a session cost, marked if a part is estimated; empty if it is not known."""
    if not one.dollars:
        return ""
    return about(one.dollars) if one.estimated else dollars(one.dollars)


def agent_of(one: SessionInfo) -> str:
    return one_line(one.made_by or OWN)


def model_of(one: SessionInfo) -> str:
    """The model without its provider and its date; empty if it is not known."""
    return _DATE.sub("", one_line((one.model or "").rpartition("/")[2]))
