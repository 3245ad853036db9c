from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessiontree import Session
from sessiontree.engine.walk import gc_paused
from tests.support.conversation import assistant


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """The collector as a program has it, with nothing frozen; it is as it was afterwards."""
    was_on = gc.isenabled()
    gc.enable()
    gc.unfreeze()
    yield
    gc.freeze()
    if not was_on:
        gc.disable()


def test_the_collector_is_off_inside_and_on_again_afterwards() -> None:
    with gc_paused():
        assert not gc.isenabled()
        with gc_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_leaves_the_collector_on() -> None:
    with pytest.raises(ZeroDivisionError), gc_paused():
        _ = 1 / 0
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with gc_paused():
        pass
    assert not gc.isenabled()


def test_threads_that_hold_it_back_at_once_leave_it_on() -> None:
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))

    def second() -> None:
        first_is_in.wait()
        with gc_paused():
            second_is_in.set()
            first_is_out.wait()

    thread = threading.Thread(target=second)
    thread.start()
    with gc_paused():
        first_is_in.set()
        second_is_in.wait()
    first_is_out.set()
    thread.join()
    assert gc.isenabled()


def test_nothing_is_collected_while_a_context_is_built(file: Path) -> None:
    with Session.create(file, durability="os") as session, session.batch():
        for number in range(3_000):
            session.append_message(assistant(f"message {number}"))
    collections: list[str] = []

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            collections.append(phase)

    with Session.open(file, readonly=True) as session:
        gc.callbacks.append(count)
        try:
            messages = session.context().messages
        finally:
            gc.callbacks.remove(count)
    assert len(messages) == 3_000
    assert len(collections) <= 1  # the one that is due when all is done
