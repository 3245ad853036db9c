"""The coding agents whose sessions sessiontree reads and writes: a folder each, a line each here.

A file is recognised by its content, not by its name. An agent's folder holds all that is known of
it: its object (`agent.Agent`) in `__init__`, its reader, which translates a file line by line into
version 2, so that every reading command works on it, and its writer. `base` has what readers
share, `writing` what writers share; `atif` and `acp` are formats that no agent
keeps as its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from sessiontree.agents.acp import Acp
from sessiontree.agents.agent import Agent
from sessiontree.agents.atif import Atif
from sessiontree.agents.claude_code import ClaudeCode
from sessiontree.agents.cline import Cline
from sessiontree.agents.codex import Codex
from sessiontree.agents.continue_ import Continue
from sessiontree.agents.copilot import Copilot
from sessiontree.agents.crush import Crush
from sessiontree.agents.droid import Droid
from sessiontree.agents.gemini import Gemini
from sessiontree.agents.goose import Goose
from sessiontree.agents.kilo import Kilo
from sessiontree.agents.kimi import Kimi
from sessiontree.agents.openclaw import OpenClaw
from sessiontree.agents.opencode import OpenCode
from sessiontree.agents.pi import Pi
from sessiontree.agents.qwen import Qwen

AGENTS: Final[tuple[Agent, ...]] = (
    ClaudeCode(),
    Codex(),
    Pi(),
    Gemini(),
    Droid(),
    Qwen(),
    Copilot(),
    OpenCode(),
    Kilo(),
    Cline(),
    Kimi(),
    OpenClaw(),
    Goose(),
    Crush(),
    Continue(),
)
"""The agents, in the order of lists."""

TRAJECTORY: Final = Atif()
"""The format in which benchmarks keep the runs of any agent."""

REPLAY: Final = Acp()
"""What any agent replays of a session by the Agent Client Protocol."""

NAMES: Final = tuple(agent.name for agent in AGENTS)

OWN: Final = "sessiontree"
"""The name of this program, where a name of an agent may be given."""

OF_VERSION_1: Final = Pi.name
"""The agent that wrote files of version 1 of this format, too."""

MAKERS: Final = (*NAMES, TRAJECTORY.name, REPLAY.name, OWN)
"""The programs and formats that sessions come from."""

TRACE: Final = "otel"
"""The target of a conversion to spans of OpenTelemetry."""

TARGETS: Final = (*(agent.name for agent in (*AGENTS, TRAJECTORY) if agent.is_target), TRACE)
"""The targets of a conversion."""

if TYPE_CHECKING:
    AgentName = str
    MakerName = str
    TargetName = str
else:
    AgentName = Literal[NAMES]
    MakerName = Literal[MAKERS]
    TargetName = Literal[TARGETS]

HEAD: Final = 64 * 1024
"""The bytes at the start of a file that are enough to recognise it."""


def formats() -> tuple[Agent, ...]:
    """Those whose files are read; a file is recognised by the last of them that claims it."""
    return (*AGENTS, TRAJECTORY, REPLAY)


def named(name: str | None) -> Agent | None:
    """The agent with a name; None for another name."""
    return next((agent for agent in AGENTS if agent.name == name), None)


def command_of(name: str) -> str:
    """The short name of an agent, or the name of any other program."""
    agent = named(name)
    return name if agent is None else agent.command


def recognise(head: bytes) -> Agent | None:
    """The agent of a file that starts with these bytes, decompressed; None for any other.

    A sessiontree file of any version gives None.
    """
    return next((agent for agent in reversed(formats()) if agent.reader.recognises(head)), None)


def record_in(head: bytes) -> str | None:
    """What an agent keeps in a file with this start, in words, if it is no session."""
    return next(filter(None, (agent.reader.record_in(head) for agent in formats())), None)
