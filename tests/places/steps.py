"""A program that ends at one of its steps: each write to a place is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sessiontree.storage.memory import MemoryFiles
from sessiontree.storage.memory_place import MemoryPlace
from sessiontree.storage.objects.bucket import Bucket
from sessiontree.storage.objects.place import ObjectPlace
from sessiontree.storage.place import Place
from sessiontree.storage.postgres.log import PostgresLog
from sessiontree.storage.postgres.place import PostgresPlace


class Killed(BaseException):
    """The program ends here."""


class Steps:
    """Ends the program at a step, before or after it; what it does then has no effect."""

    def __init__(self) -> None:
        self.count = 0
        self.last = -1
        self.is_dead = False

    def step(self) -> None:
        if self.is_dead or self.count == self.last:
            self.is_dead = True
            raise Killed
        self.count += 1

    def revive(self, last: int = -1) -> None:
        self.count, self.last, self.is_dead = 0, last, False

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            self.step()
            done = call(*args, **kwargs)
            self.step()
            return done

        return called


def stepped(place: Place, monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Make each write to a place a step; to a bucket, each request that writes."""
    steps = Steps()
    if isinstance(place, ObjectPlace):
        sending = Bucket._sending

        def step(bucket: Bucket, kind: str) -> Any:
            if bucket is place.bucket and kind not in ("get", "head", "list"):
                steps.step()
            return sending(bucket, kind)

        monkeypatch.setattr(Bucket, "_sending", step)
        monkeypatch.setattr(
            "sessiontree.storage.objects.place.side_by_side",
            lambda call, all: [call(one) for one in all],
        )
        return steps
    if isinstance(place, MemoryPlace):
        for name in ("open", "write", "replace", "link", "unlink"):
            monkeypatch.setattr(MemoryFiles, name, steps.around(getattr(MemoryFiles, name)))
        return steps
    assert isinstance(place, PostgresPlace)
    for name in ("put", "copy", "remove"):
        write = getattr(place.contents, name)
        monkeypatch.setattr(place.contents, name, steps.around(write))
    for name in ("move", "create"):
        monkeypatch.setattr(place, name, steps.around(getattr(place, name)))
    monkeypatch.setattr(PostgresLog, "append", steps.around(PostgresLog.append))
    return steps


def kill_at_each_step(
    steps: Steps,
    prepare: Callable[[], object],
    act: Callable[[], object],
    check: Callable[[], object],
) -> int:
    """Kill a program at each of its steps; check what is left, and how many steps there are."""
    for last in _numbers():
        steps.revive()
        prepare()
        steps.revive(last)
        try:
            act()
        except Killed:
            steps.revive()
            check()
            continue
        steps.revive()
        return last
    raise AssertionError


def _numbers() -> Iterator[int]:
    yield from range(1000)
