"""What many sessions add up to, as a whole and by agent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from sessiontree.catalog.listing import SessionInfo
from sessiontree.catalog.places import OWN
from sessiontree.core.usage import Usage


class Totals(msgspec.Struct):
    """The sums of some sessions.

    Attributes:
        sessions: the number of sessions.
        turns: the number of prompts.
        bytes: the size of the session files.
        usage: the tokens, and the cost that the agents reported.
        not_counted: the number of sessions whose turns and tokens are not known.
    """

    sessions: int = 0
    turns: int = 0
    bytes: int = 0
    usage: Usage = Usage()
    not_counted: int = 0

    def add(self, one: SessionInfo) -> None:
        """Add a session."""
        self.sessions += 1
        self.bytes += one.bytes
        self.turns += one.turns or 0
        self.not_counted += one.turns is None
        if one.usage is not None:
            self.usage += Usage(
                one.usage["input"],
                one.usage["output"],
                one.usage["cacheRead"],
                one.usage["cacheWrite"],
                one.usage["cost"],
            )

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that `stats --json` prints."""
        return {
            "sessions": self.sessions,
            "turns": self.turns,
            "bytes": {"file": self.bytes},
            "usage": self.usage.as_dict(),
            "notCounted": self.not_counted,
        }


def totals_of(sessions: Iterable[SessionInfo]) -> tuple[Totals, dict[str, Totals]]:
    """The sums of all sessions, and by agent, the agent with the most sessions first."""
    total = Totals()
    agents: dict[str, Totals] = {}
    for one in sessions:
        total.add(one)
        agents.setdefault(one.made_by or OWN, Totals()).add(one)
    most_first = sorted(agents.items(), key=lambda item: (-item[1].sessions, item[0]))
    return total, dict(most_first)
