"""An answer breaks off at any event: each later request is valid, and begins with the one before.

`test_coding_agent` kills processes. Here a stream ends anywhere, with or without a word to the
session, and the agent continues in any way: it takes the broken answer back, asks again, or gets
another prompt.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Any, Final

from sessiontree import Session
from tests.examples.model_server import ModelServer
from tests.examples.rules import Api, Object
from tests.support.soak import in_soak
from tests.support.table import for_each

APIS: Final[tuple[Api, ...]] = ("anthropic", "responses", "chat")
SETTINGS: Final[dict[Api, Object]] = {
    "anthropic": {
        "model": "claude-opus-4-6",
        "max_tokens": 16_000,
        "thinking": {"type": "adaptive"},
    },
    "responses": {"model": "gpt-5", "store": False},
    "chat": {"model": "gpt-5"},
}
ANSWERS: Final = (
    *("think call", "think text", "think text call", "think call call", "think call think call"),
    *("think text think call", "think think call", "think call text", "call call", "text", "call"),
)
ANSWERS_OF: Final[dict[Api, list[str]]] = {
    "anthropic": [kinds for kinds in ANSWERS if kinds.startswith("think")],  # as in a tool loop
    "responses": list(ANSWERS),
    "chat": [kinds for kinds in ANSWERS if "think" not in kinds] + ["text call", "text call call"],
}
GO_ON: Final = ("retract", "ask", "prompt")


class Life:
    """A session and the model that it talks to, all from one seed."""

    def __init__(self, api: Api, seed: str) -> None:
        self.api: Api = api
        self.random = Random(seed)
        self.session = Session.create()
        self.model = ModelServer(self.answer, window=None)
        self.numbers = count()
        self.before: list[str] = []  # the request before

    def answer(self, api: Api, body: Object) -> list[Object]:
        kinds = self.random.choice(ANSWERS_OF[api]).split()
        return [block(kind, next(self.numbers)) for kind in kinds]

    def say(self, content: Any) -> None:
        self.session.append_message({"role": "user", "content": content})

    def ask(self) -> list[Object]:
        """Make a request, which must be valid and stable; return the events of the answer."""
        context = self.session.context()
        made: Any = context.to_anthropic() if self.api == "anthropic" else None
        made = made or context.to_openai("chat" if self.api == "chat" else "responses")
        body = {**SETTINGS[self.api], "stream": True, **made.params}
        asked = self.model.take(self.api, "none", body)
        assert asked.faults == [], body
        assert asked.prefix[: len(self.before)] == self.before
        self.before = asked.prefix
        return self.model.events(asked)

    def hear(self, events: list[Object], *, is_told: bool) -> None:
        """Store an answer, and the results of its calls if it is whole."""
        stream = self.session.stream_message(granularity="block")
        for event in events:
            stream.feed(event)
        if events[-1:] and is_last(events[-1]):
            if self.api == "chat":
                stream.end()
            for id in calls_in(stream.blocks):
                self.say([{"type": "tool_result", "tool_use_id": id, "content": "done"}])
        elif is_told:  # else the process died
            stream.end(stopReason="aborted")

    def go_on(self, how: str) -> None:
        if how == "retract" and self.session.unfinished() == "partial":
            self.session.retract()
            self.before = []  # an earlier request may have the answer
        if how == "prompt" or not self.session.unfinished():
            self.say("Go on")


def block(kind: str, number: int) -> Object:
    if kind == "call":
        return {"type": "tool_use", "name": "bash", "input": {"command": f"echo {number}"}}
    key = {"think": "thinking"}.get(kind, kind)
    return {"type": key, key: f"{kind} {number}"}


def is_last(event: Object) -> bool:
    is_end = event.get("type") in ("message_stop", "response.completed")
    return is_end or event.get("choices") == []


def calls_in(blocks: dict[int, Any]) -> Iterator[str]:
    for found in blocks.values():
        if found["type"] in ("tool_use", "function_call", "toolCall"):
            yield found.get("call_id") or found["id"]


@in_soak("lives", 25, 500)
@for_each("api", APIS)
def test_requests_are_valid_and_stable_wherever_the_answers_before_them_broke_off(
    api: Api, lives: int
) -> None:
    for number in range(lives):
        life = Life(api, f"{api} {number}")
        life.say("Go")
        for _ in range(4):
            events = life.ask()
            is_cut = life.random.random() < 0.6
            end = life.random.randrange(len(events)) if is_cut else len(events)
            life.hear(events[:end], is_told=life.random.random() < 0.5)
            life.go_on(life.random.choice(GO_ON))
        life.ask()
