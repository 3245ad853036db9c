"""Asks the real ccusage what sessions used and cost, without the network.

Set `CCUSAGE` to the program of the npm package `ccusage`; it has the prices in itself.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

PROGRAM = os.environ.get("CCUSAGE", "")

_ELSEWHERE = (
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "PI_CODING_AGENT_DIR",
    "XDG_CONFIG_HOME",
    "QWEN_HOME",
)


class Sums(NamedTuple):
    """Tokens, and a cost in cents and their hundredths."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: float


def sums_of(home: Path, agent: str, by: str = "session") -> Sums:
    """What ccusage adds up of the sessions of an agent in a user's home folder.

    By day it counts the lines about the progress of a subagent, by session it leaves them out.
    """
    environment = {key: value for key, value in os.environ.items() if key not in _ELSEWHERE}
    done = subprocess.run(
        [PROGRAM, agent, by, "--json", "--offline"],
        env={**environment, "HOME": str(home), "TZ": "UTC"},
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    told: dict[str, Any] = json.loads(done.stdout)["totals"]
    cost = told["totalCost"] if "totalCost" in told else told["costUSD"]
    return Sums(
        input=told["inputTokens"],
        output=told["outputTokens"],
        cache_read=told["cacheReadTokens"],
        cache_write=told["cacheCreationTokens"],
        cost=round(cost * 100, 2),
    )
