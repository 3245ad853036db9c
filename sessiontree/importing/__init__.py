"""Importing: sessions of other agents made sessions of ours, again and again.

`source` reads them as lines of ours, `carried` adds what reading in place leaves out,
`hanging` puts them in order, `target` makes a session of them, `grown` finds what one that
is there lacks, and `importer` finds the place.
"""

from __future__ import annotations

from sessiontree.importing.importer import Importer, ImportResult, import_session

__all__ = ["ImportResult", "Importer", "import_session"]
