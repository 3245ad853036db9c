"""The tokens and costs of sessions are those that ccusage adds up, to the cent.

Set `CCUSAGE` to the program of the npm package `ccusage`. Where the two differ on purpose, the
guide to your sessions says why, and `tests/views/test_spent.py` holds it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest

from sessiontree.library.counts import CountCache
from sessiontree.library.listing import facts_of
from sessiontree.library.spending import spending_of
from sessiontree.views.costs import load
from tests.agents import ccusage
from tests.agents.ccusage import Sums
from tests.agents.conftest import CORPUS, NO_CORPUS
from tests.support.droid import DroidSession
from tests.support.spent import CLAUDE_CODE, CODEX, claude_code_home, codex_home, said, used
from tests.support.table import for_each

pytestmark = pytest.mark.skipif(
    not ccusage.PROGRAM, reason="ccusage is not installed: set CCUSAGE to the path of its program"
)

AGENTS = Path(__file__).parents[2] / "fixtures" / "agents"


def our_sums(files: Iterable[Path], **how: Any) -> Sums:
    found = CountCache(None).counted((facts_of(os.fspath(file)) for file in files), None)
    total = spending_of(found, "model", load(), pytest.fail, **how).total
    tokens = total.usage.input, total.usage.output, total.usage.cache_read, total.usage.cache_write
    assert not total.unpriced
    return Sums(*tokens, round((total.usage.cost + total.estimated) * 100, 2))


@for_each("case", CLAUDE_CODE)
def test_each_rule_of_claude_codes_transcripts(case: str, tmp_path: Path) -> None:
    file = claude_code_home(tmp_path, CLAUDE_CODE[case])
    assert our_sums([file]) == ccusage.sums_of(tmp_path, "claude", by="daily")


@for_each("case", CODEX)
def test_each_rule_of_codexs_rollouts(case: str, tmp_path: Path) -> None:
    file = codex_home(tmp_path, CODEX[case])
    assert our_sums([file]) == ccusage.sums_of(tmp_path, "codex")


def test_a_real_session_with_subagents(tmp_path: Path) -> None:
    sample = AGENTS / "claude_code" / "2.1.330"
    copies = [
        _compact(file, tmp_path / ".claude" / "projects" / "-p" / file.relative_to(sample))
        for file in sorted(sample.rglob("*.jsonl"))
    ]
    assert len(copies) > 2
    ours = our_sums([file for file in copies if file.parent.name == "-p"], is_listed=True)
    assert ours == ccusage.sums_of(tmp_path, "claude")
    assert ours.output == 55


def test_a_fork_costs_nothing_again(tmp_path: Path) -> None:
    lines = CLAUDE_CODE["an answer in several lines"]
    file = claude_code_home(tmp_path, lines)
    fork = file.with_name("5f0c8a52-0000-4000-8000-000000000000.jsonl")
    later = said("d", "o", used(7, 7))
    fork.write_bytes(file.read_bytes() + orjson.dumps({**later, "parentUuid": "c"}) + b"\n")
    ours = our_sums([file, fork])
    assert ours == ccusage.sums_of(tmp_path, "claude")
    assert ours.output == 514


@pytest.mark.skipif(not CORPUS.exists(), reason=NO_CORPUS)
@for_each("name", ["short", "subagent", "tool_heavy"])
def test_the_sessions_of_a_user(name: str, tmp_path: Path) -> None:
    file = CORPUS / "claude-code" / f"{name}.jsonl"
    copy = _compact(file, tmp_path / ".claude" / "projects" / "-p" / file.name)
    ours = our_sums([copy], is_listed=True)
    assert ours == ccusage.sums_of(tmp_path, "claude", by="daily")


def test_a_real_session_of_pi(tmp_path: Path) -> None:
    """ccusage leaves out what summaries cost, so only a session without them is compared."""
    at = "2026-11-22T22:19:55.500Z"
    usage = {"input": 10, "output": 20, "cacheRead": 30, "cacheWrite": 40, "totalTokens": 100}
    message = {
        "role": "assistant",
        "content": [],
        "provider": "anthropic",
        "model": "claude-opus-5",
    }
    priced = {**usage, "cost": {"input": 0, "output": 0.25, "total": 0.25}}
    lines = [
        {"type": "session", "version": 3, "id": "01a20558", "timestamp": at, "cwd": "/p"},
        {
            "type": "message",
            "id": "a",
            "parentId": None,
            "timestamp": at,
            "message": {**message, "usage": priced},
        },
    ]
    folder = tmp_path / ".pi" / "agent" / "sessions" / "--p--"
    folder.mkdir(parents=True)
    file = folder / "2026-11-22T22-19-55-500Z_01a20558.jsonl"
    file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    assert our_sums([file]) == ccusage.sums_of(tmp_path, "pi") == Sums(10, 20, 30, 40, 25.0)


def test_a_chat_of_gemini_cli(tmp_path: Path) -> None:
    at = "2026-11-22T20:04:00.000Z"
    tokens = {"input": 1000, "output": 200, "cached": 400, "thoughts": 50, "tool": 7, "total": 1257}
    lines = [
        {"sessionId": "b55d1395-329f-46f7-8e95-470db65bd80a", "projectHash": "x", "startTime": at},
        {
            "id": "1",
            "timestamp": at,
            "type": "gemini",
            "content": "hello",
            "tokens": tokens,
            "model": "gemini-2.5-pro",
        },
    ]
    folder = tmp_path / ".gemini" / "tmp" / "project" / "chats"
    folder.mkdir(parents=True)
    file = folder / "session-2026-11-22T20-04-b55d1395.jsonl"
    file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    ours, theirs = our_sums([file]), ccusage.sums_of(tmp_path, "gemini")
    assert ours._replace(output=200) == theirs  # which keeps thoughts apart, and prices them


def test_a_session_of_droid(tmp_path: Path) -> None:
    session = DroidSession(tmp_path)
    session.sum_up(4000, 690, 20_000, 500)
    assert our_sums([session.file]) == ccusage.sums_of(tmp_path, "droid", by="daily")
    session.sum_up(4000, 690, 20_000, 500, 10)
    ours, theirs = our_sums([session.file]), ccusage.sums_of(tmp_path, "droid", by="daily")
    assert ours._replace(output=690) == theirs  # which keeps thoughts apart, and prices them


def _compact(file: Path, copy: Path) -> Path:
    """Copy a transcript, as the agent wrote it: without spaces, by which ccusage finds usage."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    lines = file.read_bytes().splitlines()
    copy.write_bytes(b"".join(orjson.dumps(orjson.loads(line)) + b"\n" for line in lines))
    return copy
