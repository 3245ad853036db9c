"""Group commit: what threads of one process append to one log at the same time is one object.

The first thread that appends waits for a moment for others, then the blocks of all are put as one.
Each append returns when the object stands. While it waits, it lets go of the session's thread lock,
so that others can join; no thread uses its log meanwhile.

Invariant: a block joins only if its writer knows all bytes before the group, but for those that
other threads of this process put there. Its offset tells it how many these are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from sessiontree.storage.log import Moved

_SECONDS: Final = 0.02
_BYTES: Final = 1024 * 1024
"""How long a group waits for more, and how many bytes are enough."""

_POOL: Final = ThreadPoolExecutor(16, thread_name_prefix="sessiontree-groups")


class _Group:
    def __init__(self) -> None:
        self.blocks: list[bytes] = []
        self.size = 0
        self.start = 0
        self.is_done = False
        self.error: BaseException | None = None


class Groups:
    """The groups of one session.

    Args:
        lock: the session's thread lock, which the calling thread holds.

    Attributes:
        settled: notified when a group ends, and when a log is free again.
        begin, end: the bytes that this process put at the end, one block after the other.
    """

    def __init__(self, lock: threading.RLock) -> None:
        self.settled = threading.Condition(lock)
        self.begin = self.end = -1
        self._gathering: _Group | None = None
        self._is_putting = False
        self._waiting = 0

    def note(self, start: int, end: int) -> None:
        """Note bytes that this process put at the end."""
        if start != self.end:
            self.begin = start
        self.end = end

    def wait(self) -> None:
        """Wait until no group is open; no thread opens one meanwhile."""
        self._waiting += 1
        try:
            while self._gathering is not None or self._is_putting:
                self.settled.wait()
        finally:
            self._waiting -= 1
            self.settled.notify_all()

    def let_pass(self) -> None:
        """Let threads go first that wait until no group is open."""
        while self._waiting:
            self.settled.wait()

    def append(self, block: bytes, put: Callable[[bytes], int]) -> int:
        """Append a block together with those of other threads; return its offset.

        Args:
            block: the block.
            put: puts the blocks of the group at the end, and returns where they begin; it runs in
                another thread, without the session's lock.

        Raises:
            Exception: what `put` raised, in each thread of the group.
        """
        group = self._gathering
        while group is not None and group.size >= _BYTES:
            self.settled.wait()
            group = self._gathering
        leads = group is None
        if group is None:
            group = self._gathering = _Group()
        before = group.size
        group.blocks.append(block)
        group.size += len(block)
        if leads:
            self._lead(group, put)
        else:
            self.settled.notify_all()
            while not group.is_done:
                self.settled.wait()
        if group.error is not None:
            raise group.error
        return group.start + before

    def _lead(self, group: _Group, put: Callable[[bytes], int]) -> None:
        group.error = Moved()  # for the others, if this thread is interrupted
        try:
            until = time.monotonic() + _SECONDS
            while (left := until - time.monotonic()) > 0 and group.size < _BYTES:
                self.settled.wait(left)
            while self._is_putting:
                self.settled.wait()
            self._gathering, self._is_putting = None, True
            try:
                self._put(group, put)
            finally:
                self._is_putting = False
        finally:
            if self._gathering is group:
                self._gathering = None
            group.is_done = True
            self.settled.notify_all()

    def _put(self, group: _Group, put: Callable[[bytes], int]) -> None:
        putting = _POOL.submit(put, b"".join(group.blocks))
        putting.add_done_callback(self._notify)
        while not putting.done():
            self.settled.wait()
        group.error = putting.exception()
        if group.error is None:
            group.start = putting.result()
            self.note(group.start, group.start + group.size)

    def _notify(self, done: object) -> None:
        with self.settled:
            self.settled.notify_all()


class Alone:
    """Keeps out other threads that share a session, and those that use a log that waits.

    Args:
        groups: the groups of the session.
        is_waiting: whether the log waits for its group.
    """

    def __init__(self, groups: Groups, is_waiting: Callable[[], bool]) -> None:
        self._settled = groups.settled
        self._is_waiting = is_waiting

    def __enter__(self) -> None:
        self._settled.acquire()
        try:
            while self._is_waiting():
                self._settled.wait()
        except BaseException:
            self._settled.release()
            raise

    def __exit__(self, *raised: object) -> None:
        self._settled.release()
