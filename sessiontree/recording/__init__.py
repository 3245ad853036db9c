"""Recording: a coding agent's stream of events, kept as it comes.

`accumulator` takes the stream and `events` is what it yields. Below them: `lane`, what is
recorded on one lane; `response`, one message of the model; `block`, one block put together
from its deltas; `lines`, bytes into lines; `stray`, lines that are no events; `spending`,
what was counted already.
"""

from sessiontree.recording.recorder import StreamAccumulator

__all__ = ["StreamAccumulator"]
