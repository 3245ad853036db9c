"""Pauses the interpreter's garbage collection while many objects are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_MANY_OBJECTS: Final = 10_000
"""New objects that the interpreter's garbage collector would take long to scan."""


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the interpreter's garbage collection of cycles.

    A long path is read into hundreds of thousands of dicts and lists, none part of a cycle.
    The collector would scan them again and again, a fifth of the time of a long resume, and up to
    three quarters of that of a conversion.
    Collection is on again afterwards if it was on before. With several threads, the one that
    found it on turns it on.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            _make_old()
            gc.enable()


def _make_old() -> None:
    """Count what was made meanwhile among the old objects, so that it is not scanned now."""
    if gc.get_count()[0] > _MANY_OBJECTS and not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
