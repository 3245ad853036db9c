"""Lookup: the one session that `latest`, an id, a name, or the start of an id names.

Invariants: exactly one is found, or the error names those that match; a name is the one
that the session has now, wherever in its file it was given; among the ids of a list, `find` takes
each id as `short_ids` gives it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

from sessiontree.catalog.listing import TAIL, SessionInfo
from sessiontree.core.display import in_quotes
from sessiontree.core.entry import decode_object
from sessiontree.errors import RefError
from sessiontree.storage.scanner import Scanner
from sessiontree.text.pattern import lines_with

LATEST: Final = "latest"
SHORTEST_PREFIX: Final = 4
SHORTEST_SHOWN: Final = 8

_TIME_FIRST: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_END_OF_TIME: Final = 13
"""The characters of a UUIDv7 with its time: the first 8 alone are the same for a minute."""

_MOST_NAMED: Final = 8
_find_names: Final = partial(lines_with, b'"session_info"')


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """The start of each id that no other one begins with, of at least 8 characters."""
    known = sorted(set(ids))
    shared = [_shared(*pair) for pair in pairwise(known)]
    return {
        id: id[: max(SHORTEST_SHOWN, before + 1, after + 1)]
        for id, before, after in zip(known, [0, *shared], [*shared, 0], strict=False)
    }


def _shared(one: str, other: str) -> int:
    """The number of characters with which both ids begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def short_id(id: str) -> str:
    """The start of an id whose neighbours are not known."""
    return id[: _END_OF_TIME if _TIME_FIRST.fullmatch(id) else SHORTEST_SHOWN]


def find(ref: str, among: Sequence[SessionInfo], where: str, command: str) -> SessionInfo:
    """The session that a ref names; RefError if it names none, or more than one.

    `among` has the one that `latest` means first; the message says `where` they are, in
    words, and the `command` that lists them. The candidates of the error are in the order of
    `among`; where several files have one id, they are its paths.
    """
    if ref == LATEST and among:
        return among[0]
    found = [one for one in among if one.id == ref] or _by_name(ref, among)
    if not found and len(ref) >= SHORTEST_PREFIX:
        found = [one for one in among if one.id.startswith(ref)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise RefError(_none_named(ref, among, where, command), ref)
    likely = ", ".join(f"{one.id} ({one.file})" for one in found[:_MOST_NAMED])
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    whole = "" if found[0].id == ref else "a whole id, or "
    message = f"{ref!r} is ambiguous: it may be {likely}{more}; give {whole}the path of the file"
    count = Counter(one.id for one in found)
    names = [one.id if count[one.id] == 1 else one.file for one in found]
    raise RefError(message, ref, names)


def is_start_of(ref: str, one: SessionInfo) -> bool:
    """Whether a ref names a session that was found by the start of its id alone."""
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
