"""Makes `fixtures/agents/{crush,goose,openclaw}`: `python -m tests.agents.database_samples`.

The databases are written as the programs write them, with the columns that their published sources
have: a session with thinking, a call that fails, an edit and a compaction, and one that it started.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

SAMPLES: Final = Path(__file__).parents[2] / "fixtures" / "agents"
AT: Final = 1_795_251_600
"""The start of the sessions, in seconds since 1970: 2026-11-21 at nine."""

PROMPT: Final = "Why do our retries hammer the API? Fix the notes."
THOUGHT: Final = "I should look at the notes first."
OLD: Final = "# Notes\nRetries hammer the API.\n"
NEW: Final = "# Notes\nRetries wait twice as long each time.\n"
NOTES: Final = "/home/user/project/notes.md"

Row = Mapping[str, Any]

CRUSH: Final = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, parent_session_id TEXT, title TEXT NOT NULL,
  message_count INTEGER NOT NULL DEFAULT 0, prompt_tokens INTEGER NOT NULL DEFAULT 0,
  completion_tokens INTEGER NOT NULL DEFAULT 0, cost REAL NOT NULL DEFAULT 0.0,
  updated_at INTEGER NOT NULL, created_at INTEGER NOT NULL, summary_message_id TEXT, todos TEXT);
CREATE TABLE messages (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, role TEXT NOT NULL,
  parts TEXT NOT NULL DEFAULT '[]', model TEXT, created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL, finished_at INTEGER, provider TEXT,
  is_summary_message INTEGER NOT NULL DEFAULT 0);
"""
GOOSE: Final = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '',
  description TEXT NOT NULL DEFAULT '', user_set_name BOOLEAN DEFAULT FALSE,
  session_type TEXT NOT NULL DEFAULT 'user', working_dir TEXT NOT NULL, created_at TIMESTAMP,
  updated_at TIMESTAMP, extension_data TEXT DEFAULT '{}', accumulated_total_tokens INTEGER,
  accumulated_input_tokens INTEGER, accumulated_output_tokens INTEGER, provider_name TEXT,
  model_config_json TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT,
  session_id TEXT NOT NULL, role TEXT NOT NULL, content_json TEXT NOT NULL,
  created_timestamp INTEGER NOT NULL, timestamp TIMESTAMP, tokens INTEGER, metadata_json TEXT);
"""
OPENCLAW: Final = """
CREATE TABLE transcript_events (session_id TEXT NOT NULL, seq INTEGER NOT NULL, event_json TEXT,
  created_at INTEGER NOT NULL, event_zstd BLOB, event_utf8_bytes INTEGER, navigation_json TEXT,
  PRIMARY KEY (session_id, seq)) STRICT;
"""


def insert(rows: sqlite3.Connection, table: str, row: Row) -> None:
    """Add a row; lists and objects are stored as JSON."""
    values = [json.dumps(v) if isinstance(v, list | dict) else v for v in row.values()]
    marks = ", ".join("?" * len(row))
    rows.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", values)


def crush_messages() -> Iterable[Row]:
    def part(kind: str, **data: Any) -> Row:
        return {"type": kind, "data": data}

    def message(id: int, role: str, *parts: Row, **more: Any) -> Row:
        return {
            "id": f"{id:08x}-0000-4000-8000-000000000000",
            "session_id": "c1",
            "role": role,
            "parts": list(parts),
            "created_at": AT + id,
            "updated_at": AT + id,
            **more,
        }

    def result(id: str, name: str, content: str, **more: Any) -> Row:
        told = {"tool_call_id": id, "name": name, "content": content, "data": "", "metadata": ""}
        return part("tool_result", **{**told, "is_error": False, **more})

    changed = json.dumps({"additions": 1, "removals": 1, "old_content": OLD, "new_content": NEW})
    model: dict[str, Any] = {"model": "fake-1", "provider": "fake"}
    view = json.dumps({"file_path": NOTES})
    edit = json.dumps(
        {"file_path": NOTES, "old_string": "hammer the API", "new_string": "wait twice as long"}
    )
    yield message(1, "user", part("text", text=PROMPT), part("finish", reason="stop", time=0))
    yield message(
        *(2, "assistant", part("reasoning", thinking=THOUGHT, signature="")),
        *(
            part("text", text="I read the notes."),
            part("tool_call", id="t1", name="view", input=view),
        ),
        part("tool_call", id="t2", name="bash", input='{"command":"exit 3"}', finished=True),
        part("finish", reason="tool_use", time=AT + 2),
        **model,
    )
    failed = result("t2", "bash", "Exit code 3", is_error=True)
    yield message(3, "tool", result("t1", "view", OLD), failed)
    call = part("tool_call", id="t3", name="edit", input=edit, finished=True)
    yield message(4, "assistant", call, part("finish", reason="tool_use", time=AT + 4), **model)
    yield message(5, "tool", result("t3", "edit", "Edited.", metadata=changed))
    stop = part("finish", reason="end_turn", time=AT + 6)
    yield message(6, "assistant", part("text", text="The notes say so."), stop, **model)
    summary = part("text", text="We fixed the notes."), stop
    yield message(7, "assistant", *summary, is_summary_message=1, **model)
    yield message(8, "user", part("text", text="How would you test it?"))
    stopped = part("finish", reason="canceled", time=AT + 9, message="Request cancelled")
    yield message(9, "assistant", part("text", text="With"), stopped, **model)


def crush(rows: sqlite3.Connection) -> None:
    about = {"message_count": 9, "prompt_tokens": 1201, "completion_tokens": 35, "cost": 0.0125}
    times = {"created_at": AT, "updated_at": AT + 9}
    insert(rows, "sessions", {"id": "c1", "title": "Notes about retries", **about, **times})
    child = {"id": "c1$$t9", "parent_session_id": "c1", "title": "Count lines", **times}
    insert(rows, "sessions", child)
    for row in crush_messages():
        insert(rows, "messages", row)
    asked = {
        "id": "m20",
        "session_id": "c1$$t9",
        "role": "user",
        "created_at": AT,
        "updated_at": AT,
    }
    said = [{"type": "text", "data": {"text": "Count the lines."}}]
    insert(rows, "messages", {**asked, "parts": said})


def goose_messages() -> Iterable[Row]:
    def asked(id: str, name: str, **arguments: Any) -> Row:
        call = {"name": name, "arguments": arguments}
        return {"type": "toolRequest", "id": id, "toolCall": {"status": "success", "value": call}}

    def answered(id: str, text: str, **more: Any) -> Row:
        value = {"content": [{"type": "text", "text": text}], "isError": False, **more}
        return {
            "type": "toolResponse",
            "id": id,
            "toolResult": {"status": "success", "value": value},
        }

    def message(number: int, role: str, *parts: Row, user: bool = True, agent: bool = True) -> Row:
        return {
            "message_id": f"msg_{number}",
            "session_id": "20261121_1",
            "role": role,
            "content_json": list(parts),
            "created_timestamp": AT + number,
            "timestamp": f"2026-11-21 09:00:{number:02d}",
            "metadata_json": {"userVisible": user, "agentVisible": agent},
        }

    def text(words: str) -> Row:
        return {"type": "text", "text": words}

    thought = {"type": "thinking", "thinking": THOUGHT, "signature": ""}
    view = asked("t1", "developer__text_editor", command="view", path=NOTES)
    fails = asked("t2", "developer__shell", command="exit 3")
    old, new = "Retries hammer the API.", "Retries wait twice as long each time."
    edit = asked(
        "t3", "developer__text_editor", command="str_replace", path=NOTES, old_str=old, new_str=new
    )
    error = {"status": "error", "error": "The command failed: exit code 3"}
    failed = {"type": "toolResponse", "id": "t2", "toolResult": error}
    yield message(1, "user", text(PROMPT), agent=False)
    yield message(2, "assistant", thought, text("I read them."), view, fails, agent=False)
    yield message(3, "user", answered("t1", OLD), failed, agent=False)
    yield message(4, "assistant", edit, agent=False)
    yield message(5, "user", answered("t3", "Edited."), agent=False)
    yield message(6, "assistant", text("The notes say so."), agent=False)
    yield message(7, "user", text("We fixed the notes."), user=False)
    yield message(8, "assistant", text("I go on from the summary."), user=False)
    yield message(9, "user", text("How would you test it?"))
    yield message(10, "assistant", text("With fake clocks."))


def goose(rows: sqlite3.Connection) -> None:
    session = {
        "id": "20261121_1",
        "name": "Notes about retries",
        "user_set_name": False,
        "working_dir": "/home/user/project",
        "created_at": "2026-11-21 09:00:00",
        "updated_at": "2026-11-21 09:00:10",
        "accumulated_total_tokens": 1306,
        "accumulated_input_tokens": 1200,
        "accumulated_output_tokens": 106,
        "provider_name": "openai",
        "model_config_json": {"model_name": "fake-1"},
    }
    insert(rows, "sessions", session)
    for row in goose_messages():
        insert(rows, "messages", row)


def openclaw_events() -> Iterable[Row]:
    def at(second: int) -> str:
        return f"2026-11-21T09:00:{second:02d}.000Z"

    above: str | None = None

    def entry(second: int, kind: str, **fields: Any) -> Row:
        nonlocal above
        id, parent = f"{second:08x}-0000-4000-8000-000000000000", above
        above = id
        return {"type": kind, "id": id, "parentId": parent, "timestamp": at(second), **fields}

    def text(words: str) -> Row:
        return {"type": "text", "text": words}

    def said(second: int, role: str, content: Any, **more: Any) -> Row:
        return entry(second, "message", message={"role": role, "content": content, **more})

    usage = {"input": 200, "output": 34, "cacheRead": 1000, "cacheWrite": 0, "totalTokens": 1234}
    answer = {"provider": "fake", "model": "fake-1", "usage": {**usage, "cost": {"total": 0.0004}}}
    call = {"type": "toolCall", "id": "t1", "name": "read", "arguments": {"path": NOTES}}
    yield {
        "type": "session",
        "version": 4,
        "id": "notes-1",
        "timestamp": at(0),
        "cwd": "/home/user",
    }
    yield entry(1, "model_change", provider="fake", modelId="fake-1")
    yield said(2, "user", PROMPT)
    yield said(3, "assistant", [text("I read the notes."), call], stopReason="toolUse", **answer)
    yield said(4, "toolResult", [text(OLD)], toolCallId="t1", toolName="read", isError=False)
    yield said(5, "assistant", [text("They say so.")], stopReason="stop", **answer)
    yield entry(6, "custom", customType="openclaw:bootstrap-context:full", data={"runId": "r"})


def openclaw(rows: sqlite3.Connection) -> None:
    for seq, event in enumerate(openclaw_events()):
        row = {"session_id": "notes-1", "seq": seq, "event_json": dict(event)}
        insert(rows, "transcript_events", {**row, "created_at": (AT + seq) * 1000})


def made(file: Path, schema: str, fill: Any) -> Path:
    """A database with a schema and what a function writes into it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(file)) as rows:
        rows.executescript(schema)
        fill(rows)
        rows.commit()
    return file


def main() -> None:
    for name in ("crush", "goose", "openclaw"):
        shutil.rmtree(SAMPLES / name, ignore_errors=True)
    made(SAMPLES / "crush/0.66/crush.db", CRUSH, crush)
    made(SAMPLES / "goose/9/sessions.db", GOOSE, goose)
    made(SAMPLES / "openclaw/2026.9.6/openclaw-agent.sqlite", OPENCLAW, openclaw)
    sys.stdout.write(f"{SAMPLES}\n")


if __name__ == "__main__":
    main()
