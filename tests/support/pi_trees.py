"""Random sessions in the pi coding agent's own shape, with every type of entry."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from sessiontree import Entry, Session, UsageError
from tests.support.saying import IMAGE

COST = {"input": 0.1, "output": 0.2, "cacheRead": 0, "cacheWrite": 0, "total": 0.3}
USAGE = {"input": 7, "output": 3, "cacheRead": 2, "cacheWrite": 1, "totalTokens": 13, "cost": COST}


class PiShaped:
    """A session that grows at random.

    Attributes:
        session: the session so far.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.session = Session.create(
            cwd="/project",
            name=random.choice([None, "At first"]),
            metadata=random.choice([None, {"model": "first", "provider": "p", "system": "S"}]),
        )
        self._number = 0

    def grow(self, steps: int) -> PiShaped:
        """Take random steps, the first of them a prompt."""
        acts = [self.prompt] * 4 + [self.answer] * 4 + [self.aside, self.branch, self.stack]
        acts += [self.compact, self.edit, self.merge, self.note, self.set, self.lane, self.stream]
        self.prompt()
        for _ in range(steps):
            try:
                self.random.choice(acts)()
            except UsageError:  # nothing to merge, compact or pop
                self.prompt()
        return self

    def word(self) -> str:
        self._number += 1
        return f"w{self._number}"

    def _text(self) -> list[dict[str, Any]]:
        return [{"type": "text", "text": self.word()}]

    def _somewhere(self) -> str:
        return self.random.choice(self.session.path()[1:] or [self.session.leaf]).uuid

    def prompt(self) -> None:
        content = self.random.choice([self.word(), self._text(), [*self._text(), IMAGE], [], ""])
        self.session.append_message({"role": "user", "content": content})

    def answer(self) -> None:
        thought = {"type": "thinking", "thinking": self.word(), "thinkingSignature": "c2ln"}
        count = self.random.choice([0, 0, 1, 2])
        call: dict[str, Any] = {"type": "toolCall", "name": "ls"}
        paths = [{"path": self.word()} for _ in range(count)]
        calls = [{**call, "id": f"c{n}", "arguments": path} for n, path in enumerate(paths)]
        blocks = self.random.choice([[], [thought], self._text(), [thought, *self._text()]])
        made: dict[str, Any] = {"role": "assistant", "content": [*blocks, *calls], "timestamp": 5}
        made |= {"api": "a", "provider": "p", "model": f"m{count}", "usage": USAGE}
        self.session.append_message({**made, "stopReason": "toolUse" if calls else "stop"})
        for call in calls[: self.random.choice([0, 2, 2, 2])]:
            brought: dict[str, Any] = {"toolCallId": call["id"], "toolName": "ls", "isError": False}
            said: Any = self.random.choice([self._text(), self.word()])
            self.session.append_message({"role": "toolResult", **brought, "content": said})

    def aside(self) -> None:
        said: dict[str, Any] = {"role": "bashExecution", "command": self.word(), "output": "x"}
        if self.random.random() < 0.5:
            self.session.append_message(said)
        else:
            self.session.append("custom_message", customType="t", content=self.word(), display=True)

    def branch(self) -> None:
        more = self.random.choice([{}, {"summary": self.word()}, {"name": self.word()}])
        self.session.branch(self._somewhere(), **more)

    def stack(self) -> None:
        if self.random.random() < 0.5:
            self.session.push(self.word())
        else:
            self.session.pop(summary=self.word())

    def compact(self) -> None:
        whole = [e for e in self.session.path()[1:] if e.type not in ("block", "message_end")]
        if whole:  # a part of a message cannot be kept alone
            self.session.compact(self.word(), first_kept=self.random.choice(whole))

    def edit(self) -> None:
        found = self.session.context(verbatim=True)
        editable = ("user", "assistant", "toolResult", "custom")
        pairs = zip(found.messages, found.entries, strict=True)
        entries = [e for m, e in pairs if m["role"] in editable and e.type != "block"]
        content = self.random.choice([None, self.word(), {"content": self._text()}])
        if entries:
            self.session.edit_context(self.random.choice(entries), content)

    def merge(self) -> None:
        other = self.random.choice(list(self.session.entries()))
        self.session.merge(other, summary=self.random.choice([None, self.word()]))

    def note(self) -> None:
        name = self.word()
        acts: list[Callable[[], Entry]] = [
            lambda: self.session.label(self._somewhere(), name),
            lambda: self.session.rename(name),
            lambda: self.session.update_metadata(fact=name),
            lambda: self.session.append("custom", customType="mine", data={"n": name}),
            lambda: self.session.append("x-next-year", value=name),
            lambda: self.session.append("usage", kind="k", provider="p", model="m", usage=USAGE),
        ]
        self.random.choice(acts)()

    def set(self) -> None:
        if self.random.random() < 0.3:
            self.session.set_model("p", f"model-{self.word()[1:]}")
        elif self.random.random() < 0.5:
            self.session.set_thinking_level(self.word())
        else:
            self.session.append_message({"role": "system", "content": self.word()})

    def lane(self) -> None:
        name = self.random.choice(["reviewer", "a/b"])
        with self.session.lane(name) as lane:
            lane.append_message({"role": "user", "content": self.word()})
            lane.append_message({"role": "assistant", "content": self._text()})
        self.session.refresh()

    def stream(self) -> None:
        uuid = self.word()
        for index in range(self.random.randrange(1, 3)):
            self.session.append("block", messageUuid=uuid, index=index, block=self._text()[0])
        if self.random.random() < 0.7:
            self.session.append("message_end", messageUuid=uuid, role="assistant", model="m")
