"""The example agents run with a model on loopback, are killed, and go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from sessiontree import Session
from tests.agents.claude_code import program, seen
from tests.examples.provider import provider

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(
    example: str,
    served: Any,
    folder: Path,
    *lines: str,
    dies: bool = False,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """Give lines to an example. Returns what it prints."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / example), "chat.jsonl"],
        input="".join(f"{line}\n" for line in lines),
        cwd=folder,
        env=os.environ | served.environment() | dict(variables),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert dies or done.returncode == 0, done.stderr
    assert served.faults == []
    return done.stdout.splitlines()


def text(said: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": said}]


def uses(**inputs: dict[str, str]) -> list[dict[str, Any]]:
    """Calls of tools, by name; the id of a call is its tool's name and input."""
    return [
        {"type": "tool_use", "id": f"{name}-{len(str(given))}", "name": name, "input": given}
        for name, given in inputs.items()
    ]


def last(request: dict[str, Any]) -> str:
    """The text of the last message, or of the results in it."""
    return _text(request["messages"][-1]["content"])


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(block.get("text") or _text(block.get("content")) for block in content)


def test_each_example_is_short() -> None:
    found = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert len(found) == 10
    assert found.pop("coding_agent.py") <= 300
    assert max(found.values()) < 120


def anthropic_script(request: dict[str, Any]) -> list[dict[str, Any]]:
    said = last(request)
    if said == "Read the notes":
        return uses(read={"path": "notes.md"}, bash={"command": "echo $((40 + 2))"})
    if said == "Die":
        return uses(bash={"command": f"kill -{signal.SIGKILL} $PPID"})
    if said == "Fail":
        return uses(read={"path": "nowhere.md"})
    return text(f"{_text(request['system'])[:9]}|{said}".replace("\n", " "))


def test_an_agent_of_anthropic_calls_tools_is_killed_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("Be quick.")
    with provider(anthropic_script) as served:
        first = run("anthropic_agent.py", served, tmp_path, "Read the notes", "Fail")
        assert first[0] == "You are a|Be quick. 42 (exit code 0)"
        assert "FileNotFoundError" in first[-1]
        assert run("anthropic_agent.py", served, tmp_path, "Die", dies=True) == []
        (said,) = run("anthropic_agent.py", served, tmp_path, "Go on")
        assert said.startswith("You are a|Interrupted: no result was recorded")
        assert said.endswith("Go on")
    with Session.open(tmp_path / "chat.jsonl", readonly=True) as session:
        assert [turn[0]["message"]["content"] for turn in session.turns()] == [
            *("Read the notes", "Fail", "Die", "Go on")
        ]
        assert session.stats().usage.output == 30
        assert not session.damage


def openai_script(request: dict[str, Any]) -> list[dict[str, Any]]:
    item = request["input"][-1]
    if item.get("role") == "user":
        call = {"type": "function_call", "status": "completed", "id": "fc_1", "name": "bash"}
        die = f"kill -{signal.SIGKILL} $PPID"
        command = json.dumps({"command": die if "Die" in str(item) else "echo 42"})
        sealed = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"}
        return [sealed, call | {"call_id": f"call_{len(request['input'])}", "arguments": command}]
    said = [{"type": "output_text", "text": item["output"].split("\n")[0], "annotations": []}]
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    return [message | {"content": said}]


def test_an_agent_of_openai_sends_reasoning_back_is_killed_and_goes_on(tmp_path: Path) -> None:
    with provider(openai_script) as served:
        assert run("openai_agent.py", served, tmp_path, "Count") == ["42"]
        assert run("openai_agent.py", served, tmp_path, "Die", dies=True) == []
        assert run("openai_agent.py", served, tmp_path, "Count again") == ["42"]
        sent = served.requests[-1]
    assert sent["instructions"].startswith("You are a coding agent")
    assert [item["encrypted_content"] for item in sent["input"] if "encrypted_content" in item]
    with Session.open(tmp_path / "chat.jsonl", readonly=True) as session:
        assert len(session.turns()) == 3
        assert session.stats().usage.output == 25


def test_an_agent_of_pydantic_ai_goes_on_and_goes_back(tmp_path: Path) -> None:
    with provider(openai_script) as served:
        assert run("pydantic_ai_agent.py", served, tmp_path, "Count") == ["42"]
        assert run("pydantic_ai_agent.py", served, tmp_path, "Again", "back", "Else") == ["42"] * 2
        sent = served.requests[-1]
    assert [item["content"] for item in sent["input"] if item.get("role") == "user"] == [
        *("Count", "Else")
    ]
    (file,) = (tmp_path / "chat.jsonl" / "pydantic-ai").glob("*.jsonl")
    with Session.open(file, readonly=True) as session:
        assert len(session.turns()) == 2
        assert len(session.branches()) == 2


def test_an_agent_of_the_openai_agents_sdk_goes_on_and_goes_back(tmp_path: Path) -> None:
    with provider(openai_script) as served:
        assert run("openai_agents_agent.py", served, tmp_path, "Count") == ["42"]
        lines = run("openai_agents_agent.py", served, tmp_path, "Again", "back", "Else")
        assert lines == ["42"] * 2
        sent = served.requests[-1]
    assert [item["content"] for item in sent["input"] if item.get("role") == "user"] == [
        *("Count", "Else")
    ]
    (file,) = (tmp_path / "chat.jsonl" / "openai-agents").glob("*.jsonl")
    with Session.open(file, readonly=True) as session:
        assert len(session.turns()) == 2
        assert len(session.branches()) == 2


def test_a_graph_of_langgraph_goes_on_and_goes_back(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("a note")
    with provider(graph_script) as served:
        assert run("langgraph_agent.py", served, tmp_path, "Read") == ["a note"]
        lines = run("langgraph_agent.py", served, tmp_path, "Fail", "back", "Else")
        assert lines[0].startswith("error: [Errno 2]")
        assert lines[1] == "Else"
        sent = served.requests[-1]
    prompts = [one["content"] for one in sent["messages"] if isinstance(one["content"], str)]
    assert prompts == ["Read", "Else"]
    (file,) = (tmp_path / "chat.jsonl" / "langgraph").glob("*.jsonl")
    with Session.open(file, readonly=True) as session:
        assert len(session.turns()) == 2
        assert len(session.branches()) == 2


def graph_script(request: dict[str, Any]) -> list[dict[str, Any]]:
    said = last(request)
    if said in ("Read", "Fail"):
        return uses(read={"path": "notes.md" if said == "Read" else "nowhere.md"})
    return text(said)


@pytest.mark.skipif(
    program() is None, reason="Claude Code is not installed: it is in the wheel of claude-agent-sdk"
)
def test_an_agent_of_claude_goes_on_and_forks(tmp_path: Path) -> None:
    own = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "config")}
    own |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}

    def script(request: dict[str, Any]) -> list[dict[str, Any]]:
        prompts = [m for m in seen(request["messages"]) if m["role"] == "user"]
        return text(f"{len(prompts)} prompts")

    with provider(script) as served:
        first = run("claude_agent.py", served, tmp_path, "One", variables=own)
        assert first == ["1 prompts"]
        again = run("claude_agent.py", served, tmp_path, "Two", "fork", "Three", variables=own)
    assert again == ["2 prompts", "3 prompts"]
    files = (tmp_path / "chat.jsonl" / "claude-agent-sdk").glob("*/*.jsonl")
    counts = []
    for file in files:
        with Session.open(file, readonly=True) as session:
            counts.append(len(session.turns()))
    assert sorted(counts) == [2, 3]
