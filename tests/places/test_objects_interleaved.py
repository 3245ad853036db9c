"""Programs whose requests to one bucket are interleaved, lost and late, as a seed chooses.

    python -m tests.places.test_objects_interleaved [--schedules N] [--first SEED]

Each program runs in a thread, and waits before each request until the schedule lets it go on: the
request is done, or done with its answer lost, or arrives later, or a listing lacks the newest
object. A program may be killed at any request. At the end of the log there may be the claim of a
program up to 0.2.0, which renews it at any moment.

What must hold: the session has each acknowledged block once, and each other block at most once; of
updates that read a number and write the next one, none is lost.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeVar
from unittest.mock import patch

from sessiontree.errors import StorageError
from sessiontree.storage.log import Moved
from sessiontree.storage.objects import generation as generations
from sessiontree.storage.objects.bucket import (
    Bucket,
    ObjectInfo,
    ObjectRange,
    OutcomeUnknown,
    PreconditionFailed,
)
from sessiontree.storage.objects.log import ObjectLog
from sessiontree.storage.objects.place import ObjectPlace
from tests.support.soak import in_soak

NAME: Final = "p/s.jsonl"
HEADER: Final = b"header\n"
BLOCKS: Final = (b"a\n", b"bb\n", b"ccc\n")
PATIENCE: Final = 20.0

T = TypeVar("T")
R = TypeVar("R")


class Killed(BaseException):
    """The program is killed."""


class Kept(NamedTuple):
    content: bytes
    etag: str
    by: str


_VERSIONS: Final = itertools.count()


class Server(Bucket):
    """A bucket in a dict, which answers at once."""

    def __init__(self, objects: dict[str, Kept]) -> None:
        super().__init__("s3://stage", object())  # type: ignore[arg-type]
        self.objects = objects

    def _put(self, key: str, content: bytes, mode: Any, by: str) -> str:
        before = self.objects.get(key)
        if mode == "create" and before is not None:
            raise PreconditionFailed
        if isinstance(mode, dict) and (before is None or before.etag != mode["e_tag"]):
            raise PreconditionFailed
        self.objects[key] = Kept(content, str(next(_VERSIONS)), by)
        return self.objects[key].etag

    def get(self, key: str, start: int = 0, end: int | None = None) -> ObjectRange:
        if (found := self.objects.get(key)) is None:
            raise FileNotFoundError(key)
        content, etag, by = found
        return ObjectRange(content[start:end], len(content), etag, by, 0.0)

    def head(self, key: str) -> ObjectInfo | None:
        found = self.objects.get(key)
        return None if found is None else self._listed(key, found)

    def _listed(self, key: str, found: Kept) -> ObjectInfo:
        return ObjectInfo(key, len(found.content), found.etag, 0.0)

    def list(self, folder: str, after: str = "") -> Iterator[ObjectInfo]:
        keys = sorted(key for key in self.objects if key.startswith(f"{folder}/") and key > after)
        return iter([self._listed(key, self.objects[key]) for key in keys])

    def remove(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.objects.pop(key, None)


class StagedBucket(Server):
    """A bucket whose requests wait until they may go."""

    def __init__(self, stage: Stage, program: Program) -> None:
        super().__init__(stage.objects)
        self._stage = stage
        self._program = program

    def _put(self, key: str, content: bytes, mode: Any, by: str) -> str:
        how = self._program.ask()
        if how == "late":
            self._stage.late.append(lambda: super(StagedBucket, self)._put(key, content, mode, by))
            raise OutcomeUnknown("no answer")
        if how == "lose":
            with contextlib.suppress(PreconditionFailed):
                super()._put(key, content, mode, by)
            raise OutcomeUnknown("no answer")
        return super()._put(key, content, mode, by)

    def get(self, key: str, start: int = 0, end: int | None = None) -> ObjectRange:
        self._program.ask()
        return super().get(key, start, end)

    def head(self, key: str) -> ObjectInfo | None:
        self._program.ask()
        return super().head(key)

    def list(self, folder: str, after: str = "") -> Iterator[ObjectInfo]:
        how = self._program.ask()
        found = [*super().list(folder, after)]
        return iter(found[:-1] if how == "late" and folder.endswith("/log") else found)

    def remove(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._program.ask()
            super().remove([key])


class Stage:
    """The bucket, its late requests, and what the programs were told."""

    def __init__(self) -> None:
        self.objects: dict[str, Kept] = {}
        self.late: list[Callable[[], object]] = []
        self.acknowledged: Counter[bytes] = Counter()
        self.tried: Counter[bytes] = Counter()

    def content(self) -> bytes:
        """What a program that opens the session now reads."""
        log = ObjectPlace(Server(self.objects)).log(NAME, readonly=True)
        return log.read(0, log.size())


class Program:
    """A program that writes to the session, one request at a time, in a thread that stays."""

    def __init__(self) -> None:
        self.is_running = False
        self.error: BaseException | None = None
        self._do: Callable[[Program], None] = close
        self._how = ""
        self._may_go, self._stands = threading.Lock(), threading.Lock()  # each lets one wait go
        self._may_go.acquire()
        self._stands.acquire()
        threading.Thread(target=self._work, daemon=True).start()

    def enter(self, stage: Stage) -> None:
        """Begin on a stage, as a new process does."""
        self.stage = stage
        self.place = ObjectPlace(StagedBucket(stage, self))
        self.place._is_probed = True
        self.log: ObjectLog | None = None

    def begin(self, do: Callable[[Program], None]) -> None:
        """Run an operation until its first request."""
        self.is_running, self._do = True, do
        self._may_go.release()
        self._wait()

    def _work(self) -> None:
        while True:
            self._may_go.acquire()
            try:
                self._do(self)
            except (StorageError, Moved):
                self.log = None  # opened again by the next operation
            except Killed:
                pass
            except BaseException as error:
                self.error = error
            self.is_running = False
            self._stands.release()

    def _wait(self) -> None:
        assert self._stands.acquire(timeout=PATIENCE), "a program waits for what never comes"
        if self.error is not None:
            raise self.error

    def step(self, how: str) -> None:
        """Let one request go, and wait for the next one, or for the end."""
        self._how = how
        self._may_go.release()
        self._wait()

    def ask(self) -> str:
        """Wait, in the program, until it may send a request."""
        self._stands.release()
        self._may_go.acquire()
        if self._how == "kill":
            raise Killed
        return self._how


def opened(program: Program) -> ObjectLog:
    if program.log is None or program.log.closed:
        program.log = program.place.log(NAME)
    return program.log


def write(program: Program, log: ObjectLog, block: bytes, at: int) -> int:
    program.stage.tried[block] += 1
    with log.alone():
        try:
            offset = log.append(block, at)
        except Moved:
            program.stage.tried[block] -= 1
            raise
    program.stage.acknowledged[block] += 1
    return offset + len(block)


def again(program: Program, do: Callable[[ObjectLog, int], object]) -> None:
    """Hold the log, and do something at the end that is seen; again, if others were faster."""
    log = opened(program)
    for _ in range(20):
        with contextlib.suppress(Moved), log.hold():
            if log.was_replaced():
                log.reopen()
            do(log, log.size())
            return


def append(block: bytes) -> Callable[[Program], None]:
    """Append as the engine does: where the end is believed to be, then where it is."""

    def do(program: Program) -> None:
        log = opened(program)
        try:
            write(program, log, block, log._generation.end)
        except Moved:
            again(program, lambda log, end: write(program, log, block, end))

    return do


def update(program: Program) -> None:
    """Append the number that comes after the last one."""

    def write_next(log: ObjectLog, end: int) -> None:
        numbers = [line for line in log.read(0, end).splitlines() if line.startswith(b"u")]
        write(program, log, b"u%d\n" % (len(numbers) + 1), end)

    again(program, write_next)


def update_twice(program: Program) -> None:
    """Append two numbers in one hold; of those, the first may come alone."""

    def write_both(log: ObjectLog, end: int) -> None:
        for _ in range(2):
            lines = log.read(0, end).splitlines()
            end = write(program, log, b"u%d\n" % (sum(map(_is_update, lines)) + 1), end)
            assert log.ends_at(end)

    again(program, write_both)


def _is_update(line: bytes) -> bool:
    return line.startswith(b"u")


def rewrite(program: Program) -> None:
    """Replace the session with a copy of what it has."""
    again(program, lambda log, end: log.rewrite(iter([log.read(0, end)])))


def read(program: Program) -> None:
    """Read all, through whatever is merged meanwhile."""
    log = opened(program)
    before = log.identity
    content = log.read(0, log.size())
    assert content.startswith(HEADER)
    again = log.read(0, log.size())
    assert again.startswith(content) or log.identity != before


def close(program: Program) -> None:
    if program.log is not None:
        program.log.close()


def claim(stage: Stage) -> None:
    """Claim the end, or renew the claim, as a program up to 0.2.0 does."""
    server = Server(stage.objects)
    found = ObjectPlace(server).log(NAME, readonly=True)._generation
    said = {"kind": "claim", "pid": 1, "count": len(stage.objects)}
    mark = (b"\0sessiontree mark 1\n" + json.dumps(said).encode()).ljust(511) + b"\n"
    key = found.block_key(found.end)
    if found.claim:
        server.replace(key, mark, found.claim)
    elif key not in stage.objects:
        server.create(key, mark)


OPERATIONS: Final = (
    *(append(block) for block in BLOCKS),
    *(update, update, update_twice, rewrite, read, close),
)


class Schedules:
    """Runs schedules, one after the other, with the same threads."""

    def __init__(self) -> None:
        self._programs = [Program() for _ in range(3)]

    def run(self, seed: int) -> None:
        """Run one schedule, and check what is left."""
        rng = random.Random(seed)
        stage = Stage()
        ObjectPlace(Server(stage.objects))._is_probed = True
        with patch.object(ObjectPlace, "check_server"):
            ObjectPlace(Server(stage.objects)).create(NAME, [HEADER * rng.choice([1, 1, 5])])
        start = stage.content()
        for program in self._programs:
            program.enter(stage)
        for _ in range(rng.randint(10, 60)):
            self._step(rng, stage)
        self._finish(stage)
        self._check(stage, start)

    def _step(self, rng: random.Random, stage: Stage) -> None:
        program = rng.choice(self._programs)
        chance = rng.random()
        if chance < 0.03 and stage.late:
            with contextlib.suppress(PreconditionFailed):
                stage.late.pop(rng.randrange(len(stage.late)))()
        elif chance < 0.06:
            claim(stage)
        elif chance < 0.10:
            while program.is_running:
                program.step("kill")
            program.enter(stage)
        elif not program.is_running:
            program.begin(rng.choice(OPERATIONS))
        else:
            how = rng.choice(["do", "do", "do", "do", "lose", "late"])
            for number in range(rng.choice([1, 1, 1, 2, 3, 5, 30])):
                if program.is_running:
                    program.step(how if number == 0 else "do")

    def _finish(self, stage: Stage) -> None:
        for program in self._programs:
            for _ in range(500):
                if not program.is_running:
                    break
                program.step("do")
            assert not program.is_running, "a program comes to its end"
        while stage.late:
            with contextlib.suppress(PreconditionFailed):
                stage.late.pop()()

    def _check(self, stage: Stage, start: bytes) -> None:
        content = stage.content()
        assert content.startswith(start)
        lines = content[len(start) :].splitlines(keepends=True)
        found = Counter(lines)
        updates = sum(map(_is_update, lines))
        expected = [b"u%d\n" % number for number in range(1, updates + 1)]
        assert [*filter(_is_update, lines)] == expected, "no update is lost"
        assert set(found) <= {*BLOCKS, *expected}
        for block in found | stage.acknowledged:
            assert stage.acknowledged[block] <= found[block] <= stage.tried[block], block


def one_by_one(do: Callable[[T], R], given: Iterable[T]) -> list[R]:
    return [do(each) for each in given]


@contextlib.contextmanager
def _hurried() -> Iterator[None]:
    """Merge early, wait for nobody, and read one object after the other.

    What a program knows of a session it forgets when the last log is gone. An error keeps a log in
    a circle of objects, which the collector would remove at a moment that no seed chooses.
    """
    changes: dict[str, object] = {
        "generation._MANY": 3,
        "generation._FEW": 2,
        "generation._LARGE": 24,
        "generation._PAUSE": 0,
        "generation.side_by_side": one_by_one,
        "bucket._PAUSE": 0,
        "session._PAUSE": 0,
        "log._JUST_SECONDS": -1,
        "head.INLINE": 20,
    }
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        with contextlib.ExitStack() as stack:
            for name, value in changes.items():
                stack.enter_context(patch(f"sessiontree.storage.objects.{name}", value))
            yield
    finally:
        gc.enable()


def search(first: int, count: int) -> None:
    """Run schedules; an error names the seed to run again."""
    with _hurried():
        schedules = Schedules()
        for seed in range(first, first + count):
            try:
                schedules.run(seed)
            except BaseException as error:
                error.add_note(f"run it again with --first {seed} --schedules 1")
                raise
            if seed % 100 == 0:
                gc.collect()


@in_soak("schedules", 200, 1_000_000)
def test_no_acknowledged_block_or_update_is_lost_or_doubled_however_requests_interleave(
    schedules: int,
) -> None:
    assert generations._MANY > 3
    search(0, schedules)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--schedules", type=int, default=1_000_000)
    options.add_argument("--first", type=int, default=0)
    chosen = options.parse_args()
    search(chosen.first, chosen.schedules)
