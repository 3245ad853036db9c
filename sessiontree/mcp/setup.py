"""Enters this server into the configuration of an agent, and takes it out again.

Invariants: nothing but the one entry is changed; the file as it was stays beside it under another
name; a second call changes nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from sessiontree import agents
from sessiontree.agents.base import Agent
from sessiontree.errors import UsageError
from sessiontree.library.root import HOME_VARIABLE, default_root, named_store
from sessiontree.mcp import json_text, toml_text
from sessiontree.storage.atomic import create_file, replace_file
from sessiontree.storage.fs import DISK, os_errors
from sessiontree.storage.place import path_of, whole_path
from sessiontree.storage.places import shown

NAME: Final = "sessiontree"
"""The name of the entry."""


_BEFORE: Final = f".before-{NAME}-"
"""What stands between the names of a file and the time of its copy."""


AGENTS: Final[Mapping[str, Agent]] = {agent.name: agent for agent in agents.AGENTS}
"""The agents that this server can be entered with."""


class Change(NamedTuple):
    """What was done.

    Attributes:
        program: the agent.
        file: its configuration.
        copy: the file as it was; None if there was none, or nothing had to be changed.
        is_changed: whether the file was changed.
        note: what else the user has to do; empty for nothing.
    """

    program: str
    file: str
    copy: str | None
    is_changed: bool
    note: str = ""


def install(name: str, options: Sequence[str]) -> Change:
    """Enter the server with an agent, to be started with these options.

    Raises:
        UsageError: the configuration cannot be read, or not be changed without other changes.
        StorageError: the system refuses a read or a write.
    """
    agent = AGENTS[name]
    words = [*_program(), "mcp", *options, *_root(options)]
    entry = {**agent.mcp.kind, "command": words[0], "args": words[1:]}
    put = toml_text.with_table if _is_toml(agent) else json_text.with_entry
    return _changed(agent, lambda text: put(text, agent.mcp.group, NAME, entry))


def uninstall(name: str) -> Change:
    """Take the entry out again; errors as `install`.

    A file that `install` made, and that has nothing else, gets the name of a copy.
    """
    agent = AGENTS[name]
    take = toml_text.without_table if _is_toml(agent) else json_text.without_entry
    if not os.path.lexists(_path(agent)):
        return Change(agent.program, _path(agent), None, False)
    if _is_made_here(agent):
        copy = _path(agent) + _suffix()
        with os_errors(_path(agent), "rename"):
            DISK.replace(_path(agent), copy)
            DISK.sync_folder(os.path.dirname(_path(agent)))
        return Change(agent.program, _path(agent), copy, True, "The file had nothing else")
    return _changed(agent, lambda text: take(text, agent.mcp.group, NAME))._replace(note="")


def _path(agent: Agent) -> str:
    """The configuration of an agent."""
    top = os.environ.get(agent.mcp.variable) or os.path.join("~", agent.mcp.folder)
    return os.path.abspath(os.path.join(os.path.expanduser(top), agent.mcp.file))


def _is_made_here(agent: Agent) -> bool:
    """Whether `install` made the configuration, and nobody wrote anything else into it."""
    put = toml_text.with_table if _is_toml(agent) else json_text.with_entry
    take = toml_text.without_table if _is_toml(agent) else json_text.without_entry
    empty = take(put("", agent.mcp.group, NAME, {"command": NAME}), agent.mcp.group, NAME)
    folder, file = os.path.split(_path(agent))
    copies = sorted(one for one in os.listdir(folder) if one.startswith(f"{file}{_BEFORE}"))
    states = [_read(os.path.join(folder, one)) for one in (*copies[:1], file)]
    if os.path.islink(_path(agent)):
        return False
    try:
        texts = [(state or b"").decode() for state in states]
        return all(text != empty and take(text, agent.mcp.group, NAME) == empty for text in texts)
    except (UnicodeError, UsageError):
        return False


def _is_toml(agent: Agent) -> bool:
    return agent.mcp.file.endswith(".toml")


def _program() -> list[str]:
    """How to start this program again, wherever it is started from."""
    started = os.path.abspath(sys.argv[0])
    if os.path.basename(started) == NAME and os.access(started, os.X_OK):
        return [started]
    return [sys.executable, "-m", NAME]


def _root(options: Sequence[str]) -> list[str]:
    """The store of this user where a variable names it, which the agent may not pass on."""
    if "--root" in options or not (named_store() or os.environ.get(HOME_VARIABLE)):
        return []
    return ["--root", whole_path(shown(path_of(default_root())))]


def _changed(agent: Agent, change: Callable[[str], str]) -> Change:
    path = _path(agent)
    before = _read(path)
    try:
        after = change((before or b"").decode()).encode()
    except (UnicodeError, UsageError) as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeError) else str(error)
        raise UsageError(
            f"cannot change {path}, the configuration of {agent.program}: {why}; nothing was "
            f"changed: repair it, or enter {NAME} below {agent.mcp.group!r} yourself"
        ) from error
    if after == (before or b""):
        return Change(agent.program, path, None, False, agent.mcp.note)
    if before is None:
        with os_errors(path, "make the folder of"):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        create_file(DISK, path, iter([after]))
        return Change(agent.program, path, None, True, agent.mcp.note)
    suffix = _suffix()
    with os_errors(path, "change"):
        mode = os.stat(path).st_mode
    if _read(path) != before:
        raise UsageError(f"another program just changed {path}; nothing was changed: try again")
    replace_file(DISK, path, suffix, iter([after]))
    with os_errors(path, "change the permissions of"):
        os.chmod(path, mode & 0o7777)
    return Change(agent.program, path, os.path.realpath(path) + suffix, True, agent.mcp.note)


def _suffix() -> str:
    """The end of the name of a copy; the names of copies have the order of their times."""
    return f"{_BEFORE}{datetime.now(UTC).strftime('%Y%m%dT%H%M%S%fZ')}"


def _read(path: str) -> bytes | None:
    try:
        with os_errors(path, "read"), open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
