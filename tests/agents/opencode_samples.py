"""Makes `fixtures/agents/kilo`: `OPENCODE=… python -m tests.agents.opencode_samples`.

`OPENCODE` is the program of Kilo CLI, or of OpenCode, which play the same and make the same tables.
It plays a session with parallel calls, one of which fails, an edit and a subagent; and a fork of
it with an image and a summary. Long texts and paths are replaced, and only the tables of sessions
are kept. `sent.json` has, for each session, the messages of the last request that was sent for it.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from sessiontree import Session
from tests.agents.cleaning import cleaned
from tests.agents.opencode_driver import PROGRAM, OpenCode, running
from tests.agents.qwen_driver import Json, call, text
from tests.agents.qwen_samples import SHOWN, Told, joined, read, sent
from tests.support.saying import IMAGE

SAMPLES: Final = Path(__file__).parents[2] / "fixtures" / "agents"
PROMPT: Final = "Why do our retries hammer the API? Fix the notes."
SUMMARY: Final = "A summary of the notes."
AT: Final = 1_795_281_442_413
"""When the sample begins, in milliseconds since 1970: screens show the samples by their times."""

Ask = Callable[..., Any]


def played(opencode: OpenCode, ask: Ask) -> dict[str, str]:
    """The ids of the sessions by their names."""
    notes = opencode.project / "notes.md"
    notes.write_text("# Notes\nRetries hammer the API.\n")
    look = [call("read", filePath=str(notes)), call("read", filePath="/none.md")]
    look.append(call("bash", command="echo two; exit 3", description="Say two"))
    edit = call("edit", filePath=str(notes), oldString="hammer", newString="wait for")
    first = ask("/session", {})["id"]
    opencode.answers.extend([[text("I read them."), *look], [text("I edit."), edit]])
    prompt(ask, first, text(PROMPT))
    task = {"description": "Count lines", "prompt": "Count the lines of the notes."}
    count = call("task", subagent_type="general", **task)
    opencode.answers.extend([[count], [text("The notes have two lines.")]])
    prompt(ask, first, text("How many lines are there?"))
    (child,) = (one["id"] for one in ask("/session") if one.get("parentID") == first)
    fork = ask(f"/session/{first}/fork", {})["id"]
    url = f"data:{IMAGE['mimeType']};base64,{IMAGE['data']}"
    image = {"type": "file", "mime": IMAGE["mimeType"], "filename": "a.png", "url": url}
    prompt(ask, fork, text("Say it in German."), image)
    ask(f"/session/{fork}/summarize", {"providerID": "fake", "modelID": "fake-1"})
    prompt(ask, fork, text("And now?"))
    return {"first": first, "child": child, "fork": fork}


def prompt(ask: Ask, id: str, *parts: Json) -> None:
    ask(f"/session/{id}/message", {"parts": list(parts)})


def sent_of(requests: Iterable[list[Json]], last: tuple[str, list[Any]]) -> Told:
    """The last request that ends with a message; a summary is the user's, as in a context."""
    told = list(map(sent, requests))
    found = next(one for one in reversed(told) if _as_read(one)[-1] == last)
    return _as_read(found)


def _as_read(told: Told) -> Told:
    made: Told = []
    for role, said in told:
        if made and made[-1] == ("user", [SUMMARY_IS_ASKED]):
            made[-1] = ("user", said)
        else:
            made.append((role, said))
    return joined(made)


SUMMARY_IS_ASKED: Final = "What did we do so far?"
"""The user's message that OpenCode sends before a summary."""


def told_in(export: Json) -> list[Any]:
    """What an export of OpenCode says, in its order: prompts, answers, results and summaries."""
    return [told for message in export["messages"] for told in _told(message)]


def _told(message: Json) -> Iterator[Any]:
    about, parts = message["info"], message["parts"]
    kinds = [part["type"] for part in parts]
    texts = [part["text"] for part in parts if part["type"] == "text"]
    if about["role"] == "user":
        images = kinds.count("file") * [None]
        if "compaction" not in kinds:
            yield "user", texts + images
        return
    if about.get("summary"):
        yield "summary", "\n".join(texts), _tokens(about)
        return
    tools = [part for part in parts if part["type"] == "tool"]
    calls = [(part["callID"], part["tool"], part["state"]["input"]) for part in tools]
    if parts:
        yield "assistant", texts, calls, about["modelID"], _tokens(about)
    for part in tools:
        state = part["state"]
        if state["status"] in ("completed", "error"):
            failed = state["status"] == "error" or state.get("metadata", {}).get("exit")
            yield "tool", part["callID"], state.get("output", state.get("error")), bool(failed)


def _tokens(about: Json) -> list[float]:
    tokens, cache = about["tokens"], about["tokens"]["cache"]
    output = tokens["output"] + tokens["reasoning"]
    return [tokens["input"], output, cache["read"], cache["write"], about["cost"]]


def told_by(session: Session) -> list[Any]:
    """The same of a session as sessiontree reads it."""
    entries = (entry.as_stored for entry in session.entries())
    return [told for entry in entries if (told := _told_by(entry)) is not None]


def _told_by(entry: Mapping[str, Any]) -> Any:
    if entry["type"] == "compaction":
        return "summary", entry["summary"], _used(entry)
    if entry["type"] != "message":
        return None
    message = entry["message"]
    blocks = message["content"]
    if message["role"] == "user":
        return "user", [block.get("text") for block in blocks]
    if message["role"] == "toolResult":
        return "tool", message["toolCallId"], blocks[0]["text"], message["isError"]
    calls = [block for block in blocks if block["type"] == "toolCall"]
    told = [(block["id"], block["name"], block["arguments"]) for block in calls]
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    return "assistant", texts, told, message["model"], _used(message)


def _used(about: Mapping[str, Any]) -> list[float]:
    usage = about.get("usage", {})
    keys = ("input", "output", "cacheRead", "cacheWrite")
    return [*(usage.get(key, 0) for key in keys), usage.get("cost", {}).get("total", 0)]


def write(opencode: OpenCode, ids: Mapping[str, str], requests: Mapping[str, Told]) -> Path:
    """Write the database, and what was sent; the folder with both."""
    folder = str(opencode.home)
    with closing(sqlite3.connect(opencode.database)) as rows:
        rows.execute("PRAGMA journal_mode=DELETE")
        version, begun = rows.execute(
            "SELECT version, time_created FROM session WHERE id = ?", (ids["first"],)
        ).fetchone()
        _keep_tables(rows)
        for table in _TABLES:
            _clean(rows, table, folder, AT - begun)
        rows.commit()
        rows.execute("VACUUM")
    target = SAMPLES / opencode.name / str(version)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    shutil.copy(opencode.database, target)
    told = {ids[name]: said for name, said in requests.items()}
    shown = json.dumps(_shown(json.loads(json.dumps(told)), folder))
    (target / "sent.json").write_text(f"{shown}\n")
    return target


_TABLES: Final = ("session", "message", "part")


def _keep_tables(rows: sqlite3.Connection) -> None:
    """Remove all other tables, and what the programs do when rows change."""
    kept = rows.execute("SELECT type, name, tbl_name FROM sqlite_master").fetchall()
    for kind, name, table in kept:
        if table not in _TABLES and kind == "table" and not name.startswith("sqlite_"):
            rows.execute(f'DROP TABLE "{name}"')
        elif kind == "trigger":
            rows.execute(f'DROP TRIGGER IF EXISTS "{name}"')


def _clean(rows: sqlite3.Connection, table: str, folder: str, later: int) -> None:
    """Replace long texts and paths in a table, and move its times."""
    rows.row_factory = sqlite3.Row
    for row in rows.execute(f"SELECT * FROM {table}").fetchall():
        made = {key: _cleaned(key, row[key], folder, later) for key in row.keys()}  # noqa: SIM118
        names = ", ".join(f"{key} = :{key}" for key in made)
        rows.execute(f"UPDATE {table} SET {names} WHERE id = :id", made)


def _cleaned(key: str, value: Any, folder: str, later: int) -> Any:
    if key.startswith("time_") and value is not None:
        return value + later
    if not isinstance(value, str):
        return value
    if not value.startswith(("{", "[")):
        return _shown(value, folder)
    body = _shown(_moved(json.loads(value), later), folder)
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False)


def _shown(value: Any, folder: str) -> Any:
    """A value with long texts cut, and another folder; some paths lack their first slash."""
    return cleaned(cleaned(value, folder, SHOWN), folder[1:], SHOWN[1:])


def _moved(value: Any, later: int) -> Any:
    """A value with the times in it moved."""
    if isinstance(value, list):
        return [_moved(each, later) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {name: at + later for name, at in each.items()}
        if key == "time" and isinstance(each, dict)
        else _moved(each, later)
        for key, each in value.items()
    }


def main() -> None:
    if not PROGRAM:
        sys.exit("OpenCode and Kilo CLI are not installed: set OPENCODE to the path of a program")
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as opencode:
        with opencode.served() as ask:
            ids = played(opencode, ask)
        requests = {}
        for name, id in ids.items():
            with Session.open(f"{opencode.database}/{id}.jsonl", readonly=True) as session:
                *here, _answer = read(session.context().messages)
            requests[name] = sent_of(opencode.requests, here[-1])
        sys.stdout.write(f"{write(opencode, ids, requests)}\n")


if __name__ == "__main__":
    main()
