"""A home of made sessions whose truth is known: each conversation, with its turns and answers.

Four agents keep conversations there. Some are forked, copied and moved as the agents and people do
it: lines repeated verbatim in a file with a new id, conflict copies of a sync program, a file in
another folder, a replay in a subagent's file. What the product makes (imports, backups, converted
files) a test makes by its commands.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson

Line = dict[str, Any]

START = datetime(2026, 3, 1, 8, tzinfo=UTC)
MODELS = {
    "claude-code": "claude-opus-4-6",
    "codex": "gpt-5.4",
    "gemini": "gemini-2.5-pro",
    "pi": "claude-opus-4-6",
}


@dataclass(frozen=True)
class Answer:
    """The tokens of one answer; `key` is the same in all copies of it."""

    key: str
    agent: str
    new: int
    out: int
    read: int


@dataclass
class Conversation:
    """What is true of a conversation."""

    id: str
    agent: str
    cwd: Path
    file: Path  # its agent's own
    word: str  # is in each of its prompts, and in no other conversation but its forks
    at: datetime  # of its last line
    prompts: list[str] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    also: set[Path] = field(default_factory=set)  # files that hold all of it, too
    is_fork: bool = False
    own_id: str = ""  # by which its agent knows the file, if that is another one

    @property
    def files(self) -> set[str]:
        return {str(file) for file in (self.file, *self.also)}


class MadeHome:
    """A home in which agents keep conversations.

    Args:
        home: the folder, empty.
        count: how many conversations there are before they are forked and copied.
    """

    def __init__(self, home: Path, count: int) -> None:
        self.home = home
        self.random = random.Random(7)
        self.all: list[Conversation] = []
        for number in range(count):
            self._make(list(MODELS)[number % 4], START + timedelta(hours=7 * number))
        for number, one in enumerate(list(self.all)):
            self._copy(one, number // 4)

    def of(self, agent: str) -> list[Conversation]:
        return [one for one in self.all if one.agent == agent and not one.is_fork]

    def answers(self) -> list[Answer]:
        """All answers, each once."""
        return [*{answer.key: answer for one in self.all for answer in one.answers}.values()]

    def go_on(self, one: Conversation, at: datetime | None = None) -> None:
        """The agent of a conversation adds a turn to its file."""
        lines = [json.loads(line) for line in one.file.read_text().splitlines()]
        one.at = at or one.at + timedelta(minutes=5)
        _write(one.file, [*lines, *self._turn(one, lines)])
        one.also.clear()

    def cut(self, one: Conversation) -> None:
        """The file of a conversation loses all but its first turn."""
        lines = one.file.read_text().splitlines(keepends=True)
        one.file.write_text("".join(lines[: HEADS[one.agent] + LINES[one.agent]]))
        one.also.clear()

    def _id(self) -> str:
        return str(UUID(int=self.random.getrandbits(128), version=4))

    def _make(self, agent: str, at: datetime) -> Conversation:
        id = self._id()
        cwd = self.home / "work" / f"p{len(self.all) % 5}"
        cwd.mkdir(parents=True, exist_ok=True)
        file = self.home / _FILES[agent].format(
            cwd=re.sub(r"[^a-zA-Z0-9]", "-", str(cwd)), id=id, at=_name(at)
        )
        one = Conversation(id, agent, cwd, file, f"word{len(self.all)}x", at)
        lines = self._head(one)
        for _ in range(self.random.randint(1, 4)):
            one.at += timedelta(minutes=self.random.randint(1, 9))
            lines += self._turn(one, lines)
        _write(file, lines)
        self.all.append(one)
        return one

    def _head(self, one: Conversation) -> list[Line]:
        at = _stamp(one.at)
        if one.agent == "codex":
            about = {"cwd": str(one.cwd), "originator": "codex_cli_rs", "source": "cli"}
            meta = {"id": one.id, "timestamp": at, "cli_version": "0.169.0", **about}
            return [{"timestamp": at, "type": "session_meta", "payload": meta}]
        if one.agent == "gemini":
            about = {"projectHash": "0" * 64, "startTime": at, "lastUpdated": at, "kind": "main"}
            (root := one.file.parents[1]).mkdir(parents=True, exist_ok=True)
            (root / ".project_root").write_text(str(one.cwd))
            return [{"sessionId": one.id, **about}]
        if one.agent == "pi":
            about = {"id": one.id, "timestamp": at, "cwd": str(one.cwd)}
            return [{"type": "session", "version": 3, **about}]
        return []

    def _turn(self, one: Conversation, before: list[Line]) -> list[Line]:
        """A prompt and its answer, as the agent writes them."""
        prompt = f"{one.word} question {len(one.prompts)}"
        draw = self.random.randint
        answer = Answer(self._id(), one.agent, draw(10, 900), draw(10, 900), draw(0, 5000))
        one.prompts.append(prompt)
        one.answers.append(answer)
        times = _stamp(one.at), _stamp(one.at + timedelta(seconds=20))
        one.at += timedelta(seconds=20)
        return [*_TURNS[one.agent](one, before, prompt, answer, times)]

    def _copy(self, one: Conversation, number: int) -> None:
        """Make a copy of the kind that has the number, as far as the agent makes it."""
        kinds = {
            "claude-code": (self._forked_by_claude, self._in_conflict, self._elsewhere),
            "codex": (self._forked_by_codex, self.replayed),
        }.get(one.agent, ())
        if kinds and number % 2 == 0:
            kinds[number // 2 % len(kinds)](one)

    def _fork(self, one: Conversation, file: Path, id: str) -> Conversation:
        fork = Conversation(id, one.agent, one.cwd, file, one.word, one.at, is_fork=True)
        fork.prompts, fork.answers = [*one.prompts], [*one.answers]
        self.all.append(fork)
        return fork

    def _forked_by_claude(self, one: Conversation) -> None:
        """A fork has the lines of its original with its id, in a file named by its own."""
        id = self._id()
        fork = self._fork(one, one.file.with_name(f"{id}.jsonl"), id)
        shutil.copy(one.file, fork.file)
        self.go_on(fork)

    def _in_conflict(self, one: Conversation) -> None:
        copy = one.file.with_name(f"{one.id}.sync-conflict-20260901-101010-ABCDEFG.jsonl")
        shutil.copy(one.file, copy)

    def _elsewhere(self, one: Conversation) -> None:
        copy = one.file.parent.with_name("-moved") / one.file.name
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(one.file, copy)
        one.also.add(copy)

    def _forked_by_codex(self, one: Conversation) -> None:
        """A fork has its own first line, then all lines of its original."""
        id, at = self._id(), one.at + timedelta(minutes=1)
        fork = self._fork(one, one.file.with_name(f"rollout-{_name(at)}-{id}.jsonl"), id)
        fork.at = at
        (head,) = self._head(fork)
        head["payload"]["forked_from_id"] = one.id
        _write(fork.file, [head, *map(json.loads, one.file.read_text().splitlines())])
        self.go_on(fork)

    def replayed(self, one: Conversation) -> Conversation:
        """A subagent's file repeats its parent with the times of its start, and then answers."""
        id, at = self._id(), one.at + timedelta(minutes=1)
        child = self._fork(one, one.file.with_name(f"rollout-{_name(at)}-{id}.jsonl"), id)
        child.at = at
        (head,) = self._head(child)
        spawn: Line = {"parent_thread_id": one.id, "depth": 1}
        head["payload"] |= {"source": {"subagent": {"thread_spawn": spawn}}}
        head["payload"]["forked_from_id"] = one.id
        replay = [json.loads(line) for line in one.file.read_text().splitlines()]
        _write(child.file, [head, *({**line, "timestamp": _stamp(at)} for line in replay)])
        self.go_on(child)
        return child


def _claude(
    one: Conversation, before: list[Line], prompt: str, answer: Answer, times: tuple[str, str]
) -> Iterator[Line]:
    about = {"isSidechain": False, "sessionId": one.id, "cwd": str(one.cwd), "version": "2.1.330"}
    asked, said = f"{answer.key[:-1]}a", f"{answer.key[:-1]}b"
    above = before[-1]["uuid"] if before else None
    message: Line = {"role": "user", "content": prompt}
    line = {"parentUuid": above, **about, "type": "user", "uuid": asked, "timestamp": times[0]}
    yield {**line, "message": message}
    usage = {"input_tokens": answer.new, "output_tokens": answer.out}
    usage |= {"cache_read_input_tokens": answer.read, "cache_creation_input_tokens": 0}
    message = {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]}
    message |= {"id": f"msg_{answer.key}", "model": MODELS[one.agent], "usage": usage}
    line = {"parentUuid": asked, **about, "type": "assistant", "uuid": said, "timestamp": times[1]}
    yield {**line, "requestId": f"req_{answer.key}", "message": message}


def _codex(
    one: Conversation, before: list[Line], prompt: str, answer: Answer, times: tuple[str, str]
) -> Iterator[Line]:
    def line(at: str, kind: str, **payload: Any) -> Line:
        return {"timestamp": at, "type": kind, "payload": payload}

    yield line(times[0], "turn_context", cwd=str(one.cwd), model=MODELS["codex"])
    content = [{"type": "input_text", "text": prompt}]
    yield line(times[0], "response_item", type="message", role="user", content=content)
    yield line(times[0], "event_msg", type="user_message", message=prompt)
    content = [{"type": "output_text", "text": "Yes."}]
    yield line(times[1], "response_item", type="message", role="assistant", content=content)
    counts = [body["payload"]["info"] for body in before if "info" in body.get("payload", {})]
    last = {
        "input_tokens": answer.new + answer.read,
        "cached_input_tokens": answer.read,
        "output_tokens": answer.out,
        "reasoning_output_tokens": 0,
        "total_tokens": answer.new + answer.read + answer.out,
    }
    known = counts[-1]["total_token_usage"] if counts else dict.fromkeys(last, 0)
    total = {name: count + known[name] for name, count in last.items()}
    info = {"total_token_usage": total, "last_token_usage": last}
    yield line(times[1], "event_msg", type="token_count", info=info)


def _gemini(
    one: Conversation, before: list[Line], prompt: str, answer: Answer, times: tuple[str, str]
) -> Iterator[Line]:
    yield {
        "id": f"{answer.key[:-1]}a",
        "timestamp": times[0],
        "type": "user",
        "content": [{"text": prompt}],
    }
    tokens = {"input": answer.new + answer.read, "output": answer.out, "cached": answer.read}
    tokens |= {"thoughts": 0, "tool": 0, "total": answer.new + answer.read + answer.out}
    said = {"id": f"{answer.key[:-1]}b", "timestamp": times[1], "type": "gemini", "content": "Yes."}
    yield {**said, "thoughts": [], "tokens": tokens, "model": MODELS["gemini"]}
    yield {"$set": {"lastUpdated": times[1]}}


def _pi(
    one: Conversation, before: list[Line], prompt: str, answer: Answer, times: tuple[str, str]
) -> Iterator[Line]:
    above = before[-1]["id"] if len(before) > 1 else None
    asked, said = answer.key[:8], answer.key[-8:]
    line = {"type": "message", "id": asked, "parentId": above, "timestamp": times[0]}
    yield {**line, "message": {"role": "user", "content": prompt}}
    usage = {"input": answer.new, "output": answer.out, "cacheRead": answer.read, "cacheWrite": 0}
    message = {"role": "assistant", "content": [{"type": "text", "text": "Yes."}], "usage": usage}
    message |= {"provider": "anthropic", "model": MODELS["pi"], "stopReason": "stop"}
    line = {"type": "message", "id": said, "parentId": asked, "timestamp": times[1]}
    yield {**line, "message": message}


_TURNS = {"claude-code": _claude, "codex": _codex, "gemini": _gemini, "pi": _pi}
HEADS = {"claude-code": 0, "codex": 1, "gemini": 1, "pi": 1}
LINES = {"claude-code": 2, "codex": 5, "gemini": 3, "pi": 2}
"""The lines of a turn."""
_FILES = {
    "claude-code": ".claude/projects/{cwd}/{id}.jsonl",
    "codex": ".codex/sessions/2026/03/01/rollout-{at}-{id}.jsonl",
    "gemini": ".gemini/tmp/{id}/chats/session-{at}-{id:.8}.jsonl",
    "pi": ".pi/agent/sessions/-{cwd}-/{at}_{id}.jsonl",
}


def _stamp(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _name(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H-%M-%S")


def _write(file: Path, lines: list[Line]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
