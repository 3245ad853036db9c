"""Where the agents of this user keep their sessions, by their environment variables.

An agent's variable may name several homes, with commas between; new sessions go into the first.

Invariant: nothing is made, and a home that is not there is no error.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from sessiontree.agents import AGENTS, OF_VERSION_1
from sessiontree.agents.agent import Agent, AgentHome
from sessiontree.core.header import says_pi
from sessiontree.errors import ForeignFormatError
from sessiontree.storage.names import is_database


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
    return next(
        (agent for agent in AGENTS if _is_in_any(file, _folders(agent.home, environ))), None
    )


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


def homes_in(value: str | None) -> list[str]:
    """The paths of the homes that the value of an agent's variable names, with commas between."""
    parts = map(str.strip, (value or "").split(","))
    return [os.path.abspath(os.path.expanduser(part)) for part in parts if part]


def missing_folders(environ: Mapping[str, str] = os.environ) -> list[tuple[str, str]]:
    """The folders for sessions of homes without any, each with the variable that names it, or ''.

    An agent that is not installed has such a home.
    """
    homes = (
        home
        for agent in AGENTS
        for home in _homes(agent.home, environ)
        if not home.top.endswith(agent.home.forks)  # a fork need not be there
    )
    return [
        (home.folders[0], home.variable)
        for home in homes
        if not any(map(_may_be_there, home.folders))
    ]


def choosing_home(agent: Agent, file: str, environ: Mapping[str, str] = os.environ) -> list[str]:
    """The words before an agent's command that name the home of a file; none if it has one home."""
    homes = _homes(agent.home, environ)
    if len(homes) < 2 or not homes[0].variable:
        return []
    own = next((home for home in homes if _is_in_any(file, home.folders)), homes[0])
    return ["env", f"{own.variable}={own.top}"]


def with_tilde(path: str) -> str:
    """A path with `~` for the user's home, as people write it."""
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if f"{path}/".startswith(f"{home}/") else path


class _Home(NamedTuple):
    variable: str  # that names it; empty: none does
    top: str
    folders: list[str]  # those with sessions


def _homes(home: AgentHome, environ: Mapping[str, str]) -> list[_Home]:
    """The homes of an agent, there or not."""
    if own := homes_in(environ.get(home.own_variable)):
        return [_Home(home.own_variable, folder, [folder]) for folder in own]
    variable, tops = home.variable, homes_in(environ.get(home.variable))
    if not tops:
        user = environ.get("HOME") or os.path.expanduser("~")
        variable = ""
        tops = [os.path.join(user, default) for default in (home.default, *home.forks)]
    return [
        _Home(variable, top, [os.path.join(top, folder) for folder in home.folders]) for top in tops
    ]


def _folders(home: AgentHome, environ: Mapping[str, str]) -> Iterator[str]:
    return (folder for one in _homes(home, environ) for folder in one.folders)


def _is_in_any(file: str, folders: Iterable[str]) -> bool:
    """True if a file lies in one of some folders, by its path or where its links lead."""
    path, real = os.path.abspath(file), os.path.realpath(file)
    return any(
        path.startswith(os.path.join(folder, ""))
        or real.startswith(os.path.join(os.path.realpath(folder), ""))
        for folder in folders
    )


def _may_be_there(folder: str) -> bool:
    """Whether there is a folder, or one that this process may not look at, or a database."""
    if is_database(folder):
        return True
    try:
        return stat.S_ISDIR(os.stat(folder).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def _is_below_any(folder: str, others: Mapping[str, str]) -> bool:
    return any(folder.startswith(os.path.join(other, "")) for other in others)
