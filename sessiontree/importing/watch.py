"""Watching: a pass of a backup after each change of an agent's file, until it is stopped.

A pass waits for a moment in which no file changes, but not for ever: an agent that writes without a
pause is backed up while it writes. Passes take at most a fifth of the time, unless they are long.
Each `POLL_SECONDS` there is a pass without a notice of the system as well: a change that the system
did not tell of, in a folder that was made meanwhile or while a pass ran, is only late, not lost.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from sessiontree.errors import SessionTreeError
from sessiontree.importing.backup import Backup, BackupResult
from sessiontree.storage.files import is_session_name

POLL_SECONDS: Final = 15.0
QUIET_MILLISECONDS: Final = 500
LONGEST_WAIT_MILLISECONDS: Final = 20_000
"""How long a pass waits for a quiet moment after the first change."""

_PAUSE: Final = 4
"""The pause after a pass, as a multiple of the time that it took."""

_LONGEST_PAUSE: Final = 10.0
_SIDECAR: Final = ".json"


def watched(
    backup: Backup, stop: threading.Event, run: Callable[[], BackupResult]
) -> Iterator[BackupResult | SessionTreeError]:
    """The results of the passes of a backup, the first one at once, until `stop` is set.

    Args:
        backup: knows the places that are watched.
        run: makes a pass. If a later pass than the first fails, its error is the result, and the
            next pass tries again.
    """
    took = 0.0
    yield run()
    while not stop.is_set():
        places = _places(backup)
        for _ in _changes(places, backup.root, stop):
            stop.wait(min(_PAUSE * took, _LONGEST_PAUSE))
            if stop.is_set():
                return
            started = time.monotonic()
            try:
                result: BackupResult | SessionTreeError = run()
            except SessionTreeError as error:
                result = error
            took = time.monotonic() - started
            yield result
            if places != _places(backup):
                break  # a home was made or removed


def _places(backup: Backup) -> list[str]:
    return [place for place in backup.places() if os.path.exists(place)]


def _changes(places: Sequence[str], root: str, stop: threading.Event) -> Iterator[None]:
    """Yield after a change of a session's file, and now and then without one."""
    if places:
        from watchfiles import watch  # heavy, and only watching needs it

        own = os.path.join(os.path.realpath(root), "")
        due = time.monotonic() + POLL_SECONDS
        # If the system has no watches left, the loop below looks now and then.
        with suppress(OSError, RuntimeError):
            for changes in watch(
                *places,
                watch_filter=None,
                stop_event=stop,
                debounce=LONGEST_WAIT_MILLISECONDS,
                step=QUIET_MILLISECONDS,
                rust_timeout=int(POLL_SECONDS * 1000),
                yield_on_timeout=True,
            ):
                is_news = any(_is_of_session(path, own) for _, path in changes)
                if is_news or time.monotonic() >= due:
                    yield None
                    due = time.monotonic() + POLL_SECONDS
    while not stop.wait(POLL_SECONDS):
        yield None


def _is_of_session(path: str, own: str) -> bool:
    name = os.path.basename(path)
    return (is_session_name(name) or name.endswith(_SIDECAR)) and not path.startswith(own)
