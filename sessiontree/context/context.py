"""The context: what a model gets at a leaf, as messages and settings in force.

Invariants: the same entries always give the same messages, which are the stored objects themselves
wherever nothing had to change. `context.fold` makes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, cast

from sessiontree.context.compaction import TokenCounter, estimate_tokens
from sessiontree.core.entry import Entry
from sessiontree.core.message import Message
from sessiontree.errors import UsageError

if TYPE_CHECKING:
    from sessiontree.context.providers.values import Request


class Context:
    """The messages for a model at a leaf, and the entries they came from.

    Attributes:
        leaf: the entry the context belongs to.
        messages: dicts with a `role`, in order; shared with the session, read-only.
        entries: for each message the entry it came from.
        warnings: corrections and omissions, in words.
    """

    __slots__ = ("_count", "_settings", "_tokens", "entries", "leaf", "messages", "warnings")

    def __init__(
        self,
        leaf: Entry,
        messages: list[Message],
        entries: list[Entry],
        warnings: list[str],
        settings: Callable[[str], Any],
        count: TokenCounter = estimate_tokens,
    ) -> None:
        self.leaf = leaf
        self.messages = messages
        self.entries = entries
        self.warnings = warnings
        self._settings = settings
        self._count = count
        self._tokens = -1

    @property
    def tokens(self) -> int:
        """The estimated tokens of all messages, counted at the first access."""
        if self._tokens < 0:
            self._tokens = sum(map(self._count, self.messages))
        return self._tokens

    @property
    def model(self) -> dict[str, Any] | None:
        """`{"provider", "modelId"}` in force, or None; looked up at the access."""
        return cast("dict[str, Any] | None", self._settings("model"))

    @property
    def thinking_level(self) -> str | None:
        """The thinking level in force, or None; looked up at the access."""
        return cast("str | None", self._settings("thinkingLevel"))

    @property
    def system(self) -> str | None:
        """The text of the latest system message on the path, or None."""
        return cast("str | None", self._settings("system"))

    def to_anthropic(self) -> Request:
        """The context as Anthropic's Messages API takes it.

        `client.messages.create(model=…, max_tokens=…, **context.to_anthropic().params)`. The rules
        are in `sessiontree.context.providers`.
        """
        from sessiontree.context.providers import anthropic  # slow to load, and few callers need it

        return self._request(anthropic.request)

    def to_openai(self, api: Literal["responses", "chat"] = "responses") -> Request:
        """The context as an API of OpenAI takes it: Responses, or Chat Completions.

        Raises:
            UsageError: `api` names another.
        """
        from sessiontree.context.providers import chat, responses  # as above

        if api not in ("responses", "chat"):
            raise UsageError(f"OpenAI has no API {api!r} here; give 'responses' or 'chat'")
        return self._request(chat.request if api == "chat" else responses.request)

    def _request(self, request: Callable[..., Request]) -> Request:
        uuids = [entry.uuid for entry in self.entries]
        model = self.model
        model_id = model.get("modelId") if model else None
        return request(self.messages, uuids, system=self.system, model=model_id)

    def as_dict(self) -> dict[str, Any]:
        """The shape that `context --json` prints."""
        return {
            "leaf": self.leaf.uuid,
            "messages": self.messages,
            "model": self.model,
            "thinkingLevel": self.thinking_level,
            "system": self.system,
            "tokens": self.tokens,
            "warnings": self.warnings,
        }
