"""Sessions of four agents, written line by line as each agent writes them."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shlex
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

from tests.history.edits import (
    Edit,
    Outcome,
    numbered_diff,
    patch_of,
    structured_patch,
    unified,
)

Row = dict[str, Any]

REFUSED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it "
    "was a file edit, the new_string was NOT written to the file). STOP what you are doing and "
    "wait for the user to tell you how to proceed."
)


def stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03}Z"


class Agent(ABC):
    """A session that an agent writes in its folder.

    Attributes:
        name: how lists of sessions name the agent.
        asked: the prompts that a call belongs to: the user's, and a subagent's.
        calls: the calls that are in its file.
        ends_lf: whether an edit makes LF of the ends of the lines around it.
    """

    name: ClassVar[str]
    ends_lf: ClassVar[bool] = False

    def __init__(self, rng: random.Random, homes: Path, cwd: Path, began: datetime) -> None:
        self.rng = rng
        self.homes = homes
        self.cwd = cwd
        self.began = began
        self.at = began
        self.id = self.uuid()
        self.asked: tuple[str, ...] = ()
        self.style = rng.randrange(6)
        self.calls: list[str] = []
        self._count = 0

    def uuid(self) -> str:
        return str(UUID(int=self.rng.getrandbits(128), version=4))

    def hex(self, length: int) -> str:
        return f"{self.rng.getrandbits(4 * length):0{length}x}"

    def tick(self, at: datetime) -> str:
        """The time of the next line; lines are in order."""
        self.at = max(at, self.at + timedelta(milliseconds=self.rng.randrange(1, 30)))
        return stamp(self.at)

    def path(self, file: Path) -> str:
        """A path as this agent gives it: relative to its folder, or absolute."""
        if file.is_relative_to(self.cwd) and self.rng.random() < 0.6:
            return str(file.relative_to(self.cwd))
        return str(file)

    def call(self) -> str:
        """The id of the next call."""
        self._count += 1
        return self.call_id()

    @abstractmethod
    def call_id(self) -> str: ...

    @abstractmethod
    def prompt(self, at: datetime, text: str) -> None: ...

    @abstractmethod
    def go_back(self, at: datetime) -> None:
        """The user goes back to before the last prompt; the files stay as they are."""

    @abstractmethod
    def read(self, at: datetime, file: Path, text: str) -> None: ...

    @abstractmethod
    def edit(self, at: datetime, call: str, edits: Sequence[Edit], outcome: Outcome) -> None:
        """A call that edits by pairs, or by a patch; several files only in a patch."""

    @abstractmethod
    def write(self, at: datetime, call: str, edit: Edit, outcome: Outcome) -> None:
        """A call that gives the whole file."""

    @abstractmethod
    def shell(self, at: datetime, call: str, command: str, output: str = "") -> None: ...

    def heredoc(self, at: datetime, call: str, edit: Edit) -> None:
        """A call that gives the whole file in the shell."""
        name = self.word(edit.file)
        self.shell(at, call, f"cat > {name} <<'EOF'\n{edit.after}EOF")

    def word(self, file: Path) -> str:
        """A path as a word of the shell, relative to the session's folder."""
        return shlex.quote(os.path.relpath(file, self.cwd))

    @abstractmethod
    def save(self) -> Path:
        """Write the session's file; where it is."""


class ClaudeCode(Agent):
    name = "claude-code"

    def __init__(self, rng: random.Random, homes: Path, cwd: Path, began: datetime) -> None:
        super().__init__(rng, homes, cwd, began)
        self._rows: list[Row] = []
        self._sides: dict[str, list[Row]] = {}
        self._metas: dict[str, Row] = {}
        self._side: str | None = None
        self._task: tuple[str, str] | None = None
        self._response = ""
        self._outer: tuple[str, ...] = ()
        self._leaf: str | None = None  # the parent of the next line of the main conversation
        self._above: str | None = None  # that of the last prompt

    def call_id(self) -> str:
        return f"toolu_01{self.hex(22)}"

    def path(self, file: Path) -> str:
        return str(file)

    def _row(self, at: datetime, kind: str, message: Row, **more: Any) -> Row:
        rows = self._rows if self._side is None else self._sides[self._side]
        parent = self._leaf if self._side is None else rows[-1]["uuid"] if rows else None
        row = {
            "parentUuid": parent,
            "isSidechain": self._side is not None,
            **({"agentId": self._side} if self._side is not None else {}),
            "userType": "external",
            "cwd": str(self.cwd),
            "sessionId": self.id,
            "version": "2.1.38" if self.style % 2 else "2.1.330",
            "gitBranch": "main",
            "type": kind,
            "message": message,
            "uuid": self.uuid(),
            "timestamp": self.tick(at),
            **more,
        }
        rows.append(row)
        if self._side is None:
            self._leaf = row["uuid"]
        return row

    def go_back(self, at: datetime) -> None:
        self._leaf = self._above

    def prompt(self, at: datetime, text: str) -> None:
        self.asked = (text,)
        self._above = self._leaf
        self._row(at, "user", {"role": "user", "content": text})

    def _said(self, at: datetime, block: Row) -> Row:
        calls = block["type"] == "tool_use"
        message = {
            "model": "claude-opus-4-6",
            "id": f"msg_01{self.hex(22)}",
            "type": "message",
            "role": "assistant",
            "content": [block],
            "stop_reason": "tool_use" if calls else None,
            "stop_sequence": None,
            "usage": {"input_tokens": 9, "output_tokens": 25, "service_tier": "standard"},
        }
        return self._row(at, "assistant", message, requestId=f"req_011{self.hex(20)}")

    def _called(self, at: datetime, call: str, tool: str, given: Row) -> Row:
        self.calls.append(call)
        if self.rng.random() < 0.5:
            self._said(at, {"type": "thinking", "thinking": f"I use {tool}.", "signature": "Eq=="})
        return self._said(at, {"type": "tool_use", "id": call, "name": tool, "input": given})

    def _result(
        self, at: datetime, call: str, caller: Row, content: Any, told: Any, failed: bool = False
    ) -> None:
        block = {"tool_use_id": call, "type": "tool_result", "content": content}
        block |= {"is_error": True} if failed else {}
        message = {"role": "user", "content": [block]}
        more = {"toolUseResult": told, "sourceToolAssistantUUID": caller["uuid"]}
        self._row(at + timedelta(seconds=1), "user", message, **more)

    def _ended(self, at: datetime, call: str, caller: Row, outcome: Outcome) -> bool:
        """Write the result of a call that was refused; whether no other result comes."""
        if outcome == "refused":
            self._result(at, call, caller, REFUSED, "User rejected tool use", failed=True)
        return outcome in ("refused", "open")

    def read(self, at: datetime, file: Path, text: str) -> None:
        call = self.call()
        caller = self._called(at, call, "Read", {"file_path": str(file)})
        lines = text.split("\n")
        shown = "\n".join(f"{number:6}→{line}" for number, line in enumerate(lines, 1))
        about = {"numLines": len(lines), "startLine": 1, "totalLines": len(lines)}
        told = {"type": "text", "file": {"filePath": str(file), "content": text, **about}}
        self._result(at, call, caller, shown, told)

    def edit(self, at: datetime, call: str, edits: Sequence[Edit], outcome: Outcome) -> None:
        (edit,) = edits
        path = str(edit.file)
        before, after = edit.before or "", edit.after or ""
        is_many = len(edit.pairs) > 1
        changes: list[Row] = [
            {"old_string": old, "new_string": new, "replace_all": edit.every}
            for old, new in edit.pairs
        ]
        given = {"file_path": path, "edits": changes} if is_many else {"file_path": path}
        given |= {} if is_many else changes[0]
        caller = self._called(at, call, "MultiEdit" if is_many else "Edit", given)
        if self._ended(at, call, caller, outcome):
            return
        if outcome == "failed":
            said = f"String to replace not found in file.\nString: {edit.pairs[-1].old}"
            content = f"<tool_use_error>{said}</tool_use_error>"
            self._result(at, call, caller, content, f"Error: {said}", failed=True)
            return
        told: Row = {"filePath": path}
        original = None if self.style < 2 else before
        if is_many:
            told |= {"edits": changes, "originalFileContents": original}
        else:
            told |= {"oldString": edit.pairs[0].old, "newString": edit.pairs[0].new}
            told |= {"originalFile": original, "replaceAll": edit.every}
        told |= {"structuredPatch": structured_patch(before, after), "userModified": False}
        said = f"The file {path} has been updated successfully."
        self._result(at, call, caller, said, told)

    def write(self, at: datetime, call: str, edit: Edit, outcome: Outcome) -> None:
        path, after = str(edit.file), edit.after or ""
        caller = self._called(at, call, "Write", {"file_path": path, "content": after})
        if self._ended(at, call, caller, outcome):
            return
        told: Row = {"filePath": path, "content": after, "originalFile": edit.before}
        if edit.before is None:
            told |= {"type": "create", "structuredPatch": []}
            said = f"File created successfully at: {path}"
        else:
            told |= {"type": "update", "structuredPatch": structured_patch(edit.before, after)}
            said = f"The file {path} has been updated successfully."
        self._result(at, call, caller, said, told)

    def shell(self, at: datetime, call: str, command: str, output: str = "") -> None:
        given = {"command": command, "description": "Run a command"}
        caller = self._called(at, call, "Bash", given)
        told = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
        self._result(at, call, caller, output, told)

    def begin_subagent(self, at: datetime, text: str) -> None:
        """Start a subagent, which makes the next calls."""
        call, agent = self.call(), f"a{self.hex(16)}"
        given = {"description": text[:20], "prompt": text, "subagent_type": "general-purpose"}
        caller = self._called(at, call, "Agent", given)
        self._task = call, caller["uuid"]
        self._side = agent
        self._sides[agent] = []
        about = {"agentType": "general-purpose", "description": text[:20], "toolUseId": call}
        self._metas[agent] = about
        self._outer = self.asked
        self.asked = (*self.asked, text)
        self._row(at, "user", {"role": "user", "content": text})

    def end_subagent(self, at: datetime) -> None:
        assert self._task is not None
        assert self._side is not None
        self._said(at, {"type": "text", "text": "Done."})
        agent, self._side = self._side, None
        (call, caller), self._task = self._task, None
        done = [{"type": "text", "text": "Done."}]
        told = {"status": "completed", "prompt": self.asked[-1], "agentId": agent, "content": done}
        self.asked = self._outer
        self._result(at, call, {"uuid": caller}, done, told)

    def copied(self, at: datetime) -> ClaudeCode:
        """A fork: a session of its own that begins with the lines of this one."""
        fork = ClaudeCode(self.rng, self.homes, self.cwd, at)
        fork.asked = self.asked
        for row in self._rows:
            origin = {"sessionId": self.id, "messageUuid": row["uuid"]}
            fork._rows.append({**row, "sessionId": fork.id, "forkedFrom": origin})
            content = row["message"]["content"]
            blocks = content if isinstance(content, list) else []
            fork.calls += [block["id"] for block in blocks if block["type"] == "tool_use"]
        fork._leaf, fork._above = self._leaf, self._above
        return fork

    def save(self) -> Path:
        folder = self.homes / "claude/projects" / str(self.cwd).replace("/", "-").replace(".", "-")
        file = folder / f"{self.id}.jsonl"
        self._said(self.at, {"type": "text", "text": "All done."})
        _save_lines(file, self._rows)
        for agent, rows in self._sides.items():
            beside = folder / self.id / "subagents" / f"agent-{agent}.jsonl"
            _save_lines(beside, rows)
            beside.with_suffix(".meta.json").write_text(json.dumps(self._metas[agent]))
        return file


class Codex(Agent):
    """Styles: 0, 1 calls the shell with apply_patch; 2, 3 has a tool of its own; else heredocs."""

    name = "codex"
    ends_lf = True

    def __init__(self, rng: random.Random, homes: Path, cwd: Path, began: datetime) -> None:
        super().__init__(rng, homes, cwd, began)
        self._rows: list[Row] = []
        meta = {
            "id": self.id,
            "timestamp": stamp(began),
            "cwd": str(cwd),
            "originator": "codex_cli_rs",
            "cli_version": "0.169.0" if self.style > 3 else "0.104.0",
            "source": "cli",
            "model_provider": "openai",
            "base_instructions": {"text": "You are a coding agent."},
            "git": {"branch": "main"},
        }
        self._row(began, "session_meta", meta)
        self._turn = ""

    def call_id(self) -> str:
        return f"call_{self.hex(24)}"

    def _row(self, at: datetime, kind: str, payload: Row) -> None:
        ordinal = {"ordinal": len(self._rows)} if self.style > 3 else {}
        row = {"timestamp": self.tick(at), **ordinal, "type": kind, "payload": payload}
        self._rows.append(row)

    def _message(self, at: datetime, role: str, text: str) -> None:
        part = "output_text" if role == "assistant" else "input_text"
        content = [{"type": part, "text": text}]
        self._row(at, "response_item", {"type": "message", "role": role, "content": content})

    def prompt(self, at: datetime, text: str) -> None:
        self.asked = (text,)
        self._turn = self.uuid()
        context = f"<environment_context>\n  <cwd>{self.cwd}</cwd>\n</environment_context>"
        if len(self._rows) == 1:
            self._message(at, "user", context)
        policy = {"approval_policy": "on-request", "sandbox_policy": {"type": "workspace-write"}}
        about = {"turn_id": self._turn, "cwd": str(self.cwd), "model": "gpt-5-codex", **policy}
        self._row(at, "turn_context", {**about, "effort": "medium", "summary": "auto"})
        self._message(at, "user", text)
        self._row(at, "event_msg", {"type": "user_message", "message": text, "kind": "plain"})

    def go_back(self, at: datetime) -> None:
        self._row(at, "event_msg", {"type": "thread_rolled_back", "num_turns": 1})

    def _tool(self, at: datetime, call: str, name: str, arguments: Row) -> None:
        self.calls.append(call)
        item = {"type": "function_call", "name": name, "arguments": json.dumps(arguments)}
        self._row(at, "response_item", {**item, "call_id": call})

    def _output(self, at: datetime, call: str, output: str, *, custom: bool = False) -> None:
        kind = "custom_tool_call_output" if custom else "function_call_output"
        item = {"type": kind, "call_id": call, "output": output}
        self._row(at + timedelta(seconds=1), "response_item", item)

    def _told(self, text: str, code: int) -> str:
        """The output of a command as this version gives it."""
        if self.style < 2:
            about = {"exit_code": code, "duration_seconds": 0.1}
            return json.dumps({"output": text, "metadata": about})
        if self.style < 4:
            return f"Exit code: {code}\nWall time: 0.1 seconds\nOutput:\n{text}"
        first = f"Chunk ID: {self.hex(6)}\nWall time: 0.1000 seconds\n"
        return f"{first}Process exited with code {code}\nOriginal token count: 9\nOutput:\n{text}"

    def read(self, at: datetime, file: Path, text: str) -> None:
        command = f"cat {shlex.quote(self.path(file))}"
        self.shell(at, self.call(), command, text)

    def shell(self, at: datetime, call: str, command: str, output: str = "") -> None:
        self._run(at, call, command)
        self._output(at, call, self._told(output, 0))

    def _run(self, at: datetime, call: str, command: str) -> None:
        if self.style < 4:
            given = {"command": ["bash", "-lc", command], "workdir": str(self.cwd)}
            self._tool(at, call, "shell", given)
        else:
            self._tool(at, call, "exec_command", {"cmd": command, "workdir": str(self.cwd)})

    def edit(self, at: datetime, call: str, edits: Sequence[Edit], outcome: Outcome) -> None:
        given = [
            (edit, self.path(edit.file), None if edit.target is None else self.path(edit.target))
            for edit in edits
        ]
        patch = patch_of(given)
        is_custom = self.style in (2, 3)
        if is_custom:
            self.calls.append(call)
            item = {"type": "custom_tool_call", "status": "completed", "call_id": call}
            self._row(at, "response_item", {**item, "name": "apply_patch", "input": patch})
        elif self.style < 2:
            argued = {"command": ["apply_patch", patch], "workdir": str(self.cwd)}
            self._tool(at, call, "shell", argued)
        else:
            self._run(at, call, f"apply_patch <<'PATCH'\n{patch}\nPATCH")
        if outcome == "open":
            return
        if outcome == "refused":
            self._output(at, call, "patch rejected by user", custom=is_custom)
            self._patched(at, call, edits, done=False)
            return
        if outcome == "failed":
            lines = "\n".join(edits[-1].pairs[-1].old.splitlines()[:3])
            said = "apply_patch verification failed: Failed to find expected lines in "
            said += f"{edits[-1].file}:\n{lines}"
            self._output(at, call, said if is_custom else self._told(said, 1), custom=is_custom)
            return
        marks = "".join(f"{_mark(edit)} {target or path}\n" for edit, path, target in given)
        said = f"Success. Updated the following files:\n{marks}"
        self._patched(at, call, edits, done=True)
        self._output(at, call, self._told(said, 0), custom=is_custom)

    def _patched(self, at: datetime, call: str, edits: Sequence[Edit], *, done: bool) -> None:
        """What Codex notes of a patch, in the form of its version."""
        changes = {str(edit.file): _change(edit) for edit in edits}
        status = "completed" if done else "declined"
        if self.style > 3:
            item = {"type": "FileChange", "id": call, "changes": changes, "status": status}
            event: Row = {"type": "item_completed", "turn_id": self._turn, "item": item}
        else:
            event = {"type": "patch_apply_end", "call_id": call, "turn_id": self._turn}
            event |= {"stdout": "", "stderr": "", "success": done}
            event |= {"changes": changes, "status": status}
        self._row(at, "event_msg", event)

    def write(self, at: datetime, call: str, edit: Edit, outcome: Outcome) -> None:
        text = edit.after or ""
        command = f"cat > {shlex.quote(self.path(edit.file))} <<'EOF'\n{text}EOF"
        self._run(at, call, command)
        if outcome == "refused":
            self._output(at, call, "exec command rejected by user")
        elif outcome != "open":
            self._output(at, call, self._told("", 0))

    def save(self) -> Path:
        self._message(self.at, "assistant", "All done.")
        day = self.began.strftime("%Y/%m/%d")
        name = f"rollout-{self.began.strftime('%Y-%m-%dT%H-%M-%S')}-{self.id}.jsonl"
        file = self.homes / "codex/sessions" / day / name
        _save_lines(file, self._rows)
        return file


def _mark(edit: Edit) -> str:
    return "A" if edit.before is None else "D" if edit.after is None else "M"


def _change(edit: Edit) -> Row:
    if edit.before is None:
        return {"type": "add", "content": edit.after}
    if edit.after is None:
        return {"type": "delete", "content": edit.before}
    target = None if edit.target is None else str(edit.target)
    diff = unified(edit.before, edit.after)
    return {"type": "update", "unified_diff": diff, "move_path": target}


class Pi(Agent):
    name = "pi"

    def __init__(self, rng: random.Random, homes: Path, cwd: Path, began: datetime) -> None:
        super().__init__(rng, homes, cwd, began)
        about = {"type": "session", "version": 3, "id": self.id, "timestamp": stamp(began)}
        self._rows: list[Row] = [{**about, "cwd": str(cwd)}]
        self._leaf: str | None = None
        self._above: str | None = None

    def call_id(self) -> str:
        return f"toolu_01{self.hex(22)}"

    def _message(self, at: datetime, message: Row) -> None:
        time = self.tick(at)
        at_ms = int(self.at.timestamp() * 1000)
        about = {"type": "message", "id": self.hex(8), "parentId": self._leaf, "timestamp": time}
        self._leaf = about["id"]
        self._rows.append({**about, "message": {**message, "timestamp": at_ms}})

    def go_back(self, at: datetime) -> None:
        self._leaf = self._above

    def prompt(self, at: datetime, text: str) -> None:
        self.asked = (text,)
        self._above = self._leaf
        content = [{"type": "text", "text": text}]
        self._message(at, {"role": "user", "content": content})

    def _said(self, at: datetime, block: Row, reason: str) -> None:
        cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
        usage = {"input": 7, "output": 3, "cacheRead": 2, "cacheWrite": 1, "totalTokens": 13}
        made = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-opus-4-6"}
        about = {**made, "usage": {**usage, "cost": cost}, "stopReason": reason}
        self._message(at, {"role": "assistant", "content": [block], **about})

    def _called(self, at: datetime, call: str, tool: str, given: Row) -> None:
        self.calls.append(call)
        block = {"type": "toolCall", "id": call, "name": tool, "arguments": given}
        self._said(at, block, "toolUse")

    def _result(
        self, at: datetime, call: str, tool: str, text: str, details: Any, failed: bool = False
    ) -> None:
        message: Row = {"role": "toolResult", "toolCallId": call, "toolName": tool}
        message |= {"content": [{"type": "text", "text": text}], "isError": failed}
        message |= {} if details is None else {"details": details}
        self._message(at + timedelta(seconds=1), message)

    def _ended(self, at: datetime, call: str, tool: str, outcome: Outcome) -> bool:
        if outcome == "refused":
            self._result(at, call, tool, "Blocked by user", {}, failed=True)
        return outcome in ("refused", "open")

    def read(self, at: datetime, file: Path, text: str) -> None:
        call = self.call()
        self._called(at, call, "read", {"path": self.path(file)})
        self._result(at, call, "read", text, None)

    def edit(self, at: datetime, call: str, edits: Sequence[Edit], outcome: Outcome) -> None:
        (edit,) = edits
        path = self.path(edit.file)
        given: Row = {"path": path}
        if len(edit.pairs) == 1 and self.style % 2:
            given |= {"oldText": edit.pairs[0].old, "newText": edit.pairs[0].new}
        else:
            given["edits"] = [{"oldText": old, "newText": new} for old, new in edit.pairs]
        self._called(at, call, "edit", given)
        if self._ended(at, call, "edit", outcome):
            return
        if outcome == "failed":
            said = f"Could not find the exact text in {path}. The old text must match exactly "
            said += "including all whitespace and newlines."
            self._result(at, call, "edit", said, {}, failed=True)
            return
        said = f"Successfully replaced {len(edit.pairs)} block(s) in {path}."
        details = {"diff": numbered_diff(edit.before or "", edit.after or "")}
        self._result(at, call, "edit", said, details)

    def write(self, at: datetime, call: str, edit: Edit, outcome: Outcome) -> None:
        path, text = self.path(edit.file), edit.after or ""
        self._called(at, call, "write", {"path": path, "content": text})
        if not self._ended(at, call, "write", outcome):
            said = f"Successfully wrote {len(text)} bytes to {path}"
            self._result(at, call, "write", said, None)

    def shell(self, at: datetime, call: str, command: str, output: str = "") -> None:
        self._called(at, call, "bash", {"command": command})
        self._result(at, call, "bash", output or "(no output)", None)

    def save(self) -> Path:
        self._said(self.at, {"type": "text", "text": "All done."}, "stop")
        folder = f"--{str(self.cwd).strip('/').replace('/', '-')}--"
        time = stamp(self.began).replace(":", "-").replace(".", "-")
        file = self.homes / "pi/sessions" / folder / f"{time}_{self.id}.jsonl"
        _save_lines(file, self._rows)
        return file


class Gemini(Agent):
    """Styles: 0, 1 is the older document; else a log."""

    name = "gemini"

    def __init__(self, rng: random.Random, homes: Path, cwd: Path, began: datetime) -> None:
        super().__init__(rng, homes, cwd, began)
        self._rows: list[Row] = []
        self._prompt = ""

    @property
    def _is_document(self) -> bool:
        return self.style < 2

    def call_id(self) -> str:
        return f"replace__replace_{self.hex(12)}_{self._count}"

    def path(self, file: Path) -> str:
        """The older document does not name its folder, so no path in it is relative."""
        return str(file) if self._is_document else super().path(file)

    def word(self, file: Path) -> str:
        return shlex.quote(str(file)) if self._is_document else super().word(file)

    def _message(self, at: datetime, kind: str, content: Any, **more: Any) -> Row:
        about = {"id": self.uuid(), "timestamp": self.tick(at), "type": kind}
        row = {**about, "content": content, **more}
        self._rows.append(row)
        self._updated()
        return row

    def go_back(self, at: datetime) -> None:
        if not self._is_document:
            self._rows.append({"$rewindTo": self._prompt})

    def _updated(self) -> None:
        if not self._is_document:
            self._rows.append({"$set": {"lastUpdated": stamp(self.at)}})

    def prompt(self, at: datetime, text: str) -> None:
        self.asked = (text,)
        row = self._message(at, "user", text if self._is_document else [{"text": text}])
        self._prompt = row["id"]

    def _said(self, at: datetime, text: str = "") -> Row:
        tokens = {"input": 10, "output": 5, "cached": 3, "thoughts": 2, "tool": 0, "total": 15}
        more = {"thoughts": [], "tokens": tokens, "model": "gemini-2.5-pro"}
        return self._message(at, "gemini", text, **more)

    def _called(
        self, at: datetime, call: str, tool: str, given: Row, text: str, status: str, shown: Any
    ) -> None:
        self.calls.append(call)
        key = "output" if status == "success" else "error"
        response = {"id": call, "name": tool, "response": {key: text}}
        parts = [{"functionResponse": response}]
        said = self._said(at)
        at += timedelta(seconds=1)
        made: Row = {"id": call, "name": tool, "args": given, "result": parts, "status": status}
        made |= {"timestamp": self.tick(at), "resultDisplay": shown, "displayName": tool}
        made |= {"description": "", "renderOutputAsMarkdown": True}
        if self._is_document:
            said["toolCalls"] = [made]
            return
        self._rows.append({**said, "toolCalls": [made]})
        self._message(at, "user", parts)

    def read(self, at: datetime, file: Path, text: str) -> None:
        path = self.path(file)
        given = {"file_path": path}
        self._called(at, self.call(), "read_file", given, text, "success", "")

    def _shown(self, edit: Edit) -> Row:
        before, after = edit.before or "", edit.after or ""
        name = edit.file.name
        head = f"Index: {name}\n{'=' * 67}\n--- {name}\tCurrent\n+++ {name}\tProposed\n"
        about = {"fileName": name, "filePath": str(edit.file)}
        texts = {"originalContent": edit.before, "newContent": after}
        is_new = {"isNewFile": edit.before is None}
        return {"fileDiff": head + unified(before, after), **about, **texts, **is_new}

    def _refused(self, at: datetime, call: str, tool: str, given: Row, edit: Edit) -> None:
        said = "[Operation Cancelled] Reason: User did not allow tool call"
        self._called(at, call, tool, given, said, "cancelled", self._shown(edit))

    def edit(self, at: datetime, call: str, edits: Sequence[Edit], outcome: Outcome) -> None:
        (edit,) = edits
        (pair,) = edit.pairs
        path = self.path(edit.file)
        given: Row = {"file_path": path, "old_string": pair.old, "new_string": pair.new}
        count = (edit.before or "").count(pair.old)
        if edit.every and count > 1:
            given |= {"expected_replacements": count} if self.style % 2 else {}
            given |= {} if self.style % 2 else {"allow_multiple": True}
        if outcome == "refused":
            self._refused(at, call, "replace", given, edit)
        elif outcome == "failed":
            said = f"Failed to edit, 0 occurrences found for old_string in {path}. Original "
            said += "old_string was not found. No edits made."
            shown = "Error: Failed to edit, could not find the string to replace."
            self._called(at, call, "replace", given, said, "error", shown)
        elif outcome == "open":
            self._said(at)
        else:
            said = f"Successfully modified file: {path} ({count} replacements)."
            self._called(at, call, "replace", given, said, "success", self._shown(edit))

    def write(self, at: datetime, call: str, edit: Edit, outcome: Outcome) -> None:
        path = self.path(edit.file)
        given = {"file_path": path, "content": edit.after or ""}
        if outcome == "refused":
            self._refused(at, call, "write_file", given, edit)
        elif outcome == "done":
            is_new = edit.before is None
            kind = "created and wrote to new file" if is_new else "overwrote file"
            said = f"Successfully {kind}: {path}."
            self._called(at, call, "write_file", given, said, "success", self._shown(edit))

    def shell(self, at: datetime, call: str, command: str, output: str = "") -> None:
        given = {"command": command, "description": "Run a command"}
        shown = output or "(empty)"
        said = f"Command: {command}\nDirectory: (root)\nOutput: {shown}\nExit Code: 0"
        self._called(at, call, "run_shell_command", given, said, "success", output)

    def save(self) -> Path:
        self._said(self.at, "All done.")
        digest = hashlib.sha256(str(self.cwd).encode()).hexdigest()
        about = {"sessionId": self.id, "projectHash": digest, "startTime": stamp(self.began)}
        about |= {"lastUpdated": stamp(self.at)}
        name = f"session-{self.began.strftime('%Y-%m-%dT%H-%M')}-{self.id[:8]}"
        if self._is_document:
            file = self.homes / "gemini/.gemini/tmp" / digest / "chats" / f"{name}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            document = {**about, "messages": self._rows}
            file.write_text(json.dumps(document, indent=2, ensure_ascii=False))
            return file
        project = self.homes / "gemini/.gemini/tmp" / f"{self.cwd.name}-{digest[:6]}"
        file = project / "chats" / f"{name}.jsonl"
        _save_lines(file, [{**about, "kind": "main"}, *self._rows])
        (project / ".project_root").write_text(str(self.cwd))
        return file


def _save_lines(file: Path, rows: Sequence[Row]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
    file.write_text("".join(f"{line}\n" for line in lines))


AGENTS: tuple[type[Agent], ...] = (ClaudeCode, Codex, Pi, Gemini)


def environment(homes: Path) -> dict[str, str]:
    """The variables by which the homes of the agents are found."""
    return {
        "HOME": str(homes / "user"),
        "XDG_CACHE_HOME": str(homes / "user/cache"),
        "XDG_DATA_HOME": str(homes / "user/data"),
        "CLAUDE_CONFIG_DIR": str(homes / "claude"),
        "CODEX_HOME": str(homes / "codex"),
        "PI_CODING_AGENT_DIR": str(homes / "pi"),
        "GEMINI_CLI_HOME": str(homes / "gemini"),
    }
