"""A line of threads that wait for one of a few things, such as connections.

Invariants: the thread that has waited longest gets the next thing; a thing that is given back while
others wait goes to one of them, also where the thread that gave it wants it again at once; nothing
here takes a lock, so a `__del__` may give a thing back at any moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from queue import Empty, SimpleQueue
from typing import Final, Generic, TypeVar

T = TypeVar("T")


class Line(Generic[T]):
    """Things, and the threads that wait for them.

    Attributes:
        free: the things that nobody has. A thread that removes one there does not wait in line;
            what comes back is given.
    """

    def __init__(self, free: Iterable[T] = ()) -> None:
        self.free: Final = deque(free)
        self._waiting: deque[SimpleQueue[T]] = deque()

    def take(self, seconds: float) -> T:
        """Take a thing, in turn.

        Raises:
            Empty: there was none for this long.
        """
        if not self._waiting:
            try:
                return self.free.pop()
            except IndexError:
                pass
        turn: SimpleQueue[T] = SimpleQueue()
        self._waiting.append(turn)
        self._hand_out()  # what was given before this thread stood in line
        try:
            return turn.get(timeout=seconds)
        except Empty:
            if self._left(turn):
                raise
            return turn.get()
        except BaseException:
            if not self._left(turn):
                self.give(turn.get())
            raise

    def _left(self, turn: SimpleQueue[T]) -> bool:
        """Leave the line; whether it was not this thread's turn yet."""
        try:
            self._waiting.remove(turn)
        except ValueError:
            return False
        return True

    def give(self, thing: T) -> None:
        """Give a thing to the thread that has waited longest, or keep it for the next."""
        self.free.append(thing)
        if self._waiting:
            self._hand_out()

    def _hand_out(self) -> None:
        while self.free:
            try:
                thing = self.free.pop()
            except IndexError:
                return
            try:
                self._waiting.popleft().put(thing)
            except IndexError:
                self.free.append(thing)
                if not self._waiting:  # else a thread came that saw nothing free
                    return
