"""Sessions of an agent by the Agent Client Protocol, from a real program that speaks it."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from sessiontree.errors import AgentProtocolError, UsageError
from sessiontree.importing import acp_client
from sessiontree.importing.acp_client import AcpAgent
from tests.importing.acp_agent import ID, UPDATES, text
from tests.support.table import for_each
from tests.support.terminal import done, printed_json, refused, run

ROOT = Path(__file__).parents[2]


def command(how: str = "well") -> str:
    return shlex.join([sys.executable, "-m", "tests.importing.acp_agent", how])


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def imported(folder: Path, how: str = "well", *more: str) -> Session:
    done("import", "--acp", command(how), *more, "-o", folder)
    (file,) = folder.glob("*.jsonl")
    return Session.open(file, readonly=True)


def said(session: Session) -> list[dict[str, Any]]:
    return [dict(entry["message"]) for entry in session.path() if entry.type == "message"]


def test_ls_lists_the_sessions_of_an_agent(tmp_path: Path) -> None:
    assert "acp-1  The notes" in done("ls", "--acp", command())
    (row,) = printed_json("ls", "--acp", command())
    assert (row["id"], row["title"]) == (ID, "The notes")
    assert [row["id"] for row in printed_json("ls", "--acp", command("pages"))] == ["other", ID]


def test_an_import_has_what_the_agent_replays(tmp_path: Path) -> None:
    with imported(tmp_path / "a") as session:
        assert (session.id, session.name) == (ID, "The notes")
        assert session.metadata["program"] == "tiny"
        messages = said(session)
        custom = [e for e in session.path() if e.type == "custom"]
        assert [turn.prompt for turn in session.outline().turns] == [
            *("Fix the notes.", "How would you test it?")
        ]
    prompt, answer, read, listed, end, more, last = messages
    assert prompt["content"] == [{"type": "text", "text": "Fix the notes."}]
    thought, word, *calls = answer["content"]
    assert (thought["thinking"], word["text"]) == ("I read them.", "I look.")
    assert [(call["id"], call["name"], call["arguments"]) for call in calls] == [
        *(("c1", "read", {"path": "notes.md"}), ("c2", "execute", {}))
    ]
    assert calls[0]["acp"]["title"] == "Read notes.md"
    assert (read["toolCallId"], read["content"][0]["text"]) == ("c1", "Retries.")
    assert (listed["isError"], listed["content"][0]["text"]) == (True, "no such command")
    assert [m["content"][0]["text"] for m in (end, more, last)] == [
        *("Done.", "How would you test it?", "With a clock.")
    ]
    assert [entry["customType"] for entry in custom] == ["acp:plan"]


def test_what_the_protocol_does_not_give_is_said(tmp_path: Path) -> None:
    made = run("import", "--acp", command(), "-o", tmp_path / "a")
    assert "tiny did not give branches, models, costs, tokens, times" in made.stderr
    dry = run("import", "--acp", command(), "-o", tmp_path / "b", "--dry-run")
    assert "nothing was written" in dry.stderr
    assert not (tmp_path / "b").exists()


def test_times_and_tokens_that_an_agent_adds_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = {"inputTokens": 10, "outputTokens": 3, "cachedReadTokens": 4}
    updates = [
        text("user_message_chunk", "hi", _meta={"timestamp": 1_795_868_942_993}),
        text("agent_message_chunk", "ho", _meta={"timestamp": 1_795_868_944_000}),
        text("agent_message_chunk", "", _meta={"usage": used}),
    ]
    monkeypatch.setenv("ACP_UPDATES", json.dumps(updates))
    with imported(tmp_path / "a") as session:
        assert session.leaf.timestamp == "2026-11-28T12:29:04.000Z"
        usage = session.stats().usage
    assert (usage.input, usage.output, usage.cache_read) == (6, 3, 4)


def test_a_second_import_adds_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imported(tmp_path / "a").close()
    assert "up to date" in done("import", "--acp", command(), "-o", tmp_path / "a")
    more = [*UPDATES, text("user_message_chunk", "And now?")]
    monkeypatch.setenv("ACP_UPDATES", json.dumps(more))
    assert "1 new" in done("import", "--acp", command(), ID, "-o", tmp_path / "a")
    with imported(tmp_path / "a") as session:
        assert said(session)[-1]["content"][0]["text"] == "And now?"


def test_an_agent_that_cannot_list_loads_by_id(tmp_path: Path) -> None:
    assert "cannot list its sessions; give the id" in refused("ls", "--acp", command("no-list"))
    with imported(tmp_path / "a", "no-list", ID) as session:
        assert session.id == ID
        assert os.path.samefile(session.header["cwd"], os.getcwd())


@for_each(
    ("how", "told"),
    [
        ("dies at initialize", "ended with exit code 3 before it answered 'initialize'; it said: "),
        ("dies at session/list", "tiny ended with exit code 3 before it answered 'session/list'"),
        ("dies at session/load", "tiny ended with exit code 3 before it answered 'session/load'"),
        ("refuses session/load", "refused 'session/load': Authentication required; log in"),
        ("flood", "prints what is not the Agent Client Protocol, such as 'not a message'"),
        ("version", "tiny speaks version 9 of the Agent Client Protocol; sessiontree knows"),
        ("no-load", "tiny cannot load sessions"),
        ("asks-permission", "asks for permission to run 'rm -rf', though a session is only read"),
    ],
)
def test_what_goes_wrong_is_one_clear_error(tmp_path: Path, how: str, told: str) -> None:
    error = refused("import", "--acp", command(how), "-o", tmp_path / "a")
    assert told in error
    assert len(error.strip().splitlines()) == 1
    assert not list(tmp_path.rglob("*.jsonl"))


@for_each("method", ["initialize", "session/list", "session/load"])
def test_an_agent_that_never_answers_is_ended(method: str) -> None:
    agent = AcpAgent(command(f"silent at {method}"), 1.0)
    with pytest.raises(AgentProtocolError, match=f"did not answer '{method}' within 1 s"), agent:
        agent.load(agent.sessions()[0])
    assert not agent.is_running


def test_an_agent_that_never_stops_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acp_client, "_MAX_BYTES", 100_000)
    with pytest.raises(AgentProtocolError, match="sent more than 100,000 bytes"):  # noqa: SIM117
        with AcpAgent(command("endless")) as agent:
            agent.load(agent.sessions()[0])
    assert not agent.is_running


@for_each("how", ["garbage", "asks-files"])
def test_lines_that_are_no_messages_and_requests_do_no_harm(tmp_path: Path, how: str) -> None:
    with imported(tmp_path / how, how) as session:
        assert len(said(session)) == 7


def test_a_command_that_cannot_be_started_is_wrong_usage() -> None:
    for wrong in ("", "no-such-agent --acp", "'"):
        with pytest.raises(UsageError), AcpAgent(wrong):
            pass
    assert "cannot be started" in refused("ls", "--acp", "no-such-agent", status=1)
    refused("import", status=2)
