"""One short session of each agent, with any id: also one that cannot be the name of a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

TIME: Final = "2026-11-22T09:23:02.033Z"
PROMPT: Final = "sort the imports"

BAD_IDS: Final = {
    "nul": "x\0y",
    "slash": "a/b",
    "upwards": "../../../../../../etc/passwd",
    "absolute": "/etc",
    "dot": ".",
    "dots": "..",
    "long": "x" * 10_000,
    "wide": "\u00e9" * 200,
    "half a character": "\ud800",
    "lines": "a\nb",
    "empty": "",
}
"""Ids that no file can be named after, or only a file somewhere else."""


def _of_claude_code(id: str, cwd: str) -> list[dict[str, Any]]:
    same = {"sessionId": id, "cwd": cwd, "version": "2.1.0", "timestamp": TIME}
    uuids = [f"aaaaaaaa-0000-4000-8000-00000000000{n}" for n in range(3)]
    call = {"type": "tool_use", "id": "call", "name": "Bash", "input": {"command": "ls"}}
    path = f"/x/tool-results/{id}"
    said: list[dict[str, Any]] = [
        {"type": "user", "message": {"role": "user", "content": PROMPT}},
        {"type": "assistant", "message": {"id": "m", "role": "assistant", "content": [call]}},
        {
            "type": "user",
            "message": {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "call",
                        "content": f"<persisted-output>\nFull output saved to: {path}\n"
                        "</persisted-output>",
                    }
                ],
            },
            "toolUseResult": {"persistedOutputPath": path, "stdout": "hi"},
        },
    ]
    return [
        {**line, **same, "uuid": uuids[n], "parentUuid": uuids[n - 1] if n else None}
        for n, line in enumerate(said)
    ]


def _of_codex(id: str, cwd: str) -> list[dict[str, Any]]:
    payloads: list[tuple[str, dict[str, Any]]] = [
        ("session_meta", {"id": id, "timestamp": TIME, "cwd": cwd, "cli_version": "0.169.0"}),
        (
            "response_item",
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": PROMPT}],
            },
        ),
        ("event_msg", {"type": "user_message", "message": PROMPT}),
    ]
    return [{"timestamp": TIME, "type": kind, "payload": each} for kind, each in payloads]


def _of_gemini(id: str, cwd: str) -> list[dict[str, Any]]:
    return [
        {"sessionId": id, "projectHash": "0", "startTime": TIME, "lastUpdated": TIME},
        {"id": "m1", "timestamp": TIME, "type": "user", "content": [{"text": PROMPT}]},
        {"id": "m2", "timestamp": TIME, "type": "gemini", "content": "done", "model": "g"},
    ]


def _of_pi(id: str, cwd: str) -> list[dict[str, Any]]:
    said = {"role": "user", "content": PROMPT}
    return [
        {"type": "session", "version": 3, "id": id, "timestamp": TIME, "cwd": cwd},
        {"type": "message", "id": "a1", "parentId": None, "timestamp": TIME, "message": said},
    ]


_MADE: Final[dict[str, tuple[str, Callable[[str, str], list[dict[str, Any]]]]]] = {
    "claude-code": (".claude/projects/-p/{name}.jsonl", _of_claude_code),
    "codex": (
        ".codex/sessions/2026/11/22/rollout-2026-11-22T09-23-02-0199aaaa-0000-7000-8000-"
        "{number:012x}.jsonl",
        _of_codex,
    ),
    "gemini": (".gemini/tmp/p/chats/session-2026-11-22T09-23-{number:08x}.jsonl", _of_gemini),
    "pi": (".pi/agent/sessions/--p--/2026-11-22T09-23-02-033Z_{name}.jsonl", _of_pi),
}

AGENTS: Final = tuple(_MADE)


def foreign_session(home: Path, agent: str, id: str, cwd: str, number: int = 1) -> Path:
    """Write a session where an agent keeps its own; `number` tells the file from others."""
    place, lines = _MADE[agent]
    file = home / place.format(name=f"evil-{number}", number=number)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines(id, cwd)))
    return file
