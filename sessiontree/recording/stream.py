"""Streaming: a message written while it arrives, block by block.

Invariants: what a model sent before a stream broke off is kept, and marked. With the
granularity `block` each finished block is kept when `stop` returns, also where the process
dies in the next one; with `message` the whole is one entry, kept when the stream ends. A
message that broke off has the stop reason `aborted`; where the process died, it has no end. Either
is marked as partial in a context. What a message cost is kept also where it has no content.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import orjson

from sessiontree.core.blocks import NOT_OF_MESSAGE
from sessiontree.core.entry import RESPONSE, Entry
from sessiontree.core.jsonbytes import Dumpable, plain
from sessiontree.core.message import ABORTED, ToolCall, calls_to_run, is_partial, kind_of
from sessiontree.engine.writer import fresh_uuid
from sessiontree.errors import UsageError, warn

if TYPE_CHECKING:
    from sessiontree.recording.provider import Part, ProviderEvents, ResponsesEvents
    from sessiontree.session import Session

Granularity = Literal["message", "block"]

_DELTA_KEYS: Final = {
    "text": "text",
    "thinking": "thinking",
    "redacted_thinking": "data",
    "toolCall": "arguments",
    "tool_use": "input",
}
"""The key that the deltas of a block go to, by its type."""


class MessageStream:
    """A message that is being written. `Session.stream_message` returns it as a context manager."""

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
        """Begin a message; `uuid` and `blocks`, by index, are those of one to continue."""
        if granularity not in ("message", "block"):
            raise UsageError(f"granularity is 'message' or 'block', not {granularity!r}")
        # with granularity `block`, the `messageUuid` of each block entry; with `message`, the uuid
        # of the entry
        self.uuid = uuid or fresh_uuid()
        # the entries written so far; after `end`, the last entry is the `message_end` entry, the
        # message entry or the `usage` entry
        self.entries: list[Entry] = []
        self._session = session
        self._role = role
        self._facts = {key: value for key, value in facts.items() if value is not None}
        self._in_blocks = granularity == "block"
        # the blocks of the message, by index
        self.blocks = {index: dict(block) for index, block in (blocks or {}).items()}
        self._metadata = metadata
        self._open: dict[str, Any] | None = None
        self._deltas: list[str] = []
        self._is_ended = False
        self._events: ProviderEvents | None = None
        # why the message ended, as the provider says it (for OpenAI Responses its status);
        # `aborted` if it broke off; None before the end, and where no one said it
        self.stop_reason: str | None = None

    @property
    def calls(self) -> list[ToolCall]:
        """The tool calls of the whole answer, to run: each has `id`, `name` and `arguments`.

        The arguments are decoded. There are none before the end and in an answer that broke off,
        and a call that was cut off in its arguments is left out.
        """
        if not self._is_ended or self.stop_reason == ABORTED:
            return []
        return calls_to_run(self.blocks[index] for index in sorted(self.blocks))

    def feed(self, event: Mapping[str, Any] | Dumpable) -> list[Entry]:
        """Take a stream event of Anthropic, of OpenAI Responses, or of Chat Completions.

        Give each event of the stream as it comes, as a dict or as the SDK's object; do not call
        `start`, `delta` and `stop` too. The last event ends the message. If no last event comes,
        the message is stored with the stop reason `aborted`, or, if no content came, only its usage
        as a `usage` entry.

        An answer of Anthropic is one message. Each item of OpenAI Responses is an entry of its own,
        as the API gives it, and the usage of the response is a `usage` entry.

        An answer of Chat Completions, also of a server such as vLLM, Ollama or OpenRouter, is one
        message with `thinking`, `text` and `toolCall` blocks; the arguments of a call are the
        model's text. Its usage may come last, so the end of the `with` block, or `end`, ends it.

        Returns:
            The new entries.

        Raises:
            UsageError: the event belongs to another API, or the message has ended.
        """
        from sessiontree.recording.provider import events_of  # few streams are fed raw events

        event = plain(event)
        if not isinstance(event, Mapping):
            raise UsageError(f"an event is a dict, not a {type(event).__name__}")
        self._check_no_block()
        events = self._events or events_of(event)
        if event.get("error") or kind_of(event) in ("error", "response.failed"):
            failed = event.get("response")
            found = failed if isinstance(failed, Mapping) else event
            cause = found.get("error") or event.get("message")
            text = f"the stream of the model ended with an error: {cause!r:.200}"
            warn(text)
        if events is None:
            return []
        self._events = events
        before = len(self.entries)
        self._take_parts(events.take(event))
        if events.is_ended and not events.usage_follows:
            self.end()
        return self.entries[before:]

    def _items(self) -> ResponsesEvents | None:
        if self._events is None:
            return None
        from sessiontree.recording.provider import ResponsesEvents  # see `feed`

        return self._events if isinstance(self._events, ResponsesEvents) else None

    def _take_parts(self, parts: list[Part]) -> None:
        for index, part in parts:
            if (items := self._items()) is None:
                self.add(part, index)
                continue
            self.blocks[index] = part
            if self._in_blocks:
                self._write_item(part, items)

    def _write_item(self, item: Mapping[str, Any], events: ResponsesEvents) -> None:
        fields: dict[str, Any] = {"message": item}
        about = {key: events.facts[key] for key in (RESPONSE,) if key in events.facts}
        metadata = {**(self._metadata or {}), **about} or None
        self.entries.append(self._session.append("message", metadata=metadata, **fields))

    def _end_items(self, events: ResponsesEvents) -> Entry | None:
        self._take_parts(events.rest())
        self._is_ended = True
        self.stop_reason = events.facts.get("status") if events.is_ended else ABORTED
        if not self._in_blocks:
            for _, item in sorted(self.blocks.items()):
                self._write_item(item, events)
        last = self.entries[-1] if self.entries else None
        facts = dict(events.facts)
        model, usage = self._facts.get("model", facts.pop("model", None)), facts.pop("usage", None)
        if usage is not None:
            provider = self._facts.get("provider", "openai")
            entry = self._session.append_usage(
                usage, model=model, provider=provider, metadata={**(self._metadata or {}), **facts}
            )
            self.entries.append(entry)
        return last

    def start(self, type: str, **fields: Any) -> None:
        """Begin a block.

        Args:
            type: `text`, `thinking`, `toolCall` (with `id` and `name`), or any other.
            fields: the fields of the block that are already known.
        """
        self._check_no_block()
        self._open = {"type": type, **fields}
        self._deltas = []

    def delta(self, text: str) -> None:
        """Add text, or a piece of the JSON of a tool's input, to the open block."""
        self._open_block()
        if not isinstance(text, str):
            raise UsageError(f"a delta is a string, not {text!r:.60}")
        self._deltas.append(text)

    def stop(self, **fields: Any) -> Entry | None:
        """End the open block.

        Args:
            fields: the fields that are known only at the end, such as a signature.

        Returns:
            The entry of the block; None with the granularity `message`.
        """
        block = self._open_block()
        block = {**block, **_joined(block, self._deltas), **fields}
        self._open = None
        return self.add(block)

    def add(
        self,
        block: Mapping[str, Any],
        index: int | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> Entry | None:
        """Add a complete block. Returns the entry of the block, or None, as `stop` does.

        Args:
            block: the block.
            index: the place of the block in the message, by default after all other blocks. The
                new block replaces a block with the same index.
            metadata: metadata for the entry of the block, in addition to the message's metadata.
        """
        self._check_no_block()
        entry = None
        if index is None:
            index = max(self.blocks, default=-1) + 1
        if self._in_blocks:
            fields: dict[str, Any] = {"messageUuid": self.uuid, "index": index, "block": block}
            about = {**(self._metadata or {}), **(metadata or {})} or None
            entry = self._session.append("block", metadata=about, **fields)
            self.entries.append(entry)
        self.blocks[index] = dict(block)
        return entry

    def end(self, **facts: Any) -> Entry | None:
        """End the message. After that, nothing can be added.

        Args:
            facts: facts of the message, such as `usage`, `stopReason`, `model`, `provider`.

        Returns:
            The `message_end` entry, or the message entry. A message without a block is a message
            entry with no content if its stop reason is given and is not `aborted`; else None, and
            the usage, if given, is kept in a `usage` entry.
        """
        self._check_open()
        if self._open is not None:
            broke_off = facts.get("stopReason") == ABORTED
            key = _DELTA_KEYS.get(self._open["type"])
            is_bare = broke_off and not self._deltas and key in ("arguments", "input")
            self.stop(**{key: self._open.get(key) or ""} if is_bare and key else {})
        if (items := self._items()) is not None:
            return self._end_items(items)
        found: Mapping[str, Any] = {}
        beside: Mapping[str, Any] = {}
        if self._events is not None:
            self._take_parts(self._events.rest())
            found, beside = self._events.facts, self._events.beside
        self._is_ended = True
        facts = {**found, **self._facts, **{k: v for k, v in facts.items() if v is not None}}
        self.stop_reason = facts.get("stopReason")
        if not self.blocks and facts.get("stopReason", ABORTED) == ABORTED:
            self._keep_usage(facts)
            return None
        if self._in_blocks and self.blocks:
            own = {key: each for key, each in beside.items() if key not in NOT_OF_MESSAGE}
            fields = {**own, "messageUuid": self.uuid, "role": self._role, **facts}
            if clashing := {key: each for key, each in beside.items() if key not in own}:
                fields["beside"] = clashing
            entry = self._session.append("message_end", metadata=self._metadata, **fields)
        else:
            content = [self.blocks[index] for index in sorted(self.blocks)]
            message = {**beside, "role": self._role, "content": content, **facts}
            if is_partial(message):
                message["partial"] = True
            entry = self._session.append(
                "message", uuid=self.uuid, metadata=self._metadata, message=message
            )
        self.entries.append(entry)
        return entry

    def _keep_usage(self, facts: Mapping[str, Any]) -> None:
        """Keep the usage, if known, of an answer that has no content and did not end.

        An entry of usage moves no leaf, so what was asked still waits for its answer.
        """
        usage = facts.get("usage")
        if usage is None:
            return
        names = {"id": "responseId", "stopReason": "stopReason"}
        about = {name: facts[key] for key, name in names.items() if key in facts}
        entry = self._session.append_usage(
            usage,
            model=facts.get("model"),
            provider=facts.get("provider"),
            metadata={**(self._metadata or {}), **about} or None,
        )
        self.entries.append(entry)

    def _check_open(self) -> None:
        if self._is_ended:
            raise UsageError("the message has ended; stream another one")

    def _check_no_block(self) -> None:
        self._check_open()
        if self._open is not None:
            raise UsageError(f"a {self._open['type']} block is open; stop it first")

    def _open_block(self) -> dict[str, Any]:
        self._check_open()
        if self._open is None:
            raise UsageError("no block is open; start one first")
        return self._open

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if not self._is_ended:
            events = self._events
            broke_off = error is not None if events is None else not events.is_ended
            self.end(stopReason=ABORTED if broke_off else None)


def _joined(block: Mapping[str, Any], deltas: list[str]) -> dict[str, Any]:
    kind = block["type"]
    key = _DELTA_KEYS.get(kind, "text")
    text = "".join(deltas)
    if kind not in {"toolCall", "tool_use"}:  # blocks whose deltas are JSON
        return {key: block.get(key, "") + text} if text or kind in _DELTA_KEYS else {}
    if not text:
        return {key: block.get(key) or {}}
    try:
        return {key: orjson.loads(text)}
    except orjson.JSONDecodeError as error:
        warn(f"the input of the call {block.get('id')} is not JSON ({error}) and is kept as text")
        return {key: text}
