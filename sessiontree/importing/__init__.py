"""Import other agents' sessions as sessiontree files; import again to add what is new."""

from __future__ import annotations

from sessiontree.importing.importer import Importer, ImportResult, import_session

__all__ = ["ImportResult", "Importer", "import_session"]
