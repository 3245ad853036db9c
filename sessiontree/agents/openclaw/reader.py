"""OpenClaw's sessions: pi's entries below a header of version 4."""

from __future__ import annotations

from sessiontree.agents import base
from sessiontree.agents.pi.reader import PiReader


class OpenClawReader(PiReader):
    versions = (4,)

    def recognises(self, head: bytes) -> bool:
        """Whether the first object is a header of version 4; an entry alone is taken for pi's."""
        first = base.first_object(head) if b'"session"' in head else None
        return first is not None and self.is_header(first)
