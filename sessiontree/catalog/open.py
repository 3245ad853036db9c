"""Opening a session to write, whatever its version.

Invariant: a file of version 1 that lies where an agent keeps its sessions is never migrated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sessiontree.engine.opening import Migrate
from sessiontree.errors import MigrationRefusedError
from sessiontree.session import Session

if TYPE_CHECKING:
    from sessiontree.handles.registry import Registry


def open_to_write(
    file: str,
    lane: str,
    hooks: Sequence[Any] = (),
    migrate: Migrate = "later",
    registry: Registry | None = None,
) -> tuple[Session, bool]:
    """Open a session to write, and say whether the file is of version 1, and may be migrated.

    Raises:
        ForeignFormatError: a version 1 file that lies where an agent keeps its sessions.
        SessionTreeError: any error of `Session.open`.
    """
    try:
        opened = Session.open(file, lane=lane, migrate=False, hooks=hooks, registry=registry)
    except MigrationRefusedError:
        from sessiontree.catalog.homes import check_not_of_agent  # few files are of version 1

        check_not_of_agent(file)
        return Session.open(file, lane=lane, migrate=migrate, hooks=hooks, registry=registry), True
    return opened, False
