"""Lanes: other lines of work in the same file, each a session with its own leaf.

Invariants: a lane's session writes on its lane alone and never moves another's
leaf; it goes by the lock of the session it was opened from, so both may write,
also where that one is exclusive; what a scratch lane tried counts for nothing
until it is kept, by one entry, and what is kept is the whole lane as it stands in
the file then; a session never goes on on a scratch lane that it kept itself, for
nobody would see what it writes there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from sessiontree.core.entry import HEADER, MAIN, Entry
from sessiontree.core.garbage import SCRATCH
from sessiontree.engine import refs
from sessiontree.engine.reader import Ref
from sessiontree.engine.writer import fresh_uuid
from sessiontree.errors import NothingToDoError, RefError, UsageError

if TYPE_CHECKING:
    from sessiontree.session import Session

_MOST_NAMED: Final = 8


def opened(session: Session, name: str, at: Ref | None, *, is_fresh: bool = False) -> Session:
    """See `Session.lane`; a fresh lane is surely on no entry, and is not searched for."""
    refs.check_name(name, "lane name")
    session._ready()
    session._log.size()  # refused where it is closed
    start = None if at is None else session.entry(at)
    if not session._file.is_current:
        lane = _translated(session, MAIN if start is not None else name)
        lane._lane = None if name == MAIN else name
    else:
        lane = _beside(session, MAIN if is_fresh else name)
        lane._lane = None if name == MAIN else name
        if at is None and session._log.readonly:
            _check_or_close(lane)
    if start is not None:
        try:
            lane._move(lane.entry(start))
        except BaseException:
            lane.close()
            raise
    return lane


def check_there(session: Session) -> None:
    """Refuse to look at a lane that nothing was ever written on.

    Raises:
        RefError: there is no such lane.
    """
    name = session._lane
    if name is None or session.leaf.lane == name:
        return
    session._ready()
    if session._view.walk().last_on(name) is None:
        raise RefError(
            f"nothing was written on a lane {name!r}{_lanes_there(session)}",
            name,
            [lane for lane in session._index().lanes if lane is not None],
        )


def _check_or_close(lane: Session) -> None:
    try:
        check_there(lane)
    except BaseException:
        lane.close()
        raise


def _beside(session: Session, name: str) -> Session:
    log = session._log.beside()
    try:
        lane = type(session)(log, name, session._hooks.registered, session._spill_over)
    except BaseException:
        log.close()
        raise
    lane._disk = session._disk
    lane._registry, lane._root = session._registry, session._root
    lane._origin = session
    return lane


def _translated(session: Session, name: str) -> Session:
    """A lane of a file that is translated in memory, which is read anew for it."""
    return type(session).open(
        session._log.path,
        readonly=True,
        lane=name,
        hooks=session._hooks.registered,
        registry=session._registry,
        root=session._root,
        fs=session._disk,
    )


def scratch(session: Session, at: Ref | None) -> Session:
    """See `Session.scratch`."""
    session._log.check_writable()
    return opened(session, fresh_scratch(), session.leaf if at is None else at, is_fresh=True)


def fresh_scratch() -> str:
    """A name that no scratch lane has."""
    return SCRATCH + fresh_uuid()[:8]


def keep(session: Session, name: str) -> Entry:
    """See `Session.keep`, for a lane that another session wrote on."""
    session._log.check_writable()
    if name == session.lane_name:
        raise UsageError(f"this session is on the lane {name} itself; keep it from another lane")
    uuid = fresh_uuid()
    if session._hooks:
        session.refresh()
        tip, fields = _joint(session, name)
        session._call_before("branch", session._draft("branch", fields, tip.uuid, uuid))
    with session._holding():
        tip, fields = _joint(session, name)  # as it is now that nobody else writes
        entry = session._draft("branch", fields, tip.uuid, uuid)
        session._put([entry])
        session._move(entry)
        session._tail = uuid
    if session._hooks:
        session._call_after("branch", entry)
    return entry


def _joint(session: Session, name: str) -> tuple[Entry, dict[str, Any]]:
    """The last entry of a lane, below which a session is to go on, and what it says there."""
    with session._log.lock.alone():
        view = session._ready()
        if not session._log.stands_at(view.size):
            session._see_others()  # lanes of this process write inside a batch of the session
        tip = session._view.walk().last_on(None if name == MAIN else name)
        if tip is None:
            raise NothingToDoError(
                f"there is nothing on the lane {name} to be kept{_lanes_there(session)}"
            )
        if _is_above(session, tip, session.leaf):
            raise NothingToDoError(
                f"the lane {name} is kept already: its last entry {tip.uuid} is on the current "
                f"path of {session.lane_name}; nothing was written"
            )
        left = _left_by(session, tip)
        return tip, {} if left is None else {"fromUuid": left.uuid}


def _lanes_there(session: Session) -> str:
    lanes = [lane for lane in session._index().lanes if lane is not None]
    if not lanes:
        return "; no lane but main has an entry"
    more = f" and {len(lanes) - _MOST_NAMED} more" if len(lanes) > _MOST_NAMED else ""
    return f"; there are entries on {', '.join(lanes[-_MOST_NAMED:])}{more}"


def _left_by(session: Session, tip: Entry) -> Entry | None:
    """Where a session's lane stands, if that is not on the path to an entry."""
    leaf = session._leaf_in_file()
    if leaf.lane != session._lane:
        return None  # the lane has no entry yet
    left = session._standing(leaf)
    return None if left.type == HEADER or _is_above(session, left, tip) else left


def _is_above(session: Session, above: Entry, entry: Entry) -> bool:
    """Whether one entry is another or an ancestor of it.

    Parents stand before their children, so that no more is read than lies between; in a
    file where one does not, an ancestor may be missed.
    """
    if entry == above:
        return True
    for found in session._view.walk().up(entry):
        if found == above:
            return True
        if found.offset < above.offset:
            return False
    return False


def keep_own(session: Session) -> Entry:
    """See `Session.keep`, for the lane that a session is on."""
    name = session.lane_name
    if name == MAIN:
        raise UsageError("the main lane is kept as it is; name the lane to be kept")
    if not session._log.closed:
        session._log.check_writable()
        session._ready()  # what waits in a batch is a part of it
    with _home(session) as home:
        if not name.startswith(SCRATCH):
            return keep(home, name)
        with _ended(session, home):
            return keep(home, name)


@contextlib.contextmanager
def _home(session: Session) -> Iterator[Session]:
    """A session on the lane that another was opened from, which is to keep its work."""
    home = session._origin
    while home is not None and (home._log.ended or home.lane_name == session.lane_name):
        home = home._origin  # one that was kept itself is a part of where it was kept
    if home is not None and not home._log.closed:
        yield home
        return
    session._log.check_writable()  # nor is this one closed
    with opened(session, MAIN if home is None else home.lane_name, None) as found:
        yield found


@contextlib.contextmanager
def _ended(session: Session, home: Session) -> Iterator[None]:
    """Let a session write no more, from before its lane is kept on, unless that fails."""
    session._log.ended = (
        f"the scratch lane {session.lane_name} was kept, and is a part of {home.lane_name}; "
        "go on there, or try on a fresh scratch lane"
    )
    try:
        yield
    except BaseException:
        session._log.ended = ""
        raise
