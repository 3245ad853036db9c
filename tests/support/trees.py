"""Random sessions, built through the real API, that say what agents and providers store.

Every text holds a word of its own, `w1`, `w2`, …, so that what is lost, doubled or
told apart can be seen. Words that are meant to stay behind are spelled `x1`.
"""

from __future__ import annotations

import re
from random import Random
from typing import Any

from sessiontree import NothingToDoError, Session
from tests.support.rules import strings_in
from tests.support.saying import PIXEL

MODEL = "claude-opus-4-5"
IDS = ("a", "call_0", "a.b", "a_b", "call_1|fc_9", "", "é" * 3, "t" * 70, "t" * 71)
NAMES = ("read", "mcp.server/tool", "", "n" * 90, "ünï")
ODD_ARGUMENTS = ("", "{", "[1]", "null", '{"deep": {"a": [1, 2.5, null]}}', "{}")


class Tree:
    """A session that grows at random.

    Attributes:
        session: the session so far.
    """

    def __init__(self, random: Random) -> None:
        self.session = Session.create(cwd="/project")
        self.random = random
        self._words = 0
        self._open: list[tuple[str, str]] = []
        self._messages = 0
        self._tidy = self._answered = False

    def word(self, mark: str = "w") -> str:
        self._words += 1
        return f"{mark}{self._words}"

    def grow(self, steps: int) -> Tree:
        """Do anything that changes what is said."""
        changes = [self.branch, self.compact, self.edit, self.merge, self.set, self.stream]
        for _ in range(steps):
            self.random.choice([self.say] * 12 + changes)()
        return self

    def talk(self, steps: int) -> Tree:
        """Only append what is said, calls answered as they should be."""
        self._tidy = True
        self.session.set_model("anthropic", MODEL)
        for _ in range(steps):
            self.say()
        return self

    def say(self) -> None:
        pick = self.random.random()
        prompts = 0.35
        if self._tidy:
            prompts = 0.75 if self._answered else 0.2
        if self._open and (self._tidy or pick < 0.75):
            self.session.append_message(self._result(*self._open.pop(0)))
        elif pick < prompts:
            self.session.append_message(self._prompt())
            self._answered = False
        elif pick < 0.85:
            for message in self._answer():
                self.session.append_message(message)
            self._answered = True
        elif pick < 0.9:
            self.session.append_message(self._result(self._id(), self._shape()))
        else:
            self._aside()

    def _shape(self) -> str:
        return self.random.choice(["pi", "anthropic", "chat", "responses"])

    def _id(self) -> str:
        return self.random.choice(IDS)

    def _aside(self) -> None:
        random, append = self.random, self.session.append
        kind = random.randrange(6)
        if kind == 0:
            append("custom_message", customType="t", content=self.word(), display=False)
        elif kind == 1:
            said: dict[str, Any] = {"command": self.word()}
            said["output"] = random.choice(["", f"```\n{self.word()}\n"])
            code = random.choice([0, 3, None])
            self.session.append_message({"role": "bashExecution", **said, "exitCode": code})
        elif kind == 2:
            said = {"command": self.word("x"), "output": "", "excludeFromContext": True}
            self.session.append_message({"role": "bashExecution", **said})
        elif kind == 3:
            role = random.choice(["developer", "narrator"])
            self.session.append_message({"role": role, "content": self.word()})
        elif kind == 4:
            self.session.rename(f"name {random.random()}")
        else:
            append("custom_message", customType="t", content=[self._shown()], display=True)

    def _prompt(self) -> dict[str, Any]:
        random = self.random
        content: Any = random.choice(["", " \n", self.word(), self.word(), None])
        if random.random() < 0.5:
            content = [self._shown() for _ in range(random.randrange(4))]
        return {"role": "user", "content": content}

    def _text(self, kind: str = "text") -> dict[str, Any]:
        return {"type": kind, "text": self.word()}

    def _shown(self) -> Any:
        source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
        return self.random.choice(
            [
                self._text(),
                self._text("input_text"),
                self.word(),
                {"type": "text", "text": self.random.choice(["", "\n\n"])},
                {"type": "image", "source": source, "cache_control": {"type": "ephemeral"}},
                {"type": "image", "source": {**source, "media_type": "image/svg+xml"}},
                {"type": "image", "source": {"type": "url", "url": "https://a.test/b.png"}},
                {"type": "image", "source": {"type": "url", "url": "ftp://a.test/b.png"}},
                {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
                {"type": "image", "data": PIXEL, "mimeType": "image/jpg"},
                {"type": "image", "data": "no base64!", "mimeType": "image/png"},
                {"type": "image_url", "image_url": {"url": f"data:image/gif;base64,{PIXEL}"}},
                {"type": "image_url", "image_url": {"url": "http://a.test/b.png"}},
                {"type": "input_image", "file_id": "file-2", "detail": "auto"},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": PIXEL}},
                {"type": "input_file", "file_url": "https://a.test/b.pdf"},
                {"type": "document", "source": {"type": "text", "data": self.word()}},
                {"type": "document", "source": {**source, "media_type": "application/pdf"}},
                17,
            ]
        )

    def _answer(self) -> list[dict[str, Any]]:
        random = self.random
        shape = self._shape()
        calls = [self._id() for _ in range(random.choice([0, 0, 0, 0, 1, 1, 2, 3]))]
        if random.random() < 0.9:
            calls = list(dict.fromkeys(calls))
        self._open = [(id, shape if random.random() < 0.9 else self._shape()) for id in calls]
        if not self._tidy and random.random() < 0.2:
            self._open = self._open[::-1][: random.randrange(4)]
        return getattr(self, f"_{shape}_answer")(calls)  # type: ignore[no-any-return]

    def _named(self) -> dict[str, Any]:
        return self.random.choice([{}, {"model": MODEL}, {"provider": "anthropic", "model": MODEL}])

    def _arguments(self) -> dict[str, Any]:
        return {"path": self.word(), "n": [1, None, {"é": 2.5}]}

    def _pi_answer(self, calls: list[str]) -> list[dict[str, Any]]:
        random = self.random
        blocks: list[dict[str, Any]] = random.choice(
            [
                [],
                [{"type": "thinking", "thinking": self.word("x")}],
                [{"type": "thinking", "thinking": "t", "thinkingSignature": "c2ln"}],
                [{"type": "thinking", "thinking": "", "thinkingSignature": "x", "redacted": True}],
                [self._text(), self._text()],
            ]
        )
        blocks += [
            {"type": "toolCall", "id": id, "name": "ls", "arguments": self._arguments()}
            for id in calls
        ]
        if random.random() < 0.1:
            blocks.append({"type": "toolCall", "name": "ls", "arguments": {}})
        if random.random() < 0.1:
            blocks.append({"type": "image", "data": PIXEL, "mimeType": "image/png"})
        api = random.choice([{}, {"api": "anthropic-messages"}, {"api": "openai-completions"}])
        stop = random.choice(["stop", "error"])
        return [{"role": "assistant", "content": blocks, "stopReason": stop, **api}]

    def _anthropic_answer(self, calls: list[str]) -> list[dict[str, Any]]:
        random = self.random
        self._messages += 1
        blocks: list[dict[str, Any]] = []
        if random.random() < 0.4:
            blocks.append({"type": "thinking", "thinking": "hm", "signature": "c2ln"})
        if random.random() < 0.2:
            blocks.append({"type": "redacted_thinking", "data": "c2ln"})
        if random.random() < 0.6:
            said = {"type": "text", "text": f"{self.word()} \n", "citations": None}
            blocks.append(random.choice([said, {"type": "text", "text": "\n\n"}]))
        if random.random() < 0.1:
            use = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
            blocks.append(use)
            if random.random() < 0.7:
                kind = "web_search_tool_result"
                blocks.append({"type": kind, "tool_use_id": "srv_1", "content": []})
        for id in calls:
            use = {"type": "tool_use", "id": id, "name": random.choice(NAMES)}
            blocks.append({**use, "input": self._arguments(), "caller": {"type": "direct"}})
        whole = {"role": "assistant", "type": "message", **self._named()}
        if random.random() < 0.3:  # as Claude Code stores it: a block a message
            id = f"msg_{self._messages}"
            return [{**whole, "id": id, "content": [block]} for block in blocks]
        return [{**whole, "content": blocks}]

    def _chat_answer(self, calls: list[str]) -> list[dict[str, Any]]:
        random = self.random
        message: dict[str, Any] = {"role": "assistant"}
        message["content"] = random.choice([None, "", self.word(), [self._text()]])
        made = []
        for id in calls:
            name = random.choice(NAMES)
            if random.random() < 0.2:
                custom = {"name": name, "input": self.word()}
                made.append({"id": id, "type": "custom", "custom": custom})
                continue
            arguments = random.choice([*ODD_ARGUMENTS, f'{{"a": "{self.word()}"}}', self.word()])
            function = {"name": name, "arguments": arguments}
            made.append({"id": id, "type": "function", "function": function})
        if made:
            message["tool_calls"] = made
        return [message]

    def _responses_answer(self, calls: list[str]) -> list[dict[str, Any]]:
        random = self.random
        items: list[dict[str, Any]] = []
        for _ in range(random.choice([0, 0, 1, 2])):
            summary = [{"type": "summary_text", "text": "s"}]
            item = {"type": "reasoning", "id": random.choice(["rs_1", "rs_2", "", "r" * 80])}
            items.append({**item, "summary": summary})
            if random.random() < 0.7:
                items[-1]["encrypted_content"] = "c2VhbGVk"
        if random.random() < 0.6:
            said = [{"type": "output_text", "text": self.word(), "annotations": []}]
            items.append({"type": "message", "role": "assistant", "content": said})
            items[-1] |= random.choice([{}, {"id": "msg_1", "phase": "commentary"}])
        for id in calls:
            item = {"call_id": id, "id": random.choice(["fc_1", "fc_2"]), "name": "ls"}
            kind = random.randrange(4)
            if kind == 0:
                items.append({**item, "type": "custom_tool_call", "input": self.word()})
            elif kind == 1:
                action = {"type": "exec", "command": [self.word()], "env": {}}
                items.append({"type": "local_shell_call", "call_id": id, "action": action})
            else:
                arguments = f'{{"a":"{self.word()}"}}'
                items.append({**item, "type": "function_call", "arguments": arguments})
        return items

    def _result(self, id: str, shape: str) -> dict[str, Any]:
        random = self.random
        content: Any = random.choice(["", "\n", self.word(), None])
        if random.random() < 0.5:
            content = [self._shown() for _ in range(random.randrange(3))]
        failed = random.random() < 0.3
        if shape == "pi":
            named = {"toolCallId": id, "toolName": "ls", "isError": failed}
            return {"role": "toolResult", **named, "content": content}
        if shape == "anthropic":
            block = {"type": "tool_result", "tool_use_id": id, "content": content}
            then = [self._text()] if random.random() < 0.2 else []
            return {"role": "user", "content": [{**block, "is_error": failed}, *then]}
        if shape == "chat":
            return {"role": "tool", "tool_call_id": id, "content": content}
        kind = random.choice(["function_call_output", "custom_tool_call_output"])
        return {"type": kind, "call_id": id, "output": content}

    def _somewhere(self) -> str:
        return self.random.choice(self.session.path()).uuid

    def branch(self) -> None:
        self._open = []
        self.session.branch(self._somewhere(), summary=self.random.choice([None, self.word()]))

    def compact(self) -> None:
        try:
            self.session.compact(self.word(), first_kept=self._somewhere())
        except NothingToDoError:
            return

    def edit(self) -> None:
        context = self.session.context()
        if not context.entries:
            return
        entry = self.random.choice(context.entries)
        replacement = self.random.choice([None, {"content": self.word()}, {"content": ""}])
        self.session.edit_context(entry, replacement)

    def merge(self) -> None:
        other = self.random.choice(list(self.session.entries()))
        try:
            self.session.merge(other, summary=self.random.choice([None, self.word()]))
        except NothingToDoError:
            return

    def set(self) -> None:
        if self.random.random() < 0.5:
            self.session.append_message({"role": "system", "content": self.word("s")})
        else:
            self.session.set_model("anthropic", self.random.choice([MODEL, "claude-other"]))

    def stream(self) -> None:
        uuid = f"streamed-{self.word('m')}"
        for index in range(self.random.randrange(1, 3)):
            self.session.append("block", messageUuid=uuid, index=index, block=self._text())
        if self.random.random() < 0.7:
            self.session.append("message_end", messageUuid=uuid, role="assistant")


def words_in(value: Any) -> set[str]:
    """The words that stay, in all texts of a value."""
    return {word for text in strings_in(value) for word in re.findall(r"\bw\d+\b", text)}
