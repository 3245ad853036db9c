"""The interpreter's collector of cycles, held back while a path becomes messages.

A path is read into hundreds of thousands of dicts and lists, all of them kept and
none part of a cycle. The collector would look through them again and again while
they are made, which is a fifth of the time of a long resume.

Invariants: a collector that was on is on again afterwards, however it ends; one that
was off stays off. That holds for threads at once too, without a lock: whoever finds
it on turns it on again, and whoever finds it off leaves that to another.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_back() -> Iterator[None]:
    """No collection of cycles starts by itself inside."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
