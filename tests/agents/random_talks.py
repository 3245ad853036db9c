"""Random conversations, and the files or the rows in which several agents would keep each of them.

The facts of a conversation are what a reader has to find in the file, in order: prompts with their
images, thoughts, texts, calls, edits, results and summaries; and the sums of tokens and of costs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple
from uuid import UUID

from tests.agents.database_samples import AT, CRUSH, GOOSE, OPENCLAW, insert, made

Object = dict[str, Any]

PIXEL: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
)
IMAGE: Final = "data:image/png;base64," + PIXEL
MODEL: Final = "fake-1"
CWD: Final = "/home/user/project"
ID: Final = "0c0ffee0-0000-4000-8000-0000000000aa"

_TEXTS: Final = (
    *("Fix the notes.", "Ä \u2028 \U0001f600", "two\nlines\n", '"quoted" \\ back', "x" * 3000),
    *(
        "# Title\n\n- `code`\n",
        "<b>&amp;</b>",
        "\x1b[31mred\x1b[0m",
        "null",
        "[1, 2]",
        "  spaced  ",
    ),
)
_OUTPUTS: Final = (*_TEXTS, "", "1 | # Notes", "a\r\nb")


class Tokens(NamedTuple):
    """The tokens of an answer, those of its cache apart."""

    input: int
    output: int
    cache_read: int
    cache_write: int

    @property
    def sent(self) -> int:
        """What was sent, with the cache's part."""
        return self.input + self.cache_read + self.cache_write


class Called(NamedTuple):
    """A call; without an output it has no result."""

    id: str
    kind: str
    given: Object
    output: str | None
    failed: bool


class Step(NamedTuple):
    """An answer with its calls, whose results come in the order of `ended`."""

    thought: str
    text: str
    calls: list[Called]
    ended: list[Called]
    tokens: Tokens
    cents: int


class Turn(NamedTuple):
    prompt: str
    images: int
    steps: list[Step]
    summary: str  # of a compaction behind it; empty without one


def talk_of(random: Random, *, is_compacted: bool = True) -> list[Turn]:
    """A conversation, which is compacted once at most; its last turn may be interrupted."""
    count = random.randint(1, 5)
    compacted = random.randint(0, 2 * count) if is_compacted else -1
    ids = iter(range(10_000))
    turns = []
    for number in range(count):
        steps = [_step(random, ids) for _ in range(random.randint(0, 3))]
        is_last = number == count - 1
        if is_last and steps and random.random() < 0.5:
            cut = steps[-1]
            steps[-1] = cut._replace(ended=cut.ended[: random.randint(0, len(cut.ended))])
        summary = random.choice(_TEXTS[:4]) if number == compacted and not is_last and steps else ""
        turns.append(Turn(random.choice(_TEXTS), random.choice((0, 0, 1)), steps, summary))
    return turns


def _step(random: Random, ids: Iterator[int]) -> Step:
    calls = [_called(random, next(ids)) for _ in range(random.choice((0, 0, 1, 2, 3)))]
    thought, text = (random.choice(("", random.choice(_TEXTS))) for _ in range(2))
    if not thought and not calls:
        text = text or "Done."
    tokens = Tokens(*(random.randint(1, 5000) for _ in range(4)))
    ended = random.sample(calls, len(calls))
    return Step(thought, text, calls, ended, tokens, random.randint(1, 99))


def _called(random: Random, number: int) -> Called:
    kind = random.choice(("read", "shell", "edit"))
    path = random.choice((f"{CWD}/notes.md", f"{CWD}/Ä b.md"))
    given: Object = {"path": path}
    if kind == "shell":
        given = {"command": random.choice(("ls", "exit 3", "printf 'a\nb'"))}
    elif kind == "edit":
        given |= {"old": f"old {number}\n", "new": f"new {number} {random.choice(_TEXTS)}"}
    return Called(f"call_{number}", kind, given, random.choice(_OUTPUTS), random.random() < 0.3)


class Tools(NamedTuple):
    """An agent's names of the tools, and of the arguments of an edit."""

    read: str
    shell: str
    edit: str
    path: str = "path"
    old: str = "old_string"
    new: str = "new_string"
    more: Mapping[str, Any] = {}  # further arguments of an edit

    def name(self, called: Called) -> str:
        return str(getattr(self, called.kind))

    def arguments(self, called: Called) -> Object:
        names = {"path": self.path, "old": self.old, "new": self.new, "command": "command"}
        more = self.more if called.kind == "edit" else {}
        return {**more, **{names[key]: value for key, value in called.given.items()}}


class Stored(NamedTuple):
    """Where an agent keeps a conversation, and what it says of tokens."""

    file: Path
    counts: Collection[str] = Tokens._fields
    has_costs: bool = False


def facts_of(turns: list[Turn], tools: Tools) -> list[tuple[Any, ...]]:
    """What a reader has to find."""
    found: list[tuple[Any, ...]] = []
    for turn in turns:
        found.append(("prompt", turn.prompt, turn.images))
        for step in turn.steps:
            found += [("thought", step.thought)] if step.thought else []
            found += [("text", step.text)] if step.text else []
            for called in step.calls:
                found.append(("call", called.id, tools.name(called), tools.arguments(called)))
                if called.kind == "edit":
                    given = called.given
                    found.append(("edit", given["path"], given["old"], given["new"]))
            found += [
                ("result", called.id, tools.name(called), called.output, called.failed)
                for called in step.ended
            ]
        found += [("summary", turn.summary)] if turn.summary else []
    return found


def steps_of(turns: list[Turn]) -> Iterator[Step]:
    return (step for turn in turns for step in turn.steps)


# What the writers of all agents need


def _time(number: int) -> str:
    return datetime.fromtimestamp(AT + number, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _uuid(number: int) -> str:
    return str(UUID(int=0x00000000_0000_4000_8000_000000000000 + (number << 96)))


class _Lines:
    """The lines of a log, each with a number."""

    def __init__(self) -> None:
        self.made: list[Object] = []

    @property
    def count(self) -> int:
        return len(self.made) + 1

    def add(self, line: Object) -> None:
        self.made.append(line)

    def written(self, file: Path, *, half: bool) -> Path:
        """The file with the lines; with `half`, the start of another one is behind them."""
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(line, ensure_ascii=bool(len(self.made) % 2)) for line in self.made]
        more = lines[-1][: len(lines[-1]) // 2] if half else ""
        file.write_text("".join(f"{line}\n" for line in lines) + more, newline="")
        return file


def _text(words: str) -> Object:
    return {"type": "text", "text": words}


def _document(file: Path, document: Object) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, indent=2))
    return file


def _sum(turns: list[Turn]) -> Tokens:
    return Tokens(*map(sum, zip(*(step.tokens for step in steps_of(turns)), strict=True)))


# The agents

QWEN: Final = Tools("read_file", "run_shell_command", "edit", "file_path")
COPILOT: Final = Tools("view", "bash", "edit", "path", "old_str", "new_str")
DROID: Final = Tools("Read", "Execute", "Edit", "file_path", "old_str", "new_str")
CLINE: Final = Tools("read_file", "run_command", "editor", "path", "old_text", "new_text")
KIMI: Final = Tools("Read", "Bash", "Edit")
CLAW: Final = Tools("read", "exec", "edit", "path", "oldText", "newText")
EDITOR: Final = "developer__text_editor"
COMMAND: Final = {"command": "str_replace"}
GEESE: Final = Tools(EDITOR, "developer__shell", EDITOR, "path", "old_str", "new_str", COMMAND)
CRUSHED: Final = Tools("view", "bash", "edit", "file_path")
CONTINUE: Final = Tools("Read", "Bash", "Edit", "file_path")


def qwen(folder: Path, turns: list[Turn], half: bool) -> Stored:
    lines = _Lines()

    def add(kind: str, **more: Any) -> None:
        above = lines.made[-1]["uuid"] if lines.made else None
        about = {"sessionId": ID, "timestamp": _time(lines.count), "type": kind, "cwd": CWD}
        lines.add({"uuid": _uuid(lines.count), "parentUuid": above, **about, **more})

    def said(role: str, *parts: Object) -> Object:
        return {"message": {"role": role, "parts": [*parts]}}

    for turn in turns:
        image = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
        add("user", version="0.24.4", **said("user", {"text": turn.prompt}, *[image] * turn.images))
        for step in turn.steps:
            parts: list[Object] = [{"text": step.thought, "thought": True}] if step.thought else []
            parts += [{"text": step.text}] if step.text else []
            calls = [
                {"functionCall": {"id": c.id, "name": QWEN.name(c), "args": QWEN.arguments(c)}}
                for c in step.calls
            ]
            used = step.tokens
            counts = {"promptTokenCount": used.input + used.cache_read, "thoughtsTokenCount": 0}
            counts |= {
                "candidatesTokenCount": used.output,
                "cachedContentTokenCount": used.cache_read,
            }
            answer = said("model", *parts, *calls)
            add("assistant", model=MODEL, usageMetadata=counts, **answer)
            for c in step.ended:
                told: Object = {"error" if c.failed else "output": c.output}
                response = {"id": c.id, "name": QWEN.name(c), "response": told}
                status = {"callId": c.id, "status": "error" if c.failed else "success"}
                add(
                    "tool_result",
                    toolCallResult=status,
                    **said("user", {"functionResponse": response}),
                )
        if turn.summary:
            history = [said("user", {"text": turn.summary})["message"]]
            payload = {"info": {"originalTokenCount": 9}, "compressedHistory": history}
            add("system", subtype="chat_compression", systemPayload=payload)
    file = lines.written(folder / ".qwen/projects/-p/chats" / f"{ID}.jsonl", half=half)
    return Stored(file, ("input", "output", "cache_read"))


def copilot(folder: Path, turns: list[Turn], half: bool) -> Stored:
    lines = _Lines()

    def add(kind: str, **data: Any) -> None:
        above = lines.made[-1]["id"] if lines.made else None
        placed = {"id": _uuid(lines.count), "timestamp": _time(lines.count), "parentId": above}
        lines.add({"type": kind, "data": data, **placed})

    start = {"copilotVersion": "1.0.102", "startTime": _time(0), "context": {"cwd": CWD}}
    add("session.start", sessionId=ID, version=1, producer="copilot-agent", **start)
    for turn in turns:
        image: Object = {"type": "blob", "data": PIXEL, "mimeType": "image/png"}
        add("user.message", content=turn.prompt, attachments=[image] * turn.images)
        for step in turn.steps:
            used = step.tokens
            counts = {"inputTokens": used.sent, "outputTokens": used.output}
            counts |= {"cacheReadTokens": used.cache_read, "cacheWriteTokens": used.cache_write}
            add("session.usage_record", usage={"model": MODEL, **counts})
            calls = [
                {"toolCallId": c.id, "name": COPILOT.name(c), "arguments": COPILOT.arguments(c)}
                for c in step.calls
            ]
            thought = {"reasoningText": step.thought} if step.thought else {}
            add("assistant.message", model=MODEL, content=step.text, toolRequests=calls, **thought)
            for c in step.ended:
                told: Object = {"error": {"message": c.output}} if c.failed else {}
                told = told or {"result": {"content": c.output}}
                add("tool.execution_complete", toolCallId=c.id, success=not c.failed, **told)
        if turn.summary:
            add("session.compaction_start", model=MODEL)
            add("session.compaction_complete", success=True, summaryContent=turn.summary)
    return Stored(lines.written(folder / ".copilot/session-state" / ID / "events.jsonl", half=half))


def droid(folder: Path, turns: list[Turn], half: bool) -> Stored:
    lines = _Lines()
    start = {"title": "Notes", "owner": "me", "version": 2, "cwd": CWD}
    lines.add({"type": "session_start", "id": ID, **start})

    def add(role: str, content: Any, **more: Any) -> None:
        above = lines.made[-1]["id"]
        placed = {"id": _uuid(lines.count), "timestamp": _time(lines.count)}
        if above != ID:
            placed["parentId"] = above
        lines.add(
            {"type": "message", **placed, "message": {"role": role, "content": content, **more}}
        )

    for turn in turns:
        source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
        add("user", [_text(turn.prompt), *[{"type": "image", "source": source}] * turn.images])
        for step in turn.steps:
            blocks: list[Object] = (
                [{"type": "thinking", "thinking": step.thought}] if step.thought else []
            )
            blocks += [_text(step.text)] if step.text else []
            for c in step.calls:
                named = {"id": c.id, "name": DROID.name(c), "input": DROID.arguments(c)}
                blocks.append({"type": "tool_use", **named})
            add("assistant", blocks, modelId=MODEL)
            results = [
                {
                    "type": "tool_result",
                    "tool_use_id": c.id,
                    "is_error": c.failed,
                    "content": c.output,
                }
                for c in step.ended
            ]
            if results:
                add("user", results)
        if turn.summary:
            anchor = {"id": lines.made[-1]["id"], "index": 1}
            about = {"id": _uuid(lines.count), "timestamp": _time(lines.count)}
            kept = {"summaryText": turn.summary, "anchorMessage": anchor, "removedCount": 1}
            lines.add({"type": "compaction_state", **about, **kept})
    file = lines.written(folder / ".factory/sessions/-p" / f"{ID}.jsonl", half=half)
    if any(True for _ in steps_of(turns)):
        used = _sum(turns)
        counts = {"inputTokens": used.input, "outputTokens": used.output, "thinkingTokens": 0}
        counts |= {"cacheReadTokens": used.cache_read, "cacheCreationTokens": used.cache_write}
        _document(file.with_suffix(".settings.json"), {"model": MODEL, "tokenUsage": counts})
    return Stored(file)


def cline(folder: Path, turns: list[Turn], half: bool) -> Stored:
    messages: list[Object] = []

    def add(role: str, content: list[Object], **more: Any) -> None:
        number = len(messages)
        at = (AT + number) * 1000
        messages.append({"id": f"msg_{number}", "role": role, "content": content, "ts": at, **more})

    for turn in turns:
        image: Object = {"type": "image", "data": PIXEL, "mediaType": "image/png"}
        typed = f'<user_input mode="act">{turn.prompt}</user_input>'
        add("user", [_text(typed), *[image] * turn.images])
        for step in turn.steps:
            blocks: list[Object] = (
                [{"type": "thinking", "thinking": step.thought}] if step.thought else []
            )
            blocks += [_text(step.text)] if step.text else []
            for c in step.calls:
                named = {"id": c.id, "name": CLINE.name(c), "input": CLINE.arguments(c)}
                blocks.append({"type": "tool_use", **named})
            used = step.tokens
            counts: Object = {"inputTokens": used.sent, "outputTokens": used.output}
            counts |= {"cacheReadTokens": used.cache_read, "cacheWriteTokens": used.cache_write}
            model = {"id": MODEL, "provider": "fake"}
            add(
                "assistant",
                blocks,
                modelInfo=model,
                metrics={**counts, "cost": step.cents / 100},
            )
            for c in step.ended:
                outcome: Object = {"query": "q", "result": c.output, "success": not c.failed}
                if c.failed:
                    outcome |= {"result": "", "error": c.output}
                add("user", [{"type": "tool_result", "tool_use_id": c.id, "content": [outcome]}])
    about: Object = {
        "version": 1,
        "updated_at": _time(len(messages)),
        "agent": "lead",
        "sessionId": ID,
    }
    about |= {"origin": {"version": "3.0.65"}, "system_prompt": "You are Cline."}
    base = folder / ".cline/data/sessions" / ID
    beside: Object = {"session_id": ID, "started_at": _time(0), "cwd": CWD}
    _document(base / f"{ID}.json", beside)
    document = {**about, "messages": messages}
    return Stored(_document(base / f"{ID}.messages.json", document), has_costs=True)


def kimi(folder: Path, turns: list[Turn], half: bool) -> Stored:
    lines = _Lines()

    def add(kind: str, **more: Any) -> None:
        lines.add({"type": kind, "agentId": "main", **more, "time": (AT + lines.count) * 1000})

    def event(kind: str, **more: Any) -> None:
        add("context.append_loop_event", event={"type": kind, **more})

    started = {"protocol_version": "1.5", "created_at": AT * 1000}
    lines.add({"type": "metadata", **started})
    add("profile.bind", modelAlias=MODEL, systemPrompt="You are Kimi.")
    for turn in turns:
        image: Object = {"type": "image_url", "imageUrl": {"url": IMAGE}}
        content = [_text(turn.prompt), *[image] * turn.images]
        said: Object = {"role": "user", "content": content, "toolCalls": []}
        add("turn.prompt", input=content, origin={"kind": "user"})
        add("context.append_message", message={**said, "origin": {"kind": "user"}})
        for step in turn.steps:
            own = _uuid(lines.count)
            event("step.begin", uuid=own)
            used = step.tokens
            counts = {"inputOther": used.input, "output": used.output}
            counts |= {
                "inputCacheRead": used.cache_read,
                "inputCacheCreation": used.cache_write,
            }
            add("llm.request", model=MODEL)
            add("usage.record", model=MODEL, usage=counts, usageScope="turn")
            parts: list[Object] = [{"type": "think", "think": step.thought}] if step.thought else []
            for part in [*parts, *([_text(step.text)] if step.text else [])]:
                event("content.part", stepUuid=own, part=part)
            for c in step.calls:
                named = {"toolCallId": c.id, "name": KIMI.name(c), "args": KIMI.arguments(c)}
                event("tool.call", stepUuid=own, uuid=f"u{c.id}", **named)
            for c in step.ended:
                told: Object = {"output": c.output, **({"isError": True} if c.failed else {})}
                event("tool.result", parentUuid=f"u{c.id}", toolCallId=c.id, result=told)
            event("step.end", uuid=own, usage=counts)
        if turn.summary:
            add("context.apply_compaction", contextSummary=turn.summary, tokensBefore=9)
    base = folder / ".kimi-code/sessions/wd" / f"session_{ID}"
    file = lines.written(base / "agents/main/wire.jsonl", half=half)
    _document(base / "state.json", {"id": f"session_{ID}", "cwd": CWD})
    return Stored(file)


def openclaw(folder: Path, turns: list[Turn], half: bool) -> Stored:
    lines = _Lines()
    lines.add({"type": "session", "version": 4, "id": "notes-1", "timestamp": _time(0), "cwd": CWD})

    def add(kind: str, **more: Any) -> None:
        above = lines.made[-1]["id"] if len(lines.made) > 1 else None
        placed = {"id": _uuid(lines.count), "parentId": above, "timestamp": _time(lines.count)}
        lines.add({"type": kind, **placed, **more})

    def said(role: str, content: Any, **more: Any) -> None:
        add("message", message={"role": role, "content": content, **more})

    for turn in turns:
        image: Object = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
        said("user", [_text(turn.prompt), *[image] * turn.images])
        for step in turn.steps:
            blocks: list[Object] = (
                [{"type": "thinking", "thinking": step.thought}] if step.thought else []
            )
            blocks += [_text(step.text)] if step.text else []
            for c in step.calls:
                named = {"id": c.id, "name": CLAW.name(c), "arguments": CLAW.arguments(c)}
                blocks.append({"type": "toolCall", **named})
            used = step.tokens
            counts: Object = {"input": used.input, "output": used.output}
            counts |= {"cacheRead": used.cache_read, "cacheWrite": used.cache_write}
            about = {"provider": "fake", "model": MODEL, "stopReason": "stop"}
            usage = {**counts, "cost": {"total": step.cents / 100}}
            said("assistant", blocks, usage=usage, **about)
            for c in step.ended:
                told: Object = {"toolCallId": c.id, "toolName": CLAW.name(c), "isError": c.failed}
                said("toolResult", [_text(c.output or "")], **told)
        if turn.summary:
            kept = {"firstKeptEntryId": lines.made[-1]["id"], "tokensBefore": 9}
            add("compaction", summary=turn.summary, **kept)

    def fill(rows: Any) -> None:
        for seq, line in enumerate(lines.made):
            row = {"session_id": "notes-1", "seq": seq, "event_json": line}
            insert(rows, "transcript_events", {**row, "created_at": (AT + seq) * 1000})

    name = ".openclaw/agents/main/agent/openclaw-agent.sqlite"
    database = made(folder / name, OPENCLAW, fill)
    return Stored(database / "notes-1.jsonl", has_costs=True)


def goose(folder: Path, turns: list[Turn], half: bool) -> Stored:
    messages: list[Object] = []

    def add(role: str, *parts: Object, user: bool = True) -> None:
        number = len(messages) + 1
        row: Object = {"message_id": f"msg_{number}", "session_id": "g1", "role": role}
        row |= {"content_json": [*parts], "created_timestamp": AT + number}
        messages.append({**row, "metadata_json": {"userVisible": user, "agentVisible": True}})

    for turn in turns:
        image: Object = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
        add("user", _text(turn.prompt), *[image] * turn.images)
        for step in turn.steps:
            parts: list[Object] = (
                [{"type": "thinking", "thinking": step.thought}] if step.thought else []
            )
            parts += [_text(step.text)] if step.text else []
            for c in step.calls:
                value: Object = {"name": GEESE.name(c), "arguments": GEESE.arguments(c)}
                asked = {"status": "success", "value": value}
                parts.append({"type": "toolRequest", "id": c.id, "toolCall": asked})
            add("assistant", *parts)
            answers: list[Object] = []
            for c in step.ended:
                value = {"content": [_text(c.output or "")], "isError": c.failed}
                told: Object = {"status": "success", "value": value}
                answers.append({"type": "toolResponse", "id": c.id, "toolResult": told})
            if answers:
                add("user", *answers)
        if turn.summary:
            for row in messages:
                row["metadata_json"]["agentVisible"] = False
            add("user", _text(turn.summary), user=False)

    def fill(rows: Any) -> None:
        session: Object = {"id": "g1", "name": "Notes", "working_dir": CWD}
        session |= {"created_at": "2026-11-21 09:00:00", "updated_at": "2026-11-21 09:00:10"}
        if any(True for _ in steps_of(turns)):
            used = _sum(turns)
            session |= {"accumulated_input_tokens": used.input}
            session |= {"accumulated_output_tokens": used.output}
        insert(rows, "sessions", session)
        for row in messages:
            insert(rows, "messages", row)

    database = made(folder / ".local/share/goose/sessions/sessions.db", GOOSE, fill)
    return Stored(database / "g1.jsonl", ("input", "output"))


def crush(folder: Path, turns: list[Turn], half: bool) -> Stored:
    messages: list[Object] = []

    def add(role: str, *parts: tuple[str, Object], **more: Any) -> None:
        number = len(messages) + 1
        row: Object = {"id": _uuid(number), "session_id": "c1", "role": role}
        row |= {"parts": [{"type": kind, "data": data} for kind, data in parts]}
        messages.append({**row, "created_at": AT + number, "updated_at": AT + number, **more})

    for turn in turns:
        image = ("binary", {"Path": "a.png", "MIMEType": "image/png", "Data": PIXEL})
        add("user", ("text", {"text": turn.prompt}), *[image] * turn.images)
        for step in turn.steps:
            parts: list[tuple[str, Object]] = []
            parts += [("reasoning", {"thinking": step.thought})] if step.thought else []
            parts += [("text", {"text": step.text})] if step.text else []
            for c in step.calls:
                given = json.dumps(CRUSHED.arguments(c))
                parts.append(("tool_call", {"id": c.id, "name": CRUSHED.name(c), "input": given}))
            end = ("finish", {"reason": "end_turn", "time": AT})
            add("assistant", *parts, end, model=MODEL, provider="fake")
            results = [
                (
                    "tool_result",
                    {
                        "tool_call_id": c.id,
                        "name": CRUSHED.name(c),
                        "content": c.output,
                        "is_error": c.failed,
                    },
                )
                for c in step.ended
            ]
            if results:
                add("tool", *results)
        if turn.summary:
            add("assistant", ("text", {"text": turn.summary}), is_summary_message=1)

    def fill(rows: Any) -> None:
        times = {"created_at": AT, "updated_at": AT + len(messages)}
        cents = sum(step.cents for step in steps_of(turns))
        insert(rows, "sessions", {"id": "c1", "title": "Notes", "cost": cents / 100, **times})
        for row in messages:
            insert(rows, "messages", row)

    database = made(folder / ".local/share/crush/crush.db", CRUSH, fill)
    return Stored(database / "c1.jsonl", (), has_costs=True)


def continue_(folder: Path, turns: list[Turn], half: bool) -> Stored:
    items: list[Object] = []

    def add(message: Object, **more: Any) -> None:
        items.append({"message": message, "contextItems": [], **more})

    for turn in turns:
        image: Object = {"type": "imageUrl", "imageUrl": {"url": IMAGE}}
        content = [_text(turn.prompt), *[image] * turn.images]
        add({"role": "user", "content": content if turn.images else turn.prompt})
        for step in turn.steps:
            if step.thought:
                add({"role": "thinking", "content": step.thought})
            calls = [
                {
                    "id": c.id,
                    "type": "function",
                    "function": {
                        "name": CONTINUE.name(c),
                        "arguments": json.dumps(CONTINUE.arguments(c)),
                    },
                }
                for c in step.calls
            ]
            used = step.tokens
            counts: Object = {"prompt_tokens": used.input + used.cache_read, "model": MODEL}
            counts |= {"completion_tokens": used.output, "cost_cents": step.cents}
            counts |= {"prompt_tokens_details": {"cached_tokens": used.cache_read}}
            states = [
                {
                    "toolCallId": c.id,
                    "status": "errored" if c.failed else "done",
                    "output": [{"content": c.output}],
                }
                for c in step.ended
            ]
            add(
                {"role": "assistant", "content": step.text, "toolCalls": calls, "usage": counts},
                toolCallStates=states,
            )
        if turn.summary:
            items[-1]["conversationSummary"] = turn.summary
    about = {"sessionId": ID, "title": "Notes", "workspaceDirectory": CWD}
    file = _document(folder / ".continue/sessions" / f"{ID}.json", {**about, "history": items})
    return Stored(file, ("input", "output", "cache_read"), has_costs=True)


Writer = Callable[[Path, list[Turn], bool], Stored]

AGENTS: Final[Mapping[str, tuple[Writer, Tools]]] = {
    "qwen": (qwen, QWEN),
    "copilot": (copilot, COPILOT),
    "droid": (droid, DROID),
    "cline": (cline, CLINE),
    "kimi": (kimi, KIMI),
    "openclaw": (openclaw, CLAW),
    "goose": (goose, GEESE),
    "crush": (crush, CRUSHED),
    "continue": (continue_, CONTINUE),
}
