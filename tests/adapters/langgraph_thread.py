"""A thread of checkpoints, as LangGraph puts them: what changed has a new version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    empty_checkpoint,
)
from langgraph.checkpoint.base.id import uuid6


class Thread:
    """Puts checkpoints below each other in one namespace of a saver."""

    def __init__(self, saver: BaseCheckpointSaver[Any], thread: str, space: str = "") -> None:
        self.saver = saver
        self.config: RunnableConfig = {
            "configurable": {"thread_id": thread, "checkpoint_ns": space}
        }
        self.step = 0
        self._version = 0
        self._before: dict[str, Any] = {}
        self._versions: dict[str, Any] = {}

    def put(self, values: dict[str, Any], **metadata: Any) -> Checkpoint:
        """Put a checkpoint with values; those that are the same object did not change."""
        self.step += 1
        self._version += 1
        changed = {name for name in values if values[name] is not self._before.get(name, self)}
        new: ChannelVersions = dict.fromkeys(changed, self._version)
        self._before, self._versions = dict(values), {**self._versions, **new}
        checkpoint: Checkpoint = {
            **empty_checkpoint(),
            "id": str(uuid6(clock_seq=self.step)),
            "channel_values": values,
            "channel_versions": dict(self._versions),
        }
        told: Any = {"source": "loop", "step": self.step, "parents": {}, **metadata}
        self.config = self.saver.put(self.config, checkpoint, told, new)
        return checkpoint

    def write(self, writes: Sequence[tuple[str, Any]], task: str = "task", path: str = "") -> None:
        """Put pending writes of the last checkpoint."""
        self.saver.put_writes(self.config, writes, task, path)
