"""Lanes: other lines of work in the same file, each a session with its own leaf.

Invariants: a lane's session writes on its lane alone and never moves another's
leaf; it goes by the lock of the session it was opened from, so both may write,
also where that one is exclusive; what a scratch lane tried counts for nothing
until it is kept, by one entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessiontree import refs
from sessiontree.core.entry import Entry
from sessiontree.core.garbage import SCRATCH
from sessiontree.errors import CallerError, NothingToDoError
from sessiontree.reader import Ref
from sessiontree.writer import fresh_uuid

if TYPE_CHECKING:
    from sessiontree.session import Session


def opened(session: Session, name: str, at: Ref | None) -> Session:
    """See `Session.lane`."""
    refs.check_name(name, "lane name")
    session._ready()
    start = None if at is None else session.entry(at)
    journal = session._journal.beside()
    try:
        lane = type(session)(journal, name, session._hooks.registered, session._spill_over)
        if start is not None:
            lane._move(lane.entry(start.uuid))
    except BaseException:
        journal.close()
        raise
    lane._disk = session._disk
    lane._registry, lane._root = session._registry, session._root
    lane._origin = session
    return lane


def fresh_scratch() -> str:
    """A name that no scratch lane has."""
    return SCRATCH + fresh_uuid()[:8]


def keep(session: Session, name: str) -> Entry:
    """See `Session.keep`, for a lane that another session wrote on."""
    if name == session.lane_name:
        raise CallerError(f"this session is on the lane {name} itself; keep it from another lane")
    session.refresh()
    tip = session._ready().walk().last_on(None if name == "main" else name)
    if tip is None:
        raise NothingToDoError(f"there is nothing on the lane {name} to be kept")
    return session._write_run([("branch", {}, fresh_uuid())], tip, "branch")


def keep_own(session: Session) -> Entry:
    """See `Session.keep`, for the lane that a session is on."""
    name = session.lane_name
    if name == "main":
        raise CallerError("the main lane is kept as it is; name the lane to be kept")
    origin = session._origin
    if origin is not None and not origin._journal.closed:
        return keep(origin, name)
    with opened(session, "main", None) as main:
        return keep(main, name)
