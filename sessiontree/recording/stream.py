"""Streaming: a message written while it arrives, block by block.

Invariants: whatever a model said before a stream broke off is kept, and marked:
with the granularity `block` each finished block is kept when `stop` returns, also
where the process dies in the next one; with `message` the whole is one entry, kept
when the stream ends. A message that broke off has the stop reason `aborted`, or,
where nobody was left to say so, no end.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import orjson

from sessiontree.core.entry import Entry
from sessiontree.engine.writer import fresh_uuid
from sessiontree.errors import SessionTreeWarning, UsageError

if TYPE_CHECKING:
    from sessiontree.session import Session

Granularity = Literal["message", "block"]

ABORTED: Final = "aborted"
"""The stop reason of a message that broke off, as pi names it."""

_SAID: Final = {
    "text": "text",
    "thinking": "thinking",
    "redacted_thinking": "data",
    "toolCall": "arguments",
    "tool_use": "input",
}
"""Where the deltas of a block belong, by its type."""

_INPUT: Final = frozenset({"toolCall", "tool_use"})
"""Blocks whose deltas are JSON."""


class MessageStream:
    """A message being written; a context manager. `Session.stream_message` makes one.

    Attributes:
        uuid: the `messageUuid` of its blocks, and the uuid of a message in one entry.
        entries: the entries written so far, the last of them the end.
    """

    def __init__(
        self,
        session: Session,
        role: str,
        facts: Mapping[str, Any],
        granularity: Granularity,
        *,
        uuid: str | None = None,
        blocks: Mapping[int, Mapping[str, Any]] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Begin a message, or go on with one.

        Args:
            session, role, facts, granularity: as `Session.stream_message` takes them.
            uuid: the `messageUuid` of a message to go on with, by default a fresh one.
            blocks: the blocks that it has already, by their indices.
            metadata: of each entry written.
        """
        if granularity not in ("message", "block"):
            raise UsageError(f"granularity is 'message' or 'block', not {granularity!r}")
        self.uuid = uuid or fresh_uuid()
        self.entries: list[Entry] = []
        self._session = session
        self._role = role
        self._facts = {key: value for key, value in facts.items() if value is not None}
        self._in_blocks = granularity == "block"
        self._blocks = {index: dict(block) for index, block in (blocks or {}).items()}
        self._metadata = metadata
        self._open: dict[str, Any] | None = None
        self._deltas: list[str] = []
        self._is_ended = False

    def start(self, type: str, **fields: Any) -> None:
        """Begin a block.

        Args:
            type: `text`, `thinking`, `toolCall` (with `id` and `name`), or any other.
            fields: what of the block is known already.
        """
        self._check_open()
        if self._open is not None:
            raise UsageError(f"a {self._open['type']} block is open; stop it first")
        self._open = {"type": type, **fields}
        self._deltas = []

    def delta(self, text: str) -> None:
        """Add to the open block: words, or a piece of the JSON of a tool's input."""
        self._check_open()
        if self._open is None:
            raise UsageError("no block is open; start one first")
        if not isinstance(text, str):
            raise UsageError(f"a delta is a string, not {text!r:.60}")
        self._deltas.append(text)

    def stop(self, **fields: Any) -> Entry | None:
        """End the open block.

        Args:
            fields: what became known with its end, such as a signature.

        Returns:
            Its entry, with the granularity `block`.
        """
        self._check_open()
        if self._open is None:
            raise UsageError("no block is open; start one first")
        block = {**self._open, **_said(self._open, self._deltas), **fields}
        self._open = None
        return self.add(block)

    def add(
        self,
        block: Mapping[str, Any],
        index: int | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> Entry | None:
        """Take in a block that came whole; returns its entry, as `stop` does.

        Args:
            block: the block.
            index: its place in the message, by default behind all others; a block that has
                this index already is replaced.
            metadata: of its entry, beside that of the message.
        """
        self._check_open()
        if self._open is not None:
            raise UsageError(f"a {self._open['type']} block is open; stop it first")
        entry = None
        if index is None:
            index = max(self._blocks, default=-1) + 1
        if self._in_blocks:
            fields: dict[str, Any] = {"messageUuid": self.uuid, "index": index, "block": block}
            about = {**(self._metadata or {}), **(metadata or {})} or None
            entry = self._session.append("block", metadata=about, **fields)
            self.entries.append(entry)
        self._blocks[index] = dict(block)
        return entry

    def end(self, **facts: Any) -> Entry | None:
        """Close the message; nothing can be added then.

        Args:
            facts: such as `usage`, `stopReason`, `model`, `provider`.

        Returns:
            The `message_end`, or the message. None for a message without any content.
        """
        self._check_open()
        if self._open is not None:
            self.stop()
        self._is_ended = True
        if not self._blocks:
            return None
        said = {**self._facts, **{k: v for k, v in facts.items() if v is not None}}
        if self._in_blocks:
            entry = self._session.append(
                "message_end",
                metadata=self._metadata,
                messageUuid=self.uuid,
                role=self._role,
                **said,
            )
        else:
            content = [self._blocks[index] for index in sorted(self._blocks)]
            message = {"role": self._role, "content": content, **said}
            entry = self._session.append(
                "message", uuid=self.uuid, metadata=self._metadata, message=message
            )
        self.entries.append(entry)
        return entry

    def _check_open(self) -> None:
        if self._is_ended:
            raise UsageError("the message has ended; stream another one")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._is_ended:
            return
        if error is None:
            self.end()
        else:
            self.end(stopReason=ABORTED)


def _said(block: Mapping[str, Any], deltas: list[str]) -> dict[str, Any]:
    """What the deltas of a block come to, under the key where it belongs."""
    kind = block["type"]
    key = _SAID.get(kind, "text")
    said = "".join(deltas)
    if kind not in _INPUT:
        return {key: block.get(key, "") + said} if said or kind in _SAID else {}
    if not said:
        return {key: block.get(key) or {}}
    try:
        return {key: orjson.loads(said)}
    except orjson.JSONDecodeError as error:
        warnings.warn(
            f"the input of the call {block.get('id')} is no JSON ({error}) and is kept as text",
            SessionTreeWarning,
            stacklevel=4,
        )
        return {key: said}
