"""Where the agents of this user keep their sessions, by their environment variables.

Invariant: nothing is made, and a home that is not there is no error.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from typing import Any

from sessiontree.agents import AGENTS, OF_VERSION_1
from sessiontree.agents.agent import Agent, AgentHome
from sessiontree.core.header import says_pi
from sessiontree.errors import ForeignFormatError


def agent_folders(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The folders in which agents keep sessions, those that are there; none is below another."""
    found = {
        os.path.realpath(folder): folder
        for agent in AGENTS
        for folder in _folders(agent.home, environ)
        if _may_be_there(folder)
    }
    return [folder for real, folder in found.items() if not _is_below_any(real, found)]


def folders_of(agent: Agent, environ: Mapping[str, str] = os.environ) -> list[str]:
    """The folders in which one agent keeps sessions, there or not; new ones go into the first."""
    return list(_folders(agent.home, environ))


def agent_at(file: str, environ: Mapping[str, str] = os.environ) -> Agent | None:
    """The agent in whose folder of sessions a file lies, also by a link there; else None."""
    path, real = os.path.abspath(file), os.path.realpath(file)
    for agent in AGENTS:
        for folder in _folders(agent.home, environ):
            if path.startswith(os.path.join(folder, "")) or real.startswith(_top(folder)):
                return agent
    return None


def _top(folder: str) -> str:
    return os.path.join(os.path.realpath(folder), "")


def agent_of_version_1(file: str, header: Mapping[str, Any]) -> str | None:
    """The agent that wrote a file of version 1: the owner of its folder, or pi by its header."""
    owner = agent_at(file)
    return owner.name if owner is not None else OF_VERSION_1 if says_pi(header) else None


def check_not_of_agent(file: str, environ: Mapping[str, str] = os.environ) -> None:
    """Check that a file of version 1 is not an agent's: pi wrote this version, too.

    Raises:
        ForeignFormatError: it lies where an agent keeps its sessions.
    """
    agent = agent_at(file, environ)
    if agent is None:
        return
    raise ForeignFormatError(
        f"{file} is a session of {agent.program}, as it lies where that keeps its sessions, and "
        "is never written; import it, or copy it elsewhere, and write to the copy",
        file,
        agent.program,
    )


def _folders(home: AgentHome, environ: Mapping[str, str]) -> Iterator[str]:
    if own := environ.get(home.own_variable):
        yield _path(own)
        return
    given = environ.get(home.variable)
    user = environ.get("HOME") or os.path.expanduser("~")
    top = _path(given) if given else os.path.join(user, home.default)
    yield from (os.path.join(top, folder) for folder in home.folders)


def _may_be_there(folder: str) -> bool:
    """Whether there is a folder, or one that this process may not look at, which is reported."""
    try:
        return stat.S_ISDIR(os.stat(folder).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def _path(given: str) -> str:
    return os.path.abspath(os.path.expanduser(given))


def _is_below_any(folder: str, others: Mapping[str, str]) -> bool:
    return any(folder.startswith(os.path.join(other, "")) for other in others)
