"""An agent with a folder of its own, and its line in the list, is in every command and view.

The agent is the one of docs/guide/new-agent.md, in a copy of the package.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

import sessiontree
from tests.support.table import for_each
from tests.tui.test_terminal import MODULE, in_terminal
from tests.web.serving import Server

PACKAGE: Final = Path(sessiontree.__file__).parent
GUIDE: Final = PACKAGE.parent / "docs" / "guide" / "new-agent.md"
PROMPT: Final = "Write the notes"
NOTES: Final = "Retries wait.\nThen they stop.\n"
_ENTRY: Final = "    Droid(),\n"
_IMPORT: Final = "from sessiontree.agents.droid import Droid\n"


def _code() -> str:
    """The classes of the guide's example."""
    block = GUIDE.read_text().partition("## An example")[2].partition("```python\n")[2]
    classes, line, _ = block.partition("\n\nsetattr(agents,")
    assert line
    return "from __future__ import annotations\n" + classes.replace(
        "from sessiontree import agents, import_session\n", ""
    )


def _package(folder: Path) -> None:
    """The package with the agent: its folder, and two lines in the list of agents."""
    copy = folder / "sessiontree"
    shutil.copytree(PACKAGE, copy)  # with what is compiled
    own = copy / "agents" / "hop"
    own.mkdir()
    (own / "__init__.py").write_text(_code())
    listed = (copy / "agents" / "__init__.py").read_text()
    assert _ENTRY in listed
    listed = listed.replace(_ENTRY, f"{_ENTRY}    Hop(),\n")
    listed = listed.replace(_IMPORT, f"{_IMPORT}from sessiontree.agents.hop import Hop\n")
    (copy / "agents" / "__init__.py").write_text(listed)


def _session(project: Path) -> list[dict[str, Any]]:
    """A session in which the agent writes a file."""
    path = str(project / "notes.md")
    call = {"type": "tool_use", "id": "c1", "name": "Write"}
    written = {**call, "input": {"file_path": path, "content": NOTES}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "Written."}
    usage = {"input_tokens": 100, "output_tokens": 23}
    said: list[dict[str, Any]] = [
        {"role": "user", "content": PROMPT},
        {"role": "assistant", "model": "hop-1", "content": [written], "usage": usage},
        {"role": "user", "content": [result]},
        {"role": "assistant", "model": "hop-1", "content": "They are written."},
    ]
    start = {"hop": "start", "id": "h1", "dir": str(project), "at": "2026-11-28T12:00:00.000Z"}
    lines = [
        {"hop": "message", "id": f"m{n}", "at": f"2026-11-28T12:00:0{n}.000Z", "message": message}
        for n, message in enumerate(said, 1)
    ]
    return [start, *lines]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package, the agent's home, and a project with the file that it wrote."""
    folder = tmp_path_factory.mktemp("world")
    _package(folder)
    project = folder / "project"
    project.mkdir()
    (project / "notes.md").write_text(NOTES)
    file = folder / "hop" / "chats" / "h1.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in _session(project)))
    return folder


@pytest.fixture
def there(world: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, where commands of this test run."""
    monkeypatch.chdir(world)
    monkeypatch.setenv("PYTHONPATH", str(world))
    monkeypatch.setenv("HOME", str(world))
    monkeypatch.setenv("HOP_HOME", str(world / "hop"))
    monkeypatch.setenv("SESSIONTREE_HOME", str(world / "store"))
    return world


def run(*words: object) -> str:
    """What a command prints, with single spaces and without the marks of what was found."""
    command = [sys.executable, *MODULE, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return re.sub(r" +", " ", re.sub("[«»]", "", done.stdout))


@for_each(
    ("words", "shown"),
    [
        (("ls",), f"h1 hop {PROMPT}"),
        (("ls", "--agent", "hop"), PROMPT),
        (("search", "They are written"), "They are written"),
        (("search", PROMPT, "--agent", "hop"), "hop"),
        (("stats", "--agent", "hop"), "100 in, 23 out"),
        (("stats", "--by", "agent"), "hop"),
        (("tree", "h1"), "→ They are written."),
        (("blame", "project/notes.md"), "hop"),
        (("history", "project/notes.md"), "h1"),
        (("resume", "h1"), "hop --resume h1"),
        (("call", "session.list", "--agents", "hop"), '"h1"'),
        (("mcp", "--install", "hop"), "hop/mcp.json"),
    ],
)
def test_a_new_agent_is_in_a_command(there: Path, words: tuple[str, ...], shown: str) -> None:
    assert shown in run(*words), words


def test_a_new_agent_is_in_a_backup(there: Path) -> None:
    run("backup")
    assert PROMPT in run("ls", there / "store")
    shutil.rmtree(there / "store")


def test_a_new_agent_is_in_a_page(there: Path) -> None:
    run("export", "h1", "--html", "-o", there / "page.html")
    page = (there / "page.html").read_text()
    assert PROMPT in page
    assert "Hop" in page or "hop" in page


def test_a_new_agent_is_in_the_browser_of_sessions(there: Path) -> None:
    code, screen = in_terminal(*MODULE, "browse", until=PROMPT.encode(), keys=b"\x1b")
    assert code == 0
    assert b"hop" in screen


def test_a_new_agent_is_in_the_view(there: Path) -> None:
    command = [sys.executable, *MODULE, "view", "--no-browser"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            (found,) = Server(process).json("/sessions")["sessions"]
        finally:
            process.terminate()
    assert found["agent"] == "hop", found


def test_a_new_agent_is_in_the_mcp_server(there: Path) -> None:
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    asked = {"name": "session_list", "arguments": {"agents": ["hop"]}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asked},
    ]
    command = [sys.executable, *MODULE, "mcp", "--agents"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=os.environ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("".join(json.dumps(each) + "\n" for each in messages))
        server.stdin.flush()
        answers = [json.loads(server.stdout.readline()) for _ in range(2)]
        server.stdin.close()
    assert PROMPT in json.dumps(answers[-1]["result"])
