"""The prompts that a user of Claude Code typed during a turn, and that no message carries.

Claude Code queues what is typed while it works: `queue-operation` lines note `enqueue` with the
text, then `dequeue` when it becomes a prompt of its own, `remove` when it is sent with the results
of tools, or `popAll` when it goes back to the input. Newer versions write a removed prompt as an
attachment too. In older ones (2.1.39), only the queue has its text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from sessiontree.core.activity import as_typed

QUEUE_OPERATION: Final = "queue-operation"

_GENERATED: Final = "<"  # a note of a task, or another text in tags
_MOST: Final = 100  # texts that are looked for in the messages that follow


class Queued(NamedTuple):
    """A queued text that was sent: where its line is, and where it was taken out of the queue."""

    text: str
    place: int
    removed: int


class Queue:
    """Finds the queued texts that no message carries; takes the lines of a file in order.

    Invariant: a line costs a bounded number of comparisons.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[str, int]] = deque(maxlen=_MOST)
        self._sent: deque[Queued] = deque()
        self._lost: list[Queued] = []

    @property
    def is_empty(self) -> bool:
        return not self._waiting and not self._sent

    def take(self, operation: Any, content: Any, place: int) -> None:
        """Take a line of the queue; `place` is its number."""
        text = content.strip() if isinstance(content, str) else ""
        if operation == "enqueue":
            if text and not text.startswith(_GENERATED):
                self._waiting.append((text, place))
        elif operation == "popAll":
            self._waiting.clear()
        elif operation in ("remove", "dequeue") and self._waiting:
            self._take_out(text, place, is_sent=operation == "remove")

    def _take_out(self, named: str, place: int, *, is_sent: bool) -> None:
        """Take a text out of the queue: the named one, else the first."""
        if named.startswith(_GENERATED):
            return
        at = next((at for at, (text, _) in enumerate(self._waiting) if text == named), 0)
        text, queued = self._waiting[at]
        del self._waiting[at]
        if is_sent:
            self._sent.append(Queued(text, queued, place))
        if len(self._sent) > _MOST:
            self._lost.append(self._sent.popleft())

    def carry(self, text: str) -> None:
        """Take the text of a message of the user: it may carry queued texts."""
        said = f"\n{as_typed(text.strip())}\n"
        for waiting in [one for one in self._waiting if f"\n{one[0]}\n" in said]:
            self._waiting.remove(waiting)
        for sent in [one for one in self._sent if f"\n{one.text}\n" in said]:
            self._sent.remove(sent)

    def lost(self) -> Iterator[Queued]:
        """The texts so far that were sent, and that no message carries."""
        yield from self._lost
        yield from self._sent
