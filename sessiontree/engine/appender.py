"""Appender: a reader that holds the writer's lock and puts lines at the end of the file.

Invariants: whoever holds the lock knows all that stands in the file; what is put
stands there, or waits for the end of a batch and is written whole then; a batch
that cannot be written, and one of the process that this one was forked from, leave
the session where it stood before it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

from sessiontree.core.entry import ANNOTATIONS, Entry, moved
from sessiontree.engine.hooks import Hooks
from sessiontree.engine.surveyor import Surveyor
from sessiontree.engine.view import View
from sessiontree.errors import UsageError
from sessiontree.storage.log import FileLog


class Appender(Surveyor):
    """The lower half of a writer: the lock, what others wrote, batches."""

    def __init__(self, log: FileLog, lane: str | None, hooks: Iterable[Any]) -> None:
        super().__init__(log, lane)
        self._hooks = Hooks(hooks)
        self._tail = self._leaf.uuid
        self._moved_to: Entry | None = None
        self._waiting: dict[str, Entry] | None = None
        self._batching_in = -1
        self._stood_at = self._leaf, self._tail

    def close(self) -> None:
        """Let go of the file and its lock; entries of an open batch are written first."""
        with self._log.lock.alone():
            try:
                if not self._log.closed:
                    self._flush()
            finally:
                super().close()

    def _by_uuid(self, uuid: str) -> Entry | None:
        waiting = self._waiting.get(uuid) if self._waiting else None
        return waiting or super()._by_uuid(uuid)

    def _put(self, entries: list[Entry]) -> None:
        """Write the lines of entries, or keep them for the end of the batch."""
        if self._waiting is not None:
            if not self._waiting:
                self._stood_at = self._leaf, self._tail
            self._waiting.update((entry.uuid, entry) for entry in entries)
            return
        self._put_all(entries)

    def _put_at_once(self, entry: Entry) -> None:
        """Write an entry outside any batch, and stand at it: for a thread that is alone.

        All that `_holding` and `_put` do, without their context managers, which would be
        a third of what an entry that is not synced costs.
        """
        lock = self._log.lock
        outer = lock.depth
        try:
            lock.take()
            if not self._log.stands_still_at(self._view.size):
                self._see_others()
            block = entry.line + b"\n"
            offset = self._log.append(block, self._view.size)
            moved(entry, offset)
            self._view.appended(offset + len(block))
            self._move(entry)
            self._tail = entry.uuid
        finally:
            lock.give_back(outer)

    def _check_file_is_there(self) -> None:
        """Refuse to keep a blob where the file was moved away.

        The folder made for it would be in the way of the file when that comes back.

        Raises:
            SessionNotFoundError: the path vanished.
        """
        self._log.was_replaced()

    def _put_all(self, entries: list[Entry]) -> None:
        lines = [entry.line for entry in entries]
        offset = self._log.append(b"\n".join([*lines, b""]), self._view.size)
        for entry, line in zip(entries, lines, strict=True):
            moved(entry, offset)
            offset += len(line) + 1
        self._view.appended(offset)

    @contextlib.contextmanager
    def _holding(self) -> Iterator[None]:
        """Hold the lock, knowing all that stands in the file."""
        elsewhere = None
        with self._log.held():
            if not self._is_batching() and not self._log.stands_still_at(self._view.size):
                self._see_others()
            elsewhere, self._moved_to = self._moved_to, None
            yield
        if elsewhere is not None and self._hooks:
            self._hooks.call("on_conflict", self, elsewhere)

    def _see_others(self) -> None:
        """Take in what others wrote, and note the entry they moved this lane's leaf to."""
        before = self._view
        moved_to = None
        for head in self._notice():
            if head.lane == self._lane:
                self._tail = head.uuid
                if head.type not in ANNOTATIONS:
                    moved_to = head
        if self._view is not before:
            self._tail = self._leaf_in_file().uuid
        if moved_to is not None:
            self._moved_to = self._view.read(moved_to.offset)

    def refresh(self) -> None:
        """See what others wrote. A writer stays where it is; a reader goes to the new leaf.

        What sessions made by `lane` and `scratch` wrote is seen without it by whatever
        takes the whole file: `entries`, `find`, `tree`, `render`, `branches`, `stats`.

        Raises:
            FileReplacedError: another file took this one's place, without the leaf in it.
            SessionNotFoundError: the path vanished.
        """
        if self._log.readonly:
            super().refresh()
            return
        with self._log.lock.alone():
            if self._is_batching():
                return
            self._see_others()
            elsewhere, self._moved_to = self._moved_to, None
        if elsewhere is not None and self._hooks:
            self._hooks.call("on_conflict", self, elsewhere)

    def _reopen_on(self, log: FileLog) -> None:
        """Go on with another file that holds the same session."""
        self._go_on_with(log)
        self._move(self._leaf_in_file())

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Write all entries appended inside in one write and one sync, at the end.

        The lock is held all the while, so keep it short. Looking at the session
        inside writes what is waiting first. Not atomic: a crash may keep the first
        part. An exception inside does not undo what was appended before it.
        """
        with self._holding():
            if self._waiting is not None:  # in this thread: another's is waited for
                raise UsageError("a batch is open already; append inside it")
            self._waiting, self._batching_in = {}, os.getpid()
            try:
                yield
            finally:
                try:
                    self._flush()
                finally:
                    self._waiting = None

    def _is_batching(self) -> bool:
        """Whether a batch is open. One in the process that this was forked from is not ours:
        what waits in it is written there, and here it never was."""
        if self._waiting is not None and self._batching_in != os.getpid():
            if self._waiting:
                self._leaf, self._tail = self._stood_at
                self._path = None
            self._waiting = None
        return self._waiting is not None

    def _flush(self) -> None:
        if self._is_batching() and self._waiting:
            waiting, self._waiting = self._waiting, {}
            try:
                if not self._log.stands_at(self._view.size):
                    self._see_others()  # a lane of this process, under the same lock
                self._put_all(list(waiting.values()))
            except BaseException:
                self._leaf, self._tail = self._stood_at  # what waited is not in the file
                self._path = None
                raise

    def _ready(self) -> View:
        if self._waiting:
            with self._log.lock.alone():  # another thread's batch is waited for
                self._flush()
        return self._view

    @contextlib.contextmanager
    def at_tip(self) -> Iterator[None]:
        """Hold the lock and stand at the lane's leaf in the file: for one-shot commands."""
        with self._holding():
            self._move(self._leaf_in_file())
            yield
