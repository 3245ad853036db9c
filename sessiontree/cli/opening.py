"""Opening a session for one command: to look, or to write one thing at its tip."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from sessiontree.cli import output, terminal
from sessiontree.core.entry import Entry
from sessiontree.engine.opening import KEPT_AS
from sessiontree.errors import MigrationRefusedError
from sessiontree.session import Session


@contextlib.contextmanager
def reading(file: str, root: str | None = None) -> Iterator[Session]:
    """A session opened to look; what was met that is not sound is told at the end.

    Args:
        file: the session file.
        root: the folder that `file` handles are below; without it none is read.
    """
    with Session.open(file, readonly=True, root=root) as session:
        yield session
        terminal.tell_each("Damage", session.damage)


@contextlib.contextmanager
def writing(file: str, *, lane: str = "main", hold: bool = True) -> Iterator[Session]:
    """A session opened to write, standing at its tip, so that `@` means the tip.

    Args:
        file: the file; one of an old version is migrated.
        lane: the lane to write on.
        hold: whether to keep other writers out all the while. A command that asks
            another program first does not, for that may take longer than they
            have patience; it is told when they went on meanwhile.
    """
    session, _ = open_migrated(file, lane, () if hold else (_ToldOfOthers(),))
    with session:
        if hold:
            with session.locked():
                yield session
        else:
            with session.locked():
                pass
            yield session


class _ToldOfOthers:
    """A hook that says when another writer moved the leaf while this one was busy."""

    def on_conflict(self, session: Any, entry: Entry) -> None:
        terminal.tell(
            f"Warning: another writer went on meanwhile, to {output.named(entry)}; "
            "what this command wrote is now the leaf, and that a branch beside it"
        )


def open_migrated(
    file: str, lane: str = "main", hooks: tuple[Any, ...] = ()
) -> tuple[Session, str | None]:
    """A session opened to write, and where the original is if it had to be migrated."""
    try:
        return Session.open(file, lane=lane, migrate=False, hooks=hooks), None
    except MigrationRefusedError:
        session = Session.open(file, lane=lane, hooks=hooks)
    kept = (os.path.realpath(file) if os.path.islink(file) else file) + KEPT_AS
    terminal.tell(f"Migrated {file} to version 2; the original is kept as {kept}")
    return session, kept
