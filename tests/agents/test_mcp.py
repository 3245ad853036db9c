"""Real agents use the MCP server, with their own clients, against a model on loopback."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sessiontree.calls.dispatcher import Dispatcher
from sessiontree.calls.scope import Scope
from tests.agents import claude_code, codex_driver
from tests.examples.provider import provider
from tests.mcp.clients import COMMAND, PATIENCE, talk

CALLS = {"session_search": "Rust", "tree_render": "latest"}
"""The tools that the model calls, each with the value of the parameter that it needs."""


def _said(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


@pytest.mark.slow
@pytest.mark.skipif(claude_code.program() is None, reason="Claude Code is not installed here")
def test_claude_code_lists_the_tools_and_calls_them(tmp_path: Path) -> None:
    root, home = tmp_path / "root", tmp_path / "home"
    home.mkdir()
    talk(root)
    methods = Dispatcher(Scope(str(root))).methods.items()
    there = {name.replace(".", "_"): method for name, method in methods}
    wanted = [name for name in CALLS if name in there]
    results: list[str] = []
    listed: set[str] = set()

    def model(request: dict[str, Any]) -> list[dict[str, Any]]:
        listed.update(tool["name"] for tool in request.get("tools", []))
        if not any(name.startswith("mcp__") for name in listed):
            return [{"type": "text", "text": "no tools"}]
        last = _said(request["messages"][-1])
        results.extend(json.dumps(b["content"]) for b in last if b["type"] == "tool_result")
        if len(results) == len(wanted):
            return [{"type": "text", "text": "done"}]
        name = wanted[len(results)]
        call = {
            "type": "tool_use",
            "id": f"toolu_{len(results)}",
            "name": f"mcp__sessiontree__{name}",
        }
        return [
            {**call, "input": dict.fromkeys(there[name].params_schema["required"], CALLS[name])}
        ]

    with provider(model) as served:
        environment = {
            **served.environment(),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "HOME": str(home),
            "CLAUDE_CONFIG_DIR": str(home),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "MCP_TIMEOUT": str(PATIENCE * 1000),
            "MCP_CONNECTION_NONBLOCKING": "0",  # the first request waits for the server
            "MCP_CONNECT_TIMEOUT_MS": str(PATIENCE * 1000),
        }
        options = ["--root", str(root), "--install", "claude-code"]
        subprocess.run([*COMMAND, *options], env=environment, check=True, capture_output=True)
        done = subprocess.run(
            [str(claude_code.program()), "-p", "Look.", "--allowedTools", "mcp__sessiontree"],
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=5 * PATIENCE,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert {f"mcp__sessiontree__{name}" for name in wanted} <= listed
    assert "mcp__sessiontree__tree_create" not in listed
    assert len(results) == len(wanted)
    assert all("Rust" in result for result in results), results


@pytest.mark.slow
@pytest.mark.skipif(codex_driver.program() is None, reason="Codex is not installed here")
def test_codex_lists_the_tools_and_calls_them(tmp_path: Path) -> None:
    root, home = tmp_path / "root", tmp_path / "home"
    talk(root)
    path = codex_driver.program()
    assert path is not None
    with codex_driver.running(path, home) as codex:
        subprocess.run(
            [*COMMAND, "--root", str(root), "--install", "codex"],
            env={**os.environ, "CODEX_HOME": str(home)},
            check=True,
            capture_output=True,
        )
        with open(home / "config.toml", "a") as file:  # Codex passes few variables on
            file.write("[mcp_servers.sessiontree.env]\n")
            file.write(f"PYTHONPATH = {json.dumps(os.environ.get('PYTHONPATH', ''))}\n")
        thread = codex.start()
        while (status := codex.until("mcpServer/startupStatus/updated")["status"]) != "ready":
            assert status != "failed"
        call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "tree_render"}
        given = {"namespace": "mcp__sessiontree", "arguments": json.dumps({"session": "latest"})}
        codex.turn(thread, "Look.", [{**call, **given}])
        first, last = codex.model.requests
        (group,) = [tool for tool in first["tools"] if tool.get("name") == "mcp__sessiontree"]
        listed = {tool["name"] for tool in group["tools"]}
        assert "tree_render" in listed
        assert "tree_create" not in listed
        assert "In Rust." in json.dumps(last["input"][-1])
