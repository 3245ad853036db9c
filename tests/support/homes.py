"""A home in which each agent keeps a session, as the agents wrote them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[2] / "fixtures" / "agents"
LONG_AGO = 1_000_000_000

AGENT_VARIABLES = (
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "PI_CODING_AGENT_DIR",
    "GEMINI_CLI_HOME",
    "QWEN_HOME",
    "COPILOT_HOME",
    "CLINE_DIR",
    "KIMI_CODE_HOME",
    "OPENCLAW_STATE_DIR",
    "OPENCODE_DB",
    "KILO_DB",
    "CONTINUE_GLOBAL_DIR",
)
"""Where the agents keep what they have."""

VARIABLES = (*AGENT_VARIABLES, "XDG_DATA_HOME", "PI_CODING_AGENT_SESSION_DIR")

FOLDERS = {
    "claude-code": ".claude/projects",
    "codex": ".codex/sessions",
    "pi": ".pi/agent/sessions",
    "gemini": ".gemini/tmp",
}
"""Where each agent keeps its sessions, below the home."""

_SAMPLES = {
    "claude_code/2.1.330": ".claude/projects/-project",
    "codex/0.169.0": ".codex",
    "pi/1.5.2": ".pi/agent/sessions/--project--",
    "gemini/0.61.0": ".gemini",
}

SESSIONS = 6
"""How many sessions the samples are."""


def empty_home(top: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without a session, in which commands find nothing of the user's."""
    home = top / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SESSIONTREE_HOME", str(home / "store"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / ".cache"))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return home


def put_sessions(home: Path) -> None:
    """The samples of all agents, where these keep their sessions, written long ago."""
    for sample, folder in _SAMPLES.items():
        shutil.copytree(SAMPLES / sample, home / folder)
    for file in files_of_agents(home):
        settle(file)


def settle(file: Path) -> Path:
    """A file and its folder as if they had last changed long ago, each time a second later."""
    for path in (file, file.parent):
        os.utime(path, (LONG_AGO, LONG_AGO + path.stat().st_size % 1_000_000))
    return file


def files_of_agents(home: Path) -> list[Path]:
    tops = [home / folder.partition("/")[0] for folder in FOLDERS.values()]
    return sorted(path for top in tops for path in top.rglob("*") if path.is_file())


def transcript(home: Path) -> Path:
    """The session of Claude Code."""
    (file,) = (home / FOLDERS["claude-code"]).glob("*/*.jsonl")
    return file


def delete(file: Path) -> None:
    """Claude Code deletes a session, with what is beside it."""
    file.unlink()
    shutil.rmtree(file.with_suffix(""), ignore_errors=True)


def go_on(file: Path, text: str, uuid: str = "99999999-0000-4000-8000-000000000009") -> None:
    """Claude Code writes one more prompt."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    said = {**next(line for line in lines if "sessionId" in line), "type": "user"}
    said |= {"uuid": uuid, "parentUuid": lines[-1].get("uuid"), "isSidechain": False}
    said |= {"timestamp": "2099-01-01T00:00:00.000Z", "message": {"role": "user", "content": text}}
    with file.open("a") as opened:
        opened.write(json.dumps(said) + "\n")
