"""What the lines of a transcript of Claude Code add up to. See `core.counts`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from sessiontree.core.counts import Counts, Sums
from sessiontree.core.entry import decode_object
from sessiontree.core.message import is_prompt, is_typed_command, kind_of, text_of
from sessiontree.core.usage import Usage, cost_in
from sessiontree.formats.claude_code.lines import GENERATED, HIDDEN, LOCAL_COMMAND, QUEUED_COMMAND
from sessiontree.formats.claude_code.queue import QUEUE_OPERATION, Queue
from sessiontree.formats.claude_code.threads import SYNTHETIC

_NOT_SENT: Final = ("isVirtual", "retiredByNoPersonsInput")
"""The keys of a message that Claude Code does not send to its model."""


_SUMMARIES: Final = ("isCompactSummary", "isSidechain")


def new_costs(models: Any, before: dict[str, float]) -> Iterator[tuple[str, float]]:
    """What each model cost since the line before, by the `modelUsage` of a line of costs.

    A line has the sums of the session; `before` has those of the line before, and then of this one.
    """
    for model, used in models.items() if isinstance(models, dict) else ():
        cost = cost_in(used.get("costUSD")) if isinstance(used, dict) else None
        if cost is None:
            continue
        known = before.get(model, 0.0)
        new = cost - known if cost >= known else cost  # a new count begins below the old
        before[model] = cost
        yield model, round(new, 9)


def session_cost(model: str, cost: float) -> dict[str, Any]:
    """The fields of a `usage` entry of what a model cost."""
    usage = {"cost": {"total": cost}}
    return {"kind": "session", "provider": None, "model": model, "usage": usage}


class ClaudeTally:
    """See `core.counts.Tally`."""

    needles: tuple[bytes, ...] = (
        *(b'"user"', b'"usage"', b'"modelUsage"', b'"queued_command"'),
        *(b'"local_command"', b'"queue-operation"'),
    )

    def __init__(self) -> None:
        self._sums = Sums()
        self._costs: dict[str, float] = {}
        self._priced: set[str] = set()
        self._seen: set[str] = set()
        self._queue = Queue()
        self._place = 0

    def take(self, line: bytes, *, beside: bool = False) -> None:
        body = decode_object(line)
        kind, message = kind_of(body), body.get("message")
        if kind == "cost-state" and not beside:
            self._take_costs(body.get("modelUsage"))
        if any(body.get(key) for key in _NOT_SENT):
            return
        if not beside:
            self._note_queued(kind, body)
        uuid = body.get("uuid")
        if kind in _PROMPTS and not beside and not (isinstance(uuid, str) and uuid in self._seen):
            self._seen.add(str(uuid))
            self._sums.turns += _PROMPTS[kind](body)
        if not isinstance(message, dict) or kind != "assistant":
            return
        is_beside = beside or bool(body.get("isSidechain"))
        if isinstance(message.get("usage"), dict):
            self._sums.spend_reported(
                message["usage"],
                body.get("timestamp"),
                message.get("id"),
                body.get("uuid"),
                beside=is_beside,
            )
            self._take_cost(cost_in(body.get("costUSD")), message.get("id"))
        if not is_beside and message.get("model") != SYNTHETIC:
            self._sums.use(message.get("model"))

    def _note_queued(self, kind: str, body: Mapping[str, Any]) -> None:
        self._place += 1
        if kind == QUEUE_OPERATION:
            self._queue.take(body.get("operation"), body.get("content"), self._place)
        elif not self._queue.is_empty and not any(body.get(key) for key in _SUMMARIES):
            keys = {"attachment": body.get("attachment"), "system": body}
            said = keys.get(kind, body.get("message"))
            content = said.get("content", said.get("prompt")) if isinstance(said, dict) else None
            self._queue.carry(text_of({"content": content}))

    def _take_cost(self, cost: float | None, answer: Any) -> None:
        """Add the cost of an answer, which each of its lines has."""
        if cost and isinstance(answer, str) and answer and answer not in self._priced:
            self._priced.add(answer)
            self._sums.spend(Usage(cost=cost), None)

    def _take_costs(self, models: Any) -> None:
        """Add what each model cost since the line before; a line has the sums of the session."""
        for _, new in new_costs(models, self._costs):
            self._sums.spend(Usage(cost=new), None)

    def counts(self) -> Counts:
        """What the lines so far add up to."""
        counts = self._sums.counts()
        return replace(counts, turns=counts.turns + sum(1 for _ in self._queue.lost()))


def _is_prompt(body: Mapping[str, Any]) -> bool:
    message = body.get("message")
    if isinstance(message, dict) and is_typed_command(message):
        return not body.get("isSidechain")
    if any(body.get(key) for key in HIDDEN) or body.get("promptSource") == "system":
        return False
    if not isinstance(message, dict) or not is_prompt(message):
        return False
    return not GENERATED.match(text_of(message).lstrip())


def _is_queued(body: Mapping[str, Any]) -> bool:
    """Whether an attachment is a prompt that the user typed during a turn."""
    queued = body.get("attachment")
    if not isinstance(queued, dict) or queued.get("type") != QUEUED_COMMAND:
        return False
    origin = queued.get("origin")
    is_users = not isinstance(origin, dict) or origin.get("kind") == "human"
    is_hidden = queued.get("isMeta") or any(body.get(key) for key in HIDDEN)
    return queued.get("commandMode") == "prompt" and is_users and not is_hidden


def _is_local(body: Mapping[str, Any]) -> bool:
    """Whether a line is a command that the user typed, and the program ran itself."""
    if body.get("subtype") != LOCAL_COMMAND or body.get("isDisplayOnly"):
        return False
    return is_typed_command({"role": "user", "content": body.get("content")})


_PROMPTS: Final[Mapping[Any, Callable[[Mapping[str, Any]], bool]]] = {
    "user": _is_prompt,
    "attachment": _is_queued,
    "system": _is_local,
}
"""By type of line, whether it is a prompt."""
