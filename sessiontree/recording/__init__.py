"""Recording: a coding agent's stream of events, kept as it arrives.

`recorder` takes the stream, `lane` keeps one lane of it, message by message; `events` are what they
yield. `stream` is for a caller that has a message block by block, and
`replay` gives a stored path as the same events.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sessiontree.recording.recorder import StreamAccumulator

__all__ = ["StreamAccumulator"]


def __getattr__(name: str) -> Any:
    if name != "StreamAccumulator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sessiontree.recording.recorder import StreamAccumulator  # few sessions are recorded

    return StreamAccumulator
