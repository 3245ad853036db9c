"""What a list calls a session: its title, its id, its agent, its model, and what is special."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sessiontree.catalog.listing import SessionInfo
from sessiontree.catalog.lookup import short_id
from sessiontree.catalog.places import OWN
from sessiontree.core.display import one_line

_MOST: Final = 200
_DATE: Final = re.compile(r"-(\d{8}|\d{4}-\d\d-\d\d)$")


def title_of(one: SessionInfo, width: int) -> str:
    """The name of a session, or else its first prompt."""
    return one_line(one.name or one.first_message or "(no messages)", width)


def shown_id(id: str, ids: Mapping[str, str]) -> str:
    """An id as a list shows it, and as commands take it."""
    return one_line(ids.get(id) or short_id(id), _MOST)


def note_of(one: SessionInfo, ids: Mapping[str, str]) -> str:
    """What is special about a session; empty for most."""
    notes = [f"lane {one_line(one.lane)}"] if one.lane != "main" else []
    notes += [f"copy of {shown_id(one.copy_of, ids)}"] if one.copy_of is not None else []
    notes += ["imported"] if one.imported_from is not None else []
    notes += [f"held by {one_line(one.writer, 200)}"] if one.writer is not None else []
    return ", ".join(notes)


def agent_of(one: SessionInfo) -> str:
    """The short name of the agent that held the conversation."""
    return one_line(one.made_by or OWN)


def model_of(one: SessionInfo) -> str:
    """The model without its provider and its date; empty if it is not known."""
    return _DATE.sub("", one_line((one.model or "").rpartition("/")[2]))
