"""Commands to copy, which go on from an entry of a session."""

from __future__ import annotations

import shlex

from sessiontree.catalog.listing import SessionInfo
from sessiontree.storage.place import whole_path

ENTRY = "{uuid}"
"""What stands for the uuid of the entry; the page puts in only one without special characters."""


def commands_for(one: SessionInfo) -> list[dict[str, str]]:
    """The commands, each with what it does. Another agent's file is never written."""
    path = whole_path(one.file)
    if any(not character.isprintable() for character in path):
        return []
    file = shlex.quote(path)
    fork = f"sessiontree fork {file} --at {ENTRY}"
    found = [("Fork: copy the path to this entry into a new session", fork)]
    if one.agent is None:
        found.append(("Label this entry", f"sessiontree label {file} {ENTRY} NAME"))
        branch = f"sessiontree branch {file} {ENTRY} && sessiontree resume {file}"
        found.append(("Resume here, in the same file", branch))
    found.append(("Resume here, in a fork", f'sessiontree resume "$({fork})"'))
    found.append(("Resume at the end of the session", f"sessiontree resume {file}"))
    return [{"does": does, "command": command} for does, command in found]
