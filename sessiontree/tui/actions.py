"""What keys write: each opens the session to write, does one thing, and closes it.

Each function returns what to tell. Invariants: a function raises before it writes anything, or what
it says is done; no file is ever replaced.
"""

from __future__ import annotations

import os

from sessiontree.catalog.open import open_to_write
from sessiontree.core.display import one_line
from sessiontree.core.entry import MAIN
from sessiontree.session import Session
from sessiontree.storage.atomic import create_file
from sessiontree.storage.fs import DISK
from sessiontree.storage.place import whole_path
from sessiontree.store import Store

_SHORT = 8


def branch(file: str, uuid: str) -> str:
    """Go on from an entry, in the same file."""
    session, _ = open_to_write(file, MAIN)
    with session, session.locked():
        session.branch(uuid)
    return f"the next entry goes below {_named(uuid)}"


def label(file: str, uuid: str, text: str) -> str:
    """Give an entry a label, or remove its label where the text is empty."""
    session, _ = open_to_write(file, MAIN)
    with session, session.locked():
        session.label(uuid, text or None)
    return f"{_named(uuid)} is labelled {text}" if text else f"{_named(uuid)} has no label now"


def fork(file: str, uuid: str) -> str:
    """Copy the path to an entry into a new session of the store."""
    return f"copied the path to {_named(uuid)} into {Store().fork(whole_path(file), uuid)}"


def export(file: str, uuid: str, target: str) -> str:
    """Write the transcript up to an entry as Markdown into a new file.

    A name that ends in `.html` gets a page with the whole session, which opens at the entry.
    """
    path = os.path.abspath(os.path.expanduser(target))
    is_page = path.casefold().endswith((".html", ".htm"))
    with Session.open(file, readonly=True) as session:
        if is_page:
            parts = session.to_html(uuid)
        else:
            parts = session.to_markdown(uuid, beside=os.path.dirname(path))
        create_file(DISK, path, (part.encode("utf-8", "replace") for part in parts))
    return f"exported as {'a page' if is_page else 'Markdown'} to {path}"


def trash(file: str) -> str:
    """Move a session to the trash of the store."""
    Store().trash(whole_path(file))
    return "moved to the trash; 'sessiontree restore' brings it back"


def _named(uuid: str) -> str:
    return one_line(uuid, 100)[:_SHORT]
