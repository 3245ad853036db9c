"""Ctrl-C at any line of a log at an address leaves nothing that keeps other writers out."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sessiontree import Session
from tests.places.kinds import opened
from tests.support.conversation import user
from tests.support.interrupts import Interrupt, Work
from tests.support.soak import in_soak
from tests.support.table import for_each

LOGS = (
    "storage/log.py",
    "storage/lock.py",
    "objects/log.py",
    "postgres/log.py",
    "postgres/lock.py",
)
"""What holds a session at an address: the modules of its log and of its lock."""


def locked(session: Session) -> Work:
    yield
    with session.locked():
        session.append_message(user("one"))
        session.append_message(user("two"))


def label(session: Session) -> Work:
    yield
    session.label(session.leaf.uuid, "here")


def keep(session: Session) -> Work:
    with session.scratch() as trial:
        trial.append_message(user("trial"))
        yield
        trial.keep()


@pytest.mark.slow
@for_each("kind", ["memory", "postgres", "objects"])
@in_soak("operations, sample", ((locked,), 3), ((locked, label, keep), 24))
def test_after_an_interrupt_others_write_and_so_does_the_session(
    operations: Sequence[Callable[[Session], Work]],
    sample: int,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.unraisablehook", lambda _: None)  # of an interrupted finalizer
    if kind == "postgres":
        monkeypatch.setattr("sessiontree.storage.postgres.lock.PATIENCE_SECONDS", 1.0)

    with opened(kind, tmp_path) as (_, url):

        def interrupted(
            operation: Callable[[Session], Work], name: str, interrupt: Interrupt
        ) -> None:
            place, mark, options = url.partition("?")
            file = f"{place}/{operation.__name__}-{name}.jsonl{mark}{options}"
            with Session.create(file, cwd="/project", durability="os") as session:
                kept = [session.append_message(user("first")).uuid]
                work = operation(session)
                next(work)
                interrupt.run(work)
                work.close()
                del work
                gc.collect()
                kept.append(session.append_message(user("after")).uuid)
                with Session.open(file) as other, other.locked():
                    kept.append(other.append_message(user("other")).uuid)
            with Session.open(file, readonly=True) as session:
                assert set(kept) <= {entry.uuid for entry in session.entries()}, interrupt.place

        for operation in operations:
            interrupted(operation, "first", Interrupt(-1))
            whole = Interrupt(-1)
            interrupted(operation, "whole", whole)
            first = {moment: at for at, moment in reversed(list(enumerate(whole.moments)))}
            chosen = sorted(at for (path, _), at in first.items() if path.endswith(LOGS))
            for at in chosen[:: len(chosen) // sample + 1]:  # of the lines of the log and its lock
                interrupted(operation, str(at), Interrupt(at))
