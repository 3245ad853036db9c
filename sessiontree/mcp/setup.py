"""Enters this server into the configuration of an agent, and takes it out again.

JSON is written anew as it is laid out; TOML is changed by text, so its comments stay.

Invariants: no value changes but the one entry, and keys keep their order; a text that does not
allow this is refused, with the entry to paste; the file as it was stays beside it under another
name; a second call changes nothing.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from sessiontree import agents
from sessiontree.agents.agent import Agent
from sessiontree.errors import UsageError
from sessiontree.library.homes import homes_in
from sessiontree.library.root import HOME_VARIABLE, default_root, named_store
from sessiontree.storage.atomic import create_file, replace_file
from sessiontree.storage.fs import DISK, os_errors
from sessiontree.storage.place import path_of, whole_path
from sessiontree.storage.places import shown

NAME: Final = "sessiontree"
"""The name of the entry."""

Entry = Mapping[str, Any]


AGENTS: Final[Mapping[str, Agent]] = {
    agent.name: agent for agent in agents.AGENTS if agent.mcp.file
}
"""The agents that this server can be entered with."""


class ConfigChange(NamedTuple):
    """A change of the configuration `file` of the agent `program`.

    `copy` is the file as it was: None if there was none, or nothing had to be changed. `note` is
    what else the user has to do.
    """

    program: str
    file: str
    copy: str | None
    is_changed: bool
    note: str = ""


def install(name: str, options: Sequence[str]) -> ConfigChange:
    """Enter the server with an agent, to be started with these options.

    Raises:
        UsageError: the configuration cannot be read, or not be changed without other changes.
        StorageError: the system refuses a read or a write.
    """
    agent = AGENTS[name]
    words = [*_program(), "mcp", *options, *_root(options)]
    how = {"command": words} if agent.mcp.is_in_one else {"command": words[0], "args": words[1:]}
    return _changed(agent, {**agent.mcp.kind, **how})


def uninstall(name: str) -> ConfigChange:
    """Take the entry out again; errors as `install`."""
    return _changed(AGENTS[name], None)._replace(note="")


def _path(agent: Agent) -> str:
    """The configuration of an agent."""
    homes = homes_in(os.environ.get(agent.mcp.variable))
    top = homes[0] if homes else os.path.join("~", agent.mcp.folder)
    return os.path.abspath(os.path.join(os.path.expanduser(top), agent.mcp.file))


def _program() -> list[str]:
    """The words that start this program again, from any folder."""
    started = os.path.abspath(sys.argv[0])
    if os.path.basename(started) == NAME and os.access(started, os.X_OK):
        return [started]
    return [sys.executable, "-m", NAME]


def _root(options: Sequence[str]) -> list[str]:
    """The store that a variable names, which the agent may not pass on."""
    if "--root" in options or not (named_store() or os.environ.get(HOME_VARIABLE)):
        return []
    return ["--root", whole_path(shown(path_of(default_root())))]


def _changed(agent: Agent, entry: Entry | None) -> ConfigChange:
    """Write the configuration with an entry; None: without one."""
    path = _path(agent)
    before = _read(path)
    change = _toml_with if agent.mcp.file.endswith(".toml") else _json_with
    try:
        after = change((before or b"").decode(), agent.mcp.group, entry).encode()
    except ValueError as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeError) else str(error)
        how = f"take {NAME} out yourself" if entry is None else f"add {_snippet(agent, entry)}"
        raise UsageError(
            f"cannot change {path}, the configuration of {agent.program}: {why}; nothing was "
            f"changed: {how}"
        ) from error
    if after == (before or b""):
        return ConfigChange(agent.program, path, None, False, agent.mcp.note)
    if before is None:
        with os_errors(path, "make the folder of"):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        create_file(DISK, path, iter([after]))
        return ConfigChange(agent.program, path, None, True, agent.mcp.note)
    suffix = f".before-{NAME}-{datetime.now(UTC).strftime('%Y%m%dT%H%M%S%fZ')}"
    with os_errors(path, "change"):
        mode = os.stat(path).st_mode
    if _read(path) != before:
        raise UsageError(f"another program just changed {path}; nothing was changed: try again")
    replace_file(DISK, path, suffix, iter([after]))
    with os_errors(path, "change the permissions of"):
        os.chmod(path, mode & 0o7777)
    return ConfigChange(agent.program, path, os.path.realpath(path) + suffix, True, agent.mcp.note)


def _read(path: str) -> bytes | None:
    try:
        with os_errors(path, "read"), open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _snippet(agent: Agent, entry: Entry) -> str:
    """The entry on one line, as an error shows it."""
    if agent.mcp.file.endswith(".toml"):
        keys = _as_toml(entry).strip().replace("\n", ", ")
        return f"this below [{agent.mcp.group}] yourself: {NAME} = {{{keys}}}"
    return f'this below {agent.mcp.group!r} yourself: "{NAME}": {json.dumps(entry)}'


def _with(config: dict[str, Any], group: str, entry: Entry | None) -> dict[str, Any]:
    """A configuration with the entry, which keeps what a user added to an older one."""
    servers = config.get(group, {})
    if not isinstance(servers, dict):
        raise UsageError(f"{group!r} in it is not a table of servers")
    others = {name: server for name, server in servers.items() if name != NAME}
    if entry is None:
        return {**config, group: others} if group in config else config
    old = servers.get(NAME)
    new = {**old, **entry} if isinstance(old, dict) else dict(entry)
    return {**config, group: {**servers, NAME: new}}


def _json_with(text: str, group: str, entry: Entry | None) -> str:
    bare = text.removeprefix("\ufeff")
    try:
        config = json.loads(bare, object_pairs_hook=_members) if bare.strip() else {}
    except (json.JSONDecodeError, RecursionError) as error:
        raise UsageError(f"it is not JSON, or has comments: {error}") from error
    if not isinstance(config, dict):
        raise UsageError("it is not an object")
    changed = _with(config, group, entry)
    if changed == config:
        return text
    unit = re.search(r"\n([ \t]+)", bare)
    made = json.dumps(
        changed, indent=unit[1] if unit else 2, ensure_ascii=text.isascii(), allow_nan=False
    )
    if not bare.strip() or bare.endswith("\n"):
        made += "\n"
    mark = text[: len(text) - len(bare)]
    return mark + (made.replace("\n", "\r\n") if "\r\n" in bare else made)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(key for at, (key, _) in enumerate(pairs) if key in dict(pairs[:at]))
        raise UsageError(f"it has the key {twice!r} twice")
    return members


def _toml_with(text: str, group: str, entry: Entry | None) -> str:
    config = _parsed_toml(text)
    wanted = _with(config, group, entry)
    if wanted == config:
        return text
    # a header, then all lines before the next one, without the comments that lead to that
    header = rf"""[ \t]*\[\s*["']?{group}["']?\s*\.\s*["']?{NAME}["']?\s*"""
    rest = r"(?:(?:[ \t]*(?:#.*)?\r?\n)*(?![ \t]*\[)[ \t]*[^\s#].*\n?)*"
    if entry is None:
        tables = re.compile(rf"(?m)(?:(?<=\n)\r?\n)?^{header}[\].].*\n?{rest}")
        made = tables.sub("", text)
    elif NAME not in config.get(group, {}):
        end = "\r\n" if "\r\n" in text else "\n"
        gap = ("" if text.endswith("\n") else end) + end if text.strip() else ""
        table = f"[{group}.{NAME}]\n{_as_toml(entry)}".replace("\n", end)
        made = text + gap + table
    else:
        old = re.compile(rf"(?m)^({header}\].*\n?)({rest})")
        keys = re.compile(rf"""(?m)^[ \t]*["']?(?:{"|".join(entry)})["']?[ \t]*=.*\n?""")
        made = old.sub(lambda found: found[1] + _as_toml(entry) + keys.sub("", found[2]), text, 1)
    try:
        is_right = {group: {}} | _parsed_toml(made) == {group: {}} | wanted
    except UsageError:
        is_right = False
    if not is_right:
        raise UsageError(f"[{group}.{NAME}] cannot be changed without changing other lines")
    return made


def _parsed_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"it is not TOML: {error}") from error


def _as_toml(entry: Entry) -> str:
    """The keys of a table, whose texts are written as those of JSON."""
    shown = {key: json.dumps(value, ensure_ascii=False) for key, value in entry.items()}
    return "".join(f"{key} = {value}\n" for key, value in shown.items()).replace("\x7f", "\\u007f")
