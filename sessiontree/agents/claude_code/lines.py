"""Lines of Claude Code: the user's messages, queued prompts, and their counts.

The reader notes in a message's metadata in which kind of line it was, and the writer writes it so
again.

Claude Code queues what the user types while it works: `queue-operation` lines note `enqueue` with
the text, then `dequeue` when it becomes a prompt of its own, `remove` when it is sent with the
results of tools, or `popAll` when it goes back to the input. Newer versions write a removed prompt
as an attachment too; in older ones (2.1.39) only the queue has its text.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson
from msgspec.structs import replace

from sessiontree.agents.base import Values
from sessiontree.agents.claude_code.threads import SYNTHETIC, ThreadNode
from sessiontree.core.activity import as_typed
from sessiontree.core.message import REPEATS, is_prompt, is_typed_command, kind_of, text_of
from sessiontree.core.usage import FileCounts, Sums, cost_in, spent_in_progress

LINE: Final = "line"
"""The key of the metadata that has the kind of line."""

META: Final = "meta"
"""Text that the program wrote for the model, such as that of a skill."""

LOCAL_COMMAND: Final = "local_command"
"""A slash command that the program runs itself, or its output."""

QUEUED_COMMAND: Final = "queued_command"
"""A prompt that the user typed during a turn."""

HIDDEN: Final = ("isMeta", "isCompactSummary", "isSidechain", "teamName")
"""The keys of a message that the user did not type."""

GENERATED: Final = re.compile(
    r"<(local-command|command-|session-start-hook|tick|goal|ide_|bash-|task-notification)"
    r"|\[Request interrupted|Caveat:"
)
"""The starts of user messages that Claude Code generates."""

_CARRIED: Final = frozenset({"isMeta", LINE, REPEATS})


def is_carried(metadata: Any) -> bool:
    """Whether the line of a message says all that its metadata says."""
    return isinstance(metadata, dict) and metadata.keys() <= _CARRIED


def as_line(message: Mapping[str, Any], metadata: Any) -> dict[str, Any]:
    """The type of the line of a message, and the keys that hold the message."""
    role = message["role"]
    plain = {"type": role, "message": message}
    if role != "user" or not isinstance(metadata, dict):
        return plain
    content, kind = message.get("content"), metadata.get(LINE)
    if kind == LOCAL_COMMAND and isinstance(content, str):
        about = {"level": "info", "isMeta": False}
        return {"type": "system", "subtype": LOCAL_COMMAND, "content": content, **about}
    if kind == QUEUED_COMMAND:
        queued = {"type": QUEUED_COMMAND, "prompt": content, "commandMode": "prompt"}
        return {"type": "attachment", "attachment": queued}
    if kind == META or (metadata.get("isMeta") is True and not GENERATED.match(_start(message))):
        return {**plain, "isMeta": True}
    return plain


def _start(message: Mapping[str, Any]) -> str:
    return text_of(message).lstrip()


def message_of(node: ThreadNode, line: Values) -> orjson.Fragment:
    """The message of a line, as Claude Code sends it."""
    if node.says == "message":
        return line.fragment("message")
    is_typed = node.says == "attachment"
    content = line.inside("attachment").raw("prompt") if is_typed else line.raw("content")
    return orjson.Fragment(b'{"role":"user","content":%b}' % content)


def metadata_of(node: ThreadNode, line: Values) -> dict[str, Any]:
    """The metadata of a message of the user: whether the program wrote it, and in what line."""
    if node.type == "assistant" or node.has_result:
        return {}
    if node.type == "system":
        return {"isMeta": True, LINE: LOCAL_COMMAND}
    if node.type == "attachment":
        return {LINE: QUEUED_COMMAND}
    if not _is_meta(node, line):
        return {}
    return {"isMeta": True, **({LINE: META} if node.meta else {})}


def _is_meta(node: ThreadNode, line: Values) -> bool:
    """Whether the program wrote a message in a line of the user."""
    if node.meta or node.summary or line.text("promptSource") == "system":
        return True
    message = line.value("message")
    return isinstance(message, dict) and bool(GENERATED.match(text_of(message).lstrip()))


QUEUE_OPERATION: Final = "queue-operation"

_GENERATED: Final = "<"  # a note of a task, or another text in tags
_MAX: Final = 100  # texts that are looked for in the messages that follow


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
        self._waiting: deque[tuple[str, int]] = deque(maxlen=_MAX)
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
        if len(self._sent) > _MAX:
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
    """See `core.usage.Tally`."""

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
        self._aside = Sums()  # of a subagent whose file is read alone
        self._has_main = False  # whether a message is not of a subagent

    def take(self, line: bytes, *, beside: bool = False) -> None:
        body = self._sums.decoded(line)
        kind, message = kind_of(body), body.get("message")
        if kind == "cost-state" and not beside:
            self._take_costs(body)
        if any(body.get(key) for key in _NOT_SENT):
            return
        if not beside:
            self._note_queued(kind, body)
        uuid = body.get("uuid")
        if kind in _PROMPTS and not beside and not (isinstance(uuid, str) and uuid in self._seen):
            self._seen.add(str(uuid))
            self._sums.ask(body.get("timestamp"), _PROMPTS[kind](body))
            if body.get("isSidechain") and not self._has_main:
                self._aside.turns += _PROMPTS[kind]({**body, "isSidechain": False})
        if kind in ("user", "assistant") and not beside:
            self._has_main = self._has_main or not body.get("isSidechain")
        if kind == "progress":
            at, uuid = body.get("timestamp"), body.get("uuid")
            for spent in spent_in_progress(body.get("data"), at, uuid):
                self._sums.add(spent, beside=True)
        if not isinstance(message, dict) or kind != "assistant":
            return
        is_beside = beside or bool(body.get("isSidechain"))
        if isinstance(message.get("usage"), dict):
            self._sums.spend(
                message["usage"],
                body.get("timestamp"),
                message.get("id"),
                body.get("uuid"),
                model=message.get("model"),
                beside=is_beside,
            )
            self._take_cost(body, message, beside=is_beside)
        if not beside and message.get("model") != SYNTHETIC:
            sums = self._aside if is_beside else self._sums
            sums.use(message.get("model"))

    def _note_queued(self, kind: str, body: Mapping[str, Any]) -> None:
        self._place += 1
        if kind == QUEUE_OPERATION:
            self._queue.take(body.get("operation"), body.get("content"), self._place)
        elif not self._queue.is_empty and not any(body.get(key) for key in _SUMMARIES):
            keys = {"attachment": body.get("attachment"), "system": body}
            said = keys.get(kind, body.get("message"))
            content = said.get("content", said.get("prompt")) if isinstance(said, dict) else None
            self._queue.carry(text_of({"content": content}))

    def _take_cost(
        self, body: Mapping[str, Any], message: Mapping[str, Any], *, beside: bool
    ) -> None:
        """Add the cost of an answer, which each of its lines has."""
        cost, answer = cost_in(body.get("costUSD")), message.get("id")
        if cost and isinstance(answer, str) and answer and answer not in self._priced:
            self._priced.add(answer)
            about = {"kind": "result", "model": message.get("model")}
            self._sums.spend({"cost": cost}, body.get("timestamp"), beside=beside, **about)

    def _take_costs(self, body: Mapping[str, Any]) -> None:
        """Add what each model cost since the line before; a line has the sums of the session."""
        for model, cost in new_costs(body.get("modelUsage"), self._costs):
            if cost:
                told = session_cost(model, cost)
                self._sums.spend(
                    told["usage"], body.get("timestamp"), kind=told["kind"], model=model
                )

    def counts(self) -> FileCounts:
        """What the lines so far add up to."""
        counts = self._sums.counts()
        if not self._has_main:
            counts = replace(counts, turns=self._aside.turns, model=self._aside.model)
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
