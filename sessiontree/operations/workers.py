"""Work on many items by several processes, and verification by them.

The items are dealt out in turn to forked processes, which share all that this process knows and
take some milliseconds each to start. This process only puts the results in order, so that no worker
waits for another. It does itself what a worker does not finish, so that results and errors are the
same as without workers.

Invariants: a result is given as soon as all before it were. When the results are no longer wanted
(the generator is closed, the user interrupts, this process dies), the workers end, at the latest
with the item that they are at.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, NoReturn, TypeVar

import orjson

from sessiontree.core.damage import Damage
from sessiontree.storage.log import Log

if TYPE_CHECKING:
    import socket

    from sessiontree.engine import repair


T = TypeVar("T")
R = TypeVar("R")
MAX: Final = 8  # processes; more would wait for memory and disk
Each = Callable[[int], object]
_LENGTH: Final = 4  # bytes of the length before each result; length 0 ends those of an item


def available() -> int:
    """How many processes this machine has processors for; 1 where forking is not safe."""
    threading = sys.modules.get("threading")
    has_threads = threading is not None and threading.active_count() > 1
    if not hasattr(os, "fork") or has_threads:  # a fork has the locks of threads, not the threads
        return 1
    processors = os.cpu_count() or 1
    if sys.platform == "linux":
        processors = len(os.sched_getaffinity(0))
    return min(MAX, processors)


def nothing(number: int) -> None:
    """The `each` of a caller that does not follow the work."""


class ProcessPool(Generic[T, R]):
    """Processes for one kind of work."""

    def __init__(
        self,
        work: Callable[[T], Iterator[R]],  # gives the results of an item; the same ones each time
        encode: Callable[[R], bytes],  # a result as at least one byte
        decode: Callable[[bytes], R],
        processes: int,  # with one, this process does the work
    ) -> None:
        self._work = work
        self._encode = encode
        self._decode = decode
        self._processes = processes

    def results(self, items: Sequence[T], each: Each = nothing) -> Generator[R, None, None]:
        """The results of all items, in their order.

        `each` is called with the number of each item before its results are given.
        """
        processes = max(1, min(self._processes, len(items)))
        workers: list[_Worker] = []
        try:
            for share in range(processes if processes > 1 else 0):
                workers.append(self._started(items[share::processes], workers))
            for number, item in enumerate(items):
                each(number)
                if workers:
                    yield from self._results_of(item, workers[number % processes])
                else:
                    yield from self._work(item)
        finally:
            for worker in workers:
                worker.end()

    def _results_of(self, item: T, worker: _Worker) -> Iterator[R]:
        count = 0
        try:
            while frame := worker.frame():
                yield self._decode(frame)
                count += 1
        except (EOFError, OSError):  # the process ended
            yield from islice(self._work(item), count, None)

    def _started(self, share: Sequence[T], others: Sequence[_Worker]) -> _Worker:
        import socket  # few need it

        reading, writing = socket.socketpair()
        try:
            pid = os.fork()
        except OSError:  # too many processes: this one does the share
            pid = -1
        if pid == 0:
            self._be_a_worker(share, writing, [reading, *(other.socket for other in others)])
        writing.close()
        return _Worker(pid, reading)

    def _be_a_worker(
        self, share: Sequence[T], writing: socket.socket, inherited: Sequence[socket.socket]
    ) -> NoReturn:
        try:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            for other in inherited:  # or else a worker would not notice that its reader is gone
                other.close()
            for item in share:
                for result in self._work(item):
                    frame = self._encode(result)
                    writing.sendall(len(frame).to_bytes(_LENGTH, "big") + frame)
                writing.sendall(bytes(_LENGTH))
        finally:
            os._exit(0)


class _Worker:
    """A forked process and its results; `pid` is -1 where the fork failed."""

    def __init__(self, pid: int, reading: socket.socket) -> None:
        self._pid = pid
        self.socket = reading
        self._stream = reading.makefile("rb")

    def frame(self) -> bytes:
        """The next result, encoded; empty after an item's last. EOFError: the process ended."""
        return self._exactly(int.from_bytes(self._exactly(_LENGTH), "big"))

    def _exactly(self, size: int) -> bytes:
        got = self._stream.read(size)
        if len(got) < size:
            raise EOFError
        return got

    def end(self) -> None:
        self._stream.close()
        self.socket.close()
        if self._pid > 0:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)


def verify(log: Log, progress: repair.Progress | None, processes: int) -> list[Damage]:
    from sessiontree.engine import repair  # a search needs the workers alone

    if processes == 1:
        return repair.verify(log, progress)

    def work(share: repair.Share) -> Iterator[list[int]]:
        yield repair.unsound_in(log, share)

    crew = ProcessPool(work, orjson.dumps, orjson.loads, processes)
    with ExitStack() as opened:

        def elsewhere(shares: Sequence[repair.Share]) -> Iterator[list[int]]:
            return opened.enter_context(closing(crew.results(shares)))

        return repair.verify(log, progress, elsewhere)
