"""The command that opens the browser in the terminal."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from sessiontree.cli import arguments
from sessiontree.cli.terminal import is_terminal, tell_each
from sessiontree.errors import SessionTreeError, SessionTreeWarning, UsageError
from sessiontree.tui.frame import first_frame

if TYPE_CHECKING:
    from sessiontree.catalog.listing import SessionInfo
    from sessiontree.tui.resuming import Resume

_INSTALL: Final = "pip install '.[tui]'"


@arguments.command("browse")
@arguments.places
def browse(places: tuple[str, ...]) -> None:
    """The browser lists the sessions that 'sessiontree ls' lists, in the terminal. What you type
    filters the list, and Enter opens a session: its turns and branches, which fold, and each turn
    in full. With one FILE, the browser opens this session. '?' lists the keys of each view.

    Reading changes no session. The browser needs a terminal; 'ls', 'tree' and 'show' print the
    same. 'sessiontree' without a command opens the browser, if it is installed.
    """
    _check_can_run()
    problems: list[str] = []
    with _warnings_kept(), first_frame():
        ended = _run(places, problems)
    tell_each("Left out", problems)
    if ended is not None:
        _resume(ended)


def _run(places: tuple[str, ...], problems: list[str]) -> Resume | None:
    """Draw the list, and then import what is slow to import."""
    from sessiontree.catalog.places import Selection, in_order, sessions_in, without_imports
    from sessiontree.cli.lookup import only_session, places_at

    looked_in = places_at(places)
    file = only_session(looked_in)

    def find() -> list[SessionInfo]:
        problems.clear()
        found = list(sessions_in(looked_in, Selection(), problems.append))
        return in_order(without_imports(found), "modified")

    sessions = None
    if file is None:
        from sessiontree.tui.first import draw_list

        sessions = find()
        draw_list(sessions, "modified")
    else:
        from sessiontree.tui.last import draw_last

        draw_last(file)
    from sessiontree.tui.app import Browser

    return Browser(sessions, find, file).run()


def _resume(ended: Resume) -> None:
    """Run the agent in place of this program; only print its command if it is not installed."""
    from sessiontree.catalog.listing import facts_of
    from sessiontree.cli.resume import resume_session

    resume_session(facts_of(ended.file), ended.agent, runs=ended.runs)


def _check_can_run() -> None:
    if find_spec("textual") is None:
        raise SessionTreeError(
            f"this command needs the package textual, which is not installed; in the checkout of "
            f"sessiontree, run: {_INSTALL}"
        )
    if not (is_terminal() and is_terminal(sys.stdin)):
        raise UsageError(
            "the browser needs a terminal; 'sessiontree ls' and 'sessiontree tree' print the same"
        )


@contextmanager
def _warnings_kept() -> Iterator[None]:
    """Keep the warnings of the library until the terminal is free again, then print each once."""
    found: dict[str, None] = {}

    def keep(message: Warning | str, *where: Any, **more: Any) -> None:
        found[str(message)] = None

    with warnings.catch_warnings():
        warnings.simplefilter("always", SessionTreeWarning)
        warnings.showwarning = keep
        yield
    tell_each("Warning", list(found))
