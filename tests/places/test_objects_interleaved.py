"""Programs whose requests to one bucket are interleaved, lost and late, as a search chooses.

Each program runs in a thread, and waits before each request until the search lets it go on: the
request is done, or done with its answer lost, or arrives later, or a listing lacks the newest
object. A program may be killed at any request. A claim may be taken over at once, also from a
program that lives: nothing may depend on who is judged dead.

What must hold: the session has each acknowledged block once, and each other block at most once.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, Final, TypeVar
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sessiontree.errors import StorageError
from sessiontree.storage.log import Moved
from sessiontree.storage.objects.bucket import Bucket, Got, Stored, Unsure
from sessiontree.storage.objects.log import ObjectLog
from sessiontree.storage.objects.place import ObjectPlace

NAME: Final = "p/s.jsonl"
HEADER: Final = b"header\n"
BLOCKS: Final = (b"a\n", b"bb\n", b"ccc\n")
PATIENCE: Final = 20.0

T = TypeVar("T")
R = TypeVar("R")


class Killed(BaseException):
    """The program is killed."""


class Program:
    """A program that writes to the session, one request at a time."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.place = ObjectPlace(StagedBucket(stage, self))
        self.place._is_probed = True
        self.log: ObjectLog | None = None
        self.is_running = False
        self.error: BaseException | None = None
        self._how = ""
        self._may_go = threading.Semaphore(0)
        self._stands = threading.Semaphore(0)

    def begin(self, do: Callable[[Program], None]) -> None:
        """Run an operation until its first request."""
        self.is_running = True
        threading.Thread(target=self._run, args=(do,), daemon=True).start()
        self._wait()

    def _run(self, do: Callable[[Program], None]) -> None:
        try:
            do(self)
        except Killed:
            pass
        except (StorageError, Moved):
            self.log = None  # opened again by the next operation
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


class StagedBucket(Bucket):
    """A bucket whose requests wait until they may go."""

    def __init__(self, stage: Stage, program: Program) -> None:
        super().__init__("s3://stage", stage.store)
        self._stage = stage
        self._program = program

    def _put(self, key: str, content: bytes, mode: Any, by: str) -> str:
        how = self._program.ask()
        if how == "late":
            self._stage.late.append(lambda: super(StagedBucket, self)._put(key, content, mode, by))
            raise Unsure("no answer")
        try:
            return super()._put(key, content, mode, by)
        finally:
            if how == "lose":
                raise Unsure("no answer")

    def get(self, key: str, start: int = 0, end: int | None = None) -> Got:
        self._program.ask()
        return super().get(key, start, end)

    def head(self, key: str) -> Stored | None:
        self._program.ask()
        return super().head(key)

    def list(self, folder: str, after: str = "") -> Iterator[Stored]:
        how = self._program.ask()
        found = [*super().list(folder, after)]
        return iter(found[:-1] if how == "late" and folder.endswith("/log") else found)

    def remove(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._program.ask()
            super().remove([key])

    def upload(self, key: str, source: IO[bytes]) -> None:
        self._program.ask()
        super().upload(key, source)


class Stage:
    """The bucket, its late requests, and what the programs were told."""

    def __init__(self) -> None:
        from obstore.store import MemoryStore

        self.store = MemoryStore()
        self.late: list[Callable[[], object]] = []
        self.acknowledged: Counter[bytes] = Counter()
        self.tried: Counter[bytes] = Counter()

    def content(self) -> bytes:
        """What a program that opens the session now reads."""
        log = ObjectPlace(Bucket("s3://stage", self.store)).log(NAME, readonly=True)
        return log.read(0, log.size())


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


def append(block: bytes) -> Callable[[Program], None]:
    """Append as the engine does: where the end is believed to be, then under a hold."""

    def do(program: Program) -> None:
        log = opened(program)
        try:
            write(program, log, block, log._generation.end)
        except Moved:
            with log.hold():
                if log.was_replaced():
                    log.reopen()
                write(program, log, block, log.size())

    return do


def append_held(blocks: list[bytes]) -> Callable[[Program], None]:
    """Append some blocks that stand one behind the other."""

    def do(program: Program) -> None:
        log = opened(program)
        with log.hold(), log.hold():
            if log.was_replaced():
                log.reopen()
            end = log.size()
            for block in blocks:
                end = write(program, log, block, end)
            written = sum(map(len, blocks))
            assert log.read(end - written, written) == b"".join(blocks)

    return do


def rewrite(program: Program) -> None:
    """Replace the session with a copy of what it has."""
    log = opened(program)
    with log.hold():
        if log.was_replaced():
            log.reopen()
        content = log.read(0, log.size())
        log.rewrite(iter([content]))
        log.reopen()


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


class Interleaved(RuleBasedStateMachine):
    @initialize()
    def make(self) -> None:
        gc.collect()  # what programs share in memory goes here, and at no other moment
        self.stage = Stage()
        place = ObjectPlace(Bucket("s3://stage", self.stage.store))
        place.create(NAME, [HEADER])
        self.programs = [Program(self.stage) for _ in range(3)]

    def _begin(self, number: int, do: Callable[[Program], None]) -> None:
        if not self.programs[number].is_running:
            self.programs[number].begin(do)

    @rule(number=st.integers(0, 2), block=st.sampled_from(BLOCKS))
    def append(self, number: int, block: bytes) -> None:
        self._begin(number, append(block))

    @rule(
        number=st.integers(0, 2),
        blocks=st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=3),
    )
    def append_held(self, number: int, blocks: list[bytes]) -> None:
        self._begin(number, append_held(blocks))

    @rule(number=st.integers(0, 2))
    def rewrite(self, number: int) -> None:
        self._begin(number, rewrite)

    @rule(number=st.integers(0, 2))
    def read(self, number: int) -> None:
        self._begin(number, read)

    @rule(number=st.integers(0, 2))
    def close(self, number: int) -> None:
        self._begin(number, close)

    @rule(
        number=st.integers(0, 2),
        count=st.sampled_from([1, 1, 2, 3, 5, 30]),
        how=st.sampled_from(["do", "do", "do", "lose", "late"]),
    )
    def step(self, number: int, count: int, how: str) -> None:
        program = self.programs[number]
        for turn in range(count):
            if program.is_running:
                program.step(how if turn == 0 else "do")

    @rule(number=st.integers(0, 2))
    def kill(self, number: int) -> None:
        program = self.programs[number]
        while program.is_running:
            program.step("kill")
        self.programs[number] = Program(self.stage)

    @precondition(lambda self: bool(self.stage.late))
    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        late = self.stage.late
        arriving = late.pop(data.draw(st.integers(0, len(late) - 1)))
        with contextlib.suppress(Exception):
            arriving()

    def teardown(self) -> None:
        for program in getattr(self, "programs", []):
            for _ in range(500):
                if not program.is_running:
                    break
                program.step("do")
            assert not program.is_running, "a program comes to its end"
        stage = getattr(self, "stage", None)
        if stage is None:
            return
        while stage.late:
            with contextlib.suppress(Exception):
                stage.late.pop()()
        content = stage.content()
        assert content.startswith(HEADER)
        found = Counter(content[len(HEADER) :].splitlines(keepends=True))
        assert set(found) <= set(BLOCKS)
        for block in BLOCKS:
            assert stage.acknowledged[block] <= found[block] <= stage.tried[block], block


@contextlib.contextmanager
def _hurried() -> Iterator[None]:
    """Merge early, wait for nobody, and read one object after the other."""

    def one_by_one(do: Callable[[T], R], given: Iterable[T]) -> list[R]:
        return [do(each) for each in given]

    objects = "sessiontree.storage.objects"
    generation, claims = f"{objects}.generation", f"{objects}.claims"
    changes: dict[str, object] = {
        f"{generation}._MANY": 3,
        f"{generation}._FEW": 2,
        f"{generation}._FAN": 2,
        f"{generation}._WORTH_EMPTYING": 1,
        f"{generation}._PAUSE": 0,
        f"{generation}.side_by_side": one_by_one,
        f"{objects}.bucket._PAUSE": 0,
        f"{claims}._PAUSE": 0,
        f"{claims}._FIRST_PAUSE": 0,
        f"{claims}._LONGEST_PAUSE": 0,
        f"{objects}.log._JUST_SECONDS": -1,
        f"{claims}.SILENT_SECONDS": -1,
        f"{objects}.head.INLINE": 20,
    }
    with contextlib.ExitStack() as stack:
        for name, value in changes.items():
            stack.enter_context(patch(name, value))
        stack.enter_context(patch("sessiontree.storage.objects.marks.fate", lambda mark: ""))
        stack.enter_context(_collecting_on_demand())
        yield


@contextlib.contextmanager
def _collecting_on_demand() -> Iterator[None]:
    """Let a search choose the same steps and see the same requests, so that it can be repeated.

    What a program knows of a session it forgets when the last log is gone. An error keeps a log in
    a circle of objects, which the collector removes at a moment that no search chooses.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def _search(examples: int, steps: int) -> None:
    with _hurried():
        run_state_machine_as_test(
            Interleaved,
            settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None),
        )


@pytest.mark.slow
def test_no_acknowledged_block_is_lost_or_doubled_however_requests_interleave() -> None:
    _search(60, 40)


@pytest.mark.soak
def test_no_acknowledged_block_is_lost_or_doubled_in_a_long_search() -> None:
    _search(4000, 80)
