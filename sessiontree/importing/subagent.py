"""The transcript of a subagent that its agent left behind when it deleted the session.

The session has the transcript as a lane. An entry has the uuid that the agent gave its line; a line
without a uuid is known by its content.

Invariant: nothing is changed.
"""

from __future__ import annotations

import contextlib
from itertools import islice

from sessiontree.core.index import NO_ROW
from sessiontree.engine.view import View
from sessiontree.formats.base import values
from sessiontree.importing.entries import entries_of
from sessiontree.importing.source import Source
from sessiontree.importing.target import handle_of
from sessiontree.storage.backends import open_log
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.lines import rest_of_line

_CUSTOM = "custom"


def has_all(fs: FileSystem, session: str, source: Source) -> bool:
    """Whether a session has every line of a transcript."""
    with contextlib.closing(open_log(fs, session, readonly=True)) as log:
        tree = View(log).tree()
        offsets = (tree.offsets[row] for row in tree.rows_of_type(_CUSTOM))
        kept = {_content(rest_of_line(log.read, offset)) for offset in offsets} - {b""}
        for entry in islice(entries_of(source), 1, None):  # the header is made
            is_known = entry.is_made or tree.row(entry.uuid) != NO_ROW
            if entry.type == _CUSTOM and not is_known:
                is_known = _content(entry.line(handle_of)) in kept
            if not is_known:
                return False
    return True


def _content(line: bytes) -> bytes:
    """The line of the agent in a custom entry; empty for one of another program."""
    keys = values(line)
    return keys.raw("data") if keys is not None and "data" in keys else b""
