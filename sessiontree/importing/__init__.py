"""Import other agents' sessions as sessiontree files; import again to add what is new.

`source` reads a file as version 2 lines, `entries` adds what reading in place leaves out,
`target` orders the entries and makes a new session, `update` finds the entries that an
existing session lacks, and `importer` finds the session of a source.
"""

from __future__ import annotations

from sessiontree.importing.importer import Importer, ImportResult, import_session

__all__ = ["ImportResult", "Importer", "import_session"]
