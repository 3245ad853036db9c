"""Names that OpenCode's reader and writer share."""

from __future__ import annotations

from typing import Final

SESSION: Final = "ses_"
"""How the id of a session begins."""

UNTITLED: Final = "New session - "
"""How the title of a session begins that has none yet."""
