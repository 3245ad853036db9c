"""Sessions of any agent that speaks the Agent Client Protocol, imported into a store.

An agent is started, asked for a session, and ended. What it replays is written to a temporary file
in its order, and that file is imported (`agents.acp`), so a second import adds what is new.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from sessiontree.agents.acp.reader import REPLAY, lacks
from sessiontree.agents.writing import json_of
from sessiontree.importing.acp_client import AcpAgent, AcpSession
from sessiontree.importing.importer import Importer, ImportResult


class AcpImport(NamedTuple):
    """An imported session, and what the agent did not give of it."""

    result: ImportResult
    lacks: list[str]


def chosen(agent: AcpAgent, ids: Sequence[str]) -> list[AcpSession]:
    """The sessions of some ids; all that the agent lists without an id.

    An agent that cannot list may still load a session by its id, from the current directory.

    Raises:
        AgentProtocolError: no id is given and the agent cannot list its sessions, or it fails.
    """
    listed = {each.id: each for each in agent.sessions()} if agent.can_list or not ids else {}
    if not ids:
        return list(listed.values())
    return [listed.get(id, AcpSession(id, os.getcwd(), None, None)) for id in ids]


def imported(
    agent: AcpAgent, sessions: Sequence[AcpSession], importer: Importer, *, dry_run: bool
) -> Iterator[AcpImport]:
    """Import sessions of a running agent, one after another.

    Raises:
        AgentProtocolError: the agent cannot load one.
        StorageError: the store cannot be written.
    """
    take = importer.look if dry_run else importer.take
    for session in sessions:
        updates = agent.load(session)
        about = {"name": agent.name, "version": agent.version}
        first = {
            "type": REPLAY,
            "sessionId": session.id,
            "cwd": session.cwd,
            "title": session.title,
            "updatedAt": session.updated,
            "agent": about,
        }
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "replay.jsonl")
            with open(file, "wb") as made:
                made.writelines(json_of(line) + b"\n" for line in (first, *updates))
            result = take(file)
        yield AcpImport(replace(result, source=agent.program), lacks(updates))
