"""A small agent that speaks the Agent Client Protocol, well or in one of several wrong ways.

`python -m tests.importing.acp_agent HOW`: it has one session, or what the environment variable
ACP_UPDATES has as a list of updates.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

ID = "acp-1"


def text(kind: str, said: str, **more: Any) -> dict[str, Any]:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": said}, **more}


UPDATES: list[dict[str, Any]] = [
    text("user_message_chunk", "Fix "),
    text("user_message_chunk", "the notes."),
    text("agent_thought_chunk", "I read them."),
    text("agent_message_chunk", "I look."),
    {
        "sessionUpdate": "tool_call",
        "toolCallId": "c1",
        "title": "Read notes.md",
        "kind": "read",
        "status": "pending",
        "rawInput": {"path": "notes.md"},
    },
    {
        "sessionUpdate": "tool_call",
        "toolCallId": "c2",
        "title": "ls",
        "kind": "execute",
        "status": "pending",
    },
    {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "c1",
        "status": "completed",
        "content": [{"type": "content", "content": {"type": "text", "text": "Retries."}}],
    },
    {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "c2",
        "status": "failed",
        "rawOutput": {"content": "no such command"},
    },
    {"sessionUpdate": "plan", "entries": [{"content": "fix", "status": "pending"}]},
    text("agent_message_chunk", "Done."),
    {"sessionUpdate": "available_commands_update", "availableCommands": []},
    text("user_message_chunk", "How would you test it?"),
    text("agent_message_chunk", "With a clock."),
]


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def main(how: str) -> None:
    sys.stderr.write("a word on the standard error\n")
    if how == "garbage":
        sys.stdout.write("Welcome to the agent\n")
    while how == "flood":
        sys.stdout.write("not a message\n")
    for line in sys.stdin:
        asked = json.loads(line)
        if "method" in asked:
            answer(how, asked["method"], asked["id"], asked.get("params", {}))
        elif how == "asks-files":
            assert asked["error"]["code"] == -32601


def answer(how: str, method: str, id: int, params: dict[str, Any]) -> None:
    if how == f"silent at {method}":
        time.sleep(3600)
    if how == f"dies at {method}":
        sys.exit(3)
    if how == f"refuses {method}":
        say(id=id, error={"code": -32000, "message": "Authentication required"})
    elif method == "initialize":
        can: dict[str, Any] = {} if how == "no-list" else {"sessionCapabilities": {"list": {}}}
        about = {"agentInfo": {"name": "tiny", "version": "7"}}
        able = {"agentCapabilities": {"loadSession": how != "no-load", **can}}
        version = 9 if how == "version" else params["protocolVersion"]
        say(id=id, result={"protocolVersion": version, **about, **able})
    elif method == "session/list" and how == "pages" and "cursor" not in params:
        say(id=id, result={"sessions": [{"sessionId": "other"}, 7], "nextCursor": "2"})
    elif method == "session/list":
        one = {"sessionId": ID, "cwd": os.getcwd(), "title": "The notes"}
        say(id=id, result={"sessions": [{**one, "updatedAt": "2026-01-02T03:04:05Z"}]})
    elif method == "session/load":
        load(how, id, params)


def load(how: str, id: int, params: dict[str, Any]) -> None:
    if how == "asks-permission":
        asked = {"sessionId": ID, "toolCall": {"title": "rm -rf"}, "options": []}
        say(id=90, method="session/request_permission", params=asked)
        return
    if how == "asks-files":
        say(id=91, method="fs/read_text_file", params={"sessionId": ID, "path": "/etc/passwd"})
    while how == "endless":
        say(method="session/update", params={"sessionId": ID, "update": UPDATES[0]})
    updates = json.loads(os.environ.get("ACP_UPDATES", "null")) or UPDATES
    for update in updates:
        found = {"sessionId": params["sessionId"], "update": update}
        say(method="session/update", params=found)
    say(method="session/update", params={"sessionId": "another", "update": UPDATES[0]})
    say(id=id, result={})


if __name__ == "__main__":
    main(sys.argv[1])
