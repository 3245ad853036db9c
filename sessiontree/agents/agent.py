"""What is known of one agent: its name, its homes, where it looks for sessions, how it resumes one.

Invariants: nothing here reads a session, so that importing all agents is cheap; an agent touches
the disk only through `Files`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from sessiontree.core.header import AGENT_SESSION_KEY, FORKED_FROM, conversation_in, stem_of

if TYPE_CHECKING:
    from sessiontree.agents.base import Reader

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NOTHING: Final[Mapping[str, Any]] = {}


def is_uuid(text: str) -> bool:
    """True if a text is a UUID as agents write it, in lower case."""
    return _UUID.fullmatch(text) is not None


def uuid_in_name(file: str) -> str | None:
    """The UUID that a session file is named by; None for another name."""
    stem = os.path.basename(file).removesuffix(".jsonl")
    return stem if is_uuid(stem) else None


def session_id(agent: Agent | None, file: str, given: str, head: bytes) -> str:
    """The id of a session of an agent, or of version 1.

    That is the one of the conversation that it was converted from, else its `own_id`.

    Args:
        agent: the agent; None for a file of version 1.
        file: the file's path or name.
        given: the id in the lines; empty if they have none.
        head: how the file starts.
    """
    own = own_id(agent, file, given)
    return conversation_in(head, own) or own


def own_id(agent: Agent | None, file: str, given: str) -> str:
    """The id by which an agent knows a session; the arguments are those of `session_id`.

    That is the one in the file's name where the agent goes by it, else the one in the lines, else
    the name.
    """
    stem = stem_of(file)
    given = given.encode("utf-8", "replace").decode()
    own = None if agent is None else agent.id_in_name(stem, given)
    return own or given or stem


def ids_of_file(agent: Agent | None, file: str, given: str) -> dict[str, str]:
    """The metadata of a session that its file's name decides; the arguments are those of `own_id`.

    A fork that repeats the lines of its original has the id of that in them.
    """
    own = own_id(agent, file, given)
    fork = {FORKED_FROM: given} if given and given != own else {}
    return {AGENT_SESSION_KEY: own, **fork}


def is_of_subagent(agent: Agent | None, file: str) -> bool:
    """True if a file, by its name, has one subagent of a session."""
    return agent is not None and agent.is_of_subagent(stem_of(file))


def id_above(file: str, id: str) -> str:
    """The id of the session that started the one with an id and this file."""
    return id.removesuffix(f".{stem_of(file)}")


class AgentHome(NamedTuple):
    """Where an agent keeps its sessions.

    A variable that is empty counts as unset, and a value may start with `~`.
    """

    variable: str  # the environment variable that names the home
    default: str  # the home without it, below the user's
    folders: tuple[str, ...]  # the folders with sessions, below the home
    own_variable: str = ""  # the variable that names the folder of sessions itself
    forks: tuple[str, ...] = ()  # homes of forks of the agent, below the user's; without a variable


class McpEntry(NamedTuple):
    """Where an agent keeps the MCP servers that it starts."""

    variable: str  # the environment variable that names the folder
    folder: str  # the folder without it, below the user's home
    file: str  # the file, below the folder
    group: str  # the key of the servers
    kind: Mapping[str, Any] = _NOTHING  # the first keys of each entry
    note: str = ""  # a further step for the user
    is_in_one: bool = False  # whether `command` is a list with the arguments, not a word


class Files(Protocol):
    """Looks at the disk for an agent, which never touches it; nothing it cannot read is there."""

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted."""

    def is_folder(self, path: str) -> bool:
        """True if a path leads to a folder."""

    def content(self, path: str, largest: int) -> bytes | None:
        """The bytes of a regular file of at most that size."""


class Destination(NamedTuple):
    """The folder for a new session of an agent, and a file that the agent needs to find it."""

    folder: str
    side_file: tuple[str, bytes] | None = None


class Agent(Protocol):
    """Everything that is known of one agent; a value here is the default of all agents.

    Importing an agent's folder is cheap: its reader and its writer are imported on first use.
    """

    name: str  # short and fixed, such as `claude-code`; the prefix of each `customType`
    program: str  # the agent's name for people
    command: str  # the program that runs it, and its name where there is little room
    home: AgentHome
    mcp: McpEntry = McpEntry("", "", "", "")  # without a file: the server is not entered
    is_target: bool = True  # whether `writer` makes sessions for it
    is_in_files: bool = False  # whether files in one folder with the same id are one session
    cd_option: str = ""  # of a resume in another folder; empty: the session is converted
    looks_in_folder: bool = False  # whether a resume opens only what is in its `destination`
    names_origins: bool = True  # whether a fork says which session it copies answers from
    has_uuids: bool = False  # whether lines have uuids, so that the end of a file gives the same
    keeps_subagents: bool = False  # whether each subagent that ended has a file of its own

    @property
    def reader(self) -> Reader:
        """Reads the agent's session files."""

    def writer(self, source: Any) -> Any:
        """The `agents.writing.Writer` of a session to convert for the agent, if it is a target."""
        return None

    def resume(self, id: str, file: str) -> list[str]:
        """The arguments of `command` that continue a session, given its id and its file."""

    def take_in(self, file: str) -> list[str]:
        """The arguments of `command` that let the agent find a file that was made for it.

        None if it looks where the file is.
        """
        return []

    def own_id(self, file: str) -> str | None:
        """The id by which the agent knows a session, as the file's name gives it; else None."""
        return None

    def opens(self, file: str) -> bool:
        """True if the agent's resume command, given the id in this file, opens it."""
        return True

    def id_in_name(self, stem: str, given: str) -> str | None:
        """The session's id where the file's name decides it, not the lines; else None.

        Args:
            stem: the file's name without its suffix.
            given: the id in the lines.
        """
        return None

    def is_of_subagent(self, stem: str) -> bool:
        """True if a file of this name has one subagent of a session."""
        return False

    def facts_file(self, file: str) -> str | None:
        """The path of the file, there or not, that describes the session in a file; else None."""
        return None

    def unarchive(self, id: str, file: str) -> str | None:
        """The command that a session needs before its resume; None if it is not archived."""
        return None

    def provider(self, home: str, files: Files) -> str | None:
        """The provider of models that the user set, where a session has to name it; else None.

        Args:
            home: the first of the agent's folders of sessions.
        """
        return None

    def destination(
        self, home: str, cwd: str, name: str, environ: Mapping[str, str], files: Files
    ) -> Destination:
        """Where the agent looks for a session of a working directory; by default in its home.

        Args:
            home: the first of the agent's folders of sessions.
            cwd: the real path of the working directory.
            name: the name that the agent gives the file.
        """
        return Destination(home)
