"""Looking after one file: what is wrong with it and beside it, and the repair of any file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NamedTuple

from sessiontree.catalog.open import open_to_write
from sessiontree.core.damage import Damage
from sessiontree.core.entry import MAIN
from sessiontree.engine.repair import Progress, RepairResult
from sessiontree.errors import MissingHeaderError, StorageError
from sessiontree.session import Session, repair_file
from sessiontree.storage.atomic import strays
from sessiontree.storage.fs import DISK


class Verified(NamedTuple):
    """What a look at a whole file found.

    Attributes:
        damage: the damage in file order.
        strays: the paths of files beside it that an interrupted program may have left.
        unfinished: the names of blobs that an interrupted program may have left.
    """

    damage: list[Damage]
    strays: list[str]
    unfinished: list[str]


def verified(
    session: Session, file: str, progress: Progress, processes: int | None = None
) -> Verified:
    """Read a whole file and check each reference; see `Session.verify`."""
    damage = session.verify(progress, processes=processes)
    left = strays(DISK, file)
    unfinished: list[str] = []
    with contextlib.suppress(StorageError):  # which is among the findings
        unfinished = session.blobs.unfinished()
    return Verified(damage, left, unfinished)


def repaired(file: str, migrated: Callable[[], object]) -> RepairResult:
    """Repair a file, also one that must be migrated first or that has lost its header.

    `migrated` is called when a file of version 1 was migrated.
    """
    try:
        session, is_old = open_to_write(file, MAIN, migrate=True)
    except MissingHeaderError:
        return repair_file(file)
    if is_old:
        migrated()
    with session, session.locked():
        return session.repair()
