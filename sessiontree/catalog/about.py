"""What is known about one session: its facts, and the agent that wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from sessiontree.context.settings import header_settings
from sessiontree.core.damage import damage_row
from sessiontree.core.entry import MAIN, decode_object
from sessiontree.core.header import AGENT_SESSION_KEY, is_version_1
from sessiontree.core.notes import Note
from sessiontree.errors import TooMuchError
from sessiontree.operations.outline import count_branches
from sessiontree.operations.turns import SessionOutline
from sessiontree.session import Session
from sessiontree.storage.files import Report


class Facts(msgspec.Struct, frozen=True, rename="camel"):
    """The facts about one session, as `show --json` prints them.

    Attributes:
        file: the path of the file.
        id: the id of the session.
        name: the name of the session, or None.
        cwd: the working directory in the header.
        created: the time in the header, or None.
        entries: the number of entries, with the header.
        branches: the number of branches, without scratch lanes that were never kept.
        lanes: the names of the lanes.
        leaf: the uuid of the current leaf.
        model: the model at the leaf, or that of the metadata; None if none is known.
        agent_session: the agent's own id of the session, or None.
        parent_session: the session that this one is a copy of, as stored; or None.
        metadata: the metadata of the session.
        damage: what is wrong with the file, each with the next step.
        notes: the lines of unknown types, one note a type.
    """

    file: str | None
    id: str
    name: str | None
    cwd: Any
    created: str | None
    entries: int
    branches: int
    lanes: list[str]
    leaf: str
    model: Mapping[str, Any] | None
    agent_session: Any
    parent_session: Any
    metadata: dict[str, Any]
    damage: list[dict[str, str | int]]
    notes: list[Note]


def facts_about(session: Session, report: Report) -> Facts:
    """The facts about a session; `report` is called if its context is too large to read."""
    tree, metadata = session.reader.index(), session.metadata
    return Facts(
        file=session.file,
        id=session.id,
        name=session.name,
        cwd=session.header.get("cwd"),
        created=session.header.timestamp,
        entries=len(tree),
        branches=count_branches(session.reader),
        lanes=[lane or MAIN for lane in tree.lanes],
        leaf=session.leaf.uuid,
        model=_model(session, report) or header_settings({"metadata": metadata}).get("model"),
        agent_session=metadata.get(AGENT_SESSION_KEY),
        parent_session=session.header.get("parentSession"),
        metadata=metadata,
        damage=[damage_row(found) for found in session.damage],
        notes=session.notes,
    )


def _model(session: Session, report: Report) -> Mapping[str, Any] | None:
    """The model at the leaf; None, with a report, where the context is too much."""
    try:
        return session.context().model
    except TooMuchError as error:
        report(str(error))
        return None


def with_agent(outline: SessionOutline, session: Session) -> SessionOutline:
    """The outline with the agent that a file of version 1 belongs to, as a list says it."""
    if outline.agent is not None or session.file is None:
        return outline
    header = decode_object(session.original(session.header))
    if not is_version_1(header):
        return outline
    from sessiontree.catalog.homes import agent_of_version_1  # few files are of version 1

    return replace(outline, agent=agent_of_version_1(session.file, header))
