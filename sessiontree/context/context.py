"""The context: what a model gets at a leaf, as messages and settings in force.

Invariants: the same entries always give the same messages, which are the stored objects themselves
wherever nothing had to change. `context.fold` makes them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

from sessiontree.context.compaction import TokenCounter, estimate_tokens
from sessiontree.context.pairing import ConcatSequence
from sessiontree.core.callback import check_never_awaited
from sessiontree.core.codec import Chain
from sessiontree.core.entry import Entry, response_of
from sessiontree.core.message import Message
from sessiontree.errors import UsageError

if TYPE_CHECKING:
    from sessiontree.context.providers.values import (
        AnthropicRequest,
        ChatRequest,
        Request,
        ResponsesRequest,
    )

R = TypeVar("R", bound="Request")


class Context:
    """The messages for a model at an entry, and the entries that the messages come from."""

    __slots__ = (
        *("_count", "_entries", "_is_paired", "_settings", "_tokens"),
        *("leaf", "messages", "warnings"),
    )

    def __init__(
        self,
        leaf: Entry,
        messages: list[Message],
        entries: list[Entry] | ConcatSequence[Entry],
        warnings: list[str],
        settings: Callable[[str], Any],
        count: TokenCounter = estimate_tokens,
        *,
        is_paired: bool = True,
    ) -> None:
        if count is not estimate_tokens:
            check_never_awaited("count", count)
        self.leaf = leaf  # the entry at the end of the path
        # the messages in order. Do not change the messages: the session uses them too
        self.messages = messages
        self._entries = entries
        self.warnings = warnings  # texts about corrections and missing content
        self._is_paired = is_paired  # not with `verbatim`
        self._settings = settings
        self._count = count
        self._tokens = -1

    def __repr__(self) -> str:
        facts = [f"{len(self.messages):,} message{'s' * (len(self.messages) != 1)}"]
        facts += [f"{self._tokens:,} tokens"] if self._tokens >= 0 else []
        facts += [f"warnings: {self.warnings}"] if self.warnings else []
        return f"<Context at {self.leaf.type} {self.leaf.uuid}: {', '.join(facts)}>"

    @property
    def entries(self) -> list[Entry]:
        """For each message, the entry that the message comes from."""
        if not isinstance(self._entries, list):
            self._entries = list(self._entries)
        return self._entries

    @property
    def tokens(self) -> int:
        """The estimated number of tokens of all messages, counted at the first access."""
        if self._tokens < 0:
            self._tokens = sum(map(self._count, self.messages))
        return self._tokens

    @property
    def model(self) -> dict[str, Any] | None:
        """The current model as `{"provider", "modelId"}`, or None."""
        return cast("dict[str, Any] | None", self._settings("model"))

    @property
    def thinking_level(self) -> str | None:
        """The current thinking level, or None."""
        return cast("str | None", self._settings("thinkingLevel"))

    @property
    def system(self) -> str | None:
        """The text of the latest system message on the path, or None."""
        return cast("str | None", self._settings("system"))

    def settle(self) -> Context:
        """Look up the settings now, so that nothing is read later. Returns this context."""
        found = {key: self._settings(key) for key in ("model", "thinkingLevel", "system")}
        self._settings = found.get
        return self

    def to_anthropic(
        self, *, model: str | None = None, cache: Literal["5m", "1h"] | None = None
    ) -> AnthropicRequest:
        """Return the context as the arguments of a request to Anthropic's Messages API.

        Example: `client.messages.create(model=…, max_tokens=…, **context.to_anthropic().params)`.

        Args:
            model: the model that the request is for, by default the current one. Thinking of other
                models is left out; a name with a date, a vendor or a region is the same model.
            cache: how long Anthropic caches the request: it is marked behind the system text, the
                last prompt or results of the request before it, and the last message. By default,
                the `cache_control` of stored blocks is kept, at most the last four.

        Raises:
            UsageError: `cache` is neither `5m` nor `1h`.
        """
        from sessiontree.context.providers import anthropic  # slow to load, and few callers need it

        if cache not in (None, "5m", "1h"):
            raise UsageError(f"cache must be '5m', '1h' or None, not {cache!r}")
        return anthropic.with_breakpoints(self._request(anthropic.request, model), cache)

    @overload
    def to_openai(
        self, api: Literal["responses"] = "responses", *, model: str | None = None
    ) -> ResponsesRequest: ...
    @overload
    def to_openai(self, api: Literal["chat"], *, model: str | None = None) -> ChatRequest: ...
    @overload
    def to_openai(
        self, api: Literal["responses", "chat"], *, model: str | None = None
    ) -> ResponsesRequest | ChatRequest: ...
    def to_openai(
        self, api: Literal["responses", "chat"] = "responses", *, model: str | None = None
    ) -> ResponsesRequest | ChatRequest:
        """Return the arguments of a request to OpenAI's Responses API or Chat Completions API.

        Args:
            api: `responses` or `chat`.
            model: as for `to_anthropic`.

        Raises:
            TooMuchError: the messages have more than 100,000 content blocks and calls.
            UsageError: `api` is neither `responses` nor `chat`.
        """
        from sessiontree.context.providers import openai  # as above

        if api not in ("responses", "chat"):
            raise UsageError(f"OpenAI has no API {api!r} here; give 'responses' or 'chat'")
        if api == "chat":
            return self._request(openai.request, model)
        return self._request(partial(openai.responses_request, self._responses()), model)

    def _request(self, request: Callable[..., R], model: str | None) -> R:
        uuids = self._uuids()
        current = self.model or {}
        model_id = model or current.get("modelId")
        return request(
            self.messages, uuids, system=self.system, model=model_id, is_paired=self._is_paired
        )

    def _responses(self) -> list[str | None]:
        """For each message, the response of OpenAI that it is of; empty without reasoning."""
        has_reasoning = any(message.get("type") == "reasoning" for message in self.messages)
        return [response_of(entry) for entry in self.entries] if has_reasoning else []

    def _uuids(self) -> list[str]:
        if isinstance(self._entries, list):
            return [entry.uuid for entry in self._entries]
        found: list[str] = []
        for entries in self._entries.sequences():
            if isinstance(entries, Chain):
                found += entries.uuids()
            else:
                found += [entry.uuid for entry in entries]
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that `context --json` prints."""
        return {
            "leaf": self.leaf.uuid,
            "messages": self.messages,
            "model": self.model,
            "thinkingLevel": self.thinking_level,
            "system": self.system,
            "tokens": self.tokens,
            "warnings": self.warnings,
        }
