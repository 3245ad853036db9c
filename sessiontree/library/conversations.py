"""Conversations: which files are copies of one conversation, and which of them counts.

A conversation has one id, whatever copies of it lie around: its agent's own file, an import of it,
sessions that were converted for other agents, and copies that a program or a person made. All of
them have this id, in their lines or their names. A fork has an id of its own. Programs may choose
ids that are not unique, such as `session-1`: files with such an id are one conversation only if
one agent began them at the same time with the same prompt.

Invariants: a conversation is one row of a list, whose file is the copy with the latest activity.
Labels and names are no activity, so a copy that only has more of these is not later. Of copies with
the same activity, the file that an agent writes counts first, then an import, then a session that
was converted and never went on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Final, NamedTuple

from msgspec.structs import replace

from sessiontree.core.header import stem_of
from sessiontree.errors import SessionTreeError
from sessiontree.library.cache import stamp_of
from sessiontree.library.listing import SessionInfo, by_time, has_marks, moment
from sessiontree.storage.names import chat_id_in
from sessiontree.storage.place import is_address


def conversations(found: Iterable[SessionInfo]) -> list[SessionInfo]:
    """One row for each conversation, in no fixed order.

    A row is the copy that counts, with the other ones as `copies`, and with the name that an
    import was given, if one was.
    """
    by_id: dict[str, list[list[SessionInfo]]] = {}
    for one in sorted(_with_whole_ids([*found]), key=lambda one: one.is_converted):
        groups = by_id.setdefault(one.id or one.file, [])
        group = next((group for group in groups if are_copies(group[0], one)), None)
        if group is None:
            groups.append([one])
        else:
            group.append(one)
    every = chain.from_iterable(by_id.values())
    return [group[0] if len(group) == 1 else _row(group) for group in every]


def _with_whole_ids(found: Sequence[SessionInfo]) -> Iterator[SessionInfo]:
    """The files; one that lost its id has it of a file beside it, or of an import.

    The name of such a file has only the start of the id, so two ids with that start decide nothing.
    """
    for one in found:
        if has_start_of_id(one):
            ids = {other.id for other in found if is_start_of_id(one, other)}
            yield replace(one, id=ids.pop()) if len(ids) == 1 else one
        else:
            yield one


def has_start_of_id(one: SessionInfo) -> bool:
    """True if the lines of a chat, or of an import of it, lost the id: it is that in the name."""
    return chat_id_in(one.imported_from or one.file) == one.id


def is_start_of_id(one: SessionInfo, other: SessionInfo) -> bool:
    """True if a file has the whole id of another one, which only has its start."""
    if other.id == one.id or not other.id.startswith(one.id):
        return False
    name, other_name = (each.imported_from or os.path.basename(each.file) for each in (one, other))
    is_beside = os.path.dirname(one.file) == os.path.dirname(other.file)
    return name == other_name or (is_beside and chat_id_in(other_name) == one.id)


def first_of_each(found: Iterable[SessionInfo]) -> list[SessionInfo]:
    """Of the copies of each conversation the first one, in the order of `found`."""
    first: list[SessionInfo] = []
    by_id: dict[str, list[SessionInfo]] = {}
    for one in found:
        same_id = by_id.setdefault(one.id, [])
        if not any(are_copies(other, one) for other in same_id):
            same_id.append(one)
            first.append(one)
    return first


def are_copies(one: SessionInfo, other: SessionInfo) -> bool:
    """True if two files are of one conversation."""
    if not one.id or one.id != other.id:
        return False
    if _UUID.search(one.id):
        return True
    if one.first_message != other.first_message:
        return False
    is_any_converted = one.is_converted or other.is_converted
    return is_any_converted or (one.made_by, one.created) == (other.made_by, other.created)


_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _row(group: Sequence[SessionInfo]) -> SessionInfo:
    first, *others = sorted(group, key=_rank, reverse=True)
    given = next((one.name for one in (first, *others) if one.is_renamed), first.name)
    return replace(first, name=given, copies=tuple(others))


def _rank(one: SessionInfo) -> tuple[float, bool, int, bool, str]:
    has_its_name = stem_of(one.file).endswith(one.id)
    is_of_its_agent = one.agent is not None and (one.went_on or not one.is_converted)
    return moment(one.modified), is_of_its_agent, -distance(one), has_its_name, one.file


def distance(one: SessionInfo) -> int:
    """How far a file is from the agent's lines: 0 if it has them, 1 if imported, 2 if converted."""
    return 2 if one.is_converted else int(one.imported_from is not None)


def originals_first(rows: Iterable[SessionInfo]) -> list[SessionInfo]:
    """All files of some rows that may have answers of their own, each before copies of it.

    The conversation that was begun first comes first: a fork copies what was before it, and may
    have the time of what it copies. The file of an agent comes before an import, which has the
    answers of all agents.
    """
    in_order = sorted(rows, key=lambda row: (moment(row.created), _is_fork(row), *by_time(row)))
    return [one for row in in_order for one in sorted(_with_more(row), key=_place_of_answers)]


def _is_fork(row: SessionInfo) -> bool:
    return any(one.copy_of not in (None, one.id) for one in (row, *row.copies))


def _place_of_answers(one: SessionInfo) -> tuple[int, float]:
    """A later conversion has the answers of an earlier one."""
    if one.is_converted:
        return (1 if one.went_on else 3), moment(one.modified)
    return 2 * distance(one), 0.0


def files_with_more(row: SessionInfo) -> list[str]:
    """The files of a row that may have an entry of their own, the one that counts first.

    That may be a label or a name that was given to an import.
    """
    with_more = [one.file for one in _with_more(row)]
    return [*dict.fromkeys([row.file, *with_more, *files_with_marks(row)])]


def files_with_marks(row: SessionInfo) -> list[str]:
    """The imports of a row, other than its file, that have a label or a name of their own."""
    imports = (one for one in row.copies if one.imported_from is not None)
    return [one.file for one in imports if _has_marks(one)]


def _has_marks(one: SessionInfo) -> bool:
    with suppress(SessionTreeError):
        return has_marks(one.file)
    return True  # who reads the file says what is wrong


def _with_more(row: SessionInfo) -> Iterator[SessionInfo]:
    """The files of a row, without those that have nothing that one before them lacks.

    An import at the time of its agent's file has what that file has. If the file begins otherwise,
    or changed since, on the disk as well, the import may have what it lost.
    """
    first, *others = sorted((replace(row, copies=()), *row.copies), key=distance)
    yield first
    for one in others:
        is_as_late = moment(one.modified) == moment(first.modified)
        is_later = moment(one.modified) > moment(first.modified)
        is_same = is_as_late and one.first_message == first.first_message
        may_have_lost = one.imported_from is not None and (not is_same or _is_older(one, first))
        if is_later or may_have_lost or one.went_on or distance(one) == 0:
            yield one


def _is_older(one: SessionInfo, other: SessionInfo) -> bool:
    """True if a file was written before another one changed, as far as that is known."""
    if is_address(one.file) or is_address(other.file):
        return False
    return 0 <= stamp_of([one.file])[1] < stamp_of([other.file])[1]


def continuations(row: SessionInfo) -> list[SessionInfo]:
    """The copies of a row that have what neither its file nor an earlier one of them has.

    What a copy has is told by its prompts, and of files that were not converted by their answers as
    well. Agents' files come first, each the latest first; an import may have all of them.
    """
    others = [one for one in _with_more(row) if one.file != row.file]
    if not others or (known := _content_of(row)) is None:
        return []
    found: list[SessionInfo] = []
    for one in sorted(others, key=lambda one: (one.agent is None, -moment(one.modified))):
        content = _content_of(one)
        if content is None:
            continue
        has_answers = row.is_converted or one.is_converted or content.answers <= known.answers
        if content.prompts <= known.prompts and has_answers:
            continue
        found.append(one)
        known = _Content(known.prompts | content.prompts, known.answers | content.answers)
    return found


class _Content(NamedTuple):
    prompts: set[int]
    answers: set[str]


def _content_of(one: SessionInfo) -> _Content | None:
    """What was said in a file; None if that cannot be read, which who reads the file says."""
    with suppress(SessionTreeError):
        counts = one.counts.file
        return _Content(counts.prompts(), {spent.copy_key for spent in counts.spent()})
    return None


def in_store(row: SessionInfo) -> SessionInfo:
    """The copy of a row that has all of it and can be written: an import, if one is up to date."""
    if row.agent is None:
        return row
    imports = (one for one in row.copies if one.agent is None)
    late = (one for one in imports if moment(one.modified) >= moment(row.modified))
    if (own := next(late, None)) is None:
        return row
    others = (one for one in row.copies if one is not own)
    return replace(own, copies=(replace(row, copies=()), *others))
